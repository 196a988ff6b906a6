/*
 * fold_test.h - test files of programs, and differences of views.
 *
 * The format is described in docs/reference/fold-testing.md. A file lives in the arena of the
 * caller.
 */
#pragma once

#include "cli.h"
#include "../base/arena.h"

typedef struct cli_test_program {
    ef_str path; /* path relative to the directory of the test file, resolved */
    int32_t line;
    struct cli_test_program *next;
} cli_test_program;

/* A given event, an expected view, or an expected failure. */
typedef struct cli_test_line {
    enum { CLI_TEST_EVENT, CLI_TEST_VIEW, CLI_TEST_FAIL } kind;
    int32_t line;
    ef_new_event event;
    ef_str projection; /* VIEW; "": the only projection */
    ef_str tenant;
    ef_str view_id;
    const ef__json *data; /* null: the view must not exist */
    ef_str text;          /* FAIL: the message of a failed event contains it */
    struct cli_test_line *next;
} cli_test_line;

typedef struct cli_test_case {
    ef_str name;
    int32_t line;
    cli_test_line *lines; /* events before views */
    bool expects;         /* some line is a view or a failure */
    struct cli_test_case *next;
} cli_test_case;

typedef struct cli_test_file {
    cli_test_program *programs;
    cli_test_case *cases;
} cli_test_file;

/* Parses a test file, whose text outlives `out`. EF_BAD_INPUT: a message begins with PATH:LINE. */
ef_status cli_test_parse(const char *path, ef_str text, ef__arena *arena, cli_test_file *out,
                         ef_error *err);

/* Called for every difference; `expected` or `found` is NULL where a value is missing. */
typedef void cli_json_differs(void *context, ef_str path, const ef__json *expected,
                              const ef__json *found);

/* Numbers are compared by value, objects in any order of keys. False if memory ran out. */
bool cli_json_diff(const ef__json *expected, const ef__json *found, cli_json_differs *differs,
                   void *context);
