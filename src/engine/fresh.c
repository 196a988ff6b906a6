/*
 * fresh.c - see fresh.h.
 */
#include "fresh.h"
#include "lag.h"
#include "migrate.h"

#include "../base/deadline.h"

#include <inttypes.h>
#include <stdlib.h>

#define POLL_MS_MIN 2
#define POLL_MS_MAX 25
#define BLOCKED_LOOK_US 50000 /* between looks whether a stream is blocked */
#define BLOCKED_LOOKS 16      /* reads that may look in that time; more look less often */
#define KEYS_MAX 2000         /* streams that are looked up together */

typedef struct wanted_stream {
    ef_str tenant, name;
    int64_t seq, position; /* position 0: not known */
} wanted_stream;

/* A read, while it waits. */
typedef struct ef__fresh_read {
    struct ef__fresh_read *next; /* of those that wait for streams */
    int64_t generation;          /* whose watermarks it waits for; 0: none yet */
    int64_t position;            /* wanted; 0: streams are */
    wanted_stream *streams;      /* those that are not covered yet */
    size_t count;
    ef__watermark *marks;     /* of these, as of … */
    int64_t looked_us;        /* … then */
    bool shares;              /* in the look that is being made */
    int64_t blocked_looks_us; /* when it last looked whether one is blocked */
    int64_t round_us;         /* looks of this round count for it; 0: from now on */
    ef__arena arena;
} ef__fresh_read;

static int64_t now_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context);
}

/* --- waking ----------------------------------------------------------------------------------- */

void ef__fresh_open(ef__fresh *fresh)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&fresh->lock, NULL);
    pthread_mutex_init(&fresh->looking, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&fresh->moved, &attributes);
    pthread_condattr_destroy(&attributes);
}

void ef__fresh_close(ef__fresh *fresh)
{
    pthread_mutex_destroy(&fresh->lock);
    pthread_mutex_destroy(&fresh->looking);
    pthread_cond_destroy(&fresh->moved);
}

void ef__fresh_moved(ef_engine *e)
{
    if (atomic_load(&e->fresh.reads) == 0)
        return;
    pthread_mutex_lock(&e->fresh.lock);
    e->fresh.turn++;
    pthread_cond_broadcast(&e->fresh.moved);
    pthread_mutex_unlock(&e->fresh.lock);
}

/* Under the lock: keeps the time for all, until it is up or something has moved. */
static void keep_time(ef__fresh *fresh, int64_t seen, int64_t left_ms)
{
    bool ends = left_ms <= fresh->poll_ms;
    struct timespec at = ef__deadline(CLOCK_MONOTONIC, ends ? left_ms : fresh->poll_ms);
    int rc = 0;

    fresh->timed = true;
    while (fresh->turn == seen && rc == 0)
        rc = pthread_cond_timedwait(&fresh->moved, &fresh->lock, &at);
    fresh->timed = false;
    if (fresh->turn == seen) {
        fresh->turn++;
        fresh->poll_ms =
            fresh->poll_ms * 2 < POLL_MS_MAX ? fresh->poll_ms * 2 : (int64_t)POLL_MS_MAX;
    }
    pthread_cond_broadcast(&fresh->moved); /* another one keeps the time from here on */
}

/* Waits for the turn after `seen`, or until `end_us`. */
static void wait_turn(ef__fresh *fresh, int64_t seen, int64_t end_us)
{
    pthread_mutex_lock(&fresh->lock);
    while (fresh->turn == seen) {
        int64_t left_ms = (end_us - now_us() + 999) / 1000;
        if (left_ms <= 0)
            break;
        if (!fresh->timed) {
            keep_time(fresh, seen, left_ms);
            break;
        }
        struct timespec at = ef__deadline(CLOCK_MONOTONIC, left_ms);
        (void)pthread_cond_timedwait(&fresh->moved, &fresh->lock, &at);
    }
    pthread_mutex_unlock(&fresh->lock);
}

/* --- what is wanted --------------------------------------------------------------------------- */

static int compare_streams(const void *a, const void *b)
{
    const wanted_stream *x = a, *y = b;
    int by_tenant = ef__str_compare(x->tenant, y->tenant);
    int by_name = by_tenant ? by_tenant : ef__str_compare(x->name, y->name);

    return by_name ? by_name : (x->seq > y->seq) - (x->seq < y->seq);
}

