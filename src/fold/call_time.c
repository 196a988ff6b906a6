/*
 * call_time.c - functions of times as events carry them: RFC 3339 texts, and dates (2026-11-16).
 * Parts are those of the time in UTC. No function knows what time it is.
 */
#include "call.h"

#include <everfold/clock.h>

#include <stdio.h>

typedef struct parts {
    int year, month, day, hour, minute, second;
} parts;

/* Argument `i` as a time, cut to UTC and split; `text` is in the form of ef_time_format. */
static ef_status read_time(ef__call *call, size_t i, char text[EF_TIME_TEXT_MAX], bool *out_ok,
                           ef__value *out)
{
    ef_str given = ef__value_text(call->args[i]);
    char padded[sizeof("2026-11-16T00:00:00Z")];
    int64_t time_us = 0;

    *out_ok = ef_time_parse(given.ptr, given.len, &time_us) == 0;
    if (!*out_ok && given.len == 10) {
        (void)snprintf(padded, sizeof(padded), "%.10sT00:00:00Z", given.ptr);
        *out_ok = ef_time_parse(padded, sizeof(padded) - 1, &time_us) == 0;
    }
    if (!*out_ok)
        return ef__eval_mistake(call->ev, call->exprs[i], call->args[i], out,
                                "%s needs a time like 2026-11-16T09:30:00Z",
                                call->expr->function->name);
    ef_time_format(time_us, text);
    return EF_OK;
}

static int parse_digits(const char *text, int count)
{
    int value = 0;

    for (int i = 0; i < count; i++)
        value = value * 10 + (text[i] - '0');
    return value;
}

/* 2026-11-16T09:30:00.000000Z */
static parts parts_of(const char *text)
{
    return (parts){.year = parse_digits(text, 4),
                   .month = parse_digits(text + 5, 2),
                   .day = parse_digits(text + 8, 2),
                   .hour = parse_digits(text + 11, 2),
                   .minute = parse_digits(text + 14, 2),
                   .second = parse_digits(text + 17, 2)};
}

static int day_of_year(parts p)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    bool leap = (p.year % 4 == 0 && p.year % 100 != 0) || p.year % 400 == 0;

    return before[p.month - 1] + p.day + (leap && p.month > 2);
}

/* 1 is Monday. Days are counted from 0001-01-01, which was one. */
static int weekday_of(parts p)
{
    int years = p.year - 1;
    int days = years * 365 + years / 4 - years / 100 + years / 400 + day_of_year(p) - 1;

    return days % 7 + 1;
}

/* date, to_day, to_hour and to_month: the beginning of the text */
ef_status ef__call_cut_time(ef__call *call, ef__value *out)
{
    ef__function_id id = call->expr->function->id;
    size_t len = strlen(id == EF__FN_TO_MONTH  ? "2026-11"
                        : id == EF__FN_TO_HOUR ? "2026-11-16T09"
                                               : "2026-11-16");
    char text[EF_TIME_TEXT_MAX];
    bool ok;
    ef_status st = read_time(call, 0, text, &ok, out);

    return ok ? ef__eval_text(call->ev, call->expr, (ef_str){text, len}, out) : st;
}

static bool part_named(parts p, ef_str name, int *out)
{
    const struct {
        const char *name;
        int value;
    } all[] = {
        {"year", p.year},
        {"month", p.month},
        {"day", p.day},
        {"hour", p.hour},
        {"minute", p.minute},
        {"second", p.second},
        {"weekday", weekday_of(p)},
        {"day_of_year", day_of_year(p)},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (ef_str_equal(name, ef_str_from(all[i].name))) {
            *out = all[i].value;
            return true;
        }
    return false;
}

bool ef__date_part_is_known(ef_str name)
{
    int value;

    return part_named((parts){.year = 1970, .month = 1, .day = 1}, name, &value);
}

static ef_status read_part(ef__call *call, size_t time_arg, ef_str name, ef__value *out)
{
    char text[EF_TIME_TEXT_MAX];
    bool ok;
    int value;
    ef_status st = read_time(call, time_arg, text, &ok, out);

    if (!ok)
        return st;
    if (!part_named(parts_of(text), name, &value))
        return ef__eval_mistake(call->ev, call->exprs[0], call->args[0], out,
                                "the parts of date_part are " EF__DATE_PARTS);
    *out = ef__value_int(value);
    return EF_OK;
}

/* year, month, day and hour */
ef_status ef__call_time_part(ef__call *call, ef__value *out)
{
    return read_part(call, 0, ef_str_from(call->expr->function->name), out);
}

ef_status ef__call_date_part(ef__call *call, ef__value *out)
{
    return read_part(call, 1, ef__value_text(call->args[0]), out);
}
