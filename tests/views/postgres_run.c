/*
 * postgres_run.c - see views_fixture.h.
 */
#include "views_fixture.h"

#include <libpq-fe.h>

static void ignore_notice(void *context, const PGresult *result)
{
    (void)context, (void)result;
}

const char *postgres_run(fixture *t, const char *sql)
{
    static char answer[4096];
    PGconn *pg = PQconnectdb(t->url);
    PGresult *result;

    (void)PQsetNoticeReceiver(pg, ignore_notice, NULL);
    result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    (void)snprintf(answer, sizeof answer, "%s",
                   PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    PQfinish(pg);
    return answer;
}
