/*
 * projection.c - the state of a projection beside its generations: on_error, retired versions.
 */
#include "store.h"

typedef struct projection_change {
    ef_str name;
    ef_on_error on_error;
    int32_t version;
} projection_change;

static ef_status send_with(ef__pg_conn *conn, int which, ef_str name, int64_t number, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_str(&params, name);
    ef__pg_add_int(&params, number);
    return ef__pg_send(conn, which, &params, err);
}

/* Under the lock of the live set: a generation that is being added has the new value too. */
static ef_status set_on_error(void *context, ef__pg_conn *conn, ef_error *err)
{
    const projection_change *change = context;
    ef_status st = vp_lock(conn, true, (int64_t[]){0}, 1, err);

    return st == EF_OK
               ? send_with(conn, VP_ON_ERROR_SET, change->name, (int64_t)change->on_error, err)
               : st;
}

ef_status vp_on_error_set(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err)
{
    projection_change change = {.name = name, .on_error = on_error};

    return vp_write(vp_store_of(views), false, set_on_error, &change, err);
}

static ef_status retire_version(void *context, ef__pg_conn *conn, ef_error *err)
{
    const projection_change *change = context;

    return send_with(conn, VP_VERSION_RETIRE, change->name, change->version, err);
}

ef_status vp_version_retire(ef_views *views, ef_str name, int32_t version, ef_error *err)
{
    projection_change change = {.name = name, .version = version};

    return vp_write(vp_store_of(views), false, retire_version, &change, err);
}

ef_status vp_version_is_retired(ef_views *views, ef_str name, int32_t version, bool *out,
                                ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *rows = NULL;
    ef_status st;

    ef__pg_add_str(&params, name);
    ef__pg_add_int(&params, version);
    st = ef__pg_read(vp_store_of(views)->pool, VP_VERSION_IS_RETIRED, &params, &rows, err);
    *out = st == EF_OK && PQntuples(rows) > 0;
    PQclear(rows);
    return st;
}
