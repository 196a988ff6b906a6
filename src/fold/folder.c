/*
 * folder.c - applies one event after the other.
 *
 * For an event: find the handlers of its type; upcast its data to the newest schema; run the first
 * handler whose `when` holds; then keep its changes, or undo them. The stamp of the event
 * identifies the views that it touched and wrote.
 */
#include "folder.h"

#include "folder_priv.h"

#include "../base/limits.h"
#include "../base/same.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static ef_status select_view(ef__eval *ev, ef_str view_id, ef__target **out)
{
    ef__decoded_view *view;
    ef_status st = ef__folder_touch((ef__folder *)ev, view_id, &view);

    if (st == EF_OK)
        *out = &view->target;
    return st;
}

static ef_status lookup_view(ef__eval *ev, ef_str projection, ef_str view_id, ef_str *out)
{
    ef__folder *folder = (ef__folder *)ev;
    ef__stored_view stored = {.found = false};

    *out = (ef_str){NULL, 0};
    if (!folder->options.lookup)
        return EF_OK;
    ef_status st = folder->options.lookup(folder->options.context, projection, ev->event->tenant,
                                          view_id, &stored, ev->err);
    if (st != EF_OK || !stored.found)
        return st;
    /* The tree points into its text, which the next lookup may overwrite. */
    *out = ef__arena_copy(ev->arena, stored.data);
    return out->ptr ? EF_OK : ef__eval_no_memory(ev);
}

static const ef__eval_ops folder_ops = {.select = select_view, .lookup = lookup_view};

/* The most memos any block of the program has. */
static int32_t memo_count(const ef__program *program)
{
    int32_t most = 0;

    for (const ef__handler *handler = program->handlers; handler; handler = handler->next)
        most = handler->block.memo_count > most ? handler->block.memo_count : most;
    for (const ef__step *step = program->migrations; step; step = step->next)
        most = step->block.memo_count > most ? step->block.memo_count : most;
    return most;
}

ef_status ef__folder_open(const ef__folder_options *options, ef__folder **out, ef_error *err)
{
    ef__folder *folder = calloc(1, sizeof(*folder));
    size_t max_bytes = options->max_bytes ? options->max_bytes : EF_FOLD_LIMIT_FOLDER_BYTES;
    const ef__program *program = options->program;
    size_t memos = program ? (size_t)memo_count(program) : 0;

    *out = NULL;
    if (!folder)
        return ef_fail(err, EF_NO_MEMORY, "no memory for a folder");
    folder->options = *options;
    if (program && program->fn) { /* only the head of such a program counts, and not for folding */
        folder->options.fn = program->fn;
        folder->options.fn_context = program->fn_context;
        program = NULL;
    }
    folder->program = program;
    folder->heap = (ef__heap)EF__HEAP_INIT(max_bytes);
    folder->changes.heap = folder->loading.heap = &folder->heap;
    folder->arena = (ef__arena)EF__ARENA_INIT(EF_FOLD_LIMIT_EVENT_ARENA_BYTES);
    folder->load_arena = (ef__arena)EF__ARENA_INIT(EF_FOLD_LIMIT_EVENT_ARENA_BYTES);
    folder->text = (ef__buf)EF__BUF_INIT(4 * EF_FOLD_LIMIT_VIEW_BYTES);
    folder->memos = calloc(memos + 1, sizeof(*folder->memos));
    folder->ev.slots = calloc(EF_FOLD_LIMIT_SLOTS, sizeof(*folder->ev.slots));
    if (!folder->memos || !folder->ev.slots) {
        ef__folder_close(folder);
        return ef_fail(err, EF_NO_MEMORY, "no memory for a folder");
    }
    folder->ev.ops = &folder_ops;
    folder->ev.arena = &folder->arena;
    folder->ev.changes = &folder->changes;
    folder->ev.source = folder->program ? folder->program->source : EF_STR("");
    *out = folder;
    return EF_OK;
}

