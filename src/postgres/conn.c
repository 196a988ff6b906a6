/*
 * conn.c - see conn.h. SQLSTATEs are converted in status_of only.
 */
#include "conn.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* --- errors ----------------------------------------------------------------------------------- */

/* The first entry that matches is used; an entry is a prefix, so two letters are a class. */
static const struct {
    const char *state;
    ef_status status;
    ef__pg_fault fault;
} STATES[] = {
    {"40001", EF_BUSY, EF__PG_AGAIN},    /* serialization failure */
    {"40P01", EF_BUSY, EF__PG_AGAIN},    /* deadlock */
    {"40003", EF_UNSURE, EF__PG_LOST},   /* statement completion unknown */
    {"25006", EF_BUSY, EF__PG_LOST},     /* read only: a standby, or a server that became one */
    {"25P03", EF_BUSY, EF__PG_LOST},     /* idle_in_transaction_session_timeout */
    {"55P03", EF_BUSY, EF__PG_LOCKED},   /* lock_timeout */
    {"57014", EF_BUSY, EF__PG_NO_FAULT}, /* cancelled */
    {"57P", EF_BUSY, EF__PG_LOST},       /* shut down, crashed, or starting up */
    {"08", EF_BUSY, EF__PG_LOST},        /* connection */
    {"53100", EF_FULL, EF__PG_NO_FAULT}, /* disk full */
    {"53200", EF_NO_MEMORY, EF__PG_NO_FAULT}, /* out of memory */
    {"53", EF_BUSY, EF__PG_NO_FAULT},         /* too many connections … */
    {"23505", EF_EXISTS, EF__PG_NO_FAULT},    /* unique violation */
    {"42501", EF_MISUSE, EF__PG_NO_FAULT},    /* the role may not do that */
    {"42P01", EF_WRONG_STORE,
     EF__PG_NO_FAULT}, /* no such table, schema, function: no journal here */
    {"3F000", EF_WRONG_STORE, EF__PG_NO_FAULT},
    {"42883", EF_WRONG_STORE, EF__PG_NO_FAULT},
    {"3D000", EF_NOT_FOUND, EF__PG_NO_FAULT}, /* no such database */
    {"28", EF_BAD_INPUT, EF__PG_NO_FAULT},    /* no such role, wrong password */
    {"22", EF_BAD_INPUT, EF__PG_NO_FAULT},    /* a value */
    {"EF001", EF_CONFLICT,
     EF__PG_NO_FAULT}, /* raised by our own statements: an assumption is wrong */
    {"XX001", EF_DAMAGED, EF__PG_NO_FAULT}, /* data corrupted */
    {"XX002", EF_DAMAGED, EF__PG_NO_FAULT}, /* index corrupted */
};

static ef_status status_of(const char *state, ef__pg_fault *out_fault)
{
    *out_fault = EF__PG_NO_FAULT;
    for (size_t i = 0; i < sizeof STATES / sizeof STATES[0]; i++)
        if (strncmp(state, STATES[i].state, strlen(STATES[i].state)) == 0) {
            *out_fault = STATES[i].fault;
            return STATES[i].status;
        }
    return EF_IO;
}

/* The first line of a message: the details after it can contain values. */
static int line_length(const char *message)
{
    return (int)strcspn(message, "\n");
}

static ef_status fail_lost(ef__pg_conn *conn, ef_error *err)
{
    const char *message = PQerrorMessage(conn->pg);

    conn->fault = EF__PG_LOST;
    return ef_fail(err, EF_BUSY, "the connection to the PostgreSQL server was lost: %.*s",
                   line_length(message), message);
}

static ef_status fail_result(ef__pg_conn *conn, const PGresult *result, const char *what,
                             ef_error *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    ef_status status;

    if (!state || PQstatus(conn->pg) == CONNECTION_BAD)
        return fail_lost(conn, err);
    (void)snprintf(conn->state, sizeof conn->state, "%s", state);
    status = status_of(state, &conn->fault);
    return ef_fail(err, status, "%s: %s (PostgreSQL %s)", what, message ? message : "", state);
}

/* --- connecting ------------------------------------------------------------------------------- */

