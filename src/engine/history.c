/*
 * history.c - the history of a view: the events that changed it, and its state at a position.
 *
 * All of it comes from folding the journal from scratch, in memory, and keeping the changes of the
 * view. Programs are pure, so the result equals the earlier state. A side fold would do the same
 * with the views of the whole projection in a store, and without the budget of the caller.
 */
#include "apply.h"

#include "../base/meter.h"
#include "../base/pair_map.h"
#include "../fold/folder.h"

#include <inttypes.h>
#include <stdlib.h>

#define REFOLD_BATCH 1000
#define REFOLD_BYTES_MAX (512ul << 20)
#define EXPLAIN_MAX 10000 /* events */
#define STEPS_DEFAULT 100
#define STEPS_MAX 1000
#define STEPS_BYTES_MAX (32u << 20)

/* One change of the view. */
struct step {
    ef_event event;
    ef_str after;    /* ptr NULL: deleted */
    ef__arena arena; /* of its texts, unless they are in the result */
};

struct view_history {
    ef_engine *engine;
    ef__generation_list list;
    const ef__generation *generation;
    ef__folder *folder;
    ef__skips *skips;
    ef_type_list not_folded;
    ef_str tenant, id;
    int64_t upto; /* 0: up to now */
    ef__meter meter;
    bool blocks;          /* a stream stops at an event that fails, as in the queue's lanes … */
    ef__pair_map blocked; /* … and is listed here */
    /* The first changes with their events, or else the last ones: of those the oldest is
     * overwritten, and its result is the state before the first. */
    bool keeps_first, keeps_last;
    struct step *steps; /* a ring */
    size_t first, count, limit, bytes;
    struct step before; /* of the first; position 0: it is the first of all */
    ef__arena *result;  /* has the texts of the first changes */
};

/* --- the changes ------------------------------------------------------------------------------ */

static ef_status pack_step(struct view_history *past, const ef_event *event,
                           const ef__folded_view *view, struct step *to, ef_error *err)
{
    ef__arena *arena = past->keeps_first ? past->result : &to->arena;
    ef_status st;

    *to = (struct step){.event = *event, .arena = EF__ARENA_INIT(SIZE_MAX)};
    if (!past->keeps_first) {
        to->event.data = to->event.meta = EF_STR("");
        to->after = view->deleted ? (ef_str){0} : view->data;
    }
    st = ef__arena_own(arena, err, &to->event.tenant, &to->event.stream, &to->event.id,
                       &to->event.type, &to->event.data, &to->event.meta, NULL);
    return st == EF_OK && to->after.ptr ? ef__arena_own(arena, err, &to->after, NULL) : st;
}

static size_t step_bytes(const struct step *step)
{
    return step->event.data.len + step->event.meta.len + step->after.len;
}

static void drop_first(struct view_history *past)
{
    ef__arena_release(&past->before.arena);
    past->before = past->steps[past->first];
    past->bytes -= step_bytes(&past->before);
    past->first = (past->first + 1) % past->limit;
    past->count--;
}

static struct step *step_at(const struct view_history *past, size_t index)
{
    return &past->steps[(past->first + index) % past->limit];
}

static ef_status keep_step(struct view_history *past, const ef_event *event,
                           const ef__folded_view *view, bool *out_go_on, ef_error *err)
{
    ef_status st;

    while (past->count == past->limit ||
           (past->count > 1 && past->keeps_last && past->bytes + view->data.len > STEPS_BYTES_MAX))
        drop_first(past);
    st = pack_step(past, event, view, step_at(past, past->count), err);
    past->bytes += step_bytes(step_at(past, past->count));
    past->count++;
    *out_go_on = !past->keeps_first || past->count < past->limit;
    return st == EF_OK && past->bytes > REFOLD_BYTES_MAX ? ef__no_memory(err) : st;
}

/* --- folding again ---------------------------------------------------------------------------- */

/* Did the event change the view? The folder commits after each event: the changes are its own. */
static ef_status check_change(struct view_history *past, const ef_event *event, bool *out_go_on,
                              ef_error *err)
{
    ef__folded_view view;
    size_t at = 0;
    ef_status st;

    while ((st = ef__folder_next(past->folder, &at, &view, err)) == EF_OK && view.view_id.len) {
        if (!ef_str_equal(view.view_id, past->id) || !ef_str_equal(view.tenant, past->tenant))
            continue;
        st = keep_step(past, event, &view, out_go_on, err);
        if (st != EF_OK)
            return st;
    }
    ef__folder_settle(past->folder);
    return st;
}

/* Selects events as a rebuild, by the current types; `blocked`: streams with a failed event. */
static bool is_left_out(const struct view_history *past, const ef_event *event)
{
    return ef__types_has(&past->not_folded, event->type) ||
           ef__skips_has(past->engine, past->skips, event) ||
           (past->blocks && ef__pair_map_find(&past->blocked, event->tenant, event->stream));
}

