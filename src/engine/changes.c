/*
 * changes.c - which views have changed since a position, as they are now.
 *
 * No store keeps a list of changes. The events say which views they touch: each is folded aside
 * once more, and whatever view the program asks for is one that may have changed; whether it has is
 * told by the position that the view carries. So following a projection costs those who follow, and
 * nothing on the way of an event.
 *
 * What the projection was given and has not got has a row in its own lane. Such an event is passed
 * over, and its stream noted in the place; when the row is gone, the stream's events from there on
 * are looked at. The order of reads makes it safe: first how far it was given events, then the
 * rows, then the views. An event without a row by then is in the views.
 */
#include "changes.h"
#include "migrate.h"

#include "../fold/folder.h"

#define CHANGES_LIMIT 100
#define CHANGES_LIMIT_MAX 1000
#define CHANGES_BYTES_MAX (64u << 20)

typedef struct changes {
    ef_engine *engine;
    const ef__generation *generation;
    const ef_view_changes_query *query;
    ef_view_place before; /* where the follower was … */
    ef_view_place *place; /* … and gets to */
    size_t limit;
    ef__folder *folder;
    ef__arena *arena; /* of the answer */
    ef_view *items;
    size_t count, room;
    ef__arena scratch; /* of a view that is only shown to the program */
} changes;

static ef_status grow(changes *c, ef_error *err)
{
    size_t room = c->room ? 2 * c->room : 64;
    ef_view *grown;

    if (c->count < c->room)
        return EF_OK;
    grown = ef__arena_zalloc(c->arena, room, sizeof *grown);
    if (!grown)
        return ef__room_full(err);
    if (c->count > 0)
        memcpy(grown, c->items, c->count * sizeof *grown);
    c->items = grown;
    c->room = room;
    return EF_OK;
}

/* A view that carries an older position was not changed by what is new; unless something waits:
 * what comes late writes the position that it has. */
static ef_status keep(changes *c, ef_str tenant, ef_str id, const ef__view *view, bool found,
                      ef_error *err)
{
    ef_view *to;
    ef_status st = EF_OK;

    if (!ef_str_equal(tenant, c->query->tenant) ||
        (c->query->view_id.len > 0 && !ef_str_equal(id, c->query->view_id)) ||
        (found && c->before.waiting_count == 0 && view->last_position <= c->before.position))
        return EF_OK;
    st = grow(c, err);
    if (st != EF_OK)
        return st;
    to = &c->items[c->count];
    *to = (ef_view){.view_type = c->generation->name,
                    .version = c->generation->version,
                    .tenant = ef__arena_copy(c->arena, tenant),
                    .view_id = ef__arena_copy(c->arena, id),
                    .last_event_sequence = found ? view->last_position : 0};
    if (found)
        to->data = ef__arena_copy(c->arena, view->data);
    if (!to->tenant.ptr || !to->view_id.ptr || (found && !to->data.ptr))
        return ef__room_full(err);
    c->count++;
    return EF_OK;
}

/* The program asks for a view: the first time that an event of the batch touches it. */
static ef_status load(void *context, ef_str tenant, ef_str id, ef__stored_view *out, ef_error *err)
{
    changes *c = context;
    ef__view view = {0};
    ef_status st;

    ef__arena_reset(&c->scratch);
    st = c->engine->views->ops->view_get(c->engine->views, c->generation->id, tenant, id,
                                         &c->scratch, &view, &out->found, err);
    if (st == EF_OK && out->found)
        st = ef__view_migrate(c->engine, c->generation, &c->scratch, &view, err);
    if (st == EF_OK)
        st = keep(c, tenant, id, &view, out->found, err);
    out->data = view.data;
    out->schema = view.schema;
    return st;
}

static ef_status touch(changes *c, const ef_event *event, ef_error *err)
{
    ef__outcome outcome;

    return ef__folder_apply(c->folder, event, &outcome, err);
}

/* --- what comes late
 * ------------------------------------------------------------------------------- */

/* The first row of the own lane from a position on; INT64_MAX: there is none. */
static ef_status next_row(changes *c, int64_t from, int64_t *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st =
        ef__lane_rows(c->engine, c->generation->name, c->query->tenant, from, 1, &rows, err);

    *out = st == EF_OK && rows.count > 0 ? rows.items[0].position : INT64_MAX;
    ef_row_list_release(&rows);
    return st;
}

/* The events of a stream from the one that waited on, up to where the follower has been: those that
 * went through are looked at, the next one that waits is noted. A long stream takes several steps.
 */
static ef_status go_through(changes *c, const ef_batch *events, ef_error *err)
{
    int64_t row = 0;
    size_t i;
    ef_status st = EF_OK;

    for (i = 0; st == EF_OK && i < events->count; i++) {
        const ef_event *event = &events->events[i];
        bool last = i + 1 == c->limit;
        if (event->position > c->before.position)
            return EF_OK;
        if (row < event->position)
            st = next_row(c, event->position, &row, err);
        if (st == EF_OK && (row == event->position || last)) {
            (void)ef__place_add(c->place, event->position);
            return EF_OK;
        }
        if (st == EF_OK)
            st = touch(c, event, err);
    }
    return st;
}

static ef_status read_at(changes *c, int64_t position, ef_batch *out, ef_error *err)
{
    ef_status st = ef_journal_read_log(
        c->engine->journal,
        &(ef_log_query){.tenant = c->query->tenant, .after = position - 1, .limit = 1}, out, err);

    if (st == EF_OK && (out->count == 0 || out->events[0].position != position))
        st = ef_fail(err, EF_BAD_INPUT, "no event of the tenant is at position %lld, which waits",
                     (long long)position);
    return st;
}

