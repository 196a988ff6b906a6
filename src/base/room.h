/*
 * room.h - the memory behind a list or batch that is handed to a caller.
 *
 * Public lists (ef_batch, ef_row_list …) end in `struct ef__batch_room *room`: an arena of its own
 * that their release gives back.
 */
#ifndef EF_BASE_ROOM_H
#define EF_BASE_ROOM_H

#include "arena.h"

#include <everfold/event.h>

typedef struct ef__batch_room {
    ef__arena arena;
} ef__batch_room;

/* Make the room, or empty the one that is there. EF_NO_MEMORY. */
ef_status ef__room_ready(struct ef__batch_room **room, ef_error *err);
void ef__room_release(struct ef__batch_room **room);
/* ef_fail for a room that cannot hold more. */
ef_status ef__room_full(ef_error *err);

#endif
