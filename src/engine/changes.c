/*
 * changes.c - which views have changed since a position, as they are now.
 *
 * No store keeps a list of changes. The events say which views they touch: each is folded aside
 * once more, and whatever view the program asks for is one that may have changed; whether it has is
 * told by the position that the view carries. So following a projection costs those who follow, and
 * nothing on the way of an event.
 */
#include "migrate.h"

#include "../fold/folder.h"

#define CHANGES_LIMIT_MAX 1000
#define CHANGES_BYTES_MAX (64u << 20)

typedef struct changes {
    ef_engine *engine;
    const ef__generation *generation;
    const ef_view_changes_query *query;
    ef__arena *arena; /* of the answer */
    ef_view *items;
    size_t count, room;
    ef__arena scratch; /* of a view that is only shown to the program */
    ef_status st;
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

static ef_status keep(changes *c, ef_str tenant, ef_str id, const ef__view *view, bool found,
                      ef_error *err)
{
    ef_view *to;
    ef_status st = EF_OK;

    if (!ef_str_equal(tenant, c->query->tenant) ||
        (c->query->view_id.len > 0 && !ef_str_equal(id, c->query->view_id)) ||
        (found && view->last_position <= c->query->after))
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
    c->st = st;
    return st;
}

static ef_status touch(changes *c, ef__folder *folder, const ef_batch *batch, int64_t as_of,
                       int64_t *out_reached, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < batch->count; i++) {
        ef__outcome outcome;
        if (batch->events[i].position > as_of)
            break;
        st = ef__folder_apply(folder, &batch->events[i], &outcome, err);
        *out_reached = batch->events[i].position;
    }
    return st;
}

static ef_status look(changes *c, int64_t as_of, int64_t *out_reached, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__folder *folder = NULL;
    const ef__program *program;
    size_t limit = c->query->limit ? c->query->limit : 100;
    int64_t reached = c->query->after;
    ef_status st = ef__engine_program(c->engine, c->generation, &program, err);

    if (st == EF_OK)
        st = ef__folder_open(
            &(ef__folder_options){
                .program = program, .load = load, .context = c, .max_bytes = CHANGES_BYTES_MAX},
            &folder, err);
    if (st == EF_OK)
        st = ef_journal_read_log(
            c->engine->journal,
            &(ef_log_query){.tenant = c->query->tenant,
                            .after = c->query->after,
                            .limit = limit < CHANGES_LIMIT_MAX ? limit : CHANGES_LIMIT_MAX,
                            .out_reached = &reached},
            &batch, err);
    *out_reached = c->query->after;
    if (st == EF_OK)
        st = touch(c, folder, &batch, as_of, out_reached, err);
    /* What other tenants wrote behind the last event has been looked at too. */
    if (st == EF_OK && (batch.count == 0 || *out_reached == batch.events[batch.count - 1].position))
        *out_reached = reached < as_of ? reached : as_of > *out_reached ? as_of : *out_reached;
    ef__folder_close(folder);
    ef_batch_release(&batch);
    return st;
}

ef_status ef_view_changes(ef_engine *engine, const ef_view_changes_query *query, ef_view_list *out,
                          int64_t *out_reached, ef_error *err)
{
    ef__generation_list list = {0};
    changes c = {.engine = engine, .query = query, .scratch = EF__ARENA_INIT(CHANGES_BYTES_MAX)};
    int64_t as_of = 0;
    ef_status st;

    if (!engine || !query || !out || !out_reached)
        return ef_fail(err, EF_BAD_INPUT, "engine, query, out or out_reached is NULL");
    out->count = 0;
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK)
        st = ef__engine_routed(engine, query->projection, &list, &c.generation, err);
    if (st == EF_OK)
        st = ef__engine_as_of(engine, c.generation, &query->tenant, &as_of, err);
    *out_reached = query->after;
    if (st == EF_OK && as_of > query->after) {
        c.arena = &out->room->arena;
        st = look(&c, as_of, out_reached, err);
    }
    if (st == EF_OK && c.count > 0) {
        ef_str name = ef__arena_copy(&out->room->arena, c.generation->name);
        for (size_t i = 0; i < c.count; i++)
            c.items[i].view_type = name;
    }
    out->items = c.items;
    out->count = c.count;
    out->as_of = as_of;
    ef__arena_release(&c.scratch);
    ef__generation_list_release(&list);
    return st;
}
