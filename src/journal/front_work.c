/*
 * front_work.c - the public API for workers: leases, heartbeats, partitions and runs.
 */
#include "front_priv.h"

#include "../base/hash.h"
#include "../base/json.h"
#include "../base/limits.h"
#include "../base/utf8.h"
#include "../core/lease_rule.h"
#include "../core/placement.h"

#include <assert.h>

#define DETAIL_BYTES (1 << 20) /* the JSON tree of a run's detail, which has at most 16 KiB */

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
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
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
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    if (st != EF_OK)
        return st;
    st = journal->control->leases->worker_ls(journal->control, out, err);
    return EF__LIST_FINISH(out, st);
}

const char *ef_worker_state_name(ef_worker_state state)
{
    static const char *const names[] = {"working", "idle", "late", "stale"};

    return names[state];
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
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    if (st != EF_OK)
        return st;
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
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    if (st != EF_OK)
        return st;
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

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status check_request(const ef_run *run, ef_error *err)
{
    ef_status st = ef__range_check("mode", run->mode, 0, EF_RUN_SEED, err);

    /* A verify run without a projection checks the journal itself. */
    bool for_all = run->mode == EF_RUN_VERIFY || run->mode == EF_RUN_REPLAY;
    if (st == EF_OK)
        st = ef__name_parse("projection", run->projection, for_all ? 0 : 1, false, err);
    if (st == EF_OK)
        st = ef__name_parse("tenant", run->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__range_check("from", run->from, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("to", run->to, run->to == 0 ? 0 : run->from, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("total", run->total, -1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__text_check("reason", run->reason, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__name_parse("requester", run->requester, 0, false, err);
    if (st == EF_OK)
        st = ef__text_check("detail", run->detail, EF_LIMIT_DETAIL_BYTES, err);
    return st;
}

ef_status ef__run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err)
{
    char id[EF_EVENT_ID_TEXT_MAX];
    ef_run made;
    ef_status st = ef__need_writable(journal, "ef__run_request", err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    if (st == EF_OK)
        st = ef__need(run, "run", err);
    if (st == EF_OK)
        st = check_request(run, err);
    if (st != EF_OK)
        return st;
    const ef_clock *clock = journal->options.clock;
    if (!ef__uuid7(clock->wall_us(clock->context), id))
        return ef_fail(err, EF_IO, "cannot create a run id: no random numbers from the system");
    made = *run;
    made.id = ef_str_from(id);
    st = ef__wake_on_success(
        journal, journal->control->records->run_request(journal->control, &made, out, err));
    return EF__LIST_FINISH(out, st);
}

ef_status ef__run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                         int64_t token, ef_error *err)
{
    ef_run stored = *run;
    ef_status st = ef__need_writable(journal, "ef__run_update", err);

    assert(lease || run->state == EF_RUN_CANCELLED);
    stored.error = ef__utf8_cut(run->error, EF_LIMIT_ERROR_BYTES);
    if (st == EF_OK)
        st = ef__text_check("error", stored.error, EF_LIMIT_ERROR_BYTES, err);
    if (st == EF_OK)
        st = ef__text_check("detail", stored.detail, EF_LIMIT_DETAIL_BYTES, err);
    return st == EF_OK
               ? journal->control->records->run_update(journal->control, &stored, lease, token, err)
               : st;
}

ef_status ef_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_run_cancel", err);

    if (st == EF_OK)
        st = ef__name_parse("id", id, 1, false, err);
    return st == EF_OK ? ef__wake_on_success(journal, journal->control->records->run_cancel(
                                                          journal->control, id, err))
                       : st;
}

static ef_status list_runs(ef_journal *journal, ef__run_query query, ef_run_list *out,
                           ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st == EF_OK)
        st = EF__LIST_PREPARE(out, err);
    if (st == EF_OK)
        st = ef__limit_resolve(&query.limit, err);
    if (st != EF_OK)
        return st;
    st = journal->control->records->run_ls(journal->control, &query, out, err);
    return EF__LIST_FINISH(out, st);
}

ef_status ef_run_get(ef_journal *journal, ef_str id, ef_run_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__name_parse("id", id, 1, false, err);
    if (st == EF_OK)
        st = list_runs(journal, (ef__run_query){.id = id, .limit = 1}, out, err);
    if (st == EF_OK && out->count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "there is no run \"%.*s\"", EF_STR_ARG(id));
    return st;
}

ef_status ef_run_ls(ef_journal *journal, bool open_only, size_t limit, ef_run_list *out,
                    ef_error *err)
{
    return ef_run_ls_of(journal, NULL, open_only, limit, out, err);
}

ef_status ef_run_ls_of(ef_journal *journal, const ef_str *tenant, bool open_only, size_t limit,
                       ef_run_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK && tenant)
        st = ef__name_parse("tenant", *tenant, 0, false, err);
    return st == EF_OK ? list_runs(journal,
                                   (ef__run_query){
                                       .tenant = tenant, .open_only = open_only, .limit = limit},
                                   out, err)
                       : st;
}

static bool asks_for_all_tenants(ef_str detail)
{
    ef__arena arena = EF__ARENA_INIT(DETAIL_BYTES);
    ef__json *tree = NULL;
    const ef__json *all;
    bool asks = true; /* a detail that cannot be read must not be shown to one tenant */

    if (detail.len == 0)
        return false;
    if (ef__json_parse(detail, EF_LIMIT_DETAIL_BYTES, &arena, &tree, NULL) == EF_OK) {
        all = ef__json_get(tree, "all_tenants");
        asks = all && all->kind == EF__JSON_TRUE;
    }
    ef__arena_release(&arena);
    return asks;
}

bool ef_run_is_of(const ef_run *run, ef_str tenant)
{
    if (!run || !ef_str_equal(run->tenant, tenant))
        return false;
    return tenant.len > 0 || (run->mode == EF_RUN_REPLAY && !asks_for_all_tenants(run->detail));
}
