/*
 * failure.c - lists the events that projections failed on.
 */
#include "engine_priv.h"

#define FAILURES_DEFAULT 100
#define FAILURES_MAX 10000

static bool copy_failure(ef__arena *arena, const ef__generation *generation,
                         const ef__failure *from, ef_failure *to)
{
    *to = (ef_failure){.version = generation->version,
                       .generation = generation->number,
                       .tenant = ef__arena_copy(arena, from->tenant),
                       .stream = ef__arena_copy(arena, from->stream),
                       .seq = from->seq,
                       .position = from->position,
                       .event_id = ef__arena_copy(arena, from->event_id),
                       .code = ef__arena_copy(arena, from->code),
                       .message = ef__arena_copy(arena, from->message),
                       .line = from->line,
                       .attempts = from->attempts,
                       .open = from->open,
                       .recorded_us = from->recorded_us,
                       .resolved_us = from->open ? 0 : from->resolved_us};
    return to->tenant.ptr && to->stream.ptr && to->event_id.ptr && to->code.ptr && to->message.ptr;
}

/* Appends the failures of one generation. */
static ef_status add_failures(ef_engine *engine, const ef__generation *generation,
                              const ef_str *tenant, bool resolved, size_t limit, ef_failure *items,
                              ef_failure_list *out, ef_error *err)
{
    ef__failure_list found = {0};
    ef_status st = ef__memory_prepare(&found.room, err);

    if (st == EF_OK)
        st = engine->views->ops->failure_ls(engine->views, generation->id, tenant, !resolved,
                                            limit - out->count, &found, err);
    for (size_t i = 0; st == EF_OK && i < found.count; i++) {
        if (!copy_failure(&out->room->arena, generation, &found.items[i], &items[out->count]))
            st = ef__no_memory(err);
        else
            out->count++;
    }
    ef_memory_release(&found.room);
    return st;
}

ef_status ef_projection_failures_of(ef_engine *engine, ef_str name, const ef_str *tenant,
                                    bool resolved, size_t limit, ef_failure_list *out,
                                    ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *active;
    ef_failure *items;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    limit = limit ? limit : FAILURES_DEFAULT;
    if (limit > FAILURES_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d are listed", limit,
                       FAILURES_MAX);
    out->items = NULL;
    out->count = 0;
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK)
        st = ef__engine_active_generation(engine, name, &list, &active, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, limit, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
        out->items = items;
    }
    for (size_t i = 0; st == EF_OK && i < list.count && out->count < limit; i++)
        if (list.items[i].state != EF__GENERATION_RETIRED)
            st = add_failures(engine, &list.items[i], tenant, resolved, limit, items, out, err);
    ef_memory_release(&list.room);
    return st;
}

ef_status ef_projection_failures(ef_engine *engine, ef_str name, bool resolved, size_t limit,
                                 ef_failure_list *out, ef_error *err)
{
    return ef_projection_failures_of(engine, name, NULL, resolved, limit, out, err);
}
