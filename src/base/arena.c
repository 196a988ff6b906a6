/*
 * arena.c - memory blocks that are filled in order and released together.
 *
 * Blocks double from 4 KiB to 1 MiB. An allocation of more than a quarter of a full block gets a
 * block of its own, linked after the newest, so that the rest of the newest stays in use. The
 * maximum counts the allocated bytes, rounded up to the alignment.
 *
 * Under AddressSanitizer the bytes that are not allocated are poisoned, so that reading a batch
 * after its reset is reported like any use of freed memory.
 */
#include "arena.h"

#include "limits.h"
#include "poison.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    ALIGNMENT = alignof(max_align_t),
    BLOCK_BYTES_FIRST = 4 * 1024,
    BLOCK_BYTES_MAX = 1024 * 1024,
    OWN_BLOCK_BYTES = BLOCK_BYTES_MAX / 4
};

struct ef__arena_block {
    ef__arena_block *next;
    size_t cap;
    size_t used;
    alignas(max_align_t) char bytes[];
};

static ef__arena_block *new_block(size_t cap)
{
    ef__arena_block *block = malloc(sizeof(*block) + cap);

    if (block) {
        block->next = NULL;
        block->cap = cap;
        block->used = 0;
        ef__poison(block->bytes, cap);
    }
    return block;
}

static size_t next_block_bytes(const ef__arena *arena, size_t bytes)
{
    size_t cap = arena->blocks ? arena->blocks->cap * 2 : BLOCK_BYTES_FIRST;

    if (cap > BLOCK_BYTES_MAX)
        cap = BLOCK_BYTES_MAX;
    return cap < bytes ? bytes : cap;
}

/* A spare block for `bytes`, or a new one of `cap`. A large spare is not used for small
 * allocations: the next step probably needs one as large. */
static ef__arena_block *get_block(ef__arena *arena, size_t bytes, size_t cap)
{
    for (ef__arena_block **at = &arena->spare; *at; at = &(*at)->next) {
        ef__arena_block *block = *at;
        if (block->cap >= bytes && (block->cap <= BLOCK_BYTES_MAX || block->cap / 2 <= bytes)) {
            *at = block->next;
            return block;
        }
    }
    return new_block(cap);
}

/* A block with at least `bytes` free, linked; NULL when memory ran out. */
static ef__arena_block *find_block(ef__arena *arena, size_t bytes)
{
    ef__arena_block *newest = arena->blocks;

    if (newest && newest->cap - newest->used >= bytes)
        return newest;
    bool own = newest && bytes >= OWN_BLOCK_BYTES;
    ef__arena_block *block = get_block(arena, bytes, own ? bytes : next_block_bytes(arena, bytes));
    if (!block)
        return NULL;
    ef__arena_block **place = own ? &newest->next : &arena->blocks;
    block->next = *place;
    *place = block;
    return block;
}

