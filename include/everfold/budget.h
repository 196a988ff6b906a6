/*
 * budget.h - how much work one call may be.
 *
 * A query or a look into the past may touch every view or every event. A server gives such calls a
 * budget, so that one client cannot keep it busy; EF_OVER_BUDGET says that it was exceeded, and
 * costs others nothing. Zeros, or NULL instead of a budget, mean no limit.
 */
#ifndef EVERFOLD_BUDGET_H
#define EVERFOLD_BUDGET_H

#include <everfold/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_budget {
    int64_t steps;   /* expressions, items and views looked at, all together */
    int64_t time_ms; /* on the clock */
    /* Asked now and then: true ends the call, because the answer is not wanted any more. */
    bool (*stop)(void *context);
    void *stop_context;
} ef_budget;

#ifdef __cplusplus
}
#endif
#endif
