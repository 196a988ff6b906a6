/*
 * outbox_mark.c - settling a batch on PostgreSQL: exceptions, marks and rows in one transaction.
 */
#include "outbox.h"

#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* An exception's row, as it is and as it is to be. One for each lane and position. */
typedef struct entry {
    int32_t lane;
    int64_t position;
    int64_t stream, seq;
    int32_t partition;
    bool queued;  /* in the lane that is marked */
    bool was, is; /* there before, there now */
    bool changed;
    ef_row_status status;
    bool skip;
    int32_t attempts;
    int64_t due_us, updated_us, filed;
    bool trying;    /* an attempt is under way */
    bool withdrawn; /* its skip came too late */
    ef_str error;
} entry;

typedef struct marking {
    pg_store *store;
    const ef__marking *is;
    pg_held_map map;
    ef__arena arena; /* of one try */
    pg_lane lane;
    pg_mark_row *marks, *notes;
    entry **entries; /* of each exception; the same lane and position have the same */
    entry *all;
    size_t entry_count;
    PGresult *found; /* what entries point into */
    int64_t now_us;
} marking;

/* --- exceptions: what there is ---------------------------------------------------------------- */

/* The lane of an exception; made when it is a projection's and new. */
static ef_status exception_lane(marking *m, ef__pg_conn *conn, const ef_exception *x, int32_t *out,
                                ef_error *err)
{
    pg_lane lane = m->lane;
    bool fits = ef_str_equal(x->lane, m->is->lane);
    ef_status st;

    if (m->lane.kind != EF_LANE_KIND_PUBLISHER) {
        st = pg_lane_find_or_make(m->store, conn, x->lane, &lane, err);
        if (st != EF_OK)
            return st;
        fits = lane.kind == EF_LANE_KIND_PROJECTION;
    }
    *out = lane.id;
    return fits ? EF_OK
                : ef_fail(err, EF_BAD_INPUT,
                          "an exception of lane \"%.*s\" cannot be marked in lane \"%.*s\"",
                          EF_STR_ARG(x->lane), EF_STR_ARG(m->is->lane));
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

/* An entry for each exception; a second one of the same lane and position gets the first's. */
static ef_status make_entries(marking *m, ef__pg_conn *conn, ef_error *err)
{
    size_t n = m->is->exception_count;
    entry **sorted = ef__arena_zalloc(&m->arena, n + 1, sizeof *sorted);
    ef_status st = EF_OK;

    m->all = ef__arena_zalloc(&m->arena, n + 1, sizeof *m->all);
    m->entries = ef__arena_zalloc(&m->arena, n + 1, sizeof *m->entries);
    if (!sorted || !m->all || !m->entries)
        return ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < n; i++) {
        m->all[i].position = m->is->exceptions[i].position;
        sorted[i] = &m->all[i];
        /* Lanes come in runs: asking again for the one before would cost a look each. */
        if (i > 0 && ef_str_equal(m->is->exceptions[i].lane, m->is->exceptions[i - 1].lane))
            m->all[i].lane = m->all[i - 1].lane;
        else
            st = exception_lane(m, conn, &m->is->exceptions[i], &m->all[i].lane, err);
    }
    if (st != EF_OK)
        return st;
    qsort(sorted, n, sizeof *sorted, compare_entries);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && sorted[i]->lane == sorted[i - 1]->lane &&
                    sorted[i]->position == sorted[i - 1]->position;
        m->entries[sorted[i] - m->all] = same ? m->entries[sorted[i - 1] - m->all] : sorted[i];
    }
    return EF_OK;
}

static ef_status read_entry(marking *m, int row, entry *e, ef_error *err)
{
    const PGresult *r = m->found;

    if (ef__pg_null(r, row, 0))
        return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64, e->position);
    e->stream = ef__pg_int(r, row, 0);
    e->seq = ef__pg_int(r, row, 1);
    e->queued = !ef__pg_null(r, row, 4);
    e->was = e->is = !ef__pg_null(r, row, 5);
    /* What is queued or filed keeps its partition; the number of partitions may have changed. */
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

static ef_status load_entries(marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array positions, lanes;
    ef_status st = make_entries(m, conn, err);

    ef__pg_array_init(&positions, EF__PG_INT);
    ef__pg_array_init(&lanes, EF__PG_INT);
    for (size_t i = 0; st == EF_OK && i < m->is->exception_count; i++) {
        ef__pg_array_int(&positions, m->all[i].position);
        ef__pg_array_int(&lanes, m->all[i].lane);
    }
    ef__pg_add_array(&params, &positions);
    ef__pg_add_array(&params, &lanes);
    ef__pg_add_int(&params, m->lane.id);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_EXCEPTION_LOOK, &params, &m->found, err);
    for (size_t i = 0; st == EF_OK && i < m->is->exception_count; i++)
        st = read_entry(m, (int)i, &m->all[i], err);
    ef__pg_array_release(&positions);
    ef__pg_array_release(&lanes);
    return st;
}

