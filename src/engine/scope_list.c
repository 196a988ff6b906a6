/*
 * scope_list.c - lists scopes: one for all tenants that share the generation's cursor, and one for
 * each tenant with its own cursor.
 */
#include "read.h"
#include "scope.h"
#include "tenant.h"
#include "view_cache.h"

#define SCOPES_SHOWN 100
#define FAILURES_LOOKED_AT 10000
#define COUNT_READS 10 /* reads of the log to count the events that a tenant waits for */

static const char *state_of(const ef__generation *generation)
{
    static const char *const NAMES[] = {"catching_up", "live", "paused", "failed", "stopping"};
    bool starts = generation->state == EF__GENERATION_CATCHING_UP && generation->position == 0 &&
                  generation->views == 0;

    return starts ? "starting" : NAMES[generation->state];
}

static const char *own_state_of(const ef_engine *engine, const ef__generation *generation,
                                const ef__tenant_cursor *cursor)
{
    if (generation->state == EF__GENERATION_PAUSED || generation->state == EF__GENERATION_RETIRED)
        return state_of(generation);
    if (cursor->attempts == 0)
        return "catching_up";
    return ef__tenant_has_failed(engine, cursor) ? "failed" : "retrying";
}

static bool name_scope(ef_scope *scope, ef_str projection, ef__arena *arena)
{
    char name[EF__SCOPE_MAX];

    ef__scope_format(scope->any_tenant ? EF_STR("*") : scope->tenant, projection, name);
    scope->name = ef__arena_copy(arena, ef_str_from(name));
    scope->tenant = ef__arena_copy(arena, scope->tenant);
    scope->error_code = ef__arena_copy(arena, scope->error_code);
    scope->error = ef__arena_copy(arena, scope->error);
    return scope->name.ptr && scope->tenant.ptr && scope->error_code.ptr && scope->error.ptr;
}

/* The scope of the generation's cursor. */
static ef_scope scope_of(const ef__generation *generation, int64_t head)
{
    return (ef_scope){.state = ef_str_from(state_of(generation)),
                      .position = generation->position,
                      .pending = head - generation->position,
                      .synced_us = generation->updated_us};
}

/* The scope of a tenant's own cursor; the event that it stopped before is among the failures. */
static ef_scope own_scope_of(const ef_engine *engine, const ef__generation *generation,
                             const ef__tenant_cursor_item *item, const ef__failure_list *failures)
{
    ef_scope scope = {.tenant = item->tenant,
                      .state = ef_str_from(own_state_of(engine, generation, &item->cursor)),
                      .position = item->cursor.position,
                      .pending = item->cursor.waiting,
                      .synced_us = item->updated_us,
                      .retries = item->cursor.attempts,
                      .next_try_us = item->cursor.attempts ? item->cursor.due_us : 0};

    for (size_t i = 0; item->cursor.attempts && i < failures->count; i++) {
        const ef__failure *f = &failures->items[i];
        if (f->position != item->cursor.position + 1 || !ef_str_equal(f->tenant, item->tenant))
            continue;
        scope.error_code = f->code;
        scope.error = f->message;
        break;
    }
    return scope;
}

ef_status ef__scopes_describe(ef_engine *engine, const ef__generation *generation,
                              const ef__failure_list *failures, int64_t head, ef__arena *arena,
                              ef_projection *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef_scope *scopes;
    ef_status st = EF_OK;

    if (ef__generation_by_queue(generation))
        return EF_OK; /* fed by the queue, which has partitions */
    if (generation->own_cursors)
        st = engine->views->ops->tenant_cursor_ls(engine->views, generation->id, INT64_MAX,
                                                  SCOPES_SHOWN, &list, err);
    scopes = ef__arena_zalloc(arena, list.count + 1, sizeof *scopes);
    if (st == EF_OK && !scopes)
        st = ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i <= list.count; i++) {
        scopes[i] = i ? own_scope_of(engine, generation, &list.items[i - 1], failures)
                      : scope_of(generation, head);
        scopes[i].any_tenant = i == 0;
        if (!name_scope(&scopes[i], generation->name, arena))
            st = ef__no_memory(err);
    }
    if (st == EF_OK) {
        out->scopes = scopes;
        out->scope_count = list.count + 1;
        out->scopes_behind = generation->own_cursors;
    }
    EF_RELEASE(&list);
    return st;
}

