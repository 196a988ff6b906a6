/*
 * store.h - declarations that the files of the PostgreSQL journal share. The prefix is pg_.
 *
 * Every transaction acquires locks in this order: streams (by tenant and name), ids, leases (by
 * key), lane offsets (by partition), retry rows, the sequencer. The holder of the sequencer lock
 * waits for no other lock, and an append does not wait for it: so a transaction that an application
 * leaves open delays appends to its own streams only.
 */
#pragma once

#include "../journal.h"
#include "../refusal.h"

#include "../../base/batcher.h"
#include "../../base/pair_map.h"
#include "../../core/lease_rule.h"
#include "../../postgres/rows.h"

#include <pthread.h>
#include <stdatomic.h>

#define PG_READ_BYTES_ENOUGH (64 << 20) /* a read ends here even if more events were requested */
#define PG_CLAIM_BYTES_ENOUGH (16 << 20)
#define PG_IDLE_POSITIONS 10000 /* the offset of a partition without rows lags by at most this */

/* --- rows of statements ----------------------------------------------------------------------- */

typedef struct pg_lane {
    int32_t id; /* 0: no such lane */
    ef_lane_kind kind;
} pg_lane;

typedef struct pg_lease_row {
    ef_lease_key key;
    ef__lease_row row;
    int64_t now_us;
} pg_lease_row;

typedef struct pg_worker_row {
    ef_worker worker;
    int64_t now_us;
} pg_worker_row;

typedef struct pg_offset_row {
    int32_t partition;
    ef__lane_offset offset;
} pg_offset_row;

#include "journal_postgres_sql.h"

/* --- the store -------------------------------------------------------------------------------- */

/*
 * The state after the last append, which the next one assumes (append_optimistic.c): the heads of
 * streams, the types that exist; with the end of the log. The server compares it in the transaction
 * that writes. Where the log ends elsewhere, the events get no position at once; an append with
 * another wrong assumption is rolled back and repeated with a lookup.
 */
typedef struct pg_assumption {
    bool known;                /* no append has failed since the last one */
    ef__pair_map streams;      /* of pg_assumed_head */
    ef__pair_map types;        /* of bool; the tenant is "" */
    int32_t pause, pause_next; /* appends with a lookup before the next assumption */
} pg_assumption;

/* The end of the log, valid while the sequencer lock is held. */
typedef struct pg_end {
    int64_t position;
    int64_t recorded_us; /* of the last event, then of those that are added */
    uint8_t hash[EF_HASH_BYTES];
    int32_t partitions;
    ef__damage damage;               /* recorded damage: an append is refused */
    int64_t clock_us, clock_read_us; /* the server clock, and the monotonic time when it was read */
    ef__buf scratch;
} pg_end;

/*
 * What this process has seen of events without a position: all up to the number `high` that were
 * visible in `snapshot` have one. Kept in memory only: transaction ids mean nothing after a
 * restore.
 */
typedef struct pg_since {
    ef__buf snapshot;    /* as text */
    int64_t high;        /* 0: nothing was seen */
    int64_t connections; /* the value of the store when it was read */
} pg_since;

typedef struct pg_store {
    ef_journal base; /* first: an ef_journal * is cast to pg_store * */
    ef__pg_pool *pool;
    bool given_clock; /* a test uses its own clock instead of that of the server */
    char journal_id[40];

    ef__batcher appends;
    ef__batcher places;   /* threads that wait for positions (place.c) */
    pthread_mutex_t lock; /* protects the fields up to `assumption` */
    pthread_cond_t changed;
    bool listening;
    ef__pg_conn *listener; /* used by the thread that set `listening` */
    bool is_asleep;        /* the listener has announced that this process sleeps */
    int64_t notify_count;  /* number of notifications: appends and wake-ups */
    ef__pair_map lanes; /* of pg_lane, by "" and name: they are never removed and keep their kind */
    pg_since since;
    pg_end last_end;          /* of the last commit of this process that gave positions */
    pg_assumption assumption; /* used by the leader of an append */

    _Atomic int64_t
        seen; /* the highest position that was returned: a server that ends before it is refused */
    _Atomic int64_t commits, appended, stale_refused;
    _Atomic bool large_events;   /* the last claimed batch had some */
    _Atomic int64_t connections; /* that were opened: a new one may lead to a server with other
                                  * transactions */
    _Atomic int64_t notified_ms;
} pg_store;

