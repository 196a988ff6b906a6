/*
 * place.c - giving positions to events that were committed without one: by an append of the library
 * that did not get the sequencer lock at once, or by everfold.append.
 *
 * A pass is one short transaction: it acquires the sequencer lock, finds what is committed and has
 * no position, and fills the positions in. Threads that wait for positions share the passes of
 * their process; a thread whose events were placed by another process meanwhile only learns where
 * they are. docs/explanation/positions.md describes the protocol and proves it.
 */
#include "store.h"

#include "../../base/deadline.h"
#include "../../base/limits.h"

#include <stdlib.h>
#include <time.h>

#define PASS_EVENTS 2000
#define PASS_BYTES_ENOUGH (16 << 20) /* the last event may exceed it */
#define SNAPSHOT_BYTES_MAX (1 << 20)
#define NOTIFY_PAUSE_MS 5 /* a process that began to sleep since polls in less time */
#define UNSURE_TRIES 3
#define PAUSE_US 1000 /* about as long as a commit */
#define PAUSE_MAX_US 8000

/* --- what was seen ---------------------------------------------------------------------------- */

/* A copy of the text, which ends with a NUL. */
void pg_since_read(pg_store *store, pg_since *out)
{
    int64_t connections = atomic_load(&store->connections);

    *out = (pg_since){.snapshot = EF__BUF_INIT(SNAPSHOT_BYTES_MAX), .connections = connections};
    (void)pthread_mutex_lock(&store->lock);
    if (store->since.high && store->since.connections == connections &&
        ef__buf_add_str(&out->snapshot, ef__buf_str(&store->since.snapshot)))
        out->high = store->since.high;
    (void)pthread_mutex_unlock(&store->lock);
    if (out->high == 0) {
        ef__buf_reset(&out->snapshot);
        (void)ef__buf_add_text(&out->snapshot, "1:1:");
    }
}

void pg_since_release(pg_since *since)
{
    ef__buf_release(&since->snapshot);
}

/* Takes the memory of `since`. */
static void record_since(pg_store *store, pg_since *since)
{
    pg_since before;

    (void)pthread_mutex_lock(&store->lock);
    before = store->since;
    store->since = *since;
    (void)pthread_mutex_unlock(&store->lock);
    *since = (pg_since){0};
    pg_since_release(&before);
}

/* --- a pass ----------------------------------------------------------------------------------- */

typedef struct placed {
    int64_t stream, seq, position;
} placed;

typedef struct pass {
    pg_store *store;
    ef__batch_job *jobs;
    int64_t until; /* threads that wait for all events wait for those up to this number */
    pg_since since, next;
    pg_end end;
    bool is_needed;   /* some thread waits for an event that has no position yet */
    bool is_locked;   /* this transaction has the sequencer lock */
    bool is_complete; /* every event that was visible has its position */
    int64_t last;     /* number of the last event that got one */
    placed placed[PASS_EVENTS];
    size_t count;
} pass;

enum {
    AT_SNAPSHOT,
    AT_HIGH,
    AT_TOTAL,
    AT_NUMBER,
    AT_STREAM,
    AT_SEQ,
    AT_TYPE,
    AT_SCHEMA,
    AT_TIME,
    AT_ID,
    AT_DATA,
    AT_META,
    AT_QUEUED,
    AT_TENANT,
    AT_NAME
};

static pg_place_job *job_after(const pg_place_job *job)
{
    return (pg_place_job *)job->queued.next;
}

static ef_event unplaced_event(const PGresult *result, int row)
{
    return (ef_event){.seq = ef__pg_int(result, row, AT_SEQ),
                      .type = ef__pg_str(result, row, AT_TYPE),
                      .schema = (int32_t)ef__pg_int(result, row, AT_SCHEMA),
                      .time_us = ef__pg_int(result, row, AT_TIME),
                      .id = ef__pg_str(result, row, AT_ID),
                      .data = ef__pg_str(result, row, AT_DATA),
                      .meta = ef__pg_str(result, row, AT_META),
                      .tenant = ef__pg_str(result, row, AT_TENANT),
                      .stream = ef__pg_str(result, row, AT_NAME)};
}

/* The index of the type of a row, from 1; a new name is added. Searched from the last row
 * backwards, because neighbours often have the same type. */
static int32_t number_type(const PGresult *result, int row, int32_t *numbers,
                           struct pj_type_insert *types, ef__pg_array *names)
{
    ef_str name = ef__pg_str(result, row, AT_TYPE);

