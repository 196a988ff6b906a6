/*
 * publish.c - see publish.h: a step of one publisher.
 */
#include "publish.h"

#include "publish_sink.h"

#include "../base/limits.h"
#include "../base/pair_map.h"
#include "../core/retry.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH_USUAL 1000
#define DUE_MAX 1000 /* exceptions at a time */
#define STEP_BYTES (256u * 1024 * 1024)
#define BLOCKED_BYTES (16u * 1024 * 1024)
#define PURGE_ROWS 1000
#define PURGE_US 10000000

static int64_t mono_us(const ef__publishing *p)
{
    return p->engine->options.clock->mono_us(p->engine->options.clock->context);
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}

static void show(ef__publishing *p, ef_publisher_state state)
{
    pthread_mutex_lock(&p->engine->lock);
    p->is.state = state;
    pthread_mutex_unlock(&p->engine->lock);
}

static void count(ef__publishing *p, int64_t published, int64_t failed, int64_t dead)
{
    pthread_mutex_lock(&p->engine->lock);
    p->is.published += published;
    p->is.failed += failed;
    p->is.dead += dead;
    pthread_mutex_unlock(&p->engine->lock);
}

/* --- its definition --------------------------------------------------------------------------- */

/* Changed settings begin anew: another sink, and what it was waiting for is over. */
static ef_status take_definition(ef__publishing *p, const ef_lane *lane, ef_error *err)
{
    ef_lane own = *lane;
    ef_status st;

    if (p->settings.ptr && ef_str_equal(p->settings, lane->settings) &&
        ef_str_equal(p->definition.types, lane->types))
        return EF_OK;
    ef__sink_close(p);
    ef__arena_reset(&p->arena);
    own.settings = p->settings = ef__arena_copy(&p->arena, lane->settings);
    own.types = ef__arena_copy(&p->arena, lane->types);
    own.name = ef_str_from(p->name);
    if (!own.settings.ptr || !own.types.ptr)
        st = no_memory(err);
    else
        st = ef__publisher_read(&own, &p->arena, &p->definition, err);
    if (st != EF_OK)
        p->settings = (ef_str){0};
    p->next_try_us = p->next_purge_us = 0;
    return st;
}

