/*
 * changes_place.c - how far a follower of a projection is, as text and as of now.
 */
#include "changes.h"

#include "../base/room.h"

#include <inttypes.h>
#include <stdio.h>

#define NOW_PAGES_MAX 20
#define NOW_PAGE_ROWS 500
#define DIGITS_MAX 18 /* of a position: below 10^18 */

void ef_view_place_format(const ef_view_place *place, char out[EF_VIEW_PLACE_MAX])
{
    size_t at = (size_t)snprintf(out, EF_VIEW_PLACE_MAX, "%" PRId64, place->position);

    for (size_t i = 0; i < place->waiting_count && i < EF_VIEW_WAITING_MAX; i++)
        at += (size_t)snprintf(out + at, EF_VIEW_PLACE_MAX - at, "%c%" PRId64, i ? ',' : ';',
                               place->waiting[i]);
}

/* A number at *at, which moves behind it. */
static bool read_position(ef_str text, size_t *at, int64_t *out)
{
    size_t start = *at;

    *out = 0;
    while (*at < text.len && text.ptr[*at] >= '0' && text.ptr[*at] <= '9' &&
           *at - start < DIGITS_MAX)
        *out = *out * 10 + (text.ptr[(*at)++] - '0');
    return *at > start;
}

static bool read_waiting(ef_str text, size_t at, ef_view_place *out)
{
    for (char before = ';'; at < text.len; before = ',') {
        int64_t *to = &out->waiting[out->waiting_count];
        if (out->waiting_count == EF_VIEW_WAITING_MAX || text.ptr[at++] != before ||
            !read_position(text, &at, to) || *to < 1 || *to > out->position ||
            (out->waiting_count > 0 && *to <= to[-1]))
            return false;
        out->waiting_count++;
    }
    return true;
}

ef_status ef_view_place_parse(ef_str text, ef_view_place *out, ef_error *err)
{
    size_t at = 0;

    *out = (ef_view_place){0};
    if (read_position(text, &at, &out->position) && read_waiting(text, at, out))
        return EF_OK;
    *out = (ef_view_place){0};
    return ef_fail(err, EF_BAD_INPUT, "'%.*s' is no place; a position, or one like 120;17,99",
                   EF_STR_ARG(text));
}

int64_t ef_view_place_as_of(const ef_view_place *place)
{
    return place->waiting_count > 0 ? place->waiting[0] - 1 : place->position;
}

bool ef__place_add(ef_view_place *place, int64_t position)
{
    size_t at = place->waiting_count;

    if (at == EF_VIEW_WAITING_MAX)
        return false;
    for (; at > 0 && place->waiting[at - 1] > position; at--)
        place->waiting[at] = place->waiting[at - 1];
    place->waiting[at] = position;
    place->waiting_count++;
    return true;
}

bool ef__streams_have(const ef__streams *set, ef_str stream)
{
    for (size_t i = 0; i < set->count; i++)
        if (ef_str_equal(set->names[i], stream))
            return true;
    return false;
}

bool ef__streams_add(ef__streams *set, ef_str stream)
{
    ef_str name =
        set->count < EF_VIEW_WAITING_MAX ? ef__arena_copy(&set->arena, stream) : (ef_str){NULL, 0};

    if (!name.ptr)
        return false;
    set->names[set->count++] = name;
    return true;
}

ef_status ef__lane_rows(ef_engine *e, ef_str lane, ef_str tenant, int64_t from, size_t limit,
                        ef_row_list *out, ef_error *err)
{
    ef_error own = EF_ERROR_INIT;
    ef_status st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){.lane = lane, .tenant = tenant, .from = from, .limit = limit}, out,
        &own);

    if (st == EF_NOT_FOUND) { /* nothing has ever failed there */
        out->count = 0;
        return EF_OK;
    }
    if (st != EF_OK && err)
        *err = own;
    return st;
}

/* A generation may be paused, retired or left between two looks at it. What was read of the journal
 * is only good if it is still as it was: otherwise an event that it was never given looks as if it
 * had it. */
ef_status ef__place_bound(ef_engine *e, ef_str projection, ef_str tenant, ef__generation_list *list,
                          const ef__generation **out, int64_t *out_taken, ef_error *err)
{
    ef__generation_list again = {0};
    const ef__generation *g = NULL;
    ef_status st = ef__engine_routed(e, projection, list, out, err);

    if (st == EF_OK)
        st = ef__engine_taken(e, *out, &tenant, out_taken, err);
    if (st == EF_OK)
        st = ef__engine_routed(e, projection, &again, &g, err);
    if (st == EF_OK && (g->id != (*out)->id || g->era != (*out)->era))
        *out_taken = -1;
    ef__generation_list_release(&again);
    return st;
}

/* Behind a page of rows: each stream's first is noted. False: there is room for no more, and the
 * place ends before it. */
static bool note_rows(ef_view_place *place, ef__streams *streams, const ef_row_list *rows)
{
    for (size_t i = 0; i < rows->count && rows->items[i].position <= place->position; i++) {
        const ef_row *row = &rows->items[i];
        if (ef__streams_have(streams, row->stream))
            continue;
        if (!ef__streams_add(streams, row->stream) || !ef__place_add(place, row->position)) {
            place->position = row->position - 1;
            return false;
        }
    }
    return true;
}

/* What waits in the own lane at or below the place. However much it is, only so much is looked at:
 * then the place is lower, and what was told already is told again. */
static ef_status note_waiting(ef_engine *e, ef_str lane, ef_str tenant, ef_view_place *place,
                              ef_error *err)
{
    ef__streams streams = EF__STREAMS_INIT;
    ef_row_list rows = {0};
    ef_status st = EF_OK;
    int64_t from = 1;

    for (size_t page = 0; st == EF_OK && from <= place->position; page++) {
        if (page == NOW_PAGES_MAX) {
            place->position = from - 1;
            break;
        }
        st = ef__lane_rows(e, lane, tenant, from, NOW_PAGE_ROWS, &rows, err);
        if (st != EF_OK || !note_rows(place, &streams, &rows) || rows.count < NOW_PAGE_ROWS)
            break;
        from = rows.items[rows.count - 1].position + 1;
    }
    ef_row_list_release(&rows);
    ef__arena_release(&streams.arena);
    return st;
}

ef_status ef_view_place_now(ef_engine *e, ef_str projection, ef_str tenant, ef_view_place *out,
                            ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *g = NULL;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine or out is NULL");
    *out = (ef_view_place){0};
    st = ef__place_bound(e, projection, tenant, &list, &g, &out->position, err);
    if (st == EF_OK && out->position < 0)
        st = ef_fail(err, EF_BUSY, "projection \"%.*s\" is being changed; try again",
                     EF_STR_ARG(projection));
    if (st == EF_OK)
        st = note_waiting(e, g->name, tenant, out, err);
    ef__generation_list_release(&list);
    return st;
}
