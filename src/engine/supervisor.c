/*
 * supervisor.c - see supervisor.h.
 *
 * All durable state is in the stores: a thread that starts over finds everything there.
 */
#include <everfold/supervisor.h>

#include "publish.h"
#include "run.h"

#include "../base/deadline.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MS 2000
#define CURSOR_THREADS 1
#define POSTS_MAX 16
#define WAIT_MS_MAX 10000 /* how long a stop may go unseen where nobody could be nudged */
#define DOZE_MS_MAX 1000
#define STALLED_MS 30000 /* beyond the interval: then a post is not well */

typedef ef_status step_fn(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err);

typedef struct post {
    ef_supervisor *supervisor;
    step_fn *step;
    pthread_t thread;
    bool started;
    int64_t nudge;   /* the last that it has seen */
    ef_post shown;   /* under the supervisor's lock, as is … */
    int64_t well_us; /* … when it last got on or found nothing to do; monotonic */
} post;

struct ef_supervisor {
    ef_supervisor_options options;
    pthread_mutex_t lock;
    pthread_mutex_t telling; /* one on_step at a time */
    pthread_cond_t wake;
    bool stopping;
    post posts[POSTS_MAX];
    size_t count;
};

const char *ef_post_state_name(ef_post_state state)
{
    static const char *const names[] = {"starting", "working", "idle", "retrying", "stopping"};

    return names[state];
}

static int64_t mono_us(const ef_supervisor *s)
{
    const ef_clock *clock = s->options.engine->options.clock;

    return clock->mono_us(clock->context);
}

/* --- resting ---------------------------------------------------------------------------------- */