/* Read the definition, and open the sink unless it is paused. */
static ef_status get_ready(ef__publishing *p, ef_error *err)
{
    ef_lane_list lanes = {0};
    const ef_lane *found = NULL;
    ef_error why = EF_ERROR_INIT;
    ef_status st = ef_lane_ls(p->engine->journal, &lanes, err);

    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (ef_str_equal(lanes.items[i].name, ef_str_from(p->name)) &&
            ef__lane_is_publisher(&lanes.items[i]))
            found = &lanes.items[i];
    if (st == EF_OK && found)
        st = take_definition(p, found, err);
    if (st == EF_OK && found && found->progress.len < sizeof p->noted)
        (void)snprintf(p->noted, sizeof p->noted, "%.*s", EF_STR_ARG(found->progress));
    if (st == EF_OK && found && !p->definition.paused && !p->bus && ef__sink_is_at_hand(p) &&
        ef__sink_open(p, found->progress, &why) != EF_OK)
        ef__sink_failed(p, &why);
    if (st == EF_OK && !found) {
        pthread_mutex_lock(&p->engine->lock);
        p->gone = true;
        pthread_mutex_unlock(&p->engine->lock);
    }
    ef_lane_list_release(&lanes);
    return st;
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
        return no_memory(err);
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

    return ef__pair_map_at(&s->blocked, event->tenant, event->stream, &is_new) ? EF_OK
                                                                               : no_memory(err);
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
    ef__retry_policy policy = {.kind = EF__RETRY_FIXED,
                               .base_ms = s->p->definition.retry_ms,
                               .attempts_max = s->p->definition.attempts_max};
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

static void end_pass(pass *s)
{
    ef__pair_map_release(&s->blocked);
    ef__arena_release(&s->arena);
    ef_taken_batch_release(&s->taken);
}

/* What the pass has come to, once its rows are written. */
static void finish(pass *s, ef_tick *tick)
{
    ef__publishing *p = s->p;

    count(p, s->published, s->failed, s->dead);
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

static void note_due(ef_tick *tick, int64_t due_us)
{
    if (due_us && (!tick->due_us || due_us < tick->due_us))
        tick->due_us = due_us;
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

static ef_status step_due(pass *s, ef_tick *tick, ef_error *err)
{
    bool whole = false;
    size_t limit = s->p->bus->ops->batch_max < DUE_MAX ? s->p->bus->ops->batch_max : DUE_MAX;
    ef_status st = ef_outbox_take_due(s->p->engine->journal, ef_str_from(s->p->name), s->held,
                                      s->held_count, limit, &s->taken, err);

    if (st == EF_OK)
        note_due(tick, s->taken.next_due_us);
    if (st == EF_OK)
        st = check_whole(s, tick, &whole, err);
    if (st != EF_OK || !whole)
        return st;
    st = deliver(s, err);
    if (st == EF_OK)
        st = settle_due(s, err);
    if (st == EF_OK)
        finish(s, tick);
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

static ef_status step_queued(pass *s, size_t usual, ef_tick *tick, ef_error *err)
{
    ef__publishing *p = s->p;
    bool whole = false;
    ef_status st;

    if (!p->batch || p->batch > p->bus->ops->batch_max)
        p->batch = usual < p->bus->ops->batch_max ? usual : p->bus->ops->batch_max;
    st = ef_outbox_take(p->engine->journal, ef_str_from(p->name), s->held, s->held_count, p->batch,
                        &s->taken, err);
    if (st == EF_OK)
        st = check_whole(s, tick, &whole, err);
    if (st != EF_OK || !whole)
        return st;
    st = deliver(s, err);
    if (st == EF_OK)
        st = settle_queued(s, err);
    if (st != EF_OK)
        return st;
    if (s->published < (int64_t)s->message_count)
        s->taken.more = true; /* what was not tried */
    adapt(s);
    finish(s, tick);
    return EF_OK;
}

/* --- the step --------------------------------------------------------------------------------- */

/* The token of a publisher that is ours; 0: it is not. */
static int64_t token_of(const ef__publishing *p)
{
    const ef__hold *first = p->crew.holds;

    return first && first->token && mono_us(p) < first->until_us ? first->token : 0;
}

/* What another worker noted before it let go is read under our lease. */
static ef_status take_over(ef__publishing *p, ef_error *err)
{
    int64_t token = token_of(p);
    ef_status st = EF_OK;

    if (token != p->token)
        ef__sink_forget_lost(p);
    if (token && token != p->token)
        st = get_ready(p, err);
    if (st == EF_OK && token && token != p->token && p->bus)
        (void)ef__sink_is_all_there(p, true);
    if (st == EF_OK)
        p->token = token;
    return st;
}

/* Nothing is purged that the sink may have lost since it was last looked at. In small commits, and
 * in a step no less than twice what a step publishes: so what is kept does not grow for ever. */
static ef_status purge(ef__publishing *p, ef_error *err)
{
    bool kept = p->definition.retain_ms > 0;
    ef_holding held = ef__sink_holding(p);
    int64_t purged = 0;
    ef_status st = EF_OK;

    if (mono_us(p) < p->next_purge_us || !token_of(p) || !ef__sink_is_all_there(p, true))
        return EF_OK;
    for (size_t done = 0; st == EF_OK && done <= 2 * p->batch; done += PURGE_ROWS) {
        st = ef_published_purge(p->engine->journal, ef_str_from(p->name), &held, PURGE_ROWS,
                                &purged, err);
        if (purged < PURGE_ROWS)
            break;
    }
    if (st == EF_OK)
        p->next_purge_us = purged == PURGE_ROWS ? 0 : kept ? mono_us(p) + PURGE_US : INT64_MAX;
    return st;
}

static bool is_ready(const ef__publishing *p)
{
    return p->bus && !p->bus->lost && ef__sink_is_at_hand(p);
}

/* Whether the sink still has what it had, before anything else. */
static ef_status look_after(ef__publishing *p, ef_error *err)
{
    ef_status st = take_over(p, err);

    if (st == EF_OK && is_ready(p) && token_of(p))
        (void)ef__sink_is_all_there(p, false);
    return st == EF_OK && is_ready(p) ? purge(p, err) : st;
}

static ef_status make_passes(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                             ef_error *err)
{
    ef_holding *held = malloc((size_t)p->crew.partitions * sizeof *held);
    size_t usual = options->batch ? options->batch : BATCH_USUAL;
    ef_status st = held ? EF_OK : no_memory(err);

    for (int due = 1; st == EF_OK && due >= 0; due--) {
        pass s = {.p = p,
                  .held = held,
                  .held_count = ef__crew_holdings(&p->crew, held),
                  .taken = EF_TAKEN_BATCH_INIT,
                  .arena = EF__ARENA_INIT(STEP_BYTES),
                  .blocked = EF__PAIR_MAP_INIT(uint64_t, BLOCKED_BYTES),
                  .why = EF_ERROR_INIT};
        if (s.held_count)
            st = due ? step_due(&s, tick, err) : step_queued(&s, usual, tick, err);
        end_pass(&s);
        if (s.down || p->bus->lost)
            break;
        if (st == EF_OK)
            st = ef__crew_keep(&p->crew, tick, err);
    }
    free(held);
    return st;
}

/* Leases outlast the longest delivery: what a call may take twice over. */
static ef_status keep_leases(ef__publishing *p, const ef_work_options *options, ef_error *err)
{
    ef_work_options own = *options;
    ef_tick ignored = {0}; /* ticks tell of the worker's own partitions */
    int64_t least_ms = 3 * p->definition.timeout_ms;

    own.lease_ms = own.lease_ms ? own.lease_ms : EF__ENGINE_LEASE_MS;
    if (own.lease_ms < least_ms)
        own.lease_ms = least_ms;
    own.heartbeat_ms = 0;
    return ef__crew_step(&p->crew, &own, &ignored, err);
}

static ef_status work(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                      ef_error *err)
{
    ef_tick own = {0};
    ef_status st = keep_leases(p, options, err);

    if (st == EF_OK)
        st = look_after(p, err);
    if (st == EF_OK && p->bus && p->bus->lost)
        st = ef__sink_hand_back(p, &own, err);
    if (st == EF_OK && is_ready(p))
        st = make_passes(p, options, &own, err);
    if (st == EF_OK && is_ready(p) && own.claimed == 0 && p->bus->ops->look)
        ef__sink_well(p);      /* nothing waits that would show it */
    if (st == EF_LEASE_LOST) { /* another worker has the partition now: not a failure */
        st = ef__crew_recheck(&p->crew, &own, err);
        st = st == EF_LEASE_LOST ? EF_OK : st;
        own.more = true;
    }
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more || (p->bus && p->bus->lost && ef__sink_is_at_hand(p));
    note_due(tick, own.due_us);
    return st;
}

ef_status ef__publish_step(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                           ef_error *err)
{
    ef_tick own = {0};
    ef_status st;

    pthread_mutex_lock(&p->stepping);
    pthread_mutex_lock(&p->engine->lock);
    p->step_us = mono_us(p);
    pthread_mutex_unlock(&p->engine->lock);
    st = get_ready(p, err);
    if (st == EF_OK && (p->gone || p->definition.paused)) {
        ef__sink_close(p);
        ef__crew_leave(&p->crew);
        p->crew.next_beat_us = 0;
        show(p, EF_PUBLISHER_PAUSED);
    } else if (st == EF_OK && p->bus && ef__sink_is_at_hand(p)) {
        st = work(p, options, &own, err);
        if (ef__sink_is_at_hand(p))
            show(p, own.more ? EF_PUBLISHER_WORKING : EF_PUBLISHER_IDLE);
    }
    if (!ef__sink_is_at_hand(p))
        note_due(&own, ef__engine_now(p->engine) + p->next_try_us - mono_us(p));
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more;
    note_due(tick, own.due_us);
    pthread_mutex_lock(&p->engine->lock);
    p->step_us = 0;
    pthread_mutex_unlock(&p->engine->lock);
    pthread_mutex_unlock(&p->stepping);
    return st;
}
