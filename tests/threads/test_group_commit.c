/*
 * Many threads on one journal: they share commits, and each gets the right result.
 *
 * Run under the thread sanitizer too (meson setup -Db_sanitize=thread): there the reports are the
 * test, and the checks only see to it that everything is reached.
 */
#include "crowd.h"

#include "../support/outbox_calls.h"

#include <inttypes.h>
#include <stdlib.h>

#define WRITERS 16
#define ROUNDS 30
#define SHARED_STREAMS 3

/* Shared by all writers of the large test. */
static _Atomic int64_t contested[ROUNDS];          /* position of each round's contested event */
static _Atomic int rounds_done[WRITERS];           /* a reader may ask for ids below this */
static _Atomic int taken_times[POSITIONS_MAX + 1]; /* by the taker */

typedef struct writer {
    member *m;
    int64_t seq; /* of its own stream */
    char own[NAME_MAX_BYTES];
    char shared[NAME_MAX_BYTES];
} writer;

static ef_new_event event_with(const char *stream, const char *id)
{
    ef_new_event event = event_of(stream, "ticked");

    event.id = str(id);
    event.data = str("{\"n\":1}");
    return event;
}

/* --- writers ---------------------------------------------------------------------------------- */

/* Own stream, at the seq that only this thread moves; then the same again, as after a lost answer.
 */
static void append_own(writer *w, int round)
{
    char id[NAME_MAX_BYTES];
    ef_place first = {0}, again = {0};
    ef_new_event event;

    (void)snprintf(id, sizeof id, "own-%d-%d", w->m->number, round);
    event = event_with(w->own, id);
    event.expected_seq = ef_expect_seq(w->seq);
    member_append(w->m, EF_OK, &event, 1, &first);
    MUST(w->m, first.seq == ++w->seq && !first.duplicate);
    member_append(w->m, EF_OK, &event, 1, &again);
    MUST(w->m, again.duplicate && again.seq == first.seq && again.position == first.position);
}

/* All or none over two streams, also when others write to one of them. */
static void append_batch(writer *w, int round)
{
    char ids[3][NAME_MAX_BYTES];
    ef_new_event events[3];
    ef_place places[3] = {0};

    for (int i = 0; i < 3; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "batch-%d-%d-%d", w->m->number, round, i);
        events[i] = event_with(i == 1 ? w->shared : w->own, ids[i]);
    }
    member_append(w->m, EF_OK, events, 3, places);
    MUST(w->m, places[0].seq == w->seq + 1 && places[2].seq == w->seq + 2);
    MUST(w->m, places[1].position == places[0].position + 1);
    MUST(w->m, places[2].position == places[0].position + 2);
    w->seq += 2;
}

/* A batch whose last event is refused leaves nothing of the first. */
static void append_refused(writer *w, int round)
{
    ef_new_event events[2] = {event_with(w->shared, ""), event_with(w->own, "")};
    ef_place places[2];

    events[1].expected_seq = ef_expect_seq(w->seq + 5);
    (void)round;
    MUST(w->m, member_append(w->m, EF_CONFLICT, events, 2, places) == EF_CONFLICT);
    MUST(w->m, w->m->err.found == w->seq);
}

/* Appends to a shared stream at the seq that was read. Another thread may have been faster; then it
 * reads and decides again. */
static void append_decided(writer *w, int round)
{
    char id[NAME_MAX_BYTES];
    ef_place place;
    ef_status st = EF_CONFLICT;
    ef_new_event event;

    (void)snprintf(id, sizeof id, "decided-%d-%d", w->m->number, round);
    event = event_with(w->shared, id);
    while (st == EF_CONFLICT && !w->m->crowd->failures) {
        int64_t seq = 0;
        ef_str stream = str(w->shared);
        MUST(w->m, ef_stream_head(w->m->journal, str(""), stream, &seq, NULL, &w->m->err) == EF_OK);
        event.expected_seq = ef_expect_seq(seq);
        st = member_append(w->m, EF_CONFLICT, &event, 1, &place);
        MUST(w->m, st != EF_OK || place.seq == seq + 1);
    }
}

/* All threads send the same event: one writes it, and all get the same position. */
static void append_contested(writer *w, int round)
{
    char id[NAME_MAX_BYTES];
    ef_place place = {0};
    int64_t none = 0;
    ef_new_event event;

    (void)snprintf(id, sizeof id, "contested-%d", round);
    event = event_with("contested", id);
    member_append(w->m, EF_OK, &event, 1, &place);
    if (!atomic_compare_exchange_strong(&contested[round], &none, place.position))
        MUST(w->m, none == place.position);
}

