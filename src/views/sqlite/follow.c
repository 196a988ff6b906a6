/*
 * follow.c - followed tenants: beginning, recording what a commit changed, reading the record.
 */
#include "store.h"

#include "../follow.h"

#include <stdlib.h>

/* --- rows ------------------------------------------------------------------------------------- */

static ef_status bind_tenant(ef__sq_conn *conn, int which, int64_t generation, ef_str tenant,
                             sqlite3_stmt **out, ef_error *err)
{
    ef_status st = ef__sq_stmt(conn, which, out, err);

    if (st == EF_OK) {
        sqlite3_bind_int64(*out, 1, generation);
        ef__sq_bind_str(*out, 2, tenant);
    }
    return st;
}

static ef__follow_row read_follow(sqlite3_stmt *stmt)
{
    return (ef__follow_row){.until_us = sqlite3_column_int64(stmt, 0),
                            .low = sqlite3_column_int64(stmt, 1),
                            .last = sqlite3_column_int64(stmt, 2),
                            .kept = sqlite3_column_int64(stmt, 3)};
}

static ef_status follow_get(ef__sq_conn *conn, int64_t generation, ef_str tenant,
                            ef__follow_row *out, bool *out_found, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = bind_tenant(conn, VQ_FOLLOW_GET, generation, tenant, &stmt, err);

    *out_found = false;
    if (st == EF_OK)
        st = ef__sq_row(conn, stmt, out_found, err);
    if (st == EF_OK && *out_found) {
        *out = read_follow(stmt);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status follow_put(ef__sq_conn *conn, int64_t generation, ef_str tenant,
                            const ef__follow_row *follow, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = bind_tenant(conn, VQ_FOLLOW_PUT, generation, tenant, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 3, follow->until_us);
    sqlite3_bind_int64(stmt, 4, follow->low);
    sqlite3_bind_int64(stmt, 5, follow->last);
    sqlite3_bind_int64(stmt, 6, follow->kept);
    return ef__sq_done(conn, stmt, err);
}

/* The number that a statement answers; *out stays as it is where there is none. */
static ef_status get_number(ef__sq_conn *conn, sqlite3_stmt *stmt, int64_t *out, ef_error *err)
{
    bool row;
    ef_status st = ef__sq_row(conn, stmt, &row, err);

    if (st == EF_OK && row) {
        *out = sqlite3_column_int64(stmt, 0);
        sqlite3_reset(stmt);
    }
    return st;
}

static ef_status number_of_generation(ef__sq_conn *conn, int which, int64_t generation,
                                      int64_t *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, which, &stmt, err);

    *out = 0;
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    return get_number(conn, stmt, out, err);
}

static ef_status delete_upto(ef__sq_conn *conn, int64_t generation, ef_str tenant, int64_t number,
                             ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = bind_tenant(conn, VQ_CHANGE_TRIM, generation, tenant, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 3, number);
    return ef__sq_done(conn, stmt, err);
}

/* --- ending ----------------------------------------------------------------------------------- */

static ef_status find_ended(ef__sq_conn *conn, int64_t generation, int64_t now_us, ef__arena *arena,
                            ef_str *out_tenant, int64_t *out_last, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ef_status st = ef__sq_stmt(conn, VQ_FOLLOW_ENDED, &stmt, err);

    *out_tenant = (ef_str){0};
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    sqlite3_bind_int64(stmt, 2, now_us);
    st = ef__sq_row(conn, stmt, &row, err);
    if (st != EF_OK || !row)
        return st;
    *out_tenant = ef__arena_copy(arena, ef__sq_column_str(stmt, 0));
    *out_last = sqlite3_column_int64(stmt, 1);
    sqlite3_reset(stmt);
    return out_tenant->ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out for a follower");
}

static ef_status raise_floor(ef__sq_conn *conn, int64_t generation, int64_t number, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, VQ_FOLLOW_FLOOR_RAISE, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, generation);
    sqlite3_bind_int64(stmt, 2, number);
    return ef__sq_done(conn, stmt, err);
}

/* Remove one row whose time is over, with its records: each commit removes one at most. */
static ef_status end_one(vq_store *store, int64_t generation, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(4096);
    ef_str tenant;
    int64_t last = 0;
    sqlite3_stmt *stmt;
    ef_status st =
        find_ended(&store->conn, generation, vq_now_us(store), &arena, &tenant, &last, err);

    if (st == EF_OK && tenant.ptr) {
        st = raise_floor(&store->conn, generation, last, err);
        if (st == EF_OK)
            st = delete_upto(&store->conn, generation, tenant, last, err);
        if (st == EF_OK)
            st = bind_tenant(&store->conn, VQ_FOLLOW_DELETE, generation, tenant, &stmt, err);
        if (st == EF_OK)
            st = ef__sq_done(&store->conn, stmt, err);
    }
    ef__arena_release(&arena);
    return st;
}

/* --- beginning -------------------------------------------------------------------------------- */

static ef_status begin(vq_store *store, int64_t generation, int64_t until_us, ef__follow_row *out,
                       ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    vq_generation g;
    int64_t followed = 0;
    bool found;
    ef_status st = vq_generation_find(conn, generation, &g, &found, err);

    if (st == EF_OK && !found)
        return ef__generation_missing(generation, err);
    if (st == EF_OK)
        st = number_of_generation(conn, VQ_FOLLOW_COUNT, generation, &followed, err);
    if (st == EF_OK && followed >= EF_LIMIT_FOLLOWED_TENANTS)
        return ef__follow_crowded(generation, err);
    *out = (ef__follow_row){.until_us = until_us};
    if (st == EF_OK)
        st = number_of_generation(conn, VQ_FOLLOW_FLOOR_GET, generation, &out->last, err);
    out->low = out->last = ef__follow_next(out, vq_now_us(store));
    return st;
}

