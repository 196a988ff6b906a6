/*
 * history.c - a view's past: which events made it, and what it was like at a position.
 *
 * Both fold the journal anew, in memory and aside. Programs are pure, so what comes out is what
 * was.
 */
#include "skip.h"
#include "workset.h"

#include "../base/meter.h"
#include "../base/pair_map.h"
#include "../fold/folder.h"

#include <inttypes.h>
#include <stdlib.h>

#define REFOLD_BATCH 1000
#define REFOLD_BYTES_MAX (512ul << 20)

struct past {
    ef_engine *engine;
    ef__generation_list list;
    const ef__generation *generation;
    ef__folder *folder;
    ef__skips *skips;
    ef_str tenant, id;
    int64_t upto;
    ef__meter meter;
    /* what is looked for */
    bool (*changed)(struct past *past, const ef_event *event, const ef__folded_view *view);
    void *context;
    ef__buf data;      /* the view as it is so far; "" when it is not there */
    bool holds;        /* a stream stops at an event that fails, as in the queue's lanes … */
    ef__pair_map held; /* … and is here then */
    int64_t last_position;
    bool there;
};

/* Did the event change the view? The folder is settled after each event, so that its changes are
 * this event's. */
static ef_status look(struct past *p, const ef_event *event, bool *out_go_on, ef_error *err)
{
    ef__folded_view v;
    size_t at = 0;
    ef_status st;

    while ((st = ef__folder_next(p->folder, &at, &v, err)) == EF_OK && v.view_id.len) {
        if (!ef_str_equal(v.view_id, p->id) || !ef_str_equal(v.tenant, p->tenant))
            continue;
        p->there = !v.deleted;
        p->last_position = event->position;
        ef__buf_reset(&p->data);
        (void)ef__buf_add_str(&p->data, v.data);
        if (p->changed)
            *out_go_on = p->changed(p, event, &v);
    }
    ef__folder_settle(p->folder);
    return st;
}

/* Does the event wait behind one of its stream that failed? */
static bool is_held(const struct past *p, const ef_event *event)
{
    return p->holds && ef__pair_map_find(&p->held, event->tenant, event->stream);
}

static ef_status hold(struct past *p, const ef_event *event, ef_error *err)
{
    bool is_new;

    if (!p->holds)
        return EF_OK;
    return ef__pair_map_at(&p->held, event->tenant, event->stream, &is_new)
               ? EF_OK
               : ef_fail(err, EF_NO_MEMORY, "memory ran out");
}

static ef_status charge(struct past *p, const ef__outcome *outcome, ef_error *err)
{
    enum { STEPS_TO_READ = 10 };
    bool ran = outcome->result != EF__FOLD_IGNORED;

    return ef__meter_charge(&p->meter, STEPS_TO_READ + (ran ? ef__folder_steps(p->folder) : 0),
                            err);
}

static ef_status refold_batch(struct past *p, const ef_batch *batch, bool *out_go_on, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && *out_go_on && i < batch->count; i++) {
        ef__outcome outcome;
        if (batch->events[i].position > p->upto) {
            *out_go_on = false;
            break;
        }
        if (ef__skips_has(p->engine, p->skips, &batch->events[i]) || is_held(p, &batch->events[i]))
            continue;
        st = ef__folder_apply(p->folder, &batch->events[i], &outcome, err);
        if (st == EF_OK)
            st = charge(p, &outcome, err);
        if (st == EF_OK && outcome.result == EF__FOLD_APPLIED)
            st = look(p, &batch->events[i], out_go_on, err);
        else if (st == EF_OK && outcome.result == EF__FOLD_FAILED)
            st = hold(p, &batch->events[i], err);
    }
    return st;
}

