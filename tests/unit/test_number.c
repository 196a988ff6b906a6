/*
 * test_number.c - exact numbers: all small ones against integer arithmetic, large ones against
 * known results, and laws that must hold for random ones.
 */
#include "test.h"

#include "../../src/base/number.h"

#define NINES_38 "99999999999999999999999999999999999999"
#define POWER_37 "10000000000000000000000000000000000000"

static uint64_t seed;

static uint64_t next_random(void)
{
    uint64_t x = seed += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static ef__number number(const char *text)
{
    ef__number n = {0, 0};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__number_parse(ef_str_from(text), &n, &err), &err);
    return n;
}

static void check_number(const char *expected, ef__number n)
{
    ef__buf buf = EF__BUF_INIT(100);

    CHECK(ef__number_format(&n, &buf));
    CHECK_TEXT(expected, buf.ptr);
    ef__buf_release(&buf);
}

typedef ef_status (*operation)(const ef__number *a, const ef__number *b, ef__number *out,
                               ef_error *err);

/* `expected` is the text of the result, or NULL for EF_TOO_LARGE. */
static void check_result(const char *expected, operation run, const char *left, const char *right)
{
    ef__number a = number(left);
    ef__number b = number(right);
    ef__number out = {7, 7};
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(expected ? EF_OK : EF_TOO_LARGE, run(&a, &b, &out, &err), &err);
    if (expected)
        check_number(expected, out);
}

static void check_same(ef__number a, ef__number b)
{
    CHECK(a.coefficient == b.coefficient);
    CHECK_INT(a.scale, b.scale);
}

/* 1 to 38 digits, any scale: what parsing could give. */
static ef__number random_number(void)
{
    char text[64];
    size_t digits = 1 + next_random() % 38;
    size_t len = 0;

    if (next_random() % 2)
        text[len++] = '-';
    text[len++] = (char)('1' + next_random() % 9);
    for (size_t i = 1; i < digits; i++)
        text[len++] = (char)(next_random() % 3 ? '0' + next_random() % 10 : '0');
    len += (size_t)snprintf(text + len, sizeof(text) - len, "e-%d", (int)(next_random() % 39));
    text[len] = '\0';
    return number(text);
}

