/*
 * fold.h - fold programs: compiles source text to a checked program.
 *
 * The language is described in docs/reference/fold-language.md. A compiled program never changes
 * and may be shared by threads. Nothing here reads a file, a clock or a global.
 */
#pragma once

#include "diagnostic.h"

#include <everfold/status.h>
#include <everfold/str.h>

typedef struct ef__program ef__program;
typedef struct ef__filter ef__filter;

/*
 * Compiles `text`. `file` is the name for messages. On EF_OK the caller closes `*out`; it may have
 * warnings in `diagnostics`, which is required and is emptied first.
 *
 * EF_BAD_INPUT  there are errors: all in `diagnostics`, the first one in `err`
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
/* SHA-256 of the program's tokens in hexadecimal: comments, blank lines, the width of an indent and
 * the way a line is broken do not count. */
ef_str ef__program_hash(const ef__program *program);

/* Declared indexes, as paths: "status", "stats.total". */
size_t ef__program_index_count(const ef__program *program);
ef_str ef__program_index(const ef__program *program, size_t i);

/*
 * Compile an expression for queries. Bare paths are the view's data; `view_id` and
 * `last_event_sequence` (a position) are of its envelope. Statuses as above.
 */
ef_status ef__filter_compile(ef_str text, ef__filter **out, ef__diagnostics *diagnostics,
                             ef_error *err);
void ef__filter_close(ef__filter *filter);
/* Adds a diagnostic for each field that the filter reads, the program does not write and `is_known`
 * does not know. Adds none where the fields cannot be determined from the program. */
typedef bool ef__name_is_known(void *context, ef_str name);
void ef__filter_check_names(const ef__filter *filter, const ef__program *program,
                            ef__name_is_known *is_known, void *context,
                            ef__diagnostics *diagnostics);
ef_str ef__filter_source(const ef__filter *filter);

/*
 * Refuses programs that read each other by lookup in a cycle, or themselves: the result would
 * depend on the order of evaluation. The message names the cycle: "a -> b -> a". EF_BAD_INPUT
 */
ef_status ef__fold_check_cycles(const ef__program *const *programs, size_t count, ef_error *err);

/* Formats of the compiled program: for people, for programs, for Graphviz. */
typedef enum ef__explain_as { EF__EXPLAIN_TEXT, EF__EXPLAIN_JSON, EF__EXPLAIN_DOT } ef__explain_as;

ef_status ef__program_explain(const ef__program *program, ef__explain_as as, ef__buf *out,
                              ef_error *err);
