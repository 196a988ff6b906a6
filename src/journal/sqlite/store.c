/*
 * store.c - a journal on SQLite as a whole: opening and closing, facts, the record of damage,
 * copies.
 */
#include "store.h"

#include "outbox.h"

#include "../../base/file.h"
#include "../../base/limits.h"
#include "../../base/logger.h"
#include "../../base/utf8.h"
#include "../../sqlite/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define WAL_RESET_FIXED 3051003 /* the first SQLite without the WAL-reset race */
#define BUSY_MS_DEFAULT 10000
#define CACHE_KIB 8192
/* Pages of the WAL that start a checkpoint; a concurrent commit waits for its sync. Two pages are
 * not counted, because every commit writes the last pages of the events and of the queue again. */
#define WAL_STEP_PAGES 128
#define WAL_REWRITTEN_PAGES 2
#define WAL_WHOLE_PAGES 4096 /* 16 MB of WAL start a complete checkpoint, so that it is rare */

static const ef__sq_statements TEXTS = {sq_sql, sq_names, SQ_COUNT};

ef__sq_options sq_options(bool read_only, int64_t busy_ms)
{
    return (ef__sq_options){.statements = &TEXTS,
                            .read_only = read_only,
                            .busy_ms = busy_ms,
                            .sync = EF__SQ_SYNC_FULL,
                            .cache_kib = CACHE_KIB};
}

int64_t sq_now_us(sq_store *store)
{
    const ef_clock *clock = store->base.options.clock;
    int64_t now_us = clock->wall_us(clock->context);
    int64_t floor_us = atomic_load(&store->clock_floor_us);

    while (now_us > floor_us)
        if (atomic_compare_exchange_weak(&store->clock_floor_us, &floor_us, now_us))
            return now_us;
    return floor_us;
}

/* --- open ------------------------------------------------------------------------------------- */

/* Creates the file with mode 0600, because SQLite would use the umask of the process. */
static ef_status create_file(const char *path, const ef_journal_options *options, ef_error *err)
{
    struct stat st;
    int64_t last;
    int fd;

    if (lstat(path, &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return ef_fail(err, EF_WRONG_STORE, "%s is not a regular file", path);
        return EF_OK;
    }
    if (errno != ENOENT)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    last = options->accept_head ? 0 : sq_acknowledged(path);
    if (last > 0)
        return ef_fail_numbers(err, EF_DAMAGED, last, 0,
                               "the journal file %s is missing, although its head file says that "
                               "%" PRId64
                               " events were acknowledged: put it back, restore a backup, "
                               "or remove %s-head to start with an empty journal",
                               path, last, path);
    if (!options->create || options->read_only)
        return ef_fail(err, EF_NOT_FOUND, "there is no journal at %s", path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ef_fail(err, EF_IO, "%s: %s", path, strerror(errno));
    /* Closing a descriptor of a database releases the locks of the process on it, but no thread can
     * have any: the file did not exist. */
    (void)close(fd);
    ef__owner_inherit(path);
    return EF_OK;
}

/* The path with its folder resolved: SQLite refuses a symbolic link anywhere in a path, but only
 * the file itself must not be one. malloc'ed; NULL when the folder does not exist. */
static char *resolve_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char folder[PATH_MAX], real[PATH_MAX];
    char *out = NULL;

    if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                 slash ? path : ".") >= (int)sizeof folder ||
        !realpath(folder, real) || asprintf(&out, "%s/%s", real, name) < 0)
        return NULL;
    return out;
}

static ef_status open_writer(sq_store *store, ef_error *err)
{
    const ef_journal_options *options = &store->base.options;
    ef__sq_conn *conn = &store->writer.conn;
    ef__sq_options how = sq_options(options->read_only, options->busy_ms);
    ef_status st = ef__sq_open(conn, store->path, &how, err);

    if (st == EF_OK)
        st = sq_is_acked_register(store, err);
    if (st == EF_OK)
        st = sq_lease_live_register(conn, err);
    if (st == EF_OK && !options->read_only)
        ef__sq_count_wal(conn);
    return st;
}

