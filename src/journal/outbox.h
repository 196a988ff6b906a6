/*
 * outbox.h - the outbox of a journal: lanes, queued rows, retry rows and published rows.
 */
#pragma once

#include "../base/arena.h"
#include "../base/limits.h"

#include <everfold/everfold.h>

/* `ls` of a back end also lists published rows: newest first, down from `upto`. */
static inline bool ef__query_published(const ef_outbox_query *query)
{
    return query->status && *query->status == EF_ROW_PUBLISHED;
}

#define EF_SUSPECT_PIECE 64 /* rows: one more crash narrows a large batch to this many */

/* A partition that the caller works on, and the token of its lease. */
typedef struct ef_partition_lease {
    int32_t partition;
    int64_t token; /* of the lease (partition "" n) for apply lanes, (publisher LANE n) otherwise */
    int64_t upto;  /* ack only: everything up to this position is done; 0: keep the offset */
} ef_partition_lease;

/* A claimed row. `event` lives in the batch. */
typedef struct ef_claimed_row {
    const ef_event *event;
    ef_str lane;
    int32_t partition;
    int32_t attempts; /* failures so far */
    bool suspect;     /* it was in flight when a worker ended without an acknowledgement; never of
                       * publishers, whose rows are always claimed in position order */
    bool skip;        /* an operator skipped it: acknowledge it without applying it */
    bool follows;     /* claim_due: it follows the previous item, in the same stream */
    bool waits;       /* claim, publishers: its stream has an earlier retry row in the lane */
    ef_str error;     /* claim_due: the error of the last attempt; "" of a row that follows */
    int64_t filed;    /* claim_due: how often it was filed; pass it back with EF_ROW_DONE */
    bool interrupted; /* claim_due: an attempt started and never ended, because its worker crashed
                       * or lost its lease. `attempts` includes it. */
} ef_claimed_row;

typedef struct ef_claimed_batch {
    const ef_claimed_row *items;
    size_t count;
    bool more;
    ef_batch events;     /* the events of the items */
    int64_t next_due_us; /* claim_due: when the next row is due; 0: none */
} ef_claimed_batch;

#define EF_CLAIMED_BATCH_INIT                                                                      \
    {                                                                                              \
        NULL, 0, false, EF_BATCH_INIT, 0                                                           \
    }

/* The result of one event in one lane, for events that failed and the events blocked by them. */
typedef struct ef_retry_row {
    ef_str lane; /* the failing projection's (created if new) or the publisher's own */
    int64_t position;
    ef_row_status status; /* PENDING (blocked), FAILED, DEAD, or DONE: remove the row */
    int32_t attempts;
    int64_t due_us; /* FAILED and PENDING: not before; 0: at once */
    ef_str error;   /* cut at 1,000 bytes, between characters */
    int64_t filed;  /* DONE: the value of the claim. A row that was filed again since then stays:
                     * another build of the projection lacks the event */
    bool trying; /* an attempt starts; `attempts` includes it. The next write of the row ends it */
    bool skip;   /* the value of the claim. DONE without it: a skip since then came too late, the
                  * event was applied, and the skip is withdrawn. Not DONE with it: versions that
                  * the skip does not cover still lack the event */
} ef_retry_row;