static ef_status refold(struct past *p, ef_error *err)
{
    int64_t after = 0;
    bool go_on = true;
    ef_status st = EF_OK;

    while (st == EF_OK && go_on && after < p->upto) {
        ef_batch batch = EF_BATCH_INIT;
        int64_t reached = after;
        st = ef_journal_read_log(p->engine->journal,
                                 &(ef_log_query){.tenant = p->tenant,
                                                 .after = after,
                                                 .limit = REFOLD_BATCH,
                                                 .out_reached = &reached},
                                 &batch, err);
        if (st == EF_OK)
            st = refold_batch(p, &batch, &go_on, err);
        go_on = go_on && reached > after;
        after = reached;
        ef_batch_release(&batch);
    }
    return st;
}

static ef_status open_past(struct past *p, ef_str projection, const ef_budget *budget,
                           ef_error *err)
{
    const ef__program *program;
    ef_status st = ef__engine_routed(p->engine, projection, &p->list, &p->generation, err);

    p->meter = ef__meter_begin(budget, p->engine->options.clock);
    p->data = (ef__buf)EF__BUF_INIT(64u << 20);
    p->held = (ef__pair_map)EF__PAIR_MAP_INIT(bool, SIZE_MAX);
    if (st == EF_OK)
        st = ef__engine_program(p->engine, p->generation, &program, err);
    if (st == EF_OK)
        st = ef__skips_read(p->engine, p->generation, &p->skips, err);
    if (st == EF_OK)
        st = ef__folder_open(
            &(ef__folder_options){.program = program, .max_bytes = REFOLD_BYTES_MAX}, &p->folder,
            err);
    return st;
}

static void close_past(struct past *p)
{
    ef__folder_close(p->folder);
    ef__buf_release(&p->data);
    ef__pair_map_release(&p->held);
    ef__room_release(&p->list.room);
}

/* --- explain
 * ---------------------------------------------------------------------------------------- */

struct positions {
    int64_t *at;
    size_t count, limit;
};

static bool keep_position(struct past *p, const ef_event *event, const ef__folded_view *view)
{
    struct positions *found = p->context;

    (void)view;
    found->at[found->count++] = event->position;
    return found->count < found->limit;
}

/* Copy one event into the batch. */
static ef_status add_event(ef_engine *e, int64_t position, ef_event *events, ef_batch *out,
                           ef_error *err)
{
    ef_batch one = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(
        e->journal, &(ef_log_query){.any_tenant = true, .after = position - 1, .limit = 1}, &one,
        err);

    if (st == EF_OK && one.count) {
        ef_event *to = &events[out->count++];
        ef_str *texts[] = {&to->tenant, &to->stream, &to->id, &to->type, &to->data, &to->meta};
        *to = one.events[0];
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            *texts[i] = ef__arena_copy(&out->room->arena, *texts[i]);
            if (!texts[i]->ptr)
                st = ef__room_full(err);
        }
    }
    ef_batch_release(&one);
    return st;
}

ef_status ef_view_explain(ef_engine *e, ef_str projection, ef_str tenant, ef_str id, size_t limit,
                          const ef_budget *budget, ef_batch *out, ef_error *err)
{
    struct past p = {.engine = e, .tenant = tenant, .id = id, .changed = keep_position};
    struct positions found = {.limit = limit && limit < 10000 ? limit : 10000};
    ef_event *events = NULL;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    p.context = &found;
    found.at = malloc(found.limit * sizeof *found.at);
    out->events = NULL;
    out->count = 0;
    out->more = false;
    st = found.at ? ef__room_ready(&out->room, err) : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        st = open_past(&p, projection, budget, err);
    if (st == EF_OK)
        st = ef__engine_as_of(e, p.generation, &tenant, &p.upto, err);
    if (st == EF_OK)
        st = refold(&p, err);
    if (st == EF_OK && !found.count)
        st = ef_fail(err, EF_NOT_FOUND, "no event has made a view \"%.*s\" of projection \"%.*s\"",
                     EF_STR_ARG(id), EF_STR_ARG(projection));
    if (st == EF_OK) {
        events = ef__arena_alloc(&out->room->arena, found.count * sizeof *events);
        st = events ? EF_OK : ef__room_full(err);
        out->events = events;
    }
    for (size_t i = 0; st == EF_OK && i < found.count; i++)
        st = add_event(e, found.at[i], events, out, err);
    close_past(&p);
    free(found.at);
    return st;
}

