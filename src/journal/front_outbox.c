/*
 * front_outbox.c - the public API of the outbox: lanes, claims, acknowledgements and lists.
 */
#include "front_priv.h"

#include "../base/json.h"
#include "../base/utf8.h"
#include "../core/placement.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* --- lanes ------------------------------------------------------------------------------------ */

static bool is_apply_lane(ef_str lane)
{
    return ef_str_equal(lane, EF_STR(EF_LANE_APPLY));
}

/* Settings or progress of a publisher: a JSON object, or "". */
static ef_status check_object(const char *what, ef_str text, ef_error *err)
{
    ef__json_kind kind = EF__JSON_OBJECT;
    ef_status st = ef__text_check(what, text, EF_LIMIT_DETAIL_BYTES, err);

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
        st = ef__name_parse("lane", lane->name, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("kind", lane->kind, 0, EF_LANE_KIND_PUBLISHER, err);
    if (st == EF_OK)
        st = ef__text_check("types", lane->types, EF_LIMIT_REASON_BYTES, err);
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
    if (lane->kind == EF_LANE_KIND_PUBLISHER && ef__journal_is_sparse(journal))
        return ef_fail(err, EF_UNSUPPORTED,
                       "publisher \"%.*s\": a journal on %s queues no events; subscribe to the "
                       "stream instead",
                       EF_STR_ARG(lane->name), journal->store->name);
    st = check_object("settings", lane->settings, err);
    if (st == EF_OK)
        st = ef__range_check("retain_us", lane->retain_us, 0, EF_LIMIT_RETAIN_US, err);
    return st == EF_OK ? journal->control->outbox->lane_set(journal->control, lane, expected, err)
                       : st;
}

ef_status ef__lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                        ef_error *err)
{
    int64_t rows = 0;
    ef_status st = ef__need_writable(journal, "ef__lane_drop", err);

    if (st == EF_OK)
        st = journal->control->outbox->lane_drop(journal->control, lane, discard, &rows, err);
    if (out_rows)
        *out_rows = st == EF_OK ? rows : 0;
    return st;
}

ef_status ef_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    ef_status st = EF__LIST_BEGIN(journal, out, err);

    if (st == EF_OK)
        st = journal->control->outbox->lane_ls(journal->control, out, err);
    return EF__LIST_FINISH(out, st);
}

/* --- claims ----------------------------------------------------------------------------------- */

/* Every partition once, under a token. */
/* Used by an assert only. */
static __attribute__((unused)) bool is_held_set(const ef_partition_lease *held, size_t count)
{
    ef__partition_set seen = {{0}};

    for (size_t i = 0; i < count; i++) {
        int32_t partition = held[i].partition;
        if (partition < 0 || partition >= EF_LIMIT_PARTITIONS || held[i].token < 1 ||
            held[i].upto < 0 || ef__partition_set_has(&seen, partition))
            return false;
        ef__partition_set_add(&seen, partition);
    }
    return true;
}

static ef_status prepare_claimed_batch(ef_claimed_batch *out, ef_error *err)
{
    out->items = NULL;
    out->count = 0;
    out->more = false;
    out->next_due_us = 0;
    out->events.events = NULL;
    out->events.count = 0;
    out->events.more = false;
    return ef__memory_prepare(&out->events.room, err);
}

ef_status ef__outbox_claim(ef_journal *journal, const ef__claim_request *request,
                           ef_claimed_batch *out, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef__outbox_claim", err);

    assert(is_held_set(request->held, request->held_count) && request->after >= 0 &&
           request->limit <= EF_LIMIT_CLAIM_ROWS);
    if (st == EF_OK)
        st = prepare_claimed_batch(out, err);
    if (st != EF_OK || request->limit == 0 || request->held_count == 0)
        return st;
    st = ef__damage_note(journal,
                         journal->control->outbox->claim(journal->control, request, out, err), err);
    if (st != EF_OK) {
        out->items = NULL;
        out->count = 0;
        out->more = false;
    }
    return st;
}

void ef__claimed_batch_release(ef_claimed_batch *batch)
{
    if (!batch)
        return;
    EF_RELEASE(&batch->events);
    *batch = (ef_claimed_batch)EF_CLAIMED_BATCH_INIT;
}

/* --- acknowledgements ------------------------------------------------------------------------- */

/* Used by an assert only. */
static __attribute__((unused)) bool is_retry_row(const ef_retry_row *row)
{
    return row->lane.len > 0 && !is_apply_lane(row->lane) && row->position > 0 &&
           row->attempts >= 0 && row->due_us >= 0 && row->due_us <= EF__TIME_US_MAX &&
           row->status != EF_ROW_PROCESSING && row->status <= EF_ROW_DONE;
}

/* An error text that cannot be stored as it is gets cut or changed: a failure must not be lost
 * because of the text that describes it. */
static bool is_storable_error(ef_str error)
{
    return error.len <= EF_LIMIT_ERROR_BYTES && ef__utf8_valid(error) &&
           (error.len == 0 || !memchr(error.ptr, '\0', error.len));
}

static ef_str cut_error(ef_str error, char buffer[EF_LIMIT_ERROR_BYTES])
{
    ef_str cut = ef__utf8_cut(error, EF_LIMIT_ERROR_BYTES);

    if (is_storable_error(cut))
        return cut;
    cut.len = error.len < EF_LIMIT_ERROR_BYTES ? error.len : EF_LIMIT_ERROR_BYTES;
    for (size_t i = 0; i < cut.len; i++)
        buffer[i] = error.ptr[i] > 0 ? error.ptr[i] : '?';
    cut.ptr = buffer;
    return cut;
}