    for (int i = row - 1; i >= 0; i--)
        if (ef_str_equal(ef__pg_str(result, i, AT_TYPE), name))
            return numbers[row] = numbers[i];
    ef__pg_array_str(names, name);
    ef__pg_array_str(&types->names, name);
    ef__pg_array_str(&types->tenants, ef__pg_str(result, row, AT_TENANT));
    return numbers[row] = names->count;
}

/* Appends create no types, so nothing that the sequencer waits for is locked by one. */
static ef_status place_rows(pass *p, ef__pg_conn *conn, const PGresult *result, ef_error *err)
{
    int32_t numbers[PASS_EVENTS];
    struct pj_type_insert types = {0};
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    rows.placing = PG_PLACED;
    for (int i = 0; st == EF_OK && i < PQntuples(result) && i < PASS_EVENTS; i++) {
        ef_event event = unplaced_event(result, i);
        int64_t stream = ef__pg_int(result, i, AT_STREAM);
        st = pg_rows_place(&rows, &p->end, stream,
                           number_type(result, i, numbers, &types, &rows.types), &event,
                           ef__pg_bool(result, i, AT_QUEUED), err);
        p->placed[p->count++] = (placed){stream, event.seq, event.position};
    }
    if (st == EF_OK)
        st = pj_send_type_insert(conn, &types, err);
    if (st == EF_OK)
        st = pg_rows_send(&rows, &p->end, conn, err);
    ef__pg_array_release(&types.names);
    ef__pg_array_release(&types.tenants);
    pg_rows_release(&rows);
    return st;
}

/*
 * What has been seen when this pass is committed. If the events were cut, those up to the last one
 * have been; if they were cut before the first new one, only the old snapshot shows which lower
 * numbers are left.
 */
static ef_status set_next(pass *p, const PGresult *result, ef_error *err)
{
    int count = ef__pg_null(result, 0, AT_NUMBER) ? 0 : PQntuples(result);
    ef_str snapshot = ef__pg_str(result, 0, AT_SNAPSHOT);

    p->is_complete = count == 0 || count == ef__pg_int(result, 0, AT_TOTAL);
    p->last = count ? ef__pg_int(result, count - 1, AT_NUMBER) : 0;
    p->next = (pg_since){.snapshot = EF__BUF_INIT(SNAPSHOT_BYTES_MAX),
                         .high = p->is_complete ? ef__pg_int(result, 0, AT_HIGH) : p->last,
                         .connections = p->since.connections};
    if (p->until == 0)
        p->until = ef__pg_int(result, 0, AT_HIGH);
    if (!p->is_complete && p->last <= p->since.high) {
        snapshot = ef__buf_str(&p->since.snapshot);
        p->next.high = p->since.high;
    }
    return ef__buf_add_str(&p->next.snapshot, snapshot) ? EF_OK : ef__no_memory(err);
}

/* --- threads that wait ------------------------------------------------------------------------ */

/* Removes the events that have positions from the list of a job. */
static bool is_waiting(pg_place_job *job)
{
    size_t left = 0;

    for (size_t i = 0; i < job->count; i++)
        if (job->events[i].place->position == 0)
            job->events[left++] = job->events[i];
    job->count = left;
    return left > 0;
}

static ef_status send_places(const pass *p, ef__pg_conn *conn, ef_error *err)
{
    struct pj_event_places places = {0};

    for (pg_place_job *job = (pg_place_job *)p->jobs; job; job = job_after(job))
        for (size_t i = 0; i < job->count; i++) {
            ef__pg_array_int(&places.streams, job->events[i].stream);
            ef__pg_array_int(&places.seqs, job->events[i].place->seq);
        }
    return pj_send_event_places(conn, &places, err);
}

/* Events that another process has placed. */
static ef_status receive_places(pass *p, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_rows rows = ef__pg_rows_receive(conn, NULL, err);
    struct pj_event_places_row row;
    pg_place_job *job = (pg_place_job *)p->jobs;
    int64_t before = 0; /* events of the jobs before `job` */

    /* Rows may come in any order of n; they do in that of the arrays, by the plan. */
    while (pj_next_event_places(&rows, &row)) {
        if (row.n <= before) {
            job = (pg_place_job *)p->jobs;
            before = 0;
        }
        while (job && row.n > before + (int64_t)job->count) {
            before += (int64_t)job->count;
            job = job_after(job);
        }
        if (job)
            job->events[row.n - 1 - before].place->position = row.position;
    }
    p->is_needed = false;
    for (job = (pg_place_job *)p->jobs; job; job = job_after(job))
        p->is_needed = is_waiting(job) || job->wants_all || p->is_needed;
    return ef__pg_rows_end(&rows);
}

