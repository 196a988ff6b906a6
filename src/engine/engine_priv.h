/*
 * engine_priv.h - the engine: declarations that are private to the module.
 *
 * An engine has a journal, views and programs, and four drivers that move events from the one to
 * the other. Each driver has its own state, lock and invariants, in drivers.h.
 *
 * Locks, in the order in which a thread may acquire them: the lock of one driver, which is held for
 * a whole step; a publisher's `stepping`; skips_lock; then `lock` or the health_lock of the
 * publishers, which are held for memory accesses only, never during a call of a store.
 */
#pragma once

#include "counters.h"
#include "drivers.h"

#include "../base/auto.h"
#include "../base/buf.h"
#include "../base/deadline.h"
#include "../base/limits.h"
#include "../core/retry.h"
#include "../fold/fold.h"
#include "../views/views.h"

#include <everfold/engine.h>
#include <everfold/fold.h>
#include <everfold/outbox.h>
#include <everfold/projection.h>
#include <everfold/view.h>

#include <pthread.h>
#include <stdatomic.h>

EF__AUTO_LIST(ef__change_list)
EF__AUTO_LIST(ef__failure_list)
EF__AUTO_LIST(ef__generation_list)
EF__AUTO_LIST(ef__retry_stream_list)
EF__AUTO_LIST(ef__tenant_cursor_list)

#define EF__ENGINE_LEASE_MS 10000
#define EF__ENGINE_BATCH 1000           /* events of a batch, by default */
#define EF__ENGINE_CATCH_UP_BATCH 250000 /* of a step of a catch-up: few commits … */
#define EF__ENGINE_CATCH_UP_READ 8000    /* … and few events in memory: two reads */
#define EF__ENGINE_BATCH_MAX 100000
#define EF__ENGINE_LIVE_LAG_MS 100
#define EF__ENGINE_RESTARTS_MAX 8 /* of an apply whose commit found a concurrent change */

/* One policy per kind of lane, and one for the cursor driver. */
typedef struct ef__retry_policies {
    ef__retry_policy apply, cursor;
    ef__retry_policy publish; /* `base_ms` and `attempts_max` are set per publisher */
} ef__retry_policies;

typedef struct ef__lease_times {
    int64_t lease_ms, renew_ms, heartbeat_ms;
} ef__lease_times;

/* A compiled program of a generation. A generation may get another program; the old one is kept
 * until the engine is closed, because another thread may still fold with it. */
typedef struct ef__compiled {
    int64_t generation;
    uint64_t hash; /* the generation's program_hash */
    ef__program *program;
    struct ef__compiled *next;
} ef__compiled;

/* A registered function, kept until the engine is closed. */
typedef struct ef__c_function {
    char *name;
    ef_c_projection projection; /* of its texts only the name is valid */
    struct ef__c_function *next;
} ef__c_function;

/* Reads that wait for an append to be applied: see read.h. */
typedef struct ef__read_waits {
    pthread_mutex_t lock; /* guards changed, version, has_poller and poll_ms */
    pthread_cond_t changed;
    int64_t version;            /* incremented when views may have changed */
    _Atomic int64_t reads;      /* number of waiting reads */
    bool has_poller;            /* one of them polls for all */
    int64_t poll_ms;            /* the interval of that one */
    pthread_mutex_t reads_lock; /* one reader of the stores at a time; guards … */
    struct ef_view_wait *first; /* … the list of waiting reads */
} ef__read_waits;

struct ef_engine {
    ef_engine_options options; /* clock filled in */
    ef_journal *journal;
    ef_views *views;
    bool joined; /* journal and views are in one database: views and ack are one commit */
    char worker[80];
    ef__retry_policies retry;
    size_t run_batch;                   /* events of a step of a replay */
    _Atomic int64_t lease_ms, renew_ms; /* of scopes and runs, as of the last tick */
    ef__counts counts;
    size_t view_caches_bytes;  /* of all caches of a driver; EF__VIEW_CACHES_BYTES, less in tests */
    size_t commit_outcomes;    /* EF_LIMIT_COMMIT_OUTCOMES, less in tests … */
    size_t commit_bytes;       /* … and EF_LIMIT_COMMIT_BYTES */
    size_t cursor_batch;       /* events of a step; EF__ENGINE_CATCH_UP_BATCH, less in tests */
    size_t cursor_read;        /* events of a read; EF__ENGINE_CATCH_UP_READ, less in tests */
    _Atomic bool supervised;   /* a supervisor runs the drivers of this engine */
    _Atomic int64_t worked_us; /* when a task last did some work; monotonic */
    ef__read_waits read_waits; /* has its own locks */
    struct ef_shadow *shadow;  /* run by a supervisor instead of the queue; NULL: none */
    bool is_side_engine;       /* of a side fold; it never ticks: see apply.h */
    struct ef_engine *lookups; /* lookups of programs read its views; NULL: this engine's own */

