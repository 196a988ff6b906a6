#include "pace.h"

#define SHARE 4          /* a step takes a fourth of the objective: live work waits for one step */
#define EVENTS_FIRST 500 /* before the speed is known */
#define EVENTS_MAX 1000000
#define PAUSE_STEPS 9 /* a pause is at most 9 times the step: a tenth of the time is work */
#define PAUSE_MAX_US 1000000
#define PAUSE_MIN_US 1000

/* The number of events that fit into the share, at the speed of the last step. */
static size_t events_that_fit(const ef__pace_seen *seen)
{
    int64_t step_us = seen->step_us > 0 ? seen->step_us : 1;
    double fit = (double)seen->step_events * (double)seen->objective_us / SHARE / (double)step_us;

    if (seen->step_events == 0)
        return EVENTS_FIRST;
    return fit >= EVENTS_MAX ? EVENTS_MAX : (size_t)fit;
}

/* Bounded below: after a very short step a pause would otherwise double without limit. */
static int64_t longer_pause(int64_t pause_us, int64_t step_us)
{
    int64_t most_us = step_us < PAUSE_MAX_US / PAUSE_STEPS ? step_us * PAUSE_STEPS : PAUSE_MAX_US;

    pause_us = pause_us ? pause_us * 2 : step_us;
    if (most_us < PAUSE_MIN_US)
        most_us = PAUSE_MIN_US;
    if (pause_us < PAUSE_MIN_US)
        pause_us = PAUSE_MIN_US;
    return pause_us < most_us ? pause_us : most_us;
}

ef__pace ef__pace_decide(ef__pace before, const ef__pace_seen *seen)
{
    ef__pace next = {0};
    bool late = seen->lag_us > seen->objective_us;

    if (!seen->live)
        return next;
    next.events = events_that_fit(seen);
    if (before.events && next.events > before.events * 2) /* one fast step is little evidence */
        next.events = before.events * 2;
    if (before.events && late && next.events > before.events / 2)
        next.events = before.events / 2;
    if (next.events < EF__PACE_EVENTS_MIN)
        next.events = EF__PACE_EVENTS_MIN;
    if (late)
        next.pause_us = longer_pause(before.pause_us, seen->step_us);
    else if (before.pause_us / 2 >= PAUSE_MIN_US)
        next.pause_us = before.pause_us / 2;
    return next;
}
