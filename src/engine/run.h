/*
 * run.h - runs: leases, records, and the steps of each mode.
 *
 * A run is a record in the journal. The worker that drives it holds the lease of its scope and
 * advances it in bounded steps. All state of a step is in the record and in the stores, so that
 * another worker continues the run after a crash. A step may be repeated: everything is written
 * under the lease's token or by an apply, which applies an event once.
 */
#pragma once

#include "queue.h"

#include <everfold/generation.h>
#include <everfold/replay.h>

/*
 * The state of a rebuild or a verification.
 *
 *     requested ──► reserved ──► compared ──► switched
 *                       │  │         └──────► (verification: the generation is removed)
 *                       │  └──► adopted
 *                       └─────► replaced
 *
 * reserved   a number for the new generation is stored; the generation itself may exist already
 * replaced   in place: the new generation is active, the old one is retired
 * compared   the views of both were compared, and the result is stored
 * switched   the run compared the new generation and made it active
 * adopted    the new generation is active without a stored comparison: an operator switched, or the
 *            response to the run's own switch was lost
 *
 * Only move_state in rebuild.c changes it. The JSON detail has it by name in "rebuild", except for
 * the first two, which follow from `built`.
 */
typedef enum ef__rebuild_state {
    EF__REBUILD_REQUESTED,
    EF__REBUILD_RESERVED,
    EF__REBUILD_REPLACED,
    EF__REBUILD_COMPARED,
    EF__REBUILD_SWITCHED,
    EF__REBUILD_ADOPTED
} ef__rebuild_state;

/* The detail of a run: a JSON object in the journal, without keys that are 0, false or "". */
typedef struct ef__detail {
    /* request */
    ef_replay replay; /* `to` is the last position, set by the first step; the run has projection,
                       * tenant, `from`, actor and reason */
    bool in_place, no_switch, switch_anyway;
    /* progress */
    int64_t last_seq;   /* replay of a stream: done up to here */
    int64_t generation; /* number of the generation that was active at the start */
    int64_t built;      /* number of the new generation, stored before it is created; 0: none */
    ef__rebuild_state rebuild;
    /* result */
    ef_replay_result counts; /* without the events: the run has them */
    int64_t views, differences;
    ef_str examples; /* JSON */
} ef__detail;

/* `text` is borrowed: strings of `out` point into it or into `arena`. */
ef_status ef__detail_parse(ef_str text, ef__arena *arena, ef__detail *out, ef_error *err);
/* False: memory ran out. */
bool ef__detail_write(const ef__detail *detail, ef__buf *out);

/* A run that this engine drives. */
typedef struct ef__run_drive {
    ef_engine *engine;
    ef_run run; /* as it will be stored */
    ef__detail detail;
    ef__arena arena; /* of the detail's strings */
    ef_lease_key key;
    int64_t token;
    ef_tick *tick;
    bool idle; /* out: nothing to do until another driver, a worker or an operator acts */
} ef__run_drive;

/* Acquires or renews the lease of the run's scope. EF_LEASE_HELD */
ef_status ef__run_claim(ef__run_drive *drive, ef_error *err);
/* Stores the run under the token. */
ef_status ef__run_save(ef__run_drive *drive, ef_error *err);

/*
 * A bounded step of a mode. It updates processed, total and last_position, and sets the state to
 * EF_RUN_COMPLETED at the end. EF_CONFLICT: a concurrent change, try again.
 */
ef_status ef__replay_step(ef__run_drive *drive, ef_error *err);
ef_status ef__rebuild_step(ef__run_drive *drive, ef_error *err);
/* Is the generation that the run built active? Then the run can no longer be cancelled. */
ef_status ef__rebuild_is_done(ef__run_drive *drive, bool *out, ef_error *err);
/* The run was cancelled or has failed: removes the incomplete generation. */
ef_status ef__rebuild_undo(ef__run_drive *drive, ef_error *err);

/* Is no other worker alive? Another worker would apply the queued events; without one, the caller
 * that needs the result must apply them. */