static inline pg_store *pg_store_of(ef_journal *journal)
{
    return (pg_store *)journal;
}

/* The clock of the server, unless a test has its own. */
ef__pg_clock pg_clock(const pg_store *store);
ef_status pg_clock_now(const pg_store *store, ef__pg_on on, int64_t *out, ef_error *err);
/* Reads of the log, after all committed events have got their positions. */
ef__pg_on pg_on_log(pg_store *store);
/* Transactions of one statement: pg_write, and pg_write_idempotent. */
ef__pg_on pg_on_write(pg_store *store);
ef__pg_on pg_on_write_idempotent(pg_store *store);
void pg_record_seen(pg_store *store, int64_t position);
/* Runs a transaction that writes, and counts it. */
ef_status pg_write(pg_store *store, ef__pg_work work, void *context, ef_error *err);
/* The same for idempotent work: repeated when the connection broke during the commit. */
ef_status pg_write_idempotent(pg_store *store, ef__pg_work work, void *context, ef_error *err);
/* The same on the connection and in the transaction of another store. */
ef_status pg_write_with(pg_store *store, ef__pg_conn *conn, ef__pg_work work, void *context,
                        ef_error *err);
void pg_assumption_init(pg_assumption *assumption);
void pg_assumption_release(pg_assumption *assumption);
/* Counts EF_LEASE_LOST, and returns the status. */
ef_status pg_count_refused(pg_store *store, ef_status st);

/* --- results (read.c) ------------------------------------------------------------------------- */

/* Every statement that returns events starts with these columns. */
enum { PG_EVENT_DATA = 10, PG_EVENT_COLUMNS = 14 };

/* Reads the event of a row; its texts are borrowed from the result. `out_type` (may be NULL) is the
 * canonical type, `out->type` the stored one. EF_DAMAGED when its checksum is wrong. */
ef_status pg_event_read(const PGresult *result, int row, ef__buf *scratch, ef_event *out,
                        ef_str *out_type, ef_error *err);
/* Copies the events of a result into a batch, up to `limit` or the first one without data; `more`
 * is set if one is left. */
ef_status pg_events_copy(const ef__pg_rows *rows, size_t limit, bool stored_types, ef_batch *out,
                         ef_error *err);

/* --- sequencing (sequence.c) ------------------------------------------------------------------ */

/* Whether events get positions in the transaction that writes them. */
typedef enum pg_placing {
    PG_UNPLACED,
    PG_PLACED,
    PG_AS_GUESSED /* the server decides (sequencer_guess) */
} pg_placing;

/* Events to write, as parameters of the statements. */
typedef struct pg_rows {
    pg_placing placing; /* set by the caller */
    bool queue;         /* … they get outbox rows */
    int64_t first;      /* position */
    ef__pg_array types; /* distinct names, added by the caller */
    ef__pg_array numbers, ids, data, meta;
    ef__buf hashes;
    ef__pg_array queued, queued_numbers; /* of events that get outbox rows */
} pg_rows;

void pg_rows_init(pg_rows *rows);
void pg_rows_release(pg_rows *rows);
/* Adds a new event; unless PG_UNPLACED, gives it the next position and sets position, recorded_us
 * and hash. `type` is the index of its type in `types`, from 1; `made`: the id was generated, so it
 * has no row of its own. */
ef_status pg_rows_add(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                      bool made, ef_error *err);
/* Adds an event that was committed without a position, and gives it the next one. */
ef_status pg_rows_place(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                        bool queue, ef_error *err);
/* Sends the statements that write them, flushes, and empties `rows` except for the types. */
ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err);

/* Reads the end of the log, and releases the rows. The caller releases `end->scratch`. */
ef_status pg_end_read(ef__pg_rows rows, pg_end *end, ef_error *err);
/* Acquires the sequencer lock and reads the end of the log; receives outstanding results. */
ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err);
/* After a commit: the next append assumes that the log ends there. */
void pg_end_record(pg_store *store, const pg_end *end);

