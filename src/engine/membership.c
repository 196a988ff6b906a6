/*
 * membership.c - see membership.h.
 *
 *     beat: partition count, live workers ── targets ──► release, acquire, heartbeat: one commit
 *
 * Nothing here waits for a lease. A partition that another worker holds is requested again when its
 * lease ends, or at the next beat; beats are at least RETRY_MS apart. While partitions change
 * holders the next beat comes early, because a released partition should not stay idle and more
 * workers may be starting: workers that start together share the partitions after two or three
 * beats. A worker that releases partitions wakes the others, and a worker without partitions then
 * requests them at once.
 *
 * The number of partitions of a publisher never changes, because a sink has no watermark that would
 * reveal an early event. Workers share them like those of the apply lanes if the sink permits it
 * (`divided`). Otherwise one worker holds all of them and claims rows in position order across
 * them.
 */
#include "membership.h"

#include "engine_priv.h"

#include "../base/hash.h"
#include "../base/logger.h"
#include "../core/placement.h"
#include "../journal/journal.h"

#include <everfold/worker.h>

#include <stdlib.h>
#include <unistd.h>

#define RETRY_MS 50        /* minimum between two beats */
#define WANT_FIRST_MS 100  /* next beat while partitions change holders … */
#define WANT_MS 500        /* … doubling up to this */
#define IDLE_BEAT_MS 60000 /* an idle worker writes its heartbeat this often … */
#define IDLE_HEARTBEAT_MS (5 * IDLE_BEAT_MS / 2) /* … and is late when it missed one */
#define PURGE_MS 300000      /* interval of purging stale workers, over all processes */
#define PURGE_OLDER_MS 60000 /* a worker is purged this long after its heartbeat ended */
#define SINGLE_WORKER "single worker"
#define PUBLISHER_PLACES 64 /* publishers are hashed to these, which are shared by the workers */

static int64_t mono_us(const ef__membership *membership)
{
    return ef__engine_mono_us(membership->engine);
}

static int64_t cadence_us(const ef__membership *membership)
{
    return membership->renew_ms * 1000;
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while leasing partitions");
}

static bool is_publishers(const ef__membership *membership)
{
    return membership->lane.len > 0;
}

/* One worker holds all partitions, or none. */
static bool is_whole(const ef__membership *membership)
{
    return is_publishers(membership) && !membership->divided;
}

/* --- partition count -------------------------------------------------------------------------- */

/* `holds` only grows: partitions above a lowered count are still to be released. */
ef_status ef__membership_open(ef__membership *membership, ef_error *err)
{
    ef_journal *journal = membership->engine->journal;
    int32_t count = EF_LIMIT_PUBLISHER_PARTITIONS;
    ef_status st =
        is_publishers(membership) ? EF_OK : ef__journal_partition_count(journal, &count, err);

    if (st != EF_OK)
        return st;
    if (count > membership->hold_count) {
        size_t more = (size_t)(count - membership->hold_count);
        ef__partition_hold *holds = realloc(membership->holds, (size_t)count * sizeof *holds);
        ef_partition_lease *leases = realloc(membership->leases, (size_t)count * sizeof *leases);
        membership->holds = holds ? holds : membership->holds;
        membership->leases = leases ? leases : membership->leases;
        if (!holds || !leases)
            return no_memory(err);
        memset(holds + membership->hold_count, 0, more * sizeof *holds);
        membership->hold_count = count;
    }
    if (membership->partitions && membership->partitions != count)
        ef__log(membership->engine->options.log, EF_LOG_INFO, "partition count changed",
                EF_LOG_NUMBER_FIELD("partitions", count));
    membership->partitions = count;
    return EF_OK;
}

static bool is_held(const ef__partition_hold *hold, int64_t now_us)
{
    return hold->token && now_us < hold->until_us;
}

/* --- live workers ----------------------------------------------------------------------------- */

