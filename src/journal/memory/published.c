/*
 * published.c - what publishers' lanes have published, kept for the lane's retention time.
 */
#include "memory.h"

#include <assert.h>

ef_status ef__mem_published_reserve(mem_journal *mem, size_t count, ef_error *err)
{
    while (mem->published_cap < mem->published_count + count)
        if (!ef__mem_grow((void **)&mem->published, &mem->published_cap, mem->published_cap,
                          sizeof *mem->published))
            return ef__mem_no_memory(err);
    return EF_OK;
}

void ef__mem_published_add(mem_journal *mem, size_t lane, int64_t position, int64_t now_us)
{
    assert(mem->published_count < mem->published_cap);
    mem->published[mem->published_count++] = (mem_published){lane, position, now_us};
}

ef_status ef__mem_publisher_find(mem_journal *mem, ef_str name, size_t *out, ef_error *err)
{
    int64_t found = ef__mem_lane_find(mem, name);

    if (found < 0)
        return ef__mem_lane_missing(name, err);
    *out = (size_t)found;
    return ef__lane_publishes(name, mem->lanes[found].kind, err);
}

static void remove_published(mem_journal *mem, size_t at)
{
    mem->published_count--;
    memmove(&mem->published[at], &mem->published[at + 1],
            (mem->published_count - at) * sizeof *mem->published);
}

static ef_status find_held(mem_journal *mem, ef_str name, const ef_partition_lease *held,
                           size_t *out, ef_error *err)
{
    ef_status st = ef__mem_publisher_find(mem, name, out, err);

    return st == EF_OK ? ef__mem_lane_lease_check(mem, &mem->lanes[*out], held, err) : st;
}

ef_status ef__mem_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                  size_t limit, int64_t *out_count, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0, looked = 0;
    ef_status st = find_held(mem, lane, held, &of, err);
    int64_t before_us = st == EF_OK ? ef__mem_now(mem) - mem->lanes[of].retain_us : 0;

    for (size_t i = 0; st == EF_OK && i < mem->published_count && looked < limit;) {
        bool ours = mem->published[i].lane == of;
        looked += ours;
        if (ours && mem->published[i].at_us < before_us) {
            remove_published(mem, i);
            (*out_count)++;
        } else {
            i++;
        }
    }
    ef__mem_unlock(mem);
    return st;
}

/* The published event with the lowest position. */
static bool lowest_published(const mem_journal *mem, size_t lane, size_t *out)
{
    bool found = false;

    for (size_t i = 0; i < mem->published_count; i++)
        if (mem->published[i].lane == lane &&
            (!found || mem->published[i].position < mem->published[*out].position)) {
            *out = i;
            found = true;
        }
    return found;
}

ef_status ef__mem_published_requeue(ef_journal *journal, ef_str lane,
                                    const ef_partition_lease *held, size_t limit,
                                    int64_t *out_count, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0, at = 0;
    ef_status st = find_held(mem, lane, held, &of, err);

    for (size_t n = 0; st == EF_OK && n < limit && lowest_published(mem, of, &at); n++) {
        st = ef__mem_retry_row_requeue(mem, of, mem->published[at].position, err);
        if (st == EF_OK) {
            remove_published(mem, at);
            (*out_count)++;
        }
    }
    ef__mem_unlock(mem);
    return st;
}

ef_status ef__mem_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                  ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    size_t of = 0;
    ef_status st = ef__mem_publisher_find(mem, lane, &of, err);

    for (size_t i = 0; st == EF_OK && i < mem->published_count && *out_count < (int64_t)most; i++)
        *out_count += mem->published[i].lane == of;
    ef__mem_unlock(mem);
    return st;
}