/* --- events without a position (place.c) ------------------------------------------------------ */

/* An event that has none yet. */
typedef struct pg_unplaced {
    int64_t stream;
    ef_place *place; /* has its seq, and gets its position */
} pg_unplaced;

typedef struct pg_place_job {
    ef__batch_job queued; /* first */
    pg_unplaced *events;  /* to wait for; reordered */
    size_t count;         /* that have no position yet */
    bool wants_all;       /* waits for all events that are committed now */
    ef_status status;
    ef_error *err; /* may be NULL */
} pg_place_job;

void pg_places_init(pg_store *store);
/* Gives positions to all events that are committed now. */
ef_status pg_place_all(pg_store *store, ef_error *err);
/* The same if there are any: a read that finds none costs one round trip. */
ef_status pg_place_unplaced(pg_store *store, ef_error *err);
void pg_since_read(pg_store *store, pg_since *out);
void pg_since_release(pg_since *since);
/* Reads by one statement, after all committed events have got their positions. */
ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err);
/* After a commit that gave positions: wakes processes that sleep, if there are any. */
void pg_notify_sleepers(pg_store *store);

/* The record of damage that was found: its description is cut to the size of `text`. */
ef__damage pg_damage_of(ef_str text, int64_t found_us);

/* --- lanes and leases ------------------------------------------------------------------------- */

ef_status pg_lane_get(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out, ef_error *err);
/* Finds a lane, or creates it for a projection. */
ef_status pg_lane_find_or_create(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                                 ef_error *err);

/* Sends the statement that reads and locks the leases of partitions of a lane … */
ef_status pg_leases_send(pg_store *store, ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                         const ef_partition_lease *held, size_t count, ef_error *err);
/* … and checks that they are live under these tokens: EF_LEASE_LOST. */
ef_status pg_leases_receive(ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                            const ef_partition_lease *held, size_t count, ef_error *err);
/* Checks one lease of any kind. */
ef_status pg_token_check(pg_store *store, ef__pg_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err);
ef__pg_array pg_array_of_partitions(const ef_partition_lease *held, size_t count);

/* --- the outbox ------------------------------------------------------------------------------- */

/* Sends the statement that reads and locks the offsets of partitions … */
ef_status pg_offsets_send(ef__pg_conn *conn, int32_t lane, const ef_partition_lease *held,
                          size_t count, ef_error *err);
/* … and receives them: all zero where nothing was ever claimed. */
ef_status pg_offsets_receive(ef__pg_conn *conn, const ef__held_map *map, ef__lane_offset *out,
                             ef_error *err);
/* Sends the offsets that have changed. */
ef_status pg_offsets_put(pg_store *store, ef__pg_conn *conn, int32_t lane,
                         const ef_partition_lease *held, size_t count,
                         const ef__lane_offset *before, const ef__lane_offset *now, ef_error *err);

/* A retry row that is written. */
typedef struct pg_retry_row {
    int32_t lane;
    int64_t position;
    ef__acked_event event; /* as it was read, with changes of the row */
} pg_retry_row;

void pg_retry_row_add(struct pj_retry_row_put *put, const pg_retry_row *row);

/* --- the operations --------------------------------------------------------------------------- */

extern const ef__events_ops pg_events_ops;
extern const ef__outbox_ops pg_outbox_ops;
extern const ef__lease_ops pg_lease_ops;
extern const ef__record_ops pg_record_ops;

ef_status pg_append_events(ef_journal *journal, const ef__arrival *events, size_t count,
                           ef_place *out, ef_error *err);
void pg_append_each(ef_journal *journal, const ef__append *appends, size_t count);
void pg_appends_init(pg_store *store);
ef_status pg_head(ef_journal *journal, ef_head *out, ef_error *err);
ef_status pg_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                  ef_error *err);
ef_status pg_claim(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                   ef_error *err);
ef_status pg_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                 ef_error *err);
ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err);
ef_status pg_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err);
void *pg_delivery_send(ef_journal *journal, const ef__retry_query *query);
ef_status pg_delivery_receive(ef_journal *journal, void *sent, const ef__retry_query *query,
                              int64_t *out_delivered, ef__retry_stream_list *out, ef_error *err);
ef_status pg_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err);
