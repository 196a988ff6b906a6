/*
 * throughput.c - counters per minute of the last day, on SQLite.
 */
#include "outbox.h"

static ef_status add_minute(ef__sq_conn *conn, const ef_throughput *minute, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st = ef__sq_stmt(conn, SQ_THROUGHPUT_ADD, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, minute->at_us);
    sqlite3_bind_int64(stmt, 2, minute->position);
    sqlite3_bind_int64(stmt, 3, minute->applied);
    sqlite3_bind_int64(stmt, 4, minute->published);
    sqlite3_bind_int64(stmt, 5, minute->failed);
    sqlite3_bind_int64(stmt, 6, minute->dead);
    return ef__sq_done(conn, stmt, err);
}

ef_status sq_throughput_add(sq_store *store, const ef_throughput *minutes, size_t count,
                            ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t newest_us = 0;
    sqlite3_stmt *stmt;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = add_minute(conn, &minutes[i], err);
        newest_us = minutes[i].at_us > newest_us ? minutes[i].at_us : newest_us;
    }
    if (st == EF_OK)
        st = ef__sq_stmt(conn, SQ_THROUGHPUT_DROP, &stmt, err);
    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, newest_us - (EF_THROUGHPUT_MINUTES - 1) * EF__MINUTE_US);
    return ef__sq_done(conn, stmt, err);
}

static ef_status list_minutes(ef__sq_conn *conn, int64_t from_us, ef_throughput_list *out,
                              ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_throughput *items = NULL;
    sqlite3_stmt *stmt;
    bool row;
    ef_status st = ef__sq_stmt(conn, SQ_THROUGHPUT_ALL, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, from_us);
    while ((st = ef__sq_row(conn, stmt, &row, err)) == EF_OK && row) {
        items = sq_list_grow(arena, items, out->count, sizeof *items);
        if (!items) {
            sqlite3_reset(stmt);
            return ef__no_memory(err);
        }
        items[out->count++] = (ef_throughput){.at_us = sqlite3_column_int64(stmt, 0),
                                              .position = sqlite3_column_int64(stmt, 1),
                                              .appended = sqlite3_column_int64(stmt, 2),
                                              .applied = sqlite3_column_int64(stmt, 3),
                                              .published = sqlite3_column_int64(stmt, 4),
                                              .failed = sqlite3_column_int64(stmt, 5),
                                              .dead = sqlite3_column_int64(stmt, 6)};
        out->items = items;
    }
    return st;
}

ef_status sq_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = list_minutes(&reader->conn, from_us, out, err);
    sq_read_end(store, reader);
    return st;
}
