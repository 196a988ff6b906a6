/*
 * worker.c - the memory journal's workers, and the throughput that their heartbeats report.
 */
#include "memory.h"

#include <stdlib.h>

/* --- workers ---------------------------------------------------------------------------------- */

static size_t worker_at(const mem_journal *mem, ef_str id, bool *found)
{
    size_t at = 0;

    while (at < mem->worker_count && ef__str_compare(mem->workers[at].id, id) < 0)
        at++;
    *found = at < mem->worker_count && ef_str_equal(mem->workers[at].id, id);
    return at;
}

static void remove_worker(mem_journal *mem, size_t at)
{
    ef__mem_text_free(&mem->workers[at].id);
    ef__mem_text_free(&mem->workers[at].host);
    mem->worker_count--;
    memmove(&mem->workers[at], &mem->workers[at + 1],
            (mem->worker_count - at) * sizeof *mem->workers);
}

static ef_status add_worker(mem_journal *mem, size_t at, ef_str id, ef_error *err)
{
    mem_worker made = {.started_us = ef__mem_now(mem)};

    if (!ef__mem_grow((void **)&mem->workers, &mem->worker_cap, mem->worker_count,
                      sizeof *mem->workers) ||
        !ef__mem_text_set(&made.id, id))
        return ef__mem_no_memory(err);
    memmove(&mem->workers[at + 1], &mem->workers[at],
            (mem->worker_count - at) * sizeof *mem->workers);
    mem->workers[at] = made;
    mem->worker_count++;
    return EF_OK;
}

ef_status ef__mem_worker_beat(mem_journal *mem, const ef_worker *worker, int64_t heartbeat_ms,
                              ef_error *err)
{
    bool found;
    size_t at = worker_at(mem, worker->id, &found);
    ef_status st;

    if (!found && (st = add_worker(mem, at, worker->id, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&mem->workers[at].host, worker->host))
        return ef__mem_no_memory(err);
    mem->workers[at].pid = worker->pid;
    mem->workers[at].state = worker->state == EF_WORKER_IDLE ? EF_WORKER_IDLE : EF_WORKER_WORKING;
    mem->workers[at].updated_us = ef__mem_now(mem);
    mem->workers[at].heartbeat_until_us = mem->workers[at].updated_us + heartbeat_ms * 1000;
    return EF_OK;
}

ef_status ef__mem_worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    bool found;
    size_t at = worker_at(mem, id, &found);

    (void)err;
    if (found)
        remove_worker(mem, at);
    ef__mem_unlock(mem);
    return EF_OK;
}

ef_status ef__mem_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                               int64_t *out_purged, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    int64_t now_us = ef__mem_now(mem);

    (void)err;
    *out_purged = 0;
    /* Also when the clock was set back, or purging would pause until the old time is reached. */
    if (mem->purged_us == 0 || now_us < mem->purged_us ||
        now_us - mem->purged_us >= interval_ms * 1000) {
        mem->purged_us = now_us;
        for (size_t i = mem->worker_count; i-- > 0;)
            if (mem->workers[i].heartbeat_until_us < now_us - older_than_ms * 1000) {
                remove_worker(mem, i);
                (*out_purged)++;
            }
    }
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status list_workers(const mem_journal *mem, ef_worker_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_worker *items = ef__arena_zalloc(arena, mem->worker_count + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (size_t i = 0; i < mem->worker_count; i++) {
        items[i] = mem->workers[i];
        items[i].id = ef__arena_copy(arena, mem->workers[i].id);
        items[i].host = ef__arena_copy(arena, mem->workers[i].host);
        ef__worker_judge(&items[i], ef__mem_now(mem));
        if (!items[i].id.ptr || !items[i].host.ptr)
            return ef__no_memory(err);
    }
    out->items = items;
    out->count = mem->worker_count;
    return EF_OK;
}

ef_status ef__mem_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_workers(mem, out, err);

    ef__mem_unlock(mem);
    return st;
}

/* --- throughput ------------------------------------------------------------------------------- */

/* The index of the row of that minute, or where it belongs. */
static size_t minute_at(const mem_journal *mem, int64_t at_us)
{
    size_t at = mem->minute_count;

    while (at > 0 && mem->minutes[at - 1].at_us >= at_us)
        at--;
    return at;
}

static void drop_old_minutes(mem_journal *mem)
{
    int64_t newest_us = mem->minute_count ? mem->minutes[mem->minute_count - 1].at_us : 0;
    size_t old = minute_at(mem, newest_us - EF_THROUGHPUT_MINUTES * EF__MINUTE_US + 1);

    mem->minute_count -= old;
    memmove(mem->minutes, mem->minutes + old, mem->minute_count * sizeof *mem->minutes);
}

ef_status ef__mem_throughput_add(mem_journal *mem, const ef_throughput *minute, ef_error *err)
{
    size_t at = minute_at(mem, minute->at_us);
    int64_t known = 0;
    ef_throughput *row;

    if (at == mem->minute_count || mem->minutes[at].at_us != minute->at_us) {
        if (!ef__mem_grow((void **)&mem->minutes, &mem->minute_cap, mem->minute_count,
                          sizeof *mem->minutes))
            return ef__mem_no_memory(err);
        memmove(&mem->minutes[at + 1], &mem->minutes[at],
                (mem->minute_count - at) * sizeof *mem->minutes);
        mem->minutes[at] = (ef_throughput){.at_us = minute->at_us};
        mem->minute_count++;
    }
    row = &mem->minutes[at];
    for (size_t i = 0; i < mem->minute_count; i++)
        known = mem->minutes[i].position > known ? mem->minutes[i].position : known;
    row->appended += minute->position > known ? minute->position - known : 0;
    row->position = minute->position > row->position ? minute->position : row->position;
    row->applied += minute->applied;
    row->published += minute->published;
    row->failed += minute->failed;
    row->dead += minute->dead;
    drop_old_minutes(mem);
    return EF_OK;
}

ef_status ef__mem_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                                ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    size_t first = minute_at(mem, from_us), count = mem->minute_count - first;
    ef_throughput *items = ef__arena_zalloc(&out->room->arena, count + 1, sizeof *items);

    if (items)
        memcpy(items, mem->minutes + first, count * sizeof *items);
    ef__mem_unlock(mem);
    out->items = items;
    out->count = items ? count : 0;
    return items ? EF_OK : ef__no_memory(err);
}

void ef__mem_workers_release(mem_journal *mem)
{
    while (mem->worker_count > 0)
        remove_worker(mem, mem->worker_count - 1);
    free(mem->workers);
    free(mem->minutes);
}
