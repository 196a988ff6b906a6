/*
 * sequence.c - giving positions.
 *
 * An append by the library, or a read that finds events without a position, becomes the sequencer
 * for one transaction: it acquires the sequencer lock, reads the end of the log, and adds to it. So
 * positions are dense and in commit order, a rollback leaves no gap, and the chain of hashes has
 * one end. The lock ends with the transaction, also when the server ends the session.
 *
 * Events that applications append in their own transactions (everfold.append) are in `arrival`,
 * where they are visible after the commit, those of one stream in order of seq. They get positions
 * in batches, limited by count and bytes, so that memory is bounded. A transaction with other work
 * does a few batches; if more are waiting it is rolled back, and they get their positions first, in
 * short transactions (pg_transaction_in_sequence).
 */
#include "store.h"

#include "../../base/limits.h"
#include "../../core/placement.h"

#define BATCH_ARRIVALS 1000
#define BATCH_BYTES_ENOUGH (16 << 20) /* the last event may exceed it */
#define BATCHES_ALONE 8               /* in a transaction without other work */
#define BATCHES_WITH_WORK 2
#define BACKLOG_RETRIES 4 /* while arrivals come faster than they get positions */

void pg_rows_init(pg_rows *rows)
{
    rows->first = 0;
    rows->hashes = (ef__buf)EF__BUF_INIT(EF_LIMIT_BATCH_BYTES);
    ef__pg_array_init(&rows->types, EF__PG_TEXT);
    ef__pg_array_init(&rows->numbers, EF__PG_INT);
    ef__pg_array_init(&rows->ids, EF__PG_TEXT);
    ef__pg_array_init(&rows->data, EF__PG_TEXT);
    ef__pg_array_init(&rows->meta, EF__PG_TEXT);
    ef__pg_array_init(&rows->queued, EF__PG_INT);
    ef__pg_array_init(&rows->queued_numbers, EF__PG_INT);
}

void pg_rows_release(pg_rows *rows)
{
    ef__buf_release(&rows->hashes);
    ef__pg_array_release(&rows->types);
    ef__pg_array_release(&rows->numbers);
    ef__pg_array_release(&rows->ids);
    ef__pg_array_release(&rows->data);
    ef__pg_array_release(&rows->meta);
    ef__pg_array_release(&rows->queued);
    ef__pg_array_release(&rows->queued_numbers);
}

/* After sending: empties the rows, and keeps the types. */
static void reset_rows(pg_rows *rows)
{
    rows->first = 0;
    ef__buf_reset(&rows->hashes);
    ef__pg_array_reset(&rows->numbers);
    ef__pg_array_reset(&rows->ids);
    ef__pg_array_reset(&rows->data);
    ef__pg_array_reset(&rows->meta);
    ef__pg_array_reset(&rows->queued);
    ef__pg_array_reset(&rows->queued_numbers);
}

static void add_numbers(ef__pg_array *array, const int64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ef__pg_array_int(array, numbers[i]);
}

ef_status pg_rows_add(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                      bool made, bool queue, ef_error *err)
{
    uint64_t sum;

    event->position = end->position + 1;
    event->recorded_us = end->recorded_us;
    if (!ef__event_seal(end->hash, event, &end->scratch, event->hash, &sum) ||
        !ef__buf_add(&rows->hashes, event->hash, sizeof event->hash))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while sealing an event");
    rows->first = rows->first ? rows->first : event->position;
    end->position++;
    memcpy(end->hash, event->hash, sizeof end->hash);
    add_numbers(
        &rows->numbers,
        (int64_t[]){stream, event->seq, type, event->schema, event->time_us, (int64_t)sum, made},
        7);
    ef__pg_array_str(&rows->ids, event->id);
    ef__pg_array_str(&rows->data, event->data);
    ef__pg_array_str(&rows->meta, event->meta);
    if (queue) {
        ef__pg_array_int(&rows->queued, event->position);
        ef__pg_array_int(&rows->queued_numbers,
                         ef__partition_of(event->tenant, event->stream, end->partitions));
        ef__pg_array_int(&rows->queued_numbers, type);
    }
    return EF_OK;
}

static ef_status send_outbox(pg_rows *rows, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array(&params, &rows->queued);
    ef__pg_add_array(&params, &rows->queued_numbers);
    ef__pg_add_array(&params, &rows->types);
    return ef__pg_send(conn, PJ_OUTBOX_INSERT, &params, err);
}

ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st;

    ef__pg_add_int(&params, rows->first);
    ef__pg_add_array(&params, &rows->numbers);
    ef__pg_add_array(&params, &rows->types);
    ef__pg_add_int(&params, end->recorded_us);
    ef__pg_add_array(&params, &rows->ids);
    ef__pg_add_array(&params, &rows->data);
    ef__pg_add_array(&params, &rows->meta);
    ef__pg_add_bytes(&params, (ef_str){rows->hashes.ptr, rows->hashes.len});
    st = ef__pg_send(conn, PJ_EVENT_INSERT, &params, err);
    if (st == EF_OK && rows->queued.count)
        st = send_outbox(rows, conn, err);
    reset_rows(rows);
    return st == EF_OK ? ef__pg_flush(conn, err) : st;
}

