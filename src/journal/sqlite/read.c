/*
 * read.c - reading events and streams. A read is one short read transaction on a connection from
 * the pool.
 */
#include "outbox.h"
#include "row.h"

#include "../../base/cursor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES_ENOUGH                                                                          \
    (12u << 20) /* of texts: a page ends here even if more events were requested */
#define READER_CACHE_KIB                                                                           \
    2048                    /* small: most reads are sequential, and every commit invalidates it */
#define LOG_ROWS_MAX 100000 /* rows that a filtered read checks before it returns what it has */

/* --- the pool --------------------------------------------------------------------------------- */

static void accept_event(sqlite3_context *context, int count, sqlite3_value **columns);

static ef_status open_reader(sq_store *store, sq_reader *reader, ef_error *err)
{
    ef__sq_options how = sq_options(store->base.options.read_only, store->base.options.busy_ms);
    ef_status st;

    reader->store = store;
    how.cache_kib = READER_CACHE_KIB;
    st = ef__sq_open(&reader->conn, store->path, &how, err);
    if (st == EF_OK)
        st = ef__sq_function(&reader->conn, "accept_event", SQ_COLUMN_COUNT, accept_event, reader,
                             err);
    if (st == EF_OK)
        st = sq_lease_live_register(&reader->conn, err);
    if (st != EF_OK)
        ef__sq_close(&reader->conn);
    return st;
}

static ef_status get_reader(sq_store *store, sq_reader **out, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&store->readers_lock);
    *out = store->readers;
    if (*out)
        store->readers = (*out)->next;
    pthread_mutex_unlock(&store->readers_lock);
    if (*out)
        return EF_OK;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while opening a reader");
    st = open_reader(store, *out, err);
    if (st != EF_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}

/* Nothing is read when nothing was committed since this reader has last synced the state: no other
 * one can have found anything newer. */
static ef_status sync_state(sq_reader *reader, ef_error *err)
{
    sq_state *state = &reader->store->state;
    unsigned version = sq_data_version(&reader->conn);
    ef_status st;

    if (state->loaded && !state->doubtful && version == reader->data_version)
        return EF_OK;
    st = sq_state_sync(state, &reader->conn, err);
    reader->data_version = st == EF_OK ? version : 0;
    return st;
}

/* Under the state lock no commit of this process can be added to the cached state between the start
 * of the transaction and the sync, so the state is exactly what the transaction sees. */
static ef_status begin_with_state(sq_reader *reader, ef_error *err)
{
    sq_store *store = reader->store;
    ef_status st = ef__sq_run(&reader->conn, SQ_BEGIN_READ, err);

    sq_state_bound_streams(&store->state); /* a long read can load every stream */
    if (st == EF_OK)
        st = ef__sq_run(&reader->conn, SQ_BEGIN_SNAPSHOT, err);
    if (st == EF_OK)
        st = sync_state(reader, err);
    reader->last = store->state.last;
    reader->settled = store->state.progress.settled;
    return st;
}

/* Acquires the state lock, and begins the transaction again if the state has advanced: now both are
 * of one snapshot. No statement of the reader may be active. Not locked on failure. */
static ef_status lock_state(sq_reader *reader, ef_error *err)
{
    sq_store *store = reader->store;
    ef_status st = EF_OK;

    pthread_mutex_lock(&store->state_lock);
    if (reader->last != store->state.last || reader->settled != store->state.progress.settled) {
        ef__sq_rollback(&reader->conn);
        st = begin_with_state(reader, err);
    }
    if (st != EF_OK)
        pthread_mutex_unlock(&store->state_lock);
    return st;
}

ef_status sq_read_begin(ef_journal *journal, sq_reader **out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    ef_status st;

    *out = NULL;
    if (getpid() != store->pid)
        return ef_fail(err, EF_MISUSE, "a journal may not be used in a child after fork()");
    st = get_reader(store, out, err);
    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->state_lock);
    st = begin_with_state(*out, err);
    pthread_mutex_unlock(&store->state_lock);
    if (st != EF_OK)
        sq_read_end(out);
    return st;
}

void sq_read_end(sq_reader **out)
{
    sq_reader *reader = *out;

    if (!reader)
        return;
    ef__sq_rollback(&reader->conn);
    pthread_mutex_lock(&reader->store->readers_lock);
    reader->next = reader->store->readers;
    reader->store->readers = reader;
    pthread_mutex_unlock(&reader->store->readers_lock);
    *out = NULL;
}

