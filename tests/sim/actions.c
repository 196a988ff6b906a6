/*
 * actions.c - what may happen next: appends, ticks, operators, clocks, stolen leases.
 */
#include "sim.h"

#include <everfold/replay.h>

#include <inttypes.h>

void sim_advance(sim_world *sim, int64_t us)
{
    sim->wall_us += us;
    sim->mono_us += us;
}

static sim_actor *operator_of(sim_world *sim)
{
    sim_actor *h = &sim->actors[SIM_OPERATOR];

    if (h->busy)
        return NULL;
    actor_open(h);
    return h->engine ? h : NULL;
}

/* --- appenders -------------------------------------------------------------------------------- */

static int new_offer(sim_world *sim)
{
    sim_offer *o = &sim->offers[sim->offer_count];

    *o = (sim_offer){.event = {.stream = random_below(&sim->random, sim->streams),
                               .type = random_chance(&sim->random, 750)
                                           ? (sim_type)random_below(&sim->random, 2)
                                           : (sim_type)random_below(&sim->random, SIM_TYPES),
                               .key = random_below(&sim->random, SIM_KEYS),
                               .value = random_between(&sim->random, 1, 9),
                               .bad = random_chance(&sim->random, sim->bad_permille)}};
    return sim->offer_count++;
}

typedef struct offer_texts {
    char id[16], data[64];
} offer_texts;

static ef_new_event event_of(const sim_offer *offer, int number, offer_texts *texts)
{
    (void)snprintf(texts->id, sizeof texts->id, "e%d", number);
    (void)snprintf(texts->data, sizeof texts->data, "{\"k\":\"k%d\",\"v\":%d,\"bad\":%d}",
                   offer->event.key, offer->event.value, offer->event.bad);
    return (ef_new_event){.tenant = ef_str_from(sim_tenant_of(offer->event.stream)),
                          .stream = ef_str_from(sim_stream_name(offer->event.stream)),
                          .type = ef_str_from(sim_type_name(offer->event.type)),
                          .id = ef_str_from(texts->id),
                          .data = ef_str_from(texts->data)};
}

/* One to four events, some of them known: an appender whose response was lost repeats the append.
 */
void sim_append(sim_world *sim, sim_actor *by)
{
    ef_new_event events[4];
    ef_place places[4];
    offer_texts texts[4];
    ef_error err = EF_ERROR_INIT;
    int count = random_between(&sim->random, 1, 4), fresh = 0;
    ef_status st;

    if (sim->oracle.head + 8 > SIM_EVENTS || sim->offer_count + 8 > SIM_OFFERS)
        return;
    for (int i = 0; i < count; i++) {
        bool again = sim->offer_count > 0 && i == 0 && random_chance(&sim->random, 250);
        int number = again ? random_below(&sim->random, sim->offer_count) : new_offer(sim);
        fresh += !again;
        events[i] = event_of(&sim->offers[number], number, &texts[i]);
    }
    sim_note(sim, "%s appends %d, %d of them new", by->name, count, fresh);
    actor_enter(by);
    by->folds_inline = sim->folds_inline && by->engine;
    st = by->engine ? ef_engine_append(by->engine, events, (size_t)count, places, &err)
                    : ef_journal_append(&by->journal.base, events, (size_t)count, places, &err);
    actor_leave(by, "an append", st, &err);
}

/* --- operators -------------------------------------------------------------------------------- */

void sim_deploy(sim_world *sim, int name, sim_rule rule, int version)
{
    sim_actor *actor = operator_of(sim);
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;
    char text[600];
    ef_status st;

    if (!actor || sim->oracle.version_count + 1 > ORACLE_VERSIONS)
        return;
    if (version > sim->version[name]) {
        oracle_program(&sim->oracle, name, version, rule);
        sim->version[name] = version;
        sim->rules[name] = rule;
    }
    rule_text(rule, version, text, sizeof text);
    sim_note(sim, "%s deploys %s v%d, rule %d", actor->name, rule_name(name), version, rule);
    actor_enter(actor);
    st = ef_projection_deploy(actor->engine,
                              &(ef_deploy){.file_name = "sim.fold", .text = ef_str_from(text)},
                              &list, NULL, &err);
    EF_RELEASE(&list);
    if (sim->skips_dead && name == rule_name_of(RULE_LEDGER_PICKY))
        (void)sim->views->ops->on_error_set(sim->views, ef_str_from(rule_name(name)),
                                            EF_ON_ERROR_SKIP, NULL);
    actor_leave(actor, "a deploy", st, &err);
}

static void deploy_something(sim_world *sim)
{
    int name = random_below(&sim->random, RULE_NAMES);
    bool again = sim->version[name] > 0 && random_chance(&sim->random, 250);

    if (again)
        sim_deploy(sim, name, sim->rules[name], sim->version[name]);
    else if (sim->oracle.generation_count < 10)
        sim_deploy(sim, name, rule_other(name, random_next(&sim->random)), sim->version[name] + 1);
}

