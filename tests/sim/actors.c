/*
 * actors.c - what may happen next: appends, ticks, operators, clocks, thieves.
 */
#include "sim.h"

#include <everfold/replay.h>

#include <inttypes.h>

void sim_advance(sim *s, int64_t us)
{
    s->wall_us += us;
    s->mono_us += us;
}

static hand *operator_of(sim *s)
{
    hand *h = &s->hands[SIM_OPERATOR];

    if (h->busy)
        return NULL;
    hand_open(h);
    return h->engine ? h : NULL;
}

/* --- appenders ---------------------------------------------------------------------------------
 */

static int new_offer(sim *s)
{
    offer *o = &s->offers[s->offer_count];

    *o = (offer){.event = {.stream = random_below(&s->random, s->streams),
                           .type = random_chance(&s->random, 750)
                                       ? (sim_type)random_below(&s->random, 2)
                                       : (sim_type)random_below(&s->random, SIM_TYPES),
                           .key = random_below(&s->random, SIM_KEYS),
                           .value = random_between(&s->random, 1, 9),
                           .bad = random_chance(&s->random, s->bad_permille)}};
    return s->offer_count++;
}

typedef struct offer_texts {
    char id[16], data[64];
} offer_texts;

static ef_new_event event_of(const offer *o, int number, offer_texts *texts)
{
    (void)snprintf(texts->id, sizeof texts->id, "e%d", number);
    (void)snprintf(texts->data, sizeof texts->data, "{\"k\":\"k%d\",\"v\":%d,\"bad\":%d}",
                   o->event.key, o->event.value, o->event.bad);
    return (ef_new_event){.tenant = ef_str_from(sim_tenant_of(o->event.stream)),
                          .stream = ef_str_from(sim_stream_name(o->event.stream)),
                          .type = ef_str_from(sim_type_name(o->event.type)),
                          .id = ef_str_from(texts->id),
                          .data = ef_str_from(texts->data)};
}

/* One to four events, some of which may be known: an appender that lost its answer repeats it. */
void sim_append(sim *s, hand *by)
{
    ef_new_event events[4];
    ef_place places[4];
    offer_texts texts[4];
    ef_error err = EF_ERROR_INIT;
    int count = random_between(&s->random, 1, 4), fresh = 0;
    ef_status st;

    if (s->oracle.head + 8 > SIM_EVENTS || s->offer_count + 8 > SIM_OFFERS)
        return;
    for (int i = 0; i < count; i++) {
        bool again = s->offer_count > 0 && i == 0 && random_chance(&s->random, 250);
        int number = again ? random_below(&s->random, s->offer_count) : new_offer(s);
        fresh += !again;
        events[i] = event_of(&s->offers[number], number, &texts[i]);
    }
    sim_note(s, "%s appends %d, %d of them new", by->name, count, fresh);
    hand_enter(by);
    by->folds_inline = s->folds_inline && by->engine;
    st = by->engine ? ef_engine_append(by->engine, events, (size_t)count, places, &err)
                    : ef_journal_append(&by->journal.base, events, (size_t)count, places, &err);
    hand_leave(by, "an append", st, &err);
}

/* --- operators ---------------------------------------------------------------------------------
 */

void sim_deploy(sim *s, int name, sim_rule rule, int version)
{
    hand *h = operator_of(s);
    ef_projection_list list = {0};
    ef_error err = EF_ERROR_INIT;
    char text[600];
    ef_status st;

    if (!h || s->oracle.version_count + 1 > ORACLE_VERSIONS)
        return;
    if (version > s->version[name]) {
        oracle_program(&s->oracle, name, version, rule);
        s->version[name] = version;
        s->rules[name] = rule;
    }
    rule_text(rule, version, text, sizeof text);
    sim_note(s, "%s deploys %s v%d, rule %d", h->name, rule_name(name), version, rule);
    hand_enter(h);
    st = ef_projection_deploy(h->engine, "sim.fold", ef_str_from(text), &list, NULL, &err);
    ef_projection_list_release(&list);
    hand_leave(h, "a deploy", st, &err);
}

static void deploy_something(sim *s)
{
    int name = random_below(&s->random, RULE_NAMES);
    bool again = s->version[name] > 0 && random_chance(&s->random, 250);

    if (again)
        sim_deploy(s, name, s->rules[name], s->version[name]);
    else if (s->oracle.generation_count < 10)
        sim_deploy(s, name, rule_other(name, random_next(&s->random)), s->version[name] + 1);
}

