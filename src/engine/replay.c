/*
 * replay.c - applies matching events again: see replay.h.
 *
 * The progress of a replay is in its record, so that another worker continues after the last batch
 * that was recorded; a batch that was applied and not recorded is applied again, as duplicates.
 */
#include "queue.h"
#include "run.h"
#include "apply.h"

#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROWS_MAX 1000 /* of one event: one per lane */
#define LOOK_MS 25

/* A replay and its progress. */
typedef struct replay_read {
    ef_engine *engine;
    ef_replay what;        /* `to` is never 0 */
    int64_t position, seq; /* done up to here */
    bool over;
    bool fits_only; /* return only matching events */
} replay_read;

static bool matches_filter(const replay_read *reading, const ef_event *event)
{
    return event->position >= reading->what.from && event->position <= reading->what.to &&
           (reading->what.from_us == 0 || event->time_us >= reading->what.from_us) &&
           (reading->what.to_us == 0 || event->time_us <= reading->what.to_us) &&
           event->seq > reading->what.after_seq &&
           (reading->what.until_seq == 0 || event->seq <= reading->what.until_seq) &&
           ef__type_matches(event->type, reading->what.type);
}

static ef_status read_stream(replay_read *reading, ef_batch *batch, ef_error *err)
{
    int64_t from = reading->seq + 1;
    ef_status st;

    if (reading->fits_only && from <= reading->what.after_seq)
        from = reading->what.after_seq + 1;
    st = ef_journal_read_stream(reading->engine->journal, reading->what.tenant,
                                reading->what.stream, from, reading->engine->run_batch, batch, err);
    if (st == EF_NOT_FOUND) /* no such stream: no events */
        st = EF_OK;
    reading->over = !batch->more;
    if (st == EF_OK && batch->count) {
        const ef_event *last = &batch->events[batch->count - 1];
        reading->seq = last->seq;
        reading->position = last->position;
        reading->over = reading->over || last->position >= reading->what.to ||
                        (reading->what.until_seq != 0 && last->seq >= reading->what.until_seq);
    }
    return st;
}

static ef_status read_log(replay_read *reading, ef_batch *batch, ef_error *err)
{
    int64_t after = reading->position, reached;
    ef_status st;

    if (reading->fits_only && after < reading->what.from - 1)
        after = reading->what.from - 1;
    reached = after;
    st = ef_journal_read_log(
        reading->engine->journal,
        &(ef_log_query){.tenant = reading->what.tenant,
                        .any_tenant = reading->what.any_tenant,
                        .after = after,
                        .type = reading->fits_only ? reading->what.type : (ef_str){0},
                        .limit = reading->engine->run_batch,
                        .out_reached = &reached},
        batch, err);
    if (st == EF_OK) {
        reading->over = !batch->more || reached >= reading->what.to;
        reading->position = reached < reading->what.to ? reached : reading->what.to;
    }
    return st;
}

static ef_status read_next(replay_read *reading, ef_batch *batch, ef_error *err)
{
    return reading->what.stream.len ? read_stream(reading, batch, err)
                                    : read_log(reading, batch, err);
}

/* --- applying --------------------------------------------------------------------------------- */

static void count_verdict(ef_replay_result *counts, ef__verdict verdict)
{
    counts->applied += verdict == EF__VERDICT_APPLIED;
    counts->ignored += verdict == EF__VERDICT_IGNORED || verdict == EF__VERDICT_SKIPPED;
    counts->duplicates += verdict == EF__VERDICT_DUPLICATE;
    counts->failed += verdict == EF__VERDICT_FAILED;
    counts->deferred += verdict == EF__VERDICT_DEFERRED;
}

/* Only generations of the queue: a log-ordered one has everything up to its cursor, and must apply
 * later events in order. No outbox row brings the events, so those that fail get retry rows. */