/* --- collecting ------------------------------------------------------------------------------- */

/* Events that are collected for a batch. */
struct gather {
    sq_store *store;
    sq_reader *reader;
    sq_rows rows;
    ef_batch *out;
    ef_event *events;
    size_t cap;
    size_t bytes_max;          /* of the batch's memory */
    const atomic_bool *wanted; /* of a sequential read, or NULL */
    size_t least;
    ef_status accepted; /* status of the last call of accept_event */
    ef_error *err;
};

static ef_status gather_open(struct gather *g, ef_journal *journal, size_t limit, ef_batch *out,
                             ef_error *err)
{
    ef_status st;

    *g = (struct gather){.store = sq_store_of(journal), .out = out, .cap = limit};
    g->events = ef__arena_alloc(&out->room->arena, limit * sizeof *g->events);
    if (!g->events)
        return ef__no_memory(err);
    out->events = g->events;
    st = sq_read_begin(journal, &g->reader, err);
    g->bytes_max = out->room->arena.used_bytes + READ_BYTES_ENOUGH;
    if (st == EF_OK)
        st = sq_rows_init(&g->rows, g->store, &g->reader->conn, &out->room->arena, limit, err);
    return st;
}

static ef_status gather_row(struct gather *g, sqlite3_stmt *row, ef_error *err)
{
    ef_status st = sq_rows_event(&g->rows, row, &g->events[g->out->count], err);

    g->out->count += st == EF_OK;
    return st;
}

static bool gather_full(const struct gather *g)
{
    size_t count = g->out->count;

    return count == g->cap || g->out->room->arena.used_bytes > g->bytes_max ||
           (g->wanted && count >= g->least && atomic_load(g->wanted));
}

static ef_status gather_at(struct gather *g, int64_t position, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_at(&g->reader->conn, position, err);

    if (ef__sq_rows_next(&rows))
        rows.status = gather_row(g, rows.stmt, err);
    else if (rows.status == EF_OK)
        rows.status =
            ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal", position);
    return ef__sq_rows_end(&rows);
}

static ef_status gather_close(struct gather *g, ef_status st)
{
    sq_rows_release(&g->rows);
    if (st != EF_OK)
        g->out->count = 0;
    sq_read_end(&g->reader);
    return st;
}

/* --- by stream -------------------------------------------------------------------------------- */

struct link {
    int64_t position, seq, prev, jump;
};

static ef_status read_link(ef__sq_conn *conn, int64_t position, struct link *out, ef_error *err)
{
    struct sq_event_link_row link;
    bool found;
    ef_status st = sq_one_event_link(conn, position, &link, &found, err);

    if (st == EF_OK && !found)
        st = ef_fail(err, EF_DAMAGED, "position %" PRId64 " is missing from the journal", position);
    if (st == EF_OK)
        *out = (struct link){position, link.seq, link.prev, link.jump};
    return st;
}

/* Follows the links back from `at` to the event with `seq`: by a jump if it does not pass the
 * event, else by a step. */
static ef_status walk_back(ef__sq_conn *conn, struct link *at, int64_t seq, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && at->seq > seq) {
        int64_t was = at->seq;
        bool far = (was & (was - 1)) < seq;
        st = read_link(conn, far || !at->jump ? at->prev : at->jump, at, err);
        if (st == EF_OK && at->seq >= was)
            st =
                ef_fail(err, EF_DAMAGED, "position %" PRId64 " leads back to itself", at->position);
    }
    return st;
}

/* The positions of the events first … last, found from the last one backward. */
static ef_status collect_positions(ef__sq_conn *conn, int64_t head_position, int64_t first,
                                   int64_t last, int64_t *positions, ef_error *err)
{
    struct link at;
    ef_status st = read_link(conn, head_position, &at, err);

    if (st == EF_OK)
        st = walk_back(conn, &at, last, err);
    while (st == EF_OK) {
        positions[at.seq - first] = at.position;
        if (at.seq == first)
            break;
        st = walk_back(conn, &at, at.seq - 1, err);
    }
    return st;
}

