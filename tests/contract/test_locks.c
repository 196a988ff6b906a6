/*
 * Which transactions wait for each other on a PostgreSQL journal. A session of the test blocks one
 * worker or appender, and the test checks the others.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <time.h>

#define TRIES_MAX 5

static void say(PGconn *session, const char *sql)
{
    PGresult *result = PQexec(session, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        print_error("%s: %s", sql, PQerrorMessage(session));
    CHECK(PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK);
    PQclear(result);
}

static PGconn *open_session(const contract *t)
{
    PGconn *session = PQconnectdb(t->url);

    CHECK_INT(CONNECTION_OK, PQstatus(session));
    return session;
}

/* Waits until a session of this database waits for a lock. */
static void wait_for_waiter(PGconn *session)
{
    for (int i = 0; i < 1000; i++) {
        PGresult *result =
            PQexec(session, "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                            " AND pid <> pg_backend_pid() AND wait_event_type = 'Lock'");
        bool waits = PQntuples(result) > 0;

        PQclear(result);
        if (waits)
            return;
        (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
    }
    fail_msg("nobody waits");
}

/* --- own lanes -------------------------------------------------------------------------------- */

typedef struct settling {
    contract *t;
    ef_partition_lease held;
    ef_retry_row retry_row;
    ef_status status;
    ef_error err;
} settling;

static void *settle(void *context)
{
    settling *s = context;

    s->status = test_ack(s->t->journal, str("*"), &s->held, 1, &s->retry_row, 1, &s->err);
    return NULL;
}

/* A worker that has claimed the event of `stream`, and the retry row that it will file. */
static settling worker_of(contract *t, const char *stream, const char *owner)
{
    int32_t partition = partition_of(stream);
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    settling s = {.t = t,
                  .held = {partition, acquire(t, partition, owner), 0},
                  .retry_row = {str("orders"), 0, EF_ROW_FAILED, 1, 0, str("no"), 0, false, false},
                  .err = EF_ERROR_INIT};

    OK(test_claim(t->journal, str("*"), &s.held, 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    s.retry_row.position = s.held.upto = batch.items[0].event->position;
    ef__claimed_batch_release(&batch);
    return s;
}

static size_t due_of(settling *s)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    contract *t = s->t;
    size_t count;

    OK(test_claim_due(t->journal, str(""), &s->held, 1, 10, &batch, &t->err));
    count = batch.count;
    ef__claimed_batch_release(&batch);
    return count;
}

/* The first worker is stopped in its transaction, at its own row, with every lock that it has. */
CONTRACT(no_worker_waits_for_the_rows_of_another)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    char trigger[600];
    const char *streams[] = {"a", "b", "c", "d", "e"};
    ef_lane lane = {.name = str("orders"), .kind = EF_LANE_KIND_PROJECTION, .enabled = true};
    settling first, second;
    int other = 1;
    pthread_t thread;

    while (partition_of(streams[other]) == partition_of("a"))
        other++;
    OK(ef_lane_set(t->journal, &lane, &t->err)); /* made once; who makes it is waited for */
    append(t, "a", "t");
    append(t, streams[other], "t");
    first = worker_of(t, "a", "one");
    second = worker_of(t, streams[other], "two");
    (void)snprintf(trigger, sizeof trigger,
                   "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                   " IF NEW.partition = %d THEN PERFORM pg_advisory_xact_lock(4711); END IF;"
                   " RETURN NEW; END $$;"
                   "CREATE TRIGGER wait BEFORE INSERT OR UPDATE ON everfold.retry_row"
                   " FOR EACH ROW EXECUTE FUNCTION wait(); SELECT pg_advisory_lock(4711)",
                   (int)first.held.partition);
    say(session, trigger);
    CHECK_INT(0, pthread_create(&thread, NULL, settle, &first));
    wait_for_waiter(session);

    settle(&second); /* files its row … */
    CHECK_STATUS(EF_OK, second.status, &second.err);
    CHECK_INT(1, due_of(&second)); /* … sees it … */
    second.held.upto = 0;
    second.retry_row.status = EF_ROW_DONE;
    settle(&second); /* … and is through with it */
    CHECK_STATUS(EF_OK, second.status, &second.err);
    CHECK_INT(0, due_of(&second));

    say(session, "SELECT pg_advisory_unlock(4711)");
    CHECK_INT(0, pthread_join(thread, NULL));
    CHECK_STATUS(EF_OK, first.status, &first.err);
    CHECK_INT(1, due_of(&first));
    PQfinish(session);
}

CONTRACT(a_locked_retry_row_is_claimed_after_the_lock_ends)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    settling s;

    append(t, "a", "t");
    s = worker_of(t, "a", "one");
    settle(&s);
    CHECK_STATUS(EF_OK, s.status, &s.err);
    s.held.upto = 0;
    say(session, "BEGIN; UPDATE everfold.retry_row SET skip = true");
    CHECK_INT(0, due_of(&s)); /* and is not waited for */
    say(session, "COMMIT");
    CHECK_INT(1, due_of(&s));
    PQfinish(session);
}

/* --- a ring ----------------------------------------------------------------------------------- */

typedef struct appending {
    contract *t;
    ef_status status;
    ef_error err;
} appending;

static void *append_both(void *context)
{
    appending *a = context;
    ef_new_event events[] = {event_of("a", "t"), event_of("b", "t")};
    ef_place places[2];

    a->status = ef_journal_append(a->t->journal, events, 2, places, &a->err);
    return NULL;
}

/* Appends lock streams in the order of their names; the session locks them in the opposite order.
 * The append gives up after a short wait, or the server ends the transaction that waits longer. */
static bool append_gives_way(contract *t, PGconn *session)
{
    appending a = {.t = t, .err = EF_ERROR_INIT};
    PGresult *result;
    pthread_t thread;
    bool passed;

    say(session, "BEGIN; UPDATE everfold.stream SET name = name WHERE name = 'b'");
    CHECK_INT(0, pthread_create(&thread, NULL, append_both, &a));
    wait_for_waiter(session);
    result = PQexec(session, "UPDATE everfold.stream SET name = name WHERE name = 'a'");
    passed = PQresultStatus(result) == PGRES_COMMAND_OK;
    if (!passed)
        CHECK_TEXT("40P01", PQresultErrorField(result, PG_DIAG_SQLSTATE));
    PQclear(result);
    say(session, "COMMIT");
    CHECK_INT(0, pthread_join(thread, NULL));
    CHECK_STATUS(EF_OK, a.status, &a.err);
    return passed;
}

CONTRACT(an_append_that_waits_in_a_ring_gives_way_and_is_done_all_the_same)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    int tries = 1;

    append(t, "a", "t");
    append(t, "b", "t");
    while (!append_gives_way(t, session) && tries < TRIES_MAX)
        tries++;
    CHECK(tries < TRIES_MAX);
    CHECK_INT(1 + tries, seq_of(t, "a"));
    CHECK_INT(1 + tries, seq_of(t, "b"));
    CHECK_INT(2 + 2 * tries, head_of(t));
    PQfinish(session);
}

