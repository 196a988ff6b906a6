/*
 * front_outbox.c - the door for the outbox: lanes, taking and marking, and the operator's acts.
 */
#include "front_priv.h"

#include "../base/json.h"
#include "../base/utf8.h"
#include "../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- lanes ------------------------------------------------------------------------------------ */

static bool is_apply_lane(ef_str lane)
{
    return ef_str_equal(lane, EF_STR(EF_LANE_APPLY));
}

/* JSON of the owner's own, or "". */
static ef_status check_object(const char *what, ef_str text, ef_error *err)
{
    ef__json_kind kind = EF__JSON_OBJECT;
    ef_status st = ef__words_check(what, text, EF_LIMIT_DETAIL_BYTES, err);

    if (st == EF_OK && text.len)
        st = ef__json_check(text, EF_LIMIT_DETAIL_BYTES, &kind, err);
    if (st == EF_OK && kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_INPUT, "%s is not a JSON object", what);
    return st;
}

ef_status ef_lane_set(ef_journal *journal, const ef_lane *lane, ef_error *err)
{
    return ef__lane_replace(journal, NULL, lane, err);
}

ef_status ef__lane_replace(ef_journal *journal, const ef_lane *expected, const ef_lane *lane,
                           ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_lane_set", err);

    if (st == EF_OK)
        st = ef__need(lane, "lane", err);
    if (st == EF_OK)
        st = ef__name_take("lane", lane->name, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("kind", lane->kind, 0, EF_LANE_KIND_PUBLISHER, err);
    if (st == EF_OK)
        st = ef__words_check("types", lane->types, EF_LIMIT_REASON_BYTES, err);
    if (st != EF_OK)
        return st;
    if (is_apply_lane(lane->name) != (lane->kind == EF_LANE_KIND_APPLY))
        return ef_fail(err, EF_BAD_INPUT,
                       "lane \"%.*s\": \"*\" is the apply lane, and no other lane is",
                       EF_STR_ARG(lane->name));
    if ((lane->types.len || lane->settings.len || lane->retain_us) &&
        lane->kind != EF_LANE_KIND_PUBLISHER)
        return ef_fail(err, EF_BAD_INPUT,
                       "lane \"%.*s\": types, settings and retain_us are for publishers only",
                       EF_STR_ARG(lane->name));
    st = check_object("settings", lane->settings, err);
    if (st == EF_OK)
        st = ef__range_check("retain_us", lane->retain_us, 0, EF_LIMIT_RETAIN_US, err);
    return st == EF_OK ? journal->ops->lane_set(journal, lane, expected, err) : st;
}

ef_status ef_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                       ef_error *err)
{
    int64_t rows = 0;
    ef_status st = ef__need_writable(journal, "ef_lane_drop", err);

    if (st == EF_OK)
        st = ef__name_take("lane", lane, 1, false, err);
    if (st == EF_OK)
        st = journal->ops->lane_drop(journal, lane, discard, &rows, err);
    if (out_rows)
        *out_rows = st == EF_OK ? rows : 0;
    return st;
}

ef_status ef_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_READY(out, err);
    if (st != EF_OK)
        return st;
    st = journal->ops->lane_ls(journal, out, err);
    return EF__LIST_ANSWER(out, st);
}

void ef_lane_list_release(ef_lane_list *list)
{
    EF__LIST_RELEASE(list);
}

/* --- taking ----------------------------------------------------------------------------------- */

static ef_status check_held(const ef_holding *held, size_t count, ef_error *err)
{
    ef__partition_set seen = {{0}};
    ef_status st;

    if (count > 0 && (st = ef__need(held, "held", err)) != EF_OK)
        return st;
    for (size_t i = 0; i < count; i++) {
        st = ef__range_check("partition", held[i].partition, 0, EF_LIMIT_PARTITIONS - 1, err);
        if (st == EF_OK)
            st = ef__range_check("token", held[i].token, 1, INT64_MAX, err);
        if (st == EF_OK)
            st = ef__range_check("upto", held[i].upto, 0, INT64_MAX, err);
        if (st != EF_OK)
            return st;
        if (ef__partition_set_has(&seen, held[i].partition))
            return ef_fail(err, EF_BAD_INPUT, "partition %" PRId32 " is held twice",
                           held[i].partition);
        ef__partition_set_add(&seen, held[i].partition);
    }
    return EF_OK;
}

