/*
 * pair_map.h - values by tenant and name.
 *
 * For state per stream or per view. The address of a value is stable until the map is reset. Names
 * have at most EF_LIMIT_NAME_BYTES. Not thread-safe.
 */
#pragma once

#include "arena.h"

#include <stdint.h>

typedef struct ef__pair ef__pair;

typedef struct ef__pair_map {
    size_t value_bytes; /* of each value; values are aligned for a pointer */
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
/* The same; a missing value is added, zeroed, and *out_new is set. NULL: memory ran out. */
void *ef__pair_map_at(ef__pair_map *map, ef_str tenant, ef_str name, bool *out_new);
size_t ef__pair_map_bytes(const ef__pair_map *map);
void ef__pair_map_reset(ef__pair_map *map);
void ef__pair_map_release(ef__pair_map *map);
EF__AUTO_TYPE(ef__pair_map, ef__pair_map_release)
