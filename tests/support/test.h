/*
 * test.h - how a test reads here, on top of cmocka.
 *
 *     TEST(append_is_refused_when_the_expected_seq_is_stale)
 *     {
 *         CHECK_STATUS(EF_CONFLICT, ef_journal_append(…, &err), &err);
 *     }
 *     TEST_MAIN(TEST_CASE(append_is_refused_when_the_expected_seq_is_stale), …)
 *
 * A test's name is a sentence that is true when it passes.
 */
#ifndef EF_TEST_H
#define EF_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <everfold/run.h>
#include <everfold/status.h>
#include <everfold/str.h>

#include <stdio.h>
#include <string.h>

#define TEST(name) static void name(__attribute__((unused)) void **state)
#define TEST_CASE(name) cmocka_unit_test(name)
#define TEST_MAIN(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#define CHECK(condition) assert_true(condition)
#define CHECK_INT(expected, actual) assert_int_equal((expected), (actual))
#define CHECK_TEXT(expected, actual) assert_string_equal((expected), (actual))
#define CHECK_STR(expected, actual)                                                                \
    do {                                                                                           \
        ef_str check_s = (actual);                                                                 \
        assert_int_equal(strlen(expected), check_s.len);                                           \
        assert_memory_equal((expected), check_s.len ? check_s.ptr : "", check_s.len);              \
    } while (0)
static inline ef_status test_run_read(ef_journal *journal, const char *id, ef_run_list *out,
                                      ef_error *err)
{
    ef_str wanted = ef_str_from(id);

    return ef_run_ls(journal, &(ef_run_query){.id = &wanted}, out, err);
}

#define CHECK_STATUS(expected, call, err)                                                          \
    do {                                                                                           \
        ef_status check_st = (call);                                                               \
        const ef_error *check_err = (err);                                                         \
        if (check_st != (expected))                                                                \
            print_error("%s: %s, not %s: %s\n", #call, ef_status_describe(check_st)->name,         \
                        #expected, check_err ? check_err->text : "");                              \
        assert_int_equal((expected), check_st);                                                    \
    } while (0)

#endif
