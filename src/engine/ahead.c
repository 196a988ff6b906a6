/*
 * ahead.c - see ahead.h.
 */
#include "ahead.h"

#include "engine_priv.h"

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

static ef_status read_batch(const ef__ahead *a, ef_journal *journal, int64_t after, ef_batch *out,
                            int64_t *out_reached, ef_error *err)
{
    *out_reached = after;
    return ef__journal_follow(journal, ef_str_from(a->reader), after, limit_of(a), out, out_reached,
                              err);
}

/* Fewer events next time, or more. */
static void learn(ef__ahead *a, const ef_batch *batch)
{
    size_t bytes = 0, limit = a->limit ? a->limit : FIRST_LIMIT;
    size_t bytes_max = a->limit_max * EVENT_BYTES;

    bytes_max = bytes_max < BATCH_BYTES_MAX ? bytes_max : BATCH_BYTES_MAX;
    for (size_t i = 0; i < batch->count; i++)
        bytes += batch->events[i].data.len + batch->events[i].meta.len;
    if (bytes > bytes_max && limit > LIMIT_MIN)
        limit /= 2;
    else if (2 * bytes < bytes_max && batch->more && batch->count >= limit)
        limit *= 2;
    a->limit = limit < a->limit_max ? limit : a->limit_max;
}

static void *run(void *context)
{
    ef__ahead *a = context;

    a->st = read_batch(a, a->journal, a->after, &a->batch, &a->reached, &a->err);
    return NULL;
}

void ef__ahead_start(ef__ahead *a, ef_journal *journal, int64_t after)
{
    ef__ahead_release(a);
    a->journal = journal;
    a->comings = atomic_load(&journal->comings);
    a->after = after;
    a->running = pthread_create(&a->thread, NULL, run, a) == 0;
}

ef_status ef__ahead_take(ef__ahead *a, ef_journal *journal, int64_t after, ef_batch *out,
                         int64_t *out_reached, ef_error *err)
{
    /* What a journal had that was away since then, it may have no more. */
    bool is_read = a->running && a->comings == atomic_load(&journal->comings);
    ef_status st = EF_OK;

    if (a->running)
        (void)pthread_join(a->thread, NULL);
    a->running = false;
    /* One that failed is tried again: then the failure is told as of now. */
    if (is_read && a->st == EF_OK && a->after == after) {
        *out = a->batch;
        *out_reached = a->reached;
        a->batch = (ef_batch)EF_BATCH_INIT;
    } else {
        ef_batch_release(&a->batch);
        st = read_batch(a, journal, after, out, out_reached, err);
    }
    if (st == EF_OK)
        learn(a, out);
    return st;
}

void ef__ahead_release(ef__ahead *a)
{
    if (a->running)
        (void)pthread_join(a->thread, NULL);
    ef_batch_release(&a->batch);
    a->journal = NULL;
    a->running = false;
    a->after = a->reached = 0;
    a->batch = (ef_batch)EF_BATCH_INIT;
    a->st = EF_OK;
    a->err = (ef_error)EF_ERROR_INIT;
}
