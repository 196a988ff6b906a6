/*
 * tick.c - one tick of the engine: a bounded step of each driver.
 *
 * The queue driver and the cursor driver have a lock each, so that each may have its own thread.
 */
#include "lane.h"
#include "error_policy.h"
#include "publish.h"
#include "run.h"

/* Beat, retry due rows, claim queued rows; the gap check, once, while the queue is short. */
ef_status ef__queue_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                         ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->queue_lock);
    st = ef__membership_step(&engine->membership, options, tick, err);
    if (st == EF_OK)
        st = ef__retry_step_due(engine, tick, err);
    if (st == EF_OK)
        st = ef__error_policy_step(engine, tick, err);
    if (st == EF_OK)
        st = ef__queue_step(engine, options, tick, err);
    if (st == EF_OK)
        st = ef__gaps_startup_check(engine, tick, err);
    if (st == EF_OK)
        st = ef__lanes_step(engine, tick, err);
    if (st == EF_LEASE_LOST) { /* another worker holds the partition now: not a failure */
        st = ef__membership_recheck(&engine->membership, tick, err);
        tick->more = true;
    }
    pthread_mutex_unlock(&engine->queue_lock);
    return st == EF_LEASE_LOST ? EF_OK : st;
}

ef_status ef__cursor_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->cursor_lock);
    if (options)
        ef__engine_lease_times(engine, options);
    st = ef__cursor_step(engine, tick, err);
    pthread_mutex_unlock(&engine->cursor_lock);
    return st;
}

ef_status ef_engine_catch_up(ef_engine *engine, ef_tick *out, ef_error *err)
{
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    *out = (ef_tick){0};
    st = ef__cursor_work(engine, NULL, out, err);
    out->more = out->more || atomic_load(&engine->catch_up_pauses);
    return st;
}

ef_status ef_engine_work(ef_engine *engine, const ef_work_options *options, ef_tick *out,
                         ef_error *err)
{
    ef_work_options defaults = {0};
    const ef_clock *clock;
    ef_tick tick = {0};
    int64_t began_us;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__work_options_check(options, err);
    if (st != EF_OK)
        return st;
    clock = engine->options.clock;
    began_us = clock->mono_us(clock->context);
    st = ef__queue_work(engine, options ? options : &defaults, &tick, err);
    if (st == EF_OK)
        st = ef__cursor_work(engine, options ? options : &defaults, &tick, err);
    tick.more = tick.more || atomic_load(&engine->catch_up_pauses);
    if (st == EF_OK)
        st = ef__run_step(engine, &tick, err);
    if (st == EF_OK)
        st = ef__publishers_work(engine, options ? options : &defaults, &tick, err);
    tick.duration_us = clock->mono_us(clock->context) - began_us;
    ef__count_tick(engine, "all", &tick, st);
    *out = tick;
    return st;
}