/* The result of a beat. */
typedef struct heartbeat_step {
    ef__partition_set targets;
    int64_t target_count;
    int64_t asked_us; /* monotonic, before the lease calls */
    int64_t soon_us;  /* from then until the first lease or heartbeat of another worker ends */
    bool wants;       /* another worker holds one of our targets */
    bool moved;       /* a partition was acquired, released or lost */
} heartbeat_step;

static void set_earliest_end(heartbeat_step *beat, int64_t in_us)
{
    if (in_us < beat->soon_us)
        beat->soon_us = in_us;
}

/* The store's clock now: the time that it wrote with our last beat, plus what has passed since. Our
 * own clock may be wrong; it is used until the first beat. */
static int64_t store_now_us(const ef__membership *membership, const ef_worker_list *list)
{
    for (size_t i = 0; !is_publishers(membership) && i < list->count; i++)
        if (membership->renewed_us &&
            ef_str_equal(list->items[i].id, ef_str_from(membership->engine->worker)))
            return list->items[i].updated_us + mono_us(membership) - membership->renewed_us;
    return ef__engine_now(membership->engine);
}

/* From a worker's beat to the moment when it counts as late. */
static int64_t patience_us(const ef_worker *worker)
{
    return (worker->heartbeat_until_us - worker->updated_us) / 2;
}

/* All partitions of a publisher, if its place is among those of this worker; else none. */
static ef__partition_set all_or_none(const ef__membership *membership,
                                     const ef__partition_set *places)
{
    int32_t place = ef__partition_of(EF_STR(""), membership->lane, PUBLISHER_PLACES);

    return ef__partition_set_has(places, place) ? ef__placement_share(0, 1, membership->partitions)
                                                : (ef__partition_set){{0}};
}

/* A late worker counts as dead. So its leases are taken over when they end, and targets do not
 * change again when its heartbeat ends later. */
static ef_status share_partitions(ef__membership *membership, const ef_worker_list *list,
                                  heartbeat_step *beat, ef_error *err)
{
    ef_str self = ef_str_from(membership->engine->worker);
    int64_t now_us = store_now_us(membership, list), others = 0;
    ef_str *live = malloc((list->count + 1) * sizeof *live);
    uint64_t sum = 0;

    if (!live)
        return no_memory(err);
    for (size_t i = 0; i < list->count; i++) {
        const ef_worker *other = &list->items[i];
        if (ef_str_equal(other->id, self) || other->state != EF_WORKER_WORKING)
            continue;
        live[others++] = other->id;
        sum ^= ef__xxh3(other->id, 0);
        set_earliest_end(beat, other->updated_us + patience_us(other) - now_us);
    }
    beat->targets =
        ef__placement_targets(live, (size_t)others, self,
                              is_whole(membership) ? PUBLISHER_PLACES : membership->partitions);
    if (is_whole(membership))
        beat->targets = all_or_none(membership, &beat->targets);
    membership->active_workers = others + 1;
    membership->live_sum = is_publishers(membership) ? membership->live_sum : sum;
    free(live);
    return EF_OK;
}

static ef_status find_targets(ef__membership *membership, heartbeat_step *beat, ef_error *err)
{
    EF__AUTO(ef_worker_list) list = {0};
    ef_status st;

    if (membership->single) {
        membership->active_workers = 1;
        beat->targets = ef__placement_share(0, 1, membership->partitions);
        return EF_OK;
    }
    st = ef_worker_ls(membership->engine->journal, &list, err);
    return st == EF_OK ? share_partitions(membership, &list, beat, err) : st;
}

/* --- leases ----------------------------------------------------------------------------------- */

static ef_lease_call call_of(const ef__membership *membership, ef_lease_verb verb,
                             int32_t partition)
{
    return (ef_lease_call){
        .verb = verb,
        .key = {.kind = is_publishers(membership) ? EF_LEASE_PUBLISHER : EF_LEASE_PARTITION,
                .name = membership->lane,
                .partition = partition},
        .holder =
            membership->single ? EF_STR(SINGLE_WORKER) : ef_str_from(membership->engine->worker),
        .lease_ms = membership->lease_ms,
        .token = membership->holds[partition].token};
}

