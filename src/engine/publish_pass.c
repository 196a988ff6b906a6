/*
 * publish_pass.c - see publish_pass.h.
 */
#include "publish_pass.h"

#include "publish_sink.h"

#include "../base/limits.h"
#include "../base/logger.h"
#include "../base/pair_map.h"
#include "../core/retry.h"

#define DUE_MAX 1000 /* exceptions at a time */
#define STEP_BYTES (256u * 1024 * 1024)
#define BLOCKED_BYTES (16u * 1024 * 1024)
#define STEP_US 1000000 /* behind batches that took so long none is begun in the same step */

static void count(ef__publishing *p, int64_t published, int64_t failed, int64_t dead)
{
    pthread_mutex_lock(&p->engine->lock);
    p->is.published += published;
    p->is.failed += failed;
    p->is.dead += dead;
    pthread_mutex_unlock(&p->engine->lock);
}

/* --- a pass ----------------------------------------------------------------------------------- */

/* A batch on its way. */
typedef struct pass {
    ef__publishing *p;
    ef_holding *held;
    size_t held_count;
    ef_taken_batch taken;
    ef__arena arena;
    ef__bus_message *messages;
    ef__bus_outcome *outcomes; /* of the messages */
    size_t message_count;
    size_t *message_of;       /* per item: its message, or SIZE_MAX */
    ef_exception *exceptions; /* room for one an item */
    size_t exception_count;
    ef__pair_map blocked; /* streams of which one has failed in this pass */
    int64_t published, failed, dead;
    bool down; /* the sink is not at hand */
    ef_error why;
} pass;

/* Messages of what is to be delivered: not what an operator skipped or what waits for another. */
static ef_status make_messages(pass *s, ef_error *err)
{
    size_t n = s->taken.count;

    s->messages = ef__arena_zalloc(&s->arena, n, sizeof *s->messages);
    s->outcomes = ef__arena_zalloc(&s->arena, n, sizeof *s->outcomes);
    s->message_of = ef__arena_zalloc(&s->arena, n, sizeof *s->message_of);
    s->exceptions = ef__arena_zalloc(&s->arena, n, sizeof *s->exceptions);
    if (!s->messages || !s->outcomes || !s->message_of || !s->exceptions)
        return ef__publish_no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const ef_taken *item = &s->taken.items[i];
        s->message_of[i] = SIZE_MAX;
        if (item->skip || item->waits)
            continue;
        s->message_of[i] = s->message_count;
        s->messages[s->message_count++].event = item->event;
    }
    return ef__publish_keys(&s->p->definition, s->messages, s->message_count,
                            s->p->bus->ops->grouped, &s->arena, err);
}

static ef_status deliver(pass *s, ef_error *err)
{
    ef__bus *bus = s->p->bus;
    ef_status st = make_messages(s, err);

    if (st != EF_OK || s->message_count == 0)
        return st;
    st = bus->ops->deliver(bus, s->messages, s->message_count, ef__engine_now(s->p->engine),
                           s->outcomes, &s->arena, &s->why);
    s->down = st != EF_OK || bus->lost;
    if (st != EF_OK && !s->why.text[0])
        (void)ef_fail(&s->why, st, "%s", ef_status_words(st));
    return EF_OK;
}

static bool is_blocked(const pass *s, const ef_event *event)
{
    return s->blocked.count && ef__pair_map_find(&s->blocked, event->tenant, event->stream);
}

static ef_status block(pass *s, const ef_event *event, ef_error *err)
{
    bool is_new;

    return ef__pair_map_at(&s->blocked, event->tenant, event->stream, &is_new)
               ? EF_OK
               : ef__publish_no_memory(err);
}

static void add_exception(pass *s, const ef_taken *item, ef_exception x)
{
    x.lane = ef_str_from(s->p->name);
    x.position = item->event->position;
    x.filed = item->filed;
    s->exceptions[s->exception_count++] = x;
}

