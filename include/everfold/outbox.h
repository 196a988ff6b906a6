/*
 * outbox.h - the outbox: which events each lane has yet to process, and what failed.
 *
 * Appending an event writes one narrow row for every lane that wants it, in the same transaction. A
 * lane claims the rows of a partition in position order and then moves its offset past them, which
 * removes the rows. Only an event that fails gets a row with its own state, a retry row, in the
 * lane of the projection (or publisher) that failed; the offset moves on.
 *
 *     queued ─ claim ─► in flight ─ ack ─► removed (publishers: published, for retain_us)
 *                                   └─► retry row: failed ─► dead ─ requeue ─► pending ─► removed
 *                                       (later rows of the same stream are blocked as pending)
 *
 * `pending` and `processing` of queued rows are derived from the offset and the lease, not stored.
 */
#ifndef EVERFOLD_OUTBOX_H
#define EVERFOLD_OUTBOX_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_SUSPECT_PIECE 64 /* rows: one more crash narrows a large batch to this many */
#define EF_LANE_APPLY "*"   /* all stream-ordered projections */

typedef enum ef_lane_kind {
    EF_LANE_KIND_APPLY,      /* "*" */
    EF_LANE_KIND_PROJECTION, /* the lane of one projection: retry rows only, no queue */
    EF_LANE_KIND_PUBLISHER   /* the lane of one publisher */
} ef_lane_kind;

typedef struct ef_lane {
    ef_str name; /* 1 to 255 bytes; "*" is the apply lane, which always exists */
    ef_lane_kind kind;
    bool enabled; /* new events are queued for it */
    ef_str types; /* publishers: comma list of NAME or PREFIX*; "": all with the publish flag */
    /* Publishers only: */
    ef_str settings;   /* of the publisher, as a JSON object or ""; see publisher.h */
    int64_t retain_us; /* how long published events are kept; 0: not at all */
    ef_str progress;   /* as stored by ef_published_ack; setting a lane keeps it */
} ef_lane;

typedef struct ef_lane_list {
    const ef_lane *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_lane_list;

ef_status ef_lane_set(ef_journal *journal, const ef_lane *lane, ef_error *err);
ef_status ef_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
void ef_lane_list_release(ef_lane_list *list);
/*
 * Ends a publisher's lane: no more events are queued for it, and its settings, its rows and its
 * published events are deleted. Setting it creates it again. `out_rows` (may be NULL): the number
 * of rows deleted. EF_EXISTS  it has rows and `discard` is not set: nothing was changed
 */
ef_status ef_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err);

typedef enum ef_row_status {
    EF_ROW_PENDING,
    EF_ROW_PROCESSING,
    EF_ROW_FAILED,
    EF_ROW_DEAD,
    EF_ROW_DONE,     /* only as an argument of ef_outbox_ack: remove the retry row */
    EF_ROW_PUBLISHED /* published; listed only by a query for this status */
} ef_row_status;

const char *ef_row_status_name(ef_row_status status); /* "pending" */
/* Ignores case and surrounding white space. 0, or -1: not a status (EF_ROW_DONE is not one). */
int ef_row_status_parse(ef_str name, ef_row_status *out);

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
void ef_claimed_batch_release(ef_claimed_batch *batch);

/*
 * Claims the next rows of `lane` in the partitions held, in position order. The rows are recorded
 * as in flight under the tokens before the call returns, so that a crash can be attributed to them.
 * Claiming again without an acknowledgement in between returns the same rows.
 *
 * Rows that were in flight when a worker crashed may have caused the crash. They are claimed first
 * and separately: in pieces of EF_SUSPECT_PIECE while there are many, then one by one, until the
 * event that crashes its worker is isolated.
 *
 * EF_LEASE_LOST  a token is old or its lease has expired: nothing is claimed
 */
ef_status ef_outbox_claim(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                          size_t held_count, size_t limit, ef_claimed_batch *out, ef_error *err);
/*
 * Claims more rows of a publisher's lane while others are in flight: `after` is the last position
 * that was claimed under these tokens. Both batches stay in flight until they are acknowledged. 0:
 * the same as ef_outbox_claim.
 */
ef_status ef_outbox_claim_after(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                size_t held_count, int64_t after, size_t limit,
                                ef_claimed_batch *out, ef_error *err);

/*
 * Claims retry rows that are due: of each stream the first one in its lane, if it is pending or
 * failed and its time has come, followed by the pending ones after it. `lane` "" means the lanes of
 * all projections. Ordered by lane, then by due time. The claim is not recorded: count the attempt
 * (ef_retry_row.trying) before making it.
 */
ef_status ef_outbox_claim_due(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                              size_t held_count, size_t limit, ef_claimed_batch *out,
                              ef_error *err);

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

