/*
 * mail.c - a publisher in some worlds: a sink that is disturbed as the stores are, and what must be
 * true of it.
 *
 *   at least once  what is published has a row in the lane, or was delivered; at the end it was. In
 *                  some worlds a sink forgets the last of what it had: then it is kept, until it
 *                  was delivered again
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

/* The sink as one worker sees it: a connection, that ends when the sink is put back. */
typedef struct mail_bus {
    ef__bus base;
    ef__bus_ops ops;
    int restarts;     /* that it has noticed */
    int64_t last_seq; /* that it knows of */
    char said[48];
} mail_bus;

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
    if (!s->mail.delivered[position])
        s->mail.log[s->mail.log_count++] = position;
    s->mail.delivered[position] = true;
}

/* The sink is as it was before it had the last few. */
static void lose_some(sim *s)
{
    if (!s->mail.loses || s->calm || !random_chance(&s->random, 40))
        return;
    for (int count = 1 + (int)random_below(&s->random, 4); count > 0 && s->mail.log_count > 0;
         count--)
        s->mail.delivered[s->mail.log[--s->mail.log_count]] = false;
    s->mail.restarts++;
    sim_note(s, "  the sink is put back to %d messages", s->mail.log_count);
}

static void take_noted(mail_bus *m, ef_str noted)
{
    long long seq = 0;
    char text[48];

    (void)snprintf(text, sizeof text, "%.*s", EF_STR_ARG(noted));
    if (sscanf(text, "{\"seq\":%lld}", &seq) == 1 && seq > m->last_seq)
        m->last_seq = seq;
}

/* Has it what it had? What it has now is what counts from here on. */
static void compare(mail_bus *m, const sim *s)
{
    m->restarts = s->mail.restarts;
    if (s->mail.log_count < m->last_seq) {
        m->base.lost = true;
        m->base.lost_count = m->last_seq - s->mail.log_count;
    }
    m->last_seq = s->mail.log_count;
}

static ef_status mail_compare(ef__bus *bus, ef_str progress, bool now, ef_error *err)
{
    mail_bus *m = (mail_bus *)bus;
    hand *h = hand_of(bus);
    ef_status st;

    if (!now && m->restarts == h->sim->mail.restarts)
        return EF_OK;
    st = gate_before(h, "look", false, err);
    if (st != EF_OK)
        return st;
    take_noted(m, progress);
    compare(m, h->sim);
    return gate_after(h, "look", false, EF_OK, err);
}

static ef_str mail_progress(ef__bus *bus)
{
    mail_bus *m = (mail_bus *)bus;

    (void)snprintf(m->said, sizeof m->said, "{\"seq\":%" PRId64 "}", m->last_seq);
    return ef_str_from(m->said);
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
    mail_bus *m = (mail_bus *)bus;
    hand *h = hand_of(bus);
    sim *s = h->sim;
    ef_status st = gate_before(h, "deliver", true, err);

    (void)now_us;
    lose_some(s);
    if (st == EF_OK && m->restarts != s->mail.restarts)
        compare(m, s);
    for (size_t i = 0; st == EF_OK && i < count && !bus->lost && !sim_failed(s); i++) {
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
        m->last_seq = s->mail.log_count > m->last_seq ? s->mail.log_count : m->last_seq;
        if (bus->ops->overlaps && random_chance(&s->random, 400))
            (void)ef__bus_meanwhile(bus);
    }
    if (st != EF_OK)
        return st;
    lose_some(s); /* what it has acknowledged, before that is marked */
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

/* In some worlds batches overlap, and are small enough for that; in some the sink loses what it
 * had.
 */
ef_status mail_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    const hand *h = options->clock->context;
    bool overlaps = h->sim->seed % 3 == 0, loses = h->sim->mail.loses;
    mail_bus *m = calloc(1, sizeof *m);
    ef_status st;

    if (!m)
        return EF_NO_MEMORY;
    m->ops = (ef__bus_ops){.name = "mail",
                           .batch_max = overlaps ? 2 : 6,
                           .grouped = true,
                           .overlaps = overlaps,
                           .deliver = mail_deliver,
                           .look = loses ? mail_compare : NULL,
                           .progress = loses ? mail_progress : NULL,
                           .close = mail_close};
    m->restarts = -1; /* it has not compared yet */
    take_noted(m, options->progress);
    st = ef__bus_init(&m->base, &m->ops, options, err);
    if (st == EF_OK)
        *out = &m->base;
    else
        free(m);
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

    s->mail.loses = s->seed % 5 == 0;
    publisher.retain_ms = s->mail.loses ? 36000000 : 0;

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

/* What was published and may be handed back. */
static void look_at_kept(sim *s, bool *kept)
{
    const ef_row_status published = EF_ROW_PUBLISHED;
    ef_row_list list = {0};
    ef_status st = ef_outbox_ls(
        s->journal,
        &(ef_outbox_query){.any_tenant = true, .status = &published, .limit = LOOK_ROWS}, &list,
        NULL);

    if (st != EF_OK)
        oracle_wrong(&s->oracle, "what was published cannot be looked at");
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        kept[list.items[i].position] = true;
    ef_row_list_release(&list);
}

void mail_look(sim *s, const ef_row_list *rows)
{
    bool waits[SIM_EVENTS + 1] = {false}, kept[SIM_EVENTS + 1] = {false};

    for (size_t i = 0; i < rows->count; i++)
        if (mail_is_of(rows->items[i].lane))
            waits[rows->items[i].position] = true;
    if (s->mail.loses)
        look_at_kept(s, kept);
    s->mail.waiting = 0;
    for (int64_t p = 1; p <= s->oracle.head; p++) {
        bool published = is_published(&s->oracle.events[p]);
        s->mail.waiting += waits[p];
        if (published ? !waits[p] && !s->mail.delivered[p] && !kept[p] : waits[p])
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
    int missing = 0;

    for (int64_t p = 1; s->publishes && p <= s->oracle.head; p++)
        missing += is_published(&s->oracle.events[p]) && !s->mail.delivered[p];
    if (s->mail.waiting == 0 && missing == 0)
        return true;
    (void)snprintf(why, size, "%d events wait for their publisher, its sink lacks %d",
                   s->mail.waiting, missing);
    return false;
}
