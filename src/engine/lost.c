/*
 * lost.c - see lost.h.
 */
#include "lost.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <string.h>

#define LOOK_BACK 64 /* events */

ef_status ef__lost_look(ef_engine *e, const ef__watermark *mark, const ef_event *event,
                        bool *out_there, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    const ef_event *at = event;
    ef_status st = EF_OK;

    if (event->seq != mark->applied_seq) {
        st = ef_journal_read_stream(e->journal, event->tenant, event->stream, mark->applied_seq, 1,
                                    &batch, err);
        at = st == EF_OK && batch.count ? &batch.events[0] : NULL;
    }
    if (at && at->seq != mark->applied_seq)
        at = NULL;
    /* One that was deleted is not lost: others do not get its place. */
    *out_there = at ? memcmp(at->hash, mark->hash, sizeof mark->hash) == 0
                    : ef__journal_is_sparse(e->journal);
    ef_batch_release(&batch);
    return st;
}

/* --- a cursor --------------------------------------------------------------------------------- */

typedef enum witness {
    WITNESS_NONE, /* the generation has not got this event, and need not have it */
    WITNESS_THERE,
    WITNESS_LOST
} witness;

static ef_status is_left_behind(ef_engine *e, const ef__generation *g, ef_str tenant, bool *out,
                                ef_error *err)
{
    ef__tenant_cursor_item item;

    *out = false;
    if (g->own_cursors == 0)
        return EF_OK;
    return e->views->ops->tenant_cursor_get(e->views, g->id, tenant, &item, out, err);
}

/* What an event at or below the cursor says. */
static ef_status ask(ef_engine *e, const ef__generation *g, const ef_event *event, witness *out,
                     ef_error *err)
{
    ef__watermark mark = {0};
    bool found, yes;
    ef_status st = e->views->ops->watermark_get(e->views, g->id, event->tenant, event->stream,
                                                &mark, &found, err);

    *out = WITNESS_NONE;
    if (st == EF_OK && mark.applied_seq >= event->seq) {
        st = ef__lost_look(e, &mark, event, &yes, err);
        *out = yes ? WITNESS_THERE : WITNESS_LOST;
    } else if (st == EF_OK && g->by_log) {
        st = is_left_behind(e, g, event->tenant, &yes, err);
        *out = yes ? WITNESS_NONE : WITNESS_LOST;
    }
    return st;
}

/* One at a time: nearly always the first has the answer. */
ef_status ef__lost_look_at_cursor(ef_engine *e, const ef__generation *g, bool *out_there,
                                  ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_head head;
    ef_status st = ef_journal_head(e->journal, &head, err);
    witness said = st == EF_OK && head.position < g->position ? WITNESS_LOST : WITNESS_NONE;

    for (int64_t p = g->position;
         st == EF_OK && said == WITNESS_NONE && p > 0 && p > g->position - LOOK_BACK; p--) {
        ef_log_query query = {.any_tenant = true, .after = p - 1, .limit = 1};
        st = ef_journal_read_log(e->journal, &query, &batch, err);
        if (st == EF_OK && batch.count && batch.events[0].position == p)
            st = ask(e, g, &batch.events[0], &said, err);
    }
    *out_there = said != WITNESS_LOST;
    ef_batch_release(&batch);
    return st;
}

ef_status ef__lost_stop(ef_engine *e, const ef__generation *g, ef_error *err)
{
    ef_error alarm = EF_ERROR_INIT;
    ef__failure failure = {.generation = g->id,
                           .position = g->position,
                           .code = EF_STR("journal_lost"),
                           .attempts = 1,
                           .open = true,
                           .recorded_us = ef__engine_now(e)};
    ef__generation_change change = {
        .generation = g->id, .era = g->era, .failures = &failure, .failure_count = 1};
    ef_status st;

    (void)ef_fail(&alarm, EF_DAMAGED,
                  "projection \"%.*s\" has read position %" PRId64
                  ", and the journal has lost what was there: rebuild the projection",
                  EF_STR_ARG(g->name), g->position);
    ef__log(e->options.log, EF_LOG_ERROR, "a projection is ahead of the journal",
            EF_LOG_TEXT_FIELD("error", ef_str_from(alarm.text)));
    failure.message = ef_str_from(alarm.text);
    st = e->views->ops->commit(
        e->views, &(ef__views_commit){.generations = &change, .generation_count = 1}, err);
    return st == EF_OK ? e->views->ops->generation_set_state(e->views, g->id, g->era,
                                                             EF__GENERATION_FAILED, err)
                       : st;
}
