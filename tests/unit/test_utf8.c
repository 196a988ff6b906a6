/*
 * test_utf8.c - compares the decoder with a model in the other direction: valid UTF-8 is what
 * encoding every code point results in.
 */
#include "test.h"

#include "../../src/base/limits.h"
#include "../../src/base/utf8.h"

#include <stdlib.h>

static ef_str str(const void *bytes, size_t len)
{
    return (ef_str){bytes, len};
}

/* One bit for each sequence of three bytes. */
static unsigned char *valid_threes;

static bool is_valid_three(uint32_t bytes)
{
    return valid_threes[bytes >> 3] >> (bytes & 7) & 1;
}

static bool is_valid_two(uint32_t bytes)
{
    if (bytes <= 0x7FFF && (bytes & 0x80) == 0)
        return true;
    return bytes >= 0xC280 && bytes <= 0xDFBF && (bytes & 0xC0) == 0x80;
}

static void mark_three(uint32_t bytes)
{
    valid_threes[bytes >> 3] |= (unsigned char)(1u << (bytes & 7));
}

/* Three bytes are one character of three, or one and two, or two and one. */
static void fill_model(void)
{
    valid_threes = calloc(1, (1u << 24) / 8);
    assert_non_null(valid_threes);
    for (uint32_t c = 0x800; c < 0x10000; c++)
        if (c < 0xD800 || c > 0xDFFF)
            mark_three((0xE0 | c >> 12) << 16 | (0x80 | (c >> 6 & 0x3F)) << 8 |
                       (0x80 | (c & 0x3F)));
    for (uint32_t one = 0; one < 0x80; one++)
        for (uint32_t two = 0; two < 0x10000; two++)
            if (is_valid_two(two)) {
                mark_three(one << 16 | two);
                mark_three(two << 8 | one);
            }
}

TEST(every_utf8_sequence_of_one_byte_is_classified)
{
    for (unsigned i = 0; i < 256; i++) {
        unsigned char byte = (unsigned char)i;
        CHECK_INT(i < 0x80, ef__utf8_valid(str(&byte, 1)));
    }
}

TEST(every_utf8_sequence_of_two_bytes_is_classified)
{
    size_t valid = 0;

    for (uint32_t i = 0; i < 0x10000; i++) {
        unsigned char bytes[2] = {(unsigned char)(i >> 8), (unsigned char)i};
        CHECK_INT(is_valid_two(i), ef__utf8_valid(str(bytes, 2)));
        valid += is_valid_two(i);
    }
    CHECK_INT(128 * 128 + 0x800 - 0x80, valid);
}

TEST(every_utf8_sequence_of_three_bytes_is_classified)
{
    fill_model();
    for (uint32_t i = 0; i < 1u << 24; i++) {
        unsigned char bytes[3] = {(unsigned char)(i >> 16), (unsigned char)(i >> 8),
                                  (unsigned char)i};
        if (is_valid_three(i) != ef__utf8_valid(str(bytes, 3)))
            fail_msg("bytes %06x are judged wrong", i);
    }
    free(valid_threes);
}

/* All first and second bytes, with third and fourth ones at the edges of what is allowed. */
TEST(utf8_sequences_of_four_bytes_are_classified)
{
    static const unsigned char edges[] = {0x00, 0x7F, 0x80, 0x9F, 0xBF, 0xC0, 0xFF};
    size_t n = sizeof(edges);

    for (uint32_t i = 0; i < 0x1000 * n * n; i++) {
        unsigned char b[4] = {(unsigned char)(0xF0 | (i / (n * n) >> 8)),
                              (unsigned char)(i / (n * n)), edges[i / n % n], edges[i % n]};
        uint32_t code = (b[0] & 7u) << 18 | (b[1] & 63u) << 12 | (b[2] & 63u) << 6 | (b[3] & 63u);
        bool valid = b[0] < 0xF8 && (b[1] & 0xC0) == 0x80 && (b[2] & 0xC0) == 0x80 &&
                     (b[3] & 0xC0) == 0x80 && code >= 0x10000 && code <= 0x10FFFF;
        if (valid != ef__utf8_valid(str(b, 4)))
            fail_msg("bytes %02x %02x %02x %02x are judged wrong", b[0], b[1], b[2], b[3]);
    }
}

TEST(an_invalid_byte_is_found_at_every_offset_of_a_text)
{
    for (size_t len = 1; len < 40; len++)
        for (size_t at = 0; at < len; at++) {
            char text[40];
            memset(text, 'a', sizeof(text));
            CHECK(ef__utf8_valid(str(text, len)));
            text[at] = '\xFF';
            CHECK(!ef__utf8_valid(str(text, len)));
        }
}

