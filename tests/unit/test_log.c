/*
 * test_log.c - one record, one line, whatever is in it.
 */
#include "test.h"

#include "../../src/base/json.h"
#include "../../src/base/logger.h"

#include <everfold/clock.h>

#define NOW_US INT64_C(1794821400000000)
#define TIME_TEXT "2026-11-16T09:30:00.000000Z"

static char out[EF_LOG_LINE_MAX];

static const char *line(ef_log_style style, const char *message, const ef_log_field *fields,
                        size_t count)
{
    memset(out, 'X', sizeof(out));
    uint64_t len = ef_log_line(style, NOW_US, EF_LOG_WARN, message, fields, count, out);
    CHECK(len < EF_LOG_LINE_MAX);
    CHECK_INT(len, strlen(out));
    assert_ptr_equal(out + len - 1, strchr(out, '\n')); /* the only one, at the end */
    if (style == EF_LOG_JSON) {
        ef_error err = EF_ERROR_INIT;
        ef__json_kind kind;
        CHECK_STATUS(EF_OK, ef__json_check((ef_str){out, (size_t)len}, len, &kind, &err), &err);
        CHECK_INT(EF__JSON_OBJECT, kind);
    }
    return out;
}

static const char *field_line(ef_log_style style, ef_str value)
{
    ef_log_field field = EF_LOG_TEXT_FIELD("v", value);

    return line(style, "m", &field, 1);
}

TEST(a_record_is_a_line_of_text)
{
    const ef_log_field fields[] = {EF_LOG_NUMBER_FIELD("pages", 12),
                                   EF_LOG_TEXT_FIELD("error", EF_STR("disk full"))};

    CHECK_TEXT(TIME_TEXT " warn checkpoint failed pages=12 error=\"disk full\"\n",
               line(EF_LOG_TEXT, "checkpoint failed", fields, 2));
}

TEST(a_record_is_a_line_of_json)
{
    const ef_log_field fields[] = {EF_LOG_NUMBER_FIELD("pages", INT64_MIN),
                                   EF_LOG_TEXT_FIELD("error", EF_STR("disk full"))};

    CHECK_TEXT("{\"time\":\"" TIME_TEXT "\",\"level\":\"warn\",\"message\":\"checkpoint failed\","
               "\"pages\":-9223372036854775808,\"error\":\"disk full\"}\n",
               line(EF_LOG_JSON, "checkpoint failed", fields, 2));
}

TEST(every_log_level_has_a_name)
{
    static const char *const words[] = {" debug m\n", " info m\n", " warn m\n", " error m\n"};

    for (int i = EF_LOG_DEBUG; i <= EF_LOG_ERROR; i++) {
        ef_log_line(EF_LOG_TEXT, NOW_US, (ef_log_level)i, "m", NULL, 0, out);
        CHECK_TEXT(words[i], out + strlen(TIME_TEXT));
    }
}

TEST(text_is_quoted_only_where_its_end_could_be_mistaken)
{
    CHECK_TEXT(TIME_TEXT " warn m v=order-1/é\n", field_line(EF_LOG_TEXT, EF_STR("order-1/é")));
    CHECK_TEXT(TIME_TEXT " warn m v=\"\"\n", field_line(EF_LOG_TEXT, EF_STR("")));
    CHECK_TEXT(TIME_TEXT " warn m v=\"a b\"\n", field_line(EF_LOG_TEXT, EF_STR("a b")));
    CHECK_TEXT(TIME_TEXT " warn m v=\"a=b\"\n", field_line(EF_LOG_TEXT, EF_STR("a=b")));
    CHECK_TEXT(TIME_TEXT " warn m v=\"a\\\"b\"\n", field_line(EF_LOG_TEXT, EF_STR("a\"b")));
    CHECK_TEXT(TIME_TEXT " warn m v=\"a\\\\b\"\n", field_line(EF_LOG_TEXT, EF_STR("a\\b")));
}

TEST(a_message_cannot_pass_for_a_field_or_a_line)
{
    CHECK_TEXT(TIME_TEXT " warn \"user=root\"\n", line(EF_LOG_TEXT, "user=root", NULL, 0));
    CHECK_TEXT(TIME_TEXT " warn \"a\\nb\"\n", line(EF_LOG_TEXT, "a\nb", NULL, 0));
    CHECK_TEXT(TIME_TEXT " warn \"\"\n", line(EF_LOG_TEXT, NULL, NULL, 0));
}

