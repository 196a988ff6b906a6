/*
 * operations.c - the operations, and their inputs.
 */
#include "operation_table.h"

#include <everfold/worker.h>
#include <everfold/trial.h>

#define WAIT_MS_MAX 30000
#define PROJECTION "/v1/projections/{name}"

static const ef__input named_inputs[] = {NAMED, END};
static const ef__input noted_inputs[] = {NAMED, REASON, END};
static const ef__input of_tenant_inputs[] = {NAMED, TENANT(ef__object_request, tenant), END};
#define OF_NAME .inputs = named_inputs, .size = sizeof(ef__object_request)
#define OF_NAME_AND_REASON .inputs = noted_inputs, .size = sizeof(ef__object_request)
#define OF_NAME_AND_TENANT .inputs = of_tenant_inputs, .size = sizeof(ef__object_request)

/* --- outbox ----------------------------------------------------------------------------------- */

#define ROW_FILTERS                                                                                \
    TEXT(ef__rows_request, query.stream, "stream", QUERY),                                         \
        TEXT(ef__rows_request, query.types, "types", QUERY),                                       \
        TEXT(ef__rows_request, query.error, "error", QUERY),                                       \
        TEXT(ef__rows_request, partition, "partition", QUERY),                                     \
        TIME(ef__rows_request, query.before_us, "before", QUERY),                                  \
        TENANT(ef__rows_request, query.tenant), ANY_TENANT(ef__rows_request, query.any_tenant)

OPERATION(report_outbox, GET, "/v1/outbox", READS(QUERY), "reportOutbox", "counts and rows",
          REQUEST(ef__rows_request, TEXT(ef__rows_request, status, "status", QUERY),
                  TEXT(ef__rows_request, query.lane, "lane", QUERY),
                  INT(ef__rows_request, query.limit, "limit", QUERY, 0, 10000, .otherwise = 50),
                  TEXT(ef__rows_request, query.after, "after", QUERY),
                  INT(ef__rows_request, query.from, "from", QUERY, 1, INT64_MAX),
                  INT(ef__rows_request, query.upto, "upto", QUERY, 1, INT64_MAX), ROW_FILTERS),
          MEMBER("Outbox", "rows", row), .more = &ef__shape_row_more);

OPERATION(group_outbox, GET, "/v1/outbox/groups", READS(QUERY), "groupOutbox",
          "dead rows, or those of a status, by lane and error",
          REQUEST(ef__rows_request, TEXT(ef__rows_request, status, "status", QUERY),
                  TEXT(ef__rows_request, query.lane, "lane", QUERY), ROW_FILTERS),
          MEMBER("RowGroups", "groups", row_group));

static const ef__input action_inputs[] = {
    TEXT(ef_outbox_action, stream, "stream", MEMBER, .required = true),
    INT(ef_outbox_action, seq, "seq", MEMBER, 1, INT64_MAX, .required = true),
    TEXT(ef_outbox_action, lane, "lane", MEMBER),
    TEXT(ef_outbox_action, reason, "reason", MEMBER),
    TENANT(ef_outbox_action, tenant),
    ACTOR(ef_outbox_action, actor),
    END,
};
#define ROW_ACTION(name, verb, id, summary, schema)                                                \
    OPERATION(name, POST, "/v1/outbox:" verb, OPERATES(QUERY), id, summary,                        \
              .inputs = action_inputs, .size = sizeof(ef_outbox_action),                           \
              MEMBER(schema, "rows", row), .more = &ef__shape_row_more)
ROW_ACTION(requeue, "requeue", "requeue", "requeue a dead row", "Requeued");
ROW_ACTION(skip, "skip", "skip", "skip an event in a lane, with a reason", "Skipped");
ROW_ACTION(replay_row, "replay", "replayRow",
           "retry a failed event now; returns its remaining rows", "Left");

