/*
 * history.c - the history of a view: the events that changed it, and its state at a position.
 *
 * Both fold the journal from scratch, in memory. Programs are pure, so the result equals the
 * earlier state.
 */
#include "apply.h"
#include "skip.h"
#include "view_cache.h"

#include "../base/meter.h"
#include "../base/pair_map.h"
#include "../fold/folder.h"

#include <inttypes.h>
#include <stdlib.h>

#define REFOLD_BATCH 1000
#define REFOLD_BYTES_MAX (512ul << 20)
#define EXPLAIN_MAX 10000 /* events */

struct view_history {
    ef_engine *engine;
    ef__generation_list list;
    const ef__generation *generation;
    ef__folder *folder;
    ef__skips *skips;
    ef_type_list not_folded;
    ef_str tenant, id;
    int64_t upto;
    ef__meter meter;
    /* the view in question */
    bool (*changed)(struct view_history *past, const ef_event *event, const ef__folded_view *view);
    void *context;
    ef__buf data;         /* the view after the events so far; "": it does not exist */
    bool blocks;          /* a stream stops at an event that fails, as in the queue's lanes … */
    ef__pair_map blocked; /* … and is listed here */
    int64_t last_position;
    bool there;
};

/* Did the event change the view? The folder commits after each event, so that its changes are this
 * event's. */
static ef_status check_change(struct view_history *past, const ef_event *event, bool *out_go_on,
                              ef_error *err)
{
    ef__folded_view view;
    size_t at = 0;
    ef_status st;

    while ((st = ef__folder_next(past->folder, &at, &view, err)) == EF_OK && view.view_id.len) {
        if (!ef_str_equal(view.view_id, past->id) || !ef_str_equal(view.tenant, past->tenant))
            continue;
        past->there = !view.deleted;
        past->last_position = event->position;
        ef__buf_reset(&past->data);
        (void)ef__buf_add_str(&past->data, view.data);
        if (past->changed)
            *out_go_on = past->changed(past, event, &view);
    }
    ef__folder_settle(past->folder);
    return st;
}

/* Is the event blocked behind one of its stream that failed? */
static bool is_blocked(const struct view_history *past, const ef_event *event)
{
    return past->blocks && ef__pair_map_find(&past->blocked, event->tenant, event->stream);
}

/* Selects the same events as a rebuild, by the current types. */
static bool is_left_out(const struct view_history *past, const ef_event *event)
{
    return ef__types_has(&past->not_folded, event->type) ||
           ef__skips_has(past->engine, past->skips, event) || is_blocked(past, event);
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

static ef_status open_past(struct view_history *past, ef_str projection, const ef_budget *budget,
                           ef_error *err)
{
    const ef__program *program;
    ef_status st =
        ef__engine_active_generation(past->engine, projection, &past->list, &past->generation, err);

    past->meter = ef__meter_begin(budget, past->engine->options.clock);
    past->data = (ef__buf)EF__BUF_INIT(64u << 20);
    past->blocked = (ef__pair_map)EF__PAIR_MAP_INIT(bool, SIZE_MAX);
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
    return st;
}

static void close_past(struct view_history *past)
{
    ef__folder_close(past->folder);
    ef__buf_release(&past->data);
    ef__pair_map_release(&past->blocked);
    EF_RELEASE(&past->not_folded);
    ef_memory_release(&past->list.room);
}

/* --- explain ---------------------------------------------------------------------------------- */

struct kept_events {
    ef__arena *arena;
    ef_event *items;
    size_t count, limit;
    bool failed;
};

static bool copy_event(ef__arena *arena, const ef_event *event, ef_event *to)
{
    ef_str *texts[] = {&to->tenant, &to->stream, &to->id, &to->type, &to->data, &to->meta};
    bool copied = true;

    *to = *event;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = ef__arena_copy(arena, *texts[i]);
        copied = copied && texts[i]->ptr;
    }
    return copied;
}

static bool keep_event(struct view_history *past, const ef_event *event,
                       const ef__folded_view *view)
{
    struct kept_events *kept = past->context;

    (void)view;
    kept->failed = !copy_event(kept->arena, event, &kept->items[kept->count]);
    kept->count++;
    return !kept->failed && kept->count < kept->limit;
}

