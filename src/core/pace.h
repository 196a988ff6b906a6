/*
 * pace.h - the pace of work that can wait, beside live work.
 *
 * A rebuild shares the view store and the processors with live work. Without live work it runs at
 * full speed. Beside live work its steps are short, so that live work waits briefly; when live work
 * exceeds its lag objective, steps become shorter, with pauses between them. It never stops: at the
 * slowest it works a tenth of the time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EF__PACE_EVENTS_MIN 50

/* The limits of the next step. Zeroed: none. */
typedef struct ef__pace {
    size_t events;    /* maximum; 0: no limit */
    int64_t pause_us; /* before the step */
} ef__pace;

typedef struct ef__pace_seen {
    int64_t objective_us; /* maximum lag of live work */
    bool live;            /* there is live work, or was a moment ago */
    int64_t lag_us;       /* age of the oldest live work that is not done */
    size_t step_events;   /* the last step: events … */
    int64_t step_us;      /* … and duration */
} ef__pace_seen;

/* `before` is the decision for the last step. */
ef__pace ef__pace_decide(ef__pace before, const ef__pace_seen *seen);
