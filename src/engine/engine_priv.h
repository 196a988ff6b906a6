/*
 * engine_priv.h - the engine's own things, seen by its room only.
 */
#ifndef EF_ENGINE_ENGINE_PRIV_H
#define EF_ENGINE_ENGINE_PRIV_H

#include "count.h"
#include "large.h"
#include "crew.h"
#include "function.h"
#include "options.h"

#include "../base/buf.h"
#include "../base/limits.h"
#include "../core/pace.h"
#include "../fold/fold.h"
#include "../views/views.h"

#include <everfold/engine.h>
#include <everfold/outbox.h>
#include <everfold/projection.h>
#include <everfold/view.h>

#include <pthread.h>
#include <stdatomic.h>

#define EF__ENGINE_BATCH 1000           /* events at a time, by default */
#define EF__ENGINE_CATCH_UP_BATCH 10000 /* catching up: large commits, hot views stay in memory */
#define EF__ENGINE_BATCH_MAX 100000
#define EF__ENGINE_LIVE_LAG_MS 100
#define EF__ENGINE_START_OVER 8 /* times an apply starts over when somebody else was quicker */

/* A compiled program of a generation, which may be given another; kept for as long as the engine is
 * open, for somebody may still be folding by it. */
typedef struct ef__compiled {
    int64_t generation;
    uint64_t hash; /* the generation's program_hash */
    ef__program *program;
    struct ef__compiled *next;
} ef__compiled;

#define EF__SCOPE_MAX 600 /* the name of a scope, or of the lease of a run: tenant, projection */

#define EF__RUN_TROUBLES 8

/* A run that met a store which was not at hand: when it is tried again. */
typedef struct ef__run_trouble {
    char id[EF_EVENT_ID_TEXT_MAX]; /* "": none */
    int64_t failures;              /* in a row */
    int64_t next_try_us;           /* of the clock that never jumps */
} ef__run_trouble;

/* The lease of a run that this engine drives, if it has one. */
typedef struct ef__run_hold {
    char scope[EF__SCOPE_MAX];
    int64_t token; /* 0: none */
    int64_t renewed_us;
} ef__run_hold;

/* What is known of live work, and what it leaves to a catch-up: see govern.h. */
typedef struct ef__governor {
    ef__pace pace;
    bool looked, live;
    int64_t head, oldest;              /* as of the last look: of the journal, and of the queue */
    int64_t moved_us, oldest_since_us; /* when they last changed; of the clock that never jumps */
} ef__governor;

/* Whether the worker is idle: see rest.c. */
typedef struct ef__rest {
    bool idle;
    int64_t head;     /* of the journal, when something was last going on … */
    int64_t since_us; /* … which was then; of the clock that never jumps. 0: it has yet to begin */
} ef__rest;

/* A look for gaps of one generation, page by page: see ef__gaps_file. */
typedef struct ef__gap_pass {
    int64_t generation; /* 0: none */
    char after[EF_CURSOR_MAX];
} ef__gap_pass;

/* How far the removal of retry rows has come that no generation needs, and the filing of those that
 * one needs again: see lane.c. */
typedef struct ef__sweep {
    int64_t of;   /* fingerprint of the generations that it is about; 0: not begun */
    size_t at;    /* index of the generation in their list */
    int64_t from; /* position that the sweep of its lane goes on from; 0: that is over */
    char after[EF_CURSOR_MAX]; /* stream that the filing goes on behind */
} ef__sweep;

struct ef__bus;
struct ef__bus_options;

/* Reads that wait: see fresh.h. */
typedef struct ef__fresh {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t moved;
    int64_t turn;                 /* grows when views may have changed */
    _Atomic int64_t reads;        /* that wait */
    bool timed;                   /* one of them keeps the time */
    int64_t poll_ms;              /* until that one looks again */
    pthread_mutex_t looking;      /* one look at the stores at a time; it guards … */
    struct ef__fresh_read *first; /* … the reads that wait */
} ef__fresh;

