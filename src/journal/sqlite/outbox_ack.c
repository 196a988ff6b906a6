/*
 * outbox_ack.c - acknowledging a batch on SQLite: retry rows, offsets and queued rows in one
 * transaction.
 */
#include "outbox.h"

#include <assert.h>

ef_status sq_offset_get(ef__sq_conn *conn, int64_t lane, int32_t partition, ef__lane_offset *out,
                        ef_error *err)
{
    *out = (ef__lane_offset){0};
    return sq_one_lane_offset_get(
        conn, &(struct sq_lane_offset_get){.lane = lane, .partition = partition}, out, NULL, err);
}

/* --- acks ---------------------------------------------------------------------------------- */

typedef struct looked_up {
    ef__acked_event event;
    int32_t partition;
} looked_up;

typedef struct ack_job {
    const ef__ack_request *is;
    ef__held_map map;
} ack_job;

static ef_status check_upto(ef__sq_conn *conn, const sq_lane *lane, const ef_partition_lease *held,
                            ef_error *err)
{
    ef__lane_offset offset;
    ef_status st = sq_offset_get(conn, lane->id, held->partition, &offset, err);

    return st == EF_OK ? ef__upto_check(lane->name, held, &offset, err) : st;
}

/* is_acked(partition, position), for outbox.sql. */
static void is_acked(sqlite3_context *context, int count, sqlite3_value **values)
{
    const int64_t *passed = sqlite3_user_data(context);
    int64_t partition = sqlite3_value_int64(values[0]);

    (void)count;
    sqlite3_result_int(context, partition >= 0 && partition < EF_LIMIT_PARTITIONS &&
                                    sqlite3_value_int64(values[1]) <= passed[partition]);
}

ef_status sq_is_acked_register(sq_store *store, ef_error *err)
{
    return ef__sq_function(&store->writer.conn, "is_acked", 2, is_acked, store->passed, err);
}

static ef_status move_offsets(sq_store *store, const sq_lane *lane, const ack_job *job,
                              int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    int64_t lowest = INT64_MAX, highest = 0, before;
    ef__lane_offset offset;
    ef_status st = EF_OK;

    memset(store->passed, 0, sizeof store->passed);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++) {
        const ef_partition_lease *held = &job->is->held[i];
        st = sq_offset_get(conn, lane->id, held->partition, &offset, err);
        before = offset.position;
        if (st != EF_OK || !ef__lane_offset_ack(&offset, held->upto))
            continue;
        store->passed[held->partition] = held->upto;
        lowest = before < lowest ? before : lowest;
        highest = held->upto > highest ? held->upto : highest;
        st = sq_run_lane_offset_put(
            conn, &(struct sq_lane_offset_put){lane->id, held->partition, &offset, now_us}, err);
    }
    if (st != EF_OK || !highest)
        return st;
    /* Published rows of a publisher are recorded for the retention time of the lane. */
    if (lane->retain_us)
        st = sq_run_published_acked(
            conn, &(struct sq_published_acked){lane->id, lowest, highest, now_us}, err);
    return st == EF_OK ? sq_run_outbox_delete_acked(
                             conn, &(struct sq_outbox_delete_acked){lane->id, lowest, highest}, err)
                       : st;
}

/* --- retry rows ------------------------------------------------------------------------------- */

/* Reads the event at a position, its row in the queue of a lane that is acknowledged, and its retry
 * row in `lane`. Without an arena the texts are not read. */
static ef_status look_up(ef__sq_conn *conn, int64_t position, int64_t lane, const sq_lane *acked,
                         ef__arena *arena, looked_up *out, ef_error *err)
{
    ef__sq_rows rows = sq_each_retry_row_lookup(
        conn, &(struct sq_retry_row_lookup){.position = position, .lane = lane, .acked = acked->id},
        arena, err);

    *out = (looked_up){0};
    if (sq_next_retry_row_lookup(&rows, &out->event)) {
        if (acked->kind == EF_LANE_KIND_PUBLISHER)
            out->event.partitions = EF_LIMIT_PUBLISHER_PARTITIONS;
        out->partition = ef__acked_partition(&out->event);
    }
    if (!arena)
        out->event.tenant = out->event.name = out->event.row.error = (ef_str){0};
    return ef__sq_rows_end(&rows);
}

