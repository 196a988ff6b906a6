/*
 * proxy.c - what may happen at a seam: before a call and after it.
 */
#include "sim.h"

static const char *const CHEATS[CHEAT_COUNT] = {
    [CHEAT_NONE] = "none",
    [CHEAT_DROP_EXCEPTIONS] = "drop-exceptions",
    [CHEAT_DONE_EXCEPTIONS] = "done-exceptions",
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

static ef_status fault(hand *h, const char *call, ef_status st, const char *what, ef_error *err)
{
    h->disturbed = true;
    h->sim->faults++;
    sim_note(h->sim, "  %s %s: %s, %s", h->name, call, what, ef_status_name(st));
    return ef_fail(err, st, "simulated at %s: %s", call, what);
}

static ef_status crash(hand *h, const char *call, const char *when, ef_error *err)
{
    h->crashed = true;
    return fault(h, call, EF_IO, when, err);
}

/* Others go on while this one stands still. Inside a commit the view store is locked, so that only
 * the journal can change. */
static void pause_here(hand *h, const char *call, const char *when)
{
    sim *s = h->sim;

    if (s->depth >= SIM_DEPTH)
        return;
    h->disturbed = true;
    s->faults++;
    sim_note(s, "  %s pauses %s %s", h->name, when, call);
    s->depth++;
    if (h->in_commit) {
        sim_append(s, &s->hands[SIM_OUTSIDER]);
    } else {
        if (random_chance(&s->random, 500))
            sim_advance(s, s->lease_ms * 1000 * random_between(&s->random, 3, 12) / 8);
        for (int n = random_between(&s->random, 1, 6); n > 0 && !sim_failed(s); n--)
            sim_act(s);
    }
    s->depth--;
    sim_note(s, "  %s goes on %s %s", h->name, when, call);
}

static bool is_steady(const hand *h)
{
    return h->sim->calm || h->index == SIM_OUTSIDER;
}

ef_status gate_before(hand *h, const char *call, bool write, ef_error *err)
{
    static const ef_status REFUSALS[] = {EF_BUSY, EF_IO, EF_FULL, EF_NO_MEMORY};
    sim *s = h->sim;

    if (sim_failed(s) || h->crashed)
        return ef_fail(err, EF_IO, "simulated: the worker is gone");
    if (s->outage && strcmp(call, "commit") == 0)
        return fault(h, call, REFUSALS[random_below(&s->random, 3)], "refused", err);
    if (is_steady(h))
        return EF_OK;
    sim_advance(s, 150);
    if (random_chance(&s->random, s->trouble.crash))
        return crash(h, call, "dies before it", err);
    if (random_chance(&s->random, s->trouble.refuse))
        return fault(h, call, REFUSALS[random_below(&s->random, write ? 4 : 2)], "refused", err);
    if (random_chance(&s->random, s->trouble.pause))
        pause_here(h, call, "before");
    return sim_failed(s) ? ef_fail(err, EF_IO, "simulated: over") : EF_OK;
}

ef_status gate_after(hand *h, const char *call, bool write, ef_status st, ef_error *err)
{
    sim *s = h->sim;

    if (sim_failed(s))
        return ef_fail(err, EF_IO, "simulated: over");
    if (is_steady(h))
        return st;
    if (random_chance(&s->random, s->trouble.crash))
        return crash(h, call, "dies after it", err);
    if (random_chance(&s->random, s->trouble.pause))
        pause_here(h, call, "after");
    if (st == EF_OK && write && random_chance(&s->random, s->trouble.lose)) {
        h->unsure = true;
        return fault(h, call, random_chance(&s->random, 500) ? EF_UNSURE : EF_IO,
                     "done, the answer is lost", err);
    }
    return sim_failed(s) ? ef_fail(err, EF_IO, "simulated: over") : st;
}
