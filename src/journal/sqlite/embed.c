/*
 * embed.c - the opt-in header sqlite.h: appends inside a transaction of the application.
 *
 * The same writer as that of the store, on a connection of the application. It is used by one
 * thread at a time, so there is no group commit, no state lock and no checkpoint thread: the WAL is
 * checkpointed by processes that use ef_journal_open, and at detach if it is long.
 */
#include "store.h"

#include "../front_priv.h"

#include <everfold/sqlite.h>

#include <stdlib.h>

struct ef_sqlite {
    ef_journal_options options;
    sq_state state;
    sq_writer writer;
    ef__arena arena; /* memory of the planned events of the open transaction */
    bool open;       /* a transaction is */
};

#define SETTLE_FOR_EVENTS 64 /* the number of events is not known when a transaction begins */
#define TRANSACTION_BYTES_MAX (4ul * EF_LIMIT_APPEND_BYTES)

static ef_status attach_conn(ef_sqlite *e, sqlite3 *db, ef_error *err)
{
    const char *path = sqlite3_db_filename(db, "main");
    ef__sq_options how = sq_options(false, e->options.busy_ms);
    bool made;
    ef_status st;

    if (!path || !*path)
        return ef_fail(err, EF_BAD_INPUT, "the connection is not on a file");
    st = ef__sq_borrow(&e->writer.conn, db, &how, err);
    if (st == EF_OK)
        st = sq_schema_open(&e->writer.conn, &e->options, &made, err);
    if (st == EF_OK)
        st = ef__sq_set_up(&e->writer.conn, &how, err);
    if (st == EF_OK)
        st = ef__sq_guard_open(&e->writer.guard, path, err);
    if (st == EF_OK)
        st = sq_headfile_open(&e->writer.head, path, false, false, err);
    if (st == EF_NOT_FOUND && e->writer.guard.fd >= 0)
        st = EF_OK; /* sq_compare_head handles a missing head file */
    return st == EF_OK ? sq_compare_head(&e->writer, &e->options, err) : st;
}

void ef_sqlite_uncounted(void)
{
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS,
                         0); /* a failure is ignored: the transaction was ended */
}

ef_status ef_sqlite_attach(struct sqlite3 *db, const ef_journal_options *options, ef_sqlite **out,
                           ef_error *err)
{
    ef_sqlite *e;
    ef_status st;

    if (out)
        *out = NULL;
    if (!out || !db)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", db ? "out" : "db");
    if (!sqlite3_get_autocommit(db))
        return ef_fail(err, EF_MISUSE, "a transaction is open on the connection");
    e = calloc(1, sizeof *e);
    if (!e)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while attaching");
    if (options)
        e->options = *options;
    e->options.create = e->options.read_only = e->options.accept_head = false;
    e->options.clock = e->options.clock ? e->options.clock : ef_clock_system();
    e->options.busy_ms = e->options.busy_ms ? e->options.busy_ms : 10000;
    e->arena = (ef__arena)EF__ARENA_INIT(TRANSACTION_BYTES_MAX);
    sq_state_init(&e->state);
    sq_writer_init(&e->writer, &e->state, &e->options);
    st = attach_conn(e, db, err);
    if (st != EF_OK) {
        ef_sqlite_detach(e);
        return st;
    }
    *out = e;
    return EF_OK;
}

void ef_sqlite_detach(ef_sqlite *e)
{
    if (!e)
        return;
    ef_sqlite_rollback(e);
    if (e->writer.conn.db)
        ef__sq_close(&e->writer.conn);
    sq_writer_release(&e->writer);
    ef__sq_guard_close(&e->writer.guard);
    sq_headfile_close(&e->writer.head);
    sq_state_release(&e->state);
    ef__arena_release(&e->arena);
    free(e);
}

ef_status ef_sqlite_begin(ef_sqlite *e, ef_error *err)
{
    ef_status st;

    if (!e || e->open)
        return ef_fail(err, EF_MISUSE, "%s", e ? "a transaction is open already" : "NULL handle");
    st = sq_writer_begin(&e->writer, err);
    if (st == EF_OK)
        st = sq_settle_slice(&e->writer, SETTLE_FOR_EVENTS, err);
    if (st != EF_OK && !sqlite3_get_autocommit(e->writer.conn.db))
        sq_writer_rollback(&e->writer);
    e->open = st == EF_OK;
    ef__arena_reset(&e->arena);
    return st;
}

