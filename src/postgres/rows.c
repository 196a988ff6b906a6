/*
 * rows.c - see rows.h.
 */
#include "rows.h"

#include "../base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static ef_status query_on(ef__pg_on on, int which, const ef__pg_params *params, PGresult **out,
                          ef_error *err)
{
    ef__pg_statement statement = {which, params, out};

    *out = NULL;
    if (on.conn)
        return ef__pg_query(on.conn, which, params, out, err);
    if (on.pool && on.writes)
        return ef__pg_transaction(on.pool, EF__PG_WRITE, ef__pg_run_statement, &statement, err);
    if (on.pool)
        return ef__pg_with_conn(on.pool, ef__pg_run_statement, &statement, err);
    return on.run(on.context, which, params, out, err);
}

ef_status ef__pg_run(ef__pg_on on, int which, const ef__pg_params *params, int64_t *out_changed,
                     ef_error *err)
{
    PGresult *result;
    ef_status st = query_on(on, which, params, &result, err);

    if (st == EF_OK && out_changed)
        *out_changed = strtoll(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return st;
}

static void begin_rows(ef__pg_rows *rows)
{
    rows->at = -1;
    rows->count = rows->status == EF_OK ? PQntuples(rows->result) : 0;
}

ef__pg_rows ef__pg_rows_of(ef__pg_on on, int which, const ef__pg_params *params, ef__arena *arena,
                           ef_error *err)
{
    ef__pg_rows rows = {.arena = arena, .err = err};

    rows.status = query_on(on, which, params, &rows.result, err);
    begin_rows(&rows);
    return rows;
}

ef__pg_rows ef__pg_rows_receive(ef__pg_conn *conn, ef__arena *arena, ef_error *err)
{
    ef__pg_rows rows = {.arena = arena, .err = err};

    rows.status = ef__pg_receive(conn, &rows.result, err);
    begin_rows(&rows);
    return rows;
}

bool ef__pg_rows_next(ef__pg_rows *rows)
{
    if (rows->status != EF_OK || rows->at + 1 >= rows->count)
        return false;
    rows->at++;
    return true;
}

bool ef__pg_rows_check(ef__pg_rows *rows)
{
    if (rows->out_of_memory && rows->status == EF_OK)
        rows->status = ef__no_memory(rows->err);
    return rows->status == EF_OK;
}

void *ef__pg_rows_items(ef__pg_rows *rows, size_t size)
{
    void *items = NULL;

    assert(rows->arena);
    if (rows->status == EF_OK)
        items = ef__arena_zalloc(rows->arena, (size_t)rows->count + 1, size);
    rows->out_of_memory = !items;
    (void)ef__pg_rows_check(rows);
    return items;
}

ef_status ef__pg_rows_end(ef__pg_rows *rows)
{
    PQclear(rows->result);
    rows->result = NULL;
    return rows->status;
}

ef_str ef__pg_rows_text(ef__pg_rows *rows, int column)
{
    ef_str text = ef__pg_str(rows->result, rows->at, column);

    if (!rows->arena)
        return text;
    text = ef__arena_copy(rows->arena, text);
    rows->out_of_memory = rows->out_of_memory || !text.ptr;
    return text;
}

void ef__pg_rows_bytes(const ef__pg_rows *rows, int column, void *out, size_t size)
{
    ef_str bytes = ef__pg_str(rows->result, rows->at, column);

    memset(out, 0, size);
    if (bytes.len == size)
        memcpy(out, bytes.ptr, size);
}
