/*
 * projection_list.c - lists projections and their scopes: one scope for all tenants that share the
 * generation's cursor, and one for each tenant with its own cursor.
 */
#include "read.h"
#include "lag.h"
#include "queue.h"
#include "scope.h"

#include "../base/hash.h"

#define FAILURES_COUNTED_MAX 10000
#define SCOPES_SHOWN 100
#define COUNT_READS 10 /* reads of the log to count the events that a tenant waits for */

/* --- scopes of a generation ------------------------------------------------------------------- */

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

static ef_status name_scope(ef_scope *scope, ef_str projection, ef__arena *arena, ef_error *err)
{
    char name[EF__SCOPE_MAX];

    ef__scope_format(scope->any_tenant ? EF_STR("*") : scope->tenant, projection, name);
    scope->name = ef_str_from(name);
    return ef__arena_own(arena, err, &scope->name, &scope->tenant, &scope->error_code,
                         &scope->error, NULL);
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

static ef_status describe_scopes(ef_engine *engine, const ef__generation *generation,
                                 const ef__failure_list *failures, int64_t head, ef__arena *arena,
                                 ef_projection *out, ef_error *err)
{
    EF__AUTO(ef__tenant_cursor_list) list = {0};
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
        st = name_scope(&scopes[i], generation->name, arena, err);
    }
    if (st == EF_OK) {
        out->scopes = scopes;
        out->scope_count = list.count + 1;
        out->scopes_behind = generation->own_cursors;
    }
    return st;
}

/* --- projections ------------------------------------------------------------------------------ */

static const char *state_name(ef__generation_state state)
{
    static const char *const names[] = {"catching_up", "live", "paused", "failed", "retired"};

    return names[state];
}

/* The age of the first event at or after a position; 0: no such event. */
static ef_status age_at(ef_engine *engine, int64_t position, int64_t *out, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(
        engine->journal, &(ef_log_query){.any_tenant = true, .after = position - 1, .limit = 1},
        &batch, err);

    *out = st == EF_OK && batch.count ? ef__engine_now(engine) - batch.events[0].recorded_us : 0;
    return st;
}

/* State of the journal that all items of a list share. */
typedef struct journal_now {
    ef_head head;
    int64_t queued;
} journal_now;

/* Lag proceeds without an operator; blocked work is counted separately, with its own age. */
static ef_status describe_lag(ef_engine *engine, const ef__generation *generation,
                              const journal_now *now, ef_projection *out, ef_error *err)
{
    ef__lag lag;
    int64_t head = now->head.position, lags, queued;
    ef_status st = ef__lag_read(engine, generation, NULL, true, &lag, err);

    if (st != EF_OK)
        return st;
    queued = ef__lag_queued_open(generation, &lag, head, now->queued);
    if (generation->by_log)
        lags = head - generation->position + generation->own_waiting - lag.blocked;
    else if (ef__generation_by_queue(generation))
        lags = queued + lag.proceeding;
    else
        lags = head - ef__generation_done(generation) - lag.blocked;
    out->position = lag.as_of;
    out->reached = ef__lag_reached(&lag);
    out->lag_events = lags > 0 ? lags : 0;
    out->blocked_streams = lag.blocked_streams;
    out->blocked_events = lag.blocked;
    out->quarantined = lag.dead_streams;
    out->unaccounted = ef__lag_unaccounted(generation, &lag, head, queued);
    if (out->lag_events) {
        int64_t first = lag.delivered + 1;
        st = age_at(engine, first < lag.proceeds_from ? first : lag.proceeds_from, &out->lag_us,
                    err);
    }
    if (st == EF_OK && lag.blocked_from)
        st = age_at(engine, lag.blocked_from, &out->blocked_us, err);
    return st;
}

/* A superseded generation has no retry rows: what it lacks and is not queued is blocked. */
static void describe_superseded(const ef__generation *generation, const journal_now *now,
                                ef_projection *out)
{
    int64_t lacks = now->head.position - ef__generation_done(generation) - now->queued;

    out->blocked_events = lacks > 0 ? lacks : 0;
    out->unaccounted = 0;
}

