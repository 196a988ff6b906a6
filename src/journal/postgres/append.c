/*
 * append.c - appending to the PostgreSQL journal.
 *
 * Appends of several threads share a transaction: whoever finds nobody leading leads, with all that
 * has queued up. The transaction goes in three trips: lock the streams and see which ids are known;
 * write ids and heads, get the sequencer's lock and see where the log ends; write the events. What
 * is refused is decided in between, here, so that one append's refusal costs the others nothing.
 *
 * A connection that is lost in the commit leaves it open what became of it. The ids tell: whoever
 * has the sequencer's lock after it knows that it has ended, one way or the other.
 */
#include "store.h"

#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

struct pg_append {
    const ef__arrival *events;
    size_t count;
    ef_place *out;
    ef_error *err;
    ef_status status;
    bool done;
    pg_append *next;
};

typedef struct pair {
    ef_str a, b;
} pair;

typedef struct head {
    int64_t id, seq;
    bool moved;
} head;

/* What is known of an id: an event of this group, or one that is there. */
typedef struct known {
    int32_t accepted; /* -1: none */
    int64_t stream, seq;
    bool there;
    bool found; /* … and `event` is it */
    ef_event event;
} known;

typedef struct item {
    const ef__arrival *arrival;
    ef_place *place;
    int32_t stream, id, type; /* numbers among the distinct ones; id -1: it was made for it */
    int32_t accepted;         /* of which it is, or whose duplicate; -1: one that was there */
} item;

typedef struct accepted {
    const item *item;
    int64_t stream, seq, position;
} accepted;

typedef struct group {
    pg_store *store;
    pg_append *jobs;
    size_t event_count;
    ef__arena arena; /* of one try */
    item *items;
    pair *streams, *ids, *types;
    size_t stream_count, id_count, type_count;
    head *heads;
    known *knowns;
    bool *types_known, *types_new;
    accepted *accepted;
    size_t accepted_count;
    PGresult *stored; /* what `knowns` point into */
    ef__buf scratch;
    bool nothing; /* nothing was left to be written */
} group;

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

static ef_status collect(group *g, ef_error *err)
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
    if (st == EF_OK && (!g->heads || !g->knowns || !g->types_known || !g->types_new))
        st = ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < g->id_count; i++)
        g->knowns[i].accepted = -1;
    return st;
}

/* --- the first trip: streams, ids, types ------------------------------------------------------ */

static ef_status send_pairs(ef__pg_conn *conn, int which, const pair *pairs, size_t count,
                            ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array a, b;
    ef_status st;

    ef__pg_array_init(&a, EF__PG_TEXT);
    ef__pg_array_init(&b, EF__PG_TEXT);
    for (size_t i = 0; i < count; i++) {
        ef__pg_array_str(&a, pairs[i].a);
        ef__pg_array_str(&b, pairs[i].b);
    }
    ef__pg_add_array(&params, &a);
    ef__pg_add_array(&params, &b);
    st = ef__pg_send(conn, which, &params, err);
    ef__pg_array_release(&a);
    ef__pg_array_release(&b);
    return st;
}

static ef_status send_types(ef__pg_conn *conn, int which, const group *g, const bool *only,
                            ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names;
    ef_status st = EF_OK;

    ef__pg_array_init(&names, EF__PG_TEXT);
    for (size_t i = 0; i < g->type_count; i++)
        if (!only || only[i])
            ef__pg_array_str(&names, g->types[i].b);
    ef__pg_add_array(&params, &names);
    if (names.count || !only)
        st = ef__pg_send(conn, which, &params, err);
    ef__pg_array_release(&names);
    return st;
}

