/*
 * view_size.c - see view_size.h.
 */
#include "view_size.h"
#include "engine_priv.h"

#include "../base/hash.h"
#include "../base/logger.h"

/* Is it the first report of this view? False also when the table is full. */
static bool is_first_report(ef__large_views *large, uint64_t hash)
{
    bool is_new = true;

    pthread_mutex_lock(&large->lock);
    for (size_t i = 0; is_new && i < large->count; i++)
        is_new = large->seen[i] != hash;
    is_new = is_new && large->count < EF__LARGE_VIEWS_MAX;
    if (is_new)
        large->seen[large->count++] = hash;
    pthread_mutex_unlock(&large->lock);
    return is_new;
}

void ef__view_size_report(ef_engine *engine, const ef__generation *generation, const ef__view *view)
{
    uint64_t hash = ef__xxh3(view->id, ef__xxh3(view->tenant, (uint64_t)generation->id));

    if (!is_first_report(&engine->large_views, hash))
        return;
    atomic_fetch_add(&engine->counts.large_views, 1);
    ef__log(engine->options.log, EF_LOG_WARN, "view exceeds half of the size limit",
            EF_LOG_TEXT_FIELD("projection", generation->name),
            EF_LOG_NUMBER_FIELD("version", generation->version),
            EF_LOG_TEXT_FIELD("tenant", view->tenant), EF_LOG_TEXT_FIELD("view_id", view->id),
            EF_LOG_NUMBER_FIELD("bytes", (int64_t)view->data.len),
            EF_LOG_NUMBER_FIELD("bytes_max", EF_FOLD_LIMIT_VIEW_BYTES));
}
