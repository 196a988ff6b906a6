/*
 * operations_views.c - operations on projections, views and events.
 */
#include "operation_table.h"

#include <everfold/trial.h>

#define WAIT_MS_MAX 30000
#define PROJECTION "/v1/projections/{name}"

/* --- projections --------------------------------------------------------------------------------
 */

const ef__operation ef__op_list_projections = {GET,
                                               "/v1/projections",
                                               READS(PART),
                                               "listProjections",
                                               "all projections",
                                               ANSWER("Projections")};

static const ef__input projection_inputs[] = {NAMED, END};
const ef__operation ef__op_show_projection = {GET,
                                              PROJECTION,
                                              READS(PART),
                                              "showProjection",
                                              "one projection, its program and generations",
                                              REQUEST(projection_inputs, ef__object_request),
                                              ANSWER("Projection")};

static const ef__input scope_inputs[] = {NAMED, TENANT(ef__object_request, tenant), END};
const ef__operation ef__op_show_scope = {GET,
                                         PROJECTION "/scope",
                                         READS(QUERY),
                                         "showScope",
                                         "progress for one tenant",
                                         REQUEST(scope_inputs, ef__object_request),
                                         ONE("Scope", scope)};

static const ef__input failures_inputs[] = {
    NAMED,
    INT(ef__object_request, limit, "limit", QUERY, 1, 10000, .otherwise = 100),
    BOOL(ef__object_request, flag, "resolved", QUERY),
    END,
};
const ef__operation ef__op_list_failures = {GET,
                                            PROJECTION "/failures",
                                            READS(PART),
                                            "listFailures",
                                            "events on which its program failed",
                                            REQUEST(failures_inputs, ef__object_request),
                                            ARRAY("Failures", failure)};

static const ef__input deploy_inputs[] = {
    TEXT(ef__deploy_request, name, "name", PATH),
    BOOL(ef__deploy_request, in_place, "in_place", QUERY),
    TEXT(ef__deploy_request, on_error, "on_error", QUERY),
    TEXT(ef__deploy_request, reason, "reason", QUERY),
    TEXT(ef__deploy_request, text, "text/plain", CONTENT),
    ACTOR(ef__deploy_request, actor),
    END,
};
const ef__operation ef__op_deploy_projection = {"PUT",
                                                PROJECTION,
                                                OPERATES(UNBOUND),
                                                "deployProjection",
                                                "deploy a program (text)",
                                                REQUEST(deploy_inputs, ef__deploy_request),
                                                .body = "Program",
                                                ANSWER("Projection")};

static const ef__input draft_inputs[] = {
    TEXT(ef__draft_request, name, "name", PATH),
    INT(ef__draft_request, limit, "limit", QUERY, 1, EF_DRAFT_ROWS_MAX),
    TEXT(ef__draft_request, text, "text/plain", CONTENT),
    TENANT(ef__draft_request, tenant),
    ANY_TENANT(ef__draft_request, any_tenant),
    END,
};
const ef__operation ef__op_try_draft = {
    POST,
    PROJECTION ":try-draft",
    EF__SCOPE_OPERATE,
    EF__TENANCY_QUERY,
    EF__ROUTE_BODY | EF__ROUTE_LONG,
    "tryDraft",
    "fold a program (text) over the streams with failed events, in memory",
    REQUEST(draft_inputs, ef__draft_request),
    .body = "Program",
    ANSWER("Drafted")};

static const ef__input note_inputs[] = {NAMED, REASON, END};
#define NOTE(verb, id, summary, ...)                                                               \
    {                                                                                              \
        POST, PROJECTION ":" verb, OPERATES(UNBOUND), id, summary,                                 \
            REQUEST(note_inputs, ef__object_request), __VA_ARGS__                                  \
    }
const ef__operation ef__op_pause_projection =
    NOTE("pause", "pauseProjection", "stop applying events", ANSWER("Projection"));
const ef__operation ef__op_resume_projection =
    NOTE("resume", "resumeProjection", "continue applying events", ANSWER("Projection"));
const ef__operation ef__op_verify_projection =
    NOTE("verify", "verifyProjection", "fold from scratch beside it and compare", ONE("Run", run),
         .answer_status = 202);

