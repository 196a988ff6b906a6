/*
 * memory.c - the memory of lists and batches, and ef_batch.
 */
#include "memory.h"

#include "limits.h"

#include <stdlib.h>

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
