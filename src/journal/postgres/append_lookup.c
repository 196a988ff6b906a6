/*
 * append_lookup.c - see append.h: looks up the streams, ids and types of appends in the store.
 */
#include "append.h"

#include "../../base/same.h"

#include <stdlib.h>

/* --- indexing -------------------------------------------------------------------------------- */

typedef struct numbered {
    pair pair;
    size_t index;
} numbered;

static int compare_numbered(const void *x, const void *y)
{
    const numbered *a = x, *b = y;
    int order = ef__str_compare(a->pair.a, b->pair.a);

    return order ? order : ef__str_compare(a->pair.b, b->pair.b);
}

/* The distinct pairs of `all`, sorted by bytes, and the index of each among them. */
static ef_status number_pairs(ef__arena *arena, numbered *all, size_t count, int32_t *out_numbers,
                              pair **out, size_t *out_count, ef_error *err)
{
    *out = ef__arena_zalloc(arena, count + 1, sizeof **out);
    *out_count = 0;
    if (!*out)
        return ef__no_memory(err);
    if (count)
        qsort(all, count, sizeof *all, compare_numbered);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_numbered(&all[i - 1], &all[i]) != 0)
            (*out)[(*out_count)++] = all[i].pair;
        out_numbers[all[i].index] = (int32_t)(*out_count - 1);
    }
    return EF_OK;
}

/* The pair of an event; false: it has none. */
typedef bool pair_of(const item *it, pair *out);

static bool stream_pair(const item *it, pair *out)
{
    *out = (pair){it->arrival->event.tenant, it->arrival->event.stream};
    return true;
}

static bool id_pair(const item *it, pair *out)
{
    *out = (pair){it->arrival->event.tenant, it->arrival->event.id};
    return !it->arrival->id_made;
}

static bool type_pair(const item *it, pair *out)
{
    *out = (pair){{0}, it->arrival->event.type};
    return true;
}

static ef_status number_items(pg_append_group *group, pair_of *of, size_t offset, pair **out,
                              size_t *out_count, ef_error *err)
{
    numbered *all = ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *all);
    int32_t *numbers = ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *numbers);
    size_t count = 0;
    ef_status st;

    if (!all || !numbers)
        return ef__no_memory(err);
    for (size_t i = 0; i < group->event_count; i++) {
        numbers[i] = -1;
        if (of(&group->items[i], &all[count].pair))
            all[count++].index = i;
    }
    st = number_pairs(&group->arena, all, count, numbers, out, out_count, err);
    for (size_t i = 0; st == EF_OK && i < group->event_count; i++)
        memcpy((char *)&group->items[i] + offset, &numbers[i], sizeof numbers[i]);
    return st;
}

ef_status pg_group_collect(pg_append_group *group, ef_error *err)
{
    size_t n = 0;
    ef_status st;

    (void)ef__pg_rows_end(&group->stored);
    ef__arena_reset(&group->arena);
    group->nothing = group->is_sealed = group->meets_unplaced = false;
    group->accepted_count = 0;
    group->items = ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *group->items);
    group->accepted =
        ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *group->accepted);
    if (!group->items || !group->accepted)
        return ef__no_memory(err);
    for (pg_append *job = group->jobs; job; job = pg_append_next(job))
        for (size_t i = 0; i < job->count; i++) {
            group->items[n++] = (item){.arrival = &job->events[i], .place = &job->out[i]};
            group->is_sealed = group->is_sealed || job->events[i].sealed;
        }
    st = number_items(group, stream_pair, offsetof(item, stream), &group->streams,
                      &group->stream_count, err);
    if (st == EF_OK)
        st = number_items(group, id_pair, offsetof(item, id), &group->ids, &group->id_count, err);
    if (st == EF_OK)
        st = number_items(group, type_pair, offsetof(item, type), &group->types, &group->type_count,
                          err);
    group->heads = ef__arena_zalloc(&group->arena, group->stream_count + 1, sizeof *group->heads);
    group->knowns = ef__arena_zalloc(&group->arena, group->id_count + 1, sizeof *group->knowns);
    group->types_known =
        ef__arena_zalloc(&group->arena, group->type_count + 1, sizeof *group->types_known);
    group->types_new =
        ef__arena_zalloc(&group->arena, group->type_count + 1, sizeof *group->types_new);
    group->type_tenants =
        ef__arena_zalloc(&group->arena, group->type_count + 1, sizeof *group->type_tenants);
    ef__pair_map_reset(&group->types_wanted);
    ef__pair_map_reset(&group->types_created);
    if (st == EF_OK && (!group->heads || !group->knowns || !group->types_known ||
                        !group->types_new || !group->type_tenants))
        st = ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < group->id_count; i++)
        group->knowns[i].accepted = -1;
    return st;
}