static const ef__input bulk_inputs[] = {
    TEXT(ef__bulk_request, bulk.lane, "lane", MEMBER),
    TEXT(ef__bulk_request, bulk.stream, "stream", MEMBER),
    TEXT(ef__bulk_request, bulk.types, "types", MEMBER),
    TEXT(ef__bulk_request, bulk.error, "error", MEMBER),
    TIME(ef__bulk_request, bulk.before_us, "before", MEMBER),
    INT(ef__bulk_request, bulk.limit, "limit", MEMBER, 1, INT64_MAX, .otherwise = 100),
    BOOL(ef__bulk_request, all, "all", MEMBER),
    BOOL(ef__bulk_request, bulk.dry_run, "dry_run", MEMBER),
    TEXT(ef__bulk_request, bulk.reason, "reason", MEMBER),
    TENANT(ef__bulk_request, bulk.tenant),
    ANY_TENANT(ef__bulk_request, any_tenant),
    ACTOR(ef__bulk_request, bulk.actor),
    END,
};
#define BULK_ACTION(name, verb, id, summary, schema)                                               \
    OPERATION(name, POST, "/v1/outbox:" verb, OPERATES(UNBOUND), id, summary,                      \
              .inputs = bulk_inputs, .size = sizeof(ef__bulk_request),                             \
              MEMBER(schema, "rows", row), .more = &ef__shape_row_more)
BULK_ACTION(requeue_dead, "requeue-dead", "requeueDead", "requeue dead rows, oldest first",
            "Requeued");
BULK_ACTION(skip_dead, "skip-dead", "skipDead",
            "skip dead rows of a lane, oldest first, with a reason", "Skipped");

