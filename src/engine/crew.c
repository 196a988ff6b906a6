/*
 * crew.c - see crew.h.
 *
 *     beat: how many partitions? who is live? ── targets ──► release, take, heartbeat: one commit
 *
 * Nothing here waits for a lease. What another worker holds is asked for again when it runs out, or
 * at the next beat, and a beat is never less than RETRY_MS after the one before it. While something
 * changes hands the next beat comes soon: what was given back should not lie idle, and who takes
 * partitions may not be the only one who has just come. Workers that are started together are at
 * work together after the second or third beat, so the first of these come quickest. Who gives
 * something back says so, and whoever waits with nothing to do asks for it then.
 *
 * A publisher is one worker's. Where the number of partitions has changed, events of a stream are
 * queued in two of them, and a sink has no watermark by which it would know that one is early.
 * Whoever has all of them takes rows in the order of positions, wherever they are.
 */
#include "crew.h"

#include "engine_priv.h"

#include "../base/logger.h"
#include "../core/placement.h"
#include "../journal/journal.h"

#include <everfold/lease.h>

#include <stdlib.h>
#include <unistd.h>

#define RETRY_MS 50        /* between two beats at the least: nobody spins */
#define WANT_FIRST_MS 100  /* something changes hands, or another has yet to give it back: … */
#define WANT_MS 500        /* … each beat twice as late as the one before, up to this */
#define IDLE_BEAT_MS 60000 /* an idle worker writes its heartbeat this often … */
#define IDLE_HEARTBEAT_MS (5 * IDLE_BEAT_MS / 2) /* … and is late when one did not come */
#define PURGE_MS 300000      /* stale workers are looked for this often, over all processes … */
#define PURGE_OLDER_MS 60000 /* … and go when their heartbeat has been over for this long */
#define SINGLE_WORKER "single worker"
#define PUBLISHER_PLACES 64 /* publishers are spread over these, and they over the workers */

static int64_t mono_us(const ef__crew *crew)
{
    return crew->engine->options.clock->mono_us(crew->engine->options.clock->context);
}

static int64_t cadence_us(const ef__crew *crew)
{
    return crew->renew_ms * 1000;
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while leasing partitions");
}

/* --- how many partitions ---------------------------------------------------------------------- */

/* `holds` only grows: what lies beyond a lowered count has yet to be given back. */
static ef_status follow_count(ef__crew *crew, ef_error *err)
{
    ef_journal *journal = crew->engine->journal;
    int32_t count = 0;
    ef_status st = ef__journal_partition_count(journal, &count, err);

    if (st != EF_OK)
        return st;
    if (count > crew->hold_count) {
        size_t more = (size_t)(count - crew->hold_count);
        ef__hold *holds = realloc(crew->holds, (size_t)count * sizeof *holds);
        if (!holds)
            return no_memory(err);
        memset(holds + crew->hold_count, 0, more * sizeof *holds);
        crew->holds = holds;
        crew->hold_count = count;
    }
    if (crew->partitions && crew->partitions != count)
        ef__log(crew->engine->options.log, EF_LOG_INFO, "the number of partitions has changed",
                EF_LOG_NUMBER_FIELD("partitions", count));
    crew->partitions = count;
    return EF_OK;
}

ef_status ef__crew_open(ef__crew *crew, ef_error *err)
{
    return follow_count(crew, err);
}

static bool is_publishers(const ef__crew *crew)
{
    return crew->lane.len > 0;
}

/* --- who else is there ------------------------------------------------------------------------ */

/* What a beat has found out. */
typedef struct beat {
    ef__partition_set targets;
    int64_t asked_us; /* monotonic, before the leases were asked for */
    int64_t soon_us;  /* something runs out so long after that: a lease or somebody's heartbeat */
    bool wants;       /* another worker has something that we should have */
    bool moved;       /* a partition has come to us, or gone */
} beat;

static void note_end(beat *b, int64_t in_us)
{
    if (in_us < b->soon_us)
        b->soon_us = in_us;
}

/* The store's clock, as of now: what it said when it wrote down our last beat, and what has passed
 * since. Our own may be wrong; it does for as long as we have not been heard. */
static int64_t store_now_us(const ef__crew *crew, const ef_worker_list *list)
{
    for (size_t i = 0; !is_publishers(crew) && i < list->count; i++)
        if (crew->renewed_us && ef_str_equal(list->items[i].id, ef_str_from(crew->engine->worker)))
            return list->items[i].updated_us + mono_us(crew) - crew->renewed_us;
    return ef__engine_now(crew->engine);
}

