/*
 * pool.c - see pool.h. `lock` protects the idle list, the count and the seed.
 *
 * BEGIN is sent with the first statement of the work, and COMMIT with the last ones whose results
 * are outstanding. Timeouts are set in the transaction, because settings of a session would not
 * survive a pooler: lock_timeout, and idle_in_transaction_session_timeout, which ends the
 * transaction of a client that was stopped or whose network is down, so that it does not block
 * others.
 */
#include "pool.h"

#include "../base/deadline.h"

#include <everfold/clock.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAUSE_FIRST_MS = 10, PAUSE_MAX_MS = 2000 };

struct ef__pg_pool {
    ef__pg_pool_options options;
    ef__pg_target target;
    ef__pg_statements statements; /* those of the options, with the schemas of the target */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    ef__pg_conn *idle; /* the last used one comes first */
    int32_t count;     /* idle and in use */
    unsigned seed;     /* of the random part of pauses */
};

static int64_t mono_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

ef_status ef__pg_pool_open(const ef__pg_pool_options *options, ef__pg_pool **out, ef_error *err)
{
    ef__pg_pool *pool = calloc(1, sizeof *pool);
    ef_status st;

    *out = NULL;
    if (!pool)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a pool of connections");
    pool->options = *options;
    pool->options.url = NULL;
    pool->seed = (unsigned)mono_ms();
    st = ef__pg_target_init(&pool->target, options->url, err);
    if (st == EF_OK && options->statements)
        st = ef__pg_statements_copy(&pool->statements, options->statements, &pool->target.schemas,
                                    err);
    if (st != EF_OK) {
        ef__pg_target_release(&pool->target);
        free(pool);
        return st;
    }
    (void)pthread_mutex_init(&pool->lock, NULL);
    ef__cond_init(&pool->freed);
    *out = pool;
    return EF_OK;
}

static void free_conn(ef__pg_conn *conn) /* accepts NULL */
{
    if (conn)
        ef__pg_close(conn);
    free(conn);
}

void ef__pg_pool_close(ef__pg_pool *pool)
{
    if (!pool)
        return;
    for (ef__pg_conn *conn = pool->idle, *next; conn; conn = next) {
        next = conn->next;
        free_conn(conn);
    }
    (void)pthread_cond_destroy(&pool->freed);
    (void)pthread_mutex_destroy(&pool->lock);
    ef__pg_target_release(&pool->target);
    ef__pg_statements_release(&pool->statements);
    free(pool);
}

const ef__pg_statements *ef__pg_pool_statements(const ef__pg_pool *pool)
{
    return &pool->statements;
}

const ef__schema_names *ef__pg_pool_schemas(const ef__pg_pool *pool)
{
    return &pool->target.schemas;
}

/* An idle connection, or the permission to open one (*out NULL). */
static ef_status reserve_slot(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, pool->options.busy_ms);
    ef_status st = EF_OK;
    int rc = 0;

    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->idle && pool->count >= pool->target.connections_max && rc == 0)
        rc = pthread_cond_timedwait(&pool->freed, &pool->lock, &until);
    *out = pool->idle;
    if (*out)
        pool->idle = (*out)->next;
    else if (pool->count < pool->target.connections_max)
        pool->count++;
    else
        st = ef_fail(err, EF_BUSY, "all %d connections to the server are in use",
                     (int)pool->target.connections_max);
    (void)pthread_mutex_unlock(&pool->lock);
    return st;
}

static void release_slot(ef__pg_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->count--;
    (void)pthread_cond_signal(&pool->freed);
    (void)pthread_mutex_unlock(&pool->lock);
}

/*
 * Every statement is designed for an index. The server plans a prepared statement once, possibly
 * while the tables are small, and keeps the plan: so the plans that are good for small tables only
 * are disabled. With a pooler (ef_prepare=off) sessions are not configured, and statements are
 * planned each time they run.
 */
static const char PLANS[] = "SET search_path = " EF__PG_SEARCH_PATH ";"
                            " SET enable_seqscan = off; SET enable_bitmapscan = off;"
                            " SET enable_hashjoin = off; SET enable_mergejoin = off;"
                            " SET jit = off; SET plan_cache_mode = force_generic_plan";

/* Behind a pooler, the backend that runs statements is not the one that accepted the connection. */
static ef_status check_session(ef__pg_conn *conn, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st =
        ef__pg_query_text(conn, "SELECT pg_catalog.pg_backend_pid()", NULL, &result, err);

    conn->own_session = st == EF_OK && ef__pg_int(result, 0, 0) == PQbackendPID(conn->pg);
    PQclear(result);
    return st;
}

static ef_status open_conn(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err)
{
    ef__pg_conn *conn = calloc(1, sizeof *conn);
    ef_status st;

    *out = NULL;
    if (!conn)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a connection");
    st = ef__pg_connect(conn, &pool->target, pool->options.statements ? &pool->statements : NULL,
                        err);
    if (st == EF_OK && conn->prepared)
        st = ef__pg_exec(conn, PLANS, err);
    if (st == EF_OK && conn->prepared)
        st = check_session(conn, err);
    if (st == EF_OK && conn->prepared)
        st = ef__pg_prepare_settings(conn, err);
    if (st == EF_OK && pool->options.check_server)
        st = pool->options.check_server(pool->options.context, conn, err);
    if (st != EF_OK) {
        free_conn(conn);
        return st;
    }
    *out = conn;
    return EF_OK;
}