static ef_status take_heads(group *g, ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_take(conn, &result, err);

    if (st == EF_OK && (size_t)PQntuples(result) != g->stream_count)
        st = ef__pg_try_again(conn, "a stream came and went", err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        head *h = &g->heads[ef__pg_int(result, i, 0) - 1];
        h->id = ef__pg_int(result, i, 1);
        h->seq = ef__pg_int(result, i, 2);
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

static ef_status look(group *g, ef__pg_conn *conn, ef_error *err)
{
    size_t there = 0;
    bool missing = false;
    pg_end end;
    ef_status st = send_pairs(conn, PJ_STREAM_MAKE, g->streams, g->stream_count, err);

    if (st == EF_OK)
        st = send_pairs(conn, PJ_STREAM_LOCK, g->streams, g->stream_count, err);
    if (st == EF_OK)
        st = send_pairs(conn, PJ_ID_FIND, g->ids, g->id_count, err);
    if (st == EF_OK)
        st = send_types(conn, PJ_TYPE_KNOWN, g, NULL, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, NULL, err);
    if (st == EF_OK)
        st = take_heads(g, conn, err);
    if (st == EF_OK)
        st = take_ids(g, conn, &there, err);
    if (st == EF_OK)
        st = take_types(g, conn, err);
    if (st == EF_OK && there)
        st = load_known(g, conn, &missing, err);
    if (st == EF_OK && missing) { /* an application's, committed and waiting for its position */
        st = pg_sequence_begin(g->store, conn, &end, err);
        pg_end_release(&end);
        if (st == EF_OK)
            st = load_known(g, conn, &missing, err);
    }
    return st;
}

/* --- deciding --------------------------------------------------------------------------------- */

static ef_status id_conflict(const item *it, int64_t position, ef_error *err)
{
    ef_str id = it->arrival->event.id;

    if (position == 0)
        return ef_fail(err, EF_ID_CONFLICT, "id \"%.*s\" is given to two events", EF_STR_ARG(id));
    return ef_fail(err, EF_ID_CONFLICT,
                   "id \"%.*s\" belongs to position %" PRId64 ", which has other content",
                   EF_STR_ARG(id), position);
}

/* Two events of one append, or of two that share the transaction. */
static bool same_arrivals(const ef__arrival *a, const ef__arrival *b)
{
    const ef_new_event *e = &b->event;
    ef_event stored = {.tenant = e->tenant,
                       .stream = e->stream,
                       .id = e->id,
                       .type = e->type,
                       .schema = e->schema,
                       .time_us = e->time_us,
                       .data = e->data,
                       .meta = e->meta};

    return ef__event_same(a, &stored);
}

static ef_status decide_known(group *g, item *it, const known *k, ef_error *err)
{
    if (k->accepted >= 0) {
        it->accepted = k->accepted;
        if (!same_arrivals(it->arrival, g->accepted[k->accepted].item->arrival))
            return id_conflict(it, 0, err);
    } else {
        it->accepted = -1;
        if (!ef__event_same(it->arrival, &k->event))
            return id_conflict(it, k->event.position, err);
        it->place->seq = k->event.seq;
        it->place->position = k->event.position;
    }
    it->place->duplicate = true;
    return EF_OK;
}

static ef_status decide_item(group *g, item *it, ef_error *err)
{
    const ef_new_event *event = &it->arrival->event;
    known *k = it->id >= 0 ? &g->knowns[it->id] : NULL;
    head *h = &g->heads[it->stream];
    ef_status st;

    if (k && (k->accepted >= 0 || k->found))
        return decide_known(g, it, k, err);
    st = ef__seq_check(event, h->seq, err);
    if (st != EF_OK)
        return st;
    if (!g->types_known[it->type] && g->store->base.options.types_strict)
        return ef_fail(err, EF_UNKNOWN_TYPE, "type \"%.*s\" is not registered",
                       EF_STR_ARG(event->type));
    it->accepted = (int32_t)g->accepted_count;
    g->accepted[g->accepted_count++] = (accepted){.item = it, .stream = h->id, .seq = ++h->seq};
    if (k)
        k->accepted = it->accepted;
    it->place->duplicate = false;
    return EF_OK;
}

/* Take back what was accepted of an append that is refused. */
static void undo(group *g, size_t accepted_before)
{
    while (g->accepted_count > accepted_before) {
        const item *it = g->accepted[--g->accepted_count].item;
        g->heads[it->stream].seq--;
        if (it->id >= 0)
            g->knowns[it->id].accepted = -1;
    }
}

static void decide(group *g)
{
    size_t n = 0;

    for (pg_append *job = g->jobs; job; job = job->next) {
        size_t before = g->accepted_count;
        job->status = EF_OK;
        for (size_t i = 0; i < job->count; i++)
            if (job->status == EF_OK)
                job->status = decide_item(g, &g->items[n + i], job->err);
        if (job->status != EF_OK)
            undo(g, before);
        n += job->count;
    }
    for (size_t i = 0; i < g->accepted_count; i++) {
        const item *it = g->accepted[i].item;
        g->heads[it->stream].moved = true;
        g->types_new[it->type] = !g->types_known[it->type];
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

static ef_status send_ids(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, ids, streams, seqs;
    ef_status st;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&ids, EF__PG_TEXT);
    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->accepted_count; i++) {
        const ef_new_event *event = &g->accepted[i].item->arrival->event;
        ef__pg_array_str(&tenants, event->tenant);
        ef__pg_array_str(&ids, event->id);
        ef__pg_array_int(&streams, g->accepted[i].stream);
        ef__pg_array_int(&seqs, g->accepted[i].seq);
    }
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &ids);
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    st = ef__pg_send(conn, PJ_ID_INSERT, &params, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&ids);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

static ef_status send_heads(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    ef_status st;

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->stream_count; i++)
        if (g->heads[i].moved) {
            ef__pg_array_int(&streams, g->heads[i].id);
            ef__pg_array_int(&seqs, g->heads[i].seq);
        }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    st = ef__pg_send(conn, PJ_STREAM_ADVANCE, &params, err);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

static ef_status send_events(group *g, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    bool queue = !g->store->base.options.outbox_off;
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    for (size_t i = 0; st == EF_OK && i < g->accepted_count; i++) {
        const ef_new_event *from = &g->accepted[i].item->arrival->event;
        ef_event event = {.tenant = from->tenant,
                          .stream = from->stream,
                          .seq = g->accepted[i].seq,
                          .id = from->id,
                          .type = from->type,
                          .schema = from->schema,
                          .time_us = from->time_us,
                          .data = from->data,
                          .meta = from->meta};
        st = pg_rows_add(&rows, end, g->accepted[i].stream, &event, queue, err);
        g->accepted[i].position = event.position;
    }
    if (st == EF_OK)
        st = pg_rows_send(&rows, end, conn, err);
    pg_rows_release(&rows);
    return st;
}

static ef_status append_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    group *g = context;
    pg_end end = {0};
    ef_status st = collect(g, err);

    if (st == EF_OK)
        st = look(g, conn, err);
    if (st != EF_OK)
        return st;
    decide(g);
    if (g->accepted_count == 0) {
        g->nothing = true;
        return EF_NOT_FOUND; /* rolled back: refused appends leave nothing behind */
    }
    st = send_types(conn, PJ_TYPE_INSERT, g, g->types_new, err);
    if (st == EF_OK)
        st = send_ids(g, conn, err);
    if (st == EF_OK)
        st = send_heads(g, conn, err);
    if (st == EF_OK)
        st = pg_sequence_begin(g->store, conn, &end, err);
    if (st == EF_EXISTS) /* somebody has just committed one of the ids */
        st = ef__pg_try_again(conn, "an id was written at the same time", err);
    if (st == EF_OK)
        st = send_events(g, conn, &end, err);
    pg_end_release(&end);
    return st;
}

/* --- what became of it ------------------------------------------------------------------------ */

/* Is it there? Asked under the sequencer's lock, so that the lost transaction has ended. */
static ef_status resolve_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    group *g = context;
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    PGresult *result = NULL;
    ef_status st;

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->accepted_count; i++) {
        ef__pg_array_int(&streams, g->accepted[i].stream);
        ef__pg_array_int(&seqs, g->accepted[i].seq);
    }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    st = ef__pg_send(conn, PJ_SEQUENCER_LOCK, NULL, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_EVENT_PLACES, &params, &result, err);
    g->nothing = st == EF_OK && PQntuples(result) == 0;
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        accepted *a = &g->accepted[ef__pg_int(result, i, 0) - 1];
        a->position = ef__pg_int(result, i, 1);
        /* Another's event is at its place: ours was not written. */
        if (!ef_str_equal(ef__pg_str(result, i, 2), a->item->arrival->event.id))
            g->nothing = true;
    }
    PQclear(result);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

