/*
 * sim.h - the whole engine in one thread, from a seed.
 *
 * One journal and one view store in memory, some workers with an engine each, an operator and
 * appenders. Every worker uses the stores through its own proxies. At every call of a store, before
 * and after it, the seed may refuse the call, lose its response, crash the worker, or pause it:
 * then other actors run, nested in the call, and the paused one resumes in a changed world. After
 * every write that reached a store the oracle checks it.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "oracle.h"
#include "random.h"

#include "../../src/engine/engine_priv.h"
#include "../../src/journal/journal.h"
#include "../../src/views/views.h"

#include <everfold/generation.h>

#include <stdio.h>

enum {
    SIM_WORKERS = 4,
    SIM_OPERATOR = SIM_WORKERS,     /* deploys and appends, and never works */
    SIM_OUTSIDER = SIM_WORKERS + 1, /* appends, steals leases; has no faults */
    SIM_ACTORS = SIM_WORKERS + 2,
    SIM_DEPTH = 3, /* of nested pauses */
    SIM_TRACE_LINES = 40,
    SIM_OFFERS = 160
};

/* Faults of a store that must never happen: does the oracle notice them? */
typedef enum sim_cheat {
    CHEAT_NONE,
    CHEAT_DROP_RETRY_ROWS, /* an ack loses its retry rows */
    CHEAT_DONE_RETRY_ROWS, /* a failed retry row is acknowledged as done */
    CHEAT_COMMIT_TWICE,    /* a commit counts twice */
    CHEAT_LOSE_WATERMARK,  /* a commit without its watermarks */
    CHEAT_LOSE_VIEW,       /* a commit without one of its views */
    CHEAT_FORGE_TOKEN,     /* a late commit gets a current token */
    CHEAT_DROP_FENCES,     /* a late commit presents no token */
    CHEAT_FORGE_MARK,      /* a late ack gets a current token */
    CHEAT_STEAL_LEASE,     /* a live lease is given to another owner */
    CHEAT_EARLY_LIVE,      /* a generation goes live before it is at the head */
    CHEAT_LOSE_TENANT,     /* a commit without the tenants that stopped */
    CHEAT_EARLY_JOIN,      /* a tenant joins before it has caught up */
    CHEAT_LOSE_EVENT,      /* a batch of the journal without its first event */
    CHEAT_LOSE_ROW,        /* an append without its rows */
    CHEAT_LOSE_MESSAGE,    /* a sink acknowledges a message that it does not have */
    CHEAT_SWAP_MESSAGES,   /* a sink delivers after a failed message */
    CHEAT_COUNT
} sim_cheat;

const char *cheat_name(sim_cheat cheat);
int cheat_find(const char *name); /* -1: no such cheat */

struct sim;
struct actor;

typedef struct proxy_journal {
    ef_journal base; /* first: an ef_journal * is cast to proxy_journal * */
    struct sim_actor *actor;
} proxy_journal;

typedef struct proxy_views {
    ef_views base;
    struct sim_actor *actor;
} proxy_views;

/* A worker, or the operator: an engine with its proxies. */
typedef struct sim_actor {
    struct sim_world *sim;
    int index;
    int life; /* number of times that it was opened */
    char name[24];
    ef_engine *engine; /* NULL while it is down */
    bool busy;         /* in a call: may not be entered again */
    int turn;          /* number of the call */
    bool crashed;      /* every call fails until the stack is unwound */
    bool disturbed;    /* there was a fault or a pause in this call */
    bool unsure;       /* a response was lost in this life: it may hold a lease unknowingly */
    bool in_commit;    /* the view store is locked */
    bool folds_inline; /* the current call is an append that folds */
    int64_t skew_us;   /* error of its wall clock */
    ef_clock clock;
    proxy_journal journal;
    proxy_views views;
} sim_actor;

/* Probabilities of faults in this world, per thousand calls. */
typedef struct sim_faults {
    int refuse, lose, crash, pause;
    int jump; /* of the wall clock, per thousand steps */
} sim_faults;

/* An event that an appender has appended, or will append again. */
typedef struct sim_offer {
    sim_event event;
    bool known; /* it is in the journal; its place is in event */
} sim_offer;

