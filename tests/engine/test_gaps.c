/*
 * test_gaps.c - events that a projection lacks: found, distinguished from late ones, and applied.
 */
#include "engine_fixture.h"

#include "../../src/engine/engine_priv.h"

/* Without an outbox: what is appended past the engine is a gap. */
static void start(fixture *f)
{
    fixture_open(f, EF_MODE_INLINE_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
}

static size_t gap_count(fixture *f)
{
    ef_gap_list gaps = {0};
    size_t count;

    OK(ef_gap_ls(f->engine, false, &gaps, &f->err));
    count = gaps.count;
    EF_RELEASE(&gaps);
    return count;
}

static void a_gap_is_found_with_its_first_and_last_seq(void **state)
{
    fixture fx, *f = &fx;
    ef_gap_list gaps = {0};

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    append(f, "whole", "added", GOOD);
    append_past(f, "s", GOOD);
    append_past(f, "s", GOOD);
    OK(ef_gap_ls(f->engine, false, &gaps, &f->err));
    CHECK_INT(1, gaps.count);
    CHECK_STR("sums", gaps.items[0].projection);
    CHECK_STR("s", gaps.items[0].stream);
    CHECK_INT(1, gaps.items[0].applied_seq);
    CHECK_INT(2, gaps.items[0].expected_next_seq);
    CHECK_INT(3, gaps.items[0].journal_seq);
    CHECK_INT(0, gaps.items[0].replayed);
    EF_RELEASE(&gaps);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void a_gap_is_repaired_through_the_same_apply(void **state)
{
    fixture fx, *f = &fx;
    ef_gap_list gaps = {0};

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    append_past(f, "s", GOOD);
    append_past(f, "new", GOOD);
    OK(ef_gap_ls(f->engine, true, &gaps, &f->err));
    CHECK_INT(2, gaps.count);
    CHECK_INT(1, gaps.items[0].replayed);
    CHECK_INT(1, gaps.items[1].replayed);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    check_accounts(f, "sums", "live", 0);
    OK(ef_gap_ls(f->engine, true, &gaps, &f->err));
    CHECK_INT(0, gaps.count);
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    EF_RELEASE(&gaps);
    fixture_close(f);
}

static void a_gap_of_more_than_one_batch_is_closed(void **state)
{
    fixture fx, *f = &fx;
    ef_gap_list gaps = {0};

    (void)state;
    start(f);
    for (int i = 0; i < 2100; i++)
        append_past(f, "s", GOOD);
    OK(ef_gap_ls(f->engine, true, &gaps, &f->err));
    CHECK_INT(1, gaps.count);
    CHECK_INT(2100, gaps.items[0].replayed);
    CHECK_TEXT("{\"n\":2100,\"sum\":2100}", view_data(f, "sums", "a"));
    EF_RELEASE(&gaps);
    fixture_close(f);
}

static void a_gap_repair_with_a_poison_event_reports_the_rest(void **state)
{
    fixture fx, *f = &fx;
    ef_gap_list gaps = {0};

    (void)state;
    start(f);
    append_past(f, "s", GOOD);
    append_past(f, "s", BAD);
    append_past(f, "s", GOOD);
    OK(ef_gap_ls(f->engine, true, &gaps, &f->err));
    CHECK_INT(1, gaps.items[0].replayed);
    CHECK_INT(3, gaps.items[0].journal_seq);
    CHECK_INT(1, summary_of(f, "sums").failed);
    EF_RELEASE(&gaps);
    CHECK_INT(0, gap_count(f)); /* now it waits in the lane */
    fixture_close(f);
}

static void lag_is_not_a_gap(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", BAD);
    append(f, "t", "added", GOOD);
    CHECK_INT(0, gap_count(f)); /* queued */
    drain(f);
    CHECK_INT(0, gap_count(f)); /* failed, and behind it */
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void ignored_events_are_not_a_gap(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    OK(ef_type_set(f->journal,
                   &(ef_type){.name = EF_STR("audited"), .intent = EF_INTENT_AUDIT_ONLY}, &f->err));
    append(f, "s", "added", GOOD);
    append(f, "s", "audited", "{}");
    append(f, "s", "nobodys", "{}");
    append(f, "s", "added", GOOD);
    CHECK_INT(0, gap_count(f));
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void a_worker_closes_gaps_when_it_starts(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t = {.more = true};

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return; /* views in memory end with their engine */
    start(f);
    append(f, "s", "added", GOOD);
    append_past(f, "s", GOOD);
    drain(f);
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    ef_engine_close(f->engine);
    f->engine = fixture_engine(f, "w1");
    for (int i = 0; i < 20 && t.more; i++)
        t = tick(f);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

static ef_status refuse_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    (void)views;
    (void)commit;
    return ef_fail(err, EF_BUSY, "the test refuses it");
}

/* In this mode nothing but the gap check brings the event again. */
static void a_gap_of_a_failed_inline_fold_is_closed_by_a_worker(void **state)
{
    fixture fx, *f = &fx;
    const ef__views_ops *ops;
    ef__views_ops refusing;

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK(f->engine->queue.gaps.is_done);
    ops = f->engine->views->ops;
    refusing = *ops;
    refusing.commit = refuse_commit;
    f->engine->views->ops = &refusing;
    append(f, "s", "added", GOOD);
    f->engine->views->ops = ops;
    CHECK(!f->engine->queue.gaps.is_done);
    CHECK_INT(1, gap_count(f));
    drain(f);
    CHECK_INT(0, gap_count(f));
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* Of two workers only the holder of the first partition checks; the later one checks when it gets
 * that partition. */
static void only_one_worker_checks_for_gaps(void **state)
{
    fixture fx, *f = &fx;
    ef_engine *first;

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return; /* views in memory are one engine's */
    start(f);
    append(f, "s", "added", GOOD);
    drain(f);
    first = f->engine;
    f->engine = fixture_engine(f, "w2");
    append_past(f, "s", GOOD);
    drain(f);
    CHECK(!f->engine->queue.gaps.is_done);
    CHECK_INT(1, gap_count(f));
    ef_engine_close(first);
    atomic_fetch_add(&f->now_us, INT64_C(60000000));
    drain(f);
    CHECK(f->engine->queue.gaps.is_done);
    CHECK_INT(0, gap_count(f));
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* A worker that has just started, with `events` events in its queue. False: views in memory end
 * with their engine. */
static bool start_behind(fixture *f, int events)
{
    if (strcmp(fixture_backend, "memory") == 0)
        return false;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    ef_engine_close(f->engine);
    f->engine = fixture_engine(f, "w1");
    for (int i = 0; i < events; i++)
        append(f, "s", "added", GOOD);
    return true;
}

static void a_long_queue_is_applied_before_the_gap_check(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t = {.more = true};
    int before = 0;

    (void)state;
    if (!start_behind(f, 5))
        return;
    for (int i = 0; i < 20 && t.more; i++) {
        OK(ef_engine_work(f->engine, &(ef_work_options){.batch = 2}, &t, &f->err));
        before += t.claimed > 0 && !f->engine->queue.gaps.is_done;
    }
    CHECK(!t.more);
    CHECK_INT(1, before); /* of 2 and the other 3: the queue was longer than a batch once */
    CHECK(f->engine->queue.gaps.is_done);
    fixture_close(f);
}

static void a_gap_check_waits_for_a_long_queue_a_minute_at_most(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t = {0};

    (void)state;
    if (!start_behind(f, 300))
        return;
    for (int i = 0; i < 2; i++) {
        CHECK(!f->engine->queue.gaps.is_done);
        OK(ef_engine_work(f->engine, &(ef_work_options){.batch = 2}, &t, &f->err));
        CHECK(t.more);
        atomic_fetch_add(&f->now_us, INT64_C(31000000));
    }
    OK(ef_engine_work(f->engine, &(ef_work_options){.batch = 2}, &t, &f->err));
    CHECK(t.more);
    CHECK(f->engine->queue.gaps.is_done);
    fixture_close(f);
}

static void a_retry_row_is_replayed_at_once(void **state)
{
    fixture fx, *f = &fx;
    ef_outbox_action act = {.stream = EF_STR("s"), .seq = 1, .actor = EF_STR("ana")};
    ef_row_list rows = {0};

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    append(f, "s", "added", BAD);
    REFUSED(EF_NOT_FOUND, ef_outbox_replay(f->engine, &act, 0, &rows, &f->err));
    drain(f);
    OK(ef_outbox_replay(f->engine, &act, 0, &rows, &f->err));
    CHECK_INT(1, rows.count);
    CHECK_INT(2, rows.items[0].attempt_count);
    CHECK_INT(EF_ROW_FAILED, rows.items[0].status);
    EF_RELEASE(&rows);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gap_is_found_with_its_first_and_last_seq),
        cmocka_unit_test(a_gap_is_repaired_through_the_same_apply),
        cmocka_unit_test(a_gap_of_more_than_one_batch_is_closed),
        cmocka_unit_test(a_gap_repair_with_a_poison_event_reports_the_rest),
        cmocka_unit_test(lag_is_not_a_gap),
        cmocka_unit_test(ignored_events_are_not_a_gap),
        cmocka_unit_test(a_worker_closes_gaps_when_it_starts),
        cmocka_unit_test(a_gap_of_a_failed_inline_fold_is_closed_by_a_worker),
        cmocka_unit_test(only_one_worker_checks_for_gaps),
        cmocka_unit_test(a_long_queue_is_applied_before_the_gap_check),
        cmocka_unit_test(a_gap_check_waits_for_a_long_queue_a_minute_at_most),
        cmocka_unit_test(a_retry_row_is_replayed_at_once),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