static ef_status write_group(group *g, ef_error *err)
{
    ef_status st, looked;

    for (int tries = 0;; tries++) {
        st = ef__pg_transaction(g->store->pool, EF__PG_WRITE, append_work, g, err);
        if (st == EF_NOT_FOUND && g->nothing)
            return EF_OK;
        if (st != EF_UNSURE || tries == 3)
            return st;
        looked = ef__pg_transaction(g->store->pool, EF__PG_WRITE, resolve_work, g, NULL);
        if (looked != EF_OK && looked != EF_UNSURE)
            return st;
        if (looked == EF_OK && !g->nothing)
            return EF_OK;
    }
}

static void answer(group *g, ef_status st, const ef_error *err)
{
    size_t n = 0;

    for (pg_append *job = g->jobs; job; job = job->next) {
        for (size_t i = 0; st == EF_OK && job->status == EF_OK && i < job->count; i++) {
            const item *it = &g->items[n + i];
            if (it->accepted < 0)
                continue;
            it->place->seq = g->accepted[it->accepted].seq;
            it->place->position = g->accepted[it->accepted].position;
        }
        n += job->count;
        /* What was refused was refused, whatever became of the others. */
        if (st != EF_OK && (job->status == EF_OK || st == EF_NO_MEMORY)) {
            job->status = st;
            if (job->err)
                *job->err = *err;
        }
    }
    if (st == EF_OK && g->accepted_count) {
        atomic_fetch_add(&g->store->commits, 1);
        atomic_fetch_add(&g->store->appended, (int64_t)g->accepted_count);
        pg_saw(g->store, g->accepted[g->accepted_count - 1].position);
    }
}

