/*
 * engine.h - a journal and a view store with the engine between them: events become views.
 *
 * An engine folds every event, in order and exactly once, into the views of every deployed
 * projection. ef_engine_work does a bounded amount of work and returns; the caller owns threads,
 * signals and sleep. All functions may be called from several threads.
 */
#pragma once

#include <everfold/journal.h>

EF_C_BEGIN

typedef struct ef_engine ef_engine;

typedef enum ef_mode {
    EF_MODE_OUTBOX_APPLY_ONLY,  /* appends queue, workers fold */
    EF_MODE_INLINE_APPLY_ONLY,  /* appends fold at once; nothing is queued. Needs no worker: appends
                                 * also retry due rows and advance log-ordered projections */
    EF_MODE_INLINE_THEN_OUTBOX, /* appends fold at once; failed events are left to the workers */
    EF_MODE_SHADOW_ONLY /* appends fold at once and queue; a shadow worker folds the queued rows
                         * into its own store and compares; no query reads that store */
} ef_mode;

/* The retry schedule: the first retry after `base_ms`, then `factor` times as long each time, up to
 * `cap_ms`. 0 means the default. */
typedef struct ef_retry_options {
    int64_t base_ms;
    int64_t factor;       /* 1: the same delay each time */
    int64_t cap_ms;       /* at least base_ms */
    int64_t attempts_max; /* the last attempt; -1: no limit */
} ef_retry_options;

typedef struct ef_engine_options {
    ef_journal *journal;   /* borrowed while the engine is open */
    const char *views_url; /* "sqlite:PATH", "lmdb:FOLDER", "postgres://…" or "memory:" */
    bool create;           /* create the view store if it does not exist */
    bool read_only;
    ef_mode mode;
    ef_str worker;           /* name of this worker; "" generates one */
    int64_t busy_ms;         /* default 10,000 */
    int64_t live_lag_ms;     /* objective for the lag of live work while something catches up; a
                              * catch-up slows down to keep it; default 100 */
    int64_t retire_after_ms; /* when a worker retires a superseded generation; 0: never */
    ef_retry_options retry_apply;  /* an event that fails in a projection; default 1 s doubling to 5
                                    * min, dead at the 8th failure */
    ef_retry_options retry_cursor; /* a tenant of a log-ordered projection; default 250 ms doubling
                                    * to 5 min, failed at the 6th failure */
    ef_retry_options retry_publish; /* a message; only `factor` (default 1) and `cap_ms` (default 1
                                     * h) are used, the others are set per publisher */
    size_t catch_up_batch;          /* events of a step of a catch-up, at most; default 250,000 */
    size_t run_batch;               /* events of a step of a replay; default 1,000 */
    const ef_clock *clock;          /* default: the system's */
    const ef_log *log;
} ef_engine_options;

ef_status ef_engine_open(const ef_engine_options *options, ef_engine **out, ef_error *err);
/*
 * Copies the view store to options->path, a file or a folder like the store itself, as of one
 * moment and while others write. To go with a copy of the journal it must be made before that copy:
 * then the views have no event that the journal lacks, and workers apply what the views lack.
 * Statuses as for ef_journal_backup.
 */
ef_status ef_engine_backup_views(ef_engine *engine, const ef_backup_options *options,
                                 ef_error *err);
void ef_engine_close(ef_engine *engine); /* releases its leases; accepts NULL */

/* Like ef_journal_append; in the inline modes the events are folded before it returns. An event
 * that fails in a projection does not fail the append: the failure is recorded and logged. */
ef_status ef_engine_append(ef_engine *engine, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);

/* Like ef_journal_append_each; in the inline modes the events are folded before it returns. */
void ef_engine_append_each(ef_engine *engine, ef_append *appends, size_t count);

typedef struct ef_work_options {
    size_t batch;     /* events of a claim; default 1,000, at most 16,000; with a backlog up to 16
                       * times as many, within the same limit */
    bool no_leasing;  /* a single worker: its leases have one fixed owner, so a restart continues at
                       * once; partitions of other workers stay theirs until their leases end */
    int64_t lease_ms; /* default 10,000 */
    int64_t renew_ms; /* interval of renewing leases and heartbeat; default a third of the lease;
                       * less than the lease, and than half of the heartbeat */
    int64_t heartbeat_ms; /* default twice the lease, and not less than it: a worker without a
                           * renewal for half of it is late, and its partitions are taken over when
                           * its leases end */
    bool cursors_only;    /* only projections that catch up or are log-ordered: for programs in
                           * inline_apply_only, which have no worker. The options above are unused */
} ef_work_options;

