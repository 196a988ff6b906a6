/*
 * log.h - log records of the library.
 *
 * The library never prints. It passes each record to the ef_log of the caller (NULL: no log): a
 * level, a constant message ("checkpoint done"), and fields. ef_log_line formats a record as one
 * line, as text for people or JSON for machines, with control characters escaped.
 */
#pragma once

#include <everfold/str.h>

#include <stdint.h>

EF_C_BEGIN

typedef enum ef_log_level { EF_LOG_DEBUG, EF_LOG_INFO, EF_LOG_WARN, EF_LOG_ERROR } ef_log_level;
typedef enum ef_log_style { EF_LOG_TEXT, EF_LOG_JSON } ef_log_style;

/* One named value of a record: text, or a number when `text.ptr` is NULL. */
typedef struct ef_log_field {
    const char *name;
    ef_str text;
    int64_t number;
} ef_log_field;

#define EF_LOG_TEXT_FIELD(name, value) (EF_VALUE(ef_log_field){(name), (value), 0})
#define EF_LOG_NUMBER_FIELD(name, value) (EF_VALUE(ef_log_field){(name), {NULL, 0}, (value)})

typedef struct ef_log {
    ef_log_level level_min;
    /* May be called from any thread of the library; `fields` are borrowed for the call. */
    void (*write)(void *context, ef_log_level level, const char *message,
                  const ef_log_field *fields, uint64_t field_count);
    void *context;
} ef_log;

#define EF_LOG_LINE_MAX                                                                            \
    4096 /* bytes: PIPE_BUF of Linux, so that lines of several writers stay whole */

/*
 * Formats the record as one line that ends with a newline, cut at EF_LOG_LINE_MAX with an ellipsis.
 * Returns the length of the line.
 */
uint64_t ef_log_line(ef_log_style style, int64_t time_us, ef_log_level level, const char *message,
                     const ef_log_field *fields, uint64_t field_count, char out[EF_LOG_LINE_MAX]);

EF_C_END
