/*
 * heap.h - memory for the values of decoded views: freed one by one, or all at once.
 *
 * Small allocations come from blocks, and freed ones are kept by size for reuse, so that a running
 * batch needs no memory of the system. The caller passes the size when it frees; there are no
 * headers. Not thread-safe.
 */
#pragma once

#include <stddef.h>

enum { EF__HEAP_CLASSES = 24 }; /* sizes from 16 bytes to 16 KiB */

typedef struct ef__heap {
    struct heap_block *blocks; /* that small pieces are cut from, newest first */
    struct heap_large *large;  /* pieces with a block of their own */
    void *free[EF__HEAP_CLASSES];
    char *next; /* the unused rest of the newest block */
    char *end;
    size_t bytes; /* of all blocks: memory from the system */
    size_t max_bytes;
} ef__heap;

#define EF__HEAP_INIT(max)                                                                         \
    {                                                                                              \
        .max_bytes = (max)                                                                         \
    }

/* Aligned for any type, not zeroed; NULL past the maximum and when memory runs out. */
void *ef__heap_alloc(ef__heap *heap, size_t bytes);
/* `bytes` as it was allocated. Accepts NULL. */
void ef__heap_free(ef__heap *heap, void *ptr, size_t bytes);
/* Frees everything; keeps one block. */
void ef__heap_reset(ef__heap *heap);
void ef__heap_release(ef__heap *heap);
