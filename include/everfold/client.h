/*
 * client.h - Everfold through a running server (`everfold serve`), for programs that would rather
 * not write HTTP.
 *
 * Each call is the one of the same name in the other headers (ef_client_view_get: ef_view_get),
 * with a client where that has a journal or an engine: the same arguments, the same lists, released
 * in the same way, and the same statuses. What is different:
 *
 * EF_BUSY    the server could not be reached, or has too much to do: nothing was done, try again
 * EF_UNSURE  it was asked to change something and the answer was lost: look before repeating. An
 *            append with ids may be repeated as it is
 * EF_BAD_INPUT  also: no token, or one that does not allow it
 *
 * Who acts is whom the token names, with the `actor` of the options beside it: `who` of an act is
 * not looked at. A client may be used by any number of threads; its calls are made one after the
 * other.
 *
 * Link with libeverfold-client and libeverfold.
 */
#ifndef EVERFOLD_CLIENT_H
#define EVERFOLD_CLIENT_H

#include <everfold/everfold.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_client ef_client;

typedef struct ef_client_options {
    const char *url;     /* "http://127.0.0.1:7450", "https://events.example.org" */
    const char *token;   /* NULL: none */
    const char *ca_file; /* PEM of who signs its certificate; NULL: those of the system */
    const char
        *actor; /* the person for whom it asks, for the record: at most 64 bytes; NULL: none */
    int64_t timeout_ms; /* of a call, besides what it waits by itself; default 60,000 */
} ef_client_options;

/* Nothing is sent yet. EF_BAD_INPUT: the URL is none, or a token would go in the clear to another
 * machine */
ef_status ef_client_open(const ef_client_options *options, ef_client **out, ef_error *err);
void ef_client_close(ef_client *client); /* NULL is fine */

/* --- events ------------------------------------------------------------------------------------
 */

/* All of one tenant, or each of its own where the token allows that. */
ef_status ef_client_append(ef_client *client, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err);
ef_status ef_client_read_stream(ef_client *client, ef_str tenant, ef_str stream, int64_t from_seq,
                                size_t limit, ef_batch *out, ef_error *err);
ef_status ef_client_read_log(ef_client *client, const ef_log_query *query, ef_batch *out,
                             ef_error *err);
ef_status ef_client_read_id(ef_client *client, ef_str tenant, ef_str id, ef_batch *out,
                            ef_error *err);
/* Up to 30 s at a time. */
ef_status ef_client_wait(ef_client *client, int64_t after, int64_t timeout_ms, ef_error *err);
ef_status ef_client_head(ef_client *client, ef_head *out, ef_error *err);
/* What a handle counts (commits, appended …) is 0. */
ef_status ef_client_facts(ef_client *client, ef_store_facts *out, ef_error *err);
#define EF_CLIENT_MODE_MAX 32
/* The word for how events reach the projections there: "outbox_apply_only". */
ef_status ef_client_mode(ef_client *client, char out[EF_CLIENT_MODE_MAX], ef_error *err);

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err);
ef_status ef_client_type_get(ef_client *client, ef_str name, ef_type_list *out, ef_error *err);
ef_status ef_client_type_ls(ef_client *client, ef_type_list *out, ef_error *err);

/* Freshness is waited for up to 30 s at a time. */

/* --- views -------------------------------------------------------------------------------------
 */

ef_status ef_client_view_get(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                             const ef_freshness *freshness, ef_view_list *out, ef_error *err);
ef_status ef_client_view_find(ef_client *client, const ef_view_query *query, ef_view_list *out,
                              ef_error *err);
ef_status ef_client_view_explain(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                                 size_t limit, ef_batch *out, ef_error *err);
ef_status ef_client_view_at(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                            int64_t position, ef_view_list *out, ef_error *err);
/* Read page by page: as_of is the first page's. */
ef_status ef_client_view_export(ef_client *client, ef_str projection, ef_str tenant,
                                bool any_tenant, bool (*each)(void *context, const ef_view *view),
                                void *context, int64_t *out_as_of, ef_error *err);

/* --- projections -------------------------------------------------------------------------------
 */

/* `on_error` "stop" or "skip", with a reason for the record; "" leaves it as it is. */
ef_status ef_client_projection_deploy(ef_client *client, ef_str text, bool in_place,
                                      ef_str on_error, ef_str reason, ef_projection_list *out,
                                      ef_error *err);
ef_status ef_client_projection_ls(ef_client *client, ef_str name, ef_projection_list *out,
                                  ef_error *err);
ef_status ef_client_projection_scope(ef_client *client, ef_str name, ef_str tenant,
                                     ef_scope_list *out, ef_error *err);
/* The report of a program with mistakes is in `err`. */
ef_status ef_client_projection_try_draft(ef_client *client, const ef_draft *draft,
                                         bool (*each)(void *context, const ef_draft_row *row),
                                         void *context, ef_drafted *out, ef_error *err);
ef_status ef_client_projection_failures(ef_client *client, ef_str name, bool resolved, size_t limit,
                                        ef_failure_list *out, ef_error *err);
ef_status ef_client_projection_pause(ef_client *client, ef_str name, ef_str reason, ef_error *err);
ef_status ef_client_projection_resume(ef_client *client, ef_str name, ef_str reason, ef_error *err);
ef_status ef_client_projection_rebuild(ef_client *client, const ef_rebuild *rebuild,
                                       ef_run_list *out, ef_error *err);
