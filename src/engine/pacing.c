/*
 * pacing.c - see pacing.h.
 */
#include "pacing.h"

#define LIVE_US 1000000  /* work counts as live for this long after the last change */
#define STUCK_US 2000000 /* a row that is the oldest for this long is not claimed by any worker */

/* The oldest queued row: its position and age; 0: none. */
static ef_status read_oldest_row(ef_engine *engine, int64_t *out_position, int64_t *out_age_us,
                                 ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        engine->journal,
        &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1}, &rows,
        err);

    *out_position = *out_age_us = 0;
    if (st == EF_OK && rows.count) {
        *out_position = rows.items[0].position;
        *out_age_us = ef__engine_now(engine) - rows.items[0].enqueued_us;
    }
    ef_row_list_release(&rows);
    return st;
}

/* Has the journal grown, or the queue moved, within LIVE_US? */
static bool is_live(ef__pacing *pacing, int64_t head, int64_t oldest, int64_t now_us)
{
    bool moved =
        pacing->is_measured && (head != pacing->head || (oldest && oldest != pacing->oldest));

    if (oldest != pacing->oldest || !pacing->is_measured)
        pacing->oldest_since_us = now_us;
    if (moved)
        pacing->moved_us = now_us;
    pacing->is_live = moved || (pacing->is_live && now_us - pacing->moved_us < LIVE_US);
    pacing->head = head;
    pacing->oldest = oldest;
    pacing->is_measured = true;
    return pacing->is_live && !(oldest && now_us - pacing->oldest_since_us > STUCK_US);
}

ef_status ef__pacing_update(ef_engine *engine, size_t step_events, int64_t step_us, ef_error *err)
{
    ef__pacing *pacing = &engine->cursor.pacing;
    int64_t now_us = ef__engine_mono_us(engine), oldest, age_us;
    ef_head head;
    ef_status st = ef_journal_head(engine->journal, &head, err);

    if (st == EF_OK)
        st = read_oldest_row(engine, &oldest, &age_us, err);
    if (st == EF_OK)
        pacing->pace = ef__pace_decide(
            pacing->pace, &(ef__pace_seen){.objective_us = engine->options.live_lag_ms * 1000,
                                           .live = is_live(pacing, head.position, oldest, now_us),
                                           .lag_us = age_us,
                                           .step_events = step_events,
                                           .step_us = step_us});
    return st;
}
