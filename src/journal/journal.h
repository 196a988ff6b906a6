/*
 * journal.h - the seam: what a journal back end does.
 *
 * The front (front.c) checks every argument, fills in defaults and makes ids; a back end sees only
 * what has passed that door. It may rely on: names valid, JSON valid, limits kept, `limit` in
 * 1 … EF_LIMIT_LIST_ROWS, lists' rooms made ready and empty, `out` pointers not NULL.
 *
 * What must be true of every back end is the contract suite's to say (tests/contract).
 * "One transaction" below means: all of it or nothing, whatever dies when.
 */
#ifndef EF_JOURNAL_JOURNAL_H
#define EF_JOURNAL_JOURNAL_H

#include "../base/buf.h"
#include "../base/limits.h"
#include "../base/room.h"

#include <everfold/everfold.h>

#include <stdatomic.h>

/* An event that has passed the door: every field of `event` is filled in. */
typedef struct ef__arrival {
    ef_new_event event;
    bool id_made;    /* we made the id: it cannot be known already */
    bool time_given; /* the caller gave the time: it is part of the content */
    /* An event of another journal, under the type that it was appended with: it keeps its position,
     * seq, recording time and hash, or the append is refused. NULL: an ordinary append. */
    const ef_event *sealed;
} ef__arrival;

/* An append that has passed the door: `of` has its count, places, err and status. */
typedef struct ef__append {
    const ef__arrival *events;
    ef_append *of;
} ef__append;

/* One who reads on and on. */
typedef struct ef__follow {
    ef_str reader; /* his name, so that a store which keeps readers can have one ready for him; "":
                      nobody in particular */
    int64_t after;
    size_t limit;
    /* Once it is true he waits for what there is, and `least` events will do. NULL: he does not
     * come before it is all read. A store may pay no heed to it. */
    const atomic_bool *wanted;
    size_t least;
} ef__follow;

#define EF__MINUTE_US INT64_C(60000000)

/* What a worker writes at a heartbeat, with its leases. */
typedef struct ef__beat {
    const ef_worker *worker; /* NULL: no heartbeat */
    int64_t heartbeat_ms;
    const ef_throughput *minutes; /* added to the rows of throughput; `at_us` is a whole minute */
    size_t minute_count;
} ef__beat;

/* Which types are listed: all, the one of that name, those that are not folded. */
typedef struct ef__type_query {
    ef_str name;     /* "": any */
    bool not_folded; /* only those with another intent than projection_and_replay */
} ef__type_query;

typedef struct ef__journal_ops ef__journal_ops;

/* Every back end's struct begins with this one. */
enum { EF__JOURNAL_SHOWN_MAX = 256, EF__JOURNAL_DAMAGE_MAX = 200 };

struct ef_journal {
    const ef__journal_ops *ops;
    ef_journal_options options; /* clock, log and busy_ms filled in; url is not kept */
    /* Grows whenever the store was away and may have come back with less than it had: whoever has
     * found his place in it looks again. */
    _Atomic int64_t comings;
    char shown[EF__JOURNAL_SHOWN_MAX]; /* its URL without a password, for messages */
    struct {
        _Atomic int state; /* of damage.c */
        char text[EF__JOURNAL_DAMAGE_MAX];
    } damage; /* the first that a call found */
};

enum { EF__JOURNAL_DATABASE_MAX = 64 };

enum ef__journal_caps {
    EF__JOURNAL_MANY_PROCESSES = 1, /* another process may have it open too */
    EF__JOURNAL_DURABLE = 2,        /* survives the process */
    /* Positions have holes, an event's seq is its position, and nothing is queued: projections read
     * it by their cursors. A message that is no event has an empty type, and its data says why. */
    EF__JOURNAL_SPARSE = 4,
    /* It is told what a reader is done with (`followed`), and nobody but him brings that again:
     * what he made of it is on the disk before. */
    EF__JOURNAL_ACKNOWLEDGED = 8,
    EF__JOURNAL_REMOTE = 16 /* a read waits for another process */
};

/* Back ends list what was published by outbox_ls, too: the last first, down from `upto`. */
static inline bool ef__query_published(const ef_outbox_query *query)
{
    return query->status && *query->status == EF_ROW_PUBLISHED;
}

