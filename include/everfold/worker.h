/*
 * worker.h - who is at work: workers and their heartbeats.
 *
 * A worker is live until its heartbeat runs out by the store's clock. It says that it is there
 * several times in half of one; when it has not for half of it, it is late. Placement spreads the
 * partitions over those that are live and not late, so that a worker that has died is replaced when
 * its leases run out (half a heartbeat), while people still see it for as long again.
 *
 * A worker without work is idle: it holds no lease and has no share, and its heartbeat is a long
 * one so that it is written once a minute at most.
 */
#ifndef EVERFOLD_WORKER_H
#define EVERFOLD_WORKER_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ef_worker_state {
    EF_WORKER_WORKING,
    EF_WORKER_IDLE,
    EF_WORKER_LATE, /* its heartbeat is half over: its share belongs to the others */
    EF_WORKER_STALE /* its heartbeat is over */
} ef_worker_state;

const char *ef_worker_state_name(ef_worker_state state); /* "working" */

typedef struct ef_worker {
    ef_str id; /* 1 to 255 bytes, unique among workers */
    ef_str host;
    int64_t pid;
    int64_t started_us;
    int64_t updated_us;
    int64_t heartbeat_until_us;
    bool live;
    bool late; /* live, but not heard of for half of its heartbeat: the others have its share */
    ef_worker_state state; /* of a heartbeat: working, or idle. In a list: as of now */
} ef_worker;

typedef struct ef_worker_list {
    const ef_worker *items;
    size_t count;
    struct ef__batch_room *room;
} ef_worker_list;

/* Join, or say that one is still there: one that was purged joins again. `started_us`,
 * `updated_us`, `heartbeat_until_us`, `live` and `late` of `worker` are not looked at; a `state`
 * other than idle announces a working one. */
ef_status ef_worker_beat(ef_journal *journal, const ef_worker *worker, int64_t heartbeat_ms,
                         ef_error *err);

/* Leave. One that is not there is fine. */
ef_status ef_worker_leave(ef_journal *journal, ef_str id, ef_error *err);

/* Remove workers whose heartbeat ended more than `older_than_ms` ago; at most once per
 * `interval_ms` over all processes. `out_purged` may be NULL. */
ef_status ef_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                          int64_t *out_purged, ef_error *err);

/* All workers, by id. */
ef_status ef_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);
void ef_worker_list_release(ef_worker_list *list);

/*
 * The partitions, of `partitions`, that the worker at `index` of the list should have: a stable
 * modulo over those that are working. `out` has room for that many, rising; returns how many. A
 * worker in any other state should have none.
 */
size_t ef_worker_targets(const ef_worker_list *list, size_t index, int32_t partitions,
                         int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
