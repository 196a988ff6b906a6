/*
 * large.h - views that come near to the size at which their events fail.
 *
 * A view of more than EF_FOLD_LIMIT_VIEW_BYTES cannot be written: each event that would make it
 * larger fails, and blocks its stream. At half of that it is reported, once for each view and
 * process.
 */
#ifndef EF_ENGINE_LARGE_H
#define EF_ENGINE_LARGE_H

#include "../fold/limits.h"
#include "../views/views.h"

#include <everfold/engine.h>

#include <pthread.h>

#define EF__LARGE_VIEW_BYTES (EF_FOLD_LIMIT_VIEW_BYTES / 2)
#define EF__LARGE_VIEWS_MAX 1024 /* that are reported; a projection with more is not news */

typedef struct ef__large {
    pthread_mutex_t lock;
    size_t count;
    uint64_t seen[EF__LARGE_VIEWS_MAX]; /* hashes of generation, tenant and view id */
} ef__large;

/* A view of this size was committed. */
void ef__large_note(ef_engine *engine, const ef__generation *generation, const ef__view *view);

/* Reports the views of a commit that are large. */
static inline void ef__large_look(ef_engine *engine, const ef__generation *generation,
                                  const ef__view_change *changes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (changes[i].view.data.len >= EF__LARGE_VIEW_BYTES && !changes[i].deleted)
            ef__large_note(engine, generation, &changes[i].view);
}

#endif