    ef__queue_driver queue;
    ef__cursor_driver cursor;
    ef__run_driver runs;
    ef__publisher_driver publishers;

    pthread_mutex_t lock; /* guards the next six */
    ef__minutes minutes;
    ef__large_views large_views;
    ef__compiled *compiled;
    ef__c_function *functions;
    struct ef__read_target *read_targets; /* cached for milliseconds: see read.h */
    int64_t changes; /* incremented when this engine changed something that reads see */

    pthread_mutex_t skips_lock; /* guards … */
    struct ef__skips *skips;    /* … the skips that were read from the journal so far */
};

/* The caller of a tick comes back at `due_us` at the latest. 0: no due time. */
static inline void ef__tick_wake_at(ef_tick *tick, int64_t due_us)
{
    if (due_us && (!tick->due_us || due_us < tick->due_us))
        tick->due_us = due_us;
}

/* For asserts: is the mutex locked, which its caller should hold? */
static inline bool ef__mutex_is_locked(pthread_mutex_t *mutex)
{
    bool is_free = pthread_mutex_trylock(mutex) == 0;

    if (is_free)
        (void)pthread_mutex_unlock(mutex);
    return !is_free;
}

/* Fed by its cursor: it catches up, or is log-ordered. */
static inline bool ef__generation_by_cursor(const ef__generation *generation)
{
    return generation->state == EF__GENERATION_CATCHING_UP ||
           (generation->state == EF__GENERATION_LIVE && generation->by_log);
}

/* Fed by the queue: it has no cursor. */
static inline bool ef__generation_by_queue(const ef__generation *generation)
{
    return generation->state == EF__GENERATION_LIVE && !generation->by_log;
}

/* Events that a generation has applied, ignored or skipped. */
static inline int64_t ef__generation_done(const ef__generation *generation)
{
    return generation->applied + generation->ignored + generation->skipped;
}

/* A generation with its program. */
typedef struct ef__live {
    const ef__generation *generation;
    const ef__program *program;
    bool keeps_rows; /* its failures get a retry row: see queue.h */
} ef__live;

/* The generations that are fed by the queue, at one moment. */
typedef struct ef__live_set {
    ef__live *items;
    size_t count;
    ef__generation_list list; /* a commit is refused when its live set has changed */
} ef__live_set;

/* Like ef_engine_open, on an open view store (views_url is ignored). The engine takes ownership of
 * the store; on failure it is closed. */
ef_status ef__engine_open_on(const ef_engine_options *options, ef_views *views, ef_engine **out,
                             ef_error *err);
/* Frees the memory like a crash: releases no lease and writes nothing. */
void ef__engine_abandon(ef_engine *engine);

/* Fills in state that a view store of an earlier version lacks; does nothing if it has no
 * generation of an earlier version. */
ef_status ef__views_upgrade(ef_engine *engine, ef_error *err);

int64_t ef__engine_now(const ef_engine *engine);
static inline int64_t ef__engine_mono_us(const ef_engine *engine)
{
    return engine->options.clock->mono_us(engine->options.clock->context);
}
/* The policy of a publisher. */
ef__retry_policy ef__retry_of_publisher(const ef__retry_policies *policies, int64_t retry_ms,
                                        int64_t attempts_max);
/* NULL: all defaults. */
ef__lease_times ef__lease_times_of(const ef_work_options *options);
/* Refuses times by which a worker would lose its leases between two renewals. */
ef_status ef__work_options_check(const ef_work_options *options, ef_error *err);
/* Sets the lease times of scopes and runs; NULL: the defaults. */
void ef__engine_lease_times(ef_engine *engine, const ef_work_options *options);
/* Does this engine feed the program by a cursor? Always on a journal without an outbox. */
bool ef__engine_by_log(const ef_engine *engine, const ef__program *program);
ef_status ef__engine_program(ef_engine *engine, const ef__generation *generation,
                             const ef__program **out, ef_error *err);
