/*
 * test_alarm.c - an event that is not the one that was applied under its seq.
 *
 * This happens after the journal was restored from an older copy: it has lost events that were
 * folded, and new ones have their seqs. The right views of the stream are not known, so no event of
 * it is folded until an operator decides.
 */
#include "engine_fixture.h"

#include "../../src/engine/scope.h"

static const char COUNTS[] = "projection counts version 1\n"
                             "  view stream\n"
                             "on *\n"
                             "  n += 1\n";

static const char FOLLOWS[] = "projection follows version 1\n"
                              "  order by log\n"
                              "  view stream\n"
                              "on *\n"
                              "  n += 1\n";

static const char OTHERS[] = "projection others version 1\n"
                             "  view stream\n"
                             "on *\n"
                             "  n += 1\n";

static int64_t generation_of(fixture *f, const char *name)
{
    ef__generation_list list = {0};
    const ef__generation *found;
    int64_t id;

    OK(ef__engine_active_generation(f->engine, ef_str_from(name), &list, &found, &f->err));
    id = found->id;
    ef_memory_release(&list.room);
    return id;
}

static ef__watermark mark_of(fixture *f, const char *name, const char *stream)
{
    ef_views *views = f->engine->views;
    ef__watermark mark = {0};
    bool found;

    OK(views->ops->watermark_get(views, generation_of(f, name), (ef_str){0}, ef_str_from(stream),
                                 &mark, &found, &f->err));
    return mark;
}

/* The views get another watermark: `applied` more events count as applied with it. */
static void set_mark_of(fixture *f, const char *name, const char *stream, ef__watermark after,
                        int64_t applied)
{
    ef_views *views = f->engine->views;
    ef__generation_list list = {0};
    const ef__generation *g;
    ef__watermark_change mark = {
        .stream = ef_str_from(stream), .before = mark_of(f, name, stream), .after = after};

    OK(ef__engine_active_generation(f->engine, ef_str_from(name), &list, &g, &f->err));
    OK(views->ops->commit(
        views,
        &(ef__views_commit){.generations = &(ef__generation_change){.generation = g->id,
                                                                    .era = g->era,
                                                                    .applied = applied,
                                                                    .watermarks = &mark,
                                                                    .watermark_count = 1},
                            .generation_count = 1},
        &f->err));
    ef_memory_release(&list.room);
}

static void set_mark(fixture *f, const char *stream, ef__watermark after, int64_t applied)
{
    set_mark_of(f, "counts", stream, after, applied);
}

/* "counts" has applied some seq 1 of stream s that the journal has lost since; the one that has
 * come instead is queued. */
static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, COUNTS);
    deploy(f, OTHERS);
    drain(f);
    append(f, "s", "added", "{}");
    set_mark(f, "s", (ef__watermark){1, 2, {0xab}}, 1);
}

/* "counts" has applied three events of stream s, of which the journal has lost at least the last
 * two; one is there, or has come instead of the first. */
static void start_ahead(fixture *f)
{
    start(f);
    set_mark(f, "s", (ef__watermark){3, 4, {0xab}}, 2);
}

static void check_failures(fixture *f, size_t open, size_t all)
{
    ef_failure_list list = {0};

    OK(ef_projection_failures(f->engine, &(ef_failure_query){.projection = EF_STR("counts")}, &list,
                              &f->err));
    CHECK_INT(open, list.count);
    if (open) {
        CHECK_STR("hash_mismatch", list.items[0].code);
        CHECK_STR("s", list.items[0].stream);
        CHECK_INT(1, list.items[0].seq);
    }
    OK(ef_projection_failures(f->engine,
                              &(ef_failure_query){.projection = EF_STR("counts"), .resolved = true},
                              &list, &f->err));
    CHECK_INT(all, list.count);
    EF_RELEASE(&list);
}

static void let_pass(fixture *f, int64_t seq)
{
    ef_row_list rows = {0};

    OK(ef__outbox_skip(f->journal,
                       &(ef_outbox_action){.stream = EF_STR("s"),
                                           .seq = seq,
                                           .lane = EF_STR("counts"),
                                           .actor = EF_STR("ana"),
                                           .reason = EF_STR("the copy lacked it"),
                                           .versions = (const int32_t[]){1},
                                           .version_count = 1},
                       &rows, &f->err));
    EF_RELEASE(&rows);
}

