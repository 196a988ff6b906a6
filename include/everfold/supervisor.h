/*
 * supervisor.h - threads that keep an engine at work, and how they are doing.
 *
 * A supervisor has posts: one for the queue, some for the cursors, one for runs, and one that keeps
 * a thread for each publisher. Each does a step, again at once while there is more, and otherwise
 * rests until the journal grows, somebody acts, or something comes due; the interval is only the
 * safety net. After ten seconds without work the worker is idle: it releases its leases and writes
 * its heartbeat once a minute (see worker.h), until there is work. A post that fails goes on
 * failing aloud: it backs off, tries again, and is shown.
 *
 *     starting ─► working ◄─► idle
 *                   └─► retrying ─► working          any ─► stopping
 *
 * Health is progress: a post is well when it has got on, or found nothing to do, lately.
 */
#ifndef EVERFOLD_SUPERVISOR_H
#define EVERFOLD_SUPERVISOR_H

#include <everfold/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_supervisor ef_supervisor;

typedef struct ef_supervisor_options {
    ef_engine *engine; /* borrowed for as long as the supervisor runs */
    ef_work_options work;
    int64_t interval_ms;      /* look at least so often; default 2,000 */
    int32_t cursor_threads;   /* default 1 */
    struct ef_shadow *shadow; /* shadow_only: kept going instead of the queue; borrowed */
    /* After each step that did something or failed, from the thread that did it, one at a time:
     * `error` is NULL unless it failed. */
    void (*on_step)(void *context, const char *post, const ef_tick *tick, const ef_error *error);
    void *context;
} ef_supervisor_options;

typedef enum ef_post_state {
    EF_POST_STARTING,
    EF_POST_WORKING,
    EF_POST_IDLE,
    EF_POST_RETRYING,
    EF_POST_STOPPING
} ef_post_state;

const char *ef_post_state_name(ef_post_state state); /* "working" */

typedef struct ef_post {
    char name[16]; /* "queue" or "shadow", "cursor-1", "runs", "publish" */
    ef_post_state state;
    int64_t steps;
    int64_t failures_in_a_row;
    int64_t stalled_us;  /* since it last got on or found nothing to do; 0 while it is well */
    ef_error last_error; /* status EF_OK: none so far */
} ef_post;

ef_status ef_supervisor_start(const ef_supervisor_options *options, ef_supervisor **out,
                              ef_error *err);

/* How the posts are doing: up to `max` of them, how many in all. */
size_t ef_supervisor_posts(ef_supervisor *supervisor, ef_post *out, size_t max);

/* There is something to do that no append tells of: look at once instead of at the interval. What
 * the library itself does (a deploy, a run, a requeue, in whatever process) needs no such call.
 * NULL is fine. */
void ef_supervisor_wake(ef_supervisor *supervisor);

/* Begin nothing new, finish what is in hand, end the threads. NULL is fine. */
void ef_supervisor_stop(ef_supervisor *supervisor);

#ifdef __cplusplus
}
#endif
#endif