/* A claim of rows of a lane. */
typedef struct ef__claim_request {
    ef_str lane;
    bool due; /* retry rows that are due, instead of queued rows */
    const ef_partition_lease *held;
    size_t held_count;
    int64_t
        after; /* publishers' lanes only: the last position that was claimed under these tokens */
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

typedef struct ef__outbox_ops {
    /* With `expected`, only if the lane is equal to it; EF_CONFLICT otherwise. */
    ef_status (*lane_set)(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                          ef_error *err);
    ef_status (*lane_ls)(ef_journal *journal, ef_lane_list *out, ef_error *err);
    ef_status (*lane_drop)(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                           ef_error *err);
    /* Published rows of a publisher's lane: each call is a transaction that compares the token. */
    ef_status (*published_purge)(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                 size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_requeue)(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                   size_t limit, int64_t *out_count, ef_error *err);
    ef_status (*published_count)(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                 ef_error *err);
    ef_status (*claim)(ef_journal *journal, const ef__claim_request *request, ef_claimed_batch *out,
                       ef_error *err);
    /* `connection`: in a transaction of another store in the same database, on its connection; only
     * where ef__store_ops.database is set. NULL: one transaction. */
    ef_status (*ack)(ef_journal *journal, void *connection, const ef__ack_request *request,
                     ef_error *err);
    ef_status (*ls)(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                    ef_error *err);
    ef_status (*summarise)(ef_journal *journal, const ef_outbox_query *query,
                           ef_outbox_summary *out, ef_error *err);
    ef_status (*has_work)(ef_journal *journal, bool *out, ef_error *err);
    /* Ordered by the position of the first row. A lane that does not exist has none. */
    ef_status (*retry_streams)(ef_journal *journal, const ef__retry_query *query,
                               ef__retry_stream_list *out, ef_error *err);
    /* Optional, for stores behind a network: the position up to which every event was delivered to
     * the live projections, and then a page of retry_streams, in one round trip. `send` does not
     * wait; `receive` does, and has to follow. `sent` NULL: nothing was sent yet. */
    void *(*delivery_send)(ef_journal *journal, const ef__retry_query *query);
    ef_status (*delivery_receive)(ef_journal *journal, void *sent, const ef__retry_query *query,
                                  int64_t *out_delivered, ef__retry_stream_list *out,
                                  ef_error *err);
    /* One transaction: rows, skips of the versions, audit entry. `out` gets the revised rows. */
    ef_status (*revise)(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                        ef_error *err);
} ef__outbox_ops;

/* ef_lane_set, only if the lane is equal to `expected`, which was read before; NULL: always.
 * EF_CONFLICT: it was changed since, and is kept. */
ef_status ef__lane_replace(ef_journal *journal, const ef_lane *expected, const ef_lane *lane,
                           ef_error *err);
/*
 * Ends a publisher's lane: no more events are queued for it, and its settings, its rows and its
 * published events are deleted. Setting it creates it again. `out_rows` (may be NULL): the number
 * of rows deleted. EF_EXISTS  it has rows and `discard` is not set: nothing was changed
 */
ef_status ef__lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                        ef_error *err);

void ef__claimed_batch_release(ef_claimed_batch *batch);
EF__AUTO_TYPE(ef_claimed_batch, ef__claimed_batch_release)

/*
 * Claims the next rows of `request->lane` in the partitions held, in position order. The rows are
 * recorded as in flight under the tokens before the call returns, so that a crash can be attributed
 * to them. Claiming again without an acknowledgement in between returns the same rows.
 *
 * Rows that were in flight when a worker crashed may have caused the crash. They are claimed first
 * and separately: in pieces of EF_SUSPECT_PIECE while there are many, then one by one, until the
 * event that crashes its worker is isolated.
 *
 * With `after` it claims more rows of a publisher's lane while others are in flight. Both batches
 * stay in flight until they are acknowledged.
 *
 * With `due` it claims retry rows that are due: of each stream the first one in its lane, if it is
 * pending or failed and its time has come, followed by pending ones after it, as far as `limit` has
 * space beside the first ones. The lane "" means the lanes of all projections. Ordered by lane, then
 * by due time. This claim is not recorded:
 * count the attempt (ef_retry_row.trying) before making it.
 *
 * EF_LEASE_LOST  a token is old or its lease has expired: nothing is claimed
 */
ef_status ef__outbox_claim(ef_journal *journal, const ef__claim_request *request,
                           ef_claimed_batch *out, ef_error *err);