static ef_status block_stream(struct view_history *past, const ef_event *event, ef_error *err)
{
    bool is_new;

    if (!past->blocks)
        return EF_OK;
    return ef__pair_map_at(&past->blocked, event->tenant, event->stream, &is_new)
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}

static ef_status charge_budget(struct view_history *past, const ef__outcome *outcome, ef_error *err)
{
    enum { STEPS_TO_READ = 10 };
    bool ran = outcome->result != EF__FOLD_IGNORED;

    return ef__meter_charge(&past->meter,
                            STEPS_TO_READ + (ran ? ef__folder_steps(past->folder) : 0), err);
}

static ef_status refold_batch(struct view_history *past, const ef_batch *batch, bool *out_go_on,
                              ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && *out_go_on && i < batch->count; i++) {
        ef__outcome outcome;
        if (batch->events[i].position > past->upto) {
            *out_go_on = false;
            break;
        }
        if (is_left_out(past, &batch->events[i]))
            continue;
        st = ef__folder_apply(past->folder, &batch->events[i], &outcome, err);
        if (st == EF_OK)
            st = charge_budget(past, &outcome, err);
        if (st == EF_OK && outcome.result == EF__FOLD_APPLIED)
            st = check_change(past, &batch->events[i], out_go_on, err);
        else if (st == EF_OK && outcome.result == EF__FOLD_FAILED)
            st = block_stream(past, &batch->events[i], err);
    }
    return st;
}

static ef_status fold_again(struct view_history *past, ef_error *err)
{
    int64_t after = 0;
    bool go_on = true;
    ef_status st = EF_OK;

    while (st == EF_OK && go_on && after < past->upto) {
        ef_batch batch = EF_BATCH_INIT;
        int64_t reached = after;
        st = ef_journal_read_log(past->engine->journal,
                                 &(ef_log_query){.tenant = past->tenant,
                                                 .after = after,
                                                 .limit = REFOLD_BATCH,
                                                 .out_reached = &reached},
                                 &batch, err);
        if (st == EF_OK)
            st = refold_batch(past, &batch, &go_on, err);
        go_on = go_on && reached > after;
        after = reached;
        EF_RELEASE(&batch);
    }
    return st;
}

/* A view may have events after the position up to which its projection has all streams. Then the
 * fold of its last changes ends at the last of them, and leaves out blocked events. */
static ef_status find_end(struct view_history *past, ef_error *err)
{
    ef__view view;
    bool found = false;
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(64u << 20);
    ef_status st =
        ef__engine_as_of(past->engine, past->generation, &past->tenant, &past->upto, err);

    if (st != EF_OK || !past->keeps_last)
        return st;
    past->blocks = ef__generation_by_queue(past->generation);
    st = past->engine->views->ops->view_get(past->engine->views, past->generation->id, past->tenant,
                                            past->id, &arena, &view, &found, err);
    if (st == EF_OK && found && view.last_position > past->upto)
        past->upto = view.last_position;
    return st;
}

/* Creates the memory of the result too. The caller closes `past` in any case. */
static ef_status read_past(struct view_history *past, ef_str projection, const ef_budget *budget,
                           struct ef__batch_memory **room, ef_error *err)
{
    const ef__program *program;
    ef_status st = ef__memory_prepare(room, err);

    past->result = st == EF_OK ? &(*room)->arena : NULL;
    if (st == EF_OK)
        st = ef__engine_active_generation(past->engine, projection, &past->list, &past->generation,
                                          err);
    past->meter = ef__meter_begin(budget, past->engine->options.clock);
    past->blocked = (ef__pair_map)EF__PAIR_MAP_INIT(bool, SIZE_MAX);
    past->steps = calloc(past->limit, sizeof *past->steps);
    if (st == EF_OK && !past->steps)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        st = ef__engine_program(past->engine, past->generation, &program, err);
    if (st == EF_OK)
        st = ef__skips_read(past->engine, past->generation, &past->skips, err);
    if (st == EF_OK)
        st = ef__types_not_folded(past->engine->journal, &past->not_folded, err);
    if (st == EF_OK)
        st = ef__folder_open(
            &(ef__folder_options){.program = program, .max_bytes = REFOLD_BYTES_MAX}, &past->folder,
            err);
    if (st == EF_OK && !past->upto)
        st = find_end(past, err);
    return st == EF_OK ? fold_again(past, err) : st;
}

static void close_past(struct view_history *past)
{
    for (size_t i = 0; i < past->count; i++)
        ef__arena_release(&step_at(past, i)->arena);
    free(past->steps);
    ef__arena_release(&past->before.arena);
    ef__folder_close(past->folder);
    ef__pair_map_release(&past->blocked);
    EF_RELEASE(&past->not_folded);
    ef_memory_release(&past->list.room);
}

/* --- for users -------------------------------------------------------------------------------- */

