/*
 * hand.c - a worker or the operator: opened, at work, crashed, closed.
 *
 *     down ─ open ─► idle ─ enter ─► busy ─ leave ─► idle | down (it crashed)
 */
#include "sim.h"

#include "../../src/engine/publish.h"
#include "../../src/engine/run.h"

static int64_t hand_wall_us(void *context)
{
    const hand *h = context;

    return h->sim->wall_us + h->skew_us;
}

static int64_t hand_mono_us(void *context)
{
    return ((const hand *)context)->sim->mono_us;
}

/* A new life has a new name, as a process that is started again. */
static void begin_life(hand *h)
{
    sim *s = h->sim;

    h->life++;
    h->crashed = h->unsure = false;
    (void)snprintf(h->name, sizeof h->name, "%s%d.%d", h->index == SIM_OPERATOR ? "op" : "w",
                   h->index, h->life);
    h->skew_us = s->trouble.jump ? random_between(&s->random, -3000000, 3000000) : 0;
    h->clock = (ef_clock){hand_wall_us, hand_mono_us, h};
}

void hand_open(hand *h)
{
    sim *s = h->sim;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (h->engine)
        return;
    begin_life(h);
    hand_enter(h);
    st = ef__engine_open_on(&(ef_engine_options){.journal = &h->journal.base,
                                                 .worker = ef_str_from(h->name),
                                                 .mode = s->folds_inline && h->index == SIM_OPERATOR
                                                             ? EF_MODE_INLINE_THEN_OUTBOX
                                                             : EF_MODE_OUTBOX_APPLY_ONLY,
                                                 .clock = &h->clock},
                            &h->views.base, &h->engine, &err);
    if (h->engine) {
        h->engine->cursor_batch = 4 * s->batch;
        h->engine->sink_open = mail_open;
    }
    hand_leave(h, "open", st, &err);
}

void hand_enter(hand *h)
{
    h->busy = true;
    h->turn = ++h->sim->turns;
    h->disturbed = false;
}

/* Statuses that no fault explains: whatever happens to the stores, the engine must not ask them for
 * things that they refuse on principle, and must not see damage. */
static bool never_right(ef_status st)
{
    return st == EF_DAMAGED || st == EF_BAD_INPUT || st == EF_MISUSE || st == EF_BAD_JSON ||
           st == EF_TOO_LARGE || st == EF_UNSUPPORTED || st == EF_ID_CONFLICT;
}

void hand_leave(hand *h, const char *what, ef_status st, const ef_error *err)
{
    sim *s = h->sim;

    h->busy = false;
    h->folds_inline = false;
    if (!sim_failed(s) && (never_right(st) || (st != EF_OK && !h->disturbed)))
        oracle_wrong(&s->oracle, "%s of %s answered %s: %s", what, h->name, ef_status_name(st),
                     err->text);
    if (!h->crashed)
        return;
    if (h->engine)
        ef__engine_abandon(h->engine);
    h->engine = NULL;
}

void hand_close(hand *h)
{
    sim *s = h->sim;
    bool disturbed;

    if (!h->engine)
        return;
    sim_note(s, "%s closes", h->name);
    hand_enter(h);
    ef_engine_close(h->engine);
    h->engine = NULL;
    disturbed = h->disturbed;
    hand_leave(h, "close", EF_OK, NULL);
    /* A clock that jumps back can bring a lease to life again that its owner has given up. */
    if (!disturbed && ((!h->unsure && s->trouble.jump == 0) || s->calm))
        oracle_let_go(&s->oracle, h->name, s->wall_us);
}

void hand_die(hand *h)
{
    sim_note(h->sim, "%s dies", h->name);
    ef__engine_abandon(h->engine);
    h->engine = NULL;
}

/* Half of the workers go on for days, as those of a supervisor: they rest while all is quiet. */
static ef_status work(hand *h, ef_tick *tick, ef_error *err)
{
    ef_work_options options = {.batch = h->sim->batch, .lease_ms = h->sim->lease_ms};
    ef_status st;

    if (h->index % 2 == 0 || h->sim->wide_awake)
        return ef_engine_work(h->engine, &options, tick, err);
    st = ef__queue_watch(h->engine, &options, tick, err);
    if (st == EF_OK)
        st = ef__cursor_work(h->engine, &options, tick, err);
    if (st == EF_OK)
        st = ef__run_work(h->engine, &options, tick, err);
    return st == EF_OK && h->sim->publishes ? ef__publish_work(h->engine, &options, tick, err) : st;
}

void hand_tick(hand *h)
{
    sim *s = h->sim;
    ef_error err = EF_ERROR_INIT;
    ef_tick tick = {0};
    ef_status st;

    sim_note(s, "%s ticks", h->name);
    hand_enter(h);
    st = work(h, &tick, &err);
    sim_note(s, "%s ticked: %s, applied %d, failed %d, caught up %d, owns %d%s", h->name,
             ef_status_name(st), (int)tick.applied, (int)tick.failed, (int)tick.caught_up,
             (int)tick.owned_count, h->crashed ? ", crashed" : "");
    hand_leave(h, "a tick", st, &err);
}
