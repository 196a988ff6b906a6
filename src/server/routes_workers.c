/*
 * routes_workers.c - leases, workers, partitions and lanes.
 */
#include "request.h"

#include "serves.h"

#include <everfold/worker.h>
#include <everfold/outbox.h>

static void write_worker(ef__json_writer *w, const ef_worker_list *workers, size_t index,
                         int32_t partitions, int32_t *targets)
{
    size_t count = ef_worker_targets(workers, index, partitions, targets);

    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_worker, &workers->items[index]);
    ef__shape_members(w, &ef__shape_worker_more, &workers->items[index]);
    ef__json_member_open(w, "target_partitions", '[');
    for (size_t i = 0; i < count; i++) {
        char label[EF_PARTITION_LABEL_MAX];
        ef_partition_label(targets[i], label);
        ef__json_str(w, ef_str_from(label));
    }
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static ef_status list_workers(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_worker_list) workers = {0};
    ef_store_facts facts = {0};
    int32_t *targets = NULL;
    ef_status st = ef_worker_ls(ef__request_journal(r), &workers, err);

    if (st == EF_OK)
        st = ef_journal_facts(ef__request_journal(r), &facts, err);
    if (st == EF_OK &&
        !(targets = ef__arena_zalloc(&r->arena, (size_t)facts.partitions + 1, sizeof(*targets))))
        st = ef_fail(err, EF_NO_MEMORY, "out of memory for the partitions of a worker");
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < workers.count; i++)
            write_worker(&w, &workers, i, facts.partitions, targets);
        ef__json_close(&w, ']');
    }
    return st;
}

const ef__http_route ef__routes_workers[] = {
    EF__SERVED(sync_partitions),         EF__LISTED(list_lanes),      EF__LISTED(list_leases),
    EF__RUN(list_workers, list_workers), EF__LISTED(list_partitions), {0},
};
