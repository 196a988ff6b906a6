/*
 * test_json.c - which texts the JSON validator accepts and refuses, the locations in its messages,
 * the tree, the canonical text and the writer. Every text is read by both functions.
 */
#include "test.h"

#include "../../src/base/json.h"
#include "../../src/base/limits.h"

#include <stdlib.h>

enum { MAX_BYTES = 4 * 1024 * 1024, TREE_BYTES = 256 * 1024 * 1024 };

/* Both functions, which must agree in status and message. */
static ef_status check_both(ef_str text, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef_error second = EF_ERROR_INIT;
    ef__json_kind kind = EF__JSON_NULL;
    ef__json *tree = (ef__json *)&arena;
    ef_status st = ef__json_check(text, MAX_BYTES, &kind, err);

    CHECK_STATUS(st, ef__json_parse(text, MAX_BYTES, &arena, &tree, &second), &second);
    CHECK_TEXT(err->text, second.text);
    CHECK_INT(st == EF_OK, tree != NULL);
    if (tree)
        CHECK_INT(kind, tree->kind);
    ef__arena_release(&arena);
    return st;
}

static void check_text(ef_status expected, ef_str text)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st = check_both(text, &err);

    if (st != expected)
        fail_msg("'%.*s': %s: %s", (int)(text.len < 200 ? text.len : 200), text.ptr,
                 ef_status_describe(st)->name, err.text);
}

static void check_texts(ef_status expected, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_text(expected, ef_str_from(texts[i]));
}

#define CHECK_TEXTS(expected, texts) check_texts(expected, texts, sizeof(texts) / sizeof(texts[0]))

static void check_message(const char *expected, const char *text)
{
    ef_error err = EF_ERROR_INIT;

    CHECK(check_both(ef_str_from(text), &err) != EF_OK);
    CHECK_TEXT(expected, err.text);
}

/* `head`, then `count` times `part` with a number in its %zu, then `tail`. */
static void build(ef__buf *buf, const char *head, const char *part, size_t count, const char *tail)
{
    ef__buf_reset(buf);
    ef__buf_add_text(buf, head);
    for (size_t i = 0; i < count; i++) {
        const char *number = strstr(part, "%zu");
        ef__buf_add(buf, part, number ? (size_t)(number - part) : strlen(part));
        if (number)
            ef__buf_printf(buf, "%zu%s", i, number + 3);
    }
    ef__buf_add_text(buf, tail);
    CHECK(!buf->failed);
}

static void check_canonical(const char *expected, const char *text)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);
    ef_error err = EF_ERROR_INIT;
    ef__json *tree;

    CHECK_STATUS(EF_OK, ef__json_parse(ef_str_from(text), MAX_BYTES, &arena, &tree, &err), &err);
    CHECK(ef__json_canonical(tree, &buf));
    CHECK_TEXT(expected, buf.ptr);
    ef__buf_release(&buf);
    ef__arena_release(&arena);
}

TEST(json_of_every_form_is_accepted)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-1",
        "10",
        "0.5",
        "-0.0e-0",
        "1e5",
        "1E+5",
        "1.25e-3",
        "123456789012345678901234567890",
        "\"\"",
        "\"a\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\"",
        "\"\x7F\"",
        "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \xEF\xBF\xBF\xF4\x8F\xBF\xBF\"",
        "[]",
        "{}",
        " \t\r\n[ 1 , 2 ] \n",
        "{ \"a\" : 1 , \"b\" : [ { } ] }",
        "[[],{},[[]],\"x\",null]",
        "{\"a\":{\"a\":{\"a\":1}}}",
        "[{\"a\":1},{\"a\":2}]",
        "{\"a\":1,\"A\":2,\"\":3,\" \":4}",
        "{\"\\u0061\":1,\"b\":2}",
    };

    CHECK_TEXTS(EF_OK, texts);
}

