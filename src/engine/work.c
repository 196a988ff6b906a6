/*
 * work.c - one tick of the engine: a bounded piece of everything there is to do.
 *
 * The queue and the cursors are two drivers with a lock each, so that a thread of its own may keep
 * each of them going.
 */
#include "lane.h"
#include "policy.h"
#include "publish.h"
#include "run.h"

/* Beat, try again what is due, take what is queued; look for gaps once, when that is little. */
ef_status ef__queue_work(ef_engine *e, const ef_work_options *options, ef_tick *tick, ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&e->working);
    st = ef__crew_step(&e->crew, options, tick, err);
    if (st == EF_OK)
        st = ef__retry_step_due(e, tick, err);
    if (st == EF_OK)
        st = ef__policy_step(e, tick, err);
    if (st == EF_OK)
        st = ef__queue_step(e, options, tick, err);
    if (st == EF_OK)
        st = ef__gaps_start(e, tick, err);
    if (st == EF_OK)
        st = ef__lanes_step(e, tick, err);
    if (st == EF_LEASE_LOST) { /* another worker has the partition now: not a failure */
        st = ef__crew_recheck(&e->crew, tick, err);
        tick->more = true;
    }
    pthread_mutex_unlock(&e->working);
    return st == EF_LEASE_LOST ? EF_OK : st;
}

ef_status ef__cursor_work(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&e->reading);
    if (options)
        ef__engine_lease_times(e, options);
    st = ef__cursor_step(e, tick, err);
    pthread_mutex_unlock(&e->reading);
    return st;
}

ef_status ef_engine_catch_up(ef_engine *e, ef_tick *out, ef_error *err)
{
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    *out = (ef_tick){0};
    st = ef__cursor_work(e, NULL, out, err);
    out->more = out->more || atomic_load(&e->catch_up_pauses);
    return st;
}

ef_status ef_engine_work(ef_engine *e, const ef_work_options *options, ef_tick *out, ef_error *err)
{
    ef_work_options defaults = {0};
    const ef_clock *clock;
    ef_tick tick = {0};
    int64_t began_us;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__work_options_check(options, err);
    if (st != EF_OK)
        return st;
    clock = e->options.clock;
    began_us = clock->mono_us(clock->context);
    st = ef__queue_work(e, options ? options : &defaults, &tick, err);
    if (st == EF_OK)
        st = ef__cursor_work(e, options ? options : &defaults, &tick, err);
    tick.more = tick.more || atomic_load(&e->catch_up_pauses);
    if (st == EF_OK)
        st = ef__run_step(e, &tick, err);
    if (st == EF_OK)
        st = ef__publish_work(e, options ? options : &defaults, &tick, err);
    tick.duration_us = clock->mono_us(clock->context) - began_us;
    ef__count_tick(e, "all", &tick, st);
    *out = tick;
    return st;
}