TEST(the_empty_text_is_valid)
{
    CHECK(ef__utf8_valid((ef_str){NULL, 0}));
    CHECK(ef__utf8_valid(EF_STR("")));
}

TEST(a_cut_never_splits_a_character)
{
    ef_str text = EF_STR("a\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80z"); /* 1, 2, 3, 4, 1 bytes */
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11};

    for (size_t max = 0; max < sizeof(expected) / sizeof(expected[0]); max++)
        CHECK_INT(expected[max], ef__utf8_cut(text, max).len);
}

TEST(invalid_utf8_can_be_cut_anywhere)
{
    ef_str text = EF_STR("\x80\x80\x80\x80\x80\x80\x80\x80");

    CHECK_INT(5, ef__utf8_cut(text, 5).len);
    CHECK_INT(8, ef__utf8_cut(text, 8).len);
}

TEST(a_name_has_a_shortest_and_a_longest_length)
{
    char text[EF_LIMIT_NAME_BYTES + 1];
    ef_error err = EF_ERROR_INIT;

    memset(text, 'n', sizeof(text));
    CHECK_STATUS(EF_OK, ef__name_check("stream", str(text, EF_LIMIT_NAME_BYTES), 1, false, &err),
                 &err);
    CHECK_STATUS(EF_TOO_LARGE, ef__name_check("stream", str(text, sizeof(text)), 1, false, &err),
                 &err);
    CHECK_TEXT("the stream has 256 bytes, at most 255 are allowed", err.text);
    CHECK_STATUS(EF_OK, ef__name_check("tenant", EF_STR(""), 0, false, &err), &err);
    CHECK_STATUS(EF_BAD_INPUT, ef__name_check("stream", EF_STR(""), 1, false, &err), &err);
    CHECK_TEXT("the stream is empty", err.text);
    CHECK_STATUS(EF_BAD_INPUT, ef__name_check("lane", EF_STR("a"), 2, false, NULL), NULL);
}

TEST(a_name_has_no_nul_and_is_utf8)
{
    CHECK_STATUS(EF_BAD_INPUT, ef__name_check("id", EF_STR("a\0b"), 1, false, NULL), NULL);
    CHECK_STATUS(EF_BAD_INPUT, ef__name_check("id", EF_STR("a\xC3"), 1, false, NULL), NULL);
    CHECK_STATUS(EF_OK, ef__name_check("id", EF_STR("a b\t\xC3\xA4"), 1, false, NULL), NULL);
}

TEST(a_type_has_no_white_space_and_no_control_character)
{
    static const char *const refused[] = {
        "a b",          "a\n",          "\ta",          "a\x1F",
        "a\x7F",        "a\xC2\x80",    "a\xC2\x85z",   "\xC2\xA0",
        "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x8A", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80",
    };
    ef_error err = EF_ERROR_INIT;

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        CHECK_STATUS(EF_BAD_INPUT, ef__name_check("type", ef_str_from(refused[i]), 1, true, &err),
                     &err);
    CHECK_STATUS(EF_OK,
                 ef__name_check("type", EF_STR("order.placed/\xC3\xA4\xE2\x82\xAC"), 1, true, &err),
                 &err);
    CHECK_STATUS(EF_BAD_INPUT, ef__name_check("type", EF_STR("ab\xC2\xA0"), 1, true, &err), &err);
    CHECK_TEXT("the type has a space or control character (U+00A0) at byte 2", err.text);
}

TEST_MAIN(TEST_CASE(every_utf8_sequence_of_one_byte_is_classified),
          TEST_CASE(every_utf8_sequence_of_two_bytes_is_classified),
          TEST_CASE(every_utf8_sequence_of_three_bytes_is_classified),
          TEST_CASE(utf8_sequences_of_four_bytes_are_classified),
          TEST_CASE(an_invalid_byte_is_found_at_every_offset_of_a_text),
          TEST_CASE(the_empty_text_is_valid), TEST_CASE(a_cut_never_splits_a_character),
          TEST_CASE(invalid_utf8_can_be_cut_anywhere),
          TEST_CASE(a_name_has_a_shortest_and_a_longest_length),
          TEST_CASE(a_name_has_no_nul_and_is_utf8),
          TEST_CASE(a_type_has_no_white_space_and_no_control_character))