/* From its beat to the moment when it is late. */
static int64_t patience_us(const ef_worker *worker)
{
    return (worker->heartbeat_until_us - worker->updated_us) / 2;
}

/* Of a publisher's partitions: all, if its place is among those that this worker should have. */
static ef__partition_set all_or_none(const ef__crew *crew, const ef__partition_set *places)
{
    int32_t place = ef__partition_of(EF_STR(""), crew->lane, PUBLISHER_PLACES);

    return ef__partition_set_has(places, place) ? ef__placement_share(0, 1, crew->partitions)
                                                : (ef__partition_set){{0}};
}

/* One that is late is dead for us, however often its leases have changed hands since: so they pass
 * on when they run out, and do not come and go while its heartbeat is still shown. */
static ef_status share_partitions(ef__crew *crew, const ef_worker_list *list, beat *b,
                                  ef_error *err)
{
    ef_str self = ef_str_from(crew->engine->worker);
    int64_t now_us = store_now_us(crew, list), others = 0;
    ef_str *live = malloc((list->count + 1) * sizeof *live);

    if (!live)
        return no_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        const ef_worker *other = &list->items[i];
        if (ef_str_equal(other->id, self) || other->state != EF_WORKER_WORKING)
            continue;
        live[others++] = other->id;
        note_end(b, other->updated_us + patience_us(other) - now_us);
    }
    b->targets = ef__placement_targets(live, (size_t)others, self,
                                       is_publishers(crew) ? PUBLISHER_PLACES : crew->partitions);
    if (is_publishers(crew))
        b->targets = all_or_none(crew, &b->targets);
    crew->active_workers = others + 1;
    free(live);
    return EF_OK;
}

static ef_status find_targets(ef__crew *crew, beat *b, ef_error *err)
{
    ef_worker_list list = {0};
    ef_status st;

    if (crew->single) {
        crew->active_workers = 1;
        b->targets = ef__placement_share(0, 1, crew->partitions);
        return EF_OK;
    }
    st = ef_worker_ls(crew->engine->journal, &list, err);
    if (st == EF_OK)
        st = share_partitions(crew, &list, b, err);
    ef_worker_list_release(&list);
    return st;
}

/* --- leases ----------------------------------------------------------------------------------- */

static ef_lease_call call_of(const ef__crew *crew, ef_lease_verb verb, int32_t partition)
{

    return (ef_lease_call){
        .verb = verb,
        .key = {.kind = is_publishers(crew) ? EF_LEASE_PUBLISHER : EF_LEASE_PARTITION,
                .name = crew->lane,
                .partition = partition},
        .owner = crew->single ? EF_STR(SINGLE_WORKER) : ef_str_from(crew->engine->worker),
        .lease_ms = crew->lease_ms,
        .token = crew->holds[partition].token};
}

typedef enum heartbeat { HEARTBEAT_NONE, HEARTBEAT_WORKING, HEARTBEAT_IDLE } heartbeat;

/* Make the calls, with our heartbeat unless we are single. */
static ef_status make_calls(ef__crew *crew, ef_lease_call *calls, size_t count, heartbeat beats,
                            ef_error *err)
{
    char host[65] = "";
    bool idle = beats == HEARTBEAT_IDLE;
    ef_worker self = {.id = ef_str_from(crew->engine->worker),
                      .pid = (int64_t)getpid(),
                      .state = idle ? EF_WORKER_IDLE : EF_WORKER_WORKING};
    bool heard = beats != HEARTBEAT_NONE && !crew->single && !is_publishers(crew);
    ef_throughput minutes[EF__MINUTES_KEPT + 1];
    ef__beat beat_of = {.worker = heard ? &self : NULL, .minutes = minutes};
    ef_status st;

    (void)gethostname(host, sizeof host - 1);
    self.host = ef_str_from(host);
    beat_of.heartbeat_ms =
        idle && crew->heartbeat_ms < IDLE_HEARTBEAT_MS ? IDLE_HEARTBEAT_MS : crew->heartbeat_ms;
    if (!is_publishers(crew) && !crew->engine->ghost)
        beat_of.minute_count = ef__minutes_take(crew->engine, beats != HEARTBEAT_WORKING, minutes);
    st = ef__lease_many(crew->engine->journal, calls, count, &beat_of, err);
    if (st != EF_OK)
        ef__minutes_give_back(crew->engine, minutes, beat_of.minute_count);
    crew->joined = crew->joined || (heard && st == EF_OK);
    return st;
}

