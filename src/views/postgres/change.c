/*
 * change.c - the changes of a commit, in the order of locks and as arrays: one statement for the
 * views of all generations, one for their index entries, one for watermarks, one for counts.
 */
#include "store.h"

#include "../compare.h"

#include <endian.h>
#include <stdlib.h>

/* --- order ------------------------------------------------------------------------------------ */

static int by_generation(const void *a, const void *b)
{
    int64_t x = (*(const ef__generation_change *const *)a)->generation;
    int64_t y = (*(const ef__generation_change *const *)b)->generation;

    return (x > y) - (x < y);
}

/* Adds the changes of a generation, which is above those before it. False: memory ran out. */
static bool sort_into(const ef__generation_change *change, vp_sorted *out)
{
    const ef__view_change **views = ef__views_sorted(change);
    const ef__watermark_change **watermarks = ef__watermarks_sorted(change);
    bool sorted = views && watermarks;

    for (size_t i = 0; sorted && i < change->view_count; i++) {
        struct vp_view_at *at = &out->views[out->view_count];
        if (ef__view_change_is_nothing(views[i]))
            continue;
        *at = (struct vp_view_at){.generation = change->generation, .change = views[i]};
        if (!views[i]->deleted) {
            ef__view_digest(&views[i]->view, at->digest);
            out->key_count += views[i]->key_count;
        }
        out->views_made += ef__digest_is_none(views[i]->before);
        out->view_count++;
    }
    for (size_t i = 0; sorted && i < change->watermark_count; i++) {
        out->watermarks_made += ef__watermark_is_none(&watermarks[i]->before);
        out->watermarks[out->watermark_count++] =
            (struct vp_watermark_at){change->generation, watermarks[i]};
    }
    free(views);
    free(watermarks);
    return sorted;
}

ef_status vp_sort(const ef__views_commit *commit, vp_sorted *out, ef_error *err)
{
    size_t views = 0, watermarks = 0;
    bool sorted;

    *out = (vp_sorted){0};
    for (size_t i = 0; i < commit->generation_count; i++) {
        views += commit->generations[i].view_count;
        watermarks += commit->generations[i].watermark_count;
    }
    out->generations = malloc((commit->generation_count + 1) * sizeof *out->generations);
    out->views = malloc((views + 1) * sizeof *out->views);
    out->watermarks = malloc((watermarks + 1) * sizeof *out->watermarks);
    sorted = out->generations && out->views && out->watermarks;
    for (size_t i = 0; sorted && i < commit->generation_count; i++)
        out->generations[i] = &commit->generations[i];
    if (sorted)
        qsort(out->generations, commit->generation_count, sizeof *out->generations, by_generation);
    for (size_t i = 0; sorted && i < commit->generation_count; i++)
        sorted = sort_into(out->generations[i], out);
    return sorted ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out for a commit");
}

void vp_sorted_release(vp_sorted *sorted)
{
    free(sorted->generations);
    free(sorted->views);
    free(sorted->watermarks);
    *sorted = (vp_sorted){0};
}

/* --- arrays ----------------------------------------------------------------------------------- */

static void add_key(ef__pg_array *generations, ef__pg_array *tenants, ef__pg_array *names,
                    int64_t generation, ef_str tenant, ef_str name)
{
    ef__pg_array_int(generations, generation);
    ef__pg_array_str(tenants, tenant);
    ef__pg_array_str(names, name);
}

static ef_str bytes_str(const uint8_t *bytes, size_t len)
{
    return (ef_str){(const char *)bytes, len};
}

/* The new digest, followed by the one that was read. */
ef_status vp_send_views(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    struct vp_view_put put = {0};

    for (size_t i = 0; i < sorted->view_count; i++) {
        const struct vp_view_at *at = &sorted->views[i];
        const ef__view *view = &at->change->view;
        uint8_t digest[2 * EF__DIGEST_BYTES];
        bool was_there = !ef__digest_is_none(at->change->before);
        ef__digest_bytes(at->digest, digest);
        ef__digest_bytes(at->change->before, digest + EF__DIGEST_BYTES);
        add_key(&put.generations, &put.tenants, &put.ids, at->generation, view->tenant, view->id);
        ef__pg_array_str(&put.data, at->change->deleted ? (ef_str){"", 0} : view->data);
        ef__pg_array_int(&put.last_positions, view->last_position);
        ef__pg_array_int(&put.last_seqs, view->last_seq);
        ef__pg_array_int(&put.schemas, view->schema);
        ef__pg_array_str(&put.digests,
                         bytes_str(digest, was_there ? sizeof digest : EF__DIGEST_BYTES));
    }
    return vp_send_view_put(conn, &put, err);
}

