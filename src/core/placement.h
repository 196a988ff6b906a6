/*
 * placement.h - the partition of a stream, and the partitions of a worker.
 *
 * A stream is in one partition and a partition has one holder, so a stream has one holder. Sets of
 * partitions are values; an empty set means no partition, never all of them.
 */
#pragma once

#include "../base/limits.h"

#include <everfold/str.h>

#include <stdint.h>

/*
 * The partition of a stream out of `count`: CRC32 of the stream name, modulo. The tenant is
 * appended with its length, so that moving a character from one name to the other changes the
 * result.
 */
int32_t ef__partition_of(ef_str tenant, ef_str stream, int32_t count);

#define EF__PARTITION_LABEL_MAX 12

/* "p07"; "p1023" with more digits. False, and "", unless 0 <= partition < count. */
bool ef__partition_label_format(int32_t partition, int32_t count,
                                char out[EF__PARTITION_LABEL_MAX]);
/* Parses a label exactly as it is formatted. False: not a label, or not below `count`. */
bool ef__partition_label_parse(ef_str label, int32_t count, int32_t *out);

typedef struct ef__partition_set {
    uint64_t bits[EF_LIMIT_PARTITIONS / 64];
} ef__partition_set;

/* Partitions outside 0 … EF_LIMIT_PARTITIONS - 1 are in no set; adding one does nothing. */
void ef__partition_set_add(ef__partition_set *set, int32_t partition);
bool ef__partition_set_has(const ef__partition_set *set, int32_t partition);
/* The lowest one at or above `from`; -1: none. So: for (p = next(s, 0); p >= 0; …) */
int32_t ef__partition_set_next(const ef__partition_set *set, int32_t from);

/* The share of the worker at `index` of `live` sorted ones: every partition p with
 * p mod live = index. `index` is below `live`. */
ef__partition_set ef__placement_share(size_t index, size_t live, int32_t partitions);

/*
 * The share of the worker `self`, with the live workers sorted by id. `workers` are their ids, each
 * once, in any order; `self` counts whether it is among them or not. With more workers than
 * partitions some get the empty set.
 */
ef__partition_set ef__placement_targets(const ef_str *workers, size_t worker_count, ef_str self,
                                        int32_t partitions);