/* What is to be taken of a lane. */
typedef struct ef__taking {
    ef_str lane;
    bool due; /* exceptions that are, and not what is queued */
    const ef_holding *held;
    size_t held_count;
    int64_t after; /* publishers' lanes only: what is up to there is in hand, and stays so */
    size_t limit;
} ef__taking;

/*
 * A stream with retry rows in a lane: its first row, and how many there are. What a lane holds is
 * counted by stream, because the rows of one stream may be many and have one cause.
 */
typedef struct ef__retry_stream {
    ef_str tenant, stream;
    int64_t seq, position; /* of the first row */
    ef_row_status status;  /* of the first row: PENDING, FAILED or DEAD */
    ef_str error;          /* of the first row */
    int64_t last_seq;      /* of the last row */
    int64_t rows;          /* above `above_seq` of the query; 0 unless `counts` */
} ef__retry_stream;

/* Which runs: one by its id, or the newest. */
typedef struct ef__run_query {
    ef_str id;            /* "": any */
    const ef_str *tenant; /* of that one only (ef_run_is_of); NULL: all */
    bool open_only;
    size_t limit;
} ef__run_query;

typedef struct ef__retry_query {
    ef_str lane;
    bool any_tenant;
    ef_str tenant;
    ef_str stream;     /* of `tenant`: only this one; "" all */
    int64_t above_seq; /* `rows` has those with a higher seq */
    bool counts;       /* costs a look at every row of the streams */
    int64_t after;     /* streams whose first row is above this position */
    size_t limit;
} ef__retry_query;

typedef struct ef__retry_stream_list {
    const ef__retry_stream *items;
    size_t count;
    struct ef__batch_room *room;
} ef__retry_stream_list;

/* A batch that is to be settled. */
typedef struct ef__marking {
    ef_str lane;
    /* none: file the exceptions that have no row, leave those that do; remove those that are DONE,
     * unless they were filed again */
    const ef_holding *held;
    size_t held_count;
    const ef_exception *exceptions;
    size_t exception_count;
    ef_str progress; /* publishers' lanes only; "" leaves what is noted */
} ef__marking;

/* What an operator does to retry rows. */
typedef enum ef__revision {
    EF__REVISION_REQUEUE, /* dead ones only: pending, no attempts, due now, no error */
    EF__REVISION_SKIP,    /* pending and due: the lane passes it next */
    EF__REVISION_REPLAY   /* due now; a dead one is pending again and keeps its attempts */
} ef__revision;

typedef struct ef__revised {
    ef_str lane;
    int64_t position;
    const int32_t *versions; /* skip, in a projection's lane */
    size_t version_count;
} ef__revised;

/* Retry rows that the caller has found. One that is gone, or is not as the revision needs it, is
 * left out. */
typedef struct ef__revise {
    ef__revision what;
    const ef__revised *rows;
    size_t count;
    /* The audit entry. With an id it is there, and counts these rows too; else it is made if any
     * row was revised, and *out_id is its id. */
    const ef_act *act;
    int64_t *out_id;
} ef__revise;

/* A skip: a version of a projection passes an event. The last entry about an event decides. */
typedef struct ef__skip {
    int64_t id;
    ef_str tenant, stream;
    int64_t seq;
    bool withdrawn; /* it came too late: the version has applied the event */
} ef__skip;