/* Reports why a connection failed. libpq has the SQLSTATE in the text only: "FATAL: 28P01: …". */
static ef_status fail_connect(ef__pg_conn *conn, ef_error *err)
{
    const char *message = PQerrorMessage(conn->pg);
    const char *fatal = strstr(message, "FATAL:  ");
    char state[6] = "08001";
    ef_status status;

    if (fatal && strlen(fatal) > 14 && fatal[13] == ':')
        memcpy(state, fatal + 8, 5);
    status = status_of(state, &conn->fault);
    if (strcmp(state, "08001") == 0)
        conn->fault = EF__PG_LOST;
    else
        message = fatal + 15;
    return ef_fail(err, status == EF_IO ? EF_BUSY : status,
                   "cannot connect to the PostgreSQL server: %.*s (PostgreSQL %s)",
                   line_length(message), message, state);
}

/* The loop of PQconnectdbParams, which does not allow to set the verbosity before the reply. */
static void finish_connecting(PGconn *pg, int64_t timeout_ms)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    struct timespec begun, now;

    (void)clock_gettime(CLOCK_MONOTONIC, &begun);
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        struct pollfd fd = {PQsocket(pg), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, 0};

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - begun.tv_sec) * 1000 > timeout_ms)
            return;
        (void)poll(&fd, 1, 1000);
        if (fd.revents)
            next = PQconnectPoll(pg);
    }
}

static void ignore_notice(void *context, const PGresult *result)
{
    (void)context, (void)result;
}

static int64_t connect_ms(const ef__pg_target *target)
{
    for (int i = 0; target->keys[i]; i++)
        if (strcmp(target->keys[i], "connect_timeout") == 0)
            return strtol(target->values[i], NULL, 10) * 1000;
    return 10000;
}

ef_status ef__pg_connect(ef__pg_conn *conn, const ef__pg_target *target,
                         const ef__pg_statements *statements, ef_error *err)
{
    const char *encoding;
    ef_status st = EF_OK;

    *conn = (ef__pg_conn){.statements = statements};
    if (target->prepare && statements &&
        !(conn->prepared = calloc((size_t)statements->count, sizeof *conn->prepared)))
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a connection");
    conn->pg = PQconnectStartParams(target->keys, target->values, 0);
    if (!conn->pg)
        st = ef_fail(err, EF_NO_MEMORY, "out of memory for a connection");
    if (st == EF_OK) {
        (void)PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
        (void)PQsetNoticeReceiver(conn->pg, ignore_notice, NULL);
        if (PQstatus(conn->pg) != CONNECTION_BAD)
            finish_connecting(conn->pg, connect_ms(target));
        if (PQstatus(conn->pg) != CONNECTION_OK)
            st = fail_connect(conn, err);
    }
    if (st == EF_OK) {
        encoding = PQparameterStatus(conn->pg, "server_encoding");
        if (!encoding || strcmp(encoding, "UTF8") != 0)
            st =
                ef_fail(err, EF_WRONG_STORE, "the encoding of the database is %s, UTF8 is required",
                        encoding ? encoding : "unknown");
        else if (!PQenterPipelineMode(conn->pg))
            st = fail_lost(conn, err);
    }
    if (st != EF_OK)
        ef__pg_close(conn);
    return st;
}

void ef__pg_close(ef__pg_conn *conn)
{
    PQfinish(conn->pg);
    free(conn->prepared);
    free(conn->other_prepared);
    *conn = (ef__pg_conn){0};
}

/* --- statements ------------------------------------------------------------------------------- */

/* Entries of the queue beside the index of a statement: its preparation is the index with PREPARE
 * set. TEXT is SQL without a name, DISCARD is SQL whose result has no reader. */
enum { PREPARE = 0x4000, SYNC = -1, TEXT = -2, DISCARD = -3 };

static bool has_capacity(const ef__pg_conn *conn)
{
    /* a search path, a preparation, the statement and a sync */
    return conn->sent + 4 <= EF__PG_SENT_MAX;
}

