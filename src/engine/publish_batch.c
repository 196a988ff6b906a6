/*
 * publish_batch.c - see publish.h: batches of a publisher's lane, due retry rows and queued rows;
 * and the partitioner: the key of a message, and which messages must keep their order.
 */
#include "publish.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../base/logger.h"
#include "../base/pair_map.h"
#include "../base/same.h"
#include "../core/retry.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define DUE_MAX 1000 /* retry rows per claim */
#define STEP_BYTES (256u * 1024 * 1024)
#define BLOCKED_BYTES (16u * 1024 * 1024)
#define STEP_US 1000000 /* a step that took longer starts no further batch */
#define TREE_BYTES (32u * EF_LIMIT_DATA_BYTES)
#define MAP_BYTES (64u * 1024 * 1024)

/* --- a batch ---------------------------------------------------------------------------------- */

/* A claimed batch until it is acknowledged. */
typedef struct publish_pass {
    ef__publisher_task *p;
    ef_partition_lease *held;
    size_t held_count;
    ef_claimed_batch claimed;
    ef__arena arena;
    ef__bus_message *messages;
    ef__bus_outcome *outcomes; /* of the messages */
    size_t message_count;
    size_t *message_of;       /* per item: its message, or SIZE_MAX */
    ef_retry_row *retry_rows; /* space for one per item */
    size_t retry_row_count;
    ef__pair_map blocked; /* streams with a failure in this batch */
    int64_t published, failed, dead;
    bool down; /* the sink is unavailable */
    ef_error why;
} publish_pass;

/* Makes messages of the rows that are to be delivered: not of skipped or blocked ones. */
static ef_status make_messages(publish_pass *pass, ef_error *err)
{
    size_t n = pass->claimed.count;

    pass->messages = ef__arena_zalloc(&pass->arena, n, sizeof *pass->messages);
    pass->outcomes = ef__arena_zalloc(&pass->arena, n, sizeof *pass->outcomes);
    pass->message_of = ef__arena_zalloc(&pass->arena, n, sizeof *pass->message_of);
    pass->retry_rows = ef__arena_zalloc(&pass->arena, n, sizeof *pass->retry_rows);
    if (!pass->messages || !pass->outcomes || !pass->message_of || !pass->retry_rows)
        return ef__publish_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const ef_claimed_row *item = &pass->claimed.items[i];
        pass->message_of[i] = SIZE_MAX;
        if (item->skip || item->waits)
            continue;
        pass->message_of[i] = pass->message_count;
        pass->messages[pass->message_count++].event = item->event;
    }
    return ef__publish_keys(&pass->p->definition, pass->messages, pass->message_count,
                            pass->p->bus->ops->grouped, &pass->arena, err);
}

static ef_status deliver_messages(publish_pass *pass, ef_error *err)
{
    ef__bus *bus = pass->p->bus;
    ef_status st = make_messages(pass, err);

    if (st != EF_OK || pass->message_count == 0)
        return st;
    st =
        bus->ops->deliver(bus, pass->messages, pass->message_count, ef__engine_now(pass->p->engine),
                          pass->outcomes, &pass->arena, &pass->why);
    pass->down = st != EF_OK || bus->lost;
    if (st != EF_OK && !pass->why.text[0])
        (void)ef_fail(&pass->why, st, "%s", ef_status_describe(st)->message);
    return EF_OK;
}

static bool is_blocked(const publish_pass *pass, const ef_event *event)
{
    return pass->blocked.count && ef__pair_map_find(&pass->blocked, event->tenant, event->stream);
}

static ef_status block_stream(publish_pass *pass, const ef_event *event, ef_error *err)
{
    bool is_new;

    return ef__pair_map_at(&pass->blocked, event->tenant, event->stream, &is_new)
               ? EF_OK
               : ef__publish_no_memory(err);
}

static void add_retry_row(publish_pass *pass, const ef_claimed_row *item, ef_retry_row row)
{
    row.lane = ef_str_from(pass->p->name);
    row.position = item->event->position;
    row.filed = item->filed;
    pass->retry_rows[pass->retry_row_count++] = row;
}

