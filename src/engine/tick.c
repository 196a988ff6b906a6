/*
 * tick.c - one tick of the engine: a bounded step of each driver.
 */
#include "engine_priv.h"

ef_status ef_engine_catch_up(ef_engine *engine, ef_tick *out, ef_error *err)
{
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    *out = (ef_tick){0};
    st = ef__cursor_driver_step(engine, NULL, out, err);
    out->more = out->more || atomic_load(&engine->cursor.pauses);
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
    options = options ? options : &defaults;
    st = ef__queue_driver_step(engine, options, &tick, err);
    if (st == EF_OK)
        st = ef__cursor_driver_step(engine, options, &tick, err);
    tick.more = tick.more || atomic_load(&engine->cursor.pauses);
    if (st == EF_OK)
        st = ef__run_driver_step(engine, options, &tick, err);
    if (st == EF_OK)
        st = ef__publisher_driver_step(engine, options, &tick, err);
    tick.duration_us = clock->mono_us(clock->context) - began_us;
    ef__count_tick(engine, "all", &tick, st);
    *out = tick;
    return st;
}
