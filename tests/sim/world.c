/*
 * world.c - a world from its beginning to its end: trouble first, then calm, then the accounts.
 */
#include "sim.h"

#include <inttypes.h>

enum { SETTLE_ROUNDS = 400, APART_ROUNDS = 120 };

static int64_t store_wall_us(void *context)
{
    return ((const sim *)context)->wall_us;
}

static int64_t store_mono_us(void *context)
{
    return ((const sim *)context)->mono_us;
}

/* Not everything goes wrong in every world: faults that come alone show other mistakes. */
static void choose(sim *s)
{
    static const int REFUSE[] = {0, 0, 2, 10, 30}, LOSE[] = {0, 0, 10, 60}, CRASH[] = {0, 0, 1, 4},
                     PAUSE[] = {0, 2, 8, 20}, JUMP[] = {0, 0, 10}, BAD[] = {0, 80, 250};
    static const int LEASE_MS[] = {1000, 3000, 10000};

    s->trouble = (trouble){.refuse = REFUSE[random_below(&s->random, 5)],
                           .lose = LOSE[random_below(&s->random, 4)],
                           .crash = CRASH[random_below(&s->random, 4)],
                           .pause = PAUSE[random_below(&s->random, 4)],
                           .jump = JUMP[random_below(&s->random, 3)]};
    s->bad_permille = BAD[random_below(&s->random, 3)];
    s->lease_ms = LEASE_MS[random_below(&s->random, 3)];
    s->workers = random_between(&s->random, 2, SIM_WORKERS);
    s->partitions = random_between(&s->random, 1, 4);
    s->streams = random_between(&s->random, 3, SIM_STREAMS);
    s->batch = (size_t)random_between(&s->random, 1, 8);
    s->folds_inline = random_chance(&s->random, 150);
    s->passes_over = s->oracle.passes_over = random_chance(&s->random, 200);
    /* None of those in seeds.txt: they stay the worlds that they were. */
    s->publishes = s->seed % 9 == 3 || s->seed % 9 == 8;
}

/* A seam that has grown: whatever the store can do, the proxy has to pass on. Both are tables of
 * pointers. */
static void check_proxy(sim *s, const char *seam, const void *store, const void *proxy, size_t size)
{
    for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *)) {
        void *has, *passes;
        memcpy(&has, (const char *)store + at, sizeof has);
        memcpy(&passes, (const char *)proxy + at, sizeof passes);
        if (has && !passes)
            oracle_wrong(&s->oracle, "the %s seam has grown: tests/sim does not pass on entry %zu",
                         seam, at / sizeof(void *));
    }
}

static bool begin(sim *s)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    s->wall_us = INT64_C(1700000000000000);
    s->mono_us = 1000000;
    s->clock = (ef_clock){store_wall_us, store_mono_us, s};
    st = ef_journal_open(
        &(ef_journal_options){
            .url = "memory:", .create = true, .partitions = s->partitions, .clock = &s->clock},
        &s->journal, &err);
    if (st == EF_OK)
        st = ef__views_open(
            &(ef__views_options){.url = "memory:", .create = true, .clock = &s->clock}, &s->views,
            &err);
    if (st == EF_OK && s->passes_over)
        st = ef_act_add(s->journal,
                        &(ef_act){.act = EF_STR("on_error"),
                                  .who = EF_STR("sim"),
                                  .lane = ef_str_from(rule_name(rule_name_of(RULE_LEDGER_PICKY))),
                                  .seq = EF_ON_ERROR_SKIP},
                        &err);
    if (st != EF_OK)
        oracle_wrong(&s->oracle, "the stores cannot be opened: %s", err.text);
    for (int i = 0; i < SIM_HANDS && st == EF_OK; i++) {
        hand *h = &s->hands[i];
        *h = (hand){.sim = s, .index = i, .name = "thief"};
        h->journal = (proxy_journal){.base = *s->journal, .hand = h};
        h->journal.base.ops = &proxy_journal_ops;
        h->views = (proxy_views){.base = *s->views, .hand = h};
        h->views.base.ops = &proxy_views_ops;
    }
    if (st == EF_OK && s->publishes)
        mail_begin(s);
    if (st == EF_OK) {
        check_proxy(s, "journal's", s->journal->ops, &proxy_journal_ops, sizeof proxy_journal_ops);
        check_proxy(s, "views'", s->views->ops, &proxy_views_ops, sizeof proxy_views_ops);
    }
    return st == EF_OK && !sim_failed(s);
}