TEST(what_is_not_json_is_refused)
{
    static const char *const texts[] = {
        "",
        " ",
        "\n",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "00",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "0x1",
        "1 2",
        "1,",
        ",",
        "'a'",
        "a",
        "\"",
        "\"a",
        "\"a\\",
        "\"a\\\"",
        "\"\\x\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\U0041\"",
        "\"\\",
        "\"\\u00",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "[1}",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{1:2}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":1]",
        "{\"a\":}",
        "{\"a\",1}",
        "{\"a\"::1}",
        "{\"a\":1 \"b\":2}",
        "[] []",
        "{}x",
        "null,",
        "/* */ 1",
        "1 // x",
        "\xEF\xBB\xBF"
        "1",
        "[1]\f",
        "\v1",
        "\xC2\xA0"
        "1",
    };

    CHECK_TEXTS(EF_BAD_JSON, texts);
}

TEST(strings_hold_only_valid_characters)
{
    static const char *const texts[] = {
        "\"\n\"",
        "\"\t\"",
        "\"\x1F\"",
        "\"\x01\"",
        "\"\\u0000\"",
        "{\"\\u0000\":1}",
        "\"\\uD800\"",
        "\"\\uDC00\"",
        "\"\\uDC00\\uDC00\"",
        "\"\\uD800x\"",
        "\"\\uD800\\n\"",
        "\"\\uD800\\u0041\"",
        "\"\\uD800\\uD800\"",
        "\"\\uDBFF\\uE000\"",
        "\"\\uDE00\\uD83D\"",
        "\"\x80\"",
        "\"\xC0\x80\"",
        "\"\xC1\xBF\"",
        "\"\xE0\x80\x80\"",
        "\"\xE0\x9F\xBF\"",
        "\"\xED\xA0\x80\"",
        "\"\xED\xBF\xBF\"",
        "\"\xF0\x80\x80\x80\"",
        "\"\xF4\x90\x80\x80\"",
        "\"\xF5\x80\x80\x80\"",
        "\"\xC3\"",
        "\"\xE2\x82\"",
        "\"\xFF\"",
        "{\"\xFF\":1}",
    };

    CHECK_TEXTS(EF_BAD_JSON, texts);
    check_text(EF_BAD_JSON, EF_STR("\"a\0b\""));
    check_text(EF_BAD_JSON, EF_STR("1\0"));
    check_text(EF_BAD_JSON, EF_STR("\0"));
    check_text(EF_BAD_JSON, EF_STR("[1,\0]"));
    check_text(EF_BAD_JSON, (ef_str){NULL, 0});
}

/* The eight-at-a-time scan has to see the odd byte at each place of its window. */
TEST(an_invalid_byte_is_found_at_every_offset_of_a_string)
{
    for (size_t len = 1; len < 30; len++)
        for (size_t at = 0; at < len; at++)
            for (unsigned byte = 0; byte < 256; byte++) {
                char text[32];
                memset(text, 'a', sizeof(text));
                text[0] = text[len + 1] = '"';
                text[at + 1] = (char)byte;
                bool plain = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
                ef_status st = ef__json_check((ef_str){text, len + 2}, 100, NULL, NULL);
                /* A quote in the middle ends the string early, and what follows is too much. */
                if ((st == EF_OK) != plain)
                    fail_msg("byte 0x%02x at %zu of %zu", byte, at, len);
            }
}

TEST(keys_are_compared_after_unescaping)
{
    static const char *const texts[] = {
        "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\u0061\":1,\"a\":2}",
        "{\"\\u0061b\":1,\"a\\u0062\":2}",
        "{\"\":1,\"\":2}",
        "{\"/\":1,\"\\/\":2}",
        "{\"\\n\":1,\"\\u000A\":2}",
        "{\"\xE2\x82\xAC\":1,\"\\u20ac\":2}",
        "{\"\xF0\x9F\x98\x80\":1,\"\\uD83D\\uDE00\":2}",
        "[{\"x\":{\"b\":1,\"c\":2,\"b\":3}}]",
        "{\"a\":{\"a\":1},\"b\":[{\"a\":1}],\"a\":2}",
    };
    static const char *const different[] = {
        "{\"a\":1,\"\\\\u0061\":2}",
        "{\"\\u0061\":1,\"\\u0041\":2}",
        "{\"ab\":1,\"\\u0061c\":2}",
        "{\"\xC3\xA9\":1,\"e\xCC\x81\":2}",
    };

    CHECK_TEXTS(EF_BAD_JSON, texts);
    CHECK_TEXTS(EF_OK, different);
}