/* A row of a projection's own lane, by chance. */
static bool find_exception(sim *s, int *lane, int64_t *position)
{
    int from = random_below(&s->random, LOOK_LANES * (SIM_EVENTS + 1));

    for (int n = 0; n < LOOK_LANES * (SIM_EVENTS + 1); n++) {
        int at = (from + n) % (LOOK_LANES * (SIM_EVENTS + 1));
        *lane = at / (SIM_EVENTS + 1);
        *position = at % (SIM_EVENTS + 1);
        if (*lane > 0 && s->oracle.rows.at[*lane][*position].there)
            return true;
    }
    return false;
}

static ef_outbox_act act_on(const sim *s, int lane, int64_t position)
{
    const sim_event *e = &s->oracle.events[position];

    return (ef_outbox_act){.tenant = ef_str_from(sim_tenant_of(e->stream)),
                           .stream = ef_str_from(sim_stream_name(e->stream)),
                           .seq = e->seq,
                           .lane = ef_str_from(rule_name(lane - 1)),
                           .who = EF_STR("sim"),
                           .reason = EF_STR("by the seed")};
}

static void append_by_operator(sim *s)
{
    hand *h = operator_of(s);

    if (h)
        sim_append(s, h);
}

/* The row may have gone, or may not be dead: an operator looks first and acts later. */
static ef_status not_there_is_fine(ef_status st)
{
    return st == EF_NOT_FOUND || st == EF_CONFLICT ? EF_OK : st;
}

void sim_skip(sim *s, hand *by, int lane, int64_t position)
{
    ef_outbox_act act = act_on(s, lane, position);
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(s, "%s skips %" PRId64 " in lane %s", by->name, position, rule_name(lane - 1));
    hand_enter(by);
    st = ef_projection_skip(by->engine, &act, &rows, &err);
    ef_row_list_release(&rows);
    hand_leave(by, "a skip", not_there_is_fine(st), &err);
}

static void requeue(sim *s, hand *by, int lane, int64_t position)
{
    ef_outbox_act act = act_on(s, lane, position);
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(s, "%s requeues %" PRId64 " in lane %s", by->name, position, rule_name(lane - 1));
    hand_enter(by);
    st = ef_outbox_requeue(&by->journal.base, &act, &rows, &err);
    ef_row_list_release(&rows);
    hand_leave(by, "a requeue", not_there_is_fine(st), &err);
}

void sim_requeue_dead(sim *s, hand *by)
{
    ef_row_list rows = {0};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(s, "%s requeues what is dead", by->name);
    hand_enter(by);
    st = ef_outbox_requeue_dead(
        &by->journal.base,
        &(ef_outbox_bulk){.lane = (ef_str){0}, .who = EF_STR("sim"), .limit = 100}, NULL, &rows,
        &err);
    ef_row_list_release(&rows);
    hand_leave(by, "requeue-dead", st, &err);
}

static void pause_or_resume(sim *s, hand *h)
{
    int name = random_below(&s->random, RULE_NAMES);
    bool pause = random_chance(&s->random, 400);
    ef_str text = ef_str_from(rule_name(name));
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    sim_note(s, "%s %s %s", h->name, pause ? "pauses" : "resumes", rule_name(name));
    hand_enter(h);
    st = pause ? ef_projection_pause(h->engine, text, EF_STR(""), EF_STR(""), &err)
               : ef_projection_resume(h->engine, text, EF_STR(""), EF_STR(""), &err);
    hand_leave(h, "pause or resume", not_there_is_fine(st), &err);
}

/* Streams may move to another partition, and with them to another worker. Fewer are refused while
 * rows wait in what would be given up. */
static void change_partitions(sim *s, hand *h)
{
    ef_partition_change change = {.count = random_between(&s->random, 1, 5),
                                  .prune = random_chance(&s->random, 500)};
    ef_partition_changed changed;
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    hand_enter(h);
    st = ef_partition_sync(&h->journal.base, &change, &changed, &err);
    sim_note(s, "%s wants %d partitions: %s", h->name, (int)change.count, ef_status_name(st));
    hand_leave(h, "partition sync", st == EF_EXISTS ? EF_OK : st, &err);
}

/* Operators try things that are refused, and should be. */
static ef_status refused_is_fine(ef_status st)
{
    return st == EF_NOT_FOUND || st == EF_CONFLICT || st == EF_EXISTS ? EF_OK : st;
}

