/*
 * lease.c - the memory journal's leases, workers, throughput and partitions. core/lease_rule.h
 * decides; this file finds and stores.
 */
#include "memory.h"

#include "../refusal.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare_keys(const ef_lease_key *a, const ef_lease_key *b)
{
    int names;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    names = ef__str_compare(a->name, b->name);
    if (names)
        return names;
    return (a->partition > b->partition) - (a->partition < b->partition);
}

/* The index of the lease, or where it belongs when `*found` is false. */
static size_t lease_at(const mem_journal *mem, const ef_lease_key *key, bool *found)
{
    size_t at = 0;

    while (at < mem->lease_count && compare_keys(&mem->leases[at].key, key) < 0)
        at++;
    *found = at < mem->lease_count && compare_keys(&mem->leases[at].key, key) == 0;
    return at;
}

static ef__lease_row make_lease_row(const mem_lease *lease)
{
    return (ef__lease_row){lease->owner, lease->token, lease->until_us, lease->updated_us};
}

/* A lease that was never acquired, or was pruned, is free. */
static ef__lease_row find_lease_row(const mem_journal *mem, const ef_lease_key *key,
                                    mem_lease **out)
{
    bool found;
    size_t at = lease_at(mem, key, &found);

    *out = found ? &mem->leases[at] : NULL;
    return found ? make_lease_row(&mem->leases[at]) : (ef__lease_row){.token = mem->token_floor};
}

bool ef__mem_lease_live(const mem_journal *mem, const ef_lease_key *key, int64_t *out_token)
{
    mem_lease *lease;
    ef__lease_row row = find_lease_row(mem, key, &lease);

    *out_token = row.token;
    return ef__lease_live(&row, ef__mem_now(mem));
}

ef_lease_key ef__mem_lane_lease(const mem_lane *lane, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane->name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

int32_t ef__mem_partition(const mem_lane *lane, const mem_event *event)
{
    return lane->kind == EF_LANE_KIND_PUBLISHER ? event->partition_published : event->partition;
}

ef_status ef__mem_token_check(mem_journal *mem, const ef_lease_key *key, int64_t token,
                              ef_error *err)
{
    mem_lease *lease;
    ef__lease_row row = find_lease_row(mem, key, &lease);

    if (ef__lease_check(&row, token, ef__mem_now(mem)) == EF_OK)
        return EF_OK;
    mem->stale_refused++;
    return ef__refuse_lost_lease(key, token, row.token, err);
}

ef_status ef__mem_leases_check(mem_journal *mem, const mem_lane *lane,
                               const ef_partition_lease *held, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        ef_lease_key key = ef__mem_lane_lease(lane, held[i].partition);
        st = ef__mem_token_check(mem, &key, held[i].token, err);
    }
    return st;
}

/* --- workers ---------------------------------------------------------------------------------- */

static size_t worker_at(const mem_journal *mem, ef_str id, bool *found)
{
    size_t at = 0;

    while (at < mem->worker_count && ef__str_compare(mem->workers[at].id, id) < 0)
        at++;
    *found = at < mem->worker_count && ef_str_equal(mem->workers[at].id, id);
    return at;
}

static const ef__texts worker_texts = {2, {offsetof(ef_worker, id), offsetof(ef_worker, host)}};

static void remove_worker(mem_journal *mem, size_t at)
{
    ef__mem_texts_free(&mem->workers[at], &worker_texts);
    ef__mem_remove(mem->workers, &mem->worker_count, at, sizeof *mem->workers);
}

static ef_status add_worker(mem_journal *mem, size_t at, ef_str id, ef_error *err)
{
    ef_worker made = {.started_us = ef__mem_now(mem)};

    if (!ef__mem_grow((void **)&mem->workers, &mem->worker_cap, mem->worker_count + 1,
                      sizeof *mem->workers) ||
        !ef__mem_text_set(&made.id, id))
        return ef__mem_no_memory(err);
    ef__mem_insert(mem->workers, &mem->worker_count, at, sizeof made, &made);
    return EF_OK;
}