/* It failed: when it is tried again, or that it is not. Its stream waits. */
static ef_status file_failure(pass *s, const ef_taken *item, const ef__bus_outcome *outcome,
                              ef_error *err)
{
    ef__retry_policy policy = ef__retry_of_publisher(
        &s->p->engine->retry, s->p->definition.retry_ms, s->p->definition.attempts_max);
    ef__retry_step step = ef__retry_decide(&policy, item->attempts, EF__ERROR_TRANSIENT, 0);
    bool dead = step.dead || outcome->verdict == EF__BUS_REFUSED;

    add_exception(
        s, item,
        (ef_exception){.status = dead ? EF_ROW_DEAD : EF_ROW_FAILED,
                       .attempts = (int32_t)step.attempts,
                       .due_us = dead ? 0 : ef__engine_now(s->p->engine) + step.delay_ms * 1000,
                       .error = outcome->error});
    s->failed++;
    s->dead += dead;
    return block(s, item->event, err);
}

static pass begin_pass(ef__publishing *p, ef_holding *held, size_t held_count)
{
    return (pass){.p = p,
                  .held = held,
                  .held_count = held_count,
                  .taken = EF_TAKEN_BATCH_INIT,
                  .arena = EF__ARENA_INIT(STEP_BYTES),
                  .blocked = EF__PAIR_MAP_INIT(uint64_t, BLOCKED_BYTES),
                  .why = EF_ERROR_INIT};
}

static void end_pass(pass *s)
{
    ef__pair_map_release(&s->blocked);
    ef__arena_release(&s->arena);
    ef_taken_batch_release(&s->taken);
}

static const ef_event *event_at(const pass *s, int64_t position)
{
    for (size_t i = 0; i < s->taken.count; i++)
        if (s->taken.items[i].event->position == position)
            return s->taken.items[i].event;
    return NULL;
}

static void report_dead_messages(const pass *s)
{
    for (size_t i = 0; s->dead && i < s->exception_count; i++) {
        const ef_exception *x = &s->exceptions[i];
        const ef_event *event = x->status == EF_ROW_DEAD ? event_at(s, x->position) : NULL;
        if (event)
            ef__log(
                s->p->engine->options.log, EF_LOG_WARN, "a message is dead",
                EF_LOG_TEXT_FIELD("publisher", x->lane), EF_LOG_TEXT_FIELD("tenant", event->tenant),
                EF_LOG_TEXT_FIELD("stream", event->stream), EF_LOG_NUMBER_FIELD("seq", event->seq),
                EF_LOG_NUMBER_FIELD("attempts", x->attempts), EF_LOG_TEXT_FIELD("error", x->error));
    }
}

/* What the pass has come to, once its rows are written. */
static void finish(pass *s, ef_tick *tick)
{
    ef__publishing *p = s->p;

    count(p, s->published, s->failed, s->dead);
    report_dead_messages(s);
    tick->claimed += (int64_t)s->taken.count;
    tick->more = tick->more || (s->taken.more && !s->down);
    if (s->down && s->why.text[0])
        ef__sink_failed(p, &s->why);
    else if (s->published)
        ef__sink_well(p);
}

/* --- what is due again ------------------------------------------------------------------------ */

static ef_status settle_due(pass *s, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < s->taken.count; i++) {
        const ef_taken *item = &s->taken.items[i];
        const ef__bus_outcome *outcome =
            s->message_of[i] == SIZE_MAX ? NULL : &s->outcomes[s->message_of[i]];
        bool done = item->skip || outcome->verdict == EF__BUS_DELIVERED;

        if (is_blocked(s, item->event))
            continue; /* it waits for the one before it, even if it got through */
        if (done) {
            add_exception(s, item, (ef_exception){.status = EF_ROW_DONE});
            s->published += !item->skip;
        } else if (outcome->verdict == EF__BUS_WAITING) {
            s->taken.more = true; /* it is due all the same */
            st = block(s, item->event, err);
        } else {
            st = file_failure(s, item, outcome, err);
        }
    }
    if (st == EF_OK && s->exception_count)
        st = ef__sink_mark(s->p, s->held, s->held_count, s->exceptions, s->exception_count, err);
    return st;
}

/* May what was taken go out? Otherwise it is taken again, with what the new partitions have. */
static ef_status check_whole(pass *s, ef_tick *tick, bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = false;
    if (s->taken.count)
        st = ef__crew_is_whole(&s->p->crew, out, err);
    tick->more = tick->more || (st == EF_OK && s->taken.count && !*out);
    return st;
}

