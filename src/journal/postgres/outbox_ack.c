/*
 * outbox_ack.c - acknowledging a batch on PostgreSQL: retry rows, offsets and queued rows in one
 * transaction.
 */
#include "store.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* A retry row, as it is and as it will be. One for each lane and position. */
typedef struct entry {
    pg_retry_row row;
    bool is; /* will exist */
    bool changed;
    bool withdrawn; /* a skip came after the event was applied */
} entry;

typedef struct ack_job {
    pg_store *store;
    const ef__ack_request *is;
    ef__held_map map;
    ef__arena arena; /* of one attempt */
    pg_lane lane;
    ef__lane_offset *before, *now;
    entry **entries; /* of each retry row of the request; the same lane and position share one */
    entry *all;
    size_t entry_count;
    ef__pg_rows found; /* memory of the texts in entries */
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

    if (x->row.lane != y->row.lane)
        return x->row.lane < y->row.lane ? -1 : 1;
    if (x->row.position != y->row.position)
        return x->row.position < y->row.position ? -1 : 1;
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
        job->all[i].row.position = job->is->retry_rows[i].position;
        sorted[i] = &job->all[i];
        /* Neighbours often have the same lane, which is not looked up again. */
        if (i > 0 && ef_str_equal(job->is->retry_rows[i].lane, job->is->retry_rows[i - 1].lane))
            job->all[i].row.lane = job->all[i - 1].row.lane;
        else
            st = retry_row_lane(job, conn, &job->is->retry_rows[i], &job->all[i].row.lane, err);
    }
    if (st != EF_OK)
        return st;
    qsort(sorted, n, sizeof *sorted, compare_entries);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && sorted[i]->row.lane == sorted[i - 1]->row.lane &&
                    sorted[i]->row.position == sorted[i - 1]->row.position;
        job->entries[sorted[i] - job->all] =
            same ? job->entries[sorted[i - 1] - job->all] : sorted[i];
    }
    return EF_OK;
}

static ef_status read_entry(ack_job *job, entry *e, ef_error *err)
{
    if (!pj_next_retry_row_lookup(&job->found, &e->row.event) || !e->row.event.has_stream)
        return ef__refuse_unknown_position(e->row.position, err);
    e->is = e->row.event.has_filed_in;
    if (job->lane.kind == EF_LANE_KIND_PUBLISHER)
        e->row.event.partitions = EF_LIMIT_PUBLISHER_PARTITIONS;
    return EF_OK;
}

static ef_status load_entries(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_lookup lookup = {.lane = job->lane.id};
    ef_status st = create_entries(job, conn, err);

    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        ef__pg_array_int(&lookup.positions, job->all[i].row.position);
        ef__pg_array_int(&lookup.lanes, job->all[i].row.lane);
    }
    job->found = pj_each_retry_row_lookup(ef__pg_on_conn(conn), &lookup, NULL, err);
    st = job->found.status;
    for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++)
        st = read_entry(job, &job->all[i], err);
    return st;
}

/* --- changes of retry rows --------------------------------------------------------- */

