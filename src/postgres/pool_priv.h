/*
 * pool_priv.h - declarations that are private to this module.
 */
#ifndef EF_POSTGRES_POOL_PRIV_H
#define EF_POSTGRES_POOL_PRIV_H

#include "pool.h"

/* The deadline of a retried operation, and its next pause. */
typedef struct ef__pg_retry {
    int64_t until_ms;
    int64_t pause_ms;
} ef__pg_retry;

ef__pg_retry ef__pg_retry_begin(const ef__pg_pool *pool);
/* Pauses before a retry; false when the deadline would pass. */
bool ef__pg_retry_pause(ef__pg_pool *pool, ef__pg_retry *tries);
int64_t ef__pg_pool_busy_ms(const ef__pg_pool *pool);

/* As ef__pg_send, for SQL without a name. */
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

#endif
