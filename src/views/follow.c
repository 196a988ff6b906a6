/*
 * follow.c - see follow.h.
 */
#include "follow.h"

ef_status ef__follow_crowded(int64_t generation, ef_error *err)
{
    return ef_fail_numbers(err, EF_BUSY, EF_LIMIT_FOLLOWED_TENANTS, EF_LIMIT_FOLLOWED_TENANTS,
                           "%d tenants of generation %lld are followed already, which is the most; "
                           "try again when followers have left",
                           EF_LIMIT_FOLLOWED_TENANTS, (long long)generation);
}

ef_status ef__change_list_ready(ef__change_list *list, ef_error *err)
{
    ef_status st = ef__memory_prepare(&list->room, err);

    *list = (ef__change_list){.room = list->room};
    return st;
}

ef_status ef__change_list_add(ef__change_list *list, ef__change_record **items, size_t *cap,
                              const ef__change_record *record, ef_error *err)
{
    ef__arena *arena = &list->room->arena;
    ef__change_record *to;

    *items = ef__arena_grow(arena, *items, list->count, sizeof **items, cap);
    if (!*items)
        return ef__no_memory(err);
    to = &(*items)[list->count];
    *to = *record;
    to->view_id = ef__arena_copy(arena, record->view_id);
    if (!to->view_id.ptr)
        return ef__no_memory(err);
    list->items = *items;
    list->count++;
    return EF_OK;
}
