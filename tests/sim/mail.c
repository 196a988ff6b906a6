/*
 * mail.c - a publisher in some worlds: a sink that is disturbed as the stores are, and what must be
 * true of it.
 *
 *   at least once  what is published has a row in the lane, or was delivered; at the end it was
 *   in order       before an event is delivered all that is published before it in its stream was
 *   G6             a mark of the lane is let in under live tokens only
 */
#include "sim.h"

#include "../../src/bus/bus.h"
#include "../../src/engine/publish.h"

#include <everfold/publisher.h>

#include <inttypes.h>
#include <stdlib.h>

#define LANE "mail"

static bool is_published(const sim_event *e)
{
    return e->type == SIM_ADD || e->type == SIM_NOTE;
}

static hand *hand_of(const ef__bus *bus)
{
    return bus->options.clock->context;
}

/* --- the sink ---------------------------------------------------------------------------------
 */

static void deliver_one(sim *s, int64_t position)
{
    const sim_event *e = &s->oracle.events[position];

    for (int64_t p = 1; p < position; p++)
        if (s->oracle.events[p].stream == e->stream && is_published(&s->oracle.events[p]) &&
            !s->mail.delivered[p])
            oracle_wrong(&s->oracle,
                         "G3: position %" PRId64 " was delivered, and %" PRId64
                         " of its stream before it was not",
                         position, p);
    s->mail.delivered[position] = true;
}

/* Of a group nothing is tried behind one that failed. */
static bool is_held_back(const ef__bus_message *messages, const ef__bus_outcome *outcomes, size_t i)
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
    hand *h = hand_of(bus);
    sim *s = h->sim;
    ef_status st = gate_before(h, "deliver", true, err);

    (void)now_us;
    for (size_t i = 0; st == EF_OK && i < count && !sim_failed(s); i++) {
        bool forgets = s->cheat == CHEAT_LOSE_MESSAGE && random_chance(&s->random, 100);
        if (s->cheat != CHEAT_SWAP_MESSAGES && is_held_back(messages, outcomes, i))
            continue;
        if (!s->calm && random_chance(&s->random, s->mail.fail_permille)) {
            ef__bus_fail(&outcomes[i],
                         random_chance(&s->random, 100) ? EF__BUS_REFUSED : EF__BUS_FAILED, arena,
                         "simulated: not this one");
            continue;
        }
        if (!forgets)
            deliver_one(s, messages[i].event->position);
        outcomes[i].verdict = EF__BUS_DELIVERED;
        if (bus->ops->overlaps && random_chance(&s->random, 400))
            (void)ef__bus_meanwhile(bus);
    }
    if (st != EF_OK)
        return st;
    st = gate_after(h, "deliver", true, EF_OK, err);
    for (size_t i = 0; st != EF_OK && i < count; i++) /* nobody can say what became of them */
        outcomes[i].verdict = EF__BUS_WAITING;
    return st;
}

static void mail_close(ef__bus *bus)
{
    ef__bus_release(bus);
    free(bus);
}

static const ef__bus_ops mail_ops = {
    .name = "mail", .batch_max = 6, .grouped = true, .deliver = mail_deliver, .close = mail_close};

/* In some worlds batches overlap, and are small enough for that. */
static const ef__bus_ops overlapping_ops = {.name = "mail",
                                            .batch_max = 2,
                                            .grouped = true,
                                            .overlaps = true,
                                            .deliver = mail_deliver,
                                            .close = mail_close};

ef_status mail_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    ef__bus *bus = calloc(1, sizeof *bus);
    const hand *h = options->clock->context;
    const ef__bus_ops *ops = h->sim->seed % 3 ? &mail_ops : &overlapping_ops;
    ef_status st = bus ? ef__bus_init(bus, ops, options, err) : EF_NO_MEMORY;

    if (st == EF_OK)
        *out = bus;
    else if (bus)
        mail_close(bus);
    return st;
}

/* --- the world --------------------------------------------------------------------------------
 */

void mail_begin(sim *s)
{
    static const int FAIL[] = {0, 50, 250};
    ef_publisher publisher = {.name = EF_STR(LANE),
                              .url = EF_STR("file:/nowhere"),
                              .retry_ms = 5000,
                              .timeout_ms = 500,
                              .attempts_max = random_chance(&s->random, 300) ? 2 : 0};
    ef_status st = EF_OK;

    s->mail.fail_permille = FAIL[random_below(&s->random, 3)];
    for (int t = 0; t < SIM_TYPES && st == EF_OK; t++)
        if (is_published(&(sim_event){.type = (sim_type)t}))
            st = ef_type_set(
                s->journal,
                &(ef_type){.name = ef_str_from(sim_type_name((sim_type)t)), .publish = true}, NULL);
    if (st == EF_OK)
        st = ef_publisher_set(s->journal, &publisher, NULL);
    if (st != EF_OK)
        oracle_wrong(&s->oracle, "there is no publisher: %s", ef_status_name(st));
}

bool mail_is_of(ef_str lane)
{
    return ef_str_equal(lane, EF_STR(LANE));
}

void mail_look(sim *s, const ef_row_list *rows)
{
    bool waits[SIM_EVENTS + 1] = {false};

    for (size_t i = 0; i < rows->count; i++)
        if (mail_is_of(rows->items[i].lane))
            waits[rows->items[i].position] = true;
    s->mail.waiting = 0;
    for (int64_t p = 1; p <= s->oracle.head; p++) {
        bool published = is_published(&s->oracle.events[p]);
        s->mail.waiting += waits[p];
        if (published ? !waits[p] && !s->mail.delivered[p] : waits[p])
            oracle_wrong(&s->oracle,
                         published ? "G8: position %" PRId64
                                     " has no row of its publisher, and was never delivered"
                                   : "position %" PRId64 " is not published and has a row",
                         p);
    }
}

void mail_marked(sim *s, const char *who, const ef_holding *held, size_t count)
{
    for (size_t i = 0; i < count && !sim_failed(s); i++) {
        const look_lease *lease = NULL;
        char key[64];

        (void)snprintf(key, sizeof key, "%s " LANE "/%d", ef_lease_kind_name(EF_LEASE_PUBLISHER),
                       (int)held[i].partition);
        for (int l = 0; l < s->oracle.leases.count && !lease; l++)
            if (strcmp(s->oracle.leases.items[l].key, key) == 0)
                lease = &s->oracle.leases.items[l];
        if (!lease || lease->token != held[i].token || lease->until_us <= s->wall_us ||
            strcmp(lease->owner, who) != 0)
            oracle_wrong(&s->oracle,
                         "G6: a mark by %s was let in under token %" PRId64
                         " of %s, which is not live",
                         who, held[i].token, key);
    }
}

bool mail_settled(const sim *s, char *why, size_t size)
{
    if (s->mail.waiting == 0)
        return true;
    (void)snprintf(why, size, "%d events wait for their publisher", s->mail.waiting);
    return false;
}
