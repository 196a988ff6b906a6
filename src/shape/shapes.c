/*
 * shapes.c - the tables: what docs/json.md promises, field by field, in its order.
 */
#include "shape.h"

#include <stdio.h>

#define FIELD(type, key, kind, member)                                                             \
    {                                                                                              \
        key, EF__FIELD_##kind, offsetof(type, member), 0, NULL, 0                                  \
    }
#define WORD(type, key, member, names, count)                                                      \
    {                                                                                              \
        key, EF__FIELD_WORD, offsetof(type, member), count, names, 0                               \
    }
#define CHOICE(type, key, member, names)                                                           \
    {                                                                                              \
        key, EF__FIELD_CHOICE, offsetof(type, member), 0, names, 0                                 \
    }
#define CHARS(type, key, member)                                                                   \
    {                                                                                              \
        key, EF__FIELD_CHARS, offsetof(type, member), sizeof(((type *)0)->member), NULL, 0         \
    }
#define TTL(type, key, member, live)                                                               \
    {                                                                                              \
        key, EF__FIELD_TTL, offsetof(type, member), 0, NULL, offsetof(type, live)                  \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, EF__FIELD_STR, 0, 0, NULL, 0                                                         \
    }
#define SHAPE(name, type) const ef__shape ef__shape_##name = {name##_fields, sizeof(type)}

static const char *intent_word(int value)
{
    return ef_intent_name((ef_intent)value);
}

static const char *row_status_word(int value)
{
    return ef_row_status_name((ef_row_status)value);
}

static const char *run_mode_word(int value)
{
    return ef_run_mode_name((ef_run_mode)value);
}

static const char *run_state_word(int value)
{
    return ef_run_state_name((ef_run_state)value);
}

static const char *lease_kind_word(int value)
{
    return ef_lease_kind_name((ef_lease_kind)value);
}

static const char *order_word(int by_log)
{
    return by_log ? "log" : "stream";
}

static const char *on_error_word(int skips)
{
    return skips ? "skip" : "stop";
}

static const ef__field placed_fields[] = {
    FIELD(ef__placed, "stream", STR, stream),
    FIELD(ef__placed, "seq", INT64, seq),
    FIELD(ef__placed, "position", INT64, position),
    FIELD(ef__placed, "id", STR, id),
    FIELD(ef__placed, "duplicate", BOOL, duplicate),
    CHARS(ef__placed, "token", token),
    END,
};
SHAPE(placed, ef__placed);

static const ef__field event_fields[] = {
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
    FIELD(ef_event, "meta", JSON, meta),
    END,
};
SHAPE(event, ef_event);

static const ef__field type_fields[] = {
    FIELD(ef_type, "name", STR, name),
    WORD(ef_type, "intent", intent, intent_word, EF_INTENT_AUDIT_ONLY + 1),
    FIELD(ef_type, "publish", BOOL, publish),
    FIELD(ef_type, "alias_of", NAME, alias_of),
    END,
};
SHAPE(type, ef_type);

static const ef__field row_fields[] = {
    FIELD(ef_row, "lane", STR, lane),
    FIELD(ef_row, "tenant", STR, tenant),
    FIELD(ef_row, "stream", STR, stream),
    FIELD(ef_row, "seq", INT64, seq),
    FIELD(ef_row, "position", INT64, position),
    FIELD(ef_row, "event_type", STR, event_type),
    WORD(ef_row, "status", status, row_status_word, EF_ROW_DEAD + 1),
    FIELD(ef_row, "attempt_count", INT32, attempt_count),
    FIELD(ef_row, "next_attempt_at", TIME, next_attempt_us),
    FIELD(ef_row, "last_error", STR, last_error),
    FIELD(ef_row, "enqueued_at", TIME, enqueued_us),
    FIELD(ef_row, "updated_at", TIME, updated_us),
    END,
};
SHAPE(row, ef_row);

static const ef__field view_fields[] = {
    FIELD(ef_view, "view_type", STR, view_type),
    FIELD(ef_view, "version", INT32, version),
    FIELD(ef_view, "tenant", STR, tenant),
    FIELD(ef_view, "view_id", STR, view_id),
    FIELD(ef_view, "last_event_sequence", INT64, last_event_sequence),
    FIELD(ef_view, "data", JSON, data),
    END,
};
SHAPE(view, ef_view);

static const ef__field projection_fields[] = {
    FIELD(ef_projection, "name", STR, name),
    FIELD(ef_projection, "version", INT32, version),
    FIELD(ef_projection, "generation", INT32, generation),
    CHOICE(ef_projection, "order", by_log, order_word),
    FIELD(ef_projection, "state", STR, state),
    FIELD(ef_projection, "position", INT64, position),
    FIELD(ef_projection, "lag_events", INT64, lag_events),
    FIELD(ef_projection, "lag_seconds", SECONDS, lag_us),
    FIELD(ef_projection, "views", INT64, views),
    CHARS(ef_projection, "digest", digest),
    FIELD(ef_projection, "unaccounted", INT64, unaccounted),
    FIELD(ef_projection, "failures", INT64, failures),
    FIELD(ef_projection, "quarantined", INT64, quarantined),
    FIELD(ef_projection, "scopes_behind", INT64, scopes_behind),
    CHOICE(ef_projection, "on_error", skips_errors, on_error_word),
    END,
};
SHAPE(projection, ef_projection);