/* A random row of a projection's lane. */
static bool find_retry_row(sim_world *sim, int *lane, int64_t *position)
{
    int from = random_below(&sim->random, LOOK_LANES * (SIM_EVENTS + 1));

    for (int n = 0; n < LOOK_LANES * (SIM_EVENTS + 1); n++) {
        int at = (from + n) % (LOOK_LANES * (SIM_EVENTS + 1));
        *lane = at / (SIM_EVENTS + 1);
        *position = at % (SIM_EVENTS + 1);
        if (*lane > 0 && sim->oracle.rows.at[*lane][*position].there)
            return true;
    }
    return false;
}

static ef_outbox_action act_on(const sim_world *sim, int lane, int64_t position)
{
    const sim_event *event = &sim->oracle.events[position];

    return (ef_outbox_action){.tenant = ef_str_from(sim_tenant_of(event->stream)),
                              .stream = ef_str_from(sim_stream_name(event->stream)),
                              .seq = event->seq,
                              .lane = ef_str_from(rule_name(lane - 1)),
                              .actor = EF_STR("sim"),
                              .reason = EF_STR("by the seed")};
}

static void append_by_operator(sim_world *sim)
{
    sim_actor *actor = operator_of(sim);

    if (actor)
        sim_append(sim, actor);
}

/* The row may have been removed or may not be dead: an operator reads first and acts later. */
static ef_status ignore_not_found(ef_status st)
{
    return st == EF_NOT_FOUND || st == EF_CONFLICT ? EF_OK : st;
}

void sim_skip(sim_world *sim, sim_actor *by, int lane, int64_t position)
{
    ef_outbox_action act = act_on(sim, lane, position);
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(sim, "%s skips %" PRId64 " in lane %s", by->name, position, rule_name(lane - 1));
    actor_enter(by);
    st = ef_projection_skip(by->engine, &act, &rows, &err);
    EF_RELEASE(&rows);
    actor_leave(by, "a skip", ignore_not_found(st), &err);
}

static void requeue(sim_world *sim, sim_actor *by, int lane, int64_t position)
{
    ef_outbox_action act = act_on(sim, lane, position);
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(sim, "%s requeues %" PRId64 " in lane %s", by->name, position, rule_name(lane - 1));
    actor_enter(by);
    st = ef_outbox_requeue(&by->journal.base, &act, &rows, &err);
    EF_RELEASE(&rows);
    actor_leave(by, "a requeue", ignore_not_found(st), &err);
}

void sim_requeue_dead(sim_world *sim, sim_actor *by)
{
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(sim, "%s requeues what is dead", by->name);
    actor_enter(by);
    st = ef_outbox_requeue_dead(
        &by->journal.base,
        &(ef_outbox_bulk){.lane = (ef_str){0}, .actor = EF_STR("sim"), .limit = 100}, NULL, &rows,
        &err);
    EF_RELEASE(&rows);
    actor_leave(by, "requeue-dead", st, &err);
}

static void pause_or_resume(sim_world *sim, sim_actor *actor)
{
    int name = random_below(&sim->random, RULE_NAMES);
    bool pause = random_chance(&sim->random, 400);
    ef_str text = ef_str_from(rule_name(name));
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(sim, "%s %s %s", actor->name, pause ? "pauses" : "resumes", rule_name(name));
    actor_enter(actor);
    st = pause ? ef_projection_pause(actor->engine, text, true, EF_STR(""), EF_STR(""), &err)
               : ef_projection_pause(actor->engine, text, false, EF_STR(""), EF_STR(""), &err);
    actor_leave(actor, "pause or resume", ignore_not_found(st), &err);
}

/* Streams may move to another partition, and with them to another worker. A lower count is refused
 * while rows wait in a partition that would be removed. */
static void change_partitions(sim_world *sim, sim_actor *actor)
{
    ef_partition_change change = {.count = random_between(&sim->random, 1, 5),
                                  .prune = random_chance(&sim->random, 500)};
    ef_partition_sync_result changed;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    actor_enter(actor);
    st = ef_partition_sync(&actor->journal.base, &change, &changed, &err);
    sim_note(sim, "%s wants %d partitions: %s", actor->name, (int)change.count,
             ef_status_describe(st)->name);
    actor_leave(actor, "partition sync", st == EF_EXISTS ? EF_OK : st, &err);
}

/* Operators also request what must be refused. */
static ef_status ignore_refusal(ef_status st)
{
    return st == EF_NOT_FOUND || st == EF_CONFLICT || st == EF_EXISTS ? EF_OK : st;
}