/* The lane of a retry row; that of a projection is created if it is new. */
static ef_status retry_row_lane(ef__sq_conn *conn, const sq_lane *acked_lane, const ef_retry_row *x,
                                sq_lane *out, ef_error *err)
{
    bool fits;
    ef_status st;

    if (acked_lane->kind == EF_LANE_KIND_PUBLISHER) {
        *out = *acked_lane;
        fits = ef_str_equal(x->lane, acked_lane->name);
    } else {
        st = sq_lane_find_or_make(conn, x->lane, out, err);
        if (st != EF_OK)
            return st;
        fits = out->kind == EF_LANE_KIND_PROJECTION;
    }
    return fits ? EF_OK : ef__refuse_retry_lane(x->lane, acked_lane->name, err);
}

/* Rows come and go one at a time: only the first two of a stream can have a wrong `first`. */
static ef_status update_first(ef__sq_conn *conn, int64_t lane, int64_t stream, ef_error *err)
{
    return sq_run_retry_row_set_first(
        conn, &(struct sq_retry_row_set_first){.lane = lane, .stream = stream}, err);
}

static ef_status put_retry_row(ef__sq_conn *conn, int64_t lane, int64_t position,
                               const looked_up *found, ef_error *err)
{
    const ef__acked_event *event = &found->event;
    bool is_first;
    ef_status st;

    if (event->has_filed_in)
        return sq_run_retry_row_update(
            conn, &(struct sq_retry_row_update){lane, position, &event->row}, err);
    st = sq_one_retry_row_insert(
        conn, &(struct sq_retry_row_insert){lane, position, found->partition, event, &event->row},
        &is_first, NULL, err);
    return st == EF_OK && is_first ? update_first(conn, lane, event->stream, err) : st;
}

static ef_status remove_retry_row(ef__sq_conn *conn, const sq_lane *lane, const ef_retry_row *x,
                                  const ef__acked_event *event, int64_t now_us, ef_error *err)
{
    ef_status st = EF_OK;

    if (event->row.skip && !x->skip && lane->kind == EF_LANE_KIND_PROJECTION)
        st = sq_run_skip_withdraw(/* it came during the attempt that applied the event */
                                  conn,
                                  &(struct sq_skip_withdraw){lane->name, event->stream, event->seq,
                                                             now_us},
                                  err);
    if (st == EF_OK && lane->retain_us && !event->row.skip)
        st = sq_run_published_put(conn, &(struct sq_published_put){lane->id, x->position, now_us},
                                  err);
    if (st == EF_OK)
        st = sq_run_retry_row_delete(conn, &(struct sq_retry_row_delete){lane->id, x->position},
                                     err);
    return st == EF_OK ? update_first(conn, lane->id, event->stream, err) : st;
}

static ef_status ack_retry_row(sq_store *store, const sq_lane *acked_lane, const ack_job *job,
                               const ef_retry_row *x, int64_t now_us, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    bool is_leased = job->is->held_count > 0;
    looked_up found;
    sq_lane lane;
    int h;
    ef_status st = retry_row_lane(conn, acked_lane, x, &lane, err);

    if (st == EF_OK)
        st = look_up(conn, x->position, lane.id, acked_lane, NULL, &found, err);
    if (st != EF_OK)
        return st;
    if (!found.event.has_stream)
        return ef__refuse_unknown_position(x->position, err);
    h = ef__held_find(&job->map, found.partition);
    if (h < 0 && is_leased)
        return ef__refuse_partition(x->position, found.partition, err);
    switch (ef__retry_state_ack(
        &found.event.row, x, found.event.has_filed_in, is_leased,
        found.event.has_queued_in && h >= 0 && x->position <= job->is->held[h].upto, now_us)) {
    case EF__RETRY_FILE:
        return sq_run_retry_row_add_filing(
            conn, &(struct sq_retry_row_add_filing){lane.id, x->position}, err);
    case EF__RETRY_WRITE:
        return put_retry_row(conn, lane.id, x->position, &found, err);
    case EF__RETRY_REMOVE:
        return remove_retry_row(conn, &lane, x, &found.event, now_us, err);
    default:
        return EF_OK;
    }
}

/* Creates a pending retry row of an event that was looked up. */
static ef_status add_pending(sq_store *store, int64_t lane, int64_t position, looked_up *found,
                             ef_error *err)
{
    ef_retry_row pending = {.position = position, .status = EF_ROW_PENDING};

    ef__retry_state_write(&found->event.row, &pending, false, sq_now_us(store));
    return put_retry_row(&store->writer.conn, lane, position, found, err);
}