/* Planned events are compared with later ones of the same id until the commit: copy them. */
static bool copy_events(ef_sqlite *e, ef__arrival *arrival)
{
    ef_str *texts[] = {&arrival->event.tenant, &arrival->event.stream, &arrival->event.type,
                       &arrival->event.id,     &arrival->event.data,   &arrival->event.meta};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = ef__arena_copy(&e->arena, *texts[i]);
        if (!texts[i]->ptr)
            return false;
    }
    return true;
}

static ef_status append_arrivals(ef_sqlite *e, const ef__arrival *arrivals, size_t count,
                                 int64_t now_us, ef_place *out_places, ef_error *err)
{
    ef_status st = sq_writer_append(&e->writer, arrivals, count, now_us, out_places, err);

    if (st == EF_OK) /* now, because the application may read the events in its transaction */
        st = sq_writer_flush(&e->writer, err);
    if (st == EF_DAMAGED)
        sq_damage_record(&e->writer.head, sqlite3_db_filename(e->writer.conn.db, "main"),
                         &e->options, false, err);
    return st;
}

/* The application's transaction stays open: it may still commit its own rows. */
static ef_status refuse_damaged(const ef_sqlite *e, ef_error *err)
{
    sq_damage found;

    sq_headfile_damage(&e->writer.head, &found);
    return found.damage.found_us
               ? ef__damage_fail(sqlite3_db_filename(e->writer.conn.db, "main"), &found.damage, err)
               : EF_OK;
}

ef_status ef_sqlite_append(ef_sqlite *e, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    ef__arrival *arrivals;
    ef__made_id *ids;
    int64_t now_us;
    ef_status st;

    if (!e || !e->open)
        return ef_fail(err, EF_MISUSE, "call ef_sqlite_begin first");
    if (sqlite3_get_autocommit(e->writer.conn.db)) {
        ef_sqlite_rollback(e);
        return ef_fail(
            err, EF_MISUSE,
            "the transaction was ended without ef_sqlite_commit or ef_sqlite_rollback: end it by "
            "ef_sqlite_commit or ef_sqlite_rollback");
    }
    if (count == 0)
        return EF_OK;
    if (!events || !out_places)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", events ? "out_places" : "events");
    if (count > EF_LIMIT_APPEND_EVENTS)
        return ef_event_check(events, count, NULL, err);
    arrivals = ef__arena_alloc(&e->arena, count * sizeof *arrivals);
    ids = ef__arena_alloc(&e->arena, count * sizeof *ids);
    if (!arrivals || !ids)
        return ef_fail(err, EF_TOO_LARGE, "the transaction holds more than %lu bytes of events",
                       TRANSACTION_BYTES_MAX);
    now_us = e->options.clock->wall_us(e->options.clock->context);
    st = ef__arrivals_make(events, count, now_us, arrivals, ids, err);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        if (!copy_events(e, &arrivals[i]))
            st = ef_fail(err, EF_TOO_LARGE, "the transaction holds more than %lu bytes of events",
                         TRANSACTION_BYTES_MAX);
    if (st == EF_OK)
        st = refuse_damaged(e, err);
    if (st == EF_OK)
        st = append_arrivals(e, arrivals, count, now_us, out_places, err);
    if (st == EF_OK)
        ef__ids_return(arrivals, ids, count, out_places);
    return st;
}

ef_status ef_sqlite_commit(ef_sqlite *e, ef_error *err)
{
    ef_status st;

    if (!e || !e->open)
        return ef_fail(err, EF_MISUSE, "no transaction is open");
    if (sqlite3_get_autocommit(e->writer.conn.db)) {
        ef_sqlite_rollback(e);
        return ef_fail(
            err, EF_UNSURE,
            "the transaction was ended without ef_sqlite_commit: look up the events by id");
    }
    st = sq_writer_finish(&e->writer, err);
    if (st == EF_OK)
        st = sq_writer_commit(&e->writer, err);
    if (st != EF_OK) {
        ef_sqlite_rollback(e);
        return st;
    }
    e->open = false;
    sq_writer_note_head(&e->writer, e->options.log);
    if (sq_writer_publish(&e->writer, false, NULL) != EF_OK)
        sq_state_release(&e->state);
    return EF_OK;
}

void ef_sqlite_rollback(ef_sqlite *e)
{
    if (e && e->open)
        sq_writer_rollback(&e->writer);
    if (e)
        e->open = false;
}
