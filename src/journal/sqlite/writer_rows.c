/*
 * writer_rows.c - the rows of planned events: streams, types, events, the queue (writer.h).
 *
 * Many rows share a statement, which costs half as much as one statement per row.
 */
#include "writer.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#define EVENTS_AT_ONCE 8  /* rows of event_insert_many … */
#define EVENT_BINDS 13    /* … and the values of each */
#define QUEUED_AT_ONCE 16 /* rows of outbox_insert_many */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while appending");
}

static ef_status write_stream(sq_writer *w, sq_stream *stream, ef_error *err)
{
    int64_t id = w->txn.stream_last + 1;
    ef_status st = sq_run_stream_insert(
        &w->conn, &(struct sq_stream_insert){id, sq_stream_tenant(stream), sq_stream_name(stream)},
        err);

    if (st == EF_OK) {
        w->txn.stream_last = id;
        sq_state_stream_has_id(w->state, stream, id);
        stream->has_head = true; /* created by this transaction */
    }
    return st;
}

static ef_status type_id(sq_writer *w, const ef_new_event *event, const sq_type **out,
                         ef_error *err)
{
    ef_str name = event->type;
    ef_status st;

    *out = sq_state_type(w->state, name);
    if (*out)
        return EF_OK;
    st = sq_run_type_insert(&w->conn, name, EF_INTENT_PROJECTION_AND_REPLAY, false, &event->tenant,
                            err);
    if (st == EF_OK)
        st = sq_state_type_add(w->state, sqlite3_last_insert_rowid(w->conn.db), name,
                               &event->tenant, err);
    w->txn.types_changed = true;
    *out = st == EF_OK ? sq_state_type(w->state, name) : NULL;
    return st;
}

static ef_status queue_row(sq_txn *txn, int64_t lane, int64_t position, int32_t partition,
                           ef_error *err)
{
    if (txn->queued_count == txn->queued_cap) {
        size_t cap = txn->queued_cap ? txn->queued_cap * 2 : 256;
        sq_queued *queued = realloc(txn->queued, cap * sizeof *queued);
        if (!queued)
            return no_memory(err);
        txn->queued = queued;
        txn->queued_cap = cap;
    }
    txn->queued[txn->queued_count++] = (sq_queued){lane << 48 | position, partition};
    return EF_OK;
}

/* Lanes select by the canonical type, which is the name that readers see. */
static ef_status queue_event(sq_writer *w, const sq_type *stored, int64_t position,
                             const ef_new_event *event, ef_error *err)
{
    const sq_type *type = &w->state->types[stored->canonical];
    /* By the number of partitions in this transaction: another process may have changed it. */
    int32_t partition = ef__partition_of(event->tenant, event->stream, w->txn.progress.partitions);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->state->lane_count; i++) {
        const sq_lane *lane = &w->state->lanes[i];
        if (!lane->enabled || lane->kind == EF_LANE_KIND_PROJECTION)
            continue;
        if (lane->kind == EF_LANE_KIND_PUBLISHER &&
            (!type->publish || !ef__type_matches(type->name, lane->types)))
            continue;
        st = queue_row(&w->txn, lane->id, position, partition, err);
    }
    return st;
}

ef_status sq_writer_flush_queue(sq_writer *w, ef_error *err)
{
    const sq_queued *row = w->txn.queued, *end = row + w->txn.queued_count;
    sqlite3_stmt *many = NULL, *one = NULL;
    ef_status st = ef__sq_stmt(&w->conn, SQ_OUTBOX_INSERT_MANY, &many, err);

    if (st == EF_OK)
        st = ef__sq_stmt(&w->conn, SQ_OUTBOX_INSERT, &one, err);
    while (st == EF_OK && row < end) {
        int count = end - row >= QUEUED_AT_ONCE ? QUEUED_AT_ONCE : 1;
        sqlite3_stmt *stmt = count > 1 ? many : one;
        for (int i = 0; i < count; i++, row++) {
            sqlite3_bind_int64(stmt, 2 * i + 1, row->id);
            sqlite3_bind_int(stmt, 2 * i + 2, row->partition);
        }
        st = ef__sq_done(&w->conn, stmt, err);
    }
    w->txn.queued_count = 0;
    return st;
}

/* The links and hashes of the row of an event. */
struct row {
    int64_t prev, jump;
    uint64_t sum;
    uint8_t hash[EF_HASH_BYTES];
};

/* The recording time: now, or that of the journal it was copied from. */
static int64_t recorded_us(const sq_writer *w, const sq_planned *p)
{
    return p->arrival->sealed ? p->arrival->sealed->recorded_us : w->txn.recorded_us;
}

