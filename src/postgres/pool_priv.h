/*
 * pool_priv.h - what the files of this room share.
 */
#ifndef EF_POSTGRES_POOL_PRIV_H
#define EF_POSTGRES_POOL_PRIV_H

#include "pool.h"

/* How long and how often something has been tried. */
typedef struct ef__pg_tries {
    int64_t until_ms;
    int64_t pause_ms;
} ef__pg_tries;

ef__pg_tries ef__pg_tries_begin(const ef__pg_pool *pool);
/* Pause before another try; false when there is no time for one. */
bool ef__pg_tries_next(ef__pg_pool *pool, ef__pg_tries *tries);
int64_t ef__pg_pool_busy_ms(const ef__pg_pool *pool);

/* As ef__pg_send, of a text. */
ef_status ef__pg_send_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                           ef_error *err);
/* The same; its result is nobody's to take. */
ef_status ef__pg_send_silent(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                             ef_error *err);
/* Settings of a transaction that writes: how long to wait for a lock, and how long the server waits
 * for us, in milliseconds as texts; and whether its commit may be lost. Nobody's to take either. */
ef_status ef__pg_send_settings(ef__pg_conn *conn, const ef__pg_params *params, ef_error *err);
/* Prepare them on a connection that keeps statements prepared: parsing costs more than setting. */
ef_status ef__pg_prepare_settings(ef__pg_conn *conn, ef_error *err);
/* The result of the last that was sent, after all before it. */
ef_status ef__pg_take_last(ef__pg_conn *conn, PGresult **out, ef_error *err);

#endif