/* Small objects are compared key by key, large ones sorted, and the stack of keys moves to the heap
 * on the way: a duplicate of any key, found at any size. */
TEST(a_duplicate_is_found_in_objects_of_every_size)
{
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);
    char tail[64];

    for (size_t count = 1; count < 150; count++) {
        build(&buf, "{", "\"key%zu\":[{\"key0\":1}],", count, "\"last\":0}");
        check_text(EF_OK, ef__buf_str(&buf));
        for (size_t twin = 0; twin < count; twin += 1 + count / 7) {
            (void)snprintf(tail, sizeof(tail), "\"\\u006bey%zu\":0}", twin);
            build(&buf, "{", "\"key%zu\":[{\"key0\":1}],", count, tail);
            check_text(EF_BAD_JSON, ef__buf_str(&buf));
            (void)snprintf(tail, sizeof(tail), "\"key%zu\":0}", twin);
            build(&buf, "{", "\"key%zu\":[{\"key0\":1}],", count, tail);
            check_text(EF_BAD_JSON, ef__buf_str(&buf));
        }
    }
    ef__buf_release(&buf);
}

TEST(of_many_duplicates_in_a_large_object_the_first_is_named)
{
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);
    ef_error err = EF_ERROR_INIT;

    build(&buf, "{", "\"key%zu\":1,", 50, "\n\"key9\":1,\"a\":1,\"key30\":1,\"key9\":1}");
    CHECK_STATUS(EF_BAD_JSON, check_both(ef__buf_str(&buf), &err), &err);
    assert_non_null(strstr(err.text, "duplicate key \"key9\" at offset "));
    assert_non_null(strstr(err.text, "(line 2, column 1)"));
    ef__buf_release(&buf);
}

TEST(the_depth_has_a_limit)
{
    static const char *const parts[][3] = {{"", "[", "]"}, {"", "{\"a\":", "}"}};
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);

    for (size_t i = 0; i < 2; i++)
        for (size_t depth = EF_LIMIT_JSON_DEPTH; depth <= EF_LIMIT_JSON_DEPTH + 1; depth++) {
            build(&buf, "", parts[i][1], depth, i ? "1" : "");
            for (size_t j = 0; j < depth; j++)
                ef__buf_add_text(&buf, parts[i][2]);
            check_text(depth <= EF_LIMIT_JSON_DEPTH ? EF_OK : EF_TOO_LARGE, ef__buf_str(&buf));
        }
    build(&buf, "[1,\n", "[", EF_LIMIT_JSON_DEPTH, "");
    ef_error err = EF_ERROR_INIT;
    CHECK_STATUS(EF_TOO_LARGE, check_both(ef__buf_str(&buf), &err), &err);
    CHECK_TEXT("arrays and objects are nested deeper than 128 at offset 131 (line 2, column 128)",
               err.text);
    ef__buf_release(&buf);
}

TEST(the_keys_of_one_object_have_a_limit)
{
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);

    build(&buf, "{", "\"key%zu\":1,", EF_LIMIT_JSON_KEYS - 1, "\"last\":1}");
    check_text(EF_OK, ef__buf_str(&buf));
    build(&buf, "{", "\"key%zu\":1,", EF_LIMIT_JSON_KEYS, "\"last\":1}");
    check_text(EF_TOO_LARGE, ef__buf_str(&buf));
    /* Of one object: many objects may have more between them. */
    build(&buf, "[", "{\"key%zu\":1,\"b\":2},", EF_LIMIT_JSON_KEYS, "0]");
    check_text(EF_OK, ef__buf_str(&buf));
    ef__buf_release(&buf);
}

