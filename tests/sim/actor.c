/*
 * actor.c - a worker or the operator: open, tick, crash, close.
 *
 *     down ─ open ─► idle ─ enter ─► busy ─ leave ─► idle | down (it crashed)
 */
#include "sim.h"

#include "../../src/engine/publish.h"
#include "../../src/engine/run.h"

static int64_t hand_wall_us(void *context)
{
    const sim_actor *actor = context;

    return actor->sim->wall_us + actor->skew_us;
}

static int64_t hand_mono_us(void *context)
{
    return ((const sim_actor *)context)->sim->mono_us;
}

/* A new life has a new name, like a restarted process. */
static void begin_life(sim_actor *actor)
{
    sim_world *sim = actor->sim;

    actor->life++;
    actor->crashed = actor->unsure = false;
    (void)snprintf(actor->name, sizeof actor->name, "%s%d.%d",
                   actor->index == SIM_OPERATOR ? "op" : "w", actor->index, actor->life);
    actor->skew_us = sim->trouble.jump ? random_between(&sim->random, -3000000, 3000000) : 0;
    actor->clock = (ef_clock){hand_wall_us, hand_mono_us, actor};
}

void actor_open(sim_actor *actor)
{
    sim_world *sim = actor->sim;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (actor->engine)
        return;
    begin_life(actor);
    actor_enter(actor);
    st = ef__engine_open_on(
        &(ef_engine_options){.journal = &actor->journal.base,
                             .worker = ef_str_from(actor->name),
                             .mode = sim->folds_inline && actor->index == SIM_OPERATOR
                                         ? EF_MODE_INLINE_THEN_OUTBOX
                                         : EF_MODE_OUTBOX_APPLY_ONLY,
                             .clock = &actor->clock},
        &actor->views.base, &actor->engine, &err);
    if (actor->engine) {
        actor->engine->cursor_batch = 4 * sim->batch;
        if (sim->small_commits)
            actor->engine->commit_outcomes = actor->engine->commit_bytes =
                actor->engine->cursor_read = 1;
        actor->engine->publishers.sink_open = mail_open;
    }
    actor_leave(actor, "open", st, &err);
}

void actor_enter(sim_actor *actor)
{
    actor->busy = true;
    actor->turn = ++actor->sim->turns;
    actor->disturbed = false;
}

/* Statuses that no fault explains: whatever happens to the stores, the engine must not make
 * requests that they refuse on principle, and must not see damage. */
static bool never_right(ef_status st)
{
    return st == EF_DAMAGED || st == EF_BAD_INPUT || st == EF_MISUSE || st == EF_BAD_JSON ||
           st == EF_TOO_LARGE || st == EF_UNSUPPORTED || st == EF_ID_CONFLICT;
}

void actor_leave(sim_actor *actor, const char *what, ef_status st, const ef_error *err)
{
    sim_world *sim = actor->sim;

    actor->busy = false;
    actor->folds_inline = false;
    if (!sim_failed(sim) && (never_right(st) || (st != EF_OK && !actor->disturbed)))
        oracle_wrong(&sim->oracle, "%s of %s answered %s: %s", what, actor->name,
                     ef_status_describe(st)->name, err->text);
    if (!actor->crashed)
        return;
    if (actor->engine)
        ef__engine_abandon(actor->engine);
    actor->engine = NULL;
}

void actor_close(sim_actor *actor)
{
    sim_world *sim = actor->sim;
    bool disturbed;

    if (!actor->engine)
        return;
    sim_note(sim, "%s closes", actor->name);
    actor_enter(actor);
    ef_engine_close(actor->engine);
    actor->engine = NULL;
    disturbed = actor->disturbed;
    actor_leave(actor, "close", EF_OK, NULL);
    /* A clock that jumps back can revive a lease that its owner has given up. */
    if (!disturbed && ((!actor->unsure && sim->trouble.jump == 0) || sim->calm))
        oracle_let_go(&sim->oracle, actor->name, sim->wall_us);
}

void actor_crash(sim_actor *actor)
{
    sim_note(actor->sim, "%s dies", actor->name);
    ef__engine_abandon(actor->engine);
    actor->engine = NULL;
}

/* Half of the workers run like those of a supervisor: they become idle without work. */
static ef_status run_tick(sim_actor *actor, ef_tick *tick, ef_error *err)
{
    ef_work_options options = {.batch = actor->sim->batch, .lease_ms = actor->sim->lease_ms};
    ef_status st;

    if (actor->index % 2 == 0 || actor->sim->never_idle)
        return ef_engine_work(actor->engine, &options, tick, err);
    st = ef__queue_driver_watch(actor->engine, &options, tick, err);
    if (st == EF_OK)
        st = ef__cursor_driver_step(actor->engine, &options, tick, err);
    if (st == EF_OK)
        st = ef__run_driver_step(actor->engine, &options, tick, err);
    return st == EF_OK && actor->sim->publishes
               ? ef__publisher_driver_step(actor->engine, &options, tick, err)
               : st;
}

void actor_tick(sim_actor *actor)
{
    sim_world *sim = actor->sim;
    ef_error err = EF_ERROR_INIT;
    ef_tick tick = {0};
    ef_status st;

    sim_note(sim, "%s ticks", actor->name);
    actor_enter(actor);
    st = run_tick(actor, &tick, &err);
    sim_note(sim, "%s ticked: %s, applied %d, failed %d, caught up %d, owns %d%s", actor->name,
             ef_status_describe(st)->name, (int)tick.applied, (int)tick.failed, (int)tick.caught_up,
             (int)tick.owned_count, actor->crashed ? ", crashed" : "");
    actor_leave(actor, "a tick", st, &err);
}