static ef_status follow(vq_store *store, int64_t generation, ef_str tenant, int64_t until_us,
                        ef__follow_row *out, ef_error *err)
{
    bool found;
    ef_status st = follow_get(&store->conn, generation, tenant, out, &found, err);

    if (st == EF_OK && found)
        out->until_us = out->until_us < until_us ? until_us : out->until_us;
    else if (st == EF_OK)
        st = end_one(store, generation, err);
    if (st == EF_OK && !found)
        st = begin(store, generation, until_us, out, err);
    if (st == EF_OK)
        st = follow_put(&store->conn, generation, tenant, out, err);
    return st == EF_OK && found ? end_one(store, generation, err) : st;
}

ef_status vq_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, follow(store, generation, tenant, until_us, out, err), err);
}

/* --- recording -------------------------------------------------------------------------------- */

static ef_status add_record(ef__sq_conn *conn, int64_t generation, int64_t number,
                            const ef__view_change *change, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = bind_tenant(conn, VQ_CHANGE_ADD, generation, change->view.tenant, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 3, number);
    ef__sq_bind_str(stmt, 4, change->view.id);
    sqlite3_bind_int64(stmt, 5, change->view.last_position);
    sqlite3_bind_int(stmt, 6, (int)ef__change_kind_of(change));
    return ef__sq_done(conn, stmt, err);
}

/* Delete the oldest records of a tenant that has too many. */
static ef_status trim(ef__sq_conn *conn, int64_t generation, ef_str tenant, ef__follow_row *f,
                      ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st;

    if (f->kept <= EF_LIMIT_CHANGES_KEPT)
        return EF_OK;
    st = bind_tenant(conn, VQ_CHANGE_NTH, generation, tenant, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 3, f->kept - EF_LIMIT_CHANGES_LEFT - 1);
    st = get_number(conn, stmt, &f->low, err);
    f->kept = EF_LIMIT_CHANGES_LEFT;
    return st == EF_OK ? delete_upto(conn, generation, tenant, f->low, err) : st;
}

/* The changes of one tenant; nothing where it is not followed. */
static ef_status record_tenant(vq_store *store, int64_t generation, const ef__view_change **changes,
                               size_t count, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    ef_str tenant = changes[0]->view.tenant;
    int64_t now_us = vq_now_us(store);
    ef__follow_row f;
    bool found;
    ef_status st = follow_get(conn, generation, tenant, &f, &found, err);

    if (st != EF_OK || !found)
        return st;
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        if (ef__view_change_is_nothing(changes[i]))
            continue;
        f.last = ef__follow_next(&f, now_us);
        f.kept++;
        st = add_record(conn, generation, f.last, changes[i], err);
    }
    if (st == EF_OK)
        st = trim(conn, generation, tenant, &f, err);
    return st == EF_OK ? follow_put(conn, generation, tenant, &f, err) : st;
}

ef_status vq_changes_record(vq_store *store, const vq_generation *g,
                            const ef__generation_change *change, ef_error *err)
{
    const ef__view_change **sorted;
    ef_status st = EF_OK;

    if (!g->followed)
        return EF_OK;
    if (g->follow_ends_us < vq_now_us(store))
        st = end_one(store, g->id, err);
    if (st != EF_OK || change->view_count == 0)
        return st;
    sorted = ef__views_sorted(change);
    if (!sorted)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0, next; st == EF_OK && i < change->view_count; i = next) {
        next = ef__changes_of_tenant(sorted, change->view_count, i);
        st = record_tenant(store, g->id, sorted + i, next - i, err);
    }
    free(sorted);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status read_list(ef__sq_conn *conn, sqlite3_stmt *stmt, ef__change_list *out,
                           ef_error *err)
{
    ef__change_record *items = NULL;
    size_t cap = 0;
    bool row;
    ef_status st;

    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        out->is_followed = true;
        out->follow = read_follow(stmt);
        if (sqlite3_column_type(stmt, 4) == SQLITE_NULL)
            continue;
        st = ef__change_list_add(
            out, &items, &cap,
            &(ef__change_record){.number = sqlite3_column_int64(stmt, 4),
                                 .view_id = ef__sq_column_str(stmt, 5),
                                 .position = sqlite3_column_int64(stmt, 6),
                                 .kind = (ef__change_kind)sqlite3_column_int(stmt, 7)},
            err);
        if (st != EF_OK) {
            sqlite3_reset(stmt);
            return st;
        }
    }
    return st;
}

ef_status vq_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = ef__change_list_ready(out, err);

    if (st == EF_OK)
        st = vq_read_begin(store, true, &reader, &conn, err);
    if (st != EF_OK)
        return st;
    st = bind_tenant(conn, VQ_CHANGE_LS, generation, tenant, &stmt, err);
    if (st == EF_OK) {
        sqlite3_bind_int64(stmt, 3, after);
        sqlite3_bind_int64(stmt, 4, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
        st = read_list(conn, stmt, out, err);
    }
    vq_read_end(store, reader);
    return st;
}
