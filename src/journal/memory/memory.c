/*
 * memory.c - the memory journal: opening and closing, its lock, and the journal as a whole.
 *
 * Every operation holds the one mutex from start to end; `grown` is signalled under it.
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
#define PROGRESS_EVERY 1024 /* events: a callback per event would cost more than the check */

static void set_interfaces(ef_journal *journal);

/* --- opening and closing ---------------------------------------------------------------------- */

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
    set_interfaces(&mem->base);
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

static void release_lanes(mem_journal *mem)
{
    for (size_t i = 0; i < mem->lane_count; i++) {
        for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++)
            free(mem->lanes[i].parts[p].rows);
        ef__mem_lane_free(&mem->lanes[i]);
    }
    for (size_t i = 0; i < mem->retry_row_count; i++)
        ef__mem_text_free(&mem->retry_rows[i].error);
    for (size_t i = 0; i < mem->audit_count; i++)
        ef__mem_audit_free(&mem->audit[i]);
    for (size_t i = 0; i < mem->skip_count; i++)
        ef__mem_skip_free(&mem->skips[i]);
    free(mem->lanes);
    free(mem->retry_rows);
    free(mem->published);
    free(mem->audit);
    free(mem->skips);
}

static void memory_close(ef_journal *journal)
{
    mem_journal *mem = (mem_journal *)journal;

    for (size_t i = 0; i < mem->event_count; i++)
        free(mem->events[i]);
    for (size_t i = 0; i < mem->type_count; i++) {
        ef__mem_text_free(&mem->types[i].name);
        ef__mem_text_free(&mem->types[i].alias_of);
        ef__mem_text_free(&mem->types[i].tenant);
    }
    free(mem->events);
    free(mem->streams);
    free(mem->types);
    ef__mem_map_release(&mem->by_id);
    ef__mem_map_release(&mem->by_seq);
    ef__mem_map_release(&mem->by_name);
    release_lanes(mem);
    ef__mem_leases_release(mem);
    ef__mem_workers_release(mem);
    ef__mem_runs_release(mem);
    ef__buf_release(&mem->scratch);
    (void)pthread_cond_destroy(&mem->grown);
    (void)pthread_mutex_destroy(&mem->mutex);
    free(mem);
}

/* --- shared ----------------------------------------------------------------------------------- */

mem_journal *ef__mem_lock(ef_journal *journal)
{
    mem_journal *mem = (mem_journal *)journal;

    (void)pthread_mutex_lock(&mem->mutex);
    return mem;
}

void ef__mem_unlock(mem_journal *mem)
{
    (void)pthread_mutex_unlock(&mem->mutex);
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

/* --- the journal as a whole ------------------------------------------------------------------- */

static ef_status memory_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                             ef_error *err)
{
    struct timespec deadline = ef__deadline(CLOCK_MONOTONIC, timeout_ms);
    mem_journal *mem = ef__mem_lock(journal);
    int late = 0;
    bool grown, woken;

    while ((int64_t)mem->event_count <= after && !(wake && *wake != mem->wakes) &&
           late != ETIMEDOUT)
        late = pthread_cond_timedwait(&mem->grown, &mem->mutex, &deadline);
    grown = (int64_t)mem->event_count > after;
    woken = wake && *wake != mem->wakes;
    if (wake)
        *wake = mem->wakes;
    ef__mem_unlock(mem);
    if (grown || woken)
        return EF_OK;
    return ef_fail(err, EF_TIMEOUT, "no event above position %" PRId64 " in %" PRId64 " ms", after,
                   timeout_ms);
}

static ef_status memory_wake(ef_journal *journal, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    mem->wakes++;
    (void)pthread_cond_broadcast(&mem->grown);
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status memory_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = (ef_head){0};
    if (mem->event_count) {
        const ef_event *last = &mem->events[mem->event_count - 1]->event;
        out->position = last->position;
        out->recorded_us = last->recorded_us;
        memcpy(out->hash, last->hash, sizeof out->hash);
    }
    ef__mem_unlock(mem);
    return EF_OK;
}

