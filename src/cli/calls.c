/*
 * calls.c - see calls.h.
 */
#include "calls.h"

#include <inttypes.h>

ef_status cli_head(cli *c, ef_head *out, ef_error *err)
{
    return c->client ? ef_client_head(c->client, out, err) : ef_journal_head(c->journal, out, err);
}

ef_status cli_facts(cli *c, ef_store_facts *out, ef_error *err)
{
    return c->client ? ef_client_facts(c->client, out, err)
                     : ef_journal_facts(c->journal, out, err);
}

ef_status cli_read_stream(cli *c, ef_str tenant, ef_str stream, int64_t from_seq, size_t limit,
                          ef_batch *out, ef_error *err)
{
    return c->client
               ? ef_client_read_stream(c->client, tenant, stream, from_seq, limit, out, err)
               : ef_journal_read_stream(c->journal, tenant, stream, from_seq, limit, out, err);
}

ef_status cli_read_log(cli *c, const ef_log_query *query, ef_batch *out, ef_error *err)
{
    return c->client ? ef_client_read_log(c->client, query, out, err)
                     : ef_journal_read_log(c->journal, query, out, err);
}

ef_status cli_read_id(cli *c, ef_str tenant, ef_str id, ef_batch *out, ef_error *err)
{
    return c->client ? ef_client_read_id(c->client, tenant, id, out, err)
                     : ef_journal_read_id(c->journal, tenant, id, out, err);
}

ef_status cli_wait(cli *c, int64_t after, int64_t timeout_ms, ef_error *err)
{
    return c->client ? ef_client_wait(c->client, after, timeout_ms, err)
                     : ef_journal_wait(c->journal, after, timeout_ms, err);
}

ef_status cli_type_set(cli *c, const ef_type *type, ef_error *err)
{
    return c->client ? ef_client_type_set(c->client, type, err)
                     : ef_type_set(c->journal, type, err);
}

ef_status cli_type_get(cli *c, ef_str name, ef_type_list *out, ef_error *err)
{
    return c->client ? ef_client_type_get(c->client, name, out, err)
                     : ef_type_get(c->journal, name, out, err);
}

ef_status cli_type_ls(cli *c, ef_type_list *out, ef_error *err)
{
    return c->client ? ef_client_type_ls(c->client, out, err) : ef_type_ls(c->journal, out, err);
}

ef_status cli_view_get(cli *c, ef_str projection, ef_str tenant, ef_str id,
                       const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    return c->client ? ef_client_view_get(c->client, projection, tenant, id, freshness, out, err)
                     : ef_view_get(c->engine, projection, tenant, id, freshness, out, err);
}

ef_status cli_view_find(cli *c, const ef_view_query *query, ef_view_list *out, ef_error *err)
{
    return c->client ? ef_client_view_find(c->client, query, out, err)
                     : ef_view_find(c->engine, query, out, err);
}

ef_status cli_view_explain(cli *c, ef_str projection, ef_str tenant, ef_str id, size_t limit,
                           ef_batch *out, ef_error *err)
{
    return c->client ? ef_client_view_explain(c->client, projection, tenant, id, limit, out, err)
                     : ef_view_explain(c->engine, projection, tenant, id, limit, NULL, out, err);
}

ef_status cli_view_at(cli *c, ef_str projection, ef_str tenant, ef_str id, int64_t position,
                      ef_view_list *out, ef_error *err)
{
    return c->client ? ef_client_view_at(c->client, projection, tenant, id, position, out, err)
                     : ef_view_at(c->engine, projection, tenant, id, position, NULL, out, err);
}

ef_status cli_view_export(cli *c, ef_str projection, ef_str tenant, bool any_tenant,
                          bool (*each)(void *context, const ef_view *view), void *context,
                          int64_t *out_as_of, ef_error *err)
{
    return c->client ? ef_client_view_export(c->client, projection, tenant, any_tenant, each,
                                             context, out_as_of, err)
                     : ef_view_export(c->engine, projection, tenant, any_tenant, each, context,
                                      out_as_of, err);
}

ef_status cli_projection_ls(cli *c, ef_str name, ef_projection_list *out, ef_error *err)
{
    return c->client ? ef_client_projection_ls(c->client, name, out, err)
                     : ef_projection_ls(c->engine, name, out, err);
}

