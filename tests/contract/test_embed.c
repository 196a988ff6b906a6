/*
 * Appending inside the application's own transaction: the promises of everfold/sqlite.h.
 *
 * The test's own journal (t->journal) is the other handle: what it sees is what everybody sees.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include "../../src/journal/sqlite/head.h"

#include <everfold/sqlite.h>

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the application -------------------------------------------------------------------------- */

typedef struct app {
    sqlite3 *db;
    ef_sqlite *everfold;
} app;

static const char *path_of(const contract *t)
{
    return t->url + strlen("sqlite:");
}

static app app_open(contract *t)
{
    app a = {0};

    CHECK_INT(SQLITE_OK, sqlite3_open(path_of(t), &a.db));
    OK(ef_sqlite_attach(a.db, &t->options, &a.everfold, &t->err));
    return a;
}

static void app_close(app *a)
{
    ef_sqlite_detach(a->everfold);
    CHECK_INT(SQLITE_OK, sqlite3_close(a->db));
}

static void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &message);

    if (rc != SQLITE_OK)
        print_error("%s: %s\n", sql, message ? message : "");
    sqlite3_free(message);
    CHECK_INT(SQLITE_OK, rc);
}

static int64_t number_of(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    int64_t number;

    CHECK_INT(SQLITE_OK, sqlite3_prepare_v2(db, sql, -1, &stmt, NULL));
    CHECK_INT(SQLITE_ROW, sqlite3_step(stmt));
    number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return number;
}

static void begin(contract *t, app *a)
{
    OK(ef_sqlite_begin(a->everfold, &t->err));
}

static ef_status try_embed(contract *t, app *a, ef_new_event event, ef_place *out)
{
    ef_place place;

    return ef_sqlite_append(a->everfold, &event, 1, out ? out : &place, &t->err);
}

static ef_place embed(contract *t, app *a, const char *stream, const char *type)
{
    ef_place place = {0};

    OK(try_embed(t, a, event_of(stream, type), &place));
    return place;
}

static void commit(contract *t, app *a)
{
    OK(ef_sqlite_commit(a->everfold, &t->err));
}

/* An application with a table of its own and one row in it. */
static app app_with_account(contract *t)
{
    app a = app_open(t);

    begin(t, &a);
    run_sql(a.db, "CREATE TABLE account(name TEXT PRIMARY KEY, balance INTEGER NOT NULL)");
    run_sql(a.db, "INSERT INTO account VALUES ('ada', 100)");
    commit(t, &a);
    return a;
}

static int64_t balance(app *a)
{
    return number_of(a->db, "SELECT balance FROM account WHERE name = 'ada'");
}

/* --- commit and roll back --------------------------------------------------------------------- */

CONTRACT(a_commit_keeps_the_applications_rows_and_the_events)
{
    contract *t = *state;
    app a = app_with_account(t);
    ef_place place;

    begin(t, &a);
    run_sql(a.db, "UPDATE account SET balance = 70");
    place = embed(t, &a, "ada", "money.sent");
    commit(t, &a);

    CHECK_INT(1, place.seq);
    CHECK_INT(1, place.position);
    CHECK_INT(36, strlen(place.id));
    CHECK_INT(70, balance(&a));
    CHECK_INT(1, seq_of(t, "ada"));
    app_close(&a);
}

CONTRACT(a_rollback_takes_the_applications_rows_and_the_events_back)
{
    contract *t = *state;
    app a = app_with_account(t);
    ef_type_list types = {0};

    begin(t, &a);
    run_sql(a.db, "UPDATE account SET balance = 70");
    embed(t, &a, "ada", "money.sent");
    ef_sqlite_rollback(a.everfold);

    CHECK_INT(100, balance(&a));
    CHECK_INT(0, seq_of(t, "ada"));
    CHECK_INT(0, head_of(t));
    CHECK_INT(0, summary(t).pending);
    REFUSED(EF_NOT_FOUND, ef_type_ls(t->journal, &EF_STR("money.sent"), &types, &t->err));
    EF_RELEASE(&types);
    app_close(&a);
}

CONTRACT(what_was_rolled_back_leaves_no_hole_and_its_id_is_free)
{
    contract *t = *state;
    app a = app_open(t);
    ef_new_event event = event_of("ada", "money.sent");
    ef_place place;

    event.id = str("once");
    begin(t, &a);
    OK(try_embed(t, &a, event, &place));
    ef_sqlite_rollback(a.everfold);
    event.data = str("{\"other\":true}");
    begin(t, &a);
    OK(try_embed(t, &a, event, &place));
    commit(t, &a);

    CHECK_INT(1, place.seq);
    CHECK_INT(1, place.position);
    CHECK(!place.duplicate);
    app_close(&a);
}