/* --- one tenant ------------------------------------------------------------------------------- */

/* Counts the tenant's events after a position, because no store keeps that number. */
static ef_status count_events(ef_engine *engine, ef_str tenant, int64_t after, ef_scope *scope,
                              ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    scope->pending_more = true;
    for (int i = 0; st == EF_OK && scope->pending_more && i < COUNT_READS; i++) {
        st = ef_journal_read_log(engine->journal,
                                 &(ef_log_query){.tenant = tenant,
                                                 .after = after,
                                                 .limit = EF_READ_LIMIT_MAX,
                                                 .out_reached = &after},
                                 &batch, err);
        scope->pending += st == EF_OK ? (int64_t)batch.count : 0;
        scope->pending_more = st == EF_OK && batch.more;
    }
    EF_RELEASE(&batch);
    return st;
}

/* Queue-fed: the rows queued for all projections, and the rows of the projection's lane. */
static ef_status count_rows(ef_engine *engine, ef_str lane, ef_str tenant, ef_scope *scope,
                            ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        engine->journal, &(ef_outbox_query){.lane = lane, .tenant = tenant}, &summary, err);

    if (st == EF_OK)
        scope->pending += summary.pending + summary.processing + summary.failed + summary.dead;
    EF_RELEASE(&summary.oldest);
    return st == EF_NOT_FOUND ? EF_OK : st; /* the lane has no row yet */
}

static ef_status queue_scope(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                             ef_scope *out, ef_error *err)
{
    ef_status st = ef__engine_as_of(engine, generation, &tenant, &out->position, err);

    out->pending = 0;
    if (st == EF_OK)
        st = count_rows(engine, EF_STR(EF_LANE_APPLY), tenant, out, err);
    return st == EF_OK ? count_rows(engine, generation->name, tenant, out, err) : st;
}

static ef_status cursor_scope(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                              ef_scope *out, ef__failure_list *failures, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found = false;
    ef_status st = EF_OK;

    if (generation->own_cursors)
        st = engine->views->ops->tenant_cursor_get(engine->views, generation->id, tenant, &item,
                                                   &found, err);
    if (st == EF_OK && found)
        st = engine->views->ops->failure_ls(engine->views, generation->id, &tenant, true,
                                            FAILURES_LOOKED_AT, failures, err);
    if (st == EF_OK && found)
        *out = own_scope_of(engine, generation, &item, failures);
    else
        out->pending = 0;
    return st == EF_OK ? count_events(engine, tenant, generation->position, out, err) : st;
}

ef_status ef_projection_scope(ef_engine *engine, ef_str name, ef_str tenant, ef_scope_list *out,
                              ef_error *err)
{
    ef__generation_list list = {0};
    ef__failure_list failures = {0};
    const ef__generation *generation = NULL;
    ef_scope *scope = NULL;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    out->items = NULL;
    out->count = 0;
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK)
        st = ef__engine_active_generation(engine, name, &list, &generation, err);
    if (st == EF_OK) {
        scope = ef__arena_alloc(&out->room->arena, sizeof *scope);
        st = scope ? EF_OK : ef__no_memory(err);
    }
    if (st == EF_OK) {
        *scope = scope_of(generation, generation->position);
        st = ef__generation_by_queue(generation)
                 ? queue_scope(engine, generation, tenant, scope, err)
                 : cursor_scope(engine, generation, tenant, scope, &failures, err);
    }
    if (st == EF_OK) {
        scope->tenant = tenant;
        st = name_scope(scope, generation->name, &out->room->arena) ? EF_OK : ef__no_memory(err);
    }
    out->items = scope;
    out->count = st == EF_OK;
    EF_RELEASE(&failures);
    ef_memory_release(&list.room);
    return st;
}