static ef_status beat_worker(mem_journal *mem, const ef_worker *worker, int64_t heartbeat_ms,
                             ef_error *err)
{
    bool found;
    size_t at = worker_at(mem, worker->id, &found);
    ef_status st;

    if (!found && (st = add_worker(mem, at, worker->id, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&mem->workers[at].host, worker->host))
        return ef__mem_no_memory(err);
    mem->workers[at].pid = worker->pid;
    mem->workers[at].state = worker->state == EF_WORKER_IDLE ? EF_WORKER_IDLE : EF_WORKER_WORKING;
    mem->workers[at].updated_us = ef__mem_now(mem);
    mem->workers[at].heartbeat_until_us = mem->workers[at].updated_us + heartbeat_ms * 1000;
    return EF_OK;
}

static ef_status leave_worker(ef_journal *journal, ef_str id, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    bool found;
    size_t at = worker_at(mem, id, &found);

    (void)err;
    if (found)
        remove_worker(mem, at);
    return EF_OK;
}

static ef_status purge_workers(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                               int64_t *out_purged, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t now_us = ef__mem_now(mem);

    (void)err;
    *out_purged = 0;
    /* Also when the clock was set back, or purging would pause until the old time is reached. */
    if (mem->purged_us == 0 || now_us < mem->purged_us ||
        now_us - mem->purged_us >= interval_ms * 1000) {
        mem->purged_us = now_us;
        for (size_t i = mem->worker_count; i-- > 0;)
            if (mem->workers[i].heartbeat_until_us < now_us - older_than_ms * 1000) {
                remove_worker(mem, i);
                (*out_purged)++;
            }
    }
    return EF_OK;
}

static ef_status list_workers(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < mem->worker_count; i++) {
        ef_worker item = mem->workers[i];
        ef__worker_judge(&item, ef__mem_now(mem));
        st = ef__list_add(out, &item, &worker_texts, err);
    }
    return st;
}

/* --- throughput ------------------------------------------------------------------------------- */

/* The index of the row of that minute, or where it belongs. */
static size_t minute_at(const mem_journal *mem, int64_t at_us)
{
    size_t at = mem->minute_count;

    while (at > 0 && mem->minutes[at - 1].at_us >= at_us)
        at--;
    return at;
}

static void drop_old_minutes(mem_journal *mem)
{
    int64_t newest_us = mem->minute_count ? mem->minutes[mem->minute_count - 1].at_us : 0;
    size_t old = minute_at(mem, newest_us - EF_THROUGHPUT_MINUTES * EF__MINUTE_US + 1);

    mem->minute_count -= old;
    memmove(mem->minutes, mem->minutes + old, mem->minute_count * sizeof *mem->minutes);
}

static ef_status add_minute(mem_journal *mem, const ef_throughput *minute, ef_error *err)
{
    size_t at = minute_at(mem, minute->at_us);
    int64_t known = 0;
    ef_throughput *row;

    if (at == mem->minute_count || mem->minutes[at].at_us != minute->at_us) {
        if (!ef__mem_grow((void **)&mem->minutes, &mem->minute_cap, mem->minute_count + 1,
                          sizeof *mem->minutes))
            return ef__mem_no_memory(err);
        ef__mem_insert(mem->minutes, &mem->minute_count, at, sizeof *mem->minutes,
                       &(ef_throughput){.at_us = minute->at_us});
    }
    row = &mem->minutes[at];
    for (size_t i = 0; i < mem->minute_count; i++)
        known = mem->minutes[i].position > known ? mem->minutes[i].position : known;
    row->appended += minute->position > known ? minute->position - known : 0;
    row->position = minute->position > row->position ? minute->position : row->position;
    row->applied += minute->applied;
    row->published += minute->published;
    row->failed += minute->failed;
    row->dead += minute->dead;
    drop_old_minutes(mem);
    return EF_OK;
}

static ef_status list_minutes(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                              ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = minute_at(mem, from_us); st == EF_OK && i < mem->minute_count; i++)
        st = ef__list_add(out, &mem->minutes[i], NULL, err);
    return st;
}

/* --- calls ------------------------------------------------------------------------------------ */

static ef_status add_lease(mem_journal *mem, const ef_lease_key *key, ef_error *err)
{
    bool found;
    size_t at = lease_at(mem, key, &found);
    mem_lease made = {.key = {key->kind, {0}, key->partition}, .token = mem->token_floor};

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&mem->leases, &mem->lease_cap, mem->lease_count + 1,
                      sizeof *mem->leases) ||
        !ef__mem_text_set(&made.key.name, key->name))
        return ef__mem_no_memory(err);
    ef__mem_insert(mem->leases, &mem->lease_count, at, sizeof made, &made);
    return EF_OK;
}

/* Its token is never issued again. */
static void remove_lease(mem_journal *mem, size_t at)
{
    if (mem->leases[at].token > mem->token_floor)
        mem->token_floor = mem->leases[at].token;
    ef__mem_text_free(&mem->leases[at].key.name);
    ef__mem_text_free(&mem->leases[at].owner);
    ef__mem_remove(mem->leases, &mem->lease_count, at, sizeof *mem->leases);
}

