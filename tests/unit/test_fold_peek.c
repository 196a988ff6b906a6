/*
 * test_fold_peek.c - fields found by a scan, compared with those that the strict reader finds.
 */
#include "test.h"

#include "../../src/fold/peek.h"

#include <stdlib.h>

enum { OBJECTS = 3000, ARENA_BYTES = 16 << 20 };

static const char *const keys[] = {"id", "amount", "größe", "a key of twenty-one by", "x", ""};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* Values of all kinds and of unusual spellings. */
static const char *const values[] = {
    "0",           "-0",
    "7",           "12.50",
    "-0.05",       "2.0",
    "1e3",         "1E-7",
    "123456.789",  "999999999999999999",
    "-1",          "9223372036854775808",
    "0.1",         "99999999999999999999.25",
    "true",        "null",
    "\"\"",        "\"plain, and longer than eight bytes\"",
    "\"é\"",       "\"a quote \\\" and a \\\\\"",
    "\"\\u0041\"", "\"ends in a backslash \\\\\"",
    "[]",          "[1,\"]\",{\"x\":\"}\"}]",
    "{}",          "{\"id\":{\"x\":[\"\\\"}\"]},\"x\":1}",
};
enum { VALUES = sizeof(values) / sizeof(values[0]) };

static void add_space(ef__buf *out)
{
    static const char *const spaces[] = {"", "", "", " ", "\n\t"};

    ef__buf_add_text(out, spaces[rand() % 5]);
}

/* Some of the keys, each at most once, in any order. */
static void make_object(ef__buf *out)
{
    unsigned used = 0;
    bool first = true;

    ef__buf_reset(out);
    add_space(out);
    ef__buf_add_char(out, '{');
    for (int i = rand() % 9; i > 0; i--) {
        unsigned key = (unsigned)rand() % KEYS;
        if (used & 1u << key)
            continue;
        used |= 1u << key;
        if (!first)
            ef__buf_add_char(out, ',');
        first = false;
        add_space(out);
        ef__buf_printf(out, "\"%s\"", keys[key]);
        add_space(out);
        ef__buf_add_char(out, ':');
        add_space(out);
        ef__buf_add_text(out, values[rand() % VALUES]);
        add_space(out);
    }
    add_space(out);
    ef__buf_add_char(out, '}');
    add_space(out);
}

static void check_equal(ef__value expected, ef__value found)
{
    ef__buf a = EF__BUF_INIT(1 << 20);
    ef__buf b = EF__BUF_INIT(1 << 20);

    CHECK_INT(expected.kind, found.kind);
    CHECK_STATUS(EF_OK, ef__value_print(expected, &a, NULL), NULL);
    CHECK_STATUS(EF_OK, ef__value_print(found, &b, NULL), NULL);
    CHECK_TEXT(a.ptr, b.ptr);
    ef__buf_release(&a);
    ef__buf_release(&b);
}

TEST(a_scan_finds_what_the_strict_reader_finds)
{
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    ef__buf text = EF__BUF_INIT(1 << 16);

    srand(1);
    for (int i = 0; i < OBJECTS; i++) {
        ef__json *json;
        ef__peek peek;
        make_object(&text);
        CHECK_STATUS(EF_OK, ef__json_parse(ef__buf_str(&text), 1 << 16, &arena, &json, NULL), NULL);
        CHECK(ef__peek_begin(&peek, ef__buf_str(&text)));
        for (int asked = 0; asked < 10; asked++) {
            ef_str key = ef_str_from(keys[rand() % KEYS]);
            ef__value found;
            bool strict = false;
            CHECK_STATUS(EF_OK, ef__peek_get(&peek, key, &arena, &found, &strict, NULL), NULL);
            CHECK(!strict);
            check_equal(ef__value_get(ef__value_from_json(json), key), found);
        }
        ef__arena_reset(&arena);
    }
    ef__buf_release(&text);
    ef__arena_release(&arena);
}

/* What a scan for "x" says of a text. */
typedef enum answer { FOUND, NOT_THERE, FAILED, ASK_STRICT } answer;