static ef_status taken_ready(ef_taken_batch *out, ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st != EF_OK)
        return st;
    out->items = NULL;
    out->count = 0;
    out->more = false;
    out->next_due_us = 0;
    out->events.events = NULL;
    out->events.count = 0;
    out->events.more = false;
    return ef__room_ready(&out->events.room, err);
}

static ef_status take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out,
                      ef_error *err)
{
    ef_status st =
        ef__need_writable(journal, take->due ? "ef_outbox_take_due" : "ef_outbox_take", err);

    if (st == EF_OK)
        st = taken_ready(out, err);
    if (st == EF_OK)
        st = ef__name_take("lane", take->lane, take->due ? 0 : 1, false, err);
    if (st == EF_OK)
        st = check_held(take->held, take->held_count, err);
    if (st == EF_OK)
        st = ef__range_check("after", take->after, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("limit", (int64_t)take->limit, 0, EF_LIMIT_TAKE_ROWS, err);
    if (st != EF_OK || take->limit == 0 || take->held_count == 0)
        return st;
    st = ef__damage_note(journal, journal->ops->take(journal, take, out, err), err);
    if (st != EF_OK) {
        out->items = NULL;
        out->count = 0;
        out->more = false;
    }
    return st;
}

ef_status ef_outbox_take_after(ef_journal *journal, ef_str lane, const ef_holding *held,
                               size_t held_count, int64_t after, size_t limit, ef_taken_batch *out,
                               ef_error *err)
{
    return take(journal, &(ef__taking){lane, false, held, held_count, after, limit}, out, err);
}

ef_status ef_outbox_take(ef_journal *journal, ef_str lane, const ef_holding *held,
                         size_t held_count, size_t limit, ef_taken_batch *out, ef_error *err)
{
    return take(journal, &(ef__taking){lane, false, held, held_count, 0, limit}, out, err);
}

ef_status ef_outbox_take_due(ef_journal *journal, ef_str lane, const ef_holding *held,
                             size_t held_count, size_t limit, ef_taken_batch *out, ef_error *err)
{
    return take(journal, &(ef__taking){lane, true, held, held_count, 0, limit}, out, err);
}

void ef_taken_batch_release(ef_taken_batch *batch)
{
    if (!batch)
        return;
    ef_batch_release(&batch->events);
    *batch = (ef_taken_batch)EF_TAKEN_BATCH_INIT;
}

/* --- marking ---------------------------------------------------------------------------------- */

static ef_status check_exception(const ef_exception *x, ef_error *err)
{
    ef_status st = ef__name_take("lane", x->lane, 1, false, err);

    if (st == EF_OK)
        st = ef__range_check("position", x->position, 1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("attempts", x->attempts, 0, INT32_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("due_us", x->due_us, 0, EF__TIME_US_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("status", x->status, EF_ROW_PENDING, EF_ROW_DONE, err);
    if (st == EF_OK)
        st = ef__str_check("error", x->error, err);
    if (st != EF_OK)
        return st;
    if (x->status == EF_ROW_PROCESSING)
        return ef_fail(err, EF_BAD_INPUT, "status processing is derived and cannot be written");
    if (is_apply_lane(x->lane))
        return ef_fail(err, EF_BAD_INPUT,
                       "an exception belongs to a projection's or publisher's own lane, not \"*\"");
    return EF_OK;
}

/* What a handler says of its failure is kept as well as it can be: a failure must not be lost
 * because of the words that describe it. */
static bool error_fits(ef_str error)
{
    return error.len <= EF_LIMIT_ERROR_BYTES && ef__utf8_valid(error) &&
           (error.len == 0 || !memchr(error.ptr, '\0', error.len));
}

static ef_str error_cut(ef_str error, char room[EF_LIMIT_ERROR_BYTES])
{
    ef_str cut = ef__utf8_cut(error, EF_LIMIT_ERROR_BYTES);

    if (error_fits(cut))
        return cut;
    cut.len = error.len < EF_LIMIT_ERROR_BYTES ? error.len : EF_LIMIT_ERROR_BYTES;
    for (size_t i = 0; i < cut.len; i++)
        room[i] = error.ptr[i] > 0 ? error.ptr[i] : '?';
    cut.ptr = room;
    return cut;
}

/* On a connection of another store's, or by the journal itself. */
static ef_status mark_fit(ef_journal *journal, void *connection, const ef__marking *mark,
                          ef_error *err)
{
    if (connection)
        return journal->ops->mark_with(journal, connection, mark, err);
    return journal->ops->mark(journal, mark, err);
}

static ef_status mark_cut(ef_journal *journal, void *connection, const ef__marking *mark,
                          ef_error *err)
{
    size_t count = mark->exception_count;
    ef_exception *cut = malloc(count * sizeof *cut);
    char(*rooms)[EF_LIMIT_ERROR_BYTES] = malloc(count * sizeof *rooms);
    ef__marking fit = *mark;
    ef_status st;

    if (cut && rooms) {
        for (size_t i = 0; i < count; i++) {
            cut[i] = mark->exceptions[i];
            cut[i].error = error_cut(mark->exceptions[i].error, rooms[i]);
        }
        fit.exceptions = cut;
        st = mark_fit(journal, connection, &fit, err);
    } else {
        st = ef_fail(err, EF_NO_MEMORY, "no memory to mark %zu exceptions", count);
    }
    free(rooms);
    free(cut);
    return st;
}

static ef_status check_exceptions(const ef_exception *exceptions, size_t count, bool *out_fit,
                                  ef_error *err)
{
    ef_status st =
        ef__range_check("exception_count", (int64_t)count, 0, EF_LIMIT_APPEND_EVENTS * 10, err);

    *out_fit = true;
    if (st == EF_OK && count > 0)
        st = ef__need(exceptions, "exceptions", err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        st = check_exception(&exceptions[i], err);
        *out_fit = *out_fit && (st != EF_OK || error_fits(exceptions[i].error));
    }
    return st;
}

ef_status ef__outbox_mark_with(ef_journal *journal, void *connection, const ef__marking *mark,
                               ef_error *err)
{
    bool fit;
    ef_status st = ef__need_writable(journal, "ef_outbox_mark", err);

    if (st == EF_OK)
        st = ef__name_take("lane", mark->lane, 1, false, err);
    if (st == EF_OK)
        st = check_held(mark->held, mark->held_count, err);
    if (st == EF_OK)
        st = check_exceptions(mark->exceptions, mark->exception_count, &fit, err);
    if (st == EF_OK)
        st = check_object("progress", mark->progress, err);
    if (st != EF_OK || (mark->held_count == 0 && !mark->exception_count && !mark->progress.len))
        return st;
    if (mark->held_count == 0)
        return ef_fail(err, EF_BAD_INPUT, "a lane is marked under a lease, and none is given");
    return (fit ? mark_fit : mark_cut)(journal, connection, mark, err);
}

ef_status ef_published_mark(ef_journal *journal, ef_str lane, const ef_holding *held,
                            size_t held_count, const ef_exception *exceptions,
                            size_t exception_count, ef_str progress, ef_error *err)
{
    ef__marking mark = {lane, held, held_count, exceptions, exception_count, progress};

    return ef__outbox_mark_with(journal, NULL, &mark, err);
}

ef_status ef_outbox_mark(ef_journal *journal, ef_str lane, const ef_holding *held,
                         size_t held_count, const ef_exception *exceptions, size_t exception_count,
                         ef_error *err)
{
    return ef_published_mark(journal, lane, held, held_count, exceptions, exception_count,
                             EF_STR(""), err);
}

ef_status ef_outbox_file(ef_journal *journal, const ef_exception *exceptions,
                         size_t exception_count, ef_error *err)
{
    ef__marking mark = {.lane = EF_STR(EF_LANE_APPLY),
                        .exceptions = exceptions,
                        .exception_count = exception_count};
    bool fit;
    ef_status st = ef__need_writable(journal, "ef_outbox_file", err);

    if (st == EF_OK)
        st = check_exceptions(exceptions, exception_count, &fit, err);
    for (size_t i = 0; st == EF_OK && i < exception_count; i++)
        if (exceptions[i].status == EF_ROW_DONE)
            st = ef_fail(err, EF_BAD_INPUT, "what is done is marked, not filed");
    if (st != EF_OK || exception_count == 0)
        return st;
    return (fit ? mark_fit : mark_cut)(journal, NULL, &mark, err);
}

ef_status ef__outbox_remove(ef_journal *journal, const ef_exception *rows, size_t count,
                            ef_error *err)
{
    ef__marking mark = {
        .lane = EF_STR(EF_LANE_APPLY), .exceptions = rows, .exception_count = count};

    return count ? journal->ops->mark(journal, &mark, err) : EF_OK;
}

/* --- what was published ----------------------------------------------------------------------- */

static ef_status check_published(ef_journal *journal, const char *call, ef_str lane,
                                 const ef_holding *held, size_t *limit, int64_t *out_count,
                                 ef_error *err)
{
    ef_status st = ef__need_writable(journal, call, err);

    if (st == EF_OK)
        st = ef__need(out_count, "out_count", err);
    if (st == EF_OK)
        st = ef__name_take("lane", lane, 1, false, err);
    if (st == EF_OK)
        st = check_held(held, 1, err);
    if (st == EF_OK)
        st = ef__limit_take(limit, err);
    if (st == EF_OK)
        *out_count = 0;
    return st;
}

ef_status ef_published_purge(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err)
{
    ef_status st =
        check_published(journal, "ef_published_purge", lane, held, &limit, out_count, err);

    return st == EF_OK ? journal->ops->published_purge(journal, lane, held, limit, out_count, err)
                       : st;
}

ef_status ef_published_again(ef_journal *journal, ef_str lane, const ef_holding *held, size_t limit,
                             int64_t *out_count, ef_error *err)
{
    ef_status st =
        check_published(journal, "ef_published_again", lane, held, &limit, out_count, err);

    return st == EF_OK ? journal->ops->published_again(journal, lane, held, limit, out_count, err)
                       : st;
}

ef_status ef_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out_count, "out_count", err);
    if (st == EF_OK)
        st = ef__name_take("lane", lane, 1, false, err);
    if (st != EF_OK)
        return st;
    *out_count = 0;
    return journal->ops->published_count(journal, lane, most, out_count, err);
}

/* --- looking ---------------------------------------------------------------------------------- */

static ef_status rows_ready(ef_row_list *out, ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st != EF_OK)
        return st;
    out->next[0] = '\0';
    return EF__LIST_READY(out, err);
}

static ef_status check_query(const ef_outbox_query *query, ef_error *err)
{
    ef_status st = ef__need(query, "query", err);

    if (st == EF_OK)
        st = ef__name_take("lane", query->lane, 0, false, err);
    if (st == EF_OK && !query->any_tenant)
        st = ef__name_take("tenant", query->tenant, 0, false, err);
    if (st == EF_OK && query->status && *query->status != EF_ROW_PUBLISHED)
        st = ef__range_check("status", *query->status, EF_ROW_PENDING, EF_ROW_DEAD, err);
    if (st == EF_OK)
        st = ef__range_check("limit", (int64_t)query->limit, 0, EF_LIMIT_LIST_ROWS, err);
    if (st == EF_OK)
        st = ef__str_check("after", query->after, err);
    if (st == EF_OK)
        st = ef__range_check("from", query->from, 0, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__range_check("upto", query->upto, 0, INT64_MAX, err);
    return st == EF_OK ? ef__picks_check(query, err) : st;
}

ef_status ef_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = rows_ready(out, err);
    if (st == EF_OK)
        st = check_query(query, err);
    if (st != EF_OK || query->limit == 0 || (query->blocked_only && ef__query_published(query)))
        return st;
    st = ef__query_picks(query) ? ef__rows_pick(journal, query, out, err)
                                : journal->ops->outbox_ls(journal, query, out, err);
    return EF__LIST_ANSWER(out, st);
}

void ef_row_list_release(ef_row_list *list)
{
    EF__LIST_RELEASE(list);
}

ef_status ef_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    ef_row_list oldest;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = rows_ready(&out->oldest, err);
    if (st == EF_OK)
        st = check_query(query, err);
    if (st != EF_OK)
        return st;
    oldest = out->oldest;
    *out = (ef_outbox_summary){.oldest = oldest};
    return journal->ops->outbox_summarise(journal, query, out, err);
}

ef_status ef__outbox_waits(ef_journal *journal, bool *out, ef_error *err)
{
    return journal->ops->outbox_waits(journal, out, err);
}
