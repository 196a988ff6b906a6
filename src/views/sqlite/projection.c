/*
 * projection.c - the state of a projection beside its generations: on_error, retired versions.
 */
#include "store.h"

ef_status vq_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, vq_run_on_error_set(&store->conn, name, on_error, err), err);
}

ef_status vq_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    return vq_write_end(store, vq_run_version_retire(&store->conn, name, version, err), err);
}

ef_status vq_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *reader;
    ef__sq_conn *conn;
    ef_status st = vq_read_begin(store, true, &reader, &conn, err);

    *out = false;
    if (st != EF_OK)
        return st;
    st = vq_one_version_is_retired(conn, name, version, out, err);
    vq_read_end(store, reader);
    return st;
}