typedef enum heartbeat { HEARTBEAT_NONE, HEARTBEAT_WORKING, HEARTBEAT_IDLE } heartbeat;

/* Makes the lease calls in one transaction, with our heartbeat unless this is a single worker. */
static ef_status make_calls(ef__membership *membership, ef_lease_call *calls, size_t count,
                            heartbeat beats, ef_error *err)
{
    char host[65] = "";
    bool idle = beats == HEARTBEAT_IDLE;
    ef_worker self = {.id = ef_str_from(membership->engine->worker),
                      .pid = (int64_t)getpid(),
                      .state = idle ? EF_WORKER_IDLE : EF_WORKER_WORKING};
    bool heard = beats != HEARTBEAT_NONE && !membership->single && !is_publishers(membership);
    ef_throughput minutes[EF__MINUTES_KEPT + 1];
    ef__heartbeat beat_of = {.worker = heard ? &self : NULL, .minutes = minutes};
    ef_status st;

    (void)gethostname(host, sizeof host - 1);
    self.host = ef_str_from(host);
    beat_of.heartbeat_ms = idle && membership->heartbeat_ms < IDLE_HEARTBEAT_MS
                               ? IDLE_HEARTBEAT_MS
                               : membership->heartbeat_ms;
    if (!is_publishers(membership))
        beat_of.minute_count =
            ef__minutes_drain(membership->engine, beats != HEARTBEAT_WORKING, minutes);
    st = ef__lease_many(membership->engine->journal, calls, count, &beat_of, err);
    if (st != EF_OK)
        ef__minutes_restore(membership->engine, minutes, beat_of.minute_count);
    membership->joined = membership->joined || (heard && st == EF_OK);
    return st;
}

static void report_lost(const ef__membership *membership, int32_t partition, ef_tick *tick)
{
    tick->lost_count++;
    ef__count_transfer(membership->engine, EF__LEASE_LOST);
    ef__log(membership->engine->options.log, EF_LOG_WARN, "partition lease lost",
            EF_LOG_NUMBER_FIELD("partition", partition));
}

/* Records the result of a lease call. */
static void record_result(ef__membership *membership, const ef_lease_call *call,
                          heartbeat_step *beat, ef_tick *tick)
{
    ef__partition_hold *hold = &membership->holds[call->key.partition];
    int64_t had = hold->token;
    bool got = call->status == EF_OK && call->verb != EF_LEASE_RELEASE;

    hold->token = got ? call->token : 0;
    hold->until_us = beat->asked_us + call->lease_ms * 1000;
    if (call->status == EF_LEASE_HELD) {
        set_earliest_end(beat, call->left_ms * 1000);
        beat->wants = true;
    }
    beat->moved = beat->moved || hold->token != had;
    if (call->verb == EF_LEASE_RELEASE && call->status == EF_OK) {
        tick->released_count++;
        ef__count_transfer(membership->engine, EF__LEASE_RELEASED);
    } else if (had && hold->token != had) {
        report_lost(membership, call->key.partition, tick);
    }
    if (got && hold->token != had) {
        tick->leased_count++;
        ef__count_transfer(membership->engine, EF__LEASE_ACQUIRED);
    }
}

/* One log line per beat, at level info if partitions moved. `publisher` is "" for a worker. */
static void log_moves(const ef__membership *membership, const ef_tick *before, const ef_tick *now)
{
    int64_t acquired = now->leased_count - before->leased_count;
    int64_t released = now->released_count - before->released_count;

    ef__log(membership->engine->options.log, acquired || released ? EF_LOG_INFO : EF_LOG_DEBUG,
            acquired   ? "leases acquired"
            : released ? "leases released"
                       : "leases renewed",
            EF_LOG_TEXT_FIELD("worker", ef_str_from(membership->engine->worker)),
            EF_LOG_TEXT_FIELD("publisher", membership->lane),
            EF_LOG_NUMBER_FIELD("acquired", acquired), EF_LOG_NUMBER_FIELD("released", released));
}