/* Computes the checksum and the hash of an event, from the hash before it. */
static ef_status seal_event(sq_writer *w, const sq_planned *p, int64_t position, struct row *row,
                            ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;
    ef_event event = {.tenant = e->tenant,
                      .stream = e->stream,
                      .seq = p->seq,
                      .position = position,
                      .id = e->id,
                      .type = e->type,
                      .schema = e->schema,
                      .time_us = e->time_us,
                      .recorded_us = recorded_us(w, p),
                      .data = e->data,
                      .meta = e->meta};

    if (!ef__event_seal(w->txn.hash, &event, &w->scratch, row->hash, &row->sum))
        return no_memory(err);
    memcpy(w->txn.hash, row->hash, sizeof row->hash);
    return p->arrival->sealed ? ef__sealed_hash_check(p->arrival->sealed, row->hash, err) : EF_OK;
}

/* Binds the row of an event, starting at parameter `at`. */
static void bind_event(sqlite3_stmt *stmt, int at, const sq_writer *w, const sq_planned *p,
                       int64_t type, const struct row *row)
{
    const ef_new_event *e = &p->arrival->event;

    sqlite3_bind_int64(stmt, at, p->stream->id);
    sqlite3_bind_int64(stmt, at + 1, p->seq);
    sqlite3_bind_int64(stmt, at + 2, row->prev);
    sqlite3_bind_int64(stmt, at + 3, row->jump);
    sqlite3_bind_int64(stmt, at + 4, type);
    sqlite3_bind_int(stmt, at + 5, e->schema);
    sqlite3_bind_int64(stmt, at + 6, e->time_us);
    sqlite3_bind_int64(stmt, at + 7, recorded_us(w, p));
    ef__sq_bind_str(stmt, at + 8, e->id);
    ef__sq_bind_str(stmt, at + 9, e->data);
    ef__sq_bind_str(stmt, at + 10, e->meta);
    sqlite3_bind_int64(stmt, at + 11, (int64_t)row->sum);
    sqlite3_bind_blob(stmt, at + 12, row->hash, sizeof row->hash, SQLITE_STATIC);
}

/* Prepares one planned event, without running the INSERT. */
static ef_status put_event(sq_writer *w, const sq_planned *p, sqlite3_stmt *stmt, int at,
                           struct row *row, ef_error *err)
{
    const sq_type *type;
    int64_t position = w->txn.base + 1 + (p - w->txn.planned);
    ef_status st = EF_OK;

    if (!p->stream->id)
        st = write_stream(w, p->stream, err);
    if (st == EF_OK)
        st = type_id(w, &p->arrival->event, &type, err);
    if (st != EF_OK)
        return st;
    /* Seqs were counted by the plan; the head is advanced here, where the order of rows is final.
     */
    p->stream->head.seq = p->seq - 1;
    st = sq_head_advance(&p->stream->head, position, &row->prev, &row->jump, err);
    if (st == EF_OK)
        st = seal_event(w, p, position, row, err);
    if (st != EF_OK)
        return st;
    bind_event(stmt, at, w, p, type->id, row);
    return w->options->outbox_off ? EF_OK : queue_event(w, type, position, &p->arrival->event, err);
}

/* Inserts the next `count` events by a statement for as many rows. */
static ef_status insert_events(sq_writer *w, sqlite3_stmt *stmt, size_t count, ef_error *err)
{
    sq_txn *txn = &w->txn;
    struct row rows[EVENTS_AT_ONCE];
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = put_event(w, &txn->planned[txn->written + i], stmt, 1 + EVENT_BINDS * (int)i, &rows[i],
                       err);
    if (st == EF_OK)
        st = ef__sq_done(&w->conn, stmt, err);
    txn->written += count;
    /* Hashes contain the planned positions, which are consecutive. */
    int64_t last = sqlite3_last_insert_rowid(w->conn.db);
    if (st == EF_OK && last != txn->base + (int64_t)txn->written)
        st = ef_fail(err, EF_DAMAGED,
                     "an event was stored at position %" PRId64 " instead of %" PRId64, last,
                     txn->base + (int64_t)txn->written);
    return st;
}

ef_status sq_writer_flush(sq_writer *w, ef_error *err)
{
    sqlite3_stmt *many = NULL, *one = NULL;
    size_t left = w->txn.count - w->txn.written;
    ef_status st = EF_OK;

    if (left == 0)
        return EF_OK;
    st = ef__sq_stmt(&w->conn, SQ_EVENT_INSERT_MANY, &many, err);
    if (st == EF_OK)
        st = ef__sq_stmt(&w->conn, SQ_EVENT_INSERT, &one, err);
    for (; st == EF_OK && left >= EVENTS_AT_ONCE; left -= EVENTS_AT_ONCE)
        st = insert_events(w, many, EVENTS_AT_ONCE, err);
    for (; st == EF_OK && left > 0; left--)
        st = insert_events(w, one, 1, err);
    return st;
}