static ef_status apply_matching(ef__run_drive *drive, const replay_read *reading,
                                const ef_batch *batch, size_t *out_count, ef_error *err)
{
    ef__live_choice choice = {.by_queue = true, .projection = drive->run.projection};
    EF__AUTO(ef__apply) apply = {
        .adds_retry_rows = true, .reads_skips = true, .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    size_t count = 0;
    ef_status st = ef__apply_set_events(&apply, batch->events, batch->count, err);

    for (size_t i = 0; st == EF_OK && i < batch->count; i++)
        if (matches_filter(reading, &batch->events[i]))
            apply.owned[count++] = &batch->events[i];
    *out_count = apply.event_count = count;
    if (st == EF_OK && count)
        st = ef__apply_run_live(drive->engine, &choice, &apply, err);
    for (size_t i = 0; st == EF_OK && i < apply.generation_count * apply.event_count; i++)
        count_verdict(&drive->detail.counts, apply.results[i].verdict);
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The upper bound is the head at the start of the replay: later events are applied by the queue. */
static ef_status set_upper_bound(ef__run_drive *drive, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(drive->engine->journal, &head, err);
    ef_replay *what = &drive->detail.replay;
    bool is_whole =
        !what->stream.len && !what->type.len && !what->from_us && !what->to_us && what->any_tenant;
    int64_t from = drive->run.from ? drive->run.from : 1;

    if (st != EF_OK)
        return st;
    what->to = drive->run.to && drive->run.to < head.position ? drive->run.to : head.position;
    if (is_whole)
        drive->run.total = what->to >= from ? what->to - from + 1 : 0;
    if (what->to == 0)
        drive->run.state = EF_RUN_COMPLETED;
    return EF_OK;
}

ef_status ef__replay_step(ef__run_drive *drive, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    size_t count = 0;
    replay_read reading = {.engine = drive->engine,
                           .what = drive->detail.replay,
                           .position = drive->run.last_position,
                           .seq = drive->detail.last_seq,
                           .fits_only = true};
    ef_status st;

    if (reading.what.to == 0)
        return set_upper_bound(drive, err);
    reading.what.tenant = drive->run.tenant;
    reading.what.from = drive->run.from;
    st = read_next(&reading, &batch, err);
    if (st == EF_OK)
        st = apply_matching(drive, &reading, &batch, &count, err);
    if (st == EF_OK) {
        drive->run.processed += (int64_t)count;
        drive->run.last_position = reading.position;
        drive->detail.last_seq = reading.seq;
        drive->tick->run_events += (int64_t)count;
        if (reading.over)
            drive->run.state = EF_RUN_COMPLETED;
    }
    return st;
}

/* --- requesting a replay ---------------------------------------------------------------------- */

static ef_status check_pair(const char *what, int64_t lower, int64_t upper, ef_error *err)
{
    if (lower < 0 || upper < 0)
        return ef_fail(err, EF_BAD_INPUT, "a bound of the %s is below 0", what);
    if (upper && lower > upper)
        return ef_fail_numbers(err, EF_BAD_INPUT, lower, upper,
                               "the lower bound of the %s (%" PRId64
                               ") is above the upper one (%" PRId64 ")",
                               what, lower, upper);
    return EF_OK;
}

/* A log-ordered projection has everything up to its cursor: there is nothing to replay. */
static ef_status check_projection(ef_engine *engine, ef_str name, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st;

    if (name.len == 0)
        return EF_OK;
    st = ef__generations_read(engine, name, &list, err);
    if (st == EF_OK && list.items[0].by_log)
        st = ef_fail(err, EF_BAD_INPUT,
                     "projection \"%.*s\" is log-ordered and lacks no event before its cursor: "
                     "rebuild it instead",
                     EF_STR_ARG(name));
    return st;
}

static ef_status check_replay(ef_engine *engine, const ef_replay *replay, ef_error *err)
{
    ef_status st;

    if (!engine || !replay)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "replay" : "engine");
    st = check_pair("positions", replay->from, replay->to, err);
    if (st == EF_OK)
        st = check_pair("dates", replay->from_us, replay->to_us, err);
    if (st == EF_OK)
        st = check_pair("seqs", replay->until_seq ? replay->after_seq + 1 : replay->after_seq,
                        replay->until_seq, err);
    if (st == EF_OK && (replay->after_seq || replay->until_seq) && replay->stream.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "bounds of seqs (after_seq, until_seq) need a stream");
    if (st == EF_OK && replay->stream.len && replay->any_tenant)
        st = ef_fail(err, EF_BAD_INPUT, "a stream belongs to one tenant");
    return st == EF_OK ? check_projection(engine, replay->projection, err) : st;
}

ef_status ef_replay_request(ef_engine *engine, const ef_replay *replay, ef_run_list *out,
                            ef_error *err)
{
    ef__detail detail = {0};
    ef_status st = check_replay(engine, replay, err);

    if (st != EF_OK)
        return st;
    detail.replay = *replay;
    detail.replay.to = 0;
    return ef__run_file(engine,
                        &(ef_run){.mode = EF_RUN_REPLAY,
                                  .projection = replay->projection,
                                  .tenant = replay->any_tenant ? (ef_str){0} : replay->tenant,
                                  .from = replay->from,
                                  .to = replay->to,
                                  .total = -1,
                                  .reason = replay->reason,
                                  .requester = replay->actor},
                        &detail, out, err);
}

/* --- dry run ---------------------------------------------------------------------------------- */

typedef struct dry_run {
    replay_read reading;
    ef__side_fold side; /* to validate; not open when events are only counted */
    void (*failed)(void *context, ef_str projection, const ef_event *event, ef_str message);
    void *context;
    ef_replay_result *out;
} dry_run;

static void report_results(dry_run *run, const ef__apply *apply)
{
    for (size_t g = 0; g < apply->generation_count; g++)
        for (size_t i = 0; i < apply->event_count; i++) {
            const ef__apply_result *result = &apply->results[g * apply->event_count + i];
            const ef_event *event = apply->events[i];
            if (!matches_filter(&run->reading, event))
                continue;
            count_verdict(run->out, result->verdict);
            if (result->verdict == EF__VERDICT_FAILED && run->failed)
                run->failed(run->context, apply->generations[g].generation->name, event,
                            result->message);
        }
}

static ef_status dry_run_step(dry_run *run, bool validate, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = read_next(&run->reading, &batch, err);
    size_t count = st == EF_OK ? batch.count : 0;

    while (count && batch.events[count - 1].position > run->reading.what.to)
        count--;
    for (size_t i = 0; i < count; i++)
        run->out->events += matches_filter(&run->reading, &batch.events[i]);
    if (st == EF_OK && validate)
        st = ef__side_fold_run(&run->side, 0, batch.events, count, err);
    if (st == EF_OK && validate)
        report_results(run, &run->side.apply);
    return st;
}

ef_status ef_replay_dry_run(ef_engine *engine, const ef_replay *replay, bool validate,
                            void (*failed)(void *context, ef_str projection, const ef_event *event,
                                           ef_str message),
                            void *context, ef_replay_result *out, ef_error *err)
{
    dry_run run = {.failed = failed, .context = context, .out = out};
    ef_head head = {0};
    bool added;
    ef_status st =
        out ? check_replay(engine, replay, err) : ef_fail(err, EF_BAD_INPUT, "out is NULL");

    if (st == EF_OK)
        st = ef_journal_head(engine->journal, &head, err);
    if (st == EF_OK && validate)
        st = ef__side_fold_open(&run.side, engine, EF_STR("validate"), err);
    if (st == EF_OK && validate)
        st = ef__side_fold_add_active(
            &run.side, &(ef__live_choice){.projection = replay->projection}, &added, err);
    if (st == EF_OK) {
        *out = (ef_replay_result){0};
        run.reading = (replay_read){.engine = engine, .what = *replay, .fits_only = !validate};
        run.reading.what.to = replay->to ? replay->to : head.position;
    }
    while (st == EF_OK && !run.reading.over)
        st = dry_run_step(&run, validate, err);
    ef__side_fold_close(&run.side);
    return st;
}

/* --- one event now -------------------------------------------------------------------------------
 *
 * The rows of the event become due, which wakes the workers. If no worker holds the partition, this
 * process acquires its lease and does the work. Then the rows are polled until each was tried.
 */

ef_status ef__retry_rows_of_event(ef_engine *engine, const ef_outbox_action *act, ef_row_list *out,
                                  ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(engine->journal, act->tenant, act->stream, act->seq, 1, &batch, err);
    bool found = st == EF_OK && batch.count && batch.events[0].seq == act->seq;
    int64_t position = found ? batch.events[0].position : 0;

    out->count = 0;
    if (found)
        st = ef_outbox_ls(
            engine->journal,
            &(ef_outbox_query){
                .lane = act->lane, .any_tenant = true, .from = position, .limit = ROWS_MAX},
            out, err);
    while (st == EF_OK && out->count && out->items[out->count - 1].position != position)
        out->count--;
    if (st == EF_OK && out->count && ef_str_equal(out->items[0].lane, EF_STR(EF_LANE_APPLY))) {
        out->items++; /* a queued row is not a retry row */
        out->count--;
    }
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never created has no rows */
}

static ef_status make_due(ef_engine *engine, const ef_outbox_action *act, const ef_row_list *rows,
                          ef_row_list *out, ef_error *err)
{
    ef__revised_row *due = malloc((rows->count + 1) * sizeof *due);
    int64_t id = 0;
    ef_audit_entry entry = {.action = EF_STR("replay"),
                            .actor = act->actor,
                            .reason = act->reason,
                            .lane = rows->count == 1 ? rows->items[0].lane : act->lane,
                            .tenant = act->tenant,
                            .stream = act->stream,
                            .seq = act->seq};
    ef_status st;

    if (!due)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    for (size_t i = 0; i < rows->count; i++)
        due[i] =
            (ef__revised_row){.lane = rows->items[i].lane, .position = rows->items[i].position};
    st = ef__outbox_revise(
        engine->journal,
        &(ef__revision_request){EF__REVISION_REPLAY, due, rows->count, &entry, &id}, out, err);
    free(due);
    return st;
}

/* Does a worker, maybe this one, hold the row's partition? Publishers have their own leases. */
static ef_status is_held(ef_engine *engine, int32_t partition, bool *out, ef_error *err)
{
    ef_lease_kind kind = EF_LEASE_PARTITION;
    EF__AUTO(ef_lease_list) list = {0};
    ef_status st = ef_lease_ls(engine->journal, &kind, &list, err);

    *out = false;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].key.partition == partition && list.items[i].holder.len)
            *out = list.items[i].live;
    return st;
}