typedef struct sim_world {
    uint64_t seed, random;
    sim_cheat cheat;
    bool verbose;
    sim_faults trouble;
    bool calm;       /* no more faults … */
    bool outage;     /* … except that nothing can be written to the views */
    bool never_idle; /* no worker becomes idle */
    int workers, partitions, streams;
    int bad_permille;
    size_t batch;
    bool small_commits; /* a commit for each projection and event */
    int64_t lease_ms;
    bool folds_inline; /* the operator's appends fold at once */
    bool skips_dead;   /* the ledger is set to skip and record */
    int64_t wall_us, mono_us;
    ef_clock clock;
    ef_journal *journal; /* the stores themselves */
    ef_views *views;
    sim_actor actors[SIM_ACTORS];
    sim_offer offers[SIM_OFFERS];
    int offer_count;
    int version[RULE_NAMES];    /* the last deployed one */
    sim_rule rules[RULE_NAMES]; /* its rule */
    int depth, step, turns;
    bool publishes; /* there is a publisher (mail.c), … */
    struct {
        int fail_permille;
        bool delivered[SIM_EVENTS + 1]; /* … whose sink has these positions, … */
        int64_t log[SIM_EVENTS];        /* … in this order, … */
        int log_count;                  /* … this many, … */
        bool loses;                     /* … and may lose its last messages, … */
        int restarts;                   /* … this often, … */
        int waiting;                    /* … and this many rows wait for it */
    } mail;
    sim_oracle oracle;
    struct {
        stored_views views;
        stored_rows rows;
        stored_leases leases;
    } look;
    char trace[SIM_TRACE_LINES][160];
    int trace_count;
    uint64_t trace_hash;
    int64_t faults; /* that happened */
} sim_world;

/* --- sim.c */
void sim_note(sim_world *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool sim_failed(const sim_world *s)
{
    return s->oracle.wrong[0] != '\0';
}

/* --- world.c: a world from start to end. False: a violation. */
bool sim_run(sim_world *s, uint64_t seed, sim_cheat cheat, bool verbose);

/* --- actions.c */
/* One step of an actor that is not busy. */
void sim_act(sim_world *s);
void sim_append(sim_world *s, sim_actor *by);
void sim_deploy(sim_world *s, int name, sim_rule rule, int version);
void sim_requeue_dead(sim_world *s, sim_actor *by);
void sim_skip(sim_world *s, sim_actor *by, int lane, int64_t position);
void sim_advance(sim_world *s, int64_t us);

/* --- actor.c */
void actor_open(sim_actor *actor);  /* unless it is open */
void actor_close(sim_actor *actor); /* in order */
void actor_crash(sim_actor *actor); /* outside of a call */
void actor_tick(sim_actor *actor);
/* Around a call of the actor's engine or journal: it cannot be entered meanwhile, and is closed
 * afterwards if it crashed. `st` is checked: some statuses are never right. */
void actor_enter(sim_actor *actor);
void actor_leave(sim_actor *actor, const char *what, ef_status st, const ef_error *err);

/* --- proxy.c: faults at the interface of a store. */
/* EF_OK: make the call. */
ef_status gate_before(sim_actor *actor, const char *call, bool write, ef_error *err);
ef_status gate_after(sim_actor *actor, const char *call, bool write, ef_status st, ef_error *err);
/* Makes `journal` a view of sim->journal; also checks that every function is passed on. */
void proxy_journal_init(ef_journal *journal, sim_world *sim);
/* Fails the world if `store` has a function and `proxy` has none. */
void check_proxy(sim_world *s, const char *seam, const void *store, const void *proxy, size_t size);
extern const ef__views_ops proxy_views_ops;

/* --- observation.c: shows the stores to the oracle. */
void observe_views(sim_world *s, const sim_call *request);
void observe_rows(sim_world *s, const sim_call *request, bool append);
void observe_retry_rows(sim_world *s, const ef_retry_row *rows, size_t count, int turn);
/* The events that a version skips: by the error policy, and of rows that an operator skipped. */
void observe_skip(sim_world *s, const ef__skip_entry *entry);
void observe_skips(sim_world *s, const ef__revision_request *revise, const ef_row_list *rows);
void observe_leases(sim_world *s, const sim_call *request);

/* --- mail.c: a publisher, in worlds that have one. */
struct ef__bus;
struct ef__bus_options;
void mail_begin(sim_world *s);
bool mail_is_of(ef_str lane);
ef_status mail_open(const struct ef__bus_options *options, struct ef__bus **out, ef_error *err);
/* The present rows. */
void mail_observe_rows(sim_world *s, const ef_row_list *rows);
/* An ack of its lane was accepted. */
void mail_acknowledged(sim_world *s, const char *who, const ef_partition_lease *held, size_t count);
bool mail_is_delivered(const sim_world *s, char *why, size_t size);

#endif
