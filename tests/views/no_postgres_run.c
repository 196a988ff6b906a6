/*
 * no_postgres_run.c - see views_fixture.h.
 */
#include "views_fixture.h"

const char *postgres_run(fixture *t, const char *sql)
{
    fail_msg("this was built without libpq: %s", sql);
    return "";
}
