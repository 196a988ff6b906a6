/*
 * rate.c - see rate.h.
 */
#include "rate.h"

/* Clears the slots that were skipped. */
static void advance_slots(cli_rate *rate, int64_t now_us)
{
    int64_t second = (now_us - rate->started_us) / 1000000;

    if (second - rate->second > CLI_RATE_SECONDS_MAX)
        rate->second = second - CLI_RATE_SECONDS_MAX;
    while (rate->second < second)
        rate->slots[++rate->second % CLI_RATE_SECONDS_MAX] = 0;
}

static int64_t slot_count(const cli_rate *rate, int64_t second)
{
    return second < 0 ? 0 : rate->slots[second % CLI_RATE_SECONDS_MAX];
}

void cli_rate_add(cli_rate *rate, int64_t now_us, int64_t count)
{
    advance_slots(rate, now_us);
    rate->slots[rate->second % CLI_RATE_SECONDS_MAX] += count;
}

void cli_rate_spread(cli_rate *rate, int64_t since_us, int64_t now_us, int64_t count)
{
    int64_t seconds, whole;

    advance_slots(rate, now_us);
    seconds = rate->second - (since_us - rate->started_us) / 1000000;
    seconds = seconds < CLI_RATE_SECONDS_MAX ? seconds : CLI_RATE_SECONDS_MAX;
    whole = seconds > 1 ? count / seconds : 0;
    for (int64_t i = 1; i < seconds; i++)
        rate->slots[(rate->second - i) % CLI_RATE_SECONDS_MAX] += whole;
    rate->slots[rate->second % CLI_RATE_SECONDS_MAX] +=
        count - (seconds > 1 ? seconds - 1 : 0) * whole;
}

double cli_rate_over(cli_rate *rate, int64_t now_us, int64_t seconds)
{
    int64_t sum = 0, span_us = now_us - rate->started_us;

    advance_slots(rate, now_us);
    seconds = seconds < CLI_RATE_SECONDS_MAX ? seconds : CLI_RATE_SECONDS_MAX;
    for (int64_t i = 0; i < seconds; i++)
        sum += slot_count(rate, rate->second - i);
    /* The current slot is not full: it counts for the time it has been open. */
    if (span_us > seconds * 1000000)
        span_us = (seconds - 1) * 1000000 + span_us % 1000000;
    return span_us > 0 ? (double)sum * 1e6 / (double)(span_us < 1000000 ? 1000000 : span_us) : 0;
}

void cli_rate_history(cli_rate *rate, int64_t now_us, int64_t *out, size_t count)
{
    advance_slots(rate, now_us);
    for (size_t i = 0; i < count; i++)
        out[i] = slot_count(rate, rate->second - (int64_t)(count - i));
}
