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
#pragma once

#include <everfold/journal.h>

EF_C_BEGIN

#define EF_LANE_APPLY "*" /* all stream-ordered projections */

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
    ef_str progress;   /* as stored by the last acknowledgement; setting a lane keeps it */
} ef_lane;

typedef struct ef_lane_list {
    const ef_lane *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_lane_list;

ef_status ef_lane_set(ef_journal *journal, const ef_lane *lane, ef_error *err);
ef_status ef_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
typedef enum ef_row_status {
    EF_ROW_PENDING,
    EF_ROW_PROCESSING,
    EF_ROW_FAILED,
    EF_ROW_DEAD,
    EF_ROW_DONE,     /* a retry row is done: never listed */
    EF_ROW_PUBLISHED /* published; listed only by a query for this status */
} ef_row_status;

/* How many are kept. There may be millions: `most` means that many or more. */
#define EF_PUBLISHED_COUNTED 100000 /* an exact count of millions would be slow */
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

EF_C_END