/* A skip that no operator's action on a row makes: a projection that is told to pass what it fails
 * on passes an event. */
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
    struct ef__batch_room *room;
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
    /* One transaction: events, new streams and types, outbox rows of the lanes that want them. An
     * event's partition is decided in it too, by the count of partitions as it is then: so no row
     * comes into a partition that was given up meanwhile, whoever else has the journal open. */
    ef_status (*append)(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                        ef_error *err);
    /* Several, in this order, each a transaction by itself as far as anybody can tell; the status
     * of each is left in it. NULL: one after the other by `append` is as good. */
    void (*append_each)(ef_journal *journal, const ef__append *appends, size_t count);
    ef_status (*read_stream)(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err);
    ef_status (*read_log)(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err); /* query->out_reached is not NULL here */
    ef_status (*read_id)(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err);
    /* As ef__journal_follow. NULL: read_log does. */
    ef_status (*follow)(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                        int64_t *out_reached, ef_error *err);
    /* As ef__journal_followed, where it is EF__JOURNAL_ACKNOWLEDGED. */
    void (*followed)(ef_journal *journal, ef_str reader, int64_t upto);
    /* As ef__journal_unfollow. NULL: the store keeps nothing per reader. */
    void (*unfollow)(ef_journal *journal, ef_str reader);
    /* `nudge` is NULL, or as ef__journal_wait has it. */
    ef_status (*wait)(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                      ef_error *err);
    ef_status (*nudge)(ef_journal *journal, ef_error *err); /* not a transaction; not synced */
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
    /* As ef_journal_backup. NULL: the store has means of its own. */
    ef_status (*backup)(ef_journal *journal, const ef__journal_backup *backup, ef_head *out,
                        ef_error *err);
    /* 0, or when this journal became a copy of another; and that it is the one that goes on. Both
     * NULL: it cannot be a copy. */
    ef_status (*copied_get)(ef_journal *journal, int64_t *out_us, ef_error *err);
    ef_status (*adopt)(ef_journal *journal, ef_error *err);
    /* Of the facts the one that is asked for at every beat: it costs next to nothing. */
    ef_status (*partition_count)(ef_journal *journal, int32_t *out, ef_error *err);

    /* --- outbox ---------------------------------------------------------------------------- */
    /* With `expected` only if the lane is as that says; EF_CONFLICT otherwise. */
    ef_status (*lane_set)(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err);
    ef_status (*lane_ls)(ef_journal *journal, ef_lane_list *out, ef_error *err);
    ef_status (*lane_drop)(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                           ef_error *err);
    /* What a publisher's lane has published: each one transaction, that compares the token. */
    ef_status (*published_purge)(ef_journal *journal, ef_str lane, const ef_holding *held,
                                 size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_again)(ef_journal *journal, ef_str lane, const ef_holding *held,
                                 size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_count)(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                 ef_error *err);
    ef_status (*take)(ef_journal *journal, const ef__taking *take, ef_taken_batch *out,
                      ef_error *err);
    ef_status (*mark)(ef_journal *journal, const ef__marking *mark, ef_error *err);
    /* The same, within a transaction of another store that is in the same database, on its
     * connection. NULL where there is no such thing. */
    ef_status (*mark_with)(ef_journal *journal, void *connection, const ef__marking *mark,
                           ef_error *err);
    /* Which database it is in, in all the world; "" when it is not known. NULL as mark_with. */
    ef_status (*database)(ef_journal *journal, char out[EF__JOURNAL_DATABASE_MAX], ef_error *err);
    ef_status (*outbox_ls)(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                           ef_error *err);
    ef_status (*outbox_summarise)(ef_journal *journal, const ef_outbox_query *query,
                                  ef_outbox_summary *out, ef_error *err);
    ef_status (*outbox_waits)(ef_journal *journal, bool *out, ef_error *err);
    /* In the order of the first rows' positions. A lane that does not exist has none. */
    ef_status (*retry_streams)(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err);
    /* One transaction: the rows, the skips of the versions and the audit entry. `out` gets the rows
     * that were revised, as they are now. */
    ef_status (*revise)(ef_journal *journal, const ef__revise *revise, ef_row_list *out,
                        ef_error *err);
    ef_status (*skip_add)(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
    /* The skips of a version of a projection that were written after the one with id `after`. */
    ef_status (*skip_ls)(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                         size_t limit, ef__skip_list *out, ef_error *err);
    ef_status (*act_add)(ef_journal *journal, const ef_act *act, ef_error *err);
    ef_status (*act_ls)(
        ef_journal *journal, const ef_act_query *query, ef_act_list *out,
        ef_error *err); /* query->before is above every id when it does not matter */

    /* --- leases, workers, runs ------------------------------------------------------------- */
    /* One transaction: the calls in their order, each with an answer, and what `beat` has. The
     * first refusal is told in `err`, although the whole is EF_OK. A lease that was
     * never taken, or was pruned, begins above every token that was pruned. */
    ef_status (*lease_many)(ef_journal *journal, ef_lease_call *calls, size_t count,
                            const ef__beat *beat, ef_error *err);
    /* Rows of throughput from that minute on, by minute. */
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
                                ef_partition_changed *out, ef_error *err);
    ef_status (*run_request)(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err); /* run->id was made by the front */
    ef_status (*run_update)(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err);
    ef_status (*run_cancel)(ef_journal *journal, ef_str id, ef_error *err);
    ef_status (*run_ls)(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                        ef_error *err);
};

