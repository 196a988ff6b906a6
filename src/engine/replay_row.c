/*
 * replay_row.c - one event again, now: whichever worker holds its partition tries it.
 *
 * The rows become due, which wakes the workers. Where no worker holds the partition this process
 * takes its lease and does the work itself. Then the rows are watched until each was tried.
 */
#include "lane.h"
#include "run.h"

#include "../journal/journal.h"

#include <stdlib.h>

#define ROWS_MAX 1000 /* of one event: one a lane */
#define LOOK_MS 25

ef_status ef__rows_of_event(ef_engine *e, const ef_outbox_act *act, ef_row_list *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(e->journal, act->tenant, act->stream, act->seq, 1, &batch, err);
    bool found = st == EF_OK && batch.count && batch.events[0].seq == act->seq;
    int64_t position = found ? batch.events[0].position : 0;

    out->count = 0;
    if (found)
        st = ef_outbox_ls(
            e->journal,
            &(ef_outbox_query){
                .lane = act->lane, .any_tenant = true, .from = position, .limit = ROWS_MAX},
            out, err);
    while (st == EF_OK && out->count && out->items[out->count - 1].position != position)
        out->count--;
    if (st == EF_OK && out->count && ef_str_equal(out->items[0].lane, EF_STR(EF_LANE_APPLY))) {
        out->items++; /* it is queued as well: that is no retry row */
        out->count--;
    }
    ef_batch_release(&batch);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never made has no rows */
}

/* --- making them due -------------------------------------------------------------------------- */

static ef_status make_due(ef_engine *e, const ef_outbox_act *act, const ef_row_list *rows,
                          ef_row_list *out, ef_error *err)
{
    ef__revised *due = malloc((rows->count + 1) * sizeof *due);
    int64_t id = 0;
    ef_act entry = {.act = EF_STR("replay"),
                    .who = act->who,
                    .reason = act->reason,
                    .lane = rows->count == 1 ? rows->items[0].lane : act->lane,
                    .tenant = act->tenant,
                    .stream = act->stream,
                    .seq = act->seq};
    ef_status st;

    if (!due)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    for (size_t i = 0; i < rows->count; i++)
        due[i] = (ef__revised){.lane = rows->items[i].lane, .position = rows->items[i].position};
    st = ef__outbox_revise(
        e->journal, &(ef__revise){EF__REVISION_REPLAY, due, rows->count, &entry, &id}, out, err);
    free(due);
    return st;
}

/* --- who tries them --------------------------------------------------------------------------- */

/* Is the partition of a row held by a worker, be it this one? Publishers have leases of their own.
 */
static ef_status is_held(ef_engine *e, int32_t partition, bool *out, ef_error *err)
{
    ef_lease_kind kind = EF_LEASE_PARTITION;
    ef_lease_list list = {0};
    ef_status st = ef_lease_ls(e->journal, &kind, &list, err);

    *out = false;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].key.partition == partition && list.items[i].owner.len)
            *out = list.items[i].live;
    ef_lease_list_release(&list);
    return st;
}

static bool is_ours(ef_engine *e, int32_t partition)
{
    ef_error ignored = EF_ERROR_INIT;
    ef_holding *held = NULL;
    size_t count = 0;
    bool ours = false;

    if (ef__held_read(e, &held, &count, &ignored) == EF_OK)
        for (size_t i = 0; i < count; i++)
            ours = ours || held[i].partition == partition;
    free(held);
    return ours;
}

/* Do what is due here, if the partition is ours or is nobody's. */
static ef_status try_here(ef_engine *e, int32_t partition, ef_error *err)
{
    ef_tick tick = {0};
    bool held = false;
    ef_status st;

    pthread_mutex_lock(&e->working);
    st = is_ours(e, partition) ? EF_OK : is_held(e, partition, &held, err);
    if (st == EF_OK && !held)
        st = ef__crew_step(&e->crew, &(ef_work_options){0}, &tick, err);
    if (st == EF_OK && !held && is_ours(e, partition))
        st = ef__retry_step_due(e, &tick, err);
    pthread_mutex_unlock(&e->working);
    return st == EF_LEASE_LOST ? EF_OK : st; /* another worker has it, and tries it */
}

/* --- watching --------------------------------------------------------------------------------- */

static const ef_row *find_row(const ef_row_list *rows, ef_str lane)
{
    for (size_t i = 0; i < rows->count; i++)
        if (ef_str_equal(rows->items[i].lane, lane))
            return &rows->items[i];
    return NULL;
}

/* Was every row tried since it became due? One that is gone was. */
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

static ef_status watch(ef_engine *e, const ef_outbox_act *act, const ef_row_list *due,
                       int64_t timeout_ms, ef_row_list *out, ef_error *err)
{
    int64_t nudge = 0;
    ef_status st;

    for (int64_t waited_ms = 0;; waited_ms += LOOK_MS) {
        st = ef__rows_of_event(e, act, out, err);
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
            st = try_here(e, due->items[0].partition, err);
        if (st == EF_OK)
            st = ef__journal_wait(e->journal, EF__NO_APPENDS, &nudge, LOOK_MS, err);
        if (st != EF_OK && st != EF_TIMEOUT)
            return st;
    }
}

ef_status ef_outbox_replay(ef_engine *e, const ef_outbox_act *act, int64_t timeout_ms,
                           ef_row_list *out, ef_error *err)
{
    ef_row_list due = {0};
    ef_status st;

    if (!e || !act || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, act or out is NULL");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__rows_of_event(e, act, out, err);
    if (st == EF_OK && out->count)
        st = make_due(e, act, out, &due, err);
    if (st == EF_OK && due.count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "stream \"%.*s\" seq %lld: no retry row%s%.*s",
                     EF_STR_ARG(act->stream), (long long)act->seq, act->lane.len ? " in lane " : "",
                     EF_STR_ARG(act->lane));
    if (st == EF_OK)
        st = watch(e, act, &due, timeout_ms ? timeout_ms : EF_REPLAY_WAIT_MS, out, err);
    ef_row_list_release(&due);
    return st;
}