/* --- the first round trip: streams, ids, types ------------------------------------------------ */

static ef_status send_streams(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_stream_lock lock = {0};
    struct pj_stream_heads heads = {0};
    ef_status st;

    for (size_t i = 0; i < group->stream_count; i++) {
        ef__pg_array_str(&lock.tenants, group->streams[i].a);
        ef__pg_array_str(&lock.names, group->streams[i].b);
        ef__pg_array_str(&heads.tenants, group->streams[i].a);
        ef__pg_array_str(&heads.names, group->streams[i].b);
    }
    st = pj_send_stream_lock(conn, &lock, err);
    return st == EF_OK ? pj_send_stream_heads(conn, &heads, err) : st;
}

static ef_status send_id_find(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_id_find find = {0};

    for (size_t i = 0; i < group->id_count; i++) {
        ef__pg_array_str(&find.tenants, group->ids[i].a);
        ef__pg_array_str(&find.ids, group->ids[i].b);
    }
    return pj_send_id_find(conn, &find, err);
}

ef_status pg_group_send_new_types(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_type_insert types = {0};

    for (size_t i = 0; i < group->type_count; i++)
        if (group->types_new[i]) {
            ef__pg_array_str(&types.names, group->types[i].b);
            ef__pg_array_str(&types.tenants, group->type_tenants[i]);
        }
    return types.names.count ? pj_send_type_insert(conn, &types, err) : EF_OK;
}

static ef__pg_array array_of_types(const pg_append_group *group)
{
    ef__pg_array names = {0};

    for (size_t i = 0; i < group->type_count; i++)
        ef__pg_array_str(&names, group->types[i].b);
    return names;
}

static ef_status read_heads(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = ef__pg_receive(conn, NULL, err); /* the lock */
    struct pj_stream_heads_row row;
    ef__pg_rows rows;

    if (st != EF_OK)
        return st;
    rows = ef__pg_rows_receive(conn, NULL, err);
    if (rows.status == EF_OK && (size_t)rows.count != group->stream_count)
        rows.status = ef_fail(err, EF_IO, "%zu streams were requested and %d returned",
                              group->stream_count, rows.count);
    while (pj_next_stream_heads(&rows, &row)) {
        group->heads[rows.at].id = row.id;
        group->heads[rows.at].seq = row.seq;
    }
    return ef__pg_rows_end(&rows);
}

static ef_status read_ids(pg_append_group *group, ef__pg_conn *conn, size_t *out_there,
                          ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    struct pj_id_find_row row;

    while (pj_next_id_find(&rows, &row)) {
        known *k = &group->knowns[row.n - 1];
        k->exists = true;
        k->stream = row.stream;
        k->seq = row.seq;
        (*out_there)++;
    }
    return ef__pg_rows_end(&rows);
}

