/*
 * test_buf.c - buffers that grow to a maximum and then fail for good.
 */
#include "test.h"

#include "../../src/base/buf.h"

#include <inttypes.h>

TEST(buffer_additions_are_in_order_and_end_with_a_nul)
{
    ef__buf buf = EF__BUF_INIT(1000);

    CHECK(ef__buf_add_text(&buf, "seq"));
    CHECK(ef__buf_add_char(&buf, '='));
    CHECK(ef__buf_printf(&buf, "%" PRId64, INT64_C(42)));
    CHECK(ef__buf_add_str(&buf, EF_STR(" ok")));
    CHECK(ef__buf_add(&buf, "\0x", 2));
    CHECK_INT(11, buf.len);
    assert_memory_equal("seq=42 ok\0x", buf.ptr, 12);
    CHECK_INT(11, ef__buf_str(&buf).len);
    ef__buf_release(&buf);
}

TEST(adding_nothing_to_a_buffer_results_in_the_empty_text)
{
    ef__buf buf = EF__BUF_INIT(0);

    CHECK(ef__buf_add_str(&buf, (ef_str){NULL, 0}));
    CHECK_TEXT("", buf.ptr);
    CHECK(ef__buf_printf(&buf, "%s", ""));
    CHECK_TEXT("", buf.ptr);
    CHECK(!ef__buf_add_char(&buf, 'x'));
    ef__buf_release(&buf);
}

TEST(a_buffer_accepts_exactly_its_maximum)
{
    for (size_t max = 0; max < 300; max++) {
        ef__buf buf = EF__BUF_INIT(max);
        for (size_t i = 0; i < max; i++)
            CHECK(ef__buf_add_char(&buf, 'x'));
        CHECK(!ef__buf_add_char(&buf, 'y'));
        CHECK(buf.failed);
        CHECK_INT(max, buf.len);
        CHECK(max == 0 || strlen(buf.ptr) == max);
        ef__buf_release(&buf);
    }
}

TEST(a_failed_buffer_keeps_its_content_and_ignores_additions)
{
    ef__buf buf = EF__BUF_INIT(5);

    CHECK(ef__buf_add_text(&buf, "abc"));
    CHECK(!ef__buf_add_text(&buf, "def"));
    CHECK(!ef__buf_add_char(&buf, 'g'));
    CHECK(!ef__buf_printf(&buf, "h"));
    CHECK(!ef__buf_reserve(&buf, 0));
    CHECK_STR("abc", ef__buf_str(&buf));
    ef__buf_release(&buf);
}

TEST(different_names_are_different_subject_tokens)
{
    static const char *const names[] = {"", "_", "%5F", "a.b", "a*>", "\xc3\xa9 ", "__"};
    static const char *const tokens[] = {"_",       "%5F",       "%255F", "a%2Eb",
                                         "a%2A%3E", "%C3%A9%20", "__"};
    ef__buf buf = EF__BUF_INIT(100);

    for (size_t i = 0; i < 7; i++) {
        ef__buf_reset(&buf);
        CHECK(ef__buf_add_token(&buf, ef_str_from(names[i])));
        CHECK_TEXT(tokens[i], buf.ptr);
    }
    ef__buf_release(&buf);
}

TEST(buffer_reset_clears_a_failure_and_keeps_the_memory)
{
    ef__buf buf = EF__BUF_INIT(5);

    CHECK(ef__buf_add_text(&buf, "abc"));
    CHECK(!ef__buf_add_text(&buf, "def"));
    char *ptr = buf.ptr;
    ef__buf_reset(&buf);
    CHECK(!buf.failed);
    CHECK_TEXT("", buf.ptr);
    CHECK(ef__buf_add_text(&buf, "12345"));
    assert_ptr_equal(ptr, buf.ptr);
    CHECK_STR("12345", ef__buf_str(&buf));
    ef__buf_release(&buf);
}