static ef_status committed_head(sq_reader *reader, ef_str tenant, ef_str name, int64_t *out_seq,
                                int64_t *out_position, ef_error *err)
{
    sq_store *store = reader->store;
    sq_stream *stream;
    ef_status st = lock_state(reader, err);

    if (st != EF_OK)
        return st;
    st = sq_state_stream(&store->state, &reader->conn, tenant, name, &stream, err);
    if (st == EF_OK) {
        *out_seq = stream->now_seq;
        *out_position = stream->now_position;
    }
    pthread_mutex_unlock(&store->state_lock);
    return st;
}

static ef_status read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err)
{
    struct gather g;
    int64_t seq = 0, head_position = 0, last, *positions = NULL;
    ef_status st = gather_open(&g, journal, limit, out, err);

    if (st == EF_OK)
        st = committed_head(g.reader, tenant, stream, &seq, &head_position, err);
    if (st == EF_OK && seq == 0)
        st = ef__refuse_unknown("stream", stream, err);
    if (st == EF_OK && from_seq <= seq) {
        last = seq - from_seq < (int64_t)limit ? seq : from_seq + (int64_t)limit - 1;
        positions = malloc((size_t)(last - from_seq + 1) * sizeof *positions);
        st = positions
                 ? collect_positions(&g.reader->conn, head_position, from_seq, last, positions, err)
                 : ef_fail(err, EF_NO_MEMORY, "out of memory while reading a stream");
        for (int64_t i = 0; st == EF_OK && i <= last - from_seq && !gather_full(&g); i++)
            st = gather_at(&g, positions[i], err);
        out->more = st == EF_OK && from_seq + (int64_t)out->count - 1 < seq;
    }
    free(positions);
    return gather_close(&g, st);
}

/* --- by position and id ----------------------------------------------------------------------- */

/* Whether tenant and type of a row match the filter. */
static ef_status row_wanted(struct gather *g, const ef_log_query *query, sqlite3_stmt *row,
                            bool *out, ef_error *err)
{
    sq_state *state = &g->store->state;
    sq_stream *stream;
    const sq_type *type;
    ef_status st;

    *out = true;
    if (query->any_tenant && query->type.len == 0)
        return EF_OK;
    pthread_mutex_lock(&g->store->state_lock);
    st = sq_state_stream_by_id(state, &g->reader->conn, sqlite3_column_int64(row, SQ_COLUMN_STREAM),
                               &stream, err);
    type = sq_state_type_by_id(state, sqlite3_column_int64(row, SQ_COLUMN_TYPE));
    if (st == EF_OK && !query->any_tenant)
        *out = ef_str_equal(sq_stream_tenant(stream), query->tenant);
    if (st == EF_OK && type && query->type.len)
        *out = *out && ef__type_matches(state->types[type->canonical].name, query->type);
    pthread_mutex_unlock(&g->store->state_lock);
    return st;
}

static ef_status gather_log(struct gather *g, const ef_log_query *query, ef_error *err)
{
    ef__sq_rows rows = sq_each_event_after(&g->reader->conn, query->after, err);
    bool row = true, wanted;
    int64_t looked = 0;
    ef_status st = rows.status;

    while (st == EF_OK && looked++ < LOG_ROWS_MAX && (row = ef__sq_rows_next(&rows))) {
        st = row_wanted(g, query, rows.stmt, &wanted, err);
        if (st == EF_OK && wanted && gather_full(g))
            break;
        if (st == EF_OK && wanted)
            st = gather_row(g, rows.stmt, err);
        if (st == EF_OK)
            *query->out_reached = wanted ? g->events[g->out->count - 1].position
                                         : sqlite3_column_int64(rows.stmt, SQ_COLUMN_POSITION);
    }
    rows.status = st == EF_OK ? rows.status : st;
    st = ef__sq_rows_end(&rows);
    g->out->more = st == EF_OK && row;
    return st;
}

static ef_status read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err)
{
    struct gather g;
    ef_status st = gather_open(&g, journal, query->limit, out, err);

    g.rows.stored_types = query->stored_types;
    *query->out_reached = query->after;
    if (st == EF_OK)
        st = gather_log(&g, query, err);
    return gather_close(&g, st);
}

/* The SQL function accept_event: whether the event was added to the batch. After a full batch or a
 * failure nothing more is read. */
static void accept_event(sqlite3_context *context, int count, sqlite3_value **columns)
{
    const sq_reader *reader = sqlite3_user_data(context);
    struct gather *g = reader->follows;
    bool taken = false;

    (void)count;
    if (!gather_full(g)) {
        g->accepted = sq_rows_take(&g->rows, columns, &g->events[g->out->count], g->err);
        taken = g->accepted == EF_OK;
        g->out->count += taken;
    }
    sqlite3_result_int(context, taken);
}

