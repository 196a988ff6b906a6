/*
 * test_idle.c - a worker with nothing to do costs nothing, and yet notices everything at once.
 */
#include "engine_fixture.h"

#include "../../src/engine/engine_priv.h"
#include "../../src/engine/queue.h"

#include <everfold/supervisor.h>

#include <time.h>

#define HOUR_MS 3600000
#define PATIENCE_MS 20000 /* far below the hour that it would take otherwise */

static const char COUNTS[] = "projection counts version 1\n"
                             "  view data.of\n"
                             "on added\n"
                             "  n += 1\n";

/* --- resting ---------------------------------------------------------------------------------- */

static ef_tick watch(fixture *f)
{
    ef_tick t = {0};

    OK(ef__queue_driver_watch(f->engine, &(ef_work_options){0}, &t, &f->err));
    return t;
}

/* Advances the clock by `seconds`, two at a time. Returns how often the heartbeat was written. */
static int watch_for(fixture *f, int seconds)
{
    int beats = 0;

    for (int s = 0; s < seconds; s += 2) {
        pass_time(f, 2 * SECOND);
        beats += watch(f).renewed_heartbeat;
    }
    return beats;
}

static size_t workers(fixture *f)
{
    ef_worker_list list = {0};
    size_t count;

    OK(ef_worker_ls(f->journal, &list, &f->err));
    count = list.count;
    EF_RELEASE(&list);
    return count;
}

/* How many are listed in that state. */
static size_t workers_in(fixture *f, ef_worker_state state)
{
    ef_worker_list list = {0};
    size_t count = 0;

    OK(ef_worker_ls(f->journal, &list, &f->err));
    for (size_t i = 0; i < list.count; i++)
        count += list.items[i].state == state;
    EF_RELEASE(&list);
    return count;
}

static size_t leases(fixture *f)
{
    ef_lease_list list = {0};
    size_t live = 0;

    OK(ef_lease_ls(f->journal, NULL, &list, &f->err));
    for (size_t i = 0; i < list.count; i++)
        live += list.items[i].live;
    EF_RELEASE(&list);
    return live;
}

static int64_t commits(fixture *f)
{
    ef_store_facts facts;

    OK(ef_journal_facts(f->journal, &facts, &f->err));
    return facts.commits;
}

static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
}

static void an_idle_worker_is_listed_holds_nothing_and_writes_once_a_minute(void **state)
{
    fixture fx, *f = &fx;
    int64_t before;

    (void)state;
    start(f);
    watch_for(f, 4);
    CHECK_INT(1, workers(f));
    CHECK(leases(f) > 0);
    watch_for(f, 20);
    CHECK_INT(1, workers_in(f, EF_WORKER_IDLE));
    CHECK_INT(0, leases(f));
    before = commits(f);
    CHECK_INT(10, watch_for(f, 600));
    if (before) /* a store that counts them */
        CHECK_INT(before + 10, commits(f));
    CHECK_INT(1, workers_in(f, EF_WORKER_IDLE));

    append(f, "s", "added", GOOD);
    CHECK_INT(1, watch(f).applied);
    CHECK_INT(1, workers_in(f, EF_WORKER_WORKING));
    CHECK(leases(f) > 0);
    fixture_close(f);
}

static void a_worker_that_waits_for_a_retry_is_not_idle(void **state)
{
    fixture fx, *f = &fx;
    ef_row_list rows = {0};

    (void)state;
    start(f);
    append(f, "s", "added", BAD);
    CHECK_INT(1, watch(f).failed);
    for (int i = 0; i < 100 && summary_of(f, "sums").dead == 0; i++) {
        CHECK_INT(1, workers(f));
        watch_for(f, 2);
    }
    CHECK_INT(1, summary_of(f, "sums").dead);
    watch_for(f, 30); /* what is dead is an operator's … */
    CHECK_INT(1, workers_in(f, EF_WORKER_IDLE));
    OK(ef_outbox_requeue(f->journal,
                         &(ef_outbox_action){.stream = EF_STR("s"), .seq = 1, .actor = EF_STR("t")},
                         &rows, &f->err));
    EF_RELEASE(&rows);
    CHECK_INT(1, watch(f).failed); /* … and is tried when the operator requests it */
    fixture_close(f);
}