static void note_lost(const ef__crew *crew, int32_t partition, ef_tick *tick)
{
    tick->lost_count++;
    ef__count_transfer(crew->engine, EF__TRANSFER_LOST);
    ef__log(crew->engine->options.log, EF_LOG_WARN, "the lease of a partition was lost",
            EF_LOG_NUMBER_FIELD("partition", partition));
}

/* Believe an answer. */
static void learn(ef__crew *crew, const ef_lease_call *call, beat *b, ef_tick *tick)
{
    ef__hold *hold = &crew->holds[call->key.partition];
    int64_t had = hold->token;
    bool got = call->status == EF_OK && call->verb != EF_LEASE_RELEASE;

    hold->token = got ? call->token : 0;
    hold->until_us = b->asked_us + call->lease_ms * 1000;
    if (call->status == EF_LEASE_HELD) {
        note_end(b, call->left_ms * 1000);
        b->wants = true;
    }
    b->moved = b->moved || hold->token != had;
    if (call->verb == EF_LEASE_RELEASE && call->status == EF_OK) {
        tick->released_count++;
        ef__count_transfer(crew->engine, EF__TRANSFER_RELEASED);
    } else if (had && hold->token != had) {
        note_lost(crew, call->key.partition, tick);
    }
    if (got && hold->token != had) {
        tick->leased_count++;
        ef__count_transfer(crew->engine, EF__TRANSFER_TAKEN);
    }
}

/* One line a call, however many partitions: an operator wants to see that they move, and a beat
 * that moves nothing is only for who looks closely. Of a worker the publisher is "". */
static void tell_moves(const ef__crew *crew, const ef_tick *before, const ef_tick *now)
{
    int64_t taken = now->leased_count - before->leased_count;
    int64_t released = now->released_count - before->released_count;

    ef__log(crew->engine->options.log, taken || released ? EF_LOG_INFO : EF_LOG_DEBUG,
            taken      ? "leases are taken"
            : released ? "leases are given back"
                       : "leases are renewed",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(crew->engine->worker)),
            EF_LOG_TEXT_FIELD("publisher", crew->lane), EF_LOG_NUMBER_FIELD("taken", taken),
            EF_LOG_NUMBER_FIELD("released", released));
}

/* What is no longer wanted goes first: whoever wants it may be waiting. */
static size_t plan_calls(const ef__crew *crew, const ef__partition_set *targets,
                         ef_lease_call *calls)
{
    size_t count = 0;

    for (int32_t p = 0; p < crew->hold_count; p++)
        if (crew->holds[p].token && !ef__partition_set_has(targets, p))
            calls[count++] = call_of(crew, EF_LEASE_RELEASE, p);
    for (int32_t p = 0; (p = ef__partition_set_next(targets, p)) >= 0; p++)
        calls[count++] = call_of(crew, EF_LEASE_TAKE, p);
    return count;
}

static ef_status lease_targets(ef__crew *crew, beat *b, ef_tick *tick, ef_error *err)
{
    ef_lease_call *calls = malloc((size_t)crew->hold_count * sizeof *calls);
    ef_error words = EF_ERROR_INIT; /* of a refusal: it is no failure */
    ef_tick before = *tick;
    size_t count;
    ef_status st;

    if (!calls)
        return no_memory(err);
    count = plan_calls(crew, &b->targets, calls);
    b->asked_us = mono_us(crew);
    st = make_calls(crew, calls, count, HEARTBEAT_WORKING, &words);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        learn(crew, &calls[i], b, tick);
    if (st == EF_OK && count)
        tell_moves(crew, &before, tick);
    if (st != EF_OK && err)
        *err = words;
    free(calls);
    return st;
}

/* One call for everything that is held; what it was answered is learnt. */
static ef_status call_held(ef__crew *crew, ef_lease_verb verb, heartbeat beats, ef_tick *tick,
                           ef_error *err)
{
    ef_lease_call *calls = malloc((size_t)crew->hold_count * sizeof *calls);
    beat b = {.soon_us = INT64_MAX, .asked_us = mono_us(crew)};
    ef_error words = EF_ERROR_INIT;
    ef_tick before = *tick;
    size_t count = 0;
    ef_status st;

    if (!calls)
        return no_memory(err);
    for (int32_t p = 0; p < crew->hold_count; p++)
        if (crew->holds[p].token)
            calls[count++] = call_of(crew, verb, p);
    st = make_calls(crew, calls, count, beats, &words);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        learn(crew, &calls[i], &b, tick);
    if (st == EF_OK && count)
        tell_moves(crew, &before, tick);
    if (st == EF_OK && verb == EF_LEASE_RENEW)
        crew->renewed_us = b.asked_us;
    if (st != EF_OK && err)
        *err = words;
    free(calls);
    return st;
}

