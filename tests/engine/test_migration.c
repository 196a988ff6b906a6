/*
 * test_migration.c - a program that takes over a projection in place: every view is brought to the
 * new schema once, whatever is read, appended or dies meanwhile.
 */
#include "engine_fixture.h"

#include "../../src/engine/engine_priv.h"

#include <inttypes.h>
#include <stdlib.h>

#define VIEWS 1200 /* more than two pages of a migration */

static const char TALLY[] = "projection tally version 1\n"
                            "  index n\n"
                            "on added\n"
                            "  for one in data.ids view one\n"
                            "    n += 1\n"
                            "    seen += data.by ?? 1\n";

#define HEAD_2                                                                                     \
    "projection tally version 2\n"                                                                 \
    "  schema 2\n"                                                                                 \
    "  index n\n"
#define ON_ADDED_2                                                                                 \
    "on added\n"                                                                                   \
    "  for one in data.ids view one\n"                                                             \
    "    n += 1\n"                                                                                 \
    "    counts.seen += data.by ?? 1\n"

static const char TALLY_2[] = HEAD_2 "migrate from 1 to 2\n"
                                     "  counts.seen = seen ?? 0\n"
                                     "  unset seen\n" ON_ADDED_2;

/* Add to the views v0000, v0001 …, in events of up to 600 ids. */
static void add_to(fixture *f, int count)
{
    static char data[16384];

    for (int at = 0; at < count;) {
        size_t len = (size_t)snprintf(data, sizeof data, "{\"ids\":[");
        for (int n = 0; n < 600 && at < count; n++, at++)
            len += (size_t)snprintf(data + len, sizeof data - len, "%s\"v%04d\"", n ? "," : "", at);
        (void)snprintf(data + len, sizeof data - len, "]}");
        append(f, "s", "added", data);
    }
}

static ef_status in_place(fixture *f, const char *program)
{
    ef_projection_list list = {0};
    ef_text report = {0};
    ef_status st = ef_projection_deploy(
        f->engine,
        &(ef_deploy){.file_name = "test.fold", .text = ef_str_from(program), .in_place = true},
        &list, &report, &f->err);

    EF_RELEASE(&list);
    EF_RELEASE(&report);
    return st;
}

/* "version generation state views", of the routed one, which has to be the only one. */
static const char *told(fixture *f)
{
    static char text[80];
    ef_projection_list list = {0};

    OK(ef_projection_ls(f->engine, EF_STR("tally"), &list, &f->err));
    CHECK_INT(1, list.count);
    CHECK(list.items[0].active);
    (void)snprintf(text, sizeof text, "%d %d %.*s %" PRId64, (int)list.items[0].version,
                   (int)list.items[0].generation, EF_STR_ARG(list.items[0].state),
                   list.items[0].views);
    EF_RELEASE(&list);
    return text;
}

/* The digest is the sum over the views as they are, and each has its index entries. */
static void check_sums(fixture *f)
{
    ef_projection_check_result result;

    OK(ef_projection_check(f->engine, NULL, NULL, &result, &f->err));
    CHECK_INT(result.views, result.index_entries);
}

static ef_status find(fixture *f, const char *where, size_t *out_count)
{
    ef_view_list list = {0};
    ef_status st = ef_view_find(f->engine,
                                &(ef_view_query){.projection = EF_STR("tally"),
                                                 .where = ef_str_from(where),
                                                 .sort = EF_STR("n"),
                                                 .limit = 1000},
                                &list, &f->err);

    *out_count = list.count;
    EF_RELEASE(&list);
    return st;
}

/* What a follower at `place` gets of v0001. */
static const char *followed(fixture *f, ef_view_place place)
{
    static char text[80];
    ef_view_change_list list = {0};

    OK(ef_view_changes(f->engine,
                       &(ef_view_changes_query){.projection = EF_STR("tally"),
                                                .view_id = EF_STR("v0001"),
                                                .limit = 1000},
                       &place, &list, &f->err));
    CHECK_INT(1, list.count);
    (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(list.items[0].view.data));
    EF_RELEASE(&list);
    return text;
}