/* A failed delivery: the row is retried later or is dead, and its stream is blocked. */
static ef_status add_failed_row(publish_pass *pass, const ef_claimed_row *item,
                                const ef__bus_outcome *outcome, ef_error *err)
{
    ef__retry_policy policy = ef__retry_of_publisher(
        &pass->p->engine->retry, pass->p->definition.retry_ms, pass->p->definition.attempts_max);
    ef__retry_step step = ef__retry_decide(&policy, item->attempts, EF__ERROR_TRANSIENT, 0);
    bool dead = step.dead || outcome->verdict == EF__BUS_REFUSED;

    add_retry_row(
        pass, item,
        (ef_retry_row){.status = dead ? EF_ROW_DEAD : EF_ROW_FAILED,
                       .attempts = (int32_t)step.attempts,
                       .due_us = dead ? 0 : ef__engine_now(pass->p->engine) + step.delay_ms * 1000,
                       .error = outcome->error});
    pass->failed++;
    pass->dead += dead;
    return block_stream(pass, item->event, err);
}

static publish_pass begin_pass(ef__publisher_task *publisher, ef_partition_lease *held,
                               size_t held_count)
{
    return (publish_pass){.p = publisher,
                          .held = held,
                          .held_count = held_count,
                          .claimed = EF_CLAIMED_BATCH_INIT,
                          .arena = EF__ARENA_INIT(STEP_BYTES),
                          .blocked = EF__PAIR_MAP_INIT(uint64_t, BLOCKED_BYTES),
                          .why = EF_ERROR_INIT};
}

static void end_pass(publish_pass *pass)
{
    ef__pair_map_release(&pass->blocked);
    ef__arena_release(&pass->arena);
    ef__claimed_batch_release(&pass->claimed);
}

static const ef_event *event_at(const publish_pass *pass, int64_t position)
{
    for (size_t i = 0; i < pass->claimed.count; i++)
        if (pass->claimed.items[i].event->position == position)
            return pass->claimed.items[i].event;
    return NULL;
}

static void report_dead_messages(const publish_pass *pass)
{
    for (size_t i = 0; pass->dead && i < pass->retry_row_count; i++) {
        const ef_retry_row *row = &pass->retry_rows[i];
        const ef_event *event = row->status == EF_ROW_DEAD ? event_at(pass, row->position) : NULL;
        if (event)
            ef__log(pass->p->engine->options.log, EF_LOG_WARN, "message is dead",
                    EF_LOG_TEXT_FIELD("publisher", row->lane),
                    EF_LOG_TEXT_FIELD("tenant", event->tenant),
                    EF_LOG_TEXT_FIELD("stream", event->stream),
                    EF_LOG_NUMBER_FIELD("seq", event->seq),
                    EF_LOG_NUMBER_FIELD("attempts", row->attempts),
                    EF_LOG_TEXT_FIELD("error", row->error));
    }
}

/* Reports the result of a batch once its rows are written. */
static void report_batch(publish_pass *pass, ef_tick *tick)
{
    ef__publisher_task *publisher = pass->p;

    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->health.published += pass->published;
    publisher->health.failed += pass->failed;
    publisher->health.dead += pass->dead;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    report_dead_messages(pass);
    tick->claimed += (int64_t)pass->claimed.count;
    tick->more = tick->more || (pass->claimed.more && !pass->down);
    if (pass->down && pass->why.text[0])
        ef__sink_failed(publisher, &pass->why);
    else if (pass->published)
        ef__sink_recovered(publisher);
}

/* --- due retry rows --------------------------------------------------------------------------- */

static ef_status settle_due(publish_pass *pass, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < pass->claimed.count; i++) {
        const ef_claimed_row *item = &pass->claimed.items[i];
        const ef__bus_outcome *outcome =
            pass->message_of[i] == SIZE_MAX ? NULL : &pass->outcomes[pass->message_of[i]];
        bool done = item->skip || outcome->verdict == EF__BUS_DELIVERED;

        if (is_blocked(pass, item->event))
            continue; /* it stays blocked behind the one before it, even if it was delivered */
        if (done) {
            add_retry_row(pass, item, (ef_retry_row){.status = EF_ROW_DONE});
            pass->published += !item->skip;
        } else if (outcome->verdict == EF__BUS_WAITING) {
            pass->claimed.more = true; /* it is still due */
            st = block_stream(pass, item->event, err);
        } else {
            st = add_failed_row(pass, item, outcome, err);
        }
    }
    if (st == EF_OK && pass->retry_row_count)
        st = ef__sink_ack(pass->p, pass->held, pass->held_count, pass->retry_rows,
                          pass->retry_row_count, err);
    return st;
}

