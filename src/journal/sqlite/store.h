/*
 * store.h - a journal on SQLite: the files, the connections, the locks.
 *
 * One writer connection per process, used by the leader of a group (group.c); a few reader
 * connections, each used by one thread at a time (read.c); a thread that checkpoints
 * (sqlite/checkpoint.h).
 *
 * Locks, in the order of acquisition:
 *     writing      the leader of a group, or an exclusive step of a checkpoint (batcher.h)
 *     state_lock   the cached state (state.h); never held while a commit waits for the disk
 *     readers_lock, the locks of the batcher and the checkpointer: innermost, held for a few
 * instructions
 */
#pragma once

#include "head.h"
#include "state.h"

#include "../../base/batcher.h"
#include "../../sqlite/checkpoint.h"
#include "../journal.h"
#include "../refusal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef struct sq_store sq_store;
typedef struct sq_job sq_job;

/* A write, in the open transaction of the writer, whose connection is `conn`. */
typedef ef_status sq_call(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err);

/*
 * A write that shares its commit with others. When `call` fails, its changes are undone and the
 * other jobs continue. When the commit fails, every job of the group fails.
 */
struct sq_job {
    ef__batch_job queued; /* first; its weight is the number of events */
    sq_call *call;
    const void *asked;
    void *out;
    bool plans_first; /* `call` fails only before its first write: it needs no savepoint */
    bool lazy_sync;   /* needs no sync of its own: only a power cut can lose it */
    bool keeps_state; /* changes nothing that the cached state holds, except by planned events */
    ef_error *err;
    ef_status status; /* set by group.c */
};

typedef struct sq_reader {
    ef__sq_conn conn;
    sq_store *store;
    int64_t last, settled;  /* of the cached state when the transaction began */
    unsigned data_version;  /* when it read the cached state; 0: it has not */
    struct gather *follows; /* the batch of event_follow, while it runs (read.c) */
    struct sq_reader *next;
} sq_reader;

/* An event of the open transaction. */
typedef struct sq_planned {
    const ef__arrival *arrival;
    sq_stream *stream;
    int64_t seq, id_hash;
    int32_t next; /* in the bucket of id_hash; -1 ends */
} sq_planned;

/* A queued row that the open transaction has not written yet. */
typedef struct sq_queued {
    int64_t id; /* lane << 48 | position */
    int32_t partition;
} sq_queued;

typedef struct sq_watch sq_watch;

/* Unused watches on the head file, kept open. */
typedef struct sq_watches {
    pthread_mutex_t lock;
    sq_watch *idle;
    int count;
} sq_watches;

/* The changes that the open transaction makes to the cached state after its commit. */
typedef struct sq_txn {
    int64_t base; /* last position before it */
    sq_planned *planned;
    size_t count, cap;
    size_t written; /* of planned: their rows are in the database */
    int32_t *buckets;
    size_t bucket_count; /* a power of two */
    sq_queued *queued;
    size_t queued_count, queued_cap;
    uint8_t hash[EF_HASH_BYTES]; /* of the last event */
    int64_t recorded_us;
    int64_t stream_last;
    sq_progress progress;
    bool types_changed;
    ef__pair_map types_new; /* tenant and name: new types of its appends */
    ef__pair_map
        types_created; /* tenant and "": how many these are, with those of refused appends */
} sq_txn;

/* A writer: connection, cached state, open transaction. Shared by sq_store and ef_sqlite. */
typedef struct sq_writer {
    ef__sq_conn conn;
    sq_state *state;
    sq_txn txn;
    ef__buf scratch;
    const ef_journal_options *options;
    ef__sq_guard guard;    /* separates commits from checkpoints */
    sq_headfile head;      /* position and hash of the last event, outside of the database */
    unsigned data_version; /* of the cached state: changes with every commit, also an own one */
    int64_t settle_credit, merge_credit; /* entries that are due */
    sq_merge merge;
} sq_writer;

struct sq_store {
    ef_journal base; /* first: an ef_journal * is cast to sq_store * */
    char *path;
    pid_t pid;
    char journal_id[40];
    bool broken; /* the result of a commit is unknown: reopen before the next write */

    sq_writer writer;
    int64_t
        passed[EF_LIMIT_PARTITIONS]; /* set by the acknowledging thread: see sq_is_acked_register */
    pthread_mutex_t writing;
    ef__batcher batcher;

    sq_state state;
    pthread_mutex_t state_lock;

    sq_reader *readers; /* idle readers */
    pthread_mutex_t readers_lock;
    int reader_count;
    sq_watches watches;

    ef__sq_checkpointer checkpointer;
    _Atomic int64_t commits, appended, stale_refused;
    _Atomic int64_t clock_floor_us; /* the wall time never goes back within a handle */
};

static inline sq_store *sq_store_of(ef_journal *journal)
{
    return (sq_store *)journal;
}

/* Options of every connection of the journal: a commit is on disk when it returns. */
ef__sq_options sq_options(bool read_only, int64_t busy_ms);
/* Wall time by the journal's clock; never goes back within a handle. */
int64_t sq_now_us(sq_store *store);