/* --- exceptions: what becomes of them --------------------------------------------------------- */

static void write_entry(const marking *m, entry *e, const ef_exception *x)
{
    e->status = x->status;
    e->skip = e->skip && !x->skip; /* it was passed where it held; this is about the others */
    /* An operator's skip came while its last attempt was under way: it is passed, it does not die.
     */
    if (e->skip && x->status == EF_ROW_DEAD)
        e->status = EF_ROW_PENDING;
    e->attempts = x->attempts;
    e->due_us = e->status == EF_ROW_DEAD ? 0 : x->due_us ? x->due_us : m->now_us;
    e->error = x->error;
    e->updated_us = m->now_us;
    e->trying = x->trying;
    if (!e->is) {
        e->filed = 0;
        e->skip = false;
    }
    e->is = e->changed = true;
}

/* It is over, unless it was filed again since it was taken: then it is due anew, and one that is
 * removed without a lease stays as it is. */
static void finish_entry(const marking *m, entry *e, const ef_exception *x)
{
    ef_exception again = {.position = x->position, .status = EF_ROW_PENDING};

    if (!e->is || (m->is->held_count == 0 && e->filed != x->filed))
        return;
    if (e->filed == x->filed) {
        e->withdrawn = e->skip && !x->skip && m->lane.kind != EF_LANE_KIND_PUBLISHER;
        e->is = false;
        e->changed = true;
    } else {
        write_entry(m, e, &again);
    }
}

