/*
 * refusal.c - see refusal.h, and the checks of lanes in outbox.h.
 */
#include "refusal.h"

#include <inttypes.h>

ef_status ef__refuse_unknown(const char *what, ef_str name, ef_error *err)
{
    return ef_fail(err, EF_NOT_FOUND, "there is no %s \"%.*s\"", what, EF_STR_ARG(name));
}

ef_status ef__refuse_cursor(ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "after is not a cursor of this journal");
}

ef_status ef__refuse_wait(int64_t after, int64_t timeout_ms, ef_error *err)
{
    return ef_fail(err, EF_TIMEOUT, "no event above position %" PRId64 " in %" PRId64 " ms", after,
                   timeout_ms);
}

ef_status ef__refuse_unregistered_type(ef_str type, ef_error *err)
{
    return ef_fail(err, EF_UNKNOWN_TYPE, "type \"%.*s\" is not registered", EF_STR_ARG(type));
}

ef_status ef__refuse_alias_of_alias(ef_str type, ef_str alias_of, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "type \"%.*s\": \"%.*s\" is an alias itself",
                   EF_STR_ARG(type), EF_STR_ARG(alias_of));
}

ef_status ef__refuse_alias(ef_str type, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT,
                   "type \"%.*s\" cannot be an alias: another type is an alias of it",
                   EF_STR_ARG(type));
}

ef_status ef__refuse_lane_kind(ef_str lane, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "lane \"%.*s\" is there and of another kind",
                   EF_STR_ARG(lane));
}

ef_status ef__refuse_retry_lane(ef_str row_lane, ef_str lane, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT,
                   "a retry row of lane \"%.*s\" cannot be acknowledged in lane \"%.*s\"",
                   EF_STR_ARG(row_lane), EF_STR_ARG(lane));
}

ef_status ef__refuse_unknown_position(int64_t position, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "there is no event at position %" PRId64, position);
}

ef_status ef__refuse_partition(int64_t position, int32_t partition, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT,
                   "position %" PRId64 " is in partition %" PRId32 ", which is not held", position,
                   partition);
}

ef_status ef__refuse_upto(ef_str lane, const ef_partition_lease *held, int64_t offset,
                          int64_t claimed, ef_error *err)
{
    return ef_fail_numbers(err, EF_BAD_INPUT, held->upto, claimed,
                           "lane \"%.*s\", partition %" PRId32 ": upto is %" PRId64
                           ", the offset is %" PRId64 " and %" PRId64 " was claimed",
                           EF_STR_ARG(lane), held->partition, held->upto, offset, claimed);
}

ef_status ef__refuse_lost_lease(const ef_lease_key *key, int64_t token, int64_t found,
                                ef_error *err)
{
    return ef_fail_numbers(err, EF_LEASE_LOST, token, found,
                           "lease %s \"%.*s\" %" PRId32 ": token %" PRId64
                           " is not live, the lease is at %" PRId64,
                           ef_name_of(EF_NAMES_LEASE_KIND, key->kind), EF_STR_ARG(key->name),
                           key->partition, token, found);
}

ef_status ef__refuse_held_lease(const ef_lease_call *call, const ef__lease_answer *answer,
                                ef_error *err)
{
    return ef_fail_numbers(err, EF_LEASE_HELD, call->lease_ms, answer->left_ms,
                           "lease %s \"%.*s\" %" PRId32 " is held by \"%.*s\" for %" PRId64 " ms",
                           ef_name_of(EF_NAMES_LEASE_KIND, call->key.kind),
                           EF_STR_ARG(call->key.name), call->key.partition,
                           EF_STR_ARG(answer->row.owner), answer->left_ms);
}

ef_status ef__refuse_run(ef_str open_id, ef_str projection, ef_run_state state, ef_error *err)
{
    return ef_fail(err, EF_EXISTS, "run %.*s of %s\"%.*s\" is %s", EF_STR_ARG(open_id),
                   projection.len ? "projection " : "all projections ", EF_STR_ARG(projection),
                   ef_name_of(EF_NAMES_RUN_STATE, state));
}

ef_status ef__refuse_run_state(ef_str id, ef_run_state from, ef_run_state to, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "run %.*s is %s and cannot become %s", EF_STR_ARG(id),
                   ef_name_of(EF_NAMES_RUN_STATE, from), ef_name_of(EF_NAMES_RUN_STATE, to));
}

ef_status ef__refuse_driven_run(ef_str id, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "run %.*s is being driven: its driver cancels it",
                   EF_STR_ARG(id));
}

ef_status ef__lane_publishes(ef_str name, ef_lane_kind kind, ef_error *err)
{
    if (kind == EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "lane \"%.*s\" is not a publisher's", EF_STR_ARG(name));
}

ef_status ef__lane_drop_check(ef_str name, int64_t rows, bool discard, ef_error *err)
{
    if (rows == 0 || discard)
        return EF_OK;
    return ef_fail_numbers(err, EF_EXISTS, 0, rows,
                           "%" PRId64
                           " rows still wait in lane \"%.*s\": publish them first, or set "
                           "`discard` to delete them",
                           rows, EF_STR_ARG(name));
}

ef_status ef__lane_changed(ef_str lane, ef_error *err)
{
    return ef_fail(err, EF_CONFLICT, "lane \"%.*s\" was changed meanwhile; nothing was changed",
                   EF_STR_ARG(lane));
}

ef_status ef__no_retry_row(const ef_outbox_action *action, bool dead_only, ef_error *err)
{
    return ef_fail(
        err, EF_NOT_FOUND, "tenant \"%.*s\", stream \"%.*s\", seq %" PRId64 ": no %s%s%.*s%s",
        EF_STR_ARG(action->tenant), EF_STR_ARG(action->stream), action->seq,
        dead_only ? "dead row" : "row that can be skipped", action->lane.len ? " in lane \"" : "",
        EF_STR_ARG(action->lane), action->lane.len ? "\"" : "");
}
