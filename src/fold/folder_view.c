/*
 * folder_view.c - finding views: the map of decoded views, loading and migrating one.
 */
#include "folder_priv.h"

#include "../base/hash.h"
#include "../base/limits.h"
#include "../base/same.h"

#include <inttypes.h>
#include <stdlib.h>

static ef_status report_fatal(ef__folder *folder, ef_status status, const char *what)
{
    folder->ev.fatal = true;
    return ef_fail(folder->ev.err, status, "%s", what);
}

/* Tenant and id are hashed and compared apart: no pair of them can be glued into another. */
static uint64_t hash_names(ef_str tenant, ef_str view_id)
{
    return ef__xxh3(view_id, tenant.len ? ef__xxh3(tenant, 1) : 0);
}

static bool has_names(const ef__decoded_view *view, uint64_t hash, ef_str tenant, ef_str view_id)
{
    return view->hash == hash && view->tenant_len == tenant.len && view->id_len == view_id.len &&
           ef__bytes_same(view->names + tenant.len, view_id.ptr, view_id.len) &&
           ef__bytes_same(view->names, tenant.ptr, tenant.len);
}

static void map_add(ef__decoded_view **map, size_t cap, ef__decoded_view *view)
{
    size_t i = view->hash & (cap - 1);

    while (map[i])
        i = (i + 1) & (cap - 1);
    map[i] = view;
}

static bool map_grow(ef__folder *folder)
{
    size_t cap = folder->map_cap ? 2 * folder->map_cap : 1024;
    ef__decoded_view **map = calloc(cap, sizeof(ef__decoded_view *));

    if (!map)
        return false;
    for (size_t i = 0; i < folder->map_cap; i++)
        if (folder->map[i])
            map_add(map, cap, folder->map[i]);
    free(folder->map);
    folder->map = map;
    folder->map_cap = cap;
    return true;
}

static ef__decoded_view *make_view(ef__folder *folder, uint64_t hash, ef_str tenant, ef_str view_id)
{
    ef__decoded_view *view =
        ef__heap_alloc(&folder->heap, sizeof(*view) + tenant.len + view_id.len);

    if (!view)
        return NULL;
    *view = (ef__decoded_view){
        .hash = hash, .tenant_len = (uint8_t)tenant.len, .id_len = (uint8_t)view_id.len};
    view->target.root = EF__MISSING;
    if (tenant.len)
        memcpy(view->names, tenant.ptr, tenant.len);
    memcpy(view->names + tenant.len, view_id.ptr, view_id.len);
    return view;
}

static void drop_view(ef__folder *folder, ef__decoded_view *view)
{
    ef__value_release(&folder->heap, view->target.root);
    ef__heap_free(&folder->heap, view, sizeof(*view) + view->tenant_len + view->id_len);
}

/* Migrates a stored view of an older schema to that of the program. A migration reads only the
 * view, so the result does not depend on the event that caused it. The event pays for its steps. */
static ef_status migrate_view(ef__folder *folder, ef__decoded_view *view, int64_t schema)
{
    ef__eval *ev = &folder->ev;
    ef__eval saved = *ev;
    const char *where = folder->where;
    const ef__step *migration;
    ef__value slots[EF_FOLD_LIMIT_SLOTS];
    ef_status st = EF_OK;

    ev->changes = &folder->loading;
    ev->view = &view->target;
    ev->slots = slots;
    ev->memos = NULL;
    folder->where = "migrate";
    while (st == EF_OK && schema < folder->program->schema &&
           (migration = ef__step_from(folder->program->migrations, EF_STR(""), schema)) != NULL) {
        st = ef__run_block(ev, &migration->block);
        schema = migration->to;
    }
    if (st == EF_OK) {
        ef__changes_keep(&folder->loading);
        folder->where = where;
    } else {
        ef__changes_undo(&folder->loading, 0);
    }
    saved.steps_left = ev->steps_left;
    saved.output_left = ev->output_left;
    saved.fatal = ev->fatal;
    saved.line = ev->line;
    *ev = saved;
    return st;
}

static ef_status decode_view(ef__folder *folder, ef__decoded_view *view,
                             const ef__stored_view *stored)
{
    ef_error err = EF_ERROR_INIT;
    ef__json *json;
    ef_str id = {view->names + view->tenant_len, view->id_len};
    int64_t schema = stored->schema ? stored->schema : 1;

    ef__arena_reset(&folder->load_arena);
    ef_status st = ef__json_parse(stored->data, 2 * EF_FOLD_LIMIT_VIEW_BYTES, &folder->load_arena,
                                  &json, &err);
    if (st == EF_OK && json->kind != EF__JSON_OBJECT)
        st = ef_fail(&err, EF_BAD_JSON, "it is not an object");
    if (st == EF_OK)
        st = ef__value_store(&folder->heap, ef__value_from_json(json), &view->target.root, &err);
    if (st != EF_OK) {
        folder->ev.fatal = true;
        return ef_fail(folder->ev.err, st == EF_NO_MEMORY ? st : EF_DAMAGED,
                       "the stored view '%.*s' cannot be read: %s", EF_STR_ARG(id), err.text);
    }
    view->existed = true;
    view->target.bytes = (int64_t)ef__value_size(view->target.root);
    if (folder->program && schema < folder->program->schema)
        return migrate_view(folder, view, schema);
    return EF_OK;
}

