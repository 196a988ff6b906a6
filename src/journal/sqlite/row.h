/*
 * row.h - rows of events: columns as events in the memory of a batch.
 *
 * A batch has many events and few names. The name of a stream or type is looked up under the state
 * lock and copied at its first event; later events share the copy. The cache has as many slots as
 * the batch may have events, up to SQ_ROW_STREAMS; a stream that replaces another costs one more
 * lookup.
 */
#pragma once

#include "store.h"

#define SQ_ROW_STREAMS 2048 /* 80 KB, zeroed for each batch of that many events */
#define SQ_ROW_TYPES 16

/* The columns of event_at, event_after and event_verify, and the arguments of accept_event. */
enum {
    SQ_COLUMN_HASH,
    SQ_COLUMN_POSITION,
    SQ_COLUMN_STREAM,
    SQ_COLUMN_SEQ,
    SQ_COLUMN_TYPE,
    SQ_COLUMN_SCHEMA,
    SQ_COLUMN_TIME,
    SQ_COLUMN_RECORDED,
    SQ_COLUMN_ID,
    SQ_COLUMN_DATA,
    SQ_COLUMN_META,
    SQ_COLUMN_SUM,
    SQ_COLUMN_COUNT,
    SQ_COLUMN_LINKS = SQ_COLUMN_COUNT /* event_verify's alone */
};

typedef struct sq_row_stream {
    int64_t id; /* 0: empty */
    ef_str tenant, name;
} sq_row_stream;

typedef struct sq_row_type {
    int64_t id;
    ef_str stored, shown; /* as appended, and the canonical name */
} sq_row_type;

typedef struct sq_rows {
    sq_store *store;
    ef__sq_conn *conn;
    ef__arena *arena; /* of the batch */
    sq_row_stream *streams;
    size_t stream_count; /* a power of two: the slot of a stream is the low bits of its id */
    sq_row_type types[SQ_ROW_TYPES];
    bool stored_types; /* stored types, not the canonical ones */
    ef__buf scratch;   /* the bytes of which the checksum is computed */
} sq_rows;

/* For up to `limit` events, read by `conn` into `arena`. */
ef_status sq_rows_init(sq_rows *rows, sq_store *store, ef__sq_conn *conn, ef__arena *arena,
                       size_t limit, ef_error *err);
void sq_rows_release(sq_rows *rows); /* accepts a zeroed one */

/* Reads the event of a row of event_at or event_after with its names, and compares its checksum:
 * EF_DAMAGED when a byte has changed. */
ef_status sq_rows_event(sq_rows *rows, sqlite3_stmt *row, ef_event *out, ef_error *err);
/* The same for the arguments of an SQL function. */
ef_status sq_rows_take(sq_rows *rows, sqlite3_value **columns, ef_event *out, ef_error *err);
