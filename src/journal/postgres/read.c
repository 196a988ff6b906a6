/*
 * read.c - reading the PostgreSQL journal: events, streams, and their verification.
 */
#include "store.h"

#include "../../base/cursor.h"
#include "../../base/hash.h"
#include "../../base/limits.h"

#include <inttypes.h>

#define STREAM_CURSOR 's'
#define STEP_EVENTS 1000
#define STEP_EVENTS_FIRST 50 /* the first slice is small, in case events are large */

/* --- events of a result ----------------------------------------------------------------------- */

ef_status pg_event_read(const PGresult *result, int row, ef__buf *scratch, ef_event *out,
                        ef_str *out_type, ef_error *err)
{
    ef_str hash = ef__pg_str(result, row, 13);

    *out = (ef_event){.position = ef__pg_int(result, row, 0),
                      .tenant = ef__pg_str(result, row, 1),
                      .stream = ef__pg_str(result, row, 2),
                      .seq = ef__pg_int(result, row, 3),
                      .id = ef__pg_str(result, row, 4),
                      .type = ef__pg_str(result, row, 5),
                      .schema = (int32_t)ef__pg_int(result, row, 7),
                      .time_us = ef__pg_int(result, row, 8),
                      .recorded_us = ef__pg_int(result, row, 9),
                      .data = ef__pg_str(result, row, PG_EVENT_DATA),
                      .meta = ef__pg_str(result, row, 11)};
    if (out_type)
        *out_type = ef__pg_str(result, row, 6);
    ef__buf_reset(scratch);
    if (!ef__event_encode(out, scratch))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while reading");
    if (hash.len != sizeof out->hash ||
        (uint64_t)ef__pg_int(result, row, 12) != ef__xxh3(ef__buf_str(scratch), 0))
        return ef_fail_numbers(
            err, EF_DAMAGED, out->position, out->position,
            "the event at position %" PRId64 " is damaged: its bytes have changed", out->position);
    memcpy(out->hash, hash.ptr, hash.len);
    return EF_OK;
}

/* Copies the texts of an event into an arena. */
static bool copy_event(ef_event *event, ef_str type, ef__arena *arena)
{
    event->tenant = ef__arena_copy(arena, event->tenant);
    event->stream = ef__arena_copy(arena, event->stream);
    event->id = ef__arena_copy(arena, event->id);
    event->type = ef__arena_copy(arena, type);
    event->data = ef__arena_copy(arena, event->data);
    event->meta = ef__arena_copy(arena, event->meta);
    return event->tenant.ptr && event->stream.ptr && event->id.ptr && event->type.ptr &&
           event->data.ptr && event->meta.ptr;
}

ef_status pg_events_copy(const ef__pg_rows *rows, size_t limit, bool stored_types, ef_batch *out,
                         ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_event *events;
    ef__buf scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES);
    ef_str type;
    ef_status st = rows->status;
    int i;

    if (st != EF_OK)
        return st;
    events = ef__arena_zalloc(arena, (size_t)rows->count + 1, sizeof *events);
    if (!events)
        return ef__no_memory(err);
    for (i = 0; st == EF_OK && i < rows->count && (size_t)i < limit; i++) {
        if (ef__pg_null(rows->result, i, PG_EVENT_DATA))
            break;
        st = pg_event_read(rows->result, i, &scratch, &events[i], &type, err);
        if (st == EF_OK && !copy_event(&events[i], stored_types ? events[i].type : type, arena)) {
            st = i == 0 ? ef__no_memory(err) : EF_OK;
            break;
        }
    }
    ef__buf_release(&scratch);
    if (st != EF_OK)
        return st;
    out->events = events;
    out->count = (size_t)i;
    out->more = i < rows->count;
    return EF_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static ef_status stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                             int64_t *out_position, ef_error *err)
{
    struct pj_stream_head_get_row row = {0};
    ef_status st = pj_one_stream_head_get(
        pg_on_log(pg_store_of(journal)),
        &(struct pj_stream_head_get){.tenant = tenant, .stream = stream}, &row, NULL, err);

    *out_seq = row.seq;
    *out_position = row.position;
    return st;
}

