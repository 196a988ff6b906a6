/*
 * partition.c - the memory journal's partitions: what waits in them, and how many there are.
 */
#include "memory.h"

#include "../../core/placement.h"

#include <inttypes.h>

/* --- looking ---------------------------------------------------------------------------------- */

static void count_rows(const mem_journal *m, const ef_partition *partition, int64_t *out_pending,
                       int64_t *out_in_hand)
{
    /* The rows of other lanes are somebody else's, or exceptions. */
    const mem_part *part = &m->lanes[0].parts[partition->number];
    bool held = partition->live && part->hand_token == partition->token;

    for (size_t r = part->first; r < part->count; r++) {
        if (held && part->rows[r] <= part->hand)
            (*out_in_hand)++;
        else
            (*out_pending)++;
    }
}

static int64_t count_exceptions(const mem_journal *m, int32_t partition)
{
    int64_t count = 0;

    for (size_t i = 0; i < m->exception_count; i++)
        count += m->lanes[m->exceptions[i].lane].kind == EF_LANE_KIND_PROJECTION &&
                 m->events[m->exceptions[i].position - 1]->partition == partition;
    return count;
}

static ef_status list(const mem_journal *m, ef_partition_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_partition *items = ef__arena_zalloc(arena, (size_t)m->partitions, sizeof *items);

    if (!items)
        return ef__room_full(err);
    for (int32_t p = 0; p < m->partitions; p++) {
        items[p].number = p;
        items[p].owner = EF_STR("");
    }
    for (size_t i = 0; i < m->lease_count; i++) {
        const mem_lease *lease = &m->leases[i];
        if (lease->key.kind != EF_LEASE_PARTITION || lease->key.partition >= m->partitions)
            continue;
        ef_partition *item = &items[lease->key.partition];
        item->owner = ef__arena_copy(arena, lease->owner);
        item->until_us = lease->until_us;
        item->live = ef__mem_lease_live(m, &lease->key, &item->token);
        if (!item->owner.ptr)
            return ef__room_full(err);
    }
    for (int32_t p = 0; p < m->partitions; p++) {
        count_rows(m, &items[p], &items[p].pending, &items[p].in_hand);
        items[p].exceptions = count_exceptions(m, p);
    }
    out->items = items;
    out->count = (size_t)m->partitions;
    return EF_OK;
}

ef_status ef__mem_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list(m, out, err);

    ef__mem_unlock(m);
    return st;
}

/* --- how many --------------------------------------------------------------------------------- */

static void count_waiting(const mem_journal *m, ef__waiting *waiting)
{
    for (size_t i = 0; i < m->lane_count; i++)
        for (int32_t p = waiting->count; p < EF_LIMIT_PARTITIONS; p++)
            ef__waiting_add(waiting, p,
                            (int64_t)(m->lanes[i].parts[p].count - m->lanes[i].parts[p].first));
    for (size_t i = 0; i < m->exception_count; i++)
        ef__waiting_add(waiting, m->events[m->exceptions[i].position - 1]->partition, 1);
}

static void prune(mem_journal *m, const ef_partition_change *change, ef_partition_changed *out)
{
    for (size_t i = m->lease_count; i-- > 0;) {
        const ef_lease_key *key = &m->leases[i].key;
        int64_t token;
        if ((key->kind != EF_LEASE_PARTITION && key->kind != EF_LEASE_PUBLISHER) ||
            key->partition < out->after)
            continue;
        bool live = ef__mem_lease_live(m, key, &token);
        out->kept += live;
        out->pruned += !live && change->prune;
        if (!live && change->prune && !change->dry_run)
            ef__mem_lease_remove(m, i);
    }
}

static void set_count(mem_journal *m, int32_t count)
{
    m->partitions = count;
    /* Nothing waits for these any more; what may yet be filed for them has to have an owner. */
    for (size_t i = 0; i < m->event_count; i++)
        if (m->events[i]->partition >= count)
            m->events[i]->partition =
                ef__partition_of(m->events[i]->event.tenant, m->events[i]->event.stream, count);
}

ef_status ef__mem_partition_sync(ef_journal *journal, const ef_partition_change *change,
                                 ef_partition_changed *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef__waiting waiting = {0};
    ef_status st;

    out->before = m->partitions;
    out->after = waiting.count = change->count ? change->count : m->partitions;
    count_waiting(m, &waiting);
    st = ef__waiting_check(&waiting, err);
    if (st == EF_OK) {
        prune(m, change, out);
        if (!change->dry_run)
            set_count(m, out->after);
    }
    ef__mem_unlock(m);
    return st;
}