/* Reads the identity and the state of the journal, and compares it with the head file. */
static ef_status read_state(sq_store *store, ef_error *err)
{
    ef__sq_rows rows = sq_each_state_identity(&store->writer.conn, NULL, err);
    ef_str id;
    ef_status st;

    if (sq_next_state_identity(&rows, &id))
        (void)snprintf(store->journal_id, sizeof store->journal_id, "%.*s", EF_STR_ARG(id));
    else if (rows.status == EF_OK)
        rows.status = ef_fail(err, EF_DAMAGED, "the journal's state row is missing");
    st = ef__sq_rows_end(&rows);
    return st == EF_OK ? sq_compare_head(&store->writer, &store->base.options, err) : st;
}

/* The head file is made before the first event can be: one that is missing later is damage. */
static ef_status open_head(sq_store *store, bool made, ef_error *err)
{
    const ef_journal_options *options = &store->base.options;
    sq_headfile *head = &store->writer.head;
    bool create = made || (options->accept_head && !options->read_only);
    ef_status st = sq_headfile_open(head, store->path, create, options->read_only, err);
    sq_head_record record;

    if (st == EF_NOT_FOUND)
        return EF_OK; /* read_state handles a missing one */
    if (st == EF_OK && made && sq_headfile_read(head, &record, NULL) != EF_OK &&
        !sq_headfile_raise(head, &(sq_head_record){0}))
        st = ef_fail(err, EF_IO, "the head file could not be written: %s", strerror(errno));
    return st;
}

static void pause_store_writers(void *store)
{
    ef__batcher_exclusive_begin(&((sq_store *)store)->batcher);
}

static void resume_store_writers(void *store)
{
    ef__batcher_exclusive_end(&((sq_store *)store)->batcher);
}

static ef_status init_checkpointer(sq_store *store, ef_error *err)
{
    store->checkpointer = (ef__sq_checkpointer){.path = store->path,
                                                .tick_sql = sq_sql[SQ_STATE_CHECKPOINT],
                                                .guard = &store->writer.guard,
                                                .pause_writers = pause_store_writers,
                                                .resume_writers = resume_store_writers,
                                                .context = store,
                                                .log = store->base.options.log,
                                                .due_pages_min = WAL_STEP_PAGES,
                                                .rewritten_pages = WAL_REWRITTEN_PAGES,
                                                .whole_pages_min = WAL_WHOLE_PAGES};
    return ef__sq_checkpointer_init(&store->checkpointer, err);
}

static ef_status open_files(sq_store *store, ef_error *err)
{
    const ef_journal_options *options = &store->base.options;
    bool made = false;
    ef_status st = create_file(store->path, options, err);

    if (st == EF_OK)
        st = init_checkpointer(store, err);
    if (st == EF_OK)
        st = open_writer(store, err);
    if (st == EF_OK)
        st = sq_schema_open(&store->writer.conn, options, &made, err);
    /* Only now, so that no lock file is created beside a foreign file. No process checkpoints a
     * journal that is being created, so its creation needs no lock. */
    if (st == EF_OK && !options->read_only)
        st = ef__sq_guard_open(&store->writer.guard, store->path, err);
    if (st == EF_OK)
        st = open_head(store, made, err);
    if (st == EF_OK)
        st = read_state(store, err);
    return st;
}

ef_status sq_store_reopen(sq_store *store, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&store->state_lock);
    ef__sq_close(&store->writer.conn);
    sq_state_release(&store->state);
    st = open_writer(store, err);
    if (st == EF_OK)
        st = read_state(store, err);
    store->broken = st != EF_OK;
    pthread_mutex_unlock(&store->state_lock);
    return st;
}

static void init_locks(sq_store *store)
{
    sq_groups_init(store);
    pthread_mutex_init(&store->state_lock, NULL);
    pthread_mutex_init(&store->readers_lock, NULL);
    pthread_mutex_init(&store->watches.lock, NULL);
}

static void close_store(ef_journal *journal)
{
    sq_store *store = sq_store_of(journal);

    ef__sq_checkpointer_release(&store->checkpointer);
    while (store->readers) {
        sq_reader *next = store->readers->next;
        ef__sq_close(&store->readers->conn);
        free(store->readers);
        store->readers = next;
    }
    ef__sq_close(&store->writer.conn);
    sq_writer_release(&store->writer);
    ef__sq_guard_close(&store->writer.guard);
    sq_headfile_close(&store->writer.head);
    sq_state_release(&store->state);
    ef__batcher_release(&store->batcher);
    pthread_mutex_destroy(&store->state_lock);
    pthread_mutex_destroy(&store->readers_lock);
    sq_watches_release(&store->watches);
    free(store->path);
    free(store);
}