/* --- at
 * ---------------------------------------------------------------------------------------------- */

ef_status ef_view_at(ef_engine *e, ef_str projection, ef_str tenant, ef_str id, int64_t position,
                     const ef_budget *budget, ef_view_list *out, ef_error *err)
{
    struct past p = {.engine = e, .tenant = tenant, .id = id, .upto = position};
    struct ef__batch_room *room;
    ef_view *item;
    ef_status st;

    if (!e || !out || position < 1)
        return ef_fail(err, EF_BAD_INPUT, "position is %" PRId64 ", at least 1 is needed",
                       position);
    room = out->room;
    *out = (ef_view_list){.room = room};
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK)
        st = open_past(&p, projection, budget, err);
    if (st == EF_OK)
        st = refold(&p, err);
    if (st == EF_OK && !p.there)
        st = ef_fail(err, EF_NOT_FOUND,
                     "projection \"%.*s\" had no view \"%.*s\" at position %" PRId64,
                     EF_STR_ARG(projection), EF_STR_ARG(id), position);
    if (st == EF_OK) {
        ef__arena *arena = &out->room->arena;
        item = ef__arena_alloc(arena, sizeof *item);
        if (item)
            *item = (ef_view){.view_type = ef__arena_copy(arena, p.generation->name),
                              .version = p.generation->version,
                              .tenant = ef__arena_copy(arena, tenant),
                              .view_id = ef__arena_copy(arena, id),
                              .last_event_sequence = p.last_position,
                              .data = ef__arena_copy(arena, ef__buf_str(&p.data))};
        st = item && item->data.ptr && item->view_id.ptr ? EF_OK : ef__room_full(err);
        out->items = item;
        out->count = st == EF_OK;
        out->as_of = position;
    }
    close_past(&p);
    return st;
}

/* --- history
 * ----------------------------------------------------------------------------------------- */

#define STEPS_DEFAULT 100
#define STEPS_MAX 1000
#define STEPS_BYTES_MAX (32u << 20)

/* One change, as it is found. */
struct step {
    ef_event event; /* texts in `texts` */
    char *texts;    /* stream, id and type, one behind the other */
    char *after;    /* NULL: deleted */
    size_t after_len;
};

/* The last ones; the oldest gives way, and stays as what was before the first. */
struct steps {
    struct step *items; /* a ring */
    size_t first, count, limit, bytes;
    char *before;
    size_t before_len;
    bool more, failed;
};

static void drop_first(struct steps *s)
{
    struct step *gone = &s->items[s->first];

    free(s->before);
    s->before = gone->after;
    s->before_len = gone->after_len;
    s->bytes -= gone->after_len;
    free(gone->texts);
    s->first = (s->first + 1) % s->limit;
    s->count--;
    s->more = true;
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

static bool keep_step(struct past *p, const ef_event *event, const ef__folded_view *view)
{
    struct steps *s = p->context;
    struct step *to;

    while (s->count == s->limit || (s->count > 1 && s->bytes + view->data.len > STEPS_BYTES_MAX))
        drop_first(s);
    to = &s->items[(s->first + s->count) % s->limit];
    *to = (struct step){0};
    s->failed = !copy_texts(to, event);
    if (!s->failed && !view->deleted) {
        to->after = malloc(view->data.len + 1);
        s->failed = !to->after;
        to->after_len = view->data.len;
        if (to->after)
            memcpy(to->after, view->data.ptr, view->data.len);
    }
    if (s->failed) {
        free(to->texts);
        return false;
    }
    s->bytes += to->after_len;
    s->count++;
    return true;
}

static void release_steps(struct steps *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[(s->first + i) % s->limit].texts);
        free(s->items[(s->first + i) % s->limit].after);
    }
    free(s->items);
    free(s->before);
}

