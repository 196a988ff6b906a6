/*
 * backup.c - copies of the journal for a backup.
 *
 * A copy is prepared when it is made, not when it is restored: it has no leases and workers of the
 * original, and its state row records that it is a copy. Its head file is derived from its own last
 * event, because that of the original changes.
 */
#include "ops.h"
#include "outbox.h"
#include "store.h"

#include "../../base/limits.h"
#include "../../sqlite/backup.h"

#include <string.h>
#include <unistd.h>

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

ef_status sq_backup(ef_journal *journal, const ef__journal_backup *backup, ef_head *out,
                    ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    const char *const changes[] = {sq_sql[SQ_COPY_STATE], sq_sql[SQ_COPY_DROP_LEASES],
                                   sq_sql[SQ_COPY_DROP_WORKERS], sq_sql[SQ_COPY_RELEASE_BATCHES],
                                   NULL};
    sq_head_record head = {0};
    ef_status st = ef__sq_backup_write(&(ef__sq_backup){.source = store->path,
                                                        .target = backup->path,
                                                        .changes = changes,
                                                        .progress = backup->progress,
                                                        .context = backup->context,
                                                        .busy_ms = journal->options.busy_ms},
                                       err);

    if (st == EF_OK)
        st = read_head(backup->path, journal->options.busy_ms, &head, err);
    if (st != EF_OK)
        return st;
    head.verified = verified_upto(store, head.position);
    *out = (ef_head){.position = head.position};
    memcpy(out->hash, head.hash, sizeof out->hash);
    return write_head(backup->path, &head, err);
}

/* --- copies ------------------------------------------------------------------------------
 */

ef_status sq_copied_get(ef_journal *journal, int64_t *out_us, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    sq_reader *reader;
    ef_status st = sq_read_begin(store, &reader, err);

    if (st != EF_OK)
        return st;
    st = sq_one_state_copied(&reader->conn, out_us, NULL, err);
    sq_read_end(store, reader);
    return st;
}

static ef_status run_adopt(sq_store *store, sq_job *job, ef_error *err)
{
    (void)job;
    return ef__sq_run(&store->writer.conn, SQ_STATE_ADOPT, err);
}

ef_status sq_adopt(ef_journal *journal, ef_error *err)
{
    sq_job job = {.run = run_adopt};

    return sq_submit(sq_store_of(journal), &job, err);
}
