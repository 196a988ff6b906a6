/*
 * test_status.c - the table of statuses, and the text of an error whatever is put into it.
 */
#include "test.h"

#include "../../src/base/utf8.h"

#include <inttypes.h>

TEST(every_status_has_a_name_a_code_and_a_message)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++) {
        ef_status status = (ef_status)i;
        CHECK(strncmp(ef_status_describe(status)->name, "EF_", 3) == 0);
        CHECK(strlen(ef_status_describe(status)->code) >= 2);
        CHECK(strlen(ef_status_describe(status)->message) >= 2);
    }
}

TEST(no_two_statuses_share_a_name_a_code_or_a_message)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++) {
        for (int j = 0; j < i; j++) {
            ef_status a = (ef_status)i, b = (ef_status)j;
            CHECK(strcmp(ef_status_describe(a)->name, ef_status_describe(b)->name) != 0);
            CHECK(strcmp(ef_status_describe(a)->code, ef_status_describe(b)->code) != 0);
            CHECK(strcmp(ef_status_describe(a)->message, ef_status_describe(b)->message) != 0);
        }
    }
}

TEST(codes_are_small_letters_and_underscores)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++) {
        const char *code = ef_status_describe((ef_status)i)->code;
        CHECK_INT(strlen(code), strspn(code, "abcdefghijklmnopqrstuvwxyz_"));
    }
}

TEST(only_ok_exits_with_0_and_all_exit_codes_are_documented_ones)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++) {
        int code = ef_status_describe((ef_status)i)->exit_code;
        CHECK((code == 0) == (i == EF_OK));
        CHECK(code >= 0 && code <= 6);
    }
}

TEST(only_ok_is_a_success_in_http)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++) {
        int http = ef_status_describe((ef_status)i)->http;
        CHECK((http < 300) == (i == EF_OK));
        CHECK(http >= 200 && http < 600);
    }
}

TEST(only_ok_lets_the_caller_continue)
{
    for (int i = 0; i < EF_STATUS_COUNT; i++)
        CHECK((ef_status_describe((ef_status)i)->next == EF_NEXT_CONTINUE) == (i == EF_OK));
}

TEST(a_row_of_the_table_reads_as_it_is_written)
{
    CHECK_TEXT("EF_LEASE_LOST", ef_status_describe(EF_LEASE_LOST)->name);
    CHECK_TEXT("lease_lost", ef_status_describe(EF_LEASE_LOST)->code);
    CHECK_TEXT("lease lost", ef_status_describe(EF_LEASE_LOST)->message);
    CHECK_INT(EF_NEXT_ABANDON, ef_status_describe(EF_LEASE_LOST)->next);
    CHECK_INT(4, ef_status_describe(EF_LEASE_LOST)->exit_code);
    CHECK_INT(409, ef_status_describe(EF_LEASE_LOST)->http);
}

TEST(a_status_that_is_not_in_the_table_stops_the_caller)
{
    CHECK_TEXT("unknown", ef_status_describe(EF_STATUS_COUNT)->code);
    CHECK_INT(EF_NEXT_STOP, ef_status_describe((ef_status)-1)->next);
    CHECK_INT(1, ef_status_describe((ef_status)1000)->exit_code);
}

TEST(fail_returns_the_status_and_fills_in_the_error)
{
    ef_error err = {.has_numbers = true, .asked = 7, .found = 8};

    CHECK_INT(EF_BAD_INPUT, ef_fail(&err, EF_BAD_INPUT, "lease_ms is %" PRId64, INT64_C(-5)));
    CHECK_INT(EF_BAD_INPUT, err.status);
    CHECK_TEXT("lease_ms is -5", err.text);
    CHECK(!err.has_numbers);
    CHECK_INT(0, err.asked);
    CHECK_INT(0, err.found);
}

TEST(fail_numbers_keeps_what_was_asked_and_found)
{
    ef_error err = EF_ERROR_INIT;

    CHECK_INT(EF_CONFLICT, ef_fail_numbers(&err, EF_CONFLICT, 3, 5, "at %d, not %d", 5, 3));
    CHECK(err.has_numbers);
    CHECK_INT(3, err.asked);
    CHECK_INT(5, err.found);
    CHECK_TEXT("at 5, not 3", err.text);
}

TEST(fail_without_an_error_returns_the_status)
{
    CHECK_INT(EF_BUSY, ef_fail(NULL, EF_BUSY, "%s", "nobody reads this"));
    CHECK_INT(EF_BUSY, ef_fail_numbers(NULL, EF_BUSY, 1, 2, "%s", "nobody reads this"));
}