CONTRACT(detaching_rolls_back_what_is_open)
{
    contract *t = *state;
    app a = app_with_account(t);

    begin(t, &a);
    run_sql(a.db, "UPDATE account SET balance = 70");
    embed(t, &a, "ada", "money.sent");
    ef_sqlite_detach(a.everfold);
    a.everfold = NULL;

    CHECK_INT(100, balance(&a));
    CHECK_INT(0, head_of(t));
    app_close(&a);
}

CONTRACT(events_are_visible_to_others_after_the_commit_only)
{
    contract *t = *state;
    app a = app_open(t);

    append(t, "ada", "before");
    begin(t, &a);
    embed(t, &a, "ada", "money.sent");
    CHECK_INT(1, seq_of(t, "ada"));
    CHECK_INT(1, head_of(t));
    REFUSED(EF_TIMEOUT, ef_journal_wait(t->journal, 1, 0, &t->err));
    commit(t, &a);

    OK(ef_journal_wait(t->journal, 1, 5000, &t->err));
    CHECK_INT(2, seq_of(t, "ada"));
    CHECK_INT(2, head_of(t));
    app_close(&a);
}

CONTRACT(an_empty_transaction_commits)
{
    contract *t = *state;
    app a = app_open(t);

    begin(t, &a);
    OK(ef_sqlite_append(a.everfold, NULL, 0, NULL, &t->err));
    commit(t, &a);
    CHECK_INT(0, head_of(t));
    app_close(&a);
}

/* --- several appends in one transaction ---------------------------------------------------------
 */

CONTRACT(several_appends_of_a_transaction_are_numbered_in_their_order)
{
    contract *t = *state;
    app a = app_open(t);
    ef_new_event pair[] = {event_of("a", "t"), event_of("b", "t")};
    ef_place places[2], last;

    begin(t, &a);
    embed(t, &a, "a", "t");
    OK(ef_sqlite_append(a.everfold, pair, 2, places, &t->err));
    pair[0].expected_seq = ef_expect_seq(2);
    OK(try_embed(t, &a, pair[0], &last));
    commit(t, &a);

    CHECK_INT(2, places[0].seq);
    CHECK_INT(1, places[1].seq);
    CHECK_INT(3, places[1].position);
    CHECK_INT(3, last.seq);
    CHECK_INT(4, last.position);
    CHECK_INT(3, seq_of(t, "a"));
    app_close(&a);
}

CONTRACT(an_id_that_comes_twice_in_a_transaction_is_written_once)
{
    contract *t = *state;
    app a = app_open(t);
    char id[] = "once", data[] = "{\"amount\":1}";
    ef_new_event event = event_of("ada", "money.sent");
    ef_place first, second;

    event.id = str(id);
    event.data = str(data);
    begin(t, &a);
    OK(try_embed(t, &a, event, &first));
    /* Events are borrowed for the call: the caller's bytes may change after it. */
    memset(id, 'x', sizeof id - 1);
    memset(data, 'x', sizeof data - 1);
    event.id = str("once");
    event.data = str("{\"amount\":1}");
    OK(try_embed(t, &a, event, &second));
    event.data = str("{\"amount\":2}");
    REFUSED(EF_ID_CONFLICT, try_embed(t, &a, event, NULL));
    commit(t, &a);

    CHECK(!first.duplicate);
    CHECK(second.duplicate);
    CHECK_INT(first.position, second.position);
    CHECK_INT(1, head_of(t));
    app_close(&a);
}

CONTRACT(an_id_that_another_handle_wrote_is_a_duplicate)
{
    contract *t = *state;
    app a = app_open(t);
    ef_new_event event = event_of("ada", "money.sent");
    ef_place place;

    event.id = str("once");
    append(t, "other", "t");
    append_event(t, event);
    begin(t, &a);
    OK(try_embed(t, &a, event, &place));
    commit(t, &a);

    CHECK(place.duplicate);
    CHECK_INT(2, place.position);
    CHECK_INT(2, head_of(t));
    app_close(&a);
}

/* --- failures -----------------------------------------------------------------------------------
 */