/* What one tick did. */
typedef struct ef_tick {
    int64_t claimed, applied, ignored, failed, dead;
    int64_t published;      /* delivered to sinks by publishers */
    int64_t deferred;       /* blocked behind a failed event in a projection's lane */
    int64_t caught_up;      /* events read by cursors */
    int64_t run_events;     /* events read by runs */
    int64_t active_workers; /* that share the partitions, including this one */
    int64_t desired_count;  /* partitions that this worker should hold … */
    int64_t owned_count;    /* … and holds */
    int64_t leased_count;   /* acquired in this tick */
    int64_t released_count; /* released in this tick */
    int64_t lost_count;     /* found in this tick to be held by another worker */
    int64_t purged_stale;   /* stale workers that were removed */
    bool renewed_heartbeat;
    int64_t backoff_ms; /* a store was unavailable: try again after this time */
    int64_t due_us;     /* when the next retry row is due; 0: none known */
    int64_t duration_us;
    bool more; /* this engine has more to do: call again. It stays true while a projection that this
                * engine catches up is behind; if the tick did nothing, the catch-up pauses for live
                * work, and a caller that sleeps for a few milliseconds saves processor time. False
                * does not mean that nothing is left: other workers may be busy, and retry rows are
                * due later (ef_engine_backlog) */
} ef_tick;

/* One tick: lease partitions, advance cursors, claim, fold, acknowledge, retry due rows, publish.
 * An unavailable sink does not fail the tick: see publisher.h. */
ef_status ef_engine_work(ef_engine *engine, const ef_work_options *options, ef_tick *out,
                         ef_error *err);

/* Work that is left, for this engine and for others. Paused projections and publishers are
 * excluded.
 */
typedef struct ef_backlog {
    /* Work that proceeds without an operator: */
    int64_t queued;        /* rows that wait for a worker or are in flight, of all lanes */
    int64_t behind;        /* generations that catch up or have not read the log to its end … */
    int64_t behind_events; /* … and the sum of their lags, in events */
    int64_t runs;          /* open runs … */
    int64_t run_events;    /* … and the events that they have read so far */
    /* Work that waits for a time or for an operator: */
    int64_t retrying;    /* failed rows that will be retried … */
    int64_t tenants;     /* tenants of log-ordered projections that are blocked by an event … */
    int64_t due_us;      /* … the first of them at this time; 0: none */
    int64_t dead;        /* rows that failed for the last time */
    int64_t blocked;     /* rows and events blocked behind those */
    int64_t failed;      /* failed generations */
    int64_t no_function; /* generations written in C that lag, whose function this process lacks */
    int64_t unpublished; /* rows of publishers blocked behind a failed one, or by their sink */
} ef_backlog;

/* Reads the stores and changes nothing. To finish all work, call ef_engine_work until `more` is
 * false and `queued`, `behind` and `runs` are 0. */
ef_status ef_engine_backlog(ef_engine *engine, ef_backlog *out, ef_error *err);

#define EF_COUNTED_BOUNDS 12

/* counts[i]: values above bounds[i - 1] and at most bounds[i]; the last: above all. */
typedef struct ef_histogram {
    const int64_t *bounds;
    int64_t counts[EF_COUNTED_BOUNDS + 1];
    int64_t sum;
} ef_histogram;

/* Counters of an engine since it was opened. */
typedef struct ef_engine_counts {
    ef_histogram batch_events; /* events of a batch, … */
    ef_histogram batch_us;     /* … the time of a batch with its commit, … */
    ef_histogram fold_us;      /* … and the part of it in the programs */
    int64_t retries;           /* events that failed and will be retried */
    int64_t store_retries;     /* batches that were abandoned because a store was unavailable */
    int64_t quarantined;       /* events that are dead: their streams are blocked */
    int64_t large_views;       /* views that reached half of the size limit */
    int64_t leases_taken, leases_released, leases_lost;
    ef_histogram tick_us;                     /* duration of ticks that did something */
    int64_t ticks, ticks_empty, ticks_failed; /* of workers and publishers; `ticks` did something
                                               * and did not fail */
    int64_t claimed;    /* rows claimed from the outbox; a row that is claimed again counts again */
    int64_t run_events; /* events that runs have read */
} ef_engine_counts;

ef_status ef_engine_counts_read(ef_engine *engine, ef_engine_counts *out, ef_error *err);

EF_C_END
