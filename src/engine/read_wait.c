/*
 * read_wait.c - see read.h.
 */
#include "read.h"
#include "lag.h"
#include "scope.h"

#include "../base/deadline.h"

#include <inttypes.h>
#include <stdlib.h>

#define POLL_MS_MIN 2
#define POLL_MS_MAX 25
#define BLOCKED_CHECK_US 50000 /* interval of the check whether a stream is blocked … */
#define BLOCKED_CHECKS 16      /* … up to this many reads; with more, each checks less often */
#define KEYS_MAX 2000          /* streams per lookup */

static int64_t now_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context);
}

/* --- waking ----------------------------------------------------------------------------------- */

void ef__read_waits_open(ef__read_waits *waits)
{
    pthread_mutex_init(&waits->lock, NULL);
    pthread_mutex_init(&waits->reads_lock, NULL);
    ef__cond_init(&waits->changed);
}

void ef__read_waits_close(ef__read_waits *waits)
{
    pthread_mutex_destroy(&waits->lock);
    pthread_mutex_destroy(&waits->reads_lock);
    pthread_cond_destroy(&waits->changed);
}

void ef__read_waits_wake(ef_engine *engine)
{
    if (atomic_load(&engine->read_waits.reads) == 0)
        return;
    EF__LOCK(&engine->read_waits.lock);
    engine->read_waits.version++;
    pthread_cond_broadcast(&engine->read_waits.changed);
}

/* The caller holds the lock: polls for all, until the time is up or views have changed. */
static void poll_stores(ef__read_waits *waits, int64_t seen, int64_t left_ms)
{
    bool ends = left_ms <= waits->poll_ms;
    struct timespec at = ef__deadline(CLOCK_MONOTONIC, ends ? left_ms : waits->poll_ms);
    int rc = 0;

    waits->has_poller = true;
    while (waits->version == seen && rc == 0)
        rc = pthread_cond_timedwait(&waits->changed, &waits->lock, &at);
    waits->has_poller = false;
    if (waits->version == seen) {
        waits->version++;
        waits->poll_ms =
            waits->poll_ms * 2 < POLL_MS_MAX ? waits->poll_ms * 2 : (int64_t)POLL_MS_MAX;
    }
    pthread_cond_broadcast(&waits->changed); /* another read becomes the poller */
}

/* Waits for the version after `seen`, or until `end_us`. */
static void wait_for_change(ef__read_waits *waits, int64_t seen, int64_t end_us)
{
    EF__LOCK(&waits->lock);
    while (waits->version == seen) {
        int64_t left_ms = (end_us - now_us() + 999) / 1000;
        if (left_ms <= 0)
            return;
        if (!waits->has_poller) {
            poll_stores(waits, seen, left_ms);
            return;
        }
        struct timespec at = ef__deadline(CLOCK_MONOTONIC, left_ms);
        (void)pthread_cond_timedwait(&waits->changed, &waits->lock, &at);
    }
}

/* --- streams ---------------------------------------------------------------------------------- */

static size_t keys_of(const ef_view_wait *read)
{
    return read->count < KEYS_MAX ? read->count : KEYS_MAX;
}

static size_t add_keys(const ef_view_wait *read, ef__view_key *keys, size_t count)
{
    for (size_t i = 0; i < keys_of(read); i++)
        keys[count++] = (ef__view_key){read->streams[i].tenant, read->streams[i].name};
    return count;
}

/* The caller holds reads_lock: reads the watermarks that a read waits for, together with those of
 * other reads that wait for the same generation. */
