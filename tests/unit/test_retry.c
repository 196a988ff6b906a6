#include "../../src/core/retry.h"

#include "test.h"

static int64_t delay_after(const ef__retry_policy *policy, int64_t failures)
{
    return ef__retry_decide(policy, failures, EF__ERROR_TRANSIENT, 0).delay_ms;
}

TEST(apply_waits_1_s_doubling_and_is_dead_at_the_8th_failure)
{
    static const int64_t expected_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000};

    for (int64_t failures = 0; failures < 7; failures++) {
        ef__retry_step step =
            ef__retry_decide(&ef__retry_apply, failures, EF__ERROR_PERMANENT, 12345);
        CHECK_INT(failures + 1, step.attempts);
        CHECK_INT(false, step.dead);
        CHECK_INT(expected_ms[failures], step.delay_ms);
    }
    ef__retry_step last = ef__retry_decide(&ef__retry_apply, 7, EF__ERROR_PERMANENT, 12345);
    CHECK_INT(8, last.attempts);
    CHECK_INT(true, last.dead);
    CHECK_INT(0, last.delay_ms);
}

TEST(the_cap_is_reached_exactly_and_kept)
{
    ef__retry_policy endless = ef__retry_apply;
    endless.attempts_max = 0;

    CHECK_INT(256000, delay_after(&endless, 8));
    CHECK_INT(300000, delay_after(&endless, 9));
    CHECK_INT(300000, delay_after(&endless, 10));
    CHECK_INT(300000, delay_after(&endless, 1000000));
}

TEST(publish_waits_60_s_for_ever)
{
    static const int64_t failures[] = {0, 1, 7, 8, 1000, INT64_MAX - 1, INT64_MAX};

    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        ef__retry_step step =
            ef__retry_decide(&ef__retry_publish, failures[i], EF__ERROR_TRANSIENT, 0);
        CHECK_INT(60000, step.delay_ms);
        CHECK_INT(false, step.dead);
    }
}

TEST(cursor_retries_5_times_from_250_ms_and_then_fails)
{
    static const int64_t expected_ms[] = {250, 500, 1000, 2000, 4000};

    for (int64_t failures = 0; failures < 5; failures++) {
        CHECK_INT(expected_ms[failures], delay_after(&ef__retry_cursor, failures));
        CHECK(!ef__retry_decide(&ef__retry_cursor, failures, EF__ERROR_TRANSIENT, 0).dead);
    }
    CHECK(ef__retry_decide(&ef__retry_cursor, 5, EF__ERROR_TRANSIENT, 0).dead);
}

TEST(transient_and_permanent_errors_count_alike)
{
    for (int64_t failures = 0; failures < 12; failures++) {
        ef__retry_step a = ef__retry_decide(&ef__retry_apply, failures, EF__ERROR_TRANSIENT, 9);
        ef__retry_step b = ef__retry_decide(&ef__retry_apply, failures, EF__ERROR_PERMANENT, 9);
        CHECK_INT(failures + 1, a.attempts);
        CHECK_INT(failures >= 7, a.dead);
        CHECK_INT(a.attempts, b.attempts);
        CHECK_INT(a.dead, b.dead);
        CHECK_INT(a.delay_ms, b.delay_ms);
    }
}

TEST(an_outage_of_the_store_uses_up_no_attempt_and_kills_nothing)
{
    int64_t failures = 7; /* one more would be the end */

    for (int i = 0; i < 1000; i++) {
        ef__retry_step step = ef__retry_decide(&ef__retry_apply, failures, EF__ERROR_STORE, 0);
        CHECK_INT(7, step.attempts);
        CHECK_INT(false, step.dead);
        CHECK_INT(128000, step.delay_ms);
        failures = step.attempts;
    }
    CHECK(ef__retry_decide(&ef__retry_apply, failures, EF__ERROR_TRANSIENT, 0).dead);
}

TEST(a_lost_lease_is_no_failure)
{
    ef__retry_step step = ef__retry_decide(&ef__retry_apply, 7, EF__ERROR_LOST, 99);

    CHECK_INT(7, step.attempts);
    CHECK_INT(false, step.dead);
    CHECK_INT(0, step.delay_ms);
}