ef_status ef_view_explain(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_batch *out, ef_error *err)
{
    struct view_history past = {.engine = engine, .tenant = tenant, .id = id};
    struct kept_events kept = {.limit = limit && limit < EXPLAIN_MAX ? limit : EXPLAIN_MAX};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    past.changed = keep_event;
    past.context = &kept;
    out->events = NULL;
    out->count = 0;
    out->more = false;
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK) {
        kept.arena = &out->room->arena;
        kept.items = ef__arena_alloc(kept.arena, kept.limit * sizeof *kept.items);
        st = kept.items ? EF_OK : ef__no_memory(err);
    }
    if (st == EF_OK)
        st = open_past(&past, projection, budget, err);
    if (st == EF_OK)
        st = ef__engine_as_of(engine, past.generation, &tenant, &past.upto, err);
    if (st == EF_OK)
        st = fold_again(&past, err);
    if (st == EF_OK && kept.failed)
        st = ef__no_memory(err);
    if (st == EF_OK && !kept.count)
        st = ef_fail(err, EF_NOT_FOUND, "no event has made a view \"%.*s\" of projection \"%.*s\"",
                     EF_STR_ARG(id), EF_STR_ARG(projection));
    if (st == EF_OK) {
        out->events = kept.items;
        out->count = kept.count;
    }
    close_past(&past);
    return st;
}

/* --- at a position ---------------------------------------------------------------------------- */

ef_status ef_view_at(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                     int64_t position, const ef_budget *budget, ef_view_list *out, ef_error *err)
{
    struct view_history past = {.engine = engine, .tenant = tenant, .id = id, .upto = position};
    struct ef__batch_memory *room;
    ef_view *item;
    ef_status st;

    if (!engine || !out || position < 1)
        return ef_fail(err, EF_BAD_INPUT, "position is %" PRId64 ", at least 1 is needed",
                       position);
    room = out->room;
    *out = (ef_view_list){.room = room};
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK)
        st = open_past(&past, projection, budget, err);
    if (st == EF_OK)
        st = fold_again(&past, err);
    if (st == EF_OK && !past.there)
        st = ef_fail(err, EF_NOT_FOUND,
                     "projection \"%.*s\" had no view \"%.*s\" at position %" PRId64,
                     EF_STR_ARG(projection), EF_STR_ARG(id), position);
    if (st == EF_OK) {
        ef__arena *arena = &out->room->arena;
        item = ef__arena_alloc(arena, sizeof *item);
        if (item)
            *item = (ef_view){.view_type = ef__arena_copy(arena, past.generation->name),
                              .version = past.generation->version,
                              .tenant = ef__arena_copy(arena, tenant),
                              .view_id = ef__arena_copy(arena, id),
                              .last_event_sequence = past.last_position,
                              .data = ef__arena_copy(arena, ef__buf_str(&past.data))};
        st = item && item->data.ptr && item->view_id.ptr ? EF_OK : ef__no_memory(err);
        out->items = item;
        out->count = st == EF_OK;
        out->as_of = position;
    }
    close_past(&past);
    return st;
}

/* --- history ---------------------------------------------------------------------------------- */

#define STEPS_DEFAULT 100
#define STEPS_MAX 1000
#define STEPS_BYTES_MAX (32u << 20)

/* One change of the view. */
struct step {
    ef_event event; /* texts in `texts` */
    char *texts;    /* stream, id and type, concatenated */
    char *after;    /* NULL: deleted */
    size_t after_len;
};

/* The last changes. The oldest one is overwritten; its result is the state before the first. */
struct view_steps {
    struct step *items; /* a ring */
    size_t first, count, limit, bytes;
    char *before;
    size_t before_len;
    bool more, failed;
};

static void drop_first(struct view_steps *steps)
{
    struct step *oldest = &steps->items[steps->first];

    free(steps->before);
    steps->before = oldest->after;
    steps->before_len = oldest->after_len;
    steps->bytes -= oldest->after_len;
    free(oldest->texts);
    steps->first = (steps->first + 1) % steps->limit;
    steps->count--;
    steps->more = true;
}

static bool copy_texts(struct step *to, const ef_event *event)
{
    ef_str *texts[] = {&to->event.tenant, &to->event.stream, &to->event.id, &to->event.type};
    size_t used = 0;

    to->event = *event;
    to->event.data = to->event.meta = EF_STR("");
    to->texts = malloc(event->tenant.len + event->stream.len + event->id.len + event->type.len + 1);
    if (!to->texts)
        return false;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i]->len)
            memcpy(to->texts + used, texts[i]->ptr, texts[i]->len);
        texts[i]->ptr = to->texts + used;
        used += texts[i]->len;
    }
    return true;
}

