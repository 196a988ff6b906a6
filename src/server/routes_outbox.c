/*
 * routes_outbox.c - what waits, what failed, and what an operator does about it.
 */
#include "request.h"

#include <everfold/outbox.h>
#include <everfold/partition.h>
#include <everfold/replay.h>

#define REPORT_DEFAULT 50
#define REQUEUE_DEFAULT 100

/* What rows are picked by, besides lane, tenant and status. A stream is one tenant's: of that which
 * is named, as everywhere, or of the blank one. */
static ef_status read_picks(ef__request *r, ef_outbox_query *q, int32_t *partition, ef_error *err)
{
    ef_str label = ef__request_text(r, "partition"), before = ef__request_text(r, "before");
    ef_status st = EF_OK;

    q->stream = ef__request_text(r, "stream");
    q->types = ef__request_text(r, "types");
    q->error = ef__request_text(r, "error");
    if (q->stream.len)
        q->any_tenant = false;
    if (label.len) {
        st = ef_partition_parse(label, partition, err);
        q->partition = partition;
    }
    if (st == EF_OK && before.len && ef_time_parse(before.ptr, before.len, &q->before_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "before is '%.*s'; an RFC 3339 time is needed",
                     EF_STR_ARG(before));
    return st;
}

static ef_status report(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_outbox_summary summary = {0};
    ef_row_list rows = {0};
    ef_row_status status = EF_ROW_PENDING;
    ef_str asked = ef__request_text(r, "status");
    int64_t limit = REPORT_DEFAULT;
    int32_t partition = 0;
    ef_outbox_query q = {.lane = ef__request_text(r, "lane"),
                         .tenant = r->tenant,
                         .any_tenant = r->any_tenant,
                         .after = ef__request_text(r, "after")};
    ef_status st = ef__request_int(r, "limit", 0, 10000, &limit, err);

    if (st == EF_OK)
        st = ef__request_int(r, "from", 1, INT64_MAX, &q.from, err);
    if (st == EF_OK)
        st = ef__request_int(r, "upto", 1, INT64_MAX, &q.upto, err);
    if (st == EF_OK)
        st = read_picks(r, &q, &partition, err);
    q.blocked_only = ef_str_equal(asked, EF_STR("blocked"));
    q.limit = (size_t)limit;
    if (st == EF_OK && asked.len > 0 && !q.blocked_only) {
        if (ef_row_status_parse(asked, &status) != 0)
            st = ef_fail(err, EF_BAD_INPUT,
                         "status is '%.*s'; there are pending, processing, failed, dead, blocked, "
                         "published",
                         EF_STR_ARG(asked));
        q.status = &status;
    }
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_outbox_summarise(r->server->options.journal, &q, &summary, err);
    if (st == EF_OK && limit > 0)
        st = ef_outbox_ls(r->server->options.journal, &q, &rows, err);
    if (st == EF_OK) {
        ef__json_open(&w, '{');
        ef__json_key(&w, "mode");
        ef__json_str(&w, EF_STR("outbox"));
        ef__json_key(&w, "summary");
        ef__request_summary(&w, &summary);
        ef__request_rows(&w, &rows);
        ef__json_key(&w, "next");
        if (rows.next[0])
            ef__json_str(&w, ef_str_from(rows.next));
        else
            ef__json_null(&w);
        ef__json_close(&w, '}');
    }
    ef_row_list_release(&summary.oldest);
    ef_row_list_release(&rows);
    return st;
}

static void write_acted(ef__request *r, const char *mode, const char *key, int64_t count,
                        const ef_row_list *rows)
{
    ef__json_writer w = ef__request_writer(r);

    ef__json_open(&w, '{');
    ef__json_key(&w, "mode");
    ef__json_str(&w, ef_str_from(mode));
    ef__json_key(&w, key);
    ef__json_int(&w, count);
    ef__request_rows(&w, rows);
    ef__json_close(&w, '}');
}

/* {"stream","seq","lane","reason"} */
static ef_status read_act(ef__request *r, ef_outbox_action *act, ef_error *err)
{
    const ef__json *body = NULL;
    ef_status st = ef__request_no_more(r, err);

    *act = (ef_outbox_action){.tenant = r->tenant, .actor = ef_str_from(r->who.name)};
    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__member_text(body, "stream", true, &act->stream, err);
    if (st == EF_OK)
        st = ef__member_int(body, "seq", true, 1, INT64_MAX, &act->seq, err);
    if (st == EF_OK)
        st = ef__member_text(body, "lane", false, &act->lane, err);
    if (st == EF_OK)
        st = ef__member_text(body, "reason", false, &act->reason, err);
    return st == EF_OK ? ef__members_only(body, "stream,seq,lane,reason", err) : st;
}

static ef_status requeue(ef__request *r, ef_error *err)
{
    ef_outbox_action act;
    ef_row_list rows = {0};
    ef_status st = read_act(r, &act, err);

    if (st == EF_OK)
        st = ef_outbox_requeue(r->server->options.journal, &act, &rows, err);
    if (st == EF_OK)
        write_acted(r, "outbox-requeue", "requeued", (int64_t)rows.count, &rows);
    ef_row_list_release(&rows);
    return st;
}

static ef_status skip(ef__request *r, ef_error *err)
{
    ef_outbox_action act;
    ef_row_list rows = {0};
    ef_status st = read_act(r, &act, err);

    if (st == EF_OK)
        st = ef_projection_skip(r->server->options.engine, &act, &rows, err);
    if (st == EF_OK)
        write_acted(r, "outbox-skip", "skipped", (int64_t)rows.count, &rows);
    ef_row_list_release(&rows);
    return st;
}

static ef_status replay(ef__request *r, ef_error *err)
{
    ef_outbox_action act;
    ef_row_list rows = {0};
    ef_status st = read_act(r, &act, err);

    if (st == EF_OK)
        st = ef_outbox_replay(r->server->options.engine, &act, 0, &rows, err);
    if (st == EF_OK)
        write_acted(r, "outbox-replay", "left", (int64_t)rows.count, &rows);
    ef_row_list_release(&rows);
    return st;
}

/* {"lane","stream","types","error","before","limit","all","dry_run","reason"}. A stream is of the
 * request's tenant. */
static ef_status read_bulk(ef__request *r, ef_outbox_bulk *bulk, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str before = {NULL, 0};
    bool all = false;
    ef_status st = ef__request_no_more(r, err);

    *bulk = (ef_outbox_bulk){.actor = ef_str_from(r->who.name),
                             .tenant = r->tenant,
                             .one_tenant = !r->any_tenant,
                             .limit = REQUEUE_DEFAULT};
    if (st == EF_OK)
        st = ef__request_object(r, &body, err);
    if (st == EF_OK)
        st = ef__member_text(body, "lane", false, &bulk->lane, err);
    if (st == EF_OK)
        st = ef__member_text(body, "stream", false, &bulk->stream, err);
    if (st == EF_OK)
        st = ef__member_text(body, "types", false, &bulk->types, err);
    if (st == EF_OK)
        st = ef__member_text(body, "error", false, &bulk->error, err);
    if (st == EF_OK)
        st = ef__member_text(body, "before", false, &before, err);
    if (st == EF_OK)
        st = ef__member_int(body, "limit", false, 1, INT64_MAX, &bulk->limit, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "all", &all, err);
    if (st == EF_OK)
        st = ef__member_bool(body, "dry_run", &bulk->dry_run, err);
    if (st == EF_OK)
        st = ef__member_text(body, "reason", false, &bulk->reason, err);
    if (st == EF_OK)
        st = ef__members_only(body, "lane,stream,types,error,before,limit,all,dry_run,reason", err);
    if (st == EF_OK && before.len && ef_time_parse(before.ptr, before.len, &bulk->before_us) != 0)
        st = ef_fail(err, EF_BAD_INPUT, "before is '%.*s'; an RFC 3339 time is needed",
                     EF_STR_ARG(before));
    bulk->limit = all ? 0 : bulk->limit;
    return st;
}

static ef_status requeue_dead(ef__request *r, ef_error *err)
{
    ef_outbox_bulk bulk;
    ef_row_list rows = {0};
    int64_t count = 0;
    ef_status st = read_bulk(r, &bulk, err);

    if (st == EF_OK)
        st = ef_outbox_requeue_dead(r->server->options.journal, &bulk, &count, &rows, err);
    if (st == EF_OK)
        write_acted(r, "outbox-requeue-dead", "requeued", count, &rows);
    ef_row_list_release(&rows);
    return st;
}

static ef_status skip_dead(ef__request *r, ef_error *err)
{
    ef_outbox_bulk bulk;
    ef_row_list rows = {0};
    int64_t count = 0;
    ef_status st = read_bulk(r, &bulk, err);

    if (st == EF_OK)
        st = ef_projection_skip_dead(r->server->options.engine, &bulk, &count, &rows, err);
    if (st == EF_OK)
        write_acted(r, "outbox-skip-dead", "skipped", count, &rows);
    ef_row_list_release(&rows);
    return st;
}

static ef_status groups(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_row_groups found = {0};
    ef_row_status status = EF_ROW_DEAD;
    ef_str asked = ef__request_text(r, "status");
    int32_t partition = 0;
    ef_outbox_query q = {.lane = ef__request_text(r, "lane"),
                         .tenant = r->tenant,
                         .any_tenant = r->any_tenant,
                         .status = &status};
    ef_status st = read_picks(r, &q, &partition, err);

    if (st == EF_OK && asked.len && ef_row_status_parse(asked, &status) != 0)
        st = ef_fail(err, EF_BAD_INPUT,
                     "status is '%.*s'; there are pending, processing, failed, dead, published",
                     EF_STR_ARG(asked));
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    if (st == EF_OK)
        st = ef_outbox_group(r->server->options.journal, &q, &found, err);
    if (st == EF_OK)
        ef__groups_write(&w, &found);
    ef_row_groups_release(&found);
    return st;
}

/* What operators did; a token that is bound to a tenant sees what was done to that tenant. */
static ef_status audit(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef_audit_list acts = {0};
    ef_audit_query query = {.action = ef__request_text(r, "action"),
                            .lane = ef__request_text(r, "lane")};
    int64_t limit = REQUEUE_DEFAULT;
    ef_status st = ef__request_int(r, "limit", 1, 10000, &limit, err);

    if (st == EF_OK)
        st = ef__request_int(r, "before", 0, INT64_MAX, &query.before, err);
    if (st == EF_OK)
        st = ef__request_no_more(r, err);
    query.limit = (size_t)limit;
    query.tenant = r->who.bound ? &r->tenant : NULL;
    if (st == EF_OK)
        st = ef_audit_ls(r->server->options.journal, &query, &acts, err);
    if (st == EF_OK)
        ef__json_open(&w, '[');
    for (size_t i = 0; st == EF_OK && i < acts.count; i++)
        ef__shape_write(&w, &ef__shape_audit_entry, &acts.items[i]);
    if (st == EF_OK)
        ef__json_close(&w, ']');
    ef_audit_list_release(&acts);
    return st;
}

const ef__http_route ef__routes_outbox[] = {
    {"GET", "/v1/outbox", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, report, "reportOutbox",
     "counts and rows",
     "status:string lane:string limit:integer after:string from:integer upto:integer "
     "stream:string types:string error:string partition:string before:string",
     NULL, "Outbox", 0},
    {"POST", "/v1/outbox:requeue", EF__SCOPE_OPERATE, EF__TENANCY_QUERY, EF__ROUTE_BODY, requeue,
     "requeue", "put a dead row back", NULL, "OutboxAction", "Requeued", 0},
    {"GET", "/v1/outbox/groups", EF__SCOPE_READ, EF__TENANCY_QUERY, 0, groups, "groupOutbox",
     "dead rows, or those of a status, by lane and error",
     "status:string lane:string stream:string types:string error:string partition:string "
     "before:string",
     NULL, "RowGroups", 0},
    {"POST", "/v1/outbox:requeue-dead", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     requeue_dead, "requeueDead", "put dead rows back, oldest first", NULL, "OutboxBulkAction",
     "Requeued", 0},
    {"POST", "/v1/outbox:skip-dead", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     skip_dead, "skipDead", "skip dead rows in a lane, oldest first, with a reason", NULL,
     "OutboxBulkAction", "Skipped", 0},
    {"POST", "/v1/outbox:skip", EF__SCOPE_OPERATE, EF__TENANCY_QUERY, EF__ROUTE_BODY, skip, "skip",
     "skip an event in a lane, with a reason", NULL, "OutboxAction", "Skipped", 0},
    {"POST", "/v1/outbox:replay", EF__SCOPE_OPERATE, EF__TENANCY_QUERY, EF__ROUTE_BODY, replay,
     "replayRow", "try one event again now, and answer with what is left of it", NULL,
     "OutboxAction", "Left", 0},
    {"GET", "/v1/audit", EF__SCOPE_READ, EF__TENANCY_PART, 0, audit, "audit",
     "what operators did, newest first", "limit:integer before:integer action:string lane:string",
     NULL, "AuditEntries", 0},
    {0},
};