static bool is_ours(ef_engine *engine, int32_t partition)
{
    size_t count;
    const ef_partition_lease *held = ef__membership_leases(&engine->queue.membership, &count);

    for (size_t i = 0; i < count; i++)
        if (held[i].partition == partition)
            return true;
    return false;
}

/* Tries due rows in this process, if it holds the partition or no worker does. */
static ef_status try_here(ef_engine *engine, int32_t partition, ef_error *err)
{
    ef_tick tick = {0};
    bool held = false;
    ef_status st;

    pthread_mutex_lock(&engine->queue.lock);
    st = is_ours(engine, partition) ? EF_OK : is_held(engine, partition, &held, err);
    if (st == EF_OK && !held)
        st = ef__membership_step(&engine->queue.membership, &(ef_work_options){0}, &tick, err);
    if (st == EF_OK && !held && is_ours(engine, partition))
        st = ef__retry_step_due(engine, &tick, err);
    ef__arena_reset(&engine->queue.arena);
    pthread_mutex_unlock(&engine->queue.lock);
    return st == EF_LEASE_LOST ? EF_OK : st; /* another worker holds it now, and tries it */
}

static const ef_row *find_row(const ef_row_list *rows, ef_str lane)
{
    for (size_t i = 0; i < rows->count; i++)
        if (ef_str_equal(rows->items[i].lane, lane))
            return &rows->items[i];
    return NULL;
}

