/*
 * pool.h - the connections of a handle, and transactions on them.
 *
 * A thread takes a connection for a piece of work and gives it back. There are at most so many as
 * the URL allows; who finds none free waits. A connection that is lost is closed, and another is
 * made when it is needed: at once the first time, then after pauses that double, each with chance
 * in it so that many clients do not come back at one moment.
 */
#ifndef EF_POSTGRES_POOL_H
#define EF_POSTGRES_POOL_H

#include "conn.h"
#include "schema.h"

#include <everfold/log.h>

typedef struct ef__pg_pool ef__pg_pool;

typedef struct ef__pg_pool_options {
    const char *url;
    const ef__pg_texts *texts;
    int64_t busy_ms;   /* how long to wait for a connection, a server, a lock; retries included */
    const ef_log *log; /* may be NULL */
    /* Look at a server before it is used: is it the right one, and not behind what we have seen?
     * NULL: any will do. */
    ef_status (*greet)(void *context, ef__pg_conn *conn, ef_error *err);
    void *context;
} ef__pg_pool_options;

/* Nothing is connected yet. */
ef_status ef__pg_pool_open(const ef__pg_pool_options *options, ef__pg_pool **out, ef_error *err);
void ef__pg_pool_close(ef__pg_pool *pool); /* every connection was given back; NULL is fine */

/* The statements of the pool's connections, and the schemas that they are for. */
const ef__pg_texts *ef__pg_pool_texts(const ef__pg_pool *pool);
const ef__schema_names *ef__pg_pool_schemas(const ef__pg_pool *pool);

/* EF_BUSY after busy_ms; other failures of a connect at once. */
ef_status ef__pg_pool_get(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err);
/* Give it back: a transaction that is open is rolled back, a lost connection closed. NULL is fine
 */
void ef__pg_pool_put(ef__pg_pool *pool, ef__pg_conn *conn);

typedef enum ef__pg_how {
    EF__PG_WRITE,     /* what was committed survives a crash of the server, whatever it is set to */
    EF__PG_WRITE_LAX, /* a crash of the server may take it, whole, with what was committed later */
    EF__PG_READ,      /* each statement sees what is committed when it begins */
    EF__PG_SNAPSHOT   /* reads only, all as of one moment */
} ef__pg_how;

/*
 * The statements of a transaction. May be called again, from the start, when the server asks for it
 * or the connection is lost before the commit was sent; so it changes nothing of its own but what
 * it sets anew. What it sent and did not take is taken before the commit, in the same trip.
 */
typedef ef_status (*ef__pg_work)(void *context, ef__pg_conn *conn, ef_error *err);

/*
 * Do `work` in one transaction: committed when it answers EF_OK, else rolled back. What it answers
 * is answered, unless it can be tried again within busy_ms.
 *
 * EF_BUSY    not begun in time, or given up: nothing was written
 * EF_UNSURE  the connection was lost when the commit had been sent: look whether it is done
 */
ef_status ef__pg_transaction(ef__pg_pool *pool, ef__pg_how how, ef__pg_work work, void *context,
                             ef_error *err);
/* The same with less patience for locks than busy_ms. */
typedef struct ef__pg_patience {
    int64_t lock_ms; /* how long to wait for each */
    bool held;       /* EF_BUSY, because somebody had one for longer */
} ef__pg_patience;
ef_status ef__pg_transaction_within(ef__pg_pool *pool, ef__pg_how how, ef__pg_patience *patience,
                                    ef__pg_work work, void *context, ef_error *err);
/*
 * Do `work` inside a transaction of another back end, on its connection: with the statements
 * `texts`, whose names must not be those of the other's. What was sent before is taken, and so is
 * what the work has sent.
 */
ef_status ef__pg_as(ef__pg_conn *conn, const ef__pg_texts *texts, ef__pg_work work, void *context,
                    ef_error *err);
/* Which database it is, in all the world, and as whom we are there: stores that say the same may
 * share a transaction. "" where the role may not know. */
enum { EF__PG_DATABASE_MAX = 64 };
ef_status ef__pg_database(ef__pg_pool *pool, char out[EF__PG_DATABASE_MAX], ef_error *err);

/* Ask for another try from within a transaction's work: return what this returns. */
ef_status ef__pg_try_again(ef__pg_conn *conn, const char *why, ef_error *err);

/* Do `work` on a connection without a transaction around it, tried again as one is. For reads: what
 * writes could be done twice. */
ef_status ef__pg_on_conn(ef__pg_pool *pool, ef__pg_work work, void *context, ef_error *err);
/* The same for one statement. */
ef_status ef__pg_read(ef__pg_pool *pool, int which, const ef__pg_params *params, PGresult **out,
                      ef_error *err);

/*
 * Bring a part of the schema up to date: "journal", "views". What has been done is written down in
 * everfold.migration; the schema is made when it is not there. One transaction, one at a time.
 *
 * EF_NEWER_SCHEMA  a newer Everfold has been here
 */
ef_status ef__pg_migrate(ef__pg_pool *pool, const char *part, const char *const *migrations,
                         int count, ef_error *err);
/* How many migrations of a part have been done; 0 when the schema is not there. */
ef_status ef__pg_migrated(ef__pg_pool *pool, const char *part, int *out, ef_error *err);
/* The same as a text, for those who migrate by hand; `url` names the schemas. */
ef_status ef__pg_migration_text(const char *url, const char *part, const char *const *migrations,
                                int count, ef__buf *out, ef_error *err);

#endif
