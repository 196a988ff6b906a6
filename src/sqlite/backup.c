/*
 * backup.c - see backup.h.
 */
#include "backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STEP_PAGES 512 /* 2 MB: stops soon when requested, and holds no lock between steps */
#define BUSY_PAUSE_NS 2000000

static ef_status create_target(const char *path, ef_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return ef_fail(err,
                       errno == EEXIST   ? EF_EXISTS
                       : errno == ENOSPC ? EF_FULL
                                         : EF_IO,
                       "%s: %s", path, strerror(errno));
    (void)close(fd);
    return EF_OK;
}

void ef__sq_backup_remove_logs(const char *path)
{
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
    char name[4096 + 16];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < (int)sizeof name)
            (void)unlink(name);
}

static ef_status fail_target(sqlite3 *db, int rc, const char *path, ef_error *err)
{
    if ((rc & 0xff) == SQLITE_FULL)
        return ef_fail(err, EF_FULL, "the disk is full: %s could not be written", path);
    return ef_fail(err, EF_IO, "%s: %s (SQLite %d)", path,
                   db ? sqlite3_errmsg(db) : sqlite3_errstr(rc), rc);
}

static ef_status copy_pages(sqlite3_backup *pages, const ef__sq_backup *b, sqlite3 *to,
                            ef_error *err)
{
    for (;;) {
        int rc = sqlite3_backup_step(pages, STEP_PAGES);
        int64_t total = (int64_t)sqlite3_backup_pagecount(pages) * 4096;
        int64_t done = total - (int64_t)sqlite3_backup_remaining(pages) * 4096;
        if (rc != SQLITE_OK && rc != SQLITE_DONE && (rc & 0xff) != SQLITE_BUSY &&
            (rc & 0xff) != SQLITE_LOCKED)
            return fail_target(to, rc, b->target, err);
        if (b->progress && !b->progress(b->context, done, total))
            return ef_fail(err, EF_TIMEOUT, "the copy to %s was stopped", b->target);
        if (rc == SQLITE_DONE)
            return EF_OK;
        if (rc != SQLITE_OK)
            (void)nanosleep(&(struct timespec){.tv_nsec = BUSY_PAUSE_NS}, NULL);
    }
}

/* No other process uses the target before it is complete: it needs no journal and no syncs. */
static ef_status copy_file(const ef__sq_backup *b, ef__sq_conn *from, ef_error *err)
{
    sqlite3 *to = NULL;
    sqlite3_backup *pages = NULL;
    int rc = sqlite3_open_v2(b->target, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL);
    ef_status st;

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", NULL, NULL, NULL);
    if (rc == SQLITE_OK) {
        pages = sqlite3_backup_init(to, "main", from->db, "main");
        rc = pages ? SQLITE_OK : sqlite3_errcode(to);
    }
    st = rc == SQLITE_OK ? copy_pages(pages, b, to, err) : fail_target(to, rc, b->target, err);
    (void)sqlite3_backup_finish(pages);
    (void)sqlite3_close(to);
    return st;
}

static ef_status copy_snapshot(const ef__sq_backup *b, ef_error *err)
{
    ef__sq_conn from = {0};
    int64_t ignored;
    ef_status st = ef__sq_open(&from, b->source,
                               &(ef__sq_options){.read_only = true, .busy_ms = b->busy_ms}, err);

    if (st == EF_OK)
        st = ef__sq_exec(&from, "BEGIN", err);
    if (st == EF_OK) /* the first read fixes the snapshot of the transaction */
        st = ef__sq_number(&from, "SELECT count(*) FROM sqlite_schema", &ignored, err);
    if (st == EF_OK)
        st = copy_file(b, &from, err);
    ef__sq_close(&from);
    return st;
}

/* The last connection to close copies the WAL into the file and removes it. */
static ef_status change_copy(const ef__sq_backup *b, ef_error *err)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(b->target, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL);
    ef_status st = EF_OK;

    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    for (size_t i = 0; rc == SQLITE_OK && b->changes && b->changes[i]; i++)
        rc = sqlite3_exec(db, b->changes[i], NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        st = fail_target(db, rc, b->target, err);
    (void)sqlite3_close(db);
    return st;
}

static ef_status sync_file(const char *path, ef_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fsync(fd);
    int failed = errno;

    if (fd >= 0)
        (void)close(fd);
    return rc == 0 ? EF_OK : ef_fail(err, EF_IO, "%s: %s", path, strerror(failed));
}

ef_status ef__sq_backup_write(const ef__sq_backup *backup, ef_error *err)
{
    ef_status st = create_target(backup->target, err);

    if (st != EF_OK)
        return st;
    st = copy_snapshot(backup, err);
    if (st == EF_OK)
        st = change_copy(backup, err);
    if (st == EF_OK)
        st = sync_file(backup->target, err);
    if (st != EF_OK) {
        (void)unlink(backup->target);
        ef__sq_backup_remove_logs(backup->target);
    }
    return st;
}
