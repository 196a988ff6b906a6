/*
 * journal.h - the interface of the journal back ends.
 *
 * The public API (front*.c) checks every argument, fills in defaults and generates ids, so a back
 * end can rely on it: names and JSON are valid, limits are kept, `limit` is 1 … EF_LIMIT_LIST_ROWS,
 * lists are empty and have their memory, `out` pointers are not NULL.
 *
 * The contract suite (tests/contract) defines what every back end must do. "One transaction" below
 * means: all of it or nothing, whichever process crashes at whatever time.
 */
#ifndef EF_JOURNAL_JOURNAL_H
#define EF_JOURNAL_JOURNAL_H

#include "../base/buf.h"
#include "../base/limits.h"
#include "../base/memory.h"

#include <everfold/everfold.h>

#include <stdatomic.h>

/* A checked event: every field of `event` is filled in. */
typedef struct ef__arrival {
    ef_new_event event;
    bool id_made;    /* the id was generated: it cannot exist in the journal */
    bool time_given; /* the caller set the time: it is part of the content */
    /* An event of another journal, with the type of its append: it keeps its position, seq,
     * recording time and hash, or the append is refused. NULL: an ordinary append. */
    const ef_event *sealed;
} ef__arrival;

/* A checked append: `of` has its count, places, err and status. */
typedef struct ef__append {
    const ef__arrival *events;
    ef_append *of;
} ef__append;

/* The request of a sequential reader. */
typedef struct ef__follow {
    ef_str reader; /* identifies it to stores that keep per-reader state; "": none */
    int64_t after;
    size_t limit;
    /* Once it is true the caller waits for the result, and the read may return as soon as it has
     * `least` events. NULL: read up to `limit`. A store may ignore it. */
    const atomic_bool *wanted;
    size_t least;
} ef__follow;

#define EF__MINUTE_US INT64_C(60000000)

/* A worker's heartbeat, written in the transaction of its lease calls. */
typedef struct ef__heartbeat {
    const ef_worker *worker; /* NULL: no heartbeat */
    int64_t heartbeat_ms;
    const ef_throughput *minutes; /* added to the throughput rows; `at_us` is a whole minute */
    size_t minute_count;
} ef__heartbeat;

/* Selects types: all, one by name, or those that are not folded. */
typedef struct ef__type_query {
    ef_str name;     /* "": any */
    bool not_folded; /* only those with an intent other than projection_and_replay */
} ef__type_query;

typedef struct ef__journal_ops ef__journal_ops;

enum { EF__JOURNAL_SHOWN_MAX = 256 }; /* bytes of a URL in messages, which have 512 */

/* Damage of a journal, as it is recorded in the store. */
typedef struct ef__damage {
    int64_t found_us;          /* 0: none */
    char text[EF_DAMAGE_TEXT]; /* what was found; ends with NUL */
} ef__damage;

/* The struct of every back end begins with this one. */
struct ef_journal {
    const ef__journal_ops *ops;
    ef_journal_options options; /* with clock, log and busy_ms; without url */
    /* Connection epoch, incremented on reconnect: readers must revalidate their position, because
     * the store may have lost events. */
    _Atomic int64_t epoch;
    char shown[EF__JOURNAL_SHOWN_MAX]; /* the URL without a password, for messages */
    struct {
        _Atomic int state; /* see damage.c */
        ef__damage found;
        atomic_bool logged;
    } damage; /* the first damage that a call found and that is not recorded in the store */
};

enum { EF__JOURNAL_DATABASE_MAX = 64 }; /* bytes: a cluster id and a database id */

enum ef__journal_caps {
    /* Positions have gaps, the seq of an event is its position, and there is no queue: projections
     * read it by their cursors. An unreadable message has an empty type, and the reason as data. */
    EF__JOURNAL_SPARSE = 1,
    /* Readers acknowledge what they have read (`followed`), and the store may forget it then: the
     * reader must have synced its result before. */
    EF__JOURNAL_ACKNOWLEDGED = 2,
    EF__JOURNAL_REMOTE = 4, /* a read waits for another process */
    /* `append` reads the record of damage in its transaction, so that callers need not. */
    EF__JOURNAL_REFUSES_DAMAGED = 8
};

