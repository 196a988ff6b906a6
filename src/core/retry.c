#include "retry.h"

#define JITTER_PERMILLE_MAX 500 /* with more, retries after one outage would gather near zero */

const ef__retry_policy ef__retry_apply = {
    .base_ms = 1000,
    .factor = 2,
    .cap_ms = 300 * 1000,
    .attempts_max = 8,
};

const ef__retry_policy ef__retry_publish = {
    .base_ms = 60 * 1000,
    .factor = 1,
    .cap_ms = 3600 * 1000,
};

/* 250, 500, 1000, 2000, 4000 ms: five retries, so the sixth failure is the last. */
const ef__retry_policy ef__retry_cursor = {
    .base_ms = 250,
    .factor = 2,
    .cap_ms = 300 * 1000,
    .attempts_max = 6,
};

const ef__retry_policy ef__retry_store = {
    .base_ms = 250,
    .factor = 2,
    .cap_ms = 30 * 1000,
    .jitter_permille = 200,
};

/* The delay after failure number `n` (1, 2, 3 …), without jitter. The loop ends at the cap or at
 * the overflow: after 63 rounds at most. */
static int64_t nominal_delay_ms(const ef__retry_policy *policy, int64_t n)
{
    int64_t cap_ms = policy->cap_ms > 0 ? policy->cap_ms : INT64_MAX;
    int64_t delay_ms = policy->base_ms > 0 ? policy->base_ms : 0;

    if (policy->factor > 1 && delay_ms > 0) {
        for (; n > 1 && delay_ms < cap_ms; n--) {
            if (__builtin_mul_overflow(delay_ms, policy->factor, &delay_ms))
                delay_ms = INT64_MAX;
        }
    }
    return delay_ms < cap_ms ? delay_ms : cap_ms;
}

/* Jitter only shortens a delay, so that the cap holds. */
static int64_t subtract_jitter(int64_t delay_ms, int32_t permille, uint64_t random)
{
    if (permille <= 0)
        return delay_ms;
    if (permille > JITTER_PERMILLE_MAX)
        permille = JITTER_PERMILLE_MAX;
    /* In two parts, because delay_ms * permille may overflow. */
    uint64_t span_ms = (uint64_t)(delay_ms / 1000 * permille + delay_ms % 1000 * permille / 1000);

    return delay_ms - (int64_t)(random % (span_ms + 1));
}

ef__retry_step ef__retry_decide(const ef__retry_policy *policy, int64_t failures,
                                ef__error_class error_class, uint64_t random)
{
    if (failures < 0)
        failures = 0;
    ef__retry_step step = {.attempts = failures};

    if (error_class == EF__ERROR_LOST)
        return step;

    int64_t n = failures < INT64_MAX ? failures + 1 : failures;

    if (error_class != EF__ERROR_STORE) {
        step.attempts = n;
        step.dead = policy->attempts_max > 0 && n >= policy->attempts_max;
    }
    if (!step.dead)
        step.delay_ms =
            subtract_jitter(nominal_delay_ms(policy, n), policy->jitter_permille, random);
    return step;
}
