/*
 * crowd.c - see crowd.h.
 */
#include "crowd.h"

#include <inttypes.h>
#include <stdlib.h>

crowd *crowd_new(contract *t)
{
    crowd *c = calloc(1, sizeof *c);

    CHECK(c != NULL);
    c->t = t;
    CHECK_INT(0, pthread_mutex_init(&c->lock, NULL));
    return c;
}

void crowd_free(crowd *c)
{
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

void member_start(member *m, crowd *c, ef_journal *journal, int number, void *(*run)(void *))
{
    *m = (member){.crowd = c, .journal = journal, .number = number};
    CHECK_INT(0, pthread_create(&m->thread, NULL, run, m));
}

void member_join(member *m)
{
    CHECK_INT(0, pthread_join(m->thread, NULL));
}

void crowd_note(crowd *c, const char *file, int line, const char *what, const char *why)
{
    if (atomic_fetch_add(&c->failures, 1) > 0)
        return;
    pthread_mutex_lock(&c->lock);
    (void)snprintf(c->first_failure, sizeof c->first_failure, "%s:%d: %s (%.300s)", file, line,
                   what, why);
    pthread_mutex_unlock(&c->lock);
}

static void note_place(member *m, const ef_new_event *event, const ef_place *place)
{
    told *slot;

    MUST(m, place->position > 0 && place->position <= POSITIONS_MAX);
    if (place->duplicate || place->position < 1 || place->position > POSITIONS_MAX)
        return;
    slot = &m->crowd->told[place->position];
    MUST(m, atomic_fetch_add(&slot->times, 1) == 0);
    slot->seq = place->seq;
    (void)snprintf(slot->stream, sizeof slot->stream, "%.*s", EF_STR_ARG(event->stream));
    (void)snprintf(slot->id, sizeof slot->id, "%.*s", EF_STR_ARG(event->id));
    atomic_fetch_add(&m->crowd->written, 1);
}

ef_status member_append(member *m, ef_status refusal, const ef_new_event *events, size_t count,
                        ef_place *places)
{
    ef_status st = ef_journal_append(m->journal, events, count, places, &m->err);

    MUST(m, st == EF_OK || st == refusal);
    atomic_fetch_add(&m->crowd->calls, 1);
    for (size_t i = 0; st == EF_OK && i < count; i++)
        note_place(m, &events[i], &places[i]);
    return st;
}

/* Every event is the one that an append returned. */
static void check_event(crowd *c, const ef_event *event, int64_t position)
{
    const told *slot = &c->told[position];

    CHECK_INT(position, event->position);
    CHECK_INT(1, slot->times);
    CHECK_INT(slot->seq, event->seq);
    CHECK_STR(slot->stream, event->stream);
    CHECK_STR(slot->id, event->id);
}

static void check_log(crowd *c, ef_journal *journal)
{
    ef_log_query query = {.any_tenant = true, .limit = 1000};
    ef_batch batch = EF_BATCH_INIT;
    int64_t last = 0;

    do {
        query.after = last;
        CHECK_STATUS(EF_OK, ef_journal_read_log(journal, &query, &batch, &c->t->err), &c->t->err);
        for (size_t i = 0; i < batch.count; i++)
            check_event(c, &batch.events[i], ++last);
    } while (batch.count);
    EF_RELEASE(&batch);
    CHECK_INT(c->written, last);
}

static void check_streams(crowd *c, ef_journal *journal)
{
    ef_stream_list streams = {0};
    ef_batch batch = EF_BATCH_INIT;
    int64_t events = 0;
    ef_error *err = &c->t->err;

    CHECK_STATUS(EF_OK, ef_stream_ls(journal, str(""), true, str(""), 1000, &streams, err), err);
    for (size_t s = 0; s < streams.count; s++) {
        ef_str name = streams.items[s].name;
        CHECK_STATUS(EF_OK, ef_journal_read_stream(journal, str(""), name, 1, 10000, &batch, err),
                     err);
        CHECK_INT(streams.items[s].seq, batch.count);
        for (size_t i = 0; i < batch.count; i++)
            CHECK_INT(i + 1, batch.events[i].seq);
        events += (int64_t)batch.count;
    }
    CHECK_INT(c->written, events);
    EF_RELEASE(&batch);
    EF_RELEASE(&streams);
}

void crowd_check(crowd *c, ef_journal *journal)
{
    ef_verify_result result;

    if (c->failures)
        print_error("%d failures in threads, the first: %s\n", c->failures, c->first_failure);
    CHECK_INT(0, c->failures);
    check_log(c, journal);
    check_streams(c, journal);
    CHECK_STATUS(EF_OK, ef_journal_verify(journal, 0, NULL, NULL, &result, &c->t->err), &c->t->err);
    CHECK_INT(c->written, result.checked);
}
