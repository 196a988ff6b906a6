/*
 * read_target.c - see read.h: targets, and the requirement of a waiting read.
 */
#include "read.h"
#include "lag.h"
#include "scope.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEPT_US 5000
#define TARGETS_MAX 64

/* The machine's coarse clock: a test that stops the engine's clock must not extend the cache. */
static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void release_reference(ef__read_target *target)
{
    if (--target->references > 0)
        return;
    ef_memory_release(&target->list.room);
    free(target->lag);
    free(target);
}

void ef__read_target_release(ef_engine *engine, ef__read_target *target)
{
    if (!target)
        return;
    EF__LOCK(&engine->lock);
    release_reference(target);
}

static ef_str tenant_of(const ef__read_target *target)
{
    return (ef_str){target->tenant, target->tenant_len};
}

static bool is_for(const ef__read_target *target, ef_str name, const ef_str *tenant)
{
    return ef_str_equal(target->generation->name, name) && target->any_tenant == !tenant &&
           (!tenant || ef_str_equal(tenant_of(target), *tenant));
}

/* A cached target of the name that is recent enough; others go. The caller holds the lock. */
static ef__read_target *find_cached(ef_engine *engine, ef_str name, const ef_str *tenant,
                                    int64_t at_us)
{
    size_t count = 0;

    for (ef__read_target **at = &engine->read_targets; *at; count++) {
        ef__read_target *target = *at;
        bool old = at_us - target->read_us > KEPT_US || target->changes != engine->changes ||
                   count >= TARGETS_MAX;
        if (!old && is_for(target, name, tenant))
            return target;
        if (!old) {
            at = &target->next;
            continue;
        }
        *at = target->next;
        release_reference(target);
    }
    return NULL;
}

static ef_status read_target(ef_engine *engine, ef_str name, ef__read_target *target, ef_error *err)
{
    ef_str tenant_name = tenant_of(target);
    const ef_str *tenant = target->any_tenant ? NULL : &tenant_name;
    /* Behind a network, the journal and the views are read at the same time. */
    void *sent = ef__as_of_send(engine, name, tenant);
    ef_status st =
        ef__engine_active_generation(engine, name, &target->list, &target->generation, err);
    ef_status received = ef__as_of_receive(engine, sent, name, target->generation, tenant,
                                           &target->as_of, st == EF_OK ? err : NULL);

    st = st == EF_OK ? received : st;
    return st == EF_OK ? ef__generation_migrates(engine, target->generation, &target->migrates, err)
                       : st;
}

static ef__read_target *make_target(const ef_str *tenant, int64_t at_us, int64_t changes)
{
    size_t length = tenant ? tenant->len : 0;
    ef__read_target *target = calloc(1, sizeof *target + length);

    if (!target)
        return NULL;
    target->references = 1;
    target->read_us = at_us;
    target->changes = changes;
    target->any_tenant = !tenant;
    target->tenant_len = length;
    if (length)
        memcpy(target->tenant, tenant->ptr, length);
    return target;
}

ef_status ef__read_target_acquire(ef_engine *engine, ef_str name, const ef_str *tenant, bool fresh,
                                  ef__read_target **out, ef_error *err)
{
    int64_t at_us = now_us();
    ef__read_target *target;
    ef_status st;

    *out = NULL;
    pthread_mutex_lock(&engine->lock);
    target = fresh ? NULL : find_cached(engine, name, tenant, at_us);
    if (target)
        target->references++;
    int64_t changes = engine->changes;
    pthread_mutex_unlock(&engine->lock);
    *out = target;
    if (target)
        return EF_OK;
    target = make_target(tenant, at_us, changes);
    if (!target)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a read");
    st = read_target(engine, name, target, err);
    EF__LOCK(&engine->lock);
    if (st != EF_OK) {
        release_reference(target);
    } else {
        *out = target;
        target->references++;
        target->next = engine->read_targets;
        engine->read_targets = target;
    }
    return st;
}

void ef__read_targets_invalidate(ef_engine *engine)
{
    EF__LOCK(&engine->lock);
    engine->changes++;
}

void ef__read_targets_release(ef_engine *engine)
{
    while (engine->read_targets) {
        ef__read_target *next = engine->read_targets->next;
        release_reference(engine->read_targets);
        engine->read_targets = next;
    }
}