static ef_status file_run(sim_world *sim, sim_actor *actor, ef_str projection, ef_error *err)
{
    ef_run_list runs = {0};
    ef_rebuild rebuild = {.projection = projection,
                          .in_place = random_chance(&sim->random, 400),
                          .actor = EF_STR("sim"),
                          .reason = EF_STR("by the seed")};
    ef_status st;

    rebuild.verify = random_chance(&sim->random, 300);
    rebuild.no_switch = !rebuild.in_place && random_chance(&sim->random, 300);
    sim_note(sim, "%s files a %s of %.*s", actor->name,
             rebuild.verify     ? "verify"
             : rebuild.in_place ? "rebuild in place"
                                : "rebuild",
             EF_STR_ARG(projection));
    st = ef_projection_rebuild(actor->engine, &rebuild, &runs, err);
    EF_RELEASE(&runs);
    return st;
}

static void move_generation(sim_world *sim, sim_actor *actor)
{
    static const char *const WORDS[] = {"switches to", "rolls back", "retires"};
    int at = random_below(&sim->random, sim->oracle.generation_count + 1);
    const stored_generation *generation = &sim->oracle.generations[at].seen;
    int choice = random_below(&sim->random, 5);
    ef_generation_choice route = {.actor = EF_STR("sim"), .reason = EF_STR("by the seed")};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (at == sim->oracle.generation_count)
        return;
    route.projection = ef_str_from(rule_name(generation->name));
    route.generation = generation->number;
    route.lag_max = random_chance(&sim->random, 500) ? 1000 : 0;
    if (choice < 3)
        sim_note(sim, "%s %s %s v%d, generation %d", actor->name, WORDS[choice],
                 rule_name(generation->name), generation->version, generation->number);
    actor_enter(actor);
    route.previous = choice == 1;
    if (choice <= 1)
        st = ef_projection_switch(actor->engine, &route, &err);
    else if (choice == 2)
        st = ef_projection_retire(actor->engine, &route, NULL, &err);
    else
        st = file_run(sim, actor, route.projection, &err);
    actor_leave(actor, "work on a generation", ignore_refusal(st), &err);
}

static void operate(sim_world *sim)
{
    sim_actor *actor = operator_of(sim);
    int64_t position;
    int lane;

    if (!actor)
        return;
    switch (random_below(&sim->random, 12)) {
    case 0:
    case 1:
    case 2:
        pause_or_resume(sim, actor);
        break;
    case 3:
    case 4:
        deploy_something(sim);
        break;
    case 5:
        sim_requeue_dead(sim, actor);
        break;
    case 6:
        change_partitions(sim, actor);
        break;
    case 7:
    case 8:
    case 9:
        move_generation(sim, actor);
        break;
    case 10:
        if (find_retry_row(sim, &lane, &position))
            requeue(sim, actor, lane, position);
        break;
    default:
        if (find_retry_row(sim, &lane, &position))
            sim_skip(sim, actor, lane, position);
    }
}

/* --- clocks and stolen leases ----------------------------------------------------------------- */

/* An outsider acquires a partition whose lease has ended, and does nothing with it. */
static void steal_lease(sim_world *sim)
{
    sim_actor *actor = &sim->actors[SIM_OUTSIDER];
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = random_below(&sim->random, 4)};
    int64_t token;
    ef_status st = ef__lease_acquire_one(&actor->journal.base, &key, ef_str_from(actor->name),
                                         sim->lease_ms / 2, &token, NULL, NULL);

    sim_note(sim, "%s takes partition %d: %s", actor->name, (int)key.partition,
             ef_status_describe(st)->name);
}

static void jump(sim_world *sim)
{
    int64_t us = (int64_t)random_between(&sim->random, -40000, 40000) * 1000;

    sim->wall_us += us;
    sim_note(sim, "the wall clock jumps by %" PRId64 " ms", us / 1000);
}

static void let_work(sim_world *sim)
{
    sim_actor *actor = &sim->actors[random_below(&sim->random, sim->workers)];

    if (actor->busy)
        return;
    actor_open(actor);
    if (!actor->engine)
        return;
    if (random_chance(&sim->random, 15))
        actor_close(actor);
    else
        actor_tick(actor);
}

void sim_act(sim_world *sim)
{
    int choice = random_below(&sim->random, 100);

    sim->step++;
    sim_advance(sim, random_chance(&sim->random, 100)
                         ? (int64_t)random_between(&sim->random, 200, 6000) * 1000
                         : (int64_t)random_between(&sim->random, 0, 150) * 1000);
    if (random_chance(&sim->random, sim->trouble.jump))
        jump(sim);
    if (choice < 20)
        sim_append(sim, &sim->actors[SIM_OUTSIDER]);
    else if (choice < 26)
        append_by_operator(sim);
    else if (choice < 84)
        let_work(sim);
    else if (choice < 97)
        operate(sim);
    else
        steal_lease(sim);
}
