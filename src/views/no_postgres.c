/*
 * no_postgres.c - stands in for postgres/ where libpq was not there when Everfold was built.
 */
#include "views.h"

#define WITHOUT "this Everfold was built without PostgreSQL"

ef_status ef__views_postgres_open(const ef__views_options *options, ef_views **out, ef_error *err)
{
    return ef_fail(err, EF_UNSUPPORTED, WITHOUT);
}

bool ef__views_postgres_schema(ef__buf *out)
{
    return ef__buf_add_text(out, "-- " WITHOUT "\n");
}
