/*
 * calls.h - the calls that commands make, on open stores or through a server.
 *
 * Each stands for the public function of the same name. Only this file knows both ways, so commands
 * need not distinguish them.
 */
#ifndef EF_CLI_CALLS_H
#define EF_CLI_CALLS_H

#include "cli.h"

#include <everfold/generation.h>
#include <everfold/replay.h>

ef_status cli_head(cli *c, ef_head *out, ef_error *err);
ef_status cli_facts(cli *c, ef_store_facts *out, ef_error *err);
ef_status cli_read_stream(cli *c, ef_str tenant, ef_str stream, int64_t from_seq, size_t limit,
                          ef_batch *out, ef_error *err);
ef_status cli_read_log(cli *c, const ef_log_query *query, ef_batch *out, ef_error *err);
ef_status cli_read_id(cli *c, ef_str tenant, ef_str id, ef_batch *out, ef_error *err);
ef_status cli_wait(cli *c, int64_t after, int64_t timeout_ms, ef_error *err);
ef_status cli_type_set(cli *c, const ef_type *type, ef_error *err);
ef_status cli_type_get(cli *c, ef_str name, ef_type_list *out, ef_error *err);
ef_status cli_type_ls(cli *c, ef_type_list *out, ef_error *err);

ef_status cli_view_get(cli *c, ef_str projection, ef_str tenant, ef_str id,
                       const ef_freshness *freshness, ef_view_list *out, ef_error *err);
ef_status cli_view_find(cli *c, const ef_view_query *query, ef_view_list *out, ef_error *err);
ef_status cli_view_explain(cli *c, ef_str projection, ef_str tenant, ef_str id, size_t limit,
                           ef_batch *out, ef_error *err);
ef_status cli_view_at(cli *c, ef_str projection, ef_str tenant, ef_str id, int64_t position,
                      ef_view_list *out, ef_error *err);
ef_status cli_view_export(cli *c, ef_str projection, ef_str tenant, bool any_tenant,
                          bool (*each)(void *context, const ef_view *view), void *context,
                          int64_t *out_as_of, ef_error *err);

ef_status cli_projection_ls(cli *c, ef_str name, ef_projection_list *out, ef_error *err);
ef_status cli_projection_scope(cli *c, ef_str name, ef_str tenant, ef_scope_list *out,
                               ef_error *err);
ef_status cli_projection_failures(cli *c, ef_str name, bool resolved, size_t limit,
                                  ef_failure_list *out, ef_error *err);
ef_status cli_projection_try_draft(cli *c, const ef_draft *draft,
                                   bool (*each)(void *context, const ef_draft_row *row),
                                   void *context, ef_draft_result *out, ef_error *err);
ef_status cli_projection_pause(cli *c, ef_str name, ef_str actor, ef_str reason, ef_error *err);
ef_status cli_projection_resume(cli *c, ef_str name, ef_str actor, ef_str reason, ef_error *err);
ef_status cli_projection_rebuild(cli *c, const ef_rebuild *rebuild, ef_run_list *out,
                                 ef_error *err);
ef_status cli_projection_verify(cli *c, ef_str projection, ef_str actor, ef_str reason,
                                ef_run_list *out, ef_error *err);
ef_status cli_projection_switch(cli *c, const ef_generation_choice *route, ef_error *err);
ef_status cli_projection_rollback(cli *c, const ef_generation_choice *route, ef_error *err);
ef_status cli_projection_retire(cli *c, const ef_generation_choice *route, int64_t *out_count,
                                ef_error *err);
ef_status cli_projection_diff(cli *c, const ef_generation_choice *left,
                              const ef_generation_choice *right,
                              bool (*each)(void *context, const ef_difference *difference),
                              void *context, ef_diff *out, ef_error *err);
ef_status cli_projection_seed(cli *c, const ef_seed *seed, ef_run_list *out, ef_error *err);

ef_status cli_outbox_ls(cli *c, const ef_outbox_query *query, ef_row_list *out, ef_error *err);
ef_status cli_outbox_summarise(cli *c, const ef_outbox_query *query, ef_outbox_summary *out,
                               ef_error *err);