static int compare_placed(const void *x, const void *y)
{
    const placed *a = x, *b = y;

    return a->stream != b->stream ? (a->stream > b->stream) - (a->stream < b->stream)
                                  : (a->seq > b->seq) - (a->seq < b->seq);
}

/* After the commit: events that this pass has placed. */
static void set_places(pass *p)
{
    qsort(p->placed, p->count, sizeof *p->placed, compare_placed);
    for (pg_place_job *job = (pg_place_job *)p->jobs; job; job = job_after(job)) {
        for (size_t i = 0; i < job->count; i++) {
            placed key = {.stream = job->events[i].stream, .seq = job->events[i].place->seq};
            const placed *found =
                bsearch(&key, p->placed, p->count, sizeof *p->placed, compare_placed);
            if (found)
                job->events[i].place->position = found->position;
        }
        (void)is_waiting(job);
        if (p->is_complete || p->last >= p->until)
            job->wants_all = false;
    }
}

static bool any_waiting(const pass *p)
{
    for (pg_place_job *job = (pg_place_job *)p->jobs; job; job = job_after(job))
        if (job->count || job->wants_all)
            return true;
    return false;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Whether a thread waits for an event that no other process has placed, and if so, the lock. */
static ef_status begin_pass(pass *p, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_places(p, conn, err);

    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_SEQUENCER_LOCK_NOW, NULL, err);
    if (st == EF_OK)
        st = receive_places(p, conn, err);
    return st == EF_OK ? pj_receive_sequencer_lock_now(conn, &p->is_locked, NULL, err) : st;
}

/* The end of the log, and the events that have no position. */
static ef_status send_find(const pass *p, ef__pg_conn *conn, ef_error *err)
{
    struct pj_unplaced_find find = {.since = ef__buf_str(&p->since.snapshot),
                                    .high = p->since.high,
                                    .limit = PASS_EVENTS,
                                    .bytes = PASS_BYTES_ENOUGH};
    ef_status st = pj_send_sequencer_begin(conn, pg_clock(p->store), err);

    return st == EF_OK ? pj_send_unplaced_find(conn, &find, err) : st;
}

static void reset_pass(pass *p)
{
    ef__buf_release(&p->end.scratch);
    pg_since_release(&p->since);
    pg_since_release(&p->next);
    p->end = (pg_end){0};
    p->count = 0;
    p->last = 0;
    p->is_complete = p->is_locked = false;
}

static ef_status pass_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    pass *p = context;
    ef__pg_rows rows;
    ef_status st;

    reset_pass(p);
    pg_since_read(p->store, &p->since);
    st = begin_pass(p, conn, err);
    if (st != EF_OK || !p->is_needed || !p->is_locked)
        return st;
    st = send_find(p, conn, err);
    if (st == EF_OK)
        st = pg_end_read(ef__pg_rows_receive(conn, NULL, err), &p->end, err);
    if (st != EF_OK)
        return st;
    rows = ef__pg_rows_receive(conn, NULL, err);
    if (rows.status == EF_OK)
        rows.status = set_next(p, rows.result, err);
    if (rows.status == EF_OK && p->last)
        rows.status = place_rows(p, conn, rows.result, err);
    return ef__pg_rows_end(&rows);
}

static void record_pass(pass *p)
{
    if (p->count)
        atomic_fetch_add(&p->store->commits, 1);
    if (p->end.clock_read_us) {
        pg_end_record(p->store, &p->end);
        pg_record_seen(p->store, p->end.position);
    }
    if (p->next.high)
        record_since(p->store, &p->next);
    set_places(p);
}

static int64_t mono_ms(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->mono_us(clock->context) / 1000;
}

/* Another process has the lock, and places these events too if they were committed in time. So
 * they are looked up again after a pause: a queue for the lock would pass it on to processes
 * whose events have their positions. */
static void pause_pass(int64_t *pause_us)
{
    (void)nanosleep(&(struct timespec){0, *pause_us * 1000}, NULL);
    *pause_us = *pause_us < PAUSE_MAX_US ? *pause_us * 2 : *pause_us;
}