/* outbox_ls of a back end also lists published rows: newest first, down from `upto`. */
static inline bool ef__query_published(const ef_outbox_query *query)
{
    return query->status && *query->status == EF_ROW_PUBLISHED;
}

/* A claim of rows of a lane. */
typedef struct ef__claim_request {
    ef_str lane;
    bool due; /* claim retry rows that are due, instead of queued rows */
    const ef_partition_lease *held;
    size_t held_count;
    int64_t after; /* publishers' lanes only: rows up to here stay in flight */
    size_t limit;
} ef__claim_request;

/*
 * A stream with retry rows in a lane: its first row, and the number of rows. Lanes are counted by
 * stream, because the rows of one stream may be many and have one cause.
 */
typedef struct ef__retry_stream {
    ef_str tenant, stream;
    int64_t seq, position; /* of the first row */
    ef_row_status status;  /* of the first row: PENDING, FAILED or DEAD */
    ef_str error;          /* of the first row */
    int64_t last_seq;      /* of the last row */
    int64_t rows;          /* above `above_seq` of the query; 0 unless `counts` */
} ef__retry_stream;

/* Selects runs: one by its id, or the newest. */
typedef struct ef__run_query {
    ef_str id;            /* "": any */
    const ef_str *tenant; /* of one tenant (ef_run_is_of); NULL: all */
    bool open_only;
    size_t limit;
} ef__run_query;

typedef struct ef__retry_query {
    ef_str lane;
    bool any_tenant;
    ef_str tenant;
    ef_str stream;     /* one stream of `tenant`; "": all */
    int64_t above_seq; /* `rows` counts rows with a higher seq */
    bool counts;       /* set `rows`, which reads every row of the streams */
    int64_t after;     /* streams whose first row is above this position */
    size_t limit;
} ef__retry_query;

