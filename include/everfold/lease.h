/*
 * lease.h - the right to work on something until a time.
 *
 * One table holds the leases of all kinds. A lease is taken when it is free or has run out; every
 * take-over makes the token grow, a renewal does not. The store's clock decides. Safety never rests
 * on a lease alone: every write under one presents the token and is refused when it is old.
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
    EF_LEASE_RUN,       /* a run; name its scope */
    EF_LEASE_SEQUENCER  /* who gives positions, where the store needs one */
} ef_lease_kind;

const char *ef_lease_kind_name(ef_lease_kind kind); /* "partition" */

typedef struct ef_lease_key {
    ef_lease_kind kind;
    ef_str name;       /* at most 600 bytes */
    int32_t partition; /* -1 where the kind has none */
} ef_lease_key;

typedef struct ef_lease {
    ef_lease_key key;
    ef_str owner; /* "" when it is free */
    int64_t token;
    int64_t until_us; /* 0 when it is free */
    int64_t updated_us;
    bool live; /* held, and not run out by the store's clock */
} ef_lease;

typedef struct ef_lease_list {
    const ef_lease *items;
    size_t count;
    struct ef__batch_room *room;
} ef_lease_list;

/*
 * Take the lease, or renew it when `owner` holds it and it is live: then the token stays.
 * EF_LEASE_HELD  another owner has it; err->found is the number of milliseconds left
 */
ef_status ef_lease_acquire(ef_journal *journal, const ef_lease_key *key, ef_str owner,
                           int64_t lease_ms, int64_t *out_token, int64_t *out_until_us,
                           ef_error *err);

/* EF_LEASE_LOST: it has run out or passed on. Then it is never renewed: acquire anew. */
ef_status ef_lease_renew(ef_journal *journal, const ef_lease_key *key, int64_t token,
                         int64_t lease_ms, int64_t *out_until_us, ef_error *err);

/* Give it back. EF_LEASE_LOST when it had passed on: nothing is changed then. */
ef_status ef_lease_release(ef_journal *journal, const ef_lease_key *key, int64_t token,
                           ef_error *err);

/*
 * Several of these in one transaction. A call is filled in by the caller down to `token`, and
 * answered in what follows it; acquire and take answer the token too.
 */
typedef enum ef_lease_verb {
    EF_LEASE_ACQUIRE,
    EF_LEASE_TAKE, /* renew it when it is live under `token`, else acquire it, under a new token
                    * even when `owner` has it: its former self may still be at work */
    EF_LEASE_RENEW,
    EF_LEASE_RELEASE
} ef_lease_verb;

typedef struct ef_lease_call {
    ef_lease_verb verb;
    ef_lease_key key;
    ef_str owner;     /* acquire, take */
    int64_t lease_ms; /* acquire, take, renew */
    int64_t token;    /* take (0: none), renew, release */
    ef_status status; /* EF_OK, EF_LEASE_HELD or EF_LEASE_LOST */
    int64_t until_us; /* EF_OK, unless it was released */
    int64_t left_ms;  /* EF_LEASE_HELD: how long the other owner still has it */
} ef_lease_call;

/*
 * Make the calls in their order, all in one transaction, together with the heartbeat of `worker`
 * (NULL: none), as ef_worker_beat has it. A heartbeat also brings back leases and heartbeats of a
 * time to come, for the clock was set back: what lives of them lasts from now on, the rest has
 * ended. A call that is refused leaves the others alone: the whole
 * is EF_OK, and `err` then says in words why the first one was refused. Otherwise nothing was done,
 * and the answers say nothing.
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