static ef_status ack_retry_row(const ack_job *job, entry *e, const ef_retry_row *x, ef_error *err)
{
    ef__acked_event *event = &e->row.event;
    int32_t partition = ef__acked_partition(event);
    bool is_leased = job->is->held_count > 0;
    int h = ef__held_find(&job->map, partition);
    ef__retry_change change;

    if (h < 0 && is_leased)
        return ef__refuse_partition(x->position, partition, err);
    change = ef__retry_state_ack(
        &event->row, x, e->is, is_leased,
        event->has_queued_in && h >= 0 && x->position <= job->is->held[h].upto, job->now_us);
    if (change == EF__RETRY_KEEP)
        return EF_OK;
    e->is = change != EF__RETRY_REMOVE;
    e->changed = true;
    if (!e->is && event->row.skip && !x->skip && job->lane.kind != EF_LANE_KIND_PUBLISHER)
        e->withdrawn = true;
    return EF_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

void pg_retry_row_add(struct pj_retry_row_put *put, const pg_retry_row *row)
{
    ef__pg_array_int(&put->lanes, row->lane);
    ef__pg_array_int(&put->positions, row->position);
    ef__pg_array_int(&put->partitions, ef__acked_partition(&row->event));
    ef__pg_array_int(&put->streams, row->event.stream);
    ef__pg_array_int(&put->seqs, row->event.seq);
    ef__pg_array_int(&put->statuses, row->event.row.status);
    ef__pg_array_int(&put->skips, row->event.row.skip);
    ef__pg_array_int(&put->attempts, row->event.row.attempts);
    ef__pg_array_int(&put->dues, row->event.row.due_us);
    ef__pg_array_str(&put->errors, row->event.row.error);
    ef__pg_array_int(&put->updated, row->event.row.updated_us);
    ef__pg_array_int(&put->filed, row->event.row.filed);
    ef__pg_array_int(&put->trying, row->event.row.trying);
}

/* Rows that a publisher has published are recorded for the retention time of the lane. */
static ef_status send_published(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_published_put put = {.lane = job->lane.id, .now = job->now_us};

    if (job->lane.kind != EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        const entry *e = &job->all[i];
        if (e->changed && e->row.event.has_filed_in && !e->is && !e->row.event.row.skip)
            ef__pg_array_int(&put.positions, e->row.position);
    }
    return put.positions.count ? pj_send_published_put(conn, &put, err) : EF_OK;
}

/* Withdraws skips that came during the attempt that applied the event. */
static ef_status send_withdrawn(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_skip_withdraw withdraw = {.now = job->now_us};
    bool any = false;
    ef_status st;

    for (size_t i = 0; i < job->is->retry_row_count; i++)
        any = any || job->all[i].withdrawn;
    if (!any)
        return EF_OK;
    st = ef__pg_send(conn, PJ_SKIP_LOCK, NULL, err);
    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        const entry *e = &job->all[i];
        if (!e->withdrawn)
            continue;
        ef__pg_array_int(&withdraw.lanes, e->row.lane);
        ef__pg_array_int(&withdraw.streams, e->row.event.stream);
        ef__pg_array_int(&withdraw.seqs, e->row.event.seq);
    }
    return pj_send_skip_withdraw(conn, &withdraw, err);
}

static ef_status send_deleted(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_delete deleted = {0};

    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        const entry *e = &job->all[i];
        if (!e->changed || e->is)
            continue;
        ef__pg_array_int(&deleted.lanes, e->row.lane);
        ef__pg_array_int(&deleted.positions, e->row.position);
    }
    return deleted.lanes.count ? pj_send_retry_row_delete(conn, &deleted, err) : EF_OK;
}

static ef_status send_put(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_put put = {0};

    for (size_t i = 0; i < job->is->retry_row_count; i++)
        if (job->all[i].changed && job->all[i].is)
            pg_retry_row_add(&put, &job->all[i].row);
    return put.lanes.count ? pj_send_retry_row_put(conn, &put, err) : EF_OK;
}

static ef_status send_set_first(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    struct pj_retry_row_set_first touched = {0};

    for (size_t i = 0; i < job->is->retry_row_count; i++) {
        if (!job->all[i].changed)
            continue;
        ef__pg_array_int(&touched.lanes, job->all[i].row.lane);
        ef__pg_array_int(&touched.streams, job->all[i].row.event.stream);
    }
    return touched.lanes.count ? pj_send_retry_row_set_first(conn, &touched, err) : EF_OK;
}

static ef_status send_entries(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_deleted(job, conn, err);

    if (st == EF_OK)
        st = send_put(job, conn, err);
    if (st == EF_OK)
        st = send_set_first(job, conn, err);
    if (st == EF_OK)
        st = send_published(job, conn, err);
    return st == EF_OK ? send_withdrawn(job, conn, err) : st;
}

/* The new offsets, by partition. */
static ef__pg_array array_of_offsets(const ack_job *job)
{
    ef__pg_array offsets = {0};
    int32_t last = 0;

    for (size_t i = 0; i < job->is->held_count; i++)
        last = job->is->held[i].partition > last ? job->is->held[i].partition : last;
    for (int32_t p = 0; p <= last; p++) {
        int h = ef__held_find(&job->map, p);
        ef__pg_array_int(&offsets, h < 0 ? 0 : job->now[h].position);
    }
    return offsets;
}

