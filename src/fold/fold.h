/*
 * fold.h - fold programs: text in, a checked and compiled program out.
 *
 * The language is described in docs/fold-language.md. A compiled program never changes and may be
 * shared by threads. Nothing here reads a file, a clock or a global.
 */
#ifndef EF_FOLD_FOLD_H
#define EF_FOLD_FOLD_H

#include "diagnostic.h"

#include <everfold/status.h>
#include <everfold/str.h>

typedef struct ef__program ef__program;
typedef struct ef__filter ef__filter;
typedef struct ef__handler ef__handler;

/*
 * Compile `text`. `file` is the name for messages. On EF_OK `*out` is the caller's, to close; it
 * may have warnings in `diagnostics`, which is required and is emptied first.
 *
 * EF_BAD_INPUT  there are errors: `diagnostics` has them, `err` says the first
 * EF_TOO_LARGE  the text is larger than EF_FOLD_LIMIT_SOURCE_BYTES
 * EF_NO_MEMORY
 */
ef_status ef__program_compile(ef_str file, ef_str text, ef__program **out,
                              ef__diagnostics *diagnostics, ef_error *err);
void ef__program_close(ef__program *program);

ef_str ef__program_name(const ef__program *program);
int64_t ef__program_version(const ef__program *program);
int64_t ef__program_schema(const ef__program *program); /* of its views; at least 1 */
/* Do its migrations lead from views of this older schema to its own? */
bool ef__program_migrates(const ef__program *program, int64_t from_schema);
bool ef__program_by_log(const ef__program *program); /* order by log, else by stream */
ef_str ef__program_file(const ef__program *program);
ef_str ef__program_source(const ef__program *program);
/* SHA-256 of the program's tokens in hexadecimal: comments, blank lines, the width of an indent and
 * the way a line is broken do not count. */
ef_str ef__program_hash(const ef__program *program);

/* Declared indexes, as paths: "status", "stats.total". */
size_t ef__program_index_count(const ef__program *program);
ef_str ef__program_index(const ef__program *program, size_t i);
/* The type patterns of all handlers and the old names of aliases, as written: "order.placed",
 * "order.*", "*". */
size_t ef__program_pattern_count(const ef__program *program);
ef_str ef__program_pattern(const ef__program *program, size_t i);
/* Other projections that it looks into, each once. */
size_t ef__program_lookup_count(const ef__program *program);
ef_str ef__program_lookup(const ef__program *program, size_t i);

/* The type that an event stored as `type` is handled as. */
ef_str ef__program_type(const ef__program *program, ef_str type);
/*
 * The handlers for a type (after aliases), one after another, in the order in which they are tried:
 * start with NULL; NULL is the end. The first one whose `when` holds takes the event.
 */
const ef__handler *ef__program_handler_next(const ef__program *program, ef_str type,
                                            const ef__handler *after);
/* Does any handler take events of this stored type? */
bool ef__program_handles(const ef__program *program, ef_str type);

/*
 * Compile an expression for queries. Bare paths are the view's data; `view_id` and
 * `last_event_sequence` (a position) are of its envelope. Statuses as above.
 */
ef_status ef__filter_compile(ef_str text, ef__filter **out, ef__diagnostics *diagnostics,
                             ef_error *err);
void ef__filter_close(ef__filter *filter);
/* Adds a diagnostic for each field that the filter reads, the program does not write and `is_known`
 * does not know. None where the fields cannot be told from the program. */
typedef bool ef__name_is_known(void *context, ef_str name);
void ef__filter_check_names(const ef__filter *filter, const ef__program *program,
                            ef__name_is_known *is_known, void *context,
                            ef__diagnostics *diagnostics);
ef_str ef__filter_source(const ef__filter *filter);

/*
 * Refuse programs that look into each other in a circle, or into themselves: what such a view shows
 * depends on who comes first. The message names the circle: "a -> b -> a". EF_BAD_INPUT
 */
ef_status ef__fold_check_cycles(const ef__program *const *programs, size_t count, ef_error *err);

/* The compiled program as people, programs and Graphviz like it. */
typedef enum ef__explain_as { EF__EXPLAIN_TEXT, EF__EXPLAIN_JSON, EF__EXPLAIN_DOT } ef__explain_as;

ef_status ef__program_explain(const ef__program *program, ef__explain_as as, ef__buf *out,
                              ef_error *err);

#endif
