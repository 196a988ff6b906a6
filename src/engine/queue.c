/*
 * queue.c - the queue driver: take from the outbox under a lease, apply, mark under the token.
 *
 * What a projection fails on, and what waits behind that in its stream, goes to the projection's
 * own lane, so that the mark moves on and nobody else waits.
 */
#include "queue.h"

#include "../base/logger.h"
#include "../core/retry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* --- leases
 * --------------------------------------------------------------------------------------- */

ef_status ef__queue_lease(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    int64_t lease_ms = options->lease_ms ? options->lease_ms : EF__ENGINE_LEASE_MS;
    ef_str owner = options->no_leasing ? EF_STR("single worker") : ef_str_from(e->worker);
    ef_status st = EF_OK;

    for (int32_t p = 0; st == EF_OK && p < e->partitions; p++) {
        ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = p};
        int64_t until_us;
        st = ef_lease_acquire(e->journal, &key, owner, lease_ms, &e->tokens[p], &until_us, err);
        if (st == EF_LEASE_HELD) { /* somebody else works there */
            e->tokens[p] = 0;
            st = EF_OK;
        }
        tick->owned_count += e->tokens[p] != 0;
    }
    return st;
}

/* The partitions that are held, for take and mark. malloc'ed. */
static ef_status held_partitions(const ef_engine *e, ef_holding **out, size_t *out_count,
                                 ef_error *err)
{
    *out_count = 0;
    *out = malloc((size_t)e->partitions * sizeof **out);
    if (!*out)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
    for (int32_t p = 0; p < e->partitions; p++)
        if (e->tokens[p])
            (*out)[(*out_count)++] = (ef_holding){.partition = p, .token = e->tokens[p]};
    return EF_OK;
}

/* The fences of the partitions that have events in hand. */
static size_t fences_of(const ef_taken_batch *taken, const ef_engine *e, ef__fence *fences,
                        char (*names)[32])
{
    size_t count = 0;

    for (int32_t p = 0; p < e->partitions; p++) {
        bool used = false;
        for (size_t i = 0; i < taken->count && !used; i++)
            used = taken->items[i].partition == p;
        if (!used)
            continue;
        (void)snprintf(names[count], sizeof names[count], "partition/%d", (int)p);
        fences[count] = (ef__fence){ef_str_from(names[count]), e->tokens[p]};
        count++;
    }
    return count;
}

/* --- outcomes become exceptions
 * --------------------------------------------------------------------- */

static ef_exception exception_of(const ef_engine *e, ef_str lane, int64_t position,
                                 const ef__applied *result, int32_t failures_before)
{
    int64_t now_us = ef__engine_now(e);
    ef_exception x = {.lane = lane, .position = position, .error = result->message};

    if (result->verdict == EF__VERDICT_DEFERRED) {
        x.status = EF_ROW_PENDING;
        x.attempts = failures_before;
        x.due_us = now_us;
        return x;
    }
    ef__retry_step step =
        ef__retry_decide(&ef__retry_apply, failures_before, EF__ERROR_PERMANENT, (uint64_t)now_us);
    x.attempts = (int32_t)step.attempts;
    x.status = step.dead ? EF_ROW_DEAD : EF_ROW_FAILED;
    x.due_us = now_us + step.delay_ms * 1000;
    return x;
}

static bool needs_exception(ef__verdict verdict)
{
    return verdict == EF__VERDICT_FAILED || verdict == EF__VERDICT_DEFERRED;
}

/* One exception per event and projection: two generations of a projection share its lane. */
static size_t collect_exceptions(const ef_engine *e, const ef__apply *apply, ef_exception *out)
{
    size_t count = 0;

    for (size_t g = 0; g < apply->generation_count; g++) {
        ef_str lane = apply->generations[g].generation->name;
        for (size_t i = 0; i < apply->event_count; i++) {
            const ef__applied *result = &apply->results[g * apply->event_count + i];
            int64_t position = apply->events[i].event->position;
            bool there = false;
            if (!needs_exception(result->verdict))
                continue;
            for (size_t x = 0; x < count && !there; x++)
                there = out[x].position == position && ef_str_equal(out[x].lane, lane);
            if (!there)
                out[count++] = exception_of(e, lane, position, result, 0);
        }
    }
    return count;
}

/* --- the queue
 * -------------------------------------------------------------------------------------- */

static void tally(const ef__apply *apply, ef_tick *tick)
{
    tick->applied += apply->applied;
    tick->ignored += apply->ignored;
    tick->failed += apply->failed;
}

static ef_status mark_taken(ef_engine *e, const ef_taken_batch *taken, ef_holding *held,
                            size_t held_count, const ef_exception *exceptions,
                            size_t exception_count, ef_error *err)
{
    size_t used = 0;

    for (size_t h = 0; h < held_count; h++) {
        int64_t upto = 0;
        for (size_t i = 0; i < taken->count; i++)
            if (taken->items[i].partition == held[h].partition)
                upto = taken->items[i].event->position;
        if (upto) {
            held[used] = held[h];
            held[used++].upto = upto;
        }
    }
    return ef_outbox_mark(e->journal, EF_STR(EF_LANE_APPLY), held, used, exceptions,
                          exception_count, err);
}