static ef_status load_view(ef__folder *folder, ef__decoded_view *view, ef_str tenant,
                           ef_str view_id)
{
    ef__stored_view stored = {.found = false};

    if (!folder->options.load)
        return EF_OK;
    ef_status st =
        folder->options.load(folder->options.context, tenant, view_id, &stored, folder->ev.err);
    if (st != EF_OK) {
        folder->ev.fatal = true;
        return st;
    }
    return stored.found ? decode_view(folder, view, &stored) : EF_OK;
}

bool ef__folder_holds(const ef__folder *folder, ef_str tenant, ef_str view_id)
{
    uint64_t hash = hash_names(tenant, view_id);

    for (size_t i = hash & (folder->map_cap - 1); folder->map_cap && folder->map[i];
         i = (i + 1) & (folder->map_cap - 1))
        if (has_names(folder->map[i], hash, tenant, view_id))
            return true;
    return false;
}

ef_status ef__folder_view(ef__folder *folder, ef_str tenant, ef_str view_id, ef__decoded_view **out)
{
    uint64_t hash = hash_names(tenant, view_id);

    for (size_t i = hash & (folder->map_cap - 1); folder->map_cap && folder->map[i];
         i = (i + 1) & (folder->map_cap - 1))
        if (has_names(folder->map[i], hash, tenant, view_id)) {
            *out = folder->map[i];
            return EF_OK;
        }
    if (2 * (folder->view_count + 1) > folder->map_cap && !map_grow(folder))
        return report_fatal(folder, EF_NO_MEMORY, "no memory for the map of views");
    ef__decoded_view *view = make_view(folder, hash, tenant, view_id);
    if (!view)
        return report_fatal(folder, EF_NO_MEMORY, "no memory for a view");
    ef_status st = load_view(folder, view, tenant, view_id);
    if (st != EF_OK) {
        drop_view(folder, view);
        return st;
    }
    map_add(folder->map, folder->map_cap, view);
    folder->view_count++;
    *out = view;
    return EF_OK;
}

ef_status ef__folder_touch(ef__folder *folder, ef_str view_id, ef__decoded_view **out)
{
    ef_status st = ef__folder_view(folder, folder->ev.event->tenant, view_id, out);

    if (st != EF_OK || (*out)->touched_by == folder->ev.stamp)
        return st;
    if (folder->touched_count == EF_FOLD_LIMIT_EVENT_VIEWS)
        return ef_fail(folder->ev.err, EF_TOO_LARGE, "more than %d views for one event",
                       EF_FOLD_LIMIT_EVENT_VIEWS);
    if (folder->touched_count == folder->touched_cap) {
        size_t cap = folder->touched_cap ? 2 * folder->touched_cap : 16;
        ef__touched *touched = realloc(folder->touched, cap * sizeof(*touched));
        if (!touched)
            return report_fatal(folder, EF_NO_MEMORY, "no memory for the views of an event");
        folder->touched = touched;
        folder->touched_cap = cap;
    }
    folder->touched[folder->touched_count++] = (ef__touched){*out, (*out)->target.bytes};
    (*out)->touched_by = folder->ev.stamp;
    return EF_OK;
}

/* --- migrating one for its own sake ----------------------------------------------------------- */

ef_status ef__folder_migrate(ef__folder *folder, ef_str view_id, const ef__stored_view *stored,
                             ef_str *out_data, ef_error *err)
{
    static const ef_event none = {0}; /* a migration sees no event */
    ef_error error = EF_ERROR_INIT;
    ef__decoded_view *view = make_view(folder, 0, EF_STR(""), view_id);
    ef_status st;

    *out_data = EF_STR("");
    if (!view)
        return ef_fail(err, EF_NO_MEMORY, "no memory for a view");
    ef__folder_begin(folder, &none, &error);
    st = decode_view(folder, view, stored);
    if (st == EF_OK) {
        ef__buf_reset(&folder->text);
        st = ef__value_print(view->target.root, &folder->text, err);
        *out_data = ef__buf_str(&folder->text);
    } else if (folder->ev.fatal) {
        (void)ef_fail(err, st, "%s", error.text);
    } else {
        st = ef_fail(err, EF_BAD_INPUT,
                     "view \"%.*s\" cannot be migrated: line %" PRIu32 " of the program: %s",
                     EF_STR_ARG(view_id), folder->ev.line, error.text);
    }
    drop_view(folder, view);
    ef__arena_reset(&folder->arena);
    return st;
}