ef_status cli_projection_scope(cli *c, ef_str name, ef_str tenant, ef_scope_list *out,
                               ef_error *err)
{
    return c->client ? ef_client_projection_scope(c->client, name, tenant, out, err)
                     : ef_projection_scope(c->engine, name, tenant, out, err);
}

ef_status cli_projection_failures(cli *c, ef_str name, bool resolved, size_t limit,
                                  ef_failure_list *out, ef_error *err)
{
    return c->client ? ef_client_projection_failures(c->client, name, resolved, limit, out, err)
                     : ef_projection_failures(c->engine, name, resolved, limit, out, err);
}

ef_status cli_projection_try_draft(cli *c, const ef_draft *draft,
                                   bool (*each)(void *context, const ef_draft_row *row),
                                   void *context, ef_draft_result *out, ef_error *err)
{
    return c->client ? ef_client_projection_try_draft(c->client, draft, each, context, out, err)
                     : ef_projection_try_draft(c->engine, draft, each, context, out, NULL, err);
}

ef_status cli_projection_pause(cli *c, ef_str name, ef_str actor, ef_str reason, ef_error *err)
{
    return c->client ? ef_client_projection_pause(c->client, name, reason, err)
                     : ef_projection_pause(c->engine, name, actor, reason, err);
}

ef_status cli_projection_resume(cli *c, ef_str name, ef_str actor, ef_str reason, ef_error *err)
{
    return c->client ? ef_client_projection_resume(c->client, name, reason, err)
                     : ef_projection_resume(c->engine, name, actor, reason, err);
}

ef_status cli_projection_rebuild(cli *c, const ef_rebuild *rebuild, ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_projection_rebuild(c->client, rebuild, out, err)
                     : ef_projection_rebuild(c->engine, rebuild, out, err);
}

ef_status cli_projection_verify(cli *c, ef_str projection, ef_str actor, ef_str reason,
                                ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_projection_verify(c->client, projection, reason, out, err)
                     : ef_projection_verify(c->engine, projection, actor, reason, out, err);
}

ef_status cli_projection_switch(cli *c, const ef_generation_choice *route, ef_error *err)
{
    return c->client ? ef_client_projection_switch(c->client, route, err)
                     : ef_projection_switch(c->engine, route, err);
}

ef_status cli_projection_rollback(cli *c, const ef_generation_choice *route, ef_error *err)
{
    return c->client ? ef_client_projection_rollback(c->client, route, err)
                     : ef_projection_rollback(c->engine, route, err);
}

ef_status cli_projection_retire(cli *c, const ef_generation_choice *route, int64_t *out_count,
                                ef_error *err)
{
    return c->client ? ef_client_projection_retire(c->client, route, out_count, err)
                     : ef_projection_retire(c->engine, route, out_count, err);
}

ef_status cli_projection_diff(cli *c, const ef_generation_choice *left,
                              const ef_generation_choice *right,
                              bool (*each)(void *context, const ef_difference *difference),
                              void *context, ef_diff *out, ef_error *err)
{
    return c->client ? ef_client_projection_diff(c->client, left, right, each, context, out, err)
                     : ef_projection_diff(c->engine, left, right, each, context, out, err);
}

ef_status cli_projection_seed(cli *c, const ef_seed *seed, ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_projection_seed(c->client, seed, out, err)
                     : ef_projection_seed(c->engine, seed, out, err);
}

ef_status cli_outbox_ls(cli *c, const ef_outbox_query *query, ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_ls(c->client, query, out, err)
                     : ef_outbox_ls(c->journal, query, out, err);
}

ef_status cli_outbox_summarise(cli *c, const ef_outbox_query *query, ef_outbox_summary *out,
                               ef_error *err)
{
    return c->client ? ef_client_outbox_summarise(c->client, query, out, err)
                     : ef_outbox_summarise(c->journal, query, out, err);
}

ef_status cli_outbox_requeue(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_requeue(c->client, act, out, err)
                     : ef_outbox_requeue(c->journal, act, out, err);
}

ef_status cli_outbox_requeue_dead(cli *c, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_requeue_dead(c->client, bulk, out_count, out, err)
                     : ef_outbox_requeue_dead(c->journal, bulk, out_count, out, err);
}

