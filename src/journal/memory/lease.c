/*
 * lease.c - the memory journal's leases: core/lease_rule.h decides, this finds and keeps.
 */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>

static int compare_keys(const ef_lease_key *a, const ef_lease_key *b)
{
    int names;

    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    names = ef__mem_compare(a->name, b->name);
    if (names)
        return names;
    return (a->partition > b->partition) - (a->partition < b->partition);
}

/* Where the lease is, or would be. */
static size_t lease_at(const mem_journal *m, const ef_lease_key *key, bool *found)
{
    size_t at = 0;

    while (at < m->lease_count && compare_keys(&m->leases[at].key, key) < 0)
        at++;
    *found = at < m->lease_count && compare_keys(&m->leases[at].key, key) == 0;
    return at;
}

static ef__lease_row lease_row(const mem_lease *lease)
{
    return (ef__lease_row){lease->owner, lease->token, lease->until_us, lease->updated_us};
}

/* The row as it is. One that was never taken, or was pruned, is free. */
static ef__lease_row find_row(const mem_journal *m, const ef_lease_key *key, mem_lease **out)
{
    bool found;
    size_t at = lease_at(m, key, &found);

    *out = found ? &m->leases[at] : NULL;
    return found ? lease_row(&m->leases[at]) : (ef__lease_row){.token = m->token_floor};
}

bool ef__mem_lease_live(const mem_journal *m, const ef_lease_key *key, int64_t *out_token)
{
    mem_lease *lease;
    ef__lease_row row = find_row(m, key, &lease);

    *out_token = row.token;
    return ef__lease_live(&row, ef__mem_now(m));
}

ef_lease_key ef__mem_lane_lease(const mem_lane *lane, int32_t partition)
{
    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane->name, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

static ef_status lost(mem_journal *m, const ef_lease_key *key, int64_t token, int64_t found,
                      ef_error *err)
{
    m->stale_refused++;
    return ef_fail_numbers(
        err, EF_LEASE_LOST, token, found,
        "lease %s \"%.*s\" %" PRId32 ": token %" PRId64 " is not live, the lease is at %" PRId64,
        ef_lease_kind_name(key->kind), EF_STR_ARG(key->name), key->partition, token, found);
}

static ef_status held(const ef_lease_key *key, int64_t lease_ms, const ef__lease_answer *answer,
                      ef_error *err)
{
    return ef_fail_numbers(err, EF_LEASE_HELD, lease_ms, answer->left_ms,
                           "lease %s \"%.*s\" %" PRId32 " is held by \"%.*s\" for %" PRId64 " ms",
                           ef_lease_kind_name(key->kind), EF_STR_ARG(key->name), key->partition,
                           EF_STR_ARG(answer->row.owner), answer->left_ms);
}

ef_status ef__mem_token_check(mem_journal *m, const ef_lease_key *key, int64_t token, ef_error *err)
{
    mem_lease *lease;
    ef__lease_row row = find_row(m, key, &lease);

    if (ef__lease_check(&row, token, ef__mem_now(m)) == EF_OK)
        return EF_OK;
    return lost(m, key, token, row.token, err);
}

ef_status ef__mem_holding_check(mem_journal *m, const mem_lane *lane, const ef_holding *holding,
                                ef_error *err)
{
    ef_lease_key key = ef__mem_lane_lease(lane, holding->partition);

    return ef__mem_token_check(m, &key, holding->token, err);
}

/* --- calls ------------------------------------------------------------------------------------ */

static ef_status add_lease(mem_journal *m, const ef_lease_key *key, ef_error *err)
{
    bool found;
    size_t at = lease_at(m, key, &found);
    mem_lease made = {.key = {key->kind, {0}, key->partition}, .token = m->token_floor};

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&m->leases, &m->lease_cap, m->lease_count, sizeof *m->leases) ||
        !ef__mem_text_set(&made.key.name, key->name))
        return ef__mem_no_memory(err);
    memmove(&m->leases[at + 1], &m->leases[at], (m->lease_count - at) * sizeof *m->leases);
    m->leases[at] = made;
    m->lease_count++;
    return EF_OK;
}

void ef__mem_lease_remove(mem_journal *m, size_t at)
{
    if (m->leases[at].token > m->token_floor)
        m->token_floor = m->leases[at].token;
    ef__mem_text_free(&m->leases[at].key.name);
    ef__mem_text_free(&m->leases[at].owner);
    m->lease_count--;
    memmove(&m->leases[at], &m->leases[at + 1], (m->lease_count - at) * sizeof *m->leases);
}

