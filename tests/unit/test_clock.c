/*
 * test_clock.c - times as text, compared with the C library's calendar.
 */
#include "test.h"

#include <everfold/clock.h>

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define SECOND_US INT64_C(1000000)
#define DAY_SECONDS INT64_C(86400)

static int parse(const char *text, int64_t *out)
{
    return ef_time_parse(text, strlen(text), out);
}

static void check_parses(const char *text, int64_t expected_us)
{
    int64_t time_us = -1;

    if (parse(text, &time_us) != 0)
        fail_msg("%s was refused", text);
    if (time_us != expected_us)
        fail_msg("%s gave %" PRId64 ", not %" PRId64, text, time_us, expected_us);
}

static void check_refused(const char *text)
{
    int64_t time_us = -77;

    if (parse(text, &time_us) != -1)
        fail_msg("\"%s\" was taken for a time", text);
    CHECK_INT(-77, time_us);
}

/* Format by the C library, compare, and parse back. */
static void check_round_trip(int64_t seconds, int64_t fraction_us)
{
    char text[EF_TIME_TEXT_MAX];
    char expected[64];
    struct tm tm;
    time_t t = (time_t)seconds;
    int64_t back = -1;

    assert_non_null(gmtime_r(&t, &tm));
    snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.%06" PRId64 "Z",
             tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             fraction_us);
    ef_time_format(seconds * SECOND_US + fraction_us, text);
    if (strcmp(expected, text) != 0)
        fail_msg("%s, not %s", text, expected);
    if (parse(text, &back) != 0 || back != seconds * SECOND_US + fraction_us)
        fail_msg("%s came back as %" PRId64, text, back);
}

TEST(every_day_of_1970_to_2100_goes_to_text_and_back)
{
    struct tm end = {.tm_year = 2101 - 1900, .tm_mday = 1};
    int64_t days = timegm(&end) / DAY_SECONDS;

    CHECK_INT(131 * 365 + 32, days);
    for (int64_t day = 0; day < days; day++) {
        check_round_trip(day * DAY_SECONDS, 0);
        check_round_trip(day * DAY_SECONDS + day % DAY_SECONDS, day);
        check_round_trip(day * DAY_SECONDS + DAY_SECONDS - 1, 999999);
    }
}

TEST(the_ends_of_every_year_to_9999_go_to_text_and_back)
{
    for (int year = 1971; year <= 9999; year++) {
        struct tm start = {.tm_year = year - 1900, .tm_mday = 1};
        int64_t seconds = timegm(&start);
        check_round_trip(seconds, 0);
        check_round_trip(seconds - 1, 999999);
        check_round_trip(seconds + 59 * DAY_SECONDS, 123456);
    }
}

TEST(every_second_of_a_day_goes_to_text_and_back)
{
    for (int64_t second = 0; second < DAY_SECONDS; second++)
        check_round_trip(20000 * DAY_SECONDS + second, second);
}

TEST(every_day_that_a_month_does_not_have_is_refused)
{
    for (int year = 1970; year <= 2100; year++) {
        for (int month = 0; month <= 13; month++) {
            for (int day = 0; day <= 32; day++) {
                struct tm tm = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
                char text[64];
                int64_t time_us = -1;
                time_t t = timegm(&tm);
                bool exists = tm.tm_mon == month - 1 && tm.tm_mday == day && month > 0;

                snprintf(text, sizeof(text), "%04d-%02d-%02dT00:00:00Z", year, month, day);
                if ((parse(text, &time_us) == 0) != exists)
                    fail_msg("%s: %s", text, exists ? "refused" : "taken for a time");
                if (exists)
                    CHECK_INT(t * SECOND_US, time_us);
            }
        }
    }
}

TEST(times_out_of_range_are_written_as_the_nearest_in_range)
{
    char text[EF_TIME_TEXT_MAX];

    ef_time_format(-1, text);
    CHECK_TEXT("1970-01-01T00:00:00.000000Z", text);
    ef_time_format(INT64_MIN, text);
    CHECK_TEXT("1970-01-01T00:00:00.000000Z", text);
    ef_time_format(INT64_MAX, text);
    CHECK_TEXT("9999-12-31T23:59:59.999999Z", text);
}

TEST(time_offsets_are_converted_to_utc)
{
    const int64_t base = INT64_C(1794821400) * SECOND_US; /* 2026-11-16T09:30:00Z */

    check_parses("2026-11-16T09:30:00Z", base);
    check_parses("2026-11-16t09:30:00z", base);
    check_parses("2026-11-16T09:30:00+00:00", base);
    check_parses("2026-11-16T09:30:00-00:00", base);
    check_parses("2026-11-16T10:30:00+01:00", base);
    check_parses("2026-11-16T04:00:00-05:30", base);
    check_parses("2026-11-17T09:29:00+23:59", base);
}

