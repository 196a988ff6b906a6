/*
 * follow.c - followed tenants: beginning, recording what a commit changed, reading the record.
 *
 * Commits share the generation's lock, and beginning to follow needs it exclusively: so every
 * commit either has ended before, or finds the row. The rows of a commit's tenants are locked until
 * it ends, so numbers are in the order of commits.
 */
#include "store.h"

#include "../follow.h"

static ef__follow_row read_follow(const PGresult *rows, int row)
{
    return (ef__follow_row){.until_us = ef__pg_int(rows, row, 0),
                            .low = ef__pg_int(rows, row, 1),
                            .last = ef__pg_int(rows, row, 2),
                            .kept = ef__pg_int(rows, row, 3)};
}

/* --- beginning -------------------------------------------------------------------------------- */

typedef struct following {
    vp_store *store;
    int64_t generation;
    ef_str tenant;
    int64_t until_us;
    ef__follow_row *out;
} following;

/* Run follow_extend or follow_add. */
static ef_status put_row(const following *f, ef__pg_conn *conn, int which, bool *out_found,
                         ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_add_int(&params, f->generation);
    ef__pg_add_str(&params, f->tenant);
    ef__pg_add_int(&params, f->until_us);
    st = ef__pg_query(conn, which, &params, &rows, err);
    *out_found = st == EF_OK && PQntuples(rows) > 0;
    if (*out_found)
        *f->out = read_follow(rows, 0);
    PQclear(rows);
    return st;
}

static ef_status check_limit(const following *f, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    int64_t followed = 0;
    ef_status st;

    ef__pg_add_int(&params, f->generation);
    st = ef__pg_query(conn, VP_FOLLOW_COUNT, &params, &rows, err);
    if (st == EF_OK)
        followed = ef__pg_int(rows, 0, 0);
    PQclear(rows);
    return st == EF_OK && followed >= EF_LIMIT_FOLLOWED_TENANTS
               ? ef__follow_crowded(f->generation, err)
               : st;
}

static ef_status check_generation(const following *f, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array ids;
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_array_init(&ids, EF__PG_INT);
    ef__pg_array_int(&ids, f->generation);
    ef__pg_add_array(&params, &ids);
    st = ef__pg_query(conn, VP_GENERATION_GET, &params, &rows, err);
    if (st == EF_OK && PQntuples(rows) == 0)
        st = ef__generation_missing(f->generation, err);
    PQclear(rows);
    ef__pg_array_release(&ids);
    return st;
}

static ef_status write_following(void *context, ef__pg_conn *conn, ef_error *err)
{
    const following *f = context;
    bool found;
    ef_status st = put_row(f, conn, VP_FOLLOW_EXTEND, &found, err);

    if (st == EF_OK && !found)
        st = vp_lock(conn, true, &f->generation, 1, err);
    if (st == EF_OK && !found)
        st = check_generation(f, conn, err);
    if (st == EF_OK)
        st = vp_follow_end(conn, f->generation, vp_now_us(f->store), err);
    if (st != EF_OK || found)
        return st;
    st = check_limit(f, conn, err);
    return st == EF_OK ? put_row(f, conn, VP_FOLLOW_ADD, &found, err) : st;
}

ef_status vp_follow(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                    ef__follow_row *out, ef_error *err)
{
    following f = {.store = vp_store_of(views),
                   .generation = generation,
                   .tenant = tenant,
                   .until_us = until_us,
                   .out = out};
    ef_status st = vp_write(f.store, false, write_following, &f, err);

    /* Idempotent: safe to repeat whether or not it was committed. */
    return st == EF_UNSURE ? vp_write(f.store, false, write_following, &f, err) : st;
}

ef_status vp_follow_end(ef__pg_conn *conn, int64_t generation, int64_t now_us, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, generation);
    ef__pg_add_int(&params, now_us);
    return ef__pg_send(conn, VP_FOLLOW_END, &params, err);
}

/* --- recording -------------------------------------------------------------------------------- */

typedef struct record {
    ef__pg_array generations, tenants, ids, positions, kinds; /* a row a change */
    ef__pg_array followed_generations, followed_tenants;      /* a row a tenant */
} record;

