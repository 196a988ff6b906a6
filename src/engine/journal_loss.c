/*
 * journal_loss.c - see journal_loss.h.
 */
#include "journal_loss.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <string.h>

#define WITNESSES_MAX 64 /* events */

ef_status ef__journal_loss_check(ef_engine *engine, const ef__watermark *watermark,
                                 const ef_event *event, bool *out_present, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    const ef_event *at = event;
    ef_status st = EF_OK;

    if (event->seq != watermark->applied_seq) {
        st = ef_journal_read_stream(engine->journal, event->tenant, event->stream,
                                    watermark->applied_seq, 1, &batch, err);
        at = st == EF_OK && batch.count ? &batch.events[0] : NULL;
    }
    if (at && at->seq != watermark->applied_seq)
        at = NULL;
    /* A deleted message is not lost: its place is not given to another one. */
    *out_present = at ? memcmp(at->hash, watermark->hash, sizeof watermark->hash) == 0
                      : ef__journal_is_sparse(engine->journal);
    EF_RELEASE(&batch);
    return st;
}

/* --- cursors ---------------------------------------------------------------------------------- */

typedef enum witness {
    WITNESS_NONE, /* the generation has not applied this event, so it proves nothing */
    WITNESS_THERE,
    WITNESS_LOST
} witness;

static ef_status is_left_behind(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                                bool *out, ef_error *err)
{
    ef__tenant_cursor_item item;

    *out = false;
    if (generation->own_cursors == 0)
        return EF_OK;
    return engine->views->ops->tenant_cursor_get(engine->views, generation->id, tenant, &item, out,
                                                 err);
}

/* Compares an event at or below the cursor with the watermark of its stream. */
static ef_status read_witness(ef_engine *engine, const ef__generation *generation,
                              const ef_event *event, witness *out, ef_error *err)
{
    ef__watermark watermark = {0};
    bool found, yes;
    ef_status st = engine->views->ops->watermark_get(engine->views, generation->id, event->tenant,
                                                     event->stream, &watermark, &found, err);

    *out = WITNESS_NONE;
    if (st == EF_OK && watermark.applied_seq >= event->seq) {
        st = ef__journal_loss_check(engine, &watermark, event, &yes, err);
        *out = yes ? WITNESS_THERE : WITNESS_LOST;
    } else if (st == EF_OK && generation->by_log) {
        st = is_left_behind(engine, generation, event->tenant, &yes, err);
        *out = yes ? WITNESS_NONE : WITNESS_LOST;
    }
    return st;
}

/* One event at a time: nearly always the first one decides. */
ef_status ef__journal_loss_check_cursor(ef_engine *engine, const ef__generation *generation,
                                        bool *out_present, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);
    witness proof =
        st == EF_OK && head.position < generation->position ? WITNESS_LOST : WITNESS_NONE;

    for (int64_t p = generation->position;
         st == EF_OK && proof == WITNESS_NONE && p > 0 && p > generation->position - WITNESSES_MAX;
         p--) {
        ef_log_query query = {.any_tenant = true, .after = p - 1, .limit = 1};
        st = ef_journal_read_log(engine->journal, &query, &batch, err);
        if (st == EF_OK && batch.count && batch.events[0].position == p)
            st = read_witness(engine, generation, &batch.events[0], &proof, err);
    }
    *out_present = proof != WITNESS_LOST;
    EF_RELEASE(&batch);
    return st;
}

ef_status ef__journal_loss_stop(ef_engine *engine, const ef__generation *generation, ef_error *err)
{
    ef_error alarm = EF_ERROR_INIT;
    ef__failure failure = {.generation = generation->id,
                           .position = generation->position,
                           .code = EF_STR("journal_lost"),
                           .attempts = 1,
                           .open = true,
                           .recorded_us = ef__engine_now(engine)};
    ef__generation_change change = {.generation = generation->id,
                                    .era = generation->era,
                                    .failures = &failure,
                                    .failure_count = 1};
    ef_status st;

    (void)ef_fail(&alarm, EF_DAMAGED,
                  "projection \"%.*s\" has read position %" PRId64
                  ", and the journal has lost events before it: rebuild the projection",
                  EF_STR_ARG(generation->name), generation->position);
    ef__log(engine->options.log, EF_LOG_ERROR, "projection is ahead of the journal",
            EF_LOG_TEXT_FIELD("error", ef_str_from(alarm.text)));
    failure.message = ef_str_from(alarm.text);
    st = engine->views->ops->commit(
        engine->views, &(ef__views_commit){.generations = &change, .generation_count = 1}, err);
    return st == EF_OK ? engine->views->ops->generation_set_state(engine->views, generation->id,
                                                                  generation->era,
                                                                  EF__GENERATION_FAILED, err)
                       : st;
}
