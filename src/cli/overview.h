/*
 * overview.h - the overview as `status`, `top` and the panel of `work` read it.
 */
#ifndef EF_CLI_OVERVIEW_H
#define EF_CLI_OVERVIEW_H

#include "cli.h"

#include "../shape/overview.h"

/* Adds an error in order of time; the oldest is dropped. An equal text replaces the older entry. */
void cli_troubles_add(ef__troubles *troubles, int64_t at_us, const char *text);

/* Reads the overview; `all` includes lanes and partitions, which counts every queued row. The
 * journal is open; the views are opened read-only if they are not. */
ef_status cli_overview_read(cli *c, bool all, ef__overview *out, ef_error *err);

/* Number of partitions with a live lease of `holder`; "" counts those of all holders. */
int64_t cli_overview_owned(const ef__overview *overview, ef_str holder);

/* --- events per second, counted in slots of one second over the last hour --------------------- */

#define CLI_RATE_SECONDS_MAX 3600

typedef struct cli_rate {
    int64_t started_us; /* monotonic; set by the caller before counting */
    int64_t second;     /* slot that is being filled, counted from started_us */
    int64_t slots[CLI_RATE_SECONDS_MAX];
} cli_rate;

void cli_rate_add(cli_rate *rate, int64_t now_us, int64_t count);
/* Adds `count` events of unknown times since `since_us`, spread evenly. */
void cli_rate_spread(cli_rate *rate, int64_t since_us, int64_t now_us, int64_t count);
/* Rate over the last `seconds`, or since the start if that is shorter. */
double cli_rate_over(cli_rate *rate, int64_t now_us, int64_t seconds);
/* The last `count` complete seconds, oldest first. */
void cli_rate_history(cli_rate *rate, int64_t now_us, int64_t *out, size_t count);

#endif