ef_status ef__publish_due(ef__publisher_task *publisher, ef_partition_lease *held,
                          size_t held_count, ef_tick *tick, ef_error *err)
{
    publish_pass pass = begin_pass(publisher, held, held_count);
    size_t limit =
        publisher->bus->ops->batch_max < DUE_MAX ? publisher->bus->ops->batch_max : DUE_MAX;
    ef_status st = ef__outbox_claim(publisher->engine->journal,
                                    &(ef__claim_request){.lane = ef_str_from(publisher->name),
                                                         .due = true,
                                                         .held = held,
                                                         .held_count = held_count,
                                                         .limit = limit},
                                    &pass.claimed, err);

    if (st == EF_OK)
        ef__tick_wake_at(tick, pass.claimed.next_due_us);
    if (st == EF_OK && pass.claimed.count)
        st = deliver_messages(&pass, err);
    if (st == EF_OK && pass.claimed.count)
        st = settle_due(&pass, err);
    if (st == EF_OK && pass.claimed.count)
        report_batch(&pass, tick);
    end_pass(&pass);
    return st;
}

/* --- queued rows ------------------------------------------------------------------------------ */

/* The result of a row. False: it stays queued, and so do later rows of its partition. */
static bool record_row(publish_pass *pass, size_t i, ef_status *st, ef_error *err)
{
    const ef_claimed_row *item = &pass->claimed.items[i];
    const ef__bus_outcome *outcome =
        pass->message_of[i] == SIZE_MAX ? NULL : &pass->outcomes[pass->message_of[i]];

    if (!outcome || is_blocked(pass, item->event)) {
        add_retry_row(pass, item, (ef_retry_row){.status = EF_ROW_PENDING});
        return true;
    }
    if (outcome->verdict == EF__BUS_WAITING)
        return false;
    if (outcome->verdict == EF__BUS_DELIVERED)
        pass->published++;
    else
        *st = add_failed_row(pass, item, outcome, err);
    return true;
}

/* The offset of a partition moves up to the first row that stays queued. */
static ef_status ack_queued(publish_pass *pass, ef_error *err)
{
    bool stopped[EF_LIMIT_PARTITIONS] = {false};
    ef_partition_lease *of[EF_LIMIT_PARTITIONS] = {NULL};
    ef_status st = EF_OK;
    bool any = false;

    for (size_t h = 0; h < pass->held_count; h++) {
        pass->held[h].upto = 0;
        of[pass->held[h].partition] = &pass->held[h];
    }
    for (size_t i = 0; st == EF_OK && i < pass->claimed.count; i++) {
        const ef_claimed_row *item = &pass->claimed.items[i];
        if (stopped[item->partition])
            continue;
        if (record_row(pass, i, &st, err)) {
            assert(of[item->partition]->upto < item->event->position); /* offsets only grow */
            of[item->partition]->upto = item->event->position;
            any = true;
        } else {
            stopped[item->partition] = true;
        }
    }
    if (st == EF_OK && any)
        st = ef__sink_ack(pass->p, pass->held, pass->held_count, pass->retry_rows,
                          pass->retry_row_count, err);
    for (size_t h = 0; h < pass->held_count; h++)
        pass->held[h].upto = 0;
    return st;
}

/* Larger batches while there is a backlog; smaller ones when time ran out before all were tried. */
static void adapt_batch_size(publish_pass *pass)
{
    ef__publisher_task *publisher = pass->p;
    size_t most = publisher->bus->ops->batch_max, left = 0;

    for (size_t i = 0; i < pass->message_count; i++)
        left += pass->outcomes[i].verdict == EF__BUS_WAITING;
    if (left && !pass->down && pass->failed == 0)
        publisher->batch = publisher->batch / 2 ? publisher->batch / 2 : 1;
    else if (pass->claimed.more && !left)
        publisher->batch = publisher->batch * 2 < most ? publisher->batch * 2 : most;
}

/*
 * Overlapping batches. While the messages of one batch are being delivered, the previous batch is
 * acknowledged and the next one is claimed, as long as every delivery succeeds. A failure is
 * acknowledged before further rows are delivered, and the batch that was claimed after it is left
 * to the next step.
 */
