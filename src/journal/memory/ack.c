/*
 * ack.c - acknowledging a batch: offsets move, retry rows are written, changed or removed.
 *
 * An acknowledgement is planned first and applied afterwards. Only the plan can fail, so a failed
 * call changes nothing.
 */
#include "memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static ef_status check_upto(const mem_lane *lane, const ef_partition_lease *held, ef_error *err)
{
    const mem_part *part = &lane->parts[held->partition];
    int64_t most = part->offset;

    if (part->in_flight_token == held->token && part->in_flight_upto > most)
        most = part->in_flight_upto;
    if (held->upto == 0 || (held->upto >= part->offset && held->upto <= most))
        return EF_OK;
    return ef_fail_numbers(err, EF_BAD_INPUT, held->upto, most,
                           "lane \"%.*s\", partition %" PRId32 ": upto is %" PRId64
                           ", the offset is %" PRId64 " and %" PRId64 " was claimed",
                           EF_STR_ARG(lane->name), held->partition, held->upto, part->offset, most);
}

/* The lane of a retry row. The lane of a projection is created with its first retry row. */
static ef_status find_retry_lane(mem_journal *mem, size_t lane_index, const ef_retry_row *given,
                                 size_t *out, ef_error *err)
{
    bool publisher = mem->lanes[lane_index].kind == EF_LANE_KIND_PUBLISHER;
    int64_t found = ef__mem_lane_find(mem, given->lane);
    ef_lane made = {.name = given->lane, .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    ef_status st;

    if (publisher ? found != (int64_t)lane_index
                  : found >= 0 && mem->lanes[found].kind != EF_LANE_KIND_PROJECTION)
        return ef_fail(err, EF_BAD_INPUT,
                       "a retry row of lane \"%.*s\" cannot be acknowledged in lane \"%.*s\"",
                       EF_STR_ARG(given->lane), EF_STR_ARG(mem->lanes[lane_index].name));
    if (found < 0) {
        if ((st = ef__mem_lane_add(mem, &made, err)) != EF_OK)
            return st;
        found = (int64_t)mem->lane_count - 1;
    }
    *out = (size_t)found;
    return EF_OK;
}

/* Does this call move the offset past the queued row? Then the row may become a retry row. */
static bool moves_offset_past(const mem_lane *lane, const ef__ack_request *request,
                              const mem_event *event)
{
    const mem_part *part = &lane->parts[event->partition];

    for (size_t i = 0; i < request->held_count; i++)
        if (request->held[i].partition == event->partition &&
            event->event.position <= request->held[i].upto)
            for (size_t r = part->first; r < part->count; r++)
                if (part->rows[r] == event->event.position)
                    return true;
    return false;
}

/* The change of one retry row, planned before any row is changed. */
typedef struct mem_retry_change {
    size_t lane;
    ef_str error; /* owned until it is moved into the row */
    bool wanted;  /* write the row; false: it was removed, or it exists and is only filed again */
    bool filed;   /* the call has no lease: it files rows */
} mem_retry_change;

static ef_status plan_retry_change(mem_journal *mem, size_t lane, const ef__ack_request *request,
                                   const ef_retry_row *given, mem_retry_change *out, ef_error *err)
{
    const mem_event *event;
    bool found;
    ef_status st;

    if (given->position > (int64_t)mem->event_count)
        return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64,
                       given->position);
    event = mem->events[given->position - 1];
    if (request->held_count &&
        !ef__mem_lease_given(request->held, request->held_count, event->partition))
        return ef_fail(err, EF_BAD_INPUT,
                       "position %" PRId64 " is in partition %" PRId32 ", which is not held",
                       given->position, event->partition);
    if ((st = find_retry_lane(mem, lane, given, &out->lane, err)) != EF_OK)
        return st;
    (void)ef__mem_retry_row_find(mem, given->position, out->lane, &found);
    /* A row that was removed stays removed, unless this call moves the offset past its event. A
     * row that was filed before the offset passes its event keeps its attempts. */
    out->filed = request->held_count == 0;
    out->wanted =
        out->filed ? !found : found != moves_offset_past(&mem->lanes[lane], request, event);
    return ef__mem_text_set(&out->error, given->error) ? EF_OK : ef__mem_no_memory(err);
}

/* Removes a row that is done. A row that was filed again after it was claimed is due again instead;
 * without a lease it stays as it is. */
static void finish_retry_row(mem_journal *mem, size_t at, const ef_retry_row *given, bool is_leased,
                             int64_t now_us)
{
    mem_retry_row *row = &mem->retry_rows[at];

    if (!is_leased && row->filed != given->filed)
        return;
    if (row->filed == given->filed) {
        if (row->skip && !given->skip && mem->lanes[row->lane].kind == EF_LANE_KIND_PROJECTION)
            ef__mem_skip_withdraw(mem, mem->lanes[row->lane].name,
                                  &mem->events[row->position - 1]->event);
        if (!row->skip && mem->lanes[row->lane].retain_us)
            ef__mem_published_add(mem, row->lane, row->position, now_us);
        ef__mem_retry_row_remove(mem, at);
        return;
    }
    ef__mem_text_free(&row->error);
    row->status = EF_ROW_PENDING;
    row->attempts = 0;
    row->trying = false;
    row->due_us = row->updated_us = now_us;
}

