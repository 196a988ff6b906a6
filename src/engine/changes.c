/*
 * changes.c - the views that have changed since a place, in their current state.
 *
 * The view store records the changes of commits while a tenant is followed (views/views.h). This
 * file reads the records, and then the views that they name. An idle follower costs a small write
 * every EF_VIEW_FOLLOW_MS.
 */
#include "scope.h"
#include "read.h"

#include "../base/number.h"
#include "../base/pair_map.h"

#include <inttypes.h>
#include <stdio.h>

#define CHANGES_LIMIT 100
#define CHANGES_LIMIT_MAX 1000
#define READ_TOGETHER 16      /* views per read, if the store supports that */
#define STEP_BYTES (4u << 20) /* of views: a step that has read this much ends */
/* Extended when half of it is over, so a place is valid for at least the other half. */
#define FOLLOW_US (2 * EF_VIEW_FOLLOW_MS * INT64_C(1000))

/* --- places ----------------------------------------------------------------------------------- */

void ef_view_place_format(const ef_view_place *place, char out[EF_VIEW_PLACE_MAX])
{
    (void)snprintf(out, EF_VIEW_PLACE_MAX, "%" PRId64 ".%" PRId64, place->generation,
                   place->number);
}

ef_status ef_view_place_parse(ef_str text, ef_view_place *out, ef_error *err)
{
    ef_str number = text, generation = ef__str_split(&number, '.');

    if (ef__digits_parse(generation, &out->generation) && out->generation > 0 &&
        ef__digits_parse(number, &out->number))
        return EF_OK;
    *out = (ef_view_place){0};
    return ef_fail(err, EF_BAD_INPUT,
                   "'%.*s' is no place in the changes of views; one is like 7.1767225600000000",
                   EF_STR_ARG(text));
}

/* --- the records ------------------------------------------------------------------------------ */

typedef struct changes {
    ef_engine *engine;
    const ef__generation *generation;
    const ef_view_changes_query *query;
    const ef__change_list *records;
    ef__pair_map seen; /* views that an earlier record of the step has */
    ef__arena *arena;  /* of the result */
    ef_view_change *items;
    size_t count;
    size_t bytes; /* of views */
    ef_str name;
} changes;

/* --- the views -------------------------------------------------------------------------------- */

/* Reads the views of all keys; a missing view has no data. */
static ef_status read_views(changes *c, const ef__view_key *keys, size_t count, ef__view *out,
                            ef_error *err)
{
    ef_views *views = c->engine->views;
    ef_status st = EF_OK;

    if (views->ops->view_get_many)
        return views->ops->view_get_many(views, c->generation->id, keys, count, c->arena, out, err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        bool found;
        st = views->ops->view_get(views, c->generation->id, keys[i].tenant, keys[i].name, c->arena,
                                  &out[i], &found, err);
        if (st == EF_OK && !found)
            out[i] = (ef__view){0};
    }
    return st;
}

static ef_status add_view(changes *c, const ef__change_record *record, ef__view *view,
                          ef_error *err)
{
    bool found = view->data.ptr != NULL;
    ef_view_change *to = &c->items[c->count];
    ef_status st = found ? ef__view_migrate(c->engine, c->generation, c->arena, view, err) : EF_OK;

    if (st != EF_OK)
        return st;
    to->view = (ef_view){.view_type = c->name,
                         .version = c->generation->version,
                         .tenant = c->query->tenant,
                         .view_id = record->view_id,
                         .last_event_sequence = found ? view->last_position : record->position,
                         .data = view->data};
    c->bytes += view->data.len;
    c->count++;
    return ef__arena_own(c->arena, err, &to->view.tenant, &to->view.view_id, NULL);
}

/* Adds the next few views that the query wants, from the record *at on, and moves *at past them. A
 * view is reported once per step, at its first record and in its current state, which includes the
 * changes of the later records. */
static ef_status add_next_views(changes *c, size_t *at, ef_error *err)
{
    const ef__change_record *of[READ_TOGETHER];
    ef__view_key keys[READ_TOGETHER];
    ef__view views[READ_TOGETHER];
    size_t count = 0;
    ef_status st;

    for (; *at < c->records->count && count < READ_TOGETHER; ++*at) {
        const ef__change_record *record = &c->records->items[*at];
        bool is_new;
        if (c->query->view_id.len && !ef_str_equal(c->query->view_id, record->view_id))
            continue;
        if (!ef__pair_map_at(&c->seen, c->query->tenant, record->view_id, &is_new))
            return ef_fail(err, EF_NO_MEMORY, "memory ran out for the changes of views");
        if (!is_new)
            continue;
        of[count] = record;
        keys[count++] = (ef__view_key){c->query->tenant, record->view_id};
    }
    if (count == 0)
        return EF_OK;
    st = read_views(c, keys, count, views, err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        /* All records before that of the next view are reported. */
        if (c->count > 0)
            c->items[c->count - 1].number = of[i][-1].number;
        st = add_view(c, of[i], &views[i], err);
    }
    return st;
}

