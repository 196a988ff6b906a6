/*
 * outbox.h - what still has to be taken, by whom, and what went wrong.
 *
 * Appending an event writes one narrow row for every lane that wants it, in the same transaction.
 * A lane takes a partition's rows in the order of positions and then moves its mark past them: the
 * rows are gone. Only what fails gets a row with a state of its own, an exception, in the lane of
 * the projection (or publisher) that failed; the mark goes on.
 *
 *     queued ─ take ─► in hand ─ mark ─► gone (of a publisher: published, for its lane's retain_us)
 *                                └─► exception: failed ─► dead ─ requeue ─► pending ─► gone
 *                                               (rows of the same stream behind it wait as pending)
 *
 * `pending` and `processing` of queued rows are derived from the mark and the lease, never stored.
 */
#ifndef EVERFOLD_OUTBOX_H
#define EVERFOLD_OUTBOX_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_SUSPECT_PIECE 64
#define EF_LANE_APPLY "*" /* all stream-ordered projections at once */

typedef enum ef_lane_kind {
    EF_LANE_KIND_APPLY,      /* "*" */
    EF_LANE_KIND_PROJECTION, /* own lane of one projection: exceptions only, nothing is queued */
    EF_LANE_KIND_PUBLISHER   /* a publisher's lane */
} ef_lane_kind;

typedef struct ef_lane {
    ef_str name; /* 1 to 255 bytes; "*" is the apply lane and always there */
    ef_lane_kind kind;
    bool enabled; /* new events are queued for it */
    ef_str types; /* publishers: comma list of NAME or PREFIX*; "" all whose publish flag is set */
    /* Publishers only: */
    ef_str settings;   /* what its owner has to know, as a JSON object or ""; see publisher.h */
    int64_t retain_us; /* what was published is kept for so long; 0: it is gone at once */
    ef_str progress;   /* as ef_published_mark has noted it; setting a lane leaves it */
} ef_lane;

typedef struct ef_lane_list {
    const ef_lane *items;
    size_t count;
    struct ef__batch_room *room;
} ef_lane_list;

ef_status ef_lane_set(ef_journal *journal, const ef_lane *lane, ef_error *err);
ef_status ef_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
void ef_lane_list_release(ef_lane_list *list);
/*
 * End a publisher's lane: nothing more is queued for it, and its settings, its rows and what it has
 * published are gone. Setting it makes it anew. `out_rows` (may be NULL): the rows that were thrown
 * away.
 * EF_EXISTS  rows wait in it and `discard` is not set: nothing was changed
 */
ef_status ef_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err);

typedef enum ef_row_status {
    EF_ROW_PENDING,
    EF_ROW_PROCESSING,
    EF_ROW_FAILED,
    EF_ROW_DEAD,
    EF_ROW_DONE,     /* only as a result handed to ef_outbox_mark: the exception is over */
    EF_ROW_PUBLISHED /* a publisher is through with it: listed where it is asked for by name */
} ef_row_status;

const char *ef_row_status_name(ef_row_status status); /* "pending" */
/* Trimmed, any case. 0, or -1 when there is no such status. EF_ROW_DONE is not one. */
int ef_row_status_parse(ef_str name, ef_row_status *out);

/* A partition somebody works on, and the token of the lease that allows it. */
typedef struct ef_holding {
    int32_t partition;
    int64_t token; /* of the lease (partition "" n) for apply lanes, (publisher LANE n) otherwise */
    int64_t upto;  /* mark only: take everything up to this position as done; 0 leaves the mark */
} ef_holding;

/* A row that was taken. `event` lives in the batch. */
typedef struct ef_taken {
    const ef_event *event;
    ef_str lane;
    int32_t partition;
    int32_t attempts; /* failures so far */
    bool suspect;     /* it was in hand when an earlier owner vanished; never of publishers, whose
                       * rows come in the order of positions whatever happened to them before */
    bool skip;        /* an operator skipped it: move on without applying */
    bool follows;     /* take_due: it waits behind the item before it */
    bool waits;       /* take, publishers: its stream has an exception before it in the lane */
    ef_str error;     /* take_due: what the last attempt said; "" of one that follows */
    int64_t filed;    /* take_due: how often it was filed; handed back with EF_ROW_DONE */
    bool interrupted; /* take_due: an attempt was begun and never settled, so the worker that made
                       * it ended or lost its lease. It is counted in `attempts`. */
} ef_taken;