static const ef__field scope_fields[] = {
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
    FIELD(ef_scope, "error", NAME, error),
    END,
};
SHAPE(scope, ef_scope);

static const ef__field failure_fields[] = {
    FIELD(ef_failure, "version", INT32, version),
    FIELD(ef_failure, "generation", INT32, generation),
    FIELD(ef_failure, "tenant", STR, tenant),
    FIELD(ef_failure, "stream", STR, stream),
    FIELD(ef_failure, "seq", INT64, seq),
    FIELD(ef_failure, "position", INT64, position),
    FIELD(ef_failure, "event_id", STR, event_id),
    FIELD(ef_failure, "code", STR, code),
    FIELD(ef_failure, "message", STR, message),
    FIELD(ef_failure, "attempts", INT32, attempts),
    FIELD(ef_failure, "open", BOOL, open),
    FIELD(ef_failure, "recorded_at", TIME, recorded_us),
    FIELD(ef_failure, "resolved_at", TIME, resolved_us),
    END,
};
SHAPE(failure, ef_failure);

static const ef__field run_fields[] = {
    FIELD(ef_run, "id", STR, id),
    WORD(ef_run, "mode", mode, run_mode_word, EF_RUN_SEED + 1),
    FIELD(ef_run, "projection", STR, projection),
    FIELD(ef_run, "tenant", STR, tenant),
    WORD(ef_run, "state", state, run_state_word, EF_RUN_CANCELLED + 1),
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
    FIELD(ef_run, "detail", JSON, detail),
    END,
};
SHAPE(run, ef_run);

static const ef__field gap_fields[] = {
    FIELD(ef_gap, "tenant", STR, tenant),
    FIELD(ef_gap, "projection", STR, projection),
    FIELD(ef_gap, "stream", STR, stream),
    FIELD(ef_gap, "applied_seq", INT64, applied_seq),
    FIELD(ef_gap, "expected_next_seq", INT64, expected_next_seq),
    FIELD(ef_gap, "journal_seq", INT64, journal_seq),
    FIELD(ef_gap, "replayed", INT64, replayed),
    END,
};
SHAPE(gap, ef_gap);

static const ef__field lease_fields[] = {
    WORD(ef_lease, "kind", key.kind, lease_kind_word, EF_LEASE_SEQUENCER + 1),
    FIELD(ef_lease, "name", NAME, key.name),
    FIELD(ef_lease, "partition", NUMBER, key.partition),
    FIELD(ef_lease, "owner", NAME, owner),
    FIELD(ef_lease, "until", TIME, until_us),
    TTL(ef_lease, "ttl_ms", until_us, live),
    FIELD(ef_lease, "token", INT64, token),
    FIELD(ef_lease, "live", BOOL, live),
    FIELD(ef_lease, "updated_at", TIME, updated_us),
    END,
};
SHAPE(lease, ef_lease);

static const ef__field worker_fields[] = {
    FIELD(ef_worker, "id", STR, id),
    FIELD(ef_worker, "host", NAME, host),
    FIELD(ef_worker, "pid", INT64, pid),
    FIELD(ef_worker, "started_at", TIME, started_us),
    FIELD(ef_worker, "updated_at", TIME, updated_us),
    FIELD(ef_worker, "heartbeat_until", TIME, heartbeat_until_us),
    TTL(ef_worker, "ttl_ms", heartbeat_until_us, live),
    FIELD(ef_worker, "live", BOOL, live),
    END,
};
SHAPE(worker, ef_worker);

static const ef__field partition_fields[] = {
    FIELD(ef_partition, "partition", LABEL, number),
    FIELD(ef_partition, "owner", NAME, owner),
    FIELD(ef_partition, "lease_until", TIME, until_us),
    TTL(ef_partition, "ttl_ms", until_us, live),
    FIELD(ef_partition, "epoch", INT64, token),
    FIELD(ef_partition, "live", BOOL, live),
    FIELD(ef_partition, "pending", INT64, pending),
    FIELD(ef_partition, "in_hand", INT64, in_hand),
    FIELD(ef_partition, "exceptions", INT64, exceptions),
    END,
};
SHAPE(partition, ef_partition);

static const ef__field act_fields[] = {
    FIELD(ef_act, "id", INT64, id),       FIELD(ef_act, "at", TIME, at_us),
    FIELD(ef_act, "act", STR, act),       FIELD(ef_act, "who", STR, who),
    FIELD(ef_act, "reason", STR, reason), FIELD(ef_act, "lane", STR, lane),
    FIELD(ef_act, "tenant", STR, tenant), FIELD(ef_act, "stream", STR, stream),
    FIELD(ef_act, "seq", INT64, seq),     END,
};
SHAPE(act, ef_act);

static const ef__field stream_fields[] = {
    FIELD(ef_stream, "tenant", STR, tenant),
    FIELD(ef_stream, "stream", STR, name),
    FIELD(ef_stream, "seq", INT64, seq),
    FIELD(ef_stream, "position", INT64, position),
    END,
};
SHAPE(stream, ef_stream);

ef__placed ef__placed_of(const ef_new_event *event, const ef_place *place)
{
    ef__placed placed = {.stream = event->stream,
                         .seq = place->seq,
                         .position = place->position,
                         .id = place->id[0] ? ef_str_from(place->id) : event->id,
                         .duplicate = place->duplicate};

    ef_token_format(place->position, placed.token);
    return placed;
}
