/*
 * sequence.c - the sequencer: the rows of events, sealed or without a position, and the end of the
 * log. What gives positions to events that have none is in place.c.
 *
 * A process is the sequencer for one transaction: it holds the sequencer lock, reads the end of the
 * log, and adds to it. So positions are dense and in commit order, a rollback leaves no gap, and
 * the chain of hashes has one end. The lock ends with the transaction, also when the server ends
 * the session: because the holder has stalled, say. No append waits for the lock.
 */
#include "store.h"

#include "../../base/limits.h"
#include "../../core/placement.h"

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

/* Gives the next position to `event`, with its recording time, hash, checksum and outbox row. */
static ef_status seal_event(pg_rows *rows, pg_end *end, int32_t type, ef_event *event, bool queue,
                            uint64_t *out_sum, ef_error *err)
{
    event->position = end->position + 1;
    event->recorded_us = end->recorded_us;
    if (!ef__event_seal(end->hash, event, &end->scratch, event->hash, out_sum) ||
        !ef__buf_add(&rows->hashes, event->hash, sizeof event->hash))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while sealing an event");
    rows->first = rows->first ? rows->first : event->position;
    end->position++;
    memcpy(end->hash, event->hash, sizeof end->hash);
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

ef_status pg_rows_add(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                      bool made, ef_error *err)
{
    uint64_t sum = 0;
    ef_status st = EF_OK;

    if (rows->placing != PG_UNPLACED)
        st = seal_event(rows, end, type, event, rows->queue, &sum, err);
    if (st != EF_OK)
        return st;
    add_numbers(
        &rows->numbers,
        (int64_t[]){stream, event->seq, type, event->schema, event->time_us, (int64_t)sum, made},
        7);
    ef__pg_array_str(&rows->ids, event->id);
    ef__pg_array_str(&rows->data, event->data);
    ef__pg_array_str(&rows->meta, event->meta);
    return EF_OK;
}

ef_status pg_rows_place(pg_rows *rows, pg_end *end, int64_t stream, int32_t type, ef_event *event,
                        bool queue, ef_error *err)
{
    uint64_t sum = 0;
    ef_status st = seal_event(rows, end, type, event, queue, &sum, err);

    if (st == EF_OK)
        add_numbers(&rows->numbers, (int64_t[]){stream, event->seq, type, (int64_t)sum}, 4);
    return st;
}

static void add_placing(const pg_rows *rows, ef__pg_params *params)
{
    if (rows->placing == PG_AS_GUESSED)
        ef__pg_add_null(params, EF__PG_BOOL);
    else
        ef__pg_add_bool(params, rows->placing == PG_PLACED);
}

static ef_status send_outbox(pg_rows *rows, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_array_of(&params, &rows->queued, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->queued_numbers, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->types, EF__PG_TEXT);
    add_placing(rows, &params);
    return ef__pg_send(conn, PJ_OUTBOX_INSERT, &params, err);
}

static ef_status send_insert(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, rows->first);
    ef__pg_add_array_of(&params, &rows->numbers, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->types, EF__PG_TEXT);
    ef__pg_add_int(&params, end->recorded_us);
    ef__pg_add_array_of(&params, &rows->ids, EF__PG_TEXT);
    ef__pg_add_array_of(&params, &rows->data, EF__PG_TEXT);
    ef__pg_add_array_of(&params, &rows->meta, EF__PG_TEXT);
    ef__pg_add_bytes(&params, ef__buf_str(&rows->hashes));
    add_placing(rows, &params);
    ef__pg_add_bool(&params, rows->queue);
    return ef__pg_send(conn, PJ_EVENT_INSERT, &params, err);
}

static ef_status send_place(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};

    ef__pg_add_int(&params, rows->first);
    ef__pg_add_array_of(&params, &rows->numbers, EF__PG_INT);
    ef__pg_add_array_of(&params, &rows->types, EF__PG_TEXT);
    ef__pg_add_int(&params, end->recorded_us);
    ef__pg_add_bytes(&params, ef__buf_str(&rows->hashes));
    return ef__pg_send(conn, PJ_EVENT_PLACE, &params, err);
}

ef_status pg_rows_send(pg_rows *rows, const pg_end *end, ef__pg_conn *conn, ef_error *err)
{
    ef_status st =
        rows->ids.count ? send_insert(rows, end, conn, err) : send_place(rows, end, conn, err);

    if (st == EF_OK && rows->queued.count)
        st = send_outbox(rows, conn, err);
    reset_rows(rows);
    return st == EF_OK ? ef__pg_sync(conn, err) : st;
}

/* --- the end of the log ----------------------------------------------------------------------- */

ef_status pg_end_read(ef__pg_rows rows, pg_end *end, ef_error *err)
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
    end->damage = pg_damage_of(row.damage, row.damaged);
    if (row.hash.len == sizeof end->hash)
        memcpy(end->hash, row.hash.ptr, row.hash.len);
    else if (end->position > 0)
        rows.status = ef_fail(err, EF_DAMAGED, "the last event has no hash");
    return ef__pg_rows_end(&rows);
}

ef_status pg_sequence_begin(pg_store *store, ef__pg_conn *conn, pg_end *end, ef_error *err)
{
    ef_status st = pj_send_sequencer_lock(conn, store->base.options.busy_ms, err);

    if (st != EF_OK)
        return st;
    return pg_end_read(pj_each_sequencer_begin(ef__pg_on_conn(conn), pg_clock(store), NULL, err),
                       end, err);
}
