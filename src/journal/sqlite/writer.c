/*
 * writer.c - a writing transaction on the journal: of a group of jobs (group.c), or of an
 * application (embed.c).
 *
 * An append is only planned, in memory: duplicates, expected seqs, seqs and positions. So a refused
 * append has written nothing, and several callers share a transaction without savepoints. Planned
 * events are written later, many rows per statement.
 */
#include "row.h"

#include "../../base/hash.h"
#include "../../base/limits.h"
#include "../../base/logger.h"
#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#define NEW_TYPES_BYTES (512u << 20) /* of one transaction, at most EF_LIMIT_TYPES */
#define EVENTS_AT_ONCE 8             /* rows of event_insert_many … */
#define EVENT_BINDS 13               /* … and the values of each */
#define QUEUED_AT_ONCE 16            /* rows of outbox_insert_many */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "out of memory while appending");
}

void sq_writer_init(sq_writer *w, sq_state *state, const ef_journal_options *options)
{
    *w = (sq_writer){.state = state,
                     .options = options,
                     .scratch = EF__BUF_INIT(EF_LIMIT_DATA_BYTES + EF_LIMIT_META_BYTES + 65536),
                     .guard = {.fd = -1},
                     .head = {.fd = -1},
                     .txn = {.types_new = EF__PAIR_MAP_INIT(bool, NEW_TYPES_BYTES),
                             .types_created = EF__PAIR_MAP_INIT(int64_t, NEW_TYPES_BYTES)}};
}

void sq_writer_release(sq_writer *w)
{
    free(w->txn.planned);
    free(w->txn.buckets);
    free(w->txn.queued);
    ef__pair_map_release(&w->txn.types_new);
    ef__pair_map_release(&w->txn.types_created);
    ef__buf_release(&w->scratch);
    sq_merge_release(&w->merge);
}

/* --- begin ------------------------------------------------------------------------------------ */

/* Nothing is read when nothing was committed since, except what sq_writer_publish has added. */
static ef_status sync_state(sq_writer *w, ef_error *err)
{
    unsigned version = sq_data_version(&w->conn);
    ef_status st;

    if (w->state->doubtful)
        sq_state_release(w->state);
    if (w->state->loaded && version == w->data_version)
        return EF_OK;
    st = sq_state_sync(w->state, &w->conn, err);
    w->data_version = version;
    return st;
}

static ef_status open_txn(sq_writer *w, ef_error *err)
{
    sq_txn *txn = &w->txn;
    ef_status st = sync_state(w, err);

    if (st != EF_OK)
        return st;
    w->state->streams_in_use = false;
    sq_state_bound_streams(w->state);
    w->state->streams_in_use = true;
    txn->base = w->state->last;
    txn->count = txn->written = 0;
    txn->queued_count = 0;
    if (txn->bucket_count)
        memset(txn->buckets, 0xff, txn->bucket_count * sizeof *txn->buckets);
    memcpy(txn->hash, w->state->last_hash, sizeof txn->hash);
    txn->recorded_us = w->state->last_recorded_us;
    txn->stream_last = w->state->stream_last;
    txn->progress = w->state->progress;
    txn->types_changed = false;
    if (txn->types_new.count) {
        ef__pair_map_reset(&txn->types_new);
        ef__pair_map_reset(&txn->types_created);
    }
    return EF_OK;
}

ef_status sq_writer_begin(sq_writer *w, ef_error *err)
{
    ef_status st = ef__sq_guard_commit_begin(&w->guard, w->conn.busy_ms, err);

    if (st != EF_OK)
        return st;
    st = ef__sq_run(&w->conn, SQ_BEGIN, err);
    if (st == EF_BUSY)
        st = ef_fail(err, EF_BUSY, "another process has held the journal for %" PRId64 " ms",
                     w->conn.busy_ms);
    if (st != EF_OK) {
        ef__sq_guard_commit_end(&w->guard);
        return st;
    }
    st = open_txn(w, err);
    if (st != EF_OK)
        sq_writer_rollback(w);
    return st;
}

/* --- plan ------------------------------------------------------------------------------------- */

static int32_t *planned_slot(sq_txn *txn, int64_t id_hash)
{
    return &txn->buckets[sq_bucket((uint64_t)id_hash, txn->bucket_count)];
}

static bool grow_planned(sq_txn *txn)
{
    size_t cap = txn->cap ? txn->cap * 2 : 256;
    sq_planned *planned = realloc(txn->planned, cap * sizeof *planned);
    int32_t *buckets;

    if (!planned)
        return false;
    txn->planned = planned;
    buckets = realloc(txn->buckets, cap * sizeof *buckets);
    if (!buckets)
        return false;
    txn->buckets = buckets;
    txn->cap = txn->bucket_count = cap;
    memset(buckets, 0xff, cap * sizeof *buckets);
    for (size_t i = 0; i < txn->count; i++) {
        int32_t *slot = planned_slot(txn, planned[i].id_hash);
        planned[i].next = *slot;
        *slot = (int32_t)i;
    }
    return true;
}

