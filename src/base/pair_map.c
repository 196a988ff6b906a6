/*
 * pair_map.c - chains of pairs, one allocation each:
 *
 *     next, hash, lengths · value · tenant · name
 */
#include "pair_map.h"

#include "hash.h"
#include "same.h"

#include <stdlib.h>

#define FIRST_BUCKETS 256 /* 2 KiB: a map is used for at least that many streams or views */

struct ef__pair {
    ef__pair *next;
    uint64_t hash;
    uint8_t tenant_len, name_len;
    void *value[]; /* aligned for a pointer */
};

/* Tenant and name are hashed and compared separately, so that no two pairs can be confused. */
static uint64_t hash_pair(ef_str tenant, ef_str name)
{
    return ef__xxh3(name, tenant.len ? ef__xxh3(tenant, 1) : 0);
}

static bool is_pair(const ef__pair_map *map, const ef__pair *pair, uint64_t hash, ef_str tenant,
                    ef_str name)
{
    const char *names = (const char *)pair->value + map->value_bytes;

    return pair->hash == hash && pair->tenant_len == tenant.len && pair->name_len == name.len &&
           ef__bytes_same(names, tenant.ptr, tenant.len) &&
           ef__bytes_same(names + tenant.len, name.ptr, name.len);
}

static ef__pair *find_pair(const ef__pair_map *map, uint64_t hash, ef_str tenant, ef_str name)
{
    if (map->bucket_count == 0)
        return NULL;
    for (ef__pair *p = map->buckets[hash & (map->bucket_count - 1)]; p; p = p->next)
        if (is_pair(map, p, hash, tenant, name))
            return p;
    return NULL;
}

void *ef__pair_map_find(const ef__pair_map *map, ef_str tenant, ef_str name)
{
    ef__pair *pair = find_pair(map, hash_pair(tenant, name), tenant, name);

    return pair ? pair->value : NULL;
}

static void add_to_bucket(ef__pair **buckets, size_t bucket_count, ef__pair *pair)
{
    ef__pair **slot = &buckets[pair->hash & (bucket_count - 1)];

    pair->next = *slot;
    *slot = pair;
}

static bool grow_buckets(ef__pair_map *map)
{
    size_t more = map->bucket_count ? 2 * map->bucket_count : FIRST_BUCKETS;
    ef__pair **buckets = calloc(more, sizeof *buckets);

    if (!buckets)
        return false;
    for (size_t i = 0; i < map->bucket_count; i++)
        while (map->buckets[i]) {
            ef__pair *pair = map->buckets[i];
            map->buckets[i] = pair->next;
            add_to_bucket(buckets, more, pair);
        }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = more;
    return true;
}

void *ef__pair_map_at(ef__pair_map *map, ef_str tenant, ef_str name, bool *out_new)
{
    uint64_t hash = hash_pair(tenant, name);
    ef__pair *pair = find_pair(map, hash, tenant, name);
    char *names;

    *out_new = false;
    if (pair)
        return pair->value;
    if (map->count >= map->bucket_count && !grow_buckets(map))
        return NULL;
    pair = ef__arena_alloc(&map->arena, sizeof *pair + map->value_bytes + tenant.len + name.len);
    if (!pair)
        return NULL;
    pair->hash = hash;
    pair->tenant_len = (uint8_t)tenant.len;
    pair->name_len = (uint8_t)name.len;
    memset(pair->value, 0, map->value_bytes);
    names = (char *)pair->value + map->value_bytes;
    if (tenant.len)
        memcpy(names, tenant.ptr, tenant.len);
    if (name.len)
        memcpy(names + tenant.len, name.ptr, name.len);
    add_to_bucket(map->buckets, map->bucket_count, pair);
    map->count++;
    *out_new = true;
    return pair->value;
}

size_t ef__pair_map_bytes(const ef__pair_map *map)
{
    return map->arena.used_bytes + map->bucket_count * sizeof(ef__pair *);
}

void ef__pair_map_reset(ef__pair_map *map)
{
    if (map->buckets)
        memset(map->buckets, 0, map->bucket_count * sizeof(ef__pair *));
    map->count = 0;
    ef__arena_reset(&map->arena);
}

void ef__pair_map_release(ef__pair_map *map)
{
    free(map->buckets);
    map->buckets = NULL;
    map->bucket_count = map->count = 0;
    ef__arena_release(&map->arena);
}
