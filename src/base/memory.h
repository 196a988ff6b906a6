/*
 * memory.h - the memory of a list or batch that is returned to a caller.
 *
 * Public lists (ef_batch, ef_row_list …) end with `struct ef__batch_memory *room`: an arena that
 * their release frees.
 */
#ifndef EF_BASE_MEMORY_H
#define EF_BASE_MEMORY_H

#include "arena.h"

#include <everfold/event.h>

typedef struct ef__batch_memory {
    ef__arena arena;
} ef__batch_memory;

/* Creates the memory, or empties it. EF_NO_MEMORY. */
ef_status ef__memory_prepare(struct ef__batch_memory **room, ef_error *err);
/* The same for a list with `items`, `count` and `room`, which becomes empty. */
#define ef__list_prepare(list, err)                                                                \
    ((list)->items = NULL, (list)->count = 0, ef__memory_prepare(&(list)->room, (err)))
/* EF_NO_MEMORY: the system has no memory, or the arena has reached its maximum. */
ef_status ef__no_memory(ef_error *err);

#endif