static ef_status describe_generation(ef_engine *engine, const ef__generation_list *list,
                                     const ef__generation *generation, const journal_now *now,
                                     ef__arena *arena, ef_projection *out, ef_error *err)
{
    EF__AUTO(ef__failure_list) failures = {0};
    bool migrates = false;
    ef_status st = EF_OK;

    *out = (ef_projection){.name = ef__arena_copy(arena, generation->name),
                           .version = generation->version,
                           .generation = generation->number,
                           .by_log = generation->by_log,
                           .active = generation->active,
                           .state = ef_str_from(state_name(generation->state)),
                           .views = generation->views,
                           .applied = generation->applied,
                           .ignored = generation->ignored,
                           .skipped = generation->skipped,
                           .skips_errors = generation->on_error == EF_ON_ERROR_SKIP,
                           .no_function = ef__c_function_missing(engine, generation),
                           .program = ef__arena_copy(arena, generation->program)};
    ef__hex(generation->digest, sizeof generation->digest, out->digest);
    if (generation->state == EF__GENERATION_CATCHING_UP)
        st = ef__generation_migrates(engine, generation, &migrates, err);
    if (migrates)
        out->state = EF_STR("migrating");
    if (st == EF_OK)
        st = describe_lag(engine, generation, now, out, err);
    if (st == EF_OK && ef__generation_by_queue(generation) &&
        !ef__generation_keeps_rows(list, generation))
        describe_superseded(generation, now, out);
    if (st == EF_OK)
        st = engine->views->ops->failure_ls(engine->views, generation->id, NULL, true,
                                            FAILURES_COUNTED_MAX, &failures, err);
    out->failures = (int64_t)failures.count;
    if (st == EF_OK)
        st = describe_scopes(engine, generation, &failures, now->head.position, arena, out, err);
    return st == EF_OK && (!out->name.ptr || !out->program.ptr) ? ef__no_memory(err) : st;
}

/* The items are sorted by name, then number. */
static void put_active_first(ef_projection *items, size_t count)
{
    size_t first = 0; /* item of the name */

    for (size_t i = 0; i < count; i++) {
        if (!ef_str_equal(items[i].name, items[first].name))
            first = i;
        if (!items[i].active || i == first)
            continue;
        ef_projection active = items[i];
        memmove(&items[first + 1], &items[first], (i - first) * sizeof *items);
        items[first] = active;
    }
}

ef_status ef_projection_ls(ef_engine *engine, ef_str name, ef_projection_list *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_projection *items = NULL;
    journal_now now = {0};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    st = ef__list_prepare(out, err);
    if (st == EF_OK)
        st = ef__engine_generations(engine, name, &list, err);
    if (st == EF_OK && name.len && !list.count)
        st = ef__projection_unknown(engine, name, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, list.count + 1, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
    }
    out->items = items;
    if (st == EF_OK)
        st = ef_journal_head(engine->journal, &now.head, err);
    if (st == EF_OK)
        st = ef__lag_queued(engine, &now.queued, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].state == EF__GENERATION_RETIRED)
            continue;
        st = describe_generation(engine, &list, &list.items[i], &now, &out->room->arena,
                                 &items[out->count], err);
        out->count += st == EF_OK;
    }
    put_active_first(items, out->count);
    return st;
}

/* --- one tenant ------------------------------------------------------------------------------- */

/* Counts the tenant's events after a position, because no store keeps that number. */
static ef_status count_events(ef_engine *engine, ef_str tenant, int64_t after, ef_scope *scope,
                              ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
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
    bool found;
    ef_status st = ef__tenant_cursor_read(engine, generation, tenant, &item, &found, err);

    if (st == EF_OK && found)
        st = engine->views->ops->failure_ls(engine->views, generation->id, &tenant, true,
                                            FAILURES_COUNTED_MAX, failures, err);
    if (st == EF_OK && found)
        *out = own_scope_of(engine, generation, &item, failures);
    else
        out->pending = 0;
    return st == EF_OK ? count_events(engine, tenant, generation->position, out, err) : st;
}

ef_status ef_projection_scope(ef_engine *engine, ef_str name, ef_str tenant, ef_scope_list *out,
                              ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    EF__AUTO(ef__failure_list) failures = {0};
    const ef__generation *generation = NULL;
    ef_scope *scope = NULL;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    st = ef__list_prepare(out, err);
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
        st = name_scope(scope, generation->name, &out->room->arena, err);
    }
    out->items = scope;
    out->count = st == EF_OK;
    return st;
}
