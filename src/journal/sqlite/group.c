/*
 * group.c - many threads, one commit.
 *
 * A caller puts its job in the queue. When nobody leads, it leads: it takes all that is queued into
 * one transaction, in its own thread, so a lone caller never waits for another thread. Jobs that
 * come meanwhile gather behind it; it takes them too, for a few groups, and then hands the lead to
 * the first of those who wait.
 *
 *     waiting ─► done            served by somebody else's commit
 *        ├─────► leading ─► done
 *        └─────► slept on ─► …   the same, and its caller has to be woken
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

/* Once it is set the job may be gone: the address is all that the kernel looks at then. */
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

/* Take jobs from the front until they are heavy enough for one commit. */
static sq_job *take_jobs(sq_store *store)
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

/* What earlier jobs have planned; one that looks at events finds them in the database. */
static ef_status write_planned(sq_store *store, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&store->state_lock);
    st = sq_writer_flush(&store->writer, err);
    pthread_mutex_unlock(&store->state_lock);
    return st;
}

/* Run a job so that its failure leaves the others' writes alone. *out_fatal: the store itself
 * failed and the transaction is lost. */
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
            (void)ef__sq_run(conn, SQ_SAVEPOINT_UNDO, NULL);
        (void)ef__sq_run(conn, SQ_SAVEPOINT_KEEP, NULL);
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

/* Whether the next commit is on the disk when it returns. What was not synced is so with the next
 * one that is. */
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

/* Begin, with the slice of background work that this group pays for. */
static ef_status begin(sq_store *store, size_t events, bool synced, ef_error *err)
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

static void rollback(sq_store *store)
{
    pthread_mutex_lock(&store->state_lock);
    sq_writer_rollback(&store->writer);
    pthread_mutex_unlock(&store->state_lock);
}

static ef_status commit(sq_store *store, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&store->state_lock);
    st = sq_writer_finish(&store->writer, err);
    pthread_mutex_unlock(&store->state_lock);
    if (st == EF_OK)
        st = sq_writer_commit(&store->writer, err);
    if (st != EF_OK) {
        store->broken = st == EF_UNSURE;
        rollback(store);
        return st;
    }
    sq_writer_note_head(&store->writer, store->base.options.log);
    atomic_fetch_add(&store->appended, (int64_t)store->writer.txn.count);
    atomic_fetch_add(&store->commits, 1);
    pthread_mutex_lock(&store->state_lock);
    /* The events are durable whatever happens to our picture of them. */
    if (sq_writer_believe(&store->writer, NULL) != EF_OK)
        sq_state_forget(&store->state);
    pthread_mutex_unlock(&store->state_lock);
    return EF_OK;
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
        synced = synced || !job->may_be_lost;
    }
    st = store->broken ? sq_store_reopen(store, &err) : EF_OK;
    if (st == EF_OK)
        st = begin(store, events, synced, &err);
    if (st != EF_OK) {
        fail_jobs(jobs, st, &err);
        return;
    }
    for (sq_job *job = jobs; job && !fatal; job = job->next) {
        run_job(store, job, &fatal);
        bad = fatal ? job : NULL;
    }
    if (bad) {
        rollback(store);
        err = bad->err ? *bad->err : (ef_error)EF_ERROR_INIT;
        fail_jobs(jobs, bad->status != EF_OK ? bad->status : EF_IO, &err);
        return;
    }
    st = commit(store, &err);
    if (st != EF_OK)
        fail_jobs(jobs, st, &err);
}

/* --- leading ------------------------------------------------------------------------------------
 */

/* May the leader go on? It serves others for a few groups more while its own caller waits, for
 * handing on costs a thread's wake-up during which nobody commits. */
static bool go_on_leading(sq_store *store, int groups_left)
{
    bool more;

    pthread_mutex_lock(&store->queue_lock);
    more = groups_left > 0 && store->queue_head && !store->exclusive_wanted;
    pthread_mutex_unlock(&store->queue_lock);
    return more;
}

/* Hand the lead on, or leave it free. */
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

static void tell_done(sq_job *jobs)
{
    for (sq_job *next; jobs; jobs = next) {
        next = jobs->next; /* once it is done the job is its owner's again */
        set_phase(jobs, PHASE_DONE);
    }
}

static void lead(sq_store *store, int groups)
{
    do {
        sq_job *jobs = take_jobs(store);
        run_group(store, jobs);
        tell_done(jobs);
        ef__sq_checkpointer_look(&store->checkpointer, store->log_pages);
    } while (go_on_leading(store, --groups));
    pass_lead(store);
}

/* Put them at the end of the queue, together; true: the caller leads. */
static bool enqueue(sq_store *store, sq_job *first)
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
    /* Who brings many has many to answer, and does not keep them waiting for others. */
    int groups = first->sibling ? 1 : GROUPS_A_LEADER;

    if (getpid() != store->pid) {
        for (sq_job *job = first; job; job = job->sibling)
            job->status =
                ef_fail(job->err, EF_MISUSE, "a journal may not be used in a child after fork()");
        return;
    }
    if (enqueue(store, first))
        lead(store, groups);
    for (sq_job *job = first; job; job = job->sibling)
        if (await_phase(job) == PHASE_LEADING)
            lead(store, groups);
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