/* `verb` for the partitions that are held and are no target, then a request for each target. So
 * releases come first: another worker may be waiting for the partition. */
static size_t plan_calls(const ef__membership *membership, ef_lease_verb verb, heartbeat_step *beat,
                         ef_lease_call *calls)
{
    size_t count = 0;

    for (int32_t p = 0; p < membership->hold_count; p++)
        if (membership->holds[p].token && !ef__partition_set_has(&beat->targets, p))
            calls[count++] = call_of(membership, verb, p);
    for (int32_t p = 0; (p = ef__partition_set_next(&beat->targets, p)) >= 0; p++) {
        calls[count++] = call_of(membership, EF_LEASE_RENEW_OR_ACQUIRE, p);
        beat->target_count++;
    }
    return count;
}

/* Makes the planned calls, and records their results. */
static ef_status call_leases(ef__membership *membership, ef_lease_verb verb, heartbeat beats,
                             heartbeat_step *beat, ef_tick *tick, ef_error *err)
{
    ef_lease_call *calls = malloc((size_t)membership->hold_count * sizeof *calls);
    ef_error words = EF_ERROR_INIT; /* a refused lease is not a failure: its text is dropped */
    ef_tick before = *tick;
    size_t count;
    ef_status st;

    if (!calls)
        return no_memory(err);
    count = plan_calls(membership, verb, beat, calls);
    beat->asked_us = mono_us(membership);
    st = make_calls(membership, calls, count, beats, &words);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        record_result(membership, &calls[i], beat, tick);
    if (st == EF_OK && count)
        log_moves(membership, &before, tick);
    if (st != EF_OK && err)
        *err = words;
    free(calls);
    return st;
}

/* The same call for every partition that is held. */
static ef_status call_for_held(ef__membership *membership, ef_lease_verb verb, heartbeat beats,
                               ef_tick *tick, ef_error *err)
{
    heartbeat_step beat = {.soon_us = INT64_MAX};
    ef_status st = call_leases(membership, verb, beats, &beat, tick, err);

    if (st == EF_OK && verb == EF_LEASE_RENEW)
        membership->renewed_us = beat.asked_us;
    return st;
}

/* --- the beat --------------------------------------------------------------------------------- */

/* For all workers; a failure is retried at a later beat. */
static void purge_workers(ef__membership *membership, int64_t now_us, ef_tick *tick)
{
    int64_t purged = 0;

    if (membership->single || is_publishers(membership) || now_us < membership->next_purge_us)
        return;
    if (ef__worker_purge(membership->engine->journal, PURGE_OLDER_MS, PURGE_MS, &purged, NULL) !=
        EF_OK)
        return;
    tick->purged_stale += purged;
    membership->next_purge_us = now_us + PURGE_MS * INT64_C(1000);
}

/* A worker that holds one of our targets releases it at its next beat, or dies and its lease ends.
 * If it does neither, it does not share, and is asked at the usual interval only. */
static bool comes_soon(ef__membership *membership, const heartbeat_step *beat)
{
    if (!beat->wants || membership->single) /* a single worker does not share */
        membership->wanting_us = 0;
    else if (!membership->wanting_us)
        membership->wanting_us = beat->asked_us;
    return membership->wanting_us &&
           beat->asked_us - membership->wanting_us < 2 * membership->lease_ms * 1000;
}

static void schedule_beat(ef__membership *membership, heartbeat_step *beat)
{
    int64_t in_us, usual_us = cadence_us(membership);

    if (comes_soon(membership, beat) || (beat->moved && !membership->single)) {
        int64_t twice_ms = 2 * membership->soon_ms;
        membership->soon_ms = twice_ms < WANT_FIRST_MS ? WANT_FIRST_MS : twice_ms;
        membership->soon_ms = membership->soon_ms > WANT_MS ? WANT_MS : membership->soon_ms;
        set_earliest_end(beat, membership->soon_ms * 1000);
    } else {
        membership->soon_ms = 0;
    }
    in_us = beat->soon_us < RETRY_MS * 1000 ? RETRY_MS * 1000 : beat->soon_us;
    membership->beaten_us = membership->renewed_us = beat->asked_us;
    membership->next_beat_us = beat->asked_us + (in_us < usual_us ? in_us : usual_us);
}