/* --- the beat --------------------------------------------------------------------------------- */

/* Housekeeping for all: what fails is tried again at a later beat. */
static void purge(ef__crew *crew, int64_t now_us, ef_tick *tick)
{
    int64_t purged = 0;

    if (crew->single || is_publishers(crew) || now_us < crew->next_purge_us)
        return;
    if (ef_worker_purge(crew->engine->journal, PURGE_OLDER_MS, PURGE_MS, &purged, NULL) != EF_OK)
        return;
    tick->purged_stale += purged;
    crew->next_purge_us = now_us + PURGE_MS * INT64_C(1000);
}

/* Who has what we should have gives it back at its next beat, or dies and lets it run out. After
 * that it is one that does not share, and is asked no more often than usual. */
static bool comes_soon(ef__crew *crew, const beat *b)
{
    if (!b->wants || crew->single) /* with a single worker nobody shares */
        crew->wanting_us = 0;
    else if (!crew->wanting_us)
        crew->wanting_us = b->asked_us;
    return crew->wanting_us && b->asked_us - crew->wanting_us < 2 * crew->lease_ms * 1000;
}

static void schedule(ef__crew *crew, beat *b)
{
    int64_t in_us, usual_us = cadence_us(crew);

    if (comes_soon(crew, b) || (b->moved && !crew->single)) {
        int64_t twice_ms = 2 * crew->soon_ms;
        crew->soon_ms = twice_ms < WANT_FIRST_MS ? WANT_FIRST_MS : twice_ms;
        crew->soon_ms = crew->soon_ms > WANT_MS ? WANT_MS : crew->soon_ms;
        note_end(b, crew->soon_ms * 1000);
    } else {
        crew->soon_ms = 0;
    }
    in_us = b->soon_us < RETRY_MS * 1000 ? RETRY_MS * 1000 : b->soon_us;
    crew->beaten_us = crew->renewed_us = b->asked_us;
    crew->next_beat_us = b->asked_us + (in_us < usual_us ? in_us : usual_us);
}

/* One that has nothing, and should have what another will give back, is woken by the word that it
 * was; or by something else, and asks once too often. All who live give back within a cadence:
 * after that there is nothing to wait for but the end of a lease. */
static void hurry(ef__crew *crew)
{
    int64_t soonest_us = crew->beaten_us + RETRY_MS * INT64_C(1000);

    for (int32_t p = 0; p < crew->hold_count; p++)
        if (crew->holds[p].token)
            return;
    if (!is_publishers(crew) && crew->wanting_us && crew->next_beat_us > soonest_us &&
        crew->beaten_us - crew->wanting_us <= cadence_us(crew))
        crew->next_beat_us = soonest_us;
}

static int64_t count_targets(const ef__partition_set *targets)
{
    int64_t count = 0;

    for (int32_t p = 0; (p = ef__partition_set_next(targets, p)) >= 0; p++)
        count++;
    return count;
}

static ef_status do_beat(ef__crew *crew, ef_tick *tick, ef_error *err)
{
    beat b = {.soon_us = INT64_MAX};
    ef_status st = follow_count(crew, err);

    if (st == EF_OK)
        st = find_targets(crew, &b, err);
    if (st == EF_OK)
        st = lease_targets(crew, &b, tick, err);
    if (st != EF_OK)
        return st;
    tick->renewed_heartbeat = !crew->single;
    crew->next_idle_us = 0;
    crew->desired_count = count_targets(&b.targets);
    schedule(crew, &b);
    if (tick->released_count && !is_publishers(crew))
        ef__journal_nudge(crew->engine->journal);
    purge(crew, b.asked_us, tick);
    return EF_OK;
}

/* How to lease may be another in every tick. Under another name we start anew. */
static void take_options(ef__crew *crew, const ef_work_options *options)
{
    ef__lease_times times = ef__lease_times_of(options);

    if (crew->lease_ms && crew->single != options->no_leasing) {
        ef__crew_leave(crew);
        crew->next_beat_us = 0;
    }
    crew->single = options->no_leasing;
    crew->lease_ms = times.lease_ms;
    crew->renew_ms = times.renew_ms;
    crew->heartbeat_ms = times.heartbeat_ms;
}