/*
 * Acknowledges a batch: moves the offsets of the partitions held, removes the rows up to them and
 * writes the retry rows, in one transaction that compares every token; that of a publisher also
 * stores the position of its sink, so that a worker that takes over reads a progress that matches
 * the offsets. In lane "*", and without retry rows, power loss may undo it, and the rows are
 * claimed again: watermarks then drop the duplicates.
 *
 * Without partitions it needs no lease, because a row only refers to an event, and the watermark of
 * the projection decides whether the event is applied. Then it files retry rows in the lanes of
 * projections, for events that are not queued for them: a catch-up failed on them, or a gap was
 * found. An existing row stays as it is, and its `filed` grows. Rows that are DONE are removed: no
 * generation needs them any more; one that was filed again since it was read stays. All or none.
 *
 * `connection` is that of a store that shares the database, or NULL.
 * EF_LEASE_LOST  a token is old: nothing was changed
 */
ef_status ef__outbox_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                         ef_error *err);

/*
 * An event that a publisher's lane has published (its offset passed it, or its retry row is done
 * and was not skipped) is kept for the lane's retain_us. Purge removes expired ones, checking up to
 * `limit` rows; requeue returns up to `limit` of them to the lane, lowest position first, as
 * pending retry rows. Both work on all partitions under the lease of any one. Requeue only while
 * all of them are held, because it precedes the rows in flight. `out_count`: how many were removed
 * or requeued.
 * EF_LEASE_LOST  the token is old: nothing was changed
 */
ef_status ef__published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                              size_t limit, int64_t *out_count, ef_error *err);
ef_status ef__published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                size_t limit, int64_t *out_count, ef_error *err);

/*
 * Skips an event: the lane passes it without applying it. The audit log has actor and reason. In a
 * projection's lane the skip holds for the given versions, in every build of them, and for no
 * other; ef_projection_skip finds the versions that are blocked at the event. A version that lacks
 * the event and is not given retries it as before. In a publisher's lane a queued row can be
 * skipped too; one that is in flight may have been delivered already. EF_NOT_FOUND  the event has
 * no such row in that lane
 */
ef_status ef__outbox_skip(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                          ef_error *err);

/* Is there a row in "*", or in a projection's lane, that workers have to process now or later? Dead
 * rows, and rows blocked by them, need an operator. Reads few rows, however many there are. */
ef_status ef__outbox_has_work(ef_journal *journal, bool *out, ef_error *err);
/* Lists streams that have retry rows in a lane, up to `limit`, ordered by their first rows. */
ef_status ef__retry_streams(ef_journal *journal, const ef__retry_query *query,
                            ef__retry_stream_list *out, ef_error *err);
/* As ef__outbox_ops.revise. */
ef_status ef__outbox_revise(ef_journal *journal, const ef__revision_request *revise,
                            ef_row_list *out, ef_error *err);
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

/* --- shared by back ends ---------------------------------------------------------------------- */

/* The lease that allows work on a partition of a lane. */
ef_lease_key ef__lane_lease(ef_lane_kind kind, ef_str lane, int32_t partition);

/* The index of a partition in the array of held leases, plus 1; 0: not held. */
typedef struct ef__held_map {
    uint16_t of[EF_LIMIT_PARTITIONS];
} ef__held_map;

void ef__held_map_init(ef__held_map *map, const ef_partition_lease *held, size_t count);
/* The index of the lease, or -1. */
int ef__held_find(const ef__held_map *map, int32_t partition);

/*
 * The offset of a lane in a partition: all queued rows are above `position`. `in_flight` is the
 * last row of a claimed batch, or 0. Rows that were in flight under an older token are suspect
 * until they are acknowledged.
 */
typedef struct ef__lane_offset {
    int64_t position, in_flight, in_flight_token, suspect;
} ef__lane_offset;

bool ef__lane_offset_same(const ef__lane_offset *a, const ef__lane_offset *b);
/* Up to which row they may have crashed their worker: those in flight under another token. */
int64_t ef__lane_offset_suspect(const ef__lane_offset *offset, int64_t token);
/* Records the rows of a batch as in flight, in the offsets of the held leases. With `extends` the
 * batches before it stay in flight. */
void ef__lane_offsets_claim(ef__lane_offset *offsets, const ef_partition_lease *held, size_t count,
                            const ef__held_map *map, const ef_claimed_batch *batch, bool extends);
