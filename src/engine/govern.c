/*
 * govern.c - see govern.h.
 */
#include "govern.h"

#define LIVE_US 1000000  /* live work may come again so long after the last */
#define STUCK_US 2000000 /* a row that is the oldest for so long is taken by nobody */

/* The oldest row that is queued: its position and how long it has waited; 0 when there is none. */
static ef_status look_at_queue(ef_engine *e, int64_t *out_position, int64_t *out_age_us,
                               ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1}, &rows,
        err);

    *out_position = *out_age_us = 0;
    if (st == EF_OK && rows.count) {
        *out_position = rows.items[0].position;
        *out_age_us = ef__engine_now(e) - rows.items[0].enqueued_us;
    }
    ef_row_list_release(&rows);
    return st;
}

/* Has the journal grown, or the queue moved, a moment ago? */
static bool is_live(ef__governor *g, int64_t head, int64_t oldest, int64_t now_us)
{
    bool moved = g->looked && (head != g->head || (oldest && oldest != g->oldest));

    if (oldest != g->oldest || !g->looked)
        g->oldest_since_us = now_us;
    if (moved)
        g->moved_us = now_us;
    g->live = moved || (g->live && now_us - g->moved_us < LIVE_US);
    g->head = head;
    g->oldest = oldest;
    g->looked = true;
    return g->live && !(oldest && now_us - g->oldest_since_us > STUCK_US);
}

ef_status ef__govern(ef_engine *e, size_t step_events, int64_t step_us, ef_error *err)
{
    ef__governor *g = &e->governor;
    int64_t now_us = e->options.clock->mono_us(e->options.clock->context), oldest, age_us;
    ef_head head;
    ef_status st = ef_journal_head(e->journal, &head, err);

    if (st == EF_OK)
        st = look_at_queue(e, &oldest, &age_us, err);
    if (st == EF_OK)
        g->pace = ef__pace_decide(
            g->pace, &(ef__pace_seen){.objective_us = e->options.live_lag_ms * 1000,
                                      .live = is_live(g, head.position, oldest, now_us),
                                      .lag_us = age_us,
                                      .step_events = step_events,
                                      .step_us = step_us});
    return st;
}
