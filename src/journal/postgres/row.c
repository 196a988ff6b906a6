/*
 * row.c - events and lists from results of the server.
 */
#include "store.h"

#include "../../base/hash.h"
#include "../../base/limits.h"

#include <inttypes.h>

ef_str pg_copy_text(const PGresult *result, int row, int column, ef__arena *arena)
{
    return ef__arena_copy(arena, ef__pg_str(result, row, column));
}

void *pg_items_alloc(ef__arena *arena, int count, size_t size)
{
    return ef__arena_zalloc(arena, (size_t)count + 1, size);
}

ef_status pg_event_read(const PGresult *result, int row, ef__buf *scratch, ef_event *out,
                        ef_str *out_type, ef_error *err)
{
    ef_str hash = ef__pg_str(result, row, 13);

    *out = (ef_event){.position = ef__pg_int(result, row, 0),
                      .tenant = ef__pg_str(result, row, 1),
                      .stream = ef__pg_str(result, row, 2),
                      .seq = ef__pg_int(result, row, 3),
                      .id = ef__pg_str(result, row, 4),
                      .type = ef__pg_str(result, row, 5),
                      .schema = (int32_t)ef__pg_int(result, row, 7),
                      .time_us = ef__pg_int(result, row, 8),
                      .recorded_us = ef__pg_int(result, row, 9),
                      .data = ef__pg_str(result, row, PG_EVENT_DATA),
                      .meta = ef__pg_str(result, row, 11)};
    if (out_type)
        *out_type = ef__pg_str(result, row, 6);
    ef__buf_reset(scratch);
    if (!ef__event_encode(out, scratch))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while reading");
    if (hash.len != sizeof out->hash ||
        (uint64_t)ef__pg_int(result, row, 12) != ef__xxh3(ef__buf_str(scratch), 0))
        return ef_fail_numbers(
            err, EF_DAMAGED, out->position, out->position,
            "the event at position %" PRId64 " is damaged: its bytes have changed", out->position);
    memcpy(out->hash, hash.ptr, hash.len);
    return EF_OK;
}

/* Copies the texts of an event into an arena. */
static bool copy_event(ef_event *event, ef_str type, ef__arena *arena)
{
    event->tenant = ef__arena_copy(arena, event->tenant);
    event->stream = ef__arena_copy(arena, event->stream);
    event->id = ef__arena_copy(arena, event->id);
    event->type = ef__arena_copy(arena, type);
    event->data = ef__arena_copy(arena, event->data);
    event->meta = ef__arena_copy(arena, event->meta);
    return event->tenant.ptr && event->stream.ptr && event->id.ptr && event->type.ptr &&
           event->data.ptr && event->meta.ptr;
}

ef_status pg_events_copy(const PGresult *result, size_t limit, bool stored_types, ef_batch *out,
                         ef_error *err)
{
    int rows = PQntuples(result);
    ef__arena *arena = &out->room->arena;
    ef_event *events = pg_items_alloc(arena, rows, sizeof *events);
    ef__buf scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES);
    ef_str type;
    ef_status st = events ? EF_OK : ef__no_memory(err);
    int i;

    for (i = 0; st == EF_OK && i < rows && (size_t)i < limit; i++) {
        if (ef__pg_null(result, i, PG_EVENT_DATA))
            break;
        st = pg_event_read(result, i, &scratch, &events[i], &type, err);
        if (st == EF_OK && !copy_event(&events[i], stored_types ? events[i].type : type, arena)) {
            st = i == 0 ? ef__no_memory(err) : EF_OK;
            break;
        }
    }
    ef__buf_release(&scratch);
    if (st != EF_OK)
        return st;
    out->events = events;
    out->count = (size_t)i;
    out->more = i < rows;
    return EF_OK;
}