/* Does everything that can fail, before the first call is applied: rows and copies of names. */
static ef_status prepare_calls(mem_journal *mem, const ef_lease_call *calls, size_t count,
                               ef_str *owners, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        if (calls[i].verb == EF_LEASE_RENEW || calls[i].verb == EF_LEASE_RELEASE)
            continue;
        st = add_lease(mem, &calls[i].key, err);
        if (st == EF_OK && !ef__mem_text_set(&owners[i], calls[i].holder))
            st = ef__mem_no_memory(err);
    }
    return st;
}

/* `owner` is an owned copy of the call's; it moves into the lease when the call acquires it. */
static ef_status apply_call(mem_journal *mem, ef_lease_call *call, ef_str *owner, ef_error *err)
{
    mem_lease *lease;
    ef__lease_row row = find_lease_row(mem, &call->key, &lease);
    ef_status st = ef__lease_call_decide(call, &row, ef__mem_now(mem), &row, err);

    mem->stale_refused += st == EF_LEASE_LOST;
    if (st != EF_OK)
        return st;
    if (call->verb != EF_LEASE_RENEW) {
        ef__mem_text_free(&lease->owner);
        lease->owner = *owner; /* empty after a release */
        *owner = (ef_str){0};
    }
    lease->token = row.token;
    lease->until_us = row.until_us;
    lease->updated_us = row.updated_us;
    return EF_OK;
}

/* Applies ef__lease_bring_back to all leases and heartbeats. */
static void shift_future_leases(mem_journal *mem)
{
    int64_t now_us = ef__mem_now(mem);

    for (size_t i = 0; i < mem->lease_count; i++)
        ef__lease_bring_back(&mem->leases[i].updated_us, &mem->leases[i].until_us, now_us);
    for (size_t i = 0; i < mem->worker_count; i++)
        ef__lease_bring_back(&mem->workers[i].updated_us, &mem->workers[i].heartbeat_until_us,
                             now_us);
}

static ef_status apply_calls(mem_journal *mem, ef_lease_call *calls, size_t count, ef_str *owners,
                             const ef__heartbeat *beat, ef_error *err)
{
    ef_status st = prepare_calls(mem, calls, count, owners, err);
    bool refused = false;

    if (st == EF_OK && beat->worker)
        shift_future_leases(mem);
    if (st == EF_OK && beat->worker)
        st = beat_worker(mem, beat->worker, beat->heartbeat_ms, err);
    for (size_t i = 0; st == EF_OK && i < beat->minute_count; i++)
        st = add_minute(mem, &beat->minutes[i], err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        calls[i].status = apply_call(mem, &calls[i], &owners[i], refused ? NULL : err);
        refused = refused || calls[i].status != EF_OK;
    }
    return st;
}

static ef_status apply_lease_calls(ef_journal *journal, ef_lease_call *calls, size_t count,
                                   const ef__heartbeat *beat, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_str *owners = calloc(count + 1, sizeof *owners);
    ef_status st;

    if (!owners)
        return ef__mem_no_memory(err);
    st = apply_calls(mem, calls, count, owners, beat, err);
    for (size_t i = 0; i < count; i++)
        ef__mem_text_free(&owners[i]);
    free(owners);
    return st;
}

/* --- all leases ------------------------------------------------------------------------------- */