static ef_status push_sent(ef__pg_conn *conn, int ok, int what, ef_error *err)
{
    if (!ok)
        return fail_lost(conn, err);
    conn->queue[(conn->first + conn->sent++) % EF__PG_SENT_MAX] = (short)what;
    conn->unsynced = what != SYNC;
    return EF_OK;
}

static int pop_sent(ef__pg_conn *conn)
{
    int what = conn->queue[conn->first];

    conn->first = (conn->first + 1) % EF__PG_SENT_MAX;
    conn->sent--;
    return what;
}

static ef_status send_prepare(ef__pg_conn *conn, int which, const ef__pg_params *params,
                              ef_error *err)
{
    ef_status st =
        push_sent(conn,
                  PQsendPrepare(conn->pg, conn->statements->names[which],
                                conn->statements->sql[which], params->count, params->types),
                  which | PREPARE, err);

    if (st == EF_OK)
        conn->prepared[which] = 1;
    return st;
}

static const ef__pg_params NO_PARAMS = {0};

static ef_status send_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                           int what, ef_error *err)
{
    if (params->failed)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for the parameters of a statement");
    if (!has_capacity(conn))
        return ef_fail(err, EF_MISUSE, "%d statements were sent without receiving a result",
                       conn->sent);
    return push_sent(conn,
                     PQsendQueryParams(conn->pg, sql, params->count, params->types, params->values,
                                       params->lengths, params->formats, 1),
                     what, err);
}

/* Resolved before the search path is set, so every name in it has a schema. */
#define SET_PATH "pg_catalog.set_config('search_path', '" EF__PG_SEARCH_PATH "', true)"

ef_status ef__pg_send_path(ef__pg_conn *conn, ef_error *err)
{
    return conn->own_session ? EF_OK
                             : send_text(conn, "SELECT " SET_PATH, &NO_PARAMS, DISCARD, err);
}

/* Outside of a transaction, everything up to the next sync is an implicit one. */
static ef_status begin_sending(ef__pg_conn *conn, ef_error *err)
{
    return conn->in_transaction || conn->unsynced ? EF_OK : ef__pg_send_path(conn, err);
}

ef_status ef__pg_send_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                           ef_error *err)
{
    ef_status st = begin_sending(conn, err);

    return st == EF_OK ? send_text(conn, sql, params ? params : &NO_PARAMS, TEXT, err) : st;
}

ef_status ef__pg_send_discarding(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                                 ef_error *err)
{
    return send_text(conn, sql, params ? params : &NO_PARAMS, DISCARD, err);
}

/* A commit that was reported survives a crash, also where the server has synchronous_commit=off. */
#define SETTINGS                                                                                   \
    "SELECT " SET_PATH ", pg_catalog.set_config('lock_timeout', $1, true),"                        \
    " pg_catalog.set_config('idle_in_transaction_session_timeout', $2, true),"                     \
    " CASE WHEN $3 THEN pg_catalog.set_config('synchronous_commit', 'off', true)"                  \
    "      WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'off'"     \
    "      THEN pg_catalog.set_config('synchronous_commit', 'on', true) END"
#define SETTINGS_NAME "everfold_settings"

ef_status ef__pg_prepare_settings(ef__pg_conn *conn, ef_error *err)
{
    return ef__pg_exec(conn, "PREPARE " SETTINGS_NAME "(text, text, boolean) AS " SETTINGS, err);
}

ef_status ef__pg_send_settings(ef__pg_conn *conn, const ef__pg_params *params, ef_error *err)
{
    if (!conn->prepared || params->failed || !has_capacity(conn))
        return send_text(conn, SETTINGS, params, DISCARD, err);
    return push_sent(conn,
                     PQsendQueryPrepared(conn->pg, SETTINGS_NAME, params->count, params->values,
                                         params->lengths, params->formats, 1),
                     DISCARD, err);
}

ef_status ef__pg_send(ef__pg_conn *conn, int which, const ef__pg_params *params, ef_error *err)
{
    ef_status st = begin_sending(conn, err);

    if (st != EF_OK)
        return st;
    if (!params)
        params = &NO_PARAMS;
    if (!conn->prepared || params->failed || !has_capacity(conn))
        return send_text(conn, conn->statements->sql[which], params, which, err);
    if (conn->prepared[which] == 0)
        st = send_prepare(conn, which, params, err);
    if (st != EF_OK)
        return st;
    return push_sent(conn,
                     PQsendQueryPrepared(conn->pg, conn->statements->names[which], params->count,
                                         params->values, params->lengths, params->formats, 1),
                     which, err);
}

