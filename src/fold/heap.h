/*
 * heap.h - memory for the values of decoded views: given back piece by piece, or all at once.
 *
 * Small pieces come from blocks and are kept by size for reuse, so that a batch in full swing asks
 * the system for nothing. Whoever frees a piece says how long it is; the heap keeps no headers.
 * Not for several threads at once.
 */
#ifndef EF_FOLD_HEAP_H
#define EF_FOLD_HEAP_H

#include <stddef.h>

enum { EF__HEAP_CLASSES = 24 };

typedef struct ef__heap {
    struct heap_block *blocks; /* that small pieces are cut from, newest first */
    struct heap_large *large;  /* pieces with a block of their own */
    void *free[EF__HEAP_CLASSES];
    char *next; /* what is left of the newest block */
    char *end;
    size_t bytes; /* in all blocks: what the heap holds of the system's memory */
    size_t max_bytes;
} ef__heap;

#define EF__HEAP_INIT(max)                                                                         \
    {                                                                                              \
        .max_bytes = (max)                                                                         \
    }

/* Aligned for anything, not zeroed; NULL past the maximum and when memory runs out. */
void *ef__heap_alloc(ef__heap *heap, size_t bytes);
/* `bytes` as it was asked for. NULL is fine. */
void ef__heap_free(ef__heap *heap, void *ptr, size_t bytes);
/* Everything at once; one block is kept for the next round. */
void ef__heap_reset(ef__heap *heap);
void ef__heap_release(ef__heap *heap);

#endif
