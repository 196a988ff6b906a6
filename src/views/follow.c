/*
 * follow.c - see follow.h.
 */
#include "follow.h"

#include <stddef.h>

const ef__texts ef__change_texts = {1, {offsetof(ef__change_record, view_id)}};

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