static void requeue(fixture *f)
{
    ef_row_list rows = {0};

    OK(ef_outbox_requeue_dead(
        f->journal,
        &(ef_outbox_bulk){.lane = EF_STR("counts"), .actor = EF_STR("ana"), .limit = 10}, NULL,
        &rows, &f->err));
    CHECK_INT(1, rows.count);
    EF_RELEASE(&rows);
}

/* Time enough for its attempts: it is dead then. */
static void let_it_die(fixture *f)
{
    for (int s = 0; s < 130; s++) {
        pass_time(f, SECOND);
        drain(f);
    }
    CHECK_INT(1, summary_of(f, "counts").dead);
}

static void a_replaced_event_fails_and_blocks_its_stream_in_any_batch(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", "{}"); /* in the same batch */
    CHECK_INT(1, drain(f).failed);
    append(f, "s", "added", "{}"); /* in another */
    append(f, "t", "added", "{}");
    drain(f);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    CHECK_TEXT("{\"n\":1}", view_data(f, "counts", "t"));
    CHECK_TEXT("{\"n\":3}", view_data(f, "others", "s"));
    check_failures(f, 1, 1);
    let_it_die(f);
    append(f, "s", "added", "{}"); /* and in one long after */
    drain(f);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    CHECK_INT(3, summary_of(f, "counts").blocked);
    check_failures(f, 1, 1);
    CHECK(ef__watermark_is_blocked(&(ef__watermark){1, 1, {0}}));
    CHECK_INT(1, mark_of(f, "counts", "s").expected_next_seq);
    fixture_close(f);
}

static void a_replaced_event_blocks_a_projection_that_skips_failed_events(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    OK(ef_projection_on_error(f->engine, EF_STR("counts"), EF_ON_ERROR_SKIP, EF_STR("ana"),
                              EF_STR(""), &f->err));
    append(f, "s", "added", "{}");
    drain(f);
    let_it_die(f);
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK_INT(1, summary_of(f, "counts").dead);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    check_failures(f, 1, 1);
    fixture_close(f);
}

static void a_replaced_event_stops_a_log_ordered_projection_that_skips_failed_events(void **state)
{
    fixture fx, *f = &fx;
    ef_projection_list list = {0};
    ef_failure_list failures = {0};

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, FOLLOWS);
    drain(f);
    OK(ef_projection_on_error(f->engine, EF_STR("follows"), EF_ON_ERROR_SKIP, EF_STR("ana"),
                              EF_STR(""), &f->err));
    append(f, "s", "added", "{}");
    set_mark_of(f, "follows", "s", (ef__watermark){1, 2, {0xab}}, 1);
    append(f, "t", "added", "{}");
    for (int s = 0; s < 200; s++) {
        pass_time(f, SECOND);
        drain(f);
    }
    CHECK_TEXT("", view_data(f, "follows", "s"));
    CHECK_TEXT("", view_data(f, "follows", "t"));
    OK(ef_projection_ls(f->engine, EF_STR("follows"), &list, &f->err));
    CHECK_INT(0, list.items[0].skipped);
    CHECK_INT(0, list.items[0].position);
    EF_RELEASE(&list);
    OK(ef_projection_failures(f->engine, &(ef_failure_query){.projection = EF_STR("follows")},
                              &failures, &f->err));
    CHECK_INT(1, failures.count);
    CHECK_STR("hash_mismatch", failures.items[0].code);
    EF_RELEASE(&failures);
    fixture_close(f);
}

static void a_requeue_of_a_replaced_event_fails_again(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", "{}");
    drain(f);
    let_it_die(f);
    requeue(f);
    CHECK_INT(1, drain(f).failed);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    check_failures(f, 1, 1);
    fixture_close(f);
}

static void a_skip_of_a_later_event_does_not_unblock_the_stream(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", "{}");
    append(f, "s", "added", "{}");
    drain(f);
    let_pass(f, 2);
    let_it_die(f);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    check_failures(f, 1, 1);
    fixture_close(f);
}