/* --- guesses ---------------------------------------------------------------------------------- */

/* Streams "a" and "b", left where the next append guesses them to be: at seq 2, the log at 4. */
static void leave_streams(contract *t)
{
    for (int i = 0; i < 2; i++) {
        append(t, "a", "t");
        append(t, "b", "t");
    }
}

static void check_log(contract *t, int64_t count)
{
    ef_verify_result result = {0};

    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(count, result.checked);
    CHECK_INT(count, head_of(t));
}

/* Another client appends to a stream by SQL, and the test to "a". */
static void check_after_sql(contract *t, const char *append_sql, int64_t seq)
{
    PGconn *session = open_session(t);
    ef_place place;

    leave_streams(t);
    say(session, append_sql);
    place = append(t, "a", "t");
    CHECK_INT(seq, place.seq);
    CHECK_INT(6, place.position);
    check_log(t, 6);
    PQfinish(session);
}

CONTRACT(an_append_is_right_after_an_append_by_sql_to_its_stream)
{
    check_after_sql(*state, "SELECT everfold.append('', 'a', 2, '[{\"type\": \"t\"}]')", 4);
}

CONTRACT(an_append_is_right_after_something_else_was_appended_by_sql)
{
    check_after_sql(*state, "SELECT everfold.append('', 'b', 2, '[{\"type\": \"t\"}]')", 3);
}

