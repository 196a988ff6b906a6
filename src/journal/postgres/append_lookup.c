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

    PQclear(group->stored);
    group->stored = NULL;
    ef__arena_reset(&group->arena);
    group->nothing = false;
    group->accepted_count = 0;
    group->items = ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *group->items);
    group->accepted =
        ef__arena_zalloc(&group->arena, group->event_count + 1, sizeof *group->accepted);
    if (!group->items || !group->accepted)
        return ef__no_memory(err);
    for (pg_append *job = group->jobs; job; job = pg_append_next(job))
        for (size_t i = 0; i < job->count; i++)
            group->items[n++] = (item){.arrival = &job->events[i], .place = &job->out[i]};
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
    for (size_t i = 0; st == EF_OK && i < group->event_count; i++)
        group->heads[group->items[i].stream].more++;
    return st;
}

/* --- the first round trip: streams, ids, types
 * ------------------------------------------------------ */

static ef_status send_streams(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, names, more;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_init(&more, EF__PG_INT);
    for (size_t i = 0; i < group->stream_count; i++) {
        ef__pg_array_str(&tenants, group->streams[i].a);
        ef__pg_array_str(&names, group->streams[i].b);
        ef__pg_array_int(&more, group->heads[i].more);
    }
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &names);
    ef__pg_add_array(&params, &more);
    st = ef__pg_send(conn, PJ_STREAM_ADVANCE, &params, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&names);
    ef__pg_array_release(&more);
    return st;
}

static ef_status send_id_find(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, ids;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&ids, EF__PG_TEXT);
    for (size_t i = 0; i < group->id_count; i++) {
        ef__pg_array_str(&tenants, group->ids[i].a);
        ef__pg_array_str(&ids, group->ids[i].b);
    }
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &ids);
    st = ef__pg_send(conn, PJ_ID_FIND, &params, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&ids);
    return st;
}

ef_status pg_group_send_new_types(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names, tenants;
    ef_status st = EF_OK;

    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_init(&tenants, EF__PG_TEXT);
    for (size_t i = 0; i < group->type_count; i++)
        if (group->types_new[i]) {
            ef__pg_array_str(&names, group->types[i].b);
            ef__pg_array_str(&tenants, group->type_tenants[i]);
        }
    ef__pg_add_array(&params, &names);
    ef__pg_add_array(&params, &tenants);
    if (names.count)
        st = ef__pg_send(conn, PJ_TYPE_INSERT, &params, err);
    ef__pg_array_release(&names);
    ef__pg_array_release(&tenants);
    return st;
}

/* `more` (may be NULL) is the parameter after the names. */
static ef_status send_types(const pg_append_group *group, ef__pg_conn *conn, int which,
                            const bool *only, const int64_t *more, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names;
    ef_status st = EF_OK;

    ef__pg_array_init(&names, EF__PG_TEXT);
    for (size_t i = 0; i < group->type_count; i++)
        if (!only || only[i])
            ef__pg_array_str(&names, group->types[i].b);
    ef__pg_add_array(&params, &names);
    if (more)
        ef__pg_add_int(&params, *more);
    if (names.count || !only)
        st = ef__pg_send(conn, which, &params, err);
    ef__pg_array_release(&names);
    return st;
}

ef_status pg_group_send_types(const pg_append_group *group, ef__pg_conn *conn, int which,
                              const bool *only, ef_error *err)
{
    return send_types(group, conn, which, only, NULL, err);
}

static ef_status read_heads(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_receive(conn, &result, err);

    if (st == EF_OK && (size_t)PQntuples(result) != group->stream_count)
        st = ef_fail(err, EF_IO, "%zu streams were requested and %d returned", group->stream_count,
                     PQntuples(result));
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        head *h = &group->heads[i];
        h->id = ef__pg_int(result, i, 0);
        h->written = ef__pg_int(result, i, 1);
        h->seq = h->written - h->more;
    }
    PQclear(result);
    return st;
}

static ef_status read_ids(pg_append_group *group, ef__pg_conn *conn, size_t *out_there,
                          ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_receive(conn, &result, err);

    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        known *k = &group->knowns[ef__pg_int(result, i, 0) - 1];
        k->exists = true;
        k->stream = ef__pg_int(result, i, 1);
        k->seq = ef__pg_int(result, i, 2);
        (*out_there)++;
    }
    PQclear(result);
    return st;
}

static ef_status read_types(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_receive(conn, &result, err);

    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_str name = ef__pg_str(result, i, 0);
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
    PQclear(result);
    return st;
}

