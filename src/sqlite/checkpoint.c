/*
 * checkpoint.c - see checkpoint.h.
 */
#include "checkpoint.h"

#include "../base/deadline.h"
#include "../base/file.h"
#include "../base/logger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXCLUSIVE_WAIT_MS                                                                          \
    1000 /* wait for the exclusive lock; the next commit requests a checkpoint again */

#define COMPARE_PATH_MS 100 /* a directory that was moved is noticed after this time */
#define PASS_GATE_MS 8      /* two ticks of the coarse clock, at 250 per second */

#define FRAME_BYTES (4096 + 24)
#define WAL_AHEAD_PAGES 256 /* that the WAL file is longer than the WAL */

enum { TICK, BEGIN_READ, BEGIN_WRITE, SQL_COUNT };

/* --- the lock file ---------------------------------------------------------------------------- */

enum { BYTE_COMMIT, BYTE_GATE, BYTE_CHECKPOINTER };

/* Cheap, and exact enough for intervals of milliseconds. */
static int64_t coarse_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static bool is_unchanged(const ef__sq_file *file, const struct stat *now, int64_t changed_ns)
{
    return now->st_nlink > 0 && changed_ns == atomic_load(&file->changed_ns) &&
           coarse_ms() - atomic_load(&file->compared_ms) < COMPARE_PATH_MS;
}

/* Compares a path with the file that was opened. A file that did not exist at that time is opened
 * when it is first seen. Several threads may check a file at once; all but one may compare in vain. */
static ef_status check_file(ef__sq_file *file, ef_error *err)
{
    struct stat opened, found;
    int fd = atomic_load(&file->fd);

    if (fd < 0) {
        int none = -1;
        fd = open(file->path, O_PATH | O_CLOEXEC);
        if (fd >= 0 && !atomic_compare_exchange_strong(&file->fd, &none, fd)) {
            (void)close(fd);
            fd = none;
        }
    }
    if (fd >= 0 && fstat(fd, &opened) == 0) {
        int64_t changed_ns = opened.st_ctim.tv_sec * INT64_C(1000000000) + opened.st_ctim.tv_nsec;
        if (is_unchanged(file, &opened, changed_ns))
            return EF_OK;
        if (stat(file->path, &found) == 0 && found.st_dev == opened.st_dev &&
            found.st_ino == opened.st_ino) {
            atomic_store(&file->changed_ns, changed_ns);
            atomic_store(&file->compared_ms, coarse_ms());
            return EF_OK;
        }
    }
    return ef_fail(err, EF_DAMAGED,
                   "%s was %s while this process has it open: nothing more is written; put the "
                   "file back and start the process again",
                   file->path, stat(file->path, &found) == 0 ? "replaced" : "moved or removed");
}

static ef_status record_files(ef__sq_guard *guard, const char *database, const char *lock,
                              ef_error *err)
{
    guard->database = (ef__sq_file){.path = strdup(database), .fd = -1};
    guard->lock = (ef__sq_file){.path = strdup(lock), .fd = -1};
    if (!guard->database.path || !guard->lock.path)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while opening the store");
    guard->database.fd = open(database, O_PATH | O_CLOEXEC);
    return check_file(&guard->lock, err);
}

ef_status ef__sq_guard_open(ef__sq_guard *guard, const char *database_path, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-lock", database_path);

    *guard = (ef__sq_guard){.fd = -1};
    if (n < 0 || (size_t)n >= sizeof path)
        return ef_fail(err, EF_BAD_INPUT, "the path of the store is too long");
    guard->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (guard->fd < 0)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    ef__owner_inherit(path);
    return record_files(guard, database_path, path, err);
}

