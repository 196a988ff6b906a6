/*
 * lease.h - the workers of a journal: leases, heartbeats, throughput and partitions.
 */
#pragma once

#include "../base/limits.h"
#include "../core/lease_rule.h"

#include <everfold/everfold.h>

#define EF__MINUTE_US INT64_C(60000000)

/* One of several calls in a transaction. The caller fills it in down to `token`; the results are
 * the fields after it. Acquire and renew_or_acquire also return the token. */
typedef enum ef_lease_verb {
    EF_LEASE_ACQUIRE,
    EF_LEASE_RENEW_OR_ACQUIRE, /* renew it when it is live under `token`, otherwise acquire it,
                                * under a new token even when `holder` holds it: an earlier
                                * incarnation of the worker may still be running */
    EF_LEASE_RENEW,
    EF_LEASE_RELEASE
} ef_lease_verb;

typedef struct ef_lease_call {
    ef_lease_verb verb;
    ef_lease_key key;
    ef_str holder;    /* acquire, renew_or_acquire */
    int64_t lease_ms; /* acquire, renew_or_acquire, renew */
    int64_t token;    /* renew_or_acquire (0: none), renew, release */
    ef_status status; /* EF_OK, EF_LEASE_HELD or EF_LEASE_LOST */
    int64_t until_us; /* EF_OK, unless it was released */
    int64_t left_ms;  /* EF_LEASE_HELD: until the lease of the other worker expires */
} ef_lease_call;

/* A worker's heartbeat, written in the transaction of its lease calls. */
typedef struct ef__heartbeat {
    /* Joins, or extends the heartbeat; a worker that was purged joins again. The store sets its
     * times, `live` and `late`; a `state` other than idle means working. NULL: no heartbeat. */
    const ef_worker *worker;
    int64_t heartbeat_ms;
    const ef_throughput *minutes; /* added to the throughput rows; `at_us` is a whole minute */
    size_t minute_count;
} ef__heartbeat;

typedef struct ef__lease_ops {
    /* One transaction: the calls in order, each with its status, and the heartbeat. `err` has the
     * first refusal, although the result is EF_OK. The first token of a lease that was never
     * acquired, or was pruned, is above every token that was pruned. */
    ef_status (*lease_many)(ef_journal *journal, ef_lease_call *calls, size_t count,
                            const ef__heartbeat *beat, ef_error *err);
    ef_status (*lease_ls)(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                          ef_error *err);
    ef_status (*worker_leave)(ef_journal *journal, ef_str id, ef_error *err);
    ef_status (*worker_purge)(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                              int64_t *out_purged, ef_error *err);
    ef_status (*worker_ls)(ef_journal *journal, ef_worker_list *out, ef_error *err);
    /* Throughput rows from that minute on, by minute. */
    ef_status (*throughput_ls)(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                               ef_error *err);
    ef_status (*partition_ls)(ef_journal *journal, ef_partition_list *out, ef_error *err);
    /* One transaction. */
    ef_status (*partition_sync)(ef_journal *journal, const ef_partition_change *change,
                                ef_partition_sync_result *out, ef_error *err);
    /* The one fact that is read at every heartbeat: must be cheap. */
    ef_status (*partition_count)(ef_journal *journal, int32_t *out, ef_error *err);
    ef_status (*wake)(ef_journal *journal, ef_error *err); /* not synced */
} ef__lease_ops;

/* Wakes all waiters, for work that no append announces. Failures are logged: workers poll too. */
void ef__journal_wake(ef_journal *journal);
/* The number of partitions, cheaper than ef_journal_facts. */
ef_status ef__journal_partition_count(ef_journal *journal, int32_t *out, ef_error *err);
/*
 * Acquires the lease, or renews it when `holder` holds it and it has not expired: then the token
 * stays.
 * EF_LEASE_HELD  another worker holds it; err->found is the number of milliseconds left
 */
ef_status ef__lease_acquire_one(ef_journal *journal, const ef_lease_key *key, ef_str holder,
                                int64_t lease_ms, int64_t *out_token, int64_t *out_until_us,
                                ef_error *err);

/* EF_LEASE_LOST: it was taken over; nothing is changed. */
ef_status ef__lease_release_one(ef_journal *journal, const ef_lease_key *key, int64_t token,
                                ef_error *err);
/*
 * Applies the calls in order, in one transaction, with the heartbeat. If the clock was set back, a
 * heartbeat also rewrites leases and heartbeats whose times lie in the future: live ones continue
 * from now, the others end.
 *
 * A call that is refused does not affect the others: the result is EF_OK, and `err` has the reason
 * of the first refusal. After another status nothing was changed, and the results are undefined.
 */
ef_status ef__lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                         const ef__heartbeat *beat, ef_error *err);

/* Removes a worker; an unknown id is ignored. */
ef_status ef__worker_leave(ef_journal *journal, ef_str id, ef_error *err);

/* Removes workers whose heartbeat expired more than `older_than_ms` ago; at most once per
 * `interval_ms` over all processes. */
ef_status ef__worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                           int64_t *out_purged, ef_error *err);

/* --- shared by back ends ---------------------------------------------------------------------- */

/* Decides a call by the row of its lease, and sets its status, token, until_us and left_ms. On
 * EF_OK the caller stores *out_row. EF_LEASE_HELD, EF_LEASE_LOST: refused; `err` may be NULL. */
ef_status ef__lease_call_decide(ef_lease_call *call, const ef__lease_row *row, int64_t now_us,
                                ef__lease_row *out_row, ef_error *err);

/* Sets `live`, `late` and `state` of a worker at `now_us` of the store's clock. On entry `state`
 * is that of its last heartbeat: working or idle. */
void ef__worker_judge(ef_worker *worker, int64_t now_us);

/* Queued and retry rows of all lanes, in partitions from `count` on. Initialise `count`. */
typedef struct ef__waiting_rows {
    int32_t count;
    int64_t rows[EF_LIMIT_PARTITIONS];
} ef__waiting_rows;

void ef__waiting_add(ef__waiting_rows *waiting, int32_t partition, int64_t rows);
/* EF_EXISTS: there are rows; the message says how many and where. */
ef_status ef__waiting_check(const ef__waiting_rows *waiting, ef_error *err);
