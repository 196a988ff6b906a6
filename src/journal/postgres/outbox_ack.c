/*
 * outbox_ack.c - acknowledging a batch on PostgreSQL: retry rows, offsets and queued rows in one
 * transaction.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* A retry row, as it is and as it will be. One for each lane and position. */
typedef struct entry {
    int32_t lane;
    int64_t position;
    int64_t stream, seq;
    int32_t partition;
    bool queued;  /* in the acknowledged lane */
    bool was, is; /* existed before, will exist */
    bool changed;
    ef_row_status status;
    bool skip;
    int32_t attempts;
    int64_t due_us, updated_us, filed;
    bool trying;    /* an attempt is under way */
    bool withdrawn; /* a skip came after the event was applied */
    ef_str error;
} entry;

typedef struct ack_job {
    pg_store *store;
    const ef__ack_request *is;
    pg_held_map map;
    ef__arena arena; /* of one attempt */
    pg_lane lane;
    pg_offset_row *before, *now;
    entry **entries; /* of each retry row of the request; the same lane and position share one */
    entry *all;
    size_t entry_count;
    PGresult *found; /* memory of the texts in entries */
    int64_t now_us;
} ack_job;

/* --- existing retry rows ---------------------------------------------------------------- */

/* The lane of a retry row; that of a projection is created if it is new. */
static ef_status retry_row_lane(ack_job *job, ef__pg_conn *conn, const ef_retry_row *x,
                                int32_t *out, ef_error *err)
{
    pg_lane lane = job->lane;
    bool fits = ef_str_equal(x->lane, job->is->lane);
    ef_status st;

    if (job->lane.kind != EF_LANE_KIND_PUBLISHER) {
        st = pg_lane_find_or_create(job->store, conn, x->lane, &lane, err);
        if (st != EF_OK)
            return st;
        fits = lane.kind == EF_LANE_KIND_PROJECTION;
    }
    *out = lane.id;
    return fits ? EF_OK : ef__refuse_retry_lane(x->lane, job->is->lane, err);
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;

    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return (x > y) - (x < y);
}

/* An entry for each retry row; rows with the same lane and position share the first one. */
static ef_status create_entries(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    size_t n = job->is->retry_row_count;
    entry **sorted = ef__arena_zalloc(&job->arena, n + 1, sizeof *sorted);
    ef_status st = EF_OK;

    job->all = ef__arena_zalloc(&job->arena, n + 1, sizeof *job->all);
    job->entries = ef__arena_zalloc(&job->arena, n + 1, sizeof *job->entries);
    if (!sorted || !job->all || !job->entries)
        return ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < n; i++) {
        job->all[i].position = job->is->retry_rows[i].position;
        sorted[i] = &job->all[i];
        /* Neighbours often have the same lane, which is not looked up again. */
        if (i > 0 && ef_str_equal(job->is->retry_rows[i].lane, job->is->retry_rows[i - 1].lane))
            job->all[i].lane = job->all[i - 1].lane;
        else
            st = retry_row_lane(job, conn, &job->is->retry_rows[i], &job->all[i].lane, err);
    }
    if (st != EF_OK)
        return st;
    qsort(sorted, n, sizeof *sorted, compare_entries);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && sorted[i]->lane == sorted[i - 1]->lane &&
                    sorted[i]->position == sorted[i - 1]->position;
        job->entries[sorted[i] - job->all] =
            same ? job->entries[sorted[i - 1] - job->all] : sorted[i];
    }
    return EF_OK;
}

static ef_status read_entry(ack_job *job, int row, entry *e, ef_error *err)
{
    const PGresult *r = job->found;

    if (ef__pg_null(r, row, 0))
        return ef__refuse_unknown_position(e->position, err);
    e->stream = ef__pg_int(r, row, 0);
    e->seq = ef__pg_int(r, row, 1);
    e->queued = !ef__pg_null(r, row, 4);
    e->was = e->is = !ef__pg_null(r, row, 5);
    /* A queued row or retry row keeps its partition; the number of partitions may have changed. */
    e->partition = e->queued ? (int32_t)ef__pg_int(r, row, 4)
                   : e->was  ? (int32_t)ef__pg_int(r, row, 5)
                             : ef__partition_of(ef__pg_str(r, row, 2), ef__pg_str(r, row, 3),
                                                (int32_t)ef__pg_int(r, row, 13));
    e->status = (ef_row_status)ef__pg_int(r, row, 6);
    e->skip = ef__pg_bool(r, row, 7);
    e->attempts = (int32_t)ef__pg_int(r, row, 8);
    e->due_us = ef__pg_int(r, row, 9);
    e->error = ef__pg_str(r, row, 10);
    e->updated_us = ef__pg_int(r, row, 11);
    e->filed = ef__pg_int(r, row, 12);
    e->trying = ef__pg_bool(r, row, 14);
    return EF_OK;
}