/* Was every row tried since it became due? A removed row was. */
static bool all_tried(const ef_row_list *due, const ef_row_list *now)
{
    for (size_t i = 0; i < due->count; i++) {
        const ef_row *before = &due->items[i], *row = find_row(now, before->lane);
        bool same = row && row->attempt_count == before->attempt_count &&
                    row->next_attempt_us == before->next_attempt_us &&
                    row->status == before->status;
        if (row && (same || row->trying))
            return false;
    }
    return true;
}

static ef_status poll_rows(ef_engine *engine, const ef_outbox_action *act, const ef_row_list *due,
                           int64_t timeout_ms, ef_row_list *out, ef_error *err)
{
    int64_t wake = 0;
    ef_status st;

    for (int64_t waited_ms = 0;; waited_ms += LOOK_MS) {
        st = ef__retry_rows_of_event(engine, act, out, err);
        if (st != EF_OK || all_tried(due, out))
            return st;
        if (waited_ms >= timeout_ms)
            return ef_fail(
                err, EF_TIMEOUT,
                "stream \"%.*s\" seq %lld was not tried within %lld ms: it is due, and a "
                "worker that holds partition p%02d tries it",
                EF_STR_ARG(act->stream), (long long)act->seq, (long long)timeout_ms,
                (int)due->items[0].partition);
        if (due->count)
            st = try_here(engine, due->items[0].partition, err);
        if (st == EF_OK)
            st = ef__journal_wait(engine->journal, EF__NO_APPENDS, &wake, LOOK_MS, err);
        if (st != EF_OK && st != EF_TIMEOUT)
            return st;
    }
}

ef_status ef_outbox_replay(ef_engine *engine, const ef_outbox_action *action, int64_t timeout_ms,
                           ef_row_list *out, ef_error *err)
{
    EF__AUTO(ef_row_list) due = {0};
    ef_status st;

    if (!engine || !action || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, act or out is NULL");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__retry_rows_of_event(engine, action, out, err);
    if (st == EF_OK && out->count)
        st = make_due(engine, action, out, &due, err);
    if (st == EF_OK && due.count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "stream \"%.*s\", seq %lld: no retry row%s%.*s%s",
                     EF_STR_ARG(action->stream), (long long)action->seq,
                     action->lane.len ? " in lane \"" : "", EF_STR_ARG(action->lane),
                     action->lane.len ? "\"" : "");
    if (st == EF_OK)
        st = poll_rows(engine, action, &due, timeout_ms ? timeout_ms : EF_REPLAY_WAIT_MS, out, err);
    return st;
}