ef_status ef__publish_due(ef__publishing *p, ef_holding *held, size_t held_count, ef_tick *tick,
                          ef_error *err)
{
    pass s = begin_pass(p, held, held_count);
    bool whole = false;
    size_t limit = p->bus->ops->batch_max < DUE_MAX ? p->bus->ops->batch_max : DUE_MAX;
    ef_status st = ef_outbox_take_due(p->engine->journal, ef_str_from(p->name), held, held_count,
                                      limit, &s.taken, err);

    if (st == EF_OK)
        ef__publish_note_due(tick, s.taken.next_due_us);
    if (st == EF_OK)
        st = check_whole(&s, tick, &whole, err);
    if (st == EF_OK && whole)
        st = deliver(&s, err);
    if (st == EF_OK && whole)
        st = settle_due(&s, err);
    if (st == EF_OK && whole)
        finish(&s, tick);
    end_pass(&s);
    return st;
}

/* --- what is queued --------------------------------------------------------------------------- */

/* What becomes of a row. False: it stays queued, and so does what follows in its partition. */
static bool settle_row(pass *s, size_t i, ef_status *st, ef_error *err)
{
    const ef_taken *item = &s->taken.items[i];
    const ef__bus_outcome *outcome =
        s->message_of[i] == SIZE_MAX ? NULL : &s->outcomes[s->message_of[i]];

    if (!outcome || is_blocked(s, item->event)) {
        add_exception(s, item, (ef_exception){.status = EF_ROW_PENDING});
        return true;
    }
    if (outcome->verdict == EF__BUS_WAITING)
        return false;
    if (outcome->verdict == EF__BUS_DELIVERED)
        s->published++;
    else
        *st = file_failure(s, item, outcome, err);
    return true;
}

/* The mark of a partition goes up to the first row that stays. */
static ef_status settle_queued(pass *s, ef_error *err)
{
    bool stopped[EF_LIMIT_PARTITIONS] = {false};
    ef_holding *of[EF_LIMIT_PARTITIONS] = {NULL};
    ef_status st = EF_OK;
    bool any = false;

    for (size_t h = 0; h < s->held_count; h++) {
        s->held[h].upto = 0;
        of[s->held[h].partition] = &s->held[h];
    }
    for (size_t i = 0; st == EF_OK && i < s->taken.count; i++) {
        const ef_taken *item = &s->taken.items[i];
        if (stopped[item->partition])
            continue;
        if (settle_row(s, i, &st, err)) {
            of[item->partition]->upto = item->event->position;
            any = true;
        } else {
            stopped[item->partition] = true;
        }
    }
    if (st == EF_OK && any)
        st = ef__sink_mark(s->p, s->held, s->held_count, s->exceptions, s->exception_count, err);
    for (size_t h = 0; h < s->held_count; h++)
        s->held[h].upto = 0;
    return st;
}

/* More at a time while there is a backlog; less when time was up before all were tried. */
static void adapt(pass *s)
{
    ef__publishing *p = s->p;
    size_t most = p->bus->ops->batch_max, left = 0;

    for (size_t i = 0; i < s->message_count; i++)
        left += s->outcomes[i].verdict == EF__BUS_WAITING;
    if (left && !s->down && s->failed == 0)
        p->batch = p->batch / 2 ? p->batch / 2 : 1;
    else if (s->taken.more && !left)
        p->batch = p->batch * 2 < most ? p->batch * 2 : most;
}

/*
 * Batches one behind the other. While the messages of one are on their way the batch before it is
 * marked and the one behind it taken, if all goes well; what does not is settled before anything
 * else goes out, and what was taken behind it is left for the next step.
 */
typedef struct flow {
    pass *before; /* delivered, not marked; NULL: there is none */
    pass *now;
    pass *next; /* room for what follows; NULL: nothing is taken */
    ef_tick *tick;
    ef_status st; /* of the mark */
    ef_error *err;
} flow;

/* While what a sink has lost is not handed back, what is noted of it must stay, or whoever takes
 * over knows of no loss; and a mark without its note would outlive the message. So nothing is
 * marked, and it comes again. */
