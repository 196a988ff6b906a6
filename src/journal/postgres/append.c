/*
 * append.c - appending to the PostgreSQL journal.
 *
 * Appends of several threads share a transaction: one thread leads, with all appends that are
 * queued. The transaction has up to three round trips: lock the streams and look up heads and ids;
 * write ids, and try to become the sequencer; write the events. Refusals are decided between them,
 * in this process, so that one refused append does not roll back the others. When all ids were
 * generated here, the first two trips are one. When no other process appends, one trip is enough:
 * what would be looked up is assumed, and compared by the server (append_optimistic.c).
 *
 * No append waits for another one, except for one to the same stream or with the same id. If the
 * sequencer lock is free and nothing else waits for a position, the events get theirs in the
 * transaction that writes them. Otherwise they are committed without, and the threads that want to
 * know their positions wait for them afterwards (place.c), while the next appends go on.
 *
 * An open transaction of an application can hold the lock of a stream or an id. Appends that share
 * a transaction with one that needs this lock must not wait long: after LOCK_WAIT_MS each append
 * gets a transaction of its own, and the blocked one is retried by itself until busy_ms have
 * passed.
 *
 * When the connection breaks during the commit, the events are looked up under the locks of their
 * streams: their holder knows that the lost transaction has ended, committed or not.
 */
#include "append.h"

#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* Events per statement: while the server writes them, the next ones are sealed. */
#define STATEMENT_EVENTS 250
#define OUTSTANDING_MAX 150 /* statements without a received result */
#define CLASHES_MAX 20      /* with appends that write the same seq or id at the same time */
/* lock_timeout for streams and ids: in a transaction of several appends, and in one that was
 * blocked before, because all other appends of this process wait for it. */
#define LOCK_WAIT_MS 50
#define LOCK_RETRY_WAIT_MS 1
/* … and the pauses between its retries. */
#define LOCK_PAUSE_MS 10
#define LOCK_PAUSE_MAX_MS 160

/* --- deciding --------------------------------------------------------------------------------- */

static ef_status id_conflict(const item *it, int64_t position, ef_error *err)
{
    ef_str id = it->arrival->event.id;

    if (position == 0)
        return ef_fail(err, EF_ID_CONFLICT, "id \"%.*s\" is given to two events", EF_STR_ARG(id));
    return ef__id_conflict(id, position, err);
}

static ef_status decide_known(pg_append_group *group, item *it, const known *k, ef_error *err)
{
    if (k->accepted >= 0) { /* two events of one transaction */
        ef_event first = ef__arrival_event(group->accepted[k->accepted].item->arrival, 0);
        it->accepted = k->accepted;
        if (!ef__event_same(it->arrival, &first))
            return id_conflict(it, 0, err);
    } else {
        it->accepted = -1;
        if (!ef__event_same(it->arrival, &k->event))
            return id_conflict(it, k->event.position, err);
        it->place->seq = k->event.seq;
        it->place->position = k->event.position;
    }
    it->place->duplicate = true;
    return EF_OK;
}

/* New types of refused appends count until the transaction ends. This can refuse an append of a
 * tenant that is close to its limit; its retry succeeds. */
static ef_status check_new_type(pg_append_group *group, const ef__arrival *arrival, ef_error *err)
{
    const ef_new_event *event = &arrival->event;
    bool is_new;
    int64_t *created;
    ef_status st;

    if (group->store->base.options.types_strict)
        return ef__refuse_unregistered_type(event->type, err);
    if (arrival->sealed || ef__pair_map_find(&group->types_wanted, event->tenant, event->type))
        return EF_OK;
    created = ef__pair_map_at(&group->types_created, event->tenant, (ef_str){0}, &is_new);
    if (!created)
        return ef__no_memory(err);
    st = ef__type_create_check(&group->store->base.options, event->tenant, event->type, *created,
                               group->types_all + (int64_t)group->types_wanted.count, err);
    if (st == EF_OK && !ef__pair_map_at(&group->types_wanted, event->tenant, event->type, &is_new))
        st = ef__no_memory(err);
    *created += st == EF_OK;
    return st;
}

