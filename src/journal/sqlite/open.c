/*
 * open.c - the checks of every open: whether the file is a journal, its schema version, and whether
 * it agrees with the head file.
 */
#include "store.h"

#include "../../base/hash.h"
#include "../../base/limits.h"
#include "../../base/logger.h"

#include <inttypes.h>

#define APPLICATION_ID 0x45664a31 /* "EfJ1" */
#define PARTITIONS_DEFAULT 16
#define WAY_OUT                                                                                    \
    "; nothing is read from it: restore a backup, or verify the journal and accept its head"

static ef_status init_store(ef__sq_conn *conn, const ef_journal_options *options, ef_error *err)
{
    char id[EF_EVENT_ID_TEXT_MAX];
    int64_t now_us = options->clock->wall_us(options->clock->context);
    ef_status st;

    if (!ef__uuid7(now_us, id))
        return ef_fail(err, EF_IO,
                       "cannot create the journal id: no random numbers from the system");
    st = sq_run_state_init(conn,
                           &(struct sq_state_init){.journal_id = ef_str_from(id),
                                                   .created = now_us,
                                                   .partitions = options->partitions
                                                                     ? options->partitions
                                                                     : PARTITIONS_DEFAULT},
                           err);
    if (st == EF_OK)
        st = ef__sq_run(conn, SQ_LANE_INIT, err);
    return st == EF_OK ? ef__sq_set_number(conn, "application_id", APPLICATION_ID, err) : st;
}

/* All missing migrations, and the first rows of a new store, in one transaction: a crash leaves the
 * old schema or the new one. */
static ef_status run_migrations(ef__sq_conn *conn, int64_t version,
                                const ef_journal_options *options, ef_error *err)
{
    ef_status st = EF_OK;

    for (int64_t i = version; st == EF_OK && i < sq_migration_count; i++)
        st = ef__sq_fail(conn, sqlite3_exec(conn->db, sq_migrations[i], NULL, NULL, NULL),
                         "migrating the schema", err);
    if (st == EF_OK && version == 0)
        st = init_store(conn, options, err);
    return st == EF_OK ? ef__sq_set_number(conn, "user_version", sq_migration_count, err) : st;
}

