/*
 * mail.c - a publisher in some worlds: a sink with faults like those of the stores, and its
 * invariants.
 *
 *   at least once  a published event has a row in the lane, or was delivered; at the end it was. In
 *                  some worlds a sink loses its last messages: then their rows are retained until
 *                  they are delivered again
 *   in order       an event is delivered after all earlier published events of its stream
 *   G6             an ack of the lane is accepted under live tokens only
 */
#include "sim.h"

#include "../../src/bus/bus.h"
#include "../../src/engine/publish.h"

#include <everfold/publisher.h>

#include <inttypes.h>
#include <stdlib.h>

#define LANE "mail"

static bool is_published(const sim_event *event)
{
    return event->type == SIM_ADD || event->type == SIM_NOTE;
}

static sim_actor *hand_of(const ef__bus *bus)
{
    return bus->options.clock->context;
}

/* The sink as one worker sees it: a connection, which ends when the sink is restored. */
typedef struct mail_bus {
    ef__bus base;
    ef__bus_ops ops;
    int restarts;     /* of the sink that it has noticed */
    int64_t last_seq; /* of its own messages */
    char said[48];
} mail_bus;

/* --- the sink --------------------------------------------------------------------------------- */

static void deliver_one(sim_world *sim, int64_t position)
{
    const sim_event *event = &sim->oracle.events[position];

    for (int64_t p = 1; p < position; p++)
        if (sim->oracle.events[p].stream == event->stream && is_published(&sim->oracle.events[p]) &&
            !sim->mail.delivered[p])
            oracle_wrong(&sim->oracle,
                         "G3: position %" PRId64 " was delivered, and %" PRId64
                         " of its stream before it was not",
                         position, p);
    if (!sim->mail.delivered[position])
        sim->mail.log[sim->mail.log_count++] = position;
    sim->mail.delivered[position] = true;
}

/* The sink is restored to the state before its last few messages. */
static void lose_messages(sim_world *sim)
{
    if (!sim->mail.loses || sim->calm || !random_chance(&sim->random, 40))
        return;
    for (int count = 1 + (int)random_below(&sim->random, 4); count > 0 && sim->mail.log_count > 0;
         count--)
        sim->mail.delivered[sim->mail.log[--sim->mail.log_count]] = false;
    sim->mail.restarts++;
    sim_note(sim, "  the sink is put back to %d messages", sim->mail.log_count);
}

static void take_noted(mail_bus *bus, ef_str noted)
{
    long long seq = 0;
    char text[48];

    (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(noted));
    if (sscanf(text, "{\"seq\":%lld}", &seq) == 1 && seq > bus->last_seq)
        bus->last_seq = seq;
}

/* Has the sink lost messages? Its present state is the reference from here on. */
static void compare_sink(mail_bus *bus, const sim_world *sim)
{
    bus->restarts = sim->mail.restarts;
    if (sim->mail.log_count < bus->last_seq) {
        bus->base.lost = true;
        bus->base.lost_count = bus->last_seq - sim->mail.log_count;
    }
    bus->last_seq = sim->mail.log_count;
}

static ef_status mail_compare(ef__bus *bus, ef_str progress, bool now, ef_error *err)
{
    mail_bus *m = (mail_bus *)bus;
    sim_actor *actor = hand_of(bus);
    ef_status st;

    if (!now && m->restarts == actor->sim->mail.restarts)
        return EF_OK;
    st = gate_before(actor, "look", false, err);
    if (st != EF_OK)
        return st;
    take_noted(m, progress);
    compare_sink(m, actor->sim);
    return gate_after(actor, "look", false, EF_OK, err);
}

static ef_str mail_progress(ef__bus *bus)
{
    mail_bus *m = (mail_bus *)bus;

    (void)snprintf(m->said, sizeof m->said, "{\"seq\":%" PRId64 "}", m->last_seq);
    return ef_str_from(m->said);
}

