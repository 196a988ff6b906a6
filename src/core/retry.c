#include "retry.h"

#define JITTER_PERMILLE_MAX 500 /* more, and retries of one outage would bunch up near zero */

const ef__retry_policy ef__retry_apply = {
    .kind = EF__RETRY_EXPONENTIAL,
    .base_ms = 1000,
    .factor = 2,
    .cap_ms = 300 * 1000,
    .attempts_max = 8,
};

const ef__retry_policy ef__retry_publish = {
    .kind = EF__RETRY_EXPONENTIAL,
    .base_ms = 60 * 1000,
    .factor = 1,
    .cap_ms = 3600 * 1000,
};

/* 250, 500, 1000, 2000, 4000 ms: five retries, so the sixth failure is the one that ends it. */
const ef__retry_policy ef__retry_cursor = {
    .kind = EF__RETRY_EXPONENTIAL,
    .base_ms = 250,
    .factor = 2,
    .cap_ms = 300 * 1000,
    .attempts_max = 6,
};

const ef__retry_policy ef__retry_store = {
    .kind = EF__RETRY_EXPONENTIAL,
    .base_ms = 250,
    .factor = 2,
    .cap_ms = 30 * 1000,
    .jitter_permille = 200,
};

/* The delay after failure number `n` (1, 2, 3 …), before jitter. The loop ends at the cap, or where
 * the number would no longer fit: after 63 turns at most, whatever n is. */
static int64_t nominal_delay_ms(const ef__retry_policy *policy, int64_t n)
{
    int64_t cap_ms = policy->cap_ms > 0 ? policy->cap_ms : INT64_MAX;
    int64_t delay_ms = policy->base_ms > 0 ? policy->base_ms : 0;

    if (policy->kind == EF__RETRY_EXPONENTIAL && policy->factor > 1 && delay_ms > 0) {
        for (; n > 1 && delay_ms < cap_ms; n--) {
            if (__builtin_mul_overflow(delay_ms, policy->factor, &delay_ms))
                delay_ms = INT64_MAX;
        }
    }
    return delay_ms < cap_ms ? delay_ms : cap_ms;
}

/* Only ever shorter: a cap that is written down is kept. */
static int64_t take_jitter_off(int64_t delay_ms, int32_t permille, uint64_t random)
{
    if (permille <= 0)
        return delay_ms;
    if (permille > JITTER_PERMILLE_MAX)
        permille = JITTER_PERMILLE_MAX;
    /* In two parts, for delay_ms * permille may not fit. */
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
            take_jitter_off(nominal_delay_ms(policy, n), policy->jitter_permille, random);
    return step;
}