/* Until all threads have what they wait for, or busy_ms have passed. */
static ef_status run_passes(pass *p, ef_error *err)
{
    int64_t until_ms = mono_ms() + p->store->base.options.busy_ms, pause_us = PAUSE_US;
    int unsure = 0;
    ef_status st;

    do {
        if (p->is_needed && !p->is_locked)
            pause_pass(&pause_us);
        st = ef__pg_transaction(p->store->pool, EF__PG_WRITE, pass_work, p, err);
        if (st == EF_OK)
            record_pass(p);
        else if (st == EF_UNSURE) /* the next pass finds what is left */
            record_since(p->store, &(pg_since){0});
        if (st == EF_OK && p->count)
            pg_notify_sleepers(p->store);
    } while (((st == EF_OK && any_waiting(p)) || (st == EF_UNSURE && ++unsure < UNSURE_TRIES)) &&
             mono_ms() < until_ms);
    return st;
}

static void place_jobs(void *context, ef__batch_job *jobs)
{
    pass *p = calloc(1, sizeof *p);
    ef_error err = EF_ERROR_INIT;
    ef_status st = EF_NO_MEMORY;

    if (p) {
        *p = (pass){.store = context, .jobs = jobs};
        st = run_passes(p, &err);
        reset_pass(p);
    }
    for (pg_place_job *job = (pg_place_job *)jobs; job; job = job_after(job)) {
        job->status = st;
        if (st != EF_OK && job->err)
            *job->err = err;
    }
    free(p);
}

void pg_places_init(pg_store *store)
{
    store->since = (pg_since){0};
    store->places = (ef__batcher){
        .run = place_jobs, .context = store, .weight_max = EF_LIMIT_GROUP_EVENTS, .batches_max = 1};
    ef__batcher_init(&store->places);
}

ef_status pg_place_all(pg_store *store, ef_error *err)
{
    pg_place_job job = {.wants_all = true, .err = err};

    ef__batcher_submit(&store->places, &job.queued);
    return job.status;
}

/* --- waking ----------------------------------------------------------------------------------- */

void pg_notify_sleepers(pg_store *store)
{
    int64_t now_ms = mono_ms(), last_ms = atomic_load(&store->notified_ms);

    if (now_ms - last_ms >= NOTIFY_PAUSE_MS &&
        atomic_compare_exchange_strong(&store->notified_ms, &last_ms, now_ms))
        (void)pj_run_notify_sleepers(ef__pg_on_pool(store->pool), NULL, NULL);
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct read_job {
    int which;
    const ef__pg_params *params;
    PGresult *result;
    pg_since since;
    bool any_unplaced;
} read_job;

static ef_status read_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    read_job *job = context;
    ef_status st =
        pj_send_unplaced_any(conn, ef__buf_str(&job->since.snapshot), job->since.high, err);

    PQclear(job->result);
    job->result = NULL;
    if (st == EF_OK)
        st = ef__pg_send(conn, job->which, job->params, err);
    job->any_unplaced = false;
    if (st == EF_OK)
        st = pj_receive_unplaced_any(conn, &job->any_unplaced, NULL, err);
    return st == EF_OK ? ef__pg_receive(conn, &job->result, err) : st;
}

ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err)
{
    read_job job = {.which = which, .params = params};
    ef_status st;

    pg_since_read(store, &job.since);
    st = ef__pg_with_conn(store->pool, read_work, &job, err);
    if (st == EF_OK && job.any_unplaced) {
        st = pg_place_all(store, err);
        if (st == EF_OK)
            st = ef__pg_with_conn(store->pool, read_work, &job, err);
        else if (st ==
                 EF_MISUSE) /* a role without write privileges sees only events with a position */
            st = EF_OK;
    }
    if (st != EF_OK) {
        PQclear(job.result);
        job.result = NULL;
    }
    pg_since_release(&job.since);
    *out = job.result;
    return st;
}

ef_status pg_place_unplaced(pg_store *store, ef_error *err)
{
    bool any = false;
    pg_since since;
    ef_status st;

    pg_since_read(store, &since);
    st = pj_one_unplaced_any(ef__pg_on_pool(store->pool), ef__buf_str(&since.snapshot), since.high,
                             &any, NULL, err);
    pg_since_release(&since);
    if (any)
        st = pg_place_all(store, err);
    return st == EF_MISUSE && store->base.options.read_only ? EF_OK : st;
}
