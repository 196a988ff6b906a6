/*
 * no_postgres.c - stands in for postgres/ where libpq was not there when Everfold was built.
 */
#include "views.h"

#define WITHOUT "this Everfold was built without PostgreSQL"

ef_status ef__views_postgres_open(const ef__views_options *options, ef_views **out, ef_error *err)
{
    return ef_fail(err, EF_UNSUPPORTED, WITHOUT);
}

ef_status ef__views_postgres_schema(const char *url, ef__buf *out, ef_error *err)
{
    return ef_fail(err, EF_UNSUPPORTED, WITHOUT);
}
