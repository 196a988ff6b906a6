/*
 * test_skips.c - an event that an operator skipped stays skipped, however often it is folded.
 */
#include "engine_fixture.h"

#include "../support/outbox_calls.h"

#include "../../src/engine/engine_priv.h"

#include <everfold/replay.h>

/* It applies the events that version 1 fails on. */
static const char SUMS_2[] = "projection sums version 2\n"
                             "  view data.of\n"
                             "on added\n"
                             "  n += 10\n";

static void skip_event(fixture *f, const char *stream, int64_t seq)
{
    ef_row_list rows = {0};

    OK(ef__outbox_skip(f->journal,
                       &(ef_outbox_action){.stream = ef_str_from(stream),
                                           .seq = seq,
                                           .lane = EF_STR("sums"),
                                           .actor = EF_STR("ana"),
                                           .reason = EF_STR("a typo"),
                                           .versions = (const int32_t[]){1},
                                           .version_count = 1},
                       &rows, &f->err));
    EF_RELEASE(&rows);
}

/* As an operator does: for the versions that are blocked there. */
static ef_status try_skip(fixture *f, const char *stream, int64_t seq)
{
    ef_row_list rows = {0};
    ef_status st = ef_projection_skip(f->engine,
                                      &(ef_outbox_action){.stream = ef_str_from(stream),
                                                          .seq = seq,
                                                          .lane = EF_STR("sums"),
                                                          .actor = EF_STR("ana"),
                                                          .reason = EF_STR("a typo")},
                                      &rows, &f->err);

    EF_RELEASE(&rows);
    return st;
}

/* Of stream s: 1 good, 2 bad, 3 and 4 good; 2 is skipped, and so is 3, which is good. */
static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", GOOD);
    drain(f);
    skip_event(f, "s", 2);
    skip_event(f, "s", 3);
    drain(f);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
}

static void check_generation(fixture *f, int32_t number, int64_t applied, int64_t skipped)
{
    ef__generation_list list = {0};
    bool found = false;

    OK(ef__memory_prepare(&list.room, &f->err));
    OK(f->engine->views->ops->generation_ls(f->engine->views, EF_STR("sums"), &list, &f->err));
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].number == number) {
            found = true;
            CHECK_INT(applied, list.items[i].applied);
            CHECK_INT(skipped, list.items[i].skipped);
        }
    CHECK(found);
    EF_RELEASE(&list);
}