typedef struct ef_taken_batch {
    const ef_taken *items;
    size_t count;
    bool more;
    ef_batch events; /* what the items point into */
    int64_t
        next_due_us; /* take_due: when the next one comes due; 0: none is waiting for its time */
} ef_taken_batch;

#define EF_TAKEN_BATCH_INIT                                                                        \
    {                                                                                              \
        NULL, 0, false, EF_BATCH_INIT, 0                                                           \
    }
void ef_taken_batch_release(ef_taken_batch *batch);

/*
 * Take the next rows of `lane` in the partitions held, in the order of positions, and note them
 * under the tokens before answering (so that a crash can be laid at their door). Taking again
 * without a mark between gives the same rows again.
 *
 * What an owner that vanished had in hand may have been what ended it. It comes first and by
 * itself: in pieces of EF_SUSPECT_PIECE when there is much of it, then one by one; so whoever
 * vanishes over a piece leaves less in hand, and one that was alone in hand is known.
 *
 * EF_LEASE_LOST  one of the tokens is old or its lease has run out: nothing is taken
 */
ef_status ef_outbox_take(ef_journal *journal, ef_str lane, const ef_holding *held,
                         size_t held_count, size_t limit, ef_taken_batch *out, ef_error *err);
/*
 * Of a publisher's lane, take what follows on what is in hand: `after` is the last position that
 * was taken before under these tokens. It stays in hand until it is marked, and so does what this
 * takes. 0: as ef_outbox_take.
 */
ef_status ef_outbox_take_after(ef_journal *journal, ef_str lane, const ef_holding *held,
                               size_t held_count, int64_t after, size_t limit, ef_taken_batch *out,
                               ef_error *err);

/*
 * Take exceptions that are due: the first of each stream in its lane, if it is pending or failed
 * and its time has come, each followed by the pending ones that wait behind it. `lane` "" means the
 * own lanes of all projections. Lane by lane, what was due first comes first. Nothing is noted:
 * whoever tries one counts the attempt first.
 */
ef_status ef_outbox_take_due(ef_journal *journal, ef_str lane, const ef_holding *held,
                             size_t held_count, size_t limit, ef_taken_batch *out, ef_error *err);

/* What became of one event in one lane. Only failures and what waits behind them need one. */
typedef struct ef_exception {
    ef_str lane; /* the failing projection's (made when it is new) or the publisher's own */
    int64_t position;
    ef_row_status status; /* PENDING (waits its turn), FAILED, DEAD, or DONE: remove the row */
    int32_t attempts;
    int64_t due_us; /* FAILED and PENDING: not before; 0 means at once */
    ef_str error;   /* cut at 1,000 bytes at a character's end */
    int64_t filed;  /* DONE: as it was taken. A row that was filed since then stays: somebody else
                     * has found in between that it lacks the event */
    bool trying;    /* an attempt begins: `attempts` counts it. The next write of the row ends it */
    bool skip;      /* as it was taken. DONE without it: a skip that came meanwhile came too late,
                     * the event was applied, and the skip is withdrawn. Not DONE with it: versions
                     * that the skip does not hold for still lack the event */
} ef_exception;

/*
 * Settle a batch: move the marks of the partitions held, drop the rows they pass, write the
 * exceptions, all in one transaction that compares every token. In lane "*", and without
 * exceptions, a power cut may undo it, and the rows come again: whoever applies knows what he has
 * applied. EF_LEASE_LOST  a token is old: nothing was changed
 */
ef_status ef_outbox_mark(ef_journal *journal, ef_str lane, const ef_holding *held,
                         size_t held_count, const ef_exception *exceptions, size_t exception_count,
                         ef_error *err);

/*
 * File exceptions in the own lanes of projections, for events that no queued row will bring them: a
 * catch-up failed on them, or a gap was found. One that is there stays as it is, but for the count
 * of its filings. All or none.
 *
 * This asks for no lease: a row is only a pointer, and how far the projection is in the stream
 * decides what becomes of it.
 */
ef_status ef_outbox_file(ef_journal *journal, const ef_exception *exceptions,
                         size_t exception_count, ef_error *err);