static bool keep_step(struct view_history *past, const ef_event *event, const ef__folded_view *view)
{
    struct view_steps *steps = past->context;
    struct step *to;

    while (steps->count == steps->limit ||
           (steps->count > 1 && steps->bytes + view->data.len > STEPS_BYTES_MAX))
        drop_first(steps);
    to = &steps->items[(steps->first + steps->count) % steps->limit];
    *to = (struct step){0};
    steps->failed = !copy_texts(to, event);
    if (!steps->failed && !view->deleted) {
        to->after = malloc(view->data.len + 1);
        steps->failed = !to->after;
        to->after_len = view->data.len;
        if (to->after)
            memcpy(to->after, view->data.ptr, view->data.len);
    }
    if (steps->failed) {
        free(to->texts);
        return false;
    }
    steps->bytes += to->after_len;
    steps->count++;
    return true;
}

static void release_steps(struct view_steps *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        free(steps->items[(steps->first + i) % steps->limit].texts);
        free(steps->items[(steps->first + i) % steps->limit].after);
    }
    free(steps->items);
    free(steps->before);
}

/* Moves the ring into the memory of the result. */
static ef_status copy_result(const struct view_steps *s, ef_view_past *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_view_step *steps = ef__arena_zalloc(arena, s->count, sizeof *steps);
    ef_event *events = ef__arena_zalloc(arena, s->count, sizeof *events);

    if (!steps || !events)
        return ef__no_memory(err);
    for (size_t i = 0; i < s->count; i++) {
        const struct step *from = &s->items[(s->first + i) % s->limit];
        if (from->after)
            steps[i].after = ef__arena_copy(arena, (ef_str){from->after, from->after_len});
        steps[i].event = &events[i];
        if (!copy_event(arena, &from->event, &events[i]) || (from->after && !steps[i].after.ptr))
            return ef__no_memory(err);
    }
    if (s->before)
        out->before = ef__arena_copy(arena, (ef_str){s->before, s->before_len});
    out->steps = steps;
    out->count = s->count;
    out->more = s->more;
    return s->before && !out->before.ptr ? ef__no_memory(err) : EF_OK;
}

/* A view may have events after the position up to which its projection has all streams. Then the
 * fold ends at the last change of the view, and leaves out blocked events. */
static ef_status up_to_now(struct view_history *past, ef_error *err)
{
    ef__view view;
    bool found = false;
    ef__arena arena = EF__ARENA_INIT(64u << 20);
    ef_status st =
        ef__engine_as_of(past->engine, past->generation, &past->tenant, &past->upto, err);

    if (st == EF_OK)
        st = past->engine->views->ops->view_get(past->engine->views, past->generation->id,
                                                past->tenant, past->id, &arena, &view, &found, err);
    past->blocks = ef__generation_by_queue(past->generation);
    if (st == EF_OK && found && view.last_position > past->upto)
        past->upto = view.last_position;
    ef__arena_release(&arena);
    return st;
}

ef_status ef_view_history(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_view_past *out, ef_error *err)
{
    struct view_history past = {.engine = engine, .tenant = tenant, .id = id, .changed = keep_step};
    struct view_steps steps = {.limit = limit ? limit : STEPS_DEFAULT};
    struct ef__batch_memory *room;
    ef_status st;

    if (!engine || !out || steps.limit > STEPS_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d are shown", steps.limit,
                       STEPS_MAX);
    room = out->room;
    *out = (ef_view_past){.room = room};
    past.context = &steps;
    steps.items = calloc(steps.limit, sizeof *steps.items);
    st = steps.items ? ef__memory_prepare(&out->room, err)
                     : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        st = open_past(&past, projection, budget, err);
    if (st == EF_OK)
        st = up_to_now(&past, err);
    if (st == EF_OK)
        st = fold_again(&past, err);
    if (st == EF_OK && steps.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK && steps.count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "no event has made a view \"%.*s\" of projection \"%.*s\"",
                     EF_STR_ARG(id), EF_STR_ARG(projection));
    if (st == EF_OK)
        st = copy_result(&steps, out, err);
    close_past(&past);
    release_steps(&steps);
    return st;
}
