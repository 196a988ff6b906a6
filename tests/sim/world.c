/*
 * world.c - a world from start to end: faults first, then calm, then the final checks.
 */
#include "sim.h"

#include <inttypes.h>

enum { SETTLE_ROUNDS = 400, APART_ROUNDS = 120 };

static int64_t store_wall_us(void *context)
{
    return ((const sim_world *)context)->wall_us;
}

static int64_t store_mono_us(void *context)
{
    return ((const sim_world *)context)->mono_us;
}

/* Not every fault occurs in every world: single faults reveal other bugs than all of them. */
static void choose_world(sim_world *sim)
{
    static const int REFUSE[] = {0, 0, 2, 10, 30}, LOSE[] = {0, 0, 10, 60}, CRASH[] = {0, 0, 1, 4},
                     PAUSE[] = {0, 2, 8, 20}, JUMP[] = {0, 0, 10}, BAD[] = {0, 80, 250};
    static const int LEASE_MS[] = {1000, 3000, 10000};

    sim->trouble = (sim_faults){.refuse = REFUSE[random_below(&sim->random, 5)],
                                .lose = LOSE[random_below(&sim->random, 4)],
                                .crash = CRASH[random_below(&sim->random, 4)],
                                .pause = PAUSE[random_below(&sim->random, 4)],
                                .jump = JUMP[random_below(&sim->random, 3)]};
    sim->bad_permille = BAD[random_below(&sim->random, 3)];
    sim->lease_ms = LEASE_MS[random_below(&sim->random, 3)];
    sim->workers = random_between(&sim->random, 2, SIM_WORKERS);
    sim->partitions = random_between(&sim->random, 1, 4);
    sim->streams = random_between(&sim->random, 3, SIM_STREAMS);
    sim->batch = (size_t)random_between(&sim->random, 1, 8);
    sim->folds_inline = random_chance(&sim->random, 150);
    sim->skips_dead = sim->oracle.skips_dead = random_chance(&sim->random, 200);
    /* Not in the worlds of seeds.txt, which must stay as they were. */
    sim->publishes = sim->seed % 9 == 3 || sim->seed % 9 == 8;
    sim->small_commits = sim->seed % 13 == 0 || sim->seed % 13 == 7;
}

/* A store's interface may have grown: the proxy must have every function that the store has. Both
 * are tables of pointers. */
void check_proxy(sim_world *sim, const char *seam, const void *store, const void *proxy,
                 size_t size)
{
    for (size_t at = 0; at + sizeof(void *) <= size; at += sizeof(void *)) {
        void *has, *passes;
        memcpy(&has, (const char *)store + at, sizeof has);
        memcpy(&passes, (const char *)proxy + at, sizeof passes);
        if (has && !passes)
            oracle_wrong(&sim->oracle,
                         "the %s seam has grown: tests/sim does not pass on entry %zu", seam,
                         at / sizeof(void *));
    }
}

static bool begin_world(sim_world *sim)
{
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim->wall_us = INT64_C(1700000000000000);
    sim->mono_us = 1000000;
    sim->clock = (ef_clock){store_wall_us, store_mono_us, sim};
    st = ef_journal_open(
        &(ef_journal_options){
            .url = "memory:", .create = true, .partitions = sim->partitions, .clock = &sim->clock},
        &sim->journal, &err);
    if (st == EF_OK)
        st = ef__views_open(
            &(ef__views_options){.url = "memory:", .create = true, .clock = &sim->clock},
            &sim->views, &err);
    if (st != EF_OK)
        oracle_wrong(&sim->oracle, "the stores cannot be opened: %s", err.text);
    for (int i = 0; i < SIM_ACTORS && st == EF_OK; i++) {
        sim_actor *h = &sim->actors[i];
        *h = (sim_actor){.sim = sim, .index = i, .name = "thief"};
        h->journal.actor = h;
        proxy_journal_init(&h->journal.base, sim);
        h->views = (proxy_views){.base = *sim->views, .actor = h};
        h->views.base.ops = &proxy_views_ops;
    }
    if (st == EF_OK && sim->publishes)
        mail_begin(sim);
    if (st == EF_OK)
        check_proxy(sim, "views'", sim->views->ops, &proxy_views_ops, sizeof proxy_views_ops);
    return st == EF_OK && !sim_failed(sim);
}

static void end_world(sim_world *sim)
{
    for (int i = 0; i < SIM_ACTORS; i++)
        if (sim->actors[i].engine)
            ef__engine_abandon(sim->actors[i].engine);
    if (sim->views)
        ef__views_close(sim->views);
    ef_journal_close(sim->journal);
}

