/*
 * fuzz_fold.c - any bytes as a program, and as a query's expression. What must hold: a program is
 * there exactly when there is no error, every place that is named lies in the text, what compiled
 * can be explained, and an expression that is printed and read again is the same.
 */
#include "../../src/fold/ast.h"
#include "../../src/fold/expr.h"

#include <stdlib.h>

enum { OUT_BYTES = 64 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_diagnostics(const ef__diagnostics *found, ef_str text, ef_status st)
{
    ef__buf out = EF__BUF_INIT(OUT_BYTES);
    ef__json_writer w = EF__JSON_WRITER(&out);

    must(st == EF_OK || st == EF_BAD_INPUT || st == EF_TOO_LARGE);
    must(st == EF_TOO_LARGE || (found->errors > 0) == (st == EF_BAD_INPUT));
    for (size_t i = 0; i < found->count; i++) {
        must(found->items[i].span.offset <= text.len);
        must(found->items[i].span.line >= 1 && found->items[i].span.column >= 1);
        must(found->items[i].span.length >= 1);
    }
    must(ef__diagnostics_render(found, text, &out));
    ef__buf_reset(&out);
    ef__diagnostics_json(found, &w);
    must(ef__json_check(ef__buf_str(&out), OUT_BYTES, NULL, NULL) == EF_OK);
    ef__buf_release(&out);
}

static void check_program(ef_str text)
{
    static ef__diagnostics found;
    ef__buf out = EF__BUF_INIT(OUT_BYTES);
    ef__program *program;
    ef_status st = ef__program_compile(EF_STR("f"), text, &program, &found, NULL);

    must((program != NULL) == (st == EF_OK));
    check_diagnostics(&found, text, st);
    if (program) {
        must(ef__program_explain(program, EF__EXPLAIN_TEXT, &out, NULL) == EF_OK);
        ef__buf_reset(&out);
        must(ef__program_explain(program, EF__EXPLAIN_DOT, &out, NULL) == EF_OK);
        ef__buf_reset(&out);
        must(ef__program_explain(program, EF__EXPLAIN_JSON, &out, NULL) == EF_OK);
        must(ef__json_check(ef__buf_str(&out), OUT_BYTES, NULL, NULL) == EF_OK);
    }
    ef__program_close(program);
    ef__buf_release(&out);
}

static void check_printed(const ef__filter *filter)
{
    static ef__diagnostics found;
    ef__buf text = EF__BUF_INIT(OUT_BYTES);
    ef__filter *again;

    ef__expr_print(filter->expr, &text);
    /* Printing may add brackets and so pass a limit that the text itself kept. */
    if (ef__filter_compile(ef__buf_str(&text), &again, &found, NULL) == EF_OK)
        must(ef__expr_equal(filter->expr, again->expr));
    else
        must(text.len > EF_FOLD_LIMIT_FILTER_BYTES ||
             strstr(found.items[0].message, "too deeply") != NULL);
    ef__filter_close(again);
    ef__buf_release(&text);
}

static void check_filter(ef_str text)
{
    static ef__diagnostics found;
    ef__filter *filter;
    ef_status st = ef__filter_compile(text, &filter, &found, NULL);

    must((filter != NULL) == (st == EF_OK));
    check_diagnostics(&found, text, st);
    if (filter)
        check_printed(filter);
    ef__filter_close(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ef_str text = {(const char *)data, size};

    check_program(text);
    check_filter(text);
    return 0;
}
