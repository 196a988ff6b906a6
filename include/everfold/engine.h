/*
 * engine.h - a journal and a view store with the engine between them: events become views.
 *
 * An engine folds every event, in order and exactly once, into the views of every deployed
 * projection. It does a bounded piece of work when it is asked to (ef_engine_work); threads,
 * signals and sleep are the caller's. A handle may be used by any number of threads.
 */
#ifndef EVERFOLD_ENGINE_H
#define EVERFOLD_ENGINE_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_engine ef_engine;

typedef enum ef_mode {
    EF_MODE_OUTBOX_APPLY_ONLY,  /* appends queue, workers fold */
    EF_MODE_INLINE_APPLY_ONLY,  /* appends fold at once; nothing is queued. Needs no worker: appends
                                 * also retry failed events that are due, and let log-ordered
                                 * projections read on */
    EF_MODE_INLINE_THEN_OUTBOX, /* appends fold at once; what fails is left to the workers */
    EF_MODE_SHADOW_ONLY /* appends fold at once and queue; a shadow worker folds what is queued into
                         * a store of its own and compares: nothing of it is seen by anybody */
} ef_mode;

/* How often and how soon something that failed is tried again: after `base_ms`, then `factor` times
 * as long each time up to `cap_ms`. 0 means the default. */
typedef struct ef_retry_options {
    int64_t base_ms;
    int64_t factor;       /* 1: the same delay each time */
    int64_t cap_ms;       /* at least base_ms */
    int64_t attempts_max; /* failures until no more is tried; -1: no limit */
} ef_retry_options;

typedef struct ef_engine_options {
    ef_journal *journal;   /* borrowed for as long as the engine is open */
    const char *views_url; /* "sqlite:PATH", "lmdb:FOLDER", "postgres://…" or "memory:" */
    bool create;           /* make the view store when it is not there */
    bool read_only;
    ef_mode mode;
    ef_str worker;           /* name of this worker; "" makes one */
    int64_t busy_ms;         /* default 10,000 */
    int64_t live_lag_ms;     /* what is appended is to be in its views within this time, though
                              * something catches up beside it; default 100 */
    int64_t retire_after_ms; /* a generation that queries have left is retired by a worker so long
                              * afterwards; 0: never */
    ef_retry_options retry_apply;  /* an event that a projection fails on, in its own lane; default
                                    * 1 s doubling to 5 min, dead at the 8th failure */
    ef_retry_options retry_cursor; /* a tenant of a projection in log order; default 250 ms doubling
                                    * to 5 min, failed at the 6th failure */
    ef_retry_options retry_publish; /* a message; `factor` (default 1) and `cap_ms` (default 1 h)
                                     * are used, the rest is the publisher's */
    size_t catch_up_batch; /* events at a time by cursor; default as the view store likes it */
    size_t run_batch;      /* events of a step of a replay; default 1,000 */
    const ef_clock *clock; /* default: the system's */
    const ef_log *log;
} ef_engine_options;

ef_status ef_engine_open(const ef_engine_options *options, ef_engine **out, ef_error *err);
/*
 * Copies the view store to options->path, a file or a folder as the store is itself, as of one
 * moment and while others write. To go with a copy of the journal it must be made before that: then
 * the views have no event that the journal lacks, and workers apply what they lack. Statuses as for
 * ef_journal_backup.
 */
ef_status ef_engine_backup_views(ef_engine *engine, const ef_backup_options *options,
                                 ef_error *err);
void ef_engine_close(ef_engine *engine); /* releases its leases; NULL is fine */

/* As ef_journal_append; in the inline modes the events are folded before it returns. A projection
 * that fails never fails the append: it is recorded, and told in the log. */
ef_status ef_engine_append(ef_engine *engine, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);

/* As ef_journal_append_each; in the inline modes the events are folded before it returns. */
void ef_engine_append_each(ef_engine *engine, ef_append *appends, size_t count);

typedef struct ef_work_options {
    size_t batch;     /* events at a time; default 1,000, at most 16,000; while there is a backlog
                       * up to 16 times as many, and no more than that */
    bool no_leasing;  /* a single worker: its leases have one fixed owner, so a restart goes on at
                       * once; partitions of other workers stay theirs until they run out */
    int64_t lease_ms; /* default 10,000 */
    int64_t renew_ms; /* leases and heartbeat are renewed after this time; default a third of the
                       * lease; less than the lease, and than half of the heartbeat */
    int64_t heartbeat_ms; /* default twice the lease, and not less than it: one that is silent for
                           * half of it is late, and its partitions go to the others as soon as its
                           * leases have run out */
} ef_work_options;