/* The next result. libpq returns NULL after each result except that of a sync. */
static PGresult *next_result(ef__pg_conn *conn)
{
    PGresult *result = PQgetResult(conn->pg), *more;

    if (!result || PQresultStatus(result) == PGRES_PIPELINE_SYNC)
        return result;
    while ((more = PQgetResult(conn->pg)) != NULL)
        PQclear(more);
    return result;
}

static ef_status send_sync(ef__pg_conn *conn, ef_error *err)
{
    return conn->unsynced ? push_sent(conn, PQpipelineSync(conn->pg), SYNC, err) : EF_OK;
}

ef_status ef__pg_sync(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_sync(conn, err);

    return st == EF_OK && PQflush(conn->pg) < 0 ? fail_lost(conn, err) : st;
}

void ef__pg_watch(ef__pg_conn *conn, int which, PGresult **out)
{
    conn->watched = which;
    conn->watched_out = out;
}

static void release_result(ef__pg_conn *conn, int what, PGresult *result)
{
    if (conn->watched_out && what == conn->watched) {
        PQclear(*conn->watched_out);
        *conn->watched_out = result;
    } else
        PQclear(result);
}

/* After a failure: discards the other results, and notes which statements are not prepared. */
static void discard_outstanding(ef__pg_conn *conn)
{
    ef_error ignored;

    if (conn->fault != EF__PG_LOST)
        (void)send_sync(conn, &ignored);
    while (conn->sent > 0) {
        int what = pop_sent(conn);
        PGresult *result = conn->fault == EF__PG_LOST ? NULL : next_result(conn);
        bool done = result && PQresultStatus(result) == PGRES_COMMAND_OK;

        if (!result)
            conn->fault = EF__PG_LOST;
        if (what > 0 && (what & PREPARE) && conn->prepared)
            conn->prepared[what & ~PREPARE] = done ? 2 : 0;
        PQclear(result);
    }
    conn->unsynced = false;
}

static const char *name_of(const ef__pg_conn *conn, int what)
{
    return what < 0 ? "a statement" : conn->statements->names[what & ~PREPARE];
}

static ef_status check_result(ef__pg_conn *conn, int what, const PGresult *result, ef_error *err)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
    case PGRES_PIPELINE_SYNC:
        return EF_OK;
    default:
        return fail_result(conn, result, name_of(conn, what), err);
    }
}

/* The result of the oldest entry: a statement, its preparation, or a sync. */
static PGresult *receive_next(ef__pg_conn *conn, int *out_what, ef_status *out_status,
                              ef_error *err)
{
    int what = pop_sent(conn);
    PGresult *result = next_result(conn);

    *out_what = what;
    *out_status = result ? check_result(conn, what, result, err) : fail_lost(conn, err);
    if (what >= 0 && (what & PREPARE))
        conn->prepared[what & ~PREPARE] = *out_status == EF_OK ? 2 : 0;
    return result;
}

/* Whether the caller receives the result of an entry. */
static bool has_reader(int what)
{
    return what == TEXT || (what >= 0 && !(what & PREPARE));
}

static ef_status receive_read(ef__pg_conn *conn, int *out_what, PGresult **out, ef_error *err)
{
    ef_status st = send_sync(conn, err);

    *out = NULL;
    if (st == EF_OK && conn->sent == 0)
        st = ef_fail(err, EF_MISUSE, "no statement was sent whose result could be received");
    while (st == EF_OK) {
        PGresult *result = receive_next(conn, out_what, &st, err);

        if (st == EF_OK && has_reader(*out_what)) {
            *out = result;
            return EF_OK;
        }
        PQclear(result);
        if (st == EF_OK && conn->sent == 0)
            st = ef_fail(err, EF_MISUSE, "all results were received already");
    }
    discard_outstanding(conn);
    return st;
}

