/*
 * proxy.c - the faults of a store's interface: before a call and after it.
 */
#include "sim.h"

static const char *const CHEATS[CHEAT_COUNT] = {
    [CHEAT_NONE] = "none",
    [CHEAT_DROP_RETRY_ROWS] = "drop-exceptions",
    [CHEAT_DONE_RETRY_ROWS] = "done-exceptions",
    [CHEAT_COMMIT_TWICE] = "commit-twice",
    [CHEAT_LOSE_WATERMARK] = "lose-watermark",
    [CHEAT_LOSE_VIEW] = "lose-view",
    [CHEAT_FORGE_TOKEN] = "forge-token",
    [CHEAT_DROP_FENCES] = "drop-fences",
    [CHEAT_FORGE_MARK] = "forge-mark",
    [CHEAT_STEAL_LEASE] = "steal-lease",
    [CHEAT_EARLY_LIVE] = "early-live",
    [CHEAT_LOSE_TENANT] = "lose-tenant",
    [CHEAT_EARLY_JOIN] = "early-join",
    [CHEAT_LOSE_EVENT] = "lose-event",
    [CHEAT_LOSE_ROW] = "lose-row",
    [CHEAT_LOSE_MESSAGE] = "lose-message",
    [CHEAT_SWAP_MESSAGES] = "swap-messages",
};

const char *cheat_name(sim_cheat cheat)
{
    return CHEATS[cheat];
}

int cheat_find(const char *name)
{
    for (int i = 0; i < CHEAT_COUNT; i++)
        if (strcmp(CHEATS[i], name) == 0)
            return i;
    return -1;
}

static ef_status fault(sim_actor *actor, const char *call, ef_status st, const char *what,
                       ef_error *err)
{
    actor->disturbed = true;
    actor->sim->faults++;
    sim_note(actor->sim, "  %s %s: %s, %s", actor->name, call, what, ef_status_describe(st)->name);
    return ef_fail(err, st, "simulated at %s: %s", call, what);
}

static ef_status crash(sim_actor *actor, const char *call, const char *when, ef_error *err)
{
    actor->crashed = true;
    return fault(actor, call, EF_IO, when, err);
}

/* Other actors run while this one is paused. Inside a commit the view store is locked, so that only
 * the journal can change. */
static void pause_here(sim_actor *actor, const char *call, const char *when)
{
    sim_world *sim = actor->sim;

    if (sim->depth >= SIM_DEPTH)
        return;
    actor->disturbed = true;
    sim->faults++;
    sim_note(sim, "  %s pauses %s %s", actor->name, when, call);
    sim->depth++;
    if (actor->in_commit) {
        sim_append(sim, &sim->actors[SIM_OUTSIDER]);
    } else {
        if (random_chance(&sim->random, 500))
            sim_advance(sim, sim->lease_ms * 1000 * random_between(&sim->random, 3, 12) / 8);
        for (int n = random_between(&sim->random, 1, 6); n > 0 && !sim_failed(sim); n--)
            sim_act(sim);
    }
    sim->depth--;
    sim_note(sim, "  %s goes on %s %s", actor->name, when, call);
}

static bool is_steady(const sim_actor *actor)
{
    return actor->sim->calm || actor->index == SIM_OUTSIDER;
}

ef_status gate_before(sim_actor *actor, const char *call, bool write, ef_error *err)
{
    static const ef_status REFUSALS[] = {EF_BUSY, EF_IO, EF_FULL, EF_NO_MEMORY};
    sim_world *sim = actor->sim;

    if (sim_failed(sim) || actor->crashed)
        return ef_fail(err, EF_IO, "simulated: the worker is gone");
    if (sim->outage && strcmp(call, "commit") == 0)
        return fault(actor, call, REFUSALS[random_below(&sim->random, 3)], "refused", err);
    if (is_steady(actor))
        return EF_OK;
    sim_advance(sim, 150);
    if (random_chance(&sim->random, sim->trouble.crash))
        return crash(actor, call, "dies before it", err);
    if (random_chance(&sim->random, sim->trouble.refuse))
        return fault(actor, call, REFUSALS[random_below(&sim->random, write ? 4 : 2)], "refused",
                     err);
    if (random_chance(&sim->random, sim->trouble.pause))
        pause_here(actor, call, "before");
    return sim_failed(sim) ? ef_fail(err, EF_IO, "simulated: over") : EF_OK;
}

ef_status gate_after(sim_actor *actor, const char *call, bool write, ef_status st, ef_error *err)
{
    sim_world *sim = actor->sim;

    if (sim_failed(sim))
        return ef_fail(err, EF_IO, "simulated: over");
    if (is_steady(actor))
        return st;
    if (random_chance(&sim->random, sim->trouble.crash))
        return crash(actor, call, "dies after it", err);
    if (random_chance(&sim->random, sim->trouble.pause))
        pause_here(actor, call, "after");
    if (st == EF_OK && write && random_chance(&sim->random, sim->trouble.lose)) {
        actor->unsure = true;
        return fault(actor, call, random_chance(&sim->random, 500) ? EF_UNSURE : EF_IO,
                     "done, the answer is lost", err);
    }
    return sim_failed(sim) ? ef_fail(err, EF_IO, "simulated: over") : st;
}