static ef_status settle(const marking *m, entry *e, const ef_exception *x, ef_error *err)
{
    int h = pg_held_find(&m->map, e->partition);

    if (h < 0 && m->is->held_count)
        return ef_fail(err, EF_BAD_INPUT,
                       "position %" PRId64 " is in partition %" PRId32 ", which is not held",
                       x->position, e->partition);
    if (x->status == EF_ROW_DONE) {
        finish_entry(m, e, x);
        return EF_OK;
    }
    if (m->is->held_count == 0) { /* filed: one that is there stays as it is */
        if (e->is) {
            e->filed++;
            e->changed = true;
        } else {
            write_entry(m, e, x);
        }
        return EF_OK;
    }
    /* One whose row is gone stays gone, unless this call moves the mark past the queued event; and
     * then one that was filed before stays as it is, with the attempts that it has had. */
    if (e->is != (e->queued && x->position <= m->is->held[h].upto))
        write_entry(m, e, x);
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

/* What a publisher is through with is kept for a while. */
static ef_status send_published(const marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array positions;
    ef_status st = EF_OK;

    if (m->lane.kind != EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    ef__pg_array_init(&positions, EF__PG_INT);
    for (size_t i = 0; i < m->is->exception_count; i++)
        if (m->all[i].changed && m->all[i].was && !m->all[i].is && !m->all[i].skip)
            ef__pg_array_int(&positions, m->all[i].position);
    ef__pg_add_int(&params, m->lane.id);
    ef__pg_add_array(&params, &positions);
    ef__pg_add_int(&params, m->now_us);
    if (positions.count)
        st = ef__pg_send(conn, PJ_PUBLISHED_PUT, &params, err);
    ef__pg_array_release(&positions);
    return st;
}

/* Skips that came while the attempt was under way that applied the event. */
static ef_status send_withdrawn(const marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array columns[3];
    ef_status st = EF_OK;

    for (int c = 0; c < 3; c++)
        ef__pg_array_init(&columns[c], EF__PG_INT);
    for (size_t i = 0; i < m->is->exception_count; i++) {
        const entry *e = &m->all[i];
        if (!e->withdrawn)
            continue;
        ef__pg_array_int(&columns[0], e->lane);
        ef__pg_array_int(&columns[1], e->stream);
        ef__pg_array_int(&columns[2], e->seq);
    }
    for (int c = 0; c < 3; c++)
        ef__pg_add_array(&params, &columns[c]);
    ef__pg_add_int(&params, m->now_us);
    if (columns[0].count)
        st = ef__pg_send(conn, PJ_SKIP_LOCK, NULL, err);
    if (st == EF_OK && columns[0].count)
        st = ef__pg_send(conn, PJ_SKIP_WITHDRAW, &params, err);
    for (int c = 0; c < 3; c++)
        ef__pg_array_release(&columns[c]);
    return st;
}

static ef_status send_entries(marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_array put[PUT_COLUMNS], gone[2], touched[2];
    ef_status st;

    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_init(&put[c], c == PUT_ERROR ? EF__PG_TEXT : EF__PG_INT);
    for (int c = 0; c < 2; c++) {
        ef__pg_array_init(&gone[c], EF__PG_INT);
        ef__pg_array_init(&touched[c], EF__PG_INT);
    }
    for (size_t i = 0; i < m->is->exception_count; i++) {
        const entry *e = &m->all[i];
        if (!e->changed)
            continue;
        if (e->is) {
            add_put(put, e);
        } else {
            ef__pg_array_int(&gone[0], e->lane);
            ef__pg_array_int(&gone[1], e->position);
        }
        ef__pg_array_int(&touched[0], e->lane);
        ef__pg_array_int(&touched[1], e->stream);
    }
    st = send_columns(conn, PJ_EXCEPTION_DELETE, gone, 2, err);
    if (st == EF_OK)
        st = send_columns(conn, PJ_EXCEPTION_PUT, put, PUT_COLUMNS, err);
    if (st == EF_OK)
        st = send_columns(conn, PJ_EXCEPTION_FIRST, touched, 2, err);
    if (st == EF_OK)
        st = send_published(m, conn, err);
    if (st == EF_OK)
        st = send_withdrawn(m, conn, err);
    for (int c = 0; c < PUT_COLUMNS; c++)
        ef__pg_array_release(&put[c]);
    for (int c = 0; c < 2; c++) {
        ef__pg_array_release(&gone[c]);
        ef__pg_array_release(&touched[c]);
    }
    return st;
}

/* Where the marks are now, by partition. */
static void array_of_marks(const marking *m, ef__pg_array *out)
{
    int32_t last = 0;

    for (size_t i = 0; i < m->is->held_count; i++)
        last = m->is->held[i].partition > last ? m->is->held[i].partition : last;
    ef__pg_array_init(out, EF__PG_INT);
    for (int32_t p = 0; p <= last; p++) {
        int h = pg_held_find(&m->map, p);
        ef__pg_array_int(out, h < 0 ? 0 : m->notes[h].position);
    }
}

static void add_range(const marking *m, ef__pg_params *params, ef__pg_array *marks, int64_t lowest,
                      int64_t highest)
{
    ef__pg_add_int(params, m->lane.id);
    ef__pg_add_array(params, marks);
    ef__pg_add_int(params, lowest);
    ef__pg_add_int(params, highest);
}

static ef_status send_drop(const marking *m, ef__pg_conn *conn, int64_t lowest, int64_t highest,
                           ef_error *err)
{
    ef__pg_params params = {0}, passed = {0};
    ef__pg_array marks;
    ef_status st = EF_OK;

    array_of_marks(m, &marks);
    add_range(m, &params, &marks, lowest, highest);
    add_range(m, &passed, &marks, lowest, highest);
    ef__pg_add_int(&passed, m->now_us);
    if (m->lane.kind == EF_LANE_KIND_PUBLISHER)
        st = ef__pg_send(conn, PJ_PUBLISHED_PASSED, &passed, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_OUTBOX_DROP, &params, err);
    ef__pg_array_release(&marks);
    return st;
}

static ef_status send_marks(marking *m, ef__pg_conn *conn, ef_error *err)
{
    int64_t lowest = INT64_MAX, highest = 0;
    ef_status st;

    for (size_t i = 0; i < m->is->held_count; i++) {
        int64_t upto = m->is->held[i].upto;
        pg_mark_row *note = &m->notes[i];
        *note = m->marks[i];
        if (upto <= note->position)
            continue;
        lowest = note->position < lowest ? note->position : lowest;
        highest = upto > highest ? upto : highest;
        note->position = upto;
        note->hand = note->hand > upto ? note->hand : 0;
        note->suspect = note->suspect > upto ? note->suspect : 0;
    }
    st = pg_marks_put(m->store, conn, m->lane.id, m->is->held, m->is->held_count, m->marks,
                      m->notes, err);
    return st == EF_OK && highest ? send_drop(m, conn, lowest, highest, err) : st;
}

/* Nobody marks what was not given out under the token. */
static ef_status check_upto(const marking *m, size_t i, ef_error *err)
{
    const ef_holding *held = &m->is->held[i];
    const pg_mark_row *mark = &m->marks[i];
    int64_t most = mark->position;

    if (mark->hand_token == held->token && mark->hand > most)
        most = mark->hand;
    if (held->upto == 0 || (held->upto >= mark->position && held->upto <= most))
        return EF_OK;
    return ef_fail_numbers(err, EF_BAD_INPUT, held->upto, most,
                           "lane \"%.*s\", partition %" PRId32 ": upto is %" PRId64
                           ", the mark is at %" PRId64 " and %" PRId64 " was taken",
                           EF_STR_ARG(m->is->lane), held->partition, held->upto, mark->position,
                           most);
}

static ef_status begin(marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params clock = {0};
    PGresult *now = NULL;
    ef_status st = pg_lane_need(m->store, conn, m->is->lane, &m->lane, err);

    pg_add_clock(m->store, &clock);
    if (st == EF_OK)
        st = pg_hold_send(m->store, conn, &m->lane, m->is->lane, m->is->held, m->is->held_count,
                          err);
    if (st == EF_OK)
        st = pg_marks_send(conn, m->lane.id, m->is->held, m->is->held_count, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_CLOCK, &clock, err);
    if (st == EF_OK)
        st = pg_hold_take(conn, &m->lane, m->is->lane, m->is->held, m->is->held_count, err);
    if (st == EF_OK)
        st = pg_marks_take(conn, &m->map, m->marks, err);
    if (st == EF_OK)
        st = ef__pg_take(conn, &now, err);
    if (st == EF_OK)
        m->now_us = ef__pg_int(now, 0, 0);
    PQclear(now);
    return st;
}

/* Two workers with exceptions do not wait for each other: what they hold is apart. */
static ef_status lock_exceptions(const marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array partitions;
    ef_status st;

    if (m->is->held_count == 0)
        return ef__pg_send(conn, PJ_EXCEPTION_LOCK, NULL, err);
    pg_array_of_partitions(&partitions, m->is->held, m->is->held_count);
    ef__pg_add_int(&params, m->lane.kind == EF_LANE_KIND_PUBLISHER ? m->lane.id : 0);
    ef__pg_add_array(&params, &partitions);
    st = ef__pg_send(conn, PJ_EXCEPTION_SHARE, NULL, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_EXCEPTION_LOCK_HELD, &params, err);
    ef__pg_array_release(&partitions);
    return st;
}

/* How far a publisher's lane is, in its owner's own terms. */
static ef_status note_progress(const marking *m, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef_status st = ef__lane_publishes(m->is->lane, m->lane.kind, err);

    ef__pg_add_int(&params, m->lane.id);
    ef__pg_add_str(&params, m->is->progress);
    return st == EF_OK ? ef__pg_send(conn, PJ_LANE_NOTE, &params, err) : st;
}

static ef_status mark_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    marking *m = context;
    ef_status st;

    PQclear(m->found);
    m->found = NULL;
    ef__arena_reset(&m->arena);
    m->marks = ef__arena_zalloc(&m->arena, m->is->held_count + 1, sizeof *m->marks);
    m->notes = ef__arena_zalloc(&m->arena, m->is->held_count + 1, sizeof *m->notes);
    st = m->marks && m->notes ? begin(m, conn, err) : ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < m->is->held_count; i++)
        st = check_upto(m, i, err);
    if (st == EF_OK && m->is->exception_count) {
        st = lock_exceptions(m, conn, err);
        if (st == EF_OK)
            st = load_entries(m, conn, err);
        for (size_t i = 0; st == EF_OK && i < m->is->exception_count; i++)
            st = settle(m, m->entries[i], &m->is->exceptions[i], err);
        if (st == EF_OK)
            st = send_entries(m, conn, err);
    }
    if (st == EF_OK && m->is->progress.len)
        st = note_progress(m, conn, err);
    return st == EF_OK ? send_marks(m, conn, err) : st;
}

static ef_status settle_batch(pg_store *store, ef__pg_conn *conn, const ef__marking *mark,
                              ef_error *err)
{
    marking m = {.store = store, .is = mark, .arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES)};
    ef_status st;

    pg_held_map_init(&m.map, mark->held, mark->held_count);
    /* A mark that is there already is passed again, and an exception written as it is. */
    st = conn ? pg_write_with(store, conn, mark_work, &m, err)
              : pg_write_again(store, mark_work, &m, err);
    PQclear(m.found);
    ef__arena_release(&m.arena);
    return st;
}

ef_status pg_mark(ef_journal *journal, const ef__marking *mark, ef_error *err)
{
    return settle_batch(pg_store_of(journal), NULL, mark, err);
}

ef_status pg_mark_with(ef_journal *journal, void *connection, const ef__marking *mark,
                       ef_error *err)
{
    return settle_batch(pg_store_of(journal), connection, mark, err);
}