/* --- what has_arrivals
 * ------------------------------------------------------------------------------- */

static ef_event arrival_event(const PGresult *result, int row)
{
    return (ef_event){.seq = ef__pg_int(result, row, 1),
                      .type = ef__pg_str(result, row, 2),
                      .schema = (int32_t)ef__pg_int(result, row, 3),
                      .time_us = ef__pg_int(result, row, 4),
                      .id = ef__pg_str(result, row, 5),
                      .data = ef__pg_str(result, row, 6),
                      .meta = ef__pg_str(result, row, 7),
                      .tenant = ef__pg_str(result, row, 9),
                      .stream = ef__pg_str(result, row, 10)};
}

/* The index of the type of a row, from 1; a new name is added. Searched from the last row
 * backwards, because neighbours often have the same type. */
static int32_t number_type(const PGresult *result, int row, int32_t *numbers, ef__pg_array *names,
                           ef__pg_array *tenants)
{
    ef_str name = ef__pg_str(result, row, 2);

    for (int i = row - 1; i >= 0; i--)
        if (ef_str_equal(ef__pg_str(result, i, 2), name))
            return numbers[row] = numbers[i];
    ef__pg_array_str(names, name);
    ef__pg_array_str(tenants, ef__pg_str(result, row, 9));
    return numbers[row] = names->count;
}

static ef_status add_arrivals(ef__pg_conn *conn, const PGresult *result, pg_end *end, ef_error *err)
{
    int32_t numbers[BATCH_ARRIVALS];
    ef__pg_params params = {0};
    ef__pg_array tenants;
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    ef__pg_array_init(&tenants, EF__PG_TEXT);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_event event = arrival_event(result, i);
        st = pg_rows_add(&rows, end, ef__pg_int(result, i, 0),
                         number_type(result, i, numbers, &rows.types, &tenants), &event, false,
                         ef__pg_bool(result, i, 8), err);
    }
    /* everfold.append creates no types: the open transaction of an application would keep them
     * locked. */
    ef__pg_add_array(&params, &rows.types);
    ef__pg_add_array(&params, &tenants);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_TYPE_INSERT, &params, err);
    if (st == EF_OK)
        st = pg_rows_send(&rows, end, conn, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_NOTIFY, NULL, err);
    if (st == EF_OK)
        st = ef__pg_receive_all(conn, err);
    ef__pg_array_release(&tenants);
    pg_rows_release(&rows);
    return st;
}

/* Sequences a batch. `*out_last` is the number of its last arrival, or end->arrivals when none is
 * left. */
static ef_status sequence_batch(ef__pg_conn *conn, pg_end *end, int64_t *out_last, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    int count;
    ef_status st;

    ef__pg_add_int(&params, end->arrivals);
    ef__pg_add_int(&params, BATCH_ARRIVALS);
    ef__pg_add_int(&params, BATCH_BYTES_ENOUGH);
    st = ef__pg_query(conn, PJ_ARRIVAL_DRAIN, &params, &result, err);
    count = st == EF_OK ? PQntuples(result) : 0;
    *out_last = count ? ef__pg_int(result, count - 1, 11) : end->arrivals;
    if (count)
        st = add_arrivals(conn, result, end, err);
    PQclear(result);
    return st;
}

/* Gives positions to at most `batches` batches of arrivals; *out_left: more are waiting. */
static ef_status drain_arrivals(ef__pg_conn *conn, pg_end *end, int batches, bool *out_left,
                                ef_error *err)
{
    int64_t last = 0;
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && i < batches && last < end->arrivals; i++)
        st = sequence_batch(conn, end, &last, err);
    *out_left = last < end->arrivals;
    return st;
}

ef_status pg_sequencer_lock(pg_store *store, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, store->base.options.busy_ms);
    return ef__pg_send(conn, PJ_SEQUENCER_LOCK, &params, err);
}

ef_status pg_sequence_send_begin(pg_store *store, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    pg_add_clock(store, &params);
    return ef__pg_send(conn, PJ_SEQUENCER_BEGIN, &params, err);
}

static void read_end(const PGresult *result, pg_end *end)
{
    int64_t last_us = ef__pg_int(result, 0, 1), now_us = ef__pg_int(result, 0, 3);
    const ef_clock *clock = ef_clock_system();

    end->clock_us = now_us;
    end->clock_read_us = clock->mono_us(clock->context);
    end->position = ef__pg_int(result, 0, 0);
    end->recorded_us = now_us > last_us ? now_us : last_us; /* recording times never decrease */
    end->partitions = (int32_t)ef__pg_int(result, 0, 4);
    end->arrivals = ef__pg_int(result, 0, 5);
    pg_damage_read(result, 6, &end->damage);
}

