/*
 * calls.h - the calls that commands make, on open stores or through a server.
 *
 * cli_X(c, ...) is ef_client_X with c->client through a server, otherwise the public function of
 * the store that the table below names. Only this header distinguishes them.
 */
#ifndef EF_CLI_CALLS_H
#define EF_CLI_CALLS_H

#include "cli.h"

#include <everfold/generation.h>
#include <everfold/replay.h>

/* The same arguments on both ways. */
#define CLI_EITHER(c, store, remote, local, ...)                                                   \
    ((c)->client ? ef_client_##remote((c)->client, __VA_ARGS__)                                    \
                 : ef_##local((c)->store, __VA_ARGS__))
/* Through a server, the actor is that of the token, and the server adds the audit entry. */
#define CLI_EITHER_OF(c, remote, local) ((c)->client ? (remote) : (local))

#define cli_head(c, ...) CLI_EITHER(c, journal, head, journal_head, __VA_ARGS__)
#define cli_facts(c, ...) CLI_EITHER(c, journal, facts, journal_facts, __VA_ARGS__)
#define cli_read_stream(c, ...)                                                                    \
    CLI_EITHER(c, journal, read_stream, journal_read_stream, __VA_ARGS__)
#define cli_read_log(c, ...) CLI_EITHER(c, journal, read_log, journal_read_log, __VA_ARGS__)
#define cli_read_id(c, ...) CLI_EITHER(c, journal, read_id, journal_read_id, __VA_ARGS__)
#define cli_wait(c, ...) CLI_EITHER(c, journal, wait, journal_wait, __VA_ARGS__)
#define cli_type_set(c, ...) CLI_EITHER(c, journal, type_set, type_set, __VA_ARGS__)
#define cli_type_get(c, ...) CLI_EITHER(c, journal, type_get, type_get, __VA_ARGS__)
#define cli_type_ls(c, ...) CLI_EITHER(c, journal, type_ls, type_ls, __VA_ARGS__)
#define cli_view_get(c, ...) CLI_EITHER(c, engine, view_get, view_get, __VA_ARGS__)
#define cli_view_find(c, ...) CLI_EITHER(c, engine, view_find, view_find, __VA_ARGS__)
#define cli_view_explain(c, projection, tenant, id, limit, out, err)                               \
    CLI_EITHER_OF(c, ef_client_view_explain((c)->client, projection, tenant, id, limit, out, err), \
                  ef_view_explain((c)->engine, projection, tenant, id, limit, NULL, out, err))
#define cli_view_at(c, projection, tenant, id, position, out, err)                                 \
    CLI_EITHER_OF(c, ef_client_view_at((c)->client, projection, tenant, id, position, out, err),   \
                  ef_view_at((c)->engine, projection, tenant, id, position, NULL, out, err))
#define cli_view_export(c, ...) CLI_EITHER(c, engine, view_export, view_export, __VA_ARGS__)
#define cli_projection_ls(c, ...) CLI_EITHER(c, engine, projection_ls, projection_ls, __VA_ARGS__)
#define cli_projection_scope(c, ...)                                                               \
    CLI_EITHER(c, engine, projection_scope, projection_scope, __VA_ARGS__)
#define cli_projection_failures(c, ...)                                                            \
    CLI_EITHER(c, engine, projection_failures, projection_failures, __VA_ARGS__)
static inline ef_status cli_projection_try_draft(cli *c, const ef_draft *draft,
                                                 bool (*each)(void *context,
                                                              const ef_draft_row *row),
                                                 void *context, ef_draft_result *out, ef_error *err)
{
    return CLI_EITHER_OF(c,
                         ef_client_projection_try_draft(c->client, draft, each, context, out, err),
                         ef_projection_try_draft(c->engine, draft, each, context, out, NULL, err));
}
#define cli_projection_pause(c, name, actor, reason, err)                                          \
    CLI_EITHER_OF(c, ef_client_projection_pause((c)->client, name, reason, err),                   \
                  ef_projection_pause((c)->engine, name, actor, reason, err))
#define cli_projection_resume(c, name, actor, reason, err)                                         \
    CLI_EITHER_OF(c, ef_client_projection_resume((c)->client, name, reason, err),                  \
                  ef_projection_resume((c)->engine, name, actor, reason, err))
#define cli_projection_rebuild(c, ...)                                                             \
    CLI_EITHER(c, engine, projection_rebuild, projection_rebuild, __VA_ARGS__)
#define cli_projection_verify(c, projection, actor, reason, out, err)                              \
    CLI_EITHER_OF(c, ef_client_projection_verify((c)->client, projection, reason, out, err),       \
                  ef_projection_verify((c)->engine, projection, actor, reason, out, err))
#define cli_projection_switch(c, ...)                                                              \
    CLI_EITHER(c, engine, projection_switch, projection_switch, __VA_ARGS__)
#define cli_projection_rollback(c, ...)                                                            \
    CLI_EITHER(c, engine, projection_rollback, projection_rollback, __VA_ARGS__)
#define cli_projection_retire(c, ...)                                                              \
    CLI_EITHER(c, engine, projection_retire, projection_retire, __VA_ARGS__)
#define cli_projection_diff(c, ...)                                                                \
    CLI_EITHER(c, engine, projection_diff, projection_diff, __VA_ARGS__)
#define cli_projection_seed(c, ...)                                                                \
    CLI_EITHER(c, engine, projection_seed, projection_seed, __VA_ARGS__)
#define cli_outbox_ls(c, ...) CLI_EITHER(c, journal, outbox_ls, outbox_ls, __VA_ARGS__)
#define cli_outbox_summarise(c, ...)                                                               \
    CLI_EITHER(c, journal, outbox_summarise, outbox_summarise, __VA_ARGS__)
#define cli_outbox_requeue(c, ...)                                                                 \
    CLI_EITHER(c, journal, outbox_requeue, outbox_requeue, __VA_ARGS__)
#define cli_outbox_requeue_dead(c, ...)                                                            \
    CLI_EITHER(c, journal, outbox_requeue_dead, outbox_requeue_dead, __VA_ARGS__)
#define cli_outbox_skip_dead(c, ...)                                                               \
    CLI_EITHER(c, engine, outbox_skip_dead, projection_skip_dead, __VA_ARGS__)
#define cli_outbox_group(c, ...) CLI_EITHER(c, journal, outbox_group, outbox_group, __VA_ARGS__)
#define cli_outbox_skip(c, ...) CLI_EITHER(c, engine, outbox_skip, projection_skip, __VA_ARGS__)
#define cli_outbox_replay(c, act, out, err)                                                        \
    CLI_EITHER_OF(c, ef_client_outbox_replay((c)->client, act, out, err),                          \
                  ef_outbox_replay((c)->engine, act, 0, out, err))
#define cli_lane_ls(c, ...) CLI_EITHER(c, journal, lane_ls, lane_ls, __VA_ARGS__)
#define cli_audit_ls(c, ...) CLI_EITHER(c, journal, audit_ls, audit_ls, __VA_ARGS__)
#define cli_run_get(c, ...) CLI_EITHER(c, journal, run_get, run_get, __VA_ARGS__)
#define cli_run_ls(c, ...) CLI_EITHER(c, journal, run_ls, run_ls, __VA_ARGS__)
#define cli_run_cancel(c, id, reason, err)                                                         \
    CLI_EITHER_OF(c, ef_client_run_cancel((c)->client, id, reason, err),                           \
                  ef_run_cancel((c)->journal, id, err))
#define cli_replay_request(c, ...)                                                                 \
    CLI_EITHER(c, engine, replay_request, replay_request, __VA_ARGS__)
#define cli_replay_preview(c, ...)                                                                 \
    CLI_EITHER(c, engine, replay_dry_run, replay_dry_run, __VA_ARGS__)
#define cli_gap_ls(c, ...) CLI_EITHER(c, engine, gap_ls, gap_ls, __VA_ARGS__)
#define cli_gap_repair(c, reason, out, err)                                                        \
    CLI_EITHER_OF(c, ef_client_gap_repair((c)->client, reason, out, err),                          \
                  ef_gap_repair((c)->engine, out, err))
#define cli_lease_ls(c, ...) CLI_EITHER(c, journal, lease_ls, lease_ls, __VA_ARGS__)
#define cli_worker_ls(c, ...) CLI_EITHER(c, journal, worker_ls, worker_ls, __VA_ARGS__)
#define cli_partition_ls(c, ...) CLI_EITHER(c, journal, partition_ls, partition_ls, __VA_ARGS__)
#define cli_partition_sync(c, ...)                                                                 \
    CLI_EITHER(c, journal, partition_sync, partition_sync, __VA_ARGS__)
#define cli_publisher_ls(c, ...) CLI_EITHER(c, journal, publisher_ls, publisher_ls, __VA_ARGS__)
#define cli_publisher_get(c, ...) CLI_EITHER(c, journal, publisher_get, publisher_get, __VA_ARGS__)
#define cli_publisher_set(c, ...) CLI_EITHER(c, journal, publisher_set, publisher_set, __VA_ARGS__)
#define cli_publisher_pause(c, name, paused, reason, err)                                          \
    CLI_EITHER_OF(c, ef_client_publisher_pause((c)->client, name, paused, reason, err),            \
                  ef_publisher_pause((c)->journal, name, paused, err))
#define cli_publisher_remove(c, name, discard, reason, out_rows, err)                              \
    CLI_EITHER_OF(c,                                                                               \
                  ef_client_publisher_remove((c)->client, name, discard, reason, out_rows, err),   \
                  ef_publisher_remove((c)->journal, name, discard, out_rows, err))
#define cli_published_count(c, name, out, err)                                                     \
    CLI_EITHER_OF(c, ef_client_published_count((c)->client, name, out, err),                       \
                  ef_published_count((c)->journal, name, EF_PUBLISHED_COUNTED, out, err))

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

#endif
