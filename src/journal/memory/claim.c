/*
 * claim.c - claiming rows of a lane (queued events, suspects of a crash, and retry rows that are
 * due), and acknowledging them: offsets move, retry rows are written, changed or removed.
 *
 * A claim records the batch as in flight under the token of the lease, before it returns the rows.
 * When the token of the next claim differs, the rows in flight become suspects: the worker that
 * claimed them ended without an acknowledgement, and one of them may be the cause. They stay
 * suspects until the offset has passed them.
 *
 * An acknowledgement is planned first and applied afterwards. Only the plan can fail, so a failed
 * call changes nothing.
 */
#include "memory.h"

#include "../refusal.h"

#include <assert.h>
#include <stdlib.h>

/* A batch that is being filled. */
typedef struct mem_claim {
    mem_journal *mem;
    const ef_partition_lease *held;
    size_t held_count;
    int64_t after;
    size_t limit;
    ef_claimed_row *items;
    ef_event *events;
    ef_claimed_batch *out;
} mem_claim;

static ef_status prepare_batch(mem_claim *claim, size_t rows, ef_error *err)
{
    ef__arena *arena = &claim->out->events.room->arena;
    size_t count = (rows < claim->limit ? rows : claim->limit) + 1;

    claim->items = ef__arena_zalloc(arena, count, sizeof *claim->items);
    claim->events = ef__arena_zalloc(arena, count, sizeof *claim->events);
    if (!claim->items || !claim->events)
        return ef__no_memory(err);
    claim->out->items = claim->items;
    claim->out->events.events = claim->events;
    return EF_OK;
}

/* Does the lane have a retry row of an earlier event of the same stream? */
static bool is_blocked_in_lane(const mem_journal *mem, size_t lane, const mem_event *event)
{
    for (size_t i = 0; i < mem->retry_row_count; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        if (retry->position >= event->event.position)
            break;
        if (retry->lane == lane && mem->events[retry->position - 1]->stream == event->stream)
            return true;
    }
    return false;
}

/* False when the batch is full: it ends before this row, and `more` is set. */
static bool add_row(mem_claim *claim, size_t lane, int64_t position, ef_claimed_row item)
{
    ef__arena *arena = &claim->out->events.room->arena;
    const mem_event *event = claim->mem->events[position - 1];
    size_t at = claim->out->count;

    item.lane = ef__arena_copy(arena, claim->mem->lanes[lane].name);
    item.event = &claim->events[at];
    item.partition = ef__mem_partition(&claim->mem->lanes[lane], event);
    if (at == claim->limit || !item.lane.ptr ||
        !ef__mem_event_copy(claim->mem, event, arena, &claim->events[at])) {
        claim->out->more = true;
        return false;
    }
    claim->items[at] = item;
    claim->out->count = claim->out->events.count = at + 1;
    return true;
}

static bool add_queued_row(mem_claim *claim, size_t lane, int64_t position, bool suspect)
{
    ef_claimed_row item = {.suspect = suspect};

    item.waits = claim->mem->lanes[lane].kind == EF_LANE_KIND_PUBLISHER &&
                 is_blocked_in_lane(claim->mem, lane, claim->mem->events[position - 1]);
    return add_row(claim, lane, position, item);
}

/* Rows that are in flight under another token become suspects: their worker ended without an
 * acknowledgement. The new batch is in flight from here on; with `after` it extends the last one.
 */
static void start_batch(mem_part *part, int64_t token, int64_t after)
{
    bool own = part->in_flight_token == token;

    if (!own && part->in_flight_upto > part->offset)
        part->suspect_upto = part->in_flight_upto;
    part->in_flight_token = token;
    part->in_flight_upto = own && after ? part->in_flight_upto : 0;
}

static size_t first_row_after(const mem_part *part, int64_t after)
{
    size_t row = part->first;

    while (row < part->count && part->rows[row] <= after)
        row++;
    return row;
}

/* The held partition whose next row has the lowest position; -1 when all are empty. */
static int64_t lowest_partition(const mem_claim *claim, const mem_lane *lane, const size_t *next)
{
    int64_t best = -1, best_position = 0;

    for (size_t i = 0; i < claim->held_count; i++) {
        const mem_part *part = &lane->parts[claim->held[i].partition];
        if (next[i] < part->count && (best < 0 || part->rows[next[i]] < best_position)) {
            best = (int64_t)i;
            best_position = part->rows[next[i]];
        }
    }
    return best;
}

static size_t count_suspect_rows(const mem_part *part)
{
    size_t count = 0;

    for (size_t row = part->first; row < part->count && part->rows[row] <= part->suspect_upto;
         row++)
        count++;
    return count;
}

/* Claims suspects of the first partition that has any: a piece while there are many, one row at a
 * time once there are few. A worker that crashes again leaves fewer suspects each time, until the
 * event that crashes it is isolated. */