/* A part of the generations. */
typedef struct ef__live_choice {
    bool by_queue;      /* live generations of the queue; otherwise all that are not retired */
    ef_str projection;  /* "": of all projections */
    int64_t generation; /* 0: all */
} ef__live_choice;

/* A process leaves out C projections whose function it lacks. */
ef_status ef__live_set_read(ef_engine *engine, const ef__live_choice *choice, ef__live_set *out,
                            ef_error *err);
void ef__live_set_release(ef__live_set *set);
EF__AUTO_TYPE(ef__live_set, ef__live_set_release)

/* Copies the buffer to `out` and releases it. (program.c) */
ef_status ef__text_own(ef__buf *buf, ef_text *out, ef_error *err);
/* Compiles a program; with `out_report`, writes what ef_program_check does. (program.c) */
ef_status ef__program_compile_reported(ef_str file, ef_str text, ef__program **out,
                                       ef_text *out_report, ef_error *err);

/*
 * Projections written in C. The program text of one is "c projection NAME version N" with its
 * indexes. It is log-ordered: the queue never brings its events, so that a process without the
 * function may acknowledge outbox rows. A process that has the function compiles a program from
 * that text, whose events go to the function; a process without it ignores the generation.
 * (program.c)
 */

/* Is it written in C, without a function in this process? Locks the engine. */
bool ef__c_function_missing(ef_engine *engine, const ef__generation *generation);

bool ef__generation_in_c(const ef__generation *generation);

/* The program of a C generation with its function. The caller holds the engine's lock.
 * EF_UNSUPPORTED: the function is not registered. */
ef_status ef__c_function_compile(ef_engine *engine, const ef__generation *generation,
                                 ef__program **out, ef_error *err);

void ef__c_functions_release(ef__c_function *first);

/* Adds a generation of a program with this text, unless it exists. EF_CONFLICT: the version exists
 * with another text. */
ef_status ef__deploy_program(ef_engine *engine, const ef__program *program, ef_str text,
                             ef_error *err);

/* Commits a change of one generation, which `change` need not name. */
ef_status ef__generation_commit(ef_engine *engine, const ef__generation *generation,
                                ef__generation_change change, ef_error *err);

/* Adds an audit entry. `number` is a version or a generation number, or 0. Without an actor ("")
 * no entry is written. */
ef_status ef__engine_audit(ef_engine *engine, const char *action, ef_str projection, int64_t number,
                           ef_str actor, ef_str reason, ef_error *err);

/* EF_NOT_FOUND, with the most similar name. */
ef_status ef__projection_unknown(ef_engine *engine, ef_str name, ef_error *err);
/* The generations of `name`, "": of all projections. Release `out->room`. */
ef_status ef__engine_generations(ef_engine *engine, ef_str name, ef__generation_list *out,
                                 ef_error *err);
/* The first active generation of a list; NULL: none. */
const ef__generation *ef__generation_active(const ef__generation_list *list);
/* The active generation of `name`; EF_NOT_FOUND. Owned by `list`. */
ef_status ef__engine_active_generation(ef_engine *engine, ef_str name, ef__generation_list *list,
                                       const ef__generation **out, ef_error *err);
/* Sets the state of a generation as it was read: EF_CONFLICT if it has changed since. */
ef_status ef__generation_set_state(ef_engine *engine, const ef__generation *generation,
                                   ef__generation_state state, ef_error *err);
/* The watermark of a stream in a generation: all zero if it has none. (lag.c) */
ef_status ef__watermark_read(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                             ef_str stream, ef__watermark *out, ef_error *err);
/* The own cursor of a tenant of a log-ordered generation. (scope.c) */
ef_status ef__tenant_cursor_read(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                                 ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
/* The position up to which all events of a tenant (NULL: of all) were delivered to a generation:
 * each is applied, ignored, skipped, or has a row in the projection's lane. */
ef_status ef__engine_delivered(ef_engine *engine, const ef__generation *generation,
                               const ef_str *tenant, int64_t *out, ef_error *err);
/* The position up to which a generation has all events of a tenant; NULL: of all. */
ef_status ef__engine_as_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err);