static const ef__input rebuild_inputs[] = {
    TEXT(ef_rebuild, projection, "name", PATH),
    TEXT(ef_rebuild, reason, "reason", MEMBER),
    BOOL(ef_rebuild, in_place, "in_place", MEMBER),
    BOOL(ef_rebuild, no_switch, "no_switch", MEMBER),
    BOOL(ef_rebuild, switch_anyway, "switch_anyway", MEMBER),
    ACTOR(ef_rebuild, actor),
    END,
};
const ef__operation ef__op_rebuild_projection = {POST,
                                                 PROJECTION ":rebuild",
                                                 OPERATES(UNBOUND),
                                                 "rebuildProjection",
                                                 "fold all events from scratch",
                                                 REQUEST(rebuild_inputs, ef_rebuild),
                                                 ONE("Run", run),
                                                 .answer_status = 202};

/* --- generations --------------------------------------------------------------------------------
 */

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
const ef__operation ef__op_switch_projection = {POST,
                                                PROJECTION ":switch",
                                                OPERATES(UNBOUND),
                                                "switchProjection",
                                                "make another generation active",
                                                REQUEST(switch_inputs, ef_generation_choice),
                                                ANSWER("Projection")};
const ef__operation ef__op_rollback_projection = {POST,
                                                  PROJECTION ":rollback",
                                                  OPERATES(UNBOUND),
                                                  "rollbackProjection",
                                                  "make the previous generation active again",
                                                  REQUEST(switch_inputs, ef_generation_choice),
                                                  ANSWER("Projection")};

static const ef__input retire_inputs[] = {CHOICE, END};
const ef__operation ef__op_retire_projection = {POST,
                                                PROJECTION ":retire",
                                                OPERATES(UNBOUND),
                                                "retireProjection",
                                                "remove a generation, or all of a version",
                                                REQUEST(retire_inputs, ef_generation_choice),
                                                ANSWER("Retired")};

static const ef__input seed_inputs[] = {
    TEXT(ef__seed_request, name, "name", PATH),
    INT(ef__seed_request, position, "position", QUERY, 0, INT64_MAX, .otherwise = -1),
    TEXT(ef__seed_request, reason, "reason", QUERY),
    TEXT(ef__seed_request, views, "application/x-ndjson", CONTENT),
    ACTOR(ef__seed_request, actor),
    END,
};
const ef__operation ef__op_seed_projection = {POST,
                                              PROJECTION ":seed",
                                              EF__SCOPE_OPERATE,
                                              EF__TENANCY_UNBOUND,
                                              EF__ROUTE_BODY | EF__ROUTE_LONG,
                                              "seedProjection",
                                              "start a generation with known views, one per line",
                                              REQUEST(seed_inputs, ef__seed_request),
                                              .body = "Program",
                                              ONE("Run", run)};

static const ef__input diff_inputs[] = {
    TEXT(ef__diff_request, left.projection, "name", PATH),
    INT(ef__diff_request, left.version, "left_version", QUERY, 1, INT32_MAX),
    INT(ef__diff_request, left.generation, "left_generation", QUERY, 1, INT32_MAX),
    INT(ef__diff_request, right.version, "right_version", QUERY, 1, INT32_MAX),
    INT(ef__diff_request, right.generation, "right_generation", QUERY, 1, INT32_MAX),
    INT(ef__diff_request, limit, "limit", QUERY, 0, 10000, .otherwise = 20),
    END,
};
const ef__operation ef__op_diff_projection = {GET,
                                              PROJECTION "/diff",
                                              EF__SCOPE_READ,
                                              EF__TENANCY_UNBOUND,
                                              EF__ROUTE_LONG,
                                              "diffProjection",
                                              "views that differ between two generations",
                                              REQUEST(diff_inputs, ef__diff_request),
                                              ANSWER("Diff")};

/* --- views --------------------------------------------------------------------------------------
 */

#define FRESHNESS(type)                                                                            \
    TEXT(type, freshness.at_least, "at_least", QUERY),                                             \
        BOOL(type, freshness.current, "current", QUERY),                                           \
        EF__INPUT(type, freshness.timeout_ms, "wait", QUERY, DURATION, .max = WAIT_MS_MAX)
#define VIEW                                                                                       \
    TEXT(ef__view_request, projection, "projection", PATH),                                        \
        TEXT(ef__view_request, id, "id", PATH), TENANT(ef__view_request, tenant)

static const ef__input view_inputs[] = {
    VIEW,
    FRESHNESS(ef__view_request),
    INT(ef__view_request, position, "position", QUERY, 1, INT64_MAX),
    END,
};
const ef__operation ef__op_get_view = {GET,
                                       "/v1/views/{projection}/{id}",
                                       EF__SCOPE_READ,
                                       EF__TENANCY_QUERY,
                                       EF__ROUTE_QUICK_PLAIN,
                                       "getView",
                                       "one view; position: as of then",
                                       .inputs = view_inputs,
                                       .size = sizeof(ef__view_request),
                                       ONE("View", view)};

