/*
 * pool.h - the connections of a handle, and transactions on them.
 *
 * A thread gets a connection for a unit of work and puts it back. The URL sets the maximum
 * (ef_connections); a thread waits while all are in use. A broken connection is closed and replaced
 * when it is needed: first without a pause, then after pauses that double, with a random part so
 * that many clients do not reconnect at the same time.
 */
#pragma once

#include "../base/buf.h"
#include "../base/schema_name.h"
#include "conn.h"

#include <everfold/log.h>

typedef struct ef__pg_pool ef__pg_pool;

typedef struct ef__pg_pool_options {
    const char *url;
    const ef__pg_statements *statements;
    int64_t busy_ms;   /* limit for connection, server and locks, with all retries */
    const ef_log *log; /* may be NULL */
    /* Called on a new connection: whether the server is the expected one, and not behind what this
     * process has read. NULL: no check. */
    ef_status (*check_server)(void *context, ef__pg_conn *conn, ef_error *err);
    void *context;
} ef__pg_pool_options;

/* Does not connect yet. */
ef_status ef__pg_pool_open(const ef__pg_pool_options *options, ef__pg_pool **out, ef_error *err);
void ef__pg_pool_close(ef__pg_pool *pool); /* after all connections were put back; accepts NULL */

/* The statements of the connections, and the schemas in them. */
const ef__pg_statements *ef__pg_pool_statements(const ef__pg_pool *pool);
const ef__schema_names *ef__pg_pool_schemas(const ef__pg_pool *pool);

/* EF_BUSY after busy_ms; other errors of a connect at once. */
ef_status ef__pg_pool_get(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err);
/* Puts it back: an open transaction is rolled back, a broken connection closed. Accepts NULL. */
void ef__pg_pool_put(ef__pg_pool *pool, ef__pg_conn *conn);

typedef enum ef__pg_mode {
    EF__PG_WRITE,     /* a commit survives a crash of the server, whatever its settings */
    EF__PG_WRITE_LAX, /* a crash of the server may lose it, with all later commits */
    EF__PG_READ,      /* read committed */
    EF__PG_SNAPSHOT   /* repeatable read: all statements see one snapshot */
} ef__pg_mode;

/*
 * The statements of a transaction. It is called again, from the start, after a serialization
 * failure, a deadlock or a connection that breaks before the commit was sent; so it must set all of
 * its results each time. Outstanding results are received with that of the commit, in one round
 * trip.
 */
typedef ef_status (*ef__pg_work)(void *context, ef__pg_conn *conn, ef_error *err);

/*
 * Runs `work` in a transaction: commits when it returns EF_OK, else rolls back. Returns its status,
 * unless it can be retried within busy_ms.
 *
 * EF_BUSY    not started in time, or retried in vain: nothing was written
 * EF_UNSURE  the connection broke after the commit was sent: check whether it was done
 */
ef_status ef__pg_transaction(ef__pg_pool *pool, ef__pg_mode mode, ef__pg_work work, void *context,
                             ef_error *err);
/* The same with a shorter lock_timeout than busy_ms. */
typedef struct ef__pg_lock_wait {
    int64_t lock_ms; /* wait for each lock */
    bool timed_out;  /* the status is EF_BUSY because of that */
} ef__pg_lock_wait;
ef_status ef__pg_transaction_within(ef__pg_pool *pool, ef__pg_mode mode,
                                    ef__pg_lock_wait *lock_wait, ef__pg_work work, void *context,
                                    ef_error *err);
/*
 * Runs `work` inside a transaction of another back end, on its connection, with `statements`, whose
 * names must differ from those of the other. Receives all results that are outstanding before it
 * and after it.
 */
ef_status ef__pg_with_statements(ef__pg_conn *conn, const ef__pg_statements *statements,
                                 ef__pg_work work, void *context, ef_error *err);
/* Identifies the database among all servers, and the role: stores with the same value can share a
 * transaction. "" where the role lacks the privilege to read it. */
enum { EF__PG_DATABASE_MAX = 64 };
ef_status ef__pg_database(ef__pg_pool *pool, char out[EF__PG_DATABASE_MAX], ef_error *err);

/* Requests a retry from within the work of a transaction: `return ef__pg_request_retry(…)`. */
ef_status ef__pg_request_retry(ef__pg_conn *conn, const char *why, ef_error *err);

/* Runs `work` on a connection without a transaction around it, with the same retries. For reads
 * only: a write could be done twice. */
ef_status ef__pg_with_conn(ef__pg_pool *pool, ef__pg_work work, void *context, ef_error *err);
/* One statement as such work, or as that of a transaction. `*out` is NULL before it; the caller
 * clears the result, also after a failure. */
typedef struct ef__pg_statement {
    int which;
    const ef__pg_params *params;
    PGresult **out;
} ef__pg_statement;
ef_status ef__pg_run_statement(void *statement, ef__pg_conn *conn, ef_error *err);

/*
 * Migrates a part of the schema, "journal" or "views", to the latest version. everfold.migration
 * records what was done; the schema is created if it does not exist. One transaction, which
 * excludes other migrations.
 *
 * EF_NEWER_SCHEMA  a newer Everfold has migrated it
 */
ef_status ef__pg_migrate(ef__pg_pool *pool, const char *part, const char *const *migrations,
                         int count, ef_error *err);
/* How many migrations of a part were done; 0 if the schema does not exist. */
ef_status ef__pg_migrated(ef__pg_pool *pool, const char *part, int *out, ef_error *err);
/* The migrations as a script to run by hand; `url` has the names of the schemas. */
ef_status ef__pg_migration_text(const char *url, const char *part, const char *const *migrations,
                                int count, ef__buf *out, ef_error *err);

/* Copies all statements of a back end, with the configured schemas. The copy owns its SQL and
 * shares the statement names. */
ef_status ef__pg_statements_copy(ef__pg_statements *out, const ef__pg_statements *from,
                                 const ef__schema_names *names, ef_error *err);
void ef__pg_statements_release(ef__pg_statements *statements);