ef_status ef__pg_receive(ef__pg_conn *conn, PGresult **out, ef_error *err)
{
    PGresult *result;
    int what;
    ef_status st = receive_read(conn, &what, &result, err);

    if (out)
        *out = result;
    else
        release_result(conn, what, result);
    return st;
}

/* Receives the results up to the next one that has a reader. */
static ef_status discard_silent(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = PQstatus(conn->pg) == CONNECTION_OK ? EF_OK : fail_lost(conn, err);

    if (st == EF_OK && conn->sent > 0 && !has_reader(conn->queue[conn->first]))
        st = send_sync(conn, err);
    while (st == EF_OK && conn->sent > 0 && !has_reader(conn->queue[conn->first])) {
        int what;

        PQclear(receive_next(conn, &what, &st, err));
    }
    if (st != EF_OK)
        discard_outstanding(conn);
    return st;
}

ef_status ef__pg_receive_all(ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && (st = discard_silent(conn, err)) == EF_OK && conn->sent > 0)
        st = ef__pg_receive(conn, NULL, err);
    return st;
}

ef_status ef__pg_receive_last(ef__pg_conn *conn, PGresult **out, ef_error *err)
{
    PGresult *result = NULL;
    int what = TEXT;
    ef_status st;

    do {
        release_result(conn, what, result);
        st = receive_read(conn, &what, &result, err);
        if (st == EF_OK)
            st = discard_silent(conn, err);
    } while (st == EF_OK && conn->sent > 0);
    if (out)
        *out = st == EF_OK ? result : NULL;
    if (!out || st != EF_OK)
        PQclear(result);
    return st;
}

/* Receives the last result, unless sending failed: then everything outstanding is discarded. */
static ef_status receive_reply(ef__pg_conn *conn, ef_status sent, PGresult **out, ef_error *err)
{
    if (out)
        *out = NULL;
    if (sent == EF_OK)
        return ef__pg_receive_last(conn, out, err);
    discard_outstanding(conn);
    return sent;
}

ef_status ef__pg_query(ef__pg_conn *conn, int which, const ef__pg_params *params, PGresult **out,
                       ef_error *err)
{
    return receive_reply(conn, ef__pg_send(conn, which, params, err), out, err);
}

ef_status ef__pg_query_text(ef__pg_conn *conn, const char *sql, const ef__pg_params *params,
                            PGresult **out, ef_error *err)
{
    return receive_reply(conn, ef__pg_send_text(conn, sql, params, err), out, err);
}

ef_status ef__pg_exec(ef__pg_conn *conn, const char *sql, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = discard_silent(conn, err);

    if (st != EF_OK)
        return st;
    if (conn->sent > 0 || !PQexitPipelineMode(conn->pg))
        return ef_fail(err, EF_MISUSE, "a statement was sent whose result was not received");
    result = PQexec(conn->pg, sql);
    st = result ? check_result(conn, TEXT, result, err) : fail_lost(conn, err);
    PQclear(result);
    if (!PQenterPipelineMode(conn->pg) && st == EF_OK)
        st = fail_lost(conn, err);
    return st;
}

/* --- notifications
 * ------------------------------------------------------------------------------------ */

ef_status ef__pg_listen(ef__pg_conn *conn, const char *channel, ef_error *err)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "LISTEN %.60s", channel);
    return ef__pg_exec(conn, sql, err);
}

ef_status ef__pg_wait_notify(ef__pg_conn *conn, int64_t timeout_ms, bool *out_notified,
                             ef_error *err)
{
    struct pollfd fd = {PQsocket(conn->pg), POLLIN, 0};
    PGnotify *notify;

    *out_notified = false;
    if (!(notify = PQnotifies(conn->pg))) {
        (void)poll(&fd, 1, (int)timeout_ms);
        if (!PQconsumeInput(conn->pg) || PQstatus(conn->pg) != CONNECTION_OK)
            return fail_lost(conn, err);
        notify = PQnotifies(conn->pg);
    }
    for (; notify; notify = PQnotifies(conn->pg)) {
        *out_notified = true;
        PQfreemem(notify);
    }
    return EF_OK;
}