TEST(log_lines_escape_every_ascii_control_character)
{
    for (int c = 0; c < 128; c++) {
        char text[3] = {'a', (char)c, 'b'};
        for (int style = EF_LOG_TEXT; style <= EF_LOG_JSON; style++) {
            const char *shown = field_line((ef_log_style)style, (ef_str){text, 3});
            for (size_t i = 0; i < strlen(shown) - 1; i++)
                CHECK(shown[i] >= 0x20 && shown[i] != 0x7f);
        }
    }
    CHECK_TEXT(TIME_TEXT " warn m v=\"\\u0000\\n\\r\\t\\u001b\\u007f\"\n",
               field_line(EF_LOG_TEXT, EF_STR("\0\n\r\t\x1b\x7f")));
    assert_non_null(strstr(field_line(EF_LOG_JSON, EF_STR("\0\n\r\t\x1b\x7f")),
                           "\"v\":\"\\ufffd\\n\\r\\t\\u001b\\u007f\"}"));
}

TEST(log_lines_escape_direction_marks)
{
    static const uint16_t marks[] = {0x61c,  0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
                                     0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        unsigned m = marks[i];
        char text[4], escaped[8];
        int len = m < 0x800 ? snprintf(text, sizeof(text), "%c%c", 0xc0 | m >> 6, 0x80 | (m & 63))
                            : snprintf(text, sizeof(text), "%c%c%c", 0xe0 | m >> 12,
                                       0x80 | (m >> 6 & 63), 0x80 | (m & 63));
        snprintf(escaped, sizeof(escaped), "\\u%04x", m);
        for (int style = EF_LOG_TEXT; style <= EF_LOG_JSON; style++) {
            const char *shown = field_line((ef_log_style)style, (ef_str){text, (size_t)len});
            assert_non_null(strstr(shown, escaped));
            assert_null(strstr(shown, text));
        }
    }
}

TEST(log_lines_escape_invalid_utf8)
{
    ef_str bad = EF_STR("a\xff\xc3(\xed\xa0\x80");

    CHECK_TEXT(TIME_TEXT " warn m v=\"a\\xff\\xc3(\\xed\\xa0\\x80\"\n",
               field_line(EF_LOG_TEXT, bad));
    assert_non_null(
        strstr(field_line(EF_LOG_JSON, bad), "\"v\":\"a\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\"}"));
}

TEST(names_are_escaped_like_values)
{
    const ef_log_field field = EF_LOG_NUMBER_FIELD("a\" b", 1);

    CHECK_TEXT(TIME_TEXT " warn m \"a\\\" b\"=1\n", line(EF_LOG_TEXT, "m", &field, 1));
    assert_non_null(strstr(line(EF_LOG_JSON, "m", &field, 1), ",\"a\\\" b\":1}"));
}

static char filler[2 * EF_LOG_LINE_MAX];

static void fill(const char *with)
{
    size_t len = strlen(with);

    for (size_t i = 0; i < sizeof(filler); i++)
        filler[i] = with[i % len];
}

/* A value of every length around the maximum, of characters that take 1 to 6 bytes in the line, and
 * a field after it that may or may not fit. */
TEST(a_log_line_is_complete_or_marked_as_cut)
{
    static const struct {
        const char *text;
        size_t middle; /* about as many bytes of it fit into a line of JSON */
    } cases[] = {{"x", 3990}, {"é", 3990}, {"𝄞", 3990}, {"\n", 1990}, {"\x01", 650}, {"\xff", 650}};

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        fill(cases[c].text);
        for (size_t len = cases[c].middle - 150; len < cases[c].middle + 150; len++) {
            const ef_log_field fields[] = {EF_LOG_TEXT_FIELD("v", ((ef_str){filler, len})),
                                           EF_LOG_NUMBER_FIELD("last", 7)};
            const char *text = line(EF_LOG_TEXT, "m", fields, 2);
            bool whole = strstr(text, " last=7\n") != NULL;
            CHECK(whole != (strstr(text, " …\n") != NULL));
            const char *json = line(EF_LOG_JSON, "m", fields, 2);
            whole = strstr(json, "\"last\":7}\n") != NULL;
            CHECK(whole != (strstr(json, ",\"cut\":\"…\"}\n") != NULL));
            CHECK(whole || len != cases[c].middle - 150); /* the window holds both */
            CHECK(!whole || len != cases[c].middle + 149);
        }
    }
}