typedef struct publish_flow {
    publish_pass *before; /* delivered, not acknowledged; NULL: none */
    publish_pass *now;
    publish_pass *next; /* memory for the next claim; NULL: nothing is claimed */
    ef_tick *tick;
    ef_status st; /* of the ack */
    ef_error *err;
} publish_flow;

/* While lost messages are not redelivered, the stored sink position must stay, or the next holder
 * would not notice the loss; and an ack without the position would outlive the message. So nothing
 * is acknowledged, and the batch is delivered again. */
static ef_status ack_batch(publish_pass *pass, ef_tick *tick, ef_error *err)
{
    ef_status st = pass->p->bus->lost ? EF_OK : ack_queued(pass, err);

    if (st != EF_OK || pass->p->bus->lost)
        return st;
    if (pass->published < (int64_t)pass->message_count)
        pass->claimed.more = true; /* rows that were not tried */
    adapt_batch_size(pass);
    report_batch(pass, tick);
    return EF_OK;
}

static ef_status claim_batch(publish_pass *pass, int64_t after, ef_error *err)
{
    return ef__outbox_claim(pass->p->engine->journal,
                            &(ef__claim_request){.lane = ef_str_from(pass->p->name),
                                                 .held = pass->held,
                                                 .held_count = pass->held_count,
                                                 .after = after,
                                                 .limit = pass->p->batch},
                            &pass->claimed, err);
}

/* A failure to claim the next batch is reported when it is that batch's turn. */
static bool work_meanwhile(void *context)
{
    publish_flow *flow = context;

    if (flow->before) {
        flow->st = ack_batch(flow->before, flow->tick, flow->err);
        flow->before = NULL;
        return flow->st == EF_OK && flow->next;
    }
    if (flow->next)
        (void)claim_batch(flow->next,
                          flow->now->claimed.items[flow->now->claimed.count - 1].event->position,
                          NULL);
    return false;
}

static ef_status deliver_now(publish_flow *flow, ef_error *err)
{
    ef__bus *bus = flow->now->p->bus;
    ef_status st;

    bus->meanwhile = work_meanwhile;
    bus->meanwhile_context = flow;
    st = deliver_messages(flow->now, err);
    if (flow->now->down)
        flow->next = NULL;
    while (ef__bus_meanwhile(bus))
        ; /* the sink returned before the work was done */
    return st == EF_OK ? flow->st : st;
}

/* Not if some rows are blocked by an earlier failure. */
static bool may_overlap(const publish_pass *pass)
{
    bool may = pass->p->bus->ops->overlaps && pass->claimed.more;

    for (size_t i = 0; may && i < pass->claimed.count; i++)
        may = !pass->claimed.items[i].waits;
    return may;
}

static bool went_well(const publish_pass *pass)
{
    bool well = !pass->down && !pass->p->bus->lost && pass->message_count == pass->claimed.count;

    for (size_t i = 0; well && i < pass->message_count; i++)
        well = pass->outcomes[i].verdict == EF__BUS_DELIVERED;
    return well;
}

/* Delivers a batch, then continues with the next one or acknowledges it. */
static ef_status step_batch(publish_flow *flow, ef_error *err)
{
    ef_status st = deliver_now(flow, err);
    publish_pass *done = flow->now;

    if (st != EF_OK)
        return st;
    flow->now = NULL;
    if (!flow->next || !flow->next->claimed.count || !went_well(done))
        return ack_batch(done, flow->tick, err);
    flow->before = done;
    st = ef__membership_renew(&done->p->membership, flow->tick, err);
    if (st == EF_OK && ef__membership_holds(&done->p->membership, done->held, done->held_count))
        flow->now = flow->next;
    return st;
}

