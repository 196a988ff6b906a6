/*
 * client.h - Everfold through a running server, over HTTP.
 *
 * Each call corresponds to the call of the same name in the other headers (ef_client_view_get:
 * ef_view_get), with a client instead of a journal or an engine: the same arguments, the same
 * lists, released in the same way, and the same statuses. Differences:
 *
 * EF_BUSY    the server is unavailable or overloaded: nothing was done, retry
 * EF_UNSURE  the response to a change was lost: check the result before repeating. An append with
 *            ids may be repeated as it is
 * EF_BAD_INPUT  also: the token is missing or does not allow the call
 *
 * The actor of an audit entry is the owner of the token, with the `actor` of the options; the actor
 * of an action is ignored. Any number of threads may use a client; its calls are made one after the
 * other.
 *
 * Link with libeverfold-client and libeverfold.
 */
#pragma once

#include <everfold/everfold.h>

EF_C_BEGIN

typedef struct ef_client ef_client;

typedef struct ef_client_options {
    const char *url;     /* "http://127.0.0.1:7450", "https://events.example.org", "unix:PATH" */
    const char *token;   /* NULL: none */
    const char *ca_file; /* PEM of the issuer of its certificate; NULL: those of the system */
    const char *actor; /* the person it calls for, in the audit log: at most 64 bytes; NULL: none */
    int64_t timeout_ms; /* of a call, in addition to a wait that it requests; default 60,000 */
} ef_client_options;

/* Operations that a server without tokens allows only to its own user are sent to its Unix socket,
 * if that is on this machine and of this user or of root. A token is not sent to a socket of
 * another user.
 *
 * Does not connect yet. EF_BAD_INPUT: invalid URL, or a token would be sent unencrypted to another
 * machine. */
ef_status ef_client_open(const ef_client_options *options, ef_client **out, ef_error *err);
void ef_client_close(ef_client *client); /* accepts NULL */

/* --- events ----------------------------------------------------------------------------------- */

/* All events of one tenant, or of several where the token allows it. */
ef_status ef_client_append(ef_client *client, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);
ef_status ef_client_read_stream(ef_client *client, ef_str tenant, ef_str stream, int64_t from_seq,
                                size_t limit, ef_batch *out, ef_error *err);
ef_status ef_client_read_log(ef_client *client, const ef_log_query *query, ef_batch *out,
                             ef_error *err);
ef_status ef_client_read_id(ef_client *client, ef_str tenant, ef_str id, ef_batch *out,
                            ef_error *err);
/* Waits in requests of up to 30 s. */
ef_status ef_client_wait(ef_client *client, int64_t after, int64_t timeout_ms, ef_error *err);
ef_status ef_client_head(ef_client *client, ef_head *out, ef_error *err);
/* The counters of a handle (commits, appended …) are 0. */
ef_status ef_client_facts(ef_client *client, ef_store_facts *out, ef_error *err);
#define EF_CLIENT_MODE_MAX 32 /* bytes: the longest mode and its NUL */
/* How events reach the projections of the server: "outbox_apply_only". */
ef_status ef_client_mode(ef_client *client, char out[EF_CLIENT_MODE_MAX], ef_error *err);

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err);
ef_status ef_client_type_ls(ef_client *client, const ef_str *name, ef_type_list *out,
                            ef_error *err);

/* A wait for freshness is made in requests of up to 30 s. */

/* --- views ------------------------------------------------------------------------------------ */

ef_status ef_client_view_get(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                             const ef_freshness *freshness, ef_view_list *out, ef_error *err);
ef_status ef_client_view_find(ef_client *client, const ef_view_query *query, ef_view_list *out,
                              ef_error *err);
ef_status ef_client_view_explain(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                                 size_t limit, ef_batch *out, ef_error *err);
ef_status ef_client_view_at(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                            int64_t position, ef_view_list *out, ef_error *err);
/* Reads page by page: as_of is that of the first page. */
ef_status ef_client_view_export(ef_client *client, ef_str projection, ef_str tenant,
                                bool any_tenant, bool (*each)(void *context, const ef_view *view),
                                void *context, int64_t *out_as_of, ef_error *err);

/* --- projections ------------------------------------------------------------------------------ */

/* `on_error`: "stop" or "skip", with a reason for the audit log; "" leaves it unchanged. */
ef_status ef_client_projection_deploy(ef_client *client, ef_str text, bool in_place,
                                      ef_str on_error, ef_str reason, ef_projection_list *out,
                                      ef_error *err);
ef_status ef_client_projection_ls(ef_client *client, ef_str name, ef_projection_list *out,
                                  ef_error *err);
ef_status ef_client_projection_scope(ef_client *client, ef_str name, ef_str tenant,
                                     ef_scope_list *out, ef_error *err);
/* The diagnostics of an invalid program are in `err`. */
ef_status ef_client_projection_try_draft(ef_client *client, const ef_draft *draft,
                                         bool (*each)(void *context, const ef_draft_row *row),
                                         void *context, ef_draft_result *out, ef_error *err);
/* The tenant is that of the token; query->tenant is ignored. */
ef_status ef_client_projection_failures(ef_client *client, const ef_failure_query *query,
                                        ef_failure_list *out, ef_error *err);
ef_status ef_client_projection_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                     ef_error *err);
ef_status ef_client_projection_rebuild(ef_client *client, const ef_rebuild *rebuild,
                                       ef_run_list *out, ef_error *err);
