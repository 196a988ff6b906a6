/*
 * throughput.c - counters per minute of the last day, on SQLite.
 */
#include "outbox.h"

ef_status sq_throughput_add(sq_store *store, const ef_throughput *minutes, size_t count,
                            ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t newest_us = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = sq_run_throughput_add(conn, &minutes[i], err);
        newest_us = minutes[i].at_us > newest_us ? minutes[i].at_us : newest_us;
    }
    newest_us -= (EF_THROUGHPUT_MINUTES - 1) * EF__MINUTE_US;
    return st == EF_OK ? sq_run_throughput_drop(conn, newest_us, err) : st;
}

ef_status sq_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = sq_list_throughput_all(&reader->conn, from_us, &out->room->arena, &out->items, &out->count,
                                err);
    sq_read_end(store, reader);
    return st;
}
