/*
 * shapes.c - the tables of the objects in docs/reference/json.md, field by field, in their order.
 */
#include "shape.h"

#include <inttypes.h>

#define FIELD EF__FIELD
/* An enum with the names of the library, or (LISTED) with those given here. */
#define WORD(type, key_, member, names_, last)                                                     \
    {                                                                                              \
        .key = (key_), .kind = EF__FIELD_WORD, .offset = offsetof(type, member),                   \
        .size = (last) + 1, .names = (names_)                                                      \
    }
#define LISTED(type, key_, kind_, member, ...)                                                     \
    {                                                                                              \
        .key = (key_), .kind = EF__FIELD_##kind_, .offset = offsetof(type, member),                \
        .size = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), .words = {                 \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define TTL(type, key_, member, live)                                                              \
    {                                                                                              \
        .key = (key_), .kind = EF__FIELD_TTL, .offset = offsetof(type, member),                    \
        .live_offset = offsetof(type, live)                                                        \
    }
#define SHAPE(name, type, ...)                                                                     \
    static const ef__field name##_fields[] = {__VA_ARGS__};                                        \
    const ef__shape ef__shape_##name = EF__SHAPE(name##_fields, type)

/* One field per line. */
/* clang-format off */
SHAPE(append_result, ef__append_result,
    FIELD(ef__append_result, "stream", STR, stream),
    FIELD(ef__append_result, "seq", INT64, seq),
    FIELD(ef__append_result, "position", INT64, position),
    FIELD(ef__append_result, "id", STR, id),
    FIELD(ef__append_result, "duplicate", BOOL, duplicate),
    FIELD(ef__append_result, "token", STR, token));

SHAPE(event, ef_event,
    FIELD(ef_event, "tenant", STR, tenant),
    FIELD(ef_event, "stream", STR, stream),
    FIELD(ef_event, "seq", INT64, seq),
    FIELD(ef_event, "position", INT64, position),
    FIELD(ef_event, "id", STR, id),
    FIELD(ef_event, "type", STR, type),
    FIELD(ef_event, "schema", INT32, schema),
    FIELD(ef_event, "time", TIME, time_us),
    FIELD(ef_event, "recorded_at", TIME, recorded_us),
    FIELD(ef_event, "data", JSON, data),
    FIELD(ef_event, "meta", JSON, meta));

SHAPE(type, ef_type,
    FIELD(ef_type, "name", STR, name),
    WORD(ef_type, "intent", intent, EF_NAMES_INTENT, EF_INTENT_AUDIT_ONLY),
    FIELD(ef_type, "publish", BOOL, publish),
    FIELD(ef_type, "alias_of", NAME, alias_of));

SHAPE(publisher, ef_publisher,
    FIELD(ef_publisher, "name", STR, name),
    FIELD(ef_publisher, "url", STR, url),
    FIELD(ef_publisher, "types", STR, types),
    FIELD(ef_publisher, "partition_by", STR, partition_by),
    FIELD(ef_publisher, "retry_ms", INT64, retry_ms),
    FIELD(ef_publisher, "attempts_max", INT64, attempts_max),
    FIELD(ef_publisher, "retain_ms", COUNT, retain_ms),
    FIELD(ef_publisher, "timeout_ms", INT64, timeout_ms),
    FIELD(ef_publisher, "file_bytes", INT64, file_bytes),
    FIELD(ef_publisher, "file_count", INT32, file_count),
    FIELD(ef_publisher, "in_flight", INT32, in_flight),
    FIELD(ef_publisher, "secret", NAME, secret),
    FIELD(ef_publisher, "allow_private", BOOL, allow_private),
    FIELD(ef_publisher, "paused", BOOL, paused));

SHAPE(row, ef_row,
    FIELD(ef_row, "lane", STR, lane),
    FIELD(ef_row, "tenant", STR, tenant),
    FIELD(ef_row, "stream", STR, stream),
    FIELD(ef_row, "seq", INT64, seq),
    FIELD(ef_row, "position", INT64, position),
    FIELD(ef_row, "partition", LABEL, partition),
    FIELD(ef_row, "event_type", STR, event_type),
    WORD(ef_row, "status", status, EF_NAMES_ROW_STATUS, EF_ROW_PUBLISHED),
    FIELD(ef_row, "attempt_count", INT32, attempt_count),
    FIELD(ef_row, "next_attempt_at", TIME, next_attempt_us),
    FIELD(ef_row, "last_error", STR, last_error),
    FIELD(ef_row, "enqueued_at", TIME, enqueued_us),
    FIELD(ef_row, "updated_at", TIME, updated_us),
    FIELD(ef_row, "published_at", TIME, published_us));

SHAPE(row_group, ef_row_group,
    FIELD(ef_row_group, "lane", STR, lane),
    FIELD(ef_row_group, "error", STR, error),
    FIELD(ef_row_group, "rows", INT64, rows),
    FIELD(ef_row_group, "tenant", STR, tenant),
    FIELD(ef_row_group, "stream", STR, stream),
    FIELD(ef_row_group, "seq", INT64, seq),
    FIELD(ef_row_group, "position", INT64, position),
    FIELD(ef_row_group, "oldest", TIME, oldest_us));

SHAPE(view, ef_view,
    FIELD(ef_view, "view_type", STR, view_type),
    FIELD(ef_view, "version", INT32, version),
    FIELD(ef_view, "tenant", STR, tenant),
    FIELD(ef_view, "view_id", STR, view_id),
    FIELD(ef_view, "last_event_sequence", INT64, last_event_sequence),
    FIELD(ef_view, "data", JSON, data));

static const ef__field seed_view_fields[] = {
    FIELD(ef_seed_view, "tenant", STR, tenant),
    FIELD(ef_seed_view, "view_id", STR, view_id),
    FIELD(ef_seed_view, "data", DATA, data),
    FIELD(ef_seed_view, "last_event_sequence", INT64, last_event_sequence),
};
static const ef__shape seed_view = EF__SHAPE(seed_view_fields, ef_seed_view);

ef_status ef__seed_view_read(const ef__json *json, int64_t line, ef_seed_view *out, ef_error *err)
{
    ef_error why = EF_ERROR_INIT;
    ef_status st = ef__shape_read(json, &seed_view, out, &why);

    if (st == EF_OK && (!out->view_id.ptr || !out->data.ptr))
        st = ef_fail(&why, EF_BAD_INPUT, "%s is missing", out->view_id.ptr ? "data" : "view_id");
    if (st == EF_OK && out->last_event_sequence < 0)
        st = ef_fail(&why, EF_BAD_INPUT, "last_event_sequence is negative");
    return st == EF_OK ? EF_OK : ef_fail(err, EF_BAD_INPUT, "line %" PRId64 ": %s", line, why.text);
}

SHAPE(projection, ef_projection,
    FIELD(ef_projection, "name", STR, name),
    FIELD(ef_projection, "version", INT32, version),
    FIELD(ef_projection, "generation", INT32, generation),
    LISTED(ef_projection, "order", CHOICE, by_log, "stream", "log"),
    FIELD(ef_projection, "state", STR, state),
    FIELD(ef_projection, "position", INT64, position),
    FIELD(ef_projection, "lag_events", COUNT, lag_events),
    FIELD(ef_projection, "lag_seconds", SECONDS, lag_us),
    FIELD(ef_projection, "views", COUNT, views),
    FIELD(ef_projection, "digest", CHARS, digest),
    FIELD(ef_projection, "unaccounted", INT64, unaccounted),
    FIELD(ef_projection, "failures", INT64, failures),
    FIELD(ef_projection, "quarantined", COUNT, quarantined),
    FIELD(ef_projection, "blocked_streams", COUNT, blocked_streams),
    FIELD(ef_projection, "blocked_events", COUNT, blocked_events),
    FIELD(ef_projection, "blocked_seconds", SECONDS, blocked_us),
    FIELD(ef_projection, "reached", INT64, reached),
    FIELD(ef_projection, "scopes_behind", COUNT, scopes_behind),
    LISTED(ef_projection, "on_error", CHOICE, skips_errors, "stop", "skip"));

SHAPE(scope, ef_scope,
    FIELD(ef_scope, "name", STR, name),
    FIELD(ef_scope, "tenant", STR, tenant),
    FIELD(ef_scope, "any_tenant", BOOL, any_tenant),
    FIELD(ef_scope, "state", STR, state),
    FIELD(ef_scope, "position", INT64, position),
    FIELD(ef_scope, "pending", INT64, pending),
    FIELD(ef_scope, "pending_more", BOOL, pending_more),
    FIELD(ef_scope, "synced_at", TIME, synced_us),
    FIELD(ef_scope, "retries", INT64, retries),
    FIELD(ef_scope, "next_try_at", TIME, next_try_us),
    FIELD(ef_scope, "error_code", NAME, error_code),
    FIELD(ef_scope, "error", NAME, error));

SHAPE(failure, ef_failure,
    FIELD(ef_failure, "projection", STR, projection),
    FIELD(ef_failure, "version", INT32, version),
    FIELD(ef_failure, "generation", INT32, generation),
    FIELD(ef_failure, "tenant", STR, tenant),
    FIELD(ef_failure, "stream", STR, stream),
    FIELD(ef_failure, "seq", INT64, seq),
    FIELD(ef_failure, "position", INT64, position),
    FIELD(ef_failure, "event_id", STR, event_id),
    FIELD(ef_failure, "code", STR, code),
    FIELD(ef_failure, "message", STR, message),
    FIELD(ef_failure, "line", INT32, line),
    FIELD(ef_failure, "attempts", INT32, attempts),
    FIELD(ef_failure, "open", BOOL, open),
    FIELD(ef_failure, "recorded_at", TIME, recorded_us),
    FIELD(ef_failure, "resolved_at", TIME, resolved_us));

SHAPE(run, ef_run,
    FIELD(ef_run, "id", STR, id),
    WORD(ef_run, "mode", mode, EF_NAMES_RUN_MODE, EF_RUN_SEED),
    FIELD(ef_run, "projection", STR, projection),
    FIELD(ef_run, "tenant", STR, tenant),
    WORD(ef_run, "state", state, EF_NAMES_RUN_STATE, EF_RUN_CANCELLED),
    FIELD(ef_run, "requested_at", TIME, requested_us),
    FIELD(ef_run, "started_at", TIME, started_us),
    FIELD(ef_run, "finished_at", TIME, finished_us),
    FIELD(ef_run, "from", INT64, from),
    FIELD(ef_run, "to", INT64, to),
    FIELD(ef_run, "processed", INT64, processed),
    FIELD(ef_run, "total", COUNT, total),
    FIELD(ef_run, "error", STR, error),
    FIELD(ef_run, "reason", STR, reason),
    FIELD(ef_run, "requester", STR, requester),
    FIELD(ef_run, "last_position", INT64, last_position),
    FIELD(ef_run, "cancel", BOOL, cancel),
    FIELD(ef_run, "detail", JSON, detail));

SHAPE(gap, ef_gap,
    FIELD(ef_gap, "tenant", STR, tenant),
    FIELD(ef_gap, "projection", STR, projection),
    FIELD(ef_gap, "stream", STR, stream),
    FIELD(ef_gap, "applied_seq", INT64, applied_seq),
    FIELD(ef_gap, "expected_next_seq", INT64, expected_next_seq),
    FIELD(ef_gap, "journal_seq", INT64, journal_seq),
    FIELD(ef_gap, "replayed", INT64, replayed));

SHAPE(lease, ef_lease,
    WORD(ef_lease, "kind", key.kind, EF_NAMES_LEASE_KIND, EF_LEASE_RUN),
    FIELD(ef_lease, "name", NAME, key.name),
    FIELD(ef_lease, "partition", NUMBER, key.partition),
    FIELD(ef_lease, "holder", NAME, holder),
    FIELD(ef_lease, "until", TIME, until_us),
    TTL(ef_lease, "ttl_ms", until_us, live),
    FIELD(ef_lease, "token", INT64, token),
    FIELD(ef_lease, "live", BOOL, live),
    FIELD(ef_lease, "updated_at", TIME, updated_us));

SHAPE(worker, ef_worker,
    FIELD(ef_worker, "id", STR, id),
    FIELD(ef_worker, "host", NAME, host),
    FIELD(ef_worker, "pid", INT64, pid),
    FIELD(ef_worker, "started_at", TIME, started_us),
    FIELD(ef_worker, "updated_at", TIME, updated_us),
    FIELD(ef_worker, "heartbeat_until", TIME, heartbeat_until_us),
    TTL(ef_worker, "ttl_ms", heartbeat_until_us, live),
    FIELD(ef_worker, "live", BOOL, live));

SHAPE(partition, ef_partition,
    FIELD(ef_partition, "partition", LABEL, number),
    FIELD(ef_partition, "holder", NAME, holder),
    FIELD(ef_partition, "lease_until", TIME, until_us),
    TTL(ef_partition, "ttl_ms", until_us, live),
    FIELD(ef_partition, "epoch", INT64, token),
    FIELD(ef_partition, "live", BOOL, live),
    FIELD(ef_partition, "pending", INT64, pending),
    FIELD(ef_partition, "in_flight", INT64, in_flight),
    FIELD(ef_partition, "retry_rows", INT64, retry_rows));

SHAPE(audit_entry, ef_audit_entry,
    FIELD(ef_audit_entry, "id", INT64, id),
    FIELD(ef_audit_entry, "at", TIME, at_us),
    FIELD(ef_audit_entry, "action", STR, action),
    FIELD(ef_audit_entry, "actor", NAME, actor),
    FIELD(ef_audit_entry, "reason", NAME, reason),
    FIELD(ef_audit_entry, "lane", NAME, lane),
    FIELD(ef_audit_entry, "tenant", STR, tenant),
    FIELD(ef_audit_entry, "stream", NAME, stream),
    FIELD(ef_audit_entry, "seq", INT64, seq),
    FIELD(ef_audit_entry, "rows", INT64, rows));

SHAPE(stream, ef_stream,
    FIELD(ef_stream, "tenant", STR, tenant),
    FIELD(ef_stream, "stream", STR, name),
    FIELD(ef_stream, "seq", INT64, seq),
    FIELD(ef_stream, "position", INT64, position));

SHAPE(head, ef_head,
    FIELD(ef_head, "position", INT64, position),
    FIELD(ef_head, "recorded_at", TIME, recorded_us));

SHAPE(facts, ef_store_facts,
    FIELD(ef_store_facts, "backend", CHARS, backend),
    FIELD(ef_store_facts, "version", CHARS, version),
    FIELD(ef_store_facts, "durability", CHARS, durability),
    FIELD(ef_store_facts, "power_loss_unsafe", BOOL, power_loss_unsafe),
    FIELD(ef_store_facts, "id", CHARS, journal_id),
    FIELD(ef_store_facts, "schema", INT32, schema),
    FIELD(ef_store_facts, "partitions", INT32, partitions),
    FIELD(ef_store_facts, "store_bytes", COUNT, store_bytes),
    FIELD(ef_store_facts, "wal_bytes", COUNT, wal_bytes),
    FIELD(ef_store_facts, "free_bytes", COUNT, free_bytes),
    FIELD(ef_store_facts, "streams", COUNT, streams),
    FIELD(ef_store_facts, "damaged", BOOL, damaged),
    FIELD(ef_store_facts, "damaged_at", TIME, damaged_us),
    FIELD(ef_store_facts, "damage", CHARS, damage));

SHAPE(lane, ef_lane,
    FIELD(ef_lane, "name", STR, name),
    LISTED(ef_lane, "kind", WORD, kind, "apply", "projection", "publisher"),
    FIELD(ef_lane, "enabled", BOOL, enabled),
    FIELD(ef_lane, "types", STR, types));

SHAPE(summary, ef_outbox_summary,
    FIELD(ef_outbox_summary, "pending", INT64, pending),
    FIELD(ef_outbox_summary, "processing", INT64, processing),
    FIELD(ef_outbox_summary, "failed", INT64, failed),
    FIELD(ef_outbox_summary, "dead", INT64, dead),
    FIELD(ef_outbox_summary, "blocked", INT64, blocked));

SHAPE(summary_more, ef_outbox_summary,
    FIELD(ef_outbox_summary, "blocked_since", TIME, blocked_oldest_us));

SHAPE(replay_result, ef_replay_result,
    FIELD(ef_replay_result, "events", INT64, events),
    FIELD(ef_replay_result, "applied", INT64, applied),
    FIELD(ef_replay_result, "ignored", INT64, ignored),
    FIELD(ef_replay_result, "failed", INT64, failed),
    FIELD(ef_replay_result, "deferred", INT64, deferred));

SHAPE(diff, ef_diff,
    FIELD(ef_diff, "views", INT64, views),
    FIELD(ef_diff, "different", INT64, different),
    FIELD(ef_diff, "left_only", INT64, left_only),
    FIELD(ef_diff, "right_only", INT64, right_only));

SHAPE(difference, ef_difference,
    FIELD(ef_difference, "tenant", STR, tenant),
    FIELD(ef_difference, "view_id", STR, view_id),
    FIELD(ef_difference, "left", DATA, left),
    FIELD(ef_difference, "right", DATA, right));

SHAPE(partition_sync_result, ef_partition_sync_result,
    FIELD(ef_partition_sync_result, "before", INT32, before),
    FIELD(ef_partition_sync_result, "after", INT32, after),
    FIELD(ef_partition_sync_result, "pruned", INT64, pruned),
    FIELD(ef_partition_sync_result, "kept", INT64, kept));

SHAPE(row_more, ef_row,
    FIELD(ef_row, "blocked", BOOL, blocked),
    FIELD(ef_row, "skipped", BOOL, skip));

SHAPE(worker_more, ef_worker,
    FIELD(ef_worker, "late", BOOL, late),
    WORD(ef_worker, "state", state, EF_NAMES_WORKER_STATE, EF_WORKER_STALE));

SHAPE(projection_more, ef_projection,
    FIELD(ef_projection, "routed", BOOL, active),
    FIELD(ef_projection, "applied", COUNT, applied),
    FIELD(ef_projection, "ignored", COUNT, ignored),
    FIELD(ef_projection, "skipped", COUNT, skipped),
    FIELD(ef_projection, "no_function", BOOL, no_function));

SHAPE(trial, ef_trial,
    WORD(ef_trial, "outcome", outcome, EF_NAMES_TRIAL_OUTCOME, EF_TRIAL_BLOCKED),
    FIELD(ef_trial, "version", INT32, version),
    FIELD(ef_trial, "generation", INT32, generation),
    FIELD(ef_trial, "line", INT32, line),
    FIELD(ef_trial, "message", NAME, message),
    FIELD(ef_trial, "next_seq", INT64, next_seq),
    FIELD(ef_trial, "schema", INT32, schema),
    FIELD(ef_trial, "seen", JSON, seen));

SHAPE(trial_view, ef_trial_view,
    FIELD(ef_trial_view, "view_id", STR, view_id),
    FIELD(ef_trial_view, "before", DATA, before),
    FIELD(ef_trial_view, "after", DATA, after));

SHAPE(draft_row, ef_draft_row,
    FIELD(ef_draft_row, "tenant", STR, tenant),
    FIELD(ef_draft_row, "stream", STR, stream),
    FIELD(ef_draft_row, "seq", INT64, seq),
    FIELD(ef_draft_row, "position", INT64, position),
    FIELD(ef_draft_row, "failing_version", INT32, version),
    FIELD(ef_draft_row, "error", NAME, error),
    WORD(ef_draft_row, "outcome", outcome, EF_NAMES_TRIAL_OUTCOME, EF_TRIAL_NOT_TRIED),
    FIELD(ef_draft_row, "message", NAME, message));

SHAPE(draft_result, ef_draft_result,
    FIELD(ef_draft_result, "version", INT32, version),
    FIELD(ef_draft_result, "streams", INT64, streams),
    FIELD(ef_draft_result, "events", INT64, events),
    FIELD(ef_draft_result, "applied", INT64, applied),
    FIELD(ef_draft_result, "ignored", INT64, ignored),
    FIELD(ef_draft_result, "failed", INT64, failed),
    FIELD(ef_draft_result, "waits", INT64, waits),
    FIELD(ef_draft_result, "not_tried", INT64, not_tried),
    FIELD(ef_draft_result, "newly_failed", INT64, newly_failed));

SHAPE(sample, ef__sample,
    FIELD(ef__sample, "at", TIME, at_us),
    FIELD(ef__sample, "position", INT64, position),
    FIELD(ef__sample, "folded", INT64, folded),
    FIELD(ef__sample, "lag_events", INT64, lag_events),
    FIELD(ef__sample, "lag_seconds", SECONDS, lag_us),
    FIELD(ef__sample, "waiting", INT64, waiting),
    FIELD(ef__sample, "failed", INT64, failed),
    FIELD(ef__sample, "dead", INT64, dead));

SHAPE(minute, ef_throughput,
    FIELD(ef_throughput, "at", TIME, at_us),
    FIELD(ef_throughput, "position", INT64, position),
    FIELD(ef_throughput, "appended", INT64, appended),
    FIELD(ef_throughput, "applied", INT64, applied),
    FIELD(ef_throughput, "published", INT64, published),
    FIELD(ef_throughput, "failed", INT64, failed),
    FIELD(ef_throughput, "dead", INT64, dead));

/* clang-format on */

ef__append_result ef__append_result_of(const ef_new_event *event, const ef_place *place,
                                       const char *token)
{
    ef__append_result placed = {.stream = event->stream,
                                .seq = place->seq,
                                .position = place->position,
                                .id = place->id[0] ? ef_str_from(place->id) : event->id,
                                .duplicate = place->duplicate,
                                .token = ef_str_from(token)};

    return placed;
}
