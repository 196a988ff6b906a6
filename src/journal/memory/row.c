/*
 * row.c - listing outbox rows, summarising them, and revising retry rows for an operator.
 *
 * The statuses pending and processing of a queued row, and blocked of a retry row, are derived from
 * offsets, leases and the rows before them; they are not stored.
 */
#include "memory.h"

#include "../refusal.h"

#include "../../base/cursor.h"
#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* descending */

/* A row to list: queued or published when `retry_row` is -1. */
typedef struct mem_listed_row {
    size_t lane;
    int64_t position;
    int64_t retry_row;
    ef_row_status status;
    bool blocked;
    int64_t published_us;
} mem_listed_row;

typedef struct mem_row_list {
    const mem_journal *mem;
    mem_listed_row *items;
    size_t count, cap;
    bool down; /* descending positions */
} mem_row_list;

/* --- retry rows ------------------------------------------------------------------------------- */

/* Sorted by position and then by the name of the lane. */
size_t ef__mem_retry_row_find(const mem_journal *mem, int64_t position, size_t lane, bool *found)
{
    size_t low = 0, high = mem->retry_row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const mem_retry_row *retry = &mem->retry_rows[middle];
        bool before = retry->position < position ||
                      (retry->position == position &&
                       ef__str_compare(mem->lanes[retry->lane].name, mem->lanes[lane].name) < 0);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < mem->retry_row_count && mem->retry_rows[low].position == position &&
             mem->retry_rows[low].lane == lane;
    return low;
}

bool ef__mem_retry_row_is_first(const mem_journal *mem, size_t index)
{
    const mem_retry_row *retry = &mem->retry_rows[index];

    for (size_t i = 0; i < index; i++)
        if (mem->retry_rows[i].lane == retry->lane &&
            mem->events[mem->retry_rows[i].position - 1]->stream ==
                mem->events[retry->position - 1]->stream)
            return false;
    return true;
}

ef_status ef__mem_retry_row_requeue(mem_journal *mem, size_t lane, int64_t position, ef_error *err)
{
    bool found;
    size_t at = ef__mem_retry_row_find(mem, position, lane, &found);
    int64_t now_us = ef__mem_now(mem);

    if (found)
        return EF_OK;
    if (!ef__mem_grow((void **)&mem->retry_rows, &mem->retry_row_cap, mem->retry_row_count + 1,
                      sizeof *mem->retry_rows))
        return ef__mem_no_memory(err);
    ef__mem_insert(mem->retry_rows, &mem->retry_row_count, at, sizeof *mem->retry_rows,
                   &(mem_retry_row){.lane = lane,
                                    .position = position,
                                    .status = EF_ROW_PENDING,
                                    .due_us = now_us,
                                    .updated_us = now_us});
    return EF_OK;
}

void ef__mem_retry_row_remove(mem_journal *mem, size_t at)
{
    ef__mem_text_free(&mem->retry_rows[at].error);
    ef__mem_remove(mem->retry_rows, &mem->retry_row_count, at, sizeof *mem->retry_rows);
}

/* --- streams with retry rows ------------------------------------------------------------------ */

/* Is this the first row of a stream that the query asks for? */
static bool is_head(const mem_journal *mem, size_t index, const ef__retry_query *query)
{
    const mem_retry_row *retry = &mem->retry_rows[index];
    const ef_event *event = &mem->events[retry->position - 1]->event;

    if (!ef_str_equal(mem->lanes[retry->lane].name, query->lane) || retry->position <= query->after)
        return false;
    if (query->stream.len && !ef_str_equal(event->stream, query->stream))
        return false;
    if ((query->stream.len || !query->any_tenant) && !ef_str_equal(event->tenant, query->tenant))
        return false;
    return ef__mem_retry_row_is_first(mem, index);
}

/* Rows are in the order of positions, so those of a stream are in the order of its seqs. */
static void count_rows(const mem_journal *mem, size_t head, const ef__retry_query *query,
                       ef__retry_stream *out)
{
    const mem_retry_row *first = &mem->retry_rows[head];

    for (size_t i = head; i < mem->retry_row_count; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        const mem_event *event = mem->events[retry->position - 1];
        if (retry->lane != first->lane || event->stream != mem->events[first->position - 1]->stream)
            continue;
        out->last_seq = event->event.seq;
        out->rows += query->counts && event->event.seq > query->above_seq;
    }
}