ef_status cli_outbox_requeue(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err);
ef_status cli_outbox_requeue_dead(cli *c, const ef_outbox_bulk *bulk, int64_t *out_count,
                                  ef_row_list *out, ef_error *err);
ef_status cli_outbox_skip_dead(cli *c, const ef_outbox_bulk *bulk, int64_t *out_count,
                               ef_row_list *out, ef_error *err);
ef_status cli_outbox_group(cli *c, const ef_outbox_query *query, ef_row_groups *out, ef_error *err);
ef_status cli_outbox_skip(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err);
ef_status cli_outbox_replay(cli *c, const ef_outbox_action *act, ef_row_list *out, ef_error *err);
ef_status cli_lane_ls(cli *c, ef_lane_list *out, ef_error *err);
ef_status cli_audit_ls(cli *c, const ef_audit_query *query, ef_audit_list *out, ef_error *err);

ef_status cli_run_get(cli *c, ef_str id, ef_run_list *out, ef_error *err);
ef_status cli_run_ls(cli *c, bool open_only, size_t limit, ef_run_list *out, ef_error *err);
ef_status cli_run_cancel(cli *c, ef_str id, ef_str reason, ef_error *err);
ef_status cli_replay_request(cli *c, const ef_replay *replay, ef_run_list *out, ef_error *err);
ef_status cli_replay_preview(cli *c, const ef_replay *replay, bool validate,
                             void (*failed)(void *context, ef_str projection, const ef_event *event,
                                            ef_str message),
                             void *context, ef_replay_result *out, ef_error *err);
ef_status cli_gap_ls(cli *c, ef_gap_list *out, ef_error *err);
ef_status cli_gap_repair(cli *c, ef_str reason, ef_gap_list *out, ef_error *err);

ef_status cli_lease_ls(cli *c, const ef_lease_kind *kind, ef_lease_list *out, ef_error *err);
ef_status cli_worker_ls(cli *c, ef_worker_list *out, ef_error *err);
ef_status cli_partition_ls(cli *c, ef_partition_list *out, ef_error *err);
ef_status cli_partition_sync(cli *c, const ef_partition_change *change,
                             ef_partition_sync_result *out, ef_error *err);

/* Deploys a program; `path` is for messages. A server receives `on_error` with the program; for a
 * store the caller sets it afterwards. */
ef_status cli_projection_deploy(cli *c, const ef_deploy *deploy, const char *on_error,
                                ef_projection_list *out, ef_text *out_report, ef_error *err);
/* Position up to which the projection has applied the events of a tenant; NULL: of all tenants. */
ef_status cli_projection_reached(cli *c, ef_str name, const ef_str *tenant, int64_t *out,
                                 ef_error *err);
/* As ef_engine_run. Through a server, its workers drive the run and this call only polls it. */
ef_status cli_engine_run(cli *c, ef_str id, const ef_run_options *options, ef_run_list *out,
                         ef_error *err);
/* EF_UNSUPPORTED through a server. */
ef_status cli_stream_head(cli *c, ef_str tenant, ef_str stream, int64_t *out_seq,
                          int64_t *out_position, ef_error *err);

ef_status cli_publisher_ls(cli *c, ef_publisher_list *out, ef_error *err);
ef_status cli_publisher_get(cli *c, ef_str name, ef_publisher_list *out, ef_error *err);
ef_status cli_publisher_set(cli *c, const ef_publisher *publisher, ef_error *err);
/* The server records the audit entry; without a server, cli_note does. */
ef_status cli_publisher_pause(cli *c, ef_str name, bool paused, ef_str reason, ef_error *err);
ef_status cli_publisher_remove(cli *c, ef_str name, bool discard, ef_str reason, int64_t *out_rows,
                               ef_error *err);
/* Number of published rows that are retained. */
ef_status cli_published_count(cli *c, ef_str name, int64_t *out, ef_error *err);

#endif
