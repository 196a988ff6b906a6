/*
 * append.c - appending to the PostgreSQL journal.
 *
 * Appends of several threads share a transaction: whoever finds nobody leading leads, with all that
 * has queued up. The transaction goes in three trips: advance the streams and see which ids are
 * known; write ids, get the sequencer's lock and see where the log ends; write the events. What is
 * refused is decided in between, here, so that one append's refusal costs the others nothing.
 * Where nobody can be waited for between the streams and the sequencer, for all ids are made here
 * and all types known, the first two trips are one. And where nobody else appends there is one in
 * all: what would be looked up is guessed, and compared by the server (append_guess.c).
 *
 * A stream, or an id, that somebody else's open transaction has is not waited for by those who only
 * share a transaction with who wants it: after a moment each goes by itself, and who is still held
 * up comes again later, by itself, for as long as it may wait.
 *
 * A connection that is lost in the commit leaves it open what became of it. The ids tell: whoever
 * has the sequencer's lock after it knows that it has ended, one way or the other.
 */
#include "append.h"

#include "../../base/limits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* Events of one statement: while the server writes them the next are sealed. */
#define SENT_AT_ONCE 250
#define SENT_UNTAKEN 100 /* statements */
/* How long a stream is waited for that somebody has: by a transaction of several appends, and by
 * one that is known to be held up, behind which all others wait. */
#define HELD_MS 50
#define HELD_AGAIN_MS 1
/* … and the pauses between its tries. */
#define HELD_PAUSE_MS 10
#define HELD_PAUSE_MAX_MS 160

/* --- deciding --------------------------------------------------------------------------------- */

static ef_status id_conflict(const item *it, int64_t position, ef_error *err)
{
    ef_str id = it->arrival->event.id;

    if (position == 0)
        return ef_fail(err, EF_ID_CONFLICT, "id \"%.*s\" is given to two events", EF_STR_ARG(id));
    return ef__id_conflict(id, position, err);
}

/* Two events of one append, or of two that share the transaction. */
static bool same_arrivals(const ef__arrival *a, const ef__arrival *b)
{
    const ef_new_event *e = &b->event;
    ef_event stored = {.tenant = e->tenant,
                       .stream = e->stream,
                       .id = e->id,
                       .type = e->type,
                       .schema = e->schema,
                       .time_us = e->time_us,
                       .data = e->data,
                       .meta = e->meta};

    return ef__event_same(a, &stored);
}

