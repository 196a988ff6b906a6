/*
 * lanes.c - checks and messages about lanes that all back ends share. See journal.h.
 */
#include "journal.h"

#include <inttypes.h>

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