static void *write_rounds(void *context)
{
    static void (*const KINDS[])(writer *, int) = {append_batch, append_refused, append_decided};
    writer w = {.m = context};

    (void)snprintf(w.own, sizeof w.own, "own-%d", w.m->number);
    (void)snprintf(w.shared, sizeof w.shared, "shared-%d", w.m->number % SHARED_STREAMS);
    for (int round = 0; round < ROUNDS && !w.m->crowd->failures; round++) {
        append_own(&w, round);
        atomic_store(&rounds_done[w.m->number], round + 1);
        KINDS[(round + w.m->number) % 3](&w, round);
        append_contested(&w, round);
    }
    return NULL;
}

/* --- readers, meanwhile ------------------------------------------------------------------------
 */

static void *read_by_log(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;
    int64_t last = 0;
    bool over;

    do {
        ef_log_query query = {.any_tenant = true, .after = last, .limit = 100};
        over = m->crowd->over;
        MUST(m, ef_journal_read_log(m->journal, &query, &batch, &m->err) == EF_OK);
        for (size_t i = 0; i < batch.count; i++)
            MUST(m, batch.events[i].position == ++last);
    } while ((!over || batch.count) && !m->crowd->failures);
    EF_RELEASE(&batch);
    MUST(m, last == m->crowd->written);
    return NULL;
}

static void *read_by_stream(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;
    int64_t last[SHARED_STREAMS] = {0};

    for (int i = 0; !m->crowd->over && !m->crowd->failures; i = (i + 1) % SHARED_STREAMS) {
        char name[NAME_MAX_BYTES];
        (void)snprintf(name, sizeof name, "shared-%d", i);
        ef_status st = ef_journal_read_stream(m->journal, str(""), str(name), last[i] + 1, 50,
                                              &batch, &m->err);
        MUST(m, st == EF_OK || (st == EF_NOT_FOUND && last[i] == 0));
        for (size_t e = 0; st == EF_OK && e < batch.count; e++)
            MUST(m, batch.events[e].seq == ++last[i]);
    }
    EF_RELEASE(&batch);
    return NULL;
}

static void *read_by_id(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;
    unsigned turn = 0;

    while (!m->crowd->over && !m->crowd->failures) {
        int of = (int)(turn % WRITERS), done = rounds_done[of];
        char id[NAME_MAX_BYTES];
        (void)snprintf(id, sizeof id, "own-%d-%d", of, done ? (int)(turn % (unsigned)done) : 0);
        turn += 7;
        ef_status st = ef_journal_read_id(m->journal, str(""), str(id), &batch, &m->err);
        MUST(m, st == EF_OK || (st == EF_NOT_FOUND && !done)); /* what was answered is there */
        MUST(m, st != EF_OK || ef_str_equal(batch.events[0].id, str(id)));
    }
    EF_RELEASE(&batch);
    return NULL;
}

/* --- the outbox, and who waits ------------------------------------------------------------------
 */

static void hold(member *m, ef_partition_lease held[PARTITIONS])
{
    for (int32_t p = 0; p < PARTITIONS; p++) {
        ef_lease_key key = partition_key(p);
        held[p] = (ef_partition_lease){.partition = p};
        MUST(m, ef__lease_acquire_one(m->journal, &key, str("taker"), 60000, &held[p].token, NULL,
                                      &m->err) == EF_OK);
    }
}

static void *take_and_mark(void *context)
{
    member *m = context;
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_partition_lease held[PARTITIONS];
    bool over;

    hold(m, held);
    do {
        over = m->crowd->over;
        MUST(m, test_claim(m->journal, str("*"), held, PARTITIONS, 64, &batch, &m->err) == EF_OK);
        for (size_t i = 0; i < batch.count; i++) {
            int64_t position = batch.items[i].event->position;
            MUST(m, held[batch.items[i].partition].upto < position);
            held[batch.items[i].partition].upto = position;
            atomic_fetch_add(&taken_times[position], 1);
        }
        MUST(m, test_ack(m->journal, str("*"), held, PARTITIONS, NULL, 0, &m->err) == EF_OK);
        atomic_fetch_add(&m->crowd->calls, 2);
    } while ((!over || batch.count) && !m->crowd->failures);
    ef__claimed_batch_release(&batch);
    return NULL;
}

static void *watch(void *context)
{
    member *m = context;
    ef_outbox_query query = {.any_tenant = true};
    int64_t last = 0;

    while (!m->crowd->over && !m->crowd->failures) {
        ef_head head;
        ef_store_facts facts;
        ef_outbox_summary sum = {0};
        ef_status st = ef_journal_wait(m->journal, last, 20, &m->err);
        MUST(m, st == EF_OK || st == EF_TIMEOUT);
        MUST(m, ef_journal_head(m->journal, &head, &m->err) == EF_OK);
        MUST(m, st == EF_OK ? head.position > last : head.position >= last);
        last = head.position;
        MUST(m, ef_journal_facts(m->journal, &facts, &m->err) == EF_OK);
        MUST(m, ef_outbox_summarise(m->journal, &query, &sum, &m->err) == EF_OK);
        MUST(m, sum.failed == 0 && sum.dead == 0);
        EF_RELEASE(&sum.oldest);
    }
    return NULL;
}