/* In a group no message is tried after one that failed. */
static bool is_blocked(const ef__bus_message *messages, const ef__bus_outcome *outcomes, size_t i)
{
    for (size_t n = 0; n < i; n++)
        if (messages[n].group == messages[i].group && outcomes[n].verdict != EF__BUS_DELIVERED)
            return true;
    return false;
}

static ef_status mail_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    mail_bus *m = (mail_bus *)bus;
    sim_actor *actor = hand_of(bus);
    sim_world *sim = actor->sim;
    ef_status st = gate_before(actor, "deliver", true, err);

    (void)now_us;
    lose_messages(sim);
    if (st == EF_OK && m->restarts != sim->mail.restarts)
        compare_sink(m, sim);
    for (size_t i = 0; st == EF_OK && i < count && !bus->lost && !sim_failed(sim); i++) {
        bool forgets = sim->cheat == CHEAT_LOSE_MESSAGE && random_chance(&sim->random, 100);
        if (sim->cheat != CHEAT_SWAP_MESSAGES && is_blocked(messages, outcomes, i))
            continue;
        if (!sim->calm && random_chance(&sim->random, sim->mail.fail_permille)) {
            ef__bus_fail(&outcomes[i],
                         random_chance(&sim->random, 100) ? EF__BUS_REFUSED : EF__BUS_FAILED, arena,
                         "simulated: not this one");
            continue;
        }
        if (!forgets)
            deliver_one(sim, messages[i].event->position);
        outcomes[i].verdict = EF__BUS_DELIVERED;
        m->last_seq = sim->mail.log_count > m->last_seq ? sim->mail.log_count : m->last_seq;
        if (bus->ops->overlaps && random_chance(&sim->random, 400))
            (void)ef__bus_meanwhile(bus);
    }
    if (st != EF_OK)
        return st;
    lose_messages(sim); /* messages that it has acknowledged, before the ack of the lane */
    st = gate_after(actor, "deliver", true, EF_OK, err);
    for (size_t i = 0; st != EF_OK && i < count; i++) /* the response was lost */
        outcomes[i].verdict = EF__BUS_WAITING;
    return st;
}

static void mail_close(ef__bus *bus)
{
    ef__bus_release(bus);
    free(bus);
}

/* In some worlds batches overlap, and are small enough for that; in some the sink loses messages.
 * In most of the others the workers share its partitions. */
ef_status mail_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    const sim_actor *actor = options->clock->context;
    bool overlaps = actor->sim->seed % 3 == 0, loses = actor->sim->mail.loses;
    mail_bus *bus = calloc(1, sizeof *bus);
    ef_status st;

    if (!bus)
        return EF_NO_MEMORY;
    bus->ops = (ef__bus_ops){.name = "mail",
                             .batch_max = overlaps ? 2 : 6,
                             .grouped = true,
                             .overlaps = overlaps,
                             .spreads = !loses && actor->sim->seed % 4 != 0,
                             .deliver = mail_deliver,
                             .check_loss = loses ? mail_compare : NULL,
                             .progress = loses ? mail_progress : NULL,
                             .close = mail_close};
    bus->restarts = -1; /* not compared yet */
    take_noted(bus, options->progress);
    st = ef__bus_init(&bus->base, &bus->ops, options, err);
    if (st == EF_OK)
        *out = &bus->base;
    else
        free(bus);
    return st;
}

/* --- the invariants --------------------------------------------------------------------------- */

