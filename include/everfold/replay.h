/*
 * replay.h - bringing projections events that they lack: replays, and gaps.
 *
 * Both go through the one apply: what a projection has is a duplicate and changes nothing, and
 * nothing is published.
 */
#ifndef EVERFOLD_REPLAY_H
#define EVERFOLD_REPLAY_H

#include <everfold/engine.h>
#include <everfold/outbox.h>
#include <everfold/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which events, for which projections. Bounds are inclusive, save after_seq; 0 and "" are open. */
typedef struct ef_replay {
    ef_str projection; /* "" all */
    ef_str tenant;
    bool any_tenant;
    ef_str stream;                /* of `tenant` */
    ef_str type;                  /* NAME, or PREFIX* */
    int64_t from, to;             /* positions */
    int64_t from_us, to_us;       /* when it happened */
    int64_t after_seq, until_seq; /* of the stream */
    ef_str who, reason;
} ef_replay;

typedef struct ef_replayed {
    int64_t events; /* that fit */
    int64_t applied, duplicates, ignored;
    int64_t failed;   /* the program cannot digest them … */
    int64_t deferred; /* … or one before them in their stream is missing */
} ef_replayed;

/* File a run that replays. EF_BAD_INPUT: a lower bound is above its upper one; EF_EXISTS */
ef_status ef_replay_request(ef_engine *engine, const ef_replay *replay, ef_run_list *out,
                            ef_error *err);
/* What a replay has done so far: of its detail. */
ef_status ef_run_replayed(const ef_run *run, ef_replayed *out, ef_error *err);

/*
 * Look and change nothing: count the events that fit; with `validate` also fold everything up to
 * the upper bounds in memory, from the first event on, with the routed programs. `failed` (may be
 * NULL) is told each event that fits and that a program cannot digest.
 */
ef_status ef_replay_look(ef_engine *engine, const ef_replay *replay, bool validate,
                         void (*failed)(void *context, ef_str projection, const ef_event *event,
                                        ef_str message),
                         void *context, ef_replayed *out, ef_error *err);

/* Events of a stream that a projection lacks, although nothing waiting will bring them. */
typedef struct ef_gap {
    ef_str tenant;
    ef_str projection;
    ef_str stream;
    int32_t generation;
    int64_t applied_seq;
    int64_t expected_next_seq;
    int64_t journal_seq; /* below applied_seq: the journal lost events. Nothing repairs that */
    int64_t replayed;    /* repair: events that were brought */
} ef_gap;

typedef struct ef_gap_list {
    const ef_gap *items;
    size_t count;
    bool more; /* there are more than a list holds */
    struct ef__batch_room *room;
} ef_gap_list;

void ef_gap_list_release(ef_gap_list *list);

/* Compare every stream with every live projection that is in the order of streams. */
ef_status ef_gap_ls(ef_engine *engine, ef_gap_list *out, ef_error *err);
/* The same, and bring what is missing: it is filed in the projection's own lane, from where it is
 * applied under the lease of its partition. What another worker holds is left to that one. */
ef_status ef_gap_repair(ef_engine *engine, ef_gap_list *out, ef_error *err);

/*
 * Try one event again now that has a retry row in a lane ("" all of them). The row becomes due, and
 * the worker that holds its partition tries it; this process does where no other worker holds it.
 * Waits until each row was tried, for `timeout_ms` at most (0: EF_REPLAY_WAIT_MS). `out` shows the
 * rows that are left with their errors: none when the event has been applied.
 * EF_NOT_FOUND: it has no retry row; EF_TIMEOUT: it was not tried in time, and still is due
 */
#define EF_REPLAY_WAIT_MS 15000 /* longer than the lease of a worker that has ended */
ef_status ef_outbox_replay(ef_engine *engine, const ef_outbox_act *act, int64_t timeout_ms,
                           ef_row_list *out, ef_error *err);

/*
 * Let the versions of a projection pass an event that are blocked at exactly this event: they have
 * all events before it, have failed on it, and no generation of them has it. A lane that is no
 * projection's is skipped as by ef_outbox_skip.
 * EF_NOT_FOUND  the event has no retry row in that lane
 * EF_CONFLICT   no version is blocked at it: nothing was changed
 */
ef_status ef_projection_skip(ef_engine *engine, const ef_outbox_act *act, ef_row_list *out,
                             ef_error *err);
/* The same for many dead rows of one lane, as ef_outbox_requeue_dead. Rows at which no version is
 * blocked are left out. */
ef_status ef_projection_skip_dead(ef_engine *engine, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
