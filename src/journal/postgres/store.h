/*
 * store.h - what the files of the PostgreSQL journal share.
 *
 * Locks are taken in this order, by everybody: streams (by tenant and name), ids, leases (by key),
 * marks (by partition), exceptions, the sequencer. Whoever has the sequencer's lock waits for
 * nothing any more: a transaction that an application leaves open holds up its own events only.
 */
#ifndef EF_JOURNAL_POSTGRES_STORE_H
#define EF_JOURNAL_POSTGRES_STORE_H

#include "../journal.h"

#include "../../base/pair_map.h"
#include "../../core/lease_rule.h"
#include "../../postgres/pool.h"
#include "journal_postgres_sql.h"

#include <pthread.h>
#include <stdatomic.h>

#define PG_READ_BYTES_ENOUGH (64 << 20) /* a read ends here even if more was asked for */
#define PG_TAKE_BYTES_ENOUGH (16 << 20)

typedef struct pg_lane {
    int32_t id; /* 0: there is none */
    ef_lane_kind kind;
} pg_lane;

/* Lanes are never removed and keep their kind, so what is known of one stays true. */
typedef struct pg_known_lane {
    pg_lane lane;
    char *name;
    size_t length;
} pg_known_lane;

typedef struct pg_append pg_append;

/*
 * What whoever leads an append remembers of the last one, for the next to guess by
 * (append_guess.c): where the log ends, where streams are, which types there are. Nothing of it is
 * believed: the server compares it, and an append that guessed wrong is undone and looks.
 */
typedef struct pg_guess {
    bool known; /* nothing has failed since the last append */
    int64_t position, recorded_us;
    uint8_t hash[EF_HASH_BYTES];
    int32_t partitions;
    int64_t clock_us, heard_us; /* the server's clock, and when it was heard by our monotonic one */
    ef__pair_map streams;       /* of pg_place_guess */
    ef__pair_map types;         /* of bool; the tenant is "" */
    int32_t pause, pause_next;  /* appends that look before one guesses again */
} pg_guess;

typedef struct pg_store {
    ef_journal base; /* first, so that an ef_journal * is this */
    ef__pg_pool *pool;
    bool given_clock; /* the caller's clock counts, not the server's: a test's */
    char journal_id[40];

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    pg_append *first, **last; /* appends that wait for somebody to lead */
    bool leading;
    bool listening;
    ef__pg_conn *listener; /* of whoever listens */
    int64_t heard;         /* how often something was: an append's word, or a nudge */
    pg_known_lane *lanes;
    size_t lane_count, lane_cap;
    pg_guess guess; /* of whoever leads */

    _Atomic int64_t
        seen; /* the highest position that was answered: a server behind it is refused */
    _Atomic int64_t commits, appended, stale_refused;
    _Atomic bool large_events; /* the last batch that was taken had some */
    _Atomic bool backlog;      /* a transaction was undone because too much waits for a position */
} pg_store;

static inline pg_store *pg_store_of(ef_journal *journal)
{
    return (pg_store *)journal;
}

/* The clock as a parameter: null for the server's own. */
void pg_add_clock(const pg_store *store, ef__pg_params *params);
void pg_saw(pg_store *store, int64_t position);
/* A transaction that writes, counted. */
ef_status pg_write(pg_store *store, ef__pg_work work, void *context, ef_error *err);
/* The same for what may be done twice: done again when the connection was lost in the commit. */
ef_status pg_write_again(pg_store *store, ef__pg_work work, void *context, ef_error *err);
/* The same on the connection, and in the transaction, of another store. */
ef_status pg_write_with(pg_store *store, ef__pg_conn *conn, ef__pg_work work, void *context,
                        ef_error *err);
void pg_guess_init(pg_guess *guess);
void pg_guess_release(pg_guess *guess);
/* Count a write that came too late, and pass the status on. */
ef_status pg_refused(pg_store *store, ef_status st);

