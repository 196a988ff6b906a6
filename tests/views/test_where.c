/*
 * The part of a filter that the server tests: the needle, and up to which size of a view it is
 * searched. test_query.c checks that the results are the same.
 */
#include "test.h"

#include "../../src/fold/limits.h"
#include "../../src/views/postgres/where.h"

#include <stdlib.h>

static vp_where made = VP_WHERE_INIT;

static bool make(const char *text)
{
    static ef__diagnostics diagnostics;
    ef__filter *filter = NULL;
    ef_error err = EF_ERROR_INIT;
    bool any;

    CHECK_STATUS(EF_OK, ef__filter_compile(ef_str_from(text), &filter, &diagnostics, &err), &err);
    any = vp_where_make(filter, &made);
    ef__filter_close(filter);
    return any;
}

static void check_needle(const char *text, const char *needle)
{
    CHECK(make(text) == (needle[0] != '\0'));
    CHECK_STR(needle, ef__buf_str(&made.needle));
}

static void check_nothing(const char *text)
{
    if (make(text))
        fail_msg("%s became %s", text, made.needle.ptr);
}

static void check_words(const char *text, const char *words)
{
    CHECK(make(text));
    CHECK_TEXT(words, made.words.ptr);
}

TEST(a_needle_is_what_every_view_that_matches_has_in_its_text)
{
    check_needle("a == \"x\"", "\"a\":\"x\"");
    check_needle("n > 1 and b.c == \"gold\" and a == \"x\"", "\"c\":\"gold\"");
    check_needle("a and b == \"x\"", "\"a\":true");
    check_needle("not (a != false)", "\"a\":false");
    check_needle("not (a != \"x\" or b)", "\"a\":\"x\"");
    check_needle("a == \"x\" or a == \"y\"", "");
    check_needle("a != \"x\"", "");
    check_needle("not a", "");
    check_needle("a == 1", ""); /* or 1.0 */
    check_needle("a[0] == \"x\"", "");
    check_needle("a == \"\xc3\xa9\"", "");
    check_needle("a == \"\\\"\"", "");
    check_needle("view[\"\\\\\"] == \"x\"", "");
}

TEST(a_condition_that_must_be_true_gives_the_needle)
{
    check_words("a == 1 and b == \"x\"", "b == \"x\"");
    check_words("a == \"x\" and lower(b) == \"x\"", "a == \"x\"");
    check_words("lower(b) == \"x\" and a == \"x\"", "a == \"x\"");
    check_words("not (a == 1 or b == c) and d", "d");
    check_words("not (a != \"x\" or b == c)", "not (a != \"x\")");
    check_words("(a == 1 and b == c or d) and e", "e");
    check_nothing("a == \"x\" or b == c");
    check_nothing("not (a == \"x\" and b == \"x\")");
    check_nothing("view_id == \"x\"");
    check_nothing("a == b");
    check_nothing("a < \"x\"");
    check_nothing("a in [\"x\"]");
    check_nothing("if a then b else c");
    check_nothing("a[-1] == \"x\"");
    check_nothing("a[b] == \"x\"");
    check_nothing("a == [\"x\"]");
}

/* A part that is evaluated before may make the query fail, so a view without the needle is sent. */
TEST(a_condition_after_a_part_of_unbounded_cost_gives_no_needle)
{
    check_words("a and b + c == \"x\" and d == \"longer\"", "a");
    check_words("a and (d or join(b, \"\") == \"x\") and e == \"longer\"", "a");
    check_nothing("join(b, \"\") == \"x\" and d");
    check_nothing("[b, b] == c and d");
    check_nothing("(b + c == 1 and d) or e");
}

TEST(how_large_a_view_may_be_follows_from_the_budget)
{
    ef__buf text = EF__BUF_INIT(100000);

    CHECK(make("a == \"x\""));
    CHECK_INT(EF_FOLD_LIMIT_VIEW_BYTES, made.bytes_max);
    CHECK(make("a == \"x\" and (b == 1 or c < 2)"));
    CHECK_INT(EF_FOLD_LIMIT_VIEW_BYTES, made.bytes_max);
    CHECK(make("a in [1] and b"));
    CHECK_INT(8192, made.bytes_max);
    CHECK(make("lower(b) == \"x\" and a"));
    CHECK_INT(4096, made.bytes_max);
    for (int i = 0; i < 100; i++)
        ef__buf_printf(&text, "%sa == \"%02d\"", i ? " and " : "", i);
    CHECK(make(text.ptr));
    CHECK_INT(65536, made.bytes_max);
    ef__buf_release(&text);
}

TEST(no_filter_says_nothing)
{
    CHECK(!vp_where_make(NULL, &made));
    vp_where_release(&made);
}

TEST_MAIN(TEST_CASE(a_needle_is_what_every_view_that_matches_has_in_its_text),
          TEST_CASE(a_condition_that_must_be_true_gives_the_needle),
          TEST_CASE(a_condition_after_a_part_of_unbounded_cost_gives_no_needle),
          TEST_CASE(how_large_a_view_may_be_follows_from_the_budget),
          TEST_CASE(no_filter_says_nothing))
