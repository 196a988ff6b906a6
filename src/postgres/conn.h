/*
 * conn.h - a PostgreSQL connection as we use it, and the statements on it.
 *
 * Statements are named in the .sql files of the back end; src/sqlgen.py makes them a table, which
 * is handed in. Each is prepared when it is first used on a connection (unless the URL says
 * ef_prepare=off) and every name in it has its schema: nothing rests on the state of a session, so
 * a transaction pooler may stand between. Of locks only those of rows and of transactions are used.
 *
 * A connection is always in pipeline mode: statements are sent, and their results taken in the same
 * order. What is sent between two takes goes to the server in one piece; outside of a transaction
 * (pool.h) it is one transaction of its own. A statement that fails makes those that were sent with
 * it and behind it fail too.
 *
 * A connection belongs to one thread at a time.
 */
#ifndef EF_POSTGRES_CONN_H
#define EF_POSTGRES_CONN_H

#include "target.h"
#include "value.h"

/*
 * Functions and operators are looked up in pg_catalog only, and names of ours carry their schema:
 * what other roles create in `public`, or in a schema named as we are, is never called with our
 * rights.
 */
#define EF__PG_SEARCH_PATH "pg_catalog, pg_temp"

/* The statements of a back end, shared by the connections of a pool. */
typedef struct ef__pg_texts {
    const char *const *sql;
    const char *const *names;
    int count;
    char *text; /* of a copy (schema.h): what `sql` points into */
} ef__pg_texts;

#define EF__PG_SENT_MAX 256 /* statements on their way, preparations included */

/* Why a statement failed, as far as it matters for trying again. */
typedef enum ef__pg_fault {
    EF__PG_SOUND,
    EF__PG_HELD,  /* somebody has a lock, and had it for longer than was waited */
    EF__PG_AGAIN, /* a deadlock, a serialization failure: the same transaction may succeed */
    EF__PG_LOST   /* the connection, or the server behind it, is gone */
} ef__pg_fault;

typedef struct ef__pg_conn {
    PGconn *pg;
    const ef__pg_texts *texts;
    unsigned char *prepared; /* by statement: 0, 1 sent, 2 done; NULL: nothing is kept prepared */
    ef__pg_fault fault;
    char state[6]; /* SQLSTATE of the last failure, or "" */
    /* What was sent and whose result was not taken, oldest first. */
    short queue[EF__PG_SENT_MAX];
    int first;
    int sent;
    bool unsynced; /* … and the server was not asked to answer the last of it */
    bool in_transaction;
    /* The server's session is ours alone, and its search path is set. Otherwise (a pooler) every
     * transaction sets it. */
    bool own_session;
    /* Statements of another back end that works on this connection too (ef__pg_as). */
    const ef__pg_texts *guest_texts;
    unsigned char *guest_prepared;
    struct ef__pg_conn *next; /* of the pool's idle ones */
} ef__pg_conn;

/* EF_BUSY: no server that accepts writes can be reached just now. EF_NOT_FOUND: no such database.
 * EF_BAD_INPUT: it refuses us. EF_WRONG_STORE: its encoding is not UTF8. */
ef_status ef__pg_connect(ef__pg_conn *conn, const ef__pg_target *target, const ef__pg_texts *texts,
                         ef_error *err);
void ef__pg_close(ef__pg_conn *conn); /* also one that is zeroed, or closed already */

/* Send statement `which`; `params` NULL means none. Its result has to be taken: EF_MISUSE when too
 * many were not. */
ef_status ef__pg_send(ef__pg_conn *conn, int which, const ef__pg_params *params, ef_error *err);
/* Set the search path of a transaction that was begun by a statement, unless the session has it.
 * Its result is not taken. */
ef_status ef__pg_send_path(ef__pg_conn *conn, ef_error *err);
/* Let the server begin with what was sent so far, which otherwise waits for the next take. */
ef_status ef__pg_flush(ef__pg_conn *conn, ef_error *err);
/* The result of the oldest statement that was sent. `out` NULL: only whether it succeeded; else the
 * caller's to PQclear. EF_MISUSE when none was sent. After a failure everything that was sent is
 * settled: nothing is to be taken.
 */
ef_status ef__pg_take(ef__pg_conn *conn, PGresult **out, ef_error *err);
/* The results of all that were sent, of which only success is wanted. */
ef_status ef__pg_take_all(ef__pg_conn *conn, ef_error *err);
/* Send one and take its result, after all that were sent before it. */
ef_status ef__pg_query(ef__pg_conn *conn, int which, const ef__pg_params *params, PGresult **out,
                       ef_error *err);
/* The same for one that changes rows: how many (`out_changed` may be NULL). */
ef_status ef__pg_change(ef__pg_conn *conn, int which, const ef__pg_params *params,
                        int64_t *out_changed, ef_error *err);
/* Texts that are not worth keeping: settings, a migration of many statements. Nothing may be sent
 * and not taken. Where it is not in a transaction, the whole text is one. */
ef_status ef__pg_exec(ef__pg_conn *conn, const char *sql, ef_error *err);
/* A text that is made on the way (a query's), with parameters; otherwise as ef__pg_query. */
ef_status ef__pg_query_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                            PGresult **out, ef_error *err);

/* Listen to a channel, and wait for a word on it: a hint that may be lost, never more. */
ef_status ef__pg_listen(ef__pg_conn *conn, const char *channel, ef_error *err);
ef_status ef__pg_hear(ef__pg_conn *conn, int64_t timeout_ms, bool *out_heard, ef_error *err);

/* What an SQLSTATE means in our words. */
ef_status ef__pg_status_of(const char *state, ef__pg_fault *out_fault);

#endif