static ef_status read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                             size_t limit, ef_batch *out, ef_error *err)
{
    ef__pg_rows rows =
        pj_each_event_of_stream(pg_on_log(pg_store_of(journal)),
                                &(struct pj_event_of_stream){.tenant = tenant,
                                                             .stream = stream,
                                                             .from_seq = from_seq,
                                                             .limit = (int64_t)limit + 1,
                                                             .bytes = PG_READ_BYTES_ENOUGH},
                                err);
    int64_t seq, position;
    ef_status st = pg_events_copy(&rows, limit, false, out, err);

    (void)ef__pg_rows_end(&rows);
    if (st != EF_OK || out->count)
        return st;
    st = stream_head(journal, tenant, stream, &seq, &position, err);
    if (st == EF_OK && seq == 0)
        st = ef__refuse_unknown("stream", stream, err);
    return st;
}

static ef_status read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                          ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ef__pg_rows rows = pj_each_event_after(pg_on_log(store),
                                           &(struct pj_event_after){
                                               .after = query->after,
                                               .limit = (int64_t)query->limit + 1,
                                               .any_tenant = query->any_tenant,
                                               .tenant = query->tenant,
                                               .type = query->type,
                                               .bytes = PG_READ_BYTES_ENOUGH,
                                           },
                                           err);
    int64_t head = rows.count ? ef__pg_int(rows.result, 0, PG_EVENT_COLUMNS) : 0;
    ef_status st = rows.status;

    /* Without an event there is one row, which has the head only. */
    if (st == EF_OK && !ef__pg_null(rows.result, 0, 0))
        st = pg_events_copy(&rows, query->limit, query->stored_types, out, err);
    (void)ef__pg_rows_end(&rows);
    if (st != EF_OK)
        return st;
    *query->out_reached = out->more             ? out->events[out->count - 1].position
                          : head > query->after ? head
                                                : query->after;
    pg_record_seen(store, head);
    return EF_OK;
}

static ef_status read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                         ef_error *err)
{
    ef__pg_rows rows = pj_each_event_by_id(
        pg_on_log(pg_store_of(journal)), &(struct pj_event_by_id){.tenant = tenant, .id = id}, err);

    if (rows.status == EF_OK && rows.count == 0)
        rows.status = ef__refuse_unknown("event", id, err);
    rows.status = pg_events_copy(&rows, 1, false, out, err);
    return ef__pg_rows_end(&rows);
}

static ef_status stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                           size_t limit, ef_stream_list *out, ef_error *err)
{
    ef__pg_rows rows;
    ef_stream *items;
    int64_t from, rest;
    ef_status st = ef__cursor_parse(STREAM_CURSOR, after, &from, &rest, err);

    if (st == EF_OK && from < 0)
        st = ef__refuse_cursor(err);
    if (st != EF_OK)
        return st;
    rows = pj_each_stream_after(
        pg_on_log(pg_store_of(journal)),
        &(struct pj_stream_after){
            .after = from, .any_tenant = any_tenant, .tenant = tenant, .limit = (int64_t)limit + 1},
        &out->room->arena, err);
    items = ef__pg_rows_items(&rows, sizeof *items);
    out->items = items;
    while (out->count < limit && pj_next_stream_after(&rows, &items[out->count]))
        out->count++;
    if (rows.status == EF_OK && (size_t)rows.count > limit)
        ef__cursor_format(STREAM_CURSOR, ef__pg_int(rows.result, (int)limit - 1, 0), 0, out->next);
    return ef__pg_rows_end(&rows);
}

/* --- verification -----------------------------------------------------------------------------
 * In slices; events are never changed, so no transaction around all of them is needed. */

typedef struct verify_job {
    pg_store *store;
    uint8_t hash[EF_HASH_BYTES];
    ef__buf scratch;
    int64_t at; /* verified up to here */
} verify_job;

static ef_status fail_damaged(int64_t position, const char *what, ef_error *err)
{
    return ef_fail_numbers(err, EF_DAMAGED, position, position,
                           "the event at position %" PRId64 " is damaged: %s", position, what);
}

