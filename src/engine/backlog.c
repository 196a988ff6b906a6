/*
 * backlog.c - what is left for workers to do, and what they cannot do (ef_engine_backlog).
 *
 * Everything is derived from the stores, so that the answer covers the work of other processes too.
 */
#include "publish.h"
#include "tenant.h"
#include "workset.h"

#include <everfold/run.h>

#include <stdlib.h>

#define RUNS_MAX 100

static void note_due(ef_backlog *out, int64_t due_us)
{
    if (out->due_us == 0 || due_us < out->due_us)
        out->due_us = due_us;
}

/* --- generations ------------------------------------------------------------------------------ */

/* Tenants of a log-ordered generation that have a cursor of their own: they fail, or catch up. */
static ef_status add_tenants(ef_engine *e, const ef__generation *g, ef_backlog *out, ef_error *err)
{
    ef__tenant_cursor_list list = {0};
    bool catching_up = false;
    ef_status st = e->views->ops->tenant_cursor_ls(e->views, g->id, INT64_MAX,
                                                   (size_t)g->own_cursors, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__tenant_cursor *cursor = &list.items[i].cursor;
        catching_up = catching_up || cursor->attempts == 0;
        if (cursor->attempts == 0) {
            out->behind_events += cursor->waiting;
            continue;
        }
        out->tenants++;
        out->blocked += cursor->waiting;
        note_due(out, cursor->due_us);
    }
    out->behind += catching_up;
    ef__tenant_cursor_list_release(&list);
    return st;
}

static ef_status add_generation(ef_engine *e, const ef__generation *g, int64_t head,
                                ef_backlog *out, ef_error *err)
{
    bool behind = g->state == EF__GENERATION_CATCHING_UP ||
                  (g->state == EF__GENERATION_LIVE && g->by_log && g->position < head);

    if (g->state == EF__GENERATION_FAILED)
        out->failed++;
    else if (behind && ef__function_missing(e, g))
        out->no_function++;
    else if (behind) {
        out->behind++;
        out->behind_events += head > g->position ? head - g->position : 0;
    }
    return ef__generation_by_cursor(g) && g->own_cursors && !ef__function_missing(e, g)
               ? add_tenants(e, g, out, err)
               : EF_OK;
}

static ef_status add_generations(ef_engine *e, const ef__generation_list *list, ef_backlog *out,
                                 ef_error *err)
{
    ef_head head = {0};
    ef_status st = ef_journal_head(e->journal, &head, err);

    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        st = add_generation(e, &list->items[i], head.position, out, err);
    return st;
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* Rows of a projection's lane wait for its paused generations as well. */
static bool has_paused(const ef__generation_list *list, ef_str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].name, name) &&
            list->items[i].state == EF__GENERATION_PAUSED)
            return true;
    return false;
}

/* The rows of a projection's lane: what failed, and what is blocked behind it. A row that is due
 * is a worker's to claim. */
static void add_retry_rows(const ef_outbox_summary *s, bool paused, int64_t now_us, ef_backlog *out)
{
    const ef_row *oldest = s->oldest.count ? &s->oldest.items[0] : NULL;
    bool is_pending = oldest && oldest->status == EF_ROW_PENDING;

    out->retrying += s->failed;
    out->dead += s->dead;
    if (paused)
        return;
    if (oldest && oldest->next_attempt_us <= now_us)
        out->queued++;
    else if (is_pending)
        out->retrying++;
    if (oldest && oldest->next_attempt_us > now_us)
        note_due(out, oldest->next_attempt_us);
    out->blocked += s->pending - is_pending;
}

/* Is the sink of a publisher unavailable to this process? */
static bool sink_is_down(ef_engine *e, ef_str name)
{
    bool down = false;

    pthread_mutex_lock(&e->lock);
    for (const ef__publishing *p = e->publishers; p; p = p->next)
        if (ef_str_equal(name, ef_str_from(p->name)))
            down = p->is.state == EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&e->lock);
    return down;
}

static void add_publisher(ef_engine *e, ef_str name, const ef_outbox_summary *s, ef_backlog *out)
{
    out->retrying += s->failed;
    out->dead += s->dead;
    if (sink_is_down(e, name) || s->failed || s->dead)
        out->unpublished += s->pending + s->processing;
    else
        out->queued += s->pending + s->processing;
}

static ef_status add_lane(ef_engine *e, const ef__generation_list *list, ef_str name,
                          ef_lane_kind kind, ef_backlog *out, ef_error *err)
{
    ef_outbox_summary s = {0};
    ef_status st = ef_outbox_summarise(
        e->journal, &(ef_outbox_query){.lane = name, .any_tenant = true}, &s, err);

    if (st == EF_OK && kind == EF_LANE_KIND_APPLY)
        out->queued += s.pending + s.processing;
    else if (st == EF_OK && kind == EF_LANE_KIND_PROJECTION)
        add_retry_rows(&s, has_paused(list, name), ef__engine_now(e), out);
    else if (st == EF_OK)
        add_publisher(e, name, &s, out);
    ef_row_list_release(&s.oldest);
    return st;
}

/* Publishers of a copy wait as paused ones do. */
static ef_status is_paused(ef_engine *e, ef_str publisher, bool *out, ef_error *err)
{
    ef_publisher_list list = {0};
    int64_t copied_us = 0;
    ef_status st = ef_journal_copied(e->journal, &copied_us, err);

    if (st == EF_OK)
        st = ef_publisher_get(e->journal, publisher, &list, err);
    *out = st == EF_OK && (copied_us > 0 || list.items[0].paused);
    ef_publisher_list_release(&list);
    return st;
}

static ef_status add_lanes(ef_engine *e, const ef__generation_list *list, ef_backlog *out,
                           ef_error *err)
{
    ef_lane_list lanes = {0};
    ef_status st = ef_lane_ls(e->journal, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++) {
        const ef_lane *lane = &lanes.items[i];
        bool paused = false;
        if (lane->kind == EF_LANE_KIND_PUBLISHER && !ef__lane_is_publisher(lane))
            continue;
        if (lane->kind == EF_LANE_KIND_PUBLISHER)
            st = is_paused(e, lane->name, &paused, err);
        if (st == EF_OK && !paused)
            st = add_lane(e, list, lane->name, lane->kind, out, err);
    }
    ef_lane_list_release(&lanes);
    return st;
}

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status add_runs(ef_engine *e, ef_backlog *out, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(e->journal, true, RUNS_MAX, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        out->run_events += runs.items[i].processed;
    out->runs = (int64_t)runs.count;
    ef_run_list_release(&runs);
    return st;
}

ef_status ef_engine_backlog(ef_engine *e, ef_backlog *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    *out = (ef_backlog){0};
    st = ef__room_ready(&list.room, err);
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &list, err);
    if (st == EF_OK)
        st = add_generations(e, &list, out, err);
    if (st == EF_OK)
        st = add_lanes(e, &list, out, err);
    if (st == EF_OK)
        st = add_runs(e, out, err);
    ef__room_release(&list.room);
    return st;
}