TEST(parsing_reads_every_form_and_formatting_writes_the_plain_one)
{
    static const char *const pairs[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-0.000e5", "0"},
        {"0e-999", "0"},
        {"0e999", "0"},
        {"7", "7"},
        {"-7", "-7"},
        {"1.50", "1.5"},
        {"1000e-3", "1"},
        {"1.000", "1"},
        {"1200e-4", "0.12"},
        {"-0.05", "-0.05"},
        {"1E+2", "100"},
        {"1e2", "100"},
        {"12.5e1", "125"},
        {"1e37", POWER_37},
        {"1e-38", "0.00000000000000000000000000000000000001"},
        {NINES_38, NINES_38},
        {"-" NINES_38, "-" NINES_38},
        {"0." NINES_38, "0." NINES_38},
        {"9." NINES_38 "e-0", NULL},
        {"1e38", NULL},
        {"1e-39", NULL},
        {"0.000000000000000000000000000000000000001", NULL},
        {"1" NINES_38, NULL},
        {"340282366920938463463374607431768211455", NULL},
        {"340282366920938463463374607431768211459", NULL},
        {"340282366920938463463374607431768211457000e-3", NULL},
        {"170141183460469231731687303715884105728", NULL},
        {"1e999", NULL},
        {"1e1000", NULL},
        {"0e1000", NULL},
        {"1000000000000000000000000000000000000000000000000e-20", "10000000000000000000000000000"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        ef__number n;
        ef_error err = EF_ERROR_INIT;
        CHECK_STATUS(pairs[i][1] ? EF_OK : EF_TOO_LARGE,
                     ef__number_parse(ef_str_from(pairs[i][0]), &n, &err), &err);
        if (pairs[i][1])
            check_number(pairs[i][1], n);
    }
}

TEST(a_text_that_is_not_a_json_number_is_refused)
{
    static const char *const texts[] = {"",    "-",        "+1",    "01",   "-01",  "00",
                                        ".5",  "1.",       "1.e",   "1e",   "1e+",  "1e-",
                                        "NaN", "Infinity", "1 ",    " 1",   "1x",   "0x10",
                                        "1,5", "--1",      "1.5.2", "1e5.", "1e5e", "\xEF\xBC\x91"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ef__number n;
        ef_error err = EF_ERROR_INIT;
        CHECK_STATUS(EF_BAD_JSON, ef__number_parse(ef_str_from(texts[i]), &n, &err), &err);
    }
    CHECK_STATUS(EF_BAD_JSON, ef__number_parse((ef_str){"1\0", 2}, &(ef__number){0, 0}, NULL),
                 NULL);
}

TEST(a_mistake_in_a_number_is_reported_with_its_location)
{
    ef__number n;
    ef_error err = EF_ERROR_INIT;

    ef__number_parse(EF_STR("1.x"), &n, &err);
    CHECK_TEXT("'1.x' is not a number: a digit after the point expected at byte 2", err.text);
    ef__number_parse(EF_STR("12x"), &n, &err);
    CHECK_TEXT("'12x' is not a number: the end expected at byte 2", err.text);
    ef__number_parse(EF_STR("1e1000"), &n, &err);
    CHECK_TEXT("1e1000: an exponent past 999", err.text);
}

TEST(small_numbers_add_subtract_multiply_and_compare_like_integers)
{
    for (int i = 0; i < 241 * 4 * 241 * 4; i++) {
        int x = i % 241 - 120;
        int sx = i / 241 % 4;
        int y = i / 964 % 241 - 120;
        int sy = i / 964 / 241;
        static const int unit[] = {1000, 100, 10, 1}; /* of 10^-3 */
        ef__number zero = {0, 0};
        ef__number a = {x, sx};
        ef__number b = {y, sy};
        ef__number out;
        ef__number model;
        /* Adding zero brings the operands to lowest terms. */
        assert_int_equal(EF_OK, ef__number_add(&a, &zero, &a, NULL));
        assert_int_equal(EF_OK, ef__number_add(&b, &zero, &b, NULL));
        int ax = x * unit[sx];
        int by = y * unit[sy];

        model = (ef__number){ax + by, 3};
        assert_int_equal(EF_OK, ef__number_add(&a, &b, &out, NULL));
        assert_int_equal(0, ef__number_compare(&model, &out));
        model = (ef__number){ax - by, 3};
        assert_int_equal(EF_OK, ef__number_sub(&a, &b, &out, NULL));
        assert_int_equal(0, ef__number_compare(&model, &out));
        model = (ef__number){(__int128)ax * by, 6};
        assert_int_equal(EF_OK, ef__number_mul(&a, &b, &out, NULL));
        assert_int_equal(0, ef__number_compare(&model, &out));
        assert_true(out.scale == 0 || out.coefficient % 10 != 0);
        assert_int_equal((ax > by) - (ax < by), ef__number_compare(&a, &b));
    }
}

/* The quotient c * 10^-s is right when it is exact, or as long as it may be and off by no more than
 * half of its last digit, which is even when it is exactly half. */
TEST(small_integers_divide_to_the_nearest_of_34_digits)
{
    __int128 shortest = 1;

    for (int i = 0; i < 33; i++)
        shortest *= 10;
    for (int i = 0; i < 241 * 241; i++) {
        ef__number a = {i % 241 - 120, 0};
        ef__number b = {i / 241 - 120, 0};
        ef__number q;
        if (b.coefficient == 0)
            continue;
        assert_int_equal(EF_OK, ef__number_div(&a, &b, &q, NULL));
        __int128 wanted = a.coefficient;
        for (int s = 0; s < q.scale; s++)
            wanted *= 10;
        __int128 off = 2 * (q.coefficient * b.coefficient - wanted);
        __int128 half = b.coefficient < 0 ? -b.coefficient : b.coefficient;
        off = off < 0 ? -off : off;
        if (off == 0)
            continue;
        __int128 size = q.coefficient < 0 ? -q.coefficient : q.coefficient;
        /* Rounding may leave a trailing zero, which lowest terms remove. */
        assert_true(size >= shortest / 1000);
        assert_true(off < half || (off == half && q.coefficient % 2 == 0));
    }
}

TEST(sums_and_differences_reach_38_digits_and_no_further)
{
    check_result("99999999999999999999999999999999999999", ef__number_add,
                 "99999999999999999999999999999999999998", "1");
    check_result(NULL, ef__number_add, NINES_38, "1");
    check_result(NULL, ef__number_sub, "-" NINES_38, "1");
    check_result("0", ef__number_sub, NINES_38, NINES_38);
    check_result("0", ef__number_add, "-" NINES_38, NINES_38);
    check_result(NULL, ef__number_add, NINES_38, NINES_38);
    check_result(NULL, ef__number_add, POWER_37, "0.5");
    check_result("9999999999999999999999999999999999999.5", ef__number_sub, POWER_37, "0.5");
    check_result("-9999999999999999999999999999999999999.5", ef__number_add, "0.5", "-" POWER_37);
    check_result(POWER_37, ef__number_add, "9999999999999999999999999999999999999.9", "0.1");
    check_result("5000000000000000000000000000000000000.5", ef__number_sub,
                 "15000000000000000000000000000000000000",
                 "9999999999999999999999999999999999999.5");
    check_result(NULL, ef__number_add, NINES_38, "1e-38");
    check_result("0.3", ef__number_add, "0.1", "0.2");
    check_result("1", ef__number_add, "0." NINES_38, "1e-38");
}

TEST(products_are_exact_or_refused)
{
    check_result("-0.02", ef__number_mul, "0.1", "-0.2");
    check_result("0", ef__number_mul, "0", "-" NINES_38);
    check_result("1", ef__number_mul, POWER_37, "1e-37");
    check_result("99999999999999999980000000000000000001", ef__number_mul, "9999999999999999999",
                 "9999999999999999999");
    check_result(NULL, ef__number_mul, "99999999999999999999", "99999999999999999999");
    check_result("0.00000000000000000000000000000000000001", ef__number_mul, "1e-19", "1e-19");
    check_result(NULL, ef__number_mul, "1e-19", "1e-20");
    check_result(NULL, ef__number_mul, NINES_38, NINES_38);
}

/* 2^126 * 10^-38 times 5^54 * 10^-16: 76 digits on the way, 22 at the end. */
TEST(a_product_fits_when_its_lowest_terms_do)
{
    check_result("4722366482869645213696", ef__number_mul,
                 "0.85070591730234615865843651857942052864",
                 "5551115123125782702118.1583404541015625");
    check_result("-4722366482869645213696", ef__number_mul,
                 "5551115123125782702118.1583404541015625",
                 "-0.85070591730234615865843651857942052864");
}

TEST(quotients_are_rounded_half_to_even_at_34_digits)
{
    check_result("0.125", ef__number_div, "1", "8");
    check_result("20", ef__number_div, "10", "0.5");
    check_result("0", ef__number_div, "0", "-3");
    check_result("0.3333333333333333333333333333333333", ef__number_div, "1", "3");
    check_result("-0.6666666666666666666666666666666667", ef__number_div, "-2", "3");
    check_result("12345678901234567890123456789012350000", ef__number_div,
                 "12345678901234567890123456789012345678", "1");
    check_result("10000000000000000000000000000000000", ef__number_div,
                 "10000000000000000000000000000000005", "1");
    check_result("10000000000000000000000000000000020", ef__number_div,
                 "10000000000000000000000000000000015", "1");
    check_result("10000000000000000000000000000000010", ef__number_div,
                 "20000000000000000000000000000000011", "2");
    check_result("1000000000000000000000000000000000", ef__number_div,
                 "2000000000000000000000000000000001", "2");
    check_result("1000000000000000000000000000000002", ef__number_div,
                 "2000000000000000000000000000000003", "2");
    check_result("1", ef__number_div, NINES_38, "99999999999999999999999999999999999998");
    check_result("1", ef__number_div, "99999999999999999999999999999999999998", NINES_38);
}

TEST(quotients_are_rounded_at_the_38th_decimal_where_that_comes_first)
{
    check_result("0.00000333333333333333333333333333333333", ef__number_div, "1", "300000");
    check_result("0.00000000000000000000000000000000000001", ef__number_div, "1", NINES_38);
    check_result("0.00000000000000000000000000000000000002", ef__number_div, "3e-38", "2");
    check_result("0.00000000000000000000000000000000000001", ef__number_div, "1e-38", "1.9");
    check_result("0", ef__number_div, "1e-38", "2");
}

TEST(a_quotient_that_is_too_large_is_refused_and_so_is_division_by_zero)
{
    ef__number one = number("1");
    ef__number zero = number("-0");
    ef__number out;

    check_result(POWER_37, ef__number_div, "1", "1e-37");
    check_result(NULL, ef__number_div, "1", "1e-38");
    check_result(NULL, ef__number_div, NINES_38, "1");
    CHECK_STATUS(EF_BAD_INPUT, ef__number_div(&one, &zero, &out, NULL), NULL);
    CHECK_STATUS(EF_BAD_INPUT, ef__number_div(&zero, &zero, &out, NULL), NULL);
}

TEST(an_overflow_names_both_numbers)
{
    ef__number a = number(NINES_38);
    ef__number b = number("0.5");
    ef__number out;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_TOO_LARGE, ef__number_add(&a, &b, &out, &err), &err);
    CHECK_TEXT(NINES_38 " + 0.5 has more than 38 digits or decimals", err.text);
}