/* What may fail is done before any call is made: rows and copies of the owners' names. */
static ef_status make_ready(mem_journal *m, const ef_lease_call *calls, size_t count,
                            ef_str *owners, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        if (calls[i].verb == EF_LEASE_RENEW || calls[i].verb == EF_LEASE_RELEASE)
            continue;
        st = add_lease(m, &calls[i].key, err);
        if (st == EF_OK && !ef__mem_text_set(&owners[i], calls[i].owner))
            st = ef__mem_no_memory(err);
    }
    return st;
}

static ef__lease_answer decide(const ef__lease_row *row, const ef_lease_call *call, int64_t now_us)
{
    switch (call->verb) {
    case EF_LEASE_ACQUIRE:
        return ef__lease_acquire(row, call->owner, now_us, call->lease_ms);
    case EF_LEASE_TAKE:
        return ef__lease_take(row, call->owner, call->token, now_us, call->lease_ms);
    case EF_LEASE_RENEW:
        return ef__lease_renew(row, call->token, now_us, call->lease_ms);
    default:
        return ef__lease_release(row, call->token, now_us);
    }
}

/* `owner` is an owned copy of the call's, given to the lease when the call takes it. */
static ef_status call_one(mem_journal *m, ef_lease_call *call, ef_str *owner, ef_error *err)
{
    mem_lease *lease;
    ef__lease_row row = find_row(m, &call->key, &lease);
    ef__lease_answer answer = decide(&row, call, ef__mem_now(m));

    call->left_ms = answer.left_ms;
    if (answer.status == EF_LEASE_HELD)
        return held(&call->key, call->lease_ms, &answer, err);
    if (answer.status != EF_OK)
        return lost(m, &call->key, call->token, row.token, err);
    if (call->verb != EF_LEASE_RENEW) {
        ef__mem_text_free(&lease->owner);
        lease->owner = *owner; /* none when it is given back */
        *owner = (ef_str){0};
    }
    lease->token = answer.row.token;
    lease->until_us = answer.row.until_us;
    lease->updated_us = answer.row.updated_us;
    call->token = answer.row.token;
    call->until_us = answer.row.until_us;
    return EF_OK;
}

/* See ef__lease_bring_back. */
static void bring_back(mem_journal *m)
{
    int64_t now_us = ef__mem_now(m);

    for (size_t i = 0; i < m->lease_count; i++)
        ef__lease_bring_back(&m->leases[i].updated_us, &m->leases[i].until_us, now_us);
    for (size_t i = 0; i < m->worker_count; i++)
        ef__lease_bring_back(&m->workers[i].updated_us, &m->workers[i].heartbeat_until_us, now_us);
}

static ef_status call_all(mem_journal *m, ef_lease_call *calls, size_t count, ef_str *owners,
                          const ef__beat *beat, ef_error *err)
{
    ef_status st = make_ready(m, calls, count, owners, err);
    bool refused = false;

    if (st == EF_OK && beat->worker)
        bring_back(m);
    if (st == EF_OK && beat->worker)
        st = ef__mem_worker_beat(m, beat->worker, beat->heartbeat_ms, err);
    for (size_t i = 0; st == EF_OK && i < beat->minute_count; i++)
        st = ef__mem_throughput_add(m, &beat->minutes[i], err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        calls[i].status = call_one(m, &calls[i], &owners[i], refused ? NULL : err);
        refused = refused || calls[i].status != EF_OK;
    }
    return st;
}

ef_status ef__mem_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                             const ef__beat *beat, ef_error *err)
{
    ef_str *owners = calloc(count + 1, sizeof *owners);
    mem_journal *m;
    ef_status st;

    if (!owners)
        return ef__mem_no_memory(err);
    m = ef__mem_lock(journal);
    st = call_all(m, calls, count, owners, beat, err);
    ef__mem_unlock(m);
    for (size_t i = 0; i < count; i++)
        ef__mem_text_free(&owners[i]);
    free(owners);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

static ef_status list_leases(const mem_journal *m, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_lease *items = ef__arena_zalloc(arena, m->lease_count + 1, sizeof *items);

    if (!items)
        return ef__room_full(err);
    for (size_t i = 0; i < m->lease_count; i++) {
        const mem_lease *lease = &m->leases[i];
        ef__lease_row row = lease_row(lease);
        if (kind && lease->key.kind != *kind)
            continue;
        ef_lease item = {
            .key = {lease->key.kind, ef__arena_copy(arena, lease->key.name), lease->key.partition},
            .owner = ef__arena_copy(arena, lease->owner),
            .token = lease->token,
            .until_us = lease->until_us,
            .updated_us = lease->updated_us,
            .live = ef__lease_live(&row, ef__mem_now(m))};
        if (!item.key.name.ptr || !item.owner.ptr)
            return ef__room_full(err);
        items[out->count++] = item;
    }
    out->items = items;
    return EF_OK;
}

ef_status ef__mem_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                           ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_leases(m, kind, out, err);

    ef__mem_unlock(m);
    return st;
}
