/*
 * append_look.c - see append.h: what an append is about, and what the store has of it.
 */
#include "append.h"

#include <stdlib.h>

/* --- numbering -------------------------------------------------------------------------------- */

typedef struct numbered {
    pair pair;
    size_t index;
} numbered;

static int compare_str(ef_str a, ef_str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_numbered(const void *x, const void *y)
{
    const numbered *a = x, *b = y;
    int order = compare_str(a->pair.a, b->pair.a);

    return order ? order : compare_str(a->pair.b, b->pair.b);
}

/* The distinct ones of `pairs`, sorted by bytes, and which of them each is. */
static ef_status number(ef__arena *arena, numbered *all, size_t count, int32_t *out_numbers,
                        pair **out, size_t *out_count, ef_error *err)
{
    *out = ef__arena_zalloc(arena, count + 1, sizeof **out);
    *out_count = 0;
    if (!*out)
        return ef__room_full(err);
    if (count)
        qsort(all, count, sizeof *all, compare_numbered);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_numbered(&all[i - 1], &all[i]) != 0)
            (*out)[(*out_count)++] = all[i].pair;
        out_numbers[all[i].index] = (int32_t)(*out_count - 1);
    }
    return EF_OK;
}

/* What a pair is made of. */
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

static ef_status number_items(group *g, pair_of *of, size_t offset, pair **out, size_t *out_count,
                              ef_error *err)
{
    numbered *all = ef__arena_zalloc(&g->arena, g->event_count + 1, sizeof *all);
    int32_t *numbers = ef__arena_zalloc(&g->arena, g->event_count + 1, sizeof *numbers);
    size_t count = 0;
    ef_status st;

    if (!all || !numbers)
        return ef__room_full(err);
    for (size_t i = 0; i < g->event_count; i++) {
        numbers[i] = -1;
        if (of(&g->items[i], &all[count].pair))
            all[count++].index = i;
    }
    st = number(&g->arena, all, count, numbers, out, out_count, err);
    for (size_t i = 0; st == EF_OK && i < g->event_count; i++)
        memcpy((char *)&g->items[i] + offset, &numbers[i], sizeof numbers[i]);
    return st;
}

ef_status pg_group_collect(group *g, ef_error *err)
{
    size_t n = 0;
    ef_status st;

    PQclear(g->stored);
    g->stored = NULL;
    ef__arena_reset(&g->arena);
    g->nothing = false;
    g->accepted_count = 0;
    g->items = ef__arena_zalloc(&g->arena, g->event_count + 1, sizeof *g->items);
    g->accepted = ef__arena_zalloc(&g->arena, g->event_count + 1, sizeof *g->accepted);
    if (!g->items || !g->accepted)
        return ef__room_full(err);
    for (pg_append *job = g->jobs; job; job = job->next)
        for (size_t i = 0; i < job->count; i++)
            g->items[n++] = (item){.arrival = &job->events[i], .place = &job->out[i]};
    st = number_items(g, stream_pair, offsetof(item, stream), &g->streams, &g->stream_count, err);
    if (st == EF_OK)
        st = number_items(g, id_pair, offsetof(item, id), &g->ids, &g->id_count, err);
    if (st == EF_OK)
        st = number_items(g, type_pair, offsetof(item, type), &g->types, &g->type_count, err);
    g->heads = ef__arena_zalloc(&g->arena, g->stream_count + 1, sizeof *g->heads);
    g->knowns = ef__arena_zalloc(&g->arena, g->id_count + 1, sizeof *g->knowns);
    g->types_known = ef__arena_zalloc(&g->arena, g->type_count + 1, sizeof *g->types_known);
    g->types_new = ef__arena_zalloc(&g->arena, g->type_count + 1, sizeof *g->types_new);
    g->type_tenants = ef__arena_zalloc(&g->arena, g->type_count + 1, sizeof *g->type_tenants);
    ef__pair_map_reset(&g->types_wanted);
    ef__pair_map_reset(&g->types_created);
    if (st == EF_OK &&
        (!g->heads || !g->knowns || !g->types_known || !g->types_new || !g->type_tenants))
        st = ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < g->id_count; i++)
        g->knowns[i].accepted = -1;
    for (size_t i = 0; st == EF_OK && i < g->event_count; i++)
        g->heads[g->items[i].stream].more++;
    return st;
}

