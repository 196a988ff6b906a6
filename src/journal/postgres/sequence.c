/*
 * sequence.c - giving positions.
 *
 * Whoever appends by the library, or finds that something waits for a position, is the sequencer
 * for the length of a transaction: it has the sequencer's lock, reads where the log ends, and adds
 * to it. So positions are dense and in the order of commits, a transaction that is rolled back
 * takes its positions with it, and the chain of hashes has one end. The lock ends with the
 * transaction: who was ended by the server, or lost its connection, adds nothing.
 *
 * What applications append in transactions of their own (everfold.append) waits in `arrival`. It is
 * seen there once it is committed, and of one stream in the order of seqs.
 */
#include "store.h"

#include "../../base/limits.h"
#include "../../core/placement.h"

#define ARRIVALS_AT_ONCE 1000

void pg_rows_init(pg_rows *rows)
{
    ef__pg_array_init(&rows->positions, EF__PG_INT);
    ef__pg_array_init(&rows->streams, EF__PG_INT);
    ef__pg_array_init(&rows->seqs, EF__PG_INT);
    ef__pg_array_init(&rows->types, EF__PG_TEXT);
    ef__pg_array_init(&rows->schemas, EF__PG_INT);
    ef__pg_array_init(&rows->times, EF__PG_INT);
    ef__pg_array_init(&rows->ids, EF__PG_TEXT);
    ef__pg_array_init(&rows->data, EF__PG_TEXT);
    ef__pg_array_init(&rows->meta, EF__PG_TEXT);
    ef__pg_array_init(&rows->sums, EF__PG_INT);
    ef__pg_array_init(&rows->hashes, EF__PG_BYTES);
    ef__pg_array_init(&rows->queued, EF__PG_INT);
    ef__pg_array_init(&rows->partitions, EF__PG_INT);
    ef__pg_array_init(&rows->queued_types, EF__PG_TEXT);
}

void pg_rows_release(pg_rows *rows)
{
    ef__pg_array_release(&rows->positions);
    ef__pg_array_release(&rows->streams);
    ef__pg_array_release(&rows->seqs);
    ef__pg_array_release(&rows->types);
    ef__pg_array_release(&rows->schemas);
    ef__pg_array_release(&rows->times);
    ef__pg_array_release(&rows->ids);
    ef__pg_array_release(&rows->data);
    ef__pg_array_release(&rows->meta);
    ef__pg_array_release(&rows->sums);
    ef__pg_array_release(&rows->hashes);
    ef__pg_array_release(&rows->queued);
    ef__pg_array_release(&rows->partitions);
    ef__pg_array_release(&rows->queued_types);
}

ef_status pg_rows_add(pg_rows *rows, pg_end *end, int64_t stream, ef_event *event, bool queue,
                      ef_error *err)
{
    uint64_t sum;

    event->position = end->position + 1;
    event->recorded_us = end->recorded_us;
    if (!ef__event_seal(end->hash, event, &end->scratch, event->hash, &sum))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while sealing an event");
    end->position++;
    memcpy(end->hash, event->hash, sizeof end->hash);
    ef__pg_array_int(&rows->positions, event->position);
    ef__pg_array_int(&rows->streams, stream);
    ef__pg_array_int(&rows->seqs, event->seq);
    ef__pg_array_str(&rows->types, event->type);
    ef__pg_array_int(&rows->schemas, event->schema);
    ef__pg_array_int(&rows->times, event->time_us);
    ef__pg_array_str(&rows->ids, event->id);
    ef__pg_array_str(&rows->data, event->data);
    ef__pg_array_str(&rows->meta, event->meta);
    ef__pg_array_int(&rows->sums, (int64_t)sum);
    ef__pg_array_str(&rows->hashes, (ef_str){(const char *)event->hash, sizeof event->hash});
    if (queue) {
        ef__pg_array_int(&rows->queued, event->position);
        ef__pg_array_int(&rows->partitions,
                         ef__partition_of(event->tenant, event->stream, end->partitions));
        ef__pg_array_str(&rows->queued_types, event->type);
    }
    return EF_OK;
}

static ef_status send_outbox(pg_rows *rows, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array(&params, &rows->queued);
    ef__pg_add_array(&params, &rows->partitions);
    ef__pg_add_array(&params, &rows->queued_types);
    return ef__pg_send(conn, PJ_OUTBOX_INSERT, &params, err);
}

ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st;

    ef__pg_add_array(&params, &rows->positions);
    ef__pg_add_array(&params, &rows->streams);
    ef__pg_add_array(&params, &rows->seqs);
    ef__pg_add_array(&params, &rows->types);
    ef__pg_add_array(&params, &rows->schemas);
    ef__pg_add_array(&params, &rows->times);
    ef__pg_add_int(&params, end->recorded_us);
    ef__pg_add_array(&params, &rows->ids);
    ef__pg_add_array(&params, &rows->data);
    ef__pg_add_array(&params, &rows->meta);
    ef__pg_add_array(&params, &rows->sums);
    ef__pg_add_array(&params, &rows->hashes);
    st = ef__pg_send(conn, PJ_EVENT_INSERT, &params, err);
    if (st == EF_OK && rows->queued.count)
        st = send_outbox(rows, conn, err);
    return st == EF_OK ? ef__pg_send(conn, PJ_NOTIFY, NULL, err) : st;
}

