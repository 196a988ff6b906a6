/*
 * test_fold_peek.c - fields found by a scan, compared with those that the strict reader finds.
 */
#include "test.h"

#include "../../src/fold/peek.h"

#include <stdlib.h>

enum { OBJECTS = 3000, ARENA_BYTES = 16 << 20 };

/* Some begin like others; one is as long as a peek remembers, one is longer. */
static const char *const keys[] = {
    "id", "ids", "i", "amount", "größe", "a key of 19 bytes !", "a key of 20 bytes !!", "x", ""};
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
    for (int i = rand() % 12; i > 0; i--) {
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

/* The text is copied into memory of its exact length, which is freed afterwards: the sanitizer
 * reports a read past its end, and a read of an earlier event. */
static char *copy_of(ef_str text)
{
    char *copy = malloc(text.len ? text.len : 1);

    CHECK(copy);
    memcpy(copy, text.ptr, text.len);
    return copy;
}

/* Reads all keys, in an order that changes, and some of them twice. */
static void check_scan(ef__peek *peek, ef_str text)
{
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    ef_str data = {copy_of(text), text.len};
    size_t first = (size_t)rand();
    ef__json *json;

    CHECK_STATUS(EF_OK, ef__json_parse(data, 1 << 16, &arena, &json, NULL), NULL);
    CHECK(ef__peek_begin(peek, data));
    for (size_t asked = 0; asked < KEYS + 3; asked++) {
        ef_str key = ef_str_from(keys[(first + 5 * asked) % KEYS]);
        ef__value found;
        bool strict = false;
        CHECK_STATUS(EF_OK, ef__peek_get(peek, key, &arena, &found, &strict, NULL), NULL);
        CHECK(!strict);
        check_equal(ef__value_get(ef__value_from_json(json), key), found);
    }
    free((char *)(uintptr_t)data.ptr);
    ef__arena_release(&arena);
}

TEST(a_peek_finds_the_same_fields_as_the_strict_parser)
{
    ef__buf text = EF__BUF_INIT(1 << 16);
    ef__peek peek = {0};

    srand(1);
    for (int i = 0; i < OBJECTS; i++) {
        make_object(&text);
        check_scan(&peek, ef__buf_str(&text));
    }
    ef__buf_release(&text);
}

TEST(a_peek_does_not_confuse_keys_of_the_previous_event)
{
    static const char *const texts[] = {
        "{\"id\":1,\"amount\":2,\"x\":3}",
        "{\"id\":4,\"amount\":5,\"x\":6}", /* the same keys */
        "{\"amount\":7,\"x\":8,\"id\":9}", /* in another order */
        "{\"ids\":10,\"amount\":11}",      /* longer and shorter ones that begin alike */
        "{\"i\":12,\"amount\":13,\"ids\":14}",
        "{\"id\":15,\"ids\":16,\"i\":17}",
        "{\"id\" :18,\"ids\": 19 , \"i\":20}", /* the same with spaces */
        "{ \"id\":21,\"ids\" : 22,\"i\":23 }",
        "{\"id\":24,\"i\":25}", /* one is missing */
        "{\"id\":26}",
        "{}",
        "{\"\":27,\"id\":28}",
        "{\"id\":29,\"ids\":30,\"i\":31}",
        "{\"a key of 19 bytes !\":32,\"a key of 20 bytes !!\":33}",
        "{\"a key of 19 bytes !\":34,\"a key of 20 bytes !!\":35}",
        "{\"a key of 20 bytes !!\":36,\"a key of 19 bytes !\":37}",
        "{\"other\":\",\\\"id\\\":1\",\"größe\":{\"id\":38},\"x\":[39]}", /* not keys at all */
    };
    ef__peek peek = {0};

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            check_scan(&peek, ef_str_from(texts[i]));
}

/* The result of a scan for "x" in a text. */
typedef enum answer { FOUND, NOT_THERE, FAILED, ASK_STRICT } answer;

static answer look_with(ef__peek *peek, ef_str text)
{
    ef__arena arena = EF__ARENA_INIT(ARENA_BYTES);
    char *copy = copy_of(text);
    ef__value found = EF__MISSING;
    bool strict = false;
    ef_status st = EF_OK;

    if (!ef__peek_begin(peek, (ef_str){copy, text.len}))
        strict = true;
    else
        st = ef__peek_get(peek, EF_STR("x"), &arena, &found, &strict, NULL);
    free(copy);
    ef__arena_release(&arena);
    if (strict)
        return ASK_STRICT;
    return st != EF_OK ? FAILED : found.kind == EF__VALUE_MISSING ? NOT_THERE : FOUND;
}

static answer look_for_x(ef_str text)
{
    ef__peek peek = {0};

    return look_with(&peek, text);
}

TEST(a_peek_leaves_unexpected_text_to_the_strict_parser)
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

TEST(a_peek_parses_the_member_that_is_needed_strictly)
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

TEST(a_peek_stops_at_the_end_of_any_cut_text)
{
    static const char whole[] = "{\"id\":\"a longer text \\\" é\",\"list\":[{\"a\":\"]\\\\\"},[]],"
                                "\"n\":-12.50,\"x\":\"and the end\"}";

    for (size_t len = 0; len < sizeof(whole) - 1; len++)
        CHECK_INT(ASK_STRICT, look_for_x((ef_str){whole, len}));
    CHECK_INT(FOUND, look_for_x(EF_STR(whole)));
}

TEST(a_peek_with_known_keys_stops_at_the_end_of_any_cut_text)
{
    static const char whole[] = "{\"id\":1,\"a longer key\":\"and its text\",\"x\":12}";
    ef__peek peek = {0};

    for (size_t len = 0; len < sizeof(whole) - 1; len++) {
        CHECK_INT(FOUND, look_with(&peek, EF_STR(whole)));
        CHECK_INT(ASK_STRICT, look_with(&peek, (ef_str){whole, len}));
    }
    CHECK_INT(FOUND, look_with(&peek, EF_STR(whole)));
}

TEST(a_peek_leaves_a_key_with_an_escape_to_the_strict_parser)
{
    ef__peek peek = {0};

    for (int round = 0; round < 2; round++) {
        CHECK_INT(FOUND, look_with(&peek, EF_STR("{\"id\":1,\"x\":2}")));
        CHECK_INT(ASK_STRICT, look_with(&peek, EF_STR("{\"i\\u0064\":1,\"x\":2}")));
        CHECK_INT(ASK_STRICT, look_with(&peek, EF_STR("{\"id\":1,\"\\u0078\":2}")));
        CHECK_INT(NOT_THERE, look_with(&peek, EF_STR("{\"id\":1,\"y\":2}")));
    }
}

/* Texts are scanned many bytes at a time: tries every offset and every length. */
TEST(a_peek_finds_an_invalid_byte_at_every_offset)
{
    char text[128];

    for (int len = 0; len < 50; len++)
        for (int at = 0; at < len; at++) {
            int end = snprintf(text, sizeof(text), "{\"x\":\"%.*s\",\"y\":\"\t\"}", len,
                               "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
            ef_str whole = {text, (size_t)end};
            CHECK_INT(FOUND, look_for_x(whole)); /* text after it is ignored */
            text[6 + at] = '\t';
            CHECK_INT(FAILED, look_for_x(whole));
            text[6 + at] = '\xff';
            CHECK_INT(FAILED, look_for_x(whole));
        }
}

TEST_MAIN(TEST_CASE(a_peek_finds_an_invalid_byte_at_every_offset),
          TEST_CASE(a_peek_finds_the_same_fields_as_the_strict_parser),
          TEST_CASE(a_peek_leaves_unexpected_text_to_the_strict_parser),
          TEST_CASE(a_peek_parses_the_member_that_is_needed_strictly),
          TEST_CASE(a_peek_does_not_confuse_keys_of_the_previous_event),
          TEST_CASE(a_peek_with_known_keys_stops_at_the_end_of_any_cut_text),
          TEST_CASE(a_peek_leaves_a_key_with_an_escape_to_the_strict_parser),
          TEST_CASE(a_peek_stops_at_the_end_of_any_cut_text))