/* What one tick did. */
typedef struct ef_tick {
    int64_t claimed, applied, ignored, failed, dead;
    int64_t published;  /* handed to sinks by publishers */
    int64_t deferred;   /* wait behind a failed one in the own lane of a projection */
    int64_t caught_up;  /* events read by cursor for projections that catch up or follow the log */
    int64_t run_events; /* events that runs have read */
    int64_t active_workers; /* that share the partitions, this one included */
    int64_t desired_count;  /* partitions this worker should have … */
    int64_t owned_count;    /* … and has */
    int64_t leased_count;   /* taken in this tick */
    int64_t released_count; /* given back in this tick */
    int64_t lost_count;     /* found to have passed to another worker in this tick */
    int64_t purged_stale;   /* workers that were removed, long gone */
    bool renewed_heartbeat;
    int64_t backoff_ms; /* a store was not at hand: try again after this long */
    int64_t due_us;     /* the next exception is due at this time; 0: none that is known */
    int64_t duration_us;
    bool more; /* this engine has more to do: call again. It stays true while a projection that this
                * engine catches up is behind; if the tick did nothing, the catch-up pauses for live
                * work, and a caller that sleeps for a few milliseconds saves processor time. False
                * does not mean that nothing is left: other workers may be busy, and failed rows
                * are due later (ef_engine_backlog) */
} ef_tick;

/* One tick: lease partitions, catch projections up, take, fold, mark, retry what is due, publish. A
 * publisher whose sink is not at hand is no failure of the tick: see publisher.h. */
ef_status ef_engine_work(ef_engine *engine, const ef_work_options *options, ef_tick *out,
                         ef_error *err);

/* One step of the projections that catch up or follow the log, and of nothing else: a tick for
 * programs in inline_apply_only, which have no worker. */
ef_status ef_engine_catch_up(ef_engine *engine, ef_tick *out, ef_error *err);

/* What is left to do, by this engine and by others. Paused projections and publishers are left
 * out. */
typedef struct ef_backlog {
    /* Work that proceeds by itself: */
    int64_t queued;        /* rows that wait for a worker or are in flight, of all lanes */
    int64_t behind;        /* generations that catch up or have not read the log to its end … */
    int64_t behind_events; /* … and by how many events, in sum */
    int64_t runs;          /* open runs … */
    int64_t run_events;    /* … and how many events they have read so far */
    /* Work that waits for a time or for an operator: */
    int64_t retrying;    /* rows that failed and are tried again … */
    int64_t tenants;     /* tenants of log-ordered projections that are blocked by an event … */
    int64_t due_us;      /* … the first of them at this time; 0: none */
    int64_t dead;        /* rows that failed for the last time */
    int64_t blocked;     /* rows and events behind those */
    int64_t failed;      /* generations that have failed */
    int64_t no_function; /* generations behind, written in C, whose function this process lacks */
    int64_t unpublished; /* rows of publishers behind a failed one, or whose sink is unavailable */
} ef_backlog;

/* Reads the stores; nothing is changed. A worker that has to do everything there is calls
 * ef_engine_work until `more` is false and `queued`, `behind` and `runs` are 0. */
ef_status ef_engine_backlog(ef_engine *engine, ef_backlog *out, ef_error *err);

#define EF_COUNTED_BOUNDS 12

/* How often something was at most bounds[i], and more than bounds[i - 1]; the last: more than all.
 */
typedef struct ef_histogram {
    const int64_t *bounds;
    int64_t counts[EF_COUNTED_BOUNDS + 1];
    int64_t sum;
} ef_histogram;

/* What an engine has counted since it was opened. */
typedef struct ef_engine_counts {
    ef_histogram batch_events; /* events that were applied together, … */
    ef_histogram batch_us;     /* … how long that took, with its commit, … */
    ef_histogram fold_us;      /* … and how much of it the programs took */
    int64_t retries;           /* events that failed, and will be tried again */
    int64_t store_retries; /* batches given back because a store was not at hand: nothing failed */
    int64_t quarantined;   /* events that failed for the last time: their streams wait */
    int64_t large_views;   /* views that came to half of the size that a view may have, or more */
    int64_t leases_taken, leases_released, leases_lost;
    ef_histogram tick_us;                     /* how long ticks took that had something to do */
    int64_t ticks, ticks_empty, ticks_failed; /* of workers and publishers; those that had nothing
                                               * to do, and those that are tried again, are not
                                               * among `ticks` */
    int64_t claimed;    /* rows taken from the outbox: a row that is taken again counts again */
    int64_t run_events; /* events that runs have read */
} ef_engine_counts;

ef_status ef_engine_counted(ef_engine *engine, ef_engine_counts *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
