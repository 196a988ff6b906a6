/*
 * ahead.c - see ahead.h.
 */
#include "ahead.h"

#include "engine_priv.h"

#include "../base/room.h"
#include "../journal/journal.h"

#define FIRST_LIMIT 1000 /* before anything is known of the events */
#define LIMIT_MIN 50
#define BATCH_BYTES_MAX (24ul << 20)
#define EVENT_BYTES 800 /* about, that a batch has room for: two are in memory at a time */

static size_t limit_of(const ef__ahead *a)
{
    size_t limit = a->limit ? a->limit : FIRST_LIMIT;

    limit = limit < a->limit_max ? limit : a->limit_max;
    return a->most && a->most < limit ? a->most : limit;
}

static ef_status read_batch(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                            int64_t *out_reached, ef_error *err)
{
    *out_reached = follow->after;
    return ef__journal_follow(journal, follow, out, out_reached, err);
}

static size_t text_bytes(const ef_batch *batch)
{
    size_t bytes = 0;

    for (size_t i = 0; i < batch->count; i++)
        bytes += batch->events[i].data.len + batch->events[i].meta.len;
    return bytes;
}

/* Fewer events next time, or more. Most batches are not at their limit and take no more than they
 * may: that is seen without going through their events. */
static void learn(ef__ahead *a, const ef_batch *batch)
{
    size_t limit = a->limit ? a->limit : FIRST_LIMIT;
    size_t bytes, bytes_max = a->limit_max * EVENT_BYTES;
    bool grows = limit < a->limit_max && batch->more && batch->count >= limit;

    a->steady = true;
    bytes_max = bytes_max < BATCH_BYTES_MAX ? bytes_max : BATCH_BYTES_MAX;
    if (!grows && (!batch->room || batch->room->arena.used_bytes <= bytes_max))
        return;
    bytes = text_bytes(batch);
    if (bytes > bytes_max && limit > LIMIT_MIN) {
        limit /= 2;
    } else if (2 * bytes < bytes_max && grows) {
        limit *= 4 * bytes < bytes_max ? 4 : 2;
        a->steady = false;
    }
    a->limit = limit < a->limit_max ? limit : a->limit_max;
}

static void *run(void *context)
{
    ef__ahead *a = context;
    ef__follow follow = {.reader = ef_str_from(a->reader),
                         .after = a->after,
                         .limit = a->asked,
                         .wanted = &a->wanted,
                         .least = a->least};

    a->st = read_batch(a->journal, &follow, &a->batch, &a->reached, &a->err);
    return NULL;
}

static void join(ef__ahead *a)
{
    atomic_store(&a->wanted, true);
    if (a->running)
        (void)pthread_join(a->thread, NULL);
    a->running = false;
}

/* Forget what was read. */
static void drop_read(ef__ahead *a)
{
    join(a);
    ef_batch_release(&a->batch);
    a->journal = NULL;
    a->after = a->reached = 0;
    a->batch = (ef_batch)EF_BATCH_INIT;
    a->st = EF_OK;
    a->err = (ef_error)EF_ERROR_INIT;
}

void ef__ahead_start(ef__ahead *a, ef_journal *journal, int64_t after)
{
    drop_read(a);
    a->journal = journal;
    a->comings = atomic_load(&journal->comings);
    a->after = after;
    a->asked = limit_of(a);
    a->least = a->steady && a->most == 0 ? (a->asked + 1) / 2 : a->asked;
    atomic_store(&a->wanted, false);
    a->batch = a->spare;
    a->spare = (ef_batch)EF_BATCH_INIT;
    a->running = pthread_create(&a->thread, NULL, run, a) == 0;
}

ef_status ef__ahead_take(ef__ahead *a, ef_journal *journal, int64_t after, ef_batch *out,
                         int64_t *out_reached, ef_error *err)
{
    /* What a journal had that was away since then, it may have no more. */
    bool is_read = a->running && a->comings == atomic_load(&journal->comings);
    ef_status st = EF_OK;

    join(a);
    /* One that failed is tried again: then the failure is told as of now. */
    if (is_read && a->st == EF_OK && a->after == after) {
        *out = a->batch;
        *out_reached = a->reached;
        a->batch = (ef_batch)EF_BATCH_INIT;
    } else {
        ef_batch_release(&a->batch);
        st = read_batch(
            journal,
            &(ef__follow){.reader = ef_str_from(a->reader), .after = after, .limit = limit_of(a)},
            out, out_reached, err);
    }
    if (st == EF_OK)
        learn(a, out);
    return st;
}

void ef__ahead_done(ef__ahead *a, ef_batch *batch)
{
    if (a->running && batch->room && !a->spare.room) {
        a->spare.room = batch->room;
        ef__arena_recycle(&batch->room->arena);
        *batch = (ef_batch)EF_BATCH_INIT;
    }
    ef_batch_release(batch);
}

void ef__ahead_release(ef__ahead *a)
{
    drop_read(a);
    ef_batch_release(&a->spare);
}
