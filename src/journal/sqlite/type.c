#include "type.h"

#include "../../base/same.h"

#include <stdlib.h>

struct type_job {
    sq_job base;
    const ef_type *type;
};

static ef_status add_type(ef__sq_conn *conn, ef_str name, ef_error *err)
{
    return sq_run_type_insert(conn, name, EF_INTENT_PROJECTION_AND_REPLAY, false, NULL, err);
}

/* The canonical type of an alias is not an alias itself, so one step resolves it. */
static ef_status check_alias(sq_store *store, const ef_type *type, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    bool canonical_is_alias;
    int64_t led_to = 0;
    ef_status st = sq_one_type_aliases_to(conn, type->name, &led_to, NULL, err);

    if (st != EF_OK)
        return st;
    if (led_to)
        return ef__refuse_alias(type->name, err);
    pthread_mutex_lock(&store->state_lock);
    const sq_type *canonical = sq_state_type(&store->state, type->alias_of);
    canonical_is_alias = canonical && &store->state.types[canonical->canonical] != canonical;
    if (!canonical)
        st = EF_NOT_FOUND;
    pthread_mutex_unlock(&store->state_lock);
    if (canonical_is_alias)
        return ef__refuse_alias_of_alias(type->name, type->alias_of, err);
    return st == EF_NOT_FOUND ? add_type(conn, type->alias_of, err) : EF_OK;
}

static ef_status run_set(sq_store *store, sq_job *base, ef_error *err)
{
    const ef_type *type = ((struct type_job *)base)->type;
    ef__sq_conn *conn = &store->writer.conn;
    bool known;
    ef_status st = EF_OK;

    pthread_mutex_lock(&store->state_lock);
    known = sq_state_type(&store->state, type->name) != NULL;
    pthread_mutex_unlock(&store->state_lock);
    if (type->alias_of.len)
        st = check_alias(store, type, err);
    if (st == EF_OK && !known)
        st = add_type(conn, type->name, err);
    if (st == EF_OK)
        st = sq_run_type_update(conn, type, err);
    if (st == EF_OK)
        st = ef__sq_run(conn, SQ_STATE_TYPES_CHANGED, err);
    if (st == EF_OK) {
        /* Read again in the next transaction: this one may still be rolled back. */
        pthread_mutex_lock(&store->state_lock);
        store->state.loaded = false;
        pthread_mutex_unlock(&store->state_lock);
    }
    return st;
}

ef_status sq_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    struct type_job job = {.base = {.run = run_set, .queued.weight = 1}, .type = type};

    return sq_submit(sq_store_of(journal), &job.base, err);
}

static int by_name(const void *a, const void *b)
{
    return ef__str_compare(((const ef_type *)a)->name, ((const ef_type *)b)->name);
}

/* Adds the requested types. Called under the state lock. */
static ef_status list_types(sq_state *state, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    const sq_type *only = query->name.len ? sq_state_type(state, query->name) : NULL;
    size_t first = only ? (size_t)(only - state->types) : 0;
    size_t end = only ? first + 1 : query->name.len ? 0 : state->type_count;
    size_t most = query->not_folded ? state->types_not_folded : end - first;
    ef_type *items = ef__arena_zalloc(arena, most + 1, sizeof *items);

    out->items = items;
    for (size_t i = first; items && i < end && out->count < most; i++) {
        const sq_type *t = &state->types[i], *canonical = &state->types[t->canonical];
        if (query->not_folded && t->intent == EF_INTENT_PROJECTION_AND_REPLAY)
            continue;
        items[out->count] = (ef_type){
            .name = ef__arena_copy(arena, t->name),
            .intent = t->intent,
            .publish = t->publish,
            .alias_of = canonical == t ? (ef_str){"", 0} : ef__arena_copy(arena, canonical->name)};
        if (!items[out->count].name.ptr || !items[out->count].alias_of.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    return items ? EF_OK : ef__no_memory(err);
}

ef_status sq_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                     ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->state_lock);
    st = list_types(&store->state, query, out, err);
    pthread_mutex_unlock(&store->state_lock);
    sq_read_end(store, reader);
    if (st == EF_OK)
        qsort((ef_type *)out->items, out->count, sizeof *out->items, by_name);
    return st;
}