typedef struct ef__retry_stream_list {
    const ef__retry_stream *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__retry_stream_list;

/* An acknowledgement of a batch. */
typedef struct ef__ack_request {
    ef_str lane;
    /* None: file retry rows that do not exist, keep those that do; remove those that are DONE,
     * unless they were filed again. */
    const ef_partition_lease *held;
    size_t held_count;
    const ef_retry_row *retry_rows;
    size_t retry_row_count;
    ef_str progress; /* publishers' lanes only; "" keeps the stored one */
} ef__ack_request;

/* An operator's action on retry rows. */
typedef enum ef__revision {
    EF__REVISION_REQUEUE, /* dead rows only: pending, no attempts, due now, no error */
    EF__REVISION_SKIP,    /* pending and due: the lane skips it next */
    EF__REVISION_REPLAY   /* due now; a dead row is pending again and keeps its attempts */
} ef__revision;

typedef struct ef__revised_row {
    ef_str lane;
    int64_t position;
    const int32_t *versions; /* skip, in a projection's lane */
    size_t version_count;
} ef__revised_row;

/* Retry rows that the caller has found. A row that was removed since, or is not in a state that the
 * revision applies to, is left out. */
typedef struct ef__revision_request {
    ef__revision what;
    const ef__revised_row *rows;
    size_t count;
    /* The audit entry. With an id it exists, and counts these rows too; otherwise it is created if
     * any row was revised, and *out_id is its id. */
    const ef_audit_entry *act;
    int64_t *out_id;
} ef__revision_request;

/* A version of a projection skips an event. The last entry of an event decides. */
typedef struct ef__skip {
    int64_t id;
    ef_str tenant, stream;
    int64_t seq;
    bool withdrawn; /* the skip came too late: the version has applied the event */
} ef__skip;

/* A skip without an operator's action on a row: a projection whose policy is to skip events that
 * fail skips one. */
typedef struct ef__skip_entry {
    ef_str projection;
    int32_t version;
    ef_str tenant, stream;
    int64_t seq;
    ef_str actor, reason;
} ef__skip_entry;

typedef struct ef__skip_list {
    const ef__skip *items; /* oldest first */
    size_t count;
    struct ef__batch_memory *room;
} ef__skip_list;

/* A copy of the journal in a file of its own. */
typedef struct ef__journal_backup {
    const char *path;                                             /* must not exist */
    bool (*progress)(void *context, int64_t done, int64_t total); /* bytes; may be NULL */
    void *context;
} ef__journal_backup;

struct ef__journal_ops {
    const char *name;
    unsigned caps;

    /* --- events ---------------------------------------------------------------------------- */
    void (*close)(ef_journal *journal);
    /* One transaction: events, new streams and types, outbox rows of the lanes that want them. It
     * also decides the partition of an event, by the number of partitions at that time: so no row
     * gets into a partition that another process has removed. */
    ef_status (*append)(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                        ef_error *err);
    /* Several appends, in this order, each a transaction of its own to any observer; sets the
     * status of each. NULL: the caller uses `append` for each. */
    void (*append_each)(ef_journal *journal, const ef__append *appends, size_t count);
    ef_status (*read_stream)(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err);
    ef_status (*read_log)(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err); /* query->out_reached is not NULL */
    ef_status (*read_id)(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err);
    /* As ef__journal_follow. NULL: the caller uses read_log. */
    ef_status (*follow)(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                        int64_t *out_reached, ef_error *err);
    /* As ef__journal_followed; required by EF__JOURNAL_ACKNOWLEDGED. */
    void (*followed)(ef_journal *journal, ef_str reader, int64_t upto);
    /* As ef__journal_unfollow. NULL: the store has no per-reader state. */
    void (*unfollow)(ef_journal *journal, ef_str reader);
    /* `wake` is NULL, or as in ef__journal_wait. */
    ef_status (*wait)(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                      ef_error *err);
    ef_status (*wake)(ef_journal *journal, ef_error *err); /* not synced */
    ef_status (*head)(ef_journal *journal, ef_head *out, ef_error *err);
    ef_status (*stream_head)(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                             int64_t *out_position, ef_error *err);
    ef_status (*stream_ls)(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                           size_t limit, ef_stream_list *out, ef_error *err);
    ef_status (*type_set)(ef_journal *journal, const ef_type *type, ef_error *err);
    ef_status (*type_ls)(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                         ef_error *err);
    ef_status (*verify)(ef_journal *journal, int64_t from,
                        bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                        ef_verify_result *out, ef_error *err);
    ef_status (*facts)(ef_journal *journal, ef_store_facts *out, ef_error *err);
    /* Records damage in the store, for every process that has it open or opens it. Damage that is
     * recorded already stays. Also where the journal is read-only. NULL: only this handle knows. */
    ef_status (*damage_set)(ef_journal *journal, const ef__damage *damage, ef_error *err);
    /* found_us 0: none. Every append calls it, unless the journal is REFUSES_DAMAGED: then its
     * append reads the record in its own transaction, and refuses with ef__damage_fail. */
    ef_status (*damage_get)(ef_journal *journal, ef__damage *out, ef_error *err);
    ef_status (*damage_clear)(ef_journal *journal, ef_error *err);
    /* As ef_journal_backup. NULL: use the tools of the store. */
    ef_status (*backup)(ef_journal *journal, const ef__journal_backup *backup, ef_head *out,
                        ef_error *err);
    /* As ef_journal_copied and ef_journal_adopt. Both NULL: it cannot be a copy. */
    ef_status (*copied_get)(ef_journal *journal, int64_t *out_us, ef_error *err);
    ef_status (*adopt)(ef_journal *journal, ef_error *err);
    /* The one fact that is read at every heartbeat: must be cheap. */
    ef_status (*partition_count)(ef_journal *journal, int32_t *out, ef_error *err);

    /* --- outbox ---------------------------------------------------------------------------- */
    /* With `expected`, only if the lane is equal to it; EF_CONFLICT otherwise. */
    ef_status (*lane_set)(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err);
    ef_status (*lane_ls)(ef_journal *journal, ef_lane_list *out, ef_error *err);
    ef_status (*lane_drop)(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                           ef_error *err);
    /* Published rows of a publisher's lane: each call is one transaction that compares the token.
     */
    ef_status (*published_purge)(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                 size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_requeue)(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                   size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_count)(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                 ef_error *err);
    ef_status (*claim)(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                       ef_error *err);
    ef_status (*ack)(ef_journal *journal, const ef__ack_request *request, ef_error *err);
    /* The same, in a transaction of another store in the same database, on its connection. NULL:
     * not possible. */
    ef_status (*ack_with)(ef_journal *journal, void *connection, const ef__ack_request *mark,
                          ef_error *err);
    /* A globally unique id of its database; "": unknown. NULL where ack_with is. */
    ef_status (*database)(ef_journal *journal, char out[EF__JOURNAL_DATABASE_MAX], ef_error *err);
    ef_status (*outbox_ls)(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                           ef_error *err);
    ef_status (*outbox_summarise)(ef_journal *journal, const ef_outbox_query *query,
                                  ef_outbox_summary *out, ef_error *err);
    ef_status (*outbox_has_work)(ef_journal *journal, bool *out, ef_error *err);
    /* Ordered by the position of the first row. A lane that does not exist has none. */
    ef_status (*retry_streams)(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err);
    /* One transaction: the rows, the skips of the versions and the audit entry. `out` gets the
     * revised rows. */
    ef_status (*revise)(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                        ef_error *err);
    ef_status (*skip_add)(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
    /* The skips of a version of a projection that were written after the one with id `after`. */
    ef_status (*skip_ls)(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                         size_t limit, ef__skip_list *out, ef_error *err);
    ef_status (*audit_add)(ef_journal *journal, const ef_audit_entry *entry, ef_error *err);
    ef_status (*audit_ls)(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                          ef_error *err); /* query->before is INT64_MAX when it is not set */

    /* --- leases, workers, runs ------------------------------------------------------------- */
    /* One transaction: the calls in order, each with its status, and the heartbeat. `err` has the
     * first refusal, although the result is EF_OK. The first token of a lease that was never
     * acquired, or was pruned, is above every token that was pruned. */
    ef_status (*lease_many)(ef_journal *journal, ef_lease_call *calls, size_t count,
                            const ef__heartbeat *beat, ef_error *err);
    /* Throughput rows from that minute on, by minute. */
    ef_status (*throughput_ls)(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                               ef_error *err);
    ef_status (*lease_ls)(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                          ef_error *err);
    ef_status (*worker_leave)(ef_journal *journal, ef_str id, ef_error *err);
    ef_status (*worker_purge)(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                              int64_t *out_purged, ef_error *err);
    ef_status (*worker_ls)(ef_journal *journal, ef_worker_list *out, ef_error *err);
    ef_status (*partition_ls)(ef_journal *journal, ef_partition_list *out, ef_error *err);
    /* One transaction. */
    ef_status (*partition_sync)(ef_journal *journal, const ef_partition_change *change,
                                ef_partition_sync_result *out, ef_error *err);
    ef_status (*run_request)(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err); /* run->id is set */
    ef_status (*run_update)(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err);
    ef_status (*run_cancel)(ef_journal *journal, ef_str id, ef_error *err);
    ef_status (*run_ls)(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                        ef_error *err);
};

/* The types that are not folded, by name. */
ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err);
/* May an append of `tenant`, which has created `created` of the journal's `all` types, create one
 * more? EF_UNKNOWN_TYPE: no, it must be registered. */
ef_status ef__type_create_check(const ef_journal_options *options, ef_str tenant, ef_str type,
                                int64_t created, int64_t all, ef_error *err);
/* ef_lane_set, only if the lane is equal to `expected`, which was read before; NULL: always.
 * EF_CONFLICT: it was changed since, and is kept. */
ef_status ef__lane_replace(ef_journal *journal, const ef_lane *expected, const ef_lane *lane,
                           ef_error *err);
/*
 * As ef_journal_wait; also returns EF_OK when any process has called ef__journal_wake since `*wake`
 * was set: by the last call, or 0. So a wake-up that arrives while the caller is busy is not
 * missed. `after` EF__NO_APPENDS: waits for wake-ups only.
 */
#define EF__NO_APPENDS INT64_MAX
ef_status ef__journal_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                           ef_error *err);
static inline bool ef__journal_is_sparse(const ef_journal *journal)
{
    return (journal->ops->caps & EF__JOURNAL_SPARSE) != 0;
}

