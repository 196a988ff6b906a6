/*
 * batcher.c - see batcher.h.
 *
 * A waiting caller sleeps on the phase of its own job, not on a condition that all share, so that a
 * batch wakes exactly its callers.
 */
#include "batcher.h"

#include "deadline.h"

#include <assert.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PHASE_WAITING, PHASE_SLEPT_ON, PHASE_LEADING, PHASE_DONE };

/* After the store the job may be freed: the wake uses its address only. */
static void set_phase(ef__batch_job *job, int phase)
{
    if (atomic_exchange_explicit(&job->phase, phase, memory_order_acq_rel) == PHASE_SLEPT_ON)
        (void)syscall(SYS_futex, &job->phase, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int await_phase(ef__batch_job *job)
{
    int phase = PHASE_WAITING;

    (void)atomic_compare_exchange_strong(&job->phase, &phase, PHASE_SLEPT_ON);
    while ((phase = atomic_load_explicit(&job->phase, memory_order_acquire)) == PHASE_SLEPT_ON)
        (void)syscall(SYS_futex, &job->phase, FUTEX_WAIT_PRIVATE, PHASE_SLEPT_ON, NULL, NULL, 0);
    return phase;
}

/* Adds jobs to the queue, together; true: the caller leads. */
static bool enqueue_jobs(ef__batcher *batcher, ef__batch_job *first)
{
    bool leads;

    EF__LOCK(&batcher->lock);
    for (ef__batch_job *job = first; job; job = job->sibling) {
        job->next = NULL;
        atomic_store_explicit(&job->phase, PHASE_WAITING, memory_order_relaxed);
        if (batcher->tail)
            batcher->tail->next = job;
        else
            batcher->head = job;
        batcher->tail = job;
    }
    leads = !batcher->is_led && !batcher->exclusive_wanted;
    batcher->is_led = batcher->is_led || leads;
    return leads;
}

/* Removes jobs from the front, up to the limit of a batch. */
static ef__batch_job *dequeue_batch(ef__batcher *batcher)
{
    ef__batch_job *first, *last;
    size_t weight;

    EF__LOCK(&batcher->lock);
    assert(batcher->is_led && batcher->head);
    first = last = batcher->head;
    weight = first->weight;
    while (last->next && !last->is_alone && !last->next->is_alone &&
           weight + last->next->weight <= batcher->weight_max) {
        last = last->next;
        weight += last->weight;
    }
    batcher->head = last->next;
    if (!batcher->head)
        batcher->tail = NULL;
    last->next = NULL;
    return first;
}

static bool may_lead_again(ef__batcher *batcher, int batches_left)
{
    EF__LOCK(&batcher->lock);
    return batches_left > 0 && batcher->head && !batcher->exclusive_wanted;
}

/* Passes the lead to a waiting caller, if any. */
static void pass_lead(ef__batcher *batcher)
{
    ef__batch_job *next;

    pthread_mutex_lock(&batcher->lock);
    next = batcher->exclusive_wanted ? NULL : batcher->head;
    if (!next) {
        batcher->is_led = false;
        pthread_cond_broadcast(&batcher->turn);
    }
    pthread_mutex_unlock(&batcher->lock);
    if (next)
        set_phase(next, PHASE_LEADING);
}

static void lead_batches(ef__batcher *batcher, int batches)
{
    do {
        ef__batch_job *jobs = dequeue_batch(batcher), *next;
        batcher->run(batcher->context, jobs);
        for (; jobs; jobs = next) {
            next = jobs->next;
            set_phase(jobs, PHASE_DONE);
        }
        if (batcher->after)
            batcher->after(batcher->context);
    } while (may_lead_again(batcher, --batches));
    pass_lead(batcher);
}

void ef__batcher_submit(ef__batcher *batcher, ef__batch_job *first)
{
    int batches = first->sibling ? 1 : batcher->batches_max;

    if (enqueue_jobs(batcher, first))
        lead_batches(batcher, batches);
    for (ef__batch_job *job = first; job; job = job->sibling)
        if (await_phase(job) == PHASE_LEADING)
            lead_batches(batcher, batches);
}

void ef__batcher_exclusive_begin(ef__batcher *batcher)
{
    EF__LOCK(&batcher->lock);
    batcher->exclusive_wanted++;
    while (batcher->is_led)
        pthread_cond_wait(&batcher->turn, &batcher->lock);
    batcher->is_led = true;
    batcher->exclusive_wanted--;
}

void ef__batcher_exclusive_end(ef__batcher *batcher)
{
    assert(batcher->is_led);
    pass_lead(batcher);
}

void ef__batcher_init(ef__batcher *batcher)
{
    assert(batcher->run && batcher->batches_max > 0);
    pthread_mutex_init(&batcher->lock, NULL);
    pthread_cond_init(&batcher->turn, NULL);
}

void ef__batcher_release(ef__batcher *batcher)
{
    pthread_cond_destroy(&batcher->turn);
    pthread_mutex_destroy(&batcher->lock);
}