ef_status ef_client_projection_switch(ef_client *client, const ef_generation_choice *route,
                                      ef_error *err);
ef_status ef_client_projection_retire(ef_client *client, const ef_generation_choice *route,
                                      int64_t *out_count, ef_error *err);
/* `each` is called for the first 10,000 differences. */
ef_status ef_client_projection_diff(ef_client *client, const ef_generation_choice *left,
                                    const ef_generation_choice *right,
                                    bool (*each)(void *context, const ef_difference *difference),
                                    void *context, ef_diff *out, ef_error *err);
/* All views are sent in one request: server.body limits its size. */
ef_status ef_client_projection_seed(ef_client *client, const ef_seed *seed, ef_run_list *out,
                                    ef_error *err);

/* --- outbox, runs, workers -------------------------------------------------------------------- */

ef_status ef_client_outbox_ls(ef_client *client, const ef_outbox_query *query, ef_row_list *out,
                              ef_error *err);
ef_status ef_client_outbox_summarise(ef_client *client, const ef_outbox_query *query,
                                     ef_outbox_summary *out, ef_error *err);
ef_status ef_client_outbox_requeue(ef_client *client, const ef_outbox_action *action,
                                   ef_row_list *out, ef_error *err);
ef_status ef_client_outbox_requeue_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                        int64_t *out_count, ef_row_list *out, ef_error *err);
ef_status ef_client_outbox_skip_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                     int64_t *out_count, ef_row_list *out, ef_error *err);
ef_status ef_client_outbox_group(ef_client *client, const ef_outbox_query *query,
                                 ef_row_groups *out, ef_error *err);
ef_status ef_client_outbox_skip(ef_client *client, const ef_outbox_action *action, ef_row_list *out,
                                ef_error *err);
ef_status ef_client_outbox_replay(ef_client *client, const ef_outbox_action *action,
                                  ef_row_list *out, ef_error *err);
ef_status ef_client_lane_ls(ef_client *client, ef_lane_list *out, ef_error *err);
ef_status ef_client_audit_ls(ef_client *client, const ef_audit_query *query, ef_audit_list *out,
                             ef_error *err);

ef_status ef_client_publisher_ls(ef_client *client, const ef_str *name, ef_publisher_list *out,
                                 ef_error *err);
/* Needs scope admin; pausing needs operate. */
ef_status ef_client_publisher_set(ef_client *client, const ef_publisher *publisher, ef_error *err);
ef_status ef_client_publisher_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                    ef_error *err);
ef_status ef_client_publisher_remove(ef_client *client, ef_str name, bool discard, ef_str reason,
                                     int64_t *out_rows, ef_error *err);
/* The events that are kept. */
ef_status ef_client_published_count(ef_client *client, ef_str lane, int64_t *out_count,
                                    ef_error *err);

/* The tenant is that of the token; query->tenant is ignored. */
ef_status ef_client_run_ls(ef_client *client, const ef_run_query *query, ef_run_list *out,
                           ef_error *err);
ef_status ef_client_run_cancel(ef_client *client, ef_str id, ef_str reason, ef_error *err);
ef_status ef_client_replay_request(ef_client *client, const ef_replay *replay, ef_run_list *out,
                                   ef_error *err);
/* `failed` is called for the first 10,000 failures. */
ef_status ef_client_replay_dry_run(ef_client *client, const ef_replay *replay, bool validate,
                                   void (*failed)(void *context, ef_str projection,
                                                  const ef_event *event, ef_str message),
                                   void *context, ef_replay_result *out, ef_error *err);
ef_status ef_client_gap_ls(ef_client *client, bool repair, ef_str reason, ef_gap_list *out,
                           ef_error *err);

ef_status ef_client_lease_ls(ef_client *client, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err);
ef_status ef_client_worker_ls(ef_client *client, ef_worker_list *out, ef_error *err);
ef_status ef_client_partition_ls(ef_client *client, ef_partition_list *out, ef_error *err);
ef_status ef_client_partition_sync(ef_client *client, const ef_partition_change *change,
                                   ef_partition_sync_result *out, ef_error *err);

/* --- API tokens: scope admin, and a token of all tenants -------------------------------------- */

typedef struct ef_client_token {
    ef_str id;
    ef_str scopes; /* "append,read" */
    bool bound;    /* to `tenant` */
    ef_str tenant;
    ef_str note;
    ef_str state; /* "live", "expired", "revoked" */
    int64_t created_us;
    int64_t expires_us; /* 0: never */
    int64_t revoked_us; /* 0: not */
    ef_str text;        /* the secret; returned on creation only, "" afterwards */
} ef_client_token;

typedef struct ef_client_token_list {
    const ef_client_token *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_client_token_list;

/* Reads scopes, bound, tenant and note of `token`; it expires after `expires_s`, 0: never. */
ef_status ef_client_token_create(ef_client *client, const ef_client_token *token, int64_t expires_s,
                                 ef_client_token_list *out, ef_error *err);
ef_status ef_client_token_ls(ef_client *client, ef_client_token_list *out, ef_error *err);
/* Revoking a revoked token changes nothing. EF_NOT_FOUND */
ef_status ef_client_token_revoke(ef_client *client, ef_str id, ef_str reason,
                                 ef_client_token_list *out, ef_error *err);

EF_C_END