/*
 * Acknowledges a batch: moves the offsets of the partitions held, removes the rows up to them and
 * writes the retry rows, in one transaction that compares every token. In lane "*", and without
 * retry rows, power loss may undo it, and the rows are claimed again: watermarks then drop the
 * duplicates.
 * EF_LEASE_LOST  a token is old: nothing was changed
 */
ef_status ef_outbox_ack(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                        size_t held_count, const ef_retry_row *retry_rows, size_t retry_row_count,
                        ef_error *err);

/*
 * Files retry rows in the lanes of projections, for events that are not queued for them: a catch-up
 * failed on them, or a gap was found. An existing row stays as it is, and its `filed` grows. All or
 * none.
 *
 * No lease is needed: a row only refers to an event, and the watermark of the projection decides
 * whether the event is applied.
 */
ef_status ef_outbox_add_retry_rows(ef_journal *journal, const ef_retry_row *retry_rows,
                                   size_t retry_row_count, ef_error *err);

/*
 * The same for a publisher's lane, which also stores the position of its sink in the same
 * transaction: `progress` is a JSON object, and "" keeps the stored one. So a worker that takes
 * over reads a progress that matches the offsets.
 */
ef_status ef_published_ack(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                           size_t held_count, const ef_retry_row *retry_rows,
                           size_t retry_row_count, ef_str progress, ef_error *err);
/*
 * An event that a publisher's lane has published (its offset passed it, or its retry row is done
 * and was not skipped) is kept for the lane's retain_us. Purge removes expired ones, checking up to
 * `limit` rows; requeue returns up to `limit` of them to the lane, lowest position first, as
 * pending retry rows. Both work on all partitions under the lease of any one, because one worker
 * holds all partitions of a publisher. `out_count`: how many were removed or requeued.
 * EF_LEASE_LOST  the token is old: nothing was changed
 */
ef_status ef_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                             size_t limit, int64_t *out_count, ef_error *err);
ef_status ef_published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                               size_t limit, int64_t *out_count, ef_error *err);
/* How many are kept. There may be millions: `most` means that many or more. */
#define EF_PUBLISHED_COUNTED                                                                       \
    100000 /* limit for lists: an exact count of millions would be slow                            \
            */
ef_status ef_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err);

typedef struct ef_row {
    ef_str lane;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int64_t position;
    ef_str event_type;
    ef_row_status status;
    bool blocked; /* pending after a dead row of its stream */
    bool skip;    /* an operator skipped it; the lane has not passed it yet */
    int32_t partition;
    int32_t attempt_count;
    int64_t next_attempt_us; /* 0: none (queued rows, dead rows) */
    ef_str last_error;
    int64_t enqueued_us;
    int64_t updated_us;
    int64_t published_us; /* 0: not published; attempts of published rows are not kept */
    int64_t filed;        /* retry rows: how often it was filed */
    bool trying;          /* retry rows: an attempt is in progress, or its worker crashed */
} ef_row;

typedef struct ef_row_list {
    const ef_row *items;
    size_t count;
    char next[EF_CURSOR_MAX];
    struct ef__batch_memory *room;
} ef_row_list;

void ef_row_list_release(ef_row_list *list);

typedef struct ef_outbox_query {
    ef_str lane; /* "" all lanes */
    ef_str tenant;
    bool any_tenant;
    const ef_row_status *status; /* NULL: all but published */
    bool blocked_only;
    size_t limit; /* 0 gives no rows */
    ef_str after; /* cursor */
    int64_t from; /* ls: positions from here on; 0: all. Rows below are not read */
    /* ls: additional filters, all optional. */
    ef_str stream; /* of `tenant`: not with any_tenant */
    ef_str types;  /* comma list of NAME or PREFIX* */
    ef_str error;  /* a part of last_error, ignoring case */
    const int32_t *partition;
    int64_t before_us; /* enqueued before this time */
    int64_t upto;      /* published rows: positions up to here; 0: all */
} ef_outbox_query;

/*
 * Rows ordered by position, then lane; published rows in descending order, because they are a
 * history and not a queue. A query with filters other than lane, tenant and status (published rows:
 * other than lane) reads 10,000 rows per call: the list may then be short or empty although `next`
 * is set.
 */
ef_status ef_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err);

typedef struct ef_outbox_summary {
    int64_t pending; /* includes the blocked ones */
    int64_t processing;
    int64_t failed;
    int64_t dead;
    int64_t blocked;
    int64_t blocked_oldest_us; /* when the oldest blocked row was enqueued; 0: none */
    ef_row_list oldest;        /* the oldest pending or failed row that is not blocked, if any */
} ef_outbox_summary;

/* Counts and the oldest row, in one snapshot. Only lane and tenant of `query` are used. The rows of
 * a large queue are counted exactly; dead rows do not slow it down. */
ef_status ef_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err);

