/*
 * lease.c - the memory journal's leases. core/lease_rule.h decides; this file finds and stores.
 */
#include "memory.h"

#include "../lease_call.h"
#include "../refusal.h"

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

ef_status ef__mem_lane_lease_check(mem_journal *mem, const mem_lane *lane,
                                   const ef_partition_lease *held, ef_error *err)
{
    ef_lease_key key = ef__mem_lane_lease(lane, held->partition);

    return ef__mem_token_check(mem, &key, held->token, err);
}

ef_status ef__mem_leases_check(mem_journal *mem, const mem_lane *lane,
                               const ef_partition_lease *held, size_t count, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = ef__mem_lane_lease_check(mem, lane, &held[i], err);
    return st;
}

bool ef__mem_lease_given(const ef_partition_lease *held, size_t count, int32_t partition)
{
    for (size_t i = 0; i < count; i++)
        if (held[i].partition == partition)
            return true;
    return false;
}

/* --- calls ------------------------------------------------------------------------------------ */

static ef_status add_lease(mem_journal *mem, const ef_lease_key *key, ef_error *err)
{
    bool found;
    size_t at = lease_at(mem, key, &found);
    mem_lease made = {.key = {key->kind, {0}, key->partition}, .token = mem->token_floor};

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&mem->leases, &mem->lease_cap, mem->lease_count,
                      sizeof *mem->leases) ||
        !ef__mem_text_set(&made.key.name, key->name))
        return ef__mem_no_memory(err);
    memmove(&mem->leases[at + 1], &mem->leases[at], (mem->lease_count - at) * sizeof *mem->leases);
    mem->leases[at] = made;
    mem->lease_count++;
    return EF_OK;
}

void ef__mem_lease_remove(mem_journal *mem, size_t at)
{
    if (mem->leases[at].token > mem->token_floor)
        mem->token_floor = mem->leases[at].token;
    ef__mem_text_free(&mem->leases[at].key.name);
    ef__mem_text_free(&mem->leases[at].owner);
    mem->lease_count--;
    memmove(&mem->leases[at], &mem->leases[at + 1], (mem->lease_count - at) * sizeof *mem->leases);
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
        st = ef__mem_worker_beat(mem, beat->worker, beat->heartbeat_ms, err);
    for (size_t i = 0; st == EF_OK && i < beat->minute_count; i++)
        st = ef__mem_throughput_add(mem, &beat->minutes[i], err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        calls[i].status = apply_call(mem, &calls[i], &owners[i], refused ? NULL : err);
        refused = refused || calls[i].status != EF_OK;
    }
    return st;
}

ef_status ef__mem_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                             const ef__heartbeat *beat, ef_error *err)
{
    ef_str *owners = calloc(count + 1, sizeof *owners);
    mem_journal *mem;
    ef_status st;

    if (!owners)
        return ef__mem_no_memory(err);
    mem = ef__mem_lock(journal);
    st = apply_calls(mem, calls, count, owners, beat, err);
    ef__mem_unlock(mem);
    for (size_t i = 0; i < count; i++)
        ef__mem_text_free(&owners[i]);
    free(owners);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static ef_status list_leases(const mem_journal *mem, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lease *items = ef__arena_zalloc(arena, mem->lease_count + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (size_t i = 0; i < mem->lease_count; i++) {
        const mem_lease *lease = &mem->leases[i];
        ef__lease_row row = make_lease_row(lease);
        if (kind && lease->key.kind != *kind)
            continue;
        ef_lease item = {
            .key = {lease->key.kind, ef__arena_copy(arena, lease->key.name), lease->key.partition},
            .holder = ef__arena_copy(arena, lease->owner),
            .token = lease->token,
            .until_us = lease->until_us,
            .updated_us = lease->updated_us,
            .live = ef__lease_live(&row, ef__mem_now(mem))};
        if (!item.key.name.ptr || !item.holder.ptr)
            return ef__no_memory(err);
        items[out->count++] = item;
    }
    out->items = items;
    return EF_OK;
}

ef_status ef__mem_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                           ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_leases(mem, kind, out, err);

    ef__mem_unlock(mem);
    return st;
}

void ef__mem_leases_release(mem_journal *mem)
{
    for (size_t i = 0; i < mem->lease_count; i++) {
        ef__mem_text_free(&mem->leases[i].key.name);
        ef__mem_text_free(&mem->leases[i].owner);
    }
    free(mem->leases);
}
