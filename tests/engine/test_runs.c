/*
 * test_runs.c - runs: one per scope, driven by one worker, continued by another; and replays.
 */
#include "engine_fixture.h"

#include "../../src/engine/run.h"

static const char OTHER[] = "projection other version 1\n"
                            "  view data.of\n"
                            "on added\n"
                            "  n += 1\n";

static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
}

/* Events that the projection lacks: without an outbox, appended past the engine. */
static void start_with_gap(fixture *f, int events)
{
    fixture_open(f, EF_MODE_INLINE_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    for (int i = 0; i < events; i++)
        append_past(f, "s", GOOD);
}

static ef_status try_replay(fixture *f, const ef_replay *replay, char id[64])
{
    ef_run_list runs = {0};
    ef_status st = ef_replay_request(f->engine, replay, &runs, &f->err);

    if (st == EF_OK)
        (void)snprintf(id, 64, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
    return st;
}

static ef_replay_result replayed(fixture *f, const char *id)
{
    ef_run_list runs = {0};
    ef_replay_result r;

    OK(test_run_read(f->journal, id, &runs, &f->err));
    OK(ef_run_replay_result(&runs.items[0], &r, &f->err));
    EF_RELEASE(&runs);
    return r;
}

/* --- one a scope -------------------------------------------------------------------------------
 */

static void runs_over_all_projections_and_single_ones_exclude_each_other(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char all[64], one[64];

    (void)state;
    start(f);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, all));
    REFUSED(EF_EXISTS,
            try_replay(f, &(ef_replay){.any_tenant = true, .projection = EF_STR("sums")}, one));
    REFUSED(EF_EXISTS, try_replay(f, &(ef_replay){.any_tenant = true}, one));
    OK(ef_run_cancel(f->journal, ef_str_from(all), &f->err));
    OK(try_replay(f, &(ef_replay){.any_tenant = true, .projection = EF_STR("sums")}, one));
    REFUSED(EF_EXISTS, try_replay(f, &(ef_replay){.any_tenant = true}, all));
    REFUSED(EF_EXISTS, ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("sums")},
                                             &runs, &f->err));
    EF_RELEASE(&runs);
    fixture_close(f);
}

static void a_worker_drives_queued_runs(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char id[64];

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    drain(f);
    OK(ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("sums")}, &runs,
                             &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    for (int i = 0; i < 20; i++)
        tick(f);
    OK(test_run_read(f->journal, id, &runs, &f->err));
    CHECK_INT(EF_RUN_COMPLETED, runs.items[0].state);
    CHECK_INT(1, runs.items[0].processed);
    CHECK(runs.items[0].finished_us > 0);
    EF_RELEASE(&runs);
    fixture_close(f);
}

/* --- replay ------------------------------------------------------------------------------------
 */

