/*
 * rules.h - the programs of the simulator, each twice: as text for the engine, and as a model in C.
 *
 * The models share no code with the engine. They know only the few programs below, and return a
 * view's JSON as the engine has to store it, byte for byte.
 */
#ifndef SIM_RULES_H
#define SIM_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_STREAMS = 8, /* of two tenants; both have streams of the same names */
    SIM_TENANTS = 2, /* stream % 2 */
    SIM_KEYS = 3,
    SIM_EVENTS = 96,
    SIM_LIST = 4,
    SIM_VIEWS = 20 /* a generation has fewer */
};

typedef enum sim_type { SIM_ADD, SIM_SUB, SIM_NOTE, SIM_ERASE, SIM_TYPES } sim_type;

typedef struct sim_event {
    int stream;
    sim_type type;
    int key, value;
    bool bad; /* the strict programs fail on it */
    int64_t seq, position;
} sim_event;

const char *sim_tenant_of(int stream);
const char *sim_stream_name(int stream);
const char *sim_type_name(sim_type type);
/* The stream with these names; -1: none. */
int sim_stream_find(const char *tenant, const char *name);

typedef enum sim_rule {
    RULE_TALLY,        /* by stream: counts and sums in views that several streams feed */
    RULE_TALLY_DOUBLE, /* the same with other sums */
    RULE_RECENT,       /* by stream: the last values of a stream, in order; deletes views */
    RULE_PICKY,        /* by stream: fails on bad events */
    RULE_PICKY_FIXED,  /* counts them */
    RULE_LEDGER,       /* by log: the last positions */
    RULE_LEDGER_PICKY, /* by log: fails on bad events */
    RULE_COUNT
} sim_rule;

enum { RULE_NAMES = 4 };

const char *rule_name(int name);      /* "tally": the projection's name */
int rule_name_find(const char *name); /* -1: no such projection */
int rule_name_of(sim_rule rule);
bool rule_by_log(sim_rule rule);
sim_rule rule_fixed(int name); /* a rule of this projection that applies every event */
sim_rule rule_other(int name, uint64_t random);
/* The program's text, at most `size` bytes with its NUL. */
void rule_text(sim_rule rule, int version, char *out, size_t size);

/* A view of the model. Which fields are used depends on the rule. */
typedef struct model_view {
    bool there;
    int tenant; /* stream % 2 */
    char id[8];
    int64_t n, sum, bads, last;
    bool has_n, has_bads;
    int64_t list[SIM_LIST];
    int list_count;
} model_view;

typedef struct sim_model {
    model_view views[SIM_VIEWS];
    int count;
} sim_model;

typedef enum folded { FOLDED_APPLIED, FOLDED_IGNORED, FOLDED_FAILED } folded;

folded rule_fold(sim_rule rule, const sim_event *event, sim_model *model);
/* The result of folding the event, without folding it. */
folded rule_verdict(sim_rule rule, const sim_event *event);
void rule_print(sim_rule rule, const model_view *view, char *out, size_t size);

#endif
