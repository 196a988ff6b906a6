/*
 * worker.h - workers and their heartbeats.
 *
 * A worker is live until its heartbeat expires by the clock of the store. It sends several
 * heartbeats per half of that time; a worker that missed half of it is late. Placement spreads the
 * partitions over the workers that are live and not late, so that a worker that crashed is replaced
 * when its leases expire (half a heartbeat), while it is still listed for as long again.
 *
 * A worker without work is idle: it holds no lease and gets no partitions, and its heartbeat is
 * long, so that it writes once a minute at most.
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
    EF_WORKER_LATE, /* it missed half of its heartbeat: other workers get its partitions */
    EF_WORKER_STALE /* its heartbeat has expired */
} ef_worker_state;

typedef struct ef_worker {
    ef_str id; /* 1 to 255 bytes, unique among workers */
    ef_str host;
    int64_t pid;
    int64_t started_us;
    int64_t updated_us;
    int64_t heartbeat_until_us;
    bool live;
    bool late; /* live, but it missed half of its heartbeat: other workers get its partitions */
    ef_worker_state state; /* in a heartbeat: working or idle. In a list: the current state */
} ef_worker;

typedef struct ef_worker_list {
    const ef_worker *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_worker_list;

/* All workers, by id. */
ef_status ef_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);

/*
 * The partitions, of `partitions`, that the worker at `index` of the list should hold: a stable
 * modulo over the working ones. `out` has space for `partitions` numbers, ascending; returns their
 * count. A worker in another state should hold none.
 */
size_t ef_worker_targets(const ef_worker_list *list, size_t index, int32_t partitions,
                         int32_t *out);

#ifdef __cplusplus
}
#endif
#endif