static void rebuild(fixture *f, bool in_place)
{
    ef_run_list runs = {0};
    char id[64];

    OK(ef_projection_rebuild(f->engine,
                             &(ef_rebuild){.projection = EF_STR("sums"), .in_place = in_place},
                             &runs, &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    drain(f);
}

/* How many views differ from what the journal makes. */
static int64_t differences(fixture *f)
{
    ef_run_list runs = {0};
    ef_verdict verdict;
    char id[64];

    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("sums"), .verify = true, .actor = EF_STR("ana")}, &runs,
        &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    OK(test_run_read(f->journal, id, &runs, &f->err));
    OK(ef_run_verdict(&runs.items[0], &verdict, &f->err));
    CHECK(verdict.compared);
    EF_RELEASE(&runs);
    return verdict.differences;
}

static void a_side_build_skips_skipped_events(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    rebuild(f, false);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    check_generation(f, 2, 3, 2);
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

static void a_rebuild_in_place_skips_skipped_events(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    rebuild(f, true);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    check_generation(f, 2, 3, 2);
    check_accounts(f, "sums", "live", 0);
    CHECK_INT(0, summary_of(f, "sums").pending + summary_of(f, "sums").failed);
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void a_verification_finds_no_drift_after_a_skip(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    CHECK_INT(0, differences(f));
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void a_lost_view_store_is_rebuilt_without_skipped_events(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    ef_engine_close(f->engine);
    if (fixture_has_files(f))
        (void)snprintf(f->views_url, sizeof f->views_url, "sqlite:%.60s/new.db", f->folder);
    OK(ef_engine_open(&(ef_engine_options){.journal = f->journal,
                                           .views_url = f->views_url,
                                           .create = true,
                                           .clock = &f->clock,
                                           .worker = EF_STR("w1")},
                      &f->engine, &f->err));
    deploy(f, SUMS);
    drain(f);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    check_generation(f, 1, 3, 2);
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

/* A row that is skipped while another version has the event already: that one keeps it. */
static void a_skip_does_not_hold_for_another_version(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    drain(f);
    deploy(f, SUMS_2);
    drain(f);
    CHECK_STATUS(EF_OK, try_skip(f, "s", 2), &f->err); /* only version 1 is blocked there */
    drain(f);
    check_generation(f, 1, 1, 1);
    check_generation(f, 2, 2, 0);
    OK(ef_projection_switch(
        f->engine, &(ef_generation_choice){.projection = EF_STR("sums"), .version = 2}, &f->err));
    CHECK_TEXT("{\"n\":20}", view_data(f, "sums", "a"));
    CHECK_INT(0, differences(f));
    rebuild(f, true);
    CHECK_TEXT("{\"n\":20}", view_data(f, "sums", "a"));
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

/* The leftover row of version 1 was skipped while version 2 was catching up again: that took the
 * event out of version 2. */
static void a_skip_never_reaches_a_version_that_has_applied_the_event(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    drain(f);
    deploy(f, SUMS_2);
    drain(f);
    OK(ef_projection_switch(
        f->engine, &(ef_generation_choice){.projection = EF_STR("sums"), .version = 2}, &f->err));
    CHECK_INT(0, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    CHECK_STATUS(EF_NOT_FOUND, try_skip(f, "s", 2), &f->err);
    rebuild(f, false);
    CHECK_TEXT("{\"n\":20}", view_data(f, "sums", "a"));
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

static void a_skip_is_refused_where_no_version_is_blocked_at_the_event(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    CHECK_STATUS(EF_NOT_FOUND, try_skip(f, "s", 2), &f->err); /* nothing has failed yet */
    drain(f);
    CHECK_STATUS(EF_CONFLICT, try_skip(f, "s", 3), &f->err); /* it only waits for seq 2 */
    CHECK_STATUS(EF_OK, try_skip(f, "s", 2), &f->err);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void the_history_of_a_view_excludes_skipped_events(void **state)
{
    fixture fx, *f = &fx;
    ef_view_list views = {0};
    ef_batch events = EF_BATCH_INIT;

    (void)state;
    start(f);
    OK(ef_view_at(f->engine, EF_STR("sums"), EF_STR(""), EF_STR("a"), 4, NULL, &views, &f->err));
    CHECK_STR("{\"n\":2,\"sum\":2}", views.items[0].data);
    OK(ef_view_explain(f->engine, EF_STR("sums"), EF_STR(""), EF_STR("a"), 10, NULL, &events,
                       &f->err));
    CHECK_INT(3, events.count);
    CHECK_INT(4, events.events[1].seq);
    EF_RELEASE(&events);
    EF_RELEASE(&views);
    fixture_close(f);
}

/* --- skip and record ---------------------------------------------------------------------------
 */

static void tell(fixture *f, ef_on_error what)
{
    OK(ef_projection_on_error(f->engine, EF_STR("sums"), what, EF_STR("ana"),
                              EF_STR("late is worse than wrong"), &f->err));
}

/* Of stream s: 1 good, 2 bad, 3 good; time enough for all attempts at 2. */
static void let_fail(fixture *f)
{
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    for (int s = 0; s < 140; s++) {
        drain(f);
        pass_time(f, SECOND);
    }
}

static void check_policy(fixture *f, bool skips)
{
    ef_projection_list list = {0};

    OK(ef_projection_ls(f->engine, EF_STR("sums"), &list, &f->err));
    CHECK_INT(skips, list.items[0].skips_errors);
    EF_RELEASE(&list);
}

static void start_policy(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    check_policy(f, false);
}

static void a_projection_set_to_skip_skips_after_the_last_attempt(void **state)
{
    fixture fx, *f = &fx;
    ef_failure_list failures = {0};

    (void)state;
    start_policy(f);
    tell(f, EF_ON_ERROR_SKIP);
    check_policy(f, true);
    let_fail(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    check_generation(f, 1, 2, 1);
    check_accounts(f, "sums", "live", 0);
    OK(ef_projection_failures(f->engine,
                              &(ef_failure_query){.projection = EF_STR("sums"), .resolved = true},
                              &failures, &f->err));
    CHECK_INT(1, failures.count);
    CHECK_INT(8, failures.items[0].attempts);
    CHECK(!failures.items[0].open);
    EF_RELEASE(&failures);
    rebuild(f, false);
    check_generation(f, 2, 2, 1);
    fixture_close(f);
}

static void dead_rows_are_skipped_when_the_policy_is_set_to_skip(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    let_fail(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    tell(f, EF_ON_ERROR_SKIP);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

static void a_projection_set_back_to_stop_stops(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    tell(f, EF_ON_ERROR_SKIP);
    tell(f, EF_ON_ERROR_STOP);
    check_policy(f, false);
    let_fail(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* The worker that counted the last attempt crashed in it: the row is dead, and no worker has
 * checked it. */
static void a_row_that_died_with_its_worker_is_skipped_later(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    let_fail(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    /* The store only: ef_projection_on_error would skip the dead rows itself. */
    OK(f->engine->views->ops->on_error_set(f->engine->views, EF_STR("sums"), EF_ON_ERROR_SKIP,
                                           &f->err));
    drain(f);
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK_INT(0, summary_of(f, "sums").dead);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* --- a process that ended before the skip was carried out ---------------------------------------
 */

/* Begin the attempt after the last one at the event as a worker would that then ends. */
static void try_and_vanish(fixture *f, int64_t position)
{
    ef_retry_row row = {.lane = EF_STR("sums"),
                        .position = position,
                        .status = EF_ROW_FAILED,
                        .attempts = 9,
                        .error = EF_STR("n is no number"),
                        .trying = true};
    ef_partition_lease held[64];
    int64_t until_us;

    pass_time(f, 11 * SECOND);
    for (int32_t p = 0; p < f->engine->queue.membership.partitions; p++) {
        held[p] = (ef_partition_lease){.partition = p};
        OK(ef__lease_acquire_one(f->journal,
                                 &(ef_lease_key){.kind = EF_LEASE_PARTITION, .partition = p},
                                 EF_STR("ghost"), 10000, &held[p].token, &until_us, &f->err));
    }
    OK(test_ack(f->journal, EF_STR("sums"), held, (size_t)f->engine->queue.membership.partitions,
                &row, 1, &f->err));
    pass_time(f, 11 * SECOND);
}

static void a_skip_is_carried_out_after_a_crash_in_the_attempt(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    let_fail(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    CHECK_STATUS(EF_OK, try_skip(f, "s", 2), &f->err);
    try_and_vanish(f, 2);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    check_generation(f, 1, 2, 1);
    check_accounts(f, "sums", "live", 0);
    CHECK_INT(0, summary_of(f, "sums").dead + summary_of(f, "sums").pending);
    CHECK_INT(0, differences(f));
    fixture_close(f);
}

/* The version that passes the event does; the row is dead for the one that does not. */
static void a_version_that_crashes_its_worker_does_not_prevent_a_skip(void **state)
{
    static const char also_fails[] = "projection sums version 2\n"
                                     "  view data.of\n"
                                     "on added\n"
                                     "  n += 2 / data.good\n";
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    deploy(f, also_fails);
    let_fail(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    skip_event(f, "s", 2); /* for version 1 only */
    try_and_vanish(f, 2);
    drain(f);
    check_generation(f, 1, 1, 1); /* what is behind a dead row waits, for all versions */
    check_generation(f, 2, 1, 0);
    CHECK_INT(1, summary_of(f, "sums").dead);
    CHECK_STATUS(EF_OK, try_skip(f, "s", 2), &f->err);
    drain(f);
    check_generation(f, 1, 2, 1);
    check_generation(f, 2, 2, 1);
    CHECK_INT(0, summary_of(f, "sums").dead + summary_of(f, "sums").pending);
    fixture_close(f);
}

static void an_unknown_projection_or_policy_is_refused(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_policy(f);
    REFUSED(EF_NOT_FOUND, ef_projection_on_error(f->engine, EF_STR("sons"), EF_ON_ERROR_SKIP,
                                                 EF_STR(""), EF_STR(""), &f->err));
    REFUSED(EF_BAD_INPUT, ef_projection_on_error(f->engine, EF_STR("sums"), (ef_on_error)2,
                                                 EF_STR(""), EF_STR(""), &f->err));
    check_policy(f, false);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_side_build_skips_skipped_events),
        cmocka_unit_test(a_rebuild_in_place_skips_skipped_events),
        cmocka_unit_test(a_verification_finds_no_drift_after_a_skip),
        cmocka_unit_test(a_lost_view_store_is_rebuilt_without_skipped_events),
        cmocka_unit_test(a_skip_does_not_hold_for_another_version),
        cmocka_unit_test(a_skip_never_reaches_a_version_that_has_applied_the_event),
        cmocka_unit_test(a_skip_is_refused_where_no_version_is_blocked_at_the_event),
        cmocka_unit_test(the_history_of_a_view_excludes_skipped_events),
        cmocka_unit_test(a_projection_set_to_skip_skips_after_the_last_attempt),
        cmocka_unit_test(dead_rows_are_skipped_when_the_policy_is_set_to_skip),
        cmocka_unit_test(a_projection_set_back_to_stop_stops),
        cmocka_unit_test(a_row_that_died_with_its_worker_is_skipped_later),
        cmocka_unit_test(a_skip_is_carried_out_after_a_crash_in_the_attempt),
        cmocka_unit_test(a_version_that_crashes_its_worker_does_not_prevent_a_skip),
        cmocka_unit_test(an_unknown_projection_or_policy_is_refused),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