static ef_status list_leases(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    static const ef__texts listed = {2, {offsetof(ef_lease, key.name), offsetof(ef_lease, holder)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < mem->lease_count; i++) {
        const mem_lease *lease = &mem->leases[i];
        ef__lease_row row = make_lease_row(lease);
        if (kind && lease->key.kind != *kind)
            continue;
        st = ef__list_add(out,
                          (&(ef_lease){.key = lease->key,
                                       .holder = lease->owner,
                                       .token = lease->token,
                                       .until_us = lease->until_us,
                                       .updated_us = lease->updated_us,
                                       .live = ef__lease_live(&row, ef__mem_now(mem))}),
                          &listed, err);
    }
    return st;
}

/* --- partitions ------------------------------------------------------------------------------- */

static void count_rows(const mem_journal *mem, const ef_partition *partition, int64_t *out_pending,
                       int64_t *out_in_flight)
{
    /* Only lane "*": publishers have leases of their own, and projections have retry rows only. */
    const mem_part *part = &mem->lanes[0].parts[partition->number];
    bool held = partition->live && part->in_flight_token == partition->token;

    for (size_t r = part->first; r < part->count; r++) {
        if (held && part->rows[r] <= part->in_flight_upto)
            (*out_in_flight)++;
        else
            (*out_pending)++;
    }
}

static int64_t count_retry_rows(const mem_journal *mem, int32_t partition)
{
    int64_t count = 0;

    for (size_t i = 0; i < mem->retry_row_count; i++)
        count += mem->lanes[mem->retry_rows[i].lane].kind == EF_LANE_KIND_PROJECTION &&
                 mem->events[mem->retry_rows[i].position - 1]->partition == partition;
    return count;
}

static ef_status list_partitions(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef__arena *arena = &out->room->arena;
    ef_partition *items = ef__arena_zalloc(arena, (size_t)mem->partitions, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (int32_t p = 0; p < mem->partitions; p++) {
        items[p].number = p;
        items[p].holder = EF_STR("");
    }
    for (size_t i = 0; i < mem->lease_count; i++) {
        const mem_lease *lease = &mem->leases[i];
        if (lease->key.kind != EF_LEASE_PARTITION || lease->key.partition >= mem->partitions)
            continue;
        ef_partition *item = &items[lease->key.partition];
        item->holder = ef__arena_copy(arena, lease->owner);
        item->until_us = lease->until_us;
        item->live = ef__mem_lease_live(mem, &lease->key, &item->token);
        if (!item->holder.ptr)
            return ef__no_memory(err);
    }
    for (int32_t p = 0; p < mem->partitions; p++) {
        count_rows(mem, &items[p], &items[p].pending, &items[p].in_flight);
        items[p].retry_rows = count_retry_rows(mem, p);
    }
    out->items = items;
    out->count = (size_t)mem->partitions;
    return EF_OK;
}

/* --- the number of partitions ----------------------------------------------------------------- */

static void count_waiting(const mem_journal *mem, ef__waiting_rows *waiting)
{
    for (int32_t p = waiting->count; p < EF_LIMIT_PARTITIONS; p++)
        ef__waiting_add(waiting, p,
                        (int64_t)(mem->lanes[0].parts[p].count - mem->lanes[0].parts[p].first));
    for (size_t i = 0; i < mem->retry_row_count; i++)
        if (mem->lanes[mem->retry_rows[i].lane].kind != EF_LANE_KIND_PUBLISHER)
            ef__waiting_add(waiting, mem->events[mem->retry_rows[i].position - 1]->partition, 1);
}

static void prune_leases(mem_journal *mem, const ef_partition_change *change,
                         ef_partition_sync_result *out)
{
    for (size_t i = mem->lease_count; i-- > 0;) {
        const ef_lease_key *key = &mem->leases[i].key;
        int64_t token;
        if (key->kind != EF_LEASE_PARTITION || key->partition < out->after)
            continue;
        bool live = ef__mem_lease_live(mem, key, &token);
        out->kept += live;
        out->pruned += !live && change->prune;
        if (!live && change->prune && !change->dry_run)
            remove_lease(mem, i);
    }
}

static void set_partition_count(mem_journal *mem, int32_t count)
{
    mem->partitions = count;
    /* No rows wait in the removed partitions (checked before). Their events move, because a retry
     * row that is filed for one later must be in a partition that has a holder. */
    for (size_t i = 0; i < mem->event_count; i++)
        if (mem->events[i]->partition >= count)
            mem->events[i]->partition =
                ef__partition_of(mem->events[i]->event.tenant, mem->events[i]->event.stream, count);
}

static ef_status sync_partitions(ef_journal *journal, const ef_partition_change *change,
                                 ef_partition_sync_result *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef__waiting_rows waiting = {0};
    ef_status st;

    out->before = mem->partitions;
    out->after = waiting.count = change->count ? change->count : mem->partitions;
    count_waiting(mem, &waiting);
    st = ef__waiting_check(&waiting, err);
    if (st == EF_OK) {
        prune_leases(mem, change, out);
        if (!change->dry_run)
            set_partition_count(mem, out->after);
    }
    return st;
}

static ef_status read_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = mem->partitions;
    return EF_OK;
}

static ef_status wake_waiters(ef_journal *journal, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    mem->wakes++;
    (void)pthread_cond_broadcast(&mem->grown);
    return EF_OK;
}

void ef__mem_leases_release(mem_journal *mem)
{
    while (mem->lease_count > 0)
        remove_lease(mem, mem->lease_count - 1);
    while (mem->worker_count > 0)
        remove_worker(mem, mem->worker_count - 1);
    free(mem->leases);
    free(mem->workers);
    free(mem->minutes);
}

const ef__lease_ops ef__mem_lease_ops = {
    .lease_many = apply_lease_calls,
    .lease_ls = list_leases,
    .worker_leave = leave_worker,
    .worker_purge = purge_workers,
    .worker_ls = list_workers,
    .throughput_ls = list_minutes,
    .partition_ls = list_partitions,
    .partition_sync = sync_partitions,
    .partition_count = read_partition_count,
    .wake = wake_waiters,
};
