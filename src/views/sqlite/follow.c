/*
 * follow.c - followed tenants: beginning, recording what a commit changed, reading the record.
 */
#include "store.h"

#include "../follow.h"

#include <stdlib.h>

/* --- ending ----------------------------------------------------------------------------------- */

/* Removes one expired row, with its records: each commit removes one at most. */
static ef_status end_one(vq_store *store, int64_t generation, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(4096);
    struct vq_follow_ended_row ended;
    bool found;
    ef_status st = vq_one_follow_ended(
        conn,
        &(struct vq_follow_ended){.generation = generation, .now = ef__views_now_us(&store->base)},
        &arena, &ended, &found, err);

    if (st == EF_OK && found) {
        st = vq_run_follow_floor_raise(
            conn, &(struct vq_follow_floor_raise){.generation = generation, .number = ended.last},
            err);
        if (st == EF_OK)
            st = vq_run_change_trim(
                conn, &(struct vq_change_trim){generation, ended.tenant, .upto = ended.last}, err);
        if (st == EF_OK)
            st = vq_run_follow_delete(conn, generation, ended.tenant, err);
    }
    return st;
}

/* --- beginning -------------------------------------------------------------------------------- */

static ef_status begin_row(vq_store *store, int64_t generation, int64_t until_us,
                           ef__follow_row *out, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    vq_generation g;
    int64_t followed = 0;
    bool found;
    ef_status st = vq_one_generation_get(conn, generation, &g, &found, err);

    if (st == EF_OK && !found)
        return ef__generation_missing(generation, err);
    if (st == EF_OK)
        st = vq_one_follow_count(conn, generation, &followed, NULL, err);
    if (st == EF_OK && followed >= EF_LIMIT_FOLLOWED_TENANTS)
        return ef__follow_crowded(generation, err);
    *out = (ef__follow_row){.until_us = until_us};
    if (st == EF_OK)
        st = vq_one_follow_floor_get(conn, generation, &out->last, NULL, err);
    out->low = out->last = ef__follow_next(out, ef__views_now_us(&store->base));
    return st;
}

static ef_status write_following(vq_store *store, int64_t generation, ef_str tenant,
                                 int64_t until_us, ef__follow_row *out, ef_error *err)
{
    bool found;
    ef_status st = vq_one_follow_get(&store->conn, generation, tenant, out, &found, err);

    if (st == EF_OK && found)
        out->until_us = out->until_us < until_us ? until_us : out->until_us;
    else if (st == EF_OK)
        st = end_one(store, generation, err);
    if (st == EF_OK && !found)
        st = begin_row(store, generation, until_us, out, err);
    if (st == EF_OK)
        st = vq_run_follow_put(&store->conn, generation, tenant, out, err);
    return st == EF_OK && found ? end_one(store, generation, err) : st;
}

ef_status vq_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, write_following(store, generation, tenant, until_us, out, err), err);
}

/* --- recording -------------------------------------------------------------------------------- */

/* Deletes the oldest records of a tenant that has too many. */
static ef_status trim_records(ef__sq_conn *conn, int64_t generation, ef_str tenant,
                              ef__follow_row *f, ef_error *err)
{
    int64_t before = f->kept - EF_LIMIT_CHANGES_LEFT - 1;
    ef_status st;

    if (f->kept <= EF_LIMIT_CHANGES_KEPT)
        return EF_OK;
    st = vq_one_change_nth(conn, &(struct vq_change_nth){generation, tenant, .before = before},
                           &f->low, NULL, err);
    f->kept = EF_LIMIT_CHANGES_LEFT;
    return st == EF_OK
               ? vq_run_change_trim(
                     conn, &(struct vq_change_trim){generation, tenant, .upto = f->low}, err)
               : st;
}

/* The changes of one tenant; nothing where it is not followed. */
static ef_status record_tenant(vq_store *store, int64_t generation, const ef__view_change **changes,
                               size_t count, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    ef_str tenant = changes[0]->view.tenant;
    int64_t now_us = ef__views_now_us(&store->base);
    ef__follow_row f;
    bool found;
    ef_status st = vq_one_follow_get(conn, generation, tenant, &f, &found, err);

    if (st != EF_OK || !found)
        return st;
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        if (ef__view_change_is_nothing(changes[i]))
            continue;
        f.last = ef__follow_next(&f, now_us);
        f.kept++;
        st = vq_run_change_add(conn,
                               &(struct vq_change_add){.generation = generation,
                                                       .view = &changes[i]->view,
                                                       .number = f.last,
                                                       .kind = ef__change_kind_of(changes[i])},
                               err);
    }
    if (st == EF_OK)
        st = trim_records(conn, generation, tenant, &f, err);
    return st == EF_OK ? vq_run_follow_put(conn, generation, tenant, &f, err) : st;
}

ef_status vq_changes_record(vq_store *store, const vq_generation *g,
                            const ef__generation_change *change, ef_error *err)
{
    const ef__view_change **sorted;
    ef_status st = EF_OK;

    if (!g->has_follow_ends_us)
        return EF_OK;
    if (g->follow_ends_us < ef__views_now_us(&store->base))
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

ef_status vq_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    struct vq_change_ls asked = {generation, tenant, after, ef__sql_limit(limit)};
    ef__change_row row;
    ef__sq_rows rows;
    ef_status st = ef__change_list_ready(out, err);
    VQ_READING vq_reader *reader = st == EF_OK ? vq_read_begin(views, true, &st, err) : NULL;

    if (!reader)
        return st;
    rows = vq_each_change_ls(reader->conn, &asked, &out->room->arena, err);
    while (vq_next_change_ls(&rows, &row)) {
        out->is_followed = true;
        out->follow = row.follow;
        if (row.change.number)
            out->items =
                ef__sq_rows_add(&rows, out->items, &out->count, &row.change, sizeof row.change);
    }
    return ef__sq_rows_end(&rows);
}