ef_status ef_client_projection_verify(ef_client *client, ef_str projection, ef_str reason,
                                      ef_run_list *out, ef_error *err);
ef_status ef_client_projection_switch(ef_client *client, const ef_route *route, ef_error *err);
ef_status ef_client_projection_rollback(ef_client *client, const ef_route *route, ef_error *err);
ef_status ef_client_projection_retire(ef_client *client, const ef_route *route, int64_t *out_count,
                                      ef_error *err);
/* `each` is called for the first 10,000 that differ. */
ef_status ef_client_projection_diff(ef_client *client, const ef_route *left, const ef_route *right,
                                    bool (*each)(void *context, const ef_difference *difference),
                                    void *context, ef_diff *out, ef_error *err);
/* All views go in one request: server.body bounds them. */
ef_status ef_client_projection_seed(ef_client *client, const ef_seed *seed, ef_run_list *out,
                                    ef_error *err);

/* --- outbox, runs, crew ------------------------------------------------------------------------
 */

ef_status ef_client_outbox_ls(ef_client *client, const ef_outbox_query *query, ef_row_list *out,
                              ef_error *err);
ef_status ef_client_outbox_summarise(ef_client *client, const ef_outbox_query *query,
                                     ef_outbox_summary *out, ef_error *err);
ef_status ef_client_outbox_requeue(ef_client *client, const ef_outbox_act *act, ef_row_list *out,
                                   ef_error *err);
ef_status ef_client_outbox_requeue_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                        int64_t *out_count, ef_row_list *out, ef_error *err);
ef_status ef_client_outbox_skip_dead(ef_client *client, const ef_outbox_bulk *bulk,
                                     int64_t *out_count, ef_row_list *out, ef_error *err);
ef_status ef_client_outbox_group(ef_client *client, const ef_outbox_query *query,
                                 ef_row_groups *out, ef_error *err);
ef_status ef_client_outbox_skip(ef_client *client, const ef_outbox_act *act, ef_row_list *out,
                                ef_error *err);
ef_status ef_client_outbox_replay(ef_client *client, const ef_outbox_act *act, ef_row_list *out,
                                  ef_error *err);
ef_status ef_client_lane_ls(ef_client *client, ef_lane_list *out, ef_error *err);
ef_status ef_client_act_ls(ef_client *client, const ef_act_query *query, ef_act_list *out,
                           ef_error *err);

ef_status ef_client_publisher_ls(ef_client *client, ef_publisher_list *out, ef_error *err);
ef_status ef_client_publisher_get(ef_client *client, ef_str name, ef_publisher_list *out,
                                  ef_error *err);
/* Needs scope admin; pausing needs operate. */
ef_status ef_client_publisher_set(ef_client *client, const ef_publisher *publisher, ef_error *err);
ef_status ef_client_publisher_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                    ef_error *err);
ef_status ef_client_publisher_remove(ef_client *client, ef_str name, bool discard, ef_str reason,
                                     int64_t *out_rows, ef_error *err);
/* Of all times. */
ef_status ef_client_published_count(ef_client *client, ef_str publisher, int64_t *out,
                                    ef_error *err);

ef_status ef_client_run_get(ef_client *client, ef_str id, ef_run_list *out, ef_error *err);
ef_status ef_client_run_ls(ef_client *client, bool open_only, size_t limit, ef_run_list *out,
                           ef_error *err);
ef_status ef_client_run_cancel(ef_client *client, ef_str id, ef_str reason, ef_error *err);
ef_status ef_client_replay_request(ef_client *client, const ef_replay *replay, ef_run_list *out,
                                   ef_error *err);
/* `failed` is called for the first 10,000. */
ef_status ef_client_replay_look(ef_client *client, const ef_replay *replay, bool validate,
                                void (*failed)(void *context, ef_str projection,
                                               const ef_event *event, ef_str message),
                                void *context, ef_replayed *out, ef_error *err);
ef_status ef_client_gap_ls(ef_client *client, ef_gap_list *out, ef_error *err);
ef_status ef_client_gap_repair(ef_client *client, ef_str reason, ef_gap_list *out, ef_error *err);

ef_status ef_client_lease_ls(ef_client *client, const ef_lease_kind *kind, ef_lease_list *out,
                             ef_error *err);
ef_status ef_client_worker_ls(ef_client *client, ef_worker_list *out, ef_error *err);
ef_status ef_client_partition_ls(ef_client *client, ef_partition_list *out, ef_error *err);
ef_status ef_client_partition_sync(ef_client *client, const ef_partition_change *change,
                                   ef_partition_changed *out, ef_error *err);

/* --- API tokens: scope admin, and a token of all tenants ---------------------------------------
 */

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
    ef_str text;        /* what its owner shows; told when it is made, and "" ever after */
} ef_client_token;

typedef struct ef_client_token_list {
    const ef_client_token *items;
    size_t count;
    struct ef__batch_room *room;
} ef_client_token_list;

void ef_client_token_list_release(ef_client_token_list *list);

/* Of `token` scopes, bound, tenant and note are looked at; it ends after `expires_s`, 0: never. */
ef_status ef_client_token_create(ef_client *client, const ef_client_token *token, int64_t expires_s,
                                 ef_client_token_list *out, ef_error *err);
ef_status ef_client_token_ls(ef_client *client, ef_client_token_list *out, ef_error *err);
/* Again changes nothing. EF_NOT_FOUND */
ef_status ef_client_token_revoke(ef_client *client, ef_str id, ef_str reason,
                                 ef_client_token_list *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