static ef_status claim_suspects(mem_claim *claim, size_t lane_index, ef_error *err)
{
    mem_lane *lane = &claim->mem->lanes[lane_index];

    for (size_t i = 0; i < claim->held_count; i++) {
        mem_part *part = &lane->parts[claim->held[i].partition];
        size_t suspects = count_suspect_rows(part);
        size_t piece = suspects > EF_SUSPECT_PIECE ? EF_SUSPECT_PIECE : suspects > 0;
        for (size_t n = 0; n < piece && n < claim->limit; n++) {
            int64_t position = part->rows[part->first + n];
            if (!add_queued_row(claim, lane_index, position, true))
                break;
            part->in_flight_upto = position;
        }
        if (claim->out->count) {
            claim->out->more = suspects > claim->out->count;
            return EF_OK;
        }
        if (suspects)
            return ef__no_memory(err);
    }
    return EF_OK;
}

static ef_status claim_queued(mem_claim *claim, size_t lane_index, ef_error *err)
{
    mem_lane *lane = &claim->mem->lanes[lane_index];
    size_t *next =
        ef__arena_zalloc(&claim->out->events.room->arena, claim->held_count, sizeof *next);
    size_t rows = 0;
    int64_t next_lease;
    ef_status st;

    if (!next)
        return ef__no_memory(err);
    for (size_t i = 0; i < claim->held_count; i++) {
        mem_part *part = &lane->parts[claim->held[i].partition];
        start_batch(part, claim->held[i].token, claim->after);
        next[i] = first_row_after(part, claim->after);
        rows += part->count - next[i];
    }
    st = prepare_batch(claim, rows, err);
    if (st == EF_OK && lane->kind != EF_LANE_KIND_PUBLISHER)
        st = claim_suspects(claim, lane_index, err);
    if (st != EF_OK || claim->out->count)
        return st;
    while ((next_lease = lowest_partition(claim, lane, next)) >= 0) {
        mem_part *part = &lane->parts[claim->held[next_lease].partition];
        int64_t position = part->rows[next[next_lease]++];
        if (!add_queued_row(claim, lane_index, position, false))
            break;
        part->in_flight_upto = position;
    }
    return rows > 0 && claim->out->count == 0 ? ef__no_memory(err) : EF_OK;
}

/* Is `partition` one of the leases that the caller passed? */
static bool is_held(const ef_partition_lease *held, size_t count, int32_t partition)
{
    for (size_t i = 0; i < count; i++)
        if (held[i].partition == partition)
            return true;
    return false;
}

static int32_t retry_partition(const mem_journal *mem, const mem_retry_row *retry)
{
    return ef__mem_partition(&mem->lanes[retry->lane], mem->events[retry->position - 1]);
}

/* May the retry row be claimed, once it is due? `lane` below 0: the lanes of all projections. */
static bool is_claimable(const mem_claim *claim, int64_t lane, size_t index)
{
    const mem_retry_row *retry = &claim->mem->retry_rows[index];
    bool waits = retry->status == EF_ROW_PENDING || retry->status == EF_ROW_FAILED;
    bool ours = lane < 0 ? claim->mem->lanes[retry->lane].kind == EF_LANE_KIND_PROJECTION
                         : retry->lane == (size_t)lane;

    return ours && waits &&
           is_held(claim->held, claim->held_count, retry_partition(claim->mem, retry)) &&
           ef__mem_retry_row_is_first(claim->mem, index);
}

static bool add_retry_row(mem_claim *claim, const mem_retry_row *retry, bool follows)
{
    ef_claimed_row item = {.attempts = retry->attempts,
                           .skip = retry->skip,
                           .follows = follows,
                           .filed = retry->filed,
                           .interrupted = retry->trying && !follows};

    if (!follows)
        item.error = ef__arena_copy(&claim->out->events.room->arena, retry->error);
    return (follows || item.error.ptr) && add_row(claim, retry->lane, retry->position, item);
}

/* Adds up to `space` pending rows of the stream that follow its first retry row. It stops at a row
 * of a partition that the caller does not hold: after the number of partitions has changed, a
 * stream may have rows in two. */
static bool add_following_rows(mem_claim *claim, size_t index, size_t *space)
{
    const mem_journal *mem = claim->mem;
    const mem_retry_row *first = &mem->retry_rows[index];
    size_t stream = mem->events[first->position - 1]->stream;

    for (size_t i = index + 1; i < mem->retry_row_count; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        if (retry->lane != first->lane || mem->events[retry->position - 1]->stream != stream)
            continue;
        if (retry->status != EF_ROW_PENDING ||
            !is_held(claim->held, claim->held_count, retry_partition(mem, retry)))
            return true;
        if (*space == 0) {
            claim->out->more = true;
            return true;
        }
        if (!add_retry_row(claim, retry, true))
            return false;
        --*space;
    }
    return true;
}

static void update_next_due(mem_claim *claim, int64_t due_us)
{
    if (claim->out->next_due_us == 0 || due_us < claim->out->next_due_us)
        claim->out->next_due_us = due_us;
}