TEST(comparing_needs_no_common_scale)
{
    static const char *const rising[] = {"-" NINES_38,
                                         "-" POWER_37,
                                         "-1.0000000000000000000000000000000000001",
                                         "-1",
                                         "-0." NINES_38,
                                         "-1e-38",
                                         "0",
                                         "1e-38",
                                         "2e-38",
                                         "0.1",
                                         "0." NINES_38,
                                         "1",
                                         "1.5",
                                         "9999999999999999999999999999999999999.9",
                                         POWER_37,
                                         NINES_38};
    int count = sizeof(rising) / sizeof(rising[0]);

    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            ef__number a = number(rising[i]);
            ef__number b = number(rising[j]);
            CHECK_INT((i > j) - (i < j), ef__number_compare(&a, &b));
        }
}

TEST(an_int64_survives_conversion)
{
    static const int64_t values[] = {0, 1, -1, 10, INT64_MAX, INT64_MIN};
    int64_t out = 5;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        ef__number n = ef__number_from_int64(values[i]);
        CHECK(ef__number_is_int64(&n, &out));
        CHECK(out == values[i]);
    }
    check_number("-9223372036854775808", ef__number_from_int64(INT64_MIN));
    ef__number past[] = {number("9223372036854775808"), number("-9223372036854775809"),
                         number("0.5")};
    for (size_t i = 0; i < 3; i++)
        CHECK(!ef__number_is_int64(&past[i], &out));
    ef__number whole = number("70e-1");
    CHECK(ef__number_is_int64(&whole, NULL));
}

