/*
 * memory.c - the memory journal: opening and closing, its lock, and the journal as a whole.
 *
 * Every operation holds the one mutex from start to end; `grown` is signalled under it.
 */
#include "memory.h"

#include "../../base/hash.h"
#include "../../base/limits.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#define SCRATCH_BYTES (EF_LIMIT_DATA_BYTES + EF_LIMIT_META_BYTES + 4096) /* one encoded event */

/* --- the journal as a whole ------------------------------------------------------------------- */

static ef_status memory_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = (ef_store_facts){
        .backend = "memory",
        .version = EF_VERSION,
        .durability = "kept in memory: nothing survives the process",
        .schema = -1,
        .partitions = mem->partitions,
        .store_bytes = -1,
        .wal_bytes = -1,
        .free_bytes = -1,
        .streams = (int64_t)mem->stream_count,
        .commits = mem->commits,
        .appended = mem->appended,
        .checkpoints = -1,
        .checkpoint_errors = -1,
        .stale_refused = mem->stale_refused,
    };
    memcpy(out->journal_id, mem->id, sizeof mem->id);
    return EF_OK;
}

static ef_status memory_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    if (!damage || mem->damage.found_us == 0)
        mem->damage = damage ? *damage : (ef__damage){0};
    return EF_OK;
}

static ef_status memory_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = mem->damage;
    return EF_OK;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static void memory_close(ef_journal *journal)
{
    mem_journal *mem = (mem_journal *)journal;

    for (size_t i = 0; i < mem->event_count; i++)
        free(mem->events[i]);
    free(mem->events);
    for (size_t i = 0; i < mem->stream_count; i++)
        free(mem->streams[i].events);
    free(mem->streams);
    ef__mem_map_release(&mem->by_id);
    ef__mem_map_release(&mem->by_name);
    ef__mem_lanes_release(mem);
    ef__mem_leases_release(mem);
    ef__mem_records_release(mem);
    ef__buf_release(&mem->scratch);
    (void)pthread_cond_destroy(&mem->grown);
    (void)pthread_mutex_destroy(&mem->mutex);
    free(mem);
}

static const ef__store_ops store_ops = {
    .name = "memory",
    .close = memory_close,
    .facts = memory_facts,
    .damage_set = memory_damage_set,
    .damage_get = memory_damage_get,
};

static bool init_locks(mem_journal *mem)
{
    pthread_condattr_t attributes;
    bool ok;

    if (pthread_mutex_init(&mem->mutex, NULL) != 0)
        return false;
    /* The monotonic clock: a timeout must not depend on changes of the system time. */
    ok = pthread_condattr_init(&attributes) == 0;
    ok = ok && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(&mem->grown, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    if (!ok)
        (void)pthread_mutex_destroy(&mem->mutex);
    return ok;
}

ef_status ef__journal_memory_open(const ef_journal_options *options, ef_journal **out,
                                  ef_error *err)
{
    const ef_lane apply = {
        .name = EF_STR(EF_LANE_APPLY), .kind = EF_LANE_KIND_APPLY, .enabled = true};
    mem_journal *mem = calloc(1, sizeof *mem);
    ef_status st;

    if (!mem || !init_locks(mem)) {
        free(mem);
        return ef__mem_no_memory(err);
    }
    mem->base.store = &store_ops;
    mem->base.events = &ef__mem_events_ops;
    mem->base.control = &mem->base;
    mem->base.outbox = &ef__mem_outbox_ops;
    mem->base.leases = &ef__mem_lease_ops;
    mem->base.records = &ef__mem_record_ops;
    mem->base.options = *options;
    mem->partitions = options->partitions;
    mem->scratch = (ef__buf)EF__BUF_INIT(SCRATCH_BYTES);
    st = ef__mem_lane_add(mem, &apply, err);
    if (st == EF_OK && !ef__uuid7(ef__mem_now(mem), mem->id))
        st = ef_fail(err, EF_IO, "cannot create the journal id: no random numbers from the system");
    if (st != EF_OK) {
        ef_journal_close(&mem->base);
        return st;
    }
    *out = &mem->base;
    return EF_OK;
}

/* --- shared ----------------------------------------------------------------------------------- */

mem_journal *ef__mem_lock(ef_journal *journal)
{
    mem_journal *mem = (mem_journal *)journal;

    (void)pthread_mutex_lock(&mem->mutex);
    return mem;
}

void ef__mem_unlock(mem_journal **mem)
{
    (void)pthread_mutex_unlock(&(*mem)->mutex);
}

int64_t ef__mem_now(const mem_journal *mem)
{
    const ef_clock *clock = mem->base.options.clock;

    return clock->wall_us(clock->context);
}

ef_status ef__mem_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the memory journal");
}

/* --- maps ------------------------------------------------------------------------------------- */

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

/* --- arrays and texts ------------------------------------------------------------------------- */

bool ef__mem_grow(void **items, size_t *cap, size_t count, size_t size)
{
    size_t bigger = *cap ? *cap : 16;
    void *moved;

    if (count <= *cap)
        return true;
    while (bigger < count)
        bigger *= 2;
    moved = realloc(*items, bigger * size);
    if (!moved)
        return false;
    *items = moved;
    *cap = bigger;
    return true;
}

void ef__mem_insert(void *items, size_t *count, size_t at, size_t size, const void *item)
{
    char *place = (char *)items + at * size;

    assert(at <= *count);
    memmove(place + size, place, (*count - at) * size);
    memcpy(place, item, size);
    (*count)++;
}

void ef__mem_remove(void *items, size_t *count, size_t at, size_t size)
{
    char *place = (char *)items + at * size;

    assert(at < *count);
    (*count)--;
    memmove(place, place + size, (*count - at) * size);
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

bool ef__mem_texts_own(void *item, const ef__texts *texts)
{
    bool ok = true;

    for (size_t i = 0; i < texts->count; i++) {
        ef_str *text = ef__text_at(texts, item, i), given = *text;
        *text = (ef_str){0};
        ok = ok && ef__mem_text_set(text, given);
    }
    if (!ok)
        ef__mem_texts_free(item, texts);
    return ok;
}

void ef__mem_texts_free(void *item, const ef__texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        ef__mem_text_free(ef__text_at(texts, item, i));
}
