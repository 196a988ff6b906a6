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

/* All leases, or those of one kind: ordered by kind, name, partition. Free ones are listed too. */
ef_status ef_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);
void ef_lease_list_release(ef_lease_list *list);

#ifdef __cplusplus
}
#endif
#endif
