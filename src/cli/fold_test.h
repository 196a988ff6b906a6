/*
 * fold_test.h - test files of programs, and the results of running them.
 *
 * The format is described in docs/reference/fold-testing.md. A file and the results of its cases
 * live in the arena of the caller.
 */
#ifndef EF_CLI_FOLD_TEST_H
#define EF_CLI_FOLD_TEST_H

#include "cli.h"
#include "../base/arena.h"

typedef struct cli_test_program {
    ef_str path; /* path relative to the directory of the test file, resolved */
    int32_t line;
    struct cli_test_program *next;
} cli_test_program;

typedef struct cli_test_event {
    ef_new_event event;
    int32_t line;
    struct cli_test_event *next;
} cli_test_event;

typedef struct cli_test_view {
    ef_str projection; /* "": the only projection */
    ef_str tenant;
    ef_str view_id;
    const ef__json *data; /* null: the view must not exist */
    int32_t line;
    struct cli_test_view *next;
} cli_test_view;

/* An expected failure: the message of a failed event contains this text. */
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

/* Parses the text of a test file, which must outlive `out`. EF_BAD_INPUT: the message begins with
 * PATH:LINE. */
ef_status cli_test_parse(const char *path, ef_str text, ef__arena *arena, cli_test_file *out,
                         ef_error *err);

/* A mismatch: a place in a view, or a message alone. */
typedef struct cli_test_problem {
    int32_t line;
    ef_str projection, tenant, view_id; /* projection "": only the message is set */
    ef_str path;                        /* "": the whole view */
    ef_str expected, found;             /* JSON; ptr NULL: nothing */
    ef_str message;
    struct cli_test_problem *next;
} cli_test_problem;

typedef struct cli_test_result {
    cli_test_problem *first, **last;
    ef_text report; /* EF_BAD_INPUT: errors of a program, as text */
} cli_test_result;

/* Runs a case in memory. EF_OK also if it fails: then there are problems. EF_BAD_INPUT with a
 * report: a program has an error. */
ef_status cli_test_run(const cli_test_file *file, const cli_test_case *one, ef__arena *arena,
                       cli_test_result *out, ef_error *err);

/* --- json_diff.c ------------------------------------------------------------------------------ */

/* Called for every difference; `expected` or `found` is NULL where a value is missing. */
typedef void cli_json_differs(void *context, ef_str path, const ef__json *expected,
                              const ef__json *found);

/* Numbers are compared by value, objects regardless of the order of keys. False if memory ran out.
 */
bool cli_json_diff(const ef__json *expected, const ef__json *found, cli_json_differs *differs,
                   void *context);

#endif