static bool is_stopping(ef_supervisor *s)
{
    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

/* Sleep so long, or until somebody wants us to stop. */
static void doze(ef_supervisor *s, int64_t ms)
{
    struct timespec until = ef__deadline(CLOCK_MONOTONIC, ms);

    pthread_mutex_lock(&s->lock);
    while (!s->stopping && pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&s->lock);
}

/* How long there is nothing to do unless the journal grows. */
static int64_t rest_ms(const post *p, const ef_tick *tick)
{
    const ef_engine *e = p->supervisor->options.engine;
    int64_t ms = p->supervisor->options.interval_ms;
    int64_t due_ms = tick->due_us ? (tick->due_us - ef__engine_now(e)) / 1000 + 1 : ms;
    int64_t beat_ms = p->step == ef__queue_watch && e->crew.next_beat_us
                          ? (e->crew.next_beat_us - mono_us(p->supervisor)) / 1000 + 1
                          : ms;

    ms = due_ms < ms ? due_ms : ms;
    ms = beat_ms < ms ? beat_ms : ms;
    return ms < 1 ? 1 : ms;
}

/* What an append brings is taken by the queue, and read by the cursors if they have anything to
 * read for. All else comes with a nudge, or in its time: to wake up for nothing would only be in
 * the way of the one that has something to do. */
static bool minds_appends(const post *p)
{
    const ef_engine *e = p->supervisor->options.engine;

    return (p->step == ef__queue_watch && !ef__journal_is_sparse(e->journal) &&
            e->options.mode != EF_MODE_INLINE_APPLY_ONLY) ||
           p->step == ef__shadow_work || (p->step == ef__cursor_work && atomic_load(&e->reads_log));
}

/* Until the journal is past `position`, the time is over, or somebody nudges: to make us stop, or
 * because of what no append tells of. */
static void rest(post *p, int64_t position, int64_t ms)
{
    ef_supervisor *s = p->supervisor;
    int64_t until_us = mono_us(s) + ms * 1000, left = ms;
    ef_error ignored = EF_ERROR_INIT;
    ef_status st = EF_TIMEOUT;

    while (st == EF_TIMEOUT && left > 0 && !is_stopping(s)) {
        st = ef__journal_wait(s->options.engine->journal,
                              minds_appends(p) ? position : EF__NO_APPENDS, &p->nudge,
                              left < WAIT_MS_MAX ? left : WAIT_MS_MAX, &ignored);
        left = (until_us - mono_us(s)) / 1000;
    }
    if (st != EF_OK && st != EF_TIMEOUT)
        doze(s, left < DOZE_MS_MAX ? left : DOZE_MS_MAX); /* the step will say what is wrong */
}

/* --- a post ----------------------------------------------------------------------------------- */

static void show(post *p, ef_post_state state)
{
    ef_supervisor *s = p->supervisor;

    pthread_mutex_lock(&s->lock);
    p->shown.state = s->stopping ? EF_POST_STOPPING : state;
    if (state == EF_POST_WORKING || state == EF_POST_IDLE)
        p->well_us = mono_us(s);
    pthread_mutex_unlock(&s->lock);
}

static bool did_something(const ef_tick *t)
{
    return t->claimed || t->published || t->caught_up || t->run_events || t->leased_count ||
           t->released_count || t->lost_count || t->renewed_heartbeat;
}

static void tell(post *p, const ef_tick *tick, const ef_error *error)
{
    ef_supervisor *s = p->supervisor;

    if (!s->options.on_step || (!error && !did_something(tick)))
        return;
    pthread_mutex_lock(&s->telling);
    s->options.on_step(s->options.context, p->shown.name, tick, error);
    pthread_mutex_unlock(&s->telling);
}

/* Remember what went wrong; how long to wait before it is tried again. */
static int64_t note_failure(post *p, const ef_error *err)
{
    ef_supervisor *s = p->supervisor;
    ef__retry_step step;

    pthread_mutex_lock(&s->lock);
    step = ef__retry_decide(&ef__retry_store, p->shown.failures_in_a_row++, EF__ERROR_TRANSIENT,
                            (uint64_t)mono_us(s));
    p->shown.last_error = *err;
    pthread_mutex_unlock(&s->lock);
    ef__log(s->options.engine->options.log, EF_LOG_WARN, "a step failed; it is tried again",
            EF_LOG_TEXT_FIELD("post", ef_str_from(p->shown.name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    return step.delay_ms;
}

static void step_once(post *p)
{
    ef_supervisor *s = p->supervisor;
    ef_error err = EF_ERROR_INIT;
    ef_head head = {0};
    ef_tick tick = {0};
    int64_t began_us = mono_us(s);
    ef_status st;

    st = ef_journal_head(s->options.engine->journal, &head, &err);
    if (st == EF_OK)
        st = p->step(s->options.engine, &s->options.work, &tick, &err);
    tick.duration_us = mono_us(s) - began_us;
    ef__count_tick(s->options.engine, p->shown.name, &tick, st);
    if (st != EF_OK) {
        if (!err.text[0])
            (void)ef_fail(&err, st, "%s", ef_status_words(st));
        tick.backoff_ms = note_failure(p, &err);
        show(p, EF_POST_RETRYING);
        tell(p, &tick, &err);
        doze(s, tick.backoff_ms);
        return;
    }
    pthread_mutex_lock(&s->lock);
    p->shown.steps++;
    p->shown.failures_in_a_row = 0;
    pthread_mutex_unlock(&s->lock);
    show(p, tick.more ? EF_POST_WORKING : EF_POST_IDLE);
    tell(p, &tick, NULL);
    /* Publishers have threads that look at the journal by themselves. */
    if (!tick.more)
        rest(p, p->step == ef__publish_keep ? INT64_MAX : head.position,
             tick.backoff_ms ? tick.backoff_ms : rest_ms(p, &tick));
}

static void *keep_post(void *argument)
{
    post *p = argument;

    while (!is_stopping(p->supervisor))
        step_once(p);
    return NULL;
}

/* --- the supervisor --------------------------------------------------------------------------- */

static ef_status add_post(ef_supervisor *s, step_fn *step, const char *name, int number,
                          ef_error *err)
{
    post *p = &s->posts[s->count];
    int failed;

    *p = (post){.supervisor = s, .step = step, .well_us = mono_us(s)};
    if (number)
        (void)snprintf(p->shown.name, sizeof p->shown.name, "%s-%d", name, number);
    else
        (void)snprintf(p->shown.name, sizeof p->shown.name, "%s", name);
    failed = pthread_create(&p->thread, NULL, keep_post, p);
    if (failed)
        return ef_fail(err, EF_NO_MEMORY, "a thread for \"%s\" could not be started", name);
    p->started = true;
    s->count++;
    return EF_OK;
}

static ef_supervisor *make(const ef_supervisor_options *options)
{
    ef_supervisor *s = calloc(1, sizeof *s);
    pthread_condattr_t monotonic;

    if (!s)
        return NULL;
    s->options = *options;
    if (s->options.interval_ms <= 0)
        s->options.interval_ms = INTERVAL_MS;
    if (s->options.cursor_threads <= 0)
        s->options.cursor_threads = CURSOR_THREADS;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->telling, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return s;
}

ef_status ef_supervisor_start(const ef_supervisor_options *options, ef_supervisor **out,
                              ef_error *err)
{
    ef_supervisor *s;
    ef_status st;

    if (!out)
        return ef_fail(err, EF_BAD_INPUT, "out is NULL");
    *out = NULL;
    if (!options || !options->engine)
        return ef_fail(err, EF_BAD_INPUT, "a supervisor needs an engine");
    if (options->engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (options->cursor_threads > POSTS_MAX - 3)
        return ef_fail(err, EF_BAD_INPUT, "cursor_threads is %" PRId32 ", at most %d",
                       options->cursor_threads, POSTS_MAX - 3);
    st = ef__work_options_check(&options->work, err);
    if (st != EF_OK)
        return st;
    s = make(options);
    if (!s)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while starting a supervisor");
    atomic_store(&options->engine->supervised, true);
    options->engine->shadow = options->shadow;
    st = options->shadow ? add_post(s, ef__shadow_work, "shadow", 0, err)
                         : add_post(s, ef__queue_watch, "queue", 0, err);
    for (int i = 1; st == EF_OK && i <= s->options.cursor_threads; i++)
        st = add_post(s, ef__cursor_work, "cursor", i, err);
    if (st == EF_OK)
        st = add_post(s, ef__run_work, "runs", 0, err);
    if (st == EF_OK)
        st = add_post(s, ef__publish_keep, "publish", 0, err);
    if (st != EF_OK) {
        ef_supervisor_stop(s);
        return st;
    }
    ef__log(options->engine->options.log, EF_LOG_INFO, "a worker is at work",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(options->engine->worker)),
            EF_LOG_NUMBER_FIELD("posts", (int64_t)s->count));
    *out = s;
    return EF_OK;
}

size_t ef_supervisor_posts(ef_supervisor *s, ef_post *out, size_t max)
{
    int64_t now_us = mono_us(s);

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count && i < max; i++) {
        int64_t since_us = now_us - s->posts[i].well_us;
        out[i] = s->posts[i].shown;
        out[i].stalled_us = since_us > (STALLED_MS + s->options.interval_ms) * 1000 ? since_us : 0;
    }
    pthread_mutex_unlock(&s->lock);
    return s->count;
}

void ef_supervisor_wake(ef_supervisor *s)
{
    if (s)
        ef__journal_nudge(s->options.engine->journal);
}

void ef_supervisor_stop(ef_supervisor *s)
{
    ef_tick rest_of = {0};

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    ef__journal_nudge(s->options.engine->journal);
    for (size_t i = 0; i < s->count; i++)
        (void)pthread_join(s->posts[i].thread, NULL);
    ef__publish_stop(s->options.engine);
    s->options.engine->shadow = NULL;
    atomic_store(&s->options.engine->supervised, false);
    ef__publish_tell(s->options.engine, &rest_of);
    ef__count_minute(s->options.engine, &rest_of); /* what no task has told of any more */
    ef__log(s->options.engine->options.log, EF_LOG_INFO, "a worker has stopped",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(s->options.engine->worker)));
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->telling);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
