/*
 * replay_row.c - retries one event now, on the worker that holds its partition.
 *
 * The rows become due, which wakes the workers. If no worker holds the partition, this process
 * acquires its lease and does the work. Then the rows are polled until each was tried.
 */
#include "queue.h"
#include "run.h"

#include "../journal/journal.h"

#include <stdlib.h>

#define ROWS_MAX 1000 /* of one event: one per lane */
#define LOOK_MS 25

ef_status ef__retry_rows_of_event(ef_engine *engine, const ef_outbox_action *act, ef_row_list *out,
                                  ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
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
    EF_RELEASE(&batch);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never created has no rows */
}

/* --- making them due -------------------------------------------------------------------------- */

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

/* --- trying them ------------------------------------------------------------------------------ */

/* Is the partition of a row held by a worker, possibly this one? Publishers have their own leases.
 */
static ef_status is_held(ef_engine *engine, int32_t partition, bool *out, ef_error *err)
{
    ef_lease_kind kind = EF_LEASE_PARTITION;
    ef_lease_list list = {0};
    ef_status st = ef_lease_ls(engine->journal, &kind, &list, err);

    *out = false;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].key.partition == partition && list.items[i].holder.len)
            *out = list.items[i].live;
    EF_RELEASE(&list);
    return st;
}

static bool is_ours(ef_engine *engine, int32_t partition)
{
    ef_error ignored = EF_ERROR_INIT;
    ef_partition_lease *held = NULL;
    size_t count = 0;
    bool ours = false;

    if (ef__partition_leases_read(engine, &held, &count, &ignored) == EF_OK)
        for (size_t i = 0; i < count; i++)
            ours = ours || held[i].partition == partition;
    return ours;
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

/* --- polling ---------------------------------------------------------------------------------- */

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

ef_status ef_outbox_replay(ef_engine *engine, const ef_outbox_action *act, int64_t timeout_ms,
                           ef_row_list *out, ef_error *err)
{
    ef_row_list due = {0};
    ef_status st;

    if (!engine || !act || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, act or out is NULL");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__retry_rows_of_event(engine, act, out, err);
    if (st == EF_OK && out->count)
        st = make_due(engine, act, out, &due, err);
    if (st == EF_OK && due.count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "stream \"%.*s\", seq %lld: no retry row%s%.*s%s",
                     EF_STR_ARG(act->stream), (long long)act->seq,
                     act->lane.len ? " in lane \"" : "", EF_STR_ARG(act->lane),
                     act->lane.len ? "\"" : "");
    if (st == EF_OK)
        st = poll_rows(engine, act, &due, timeout_ms ? timeout_ms : EF_REPLAY_WAIT_MS, out, err);
    EF_RELEASE(&due);
    return st;
}