ef_status ef__worker_is_alone(ef_engine *engine, bool *out, ef_error *err);
/* Releases the lease of a run. */
void ef__run_leave(ef_engine *engine);

/* Adds a run with this detail. (run.c) */
ef_status ef__run_file(ef_engine *engine, const ef_run *run, const ef__detail *detail,
                       ef_run_list *out, ef_error *err);

/* --- generations (generation.c) --------------------------------------------------------------- */

/* Adds a generation with the program of `active`, and nothing folded. */
ef_status ef__generation_add_build(ef_engine *engine, const ef__generation *active, int64_t number,
                                   ef__generation_state state, int64_t *out_id, ef_error *err);
/* The highest number in the list. */
int64_t ef__generation_highest(const ef__generation_list *list);
/* The generation of that number; NULL when there is none. */
const ef__generation *ef__generation_number(const ef__generation_list *list, int64_t number);
ef_status ef__generations_read(ef_engine *engine, ef_str name, ef__generation_list *out,
                               ef_error *err);
/* Makes `to` active and adds an audit entry. The entry comes first: after a crash in between there
 * is an entry too many, not too few. */
ef_status ef__generation_activate(ef_engine *engine, const ef__generation *from,
                                  const ef__generation *to, const char *action, ef_str actor,
                                  ef_str reason, ef_error *err);

/* Removes a slice of a retired generation, to which no worker writes. *out_more: call again. EF_OK
 * if it does not exist. */
ef_status ef__generation_sweep(ef_engine *engine, const ef__generation *generation, int64_t era,
                               bool *out_more, ef_error *err);
/* Removes a slice of the first retired generation of the list, if there is one: a process or a run
 * may have ended before it removed all of it. */
ef_status ef__retired_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                           ef_error *err);

/* At an interval: retires superseded generations whose grace period is over. */
ef_status ef__grace_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                         ef_error *err);

/* --- comparing (generation_diff.c) ------------------------------------------------------------ */

typedef bool ef__difference_fn(void *context, const ef_difference *difference);
ef_status ef__generations_compare(ef_engine *engine, const ef__generation *left,
                                  const ef__generation *right, ef__difference_fn *each,
                                  void *context, ef_diff *out, ef_error *err);

/* --- gaps (gaps.c) ---------------------------------------------------------------------------- */

/* Adds rows for events that a queue-fed generation lacks and that no row brings: one page of
 * streams. *out_done: that was the last page. The caller holds the lock of the run
 * driver. */
ef_status ef__gaps_add_rows(ef_engine *engine, const ef__generation *generation, bool *out_done,
                            ef_error *err);
/*
 * A bounded step of the gap check at the start of a worker, after the other work of a tick; nothing
 * once the check is done. Only the worker with the first partition checks, and only while the queue
 * is shorter than a batch, because queued events would have to be excluded one by one; it waits for
 * that for a minute at most.
 */
ef_status ef__gaps_startup_check(ef_engine *engine, ef_tick *tick, ef_error *err);
bool ef__gaps_check_is_pending(const ef_engine *engine);

/* Does the journal have the event at the watermark of `event`'s stream? `event` is from the
 * journal, with a seq at or below applied_seq. */
ef_status ef__journal_loss_check(ef_engine *engine, const ef__watermark *watermark,
                                 const ef_event *event, bool *out_present, ef_error *err);

/*
 * Does the journal have the events before the generation's cursor? New events in the place of lost
 * ones would lie below the cursor and never be read. A few events before the cursor are compared;
 * if the generation has applied none of them (they failed, or their tenants stopped), the journal
 * counts as intact.
 */
ef_status ef__journal_loss_check_cursor(ef_engine *engine, const ef__generation *generation,
                                        bool *out_present, ef_error *err);
/* The journal lost events before the cursor: sets the generation to failed, with a failure record.
 * Only a rebuild or the restored journal ends that. */
ef_status ef__journal_loss_stop(ef_engine *engine, const ef__generation *generation, ef_error *err);