static ef_status load_entries(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array positions, lanes;
    ef_status st = create_entries(job, conn, err);

    ef__pg_array_init(&positions, EF__PG_INT);
    ef__pg_array_init(&lanes, EF__PG_INT);
    for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++) {
        ef__pg_array_int(&positions, job->all[i].position);
        ef__pg_array_int(&lanes, job->all[i].lane);
    }
    ef__pg_add_array(&params, &positions);
    ef__pg_add_array(&params, &lanes);
    ef__pg_add_int(&params, job->lane.id);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_RETRY_ROW_LOOKUP, &params, &job->found, err);
    for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++)
        st = read_entry(job, (int)i, &job->all[i], err);
    ef__pg_array_release(&positions);
    ef__pg_array_release(&lanes);
    return st;
}

/* --- changes of retry rows --------------------------------------------------------- */

static void write_entry(const ack_job *job, entry *e, const ef_retry_row *x)
{
    e->status = x->status;
    e->skip = e->skip && !x->skip; /* the skip was applied; the row stays for other versions */
    /* An operator skipped it during its last attempt: it becomes pending instead of dead. */
    if (e->skip && x->status == EF_ROW_DEAD)
        e->status = EF_ROW_PENDING;
    e->attempts = x->attempts;
    e->due_us = e->status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : job->now_us;
    e->error = x->error;
    e->updated_us = job->now_us;
    e->trying = x->trying;
    if (!e->is) {
        e->filed = 0;
        e->skip = false;
    }
    e->is = e->changed = true;
}

/* Deletes the row, unless it was filed again since it was claimed: then it is due again. Without a
 * lease, a row that was filed again is not changed. */
static void finish_entry(const ack_job *job, entry *e, const ef_retry_row *x)
{
    ef_retry_row again = {.position = x->position, .status = EF_ROW_PENDING};

    if (!e->is || (job->is->held_count == 0 && e->filed != x->filed))
        return;
    if (e->filed == x->filed) {
        e->withdrawn = e->skip && !x->skip && job->lane.kind != EF_LANE_KIND_PUBLISHER;
        e->is = false;
        e->changed = true;
    } else {
        write_entry(job, e, &again);
    }
}