/* The types that are not folded, by name. */
ef_status ef__types_not_folded(ef_journal *journal, ef_type_list *out, ef_error *err);
/* May an append of `tenant` create one more type, when it has created `created`, and the journal
 * has `all`? EF_UNKNOWN_TYPE: no, so an operator has to register it. */
ef_status ef__type_create_check(const ef_journal_options *options, ef_str tenant, ef_str type,
                                int64_t created, int64_t all, ef_error *err);
/* ef_lane_set if the lane is still as `expected`, which was read before; NULL: whatever it is.
 * EF_CONFLICT: it was changed meanwhile, and stays as it is. */
ef_status ef__lane_replace(ef_journal *journal, const ef_lane *expected, const ef_lane *lane,
                           ef_error *err);
/*
 * As ef_journal_wait; ends with EF_OK also when somebody, in whatever process, has nudged since
 * `*nudge` was set: by the last call, or 0. So nothing that was told while the caller was busy is
 * missed. `after` EF__NO_APPENDS: only for that.
 */
#define EF__NO_APPENDS INT64_MAX
ef_status ef__journal_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                           ef_error *err);
static inline bool ef__journal_is_sparse(const ef_journal *journal)
{
    return (journal->ops->caps & EF__JOURNAL_SPARSE) != 0;
}

static inline bool ef__journal_is_acknowledged(const ef_journal *journal)
{
    return (journal->ops->caps & EF__JOURNAL_ACKNOWLEDGED) != 0;
}

/* Read on behind a position, all tenants. *out_reached: up to where that is. */
ef_status ef__journal_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                             int64_t *out_reached, ef_error *err);
/* What `reader` has read up to `upto` is committed, and synced where the journal is acknowledged.
 * Nobody relies on that being heard. */
void ef__journal_followed(ef_journal *journal, ef_str reader, int64_t upto);
/* `reader` will not read again: the store may remove what it keeps for it. Best effort. */
void ef__journal_unfollow(ef_journal *journal, ef_str reader);
/* There is something to do that no append tells of: those who wait look at once. When that fails it
 * is logged, for they look by themselves too, later. */
void ef__journal_nudge(ef_journal *journal);
/* How many partitions there are: of ef_journal_facts the one thing that is asked for often. */
ef_status ef__journal_partition_count(ef_journal *journal, int32_t *out, ef_error *err);
/* Is there a row in "*", or in a projection's own lane, that workers have to do something about, be
 * it later? What is dead, or waits behind what is, is an operator's. However many rows there are,
 * this looks at a few. */
ef_status ef__outbox_waits(ef_journal *journal, bool *out, ef_error *err);
/* Lists streams that have retry rows in a lane, up to `limit`, in the order of their first rows. */
ef_status ef__retry_streams(ef_journal *journal, const ef__retry_query *query,
                            ef__retry_stream_list *out, ef_error *err);
void ef__retry_stream_list_release(ef__retry_stream_list *list);
/* As ef_journal_ops.revise and .skip_ls. */
ef_status ef__outbox_revise(ef_journal *journal, const ef__revise *revise, ef_row_list *out,
                            ef_error *err);
ef_status ef__skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                      size_t limit, ef__skip_list *out, ef_error *err);
/* A page of the dead rows of an operation on many. What is picked by stream, type, error or age is
 * looked for among a bounded number of rows, so a page may be empty and `out->next` go on. */
ef_status ef__bulk_page(ef_journal *journal, const ef_outbox_bulk *bulk, ef_str after, size_t limit,
                        ef_row_list *out, ef_error *err);

/* An operation on many rows, under way. */
typedef struct ef__bulk_run {
    ef__revision what;
    const char *word; /* of the audit entry */
    const ef_outbox_bulk *bulk;
    /* May leave a row out, and gives a skip its versions. NULL: all rows. */
    ef_status (*choose)(void *context, const ef_row *row, ef__arena *arena, ef__revised *revised,
                        bool *wanted, ef_error *err);
    void *context;
    ef_row_list *out;
    int64_t count; /* out: rows that were revised, or would be */
    ef_act entry;
    ef_row *kept;
} ef__bulk_run;

ef_status ef__bulk_revise(ef_journal *journal, ef__bulk_run *run, ef_error *err);
/* Remove retry rows that no generation needs any more (all DONE), without a lease: a row that was
 * filed again since it was read stays. */
