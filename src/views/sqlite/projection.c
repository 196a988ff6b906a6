/*
 * projection.c - the state of a projection beside its generations: on_error, retired versions.
 */
#include "store.h"

static ef_status prepare_with(ef__sq_conn *conn, int which, ef_str name, int32_t number,
                              sqlite3_stmt **out, ef_error *err)
{
    ef_status st = ef__sq_stmt(conn, which, out, err);

    if (st != EF_OK)
        return st;
    ef__sq_bind_str(*out, 1, name);
    sqlite3_bind_int(*out, 2, number);
    return EF_OK;
}

static ef_status write_with(ef_views *views, int which, ef_str name, int32_t number, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    sqlite3_stmt *stmt;
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    st = prepare_with(&store->conn, which, name, number, &stmt, err);
    if (st == EF_OK)
        st = ef__sq_done(&store->conn, stmt, err);
    return vq_write_end(store, st, err);
}

ef_status vq_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    return write_with(views, VQ_ON_ERROR_SET, name, (int32_t)on_error, err);
}

ef_status vq_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    return write_with(views, VQ_VERSION_RETIRE, name, version, err);
}

ef_status vq_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    sqlite3_stmt *stmt;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out = false;
    if (st != EF_OK)
        return st;
    st = prepare_with(conn, VQ_VERSION_IS_RETIRED, name, version, &stmt, err);
    if (st == EF_OK)
        st = ef__sq_row(conn, stmt, out, err);
    if (st == EF_OK && *out)
        sqlite3_reset(stmt);
    vq_read_end(store, reader);
    return st;
}