/* A release wakes a worker that waits for a partition; any other wake-up costs it one useless
 * request. All live workers release within one interval; after that, only the end of a lease
 * releases a partition. */
static void advance_beat(ef__membership *membership)
{
    int64_t soonest_us = membership->beaten_us + RETRY_MS * INT64_C(1000);

    for (int32_t p = 0; p < membership->hold_count; p++)
        if (membership->holds[p].token)
            return;
    if (!is_publishers(membership) && membership->wanting_us &&
        membership->next_beat_us > soonest_us &&
        membership->beaten_us - membership->wanting_us <= cadence_us(membership))
        membership->next_beat_us = soonest_us;
}

static ef_status do_beat(ef__membership *membership, ef_tick *tick, ef_error *err)
{
    heartbeat_step beat = {.soon_us = INT64_MAX};
    ef_status st = ef__membership_open(membership, err);

    if (st == EF_OK)
        st = find_targets(membership, &beat, err);
    if (st == EF_OK)
        st = call_leases(membership, EF_LEASE_RELEASE, HEARTBEAT_WORKING, &beat, tick, err);
    if (st != EF_OK)
        return st;
    tick->renewed_heartbeat = !membership->single;
    membership->next_idle_us = 0;
    membership->desired_count = beat.target_count;
    schedule_beat(membership, &beat);
    if (tick->released_count && !is_publishers(membership))
        ef__journal_wake(membership->engine->journal);
    purge_workers(membership, beat.asked_us, tick);
    return EF_OK;
}

/* The beats of a publisher are far apart if its sink has a long timeout. The queue of this worker
 * notices sooner that workers came or went. */
static void follow_queue(ef__membership *membership)
{
    uint64_t sum = membership->engine->queue.membership.live_sum;

    if (!is_publishers(membership) || membership->live_sum == sum)
        return;
    membership->live_sum = sum;
    membership->next_beat_us = 0;
}

/* The options may change with a tick. With another owner name, all leases are released first. */
static void set_options(ef__membership *membership, const ef_work_options *options)
{
    ef__lease_times times = ef__lease_times_of(options);

    if (membership->lease_ms && membership->single != options->no_leasing) {
        ef__membership_leave(membership);
        membership->next_beat_us = 0;
    }
    membership->single = options->no_leasing;
    membership->lease_ms = times.lease_ms;
    membership->renew_ms = times.renew_ms;
    membership->heartbeat_ms = times.heartbeat_ms;
}

ef_status ef__membership_step(ef__membership *membership, const ef_work_options *options,
                              ef_tick *tick, ef_error *err)
{
    int64_t now_us = mono_us(membership);
    ef_status st = EF_OK;

    set_options(membership, options);
    advance_beat(membership);
    follow_queue(membership);
    if (now_us >= membership->next_beat_us)
        st = do_beat(membership, tick, err);
    now_us = mono_us(membership);
    for (int32_t p = 0; p < membership->partitions; p++)
        tick->owned_count += is_held(&membership->holds[p], now_us);
    tick->active_workers = membership->active_workers;
    tick->desired_count = membership->desired_count;
    return st;
}

ef_partition_lease *ef__membership_leases(ef__membership *membership, size_t *out_count)
{
    int64_t now_us = mono_us(membership);
    size_t count = 0;

    for (int32_t p = 0; p < membership->partitions; p++)
        if (is_held(&membership->holds[p], now_us))
            membership->leases[count++] =
                (ef_partition_lease){.partition = p, .token = membership->holds[p].token};
    *out_count = is_whole(membership) && count < (size_t)membership->partitions ? 0 : count;
    return membership->leases;
}

