/*
 * test_changes.c - following a projection: what is told, and what waits behind an event that fails.
 */
#include "engine_fixture.h"

#include <stdio.h>

static fixture *start(void **state)
{
    static fixture f;

    (void)state;
    fixture_open(&f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&f, SUMS);
    drain(&f);
    return &f;
}

/* One step; the ids of the views that it told, in a line. */
static const char *told(fixture *f, ef_view_place *place, size_t limit)
{
    static char line[2048];
    ef_view_list found = {0};
    size_t at = 0;

    line[0] = '\0';
    OK(ef_view_changes(f->engine,
                       &(ef_view_changes_query){.projection = EF_STR("sums"), .limit = limit},
                       place, &found, &f->err));
    for (size_t i = 0; i < found.count; i++)
        at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%.*s", i ? " " : "",
                               EF_STR_ARG(found.items[i].view_id));
    ef_view_list_release(&found);
    return line;
}

static const char *text_of(const ef_view_place *place)
{
    static char text[EF_VIEW_PLACE_MAX];

    ef_view_place_format(place, text);
    return text;
}

static void pass_over(fixture *f, const char *stream, int64_t seq)
{
    ef_row_list rows = {0};

    OK(ef_outbox_skip(f->journal,
                      &(ef_outbox_act){.stream = ef_str_from(stream),
                                       .seq = seq,
                                       .lane = EF_STR("sums"),
                                       .who = EF_STR("ana"),
                                       .reason = EF_STR("a test"),
                                       .versions = (const int32_t[]){1},
                                       .version_count = 1},
                      &rows, &f->err));
    ef_row_list_release(&rows);
    drain(f);
}

TEST(what_fails_holds_up_its_own_stream_only)
{
    fixture *f = start(state);
    ef_view_place place = {0};

    append(f, "s", "added", "{\"of\":\"a\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"b\",\"good\":0}");
    append(f, "s", "added", "{\"of\":\"c\",\"good\":1}");
    append(f, "t", "added", "{\"of\":\"d\",\"good\":1}");
    drain(f);
    CHECK_TEXT("a d", told(f, &place, 100));
    CHECK_TEXT("4;2", text_of(&place));
    CHECK_INT(1, ef_view_place_as_of(&place));
    CHECK_TEXT("", told(f, &place, 100));

    append(f, "s", "added", "{\"of\":\"e\",\"good\":1}");
    append(f, "t", "added", "{\"of\":\"d\",\"good\":1}");
    drain(f);
    CHECK_TEXT("d", told(f, &place, 100));
    CHECK_TEXT("6;2", text_of(&place));

    pass_over(f, "s", 2);
    CHECK_TEXT("b c e", told(f, &place, 100)); /* b is told as gone */
    CHECK_TEXT("6", text_of(&place));
    fixture_close(f);
}

TEST(a_long_stream_is_gone_through_in_steps_and_stops_at_the_next_that_fails)
{
    fixture *f = start(state);
    ef_view_place place = {0}, now;

    append(f, "s", "added", "{\"of\":\"a\",\"good\":0}");
    append(f, "s", "added", "{\"of\":\"b\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"c\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"d\",\"good\":0}");
    append(f, "s", "added", "{\"of\":\"e\",\"good\":1}");
    drain(f);
    CHECK_TEXT("", told(f, &place, 100));
    CHECK_TEXT("5;1", text_of(&place));
    OK(ef_view_place_now(f->engine, EF_STR("sums"), EF_STR(""), &now, &f->err));
    CHECK_TEXT("5;1", text_of(&now));

    pass_over(f, "s", 1);
    CHECK_TEXT("a", told(f, &place, 2));
    CHECK_TEXT("b", told(f, &place, 2));
    CHECK_TEXT("c", told(f, &place, 2));
    CHECK_TEXT("", told(f, &place, 2));
    CHECK_TEXT("5;4", text_of(&place));
    pass_over(f, "s", 4);
    CHECK_TEXT("d e", told(f, &place, 100));
    CHECK_TEXT("5", text_of(&place));
    fixture_close(f);
}

TEST(a_place_holds_so_many_streams_and_then_stops_before_the_next)
{
    fixture *f = start(state);
    ef_view_place place = {0}, now;
    char stream[16];

    for (int i = 0; i < EF_VIEW_WAITING_MAX + 2; i++) {
        (void)snprintf(stream, sizeof(stream), "s%d", i);
        append(f, stream, "added", BAD);
    }
    append(f, "well", "added", "{\"of\":\"z\",\"good\":1}");
    drain(f);
    CHECK_TEXT("", told(f, &place, 1000));
    CHECK_INT(EF_VIEW_WAITING_MAX, place.position);
    CHECK_INT(EF_VIEW_WAITING_MAX, (int64_t)place.waiting_count);
    OK(ef_view_place_now(f->engine, EF_STR("sums"), EF_STR(""), &now, &f->err));
    CHECK_INT(0, memcmp(&now, &place, sizeof(now)));
    CHECK_TEXT("", told(f, &place, 1000));

    pass_over(f, "s0", 1);
    pass_over(f, "s7", 1);
    CHECK_TEXT("a z", told(f, &place, 1000));
    CHECK_INT(EF_VIEW_WAITING_MAX + 3, place.position);
    fixture_close(f);
}

TEST(a_paused_projection_tells_when_it_has_come_up)
{
    fixture *f = start(state);
    ef_view_place place = {0};

    append(f, "s", "added", "{\"of\":\"a\",\"good\":1}");
    drain(f);
    CHECK_TEXT("a", told(f, &place, 100));
    OK(ef_projection_pause(f->engine, EF_STR("sums"), EF_STR(""), EF_STR(""), &f->err));
    append(f, "s", "added", "{\"of\":\"b\",\"good\":1}");
    drain(f);
    CHECK_TEXT("", told(f, &place, 100));
    OK(ef_projection_resume(f->engine, EF_STR("sums"), EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    CHECK_TEXT("b", told(f, &place, 100));
    CHECK_TEXT("2", text_of(&place));
    fixture_close(f);
}

TEST(a_place_is_read_back_as_it_was_written)
{
    ef_view_place place = {.position = 120, .waiting = {17, 99}, .waiting_count = 2}, back;
    ef_error err = EF_ERROR_INIT;

    (void)state;
    CHECK_STATUS(EF_OK, ef_view_place_parse(ef_str_from(text_of(&place)), &back, &err), &err);
    CHECK_INT(0, memcmp(&place, &back, sizeof(back)));
    CHECK_INT(16, ef_view_place_as_of(&back));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(what_fails_holds_up_its_own_stream_only),
        TEST_CASE(a_long_stream_is_gone_through_in_steps_and_stops_at_the_next_that_fails),
        TEST_CASE(a_place_holds_so_many_streams_and_then_stops_before_the_next),
        TEST_CASE(a_paused_projection_tells_when_it_has_come_up),
        TEST_CASE(a_place_is_read_back_as_it_was_written),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
