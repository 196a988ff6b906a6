/*
 * filter.h - "surely not seen before": a Bloom filter in blocks of one cache line.
 *
 * About 12 bits an entry make one look-up in a hundred a false alarm. Grows by being made anew.
 */
#ifndef EF_JOURNAL_SQLITE_FILTER_H
#define EF_JOURNAL_SQLITE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQ_FILTER_BYTES_MAX (32u << 20) /* past 22 million ids alarms grow more frequent */

typedef struct sq_filter {
    uint64_t *words; /* NULL: not made */
    size_t blocks;   /* of 8 words; a power of two */
    unsigned shift;  /* leaves of a hash as many bits as number the blocks */
    size_t count;    /* entries added */
    size_t capacity; /* entries it is meant for */
} sq_filter;

bool sq_filter_make(sq_filter *filter, size_t capacity); /* false: no memory */
void sq_filter_release(sq_filter *filter);
void sq_filter_add(sq_filter *filter, int64_t hash);
bool sq_filter_may_have(const sq_filter *filter, int64_t hash);

#endif
