/*
 * heap.c - lists of free pieces by size.
 *
 * Classes grow by about a third to a half, so that rounding up wastes little: 16, 32, 48, 64, 96,
 * 128, 192 … up to CLASS_BYTES_MAX. Longer values have their own blocks, in a doubly linked list.
 * Freed pieces are poisoned, so that a value used after its last reference went is reported.
 */
#include "heap.h"

#include "../base/poison.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 256 * 1024,   /* few system calls, and little waste in a small folder */
    CLASS_BYTES_MAX = 16 * 1024 /* a larger one would waste too much of a block */
};

typedef struct heap_block {
    struct heap_block *next;
    alignas(max_align_t) char bytes[];
} heap_block;

typedef struct heap_large {
    struct heap_large *next;
    struct heap_large *before;
    size_t len;
    alignas(max_align_t) char bytes[];
} heap_large;

/* The class that holds `bytes`, and how long its pieces are: 16 and 32, then 3/4 and 4/4 of each
 * power of two. */
static unsigned class_of(size_t bytes, size_t *out_len)
{
    if (bytes <= 32) {
        *out_len = bytes <= 16 ? 16 : 32;
        return bytes <= 16 ? 0 : 1;
    }
    unsigned power = 64 - (unsigned)__builtin_clzll(bytes - 1); /* 2^power >= bytes */
    size_t whole = (size_t)1 << power;
    size_t less = whole / 4 * 3;
    *out_len = bytes <= less ? less : whole;
    return 2 * (power - 5) + (bytes > less);
}

static bool reserve_bytes(ef__heap *heap, size_t bytes)
{
    if (bytes > heap->max_bytes - heap->bytes)
        return false;
    heap->bytes += bytes;
    return true;
}

static void *alloc_large(ef__heap *heap, size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2 || !reserve_bytes(heap, bytes))
        return NULL;
    heap_large *large = malloc(sizeof(*large) + bytes);
    if (!large) {
        heap->bytes -= bytes;
        return NULL;
    }
    *large = (heap_large){.next = heap->large, .len = bytes};
    if (heap->large)
        heap->large->before = large;
    heap->large = large;
    return large->bytes;
}

static void free_large(ef__heap *heap, void *ptr)
{
    heap_large *large = (heap_large *)((char *)ptr - offsetof(heap_large, bytes));

    if (large->next)
        large->next->before = large->before;
    *(large->before ? &large->before->next : &heap->large) = large->next;
    heap->bytes -= large->len;
    free(large);
}

static bool add_block(ef__heap *heap)
{
    if (!reserve_bytes(heap, BLOCK_BYTES))
        return false;
    heap_block *block = malloc(sizeof(*block) + BLOCK_BYTES);
    if (!block) {
        heap->bytes -= BLOCK_BYTES;
        return false;
    }
    block->next = heap->blocks;
    heap->blocks = block;
    heap->next = block->bytes;
    heap->end = block->bytes + BLOCK_BYTES;
    ef__poison(block->bytes, BLOCK_BYTES);
    return true;
}

void *ef__heap_alloc(ef__heap *heap, size_t bytes)
{
    size_t len;

    if (bytes > CLASS_BYTES_MAX)
        return alloc_large(heap, bytes);
    unsigned class = class_of(bytes, &len);
    void *ptr = heap->free[class];
    if (ptr) {
        ef__unpoison(ptr, len);
        memcpy(&heap->free[class], ptr, sizeof(void *));
        return ptr;
    }
    /* Space of a block that is too short for this piece is given up: at most 16 of 256 KiB. */
    if ((size_t)(heap->end - heap->next) < len && !add_block(heap))
        return NULL;
    ptr = heap->next;
    heap->next += len;
    ef__unpoison(ptr, len);
    return ptr;
}

void ef__heap_free(ef__heap *heap, void *ptr, size_t bytes)
{
    size_t len;

    if (!ptr)
        return;
    if (bytes > CLASS_BYTES_MAX) {
        free_large(heap, ptr);
        return;
    }
    unsigned class = class_of(bytes, &len);
    memcpy(ptr, &heap->free[class], sizeof(void *));
    heap->free[class] = ptr;
    ef__poison(ptr, len);
}

void ef__heap_reset(ef__heap *heap)
{
    heap_block *kept = heap->blocks;

    while (heap->large)
        free_large(heap, heap->large->bytes);
    while (kept && kept->next) {
        heap_block *block = kept->next;
        kept->next = block->next;
        free(block);
    }
    memset(heap->free, 0, sizeof(heap->free));
    heap->bytes = kept ? BLOCK_BYTES : 0;
    heap->next = kept ? kept->bytes : NULL;
    heap->end = kept ? kept->bytes + BLOCK_BYTES : NULL;
    if (kept)
        ef__poison(kept->bytes, BLOCK_BYTES);
}

void ef__heap_release(ef__heap *heap)
{
    if (!heap)
        return;
    ef__heap_reset(heap);
    free(heap->blocks);
    *heap = (ef__heap)EF__HEAP_INIT(heap->max_bytes);
}