/* After a commit with an unknown result: opens the writer again, compares it with the head file. */
ef_status sq_store_reopen(sq_store *store, ef_error *err);

/* Runs a job with others in one commit; returns when it is durable or has failed. */
ef_status sq_submit(sq_store *store, sq_job *job, ef_error *err);
/* The same with a job that has no options. */
ef_status sq_write(ef_journal *journal, sq_call *call, const void *asked, void *out, ef_error *err);
void sq_groups_init(sq_store *store);

/* A reader connection in a read transaction. The cached state has every event that the transaction
 * sees, and soon more: lookups that must match the transaction need lock_state (read.c). End it
 * soon: it keeps the WAL from restarting. SQ_READER ends it with the scope of the variable. */
#define SQ_READER __attribute__((cleanup(sq_read_end)))
ef_status sq_read_begin(ef_journal *journal, sq_reader **out, ef_error *err); /* NULL on failure */
void sq_read_end(sq_reader **reader);

/* --- writing (writer.c) -----------------------------------------------------------------------
 *
 * begin, then any number of appends and other writes, then finish, commit and publish; or rollback.
 * The caller holds the state lock around each of these calls, but not around the commit, which
 * waits for the disk.
 */

void sq_writer_init(sq_writer *writer, sq_state *state, const ef_journal_options *options);
void sq_writer_release(sq_writer *writer); /* does not close conn, guard and head */

/* Acquires the lock file, begins a transaction, and updates the cached state. */
ef_status sq_writer_begin(sq_writer *writer, ef_error *err);

/* Plans events for the open transaction: all, or none, and the transaction continues. After a
 * failure of the store (EF_FULL, EF_IO …) it must be rolled back. `events` and their memory must
 * stay until they are flushed. */
ef_status sq_writer_append(sq_writer *writer, const ef__arrival *events, size_t count,
                           int64_t now_us, ef_place *out, ef_error *err);

/* Writes the planned events, and queues their outbox rows. Must be called before events are read in
 * the same transaction. */
ef_status sq_writer_flush(sq_writer *writer, ef_error *err);

/* Before COMMIT: writes the planned events that were not written yet. */
ef_status sq_writer_finish(sq_writer *writer, ef_error *err);
/* COMMIT, without the state lock. EF_UNSURE: the result is unknown. */
ef_status sq_writer_commit(sq_writer *writer, ef_error *err);
/* After a successful COMMIT: writes the head file, before any caller gets a result … */
void sq_writer_note_head(sq_writer *writer, const ef_log *log);
/* … and adds the planned events to the cached state. `keeps_state`: the transaction has changed
 * nothing else that the state holds, so the next one need not read it again. */
ef_status sq_writer_publish(sq_writer *writer, bool keeps_state, ef_error *err);
/* After a failed COMMIT, or instead of one. */
void sq_writer_rollback(sq_writer *writer);

/* Settling (settle.c): does a slice of the work that is due, in proportion to `events` new events.
 * Called before the first event of the transaction is planned. */
ef_status sq_settle_slice(sq_writer *writer, size_t events, ef_error *err);

/* --- interfaces ------------------------------------------------------------------------------- */

extern const ef__events_ops sq_events_ops;
extern const ef__outbox_ops sq_outbox_ops;
extern const ef__lease_ops sq_lease_ops;
extern const ef__record_ops sq_record_ops;

/* group.c */
ef_status sq_append(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                    ef_error *err);
void sq_append_each(ef_journal *journal, const ef__append *appends, size_t count);
/* read.c */
ef_status sq_head_get(ef_journal *journal, ef_head *out, ef_error *err);
/* wait.c */
ef_status sq_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                  ef_error *err);
void sq_watches_release(sq_watches *watches); /* after the last wait has ended */
/* verify.c */
ef_status sq_verify(ef_journal *journal, int64_t from,
                    bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                    ef_verify_result *out, ef_error *err);

/* --- shared by the store and the application's own transactions (open.c) ---------------------- */

/* Records damage that was found outside the journal interface (store.c); `err` describes it. Best
 * effort: where there is no head file, or none that may be written, nothing is recorded. */
void sq_damage_record(sq_headfile *head, const char *path, const ef_journal_options *options,
                      bool at_open, const ef_error *err);
/* The last acknowledged position, by the head file beside the database; 0 when there is none. */
int64_t sq_acknowledged(const char *database_path);
/* Creates or migrates the schema. EF_WRONG_STORE, EF_NEWER_SCHEMA. */
ef_status sq_schema_open(ef__sq_conn *conn, const ef_journal_options *options, bool *out_made,
                         ef_error *err);
/* Reads the state, compares it with the head file, and verifies the events after the last verified
 * position. No transaction may be open. */
ef_status sq_compare_head(sq_writer *writer, const ef_journal_options *options, ef_error *err);

#define SQ_VERIFY_AT_OPEN 50000 /* events: a fraction of a second; the rest at the next open */

/* At open: verifies the chain from `from` on. *out_verified: the last verified position. */
ef_status sq_verify_tail(sq_writer *writer, int64_t from, int64_t *out_verified, ef_error *err);
