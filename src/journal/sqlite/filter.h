/*
 * filter.h - a Bloom filter in blocks of one cache line: shows that an id is certainly new.
 *
 * About 12 bits per entry give one false positive in a hundred lookups. A larger filter is filled
 * from scratch.
 */
#ifndef EF_JOURNAL_SQLITE_FILTER_H
#define EF_JOURNAL_SQLITE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SQ_FILTER_BYTES_MAX                                                                        \
    (32u << 20) /* beyond 22 million ids false positives become more frequent */

typedef struct sq_filter {
    uint64_t *words; /* NULL: not filled */
    size_t blocks;   /* of 8 words; a power of two */
    unsigned shift;  /* shift of a hash that leaves the index of a block */
    size_t count;    /* entries added */
    size_t capacity; /* number of entries it is sized for */
} sq_filter;

bool sq_filter_make(sq_filter *filter, size_t capacity); /* false: out of memory */
void sq_filter_release(sq_filter *filter);
void sq_filter_add(sq_filter *filter, int64_t hash);
bool sq_filter_may_have(const sq_filter *filter, int64_t hash);

#endif
