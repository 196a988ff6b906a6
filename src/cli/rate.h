/*
 * rate.h - events per second, counted in slots of one second over the last hour.
 */
#ifndef EF_CLI_RATE_H
#define EF_CLI_RATE_H

#include <stddef.h>
#include <stdint.h>

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