void ef__sq_guard_close(ef__sq_guard *guard)
{
    const int fds[] = {guard->fd, guard->lock.fd, guard->database.fd};

    for (size_t i = 0; guard->fd >= 0 && i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
    free(guard->lock.path);
    free(guard->database.path);
    *guard = (ef__sq_guard){.fd = -1};
}

/* A writer that passed the gate just now does not ask again: three system calls fewer for a writer
 * that commits all the time, and a process at the gate waits that much longer. */
static bool may_pass_by(ef__sq_guard *guard, short kind)
{
    return kind == F_RDLCK && coarse_ms() - atomic_load(&guard->gate_ms) < PASS_GATE_MS &&
           ef__lock_set(guard->fd, F_RDLCK, BYTE_COMMIT);
}

static ef_status acquire_lock(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    if (may_pass_by(guard, kind))
        return EF_OK;
    if (!ef__lock_wait(guard->fd, kind, BYTE_GATE, wait_ms))
        return ef_fail(err, EF_BUSY, "a checkpoint has held the store for %lld ms",
                       (long long)wait_ms);
    if (!ef__lock_wait(guard->fd, kind, BYTE_COMMIT, wait_ms)) {
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
        return ef_fail(err, EF_BUSY, "another process has held the store for %lld ms",
                       (long long)wait_ms);
    }
    if (kind == F_RDLCK) {
        (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
        atomic_store(&guard->gate_ms, coarse_ms());
    }
    return EF_OK;
}

void ef__sq_guard_commit_end(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
}

static void release_locks(ef__sq_guard *guard)
{
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_COMMIT);
    (void)ef__lock_set(guard->fd, F_UNLCK, BYTE_GATE);
}

ef_status ef__sq_guard_check(ef__sq_guard *guard, ef_error *err)
{
    ef_status st = check_file(&guard->lock, err);

    return st == EF_OK ? check_file(&guard->database, err) : st;
}

static ef_status acquire_checked(ef__sq_guard *guard, short kind, int64_t wait_ms, ef_error *err)
{
    ef_status st = acquire_lock(guard, kind, wait_ms, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_guard_check(guard, err);
    if (st != EF_OK)
        release_locks(guard); /* releases the locks of either mode */
    return st;
}

ef_status ef__sq_guard_commit_begin(ef__sq_guard *guard, int64_t wait_ms, ef_error *err)
{
    return acquire_checked(guard, F_RDLCK, wait_ms, err);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static ef_status open_connections(ef__sq_checkpointer *c, ef_error *err)
{
    ef__sq_options options = {
        .statements = &c->statements, .busy_ms = EXCLUSIVE_WAIT_MS, .sync = EF__SQ_SYNC_FULL};
    ef_status st = EF_OK;

    if (!c->conn.db)
        st = ef__sq_open(&c->conn, c->path, &options, err);
    /* The small commit needs no sync: no client depends on it, and the next sync covers it. */
    options.sync = EF__SQ_SYNC_OFF;
    if (st == EF_OK && !c->pin.db)
        st = ef__sq_open(&c->pin, c->path, &options, err);
    return st;
}

/* The lock file excludes other processes only, so the threads of this one are paused first. */
static ef_status exclusive_begin(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st;

    c->pause_writers(c->context);
    st = acquire_checked(c->guard, F_WRLCK, EXCLUSIVE_WAIT_MS, err);
    if (st != EF_OK)
        c->resume_writers(c->context);
    return st;
}

static void exclusive_end(ef__sq_checkpointer *c)
{
    release_locks(c->guard);
    c->resume_writers(c->context);
}

static ef_status copy_wal(ef__sq_checkpointer *c, ef_error *err)
{
    int frames = 0, copied = 0;
    int rc =
        sqlite3_wal_checkpoint_v2(c->conn.db, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &copied);

    /* A reader can keep the WAL long: the next checkpoint is due when it has grown further. */
    frames += c->due_pages_min;
    atomic_store(&c->due_wal_pages, frames > c->whole_pages_min ? frames : c->whole_pages_min);
    return rc == SQLITE_BUSY ? EF_OK
                             : ef__sq_fail(&c->conn, rc, "copying the WAL into the database", err);
}

/* SQLite syncs the database only at the end of a checkpoint that copied all frames. Syncing now
 * leaves little to sync in step 3, while commits are excluded. */
static ef_status sync_database(ef__sq_checkpointer *c, ef_error *err)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(c->conn.db, "main", SQLITE_FCNTL_FILE_POINTER, &file);

    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
    return rc == SQLITE_OK ? EF_OK : ef_fail(err, EF_IO, "syncing the database: SQLite %d", rc);
}

/* A commit that extends the WAL file also waits for the metadata of the file system. The file never
 * shrinks, so this matters only until the WAL has reached its usual length: write zeros after its
 * end, which SQLite does not take for frames. This needs the write lock of SQLite, because another
 * program may write. */
static void extend_wal(ef__sq_checkpointer *c)
{
    static const char ZEROS[65536];
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    int64_t pages = atomic_load(&c->wal_pages);
    int64_t wanted = (pages + 3 * WAL_AHEAD_PAGES) * FRAME_BYTES;

    if (pages >= c->whole_pages_min || c->wal_bytes >= (pages + WAL_AHEAD_PAGES) * FRAME_BYTES ||
        ef__sq_run(&c->pin, BEGIN_WRITE, NULL) != EF_OK)
        return;
    int rc = sqlite3_file_control(c->pin.db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xFileSize(file, &bytes);
    else
        rc = SQLITE_ERROR;
    for (; rc == SQLITE_OK && bytes < wanted; bytes += (sqlite3_int64)sizeof ZEROS)
        rc = file->pMethods->xWrite(file, ZEROS, sizeof ZEROS, bytes);
    /* Only an optimisation: a failure is ignored, and not retried. */
    c->wal_bytes = rc == SQLITE_OK ? bytes : INT64_MAX;
    ef__sq_rollback(&c->pin);
}

/* Whether the WAL has frames that are not in the database, by the wal-index in shared memory
 * (www.sqlite.org/walformat.html, "The WAL-Index File Format"). `conn` has an open read
 * transaction. */
static bool has_uncopied_frames(ef__sq_conn *conn)
{
    enum { MX_FRAME = 16 / 4, N_BACKFILL = 96 / 4 };
    const volatile uint32_t *words = ef__sq_wal_map(conn);

    return words && words[MX_FRAME] > words[N_BACKFILL];
}

/* The snapshot of a transaction is taken by its first SELECT, not by BEGIN. */
static ef_status begin_pin_read(ef__sq_checkpointer *c, ef_error *err)
{
    int64_t seen;
    ef_status st = ef__sq_run(&c->pin, BEGIN_READ, err);

    return st == EF_OK ? ef__sq_number(&c->pin, "SELECT count(*) FROM sqlite_schema", &seen, err)
                       : st;
}

/* Step 1. The small commit is that of another connection, which invalidates the page cache of the
 * writer: it is made only when the WAL has no frame to pin. */
static ef_status pin_wal(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st = exclusive_begin(c, err);

    if (st != EF_OK)
        return st;
    extend_wal(c);
    st = begin_pin_read(c, err);
    if (st == EF_OK && !has_uncopied_frames(&c->pin)) {
        ef__sq_rollback(&c->pin);
        st = ef__sq_run(&c->pin, TICK, err);
        if (st == EF_OK)
            st = begin_pin_read(c, err);
    }
    exclusive_end(c);
    return st;
}

static ef_status copy_rest(ef__sq_checkpointer *c, ef_error *err)
{
    ef_status st = exclusive_begin(c, err);

    if (st != EF_OK)
        return st;
    st = copy_wal(c, err);
    exclusive_end(c);
    return st;
}

static ef_status run_checkpoint(ef__sq_checkpointer *c, ef_error *err)
{
    bool whole = atomic_load(&c->wal_pages) >= c->whole_pages_min;
    ef_status st = open_connections(c, err);

    if (st != EF_OK)
        return st;
    st = pin_wal(c, err);
    if (st == EF_OK)
        st = copy_wal(c, err);
    if (st == EF_OK)
        st = sync_database(c, err);
    ef__sq_rollback(&c->pin);
    return st == EF_OK && whole ? copy_rest(c, err) : st;
}

static void checkpoint_once(ef__sq_checkpointer *c)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (!ef__lock_set(c->guard->fd, F_WRLCK, BYTE_CHECKPOINTER))
        return; /* another process checkpoints */
    st = run_checkpoint(c, &err);
    (void)ef__lock_set(c->guard->fd, F_UNLCK, BYTE_CHECKPOINTER);
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
        checkpoint_once(c);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

ef_status ef__sq_checkpointer_init(ef__sq_checkpointer *c, ef_error *err)
{
    static const char *const NAMES[] = {"the small commit", "begin", "begin immediate"};

    c->sql[TICK] = c->tick_sql;
    c->sql[BEGIN_READ] = "BEGIN";
    c->sql[BEGIN_WRITE] = "BEGIN IMMEDIATE";
    c->statements = (ef__sq_statements){c->sql, NAMES, SQL_COUNT};
    atomic_store(&c->due_wal_pages, c->whole_pages_min);
    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for the lock of the checkpointer");
    if (pthread_cond_init(&c->wake, NULL) != 0) {
        (void)pthread_mutex_destroy(&c->lock);
        return ef_fail(err, EF_NO_MEMORY, "out of memory for the lock of the checkpointer");
    }
    c->ready = true;
    return EF_OK;
}

/* Counts the pages of the commit. Returns whether a checkpoint is due. */
static bool count_pages(ef__sq_checkpointer *c, int wal_pages)
{
    int before = atomic_exchange(&c->wal_pages, wal_pages);
    int fresh = wal_pages - before;

    if (wal_pages < before) { /* the commit restarted the WAL */
        fresh = wal_pages;
        atomic_store(&c->due_wal_pages, c->whole_pages_min);
    }
    fresh = fresh > c->rewritten_pages ? fresh - c->rewritten_pages : 0;
    return atomic_fetch_add(&c->fresh_pages, fresh) + fresh >= c->due_pages_min ||
           wal_pages >= atomic_load(&c->due_wal_pages);
}

void ef__sq_checkpointer_check(ef__sq_checkpointer *c, int wal_pages)
{
    if (!count_pages(c, wal_pages))
        return;
    EF__LOCK(&c->lock);
    c->due = true;
    if (!c->started && !c->stop)
        c->started = pthread_create(&c->thread, NULL, checkpoint_loop, c) == 0;
    pthread_cond_signal(&c->wake);
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
