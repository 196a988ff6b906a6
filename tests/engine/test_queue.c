/*
 * test_queue.c - the queue driver: what fails, waits, dies, comes back, and what a process that
 * ended leaves behind.
 */
#include "engine_fixture.h"

#include "../support/outbox_calls.h"

#include "../../src/engine/engine_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fails on an event with bad set. */
static const char COUNTS[] = "projection counts version 1\n"
                             "  view type\n"
                             "on *\n"
                             "  n += 1\n";

static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    deploy(f, COUNTS);
    drain(f);
}

static void a_failed_event_blocks_its_stream_in_its_projection(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    append(f, "other", "added", GOOD);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    CHECK_TEXT("{\"n\":4}", view_data(f, "counts", "added"));
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(1, summary_of(f, "sums").pending);
    CHECK_INT(0, summary_of(f, "*").pending);
    check_accounts(f, "sums", "live", 2);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

/* Neither for folding: under its own name, or under one that it had before. */
static void an_event_that_is_not_folded_is_ignored_and_acknowledged(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t;

    (void)state;
    start(f);
    OK(ef_type_set(f->journal,
                   &(ef_type){.name = EF_STR("audited"), .intent = EF_INTENT_AUDIT_ONLY}, &f->err));
    OK(ef_type_set(f->journal,
                   &(ef_type){.name = EF_STR("replayed"), .intent = EF_INTENT_REPLAY_ONLY},
                   &f->err));
    OK(ef_type_set(f->journal,
                   &(ef_type){.name = EF_STR("was.audited"), .alias_of = EF_STR("audited")},
                   &f->err));
    append(f, "s", "audited", BAD);
    append(f, "s", "replayed", BAD);
    append(f, "s", "was.audited", BAD);
    append(f, "s", "added", GOOD);
    t = drain(f);
    CHECK_INT(4, t.claimed);
    CHECK_INT(2 * 3, t.ignored); /* by both projections */
    CHECK_INT(0, t.failed);
    CHECK_TEXT("", view_data(f, "counts", "audited"));
    CHECK_TEXT("", view_data(f, "counts", "replayed"));
    CHECK_TEXT("{\"n\":1}", view_data(f, "counts", "added"));
    CHECK_INT(0, summary_of(f, "*").pending);
    check_accounts(f, "sums", "live", 0);
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

/* What is tried again, second by second, until it is dead; the times it was tried at. */
static int64_t seconds_until_dead(fixture *f)
{
    for (int64_t s = 0; s < 1000; s++) {
        if (summary_of(f, "sums").dead)
            return s;
        pass_time(f, SECOND);
        drain(f);
    }
    return -1;
}

static void an_event_is_dead_at_the_eighth_failure_and_blocks_its_stream(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    CHECK_INT(1, drain(f).failed);
    /* 1 + 2 + 4 + 8 + 16 + 32 + 64 */
    CHECK_INT(127, seconds_until_dead(f));
    CHECK_INT(1, summary_of(f, "sums").blocked);
    pass_time(f, 10000 * SECOND);
    CHECK_INT(0, drain(f).claimed);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", GOOD);
    drain(f);
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    CHECK_INT(2, summary_of(f, "sums").blocked);
    check_accounts(f, "sums", "live", 3);
    fixture_close(f);
}

/* The warnings of deaths, as lines. */
static void note_death(void *context, ef_log_level level, const char *message,
                       const ef_log_field *fields, uint64_t field_count)
{
    char line[EF_LOG_LINE_MAX], *said = context;

    if (level == EF_LOG_WARN && strstr(message, "is dead"))
        (void)ef_log_line(EF_LOG_JSON, 0, level, message, fields, field_count, line);
    else
        return;
    CHECK_TEXT("", said); /* once */
    (void)snprintf(said, EF_LOG_LINE_MAX, "%s", line);
}

static void a_dead_row_is_logged_with_stream_seq_attempts_and_error(void **state)
{
    char said[EF_LOG_LINE_MAX] = "";
    ef_log log = {.level_min = EF_LOG_WARN, .write = note_death, .context = said};
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    f->engine->options.log = &log;
    append(f, "s", "added", BAD);
    drain(f);
    CHECK_TEXT("", said);
    CHECK_INT(127, seconds_until_dead(f));
    CHECK(strstr(said, "\"projection\":\"sums\"") && strstr(said, "\"stream\":\"s\""));
    CHECK(strstr(said, "\"seq\":1") && strstr(said, "\"attempts\":8"));
    CHECK(strstr(said, "\"error\":\"handler added"));
    f->engine->options.log = NULL;
    fixture_close(f);
}

static void ticks_and_claimed_rows_are_counted(void **state)
{
    fixture fx, *f = &fx;
    ef_engine_counts before, after;
    ef_tick idle = {0};
    int64_t timed = 0;

    (void)state;
    start(f);
    OK(ef_engine_counts_read(f->engine, &before, &f->err));
    for (int i = 0; i < 3; i++)
        append(f, "s", "added", GOOD);
    drain(f);
    OK(ef_engine_work(f->engine, NULL, &idle, &f->err));
    CHECK_INT(0, idle.claimed);
    OK(ef_engine_counts_read(f->engine, &after, &f->err));
    CHECK_INT(3, after.claimed - before.claimed);
    CHECK_INT(1, after.ticks - before.ticks);
    CHECK(after.ticks_empty > before.ticks_empty);
    CHECK_INT(0, after.ticks_failed);
    for (size_t i = 0; i <= EF_COUNTED_BOUNDS; i++)
        timed += after.tick_us.counts[i];
    CHECK_INT(after.ticks, timed);
    fixture_close(f);
}

static void kill_head(fixture *f, int behind)
{
    append(f, "s", "added", BAD);
    for (int i = 0; i < behind; i++)
        append(f, "s", "added", GOOD);
    drain(f);
    CHECK(seconds_until_dead(f) > 0);
}

static void a_skip_unblocks_the_stream_in_order(void **state)
{
    fixture fx, *f = &fx;
    ef_row_list rows = {0};

    (void)state;
    start(f);
    kill_head(f, 300);
    OK(ef__outbox_skip(f->journal,
                       &(ef_outbox_action){.stream = EF_STR("s"),
                                           .seq = 1,
                                           .lane = EF_STR("sums"),
                                           .actor = EF_STR("ana"),
                                           .reason = EF_STR("made by a test"),
                                           .versions = (const int32_t[]){1},
                                           .version_count = 1},
                       &rows, &f->err));
    EF_RELEASE(&rows);
    drain(f);
    CHECK_TEXT("{\"n\":300,\"sum\":300}", view_data(f, "sums", "a"));
    CHECK_INT(0, summary_of(f, "sums").pending);
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

static void a_requeue_starts_with_no_attempts(void **state)
{
    fixture fx, *f = &fx;
    ef_row_list rows = {0};

    (void)state;
    start(f);
    kill_head(f, 1);
    OK(ef_outbox_requeue_dead(
        f->journal, &(ef_outbox_bulk){.lane = EF_STR("sums"), .actor = EF_STR("ana"), .limit = 10},
        NULL, &rows, &f->err));
    CHECK_INT(1, rows.count);
    EF_RELEASE(&rows);
    CHECK_INT(1, drain(f).failed);
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(127, seconds_until_dead(f));
    fixture_close(f);
}

static void a_backlog_is_claimed_in_growing_batches(void **state)
{
    fixture fx, *f = &fx;
    ef_work_options options = {.batch = 10};
    ef_tick t = {.more = true};
    int ticks = 0;

    (void)state;
    start(f);
    for (int i = 0; i < 500; i++)
        append(f, "s", "added", GOOD);
    for (; t.more && ticks < 100; ticks++)
        OK(ef_engine_work(f->engine, &options, &t, &f->err));
    CHECK_TEXT("{\"n\":500,\"sum\":500}", view_data(f, "sums", "a"));
    CHECK(ticks < 20);
    fixture_close(f);
}

static void append_many(fixture *f, size_t count)
{
    ef_new_event *events = calloc(count, sizeof *events);
    ef_place *places = calloc(count, sizeof *places);

    CHECK(events && places);
    for (size_t i = 0; i < count; i++)
        events[i] =
            (ef_new_event){.stream = EF_STR("s"), .type = EF_STR("added"), .data = EF_STR(GOOD)};
    OK(ef_journal_append(f->journal, events, count, places, &f->err));
    free(places);
    free(events);
}

/* More than the outbox gives at once would be refused, in every pass from then on. */
static void a_batch_grows_up_to_the_claim_limit(void **state)
{
    fixture fx, *f = &fx;
    ef_work_options options = {.batch = 9000};
    ef_tick t = {.more = true};

    (void)state;
    start(f);
    append_many(f, 9002);
    for (int ticks = 0; t.more && ticks < 10; ticks++)
        OK(ef_engine_work(f->engine, &options, &t, &f->err));
    CHECK_TEXT("{\"n\":9002,\"sum\":9002}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void with_many_projections_batches_grow_as_with_one(void **state)
{
    fixture fx, *f = &fx;
    ef_work_options options = {.batch = 1000};
    char program[100];
    ef_tick t;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    for (int i = 0; i < 25; i++) {
        (void)snprintf(program, sizeof program,
                       "projection p%d version 1\n  view stream\n\non never\n  n += 1\n", i);
        deploy(f, program);
    }
    drain(f);
    append_many(f, 1001);
    OK(ef_engine_work(f->engine, &options, &t, &f->err));
    CHECK(t.more);
    CHECK_INT(4000, f->engine->queue.batch);
    fixture_close(f);
}

/* --- rows in flight of a crashed process -------------------------------------------------------
 */

/* Take a batch as a worker would that then ends: the lease runs out. */
static void take_and_vanish(fixture *f, size_t limit)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_partition_lease held[64];
    int64_t until_us;

    pass_time(f, 11 * SECOND);
    for (int32_t p = 0; p < f->engine->queue.membership.partitions; p++) {
        held[p] = (ef_partition_lease){.partition = p};
        OK(ef__lease_acquire_one(f->journal,
                                 &(ef_lease_key){.kind = EF_LEASE_PARTITION, .partition = p},
                                 EF_STR("ghost"), 10000, &held[p].token, &until_us, &f->err));
    }
    OK(test_claim(f->journal, EF_STR("*"), held, (size_t)f->engine->queue.membership.partitions,
                  limit, &batch, &f->err));
    CHECK_INT(limit, batch.count);
    ef__claimed_batch_release(&batch);
    pass_time(f, 11 * SECOND);
}

static void rows_in_flight_at_a_crash_are_isolated_and_none_is_lost(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t;

    (void)state;
    start(f);
    for (int i = 0; i < 100; i++)
        append(f, i % 2 ? "s" : "t", "added", GOOD);
    take_and_vanish(f, 90);
    t = tick(f);
    CHECK(t.claimed == 1 || t.claimed == EF_SUSPECT_PIECE);
    drain(f);
    CHECK_TEXT("{\"n\":100,\"sum\":100}", view_data(f, "sums", "a"));
    CHECK_TEXT("{\"n\":100}", view_data(f, "counts", "added"));
    CHECK_INT(0, summary_of(f, "sums").pending);
    CHECK_INT(0, summary_of(f, "sums").failed);
    check_accounts(f, "sums", "live", 0);
    fixture_close(f);
}

static void
a_row_alone_in_flight_at_a_crash_counts_an_attempt_in_every_projection_that_lacks_it(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    take_and_vanish(f, 1);
    drain(f);
    CHECK_TEXT("{\"n\":2}", view_data(f, "counts", "added"));
    CHECK_INT(0, summary_of(f, "counts").pending);
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(1, summary_of(f, "sums").pending);
    /* One attempt when it was isolated, one that failed at once, six more. */
    CHECK(seconds_until_dead(f) < 127);
    fixture_close(f);
}

/* --- several workers ---------------------------------------------------------------------------
 */

static void a_worker_that_lost_its_leases_changes_nothing(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t;
    ef_engine *second;

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return; /* stores in memory belong to one engine; the simulator has several on them */
    start(f);
    append(f, "s", "added", GOOD);
    pass_time(f, 60 * SECOND); /* the first worker is paused for that time */
    second = fixture_engine(f, "w1");
    OK(ef_engine_work(second, NULL, &t, &f->err));
    CHECK_INT(1, t.claimed);
    append(f, "s", "added", GOOD);
    CHECK_INT(0, tick(f).claimed);
    OK(ef_engine_work(second, NULL, &t, &f->err));
    CHECK_INT(1, t.claimed);
    ef_engine_close(second);
    drain(f);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* Long after everybody's leases have run out, this one works, and the other does not. */
static void take_over(fixture *f, ef_engine *engine, int64_t claimed)
{
    ef_tick t;

    pass_time(f, 60 * SECOND);
    OK(ef_engine_work(engine, NULL, &t, &f->err));
    CHECK_INT(claimed, t.claimed);
}

/* Views and watermarks stay in memory from batch to batch. The results are the same, even where a
 * view is only read and the commit has nothing to compare. */
static void the_view_cache_equals_the_store(void **state)
{
    static const char FLAGS[] = "projection flags version 1\n"
                                "  view data.of\n"
                                "on flagged\n"
                                "  flag = true\n"
                                "on added when flag\n"
                                "  n += 1\n";
    fixture fx, *f = &fx;
    ef_engine *second;

    (void)state;
    if (strcmp(fixture_backend, "memory") == 0)
        return;
    start(f);
    deploy(f, FLAGS);
    drain(f);
    second = fixture_engine(f, "w1");
    append(f, "s", "added", GOOD);
    take_over(f, f->engine, 1);
    append(f, "t", "flagged", GOOD);
    append(f, "s", "added", GOOD);
    take_over(f, second, 2);
    append(f, "t", "added", GOOD);
    append(f, "s", "added", GOOD);
    take_over(f, f->engine, 2);
    ef_engine_close(second);
    CHECK_TEXT("{\"flag\":true,\"n\":3}", view_data(f, "flags", "a"));
    CHECK_TEXT("{\"n\":4,\"sum\":4}", view_data(f, "sums", "a"));
    CHECK_TEXT("{\"n\":4}", view_data(f, "counts", "added"));
    check_accounts(f, "flags", "live", 0);
    fixture_close(f);
}

/* The result of 1,000 events, folded in batches of this size. The events after a failed one of its
 * stream are blocked. */
static void fold_many(size_t batch, char sums[200], ef_outbox_summary *lane)
{
    fixture fx, *f = &fx;
    ef_work_options options = {.batch = batch};
    ef_tick t = {.more = true};
    char stream[16];

    start(f);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(stream, sizeof stream, "s-%d", i % 37);
        append(f, stream, "added", i % 101 == 100 ? BAD : GOOD);
    }
    while (t.more)
        OK(ef_engine_work(f->engine, &options, &t, &f->err));
    CHECK_TEXT("{\"n\":1000}", view_data(f, "counts", "added"));
    (void)snprintf(sums, 200, "%s", view_data(f, "sums", "a"));
    *lane = summary_of(f, "sums");
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

/* Two threads share the projections of a large batch, but not of a small one. */
static void large_batches_give_the_same_views_as_small_ones(void **state)
{
    ef_outbox_summary few, many;
    char sums[2][200];

    (void)state;
    fold_many(10, sums[0], &few);
    fold_many(1000, sums[1], &many);
    CHECK_TEXT(sums[0], sums[1]);
    CHECK_INT(9, many.failed);
    CHECK_INT(few.failed, many.failed);
    CHECK_INT(few.pending, many.pending);
}

/* --- several commits of one batch --------------------------------------------------------------
 */

/* Counts the commits of a view store, and refuses one of them. */
static const ef__views_ops *real_ops;
static int commit_count, refused_commit;

static ef_status count_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    if (++commit_count == refused_commit)
        return ef_fail(err, EF_IO, "commit %d is refused", commit_count);
    return real_ops->commit(views, commit, err);
}

static void count_commits(ef_engine *engine, ef__views_ops *ops, int refused)
{
    real_ops = engine->views->ops;
    *ops = *real_ops;
    ops->commit = count_commit;
    engine->views->ops = ops;
    commit_count = 0;
    refused_commit = refused;
}

static void a_large_batch_is_committed_by_groups_of_projections_and_acknowledged_once(void **state)
{
    fixture fx, *f = &fx;
    ef__views_ops ops;

    (void)state;
    start(f);
    f->engine->commit_outcomes = 3;
    append(f, "s", "added", GOOD);
    append(f, "t", "added", BAD);
    append(f, "u", "added", GOOD);
    count_commits(f->engine, &ops, 2);
    REFUSED(EF_IO, ef_engine_work(f->engine, NULL, &(ef_tick){0}, &f->err));
    CHECK_TEXT("{\"n\":3}", view_data(f, "counts", "added"));
    CHECK_TEXT("", view_data(f, "sums", "a"));
    CHECK_INT(3, summary_of(f, "*").pending + summary_of(f, "*").processing);
    CHECK_INT(2, commit_count);

    drain(f);
    CHECK_TEXT("{\"n\":3}", view_data(f, "counts", "added"));
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(0, summary_of(f, "*").pending);
    check_accounts(f, "sums", "live", 1);
    check_accounts(f, "counts", "live", 0);
    f->engine->views->ops = real_ops;
    fixture_close(f);
}

/* An event that fails in a projection whose group does not acknowledge the batch. */
static void retry_rows_of_every_group_are_written(void **state)
{
    fixture fx, *f = &fx;
    char counts[500];

    (void)state;
    start(f);
    f->engine->commit_outcomes = 1;
    (void)snprintf(counts, sizeof counts, "%s%s", "projection a_sums version 1\n",
                   strchr(SUMS, '\n') + 1);
    deploy(f, counts);
    drain(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_INT(1, summary_of(f, "a_sums").failed);
    CHECK_INT(1, summary_of(f, "a_sums").pending);
    CHECK_INT(1, summary_of(f, "sums").failed);
    CHECK_INT(1, summary_of(f, "sums").pending);
    check_accounts(f, "a_sums", "live", 2);
    fixture_close(f);
}

static void events_that_change_many_views_are_committed_in_parts(void **state)
{
    fixture fx, *f = &fx;
    ef__views_ops ops;
    ef_tick t;

    (void)state;
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, "projection items version 1\n  view stream\n"
              "on *\n  for item in data.items view item.id\n    n += 1\n");
    drain(f);
    f->engine->commit_bytes = 1;
    for (int i = 0; i < 5; i++)
        append(f, i % 2 ? "s" : "t", "listed", "{\"items\":[{\"id\":\"a\"},{\"id\":\"b\"}]}");
    count_commits(f->engine, &ops, 4);
    REFUSED(EF_IO, ef_engine_work(f->engine, NULL, &t, &f->err));
    CHECK_TEXT("{\"n\":3}", view_data(f, "items", "a")); /* three parts are committed */
    CHECK_INT(5, summary_of(f, "*").pending + summary_of(f, "*").processing);
    drain(f);
    CHECK_TEXT("{\"n\":5}", view_data(f, "items", "b"));
    CHECK_INT(0, summary_of(f, "*").pending);
    check_accounts(f, "items", "live", 0);
    f->engine->views->ops = real_ops;
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_event_blocks_its_stream_in_its_projection),
        cmocka_unit_test(an_event_that_is_not_folded_is_ignored_and_acknowledged),
        cmocka_unit_test(an_event_is_dead_at_the_eighth_failure_and_blocks_its_stream),
        cmocka_unit_test(a_dead_row_is_logged_with_stream_seq_attempts_and_error),
        cmocka_unit_test(a_skip_unblocks_the_stream_in_order),
        cmocka_unit_test(a_requeue_starts_with_no_attempts),
        cmocka_unit_test(a_backlog_is_claimed_in_growing_batches),
        cmocka_unit_test(ticks_and_claimed_rows_are_counted),
        cmocka_unit_test(a_batch_grows_up_to_the_claim_limit),
        cmocka_unit_test(with_many_projections_batches_grow_as_with_one),
        cmocka_unit_test(rows_in_flight_at_a_crash_are_isolated_and_none_is_lost),
        cmocka_unit_test(
            a_row_alone_in_flight_at_a_crash_counts_an_attempt_in_every_projection_that_lacks_it),
        cmocka_unit_test(a_worker_that_lost_its_leases_changes_nothing),
        cmocka_unit_test(the_view_cache_equals_the_store),
        cmocka_unit_test(large_batches_give_the_same_views_as_small_ones),
        cmocka_unit_test(a_large_batch_is_committed_by_groups_of_projections_and_acknowledged_once),
        cmocka_unit_test(retry_rows_of_every_group_are_written),
        cmocka_unit_test(events_that_change_many_views_are_committed_in_parts),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