TEST(nothing_overflows_at_the_ends_of_the_numbers)
{
    static const int64_t failures[] = {0, 1, 61, 62, 63, 64, INT64_MAX - 1, INT64_MAX};
    static const int64_t factors[] = {2, 3, 10, INT64_MAX};

    for (size_t f = 0; f < 4; f++) {
        ef__retry_policy policy = {.base_ms = 3, .factor = factors[f], .jitter_permille = 500};
        int64_t before = 0;
        for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
            ef__retry_step step = ef__retry_decide(&policy, failures[i], EF__ERROR_TRANSIENT, 0);
            CHECK(step.delay_ms >= before);
            CHECK(step.attempts >= failures[i]);
            before = step.delay_ms;
        }
        CHECK(before == INT64_MAX);
        CHECK(ef__retry_decide(&policy, INT64_MAX, EF__ERROR_TRANSIENT, UINT64_MAX).delay_ms >=
              INT64_MAX / 2);
    }
}

TEST(failures_below_zero_count_as_none)
{
    CHECK_INT(1, ef__retry_decide(&ef__retry_apply, INT64_MIN, EF__ERROR_TRANSIENT, 0).attempts);
    CHECK_INT(1000, delay_after(&ef__retry_apply, -5));
}

TEST(a_policy_of_zeros_tries_again_at_once_and_for_ever)
{
    ef__retry_policy none = {.factor = 2};
    ef__retry_step step = ef__retry_decide(&none, INT64_MAX - 1, EF__ERROR_PERMANENT, 7);

    CHECK_INT(0, step.delay_ms);
    CHECK_INT(false, step.dead);
    CHECK(step.attempts == INT64_MAX);
}

TEST(a_factor_below_2_does_not_grow)
{
    for (int64_t factor = -1; factor < 2; factor++) {
        ef__retry_policy flat = {.base_ms = 40, .factor = factor, .cap_ms = 30};
        CHECK_INT(30, delay_after(&flat, INT64_MAX));
        flat.cap_ms = 0;
        CHECK_INT(40, delay_after(&flat, INT64_MAX));
    }
}

TEST(jitter_stays_between_half_and_all_of_the_delay)
{
    for (int32_t permille = -100; permille <= 1100; permille += 50) {
        for (int64_t base_ms = 1; base_ms <= 60; base_ms++) {
            ef__retry_policy policy = {.base_ms = base_ms, .jitter_permille = permille};
            for (uint64_t random = 0; random < 64; random++) {
                int64_t delay_ms =
                    ef__retry_decide(&policy, 0, EF__ERROR_TRANSIENT, random).delay_ms;
                CHECK(delay_ms * 2 >= base_ms);
                CHECK(delay_ms <= base_ms);
            }
        }
    }
}

TEST(jitter_uses_its_whole_range_and_nothing_else)
{
    ef__retry_policy policy = {.base_ms = 1000, .jitter_permille = 200};
    bool seen[1001] = {false};

    for (uint64_t random = 0; random < 1000; random++)
        seen[ef__retry_decide(&policy, 0, EF__ERROR_TRANSIENT, random).delay_ms] = true;
    for (int ms = 0; ms <= 1000; ms++)
        CHECK_INT(ms >= 800, seen[ms]);
}

TEST_MAIN(TEST_CASE(apply_waits_1_s_doubling_and_is_dead_at_the_8th_failure),
          TEST_CASE(the_cap_is_reached_exactly_and_kept), TEST_CASE(publish_waits_60_s_for_ever),
          TEST_CASE(cursor_retries_5_times_from_250_ms_and_then_fails),
          TEST_CASE(transient_and_permanent_errors_count_alike),
          TEST_CASE(an_outage_of_the_store_uses_up_no_attempt_and_kills_nothing),
          TEST_CASE(a_lost_lease_is_no_failure),
          TEST_CASE(nothing_overflows_at_the_ends_of_the_numbers),
          TEST_CASE(failures_below_zero_count_as_none),
          TEST_CASE(a_policy_of_zeros_tries_again_at_once_and_for_ever),
          TEST_CASE(a_factor_below_2_does_not_grow),
          TEST_CASE(jitter_stays_between_half_and_all_of_the_delay),
          TEST_CASE(jitter_uses_its_whole_range_and_nothing_else))
