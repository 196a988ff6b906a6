/*
 * cursor.c - the cursor driver: generations that catch up, and those that follow the log.
 */
#include "queue.h"

#include <stdlib.h>

/* Apply events after the generation's cursor and move it. An event of a log-ordered projection that
 * fails stops it there: the cursor stays before it. */
static ef_status advance(ef_engine *e, const ef__live *live, const ef_batch *batch, int64_t reached,
                         bool at_end, ef_tick *tick, ef_error *err)
{
    ef__apply_event *events = malloc((batch->count + 1) * sizeof *events);
    ef__apply apply = {.generations = live,
                       .generation_count = 1,
                       .events = events,
                       .event_count = batch->count,
                       .moves_cursor = true,
                       .cursor_after = reached,
                       .go_live = at_end && live->generation->state == EF__GENERATION_CATCHING_UP,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_status st = EF_OK;

    if (!events)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in the cursor driver");
    for (size_t i = 0; i < batch->count; i++)
        events[i] = (ef__apply_event){&batch->events[i], false};
    st = ef__apply_run(e, &apply, err);
    if (st == EF_OK) {
        tick->applied += apply.applied;
        tick->ignored += apply.ignored;
        tick->failed += apply.failed;
        tick->caught_up += (int64_t)batch->count;
        tick->more =
            tick->more || (apply.go_live && !apply.went_live) || (!at_end && apply.failed == 0);
    }
    ef__apply_release(&apply);
    free(events);
    return st == EF_CONFLICT ? EF_OK : st; /* somebody else moved it: look again next time */
}

static ef_status cursor_generation(ef_engine *e, const ef__live *live, ef_tick *tick, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = live->generation->position;
    ef_status st = ef_journal_read_log(e->journal,
                                       &(ef_log_query){.any_tenant = true,
                                                       .after = live->generation->position,
                                                       .limit = EF__ENGINE_CATCH_UP_BATCH,
                                                       .out_reached = &reached},
                                       &batch, err);
    bool catching_up = live->generation->state == EF__GENERATION_CATCHING_UP;

    if (st == EF_OK && (batch.count || catching_up))
        st = advance(e, live, &batch, reached, !batch.more, tick, err);
    ef_batch_release(&batch);
    return st;
}

ef_status ef__cursor_step(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef__live_set set;
    ef_status st = ef__live_set_read(e, false, &set, err);

    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        const ef__generation *g = set.items[i].generation;
        if (g->state == EF__GENERATION_CATCHING_UP ||
            (g->state == EF__GENERATION_LIVE && g->by_log))
            st = cursor_generation(e, &set.items[i], tick, err);
    }
    ef__live_set_release(&set);
    return st;
}