static ef_status decide_item(pg_append_group *group, item *it, ef_error *err)
{
    const ef_new_event *event = &it->arrival->event;
    known *k = it->id >= 0 ? &group->knowns[it->id] : NULL;
    head *h = &group->heads[it->stream];
    ef_status st;

    if (k && (k->accepted >= 0 || k->found)) {
        st = decide_known(group, it, k, err);
        if (st == EF_OK && it->arrival->sealed)
            st = ef__sealed_place_check(it->arrival->sealed, it->place->position, true, err);
        return st;
    }
    st = ef__seq_check(event, h->seq, err);
    if (st != EF_OK)
        return st;
    if (!group->types_known[it->type] && (st = check_new_type(group, it->arrival, err)) != EF_OK)
        return st;
    it->accepted = (int32_t)group->accepted_count;
    group->accepted[group->accepted_count++] =
        (accepted){.item = it, .stream = h->id, .seq = ++h->seq};
    if (k)
        k->accepted = it->accepted;
    it->place->duplicate = false;
    return EF_OK;
}

/* Removes the accepted events of an append that is refused. */
static void undo_append(pg_append_group *group, size_t accepted_before)
{
    while (group->accepted_count > accepted_before) {
        const item *it = group->accepted[--group->accepted_count].item;
        group->heads[it->stream].seq--;
        if (it->id >= 0)
            group->knowns[it->id].accepted = -1;
    }
}

