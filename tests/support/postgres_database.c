/*
 * postgres_database.c - see postgres_database.h.
 */
#include "postgres_database.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef EF_HAVE_POSTGRES
#include <libpq-fe.h>

bool postgres_database(char *url, size_t size)
{
    static int number;
    const char *server = getenv("POSTGRES_URL");
    const char *slash = server ? strrchr(server, '/') : NULL;
    PGconn *conn = PQconnectdb(server ? server : "");
    char sql[100];
    PGresult *result;
    bool made;

    (void)snprintf(sql, sizeof sql, "CREATE DATABASE test_%ld_%d", (long)getpid(), ++number);
    result = PQexec(conn, sql);
    made = slash && PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!made)
        (void)fprintf(stderr, "no database: %s", PQerrorMessage(conn));
    else
        (void)snprintf(url, size, "%.*s/test_%ld_%d", (int)(slash - server), server, (long)getpid(),
                       number);
    PQclear(result);
    PQfinish(conn);
    return made;
}
#else
bool postgres_database(char *url, size_t size)
{
    return false;
}
#endif