static ef_status ack_retry_row(const ack_job *job, entry *e, const ef_retry_row *x, ef_error *err)
{
    int h = pg_held_find(&job->map, e->partition);

    if (h < 0 && job->is->held_count)
        return ef__refuse_partition(x->position, e->partition, err);
    if (x->status == EF_ROW_DONE) {
        finish_entry(job, e, x);
        return EF_OK;
    }
    if (job->is->held_count == 0) { /* filing: an existing row is only counted */
        if (e->is) {
            e->filed++;
            e->changed = true;
        } else {
            write_entry(job, e, x);
        }
        return EF_OK;
    }
    /* A deleted row is not created again, unless this ack moves the offset past the queued event;
     * and in that case an existing row keeps its attempts. */
    if (e->is != (e->queued && x->position <= job->is->held[h].upto))
        write_entry(job, e, x);
    return EF_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

enum { PUT_COLUMNS = 13, PUT_ERROR = 9 };

static void add_put(ef__pg_array *c, const entry *e)
{
    ef__pg_array_int(&c[0], e->lane);
    ef__pg_array_int(&c[1], e->position);
    ef__pg_array_int(&c[2], e->partition);
    ef__pg_array_int(&c[3], e->stream);
    ef__pg_array_int(&c[4], e->seq);
    ef__pg_array_int(&c[5], e->status);
    ef__pg_array_int(&c[6], e->skip);
    ef__pg_array_int(&c[7], e->attempts);
    ef__pg_array_int(&c[8], e->due_us);
    ef__pg_array_str(&c[PUT_ERROR], e->error);
    ef__pg_array_int(&c[10], e->updated_us);
    ef__pg_array_int(&c[11], e->filed);
    ef__pg_array_int(&c[12], e->trying);
}

static ef_status send_columns(ef__pg_conn *conn, int which, ef__pg_array *columns, int count,
                              ef_error *err)
{
    ef__pg_params params = {0};

    if (columns[0].count == 0)
        return EF_OK;
    for (int c = 0; c < count; c++)
        ef__pg_add_array(&params, &columns[c]);
    return ef__pg_send(conn, which, &params, err);
}

/* Rows that a publisher has published are recorded for the retention time of the lane. */
static ef_status send_published(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array positions;
    ef_status st = EF_OK;

    if (job->lane.kind != EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    ef__pg_array_init(&positions, EF__PG_INT);
    for (size_t i = 0; i < job->is->retry_row_count; i++)
        if (job->all[i].changed && job->all[i].was && !job->all[i].is && !job->all[i].skip)
            ef__pg_array_int(&positions, job->all[i].position);
    ef__pg_add_int(&params, job->lane.id);
    ef__pg_add_array(&params, &positions);
    ef__pg_add_int(&params, job->now_us);
    if (positions.count)
        st = ef__pg_send(conn, PJ_PUBLISHED_PUT, &params, err);
    ef__pg_array_release(&positions);
    return st;
}

/* Withdraws skips that came during the attempt that applied the event. */
static ef_status send_withdrawn(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array columns[3];
    ef_status st = EF_OK;

    for (int c = 0; c < 3; c++)
        ef__pg_array_init(&columns[c], EF__PG_INT);
    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        const entry *e = &job->all[i];
        if (!e->withdrawn)
            continue;
        ef__pg_array_int(&columns[0], e->lane);
        ef__pg_array_int(&columns[1], e->stream);
        ef__pg_array_int(&columns[2], e->seq);
    }
    for (int c = 0; c < 3; c++)
        ef__pg_add_array(&params, &columns[c]);
    ef__pg_add_int(&params, job->now_us);
    if (columns[0].count)
        st = ef__pg_send(conn, PJ_SKIP_LOCK, NULL, err);
    if (st == EF_OK && columns[0].count)
        st = ef__pg_send(conn, PJ_SKIP_WITHDRAW, &params, err);
    for (int c = 0; c < 3; c++)
        ef__pg_array_release(&columns[c]);
    return st;
}

static ef_status send_entries(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array put[PUT_COLUMNS], deleted[2], touched[2];
    ef_status st;

    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_init(&put[c], c == PUT_ERROR ? EF__PG_TEXT : EF__PG_INT);
    for (int c = 0; c < 2; c++) {
        ef__pg_array_init(&deleted[c], EF__PG_INT);
        ef__pg_array_init(&touched[c], EF__PG_INT);
    }
    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        const entry *e = &job->all[i];
        if (!e->changed)
            continue;
        if (e->is) {
            add_put(put, e);
        } else {
            ef__pg_array_int(&deleted[0], e->lane);
            ef__pg_array_int(&deleted[1], e->position);
        }
        ef__pg_array_int(&touched[0], e->lane);
        ef__pg_array_int(&touched[1], e->stream);
    }
    st = send_columns(conn, PJ_RETRY_ROW_DELETE, deleted, 2, err);
    if (st == EF_OK)
        st = send_columns(conn, PJ_RETRY_ROW_PUT, put, PUT_COLUMNS, err);
    if (st == EF_OK)
        st = send_columns(conn, PJ_RETRY_ROW_SET_FIRST, touched, 2, err);
    if (st == EF_OK)
        st = send_published(job, conn, err);
    if (st == EF_OK)
        st = send_withdrawn(job, conn, err);
    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_release(&put[c]);
    for (int c = 0; c < 2; c++) {
        ef__pg_array_release(&deleted[c]);
        ef__pg_array_release(&touched[c]);
    }
    return st;
}

/* The new offsets, by partition. */
static void array_of_offsets(const ack_job *job, ef__pg_array *out)
{
    int32_t last = 0;

    for (size_t i = 0; i < job->is->held_count; i++)
        last = job->is->held[i].partition > last ? job->is->held[i].partition : last;
    ef__pg_array_init(out, EF__PG_INT);
    for (int32_t p = 0; p <= last; p++) {
        int h = pg_held_find(&job->map, p);
        ef__pg_array_int(out, h < 0 ? 0 : job->now[h].position);
    }
}

static void add_range(const ack_job *job, ef__pg_params *params, ef__pg_array *marks,
                      int64_t lowest, int64_t highest)
{
    ef__pg_add_int(params, job->lane.id);
    ef__pg_add_array(params, marks);
    ef__pg_add_int(params, lowest);
    ef__pg_add_int(params, highest);
}

static ef_status send_delete_acked(const ack_job *job, ef__pg_conn *conn, int64_t lowest,
                                   int64_t highest, ef_error *err)
{
    ef__pg_params params = {0}, passed = {0};
    ef__pg_array marks;
    ef_status st = EF_OK;

    array_of_offsets(job, &marks);
    add_range(job, &params, &marks, lowest, highest);
    add_range(job, &passed, &marks, lowest, highest);
    ef__pg_add_int(&passed, job->now_us);
    if (job->lane.kind == EF_LANE_KIND_PUBLISHER)
        st = ef__pg_send(conn, PJ_PUBLISHED_ACKED, &passed, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_OUTBOX_DELETE_ACKED, &params, err);
    ef__pg_array_release(&marks);
    return st;
}