static void a_skip_accepts_the_replaced_event(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    drain(f);
    for (int i = 0; i < 20; i++)
        append(f, "s", "added", "{}");
    drain(f);
    let_pass(f, 1);
    drain(f);
    CHECK_TEXT("{\"n\":20}", view_data(f, "counts", "s"));
    CHECK_INT(0, summary_of(f, "counts").pending);
    check_failures(f, 0, 1);
    check_accounts(f, "counts", "live", 0);
    append(f, "s", "added", "{}");
    drain(f);
    CHECK_TEXT("{\"n\":21}", view_data(f, "counts", "s"));
    fixture_close(f);
}

static void the_restored_event_unblocks_the_stream(void **state)
{
    fixture fx, *f = &fx;
    ef__watermark mark;
    ef_batch batch = EF_BATCH_INIT;

    (void)state;
    start(f);
    append(f, "s", "added", "{}");
    drain(f);
    let_it_die(f);
    /* As if the journal were the one again that the views were made from. */
    mark = mark_of(f, "counts", "s");
    OK(ef_journal_read_stream(f->journal, (ef_str){0}, EF_STR("s"), 1, 1, &batch, &f->err));
    memcpy(mark.hash, batch.events[0].hash, sizeof mark.hash);
    EF_RELEASE(&batch);
    set_mark(f, "s", mark, 0);
    requeue(f);
    drain(f);
    CHECK_TEXT("{\"n\":1}", view_data(f, "counts", "s"));
    check_failures(f, 0, 1);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

static void a_rebuild_in_place_unblocks_the_stream(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};

    (void)state;
    start(f);
    append(f, "s", "added", "{}");
    drain(f);
    OK(ef_projection_rebuild(f->engine,
                             &(ef_rebuild){.projection = EF_STR("counts"), .in_place = true}, &runs,
                             &f->err));
    EF_RELEASE(&runs);
    for (int i = 0; i < 20; i++) {
        drain(f);
        pass_time(f, SECOND);
    }
    CHECK_TEXT("{\"n\":2}", view_data(f, "counts", "s"));
    check_failures(f, 0, 0);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

static void another_worker_finds_the_stream_blocked(void **state)
{
    fixture fx, *f = &fx;
    ef_engine *second;
    ef_tick t = {.more = true};

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return; /* stores in memory belong to one engine */
    start(f);
    drain(f);
    pass_time(f, 60 * SECOND);
    append(f, "s", "added", "{}");
    second = fixture_engine(f, "w1");
    while (t.more)
        OK(ef_engine_work(second, NULL, &t, &f->err));
    ef_engine_close(second);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    CHECK_TEXT("{\"n\":2}", view_data(f, "others", "s"));
    fixture_close(f);
}

static void replaced_events_below_the_watermark_block_one_by_one(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_ahead(f);
    CHECK_INT(1, drain(f).failed);
    for (int i = 0; i < 3; i++)
        append(f, "s", "added", "{}");
    drain(f);
    CHECK_TEXT("", view_data(f, "counts", "s"));
    CHECK_TEXT("{\"n\":4}", view_data(f, "others", "s"));
    CHECK_INT(3, summary_of(f, "counts").pending);
    CHECK_INT(1, summary_of(f, "counts").failed);
    check_failures(f, 1, 1);
    CHECK_INT(3, mark_of(f, "counts", "s").applied_seq);
    CHECK_INT(1, mark_of(f, "counts", "s").expected_next_seq);
    fixture_close(f);
}

/* Each of them must be skipped; only then can the stream continue. */
static void skips_of_all_replaced_events_unblock_the_stream_of_a_projection(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start_ahead(f);
    for (int i = 0; i < 4; i++)
        append(f, "s", "added", "{}");
    drain(f);
    for (int64_t seq = 1; seq <= 3; seq++) {
        let_pass(f, seq);
        drain(f);
        CHECK_INT(seq < 3 ? seq + 1 : 6, mark_of(f, "counts", "s").expected_next_seq);
    }
    CHECK_TEXT("{\"n\":2}", view_data(f, "counts", "s"));
    CHECK_INT(5, mark_of(f, "counts", "s").applied_seq);
    check_failures(f, 0, 3);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

static void events_below_the_watermark_are_duplicates_in_the_restored_journal(void **state)
{
    fixture fx, *f = &fx;
    ef__watermark mark;
    ef_batch batch = EF_BATCH_INIT;

    (void)state;
    start_ahead(f);
    append(f, "s", "added", "{}");
    append(f, "s", "added", "{}");
    append(f, "s", "added", "{}");
    drain(f);
    mark = mark_of(f, "counts", "s");
    OK(ef_journal_read_stream(f->journal, (ef_str){0}, EF_STR("s"), 3, 1, &batch, &f->err));
    memcpy(mark.hash, batch.events[0].hash, sizeof mark.hash);
    EF_RELEASE(&batch);
    set_mark(f, "s", mark, 0);
    pass_time(f, 10 * SECOND);
    drain(f);
    CHECK_TEXT("{\"n\":1}", view_data(f, "counts", "s")); /* seq 4 */
    CHECK_INT(0, summary_of(f, "counts").pending);
    check_failures(f, 0, 1);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

/* The projection has read up to `position`, and the process is restarted. */
static void set_cursor(fixture *f, const char *name, int64_t position)
{
    ef_views *views = f->engine->views;
    ef__generation_list list = {0};
    const ef__generation *g;

    OK(ef__engine_active_generation(f->engine, ef_str_from(name), &list, &g, &f->err));
    OK(views->ops->commit(
        views,
        &(ef__views_commit){.generations = &(ef__generation_change){.generation = g->id,
                                                                    .era = g->era,
                                                                    .cursor_before = g->position,
                                                                    .cursor_after = position},
                            .generation_count = 1},
        &f->err));
    ef_memory_release(&list.room);
    for (ef__scope *scope = f->engine->cursor.scopes; scope; scope = scope->next)
        scope->placed = false;
}

static void check_state(fixture *f, const char *name, const char *state)
{
    ef_projection_list list = {0};

    OK(ef_projection_ls(f->engine, ef_str_from(name), &list, &f->err));
    CHECK_STR(state, list.items[0].state);
    EF_RELEASE(&list);
}

static void a_cursor_ahead_of_the_journal_fails_until_a_rebuild(void **state)
{
    fixture fx, *f = &fx;
    ef_failure_list list = {0};
    ef_run_list runs = {0};

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, FOLLOWS);
    append(f, "s", "added", "{}");
    drain(f);
    set_cursor(f, "follows", 3);
    drain(f);
    check_state(f, "follows", "failed");
    for (int i = 0; i < 4; i++) /* in the places of lost ones, and beyond */
        append(f, "s", "added", "{}");
    drain(f);
    check_state(f, "follows", "failed");
    CHECK_TEXT("{\"n\":1}", view_data(f, "follows", "s"));
    OK(ef_projection_failures(f->engine, &(ef_failure_query){.projection = EF_STR("follows")},
                              &list, &f->err));
    CHECK_INT(1, list.count);
    CHECK_STR("journal_lost", list.items[0].code);
    EF_RELEASE(&list);
    OK(ef_projection_rebuild(f->engine,
                             &(ef_rebuild){.projection = EF_STR("follows"), .in_place = true},
                             &runs, &f->err));
    EF_RELEASE(&runs);
    for (int i = 0; i < 5; i++)
        drain(f);
    check_state(f, "follows", "live");
    CHECK_TEXT("{\"n\":5}", view_data(f, "follows", "s"));
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replaced_event_fails_and_blocks_its_stream_in_any_batch),
        cmocka_unit_test(a_replaced_event_blocks_a_projection_that_skips_failed_events),
        cmocka_unit_test(a_replaced_event_stops_a_log_ordered_projection_that_skips_failed_events),
        cmocka_unit_test(a_requeue_of_a_replaced_event_fails_again),
        cmocka_unit_test(a_skip_of_a_later_event_does_not_unblock_the_stream),
        cmocka_unit_test(a_skip_accepts_the_replaced_event),
        cmocka_unit_test(the_restored_event_unblocks_the_stream),
        cmocka_unit_test(a_rebuild_in_place_unblocks_the_stream),
        cmocka_unit_test(another_worker_finds_the_stream_blocked),
        cmocka_unit_test(replaced_events_below_the_watermark_block_one_by_one),
        cmocka_unit_test(skips_of_all_replaced_events_unblock_the_stream_of_a_projection),
        cmocka_unit_test(events_below_the_watermark_are_duplicates_in_the_restored_journal),
        cmocka_unit_test(a_cursor_ahead_of_the_journal_fails_until_a_rebuild),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
