/*
 * shadow_priv.h - the shadow worker: shared by shadow.c and shadow_report.c.
 */
#ifndef EF_ENGINE_SHADOW_PRIV_H
#define EF_ENGINE_SHADOW_PRIV_H

#include "side_fold.h"

#include <everfold/shadow.h>

/* An event that a projection of the shadow lacks: it failed, or is blocked behind one that did. */
typedef struct ef__shadow_row {
    int64_t position;
    int64_t generation; /* of the side fold */
    int64_t due_us;     /* INT64_MAX: blocked, or dead */
    int32_t attempts;
    bool dead;
} ef__shadow_row;

struct ef_shadow {
    ef_engine *live;
    ef__side_fold fold;
    int64_t catch_up_to;      /* the log is read up to here, then the rows of the queue */
    char page[EF_CURSOR_MAX]; /* start of the current page of the queue's rows */
    int64_t position;         /* folded up to here */
    int64_t renew_us;         /* monotonic: when the leases are renewed; 0: none is held */
    int64_t standby_us;       /* monotonic: another shadow holds the leases until then */
    int64_t lease_ms;
    int32_t partitions;
    int64_t *tokens;      /* one per partition */
    ef__shadow_row *rows; /* sorted by position, then generation */
    size_t row_count, row_room;
    int64_t highest;    /* the highest position that was ever folded */
    bool compares;      /* events were folded since the last comparison was logged */
    int64_t differs_us; /* monotonic: since when views differ with nothing folded; 0: they do not */
};

static inline int64_t ef__shadow_mono_us(const ef_shadow *shadow)
{
    return ef__engine_mono_us(shadow->live);
}

static inline ef_status ef__shadow_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in a shadow");
}

#endif
