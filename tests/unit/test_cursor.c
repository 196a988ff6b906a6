/*
 * test_cursor.c - cursors come back as they went, and nothing else is one.
 */
#include "test.h"

#include "../../src/base/cursor.h"

static const int64_t numbers[] = {0,   1,         -1,        42,        INT64_MAX,
                                  255, INT64_MIN, 1LL << 53, 1LL << 62, -123456789};
enum { NUMBER_COUNT = sizeof(numbers) / sizeof(numbers[0]) };

TEST(a_cursor_returns_every_pair_of_numbers)
{
    for (int i = 0; i < NUMBER_COUNT; i++) {
        for (int j = 0; j < NUMBER_COUNT; j++) {
            char text[EF_CURSOR_MAX];
            int64_t a = 7, b = 7;
            ef_error err = EF_ERROR_INIT;

            ef__cursor_format('s', numbers[i], numbers[j], text);
            CHECK_STATUS(EF_OK, ef__cursor_parse('s', ef_str_from(text), &a, &b, &err), &err);
            CHECK(a == numbers[i]);
            CHECK(b == numbers[j]);
        }
    }
}

TEST(a_cursor_has_letters_digits_minus_and_underscore_only)
{
    char text[EF_CURSOR_MAX];

    ef__cursor_format('Z', INT64_MIN, INT64_MAX, text);
    CHECK_INT(strlen(text), strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789-_"));
}

TEST(an_empty_cursor_is_the_start_of_a_list)
{
    int64_t a = 7, b = 7;

    CHECK_INT(EF_OK, ef__cursor_parse('s', (ef_str){NULL, 0}, &a, &b, NULL));
    CHECK_INT(0, a);
    CHECK_INT(0, b);
}

TEST(a_cursor_of_another_kind_is_refused)
{
    char text[EF_CURSOR_MAX];
    int64_t a, b;
    ef_error err = EF_ERROR_INIT;

    ef__cursor_format('s', 1, 2, text);
    CHECK_STATUS(EF_BAD_INPUT, ef__cursor_parse('t', ef_str_from(text), &a, &b, &err), &err);
    text[0] = 't';
    CHECK_STATUS(EF_BAD_INPUT, ef__cursor_parse('t', ef_str_from(text), &a, &b, &err), &err);
    assert_non_null(strstr(err.text, text));
}

TEST(every_change_of_one_byte_is_refused)
{
    char text[EF_CURSOR_MAX];
    int64_t a = 7, b = 7;

    ef__cursor_format('s', 123456789, -987654321, text);
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        char right = text[i];
        for (int wrong = 0; wrong < 256; wrong++) {
            if ((char)wrong == right)
                continue;
            text[i] = (char)wrong;
            CHECK_INT(EF_BAD_INPUT, ef__cursor_parse('s', (ef_str){text, len}, &a, &b, NULL));
        }
        text[i] = right;
    }
    CHECK_INT(7, a);
    CHECK_INT(7, b);
}

TEST(a_cursor_that_is_cut_or_longer_is_refused)
{
    char text[EF_CURSOR_MAX + 1] = {0};
    int64_t a, b;

    ef__cursor_format('s', 1, 2, text);
    size_t len = strlen(text);
    for (size_t cut = 1; cut < len; cut++)
        CHECK_INT(EF_BAD_INPUT, ef__cursor_parse('s', (ef_str){text, cut}, &a, &b, NULL));
    text[len] = '0';
    CHECK_INT(EF_BAD_INPUT, ef__cursor_parse('s', (ef_str){text, len + 1}, &a, &b, NULL));
}

TEST_MAIN(TEST_CASE(a_cursor_returns_every_pair_of_numbers),
          TEST_CASE(a_cursor_has_letters_digits_minus_and_underscore_only),
          TEST_CASE(an_empty_cursor_is_the_start_of_a_list),
          TEST_CASE(a_cursor_of_another_kind_is_refused),
          TEST_CASE(every_change_of_one_byte_is_refused),
          TEST_CASE(a_cursor_that_is_cut_or_longer_is_refused))
