/*
 * list.c - lists that grow in an arena of the caller.
 */
#include "outbox.h"

void *sq_list_grow(ef__arena *arena, void *items, size_t count, size_t size)
{
    const size_t first = 16;
    bool full = count == 0 || (count >= first && (count & (count - 1)) == 0);
    void *grown;

    if (!full)
        return items;
    grown = ef__arena_alloc(arena, (count < first ? first : count * 2) * size);
    if (grown && count)
        memcpy(grown, items, count * size);
    return grown;
}

ef_str sq_column_copy(sqlite3_stmt *stmt, int column, ef__arena *arena)
{
    return ef__arena_copy(arena, ef__sq_column_str(stmt, column));
}
