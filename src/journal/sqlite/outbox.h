/*
 * outbox.h - what the files of the outbox, leases and runs share.
 *
 * Everything here works on a connection that is in a transaction: the writer's in a job, or a
 * reader's. Nothing takes a lock.
 */
#ifndef EF_JOURNAL_SQLITE_OUTBOX_H
#define EF_JOURNAL_SQLITE_OUTBOX_H

#include "ops.h"
#include "store.h"

#include "../../base/limits.h"
#include "../../core/lease_rule.h"

/* --- lists (list.c) --------------------------------------------------------------------------- */

/* Room for one more of `size` bytes behind `count` items in an arena: the same array or a larger
 * copy of it, NULL when the arena is full. Call it for every item: it goes by `count` alone. */
void *sq_list_grow(ef__arena *arena, void *items, size_t count, size_t size);
/* A column's text, copied. Its pointer is NULL when the arena is full. */
ef_str sq_column_copy(sqlite3_stmt *stmt, int column, ef__arena *arena);

/* --- lanes (lane.c) --------------------------------------------------------------------------- */

/* The lane of that name: id 0 when there is none. Its name is the one given, its types are "". */
ef_status sq_lane_find(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);
/* The same; EF_NOT_FOUND when there is none. */
ef_status sq_lane_need(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);
/* The same, or a new lane of a projection. */
ef_status sq_lane_find_or_make(ef__sq_conn *conn, ef_str name, sq_lane *out, ef_error *err);
/* All lanes by name, or the one called `only`, in the arena. None is fine. */
ef_status sq_lanes_load(ef__sq_conn *conn, ef_str only, ef__arena *arena, sq_lane **out,
                        size_t *count, ef_error *err);

/* --- leases (lease.c) ------------------------------------------------------------------------- */

typedef struct sq_lease_row {
    ef__lease_row row; /* its owner points at `owner`: do not copy this struct */
    char owner[EF_LIMIT_NAME_BYTES];
} sq_lease_row;

/* Free when it was never taken, or was pruned. */
ef_status sq_lease_get(ef__sq_conn *conn, const ef_lease_key *key, sq_lease_row *out,
                       ef_error *err);
/* All leases, or those of a kind, in the list's room, which is ready. */
ef_status sq_leases_load(sq_store *store, ef__sq_conn *conn, const ef_lease_kind *kind,
                         ef_lease_list *out, ef_error *err);
/* The moment that leases and heartbeats are judged at: the clock as it is. */
int64_t sq_clock_us(const sq_store *store);
/* The lease that allows work on a partition of a lane. */
ef_lease_key sq_lane_lease(const sq_lane *lane, int32_t partition);
/* Make is_passed known to the writer's connection: what outbox_mark.c is passing just now. */
ef_status sq_passed_ready(sq_store *store, ef_error *err);
/* EF_LEASE_LOST, with the tokens asked and found, unless it is live under this token. */
ef_status sq_lease_check(sq_store *store, ef__sq_conn *conn, const ef_lease_key *key, int64_t token,
                         ef_error *err);
/* The same for every partition held. */
ef_status sq_held_check(sq_store *store, ef__sq_conn *conn, const sq_lane *lane,
                        const ef_holding *held, size_t count, ef_error *err);
/* Count a write that came too late, and pass the status on. */
ef_status sq_refused(sq_store *store, ef_status st);

/* --- workers (worker.c) ----------------------------------------------------------------------- */

/* Add to the rows of these minutes, and drop those that are older than a day; in a job. */
ef_status sq_throughput_add(sq_store *store, const ef_throughput *minutes, size_t count,
                            ef_error *err);
/* Join, or push the end of the heartbeat back; in a job. */
ef_status sq_worker_beat(sq_store *store, const ef_worker *worker, int64_t heartbeat_ms,
                         ef_error *err);

/* --- marks (outbox_mark.c) -------------------------------------------------------------------- */

typedef struct sq_mark_row {
    int64_t position, hand, hand_token, suspect;
} sq_mark_row;

/* Which holding a partition is of: index + 1, 0 where it is not held. */
typedef struct sq_held_map {
    uint16_t of[EF_LIMIT_PARTITIONS];
} sq_held_map;

