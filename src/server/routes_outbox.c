/*
 * routes_outbox.c - the outbox: rows, counts, and the actions of operators.
 */
#include "request.h"

#include "serves.h"

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
    EF__AUTO(ef_outbox_summary) summary = {0};
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

ef_status ef__answer_rows(ef__request *r, ef_status st, const char *key, int64_t count,
                          const ef_row_list *rows)
{
    ef__json_writer w = ef__request_writer(r);
    char mode[32];

    if (st != EF_OK)
        return st;
    (void)snprintf(mode, sizeof mode, "outbox-%s", strchr(r->route->pattern, ':') + 1);
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "mode", mode);
    ef__json_member_int(&w, key, count);
    write_row_list(&w, rows);
    ef__json_close(&w, '}');
    return EF_OK;
}

const ef_outbox_bulk *ef__bulk_of(void *request)
{
    ef__bulk_request *asked = request;

    asked->bulk.one_tenant = !asked->any_tenant;
    asked->bulk.limit = asked->all ? 0 : asked->bulk.limit;
    return &asked->bulk;
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
    EF__SERVED(requeue),
    EF__SERVE(group_outbox, group_outbox),
    EF__SERVED(requeue_dead),
    EF__SERVED(skip_dead),
    EF__SERVED(skip),
    EF__SERVED(replay_row),
    EF__SERVE(audit, list_audit),
    {0},
};