TEST(a_random_number_survives_formatting_and_parsing)
{
    for (uint64_t i = 0; i < 20000; i++) {
        seed = i;
        ef__number n = random_number();
        ef__number again;
        ef__buf buf = EF__BUF_INIT(100);
        CHECK(ef__number_format(&n, &buf));
        if (ef__number_parse(ef__buf_str(&buf), &again, NULL) != EF_OK ||
            again.coefficient != n.coefficient || again.scale != n.scale)
            fail_msg("seed %d: %s", (int)i, buf.ptr);
        ef__buf_release(&buf);
    }
}

/* Up to 18 characters, most of them digits; few are a number. */
static void random_text(char out[20])
{
    static const char characters[] = "0123456789012345678900000.-";
    size_t len = next_random() % 19;

    for (size_t i = 0; i < len; i++)
        out[i] = characters[next_random() % (sizeof(characters) - 1)];
    out[len] = '\0';
}

/* With an exponent, or beside a large number, there is no short way. */
TEST(short_numbers_are_read_and_added_as_long_ones_are)
{
    const ef__number large = number("1e19");
    ef__number last = number("1");
    int read = 0;

    for (uint64_t i = 0; i < 200000; i++) {
        char text[20];
        char longer[24];
        ef__number n;
        ef__number same;
        seed = i;
        random_text(text);
        (void)snprintf(longer, sizeof(longer), "%se0", text);
        ef_status st = ef__number_parse(ef_str_from(text), &n, NULL);
        if (st != ef__number_parse(ef_str_from(longer), &same, NULL))
            fail_msg("seed %d: %s", (int)i, text);
        if (st != EF_OK)
            continue;
        read++;
        check_same(same, n);
        ef__number sum;
        CHECK_STATUS(EF_OK, ef__number_add(&last, &n, &sum, NULL), NULL);
        CHECK_STATUS(EF_OK, ef__number_add(&last, &large, &same, NULL), NULL);
        CHECK_STATUS(EF_OK, ef__number_add(&same, &n, &same, NULL), NULL);
        CHECK_STATUS(EF_OK, ef__number_sub(&same, &large, &same, NULL), NULL);
        check_same(same, sum);
        last = n;
    }
    CHECK(read > 10000);
}