static ef_status list_retry_streams(ef_journal *journal, const ef__retry_query *query,
                                    ef__retry_stream_list *out, ef_error *err)
{
    static const ef__texts listed = {3,
                                     {offsetof(ef__retry_stream, tenant),
                                      offsetof(ef__retry_stream, stream),
                                      offsetof(ef__retry_stream, error)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < mem->retry_row_count && out->count < query->limit; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        const ef_event *event = &mem->events[retry->position - 1]->event;
        ef__retry_stream item = {.tenant = event->tenant,
                                 .stream = event->stream,
                                 .seq = event->seq,
                                 .position = retry->position,
                                 .status = retry->status,
                                 .error = retry->error};
        if (!is_head(mem, i, query))
            continue;
        count_rows(mem, i, query, &item);
        st = ef__list_add(out, &item, &listed, err);
    }
    return st;
}

/* --- finding rows ----------------------------------------------------------------------------- */

static bool is_blocked(const mem_journal *mem, size_t index)
{
    const mem_retry_row *retry = &mem->retry_rows[index];

    if (retry->status != EF_ROW_PENDING)
        return false;
    for (size_t i = 0; i < index; i++) {
        const mem_retry_row *before = &mem->retry_rows[i];
        if (before->status == EF_ROW_DEAD && before->lane == retry->lane &&
            mem->events[before->position - 1]->stream == mem->events[retry->position - 1]->stream)
            return true;
    }
    return false;
}

static bool add_found(mem_row_list *list, const ef_outbox_query *query, mem_listed_row found)
{
    const ef_event *event = &list->mem->events[found.position - 1]->event;

    if (!query->any_tenant && !ef_str_equal(event->tenant, query->tenant))
        return true;
    if (!ef__mem_grow((void **)&list->items, &list->cap, list->count + 1, sizeof *list->items))
        return false;
    list->items[list->count++] = found;
    return true;
}

static bool find_queued(mem_row_list *list, const ef_outbox_query *query, size_t lane)
{
    const mem_journal *mem = list->mem;

    for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        const mem_part *part = &mem->lanes[lane].parts[p];
        ef_lease_key key = ef__mem_lane_lease(&mem->lanes[lane], p);
        int64_t token = 0, in_flight = 0;
        if (part->first < part->count && ef__mem_lease_live(mem, &key, &token) &&
            token == part->in_flight_token)
            in_flight = part->in_flight_upto;
        for (size_t r = part->first; r < part->count; r++) {
            int64_t position = part->rows[r];
            ef_row_status status = position <= in_flight ? EF_ROW_PROCESSING : EF_ROW_PENDING;
            if (!add_found(list, query, (mem_listed_row){lane, position, -1, status, false, 0}))
                return false;
        }
    }
    return true;
}

static int compare_found(const void *a, const void *b, void *context)
{
    const mem_journal *mem = context;
    const mem_listed_row *retry = a, *y = b;

    if (retry->position != y->position)
        return retry->position < y->position ? -1 : 1;
    return ef__str_compare(mem->lanes[retry->lane].name, mem->lanes[y->lane].name);
}

/* All rows of the lane and tenant of the query, in order. The caller frees the items. */
static ef_status find_rows(mem_journal *mem, const ef_outbox_query *query, mem_row_list *out,
                           ef_error *err)
{
    bool ok = true;

    *out = (mem_row_list){.mem = mem};
    for (size_t lane = 0; ok && lane < mem->lane_count; lane++)
        if (query->lane.len == 0 || ef_str_equal(mem->lanes[lane].name, query->lane))
            ok = find_queued(out, query, lane);
    for (size_t i = 0; ok && i < mem->retry_row_count; i++) {
        const mem_retry_row *retry = &mem->retry_rows[i];
        mem_listed_row found = {retry->lane,   retry->position,    (int64_t)i,
                                retry->status, is_blocked(mem, i), 0};
        if (query->lane.len == 0 || ef_str_equal(mem->lanes[retry->lane].name, query->lane))
            ok = add_found(out, query, found);
    }
    if (!ok) {
        free(out->items);
        return ef__mem_no_memory(err);
    }
    if (out->count)
        qsort_r(out->items, out->count, sizeof *out->items, compare_found, mem);
    return EF_OK;
}

