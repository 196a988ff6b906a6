/*
 * lane.c - lanes of the outbox on PostgreSQL. Lanes are never removed and keep their kind and id,
 * so the store caches them.
 */
#include "store.h"

#include <stdlib.h>

static bool find_cached(pg_store *store, ef_str name, pg_lane *out)
{
    bool found = false;

    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = 0; !found && i < store->lane_count; i++) {
        const pg_known_lane *known = &store->lanes[i];
        found = ef_str_equal((ef_str){known->name, known->length}, name);
        if (found)
            *out = known->lane;
    }
    (void)pthread_mutex_unlock(&store->lock);
    return found;
}

/* Without memory for it, the lane is looked up again next time. */
static void cache_lane(pg_store *store, ef_str name, pg_lane lane)
{
    char *copy = malloc(name.len + 1);
    pg_known_lane *lanes;

    (void)pthread_mutex_lock(&store->lock);
    if (store->lane_count == store->lane_cap) {
        size_t cap = store->lane_cap ? store->lane_cap * 2 : 8;
        lanes = realloc(store->lanes, cap * sizeof *lanes);
        if (lanes) {
            store->lanes = lanes;
            store->lane_cap = cap;
        }
    }
    if (copy && store->lane_count < store->lane_cap) {
        memcpy(copy, name.ptr, name.len);
        store->lanes[store->lane_count++] = (pg_known_lane){lane, copy, name.len};
        copy = NULL;
    }
    (void)pthread_mutex_unlock(&store->lock);
    free(copy);
}

static ef_status send_name(ef__pg_conn *conn, int which, ef_str name, PGresult **out, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array names;
    ef_status st;

    ef__pg_array_init(&names, EF__PG_TEXT);
    ef__pg_array_str(&names, name);
    ef__pg_add_array(&params, &names);
    st = ef__pg_query(conn, which, &params, out, err);
    ef__pg_array_release(&names);
    return st;
}

ef_status pg_lane_find(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st;

    *out = (pg_lane){0};
    if (find_cached(store, name, out))
        return EF_OK;
    st = send_name(conn, PJ_LANE_BY_NAME, name, &result, err);
    if (st == EF_OK && PQntuples(result)) {
        *out = (pg_lane){(int32_t)ef__pg_int(result, 0, 1), (ef_lane_kind)ef__pg_int(result, 0, 2)};
        cache_lane(store, name, *out);
    }
    PQclear(result);
    return st;
}

ef_status pg_lane_get(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out, ef_error *err)
{
    ef_status st = pg_lane_find(store, conn, name, out, err);

    if (st == EF_OK && out->id == 0)
        st = ef__refuse_unknown_lane(name, err);
    return st;
}

/* A new lane is not cached: its transaction may still be rolled back. */
ef_status pg_lane_find_or_create(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                                 ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = EF_OK;

    if (find_cached(store, name, out))
        return EF_OK;
    st = send_name(conn, PJ_LANE_MAKE, name, NULL, err);
    if (st == EF_OK)
        st = send_name(conn, PJ_LANE_BY_NAME, name, &result, err);
    if (st == EF_OK)
        *out = (pg_lane){(int32_t)ef__pg_int(result, 0, 1), (ef_lane_kind)ef__pg_int(result, 0, 2)};
    PQclear(result);
    return st;
}

typedef struct lane_job {
    const ef_lane *lane, *expected;
} lane_job;

static ef_status check_expected(ef__pg_conn *conn, const ef_lane *expected, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *found = NULL;
    ef_status st;

    ef__pg_add_str(&params, expected->name);
    ef__pg_add_bool(&params, expected->enabled);
    ef__pg_add_str(&params, expected->types);
    ef__pg_add_str(&params, expected->settings);
    ef__pg_add_int(&params, expected->retain_us);
    st = ef__pg_query(conn, PJ_LANE_MATCHES, &params, &found, err);
    if (st == EF_OK && PQntuples(found) == 0)
        st = ef__lane_changed(expected->name, err);
    PQclear(found);
    return st;
}

static ef_status set_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    const lane_job *job = context;
    const ef_lane *lane = job->lane;
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st = job->expected ? check_expected(conn, job->expected, err) : EF_OK;

    if (st != EF_OK)
        return st;
    ef__pg_add_str(&params, lane->name);
    ef__pg_add_int(&params, lane->kind);
    ef__pg_add_bool(&params, lane->enabled);
    ef__pg_add_str(&params, lane->types);
    ef__pg_add_str(&params, lane->settings);
    ef__pg_add_int(&params, lane->retain_us);
    st = ef__pg_query(conn, PJ_LANE_PUT, &params, &result, err);
    /* Its rows are claimed under leases of its kind, which another kind would not have. */
    if (st == EF_OK && PQntuples(result) == 0)
        st = ef__refuse_lane_kind(lane->name, err);
    PQclear(result);
    return st;
}

ef_status pg_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                      ef_error *err)
{
    lane_job job = {lane, expected};

    return pg_write_idempotent(pg_store_of(journal), set_work, &job, err);
}

ef_status pg_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    PGresult *result = NULL;
    ef_lane *items = NULL;
    ef_status st = ef__pg_read(pg_store_of(journal)->pool, PJ_LANE_IN_ORDER, NULL, &result, err);

    if (st == EF_OK && !(items = pg_items_alloc(arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        items[i] = (ef_lane){.name = pg_copy_text(result, i, 0, arena),
                             .kind = (ef_lane_kind)ef__pg_int(result, i, 1),
                             .enabled = ef__pg_bool(result, i, 2),
                             .types = pg_copy_text(result, i, 3, arena),
                             .settings = pg_copy_text(result, i, 4, arena),
                             .retain_us = ef__pg_int(result, i, 5),
                             .progress = pg_copy_text(result, i, 6, arena)};
        if (!items[i].name.ptr || !items[i].types.ptr || !items[i].settings.ptr ||
            !items[i].progress.ptr)
            st = ef__no_memory(err);
        out->count++;
    }
    out->items = items;
    PQclear(result);
    return st;
}