/* --- the tests ----------------------------------------------------------------------------------
 */

static void check_commits_are_shared(contract *t, const crowd *c)
{
    ef_store_facts facts;

    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK_INT(c->written, facts.appended);
    if (!survives(t))
        return; /* in memory there is nothing to share */
    /* Not compared with the events: the thread that claims commits as often as it finds time, which
     * was more often than there are events on a machine that writes slowly. */
    CHECK(facts.commits < c->calls);
}

CONTRACT(appends_reads_and_takes_of_many_threads_are_as_if_one_came_after_another)
{
    static void *(*const OTHERS[])(void *) = {read_by_log, read_by_stream, read_by_id,
                                              take_and_mark, watch};
    enum { OTHER_COUNT = sizeof OTHERS / sizeof OTHERS[0] };
    contract *t = *state;
    crowd *c = crowd_new(t);
    member writers[WRITERS], others[OTHER_COUNT];

    for (int i = 0; i < OTHER_COUNT; i++)
        member_start(&others[i], c, t->journal, i, OTHERS[i]);
    for (int i = 0; i < WRITERS; i++)
        member_start(&writers[i], c, t->journal, i, write_rounds);
    for (int i = 0; i < WRITERS; i++)
        member_join(&writers[i]);
    atomic_store(&c->over, true);
    for (int i = 0; i < OTHER_COUNT; i++)
        member_join(&others[i]);

    crowd_check(c, t->journal);
    for (int64_t p = 1; p <= c->written; p++)
        CHECK_INT(1, taken_times[p]);
    CHECK_INT(ROUNDS, seq_of(t, "contested"));
    CHECK_INT(0, summary(t).pending);
    check_commits_are_shared(t, c);
    crowd_free(c);
}

static void *append_plain(void *context)
{
    member *m = context;

    for (int i = 0; i < 40 && !m->crowd->failures; i++) {
        char id[NAME_MAX_BYTES];
        ef_place place;
        (void)snprintf(id, sizeof id, "plain-%d-%d", m->number, i);
        ef_new_event event = event_with(i % 2 ? "left" : "right", id);
        member_append(m, EF_OK, &event, 1, &place);
    }
    return NULL;
}

CONTRACT(two_handles_on_one_journal_number_their_events_together)
{
    contract *t = *state;
    crowd *c = crowd_new(t);
    ef_journal *second = NULL;
    member members[8];

    if (!survives(t)) /* one memory journal cannot be opened twice: one handle then */
        second = t->journal;
    else
        OK(ef_journal_open(&t->options, &second, &t->err));
    for (int i = 0; i < 8; i++)
        member_start(&members[i], c, i % 2 ? second : t->journal, i, append_plain);
    for (int i = 0; i < 8; i++)
        member_join(&members[i]);

    crowd_check(c, t->journal);
    crowd_check(c, second);
    if (second != t->journal)
        ef_journal_close(second);
    CHECK_INT(8 * 40, head_of(t));
    crowd_free(c);
}

CONTRACT(handles_may_come_and_go_while_another_one_works)
{
    contract *t = *state;
    crowd *c = crowd_new(t);
    member members[2], visitor = {.crowd = c};

    for (int i = 0; i < 2; i++)
        member_start(&members[i], c, t->journal, i, append_plain);
    for (int i = 0; survives(t) && i < 10; i++) {
        ef_head head;
        MUST(&visitor, ef_journal_open(&t->options, &visitor.journal, &visitor.err) == EF_OK);
        if (visitor.journal)
            MUST(&visitor, ef_journal_head(visitor.journal, &head, &visitor.err) == EF_OK);
        ef_journal_close(visitor.journal);
    }
    for (int i = 0; i < 2; i++)
        member_join(&members[i]);
    crowd_check(c, t->journal);
    crowd_free(c);
}

CONTRACT(closing_after_the_last_call_keeps_all_acknowledged_appends)
{
    contract *t = *state;
    crowd *c = crowd_new(t);
    member members[4];

    for (int i = 0; i < 4; i++)
        member_start(&members[i], c, t->journal, i, append_plain);
    for (int i = 0; i < 4; i++)
        member_join(&members[i]);
    if (survives(t))
        reopen(t);
    crowd_check(c, t->journal);
    crowd_free(c);
}

/* --- settling --------------------------------------------------------------------------------- */

/* Heads and ids are written later, in slices, once the tail is long (state.h). There are enough
 * events for that to happen during lookups, after an open, when nothing is cached yet. */
#define MANY_STREAMS 900
#define MANY_EVENTS 9000
#define MANY_BATCH 300

