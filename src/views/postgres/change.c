/*
 * change.c - the changes of a commit, in the order of locks and as arrays: one statement for the
 * views of all generations, one for their index entries, one for watermarks, one for counts.
 */
#include "store.h"

#include "../compare.h"

#include <stdlib.h>

/* --- order ------------------------------------------------------------------------------------ */

static int by_number(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_generation(const void *a, const void *b)
{
    return by_number((*(const ef__generation_change *const *)a)->generation,
                     (*(const ef__generation_change *const *)b)->generation);
}

static int by_view(const void *a, const void *b)
{
    const struct vp_view_at *x = a, *y = b;
    int order = by_number(x->generation, y->generation);

    if (order == 0)
        order = ef__str_compare(x->change->view.tenant, y->change->view.tenant);
    return order ? order : ef__str_compare(x->change->view.id, y->change->view.id);
}

static int by_stream(const void *a, const void *b)
{
    const struct vp_watermark_at *x = a, *y = b;
    int order = by_number(x->generation, y->generation);

    if (order == 0)
        order = ef__str_compare(x->change->tenant, y->change->tenant);
    return order ? order : ef__str_compare(x->change->stream, y->change->stream);
}

static void sort_into(const ef__generation_change *change, vp_sorted *out)
{
    for (size_t i = 0; i < change->view_count; i++) {
        const ef__view_change *view = &change->views[i];
        struct vp_view_at *at = &out->views[out->view_count];
        if (ef__view_change_is_nothing(view))
            continue;
        *at = (struct vp_view_at){.generation = change->generation, .change = view};
        if (!view->deleted) {
            ef__view_digest(&view->view, at->digest);
            out->key_count += view->key_count;
        }
        out->view_count++;
    }
    for (size_t i = 0; i < change->watermark_count; i++)
        out->watermarks[out->watermark_count++] =
            (struct vp_watermark_at){change->generation, &change->watermarks[i]};
}

ef_status vp_sort(const ef__views_commit *commit, vp_sorted *out, ef_error *err)
{
    size_t views = 0, watermarks = 0;

    *out = (vp_sorted){0};
    for (size_t i = 0; i < commit->generation_count; i++) {
        views += commit->generations[i].view_count;
        watermarks += commit->generations[i].watermark_count;
    }
    out->generations = malloc((commit->generation_count + 1) * sizeof *out->generations);
    out->views = malloc((views + 1) * sizeof *out->views);
    out->watermarks = malloc((watermarks + 1) * sizeof *out->watermarks);
    if (!out->generations || !out->views || !out->watermarks)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
    for (size_t i = 0; i < commit->generation_count; i++)
        out->generations[i] = &commit->generations[i];
    qsort(out->generations, commit->generation_count, sizeof *out->generations, by_generation);
    for (size_t i = 0; i < commit->generation_count; i++)
        sort_into(out->generations[i], out);
    qsort(out->views, out->view_count, sizeof *out->views, by_view);
    qsort(out->watermarks, out->watermark_count, sizeof *out->watermarks, by_stream);
    return EF_OK;
}

void vp_sorted_release(vp_sorted *sorted)
{
    free(sorted->generations);
    free(sorted->views);
    free(sorted->watermarks);
    *sorted = (vp_sorted){0};
}

/* --- arrays ----------------------------------------------------------------------------------- */

enum { COLUMNS_MAX = 9 };

/* Columns of a statement: arrays that are filled row by row. */
typedef struct columns {
    ef__pg_array arrays[COLUMNS_MAX];
    int count;
} columns;

/* `types` has a letter for each column: i bigint, t text, b bytea. */
static columns columns_of(const char *types)
{
    columns c = {.count = (int)strlen(types)};

    for (int i = 0; i < c.count; i++)
        ef__pg_array_init(&c.arrays[i], types[i] == 'i'   ? EF__PG_INT
                                        : types[i] == 't' ? EF__PG_TEXT
                                                          : EF__PG_BYTES);
    return c;
}

static ef_status send_columns(ef__pg_conn *conn, int which, columns *c, const int64_t *last,
                              ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st;

    for (int i = 0; i < c->count; i++)
        ef__pg_add_array(&params, &c->arrays[i]);
    if (last)
        ef__pg_add_int(&params, *last);
    st = ef__pg_send(conn, which, &params, err);
    for (int i = 0; i < c->count; i++)
        ef__pg_array_release(&c->arrays[i]);
    return st;
}

static void add_key(columns *c, int64_t generation, ef_str tenant, ef_str name)
{
    ef__pg_array_int(&c->arrays[0], generation);
    ef__pg_array_str(&c->arrays[1], tenant);
    ef__pg_array_str(&c->arrays[2], name);
}

/* --- views ------------------------------------------------------------------------------------ */

ef_status vp_send_views(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    columns c = columns_of("itttiiib");

    for (size_t i = 0; i < sorted->view_count; i++) {
        const struct vp_view_at *at = &sorted->views[i];
        const ef__view *view = &at->change->view;
        uint8_t digest[2 * EF__DIGEST_BYTES];
        bool was_there = !ef__digest_is_none(at->change->before);
        ef__digest_bytes(at->digest, digest);
        ef__digest_bytes(at->change->before, digest + EF__DIGEST_BYTES);
        add_key(&c, at->generation, view->tenant, view->id);
        ef__pg_array_str(&c.arrays[3], at->change->deleted ? (ef_str){"", 0} : view->data);
        ef__pg_array_int(&c.arrays[4], view->last_position);
        ef__pg_array_int(&c.arrays[5], view->last_seq);
        ef__pg_array_int(&c.arrays[6], view->schema);
        ef__pg_array_str(
            &c.arrays[7],
            (ef_str){(const char *)digest, was_there ? sizeof digest : (size_t)EF__DIGEST_BYTES});
    }
    return send_columns(conn, VP_VIEW_PUT, &c, NULL, err);
}

ef_status vp_send_keys(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    columns c = columns_of("ittib");

    for (size_t i = 0; i < sorted->view_count; i++) {
        const ef__view_change *change = sorted->views[i].change;
        for (size_t k = 0; k < change->key_count && !change->deleted; k++) {
            add_key(&c, sorted->views[i].generation, change->view.tenant, change->view.id);
            ef__pg_array_int(&c.arrays[3], change->keys[k].index);
            ef__pg_array_str(&c.arrays[4], change->keys[k].key);
        }
    }
    return send_columns(conn, VP_INDEX_PUT, &c, NULL, err);
}

/* --- watermarks ------------------------------------------------------------------------------- */

static void put_i64(uint8_t *out, int64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
}

static bool is_no_watermark(const ef__watermark *w)
{
    static const uint8_t NO_HASH[EF_HASH_BYTES];

    return w->applied_seq == 0 && w->expected_next_seq == 0 &&
           memcmp(w->hash, NO_HASH, sizeof w->hash) == 0;
}

ef_status vp_send_watermarks(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    columns c = columns_of("ittiib");

    for (size_t i = 0; i < sorted->watermark_count; i++) {
        const ef__watermark_change *w = sorted->watermarks[i].change;
        uint8_t hash[2 * EF_HASH_BYTES + 16];
        memcpy(hash, w->after.hash, EF_HASH_BYTES);
        memcpy(hash + EF_HASH_BYTES, w->before.hash, EF_HASH_BYTES);
        put_i64(hash + 2 * EF_HASH_BYTES, w->before.applied_seq);
        put_i64(hash + 2 * EF_HASH_BYTES + 8, w->before.expected_next_seq);
        add_key(&c, sorted->watermarks[i].generation, w->tenant, w->stream);
        ef__pg_array_int(&c.arrays[3], w->after.applied_seq);
        ef__pg_array_int(&c.arrays[4], w->after.expected_next_seq);
        ef__pg_array_str(&c.arrays[5], (ef_str){(const char *)hash, is_no_watermark(&w->before)
                                                                        ? (size_t)EF_HASH_BYTES
                                                                        : sizeof hash});
    }
    return send_columns(conn, VP_WATERMARK_PUT, &c, NULL, err);
}

ef_status vp_send_resolve(ef__pg_conn *conn, const vp_sorted *sorted, int64_t now_us, ef_error *err)
{
    columns c = columns_of("ittii");

    for (size_t i = 0; i < sorted->watermark_count; i++) {
        const ef__watermark_change *w = sorted->watermarks[i].change;
        add_key(&c, sorted->watermarks[i].generation, w->tenant, w->stream);
        ef__pg_array_int(&c.arrays[3], w->before.expected_next_seq);
        ef__pg_array_int(&c.arrays[4], w->after.expected_next_seq);
    }
    return send_columns(conn, VP_FAILURE_RESOLVE, &c, &now_us, err);
}

/* --- counts ----------------------------------------------------------------------------------- */

enum {
    SHARDS = 16
}; /* connections that commit at the same time are few, and all shards are read */

static void add_count(columns *c, const ef__generation_change *change, int64_t shard,
                      const vp_sorted *sorted, size_t *at)
{
    uint64_t digest[2] = {0, 0};
    int64_t views = 0;

    for (; *at < sorted->view_count && sorted->views[*at].generation == change->generation; ++*at) {
        const struct vp_view_at *v = &sorted->views[*at];
        views += (v->change->deleted ? 0 : 1) - (ef__digest_is_none(v->change->before) ? 0 : 1);
        ef__digest_subtract(digest, v->change->before);
        ef__digest_add(digest, v->digest);
    }
    ef__pg_array_int(&c->arrays[0], change->generation);
    ef__pg_array_int(&c->arrays[1], shard);
    ef__pg_array_int(&c->arrays[2], views);
    ef__pg_array_int(&c->arrays[3], change->applied);
    ef__pg_array_int(&c->arrays[4], change->ignored);
    ef__pg_array_int(&c->arrays[5], change->skipped);
    ef__pg_array_int(&c->arrays[6], (int64_t)digest[0]);
    ef__pg_array_int(&c->arrays[7], (int64_t)digest[1]);
}

ef_status vp_send_counts(ef__pg_conn *conn, const ef__views_commit *commit, const vp_sorted *sorted,
                         int64_t now_us, ef_error *err)
{
    columns c = columns_of("iiiiiiii");
    int64_t shard = PQbackendPID(conn->pg) % SHARDS;
    size_t at = 0;

    for (size_t i = 0; i < commit->generation_count; i++)
        add_count(&c, sorted->generations[i], shard, sorted, &at);
    return send_columns(conn, VP_GENERATION_COUNT, &c, &now_us, err);
}
