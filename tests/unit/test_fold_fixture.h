/*
 * test_fold_fixture.h - a folder with a store of a few views, for the tests of folders.
 */
#ifndef TEST_FOLD_FIXTURE_H
#define TEST_FOLD_FIXTURE_H

#include "test.h"

#include "../../src/fold/folder.h"

#include <stdlib.h>

enum { VIEWS = 256 };

typedef struct stored {
    char id[64];
    char *data;
} stored;

typedef struct fixture {
    ef__program *program;
    ef__folder *folder;
    stored views[VIEWS];
    size_t count;
    int loads;
    ef_status load_status;
} fixture;

static inline stored *find(fixture *f, ef_str id)
{
    for (size_t i = 0; i < f->count; i++)
        if (ef_str_equal(ef_str_from(f->views[i].id), id))
            return &f->views[i];
    return NULL;
}

static inline ef_status load(void *context, ef_str tenant, ef_str id, ef__stored_view *out,
                             ef_error *err)
{
    fixture *f = context;
    const stored *v = find(f, id);

    (void)tenant;
    f->loads++;
    if (f->load_status != EF_OK)
        return ef_fail(err, f->load_status, "the store is away");
    if (v && v->data)
        *out = (ef__stored_view){true, ef_str_from(v->data), 1};
    return EF_OK;
}

/* `max_bytes` as in the folder's options: 0 for the usual. */
static inline void open_within(fixture *f, const char *text, size_t max_bytes)
{
    static ef__diagnostics diagnostics;
    ef_error err = EF_ERROR_INIT;

    memset(f, 0, sizeof(*f));
    CHECK_STATUS(
        EF_OK, ef__program_compile(EF_STR("p"), ef_str_from(text), &f->program, &diagnostics, &err),
        &err);
    ef__folder_options options = {
        .program = f->program, .load = load, .context = f, .max_bytes = max_bytes};
    CHECK_STATUS(EF_OK, ef__folder_open(&options, &f->folder, &err), &err);
}

static inline void open_program(fixture *f, const char *text)
{
    open_within(f, text, 0);
}

static inline void open_function(fixture *f, ef_fold_fn fn)
{
    ef_error err = EF_ERROR_INIT;

    memset(f, 0, sizeof(*f));
    ef__folder_options options = {.fn = fn, .load = load, .context = f};
    CHECK_STATUS(EF_OK, ef__folder_open(&options, &f->folder, &err), &err);
}

static inline void tear_down(fixture *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->views[i].data);
    ef__folder_close(f->folder);
    ef__program_close(f->program);
}

static inline void put(fixture *f, ef_str id, ef_str data)
{
    stored *v = find(f, id);

    if (!v) {
        CHECK(f->count < VIEWS);
        v = &f->views[f->count++];
        (void)snprintf(v->id, sizeof(v->id), "%.*s", EF_STR_ARG(id));
    }
    free(v->data);
    v->data = data.len ? strndup(data.ptr, data.len) : NULL;
}

static inline void write_views(fixture *f)
{
    ef__folded_view view;

    for (size_t at = 0;;) {
        CHECK_STATUS(EF_OK, ef__folder_next(f->folder, &at, &view, NULL), NULL);
        if (view.view_id.len == 0)
            break;
        put(f, view.view_id, view.data);
    }
}

static inline ef_event event_of(const char *type, const char *stream, const char *data,
                                int64_t position)
{
    return (ef_event){.stream = ef_str_from(stream),
                      .type = ef_str_from(type),
                      .schema = 1,
                      .seq = position,
                      .position = position,
                      .time_us = INT64_C(1789000000000000),
                      .data = ef_str_from(data)};
}

static inline ef__fold_result apply(fixture *f, const char *type, const char *data,
                                    ef__outcome *outcome)
{
    ef_error err = EF_ERROR_INIT;
    ef_event event = event_of(type, "s", data, 1);

    CHECK_STATUS(EF_OK, ef__folder_apply(f->folder, &event, outcome, &err), &err);
    return outcome->result;
}

static inline const char *view_text(fixture *f, const char *id)
{
    stored *v = find(f, ef_str_from(id));

    return v && v->data ? v->data : "none";
}

/* Counts, sums, lists and sets by stream; `fan` writes to many views, `d` deletes. */
static const char counting[] = "projection p version 1\n\non e\n  n += 1\n  total += data.x\n"
                               "  list push data.x keep 5\n  seen add data.k\n  by[data.k] += 1\n"
                               "on d\n  delete\n"
                               "on fan\n  for k in data.ks view k\n    n += 1\n";

#endif
