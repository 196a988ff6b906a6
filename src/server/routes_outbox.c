/*
 * routes_outbox.c - the outbox: rows, counts, and the actions of operators.
 */
#include "request.h"

#include <everfold/outbox.h>
#include <everfold/worker.h>
#include <everfold/replay.h>

static void write_row_list(ef__json_writer *w, const ef_row_list *rows)
{
    ef__json_key(w, "rows");
    ef__shape_write_array(w, &ef__shape_row, &ef__shape_row_more, rows->items, rows->count);
}

/* Sets what the query has pointers to. A stream is of one tenant: the named one, or "". */
static ef_status read_filters(ef__rows_request *asked, const char *statuses, ef_row_status *status,
                              int32_t *partition, ef_error *err)
{
    ef_outbox_query *query = &asked->query;

    query->status = status;
    if (query->stream.len > 0)
        query->any_tenant = false;
    if (asked->status.len > 0) {
        int found = ef_name_find(EF_NAMES_ROW_STATUS, asked->status);

        if (found < 0)
            return ef_fail(err, EF_BAD_INPUT, "status is '%.*s'; there are %s",
                           EF_STR_ARG(asked->status), statuses);
        *status = (ef_row_status)found;
    }
    query->partition = asked->partition.len > 0 ? partition : NULL;
    return query->partition ? ef_partition_parse(asked->partition, partition, err) : EF_OK;
}

static void write_report(ef__request *r, const ef_outbox_summary *summary, const ef_row_list *rows)
{
    ef__json_writer w = ef__request_writer(r);

    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", "outbox");
    ef__json_key(&w, "summary");
    ef__summary_write(&w, summary, true);
    write_row_list(&w, rows);
    ef__json_member_name(&w, "next", ef_str_from(rows->next));
    ef__json_close(&w, '}');
}

static ef_status report_outbox(ef__request *r, void *request, ef_error *err)
{
    ef__rows_request *asked = request;
    ef_outbox_query *query = &asked->query;
    ef_outbox_summary summary = {0};
    EF__AUTO(ef_row_list) rows = {0};
    ef_row_status status = EF_ROW_PENDING;
    int32_t partition = 0;
    ef_status st;

    query->blocked_only = ef_str_equal(asked->status, EF_STR("blocked"));
    if (query->blocked_only)
        asked->status.len = 0;
    st = read_filters(asked, "pending, processing, failed, dead, blocked, published", &status,
                      &partition, err);
    if (asked->status.len == 0)
        query->status = NULL;
    if (st == EF_OK)
        st = ef_outbox_summarise(ef__request_journal(r), query, &summary, err);
    if (st == EF_OK && query->limit > 0)
        st = ef_outbox_ls(ef__request_journal(r), query, &rows, err);
    if (st == EF_OK)
        write_report(r, &summary, &rows);
    EF_RELEASE(&summary.oldest);
    return st;
}

static ef_status group_outbox(ef__request *r, void *request, ef_error *err)
{
    ef__rows_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef_row_groups) found = {0};
    ef_row_status status = EF_ROW_DEAD;
    int32_t partition = 0;
    ef_status st = read_filters(asked, "pending, processing, failed, dead, published", &status,
                                &partition, err);

    if (st == EF_OK)
        st = ef_outbox_group(ef__request_journal(r), &asked->query, &found, err);
    if (st == EF_OK)
        ef__groups_write(&w, &found);
    return st;
}

/* --- actions ---------------------------------------------------------------------------------- */

static ef_status answer_action(ef__request *r, ef_status st, const char *mode, const char *key,
                               int64_t count, ef_row_list *rows)
{
    ef__json_writer w = ef__request_writer(r);

    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_member_text(&w, "mode", mode);
        ef__json_member_int(&w, key, count);
        write_row_list(&w, rows);
        ef__json_close(&w, '}');
    }
    EF_RELEASE(rows);
    return st;
}

static ef_status requeue_row(ef__request *r, void *request, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_requeue(ef__request_journal(r), request, &rows, err);

    return answer_action(r, st, "outbox-requeue", "requeued", (int64_t)rows.count, &rows);
}

static ef_status skip_event(ef__request *r, void *request, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_projection_skip(ef__request_engine(r), request, &rows, err);

    return answer_action(r, st, "outbox-skip", "skipped", (int64_t)rows.count, &rows);
}

static ef_status replay_row(ef__request *r, void *request, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_replay(ef__request_engine(r), request, 0, &rows, err);

    return answer_action(r, st, "outbox-replay", "left", (int64_t)rows.count, &rows);
}

static const ef_outbox_bulk *bulk_of(void *request)
{
    ef__bulk_request *asked = request;

    asked->bulk.one_tenant = !asked->any_tenant;
    asked->bulk.limit = asked->all ? 0 : asked->bulk.limit;
    return &asked->bulk;
}

static ef_status requeue_dead_rows(ef__request *r, void *request, ef_error *err)
{
    ef_row_list rows = {0};
    int64_t count = 0;
    ef_status st =
        ef_outbox_requeue_dead(ef__request_journal(r), bulk_of(request), &count, &rows, err);

    return answer_action(r, st, "outbox-requeue-dead", "requeued", count, &rows);
}

static ef_status skip_dead_rows(ef__request *r, void *request, ef_error *err)
{
    ef_row_list rows = {0};
    int64_t count = 0;
    ef_status st =
        ef_projection_skip_dead(ef__request_engine(r), bulk_of(request), &count, &rows, err);

    return answer_action(r, st, "outbox-skip-dead", "skipped", count, &rows);
}

/* A token that is bound to a tenant gets the entries about that tenant. */
static ef_status list_audit(ef__request *r, void *request, ef_error *err)
{
    ef_audit_query *query = request;

    query->tenant = r->who.bound ? &r->tenant : NULL;
    return EF__ANSWER(r, ef_audit_list, entries,
                      ef_audit_ls(ef__request_journal(r), query, &entries, err));
}

const ef__http_route ef__routes_outbox[] = {
    EF__SERVE(report_outbox, report_outbox),
    EF__SERVE(requeue, requeue_row),
    EF__SERVE(group_outbox, group_outbox),
    EF__SERVE(requeue_dead, requeue_dead_rows),
    EF__SERVE(skip_dead, skip_dead_rows),
    EF__SERVE(skip, skip_event),
    EF__SERVE(replay_row, replay_row),
    EF__SERVE(audit, list_audit),
    {0},
};
