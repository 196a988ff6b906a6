/*
 * view_size.h - reports views that approach the size limit.
 *
 * A view of more than EF_FOLD_LIMIT_VIEW_BYTES cannot be written: each event that would make it
 * larger fails, and blocks its stream. At half of the limit a view is reported, once per view and
 * process.
 */
#ifndef EF_ENGINE_VIEW_SIZE_H
#define EF_ENGINE_VIEW_SIZE_H

#include "../fold/limits.h"
#include "../views/views.h"

#include <everfold/engine.h>

#include <pthread.h>

#define EF__LARGE_VIEW_BYTES (EF_FOLD_LIMIT_VIEW_BYTES / 2)
#define EF__LARGE_VIEWS_MAX 1024 /* reports per process; more would add nothing */

typedef struct ef__large_views {
    pthread_mutex_t lock;
    size_t count;
    uint64_t seen[EF__LARGE_VIEWS_MAX]; /* hashes of generation, tenant and view id */
} ef__large_views;

/* Reports a committed view of at least EF__LARGE_VIEW_BYTES. */
void ef__view_size_report(ef_engine *engine, const ef__generation *generation,
                          const ef__view *view);

/* Reports the large views of a commit. */
static inline void ef__view_size_check(ef_engine *engine, const ef__generation *generation,
                                       const ef__view_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].view.data.len >= EF__LARGE_VIEW_BYTES && !changes[i].deleted)
            ef__view_size_report(engine, generation, &changes[i].view);
}

#endif
