/*
 * group.c - group commit: jobs of several threads in one transaction.
 *
 * A caller adds its job to the queue. If no thread leads, it becomes the leader: it runs all queued
 * jobs in one transaction, in its own thread, so that a single caller never waits for another
 * thread. Jobs that arrive meanwhile are queued; the leader runs them too, for a few groups, and
 * then passes the lead to the first waiting caller.
 *
 *     waiting ─► done            run by another thread
 *        ├─────► leading ─► done
 *        └─────► slept on ─► …   the same, after its caller was woken
 */
#include "settle.h"
#include "store.h"
#include "writer.h"

#include "../../base/limits.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GROUPS_A_LEADER 16

enum { PHASE_WAITING, PHASE_SLEPT_ON, PHASE_LEADING, PHASE_DONE };

/* After the store the job may be freed: the wake uses its address only. */
static void set_phase(sq_job *job, int phase)
{
    if (atomic_exchange_explicit(&job->phase, phase, memory_order_acq_rel) == PHASE_SLEPT_ON)
        (void)syscall(SYS_futex, &job->phase, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int await_phase(sq_job *job)
{
    int phase = PHASE_WAITING;

    (void)atomic_compare_exchange_strong(&job->phase, &phase, PHASE_SLEPT_ON);
    while ((phase = atomic_load_explicit(&job->phase, memory_order_acquire)) == PHASE_SLEPT_ON)
        (void)syscall(SYS_futex, &job->phase, FUTEX_WAIT_PRIVATE, PHASE_SLEPT_ON, NULL, NULL, 0);
    return phase;
}

/* --- the queue ----------------------------------------------------------------------------------
 */

/* Removes jobs from the front, up to the limit of a group. */
static sq_job *dequeue_jobs(sq_store *store)
{
    sq_job *first, *last;
    size_t weight;

    pthread_mutex_lock(&store->queue_lock);
    first = last = store->queue_head;
    weight = first->weight;
    while (last->next && weight + last->next->weight <= EF_LIMIT_GROUP_EVENTS) {
        last = last->next;
        weight += last->weight;
    }
    store->queue_head = last->next;
    if (!store->queue_head)
        store->queue_tail = NULL;
    last->next = NULL;
    pthread_mutex_unlock(&store->queue_lock);
    return first;
}

/* --- one group ----------------------------------------------------------------------------------
 */

/* Writes the events that earlier jobs have planned, for a job that reads events. */
static ef_status write_planned(sq_store *store, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&store->state_lock);
    st = sq_writer_flush(&store->writer, err);
    pthread_mutex_unlock(&store->state_lock);
    return st;
}

/* Runs a job, in a savepoint if it may fail after a write. *out_fatal: the store failed, and the
 * transaction is lost. */
static void run_job(sq_store *store, sq_job *job, bool *out_fatal)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_error scratch = EF_ERROR_INIT;
    ef_error *err = job->err ? job->err : &scratch;

    job->status = job->plans_first ? EF_OK : write_planned(store, err);
    if (job->status == EF_OK && !job->plans_first)
        job->status = ef__sq_run(conn, SQ_SAVEPOINT, err);
    if (job->status == EF_OK)
        job->status = job->run(store, job, err);
    if (!job->plans_first && sqlite3_get_autocommit(conn->db) == 0) {
        if (job->status != EF_OK)
            (void)ef__sq_run(conn, SQ_SAVEPOINT_ROLLBACK, NULL);
        (void)ef__sq_run(conn, SQ_SAVEPOINT_RELEASE, NULL);
    }
    *out_fatal = job->status == EF_FULL || job->status == EF_IO || job->status == EF_NO_MEMORY ||
                 job->status == EF_DAMAGED || sqlite3_get_autocommit(conn->db) != 0;
}

static void fail_jobs(sq_job *jobs, ef_status status, const ef_error *err)
{
    for (sq_job *job = jobs; job; job = job->next) {
        if (job->status != EF_OK)
            continue;
        job->status = status;
        if (job->err)
            *job->err = *err;
    }
}

