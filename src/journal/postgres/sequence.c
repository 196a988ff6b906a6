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
    *rows = (pg_rows){.hashes = EF__BUF_INIT(EF_LIMIT_BATCH_BYTES)};
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
        ef__pg_array_int(&rows->queued_numbers, ef__partition_of(event->tenant, event->stream,
                                                                 EF_LIMIT_PUBLISHER_PARTITIONS));
        ef__pg_array_int(&rows->queued_numbers, type);
    }
    return EF_OK;
}

static ef_status send_outbox(pg_rows *rows, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array_of(&params, &rows->queued, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->queued_numbers, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->types, EF__PG_TEXT);
    return ef__pg_send(conn, PJ_OUTBOX_INSERT, &params, err);
}

ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st;

    ef__pg_add_int(&params, rows->first);
    ef__pg_add_array_of(&params, &rows->numbers, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->types, EF__PG_TEXT);
    ef__pg_add_int(&params, end->recorded_us);
    ef__pg_add_array_of(&params, &rows->ids, EF__PG_TEXT);
    ef__pg_add_array_of(&params, &rows->data, EF__PG_TEXT);
    ef__pg_add_array_of(&params, &rows->meta, EF__PG_TEXT);
    ef__pg_add_bytes(&params, (ef_str){rows->hashes.ptr, rows->hashes.len});
    st = ef__pg_send(conn, PJ_EVENT_INSERT, &params, err);
    if (st == EF_OK && rows->queued.count)
        st = send_outbox(rows, conn, err);
    reset_rows(rows);
    return st == EF_OK ? ef__pg_flush(conn, err) : st;
}

/* --- arrivals --------------------------------------------------------------------------------- */

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
static int32_t number_type(const PGresult *result, int row, int32_t *numbers,
                           struct pj_type_insert *types, ef__pg_array *names)
{
    ef_str name = ef__pg_str(result, row, 2);

    for (int i = row - 1; i >= 0; i--)
        if (ef_str_equal(ef__pg_str(result, i, 2), name))
            return numbers[row] = numbers[i];
    ef__pg_array_str(names, name);
    ef__pg_array_str(&types->names, name);
    ef__pg_array_str(&types->tenants, ef__pg_str(result, row, 9));
    return numbers[row] = names->count;
}

static ef_status add_arrivals(ef__pg_conn *conn, const PGresult *result, pg_end *end, ef_error *err)
{
    int32_t numbers[BATCH_ARRIVALS];
    struct pj_type_insert types = {0};
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_event event = arrival_event(result, i);
        st = pg_rows_add(&rows, end, ef__pg_int(result, i, 0),
                         number_type(result, i, numbers, &types, &rows.types), &event, false,
                         ef__pg_bool(result, i, 8), err);
    }
    /* everfold.append creates no types: an application's open transaction would lock them. */
    if (st == EF_OK)
        st = pj_send_type_insert(conn, &types, err);
    if (st == EF_OK)
        st = pg_rows_send(&rows, end, conn, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_NOTIFY, NULL, err);
    if (st == EF_OK)
        st = ef__pg_receive_all(conn, err);
    ef__pg_array_release(&types.names);
    ef__pg_array_release(&types.tenants);
    pg_rows_release(&rows);
    return st;
}