/* The text is copied into memory of its very length: a byte too far is seen. */
static answer look_for_x(ef_str text)
{
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    char *copy = malloc(text.len ? text.len : 1);
    ef__value found = EF__MISSING;
    bool strict = false;
    ef_status st = EF_OK;
    ef__peek peek;

    CHECK(copy);
    memcpy(copy, text.ptr, text.len);
    if (!ef__peek_begin(&peek, (ef_str){copy, text.len}))
        strict = true;
    else
        st = ef__peek_get(&peek, EF_STR("x"), &arena, &found, &strict, NULL);
    free(copy);
    ef__arena_release(&arena);
    if (strict)
        return ASK_STRICT;
    return st != EF_OK ? FAILED : found.kind == EF__VALUE_MISSING ? NOT_THERE : FOUND;
}

TEST(what_is_not_as_expected_is_left_to_the_strict_reader)
{
    static const char *const texts[] = {
        "",         " ",         "[1]",      "7",           "{",         "{x",
        "{\"x",     "{\"x\"",    "{\"x\":",  "{\"x\":\"a",  "{\"x\":[1", "{\"a\\u0062\":1,\"x\":1}",
        "{\"x\":}", "{\"x\" 1}", "{\"x\":1", "{\"x\":1 2}", "{,}",       "{\"x\":\"\\",
    };
    ef__buf many = EF__BUF_INIT(1 << 16);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        CHECK_INT(ASK_STRICT, look_for_x(ef_str_from(texts[i])));
    for (int i = 0; i < EF__PEEK_MEMBERS; i++)
        ef__buf_printf(&many, "%c\"k%d\":1", i ? ',' : '{', i);
    ef__buf_add_text(&many, ",\"x\":1}");
    CHECK_INT(ASK_STRICT, look_for_x(ef__buf_str(&many)));
    ef__buf_release(&many);
}

TEST(a_member_that_is_asked_for_is_read_strictly)
{
    static const char *const texts[] = {
        "{\"x\":01}",   "{\"x\":1.}",          "{\"x\":.5}",      "{\"x\":-}",        "{\"x\":+1}",
        "{\"x\":1..2}", "{\"x\":truely}",      "{\"x\":\"\t\"}",  "{\"x\":\"\xff\"}", "{\"x\":1e}",
        "{\"x\":[1,]}", "{\"x\":-01.5}",       "{\"x\":\"\\q\"}", "{\"x\":1.5.}",     "{\"x\":--1}",
        "{\"x\":0x1}",  "{\"x\":\"\\u0000\"}",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        CHECK_INT(FAILED, look_for_x(ef_str_from(texts[i])));
    CHECK_INT(FOUND, look_for_x(EF_STR("{\"x\":0.5, what comes behind is not looked at")));
    CHECK_INT(NOT_THERE, look_for_x(EF_STR("{\"y\":01}")));
}

TEST(a_text_may_end_anywhere)
{
    static const char whole[] = "{\"id\":\"a longer text \\\" é\",\"list\":[{\"a\":\"]\\\\\"},[]],"
                                "\"n\":-12.50,\"x\":\"and the end\"}";

    for (size_t len = 0; len < sizeof(whole) - 1; len++)
        CHECK_INT(ASK_STRICT, look_for_x((ef_str){whole, len}));
    CHECK_INT(FOUND, look_for_x(EF_STR(whole)));
}

/* Texts are looked through many bytes at a time: wherever in them it stands, and however long. */
TEST(a_byte_that_does_not_belong_is_found_wherever_it_stands)
{
    char text[128];

    for (int len = 0; len < 50; len++)
        for (int at = 0; at < len; at++) {
            int end = snprintf(text, sizeof(text), "{\"x\":\"%.*s\",\"y\":\"\t\"}", len,
                               "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
            ef_str whole = {text, (size_t)end};
            CHECK_INT(FOUND, look_for_x(whole)); /* what stands behind it does not matter */
            text[6 + at] = '\t';
            CHECK_INT(FAILED, look_for_x(whole));
            text[6 + at] = '\xff';
            CHECK_INT(FAILED, look_for_x(whole));
        }
}

TEST_MAIN(TEST_CASE(a_byte_that_does_not_belong_is_found_wherever_it_stands),
          TEST_CASE(a_scan_finds_what_the_strict_reader_finds),
          TEST_CASE(what_is_not_as_expected_is_left_to_the_strict_reader),
          TEST_CASE(a_member_that_is_asked_for_is_read_strictly),
          TEST_CASE(a_text_may_end_anywhere))