/* *out_number: the number of the last record that was reported or needs no report. */
static ef_status add_views(changes *c, int64_t *out_number, ef_error *err)
{
    size_t at = 0;
    ef_status st = EF_OK;

    while (st == EF_OK && at < c->records->count && c->bytes < STEP_BYTES)
        st = add_next_views(c, &at, err);
    if (at > 0)
        *out_number = c->records->items[at - 1].number;
    if (c->count > 0)
        c->items[c->count - 1].number = *out_number;
    ef__pair_map_release(&c->seen);
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

static ef_status follow_tenant(ef_engine *e, int64_t generation, ef_str tenant, ef__follow_row *out,
                               ef_error *err)
{
    return e->views->ops->follow(e->views, generation, tenant, ef__engine_now(e) + FOLLOW_US, out,
                                 err);
}

static ef_status begin_at_end(ef_engine *e, int64_t generation, ef_str tenant, ef_view_reset reset,
                              ef_view_place *place, ef_view_change_list *out, ef_error *err)
{
    ef__follow_row row;
    ef_status st = follow_tenant(e, generation, tenant, &row, err);

    if (st == EF_OK) {
        *place = (ef_view_place){generation, row.last};
        out->reset = reset;
    }
    return st;
}

static ef_status read_changes(ef_engine *e, const ef_view_changes_query *query,
                              const ef__generation *g, ef_view_place *place,
                              ef_view_change_list *out, ef_error *err)
{
    size_t limit = query->limit ? query->limit : CHANGES_LIMIT;
    EF__AUTO(ef__change_list) records = {0};
    ef__follow_row row;
    changes c = {.engine = e,
                 .generation = g,
                 .query = query,
                 .records = &records,
                 .seen = EF__PAIR_MAP_INIT(bool, SIZE_MAX),
                 .arena = &out->room->arena};
    int64_t number = place->number;
    ef_status st = e->views->ops->change_ls(e->views, g->id, query->tenant, place->number,
                                            limit < CHANGES_LIMIT_MAX ? limit : CHANGES_LIMIT_MAX,
                                            &records, err);

    if (st == EF_OK && (!records.is_followed || place->number < records.follow.low ||
                        place->number > records.follow.last))
        return begin_at_end(e, g->id, query->tenant, EF_VIEW_RESET_EXPIRED, place, out, err);
    if (st == EF_OK && records.count > 0) {
        c.name = ef__arena_copy(c.arena, g->name);
        c.items = ef__arena_zalloc(c.arena, records.count, sizeof *c.items);
        st = c.items && c.name.ptr ? add_views(&c, &number, err) : ef__no_memory(err);
    }
    if (st == EF_OK) {
        place->number = number;
        out->items = c.items;
        out->count = c.count;
        out->more = number < records.follow.last;
        /* If this fails, the next step tries again. */
        if (records.follow.until_us - ef__engine_now(e) < FOLLOW_US / 2)
            (void)follow_tenant(e, g->id, query->tenant, &row, NULL);
    }
    return st;
}

ef_status ef_view_changes(ef_engine *e, const ef_view_changes_query *query, ef_view_place *place,
                          ef_view_change_list *out, ef_error *err)
{
    ef__read_target *route = NULL;
    int64_t id;
    ef_status st;

    if (!e || !query || !place || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, query, place or out is NULL");
    st = ef__list_prepare(out, err);
    /* The position is read before the views, so that they have at least its events. */
    if (st == EF_OK)
        st = ef__read_target_acquire(e, query->projection, &query->tenant, false, &route, err);
    if (st != EF_OK)
        return st;
    id = route->generation->id;
    out->as_of = route->as_of;
    if (place->generation == id)
        st = read_changes(e, query, route->generation, place, out, err);
    else
        st = begin_at_end(e, id, query->tenant,
                          place->generation ? EF_VIEW_RESET_SWITCHED : EF_VIEW_RESET_STARTED, place,
                          out, err);
    ef__read_target_release(e, route);
    return st;
}