static inline bool ef__journal_is_acknowledged(const ef_journal *journal)
{
    return (journal->ops->caps & EF__JOURNAL_ACKNOWLEDGED) != 0;
}

/* Reads events of all tenants above a position. *out_reached: the position read up to. */
ef_status ef__journal_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                             int64_t *out_reached, ef_error *err);
/* Acknowledges what `reader` has read up to `upto`: it is committed, and synced where the journal
 * is EF__JOURNAL_ACKNOWLEDGED. Best effort. */
void ef__journal_followed(ef_journal *journal, ef_str reader, int64_t upto);
/* `reader` will not read again: the store may delete its state. Best effort. */
void ef__journal_unfollow(ef_journal *journal, ef_str reader);
/* Wakes all waiters, for work that no append announces. A failure is logged only, because workers
 * poll too. */
void ef__journal_wake(ef_journal *journal);
/* The number of partitions, cheaper than ef_journal_facts. */
ef_status ef__journal_partition_count(ef_journal *journal, int32_t *out, ef_error *err);
/* Is there a row in "*", or in a projection's lane, that workers have to process now or later? Dead
 * rows, and rows blocked by them, need an operator. Reads few rows, however many there are. */
ef_status ef__outbox_has_work(ef_journal *journal, bool *out, ef_error *err);
/* Lists streams that have retry rows in a lane, up to `limit`, ordered by their first rows. */
ef_status ef__retry_streams(ef_journal *journal, const ef__retry_query *query,
                            ef__retry_stream_list *out, ef_error *err);
