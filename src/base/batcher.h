/*
 * batcher.h - group commit: the jobs of several threads in one batch, run by one of the callers.
 *
 * A caller adds its job to the queue. If no thread leads, it becomes the leader: it runs the queued
 * jobs as one batch, in its own thread, so that a single caller never waits for another thread.
 * Jobs that arrive meanwhile are queued; the leader may run a few more batches, and then passes the
 * lead to the first waiting caller, which alone is woken.
 *
 *     waiting ─► done            run by another thread
 *        ├─────► leading ─► done
 *        └─────► slept on ─► …   the same, after its caller was woken
 *
 * Invariants: at most one thread leads, or is in an exclusive section; jobs run in the order in
 * which they were submitted, each exactly once.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* The first member of a caller's job. It may be freed as soon as the job is done. */
typedef struct ef__batch_job {
    struct ef__batch_job *next;    /* in the queue, then in the batch */
    struct ef__batch_job *sibling; /* the next job of the same caller */
    size_t weight;                 /* for the limit of a batch */
    bool is_alone;                 /* shares its batch with no other */
    _Atomic int phase;             /* private */
} ef__batch_job;

typedef struct ef__batcher {
    /* Runs the jobs of a batch, linked by `next`; one thread at a time. */
    void (*run)(void *context, ef__batch_job *jobs);
    /* In the leader's thread, after the callers of a batch were woken. NULL: nothing. */
    void (*after)(void *context);
    void *context;
    size_t weight_max; /* of a batch with several jobs */
    int batches_max;   /* that a leader runs, although its own job is done: passing the lead costs a
                        * wake-up during which nothing runs. A caller with siblings runs one. */

    pthread_mutex_t lock; /* guards the rest; held for a few instructions */
    pthread_cond_t turn;  /* no thread leads any more */
    ef__batch_job *head, *tail;
    bool is_led;
    int exclusive_wanted;
} ef__batcher;

/* The settings were set by the caller. */
void ef__batcher_init(ef__batcher *batcher);
void ef__batcher_release(ef__batcher *batcher);

/* Runs the jobs, linked by `sibling`, in this order; returns when all of them are done. */
void ef__batcher_submit(ef__batcher *batcher, ef__batch_job *first);
/* Until the end of the section no batch runs; it begins after the current one. */
void ef__batcher_exclusive_begin(ef__batcher *batcher);
void ef__batcher_exclusive_end(ef__batcher *batcher);