static ef_status send_delete_acked(const ack_job *job, ef__pg_conn *conn, int64_t lowest,
                                   int64_t highest, ef_error *err)
{
    ef_status st = EF_OK;

    if (job->lane.kind == EF_LANE_KIND_PUBLISHER)
        st = pj_send_published_acked(conn,
                                     &(struct pj_published_acked){.lane = job->lane.id,
                                                                  .offsets = array_of_offsets(job),
                                                                  .lowest = lowest,
                                                                  .highest = highest,
                                                                  .now = job->now_us},
                                     err);
    if (st != EF_OK)
        return st;
    return pj_send_outbox_delete_acked(
        conn,
        &(struct pj_outbox_delete_acked){.lane = job->lane.id,
                                         .offsets = array_of_offsets(job),
                                         .lowest = lowest,
                                         .highest = highest},
        err);
}

static ef_status send_offsets(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    int64_t lowest = INT64_MAX, highest = 0;
    ef_status st;

    for (size_t i = 0; i < job->is->held_count; i++) {
        int64_t upto = job->is->held[i].upto;
        job->now[i] = job->before[i];
        if (!ef__lane_offset_ack(&job->now[i], upto))
            continue;
        lowest = job->before[i].position < lowest ? job->before[i].position : lowest;
        highest = upto > highest ? upto : highest;
    }
    st = pg_offsets_put(job->store, conn, job->lane.id, job->is->held, job->is->held_count,
                        job->before, job->now, err);
    return st == EF_OK && highest ? send_delete_acked(job, conn, lowest, highest, err) : st;
}

static ef_status begin_ack(ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_lane_get(job->store, conn, job->is->lane, &job->lane, err);

    if (st == EF_OK)
        st = pg_leases_send(job->store, conn, &job->lane, job->is->lane, job->is->held,
                            job->is->held_count, err);
    if (st == EF_OK)
        st = pg_offsets_send(conn, job->lane.id, job->is->held, job->is->held_count, err);
    if (st == EF_OK)
        st = pj_send_clock(conn, pg_clock(job->store), err);
    if (st == EF_OK)
        st = pg_leases_receive(conn, &job->lane, job->is->lane, job->is->held, job->is->held_count,
                               err);
    if (st == EF_OK)
        st = pg_offsets_receive(conn, &job->map, job->before, err);
    return st == EF_OK ? pj_receive_clock(conn, &job->now_us, NULL, err) : st;
}

/* Workers do not block each other, because they hold leases of different partitions. */
static ef_status lock_retry_rows(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array partitions;
    ef_status st;

    if (job->is->held_count == 0)
        return ef__pg_send(conn, PJ_RETRY_ROW_LOCK, NULL, err);
    st = ef__pg_send(conn, PJ_RETRY_ROW_LOCK_SHARED, NULL, err);
    if (st != EF_OK)
        return st;
    partitions = pg_array_of_partitions(job->is->held, job->is->held_count);
    return pj_send_retry_row_lock_partitions(
        conn, job->lane.kind == EF_LANE_KIND_PUBLISHER ? job->lane.id : 0, &partitions, err);
}

/* Stores the progress of a publisher, in a format of its own. */
static ef_status send_progress(const ack_job *job, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = ef__lane_publishes(job->is->lane, job->lane.kind, err);

    return st == EF_OK ? pj_send_lane_progress_set(conn, job->lane.id, job->is->progress, err) : st;
}

static ef_status ack_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    ack_job *job = context;
    ef_status st;

    (void)ef__pg_rows_end(&job->found);
    ef__arena_reset(&job->arena);
    job->before = ef__arena_zalloc(&job->arena, job->is->held_count + 1, sizeof *job->before);
    job->now = ef__arena_zalloc(&job->arena, job->is->held_count + 1, sizeof *job->now);
    st = job->before && job->now ? begin_ack(job, conn, err) : ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++)
        st = ef__upto_check(job->is->lane, &job->is->held[i], &job->before[i], err);
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

    ef__held_map_init(&job.map, request->held, request->held_count);
    /* Idempotent: an offset that is already set and a retry row that is already written stay. */
    st = connection ? pg_write_with(store, connection, ack_work, &job, err)
                    : pg_write_idempotent(store, ack_work, &job, err);
    (void)ef__pg_rows_end(&job.found);
    ef__arena_release(&job.arena);
    return st;
}