/* Removes the planned events after the first `planned` ones. */
static void undo_to(sq_writer *w, size_t planned)
{
    sq_txn *txn = &w->txn;

    while (txn->count > planned) {
        sq_planned *p = &txn->planned[--txn->count];
        *planned_slot(txn, p->id_hash) = p->next;
        p->stream->head.seq--;
    }
}

/* An event of the same transaction with that id; NULL: none. */
static sq_planned *find_planned(sq_txn *txn, const ef__arrival *arrival, int64_t id_hash)
{
    if (!txn->bucket_count)
        return NULL;
    for (int32_t i = *planned_slot(txn, id_hash); i >= 0; i = txn->planned[i].next) {
        sq_planned *p = &txn->planned[i];
        if (p->id_hash == id_hash && ef_str_equal(p->arrival->event.id, arrival->event.id) &&
            ef_str_equal(p->arrival->event.tenant, arrival->event.tenant))
            return p;
    }
    return NULL;
}

/* A planned event as it is stored: recorded now, or when the journal it is copied from did. */
static ef_event planned_event(const sq_writer *w, const sq_planned *p)
{
    const ef_event *sealed = p->arrival->sealed;
    ef_event event = ef__arrival_event(p->arrival, p->seq);

    event.position = w->txn.base + 1 + (p - w->txn.planned);
    event.recorded_us = sealed ? sealed->recorded_us : w->txn.recorded_us;
    return event;
}

static ef_status same_as_planned(sq_writer *w, const ef__arrival *arrival, const sq_planned *p,
                                 ef_place *out, ef_error *err)
{
    ef_event first = planned_event(w, p);

    if (!ef__event_same(arrival, &first))
        return ef__id_conflict(arrival->event.id, first.position, err);
    *out = (ef_place){.seq = p->seq, .position = first.position, .duplicate = true};
    return EF_OK;
}

static ef_status same_as_stored(sq_writer *w, const ef__arrival *arrival, int64_t position,
                                ef_place *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_at(&w->conn, position, err);
    sqlite3_stmt *stmt = rows.stmt;
    const sq_type *type;
    ef_status st;

    if (!ef__sq_rows_next(&rows))
        return rows.status != EF_OK
                   ? rows.status
                   : ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing", position);
    sq_stream *stream;
    st = sq_state_stream_by_id(w->state, &w->conn, sqlite3_column_int64(stmt, SQ_COLUMN_STREAM),
                               &stream, err);
    type = sq_state_type_by_id(w->state, sqlite3_column_int64(stmt, SQ_COLUMN_TYPE));
    if (st == EF_OK && !type)
        st = ef_fail(err, EF_DAMAGED, "the type of position %" PRId64 " is missing", position);
    if (st == EF_OK) {
        ef_event stored = {.tenant = sq_stream_tenant(stream),
                           .stream = sq_stream_name(stream),
                           .id = arrival->event.id,
                           .type = type->name,
                           .schema = sqlite3_column_int(stmt, SQ_COLUMN_SCHEMA),
                           .time_us = sqlite3_column_int64(stmt, SQ_COLUMN_TIME),
                           .data = ef__sq_column_str(stmt, SQ_COLUMN_DATA),
                           .meta = ef__sq_column_str(stmt, SQ_COLUMN_META)};
        if (ef__event_same(arrival, &stored))
            *out = (ef_place){.seq = sqlite3_column_int64(stmt, SQ_COLUMN_SEQ),
                              .position = position,
                              .duplicate = true};
        else
            st = ef__id_conflict(arrival->event.id, position, err);
    }
    rows.status = st;
    return ef__sq_rows_end(&rows);
}

/* Checks an unknown type. New types of refused appends count until the transaction ends. This can
 * refuse an append of a tenant that is close to its limit; its retry succeeds. */
static ef_status check_new_type(sq_writer *w, const ef__arrival *arrival, ef_error *err)
{
    const ef_new_event *e = &arrival->event;
    sq_txn *txn = &w->txn;
    bool is_new, ignored;
    int64_t *created;
    ef_status st;

    if (w->options->types_strict)
        return ef__refuse_unregistered_type(e->type, err);
    if (arrival->sealed || ef__pair_map_find(&txn->types_new, e->tenant, e->type))
        return EF_OK;
    created = ef__pair_map_at(&txn->types_created, e->tenant, (ef_str){0}, &ignored);
    if (!created)
        return no_memory(err);
    st = ef__type_create_check(w->options, e->tenant, e->type,
                               sq_state_types_of(w->state, e->tenant) + *created,
                               (int64_t)(w->state->type_count + txn->types_new.count), err);
    if (st == EF_OK && !ef__pair_map_at(&txn->types_new, e->tenant, e->type, &is_new))
        st = no_memory(err);
    *created += st == EF_OK;
    return st;
}

