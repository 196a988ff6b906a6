/*
 * retry_row.c - from results to retry rows: shared by both passes of the queue driver.
 */
#include "queue.h"

#include "../core/retry.h"

#include <stdio.h>

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
}

ef_status ef__partition_leases_read(ef_engine *engine, ef_partition_lease **out, size_t *out_count,
                                    ef_error *err)
{
    ef__queue_driver *driver = &engine->queue;

    *out_count = 0;
    *out = ef__arena_alloc(&driver->arena, (size_t)driver->membership.partitions * sizeof **out);
    if (!*out)
        return no_memory(err);
    *out_count = ef__membership_leases(&driver->membership, *out);
    return EF_OK;
}

/* --- fences ----------------------------------------------------------------------------------- */

static bool has_items(int32_t partition, const ef_claimed_row *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].partition == partition)
            return true;
    return false;
}

ef_status ef__fences_make(ef__arena *arena, const ef_partition_lease *held, size_t held_count,
                          const ef_claimed_row *items, size_t item_count, ef__fence **out,
                          size_t *out_count, ef_error *err)
{
    char(*names)[32] = ef__arena_alloc(arena, (held_count + 1) * sizeof *names);

    *out_count = 0;
    *out = ef__arena_alloc(arena, (held_count + 1) * sizeof **out);
    if (!*out || !names)
        return no_memory(err);
    for (size_t h = 0; h < held_count; h++) {
        char *name = names[*out_count];
        if (!has_items(held[h].partition, items, item_count))
            continue;
        (void)snprintf(name, sizeof *names, "partition/%d", (int)held[h].partition);
        (*out)[(*out_count)++] = (ef__fence){ef_str_from(name), held[h].token};
    }
    return EF_OK;
}

/* --- retry rows ------------------------------------------------------------------------------- */

bool ef__verdict_waits(ef__verdict verdict)
{
    return verdict == EF__VERDICT_FAILED || verdict == EF__VERDICT_DEFERRED;
}

ef_retry_row ef__retry_row_make(const ef_engine *engine, ef_str lane, int64_t position,
                                const ef__apply_result *result, int32_t failures_before)
{
    int64_t now_us = ef__engine_now(engine);
    ef_retry_row row = {.lane = lane,
                        .position = position,
                        .status = EF_ROW_PENDING,
                        .attempts = failures_before,
                        .due_us = now_us,
                        .error = result->message};

    if (result->verdict == EF__VERDICT_DEFERRED)
        return row;
    ef__retry_step step = ef__retry_decide(&engine->retry.apply, failures_before,
                                           EF__ERROR_PERMANENT, (uint64_t)now_us);
    row.attempts = (int32_t)step.attempts;
    row.status = step.dead ? EF_ROW_DEAD : EF_ROW_FAILED;
    row.due_us = now_us + step.delay_ms * 1000;
    return row;
}

/* The worst result of an event among the generations first … end - 1, which share a lane, as far as
 * they keep rows. NULL: no row is needed. */
static const ef__apply_result *worst_result(const ef__apply *apply, size_t first, size_t end,
                                            size_t event)
{
    const ef__apply_result *found = NULL;

    for (size_t g = first; g < end; g++) {
        const ef__apply_result *result = &apply->results[g * apply->event_count + event];
        if (apply->generations[g].keeps_rows && ef__verdict_waits(result->verdict) &&
            (!found || result->verdict == EF__VERDICT_FAILED))
            found = result;
    }
    return found;
}

size_t ef__retry_rows_collect(const ef_engine *engine, const ef__apply *apply, ef_retry_row *out)
{
    size_t count = 0, end;

    for (size_t first = 0; first < apply->generation_count; first = end) {
        ef_str lane = apply->generations[first].generation->name;
        for (end = first + 1; end < apply->generation_count; end++)
            if (!ef_str_equal(apply->generations[end].generation->name, lane))
                break;
        for (size_t i = 0; i < apply->event_count; i++) {
            const ef__apply_result *result = worst_result(apply, first, end, i);
            if (result)
                out[count++] =
                    ef__retry_row_make(engine, lane, apply->events[i].event->position, result, 0);
        }
    }
    return count;
}

void ef__tick_add(ef_tick *tick, const ef__apply *apply)
{
    size_t results = apply->generation_count * apply->event_count;

    tick->applied += apply->applied;
    tick->ignored += apply->ignored;
    tick->failed += apply->failed;
    for (size_t i = 0; i < results; i++)
        tick->deferred += apply->results[i].verdict == EF__VERDICT_DEFERRED;
}
