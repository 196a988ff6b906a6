/*
 * replay.h - replays, gap repair and retries: applies events that projections lack.
 *
 * All of them use the same apply as workers: an event that a projection has is a duplicate and
 * changes nothing, and nothing is published.
 */
#pragma once

#include <everfold/engine.h>
#include <everfold/outbox.h>
#include <everfold/run.h>

EF_C_BEGIN

/* Events and projections of a replay. Bounds are inclusive, except after_seq; 0 and "" are open. */
typedef struct ef_replay {
    ef_str projection; /* "" all */
    ef_str tenant;
    bool any_tenant;
    ef_str stream;                /* of `tenant` */
    ef_str type;                  /* NAME, or PREFIX* */
    int64_t from, to;             /* positions */
    int64_t from_us, to_us;       /* event time */
    int64_t after_seq, until_seq; /* of the stream */
    ef_str actor, reason;
} ef_replay;

typedef struct ef_replay_result {
    int64_t events; /* matching events */
    int64_t applied, duplicates, ignored;
    int64_t failed;   /* the program failed on them … */
    int64_t deferred; /* … or an earlier event of their stream is missing */
} ef_replay_result;

/* Adds a replay run. EF_BAD_INPUT: a lower bound is above its upper one; EF_EXISTS */
ef_status ef_replay_request(ef_engine *engine, const ef_replay *replay, ef_run_list *out,
                            ef_error *err);
/* The progress of a replay, from its detail. */
ef_status ef_run_replay_result(const ef_run *run, ef_replay_result *out, ef_error *err);

/*
 * Changes nothing: counts the matching events; with `validate` also folds everything up to the
 * upper bounds in memory, from the first event, with the active programs. `failed` (may be NULL) is
 * called for each matching event that a program fails on.
 */
ef_status ef_replay_dry_run(ef_engine *engine, const ef_replay *replay, bool validate,
                            void (*failed)(void *context, ef_str projection, const ef_event *event,
                                           ef_str message),
                            void *context, ef_replay_result *out, ef_error *err);

/* Events of a stream that a projection lacks, and that no row will bring. */
typedef struct ef_gap {
    ef_str tenant;
    ef_str projection;
    ef_str stream;
    int32_t generation;
    int64_t applied_seq;
    int64_t expected_next_seq;
    int64_t journal_seq; /* below applied_seq: the journal lost events, which cannot be repaired */
    int64_t replayed;    /* repair: events that were applied */
} ef_gap;

typedef struct ef_gap_list {
    const ef_gap *items;
    size_t count;
    bool more; /* the list is truncated */
    struct ef__batch_memory *room;
} ef_gap_list;

/* Compares every stream with every live stream-ordered projection. With `repair` it also adds rows
 * for missing events to the projection's lane, from where they are applied under the lease of their
 * partition: here, or by the worker that holds the partition. */
ef_status ef_gap_ls(ef_engine *engine, bool repair, ef_gap_list *out, ef_error *err);

/*
 * Retries one event that has a retry row in a lane ("": in all of them). The row becomes due, and
 * the worker that holds its partition tries it; this process tries it if no other worker holds the
 * partition. Waits until each row was tried, for at most `timeout_ms` (0: EF_REPLAY_WAIT_MS). `out`
 * has the rows that are left with their errors: none if the event was applied.
 * EF_NOT_FOUND: it has no retry row; EF_TIMEOUT: it was not tried in time, and is still due
 */
#define EF_REPLAY_WAIT_MS 15000 /* longer than the lease of a crashed worker */
ef_status ef_outbox_replay(ef_engine *engine, const ef_outbox_action *action, int64_t timeout_ms,
                           ef_row_list *out, ef_error *err);

/*
 * Skips an event for the versions of a projection that are blocked at exactly this event: they have
 * all events before it, have failed on it, and no generation of them has it. A row of another kind
 * of lane is passed without being applied.
 * EF_NOT_FOUND  the event has no retry row in that lane
 * EF_CONFLICT   no version is blocked at it: nothing was changed
 */
ef_status ef_projection_skip(ef_engine *engine, const ef_outbox_action *action, ef_row_list *out,
                             ef_error *err);
/* The same for many dead rows of one lane, like ef_outbox_requeue_dead. Rows at which no version is
 * blocked are left unchanged. */
ef_status ef_projection_skip_dead(ef_engine *engine, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err);

EF_C_END