static void
an_idle_worker_that_was_killed_is_shown_as_stale_and_removed_by_an_idle_one(void **state)
{
    fixture fx, *f = &fx;
    ef_engine *other;

    (void)state;
    start(f);
    if (!fixture_has_files(f)) {
        fixture_close(f);
        return;
    }
    other = fixture_engine(f, "other");
    for (int i = 0; i < 20; i++) {
        ef_tick t = {0};
        OK(ef__queue_driver_watch(other, &(ef_work_options){0}, &t, &f->err));
        watch_for(f, 2);
    }
    CHECK_INT(2, workers_in(f, EF_WORKER_IDLE));
    ef__engine_abandon(other);
    watch_for(f, 70);
    CHECK_INT(2, workers(f));
    watch_for(f, 90);
    CHECK_INT(1, workers_in(f, EF_WORKER_IDLE));
    CHECK_INT(1, workers_in(f, EF_WORKER_STALE));
    watch_for(f, 600);
    CHECK_INT(1, workers(f));
    fixture_close(f);
}

static ef_throughput throughput(fixture *f, size_t *out_rows)
{
    ef_throughput_list list = {0};
    ef_throughput sum = {0};

    OK(ef_throughput_ls(f->journal, 0, &list, &f->err));
    *out_rows = list.count;
    for (size_t i = 0; i < list.count; i++) {
        sum.applied += list.items[i].applied;
        sum.failed += list.items[i].failed;
        sum.position = list.items[i].position;
    }
    EF_RELEASE(&list);
    return sum;
}

static void throughput_is_written_once_a_minute_with_a_heartbeat(void **state)
{
    fixture fx, *f = &fx;
    size_t rows, before;
    ef_throughput sum;

    (void)state;
    start(f);
    pass_time(f, 60 * SECOND);
    (void)watch(f);
    (void)throughput(f, &before);
    for (int i = 0; i < 90; i++) { /* three minutes in which it always has work */
        ef_tick t;
        append(f, "s", "added", GOOD);
        pass_time(f, 2 * SECOND);
        t = watch(f);
        ef__count_tick(f->engine, "queue", &t, EF_OK);
    }
    sum = throughput(f, &rows);
    CHECK_INT(3, rows - before);
    CHECK(sum.applied >= 60 && sum.applied <= 90); /* what is left is of the present minute */
    watch_for(f, 20);                              /* it becomes idle, and writes that too */
    sum = throughput(f, &rows);
    CHECK_INT(90, sum.applied);
    CHECK_INT(90, sum.position);
    watch_for(f, 600); /* an idle one adds no rows */
    (void)throughput(f, &before);
    CHECK_INT(rows, before);
    fixture_close(f);
}

static void a_worker_whose_other_tasks_work_is_not_idle(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    for (int i = 0; i < 20; i++) {
        pass_time(f, 2 * SECOND);
        ef__count_tick(f->engine, "cursor-1", &(ef_tick){.caught_up = 1}, EF_OK);
        (void)watch(f);
        CHECK_INT(1, workers_in(f, EF_WORKER_WORKING));
    }
    watch_for(f, 20);
    CHECK_INT(1, workers_in(f, EF_WORKER_IDLE));
    pass_time(f, SECOND);
    ef__count_tick(f->engine, "cursor-1", &(ef_tick){.caught_up = 1}, EF_OK);
    (void)watch(f);
    CHECK_INT(1, workers_in(f, EF_WORKER_WORKING));
    fixture_close(f);
}

