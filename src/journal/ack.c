/*
 * ack.c - the rules of offsets and retry rows, for back ends that store them in tables.
 */
#include "outbox.h"
#include "refusal.h"

#include "../core/placement.h"

/* --- leases ----------------------------------------------------------------------------------- */

ef_lease_key ef__lane_lease(ef_lane_kind kind, ef_str lane, int32_t partition)
{
    if (kind == EF_LANE_KIND_PUBLISHER)
        return (ef_lease_key){EF_LEASE_PUBLISHER, lane, partition};
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

void ef__held_map_init(ef__held_map *map, const ef_partition_lease *held, size_t count)
{
    memset(map, 0, sizeof *map);
    for (size_t i = 0; i < count; i++)
        map->of[held[i].partition] = (uint16_t)(i + 1);
}

int ef__held_find(const ef__held_map *map, int32_t partition)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS ? map->of[partition] - 1 : -1;
}

/* --- offsets ---------------------------------------------------------------------------------- */

bool ef__lane_offset_same(const ef__lane_offset *a, const ef__lane_offset *b)
{
    return a->position == b->position && a->in_flight == b->in_flight &&
           a->in_flight_token == b->in_flight_token && a->suspect == b->suspect;
}

int64_t ef__lane_offset_suspect(const ef__lane_offset *offset, int64_t token)
{
    return offset->in_flight_token != token && offset->in_flight ? offset->in_flight
                                                                 : offset->suspect;
}

void ef__lane_offsets_claim(ef__lane_offset *offsets, const ef_partition_lease *held, size_t count,
                            const ef__held_map *map, const ef_claimed_batch *batch, bool extends)
{
    /* in_flight covers this batch and batches before it, not more: when a second process crashes,
     * fewer rows are suspect than after the first. The offset of a partition without a claimed row
     * stays, unless it had rows in flight: a claim that finds nothing writes nothing. */
    for (size_t h = 0; !extends && h < count; h++)
        if (offsets[h].in_flight_token == held[h].token)
            offsets[h].in_flight = 0;
    for (size_t i = 0; i < batch->count; i++) {
        int h = ef__held_find(map, batch->items[i].partition);
        ef__lane_offset *offset = &offsets[h];
        if (offset->in_flight_token != held[h].token) {
            offset->suspect = offset->in_flight ? offset->in_flight : offset->suspect;
            offset->in_flight_token = held[h].token;
            offset->in_flight = 0;
        }
        if (batch->items[i].event->position > offset->in_flight)
            offset->in_flight = batch->items[i].event->position;
    }
}

bool ef__lane_offset_ack(ef__lane_offset *offset, int64_t upto)
{
    if (upto <= offset->position)
        return false;
    offset->position = upto;
    offset->in_flight = offset->in_flight > upto ? offset->in_flight : 0;
    offset->suspect = offset->suspect > upto ? offset->suspect : 0;
    return true;
}

ef_status ef__upto_check(ef_str lane, const ef_partition_lease *held, const ef__lane_offset *offset,
                         ef_error *err)
{
    int64_t most = offset->position;

    if (offset->in_flight_token == held->token && offset->in_flight > most)
        most = offset->in_flight;
    if (held->upto == 0 || (held->upto >= offset->position && held->upto <= most))
        return EF_OK;
    return ef__refuse_upto(lane, held, offset->position, most, err);
}

/* --- retry rows ------------------------------------------------------------------------------- */

int32_t ef__acked_partition(const ef__acked_event *event)
{
    return event->has_queued_in  ? event->queued_in
           : event->has_filed_in ? event->filed_in
                                 : ef__partition_of(event->tenant, event->name, event->partitions);
}

void ef__retry_state_write(ef__retry_state *row, const ef_retry_row *given, bool exists,
                           int64_t now_us)
{
    row->status = given->status;
    /* The skip was applied; the row stays for other versions. */
    row->skip = exists && row->skip && !given->skip;
    /* An operator skipped it during its last attempt: it becomes pending instead of dead. */
    if (row->skip && given->status == EF_ROW_DEAD)
        row->status = EF_ROW_PENDING;
    row->attempts = given->attempts;
    row->due_us = row->status == EF_ROW_DEAD ? 0 : given->due_us ? given->due_us : now_us;
    row->error = given->error;
    row->updated_us = now_us;
    row->filed = exists ? row->filed : 0;
    row->trying = given->trying;
}

/* The row is removed, unless it was filed again since it was claimed: then it is due again. Without
 * a lease, a row that was filed again is not changed. */
static ef__retry_change finish_row(ef__retry_state *row, const ef_retry_row *given, bool is_leased,
                                   int64_t now_us)
{
    ef_retry_row again = {.position = given->position, .status = EF_ROW_PENDING};

    if (row->filed == given->filed)
        return EF__RETRY_REMOVE;
    if (!is_leased)
        return EF__RETRY_KEEP;
    ef__retry_state_write(row, &again, true, now_us);
    return EF__RETRY_WRITE;
}

ef__retry_change ef__retry_state_ack(ef__retry_state *row, const ef_retry_row *given, bool exists,
                                     bool is_leased, bool passes, int64_t now_us)
{
    if (given->status == EF_ROW_DONE)
        return exists ? finish_row(row, given, is_leased, now_us) : EF__RETRY_KEEP;
    if (exists && !is_leased) {
        row->filed++;
        return EF__RETRY_FILE;
    }
    /* A deleted row is not created again, unless this ack moves the offset past the queued event;
     * and in that case an existing row keeps its attempts. */
    if (is_leased && exists == passes)
        return EF__RETRY_KEEP;
    ef__retry_state_write(row, given, exists, now_us);
    return EF__RETRY_WRITE;
}