static void decide_appends(pg_append_group *group)
{
    size_t n = 0;

    for (pg_append *job = group->jobs; job; job = pg_append_next(job)) {
        size_t before = group->accepted_count;
        job->status = EF_OK;
        for (size_t i = 0; i < job->count; i++)
            if (job->status == EF_OK)
                job->status =
                    decide_item(group, &group->items[n + i], group->is_assumed ? NULL : job->err);
        if (job->status != EF_OK)
            undo_append(group, before);
        n += job->count;
    }
    for (size_t i = 0; i < group->accepted_count; i++) {
        const item *it = group->accepted[i].item;
        group->types_new[it->type] = !group->types_known[it->type];
        group->type_tenants[it->type] = it->arrival->event.tenant;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Only given ids have a row; a generated one is found by its event. */
static ef_status send_ids(const pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    struct pj_id_insert given = {0};

    for (size_t i = 0; i < group->accepted_count; i++) {
        const ef_new_event *event = &group->accepted[i].item->arrival->event;
        if (group->accepted[i].item->arrival->id_made)
            continue;
        ef__pg_array_str(&given.tenants, event->tenant);
        ef__pg_array_str(&given.ids, event->id);
        ef__pg_array_int(&given.numbers, group->accepted[i].stream);
        ef__pg_array_int(&given.numbers, group->accepted[i].seq);
    }
    return given.ids.count ? pj_send_id_insert(conn, &given, err) : EF_OK;
}

/* The rows of one statement share their recording time: rows with another time are sent before. The
 * number of outstanding results is bounded, so they are received from time to time. */
static ef_status record_sealed_time(const ef_event *sealed, pg_rows *rows, pg_end *end,
                                    ef__pg_conn *conn, ef_error *err)
{
    ef_status st = EF_OK;

    if (sealed->recorded_us != end->recorded_us && rows->ids.count)
        st = pg_rows_send(rows, end, conn, err);
    if (st == EF_OK && conn->sent > OUTSTANDING_MAX)
        st = ef__pg_receive_all(conn, err);
    end->recorded_us = sealed->recorded_us;
    return st;
}

static ef_status check_sealed(const ef_event *sealed, const ef_event *event, ef_error *err)
{
    ef_status st = ef__sealed_place_check(sealed, event->position, false, err);

    return st == EF_OK ? ef__sealed_hash_check(sealed, event->hash, err) : st;
}

/* The sequencer lock is acquired as late as possible: when the first events are sealed. */
static ef_status send_rows(pg_append_group *group, pg_rows *rows, ef__pg_conn *conn, ef_error *err)
{
    bool is_first = group->placing == PG_AS_GUESSED && !conn->watched_out;
    ef_status st = is_first ? pg_assumption_send_guess(group, conn, err) : EF_OK;

    return st == EF_OK ? pg_rows_send(rows, &group->end, conn, err) : st;
}

static ef_status send_events(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    rows.placing = group->placing;
    rows.queue = !group->store->base.options.outbox_off;
    for (size_t i = 0; i < group->type_count; i++)
        ef__pg_array_str(&rows.types, group->types[i].b);
    for (size_t i = 0; st == EF_OK && i < group->accepted_count; i++) {
        const ef__arrival *arrival = group->accepted[i].item->arrival;
        const ef_event *sealed = arrival->sealed;
        ef_event event = ef__arrival_event(arrival, group->accepted[i].seq);
        if (sealed)
            st = record_sealed_time(sealed, &rows, &group->end, conn, err);
        if (st == EF_OK)
            st = pg_rows_add(&rows, &group->end, group->accepted[i].stream,
                             group->accepted[i].item->type + 1, &event, arrival->id_made, err);
        if (st == EF_OK && sealed)
            st = check_sealed(sealed, &event, err);
        group->accepted[i].position = event.position;
        if (st == EF_OK && (rows.ids.count >= STATEMENT_EVENTS || i + 1 == group->accepted_count))
            st = send_rows(group, &rows, conn, err);
    }
    pg_rows_release(&rows);
    return st;
}

/* With a lookup. Without given ids the sequencer lock was tried there. */
static ef_status write_accepted(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = send_ids(group, conn, err);

    if (st == EF_OK && group->is_sealed)
        st = pg_group_send_new_types(group, conn, err);
    if (st == EF_OK && (group->id_count || (group->is_sealed && group->placing == PG_UNPLACED))) {
        st = ef__pg_receive_all(conn, err);
        if (st == EF_OK)
            st = pg_group_try_sequencer(group, conn, err);
    }
    if (st == EF_OK && group->end.damage.found_us)
        st = ef__damage_fail(group->store->base.shown, &group->end.damage, err);
    if (st == EF_OK && group->is_sealed && group->placing == PG_UNPLACED) {
        group->meets_unplaced = true;
        st = ef_fail(err, EF_BUSY, "other events have no position yet");
    }
    return st == EF_OK ? send_events(group, conn, err) : st;
}

/* An assumption is used only if it accepts all events: a refusal must not depend on one. */
static ef_status try_assume(pg_append_group *group, ef_error *err)
{
    if (!pg_assume(group))
        return EF_OK;
    group->is_assumed = true;
    decide_appends(group);
    if (group->accepted_count == group->event_count)
        return EF_OK;
    group->is_assumed = false;
    return pg_group_collect(group, err);
}

static ef_status write_assumed(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_assumption_send(group, conn, err);

    group->placing = PG_AS_GUESSED;
    return st == EF_OK ? send_events(group, conn, err) : st;
}

static ef_status lookup_and_write(pg_append_group *group, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_group_lookup(group, conn, err);

    if (st == EF_OK) {
        decide_appends(group);
        group->nothing = group->accepted_count == 0;
        /* Any other status rolls back new streams. */
        st = group->nothing ? EF_NOT_FOUND : write_accepted(group, conn, err);
    }
    return st;
}

/* Only the first attempt uses assumptions. */
static ef_status append_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    pg_append_group *group = context;
    ef_status st = pg_group_collect(group, err);

    group->is_assumed = false;
    group->placing = PG_UNPLACED;
    group->end = (pg_end){0};
    PQclear(group->guessed);
    group->guessed = NULL;
    pg_since_read(group->store, &group->since);
    if (st == EF_OK && group->may_assume)
        st = try_assume(group, err);
    group->may_assume = false;
    if (st == EF_OK)
        st = group->is_assumed ? write_assumed(group, conn, err)
                               : lookup_and_write(group, conn, err);
    ef__buf_release(&group->end.scratch);
    pg_since_release(&group->since);
    return st;
}

/* --- an uncertain commit ---------------------------------------------------------------------- */

/* After a commit: what the server has decided. */
static void read_guess(pg_append_group *group)
{
    if (group->placing != PG_AS_GUESSED)
        return;
    group->placing = group->guessed && ef__pg_bool(group->guessed, 0, 0) ? PG_PLACED : PG_UNPLACED;
    for (size_t i = 0; group->placing == PG_UNPLACED && i < group->accepted_count; i++)
        group->accepted[i].position = 0;
}

/* Whether the append can succeed now: an assumption was wrong, or a seq or an id was written at the
 * same time, or an event had no position that is needed. */
static bool may_repeat(pg_append_group *group, ef_status st, ef_error *err)
{
    bool was_assumed = group->is_assumed;

    if (st == EF_BUSY && group->meets_unplaced)
        return pg_place_all(group->store, err) == EF_OK;
    if (was_assumed && (st == EF_CONFLICT || st == EF_EXISTS))
        pg_assumption_failed(&group->store->assumption);
    return st == EF_EXISTS || (was_assumed && st == EF_CONFLICT);
}

static ef_status write_once(pg_append_group *group, ef_error *err)
{
    ef_status st;

    for (int clashes = 0;; clashes++) {
        st = ef__pg_transaction_within(group->store->pool, EF__PG_WRITE, &group->lock_wait,
                                       append_work, group, err);
        if (st == EF_OK)
            read_guess(group);
        if (clashes == CLASHES_MAX || !may_repeat(group, st, err))
            return st == EF_EXISTS ? ef_fail(err, EF_BUSY,
                                             "other appends write the same streams: "
                                             "nothing was written, try again")
                                   : st;
    }
}

static ef_status write_group(pg_append_group *group, ef_error *err)
{
    ef_status st, resolved;

    for (int tries = 0;; tries++) {
        st = write_once(group, err);
        if (st == EF_NOT_FOUND && group->nothing)
            return EF_OK;
        if (st != EF_UNSURE || tries == 3)
            return st;
        resolved =
            ef__pg_transaction(group->store->pool, EF__PG_WRITE, pg_group_resolve, group, NULL);
        if (resolved != EF_OK && resolved != EF_UNSURE)
            return st;
        pg_assumption_clear(&group->store->assumption);
        if (resolved == EF_OK && !group->nothing)
            return EF_OK;
    }
}

/* --- results ---------------------------------------------------------------------------------- */

/* An event without a position: its caller waits for it. */
static void add_unplaced(pg_append *job, int64_t stream, ef_place *place)
{
    if (!job->unplaced)
        job->unplaced = calloc(job->count, sizeof *job->unplaced);
    if (job->unplaced)
        job->unplaced[job->unplaced_count++] = (pg_unplaced){stream, place};
}

static void set_places(const pg_append_group *group, pg_append *job, size_t first)
{
    for (size_t i = 0; i < job->count; i++) {
        const item *it = &group->items[first + i];
        const accepted *a = it->accepted < 0 ? NULL : &group->accepted[it->accepted];
        if (!a)
            continue;
        it->place->seq = a->seq;
        it->place->position = a->position;
        if (a->position == 0)
            add_unplaced(job, a->stream, it->place);
    }
}

static void set_results(pg_append_group *group, ef_status st, const ef_error *err)
{
    pg_store *store = group->store;
    size_t n = 0;

    for (pg_append *job = group->jobs; job; job = pg_append_next(job)) {
        if (st == EF_OK && job->status == EF_OK)
            set_places(group, job, n);
        n += job->count;
        /* The status of the transaction does not replace a refusal. */
        if (st != EF_OK && (job->status == EF_OK || st == EF_NO_MEMORY)) {
            job->status = st;
            if (job->err)
                *job->err = *err;
        }
    }
    if (st == EF_OK && group->accepted_count) {
        atomic_fetch_add(&store->commits, 1);
        atomic_fetch_add(&store->appended, (int64_t)group->accepted_count);
        pg_record_seen(store, group->accepted[group->accepted_count - 1].position);
    }
}

/* Waits for the positions of events that were committed without one; 0 if that takes too long. */
static void await_positions(pg_store *store, pg_append *jobs, size_t count)
{
    pg_place_job *waits = calloc(count, sizeof *waits);
    pg_place_job *first = NULL;

    for (size_t i = count; waits && i-- > 0;) {
        if (jobs[i].unplaced_count == 0)
            continue;
        waits[i] = (pg_place_job){
            .queued = {.weight = jobs[i].unplaced_count, .sibling = first ? &first->queued : NULL},
            .events = jobs[i].unplaced,
            .count = jobs[i].unplaced_count};
        first = &waits[i];
    }
    if (first)
        ef__batcher_submit(&store->places, &first->queued);
    for (size_t i = 0; i < count; i++)
        free(jobs[i].unplaced);
    free(waits);
}

/* False: nothing was written, because another transaction holds a lock. */
static bool lead_group(pg_store *store, pg_append *jobs, size_t event_count, int64_t lock_ms)
{
    int64_t busy_ms = store->base.options.busy_ms;
    pg_append_group group = {.store = store,
                             .lock_wait = {.lock_ms = lock_ms < busy_ms ? lock_ms : busy_ms},
                             .jobs = jobs,
                             .event_count = event_count,
                             .may_assume = true,
                             .arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES),
                             .types_wanted = EF__PAIR_MAP_INIT(bool, EF_LIMIT_BATCH_BYTES),
                             .types_created = EF__PAIR_MAP_INIT(int64_t, EF_LIMIT_BATCH_BYTES),
                             .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    for (pg_append *job = jobs; job; job = pg_append_next(job))
        job->status = EF_OK;
    st = write_group(&group, &err);
    if (st != EF_OK)
        pg_assumption_clear(&store->assumption);
    else if (!group.nothing)
        pg_assumption_record(&group);
    set_results(&group, st, &err);
    if (st == EF_OK && group.placing == PG_PLACED && group.accepted_count)
        pg_notify_sleepers(store);
    PQclear(group.guessed);
    (void)ef__pg_rows_end(&group.stored);
    ef__arena_release(&group.arena);
    ef__pair_map_release(&group.types_wanted);
    ef__pair_map_release(&group.types_created);
    ef__buf_release(&group.scratch);
    return st == EF_OK || !group.lock_wait.timed_out;
}

static void lead_alone(pg_store *store, pg_append *job, int64_t lock_ms)
{
    ef__batch_job *next = job->queued.next;
    ef_str stream = job->events[0].event.stream;

    job->queued.next = NULL;
    job->held = !lead_group(store, job, job->count, lock_ms);
    if (job->held)
        (void)ef_fail(job->err, EF_BUSY,
                      "an open transaction holds a lock that an append to stream \"%.*s\" needs: "
                      "nothing was written, try again",
                      EF_STR_ARG(stream));
    job->queued.next = next;
}

static void lead_appends(void *context, ef__batch_job *batch)
{
    pg_append *jobs = (pg_append *)batch;
    size_t event_count = 0;

    for (pg_append *job = jobs; job; job = pg_append_next(job))
        event_count += job->count;
    if (!pg_append_next(jobs)) {
        lead_alone(context, jobs, jobs->held ? LOCK_RETRY_WAIT_MS : LOCK_WAIT_MS);
        return;
    }
    if (lead_group(context, jobs, event_count, LOCK_WAIT_MS))
        return;
    for (pg_append *job = jobs; job; job = pg_append_next(job))
        lead_alone(context, job, LOCK_RETRY_WAIT_MS);
}

/* A leader whose own append is done passes the lead at once: a batch needs several round trips. */
void pg_appends_init(pg_store *store)
{
    store->appends = (ef__batcher){.run = lead_appends,
                                   .context = store,
                                   .weight_max = EF_LIMIT_GROUP_EVENTS,
                                   .batches_max = 1};
    ef__batcher_init(&store->appends);
}

ef_status pg_append_events(ef_journal *journal, const ef__arrival *events, size_t count,
                           ef_place *out, ef_error *err)
{
    pg_append job = {
        .queued.weight = count, .events = events, .count = count, .out = out, .err = err};
    const ef_clock *clock = ef_clock_system();
    int64_t pause_ms = LOCK_PAUSE_MS, until_us;

    if (count == 0)
        return EF_OK;
    until_us = clock->mono_us(clock->context) + journal->options.busy_ms * 1000;
    ef__batcher_submit(&pg_store_of(journal)->appends, &job.queued);
    while (job.held && clock->mono_us(clock->context) + pause_ms * 1000 < until_us) {
        (void)nanosleep(&(struct timespec){0, pause_ms * 1000000}, NULL);
        pause_ms = pause_ms < LOCK_PAUSE_MAX_MS ? pause_ms * 2 : pause_ms;
        job.queued.is_alone = true;
        ef__batcher_submit(&pg_store_of(journal)->appends, &job.queued);
    }
    await_positions(pg_store_of(journal), &job, 1);
    return job.status;
}

void pg_append_each(ef_journal *journal, const ef__append *appends, size_t count)
{
    pg_append *jobs = calloc(count, sizeof *jobs);

    for (size_t i = 0; i < count; i++) {
        ef_append *of = appends[i].of;
        if (jobs)
            jobs[i] = (pg_append){.queued = {.weight = of->count,
                                             .is_alone = of->held,
                                             .sibling = i + 1 < count ? &jobs[i + 1].queued : NULL},
                                  .events = appends[i].events,
                                  .count = of->count,
                                  .out = of->out_places,
                                  .err = of->err,
                                  .held = of->held};
        else
            of->status = ef_fail(of->err, EF_NO_MEMORY, "out of memory to append %zu times", count);
    }
    if (jobs) {
        ef__batcher_submit(&pg_store_of(journal)->appends, &jobs[0].queued);
        await_positions(pg_store_of(journal), jobs, count);
    }
    for (size_t i = 0; jobs && i < count; i++) {
        appends[i].of->status = jobs[i].status;
        appends[i].of->held = jobs[i].held;
    }
    free(jobs);
}
