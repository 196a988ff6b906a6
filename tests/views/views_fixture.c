/*
 * views_fixture.c - see views_fixture.h.
 */
#include "views_fixture.h"

#include "../../src/base/buf.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static const char *backend_asked = "memory";

static int64_t test_wall_us(void *context)
{
    return ((fixture *)context)->now_us;
}

static int64_t test_mono_us(void *context)
{
    const ef_clock *system = ef_clock_system();

    (void)context;
    return system->mono_us(system->context);
}

static void make_dir(fixture *t)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(t->dir, sizeof t->dir, "%s/everfold-views-XXXXXX", base ? base : "/tmp");

    CHECK(n > 0 && (size_t)n < sizeof t->dir);
    CHECK(mkdtemp(t->dir) != NULL);
    if (strcmp(t->backend, "lmdb") == 0)
        n = snprintf(t->url, sizeof t->url, "lmdb:%s", t->dir);
    else
        n = snprintf(t->url, sizeof t->url, "sqlite:%s/views.db", t->dir);
    CHECK(n > 0 && (size_t)n < sizeof t->url);
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char name[512];
        int n = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (n > 0 && (size_t)n < sizeof name && entry->d_name[0] != '.')
            (void)unlink(name);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
}

/* The server is the test program's own (support/postgres_server.py); what the test before has left
 * in it goes. */
static void empty_database(fixture *t)
{
    const char *url = getenv("POSTGRES_URL");
    int n = snprintf(t->url, sizeof t->url, "%s", url ? url : "");

    if (!url || n <= 0 || (size_t)n >= sizeof t->url)
        fail_msg("POSTGRES_URL is not set: run it by support/postgres_server.py");
    postgres_run(t, "DROP SCHEMA IF EXISTS everfold CASCADE");
    postgres_run(t, "DROP SCHEMA IF EXISTS everfold_views CASCADE");
}

void fixture_open(fixture *t, const char *backend)
{
    t->backend = backend;
    t->now_us = INT64_C(1767225600000000);
    t->clock = (ef_clock){test_wall_us, test_mono_us, t};
    t->arena = (ef__arena)EF__ARENA_INIT(256 * 1024 * 1024);
    if (strcmp(backend, "memory") == 0)
        (void)snprintf(t->url, sizeof t->url, "memory:");
    else if (strcmp(backend, "postgres") == 0)
        empty_database(t);
    else
        make_dir(t);
    t->options = (ef__views_options){.url = t->url, .create = true, .clock = &t->clock};
    OK(ef__views_open(&t->options, &t->views, &t->err));
}

void fixture_close(fixture *t)
{
    ef__views_close(t->views);
    t->views = NULL;
    ef__arena_release(&t->arena);
    if (t->dir[0])
        remove_dir(t->dir);
}

int fixture_setup(void **state)
{
    fixture *t = calloc(1, sizeof *t);

    if (!t)
        return -1;
    *state = t;
    fixture_open(t, backend_asked);
    return 0;
}

int fixture_teardown(void **state)
{
    fixture *t = *state;

    fixture_close(t);
    free(t);
    return 0;
}

int fixture_main(int argc, char **argv, struct CMUnitTest *tests, size_t count)
{
    char(*names)[256] = calloc(count, sizeof *names);
    int failed;

    if (!names)
        return 1;
    if (argc > 1)
        backend_asked = argv[1];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s on %s", tests[i].name, backend_asked);
        tests[i].name = names[i];
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    failed = _cmocka_run_group_tests("views", tests, count, NULL, NULL);
    free(names);
    return failed;
}

void reopen(fixture *t)
{
    ef__views_close(t->views);
    t->views = NULL;
    OK(ef__views_open(&t->options, &t->views, &t->err));
}

const char *fixture_backend(void)
{
    return backend_asked;
}

bool survives(const fixture *t)
{
    return strcmp(t->backend, "memory") != 0;
}

ef_str str(const char *text)
{
    return ef_str_from(text);
}

/* --- generations ------------------------------------------------------------------------------ */

int64_t add_generation(fixture *t, const char *name, const char *index_paths)
{
    ef__generation g = {.name = str(name),
                        .version = 1,
                        .program = str("projection"),
                        .program_hash = UINT64_C(0xfedcba9876543210),
                        .index_paths = str(index_paths),
                        .schema = 1};
    int64_t id = 0;

    OK(t->views->ops->generation_add(t->views, &g, &id, &t->err));
    CHECK(id > 0);
    return id;
}

ef__generation generation(fixture *t, int64_t id)
{
    ef__generation_list list = {0};
    ef__generation found = {0};

    OK(t->views->ops->generation_ls(t->views, str(""), &list, &t->err));
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].id == id)
            found = list.items[i];
    CHECK_INT(id, found.id);
    found.name = ef__arena_copy(&t->arena, found.name);
    found.program = ef__arena_copy(&t->arena, found.program);
    found.index_paths = ef__arena_copy(&t->arena, found.index_paths);
    EF_RELEASE(&list);
    return found;
}

