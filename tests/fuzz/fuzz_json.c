/*
 * fuzz_json.c - any bytes as JSON. Both functions must return the same, and the canonical text of a
 * valid input must be valid and its own canonical text.
 */
#include "../../src/base/json.h"

#include <stdlib.h>

enum { MAX_BYTES = 1024 * 1024, TREE_BYTES = 256 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_canonical(const ef__json *tree)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef__buf once = EF__BUF_INIT(8 * MAX_BYTES);
    ef__buf twice = EF__BUF_INIT(8 * MAX_BYTES);
    ef_error err = EF_ERROR_INIT;
    ef__json *again;

    must(ef__json_canonical(tree, &once));
    must(ef__json_parse(ef__buf_str(&once), 8 * MAX_BYTES, &arena, &again, &err) == EF_OK);
    must(ef__json_canonical(again, &twice));
    must(ef_str_equal(ef__buf_str(&once), ef__buf_str(&twice)));
    ef__buf_release(&once);
    ef__buf_release(&twice);
    ef__arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef_str text = {(const char *)data, size};
    ef_error checked = EF_ERROR_INIT;
    ef_error parsed = EF_ERROR_INIT;
    ef__json_kind kind = EF__JSON_NULL;
    ef__json *tree;
    ef_status st = ef__json_check(text, MAX_BYTES, &kind, &checked);

    must(ef__json_parse(text, MAX_BYTES, &arena, &tree, &parsed) == st);
    must(strcmp(checked.text, parsed.text) == 0);
    must((st == EF_OK) == (tree != NULL));
    if (tree) {
        must(tree->kind == kind);
        check_canonical(tree);
    }
    ef__arena_release(&arena);
    return 0;
}