static ef_status send_offsets(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    int64_t lowest = INT64_MAX, highest = 0;
    ef_status st;

    for (size_t i = 0; i < job->is->held_count; i++) {
        int64_t upto = job->is->held[i].upto;
        pg_offset_row *offset = &job->now[i];
        *offset = job->before[i];
        if (upto <= offset->position)
            continue;
        lowest = offset->position < lowest ? offset->position : lowest;
        highest = upto > highest ? upto : highest;
        offset->position = upto;
        offset->in_flight = offset->in_flight > upto ? offset->in_flight : 0;
        offset->suspect = offset->suspect > upto ? offset->suspect : 0;
    }
    st = pg_offsets_put(job->store, conn, job->lane.id, job->is->held, job->is->held_count,
                        job->before, job->now, err);
    return st == EF_OK && highest ? send_delete_acked(job, conn, lowest, highest, err) : st;
}

/* Only rows that were claimed under the same token can be acknowledged. */
static ef_status check_upto(const ack_job *job, size_t i, ef_error *err)
{
    const ef_partition_lease *held = &job->is->held[i];
    const pg_offset_row *offset = &job->before[i];
    int64_t most = offset->position;

    if (offset->in_flight_token == held->token && offset->in_flight > most)
        most = offset->in_flight;
    if (held->upto == 0 || (held->upto >= offset->position && held->upto <= most))
        return EF_OK;
    return ef__refuse_upto(job->is->lane, held, offset->position, most, err);
}

static ef_status begin_ack(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params clock = {0};
    PGresult *now = NULL;
    ef_status st = pg_lane_get(job->store, conn, job->is->lane, &job->lane, err);

    pg_add_clock(job->store, &clock);
    if (st == EF_OK)
        st = pg_leases_send(job->store, conn, &job->lane, job->is->lane, job->is->held,
                            job->is->held_count, err);
    if (st == EF_OK)
        st = pg_offsets_send(conn, job->lane.id, job->is->held, job->is->held_count, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_CLOCK, &clock, err);
    if (st == EF_OK)
        st = pg_leases_receive(conn, &job->lane, job->is->lane, job->is->held, job->is->held_count,
                               err);
    if (st == EF_OK)
        st = pg_offsets_receive(conn, &job->map, job->before, err);
    if (st == EF_OK)
        st = ef__pg_receive(conn, &now, err);
    if (st == EF_OK)
        job->now_us = ef__pg_int(now, 0, 0);
    PQclear(now);
    return st;
}

/* Workers do not block each other, because they hold leases of different partitions. */
static ef_status lock_retry_rows(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array partitions;
    ef_status st;

    if (job->is->held_count == 0)
        return ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    pg_array_of_partitions(&partitions, job->is->held, job->is->held_count);
    ef__pg_add_int(&params, job->lane.kind == EF_LANE_KIND_PUBLISHER ? job->lane.id : 0);
    ef__pg_add_array(&params, &partitions);
    st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK_SHARED, NULL, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK_PARTITIONS, &params, err);
    ef__pg_array_release(&partitions);
    return st;
}

/* Stores the progress of a publisher, in a format of its own. */
static ef_status send_progress(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st = ef__lane_publishes(job->is->lane, job->lane.kind, err);

    ef__pg_add_int(&params, job->lane.id);
    ef__pg_add_str(&params, job->is->progress);
    return st == EF_OK ? ef__pg_send(conn, PJ_LANE_PROGRESS_SET, &params, err) : st;
}

static ef_status ack_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    ack_job *job = context;
    ef_status st;

    PQclear(job->found);
    job->found = NULL;
    ef__arena_reset(&job->arena);
    job->before = ef__arena_zalloc(&job->arena, job->is->held_count + 1, sizeof *job->before);
    job->now = ef__arena_zalloc(&job->arena, job->is->held_count + 1, sizeof *job->now);
    st = job->before && job->now ? begin_ack(job, conn, err) : ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++)
        st = check_upto(job, i, err);
    if (st == EF_OK && job->is->retry_row_count) {
        st = lock_retry_rows(job, conn, err);
        if (st == EF_OK)
            st = load_entries(job, conn, err);
        for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++)
            st = ack_retry_row(job, job->entries[i], &job->is->retry_rows[i], err);
        if (st == EF_OK)
            st = send_entries(job, conn, err);
    }
    if (st == EF_OK && job->is->progress.len)
        st = send_progress(job, conn, err);
    return st == EF_OK ? send_offsets(job, conn, err) : st;
}

ef_status pg_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                 ef_error *err)
{
    pg_store *store = pg_store_of(journal);
    ack_job job = {.store = store, .is = request, .arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES)};
    ef_status st;

    pg_held_map_init(&job.map, request->held, request->held_count);
    /* Idempotent: an offset that is already set and a retry row that is already written stay. */
    st = connection ? pg_write_with(store, connection, ack_work, &job, err)
                    : pg_write_idempotent(store, ack_work, &job, err);
    PQclear(job.found);
    ef__arena_release(&job.arena);
    return st;
}
