/*
 * partition.h - the buckets of streams that workers share.
 *
 * A stream is in one partition, and a partition has one owner. How many there are is a setting of
 * the journal. An event's partition is decided in the transaction that appends it, by the count of
 * that moment; what is queued keeps the partition it was queued in.
 *
 * So the count may be raised at any time. A stream that moves by it has, for a while, rows in two
 * partitions; how far each projection is in the stream keeps its order meanwhile. Lowering it is
 * refused while rows wait in a partition that would be nobody's.
 */
#ifndef EVERFOLD_PARTITION_H
#define EVERFOLD_PARTITION_H

#include <everfold/journal.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_PARTITIONS_MAX 1024
#define EF_PARTITION_LABEL_MAX 12

/* "p07"; "p1023" where two digits do not do; "" below 0. */
void ef_partition_label(int32_t partition, char out[EF_PARTITION_LABEL_MAX]);
/* EF_BAD_INPUT when it is no such label. */
ef_status ef_partition_parse(ef_str label, int32_t *out, ef_error *err);

/* A partition of the apply lanes: who has it, and what waits in it there. */
typedef struct ef_partition {
    int32_t number;
    ef_str owner; /* "" when it is free */
    int64_t token;
    int64_t until_us;   /* 0 when it is free */
    bool live;          /* held, and not run out by the store's clock */
    int64_t pending;    /* queued, in nobody's hand */
    int64_t in_hand;    /* queued, and taken by its owner */
    int64_t exceptions; /* of the projections' own lanes, dead ones too */
} ef_partition;

typedef struct ef_partition_list {
    const ef_partition *items;
    size_t count;
    struct ef__batch_room *room;
} ef_partition_list;

/* All partitions, as of one moment. What is queued is counted row by row. */
ef_status ef_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);
void ef_partition_list_release(ef_partition_list *list);

typedef struct ef_partition_change {
    int32_t count; /* 1 to 1024; 0: as it is */
    bool prune;    /* remove leases of partitions beyond the count that are free or have run out */
    bool dry_run;  /* only say what would be done */
} ef_partition_change;

typedef struct ef_partition_changed {
    int32_t before, after;
    int64_t pruned; /* leases that were, or would be, removed … */
    int64_t kept;   /* … and those beyond the count that somebody holds */
} ef_partition_changed;

/*
 * Change the number of partitions. Workers follow at their next beat.
 * EF_EXISTS  rows wait in partitions beyond the new count: the error says how many and where
 */
ef_status ef_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_changed *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