CONTRACT(a_refused_append_leaves_the_transaction_as_it_was)
{
    contract *t = *state;
    app a = app_with_account(t);
    ef_new_event pair[] = {event_of("ada", "t"), event_of("bob", "t")};
    ef_place places[2], last;

    pair[1].expected_seq = ef_expect_seq(7);
    begin(t, &a);
    run_sql(a.db, "UPDATE account SET balance = 70");
    embed(t, &a, "ada", "t");
    REFUSED(EF_CONFLICT, ef_sqlite_append(a.everfold, pair, 2, places, &t->err));
    CHECK_INT(7, t->err.asked);
    CHECK_INT(0, t->err.found);
    pair[0].data = str("{");
    REFUSED(EF_BAD_JSON, try_embed(t, &a, pair[0], NULL));
    last = embed(t, &a, "ada", "t");
    commit(t, &a);

    CHECK_INT(2, last.seq);
    CHECK_INT(2, last.position);
    CHECK_INT(70, balance(&a));
    CHECK_INT(2, seq_of(t, "ada"));
    CHECK_INT(0, seq_of(t, "bob"));
    app_close(&a);
}

CONTRACT(calls_out_of_turn_are_misuse_and_change_nothing)
{
    contract *t = *state;
    app a = app_open(t);

    REFUSED(EF_MISUSE, try_embed(t, &a, event_of("a", "t"), NULL));
    REFUSED(EF_MISUSE, ef_sqlite_commit(a.everfold, &t->err));
    ef_sqlite_rollback(a.everfold);
    begin(t, &a);
    REFUSED(EF_MISUSE, ef_sqlite_begin(a.everfold, &t->err));
    embed(t, &a, "a", "t");
    commit(t, &a);
    CHECK_INT(1, head_of(t));
    ef_sqlite_detach(NULL);
    app_close(&a);
}

CONTRACT(append_is_refused_after_sqlite_has_ended_the_transaction)
{
    contract *t = *state;
    app a = app_open(t);

    begin(t, &a);
    embed(t, &a, "a", "t");
    run_sql(a.db, "ROLLBACK"); /* as SQLite does by itself when the disk is full */
    REFUSED(EF_MISUSE, try_embed(t, &a, event_of("a", "t"), NULL));
    CHECK_INT(0, head_of(t));

    begin(t, &a);
    CHECK_INT(1, embed(t, &a, "a", "t").seq);
    commit(t, &a);
    CHECK_INT(1, head_of(t));
    app_close(&a);
}

CONTRACT(commit_fails_after_its_transaction_was_ended)
{
    contract *t = *state;
    app a = app_open(t);

    begin(t, &a);
    embed(t, &a, "a", "t");
    run_sql(a.db, "ROLLBACK");
    CHECK(ef_sqlite_commit(a.everfold, &t->err) != EF_OK);
    CHECK_INT(0, head_of(t));
    append(t, "a", "t"); /* and nothing stays locked */
    app_close(&a);
}

/* --- with others ---------------------------------------------------------------------------------
 */

CONTRACT(positions_stay_dense_when_another_handle_appends_between)
{
    contract *t = *state;
    app a = app_open(t);
    ef_verify_result result;

    for (int64_t i = 1; i <= 60; i += 3) {
        CHECK_INT(i, append(t, "shared", "t").position);
        begin(t, &a);
        CHECK_INT(i + 1, embed(t, &a, "shared", "u").position);
        CHECK_INT(i + 2, embed(t, &a, "own", "u").position);
        commit(t, &a);
    }
    CHECK_INT(40, seq_of(t, "shared"));
    CHECK_INT(20, seq_of(t, "own"));
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(60, result.checked);
    app_close(&a);
}

CONTRACT(a_stream_that_was_not_there_is_seen_once_another_handle_has_made_it)
{
    contract *t = *state;
    app a = app_open(t);

    CHECK_INT(0, seq_of(t, "new"));
    begin(t, &a);
    embed(t, &a, "new", "t");
    commit(t, &a);
    CHECK_INT(1, seq_of(t, "new"));
    CHECK_INT(2, append(t, "new", "t").seq);
    app_close(&a);
}

