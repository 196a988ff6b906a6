/*
 * publish_list.c - the publishers of an engine: one after the other, or a thread each.
 *
 * engine->publishing guards the list; a publisher's own lock its step. Who holds the first may wait
 * for the second only when no thread of its own keeps the publisher: then no sink is waited for.
 */
#include "publish.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PUBLISHERS_MAX 64 /* threads of one process */
#define DEFINITION_BYTES (1024u * 1024)
#define REST_MS 2000 /* without anything that is due; the journal wakes it before */
#define SLICE_MS 200 /* how long a stop may go unseen */

/* --- the list --------------------------------------------------------------------------------- */

static ef__publishing *find(ef_engine *e, ef_str name)
{
    for (ef__publishing *p = e->publishers; p; p = p->next)
        if (ef_str_equal(name, ef_str_from(p->name)))
            return p;
    return NULL;
}

static ef_status add(ef_engine *e, ef_str name, ef_error *err)
{
    ef__publishing *p = calloc(1, sizeof *p), **at = &e->publishers;
    size_t count = 0;

    for (; *at && strcmp((*at)->name, name.ptr) < 0; at = &(*at)->next)
        ;
    for (const ef__publishing *q = e->publishers; q; q = q->next)
        count++;
    if (!p || count >= PUBLISHERS_MAX) {
        free(p);
        return p ? ef_fail(err, EF_TOO_LARGE, "there are more than %d publishers", PUBLISHERS_MAX)
                 : ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
    }
    p->engine = e;
    (void)snprintf(p->name, sizeof p->name, "%.*s", EF_STR_ARG(name));
    (void)snprintf(p->is.name, sizeof p->is.name, "%s", p->name);
    p->arena = (ef__arena)EF__ARENA_INIT(DEFINITION_BYTES);
    p->crew.engine = e;
    p->crew.lane = ef_str_from(p->name);
    pthread_mutex_init(&p->stepping, NULL);
    pthread_mutex_lock(&e->lock); /* others look at the list under this one */
    p->next = *at;
    *at = p;
    pthread_mutex_unlock(&e->lock);
    return EF_OK;
}

static void let_go(ef__publishing *p, bool abandon)
{
    ef__bus_close(p->bus);
    if (!abandon)
        ef__crew_leave(&p->crew);
    ef__crew_release(&p->crew);
    ef__arena_release(&p->arena);
    pthread_mutex_destroy(&p->stepping);
    free(p);
}

static bool is_gone(ef_engine *e, const ef__publishing *p)
{
    pthread_mutex_lock(&e->lock);
    bool gone = p->gone;
    pthread_mutex_unlock(&e->lock);
    return gone;
}

/* Those that are no longer in the journal. */
static void drop_gone(ef_engine *e)
{
    for (ef__publishing **at = &e->publishers; *at;) {
        ef__publishing *p = *at;
        if (!is_gone(e, p)) {
            at = &p->next;
            continue;
        }
        if (p->threaded)
            (void)pthread_join(p->thread, NULL);
        pthread_mutex_lock(&e->lock);
        *at = p->next;
        pthread_mutex_unlock(&e->lock);
        let_go(p, false);
    }
}

ef_status ef__publish_refresh(ef_engine *e, ef_error *err)
{
    ef_lane_list lanes = {0};
    ef_status st = ef_lane_ls(e->journal, &lanes, err);

    drop_gone(e);
    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef__lane_is_publisher(&lanes.items[i]) && !find(e, lanes.items[i].name))
            st = add(e, lanes.items[i].name, err);
    ef_lane_list_release(&lanes);
    return st;
}

void ef__publish_tell(ef_engine *e, ef_tick *tick)
{
    pthread_mutex_lock(&e->lock);
    for (ef__publishing *p = e->publishers; p; p = p->next) {
        tick->published += p->is.published - p->told_published;
        tick->failed += p->is.failed - p->told_failed;
        tick->dead += p->is.dead - p->told_dead;
        p->told_published = p->is.published;
        p->told_failed = p->is.failed;
        p->told_dead = p->is.dead;
    }
    pthread_mutex_unlock(&e->lock);
}

size_t ef_engine_publishers(ef_engine *e, ef_publisher_health *out, size_t max)
{
    int64_t now_us = e->options.clock->mono_us(e->options.clock->context);
    size_t count = 0;

    pthread_mutex_lock(&e->lock);
    for (const ef__publishing *p = e->publishers; p; p = p->next, count++) {
        if (count >= max)
            continue;
        out[count] = p->is;
        out[count].stalled_us = p->step_us ? now_us - p->step_us : 0;
    }
    pthread_mutex_unlock(&e->lock);
    return count;
}

/* --- one after the other ---------------------------------------------------------------------- */

ef_status ef__publish_work(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                           ef_error *err)
{
    ef_status st;

    if (e->ghost)
        return EF_OK;
    pthread_mutex_lock(&e->publishing);
    st = ef__publish_refresh(e, err);
    for (ef__publishing *p = e->publishers; st == EF_OK && p; p = p->next)
        if (!p->threaded)
            st = ef__publish_step(p, options, tick, err);
    pthread_mutex_unlock(&e->publishing);
    ef__publish_tell(e, tick);
    return st;
}

/* --- a thread each ---------------------------------------------------------------------------- */

static int64_t mono_us(const ef__publishing *p)
{
    return p->engine->options.clock->mono_us(p->engine->options.clock->context);
}