static ef_status fail_unknown(ef_str projection, ef_str id, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "no event has made a view \"%.*s\" of projection \"%.*s\"",
                   EF_STR_ARG(id), EF_STR_ARG(projection));
}

/* The events of the steps, and their results if `results` is not NULL. Without results, the texts
 * are in the arena already. */
static ef_status copy_steps(const struct view_history *past, ef__arena *arena,
                            const ef_event **out_events, const ef_view_step **results,
                            ef_error *err)
{
    ef_event *events = ef__arena_zalloc(arena, past->count, sizeof *events);
    ef_view_step *steps = results ? ef__arena_zalloc(arena, past->count, sizeof *steps) : NULL;
    ef_status st = EF_OK;

    if (!events || (results && !steps))
        return ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < past->count; i++) {
        const struct step *from = step_at(past, i);
        ef_event *to = &events[i];
        *to = from->event;
        if (!results)
            continue;
        st = ef__arena_own(arena, err, &to->tenant, &to->stream, &to->id, &to->type, &to->data,
                           &to->meta, NULL);
        steps[i] = (ef_view_step){.event = to, .after = from->after};
        if (st == EF_OK && from->after.ptr)
            st = ef__arena_own(arena, err, &steps[i].after, NULL);
    }
    *out_events = events;
    if (results)
        *results = steps;
    return st;
}

ef_status ef_view_explain(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_batch *out, ef_error *err)
{
    struct view_history past = {.engine = engine,
                                .tenant = tenant,
                                .id = id,
                                .keeps_first = true,
                                .limit = limit && limit < EXPLAIN_MAX ? limit : EXPLAIN_MAX};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    out->events = NULL;
    out->count = 0;
    out->more = false;
    st = read_past(&past, projection, budget, &out->room, err);
    if (st == EF_OK && !past.count)
        st = fail_unknown(projection, id, err);
    if (st == EF_OK)
        st = copy_steps(&past, &out->room->arena, &out->events, NULL, err);
    out->count = st == EF_OK ? past.count : 0;
    close_past(&past);
    return st;
}

ef_status ef_view_at(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                     int64_t position, const ef_budget *budget, ef_view_list *out, ef_error *err)
{
    struct view_history past = {
        .engine = engine, .tenant = tenant, .id = id, .upto = position, .limit = 1};
    ef_view *item;
    ef_head head;
    ef_status st;

    if (!engine || !out || position < 1)
        return ef_fail(err, EF_BAD_INPUT, "position is %" PRId64 ", at least 1 is needed",
                       position);
    st = ef_journal_head(engine->journal, &head, err);
    if (st == EF_OK && position > head.position)
        st = ef_fail_numbers(err, EF_BAD_INPUT, position, head.position,
                             "position is %" PRId64 ", and the journal ends at position %" PRId64,
                             position, head.position);
    if (st != EF_OK)
        return st;
    *out = (ef_view_list){.room = out->room};
    st = read_past(&past, projection, budget, &out->room, err);
    if (st == EF_OK && !(past.count && past.steps[past.first].after.ptr))
        st = ef_fail(err, EF_NOT_FOUND,
                     "projection \"%.*s\" had no view \"%.*s\" at position %" PRId64,
                     EF_STR_ARG(projection), EF_STR_ARG(id), position);
    if (st == EF_OK) {
        const struct step *last = &past.steps[past.first];
        out->items = item = ef__arena_alloc(&out->room->arena, sizeof *item);
        if (item) {
            *item = (ef_view){.view_type = past.generation->name,
                              .version = past.generation->version,
                              .tenant = tenant,
                              .view_id = id,
                              .last_event_sequence = last->event.position,
                              .data = last->after};
            st = ef__arena_own(&out->room->arena, err, &item->view_type, &item->tenant,
                               &item->view_id, &item->data, NULL);
        } else {
            st = ef__no_memory(err);
        }
        out->count = st == EF_OK;
        out->as_of = position;
    }
    close_past(&past);
    return st;
}

ef_status ef_view_history(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_view_past *out, ef_error *err)
{
    struct view_history past = {.engine = engine,
                                .tenant = tenant,
                                .id = id,
                                .keeps_last = true,
                                .limit = limit ? limit : STEPS_DEFAULT};
    const ef_event *events;
    ef_status st;

    if (!engine || !out || past.limit > STEPS_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d are shown", past.limit,
                       STEPS_MAX);
    *out = (ef_view_past){.room = out->room};
    st = read_past(&past, projection, budget, &out->room, err);
    if (st == EF_OK && past.count == 0)
        st = fail_unknown(projection, id, err);
    if (st == EF_OK)
        st = copy_steps(&past, &out->room->arena, &events, &out->steps, err);
    if (st == EF_OK && past.before.after.ptr) {
        out->before = past.before.after;
        st = ef__arena_own(&out->room->arena, err, &out->before, NULL);
    }
    if (st == EF_OK) {
        out->count = past.count;
        out->more = past.before.event.position != 0;
    }
    close_past(&past);
    return st;
}