TEST(decimals_of_a_second_are_cut_after_the_sixth)
{
    check_parses("1970-01-01T00:00:01.5Z", 1500000);
    check_parses("1970-01-01T00:00:01.000001Z", 1000001);
    check_parses("1970-01-01T00:00:01.0000019Z", 1000001);
    check_parses("1970-01-01T00:00:01.999999999Z", 1999999);
    check_refused("1970-01-01T00:00:01.Z");
    check_refused("1970-01-01T00:00:01.1234567891Z");
    check_refused("1970-01-01T00:00:01,5Z");
}

TEST(the_range_of_times_applies_in_utc)
{
    check_parses("1969-12-31T23:30:00-00:30", 0);
    check_refused("1969-12-31T23:59:59.999999Z");
    check_refused("1970-01-01T00:00:00+00:01");
    check_refused("9999-12-31T23:59:59-00:01");
    check_refused("0000-01-01T00:00:00Z");
    check_refused("0001-01-01T00:00:00Z");
}

TEST(second_60_is_refused)
{
    check_refused("2016-12-31T23:59:60Z");
    check_refused("2026-11-16T09:30:60Z");
}

TEST(what_is_not_rfc3339_is_refused)
{
    static const char *const texts[] = {
        "",
        "now",
        "2026-11-16",
        "2026-11-16T09:30Z",
        "2026-11-16T09:30:00",
        "2026-11-16 09:30:00Z",
        "20261116T093000Z",
        "2026-11-16T24:00:00Z",
        "2026-11-16T09:60:00Z",
        "2026-11-16T09:30:00+0100",
        "2026-11-16T09:30:00+24:00",
        "2026-11-16T09:30:00+01:60",
        "2026-11-16T09:30:00+01",
        "2026-11-16T09:30:00ZZ",
        " 2026-11-16T09:30:00Z",
        "2026-11-16T09:30:00Z ",
        "2026-1-16T09:30:00Z",
        "+2026-11-16T09:30:00Z",
        "12026-11-16T09:30:00Z",
        "2026-11-16T-9:30:00Z",
        "2026-11-16T09:30:00.-5Z",
        "2026/11/16T09:30:00Z",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        check_refused(texts[i]);
}

TEST(a_text_is_read_to_its_length_and_no_further)
{
    static const char text[] = "2026-11-16T09:30:00.123456+01:00";
    int64_t time_us;

    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        char *exact = malloc(len); /* the sanitizer reports a read past the end */
        memcpy(exact, text, len);
        CHECK_INT(-1, ef_time_parse(exact, len, &time_us));
        free(exact);
    }
    CHECK_INT(-1, ef_time_parse(text, sizeof(text), &time_us)); /* with its NUL */
    CHECK_INT(-1, ef_time_parse(NULL, 0, &time_us));
    CHECK_INT(0, ef_time_parse(text, sizeof(text) - 1, &time_us));
}

TEST(the_system_clock_returns_the_time_of_the_system)
{
    const ef_clock *clock = ef_clock_system();
    int64_t before = (int64_t)time(NULL) * SECOND_US;
    int64_t wall = clock->wall_us(clock->context);
    int64_t after = ((int64_t)time(NULL) + 1) * SECOND_US;
    int64_t mono = clock->mono_us(clock->context);

    /* time() may be a tick older than the finer clock. */
    CHECK(wall >= before - SECOND_US && wall <= after + SECOND_US);
    for (int i = 0; i < 1000; i++) {
        int64_t next = clock->mono_us(clock->context);
        CHECK(next >= mono);
        mono = next;
    }
}

TEST_MAIN(TEST_CASE(every_day_of_1970_to_2100_goes_to_text_and_back),
          TEST_CASE(the_ends_of_every_year_to_9999_go_to_text_and_back),
          TEST_CASE(every_second_of_a_day_goes_to_text_and_back),
          TEST_CASE(every_day_that_a_month_does_not_have_is_refused),
          TEST_CASE(times_out_of_range_are_written_as_the_nearest_in_range),
          TEST_CASE(time_offsets_are_converted_to_utc),
          TEST_CASE(decimals_of_a_second_are_cut_after_the_sixth),
          TEST_CASE(the_range_of_times_applies_in_utc), TEST_CASE(second_60_is_refused),
          TEST_CASE(what_is_not_rfc3339_is_refused),
          TEST_CASE(a_text_is_read_to_its_length_and_no_further),
          TEST_CASE(the_system_clock_returns_the_time_of_the_system))
