/*
 * front_rows.c - rows of the outbox that fit more than a lane, a tenant and a status.
 *
 * No index knows what an error says, so what fits is picked from pages of the back end's. A look is
 * bounded: after EF_LIMIT_LOOK_ROWS rows it ends with a cursor to go on behind them, whether or not
 * any fitted. A stream's rows lie between its first event and its last, and nothing else is looked
 * at for them.
 *
 * A tenant's published rows are picked like that too: what waits is little as long as all is well,
 * but what was published is much, and a back end would walk over all of it for a tenant of which
 * there is none.
 */
#include "front_priv.h"

#include <ctype.h>
#include <stdlib.h>

#define PAGE_ROWS 500

typedef struct look {
    ef_journal *journal;
    const ef_outbox_query *query;
    ef_outbox_query ask; /* what the back end is asked */
    int64_t last;        /* rows behind this position cannot fit */
    ef_row_list page;
    size_t seen;
    ef_row *rows; /* what fitted, in out's arena */
    ef_row_list *out;
} look;

ef_status ef__picks_check(const ef_outbox_query *query, ef_error *err)
{
    ef_status st = ef__name_take("stream", query->stream, 0, false, err);

    if (st == EF_OK && query->stream.len && query->any_tenant)
        st = ef_fail(err, EF_BAD_INPUT, "stream \"%.*s\" is of one tenant, and any is asked for",
                     EF_STR_ARG(query->stream));
    if (st == EF_OK)
        st = ef__words_check("types", query->types, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__words_check("error", query->error, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK && query->partition)
        st = ef__range_check("partition", *query->partition, 0, EF_PARTITIONS_MAX - 1, err);
    if (st == EF_OK)
        st = ef__range_check("before_us", query->before_us, 0, EF__TIME_US_MAX, err);
    return st;
}

bool ef__query_picks(const ef_outbox_query *query)
{
    return query->stream.len || query->types.len || query->error.len || query->partition ||
           query->before_us || (ef__query_published(query) && !query->any_tenant);
}

/* Capital and small letters are alike, for people type what they remember. */
static bool contains(ef_str text, ef_str part)
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

static bool fits(const ef_outbox_query *query, const ef_row *row)
{
    return (query->any_tenant || ef_str_equal(row->tenant, query->tenant)) &&
           (!query->stream.len || ef_str_equal(row->stream, query->stream)) &&
           ef__type_matches(row->event_type, query->types) &&
           (!query->error.len || contains(row->last_error, query->error)) &&
           (!query->partition || row->partition == *query->partition) &&
           (!query->before_us || row->enqueued_us < query->before_us);
}

/* How many rows of the page there is room for: up to the last one that still fits in. */
static size_t rows_taken(const look *l)
{
    size_t room = l->query->limit - l->out->count, i = 0;

    for (; i < l->page.count && room > 0; i++)
        room -= fits(l->query, &l->page.items[i]);
    return i;
}

static ef_status keep(look *l, const ef_row *row, ef_error *err)
{
    ef__arena *arena = &l->out->room->arena;
    ef_row *copy = &l->rows[l->out->count];

    *copy = *row;
    copy->lane = ef__arena_copy(arena, row->lane);
    copy->tenant = ef__arena_copy(arena, row->tenant);
    copy->stream = ef__arena_copy(arena, row->stream);
    copy->event_type = ef__arena_copy(arena, row->event_type);
    copy->last_error = ef__arena_copy(arena, row->last_error);
    if (!copy->lane.ptr || !copy->tenant.ptr || !copy->stream.ptr || !copy->event_type.ptr ||
        !copy->last_error.ptr)
        return ef__room_full(err);
    l->out->count++;
    return EF_OK;
}

/* The next page, of which every row is taken. Only the back end can make a cursor, and it makes one
 * behind the last row of a page: so a page with too much in it is asked for again, and shorter. */
static ef_status next_page(look *l, ef_error *err)
{
    size_t take;
    ef_status st;

    l->ask.limit = PAGE_ROWS;
    do {
        l->page.next[0] = '\0';
        st = EF__LIST_READY(&l->page, err);
        if (st == EF_OK)
            st = l->journal->ops->outbox_ls(l->journal, &l->ask, &l->page, err);
        take = st == EF_OK ? rows_taken(l) : 0;
        l->ask.limit = take;
    } while (st == EF_OK && take < l->page.count);
    return st;
}

/* Nothing behind this row can fit. Times never fall along the journal. Of the published ones, which
 * come the other way, the back end leaves out what lies behind. */
static bool is_behind(const look *l, const ef_row *row)
{
    return !ef__query_published(l->query) &&
           (row->position > l->last ||
            (l->query->before_us && row->enqueued_us >= l->query->before_us));
}

static ef_status take_page(look *l, ef_error *err)
{
    ef_status st = next_page(l, err);

    for (size_t i = 0; st == EF_OK && i < l->page.count; i++)
        if (fits(l->query, &l->page.items[i]))
            st = keep(l, &l->page.items[i], err);
    if (st != EF_OK)
        return st;
    l->seen += l->page.count;
    memcpy(l->out->next, l->page.next, sizeof(l->out->next));
    l->ask.after = ef_str_from(l->out->next);
    if (l->page.count && is_behind(l, &l->page.items[l->page.count - 1]))
        l->out->next[0] = '\0';
    return EF_OK;
}

/* Where the stream's rows can lie. */
static ef_status narrow(look *l, bool *out_none, ef_error *err)
{
    const ef_outbox_query *query = l->query;
    ef_batch first = EF_BATCH_INIT;
    int64_t seq = 0;
    ef_status st = ef_stream_head(l->journal, query->tenant, query->stream, &seq, &l->last, err);

    *out_none = seq == 0;
    if (st == EF_OK && seq > 0)
        st = ef_journal_read_stream(l->journal, query->tenant, query->stream, 1, 1, &first, err);
    if (st == EF_OK && first.count && first.events[0].position > query->from)
        l->ask.from = first.events[0].position;
    if (!query->upto || query->upto > l->last)
        l->ask.upto = l->last;
    ef_batch_release(&first);
    return st;
}

ef_status ef__rows_pick(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                        ef_error *err)
{
    look l = {.journal = journal, .query = query, .ask = *query, .last = INT64_MAX, .out = out};
    bool none = false;
    ef_status st = query->stream.len ? narrow(&l, &none, err) : EF_OK;

    l.ask.any_tenant = query->any_tenant || ef__query_published(query);
    l.rows = ef__arena_zalloc(&out->room->arena, query->limit, sizeof(*l.rows));
    out->items = l.rows;
    if (st == EF_OK && !l.rows)
        st = ef__room_full(err);
    while (st == EF_OK && !none) {
        st = take_page(&l, err);
        none = !out->next[0] || out->count == query->limit || l.seen >= EF_LIMIT_LOOK_ROWS;
    }
    ef_row_list_release(&l.page);
    return st;
}

/* --- streams with retry rows ------------------------------------------------------------------ */

ef_status ef__retry_streams(ef_journal *journal, const ef__retry_query *query,
                            ef__retry_stream_list *out, ef_error *err)
{
    ef_status st = ef__room_ready(&out->room, err);

    out->items = NULL;
    out->count = 0;
    return st == EF_OK ? journal->ops->retry_streams(journal, query, out, err) : st;
}

void ef__retry_stream_list_release(ef__retry_stream_list *list)
{
    ef__room_release(&list->room);
    *list = (ef__retry_stream_list){0};
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
               : ef__room_full(err);
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
    ef_row_list page = {0};
    ef_row_group *groups = NULL;
    ef_outbox_query ask;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(query, "query", err);
    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_READY(out, err);
    if (st != EF_OK)
        return st;
    out->rows = 0;
    out->more = false;
    groups = ef__arena_zalloc(&out->room->arena, EF_ROW_GROUPS_MAX, sizeof *groups);
    st = groups ? EF_OK : ef__room_full(err);
    ask = *query;
    ask.limit = PAGE_ROWS;
    ask.after = (ef_str){0};
    do {
        if (st == EF_OK)
            st = ef_outbox_ls(journal, &ask, &page, err);
        for (size_t i = 0; st == EF_OK && i < page.count; i++)
            st = count_row(out, groups, &page.items[i], err);
        memcpy(after, page.next, sizeof after);
        ask.after = ef_str_from(after);
    } while (st == EF_OK && after[0]);
    out->items = groups;
    if (st == EF_OK)
        qsort(groups, out->count, sizeof *groups, compare_groups);
    ef_row_list_release(&page);
    return EF__LIST_ANSWER(out, st);
}

void ef_row_groups_release(ef_row_groups *groups)
{
    EF__LIST_RELEASE(groups);
}