static void a_replay_of_applied_events_finds_duplicates(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    append(f, "s", "other", "{}");
    drain(f);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(2, replayed(f, id).events);
    CHECK_INT(2, replayed(f, id).duplicates);
    CHECK_INT(0, replayed(f, id).applied);
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void a_replay_applies_missing_events(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start_with_gap(f, 5);
    OK(try_replay(f, &(ef_replay){.stream = EF_STR("s"), .until_seq = 3}, id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(3, replayed(f, id).applied);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(2, replayed(f, id).applied);
    CHECK_INT(3, replayed(f, id).duplicates);
    fixture_close(f);
}

static void a_replay_adds_rows_for_failed_and_blocked_events(void **state)
{
    fixture fx, *f = &fx;
    ef_new_event bad = {.stream = EF_STR("s"), .type = EF_STR("added"), .data = EF_STR(BAD)};
    ef_place place;
    char id[64];

    (void)state;
    start_with_gap(f, 1);
    OK(ef_journal_append(f->journal, &bad, 1, &place, &f->err));
    bad.data = EF_STR(GOOD);
    OK(ef_journal_append(f->journal, &bad, 1, &place, &f->err));
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(1, replayed(f, id).applied);
    CHECK_INT(1, replayed(f, id).failed);
    CHECK_INT(1, replayed(f, id).deferred);
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(1, summary_of(f, "sums").pending);
    fixture_close(f);
}

static int64_t fitting(fixture *f, ef_replay replay)
{
    ef_replay_result r;

    OK(ef_replay_dry_run(f->engine, &replay, false, NULL, NULL, &r, &f->err));
    return r.events;
}

static void bounds_are_inclusive_and_an_empty_window_is_no_error(void **state)
{
    fixture fx, *f = &fx;
    int64_t began_us;
    char id[64];

    (void)state;
    start(f);
    began_us = atomic_load(&f->now_us);
    for (int i = 0; i < 5; i++) {
        append(f, i < 3 ? "s" : "t", i % 2 ? "odd.one" : "added", GOOD);
        pass_time(f, SECOND);
    }
    CHECK_INT(5, fitting(f, (ef_replay){.any_tenant = true}));
    CHECK_INT(3, fitting(f, (ef_replay){.any_tenant = true, .from = 2, .to = 4}));
    CHECK_INT(1, fitting(f, (ef_replay){.any_tenant = true, .from = 4, .to = 4}));
    CHECK_INT(3, fitting(f, (ef_replay){.stream = EF_STR("s")}));
    CHECK_INT(1, fitting(f, (ef_replay){.stream = EF_STR("s"), .after_seq = 1, .until_seq = 2}));
    CHECK_INT(2, fitting(f, (ef_replay){.any_tenant = true, .type = EF_STR("odd*")}));
    CHECK_INT(2, fitting(f, (ef_replay){.any_tenant = true,
                                        .from_us = began_us + SECOND,
                                        .to_us = began_us + 2 * SECOND}));
    CHECK_INT(0, fitting(f, (ef_replay){.stream = EF_STR("nowhere")}));
    OK(try_replay(f, &(ef_replay){.stream = EF_STR("nowhere")}, id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(0, replayed(f, id).events);
    fixture_close(f);
}

static void a_replay_with_contradictory_bounds_is_refused(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    REFUSED(EF_BAD_INPUT, try_replay(f, &(ef_replay){.any_tenant = true, .from = 5, .to = 4}, id));
    REFUSED(EF_BAD_INPUT,
            try_replay(f, &(ef_replay){.any_tenant = true, .from_us = 5, .to_us = 4}, id));
    REFUSED(EF_BAD_INPUT,
            try_replay(f, &(ef_replay){.stream = EF_STR("s"), .after_seq = 2, .until_seq = 2}, id));
    REFUSED(EF_BAD_INPUT, try_replay(f, &(ef_replay){.any_tenant = true, .after_seq = 2}, id));
    REFUSED(EF_NOT_FOUND,
            try_replay(f, &(ef_replay){.any_tenant = true, .projection = EF_STR("none")}, id));
    fixture_close(f);
}

static void count_failure(void *context, ef_str projection, const ef_event *event, ef_str message)
{
    CHECK_STR("sums", projection);
    CHECK(message.len > 0);
    *(int64_t *)context = event->seq;
}

static void a_validation_folds_and_changes_nothing(void **state)
{
    fixture fx, *f = &fx;
    ef_replay_result r;
    int64_t failed_at = 0;

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    OK(ef_replay_dry_run(f->engine, &(ef_replay){.any_tenant = true, .from = 2}, true,
                         count_failure, &failed_at, &r, &f->err));
    CHECK_INT(2, failed_at);
    CHECK_INT(1, r.failed);
    CHECK_INT(1, r.events);
    CHECK_TEXT("", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* --- crashes and cancelling ------------------------------------------------------------------- */

static void another_worker_continues_a_replay_after_a_crash(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char id[64];

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return; /* views in memory end with their engine */
    start_with_gap(f, 2500);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    CHECK_INT(EF_RUN_RUNNING, drive(f, id, 2));
    CHECK_INT(1000, replayed(f, id).applied);
    ef__engine_abandon(f->engine);
    f->engine = fixture_engine(f, "w1");
    CHECK_INT(EF_RUN_RUNNING, drive(f, id, 3)); /* the lease of the first still lives */
    CHECK_INT(1000, replayed(f, id).applied);
    pass_time(f, 60 * SECOND);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_INT(2500, replayed(f, id).applied);
    CHECK_TEXT("{\"n\":2500,\"sum\":2500}", view_data(f, "sums", "a"));
    OK(test_run_read(f->journal, id, &runs, &f->err));
    CHECK_INT(2500, runs.items[0].processed);
    CHECK_INT(2500, runs.items[0].total);
    EF_RELEASE(&runs);
    fixture_close(f);
}

static void another_worker_continues_a_rebuild_without_a_second_build(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    ef_projection_list list = {0};
    char id[64];

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return;
    for (int steps = 1; steps < 6; steps++) {
        start(f);
        append(f, "s", "added", GOOD);
        drain(f);
        OK(ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("sums")}, &runs,
                                 &f->err));
        (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
        (void)drive(f, id, steps);
        ef__engine_abandon(f->engine);
        pass_time(f, 60 * SECOND);
        f->engine = fixture_engine(f, "w1");
        CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
        OK(ef_projection_ls(f->engine, EF_STR("sums"), &list, &f->err));
        CHECK_INT(2, list.count);
        CHECK(list.items[0].active);
        CHECK_INT(2, list.items[0].generation);
        CHECK_TEXT(list.items[0].digest, list.items[1].digest);
        EF_RELEASE(&list);
        EF_RELEASE(&runs);
        fixture_close(f);
    }
}

/* --- outages ---------------------------------------------------------------------------------- */

static const ef__views_ops *whole_ops;
static ef_status broken_with;

static ef_status refuse_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    (void)views;
    (void)commit;
    return ef_fail(err, broken_with, "the disk is out");
}

/* From here on every commit of the views fails, until repair_views(). */
static void break_views(fixture *f, ef_status with)
{
    static ef__views_ops broken;

    whole_ops = f->engine->views->ops;
    broken = *whole_ops;
    broken.commit = refuse_commit;
    broken_with = with;
    f->engine->views->ops = &broken;
}

static void repair_views(fixture *f)
{
    f->engine->views->ops = whole_ops;
}

/* Steps of the runs alone, and time between them; how many did more than wait. */
static void step_runs(fixture *f, int steps, int64_t us)
{
    for (int i = 0; i < steps; i++) {
        ef_tick t = {0};
        OK(ef__run_driver_step(f->engine, NULL, &t, &f->err));
        pass_time(f, us);
    }
}

static ef_run_state state_of(fixture *f, const char *id, char error[64])
{
    ef_run_list runs = {0};
    ef_run_state state;

    OK(test_run_read(f->journal, id, &runs, &f->err));
    state = runs.items[0].state;
    (void)snprintf(error, 64, "%.*s", EF_STR_ARG(runs.items[0].error));
    EF_RELEASE(&runs);
    return state;
}

static void an_outage_keeps_a_run_running_with_the_reason(void **state)
{
    static const ef_status OUTAGES[] = {EF_IO, EF_BUSY, EF_FULL, EF_UNSURE};
    fixture fx, *f = &fx;
    char id[64], error[64];

    (void)state;
    for (size_t i = 0; i < sizeof OUTAGES / sizeof OUTAGES[0]; i++) {
        start_with_gap(f, 5);
        OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
        break_views(f, OUTAGES[i]);
        step_runs(f, 200, 10 * SECOND); /* more than half an hour */
        CHECK_INT(EF_RUN_RUNNING, state_of(f, id, error));
        CHECK_TEXT("the disk is out", error);
        repair_views(f);
        pass_time(f, 31 * SECOND);
        CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
        CHECK_INT(EF_RUN_COMPLETED, state_of(f, id, error));
        CHECK_TEXT("", error);
        CHECK_INT(5, replayed(f, id).applied);
        fixture_close(f);
    }
}

static void a_run_backs_off_during_an_outage(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t = {0};
    char id[64];

    (void)state;
    start_with_gap(f, 5);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    step_runs(f, 1, 0);
    break_views(f, EF_IO);
    step_runs(f, 1, 0);
    OK(ef__run_driver_step(f->engine, NULL, &t, &f->err));
    CHECK(!t.more);
    CHECK(t.due_us > f->now_us && t.due_us <= f->now_us + SECOND / 4);
    repair_views(f);
    step_runs(f, 3, SECOND / 100); /* it is too early */
    CHECK_INT(0, replayed(f, id).applied);
    pass_time(f, SECOND / 4);
    step_runs(f, 1, 0);
    CHECK_INT(5, replayed(f, id).applied);
    fixture_close(f);
}

static void a_run_in_back_off_does_not_delay_others(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char waits[64], other[64], error[64];

    (void)state;
    start_with_gap(f, 5);
    deploy(f, OTHER);
    drain(f);
    OK(try_replay(f, &(ef_replay){.any_tenant = true, .projection = EF_STR("sums")}, waits));
    step_runs(f, 1, 0);
    break_views(f, EF_IO);
    step_runs(f, 1, 0);
    repair_views(f);
    OK(ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("other")}, &runs,
                             &f->err));
    (void)snprintf(other, sizeof other, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
    step_runs(f, 1, 0);
    CHECK_INT(EF_RUN_RUNNING, state_of(f, waits, error));
    CHECK_INT(EF_RUN_RUNNING, state_of(f, other, error));
    fixture_close(f);
}

static void damage_ends_a_run(void **state)
{
    fixture fx, *f = &fx;
    char id[64], error[64];

    (void)state;
    start_with_gap(f, 5);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    break_views(f, EF_DAMAGED);
    step_runs(f, 3, SECOND);
    CHECK_INT(EF_RUN_FAILED, state_of(f, id, error));
    CHECK_TEXT("the disk is out", error);
    repair_views(f);
    fixture_close(f);
}

static void a_cancelled_replay_keeps_what_it_has_committed(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start_with_gap(f, 1500);
    OK(try_replay(f, &(ef_replay){.any_tenant = true}, id));
    CHECK_INT(EF_RUN_RUNNING, drive(f, id, 2));
    OK(ef_run_cancel(f->journal, ef_str_from(id), &f->err));
    CHECK_INT(EF_RUN_CANCELLED, drive(f, id, -1));
    CHECK_TEXT("{\"n\":1000,\"sum\":1000}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void a_run_without_a_driver_fails_with_the_reason(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    char id[64];

    (void)state;
    start(f);
    OK(ef__run_request(f->journal,
                       &(ef_run){.mode = EF_RUN_SEED, .projection = EF_STR("sums"), .total = -1},
                       &runs, &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    CHECK_INT(EF_RUN_FAILED, drive(f, id, -1));
    OK(test_run_read(f->journal, id, &runs, &f->err));
    CHECK(runs.items[0].error.len > 0);
    EF_RELEASE(&runs);
    fixture_close(f);
}

/* The keys are those of a version that did not store the state by name. */
static void the_state_of_a_rebuild_is_read_from_an_older_record(void **state)
{
    const struct {
        const char *detail;
        ef__rebuild_state state;
        bool compared, switched;
    } cases[] = {
        {"{}", EF__REBUILD_REQUESTED, false, false},
        {"{\"generation\":1,\"built\":2}", EF__REBUILD_RESERVED, false, false},
        {"{\"in_place\":true,\"built\":2,\"swapped\":true}", EF__REBUILD_REPLACED, false, false},
        {"{\"built\":2,\"compared\":true,\"views\":3}", EF__REBUILD_COMPARED, true, false},
        {"{\"built\":2,\"compared\":true,\"switched\":true}", EF__REBUILD_SWITCHED, true, true},
        {"{\"built\":2,\"switched\":true}", EF__REBUILD_ADOPTED, false, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ef_error err = EF_ERROR_INIT;
        ef__arena arena = EF__ARENA_INIT(65536);
        ef__buf text = EF__BUF_INIT(65536);
        ef__detail detail, again;
        ef_run run = {.detail = ef_str_from(cases[i].detail)};
        ef_verdict verdict;
        CHECK_STATUS(EF_OK, ef__detail_parse(run.detail, &arena, &detail, &err), &err);
        CHECK_INT(cases[i].state, detail.rebuild);
        CHECK(ef__detail_write(&detail, &text));
        CHECK_STATUS(EF_OK, ef__detail_parse(ef__buf_str(&text), &arena, &again, &err), &err);
        CHECK_INT(cases[i].state, again.rebuild);
        CHECK_STATUS(EF_OK, ef_run_verdict(&run, &verdict, &err), &err);
        CHECK_INT(cases[i].compared, verdict.compared);
        CHECK_INT(cases[i].switched, verdict.switched);
        ef__buf_release(&text);
        ef__arena_release(&arena);
    }
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_over_all_projections_and_single_ones_exclude_each_other),
        cmocka_unit_test(a_worker_drives_queued_runs),
        cmocka_unit_test(a_replay_of_applied_events_finds_duplicates),
        cmocka_unit_test(a_replay_applies_missing_events),
        cmocka_unit_test(a_replay_adds_rows_for_failed_and_blocked_events),
        cmocka_unit_test(bounds_are_inclusive_and_an_empty_window_is_no_error),
        cmocka_unit_test(a_replay_with_contradictory_bounds_is_refused),
        cmocka_unit_test(a_validation_folds_and_changes_nothing),
        cmocka_unit_test(another_worker_continues_a_replay_after_a_crash),
        cmocka_unit_test(another_worker_continues_a_rebuild_without_a_second_build),
        cmocka_unit_test(an_outage_keeps_a_run_running_with_the_reason),
        cmocka_unit_test(a_run_backs_off_during_an_outage),
        cmocka_unit_test(a_run_in_back_off_does_not_delay_others),
        cmocka_unit_test(damage_ends_a_run),
        cmocka_unit_test(a_cancelled_replay_keeps_what_it_has_committed),
        cmocka_unit_test(a_run_without_a_driver_fails_with_the_reason),
        cmocka_unit_test(the_state_of_a_rebuild_is_read_from_an_older_record),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