static ef_view_place follow(fixture *f)
{
    ef_view_change_list list = {0};
    ef_view_place place = {0};

    OK(ef_view_changes(f->engine, &(ef_view_changes_query){.projection = EF_STR("tally")}, &place,
                       &list, &f->err));
    EF_RELEASE(&list);
    return place;
}

static bool take_any(void *context, const ef_view *view)
{
    (void)context;
    (void)view;
    return true;
}

static int64_t differences(fixture *f)
{
    ef_run_list runs = {0};
    ef_verdict verdict;
    char id[64];

    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("tally"), .verify = true, .actor = EF_STR("ana")}, &runs,
        &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    OK(test_run_read(f->journal, id, &runs, &f->err));
    OK(ef_run_verdict(&runs.items[0], &verdict, &f->err));
    CHECK(verdict.compared);
    EF_RELEASE(&runs);
    return verdict.differences;
}

static void start(fixture *f, const char *program, int views)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, program);
    drain(f);
    add_to(f, views);
    drain(f);
}

/* --- all goes well ---------------------------------------------------------------------------- */

static void every_view_is_migrated_and_every_read_shows_the_new_schema(void **state)
{
    fixture fx, *f = &fx;
    ef_view_place place;
    size_t count;
    int ticks = 0;

    (void)state;
    start(f, TALLY, 0);
    place = follow(f);
    add_to(f, VIEWS);
    drain(f);
    OK(in_place(f, TALLY_2));
    CHECK_TEXT("2 1 migrating 1200", told(f));
    do {
        check_sums(f);
        CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", view_data(f, "tally", "v0000"));
        CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", view_data(f, "tally", "v1199"));
        CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", followed(f, place));
        REFUSED(EF_BUSY, find(f, "counts.seen == 1", &count));
        REFUSED(EF_BUSY, ef_view_export(f->engine, EF_STR("tally"), (ef_str){0}, true, take_any,
                                        NULL, NULL, &f->err));
        tick(f);
    } while (strcmp(told(f), "2 1 migrating 1200") == 0 && ++ticks < 20);
    CHECK_INT(2, ticks); /* 500 views, 500 more, and the rest */
    drain(f);
    CHECK_TEXT("2 1 live 1200", told(f));
    check_accounts(f, "tally", "live", 0);
    check_sums(f);
    OK(find(f, "counts.seen == 1", &count));
    CHECK_INT(1000, count);
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void events_appended_during_a_migration_are_folded_by_the_new_program(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, VIEWS);
    add_to(f, 3); /* queued, and not yet folded */
    OK(in_place(f, TALLY_2));
    tick(f);
    append(f, "t", "added", "{\"ids\":[\"v0001\",\"v1100\",\"new\"]}");
    tick(f);
    add_to(f, 1);
    drain(f);
    CHECK_TEXT("2 1 live 1201", told(f));
    check_accounts(f, "tally", "live", 0);
    check_sums(f);
    CHECK_TEXT("{\"counts\":{\"seen\":3},\"n\":3}", view_data(f, "tally", "v0000"));
    CHECK_TEXT("{\"counts\":{\"seen\":3},\"n\":3}", view_data(f, "tally", "v0001"));
    CHECK_TEXT("{\"counts\":{\"seen\":2},\"n\":2}", view_data(f, "tally", "v1100"));
    CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", view_data(f, "tally", "new"));
    add_to(f, 1); /* and so is what comes by the queue again */
    drain(f);
    CHECK_TEXT("{\"counts\":{\"seen\":4},\"n\":4}", view_data(f, "tally", "v0000"));
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void a_log_ordered_projection_is_migrated(void **state)
{
    static const char logged[] = "projection tally version 1\n"
                                 "  order by log\n"
                                 "on added\n"
                                 "  seen += 1\n";
    static const char logged_2[] = "projection tally version 2\n"
                                   "  order by log\n"
                                   "  schema 3\n"
                                   "migrate from 1 to 2\n"
                                   "  count = seen\n"
                                   "migrate from 2 to 3\n"
                                   "  unset seen\n"
                                   "on added\n"
                                   "  count += 1\n";
    fixture fx, *f = &fx;

    (void)state;
    start(f, logged, 1);
    OK(in_place(f, logged_2));
    add_to(f, 1);
    drain(f);
    CHECK_TEXT("2 1 live 1", told(f));
    CHECK_TEXT("{\"count\":2}", view_data(f, "tally", "s"));
    check_accounts(f, "tally", "live", 0);
    fixture_close(f);
}

static void a_lookup_sees_the_migrated_view(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, 2);
    deploy(f, "projection asker version 1\n"
              "on asked\n"
              "  found = lookup(\"tally\", data.id).counts.seen\n");
    drain(f);
    append(f, "q", "asked", "{\"id\":\"v0001\"}");
    OK(in_place(f, TALLY_2));
    ef_tick t;
    OK(ef_engine_work(f->engine, NULL, &t, &f->err)); /* the queue comes before the migration */
    CHECK_TEXT("{\"found\":1}", view_data(f, "asker", "q"));
    fixture_close(f);
}