/* An operator's action on one event in one lane. Actor and reason go into the audit log. */
typedef struct ef_outbox_action {
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    ef_str lane; /* requeue: "" means every lane in which it is dead */
    ef_str actor;
    ef_str reason; /* required by skip */
    /* skip, in a projection's lane: the versions of the projection that skip the event. */
    const int32_t *versions;
    size_t version_count;
} ef_outbox_action;

/*
 * Requeues a dead row: pending, no attempts, due now, no error. `out` gets the rows.
 * EF_NOT_FOUND  the event has no dead row (in that lane): nothing is changed
 */
ef_status ef_outbox_requeue(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                            ef_error *err);

/* Selects dead rows for a bulk operation. Fields that are "" or 0 are ignored. */
typedef struct ef_outbox_bulk {
    ef_str lane;
    ef_str tenant; /* with `stream`, or with `one_tenant` */
    bool one_tenant;
    ef_str stream;
    ef_str types;      /* comma list of NAME or PREFIX* */
    ef_str error;      /* a part of last_error, ignoring case */
    int64_t before_us; /* enqueued before this time */
    int64_t limit;     /* at most this many, oldest first; 0: all */
    bool dry_run;      /* count the rows and change nothing */
    ef_str actor;
    ef_str reason; /* required by skip */
} ef_outbox_bulk;

#define EF_BULK_ROWS                                                                               \
    1000 /* rows per transaction, which keeps locks short; also the length of the list */

/*
 * Requeues dead rows, oldest first, in transactions of EF_BULK_ROWS rows. One audit entry counts
 * all of them. `out` gets the first EF_BULK_ROWS rows as they are afterwards. No row is not an
 * error.
 */
ef_status ef_outbox_requeue_dead(ef_journal *journal, const ef_outbox_bulk *bulk,
                                 int64_t *out_count, ef_row_list *out, ef_error *err);

/*
 * Skips an event: the lane passes it without applying it. The audit log has actor and reason. In a
 * projection's lane the skip holds for the given versions, in every build of them, and for no
 * other; ef_projection_skip finds the versions that are blocked at the event. A version that lacks
 * the event and is not given retries it as before. In a publisher's lane a queued row can be
 * skipped too; one that is in flight may have been delivered already. EF_NOT_FOUND  the event has
 * no such row in that lane
 */
ef_status ef_outbox_skip(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                         ef_error *err);

/* Rows of a lane with the same error. */
typedef struct ef_row_group {
    ef_str lane;
    ef_str error;          /* last_error of all rows */
    ef_str tenant, stream; /* of the oldest row */
    int64_t seq, position;
    int64_t rows;
    int64_t oldest_us; /* when the oldest row was enqueued */
} ef_row_group;

typedef struct ef_row_groups {
    const ef_row_group *items; /* most rows first */
    size_t count;
    int64_t rows; /* of all groups */
    bool more;    /* there are more than EF_ROW_GROUPS_MAX groups: the others are not listed */
    struct ef__batch_memory *room;
} ef_row_groups;

#define EF_ROW_GROUPS_MAX 1000 /* a list for people, collected in memory */
/* Groups the rows of `query` by lane and error. Limit and cursor of `query` are ignored. */
ef_status ef_outbox_group(ef_journal *journal, const ef_outbox_query *query, ef_row_groups *out,
                          ef_error *err);
void ef_row_groups_release(ef_row_groups *groups);

/* An audit entry: what an operator did. */
typedef struct ef_audit_entry {
    int64_t id;
    int64_t at_us;
    ef_str action; /* "requeue", "skip", "replay"; "switch", "rollback": lane is the projection, seq
                    * the number of the generation that was active before; "on_error": seq is the
                    * new setting (ef_on_error); "deploy", "pause", "resume", "rebuild", "retire":
                    * lane is the projection */
    ef_str actor;
    ef_str reason;
    ef_str lane;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int64_t rows; /* requeue, skip, replay: how many rows were changed */
} ef_audit_entry;

typedef struct ef_audit_list {
    const ef_audit_entry *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_audit_list;

/* Selects audit entries, newest first. Fields that are "" or 0 are ignored. */
typedef struct ef_audit_query {
    ef_str action;
    ef_str lane;
    int64_t after;  /* ids above this one */
    int64_t before; /* ids below this one: the last id of a page, to read the next */
    size_t limit;
    const ef_str *tenant; /* of one tenant; NULL: all. An entry about all tenants has the tenant ""
                           * and no stream, and is not one of the tenant "" */
} ef_audit_query;

ef_status ef_audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                      ef_error *err);
/* Adds an audit entry of another kind than those above. Id and time are set by the journal. */
ef_status ef_audit_add(ef_journal *journal, const ef_audit_entry *entry, ef_error *err);
void ef_audit_list_release(ef_audit_list *list);

#ifdef __cplusplus
}
#endif
#endif