static void lead(pg_store *store, pg_append *jobs, size_t event_count)
{
    group g = {.store = store,
               .jobs = jobs,
               .event_count = event_count,
               .arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES),
               .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    ef_error err = EF_ERROR_INIT;

    for (pg_append *job = jobs; job; job = job->next)
        job->status = EF_OK;
    answer(&g, write_group(&g, &err), &err);
    PQclear(g.stored);
    ef__arena_release(&g.arena);
    ef__buf_release(&g.scratch);
}

/* Take appends from the queue, up to what fits into one transaction. The lock is held. */
static pg_append *take_queue(pg_store *store, size_t *out_events)
{
    pg_append *jobs = store->first, *last = jobs;
    size_t events = jobs->count;

    while (last->next && events + last->next->count <= EF_LIMIT_GROUP_EVENTS) {
        last = last->next;
        events += last->count;
    }
    store->first = last->next;
    if (!store->first)
        store->last = &store->first;
    last->next = NULL;
    *out_events = events;
    return jobs;
}

static void lead_one(pg_store *store)
{
    size_t events;
    pg_append *jobs = take_queue(store, &events), *next;

    store->leading = true;
    (void)pthread_mutex_unlock(&store->lock);
    lead(store, jobs, events);
    (void)pthread_mutex_lock(&store->lock);
    store->leading = false;
    for (pg_append *job = jobs; job; job = next) {
        next = job->next; /* its owner may be gone as soon as it is done */
        job->done = true;
    }
    (void)pthread_cond_broadcast(&store->changed);
}

ef_status pg_append_events(ef_journal *journal, const ef__arrival *events, size_t count,
                           ef_place *out, ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    pg_append job = {.events = events, .count = count, .out = out, .err = err};

    if (count == 0)
        return EF_OK;
    (void)pthread_mutex_lock(&store->lock);
    *store->last = &job;
    store->last = &job.next;
    while (!job.done) {
        if (!store->leading)
            lead_one(store);
        else
            (void)pthread_cond_wait(&store->changed, &store->lock);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return job.status;
}
