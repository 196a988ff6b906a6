/*
 * test_pacing.c - a catch-up yields to late live work, and to nothing else.
 */
#include "engine_fixture.h"

#include "../../src/engine/queue.h"
#include "../../src/engine/scope.h"

#include <stdlib.h>

#define EVENTS 24000
#define AT_ONCE 1000

static const char COUNTS[] = "projection counts version 1\n"
                             "  view data.of\n"
                             "on added\n"
                             "  n += 1\n";

/* Every read of the clock advances it by 20 ms, so that work takes time. */
static int64_t slow_clock(void *context)
{
    return atomic_fetch_add((_Atomic int64_t *)context, 20000) + 20000;
}

/* A live projection, a journal without rows, and a second projection that lacks all of it. */
static void start(fixture *f)
{
    static ef_new_event events[AT_ONCE];
    static ef_place places[AT_ONCE];

    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    for (int i = 0; i < AT_ONCE; i++)
        events[i] =
            (ef_new_event){.stream = EF_STR("s"), .type = EF_STR("added"), .data = EF_STR(GOOD)};
    for (int i = 0; i < EVENTS / AT_ONCE; i++)
        OK(ef_journal_append(f->journal, events, AT_ONCE, places, &f->err));
    drain(f);
    f->clock.mono_us = slow_clock;
    deploy(f, COUNTS);
}

/* A step of the cursors only: another worker has the queue. */
static ef_tick read_on(fixture *f)
{
    ef_tick t = {0};

    OK(ef__cursor_driver_step(f->engine, NULL, &t, &f->err));
    return t;
}

static void check_caught_up(fixture *f)
{
    drain(f);
    check_accounts(f, "counts", "live", 0);
}

static void a_catch_up_without_live_work_has_no_limit(void **state)
{
    fixture fx, *f = &fx;
    int64_t most = 0;
    int steps = 0;

    (void)state;
    start(f);
    for (ef_tick t = {.more = true}; t.more && steps < 100; steps++) {
        t = read_on(f);
        CHECK(t.caught_up > 0 || !t.more);
        most = t.caught_up > most ? t.caught_up : most;
    }
    CHECK(most >= 8000); /* 1000, 2000, 4000, 8000, and the rest */
    CHECK(steps <= 6);
    check_caught_up(f);
    fixture_close(f);
}

static void a_catch_up_beside_live_work_has_short_steps(void **state)
{
    fixture fx, *f = &fx;
    int64_t most = 0;

    (void)state;
    start(f);
    f->engine->options.live_lag_ms = 20; /* 5 ms for a step, and one takes 20 at least */
    CHECK_INT(1000, read_on(f).caught_up);
    for (int i = 0; i < 8; i++) {
        ef_tick t = {0};
        append(f, "t", "added", GOOD);
        OK(ef__queue_driver_step(f->engine, &(ef_work_options){0}, &t, &f->err));
        t = read_on(f);
        most = i > 0 && t.caught_up > most ? t.caught_up : most;
    }
    CHECK(most > 0 && most <= 500); /* a fourth of what 20 ms were enough for */
    pass_time(f, 2 * SECOND);       /* nothing live for a while */
    CHECK(read_on(f).caught_up <= 500);
    (void)read_on(f); /* it may have been read ahead by then */
    CHECK(read_on(f).caught_up > 500);
    check_caught_up(f);
    fixture_close(f);
}

/* Another worker claims from the queue, and is late. */
static void a_catch_up_pauses_while_live_work_is_late(void **state)
{
    fixture fx, *f = &fx;
    int64_t last = INT64_MAX, pauses = 0, steps = 0;

    (void)state;
    start(f);
    read_on(f);
    for (int i = 0; i < 60; i++) {
        ef_tick t = {0};
        if (i % 4 == 0) { /* the oldest is another one each time, and has waited */
            OK(ef__queue_driver_step(f->engine, &(ef_work_options){0}, &t, &f->err));
            append(f, "t", "added", GOOD);
            pass_time(f, SECOND / 4);
        }
        t = read_on(f);
        steps += t.caught_up > 0;
        pauses += t.caught_up == 0;
        CHECK(t.caught_up > 0 || t.due_us > 0);
        if (t.caught_up && i > 8) {
            CHECK(t.caught_up <= last);
            last = t.caught_up;
        }
        pass_time(f, SECOND / 200);
    }
    CHECK(steps > 5);
    CHECK(pauses > 5);
    CHECK(last <= 100);
    check_caught_up(f);
    fixture_close(f);
}

/* The loop of every embedder: while (tick.more). */
static void a_tick_has_more_until_a_paused_catch_up_is_done(void **state)
{
    fixture fx, *f = &fx;
    ef_tick t = {.more = true};
    int paused = 0;

    (void)state;
    start(f);
    CHECK(tick(f).caught_up > 0);
    for (ef__scope *scope = f->engine->cursor.scopes; scope; scope = scope->next)
        scope->next_try_us = atomic_load(&f->now_us) + SECOND; /* as the pacing pauses it */
    for (int i = 0; t.more && i < 500; i++) {
        t = tick(f);
        paused += t.caught_up == 0;
    }
    CHECK(paused > 1); /* and the last tick, which finds nothing left */
    check_accounts(f, "counts", "live", 0);
    fixture_close(f);
}

/* Without a worker no process claims from the queue, and a rebuild does not wait for it. */
static void rows_that_no_worker_claims_do_not_slow_a_catch_up(void **state)
{
    fixture fx, *f = &fx;
    int64_t most = 0;

    (void)state;
    start(f);
    append(f, "t", "added", GOOD);
    pass_time(f, 60 * SECOND);
    for (int i = 0; i < 8; i++) {
        ef_tick t = read_on(f);
        most = t.caught_up > most ? t.caught_up : most;
    }
    CHECK(most >= 8000);
    check_caught_up(f);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_catch_up_without_live_work_has_no_limit),
        cmocka_unit_test(a_catch_up_beside_live_work_has_short_steps),
        cmocka_unit_test(a_catch_up_pauses_while_live_work_is_late),
        cmocka_unit_test(a_tick_has_more_until_a_paused_catch_up_is_done),
        cmocka_unit_test(rows_that_no_worker_claims_do_not_slow_a_catch_up),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