/* --- results (row.c) -------------------------------------------------------------------------- */

/* A text of a result, copied. Its pointer is NULL when the arena is full. */
ef_str pg_copy(const PGresult *result, int row, int column, ef__arena *arena);
/* Room for the items of a list; NULL when the arena is full. */
void *pg_items(ef__arena *arena, int count, size_t size);

/* The columns that every statement with whole events begins with; its own follow. */
enum { PG_EVENT_DATA = 10, PG_EVENT_COLUMNS = 14 };

/* The event of a row, its texts in the result. `out_type` (may be NULL) is the name it is read by;
 * `out->type` the stored one. EF_DAMAGED when it is not as it was written. */
ef_status pg_event_look(const PGresult *result, int row, ef__buf *scratch, ef_event *out,
                        ef_str *out_type, ef_error *err);
/* Put the events of a result into a batch, up to `limit` and to where data was left out; `more`
 * says whether one was left. */
ef_status pg_events_copy(const PGresult *result, size_t limit, bool stored_types, ef_batch *out,
                         ef_error *err);

/* --- sequencing (sequence.c) ------------------------------------------------------------------ */

/* Where the log ends, for whoever has the sequencer's lock. */
typedef struct pg_end {
    int64_t position;
    int64_t recorded_us; /* of the last event, and then of those that are added */
    uint8_t hash[EF_HASH_BYTES];
    int32_t partitions;
    int64_t arrivals;           /* the highest number that waits; 0 none */
    int64_t clock_us, heard_us; /* the server's clock, and when it was heard by ours */
    ef__buf scratch;
} pg_end;

/* Events that are to be added to the log, as the statements take them. */
typedef struct pg_rows {
    int64_t first;      /* position */
    ef__pg_array types; /* names, each once: the caller's to add */
    ef__pg_array numbers, ids, data, meta;
    ef__buf hashes;
    ef__pg_array queued, queued_numbers; /* of those that get outbox rows */
} pg_rows;

void pg_rows_init(pg_rows *rows);
void pg_rows_release(pg_rows *rows);
/* Give the next position to `event`: everything of it but position, recorded_us and hash is set.
 * `type` is the number of its type's name in `types`, from 1; `made`: its id is nowhere else. */
ef_status pg_rows_add(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                      bool made, bool queue, ef_error *err);
/* Send the statements that write them, and empty `rows` but for the types. The server begins with
 * them at once. Whoever has sent the last of them sends PJ_NOTIFY. */
ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err);

/* Send what takes the sequencer's lock. */
ef_status pg_sequencer_lock(pg_store *store, ef__pg_conn *conn, ef_error *err);
/* Take the sequencer's lock, in a transaction, and give positions to all that waits for one. What
 * was sent before is taken. `end` is released by the caller. EF_BUSY: too much waits, see
 * pg_transaction_in_sequence. */
ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err);
/* The same in two halves: ask where the log ends, behind the lock that was asked for; and go on
 * when that lock was given. */
ef_status pg_sequence_ask(pg_store *store, ef__pg_conn *conn, ef_error *err);
ef_status pg_sequence_take(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err);
/* A transaction whose work begins a sequence. When too much waits for a position, the work is
 * undone and done again after all of that has got one, in transactions of its own. */
ef_status pg_transaction_in_sequence(pg_store *store, ef__pg_patience *patience, ef__pg_work work,
                                     void *context, ef_error *err);
void pg_end_release(pg_end *end);
/* A transaction of its own for that. */
ef_status pg_sequence(pg_store *store, ef_error *err);
/* Read by one statement, after whatever waited for a position has got one. */
ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err);
/* Give positions to what waits for one, if anything does. */
ef_status pg_settle(pg_store *store, ef_error *err);

/* --- lanes and leases ------------------------------------------------------------------------- */

