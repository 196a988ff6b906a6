/*
 * rows.h - running statements and reading their rows, by the functions that src/sqlgen.py
 * generates.
 */
#pragma once

#include "../base/arena.h"
#include "pool.h"

/* Where a statement runs. One of the three: */
typedef struct ef__pg_on {
    ef__pg_conn *conn; /* here, after those that were sent before it */
    ef__pg_pool *pool; /* on any connection, with retries: a read … */
    bool writes;       /* … or a transaction of its own that survives a crash */
    /* by a function of the back end, as ef__pg_run_statement */
    ef_status (*run)(void *context, int which, const ef__pg_params *params, PGresult **out,
                     ef_error *err);
    void *context;
} ef__pg_on;

static inline ef__pg_on ef__pg_on_conn(ef__pg_conn *conn)
{
    return (ef__pg_on){.conn = conn};
}

static inline ef__pg_on ef__pg_on_pool(ef__pg_pool *pool)
{
    return (ef__pg_on){.pool = pool};
}

static inline ef__pg_on ef__pg_on_write(ef__pg_pool *pool)
{
    return (ef__pg_on){.pool = pool, .writes = true};
}

/* Runs a statement; `out_changed` (may be NULL) is the number of rows that it has changed. */
ef_status ef__pg_run(ef__pg_on on, int which, const ef__pg_params *params, int64_t *out_changed,
                     ef_error *err);

/*
 * The rows of a result:
 *     ef__pg_rows rows = each_NAME(on, …, arena, err);
 *     while (next_NAME(&rows, &row))
 *         rows.status = …;  a failure ends the loop
 *     return ef__pg_rows_end(&rows);
 */
typedef struct ef__pg_rows {
    PGresult *result; /* NULL when the statement failed */
    int at, count;    /* the row that was read last, from 0; of all rows */
    ef__arena *arena; /* texts are copied into it; NULL: borrowed until ef__pg_rows_end */
    bool out_of_memory;
    ef_error *err;
    ef_status status;
} ef__pg_rows;

ef__pg_rows ef__pg_rows_of(ef__pg_on on, int which, const ef__pg_params *params, ef__arena *arena,
                           ef_error *err);
/* The result of the oldest statement that was sent. */
ef__pg_rows ef__pg_rows_receive(ef__pg_conn *conn, ef__arena *arena, ef_error *err);
/* Steps to the next row; false after the last one and on failure. */
bool ef__pg_rows_next(ef__pg_rows *rows);
/* Whether all texts of the row were copied; otherwise the reading ends. */
bool ef__pg_rows_check(ef__pg_rows *rows);
/* Zeroed memory for an item per row, and one more; NULL, which ends the reading: arena full. */
void *ef__pg_rows_items(ef__pg_rows *rows, size_t size);
/* Releases the result. The status of the whole reading; must be called. */
ef_status ef__pg_rows_end(ef__pg_rows *rows);

/* A text or bytea of the row. */
ef_str ef__pg_rows_text(ef__pg_rows *rows, int column);
/* Copies a value of exactly `size` bytes; another one is read as zeros. */
void ef__pg_rows_bytes(const ef__pg_rows *rows, int column, void *out, size_t size);
