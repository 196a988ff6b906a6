#include "checkpoint.h"

#include "../base/logger.h"

#define ALONE_MS 1000 /* to wait for a moment alone; the next commit asks again */

#define FRAME_BYTES (4096 + 24)
#define AHEAD_PAGES 256 /* of log that are in its file before they are needed */

enum { TICK, BEGIN_READ, BEGIN_WRITE, READ, ROLLBACK, SQL_COUNT };

static void drop_pin(ef__sq_checkpointer *c);

static ef_status open_connections(ef__sq_checkpointer *c, ef_error *err)
{
    ef__sq_options options = {.texts = &c->texts, .busy_ms = ALONE_MS, .sync = EF__SQ_SYNC_FULL};
    ef_status st = EF_OK;

    if (!c->conn.db)
        st = ef__sq_open(&c->conn, c->path, &options, err);
    /* The small commit needs no sync: nobody was told of it, and the next one covers it. */
    options.sync = EF__SQ_SYNC_OFF;
    if (st == EF_OK && !c->pin.db)
        st = ef__sq_open(&c->pin, c->path, &options, err);
    return st;
}

/* The guard's locks belong to the process: nobody of it may write in between. */
static ef_status alone_begin(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st;

    c->writers_stop(c->context);
    st = ef__sq_guard_alone_begin(c->guard, ALONE_MS, err);
    if (st != EF_OK)
        c->writers_go(c->context);
    return st;
}

static void alone_end(ef__sq_checkpointer *c)
{
    ef__sq_guard_alone_end(c->guard);
    c->writers_go(c->context);
}

static ef_status move_log(ef__sq_checkpointer *c, ef_error *err)
{
    int log = 0, moved = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->conn.db, "main", SQLITE_CHECKPOINT_PASSIVE, &log, &moved);

    /* Where a reader is in the way the log stays long: it asks again when it is longer still. */
    log += c->due_pages_min;
    atomic_store(&c->due_log_pages, log > c->whole_pages_min ? log : c->whole_pages_min);
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

/* A commit that makes the log's file longer waits for the file system too. The file is as long as
 * it ever was, so this costs something only while the log gets longer for the first time: write
 * zeros ahead of it, which are no frames. Under SQLite's own lock, for another program may write.
 */
static void lengthen_log(ef__sq_checkpointer *c)
{
    static const char ZEROS[65536];
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    int64_t pages = atomic_load(&c->log_pages);
    int64_t wanted = (pages + 3 * AHEAD_PAGES) * FRAME_BYTES;

    if (pages >= c->whole_pages_min || c->log_bytes >= (pages + AHEAD_PAGES) * FRAME_BYTES ||
        ef__sq_run(&c->pin, BEGIN_WRITE, NULL) != EF_OK)
        return;
    int rc = sqlite3_file_control(c->pin.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xFileSize(file, &bytes);
    else
        rc = SQLITE_ERROR;
    for (; rc == SQLITE_OK && bytes < wanted; bytes += (sqlite3_int64)sizeof ZEROS)
        rc = file->pMethods->xWrite(file, ZEROS, sizeof ZEROS, bytes);
    /* It is only for speed, so a failure is not one, and is not tried again. */
    c->log_bytes = rc == SQLITE_OK ? bytes : INT64_MAX;
    drop_pin(c);
}

/* Has the log frames that are not in the database? As the log's index in shared memory says
 * (www.sqlite.org/walformat.html, "The WAL-Index File Format"); `conn` has read by it. */
static bool has_unmoved(ef__sq_conn *conn)
{
    enum { REGION_BYTES = 32768, MX_FRAME = 16 / 4, N_BACKFILL = 96 / 4 };
    sqlite3_file *file = NULL;
    void volatile *index = NULL;

    if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
        !file || !file->pMethods || file->pMethods->iVersion < 2 ||
        file->pMethods->xShmMap(file, 0, REGION_BYTES, 0, &index) != SQLITE_OK || !index)
        return false;
    const uint32_t volatile *words = index;
    return words[MX_FRAME] > words[N_BACKFILL];
}

