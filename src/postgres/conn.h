/*
 * conn.h - a PostgreSQL connection and its prepared statements.
 *
 * Statements are named in the .sql files of the back end; src/sqlgen.py generates a table of them,
 * which is an argument of connect. Each statement is prepared at its first use on a connection
 * (unless the URL has ef_prepare=off), and every name in it has its schema. Nothing depends on the
 * state of a session, so that a transaction pooler can be used; locks are row locks and locks that
 * end with the transaction.
 *
 * A connection is always in pipeline mode: statements are sent, and their results received in the
 * same order. What is sent between two receives goes to the server at once; outside of a
 * transaction (pool.h) it is one implicit transaction. When a statement fails, all statements that
 * were sent after it up to the next receive fail too.
 *
 * A connection is used by one thread at a time.
 */
#pragma once

#include "target.h"
#include "value.h"

/*
 * Functions and operators are looked up in pg_catalog only, and our own names have their schema:
 * functions that other roles create in `public`, or in a schema with the name of our role, are
 * never called with our privileges.
 */
#define EF__PG_SEARCH_PATH "pg_catalog, pg_temp"

/* The statements of a back end, shared by the connections of a pool. */
typedef struct ef__pg_statements {
    const char *const *sql;
    const char *const *names;
    int count;
    char *text; /* of a copy (pool.h): the memory that `sql` points into */
} ef__pg_statements;

#define EF__PG_SENT_MAX 256 /* statements in flight, with their preparations */

/* Why a statement failed, as far as a retry depends on it. */
typedef enum ef__pg_fault {
    EF__PG_NO_FAULT,
    EF__PG_LOCKED, /* another transaction held a lock until lock_timeout */
    EF__PG_AGAIN,  /* a deadlock, a serialization failure: the same transaction may succeed */
    EF__PG_LOST    /* the connection is broken, or the server is shutting down */
} ef__pg_fault;

typedef struct ef__pg_conn {
    PGconn *pg;
    const ef__pg_statements *statements;
    unsigned char *prepared; /* by statement: 0 no, 1 sent, 2 yes; NULL: ef_prepare=off */
    ef__pg_fault fault;
    char state[6]; /* SQLSTATE of the last failure, or "" */
    /* What was sent and whose result was not received: a ring, oldest first. */
    short queue[EF__PG_SENT_MAX];
    int first;
    int sent;
    bool unsynced; /* no sync was sent after the last of it */
    bool in_transaction;
    bool ending; /* the result of the COMMIT of a read is outstanding */
    /* No pooler shares the session, its search path is set; else each transaction sets it. */
    bool own_session;
    /* Statements of another back end that uses this connection too (ef__pg_with_statements). */
    const ef__pg_statements *other_statements;
    unsigned char *other_prepared;
    /* Where the result of a statement goes that is received with a later one (ef__pg_watch). */
    int watched;
    PGresult **watched_out;
    struct ef__pg_conn *next; /* in the idle list of the pool */
} ef__pg_conn;

/* EF_BUSY: no server that accepts writes can be reached. EF_NOT_FOUND: no such database.
 * EF_BAD_INPUT: the server rejects the role or password. EF_WRONG_STORE: the encoding is not UTF8.
 */
ef_status ef__pg_connect(ef__pg_conn *conn, const ef__pg_target *target,
                         const ef__pg_statements *statements, ef_error *err);
void ef__pg_close(ef__pg_conn *conn); /* accepts a zeroed or closed connection */

/* Sends statement `which`; `params` NULL means none. Its result has to be received: EF_MISUSE when
 * too many are outstanding. */
ef_status ef__pg_send(ef__pg_conn *conn, int which, const ef__pg_params *params, ef_error *err);
/* Sets the search path of a transaction that was begun by a statement, unless the session has it.
 * Its result is discarded. */
ef_status ef__pg_send_path(ef__pg_conn *conn, ef_error *err);
/* Transmits what was sent so far, which otherwise waits for the next receive, and has the server answer:
 * outside of a transaction, the statements so far are complete; inside, the server counts the time
 * until the next statement as idle (idle_in_transaction_session_timeout). */
ef_status ef__pg_sync(ef__pg_conn *conn, ef_error *err);
/* Receives the result of the oldest statement that was sent; the caller calls PQclear on it. `out`
 * NULL: only whether it succeeded. EF_MISUSE when none was sent. A failure discards the results of
 * everything that was sent. */
ef_status ef__pg_receive(ef__pg_conn *conn, PGresult **out, ef_error *err);
/* Keeps the result of statement `which` when it is received with a later one, as that of a COMMIT;
 * until the connection is put back. The caller sets *out to NULL before and clears the result. */
void ef__pg_watch(ef__pg_conn *conn, int which, PGresult **out);
/* Receives all outstanding results and discards them if they are successful. */
ef_status ef__pg_receive_all(ef__pg_conn *conn, ef_error *err);
/* Sends a statement and receives its result, after those that were sent before it. */
ef_status ef__pg_query(ef__pg_conn *conn, int which, const ef__pg_params *params, PGresult **out,
                       ef_error *err);
/* Runs SQL that is not kept prepared: settings, a migration of many statements. No result may be
 * outstanding. Outside of a transaction, the whole text is one. */
ef_status ef__pg_exec(ef__pg_conn *conn, const char *sql, ef_error *err);
/* As ef__pg_query, for SQL that is built at run time. */
ef_status ef__pg_query_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                            PGresult **out, ef_error *err);

/* For the pool and its transactions.
 *
As ef__pg_send, for SQL without a name. */
ef_status ef__pg_send_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                           ef_error *err);
/* The same; its result is discarded. */
ef_status ef__pg_send_discarding(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                                 ef_error *err);
/* Sends the settings of a transaction that writes: lock_timeout and
 * idle_in_transaction_session_timeout, in milliseconds as texts, and whether its commit may be lost
 * in a crash. The result is discarded. */
ef_status ef__pg_send_settings(ef__pg_conn *conn, const ef__pg_params *params, ef_error *err);
/* Prepares that statement, because parsing costs more than running it. */
ef_status ef__pg_prepare_settings(ef__pg_conn *conn, ef_error *err);
/* Receives all outstanding results, and returns the last. */
ef_status ef__pg_receive_last(ef__pg_conn *conn, PGresult **out, ef_error *err);

/* LISTEN on a channel, and wait for a NOTIFY: a hint that can be lost. */
ef_status ef__pg_listen(ef__pg_conn *conn, const char *channel, ef_error *err);
ef_status ef__pg_wait_notify(ef__pg_conn *conn, int64_t timeout_ms, bool *out_notified,
                             ef_error *err);
