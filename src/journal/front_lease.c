/*
 * front_lease.c - the public API for workers: leases, heartbeats, throughput and partitions; and
 * what the back ends share about them.
 */
#include "front_priv.h"

#include "refusal.h"

#include "../core/placement.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define NAMED_MAX 8 /* partitions that the error names: it is for people, and has 512 bytes */

/* --- leases ----------------------------------------------------------------------------------- */

ef_status ef__lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                         const ef__heartbeat *beat, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef__lease_many", err);

    assert(count <= EF_LIMIT_LEASE_CALLS);
    if (st != EF_OK || (count == 0 && !beat->worker && beat->minute_count == 0))
        return st;
    for (size_t i = 0; i < count; i++) {
        assert(calls[i].lease_ms > 0 || calls[i].verb == EF_LEASE_RELEASE);
        calls[i].status = EF_OK;
        calls[i].until_us = calls[i].left_ms = 0;
    }
    st = journal->control->leases->lease_many(journal->control, calls, count, beat, err);
    return ef__damage_note(journal, st, err);
}

/* A single call: its refusal is the status. */
static ef_status apply_call(ef_journal *journal, ef_lease_call *call, ef_error *err)
{
    ef_status st = ef__lease_many(journal, call, 1, &(ef__heartbeat){0}, err);

    return st == EF_OK ? call->status : st;
}

ef_status ef__lease_acquire_one(ef_journal *journal, const ef_lease_key *key, ef_str holder,
                                int64_t lease_ms, int64_t *out_token, int64_t *out_until_us,
                                ef_error *err)
{
    ef_lease_call call = {
        .verb = EF_LEASE_ACQUIRE, .key = *key, .holder = holder, .lease_ms = lease_ms};
    ef_status st = apply_call(journal, &call, err);

    if (st != EF_OK)
        return st;
    *out_token = call.token;
    if (out_until_us)
        *out_until_us = call.until_us;
    return EF_OK;
}

ef_status ef__lease_release_one(ef_journal *journal, const ef_lease_key *key, int64_t token,
                                ef_error *err)
{
    ef_lease_call call = {.verb = EF_LEASE_RELEASE, .key = *key, .token = token};

    return apply_call(journal, &call, err);
}

ef_status ef_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK && kind)
        st = ef__range_check("kind", *kind, 0, EF_LEASE_RUN, err);
    if (st != EF_OK)
        return st;
    st = journal->control->leases->lease_ls(journal->control, kind, out, err);
    return EF__LIST_FINISH(out, st);
}

/* --- workers ---------------------------------------------------------------------------------- */

ef_status ef__worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef__worker_leave", err);

    return st == EF_OK ? journal->control->leases->worker_leave(journal->control, id, err) : st;
}

ef_status ef__worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                           int64_t *out_purged, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef__worker_purge", err);

    *out_purged = 0;
    return st == EF_OK ? journal->control->leases->worker_purge(journal->control, older_than_ms,
                                                                interval_ms, out_purged, err)
                       : st;
}

ef_status ef_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK)
        st = journal->control->leases->worker_ls(journal->control, out, err);
    return EF__LIST_FINISH(out, st);
}

/* A heartbeat, and its first half, expire by the rule of leases. */
void ef__worker_judge(ef_worker *worker, int64_t now_us)
{
    ef__lease_row beat = {EF_STR("w"), 0, worker->heartbeat_until_us, worker->updated_us};

    worker->live = ef__lease_live(&beat, now_us);
    beat.until_us -= (beat.until_us - beat.updated_us) / 2;
    worker->late = worker->live && !ef__lease_live(&beat, now_us);
    worker->state = !worker->live ? EF_WORKER_STALE : worker->late ? EF_WORKER_LATE : worker->state;
}

static bool has_share(const ef_worker *worker)
{
    return worker->state == EF_WORKER_WORKING;
}

size_t ef_worker_targets(const ef_worker_list *list, size_t index, int32_t partitions, int32_t *out)
{
    ef__partition_set share;
    size_t before = 0, live = 0, count = 0;

    if (!list || !out || index >= list->count || !has_share(&list->items[index]))
        return 0;
    /* The list is sorted by id, which is the order of the shares. */
    for (size_t i = 0; i < list->count; i++) {
        before += has_share(&list->items[i]) && i < index;
        live += has_share(&list->items[i]);
    }
    share = ef__placement_share(before, live, partitions);
    for (int32_t p = 0; (p = ef__partition_set_next(&share, p)) >= 0; p++)
        out[count++] = p;
    return count;
}