TEST(a_message_may_quote_the_message_it_replaces)
{
    ef_error err = EF_ERROR_INIT;

    ef_fail(&err, EF_IO, "no such file");
    ef_fail(&err, EF_NOT_FOUND, "journal.db: %s (%s)", err.text, err.text);
    CHECK_TEXT("journal.db: no such file (no such file)", err.text);
}

TEST(a_message_of_the_longest_length_is_kept_whole)
{
    ef_error err = EF_ERROR_INIT;
    char text[EF_ERROR_TEXT_MAX];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    ef_fail(&err, EF_IO, "%s", text);
    CHECK_TEXT(text, err.text);
}

/* Characters of each length, pushed along byte by byte so that the cut falls on every byte of one.
 */
TEST(a_long_message_is_cut_at_the_end_of_a_character)
{
    static const char *const characters[] = {"x", "é", "…", "𝄞"};

    for (size_t c = 0; c < 4; c++) {
        size_t bytes = strlen(characters[c]);
        for (int pushed = 0; pushed < 8; pushed++) {
            ef_error err = EF_ERROR_INIT;
            char text[2 * EF_ERROR_TEXT_MAX] = {0};
            for (size_t at = 0; at + bytes < sizeof(text); at += bytes)
                memcpy(text + at, characters[c], bytes);

            ef_fail(&err, EF_IO, "%.*s%s", pushed, "aaaaaaaa", text);

            size_t len = strlen(err.text);
            CHECK(len < EF_ERROR_TEXT_MAX);
            CHECK(len > EF_ERROR_TEXT_MAX - 1 - bytes); /* no more was cut than had to be */
            CHECK_TEXT("…", err.text + len - 3);
            CHECK(ef__utf8_valid(ef_str_from(err.text)));
            CHECK_INT(0, (len - 3 - (size_t)pushed) % bytes);
            CHECK(strchr(err.text, '?') == NULL);
        }
    }
}

TEST(invalid_utf8_in_a_message_becomes_question_marks)
{
    ef_error err = EF_ERROR_INIT;

    ef_fail(&err, EF_BAD_INPUT, "stream \"%s\"",
            "a\xff"
            "b\xc3(\xed\xa0\x80\xf0\x9f\x98");
    CHECK_TEXT("stream \"a?b?(??????\"", err.text);
    CHECK(ef__utf8_valid(ef_str_from(err.text)));
}

TEST(control_characters_and_direction_marks_in_a_message_become_question_marks)
{
    ef_error err = EF_ERROR_INIT;

    ef_fail(&err, EF_BAD_INPUT,
            "a\x1b[2J\x7f"
            "b\r\u202e\u2066\u200f\xc2\x85");
    CHECK_TEXT("a?[2J?b??????????"
               "??",
               err.text);
}

TEST(line_breaks_and_tabs_in_a_message_stay)
{
    ef_error err = EF_ERROR_INIT;

    ef_fail(&err, EF_BAD_INPUT, "line 3:\n\ttotal += \n\t         ^");
    CHECK_TEXT("line 3:\n\ttotal += \n\t         ^", err.text);
}

TEST_MAIN(TEST_CASE(every_status_has_a_name_a_code_and_a_message),
          TEST_CASE(no_two_statuses_share_a_name_a_code_or_a_message),
          TEST_CASE(codes_are_small_letters_and_underscores),
          TEST_CASE(only_ok_exits_with_0_and_all_exit_codes_are_documented_ones),
          TEST_CASE(only_ok_is_a_success_in_http), TEST_CASE(only_ok_lets_the_caller_continue),
          TEST_CASE(a_row_of_the_table_reads_as_it_is_written),
          TEST_CASE(a_status_that_is_not_in_the_table_stops_the_caller),
          TEST_CASE(fail_returns_the_status_and_fills_in_the_error),
          TEST_CASE(fail_numbers_keeps_what_was_asked_and_found),
          TEST_CASE(fail_without_an_error_returns_the_status),
          TEST_CASE(a_message_may_quote_the_message_it_replaces),
          TEST_CASE(a_message_of_the_longest_length_is_kept_whole),
          TEST_CASE(a_long_message_is_cut_at_the_end_of_a_character),
          TEST_CASE(invalid_utf8_in_a_message_becomes_question_marks),
          TEST_CASE(control_characters_and_direction_marks_in_a_message_become_question_marks),
          TEST_CASE(line_breaks_and_tabs_in_a_message_stay))