CONTRACT(an_append_is_right_after_another_process_appended)
{
    contract *t = *state;
    ef_journal *ours = t->journal, *other = NULL;

    leave_streams(t);
    OK(ef_journal_open(&t->options, &other, &t->err));
    for (int i = 0; i < 20; i++) {
        t->journal = i % 3 ? ours : other;
        CHECK_INT(5 + i, append(t, i % 2 ? "a" : "b", "t").position);
    }
    t->journal = ours;
    ef_journal_close(other);
    CHECK_INT(12, seq_of(t, "a"));
    CHECK_INT(12, seq_of(t, "b"));
    check_log(t, 24);
}

CONTRACT(an_append_on_a_guess_leaves_streams_that_others_hold_alone)
{
    contract *t = *state;
    PGconn *session = open_session(t);

    leave_streams(t);
    say(session, "BEGIN");
    say(session, "SELECT everfold.append('', 'b', 2, '[{\"type\": \"t\"}]')");
    CHECK_INT(3, append(t, "a", "t").seq);
    say(session, "ROLLBACK");
    CHECK_INT(3, append(t, "b", "t").seq);
    check_log(t, 6);
    PQfinish(session);
}

CONTRACT(what_is_refused_is_not_refused_on_a_guess)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    ef_new_event event = event_of("a", "t");
    ef_place place;

    leave_streams(t);
    say(session, "SELECT everfold.append('', 'a', 2, '[{\"type\": \"t\"}]')");
    event.expected_seq = ef_expect_seq(2); /* as guessed, and no longer true */
    CHECK_STATUS(EF_CONFLICT, try_append(t, event, &place), &t->err);
    event.expected_seq = ef_expect_seq(3); /* not as guessed, and true */
    OK(try_append(t, event, &place));
    CHECK_INT(4, place.seq);
    check_log(t, 6);
    PQfinish(session);
}

CONTRACT(an_append_is_right_after_its_connection_was_ended)
{
    contract *t = *state;
    PGconn *session = open_session(t);

    leave_streams(t);
    say(session, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                 " WHERE datname = current_database() AND pid <> pg_backend_pid()");
    CHECK_INT(3, append(t, "a", "t").seq);
    check_log(t, 5);
    PQfinish(session);
}

/* --- transactions that are left open ---------------------------------------------------------- */

#define HELD_APPEND "SELECT everfold.append('', 'held', NULL, '[{\"type\": \"t\", \"id\": \"x\"}]')"
#define SOON_MS 3000 /* a call may take 10 s */