size_t generation_count(fixture *t)
{
    ef__generation_list list = {0};
    size_t count;

    OK(t->views->ops->generation_ls(t->views, str(""), &list, &t->err));
    count = list.count;
    EF_RELEASE(&list);
    return count;
}

int64_t live_set(fixture *t)
{
    ef__generation_list list = {0};
    int64_t number;

    OK(t->views->ops->generation_ls(t->views, str("no such projection"), &list, &t->err));
    CHECK_INT(0, list.count);
    number = list.live_set;
    EF_RELEASE(&list);
    return number;
}

ef_status remove_generation(fixture *t, int64_t id, int64_t era)
{
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more)
        st = t->views->ops->generation_remove(t->views, id, era, 1, &more, &t->err);
    return st;
}

/* --- views ------------------------------------------------------------------------------------ */

ef__view_change change_of(fixture *t, int64_t g, const char *tenant, const char *id,
                          const char *data)
{
    ef__view_change change = {
        .view = {.tenant = str(tenant), .id = str(id), .data = str(data), .schema = 1},
        .deleted = data == NULL};
    ef__view old;
    bool found;

    OK(t->views->ops->view_get(t->views, g, str(tenant), str(id), &t->arena, &old, &found,
                               &t->err));
    if (found)
        memcpy(change.before, old.digest, sizeof change.before);
    return change;
}

ef_status commit_change(fixture *t, const ef__generation_change *change)
{
    ef__generation_change mine = *change;
    ef__views_commit commit = {.generations = &mine, .generation_count = 1};

    mine.era = generation(t, change->generation).era;
    return t->views->ops->commit(t->views, &commit, &t->err);
}

void put_view(fixture *t, int64_t g, const char *tenant, const char *id, const char *data)
{
    ef__view_change view = change_of(t, g, tenant, id, data);
    ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};

    OK(commit_change(t, &change));
}

const char *view_data(fixture *t, int64_t g, const char *tenant, const char *id)
{
    ef__view view;
    bool found;

    OK(t->views->ops->view_get(t->views, g, str(tenant), str(id), &t->arena, &view, &found,
                               &t->err));
    if (!found)
        return NULL;
    CHECK_STR(tenant, view.tenant);
    CHECK_STR(id, view.id);
    return view.data.ptr;
}

void put_indexed(fixture *t, int64_t g, const char *tenant, const char *id, const char *data,
                 const char *const *keys, int32_t count)
{
    ef__view_change view = change_of(t, g, tenant, id, data);
    ef__generation_change change = {.generation = g, .views = &view, .view_count = 1};
    ef__index_key list[16];

    view.keys = list;
    for (int32_t i = 0; i < count; i++)
        if (keys[i])
            list[view.key_count++] = (ef__index_key){i, str(keys[i])};
    OK(commit_change(t, &change));
}

ef__watermark_change watermark_to(fixture *t, int64_t g, const char *tenant, const char *stream,
                                  int64_t seq)
{
    ef__watermark_change change = {.tenant = str(tenant), .stream = str(stream)};
    bool found;

    OK(t->views->ops->watermark_get(t->views, g, str(tenant), str(stream), &change.before, &found,
                                    &t->err));
    change.after = (ef__watermark){.applied_seq = seq, .expected_next_seq = seq + 1};
    memset(change.after.hash, (int)(seq & 0x7f) + 1, sizeof change.after.hash);
    return change;
}

static bool add_digest(void *context, ef_str key, const ef__view *view)
{
    uint64_t one[2];

    (void)key;
    ef__view_digest(view, one);
    CHECK(one[0] == view->digest[0] && one[1] == view->digest[1]);
    ef__digest_add(context, one);
    return true;
}

void digest_from_scratch(fixture *t, int64_t g, uint8_t out[EF__DIGEST_BYTES])
{
    ef__view_scan scan = {.generation = g, .any_tenant = true, .index = -1};
    uint64_t sums[2] = {0, 0};

    OK(t->views->ops->view_scan(t->views, &scan, add_digest, sums, &t->err));
    ef__digest_bytes(sums, out);
}

typedef struct listing {
    ef__buf text;
    size_t left;
} listing;

static bool add_line(void *context, ef_str key, const ef__view *view)
{
    listing *l = context;

    if (l->left == 0)
        return false;
    ef__buf_add_str(&l->text, key);
    ef__buf_add_char(&l->text, '/');
    ef__buf_add_str(&l->text, view->tenant);
    ef__buf_add_char(&l->text, '/');
    ef__buf_add_str(&l->text, view->id);
    ef__buf_add_char(&l->text, ' ');
    return --l->left > 0;
}

const char *scan_text(fixture *t, const ef__view_scan *scan, size_t limit)
{
    listing l = {EF__BUF_INIT(64 * 1024 * 1024), limit};
    ef_str copy;

    OK(t->views->ops->view_scan(t->views, scan, add_line, &l, &t->err));
    CHECK(!l.text.failed);
    copy = ef__arena_copy(&t->arena, ef__buf_str(&l.text));
    ef__buf_release(&l.text);
    return copy.ptr;
}

uint32_t roll(dice *d, uint32_t sides)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(d->state >> 33) % sides;
}