static void doze(const ef__publishing *p, int64_t ms)
{
    int64_t until_us = mono_us(p) + ms * 1000;

    while (!atomic_load(&p->stop) && mono_us(p) < until_us) {
        int64_t left_ms = (until_us - mono_us(p)) / 1000 + 1;
        struct timespec slice = {.tv_nsec = (left_ms < SLICE_MS ? left_ms : SLICE_MS) * 1000000};
        (void)nanosleep(&slice, NULL);
    }
}

static int64_t rest_ms(const ef__publishing *p, const ef_tick *tick)
{
    int64_t ms = REST_MS;
    int64_t due_ms = tick->due_us ? (tick->due_us - ef__engine_now(p->engine)) / 1000 + 1 : REST_MS;
    int64_t beat_ms =
        p->crew.next_beat_us ? (p->crew.next_beat_us - mono_us(p)) / 1000 + 1 : REST_MS;

    ms = due_ms < ms ? due_ms : ms;
    ms = beat_ms < ms ? beat_ms : ms;
    return ms < 1 ? 1 : ms;
}

/* Until the journal is past `position`, or the time is over. A publisher whose sink is not at hand
 * does not look at the journal: what comes meanwhile would only wake it for nothing. */
static void rest(const ef__publishing *p, int64_t position, int64_t ms)
{
    int64_t until_us = mono_us(p) + ms * 1000, left_ms = ms;
    ef_error ignored = EF_ERROR_INIT;
    ef_status st = EF_TIMEOUT;

    if (mono_us(p) < p->next_try_us) {
        doze(p, ms);
        return;
    }
    while (st == EF_TIMEOUT && left_ms > 0 && !atomic_load(&p->stop)) {
        st = ef_journal_wait(p->engine->journal, position, left_ms < SLICE_MS ? left_ms : SLICE_MS,
                             &ignored);
        left_ms = (until_us - mono_us(p)) / 1000;
    }
    if (st != EF_OK && st != EF_TIMEOUT)
        doze(p, left_ms < REST_MS ? left_ms : REST_MS);
}

/* The journal is not at hand. */
static void note_failure(ef__publishing *p, const ef_error *err, int64_t failures)
{
    ef__retry_step step =
        ef__retry_decide(&ef__retry_store, failures, EF__ERROR_TRANSIENT, (uint64_t)mono_us(p));

    pthread_mutex_lock(&p->engine->lock);
    p->is.last_error = *err;
    p->is.state = EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&p->engine->lock);
    ef__log(p->engine->options.log, EF_LOG_WARN, "a publisher's step failed; it is tried again",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(p->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(err->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    doze(p, step.delay_ms);
}

/* A supervisor changes them while publishers work. */
static ef_work_options options_of(ef_engine *e)
{
    ef_work_options options;

    pthread_mutex_lock(&e->lock);
    options = e->publish_options;
    pthread_mutex_unlock(&e->lock);
    return options;
}

static void *keep_publisher(void *argument)
{
    ef__publishing *p = argument;
    int64_t failures = 0;

    while (!atomic_load(&p->stop) && !is_gone(p->engine, p)) {
        ef_error err = EF_ERROR_INIT;
        ef_head head = {0};
        ef_tick tick = {0};
        ef_work_options options = options_of(p->engine);
        int64_t began_us = mono_us(p);
        ef_status st = ef_journal_head(p->engine->journal, &head, &err);

        if (st == EF_OK)
            st = ef__publish_step(p, &options, &tick, &err);
        tick.duration_us = mono_us(p) - began_us;
        ef__count_tick(p->engine, p->name, &tick, st);
        if (st != EF_OK) {
            note_failure(p, &err, failures++);
            continue;
        }
        failures = 0;
        if (!tick.more)
            rest(p, head.position, rest_ms(p, &tick));
    }
    return NULL;
}

static ef_status start(ef__publishing *p, ef_error *err)
{
    atomic_store(&p->stop, false);
    if (pthread_create(&p->thread, NULL, keep_publisher, p) != 0)
        return ef_fail(err, EF_NO_MEMORY, "a thread for publisher \"%s\" could not be started",
                       p->name);
    p->threaded = true;
    return EF_OK;
}

ef_status ef__publish_keep(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                           ef_error *err)
{
    ef_status st;

    if (e->ghost)
        return EF_OK;
    pthread_mutex_lock(&e->publishing);
    pthread_mutex_lock(&e->lock);
    e->publish_options = *options;
    pthread_mutex_unlock(&e->lock);
    st = ef__publish_refresh(e, err);
    for (ef__publishing *p = e->publishers; st == EF_OK && p; p = p->next)
        if (!p->threaded)
            st = start(p, err);
    pthread_mutex_unlock(&e->publishing);
    ef__publish_tell(e, tick);
    return st;
}

void ef__publish_stop(ef_engine *e)
{
    pthread_mutex_lock(&e->publishing);
    for (ef__publishing *p = e->publishers; p; p = p->next)
        atomic_store(&p->stop, true);
    for (ef__publishing *p = e->publishers; p; p = p->next) {
        if (p->threaded)
            (void)pthread_join(p->thread, NULL);
        p->threaded = false;
        atomic_store(&p->stop, false);
    }
    pthread_mutex_unlock(&e->publishing);
}

void ef__publish_close(ef_engine *e, bool abandon)
{
    ef__publish_stop(e);
    while (e->publishers) {
        ef__publishing *p = e->publishers;
        e->publishers = p->next;
        let_go(p, abandon);
    }
}