static ef_status start_chain(verify_job *job, ef_error *err)
{
    ef__pg_rows rows;
    ef_str hash;

    if (job->at == 0)
        return EF_OK;
    rows = pj_each_event_hash(pg_on_log(job->store), job->at, NULL, err);
    if (rows.status == EF_OK && !pj_next_event_hash(&rows, &hash))
        rows.status = fail_damaged(job->at, "it is missing", err);
    else if (rows.status == EF_OK && hash.len != sizeof job->hash)
        rows.status = fail_damaged(job->at, "it has no hash", err);
    else if (rows.status == EF_OK)
        memcpy(job->hash, hash.ptr, hash.len);
    return ef__pg_rows_end(&rows);
}

static ef_status check_one(verify_job *job, const PGresult *result, int row, ef_error *err)
{
    uint8_t hash[EF_HASH_BYTES];
    ef_event event;
    ef_status st;

    if (ef__pg_int(result, row, 0) != job->at + 1)
        return fail_damaged(job->at + 1, "it is missing", err);
    st = pg_event_read(result, row, &job->scratch, &event, NULL, err);
    if (st != EF_OK)
        return st;
    if (!ef__event_seal(job->hash, &event, &job->scratch, hash, NULL))
        return ef_fail(err, EF_NO_MEMORY, "out of memory while verifying");
    if (memcmp(hash, event.hash, sizeof hash) != 0)
        return fail_damaged(job->at + 1, "its hash does not follow from the event before it", err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS))
        return fail_damaged(job->at + 1, "it does not follow on the event before it in its stream",
                            err);
    if (!ef__pg_bool(result, row, PG_EVENT_COLUMNS + 1))
        return fail_damaged(job->at + 1, "its id does not lead to it", err);
    memcpy(job->hash, hash, sizeof hash);
    job->at++;
    return EF_OK;
}

static ef_status verify_slice(verify_job *job, int64_t head, int64_t count, ef_error *err)
{
    ef__pg_rows rows =
        pj_each_event_verify(ef__pg_on_pool(job->store->pool),
                             &(struct pj_event_verify){.after = job->at, .limit = count}, err);

    if (rows.status == EF_OK && rows.count == 0)
        rows.status = fail_damaged(job->at + 1, "it is missing", err);
    for (int i = 0; rows.status == EF_OK && i < rows.count && job->at < head; i++)
        rows.status = check_one(job, rows.result, i, err);
    return ef__pg_rows_end(&rows);
}

static ef_status verify_rest(pg_store *store, ef_error *err)
{
    struct pj_verify_rest_row wrong = {0};
    ef_status st = pj_one_verify_rest(ef__pg_on_pool(store->pool), &wrong, NULL, err);

    if (st == EF_OK && wrong.ids)
        st = ef_fail(err, EF_DAMAGED, "%" PRId64 " ids have no event", wrong.ids);
    if (st == EF_OK && wrong.outbox)
        st = ef_fail(err, EF_DAMAGED, "%" PRId64 " outbox rows have no event", wrong.outbox);
    return st;
}

static ef_status verify_log(ef_journal *journal, int64_t from,
                            bool (*progress)(void *context, int64_t done, int64_t total),
                            void *context, ef_verify_result *out, ef_error *err)
{
    verify_job job = {.store = pg_store_of(journal),
                      .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES),
                      .at = from > 0 ? from - 1 : 0};
    int64_t start = job.at, count = STEP_EVENTS_FIRST;
    ef_head head;
    bool go_on = true;
    ef_status st = pg_head(journal, &head, err);

    *out = (ef_verify_result){.head = st == EF_OK ? head.position : 0};
    if (st == EF_OK && job.at < out->head)
        st = start_chain(&job, err);
    while (st == EF_OK && go_on && job.at < out->head) {
        st = verify_slice(&job, out->head, count, err);
        count = STEP_EVENTS;
        go_on = !progress || progress(context, job.at - start, out->head - start);
    }
    if (st == EF_OK && go_on)
        st = verify_rest(job.store, err);
    out->checked = job.at - start;
    out->damaged = st == EF_DAMAGED && job.at < out->head ? job.at + 1 : 0;
    ef__buf_release(&job.scratch);
    return st;
}

const ef__events_ops pg_events_ops = {
    .append = pg_append_events,
    .append_each = pg_append_each,
    .read_stream = read_stream,
    .read_log = read_log,
    .read_id = read_id,
    .wait = pg_wait,
    .head = pg_head,
    .stream_head = stream_head,
    .stream_ls = stream_ls,
    .verify = verify_log,
};