/* It has seen the event, and no wake-up is sent: the work is only found by polling. */
static void an_idle_worker_takes_over_rows_of_a_crashed_one(void **state)
{
    fixture fx, *f = &fx;
    ef_engine *other;
    ef_tick t = {0};

    (void)state;
    start(f);
    if (!fixture_has_files(f)) {
        fixture_close(f);
        return;
    }
    watch_for(f, 20);
    CHECK(f->engine->queue.idle.is_idle);
    f->engine->queue.idle.head = append(f, "s", "added", BAD);
    other = fixture_engine(f, "other");
    OK(ef__queue_driver_step(other, &(ef_work_options){0}, &t, &f->err));
    CHECK_INT(1, t.failed);
    ef__engine_abandon(other);
    for (int i = 0; i < 30 && t.failed < 2; i++) {
        pass_time(f, 2 * SECOND);
        t.failed += watch(f).failed;
    }
    CHECK_INT(2, t.failed);
    CHECK(!f->engine->queue.idle.is_idle);
    fixture_close(f);
}

/* --- noticing --------------------------------------------------------------------------------- */

static int64_t real_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static bool all_idle(ef_supervisor *supervisor)
{
    ef_task tasks[8];
    size_t count = ef_supervisor_tasks(supervisor, tasks, 8);

    for (size_t i = 0; i < count; i++)
        if (tasks[i].state != EF_TASK_IDLE)
            return false;
    return true;
}

static bool is_live(fixture *f, const char *name)
{
    ef_projection_list list = {0};
    bool live;

    OK(ef_projection_ls(f->engine, ef_str_from(name), &list, &f->err));
    live = list.count == 1 && ef_str_equal(list.items[0].state, EF_STR("live"));
    EF_RELEASE(&list);
    return live;
}

/* Threads that look by themselves once in an hour. */
static ef_supervisor *supervise(fixture *f)
{
    ef_supervisor *supervisor;
    int64_t until = real_ms() + PATIENCE_MS;

    OK(ef_supervisor_start(&(ef_supervisor_options){.engine = f->engine, .interval_ms = HOUR_MS},
                           &supervisor, &f->err));
    while (!all_idle(supervisor) && real_ms() < until)
        nap();
    CHECK(all_idle(supervisor));
    return supervisor;
}

static void a_stop_a_deploy_and_a_resume_are_noticed_at_once(void **state)
{
    fixture fx, *f = &fx;
    ef_supervisor *supervisor;
    int64_t until = real_ms() + PATIENCE_MS;

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    supervisor = supervise(f);
    deploy(f, COUNTS);
    while (!is_live(f, "counts") && real_ms() < until)
        nap();
    CHECK(is_live(f, "counts"));
    OK(ef_projection_pause(f->engine, EF_STR("counts"), true, EF_STR(""), EF_STR(""), &f->err));
    CHECK(!is_live(f, "counts"));
    OK(ef_projection_pause(f->engine, EF_STR("counts"), false, EF_STR(""), EF_STR(""), &f->err));
    while (!is_live(f, "counts") && real_ms() < until)
        nap();
    CHECK(is_live(f, "counts"));
    ef_supervisor_stop(supervisor);
    CHECK(real_ms() < until);
    fixture_close(f);
}

