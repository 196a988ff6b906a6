#include "filter.h"

#include <stdlib.h>
#include <string.h>

#define ENTRY_BITS 12
#define PROBES 6

bool sq_filter_make(sq_filter *filter, size_t capacity)
{
    size_t blocks = 2;
    unsigned shift = 63;

    for (; blocks * 512 < capacity * ENTRY_BITS && blocks * 64 < SQ_FILTER_BYTES_MAX; shift--)
        blocks *= 2;
    sq_filter_release(filter);
    filter->words = aligned_alloc(64, blocks * 64);
    if (!filter->words)
        return false;
    memset(filter->words, 0, blocks * 64);
    filter->blocks = blocks;
    filter->shift = shift;
    filter->capacity = blocks * 512 / ENTRY_BITS;
    return true;
}

void sq_filter_release(sq_filter *filter)
{
    free(filter->words);
    *filter = (sq_filter){0};
}

/* The high bits select the block without mixing: runs are sorted by hash, so filling the filter
 * from one accesses memory in order. The six bits in a block come from the hash mixed once more. */
static uint64_t *block_of(const sq_filter *filter, int64_t hash)
{
    return filter->words + ((uint64_t)hash >> filter->shift) * 8;
}

static uint64_t bits_of(int64_t hash)
{
    return ((uint64_t)hash * UINT64_C(0x9E3779B97F4A7C15)) >> 10;
}

void sq_filter_add(sq_filter *filter, int64_t hash)
{
    uint64_t *block = block_of(filter, hash);
    uint64_t bits = bits_of(hash);

    for (int i = 0; i < PROBES; i++, bits >>= 9)
        block[(bits >> 6) & 7] |= UINT64_C(1) << (bits & 63);
    filter->count++;
}

bool sq_filter_may_have(const sq_filter *filter, int64_t hash)
{
    const uint64_t *block = block_of(filter, hash);
    uint64_t bits = bits_of(hash);

    for (int i = 0; i < PROBES; i++, bits >>= 9)
        if (!(block[(bits >> 6) & 7] & UINT64_C(1) << (bits & 63)))
            return false;
    return true;
}