static void deploying_the_same_text_in_place_changes_nothing(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, VIEWS);
    OK(in_place(f, TALLY_2));
    tick(f);
    OK(in_place(f, TALLY_2));
    drain(f);
    OK(in_place(f, TALLY_2));
    CHECK_TEXT("2 1 live 1200", told(f));
    fixture_close(f);
}

static void a_verification_reports_drift_of_a_wrong_migration(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, 3);
    OK(in_place(f, HEAD_2 "migrate from 1 to 2\n"
                          "  counts.seen = 100\n"
                          "  unset seen\n" ON_ADDED_2));
    drain(f);
    CHECK_TEXT("{\"counts\":{\"seen\":100},\"n\":1}", view_data(f, "tally", "v0000"));
    CHECK_INT(3, differences(f));
    fixture_close(f);
}

/* --- on the way ------------------------------------------------------------------------------- */

static void a_migration_continues_after_a_pause(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, VIEWS);
    OK(in_place(f, TALLY_2));
    tick(f);
    OK(ef_projection_pause(f->engine, EF_STR("tally"), true, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    CHECK_TEXT("2 1 paused 1200", told(f));
    CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", view_data(f, "tally", "v1199"));
    REFUSED(EF_CONFLICT, in_place(f, HEAD_2 ON_ADDED_2));
    OK(ef_projection_pause(f->engine, EF_STR("tally"), false, EF_STR(""), EF_STR(""), &f->err));
    CHECK_TEXT("2 1 migrating 1200", told(f));
    drain(f);
    CHECK_TEXT("2 1 live 1200", told(f));
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void another_worker_continues_a_migration_after_a_crash(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    if (strcmp(fixture_backend, "sqlite") != 0)
        return;                               /* what is in memory dies with its worker */
    for (int steps = 0; steps < 5; steps++) { /* dead before, between, at and after the last */
        start(f, TALLY, VIEWS);
        OK(in_place(f, TALLY_2));
        for (int i = 0; i < steps; i++)
            tick(f);
        ef__engine_abandon(f->engine);
        f->engine = fixture_engine(f, "w1");
        check_sums(f);
        CHECK_TEXT("{\"counts\":{\"seen\":1},\"n\":1}", view_data(f, "tally", "v0700"));
        pass_time(f, 11 * SECOND);
        drain(f);
        CHECK_TEXT("2 1 live 1200", told(f));
        check_accounts(f, "tally", "live", 0);
        check_sums(f);
        CHECK_INT(0, differences(f));
        fixture_close(f);
    }
}

static void a_run_waits_until_all_views_are_migrated(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, VIEWS);
    OK(in_place(f, TALLY_2));
    CHECK_INT(0, differences(f)); /* drives the run and the migration, side by side */
    CHECK_TEXT("2 1 live 1200", told(f));
    fixture_close(f);
}

/* Past the engine: a view of schema 1 that was not there when the migration was tried. */
static void put_old_view(fixture *f, const char *id, const char *data, const ef__view *before)
{
    ef_views *views = f->engine->views;
    ef__generation_list list = {0};
    ef__index_key key = {.index = 0, .key = EF_STR("k")};
    ef__view_change change = {
        .view = {.id = ef_str_from(id), .data = ef_str_from(data), .last_position = 1, .schema = 1},
        .keys = &key,
        .key_count = 1};

    if (before)
        ef__view_digest(before, change.before);
    OK(views->ops->generation_ls(views, EF_STR("tally"), &list, &f->err));
    OK(views->ops->commit(
        views,
        &(ef__views_commit){.generations = &(ef__generation_change){.generation = list.items[0].id,
                                                                    .era = list.items[0].era,
                                                                    .views = &change,
                                                                    .view_count = 1},
                            .generation_count = 1},
        &f->err));
    EF_RELEASE(&list);
}

static void a_view_that_cannot_be_migrated_fails_the_projection_until_it_is_fixed(void **state)
{
    static const char bad[] = "{\"n\":1,\"seen\":\"x\"}";
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, 2);
    OK(in_place(f, HEAD_2 "migrate from 1 to 2\n"
                          "  counts.seen = seen + 0\n"
                          "  unset seen\n" ON_ADDED_2));
    put_old_view(f, "bad", bad, NULL);
    drain(f);
    CHECK_TEXT("2 1 failed 3", told(f));
    REFUSED(EF_CONFLICT, in_place(f, "projection tally version 3\n"
                                     "  schema 3\n"
                                     "  index n\n"
                                     "migrate from 1 to 3\n"
                                     "  unset seen\n" ON_ADDED_2));
    put_old_view(
        f, "bad", "{\"n\":1,\"seen\":8}",
        &(ef__view){.id = EF_STR("bad"), .data = EF_STR(bad), .last_position = 1, .schema = 1});
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK_TEXT("2 1 live 3", told(f));
    CHECK_TEXT("{\"counts\":{\"seen\":8},\"n\":1}", view_data(f, "tally", "bad"));
    check_sums(f);
    fixture_close(f);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void refused(fixture *f, ef_status status, const char *says, const char *program)
{
    REFUSED(status, in_place(f, program));
    if (!strstr(f->err.text, says))
        fail_msg("\"%s\" is not in: %s", says, f->err.text);
    CHECK_TEXT("1 1 live 2", told(f));
    CHECK_TEXT("{\"n\":1,\"seen\":1}", view_data(f, "tally", "v0000"));
}

static void an_in_place_program_that_does_not_fit_is_refused(void **state)
{
    static const char migrate[] = "migrate from 1 to 2\n  unset seen\n";
    fixture fx, *f = &fx;
    char text[1024];

    (void)state;
    start(f, TALLY, 2);
    refused(f, EF_BAD_INPUT, "no \"migrate from 1\"", HEAD_2 ON_ADDED_2);
    refused(f, EF_BAD_INPUT, "no \"migrate from 1\"",
            "projection tally version 2\n"
            "  schema 3\n"
            "  index n\n"
            "migrate from 2 to 3\n"
            "  unset seen\n" ON_ADDED_2);
    refused(f, EF_BAD_INPUT, "in place the schema must be higher",
            "projection tally version 2\n  index n\n" ON_ADDED_2);
    refused(f, EF_CONFLICT, "version 1 is deployed already",
            "projection tally version 1\n  schema 2\n  index n\n"
            "migrate from 1 to 2\n  unset seen\n" ON_ADDED_2);
    (void)snprintf(text, sizeof text,
                   "projection tally version 2\n  schema 2\n  order by log\n  index n\n%s%s",
                   migrate, ON_ADDED_2);
    refused(f, EF_BAD_INPUT, "in place the order stays", text);
    (void)snprintf(text, sizeof text, "projection tally version 2\n  schema 2\n%s%s", migrate,
                   ON_ADDED_2);
    refused(f, EF_UNSUPPORTED, "has the indexes (n) and the program ()", text);
    refused(f, EF_BAD_INPUT, "test.fold:", "projection tally version 2\n  schema two\n");
    REFUSED(EF_NOT_FOUND, in_place(f, "projection nobody version 2\n"
                                      "on added\n"
                                      "  n += 1\n"));
    fixture_close(f);
}

static void a_view_that_cannot_be_migrated_refuses_the_deployment(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f, TALLY, 1);
    append(f, "z", "added", "{\"ids\":[\"zero\"],\"by\":0}");
    drain(f);
    refused(f, EF_BAD_INPUT, "view \"zero\" cannot be migrated: line 5",
            HEAD_2 "migrate from 1 to 2\n"
                   "  each = 1 / seen\n" ON_ADDED_2);
    CHECK_TEXT("{\"n\":1,\"seen\":0}", view_data(f, "tally", "zero"));
    fixture_close(f);
}