/*
 * The same of a publisher's lane, and in the same transaction note how far it is in its owner's own
 * terms: `progress` is a JSON object, and "" leaves what was noted before. So whoever takes over
 * reads a note that is as old as the marks.
 */
ef_status ef_published_mark(ef_journal *journal, ef_str lane, const ef_holding *held,
                            size_t held_count, const ef_exception *exceptions,
                            size_t exception_count, ef_str progress, ef_error *err);
/*
 * What a publisher's lane is through with (its mark has passed it, or its exception is over, unless
 * it was skipped) is kept for the lane's retain_us. Purge removes what has been kept for long
 * enough, looking at up to `limit` rows; republish hands up to `limit` of them to the lane again,
 * lowest position first, as pending exceptions. Both of all partitions, under the lease of any one:
 * a publisher's are one worker's. `out_count`: how many it removed or handed back.
 * EF_LEASE_LOST  the token is old: nothing was changed
 */
ef_status ef_published_purge(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err);
ef_status ef_published_again(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err);
/* How many are kept. There may be millions: `most` stands for that many or more. */
#define EF_PUBLISHED_COUNTED 100000 /* what people are shown */
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
    bool blocked; /* pending behind a dead row of its stream */
    bool skip;    /* an operator skipped it; the lane has yet to pass it */
    int32_t partition;
    int32_t attempt_count;
    int64_t next_attempt_us; /* 0 when it has none (queued rows, dead rows) */
    ef_str last_error;
    int64_t enqueued_us;
    int64_t updated_us;
    int64_t published_us; /* 0 of all that are not published; of those the attempts are not kept */
    int64_t filed;        /* retry rows: how often it was filed since it was made */
    bool trying;          /* retry rows: an attempt is under way, or ended with its worker */
} ef_row;

typedef struct ef_row_list {
    const ef_row *items;
    size_t count;
    char next[EF_CURSOR_MAX];
    struct ef__batch_room *room;
} ef_row_list;

void ef_row_list_release(ef_row_list *list);

typedef struct ef_outbox_query {
    ef_str lane; /* "" all lanes */
    ef_str tenant;
    bool any_tenant;
    const ef_row_status *status; /* NULL all but the published ones */
    bool blocked_only;
    size_t limit; /* 0 gives no rows */
    ef_str after; /* cursor */
    int64_t from; /* ls: only positions from here on; 0 all. Costs no more however much is below */
    /* ls, all optional: what is picked from the rows above. */
    ef_str stream; /* of `tenant`: not with any_tenant */
    ef_str types;  /* comma list of NAME or PREFIX* */
    ef_str error;  /* a part of last_error, in capital or small letters */
    const int32_t *partition;
    int64_t before_us; /* enqueued before this time */
    int64_t upto;      /* published ones: only positions up to here; 0 all */
} ef_outbox_query;

/*
 * Rows in the order of position, then lane; published ones in the opposite order, the newest first,
 * for they are a history and no queue. What is picked by more than lane, tenant and status (of
 * published ones: by more than lane) is looked for among 10,000 rows at a time: the list may then
 * be short, or empty, and `next` still say that there is more behind it.
 */
ef_status ef_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err);

typedef struct ef_outbox_summary {
    int64_t pending; /* includes the blocked ones */
    int64_t processing;
    int64_t failed;
    int64_t dead;
    int64_t blocked;
    int64_t blocked_oldest_us; /* when the oldest blocked row was enqueued; 0 when none */
    ef_row_list oldest;        /* the oldest pending or failed row that is not blocked, if any */
} ef_outbox_summary;

/* Counts and the oldest row, all as of one moment. Lane and tenant of `query` are looked at.
 * Queued rows of a large backlog are counted exactly; dead ones never slow it down. */
ef_status ef_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err);

/* One event in one lane, for an operator's act, with who acts and why (kept for good). */
typedef struct ef_outbox_act {
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    ef_str lane; /* requeue: "" means every lane in which it is dead */
    ef_str who;
    ef_str reason; /* skip needs one */
    /* skip, in a projection's lane: the versions of the projection that pass the event. */
    const int32_t *versions;
    size_t version_count;
} ef_outbox_act;

/*
 * Put a dead row back: pending, no attempts, due now, no error. `out` gets the rows.
 * EF_NOT_FOUND  there is no dead row of that event (in that lane): nothing is changed
 */
