/*
 * skip.c - the memory journal's skips: events that versions of projections do not apply.
 */
#include "memory.h"

#include <assert.h>

/* After ef__mem_skips_reserve. */
ef_status ef__mem_skip_append(mem_journal *mem, const ef__skip_entry *entry, ef_error *err)
{
    mem_skip made = {.version = entry->version, .seq = entry->seq};

    if (!ef__mem_text_set(&made.projection, entry->projection) ||
        !ef__mem_text_set(&made.tenant, entry->tenant) ||
        !ef__mem_text_set(&made.stream, entry->stream)) {
        ef__mem_skip_free(&made);
        return ef__mem_no_memory(err);
    }
    assert(mem->skip_count < mem->skip_cap);
    mem->skips[mem->skip_count++] = made;
    return EF_OK;
}

ef_status ef__mem_skips_reserve(mem_journal *mem, size_t count, ef_error *err)
{
    while (mem->skip_cap < mem->skip_count + count)
        if (!ef__mem_grow((void **)&mem->skips, &mem->skip_cap, mem->skip_cap, sizeof *mem->skips))
            return ef__mem_no_memory(err);
    return EF_OK;
}

void ef__mem_skip_free(mem_skip *skip)
{
    if (skip->withdrawn)
        return;
    ef__mem_text_free(&skip->projection);
    ef__mem_text_free(&skip->tenant);
    ef__mem_text_free(&skip->stream);
}

static bool same_event(const mem_skip *a, const mem_skip *b)
{
    return a->seq == b->seq && ef_str_equal(a->stream, b->stream) &&
           ef_str_equal(a->tenant, b->tenant) && ef_str_equal(a->projection, b->projection);
}

static bool is_last_skip(const mem_journal *mem, size_t index)
{
    for (size_t i = index + 1; i < mem->skip_count; i++)
        if (mem->skips[i].version == mem->skips[index].version &&
            same_event(&mem->skips[i], &mem->skips[index]))
            return false;
    return true;
}

void ef__mem_skip_withdraw(mem_journal *mem, ef_str projection, const ef_event *event)
{
    mem_skip about = {projection, event->tenant, event->stream, event->seq, 0, false};
    size_t count = mem->skip_count;

    for (size_t i = 0; i < count; i++) {
        if (mem->skips[i].withdrawn || !same_event(&mem->skips[i], &about) || !is_last_skip(mem, i))
            continue;
        mem->skips[mem->skip_count] = mem->skips[i];
        mem->skips[mem->skip_count++].withdrawn = true;
    }
}

ef_status ef__mem_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = ef__mem_skips_reserve(mem, 1, err);

    if (st == EF_OK)
        st = ef__mem_skip_append(mem, entry, err);
    ef__mem_unlock(mem);
    return st;
}

static ef_status list_skips(const mem_journal *mem, ef_str projection, int32_t version,
                            int64_t after, size_t limit, ef__skip_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef__skip *items = ef__arena_zalloc(
        arena, (mem->skip_count < limit ? mem->skip_count : limit) + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (size_t i = (size_t)after; i < mem->skip_count && out->count < limit; i++) {
        const mem_skip *s = &mem->skips[i];
        if (s->version != version || !ef_str_equal(s->projection, projection))
            continue;
        items[out->count] = (ef__skip){.id = (int64_t)i + 1,
                                       .tenant = ef__arena_copy(arena, s->tenant),
                                       .stream = ef__arena_copy(arena, s->stream),
                                       .seq = s->seq,
                                       .withdrawn = s->withdrawn};
        if (!items[out->count].tenant.ptr || !items[out->count].stream.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    return EF_OK;
}

ef_status ef__mem_skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                          size_t limit, ef__skip_list *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_skips(mem, projection, version, after, limit, out, err);

    ef__mem_unlock(mem);
    return st;
}