/* Whether the next commit is synced when it returns. A synced commit includes all earlier ones. */
static ef_status choose_sync(sq_store *store, bool synced, ef_error *err)
{
    if (store->unsynced == !synced)
        return EF_OK;
    if (sqlite3_exec(store->writer.conn.db,
                     synced ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", NULL, NULL,
                     NULL) != SQLITE_OK)
        return ef_fail(err, EF_IO, "choosing how to sync: %s",
                       sqlite3_errmsg(store->writer.conn.db));
    store->unsynced = !synced;
    return EF_OK;
}

/* Begins the transaction, with a slice of deferred index work. */
static ef_status begin_group(sq_store *store, size_t events, bool synced, ef_error *err)
{
    ef_status st = choose_sync(store, synced, err);

    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->state_lock);
    st = sq_writer_begin(&store->writer, err);
    if (st == EF_OK && events) {
        st = sq_settle_slice(&store->writer, events, err);
        if (st != EF_OK)
            sq_writer_rollback(&store->writer);
    }
    pthread_mutex_unlock(&store->state_lock);
    return st;
}

static void rollback_group(sq_store *store)
{
    pthread_mutex_lock(&store->state_lock);
    sq_writer_rollback(&store->writer);
    pthread_mutex_unlock(&store->state_lock);
}

static ef_status commit_group(sq_store *store, const sq_job *jobs, ef_error *err)
{
    bool keeps_state = true;
    ef_status st;

    for (const sq_job *job = jobs; job; job = job->next)
        keeps_state = keeps_state && job->keeps_state;
    pthread_mutex_lock(&store->state_lock);
    st = sq_writer_finish(&store->writer, err);
    pthread_mutex_unlock(&store->state_lock);
    if (st == EF_OK)
        st = sq_writer_commit(&store->writer, err);
    if (st != EF_OK) {
        store->broken = st == EF_UNSURE;
        rollback_group(store);
        return st;
    }
    sq_writer_note_head(&store->writer, store->base.options.log);
    atomic_fetch_add(&store->appended, (int64_t)store->writer.txn.count);
    atomic_fetch_add(&store->commits, 1);
    pthread_mutex_lock(&store->state_lock);
    /* The events are durable, whatever happens to the cached state. */
    if (sq_writer_publish(&store->writer, keeps_state, NULL) != EF_OK)
        sq_state_forget(&store->state);
    pthread_mutex_unlock(&store->state_lock);
    return EF_OK;
}

/* Refuses the appends of a group if damage is recorded. Read once per group, and in its
 * transaction, because a read per append costs 3 % of the rate of 64 threads. */
static void refuse_damaged(sq_store *store, sq_job *jobs)
{
    sq_damage found;

    sq_headfile_damage(&store->writer.head, &found);
    if (found.damage.found_us == 0)
        return;
    for (sq_job *job = jobs; job; job = job->next)
        if (job->plans_first)
            job->status = ef__damage_fail(store->base.shown, &found.damage, job->err);
}

static void run_group(sq_store *store, sq_job *jobs)
{
    ef_error err = EF_ERROR_INIT;
    size_t events = 0;
    bool fatal = false, synced = false;
    sq_job *bad = NULL;
    ef_status st;

    for (sq_job *job = jobs; job; job = job->next) {
        job->status = EF_OK;
        events += job->weight;
        synced = synced || !job->lazy_sync;
    }
    st = store->broken ? sq_store_reopen(store, &err) : EF_OK;
    if (st == EF_OK)
        st = begin_group(store, events, synced, &err);
    if (st != EF_OK) {
        fail_jobs(jobs, st, &err);
        return;
    }
    if (events > 0)
        refuse_damaged(store, jobs);
    for (sq_job *job = jobs; job && !fatal; job = job->next) {
        if (job->status != EF_OK)
            continue;
        run_job(store, job, &fatal);
        bad = fatal ? job : NULL;
    }
    if (bad) {
        rollback_group(store);
        err = bad->err ? *bad->err : (ef_error)EF_ERROR_INIT;
        fail_jobs(jobs, bad->status != EF_OK ? bad->status : EF_IO, &err);
        return;
    }
    st = commit_group(store, jobs, &err);
    if (st != EF_OK)
        fail_jobs(jobs, st, &err);
}