static void end(sim *s)
{
    for (int i = 0; i < SIM_HANDS; i++)
        if (s->hands[i].engine)
            ef__engine_abandon(s->hands[i].engine);
    if (s->views)
        ef__views_close(s->views);
    ef_journal_close(s->journal);
}

/* --- calm --------------------------------------------------------------------------------------
 */

/* The programs that fail on some events give way to ones that do not: in half of the worlds the old
 * generation is retired, in the others an operator skips what it cannot digest. */
static void replace(sim *s, int name, bool retire)
{
    hand *h = &s->hands[SIM_OUTSIDER];
    sim_rule fixed = rule_fixed(name);
    int64_t newest = 0;

    if (s->rules[name] == fixed && name < 2)
        return;
    sim_deploy(s, name, fixed, s->version[name] + 1);
    for (int i = 0; i < s->oracle.generation_count; i++)
        if (s->oracle.generations[i].seen.name == name && s->oracle.generations[i].rule == fixed &&
            s->oracle.generations[i].seen.id > newest)
            newest = s->oracle.generations[i].seen.id;
    (void)h->views.base.ops->generation_route(&h->views.base, newest, 0, NULL);
    for (int i = s->oracle.generation_count - 1; i >= 0; i--) {
        const oracle_generation *g = &s->oracle.generations[i];
        if ((g->rule == RULE_PICKY && retire) || (g->rule == RULE_LEDGER_PICKY && !s->passes_over))
            (void)h->views.base.ops->generation_set_state(&h->views.base, g->seen.id, 0,
                                                          EF__GENERATION_RETIRED, NULL);
    }
}

static void resume_all(sim *s)
{
    hand *h = &s->hands[SIM_OPERATOR];

    hand_open(h);
    for (int name = 0; name < RULE_NAMES && !sim_failed(s); name++) {
        ef_error err = EF_ERROR_INIT;
        ef_status st;
        if (!s->version[name])
            continue;
        hand_enter(h);
        st = ef_projection_resume(h->engine, ef_str_from(rule_name(name)), EF_STR(""), EF_STR(""),
                                  &err);
        hand_leave(h, "resume", st == EF_NOT_FOUND ? EF_OK : st, &err);
    }
}

static void everybody_works(sim *s)
{
    for (int w = 0; w < s->workers && !sim_failed(s); w++) {
        hand_open(&s->hands[w]);
        hand_tick(&s->hands[w]);
    }
}

/* For ten minutes, longer than any delay, nothing can be written to the views, and events come in.
 * No row dies of it, and none has used up an attempt. */
static void outlast_an_outage(sim *s)
{
    static look_rows before;
    int64_t faults = s->faults, head = s->oracle.head;

    sim_append(s, &s->hands[SIM_OUTSIDER]);
    before = s->oracle.rows;
    sim_note(s, "the views cannot be written to");
    s->outage = true;
    for (int round = 0; round < 60 && !sim_failed(s); round++) {
        everybody_works(s);
        sim_advance(s, 10000000);
    }
    s->outage = false;
    sim_note(s, "the views can be written to");
    if (!sim_failed(s) && s->faults == faults && s->oracle.head > head)
        oracle_wrong(&s->oracle, "nobody has noticed an outage of ten minutes");
    for (int lane = 1; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= s->oracle.head && !sim_failed(s); p++) {
            const look_row *was = &before.at[lane][p], *is = &s->oracle.rows.at[lane][p];
            if (was->there && (!is->there || is->attempts != was->attempts ||
                               (is->status == LOOK_DEAD && was->status != LOOK_DEAD)))
                oracle_wrong(&s->oracle,
                             "W5: an outage of the views took position %" PRId64
                             " in lane %s from %d attempts to %d, status %d",
                             p, rule_name(lane - 1), was->attempts, is->attempts, (int)is->status);
        }
}

/* Runs that are open; with `cancel` an operator cancels them. */
static size_t open_runs(sim *s, bool cancel)
{
    ef_run_list list = {0};
    size_t count;

    if (ef_run_ls(s->journal, true, 100, &list, NULL) != EF_OK)
        oracle_wrong(&s->oracle, "the runs cannot be listed");
    count = list.count;
    for (size_t i = 0; cancel && i < list.count; i++)
        (void)ef_run_cancel(s->journal, list.items[i].id, NULL);
    ef_run_list_release(&list);
    return count;
}

