/*
 * memory.h - the view store in memory: the model with which tests compare the other stores.
 *
 * Plain sorted lists. Derived values (digests, counts, indexes) are computed on demand, so that
 * none can be inconsistent. One recursive lock guards everything; `each` of a scan may read under
 * it.
 */
#ifndef EF_VIEWS_MEMORY_MEMORY_H
#define EF_VIEWS_MEMORY_MEMORY_H

#include "../views.h"

#include <pthread.h>

/* Pointers that grow; the list does not own what they point at. */
typedef struct mem_list {
    void **items;
    size_t count, cap;
} mem_list;

bool mem_list_reserve(mem_list *list, size_t more);
void mem_list_insert(mem_list *list, size_t at, void *item); /* after mem_list_reserve */
void *mem_list_remove(mem_list *list, size_t at);
/* Free the items, then the list. */
void mem_list_release(mem_list *list);

/* Each item is one block of memory that includes its strings: free() releases it. */
typedef struct mem_view {
    ef__view view;
    size_t key_count;
    ef__index_key keys[];
} mem_view;

typedef struct mem_watermark {
    ef_str tenant, stream;
    ef__watermark watermark;
} mem_watermark;

typedef struct mem_fence {
    ef_str scope;
    int64_t token;
} mem_fence;

typedef struct mem_retired {
    ef_str name;
    int32_t version;
} mem_retired;

typedef struct mem_follow {
    ef_str tenant;
    ef__follow_row follow;
    mem_list records; /* ef__change_record, in their order */
} mem_follow;

typedef struct mem_generation {
    ef__generation about; /* without the number of views and the digest */
    mem_list views;       /* mem_view, by tenant and id */
    mem_list watermarks;  /* mem_watermark, by tenant and stream */
    mem_list tenants;     /* ef__tenant_cursor_item, in no order */
    mem_list failures;    /* ef__failure, in the order they were opened */
    mem_list follows;     /* mem_follow, in no order */
    int64_t follow_floor; /* the highest number of those that ended */
} mem_generation;

typedef struct mem_store {
    ef_views base; /* first: an ef_views * is cast to mem_store * */
    pthread_mutex_t lock;
    mem_list generations; /* mem_generation, by name and number */
    mem_list fences;
    mem_list retired; /* mem_retired, in no order */
    int64_t last_generation, last_failure, live_set;
} mem_store;

static inline int64_t mem_now_us(const mem_store *store)
{
    return store->base.clock->wall_us(store->base.clock->context);
}

/* Copies `text` to `*at` and advances it. */
ef_str mem_put(char **at, ef_str text);

mem_generation *mem_generation_find(mem_store *store, int64_t id);
/* The index of the view or watermark, or the index at which to insert it. */
size_t mem_view_find(const mem_generation *g, ef_str tenant, ef_str id, bool *out_found);
size_t mem_watermark_find(const mem_generation *g, ef_str tenant, ef_str stream, bool *out_found);
/* NULL: the tenant uses the generation's cursor. */
ef__tenant_cursor_item *mem_tenant_find(const mem_generation *g, ef_str tenant);
mem_fence *mem_fence_find(const mem_store *store, ef_str scope);

/* commit.c */
ef_status mem_commit(ef_views *views, const ef__views_commit *commit, ef_error *err);

/* follow.c. NULL: the tenant is not followed. */
mem_follow *mem_follow_find(const mem_generation *g, ef_str tenant);
/* The record of a change, without its number; NULL: memory ran out. */
ef__change_record *mem_record_make(const ef__view_change *change);
/* After mem_list_reserve. */
void mem_record_put(mem_store *store, mem_follow *follow, ef__change_record *record);
/* After a commit: removes records above the limit, and expired follows. */
void mem_records_tidy(mem_store *store, mem_generation *g);
/* Removes up to *limit rows and subtracts their number from it. */
void mem_follows_cut(mem_generation *g, int64_t *limit);
void mem_follows_release(mem_generation *g);
ef_status mem_follow_begin(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                           ef__follow_row *out, ef_error *err);
ef_status mem_change_ls(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                        size_t limit, ef__change_list *out, ef_error *err);

/* read.c */
ef_status mem_view_get(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                       ef__arena *arena, ef__view *out, bool *out_found, ef_error *err);
ef_status mem_view_scan(ef_views *views, const ef__view_scan *scan,
                        bool (*each)(void *context, ef_str key, const ef__view *view),
                        void *context, ef_error *err);
ef_status mem_watermark_get(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                            ef__watermark *out, bool *out_found, ef_error *err);
ef_status mem_watermark_scan(ef_views *views, int64_t generation,
                             bool (*each)(void *context, ef_str tenant, ef_str stream,
                                          const ef__watermark *watermark),
                             void *context, ef_error *err);
ef_status mem_tenant_cursor_get(ef_views *views, int64_t generation, ef_str tenant,
                                ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
ef_status mem_tenant_cursor_ls(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                               ef__tenant_cursor_list *out, ef_error *err);
ef_status mem_failure_ls(ef_views *views, int64_t generation, const ef_str *tenant, bool open_only,
                         size_t limit, ef__failure_list *out, ef_error *err);
ef_status mem_fence_get(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err);

#endif