void mail_begin(sim_world *sim)
{
    static const int FAIL[] = {0, 50, 250};
    ef_publisher publisher = {.name = EF_STR(LANE),
                              .url = EF_STR("file:/nowhere"),
                              .retry_ms = 5000,
                              .timeout_ms = 500,
                              .attempts_max = random_chance(&sim->random, 300) ? 2 : 0};
    ef_status st = EF_OK;

    sim->mail.loses = sim->seed % 5 == 0;
    publisher.retain_ms = sim->mail.loses ? 36000000 : 0;

    sim->mail.fail_permille = FAIL[random_below(&sim->random, 3)];
    for (int t = 0; t < SIM_TYPES && st == EF_OK; t++)
        if (is_published(&(sim_event){.type = (sim_type)t}))
            st = ef_type_set(
                sim->journal,
                &(ef_type){.name = ef_str_from(sim_type_name((sim_type)t)), .publish = true}, NULL);
    if (st == EF_OK)
        st = ef_publisher_set(sim->journal, &publisher, NULL);
    if (st != EF_OK)
        oracle_wrong(&sim->oracle, "there is no publisher: %s", ef_status_describe(st)->name);
}

bool mail_is_of(ef_str lane)
{
    return ef_str_equal(lane, EF_STR(LANE));
}

/* Published rows that are retained for redelivery. */
static void read_retained(sim_world *sim, bool *kept)
{
    const ef_row_status published = EF_ROW_PUBLISHED;
    ef_row_list list = {0};
    ef_status st = ef_outbox_ls(
        sim->journal,
        &(ef_outbox_query){.any_tenant = true, .status = &published, .limit = LOOK_ROWS}, &list,
        NULL);

    if (st != EF_OK)
        oracle_wrong(&sim->oracle, "what was published cannot be looked at");
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        kept[list.items[i].position] = true;
    EF_RELEASE(&list);
}

void mail_observe_rows(sim_world *sim, const ef_row_list *rows)
{
    bool waits[SIM_EVENTS + 1] = {false}, kept[SIM_EVENTS + 1] = {false};

    for (size_t i = 0; i < rows->count; i++)
        if (mail_is_of(rows->items[i].lane))
            waits[rows->items[i].position] = true;
    if (sim->mail.loses)
        read_retained(sim, kept);
    sim->mail.waiting = 0;
    for (int64_t p = 1; p <= sim->oracle.head; p++) {
        bool published = is_published(&sim->oracle.events[p]);
        sim->mail.waiting += waits[p];
        if (published ? !waits[p] && !sim->mail.delivered[p] && !kept[p] : waits[p])
            oracle_wrong(&sim->oracle,
                         published ? "G8: position %" PRId64
                                     " has no row of its publisher, and was never delivered"
                                   : "position %" PRId64 " is not published and has a row",
                         p);
    }
}

void mail_acknowledged(sim_world *sim, const char *who, const ef_partition_lease *held,
                       size_t count)
{
    for (size_t i = 0; i < count && !sim_failed(sim); i++) {
        const stored_lease *lease = NULL;
        char key[64];

        (void)snprintf(key, sizeof key, "%s " LANE "/%d",
                       ef_name_of(EF_NAMES_LEASE_KIND, EF_LEASE_PUBLISHER), (int)held[i].partition);
        for (int l = 0; l < sim->oracle.leases.count && !lease; l++)
            if (strcmp(sim->oracle.leases.items[l].key, key) == 0)
                lease = &sim->oracle.leases.items[l];
        if (!lease || lease->token != held[i].token || lease->until_us <= sim->wall_us ||
            strcmp(lease->owner, who) != 0)
            oracle_wrong(&sim->oracle,
                         "G6: a mark by %s was let in under token %" PRId64
                         " of %s, which is not live",
                         who, held[i].token, key);
    }
}

bool mail_is_delivered(const sim_world *sim, char *why, size_t size)
{
    int missing = 0;

    for (int64_t p = 1; sim->publishes && p <= sim->oracle.head; p++)
        missing += is_published(&sim->oracle.events[p]) && !sim->mail.delivered[p];
    if (sim->mail.waiting == 0 && missing == 0)
        return true;
    (void)snprintf(why, size, "%d events wait for their publisher, its sink lacks %d",
                   sim->mail.waiting, missing);
    return false;
}