void *ef__arena_alloc(ef__arena *arena, size_t bytes)
{
    size_t left = arena->max_bytes - arena->used_bytes;

    /* The first comparison keeps the rounding from overflowing. */
    if (bytes > left || bytes > PTRDIFF_MAX - ALIGNMENT)
        return NULL;
    size_t rounded = (bytes ? bytes + ALIGNMENT - 1 : ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    if (rounded > left)
        return NULL;
    ef__arena_block *block = find_block(arena, rounded);
    if (!block)
        return NULL;
    char *ptr = block->bytes + block->used;
    block->used += rounded;
    arena->used_bytes += rounded;
    ef__unpoison(ptr, bytes);
    return ptr;
}

void *ef__arena_zalloc(ef__arena *arena, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *ptr = ef__arena_alloc(arena, bytes);
    if (ptr)
        memset(ptr, 0, bytes);
    return ptr;
}

void *ef__arena_grow(ef__arena *arena, void *items, size_t count, size_t size, size_t *cap)
{
    void *more;

    if (count < *cap)
        return items;
    *cap = *cap ? *cap * 2 : 16;
    more = ef__arena_zalloc(arena, *cap, size);
    if (more && count)
        memcpy(more, items, count * size);
    return more;
}

bool ef__texts_own(const ef__texts *texts, void *item, ef__arena *arena)
{
    bool copied = true;

    for (size_t i = 0; i < texts->count; i++) {
        ef_str *text = ef__text_at(texts, item, i);
        *text = ef__arena_copy(arena, *text);
        copied = copied && text->ptr;
    }
    return copied;
}

void *ef__list_append(ef__arena *arena, const void *items, size_t *count, const void *item,
                      size_t size, const ef__texts *texts)
{
    enum { FIRST = 16 };
    bool is_full = *count == 0 || (*count >= FIRST && (*count & (*count - 1)) == 0);
    size_t cap = is_full ? *count : *count + 1; /* without a store of it */
    char *grown = ef__arena_grow(arena, (void *)items, *count, size, &cap), *added;

    added = grown ? grown + *count * size : NULL;
    if (added)
        memcpy(added, item, size);
    if (!added || (texts && !ef__texts_own(texts, added, arena))) {
        *count = 0;
        return NULL;
    }
    ++*count;
    return grown;
}

ef_str ef__arena_copy(ef__arena *arena, ef_str text)
{
    char *ptr = text.len < SIZE_MAX ? ef__arena_alloc(arena, text.len + 1) : NULL;

    if (!ptr)
        return (ef_str){NULL, 0};
    if (text.len > 0)
        memcpy(ptr, text.ptr, text.len);
    ptr[text.len] = '\0';
    return (ef_str){ptr, text.len};
}

ef_status ef__arena_own(ef__arena *arena, ef_error *err, ef_str *text, ...)
{
    va_list more;
    bool fits = true;

    va_start(more, text);
    for (; text && fits; text = va_arg(more, ef_str *)) {
        *text = ef__arena_copy(arena, *text);
        fits = text->ptr != NULL;
    }
    va_end(more);
    return fits ? EF_OK : ef__no_memory(err);
}

/* Keeps the largest block, unless it is larger than most steps need: one huge step must not keep
 * its memory forever. */
void ef__arena_reset(ef__arena *arena)
{
    ef__arena_block *kept = NULL;

    while (arena->blocks) {
        ef__arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (block->cap <= BLOCK_BYTES_MAX && (!kept || block->cap > kept->cap)) {
            free(kept);
            kept = block;
        } else {
            free(block);
        }
    }
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        ef__poison(kept->bytes, kept->cap);
    }
    arena->blocks = kept;
    arena->used_bytes = 0;
}

static void free_blocks(ef__arena_block **blocks)
{
    while (*blocks) {
        ef__arena_block *block = *blocks;
        *blocks = block->next;
        free(block);
    }
}

void ef__arena_recycle(ef__arena *arena)
{
    free_blocks(&arena->spare);
    arena->spare = arena->blocks;
    arena->blocks = NULL;
    arena->used_bytes = 0;
    for (ef__arena_block *block = arena->spare; block; block = block->next) {
        block->used = 0;
        ef__poison(block->bytes, block->cap);
    }
}

void ef__arena_release(ef__arena *arena)
{
    if (!arena)
        return;
    free_blocks(&arena->blocks);
    free_blocks(&arena->spare);
    arena->used_bytes = 0;
}

/* --- lists and batches ------------------------------------------------------------------------ */

ef_status ef__memory_prepare(struct ef__batch_memory **room, ef_error *err)
{
    if (*room) {
        ef__arena_reset(&(*room)->arena);
        return EF_OK;
    }
    *room = malloc(sizeof(**room));
    if (!*room)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a batch");
    (*room)->arena = (ef__arena)EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES);
    return EF_OK;
}

void ef_memory_release(struct ef__batch_memory **room)
{
    if (!*room)
        return;
    ef__arena_release(&(*room)->arena);
    free(*room);
    *room = NULL;
}

ef_status ef__no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY,
                   "memory ran out, or a result is larger than the limit of %d bytes",
                   EF_LIMIT_BATCH_BYTES);
}
