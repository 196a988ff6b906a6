/*
 * large.c - see large.h.
 */
#include "large.h"
#include "engine_priv.h"

#include "../base/hash.h"
#include "../base/logger.h"

/* Is it the first time? False also when there is no room to remember it. */
static bool remember(ef__large *large, uint64_t hash)
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

void ef__large_note(ef_engine *e, const ef__generation *g, const ef__view *view)
{
    uint64_t hash = ef__xxh3(view->id, ef__xxh3(view->tenant, (uint64_t)g->id));

    if (!remember(&e->large, hash))
        return;
    atomic_fetch_add(&e->counts.large_views, 1);
    ef__log(e->options.log, EF_LOG_WARN, "a view is larger than half of what a view may have",
            EF_LOG_TEXT_FIELD("projection", g->name), EF_LOG_NUMBER_FIELD("version", g->version),
            EF_LOG_TEXT_FIELD("tenant", view->tenant), EF_LOG_TEXT_FIELD("view_id", view->id),
            EF_LOG_NUMBER_FIELD("bytes", (int64_t)view->data.len),
            EF_LOG_NUMBER_FIELD("bytes_max", EF_FOLD_LIMIT_VIEW_BYTES));
}