/* The lane of that name: id 0 when there is none. */
ef_status pg_lane_find(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                       ef_error *err);
ef_status pg_lane_need(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                       ef_error *err);
/* The same, or a new lane of a projection. */
ef_status pg_lane_find_or_make(pg_store *store, ef__pg_conn *conn, ef_str name, pg_lane *out,
                               ef_error *err);

/* Send the question for the leases that partitions of a lane are held under … */
ef_status pg_hold_send(pg_store *store, ef__pg_conn *conn, const pg_lane *lane, ef_str name,
                       const ef_holding *held, size_t count, ef_error *err);
/* … and look whether they are live under these tokens: EF_LEASE_LOST. */
ef_status pg_hold_take(ef__pg_conn *conn, const pg_lane *lane, ef_str name, const ef_holding *held,
                       size_t count, ef_error *err);
/* One lease of any kind; *out_now_us (may be NULL) is the moment it was judged at. */
ef_status pg_token_check(pg_store *store, ef__pg_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err);
void pg_array_of_partitions(ef__pg_array *array, const ef_holding *held, size_t count);

/* --- the operations --------------------------------------------------------------------------- */

ef_status pg_append_events(ef_journal *journal, const ef__arrival *events, size_t count,
                           ef_place *out, ef_error *err);
void pg_append_each(ef_journal *journal, const ef__append *appends, size_t count);
ef_status pg_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                         size_t limit, ef_batch *out, ef_error *err);
ef_status pg_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out, ef_error *err);
ef_status pg_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out, ef_error *err);
ef_status pg_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                  ef_error *err);
ef_status pg_head(ef_journal *journal, ef_head *out, ef_error *err);
ef_status pg_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err);
ef_status pg_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err);
ef_status pg_type_set(ef_journal *journal, const ef_type *type, ef_error *err);
ef_status pg_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                     ef_error *err);
ef_status pg_verify(ef_journal *journal, int64_t from,
                    bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                    ef_verify_result *out, ef_error *err);
ef_status pg_facts(ef_journal *journal, ef_store_facts *out, ef_error *err);
ef_status pg_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                      ef_error *err);
ef_status pg_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
ef_status pg_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err);
ef_status pg_published_purge(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err);
ef_status pg_published_again(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err);
ef_status pg_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err);
ef_status pg_take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out, ef_error *err);
ef_status pg_mark(ef_journal *journal, const ef__marking *mark, ef_error *err);
ef_status pg_mark_with(ef_journal *journal, void *connection, const ef__marking *mark,
                       ef_error *err);
ef_status pg_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err);
ef_status pg_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err);
ef_status pg_outbox_waits(ef_journal *journal, bool *out, ef_error *err);
ef_status pg_retry_streams(ef_journal *journal, const ef__retry_query *query,
                           ef__retry_stream_list *out, ef_error *err);
ef_status pg_revise(ef_journal *journal, const ef__revise *revise, ef_row_list *out, ef_error *err);
ef_status pg_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
ef_status pg_skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                     size_t limit, ef__skip_list *out, ef_error *err);
ef_status pg_act_add(ef_journal *journal, const ef_act *act, ef_error *err);
ef_status pg_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out,
                    ef_error *err);
ef_status pg_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef__beat *beat, ef_error *err);
/* Add to the rows of these minutes, and drop those that are older than a day; in a transaction. */
ef_status pg_throughput_send(ef__pg_conn *conn, const ef_throughput *minutes, size_t count,
                             ef_error *err);
ef_status pg_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err);
ef_status pg_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);
ef_status pg_worker_leave(ef_journal *journal, ef_str id, ef_error *err);
ef_status pg_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                          int64_t *out_purged, ef_error *err);
ef_status pg_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);
ef_status pg_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);
ef_status pg_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_changed *out, ef_error *err);
ef_status pg_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out, ef_error *err);
ef_status pg_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                        int64_t token, ef_error *err);
ef_status pg_run_cancel(ef_journal *journal, ef_str id, ef_error *err);
ef_status pg_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                    ef_error *err);

#endif