static void apply_retry_change(mem_journal *mem, const ef_retry_row *given,
                               mem_retry_change *change, int64_t now_us)
{
    bool found;
    size_t at = ef__mem_retry_row_find(mem, given->position, change->lane, &found);
    mem_retry_row *row = &mem->retry_rows[at];

    if (given->status == EF_ROW_DONE) {
        if (found)
            finish_retry_row(mem, at, given, !change->filed, now_us);
        return;
    }
    if (found && change->filed)
        row->filed++;
    if (!change->wanted)
        return;
    if (!found) {
        memmove(row + 1, row, (mem->retry_row_count - at) * sizeof *row);
        *row = (mem_retry_row){.lane = change->lane, .position = given->position};
        mem->retry_row_count++;
    }
    row->skip = row->skip && !given->skip; /* the skip was applied */
    /* A skip that arrived during the last attempt wins: the row is due again, not dead. */
    row->status = row->skip && given->status == EF_ROW_DEAD ? EF_ROW_PENDING : given->status;
    row->attempts = given->attempts;
    row->due_us = row->status == EF_ROW_DEAD ? 0 : given->due_us ? given->due_us : now_us;
    row->updated_us = now_us;
    row->trying = given->trying;
    ef__mem_text_free(&row->error);
    row->error = change->error;
    change->error = (ef_str){0};
}

static void move_offset(mem_journal *mem, size_t lane, const ef_partition_lease *held,
                        int64_t now_us)
{
    mem_part *part = &mem->lanes[lane].parts[held->partition];
    int64_t upto = held->upto;
    bool has_retry_row;

    if (upto <= part->offset)
        return;
    part->offset = upto;
    for (; part->first < part->count && part->rows[part->first] <= upto; part->first++) {
        if (!mem->lanes[lane].retain_us)
            continue;
        (void)ef__mem_retry_row_find(mem, part->rows[part->first], lane, &has_retry_row);
        if (!has_retry_row)
            ef__mem_published_add(mem, lane, part->rows[part->first], now_us);
    }
    assert(part->first == part->count || part->rows[part->first] > part->offset);
    if (part->first == part->count)
        part->first = part->count = 0;
}

/* Reserves memory, so that recording the rows published by this call cannot fail. */
static ef_status reserve_published(mem_journal *mem, size_t lane, const ef__ack_request *request,
                                   ef_error *err)
{
    size_t most = request->retry_row_count;

    if (!mem->lanes[lane].retain_us)
        return EF_OK;
    for (size_t i = 0; i < request->held_count; i++) {
        const mem_part *part = &mem->lanes[lane].parts[request->held[i].partition];
        most += part->count - part->first;
    }
    return ef__mem_published_reserve(mem, most, err);
}

/* Everything that can fail comes before the first change; the progress text is the last of it. */
static ef_status apply_request(mem_journal *mem, size_t lane, const ef__ack_request *request,
                               mem_retry_change *changes, ef_error *err)
{
    int64_t now_us = ef__mem_now(mem);
    size_t lanes_before = mem->lane_count, count = request->retry_row_count;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = plan_retry_change(mem, lane, request, &request->retry_rows[i], &changes[i], err);
    while (st == EF_OK && mem->retry_row_cap < mem->retry_row_count + count)
        if (!ef__mem_grow((void **)&mem->retry_rows, &mem->retry_row_cap, mem->retry_row_cap,
                          sizeof *mem->retry_rows))
            st = ef__mem_no_memory(err);
    if (st == EF_OK)
        st = reserve_published(mem, lane, request, err);
    if (st == EF_OK)
        st = ef__mem_skips_reserve(mem, mem->skip_count, err);
    if (st == EF_OK && request->progress.len &&
        !ef__mem_text_set(&mem->lanes[lane].progress, request->progress))
        st = ef__mem_no_memory(err);
    if (st != EF_OK) {
        while (mem->lane_count > lanes_before)
            ef__mem_lane_free(&mem->lanes[--mem->lane_count]);
        return st;
    }
    for (size_t i = 0; i < count; i++)
        apply_retry_change(mem, &request->retry_rows[i], &changes[i], now_us);
    for (size_t i = 0; i < request->held_count; i++)
        move_offset(mem, lane, &request->held[i], now_us);
    mem->commits++;
    return EF_OK;
}

static ef_status ack_batch(mem_journal *mem, const ef__ack_request *request, ef_error *err)
{
    int64_t lane = ef__mem_lane_find(mem, request->lane);
    mem_retry_change *changes;
    ef_status st;

    if (lane < 0)
        return ef__mem_lane_missing(request->lane, err);
    st = ef__mem_leases_check(mem, &mem->lanes[lane], request->held, request->held_count, err);
    if (st == EF_OK && request->progress.len)
        st = ef__lane_publishes(request->lane, mem->lanes[lane].kind, err);
    for (size_t i = 0; st == EF_OK && i < request->held_count; i++)
        st = check_upto(&mem->lanes[lane], &request->held[i], err);
    if (st != EF_OK)
        return st;
    changes = calloc(request->retry_row_count + 1, sizeof *changes);
    if (!changes)
        return ef__mem_no_memory(err);
    st = apply_request(mem, (size_t)lane, request, changes, err);
    for (size_t i = 0; i < request->retry_row_count; i++)
        ef__mem_text_free(&changes[i].error);
    free(changes);
    return st;
}

ef_status ef__mem_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                      ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = ack_batch(mem, request, err);

    assert(!connection);
    (void)connection;
    ef__mem_unlock(mem);
    return st;
}