static ef_status gather_followed(struct gather *g, int64_t after, int64_t *out_reached,
                                 ef_error *err)
{
    ef__sq_rows rows = sq_each_event_follow(&g->reader->conn, after, err);
    bool row;
    ef_status st;

    g->err = err;
    g->reader->follows = g;
    row = ef__sq_rows_next(&rows);
    st = ef__sq_rows_end(&rows);
    g->reader->follows = NULL;
    if (st == EF_OK)
        st = g->accepted;
    g->out->more = st == EF_OK && row;
    if (st == EF_OK && g->out->count)
        *out_reached = g->events[g->out->count - 1].position;
    return st;
}

static ef_status follow_log(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                            int64_t *out_reached, ef_error *err)
{
    struct gather g;
    ef_status st = gather_open(&g, journal, follow->limit, out, err);

    g.wanted = follow->wanted;
    g.least = follow->least ? follow->least : 1; /* a read always makes progress */
    *out_reached = follow->after;
    if (st == EF_OK)
        st = gather_followed(&g, follow->after, out_reached, err);
    return gather_close(&g, st);
}

static ef_status read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err)
{
    struct gather g;
    int64_t position = 0;
    ef_status st = gather_open(&g, journal, 1, out, err);

    if (st == EF_OK)
        st = lock_state(g.reader, err);
    if (st == EF_OK) {
        st = sq_id_find(&g.store->state, &g.reader->conn, tenant, id, sq_id_hash(tenant, id),
                        &position, err);
        pthread_mutex_unlock(&g.store->state_lock);
    }
    if (st == EF_OK && !position)
        st = ef__refuse_unknown("event", id, err);
    if (st == EF_OK)
        st = gather_at(&g, position, err);
    return gather_close(&g, st);
}

/* --- heads ------------------------------------------------------------------------------------ */

ef_status sq_head_get(ef_journal *journal, ef_head *out, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->state_lock);
    *out = (ef_head){.position = store->state.last,
                     .recorded_us = store->state.last ? store->state.last_recorded_us : 0};
    memcpy(out->hash, store->state.last_hash, sizeof out->hash);
    pthread_mutex_unlock(&store->state_lock);
    return EF_OK;
}

static ef_status stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                             int64_t *out_position, ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? committed_head(reader, tenant, stream, out_seq, out_position, err) : st;
}

static ef_status list_streams(sq_reader *reader, int64_t after, ef_str tenant, bool any_tenant,
                              size_t limit, ef_stream_list *out, ef_error *err)
{
    ef_stream *items = ef__arena_alloc(&out->room->arena, limit * sizeof *items);
    struct sq_stream_after_row row;
    ef__sq_rows rows;
    int64_t id = after;
    bool more = true;
    ef_status st;

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    rows = sq_each_stream_after(&reader->conn, after, any_tenant, tenant, &out->room->arena, err);
    while ((more = sq_next_stream_after(&rows, &row)) && out->count < limit) {
        id = row.id;
        items[out->count++] = (ef_stream){.tenant = row.tenant, .name = row.name};
    }
    st = ef__sq_rows_end(&rows);
    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        st = committed_head(reader, items[i].tenant, items[i].name, &items[i].seq,
                            &items[i].position, err);
    if (st == EF_OK && more)
        ef__cursor_format('s', id, 0, out->next);
    return st;
}

static ef_status stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                           size_t limit, ef_stream_list *out, ef_error *err)
{
    SQ_READER sq_reader *reader = NULL;
    int64_t id, unused;
    ef_status st = ef__cursor_parse('s', after, &id, &unused, err);

    if (st == EF_OK)
        st = sq_read_begin(journal, &reader, err);
    return st == EF_OK ? list_streams(reader, id, tenant, any_tenant, limit, out, err) : st;
}

const ef__events_ops sq_events_ops = {
    .append = sq_append,
    .append_each = sq_append_each,
    .read_stream = read_stream,
    .read_log = read_log,
    .read_id = read_id,
    .follow = follow_log,
    .wait = sq_wait,
    .head = sq_head_get,
    .stream_head = stream_head,
    .stream_ls = stream_ls,
    .verify = sq_verify,
};