/* --- calm ------------------------------------------------------------------------------------- */

/* Programs that fail on some events are replaced by ones that do not: in half of the worlds the old
 * generation is retired, in the others an operator skips the failed events. */
static void replace_program(sim_world *sim, int name, bool retire)
{
    sim_actor *actor = &sim->actors[SIM_OUTSIDER];
    sim_rule fixed = rule_fixed(name);
    int64_t newest = 0;

    if (sim->rules[name] == fixed && name < 2)
        return;
    sim_deploy(sim, name, fixed, sim->version[name] + 1);
    for (int i = 0; i < sim->oracle.generation_count; i++)
        if (sim->oracle.generations[i].seen.name == name &&
            sim->oracle.generations[i].rule == fixed && sim->oracle.generations[i].seen.id > newest)
            newest = sim->oracle.generations[i].seen.id;
    (void)actor->views.base.ops->generation_activate(&actor->views.base, newest, 0, 0, NULL);
    for (int i = sim->oracle.generation_count - 1; i >= 0; i--) {
        const oracle_generation *generation = &sim->oracle.generations[i];
        if ((generation->rule == RULE_PICKY && retire) ||
            (generation->rule == RULE_LEDGER_PICKY && !sim->skips_dead))
            (void)actor->views.base.ops->generation_change(&actor->views.base, generation->seen.id,
                                                           0, EF__GENERATION_RETIRED, NULL, NULL);
    }
}

static void resume_all(sim_world *sim)
{
    sim_actor *actor = &sim->actors[SIM_OPERATOR];

    actor_open(actor);
    for (int name = 0; name < RULE_NAMES && !sim_failed(sim); name++) {
        ef_error err = EF_ERROR_INIT;
        ef_status st;
        if (!sim->version[name])
            continue;
        actor_enter(actor);
        st = ef_projection_pause(actor->engine, ef_str_from(rule_name(name)), false, EF_STR(""),
                                 EF_STR(""), &err);
        actor_leave(actor, "resume", st == EF_NOT_FOUND ? EF_OK : st, &err);
    }
}

static void everybody_works(sim_world *sim)
{
    for (int w = 0; w < sim->workers && !sim_failed(sim); w++) {
        actor_open(&sim->actors[w]);
        actor_tick(&sim->actors[w]);
    }
}

/* For ten minutes, longer than any delay, nothing can be written to the views, while events are
 * appended. No row becomes dead, and none uses an attempt. */
static void outlast_an_outage(sim_world *sim)
{
    static stored_rows before;
    int64_t faults = sim->faults, head = sim->oracle.head;

    sim_append(sim, &sim->actors[SIM_OUTSIDER]);
    before = sim->oracle.rows;
    sim_note(sim, "the views cannot be written to");
    sim->outage = true;
    for (int round = 0; round < 60 && !sim_failed(sim); round++) {
        everybody_works(sim);
        sim_advance(sim, 10000000);
    }
    sim->outage = false;
    sim_note(sim, "the views can be written to");
    if (!sim_failed(sim) && sim->faults == faults && sim->oracle.head > head)
        oracle_wrong(&sim->oracle, "nobody has noticed an outage of ten minutes");
    for (int lane = 1; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= sim->oracle.head && !sim_failed(sim); p++) {
            const stored_row *was = &before.at[lane][p], *is = &sim->oracle.rows.at[lane][p];
            if (was->there && (!is->there || is->attempts != was->attempts ||
                               (is->status == LOOK_DEAD && was->status != LOOK_DEAD)))
                oracle_wrong(&sim->oracle,
                             "W5: an outage of the views took position %" PRId64
                             " in lane %s from %d attempts to %d, status %d",
                             p, rule_name(lane - 1), was->attempts, is->attempts, (int)is->status);
        }
}

/* The number of open runs; with `cancel` an operator cancels them. */
static size_t open_runs(sim_world *sim, bool cancel)
{
    ef_run_list list = {0};
    size_t count;

    if (ef_run_ls(sim->journal, &(ef_run_query){.open_only = true, .limit = 100}, &list, NULL) !=
        EF_OK)
        oracle_wrong(&sim->oracle, "the runs cannot be listed");
    count = list.count;
    for (size_t i = 0; cancel && i < list.count; i++)
        (void)ef_run_cancel(sim->journal, list.items[i].id, NULL);
    EF_RELEASE(&list);
    return count;
}

