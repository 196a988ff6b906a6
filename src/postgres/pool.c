/*
 * pool.c - see pool.h. `lock` protects the idle list, the count and the seed.
 */
#include "pool.h"

#include "pool_priv.h"

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

static void free_conn(ef__pg_conn *conn)
{
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
    int64_t until_ms = mono_ms() + pool->options.busy_ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
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

ef__pg_retry ef__pg_retry_begin(const ef__pg_pool *pool)
{
    return (ef__pg_retry){mono_ms() + pool->options.busy_ms, PAUSE_FIRST_MS};
}

bool ef__pg_retry_pause(ef__pg_pool *pool, ef__pg_retry *retry)
{
    if (mono_ms() + retry->pause_ms > retry->until_ms)
        return false;
    pause_ms(pool, retry->pause_ms);
    retry->pause_ms = retry->pause_ms < PAUSE_MAX_MS / 2 ? retry->pause_ms * 2 : PAUSE_MAX_MS;
    return true;
}

int64_t ef__pg_pool_busy_ms(const ef__pg_pool *pool)
{
    return pool->options.busy_ms;
}

ef_status ef__pg_pool_get(ef__pg_pool *pool, ef__pg_conn **out, ef_error *err)
{
    ef__pg_retry retry = ef__pg_retry_begin(pool);
    ef_status st = reserve_slot(pool, out, err);

    if (st != EF_OK || *out)
        return st;
    do
        st = open_conn(pool, out, err);
    while (st == EF_BUSY && ef__pg_retry_pause(pool, &retry));
    if (st != EF_OK)
        release_slot(pool);
    return st;
}

void ef__pg_pool_put(ef__pg_pool *pool, ef__pg_conn *conn)
{
    bool keep;

    if (!conn)
        return;
    keep = conn->fault != EF__PG_LOST && PQstatus(conn->pg) == CONNECTION_OK;
    if (keep && ef__pg_receive_all(conn, NULL) != EF_OK)
        keep = conn->fault != EF__PG_LOST;
    if (keep && (conn->in_transaction || PQtransactionStatus(conn->pg) != PQTRANS_IDLE)) {
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