static void an_in_place_deployment_is_refused_while_paused_running_or_migrating(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char id[64];

    (void)state;
    start(f, TALLY, VIEWS);
    OK(ef_projection_pause(f->engine, EF_STR("tally"), true, EF_STR(""), EF_STR(""), &f->err));
    REFUSED(EF_CONFLICT, in_place(f, TALLY_2));
    CHECK(strstr(f->err.text, "is paused") != NULL);
    CHECK_TEXT("1 1 paused 1200", told(f));
    OK(ef_projection_pause(f->engine, EF_STR("tally"), false, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("tally"), .verify = true, .actor = EF_STR("ana")}, &runs,
        &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
    REFUSED(EF_CONFLICT, in_place(f, TALLY_2));
    CHECK(strstr(f->err.text, "is open") != NULL);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    drain(f);
    OK(in_place(f, TALLY_2));
    REFUSED(EF_CONFLICT, in_place(f, "projection tally version 3\n"
                                     "  schema 3\n"
                                     "  index n\n"
                                     "migrate from 1 to 3\n"
                                     "  unset seen\n" ON_ADDED_2));
    CHECK(strstr(f->err.text, "still being migrated") != NULL);
    drain(f);
    CHECK_TEXT("2 1 live 1200", told(f));
    fixture_close(f);
}

static ef_status count_in_c(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    (void)fold;
    (void)event;
    (void)context;
    (void)err;
    return EF_OK;
}

static void an_in_place_deployment_of_a_c_projection_is_refused(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    OK(ef_engine_register(
        f->engine, &(ef_c_projection){.name = EF_STR("tally"), .version = 1, .fn = count_in_c},
        &f->err));
    drain(f);
    REFUSED(EF_UNSUPPORTED, in_place(f, TALLY_2));
    CHECK_TEXT("1 1 live 0", told(f));
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(every_view_is_migrated_and_every_read_shows_the_new_schema),
        cmocka_unit_test(events_appended_during_a_migration_are_folded_by_the_new_program),
        cmocka_unit_test(a_log_ordered_projection_is_migrated),
        cmocka_unit_test(a_lookup_sees_the_migrated_view),
        cmocka_unit_test(deploying_the_same_text_in_place_changes_nothing),
        cmocka_unit_test(a_verification_reports_drift_of_a_wrong_migration),
        cmocka_unit_test(a_migration_continues_after_a_pause),
        cmocka_unit_test(another_worker_continues_a_migration_after_a_crash),
        cmocka_unit_test(a_view_that_cannot_be_migrated_fails_the_projection_until_it_is_fixed),
        cmocka_unit_test(a_run_waits_until_all_views_are_migrated),
        cmocka_unit_test(an_in_place_program_that_does_not_fit_is_refused),
        cmocka_unit_test(a_view_that_cannot_be_migrated_refuses_the_deployment),
        cmocka_unit_test(an_in_place_deployment_is_refused_while_paused_running_or_migrating),
        cmocka_unit_test(an_in_place_deployment_of_a_c_projection_is_refused),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