static const ef__input explain_inputs[] = {
    VIEW,
    INT(ef__view_request, limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX, .otherwise = 1000),
    END,
};
const ef__operation ef__op_explain_view = {GET,
                                           "/v1/views/{projection}/{id}/explain",
                                           READS(QUERY),
                                           "explainView",
                                           "the events that produced a view",
                                           REQUEST(explain_inputs, ef__view_request),
                                           ARRAY("Events", event)};

static const ef__input find_inputs[] = {
    TEXT(ef_view_query, projection, "projection", PATH),
    TEXT(ef_view_query, where, "where", QUERY),
    TEXT(ef_view_query, sort, "sort", QUERY),
    INT(ef_view_query, limit, "limit", QUERY, 1, 10000),
    TEXT(ef_view_query, after, "after", QUERY),
    TEXT(ef_view_query, fields, "fields", QUERY),
    BOOL(ef_view_query, any_tenant, "all_tenants", QUERY),
    BOOL(ef_view_query, count_only, "count", QUERY),
    BOOL(ef_view_query, explain, "explain", QUERY),
    FRESHNESS(ef_view_query),
    TENANT(ef_view_query, tenant),
    END,
};
const ef__operation ef__op_find_views = {GET,
                                         "/v1/views/{projection}",
                                         READS(QUERY),
                                         "findViews",
                                         "views by filter, sort and page",
                                         REQUEST(find_inputs, ef_view_query),
                                         MEMBER("Views", "items", view)};

/* --- events -------------------------------------------------------------------------------------
 */

static const ef__input append_inputs[] = {EF__INPUT_ONLY("stream", PATH, TEXT), END};
const ef__operation ef__op_append_to_stream = {POST,
                                               "/v1/streams/{stream}/events",
                                               EF__SCOPE_APPEND,
                                               EF__TENANCY_QUERY,
                                               EF__ROUTE_BODY | EF__ROUTE_APPEND,
                                               "appendToStream",
                                               "append one event, or an array of them, to a stream",
                                               .inputs = append_inputs,
                                               .body = "Append",
                                               ANSWER("Placed"),
                                               .answer_status = 201};
const ef__operation ef__op_append_many = {POST,
                                          "/v1/events",
                                          EF__SCOPE_APPEND,
                                          EF__TENANCY_QUERY,
                                          EF__ROUTE_BODY | EF__ROUTE_APPEND,
                                          "appendMany",
                                          "append a batch to many streams, atomically",
                                          .body = "AppendMany",
                                          ANSWER("Placed"),
                                          .answer_status = 201};

static const ef__input stream_inputs[] = {
    TEXT(ef__stream_request, stream, "stream", PATH),
    INT(ef__stream_request, from_seq, "from_seq", QUERY, 1, INT64_MAX, .otherwise = 1),
    INT(ef__stream_request, limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX, .otherwise = 100),
    TENANT(ef__stream_request, tenant),
    END,
};
const ef__operation ef__op_read_stream = {GET,
                                          "/v1/streams/{stream}/events",
                                          READS(QUERY),
                                          "readStream",
                                          "events of a stream by seq",
                                          REQUEST(stream_inputs, ef__stream_request),
                                          ARRAY("Events", event)};

static const ef__input log_inputs[] = {
    INT(ef__log_request, query.after, "after", QUERY, 0, INT64_MAX),
    TEXT(ef__log_request, query.type, "type", QUERY),
    INT(ef__log_request, query.limit, "limit", QUERY, 1, EF_READ_LIMIT_MAX, .otherwise = 100),
    BOOL(ef__log_request, query.any_tenant, "all_tenants", QUERY),
    EF__INPUT(ef__log_request, wait_ms, "wait", QUERY, DURATION, .max = WAIT_MS_MAX),
    TENANT(ef__log_request, query.tenant),
    END,
};
const ef__operation ef__op_read_log = {GET,
                                       "/v1/events",
                                       READS(QUERY),
                                       "readLog",
                                       "events by position",
                                       REQUEST(log_inputs, ef__log_request),
                                       ARRAY("Events", event)};

static const ef__input event_inputs[] = {NAMED, TENANT(ef__object_request, tenant), END};
const ef__operation ef__op_read_event = {GET,
                                         "/v1/events/{id}",
                                         READS(QUERY),
                                         "readEvent",
                                         "one event by its id",
                                         REQUEST(event_inputs, ef__object_request),
                                         ONE("Event", event)};