TEST(the_order_of_a_sum_does_not_matter)
{
    int compared = 0;

    for (uint64_t i = 0; i < 50000; i++) {
        seed = i;
        ef__number a = random_number();
        ef__number b = random_number();
        ef__number c = random_number();
        ef__number ab;
        ef__number bc;
        if (ef__number_add(&a, &b, &ab, NULL) || ef__number_add(&b, &c, &bc, NULL) ||
            ef__number_add(&ab, &c, &ab, NULL) || ef__number_add(&a, &bc, &bc, NULL))
            continue;
        if (ef__number_compare(&ab, &bc) != 0)
            fail_msg("seed %d: (a + b) + c is not a + (b + c)", (int)i);
        check_same(ab, bc);
        compared++;
    }
    CHECK(compared > 1000);
}

TEST(a_difference_has_the_sign_that_comparing_says)
{
    int compared = 0;

    for (uint64_t i = 0; i < 50000; i++) {
        seed = i;
        ef__number a = random_number();
        ef__number b = random_number();
        ef__number d;
        if (ef__number_sub(&a, &b, &d, NULL) != EF_OK)
            continue;
        int sign = (d.coefficient > 0) - (d.coefficient < 0);
        if (sign != ef__number_compare(&a, &b) || sign != -ef__number_compare(&b, &a))
            fail_msg("seed %d", (int)i);
        compared++;
    }
    CHECK(compared > 1000);
}

TEST_MAIN(TEST_CASE(parsing_reads_every_form_and_formatting_writes_the_plain_one),
          TEST_CASE(a_text_that_is_not_a_json_number_is_refused),
          TEST_CASE(a_mistake_in_a_number_is_reported_with_its_location),
          TEST_CASE(small_numbers_add_subtract_multiply_and_compare_like_integers),
          TEST_CASE(small_integers_divide_to_the_nearest_of_34_digits),
          TEST_CASE(sums_and_differences_reach_38_digits_and_no_further),
          TEST_CASE(products_are_exact_or_refused),
          TEST_CASE(a_product_fits_when_its_lowest_terms_do),
          TEST_CASE(quotients_are_rounded_half_to_even_at_34_digits),
          TEST_CASE(quotients_are_rounded_at_the_38th_decimal_where_that_comes_first),
          TEST_CASE(a_quotient_that_is_too_large_is_refused_and_so_is_division_by_zero),
          TEST_CASE(an_overflow_names_both_numbers), TEST_CASE(comparing_needs_no_common_scale),
          TEST_CASE(an_int64_survives_conversion),
          TEST_CASE(a_random_number_survives_formatting_and_parsing),
          TEST_CASE(short_numbers_are_read_and_added_as_long_ones_are),
          TEST_CASE(the_order_of_a_sum_does_not_matter),
          TEST_CASE(a_difference_has_the_sign_that_comparing_says))
