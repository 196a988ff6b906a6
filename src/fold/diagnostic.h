/*
 * diagnostic.h - diagnostics: mistakes of a program, with their locations.
 *
 * Up to EF_FOLD_LIMIT_DIAGNOSTICS are kept, in the order they were found; further ones are counted.
 * The texts live inside, so a list needs no arena and outlives the program.
 */
#pragma once

#include "limits.h"

#include "../base/json.h"

#include <everfold/str.h>

/* A location in the source. Column and length count characters, offset counts bytes. */
typedef struct ef__span {
    uint32_t offset;
    uint32_t line;   /* from 1 */
    uint32_t column; /* from 1 */
    uint32_t length; /* at least 1, within the line */
} ef__span;

typedef enum ef__severity { EF__SEVERITY_ERROR, EF__SEVERITY_WARNING } ef__severity;

typedef struct ef__diagnostic {
    ef__severity severity;
    ef__span span;
    char message[240];   /* a sentence without its full stop, no control characters */
    char suggestion[64]; /* the suggested word, or "" */
} ef__diagnostic;

typedef struct ef__diagnostics {
    char file[256]; /* for messages; "" is shown as nothing */
    size_t count;
    size_t left_out; /* found, but past the limit */
    size_t errors;   /* among all that were found */
    ef__diagnostic items[EF_FOLD_LIMIT_DIAGNOSTICS];
} ef__diagnostics;

void ef__diagnostics_init(ef__diagnostics *list, ef_str file);

/* One more; `suggestion` may be NULL. A second one at the same place is dropped: it follows from
 * the first more often than not. */
void ef__diagnostics_add(ef__diagnostics *list, ef__severity severity, ef__span span,
                         const char *suggestion, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* In the order of the source. */
void ef__diagnostics_sort(ef__diagnostics *list);

/*
 * For people:
 *     shop.fold:7:12: error: there is no function "lenght"; did you mean "length"?
 *       size = lenght(data.name)
 *              ^~~~~~
 * `source` is the text that was compiled.
 */
bool ef__diagnostic_render(const ef__diagnostics *list, size_t index, ef_str source, ef__buf *out);
bool ef__diagnostics_render(const ef__diagnostics *list, ef_str source, ef__buf *out);

/* For programs: [{"file":…,"line":…,"column":…,"length":…,"severity":…,"message":…,
 * "suggestion":…}, …]; suggestion is null when there is none. */
void ef__diagnostics_json(const ef__diagnostics *list, ef__json_writer *w);
