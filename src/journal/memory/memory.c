/*
 * memory.c - the memory journal: opening and closing, its lock, and the journal as a whole.
 *
 * One mutex, taken by every operation and held to its end; `grown` is signalled under it.
 */
#include "memory.h"

#include "../../base/deadline.h"
#include "../../base/hash.h"
#include "../../base/limits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SCRATCH_BYTES (EF_LIMIT_DATA_BYTES + EF_LIMIT_META_BYTES + 4096) /* one encoded event */
#define PROGRESS_EVERY 1024

static const ef__journal_ops memory_ops;

/* --- opening and closing ---------------------------------------------------------------------- */

static bool locks_init(mem_journal *m)
{
    pthread_condattr_t attributes;
    bool ok;

    if (pthread_mutex_init(&m->mutex, NULL) != 0)
        return false;
    /* Waiting is measured by a clock that nobody sets. */
    ok = pthread_condattr_init(&attributes) == 0;
    ok = ok && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
         pthread_cond_init(&m->grown, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    if (!ok)
        (void)pthread_mutex_destroy(&m->mutex);
    return ok;
}

ef_status ef__journal_memory_open(const ef_journal_options *options, ef_journal **out,
                                  ef_error *err)
{
    const ef_lane apply = {
        .name = EF_STR(EF_LANE_APPLY), .kind = EF_LANE_KIND_APPLY, .enabled = true};
    mem_journal *m = calloc(1, sizeof *m);
    ef_status st;

    if (!m || !locks_init(m)) {
        free(m);
        return ef__mem_no_memory(err);
    }
    m->base.ops = &memory_ops;
    m->base.options = *options;
    m->partitions = options->partitions;
    m->scratch = (ef__buf)EF__BUF_INIT(SCRATCH_BYTES);
    st = ef__mem_lane_add(m, &apply, err);
    if (st == EF_OK && !ef__uuid7(ef__mem_now(m), m->id))
        st = ef_fail(err, EF_IO, "the system gives no randomness for the journal's id");
    if (st != EF_OK) {
        memory_ops.close(&m->base);
        return st;
    }
    *out = &m->base;
    return EF_OK;
}

static void release_lanes(mem_journal *m)
{
    for (size_t i = 0; i < m->lane_count; i++) {
        for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++)
            free(m->lanes[i].parts[p].rows);
        ef__mem_lane_free(&m->lanes[i]);
    }
    for (size_t i = 0; i < m->exception_count; i++)
        ef__mem_text_free(&m->exceptions[i].error);
    for (size_t i = 0; i < m->act_count; i++)
        ef__mem_act_free(&m->acts[i]);
    for (size_t i = 0; i < m->skip_count; i++)
        ef__mem_skip_free(&m->skips[i]);
    free(m->lanes);
    free(m->exceptions);
    free(m->published);
    free(m->acts);
    free(m->skips);
}

static void memory_close(ef_journal *journal)
{
    mem_journal *m = (mem_journal *)journal;

    for (size_t i = 0; i < m->event_count; i++)
        free(m->events[i]);
    for (size_t i = 0; i < m->type_count; i++) {
        ef__mem_text_free(&m->types[i].name);
        ef__mem_text_free(&m->types[i].alias_of);
        ef__mem_text_free(&m->types[i].tenant);
    }
    free(m->events);
    free(m->streams);
    free(m->types);
    ef__mem_map_release(&m->by_id);
    ef__mem_map_release(&m->by_seq);
    ef__mem_map_release(&m->by_name);
    release_lanes(m);
    ef__mem_work_release(m);
    ef__buf_release(&m->scratch);
    (void)pthread_cond_destroy(&m->grown);
    (void)pthread_mutex_destroy(&m->mutex);
    free(m);
}

/* --- shared ----------------------------------------------------------------------------------- */

mem_journal *ef__mem_lock(ef_journal *journal)
{
    mem_journal *m = (mem_journal *)journal;

    (void)pthread_mutex_lock(&m->mutex);
    return m;
}

void ef__mem_unlock(mem_journal *m)
{
    (void)pthread_mutex_unlock(&m->mutex);
}

int64_t ef__mem_now(const mem_journal *m)
{
    const ef_clock *clock = m->base.options.clock;

    return clock->wall_us(clock->context);
}

ef_status ef__mem_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the memory journal");
}

int ef__mem_compare(ef_str a, ef_str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* --- the journal as a whole ------------------------------------------------------------------- */

static ef_status memory_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                             ef_error *err)
{
    struct timespec deadline = ef__deadline(CLOCK_MONOTONIC, timeout_ms);
    mem_journal *m = ef__mem_lock(journal);
    int late = 0;
    bool grown, nudged;

    while ((int64_t)m->event_count <= after && !(nudge && *nudge != m->nudges) && late != ETIMEDOUT)
        late = pthread_cond_timedwait(&m->grown, &m->mutex, &deadline);
    grown = (int64_t)m->event_count > after;
    nudged = nudge && *nudge != m->nudges;
    if (nudge)
        *nudge = m->nudges;
    ef__mem_unlock(m);
    if (grown || nudged)
        return EF_OK;
    return ef_fail(err, EF_TIMEOUT, "no event above position %" PRId64 " in %" PRId64 " ms", after,
                   timeout_ms);
}

