/*
 * follow.h - the record of changes: the rules that all back ends share.
 */
#pragma once

#include "compare.h"

#include "../base/limits.h"

/* The number of the next record. */
static inline int64_t ef__follow_next(const ef__follow_row *follow, int64_t now_us)
{
    return follow->last < now_us ? now_us : follow->last + 1;
}

/* Not for a change for which ef__view_change_is_nothing. */
static inline ef__change_kind ef__change_kind_of(const ef__view_change *change)
{
    if (change->deleted)
        return EF__CHANGE_DELETED;
    return ef__digest_is_none(change->before) ? EF__CHANGE_CREATED : EF__CHANGE_UPDATED;
}

/* The index after the changes of the tenant of `first`; `sorted` is by ef__views_sorted. */
static inline size_t ef__changes_of_tenant(const ef__view_change **sorted, size_t count,
                                           size_t first)
{
    size_t next = first + 1;

    while (next < count && ef_str_equal(sorted[next]->view.tenant, sorted[first]->view.tenant))
        next++;
    return next;
}

/* EF_BUSY: too many tenants of the generation are followed. */
ef_status ef__follow_crowded(int64_t generation, ef_error *err);

/* An empty list with its memory. */
ef_status ef__change_list_ready(ef__change_list *list, ef_error *err);
/* Of a record. */
extern const ef__texts ef__change_texts;