/* From the ring into the answer's own room. */
static ef_status hand_over(const struct steps *s, ef_view_past *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_view_step *steps = ef__arena_zalloc(arena, s->count, sizeof *steps);
    ef_event *events = ef__arena_zalloc(arena, s->count, sizeof *events);

    if (!steps || !events)
        return ef__room_full(err);
    for (size_t i = 0; i < s->count; i++) {
        const struct step *from = &s->items[(s->first + i) % s->limit];
        ef_event *to = &events[i];
        *to = from->event;
        to->tenant = ef__arena_copy(arena, to->tenant);
        to->stream = ef__arena_copy(arena, to->stream);
        to->id = ef__arena_copy(arena, to->id);
        to->type = ef__arena_copy(arena, to->type);
        if (from->after)
            steps[i].after = ef__arena_copy(arena, (ef_str){from->after, from->after_len});
        steps[i].event = to;
        if (!to->type.ptr || !to->id.ptr || !to->stream.ptr || (from->after && !steps[i].after.ptr))
            return ef__room_full(err);
    }
    if (s->before)
        out->before = ef__arena_copy(arena, (ef_str){s->before, s->before_len});
    out->steps = steps;
    out->count = s->count;
    out->more = s->more;
    return s->before && !out->before.ptr ? ef__room_full(err) : EF_OK;
}

/* A view may be past what its projection has of all streams: then up to its own last change, with
 * what waits behind a failure left out. */
static ef_status up_to_now(struct past *p, ef_error *err)
{
    ef__view view;
    bool found = false;
    ef__arena arena = EF__ARENA_INIT(64u << 20);
    ef_status st = ef__engine_as_of(p->engine, p->generation, &p->tenant, &p->upto, err);

    if (st == EF_OK)
        st = p->engine->views->ops->view_get(p->engine->views, p->generation->id, p->tenant, p->id,
                                             &arena, &view, &found, err);
    p->holds = ef__generation_by_queue(p->generation);
    if (st == EF_OK && found && view.last_position > p->upto)
        p->upto = view.last_position;
    ef__arena_release(&arena);
    return st;
}

ef_status ef_view_history(ef_engine *e, ef_str projection, ef_str tenant, ef_str id, size_t limit,
                          const ef_budget *budget, ef_view_past *out, ef_error *err)
{
    struct past p = {.engine = e, .tenant = tenant, .id = id, .changed = keep_step};
    struct steps steps = {.limit = limit ? limit : STEPS_DEFAULT};
    struct ef__batch_room *room;
    ef_status st;

    if (!e || !out || steps.limit > STEPS_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d are shown", steps.limit,
                       STEPS_MAX);
    room = out->room;
    *out = (ef_view_past){.room = room};
    p.context = &steps;
    steps.items = calloc(steps.limit, sizeof *steps.items);
    st = steps.items ? ef__room_ready(&out->room, err)
                     : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK)
        st = open_past(&p, projection, budget, err);
    if (st == EF_OK)
        st = up_to_now(&p, err);
    if (st == EF_OK)
        st = refold(&p, err);
    if (st == EF_OK && steps.failed)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (st == EF_OK && steps.count == 0)
        st = ef_fail(err, EF_NOT_FOUND, "no event has made a view \"%.*s\" of projection \"%.*s\"",
                     EF_STR_ARG(id), EF_STR_ARG(projection));
    if (st == EF_OK)
        st = hand_over(&steps, out, err);
    close_past(&p);
    release_steps(&steps);
    return st;
}

void ef_view_past_release(ef_view_past *past)
{
    if (!past)
        return;
    ef__room_release(&past->room);
    *past = (ef_view_past){0};
}
