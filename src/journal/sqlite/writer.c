/*
 * writer.c - see writer.h.
 *
 * An append first plans (finds duplicates, checks expected seqs, gives seqs and positions),
 * touching only memory, and then writes. So a refused append has written nothing, and several
 * callers share a transaction without savepoints.
 */
#include "writer.h"

#include "ids.h"

#include "../../base/hash.h"
#include "../../base/limits.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <stdlib.h>

#define QUEUED_AT_ONCE 16 /* rows of outbox_insert_many */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while appending");
}

void sq_writer_init(sq_writer *w, sq_state *state, const ef_journal_options *options)
{
    *w = (sq_writer){.state = state,
                     .options = options,
                     .scratch = EF__BUF_INIT(EF_LIMIT_DATA_BYTES + EF_LIMIT_META_BYTES + 65536),
                     .guard = {.fd = -1},
                     .head = {.fd = -1}};
}

void sq_writer_release(sq_writer *w)
{
    free(w->txn.planned);
    free(w->txn.buckets);
    free(w->txn.queued);
    ef__buf_release(&w->scratch);
}

/* --- begin -------------------------------------------------------------------------------------
 */

/* Nothing has to be read when nobody else has committed since. */
static ef_status sync_picture(sq_writer *w, ef_error *err)
{
    unsigned version = 0;
    ef_status st;

    (void)sqlite3_file_control(w->conn.db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    if (w->state->doubtful)
        sq_state_forget(w->state);
    if (w->state->loaded && version == w->data_version)
        return EF_OK;
    st = sq_state_sync(w->state, &w->conn, err);
    w->data_version = version;
    return st;
}

static ef_status open_txn(sq_writer *w, ef_error *err)
{
    sq_txn *txn = &w->txn;
    ef_status st = sync_picture(w, err);

    if (st != EF_OK)
        return st;
    if (w->state->stream_count > SQ_STREAMS_CACHED)
        sq_state_drop_streams(w->state);
    txn->base = w->state->last;
    txn->count = 0;
    txn->queued_count = 0;
    if (txn->bucket_count)
        memset(txn->buckets, 0xff, txn->bucket_count * sizeof *txn->buckets);
    memcpy(txn->hash, w->state->last_hash, sizeof txn->hash);
    txn->recorded_us = w->state->last_recorded_us;
    txn->stream_last = w->state->stream_last;
    txn->progress = w->state->progress;
    txn->types_changed = false;
    return EF_OK;
}

ef_status sq_writer_begin(sq_writer *w, ef_error *err)
{
    ef_status st = sq_guard_commit_begin(&w->guard, w->conn.busy_ms, err);

    if (st != EF_OK)
        return st;
    st = sq_run(&w->conn, SQ_BEGIN, err);
    if (st == EF_BUSY)
        st = ef_fail(err, EF_BUSY, "another process kept the journal for %" PRId64 " ms",
                     w->conn.busy_ms);
    if (st != EF_OK) {
        sq_guard_commit_end(&w->guard);
        return st;
    }
    st = open_txn(w, err);
    if (st != EF_OK)
        sq_writer_rollback(w);
    return st;
}

/* --- plan ---------------------------------------------------------------------------------------
 */

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

void sq_writer_undo_to(sq_writer *w, size_t planned)
{
    sq_txn *txn = &w->txn;

    while (txn->count > planned) {
        sq_planned *p = &txn->planned[--txn->count];
        *planned_slot(txn, p->id_hash) = p->next;
        p->stream->head.seq--;
    }
}

/* An event of this same transaction with that id; NULL when there is none. */
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

static ef_status other_content(const ef__arrival *arrival, int64_t position, ef_error *err)
{
    return ef_fail_numbers(err, EF_ID_CONFLICT, 0, position,
                           "event id \"%.*s\" is at position %" PRId64
                           " already, with other content; give a new event a new id",
                           EF_STR_ARG(arrival->event.id), position);
}

static ef_status same_as_planned(sq_writer *w, const ef__arrival *arrival, const sq_planned *p,
                                 ef_place *out, ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;
    int64_t position = w->txn.base + 1 + (p - w->txn.planned);
    ef_event first = {.tenant = e->tenant,
                      .stream = e->stream,
                      .id = e->id,
                      .type = e->type,
                      .schema = e->schema,
                      .time_us = e->time_us,
                      .data = e->data,
                      .meta = e->meta};

    if (!ef__event_same(arrival, &first))
        return other_content(arrival, position, err);
    *out = (ef_place){.seq = p->seq, .position = position, .duplicate = true};
    return EF_OK;
}

static ef_status same_as_stored(sq_writer *w, const ef__arrival *arrival, int64_t position,
                                ef_place *out, ef_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    const sq_type *type;
    ef_status st = sq_find(&w->conn, SQ_EVENT_AT, position, &stmt, &row, err);

    if (st != EF_OK || !row)
        return st != EF_OK ? st
                           : ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing", position);
    sq_stream *stream;
    st = sq_state_stream_by_id(w->state, &w->conn, sqlite3_column_int64(stmt, 1), &stream, err);
    type = sq_state_type_by_id(w->state, sqlite3_column_int64(stmt, 3));
    if (st == EF_OK && !type)
        st = ef_fail(err, EF_DAMAGED, "the type of position %" PRId64 " is missing", position);
    if (st == EF_OK) {
        ef_event stored = {.tenant = sq_stream_tenant(stream),
                           .stream = sq_stream_name(stream),
                           .id = arrival->event.id,
                           .type = type->name,
                           .schema = sqlite3_column_int(stmt, 4),
                           .time_us = sqlite3_column_int64(stmt, 5),
                           .data = sq_column_str(stmt, 8),
                           .meta = sq_column_str(stmt, 9)};
        if (ef__event_same(arrival, &stored))
            *out = (ef_place){
                .seq = sqlite3_column_int64(stmt, 2), .position = position, .duplicate = true};
        else
            st = other_content(arrival, position, err);
    }
    sqlite3_reset(stmt);
    return st;
}

static ef_status check_seq(const sq_stream *stream, const ef_new_event *e, ef_error *err)
{
    int64_t expected = e->expected_seq == EF_NO_STREAM ? 0 : e->expected_seq;

    if (e->expected_seq == EF_ANY_SEQ || stream->head.seq == expected)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, e->expected_seq, stream->head.seq,
                           "stream \"%.*s\" is at seq %" PRId64 ", not at %" PRId64
                           ": read it again and decide anew",
                           EF_STR_ARG(e->stream), stream->head.seq, expected);
}

