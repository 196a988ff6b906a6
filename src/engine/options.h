/*
 * options.h - defaults and validation of the options of an engine and its workers.
 */
#ifndef EF_ENGINE_OPTIONS_H
#define EF_ENGINE_OPTIONS_H

#include "../core/retry.h"

#include <everfold/engine.h>

#define EF__ENGINE_LEASE_MS 10000

/* One policy per kind of lane, and one for the cursor driver. */
typedef struct ef__retry_policies {
    ef__retry_policy apply, cursor;
    ef__retry_policy publish; /* `base_ms` and `attempts_max` are set per publisher */
} ef__retry_policies;

/* EF_BAD_INPUT names the policy and the value. */
ef_status ef__retry_policies_choose(const ef_engine_options *options, ef__retry_policies *out,
                                    ef_error *err);
ef__retry_policy ef__retry_of_publisher(const ef__retry_policies *policies, int64_t retry_ms,
                                        int64_t attempts_max);

typedef struct ef__lease_times {
    int64_t lease_ms, renew_ms, heartbeat_ms;
} ef__lease_times;

/* NULL: all defaults. */
ef__lease_times ef__lease_times_of(const ef_work_options *options);
/* Refuses times by which a worker would lose its leases between two renewals. */
ef_status ef__work_options_check(const ef_work_options *options, ef_error *err);

#endif