/* Reads the events with ids of this group. *out_missing: one of them has no position yet. */
static ef_status load_known(pg_append_group *group, ef__pg_conn *conn, bool *out_missing,
                            ef_error *err)
{
    size_t *which = ef__arena_zalloc(&group->arena, group->id_count + 1, sizeof *which), count = 0;
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    ef_status st = which ? EF_OK : ef__no_memory(err);

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; st == EF_OK && i < group->id_count; i++)
        if (group->knowns[i].exists) {
            ef__pg_array_int(&streams, group->knowns[i].stream);
            ef__pg_array_int(&seqs, group->knowns[i].seq);
            which[count++] = i;
        }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    PQclear(group->stored);
    group->stored = NULL;
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_EVENT_BY_KEY, &params, &group->stored, err);
    for (int i = 0; st == EF_OK && i < PQntuples(group->stored); i++) {
        known *k = &group->knowns[which[ef__pg_int(group->stored, i, PG_EVENT_COLUMNS) - 1]];
        st = pg_event_read(group->stored, i, &group->scratch, &k->event, NULL, err);
        k->found = st == EF_OK;
    }
    *out_missing = st == EF_OK && (size_t)PQntuples(group->stored) < count;
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

/* The lock of a given id may be held by another transaction, so the sequencer lock is acquired
 * later. */
static ef_status send_lookup(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_streams(group, conn, err);

    if (st == EF_OK)
        st = pg_group_send_types(group, conn, PJ_TYPE_KNOWN, NULL, err);
    if (st == EF_OK && group->id_count)
        return send_id_find(group, conn, err);
    if (st == EF_OK)
        st = send_types(group, conn, PJ_SEQUENCER_LOCK_IF, NULL,
                        &group->store->base.options.busy_ms, err);
    return st == EF_OK ? pg_sequence_send_begin(group->store, conn, err) : st;
}

static ef_status receive_sequencer(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    PGresult *locked = NULL;
    ef_status st = ef__pg_receive(conn, &locked, err);

    group->sequenced = st == EF_OK && PQntuples(locked) == 1;
    PQclear(locked);
    if (st != EF_OK)
        return st;
    return group->sequenced ? pg_sequence_receive(group->store, conn, &group->end, err)
                            : ef__pg_receive(conn, NULL, err);
}

static ef_status read_counts(pg_append_group *group, const PGresult *result, ef_error *err)
{
    for (int i = 0; i < PQntuples(result); i++) {
        bool is_new;
        int64_t *created = &group->types_all;
        if (!ef__pg_null(result, i, 0))
            created = ef__pair_map_at(&group->types_created, ef__pg_str(result, i, 0), (ef_str){0},
                                      &is_new);
        if (!created)
            return ef__no_memory(err);
        *created = ef__pg_int(result, i, 1);
    }
    return EF_OK;
}

/* How many types the tenants of new types have created: an extra round trip, because a new type is
 * rare. */
static ef_status count_types(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants;
    PGresult *result = NULL;
    ef_status st = EF_OK;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    for (size_t i = 0; i < group->event_count; i++)
        if (!group->types_known[group->items[i].type])
            ef__pg_array_str(&tenants, group->items[i].arrival->event.tenant);
    ef__pg_add_array(&params, &tenants);
    if (tenants.count)
        st = ef__pg_query(conn, PJ_TYPE_COUNTS, &params, &result, err);
    if (st == EF_OK && result)
        st = read_counts(group, result, err);
    PQclear(result);
    ef__pg_array_release(&tenants);
    return st;
}

ef_status pg_group_lookup(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    size_t there = 0;
    bool missing = false;
    ef_status st = send_lookup(group, conn, err);

    if (st == EF_OK)
        st = read_heads(group, conn, err);
    if (st == EF_OK)
        st = read_types(group, conn, err);
    if (st == EF_OK && group->id_count)
        st = read_ids(group, conn, &there, err);
    else if (st == EF_OK)
        st = receive_sequencer(group, conn, err);
    if (st == EF_OK)
        st = count_types(group, conn, err);
    if (st == EF_OK && there)
        st = load_known(group, conn, &missing, err);
    if (st == EF_OK && missing) { /* appended by SQL, committed and without a position */
        pg_end end;
        st = pg_sequence_begin(group->store, conn, &end, err);
        pg_end_release(&end);
        if (st == EF_OK)
            st = load_known(group, conn, &missing, err);
    }
    return st;
}