void ef__folder_close(ef__folder *folder)
{
    if (!folder)
        return;
    ef__heap_release(&folder->heap);
    ef__changes_release(&folder->changes);
    ef__changes_release(&folder->loading);
    ef__arena_release(&folder->arena);
    ef__arena_release(&folder->load_arena);
    ef__buf_release(&folder->text);
    free(folder->map);
    free(folder->changed);
    free(folder->touched);
    free(folder->memos);
    free(folder->ev.slots);
    free(folder);
}

void ef__folder_begin(ef__folder *folder, const ef_event *event, ef_error *err)
{
    ef__eval *ev = &folder->ev;

    ev->event = event;
    ev->schema = event->schema ? event->schema : 1;
    ev->data = ev->meta = ev->time = EF__MISSING;
    ev->data_bytes = 0;
    ev->data_read = ev->data_peeked = ev->meta_read = ev->fatal = false;
    ev->view = NULL;
    ev->stamp++;
    ev->steps_left = EF_FOLD_LIMIT_STEPS;
    ev->output_left = EF_FOLD_LIMIT_OUTPUT_BYTES;
    ev->lookups_left = EF_FOLD_LIMIT_EVENT_LOOKUPS;
    ev->memos = NULL;
    ev->line = 0;
    ev->err = err;
    folder->touched_count = 0;
    folder->ignored = false;
    folder->where = NULL;
}

/* Runs upcasts until none applies; each one raises the version, so the loop ends. Data that is to
 * be changed is copied into the heap first. */
static ef_status run_upcasts(ef__folder *folder)
{
    ef__eval *ev = &folder->ev;
    const ef__step *all = folder->program->upcasts;
    const ef__step *upcast = ef__step_from(all, ev->type, ev->schema);
    ef__value owned;

    if (!upcast)
        return EF_OK;
    folder->where = "upcast";
    ef_status st = ef__eval_data(ev);
    if (st == EF_OK)
        st = ef__value_store(&folder->heap, ev->data, &owned, ev->err);
    ev->fatal |= st == EF_NO_MEMORY;
    if (st != EF_OK)
        return st;
    ev->data = owned;
    ev->data_bytes = (int64_t)ef__value_size(owned);
    for (; st == EF_OK && upcast; upcast = ef__step_from(all, ev->type, ev->schema)) {
        st = ef__run_block(ev, &upcast->block);
        ev->schema = upcast->to;
    }
    return st;
}

static ef_status select_own_view(ef__folder *folder)
{
    ef__eval *ev = &folder->ev;
    ef__value *memos = ev->memos;
    ef_str view_id;

    ev->memos = NULL;
    ef_status st = ef__eval_view_id(ev, folder->program->view_id, &view_id);
    ev->memos = memos;
    return st == EF_OK ? select_view(ev, view_id, &ev->view) : st;
}

static ef_status run_handler(ef__folder *folder, const ef__handler *handler, bool *out_applied)
{
    ef__eval *ev = &folder->ev;
    bool wanted = true;
    ef_status st = EF_OK;

    folder->where = "handler";
    ev->memos = folder->memos;
    ef__eval_fresh(ev, &handler->block);
    if (handler->when) {
        if (handler->when_uses_view && !ev->view)
            st = select_own_view(folder);
        if (st == EF_OK)
            st = ef__eval_truth(ev, handler->when, &wanted);
    }
    if (st != EF_OK || !wanted)
        return st;
    if (handler->uses_view && !ev->view)
        st = select_own_view(folder);
    if (st == EF_OK)
        st = ef__run_block(ev, &handler->block);
    *out_applied = true;
    return st;
}

static bool reserve_changed(ef__folder *folder)
{
    size_t needed = folder->changed_count + folder->touched_count;

    if (needed <= folder->changed_cap)
        return true;
    size_t cap = needed < 512 ? 1024 : 2 * needed;
    ef__decoded_view **changed = realloc(folder->changed, cap * sizeof(ef__decoded_view *));
    if (!changed)
        return false;
    folder->changed = changed;
    folder->changed_cap = cap;
    return true;
}

