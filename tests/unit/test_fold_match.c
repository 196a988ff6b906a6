/*
 * test_fold_match.c - queries on stored views, and sort keys.
 */
#include "test.h"

#include "../../src/fold/match.h"

#include <stdlib.h>

static bool holds(const char *expr, const char *data)
{
    static ef__diagnostics diagnostics;
    ef_error err = EF_ERROR_INIT;
    ef__filter *filter = NULL;
    ef__match *match = NULL;
    bool answer = false;

    CHECK_STATUS(EF_OK, ef__filter_compile(ef_str_from(expr), &filter, &diagnostics, &err), &err);
    CHECK_STATUS(EF_OK, ef__match_open(&match, &err), &err);
    CHECK_STATUS(EF_OK, ef__match_row(match, EF_STR("ada"), 7, ef_str_from(data), &err), &err);
    CHECK_STATUS(EF_OK, ef__match_test(match, filter, &answer, &err), &err);
    ef__match_close(match);
    ef__filter_close(filter);
    return answer;
}

TEST(a_query_sees_data_and_envelope)
{
    CHECK(holds("total > 100 and status == \"gold\"", "{\"total\":100.5,\"status\":\"gold\"}"));
    CHECK(!holds("total > 100 and status == \"gold\"", "{\"total\":100,\"status\":\"gold\"}"));
    CHECK(holds("view_id == \"ada\" and last_event_sequence == 7", "{}"));
}

TEST(a_filter_on_a_missing_field_does_not_match)
{
    CHECK(!holds("total > 1", "{}"));
    CHECK(!holds("total > 1", "{\"total\":\"2\"}"));
    CHECK(!holds("total / n > 1", "{\"total\":2,\"n\":0}"));
    CHECK(!holds("lower(name) == \"x\"", "{\"name\":5}"));
    CHECK(!holds("total", "{\"total\":5}"));
}

TEST(comparing_values_of_two_kinds_costs_nothing)
{
    ef__buf data = EF__BUF_INIT(1024 * 1024);

    ef__buf_add_text(&data, "{\"a\":{");
    for (int i = 0; i < 5000; i++)
        ef__buf_printf(&data, "%s\"%d\":1", i ? "," : "", i);
    ef__buf_add_text(&data, "}}");
    CHECK(!holds("a == \"x\"", data.ptr));
    CHECK(holds("a != \"x\"", data.ptr));
    ef__buf_release(&data);
}

TEST(a_view_that_is_not_json_is_an_error)
{
    ef_error err = EF_ERROR_INIT;
    ef__match *match = NULL;

    CHECK_STATUS(EF_OK, ef__match_open(&match, &err), &err);
    CHECK_STATUS(EF_BAD_JSON, ef__match_row(match, EF_STR("a"), 1, EF_STR("{"), &err), &err);
    ef__match_close(match);
}

TEST(declared_indexes_are_read_by_their_path)
{
    static ef__diagnostics diagnostics;
    const char *text = "projection p version 1\n  index status, stats.total\n\non e\n"
                       "  status = 1\n  stats.total += 1\n";
    ef_error err = EF_ERROR_INIT;
    ef__program *program = NULL;
    ef__match *match = NULL;
    ef__value v;

    CHECK_STATUS(EF_OK,
                 ef__program_compile(EF_STR("p"), ef_str_from(text), &program, &diagnostics, &err),
                 &err);
    CHECK_STATUS(EF_OK, ef__match_open(&match, &err), &err);
    CHECK_STATUS(EF_OK,
                 ef__match_row(match, EF_STR("a"), 1, EF_STR("{\"stats\":{\"total\":9}}"), &err),
                 &err);
    CHECK_STATUS(EF_OK, ef__match_index(match, program, 0, &v, &err), &err);
    CHECK_INT(EF__VALUE_MISSING, v.kind);
    CHECK_STATUS(EF_OK, ef__match_index(match, program, 1, &v, &err), &err);
    CHECK_INT(9, v.as.integer);
    ef__match_close(match);
    ef__program_close(program);
}

/* --- sort keys -------------------------------------------------------------------------------- */

static uint64_t seed;

static unsigned below(unsigned limit)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % limit;
}

static void add_number(ef__buf *buf)
{
    if (below(2))
        ef__buf_add_char(buf, '-');
    if (below(3) == 0)
        ef__buf_printf(buf, "%u", below(4));
    else
        ef__buf_printf(buf, "%u", 1 + below(9));
    for (unsigned i = below(4) == 0 ? below(25) : 0; i > 0 && buf->ptr[buf->len - 1] != '0'; i--)
        ef__buf_printf(buf, "%u", 1 + below(9));
    if (below(2)) {
        ef__buf_printf(buf, ".%u", below(100));
        for (unsigned i = below(10); i > 0; i--)
            ef__buf_printf(buf, "%u", below(10));
    }
    if (below(6) == 0)
        ef__buf_printf(buf, "e%d", (int)below(24) - 12);
    if (below(60) == 0)
        ef__buf_printf(buf, "%s", strchr(buf->ptr, 'e') ? "" : "e99");
}

