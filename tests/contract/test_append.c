/*
 * Appending: all or none, expected seqs, dense positions, and what is kept.
 */
#include "contract.h"

#include <pthread.h>
#include <stdlib.h>

CONTRACT(the_first_event_of_a_journal_is_seq_1_at_position_1)
{
    contract *t = *state;
    ef_place place = append(t, "order-1", "order.placed");

    CHECK_INT(1, place.seq);
    CHECK_INT(1, place.position);
    CHECK(!place.duplicate);
    CHECK_INT(1, head_of(t));
}

CONTRACT(an_id_is_made_when_the_caller_gives_none)
{
    contract *t = *state;
    ef_place first = append(t, "order-1", "order.placed");
    ef_place second = append(t, "order-1", "order.placed");
    ef_batch batch = EF_BATCH_INIT;

    CHECK_INT(36, strlen(first.id));
    CHECK(strcmp(first.id, second.id) < 0);
    OK(ef_journal_read_id(t->journal, str(""), str(second.id), &batch, &t->err));
    CHECK_INT(2, batch.events[0].position);
    EF_RELEASE(&batch);
}

CONTRACT(positions_are_dense_over_interleaved_streams)
{
    contract *t = *state;
    static const char *const streams[] = {"a", "b", "a", "c", "b", "a"};
    static const int64_t seqs[] = {1, 1, 2, 1, 2, 3};

    for (int i = 0; i < 6; i++) {
        ef_place place = append(t, streams[i], "ticked");
        CHECK_INT(i + 1, place.position);
        CHECK_INT(seqs[i], place.seq);
    }
}

CONTRACT(a_batch_over_several_streams_is_numbered_in_its_order)
{
    contract *t = *state;
    ef_new_event events[] = {event_of("a", "t"), event_of("b", "t"), event_of("a", "t")};
    ef_place places[3];

    OK(ef_journal_append(t->journal, events, 3, places, &t->err));
    CHECK_INT(1, places[0].seq);
    CHECK_INT(1, places[1].seq);
    CHECK_INT(2, places[2].seq);
    CHECK_INT(3, places[2].position);
}

CONTRACT(an_empty_batch_changes_nothing)
{
    contract *t = *state;

    OK(ef_journal_append(t->journal, NULL, 0, NULL, &t->err));
    CHECK_INT(0, head_of(t));
}

CONTRACT(a_large_batch_is_written_whole)
{
    contract *t = *state;
    enum { COUNT = 1000 };
    ef_new_event *events = calloc(COUNT, sizeof *events);
    ef_place *places = calloc(COUNT, sizeof *places);

    for (int i = 0; i < COUNT; i++)
        events[i] = event_of(i % 2 ? "odd" : "even", "counted");
    OK(ef_journal_append(t->journal, events, COUNT, places, &t->err));
    CHECK_INT(COUNT, head_of(t));
    CHECK_INT(COUNT / 2, seq_of(t, "odd"));
    CHECK_INT(COUNT / 2, places[COUNT - 2].seq);
    free(places);
    free(events);
}

CONTRACT(append_is_refused_when_the_expected_seq_is_stale)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.cancelled");

    append(t, "order-1", "order.placed");
    append(t, "order-1", "order.paid");
    event.expected_seq = ef_expect_seq(1);
    REFUSED(EF_CONFLICT, try_append(t, event, NULL));
    CHECK(t->err.has_numbers);
    CHECK_INT(1, t->err.asked);
    CHECK_INT(2, t->err.found);
    CHECK_INT(2, seq_of(t, "order-1"));
    event.expected_seq = ef_expect_seq(3);
    REFUSED(EF_CONFLICT, try_append(t, event, NULL));
    event.expected_seq = ef_expect_seq(2);
    CHECK_INT(3, append_event(t, event).seq);
}

