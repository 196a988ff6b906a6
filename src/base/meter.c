/*
 * meter.c - see meter.h.
 */
#include "meter.h"

#include <inttypes.h>

#define CHECK_STEPS 10000 /* about a millisecond */

ef__meter ef__meter_begin(const ef_budget *budget, const ef_clock *clock)
{
    ef__meter meter = {.budget = budget ? *budget : (ef_budget){0}, .clock = clock};

    if (meter.budget.time_ms > 0)
        meter.until_us = clock->mono_us(clock->context) + meter.budget.time_ms * 1000;
    return meter;
}

ef_status ef__meter_charge(ef__meter *meter, int64_t steps, ef_error *err)
{
    const ef_budget *budget = &meter->budget;

    meter->steps += steps;
    if (budget->steps > 0 && meter->steps > budget->steps)
        return ef_fail_numbers(err, EF_OVER_BUDGET, meter->steps, budget->steps,
                               "the request takes more than %" PRId64
                               " steps: narrow it, or filter and sort by an indexed field",
                               budget->steps);
    if (meter->steps < meter->check_at)
        return EF_OK;
    meter->check_at = meter->steps + CHECK_STEPS;
    if (meter->until_us && meter->clock->mono_us(meter->clock->context) > meter->until_us)
        return ef_fail_numbers(err, EF_OVER_BUDGET, budget->time_ms, budget->time_ms,
                               "the request takes longer than %" PRId64
                               " ms: narrow it, or filter and sort by an indexed field",
                               budget->time_ms);
    if (budget->stop && budget->stop(budget->stop_context))
        return ef_fail(err, EF_OVER_BUDGET, "the client has closed the connection");
    return EF_OK;
}
