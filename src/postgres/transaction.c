/*
 * transaction.c - see pool.h.
 *
 * BEGIN travels with the first statement of the work and COMMIT with the last ones that were not
 * taken. What keeps a transaction from standing in everybody's way is set in it and ends with it,
 * for a session's settings would not survive a pooler: how long it waits for a lock, and how long
 * the server keeps it while its client says nothing (a process that was stopped, a network that is
 * gone).
 */
#include "pool_priv.h"

#include <stdio.h>
#include <stdlib.h>

static bool writes(ef__pg_how how)
{
    return how == EF__PG_WRITE || how == EF__PG_WRITE_LAX;
}

/* Is there a point in trying again at once? */
static bool again(const ef__pg_conn *conn)
{
    return conn->fault == EF__PG_AGAIN || conn->fault == EF__PG_LOST;
}

static ef_status begin(ef__pg_pool *pool, ef__pg_conn *conn, ef__pg_how how, int64_t lock_ms,
                       ef_error *err)
{
    static const char *const BEGIN[] = {"BEGIN ISOLATION LEVEL READ COMMITTED",
                                        "BEGIN ISOLATION LEVEL READ COMMITTED",
                                        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY",
                                        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"};
    ef__pg_params params = {0};
    char lock[24], idle[24];
    int64_t busy_ms = ef__pg_pool_busy_ms(pool);
    ef_status st = ef__pg_send_silent(conn, BEGIN[how], NULL, err);

    if (st != EF_OK)
        return st;
    conn->in_transaction = true;
    if (!writes(how))
        return ef__pg_send_path(conn, err);
    (void)snprintf(lock, sizeof lock, "%lld", (long long)lock_ms);
    (void)snprintf(idle, sizeof idle, "%lld", (long long)(busy_ms < 5000 ? busy_ms : 5000));
    ef__pg_add_str(&params, ef_str_from(lock));
    ef__pg_add_str(&params, ef_str_from(idle));
    ef__pg_add_bool(&params, how == EF__PG_WRITE_LAX);
    return ef__pg_send_settings(conn, &params, err);
}

/* What was lost after the commit was sent may have happened. */
static ef_status commit(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = ef__pg_send_text(conn, "COMMIT", NULL, err);
    PGresult *result = NULL;

    if (st == EF_OK)
        st = ef__pg_take_last(conn, &result, err);
    if (st != EF_OK && conn->fault == EF__PG_LOST)
        st = ef_fail(err, EF_UNSURE,
                     "the connection to the PostgreSQL server was lost while it committed");
    /* A transaction in which something failed answers a COMMIT with "ROLLBACK", and no error. */
    if (st == EF_OK && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        st = ef_fail(err, EF_IO, "the transaction was rolled back by the server");
    if (st == EF_OK)
        conn->in_transaction = false;
    PQclear(result);
    return st;
}

static ef_status try_once(ef__pg_pool *pool, ef__pg_how how, ef__pg_patience *patience,
                          ef__pg_work work, void *context, bool *out_again, ef_error *err)
{
    ef__pg_conn *conn = NULL;
    ef_status st = ef__pg_pool_get(pool, &conn, err);

    *out_again = patience->held = false;
    if (st != EF_OK)
        return st;
    st = begin(pool, conn, how, patience->lock_ms, err);
    if (st == EF_OK)
        st = work(context, conn, err);
    if (st == EF_OK)
        st = commit(conn, err);
    if (st == EF_UNSURE && !writes(how))
        st = EF_OK; /* all answers are there, and there was nothing to commit */
    *out_again = st != EF_OK && st != EF_UNSURE && again(conn);
    patience->held = st == EF_BUSY && conn->fault == EF__PG_HELD;
    ef__pg_pool_put(pool, conn);
    return st;
}

ef_status ef__pg_transaction_within(ef__pg_pool *pool, ef__pg_how how, ef__pg_patience *patience,
                                    ef__pg_work work, void *context, ef_error *err)
{
    ef__pg_tries tries = ef__pg_tries_begin(pool);
    bool once_more;
    ef_status st;

    do
        st = try_once(pool, how, patience, work, context, &once_more, err);
    while (once_more && ef__pg_tries_next(pool, &tries));
    return st;
}

ef_status ef__pg_transaction(ef__pg_pool *pool, ef__pg_how how, ef__pg_work work, void *context,
                             ef_error *err)
{
    ef__pg_patience patience = {.lock_ms = ef__pg_pool_busy_ms(pool)};

    return ef__pg_transaction_within(pool, how, &patience, work, context, err);
}

/* --- two back ends, one transaction ----------------------------------------------------------- */

static void swap_texts(ef__pg_conn *conn)
{
    const ef__pg_texts *texts = conn->texts;
    unsigned char *prepared = conn->prepared;

    conn->texts = conn->guest_texts;
    conn->prepared = conn->guest_prepared;
    conn->guest_texts = texts;
    conn->guest_prepared = prepared;
}

ef_status ef__pg_as(ef__pg_conn *conn, const ef__pg_texts *texts, ef__pg_work work, void *context,
                    ef_error *err)
{
    ef_status st = ef__pg_take_all(conn, err);

    if (st != EF_OK)
        return st;
    if (conn->guest_texts != texts) {
        free(conn->guest_prepared);
        conn->guest_texts = texts;
        conn->guest_prepared = conn->prepared ? calloc((size_t)texts->count, 1) : NULL;
        if (conn->prepared && !conn->guest_prepared) {
            conn->guest_texts = NULL;
            return ef_fail(err, EF_NO_MEMORY, "memory ran out for a connection");
        }
    }
    swap_texts(conn);
    st = work(context, conn, err);
    /* Answers belong to the statements they were sent with, so they are taken before the way back.
     */
    if (st == EF_OK)
        st = ef__pg_take_all(conn, err);
    else
        (void)ef__pg_take_all(conn, NULL);
    swap_texts(conn);
    return st;
}

/* A copy of a cluster has its number too; but no two servers were started in the same microsecond.
 * And a role may not have the rights of another. */
static ef_status ask_database(void *context, ef__pg_conn *conn, ef_error *err)
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
    return ef__pg_on_conn(pool, ask_database, out, err);
}

ef_status ef__pg_try_again(ef__pg_conn *conn, const char *why, ef_error *err)
{
    if (conn->fault == EF__PG_SOUND)
        conn->fault = EF__PG_AGAIN;
    return ef_fail(err, EF_BUSY, "%s", why);
}

ef_status ef__pg_on_conn(ef__pg_pool *pool, ef__pg_work work, void *context, ef_error *err)
{
    ef__pg_tries tries = ef__pg_tries_begin(pool);
    ef__pg_conn *conn = NULL;
    bool once_more;
    ef_status st;

    do {
        st = ef__pg_pool_get(pool, &conn, err);
        if (st != EF_OK)
            return st;
        st = work(context, conn, err);
        once_more = st != EF_OK && again(conn);
        ef__pg_pool_put(pool, conn);
    } while (once_more && ef__pg_tries_next(pool, &tries));
    return st;
}

typedef struct question {
    int which;
    const ef__pg_params *params;
    PGresult **out;
} question;

static ef_status ask(void *context, ef__pg_conn *conn, ef_error *err)
{
    const question *q = context;

    return ef__pg_query(conn, q->which, q->params, q->out, err);
}

ef_status ef__pg_read(ef__pg_pool *pool, int which, const ef__pg_params *params, PGresult **out,
                      ef_error *err)
{
    question q = {which, params, out};

    *out = NULL;
    return ef__pg_on_conn(pool, ask, &q, err);
}