ef_status vp_send_keys(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    struct vp_index_put put = {0};

    for (size_t i = 0; i < sorted->view_count; i++) {
        const ef__view_change *change = sorted->views[i].change;
        for (size_t k = 0; k < change->key_count && !change->deleted; k++) {
            add_key(&put.generations, &put.tenants, &put.ids, sorted->views[i].generation,
                    change->view.tenant, change->view.id);
            ef__pg_array_int(&put.indexes, change->keys[k].index);
            ef__pg_array_str(&put.keys, change->keys[k].key);
        }
    }
    return vp_send_index_put(conn, &put, err);
}

/* The new hash, followed by the watermark that was read. */
ef_status vp_send_watermarks(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    struct vp_watermark_put put = {0};

    for (size_t i = 0; i < sorted->watermark_count; i++) {
        const ef__watermark_change *w = sorted->watermarks[i].change;
        uint64_t before[2] = {htobe64((uint64_t)w->before.applied_seq),
                              htobe64((uint64_t)w->before.expected_next_seq)};
        uint8_t hash[2 * EF_HASH_BYTES + sizeof before];
        memcpy(hash, w->after.hash, EF_HASH_BYTES);
        memcpy(hash + EF_HASH_BYTES, w->before.hash, EF_HASH_BYTES);
        memcpy(hash + 2 * EF_HASH_BYTES, before, sizeof before);
        add_key(&put.generations, &put.tenants, &put.streams, sorted->watermarks[i].generation,
                w->tenant, w->stream);
        ef__pg_array_int(&put.applied, w->after.applied_seq);
        ef__pg_array_int(&put.expected, w->after.expected_next_seq);
        ef__pg_array_str(
            &put.hashes,
            bytes_str(hash, ef__watermark_is_none(&w->before) ? EF_HASH_BYTES : sizeof hash));
    }
    return vp_send_watermark_put(conn, &put, err);
}

ef_status vp_send_made(ef__pg_conn *conn, const vp_sorted *sorted, ef_error *err)
{
    struct vp_watermark_count watermarks = {0};
    struct vp_view_count views = {0};
    ef_status st = EF_OK;

    for (size_t i = 0; sorted->watermarks_made && i < sorted->watermark_count; i++) {
        const ef__watermark_change *w = sorted->watermarks[i].change;
        if (ef__watermark_is_none(&w->before))
            add_key(&watermarks.generations, &watermarks.tenants, &watermarks.streams,
                    sorted->watermarks[i].generation, w->tenant, w->stream);
    }
    for (size_t i = 0; sorted->views_made && i < sorted->view_count; i++) {
        const ef__view_change *v = sorted->views[i].change;
        if (ef__digest_is_none(v->before))
            add_key(&views.generations, &views.tenants, &views.ids, sorted->views[i].generation,
                    v->view.tenant, v->view.id);
    }
    if (sorted->watermarks_made)
        st = vp_send_watermark_count(conn, &watermarks, err);
    return st == EF_OK && sorted->views_made ? vp_send_view_count(conn, &views, err) : st;
}

ef_status vp_send_resolve(ef__pg_conn *conn, const vp_sorted *sorted, int64_t now_us, ef_error *err)
{
    struct vp_failure_resolve passed = {.resolved_us = now_us};

    for (size_t i = 0; i < sorted->watermark_count; i++) {
        const ef__watermark_change *w = sorted->watermarks[i].change;
        add_key(&passed.generations, &passed.tenants, &passed.streams,
                sorted->watermarks[i].generation, w->tenant, w->stream);
        ef__pg_array_int(&passed.first, w->before.expected_next_seq);
        ef__pg_array_int(&passed.next, w->after.expected_next_seq);
    }
    return vp_send_failure_resolve(conn, &passed, err);
}

/* --- counts ----------------------------------------------------------------------------------- */

enum {
    SHARDS = 16
}; /* connections that commit at the same time are few, and all shards are read */

static void add_count(struct vp_generation_count *add, const ef__generation_change *change,
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
    ef__pg_array_int(&add->generations, change->generation);
    ef__pg_array_int(&add->views, views);
    ef__pg_array_int(&add->applied, change->applied);
    ef__pg_array_int(&add->ignored, change->ignored);
    ef__pg_array_int(&add->skipped, change->skipped);
    ef__pg_array_int(&add->digests_a, (int64_t)digest[0]);
    ef__pg_array_int(&add->digests_b, (int64_t)digest[1]);
}

ef_status vp_send_counts(ef__pg_conn *conn, const ef__views_commit *commit, const vp_sorted *sorted,
                         int64_t now_us, ef_error *err)
{
    struct vp_generation_count add = {.shard = PQbackendPID(conn->pg) % SHARDS,
                                      .updated_us = now_us};
    size_t at = 0;

    for (size_t i = 0; i < commit->generation_count; i++)
        add_count(&add, sorted->generations[i], sorted, &at);
    return vp_send_generation_count(conn, &add, err);
}
