/*
 * lease.h - leases: the right to work on something until a time.
 *
 * One table holds the leases of all kinds. A lease can be acquired when it is free or has expired;
 * every take-over increments the token, a renewal does not. The clock of the store decides. A lease
 * alone does not make a write safe: every write under a lease passes the token, and is refused when
 * the token is old.
 */
#ifndef EVERFOLD_LEASE_H
#define EVERFOLD_LEASE_H

#include <everfold/journal.h>
#include <everfold/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ef_lease_kind {
    EF_LEASE_PARTITION, /* a partition of the apply lanes; name "", partition n */
    EF_LEASE_PUBLISHER, /* a partition of a publisher; name its lane, partition n */
    EF_LEASE_SCOPE,     /* a scope of the cursor driver; name "tenant:projection:partition" */
    EF_LEASE_RUN        /* a run; name its scope */
} ef_lease_kind;

const char *ef_lease_kind_name(ef_lease_kind kind); /* "partition" */

typedef struct ef_lease_key {
    ef_lease_kind kind;
    ef_str name;       /* at most 600 bytes */
    int32_t partition; /* -1 where the kind has none */
} ef_lease_key;

typedef struct ef_lease {
    ef_lease_key key;
    ef_str holder; /* "" when it is free */
    int64_t token;
    int64_t until_us; /* 0 when it is free */
    int64_t updated_us;
    bool live; /* held, and not expired by the clock of the store */
} ef_lease;

typedef struct ef_lease_list {
    const ef_lease *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_lease_list;

/*
 * Acquires the lease, or renews it when `holder` holds it and it has not expired: then the token
 * stays.
 * EF_LEASE_HELD  another worker holds it; err->found is the number of milliseconds left
 */
ef_status ef_lease_acquire(ef_journal *journal, const ef_lease_key *key, ef_str holder,
                           int64_t lease_ms, int64_t *out_token, int64_t *out_until_us,
                           ef_error *err);

/* EF_LEASE_LOST: it has expired or was taken over. It cannot be renewed any more: acquire it. */
ef_status ef_lease_renew(ef_journal *journal, const ef_lease_key *key, int64_t token,
                         int64_t lease_ms, int64_t *out_until_us, ef_error *err);

/* EF_LEASE_LOST: it was taken over; nothing is changed. */
ef_status ef_lease_release(ef_journal *journal, const ef_lease_key *key, int64_t token,
                           ef_error *err);

/*
 * Several of these calls in one transaction. The caller fills in a call down to `token`; the
 * results are the fields after it. Acquire and renew_or_acquire also return the token.
 */
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

/*
 * Applies the calls in order, in one transaction, with the heartbeat of `worker` (NULL: none) as in
 * ef_worker_heartbeat. If the clock was set back, a heartbeat also rewrites leases and heartbeats
 * whose times lie in the future: live ones continue from now, the others end.
 *
 * A call that is refused does not affect the others: the result is EF_OK, and `err` has the reason
 * of the first refusal. After another status nothing was changed, and the results are undefined.
 */
ef_status ef_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                        const ef_worker *worker, int64_t heartbeat_ms, ef_error *err);

/* All leases, or those of one kind: ordered by kind, name, partition. Free ones are listed too. */
ef_status ef_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);
void ef_lease_list_release(ef_lease_list *list);

#ifdef __cplusplus
}
#endif
#endif