void ef__retry_stream_list_release(ef__retry_stream_list *list);
/* As ef__journal_ops.revise and .skip_ls. */
ef_status ef__outbox_revise(ef_journal *journal, const ef__revision_request *revise,
                            ef_row_list *out, ef_error *err);
ef_status ef__skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                      size_t limit, ef__skip_list *out, ef_error *err);
/* A page of the dead rows of a bulk operation. Filters by stream, type, error or age read a bounded
 * number of rows, so a page may be empty although `out->next` is set. */
ef_status ef__bulk_page(ef_journal *journal, const ef_outbox_bulk *bulk, ef_str after, size_t limit,
                        ef_row_list *out, ef_error *err);

/* A bulk operation in progress. */
typedef struct ef__bulk_run {
    ef__revision what;
    const char *word; /* the action of the audit entry */
    const ef_outbox_bulk *bulk;
    /* May leave a row out, and sets the versions of a skip. NULL: all rows. */
    ef_status (*choose)(void *context, const ef_row *row, ef__arena *arena,
                        ef__revised_row *revised, bool *wanted, ef_error *err);
    void *context;
    ef_row_list *out;
    int64_t count; /* out: rows that were revised, or would be */
    ef_audit_entry entry;
    ef_row *kept;
} ef__bulk_run;

ef_status ef__bulk_revise(ef_journal *journal, ef__bulk_run *run, ef_error *err);
/* Removes retry rows that no generation needs any more (all DONE), without a lease. A row that was
 * filed again since it was read stays. */
ef_status ef__outbox_remove(ef_journal *journal, const ef_retry_row *rows, size_t count,
                            ef_error *err);
/* As ef_outbox_ack, on the connection of a store that shares the database. */
ef_status ef__outbox_ack_with(ef_journal *journal, void *connection, const ef__ack_request *mark,
                              ef_error *err);

/* Opening a back end; ef_journal_open fills in `journal->options` afterwards. */
ef_status ef__journal_memory_open(const ef_journal_options *options, ef_journal **out,
                                  ef_error *err);
