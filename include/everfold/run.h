/*
 * run.h - jobs with a record: replay, rebuild, catch_up, gap_repair, verify, seed.
 *
 *     queued ─► running ─► completed | failed | cancelled
 *       └──────────────────────────────────► cancelled
 * Nothing leaves an end state. One run per tenant and projection is open (queued or running) at a
 * time; one over all projections (projection "") keeps single ones out, and the other way round.
 * Whoever drives a run holds a lease on it; its progress writes compare the token.
 */
#ifndef EVERFOLD_RUN_H
#define EVERFOLD_RUN_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ef_run_mode {
    EF_RUN_REPLAY,
    EF_RUN_REBUILD,
    EF_RUN_CATCH_UP,
    EF_RUN_GAP_REPAIR,
    EF_RUN_VERIFY,
    EF_RUN_SEED
} ef_run_mode;

typedef enum ef_run_state {
    EF_RUN_QUEUED,
    EF_RUN_RUNNING,
    EF_RUN_COMPLETED,
    EF_RUN_FAILED,
    EF_RUN_CANCELLED
} ef_run_state;

const char *ef_run_mode_name(ef_run_mode mode);    /* "gap_repair" */
const char *ef_run_state_name(ef_run_state state); /* "queued" */

typedef struct ef_run {
    ef_str id; /* made by ef_run_request */
    ef_run_mode mode;
    ef_str projection;
    ef_str tenant;
    ef_run_state state;
    int64_t requested_us;
    int64_t started_us;  /* 0 until then */
    int64_t finished_us; /* 0 until then */
    int64_t from;        /* positions, inclusive; 0 means the journal's own bounds */
    int64_t to;
    int64_t processed;
    int64_t total; /* -1 when not known */
    int64_t last_position;
    ef_str error; /* of a run that goes on: what it waits for */
    ef_str reason;
    ef_str requester;
    ef_str detail; /* JSON: what was asked for beyond the fields above, and what came of it */
    bool cancel;   /* somebody wants it cancelled: its driver does so at its next step */
} ef_run;

typedef struct ef_run_list {
    const ef_run *items;
    size_t count;
    struct ef__batch_room *room;
} ef_run_list;

/* File a run: mode, projection ("" for all: replay, gap_repair and verify), tenant, from, to,
 * total, reason, requester and detail are looked at. `out` holds it, with its id. EF_EXISTS: one is
 * open for the same tenant and projection, or for all. */
ef_status ef_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err);

/*
 * Move a run on: state, processed, total, last_position and error of `run` are written, and detail
 * unless it is "". `lease` and
 * `token` are the driver's; cancelling a queued run, or one whose driver's lease is not live, needs
 * none (lease NULL).
 * EF_NOT_FOUND, EF_LEASE_LOST, or EF_CONFLICT: the run's state does not allow the move
 */
struct ef_lease_key;
ef_status ef_run_update(ef_journal *journal, const ef_run *run, const struct ef_lease_key *lease,
                        int64_t token, ef_error *err);

/*
 * Cancel a run: at once when it is queued; a running one is marked, and whoever drives it ends it
 * at its next step. What it has committed stays. EF_NOT_FOUND, or EF_CONFLICT: it is over.
 */
ef_status ef_run_cancel(ef_journal *journal, ef_str id, ef_error *err);

ef_status ef_run_get(ef_journal *journal, ef_str id, ef_run_list *out, ef_error *err);

/* Newest first. `open_only`: queued and running ones. */
ef_status ef_run_ls(ef_journal *journal, bool open_only, size_t limit, ef_run_list *out,
                    ef_error *err);
/* The same of one tenant (see ef_run_is_of); NULL: of all. */
ef_status ef_run_ls_of(ef_journal *journal, const ef_str *tenant, bool open_only, size_t limit,
                       ef_run_list *out, ef_error *err);
/* Is it a run of this tenant alone? A run of all tenants has the tenant "" and is of none: every
 * mode but replay, and a replay that was asked for all tenants. */
bool ef_run_is_of(const ef_run *run, ef_str tenant);
void ef_run_list_release(ef_run_list *list);

/* How a run is driven in the caller's thread. */
struct ef_engine;
typedef struct ef_run_options {
    /* Called after each step with the run as it is. `idle`: nothing could be done just now, so wait
     * a little before answering; while a store is not at hand, `error` of the run says so. False
     * stops driving: the run stays as it is, for anybody to go on with. NULL: stop when nothing
     * could be done, also for want of a store. */
    bool (*progress)(void *context, const ef_run *run, bool idle);
    void *context;
} ef_run_options;

/*
 * Drive one run to its end; `out` is what became of it. Workers do the same, step by step, in
 * ef_engine_work: while one of them drives this run, it is only watched here.
 */
ef_status ef_engine_run(struct ef_engine *engine, ef_str id, const ef_run_options *options,
                        ef_run_list *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
