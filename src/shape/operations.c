/*
 * operations.c - operations on the outbox, runs, workers, publishers, tokens and types.
 */
#include "operation_table.h"

#include <everfold/partition.h>

/* --- outbox -------------------------------------------------------------------------------------
 */

#define ROW_FILTERS                                                                                \
    TEXT(ef__rows_request, query.stream, "stream", QUERY),                                         \
        TEXT(ef__rows_request, query.types, "types", QUERY),                                       \
        TEXT(ef__rows_request, query.error, "error", QUERY),                                       \
        TEXT(ef__rows_request, partition, "partition", QUERY),                                     \
        TIME(ef__rows_request, query.before_us, "before", QUERY),                                  \
        TENANT(ef__rows_request, query.tenant), ANY_TENANT(ef__rows_request, query.any_tenant),    \
        END

static const ef__input report_inputs[] = {
    TEXT(ef__rows_request, status, "status", QUERY),
    TEXT(ef__rows_request, query.lane, "lane", QUERY),
    INT(ef__rows_request, query.limit, "limit", QUERY, 0, 10000, .otherwise = 50),
    TEXT(ef__rows_request, query.after, "after", QUERY),
    INT(ef__rows_request, query.from, "from", QUERY, 1, INT64_MAX),
    INT(ef__rows_request, query.upto, "upto", QUERY, 1, INT64_MAX),
    ROW_FILTERS,
};
const ef__operation ef__op_report_outbox = {GET,
                                            "/v1/outbox",
                                            READS(QUERY),
                                            "reportOutbox",
                                            "counts and rows",
                                            REQUEST(report_inputs, ef__rows_request),
                                            MEMBER("Outbox", "rows", row),
                                            .more = &ef__shape_row_more};

static const ef__input group_inputs[] = {
    TEXT(ef__rows_request, status, "status", QUERY),
    TEXT(ef__rows_request, query.lane, "lane", QUERY),
    ROW_FILTERS,
};
const ef__operation ef__op_group_outbox = {GET,
                                           "/v1/outbox/groups",
                                           READS(QUERY),
                                           "groupOutbox",
                                           "dead rows, or those of a status, by lane and error",
                                           REQUEST(group_inputs, ef__rows_request),
                                           MEMBER("RowGroups", "groups", row_group)};

static const ef__input action_inputs[] = {
    TEXT(ef_outbox_action, stream, "stream", MEMBER, .required = true),
    INT(ef_outbox_action, seq, "seq", MEMBER, 1, INT64_MAX, .required = true),
    TEXT(ef_outbox_action, lane, "lane", MEMBER),
    TEXT(ef_outbox_action, reason, "reason", MEMBER),
    TENANT(ef_outbox_action, tenant),
    ACTOR(ef_outbox_action, actor),
    END,
};
#define ROW_ACTION(verb, id, summary, schema)                                                      \
    {                                                                                              \
        POST, "/v1/outbox:" verb, OPERATES(QUERY), id, summary,                                    \
            REQUEST(action_inputs, ef_outbox_action), MEMBER(schema, "rows", row),                 \
            .more = &ef__shape_row_more                                                            \
    }
const ef__operation ef__op_requeue =
    ROW_ACTION("requeue", "requeue", "requeue a dead row", "Requeued");
const ef__operation ef__op_skip =
    ROW_ACTION("skip", "skip", "skip an event in a lane, with a reason", "Skipped");
const ef__operation ef__op_replay_row = ROW_ACTION(
    "replay", "replayRow", "retry a failed event now; returns its remaining rows", "Left");

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
#define BULK_ACTION(verb, id, summary, schema)                                                     \
    {                                                                                              \
        POST, "/v1/outbox:" verb, OPERATES(UNBOUND), id, summary,                                  \
            REQUEST(bulk_inputs, ef__bulk_request), MEMBER(schema, "rows", row),                   \
            .more = &ef__shape_row_more                                                            \
    }
const ef__operation ef__op_requeue_dead =
    BULK_ACTION("requeue-dead", "requeueDead", "requeue dead rows, oldest first", "Requeued");
const ef__operation ef__op_skip_dead = BULK_ACTION(
    "skip-dead", "skipDead", "skip dead rows of a lane, oldest first, with a reason", "Skipped");

