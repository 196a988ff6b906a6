/*
 * work.c - one tick of the engine: a bounded piece of everything there is to do.
 */
#include "queue.h"

ef_status ef_engine_work(ef_engine *e, const ef_work_options *options, ef_tick *out, ef_error *err)
{
    ef_work_options defaults = {0};
    ef_tick tick = {0};
    const ef_clock *clock;
    int64_t began_us;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    options = options ? options : &defaults;
    clock = e->options.clock;
    began_us = clock->mono_us(clock->context);
    pthread_mutex_lock(&e->working);
    st = ef__cursor_step(e, &tick, err);
    if (st == EF_OK)
        st = ef__queue_lease(e, options, &tick, err);
    if (st == EF_OK)
        st = ef__queue_step(e, options->batch ? options->batch : EF__ENGINE_BATCH, &tick, err);
    if (st == EF_OK)
        st = ef__queue_retry(e, options->batch ? options->batch : EF__ENGINE_BATCH, &tick, err);
    pthread_mutex_unlock(&e->working);
    tick.duration_us = clock->mono_us(clock->context) - began_us;
    *out = tick;
    /* Somebody else has the partition now: not a failure, the next tick leases anew. */
    return st == EF_LEASE_LOST ? EF_OK : st;
}