static ef_status read_watermarks(ef_view_wait *self, ef_error *err)
{
    ef_engine *engine = self->engine;
    ef__view_key *keys = malloc(KEYS_MAX * sizeof *keys);
    ef__watermark *watermarks = malloc(KEYS_MAX * sizeof *watermarks);
    int64_t at_us = now_us();
    size_t count = keys ? add_keys(self, keys, 0) : 0, at = keys_of(self);
    ef_status st =
        keys && watermarks ? EF_OK : ef_fail(err, EF_NO_MEMORY, "out of memory in a read");

    for (ef_view_wait *read = engine->read_waits.first; st == EF_OK && read; read = read->next) {
        read->shares = read != self && read->generation == self->generation &&
                       count + keys_of(read) <= KEYS_MAX;
        count = read->shares ? add_keys(read, keys, count) : count;
    }
    if (st == EF_OK)
        st = ef__watermarks_read(engine->views, self->generation, keys, count, watermarks, err);
    if (st == EF_OK) {
        memcpy(self->watermarks, watermarks, keys_of(self) * sizeof *watermarks);
        self->read_us = at_us;
    }
    for (ef_view_wait *read = engine->read_waits.first; st == EF_OK && read; read = read->next) {
        if (!read->shares)
            continue;
        memcpy(read->watermarks, watermarks + at, keys_of(read) * sizeof *watermarks);
        read->read_us = at_us;
        at += keys_of(read);
    }
    free(keys);
    free(watermarks);
    return st;
}

static bool is_covered(const ef__wanted_stream *stream, const ef__watermark *watermark)
{
    return watermark->expected_next_seq > stream->seq;
}

/* Removes covered streams; the first one that is not covered comes to the front. */
static void drop_covered(ef_view_wait *read)
{
    size_t kept = 0, most = keys_of(read);

    for (size_t i = 0; i < read->count; i++) {
        if (i < most && is_covered(&read->streams[i], &read->watermarks[i]))
            continue;
        read->streams[kept] = read->streams[i];
        read->watermarks[kept++] = read->watermarks[i];
    }
    read->count = kept;
}

static ef_status fail_blocked(ef_str name, ef_str stream, int64_t seq, int64_t asked, ef_str reason,
                              ef_error *err)
{
    return ef_fail_numbers(err, EF_BLOCKED, asked, seq,
                           "projection \"%.*s\" is blocked in stream \"%.*s\" at seq %" PRId64
                           ": %.*s",
                           EF_STR_ARG(name), EF_STR_ARG(stream), seq, EF_STR_ARG(reason));
}

/* EF_BLOCKED if a stream that is not covered is blocked. */
static ef_status check_blocked(ef_view_wait *read, const ef__generation *generation, ef_error *err)
{
    ef_engine *engine = read->engine;
    EF__AUTO(ef__retry_stream_list) found = {0};
    size_t most = keys_of(read);
    int64_t delivered = 0;
    ef_status st = ef__engine_delivered(engine, generation, NULL, &delivered, err);

    for (size_t i = 0; st == EF_OK && i < most; i++) {
        const ef__wanted_stream *stream = &read->streams[i];
        st = ef__retry_streams(engine->journal,
                               &(ef__retry_query){.lane = generation->name,
                                                  .tenant = stream->tenant,
                                                  .stream = stream->name,
                                                  .limit = 1},
                               &found, err);
        if (st == EF_OK && found.count && found.items[0].seq <= stream->seq &&
            ef__retry_stream_blocked(&found.items[0])) {
            ef__watermark watermark;
            st = ef__watermark_read(engine, generation, stream->tenant, stream->name, &watermark,
                                    err);
            if (st == EF_OK && ef__lag_lacks(&found.items[0], delivered, &watermark) &&
                !is_covered(stream, &watermark))
                st = fail_blocked(generation->name, stream->name, found.items[0].seq, stream->seq,
                                  found.items[0].error, err);
        }
    }
    return st;
}

/* Lookups from this time on are recent enough for the read. */
static int64_t round_of(const ef_view_wait *read)
{
    return read->round_us ? read->round_us : now_us();
}

