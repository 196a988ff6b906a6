/*
 * read_ahead.c - see view_cache.h.
 */
#include "view_cache.h"

#include "../base/arena.h"
#include "../journal/journal.h"

#define FIRST_LIMIT 1000 /* before the size of events is known */
#define LIMIT_MIN 50
#define BATCH_BYTES_MAX (24ul << 20)
#define EVENT_BYTES 800 /* assumed per event for the limit of a batch; memory has two */

static size_t limit_of(const ef__read_ahead *ahead)
{
    size_t limit = ahead->limit ? ahead->limit : FIRST_LIMIT;

    limit = limit < ahead->limit_max ? limit : ahead->limit_max;
    return ahead->most && ahead->most < limit ? ahead->most : limit;
}

static size_t text_bytes(const ef_batch *batch)
{
    size_t bytes = 0;

    for (size_t i = 0; i < batch->count; i++)
        bytes += batch->events[i].data.len + batch->events[i].meta.len;
    return bytes;
}

/* Adapts the number of events of the next read. Most batches are below their limits, which is
 * checked without reading the events. */
static void adapt_limit(ef__read_ahead *ahead, const ef_batch *batch)
{
    size_t limit = ahead->limit ? ahead->limit : FIRST_LIMIT;
    size_t bytes, bytes_max = ahead->limit_max * EVENT_BYTES;
    bool grows = limit < ahead->limit_max && batch->more && batch->count >= limit;

    ahead->is_stable = true;
    bytes_max = bytes_max < BATCH_BYTES_MAX ? bytes_max : BATCH_BYTES_MAX;
    if (!grows && (!batch->room || batch->room->arena.used_bytes <= bytes_max))
        return;
    bytes = text_bytes(batch);
    if (bytes > bytes_max && limit > LIMIT_MIN) {
        limit /= 2;
    } else if (2 * bytes < bytes_max && grows) {
        limit *= 4 * bytes < bytes_max ? 4 : 2;
        ahead->is_stable = false;
    }
    ahead->limit = limit < ahead->limit_max ? limit : ahead->limit_max;
}

static void *read_in_thread(void *context)
{
    ef__read_ahead *ahead = context;
    ef__follow follow = {.reader = ef_str_from(ahead->reader),
                         .after = ahead->after,
                         .limit = ahead->asked,
                         .wanted = &ahead->wanted,
                         .least = ahead->least};

    ahead->st =
        ef__journal_follow(ahead->journal, &follow, &ahead->batch, &ahead->reached, &ahead->err);
    return NULL;
}

static void join_thread(ef__read_ahead *ahead)
{
    atomic_store(&ahead->wanted, true);
    if (ahead->running)
        (void)pthread_join(ahead->thread, NULL);
    ahead->running = false;
}

/* Drops the events that were read. */
static void drop_read(ef__read_ahead *ahead)
{
    join_thread(ahead);
    EF_RELEASE(&ahead->batch);
    ahead->journal = NULL;
    ahead->after = ahead->reached = 0;
    ahead->batch = (ef_batch)EF_BATCH_INIT;
    ahead->st = EF_OK;
    ahead->err = (ef_error)EF_ERROR_INIT;
}

void ef__read_ahead_start(ef__read_ahead *ahead, ef_journal *journal, int64_t after)
{
    drop_read(ahead);
    ahead->journal = journal;
    ahead->epoch = atomic_load(&journal->epoch);
    ahead->after = after;
    ahead->asked = limit_of(ahead);
    ahead->least = ahead->is_stable && ahead->most == 0 ? (ahead->asked + 1) / 2 : ahead->asked;
    atomic_store(&ahead->wanted, false);
    ahead->batch = ahead->spare;
    ahead->spare = (ef_batch)EF_BATCH_INIT;
    ahead->running = pthread_create(&ahead->thread, NULL, read_in_thread, ahead) == 0;
}

ef_status ef__read_ahead_read(ef__read_ahead *ahead, ef_journal *journal, int64_t after,
                              ef_batch *out, int64_t *out_reached, ef_error *err)
{
    /* After a reconnect the journal may lack events that it had. */
    bool is_read = ahead->running && ahead->epoch == atomic_load(&journal->epoch);
    ef_status st = EF_OK;

    join_thread(ahead);
    /* A failed read is repeated, so that the error is current. */
    if (is_read && ahead->st == EF_OK && ahead->after == after) {
        *out = ahead->batch;
        *out_reached = ahead->reached;
        ahead->batch = (ef_batch)EF_BATCH_INIT;
    } else {
        EF_RELEASE(&ahead->batch);
        st = ef__journal_follow(journal,
                                &(ef__follow){.reader = ef_str_from(ahead->reader),
                                              .after = after,
                                              .limit = limit_of(ahead)},
                                out, out_reached, err);
    }
    if (st == EF_OK)
        adapt_limit(ahead, out);
    return st;
}

void ef__read_ahead_recycle(ef__read_ahead *ahead, ef_batch *batch)
{
    if (ahead->running && batch->room && !ahead->spare.room) {
        ahead->spare.room = batch->room;
        ef__arena_recycle(&batch->room->arena);
        *batch = (ef_batch)EF_BATCH_INIT;
    }
    EF_RELEASE(batch);
}

void ef__read_ahead_release(ef__read_ahead *ahead)
{
    drop_read(ahead);
    EF_RELEASE(&ahead->spare);
}
