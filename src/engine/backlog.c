/*
 * backlog.c - the work that is left, and the work that is blocked (ef_engine_backlog).
 *
 * Everything is derived from the stores, so the result includes the work of other processes.
 */
#include "publish.h"
#include "tenant.h"
#include "view_cache.h"

#include <everfold/run.h>

#include <stdlib.h>

#define RUNS_MAX 100

static void set_earliest_due(ef_backlog *out, int64_t due_us)
{
    if (out->due_us == 0 || due_us < out->due_us)
        out->due_us = due_us;
}

/* --- generations ------------------------------------------------------------------------------ */

/* Tenants of a log-ordered generation with their own cursor: they fail, or catch up. */
static ef_status add_tenants(ef_engine *engine, const ef__generation *generation, ef_backlog *out,
                             ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    bool catching_up = false;
    ef_status st = engine->views->ops->tenant_cursor_ls(
        engine->views, generation->id, INT64_MAX, (size_t)generation->own_cursors, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__tenant_cursor *cursor = &list.items[i].cursor;
        catching_up = catching_up || cursor->attempts == 0;
        if (cursor->attempts == 0) {
            out->behind_events += cursor->waiting;
            continue;
        }
        out->tenants++;
        out->blocked += cursor->waiting;
        set_earliest_due(out, cursor->due_us);
    }
    out->behind += catching_up;
    ef__tenant_cursor_list_release(&list);
    return st;
}

static ef_status add_generation(ef_engine *engine, const ef__generation *generation, int64_t head,
                                ef_backlog *out, ef_error *err)
{
    bool behind = generation->state == EF__GENERATION_CATCHING_UP ||
                  (generation->state == EF__GENERATION_LIVE && generation->by_log &&
                   generation->position < head);

    if (generation->state == EF__GENERATION_FAILED)
        out->failed++;
    else if (behind && ef__c_function_missing(engine, generation))
        out->no_function++;
    else if (behind) {
        out->behind++;
        out->behind_events += head > generation->position ? head - generation->position : 0;
    }
    return ef__generation_by_cursor(generation) && generation->own_cursors &&
                   !ef__c_function_missing(engine, generation)
               ? add_tenants(engine, generation, out, err)
               : EF_OK;
}

static ef_status add_generations(ef_engine *engine, const ef__generation_list *list,
                                 ef_backlog *out, ef_error *err)
{
    ef_head head = {0};
    ef_status st = ef_journal_head(engine->journal, &head, err);

    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        st = add_generation(engine, &list->items[i], head.position, out, err);
    return st;
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* Rows of a projection's lane are kept for its paused generations too. */
static bool has_paused(const ef__generation_list *list, ef_str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].name, name) &&
            list->items[i].state == EF__GENERATION_PAUSED)
            return true;
    return false;
}

/* The rows of a projection's lane: failed rows, and rows blocked behind them. A due row can be
 * claimed, so it counts as queued. */
static void add_retry_rows(const ef_outbox_summary *summary, bool paused, int64_t now_us,
                           ef_backlog *out)
{
    const ef_row *oldest = summary->oldest.count ? &summary->oldest.items[0] : NULL;
    bool is_pending = oldest && oldest->status == EF_ROW_PENDING;

    out->retrying += summary->failed;
    out->dead += summary->dead;
    if (paused)
        return;
    if (oldest && oldest->next_attempt_us <= now_us)
        out->queued++;
    else if (is_pending)
        out->retrying++;
    if (oldest && oldest->next_attempt_us > now_us)
        set_earliest_due(out, oldest->next_attempt_us);
    out->blocked += summary->pending - is_pending;
}

/* Is the sink of a publisher unavailable to this process? */
static bool sink_is_down(ef_engine *engine, ef_str name)
{
    bool down = false;

    pthread_mutex_lock(&engine->publishers.health_lock);
    for (const ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next)
        if (ef_str_equal(name, ef_str_from(publisher->name)))
            down = publisher->health.state == EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&engine->publishers.health_lock);
    return down;
}

static void add_publisher(ef_engine *engine, ef_str name, const ef_outbox_summary *summary,
                          ef_backlog *out)
{
    out->retrying += summary->failed;
    out->dead += summary->dead;
    if (sink_is_down(engine, name) || summary->failed || summary->dead)
        out->unpublished += summary->pending + summary->processing;
    else
        out->queued += summary->pending + summary->processing;
}

static ef_status add_lane(ef_engine *engine, const ef__generation_list *list, ef_str name,
                          ef_lane_kind kind, ef_backlog *out, ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        engine->journal, &(ef_outbox_query){.lane = name, .any_tenant = true}, &summary, err);

    if (st == EF_OK && kind == EF_LANE_KIND_APPLY)
        out->queued += summary.pending + summary.processing;
    else if (st == EF_OK && kind == EF_LANE_KIND_PROJECTION)
        add_retry_rows(&summary, has_paused(list, name), ef__engine_now(engine), out);
    else if (st == EF_OK)
        add_publisher(engine, name, &summary, out);
    ef_row_list_release(&summary.oldest);
    return st;
}

/* Publishers of a copied journal are treated as paused. */
static ef_status is_paused(ef_engine *engine, ef_str publisher, bool *out, ef_error *err)
{
    ef_publisher_list list = {0};
    int64_t copied_us = 0;
    ef_status st = ef_journal_copied(engine->journal, &copied_us, err);

    if (st == EF_OK)
        st = ef_publisher_get(engine->journal, publisher, &list, err);
    *out = st == EF_OK && (copied_us > 0 || list.items[0].paused);
    ef_publisher_list_release(&list);
    return st;
}

static ef_status add_lanes(ef_engine *engine, const ef__generation_list *list, ef_backlog *out,
                           ef_error *err)
{
    ef_lane_list lanes = {0};
    ef_status st = ef_lane_ls(engine->journal, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++) {
        const ef_lane *lane = &lanes.items[i];
        bool paused = false;
        if (lane->kind == EF_LANE_KIND_PUBLISHER && !ef__lane_is_publisher(lane))
            continue;
        if (lane->kind == EF_LANE_KIND_PUBLISHER)
            st = is_paused(engine, lane->name, &paused, err);
        if (st == EF_OK && !paused)
            st = add_lane(engine, list, lane->name, lane->kind, out, err);
    }
    ef_lane_list_release(&lanes);
    return st;
}

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status add_runs(ef_engine *engine, ef_backlog *out, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(engine->journal, true, RUNS_MAX, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        out->run_events += runs.items[i].processed;
    out->runs = (int64_t)runs.count;
    ef_run_list_release(&runs);
    return st;
}

ef_status ef_engine_backlog(ef_engine *engine, ef_backlog *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = (ef_backlog){0};
    st = ef__engine_generations(engine, (ef_str){0}, &list, err);
    if (st == EF_OK)
        st = add_generations(engine, &list, out, err);
    if (st == EF_OK)
        st = add_lanes(engine, &list, out, err);
    if (st == EF_OK)
        st = add_runs(engine, out, err);
    ef_memory_release(&list.room);
    return st;
}