static void add_text(ef__buf *buf)
{
    static const char *const parts[] = {"a", "b", "A", "", "é", "\\u0001", "🙂", "0", "aa", " "};

    ef__buf_add_char(buf, '"');
    for (unsigned i = below(4); i > 0; i--)
        ef__buf_add_text(buf, parts[below(10)]);
    ef__buf_add_char(buf, '"');
}

static void add_value(ef__buf *buf, unsigned depth)
{
    static const char *const words[] = {"null", "true", "false"};
    unsigned kind = below(depth > 2 ? 8 : 10);

    if (kind < 1) {
        ef__buf_add_text(buf, words[below(3)]);
    } else if (kind < 6) {
        ef__buf number = EF__BUF_INIT(1000);
        add_number(&number);
        ef__buf_add_str(buf, ef__buf_str(&number));
        ef__buf_release(&number);
    } else if (kind < 8) {
        add_text(buf);
    } else {
        unsigned count = below(3);
        ef__buf_add_char(buf, kind == 8 ? '[' : '{');
        for (unsigned i = 0; i < count; i++) {
            ef__buf_add_text(buf, i ? "," : "");
            if (kind == 9)
                ef__buf_printf(buf, "\"%c%u\":", 'b' - (char)i, below(2));
            add_value(buf, depth + 1);
        }
        ef__buf_add_char(buf, kind == 8 ? ']' : '}');
    }
}

static ef__value random_value(ef__arena *arena)
{
    ef__buf buf = EF__BUF_INIT(1 << 16);
    ef__json *json;
    ef_error err = EF_ERROR_INIT;

    add_value(&buf, 0);
    ef_str text = ef__arena_copy(arena, ef__buf_str(&buf));
    ef__buf_release(&buf);
    CHECK_STATUS(EF_OK, ef__json_parse(text, 1 << 16, arena, &json, &err), &err);
    return ef__value_from_json(json);
}

static int compare_keys(const ef__buf *a, const ef__buf *b)
{
    size_t shared = a->len < b->len ? a->len : b->len;
    int diff = memcmp(a->ptr, b->ptr, shared);

    return diff ? diff : a->len < b->len ? -1 : a->len > b->len;
}

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

TEST(the_order_of_sort_keys_is_the_order_of_values)
{
    ef__arena arena = EF__ARENA_INIT(64 << 20);
    ef__buf a_key = EF__BUF_INIT(1 << 16);
    ef__buf b_key = EF__BUF_INIT(1 << 16);
    int equal = 0;
    bool cut;

    seed = 11;
    for (int i = 0; i < 30000; i++) {
        ef__value a = random_value(&arena);
        ef__value b = random_value(&arena);
        ef__buf_reset(&a_key);
        ef__buf_reset(&b_key);
        CHECK_STATUS(EF_OK, ef__sort_key(a, 1 << 16, &a_key, &cut, NULL), NULL);
        CHECK(!cut);
        CHECK_STATUS(EF_OK, ef__sort_key(b, 1 << 16, &b_key, &cut, NULL), NULL);
        if (sign(ef__value_compare(a, b)) != sign(compare_keys(&a_key, &b_key))) {
            ef__buf shown = EF__BUF_INIT(1 << 16);
            (void)ef__value_print(a, &shown, NULL);
            ef__buf_add_text(&shown, " and ");
            (void)ef__value_print(b, &shown, NULL);
            fail_msg("pair %d: %s", i, shown.ptr);
        }
        equal += ef__value_compare(a, b) == 0;
        ef__arena_reset(&arena);
    }
    CHECK(equal > 20); /* the pairs are not all unlike */
    ef__buf_release(&a_key);
    ef__buf_release(&b_key);
    ef__arena_release(&arena);
}

TEST(a_cut_sort_key_is_a_prefix_and_is_reported)
{
    ef__buf whole = EF__BUF_INIT(1000);
    ef__buf key = EF__BUF_INIT(1000);
    bool cut;
    ef__value v = ef__value_string(EF_STR("a text of some length"));

    CHECK_STATUS(EF_OK, ef__sort_key(v, 1000, &whole, &cut, NULL), NULL);
    CHECK(!cut);
    CHECK_STATUS(EF_OK, ef__sort_key(v, 10, &key, &cut, NULL), NULL);
    CHECK(cut);
    CHECK_INT(10, key.len);
    CHECK(memcmp(whole.ptr, key.ptr, 10) == 0);
    CHECK_STATUS(EF_OK, ef__sort_key(ef__value_int(1), 10, &key, &cut, NULL), NULL);
    CHECK(!cut);
    ef__buf_release(&whole);
    ef__buf_release(&key);
}

TEST_MAIN(TEST_CASE(a_query_sees_data_and_envelope),
          TEST_CASE(a_filter_on_a_missing_field_does_not_match),
          TEST_CASE(comparing_values_of_two_kinds_costs_nothing),
          TEST_CASE(a_view_that_is_not_json_is_an_error),
          TEST_CASE(declared_indexes_are_read_by_their_path),
          TEST_CASE(the_order_of_sort_keys_is_the_order_of_values),
          TEST_CASE(a_cut_sort_key_is_a_prefix_and_is_reported))