/* --- the requirement of a waiting read -------------------------------------------------------- */

static int compare_streams(const void *a, const void *b)
{
    const ef__wanted_stream *x = a, *y = b;
    int by_tenant = ef__str_compare(x->tenant, y->tenant);
    int by_name = by_tenant ? by_tenant : ef__str_compare(x->name, y->name);

    return by_name ? by_name : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Keeps each stream once, with its highest seq. */
static void merge_streams(ef_view_wait *read)
{
    size_t kept = 0;

    if (read->count)
        qsort(read->streams, read->count, sizeof *read->streams, compare_streams);
    for (size_t i = 0; i < read->count; i++) {
        ef__wanted_stream *before = kept ? &read->streams[kept - 1] : NULL;
        if (before && ef_str_equal(before->tenant, read->streams[i].tenant) &&
            ef_str_equal(before->name, read->streams[i].name))
            *before = read->streams[i];
        else
            read->streams[kept++] = read->streams[i];
    }
    read->count = kept;
}

static ef_status add_events(ef_view_wait *read, const ef_batch *batch, int64_t last, ef_error *err)
{
    for (size_t i = 0; i < batch->count && batch->events[i].position <= last; i++) {
        const ef_event *event = &batch->events[i];
        ef__wanted_stream *to = &read->streams[read->count];
        *to = (ef__wanted_stream){event->tenant, event->stream, event->seq, event->position};
        if (ef__arena_own(&read->arena, err, &to->tenant, &to->name, NULL) != EF_OK)
            return EF_NO_MEMORY;
        read->count++;
    }
    return EF_OK;
}

/* The streams of the events of a range of positions. */
static ef_status require_range(ef_view_wait *read, const ef_token *token, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t after = token->first - 1, reached = after;
    size_t most = (size_t)(token->position - token->first + 1);
    ef_status st = EF_OK;

    read->streams = ef__arena_zalloc(&read->arena, most + 1, sizeof *read->streams);
    if (!read->streams)
        return ef__no_memory(err);
    while (st == EF_OK && after < token->position) {
        st = ef_journal_read_log(read->engine->journal,
                                 &(ef_log_query){.any_tenant = !read->tenant,
                                                 .tenant = read->tenant_name,
                                                 .after = after,
                                                 .limit = 1000,
                                                 .out_reached = &reached},
                                 &batch, err);
        if (st == EF_OK)
            st = add_events(read, &batch, token->position, err);
        if (reached == after)
            break;
        after = reached;
    }
    EF_RELEASE(&batch);
    merge_streams(read);
    return st;
}

static ef_status require_stream(ef_view_wait *read, const ef_token *token, ef_error *err)
{
    ef__wanted_stream *to = ef__arena_zalloc(&read->arena, 2, sizeof *to);

    if (read->tenant && !ef_str_equal(*read->tenant, ef_str_from(token->tenant)))
        return ef_fail(err, EF_BAD_INPUT,
                       "the token belongs to tenant \"%s\", the read to tenant \"%.*s\"",
                       token->tenant, EF_STR_ARG(*read->tenant));
    if (!to)
        return ef__no_memory(err);
    *to = (ef__wanted_stream){ef_str_from(token->tenant), ef_str_from(token->stream), token->seq,
                              token->position};
    read->streams = to;
    read->count = 1;
    return ef__arena_own(&read->arena, err, &to->tenant, &to->name, NULL);
}

ef_status ef__read_requirement_set(ef_view_wait *read, const ef_freshness *freshness, ef_error *err)
{
    ef_token token = {0};
    ef_head head;
    ef_status st = EF_OK;

    if (freshness->at_least.len)
        st = ef_token_parse(freshness->at_least, &token, err);
    if (st == EF_OK && token.by_stream)
        st = require_stream(read, &token, err);
    else if (st == EF_OK && token.first)
        st = require_range(read, &token, err);
    else
        read->position = token.position;
    if (st == EF_OK && freshness->current) {
        st = ef_journal_head(read->engine->journal, &head, err);
        read->position = head.position > read->position ? head.position : read->position;
    }
    if (st == EF_OK && read->count) {
        read->watermarks = ef__arena_zalloc(&read->arena, read->count, sizeof *read->watermarks);
        st = read->watermarks ? EF_OK : ef__no_memory(err);
    }
    return st;
}