TEST(a_number_has_limits_of_length_and_exponent)
{
    static const char *const fine[] = {"1e999", "1e-999", "1E+999", "0e999", "1e0000000000000999"};
    static const char *const too_large[] = {"1e1000",  "1e-1000",      "1E+1000",
                                            "0e1000",  "[1e1000]",     "1e99999999999999999999",
                                            "1e01000", "1e-4294967297"};
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);

    CHECK_TEXTS(EF_OK, fine);
    CHECK_TEXTS(EF_TOO_LARGE, too_large);
    build(&buf, "", "1", EF_LIMIT_NUMBER_BYTES, "");
    check_text(EF_OK, ef__buf_str(&buf));
    build(&buf, "-0.", "1", EF_LIMIT_NUMBER_BYTES - 3, "");
    check_text(EF_OK, ef__buf_str(&buf));
    build(&buf, "", "1", EF_LIMIT_NUMBER_BYTES + 1, "");
    check_text(EF_TOO_LARGE, ef__buf_str(&buf));
    build(&buf, "-0.", "1", EF_LIMIT_NUMBER_BYTES - 2, "");
    check_text(EF_TOO_LARGE, ef__buf_str(&buf));
    ef__buf_release(&buf);
}

TEST(the_whole_text_has_a_limit)
{
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__json_check(EF_STR("[1,2]"), 5, NULL, &err), &err);
    CHECK_STATUS(EF_TOO_LARGE, ef__json_check(EF_STR("[1,2]"), 4, NULL, &err), &err);
    CHECK_TEXT("the JSON text has 5 bytes, at most 4 are allowed", err.text);
    CHECK_INT(5, err.asked);
    CHECK_INT(4, err.found);
}

TEST(a_json_mistake_is_reported_with_offset_line_and_column)
{
    check_message("a value expected, found the end of the text at offset 0 (line 1, column 1)", "");
    check_message("a value expected, found ']' at offset 3 (line 1, column 4)", "[1,]");
    check_message("',' or '}' expected, found 'x' at offset 8 (line 2, column 1)", "{\"a\": 1\nx");
    check_message("',' or ']' expected, found '}' at offset 2 (line 1, column 3)", "[1}");
    check_message("a key expected, found '}' at offset 7 (line 1, column 8)", "{\"a\":1,}");
    check_message("a key or '}' expected, found '1' at offset 1 (line 1, column 2)", "{1:2}");
    check_message("':' after the key expected, found '1' at offset 5 (line 1, column 6)",
                  "{\"a\" 1}");
    check_message("the end of the text expected, found 'x' at offset 3 (line 1, column 4)", "{} x");
    check_message("a value expected, found byte 0xef at offset 0 (line 1, column 1)",
                  "\xEF\xBB\xBF{}");
    check_message("a value expected, found 'n' at offset 1 (line 1, column 2)", "[nul]");
    check_message("the string has no closing quote at offset 1 (line 1, column 2)", "[\"abc");
    /* Columns count characters, offsets bytes. */
    check_message("byte 0xff is not valid UTF-8 at offset 8 (line 2, column 4)",
                  "[\n\"\xE2\x82\xAC\xC3\xA9\xFF\"]");
    check_message("a control character (byte 0x0a) in a string at offset 2 (line 1, column 3)",
                  "\"a\n\"");
    check_message("\\u0000 is not allowed at offset 1 (line 1, column 2)", "\"\\u0000\"");
    check_message("\\u without four hexadecimal digits at offset 2 (line 1, column 3)",
                  "\"a\\u00x0\"");
    check_message("half a surrogate pair at offset 1 (line 1, column 2)", "\"\\uD800\"");
    check_message("a backslash without a known escape at offset 1 (line 1, column 2)", "\"\\x\"");
    check_message("duplicate key \"a\" at offset 7 (line 1, column 8)", "{\"a\":1,\"a\":2}");
    check_message(
        "a number without leading zeros expected, found '0' at offset 1 (line 1, column 2)", "-01");
    check_message("a digit after the point expected, found ']' at offset 3 (line 1, column 4)",
                  "[1.]");
    check_message("an exponent past 999 at offset 1 (line 1, column 2)", "[1e1000]");
}

TEST(a_long_key_is_shown_cut)
{
    ef__buf buf = EF__BUF_INIT(MAX_BYTES);
    ef__buf key = EF__BUF_INIT(MAX_BYTES);
    ef_error err = EF_ERROR_INIT;

    build(&key, "\"", "\xE2\x82\xAC", 1000, "\":1");
    build(&buf, "{", key.ptr, 1, ",");
    ef__buf_add_text(&buf, key.ptr);
    ef__buf_add_char(&buf, '}');
    CHECK_STATUS(EF_BAD_JSON, check_both(ef__buf_str(&buf), &err), &err);
    assert_non_null(strstr(err.text, "\xE2\x82\xAC\"\xE2\x80\xA6 at offset 3006 "));
    ef__buf_release(&key);
    ef__buf_release(&buf);
}