static int64_t now_ms(void)
{
    struct timespec now;

    CHECK_INT(0, clock_gettime(CLOCK_MONOTONIC, &now));
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *append_held(void *context)
{
    appending *a = context;
    ef_new_event event = event_of("held", "t");
    ef_place place;

    a->status = ef_journal_append(a->t->journal, &event, 1, &place, &a->err);
    return NULL;
}

/* The same id in another stream: the append waits for the transaction that inserts it, too. */
static void *append_held_id(void *context)
{
    appending *a = context;
    ef_new_event event = event_of("free", "t");
    ef_place place;

    event.id = str("x");
    a->status = ef_journal_append(a->t->journal, &event, 1, &place, &a->err);
    return NULL;
}

/* A session has stream "held" and id "x" in an open transaction, and `stuck` wants one of them:
 * others append and are done. `stuck` is done when the session commits. */
static ef_status stuck_beside_others(contract *t, void *(*stuck)(void *))
{
    PGconn *session = open_session(t);
    appending a = {.t = t, .err = EF_ERROR_INIT};
    int64_t began_ms;
    pthread_t thread;

    leave_streams(t);
    say(session, "BEGIN");
    say(session, HELD_APPEND);
    CHECK_INT(0, pthread_create(&thread, NULL, stuck, &a));
    wait_for_waiter(session);
    began_ms = now_ms();
    for (int i = 0; i < 20; i++)
        append(t, i % 2 ? "a" : "b", "t");
    CHECK(now_ms() - began_ms < SOON_MS);
    CHECK_INT(24, head_of(t)); /* and it is not done yet */
    say(session, "COMMIT");
    CHECK_INT(0, pthread_join(thread, NULL));
    PQfinish(session);
    return a.status;
}

CONTRACT(an_open_transaction_delays_appends_to_its_stream_only)
{
    contract *t = *state;

    CHECK_INT(EF_OK, stuck_beside_others(t, append_held));
    CHECK_INT(2, seq_of(t, "held"));
    check_log(t, 26);
}

CONTRACT(an_open_transaction_delays_appends_of_its_id_only)
{
    contract *t = *state;

    CHECK_INT(EF_ID_CONFLICT, stuck_beside_others(t, append_held_id));
    check_log(t, 25);
}

CONTRACT(of_appends_made_together_an_open_transaction_holds_up_only_its_own)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    ef_new_event events[] = {event_of("a", "t"), event_of("held", "t"), event_of("b", "t")};
    ef_append appends[3] = {0};
    ef_place places[3];
    ef_error errs[3] = {EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT};
    int64_t began_ms = now_ms();

    leave_streams(t);
    say(session, "BEGIN");
    say(session, HELD_APPEND);
    for (int i = 0; i < 3; i++)
        appends[i] = (ef_append){
            .events = &events[i], .count = 1, .out_places = &places[i], .err = &errs[i]};
    ef_journal_append_each(t->journal, appends, 3);
    CHECK(now_ms() - began_ms < SOON_MS);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(i == 1 ? EF_BUSY : EF_OK, appends[i].status, &errs[i]);
        CHECK_INT(i == 1, appends[i].held);
    }
    CHECK(strstr(errs[1].text, "\"held\""));
    ef_journal_append_each(t->journal, &appends[1], 1);
    CHECK_STATUS(EF_BUSY, appends[1].status, &errs[1]);
    say(session, "ROLLBACK");
    ef_journal_append_each(t->journal, &appends[1], 1);
    CHECK_STATUS(EF_OK, appends[1].status, &errs[1]);
    CHECK(!appends[1].held);
    CHECK_INT(1, places[1].seq);
    check_log(t, 7);
    PQfinish(session);
}

CONTRACT(an_append_waits_for_an_open_transaction_as_long_as_it_may)
{
    contract *t = *state;
    PGconn *session = open_session(t);
    ef_journal *patient = t->journal, *hasty = NULL;
    ef_journal_options options = t->options;
    int64_t began_ms = now_ms();
    ef_new_event event = event_of("held", "t");
    ef_place place;

    options.busy_ms = 300;
    OK(ef_journal_open(&options, &hasty, &t->err));
    say(session, "BEGIN");
    say(session, HELD_APPEND);
    t->journal = hasty;
    CHECK_STATUS(EF_BUSY, try_append(t, event, &place), &t->err);
    CHECK(now_ms() - began_ms < SOON_MS);
    CHECK(strstr(t->err.text, "\"held\""));
    t->journal = patient;
    say(session, "ROLLBACK");
    CHECK_INT(1, append(t, "held", "t").seq);
    ef_journal_close(hasty);
    PQfinish(session);
}

CONTRACT_MAIN(CASE(no_worker_waits_for_the_rows_of_another),
              CASE(a_locked_retry_row_is_claimed_after_the_lock_ends),
              CASE(an_append_that_waits_in_a_ring_gives_way_and_is_done_all_the_same),
              CASE(an_append_is_right_after_an_append_by_sql_to_its_stream),
              CASE(an_append_is_right_after_something_else_was_appended_by_sql),
              CASE(an_append_is_right_after_another_process_appended),
                        CASE(an_append_on_a_guess_leaves_streams_that_others_hold_alone),
              CASE(what_is_refused_is_not_refused_on_a_guess),
              CASE(an_append_is_right_after_its_connection_was_ended),
              CASE(an_open_transaction_delays_appends_to_its_stream_only),
              CASE(an_open_transaction_delays_appends_of_its_id_only),
              CASE(of_appends_made_together_an_open_transaction_holds_up_only_its_own),
              CASE(an_append_waits_for_an_open_transaction_as_long_as_it_may))
