/*
 * test_batcher.c - group commit: order, limits, the lead, exclusive sections, many threads.
 */
#include "test.h"

#include "../../src/base/batcher.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define JOBS_MAX 64

typedef struct numbered_job {
    ef__batch_job base;
    int number;
} numbered_job;

/* What was run: numbers in order, and the size of each batch. */
typedef struct record {
    int numbers[JOBS_MAX];
    size_t count;
    size_t batches[JOBS_MAX];
    size_t batch_count, after_count;
    pthread_t runner;
    atomic_int running; /* threads in run or in an exclusive section */
    int sum;            /* plain on purpose: only the leader may write it */
} record;

static void run_batch(void *context, ef__batch_job *jobs)
{
    record *r = context;
    size_t size = 0;

    CHECK_INT(0, atomic_fetch_add(&r->running, 1));
    r->runner = pthread_self();
    for (; jobs; jobs = jobs->next, size++) {
        int number = ((numbered_job *)jobs)->number;
        r->sum += number;
        if (r->count < JOBS_MAX)
            r->numbers[r->count++] = number;
    }
    if (r->batch_count < JOBS_MAX)
        r->batches[r->batch_count++] = size;
    atomic_fetch_sub(&r->running, 1);
}

static void count_batch(void *context)
{
    ((record *)context)->after_count++;
}

static ef__batcher open_batcher(record *r, size_t weight_max, int batches_max)
{
    return (ef__batcher){.run = run_batch,
                         .after = count_batch,
                         .context = r,
                         .weight_max = weight_max,
                         .batches_max = batches_max};
}

TEST(a_single_caller_runs_its_job_in_its_own_thread)
{
    record r = {0};
    ef__batcher batcher = open_batcher(&r, 10, 1);
    numbered_job job = {.base.weight = 1, .number = 7};

    ef__batcher_init(&batcher);
    for (int i = 0; i < 3; i++)
        ef__batcher_submit(&batcher, &job.base);
    CHECK_INT(3, r.batch_count);
    CHECK_INT(3, r.after_count);
    CHECK_INT(21, r.sum);
    CHECK(pthread_equal(r.runner, pthread_self()));
    ef__batcher_release(&batcher);
}

static void submit_siblings(ef__batcher *batcher, numbered_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        jobs[i].number = (int)i;
        jobs[i].base.sibling = i + 1 < count ? &jobs[i + 1].base : NULL;
    }
    ef__batcher_submit(batcher, &jobs[0].base);
}

TEST(jobs_run_in_order_in_batches_up_to_the_limit)
{
    record r = {0};
    ef__batcher batcher = open_batcher(&r, 10, 16);
    numbered_job jobs[6] = {{.base.weight = 4},  {.base.weight = 6}, {.base.weight = 1},
                            {.base.weight = 50}, {.base.weight = 9}, {.base.weight = 1}};

    ef__batcher_init(&batcher);
    submit_siblings(&batcher, jobs, 6);
    CHECK_INT(6, r.count);
    for (int i = 0; i < 6; i++)
        CHECK_INT(i, r.numbers[i]);
    CHECK_INT(4, r.batch_count); /* 4 + 6, 1, 50 alone although it exceeds the limit, 9 + 1 */
    CHECK_INT(2, r.batches[0]);
    CHECK_INT(1, r.batches[1]);
    CHECK_INT(1, r.batches[2]);
    CHECK_INT(2, r.batches[3]);
    ef__batcher_release(&batcher);
}

TEST(a_job_that_is_alone_shares_no_batch)
{
    record r = {0};
    ef__batcher batcher = open_batcher(&r, 10, 16);
    numbered_job jobs[4] = {{.base.weight = 1},
                            {.base = {.weight = 1, .is_alone = true}},
                            {.base.weight = 1},
                            {.base.weight = 1}};

    ef__batcher_init(&batcher);
    submit_siblings(&batcher, jobs, 4);
    CHECK_INT(3, r.batch_count);
    CHECK_INT(1, r.batches[0]);
    CHECK_INT(1, r.batches[1]);
    CHECK_INT(2, r.batches[2]);
    ef__batcher_release(&batcher);
}

/* --- threads ---------------------------------------------------------------------------------- */

#define THREADS 8
#define ROUNDS 400

typedef struct submitter {
    ef__batcher *batcher;
    record *r;
    bool with_sibling;
} submitter;

static void *submit_jobs(void *argument)
{
    const submitter *s = argument;

    for (int i = 0; i < ROUNDS; i++) {
        numbered_job *job = malloc(2 * sizeof *job); /* freed at once: a late access is found */
        job[0] = (numbered_job){.base.weight = 1, .number = 1};
        job[1] = (numbered_job){.base.weight = 1, .number = 1};
        job[0].base.sibling = s->with_sibling ? &job[1].base : NULL;
        ef__batcher_submit(s->batcher, &job[0].base);
        free(job);
    }
    return NULL;
}

static void *enter_sections(void *argument)
{
    const submitter *s = argument;

    for (int i = 0; i < ROUNDS / 8; i++) {
        ef__batcher_exclusive_begin(s->batcher);
        CHECK_INT(0, atomic_fetch_add(&s->r->running, 1));
        s->r->sum++;
        atomic_fetch_sub(&s->r->running, 1);
        ef__batcher_exclusive_end(s->batcher);
        (void)nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return NULL;
}

static void run_threads(int batches_max)
{
    record r = {0};
    ef__batcher batcher = open_batcher(&r, 4, batches_max);
    submitter of[THREADS + 2];
    pthread_t threads[THREADS + 2];

    ef__batcher_init(&batcher);
    for (int i = 0; i < THREADS + 2; i++) {
        of[i] = (submitter){&batcher, &r, i % 2 == 1};
        CHECK_INT(0, pthread_create(&threads[i], NULL, i < THREADS ? submit_jobs : enter_sections,
                                    &of[i]));
    }
    for (int i = 0; i < THREADS + 2; i++)
        CHECK_INT(0, pthread_join(threads[i], NULL));
    CHECK_INT(THREADS * ROUNDS + THREADS / 2 * ROUNDS + 2 * (ROUNDS / 8), r.sum);
    ef__batcher_release(&batcher);
}

TEST(every_job_of_many_threads_runs_once_and_one_batch_at_a_time)
{
    run_threads(1);
    run_threads(16);
}

TEST_MAIN(TEST_CASE(a_single_caller_runs_its_job_in_its_own_thread),
          TEST_CASE(jobs_run_in_order_in_batches_up_to_the_limit),
          TEST_CASE(a_job_that_is_alone_shares_no_batch),
          TEST_CASE(every_job_of_many_threads_runs_once_and_one_batch_at_a_time))