/* --- throughput ------------------------------------------------------------------------------- */

ef_status ef_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK)
        st = journal->control->leases->throughput_ls(journal->control, from_us, out, err);
    return EF__LIST_FINISH(out, st);
}

/* --- partitions ------------------------------------------------------------------------------- */

_Static_assert(EF_PARTITIONS_MAX == EF_LIMIT_PARTITIONS, "one limit, seen from two sides");
_Static_assert(EF_PARTITION_LABEL_MAX == EF__PARTITION_LABEL_MAX, "labels are as long");

void ef_partition_label(int32_t partition, char out[EF_PARTITION_LABEL_MAX])
{
    (void)ef__partition_label_format(partition, EF_LIMIT_PARTITIONS, out);
}

ef_status ef_partition_parse(ef_str label, int32_t *out, ef_error *err)
{
    if (!ef__partition_label_parse(label, EF_LIMIT_PARTITIONS, out))
        return ef_fail(err, EF_BAD_INPUT, "'%.*s' is not a partition; they are p00, p01 … p%d",
                       EF_STR_ARG(label), EF_LIMIT_PARTITIONS - 1);
    return EF_OK;
}

ef_status ef_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK)
        st = journal->control->leases->partition_ls(journal->control, out, err);
    return EF__LIST_FINISH(out, st);
}

ef_status ef_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_partition_sync", err);

    if (st == EF_OK)
        st = ef__need(change, "change", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = ef__range_check("count", change->count, 0, EF_LIMIT_PARTITIONS, err);
    if (st != EF_OK)
        return st;
    *out = (ef_partition_sync_result){0};
    return ef__wake_on_success(
        journal, journal->control->leases->partition_sync(journal->control, change, out, err));
}

/* --- shared by back ends ---------------------------------------------------------------------- */

static ef__lease_answer answer_call(const ef__lease_row *row, const ef_lease_call *call,
                                    int64_t now_us)
{
    switch (call->verb) {
    case EF_LEASE_ACQUIRE:
        return ef__lease_acquire(row, call->holder, now_us, call->lease_ms);
    case EF_LEASE_RENEW_OR_ACQUIRE:
        return ef__lease_renew_or_acquire(row, call->holder, call->token, now_us, call->lease_ms);
    case EF_LEASE_RENEW:
        return ef__lease_renew(row, call->token, now_us, call->lease_ms);
    default:
        return ef__lease_release(row, call->token, now_us);
    }
}

ef_status ef__lease_call_decide(ef_lease_call *call, const ef__lease_row *row, int64_t now_us,
                                ef__lease_row *out_row, ef_error *err)
{
    ef__lease_answer answer = answer_call(row, call, now_us);

    call->status = answer.status;
    call->left_ms = answer.left_ms;
    if (answer.status == EF_LEASE_HELD)
        return ef__refuse_held_lease(call, &answer, err);
    if (answer.status != EF_OK)
        return ef__refuse_lost_lease(&call->key, call->token, row->token, err);
    call->token = answer.row.token;
    call->until_us = answer.row.until_us;
    *out_row = answer.row;
    return EF_OK;
}

void ef__waiting_add(ef__waiting_rows *waiting, int32_t partition, int64_t rows)
{
    if (partition >= waiting->count && partition < EF_LIMIT_PARTITIONS)
        waiting->rows[partition] += rows;
}

ef_status ef__waiting_check(const ef__waiting_rows *waiting, ef_error *err)
{
    char where[NAMED_MAX * 40] = "", label[EF__PARTITION_LABEL_MAX];
    int64_t rows = 0;
    int named = 0;

    for (int32_t p = waiting->count; p < EF_LIMIT_PARTITIONS; p++) {
        size_t len = strlen(where);
        if (waiting->rows[p] == 0)
            continue;
        rows += waiting->rows[p];
        if (++named > NAMED_MAX)
            continue;
        (void)ef__partition_label_format(p, EF_LIMIT_PARTITIONS, label);
        (void)snprintf(where + len, sizeof where - len, "%s%s %" PRId64, len ? ", " : "", label,
                       waiting->rows[p]);
    }
    if (rows == 0)
        return EF_OK;
    return ef_fail_numbers(err, EF_EXISTS, 0, rows,
                           "%" PRId64 " rows wait in partitions beyond the new count of %" PRId32
                           " (%s%s): wait until they are processed, or requeue or skip dead rows",
                           rows, waiting->count, where, named > NAMED_MAX ? ", and others" : "");
}
