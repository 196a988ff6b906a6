/*
 * partition.h - partitions: the buckets of streams that workers share.
 *
 * A stream is in one partition, and a partition has one holder. Their number is a setting of the
 * journal. The partition of an event is decided in the transaction that appends it, by the number
 * of that moment; a queued row keeps its partition.
 *
 * So the number can be raised at any time. A stream that moves has, for a while, rows in two
 * partitions; the watermarks of the projections keep its order meanwhile. Lowering the number is
 * refused while rows wait in a partition that would be removed.
 */
#ifndef EVERFOLD_PARTITION_H
#define EVERFOLD_PARTITION_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_PARTITIONS_MAX 1024    /* heartbeats renew all leases of a worker in one transaction */
#define EF_PARTITION_LABEL_MAX 12 /* bytes: "p" and any int32_t */

/* "p07"; "p1023" where two digits are not enough; "" below 0. */
void ef_partition_label(int32_t partition, char out[EF_PARTITION_LABEL_MAX]);
/* EF_BAD_INPUT: not a label. */
ef_status ef_partition_parse(ef_str label, int32_t *out, ef_error *err);

/* A partition of the apply lanes: its holder, and its rows there. */
typedef struct ef_partition {
    int32_t number;
    ef_str holder; /* "" when it is free */
    int64_t token;
    int64_t until_us;   /* 0 when it is free */
    bool live;          /* held, and not expired by the clock of the store */
    int64_t pending;    /* queued, not claimed */
    int64_t in_flight;  /* queued and claimed by the holder */
    int64_t retry_rows; /* in the lanes of the projections, dead ones too */
} ef_partition;

typedef struct ef_partition_list {
    const ef_partition *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_partition_list;

/* All partitions, in one snapshot. Queued rows are counted one by one. */
ef_status ef_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);

typedef struct ef_partition_change {
    int32_t count; /* 1 to EF_PARTITIONS_MAX; 0: unchanged */
    bool prune;    /* remove free and expired leases of partitions beyond the count */
    bool dry_run;  /* change nothing, and return what would be done */
} ef_partition_change;

typedef struct ef_partition_sync_result {
    int32_t before, after;
    int64_t pruned; /* leases removed; of a dry run: that would be removed */
    int64_t kept;   /* leases beyond the count that a worker holds */
} ef_partition_sync_result;

/*
 * Changes the number of partitions. Workers follow at their next heartbeat.
 * EF_EXISTS  rows wait in partitions beyond the new count: the error says how many and where
 */
ef_status ef_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