/* Each stream once, with its highest seq. */
static void unite(ef__fresh_read *read)
{
    size_t kept = 0;

    if (read->count)
        qsort(read->streams, read->count, sizeof *read->streams, compare_streams);
    for (size_t i = 0; i < read->count; i++) {
        wanted_stream *before = kept ? &read->streams[kept - 1] : NULL;
        if (before && ef_str_equal(before->tenant, read->streams[i].tenant) &&
            ef_str_equal(before->name, read->streams[i].name))
            *before = read->streams[i];
        else
            read->streams[kept++] = read->streams[i];
    }
    read->count = kept;
}

static ef_status add_events(ef__fresh_read *read, const ef_batch *batch, int64_t last,
                            ef_error *err)
{
    for (size_t i = 0; i < batch->count && batch->events[i].position <= last; i++) {
        const ef_event *event = &batch->events[i];
        wanted_stream *to = &read->streams[read->count];
        *to = (wanted_stream){ef__arena_copy(&read->arena, event->tenant),
                              ef__arena_copy(&read->arena, event->stream), event->seq,
                              event->position};
        if (!to->tenant.ptr || !to->name.ptr)
            return ef__room_full(err);
        read->count++;
    }
    return EF_OK;
}

/* The streams of the events of a range. */
static ef_status want_range(ef_engine *e, const ef_token *token, const ef_str *tenant,
                            ef__fresh_read *read, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t after = token->first - 1, reached = after;
    size_t most = (size_t)(token->position - token->first + 1);
    ef_status st = EF_OK;

    read->streams = ef__arena_zalloc(&read->arena, most + 1, sizeof *read->streams);
    if (!read->streams)
        return ef__room_full(err);
    while (st == EF_OK && after < token->position) {
        st = ef_journal_read_log(e->journal,
                                 &(ef_log_query){.any_tenant = !tenant,
                                                 .tenant = tenant ? *tenant : EF_STR(""),
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
    ef_batch_release(&batch);
    unite(read);
    return st;
}

static ef_status want_stream(const ef_token *token, const ef_str *tenant, ef__fresh_read *read,
                             ef_error *err)
{
    wanted_stream *to = ef__arena_zalloc(&read->arena, 2, sizeof *to);

    if (tenant && !ef_str_equal(*tenant, ef_str_from(token->tenant)))
        return ef_fail(err, EF_BAD_INPUT,
                       "the token is of an append of tenant \"%s\", and the read is of \"%.*s\"",
                       token->tenant, EF_STR_ARG(*tenant));
    if (!to)
        return ef__room_full(err);
    *to = (wanted_stream){ef__arena_copy(&read->arena, ef_str_from(token->tenant)),
                          ef__arena_copy(&read->arena, ef_str_from(token->stream)), token->seq,
                          token->position};
    read->streams = to;
    read->count = 1;
    return to->tenant.ptr && to->name.ptr ? EF_OK : ef__room_full(err);
}

static ef_status want(ef_engine *e, const ef_freshness *f, const ef_str *tenant,
                      ef__fresh_read *read, ef_error *err)
{
    ef_token token = {0};
    ef_head head;
    ef_status st = EF_OK;

    if (f->at_least.len)
        st = ef_token_parse(f->at_least, &token, err);
    if (st == EF_OK && token.by_stream)
        st = want_stream(&token, tenant, read, err);
    else if (st == EF_OK && token.first)
        st = want_range(e, &token, tenant, read, err);
    else
        read->position = token.position;
    if (st == EF_OK && f->current) {
        st = ef_journal_head(e->journal, &head, err);
        read->position = head.position > read->position ? head.position : read->position;
    }
    if (st == EF_OK && read->count) {
        read->marks = ef__arena_zalloc(&read->arena, read->count, sizeof *read->marks);
        st = read->marks ? EF_OK : ef__room_full(err);
    }
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

static size_t keys_of(const ef__fresh_read *read)
{
    return read->count < KEYS_MAX ? read->count : KEYS_MAX;
}

static size_t add_keys(const ef__fresh_read *read, ef__view_key *keys, size_t count)
{
    for (size_t i = 0; i < keys_of(read); i++)
        keys[count++] = (ef__view_key){read->streams[i].tenant, read->streams[i].name};
    return count;
}

/* Under `looking`: the watermarks that a read waits for, and with them those of others that wait
 * for the same generation. */
static ef_status look_up_marks(ef_engine *e, ef__fresh_read *self, ef_error *err)
{
    ef__view_key *keys = malloc(KEYS_MAX * sizeof *keys);
    ef__watermark *marks = malloc(KEYS_MAX * sizeof *marks);
    int64_t at_us = now_us();
    size_t count = keys ? add_keys(self, keys, 0) : 0, at = keys_of(self);
    ef_status st = keys && marks ? EF_OK : ef_fail(err, EF_NO_MEMORY, "out of memory in a read");

    for (ef__fresh_read *r = e->fresh.first; st == EF_OK && r; r = r->next) {
        r->shares =
            r != self && r->generation == self->generation && count + keys_of(r) <= KEYS_MAX;
        count = r->shares ? add_keys(r, keys, count) : count;
    }
    if (st == EF_OK)
        st = ef__watermarks_read(e->views, self->generation, keys, count, marks, err);
    if (st == EF_OK) {
        memcpy(self->marks, marks, keys_of(self) * sizeof *marks);
        self->looked_us = at_us;
    }
    for (ef__fresh_read *r = e->fresh.first; st == EF_OK && r; r = r->next) {
        if (!r->shares)
            continue;
        memcpy(r->marks, marks + at, keys_of(r) * sizeof *marks);
        r->looked_us = at_us;
        at += keys_of(r);
    }
    free(keys);
    free(marks);
    return st;
}

static bool is_covered(const wanted_stream *stream, const ef__watermark *mark)
{
    return mark->expected_next_seq > stream->seq;
}

/* The first stream that is not covered goes to the front, and those that are leave. */
static void drop_covered(ef__fresh_read *read)
{
    size_t kept = 0, most = keys_of(read);

    for (size_t i = 0; i < read->count; i++) {
        if (i < most && is_covered(&read->streams[i], &read->marks[i]))
            continue;
        read->streams[kept] = read->streams[i];
        read->marks[kept++] = read->marks[i];
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

/* EF_BLOCKED if a stream that is not covered cannot go on. */
static ef_status check_blocked(ef_engine *e, const ef__generation *g, ef__fresh_read *read,
                               ef_error *err)
{
    ef__retry_stream_list found = {0};
    size_t most = keys_of(read);
    int64_t taken = 0;
    ef_status st = ef__engine_taken(e, g, NULL, &taken, err);

    for (size_t i = 0; st == EF_OK && i < most; i++) {
        const wanted_stream *s = &read->streams[i];
        st = ef__retry_streams(
            e->journal,
            &(ef__retry_query){.lane = g->name, .tenant = s->tenant, .stream = s->name, .limit = 1},
            &found, err);
        if (st == EF_OK && found.count && found.items[0].seq <= s->seq &&
            ef__retry_stream_blocked(&found.items[0])) {
            ef__watermark mark = {0};
            bool there;
            st = e->views->ops->watermark_get(e->views, g->id, s->tenant, s->name, &mark, &there,
                                              err);
            if (st == EF_OK && ef__lag_lacks(&found.items[0], taken, &mark) &&
                !is_covered(s, &mark))
                st = fail_blocked(g->name, s->name, found.items[0].seq, s->seq,
                                  found.items[0].error, err);
        }
    }
    ef__retry_stream_list_release(&found);
    return st;
}

/* What was read from then on is new enough. */
static int64_t round_of(const ef__fresh_read *read)
{
    return read->round_us ? read->round_us : now_us();
}

static ef_status look_at_streams(ef_engine *e, const ef__generation *g, ef__fresh_read *read,
                                 bool *out_fresh, ef_error *err)
{
    int64_t at_us = round_of(read);
    int64_t pause_us = BLOCKED_LOOK_US * (1 + atomic_load(&e->fresh.reads) / BLOCKED_LOOKS);
    ef_status st = EF_OK;

    pthread_mutex_lock(&e->fresh.looking);
    if (read->generation != g->id || read->looked_us < at_us) {
        read->generation = g->id;
        st = look_up_marks(e, read, err);
    }
    if (st == EF_OK)
        drop_covered(read);
    pthread_mutex_unlock(&e->fresh.looking);
    *out_fresh = read->count == 0;
    if (st == EF_OK && read->count && at_us - read->blocked_looks_us >= pause_us) {
        read->blocked_looks_us = at_us;
        st = check_blocked(e, g, read, err);
    }
    return st;
}

/* --- positions, and the order of the log ------------------------------------------------------ */

/* EF_BLOCKED, with the event that the tenant stands before. */
static ef_status fail_tenant(ef_engine *e, const ef__generation *g, ef_str tenant, int64_t position,
                             int64_t asked, ef_error *err)
{
    ef__failure_list list = {0};
    ef_status st = e->views->ops->failure_ls(e->views, g->id, NULL, true, KEYS_MAX, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (ef_str_equal(list.items[i].tenant, tenant) && list.items[i].position == position)
            st = fail_blocked(g->name, list.items[i].stream, list.items[i].seq, asked,
                              list.items[i].message, err);
    if (st == EF_OK)
        st = ef_fail_numbers(
            err, EF_BLOCKED, asked, position,
            "tenant \"%.*s\" of projection \"%.*s\" is blocked at position %" PRId64,
            EF_STR_ARG(tenant), EF_STR_ARG(g->name), position);
    ef__failure_list_release(&list);
    return st;
}

/* The lag of the route's generation, read by this call or by another one since `at_us`. */
static ef_status look_at_lag(ef_engine *e, ef__route *route, const ef_str *tenant, int64_t at_us,
                             ef__lag *out, ef_error *err)
{
    int64_t begins_us;
    ef_status st = EF_OK;

    pthread_mutex_lock(&e->fresh.looking);
    if (!route->lag || route->lag_us < at_us) {
        route->lag = route->lag ? route->lag : malloc(sizeof *route->lag);
        begins_us = now_us();
        st = route->lag ? ef__lag_read(e, route->generation, tenant, false, route->lag, err)
                        : ef_fail(err, EF_NO_MEMORY, "out of memory in a read");
        route->lag_us = st == EF_OK ? begins_us : 0;
    }
    if (st == EF_OK)
        *out = *route->lag;
    pthread_mutex_unlock(&e->fresh.looking);
    return st;
}

static ef_status look_at_position(ef_engine *e, ef__route *route, const ef_str *tenant,
                                  int64_t wanted, int64_t at_us, bool *out_fresh,
                                  int64_t *out_blocked, ef_error *err)
{
    ef__lag lag = {0};
    ef_status st = look_at_lag(e, route, tenant, at_us, &lag, err);

    *out_fresh = st == EF_OK && lag.taken >= wanted && lag.proceeds_from > wanted;
    *out_blocked = lag.blocked_streams;
    if (st == EF_OK && route->generation->by_log && tenant && lag.blocked_streams &&
        lag.blocked_from <= wanted)
        st = fail_tenant(e, route->generation, *tenant, lag.blocked_from, wanted, err);
    return st;
}

/* The position of an event that had none when its token was made. */
static ef_status find_position(ef_engine *e, wanted_stream *s, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    if (s->position == 0)
        st = ef_journal_read_stream(e->journal, s->tenant, s->name, s->seq, 1, &batch, err);
    if (st == EF_OK && batch.count)
        s->position = batch.events[0].position;
    ef_batch_release(&batch);
    return st;
}

/* In the order of the log: the cursor of each event's tenant. */
static ef_status look_at_cursors(ef_engine *e, ef__route *route, ef__fresh_read *read,
                                 bool *out_fresh, ef_error *err)
{
    int64_t blocked;
    ef_status st = EF_OK;

    *out_fresh = true;
    for (size_t i = 0; st == EF_OK && *out_fresh && i < read->count; i++) {
        wanted_stream *s = &read->streams[i];
        st = find_position(e, s, err);
        if (st == EF_OK && s->position == 0)
            *out_fresh = false;
        else if (st == EF_OK)
            st = look_at_position(e, route, &s->tenant, s->position, round_of(read), out_fresh,
                                  &blocked, err);
    }
    return st;
}

/* --- together --------------------------------------------------------------------------------- */

static ef_status look(ef_engine *e, ef__route *route, const ef_str *tenant, ef__fresh_read *read,
                      bool *out_fresh, int64_t *out_blocked, ef_error *err)
{
    ef_status st = EF_OK;

    *out_fresh = true;
    if (read->count && route->generation->by_log)
        st = look_at_cursors(e, route, read, out_fresh, err);
    else if (read->count)
        st = look_at_streams(e, route->generation, read, out_fresh, err);
    if (st == EF_OK && *out_fresh && read->position)
        st = look_at_position(e, route, tenant, read->position, round_of(read), out_fresh,
                              out_blocked, err);
    return st;
}

/* Why one that is too old, or not whole, is not shown. */
static ef_status not_fresh(ef_engine *e, const ef__route *route, const ef__fresh_read *read,
                           bool fresh, ef_error *err)
{
    static const char *const states[] = {"catching_up", "live", "paused", "failed", "retired"};
    const ef__generation *g = route->generation;
    int64_t wanted = read->count ? read->streams[0].position : read->position;

    if (fresh)
        return ef__generation_is_whole(e, g, err);
    return ef_fail_numbers(err, EF_TIMEOUT, wanted, route->as_of,
                           "projection \"%.*s\" (%s) is at position %" PRId64
                           ", not yet at %" PRId64,
                           EF_STR_ARG(g->name), states[g->state], route->as_of, wanted);
}

static void join(ef__fresh *fresh, ef__fresh_read *read)
{
    pthread_mutex_lock(&fresh->looking);
    read->next = fresh->first;
    fresh->first = read;
    pthread_mutex_unlock(&fresh->looking);
    pthread_mutex_lock(&fresh->lock);
    fresh->reads++;
    fresh->poll_ms = POLL_MS_MIN;
    pthread_mutex_unlock(&fresh->lock);
}

static void leave(ef__fresh *fresh, ef__fresh_read *read)
{
    pthread_mutex_lock(&fresh->looking);
    for (ef__fresh_read **at = &fresh->first; *at; at = &(*at)->next)
        if (*at == read) {
            *at = read->next;
            break;
        }
    pthread_mutex_unlock(&fresh->looking);
    fresh->reads--;
}

static int64_t turn_of(ef__fresh *fresh)
{
    int64_t turn;

    pthread_mutex_lock(&fresh->lock);
    turn = fresh->turn;
    pthread_mutex_unlock(&fresh->lock);
    return turn;
}

/* Looks once; *out_done: there is an answer, be it that it took too long. */
static ef_status try_once(ef_engine *e, ef_str name, const ef_str *tenant, ef__fresh_read *read,
                          bool whole, bool late, ef__route **out, int64_t *out_blocked,
                          bool *out_done, ef_error *err)
{
    bool fresh = false;
    ef_status st = ef__route_take(e, name, tenant, false, out, err);
    int64_t seen = st == EF_OK ? (*out)->generation->id : 0;

    *out_done = true;
    if (st == EF_OK)
        st = look(e, *out, tenant, read, &fresh, out_blocked, err);
    if (st == EF_OK && (fresh || late)) { /* as_of is at least as new as what was looked at */
        ef__route_give(e, *out);
        st = ef__route_take(e, name, tenant, true, out, err);
    }
    if (st == EF_OK && fresh && (*out)->generation->id == seen && !(whole && (*out)->migrates))
        return EF_OK;
    *out_done = st != EF_OK || late;
    return st == EF_OK && late ? not_fresh(e, *out, read, fresh, err) : st;
}

static ef_status wait_for(ef_engine *e, ef_str name, const ef_str *tenant, const ef_freshness *f,
                          ef__fresh_read *read, bool whole, ef__route **out, int64_t *out_blocked,
                          ef_error *err)
{
    int64_t end_us = now_us() + f->timeout_ms * 1000;
    bool done = false;
    ef_status st = EF_OK;

    join(&e->fresh, read);
    while (!done) {
        int64_t turn = turn_of(&e->fresh);
        bool late = now_us() >= end_us;
        st = try_once(e, name, tenant, read, whole, late, out, out_blocked, &done, err);
        if (done)
            break;
        ef__route_give(e, *out);
        *out = NULL;
        wait_turn(&e->fresh, turn, end_us);
    }
    leave(&e->fresh, read);
    return st;
}

ef_status ef__fresh_route(ef_engine *e, ef_str name, const ef_str *tenant, const ef_freshness *f,
                          bool whole, ef__route **out, int64_t *out_blocked, ef_error *err)
{
    static const ef_freshness any = {0};
    ef__fresh_read read = {.arena = EF__ARENA_INIT(16u << 20)};
    ef_status st;

    f = f ? f : &any;
    *out = NULL;
    *out_blocked = 0;
    if (!f->at_least.len && !f->current) { /* most reads: no look at the clock */
        st = ef__route_take(e, name, tenant, false, out, err);
        if (st != EF_OK || !(whole && (*out)->migrates))
            return st;
        ef__route_give(e, *out);
        *out = NULL;
    }
    st = want(e, f, tenant, &read, err);
    if (st == EF_OK)
        st = wait_for(e, name, tenant, f, &read, whole, out, out_blocked, err);
    ef__arena_release(&read.arena);
    return st;
}

/* --- waiting without a thread ----------------------------------------------------------------- */

struct ef_view_wait {
    ef_engine *engine;
    ef_str projection, tenant;
    bool any_tenant, whole;
    ef__fresh_read read;
};

ef_status ef_view_wait_open(ef_engine *e, ef_str projection, const ef_str *tenant,
                            const ef_freshness *f, bool all_views, ef_view_wait **out,
                            ef_error *err)
{
    ef_view_wait *w;
    ef_status st;

    if (!e || !f || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", !e ? "engine" : !f ? "freshness" : "out");
    *out = NULL;
    w = calloc(1, sizeof *w);
    if (!w)
        return ef_fail(err, EF_NO_MEMORY, "out of memory in a read");
    w->engine = e;
    w->any_tenant = !tenant;
    w->whole = all_views;
    w->read.arena = (ef__arena)EF__ARENA_INIT(16u << 20);
    w->projection = ef__arena_copy(&w->read.arena, projection);
    w->tenant = ef__arena_copy(&w->read.arena, tenant ? *tenant : EF_STR(""));
    st = w->projection.ptr && w->tenant.ptr ? EF_OK : ef__room_full(err);
    if (st == EF_OK)
        st = want(e, f, tenant, &w->read, err);
    if (st != EF_OK) {
        ef__arena_release(&w->read.arena);
        free(w);
        return st;
    }
    join(&e->fresh, &w->read);
    *out = w;
    return EF_OK;
}

void ef_view_wait_look(ef_view_wait *const *waits, size_t count, bool *out_over)
{
    int64_t round_us = now_us();

    for (size_t i = 0; i < count; i++) {
        ef_view_wait *w = waits[i];
        ef__route *route = NULL;
        int64_t blocked = 0;
        w->read.round_us = round_us;
        (void)try_once(w->engine, w->projection, w->any_tenant ? NULL : &w->tenant, &w->read,
                       w->whole, false, &route, &blocked, &out_over[i], NULL);
        ef__route_give(w->engine, route);
    }
}

int64_t ef_view_wait_turn(ef_engine *e, int64_t seen, int64_t ms)
{
    if (!e)
        return 0;
    wait_turn(&e->fresh, seen, now_us() + ms * 1000);
    return turn_of(&e->fresh);
}

void ef_view_wait_close(ef_view_wait *w)
{
    if (!w)
        return;
    leave(&w->engine->fresh, &w->read);
    ef__arena_release(&w->read.arena);
    free(w);
}

ef_status ef_projection_reached(ef_engine *e, ef_str name, const ef_str *tenant, int64_t *out,
                                ef_error *err)
{
    ef__route *route = NULL;
    ef__lag lag = {0};
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    st = ef__route_take(e, name, tenant, false, &route, err);
    if (st == EF_OK)
        st = look_at_lag(e, route, tenant, now_us(), &lag, err);
    *out = st == EF_OK ? ef__lag_reached(&lag) : 0;
    if (tenant && lag.blocked_from && route->generation->by_log) { /* nothing of it goes on */
        *out = lag.blocked_from - 1;
        st = fail_tenant(e, route->generation, *tenant, lag.blocked_from, lag.blocked_from, err);
    }
    ef__route_give(e, route);
    return st;
}