/* Apply what was taken to the live generations, starting over when one has just gone live. */
static ef_status apply_taken(ef_engine *e, const ef_taken_batch *taken,
                             const ef__apply_event *events, ef__apply *apply, ef__live_set *set,
                             ef_error *err)
{
    ef__fence *fences = malloc((size_t)e->partitions * sizeof *fences);
    char(*names)[32] = malloc((size_t)e->partitions * sizeof *names);
    ef_status st = fences && names ? EF_CONFLICT : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_START_OVER; tries++) {
        ef__apply_release(apply);
        ef__live_set_release(set);
        st = ef__live_set_read(e, true, set, err);
        if (st != EF_OK)
            break;
        *apply = (ef__apply){.generations = set->items,
                             .generation_count = set->count,
                             .events = events,
                             .event_count = taken->count,
                             .fences = fences,
                             .fence_count = fences_of(taken, e, fences, names),
                             .live_set = set->number,
                             .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
        st = ef__apply_run(e, apply, err);
    }
    apply->fences = NULL;
    free(fences);
    free(names);
    return st;
}

static ef_status step_taken(ef_engine *e, const ef_taken_batch *taken, ef_holding *held,
                            size_t held_count, ef_tick *tick, ef_error *err)
{
    ef__apply apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef__live_set set = {0};
    ef_exception *exceptions = NULL;
    ef__apply_event *events = malloc(taken->count * sizeof *events);
    ef_status st = events ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    for (size_t i = 0; events && i < taken->count; i++)
        events[i] = (ef__apply_event){taken->items[i].event, taken->items[i].skip};
    if (st == EF_OK)
        st = apply_taken(e, taken, events, &apply, &set, err);
    if (st == EF_OK) {
        exceptions = malloc((taken->count * set.count + 1) * sizeof *exceptions);
        st = exceptions ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out in the queue driver");
    }
    if (st == EF_OK) {
        size_t count = collect_exceptions(e, &apply, exceptions);
        st = mark_taken(e, taken, held, held_count, exceptions, count, err);
        tally(&apply, tick);
    }
    free(exceptions);
    free(events);
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    return st;
}

ef_status ef__queue_step(ef_engine *e, size_t batch, ef_tick *tick, ef_error *err)
{
    ef_taken_batch taken = EF_TAKEN_BATCH_INIT;
    ef_holding *held = NULL;
    size_t held_count = 0;
    ef_status st = held_partitions(e, &held, &held_count, err);

    if (st == EF_OK && held_count)
        st =
            ef_outbox_take(e->journal, EF_STR(EF_LANE_APPLY), held, held_count, batch, &taken, err);
    if (st == EF_OK && taken.count) {
        tick->claimed += (int64_t)taken.count;
        tick->more = tick->more || taken.more;
        st = step_taken(e, &taken, held, held_count, tick, err);
    }
    ef_taken_batch_release(&taken);
    free(held);
    return st;
}

/* --- what failed before
 * ------------------------------------------------------------------------------ */

/* Try one exception again, in all live generations of its projection. */
static ef_status retry_one(ef_engine *e, const ef__live_set *set, const ef_taken *item,
                           const ef_holding *holding, ef_tick *tick, ef_error *err)
{
    ef__live of_name[16];
    size_t count = 0;
    char scope[32];
    ef__fence fence;
    ef__apply apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_exception x = {.lane = item->lane, .position = item->event->position, .status = EF_ROW_DONE};
    ef_status st = EF_OK;

    for (size_t i = 0; i < set->count && count < 16; i++)
        if (ef_str_equal(set->items[i].generation->name, item->lane))
            of_name[count++] = set->items[i];
    (void)snprintf(scope, sizeof scope, "partition/%d", (int)item->partition);
    fence = (ef__fence){ef_str_from(scope), holding->token};
    if (count) {
        apply.generations = of_name;
        apply.generation_count = count;
        apply.events = &(ef__apply_event){item->event, item->skip};
        apply.event_count = 1;
        apply.fences = &fence;
        apply.fence_count = 1;
        apply.live_set = set->number;
        st = ef__apply_run(e, &apply, err);
    }
    for (size_t g = 0; st == EF_OK && g < count; g++)
        if (needs_exception(apply.results[g].verdict))
            x = exception_of(e, item->lane, item->event->position, &apply.results[g],
                             item->attempts);
    if (st == EF_OK) {
        if (x.status == EF_ROW_PENDING)
            x.due_us += 1000000; /* something before it has to come first */
        tally(&apply, tick);
        tick->dead += x.status == EF_ROW_DEAD;
        tick->claimed++;
        st = ef_outbox_mark(e->journal, item->lane, holding, 1, &x, 1, err);
    }
    ef__apply_release(&apply);
    return st == EF_CONFLICT ? EF_OK : st; /* the next tick tries again */
}

ef_status ef__queue_retry(ef_engine *e, size_t batch, ef_tick *tick, ef_error *err)
{
    ef_taken_batch taken = EF_TAKEN_BATCH_INIT;
    ef__live_set set = {0};
    ef_holding *held = NULL;
    size_t held_count = 0;
    ef_status st = held_partitions(e, &held, &held_count, err);

    if (st == EF_OK && held_count)
        st = ef_outbox_take_due(e->journal, (ef_str){0}, held, held_count, batch, &taken, err);
    if (st == EF_OK && taken.count)
        st = ef__live_set_read(e, true, &set, err);
    for (size_t i = 0; st == EF_OK && i < taken.count; i++)
        for (size_t h = 0; st == EF_OK && h < held_count; h++)
            if (held[h].partition == taken.items[i].partition)
                st = retry_one(e, &set, &taken.items[i], &held[h], tick, err);
    /* The next of each stream may be due now. */
    tick->more = tick->more || (st == EF_OK && taken.count > 0 && tick->applied > 0);
    ef__live_set_release(&set);
    ef_taken_batch_release(&taken);
    free(held);
    return st;
}
