/*
 * test_changes.c - following a projection: every change is reported, nothing else is, and a place
 * that is not valid any more says why.
 */
#include "engine_fixture.h"

#include <stdio.h>

#define MINUTE (60 * SECOND)

/* The id of the second view comes from the first one. */
static const char LINKS[] = "projection links version 1\n"
                            "  view stream\n"
                            "on linked\n"
                            "  target = data.to\n"
                            "on poked\n"
                            "  let who = target\n"
                            "  view format(\"t {}\", who)\n"
                            "    n += 1\n"
                            "on ended\n"
                            "  delete\n";

static const char SUMS_2[] = "projection sums version 2\n"
                             "  view data.of\n"
                             "on added\n"
                             "  n += 1\n";

static fixture *start(const char *program)
{
    static fixture f;

    fixture_open(&f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(&f, program);
    drain(&f);
    return &f;
}

static void changes_of(fixture *f, ef_str tenant, const char *projection, ef_view_place *place,
                       size_t limit, ef_view_change_list *out)
{
    OK(ef_view_changes(f->engine,
                       &(ef_view_changes_query){
                           .projection = ef_str_from(projection), .tenant = tenant, .limit = limit},
                       place, out, &f->err));
}

/* One step, in a line: "a -b" for a view that is there and one that is deleted, or the reason of a
 * reset in brackets. */
static const char *step(fixture *f, const char *projection, ef_view_place *place, size_t limit)
{
    static char line[2048];
    ef_view_change_list found = {0};
    size_t at;

    changes_of(f, EF_STR(""), projection, place, limit, &found);
    at = found.reset ? (size_t)snprintf(line, sizeof line, "(%s)",
                                        ef_name_of(EF_NAMES_VIEW_RESET, found.reset))
                     : 0;
    line[at] = '\0';
    for (size_t i = 0; i < found.count; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, "%s%s%.*s", i ? " " : "",
                               found.items[i].view.data.len ? "" : "-",
                               EF_STR_ARG(found.items[i].view.view_id));
    EF_RELEASE(&found);
    return line;
}

static void skip_row(fixture *f, const char *stream, int64_t seq)
{
    ef_row_list rows = {0};

    OK(ef__outbox_skip(f->journal,
                       &(ef_outbox_action){.stream = ef_str_from(stream),
                                           .seq = seq,
                                           .lane = EF_STR("sums"),
                                           .actor = EF_STR("ana"),
                                           .reason = EF_STR("a test"),
                                           .versions = (const int32_t[]){1},
                                           .version_count = 1},
                       &rows, &f->err));
    EF_RELEASE(&rows);
    drain(f);
}

TEST(a_view_whose_id_comes_from_another_view_is_reported)
{
    fixture *f = start(LINKS);
    ef_view_place place = {0};
    const char *line;

    (void)state;
    append(f, "L1", "linked", "{\"to\":\"A\"}");
    drain(f);
    CHECK_TEXT("(started)", step(f, "links", &place, 100));
    append(f, "L1", "poked", "{}");
    append(f, "L1", "linked", "{\"to\":\"B\"}");
    drain(f);
    CHECK_TEXT("{\"n\":1}", view_data(f, "links", "t A"));
    line = step(f, "links", &place, 100); /* and no "t B", which never was */
    CHECK(strcmp("L1 t A", line) == 0 || strcmp("t A L1", line) == 0);
    CHECK_TEXT("", step(f, "links", &place, 100));
    fixture_close(f);
}

TEST(a_view_is_reported_once_a_step_as_it_is_now)
{
    fixture *f = start(LINKS);
    ef_view_place place = {0}, between;
    ef_view_change_list found = {0};

    (void)state;
    (void)step(f, "links", &place, 100);
    between = place;
    append(f, "a", "linked", "{\"to\":\"x\"}");
    drain(f);
    append(f, "b", "linked", "{\"to\":\"x\"}");
    drain(f);
    append(f, "a", "ended", "{}");
    drain(f);
    append(f, "c", "linked", "{\"to\":\"x\"}");
    drain(f);
    changes_of(f, EF_STR(""), "links", &place, 100, &found);
    CHECK_INT(3, found.count); /* a, which is deleted, b and c */
    CHECK(!found.items[0].view.data.ptr);
    /* From the number of one on, those after it are reported again, and a has one more record. */
    between.number = found.items[0].number;
    CHECK_TEXT("b -a c", step(f, "links", &between, 100));
    between.number = found.items[1].number;
    CHECK_TEXT("c", step(f, "links", &between, 100));
    CHECK_INT(place.number, found.items[2].number);
    EF_RELEASE(&found);
    fixture_close(f);
}

TEST(a_deleted_view_is_reported_as_deleted_even_if_no_step_has_seen_it)
{
    fixture *f = start(LINKS);
    ef_view_place place = {0};

    (void)state;
    (void)step(f, "links", &place, 100);
    append(f, "a", "linked", "{\"to\":\"x\"}");
    drain(f);
    append(f, "a", "ended", "{}");
    drain(f);
    CHECK_TEXT("-a", step(f, "links", &place, 100));
    append(f, "b", "linked", "{\"to\":\"x\"}");
    append(f, "b", "ended", "{}"); /* in one commit: there never was one */
    drain(f);
    CHECK_TEXT("", step(f, "links", &place, 100));
    fixture_close(f);
}

TEST(what_comes_late_is_reported_when_it_comes)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0};
    ef_view_change_list found = {0};

    (void)state;
    (void)step(f, "sums", &place, 100);
    append(f, "s", "added", "{\"of\":\"a\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"b\",\"good\":0}");
    append(f, "s", "added", "{\"of\":\"c\",\"good\":1}");
    append(f, "t", "added", "{\"of\":\"d\",\"good\":1}");
    drain(f);
    changes_of(f, EF_STR(""), "sums", &place, 100, &found);
    CHECK_INT(2, found.count); /* a and d */
    CHECK_INT(1, found.as_of);
    EF_RELEASE(&found);
    CHECK_TEXT("", step(f, "sums", &place, 100));
    skip_row(f, "s", 2);
    CHECK_TEXT("c", step(f, "sums", &place, 100));
    fixture_close(f);
}