static ef_status decide_known(group *g, item *it, const known *k, ef_error *err)
{
    if (k->accepted >= 0) {
        it->accepted = k->accepted;
        if (!same_arrivals(it->arrival, g->accepted[k->accepted].item->arrival))
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

/* Types of appends that are refused count until the group ends: that refuses too much only of a
 * tenant that is close to its limit. */
static ef_status check_new_type(group *g, const ef__arrival *arrival, ef_error *err)
{
    const ef_new_event *event = &arrival->event;
    bool is_new;
    int64_t *created;
    ef_status st;

    if (g->store->base.options.types_strict)
        return ef_fail(err, EF_UNKNOWN_TYPE, "type \"%.*s\" is not registered",
                       EF_STR_ARG(event->type));
    if (arrival->sealed || ef__pair_map_find(&g->types_wanted, event->tenant, event->type))
        return EF_OK;
    created = ef__pair_map_at(&g->types_created, event->tenant, (ef_str){0}, &is_new);
    if (!created)
        return ef__room_full(err);
    st = ef__type_create_check(&g->store->base.options, event->tenant, event->type, *created,
                               g->types_all + (int64_t)g->types_wanted.count, err);
    if (st == EF_OK && !ef__pair_map_at(&g->types_wanted, event->tenant, event->type, &is_new))
        st = ef__room_full(err);
    *created += st == EF_OK;
    return st;
}

static ef_status decide_item(group *g, item *it, ef_error *err)
{
    const ef_new_event *event = &it->arrival->event;
    known *k = it->id >= 0 ? &g->knowns[it->id] : NULL;
    head *h = &g->heads[it->stream];
    ef_status st;

    if (k && (k->accepted >= 0 || k->found)) {
        st = decide_known(g, it, k, err);
        if (st == EF_OK && it->arrival->sealed)
            st = ef__sealed_place_check(it->arrival->sealed, it->place->position, true, err);
        return st;
    }
    st = ef__seq_check(event, h->seq, err);
    if (st != EF_OK)
        return st;
    if (!g->types_known[it->type] && (st = check_new_type(g, it->arrival, err)) != EF_OK)
        return st;
    it->accepted = (int32_t)g->accepted_count;
    g->accepted[g->accepted_count++] = (accepted){.item = it, .stream = h->id, .seq = ++h->seq};
    if (k)
        k->accepted = it->accepted;
    it->place->duplicate = false;
    return EF_OK;
}

/* Take back what was accepted of an append that is refused. */
static void undo(group *g, size_t accepted_before)
{
    while (g->accepted_count > accepted_before) {
        const item *it = g->accepted[--g->accepted_count].item;
        g->heads[it->stream].seq--;
        if (it->id >= 0)
            g->knowns[it->id].accepted = -1;
    }
}

static void decide(group *g)
{
    size_t n = 0;

    for (pg_append *job = g->jobs; job; job = job->next) {
        size_t before = g->accepted_count;
        job->status = EF_OK;
        for (size_t i = 0; i < job->count; i++)
            if (job->status == EF_OK)
                job->status = decide_item(g, &g->items[n + i], g->guessed ? NULL : job->err);
        if (job->status != EF_OK)
            undo(g, before);
        n += job->count;
    }
    for (size_t i = 0; i < g->accepted_count; i++) {
        const item *it = g->accepted[i].item;
        g->types_new[it->type] = !g->types_known[it->type];
        g->type_tenants[it->type] = it->arrival->event.tenant;
    }
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Of those that were given: one that we made is found by its event. */
static ef_status send_ids(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array tenants, ids, numbers;
    ef_status st = EF_OK;

    ef__pg_array_init(&tenants, EF__PG_TEXT);
    ef__pg_array_init(&ids, EF__PG_TEXT);
    ef__pg_array_init(&numbers, EF__PG_INT);
    for (size_t i = 0; i < g->accepted_count; i++) {
        const ef_new_event *event = &g->accepted[i].item->arrival->event;
        if (g->accepted[i].item->arrival->id_made)
            continue;
        ef__pg_array_str(&tenants, event->tenant);
        ef__pg_array_str(&ids, event->id);
        ef__pg_array_int(&numbers, g->accepted[i].stream);
        ef__pg_array_int(&numbers, g->accepted[i].seq);
    }
    ef__pg_add_array(&params, &tenants);
    ef__pg_add_array(&params, &ids);
    ef__pg_add_array(&params, &numbers);
    if (ids.count)
        st = ef__pg_send(conn, PJ_ID_INSERT, &params, err);
    ef__pg_array_release(&tenants);
    ef__pg_array_release(&ids);
    ef__pg_array_release(&numbers);
    return st;
}

/* Streams are where their last event is, however many were asked for. */
static ef_status send_heads(const group *g, ef__pg_conn *conn, ef_error *err)
{
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    ef_status st = EF_OK;

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->stream_count; i++)
        if (g->heads[i].seq != g->heads[i].written) {
            ef__pg_array_int(&streams, g->heads[i].id);
            ef__pg_array_int(&seqs, g->heads[i].seq);
        }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    if (streams.count)
        st = ef__pg_send(conn, PJ_STREAM_SET, &params, err);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

/* The rows of one statement share their recording time: those before it are sent. A connection
 * keeps count of a bounded number of statements, so their results are taken now and then. */
static ef_status record_as(const ef_event *sealed, pg_rows *rows, pg_end *end, ef__pg_conn *conn,
                           ef_error *err)
{
    ef_status st = EF_OK;

    if (sealed->recorded_us != end->recorded_us && rows->ids.count)
        st = pg_rows_send(rows, end, conn, err);
    if (st == EF_OK && conn->sent > SENT_UNTAKEN)
        st = ef__pg_take_all(conn, err);
    end->recorded_us = sealed->recorded_us;
    return st;
}

static ef_status check_sealed(const ef_event *sealed, const ef_event *event, ef_error *err)
{
    ef_status st = ef__sealed_place_check(sealed, event->position, false, err);

    return st == EF_OK ? ef__sealed_hash_check(sealed, event->hash, err) : st;
}

static ef_status send_events(group *g, ef__pg_conn *conn, ef_error *err)
{
    bool queue = !g->store->base.options.outbox_off;
    pg_rows rows;
    ef_status st = EF_OK;

    pg_rows_init(&rows);
    for (size_t i = 0; i < g->type_count; i++)
        ef__pg_array_str(&rows.types, g->types[i].b);
    for (size_t i = 0; st == EF_OK && i < g->accepted_count; i++) {
        const ef_new_event *from = &g->accepted[i].item->arrival->event;
        const ef_event *sealed = g->accepted[i].item->arrival->sealed;
        ef_event event = {.tenant = from->tenant,
                          .stream = from->stream,
                          .seq = g->accepted[i].seq,
                          .id = from->id,
                          .type = from->type,
                          .schema = from->schema,
                          .time_us = from->time_us,
                          .data = from->data,
                          .meta = from->meta};
        if (sealed)
            st = record_as(sealed, &rows, &g->end, conn, err);
        if (st == EF_OK)
            st = pg_rows_add(&rows, &g->end, g->accepted[i].stream, g->accepted[i].item->type + 1,
                             &event, g->accepted[i].item->arrival->id_made, queue, err);
        if (st == EF_OK && sealed)
            st = check_sealed(sealed, &event, err);
        g->accepted[i].position = event.position;
        if (st == EF_OK && rows.ids.count >= SENT_AT_ONCE)
            st = pg_rows_send(&rows, &g->end, conn, err);
    }
    if (st == EF_OK && rows.ids.count)
        st = pg_rows_send(&rows, &g->end, conn, err);
    if (st == EF_OK)
        st = ef__pg_send(conn, PJ_NOTIFY, NULL, err);
    pg_rows_release(&rows);
    return st;
}

static ef_status write_accepted(group *g, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_group_send_new_types(g, conn, err);

    if (st == EF_OK)
        st = send_ids(g, conn, err);
    if (st == EF_OK)
        st = send_heads(g, conn, err);
    if (st == EF_OK && !g->sequenced)
        st = pg_sequence_begin(g->store, conn, &g->end, err);
    else if (st == EF_OK)
        st = ef__pg_flush(conn, err);
    if (st == EF_EXISTS) /* somebody has just committed one of the ids */
        st = ef__pg_try_again(conn, "an id was written at the same time", err);
    return st == EF_OK ? send_events(g, conn, err) : st;
}

/* Only what is accepted as a whole is written on a guess: a refusal has to be right. */
static ef_status guess(group *g, ef_error *err)
{
    if (!pg_guess_take(g))
        return EF_OK;
    g->guessed = true;
    decide(g);
    if (g->accepted_count == g->event_count)
        return EF_OK;
    g->guessed = false;
    return pg_group_collect(g, err);
}

static ef_status write_guessed(group *g, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_guess_send(g, conn, err);

    return st == EF_OK ? send_events(g, conn, err) : st;
}

static ef_status look_and_write(group *g, ef__pg_conn *conn, ef_error *err)
{
    ef_status st = pg_group_look(g, conn, err);

    if (st == EF_OK) {
        decide(g);
        g->nothing = g->accepted_count == 0;
        /* Rolled back: refused appends leave nothing behind. */
        st = g->nothing ? EF_NOT_FOUND : write_accepted(g, conn, err);
    }
    return st;
}

/* A second try looks. */
static ef_status append_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    group *g = context;
    ef_status st = pg_group_collect(g, err);

    g->sequenced = g->guessed = false;
    g->end = (pg_end){0};
    if (st == EF_OK && g->may_guess)
        st = guess(g, err);
    g->may_guess = false;
    if (st == EF_OK)
        st = g->guessed ? write_guessed(g, conn, err) : look_and_write(g, conn, err);
    pg_end_release(&g->end);
    return st;
}

/* --- what became of it ------------------------------------------------------------------------ */

/* Is it there? Asked under the sequencer's lock, so that the lost transaction has ended. */
static ef_status resolve_work(void *context, ef__pg_conn *conn, ef_error *err)
{
    group *g = context;
    ef__pg_params params = {0};
    ef__pg_array streams, seqs;
    PGresult *result = NULL;
    ef_status st;

    ef__pg_array_init(&streams, EF__PG_INT);
    ef__pg_array_init(&seqs, EF__PG_INT);
    for (size_t i = 0; i < g->accepted_count; i++) {
        ef__pg_array_int(&streams, g->accepted[i].stream);
        ef__pg_array_int(&seqs, g->accepted[i].seq);
    }
    ef__pg_add_array(&params, &streams);
    ef__pg_add_array(&params, &seqs);
    st = pg_sequencer_lock(g->store, conn, err);
    if (st == EF_OK)
        st = ef__pg_query(conn, PJ_EVENT_PLACES, &params, &result, err);
    g->nothing = st == EF_OK && PQntuples(result) == 0;
    for (int i = 0; st == EF_OK && i < PQntuples(result); i++) {
        accepted *a = &g->accepted[ef__pg_int(result, i, 0) - 1];
        a->position = ef__pg_int(result, i, 1);
        /* Another's event is at its place: ours was not written. */
        if (!ef_str_equal(ef__pg_str(result, i, 2), a->item->arrival->event.id))
            g->nothing = true;
    }
    PQclear(result);
    ef__pg_array_release(&streams);
    ef__pg_array_release(&seqs);
    return st;
}

static ef_status write_once(group *g, ef_error *err)
{
    ef_status st = pg_transaction_in_sequence(g->store, &g->patience, append_work, g, err);

    if (st != EF_CONFLICT || !g->guessed)
        return st;
    pg_guess_missed(&g->store->guess);
    return pg_transaction_in_sequence(g->store, &g->patience, append_work, g, err);
}

static ef_status write_group(group *g, ef_error *err)
{
    ef_status st, looked;

    for (int tries = 0;; tries++) {
        st = write_once(g, err);
        if (st == EF_NOT_FOUND && g->nothing)
            return EF_OK;
        if (st != EF_UNSURE || tries == 3)
            return st;
        looked = ef__pg_transaction(g->store->pool, EF__PG_WRITE, resolve_work, g, NULL);
        if (looked != EF_OK && looked != EF_UNSURE)
            return st;
        pg_guess_forget(&g->store->guess);
        if (looked == EF_OK && !g->nothing)
            return EF_OK;
    }
}

static void answer(group *g, ef_status st, const ef_error *err)
{
    size_t n = 0;

    for (pg_append *job = g->jobs; job; job = job->next) {
        for (size_t i = 0; st == EF_OK && job->status == EF_OK && i < job->count; i++) {
            const item *it = &g->items[n + i];
            if (it->accepted < 0)
                continue;
            it->place->seq = g->accepted[it->accepted].seq;
            it->place->position = g->accepted[it->accepted].position;
        }
        n += job->count;
        /* What was refused was refused, whatever became of the others. */
        if (st != EF_OK && (job->status == EF_OK || st == EF_NO_MEMORY)) {
            job->status = st;
            if (job->err)
                *job->err = *err;
        }
    }
    if (st == EF_OK && g->accepted_count) {
        atomic_fetch_add(&g->store->commits, 1);
        atomic_fetch_add(&g->store->appended, (int64_t)g->accepted_count);
        pg_saw(g->store, g->accepted[g->accepted_count - 1].position);
    }
}

/* False: nothing was done, for somebody has what one of them wants. */
static bool lead_group(pg_store *store, pg_append *jobs, size_t event_count, int64_t held_ms)
{
    int64_t busy_ms = store->base.options.busy_ms;
    group g = {.store = store,
               .patience = {.lock_ms = held_ms < busy_ms ? held_ms : busy_ms},
               .jobs = jobs,
               .event_count = event_count,
               .may_guess = true,
               .arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES),
               .types_wanted = EF__PAIR_MAP_INIT(bool, EF_LIMIT_BATCH_BYTES),
               .types_created = EF__PAIR_MAP_INIT(int64_t, EF_LIMIT_BATCH_BYTES),
               .scratch = EF__BUF_INIT(4 * EF_LIMIT_DATA_BYTES)};
    ef_error err = EF_ERROR_INIT;
    ef_status st;

    for (pg_append *job = jobs; job; job = job->next)
        job->status = EF_OK;
    st = write_group(&g, &err);
    if (st != EF_OK)
        pg_guess_forget(&store->guess);
    else if (!g.nothing)
        pg_guess_keep(&g);
    answer(&g, st, &err);
    PQclear(g.stored);
    ef__arena_release(&g.arena);
    ef__pair_map_release(&g.types_wanted);
    ef__pair_map_release(&g.types_created);
    ef__buf_release(&g.scratch);
    return st == EF_OK || !g.patience.held;
}

static void lead_alone(pg_store *store, pg_append *job, int64_t held_ms)
{
    pg_append *next = job->next;
    ef_str stream = job->events[0].event.stream;

    job->next = NULL;
    job->held = !lead_group(store, job, job->count, held_ms);
    if (job->held)
        (void)ef_fail(job->err, EF_BUSY,
                      "an open transaction has stream \"%.*s\", or what else the append is about: "
                      "nothing was written, try again",
                      EF_STR_ARG(stream));
    job->next = next;
}

static void lead(pg_store *store, pg_append *jobs, size_t event_count)
{
    if (!jobs->next) {
        lead_alone(store, jobs, jobs->held ? HELD_AGAIN_MS : HELD_MS);
        return;
    }
    if (lead_group(store, jobs, event_count, HELD_MS))
        return;
    for (pg_append *job = jobs; job; job = job->next)
        lead_alone(store, job, HELD_AGAIN_MS);
}

/* Take appends from the queue, up to what fits into one transaction; one that was held up goes by
 * itself. The lock is ours. */
static pg_append *take_queue(pg_store *store, size_t *out_events)
{
    pg_append *jobs = store->first, *last = jobs;
    size_t events = jobs->count;

    while (!jobs->held && last->next && !last->next->held &&
           events + last->next->count <= EF_LIMIT_GROUP_EVENTS) {
        last = last->next;
        events += last->count;
    }
    store->first = last->next;
    if (!store->first)
        store->last = &store->first;
    last->next = NULL;
    *out_events = events;
    return jobs;
}

static void lead_one(pg_store *store)
{
    size_t events;
    pg_append *jobs = take_queue(store, &events), *next;

    store->leading = true;
    (void)pthread_mutex_unlock(&store->lock);
    lead(store, jobs, events);
    (void)pthread_mutex_lock(&store->lock);
    store->leading = false;
    for (pg_append *job = jobs; job; job = next) {
        next = job->next; /* its owner may be gone as soon as it is done */
        job->done = true;
    }
    (void)pthread_cond_broadcast(&store->changed);
}

/* Put them at the end of the queue, and return when the last is done. */
static void submit(pg_store *store, pg_append *jobs, size_t count)
{
    (void)pthread_mutex_lock(&store->lock);
    for (size_t i = 0; i < count; i++) {
        *store->last = &jobs[i];
        store->last = &jobs[i].next;
    }
    while (!jobs[count - 1].done) {
        if (!store->leading)
            lead_one(store);
        else
            (void)pthread_cond_wait(&store->changed, &store->lock);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

ef_status pg_append_events(ef_journal *journal, const ef__arrival *events, size_t count,
                           ef_place *out, ef_error *err)
{
    pg_append job = {.events = events, .count = count, .out = out, .err = err};
    const ef_clock *clock = ef_clock_system();
    int64_t pause_ms = HELD_PAUSE_MS, until_us;

    if (count == 0)
        return EF_OK;
    until_us = clock->mono_us(clock->context) + journal->options.busy_ms * 1000;
    submit(pg_store_of(journal), &job, 1);
    while (job.held && clock->mono_us(clock->context) + pause_ms * 1000 < until_us) {
        (void)nanosleep(&(struct timespec){0, pause_ms * 1000000}, NULL);
        pause_ms = pause_ms < HELD_PAUSE_MAX_MS ? pause_ms * 2 : pause_ms;
        job.done = false;
        job.next = NULL;
        submit(pg_store_of(journal), &job, 1);
    }
    return job.status;
}

void pg_append_each(ef_journal *journal, const ef__append *appends, size_t count)
{
    pg_append *jobs = calloc(count, sizeof *jobs);

    for (size_t i = 0; i < count; i++) {
        ef_append *of = appends[i].of;
        if (jobs)
            jobs[i] = (pg_append){.events = appends[i].events,
                                  .count = of->count,
                                  .out = of->out_places,
                                  .err = of->err,
                                  .held = of->held};
        else
            of->status = ef_fail(of->err, EF_NO_MEMORY, "no memory to append %zu times", count);
    }
    if (jobs)
        submit(pg_store_of(journal), jobs, count);
    for (size_t i = 0; jobs && i < count; i++) {
        appends[i].of->status = jobs[i].status;
        appends[i].of->held = jobs[i].held;
    }
    free(jobs);
}
