/*
 * clock.c - the system clock, and times as text.
 *
 * The calendar is computed here, because gmtime_r takes a lock that all threads share. Leap seconds
 * do not exist in this count: a text with second 60 is refused, not moved.
 */
#include <everfold/clock.h>

#include <stdbool.h>
#include <string.h>
#include <time.h>

#define SECOND_US INT64_C(1000000)
#define DAY_SECONDS 86400
#define DAY_US (DAY_SECONDS * SECOND_US)
#define TIME_US_MAX (DAYS_BEFORE_10000 * DAY_US - 1) /* the last microsecond of 9999 */

enum { DAYS_BEFORE_1970 = 719162, DAYS_BEFORE_10000 = 2932897 };

static int64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts); /* fails only for a clock that does not exist */
    return ts.tv_sec * SECOND_US + ts.tv_nsec / 1000;
}

static int64_t system_wall_us(void *context)
{
    (void)context;
    return read_clock(CLOCK_REALTIME);
}

static int64_t system_mono_us(void *context)
{
    (void)context;
    return read_clock(CLOCK_MONOTONIC);
}

const ef_clock *ef_clock_system(void)
{
    static const ef_clock system = {system_wall_us, system_mono_us, NULL};

    return &system;
}

/* Days from 1970-01-01 to the first of January of `year`, which is at least 1. */
static int64_t days_before_year(int64_t year)
{
    int64_t y = year - 1;

    return y * 365 + y / 4 - y / 100 + y / 400 - DAYS_BEFORE_1970;
}

static bool is_leap_year(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Months run from 1 to 12. */
static int days_in_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap_year(year));
}

/* Every event that a program reads the time of is formatted: a table halves the cost. */
static void write_pair(char *out, unsigned value)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";

    memcpy(out, pairs + 2 * value, 2);
}

typedef struct date {
    unsigned year, month, day;
} date;

/* The date of a day after 1970-01-01. Years are counted from the first of March here, so that a
 * leap day is the last of its year, and months have their days by one formula. */
static date date_of_day(unsigned days)
{
    const unsigned cycle_days = 146097; /* of 400 years */
    unsigned from_march = days + DAYS_BEFORE_1970 + 306;
    unsigned rest = from_march % cycle_days;
    unsigned year = (rest - rest / 1460 + rest / 36524 - rest / (cycle_days - 1)) / 365;
    unsigned day = rest - (365 * year + year / 4 - year / 100);
    unsigned month = (5 * day + 2) / 153; /* 0 is March */

    return (date){.year = from_march / cycle_days * 400 + year + (month >= 10),
                  .month = month < 10 ? month + 3 : month - 9,
                  .day = day - (153 * month + 2) / 5 + 1};
}

/* A time before 1970 or after 9999 is written as the nearest valid one: the public API refuses such
 * times, and the text has a fixed length. */
void ef_time_format(int64_t time_us, char out[EF_TIME_TEXT_MAX])
{
    static const char pattern[] = "yyyy-mm-ddThh:mm:ss.ffffffZ";
    int64_t us = time_us < 0 ? 0 : time_us > TIME_US_MAX ? TIME_US_MAX : time_us;
    int64_t seconds = us / SECOND_US;
    unsigned fraction = (unsigned)(us - seconds * SECOND_US);
    unsigned days = (unsigned)(seconds / DAY_SECONDS);
    unsigned second = (unsigned)(seconds - (int64_t)days * DAY_SECONDS);
    date d = date_of_day(days);

    memcpy(out, pattern, sizeof pattern);
    write_pair(out, d.year / 100);
    write_pair(out + 2, d.year % 100);
    write_pair(out + 5, d.month);
    write_pair(out + 8, d.day);
    write_pair(out + 11, second / 3600);
    write_pair(out + 14, second / 60 % 60);
    write_pair(out + 17, second % 60);
    write_pair(out + 20, fraction / 10000);
    write_pair(out + 22, fraction / 100 % 100);
    write_pair(out + 24, fraction % 100);
}

/* The unread rest of a text. */
typedef struct reader {
    const char *at;
    const char *end;
} reader;

/* Exactly `digits` digits with a value of `min` to `max`. */
static bool read_number(reader *r, int digits, int min, int max, int *out)
{
    int value = 0;

    if (r->end - r->at < digits)
        return false;
    for (int i = 0; i < digits; i++, r->at++) {
        if (*r->at < '0' || *r->at > '9')
            return false;
        value = value * 10 + (*r->at - '0');
    }
    *out = value;
    return value >= min && value <= max;
}

static bool read_one_of(reader *r, const char *wanted, char *out)
{
    if (r->at == r->end || *r->at == '\0' || !strchr(wanted, *r->at))
        return false;
    *out = *r->at++;
    return true;
}

static bool read_char(reader *r, char wanted)
{
    char found;

    return read_one_of(r, (char[]){wanted, '\0'}, &found);
}

static bool read_date(reader *r, int64_t *out_days)
{
    int year, month, day;

    if (!read_number(r, 4, 1, 9999, &year) || !read_char(r, '-') ||
        !read_number(r, 2, 1, 12, &month) || !read_char(r, '-') ||
        !read_number(r, 2, 1, days_in_month(year, month), &day))
        return false;
    *out_days = days_before_year(year) + day - 1;
    for (int m = 1; m < month; m++)
        *out_days += days_in_month(year, m);
    return true;
}

/* Nothing, or a point and one to nine digits; the first six are used. */
static bool read_fraction(reader *r, int64_t *out_us)
{
    int64_t unit = SECOND_US / 10;
    int digits = 0;

    *out_us = 0;
    if (!read_char(r, '.'))
        return true;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++, digits++) {
        *out_us += (*r->at - '0') * unit;
        unit /= 10;
    }
    return digits >= 1 && digits <= 9;
}

static bool read_time_of_day(reader *r, int64_t *out_us)
{
    int hour, minute, second;
    int64_t fraction_us;

    if (!read_number(r, 2, 0, 23, &hour) || !read_char(r, ':') ||
        !read_number(r, 2, 0, 59, &minute) || !read_char(r, ':') ||
        !read_number(r, 2, 0, 59, &second) || !read_fraction(r, &fraction_us))
        return false;
    *out_us = (hour * 3600 + minute * 60 + second) * SECOND_US + fraction_us;
    return true;
}

static bool read_offset(reader *r, int64_t *out_us)
{
    char sign;
    int hour, minute;

    *out_us = 0;
    if (!read_one_of(r, "Zz+-", &sign))
        return false;
    if (sign == 'Z' || sign == 'z')
        return true;
    if (!read_number(r, 2, 0, 23, &hour) || !read_char(r, ':') ||
        !read_number(r, 2, 0, 59, &minute))
        return false;
    *out_us = (hour * 60 + minute) * 60 * SECOND_US;
    if (sign == '-')
        *out_us = -*out_us;
    return true;
}

int ef_time_parse(const char *text, uint64_t length, int64_t *out_time_us)
{
    char separator;
    int64_t days, day_us, offset_us;

    if (!text)
        return -1;
    reader r = {text, text + length};
    if (!read_date(&r, &days) || !read_one_of(&r, "Tt", &separator) ||
        !read_time_of_day(&r, &day_us) || !read_offset(&r, &offset_us) || r.at != r.end)
        return -1;
    /* The range applies in UTC: with its offset, a local time of 1969 may be in 1970. */
    int64_t time_us = days * DAY_US + day_us - offset_us;
    if (time_us < 0 || time_us > TIME_US_MAX)
        return -1;
    *out_time_us = time_us;
    return 0;
}
