/*
 * follow.c - followed tenants: beginning, recording what a commit changed, reading the record.
 *
 * Commits share the generation's lock, and beginning to follow needs it exclusively: so every
 * commit either has ended before, or finds the row. The rows of a commit's tenants are locked until
 * it ends, so numbers are in the order of commits.
 */
#include "store.h"

#include "../follow.h"

/* --- beginning -------------------------------------------------------------------------------- */

typedef struct following {
    ef_views *views;
    struct vp_follow_extend row;
    ef__follow_row *out;
} following;

static ef_status check_limit(const following *f, ef__pg_conn *conn, ef_error *err)
{
    int64_t followed = 0;
    ef_status st =
        vp_one_follow_count(ef__pg_on_conn(conn), f->row.generation, &followed, NULL, err);

    return st == EF_OK && followed >= EF_LIMIT_FOLLOWED_TENANTS
               ? ef__follow_crowded(f->row.generation, err)
               : st;
}

static ef_status write_following(void *context, ef__pg_conn *conn, ef_error *err)
{
    const following *f = context;
    ef__pg_on on = ef__pg_on_conn(conn);
    vp_generation g;
    bool found = false;
    ef_status st = vp_one_follow_extend(on, &f->row, f->out, &found, err);

    if (st == EF_OK && !found)
        st = vp_lock(conn, true, &f->row.generation, 1, err);
    if (st == EF_OK && !found)
        st = vp_generation_find(conn, f->row.generation, &g, err);
    if (st == EF_OK)
        st = vp_send_follow_end(
            conn, &(struct vp_follow_end){f->row.generation, ef__views_now_us(f->views)}, err);
    if (st == EF_OK && !found)
        st = check_limit(f, conn, err);
    return st == EF_OK && !found ? vp_one_follow_add(on, &f->row, f->out, NULL, err) : st;
}

ef_status vp_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err)
{
    following f = {views, {generation, tenant, until_us}, out};
    ef_status st = vp_write(views, false, write_following, &f, err);

    /* Idempotent: safe to repeat whether or not it was committed. */
    return st == EF_UNSURE ? vp_write(views, false, write_following, &f, err) : st;
}

/* --- recording -------------------------------------------------------------------------------- */

static ef_status send_changes(ef__pg_conn *conn, const struct vp_view_at *first,
                              const struct vp_view_at *end, ef_error *err)
{
    struct vp_change_add add = {0};

    for (const struct vp_view_at *at = first; at < end; at++) {
        const ef__view *view = &at->change->view;
        ef__pg_array_int(&add.generations, at->generation);
        ef__pg_array_str(&add.tenants, view->tenant);
        ef__pg_array_str(&add.ids, view->id);
        ef__pg_array_int(&add.positions, view->last_position);
        ef__pg_array_int(&add.kinds, (int64_t)ef__change_kind_of(at->change));
    }
    return vp_send_change_add(conn, &add, err);
}

static void add_tenants(const struct vp_view_at *first, const struct vp_view_at *end,
                        ef__pg_array *generations, ef__pg_array *tenants)
{
    for (const struct vp_view_at *at = first; at < end; at++) {
        if (at > first && ef_str_equal(at[-1].change->view.tenant, at->change->view.tenant))
            continue;
        ef__pg_array_int(generations, at->generation);
        ef__pg_array_str(tenants, at->change->view.tenant);
    }
}

ef_status vp_changes_record(ef__pg_conn *conn, const vp_sorted *sorted, int64_t generation,
                            ef_error *err)
{
    const struct vp_view_at *first = sorted->views, *last = first + sorted->view_count, *end;
    ef__pg_array generations = {0}, tenants = {0};
    struct vp_change_trim trim = {.most = EF_LIMIT_CHANGES_KEPT, .left = EF_LIMIT_CHANGES_LEFT};
    ef_status st;

    while (first < last && first->generation != generation)
        first++;
    for (end = first; end < last && end->generation == generation;)
        end++;
    if (first == end)
        return EF_OK;
    add_tenants(first, end, &generations, &tenants);
    st = vp_send_follow_lock(conn, &(struct vp_follow_lock){generations, tenants}, err);
    if (st == EF_OK)
        st = send_changes(conn, first, end, err);
    if (st != EF_OK)
        return st;
    add_tenants(first, end, &trim.generations, &trim.tenants);
    return vp_send_change_trim(conn, &trim, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

ef_status vp_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    ef__change_record *items;
    ef__change_row row;
    ef__pg_rows rows;
    ef_status st = ef__change_list_ready(out, err);

    if (st != EF_OK)
        return st;
    rows = vp_each_change_ls(
        vp_on(views),
        &(struct vp_change_ls){generation, tenant, .after = after, .limit = ef__sql_limit(limit)},
        &out->room->arena, err);
    out->items = items = ef__pg_rows_items(&rows, sizeof *items);
    while (vp_next_change_ls(&rows, &row)) {
        out->is_followed = true;
        out->follow = row.follow;
        if (row.change.number)
            items[out->count++] = row.change;
    }
    return ef__pg_rows_end(&rows);
}
