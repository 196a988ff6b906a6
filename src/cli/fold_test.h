/*
 * fold_test.h - test files of programs: what is in them, and what became of running them.
 *
 * The format is described in docs/fold-testing.md. A file and the results of its cases live in the
 * arena of whoever reads it.
 */
#ifndef EF_CLI_FOLD_TEST_H
#define EF_CLI_FOLD_TEST_H

#include "cli.h"
#include "../base/arena.h"

typedef struct cli_test_program {
    ef_str path; /* as it is opened: relative to the test file's own folder */
    int32_t line;
    struct cli_test_program *next;
} cli_test_program;

typedef struct cli_test_event {
    ef_new_event event;
    int32_t line;
    struct cli_test_event *next;
} cli_test_event;

typedef struct cli_test_view {
    ef_str projection; /* "": the only one */
    ef_str tenant;
    ef_str view_id;
    const ef__json *data; /* null: there is no such view */
    int32_t line;
    struct cli_test_view *next;
} cli_test_view;

/* A failure that is expected: the message of some failed event holds this text. */
typedef struct cli_test_fail {
    ef_str text;
    int32_t line;
    struct cli_test_fail *next;
} cli_test_fail;

typedef struct cli_test_case {
    ef_str name;
    int32_t line;
    cli_test_event *events;
    cli_test_view *views;
    cli_test_fail *fails;
    struct cli_test_case *next;
} cli_test_case;

typedef struct cli_test_file {
    cli_test_program *programs;
    cli_test_case *cases;
} cli_test_file;

/* Read a test file's text, which must live as long as `out`. EF_BAD_INPUT: the message begins with
 * PATH:LINE. */
ef_status cli_test_parse(const char *path, ef_str text, ef__arena *arena, cli_test_file *out,
                         ef_error *err);

/* One thing that is not as expected: a place in a view, or a message alone. */
typedef struct cli_test_problem {
    int32_t line;
    ef_str projection, tenant, view_id; /* projection "": there is only the message */
    ef_str path;                        /* "" is the whole of it */
    ef_str expected, found;             /* JSON; ptr NULL: nothing */
    ef_str message;
    struct cli_test_problem *next;
} cli_test_problem;

typedef struct cli_test_result {
    cli_test_problem *first, **last;
    ef_text report; /* EF_BAD_INPUT: what is wrong with a program, for people */
} cli_test_result;

/*
 * Run a case in memory. EF_OK also when it does not pass: then there are problems. EF_BAD_INPUT
 * with a report: a program has a mistake.
 */
ef_status cli_test_run(const cli_test_file *file, const cli_test_case *one, ef__arena *arena,
                       cli_test_result *out, ef_error *err);

/* --- json_diff.c ------------------------------------------------------------------------------ */

/* Called for every place where two values differ; `expected` or `found` is NULL where there is
 * nothing. */
typedef void cli_json_differs(void *context, ef_str path, const ef__json *expected,
                              const ef__json *found);

/* Numbers are the same when they are worth the same, objects whatever the order of their keys.
 * False when memory ran out. */
bool cli_json_diff(const ef__json *expected, const ef__json *found, cli_json_differs *differs,
                   void *context);

#endif
