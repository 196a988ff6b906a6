/*
 * store.h - a journal on SQLite: the files, the connections, the locks.
 *
 * One writer connection a process, used by whoever leads a group (group.c); a few reader
 * connections, each used by one thread at a time (read.c); a thread that checkpoints
 * (sqlite/checkpoint.h).
 *
 * Locks, in the order in which they are taken:
 *     writing      who leads a group, or checkpoints' short exclusive moments (group.c)
 *     state_lock   the in-memory picture (state.h); never held while a commit waits for the disk
 *     queue_lock, readers_lock, the checkpointer's: leaves, held for a few instructions
 */
#ifndef EF_JOURNAL_SQLITE_STORE_H
#define EF_JOURNAL_SQLITE_STORE_H

#include "head.h"
#include "ids.h"
#include "sq.h"
#include "state.h"

#include "../../sqlite/checkpoint.h"
#include "../journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

typedef struct sq_store sq_store;
typedef struct sq_job sq_job;

/*
 * A piece of writing that shares its commit with others. `run` is called in the open transaction
 * with the writer connection; when it fails, what it wrote is undone and the others go on. When
 * the commit fails, every job of the group does.
 *     struct my_job { sq_job base; … };   // base first
 *     status = sq_submit(store, &job.base, err);
 */
struct sq_job {
    ef_status (*run)(sq_store *store, sq_job *job, ef_error *err);
    bool plans_first; /* run fails only before it writes: no savepoint is needed */
    bool may_be_lost; /* in a power cut, and only then: it is not worth a sync of its own */
    size_t weight;    /* events, for the bound on a group */
    ef_error *err;
    sq_job *sibling; /* the next of the same caller (sq_submit_all) */
    /* group.c's own: */
    ef_status status;
    sq_job *next;
    _Atomic int phase;
};

typedef struct sq_reader {
    ef__sq_conn conn;
    int64_t last, settled;  /* of the picture when the transaction began */
    struct gather *follows; /* who takes what event_follow finds, while it runs (read.c) */
    struct sq_reader *next;
} sq_reader;

/* An event of the open transaction. */
typedef struct sq_planned {
    const ef__arrival *arrival;
    sq_stream *stream;
    int64_t seq, id_hash;
    int32_t next; /* in the bucket of id_hash; -1 ends */
} sq_planned;

/* A row of the queue that the open transaction has yet to write. */
typedef struct sq_queued {
    int64_t id; /* lane << 48 | position */
    int32_t partition;
} sq_queued;

typedef struct sq_watch sq_watch;

/* Watches on the head file that nobody waits with. */
typedef struct sq_watches {
    pthread_mutex_t lock;
    sq_watch *idle;
    int count;
} sq_watches;

/* What the open transaction has added to the picture; nothing of it is believed before commit. */
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
    ef__pair_map types_new;     /* a tenant and a name: types that its appends would create */
    ef__pair_map types_created; /* a tenant and "": how many these are, refused appends and all */
} sq_txn;

/* Writing: a connection, the picture, the open transaction. Shared by sq_store and ef_sqlite. */
typedef struct sq_writer {
    ef__sq_conn conn;
    sq_state *state;
    sq_txn txn;
    ef__buf scratch;
    const ef_journal_options *options;
    ef__sq_guard guard;    /* keeps commits and checkpoints apart */
    sq_headfile head;      /* position and hash, kept apart from the database */
    unsigned data_version; /* of the picture: changes when another connection commits */
    int64_t settle_credit, merge_credit; /* entries that are due */
    sq_merge merge;
} sq_writer;

struct sq_store {
    ef_journal base; /* first, so that an ef_journal * is this */
    char *path;
    pid_t pid;
    char journal_id[40];
    bool broken; /* a commit's outcome is not known: reopen before writing again */

    sq_writer writer;
    int64_t passed[EF_LIMIT_PARTITIONS]; /* by whoever marks: see sq_passed_ready */
    pthread_mutex_t writing;
    pthread_mutex_t queue_lock;
    pthread_cond_t turn; /* a group has ended */
    sq_job *queue_head, *queue_tail;
    bool led;             /* somebody leads */
    int exclusive_wanted; /* checkpoints that wait for a moment without a group */

    sq_state state;
    pthread_mutex_t state_lock;

    sq_reader *readers; /* idle ones */
    pthread_mutex_t readers_lock;
    int reader_count;
    sq_watches watches;

    ef__sq_checkpointer checkpointer;
    bool unsynced; /* how the writer commits at the moment; the leader's */
    int log_pages; /* in the log after our last commit; the leader's */
    _Atomic int64_t commits, appended, stale_refused;
    _Atomic int64_t clock_floor_us; /* wall time never goes back within a handle */
};

static inline sq_store *sq_store_of(ef_journal *journal)
{
    return (sq_store *)journal;
}

/* Wall time by the journal's clock; never goes back within a handle. */
int64_t sq_now_us(sq_store *store);

/* After a commit whose outcome is not known: open the writer anew and compare with the head. */
ef_status sq_store_reopen(sq_store *store, ef_error *err);

/* Run a job with others in one commit; returns when it is durable or has failed. */
ef_status sq_submit(sq_store *store, sq_job *job, ef_error *err);
/* The same with several, linked by `sibling`, in this order: each has its own status and err. */
void sq_submit_all(sq_store *store, sq_job *first);
/* A moment in which nobody of this process writes. */
void sq_exclusive_begin(sq_store *store);
void sq_exclusive_end(sq_store *store);

/* A reader connection in a read transaction. The picture (state) knows every event that it sees,
 * and soon more: what has to fit the transaction is looked up under sq_read_lock. Give it back
 * soon: it holds up the log. */
ef_status sq_read_begin(sq_store *store, sq_reader **out, ef_error *err);
void sq_read_end(sq_store *store, sq_reader *reader);
/* Take the state lock, with the transaction begun anew where the picture has gone on since: now
 * both are of one moment. No statement of the reader may be under way. On failure it is not held.
 */
ef_status sq_read_lock(sq_store *store, sq_reader *reader, ef_error *err);

/* --- shared by the store and the application's own transactions (open.c) ------------------------
 */

/* The last position that was acknowledged, by the head file beside the database; 0 when there is
 * none. */
int64_t sq_acknowledged(const char *database_path);
/* Make or migrate the schema. EF_WRONG_STORE, EF_NEWER_SCHEMA. */
ef_status sq_schema_ready(ef__sq_conn *conn, const ef_journal_options *options, bool *out_made,
                          ef_error *err);
/* Read the picture and compare it with the head file, and verify what came after the last verified
 * position. No transaction may be open. */
ef_status sq_compare_head(sq_writer *writer, const ef_journal_options *options, ef_error *err);

#endif
