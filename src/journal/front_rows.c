/*
 * front_rows.c - filters of the outbox beyond lane, tenant and status.
 *
 * No index covers the error text, so rows are filtered from pages of the back end. A search is
 * bounded: after EF_LIMIT_SCAN_ROWS rows it ends with a cursor to continue after them, whether or
 * not any row matched. The rows of a stream lie between its first event and its last, so only that
 * range is read.
 *
 * The published rows of a tenant are filtered here too: waiting rows are few while all is well, but
 * published rows are many, and a back end would read all of them for a tenant that has none.
 */
#include "front_priv.h"

#include "../base/cursor.h"
#include "../core/placement.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

#define PAGE_ROWS 500 /* per read of the back end: small against EF_LIMIT_SCAN_ROWS */

typedef struct row_search {
    ef_journal *journal;
    const ef_outbox_query *query;
    ef_outbox_query page_query; /* for the back end */
    int64_t last;               /* rows above this position cannot match */
    ef_row_list page;
    size_t seen;
    ef_row *rows; /* the matches, in the arena of `out` */
    ef_row_list *out;
} row_search;

ef_status ef__row_filters_check(const ef_outbox_query *query, ef_error *err)
{
    ef_status st = ef__name_parse("stream", query->stream, 0, false, err);

    if (st == EF_OK && query->stream.len && query->any_tenant)
        st = ef_fail(err, EF_BAD_INPUT, "stream \"%.*s\" needs a tenant, but any_tenant is set",
                     EF_STR_ARG(query->stream));
    if (st == EF_OK)
        st = ef__text_check("types", query->types, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__text_check("error", query->error, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK && query->partition)
        st = ef__range_check("partition", *query->partition, 0, EF_PARTITIONS_MAX - 1, err);
    if (st == EF_OK)
        st = ef__range_check("before_us", query->before_us, 0, EF__TIME_US_MAX, err);
    return st;
}

bool ef__query_has_filters(const ef_outbox_query *query)
{
    return query->stream.len || query->types.len || query->error.len || query->partition ||
           query->before_us || (ef__query_published(query) && !query->any_tenant);
}

/* Ignores case, because people type what they remember. */
static bool contains_ignoring_case(ef_str text, ef_str part)
{
    for (size_t at = 0; at + part.len <= text.len; at++) {
        size_t i = 0;
        while (i < part.len &&
               tolower((unsigned char)text.ptr[at + i]) == tolower((unsigned char)part.ptr[i]))
            i++;
        if (i == part.len)
            return true;
    }
    return false;
}

static bool matches_query(const ef_outbox_query *query, const ef_row *row)
{
    return (query->any_tenant || ef_str_equal(row->tenant, query->tenant)) &&
           (!query->stream.len || ef_str_equal(row->stream, query->stream)) &&
           ef__type_matches(row->event_type, query->types) &&
           (!query->error.len || contains_ignoring_case(row->last_error, query->error)) &&
           (!query->partition || row->partition == *query->partition) &&
           (!query->before_us || row->enqueued_us < query->before_us);
}

/* How many rows of the page can be used: up to the last match that fits into the result. */
static size_t count_usable_rows(const row_search *search)
{
    size_t room = search->query->limit - search->out->count, i = 0;

    for (; i < search->page.count && room > 0; i++)
        room -= matches_query(search->query, &search->page.items[i]);
    return i;
}

ef_status ef__row_copy(const ef_row *row, ef__arena *arena, ef_row *out, ef_error *err)
{
    *out = *row;
    out->lane = ef__arena_copy(arena, row->lane);
    out->tenant = ef__arena_copy(arena, row->tenant);
    out->stream = ef__arena_copy(arena, row->stream);
    out->event_type = ef__arena_copy(arena, row->event_type);
    out->last_error = ef__arena_copy(arena, row->last_error);
    return out->lane.ptr && out->tenant.ptr && out->stream.ptr && out->event_type.ptr &&
                   out->last_error.ptr
               ? EF_OK
               : ef__no_memory(err);
}

/* Reads the next page, of which every row is used. Only the back end can make a cursor, and it
 * makes one after the last row of a page: so a page with too many matches is read again, with a
 * lower limit. */
static ef_status read_page(row_search *search, ef_error *err)
{
    size_t take;
    ef_status st;

    search->page_query.limit = PAGE_ROWS;
    do {
        search->page.next[0] = '\0';
        st = ef__list_prepare(&search->page, err);
        if (st == EF_OK)
            st = search->journal->control->outbox->ls(search->journal->control, &search->page_query,
                                                      &search->page, err);
        take = st == EF_OK ? count_usable_rows(search) : 0;
        search->page_query.limit = take;
    } while (st == EF_OK && take < search->page.count);
    return st;
}

/* Can no later row match? Times never decrease along the journal. Published rows are in descending
 * order, and the back end leaves out those beyond the range. */
static bool is_past_matches(const row_search *search, const ef_row *row)
{
    return !ef__query_published(search->query) &&
           (row->position > search->last ||
            (search->query->before_us && row->enqueued_us >= search->query->before_us));
}

static ef_status search_page(row_search *search, ef_error *err)
{
    ef_status st = read_page(search, err);

    for (size_t i = 0; st == EF_OK && i < search->page.count; i++)
        if (matches_query(search->query, &search->page.items[i]))
            st = ef__row_copy(&search->page.items[i], &search->out->room->arena,
                              &search->rows[search->out->count++], err);
    if (st != EF_OK)
        return st;
    search->seen += search->page.count;
    memcpy(search->out->next, search->page.next, sizeof(search->out->next));
    search->page_query.after = ef_str_from(search->out->next);
    if (search->page.count && is_past_matches(search, &search->page.items[search->page.count - 1]))
        search->out->next[0] = '\0';
    return EF_OK;
}

/* Restricts the search to the range of positions of the stream. */
static ef_status restrict_to_stream(row_search *search, bool *out_none, ef_error *err)
{
    const ef_outbox_query *query = search->query;
    EF__AUTO(ef_batch) first = EF_BATCH_INIT;
    int64_t seq = 0;
    ef_status st =
        ef_stream_head(search->journal, query->tenant, query->stream, &seq, &search->last, err);

    *out_none = seq == 0;
    if (st == EF_OK && seq > 0)
        st = ef_journal_read_stream(search->journal, query->tenant, query->stream, 1, 1, &first,
                                    err);
    if (st == EF_OK && first.count && first.events[0].position > query->from)
        search->page_query.from = first.events[0].position;
    if (!query->upto || query->upto > search->last)
        search->page_query.upto = search->last;
    return st;
}

ef_status ef__rows_search(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                          ef_error *err)
{
    row_search search = {
        .journal = journal, .query = query, .page_query = *query, .last = INT64_MAX, .out = out};
    bool none = false;
    ef_status st = query->stream.len ? restrict_to_stream(&search, &none, err) : EF_OK;

    search.page_query.any_tenant = query->any_tenant || ef__query_published(query);
    search.rows = ef__arena_zalloc(&out->room->arena, query->limit, sizeof(*search.rows));
    out->items = search.rows;
    if (st == EF_OK && !search.rows)
        st = ef__no_memory(err);
    while (st == EF_OK && !none) {
        st = search_page(&search, err);
        none = !out->next[0] || out->count == query->limit || search.seen >= EF_LIMIT_SCAN_ROWS;
    }
    EF_RELEASE(&search.page);
    return st;
}

/* --- streams with retry rows ------------------------------------------------------------------ */

ef_status ef__retry_streams(ef_journal *journal, const ef__retry_query *query,
                            ef__retry_stream_list *out, ef_error *err)
{
    ef_status st = ef__memory_prepare(&out->room, err);

    out->items = NULL;
    out->count = 0;
    return st == EF_OK ? journal->control->outbox->retry_streams(journal->control, query, out, err)
                       : st;
}

/* --- groups ----------------------------------------------------------------------------------- */

static ef_row_group *find_group(ef_row_group *groups, size_t count, const ef_row *row)
{
    for (size_t i = 0; i < count; i++)
        if (ef_str_equal(groups[i].error, row->last_error) &&
            ef_str_equal(groups[i].lane, row->lane))
            return &groups[i];
    return NULL;
}

static ef_status count_row(ef_row_groups *out, ef_row_group *groups, const ef_row *row,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_row_group *group = find_group(groups, out->count, row);

    out->rows++;
    if (group) {
        group->rows++;
        return EF_OK;
    }
    if (out->count == EF_ROW_GROUPS_MAX) {
        out->more = true;
        return EF_OK;
    }
    group = &groups[out->count++];
    *group = (ef_row_group){.lane = ef__arena_copy(arena, row->lane),
                            .error = ef__arena_copy(arena, row->last_error),
                            .tenant = ef__arena_copy(arena, row->tenant),
                            .stream = ef__arena_copy(arena, row->stream),
                            .seq = row->seq,
                            .position = row->position,
                            .rows = 1,
                            .oldest_us = row->enqueued_us};
    return group->lane.ptr && group->error.ptr && group->tenant.ptr && group->stream.ptr
               ? EF_OK
               : ef__no_memory(err);
}

static int compare_groups(const void *left, const void *right)
{
    const ef_row_group *a = left, *b = right;

    if (a->rows != b->rows)
        return a->rows > b->rows ? -1 : 1;
    return (a->position > b->position) - (a->position < b->position);
}

ef_status ef_outbox_group(ef_journal *journal, const ef_outbox_query *query, ef_row_groups *out,
                          ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    EF__AUTO(ef_row_list) page = {0};
    ef_row_group *groups = NULL;
    ef_outbox_query page_query;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(query, "query", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = ef__list_prepare(out, err);
    if (st != EF_OK)
        return st;
    out->rows = 0;
    out->more = false;
    groups = ef__arena_zalloc(&out->room->arena, EF_ROW_GROUPS_MAX, sizeof *groups);
    st = groups ? EF_OK : ef__no_memory(err);
    page_query = *query;
    page_query.limit = PAGE_ROWS;
    page_query.after = (ef_str){0};
    do {
        if (st == EF_OK)
            st = ef_outbox_ls(journal, &page_query, &page, err);
        for (size_t i = 0; st == EF_OK && i < page.count; i++)
            st = count_row(out, groups, &page.items[i], err);
        memcpy(after, page.next, sizeof after);
        page_query.after = ef_str_from(after);
    } while (st == EF_OK && after[0]);
    out->items = groups;
    if (st == EF_OK)
        qsort(groups, out->count, sizeof *groups, compare_groups);
    return EF__LIST_FINISH(out, st);
}

/* --- pages of back ends ----------------------------------------------------------------------- */

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* descending */

ef_status ef__row_page_init(ef__row_page *page, const ef_outbox_query *query, ef_error *err)
{
    bool published = ef__query_published(query);
    ef_status st;

    *page = (ef__row_page){.lane = query->lane,
                           .any_tenant = query->any_tenant,
                           .tenant = query->tenant,
                           .status = query->status ? (int32_t)*query->status : -1,
                           .show = query->blocked_only ? EF__ROWS_BLOCKED : EF__ROWS_ALL,
                           .from = query->from,
                           .limit = (int64_t)query->limit + 1};
    st = ef__cursor_parse(published ? PUBLISHED_CURSOR : ROW_CURSOR, query->after, &page->after,
                          &page->after_lane, err);
    if (!published && page->after > page->from)
        page->from = page->after;
    if (published && !query->after.len)
        page->after = INT64_MAX;
    if (published && query->upto && query->upto < page->after) {
        page->after = query->upto + 1;
        page->after_lane = 0;
    }
    return st;
}

ef__row_page ef__row_page_oldest(const ef_outbox_query *query, int64_t now_us)
{
    return (ef__row_page){.lane = query->lane,
                          .any_tenant = query->any_tenant,
                          .tenant = query->tenant,
                          .status = -1,
                          .show = EF__ROWS_WAITING,
                          .limit = 1,
                          .now_us = now_us};
}

ef_status ef__rows_take(const ef__listed_row *rows, size_t count, size_t limit, ef_row_list *out,
                        ef_error *err)
{
    ef_row *items = ef__arena_zalloc(&out->room->arena, count + 1, sizeof *items);
    bool published = count > 0 && rows[0].row.status == EF_ROW_PUBLISHED;

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (out->count = 0; out->count < count && out->count < limit; out->count++) {
        ef_row *row = &items[out->count];
        *row = rows[out->count].row;
        if (row->seq == 0)
            return ef_fail(err, EF_DAMAGED,
                           "an outbox row has no event: position %" PRId64 " is missing",
                           row->position);
        if (!published)
            continue;
        /* It has a time of its own; its partition is computed from the stream. */
        row->published_us = row->updated_us;
        row->partition = ef__partition_of(row->tenant, row->stream, EF_LIMIT_PUBLISHER_PARTITIONS);
    }
    if (count > limit && limit > 0)
        ef__cursor_format(published ? PUBLISHED_CURSOR : ROW_CURSOR, rows[limit - 1].row.position,
                          rows[limit - 1].lane_id, out->next);
    return EF_OK;
}
