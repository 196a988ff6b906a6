/*
 * verify.c - recomputing the chain.
 *
 * The quick check at open recomputes checksums and hashes. The deep one also checks what belongs to
 * an event: its seq and backward links, the entry of its id, the outbox.
 */
#include "row.h"

#include "../../base/hash.h"
#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

#define STEP_EVENTS 2000 /* events between two calls of `progress` */

struct chain {
    uint8_t hash[EF_HASH_BYTES];
    ef__buf scratch;
};

/* The state of the deep check. */
struct deep {
    struct chain chain;
    int64_t at;      /* verified up to here */
    int64_t settled; /* when it began */
    uint64_t id_sum; /* over the ids of the events up to there */
};

static ef_status fail_damaged(int64_t position, const char *what, ef_error *err)
{
    return ef_fail_numbers(err, EF_DAMAGED, position, position,
                           "the event at position %" PRId64 " is damaged: %s", position, what);
}

/* Checks checksum and hash of the event in `row`. */
static ef_status check_event(struct chain *chain, sq_state *state, ef__sq_conn *conn,
                             sqlite3_stmt *row, int64_t expected_position, ef_event *out,
                             ef_error *err)
{
    int64_t position = sqlite3_column_int64(row, SQ_COLUMN_POSITION);
    const sq_type *type = sq_state_type_by_id(state, sqlite3_column_int64(row, SQ_COLUMN_TYPE));
    uint8_t hash[EF_HASH_BYTES];
    uint64_t sum;
    sq_stream *stream;
    ef_status st;

    if (position != expected_position)
        return fail_damaged(expected_position, "it is missing", err);
    if (!type)
        return fail_damaged(position, "its type is not there", err);
    st = sq_state_stream_by_id(state, conn, sqlite3_column_int64(row, SQ_COLUMN_STREAM), &stream,
                               err);
    if (st != EF_OK)
        return st == EF_DAMAGED ? fail_damaged(position, "its stream is not there", err) : st;
    *out = (ef_event){.tenant = sq_stream_tenant(stream),
                      .stream = sq_stream_name(stream),
                      .seq = sqlite3_column_int64(row, SQ_COLUMN_SEQ),
                      .position = position,
                      .id = ef__sq_column_str(row, SQ_COLUMN_ID),
                      .type = type->name,
                      .schema = sqlite3_column_int(row, SQ_COLUMN_SCHEMA),
                      .time_us = sqlite3_column_int64(row, SQ_COLUMN_TIME),
                      .recorded_us = sqlite3_column_int64(row, SQ_COLUMN_RECORDED),
                      .data = ef__sq_column_str(row, SQ_COLUMN_DATA),
                      .meta = ef__sq_column_str(row, SQ_COLUMN_META)};
    if (sqlite3_errcode(sqlite3_db_handle(row)) == SQLITE_NOMEM ||
        !ef__event_seal(chain->hash, out, &chain->scratch, hash, &sum))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while verifying");
    if ((uint64_t)sqlite3_column_int64(row, SQ_COLUMN_SUM) != sum)
        return fail_damaged(position, "its bytes have changed", err);
    if (sqlite3_column_bytes(row, SQ_COLUMN_HASH) != EF_HASH_BYTES ||
        memcmp(sqlite3_column_blob(row, SQ_COLUMN_HASH), hash, sizeof hash) != 0)
        return fail_damaged(position, "its hash does not follow from the event before it", err);
    memcpy(chain->hash, hash, sizeof hash);
    return EF_OK;
}

/* Reads the hash at `position`, from which the chain continues. */
static ef_status start_chain(ef__sq_conn *conn, int64_t position, struct chain *chain,
                             ef_error *err)
{
    ef__sq_rows rows;
    ef_str hash;

    memset(chain->hash, 0, sizeof chain->hash);
    if (position == 0)
        return EF_OK;
    rows = sq_each_event_hash(conn, position, NULL, err);
    if (!sq_next_event_hash(&rows, &hash))
        return rows.status == EF_OK ? fail_damaged(position, "it is missing", err) : rows.status;
    if (hash.len == EF_HASH_BYTES)
        memcpy(chain->hash, hash.ptr, EF_HASH_BYTES);
    else
        rows.status = fail_damaged(position, "it has no hash", err);
    return ef__sq_rows_end(&rows);
}

