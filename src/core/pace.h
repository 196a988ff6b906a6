/*
 * pace.h - how fast work that may wait goes beside work that may not.
 *
 * A rebuild shares the view store and the processors with live work. Where there is none it goes as
 * fast as it can. Beside live work its steps are short, so that nobody waits long for one; and once
 * live work is later than it may be, they become shorter still, with pauses between them. It never
 * stops: at the slowest it works a tenth of the time.
 */
#ifndef EF_CORE_PACE_H
#define EF_CORE_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EF__PACE_EVENTS_MIN 50

/* What the next step may do. Zeroed: all it likes. */
typedef struct ef__pace {
    size_t events;    /* at most; 0: as many as it likes */
    int64_t pause_us; /* before it */
} ef__pace;

typedef struct ef__pace_seen {
    int64_t objective_us; /* live work is to be done within this time */
    bool live;            /* there is some, or was a moment ago */
    int64_t lag_us;       /* how long the oldest that is not done has waited */
    size_t step_events;   /* the step that is over: how many … */
    int64_t step_us;      /* … and how long */
} ef__pace_seen;

/* `before` is what was decided for the step that is over. */
ef__pace ef__pace_decide(ef__pace before, const ef__pace_seen *seen);

#endif
