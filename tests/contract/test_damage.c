/*
 * A journal on SQLite whose rows were changed from outside: a sequential reader reports which.
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

CONTRACT(a_sequential_reader_reports_the_damaged_event)
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
    EF_RELEASE(&batch);
}

CONTRACT(a_sequential_reader_gets_the_events_before_and_after_a_damaged_one)
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
    EF_RELEASE(&batch);
}

CONTRACT(an_event_without_its_stream_is_damaged)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    append(t, "order-1", "placed");
    change(t, "stream = 99", 1);
    REFUSED(EF_DAMAGED, follow(t, 0, 1, &batch));
    EF_RELEASE(&batch);
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
    EF_RELEASE(&batch);
}

/* --- the record in the head file ---------------------------------------------------------------
 */

static ef_journal *open_other(contract *t, bool read_only, bool archive)
{
    ef_journal_options options = t->options;
    ef_journal *other = NULL;

    options.read_only = read_only;
    options.archive = archive;
    OK(ef_journal_open(&options, &other, &t->err));
    return other;
}

static ef_status read_by(contract *t, ef_journal *journal)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(journal, EF_STR(""), EF_STR("order-1"), 1, 1, &batch, &t->err);

    EF_RELEASE(&batch);
    return st;
}

CONTRACT(damage_that_a_read_only_handle_finds_refuses_appends_of_others)
{
    contract *t = *state;
    ef_journal *reader;
    ef_place place;

    append(t, "order-1", "placed");
    reader = open_other(t, true, false);
    change(t, "data = data || ' '", 1);
    REFUSED(EF_DAMAGED, read_by(t, reader));
    ef_journal_close(reader);
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-2", "placed"), &place));
    CHECK(strstr(t->err.text, "position 1") != NULL);
    reopen(t);
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-2", "placed"), &place));
}

CONTRACT(damage_of_an_archive_is_not_recorded)
{
    contract *t = *state;
    ef_journal *archive;

    append(t, "order-1", "placed");
    archive = open_other(t, true, true);
    change(t, "data = data || ' '", 1);
    REFUSED(EF_DAMAGED, read_by(t, archive));
    ef_journal_close(archive);
    append(t, "order-2", "placed");
}

/* Bytes of the head file are inverted; twice is as before. */
static void flip_head(contract *t, const long *at, int count)
{
    char path[300];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s-head", t->url + strlen("sqlite:"));
    file = fopen(path, "r+b");
    CHECK(file != NULL);
    for (int i = 0; i < count; i++) {
        CHECK_INT(0, fseek(file, at[i], SEEK_SET));
        int byte = fgetc(file);
        CHECK_INT(0, fseek(file, at[i], SEEK_SET));
        CHECK(fputc((byte == EOF ? 0 : byte) ^ 0xff, file) != EOF);
    }
    CHECK_INT(0, fclose(file));
}

CONTRACT(a_head_file_that_does_not_fit_refuses_appends_until_it_fits)
{
    contract *t = *state;
    static const long both_records[] = {9, 521};
    ef_journal *other = NULL;
    ef_place place;

    append(t, "order-1", "placed");
    append(t, "order-1", "placed");
    flip_head(t, both_records, 2);
    REFUSED(EF_DAMAGED, ef_journal_open(&t->options, &other, &t->err));
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-2", "placed"), &place));
    CHECK(strstr(t->err.text, "head file") != NULL);
    flip_head(t, both_records, 2);
    ef_journal_close(open_other(t, false, false));
    append(t, "order-2", "placed");
}

CONTRACT(a_record_of_damage_that_is_damaged_itself_refuses_appends)
{
    contract *t = *state;
    static const long in_the_record[] = {3 * 512 + 20};
    ef_place place;

    append(t, "order-1", "placed");
    flip_head(t, in_the_record, 1);
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-2", "placed"), &place));
    OK(ef_journal_accept(t->journal, EF_STR("ann"), EF_STR(""), &t->err));
    append(t, "order-2", "placed");
}

CONTRACT(a_file_that_was_moved_is_not_recorded_as_damage)
{
    contract *t = *state;
    const char *path = t->url + strlen("sqlite:");
    ef_journal *other;
    ef_place place;
    char away[300];

    append(t, "order-1", "placed");
    (void)snprintf(away, sizeof away, "%s-away", path);
    CHECK_INT(0, rename(path, away));
    REFUSED(EF_DAMAGED, try_append(t, event_of("order-1", "placed"), &place));
    CHECK_INT(0, rename(away, path));
    other = open_other(t, false, false);
    OK(ef_journal_append(other,
                         &(ef_new_event){.stream = EF_STR("order-1"),
                                         .type = EF_STR("placed"),
                                         .data = EF_STR("{}")},
                         1, &place, &t->err));
    ef_journal_close(other);
}

CONTRACT_MAIN(CASE(damage_that_a_read_only_handle_finds_refuses_appends_of_others),
              CASE(damage_of_an_archive_is_not_recorded),
              CASE(a_head_file_that_does_not_fit_refuses_appends_until_it_fits),
              CASE(a_record_of_damage_that_is_damaged_itself_refuses_appends),
              CASE(a_file_that_was_moved_is_not_recorded_as_damage),
              CASE(append_is_refused_after_damage_was_found_and_reads_go_on),
              CASE(a_sequential_reader_reports_the_damaged_event),
              CASE(a_sequential_reader_gets_the_events_before_and_after_a_damaged_one),
              CASE(an_event_without_its_stream_is_damaged))
