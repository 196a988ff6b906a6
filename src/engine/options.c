/*
 * options.c - see options.h.
 */
#include "options.h"

#include "../base/limits.h"

#include <inttypes.h>

#define ATTEMPTS_NEVER (-1)
#define FACTOR_MAX 100

/* --- retry policies --------------------------------------------------------------------------- */

static ef_status check_policy(const char *name, const ef__retry_policy *policy, ef_error *err)
{
    if (policy->base_ms < 1)
        return ef_fail(err, EF_BAD_INPUT, "%s: base_ms is %" PRId64 ", minimum is 1", name,
                       policy->base_ms);
    if (policy->factor < 1 || policy->factor > FACTOR_MAX)
        return ef_fail(err, EF_BAD_INPUT, "%s: factor is %" PRId64 ", it is 1 to %d", name,
                       policy->factor, FACTOR_MAX);
    if (policy->cap_ms < policy->base_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s: cap_ms is %" PRId64 ", which is less than base_ms, %" PRId64, name,
                       policy->cap_ms, policy->base_ms);
    if (policy->attempts_max < 0 || policy->attempts_max > INT32_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s: attempts_max is %" PRId64 ", it is 1 to %d, or -1 for no limit", name,
                       policy->attempts_max, INT32_MAX);
    return EF_OK;
}

/* Fields that are not set get the default; a cap that is not set is at least the base. */
static ef_status choose_policy(const char *name, const ef__retry_policy *standard,
                               const ef_retry_options *given, ef__retry_policy *out, ef_error *err)
{
    *out = *standard;
    if (given->base_ms)
        out->base_ms = given->base_ms;
    if (given->factor)
        out->factor = given->factor;
    if (given->cap_ms)
        out->cap_ms = given->cap_ms;
    else if (out->cap_ms < out->base_ms)
        out->cap_ms = out->base_ms;
    if (given->attempts_max)
        out->attempts_max = given->attempts_max == ATTEMPTS_NEVER ? 0 : given->attempts_max;
    return check_policy(name, out, err);
}

ef_status ef__retry_policies_choose(const ef_engine_options *options, ef__retry_policies *out,
                                    ef_error *err)
{
    ef_status st =
        choose_policy("retry_apply", &ef__retry_apply, &options->retry_apply, &out->apply, err);

    if (st == EF_OK)
        st = choose_policy("retry_cursor", &ef__retry_cursor, &options->retry_cursor, &out->cursor,
                           err);
    if (st == EF_OK)
        st = choose_policy("retry_publish", &ef__retry_publish, &options->retry_publish,
                           &out->publish, err);
    return st;
}

ef__retry_policy ef__retry_of_publisher(const ef__retry_policies *policies, int64_t retry_ms,
                                        int64_t attempts_max)
{
    ef__retry_policy policy = policies->publish;

    policy.base_ms = retry_ms;
    policy.attempts_max = attempts_max;
    if (policy.cap_ms < retry_ms)
        policy.cap_ms = retry_ms;
    return policy;
}

/* --- leases and heartbeats -------------------------------------------------------------------- */

ef__lease_times ef__lease_times_of(const ef_work_options *options)
{
    ef__lease_times times = {.lease_ms = options && options->lease_ms ? options->lease_ms
                                                                      : EF__ENGINE_LEASE_MS};

    times.heartbeat_ms =
        options && options->heartbeat_ms ? options->heartbeat_ms : 2 * times.lease_ms;
    if (times.heartbeat_ms > EF_LIMIT_LEASE_MS)
        times.heartbeat_ms = EF_LIMIT_LEASE_MS;
    times.renew_ms = options ? options->renew_ms : 0;
    if (!times.renew_ms) {
        /* A third of the shorter one: the lease, or the time after which the worker is late. */
        int64_t late_ms = times.heartbeat_ms / 2;
        times.renew_ms = (late_ms < times.lease_ms ? late_ms : times.lease_ms) / 3;
    }
    if (times.renew_ms < 1)
        times.renew_ms = 1;
    return times;
}

ef_status ef__work_options_check(const ef_work_options *options, ef_error *err)
{
    ef__lease_times times = ef__lease_times_of(options);

    if (!options)
        return EF_OK;
    if (options->lease_ms < 0 || options->renew_ms < 0 || options->heartbeat_ms < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "lease_ms, renew_ms and heartbeat_ms must not be negative");
    if (times.lease_ms > 1 && times.renew_ms >= times.lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "renew_ms is %" PRId64 " and lease_ms is %" PRId64
                       ": a lease has to be renewed before it ends",
                       times.renew_ms, times.lease_ms);
    if (times.heartbeat_ms < times.lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "heartbeat_ms is %" PRId64 " and lease_ms is %" PRId64
                       ": a heartbeat has to last as long as a lease",
                       times.heartbeat_ms, times.lease_ms);
    if (times.heartbeat_ms > 2 && times.renew_ms >= times.heartbeat_ms / 2)
        return ef_fail(err, EF_BAD_INPUT,
                       "renew_ms is %" PRId64 " and heartbeat_ms is %" PRId64
                       ": a worker is late when half of its heartbeat passes without a renewal",
                       times.renew_ms, times.heartbeat_ms);
    return EF_OK;
}
