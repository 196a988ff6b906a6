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

/* All leases, or those of one kind: ordered by kind, name, partition. Free ones are listed too. */
ef_status ef_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
