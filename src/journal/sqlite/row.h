/*
 * row.h - rows of events: from columns to events in the memory of a batch.
 *
 * A batch has many events and few names. What a stream or a type is called is looked up under the
 * state lock and copied when it is first met, and the events behind it share the copy. As many
 * streams are remembered as the batch may have events, up to SQ_ROW_STREAMS: one that takes the
 * place of another costs a look more, no more than that.
 */
#ifndef EF_JOURNAL_SQLITE_ROW_H
#define EF_JOURNAL_SQLITE_ROW_H

#include "store.h"

#define SQ_ROW_STREAMS 2048 /* 80 KB, zeroed for each batch of that many events */
#define SQ_ROW_TYPES 16

/* The columns of event_at and event_after, of event_verify, and of what event_follow takes. */
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
    SQ_COLUMN_PREV = SQ_COLUMN_COUNT, /* the last two are event_verify's alone */
    SQ_COLUMN_JUMP
};

typedef struct sq_row_stream {
    int64_t id; /* 0: nobody is here */
    ef_str tenant, name;
} sq_row_stream;

typedef struct sq_row_type {
    int64_t id;
    ef_str stored, shown; /* as appended, and what that is an alias of */
} sq_row_type;

typedef struct sq_rows {
    sq_store *store;
    ef__sq_conn *conn;
    ef__arena *arena; /* of the batch */
    sq_row_stream *streams;
    size_t stream_count; /* a power of two: a stream's place is the end of its number */
    sq_row_type types[SQ_ROW_TYPES];
    bool stored_types; /* types as they were appended, also where they are aliases */
    ef__buf scratch;   /* what the sum of an event is over */
} sq_rows;

/* For up to `limit` events, read by `conn` into `arena`. */
ef_status sq_rows_init(sq_rows *rows, sq_store *store, ef__sq_conn *conn, ef__arena *arena,
                       size_t limit, ef_error *err);
void sq_rows_release(sq_rows *rows); /* a zeroed one too */

/* Read the event of a row of event_at or event_after, names and all, and check its sum: EF_DAMAGED
 * when a byte of it has changed. */
ef_status sq_rows_event(sq_rows *rows, sqlite3_stmt *row, ef_event *out, ef_error *err);
/* The same of its columns, as SQLite hands them to a function. */
ef_status sq_rows_take(sq_rows *rows, sqlite3_value **columns, ef_event *out, ef_error *err);

#endif