static void a_run_and_a_call_are_noticed_at_once(void **state)
{
    fixture fx, *f = &fx;
    ef_supervisor *supervisor;
    ef_run_list runs = {0};
    ef_task before[8], after[8];
    int64_t until = real_ms() + PATIENCE_MS;
    char id[64];

    (void)state;
    start(f);
    append(f, "s", "added", GOOD);
    supervisor = supervise(f);
    OK(ef__run_request(f->journal, &(ef_run){.mode = EF_RUN_VERIFY, .projection = EF_STR("sums")},
                       &runs, &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    do {
        nap();
        pass_time(f, SECOND / 10); /* its driver polls again soon */
        EF_RELEASE(&runs);
        OK(test_run_read(f->journal, id, &runs, &f->err));
    } while (runs.items[0].state != EF_RUN_COMPLETED && real_ms() < until);
    CHECK_INT(EF_RUN_COMPLETED, runs.items[0].state);
    EF_RELEASE(&runs);

    (void)ef_supervisor_tasks(supervisor, before, 8);
    ef_supervisor_wake(supervisor);
    do {
        nap();
        (void)ef_supervisor_tasks(supervisor, after, 8);
    } while (after[0].steps == before[0].steps && real_ms() < until);
    CHECK(after[0].steps > before[0].steps);
    ef_supervisor_stop(supervisor);
    CHECK(real_ms() < until);
    fixture_close(f);
}

/* --- a task that fails ------------------------------------------------------------------------ */

static _Atomic bool broken;
static EF__VIEWS_OP(generation_ls) * real_generation_ls;

static ef_status generation_ls(ef_views *views, ef_str name, ef__generation_list *out,
                               ef_error *err)
{
    return atomic_load(&broken) ? ef_fail(err, EF_IO, "the store is broken, says the test")
                                : real_generation_ls(views, name, out, err);
}

static bool queue_is(ef_supervisor *supervisor, ef_task_state state, int64_t failures_min)
{
    ef_task tasks[8];

    (void)ef_supervisor_tasks(supervisor, tasks, 8);
    CHECK_TEXT("queue", tasks[0].name);
    CHECK_TEXT("runs", tasks[2].name);
    CHECK_INT(EF_TASK_IDLE, tasks[2].state); /* one falls, the others stand */
    if (tasks[0].failures_in_a_row)
        CHECK_TEXT("the store is broken, says the test", tasks[0].last_error.text);
    return tasks[0].state == state && tasks[0].failures_in_a_row >= failures_min;
}

static void a_failing_task_is_shown_and_retried(void **state)
{
    fixture fx, *f = &fx;
    ef_supervisor *supervisor;
    ef__views_ops ops;
    const ef__views_ops *real;
    int64_t until = real_ms() + PATIENCE_MS;

    (void)state;
    start(f);
    real = f->engine->views->ops;
    ops = *real;
    real_generation_ls = real->generation_ls;
    ops.generation_ls = generation_ls;
    f->engine->views->ops = &ops;
    supervisor = supervise(f);
    atomic_store(&broken, true);
    append(f, "s", "added", GOOD);
    while (!queue_is(supervisor, EF_TASK_RETRYING, 3) && real_ms() < until)
        nap();
    CHECK(queue_is(supervisor, EF_TASK_RETRYING, 3));
    atomic_store(&broken, false);
    while (!queue_is(supervisor, EF_TASK_IDLE, 0) && real_ms() < until)
        nap();
    CHECK(queue_is(supervisor, EF_TASK_IDLE, 0));
    CHECK_TEXT("{\"n\":1,\"sum\":1}", view_data(f, "sums", "a"));
    ef_supervisor_stop(supervisor);
    f->engine->views->ops = real;
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_worker_is_listed_holds_nothing_and_writes_once_a_minute),
        cmocka_unit_test(
            an_idle_worker_that_was_killed_is_shown_as_stale_and_removed_by_an_idle_one),
        cmocka_unit_test(a_worker_whose_other_tasks_work_is_not_idle),
        cmocka_unit_test(throughput_is_written_once_a_minute_with_a_heartbeat),
        cmocka_unit_test(a_worker_that_waits_for_a_retry_is_not_idle),
        cmocka_unit_test(an_idle_worker_takes_over_rows_of_a_crashed_one),
        cmocka_unit_test(a_stop_a_deploy_and_a_resume_are_noticed_at_once),
        cmocka_unit_test(a_run_and_a_call_are_noticed_at_once),
        cmocka_unit_test(a_failing_task_is_shown_and_retried),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