ef_status cli_outbox_skip_dead(cli *c, const ef_outbox_bulk *bulk, int64_t *out_count,
                               ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_skip_dead(c->client, bulk, out_count, out, err)
                     : ef_projection_skip_dead(c->engine, bulk, out_count, out, err);
}

ef_status cli_outbox_group(cli *c, const ef_outbox_query *query, ef_row_groups *out, ef_error *err)
{
    return c->client ? ef_client_outbox_group(c->client, query, out, err)
                     : ef_outbox_group(c->journal, query, out, err);
}

ef_status cli_outbox_skip(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_skip(c->client, act, out, err)
                     : ef_projection_skip(c->engine, act, out, err);
}

ef_status cli_outbox_replay(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err)
{
    return c->client ? ef_client_outbox_replay(c->client, act, out, err)
                     : ef_outbox_replay(c->engine, act, 0, out, err);
}

ef_status cli_lane_ls(cli *c, ef_lane_list *out, ef_error *err)
{
    return c->client ? ef_client_lane_ls(c->client, out, err) : ef_lane_ls(c->journal, out, err);
}

ef_status cli_audit_ls(cli *c, const ef_audit_query *query, ef_audit_list *out, ef_error *err)
{
    return c->client ? ef_client_audit_ls(c->client, query, out, err)
                     : ef_audit_ls(c->journal, query, out, err);
}

ef_status cli_run_get(cli *c, ef_str id, ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_run_get(c->client, id, out, err)
                     : ef_run_get(c->journal, id, out, err);
}

ef_status cli_run_ls(cli *c, bool open_only, size_t limit, ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_run_ls(c->client, open_only, limit, out, err)
                     : ef_run_ls(c->journal, open_only, limit, out, err);
}

ef_status cli_run_cancel(cli *c, ef_str id, ef_str reason, ef_error *err)
{
    return c->client ? ef_client_run_cancel(c->client, id, reason, err)
                     : ef_run_cancel(c->journal, id, err);
}

ef_status cli_replay_request(cli *c, const ef_replay *replay, ef_run_list *out, ef_error *err)
{
    return c->client ? ef_client_replay_request(c->client, replay, out, err)
                     : ef_replay_request(c->engine, replay, out, err);
}

ef_status cli_replay_preview(cli *c, const ef_replay *replay, bool validate,
                             void (*failed)(void *context, ef_str projection, const ef_event *event,
                                            ef_str message),
                             void *context, ef_replay_result *out, ef_error *err)
{
    return c->client
               ? ef_client_replay_dry_run(c->client, replay, validate, failed, context, out, err)
               : ef_replay_dry_run(c->engine, replay, validate, failed, context, out, err);
}

ef_status cli_gap_ls(cli *c, ef_gap_list *out, ef_error *err)
{
    return c->client ? ef_client_gap_ls(c->client, out, err) : ef_gap_ls(c->engine, out, err);
}

ef_status cli_gap_repair(cli *c, ef_str reason, ef_gap_list *out, ef_error *err)
{
    return c->client ? ef_client_gap_repair(c->client, reason, out, err)
                     : ef_gap_repair(c->engine, out, err);
}

ef_status cli_lease_ls(cli *c, const ef_lease_kind *kind, ef_lease_list *out, ef_error *err)
{
    return c->client ? ef_client_lease_ls(c->client, kind, out, err)
                     : ef_lease_ls(c->journal, kind, out, err);
}

ef_status cli_worker_ls(cli *c, ef_worker_list *out, ef_error *err)
{
    return c->client ? ef_client_worker_ls(c->client, out, err)
                     : ef_worker_ls(c->journal, out, err);
}

ef_status cli_partition_ls(cli *c, ef_partition_list *out, ef_error *err)
{
    return c->client ? ef_client_partition_ls(c->client, out, err)
                     : ef_partition_ls(c->journal, out, err);
}

ef_status cli_partition_sync(cli *c, const ef_partition_change *change,
                             ef_partition_sync_result *out, ef_error *err)
{
    return c->client ? ef_client_partition_sync(c->client, change, out, err)
                     : ef_partition_sync(c->journal, change, out, err);
}

ef_status cli_publisher_ls(cli *c, ef_publisher_list *out, ef_error *err)
{
    return c->client ? ef_client_publisher_ls(c->client, out, err)
                     : ef_publisher_ls(c->journal, out, err);
}

