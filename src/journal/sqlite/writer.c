/*
 * writer.c - see writer.h.
 *
 * An append is only planned, in memory: duplicates, expected seqs, seqs and positions. So a refused
 * append has written nothing, and several callers share a transaction without savepoints. Planned
 * events are written later, many rows per statement (writer_rows.c).
 */
#include "writer.h"

#include "row.h"

#include "../../base/hash.h"
#include "../../base/limits.h"
#include "../../base/logger.h"

#include <inttypes.h>
#include <stdlib.h>

#define NEW_TYPES_BYTES (512u << 20) /* of one transaction, at most EF_LIMIT_TYPES */

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

/* --- begin -------------------------------------------------------------------------------------
 */

/* Changes when this connection commits, and when it begins after another one has. */
static unsigned read_data_version(const sq_writer *w)
{
    unsigned version = 0;

    (void)sqlite3_file_control(w->conn.db, "main", SQLITE_FCNTL_DATA_VERSION, &version);
    return version;
}

/* Nothing is read when nothing was committed since, except what sq_writer_publish has added. */
static ef_status sync_state(sq_writer *w, ef_error *err)
{
    unsigned version = read_data_version(w);
    ef_status st;

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
        return ef__id_conflict(arrival->event.id, position, err);
    *out = (ef_place){.seq = p->seq, .position = position, .duplicate = true};
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
        sq_writer_undo_to(w, planned);
        return st;
    }
    if (now_us > w->txn.recorded_us)
        w->txn.recorded_us = now_us;
    return EF_OK;
}

/* --- end ----------------------------------------------------------------------------------------
 */

ef_status sq_writer_finish(sq_writer *w, ef_error *err)
{
    ef_status st = sq_writer_flush(w, err);

    if (st == EF_OK && w->txn.queued_count)
        st = sq_writer_flush_queue(w, err);
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
        w->data_version = read_data_version(w);
    return st;
}

void sq_writer_rollback(sq_writer *w)
{
    ef__sq_rollback(&w->conn);
    w->txn.count = 0;
    w->state->streams_in_use = false;
    /* The state contains heads, stream ids and types of the transaction: read it again. */
    sq_state_forget(w->state);
    ef__sq_guard_commit_end(&w->guard);
}
