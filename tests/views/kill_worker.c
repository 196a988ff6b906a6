/*
 * kill_worker.c - commits until it is killed; or checks the result.
 *
 *     kill_worker write URL     every commit moves all counters, the cursor and a watermark by one
 *     kill_worker check URL     prints where they are; fails unless all are at the same number
 *     kill_worker synced URL    20 such commits; lazy: 20 that may be lost in a power cut
 */
#include "../../src/views/views.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { VIEWS = 200, FEW_COMMITS = 20 };

static char ids[VIEWS][24], data[VIEWS][64], keys[VIEWS][24];

static int fail(const char *what, const ef_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, ef_status_describe(err->status)->name, err->text);
    return 1;
}

static int64_t find_or_add(ef_views *views, ef__generation *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef__generation g = {.name = EF_STR("p"), .program = EF_STR(""), .index_paths = EF_STR("n")};
    int64_t id = 0;

    if (views->ops->generation_ls(views, g.name, &list, err) == EF_OK && list.count > 0) {
        *out = list.items[0];
        id = out->id;
    }
    EF_RELEASE(&list);
    if (id == 0 && !views->read_only && views->ops->generation_add(views, &g, &id, err) == EF_OK)
        return find_or_add(views, out, err);
    return id;
}

/* The view as the `n`th commit writes it; some come and go. */
static ef__view_change change_at(int i, int64_t n)
{
    ef__view_change change = {.view = {.schema = 1}};

    (void)snprintf(ids[i], sizeof ids[i], "v%03d", i);
    (void)snprintf(data[i], sizeof data[i], "{\"n\":%" PRId64 "}", n);
    change.view.id = ef_str_from(ids[i]);
    change.view.data = ef_str_from(data[i]);
    change.deleted = i % 10 == 9 && n % 2 == 1;
    return change;
}

static ef_status commit_one(ef_views *views, const ef__generation *g, int64_t n, bool lazy,
                            ef_error *err)
{
    static ef__view_change changes[VIEWS];
    static ef__index_key index_keys[VIEWS];
    ef__watermark_change watermark = {
        .stream = EF_STR("s"), .before = {n, n > 0 ? n + 1 : 0, {0}}, .after = {n + 1, n + 2, {0}}};
    ef__generation_change change = {.generation = g->id,
                                    .era = g->era,
                                    .cursor_before = n,
                                    .cursor_after = n + 1,
                                    .applied = 1,
                                    .views = changes,
                                    .view_count = VIEWS,
                                    .watermarks = &watermark,
                                    .watermark_count = 1};
    ef__views_commit commit = {.no_sync = lazy, .generations = &change, .generation_count = 1};

    for (int i = 0; i < VIEWS; i++) {
        ef__view_change old = change_at(i, n);
        uint64_t digest[2] = {0, 0};
        if (n > 0 && !old.deleted)
            ef__view_digest(&old.view, digest);
        changes[i] = change_at(i, n + 1);
        memcpy(changes[i].before, digest, sizeof digest);
        (void)snprintf(keys[i], sizeof keys[i], "%010" PRId64, n + 1);
        index_keys[i] = (ef__index_key){0, ef_str_from(keys[i])};
        changes[i].keys = &index_keys[i];
        changes[i].key_count = changes[i].deleted ? 0 : 1;
    }
    return views->ops->commit(views, &commit, err);
}

static int write_on(ef_views *views, int64_t commits, bool lazy)
{
    ef_error err = EF_ERROR_INIT;
    ef__generation g = {0};

    if (find_or_add(views, &g, &err) == 0)
        return fail("generation", &err);
    for (int64_t n = g.position; n < g.position + commits; n++)
        if (commit_one(views, &g, n, lazy, &err) != EF_OK)
            return fail("commit", &err);
    return 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

typedef struct seen {
    int64_t n;
    int64_t views, wrong;
    uint64_t digest[2];
} seen;

static bool look_at(void *context, ef_str key, const ef__view *view)
{
    seen *s = context;
    char expected[64], expected_key[24];
    uint64_t one[2];

    (void)snprintf(expected, sizeof expected, "{\"n\":%" PRId64 "}", s->n);
    (void)snprintf(expected_key, sizeof expected_key, "%010" PRId64, s->n);
    s->views++;
    s->wrong += !ef_str_equal(view->data, ef_str_from(expected));
    s->wrong += key.len > 0 && !ef_str_equal(key, ef_str_from(expected_key));
    ef__view_digest(view, one);
    ef__digest_add(s->digest, one);
    return true;
}

static int check(ef_views *views)
{
    ef_error err = EF_ERROR_INIT;
    ef__generation g = {0};
    ef__watermark watermark;
    bool found;
    uint8_t digest[EF__DIGEST_BYTES];

    if (find_or_add(views, &g, &err) == 0) {
        printf("0\n");
        return 0;
    }
    seen by_id = {.n = g.position}, by_key = {.n = g.position};
    ef__view_scan scan = {.generation = g.id, .index = -1};
    if (views->ops->view_scan(views, &scan, look_at, &by_id, &err) != EF_OK)
        return fail("scan", &err);
    scan.index = 0;
    if (views->ops->view_scan(views, &scan, look_at, &by_key, &err) != EF_OK)
        return fail("index", &err);
    if (views->ops->watermark_get(views, g.id, EF_STR(""), EF_STR("s"), &watermark, &found, &err) !=
        EF_OK)
        return fail("watermark", &err);
    ef__digest_bytes(by_id.digest, digest);
    printf("%" PRId64 "\n", g.position);
    if (by_id.wrong || by_key.wrong || by_id.views != g.views || by_key.views != g.views ||
        watermark.applied_seq != g.position || g.applied != g.position ||
        memcmp(digest, g.digest, sizeof digest) != 0) {
        fprintf(stderr,
                "at %" PRId64 ": %" PRId64 " views, %" PRId64 " by id, %" PRId64 " by key, %" PRId64
                " wrong, watermark %" PRId64 "\n",
                g.position, g.views, by_id.views, by_key.views, by_id.wrong + by_key.wrong,
                watermark.applied_seq);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    ef_error err = EF_ERROR_INIT;
    ef_views *views = NULL;
    const char *what = argc > 1 ? argv[1] : "";
    int rc;

    if (argc != 3)
        return 2;
    if (ef__views_open(&(ef__views_options){.url = argv[2], .create = true}, &views, &err) != EF_OK)
        return fail("open", &err);
    if (strcmp(what, "write") == 0)
        rc = write_on(views, INT64_MAX / 2, false);
    else if (strcmp(what, "check") == 0)
        rc = check(views);
    else
        rc = write_on(views, FEW_COMMITS, strcmp(what, "lazy") == 0);
    ef__views_close(views);
    return rc;
}