/* --- the first trip: streams, ids, types ------------------------------------------------------ */

static ef_status send_streams(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, names, more;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_init(&more, EF__PG_INT);
    for (size_t i = 0; i < g->stream_count; i++) {
        ef__pg_array_str(&tenants, g->streams[i].a);
        ef__pg_array_str(&names, g->streams[i].b);
        ef__pg_array_int(&more, g->heads[i].more);
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

static ef_status send_id_find(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, ids;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&ids, EF__PG_TEXT);
    for (size_t i = 0; i < g->id_count; i++) {
        ef__pg_array_str(&tenants, g->ids[i].a);
        ef__pg_array_str(&ids, g->ids[i].b);
    }
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &ids);
    st = ef__pg_send(conn, PJ_ID_FIND, &params, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&ids);
    return st;
}

ef_status pg_group_send_new_types(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names, tenants;
    ef_status st = EF_OK;

    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_init(&tenants, EF__PG_TEXT);
    for (size_t i = 0; i < g->type_count; i++)
        if (g->types_new[i]) {
            ef__pg_array_str(&names, g->types[i].b);
            ef__pg_array_str(&tenants, g->type_tenants[i]);
        }
    ef__pg_add_array(&params, &names);
    ef__pg_add_array(&params, &tenants);
    if (names.count)
        st = ef__pg_send(conn, PJ_TYPE_INSERT, &params, err);
    ef__pg_array_release(&names);
    ef__pg_array_release(&tenants);
    return st;
}

/* `more` (may be NULL) is bound behind the names. */
static ef_status send_types(const group *g, ef__pg_conn *conn, int which, const bool *only,
                            const int64_t *more, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names;
    ef_status st = EF_OK;

    ef__pg_array_init(&names, EF__PG_TEXT);
    for (size_t i = 0; i < g->type_count; i++)
        if (!only || only[i])
            ef__pg_array_str(&names, g->types[i].b);
    ef__pg_add_array(&params, &names);
    if (more)
        ef__pg_add_int(&params, *more);
    if (names.count || !only)
        st = ef__pg_send(conn, which, &params, err);
    ef__pg_array_release(&names);
    return st;
}

ef_status pg_group_send_types(const group *g, ef__pg_conn *conn, int which, const bool *only,
                              ef_error *err)
{
    return send_types(g, conn, which, only, NULL, err);
}

static ef_status take_heads(group *g, ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_take(conn, &result, err);

    if (st == EF_OK && (size_t)PQntuples(result) != g->stream_count)
        st = ef_fail(err, EF_IO, "%zu streams were asked for and %d came back", g->stream_count,
                     PQntuples(result));
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        head *h = &g->heads[i];
        h->id = ef__pg_int(result, i, 0);
        h->written = ef__pg_int(result, i, 1);
        h->seq = h->written - h->more;
    }
    PQclear(result);
    return st;
}

static ef_status take_ids(group *g, ef__pg_conn *conn, size_t *out_there, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_take(conn, &result, err);

    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        known *k = &g->knowns[ef__pg_int(result, i, 0) - 1];
        k->there = true;
        k->stream = ef__pg_int(result, i, 1);
        k->seq = ef__pg_int(result, i, 2);
        (*out_there)++;
    }
    PQclear(result);
    return st;
}

static ef_status take_types(group *g, ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_take(conn, &result, err);

    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_str name = ef__pg_str(result, i, 0);
        size_t low = 0, high = g->type_count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (compare_str(g->types[middle].b, name) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < g->type_count && ef_str_equal(g->types[low].b, name))
            g->types_known[low] = true;
    }
    PQclear(result);
    return st;
}

