/*
 * oracle.h - what must be true, by somebody who does not know how it is done.
 *
 * The oracle shares no code with the engine. It keeps its own list of events, its own fold of each
 * generation, and what the stores looked like the last time; it is shown the stores after every
 * write, and says what is wrong. Its numbers are those of design.md, section 3:
 *
 *   G1 an event comes with its row       G3 order, per stream or of the log
 *   G4 exactly once                      G5 nobody passes what is not applied
 *   G6 tokens: late owners are refused   G7 tenants do not hold each other up
 *   G8 nothing is dropped, dead rows stay
 *   G9 every build gives the same bytes  G12 a known id has its first place
 *
 * The first thing that is wrong is kept in `wrong`, and nothing after it is looked at.
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "rules.h"

enum {
    LOOK_GENERATIONS = 24,
    LOOK_ROWS = SIM_EVENTS * (RULE_NAMES + 2), /* a publisher has a lane, too: mail.c */
    LOOK_LEASES = 64,
    LOOK_LANES = RULE_NAMES + 1, /* 0 is "*", then the projections' */
    ORACLE_FENCES = 40,
    ORACLE_GRANTS = 4096,
    ORACLE_VERSIONS = 64
};

/* --- what the stores look like -----------------------------------------------------------------
 */

typedef enum look_state {
    LOOK_CATCHING_UP,
    LOOK_LIVE,
    LOOK_PAUSED,
    LOOK_FAILED,
    LOOK_RETIRED
} look_state;

typedef struct look_view {
    char tenant[8], id[16], data[128];
} look_view;

typedef struct look_generation {
    int64_t id;
    int name, version, number;
    bool by_log, routed;
    look_state state;
    int64_t era, position, seam;
    int64_t applied, ignored, skipped;
    uint8_t digest[16];
    int64_t applied_seq[SIM_STREAMS], next_seq[SIM_STREAMS];
    struct {
        bool own; /* it goes by a cursor of its own */
        int64_t position, waiting;
    } tenants[SIM_TENANTS];
    look_view views[SIM_VIEWS];
    int view_count;
} look_generation;

typedef struct look_fence {
    char scope[64];
    int64_t token;
} look_fence;

typedef struct look_views {
    look_generation items[LOOK_GENERATIONS];
    int count;
    look_fence fences[ORACLE_FENCES]; /* of the scopes that the oracle knows */
    int fence_count;
} look_views;

typedef enum look_status { LOOK_PENDING, LOOK_PROCESSING, LOOK_FAILING, LOOK_DEAD } look_status;

typedef struct look_row {
    bool there;
    look_status status;
    bool skip;
    int attempts;
    int partition;
} look_row;

typedef struct look_rows {
    look_row at[LOOK_LANES][SIM_EVENTS + 1]; /* by lane and position */
    int count;
} look_rows;

typedef struct look_lease {
    char key[64];
    int partition; /* of the apply lanes; -1 otherwise */
    char owner[24];
    int64_t token, until_us, updated_us;
} look_lease;

typedef struct look_leases {
    look_lease items[LOOK_LEASES];
    int count;
} look_leases;

/* --- what was done -----------------------------------------------------------------------------
 */

/* A write, as it was asked for. */
typedef struct sim_deed {
    const char *call; /* for words */
    const char *who;
    int turn;             /* a number for the call of the engine that it belongs to */
    bool refused;         /* the store said no: nothing may have changed */
    bool operates;        /* an operator's act, or a deploy */
    bool removes;         /* rows that no generation needs, without a lease */
    bool unfenced;        /* catching up, or folding at once: no lease is needed */
    look_fence fences[8]; /* presented with it */
    int fence_count;
} sim_deed;

/* --- the oracle ---------------------------------------------------------------------------------
 */

typedef enum fate { FATE_NONE, FATE_APPLIED, FATE_IGNORED, FATE_SKIPPED } fate;

typedef struct oracle_generation {
    look_generation seen;
    int program; /* in `versions` */
    sim_rule rule;
    model model;
    uint8_t fate[SIM_EVENTS + 1]; /* by position */
    int64_t applied, ignored, skipped;
    bool owed; /* it was superseded: what it lacks has no rows until they are filed again */
} oracle_generation;

typedef struct oracle {
    sim_event events[SIM_EVENTS + 1]; /* by position */
    int64_t head;
    int64_t stream_seq[SIM_STREAMS];
    int partition[SIM_EVENTS + 1]; /* by position, as its last row had it */
    struct {
        int name, version;
        sim_rule rule;
    } versions[ORACLE_VERSIONS];
    int version_count;
    oracle_generation generations[LOOK_GENERATIONS];
    int generation_count;
    look_rows rows;
    int64_t rows_head;                     /* the head when they were looked at */
    int turn[LOOK_LANES][SIM_EVENTS + 1];  /* in which its attempts were counted */
    int filed[LOOK_LANES][SIM_EVENTS + 1]; /* in which it was last filed by a catch-up */
    bool passes_over; /* what a projection by log cannot digest is let pass after its tries */
    bool may_skip[LOOK_LANES][SIM_EVENTS + 1];   /* an operator has let it pass */
    bool noted[ORACLE_VERSIONS][SIM_EVENTS + 1]; /* … and that version was noted to pass it */
    look_leases leases;
    look_fence fences[ORACLE_FENCES]; /* the highest token that was let in, per scope */
    int fence_count;
    struct {
        int partition;
        int64_t token;
        char owner[24];
    } grants[ORACLE_GRANTS];
    int grant_count;
    char wrong[512];
} oracle;

void oracle_reset(oracle *o);
/* A program that may be deployed from now on. */
void oracle_program(oracle *o, int name, int version, sim_rule rule);
/* The journal has answered with this place for a new event, or a known one. */
void oracle_appended(oracle *o, const sim_event *event, bool known);
void oracle_views(oracle *o, const look_views *now, const sim_deed *deed);
void oracle_rows(oracle *o, const look_rows *now, const sim_deed *deed, bool append);
/* It was noted that this version of a projection passes an event. */
void oracle_noted(oracle *o, int name, int version, int stream, int64_t seq);
/* A catch-up or a run has filed a row of this lane, whether or not it was there. */
void oracle_filed(oracle *o, int lane, int64_t position, int turn);
void oracle_leases(oracle *o, const look_leases *now, const sim_deed *deed, int64_t wall_us);
/* A mark was let in under these tokens (deed->fences, scope "partition/N"). */
void oracle_marked(oracle *o, const sim_deed *deed, int64_t wall_us);

/* Is everything applied everywhere, and nothing left? If not, `why` says what is missing. */
bool oracle_settled(const oracle *o, char *why, size_t size);
/* Is every tenant of every live projection by log as far as its events let it? If not, `why`. */
bool oracle_apart(const oracle *o, char *why, size_t size);
/* Builds of the same rule have the same digest (those that skipped nothing). */
void oracle_digests(oracle *o);
/* Nobody called this holds a live lease. */
void oracle_let_go(oracle *o, const char *owner, int64_t wall_us);

void oracle_wrong(oracle *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