CONTRACT(no_stream_is_expected_only_before_the_first_event)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.placed");

    event.expected_seq = ef_expect_seq(0);
    CHECK_INT(1, append_event(t, event).seq);
    REFUSED(EF_CONFLICT, try_append(t, event, NULL));
    CHECK_INT(0, t->err.asked);
    CHECK_INT(1, t->err.found);
    CHECK_INT(1, head_of(t));
}

CONTRACT(an_event_that_expects_no_seq_is_appended_at_any_seq)
{
    contract *t = *state;
    ef_new_event event = {.stream = str("order-1"), .type = str("order.placed")};

    CHECK_INT(1, append_event(t, event).seq);
    CHECK_INT(2, append_event(t, event).seq);
    event.expected_seq = (ef_expected_seq){0};
    CHECK_INT(3, append_event(t, event).seq);
}

CONTRACT(a_seq_expected_of_a_stream_that_is_not_there_is_a_conflict)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.placed");

    event.expected_seq = ef_expect_seq(1);
    REFUSED(EF_CONFLICT, try_append(t, event, NULL));
    CHECK_INT(0, t->err.found);
    CHECK_INT(0, head_of(t));
}

CONTRACT(expected_seqs_of_one_batch_follow_each_other)
{
    contract *t = *state;
    ef_new_event events[] = {event_of("a", "t"), event_of("b", "t"), event_of("a", "t")};
    ef_place places[3];

    events[0].expected_seq = ef_expect_seq(0);
    events[1].expected_seq = ef_expect_seq(0);
    events[2].expected_seq = ef_expect_seq(1);
    OK(ef_journal_append(t->journal, events, 3, places, &t->err));
    CHECK_INT(2, places[2].seq);
}

CONTRACT(a_conflict_on_one_stream_keeps_the_whole_batch_out)
{
    contract *t = *state;
    ef_new_event events[] = {event_of("new", "fresh.type"), event_of("a", "t"), event_of("b", "t")};
    ef_type_list types = {0};
    ef_place places[3];

    append(t, "a", "t");
    events[1].expected_seq = ef_expect_seq(1);
    events[2].expected_seq = ef_expect_seq(7);
    REFUSED(EF_CONFLICT, ef_journal_append(t->journal, events, 3, places, &t->err));
    CHECK_INT(1, head_of(t));
    CHECK_INT(0, seq_of(t, "new"));
    CHECK_INT(1, seq_of(t, "a"));
    CHECK_INT(1, summary(t).pending);
    REFUSED(EF_NOT_FOUND, ef_type_ls(t->journal, &EF_STR("fresh.type"), &types, &t->err));
    /* A rolled back append leaves no trace: the same append succeeds afterwards. */
    events[2].expected_seq = (ef_expected_seq){0};
    OK(ef_journal_append(t->journal, events, 3, places, &t->err));
    CHECK_INT(2, places[0].position);
    CHECK_INT(2, places[1].seq);
    EF_RELEASE(&types);
}

