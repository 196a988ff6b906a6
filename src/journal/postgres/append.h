/*
 * append.h - appends of several threads that share a transaction (append.c): the rows that are
 * looked up before the decisions (append_lookup.c), and the decisions.
 */
#pragma once

#include "store.h"

typedef struct pg_append {
    ef__batch_job queued; /* first */
    const ef__arrival *events;
    size_t count;
    ef_place *out;
    ef_error *err;
    ef_status status;
    bool held; /* EF_BUSY: an open transaction holds a lock; the retry gets its own transaction */
    pg_unplaced *unplaced; /* after EF_OK: its events that have no position yet; NULL: none */
    size_t unplaced_count;
} pg_append;

static inline pg_append *pg_append_next(const pg_append *job)
{
    return (pg_append *)job->queued.next;
}

typedef struct pair {
    ef_str a, b;
} pair;

typedef struct head {
    int64_t id, seq;
} head;

/* An id that was given: an event of this group, or a stored one. */
typedef struct known {
    int32_t accepted; /* index of the event of this group; -1: none */
    int64_t stream, seq;
    bool exists;
    bool found; /* … and `event` was read: it has its position */
    ef_event event;
} known;

typedef struct item {
    const ef__arrival *arrival;
    ef_place *place;
    int32_t stream, id, type; /* indexes of the distinct ones; id -1: generated */
    int32_t accepted; /* index of its event, or of the one that it duplicates; -1: a stored event */
} item;

typedef struct accepted {
    const item *item;
    int64_t stream, seq, position;
} accepted;

typedef struct pg_append_group {
    pg_store *store;
    pg_append *jobs;
    size_t event_count;
    ef__arena arena; /* of one attempt */
    item *items;
    pair *streams, *ids, *types;
    size_t stream_count, id_count, type_count;
    head *heads;
    known *knowns;
    bool *types_known, *types_new;
    ef_str *type_tenants;       /* of new types: the tenant whose append creates it */
    ef__pair_map types_wanted;  /* tenant and name: new types of its appends */
    ef__pair_map types_created; /* tenant and "": how many it has created, with those */
    int64_t types_all;          /* types in the journal, if any is new */
    accepted *accepted;
    size_t accepted_count;
    ef__pg_rows stored; /* memory of the events in `knowns` */
    ef__buf scratch;
    pg_since since;
    pg_placing
        placing; /* … of the accepted events; unless PG_UNPLACED, `end` is the end of the log */
    PGresult *guessed;   /* … whether the server has decided for PG_PLACED */
    pg_end end, assumed; /* `assumed`: before the accepted events */
    bool is_sealed;      /* it has events of another journal: they must get positions */
    bool meets_unplaced; /* an id belongs to an event that has no position yet */
    bool may_assume;
    bool is_assumed;            /* heads, types and end are assumed, not read */
    bool nothing;               /* no event was accepted */
    ef__pg_lock_wait lock_wait; /* for streams and ids */
} pg_append_group;

/* Indexes the streams, ids and types of the appends. Resets `g` to the state before an attempt. */
ef_status pg_group_collect(pg_append_group *group, ef_error *err);
/* The first round trip: locks streams, looks up their heads, ids and types. */
ef_status pg_group_lookup(pg_append_group *group, ef__pg_conn *conn, ef_error *err);
/* Tries to become the sequencer, in a round trip of its own. */
ef_status pg_group_try_sequencer(pg_append_group *group, ef__pg_conn *conn, ef_error *err);
/* The work of a transaction after a commit whose reply was lost: whether the accepted events exist,
 * under the locks of their streams, so that the lost transaction has ended. */
ef_status pg_group_resolve(void *group, ef__pg_conn *conn, ef_error *err);
/* Sends the new types of sealed events, if any: others are created with the positions. */
ef_status pg_group_send_new_types(const pg_append_group *group, ef__pg_conn *conn, ef_error *err);
/*
 * Optimistic appends (append_optimistic.c): heads, types and the end of the log are assumed to be
 * as the previous append left them, so that everything is decided, sealed and sent in one round
 * trip. The server compares, and raises an error that becomes EF_CONFLICT when an assumption is
 * wrong; nothing was written then.
 */
/* Sets heads, types and end; false when too little is known. */
bool pg_assume(pg_append_group *group);
/* Sends the statement that locks the streams … */
ef_status pg_assumption_send(const pg_append_group *group, ef__pg_conn *conn, ef_error *err);
/* … and the one that decides, before the events are written, whether they get positions. */
ef_status pg_assumption_send_guess(pg_append_group *group, ef__pg_conn *conn, ef_error *err);
/* After a commit: records heads, types and end for the next append. */
void pg_assumption_record(const pg_append_group *group);
/* After a failure: forgets everything. */
void pg_assumption_clear(pg_assumption *assumption);
/* After a wrong assumption: other processes append too, so the next appends look up. */
void pg_assumption_failed(pg_assumption *assumption);
