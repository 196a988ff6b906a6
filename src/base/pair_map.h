/*
 * pair_map.h - values by tenant and name.
 *
 * For what is kept of each stream or each view. A value lives where it is until the map is reset.
 * Names have at most EF_LIMIT_NAME_BYTES. Not for several threads at once.
 */
#ifndef EF_BASE_PAIR_MAP_H
#define EF_BASE_PAIR_MAP_H

#include "arena.h"

#include <stdint.h>

typedef struct ef__pair ef__pair;

typedef struct ef__pair_map {
    size_t value_bytes; /* of each; what they have to be aligned for is a pointer */
    ef__pair **buckets;
    size_t bucket_count; /* 0, or a power of two */
    size_t count;
    ef__arena arena;
} ef__pair_map;

#define EF__PAIR_MAP_INIT(type, max_bytes)                                                         \
    {                                                                                              \
        sizeof(type), NULL, 0, 0, EF__ARENA_INIT(max_bytes)                                        \
    }

/* The value of that name, or NULL. */
void *ef__pair_map_find(const ef__pair_map *map, ef_str tenant, ef_str name);
/* The same; one that is not there is added, zeroed, and *out_new says so. NULL: no memory. */
void *ef__pair_map_at(ef__pair_map *map, ef_str tenant, ef_str name, bool *out_new);
size_t ef__pair_map_bytes(const ef__pair_map *map);
void ef__pair_map_reset(ef__pair_map *map);
void ef__pair_map_release(ef__pair_map *map);

#endif