/* A store that is not at hand says nothing about a run: none has failed for it. */
static void check_no_run_failed_for_a_fault(sim *s)
{
    ef_run_list list = {0};

    if (ef_run_ls(s->journal, false, 1000, &list, NULL) != EF_OK)
        oracle_wrong(&s->oracle, "the runs cannot be listed");
    for (size_t i = 0; i < list.count && !sim_failed(s); i++)
        if (list.items[i].state == EF_RUN_FAILED && list.items[i].error.len > 9 &&
            memcmp(list.items[i].error.ptr, "simulated", 9) == 0)
            oracle_wrong(&s->oracle, "a run has failed for a fault that passed: %.*s",
                         EF_STR_ARG(list.items[i].error));
    ef_run_list_release(&list);
}

/* Some runs cannot end while their program fails on an event; those are cancelled. */
static void end_runs(sim *s)
{
    for (int round = 0; round < 80 && open_runs(s, round == 40) && !sim_failed(s); round++) {
        everybody_works(s);
        sim_advance(s, 1000000);
    }
    if (!sim_failed(s) && open_runs(s, false))
        oracle_wrong(&s->oracle, "a run that was cancelled is still open");
    check_no_run_failed_for_a_fault(s);
}

/* A tenant that cannot go on holds up no other, and those that can go on do. What is let pass has
 * its tries first, one after the other: half a minute each. */
static void keep_apart(sim *s)
{
    int rounds = APART_ROUNDS;
    char why[200] = "";

    for (int64_t p = 1; p <= s->oracle.head; p++)
        rounds += s->oracle.events[p].bad ? 30 : 0;
    for (int round = 0; round < rounds && !sim_failed(s); round++) {
        everybody_works(s);
        if (sim_failed(s) || oracle_apart(&s->oracle, why, sizeof why))
            return;
        sim_advance(s, 1000000);
    }
    oracle_wrong(&s->oracle, "G7: after %d rounds without faults %s", rounds, why);
}

static void skip_what_is_bad(sim *s)
{
    for (int lane = 1; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= s->oracle.head && !sim_failed(s); p++)
            if (s->oracle.rows.at[lane][p].there && s->oracle.events[p].bad &&
                !s->oracle.rows.at[lane][p].skip)
                sim_skip(s, &s->hands[SIM_OPERATOR], lane, p);
}

/* Everybody works and time goes by, until there is nothing left to do. */
static void settle(sim *s, bool skip)
{
    char why[200] = "";

    for (int round = 0; round < SETTLE_ROUNDS && !sim_failed(s); round++) {
        everybody_works(s);
        if (sim_failed(s) ||
            (oracle_settled(&s->oracle, why, sizeof why) && mail_settled(s, why, sizeof why)))
            return;
        if (round % 8 == 7) {
            if (skip) /* first: one that was requeued has not failed */
                skip_what_is_bad(s);
            sim_requeue_dead(s, &s->hands[SIM_OUTSIDER]);
        }
        sim_advance(s, round < 20 ? 500000 : 5000000);
    }
    oracle_wrong(&s->oracle, "no progress: after %d rounds without faults %s", SETTLE_ROUNDS, why);
}

/* --- the accounts ------------------------------------------------------------------------------
 */

static void check_accounts(sim *s)
{
    hand *h = &s->hands[SIM_OPERATOR];
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    hand_enter(h);
    st = ef_projection_ls(h->engine, (ef_str){0}, &list, &err);
    hand_leave(h, "projection ls", st, &err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef_projection *p = &list.items[i];
        bool superseded = false;
        for (size_t n = 0; n < list.count; n++)
            superseded = superseded || (list.items[n].routed && !p->by_log &&
                                        ef_str_equal(list.items[n].name, p->name) &&
                                        list.items[n].generation > p->generation);
        if (p->unaccounted != 0 || (p->lag_events + p->blocked_events != 0 && !superseded))
            oracle_wrong(&s->oracle,
                         "G5: %.*s v%d has %" PRId64 " events unaccounted for, %" PRId64 " waiting",
                         EF_STR_ARG(p->name), (int)p->version, p->unaccounted,
                         p->lag_events + p->blocked_events);
    }
    ef_projection_list_release(&list);
}