static ef_status read_types(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    ef_str name;

    while (pj_next_type_known(&rows, &name)) {
        size_t low = 0, high = group->type_count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (ef__str_compare(group->types[middle].b, name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < group->type_count && ef_str_equal(group->types[low].b, name))
            group->types_known[low] = true;
    }
    return ef__pg_rows_end(&rows);
}

/* Reads the events with ids of this group, which have to have positions. */
static ef_status load_known(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    size_t *which = ef__arena_zalloc(&group->arena, group->id_count + 1, sizeof *which), count = 0;
    struct pj_event_places places = {0};
    ef__pg_rows *stored = &group->stored;

    if (!which)
        return ef__no_memory(err);
    for (size_t i = 0; i < group->id_count; i++)
        if (group->knowns[i].exists) {
            ef__pg_array_int(&places.streams, group->knowns[i].stream);
            ef__pg_array_int(&places.seqs, group->knowns[i].seq);
            which[count++] = i;
        }
    (void)ef__pg_rows_end(stored);
    *stored = pj_each_event_by_key(ef__pg_on_conn(conn), &places, err);
    for (int i = 0; stored->status == EF_OK && i < stored->count; i++) {
        known *k = &group->knowns[which[ef__pg_int(stored->result, i, PG_EVENT_COLUMNS) - 1]];
        stored->status = pg_event_read(stored->result, i, &group->scratch, &k->event, NULL, err);
        k->found = stored->status == EF_OK;
    }
    if (stored->status != EF_OK || (size_t)stored->count == count)
        return stored->status;
    group->meets_unplaced = true;
    return ef_fail(err, EF_BUSY, "an event with the same id has no position yet");
}

static ef_status send_try(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_sequencer_try try = {
        .names = array_of_types(group),
        .milliseconds = group->is_sealed ? group->store->base.options.busy_ms : 0,
        .since = ef__buf_str(&group->since.snapshot),
        .high = group->since.high,
    };
    ef_status st = pj_send_sequencer_try(conn, &try, err);

    return st == EF_OK ? pj_send_sequencer_begin(conn, pg_clock(group->store), err) : st;
}

static ef_status receive_try(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    bool is_placed = false;
    ef_status st;

    (void)pj_next_sequencer_try(&rows, &is_placed);
    st = ef__pg_rows_end(&rows);
    group->placing = is_placed ? PG_PLACED : PG_UNPLACED;
    ef__buf_release(&group->end.scratch);
    return st == EF_OK ? pg_end_read(ef__pg_rows_receive(conn, NULL, err), &group->end, err) : st;
}

ef_status pg_group_try_sequencer(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_try(group, conn, err);

    if (st == EF_OK)
        st = ef__pg_sync(conn, err);
    return st == EF_OK ? receive_try(group, conn, err) : st;
}

/* Another transaction may hold the lock of an id, so the sequencer lock is acquired later. */
static bool tries_at_once(const pg_append_group *group)
{
    return group->id_count == 0;
}

static ef_status send_lookup(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array names;
    ef_status st = send_streams(group, conn, err);

    if (st != EF_OK)
        return st;
    names = array_of_types(group);
    st = pj_send_type_known(conn, &names, err);
    if (st == EF_OK)
        st = tries_at_once(group) ? send_try(group, conn, err) : send_id_find(group, conn, err);
    return st;
}

static ef_status read_counts(pg_append_group *group, ef__pg_rows *rows, ef_error *err)
{
    struct pj_type_counts_row row;

    while (pj_next_type_counts(rows, &row)) {
        bool is_new;
        int64_t *created = &group->types_all;
        if (row.has_creator)
            created = ef__pair_map_at(&group->types_created, row.creator, (ef_str){0}, &is_new);
        if (!created)
            return ef__no_memory(err);
        *created = row.count;
    }
    return rows->status;
}

/* How many types the tenants of new types have: an extra round trip, as a new type is rare. */
static ef_status count_types(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array tenants = {0};
    ef__pg_rows rows;

    for (size_t i = 0; i < group->event_count; i++)
        if (!group->types_known[group->items[i].type])
            ef__pg_array_str(&tenants, group->items[i].arrival->event.tenant);
    if (tenants.count == 0)
        return EF_OK;
    rows = pj_each_type_counts(ef__pg_on_conn(conn), &tenants, NULL, err);
    rows.status = read_counts(group, &rows, err);
    return ef__pg_rows_end(&rows);
}

ef_status pg_group_lookup(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    size_t there = 0;
    ef_status st = send_lookup(group, conn, err);

    if (st == EF_OK)
        st = read_heads(group, conn, err);
    if (st == EF_OK)
        st = read_types(group, conn, err);
    if (st == EF_OK && tries_at_once(group))
        st = receive_try(group, conn, err);
    else if (st == EF_OK)
        st = read_ids(group, conn, &there, err);
    if (st == EF_OK)
        st = count_types(group, conn, err);
    return st == EF_OK && there ? load_known(group, conn, err) : st;
}

/* --- after a lost commit ---------------------------------------------------------------------- */

ef_status pg_group_resolve(void *context, ef__pg_conn *conn, ef_error *err)
{
    pg_append_group *group = context;
    struct pj_stream_lock lock = {0};
    struct pj_event_places places = {0};
    struct pj_event_places_row row;
    ef__pg_rows rows;
    ef_status st;

    for (size_t i = 0; i < group->stream_count; i++) {
        ef__pg_array_str(&lock.tenants, group->streams[i].a);
        ef__pg_array_str(&lock.names, group->streams[i].b);
    }
    st = pj_send_stream_lock(conn, &lock, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, NULL, err);
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < group->accepted_count; i++) {
        ef__pg_array_int(&places.streams, group->accepted[i].stream);
        ef__pg_array_int(&places.seqs, group->accepted[i].seq);
    }
    rows = pj_each_event_places(ef__pg_on_conn(conn), &places, NULL, err);
    group->nothing = rows.status == EF_OK && (size_t)rows.count != group->accepted_count;
    while (pj_next_event_places(&rows, &row)) {
        accepted *a = &group->accepted[row.n - 1];
        a->position = row.position;
        /* Another event has this seq: ours was not written. */
        if (!ef_str_equal(row.id, a->item->arrival->event.id))
            group->nothing = true;
    }
    group->placing = PG_UNPLACED; /* as far as it is known */
    return ef__pg_rows_end(&rows);
}