TEST(a_long_line_is_filled_before_it_is_cut)
{
    fill("x");
    CHECK(strlen(field_line(EF_LOG_TEXT, (ef_str){filler, 5000})) > EF_LOG_LINE_MAX - 20);
    CHECK(strlen(field_line(EF_LOG_JSON, (ef_str){filler, 5000})) > EF_LOG_LINE_MAX - 20);
    filler[sizeof(filler) - 1] = '\0';
    CHECK(strlen(line(EF_LOG_TEXT, filler, NULL, 0)) > EF_LOG_LINE_MAX - 20);
    CHECK(strlen(line(EF_LOG_JSON, filler, NULL, 0)) > EF_LOG_LINE_MAX - 20);
}

TEST(a_field_whose_name_does_not_fit_is_left_out)
{
    fill("n");
    filler[sizeof(filler) - 1] = '\0';
    const ef_log_field field = EF_LOG_NUMBER_FIELD(filler, 1);

    CHECK_TEXT(TIME_TEXT " warn m …\n", line(EF_LOG_TEXT, "m", &field, 1));
    assert_non_null(strstr(line(EF_LOG_JSON, "m", &field, 1), "\"message\":\"m\",\"cut\":\"…\"}"));
}

TEST(many_fields_fill_the_line_and_the_rest_is_cut)
{
    static char names[1000][8];
    static ef_log_field fields[1000];

    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof(names[i]), "f%d", i);
        fields[i] = EF_LOG_NUMBER_FIELD(names[i], i);
    }
    for (size_t count = 0; count < 1000; count += 7) {
        (void)line(EF_LOG_TEXT, "m", fields, count);
        (void)line(EF_LOG_JSON, "m", fields, count);
    }
    assert_non_null(strstr(line(EF_LOG_TEXT, "m", fields, 1000), " …\n"));
}

typedef struct seen {
    int count;
    ef_log_level level;
    uint64_t field_count;
    int64_t number;
} seen;

static void see(void *context, ef_log_level level, const char *message, const ef_log_field *fields,
                uint64_t field_count)
{
    seen *s = context;

    (void)message;
    s->count++;
    s->level = level;
    s->field_count = field_count;
    s->number = fields[0].number;
}

TEST(records_below_the_minimum_level_are_not_logged)
{
    seen s = {0};
    const ef_log log = {EF_LOG_WARN, see, &s};

    ef__log(&log, EF_LOG_INFO, "quiet", EF_LOG_NUMBER_FIELD("n", 1));
    CHECK_INT(0, s.count);
    ef__log(&log, EF_LOG_WARN, "heard", EF_LOG_NUMBER_FIELD("n", 2), EF_LOG_NUMBER_FIELD("m", 3));
    CHECK_INT(1, s.count);
    CHECK_INT(2, s.field_count);
    CHECK_INT(2, s.number);
    const ef_log *none = NULL;
    ef__log(none, EF_LOG_ERROR, "nobody", EF_LOG_NUMBER_FIELD("n", 4));
    CHECK_INT(1, s.count);
}

TEST_MAIN(TEST_CASE(a_record_is_a_line_of_text), TEST_CASE(a_record_is_a_line_of_json),
          TEST_CASE(every_log_level_has_a_name),
          TEST_CASE(text_is_quoted_only_where_its_end_could_be_mistaken),
          TEST_CASE(a_message_cannot_pass_for_a_field_or_a_line),
          TEST_CASE(log_lines_escape_every_ascii_control_character),
          TEST_CASE(log_lines_escape_direction_marks), TEST_CASE(log_lines_escape_invalid_utf8),
          TEST_CASE(names_are_escaped_like_values),
          TEST_CASE(a_log_line_is_complete_or_marked_as_cut),
          TEST_CASE(a_long_line_is_filled_before_it_is_cut),
          TEST_CASE(a_field_whose_name_does_not_fit_is_left_out),
          TEST_CASE(many_fields_fill_the_line_and_the_rest_is_cut),
          TEST_CASE(records_below_the_minimum_level_are_not_logged))