/* In the transaction of another store on its connection, or in one of the journal. */
static ef_status ack_batch(ef_journal *journal, void *connection, const ef__ack_request *request,
                           ef_error *err)
{
    ef_status st = journal->control->outbox->ack(journal->control, connection, request, err);

    return connection ? st : ef__damage_note(journal, st, err);
}

static ef_status ack_with_cut_errors(ef_journal *journal, void *connection,
                                     const ef__ack_request *request, ef_error *err)
{
    size_t count = request->retry_row_count;
    ef_retry_row *cut = malloc(count * sizeof *cut);
    char(*buffers)[EF_LIMIT_ERROR_BYTES] = malloc(count * sizeof *buffers);
    ef__ack_request storable = *request;
    ef_status st;

    if (cut && buffers) {
        for (size_t i = 0; i < count; i++) {
            cut[i] = request->retry_rows[i];
            cut[i].error = cut_error(request->retry_rows[i].error, buffers[i]);
        }
        storable.retry_rows = cut;
        st = ack_batch(journal, connection, &storable, err);
    } else {
        st = ef_fail(err, EF_NO_MEMORY, "no memory to acknowledge %zu retry rows", count);
    }
    free(buffers);
    free(cut);
    return st;
}

/* *out_storable: every error text can be stored as it is. */
static ef_status check_retry_rows(const ef_journal *journal, const ef_retry_row *retry_rows,
                                  size_t count, bool *out_storable, ef_error *err)
{
    *out_storable = true;
    for (size_t i = 0; i < count; i++) {
        assert(is_retry_row(&retry_rows[i]));
        *out_storable = *out_storable && is_storable_error(retry_rows[i].error);
    }
    if (count > 0 && ef__journal_is_sparse(journal))
        return ef_fail(err, EF_UNSUPPORTED,
                       "a journal on %s has no retry rows: a failed event stops its tenant",
                       journal->store->name);
    return EF_OK;
}

ef_status ef__outbox_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                         ef_error *err)
{
    bool storable;
    ef_status st = ef__need_writable(journal, "ef__outbox_ack", err);

    assert(is_held_set(request->held, request->held_count));
    assert(request->held_count > 0 || request->progress.len == 0);
    if (st == EF_OK)
        st = check_retry_rows(journal, request->retry_rows, request->retry_row_count, &storable,
                              err);
    if (st != EF_OK || (request->held_count == 0 && request->retry_row_count == 0))
        return st;
    return (storable ? ack_batch : ack_with_cut_errors)(journal, connection, request, err);
}

/* --- published rows --------------------------------------------------------------------------- */

ef_status ef__published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                              size_t limit, int64_t *out_count, ef_error *err)
{
    *out_count = 0;
    return journal->control->outbox->published_purge(journal->control, lane, held, limit, out_count,
                                                     err);
}

ef_status ef__published_requeue(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                size_t limit, int64_t *out_count, ef_error *err)
{
    *out_count = 0;
    return journal->control->outbox->published_requeue(journal->control, lane, held, limit,
                                                       out_count, err);
}

ef_status ef_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                             ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out_count, "out_count", err);
    if (st == EF_OK)
        st = ef__name_parse("lane", lane, 1, false, err);
    if (st != EF_OK)
        return st;
    *out_count = 0;
    return journal->control->outbox->published_count(journal->control, lane, most, out_count, err);
}

/* --- lists ------------------------------------------------------------------------------------ */

ef_status ef__row_list_prepare(ef_row_list *out, ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st != EF_OK)
        return st;
    out->next[0] = '\0';
    return ef__list_prepare(out, err);
}

static ef_status check_query(const ef_outbox_query *query, ef_error *err)
{
    ef_status st = ef__need(query, "query", err);

    if (st == EF_OK)
        st = ef__name_parse("lane", query->lane, 0, false, err);
    if (st == EF_OK && !query->any_tenant)
        st = ef__name_parse("tenant", query->tenant, 0, false, err);
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
    return st == EF_OK ? ef__row_filters_check(query, err) : st;
}

ef_status ef_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                       ef_error *err)
{
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__row_list_prepare(out, err);
    if (st == EF_OK)
        st = check_query(query, err);
    if (st != EF_OK || query->limit == 0 || (query->blocked_only && ef__query_published(query)))
        return st;
    st = ef__query_has_filters(query)
             ? ef__rows_search(journal, query, out, err)
             : journal->control->outbox->ls(journal->control, query, out, err);
    (void)ef__damage_note(journal, st, err);
    return EF__LIST_FINISH(out, st);
}

ef_status ef_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                              ef_outbox_summary *out, ef_error *err)
{
    ef_row_list oldest;
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = ef__row_list_prepare(&out->oldest, err);
    if (st == EF_OK)
        st = check_query(query, err);
    if (st != EF_OK)
        return st;
    oldest = out->oldest;
    *out = (ef_outbox_summary){.oldest = oldest};
    st = journal->control->outbox->summarise(journal->control, query, out, err);
    return ef__damage_note(journal, st, err);
}

ef_status ef__outbox_has_work(ef_journal *journal, bool *out, ef_error *err)
{
    return journal->control->outbox->has_work(journal->control, out, err);
}
