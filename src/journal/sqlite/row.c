/*
 * row.c - see row.h.
 */
#include "row.h"

#include "../../base/hash.h"
#include "../../base/limits.h"

#include <inttypes.h>

ef_status sq_rows_init(sq_rows *rows, sq_store *store, ef__sq_conn *conn, ef__arena *arena,
                       size_t limit, ef_error *err)
{
    size_t count = 1;

    while (count < limit && count < SQ_ROW_STREAMS)
        count *= 2;
    *rows = (sq_rows){.store = store,
                      .conn = conn,
                      .arena = arena,
                      .streams = ef__arena_zalloc(arena, count, sizeof *rows->streams),
                      .stream_count = count,
                      .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    return rows->streams ? EF_OK : ef__no_memory(err);
}

void sq_rows_release(sq_rows *rows)
{
    ef__buf_release(&rows->scratch);
}

static ef_status fail_damaged(int64_t position, ef_error *err)
{
    return ef_fail_numbers(err, EF_DAMAGED, position, position,
                           "the event at position %" PRId64 " is damaged: its bytes have changed",
                           position);
}

/* --- names ------------------------------------------------------------------------------------ */

static ef_status cache_stream(sq_rows *rows, int64_t id, sq_row_stream *out, ef_error *err)
{
    sq_stream *stream;
    ef_status st;

    pthread_mutex_lock(&rows->store->state_lock);
    st = sq_state_stream_by_id(&rows->store->state, rows->conn, id, &stream, err);
    if (st == EF_OK)
        *out = (sq_row_stream){.tenant = ef__arena_copy(rows->arena, sq_stream_tenant(stream)),
                               .name = ef__arena_copy(rows->arena, sq_stream_name(stream))};
    pthread_mutex_unlock(&rows->store->state_lock);
    if (st == EF_OK && (!out->tenant.ptr || !out->name.ptr))
        st = ef__no_memory(err);
    out->id = st == EF_OK ? id : 0;
    return st;
}

static ef_status cache_type(sq_rows *rows, int64_t id, int64_t position, sq_row_type *out,
                            ef_error *err)
{
    const sq_state *state = &rows->store->state;
    const sq_type *type;

    pthread_mutex_lock(&rows->store->state_lock);
    type = sq_state_type_by_id(state, id);
    if (type) {
        const sq_type *canonical = &state->types[type->canonical];
        out->stored = ef__arena_copy(rows->arena, type->name);
        out->shown = canonical == type ? out->stored : ef__arena_copy(rows->arena, canonical->name);
    }
    pthread_mutex_unlock(&rows->store->state_lock);
    out->id = 0;
    if (!type)
        return fail_damaged(position, err);
    if (!out->stored.ptr || !out->shown.ptr)
        return ef__no_memory(err);
    out->id = id;
    return EF_OK;
}

static ef_status name_event(sq_rows *rows, int64_t stream_id, int64_t type_id, ef_event *event,
                            ef_str *out_shown, ef_error *err)
{
    sq_row_stream *stream = &rows->streams[(size_t)stream_id & (rows->stream_count - 1)];
    sq_row_type *type = &rows->types[(size_t)type_id % SQ_ROW_TYPES];
    ef_status st = EF_OK;

    if (stream->id != stream_id || stream_id == 0)
        st = cache_stream(rows, stream_id, stream, err);
    if (st == EF_OK && (type->id != type_id || type_id == 0))
        st = cache_type(rows, type_id, event->position, type, err);
    if (st != EF_OK)
        return st;
    event->tenant = stream->tenant;
    event->stream = stream->name;
    event->type = type->stored;
    *out_shown = type->shown;
    return EF_OK;
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Writes a text at `*at`, with a terminating NUL. */
static ef_str put_text(char **at, ef_str text)
{
    char *to = *at;

    if (text.len)
        memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    *at = to + text.len + 1;
    return (ef_str){to, text.len};
}

/* Copies the texts that belong to one event into one allocation. */
static ef_status copy_texts(sq_rows *rows, sqlite3_value **columns, ef_event *out, ef_error *err)
{
    ef_str id = ef__sq_value_str(columns[SQ_COLUMN_ID]),
           data = ef__sq_value_str(columns[SQ_COLUMN_DATA]),
           meta = ef__sq_value_str(columns[SQ_COLUMN_META]);
    char *at;

    /* A NULL text means that SQLite is out of memory, not damage. */
    if ((!id.ptr || !data.ptr || !meta.ptr) && sqlite3_errcode(rows->conn->db) == SQLITE_NOMEM)
        return ef__no_memory(err);
    at = ef__arena_alloc(rows->arena, id.len + data.len + meta.len + 3);
    if (!at)
        return ef__no_memory(err);
    out->id = put_text(&at, id);
    out->data = put_text(&at, data);
    out->meta = put_text(&at, meta);
    return EF_OK;
}

static ef_status check_sum(sq_rows *rows, const ef_event *event, uint64_t sum, ef_error *err)
{
    ef__buf_reset(&rows->scratch);
    if (!ef__event_encode(event, &rows->scratch))
        return ef__no_memory(err);
    return ef__xxh3(ef__buf_str(&rows->scratch), 0) == sum ? EF_OK
                                                           : fail_damaged(event->position, err);
}

ef_status sq_rows_take(sq_rows *rows, sqlite3_value **columns, ef_event *out, ef_error *err)
{
    sqlite3_value *hash = columns[SQ_COLUMN_HASH];
    ef_str shown = {0};
    ef_status st;

    out->position = sqlite3_value_int64(columns[SQ_COLUMN_POSITION]);
    out->seq = sqlite3_value_int64(columns[SQ_COLUMN_SEQ]);
    out->schema = sqlite3_value_int(columns[SQ_COLUMN_SCHEMA]);
    out->time_us = sqlite3_value_int64(columns[SQ_COLUMN_TIME]);
    out->recorded_us = sqlite3_value_int64(columns[SQ_COLUMN_RECORDED]);
    if (sqlite3_value_bytes(hash) == EF_HASH_BYTES)
        memcpy(out->hash, sqlite3_value_blob(hash), EF_HASH_BYTES);
    else
        memset(out->hash, 0, EF_HASH_BYTES);
    st = copy_texts(rows, columns, out, err);
    if (st == EF_OK)
        st = name_event(rows, sqlite3_value_int64(columns[SQ_COLUMN_STREAM]),
                        sqlite3_value_int64(columns[SQ_COLUMN_TYPE]), out, &shown, err);
    if (st == EF_OK)
        st = check_sum(rows, out, (uint64_t)sqlite3_value_int64(columns[SQ_COLUMN_SUM]), err);
    if (!rows->stored_types)
        out->type = shown;
    return st;
}

/* SQLite allows unprotected values to connections of one thread, as those of a store are. */
ef_status sq_rows_event(sq_rows *rows, sqlite3_stmt *row, ef_event *out, ef_error *err)
{
    sqlite3_value *columns[SQ_COLUMN_COUNT];

    for (int i = 0; i < SQ_COLUMN_COUNT; i++)
        columns[i] = sqlite3_column_value(row, i);
    return sq_rows_take(rows, columns, out, err);
}