ef_status sq_retry_row_again(sq_store *store, const sq_lane *lane, int64_t position, ef_error *err)
{
    looked_up found;
    ef_status st = look_up(&store->writer.conn, position, lane->id, lane, NULL, &found, err);

    if (st == EF_OK && !found.event.has_stream)
        st = ef__refuse_unknown_position(position, err);
    return st == EF_OK && !found.event.has_filed_in
               ? add_pending(store, lane->id, position, &found, err)
               : st;
}

/* Stores the progress of a publisher, in a format of its own. */
static ef_status set_progress(ef__sq_conn *conn, const sq_lane *lane, ef_str progress,
                              ef_error *err)
{
    ef_status st = ef__lane_publishes(lane->name, lane->kind, err);

    return st == EF_OK ? sq_run_lane_progress_set(conn, lane->id, progress, err) : st;
}

static ef_status run_ack(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                         ef_error *err)
{
    const ack_job *job = asked;
    int64_t now_us = sq_now_us(store);
    sq_lane lane;
    ef_status st = sq_lane_need(conn, job->is->lane, &lane, err);

    (void)out;
    if (st == EF_OK)
        st = sq_held_check(store, conn, &lane, job->is->held, job->is->held_count, err);
    if (st == EF_OK && job->is->progress.len)
        st = set_progress(conn, &lane, job->is->progress, err);
    for (size_t i = 0; st == EF_OK && i < job->is->held_count; i++)
        st = check_upto(conn, &lane, &job->is->held[i], err);
    for (size_t i = 0; st == EF_OK && i < job->is->retry_row_count; i++)
        st = ack_retry_row(store, &lane, job, &job->is->retry_rows[i], now_us, err);
    return st == EF_OK ? move_offsets(store, &lane, job, now_us, err) : st;
}

ef_status sq_ack(ef_journal *journal, void *connection, const ef__ack_request *mark, ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    /* An ack of "*" without retry rows needs no sync of its own. A power cut undoes it together
     * with all later unsynced commits, so the rows are claimed again. The views of the batch were
     * synced before this ack, and their watermarks drop the duplicates. So no row is deleted whose
     * views are not durable, and no event is applied twice. The next acknowledged append syncs it.
     * A publisher has no watermark, and the attempts of a retry row must not be lost: those are
     * synced. */
    bool is_apply = ef_str_equal(mark->lane, EF_STR(EF_LANE_APPLY));
    ack_job ack = {.is = mark};
    sq_job job = {.call = run_ack,
                  .asked = &ack,
                  .lazy_sync = is_apply && mark->retry_row_count == 0,
                  .keeps_state = is_apply};

    assert(!connection);
    (void)connection;
    ef__held_map_init(&ack.map, mark->held, mark->held_count);
    return sq_count_refused(store, sq_submit(store, &job, err));
}

/* --- revisions --------------------------------------------------------------------------------
 *
 * Requeue, skip and replay of rows by operators, each with an audit entry. No lease is needed: a
 * revision changes only when and how a retry row is claimed next, and the claim is made under a
 * lease.
 */

typedef struct revise_job {
    const ef__revision_request *is;
    ef_row_list *out;
    ef__listed_row *rows; /* as they are after the change */
    size_t count;
    int64_t now_us;
} revise_job;

static ef_status audit_revision(ef__sq_conn *conn, const revise_job *job, ef_error *err)
{
    const ef_audit_entry *entry = job->is->act;
    int64_t rows = (int64_t)job->count;
    ef_status st;

    if (rows == 0)
        return EF_OK;
    if (entry->id)
        return sq_run_audit_grow(conn, &(struct sq_audit_grow){.id = entry->id, .rows = rows}, err);
    st = sq_run_audit_insert(
        conn, &(struct sq_audit_insert){.at = job->now_us, .entry = entry, .rows = rows}, err);
    *job->is->out_id = sqlite3_last_insert_rowid(conn->db);
    return st;
}