CONTRACT(events_of_a_transaction_are_in_the_outbox)
{
    contract *t = *state;
    app a = app_open(t);
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    begin(t, &a);
    embed(t, &a, "a", "t");
    embed(t, &a, "b", "t");
    commit(t, &a);
    CHECK_INT(2, summary(t).pending);

    hold_all(t, "w", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(2, batch.count);
    CHECK_STR("a", batch.items[0].event->stream);
    CHECK_INT(partition_of("a"), batch.items[0].partition);
    ef__claimed_batch_release(&batch);
    app_close(&a);
}

CONTRACT(the_head_file_knows_what_was_committed)
{
    contract *t = *state;
    app a = app_open(t);
    sq_headfile file = {.fd = -1};
    sq_head_record head;

    begin(t, &a);
    embed(t, &a, "a", "t");
    embed(t, &a, "a", "t");
    commit(t, &a);
    OK(sq_headfile_open(&file, path_of(t), false, true, &t->err));
    OK(sq_headfile_read(&file, &head, &t->err));
    sq_headfile_close(&file);
    CHECK_INT(2, head.position);

    app_close(&a);
    reopen(t);
    CHECK_INT(2, head_of(t));
}

CONTRACT(begin_is_busy_after_its_time_when_another_writes)
{
    contract *t = *state;
    app holder = app_open(t), waiter;
    const ef_clock *clock = ef_clock_system();
    int64_t start_us, waited_ms;

    t->options.busy_ms = 150;
    waiter = app_open(t);
    begin(t, &holder);
    start_us = clock->mono_us(clock->context);
    REFUSED(EF_BUSY, ef_sqlite_begin(waiter.everfold, &t->err));
    waited_ms = (clock->mono_us(clock->context) - start_us) / 1000;
    CHECK(waited_ms >= 150);
    CHECK(waited_ms < 5000);
    REFUSED(EF_MISUSE, try_embed(t, &waiter, event_of("a", "t"), NULL));

    ef_sqlite_rollback(holder.everfold);
    begin(t, &waiter);
    embed(t, &waiter, "a", "t");
    commit(t, &waiter);
    CHECK_INT(1, head_of(t));
    app_close(&waiter);
    app_close(&holder);
}

CONTRACT(an_append_of_another_handle_is_busy_while_the_transaction_is_open)
{
    contract *t = *state;
    app a = app_open(t);

    t->options.busy_ms = 150;
    reopen(t);
    begin(t, &a);
    REFUSED(EF_BUSY, try_append(t, event_of("a", "t"), NULL));
    commit(t, &a);
    CHECK_INT(1, append(t, "a", "t").position);
    app_close(&a);
}

/* --- what cannot be attached ---------------------------------------------------------------------
 */

static ef_status try_attach(contract *t, sqlite3 *db)
{
    ef_sqlite *everfold = (ef_sqlite *)t; /* must be set to NULL */
    ef_status st = ef_sqlite_attach(db, &t->options, &everfold, &t->err);

    CHECK(everfold == NULL);
    return st;
}

static sqlite3 *own_database(contract *t, char path[300], const char *sql)
{
    sqlite3 *db = NULL;

    (void)snprintf(path, 300, "%s/own.db", t->dir);
    CHECK_INT(SQLITE_OK, sqlite3_open(path, &db));
    run_sql(db, sql);
    return db;
}

CONTRACT(a_database_that_is_no_journal_is_refused_and_left_as_it_is)
{
    contract *t = *state;
    char path[300];
    sqlite3 *db = own_database(t, path, "CREATE TABLE mine(a)");

    REFUSED(EF_WRONG_STORE, try_attach(t, db));
    run_sql(db, "PRAGMA application_id=7");
    REFUSED(EF_WRONG_STORE, try_attach(t, db));
    CHECK_INT(1, number_of(db, "SELECT count(*) FROM sqlite_schema"));
    CHECK_INT(1, number_of(db, "SELECT journal_mode = 'delete' FROM pragma_journal_mode"));
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
}

CONTRACT(opening_a_database_that_is_no_journal_leaves_it_as_it_is)
{
    contract *t = *state;
    char path[300], url[320];
    sqlite3 *db = own_database(t, path, "CREATE TABLE mine(a)");
    ef_journal_options options = {.url = url, .create = true};
    ef_journal *journal = NULL;

    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    REFUSED(EF_WRONG_STORE, ef_journal_open(&options, &journal, &t->err));
    CHECK_INT(1, number_of(db, "SELECT count(*) FROM sqlite_schema"));
    CHECK_INT(1, number_of(db, "SELECT journal_mode = 'delete' FROM pragma_journal_mode"));
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
}

CONTRACT(an_empty_database_is_refused_and_stays_empty)
{
    contract *t = *state;
    char path[300];
    sqlite3 *db = own_database(t, path, "");

    REFUSED(EF_NOT_FOUND, try_attach(t, db));
    CHECK_INT(0, number_of(db, "SELECT count(*) FROM sqlite_schema"));
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
}

CONTRACT(a_connection_with_an_open_transaction_is_refused)
{
    contract *t = *state;
    sqlite3 *db = NULL;

    CHECK_INT(SQLITE_OK, sqlite3_open(path_of(t), &db));
    run_sql(db, "BEGIN");
    REFUSED(EF_MISUSE, try_attach(t, db));
    run_sql(db, "COMMIT");
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
}

CONTRACT(a_database_in_memory_is_refused)
{
    contract *t = *state;
    sqlite3 *db = NULL;

    CHECK_INT(SQLITE_OK, sqlite3_open(":memory:", &db));
    REFUSED(EF_BAD_INPUT, try_attach(t, db));
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
    REFUSED(EF_BAD_INPUT, try_attach(t, NULL));
}

/* In its own process, because it cannot be undone. */
CONTRACT(memory_is_not_counted_where_it_was_asked_for)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        sqlite3 *db = NULL;
        int64_t counted = sqlite3_memory_used();
        (void)sqlite3_shutdown();
        ef_sqlite_uncounted();
        _exit(!counted || sqlite3_open(":memory:", &db) != SQLITE_OK ||
              sqlite3_memory_used() != counted);
    }
    CHECK_INT(child, waitpid(child, &status, 0));
    CHECK_INT(0, status);
}