/* Plan one event. *out_new says whether it has to be written. */
static ef_status plan(sq_writer *w, const ef__arrival *arrival, ef_place *out, bool *out_new,
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
    if (w->options->types_strict && !sq_state_type(w->state, e->type))
        return ef_fail(err, EF_UNKNOWN_TYPE,
                       "event type \"%.*s\" is not registered; run: everfold type set %.*s",
                       EF_STR_ARG(e->type), EF_STR_ARG(e->type));
    st = sq_state_stream(w->state, &w->conn, e->tenant, e->stream, &stream, err);
    if (st == EF_OK)
        st = check_seq(stream, e, err);
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

/* --- write --------------------------------------------------------------------------------------
 */

static ef_status write_stream(sq_writer *w, sq_stream *stream, ef_error *err)
{
    sqlite3_stmt *stmt;
    int64_t id = w->txn.stream_last + 1;
    ef_status st = sq_stmt(&w->conn, SQ_STREAM_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    sqlite3_bind_int64(stmt, 1, id);
    sq_bind_str(stmt, 2, sq_stream_tenant(stream));
    sq_bind_str(stmt, 3, sq_stream_name(stream));
    st = sq_done(&w->conn, stmt, err);
    if (st == EF_OK) {
        w->txn.stream_last = id;
        sq_state_stream_has_id(w->state, stream, id);
        stream->has_head = true; /* it began with this transaction */
    }
    return st;
}

static ef_status type_id(sq_writer *w, ef_str name, const sq_type **out, ef_error *err)
{
    sqlite3_stmt *stmt;
    ef_status st;

    *out = sq_state_type(w->state, name);
    if (*out)
        return EF_OK;
    st = sq_stmt(&w->conn, SQ_TYPE_INSERT, &stmt, err);
    if (st != EF_OK)
        return st;
    sq_bind_str(stmt, 1, name);
    sqlite3_bind_int(stmt, 2, EF_INTENT_PROJECTION_AND_REPLAY);
    sqlite3_bind_int(stmt, 3, 0);
    st = sq_done(&w->conn, stmt, err);
    if (st == EF_OK)
        st = sq_state_type_add(w->state, sqlite3_last_insert_rowid(w->conn.db), name, err);
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

/* An alias counts as the type it stands for: that is the name readers see. */
static ef_status queue_event(sq_writer *w, const sq_type *stored, int64_t position,
                             int32_t partition, ef_error *err)
{
    const sq_type *type = &w->state->types[stored->canonical];
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

/* Write the rows of the queue, at the end of the transaction and many at a time. */
static ef_status write_queued(sq_writer *w, ef_error *err)
{
    const sq_queued *row = w->txn.queued, *end = row + w->txn.queued_count;
    sqlite3_stmt *many = NULL, *one = NULL;
    ef_status st = sq_stmt(&w->conn, SQ_OUTBOX_INSERT_MANY, &many, err);

    if (st == EF_OK)
        st = sq_stmt(&w->conn, SQ_OUTBOX_INSERT, &one, err);
    while (st == EF_OK && row < end) {
        int count = end - row >= QUEUED_AT_ONCE ? QUEUED_AT_ONCE : 1;
        sqlite3_stmt *stmt = count > 1 ? many : one;
        for (int i = 0; i < count; i++, row++) {
            sqlite3_bind_int64(stmt, 2 * i + 1, row->id);
            sqlite3_bind_int(stmt, 2 * i + 2, row->partition);
        }
        st = sq_done(&w->conn, stmt, err);
    }
    w->txn.queued_count = 0;
    return st;
}

/* Bind and insert one event, sealed into the chain behind the one before it. */
static ef_status write_event(sq_writer *w, const sq_planned *p, const sq_type *type, int64_t prev,
                             int64_t jump, ef_error *err)
{
    const ef_new_event *e = &p->arrival->event;
    ef_event event = {.tenant = e->tenant,
                      .stream = e->stream,
                      .seq = p->seq,
                      .position = w->txn.base + 1 + (p - w->txn.planned),
                      .id = e->id,
                      .type = e->type,
                      .schema = e->schema,
                      .time_us = e->time_us,
                      .recorded_us = w->txn.recorded_us,
                      .data = e->data,
                      .meta = e->meta};
    uint8_t hash[EF_HASH_BYTES];
    uint64_t sum;
    sqlite3_stmt *stmt;
    ef_status st = sq_stmt(&w->conn, SQ_EVENT_INSERT, &stmt, err);

    if (st != EF_OK)
        return st;
    if (!ef__event_seal(w->txn.hash, &event, &w->scratch, hash, &sum))
        return no_memory(err);
    sqlite3_bind_int64(stmt, 1, event.position);
    sqlite3_bind_int64(stmt, 2, p->stream->id);
    sqlite3_bind_int64(stmt, 3, p->seq);
    sqlite3_bind_int64(stmt, 4, prev);
    sqlite3_bind_int64(stmt, 5, jump);
    sqlite3_bind_int64(stmt, 6, type->id);
    sqlite3_bind_int(stmt, 7, e->schema);
    sqlite3_bind_int64(stmt, 8, e->time_us);
    sqlite3_bind_int64(stmt, 9, event.recorded_us);
    sq_bind_str(stmt, 10, e->id);
    sq_bind_str(stmt, 11, e->data);
    sq_bind_str(stmt, 12, e->meta);
    sqlite3_bind_int64(stmt, 13, (int64_t)sum);
    sqlite3_bind_blob(stmt, 14, hash, sizeof hash, SQLITE_STATIC);
    st = sq_done(&w->conn, stmt, err);
    if (st == EF_OK)
        memcpy(w->txn.hash, hash, sizeof hash);
    return st;
}

static ef_status write_planned(sq_writer *w, const sq_planned *p, ef_error *err)
{
    const sq_type *type;
    int64_t prev, jump, position = w->txn.base + 1 + (p - w->txn.planned);
    ef_status st = EF_OK;

    if (!p->stream->id)
        st = write_stream(w, p->stream, err);
    if (st == EF_OK)
        st = type_id(w, p->arrival->event.type, &type, err);
    if (st != EF_OK)
        return st;
    /* Planning counted the seqs; the ladder is climbed here, where the order of rows is fixed. */
    p->stream->head.seq = p->seq - 1;
    st = sq_head_advance(&p->stream->head, position, &prev, &jump, err);
    if (st == EF_OK)
        st = write_event(w, p, type, prev, jump, err);
    if (st == EF_OK && !w->options->outbox_off)
        st = queue_event(w, type, position, p->arrival->partition, err);
    return st;
}

ef_status sq_writer_append(sq_writer *w, const ef__arrival *events, size_t count, int64_t now_us,
                           ef_place *out, ef_error *err)
{
    size_t planned = w->txn.count;
    ef_status st = EF_OK;
    bool is_new;

    for (size_t i = 0; st == EF_OK && i < count; i++)
        st = plan(w, &events[i], &out[i], &is_new, err);
    if (st != EF_OK) {
        sq_writer_undo_to(w, planned);
        return st;
    }
    if (now_us > w->txn.recorded_us)
        w->txn.recorded_us = now_us;
    for (size_t i = planned; st == EF_OK && i < w->txn.count; i++)
        st = write_planned(w, &w->txn.planned[i], err);
    return st;
}

/* --- end ----------------------------------------------------------------------------------------
 */

ef_status sq_writer_finish(sq_writer *w, ef_error *err)
{
    ef_status st = w->txn.queued_count ? write_queued(w, err) : EF_OK;

    return st == EF_OK && w->txn.types_changed ? sq_run(&w->conn, SQ_STATE_TYPES_CHANGED, err) : st;
}

ef_status sq_writer_commit(sq_writer *w, ef_error *err)
{
    ef_status st = sq_run(&w->conn, SQ_COMMIT, err);

    /* A failed sync may or may not have reached the disk: the next open will tell. A full disk is
     * met before that, when the log is written, and SQLite has rolled back. */
    if (st == EF_IO)
        st = ef_fail(err, EF_UNSURE, "the commit failed half way: %s", sqlite3_errmsg(w->conn.db));
    return st;
}

void sq_writer_note_head(sq_writer *w, const ef_log *log)
{
    sq_head_record record = w->head.last;

    if (!w->txn.count)
        return;
    /* What we appended behind a verified head is as we made it. */
    if (record.verified == w->txn.base)
        record.verified = w->txn.base + (int64_t)w->txn.count;
    record.position = w->txn.base + (int64_t)w->txn.count;
    memcpy(record.hash, w->txn.hash, sizeof record.hash);
    if (!sq_headfile_write(&w->head, &record))
        ef__log(log, EF_LOG_WARN, "the head file could not be written",
                EF_LOG_NUMBER_FIELD("position", record.position));
}

ef_status sq_writer_believe(sq_writer *w, ef_error *err)
{
    sq_state *state = w->state;
    sq_txn *txn = &w->txn;
    ef_status st = EF_OK;

    sq_guard_commit_end(&w->guard);
    for (size_t i = 0; st == EF_OK && i < txn->count; i++) {
        const sq_planned *p = &txn->planned[i];
        int64_t position = txn->base + 1 + (int64_t)i;
        p->stream->now_seq = p->seq;
        p->stream->now_position = position;
        /* A reader may have seen the commit first and added it. */
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
    return st;
}

void sq_writer_rollback(sq_writer *w)
{
    if (!sqlite3_get_autocommit(w->conn.db))
        (void)sq_run(&w->conn, SQ_ROLLBACK, NULL);
    w->txn.count = 0;
    /* Heads, stream ids and types of the transaction are in the picture: read it anew. */
    sq_state_forget(w->state);
    sq_guard_commit_end(&w->guard);
}
