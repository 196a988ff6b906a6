/*
 * stores.c - see stores.h.
 */
#include "stores.h"

#include "test.h"

#include <stdlib.h>
#ifdef EF_TEST_POSTGRES
#include <libpq-fe.h>
#endif

/* The part of `backend` that is about `what`. */
static bool is_kind(const char *backend, const char *what, const char *kind)
{
    const char *plus = strchr(backend, '+');
    size_t first = plus ? (size_t)(plus - backend) : strlen(backend);

    if (!plus || strcmp(what, "journal") == 0)
        return strlen(kind) == first && strncmp(backend, kind, first) == 0;
    return strcmp(plus + 1, kind) == 0;
}

bool store_survives(const char *backend, const char *what)
{
    return !is_kind(backend, what, "memory");
}

#ifdef EF_TEST_POSTGRES
static void ignore_notice(void *context, const PGresult *result)
{
    (void)context, (void)result;
}

/* Make it, unless it is there. */
static void make_database(const char *server, const char *name)
{
    static char last[128];
    PGconn *pg = PQconnectdb(server);
    PGresult *result;
    char sql[300];

    (void)PQsetNoticeReceiver(pg, ignore_notice, NULL);
    (void)snprintf(sql, sizeof sql, "SELECT 1 FROM pg_database WHERE datname = '%s'", name);
    result = PQexec(pg, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(pg));
    if (PQntuples(result) == 0) {
        PQclear(result);
        if (last[0]) {
            (void)snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS \"%s\"", last);
            PQclear(PQexec(pg, sql)); /* one that is in use stays */
        }
        (void)snprintf(sql, sizeof sql, "CREATE DATABASE \"%s\"", name);
        result = PQexec(pg, sql);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_msg("%s", PQerrorMessage(pg));
        (void)snprintf(last, sizeof last, "%s", name);
    }
    PQclear(result);
    PQfinish(pg);
}

static int database_url(char *out, size_t size, const char *folder, const char *what)
{
    const char *server = getenv("POSTGRES_URL"), *slash = strrchr(folder, '/');
    bool usual = strcmp(what, "journal") == 0 || strcmp(what, "views") == 0;
    char name[128];

    if (!server)
        fail_msg("POSTGRES_URL is not set: run it by support/postgres_server.py");
    (void)snprintf(name, sizeof name, "%s%s%s", slash ? slash + 1 : folder, usual ? "" : "-",
                   usual ? "" : what);
    make_database(server, name);
    return snprintf(out, size, "%.*s/%s", (int)(strrchr(server, '/') - server), server, name);
}
#else
static int database_url(char *out, size_t size, const char *folder, const char *what)
{
    fail_msg("this was built without libpq");
    return -1;
}
#endif

void store_url(char *out, size_t size, const char *backend, const char *folder, const char *what)
{
    int n;

    if (is_kind(backend, what, "memory"))
        n = snprintf(out, size, "memory:");
    else if (is_kind(backend, what, "postgres"))
        n = database_url(out, size, folder, what);
    else if (is_kind(backend, what, "lmdb"))
        n = snprintf(out, size, "lmdb:%s/%s.lmdb", folder, what);
    else
        n = snprintf(out, size, "sqlite:%s/%s.db", folder, what);
    CHECK(n > 0 && (size_t)n < size);
}
