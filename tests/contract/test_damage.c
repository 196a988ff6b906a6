/*
 * A journal on SQLite whose rows somebody has changed behind its back: who follows is told which.
 */
#include "contract.h"

#include "../../src/journal/journal.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { EVENTS = 12 };

static void run_sql(sqlite3 *db, const char *sql)
{
    char *message = NULL;
    int rc = sqlite3_exec(db, sql, NULL, NULL, &message);

    if (rc != SQLITE_OK)
        print_error("%s: %s\n", sql, message ? message : "");
    sqlite3_free(message);
    CHECK_INT(SQLITE_OK, rc);
}

/* A column of the event at `position` gets another value. */
static void change(contract *t, const char *what, int64_t position)
{
    char sql[200];
    sqlite3 *db = NULL;

    CHECK_INT(SQLITE_OK, sqlite3_open(t->url + strlen("sqlite:"), &db));
    run_sql(db, "DROP TRIGGER IF EXISTS event_is_never_changed");
    (void)snprintf(sql, sizeof sql, "UPDATE event SET %s WHERE position = %d", what, (int)position);
    run_sql(db, sql);
    CHECK_INT(SQLITE_OK, sqlite3_close(db));
}

static ef_status follow(contract *t, int64_t after, size_t limit, ef_batch *out)
{
    int64_t reached;

    return ef__journal_follow(t->journal, &(ef__follow){.after = after, .limit = limit}, out,
                              &reached, &t->err);
}

CONTRACT(who_follows_is_told_which_event_has_changed)
{
    contract *t = *state;
    static const char *const changes[] = {
        "data = data || ' '", "meta = meta || ' '", "id = 'other'",
        "seq = seq + 1",      "schema = 7",         "time = time + 1",
        "type = 99",          "sum = sum + 1",      "recorded = recorded + 1",
    };
    ef_batch batch = EF_BATCH_INIT;

    for (int i = 0; i < EVENTS; i++)
        append(t, "order-1", "placed");
    for (int64_t i = 0; i < (int64_t)(sizeof changes / sizeof changes[0]); i++) {
        change(t, changes[i], i + 2);
        REFUSED(EF_DAMAGED, follow(t, i + 1, EVENTS, &batch));
        CHECK_INT(i + 2, t->err.found);
        CHECK_INT(0, batch.count);
    }
    ef_batch_release(&batch);
}

CONTRACT(who_follows_gets_what_is_before_and_behind_an_event_that_has_changed)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    for (int i = 0; i < EVENTS; i++)
        append(t, "order-1", "placed");
    change(t, "data = data || ' '", 5);
    OK(follow(t, 0, 4, &batch));
    CHECK_INT(4, batch.count);
    CHECK(batch.more);
    REFUSED(EF_DAMAGED, follow(t, 0, 5, &batch));
    OK(follow(t, 5, EVENTS, &batch));
    CHECK_INT(EVENTS - 5, batch.count);
    CHECK(!batch.more);
    ef_batch_release(&batch);
}

CONTRACT(an_event_whose_stream_is_gone_is_damaged)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    append(t, "order-1", "placed");
    change(t, "stream = 99", 1);
    REFUSED(EF_DAMAGED, follow(t, 0, 1, &batch));
    ef_batch_release(&batch);
}

/* Appends one event to each of two streams, as two appends at once. */
static void append_two(contract *t, ef_append out[2])
{
    ef_new_event events[2] = {event_of("order-2", "placed"), event_of("order-3", "placed")};
    ef_place places[2];

    for (int i = 0; i < 2; i++)
        out[i] =
            (ef_append){.events = &events[i], .count = 1, .out_places = &places[i], .err = &t->err};
    ef_journal_append_each(t->journal, out, 2);
}

CONTRACT(append_is_refused_after_damage_was_found_and_reads_go_on)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;
    ef_store_facts facts;
    ef_append both[2];
    ef_place place;

    append(t, "order-1", "placed");
    append(t, "order-2", "placed");
    change(t, "data = data || ' '", 1);
    append(t, "order-2", "placed"); /* nothing has read position 1 */
    REFUSED(EF_DAMAGED, ef_journal_read_stream(t->journal, EF_STR(""), EF_STR("order-1"), 1, 1,
                                               &batch, &t->err));
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-2", "placed"), &place));
    CHECK(strstr(t->err.text, "position 1") != NULL);
    CHECK(strstr(t->err.text, t->url) != NULL);
    CHECK(strstr(t->err.text, "restore a backup") != NULL);
    append_two(t, both);
    CHECK_INT(EF_DAMAGED, both[0].status);
    CHECK_INT(EF_DAMAGED, both[1].status);
    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK(facts.damaged);
    OK(ef_journal_read_stream(t->journal, EF_STR(""), EF_STR("order-2"), 1, 9, &batch, &t->err));
    CHECK_INT(2, batch.count);
    ef_batch_release(&batch);
}

CONTRACT_MAIN(CASE(append_is_refused_after_damage_was_found_and_reads_go_on),
              CASE(who_follows_is_told_which_event_has_changed),
              CASE(who_follows_gets_what_is_before_and_behind_an_event_that_has_changed),
              CASE(an_event_whose_stream_is_gone_is_damaged))