ef_status sq_verify_tail(sq_writer *w, int64_t from, int64_t *out_verified, ef_error *err)
{
    struct chain chain = {.scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    int64_t last = w->state->last, at = from > last ? 0 : from;
    ef__sq_rows rows;
    ef_event event;
    ef_status st = start_chain(&w->conn, at, &chain, err);

    if (st == EF_OK) {
        rows = sq_each_event_after(&w->conn, at, err);
        for (int64_t n = 0; rows.status == EF_OK && at < last && n < SQ_VERIFY_AT_OPEN; n++) {
            if (ef__sq_rows_next(&rows))
                rows.status =
                    check_event(&chain, w->state, &w->conn, rows.stmt, at + 1, &event, err);
            else if (rows.status == EF_OK)
                rows.status = fail_damaged(at + 1, "it is missing", err);
            at += rows.status == EF_OK;
        }
        st = ef__sq_rows_end(&rows);
    }
    ef__buf_release(&chain.scratch);
    *out_verified = at;
    return st;
}

/* --- deep ------------------------------------------------------------------------------------- */

/* The backward links of an event, which event_verify has compared. */
static ef_status check_links(sqlite3_stmt *row, ef_error *err)
{
    static const char *const WRONG[] = {NULL, "its links to earlier events are wrong",
                                        "it does not follow on the event before it in its stream",
                                        "its link to an earlier event of its stream is wrong"};
    int wrong = sqlite3_column_int(row, SQ_COLUMN_LINKS);

    return wrong ? fail_damaged(sqlite3_column_int64(row, SQ_COLUMN_POSITION), WRONG[wrong], err)
                 : EF_OK;
}

/* The index of ids has each settled event once if a sum over the mixed pairs is the same on both
 * sides: independent of the order, and without a lookup per event. */
static uint64_t mix_id(int64_t hash, int64_t position)
{
    uint64_t pair[2] = {(uint64_t)hash, (uint64_t)position};

    return ef__xxh3((ef_str){(const char *)pair, sizeof pair}, 7);
}

static ef_status check_ids(const struct deep *deep, sq_reader *reader, ef_error *err)
{
    ef__sq_rows rows = sq_each_id_chunk_all(&reader->conn, NULL, err);
    uint64_t sum = 0;
    int64_t count = 0;
    ef_str chunk;
    ef_status st;

    while (sq_next_id_chunk_all(&rows, &chunk)) {
        const sq_id_entry *entries = (const sq_id_entry *)chunk.ptr;
        for (size_t i = 0; i < chunk.len / sizeof *entries; i++) {
            if (entries[i].position > deep->settled)
                continue; /* settled since the check began */
            sum += mix_id(entries[i].hash, entries[i].position);
            count++;
        }
    }
    st = ef__sq_rows_end(&rows);
    if (st == EF_OK && (sum != deep->id_sum || count != deep->settled))
        st = ef_fail_numbers(err, EF_DAMAGED, deep->settled, count,
                             "the index of ids does not fit the events up to position %" PRId64
                             ": it has %" PRId64 " entries",
                             deep->settled, count);
    return st;
}

static ef_status verify_slice(sq_store *store, sq_reader *reader, struct deep *deep, int64_t last,
                              ef_error *err)
{
    ef__sq_conn *conn = &reader->conn;
    ef__sq_rows rows = sq_each_event_verify(conn, deep->at, err);
    ef_event event;

    pthread_mutex_lock(&store->state_lock);
    for (int n = 0; rows.status == EF_OK && n < STEP_EVENTS && deep->at < last; n++) {
        if (ef__sq_rows_next(&rows))
            rows.status = check_event(&deep->chain, &store->state, conn, rows.stmt, deep->at + 1,
                                      &event, err);
        else if (rows.status == EF_OK)
            rows.status = fail_damaged(deep->at + 1, "it is missing", err);
        if (rows.status == EF_OK)
            rows.status = check_links(rows.stmt, err);
        if (rows.status != EF_OK)
            break;
        deep->at++;
        if (deep->at <= deep->settled)
            deep->id_sum += mix_id(sq_id_hash(event.tenant, event.id), deep->at);
    }
    pthread_mutex_unlock(&store->state_lock);
    return ef__sq_rows_end(&rows);
}

/* The integrity check of SQLite, the head rows, and the events of the outbox. */
static ef_status verify_rest(const struct deep *deep, bool from_start, sq_reader *reader,
                             ef_error *err)
{
    sqlite3_stmt *stmt = NULL;
    struct sq_verify_rest_row bad = {0};
    ef_status st = from_start ? check_ids(deep, reader, err) : EF_OK;

    if (st == EF_OK)
        st = sq_one_verify_rest(&reader->conn, &bad, NULL, err);
    if (st == EF_OK && bad.heads)
        st = ef_fail(err, EF_DAMAGED, "%" PRId64 " stream heads do not fit their last event",
                     bad.heads);
    if (st == EF_OK && bad.outbox)
        st = ef_fail(err, EF_DAMAGED, "%" PRId64 " outbox rows have no event", bad.outbox);
    if (st != EF_OK)
        return st;
    int rc = sqlite3_prepare_v2(reader->conn.db, "PRAGMA integrity_check(1)", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc != SQLITE_ROW)
        st = ef__sq_fail(&reader->conn, rc, "checking the database", err);
    else if (strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") != 0)
        st = ef_fail(err, EF_DAMAGED, "the database is damaged: %s",
                     (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return st;
}

/* In slices with a read transaction each, because a long one would keep the WAL from restarting.
 * Events are never changed, so no transaction around all slices is needed. */
ef_status sq_verify(ef_journal *journal, int64_t from,
                    bool (*progress)(void *context, int64_t done, int64_t total), void *context,
                    ef_verify_result *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    struct deep deep = {.chain = {.scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)},
                        .at = from > 0 ? from - 1 : 0};
    int64_t start = deep.at;
    sq_reader *reader;
    bool begun = false, go_on = true;
    ef_status st = EF_OK;

    *out = (ef_verify_result){0};
    while (st == EF_OK && go_on) {
        st = sq_read_begin(journal, &reader, err);
        if (st != EF_OK)
            break;
        pthread_mutex_lock(&store->state_lock);
        out->head = store->state.last;
        deep.settled = begun ? deep.settled : store->state.progress.settled;
        pthread_mutex_unlock(&store->state_lock);
        if (!begun)
            st = start_chain(&reader->conn, deep.at, &deep.chain, err);
        begun = true;
        if (st == EF_OK)
            st = verify_slice(store, reader, &deep, out->head, err);
        if (st == EF_OK && deep.at >= out->head) {
            st = verify_rest(&deep, start == 0, reader, err);
            go_on = false;
        }
        sq_read_end(&reader);
        if (progress && !progress(context, deep.at - start, out->head - start))
            go_on = false;
    }
    out->checked = deep.at - start;
    out->damaged = st == EF_DAMAGED && deep.at < out->head ? deep.at + 1 : 0;
    ef__buf_release(&deep.chain.scratch);
    return st;
}