void sq_held_map_init(sq_held_map *map, const ef_holding *held, size_t count);
/* The index of the holding, or -1. */
int sq_held_find(const sq_held_map *map, int32_t partition);
/* All zero when nothing was ever taken there. */
ef_status sq_mark_get(ef__sq_conn *conn, int64_t lane, int32_t partition, sq_mark_row *out,
                      ef_error *err);
ef_status sq_mark_put(ef__sq_conn *conn, int64_t lane, int32_t partition, const sq_mark_row *mark,
                      int64_t now_us, ef_error *err);

/* A pending exception of an event, by a job of the writer; one that is there stays as it is. */
ef_status sq_exception_again(sq_store *store, const sq_lane *lane, int64_t position, ef_error *err);
/* Turns a queued row of a publisher's lane into a pending one of its own. Without one: nothing. */
ef_status sq_exception_from_queue(sq_store *store, const sq_lane *lane, int64_t position,
                                  ef_error *err);

/* --- rows (outbox_row.c) ---------------------------------------------------------------------- */

/* A dead one is never marked to be skipped: see outbox.sql. */
typedef struct sq_exception {
    bool found;
    int32_t partition;
    int64_t stream, seq;
    ef_row_status status;
    bool skip;
    int32_t attempts;
    int64_t due_us;
    ef_str error; /* in the arena; "" without one */
    int64_t updated_us;
    int64_t filed; /* kept by an update */
    bool trying;   /* an attempt is under way */
} sq_exception;

ef_status sq_exception_get(ef__sq_conn *conn, int64_t lane, int64_t position, ef__arena *arena,
                           sq_exception *out, ef_error *err);
/* Write what may change of one that is there. */
ef_status sq_exception_update(ef__sq_conn *conn, int64_t lane, int64_t position,
                              const sq_exception *x, ef_error *err);

/* Up to where a live owner has rows of a lane in hand, by partition; 0 where nobody has. */
typedef struct sq_hands {
    struct {
        int64_t mark, upto;
    } of[EF_LIMIT_PARTITIONS];
} sq_hands;

ef_status sq_hands_load(sq_store *store, ef__sq_conn *conn, const sq_lane *lane, sq_hands *out,
                        ef_error *err);
static inline bool sq_in_hand(const sq_hands *hands, int32_t partition, int64_t position)
{
    return partition >= 0 && partition < EF_LIMIT_PARTITIONS &&
           position <= hands->of[partition].upto;
}

/* What blocks a stream in a lane: looked up when either is another than before. Begins as zero. */
typedef struct sq_blocker {
    int64_t lane, stream;
    int64_t dead_seq; /* INT64_MAX: nothing blocks it */
} sq_blocker;

/* Is a pending row of this seq blocked? */
ef_status sq_blocked(ef__sq_conn *conn, sq_blocker *blocker, int64_t lane, int64_t stream,
                     int64_t seq, bool *out, ef_error *err);

/* Where a row is. `status` of queued rows is PENDING or PROCESSING. */
typedef struct sq_spot {
    const sq_lane *lane;
    int64_t position;
    int32_t partition; /* of published ones how many there are: the row's name tells which it is */
    ef_row_status status;
    bool queued;          /* else an exception, or published */
    int64_t published_us; /* 0 unless it is */
} sq_spot;

/* The row at a spot, for people. */
ef_status sq_row_make(ef__sq_conn *conn, const sq_spot *spot, sq_blocker *blocker, ef__arena *arena,
                      ef_row *out, ef_error *err);
/* The rows at `count` spots, as a list's items. */
ef_status sq_rows_make(ef__sq_conn *conn, const sq_spot *spots, size_t count, ef_row_list *out,
                       ef_error *err);

/* Spots that are found lane by lane, and then put in the order of position and lane. */
typedef struct sq_spots {
    ef__arena *arena;
    sq_spot *items;
    size_t count;
} sq_spots;

ef_status sq_spots_add(sq_spots *spots, const sq_spot *spot, ef_error *err);
void sq_spots_sort(sq_spots *spots);
void sq_spots_sort_down(sq_spots *spots); /* the last first */

/* Up to `limit` exceptions of a lane after a position, in order: all, or those with a status.
 * Tenant and blocked_only of `query` are looked at; blocked ones are pending. */
ef_status sq_spots_of_exceptions(ef__sq_conn *conn, const sq_lane *lane,
                                 const ef_row_status *status, int64_t after,
                                 const ef_outbox_query *query, size_t limit, sq_spots *spots,
                                 ef_error *err);

#endif