TEST(a_long_record_is_read_in_steps)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0};
    ef_view_change_list found = {0};

    (void)state;
    (void)step(f, "sums", &place, 100);
    append(f, "s", "added", "{\"of\":\"a\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"b\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"c\",\"good\":1}");
    drain(f);
    changes_of(f, EF_STR(""), "sums", &place, 2, &found);
    CHECK_INT(2, found.count);
    CHECK(found.more);
    changes_of(f, EF_STR(""), "sums", &place, 2, &found);
    CHECK_INT(1, found.count);
    CHECK(!found.more);
    EF_RELEASE(&found);
    fixture_close(f);
}

TEST(a_follower_of_one_view_passes_the_changes_of_others)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0}, other = {0};
    ef_view_change_list found = {0};
    ef_view_changes_query one = {.projection = EF_STR("sums"), .view_id = EF_STR("b")};

    (void)state;
    OK(ef_view_changes(f->engine, &one, &place, &found, &f->err));
    (void)step(f, "sums", &other, 100);
    append(f, "s", "added", "{\"of\":\"a\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"b\",\"good\":1}");
    append(f, "s", "added", "{\"of\":\"c\",\"good\":1}");
    drain(f);
    OK(ef_view_changes(f->engine, &one, &place, &found, &f->err));
    CHECK_INT(1, found.count);
    CHECK_STR("b", found.items[0].view.view_id);
    (void)step(f, "sums", &other, 100);
    CHECK_INT(other.number, place.number);
    EF_RELEASE(&found);
    fixture_close(f);
}

TEST(a_place_expires_when_it_is_not_used_and_an_idle_follower_keeps_its_own)
{
    fixture *f = start(SUMS);
    ef_view_place idle = {0}, lost;

    (void)state;
    (void)step(f, "sums", &idle, 100);
    for (int i = 0; i < 10; i++) { /* half an hour */
        pass_time(f, 3 * MINUTE);
        append(f, "elsewhere", "other", "{}");
        drain(f);
        CHECK_TEXT("", step(f, "sums", &idle, 100));
    }
    lost = idle;
    pass_time(f, 14 * MINUTE);
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_TEXT("a", step(f, "sums", &idle, 100));
    idle = lost;
    pass_time(f, 31 * MINUTE);
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_TEXT("(expired)", step(f, "sums", &idle, 100));
    CHECK_TEXT("", step(f, "sums", &idle, 100));
    CHECK_TEXT("(expired)", step(f, "sums", &lost, 100));
    fixture_close(f);
}