ef_status ef__publish_queued(ef__publisher_task *publisher, ef_partition_lease *held,
                             size_t held_count, size_t usual, ef_tick *tick, ef_error *err)
{
    int64_t until_us = ef__publish_mono_us(publisher) + STEP_US;
    publish_pass ring[3] = {begin_pass(publisher, held, held_count),
                            begin_pass(publisher, held, held_count),
                            begin_pass(publisher, held, held_count)};
    publish_flow flow = {.now = &ring[0], .tick = tick, .err = err};
    ef_status st;

    if (!publisher->batch || publisher->batch > publisher->bus->ops->batch_max)
        publisher->batch =
            usual < publisher->bus->ops->batch_max ? usual : publisher->bus->ops->batch_max;
    st = claim_batch(flow.now, 0, err);
    for (size_t n = 1; st == EF_OK && flow.now && flow.now->claimed.count; n++) {
        publish_pass *room = &ring[n % 3];
        end_pass(room);
        *room = begin_pass(publisher, held, held_count);
        flow.next =
            ef__publish_mono_us(publisher) < until_us && may_overlap(flow.now) ? room : NULL;
        st = step_batch(&flow, err);
    }
    if (st == EF_OK && flow.before)
        st = ack_batch(flow.before, tick, err);
    for (size_t i = 0; i < 3; i++)
        end_pass(&ring[i]);
    return st;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* The value at "data.a.b" as text; {NULL}: no such value, or an object or array. */
static ef_str member_at(const ef_event *event, ef_str path, ef__arena *arena)
{
    EF__AUTO(ef__arena) scratch = EF__ARENA_INIT(TREE_BYTES);
    ef__json *at = NULL;
    ef_str found = {0}, rest = {path.ptr + 5, path.len - 5};
    char name[EF_LIMIT_REASON_BYTES];

    if (ef__json_parse(event->data, EF_LIMIT_DATA_BYTES, &scratch, &at, NULL) != EF_OK)
        at = NULL;
    while (at && rest.len) {
        ef_str step = ef__str_split(&rest, '.');
        if (step.len >= sizeof name)
            return (ef_str){0};
        (void)snprintf(name, sizeof name, "%.*s", EF_STR_ARG(step));
        at = (ef__json *)ef__json_get(at, name);
    }
    if (at && (at->kind == EF__JSON_STRING || at->kind == EF__JSON_NUMBER))
        found = ef__arena_copy(arena, at->text);
    return found;
}

static ef_str key_of(const ef_publisher *publisher, const ef_event *event, ef__arena *arena)
{
    ef_str found;

    if (ef_str_equal(publisher->partition_by, EF_STR("tenant")))
        return event->tenant;
    if (ef_str_equal(publisher->partition_by, EF_STR("type")))
        return event->type;
    if (ef_str_equal(publisher->partition_by, EF_STR("stream")))
        return event->stream;
    found = member_at(event, publisher->partition_by, arena);
    return found.ptr && found.len <= EF_LIMIT_NAME_BYTES ? found : event->stream;
}

/* --- groups: messages are in one group if they share a stream or a key ------------------------ */

static uint32_t find_group(ef__bus_message *messages, uint32_t i)
{
    while (messages[i].group != i) {
        messages[i].group = messages[messages[i].group].group;
        i = messages[i].group;
    }
    return i;
}

/* Joins message `i` with the last one of the same name, if any. */
static bool join_groups(ef__pair_map *map, ef__bus_message *messages, uint32_t i, ef_str tenant,
                        ef_str name)
{
    bool is_new = false;
    uint64_t *first = ef__pair_map_at(map, tenant, name, &is_new);
    uint32_t a, b;

    if (!first)
        return false;
    if (is_new)
        *first = i;
    a = find_group(messages, (uint32_t)*first);
    b = find_group(messages, i);
    messages[a > b ? a : b].group = a > b ? b : a; /* the first message represents the group */
    return true;
}

ef_status ef__publish_keys(const ef_publisher *publisher, ef__bus_message *messages, size_t count,
                           bool grouped, ef__arena *arena, ef_error *err)
{
    EF__AUTO(ef__pair_map) streams = EF__PAIR_MAP_INIT(uint64_t, MAP_BYTES);
    EF__AUTO(ef__pair_map) keys = EF__PAIR_MAP_INIT(uint64_t, MAP_BYTES);
    bool by_stream = ef_str_equal(publisher->partition_by, EF_STR("stream")), fits = true;

    for (uint32_t i = 0; i < count; i++) {
        messages[i].key = key_of(publisher, messages[i].event, arena);
        messages[i].group = i;
    }
    for (uint32_t i = 0; grouped && fits && i < count; i++) {
        const ef_event *event = messages[i].event;
        fits = join_groups(&streams, messages, i, event->tenant, event->stream) &&
               (by_stream || join_groups(&keys, messages, i, event->tenant, messages[i].key));
    }
    for (uint32_t i = 0; grouped && i < count; i++)
        messages[i].group = find_group(messages, i);
    return fits ? EF_OK : ef__publish_no_memory(err);
}