static int compare_down(const void *a, const void *b, void *context)
{
    return compare_found(b, a, context);
}

/* Published rows of the query's lane and positions, newest first. The caller frees the items. */
static ef_status find_published(mem_journal *mem, const ef_outbox_query *query, mem_row_list *out,
                                ef_error *err)
{
    *out = (mem_row_list){.mem = mem, .down = true};
    for (size_t i = 0; i < mem->published_count; i++) {
        const mem_published *p = &mem->published[i];
        mem_listed_row found = {p->lane, p->position, -1, EF_ROW_PUBLISHED, false, p->at_us};
        if ((query->lane.len && !ef_str_equal(mem->lanes[p->lane].name, query->lane)) ||
            (query->upto && p->position > query->upto))
            continue;
        if (!add_found(out, query, found)) {
            free(out->items);
            return ef__mem_no_memory(err);
        }
    }
    if (out->count)
        qsort_r(out->items, out->count, sizeof *out->items, compare_down, mem);
    return EF_OK;
}

/* --- listing rows ----------------------------------------------------------------------------- */

static ef_status make_row(const mem_journal *mem, const mem_listed_row *found, ef__arena *arena,
                          ef_row *out, ef_error *err)
{
    static const ef__texts texts = {5,
                                    {offsetof(ef_row, lane), offsetof(ef_row, tenant),
                                     offsetof(ef_row, stream), offsetof(ef_row, event_type),
                                     offsetof(ef_row, last_error)}};
    const mem_event *event = mem->events[found->position - 1];
    const mem_retry_row *retry = found->retry_row < 0 ? NULL : &mem->retry_rows[found->retry_row];

    *out = (ef_row){
        .lane = mem->lanes[found->lane].name,
        .tenant = event->event.tenant,
        .stream = event->event.stream,
        .seq = event->event.seq,
        .position = found->position,
        .event_type = ef__mem_type_canonical(mem, event->event.type),
        .status = found->status,
        .blocked = found->blocked,
        .skip = retry && retry->skip,
        .partition = ef__mem_partition(&mem->lanes[found->lane], event),
        .attempt_count = retry ? retry->attempts : 0,
        .next_attempt_us = retry ? retry->due_us : 0,
        .last_error = retry ? retry->error : (ef_str){0},
        .enqueued_us = event->event.recorded_us,
        .updated_us = retry ? retry->updated_us : event->event.recorded_us,
        .filed = retry ? retry->filed : 0,
        .trying = retry && retry->trying,
    };
    if (found->status == EF_ROW_PUBLISHED)
        out->updated_us = out->published_us = found->published_us;
    return ef__texts_own(&texts, out, arena) ? EF_OK : ef__no_memory(err);
}

static ef_status prepare_rows(ef_row_list *out, size_t count, ef_row **rows, ef_error *err)
{
    *rows = ef__arena_zalloc(&out->room->arena, count + 1, sizeof **rows);
    out->items = *rows;
    return *rows ? EF_OK : ef__no_memory(err);
}

static bool is_after_cursor(const mem_row_list *list, const mem_listed_row *found,
                            const mem_listed_row *after)
{
    int way = compare_found(found, after, (void *)list->mem);

    return list->down ? way < 0 : way > 0;
}

static bool matches_query(const ef_outbox_query *query, const mem_listed_row *found)
{
    return (!query->status || *query->status == found->status) &&
           (!query->blocked_only || found->blocked);
}

static ef_status list_page(const mem_row_list *list, const ef_outbox_query *query,
                           const mem_listed_row *after, ef_row_list *out, ef_error *err)
{
    size_t room = list->count < query->limit ? list->count : query->limit;
    const mem_listed_row *last = NULL;
    ef_row *rows;
    ef_status st = prepare_rows(out, room, &rows, err);

    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        const mem_listed_row *found = &list->items[i];
        if (!matches_query(query, found) || found->position < query->from ||
            (after && !is_after_cursor(list, found, after)))
            continue;
        if (out->count == query->limit) {
            ef__cursor_format(list->down ? PUBLISHED_CURSOR : ROW_CURSOR, last->position,
                              (int64_t)last->lane, out->next);
            break;
        }
        st = make_row(list->mem, found, &out->room->arena, &rows[out->count], err);
        out->count++;
        last = found;
    }
    return st;
}