/* Moves the offset; false: it is there already. */
bool ef__lane_offset_ack(ef__lane_offset *offset, int64_t upto);
/* Only rows that were claimed under the same token can be acknowledged. */
ef_status ef__upto_check(ef_str lane, const ef_partition_lease *held, const ef__lane_offset *offset,
                         ef_error *err);

/* A stored retry row. */
typedef struct ef__retry_state {
    ef_row_status status;
    bool skip; /* a dead row is never flagged */
    int32_t attempts;
    int64_t due_us;
    ef_str error;
    int64_t updated_us, filed;
    bool trying; /* an attempt is under way */
} ef__retry_state;

/* An event, its row in the acknowledged lane, and its retry row, if they exist. */
typedef struct ef__acked_event {
    int64_t stream, seq;
    ef_str tenant, name;
    int32_t partitions; /* of the journal, or EF_LIMIT_PUBLISHER_PARTITIONS */
    bool has_stream, has_queued_in, has_filed_in;
    int32_t queued_in, filed_in; /* partitions */
    ef__retry_state row;
} ef__acked_event;

/* A queued row or retry row keeps its partition; the number of partitions may have changed. */
int32_t ef__acked_partition(const ef__acked_event *event);

typedef enum ef__retry_change {
    EF__RETRY_KEEP,
    EF__RETRY_FILE, /* it exists, and is only counted */
    EF__RETRY_WRITE,
    EF__RETRY_REMOVE
} ef__retry_change;

void ef__retry_state_write(ef__retry_state *row, const ef_retry_row *given, bool exists,
                           int64_t now_us);
/* Changes a retry row as `given` of an acknowledgement says. `passes`: the acknowledgement moves
 * the offset past the queued event. */
ef__retry_change ef__retry_state_ack(ef__retry_state *row, const ef_retry_row *given, bool exists,
                                     bool is_leased, bool passes, int64_t now_us);

/* Which rows a page has, as the statements of SQLite and PostgreSQL get it. */
typedef enum ef__row_show {
    EF__ROWS_ALL,
    EF__ROWS_BLOCKED,
    EF__ROWS_WAITING, /* pending and failed rows that are not blocked */
    EF__ROWS_RETRY    /* not the queued ones; SQLite only */
} ef__row_show;

typedef struct ef__row_page {
    ef_str lane; /* "": all */
    bool any_tenant;
    ef_str tenant;
    int32_t status; /* -1: all */
    ef__row_show show;
    int64_t from;       /* position */
    int64_t after;      /* position of the row before the page … */
    int64_t after_lane; /* … and its lane */
    int64_t limit;      /* one row more than the page, in order to know whether it is the last */
    int64_t now_us;
} ef__row_page;

/* A row of such a page. */
typedef struct ef__listed_row {
    ef_row row;
    int64_t lane_id;
} ef__listed_row;

/* The page of a query, except for the time. */
ef_status ef__row_page_init(ef__row_page *page, const ef_outbox_query *query, ef_error *err);
/* The one with the oldest waiting row. */
ef__row_page ef__row_page_oldest(const ef_outbox_query *query, int64_t now_us);
/* Up to `limit` of these rows as items of a list, with a cursor if there are more. */
ef_status ef__rows_take(const ef__listed_row *rows, size_t count, size_t limit, ef_row_list *out,
                        ef_error *err);

/* EF_OK for a publisher's lane; EF_BAD_INPUT. */
ef_status ef__lane_publishes(ef_str name, ef_lane_kind kind, ef_error *err);
ef_status ef__lane_changed(ef_str lane, ef_error *err); /* EF_CONFLICT */
/* EF_NOT_FOUND: the event of an operator's action has no retry row, or no dead one. */
ef_status ef__no_retry_row(const ef_outbox_action *action, bool dead_only, ef_error *err);
/* EF_EXISTS: `rows` rows wait in a lane that is to be dropped. */
ef_status ef__lane_drop_check(ef_str name, int64_t rows, bool discard, ef_error *err);