static void record_init(record *r)
{
    ef__pg_array_init(&r->generations, EF__PG_INT);
    ef__pg_array_init(&r->tenants, EF__PG_TEXT);
    ef__pg_array_init(&r->ids, EF__PG_TEXT);
    ef__pg_array_init(&r->positions, EF__PG_INT);
    ef__pg_array_init(&r->kinds, EF__PG_INT);
    ef__pg_array_init(&r->followed_generations, EF__PG_INT);
    ef__pg_array_init(&r->followed_tenants, EF__PG_TEXT);
}

static void record_release(record *r)
{
    ef__pg_array_release(&r->generations);
    ef__pg_array_release(&r->tenants);
    ef__pg_array_release(&r->ids);
    ef__pg_array_release(&r->positions);
    ef__pg_array_release(&r->kinds);
    ef__pg_array_release(&r->followed_generations);
    ef__pg_array_release(&r->followed_tenants);
}

static void record_add(record *r, const struct vp_view_at *at, bool is_first_of_tenant)
{
    const ef__view *view = &at->change->view;

    ef__pg_array_int(&r->generations, at->generation);
    ef__pg_array_str(&r->tenants, view->tenant);
    ef__pg_array_str(&r->ids, view->id);
    ef__pg_array_int(&r->positions, view->last_position);
    ef__pg_array_int(&r->kinds, (int64_t)ef__change_kind_of(at->change));
    if (is_first_of_tenant) {
        ef__pg_array_int(&r->followed_generations, at->generation);
        ef__pg_array_str(&r->followed_tenants, view->tenant);
    }
}

static ef_status send_for_tenants(record *r, ef__pg_conn *conn, int which, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array(&params, &r->followed_generations);
    ef__pg_add_array(&params, &r->followed_tenants);
    if (which == VP_CHANGE_TRIM) {
        ef__pg_add_int(&params, EF_LIMIT_CHANGES_KEPT);
        ef__pg_add_int(&params, EF_LIMIT_CHANGES_LEFT);
    }
    return ef__pg_send(conn, which, &params, err);
}

static ef_status send_changes(record *r, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array(&params, &r->generations);
    ef__pg_add_array(&params, &r->tenants);
    ef__pg_add_array(&params, &r->ids);
    ef__pg_add_array(&params, &r->positions);
    ef__pg_add_array(&params, &r->kinds);
    return ef__pg_send(conn, VP_CHANGE_ADD, &params, err);
}

ef_status vp_changes_record(ef__pg_conn *conn, const vp_sorted *sorted, int64_t generation,
                            ef_error *err)
{
    const struct vp_view_at *before = NULL;
    record r;
    ef_status st;

    record_init(&r);
    for (size_t i = 0; i < sorted->view_count; i++) {
        const struct vp_view_at *at = &sorted->views[i];
        if (at->generation != generation)
            continue;
        record_add(&r, at,
                   !before || !ef_str_equal(before->change->view.tenant, at->change->view.tenant));
        before = at;
    }
    st = before ? send_for_tenants(&r, conn, VP_FOLLOW_LOCK, err) : EF_OK;
    if (st == EF_OK && before)
        st = send_changes(&r, conn, err);
    if (st == EF_OK && before)
        st = send_for_tenants(&r, conn, VP_CHANGE_TRIM, err);
    record_release(&r);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

ef_status vp_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                       size_t limit, ef__change_list *out, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef__change_record *items = NULL;
    size_t cap = 0;
    ef_status st = ef__change_list_ready(out, err);

    if (st != EF_OK)
        return st;
    ef__pg_add_int(&params, generation);
    ef__pg_add_str(&params, tenant);
    ef__pg_add_int(&params, after);
    ef__pg_add_int(&params, limit > INT32_MAX ? INT32_MAX : (int64_t)limit);
    st = ef__pg_read(vp_store_of(views)->pool, VP_CHANGE_LS, &params, &rows, err);
    for (int i = 0; st == EF_OK && i < PQntuples(rows); i++) {
        out->is_followed = true;
        out->follow = read_follow(rows, i);
        if (!ef__pg_null(rows, i, 4))
            st = ef__change_list_add(
                out, &items, &cap,
                &(ef__change_record){.number = ef__pg_int(rows, i, 4),
                                     .view_id = ef__pg_str(rows, i, 5),
                                     .position = ef__pg_int(rows, i, 6),
                                     .kind = (ef__change_kind)ef__pg_int(rows, i, 7)},
                err);
    }
    PQclear(rows);
    return st;
}
