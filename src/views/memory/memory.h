/*
 * memory.h - the view store in memory: the model with which tests compare the other stores.
 *
 * Plain lists. Derived values (digests, counts, indexes) are computed on demand, so that none can
 * be inconsistent. One recursive lock guards everything; `each` of a scan may read under it.
 */
#pragma once

#include "../views.h"

#include <pthread.h>
#include <stddef.h>

/* Pointers that grow; the list does not own what they point at. */
typedef struct mem_list {
    void **items;
    size_t count, cap;
} mem_list;

bool mem_list_reserve(mem_list *list, size_t more);
void mem_list_insert(mem_list *list, size_t at, void *item); /* after mem_list_reserve */
void mem_list_add(mem_list *list, void *item);               /* the same, at the end */
void *mem_list_remove(mem_list *list, size_t at);
/* Free the items, then the list. */
void mem_list_release(mem_list *list);
/* In a list by tenant and name, whose items begin with an ef__view_key: the index of the item, or
 * the index at which to insert it. */
size_t mem_list_find(const mem_list *list, ef_str tenant, ef_str name, bool *out_found);
/* The item, or NULL. */
void *mem_list_get(const mem_list *list, ef_str tenant, ef_str name);
/* In a list in no order, whose items begin with their name: the item, or NULL. */
void *mem_list_named(const mem_list *list, ef_str name, size_t *out_at);

/* A new item of a list: a struct with its texts in one block of memory, which free() releases.
 * NULL: memory ran out. */
void *mem_copy(size_t bytes, const ef__texts *texts, const void *from);
/* Copies `text` to `*at` and advances it. */
ef_str mem_put(char **at, ef_str text);

typedef struct mem_view {
    ef__view_key at; /* as in `view` */
    ef__view view;
    size_t key_count;
    ef__index_key keys[];
} mem_view;

typedef struct mem_watermark {
    ef__view_key at;
    ef__watermark watermark;
} mem_watermark;

typedef struct mem_follow_row {
    ef_str tenant;
    ef__follow_row follow;
    mem_list records; /* ef__change_record, in their order */
} mem_follow_row;

typedef struct mem_generation {
    ef__generation about; /* first, so that its texts are mine. Without views and digest */
    mem_list views;       /* mem_view, by tenant and id */
    mem_list watermarks;  /* mem_watermark, by tenant and stream */
    mem_list tenants;     /* ef__tenant_cursor_item, in no order */
    mem_list failures;    /* ef__failure, in the order they were opened */
    mem_list follows;     /* mem_follow_row, in no order */
    int64_t follow_floor; /* the highest number of those that ended */
} mem_generation;

typedef struct mem_store {
    ef_views base; /* first: an ef_views * is cast to mem_store * */
    pthread_mutex_t lock;
    mem_list generations; /* mem_generation, by name and number */
    mem_list fences;      /* ef__fence, in no order */
    mem_list retired;     /* in no order */
    int64_t last_generation, last_failure, live_set;
} mem_store;

static inline int64_t mem_now_us(const mem_store *store)
{
    return ef__views_now_us(&store->base);
}

/* Holds the lock until the end of the block: MEM_LOCKED mem_store *store = mem_lock(views); */
#define MEM_LOCKED __attribute__((cleanup(mem_unlock)))
mem_store *mem_lock(ef_views *views);
void mem_unlock(mem_store **store);
mem_generation *mem_generation_find(const mem_store *store, int64_t id);

EF__VIEWS_EVERY(EF__VIEWS_DECLARE, mem)

/* commit.c */
extern const ef__texts mem_tenant_texts;

/* follow.c. The record of a change, without its number; NULL: memory ran out. */
ef__change_record *mem_record_make(const ef__view_change *change);
/* After mem_list_reserve. */
void mem_record_put(mem_store *store, mem_follow_row *follow, ef__change_record *record);
/* After a commit: removes records above the limit, and expired follows. */
void mem_records_tidy(mem_store *store, mem_generation *g);
/* Removes up to *limit rows and subtracts their number from it. */
void mem_follows_cut(mem_generation *g, int64_t *limit);
