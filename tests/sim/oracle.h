/*
 * oracle.h - the invariants, checked without knowledge of the implementation.
 *
 * The oracle shares no code with the engine. It has its own list of events, its own fold of each
 * generation, and the last state of the stores; it is shown the stores after every write, and
 * reports the first violation. The numbers are those of design.md, section 3:
 *
 *   G1 an event comes with its row       G3 order, per stream or of the log
 *   G4 exactly once                      G5 no offset passes what is not applied
 *   G6 tokens: late owners are refused   G7 tenants do not block each other
 *   G8 nothing is dropped, dead rows stay
 *   G9 every build gives the same bytes  G12 a known id has its first place
 *
 * The first violation is kept in `wrong`; nothing after it is checked.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "rules.h"

#include "../../src/base/limits.h"

enum {
    LOOK_GENERATIONS = 24,
    LOOK_ROWS = SIM_EVENTS * (RULE_NAMES + 2), /* including the publisher's lane: mail.c */
    LOOK_LEASES = 64,
    LOOK_LANES = RULE_NAMES + 1, /* 0 is "*", then the projections' */
    ORACLE_FENCES = 40,
    ORACLE_GRANTS = 4096,
    ORACLE_VERSIONS = 64
};

/* --- the state of the stores ------------------------------------------------------------------ */

typedef enum stored_state {
    LOOK_CATCHING_UP,
    LOOK_LIVE,
    LOOK_PAUSED,
    LOOK_FAILED,
    LOOK_RETIRED
} stored_state;

typedef struct stored_view {
    char tenant[8], id[16], data[128];
} stored_view;

typedef struct stored_generation {
    int64_t id;
    int name, version, number;
    bool by_log, active;
    stored_state state;
    int64_t era, position, seam;
    int64_t applied, ignored, skipped;
    uint8_t digest[16];
    int64_t applied_seq[SIM_STREAMS], next_seq[SIM_STREAMS];
    struct {
        bool own; /* it has its own cursor */
        int64_t position, waiting;
    } tenants[SIM_TENANTS];
    stored_view views[SIM_VIEWS];
    int view_count;
} stored_generation;

typedef struct stored_fence {
    char scope[64];
    int64_t token;
} stored_fence;

typedef struct stored_views {
    stored_generation items[LOOK_GENERATIONS];
    int count;
    stored_fence fences[ORACLE_FENCES]; /* of the scopes that the oracle knows */
    int fence_count;
} stored_views;

typedef enum look_status { LOOK_PENDING, LOOK_PROCESSING, LOOK_FAILING, LOOK_DEAD } look_status;

typedef struct stored_row {
    bool there;
    look_status status;
    bool skip;
    int attempts;
    int partition;
} stored_row;

typedef struct stored_rows {
    stored_row at[LOOK_LANES][SIM_EVENTS + 1]; /* by lane and position */
    int count;
} stored_rows;

typedef struct stored_lease {
    char key[64];
    int partition; /* of the apply lanes; -1 otherwise */
    char owner[24];
    int64_t token, until_us, updated_us;
} stored_lease;

typedef struct stored_leases {
    stored_lease items[LOOK_LEASES];
    int count;
} stored_leases;

/* --- calls ------------------------------------------------------------------------------------ */

/* A write, as it was requested. */
typedef struct sim_call {
    const char *call; /* for messages */
    const char *who;
    int turn;               /* number of the engine's call that it belongs to */
    bool refused;           /* by the store: nothing may have changed */
    bool operates;          /* an operator's action, or a deploy */
    bool removes;           /* removes rows that no generation needs, without a lease */
    bool unfenced;          /* a catch-up or an inline fold: no lease is needed */
    stored_fence fences[EF_LIMIT_PUBLISHER_PARTITIONS]; /* that it presented */
    int fence_count;
} sim_call;

/* --- the oracle ------------------------------------------------------------------------------- */

typedef enum fate { FATE_NONE, FATE_APPLIED, FATE_IGNORED, FATE_SKIPPED } fate;

typedef struct oracle_generation {
    stored_generation seen;
    int program; /* in `versions` */
    sim_rule rule;
    sim_model model;
    uint8_t fate[SIM_EVENTS + 1]; /* by position */
    int64_t applied, ignored, skipped;
    bool owed; /* it was superseded: what it lacks has no rows until they are added again */
} oracle_generation;

typedef struct sim_oracle {
    sim_event events[SIM_EVENTS + 1]; /* by position */
    int64_t head;
    int64_t stream_seq[SIM_STREAMS];
    int partition[SIM_EVENTS + 1]; /* by position, of its last row */
    struct {
        int name, version;
        sim_rule rule;
    } versions[ORACLE_VERSIONS];
    int version_count;
    oracle_generation generations[LOOK_GENERATIONS];
    int generation_count;
    stored_rows rows;
    int64_t rows_head;                     /* the head when they were read */
    int turn[LOOK_LANES][SIM_EVENTS + 1];  /* in which its attempts were counted */
    int filed[LOOK_LANES][SIM_EVENTS + 1]; /* in which a catch-up last added it */
    bool skips_dead; /* the log-ordered projection is set to skip failed events */
    bool may_skip[LOOK_LANES][SIM_EVENTS + 1];   /* skipped by an operator */
    bool noted[ORACLE_VERSIONS][SIM_EVENTS + 1]; /* … and recorded for that version */
    stored_leases leases;
    stored_fence fences[ORACLE_FENCES]; /* the highest accepted token, per scope */
    int fence_count;
    struct {
        int partition;
        int64_t token;
        char owner[24];
    } grants[ORACLE_GRANTS];
    int grant_count;
    char wrong[512];
} sim_oracle;

void oracle_reset(sim_oracle *o);
/* A program that may be deployed from now on. */
void oracle_program(sim_oracle *o, int name, int version, sim_rule rule);
/* The journal returned this place for a new event, or a known one. */
void oracle_appended(sim_oracle *o, const sim_event *event, bool known);
void oracle_views(sim_oracle *o, const stored_views *now, const sim_call *request);
void oracle_rows(sim_oracle *o, const stored_rows *now, const sim_call *request, bool append);
/* A skip of an event was recorded for this version of a projection. */
void oracle_noted(sim_oracle *o, int name, int version, int stream, int64_t seq);
/* A catch-up or a run has added a row to this lane, whether or not it existed. */
void oracle_filed(sim_oracle *o, int lane, int64_t position, int turn);
void oracle_leases(sim_oracle *o, const stored_leases *now, const sim_call *request,
                   int64_t wall_us);
/* An ack was accepted under these tokens (call->fences, scope "partition/N"). */
void oracle_marked(sim_oracle *o, const sim_call *request, int64_t wall_us);

/* Is every event applied everywhere, and no row left? If not, `why` says what is missing. */
bool oracle_settled(const sim_oracle *o, char *why, size_t size);
/* Is every tenant of every live log-ordered projection where its events allow? If not, `why`. */
bool oracle_apart(const sim_oracle *o, char *why, size_t size);
/* Builds of the same rule have the same digest (those that skipped nothing). */
void oracle_digests(sim_oracle *o);
/* No live lease has this owner. */
void oracle_let_go(sim_oracle *o, const char *owner, int64_t wall_us);

void oracle_wrong(sim_oracle *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