static ef_status commit_event(ef__folder *folder, const ef_event *event)
{
    if (!reserve_changed(folder)) {
        folder->ev.fatal = true;
        return ef_fail(folder->ev.err, EF_NO_MEMORY, "no memory for the list of changed views");
    }
    ef__changes_keep(&folder->changes);
    for (size_t i = 0; i < folder->touched_count; i++) {
        ef__decoded_view *view = folder->touched[i].view;
        if (view->target.written_by != folder->ev.stamp)
            continue;
        if (!view->changed)
            folder->changed[folder->changed_count++] = view;
        view->changed = true;
        view->position = event->position;
        view->seq = event->seq;
    }
    return EF_OK;
}

static void undo_event(ef__folder *folder)
{
    ef__changes_undo(&folder->changes, 0);
    for (size_t i = 0; i < folder->touched_count; i++)
        folder->touched[i].view->target.bytes = folder->touched[i].bytes;
}

/* handler order.placed, line 9: data.amount is "x": += needs a number */
static void add_location(ef__folder *folder, ef_error *error)
{
    char what[EF_ERROR_TEXT_MAX];
    char line[24] = "";
    ef_str name = folder->program ? folder->where_name : folder->ev.event->type;

    if (name.len > 100)
        name.len = 100;
    (void)snprintf(what, sizeof(what), "%s", error->text);
    if (folder->ev.line && folder->program)
        (void)snprintf(line, sizeof(line), ", line %" PRIu32, folder->ev.line);
    (void)ef_fail(error, error->status, "%s %.*s%s: %s", folder->where, EF_STR_ARG(name), line,
                  what[0] ? what : ef_status_describe(error->status)->message);
}

/* The route of events of a type; NULL for a C projection. */
static const ef__type_route *find_route(ef__folder *folder, ef_str stored)
{
    if (folder->program && !(folder->route && ef__str_same(folder->route->stored, stored)))
        folder->route = ef__program_route(folder->program, stored);
    return folder->route;
}

/* Starts a new event, with the type that its handlers see. */
static void begin_event(ef__folder *folder, const ef_event *event, ef_error *err)
{
    ef__folder_begin(folder, event, err);
    folder->ev.type = folder->where_name = event->type;
    if (folder->route && folder->route->type.ptr)
        folder->ev.type = folder->where_name = folder->route->type;
}

ef_status ef__folder_apply(ef__folder *folder, const ef_event *event, ef__outcome *outcome,
                           ef_error *err)
{
    const ef__type_route *route = find_route(folder, event->type);
    size_t at = 0;
    const ef__handler *first = route ? ef__route_next(route, event->type, &at) : NULL;
    bool applied = false;
    ef_status st;

    outcome->result = EF__FOLD_IGNORED;
    outcome->line = 0;
    outcome->error.status = EF_OK;
    outcome->error.text[0] = '\0';
    if (route && !first)
        return EF_OK;
    begin_event(folder, event, &outcome->error);
    if (route) {
        st = route->upcasts ? run_upcasts(folder) : EF_OK;
        for (; st == EF_OK && !applied && first; first = ef__route_next(route, event->type, &at))
            st = run_handler(folder, first, &applied);
    } else {
        folder->where = "C handler";
        st = folder->options.fn((ef_fold *)folder, event, folder->options.fn_context,
                                &outcome->error);
        applied = !folder->ignored;
    }
    if (st == EF_OK && applied)
        st = commit_event(folder, event);
    if (st != EF_OK || !applied)
        undo_event(folder);
    if (folder->ev.data.home == EF__HOME_HEAP)
        ef__value_release(&folder->heap, folder->ev.data);
    ef__arena_reset(&folder->arena);
    if (st == EF_OK) {
        outcome->result = applied ? EF__FOLD_APPLIED : EF__FOLD_IGNORED;
        return EF_OK;
    }
    if (folder->ev.fatal)
        return ef_fail(err, st, "%s", outcome->error.text);
    outcome->result = EF__FOLD_FAILED;
    outcome->line = folder->ev.line;
    outcome->error.status = st;
    add_location(folder, &outcome->error);
    return EF_OK;
}