/* The events that have ids of this group. *out_missing: one of them has no position yet. */
static ef_status load_known(group *g, ef__pg_conn *conn, bool *out_missing, ef_error *err)
{
    size_t *which = ef__arena_zalloc(&g->arena, g->id_count + 1, sizeof *which), count = 0;
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    ef_status st = which ? EF_OK : ef__room_full(err);

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; st == EF_OK && i < g->id_count; i++)
        if (g->knowns[i].there) {
            ef__pg_array_int(&streams, g->knowns[i].stream);
            ef__pg_array_int(&seqs, g->knowns[i].seq);
            which[count++] = i;
        }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    PQclear(g->stored);
    g->stored = NULL;
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_EVENT_BY_KEY, &params, &g->stored, err);
    for (int i = 0; st == EF_OK && i < PQntuples(g->stored); i++) {
        known *k = &g->knowns[which[ef__pg_int(g->stored, i, PG_EVENT_COLUMNS) - 1]];
        st = pg_event_look(g->stored, i, &g->scratch, &k->event, NULL, err);
        k->found = st == EF_OK;
    }
    *out_missing = st == EF_OK && (size_t)PQntuples(g->stored) < count;
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

/* Ids that were given may be somebody's whom we would have to wait for: the sequencer comes later.
 */
static ef_status send_look(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_streams(g, conn, err);

    if (st == EF_OK)
        st = pg_group_send_types(g, conn, PJ_TYPE_KNOWN, NULL, err);
    if (st == EF_OK && g->id_count)
        return send_id_find(g, conn, err);
    if (st == EF_OK)
        st = send_types(g, conn, PJ_SEQUENCER_LOCK_IF, NULL, &g->store->base.options.busy_ms, err);
    return st == EF_OK ? pg_sequence_ask(g->store, conn, err) : st;
}

static ef_status take_sequencer(group *g, ef__pg_conn *conn, ef_error *err)
{
    PGresult *locked = NULL;
    ef_status st = ef__pg_take(conn, &locked, err);

    g->sequenced = st == EF_OK && PQntuples(locked) == 1;
    PQclear(locked);
    if (st != EF_OK)
        return st;
    return g->sequenced ? pg_sequence_take(g->store, conn, &g->end, err)
                        : ef__pg_take(conn, NULL, err);
}

static ef_status take_counts(group *g, const PGresult *result, ef_error *err)
{
    for (int i = 0; i < PQntuples(result); i++) {
        bool is_new;
        int64_t *created = &g->types_all;
        if (!ef__pg_null(result, i, 0))
            created =
                ef__pair_map_at(&g->types_created, ef__pg_str(result, i, 0), (ef_str){0}, &is_new);
        if (!created)
            return ef__room_full(err);
        *created = ef__pg_int(result, i, 1);
    }
    return EF_OK;
}

/* How many types the tenants of new types have created. A new type is rare: a trip of its own. */
static ef_status count_types(group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants;
    PGresult *result = NULL;
    ef_status st = EF_OK;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    for (size_t i = 0; i < g->event_count; i++)
        if (!g->types_known[g->items[i].type])
            ef__pg_array_str(&tenants, g->items[i].arrival->event.tenant);
    ef__pg_add_array(&params, &tenants);
    if (tenants.count)
        st = ef__pg_query(conn, PJ_TYPE_COUNTS, &params, &result, err);
    if (st == EF_OK && result)
        st = take_counts(g, result, err);
    PQclear(result);
    ef__pg_array_release(&tenants);
    return st;
}

ef_status pg_group_look(group *g, ef__pg_conn *conn, ef_error *err)
{
    size_t there = 0;
    bool missing = false;
    ef_status st = send_look(g, conn, err);

    if (st == EF_OK)
        st = take_heads(g, conn, err);
    if (st == EF_OK)
        st = take_types(g, conn, err);
    if (st == EF_OK && g->id_count)
        st = take_ids(g, conn, &there, err);
    else if (st == EF_OK)
        st = take_sequencer(g, conn, err);
    if (st == EF_OK)
        st = count_types(g, conn, err);
    if (st == EF_OK && there)
        st = load_known(g, conn, &missing, err);
    if (st == EF_OK && missing) { /* an application's, committed and waiting for its position */
        pg_end end;
        st = pg_sequence_begin(g->store, conn, &end, err);
        pg_end_release(&end);
        if (st == EF_OK)
            st = load_known(g, conn, &missing, err);
    }
    return st;
}
