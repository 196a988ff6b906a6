/*
 * budget.h - the work that one call may do.
 *
 * A query, or a read of a past state, may touch every view or every event. A server gives such
 * calls a budget, so that one client cannot keep it busy; a call that exceeds it ends with
 * EF_OVER_BUDGET. Zeros, or NULL instead of a budget, mean no limit.
 */
#pragma once

#include <everfold/status.h>

EF_C_BEGIN

typedef struct ef_budget {
    int64_t steps;   /* expressions, items and views evaluated, in total */
    int64_t time_ms; /* on the clock */
    /* Called repeatedly: true ends the call, because the result is not wanted any more. */
    bool (*stop)(void *context);
    void *stop_context;
} ef_budget;

EF_C_END