static ef_status check_streams(ef_view_wait *read, const ef__generation *generation,
                               bool *out_fresh, ef_error *err)
{
    ef__read_waits *waits = &read->engine->read_waits;
    int64_t at_us = round_of(read);
    int64_t pause_us = BLOCKED_CHECK_US * (1 + atomic_load(&waits->reads) / BLOCKED_CHECKS);
    ef_status st = EF_OK;

    pthread_mutex_lock(&waits->reads_lock);
    if (read->generation != generation->id || read->read_us < at_us) {
        read->generation = generation->id;
        st = read_watermarks(read, err);
    }
    if (st == EF_OK)
        drop_covered(read);
    pthread_mutex_unlock(&waits->reads_lock);
    *out_fresh = read->count == 0;
    if (st == EF_OK && read->count && at_us - read->blocked_read_us >= pause_us) {
        read->blocked_read_us = at_us;
        st = check_blocked(read, generation, err);
    }
    return st;
}

/* --- positions, and log-ordered projections --------------------------------------------------- */

/* EF_BLOCKED, with the event that the tenant stopped before. */
static ef_status fail_tenant(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                             int64_t position, int64_t asked, ef_error *err)
{
    EF__AUTO(ef__failure_list) list = {0};
    ef_status st = engine->views->ops->failure_ls(engine->views, generation->id, NULL, true,
                                                  KEYS_MAX, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (ef_str_equal(list.items[i].tenant, tenant) && list.items[i].position == position)
            st = fail_blocked(generation->name, list.items[i].stream, list.items[i].seq, asked,
                              list.items[i].message, err);
    if (st == EF_OK)
        st = ef_fail_numbers(
            err, EF_BLOCKED, asked, position,
            "tenant \"%.*s\" of projection \"%.*s\" is blocked at position %" PRId64,
            EF_STR_ARG(tenant), EF_STR_ARG(generation->name), position);
    return st;
}

/* The lag of the target's generation, read by this call or by another one since `at_us`. */
static ef_status read_lag(ef_engine *engine, ef__read_target *target, const ef_str *tenant,
                          int64_t at_us, ef__lag *out, ef_error *err)
{
    int64_t begins_us;
    ef_status st = EF_OK;
    EF__LOCK(&engine->read_waits.reads_lock);

    if (!target->lag || target->lag_us < at_us) {
        target->lag = target->lag ? target->lag : malloc(sizeof *target->lag);
        begins_us = now_us();
        st = target->lag ? ef__lag_read(engine, target->generation, tenant, false, target->lag, err)
                         : ef_fail(err, EF_NO_MEMORY, "out of memory in a read");
        target->lag_us = st == EF_OK ? begins_us : 0;
    }
    if (st == EF_OK)
        *out = *target->lag;
    return st;
}

static ef_status check_position(ef_engine *engine, ef__read_target *target, const ef_str *tenant,
                                int64_t wanted, int64_t at_us, bool *out_fresh,
                                int64_t *out_blocked, ef_error *err)
{
    ef__lag lag = {0};
    ef_status st = read_lag(engine, target, tenant, at_us, &lag, err);

    *out_fresh = st == EF_OK && lag.delivered >= wanted && lag.proceeds_from > wanted;
    *out_blocked = lag.blocked_streams;
    if (st == EF_OK && target->generation->by_log && tenant && lag.blocked_streams &&
        lag.blocked_from <= wanted)
        st = fail_tenant(engine, target->generation, *tenant, lag.blocked_from, wanted, err);
    return st;
}

/* The position of an event whose token has only its seq. */
static ef_status find_position(ef_engine *engine, ef__wanted_stream *stream, ef_error *err)
{
    return stream->position ? EF_OK
                            : ef__stream_position(engine, stream->tenant, stream->name, stream->seq,
                                                  &stream->position, err);
}

/* Log-ordered: the cursor of each event's tenant. */
static ef_status check_cursors(ef_view_wait *read, ef__read_target *target, bool *out_fresh,
                               ef_error *err)
{
    int64_t blocked;
    ef_status st = EF_OK;

    *out_fresh = true;
    for (size_t i = 0; st == EF_OK && *out_fresh && i < read->count; i++) {
        ef__wanted_stream *stream = &read->streams[i];
        st = find_position(read->engine, stream, err);
        if (st == EF_OK && stream->position == 0)
            *out_fresh = false;
        else if (st == EF_OK)
            st = check_position(read->engine, target, &stream->tenant, stream->position,
                                round_of(read), out_fresh, &blocked, err);
    }
    return st;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static ef_status check_target(ef_view_wait *read, ef__read_target *target, bool *out_fresh,
                              int64_t *out_blocked, ef_error *err)
{
    ef_status st = EF_OK;

    *out_fresh = true;
    if (read->count && target->generation->by_log)
        st = check_cursors(read, target, out_fresh, err);
    else if (read->count)
        st = check_streams(read, target->generation, out_fresh, err);
    if (st == EF_OK && *out_fresh && read->position)
        st = check_position(read->engine, target, read->tenant, read->position, round_of(read),
                            out_fresh, out_blocked, err);
    return st;
}

/* The error for a target that is too old, or whose views are being migrated. */
static ef_status fail_late(const ef_view_wait *read, const ef__read_target *target, bool waits,
                           ef_error *err)
{
    static const char *const states[] = {"catching_up", "live", "paused", "failed", "retired"};
    const ef__generation *generation = target->generation;
    int64_t wanted = read->count ? read->streams[0].position : read->position;

    if (waits)
        return ef__generation_check_migrated(read->engine, generation, err);
    return ef_fail_numbers(
        err, EF_TIMEOUT, wanted, target->as_of,
        "projection \"%.*s\" (%s) is at position %" PRId64 ", not yet at %" PRId64,
        EF_STR_ARG(generation->name), states[generation->state], target->as_of, wanted);
}

static void add_read(ef__read_waits *waits, ef_view_wait *read)
{
    pthread_mutex_lock(&waits->reads_lock);
    read->next = waits->first;
    waits->first = read;
    pthread_mutex_unlock(&waits->reads_lock);
    pthread_mutex_lock(&waits->lock);
    waits->reads++;
    waits->poll_ms = POLL_MS_MIN;
    pthread_mutex_unlock(&waits->lock);
}

static void remove_read(ef__read_waits *waits, ef_view_wait *read)
{
    pthread_mutex_lock(&waits->reads_lock);
    for (ef_view_wait **at = &waits->first; *at; at = &(*at)->next)
        if (*at == read) {
            *at = read->next;
            break;
        }
    pthread_mutex_unlock(&waits->reads_lock);
    waits->reads--;
}

static int64_t turn_of(ef__read_waits *waits)
{
    EF__LOCK(&waits->lock);
    return waits->version;
}

ef_status ef_view_wait_open(ef_engine *engine, ef_str projection, const ef_str *tenant,
                            const ef_freshness *freshness, bool all_views, ef_view_wait **out,
                            ef_error *err)
{
    ef_view_wait *wait;
    ef_status st;

    if (!engine || !freshness || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL",
                       !engine      ? "engine"
                       : !freshness ? "freshness"
                                    : "out");
    *out = NULL;
    wait = calloc(1, sizeof *wait);
    if (!wait)
        return ef_fail(err, EF_NO_MEMORY, "out of memory in a read");
    *wait = (ef_view_wait){.engine = engine,
                           .projection = projection,
                           .tenant_name = tenant ? *tenant : EF_STR(""),
                           .tenant = tenant ? &wait->tenant_name : NULL,
                           .all_views = all_views,
                           .arena = EF__ARENA_INIT(16u << 20)};
    st = ef__arena_own(&wait->arena, err, &wait->projection, &wait->tenant_name, NULL);
    if (st == EF_OK)
        st = ef__read_requirement_set(wait, freshness, err);
    if (st != EF_OK) {
        ef__arena_release(&wait->arena);
        free(wait);
        return st;
    }
    add_read(&engine->read_waits, wait);
    *out = wait;
    return EF_OK;
}

void ef_view_wait_close(ef_view_wait *wait)
{
    if (!wait)
        return;
    remove_read(&wait->engine->read_waits, wait);
    ef__arena_release(&wait->arena);
    free(wait);
}

/* Checks once; *out_done: the result is final, which may be a timeout. */
static ef_status try_once(ef_view_wait *wait, bool late, ef__read_target **out,
                          int64_t *out_blocked, bool *out_done, ef_error *err)
{
    ef_engine *engine = wait->engine;
    bool fresh = false;
    ef_status st = ef__read_target_acquire(engine, wait->projection, wait->tenant, false, out, err);
    int64_t seen = st == EF_OK ? (*out)->generation->id : 0;

    *out_done = true;
    if (st == EF_OK)
        st = check_target(wait, *out, &fresh, out_blocked, err);
    if (st == EF_OK && (fresh || late)) { /* as_of must be at least as new as the check */
        ef__read_target_release(engine, *out);
        st = ef__read_target_acquire(engine, wait->projection, wait->tenant, true, out, err);
    }
    if (st == EF_OK && fresh && (*out)->generation->id == seen &&
        !(wait->all_views && (*out)->migrates))
        return EF_OK;
    *out_done = st != EF_OK || late;
    return st == EF_OK && late ? fail_late(wait, *out, fresh, err) : st;
}

ef_status ef__read_target_wait(ef_engine *engine, ef_str name, const ef_str *tenant,
                               const ef_freshness *freshness, bool all_views, ef__read_target **out,
                               int64_t *out_blocked, ef_error *err)
{
    static const ef_freshness any = {0};
    ef_view_wait *wait = NULL;
    bool done = false;
    int64_t end_us;
    ef_status st;

    freshness = freshness ? freshness : &any;
    *out = NULL;
    *out_blocked = 0;
    if (!freshness->at_least.len && !freshness->current) { /* most reads: no clock is read */
        st = ef__read_target_acquire(engine, name, tenant, false, out, err);
        if (st != EF_OK || !(all_views && (*out)->migrates))
            return st;
        ef__read_target_release(engine, *out);
        *out = NULL;
    }
    st = ef_view_wait_open(engine, name, tenant, freshness, all_views, &wait, err);
    end_us = now_us() + freshness->timeout_ms * 1000;
    while (wait && !done) {
        int64_t turn = turn_of(&engine->read_waits);
        bool late = now_us() >= end_us;
        st = try_once(wait, late, out, out_blocked, &done, err);
        if (done)
            break;
        ef__read_target_release(engine, *out);
        *out = NULL;
        wait_for_change(&engine->read_waits, turn, end_us);
    }
    ef_view_wait_close(wait);
    return st;
}

/* --- waiting without a thread ----------------------------------------------------------------- */

void ef_view_wait_check(ef_view_wait *const *waits, size_t count, bool *out_over)
{
    int64_t round_us = now_us();

    for (size_t i = 0; i < count; i++) {
        ef_view_wait *wait = waits[i];
        ef__read_target *target = NULL;
        int64_t blocked = 0;
        wait->round_us = round_us;
        (void)try_once(wait, false, &target, &blocked, &out_over[i], NULL);
        ef__read_target_release(wait->engine, target);
    }
}

int64_t ef_view_wait_next(ef_engine *engine, int64_t seen, int64_t ms)
{
    if (!engine)
        return 0;
    wait_for_change(&engine->read_waits, seen, now_us() + ms * 1000);
    return turn_of(&engine->read_waits);
}

ef_status ef_projection_reached(ef_engine *engine, ef_str name, const ef_str *tenant, int64_t *out,
                                ef_error *err)
{
    ef__read_target *target = NULL;
    ef__lag lag = {0};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    st = ef__read_target_acquire(engine, name, tenant, false, &target, err);
    if (st == EF_OK)
        st = read_lag(engine, target, tenant, now_us(), &lag, err);
    *out = st == EF_OK ? ef__lag_reached(&lag) : 0;
    if (tenant && lag.blocked_from &&
        target->generation->by_log) { /* the all_views tenant stopped */
        *out = lag.blocked_from - 1;
        st = fail_tenant(engine, target->generation, *tenant, lag.blocked_from, lag.blocked_from,
                         err);
    }
    ef__read_target_release(engine, target);
    return st;
}