TEST(printf_of_every_length_grows_the_buffer_as_needed)
{
    for (int width = 0; width < 300; width++) {
        ef__buf buf = EF__BUF_INIT(1000);
        CHECK(ef__buf_add_text(&buf, "12345"));
        CHECK(ef__buf_printf(&buf, "%*s", width, ""));
        CHECK_INT(5 + width, buf.len);
        CHECK_INT(5 + width, strlen(buf.ptr));
        ef__buf_release(&buf);
    }
}

TEST(buffer_printf_past_the_maximum_adds_nothing)
{
    ef__buf buf = EF__BUF_INIT(100);

    CHECK(ef__buf_add_text(&buf, "abc"));
    CHECK(!ef__buf_printf(&buf, "%98s", "x"));
    CHECK(buf.failed);
    CHECK_TEXT("abc", buf.ptr);
    ef__buf_reset(&buf);
    CHECK(ef__buf_printf(&buf, "%100s", "x"));
    CHECK_INT(100, buf.len);
    ef__buf_release(&buf);
}

TEST(buffer_reserve_makes_space_that_the_caller_adds_to_the_length)
{
    ef__buf buf = EF__BUF_INIT(10);

    CHECK(ef__buf_reserve(&buf, 10));
    memcpy(buf.ptr, "0123456789", 10);
    buf.len += 10;
    CHECK(ef__buf_add_text(&buf, ""));
    CHECK_TEXT("0123456789", buf.ptr);
    CHECK(!ef__buf_reserve(&buf, 1));
    ef__buf_release(&buf);
}

TEST(a_size_that_overflows_fails_the_buffer)
{
    ef__buf buf = EF__BUF_INIT(SIZE_MAX);

    CHECK(ef__buf_add_text(&buf, "abc"));
    CHECK(!ef__buf_reserve(&buf, SIZE_MAX - 2));
    CHECK_TEXT("abc", buf.ptr);
    ef__buf_reset(&buf);
    CHECK(!ef__buf_reserve(&buf, SIZE_MAX));
    ef__buf_reset(&buf);
    CHECK(ef__buf_add_text(&buf, "still works"));
    ef__buf_release(&buf);
}

TEST(a_released_buffer_is_empty_and_can_be_released_again)
{
    ef__buf buf = EF__BUF_INIT(100);

    CHECK(ef__buf_add_text(&buf, "abc"));
    ef__buf_release(&buf);
    assert_null(buf.ptr);
    CHECK_INT(0, buf.len);
    ef__buf_release(&buf);
    ef__buf_release(NULL);
    CHECK(ef__buf_add_text(&buf, "abc"));
    ef__buf_release(&buf);
}

TEST(whole_numbers_are_written_in_decimal)
{
    ef__buf buf = EF__BUF_INIT(100);

    CHECK(ef__buf_add_int(&buf, 0) && ef__buf_add_char(&buf, ' '));
    CHECK(ef__buf_add_int(&buf, -1) && ef__buf_add_char(&buf, ' '));
    CHECK(ef__buf_add_int(&buf, INT64_MAX) && ef__buf_add_char(&buf, ' '));
    CHECK(ef__buf_add_int(&buf, INT64_MIN));
    CHECK_TEXT("0 -1 9223372036854775807 -9223372036854775808", buf.ptr);
    ef__buf_release(&buf);
}

TEST_MAIN(TEST_CASE(buffer_additions_are_in_order_and_end_with_a_nul),
          TEST_CASE(adding_nothing_to_a_buffer_results_in_the_empty_text),
          TEST_CASE(a_buffer_accepts_exactly_its_maximum),
          TEST_CASE(a_failed_buffer_keeps_its_content_and_ignores_additions),
          TEST_CASE(different_names_are_different_subject_tokens),
          TEST_CASE(whole_numbers_are_written_in_decimal),
          TEST_CASE(buffer_reset_clears_a_failure_and_keeps_the_memory),
          TEST_CASE(printf_of_every_length_grows_the_buffer_as_needed),
          TEST_CASE(buffer_printf_past_the_maximum_adds_nothing),
          TEST_CASE(buffer_reserve_makes_space_that_the_caller_adds_to_the_length),
          TEST_CASE(a_size_that_overflows_fails_the_buffer),
          TEST_CASE(a_released_buffer_is_empty_and_can_be_released_again))