TEST(the_tree_has_the_shape_of_the_text)
{
    const char *text =
        " {\"n\" : -1.50, \"s\":\"a\\n\\u20ac\",\"\\u0061\":[true,false, null] ,\"o\":{}}";
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef__json *tree;

    CHECK_STATUS(EF_OK, ef__json_parse(ef_str_from(text), MAX_BYTES, &arena, &tree, NULL), NULL);
    CHECK_INT(EF__JSON_OBJECT, tree->kind);
    CHECK_INT(4, tree->count);
    CHECK_STR(text + 1, tree->text);
    CHECK_STR("n", tree->first->key);
    CHECK_STR("-1.50", tree->first->text);
    CHECK(tree->first->key.ptr == text + 3);

    const ef__json *string = ef__json_get(tree, "s");
    CHECK_INT(EF__JSON_STRING, string->kind);
    CHECK_STR("a\n\xE2\x82\xAC", string->text);
    const ef__json *array = ef__json_get(tree, "a");
    CHECK_INT(EF__JSON_ARRAY, array->kind);
    CHECK_INT(3, array->count);
    CHECK_STR("[true,false, null]", array->text);
    CHECK_INT(EF__JSON_TRUE, array->first->kind);
    CHECK_INT(EF__JSON_FALSE, array->first->next->kind);
    CHECK_INT(EF__JSON_NULL, array->first->next->next->kind);
    assert_null(array->first->next->next->next);
    CHECK_INT(0, array->first->key.len);
    CHECK_INT(0, ef__json_get(tree, "o")->count);
    assert_null(ef__json_get(tree, "o")->first);

    assert_null(ef__json_get(tree, "missing"));
    assert_null(ef__json_get(array, "a"));
    assert_null(ef__json_get(NULL, "a"));
    ef__arena_release(&arena);
}

TEST(a_tree_that_does_not_fit_its_arena_is_refused)
{
    ef_str text = EF_STR("[\"a\\nb\",{\"k\\n\":[1,2,3]}]");
    ef_status st = EF_NO_MEMORY;
    size_t refused = 0;

    for (size_t bytes = 0; st != EF_OK; bytes += 16) {
        ef__arena arena = EF__ARENA_INIT(bytes);
        ef_error err = EF_ERROR_INIT;
        ef__json *tree = (ef__json *)&arena;
        st = ef__json_parse(text, MAX_BYTES, &arena, &tree, &err);
        CHECK(st == EF_OK || st == EF_NO_MEMORY);
        CHECK_INT(st == EF_OK, tree != NULL);
        refused += st != EF_OK;
        ef__arena_release(&arena);
    }
    CHECK(refused > 5);
}

TEST(an_integer_is_read_when_it_is_one_and_fits)
{
    static const struct {
        const char *text;
        int answer;
        int64_t value;
    } cases[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"42", 0, 42},
        {"-42", 0, -42},
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", -1, 7},
        {"-9223372036854775809", -1, 7},
        {"99999999999999999999999", -1, 7},
        {"1.0", -1, 7},
        {"1e2", -1, 7},
        {"\"1\"", -1, 7},
        {"null", -1, 7},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
        int64_t value = 7;
        ef__json *tree;
        CHECK_STATUS(EF_OK,
                     ef__json_parse(ef_str_from(cases[i].text), MAX_BYTES, &arena, &tree, NULL),
                     NULL);
        CHECK_INT(cases[i].answer, ef__json_int64(tree, &value));
        CHECK(value == cases[i].value);
        ef__arena_release(&arena);
    }
    CHECK_INT(-1, ef__json_int64(NULL, &(int64_t){0}));
}