/* Sequences a batch. `*out_last`: its last arrival's number, or end->arrivals if none is left. */
static ef_status sequence_batch(ef__pg_conn *conn, pg_end *end, int64_t *out_last, ef_error *err)
{
    ef__pg_rows rows = pj_each_arrival_drain(
        ef__pg_on_conn(conn),
        &(struct pj_arrival_drain){
            .upto = end->arrivals, .limit = BATCH_ARRIVALS, .bytes = BATCH_BYTES_ENOUGH},
        err);

    *out_last = rows.count ? ef__pg_int(rows.result, rows.count - 1, 11) : end->arrivals;
    if (rows.count)
        rows.status = add_arrivals(conn, rows.result, end, err);
    return ef__pg_rows_end(&rows);
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

/* Reads the end of the log, and releases `rows`. */
static ef_status read_end(ef__pg_rows rows, pg_end *end, ef_error *err)
{
    const ef_clock *clock = ef_clock_system();
    struct pj_sequencer_begin_row row;

    *end = (pg_end){.scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    if (!pj_next_sequencer_begin(&rows, &row))
        return ef__pg_rows_end(&rows);
    end->clock_us = row.now;
    end->clock_read_us = clock->mono_us(clock->context);
    end->position = row.position;
    /* recording times never decrease */
    end->recorded_us = row.now > row.recorded ? row.now : row.recorded;
    end->partitions = (int32_t)row.partitions;
    end->arrivals = row.arrivals;
    end->damage = pg_damage_of(row.damage, row.damaged);
    if (row.hash.len == sizeof end->hash)
        memcpy(end->hash, row.hash.ptr, row.hash.len);
    else if (end->position > 0)
        rows.status = ef_fail(err, EF_DAMAGED, "the last event has no hash");
    return ef__pg_rows_end(&rows);
}

/* Gives positions to arrivals first; EF_BUSY when they are too many for this transaction. */
static ef_status begin_after_arrivals(pg_store *store, ef__pg_conn *conn, ef__pg_rows rows,
                                      pg_end *end, ef_error *err)
{
    bool left = false;
    ef_status st = read_end(rows, end, err);

    if (st == EF_OK && end->arrivals)
        st = drain_arrivals(conn, end, BATCHES_WITH_WORK, &left, err);
    if (st != EF_OK || !left)
        return st;
    atomic_store(&store->backlog, true);
    return ef_fail(err, EF_BUSY, "too many events that were appended by SQL have no position yet");
}

ef_status pg_sequence_receive(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    return begin_after_arrivals(store, conn, ef__pg_rows_receive(conn, NULL, err), end, err);
}

/* Acquires the sequencer lock and reads the end of the log, in one round trip. */
static ef__pg_rows lock_and_read_end(pg_store *store, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pj_send_sequencer_lock(conn, store->base.options.busy_ms, err);

    if (st != EF_OK)
        return (ef__pg_rows){.status = st};
    return pj_each_sequencer_begin(ef__pg_on_conn(conn), pg_clock(store), NULL, err);
}

ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    return begin_after_arrivals(store, conn, lock_and_read_end(store, conn, err), end, err);
}

/* Arrivals that wait when it begins, no more: others may come as fast as these get positions. */
typedef struct sequence_job {
    pg_store *store;
    int64_t upto; /* number of the last arrival; 0: not read yet */
    bool left;
} sequence_job;

static ef_status sequence_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    sequence_job *s = context;
    pg_end end;
    ef_status st = read_end(lock_and_read_end(s->store, conn, err), &end, err);

    s->left = false;
    if (st == EF_OK && s->upto && end.arrivals > s->upto)
        end.arrivals = s->upto;
    if (st == EF_OK && end.arrivals)
        st = drain_arrivals(conn, &end, BATCHES_ALONE, &s->left, err);
    s->upto = s->upto ? s->upto : end.arrivals;
    ef__buf_release(&end.scratch);
    return st;
}

/* Gives positions to all arrivals, in transactions of its own. */
static ef_status sequence_all(pg_store *store, ef_error *err)
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
        st = sequence_all(store, err);
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
    ef_status st = ef__pg_send(conn, PJ_ARRIVAL_ANY, NULL, err);

    PQclear(job->result);
    job->result = NULL;
    if (st == EF_OK)
        st = ef__pg_send(conn, job->which, job->params, err);
    job->has_arrivals = false;
    if (st == EF_OK)
        st = pj_receive_arrival_any(conn, &job->has_arrivals, NULL, err);
    return st == EF_OK ? ef__pg_receive(conn, &job->result, err) : st;
}

ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err)
{
    read_job job = {.which = which, .params = params};
    ef_status st = ef__pg_with_conn(store->pool, read_work, &job, err);

    if (st == EF_OK && job.has_arrivals) {
        st = sequence_all(store, err);
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
    bool has_arrivals = false;
    ef_status st = pj_one_arrival_any(ef__pg_on_pool(store->pool), &has_arrivals, NULL, err);

    if (has_arrivals)
        st = sequence_all(store, err);
    return st == EF_MISUSE && store->base.options.read_only ? EF_OK : st;
}