static void revise_row(ef__revision what, int64_t now_us, ef__retry_state *x)
{
    if (what == EF__REVISION_REQUEUE) {
        x->attempts = 0;
        x->error = (ef_str){0};
    }
    if (what != EF__REVISION_REPLAY || x->status == EF_ROW_DEAD)
        x->status = EF_ROW_PENDING;
    x->skip = what == EF__REVISION_SKIP || (x->skip && what == EF__REVISION_REPLAY);
    x->trying = false;
    x->due_us = x->updated_us = now_us;
}

static ef_status add_skips(ef__sq_conn *conn, const revise_job *job, const ef__revised_row *row,
                           const ef_row *shown, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < row->version_count; i++)
        st = sq_run_skip_insert(conn,
                                &(ef__skip_entry){.projection = row->lane,
                                                  .version = row->versions[i],
                                                  .tenant = shown->tenant,
                                                  .stream = shown->stream,
                                                  .seq = shown->seq,
                                                  .actor = job->is->act->actor,
                                                  .reason = job->is->act->reason},
                                job->now_us, err);
    return st;
}

/* The retry row. A queued row of a publisher becomes one when it is skipped. */
static ef_status find_retry_row(sq_store *store, ef__revision what, const sq_lane *lane,
                                int64_t position, ef__arena *arena, looked_up *out, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef_status st = look_up(conn, position, lane->id, lane, arena, out, err);

    if (st != EF_OK || out->event.has_filed_in || !out->event.has_queued_in ||
        what != EF__REVISION_SKIP || lane->kind != EF_LANE_KIND_PUBLISHER)
        return st;
    st = add_pending(store, lane->id, position, out, err);
    out->event.has_filed_in = true;
    return st == EF_OK
               ? sq_run_outbox_delete(conn, &(struct sq_outbox_delete){lane->id, position}, err)
               : st;
}

/* The row after the change. */
static ef_status show_row(ef__sq_conn *conn, const revise_job *job, const ef__revised_row *row,
                          ef__listed_row *out, ef_error *err)
{
    ef__row_page page = {.lane = row->lane,
                         .any_tenant = true,
                         .status = -1,
                         .show = EF__ROWS_RETRY,
                         .from = row->position,
                         .limit = 1,
                         .now_us = job->now_us};
    const ef__listed_row *rows;
    size_t count;
    ef_status st = sq_list_row_after(conn, &page, &job->out->room->arena, &rows, &count, err);

    if (st == EF_OK && count)
        *out = rows[0];
    return st;
}

/* `lane` is that of the previous row, which is mostly the same. */
static ef_status revise_one(sq_store *store, revise_job *job, const ef__revised_row *row,
                            sq_lane *lane, ef_error *err)
{
    ef__sq_conn *conn = &store->writer.conn;
    ef__arena *arena = &job->out->room->arena;
    looked_up found;
    ef_status st = EF_OK;

    if (!lane->id || !ef_str_equal(lane->name, row->lane))
        st = sq_lane_find(conn, row->lane, lane, err);
    if (st == EF_OK)
        st = find_retry_row(store, job->is->what, lane, row->position, arena, &found, err);
    if (st != EF_OK || !found.event.has_filed_in ||
        (job->is->what == EF__REVISION_REQUEUE && found.event.row.status != EF_ROW_DEAD))
        return st;
    revise_row(job->is->what, job->now_us, &found.event.row);
    st = put_retry_row(conn, lane->id, row->position, &found, err);
    if (st == EF_OK)
        st = show_row(conn, job, row, &job->rows[job->count], err);
    if (st == EF_OK)
        st = add_skips(conn, job, row, &job->rows[job->count].row, err);
    job->count += st == EF_OK;
    return st;
}

static ef_status revise_rows(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                             ef_error *err)
{
    revise_job job = {.is = asked, .out = out, .now_us = sq_now_us(store)};
    sq_lane lane = {0};
    ef_status st = EF_OK;

    job.rows = ef__arena_zalloc(&job.out->room->arena, job.is->count + 1, sizeof *job.rows);
    if (!job.rows)
        return ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < job.is->count; i++)
        st = revise_one(store, &job, &job.is->rows[i], &lane, err);
    if (st == EF_OK)
        st = ef__rows_take(job.rows, job.count, job.count, job.out, err);
    return st == EF_OK ? audit_revision(conn, &job, err) : st;
}

ef_status sq_revise(ef_journal *journal, const ef__revision_request *revise, ef_row_list *out,
                    ef_error *err)
{
    return sq_write(journal, revise_rows, revise, out, err);
}