/* A transaction reads from its first select on, not from BEGIN. */
static ef_status begin_reading(ef__sq_checkpointer *c, ef_error *err)
{
    int64_t seen;
    ef_status st = ef__sq_run(&c->pin, BEGIN_READ, err);

    return st == EF_OK ? ef__sq_run_number(&c->pin, READ, &seen, err) : st;
}

static void drop_pin(ef__sq_checkpointer *c)
{
    if (!sqlite3_get_autocommit(c->pin.db))
        (void)ef__sq_run(&c->pin, ROLLBACK, NULL);
}

/* Step 1. The small commit is another connection's, and empties the caches of the writer: it is
 * only made when there is nothing else to pin. */
static ef_status set_pin(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st = alone_begin(c, err);

    if (st != EF_OK)
        return st;
    lengthen_log(c);
    st = begin_reading(c, err);
    if (st == EF_OK && !has_unmoved(&c->pin)) {
        drop_pin(c);
        st = ef__sq_run(&c->pin, TICK, err);
        if (st == EF_OK)
            st = begin_reading(c, err);
    }
    alone_end(c);
    return st;
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
    bool whole = atomic_load(&c->log_pages) >= c->whole_pages_min;
    ef_status st = open_connections(c, err);

    if (st != EF_OK)
        return st;
    st = set_pin(c, err);
    if (st == EF_OK)
        st = move_log(c, err);
    if (st == EF_OK)
        st = sync_database(c, err);
    drop_pin(c);
    return st == EF_OK && whole ? move_rest(c, err) : st;
}

static void checkpoint_counted(ef__sq_checkpointer *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (!ef__sq_guard_checkpointer_begin(c->guard))
        return; /* another process is at it */
    st = checkpoint(c, &err);
    ef__sq_guard_checkpointer_end(c->guard);
    if (st == EF_OK || st == EF_BUSY) {
        atomic_fetch_add(&c->done, 1);
        return;
    }
    atomic_fetch_add(&c->failed, 1);
    ef__log(c->log, EF_LOG_ERROR, "checkpoint failed",
            EF_LOG_TEXT_FIELD("error", ef_str_from(err.text)));
}

static void *checkpoint_loop(void *context)
{
    ef__sq_checkpointer *c = context;

    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        if (!c->due) {
            pthread_cond_wait(&c->wake, &c->lock);
            continue;
        }
        c->due = false;
        pthread_mutex_unlock(&c->lock);
        atomic_store(&c->fresh_pages, 0);
        checkpoint_counted(c);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err)
{
    static const char *const NAMES[] = {"the small commit", "begin", "begin immediate", "read",
                                        "rollback"};

    c->sql[TICK] = c->tick_sql;
    c->sql[BEGIN_READ] = "BEGIN";
    c->sql[BEGIN_WRITE] = "BEGIN IMMEDIATE";
    c->sql[READ] = "SELECT count(*) FROM sqlite_schema";
    c->sql[ROLLBACK] = "ROLLBACK";
    c->texts = (ef__sq_texts){c->sql, NAMES, SQL_COUNT};
    atomic_store(&c->due_log_pages, c->whole_pages_min);
    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return ef_fail(err, EF_NO_MEMORY, "no lock for the checkpoints");
    if (pthread_cond_init(&c->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&c->lock);
        return ef_fail(err, EF_NO_MEMORY, "no lock for the checkpoints");
    }
    c->ready = true;
    return EF_OK;
}

/* Count what the commit has put in the log. True when a checkpoint is due. */
static bool count_pages(ef__sq_checkpointer *c, int log_pages)
{
    int before = atomic_exchange(&c->log_pages, log_pages);
    int fresh = log_pages - before;

    if (log_pages < before) { /* the commit started the log anew */
        fresh = log_pages;
        atomic_store(&c->due_log_pages, c->whole_pages_min);
    }
    fresh = fresh > c->rewritten_pages ? fresh - c->rewritten_pages : 0;
    return atomic_fetch_add(&c->fresh_pages, fresh) + fresh >= c->due_pages_min ||
           log_pages >= atomic_load(&c->due_log_pages);
}

void ef__sq_checkpointer_look(ef__sq_checkpointer *c, int log_pages)
{
    if (!count_pages(c, log_pages))
        return;
    pthread_mutex_lock(&c->lock);
    c->due = true;
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