/* Reads the version again under the write lock: another process may have migrated. */
static ef_status migrate_locked(ef__sq_conn *conn, const ef_journal_options *options,
                                bool *out_made, ef_error *err)
{
    int64_t version = 0;
    ef_status st = ef__sq_run(conn, SQ_BEGIN, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_number(conn, "PRAGMA user_version", &version, err);
    if (st == EF_OK && version < sq_migration_count)
        st = run_migrations(conn, version, options, err);
    if (st == EF_OK)
        st = ef__sq_run(conn, SQ_COMMIT, err);
    if (st != EF_OK)
        ef__sq_rollback(conn);
    *out_made = st == EF_OK && version == 0;
    return st;
}

int64_t sq_acknowledged(const char *path)
{
    sq_headfile file;
    sq_head_record head = {0};

    if (sq_headfile_open(&file, path, false, true, NULL) == EF_OK) {
        (void)sq_headfile_read(&file, &head, NULL);
        sq_headfile_close(&file);
    }
    return head.position;
}

struct identity {
    int64_t version, application, tables;
};

/* Reads a consistent snapshot: another process may be creating the journal. */
static ef_status read_identity(ef__sq_conn *conn, struct identity *out, ef_error *err)
{
    ef_status st = ef__sq_run(conn, SQ_BEGIN_READ, err);

    if (st == EF_OK)
        st = ef__sq_number(conn, "SELECT count(*) FROM sqlite_schema", &out->tables, err);
    if (st == EF_OK)
        st = ef__sq_number(conn, "PRAGMA user_version", &out->version, err);
    if (st == EF_OK)
        st = ef__sq_number(conn, "PRAGMA application_id", &out->application, err);
    ef__sq_rollback(conn);
    return st;
}

ef_status sq_schema_open(ef__sq_conn *conn, const ef_journal_options *options, bool *out_made,
                         ef_error *err)
{
    /* The head file first: it is never ahead of a database that is read after it. */
    int64_t last = sq_acknowledged(sqlite3_db_filename(conn->db, "main"));
    struct identity is = {0};
    ef_status st = read_identity(conn, &is, err);
    int64_t version = is.version;

    *out_made = false;
    if (st != EF_OK)
        return st;
    if (is.application != APPLICATION_ID && (is.application || version || is.tables))
        return ef_fail(err, EF_WRONG_STORE, "%s is an SQLite database, but no Everfold journal",
                       sqlite3_db_filename(conn->db, "main"));
    if (version > sq_migration_count)
        return ef_fail_numbers(err, EF_NEWER_SCHEMA, sq_migration_count, version,
                               "the journal has schema %" PRId64
                               " and this Everfold knows up to %d: "
                               "use a newer Everfold",
                               version, sq_migration_count);
    /* Without its WAL a young journal looks new, and creating it again would hide the loss. */
    if (version == 0 && last > 0 && !options->accept_head)
        return ef_fail_numbers(err, EF_DAMAGED, last, 0,
                               "the journal is empty, but %" PRId64
                               " was acknowledged: positions 1 to %" PRId64 " are missing" WAY_OUT,
                               last, last);
    if (version < sq_migration_count && options->read_only)
        return ef_fail(err, EF_MISUSE, "the journal's schema is older and it was opened read-only");
    if (version == 0 && !options->create)
        return ef_fail(err, EF_NOT_FOUND, "there is no journal in %s",
                       sqlite3_db_filename(conn->db, "main"));
    st = ef__sq_use_wal(conn, options->read_only, err);
    if (st != EF_OK || version == sq_migration_count)
        return st;
    return migrate_locked(conn, options, out_made, err);
}

/* --- the head --------------------------------------------------------------------------------- */

static ef_status hash_at(ef__sq_conn *conn, int64_t position, uint8_t out[EF_HASH_BYTES],
                         bool *out_found, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_hash(conn, position, NULL, err);
    ef_str hash;

    *out_found = sq_next_event_hash(&rows, &hash) && hash.len == EF_HASH_BYTES;
    if (*out_found)
        memcpy(out, hash.ptr, EF_HASH_BYTES);
    return ef__sq_rows_end(&rows);
}

static ef_status compare_event(sq_writer *w, const sq_head_record *head, int64_t last,
                               ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];
    bool found;
    ef_status st;

    if (head->position == 0)
        return EF_OK;
    if (last < head->position)
        return ef_fail_numbers(err, EF_DAMAGED, head->position, last,
                               "the journal ends at position %" PRId64 ", but %" PRId64
                               " was acknowledged: positions %" PRId64 " to %" PRId64
                               " are missing" WAY_OUT,
                               last, head->position, last + 1, head->position);
    st = hash_at(&w->conn, head->position, hash, &found, err);
    if (st != EF_OK)
        return st;
    if (!found || memcmp(hash, head->hash, sizeof hash) != 0)
        return ef_fail_numbers(err, EF_DAMAGED, head->position, last,
                               "the event at position %" PRId64
                               " is not the one that was acknowledged: history was changed at or "
                               "before it" WAY_OUT,
                               head->position);
    return EF_OK;
}

/* A crash may have come between the schema and the head file, or before its first record. Without
 * an event none can be missing: create the head file now, because the first event needs it. */
static ef_status create_head(sq_writer *w, ef_error *err)
{
    ef_status st = EF_OK;

    if (w->head.fd < 0)
        st = sq_headfile_open(&w->head, sqlite3_db_filename(w->conn.db, "main"), true, false, err);
    if (st == EF_OK && !sq_headfile_raise(&w->head, &(sq_head_record){0}))
        st = ef_fail(err, EF_IO, "the head file could not be written");
    return st;
}