CONTRACT(append_is_refused_after_damage_was_recorded_and_the_applications_rows_are_not)
{
    contract *t = *state;
    app a = app_open(t);
    ef__damage damage = {.found_us = SECOND, .text = "position 7 is bad"};

    run_sql(a.db, "CREATE TABLE mine(x INTEGER)");
    OK(t->journal->store->damage_set(t->journal, &damage, &t->err));
    begin(t, &a);
    run_sql(a.db, "INSERT INTO mine VALUES (1)");
    REFUSED(EF_DAMAGED, try_embed(t, &a, event_of("order-1", "placed"), NULL));
    CHECK(strstr(t->err.text, "position 7 is bad") != NULL);
    OK(ef_sqlite_commit(a.everfold, &t->err));
    CHECK_INT(1, number_of(a.db, "SELECT count(*) FROM mine"));
    CHECK_INT(0, head_of(t));
    app_close(&a);
}

CONTRACT_MAIN(CASE(append_is_refused_after_damage_was_recorded_and_the_applications_rows_are_not),
              CASE(a_commit_keeps_the_applications_rows_and_the_events),
              CASE(a_rollback_takes_the_applications_rows_and_the_events_back),
              CASE(what_was_rolled_back_leaves_no_hole_and_its_id_is_free),
              CASE(detaching_rolls_back_what_is_open),
              CASE(events_are_visible_to_others_after_the_commit_only),
              CASE(an_empty_transaction_commits),
              CASE(several_appends_of_a_transaction_are_numbered_in_their_order),
              CASE(an_id_that_comes_twice_in_a_transaction_is_written_once),
              CASE(an_id_that_another_handle_wrote_is_a_duplicate),
              CASE(a_refused_append_leaves_the_transaction_as_it_was),
              CASE(calls_out_of_turn_are_misuse_and_change_nothing),
              CASE(append_is_refused_after_sqlite_has_ended_the_transaction),
              CASE(commit_fails_after_its_transaction_was_ended),
              CASE(positions_stay_dense_when_another_handle_appends_between),
              CASE(a_stream_that_was_not_there_is_seen_once_another_handle_has_made_it),
              CASE(events_of_a_transaction_are_in_the_outbox),
              CASE(the_head_file_knows_what_was_committed),
              CASE(begin_is_busy_after_its_time_when_another_writes),
              CASE(an_append_of_another_handle_is_busy_while_the_transaction_is_open),
              CASE(a_database_that_is_no_journal_is_refused_and_left_as_it_is),
              CASE(opening_a_database_that_is_no_journal_leaves_it_as_it_is),
              CASE(an_empty_database_is_refused_and_stays_empty),
              CASE(a_connection_with_an_open_transaction_is_refused),
              CASE(a_database_in_memory_is_refused),
              CASE(memory_is_not_counted_where_it_was_asked_for))