TEST(canonical_text_is_sorted_and_tight)
{
    check_canonical(
        "{\"a\":1,\"b\":[1.50,2e3,null],\"c\":{\"x\":true,\"y\":false}}",
        " { \"c\":{\"y\":false,\"x\":true} , \"b\":[1.50, 2e3,null], \"\\u0061\" : 1 }");
    check_canonical("\"\\b\\t\\n\\f\\r\\\"\\\\/\\u0001\\u001f\x7F\xE2\x82\xAC\"",
                    "\"\\b\\t\\u000a\\f\\r\\\"\\\\\\/\\u0001\\u001F\\u007f\\u20AC\"");
    check_canonical("{}", "{ }");
    check_canonical("[]", " [ ]");
    /* By UTF-8 bytes: a key before what begins with it, and U+FF5E before U+1F600, which UTF-16
     * would put the other way round. */
    check_canonical("{\"\":0,\"B\":1,\"a\":2,\"ab\":3,\"\xEF\xBD\x9E\":4,\"\xF0\x9F\x98\x80\":5}",
                    "{\"\\uD83D\\uDE00\":5,\"ab\":3,\"\\uFF5E\":4,\"a\":2,\"B\":1,\"\":0}");
}

TEST(canonical_text_of_many_keys_and_full_depth_is_written)
{
    ef__buf text = EF__BUF_INIT(MAX_BYTES);
    ef__buf sorted = EF__BUF_INIT(MAX_BYTES);

    ef__buf_add_char(&text, '{');
    ef__buf_add_char(&sorted, '{');
    for (int i = 0; i < 100; i++) {
        ef__buf_printf(&text, "%s\"%02d\":%d", i ? "," : "", i * 37 % 100, i * 37 % 100);
        ef__buf_printf(&sorted, "%s\"%02d\":%d", i ? "," : "", i, i);
    }
    ef__buf_add_char(&text, '}');
    ef__buf_add_char(&sorted, '}');
    check_canonical(sorted.ptr, text.ptr);

    build(&text, "", "{\"a\":", EF_LIMIT_JSON_DEPTH, "1");
    for (int i = 0; i < EF_LIMIT_JSON_DEPTH; i++)
        ef__buf_add_char(&text, '}');
    check_canonical(text.ptr, text.ptr);
    ef__buf_release(&text);
    ef__buf_release(&sorted);
}

TEST(canonical_text_that_does_not_fit_is_a_failure)
{
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    ef__json *tree;

    CHECK_STATUS(EF_OK, ef__json_parse(EF_STR("{\"a\":[1,2]}"), MAX_BYTES, &arena, &tree, NULL),
                 NULL);
    for (size_t max = 0; max < 11; max++) {
        ef__buf buf = EF__BUF_INIT(max);
        CHECK(!ef__json_canonical(tree, &buf));
        CHECK(buf.failed);
        ef__buf_release(&buf);
    }
    ef__buf buf = EF__BUF_INIT(11);
    CHECK(ef__json_canonical(tree, &buf));
    ef__buf_release(&buf);
    ef__arena_release(&arena);
}

TEST(the_writer_places_commas_and_colons)
{
    ef__buf buf = EF__BUF_INIT(1000);
    ef__json_writer w = EF__JSON_WRITER(&buf);

    ef__json_open(&w, '{');
    ef__json_key(&w, "seq");
    ef__json_int(&w, INT64_MIN);
    ef__json_key(&w, "a\"b");
    ef__json_str(&w, EF_STR("x\\y\x01"));
    ef__json_key(&w, "list");
    ef__json_open(&w, '[');
    ef__json_bool(&w, true);
    ef__json_bool(&w, false);
    ef__json_open(&w, '[');
    ef__json_close(&w, ']');
    ef__json_open(&w, '{');
    ef__json_close(&w, '}');
    ef__json_null(&w);
    ef__json_close(&w, ']');
    ef__json_key(&w, "raw");
    ef__json_raw(&w, EF_STR("{\"k\": 1.0}"));
    ef__json_key(&w, "never");
    ef__json_time(&w, 0);
    ef__json_key(&w, "at");
    ef__json_time(&w, INT64_C(1000000));
    ef__json_close(&w, '}');
    CHECK_TEXT("{\"seq\":-9223372036854775808,\"a\\\"b\":\"x\\\\y\\u0001\","
               "\"list\":[true,false,[],{},null],\"raw\":{\"k\": 1.0},\"never\":null,"
               "\"at\":\"1970-01-01T00:00:01.000000Z\"}",
               buf.ptr);
    check_text(EF_OK, ef__buf_str(&buf));
    ef__buf_release(&buf);
}

