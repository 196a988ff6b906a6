/*
 * rate.h - how many a second: counts in slots of a second, over the last hour.
 */
#ifndef EF_CLI_RATE_H
#define EF_CLI_RATE_H

#include <stddef.h>
#include <stdint.h>

#define CLI_RATE_SECONDS_MAX 3600

typedef struct cli_rate {
    int64_t started_us; /* monotonic; set it when counting begins */
    int64_t second;     /* since then: the slot that is being filled */
    int64_t slots[CLI_RATE_SECONDS_MAX];
} cli_rate;

void cli_rate_add(cli_rate *rate, int64_t now_us, int64_t count);
/* What has come since `since_us`, nobody knows when: spread over the seconds between. */
void cli_rate_spread(cli_rate *rate, int64_t since_us, int64_t now_us, int64_t count);
/* A second, over the last `seconds` (fewer when it has not run for so long). */
double cli_rate_over(cli_rate *rate, int64_t now_us, int64_t seconds);
/* The last `count` seconds that are over, oldest first. */
void cli_rate_history(cli_rate *rate, int64_t now_us, int64_t *out, size_t count);

#endif