TEST(a_place_in_another_generation_is_reset_by_switch_and_rollback)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0}, old;
    ef_generation_choice to = {.projection = EF_STR("sums"), .version = 2, .actor = EF_STR("ana")};
    ef_generation_choice back = {
        .projection = EF_STR("sums"), .previous = true, .actor = EF_STR("ana")};

    (void)state;
    (void)step(f, "sums", &place, 100);
    old = place;
    deploy(f, SUMS_2);
    drain(f);
    OK(ef_projection_switch(f->engine, &to, &f->err));
    CHECK_TEXT("(switched)", step(f, "sums", &place, 100));
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_TEXT("a", step(f, "sums", &place, 100));
    OK(ef_projection_switch(f->engine, &back, &f->err));
    CHECK_TEXT("(switched)", step(f, "sums", &place, 100));
    CHECK_TEXT("a", step(f, "sums", &old, 100)); /* the first one was recorded all the time */
    fixture_close(f);
}

TEST(a_rebuild_in_place_resets_followers)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0};
    ef_run_list runs = {0};
    char id[64];

    (void)state;
    append(f, "s", "added", GOOD);
    drain(f);
    (void)step(f, "sums", &place, 100);
    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("sums"), .in_place = true, .actor = EF_STR("ana")},
        &runs, &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    drain(f);
    CHECK_TEXT("(switched)", step(f, "sums", &place, 100));
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_TEXT("a", step(f, "sums", &place, 100));
    fixture_close(f);
}

TEST(a_paused_projection_reports_when_it_has_caught_up)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0};

    (void)state;
    (void)step(f, "sums", &place, 100);
    OK(ef_projection_pause(f->engine, EF_STR("sums"), true, EF_STR(""), EF_STR(""), &f->err));
    append(f, "s", "added", "{\"of\":\"b\",\"good\":1}");
    drain(f);
    CHECK_TEXT("", step(f, "sums", &place, 100));
    OK(ef_projection_pause(f->engine, EF_STR("sums"), false, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    CHECK_TEXT("b", step(f, "sums", &place, 100));
    fixture_close(f);
}

TEST(a_place_is_read_back_as_it_was_written)
{
    static const char *const BAD_PLACES[] = {
        "", "7", "7.", ".5", "0.5", "7;5", "7.5x", " 7.5", "-7.5", "7.-5", "7.1234567890123456789"};
    ef_view_place place = {7, 1767225600000000}, back;
    char text[EF_VIEW_PLACE_MAX];
    ef_error err = EF_ERROR_INIT;

    (void)state;
    ef_view_place_format(&place, text);
    CHECK_TEXT("7.1767225600000000", text);
    CHECK_STATUS(EF_OK, ef_view_place_parse(ef_str_from(text), &back, &err), &err);
    CHECK_INT(place.generation, back.generation);
    CHECK_INT(place.number, back.number);
    for (size_t i = 0; i < sizeof BAD_PLACES / sizeof BAD_PLACES[0]; i++)
        CHECK_STATUS(EF_BAD_INPUT, ef_view_place_parse(ef_str_from(BAD_PLACES[i]), &back, &err),
                     &err);
}

TEST(a_place_that_was_never_given_is_expired)
{
    fixture *f = start(SUMS);
    ef_view_place place = {0};
    ef_view_change_list found = {0};

    (void)state;
    (void)step(f, "sums", &place, 100);
    place.number += 1000;
    CHECK_TEXT("(expired)", step(f, "sums", &place, 100));
    place.number = 1;
    CHECK_TEXT("(expired)", step(f, "sums", &place, 100));
    place.generation = 99;
    CHECK_TEXT("(switched)", step(f, "sums", &place, 100));
    REFUSED(EF_NOT_FOUND,
            ef_view_changes(f->engine, &(ef_view_changes_query){.projection = EF_STR("nothing")},
                            &place, &found, &f->err));
    EF_RELEASE(&found);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(a_view_whose_id_comes_from_another_view_is_reported),
        TEST_CASE(a_view_is_reported_once_a_step_as_it_is_now),
        TEST_CASE(a_deleted_view_is_reported_as_deleted_even_if_no_step_has_seen_it),
        TEST_CASE(what_comes_late_is_reported_when_it_comes),
        TEST_CASE(a_long_record_is_read_in_steps),
        TEST_CASE(a_follower_of_one_view_passes_the_changes_of_others),
        TEST_CASE(a_place_expires_when_it_is_not_used_and_an_idle_follower_keeps_its_own),
        TEST_CASE(a_place_in_another_generation_is_reset_by_switch_and_rollback),
        TEST_CASE(a_rebuild_in_place_resets_followers),
        TEST_CASE(a_paused_projection_reports_when_it_has_caught_up),
        TEST_CASE(a_place_is_read_back_as_it_was_written),
        TEST_CASE(a_place_that_was_never_given_is_expired),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