struct ef_engine {
    ef_engine_options options; /* clock filled in */
    ef_journal *journal;
    ef_views *views;
    bool joined; /* journal and views are in one database: an apply and its mark are one commit */
    char worker[80];
    ef__retry_policies retry;
    size_t run_batch;                   /* events of a step of a replay */
    _Atomic int64_t lease_ms, renew_ms; /* of scopes and runs, as the last tick had them */
    ef__counts counts;
    ef__minutes minutes;
    ef__large large;
    pthread_mutex_t lock; /* of what follows */
    ef__compiled *compiled;
    ef__function *functions;
    struct ef__route *routes;     /* kept for a moment */
    ef__fresh fresh;              /* has locks of its own */
    int64_t changes;              /* grows whenever this engine has done something that reads see */
    pthread_mutex_t reading;      /* one tick of the cursors at a time; it guards … */
    struct ef__workset *worksets; /* … what is kept from tick to tick, */
    struct ef__scope *scopes;     /* how the scopes are doing, */
    ef__governor governor;        /* how fast a catch-up may go, */
    int64_t grace_next_us;        /* and when to look for what queries have left long ago */
    size_t worksets_bytes;        /* what they may take; EF__WORKSETS_BYTES, less in tests */
    _Atomic bool supervised;      /* a supervisor keeps the drivers of this engine going */
    _Atomic bool reads_log;       /* whether an append is any business of the cursors */
    _Atomic bool catch_up_pauses; /* a projection that this engine catches up is behind, and pauses
                                   * for live work or after a conflict: as of the last tick */
    size_t cursor_batch;          /* events of a read; EF__ENGINE_CATCH_UP_BATCH, less in tests */
    ef__rest rest;                /* of the one who watches the queue */
    _Atomic int64_t worked_us;  /* when a task last did some work; of the clock that never jumps */
    pthread_mutex_t working;    /* one tick of the queue at a time; it guards … */
    ef__crew crew;              /* … what this worker holds, */
    struct ef__workset *queued; /* what the queue keeps from tick to tick, */
    size_t batch;               /* how many rows the next pass takes, */
    int64_t policy_next_us;     /* and when to look for what is dead and may pass */
    int64_t
        gaps_counted; /* the look for gaps at the start: generations up to this id are counted, */
    bool gaps_found;  /* one of them does not add up, */
    char gaps_after[EF_CURSOR_MAX]; /* streams up to here are looked at, */
    bool gaps_looked;               /* and it is over */
    ef__sweep sweep;                /* of retry rows */
    int64_t gaps_since_us;          /* it waits for a queue that is short; 0: not yet */
    pthread_mutex_t driving;        /* one step of a run at a time; it guards … */
    ef__gap_pass gap_pass;          /* … this, … */
    ef__run_hold run_hold;          /* … this, and … */
    ef__run_trouble run_troubles[EF__RUN_TROUBLES]; /* … those that wait */
    pthread_mutex_t skipping;                       /* of … */
    struct ef__skips *skips;    /* … what operators let projections pass, as far as it is read */
    pthread_mutex_t publishing; /* of … */
    struct ef__publishing *publishers; /* … the publishers, by name (publish.h) */
    ef_work_options publish_options;   /* what their threads work by; `lock` guards it */
    ef_status (*sink_open)(const struct ef__bus_options *options, struct ef__bus **out,
                           ef_error *err); /* ef__bus_open; tests have sinks of their own */
    struct ef_shadow *shadow;  /* that a supervisor keeps going instead of the queue; NULL: none */
    bool ghost;                /* made by ef__ghost_open */
    struct ef_engine *lookups; /* whose views the lookups of programs read; NULL: its own */
    bool careful;      /* some of what a process that ended had in hand is still to be tried */
    int64_t failed_us; /* monotonic: when a batch last failed as a whole; 0: never */
};

/* A generation with its program. */
typedef struct ef__live {
    const ef__generation *generation;
    const ef__program *program;
    bool keeps_rows; /* what it fails on gets a retry row: see lane.h */
} ef__live;

/* The generations that are fed by the queue, as of one moment. */
typedef struct ef__live_set {
    ef__live *items;
    size_t count;
    int64_t number; /* of the set: an apply presents it */
    ef__generation_list list;
} ef__live_set;

/* As ef_engine_open, on a view store that is open already (views_url is not looked at). The store
 * is the engine's from here on; when this fails, it is closed. */
ef_status ef__engine_open_on(const ef_engine_options *options, ef_views *views, ef_engine **out,
                             ef_error *err);
/* An engine on the same journal with empty views in memory: it leaves nothing in the journal, not
 * even a lease. End it with ef__engine_abandon. */
ef_status ef__ghost_open(ef_engine *engine, ef_str worker, ef_engine **out, ef_error *err);
/* Free the memory as a crash would: no lease is released, nothing is written. For tests. */
void ef__engine_abandon(ef_engine *engine);

int64_t ef__engine_now(const ef_engine *engine);
/* Leases of scopes and runs last from now on as `options` say; NULL: the default. */
void ef__engine_lease_times(ef_engine *engine, const ef_work_options *options);
/* In which order this engine gives events to the program: a journal that queues nothing is read. */
bool ef__engine_by_log(const ef_engine *engine, const ef__program *program);
ef_status ef__engine_program(ef_engine *engine, const ef__generation *generation,
                             const ef__program **out, ef_error *err);
/* `stream_ordered_live`: the live ones of the queue; otherwise all that are not retired. */
ef_status ef__live_set_read(ef_engine *engine, bool stream_ordered_live, ef__live_set *out,
                            ef_error *err);
void ef__live_set_release(ef__live_set *set);

/* Add a generation of a program with this text, unless it is there. EF_CONFLICT: with another text
 */
ef_status ef__deploy_program(ef_engine *engine, const ef__program *program, ef_str text,
                             ef_error *err);

/* Keep who did what to a projection, and why. `number` is a version or a generation, or 0. Nobody
 * ("") leaves no record. */
ef_status ef__engine_note(ef_engine *engine, const char *act, ef_str projection, int64_t number,
                          ef_str who, ef_str reason, ef_error *err);

/* EF_NOT_FOUND, with the name that was probably meant (unknown.c). */
ef_status ef__projection_unknown(ef_engine *engine, ef_str name, ef_error *err);
/* The generation that queries for `name` go to; EF_NOT_FOUND. `list` owns it. */
ef_status ef__engine_routed(ef_engine *engine, ef_str name, ef__generation_list *list,
                            const ef__generation **out, ef_error *err);
/* Up to which position a generation was given everything of a tenant (NULL: of all): it has it, or
 * there is a row of it in the own lane. */
ef_status ef__engine_taken(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err);
/* Up to which position a generation has everything of a tenant; NULL: of all. */
ef_status ef__engine_as_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err);

#endif