int64_t ef__membership_token(const ef__membership *membership)
{
    const ef__partition_hold *first = membership->holds;

    return first && is_held(first, mono_us(membership)) ? first->token : 0;
}

bool ef__membership_is_first(const ef__membership *membership)
{
    return membership->active_workers == 1 || ef__membership_token(membership);
}

bool ef__membership_holds(const ef__membership *membership, const ef_partition_lease *leases,
                          size_t count)
{
    int64_t now_us = mono_us(membership);

    for (size_t i = 0; i < count; i++) {
        const ef__partition_hold *hold = &membership->holds[leases[i].partition];
        if (hold->token != leases[i].token || !is_held(hold, now_us))
            return false;
    }
    return true;
}

/* --- between beats ---------------------------------------------------------------------------- */

ef_status ef__membership_renew(ef__membership *membership, ef_tick *tick, ef_error *err)
{
    if (mono_us(membership) < membership->renewed_us + cadence_us(membership))
        return EF_OK;
    return call_for_held(membership, EF_LEASE_RENEW, HEARTBEAT_WORKING, tick, err);
}

ef_status ef__membership_recheck(ef__membership *membership, ef_tick *tick, ef_error *err)
{
    int64_t lost = tick->lost_count;
    ef_status st = call_for_held(membership, EF_LEASE_RENEW, HEARTBEAT_WORKING, tick, err);

    /* By the journal all leases are held: so the view store has seen a higher token than the
     * journal gave out. One of the stores was restored from a copy. Each release increments the
     * token, until it is higher than any that was seen. */
    if (st == EF_OK && tick->lost_count == lost)
        st = call_for_held(membership, EF_LEASE_RELEASE, HEARTBEAT_NONE, tick, err);
    /* A single worker has no other worker to wait for. */
    membership->next_beat_us =
        membership->single ? 0 : membership->beaten_us + RETRY_MS * INT64_C(1000);
    return st;
}

/* No other worker may be alive to purge a killed one. Reading costs no write. */
static void purge_stale(ef__membership *membership, ef_tick *tick)
{
    ef_worker_list list = {0};
    bool stale = false;

    if (ef_worker_ls(membership->engine->journal, &list, NULL) == EF_OK)
        for (size_t i = 0; i < list.count; i++)
            stale = stale || list.items[i].state == EF_WORKER_STALE;
    EF_RELEASE(&list);
    if (stale)
        purge_workers(membership, mono_us(membership), tick);
}

ef_status ef__membership_idle(ef__membership *membership, ef_tick *tick, ef_error *err)
{
    int64_t now_us = mono_us(membership);
    ef_status st;

    if (membership->next_idle_us && now_us < membership->next_idle_us)
        return EF_OK;
    st = call_for_held(membership, EF_LEASE_RELEASE, HEARTBEAT_IDLE, tick, err);
    if (st != EF_OK)
        return st;
    membership->next_beat_us = 0;
    membership->next_idle_us = now_us + IDLE_BEAT_MS * INT64_C(1000);
    tick->renewed_heartbeat = tick->renewed_heartbeat || !membership->single;
    purge_stale(membership, tick);
    return EF_OK;
}

void ef__membership_leave(ef__membership *membership)
{
    ef_tick ignored = {0};

    if (!membership->holds)
        return;
    /* A lease that cannot be released expires. */
    (void)call_for_held(membership, EF_LEASE_RELEASE, HEARTBEAT_NONE, &ignored, NULL);
    if (membership->joined)
        (void)ef__worker_leave(membership->engine->journal, ef_str_from(membership->engine->worker),
                               NULL);
    for (int32_t p = 0; p < membership->hold_count; p++)
        membership->holds[p].token = 0;
    membership->joined = false;
}

void ef__membership_release(ef__membership *membership)
{
    free(membership->holds);
    free(membership->leases);
    *membership = (ef__membership){0};
}