/* Plans one event. *out_new: it is not a duplicate, and has to be written. */
static ef_status plan_event(sq_writer *w, const ef__arrival *arrival, ef_place *out, bool *out_new,
                            ef_error *err)
{
    const ef_new_event *e = &arrival->event;
    sq_txn *txn = &w->txn;
    int64_t id_hash = sq_id_hash(e->tenant, e->id), position = 0;
    sq_stream *stream;
    ef_status st;

    *out_new = false;
    if (!arrival->id_made) {
        const sq_planned *p = find_planned(txn, arrival, id_hash);
        if (p)
            return same_as_planned(w, arrival, p, out, err);
        st = sq_id_find(w->state, &w->conn, e->tenant, e->id, id_hash, &position, err);
        if (st != EF_OK)
            return st;
        if (position)
            return same_as_stored(w, arrival, position, out, err);
    }
    if (!sq_state_type(w->state, e->type) && (st = check_new_type(w, arrival, err)) != EF_OK)
        return st;
    st = sq_state_stream(w->state, &w->conn, e->tenant, e->stream, &stream, err);
    if (st == EF_OK)
        st = ef__seq_check(e, stream->head.seq, err);
    if (st == EF_OK && txn->count == txn->cap && !grow_planned(txn))
        st = no_memory(err);
    if (st != EF_OK)
        return st;
    int32_t *slot = planned_slot(txn, id_hash);
    txn->planned[txn->count] = (sq_planned){arrival, stream, ++stream->head.seq, id_hash, *slot};
    *slot = (int32_t)txn->count++;
    *out = (ef_place){.seq = stream->head.seq, .position = txn->base + (int64_t)txn->count};
    *out_new = true;
    return EF_OK;
}

ef_status sq_writer_append(sq_writer *w, const ef__arrival *events, size_t count, int64_t now_us,
                           ef_place *out, ef_error *err)
{
    size_t planned = w->txn.count;
    ef_status st = EF_OK;
    bool is_new;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = plan_event(w, &events[i], &out[i], &is_new, err);
        if (st == EF_OK && events[i].sealed) {
            st = ef__sealed_place_check(events[i].sealed, out[i].position, out[i].duplicate, err);
            now_us = events[i].sealed->recorded_us;
        }
    }
    if (st != EF_OK) {
        undo_to(w, planned);
        return st;
    }
    if (now_us > w->txn.recorded_us)
        w->txn.recorded_us = now_us;
    return EF_OK;
}

/* --- rows -------------------------------------------------------------------------------------
 *
 * The rows of planned events: streams, types, events, the queue. Many rows share a statement, which
 * costs half as much as one statement per row.
 */

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
static ef_status queue_event(sq_writer *w, const sq_type *stored, const ef_event *event,
                             ef_error *err)
{
    const sq_type *type = &w->state->types[stored->canonical];
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < w->state->lane_count; i++) {
        const sq_lane *lane = &w->state->lanes[i];
        int32_t partitions = w->txn.progress.partitions; /* other processes may have changed it */
        if (!lane->enabled || lane->kind == EF_LANE_KIND_PROJECTION ||
            (lane->kind == EF_LANE_KIND_PUBLISHER &&
             (!type->publish || !ef__type_matches(type->name, lane->types))))
            continue;
        if (lane->kind == EF_LANE_KIND_PUBLISHER)
            partitions = EF_LIMIT_PUBLISHER_PARTITIONS;
        st = queue_row(&w->txn, lane->id, event->position,
                       ef__partition_of(event->tenant, event->stream, partitions), err);
    }
    return st;
}

/* Writes the queued outbox rows. */
static ef_status flush_queue(sq_writer *w, ef_error *err)
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

/* Computes the checksum and the hash of an event, from the hash before it. */
static ef_status seal_event(sq_writer *w, const ef_event *event, const ef_event *sealed,
                            struct row *row, ef_error *err)
{
    if (!ef__event_seal(w->txn.hash, event, &w->scratch, row->hash, &row->sum))
        return no_memory(err);
    memcpy(w->txn.hash, row->hash, sizeof row->hash);
    return sealed ? ef__sealed_hash_check(sealed, row->hash, err) : EF_OK;
}