ef_status ef__folder_seen(ef__folder *folder, const ef_event *event, ef__buf *out,
                          int64_t *out_schema, ef_error *err)
{
    const ef__type_route *route = find_route(folder, event->type);
    ef__eval *ev = &folder->ev;
    ef_error why = EF_ERROR_INIT;
    ef_status st = EF_OK;
    bool changed = false;

    *out_schema = event->schema ? event->schema : 1;
    if (route && route->upcasts) {
        begin_event(folder, event, &why);
        st = run_upcasts(folder);
        changed = st == EF_OK && ev->data.home == EF__HOME_HEAP;
        if (changed) {
            *out_schema = ev->schema;
            st = ef__value_print(ev->data, out, &why);
        }
        /* The changes of upcasts are forgotten while the data exists: none is undone later. */
        undo_event(folder);
        if (ev->data.home == EF__HOME_HEAP)
            ef__value_release(&folder->heap, ev->data);
        ev->data = EF__MISSING;
        ef__arena_reset(&folder->arena);
        if (st != EF_OK && (ev->fatal || changed))
            return ef_fail(err, st, "%s", why.text);
    }
    if (!changed)
        ef__buf_add_str(out, event->data.len ? event->data : EF_STR("{}"));
    return out->failed ? ef_fail(err, EF_TOO_LARGE, "the event's data is too large") : EF_OK;
}

ef_str ef__folder_foresee(ef__folder *folder, const ef_event *event)
{
    const ef__type_route *route = find_route(folder, event->type);
    ef_error ignored = EF_ERROR_INIT;
    ef_str id = {0};
    size_t at = 0;

    ef__arena_reset(&folder->arena);
    if (!route || route->upcasts || !ef__route_next(route, event->type, &at))
        return id;
    begin_event(folder, event, &ignored);
    if (ef__eval_view_id(&folder->ev, folder->program->view_id, &id) != EF_OK)
        id = (ef_str){0};
    return id;
}

int64_t ef__folder_steps(const ef__folder *folder)
{
    return EF_FOLD_LIMIT_STEPS - folder->ev.steps_left;
}

ef_status ef__folder_next(ef__folder *folder, size_t *at, ef__folded_view *out, ef_error *err)
{
    *out = (ef__folded_view){.deleted = false};
    while (*at < folder->changed_count) {
        const ef__decoded_view *view = folder->changed[(*at)++];
        bool deleted = view->target.root.kind == EF__VALUE_MISSING;
        if (deleted && !view->existed)
            continue;
        ef__buf_reset(&folder->text);
        if (!deleted) {
            ef_status st = ef__value_print(view->target.root, &folder->text, err);
            if (st != EF_OK)
                return st;
            assert((size_t)view->target.bytes == folder->text.len);
        }
        *out = (ef__folded_view){
            .tenant = {view->names, view->tenant_len},
            .view_id = {view->names + view->tenant_len, view->id_len},
            .deleted = deleted,
            .existed = view->existed,
            .data = deleted ? EF_STR("") : ef__buf_str(&folder->text),
            .position = view->position,
            .seq = view->seq,
            .schema = folder->program ? folder->program->schema : 1,
        };
        return EF_OK;
    }
    return EF_OK;
}

size_t ef__folder_changed(const ef__folder *folder)
{
    return folder->changed_count;
}

void ef__folder_settle(ef__folder *folder)
{
    for (size_t i = 0; i < folder->changed_count; i++) {
        ef__decoded_view *view = folder->changed[i];
        view->changed = false;
        view->existed = view->target.root.kind != EF__VALUE_MISSING;
    }
    folder->changed_count = 0;
}

void ef__folder_reset(ef__folder *folder)
{
    ef__heap_reset(&folder->heap);
    if (folder->map)
        memset(folder->map, 0, folder->map_cap * sizeof(ef__decoded_view *));
    folder->view_count = 0;
    folder->changed_count = 0;
    folder->touched_count = 0;
}

size_t ef__folder_bytes(const ef__folder *folder)
{
    return folder->heap.bytes + folder->map_cap * sizeof(ef__decoded_view *);
}