/* The order of claims: by lane, then due time, then position. */
static bool is_due_before(const mem_journal *mem, size_t a, size_t b)
{
    const mem_retry_row *retry = &mem->retry_rows[a], *other = &mem->retry_rows[b];
    int order = ef__str_compare(mem->lanes[retry->lane].name, mem->lanes[other->lane].name);

    if (order)
        return order < 0;
    return retry->due_us != other->due_us ? retry->due_us < other->due_us
                                          : retry->position < other->position;
}

/* Fills `out` with the indexes of the retry rows that are due, in the order of claims. */
static size_t list_due_rows(mem_claim *claim, int64_t lane, size_t *out)
{
    int64_t now_us = ef__mem_now(claim->mem);
    size_t count = 0;

    for (size_t i = 0; i < claim->mem->retry_row_count; i++) {
        size_t at = count;
        if (!is_claimable(claim, lane, i))
            continue;
        if (claim->mem->retry_rows[i].due_us > now_us) {
            update_next_due(claim, claim->mem->retry_rows[i].due_us);
            continue;
        }
        for (; at > 0 && is_due_before(claim->mem, i, out[at - 1]); at--)
            out[at] = out[at - 1];
        out[at] = i;
        count++;
    }
    return count;
}

static ef_status claim_due(mem_claim *claim, int64_t lane, ef_error *err)
{
    size_t *due = ef__arena_alloc(&claim->out->events.room->arena,
                                  (claim->mem->retry_row_count + 1) * sizeof *due);
    ef_status st =
        due ? prepare_batch(claim, claim->mem->retry_row_count, err) : ef__no_memory(err);
    size_t count = st == EF_OK ? list_due_rows(claim, lane, due) : 0;
    size_t space = count < claim->limit ? claim->limit - count : 0;

    for (size_t i = 0; i < count; i++)
        if (!add_retry_row(claim, &claim->mem->retry_rows[due[i]], false) ||
            !add_following_rows(claim, due[i], &space))
            break;
    return st == EF_OK && count && claim->out->count == 0 ? ef__no_memory(err) : st;
}

static ef_status claim_lane(mem_claim *claim, ef_str lane, bool due, ef_error *err)
{
    bool all = lane.len == 0;
    int64_t found =
        all ? 0 : ef__mem_lane_find(claim->mem, lane); /* "*" stands for all projections */
    ef_status st;

    if (found < 0)
        return ef__refuse_unknown("lane", lane, err);
    st = ef__mem_leases_check(claim->mem, &claim->mem->lanes[found], claim->held, claim->held_count,
                              err);
    if (st == EF_OK && claim->after)
        st = ef__lane_publishes(lane, claim->mem->lanes[found].kind, err);
    if (st != EF_OK)
        return st;
    return due ? claim_due(claim, all ? -1 : found, err) : claim_queued(claim, (size_t)found, err);
}

ef_status ef__mem_claim(ef_journal *journal, const ef__claim_request *request,
                        ef_claimed_batch *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_claim claim = {.mem = mem,
                       .held = request->held,
                       .held_count = request->held_count,
                       .after = request->after,
                       .limit = request->limit,
                       .out = out};

    return claim_lane(&claim, request->lane, request->due, err);
}

/* --- acknowledging ---------------------------------------------------------------------------- */

static ef_status check_upto(const mem_lane *lane, const ef_partition_lease *held, ef_error *err)
{
    const mem_part *part = &lane->parts[held->partition];
    int64_t most = part->offset;

    if (part->in_flight_token == held->token && part->in_flight_upto > most)
        most = part->in_flight_upto;
    if (held->upto == 0 || (held->upto >= part->offset && held->upto <= most))
        return EF_OK;
    return ef__refuse_upto(lane->name, held, part->offset, most, err);
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
        return ef__refuse_retry_lane(given->lane, mem->lanes[lane_index].name, err);
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
    int32_t partition = ef__mem_partition(lane, event);
    const mem_part *part = &lane->parts[partition];

    for (size_t i = 0; i < request->held_count; i++)
        if (request->held[i].partition == partition &&
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
    int32_t partition;
    bool found;
    ef_status st;

    if (given->position > (int64_t)mem->event_count)
        return ef__refuse_unknown_position(given->position, err);
    event = mem->events[given->position - 1];
    partition = ef__mem_partition(&mem->lanes[lane], event);
    if (request->held_count && !is_held(request->held, request->held_count, partition))
        return ef__refuse_partition(given->position, partition, err);
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
    if (!found)
        ef__mem_insert(mem->retry_rows, &mem->retry_row_count, at, sizeof *row,
                       &(mem_retry_row){.lane = change->lane, .position = given->position});
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
    if (st == EF_OK && !ef__mem_grow((void **)&mem->retry_rows, &mem->retry_row_cap,
                                     mem->retry_row_count + count, sizeof *mem->retry_rows))
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

ef_status ef__mem_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                      ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t lane = ef__mem_lane_find(mem, request->lane);
    mem_retry_change *changes;
    ef_status st;

    assert(!connection);
    (void)connection;
    if (lane < 0)
        return ef__refuse_unknown("lane", request->lane, err);
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