/* --- leading ------------------------------------------------------------------------------------
 */

/* Whether the leader runs another group. It does so for a few groups although its own job is done,
 * because passing the lead costs a thread wake-up during which nothing is committed. */
static bool may_lead_again(sq_store *store, int groups_left)
{
    bool more;

    pthread_mutex_lock(&store->queue_lock);
    more = groups_left > 0 && store->queue_head && !store->exclusive_wanted;
    pthread_mutex_unlock(&store->queue_lock);
    return more;
}

/* Passes the lead to a waiting caller, if any. */
static void pass_lead(sq_store *store)
{
    sq_job *next;

    pthread_mutex_lock(&store->queue_lock);
    next = store->exclusive_wanted ? NULL : store->queue_head;
    if (!next) {
        store->led = false;
        pthread_cond_broadcast(&store->turn);
    }
    pthread_mutex_unlock(&store->queue_lock);
    if (next)
        set_phase(next, PHASE_LEADING);
}

static void finish_jobs(sq_job *jobs)
{
    for (sq_job *next; jobs; jobs = next) {
        next = jobs->next; /* its thread may free it as soon as it is done */
        set_phase(jobs, PHASE_DONE);
    }
}

static void lead_groups(sq_store *store, int groups)
{
    do {
        sq_job *jobs = dequeue_jobs(store);
        run_group(store, jobs);
        finish_jobs(jobs);
        ef__sq_checkpointer_check(&store->checkpointer, store->wal_pages);
    } while (may_lead_again(store, --groups));
    pass_lead(store);
}

/* Adds jobs to the queue, together; true: the caller leads. */
static bool enqueue_jobs(sq_store *store, sq_job *first)
{
    bool leads = false;

    pthread_mutex_lock(&store->queue_lock);
    for (sq_job *job = first; job; job = job->sibling) {
        job->next = NULL;
        atomic_store_explicit(&job->phase, PHASE_WAITING, memory_order_relaxed);
        if (store->queue_tail)
            store->queue_tail->next = job;
        else
            store->queue_head = job;
        store->queue_tail = job;
    }
    if (!store->led && !store->exclusive_wanted)
        store->led = leads = true;
    pthread_mutex_unlock(&store->queue_lock);
    return leads;
}

void sq_submit_all(sq_store *store, sq_job *first)
{
    /* A caller with many jobs does not lead for others, so that its own results are not delayed. */
    int groups = first->sibling ? 1 : GROUPS_A_LEADER;

    if (getpid() != store->pid) {
        for (sq_job *job = first; job; job = job->sibling)
            job->status =
                ef_fail(job->err, EF_MISUSE, "a journal may not be used in a child after fork()");
        return;
    }
    if (enqueue_jobs(store, first))
        lead_groups(store, groups);
    for (sq_job *job = first; job; job = job->sibling)
        if (await_phase(job) == PHASE_LEADING)
            lead_groups(store, groups);
}

ef_status sq_submit(sq_store *store, sq_job *job, ef_error *err)
{
    job->err = err;
    job->sibling = NULL;
    sq_submit_all(store, job);
    return job->status;
}

void sq_exclusive_begin(sq_store *store)
{
    pthread_mutex_lock(&store->queue_lock);
    store->exclusive_wanted++;
    while (store->led)
        pthread_cond_wait(&store->turn, &store->queue_lock);
    store->led = true;
    store->exclusive_wanted--;
    pthread_mutex_unlock(&store->queue_lock);
}

void sq_exclusive_end(sq_store *store)
{
    pass_lead(store);
}
