/*
 * meter.h - counts the work of one call and compares it with its budget.
 */
#pragma once

#include <everfold/budget.h>
#include <everfold/clock.h>

typedef struct ef__meter {
    ef_budget budget;
    const ef_clock *clock;
    int64_t until_us; /* monotonic; 0: no limit */
    int64_t steps;    /* so far */
    int64_t check_at; /* steps at which the time and the caller's `stop` are checked again */
} ef__meter;

/* `budget` may be NULL. The time starts now. */
ef__meter ef__meter_begin(const ef_budget *budget, const ef_clock *clock);
/* Counts work that was done. EF_OVER_BUDGET: too much, or the caller wants no result any more. */
ef_status ef__meter_charge(ef__meter *meter, int64_t steps, ef_error *err);
