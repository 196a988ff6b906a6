#include "checkpoint.h"

#include "../base/logger.h"

#define ALONE_MS 1000 /* to wait for a moment alone; the next commit asks again */

static ef_status open_connections(ef__sq_checkpointer *c, ef_error *err)
{
    ef__sq_options options = {.busy_ms = ALONE_MS, .sync = EF__SQ_SYNC_FULL};
    ef_status st = EF_OK;

    if (!c->conn.db)
        st = ef__sq_open(&c->conn, c->path, &options, err);
    /* The small commit needs no sync: nobody was told of it. */
    options.sync = EF__SQ_SYNC_OFF;
    if (st == EF_OK && !c->pin.db)
        st = ef__sq_open(&c->pin, c->path, &options, err);
    return st;
}

static ef_status alone_begin(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(c->writer);
    st = ef__sq_guard_alone_begin(c->guard, ALONE_MS, err);
    if (st != EF_OK)
        pthread_mutex_unlock(c->writer);
    return st;
}

static void alone_end(ef__sq_checkpointer *c)
{
    ef__sq_guard_alone_end(c->guard);
    pthread_mutex_unlock(c->writer);
}

static ef_status move_log(ef__sq_checkpointer *c, ef_error *err)
{
    int log = 0, moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->conn.db, "main", SQLITE_CHECKPOINT_PASSIVE, &log, &moved);

    /* Where a reader is in the way less is moved, and nothing is wrong: wait for the log to grow as
     * much again before the next try. */
    atomic_store(&c->due_pages, moved >= log ? c->due_pages_min : log + c->due_pages_min);
    return rc == SQLITE_BUSY ? EF_OK
                             : ef__sq_fail(&c->conn, rc, "moving the log into the database", err);
}

/* SQLite syncs the database only at the end of a checkpoint that moved everything. Syncing what was
 * moved so far leaves little to sync while nobody may commit. */
static ef_status sync_database(ef__sq_checkpointer *c, ef_error *err)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(c->conn.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    return rc == SQLITE_OK ? EF_OK : ef_fail(err, EF_IO, "syncing the database: SQLite %d", rc);
}

/* Step 1. A transaction reads from its first select on, not from BEGIN. */
static ef_status set_pin(ef__sq_checkpointer *c, ef_error *err)
{
    int64_t seen;
    ef_status st = alone_begin(c, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_exec(&c->pin, c->tick_sql, err);
    if (st == EF_OK)
        st = ef__sq_exec(&c->pin, "BEGIN", err);
    if (st == EF_OK)
        st = ef__sq_number(&c->pin, "SELECT count(*) FROM sqlite_schema", &seen, err);
    alone_end(c);
    return st;
}

static void drop_pin(ef__sq_checkpointer *c)
{
    if (!sqlite3_get_autocommit(c->pin.db))
        (void)ef__sq_exec(&c->pin, "ROLLBACK", NULL);
}

static ef_status move_rest(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st = alone_begin(c, err);

    if (st != EF_OK)
        return st;
    st = move_log(c, err);
    alone_end(c);
    return st;
}

static ef_status checkpoint(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st = open_connections(c, err);

    if (st != EF_OK)
        return st;
    st = set_pin(c, err);
    if (st == EF_OK)
        st = move_log(c, err);
    if (st == EF_OK)
        st = sync_database(c, err);
    drop_pin(c);
    return st == EF_OK ? move_rest(c, err) : st;
}

ef_status ef__sq_checkpointer_run(ef__sq_checkpointer *c, ef_error *err)
{
    ef_error scratch = EF_ERROR_INIT;
    ef_status st;

    if (!ef__sq_guard_checkpointer_begin(c->guard))
        return EF_OK;
    st = checkpoint(c, err ? err : &scratch);
    ef__sq_guard_checkpointer_end(c->guard);
    if (st == EF_OK || st == EF_BUSY) {
        atomic_fetch_add(&c->done, 1);
        return EF_OK;
    }
    atomic_fetch_add(&c->failed, 1);
    ef__log(c->log, EF_LOG_ERROR, "checkpoint failed",
            EF_LOG_TEXT_FIELD("error", ef_str_from((err ? err : &scratch)->text)));
    return st;
}

static void *checkpoint_loop(void *context)
{
    ef__sq_checkpointer *c = context;

    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (atomic_load(&c->log_pages) < atomic_load(&c->due_pages)) {
            pthread_cond_wait(&c->wake, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        (void)ef__sq_checkpointer_run(c, NULL);
        /* Whether it worked or not, a commit has to say how long the log is now. */
        atomic_store(&c->log_pages, 0);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err)
{
    atomic_store(&c->due_pages, c->due_pages_min);
    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return ef_fail(err, EF_NO_MEMORY, "no lock for the checkpoints");
    if (pthread_cond_init(&c->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&c->lock);
        return ef_fail(err, EF_NO_MEMORY, "no lock for the checkpoints");
    }
    c->ready = true;
    return EF_OK;
}

void ef__sq_checkpointer_look(ef__sq_checkpointer *c, int log_pages)
{
    atomic_store(&c->log_pages, log_pages);
    if (log_pages < atomic_load(&c->due_pages))
        return;
    pthread_mutex_lock(&c->lock);
    if (!c->started && !c->stop)
        c->started = pthread_create(&c->thread, NULL, checkpoint_loop, c) == 0;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
}

void ef__sq_checkpointer_release(ef__sq_checkpointer *c)
{
    if (!c->ready)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    if (c->started)
        (void)pthread_join(c->thread, NULL);
    ef__sq_close(&c->pin);
    ef__sq_close(&c->conn);
    (void)pthread_cond_destroy(&c->wake);
    (void)pthread_mutex_destroy(&c->lock);
    c->ready = false;
}