/* Binds the row of an event, starting at parameter `at`. */
static void bind_event(sqlite3_stmt *stmt, int at, const ef_event *event, int64_t stream,
                       int64_t type, const struct row *row)
{
    sqlite3_bind_int64(stmt, at, stream);
    sqlite3_bind_int64(stmt, at + 1, event->seq);
    sqlite3_bind_int64(stmt, at + 2, row->prev);
    sqlite3_bind_int64(stmt, at + 3, row->jump);
    sqlite3_bind_int64(stmt, at + 4, type);
    sqlite3_bind_int(stmt, at + 5, event->schema);
    sqlite3_bind_int64(stmt, at + 6, event->time_us);
    sqlite3_bind_int64(stmt, at + 7, event->recorded_us);
    ef__sq_bind_str(stmt, at + 8, event->id);
    ef__sq_bind_str(stmt, at + 9, event->data);
    ef__sq_bind_str(stmt, at + 10, event->meta);
    sqlite3_bind_int64(stmt, at + 11, (int64_t)row->sum);
    sqlite3_bind_blob(stmt, at + 12, row->hash, sizeof row->hash, SQLITE_STATIC);
}

/* Prepares one planned event, without running the INSERT. */
static ef_status put_event(sq_writer *w, const sq_planned *p, sqlite3_stmt *stmt, int at,
                           struct row *row, ef_error *err)
{
    ef_event event = planned_event(w, p);
    const sq_type *type;
    ef_status st = EF_OK;

    if (!p->stream->id)
        st = write_stream(w, p->stream, err);
    if (st == EF_OK)
        st = type_id(w, &p->arrival->event, &type, err);
    if (st != EF_OK)
        return st;
    /* The plan counted seqs; the head is advanced here, where the order of rows is final. */
    p->stream->head.seq = p->seq - 1;
    st = sq_head_advance(&p->stream->head, event.position, &row->prev, &row->jump, err);
    if (st == EF_OK)
        st = seal_event(w, &event, p->arrival->sealed, row, err);
    if (st != EF_OK)
        return st;
    bind_event(stmt, at, &event, p->stream->id, type->id, row);
    return w->options->outbox_off ? EF_OK : queue_event(w, type, &event, err);
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

/* --- end -------------------------------------------------------------------------------------- */

ef_status sq_writer_finish(sq_writer *w, ef_error *err)
{
    ef_status st = sq_writer_flush(w, err);

    if (st == EF_OK && w->txn.queued_count)
        st = flush_queue(w, err);
    return st == EF_OK && w->txn.types_changed ? ef__sq_run(&w->conn, SQ_STATE_TYPES_CHANGED, err)
                                               : st;
}

ef_status sq_writer_commit(sq_writer *w, ef_error *err)
{
    ef_status st = ef__sq_run(&w->conn, SQ_COMMIT, err);

    /* After a failed sync the commit may be on disk or not: the next open finds out. A full disk is
     * reported before, when the WAL is written, and SQLite has rolled back. */
    if (st == EF_IO)
        st = ef_fail(err, EF_UNSURE,
                     "the commit failed, and it is unknown whether it is on disk: %s",
                     sqlite3_errmsg(w->conn.db));
    return st;
}

void sq_writer_note_head(sq_writer *w, const ef_log *log)
{
    int64_t last = w->txn.base + (int64_t)w->txn.count;

    if (w->txn.count && !sq_headfile_advance(&w->head, w->txn.base, last, w->txn.hash))
        ef__log(log, EF_LOG_WARN, "the head file could not be written",
                EF_LOG_NUMBER_FIELD("position", last));
}

ef_status sq_writer_publish(sq_writer *w, bool keeps_state, ef_error *err)
{
    sq_state *state = w->state;
    sq_txn *txn = &w->txn;
    ef_status st = EF_OK;

    ef__sq_guard_commit_end(&w->guard);
    for (size_t i = 0; st == EF_OK && i < txn->count; i++) {
        const sq_planned *p = &txn->planned[i];
        int64_t position = txn->base + 1 + (int64_t)i;
        p->stream->now_seq = p->seq;
        p->stream->now_position = position;
        /* A reader may have added the commit to the state before. */
        if (position > state->last)
            st = sq_state_add(state, position, p->stream->id, p->seq, p->id_hash, err);
    }
    memcpy(state->last_hash, txn->hash, sizeof txn->hash);
    state->last_recorded_us = txn->recorded_us;
    state->stream_last = txn->stream_last;
    if (txn->types_changed)
        state->types_loaded = ++txn->progress.types_version;
    int64_t settled = state->progress.settled;
    state->progress = txn->progress;
    if (st == EF_OK && state->progress.settled > settled)
        sq_state_settled(state, settled);
    state->streams_in_use = false;
    if (st == EF_OK && keeps_state)
        w->data_version = sq_data_version(&w->conn);
    return st;
}

void sq_writer_rollback(sq_writer *w)
{
    ef__sq_rollback(&w->conn);
    w->txn.count = 0;
    w->state->streams_in_use = false;
    /* The state contains heads, stream ids and types of the transaction: read it again. */
    sq_state_release(w->state);
    ef__sq_guard_commit_end(&w->guard);
}