ef_status ef__crew_step(ef__crew *crew, const ef_work_options *options, ef_tick *tick,
                        ef_error *err)
{
    int64_t now_us = mono_us(crew);
    ef_status st = EF_OK;

    take_options(crew, options);
    hurry(crew);
    if (now_us >= crew->next_beat_us)
        st = do_beat(crew, tick, err);
    now_us = mono_us(crew);
    for (int32_t p = 0; p < crew->partitions; p++)
        tick->owned_count += crew->holds[p].token && now_us < crew->holds[p].until_us;
    tick->active_workers = crew->active_workers;
    tick->desired_count = crew->desired_count;
    return st;
}

size_t ef__crew_holdings(const ef__crew *crew, ef_holding *out)
{
    int64_t now_us = mono_us(crew);
    size_t count = 0;

    for (int32_t p = 0; p < crew->partitions; p++)
        if (crew->holds[p].token && now_us < crew->holds[p].until_us)
            out[count++] = (ef_holding){.partition = p, .token = crew->holds[p].token};
    return is_publishers(crew) && count < (size_t)crew->partitions ? 0 : count;
}

bool ef__crew_is_first(const ef__crew *crew)
{
    const ef__hold *first = crew->holds;

    return crew->active_workers == 1 || (first->token && mono_us(crew) < first->until_us);
}

ef_status ef__crew_is_whole(ef__crew *crew, bool *out, ef_error *err)
{
    ef_journal *journal = crew->engine->journal;
    int32_t count = 0;
    ef_status st = ef__journal_partition_count(journal, &count, err);

    if (st != EF_OK)
        return st;
    *out = count == crew->partitions;
    if (!*out)
        crew->next_beat_us = 0;
    return EF_OK;
}

/* --- between beats ---------------------------------------------------------------------------- */

ef_status ef__crew_keep(ef__crew *crew, ef_tick *tick, ef_error *err)
{
    if (mono_us(crew) < crew->renewed_us + cadence_us(crew))
        return EF_OK;
    return call_held(crew, EF_LEASE_RENEW, HEARTBEAT_WORKING, tick, err);
}

ef_status ef__crew_recheck(ef__crew *crew, ef_tick *tick, ef_error *err)
{
    int64_t lost = tick->lost_count;
    ef_status st = call_held(crew, EF_LEASE_RENEW, HEARTBEAT_WORKING, tick, err);

    /* All are ours by the journal: then the view store has seen a higher token than it gave us. One
     * of them was restored from a copy, or lost its last moments. With every release the token
     * grows, until it is higher than any that was seen. */
    if (st == EF_OK && tick->lost_count == lost)
        st = call_held(crew, EF_LEASE_RELEASE, HEARTBEAT_NONE, tick, err);
    /* A single one has nobody to wait for. */
    crew->next_beat_us = crew->single ? 0 : crew->beaten_us + RETRY_MS * INT64_C(1000);
    return st;
}

/* Nobody else may be there to remove a worker that was killed. Reading costs no write. */
static void purge_stale(ef__crew *crew, ef_tick *tick)
{
    ef_worker_list list = {0};
    bool stale = false;

    if (ef_worker_ls(crew->engine->journal, &list, NULL) == EF_OK)
        for (size_t i = 0; i < list.count; i++)
            stale = stale || list.items[i].state == EF_WORKER_STALE;
    ef_worker_list_release(&list);
    if (stale)
        purge(crew, mono_us(crew), tick);
}

ef_status ef__crew_idle(ef__crew *crew, ef_tick *tick, ef_error *err)
{
    int64_t now_us = mono_us(crew);
    ef_status st;

    if (crew->next_idle_us && now_us < crew->next_idle_us)
        return EF_OK;
    st = call_held(crew, EF_LEASE_RELEASE, HEARTBEAT_IDLE, tick, err);
    if (st != EF_OK)
        return st;
    crew->next_beat_us = 0;
    crew->next_idle_us = now_us + IDLE_BEAT_MS * INT64_C(1000);
    tick->renewed_heartbeat = tick->renewed_heartbeat || !crew->single;
    purge_stale(crew, tick);
    return EF_OK;
}

void ef__crew_leave(ef__crew *crew)
{
    ef_tick ignored = {0};

    if (!crew->holds)
        return;
    /* What cannot be given back runs out. */
    (void)call_held(crew, EF_LEASE_RELEASE, HEARTBEAT_NONE, &ignored, NULL);
    if (crew->joined)
        (void)ef_worker_leave(crew->engine->journal, ef_str_from(crew->engine->worker), NULL);
    for (int32_t p = 0; p < crew->hold_count; p++)
        crew->holds[p].token = 0;
    crew->joined = false;
}

void ef__crew_release(ef__crew *crew)
{
    free(crew->holds);
    *crew = (ef__crew){0};
}