ef_status cli_publisher_get(cli *c, ef_str name, ef_publisher_list *out, ef_error *err)
{
    return c->client ? ef_client_publisher_get(c->client, name, out, err)
                     : ef_publisher_get(c->journal, name, out, err);
}

ef_status cli_publisher_set(cli *c, const ef_publisher *publisher, ef_error *err)
{
    return c->client ? ef_client_publisher_set(c->client, publisher, err)
                     : ef_publisher_set(c->journal, publisher, err);
}

ef_status cli_publisher_pause(cli *c, ef_str name, bool paused, ef_str reason, ef_error *err)
{
    return c->client ? ef_client_publisher_pause(c->client, name, paused, reason, err)
                     : ef_publisher_pause(c->journal, name, paused, err);
}

ef_status cli_publisher_remove(cli *c, ef_str name, bool discard, ef_str reason, int64_t *out_rows,
                               ef_error *err)
{
    return c->client ? ef_client_publisher_remove(c->client, name, discard, reason, out_rows, err)
                     : ef_publisher_remove(c->journal, name, discard, out_rows, err);
}

ef_status cli_published_count(cli *c, ef_str name, int64_t *out, ef_error *err)
{
    return c->client ? ef_client_published_count(c->client, name, out, err)
                     : ef_published_count(c->journal, name, EF_PUBLISHED_COUNTED, out, err);
}

/* --- calls that differ between stores and a server
 * ------------------------------------------------------------------- */

ef_status cli_projection_deploy(cli *c, const ef_deploy *deploy, const char *on_error,
                                ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    if (c->client)
        return ef_client_projection_deploy(c->client, deploy->text, deploy->in_place,
                                           ef_str_from(on_error), deploy->reason, out, err);
    return ef_projection_deploy_by(c->engine, deploy, out, out_report, err);
}

/* A log-ordered projection has one cursor per tenant; a failed event blocks the whole tenant. */
static ef_status reached_by_log(ef_str name, const ef_scope *scope, int64_t *out, ef_error *err)
{
    *out = scope->position;
    if (scope->retries == 0)
        return EF_OK;
    return ef_fail(
        err, EF_BLOCKED,
        "projection \"%.*s\" is blocked for tenant \"%.*s\" after position %" PRId64 ": %.*s",
        EF_STR_ARG(name), EF_STR_ARG(scope->tenant), scope->position, EF_STR_ARG(scope->error));
}

/* Position up to which every event is applied or blocked. */
ef_status cli_projection_reached(cli *c, ef_str name, const ef_str *tenant, int64_t *out,
                                 ef_error *err)
{
    ef_projection_list all = {0};
    ef_scope_list one = {0};
    ef_status st;

    if (!c->client)
        return ef_projection_reached(c->engine, name, tenant, out, err);
    st = ef_client_projection_ls(c->client, name, &all, err);
    if (st == EF_OK && tenant)
        st = ef_client_projection_scope(c->client, name, *tenant, &one, err);
    *out = st == EF_OK ? all.items[0].reached : 0;
    if (st == EF_OK && tenant && all.items[0].by_log)
        st = reached_by_log(name, &one.items[0], out, err);
    else if (st == EF_OK && tenant && one.items[0].position > *out)
        *out = one.items[0].position;
    ef_scope_list_release(&one);
    ef_projection_list_release(&all);
    return st;
}

static bool is_open(const ef_run *run)
{
    return run->state == EF_RUN_QUEUED || run->state == EF_RUN_RUNNING;
}

ef_status cli_engine_run(cli *c, ef_str id, const ef_run_options *options, ef_run_list *out,
                         ef_error *err)
{
    ef_status st;

    if (!c->client)
        return ef_engine_run(c->engine, id, options, out, err);
    do {
        st = ef_client_run_get(c->client, id, out, err);
    } while (st == EF_OK && is_open(&out->items[0]) && options->progress &&
             options->progress(options->context, &out->items[0], true));
    return st;
}

ef_status cli_stream_head(cli *c, ef_str tenant, ef_str stream, int64_t *out_seq,
                          int64_t *out_position, ef_error *err)
{
    if (c->client)
        return ef_fail(err, EF_UNSUPPORTED,
                       "the last seq of a stream is not available through a server");
    return ef_stream_head(c->journal, tenant, stream, out_seq, out_position, err);
}