TEST(a_written_string_reads_back_as_it_was)
{
    ef__buf buf = EF__BUF_INIT(10000);
    ef__arena arena = EF__ARENA_INIT(TREE_BYTES);
    char text[128];
    ef__json *tree;

    for (int i = 1; i < 128; i++)
        text[i - 1] = (char)i;
    CHECK(ef__json_write_string(&buf, (ef_str){text, 127}));
    CHECK_STATUS(EF_OK, ef__json_parse(ef__buf_str(&buf), MAX_BYTES, &arena, &tree, NULL), NULL);
    CHECK_INT(127, tree->text.len);
    assert_memory_equal(text, tree->text.ptr, 127);
    ef__buf_reset(&buf);
    CHECK(ef__json_write_string(&buf, (ef_str){NULL, 0}));
    CHECK_TEXT("\"\"", buf.ptr);
    ef__arena_release(&arena);
    ef__buf_release(&buf);
}

/* Every byte at every offset of a text that is scanned eight bytes at a time: escaped, or
 * unchanged. */
TEST(a_byte_is_escaped_at_every_offset_and_only_if_necessary)
{
    ef__buf buf = EF__BUF_INIT(10000);
    char text[24], expected[64], escape[8];

    for (int c = 1; c < 256; c++) {
        bool two = c == '"' || c == '\\';
        const char *name = c < 0x20 ? strchr("\bb\tt\nn\ff\rr", c) : NULL;

        if (two || name)
            (void)snprintf(escape, sizeof escape, "\\%c", two ? c : name[1]);
        else
            (void)snprintf(escape, sizeof escape, c < 0x20 ? "\\u%04x" : "%c", c);
        for (size_t len = 1; len <= sizeof text; len++)
            for (size_t at = 0; at < len; at++) {
                memset(text, 0x7f, len);
                text[at] = (char)c;
                (void)snprintf(expected, sizeof expected, "\"%.*s%s%.*s\"", (int)at, text, escape,
                               (int)(len - at - 1), text + at + 1);
                ef__buf_reset(&buf);
                CHECK(ef__json_write_string(&buf, (ef_str){text, len}));
                CHECK_TEXT(expected, buf.ptr);
            }
    }
    ef__buf_release(&buf);
}

TEST_MAIN(TEST_CASE(json_of_every_form_is_accepted), TEST_CASE(what_is_not_json_is_refused),
          TEST_CASE(strings_hold_only_valid_characters),
          TEST_CASE(an_invalid_byte_is_found_at_every_offset_of_a_string),
          TEST_CASE(keys_are_compared_after_unescaping),
          TEST_CASE(a_duplicate_is_found_in_objects_of_every_size),
          TEST_CASE(of_many_duplicates_in_a_large_object_the_first_is_named),
          TEST_CASE(the_depth_has_a_limit), TEST_CASE(the_keys_of_one_object_have_a_limit),
          TEST_CASE(a_number_has_limits_of_length_and_exponent),
          TEST_CASE(the_whole_text_has_a_limit),
          TEST_CASE(a_json_mistake_is_reported_with_offset_line_and_column),
          TEST_CASE(a_long_key_is_shown_cut), TEST_CASE(the_tree_has_the_shape_of_the_text),
          TEST_CASE(a_tree_that_does_not_fit_its_arena_is_refused),
          TEST_CASE(an_integer_is_read_when_it_is_one_and_fits),
          TEST_CASE(canonical_text_is_sorted_and_tight),
          TEST_CASE(canonical_text_of_many_keys_and_full_depth_is_written),
          TEST_CASE(canonical_text_that_does_not_fit_is_a_failure),
          TEST_CASE(the_writer_places_commas_and_colons),
          TEST_CASE(a_written_string_reads_back_as_it_was),
          TEST_CASE(a_byte_is_escaped_at_every_offset_and_only_if_necessary))