static ef_status memory_nudge(ef_journal *journal, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);

    (void)err;
    m->nudges++;
    (void)pthread_cond_broadcast(&m->grown);
    ef__mem_unlock(m);
    return EF_OK;
}

static ef_status memory_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);

    *out = (ef_head){0};
    if (m->event_count) {
        const ef_event *last = &m->events[m->event_count - 1]->event;
        out->position = last->position;
        out->recorded_us = last->recorded_us;
        memcpy(out->hash, last->hash, sizeof out->hash);
    }
    ef__mem_unlock(m);
    return EF_OK;
}

/* Is the event at `index` as it was written, and do all maps lead to it? */
static bool is_whole(mem_journal *m, size_t index)
{
    static const uint8_t nothing[EF_HASH_BYTES];
    const mem_event *row = m->events[index];
    const ef_event *event = &row->event;
    const uint8_t *before = index ? m->events[index - 1]->event.hash : nothing;
    uint8_t hash[EF_HASH_BYTES];

    return event->position == (int64_t)index + 1 &&
           ef__event_seal(before, event, &m->scratch, hash, NULL) &&
           memcmp(hash, event->hash, sizeof hash) == 0 &&
           ef__mem_stream_find(m, event->tenant, event->stream) == (int64_t)row->stream &&
           ef__mem_event_by_seq(m, row->stream, event->seq) == (int64_t)index &&
           ef__mem_event_by_id(m, event->tenant, event->id) == (int64_t)index &&
           (row->before == 0 ? event->seq == 1
                             : m->events[row->before - 1]->event.seq == event->seq - 1 &&
                                   m->events[row->before - 1]->stream == row->stream);
}

static ef_status memory_verify(ef_journal *journal, int64_t from,
                               bool (*progress)(void *context, int64_t done, int64_t total),
                               void *context, ef_verify_result *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    int64_t first = from > 0 ? from : 1;
    int64_t total = (int64_t)m->event_count - first + 1;

    out->head = (int64_t)m->event_count;
    for (int64_t at = first; at <= out->head && !out->damaged; at++) {
        if (progress && out->checked % PROGRESS_EVERY == 0 &&
            !progress(context, out->checked, total))
            break;
        if (!is_whole(m, (size_t)at - 1))
            out->damaged = at;
        out->checked++;
    }
    ef__mem_unlock(m);
    if (out->damaged)
        return ef_fail(err, EF_DAMAGED,
                       "the event at position %" PRId64 " is not as it was written", out->damaged);
    return EF_OK;
}

static ef_status memory_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);

    *out = m->partitions;
    ef__mem_unlock(m);
    return EF_OK;
}

static ef_status memory_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);

    *out = (ef_store_facts){
        .backend = "memory",
        .version = EF_VERSION,
        .durability = "kept in memory: nothing survives the process",
        .schema = -1,
        .partitions = m->partitions,
        .store_bytes = -1,
        .wal_bytes = -1,
        .free_bytes = -1,
        .streams = (int64_t)m->stream_count,
        .commits = m->commits,
        .appended = m->appended,
        .checkpoints = -1,
        .checkpoint_errors = -1,
        .stale_refused = m->stale_refused,
    };
    memcpy(out->journal_id, m->id, sizeof m->id);
    ef__mem_unlock(m);
    return EF_OK;
}

static const ef__journal_ops memory_ops = {
    .name = "memory",
    .caps = 0,
    .close = memory_close,
    .append = ef__mem_append,
    .read_stream = ef__mem_read_stream,
    .read_log = ef__mem_read_log,
    .read_id = ef__mem_read_id,
    .wait = memory_wait,
    .nudge = memory_nudge,
    .head = memory_head,
    .stream_head = ef__mem_stream_head,
    .stream_ls = ef__mem_stream_ls,
    .type_set = ef__mem_type_set,
    .type_ls = ef__mem_type_ls,
    .verify = memory_verify,
    .facts = memory_facts,
    .partition_count = memory_partition_count,
    .lane_set = ef__mem_lane_set,
    .lane_ls = ef__mem_lane_ls,
    .lane_drop = ef__mem_lane_drop,
    .published_purge = ef__mem_published_purge,
    .published_again = ef__mem_published_again,
    .published_count = ef__mem_published_count,
    .take = ef__mem_take,
    .mark = ef__mem_mark,
    .outbox_ls = ef__mem_outbox_ls,
    .outbox_summarise = ef__mem_outbox_summarise,
    .outbox_waits = ef__mem_outbox_waits,
    .retry_streams = ef__mem_retry_streams,
    .revise = ef__mem_revise,
    .skip_add = ef__mem_skip_add,
    .skip_ls = ef__mem_skip_ls,
    .act_add = ef__mem_act_add,
    .act_ls = ef__mem_act_ls,
    .lease_many = ef__mem_lease_many,
    .throughput_ls = ef__mem_throughput_ls,
    .lease_ls = ef__mem_lease_ls,
    .worker_leave = ef__mem_worker_leave,
    .worker_purge = ef__mem_worker_purge,
    .worker_ls = ef__mem_worker_ls,
    .partition_ls = ef__mem_partition_ls,
    .partition_sync = ef__mem_partition_sync,
    .run_request = ef__mem_run_request,
    .run_update = ef__mem_run_update,
    .run_cancel = ef__mem_run_cancel,
    .run_ls = ef__mem_run_ls,
};
