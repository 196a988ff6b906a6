/*
 * partition.c - the memory journal's partitions: their rows, their leases and their number.
 */
#include "memory.h"

#include "../../core/placement.h"

#include <inttypes.h>

/* --- listing ---------------------------------------------------------------------------------- */

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

static ef_status list_partitions(const mem_journal *mem, ef_partition_list *out, ef_error *err)
{
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

ef_status ef__mem_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_partitions(mem, out, err);

    ef__mem_unlock(mem);
    return st;
}

/* --- the number of partitions ----------------------------------------------------------------- */

static void count_waiting(const mem_journal *mem, ef__waiting_rows *waiting)
{
    for (size_t i = 0; i < mem->lane_count; i++)
        for (int32_t p = waiting->count; p < EF_LIMIT_PARTITIONS; p++)
            ef__waiting_add(waiting, p,
                            (int64_t)(mem->lanes[i].parts[p].count - mem->lanes[i].parts[p].first));
    for (size_t i = 0; i < mem->retry_row_count; i++)
        ef__waiting_add(waiting, mem->events[mem->retry_rows[i].position - 1]->partition, 1);
}

static void prune_leases(mem_journal *mem, const ef_partition_change *change,
                         ef_partition_sync_result *out)
{
    for (size_t i = mem->lease_count; i-- > 0;) {
        const ef_lease_key *key = &mem->leases[i].key;
        int64_t token;
        if ((key->kind != EF_LEASE_PARTITION && key->kind != EF_LEASE_PUBLISHER) ||
            key->partition < out->after)
            continue;
        bool live = ef__mem_lease_live(mem, key, &token);
        out->kept += live;
        out->pruned += !live && change->prune;
        if (!live && change->prune && !change->dry_run)
            ef__mem_lease_remove(mem, i);
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

ef_status ef__mem_partition_sync(ef_journal *journal, const ef_partition_change *change,
                                 ef_partition_sync_result *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
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
    ef__mem_unlock(mem);
    return st;
}
