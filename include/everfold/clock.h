/*
 * clock.h - the clock of the library.
 *
 * All code reads the time from the ef_clock that the caller passed, so that a test controls it. All
 * times are microseconds: wall time since 1970 in UTC, monotonic time since an arbitrary moment.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

EF_C_BEGIN

typedef struct ef_clock {
    int64_t (*wall_us)(void *context); /* may jump; stored deadlines are compared with it */
    int64_t (*mono_us)(void *context); /* never decreases; durations are measured with it */
    void *context;
} ef_clock;

/* The clock of the system. */
const ef_clock *ef_clock_system(void);

#define EF_TIME_TEXT_MAX 32 /* bytes: 27 characters and the NUL */

/*
 * RFC 3339 in UTC with microseconds: 2026-11-16T09:30:00.000000Z. Parsing accepts any offset and up
 * to nine decimals (cut to six); years 1970 to 9999. Returns 0, or -1: the text is not a time.
 */
void ef_time_format(int64_t time_us, char out[EF_TIME_TEXT_MAX]);
int ef_time_parse(const char *text, uint64_t length, int64_t *out_time_us);

EF_C_END