/* An outage of a store fails no run. */
static void check_no_run_failed_for_a_fault(sim_world *sim)
{
    ef_run_list list = {0};

    if (ef_run_ls(sim->journal, &(ef_run_query){.limit = 1000}, &list, NULL) != EF_OK)
        oracle_wrong(&sim->oracle, "the runs cannot be listed");
    for (size_t i = 0; i < list.count && !sim_failed(sim); i++)
        if (list.items[i].state == EF_RUN_FAILED && list.items[i].error.len > 9 &&
            memcmp(list.items[i].error.ptr, "simulated", 9) == 0)
            oracle_wrong(&sim->oracle, "a run has failed for a fault that passed: %.*s",
                         EF_STR_ARG(list.items[i].error));
    EF_RELEASE(&list);
}

/* Some runs cannot end while their program fails on an event; they are cancelled. */
static void end_runs(sim_world *sim)
{
    for (int round = 0; round < 80 && open_runs(sim, round == 40) && !sim_failed(sim); round++) {
        everybody_works(sim);
        sim_advance(sim, 1000000);
    }
    if (!sim_failed(sim) && open_runs(sim, false))
        oracle_wrong(&sim->oracle, "a run that was cancelled is still open");
    check_no_run_failed_for_a_fault(sim);
}

/* A stopped tenant blocks no other tenant. A skip by policy comes after all attempts of an event,
 * one event after the other: half a minute each. */
static void check_tenants_apart(sim_world *sim)
{
    int rounds = APART_ROUNDS;
    char why[200] = "";

    for (int64_t p = 1; p <= sim->oracle.head; p++)
        rounds += sim->oracle.events[p].bad ? 30 : 0;
    for (int round = 0; round < rounds && !sim_failed(sim); round++) {
        everybody_works(sim);
        if (sim_failed(sim) || oracle_apart(&sim->oracle, why, sizeof why))
            return;
        sim_advance(sim, 1000000);
    }
    oracle_wrong(&sim->oracle, "G7: after %d rounds without faults %s", rounds, why);
}

static void skip_what_is_bad(sim_world *sim)
{
    for (int lane = 1; lane < LOOK_LANES; lane++)
        for (int64_t p = 1; p <= sim->oracle.head && !sim_failed(sim); p++)
            if (sim->oracle.rows.at[lane][p].there && sim->oracle.events[p].bad &&
                !sim->oracle.rows.at[lane][p].skip)
                sim_skip(sim, &sim->actors[SIM_OPERATOR], lane, p);
}

/* All workers tick and time passes, until no work is left. */
static void finish_work(sim_world *sim, bool skip)
{
    char why[200] = "";

    for (int round = 0; round < SETTLE_ROUNDS && !sim_failed(sim); round++) {
        everybody_works(sim);
        if (sim_failed(sim) || (oracle_settled(&sim->oracle, why, sizeof why) &&
                                mail_is_delivered(sim, why, sizeof why)))
            return;
        if (round % 8 == 7) {
            if (skip) /* before the requeue: a requeued row has not failed */
                skip_what_is_bad(sim);
            sim_requeue_dead(sim, &sim->actors[SIM_OUTSIDER]);
        }
        sim_advance(sim, round < 20 ? 500000 : 5000000);
    }
    oracle_wrong(&sim->oracle, "no progress: after %d rounds without faults %s", SETTLE_ROUNDS,
                 why);
}

/* --- final checks ----------------------------------------------------------------------------- */

static void check_accounts(sim_world *sim)
{
    sim_actor *actor = &sim->actors[SIM_OPERATOR];
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    actor_enter(actor);
    st = ef_projection_ls(actor->engine, (ef_str){0}, &list, &err);
    actor_leave(actor, "projection ls", st, &err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef_projection *projection = &list.items[i];
        bool superseded = false;
        for (size_t n = 0; n < list.count; n++)
            superseded = superseded || (list.items[n].active && !projection->by_log &&
                                        ef_str_equal(list.items[n].name, projection->name) &&
                                        list.items[n].generation > projection->generation);
        if (projection->unaccounted != 0 ||
            (projection->lag_events + projection->blocked_events != 0 && !superseded))
            oracle_wrong(&sim->oracle,
                         "G5: %.*s v%d has %" PRId64 " events unaccounted for, %" PRId64 " waiting",
                         EF_STR_ARG(projection->name), (int)projection->version,
                         projection->unaccounted,
                         projection->lag_events + projection->blocked_events);
    }
    EF_RELEASE(&list);
}