OPERATION(audit, GET, "/v1/audit", READS(PART), "audit", "actions of operators, newest first",
          REQUEST(ef_audit_query,
                  INT(ef_audit_query, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
                  INT(ef_audit_query, before, "before", QUERY, 0, INT64_MAX),
                  TEXT(ef_audit_query, action, "action", QUERY),
                  TEXT(ef_audit_query, lane, "lane", QUERY)),
          ARRAY("AuditEntries", audit_entry));

/* --- runs ------------------------------------------------------------------------------------- */

OPERATION(list_runs, GET, "/v1/runs", READS(PART), "listRuns", "runs, newest first",
          REQUEST(ef__object_request,
                  INT(ef__object_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
                  BOOL(ef__object_request, flag, "open", QUERY)),
          ARRAY("Runs", run));

OPERATION(show_run, GET, "/v1/runs/{id}", READS(PART), "showRun", "one run", OF_NAME,
          ONE("Run", run));

OPERATION(cancel_run, POST, "/v1/runs/{id}:cancel", OPERATES(PART), "cancelRun", "end a run",
          OF_NAME_AND_REASON, ONE("Run", run));

#define REPLAY_INPUTS                                                                              \
    TEXT(ef__replay_request, replay.projection, "projection", MEMBER),                             \
        TEXT(ef__replay_request, replay.stream, "stream", MEMBER),                                 \
        TEXT(ef__replay_request, replay.type, "type", MEMBER),                                     \
        TEXT(ef__replay_request, replay.reason, "reason", MEMBER),                                 \
        INT(ef__replay_request, replay.from, "from", MEMBER, 0, INT64_MAX),                        \
        INT(ef__replay_request, replay.to, "to", MEMBER, 0, INT64_MAX),                            \
        TIME(ef__replay_request, replay.from_us, "from_time", MEMBER),                             \
        TIME(ef__replay_request, replay.to_us, "to_time", MEMBER),                                 \
        INT(ef__replay_request, replay.after_seq, "after_seq", MEMBER, 0, INT64_MAX),              \
        INT(ef__replay_request, replay.until_seq, "until_seq", MEMBER, 0, INT64_MAX),              \
        TENANT(ef__replay_request, replay.tenant),                                                 \
        ANY_TENANT(ef__replay_request, replay.any_tenant), ACTOR(ef__replay_request, replay.actor)

OPERATION(replay, POST, "/v1/replay", OPERATES(QUERY), "replay",
          "apply events that projections miss", REQUEST(ef__replay_request, REPLAY_INPUTS),
          ONE("Run", run), .answer_status = 202);

OPERATION(look_at_replay, POST, "/v1/replay:look", EF__SCOPE_READ, EF__TENANCY_QUERY,
          EF__ROUTE_BODY | EF__ROUTE_LONG, "lookAtReplay",
          "what a replay would apply; changes nothing",
          REQUEST(ef__replay_request, REPLAY_INPUTS,
                  BOOL(ef__replay_request, validate, "validate", MEMBER),
                  INT(ef__replay_request, limit, "limit", MEMBER, 0, 10000, .otherwise = 25)),
          ANSWER("ReplayLooked"));

OPERATION(list_gaps, GET, "/v1/gaps", READS(PART), "listGaps",
          "streams with events that a projection misses", MEMBER("Gaps", "gaps", gap));

OPERATION(repair_gaps, POST, "/v1/gaps:repair", OPERATES(UNBOUND), "repairGaps",
          "apply the missing events",
          REQUEST(ef__object_request, ACTOR(ef__object_request, actor), REASON),
          MEMBER("Gaps", "gaps", gap));

/* --- workers ---------------------------------------------------------------------------------- */

OPERATION(list_lanes, GET, "/v1/lanes", READS(UNBOUND), "listLanes", "lanes of the outbox",
          ARRAY("Lanes", lane));
OPERATION(list_leases, GET, "/v1/leases", READS(UNBOUND), "listLeases", "leases of all kinds",
          ARRAY("Leases", lease));
OPERATION(list_workers, GET, "/v1/workers", READS(UNBOUND), "listWorkers",
          "workers and their target partitions", ARRAY("Workers", worker),
          .more = &ef__shape_worker_more);
OPERATION(list_partitions, GET, "/v1/partitions", READS(UNBOUND), "listPartitions",
          "partitions, their holders and queued rows", ARRAY("Partitions", partition));

OPERATION(sync_partitions, POST, "/v1/partitions:sync", OPERATES(UNBOUND), "syncPartitions",
          "change the number of partitions",
          REQUEST(ef_partition_change,
                  INT(ef_partition_change, count, "count", MEMBER, 0, EF_PARTITIONS_MAX),
                  BOOL(ef_partition_change, prune, "prune", MEMBER),
                  BOOL(ef_partition_change, dry_run, "dry_run", MEMBER)),
          ONE("PartitionChanged", partition_sync_result));

/* --- publishers ------------------------------------------------------------------------------- */

OPERATION(list_publishers, GET, "/v1/publishers", READS(UNBOUND), "listPublishers",
          "publishers, and rows in their lanes", ARRAY("Publishers", publisher));
OPERATION(show_publisher, GET, "/v1/publishers/{name}", READS(UNBOUND), "showPublisher",
          "one publisher, and the rows in its lane", OF_NAME, ONE("Publisher", publisher));
OPERATION(pause_publisher, POST, "/v1/publishers/{name}:pause", OPERATES(UNBOUND), "pausePublisher",
          "stop delivering; events stay queued", OF_NAME_AND_REASON, ANSWER("Publisher"));
OPERATION(resume_publisher, POST, "/v1/publishers/{name}:resume", OPERATES(UNBOUND),
          "resumePublisher", "continue delivering", OF_NAME_AND_REASON, ANSWER("Publisher"));

/* retain_ms 0 retains nothing; without it, the default of the sink holds. */
OPERATION(
    set_publisher, "PUT", "/v1/publishers/{name}", ADMINISTERS, EF__ROUTE_BODY, "setPublisher",
    "create or change a publisher",
    REQUEST(ef_publisher, TEXT(ef_publisher, name, "name", PATH),
            TEXT(ef_publisher, url, "url", MEMBER, .required = true),
            TEXT(ef_publisher, types, "types", MEMBER),
            TEXT(ef_publisher, partition_by, "partition_by", MEMBER),
            INT(ef_publisher, retry_ms, "retry_ms", MEMBER, 1, INT64_MAX / 1000),
            INT(ef_publisher, attempts_max, "attempts_max", MEMBER, 0, INT32_MAX, .otherwise = -1),
            INT(ef_publisher, retain_ms, "retain_ms", MEMBER, 0, INT64_MAX / 1000, .otherwise = -1),
            INT(ef_publisher, timeout_ms, "timeout_ms", MEMBER, 1, INT64_MAX / 1000),
            INT(ef_publisher, file_bytes, "file_bytes", MEMBER, 0, INT64_MAX / 2),
            INT(ef_publisher, file_count, "file_count", MEMBER, 0, 10000),
            INT(ef_publisher, in_flight, "in_flight", MEMBER, 0, 256),
            TEXT(ef_publisher, secret, "secret", MEMBER),
            BOOL(ef_publisher, allow_private, "allow_private", MEMBER),
            BOOL(ef_publisher, paused, "paused", MEMBER)),
    ANSWER("Publisher"));

OPERATION(remove_publisher, "DELETE", "/v1/publishers/{name}", ADMINISTERS, 0, "removePublisher",
          "remove a publisher",
          REQUEST(ef__object_request, NAMED, BOOL(ef__object_request, flag, "discard", QUERY),
                  TEXT(ef__object_request, reason, "reason", QUERY)),
          ANSWER("Discarded"));

/* --- tokens ----------------------------------------------------------------------------------- */

#define EXPIRES_MAX_S (100ll * 365 * 86400)

OPERATION(list_tokens, GET, "/v1/tokens", ADMINISTERS, 0, "listTokens",
          "tokens, without their secrets", ANSWER("Tokens"));

OPERATION(create_token, POST, "/v1/tokens", ADMINISTERS, EF__ROUTE_BODY, "createToken",
          "create a token; its secret is returned once",
          REQUEST(ef__token_request,
                  TEXT(ef__token_request, scopes, "scopes", MEMBER, .required = true),
                  TEXT(ef__token_request, tenant, "tenant", MEMBER, .keeps_empty = true),
                  INT(ef__token_request, expires_s, "expires_seconds", MEMBER, 1, EXPIRES_MAX_S),
                  TEXT(ef__token_request, note, "note", MEMBER)),
          ANSWER("MadeToken"), .answer_status = 201);

OPERATION(revoke_token, POST, "/v1/tokens/{id}:revoke", ADMINISTERS, EF__ROUTE_BODY, "revokeToken",
          "revoke a token", OF_NAME_AND_REASON, ANSWER("Token"));

/* --- types and the store ---------------------------------------------------------------------- */

OPERATION(list_types, GET, "/v1/types", READS(UNBOUND), "listTypes", "event types",
          ARRAY("Types", type));

OPERATION(show_type, GET, "/v1/types/{type}", READS(UNBOUND), "showType", "one event type", OF_NAME,
          ONE("Type", type));

/* The handler reads the stored type first: members that are not given keep their values. */
OPERATION(set_type, "PUT", "/v1/types/{type}", OPERATES(UNBOUND), "setType",
          "create or change an event type",
          INPUTS(TEXT(ef__type_request, type.name, "type", PATH),
                 EF__INPUT_ONLY("name", MEMBER, TEXT),
                 TEXT(ef__type_request, intent, "intent", MEMBER),
                 BOOL(ef__type_request, type.publish, "publish", MEMBER, .keeps_empty = true),
                 TEXT(ef__type_request, type.alias_of, "alias_of", MEMBER)),
          ONE("Type", type));

OPERATION(status, GET, "/v1/status", READS(PART), "status", "the store and its head",
          ANSWER("Status"));

/* --- projections ------------------------------------------------------------------------------ */

OPERATION(list_projections, GET, "/v1/projections", READS(PART), "listProjections",
          "all projections", ANSWER("Projections"));

OPERATION(show_projection, GET, PROJECTION, READS(PART), "showProjection",
          "one projection, its program and generations", OF_NAME, ANSWER("Projection"));

OPERATION(show_scope, GET, PROJECTION "/scope", READS(QUERY), "showScope",
          "progress for one tenant", OF_NAME_AND_TENANT, ONE("Scope", scope));

OPERATION(list_failures, GET, PROJECTION "/failures", READS(PART), "listFailures",
          "events on which its program failed",
          REQUEST(ef__object_request, NAMED,
                  INT(ef__object_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
                  BOOL(ef__object_request, flag, "resolved", QUERY)),
          ARRAY("Failures", failure));

OPERATION(deploy_projection, "PUT", PROJECTION, OPERATES(UNBOUND), "deployProjection",
          "deploy a program (text)",
          REQUEST(ef__deploy_request, TEXT(ef__deploy_request, name, "name", PATH),
                  BOOL(ef__deploy_request, deploy.in_place, "in_place", QUERY),
                  TEXT(ef__deploy_request, on_error, "on_error", QUERY),
                  TEXT(ef__deploy_request, deploy.reason, "reason", QUERY),
                  TEXT(ef__deploy_request, deploy.text, "text/plain", CONTENT),
                  ACTOR(ef__deploy_request, deploy.actor)),
          .body = "Program", ANSWER("Projection"));

OPERATION(try_draft, POST, PROJECTION ":try-draft", EF__SCOPE_OPERATE, EF__TENANCY_QUERY,
          EF__ROUTE_BODY | EF__ROUTE_LONG, "tryDraft",
          "fold a program (text) over the streams with failed events, in memory",
          REQUEST(ef__draft_request, TEXT(ef__draft_request, name, "name", PATH),
                  INT(ef__draft_request, draft.limit, "limit", QUERY, 1, EF_DRAFT_ROWS_MAX),
                  TEXT(ef__draft_request, draft.text, "text/plain", CONTENT),
                  TENANT(ef__draft_request, tenant), ANY_TENANT(ef__draft_request, any_tenant)),
          .body = "Program", MEMBER("Drafted", "rows", draft_row));

#define NOTE(name, verb, id, summary, ...)                                                         \
    OPERATION(name, POST, PROJECTION ":" verb, OPERATES(UNBOUND), id, summary, OF_NAME_AND_REASON, \
              __VA_ARGS__)
NOTE(pause_projection, "pause", "pauseProjection", "stop applying events", ANSWER("Projection"));
NOTE(resume_projection, "resume", "resumeProjection", "continue applying events",
     ANSWER("Projection"));
NOTE(verify_projection, "verify", "verifyProjection", "fold from scratch beside it and compare",
     ONE("Run", run), .answer_status = 202);

OPERATION(rebuild_projection, POST, PROJECTION ":rebuild", OPERATES(UNBOUND), "rebuildProjection",
          "fold all events from scratch",
          REQUEST(ef_rebuild, TEXT(ef_rebuild, projection, "name", PATH),
                  TEXT(ef_rebuild, reason, "reason", MEMBER),
                  BOOL(ef_rebuild, in_place, "in_place", MEMBER),
                  BOOL(ef_rebuild, no_switch, "no_switch", MEMBER),
                  BOOL(ef_rebuild, switch_anyway, "switch_anyway", MEMBER),
                  ACTOR(ef_rebuild, actor)),
          ONE("Run", run), .answer_status = 202);

/* --- generations ------------------------------------------------------------------------------ */

#define CHOICE                                                                                     \
    TEXT(ef_generation_choice, projection, "name", PATH), ACTOR(ef_generation_choice, actor),      \
        TEXT(ef_generation_choice, reason, "reason", MEMBER),                                      \
        INT(ef_generation_choice, version, "version", MEMBER, 1, INT32_MAX),                       \
        INT(ef_generation_choice, generation, "generation", MEMBER, 1, INT32_MAX)

static const ef__input switch_inputs[] = {
    CHOICE,
    INT(ef_generation_choice, lag_max, "lag_max", MEMBER, 0, INT64_MAX),
    END,
};
OPERATION(switch_projection, POST, PROJECTION ":switch", OPERATES(UNBOUND), "switchProjection",
          "make another generation active", .inputs = switch_inputs,
          .size = sizeof(ef_generation_choice), ANSWER("Projection"));
OPERATION(rollback_projection, POST, PROJECTION ":rollback", OPERATES(UNBOUND),
          "rollbackProjection", "make the previous generation active again",
          .inputs = switch_inputs, .size = sizeof(ef_generation_choice), ANSWER("Projection"));

OPERATION(retire_projection, POST, PROJECTION ":retire", OPERATES(UNBOUND), "retireProjection",
          "remove a generation, or all of a version", REQUEST(ef_generation_choice, CHOICE),
          ANSWER("Retired"));

OPERATION(seed_projection, POST, PROJECTION ":seed", EF__SCOPE_OPERATE, EF__TENANCY_UNBOUND,
          EF__ROUTE_BODY | EF__ROUTE_LONG, "seedProjection",
          "start a generation with known views, one per line",
          REQUEST(ef__seed_request, TEXT(ef__seed_request, name, "name", PATH),
                  INT(ef__seed_request, position, "position", QUERY, 0, INT64_MAX, .otherwise = -1),
                  TEXT(ef__seed_request, reason, "reason", QUERY),
                  TEXT(ef__seed_request, views, "application/x-ndjson", CONTENT),
                  ACTOR(ef__seed_request, actor)),
          .body = "Program", ONE("Run", run));

OPERATION(diff_projection, GET, PROJECTION "/diff", EF__SCOPE_READ, EF__TENANCY_UNBOUND,
          EF__ROUTE_LONG, "diffProjection", "views that differ between two generations",
          REQUEST(ef__diff_request, TEXT(ef__diff_request, left.projection, "name", PATH),
                  INT(ef__diff_request, left.version, "left_version", QUERY, 1, INT32_MAX),
                  INT(ef__diff_request, left.generation, "left_generation", QUERY, 1, INT32_MAX),
                  INT(ef__diff_request, right.version, "right_version", QUERY, 1, INT32_MAX),
                  INT(ef__diff_request, right.generation, "right_generation", QUERY, 1, INT32_MAX),
                  INT(ef__diff_request, limit, "limit", QUERY, 0, 10000, .otherwise = 20)),
          MEMBER("Diff", "differences", difference));

/* --- views ------------------------------------------------------------------------------------ */

#define FRESHNESS(type)                                                                            \
    TEXT(type, freshness.at_least, "at_least", QUERY),                                             \
        BOOL(type, freshness.current, "current", QUERY),                                           \
        EF__INPUT(type, freshness.timeout_ms, "wait", QUERY, DURATION, .max = WAIT_MS_MAX)
#define VIEW                                                                                       \
    TEXT(ef__view_request, projection, "projection", PATH),                                        \
        TEXT(ef__view_request, id, "id", PATH), TENANT(ef__view_request, tenant)

OPERATION(get_view, GET, "/v1/views/{projection}/{id}", EF__SCOPE_READ, EF__TENANCY_QUERY,
          EF__ROUTE_QUICK_PLAIN, "getView", "one view; position: as of then",
          INPUTS(VIEW, FRESHNESS(ef__view_request),
                 INT(ef__view_request, position, "position", QUERY, 1, INT64_MAX)),
          .size = sizeof(ef__view_request), ONE("View", view));

OPERATION(explain_view, GET, "/v1/views/{projection}/{id}/explain", READS(QUERY), "explainView",
          "the events that produced a view",
          REQUEST(ef__view_request, VIEW,
                  INT(ef__view_request, limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX,
                      .otherwise = 1000)),
          ARRAY("Events", event));

OPERATION(find_views, GET, "/v1/views/{projection}", READS(QUERY), "findViews",
          "views by filter, sort and page",
          REQUEST(ef_view_query, TEXT(ef_view_query, projection, "projection", PATH),
                  TEXT(ef_view_query, where, "where", QUERY),
                  TEXT(ef_view_query, sort, "sort", QUERY),
                  INT(ef_view_query, limit, "limit", QUERY, 1, 10000),
                  TEXT(ef_view_query, after, "after", QUERY),
                  TEXT(ef_view_query, fields, "fields", QUERY),
                  BOOL(ef_view_query, any_tenant, "all_tenants", QUERY),
                  BOOL(ef_view_query, count_only, "count", QUERY),
                  BOOL(ef_view_query, explain, "explain", QUERY), FRESHNESS(ef_view_query),
                  TENANT(ef_view_query, tenant)),
          MEMBER("Views", "items", view));

/* --- events ----------------------------------------------------------------------------------- */

OPERATION(append_to_stream, POST, "/v1/streams/{stream}/events", EF__SCOPE_APPEND,
          EF__TENANCY_QUERY, EF__ROUTE_BODY | EF__ROUTE_APPEND, "appendToStream",
          "append one event, or an array of them, to a stream",
          INPUTS(EF__INPUT_ONLY("stream", PATH, TEXT)), .body = "Append", ANSWER("Placed"),
          .answer_status = 201);
OPERATION(append_many, POST, "/v1/events", EF__SCOPE_APPEND, EF__TENANCY_QUERY,
          EF__ROUTE_BODY | EF__ROUTE_APPEND, "appendMany",
          "append a batch to many streams, atomically", .body = "AppendMany", ANSWER("Placed"),
          .answer_status = 201);

OPERATION(
    read_stream, GET, "/v1/streams/{stream}/events", READS(QUERY), "readStream",
    "events of a stream by seq",
    REQUEST(ef__stream_request, TEXT(ef__stream_request, stream, "stream", PATH),
            INT(ef__stream_request, from_seq, "from_seq", QUERY, 1, INT64_MAX, .otherwise = 1),
            INT(ef__stream_request, limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX, .otherwise = 100),
            TENANT(ef__stream_request, tenant)),
    ARRAY("Events", event));

OPERATION(read_log, GET, "/v1/events", READS(QUERY), "readLog", "events by position",
          REQUEST(ef__log_request, INT(ef__log_request, query.after, "after", QUERY, 0, INT64_MAX),
                  TEXT(ef__log_request, query.type, "type", QUERY),
                  INT(ef__log_request, query.limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX,
                      .otherwise = 100),
                  BOOL(ef__log_request, query.any_tenant, "all_tenants", QUERY),
                  EF__INPUT(ef__log_request, wait_ms, "wait", QUERY, DURATION, .max = WAIT_MS_MAX),
                  TENANT(ef__log_request, query.tenant)),
          ARRAY("Events", event));

OPERATION(read_event, GET, "/v1/events/{id}", READS(QUERY), "readEvent", "one event by its id",
          OF_NAME_AND_TENANT, ONE("Event", event));