/* --- facts ------------------------------------------------------------------------------------ */

static int64_t file_bytes(const char *path, const char *suffix)
{
    char name[4096];
    struct stat st;
    int n = snprintf(name, sizeof name, "%s%s", path, suffix);

    return n > 0 && (size_t)n < sizeof name && stat(name, &st) == 0 ? (int64_t)st.st_size : 0;
}

static ef_status read_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    struct statvfs disk;
    int32_t partitions;
    ef_status st = sq_lease_ops.partition_count(journal, &partitions, err);

    if (st != EF_OK)
        return st;
    *out = (ef_store_facts){.backend = "sqlite",
                            .schema = sq_migration_count,
                            .partitions = partitions,
                            .store_bytes = file_bytes(store->path, ""),
                            .wal_bytes = file_bytes(store->path, "-wal"),
                            .free_bytes = -1,
                            .commits = atomic_load(&store->commits),
                            .appended = atomic_load(&store->appended),
                            .checkpoints = atomic_load(&store->checkpointer.done),
                            .checkpoint_errors = atomic_load(&store->checkpointer.failed),
                            .stale_refused = atomic_load(&store->stale_refused)};
    if (statvfs(store->path, &disk) == 0)
        out->free_bytes = (int64_t)(disk.f_bavail * disk.f_frsize);
    (void)snprintf(out->version, sizeof out->version, "%s", sqlite3_libversion());
    (void)snprintf(out->journal_id, sizeof out->journal_id, "%s", store->journal_id);
    (void)snprintf(out->durability, sizeof out->durability,
                   "acks survive: process crash yes, power loss yes; SQLite %s FULL; WAL-reset "
                   "race: %s",
                   sqlite3_libversion(),
                   sqlite3_libversion_number() >= WAL_RESET_FIXED ? "fixed in this SQLite"
                                                                  : "guarded by our lock file");
    pthread_mutex_lock(&store->state_lock);
    out->streams = store->state.stream_last;
    pthread_mutex_unlock(&store->state_lock);
    return EF_OK;
}

/* --- the record of damage (head.h) ------------------------------------------------------------ */

static ef_status damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_writer *w = &store->writer;
    ef_status st = EF_OK;

    if (!damage)
        return sq_headfile_set_damage(&w->head, store->path, &(sq_damage){0}, err);
    /* If the file was moved or replaced, this process still reads the old one: its damage must not
     * be recorded in the head file of the new one. */
    if (w->guard.fd >= 0)
        st = ef__sq_guard_check(&w->guard, err);
    return st == EF_OK
               ? sq_headfile_set_damage(&w->head, store->path, &(sq_damage){.damage = *damage}, err)
               : st;
}

static ef_status damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    sq_damage found;

    (void)err;
    sq_headfile_damage(&sq_store_of(journal)->writer.head, &found);
    *out = found.damage;
    return EF_OK;
}

void sq_damage_record(sq_headfile *head, const char *path, const ef_journal_options *options,
                      bool at_open, const ef_error *err)
{
    sq_damage damage = {.damage = {.found_us = options->clock->wall_us(options->clock->context)},
                        .at_open = at_open};
    ef_str text = ef__utf8_cut(
        ef_str_from(err && err->text[0] ? err->text : ef_status_describe(EF_DAMAGED)->message),
        sizeof damage.damage.text - 1);

    if (options->archive ||
        (head->fd < 0 && sq_headfile_open(head, path, false, true, NULL) != EF_OK))
        return;
    memcpy(damage.damage.text, text.ptr, text.len);
    (void)sq_headfile_set_damage(head, path, &damage, NULL);
}

/* --- copies -----------------------------------------------------------------------------------
 *
 * A copy is prepared when it is made, not when it is restored: it has no leases and workers of the
 * original, and its state row records that it is a copy. Its head file is derived from its own last
 * event, because that of the original changes.
 */

