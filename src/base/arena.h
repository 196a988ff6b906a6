/*
 * arena.h - memory that is released as a whole.
 *
 * A step of work allocates from one arena and resets it at the end. An arena has a maximum; past
 * it, and when memory runs out, an allocation returns NULL. Not thread-safe.
 */
#pragma once

#include <everfold/event.h>

/*
 * A local value that is released at the end of its block, also by a `return` in it:
 *     EF__AUTO(ef_lane_list) lanes = {0};
 * A type that has a release function of its own is listed once, next to that function.
 */
#define EF__AUTO(type) __attribute__((cleanup(ef__auto_##type))) type
#define EF__AUTO_TYPE(type, release)                                                               \
    static inline void ef__auto_##type(type *value)                                                \
    {                                                                                              \
        release(value);                                                                            \
    }
/* The same for a list or batch, whose memory is its `room`. */
#define EF__AUTO_LIST(type)                                                                        \
    static inline void ef__auto_##type(type *list)                                                 \
    {                                                                                              \
        ef_memory_release(&list->room);                                                            \
    }

typedef struct ef__arena_block ef__arena_block;

typedef struct ef__arena {
    ef__arena_block *blocks; /* newest first */
    size_t used_bytes;       /* of all blocks */
    size_t max_bytes;
    ef__arena_block *spare; /* empty blocks, used first */
} ef__arena;

#define EF__ARENA_INIT(max)                                                                        \
    {                                                                                              \
        NULL, 0, (max), NULL                                                                       \
    }

/* Memory, aligned for any type, not zeroed. NULL past the maximum. 0 bytes is allowed. */
void *ef__arena_alloc(ef__arena *arena, size_t bytes);
/* The same, zeroed, for `count` items; NULL when count * size overflows. */
void *ef__arena_zalloc(ef__arena *arena, size_t count, size_t size);
/* When `count` has reached `*cap`: a copy of the items of `size` with twice the capacity; otherwise
 * `items`. The old items stay in the arena. NULL past the maximum. */
void *ef__arena_grow(ef__arena *arena, void *items, size_t count, size_t size, size_t *cap);

/* The texts of a struct, by their offsets: what is copied when the struct is. */
typedef struct ef__texts {
    size_t count, at[8];
} ef__texts;

static inline ef_str *ef__text_at(const ef__texts *texts, const void *item, size_t i)
{
    return (ef_str *)((char *)item + texts->at[i]);
}

/* Replaces the texts by copies in the arena. False: memory ran out. */
bool ef__texts_own(const ef__texts *texts, void *item, ef__arena *arena);
/* The array `items` with a copy of `item` and of its texts (NULL: it has none) as its last one. It
 * grows by the powers of two, so only functions that do so may have added the items before. NULL,
 * with a count of 0: memory ran out. */
void *ef__list_append(ef__arena *arena, const void *items, size_t *count, const void *item,
                      size_t size, const ef__texts *texts);
/* Adds to a list that begins empty, in its own memory: EF_NO_MEMORY, and the list is empty. */
#define ef__list_add(list, item, texts, err)                                                       \
    (((list)->items = ef__list_append(&(list)->room->arena, (list)->items, &(list)->count, (item), \
                                      sizeof *(list)->items, (texts)))                             \
         ? EF_OK                                                                                   \
         : ef__no_memory(err))

/* A copy followed by a NUL (not counted). ptr is NULL only when memory ran out. */
ef_str ef__arena_copy(ef__arena *arena, ef_str text);
/* Replaces each text by a copy: ef__arena_own(arena, err, &tenant, &stream, NULL). EF_NO_MEMORY */
ef_status ef__arena_own(ef__arena *arena, ef_error *err, ef_str *text, ...)
    __attribute__((sentinel));
/* Empties the arena and keeps one block for the next step. */
void ef__arena_reset(ef__arena *arena);
/* Empties the arena and keeps all blocks that it used, for a next step of the same size: getting
 * memory from the system again is slow. Spare blocks that were not used are freed. */
void ef__arena_recycle(ef__arena *arena);
void ef__arena_release(ef__arena *arena);
EF__AUTO_TYPE(ef__arena, ef__arena_release)

/* The memory of a list or batch that is returned to a caller: public lists (ef_batch, ef_row_list
 * …) end with `struct ef__batch_memory *room`, which their release frees. */
typedef struct ef__batch_memory {
    ef__arena arena;
} ef__batch_memory;

/* Creates the memory, or empties it. EF_NO_MEMORY. */
ef_status ef__memory_prepare(struct ef__batch_memory **room, ef_error *err);
/* The same for a list or result, whose other members become 0. */
#define ef__list_prepare(list, err)                                                                \
    (*(list) = (__typeof__(*(list))){.room = (list)->room},                                        \
     ef__memory_prepare(&(list)->room, (err)))
/* EF_NO_MEMORY: the system has no memory, or the arena has reached its maximum. */
ef_status ef__no_memory(ef_error *err);
