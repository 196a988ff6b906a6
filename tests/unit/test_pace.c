#include "test.h"

#include "../../src/core/pace.h"

#define MS INT64_C(1000)

static ef__pace_seen seen_at(bool live, int64_t lag_ms, size_t events, int64_t step_ms)
{
    return (ef__pace_seen){.objective_us = 100 * MS,
                           .live = live,
                           .lag_us = lag_ms * MS,
                           .step_events = events,
                           .step_us = step_ms * MS};
}

static void without_live_work_nothing_is_slowed(void **state)
{
    ef__pace_seen seen = seen_at(false, 5000, 10000, 200);
    ef__pace pace = ef__pace_decide((ef__pace){50, 900 * MS}, &seen);

    (void)state;
    CHECK_INT(0, pace.events);
    CHECK_INT(0, pace.pause_us);
}

static void beside_live_work_a_step_takes_a_fourth_of_the_objective(void **state)
{
    ef__pace_seen seen = seen_at(true, 0, 10000, 200); /* 50 events a millisecond */
    ef__pace pace = ef__pace_decide((ef__pace){0}, &seen);

    (void)state;
    CHECK_INT(1250, pace.events);
    CHECK_INT(0, pace.pause_us);
}

static void it_grows_by_two_at_the_most(void **state)
{
    ef__pace_seen seen = seen_at(true, 0, 100, 1);
    ef__pace pace = {.events = 100};

    (void)state;
    pace = ef__pace_decide(pace, &seen);
    CHECK_INT(200, pace.events);
}

static void when_live_work_is_late_it_gets_shorter_and_pauses_longer(void **state)
{
    ef__pace_seen seen = seen_at(true, 101, 1000, 20);
    ef__pace pace = {.events = 1000};

    (void)state;
    pace = ef__pace_decide(pace, &seen);
    CHECK_INT(500, pace.events);
    CHECK_INT(20 * MS, pace.pause_us);
    seen = seen_at(true, 150, 500, 10);
    pace = ef__pace_decide(pace, &seen);
    CHECK_INT(250, pace.events);
    CHECK_INT(40 * MS, pace.pause_us);
    seen = seen_at(true, 100, 250, 5); /* in time again */
    pace = ef__pace_decide(pace, &seen);
    CHECK_INT(500, pace.events);
    CHECK_INT(20 * MS, pace.pause_us);
}

/* However late live work is, and for however long. */
static void it_never_stops(void **state)
{
    ef__pace_seen seen = seen_at(true, 1000000, 1000, 20);
    ef__pace pace = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        pace = ef__pace_decide(pace, &seen);
        CHECK(pace.events >= EF__PACE_EVENTS_MIN);
        CHECK(pace.pause_us <= 9 * seen.step_us);
        seen.step_events = pace.events;
    }
    CHECK_INT(EF__PACE_EVENTS_MIN, pace.events);
    CHECK_INT(9 * 20 * MS, pace.pause_us);
    seen.step_us = 3600 * 1000 * MS;
    pace = ef__pace_decide(pace, &seen);
    CHECK(pace.pause_us <= 1000 * MS);
    for (int i = 0; i < 100; i++) { /* steps that take no time at all are no reason to pause more */
        seen.step_us = i % 2;
        pace = ef__pace_decide(pace, &seen);
    }
    CHECK_INT(MS, pace.pause_us);
}

static void it_does_not_overflow(void **state)
{
    ef__pace_seen seen = {.objective_us = INT64_MAX,
                          .live = true,
                          .lag_us = INT64_MAX,
                          .step_events = SIZE_MAX / 4,
                          .step_us = 0};
    ef__pace pace = ef__pace_decide((ef__pace){0}, &seen);

    (void)state;
    CHECK(pace.events >= EF__PACE_EVENTS_MIN);
    seen.objective_us = 0;
    seen.step_us = INT64_MAX;
    pace = ef__pace_decide(pace, &seen);
    CHECK_INT(EF__PACE_EVENTS_MIN, pace.events);
    CHECK(pace.pause_us > 0 && pace.pause_us <= 1000 * MS);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(without_live_work_nothing_is_slowed),
        cmocka_unit_test(beside_live_work_a_step_takes_a_fourth_of_the_objective),
        cmocka_unit_test(it_grows_by_two_at_the_most),
        cmocka_unit_test(when_live_work_is_late_it_gets_shorter_and_pauses_longer),
        cmocka_unit_test(it_never_stops),
        cmocka_unit_test(it_does_not_overflow),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
