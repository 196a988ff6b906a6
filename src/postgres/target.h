/*
 * target.h - which server a URL leads to, and how it is to be spoken to.
 *
 * postgres://USER@HOST[,HOST…]/DATABASE?… as libpq reads it, PG* variables included, and our own:
 *
 *     ef_prepare=off      keep nothing prepared: for a pooler that hands out another server session
 *                         with every transaction and does not know prepared statements
 *     ef_connections=N    at most N connections for a handle (default 8)
 *     ef_schema=NAME      the schema of the journal (default everfold)
 *     ef_views_schema=NAME  the schema of the views (default that of the journal and _views)
 *     ef_insecure=1       allow what would be refused: a server that is not local, without
 *                         verify-full
 *
 * Of several hosts the first is taken that accepts writes, so a standby is never worked on. Unless
 * all hosts are local (a socket, localhost, 127.0.0.0/8, ::1) and none is named by a service, the
 * server has to prove by its certificate that it is the one that was asked for.
 */
#ifndef EF_POSTGRES_TARGET_H
#define EF_POSTGRES_TARGET_H

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

/* Does the URL name a PostgreSQL server? */
bool ef__pg_is_url(const char *url);
/* EF_BAD_INPUT: the URL is none, or asks for what is refused. The message holds no password. */
ef_status ef__pg_target_init(ef__pg_target *target, const char *url, ef_error *err);
void ef__pg_target_release(ef__pg_target *target); /* also one that is zeroed */

#endif