static ef_status file_run(sim *s, hand *h, ef_str projection, ef_error *err)
{
    ef_run_list runs = {0};
    ef_rebuild rebuild = {.projection = projection,
                          .in_place = random_chance(&s->random, 400),
                          .who = EF_STR("sim"),
                          .reason = EF_STR("by the seed")};
    bool verify = random_chance(&s->random, 300);
    ef_status st;

    rebuild.no_switch = !rebuild.in_place && random_chance(&s->random, 300);
    sim_note(s, "%s files a %s of %.*s", h->name,
             verify             ? "verify"
             : rebuild.in_place ? "rebuild in place"
                                : "rebuild",
             EF_STR_ARG(projection));
    st = verify
             ? ef_projection_verify(h->engine, projection, rebuild.who, rebuild.reason, &runs, err)
             : ef_projection_rebuild(h->engine, &rebuild, &runs, err);
    ef_run_list_release(&runs);
    return st;
}

static void move_generation(sim *s, hand *h)
{
    static const char *const WORDS[] = {"switches to", "rolls back", "retires"};
    int at = random_below(&s->random, s->oracle.generation_count + 1);
    const look_generation *g = &s->oracle.generations[at].seen;
    int choice = random_below(&s->random, 5);
    ef_route route = {.who = EF_STR("sim"), .reason = EF_STR("by the seed")};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    if (at == s->oracle.generation_count)
        return;
    route.projection = ef_str_from(rule_name(g->name));
    route.generation = g->number;
    route.lag_max = random_chance(&s->random, 500) ? 1000 : 0;
    if (choice < 3)
        sim_note(s, "%s %s %s v%d, generation %d", h->name, WORDS[choice], rule_name(g->name),
                 g->version, g->number);
    hand_enter(h);
    if (choice == 0)
        st = ef_projection_switch(h->engine, &route, &err);
    else if (choice == 1)
        st = ef_projection_rollback(h->engine, &route, &err);
    else if (choice == 2)
        st = ef_projection_retire(h->engine, &route, NULL, &err);
    else
        st = file_run(s, h, route.projection, &err);
    hand_leave(h, "work on a generation", refused_is_fine(st), &err);
}

static void operate(sim *s)
{
    hand *h = operator_of(s);
    int64_t position;
    int lane;

    if (!h)
        return;
    switch (random_below(&s->random, 12)) {
    case 0:
    case 1:
    case 2:
        pause_or_resume(s, h);
        break;
    case 3:
    case 4:
        deploy_something(s);
        break;
    case 5:
        sim_requeue_dead(s, h);
        break;
    case 6:
        change_partitions(s, h);
        break;
    case 7:
    case 8:
    case 9:
        move_generation(s, h);
        break;
    case 10:
        if (find_exception(s, &lane, &position))
            requeue(s, h, lane, position);
        break;
    default:
        if (find_exception(s, &lane, &position))
            sim_skip(s, h, lane, position);
    }
}

/* --- the rest of the world ---------------------------------------------------------------------
 */

/* Somebody takes a partition when its lease has run out, and does nothing with it. */
static void steal(sim *s)
{
    hand *h = &s->hands[SIM_OUTSIDER];
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = random_below(&s->random, 4)};
    int64_t token;
    ef_status st = ef_lease_acquire(&h->journal.base, &key, ef_str_from(h->name), s->lease_ms / 2,
                                    &token, NULL, NULL);

    sim_note(s, "%s takes partition %d: %s", h->name, (int)key.partition, ef_status_name(st));
}

static void jump(sim *s)
{
    int64_t us = (int64_t)random_between(&s->random, -40000, 40000) * 1000;

    s->wall_us += us;
    sim_note(s, "the wall clock jumps by %" PRId64 " ms", us / 1000);
}

static void let_work(sim *s)
{
    hand *h = &s->hands[random_below(&s->random, s->workers)];

    if (h->busy)
        return;
    hand_open(h);
    if (!h->engine)
        return;
    if (random_chance(&s->random, 15))
        hand_close(h);
    else
        hand_tick(h);
}

void sim_act(sim *s)
{
    int choice = random_below(&s->random, 100);

    s->step++;
    sim_advance(s, random_chance(&s->random, 100)
                       ? (int64_t)random_between(&s->random, 200, 6000) * 1000
                       : (int64_t)random_between(&s->random, 0, 150) * 1000);
    if (random_chance(&s->random, s->trouble.jump))
        jump(s);
    if (choice < 20)
        sim_append(s, &s->hands[SIM_OUTSIDER]);
    else if (choice < 26)
        append_by_operator(s);
    else if (choice < 84)
        let_work(s);
    else if (choice < 97)
        operate(s);
    else
        steal(s);
}