CONTRACT(what_is_given_is_read_back_byte_for_byte)
{
    contract *t = *state;
    ef_new_event event = {
        .tenant = str("acme"),
        .stream = str("order-1"),
        .type = str("order.placed"),
        .id = str("id-1"),
        .schema = 7,
        .time_us = 1234567890123456,
        .data =
            str(" {\"b\":1.10,\"a\" : [1e2, \"\\u00e9\xc3\xa9\"],\n\"n\":12345678901234567890} "),
        .meta = str("{\"correlation\": \"c\", \"z\":null}"),
    };
    ef_batch batch = EF_BATCH_INIT;
    const ef_event *read;

    append_event(t, event);
    OK(ef_journal_read_stream(t->journal, str("acme"), str("order-1"), 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    read = &batch.events[0];
    CHECK_STR("acme", read->tenant);
    CHECK_STR("order-1", read->stream);
    CHECK_STR("order.placed", read->type);
    CHECK_STR("id-1", read->id);
    CHECK_INT(7, read->schema);
    CHECK_INT(1234567890123456, read->time_us);
    CHECK_INT(t->now_us, read->recorded_us);
    CHECK(ef_str_equal(event.data, read->data));
    CHECK(ef_str_equal(event.meta, read->meta));
    EF_RELEASE(&batch);
}

CONTRACT(defaults_are_filled_in)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    append(t, "order-1", "order.placed");
    OK(ef_journal_read_stream(t->journal, str(""), str("order-1"), 1, 1, &batch, &t->err));
    CHECK_STR("{}", batch.events[0].data);
    CHECK_STR("{}", batch.events[0].meta);
    CHECK_INT(1, batch.events[0].schema);
    CHECK_INT(t->now_us, batch.events[0].time_us);
    EF_RELEASE(&batch);
}

CONTRACT(recorded_times_never_fall_when_the_clock_is_set_back)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;
    ef_log_query query = {0};
    int64_t first_us = t->now_us;

    append(t, "a", "t");
    pass_time(t, -3600 * SECOND);
    append(t, "a", "t");
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    CHECK_INT(first_us, batch.events[0].recorded_us);
    CHECK(batch.events[1].recorded_us >= first_us);
    EF_RELEASE(&batch);
}

/* A JSON string of `bytes` bytes, quotes counted. */
static ef_str json_of(char *room, size_t bytes)
{
    memset(room, 'x', bytes);
    room[0] = room[bytes - 1] = '"';
    return (ef_str){room, bytes};
}

CONTRACT(one_mebibyte_of_data_fits_and_one_byte_more_does_not)
{
    contract *t = *state;
    const size_t most = 1024 * 1024;
    char *room = malloc(most + 1);
    ef_new_event event = event_of("big", "t");
    ef_batch batch = EF_BATCH_INIT;

    event.data = json_of(room, most + 1);
    REFUSED(EF_TOO_LARGE, try_append(t, event, NULL));
    CHECK_INT(0, head_of(t));
    event.data = json_of(room, most);
    append_event(t, event);
    OK(ef_journal_read_stream(t->journal, str(""), str("big"), 1, 1, &batch, &t->err));
    CHECK(ef_str_equal(event.data, batch.events[0].data));
    EF_RELEASE(&batch);
    free(room);
}

CONTRACT(hashes_form_a_chain_that_verifies)
{
    contract *t = *state;
    ef_verify_result result;
    ef_batch batch = EF_BATCH_INIT;
    ef_log_query query = {0};
    ef_head head;

    for (int i = 0; i < 20; i++)
        append(t, i % 3 ? "a" : "b", "t");
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(20, result.checked);
    CHECK_INT(20, result.head);
    CHECK_INT(0, result.damaged);
    OK(ef_journal_verify(t->journal, 15, NULL, NULL, &result, &t->err));
    CHECK_INT(6, result.checked);
    OK(ef_journal_head(t->journal, &head, &t->err));
    OK(ef_journal_read_log(t->journal, &query, &batch, &t->err));
    assert_memory_equal(head.hash, batch.events[19].hash, EF_HASH_BYTES);
    assert_memory_not_equal(batch.events[18].hash, batch.events[19].hash, EF_HASH_BYTES);
    EF_RELEASE(&batch);
}

CONTRACT(an_empty_journal_verifies_and_its_head_is_zero)
{
    contract *t = *state;
    ef_verify_result result;

    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &result, &t->err));
    CHECK_INT(0, result.checked);
    CHECK_INT(0, head_of(t));
}

CONTRACT(what_was_appended_is_there_after_opening_again)
{
    contract *t = *state;

    append(t, "order-1", "order.placed");
    append(t, "order-1", "order.paid");
    if (!survives(t))
        return;
    reopen(t);
    CHECK_INT(2, head_of(t));
    CHECK_INT(3, append(t, "order-1", "order.sent").seq);
    CHECK_INT(3, summary(t).pending);
}

