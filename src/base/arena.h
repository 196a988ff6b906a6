/*
 * arena.h - memory that is given back whole.
 *
 * A step of work allocates from one arena and resets it at the end. An arena has a maximum; past
 * it, and when memory runs out, allocation answers NULL. Not for several threads at once.
 */
#ifndef EF_BASE_ARENA_H
#define EF_BASE_ARENA_H

#include <everfold/str.h>

typedef struct ef__arena_block ef__arena_block;

typedef struct ef__arena {
    ef__arena_block *blocks; /* newest first */
    size_t used_bytes;       /* in all blocks */
    size_t max_bytes;
    ef__arena_block *spare; /* empty ones, to be filled again */
} ef__arena;

#define EF__ARENA_INIT(max)                                                                        \
    {                                                                                              \
        NULL, 0, (max), NULL                                                                       \
    }

/* Memory for `bytes`, aligned for anything, not zeroed. NULL past the maximum. 0 bytes is fine. */
void *ef__arena_alloc(ef__arena *arena, size_t bytes);
/* The same, zeroed, for `count` things; NULL when count * size overflows. */
void *ef__arena_zalloc(ef__arena *arena, size_t count, size_t size);
/* Twice the room for `count` things of `size`, with them in it, when `*cap` is reached; otherwise
 * `items` as they are. The old ones stay in the arena. NULL past the maximum. */
void *ef__arena_grow(ef__arena *arena, void *items, size_t count, size_t size, size_t *cap);
/* A copy with a NUL behind it (not counted). ptr is NULL only when memory ran out. */
ef_str ef__arena_copy(ef__arena *arena, ef_str text);
/* Empty it and keep one block for the next step. */
void ef__arena_reset(ef__arena *arena);
/* Empty it and keep what it used, for a step that is followed by one as large: the system takes
 * its time to hand out memory that was just given back. What was kept before and not used goes. */
void ef__arena_recycle(ef__arena *arena);
void ef__arena_release(ef__arena *arena);

#endif
