/*
 * store.c - opening and closing, transactions, and the connections that read.
 */
#include "store.h"

#include "../../sqlite/backup.h"

#include "../../base/deadline.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <stdlib.h>

#define APPLICATION_ID 0x45665631    /* "EfV1" */
#define WRITER_CACHE_KIB (12 * 1024) /* the upper pages; worksets cache views that change often */
#define READER_CACHE_KIB (4 * 1024)  /* every commit empties it */
#define CHECKPOINT_PAGES 4096        /* 16 MB: a page that changes often is copied once */

static const ef__views_ops OPS;
const ef__sq_statements vq_texts = {vq_sql, vq_names, VQ_COUNT};

/* --- the schema ------------------------------------------------------------------------------- */

static ef_status fill_new(vq_store *store, ef_error *err)
{
    ef_status st = vq_run_state_init(&store->conn, ef__views_now_us(&store->base), err);

    return st == EF_OK ? ef__sq_set_number(&store->conn, "application_id", APPLICATION_ID, err)
                       : st;
}

/* All missing migrations in one transaction: a crash leaves the old schema or the new one. The
 * version is read again under the lock: another process may have migrated meanwhile. */
static ef_status run_migrations(vq_store *store, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    int64_t version = 0;
    ef_status st = vq_write_begin(store, false, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_number(conn, "PRAGMA user_version", &version, err);
    for (int64_t i = version; st == EF_OK && i < vq_migration_count; i++)
        st = ef__sq_exec(conn, vq_migrations[i], err);
    if (st == EF_OK && version == 0)
        st = fill_new(store, err);
    if (st == EF_OK)
        st = ef__sq_set_number(conn, "user_version", vq_migration_count, err);
    return vq_write_end(store, st, err);
}

static ef_status schema_ready(vq_store *store, bool create, ef_error *err)
{
    ef__sq_conn *conn = &store->conn;
    int64_t version = 0, application = 0, tables = 0;
    ef_status st = ef__sq_number(conn, "PRAGMA user_version", &version, err);

    if (st == EF_OK)
        st = ef__sq_number(conn, "PRAGMA application_id", &application, err);
    if (st == EF_OK)
        st = ef__sq_number(conn, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (st != EF_OK)
        return st;
    if (application != APPLICATION_ID && (application || version || tables))
        return ef_fail(err, EF_WRONG_STORE, "%s is an SQLite database, but no Everfold view store",
                       store->path);
    if (version > vq_migration_count)
        return ef_fail_numbers(err, EF_NEWER_SCHEMA, vq_migration_count, version,
                               "the view store has schema %" PRId64
                               " and this Everfold knows up to %d: use a newer Everfold",
                               version, vq_migration_count);
    if (version < vq_migration_count && store->base.read_only)
        return ef_fail(err, version == 0 ? EF_NOT_FOUND : EF_MISUSE,
                       "the view store %s has schema %" PRId64
                       " and was opened read-only: open it for writing to migrate it to %d",
                       store->path, version, vq_migration_count);
    if (version == 0 && !create)
        return ef_fail(err, EF_NOT_FOUND, "there is no view store in %s", store->path);
    st = ef__sq_use_wal(conn, store->base.read_only, err);
    return st == EF_OK && version < vq_migration_count ? run_migrations(store, err) : st;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void pause_store_writers(void *store)
{
    pthread_mutex_lock(&((vq_store *)store)->writer);
}

static void resume_store_writers(void *store)
{
    pthread_mutex_unlock(&((vq_store *)store)->writer);
}

static ef_status open_files(vq_store *store, bool create, ef_error *err)
{
    ef__sq_options options = {.statements = &vq_texts,
                              .create = create,
                              .read_only = store->base.read_only,
                              .busy_ms = store->busy_ms,
                              .sync = EF__SQ_SYNC_FULL,
                              .cache_kib = WRITER_CACHE_KIB};
    ef_status st = ef__sq_open(&store->conn, store->path, &options, err);

    /* A missing file is a common mistake, and SQLite reports only that it cannot open it. */
    if (st != EF_OK)
        return st == EF_IO && !create
                   ? ef_fail(err, EF_NOT_FOUND, "there is no view store in %s", store->path)
                   : st;
    ef__sq_count_wal(&store->conn);
    if (!store->base.read_only) {
        st = ef__sq_guard_open(&store->guard, store->path, err);
        if (st != EF_OK)
            return st;
    }
    store->checkpointer =
        (ef__sq_checkpointer){.path = store->path,
                              .tick_sql = "UPDATE state SET checkpoints = checkpoints + 1",
                              .guard = &store->guard,
                              .pause_writers = pause_store_writers,
                              .resume_writers = resume_store_writers,
                              .context = store,
                              .log = store->base.log,
                              .due_pages_min = CHECKPOINT_PAGES,
                              .whole_pages_min = CHECKPOINT_PAGES};
    st = ef__sq_checkpointer_init(&store->checkpointer, err);
    return st == EF_OK ? schema_ready(store, create, err) : st;
}

void vq_close(ef_views *views)
{
    vq_store *store = vq_store_of(views);

    ef__sq_checkpointer_release(&store->checkpointer);
    while (store->idle) {
        vq_reader *next = store->idle->next;
        ef__sq_close(&store->idle->own);
        free(store->idle);
        store->idle = next;
    }
    ef__sq_close(&store->conn);
    ef__sq_guard_close(&store->guard);
    (void)pthread_mutex_destroy(&store->pool);
    (void)pthread_mutex_destroy(&store->writer);
    free(store->path);
    free(store);
}

static ef_status vq_backup(ef_views *views, const ef_backup_options *options, ef_error *err)
{
    vq_store *store = vq_store_of(views);

    return ef__sq_backup_write(&(ef__sq_backup){.source = store->path,
                                                .target = options->path,
                                                .progress = options->progress,
                                                .context = options->context,
                                                .busy_ms = store->busy_ms},
                               err);
}

ef_status ef__views_sqlite_open(const ef__views_options *options, const char *path, ef_views **out,
                                ef_error *err)
{
    vq_store *store = calloc(1, sizeof *store);
    ef_status st;

    if (!store || !(store->path = strdup(path))) {
        free(store);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a view store");
    }
    store->base = (ef_views){
        .ops = &OPS, .clock = options->clock, .log = options->log, .read_only = options->read_only};
    store->busy_ms = options->busy_ms;
    store->lent = (vq_reader){.conn = &store->conn, .store = store};
    store->guard.fd = -1;
    (void)pthread_mutex_init(&store->writer, NULL); /* a default mutex: cannot fail on Linux */
    (void)pthread_mutex_init(&store->pool, NULL);
    st = open_files(store, options->create, err);
    if (st != EF_OK) {
        vq_close(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}

/* --- transactions ----------------------------------------------------------------------------- */

static void release_writer(vq_store *store)
{
    ef__sq_guard_commit_end(&store->guard);
    pthread_mutex_unlock(&store->writer);
}

ef_status vq_write_begin(vq_store *store, bool lazy, ef_error *err)
{
    ef_status st;

    if (store->base.read_only)
        return ef_fail(err, EF_MISUSE, "the view store was opened read-only");
    pthread_mutex_lock(&store->writer);
    st = ef__sq_guard_commit_begin(&store->guard, store->busy_ms, err);
    if (st != EF_OK) {
        pthread_mutex_unlock(&store->writer);
        return st;
    }
    st = ef__sq_set_sync(&store->conn, lazy ? EF__SQ_SYNC_NORMAL : EF__SQ_SYNC_FULL, err);
    if (st == EF_OK)
        st = ef__sq_run(&store->conn, VQ_BEGIN, err);
    if (st != EF_OK)
        release_writer(store);
    return st;
}

ef_status vq_write_end(vq_store *store, ef_status st, ef_error *err)
{
    int pages;

    if (st == EF_OK)
        st = ef__sq_run(&store->conn, VQ_COMMIT, err);
    ef__sq_rollback(&store->conn);
    pages = store->conn.wal_pages;
    store->conn.wal_pages = 0;
    release_writer(store);
    if (pages > 0)
        ef__sq_checkpointer_check(&store->checkpointer, pages);
    return st;
}

/* --- readers ---------------------------------------------------------------------------------- */

static vq_reader *idle_reader(vq_store *store)
{
    vq_reader *reader;

    EF__LOCK(&store->pool);
    reader = store->idle;
    if (reader) {
        store->idle = reader->next;
        store->idle_count--;
    }
    return reader;
}

static vq_reader *open_reader(vq_store *store, ef_status *out, ef_error *err)
{
    ef__sq_options options = {.statements = &vq_texts,
                              .read_only = store->base.read_only,
                              .busy_ms = store->busy_ms,
                              .sync = EF__SQ_SYNC_NORMAL,
                              .cache_kib = READER_CACHE_KIB};
    vq_reader *reader = calloc(1, sizeof *reader);

    *out = reader ? ef__sq_open(&reader->own, store->path, &options, err)
                  : ef_fail(err, EF_NO_MEMORY, "memory ran out for a reader");
    if (*out != EF_OK) {
        free(reader);
        return NULL;
    }
    reader->conn = &reader->own;
    reader->store = store;
    return reader;
}

vq_reader *vq_read_begin(ef_views *views, bool short_read, ef_status *out, ef_error *err)
{
    vq_store *store = vq_store_of(views);
    vq_reader *idle;

    *out = EF_OK;
    if (views->ops == &vq_snapshot_ops)
        return &((vq_snapshot *)views)->shared;
    if (short_read && pthread_mutex_trylock(&store->writer) == 0)
        return &store->lent;
    idle = idle_reader(store);
    return idle ? idle : open_reader(store, out, err);
}

void vq_read_end(vq_reader **reader)
{
    vq_reader *ended = *reader;
    vq_store *store = ended ? ended->store : NULL;

    *reader = NULL;
    if (!store)
        return;
    if (ended == &store->lent) {
        pthread_mutex_unlock(&store->writer);
        return;
    }
    pthread_mutex_lock(&store->pool);
    if (store->idle_count < VQ_READERS_KEPT) {
        ended->next = store->idle;
        store->idle = ended;
        store->idle_count++;
        ended = NULL;
    }
    pthread_mutex_unlock(&store->pool);
    if (ended) {
        ef__sq_close(&ended->own);
        free(ended);
    }
}

static const ef__views_ops OPS = {.name = "sqlite",
                                  .backup = vq_backup,
                                  .view_get_many = vq_view_get_many,
                                  .watermark_get_many = vq_watermark_get_many,
                                  .snapshot_open = vq_snapshot_open,
                                  .reader_open = vq_reader_open,
                                  EF__VIEWS_EVERY(EF__VIEWS_SET, vq)};