ef_status ef__journal_sqlite_open(const ef_journal_options *options, const char *path,
                                  ef_journal **out, ef_error *err);
/* options->url names the server. */
ef_status ef__journal_postgres_open(const ef_journal_options *options, ef_journal **out,
                                    ef_error *err);
/* options->url names the broker and the stream, options->control the control journal. */
ef_status ef__journal_jetstream_open(const ef_journal_options *options, ef_journal **out,
                                     ef_error *err);
/* The SQL that creates its schema, for migration by hand. */
ef_status ef__journal_postgres_schema(const char *url, ef__buf *out, ef_error *err);

/* --- shared by back ends (event.c) ------------------------------------------------------------ */

/* The bytes of an event for its hash: every text has its length before it, so that no two events
 * have the same bytes. */
bool ef__event_encode(const ef_event *event, ef__buf *out);
/* hash = SHA-256(previous hash, encoded event). `sum` (may be NULL) = XXH3 of the encoded event. */
bool ef__event_seal(const uint8_t before[EF_HASH_BYTES], const ef_event *event, ef__buf *scratch,
                    uint8_t out_hash[EF_HASH_BYTES], uint64_t *out_sum);
/* EF_CONFLICT: a sealed event would get another position, or is a duplicate. */
ef_status ef__sealed_place_check(const ef_event *sealed, int64_t position, bool duplicate,
                                 ef_error *err);
/* EF_DAMAGED: a sealed event would get another hash. */
ef_status ef__sealed_hash_check(const ef_event *sealed, const uint8_t hash[EF_HASH_BYTES],
                                ef_error *err);
/* Is `arrival` the same event as `stored`, so that appending it again is a duplicate? */
bool ef__event_same(const ef__arrival *arrival, const ef_event *stored);
/* EF_DAMAGED: the journal at `shown` is known to be damaged, so an append is refused (damage.c). */
ef_status ef__damage_fail(const char *shown, const ef__damage *damage, ef_error *err);
/* EF_CONFLICT: the event expects another seq than `seq`. */
ef_status ef__seq_check(const ef_new_event *event, int64_t seq, ef_error *err);
/* EF_ID_CONFLICT: the id belongs to the event at `position`, which has other content. */
ef_status ef__id_conflict(ef_str id, int64_t position, ef_error *err);
/* Does `type` match NAME or PREFIX*, or a comma list of them? "" matches all. */
bool ef__type_matches(ef_str type, ef_str patterns);

/* --- shared by back ends ---------------------------------------------------------------------- */

/* EF_OK for a publisher's lane; EF_BAD_INPUT. */
ef_status ef__lane_publishes(ef_str name, ef_lane_kind kind, ef_error *err);
ef_status ef__lane_changed(ef_str lane, ef_error *err); /* EF_CONFLICT */
/* EF_NOT_FOUND: the event of an operator's action has no retry row, or no dead one. */
ef_status ef__no_retry_row(const ef_outbox_action *action, bool dead_only, ef_error *err);
/* EF_EXISTS: `rows` rows wait in a lane that is to be dropped. */
ef_status ef__lane_drop_check(ef_str name, int64_t rows, bool discard, ef_error *err);

/* Sets `live`, `late` and `state` of a worker at `now_us` of the store's clock. On entry `state`
 * is that of its last heartbeat: working or idle. */
void ef__worker_judge(ef_worker *worker, int64_t now_us);
/* As ef_lease_many, with a complete heartbeat. */
ef_status ef__lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                         const ef__heartbeat *beat, ef_error *err);

/* Numbers of queued and retry rows of all lanes, in partitions from `count` on. Initialise `count`.
 */
typedef struct ef__waiting_rows {
    int32_t count;
    int64_t rows[EF_LIMIT_PARTITIONS];
} ef__waiting_rows;

void ef__waiting_add(ef__waiting_rows *waiting, int32_t partition, int64_t rows);
/* EF_EXISTS: there are rows; the message says how many and where. */
ef_status ef__waiting_check(const ef__waiting_rows *waiting, ef_error *err);

#endif
