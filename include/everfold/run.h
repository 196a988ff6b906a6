/*
 * run.h - jobs with a record: replay, rebuild, verify, seed.
 *
 *     queued ─► running ─► completed | failed | cancelled
 *       └──────────────────────────────────► cancelled
 * End states are final. One run per tenant and projection is open (queued or running) at a time; a
 * run over all projections (projection "") excludes runs of single ones, and the other way round.
 * The driver of a run holds a lease on it; progress writes compare the token.
 */
#pragma once

#include <everfold/journal.h>

EF_C_BEGIN

typedef enum ef_run_mode { EF_RUN_REPLAY, EF_RUN_REBUILD, EF_RUN_VERIFY, EF_RUN_SEED } ef_run_mode;

typedef enum ef_run_state {
    EF_RUN_QUEUED,
    EF_RUN_RUNNING,
    EF_RUN_COMPLETED,
    EF_RUN_FAILED,
    EF_RUN_CANCELLED
} ef_run_state;

typedef struct ef_run {
    ef_str id; /* generated */
    ef_run_mode mode;
    ef_str projection;
    ef_str tenant;
    ef_run_state state;
    int64_t requested_us;
    int64_t started_us;  /* 0: not yet */
    int64_t finished_us; /* 0: not yet */
    int64_t from;        /* positions, inclusive; 0: the bounds of the journal */
    int64_t to;
    int64_t processed;
    int64_t total; /* -1: unknown */
    int64_t last_position;
    ef_str error; /* of an open run: what it waits for */
    ef_str reason;
    ef_str requester;
    ef_str detail; /* JSON: further parameters, and the result */
    bool cancel;   /* cancellation was requested: the driver ends the run at its next step */
} ef_run;

typedef struct ef_run_list {
    const ef_run *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_run_list;

/*
 * Cancels a run: a queued one at once; for a running one the driver is asked to end it at its next
 * step. What it has committed stays. EF_NOT_FOUND, or EF_CONFLICT: it has ended.
 */
ef_status ef_run_cancel(ef_journal *journal, ef_str id, ef_error *err);

typedef struct ef_run_query {
    const ef_str *id; /* NULL: any */
    /* Runs of this tenant alone; NULL: all. A run over all tenants has the tenant "" and belongs to
     * none: every mode but replay, and a replay over all tenants. */
    const ef_str *tenant;
    bool open_only; /* queued and running ones */
    size_t limit;   /* 0 means 100 */
} ef_run_query;

/* Newest first. EF_NOT_FOUND: there is no run with that id. */
ef_status ef_run_ls(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                    ef_error *err);

/* Options for driving a run in the caller's thread. */
struct ef_engine;
typedef struct ef_run_options {
    /* Called after each step with the current run. `idle`: nothing could be done, so wait a little
     * before returning; while a store is unavailable, the run's `error` says so. False stops
     * driving: the run stays open, and any worker may continue it. NULL: stop when nothing could be
     * done, also because a store is unavailable. */
    bool (*progress)(void *context, const ef_run *run, bool idle);
    void *context;
} ef_run_options;

/*
 * Drives one run to its end; `out` is the final run. Workers do the same in ef_engine_work; while
 * one of them drives this run, this call only polls it.
 */
ef_status ef_engine_run(struct ef_engine *engine, ef_str id, const ef_run_options *options,
                        ef_run_list *out, ef_error *err);

EF_C_END
