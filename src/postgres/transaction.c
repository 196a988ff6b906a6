/*
 * transaction.c - see pool.h.
 *
 * BEGIN is sent with the first statement of the work, and COMMIT with the last ones whose results
 * are outstanding. Timeouts are set in the transaction, because settings of a session would not
 * survive a pooler: lock_timeout, and idle_in_transaction_session_timeout, which ends the
 * transaction of a client that was stopped or whose network is down, so that it does not block
 * others.
 */
#include "pool_priv.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_write_mode(ef__pg_mode mode)
{
    return mode == EF__PG_WRITE || mode == EF__PG_WRITE_LAX;
}

static bool can_retry(const ef__pg_conn *conn)
{
    return conn->fault == EF__PG_AGAIN || conn->fault == EF__PG_LOST;
}

static ef_status begin_transaction(ef__pg_pool *pool, ef__pg_conn *conn, ef__pg_mode mode,
                                   int64_t lock_ms, ef_error *err)
{
    static const char *const BEGIN[] = {"BEGIN ISOLATION LEVEL READ COMMITTED",
                                        "BEGIN ISOLATION LEVEL READ COMMITTED",
                                        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
                                        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"};
    ef__pg_params params = {0};
    char lock[24], idle[24];
    int64_t busy_ms = ef__pg_pool_busy_ms(pool);
    ef_status st = ef__pg_send_discarding(conn, BEGIN[mode], NULL, err);

    if (st != EF_OK)
        return st;
    conn->in_transaction = true;
    if (!is_write_mode(mode))
        return ef__pg_send_path(conn, err);
    (void)snprintf(lock, sizeof lock, "%lld", (long long)lock_ms);
    (void)snprintf(idle, sizeof idle, "%lld", (long long)(busy_ms < 5000 ? busy_ms : 5000));
    ef__pg_add_str(&params, ef_str_from(lock));
    ef__pg_add_str(&params, ef_str_from(idle));
    ef__pg_add_bool(&params, mode == EF__PG_WRITE_LAX);
    return ef__pg_send_settings(conn, &params, err);
}

/* If the connection breaks after the commit was sent, the commit may have been done. */
static ef_status commit_transaction(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = ef__pg_send_text(conn, "COMMIT", NULL, err);
    PGresult *result = NULL;

    if (st == EF_OK)
        st = ef__pg_receive_last(conn, &result, err);
    if (st != EF_OK && conn->fault == EF__PG_LOST)
        st = ef_fail(err, EF_UNSURE,
                     "the connection to the PostgreSQL server was lost during the commit");
    /* The server replies to COMMIT of a failed transaction with the tag "ROLLBACK" and no error. */
    if (st == EF_OK && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        st = ef_fail(err, EF_IO, "the transaction was rolled back by the server");
    if (st == EF_OK)
        conn->in_transaction = false;
    PQclear(result);
    return st;
}

static ef_status try_once(ef__pg_pool *pool, ef__pg_mode mode, ef__pg_lock_wait *lock_wait,
                          ef__pg_work work, void *context, bool *out_retry, ef_error *err)
{
    ef__pg_conn *conn = NULL;
    ef_status st = ef__pg_pool_get(pool, &conn, err);

    *out_retry = lock_wait->timed_out = false;
    if (st != EF_OK)
        return st;
    st = begin_transaction(pool, conn, mode, lock_wait->lock_ms, err);
    if (st == EF_OK)
        st = work(context, conn, err);
    if (st == EF_OK)
        st = commit_transaction(conn, err);
    if (st == EF_UNSURE && !is_write_mode(mode))
        st = EF_OK; /* all results were received, and there was nothing to commit */
    *out_retry = st != EF_OK && st != EF_UNSURE && can_retry(conn);
    lock_wait->timed_out = st == EF_BUSY && conn->fault == EF__PG_LOCKED;
    ef__pg_pool_put(pool, conn);
    return st;
}

ef_status ef__pg_transaction_within(ef__pg_pool *pool, ef__pg_mode mode,
                                    ef__pg_lock_wait *lock_wait, ef__pg_work work, void *context,
                                    ef_error *err)
{
    ef__pg_retry pauses = ef__pg_retry_begin(pool);
    bool retry;
    ef_status st;

    do
        st = try_once(pool, mode, lock_wait, work, context, &retry, err);
    while (retry && ef__pg_retry_pause(pool, &pauses));
    return st;
}

ef_status ef__pg_transaction(ef__pg_pool *pool, ef__pg_mode mode, ef__pg_work work, void *context,
                             ef_error *err)
{
    ef__pg_lock_wait lock_wait = {.lock_ms = ef__pg_pool_busy_ms(pool)};

    return ef__pg_transaction_within(pool, mode, &lock_wait, work, context, err);
}

/* --- two back ends, one transaction ----------------------------------------------------------- */

static void swap_statements(ef__pg_conn *conn)
{
    const ef__pg_statements *statements = conn->statements;
    unsigned char *prepared = conn->prepared;

    conn->statements = conn->other_statements;
    conn->prepared = conn->other_prepared;
    conn->other_statements = statements;
    conn->other_prepared = prepared;
}

ef_status ef__pg_with_statements(ef__pg_conn *conn, const ef__pg_statements *statements,
                                 ef__pg_work work, void *context, ef_error *err)
{
    ef_status st = ef__pg_receive_all(conn, err);

    if (st != EF_OK)
        return st;
    if (conn->other_statements != statements) {
        free(conn->other_prepared);
        conn->other_statements = statements;
        conn->other_prepared = conn->prepared ? calloc((size_t)statements->count, 1) : NULL;
        if (conn->prepared && !conn->other_prepared) {
            conn->other_statements = NULL;
            return ef_fail(err, EF_NO_MEMORY, "out of memory for a connection");
        }
    }
    swap_statements(conn);
    st = work(context, conn, err);
    /* The queue has indexes of the statements that are set now, so results are received before the
     * swap back. */
    if (st == EF_OK)
        st = ef__pg_receive_all(conn, err);
    else
        (void)ef__pg_receive_all(conn, NULL);
    swap_statements(conn);
    return st;
}

/* The start time distinguishes a server from one that runs on a copy of its files: both have the
 * same system identifier. The role is part of it because privileges differ. */
static ef_status read_database(void *context, ef__pg_conn *conn, ef_error *err)
{
    PGresult *rows = NULL;
    ef_status st = ef__pg_query_text(
        conn,
        "SELECT CASE WHEN has_function_privilege('pg_control_system()', 'execute')"
        "       THEN (SELECT system_identifier::text FROM pg_control_system()) || '/' || d.oid || "
        "'/'"
        "       || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '/'"
        "       || (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user) END"
        "  FROM pg_database d WHERE d.datname = current_database()",
        NULL, &rows, err);

    if (st == EF_OK)
        (void)snprintf(context, EF__PG_DATABASE_MAX, "%.*s", EF_STR_ARG(ef__pg_str(rows, 0, 0)));
    PQclear(rows);
    return st;
}

ef_status ef__pg_database(ef__pg_pool *pool, char out[EF__PG_DATABASE_MAX], ef_error *err)
{
    out[0] = '\0';
    return ef__pg_with_conn(pool, read_database, out, err);
}

ef_status ef__pg_request_retry(ef__pg_conn *conn, const char *why, ef_error *err)
{
    if (conn->fault == EF__PG_NO_FAULT)
        conn->fault = EF__PG_AGAIN;
    return ef_fail(err, EF_BUSY, "%s", why);
}

ef_status ef__pg_with_conn(ef__pg_pool *pool, ef__pg_work work, void *context, ef_error *err)
{
    ef__pg_retry pauses = ef__pg_retry_begin(pool);
    ef__pg_conn *conn = NULL;
    bool retry;
    ef_status st;

    do {
        st = ef__pg_pool_get(pool, &conn, err);
        if (st != EF_OK)
            return st;
        st = work(context, conn, err);
        retry = st != EF_OK && can_retry(conn);
        ef__pg_pool_put(pool, conn);
    } while (retry && ef__pg_retry_pause(pool, &pauses));
    return st;
}

ef_status ef__pg_run_statement(void *context, ef__pg_conn *conn, ef_error *err)
{
    const ef__pg_statement *statement = context;

    PQclear(*statement->out);
    return ef__pg_query(conn, statement->which, statement->params, statement->out, err);
}

ef_status ef__pg_read(ef__pg_pool *pool, int which, const ef__pg_params *params, PGresult **out,
                      ef_error *err)
{
    ef__pg_statement statement = {which, params, out};

    *out = NULL;
    return ef__pg_with_conn(pool, ef__pg_run_statement, &statement, err);
}