static _Atomic int64_t many_seqs[MANY_STREAMS]; /* acknowledged */

static void append_many(member *m, int64_t first, int64_t count)
{
    static ef_place places[MANY_BATCH];
    static ef_new_event events[MANY_BATCH];
    static char names[MANY_BATCH][NAME_MAX_BYTES], ids[MANY_BATCH][NAME_MAX_BYTES];

    for (int64_t at = first; at < first + count && !m->crowd->failures; at += MANY_BATCH) {
        for (int64_t i = 0; i < MANY_BATCH; i++) {
            (void)snprintf(names[i], NAME_MAX_BYTES, "many-%d", (int)((at + i) % MANY_STREAMS));
            (void)snprintf(ids[i], NAME_MAX_BYTES, "id-%" PRId64, at + i);
            events[i] = event_with(names[i], ids[i]);
        }
        MUST(m, ef_journal_append(m->journal, events, MANY_BATCH, places, &m->err) == EF_OK);
        for (int64_t i = 0; i < MANY_BATCH; i++) {
            MUST(m, places[i].position == at + i + 1);
            MUST(m, places[i].seq == (at + i) / MANY_STREAMS + 1);
            atomic_store(&many_seqs[(at + i) % MANY_STREAMS], places[i].seq);
        }
    }
}

static void *look_at_heads(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;

    for (int i = 0; !m->crowd->over && !m->crowd->failures; i = (i + 7) % MANY_STREAMS) {
        char name[NAME_MAX_BYTES];
        int64_t seq = 0, known = atomic_load(&many_seqs[i]);
        (void)snprintf(name, sizeof name, "many-%d", i);
        MUST(m, ef_stream_head(m->journal, str(""), str(name), &seq, NULL, &m->err) == EF_OK);
        MUST(m, seq >= known);
        MUST(m, ef_journal_read_stream(m->journal, str(""), str(name), known, 1, &batch, &m->err) ==
                    EF_OK);
        MUST(m, batch.count == 1 && batch.events[0].seq == known);
    }
    EF_RELEASE(&batch);
    return NULL;
}

static void *look_for_ids(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;

    for (int64_t i = 0; !m->crowd->over && !m->crowd->failures; i = (i + 1009) % MANY_EVENTS) {
        char id[NAME_MAX_BYTES];
        (void)snprintf(id, sizeof id, "id-%" PRId64, i);
        MUST(m, ef_journal_read_id(m->journal, str(""), str(id), &batch, &m->err) == EF_OK);
        MUST(m, batch.count == 1 && batch.events[0].position == i + 1);
    }
    EF_RELEASE(&batch);
    return NULL;
}

static void *look_through_log(void *context)
{
    member *m = context;
    ef_batch batch = EF_BATCH_INIT;
    int64_t last = 0;

    while (!m->crowd->over && !m->crowd->failures) {
        ef_log_query query = {.after = last, .limit = 2000};
        MUST(m, ef_journal_read_log(m->journal, &query, &batch, &m->err) == EF_OK);
        for (size_t i = 0; i < batch.count; i++)
            MUST(m, batch.events[i].position == ++last);
        last = batch.count ? last : 0;
    }
    EF_RELEASE(&batch);
    return NULL;
}

CONTRACT(settling_hides_nothing_from_those_who_look_meanwhile)
{
    static void *(*const LOOKERS[])(void *) = {look_at_heads, look_for_ids, look_through_log};
    enum { LOOKER_COUNT = sizeof LOOKERS / sizeof LOOKERS[0] };
    contract *t = *state;
    crowd *c = crowd_new(t);
    member lookers[LOOKER_COUNT], appender = {.crowd = c, .journal = t->journal};
    ef_verify_result result;

    append_many(&appender, 0, MANY_EVENTS);
    if (survives(t))
        reopen(t);
    appender.journal = t->journal;
    for (int i = 0; i < LOOKER_COUNT; i++)
        member_start(&lookers[i], c, t->journal, i, LOOKERS[i]);
    append_many(&appender, MANY_EVENTS, 2 * MANY_EVENTS);
    atomic_store(&c->over, true);
    for (int i = 0; i < LOOKER_COUNT; i++)
        member_join(&lookers[i]);

    if (c->failures)
        print_error("%d failures in threads, the first: %s\n", c->failures, c->first_failure);
    CHECK_INT(0, c->failures);
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(3 * MANY_EVENTS, result.checked);
    crowd_free(c);
}

CONTRACT_MAIN(CASE(appends_reads_and_takes_of_many_threads_are_as_if_one_came_after_another),
              CASE(two_handles_on_one_journal_number_their_events_together),
              CASE(handles_may_come_and_go_while_another_one_works),
              CASE(closing_after_the_last_call_keeps_all_acknowledged_appends),
              CASE(settling_hides_nothing_from_those_who_look_meanwhile))