static ef_status settle_batch(pass *s, ef_tick *tick, ef_error *err)
{
    ef_status st = s->p->bus->lost ? EF_OK : settle_queued(s, err);

    if (st != EF_OK || s->p->bus->lost)
        return st;
    if (s->published < (int64_t)s->message_count)
        s->taken.more = true; /* what was not tried */
    adapt(s);
    finish(s, tick);
    return EF_OK;
}

static ef_status take_batch(pass *s, int64_t after, ef_error *err)
{
    return ef_outbox_take_after(s->p->engine->journal, ef_str_from(s->p->name), s->held,
                                s->held_count, after, s->p->batch, &s->taken, err);
}

/* Whatever keeps the next batch from being taken is met again when it is that one's turn. */
static bool work_meanwhile(void *context)
{
    flow *f = context;

    if (f->before) {
        f->st = settle_batch(f->before, f->tick, f->err);
        f->before = NULL;
        return f->st == EF_OK && f->next;
    }
    if (f->next)
        (void)take_batch(f->next, f->now->taken.items[f->now->taken.count - 1].event->position,
                         NULL);
    return false;
}

static ef_status deliver_now(flow *f, ef_error *err)
{
    ef__bus *bus = f->now->p->bus;
    ef_status st;

    bus->meanwhile = work_meanwhile;
    bus->meanwhile_context = f;
    st = deliver(f->now, err);
    if (f->now->down)
        f->next = NULL;
    while (ef__bus_meanwhile(bus))
        ; /* what the sink had no time for */
    return st == EF_OK ? f->st : st;
}

/* Not when some of it waits for what failed before: such a batch does not go well. */
static bool may_overlap(const pass *s)
{
    bool may = s->p->bus->ops->overlaps && s->taken.more;

    for (size_t i = 0; may && i < s->taken.count; i++)
        may = !s->taken.items[i].waits;
    return may;
}

static bool went_well(const pass *s)
{
    bool well = !s->down && !s->p->bus->lost && s->message_count == s->taken.count;

    for (size_t i = 0; well && i < s->message_count; i++)
        well = s->outcomes[i].verdict == EF__BUS_DELIVERED;
    return well;
}

/* Deliver a batch, and go on with the one behind it or settle it. */
static ef_status step_batch(flow *f, ef_error *err)
{
    ef_status st = deliver_now(f, err);
    pass *done = f->now;

    if (st != EF_OK)
        return st;
    f->now = NULL;
    if (!f->next || !f->next->taken.count || !went_well(done))
        return settle_batch(done, f->tick, err);
    f->before = done;
    st = ef__crew_keep(&done->p->crew, f->tick, err);
    if (st == EF_OK && ef__publish_token(done->p) == done->held->token)
        f->now = f->next;
    return st;
}

ef_status ef__publish_queued(ef__publishing *p, ef_holding *held, size_t held_count, size_t usual,
                             ef_tick *tick, ef_error *err)
{
    int64_t until_us = ef__publish_mono_us(p) + STEP_US;
    pass ring[3] = {begin_pass(p, held, held_count), begin_pass(p, held, held_count),
                    begin_pass(p, held, held_count)};
    flow f = {.now = &ring[0], .tick = tick, .err = err};
    bool whole = true;
    ef_status st;

    if (!p->batch || p->batch > p->bus->ops->batch_max)
        p->batch = usual < p->bus->ops->batch_max ? usual : p->bus->ops->batch_max;
    st = take_batch(f.now, 0, err);
    for (size_t n = 1; st == EF_OK && f.now; n++) {
        pass *room = &ring[n % 3];
        st = check_whole(f.now, tick, &whole, err);
        if (st != EF_OK || !whole)
            break;
        end_pass(room);
        *room = begin_pass(p, held, held_count);
        f.next = ef__publish_mono_us(p) < until_us && may_overlap(f.now) ? room : NULL;
        st = step_batch(&f, err);
    }
    if (st == EF_OK && f.before)
        st = settle_batch(f.before, tick, err);
    for (size_t i = 0; i < 3; i++)
        end_pass(&ring[i]);
    return st;
}