/* Does the event at `index` match its hash, and do all maps lead to it? */
static bool is_event_intact(mem_journal *mem, size_t index)
{
    static const uint8_t nothing[EF_HASH_BYTES];
    const mem_event *row = mem->events[index];
    const ef_event *event = &row->event;
    const uint8_t *before = index ? mem->events[index - 1]->event.hash : nothing;
    uint8_t hash[EF_HASH_BYTES];

    return event->position == (int64_t)index + 1 &&
           ef__event_seal(before, event, &mem->scratch, hash, NULL) &&
           memcmp(hash, event->hash, sizeof hash) == 0 &&
           ef__mem_stream_find(mem, event->tenant, event->stream) == (int64_t)row->stream &&
           ef__mem_event_by_seq(mem, row->stream, event->seq) == (int64_t)index &&
           ef__mem_event_by_id(mem, event->tenant, event->id) == (int64_t)index &&
           (row->before == 0 ? event->seq == 1
                             : mem->events[row->before - 1]->event.seq == event->seq - 1 &&
                                   mem->events[row->before - 1]->stream == row->stream);
}

static ef_status memory_verify(ef_journal *journal, int64_t from,
                               bool (*progress)(void *context, int64_t done, int64_t total),
                               void *context, ef_verify_result *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    int64_t first = from > 0 ? from : 1;
    int64_t total = (int64_t)mem->event_count - first + 1;

    out->head = (int64_t)mem->event_count;
    for (int64_t at = first; at <= out->head && !out->damaged; at++) {
        if (progress && out->checked % PROGRESS_EVERY == 0 &&
            !progress(context, out->checked, total))
            break;
        if (!is_event_intact(mem, (size_t)at - 1))
            out->damaged = at;
        out->checked++;
    }
    ef__mem_unlock(mem);
    if (out->damaged)
        return ef_fail(err, EF_DAMAGED,
                       "the event at position %" PRId64 " is not as it was written", out->damaged);
    return EF_OK;
}

static ef_status memory_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = mem->partitions;
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status memory_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

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
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status memory_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    if (!damage || mem->damage.found_us == 0)
        mem->damage = damage ? *damage : (ef__damage){0};
    ef__mem_unlock(mem);
    return EF_OK;
}

static ef_status memory_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);

    (void)err;
    *out = mem->damage;
    ef__mem_unlock(mem);
    return EF_OK;
}

static const ef__store_ops store_ops = {
    .name = "memory",
    .close = memory_close,
    .facts = memory_facts,
    .damage_set = memory_damage_set,
    .damage_get = memory_damage_get,
};

static const ef__events_ops events_ops = {
    .append = ef__mem_append,
    .read_stream = ef__mem_read_stream,
    .read_log = ef__mem_read_log,
    .read_id = ef__mem_read_id,
    .wait = memory_wait,
    .head = memory_head,
    .stream_head = ef__mem_stream_head,
    .stream_ls = ef__mem_stream_ls,
    .verify = memory_verify,
};

static const ef__outbox_ops outbox_ops = {
    .lane_set = ef__mem_lane_set,
    .lane_ls = ef__mem_lane_ls,
    .lane_drop = ef__mem_lane_drop,
    .published_purge = ef__mem_published_purge,
    .published_requeue = ef__mem_published_requeue,
    .published_count = ef__mem_published_count,
    .claim = ef__mem_claim,
    .ack = ef__mem_ack,
    .ls = ef__mem_outbox_ls,
    .summarise = ef__mem_outbox_summarise,
    .has_work = ef__mem_outbox_has_work,
    .retry_streams = ef__mem_retry_streams,
    .revise = ef__mem_revise,
};

static const ef__lease_ops lease_ops = {
    .lease_many = ef__mem_lease_many,
    .lease_ls = ef__mem_lease_ls,
    .worker_leave = ef__mem_worker_leave,
    .worker_purge = ef__mem_worker_purge,
    .worker_ls = ef__mem_worker_ls,
    .throughput_ls = ef__mem_throughput_ls,
    .partition_ls = ef__mem_partition_ls,
    .partition_sync = ef__mem_partition_sync,
    .partition_count = memory_partition_count,
    .wake = memory_wake,
};

static const ef__record_ops record_ops = {
    .type_set = ef__mem_type_set,
    .type_ls = ef__mem_type_ls,
    .run_request = ef__mem_run_request,
    .run_update = ef__mem_run_update,
    .run_cancel = ef__mem_run_cancel,
    .run_ls = ef__mem_run_ls,
    .audit_add = ef__mem_audit_add,
    .audit_ls = ef__mem_audit_ls,
    .skip_add = ef__mem_skip_add,
    .skip_ls = ef__mem_skip_ls,
};

static void set_interfaces(ef_journal *journal)
{
    journal->store = &store_ops;
    journal->events = &events_ops;
    journal->control = journal;
    journal->outbox = &outbox_ops;
    journal->leases = &lease_ops;
    journal->records = &record_ops;
}
