/*
 * scope_list.c - what there is to say about scopes: one for all tenants that go by the generation's
 * cursor, and one for each that goes by its own.
 */
#include "route.h"
#include "scope.h"
#include "tenant.h"
#include "workset.h"

#define SCOPES_SHOWN 100
#define FAILURES_LOOKED_AT 10000
#define COUNT_READS 10 /* of the log, to count what a tenant waits for */

static const char *state_of(const ef__generation *g)
{
    static const char *const NAMES[] = {"catching_up", "live", "paused", "failed", "stopping"};
    bool starts = g->state == EF__GENERATION_CATCHING_UP && g->position == 0 && g->views == 0;

    return starts ? "starting" : NAMES[g->state];
}

static const char *own_state_of(const ef_engine *e, const ef__generation *g,
                                const ef__tenant_cursor *cursor)
{
    if (g->state == EF__GENERATION_PAUSED || g->state == EF__GENERATION_RETIRED)
        return state_of(g);
    if (cursor->attempts == 0)
        return "catching_up";
    return ef__tenant_has_failed(e, cursor) ? "failed" : "retrying";
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

/* By the generation's cursor. */
static ef_scope scope_of(const ef__generation *g, int64_t head)
{
    return (ef_scope){.state = ef_str_from(state_of(g)),
                      .position = g->position,
                      .pending = head - g->position,
                      .synced_us = g->updated_us};
}

/* By its own; what it stands before is among the failures. */
static ef_scope own_scope_of(const ef_engine *e, const ef__generation *g,
                             const ef__tenant_cursor_item *item, const ef__failure_list *failures)
{
    ef_scope scope = {.tenant = item->tenant,
                      .state = ef_str_from(own_state_of(e, g, &item->cursor)),
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

ef_status ef__scopes_describe(ef_engine *e, const ef__generation *g,
                              const ef__failure_list *failures, int64_t head, ef__arena *arena,
                              ef_projection *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    ef_scope *scopes;
    ef_status st = EF_OK;

    if (ef__generation_by_queue(g))
        return EF_OK; /* the queue feeds it, by partitions */
    if (g->own_cursors)
        st = e->views->ops->tenant_cursor_ls(e->views, g->id, INT64_MAX, SCOPES_SHOWN, &list, err);
    scopes = ef__arena_zalloc(arena, list.count + 1, sizeof *scopes);
    if (st == EF_OK && !scopes)
        st = ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i <= list.count; i++) {
        scopes[i] = i ? own_scope_of(e, g, &list.items[i - 1], failures) : scope_of(g, head);
        scopes[i].any_tenant = i == 0;
        if (!name_scope(&scopes[i], g->name, arena))
            st = ef__room_full(err);
    }
    if (st == EF_OK) {
        out->scopes = scopes;
        out->scope_count = list.count + 1;
        out->scopes_behind = g->own_cursors;
    }
    ef__tenant_cursor_list_release(&list);
    return st;
}

/* --- one tenant --------------------------------------------------------------------------------
 */

/* The tenant's events behind a position: counted, for nobody keeps that number. */
static ef_status count_events(ef_engine *e, ef_str tenant, int64_t after, ef_scope *scope,
                              ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    scope->pending_more = true;
    for (int i = 0; st == EF_OK && scope->pending_more && i < COUNT_READS; i++) {
        st = ef_journal_read_log(e->journal,
                                 &(ef_log_query){.tenant = tenant,
                                                 .after = after,
                                                 .limit = EF_READ_LIMIT_MAX,
                                                 .out_reached = &after},
                                 &batch, err);
        scope->pending += st == EF_OK ? (int64_t)batch.count : 0;
        scope->pending_more = st == EF_OK && batch.more;
    }
    ef_batch_release(&batch);
    return st;
}

/* The queue's: what is queued for all, and what waits in the projection's own lane. */
static ef_status count_rows(ef_engine *e, ef_str lane, ef_str tenant, ef_scope *scope,
                            ef_error *err)
{
    ef_outbox_summary s = {0};
    ef_status st = ef_outbox_summarise(e->journal,
                                       &(ef_outbox_query){.lane = lane, .tenant = tenant}, &s, err);

    if (st == EF_OK)
        scope->pending += s.pending + s.processing + s.failed + s.dead;
    ef_row_list_release(&s.oldest);
    return st == EF_NOT_FOUND ? EF_OK : st; /* nothing has failed there yet */
}

static ef_status queue_scope(ef_engine *e, const ef__generation *g, ef_str tenant, ef_scope *out,
                             ef_error *err)
{
    ef_status st = ef__engine_as_of(e, g, &tenant, &out->position, err);

    out->pending = 0;
    if (st == EF_OK)
        st = count_rows(e, EF_STR(EF_LANE_APPLY), tenant, out, err);
    return st == EF_OK ? count_rows(e, g->name, tenant, out, err) : st;
}

static ef_status cursor_scope(ef_engine *e, const ef__generation *g, ef_str tenant, ef_scope *out,
                              ef__failure_list *failures, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found = false;
    ef_status st = EF_OK;

    if (g->own_cursors)
        st = e->views->ops->tenant_cursor_get(e->views, g->id, tenant, &item, &found, err);
    if (st == EF_OK && found)
        st = e->views->ops->failure_ls(e->views, g->id, &tenant, true, FAILURES_LOOKED_AT, failures,
                                       err);
    if (st == EF_OK && found)
        *out = own_scope_of(e, g, &item, failures);
    else
        out->pending = 0;
    return st == EF_OK ? count_events(e, tenant, g->position, out, err) : st;
}

ef_status ef_projection_scope(ef_engine *e, ef_str name, ef_str tenant, ef_scope_list *out,
                              ef_error *err)
{
    ef__generation_list list = {0};
    ef__failure_list failures = {0};
    const ef__generation *g = NULL;
    ef_scope *scope = NULL;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    out->items = NULL;
    out->count = 0;
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK)
        st = ef__engine_routed(e, name, &list, &g, err);
    if (st == EF_OK) {
        scope = ef__arena_alloc(&out->room->arena, sizeof *scope);
        st = scope ? EF_OK : ef__room_full(err);
    }
    if (st == EF_OK) {
        *scope = scope_of(g, g->position);
        st = ef__generation_by_queue(g) ? queue_scope(e, g, tenant, scope, err)
                                        : cursor_scope(e, g, tenant, scope, &failures, err);
    }
    if (st == EF_OK) {
        scope->tenant = tenant;
        st = name_scope(scope, g->name, &out->room->arena) ? EF_OK : ef__room_full(err);
    }
    out->items = scope;
    out->count = st == EF_OK;
    ef__failure_list_release(&failures);
    ef__room_release(&list.room);
    return st;
}

void ef_scope_list_release(ef_scope_list *list)
{
    if (!list)
        return;
    ef__room_release(&list->room);
    *list = (ef_scope_list){0};
}