static ef_status list_rows(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                           ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    bool published = ef__query_published(query);
    mem_listed_row after = {0};
    int64_t lane;
    mem_row_list list;
    ef_status st = ef__cursor_parse(published ? PUBLISHED_CURSOR : ROW_CURSOR, query->after,
                                    &after.position, &lane, err);

    if (st != EF_OK)
        return st;
    if (lane < 0 || lane >= (int64_t)mem->lane_count)
        return ef__refuse_cursor(err);
    after.lane = (size_t)lane;
    st = published ? find_published(mem, query, &list, err) : find_rows(mem, query, &list, err);
    if (st != EF_OK)
        return st;
    st = list_page(&list, query, query->after.len ? &after : NULL, out, err);
    free(list.items);
    return st;
}

/* --- the summary ------------------------------------------------------------------------------ */

static void count_row(const mem_journal *mem, const mem_listed_row *found, ef_outbox_summary *out)
{
    int64_t enqueued_us = mem->events[found->position - 1]->event.recorded_us;

    out->pending += found->status == EF_ROW_PENDING;
    out->processing += found->status == EF_ROW_PROCESSING;
    out->failed += found->status == EF_ROW_FAILED;
    out->dead += found->status == EF_ROW_DEAD;
    if (!found->blocked)
        return;
    if (out->blocked++ == 0)
        out->blocked_oldest_us = enqueued_us; /* rows are in order, so the first is the oldest */
}

static ef_status summarise_rows(ef_journal *journal, const ef_outbox_query *query,
                                ef_outbox_summary *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_row_list list;
    ef_row *rows;
    ef_status st = find_rows(mem, query, &list, err);

    if (st != EF_OK)
        return st;
    st = prepare_rows(&out->oldest, 1, &rows, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const mem_listed_row *found = &list.items[i];
        bool waits = found->status == EF_ROW_PENDING || found->status == EF_ROW_FAILED;
        count_row(mem, found, out);
        if (waits && !found->blocked && out->oldest.count == 0) {
            st = make_row(mem, found, &out->oldest.room->arena, &rows[0], err);
            out->oldest.count = 1;
        }
    }
    free(list.items);
    return st;
}

static bool has_queued_work(const mem_journal *mem)
{
    for (size_t l = 0; l < mem->lane_count; l++)
        for (int32_t p = 0; mem->lanes[l].kind == EF_LANE_KIND_APPLY && p < EF_LIMIT_PARTITIONS;
             p++)
            if (mem->lanes[l].parts[p].first < mem->lanes[l].parts[p].count)
                return true;
    return false;
}

static bool has_retry_work(const mem_journal *mem)
{
    for (size_t i = 0; i < mem->retry_row_count; i++)
        if (mem->lanes[mem->retry_rows[i].lane].kind == EF_LANE_KIND_PROJECTION &&
            mem->retry_rows[i].status != EF_ROW_DEAD && ef__mem_retry_row_is_first(mem, i))
            return true;
    return false;
}

static ef_status find_work(ef_journal *journal, bool *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = has_queued_work(mem) || has_retry_work(mem);
    return EF_OK;
}

/* --- revising rows ---------------------------------------------------------------------------- */

static void revise_retry_row(mem_retry_row *retry, ef__revision what, int64_t now_us)
{
    if (what == EF__REVISION_REQUEUE) {
        retry->attempts = 0;
        ef__mem_text_free(&retry->error);
    }
    if (what != EF__REVISION_REPLAY || retry->status == EF_ROW_DEAD)
        retry->status = EF_ROW_PENDING;
    retry->skip = what == EF__REVISION_SKIP || (retry->skip && what == EF__REVISION_REPLAY);
    retry->trying = false;
    retry->due_us = retry->updated_us = now_us;
}

/* A skip turns the queued row of a publisher into a retry row. */
static ef_status move_from_queue(mem_journal *mem, const ef__revised_row *row, ef_error *err)
{
    int64_t lane = ef__mem_lane_find(mem, row->lane);
    ef_status st;

    if (lane < 0 || mem->lanes[lane].kind != EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        mem_part *part = &mem->lanes[lane].parts[p];
        size_t at = part->first;
        while (at < part->count && part->rows[at] != row->position)
            at++;
        if (at == part->count)
            continue;
        st = ef__mem_retry_row_requeue(mem, (size_t)lane, row->position, err);
        if (st == EF_OK)
            ef__mem_remove(part->rows, &part->count, at, sizeof *part->rows);
        return st;
    }
    return EF_OK;
}