ef_status ef_outbox_requeue(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out,
                            ef_error *err);

/* Dead rows, for an operation on many of them. What is "" or 0 does not matter. */
typedef struct ef_outbox_bulk {
    ef_str lane;
    ef_str tenant; /* with `stream`, or with `one_tenant` */
    bool one_tenant;
    ef_str stream;
    ef_str types;      /* comma list of NAME or PREFIX* */
    ef_str error;      /* a part of last_error, in capital or small letters */
    int64_t before_us; /* enqueued before this time */
    int64_t limit;     /* at most this many, oldest first; 0: all */
    bool dry_run;      /* count them and change nothing */
    ef_str who;
    ef_str reason; /* skip needs one */
} ef_outbox_bulk;

#define EF_BULK_ROWS 1000 /* rows that an operation on many lists; it counts all of them */

/*
 * Requeue dead rows, oldest first, in transactions of EF_BULK_ROWS rows. One audit entry counts all
 * of them. `out` gets the first EF_BULK_ROWS rows as they are afterwards. None is fine.
 */
ef_status ef_outbox_requeue_dead(ef_journal *journal, const ef_outbox_bulk *bulk,
                                 int64_t *out_count, ef_row_list *out, ef_error *err);

/*
 * Let a lane pass an event without applying it. Who and why are kept. In a projection's lane the
 * skip holds for the versions that are given, in every build of them, and for no other; which
 * versions are blocked at the event is known to the engine (ef_projection_skip). A version that
 * lacks the event and is not given tries it as before. In a publisher's lane a queued row can be
 * skipped too; one that is in flight may have been delivered already.
 * EF_NOT_FOUND  the event has no such row in that lane
 */
ef_status ef_outbox_skip(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out,
                         ef_error *err);

/* Dead rows, or others, by what they have in common. */
typedef struct ef_row_group {
    ef_str lane;
    ef_str error;          /* last_error of all of them */
    ef_str tenant, stream; /* of the oldest, with its … */
    int64_t seq, position;
    int64_t rows;
    int64_t oldest_us; /* when the oldest was enqueued */
} ef_row_group;

typedef struct ef_row_groups {
    const ef_row_group *items; /* most rows first */
    size_t count;
    int64_t rows; /* of all groups */
    bool more;    /* there are more than EF_ROW_GROUPS_MAX: the others are not listed */
    struct ef__batch_room *room;
} ef_row_groups;

#define EF_ROW_GROUPS_MAX 1000
/* Groups the rows that `query` finds by lane and error. Limit and cursor of `query` do not matter.
 */
ef_status ef_outbox_group(ef_journal *journal, const ef_outbox_query *query, ef_row_groups *out,
                          ef_error *err);
void ef_row_groups_release(ef_row_groups *groups);

/* What operators did, newest first. */
typedef struct ef_act {
    int64_t id;
    int64_t at_us;
    ef_str act; /* "requeue", "skip", "replay"; "switch", "rollback": lane is the projection, seq
                 * the number of the generation that queries went to before; "on_error": seq is what
                 * the projection was told (ef_on_error); "deploy", "pause", "resume", "rebuild",
                 * "retire": lane is the projection */
    ef_str who;
    ef_str reason;
    ef_str lane;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int64_t rows; /* requeue, skip, replay: how many rows it was done to */
} ef_act;

typedef struct ef_act_list {
    const ef_act *items;
    size_t count;
    struct ef__batch_room *room;
} ef_act_list;

/* Which acts. What is "" or 0 does not matter. */
typedef struct ef_act_query {
    ef_str act;
    ef_str lane;
    int64_t after;  /* ids above this one … */
    int64_t before; /* … and below this one: the last of a page, to go on behind it */
    size_t limit;
    const ef_str *tenant; /* of one tenant; NULL: all. An entry about all tenants is kept under the
                           * tenant "" without a stream, and is not one of the tenant "" */
} ef_act_query;

ef_status ef_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out,
                    ef_error *err);
/* Note an act of another kind than those above: a word, who, why, and what it was done to. The id
 * and the time are the journal's. */
ef_status ef_act_add(ef_journal *journal, const ef_act *act, ef_error *err);
void ef_act_list_release(ef_act_list *list);

#ifdef __cplusplus
}
#endif
#endif