CONTRACT(strict_types_refuse_what_is_not_registered)
{
    contract *t = *state;
    ef_type type = {.name = str("order.placed")};

    t->options.types_strict = true;
    reopen(t);
    REFUSED(EF_UNKNOWN_TYPE, try_append(t, event_of("order-1", "order.placed"), NULL));
    CHECK_INT(0, head_of(t));
    OK(ef_type_set(t->journal, &type, &t->err));
    append(t, "order-1", "order.placed");
}

static ef_new_event event_of_tenant(const char *tenant, const char *type)
{
    ef_new_event event = event_of("s", type);

    event.tenant = str(tenant);
    return event;
}

CONTRACT(appends_of_a_tenant_create_types_up_to_a_limit_that_is_its_own)
{
    contract *t = *state;
    ef_type registered = {.name = str("d")};
    ef_new_event two[] = {event_of_tenant("mallory", "a"), event_of_tenant("mallory", "b")};
    ef_new_event over[] = {event_of_tenant("mallory", "a"), event_of_tenant("mallory", "c")};
    ef_new_event other = event_of_tenant("victim", "c"), known = event_of_tenant("mallory", "c");
    ef_place places[4][2];
    ef_error why[4] = {EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT};
    ef_append appends[] = {{two, 2, places[0], &why[0], EF_OK, false},
                           {over, 2, places[1], &why[1], EF_OK, false},
                           {&other, 1, places[2], &why[2], EF_OK, false}};

    t->options.types_max = 2;
    reopen(t);
    ef_journal_append_each(t->journal, appends, 3);
    CHECK_INT(EF_OK, appends[0].status);
    CHECK_INT(EF_UNKNOWN_TYPE, appends[1].status);
    CHECK_INT(EF_OK, appends[2].status);
    CHECK_INT(3, head_of(t));
    if (survives(t))
        reopen(t);
    REFUSED(EF_UNKNOWN_TYPE, try_append(t, event_of_tenant("mallory", "d"), NULL));
    append_event(t, known); /* a type that another tenant has created can be used */
    OK(ef_type_set(t->journal, &registered, &t->err));
    append_event(t, event_of_tenant("mallory", "d"));
    append_event(t, event_of_tenant("victim", "e"));
    REFUSED(EF_UNKNOWN_TYPE, try_append(t, event_of_tenant("victim", "f"), NULL));
}

CONTRACT(appends_made_together_are_each_all_or_none)
{
    contract *t = *state;
    ef_new_event good[] = {event_of("a", "t"), event_of("b", "t")}, bad = event_of("", "t");
    ef_new_event late[] = {event_of("b", "t"), event_of("c", "t")}, last = event_of("a", "t");
    ef_place places[4][2];
    ef_error why[5] = {EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT, EF_ERROR_INIT};
    ef_append appends[] = {{good, 2, places[0], &why[0], EF_OK, false},
                           {&bad, 1, places[1], &why[1], EF_OK, false},
                           {late, 2, places[2], &why[2], EF_OK, false},
                           {&last, 1, places[3], &why[3], EF_OK, false},
                           {NULL, 0, NULL, &why[4], EF_IO, false}};

    late[1].expected_seq = ef_expect_seq(7);
    last.expected_seq = ef_expect_seq(1); /* which the first of them has made true */
    ef_journal_append_each(t->journal, appends, 5);
    CHECK_INT(EF_OK, appends[0].status);
    CHECK_INT(EF_BAD_INPUT, appends[1].status);
    CHECK_INT(EF_CONFLICT, appends[2].status);
    CHECK_INT(EF_OK, appends[3].status);
    CHECK_INT(EF_OK, appends[4].status);
    CHECK_INT(EF_CONFLICT, why[2].status);
    CHECK_INT(2, places[0][1].position);
    CHECK_INT(3, places[3][0].position);
    CHECK_INT(2, places[3][0].seq);
    CHECK_INT(36, strlen(places[3][0].id));
    CHECK_INT(1, seq_of(t, "b"));
    CHECK_INT(3, head_of(t));
}