static void check_workers_left(sim_world *sim)
{
    ef_worker_list list = {0};
    ef_status st = ef_worker_ls(sim->journal, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        for (int w = 0; w < sim->workers; w++)
            if (ef_str_equal(list.items[i].id, ef_str_from(sim->actors[w].name)))
                oracle_wrong(&sim->oracle, "%s has closed and is still among the workers",
                             sim->actors[w].name);
    EF_RELEASE(&list);
}

/* --- take-over -------------------------------------------------------------------------------- */

static const sim_actor *hand_called(const sim_world *sim, ef_str name)
{
    for (int w = 0; w < sim->workers; w++)
        if (sim->actors[w].engine && ef_str_equal(name, ef_str_from(sim->actors[w].name)))
            return &sim->actors[w];
    return NULL;
}

/* Every partition is held by a live worker. */
static void check_all_held(sim_world *sim, const sim_actor *dead)
{
    ef_partition_list list = {0};
    ef_status st = ef_partition_ls(sim->journal, &list, NULL);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (!list.items[i].live || !hand_called(sim, list.items[i].holder))
            oracle_wrong(&sim->oracle,
                         "%s is dead for a lease and a second, and p%02d is with \"%.*s\"",
                         dead->name, (int)i, EF_STR_ARG(list.items[i].holder));
    EF_RELEASE(&list);
}

/* Without faults, the partitions of a dead worker are held by others within its lease and a second.
 * Idle workers would leave them until there is work. */
static void check_take_over(sim_world *sim)
{
    sim_actor *dead = &sim->actors[random_below(&sim->random, sim->workers)];
    int64_t left_us = sim->lease_ms * 1000 + 1000000;

    sim->never_idle = true;
    for (int round = 0; round < 20 && !sim_failed(sim); round++) { /* shares become stable */
        everybody_works(sim);
        sim_advance(sim, 500000);
    }
    if (sim_failed(sim))
        return;
    actor_crash(dead);
    for (; left_us > 0 && !sim_failed(sim); left_us -= 250000) {
        sim_advance(sim, 250000);
        for (int w = 0; w < sim->workers && !sim_failed(sim); w++)
            if (sim->actors[w].engine)
                actor_tick(&sim->actors[w]);
    }
    if (!sim_failed(sim))
        check_all_held(sim, dead);
}

/* A worker that lost a response may hold a lease unknowingly: by now it knows, or the lease has
 * ended. */
static void close_all(sim_world *sim)
{
    for (int round = 0; round < 3; round++) {
        sim_advance(sim, 100000000);
        everybody_works(sim);
    }
    for (int i = 0; i <= SIM_OPERATOR && !sim_failed(sim); i++)
        actor_close(&sim->actors[i]);
    if (!sim_failed(sim))
        check_workers_left(sim);
}

static void finish_world(sim_world *sim)
{
    bool retire = random_chance(&sim->random, 500);

    sim_note(sim, "calm");
    sim->calm = true;
    resume_all(sim);
    if (random_chance(&sim->random, 50) && !sim_failed(sim))
        outlast_an_outage(sim);
    end_runs(sim);
    check_tenants_apart(sim);
    for (int name = 2; name < RULE_NAMES && !sim_failed(sim); name++)
        if (sim->version[name])
            replace_program(sim, name, retire);
    finish_work(sim, !retire);
    /* A build from the first event must equal those that lived through the faults. */
    for (int name = 0; name < RULE_NAMES && !sim_failed(sim); name++)
        if (sim->version[name])
            sim_deploy(sim, name, sim->rules[name], sim->version[name] + 1);
    finish_work(sim, !retire);
    if (!sim_failed(sim))
        oracle_digests(&sim->oracle);
    if (!sim_failed(sim))
        check_accounts(sim);
    if (!sim_failed(sim))
        check_take_over(sim);
    close_all(sim);
}

bool sim_run(sim_world *s, uint64_t seed, sim_cheat cheat, bool verbose)
{
    memset(s, 0, offsetof(sim_world, oracle));
    oracle_reset(&s->oracle);
    s->trace_count = 0;
    s->trace_hash = 0;
    s->faults = 0;
    s->seed = seed;
    s->random = seed * 0x9e3779b97f4a7c15u + 1;
    s->cheat = cheat;
    s->verbose = verbose;
    choose_world(s);
    if (begin_world(s)) {
        int steps = random_between(&s->random, 25, 85);
        sim_deploy(s, 0, RULE_TALLY, 1);
        sim_deploy(s, 2, RULE_PICKY, 1);
        if (random_chance(&s->random, 500))
            sim_deploy(s, 3, RULE_LEDGER_PICKY, 1);
        while (s->step < steps && !sim_failed(s))
            sim_act(s);
        if (!sim_failed(s))
            finish_world(s);
    }
    end_world(s);
    return !sim_failed(s);
}