static const ef__input audit_inputs[] = {
    INT(ef_audit_query, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
    INT(ef_audit_query, before, "before", QUERY, 0, INT64_MAX),
    TEXT(ef_audit_query, action, "action", QUERY),
    TEXT(ef_audit_query, lane, "lane", QUERY),
    END,
};
const ef__operation ef__op_audit = {GET,
                                    "/v1/audit",
                                    READS(PART),
                                    "audit",
                                    "actions of operators, newest first",
                                    REQUEST(audit_inputs, ef_audit_query),
                                    ARRAY("AuditEntries", audit_entry)};

/* --- runs ---------------------------------------------------------------------------------------
 */

static const ef__input runs_inputs[] = {
    INT(ef__object_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
    BOOL(ef__object_request, flag, "open", QUERY),
    END,
};
const ef__operation ef__op_list_runs = {GET,
                                        "/v1/runs",
                                        READS(PART),
                                        "listRuns",
                                        "runs, newest first",
                                        REQUEST(runs_inputs, ef__object_request),
                                        ARRAY("Runs", run)};

static const ef__input run_inputs[] = {NAMED, END};
const ef__operation ef__op_show_run = {GET,
                                       "/v1/runs/{id}",
                                       READS(PART),
                                       "showRun",
                                       "one run",
                                       REQUEST(run_inputs, ef__object_request),
                                       ONE("Run", run)};

static const ef__input cancel_inputs[] = {NAMED, REASON, END};
const ef__operation ef__op_cancel_run = {POST,           "/v1/runs/{id}:cancel",
                                         OPERATES(PART), "cancelRun",
                                         "end a run",    REQUEST(cancel_inputs, ef__object_request),
                                         ONE("Run", run)};

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

static const ef__input replay_inputs[] = {REPLAY_INPUTS, END};
const ef__operation ef__op_replay = {POST,
                                     "/v1/replay",
                                     OPERATES(QUERY),
                                     "replay",
                                     "apply events that projections miss",
                                     REQUEST(replay_inputs, ef__replay_request),
                                     ONE("Run", run),
                                     .answer_status = 202};

static const ef__input preview_inputs[] = {
    REPLAY_INPUTS,
    BOOL(ef__replay_request, validate, "validate", MEMBER),
    INT(ef__replay_request, limit, "limit", MEMBER, 0, 10000, .otherwise = 25),
    END,
};
const ef__operation ef__op_look_at_replay = {POST,
                                             "/v1/replay:look",
                                             EF__SCOPE_READ,
                                             EF__TENANCY_QUERY,
                                             EF__ROUTE_BODY | EF__ROUTE_LONG,
                                             "lookAtReplay",
                                             "what a replay would apply; changes nothing",
                                             REQUEST(preview_inputs, ef__replay_request),
                                             ANSWER("ReplayLooked")};

const ef__operation ef__op_list_gaps = {GET,
                                        "/v1/gaps",
                                        READS(PART),
                                        "listGaps",
                                        "streams with events that a projection misses",
                                        MEMBER("Gaps", "gaps", gap)};

static const ef__input note_inputs[] = {ACTOR(ef__object_request, actor), REASON, END};
const ef__operation ef__op_repair_gaps = {POST,
                                          "/v1/gaps:repair",
                                          OPERATES(UNBOUND),
                                          "repairGaps",
                                          "apply the missing events",
                                          REQUEST(note_inputs, ef__object_request),
                                          MEMBER("Gaps", "gaps", gap)};

/* --- workers ------------------------------------------------------------------------------------
 */

const ef__operation ef__op_list_lanes = {GET,         "/v1/lanes",           READS(UNBOUND),
                                         "listLanes", "lanes of the outbox", ARRAY("Lanes", lane)};
const ef__operation ef__op_list_leases = {
    GET, "/v1/leases", READS(UNBOUND), "listLeases", "leases of all kinds", ARRAY("Leases", lease)};
const ef__operation ef__op_list_workers = {GET,
                                           "/v1/workers",
                                           READS(UNBOUND),
                                           "listWorkers",
                                           "workers and their target partitions",
                                           ARRAY("Workers", worker),
                                           .more = &ef__shape_worker_more};
const ef__operation ef__op_list_partitions = {GET,
                                              "/v1/partitions",
                                              READS(UNBOUND),
                                              "listPartitions",
                                              "partitions, their holders and queued rows",
                                              ARRAY("Partitions", partition)};

static const ef__input sync_inputs[] = {
    INT(ef_partition_change, count, "count", MEMBER, 0, EF_PARTITIONS_MAX),
    BOOL(ef_partition_change, prune, "prune", MEMBER),
    BOOL(ef_partition_change, dry_run, "dry_run", MEMBER),
    END,
};
const ef__operation ef__op_sync_partitions = {POST,
                                              "/v1/partitions:sync",
                                              OPERATES(UNBOUND),
                                              "syncPartitions",
                                              "change the number of partitions",
                                              REQUEST(sync_inputs, ef_partition_change),
                                              ONE("PartitionChanged", partition_sync_result)};

/* --- publishers ---------------------------------------------------------------------------------
 */

static const ef__input publisher_inputs[] = {NAMED, END};
static const ef__input publisher_note_inputs[] = {NAMED, REASON, END};

const ef__operation ef__op_list_publishers = {GET,
                                              "/v1/publishers",
                                              READS(UNBOUND),
                                              "listPublishers",
                                              "publishers, and rows in their lanes",
                                              ARRAY("Publishers", publisher)};
const ef__operation ef__op_show_publisher = {GET,
                                             "/v1/publishers/{name}",
                                             READS(UNBOUND),
                                             "showPublisher",
                                             "one publisher, and the rows in its lane",
                                             REQUEST(publisher_inputs, ef__object_request),
                                             ONE("Publisher", publisher)};
const ef__operation ef__op_pause_publisher = {POST,
                                              "/v1/publishers/{name}:pause",
                                              OPERATES(UNBOUND),
                                              "pausePublisher",
                                              "stop delivering; events stay queued",
                                              REQUEST(publisher_note_inputs, ef__object_request),
                                              ANSWER("Publisher")};
const ef__operation ef__op_resume_publisher = {POST,
                                               "/v1/publishers/{name}:resume",
                                               OPERATES(UNBOUND),
                                               "resumePublisher",
                                               "continue delivering",
                                               REQUEST(publisher_note_inputs, ef__object_request),
                                               ANSWER("Publisher")};

/* retain_ms 0 retains nothing; without it, the default of the sink holds. */
static const ef__input set_publisher_inputs[] = {
    TEXT(ef_publisher, name, "name", PATH),
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
    BOOL(ef_publisher, paused, "paused", MEMBER),
    END,
};
const ef__operation ef__op_set_publisher = {"PUT",
                                            "/v1/publishers/{name}",
                                            ADMINISTERS,
                                            EF__ROUTE_BODY,
                                            "setPublisher",
                                            "create or change a publisher",
                                            REQUEST(set_publisher_inputs, ef_publisher),
                                            ANSWER("Publisher")};

static const ef__input remove_publisher_inputs[] = {
    NAMED,
    BOOL(ef__object_request, flag, "discard", QUERY),
    TEXT(ef__object_request, reason, "reason", QUERY),
    END,
};
const ef__operation ef__op_remove_publisher = {"DELETE",
                                               "/v1/publishers/{name}",
                                               ADMINISTERS,
                                               0,
                                               "removePublisher",
                                               "remove a publisher",
                                               REQUEST(remove_publisher_inputs, ef__object_request),
                                               ANSWER("Discarded")};

/* --- tokens -------------------------------------------------------------------------------------
 */

#define EXPIRES_MAX_S (100ll * 365 * 86400)

const ef__operation ef__op_list_tokens = {GET,
                                          "/v1/tokens",
                                          ADMINISTERS,
                                          0,
                                          "listTokens",
                                          "tokens, without their secrets",
                                          ANSWER("Tokens")};

static const ef__input create_token_inputs[] = {
    TEXT(ef__token_request, scopes, "scopes", MEMBER, .required = true),
    TEXT(ef__token_request, tenant, "tenant", MEMBER, .keeps_empty = true),
    INT(ef__token_request, expires_s, "expires_seconds", MEMBER, 1, EXPIRES_MAX_S),
    TEXT(ef__token_request, note, "note", MEMBER),
    END,
};
const ef__operation ef__op_create_token = {POST,
                                           "/v1/tokens",
                                           ADMINISTERS,
                                           EF__ROUTE_BODY,
                                           "createToken",
                                           "create a token; its secret is returned once",
                                           REQUEST(create_token_inputs, ef__token_request),
                                           ANSWER("MadeToken"),
                                           .answer_status = 201};

static const ef__input revoke_inputs[] = {NAMED, REASON, END};
const ef__operation ef__op_revoke_token = {POST,
                                           "/v1/tokens/{id}:revoke",
                                           ADMINISTERS,
                                           EF__ROUTE_BODY,
                                           "revokeToken",
                                           "revoke a token",
                                           REQUEST(revoke_inputs, ef__object_request),
                                           ANSWER("Token")};

/* --- types and the store ------------------------------------------------------------------------
 */

const ef__operation ef__op_list_types = {GET,         "/v1/types",   READS(UNBOUND),
                                         "listTypes", "event types", ARRAY("Types", type)};

static const ef__input type_inputs[] = {NAMED, END};
const ef__operation ef__op_show_type = {GET,
                                        "/v1/types/{type}",
                                        READS(UNBOUND),
                                        "showType",
                                        "one event type",
                                        REQUEST(type_inputs, ef__object_request),
                                        ONE("Type", type)};

/* The handler reads the stored type first: members that are not given keep their values. */
static const ef__input set_type_inputs[] = {
    TEXT(ef__type_request, type.name, "type", PATH),
    EF__INPUT_ONLY("name", MEMBER, TEXT),
    TEXT(ef__type_request, intent, "intent", MEMBER),
    BOOL(ef__type_request, type.publish, "publish", MEMBER, .keeps_empty = true),
    TEXT(ef__type_request, type.alias_of, "alias_of", MEMBER),
    END,
};
const ef__operation ef__op_set_type = {"PUT",
                                       "/v1/types/{type}",
                                       OPERATES(UNBOUND),
                                       "setType",
                                       "create or change an event type",
                                       .inputs = set_type_inputs,
                                       ANSWER("Type")};

const ef__operation ef__op_status = {
    GET, "/v1/status", READS(PART), "status", "the store and its head", ANSWER("Status")};
