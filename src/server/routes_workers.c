/*
 * routes_crew.c - who works where.
 */
#include "request.h"

#include <everfold/lease.h>
#include <everfold/outbox.h>
#include <everfold/partition.h>
#include <everfold/worker.h>

#include <stdlib.h>

static ef_status list_leases(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_lease_list leases = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_lease_ls(r->server->options.journal, NULL, &leases, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < leases.count; i++)
            ef__shape_write(&w, &ef__shape_lease, &leases.items[i]);
        ef__json_close(&w, ']');
    }
    ef_lease_list_release(&leases);
    return st;
}

static void write_worker(ef__json_writer *w, const ef_worker_list *workers, size_t index,
                         int32_t partitions, int32_t *targets)
{
    size_t count = ef_worker_targets(workers, index, partitions, targets);

    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_worker, &workers->items[index]);
    ef__shape_members(w, &ef__shape_worker_more, &workers->items[index]);
    ef__json_key(w, "target_partitions");
    ef__json_open(w, '[');
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
    ef_worker_list workers = {0};
    ef_store_facts facts = {0};
    int32_t *targets = NULL;
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_worker_ls(r->server->options.journal, &workers, err);
    if (st == EF_OK)
        st = ef_journal_facts(r->server->options.journal, &facts, err);
    if (st == EF_OK && !(targets = calloc((size_t)facts.partitions + 1, sizeof(*targets))))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < workers.count; i++)
            write_worker(&w, &workers, i, facts.partitions, targets);
        ef__json_close(&w, ']');
    }
    free(targets);
    ef_worker_list_release(&workers);
    return st;
}

static ef_status list_partitions(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_partition_list partitions = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_partition_ls(r->server->options.journal, &partitions, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < partitions.count; i++)
            ef__shape_write(&w, &ef__shape_partition, &partitions.items[i]);
        ef__json_close(&w, ']');
    }
    ef_partition_list_release(&partitions);
    return st;
}

static ef_status sync_partitions(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef__json_writer w = ef__request_writer(r);
    ef_partition_change change = {0};
    ef_partition_sync_result done = {0};
    int64_t count = 0;
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__members_only(body, "count,prune,dry_run", err);
    if (st == EF_OK)
        st = ef__member_int(body, "count", false, 0, EF_PARTITIONS_MAX, &count, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "prune", &change.prune, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "dry_run", &change.dry_run, err);
    change.count = (int32_t)count;
    if (st == EF_OK)
        st = ef_partition_sync(r->server->options.journal, &change, &done, err);
    if (st == EF_OK)
        ef__shape_write(&w, &ef__shape_partition_sync_result, &done);
    return st;
}

static ef_status list_lanes(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_lane_list lanes = {0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = ef_lane_ls(r->server->options.journal, &lanes, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < lanes.count; i++)
            ef__shape_write(&w, &ef__shape_lane, &lanes.items[i]);
        ef__json_close(&w, ']');
    }
    ef_lane_list_release(&lanes);
    return st;
}

const ef__http_route ef__routes_workers[] = {
    {"POST", "/v1/partitions:sync", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     sync_partitions, "syncPartitions", "change the number of partitions", NULL, "PartitionChange",
     "PartitionChanged", 0},
    {"GET", "/v1/lanes", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_lanes, "listLanes",
     "who takes from the outbox", NULL, NULL, "Lanes", 0},
    {"GET", "/v1/leases", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_leases, "listLeases",
     "leases of all kinds", NULL, NULL, "Leases", 0},
    {"GET", "/v1/workers", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_workers, "listWorkers",
     "workers and what they should have", NULL, NULL, "Workers", 0},
    {"GET", "/v1/partitions", EF__SCOPE_READ, EF__TENANCY_UNBOUND, 0, list_partitions,
     "listPartitions", "partitions, their owners and what waits in them", NULL, NULL, "Partitions",
     0},
    {0},
};