/* The index of a row that may be revised, or -1. */
static int64_t find_revised(const mem_journal *mem, ef__revision what, const ef__revised_row *row)
{
    int64_t lane = ef__mem_lane_find(mem, row->lane);
    bool found = false;
    size_t at = lane < 0 ? 0 : ef__mem_retry_row_find(mem, row->position, (size_t)lane, &found);

    if (!found || (what == EF__REVISION_REQUEUE && mem->retry_rows[at].status != EF_ROW_DEAD))
        return -1;
    return (int64_t)at;
}

static ef_status add_skips(mem_journal *mem, const ef__revised_row *row, ef_error *err)
{
    const ef_event *event = &mem->events[row->position - 1]->event;
    ef_status st = EF_OK;

    for (size_t v = 0; st == EF_OK && v < row->version_count; v++)
        st = ef__mem_skip_append(mem,
                                 &(ef__skip_entry){.projection = row->lane,
                                                   .version = row->versions[v],
                                                   .tenant = event->tenant,
                                                   .stream = event->stream,
                                                   .seq = event->seq},
                                 err);
    return st;
}

static ef_status reserve_skips(mem_journal *mem, const ef__revision_request *revise, ef_error *err)
{
    size_t skips = 0;

    for (size_t i = 0; i < revise->count; i++)
        skips += revise->rows[i].version_count;
    return ef__mem_skips_reserve(mem, skips, err);
}

/* Written before the rows are changed, because it can fail and the changes cannot. */
static ef_status record_revision(mem_journal *mem, const ef__revision_request *revise, int64_t rows,
                                 ef_error *err)
{
    ef_status st = EF_OK;

    if (rows == 0)
        return EF_OK;
    if (revise->act->id > 0 && revise->act->id <= (int64_t)mem->audit_count) {
        mem->audit[revise->act->id - 1].rows += rows;
        return EF_OK;
    }
    st = ef__mem_audit_append(mem, revise->act, rows, err);
    if (st == EF_OK)
        *revise->out_id = (int64_t)mem->audit_count;
    return st;
}

static ef_status revise_rows(ef_journal *journal, const ef__revision_request *revise,
                             ef_row_list *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    int64_t rows = 0, at;
    ef_row *shown;
    ef_status st = prepare_rows(out, revise->count, &shown, err);

    for (size_t i = 0; st == EF_OK && revise->what == EF__REVISION_SKIP && i < revise->count; i++)
        st = move_from_queue(mem, &revise->rows[i], err);
    for (size_t i = 0; i < revise->count; i++)
        rows += find_revised(mem, revise->what, &revise->rows[i]) >= 0;
    if (st == EF_OK)
        st = reserve_skips(mem, revise, err);
    if (st == EF_OK)
        st = record_revision(mem, revise, rows, err);
    for (size_t i = 0; st == EF_OK && i < revise->count; i++) {
        if ((at = find_revised(mem, revise->what, &revise->rows[i])) < 0)
            continue;
        mem_retry_row *retry = &mem->retry_rows[at];
        st = add_skips(mem, &revise->rows[i], err);
        if (st != EF_OK)
            return st;
        revise_retry_row(retry, revise->what, ef__mem_now(mem));
        mem_listed_row found = {
            retry->lane, retry->position, at, retry->status, is_blocked(mem, (size_t)at), 0};
        st = make_row(mem, &found, &out->room->arena, &shown[out->count], err);
        out->count += st == EF_OK;
    }
    return st;
}

const ef__outbox_ops ef__mem_outbox_ops = {
    .lane_set = ef__mem_lane_set,
    .lane_ls = ef__mem_lane_ls,
    .lane_drop = ef__mem_lane_drop,
    .published_purge = ef__mem_published_purge,
    .published_requeue = ef__mem_published_requeue,
    .published_count = ef__mem_published_count,
    .claim = ef__mem_claim,
    .ack = ef__mem_ack,
    .ls = list_rows,
    .summarise = summarise_rows,
    .has_work = find_work,
    .retry_streams = list_retry_streams,
    .revise = revise_rows,
};