/* --- what waits ------------------------------------------------------------------------------- */

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

static ef_status add_arrivals(ef__pg_conn *conn, const PGresult *result, pg_end *end, ef_error *err)
{
    ef__pg_params params = {0};
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        ef_event event = arrival_event(result, i);
        st = pg_rows_add(&rows, end, ef__pg_int(result, i, 0), &event, ef__pg_bool(result, i, 8),
                         err);
    }
    /* An application's transaction makes no types: it would keep them locked for as long as it is
     * open. */
    ef__pg_add_array(&params, &rows.types);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_TYPE_INSERT, &params, err);
    if (st == EF_OK)
        st = pg_rows_send(&rows, end, conn, err);
    if (st == EF_OK)
        st = ef__pg_take_all(conn, err);
    pg_rows_release(&rows);
    return st;
}

static ef_status drain(ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    int taken = ARRIVALS_AT_ONCE;
    ef_status st = EF_OK;

    while (st == EF_OK && taken == ARRIVALS_AT_ONCE) {
        ef__pg_params params = {0};
        PGresult *result = NULL;

        ef__pg_add_int(&params, end->arrivals);
        ef__pg_add_int(&params, ARRIVALS_AT_ONCE);
        st = ef__pg_query(conn, PJ_ARRIVAL_TAKE, &params, &result, err);
        if (st == EF_OK && (taken = PQntuples(result)) > 0)
            st = add_arrivals(conn, result, end, err);
        PQclear(result);
    }
    return st;
}

ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    ef__pg_params params = {0};
    PGresult *result = NULL;
    ef_status st = ef__pg_send(conn, PJ_SEQUENCER_LOCK, NULL, err);

    *end = (pg_end){.scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    pg_add_clock(store, &params);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_SEQUENCER_BEGIN, &params, &result, err);
    if (st == EF_OK) {
        ef_str hash = ef__pg_str(result, 0, 2);
        int64_t last_us = ef__pg_int(result, 0, 1), now_us = ef__pg_int(result, 0, 3);
        end->position = ef__pg_int(result, 0, 0);
        end->recorded_us = now_us > last_us ? now_us : last_us; /* they never fall */
        end->partitions = (int32_t)ef__pg_int(result, 0, 4);
        end->arrivals = ef__pg_int(result, 0, 5);
        if (hash.len == sizeof end->hash)
            memcpy(end->hash, hash.ptr, hash.len);
        else if (end->position > 0)
            st = ef_fail(err, EF_DAMAGED, "the last event has no hash");
    }
    PQclear(result);
    return st == EF_OK && end->arrivals ? drain(conn, end, err) : st;
}

void pg_end_release(pg_end *end)
{
    ef__buf_release(&end->scratch);
}

static ef_status sequence_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    pg_end end;
    ef_status st = pg_sequence_begin(context, conn, &end, err);

    pg_end_release(&end);
    return st;
}

ef_status pg_sequence(pg_store *store, ef_error *err)
{
    ef_status st = ef__pg_transaction(store->pool, EF__PG_WRITE, sequence_work, store, err);

    /* Lost in the commit: whatever became of it, what still waits is found by the next who looks.
     */
    return st == EF_UNSURE ? EF_OK : st;
}

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct read_job {
    int which;
    const ef__pg_params *params;
    PGresult *result;
    bool waits;
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
        st = ef__pg_take(conn, &any, err);
    job->waits = st == EF_OK && ef__pg_bool(any, 0, 0);
    PQclear(any);
    return st == EF_OK ? ef__pg_take(conn, &job->result, err) : st;
}

ef_status pg_read(pg_store *store, int which, const ef__pg_params *params, PGresult **out,
                  ef_error *err)
{
    read_job job = {.which = which, .params = params};
    ef_status st = ef__pg_on_conn(store->pool, read_work, &job, err);

    if (st == EF_OK && job.waits) {
        st = pg_sequence(store, err);
        if (st == EF_OK)
            st = ef__pg_on_conn(store->pool, read_work, &job, err);
        else if (st == EF_MISUSE) /* a role that may only read sees what has its position */
            st = EF_OK;
    }
    if (st != EF_OK) {
        PQclear(job.result);
        job.result = NULL;
    }
    *out = job.result;
    return st;
}

ef_status pg_settle(pg_store *store, ef_error *err)
{
    PGresult *result = NULL;
    bool waits;
    ef_status st = ef__pg_read(store->pool, PJ_ARRIVAL_ANY, NULL, &result, err);

    waits = st == EF_OK && ef__pg_bool(result, 0, 0);
    PQclear(result);
    if (waits)
        st = pg_sequence(store, err);
    return st == EF_MISUSE && store->base.options.read_only ? EF_OK : st;
}