/* One stream that waited: does it still? A rebuild in place has yet to come to it. */
static ef_status look_late(changes *c, int64_t position, int64_t taken, ef_error *err)
{
    ef_batch one = EF_BATCH_INIT, events = EF_BATCH_INIT;
    int64_t row = position;
    ef_status st = taken < position ? EF_OK : next_row(c, position, &row, err);

    if (st == EF_OK && row == position) {
        (void)ef__place_add(c->place, position);
        return EF_OK;
    }
    if (st == EF_OK)
        st = read_at(c, position, &one, err);
    if (st == EF_OK)
        st = ef_journal_read_stream(c->engine->journal, c->query->tenant, one.events[0].stream,
                                    one.events[0].seq, c->limit, &events, err);
    if (st == EF_OK)
        st = go_through(c, &events, err);
    ef_batch_release(&one);
    ef_batch_release(&events);
    return st;
}

/* --- what is new
 * ----------------------------------------------------------------------------------- */

/* The streams that wait by now, for a row that is met: one of these is no news. */
static ef_status name_waiting(changes *c, ef__streams *streams, ef_error *err)
{
    ef_batch one = EF_BATCH_INIT;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < c->place->waiting_count; i++) {
        st = read_at(c, c->place->waiting[i], &one, err);
        if (st == EF_OK && !ef__streams_add(streams, one.events[0].stream))
            st = ef__room_full(err);
    }
    ef_batch_release(&one);
    return st;
}

/* Events up to `upto`, with the rows that are there for some of them. The place ends before a
 * stream that there is no room for. */
static ef_status touch_new(changes *c, const ef_batch *batch, const ef_row_list *rows, int64_t upto,
                           ef_error *err)
{
    ef__streams streams = EF__STREAMS_INIT;
    ef_status st = rows->count > 0 ? name_waiting(c, &streams, err) : EF_OK;
    size_t row = 0;

    for (size_t i = 0; st == EF_OK && i < batch->count; i++) {
        const ef_event *event = &batch->events[i];
        if (event->position > upto)
            break;
        while (row < rows->count && rows->items[row].position < event->position)
            row++;
        if (row == rows->count || rows->items[row].position != event->position) {
            st = touch(c, event, err);
        } else if (!ef__streams_have(&streams, event->stream)) {
            if (!ef__streams_add(&streams, event->stream) ||
                !ef__place_add(c->place, event->position)) {
                upto = event->position - 1;
                break;
            }
        }
    }
    c->place->position = upto;
    ef__arena_release(&streams.arena);
    return st;
}

static ef_status look_new(changes *c, int64_t taken, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_row_list rows = {0};
    int64_t reached = c->before.position;
    ef_status st = ef_journal_read_log(c->engine->journal,
                                       &(ef_log_query){.tenant = c->query->tenant,
                                                       .after = c->before.position,
                                                       .limit = c->limit,
                                                       .out_reached = &reached},
                                       &batch, err);

    /* A row is of an event of the tenant: there are no more in that range than events. */
    if (st == EF_OK)
        st = ef__lane_rows(c->engine, c->generation->name, c->query->tenant, c->before.position + 1,
                           c->limit, &rows, err);
    if (st == EF_OK)
        st = touch_new(c, &batch, &rows, reached < taken ? reached : taken, err);
    ef_row_list_release(&rows);
    ef_batch_release(&batch);
    return st;
}

static ef_status look(changes *c, int64_t taken, ef_error *err)
{
    const ef__program *program;
    ef_status st = ef__engine_program(c->engine, c->generation, &program, err);

    if (st == EF_OK)
        st = ef__folder_open(
            &(ef__folder_options){
                .program = program, .load = load, .context = c, .max_bytes = CHANGES_BYTES_MAX},
            &c->folder, err);
    c->place->waiting_count = 0;
    for (size_t i = 0; st == EF_OK && i < c->before.waiting_count; i++)
        st = look_late(c, c->before.waiting[i], taken, err);
    if (st == EF_OK && taken > c->before.position)
        st = look_new(c, taken, err);
    ef__folder_close(c->folder);
    return st;
}

static void fill(changes *c, ef_view_list *out)
{
    ef_str name = c->count > 0 ? ef__arena_copy(c->arena, c->generation->name) : EF_STR("");

    for (size_t i = 0; i < c->count; i++)
        c->items[i].view_type = name;
    out->items = c->items;
    out->count = c->count;
    out->as_of = ef_view_place_as_of(c->place);
}

/* At least two: a stream that waited is gone through up to the last one read. */
static size_t read_limit(size_t asked)
{
    size_t limit = asked ? asked : CHANGES_LIMIT;

    return limit < 2 ? 2 : limit < CHANGES_LIMIT_MAX ? limit : CHANGES_LIMIT_MAX;
}

ef_status ef_view_changes(ef_engine *engine, const ef_view_changes_query *query,
                          ef_view_place *place, ef_view_list *out, ef_error *err)
{
    ef__generation_list list = {0};
    changes c = {.engine = engine, .query = query, .scratch = EF__ARENA_INIT(CHANGES_BYTES_MAX)};
    int64_t taken = 0;
    ef_status st;

    if (!engine || !query || !place || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, query, place or out is NULL");
    out->count = 0;
    c.before = *place;
    c.place = place;
    c.limit = read_limit(query->limit);
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK)
        st = ef__place_bound(engine, query->projection, query->tenant, &list, &c.generation, &taken,
                             err);
    c.arena = st == EF_OK ? &out->room->arena : NULL;
    if (st == EF_OK && (taken > place->position || (taken >= 0 && place->waiting_count > 0)))
        st = look(&c, taken, err);
    if (st == EF_OK)
        fill(&c, out);
    else
        *place = c.before;
    ef__arena_release(&c.scratch);
    ef__generation_list_release(&list);
    return st;
}