/* Reads the end of the log from `result`, and releases it. */
static ef_status init_end(PGresult *result, pg_end *end, ef_error *err)
{
    ef_str hash = ef__pg_str(result, 0, 2);
    ef_status st = EF_OK;

    *end = (pg_end){.scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    read_end(result, end);
    if (hash.len == sizeof end->hash)
        memcpy(end->hash, hash.ptr, hash.len);
    else if (end->position > 0)
        st = ef_fail(err, EF_DAMAGED, "the last event has no hash");
    PQclear(result);
    return st;
}

/* Gives positions to arrivals first; EF_BUSY when they are too many for this transaction. */
static ef_status begin_after_arrivals(pg_store *store, ef__pg_conn *conn, PGresult *result,
                                      pg_end *end, ef_error *err)
{
    bool left = false;
    ef_status st = init_end(result, end, err);

    if (st == EF_OK && end->arrivals)
        st = drain_arrivals(conn, end, BATCHES_WITH_WORK, &left, err);
    if (st != EF_OK || !left)
        return st;
    atomic_store(&store->backlog, true);
    return ef_fail(err, EF_BUSY, "too many events that were appended by SQL have no position yet");
}

ef_status pg_sequence_receive(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = ef__pg_receive(conn, &result, err);

    *end = (pg_end){0};
    return st == EF_OK ? begin_after_arrivals(store, conn, result, end, err) : st;
}

static ef_status lock_and_read_end(pg_store *store, ef__pg_conn *conn, PGresult **out,
                                   ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st = pg_sequencer_lock(store, conn, err);

    pg_add_clock(store, &params);
    return st == EF_OK ? ef__pg_query(conn, PJ_SEQUENCER_BEGIN, &params, out, err) : st;
}

ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    PGresult *result = NULL;
    ef_status st = lock_and_read_end(store, conn, &result, err);

    *end = (pg_end){0};
    return st == EF_OK ? begin_after_arrivals(store, conn, result, end, err) : st;
}

void pg_end_release(pg_end *end)
{
    ef__buf_release(&end->scratch);
}

/* What has_arrivals when it begins, and no more: arrivals may come as fast as they get positions.
 */
typedef struct sequence_job {
    pg_store *store;
    int64_t upto; /* number of the last arrival; 0: not read yet */
    bool left;
} sequence_job;

static ef_status sequence_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    sequence_job *s = context;
    PGresult *result = NULL;
    pg_end end = {0};
    ef_status st = lock_and_read_end(s->store, conn, &result, err);

    s->left = false;
    if (st == EF_OK)
        st = init_end(result, &end, err);
    if (st == EF_OK && s->upto && end.arrivals > s->upto)
        end.arrivals = s->upto;
    if (st == EF_OK && end.arrivals)
        st = drain_arrivals(conn, &end, BATCHES_ALONE, &s->left, err);
    s->upto = s->upto ? s->upto : end.arrivals;
    pg_end_release(&end);
    return st;
}

ef_status pg_sequence(pg_store *store, ef_error *err)
{
    sequence_job s = {.store = store};
    ef_status st;

    do
        st = ef__pg_transaction(store->pool, EF__PG_WRITE, sequence_work, &s, err);
    while (st == EF_OK && s.left);
    /* The result of the commit is unknown. If it failed, the next call finds the same arrivals. */
    return st == EF_UNSURE ? EF_OK : st;
}

ef_status pg_transaction_in_sequence(pg_store *store, ef__pg_lock_wait *lock_wait, ef__pg_work work,
                                     void *context, ef_error *err)
{
    ef_status st =
        ef__pg_transaction_within(store->pool, EF__PG_WRITE, lock_wait, work, context, err);

    for (int tries = 0; st == EF_BUSY && tries < BACKLOG_RETRIES; tries++) {
        if (!atomic_exchange(&store->backlog, false))
            break;
        st = pg_sequence(store, err);
        if (st == EF_OK)
            st =
                ef__pg_transaction_within(store->pool, EF__PG_WRITE, lock_wait, work, context, err);
    }
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct read_job {
    int which;
    const ef__pg_params *params;
    PGresult *result;
    bool has_arrivals;
} read_job;

static ef_status read_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    read_job *job = context;
    PGresult *any = NULL;
    ef_status st = ef__pg_send(conn, PJ_ARRIVAL_ANY, NULL, err);

    PQclear(job->result);
    job->result = NULL;
    if (st == EF_OK)
        st = ef__pg_send(conn, job->which, job->params, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, &any, err);
    job->has_arrivals = st == EF_OK && ef__pg_bool(any, 0, 0);
    PQclear(any);
    return st == EF_OK ? ef__pg_receive(conn, &job->result, err) : st;
}

ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err)
{
    read_job job = {.which = which, .params = params};
    ef_status st = ef__pg_with_conn(store->pool, read_work, &job, err);

    if (st == EF_OK && job.has_arrivals) {
        st = pg_sequence(store, err);
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
    *out = job.result;
    return st;
}

ef_status pg_sequence_arrivals(pg_store *store, ef_error *err)
{
    PGresult *result = NULL;
    bool has_arrivals;
    ef_status st = ef__pg_read(store->pool, PJ_ARRIVAL_ANY, NULL, &result, err);

    has_arrivals = st == EF_OK && ef__pg_bool(result, 0, 0);
    PQclear(result);
    if (has_arrivals)
        st = pg_sequence(store, err);
    return st == EF_MISUSE && store->base.options.read_only ? EF_OK : st;
}
