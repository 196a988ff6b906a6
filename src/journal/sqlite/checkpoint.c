#include "checkpoint.h"

#include "../../base/logger.h"

#include <inttypes.h>

static ef_status open_connections(sq_store *store, ef_error *err)
{
    ef_status st = EF_OK;

    if (!store->checkpoint.conn.db)
        st = sq_conn_open(&store->checkpoint.conn, store->path, 0, 1000, err);
    if (st == EF_OK && !store->checkpoint.pin.db)
        st = sq_conn_open(&store->checkpoint.pin, store->path, SQ_OPEN_NO_SYNC, 1000, err);
    return st;
}

static ef_status move_log(sq_store *store, ef_error *err)
{
    sq_conn *conn = &store->checkpoint.conn;
    int log = 0, moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(conn->db, "main", SQLITE_CHECKPOINT_PASSIVE, &log, &moved);

    /* The next one is due when the log has grown by as much again, whether all of it was moved or a
     * reader was in the way. A commit that starts the log anew says so (store.c). */
    atomic_store(&store->checkpoint.due_pages, log + SQ_WAL_STEP);
    return rc == SQLITE_BUSY ? EF_OK : sq_fail(conn, rc, "moving the log into the database", err);
}

/* SQLite syncs the database only at the end of a checkpoint that moved everything. Syncing what was
 * moved so far leaves little to sync while nobody may commit. */
static ef_status sync_database(sq_store *store, ef_error *err)
{
    sqlite3_file *file = NULL;
    int rc =
        sqlite3_file_control(store->checkpoint.conn.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    return rc == SQLITE_OK ? EF_OK : ef_fail(err, EF_IO, "syncing the database: SQLite %d", rc);
}

/* Step 1. The small commit needs no sync: nobody was told of it, and the next one covers it. */
static ef_status set_pin(sq_store *store, ef_error *err)
{
    sq_conn *pin = &store->checkpoint.pin;
    int64_t seen;
    ef_status st = sq_guard_alone_begin(&store->writer.guard, 1000, err);

    if (st != EF_OK)
        return st;
    st = sq_run(pin, SQ_STATE_CHECKPOINT, err);
    if (st == EF_OK)
        st = sq_run(pin, SQ_BEGIN_READ, err);
    if (st == EF_OK)
        st = sq_number(pin, SQ_STREAM_LAST, &seen, err);
    sq_guard_alone_end(&store->writer.guard);
    return st;
}

static void drop_pin(sq_store *store)
{
    if (!sqlite3_get_autocommit(store->checkpoint.pin.db))
        (void)sq_run(&store->checkpoint.pin, SQ_ROLLBACK, NULL);
}

static ef_status move_rest(sq_store *store, ef_error *err)
{
    ef_status st = sq_guard_alone_begin(&store->writer.guard, 1000, err);

    if (st != EF_OK)
        return st;
    st = move_log(store, err);
    sq_guard_alone_end(&store->writer.guard);
    return st;
}

/* The three steps. The guard's locks belong to the process: within steps 1 and 3 nobody of this
 * process may write, between them its writer uses the locks as before. */
static ef_status checkpoint(sq_store *store, ef_error *err)
{
    bool whole = atomic_load(&store->wal_pages) >= SQ_WAL_WHOLE;
    ef_status st = open_connections(store, err);

    if (st != EF_OK)
        return st;
    sq_exclusive_begin(store);
    st = set_pin(store, err);
    sq_exclusive_end(store);
    if (st == EF_OK)
        st = move_log(store, err);
    if (st == EF_OK)
        st = sync_database(store, err);
    drop_pin(store);
    if (st != EF_OK || !whole)
        return st;
    sq_exclusive_begin(store);
    st = move_rest(store, err);
    sq_exclusive_end(store);
    return st;
}

static void checkpoint_counted(sq_store *store)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (!sq_guard_checkpointer_begin(&store->writer.guard))
        return; /* another process is at it */
    st = checkpoint(store, &err);
    sq_guard_checkpointer_end(&store->writer.guard);
    if (st == EF_OK || st == EF_BUSY) {
        atomic_fetch_add(&store->checkpoints, 1);
        return;
    }
    atomic_fetch_add(&store->checkpoint_errors, 1);
    ef__log(store->base.options.log, EF_LOG_ERROR, "checkpoint failed",
            EF_LOG_TEXT_FIELD("error", ef_str_from(err.text)));
}

static void *checkpoint_loop(void *context)
{
    sq_store *store = context;

    pthread_mutex_lock(&store->checkpoint.lock);
    while (!store->checkpoint.stop) {
        if (atomic_load(&store->wal_pages) < atomic_load(&store->checkpoint.due_pages)) {
            pthread_cond_wait(&store->checkpoint.wake, &store->checkpoint.lock);
            continue;
        }
        pthread_mutex_unlock(&store->checkpoint.lock);
        checkpoint_counted(store);
        /* Whether it worked or not, a commit has to say how long the log is now. */
        atomic_store(&store->wal_pages, 0);
        pthread_mutex_lock(&store->checkpoint.lock);
    }
    pthread_mutex_unlock(&store->checkpoint.lock);
    return NULL;
}

void sq_checkpoint_look(sq_store *store)
{
    if (atomic_load(&store->wal_pages) < atomic_load(&store->checkpoint.due_pages))
        return;
    pthread_mutex_lock(&store->checkpoint.lock);
    if (!store->checkpoint.started && !store->checkpoint.stop)
        store->checkpoint.started =
            pthread_create(&store->checkpoint.thread, NULL, checkpoint_loop, store) == 0;
    pthread_cond_signal(&store->checkpoint.wake);
    pthread_mutex_unlock(&store->checkpoint.lock);
}

void sq_checkpoint_stop(sq_store *store)
{
    pthread_mutex_lock(&store->checkpoint.lock);
    store->checkpoint.stop = true;
    pthread_cond_signal(&store->checkpoint.wake);
    pthread_mutex_unlock(&store->checkpoint.lock);
    if (store->checkpoint.started)
        (void)pthread_join(store->checkpoint.thread, NULL);
    sq_conn_close(&store->checkpoint.pin);
    sq_conn_close(&store->checkpoint.conn);
}