#define CROWD 40 /* in each of as many calls, from several threads at once */
#define CROWD_THREADS 4

static void *append_crowds(void *context)
{
    contract *t = context;

    for (int round = 0; round < 5; round++) {
        ef_new_event events[CROWD];
        ef_place places[CROWD];
        ef_append appends[CROWD];
        for (int i = 0; i < CROWD; i++) {
            events[i] = event_of(i % 2 ? "odd" : "even", "t");
            appends[i] = (ef_append){&events[i], 1, &places[i], NULL, EF_IO, false};
        }
        ef_journal_append_each(t->journal, appends, CROWD);
        for (int i = 0; i < CROWD; i++)
            if (appends[i].status != EF_OK || (i > 1 && places[i].seq <= places[i - 2].seq))
                return (void *)"an append failed, or was written before the one it came after";
    }
    return NULL;
}

CONTRACT(crowds_of_several_threads_are_written_whole_and_in_order)
{
    contract *t = *state;
    pthread_t threads[CROWD_THREADS];

    for (int i = 0; i < CROWD_THREADS; i++)
        CHECK_INT(0, pthread_create(&threads[i], NULL, append_crowds, t));
    for (int i = 0; i < CROWD_THREADS; i++) {
        void *wrong = NULL;
        CHECK_INT(0, pthread_join(threads[i], &wrong));
        CHECK(wrong == NULL);
    }
    CHECK_INT(CROWD_THREADS * 5 * CROWD, head_of(t));
    CHECK_INT(CROWD_THREADS * 5 * CROWD / 2, seq_of(t, "odd"));
}

CONTRACT(facts_count_what_this_handle_has_done)
{
    contract *t = *state;
    ef_store_facts facts;

    append(t, "a", "t");
    append(t, "b", "t");
    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK_TEXT(t->backend, facts.backend);
    CHECK_INT(PARTITIONS, facts.partitions);
    CHECK_INT(2, facts.streams);
    CHECK_INT(2, facts.appended);
    CHECK(facts.commits >= 1);
    CHECK(strlen(facts.journal_id) > 0);
    CHECK(strlen(facts.durability) > 0);
}

CONTRACT_MAIN(CASE(the_first_event_of_a_journal_is_seq_1_at_position_1),
              CASE(an_id_is_made_when_the_caller_gives_none),
              CASE(positions_are_dense_over_interleaved_streams),
              CASE(a_batch_over_several_streams_is_numbered_in_its_order),
              CASE(an_empty_batch_changes_nothing), CASE(a_large_batch_is_written_whole),
              CASE(append_is_refused_when_the_expected_seq_is_stale),
              CASE(no_stream_is_expected_only_before_the_first_event),
              CASE(an_event_that_expects_no_seq_is_appended_at_any_seq),
              CASE(a_seq_expected_of_a_stream_that_is_not_there_is_a_conflict),
              CASE(expected_seqs_of_one_batch_follow_each_other),
              CASE(a_conflict_on_one_stream_keeps_the_whole_batch_out),
              CASE(what_is_given_is_read_back_byte_for_byte), CASE(defaults_are_filled_in),
              CASE(recorded_times_never_fall_when_the_clock_is_set_back),
              CASE(one_mebibyte_of_data_fits_and_one_byte_more_does_not),
              CASE(hashes_form_a_chain_that_verifies),
              CASE(an_empty_journal_verifies_and_its_head_is_zero),
              CASE(what_was_appended_is_there_after_opening_again),
              CASE(strict_types_refuse_what_is_not_registered),
              CASE(appends_of_a_tenant_create_types_up_to_a_limit_that_is_its_own),
              CASE(appends_made_together_are_each_all_or_none),
              CASE(crowds_of_several_threads_are_written_whole_and_in_order),
              CASE(facts_count_what_this_handle_has_done))
