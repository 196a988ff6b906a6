/*
 * map.c - hash maps of indices, growing arrays and owned texts for the memory journal.
 */
#include "memory.h"

#include "../../base/hash.h"

#include <assert.h>
#include <stdlib.h>

static void put_slot(mem_slot *slots, size_t cap, uint64_t hash, int64_t value)
{
    size_t at = hash & (cap - 1);

    while (slots[at].value >= 0)
        at = (at + 1) & (cap - 1);
    slots[at] = (mem_slot){hash, value};
}

bool ef__mem_map_reserve(mem_map *map, size_t extra)
{
    size_t cap = map->cap ? map->cap : 64;
    mem_slot *slots;

    while ((map->count + extra) * 2 > cap)
        cap *= 2;
    if (cap == map->cap)
        return true;
    slots = malloc(cap * sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < cap; i++)
        slots[i] = (mem_slot){0, -1};
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].value >= 0)
            put_slot(slots, cap, map->slots[i].hash, map->slots[i].value);
    free(map->slots);
    map->slots = slots;
    map->cap = cap;
    return true;
}

void ef__mem_map_add(mem_map *map, uint64_t hash, int64_t value)
{
    assert((map->count + 1) * 2 <= map->cap);
    put_slot(map->slots, map->cap, hash, value);
    map->count++;
}

void ef__mem_map_undo(mem_map *map, uint64_t hash, int64_t value)
{
    size_t at = hash & (map->cap - 1);

    while (map->slots[at].value != value) {
        assert(map->slots[at].value >= 0);
        at = (at + 1) & (map->cap - 1);
    }
    map->slots[at].value = -1;
    map->count--;
}

int64_t ef__mem_map_find(const mem_map *map, uint64_t hash, mem_same *same, const void *context)
{
    if (map->cap == 0)
        return -1;
    for (size_t at = hash & (map->cap - 1); map->slots[at].value >= 0;
         at = (at + 1) & (map->cap - 1))
        if (map->slots[at].hash == hash && same(context, map->slots[at].value))
            return map->slots[at].value;
    return -1;
}

void ef__mem_map_release(mem_map *map)
{
    free(map->slots);
    *map = (mem_map){0};
}

uint64_t ef__mem_hash_names(ef_str a, ef_str b)
{
    return ef__xxh3(b, ef__xxh3(a, 0));
}

uint64_t ef__mem_hash_numbers(int64_t a, int64_t b)
{
    int64_t both[2] = {a, b};

    return ef__xxh3((ef_str){(const char *)both, sizeof both}, 0);
}

bool ef__mem_grow(void **items, size_t *cap, size_t count, size_t size)
{
    size_t bigger = *cap ? *cap * 2 : 16;
    void *moved;

    if (count < *cap)
        return true;
    moved = realloc(*items, bigger * size);
    if (!moved)
        return false;
    *items = moved;
    *cap = bigger;
    return true;
}

bool ef__mem_text_set(ef_str *text, ef_str value)
{
    char *copy = malloc(value.len + 1);

    if (!copy)
        return false;
    if (value.len)
        memcpy(copy, value.ptr, value.len);
    copy[value.len] = '\0';
    free((char *)text->ptr);
    *text = (ef_str){copy, value.len};
    return true;
}

void ef__mem_text_free(ef_str *text)
{
    free((char *)text->ptr);
    *text = (ef_str){0};
}
