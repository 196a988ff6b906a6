/*
 * What of a filter the server tests: the condition, its values, and up to which size of a view.
 * That the answers are the same is for test_query.c to show.
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

static void check(const char *text, const char *path, const char *vars)
{
    ef__buf whole = EF__BUF_INIT(10000);

    if (!make(text))
        fail_msg("nothing of: %s", text);
    ef__buf_printf(&whole, "strict $ ? (%s)", path);
    CHECK_TEXT(whole.ptr, made.path.ptr);
    CHECK_TEXT(vars, made.vars.ptr);
    ef__buf_release(&whole);
}

static void check_needle(const char *text, const char *needle)
{
    CHECK(make(text));
    CHECK_STR(needle, ef__buf_str(&made.needle));
}

static void check_nothing(const char *text)
{
    if (make(text))
        fail_msg("%s became %s", text, made.path.ptr);
}

static void check_words(const char *text, const char *words)
{
    CHECK(make(text));
    CHECK_TEXT(words, made.words.ptr);
}

TEST(what_is_compared_with_a_literal_is_tested)
{
    check("a == \"x\"", "$.\"a\" == $v0", "{\"v0\":\"x\"}");
    check("\"x\" != a", "!exists($ ? ($.\"a\" == $v0))", "{\"v0\":\"x\"}");
    check("a.b == 1.50", "$.\"a\".\"b\" == $v0", "{\"v0\":1.5}");
    check("a == -3", "$.\"a\" == $v0", "{\"v0\":-3}");
    check("a[3] == true", "$.\"a\"[3] == $v0", "{\"v0\":true}");
    check("a == null", "!exists($ ? ($.\"a\" != null))", "{}");
    check("a != null", "$.\"a\" != null", "{}");
    check("a", "$.\"a\" == $v0", "{\"v0\":true}");
    check("not a", "!exists($ ? ($.\"a\" == $v0))", "{\"v0\":true}");
    check("starts_with(a, \"x\")", "$.\"a\" starts with $v0", "{\"v0\":\"x\"}");
}

TEST(less_and_more_are_tested_for_numbers_of_any_size)
{
    check("a < 5", "$.\"a\" < $v0", "{\"v0\":5}");
    check("5 <= a", "$.\"a\" >= $v0", "{\"v0\":5}");
    check("not (a > 5)", "!exists($ ? ($.\"a\" > $v0))", "{\"v0\":5}");
    check("a >= \"x\"", "$.\"a\" >= $v0", "{\"v0\":\"x\"}");
    check("a > 1000000000000000000000", "$.\"a\" > $v0", "{\"v0\":1000000000000000000000}");
    check_nothing("a < true");
    check_nothing("a < null");
}

TEST(lists_and_items_are_looked_for)
{
    check("a in [1, \"x\", true]", "exists($v0[*] ? (@ == $.\"a\"))", "{\"v0\":[1,\"x\",true]}");
    check("a in [null, 2]", "(exists($v0[*] ? (@ == $.\"a\")) || !exists($ ? ($.\"a\" != null)))",
          "{\"v0\":[null,2]}");
    check("not (a in [1])", "!exists($v0[*] ? (@ == $.\"a\"))", "{\"v0\":[1]}");
    check("\"x\" in a",
          "(exists($.\"a\"[*] ? (@ == $v0)) || $.\"a\".type() == \"string\" || "
          "$.\"a\".type() == \"object\")",
          "{\"v0\":\"x\"}");
    check_nothing("not (\"x\" in a)");
    check_nothing("a in b");
    check_nothing("a in [b]");
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

TEST(of_and_either_side_is_enough_and_of_or_both_are_needed)
{
    check_words("a == 1 and b == \"x\" or c", "(a == 1 and b == \"x\" or c)");
    check_words("a == 1 and lower(b) == \"x\"", "a == 1");
    check_words("lower(b) == \"x\" and a == 1", "a == 1");
    check_words("not (a == 1 or b == c) and d", "not (a == 1) and d");
    check_words("not (a == 1 and d)", "(not (a == 1) or not (d))");
    check_words("(a == 1 and b == c or d) and e", "(a == 1 or d) and e");
    check_nothing("a == 1 or b == c");
    check_nothing("not (a == 1 and b == c)");
    check_nothing("view_id == \"x\"");
    check_nothing("a == b");
    check_nothing("if a then b else c");
    check_nothing("a ?? 1 == 1");
    check_nothing("a[-1] == 1");
    check_nothing("a[b] == 1");
    check_nothing("a == [1]");
    check_nothing("a == {b: 1}");
}

/* What a part costs that is looked at before decides whether the query fails: so nothing behind one
 * that may cost anything is tested. */
TEST(nothing_behind_what_may_break_a_budget_is_tested)
{
    check_words("a == 1 and b + c == \"x\" and d == 2", "a == 1");
    check_words("a == 1 and (d == 2 or join(b, \"\") == \"x\") and e", "a == 1");
    check_nothing("join(b, \"\") == \"x\" and d == 2");
    check_nothing("[b, b] == c and d == 2");
    check_nothing("(b + c == 1 and d) or e");
}

TEST(how_large_a_view_may_be_follows_from_the_budget)
{
    ef__buf text = EF__BUF_INIT(100000);

    CHECK(make("a == \"x\""));
    CHECK_INT(EF_FOLD_LIMIT_VIEW_BYTES, made.bytes_max);
    CHECK(make("a in [1]"));
    CHECK_INT(8192, made.bytes_max);
    CHECK(make("lower(b) == \"x\" and a == 1"));
    CHECK_INT(4096, made.bytes_max);
    for (int i = 0; i < 100; i++)
        ef__buf_printf(&text, "%sa == \"%02d\"", i ? " and " : "", i);
    CHECK(make(text.ptr));
    CHECK_INT(65536, made.bytes_max);
    ef__buf_release(&text);
}

TEST(nothing_of_a_filter_becomes_part_of_the_condition)
{
    check("view[\"\\\") || true || (\\\"\"] != \"$v1\\\"}\"",
          "!exists($ ? ($.\"\\\") || true || (\\\"\" == $v0))", "{\"v0\":\"$v1\\\"}\"}");
    check("view[\"\\\\\"] != \"\\\\\"", "!exists($ ? ($.\"\\\\\" == $v0))", "{\"v0\":\"\\\\\"}");
    check("view[\"\"] == 1", "$.\"\" == $v0", "{\"v0\":1}");
    check("view[\"a\\n$.b\"] == 1", "$.\"a\\n$.b\" == $v0", "{\"v0\":1}");
    check("a < \"'; DROP TABLE x; --\"", "$.\"a\" < $v0", "{\"v0\":\"'; DROP TABLE x; --\"}");
}

TEST(no_filter_says_nothing)
{
    CHECK(!vp_where_make(NULL, &made));
    vp_where_release(&made);
}

TEST_MAIN(TEST_CASE(what_is_compared_with_a_literal_is_tested),
          TEST_CASE(less_and_more_are_tested_for_numbers_of_any_size),
          TEST_CASE(lists_and_items_are_looked_for),
          TEST_CASE(a_needle_is_what_every_view_that_matches_has_in_its_text),
          TEST_CASE(of_and_either_side_is_enough_and_of_or_both_are_needed),
          TEST_CASE(nothing_behind_what_may_break_a_budget_is_tested),
          TEST_CASE(how_large_a_view_may_be_follows_from_the_budget),
          TEST_CASE(nothing_of_a_filter_becomes_part_of_the_condition),
          TEST_CASE(no_filter_says_nothing))
