/*
 * target.h - the connection parameters of a PostgreSQL URL.
 *
 * postgres://USER@HOST[,HOST…]/DATABASE?… as libpq parses it, with PG* variables, and settings of
 * Everfold:
 *
 *     ef_prepare=off      no prepared statements: for a transaction pooler that does not support
 *                         them
 *     ef_connections=N    at most N connections per handle (default 8)
 *     ef_schema=NAME      the schema of the journal (default everfold)
 *     ef_views_schema=NAME  the schema of the views (default: that of the journal with _views)
 *     ef_insecure=1       allow a server that is not local without sslmode=verify-full
 *
 * Of several hosts, the first one that accepts writes is used, so never a standby. Unless all hosts
 * are local (a socket, localhost, 127.0.0.0/8, ::1) and none comes from a service file, the server
 * has to prove its host name by its certificate.
 */
#pragma once

#include "../base/schema_name.h"

#include <everfold/status.h>

#include <stdint.h>

typedef struct ef__pg_target {
    const char **keys; /* for PQconnectStartParams, ended by NULL */
    const char **values;
    char *text; /* the url without our own settings */
    void *parsed;
    bool prepare;
    int32_t connections_max;
    ef__schema_names schemas;
} ef__pg_target;

/* EF_BAD_INPUT: the URL is invalid, or its settings refused. The message has no password. */
ef_status ef__pg_target_init(ef__pg_target *target, const char *url, ef_error *err);
void ef__pg_target_release(ef__pg_target *target); /* accepts a zeroed target */