/* The deadline of a retried operation, and its next pause. */
typedef struct retry_pause {
    int64_t until_ms;
    int64_t pause_ms;
} retry_pause;

/* Half of the pause is random. */
static void pause_ms(ef__pg_pool *pool, int64_t ms)
{
    int64_t chance;

    (void)pthread_mutex_lock(&pool->lock);
    chance = rand_r(&pool->seed) % (ms / 2 + 1);
    (void)pthread_mutex_unlock(&pool->lock);
    ms = ms / 2 + chance;
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static retry_pause retry_begin(const ef__pg_pool *pool)
{
    return (retry_pause){mono_ms() + pool->options.busy_ms, PAUSE_FIRST_MS};
}

/* Pauses before a retry; false when the deadline would pass. */
static bool pause_before_retry(ef__pg_pool *pool, retry_pause *retry)
{
    if (mono_ms() + retry->pause_ms > retry->until_ms)
        return false;
    pause_ms(pool, retry->pause_ms);
    retry->pause_ms = retry->pause_ms < PAUSE_MAX_MS / 2 ? retry->pause_ms * 2 : PAUSE_MAX_MS;
    return true;
}

ef_status ef__pg_pool_get(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err)
{
    retry_pause retry = retry_begin(pool);
    ef_status st = reserve_slot(pool, out, err);

    if (st != EF_OK)
        return st;
    /* The result of the COMMIT of a read is outstanding. */
    if (*out && ef__pg_receive_all(*out, NULL) == EF_OK) {
        (*out)->ending = false;
        return EF_OK;
    }
    free_conn(*out);
    do
        st = open_conn(pool, out, err);
    while (st == EF_BUSY && pause_before_retry(pool, &retry));
    if (st != EF_OK)
        release_slot(pool);
    return st;
}

void ef__pg_pool_put(ef__pg_pool *pool, ef__pg_conn *conn)
{
    bool keep;

    if (!conn)
        return;
    conn->watched_out = NULL;
    keep = conn->fault != EF__PG_LOST && PQstatus(conn->pg) == CONNECTION_OK;
    if (keep && !conn->ending && ef__pg_receive_all(conn, NULL) != EF_OK)
        keep = conn->fault != EF__PG_LOST;
    if (keep && !conn->ending &&
        (conn->in_transaction || PQtransactionStatus(conn->pg) != PQTRANS_IDLE)) {
        conn->in_transaction = true;
        keep = ef__pg_query_text(conn, "ROLLBACK", NULL, NULL, NULL) == EF_OK;
    }
    conn->in_transaction = false;
    conn->fault = EF__PG_NO_FAULT;
    if (!keep)
        free_conn(conn);
    (void)pthread_mutex_lock(&pool->lock);
    if (keep) {
        conn->next = pool->idle;
        pool->idle = conn;
    } else {
        pool->count--;
    }
    (void)pthread_cond_signal(&pool->freed);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* --- transactions ----------------------------------------------------------------------------- */

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
    int64_t busy_ms = pool->options.busy_ms;
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

/* A read does not wait for the end of its transaction: all results were received, and there is
 * nothing to commit. */
static ef_status end_read(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = ef__pg_receive_all(conn, err);

    if (st == EF_OK && ef__pg_send_discarding(conn, "COMMIT", NULL, NULL) == EF_OK &&
        ef__pg_sync(conn, NULL) == EF_OK)
        conn->ending = true;
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
        st = is_write_mode(mode) ? commit_transaction(conn, err) : end_read(conn, err);
    *out_retry = st != EF_OK && st != EF_UNSURE && can_retry(conn);
    lock_wait->timed_out = st == EF_BUSY && conn->fault == EF__PG_LOCKED;
    ef__pg_pool_put(pool, conn);
    return st;
}

ef_status ef__pg_transaction_within(ef__pg_pool *pool, ef__pg_mode mode,
                                    ef__pg_lock_wait *lock_wait, ef__pg_work work, void *context,
                                    ef_error *err)
{
    retry_pause pauses = retry_begin(pool);
    bool retry;
    ef_status st;

    do
        st = try_once(pool, mode, lock_wait, work, context, &retry, err);
    while (retry && pause_before_retry(pool, &pauses));
    return st;
}

ef_status ef__pg_transaction(ef__pg_pool *pool, ef__pg_mode mode, ef__pg_work work, void *context,
                             ef_error *err)
{
    ef__pg_lock_wait lock_wait = {.lock_ms = pool->options.busy_ms};

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
    /* The queue has indexes of these statements: results are received before the swap back. */
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
    retry_pause pauses = retry_begin(pool);
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
    } while (retry && pause_before_retry(pool, &pauses));
    return st;
}

ef_status ef__pg_run_statement(void *context, ef__pg_conn *conn, ef_error *err)
{
    const ef__pg_statement *statement = context;

    PQclear(*statement->out);
    return ef__pg_query(conn, statement->which, statement->params, statement->out, err);
}