ef_status ef__outbox_remove(ef_journal *journal, const ef_exception *rows, size_t count,
                            ef_error *err);
/* As ef_outbox_mark, on the connection of a store that shares the database. */
ef_status ef__outbox_mark_with(ef_journal *journal, void *connection, const ef__marking *mark,
                               ef_error *err);

/* Back ends: open behind the front. `journal->options` is filled in by the front afterwards. */
ef_status ef__journal_memory_open(const ef_journal_options *options, ef_journal **out,
                                  ef_error *err);
ef_status ef__journal_sqlite_open(const ef_journal_options *options, const char *path,
                                  ef_journal **out, ef_error *err);
/* options->url names the server. */
ef_status ef__journal_postgres_open(const ef_journal_options *options, ef_journal **out,
                                    ef_error *err);
/* options->url names the broker and the stream, options->control the journal for all but events. */
ef_status ef__journal_jetstream_open(const ef_journal_options *options, ef_journal **out,
                                     ef_error *err);
/* What makes its schema, as SQL, for those who migrate by hand. */
ef_status ef__journal_postgres_schema(const char *url, ef__buf *out, ef_error *err);

/* --- shared by back ends (event.c) ------------------------------------------------------------ */

/*
 * The bytes an event's hash is taken over: every field, each with its length before it, so that no
 * two events give the same bytes.
 */
bool ef__event_encode(const ef_event *event, ef__buf *out);
/* hash = SHA-256(hash before it, encoded event). `sum` (may be NULL) = XXH3 of the same bytes. */
bool ef__event_seal(const uint8_t before[EF_HASH_BYTES], const ef_event *event, ef__buf *scratch,
                    uint8_t out_hash[EF_HASH_BYTES], uint64_t *out_sum);
/* A sealed event must get the position that it has, and be new: EF_CONFLICT. */
ef_status ef__sealed_place_check(const ef_event *sealed, int64_t position, bool duplicate,
                                 ef_error *err);
/* … and the hash: EF_DAMAGED. */
ef_status ef__sealed_hash_check(const ef_event *sealed, const uint8_t hash[EF_HASH_BYTES],
                                ef_error *err);
/* Is `arrival` the same event as `stored`, so that appending it again is a duplicate? */
bool ef__event_same(const ef__arrival *arrival, const ef_event *stored);
/* EF_CONFLICT unless a stream at `seq` is where the event expects it to be. */
ef_status ef__seq_check(const ef_new_event *event, int64_t seq, ef_error *err);
/* EF_ID_CONFLICT: the id belongs to the event at `position`, which has other content. */
ef_status ef__id_conflict(ef_str id, int64_t position, ef_error *err);
/* Does `type` match NAME or PREFIX*, or a comma list of them? "" matches all. */
bool ef__type_matches(ef_str type, ef_str patterns);

/* --- shared by back ends ---------------------------------------------------------------------- */

/* EF_OK for a publisher's lane; EF_BAD_INPUT. */
ef_status ef__lane_publishes(ef_str name, ef_lane_kind kind, ef_error *err);
/* EF_NOT_FOUND: what an operator wanted to act on has no exception, or no dead one. */
ef_status ef__lane_changed(ef_str lane, ef_error *err); /* EF_CONFLICT */
ef_status ef__act_on_nothing(const ef_outbox_act *act, bool dead_only, ef_error *err);
/* EF_OK, or EF_EXISTS: so many rows wait in a lane that is to be dropped. */
ef_status ef__lane_drop_check(ef_str name, int64_t rows, bool discard, ef_error *err);

/* Sets `live`, `late` and `state` of a worker at `now_us` of the store's clock. `state` comes in as
 * its last heartbeat announced it: working or idle. */
void ef__worker_judge(ef_worker *worker, int64_t now_us);
/* As ef_lease_many, with all that a beat may have. */
ef_status ef__lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                         const ef__beat *beat, ef_error *err);

/* Rows of any lane, queued or exceptions, in partitions at or above `count`. Begins as {count}. */
typedef struct ef__waiting {
    int32_t count;
    int64_t rows[EF_LIMIT_PARTITIONS];
} ef__waiting;

void ef__waiting_add(ef__waiting *waiting, int32_t partition, int64_t rows);
/* EF_OK when there are none; EF_EXISTS, with how many and where. */
ef_status ef__waiting_check(const ef__waiting *waiting, ef_error *err);

#endif