/* `st` is the status of reading `head`. */
static ef_status compare_state(sq_writer *w, const ef_journal_options *options, ef_status st,
                               sq_head_record head, ef_error *err)
{
    int64_t last = w->state->last, verified;

    if (st != EF_OK && last > 0 && !options->accept_head)
        return ef_fail(err, EF_DAMAGED,
                       "the journal holds %" PRId64
                       " events, but its head file is missing or damaged, so that missing events "
                       "could not be noticed" WAY_OUT,
                       last);
    if (st != EF_OK && last == 0 && !options->read_only) {
        head = (sq_head_record){0};
        st = create_head(w, err);
        if (st != EF_OK)
            return st;
    }
    if (st == EF_OK && !options->accept_head) {
        st = compare_event(w, &head, last, err);
        if (st != EF_OK)
            return st;
    } else {
        head = (sq_head_record){0};
    }
    st = sq_verify_tail(w, head.verified, &verified, err);
    if (st != EF_OK && !options->accept_head)
        return st;
    if (options->accept_head) /* damaged events are still reported when they are read */
        verified = last;
    if (options->read_only || (head.position == last && head.verified == verified && st == EF_OK &&
                               !options->accept_head))
        return EF_OK;
    head = (sq_head_record){.position = last, .verified = verified};
    memcpy(head.hash, w->state->last_hash, sizeof head.hash);
    /* Accepting writes both records: the higher one is used, and the old one may be higher. */
    bool written = options->accept_head
                       ? sq_headfile_write(&w->head, &head) && sq_headfile_write(&w->head, &head)
                       : sq_headfile_raise(&w->head, &head);
    if (!written)
        ef__log(options->log, EF_LOG_WARN, "the head file could not be written",
                EF_LOG_NUMBER_FIELD("position", last));
    return EF_OK;
}

/* Reads the head file, then begins a transaction and updates the cached state. In this order,
 * because the head file is never ahead of the database, but a commit of another process in between
 * would make it ahead of our snapshot. *out_seen is the status of reading the head file. */
static ef_status read_head_and_state(sq_writer *w, const ef_journal_options *options,
                                     ef_status *out_seen, sq_head_record *out_head, ef_error *err)
{
    const char *path = sqlite3_db_filename(w->conn.db, "main");
    ef_status st;

    if (w->head.fd < 0)
        (void)sq_headfile_open(&w->head, path, false, options->read_only, NULL);
    *out_seen = w->head.fd >= 0 ? sq_headfile_read(&w->head, out_head, err) : EF_NOT_FOUND;
    if (*out_seen == EF_IO) /* of the disk, and no damage */
        return EF_IO;
    st = ef__sq_run(&w->conn, SQ_BEGIN_READ, err);
    return st == EF_OK ? sq_state_sync(w->state, &w->conn, err) : st;
}

/* An open before this one found that journal and head file did not fit. They do now. */
static void forget_mismatch(const sq_writer *w, const ef_journal_options *options)
{
    sq_damage damage;

    sq_headfile_damage(&w->head, &damage);
    if (damage.at_open && !options->archive)
        (void)sq_headfile_set_damage(&w->head, sqlite3_db_filename(w->conn.db, "main"),
                                     &(sq_damage){0}, NULL);
}

ef_status sq_compare_head(sq_writer *w, const ef_journal_options *options, ef_error *err)
{
    sq_head_record head = {0};
    ef_status seen, st = read_head_and_state(w, options, &seen, &head, err);

    /* A process may have created the head file and appended between the two reads. */
    if (st == EF_OK && seen != EF_OK && w->state->last > 0) {
        ef__sq_rollback(&w->conn);
        st = read_head_and_state(w, options, &seen, &head, err);
    }
    if (st == EF_OK)
        st = compare_state(w, options, seen, head, err);
    if (st == EF_OK)
        forget_mismatch(w, options);
    ef__sq_rollback(&w->conn);
    return st;
}
