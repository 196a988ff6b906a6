/*
 * shadow.c - see shadow.h. An engine of its own, on the same journal and on views in memory.
 */
#include <everfold/shadow.h>

#include "queue.h"

#include "../base/hash.h"

#include <stdio.h>
#include <stdlib.h>

#define SHADOW_BATCH 1000

struct ef_shadow {
    ef_engine *live;
    ef_engine *ghost;
    char page[EF_CURSOR_MAX]; /* of the queue's rows: where the page at hand begins */
    int64_t position;         /* rows up to here were folded */
    int64_t attempts;         /* folds that failed, counted by us alone */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* A generation of the ghost's for each live one: the same program, nothing folded yet. */
static ef_status copy_generations(ef_shadow *s, ef_error *err)
{
    ef__live_set set;
    ef_views *views = s->ghost->views;
    ef_status st = ef__live_set_read(s->live, true, &set, err);

    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        ef__generation copy = *set.items[i].generation;
        int64_t id;
        if (!set.items[i].program || !copy.routed)
            continue; /* one written in C belongs to its process; and one a name is compared */
        copy.number = 0;
        copy.state = EF__GENERATION_CATCHING_UP;
        st = views->ops->generation_add(views, &copy, &id, err);
    }
    ef__live_set_release(&set);
    return st;
}

ef_status ef_shadow_open(ef_engine *engine, ef_shadow **out, ef_error *err)
{
    ef_views *views = NULL;
    ef_shadow *s;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a shadow");
    s->live = engine;
    st = ef__views_open(&(ef__views_options){.url = "memory:",
                                             .create = true,
                                             .clock = engine->options.clock,
                                             .log = engine->options.log},
                        &views, err);
    if (st == EF_OK)
        st = ef__engine_open_on(&(ef_engine_options){.journal = engine->journal,
                                                     .views_url = "memory:",
                                                     .worker = EF_STR("shadow"),
                                                     .clock = engine->options.clock,
                                                     .log = engine->options.log},
                                views, &s->ghost, err);
    if (st == EF_OK) {
        s->ghost->ghost = true;
        st = copy_generations(s, err);
    }
    if (st != EF_OK) {
        ef_shadow_close(s);
        return st;
    }
    *out = s;
    return EF_OK;
}

void ef_shadow_close(ef_shadow *s)
{
    if (!s)
        return;
    if (s->ghost)
        ef__engine_abandon(s->ghost); /* it holds nothing and leaves nothing */
    free(s);
}

/* --- a step ----------------------------------------------------------------------------------- */

/* The events of the rows above our position: rows and log are both in the order of positions. */
static ef_status load_rows(ef_shadow *s, const ef_row_list *rows, ef_batch *batch,
                           ef__apply_event *events, size_t *out_count, ef_error *err)
{
    size_t row = 0, count = 0;
    ef_status st;

    *out_count = 0;
    while (row < rows->count && rows->items[row].position <= s->position)
        row++;
    if (row == rows->count)
        return EF_OK;
    st = ef_journal_read_log(s->live->journal,
                             &(ef_log_query){.any_tenant = true,
                                             .after = rows->items[row].position - 1,
                                             .limit = SHADOW_BATCH},
                             batch, err);
    for (size_t i = 0; st == EF_OK && i < batch->count; i++) {
        while (row < rows->count && rows->items[row].position < batch->events[i].position)
            row++;
        if (row < rows->count && rows->items[row].position == batch->events[i].position)
            events[count++] = (ef__apply_event){&batch->events[i], false};
    }
    *out_count = count;
    return st;
}

static ef_status fold_rows(ef_shadow *s, const ef__apply_event *events, size_t count, ef_tick *tick,
                           ef_error *err)
{
    ef__live_set set;
    ef__apply apply;
    ef_status st = ef__live_set_read(s->ghost, true, &set, err);

    if (st != EF_OK)
        return st;
    apply = (ef__apply){.generations = set.items,
                        .generation_count = set.count,
                        .events = events,
                        .event_count = count,
                        .live_set = set.number,
                        .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    if (set.count)
        st = ef__apply_run(s->ghost, &apply, err);
    if (st == EF_OK) {
        ef__tick_add(tick, &apply);
        tick->claimed += (int64_t)count;
        s->attempts += apply.failed;
        s->position = events[count - 1].event->position;
    }
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    return st;
}

static ef_status follow_queue(ef_shadow *s, ef_tick *tick, ef_error *err)
{
    ef_row_list rows = {0};
    ef_batch batch = EF_BATCH_INIT;
    ef__apply_event *events = malloc(SHADOW_BATCH * sizeof *events);
    size_t count = 0;
    ef_status st = events ? ef_outbox_ls(s->live->journal,
                                         &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY),
                                                            .any_tenant = true,
                                                            .limit = SHADOW_BATCH,
                                                            .after = ef_str_from(s->page)},
                                         &rows, err)
                          : ef_fail(err, EF_NO_MEMORY, "memory ran out in a shadow");

    if (st == EF_OK)
        st = load_rows(s, &rows, &batch, events, &count, err);
    if (st == EF_OK && count)
        st = fold_rows(s, events, count, tick, err);
    if (st == EF_OK && rows.next[0] && rows.items[rows.count - 1].position <= s->position) {
        memcpy(s->page, rows.next, sizeof s->page);
        tick->more = true;
    }
    tick->more = tick->more || count > 0;
    ef_batch_release(&batch);
    ef_row_list_release(&rows);
    free(events);
    return st;
}

ef_status ef_shadow_step(ef_shadow *s, ef_tick *out, ef_error *err)
{
    ef_tick tick = {0};
    ef_status st;

    if (!s || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", s ? "out" : "shadow");
    st = ef__cursor_work(s->ghost, NULL, &tick, err);
    if (st == EF_OK && !tick.caught_up)
        st = follow_queue(s, &tick, err);
    *out = tick;
    return st;
}

/* --- the report ------------------------------------------------------------------------------- */

ef_status ef_shadow_report(ef_shadow *s, ef_shadow_result *out, size_t max, size_t *out_count,
                           ef_error *err)
{
    ef__generation_list ghosts = {0}, live = {0};
    ef_status st = ef__room_ready(&ghosts.room, err);

    *out_count = 0;
    if (st == EF_OK)
        st = ef__room_ready(&live.room, err);
    if (st == EF_OK)
        st = s->ghost->views->ops->generation_ls(s->ghost->views, (ef_str){0}, &ghosts, err);
    if (st == EF_OK)
        st = s->live->views->ops->generation_ls(s->live->views, (ef_str){0}, &live, err);
    for (size_t i = 0; st == EF_OK && i < ghosts.count && *out_count < max; i++) {
        const ef__generation *g = &ghosts.items[i];
        ef_shadow_result *r = &out[(*out_count)++];
        *r = (ef_shadow_result){.applied = g->applied, .attempts = s->attempts};
        r->position = g->position > s->position ? g->position : s->position;
        (void)snprintf(r->name, sizeof r->name, "%.*s", EF_STR_ARG(g->name));
        ef__hex(g->digest, sizeof g->digest, r->digest);
        for (size_t l = 0; l < live.count; l++)
            if (live.items[l].routed && ef_str_equal(live.items[l].name, g->name)) {
                ef__hex(live.items[l].digest, sizeof g->digest, r->live_digest);
                r->same = memcmp(live.items[l].digest, g->digest, sizeof g->digest) == 0;
            }
    }
    ef__room_release(&ghosts.room);
    ef__room_release(&live.room);
    return st;
}
