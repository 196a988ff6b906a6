/*
 * test_same.c - whether two names are the same: at every length, and whichever byte differs.
 */
#include "test.h"

#include "../../src/base/same.h"

TEST(different_names_are_never_equal)
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
        b[len] ^= 0x20; /* the byte after them does not count */
        CHECK(ef__bytes_same(a, b, len));
        b[len] ^= 0x20;
    }
}

TEST(empty_names_are_equal)
{
    CHECK(ef__str_same((ef_str){NULL, 0}, (ef_str){"", 0}));
}

TEST_MAIN(TEST_CASE(different_names_are_never_equal), TEST_CASE(empty_names_are_equal))
