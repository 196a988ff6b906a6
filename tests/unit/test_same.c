/*
 * test_same.c - whether two names are the same: at every length, and whichever byte differs.
 */
#include "test.h"

#include "../../src/base/same.h"

TEST(names_differ_in_any_byte_or_in_their_length)
{
    char a[64], b[64];

    for (size_t i = 0; i < sizeof a; i++)
        a[i] = b[i] = (char)('a' + i % 23);
    for (size_t len = 0; len <= 40; len++) {
        CHECK(ef__str_same((ef_str){a, len}, (ef_str){b, len}));
        CHECK(!ef__str_same((ef_str){a, len}, (ef_str){b, len + 1}));
        for (size_t i = 0; i < len; i++) {
            b[i] ^= 0x20;
            CHECK(!ef__bytes_same(a, b, len));
            b[i] ^= 0x20;
        }
        b[len] ^= 0x20; /* the byte behind them does not matter */
        CHECK(ef__bytes_same(a, b, len));
        b[len] ^= 0x20;
    }
}

TEST(nothing_is_the_same_as_nothing)
{
    CHECK(ef__str_same((ef_str){NULL, 0}, (ef_str){"", 0}));
}

TEST_MAIN(TEST_CASE(names_differ_in_any_byte_or_in_their_length),
          TEST_CASE(nothing_is_the_same_as_nothing))
