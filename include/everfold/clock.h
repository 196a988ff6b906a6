/*
 * clock.h - time as the library sees it.
 *
 * Everything that needs the time takes it from an ef_clock that was handed in, so that a test owns
 * it. All times are microseconds: wall time since 1970 in UTC, monotonic time since some moment.
 */
#ifndef EVERFOLD_CLOCK_H
#define EVERFOLD_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_clock {
    int64_t (*wall_us)(void *context); /* may jump; stored deadlines are judged by it */
    int64_t (*mono_us)(void *context); /* never goes back; durations are measured by it */
    void *context;
} ef_clock;

/* The machine's own clock. */
const ef_clock *ef_clock_system(void);

#define EF_TIME_TEXT_MAX 32

/*
 * RFC 3339 in UTC with microseconds: 2026-11-16T09:30:00.000000Z. Parsing takes any offset and up
 * to nine decimals (cut at six); years 1970 to 9999. Returns 0, or -1 when the text is not a time.
 */
void ef_time_format(int64_t time_us, char out[EF_TIME_TEXT_MAX]);
int ef_time_parse(const char *text, uint64_t length, int64_t *out_time_us);

#ifdef __cplusplus
}
#endif
#endif
