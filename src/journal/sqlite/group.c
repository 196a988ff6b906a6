/*
 * group.c - group commit: jobs of several threads in one transaction (base/batcher.h).
 */
#include "store.h"

#include "../../base/deadline.h"
#include "../../base/limits.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUPS_A_LEADER 16

static sq_job *next_job(const sq_job *job)
{
    return (sq_job *)job->queued.next;
}

/* --- one group -------------------------------------------------------------------------------- */

/* Writes the events that earlier jobs have planned, for a job that reads events. */
static ef_status write_planned(sq_store *store, ef_error *err)
{
    EF__LOCK(&store->state_lock);
    return sq_writer_flush(&store->writer, err);
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
        job->status = job->call(store, conn, job->asked, job->out, err);
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
    for (sq_job *job = jobs; job; job = next_job(job)) {
        if (job->status != EF_OK)
            continue;
        job->status = status;
        if (job->err)
            *job->err = *err;
    }
}

/* Begins the transaction, with a slice of index work. A synced commit includes all earlier ones. */
static ef_status begin_group(sq_store *store, size_t events, bool synced, ef_error *err)
{
    ef_status st =
        ef__sq_set_sync(&store->writer.conn, synced ? EF__SQ_SYNC_FULL : EF__SQ_SYNC_NORMAL, err);

    if (st != EF_OK)
        return st;
    EF__LOCK(&store->state_lock);
    st = sq_writer_begin(&store->writer, err);
    if (st == EF_OK && events) {
        st = sq_settle_slice(&store->writer, events, err);
        if (st != EF_OK)
            sq_writer_rollback(&store->writer);
    }
    return st;
}

static void rollback_group(sq_store *store)
{
    EF__LOCK(&store->state_lock);
    sq_writer_rollback(&store->writer);
}

static ef_status commit_group(sq_store *store, const sq_job *jobs, ef_error *err)
{
    bool keeps_state = true;
    ef_status st;

    for (const sq_job *job = jobs; job; job = next_job(job))
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
        sq_state_release(&store->state);
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
    for (sq_job *job = jobs; job; job = next_job(job))
        if (job->plans_first)
            job->status = ef__damage_fail(store->base.shown, &found.damage, job->err);
}

static void run_group(void *context, ef__batch_job *batch)
{
    sq_store *store = context;
    sq_job *jobs = (sq_job *)batch;
    ef_error err = EF_ERROR_INIT;
    size_t events = 0;
    bool fatal = false, synced = false;
    sq_job *bad = NULL;
    ef_status st;

    for (sq_job *job = jobs; job; job = next_job(job)) {
        job->status = EF_OK;
        events += job->queued.weight;
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
    for (sq_job *job = jobs; job && !fatal; job = next_job(job)) {
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

/* --- submitting ------------------------------------------------------------------------------- */

static void check_wal(void *context)
{
    sq_store *store = context;

    ef__sq_checkpointer_check(&store->checkpointer, store->writer.conn.wal_pages);
}

void sq_groups_init(sq_store *store)
{
    store->batcher = (ef__batcher){.run = run_group,
                                   .after = check_wal,
                                   .context = store,
                                   .weight_max = EF_LIMIT_GROUP_EVENTS,
                                   .batches_max = GROUPS_A_LEADER};
    ef__batcher_init(&store->batcher);
}

/* Runs jobs that are linked by `queued.sibling`, in this order: each has its own status and err. */
static void submit_all(sq_store *store, sq_job *first)
{
    if (getpid() == store->pid) {
        ef__batcher_submit(&store->batcher, &first->queued);
        return;
    }
    for (sq_job *job = first; job; job = (sq_job *)job->queued.sibling)
        job->status =
            ef_fail(job->err, EF_MISUSE, "a journal may not be used in a child after fork()");
}

ef_status sq_submit(sq_store *store, sq_job *job, ef_error *err)
{
    job->err = err;
    job->queued.sibling = NULL;
    submit_all(store, job);
    return job->status;
}

ef_status sq_write(ef_journal *journal, sq_call *call, const void *asked, void *out, ef_error *err)
{
    sq_job job = {.call = call, .asked = asked, .out = out};

    return sq_submit(sq_store_of(journal), &job, err);
}

/* --- appends ---------------------------------------------------------------------------------- */

/* `asked` is a checked append. */
static ef_status run_append(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                            ef_error *err)
{
    const ef__append *append = asked;
    ef_status st;

    (void)conn;
    EF__LOCK(&store->state_lock);
    st = sq_writer_append(&store->writer, append->events, append->of->count, sq_now_us(store), out,
                          err);
    return st;
}

static sq_job append_job(const ef__append *append)
{
    return (sq_job){.call = run_append,
                    .asked = append,
                    .out = append->of->out_places,
                    .plans_first = true,
                    .keeps_state = true,
                    .queued.weight = append->of->count,
                    .err = append->of->err};
}

ef_status sq_append(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                    ef_error *err)
{
    ef_append of = {.count = count, .out_places = out};
    sq_job job = append_job(&(ef__append){.events = events, .of = &of});

    return sq_submit(sq_store_of(journal), &job, err);
}

void sq_append_each(ef_journal *journal, const ef__append *appends, size_t count)
{
    sq_job *jobs = calloc(count, sizeof *jobs);

    for (size_t i = 0; i < count; i++) {
        ef_append *of = appends[i].of;
        if (!jobs) {
            of->status = ef_fail(of->err, EF_NO_MEMORY, "out of memory to append %zu times", count);
            continue;
        }
        jobs[i] = append_job(&appends[i]);
        jobs[i].queued.sibling = i + 1 < count ? &jobs[i + 1].queued : NULL;
    }
    if (jobs)
        submit_all(sq_store_of(journal), jobs);
    for (size_t i = 0; jobs && i < count; i++)
        appends[i].of->status = jobs[i].status;
    free(jobs);
}
