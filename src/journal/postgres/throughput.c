/*
 * throughput.c - counters per minute of the last day, on PostgreSQL.
 */
#include "store.h"

ef_status pg_throughput_send(ef__pg_conn *conn, const ef_throughput *minutes, size_t count,
                             ef_error *err)
{
    ef__pg_params drop = {0};
    int64_t newest_us = 0;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        ef__pg_params params = {0};
        ef__pg_add_int(&params, minutes[i].at_us);
        ef__pg_add_int(&params, minutes[i].position);
        ef__pg_add_int(&params, minutes[i].applied);
        ef__pg_add_int(&params, minutes[i].published);
        ef__pg_add_int(&params, minutes[i].failed);
        ef__pg_add_int(&params, minutes[i].dead);
        st = ef__pg_send(conn, PJ_THROUGHPUT_ADD, &params, err);
        newest_us = minutes[i].at_us > newest_us ? minutes[i].at_us : newest_us;
    }
    ef__pg_add_int(&drop, newest_us - (EF_THROUGHPUT_MINUTES - 1) * EF__MINUTE_US);
    return st == EF_OK ? ef__pg_send(conn, PJ_THROUGHPUT_DROP, &drop, err) : st;
}

ef_status pg_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_throughput *items = NULL;
    ef_status st;

    ef__pg_add_int(&params, from_us);
    st = ef__pg_read(pg_store_of(journal)->pool, PJ_THROUGHPUT_ALL, &params, &result, err);
    if (st == EF_OK &&
        !(items = pg_items_alloc(&out->room->arena, PQntuples(result), sizeof *items)))
        st = ef__no_memory(err);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++)
        items[out->count++] = (ef_throughput){.at_us = ef__pg_int(result, i, 0),
                                              .position = ef__pg_int(result, i, 1),
                                              .appended = ef__pg_int(result, i, 2),
                                              .applied = ef__pg_int(result, i, 3),
                                              .published = ef__pg_int(result, i, 4),
                                              .failed = ef__pg_int(result, i, 5),
                                              .dead = ef__pg_int(result, i, 6)};
    out->items = items;
    PQclear(result);
    return st;
}