static void check_workers_left(sim *s)
{
    ef_worker_list list = {0};
    ef_status st = ef_worker_ls(s->journal, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        for (int w = 0; w < s->workers; w++)
            if (ef_str_equal(list.items[i].id, ef_str_from(s->hands[w].name)))
                oracle_wrong(&s->oracle, "%s has closed and is still among the workers",
                             s->hands[w].name);
    ef_worker_list_release(&list);
}

/* --- one dies ----------------------------------------------------------------------------------
 */

static const hand *hand_called(const sim *s, ef_str name)
{
    for (int w = 0; w < s->workers; w++)
        if (s->hands[w].engine && ef_str_equal(name, ef_str_from(s->hands[w].name)))
            return &s->hands[w];
    return NULL;
}

/* Every partition is with somebody who is there. */
static void check_all_held(sim *s, const hand *dead)
{
    ef_partition_list list = {0};
    ef_status st = ef_partition_ls(s->journal, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (!list.items[i].live || !hand_called(s, list.items[i].owner))
            oracle_wrong(&s->oracle,
                         "%s is dead for a lease and a second, and p%02d is with \"%.*s\"",
                         dead->name, (int)i, EF_STR_ARG(list.items[i].owner));
    ef_partition_list_release(&list);
}

/* Without faults: what a worker had is with the others within its lease and a second. One that
 * rests would leave it until there is something to do. */
static void check_take_over(sim *s)
{
    hand *dead = &s->hands[random_below(&s->random, s->workers)];
    int64_t left_us = s->lease_ms * 1000 + 1000000;

    s->wide_awake = true;
    for (int round = 0; round < 20 && !sim_failed(s); round++) { /* they find their shares */
        everybody_works(s);
        sim_advance(s, 500000);
    }
    if (sim_failed(s))
        return;
    hand_die(dead);
    for (; left_us > 0 && !sim_failed(s); left_us -= 250000) {
        sim_advance(s, 250000);
        for (int w = 0; w < s->workers && !sim_failed(s); w++)
            if (s->hands[w].engine)
                hand_tick(&s->hands[w]);
    }
    if (!sim_failed(s))
        check_all_held(s, dead);
}

/* A worker that lost an answer may hold a lease without knowing: by now it has learned of it, or it
 * has run out. */
static void close_all(sim *s)
{
    for (int round = 0; round < 3; round++) {
        sim_advance(s, 100000000);
        everybody_works(s);
    }
    for (int i = 0; i <= SIM_OPERATOR && !sim_failed(s); i++)
        hand_close(&s->hands[i]);
    if (!sim_failed(s))
        check_workers_left(s);
}

static void finish(sim *s)
{
    bool retire = random_chance(&s->random, 500);

    sim_note(s, "calm");
    s->calm = true;
    resume_all(s);
    if (random_chance(&s->random, 50) && !sim_failed(s))
        outlast_an_outage(s);
    end_runs(s);
    keep_apart(s);
    for (int name = 2; name < RULE_NAMES && !sim_failed(s); name++)
        if (s->version[name])
            replace(s, name, retire);
    settle(s, !retire);
    /* A build from the first event has to come out as those that lived through all this. */
    for (int name = 0; name < RULE_NAMES && !sim_failed(s); name++)
        if (s->version[name])
            sim_deploy(s, name, s->rules[name], s->version[name] + 1);
    settle(s, !retire);
    if (!sim_failed(s))
        oracle_digests(&s->oracle);
    if (!sim_failed(s))
        check_accounts(s);
    if (!sim_failed(s))
        check_take_over(s);
    close_all(s);
}

bool sim_run(sim *s, uint64_t seed, sim_cheat cheat, bool verbose)
{
    memset(s, 0, offsetof(sim, oracle));
    oracle_reset(&s->oracle);
    s->trace_count = 0;
    s->trace_hash = 0;
    s->faults = 0;
    s->seed = seed;
    s->random = seed * 0x9e3779b97f4a7c15u + 1;
    s->cheat = cheat;
    s->verbose = verbose;
    choose(s);
    if (begin(s)) {
        int steps = random_between(&s->random, 25, 85);
        sim_deploy(s, 0, RULE_TALLY, 1);
        sim_deploy(s, 2, RULE_PICKY, 1);
        if (random_chance(&s->random, 500))
            sim_deploy(s, 3, RULE_LEDGER_PICKY, 1);
        while (s->step < steps && !sim_failed(s))
            sim_act(s);
        if (!sim_failed(s))
            finish(s);
    }
    end(s);
    return !sim_failed(s);
}