static ef_status read_head(const char *path, int64_t busy_ms, sq_head_record *out, ef_error *err)
{
    ef__sq_conn conn = {0};
    ef__sq_options how = sq_options(true, busy_ms);
    struct sq_event_last_row last;
    ef__sq_rows rows;
    ef_status st = ef__sq_open(&conn, path, &how, err);

    if (st == EF_OK) {
        rows = sq_each_event_last(&conn, NULL, err);
        if (sq_next_event_last(&rows, &last)) {
            out->position = last.position;
            if (last.hash.len == EF_HASH_BYTES)
                memcpy(out->hash, last.hash.ptr, EF_HASH_BYTES);
        }
        st = ef__sq_rows_end(&rows);
    }
    ef__sq_close(&conn);
    ef__sq_backup_remove_logs(path);
    return st;
}

/* Positions that the original has verified are valid in the copy too. */
static int64_t verified_upto(sq_store *store, int64_t position)
{
    sq_head_record now = {0};

    if (sq_headfile_read(&store->writer.head, &now, NULL) != EF_OK)
        return 0;
    return now.verified < position ? now.verified : position;
}

static ef_status write_head(const char *path, const sq_head_record *record, ef_error *err)
{
    sq_headfile file;
    ef_status st = sq_headfile_open(&file, path, true, false, err);

    if (st == EF_OK && (!sq_headfile_write(&file, record) || !sq_headfile_write(&file, record) ||
                        fsync(file.fd) != 0))
        st = ef_fail(err, EF_IO, "the head file of %s could not be written", path);
    sq_headfile_close(&file);
    return st;
}

static ef_status back_up(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                         ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    const char *const changes[] = {sq_sql[SQ_COPY_STATE], sq_sql[SQ_COPY_DROP_LEASES],
                                   sq_sql[SQ_COPY_DROP_WORKERS], sq_sql[SQ_COPY_RELEASE_BATCHES],
                                   NULL};
    sq_head_record head = {0};
    ef_status st = ef__sq_backup_write(&(ef__sq_backup){.source = store->path,
                                                        .target = options->path,
                                                        .changes = changes,
                                                        .progress = options->progress,
                                                        .context = options->context,
                                                        .busy_ms = journal->options.busy_ms},
                                       err);

    if (st == EF_OK)
        st = read_head(options->path, journal->options.busy_ms, &head, err);
    if (st != EF_OK)
        return st;
    head.verified = verified_upto(store, head.position);
    *out = (ef_head){.position = head.position};
    memcpy(out->hash, head.hash, sizeof out->hash);
    return write_head(options->path, &head, err);
}

static ef_status copied_get(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_one_state_copied(&reader->conn, out_us, NULL, err) : st;
}

static ef_status end_copy(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err)
{
    (void)store, (void)asked, (void)out;
    return ef__sq_run(conn, SQ_STATE_ADOPT, err);
}

static ef_status adopt_copy(ef_journal *journal, ef_error *err)
{
    return sq_write(journal, end_copy, NULL, NULL, err);
}

static const ef__store_ops store_ops = {
    .name = "sqlite",
    .close = close_store,
    .facts = read_facts,
    .damage_set = damage_set,
    .damage_get = damage_get,
    .backup = back_up,
    .copied_get = copied_get,
    .adopt = adopt_copy,
};

ef_status ef__journal_sqlite_open(const ef_journal_options *options, const char *path,
                                  ef_journal **out, ef_error *err)
{
    sq_store *store = calloc(1, sizeof *store);
    ef_status st;

    *out = NULL;
    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while opening %s", path);
    store->base = (ef_journal){.store = &store_ops,
                               .events = &sq_events_ops,
                               .control = &store->base,
                               .outbox = &sq_outbox_ops,
                               .leases = &sq_lease_ops,
                               .records = &sq_record_ops,
                               .caps = EF__JOURNAL_REFUSES_DAMAGED,
                               .options = *options};
    if (!store->base.options.clock)
        store->base.options.clock = ef_clock_system();
    if (!store->base.options.busy_ms)
        store->base.options.busy_ms = BUSY_MS_DEFAULT;
    store->pid = getpid();
    store->path = resolve_folder(path);
    sq_state_init(&store->state);
    sq_writer_init(&store->writer, &store->state, &store->base.options);
    init_locks(store);
    st = store->path
             ? open_files(store, err)
             : ef_fail(err, EF_NOT_FOUND, "there is no folder for %s: %s", path, strerror(errno));
    if (st == EF_DAMAGED)
        sq_damage_record(&store->writer.head, store->path, &store->base.options, true, err);
    if (st != EF_OK) {
        close_store(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}
