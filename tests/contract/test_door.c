/*
 * The door: what is refused, with which status, and what the message names.
 */
#include "contract.h"

#include <stdlib.h>

static void says(contract *t, const char *words)
{
    if (!strstr(t->err.text, words))
        print_error("\"%s\" is not in \"%s\"\n", words, t->err.text);
    CHECK(strstr(t->err.text, words) != NULL);
}

static ef_status open_url(contract *t, const char *url)
{
    ef_journal_options options = {.url = url, .clock = &t->clock};
    ef_journal *journal = (ef_journal *)t;
    ef_status st = ef_journal_open(&options, &journal, &t->err);

    CHECK(st == EF_OK || journal == NULL);
    ef_journal_close(journal);
    return st;
}

CONTRACT(a_url_names_its_store)
{
    contract *t = *state;

    OK(open_url(t, "memory:"));
    REFUSED(EF_BAD_INPUT, open_url(t, "data/journal.db"));
    says(t, "sqlite:data/journal.db");
    REFUSED(EF_BAD_INPUT, open_url(t, "mongo:thing"));
    says(t, "mongo");
    says(t, "sqlite:PATH");
    says(t, "memory:");
    REFUSED(EF_BAD_INPUT, open_url(t, "memory:x"));
    REFUSED(EF_BAD_INPUT, open_url(t, "sqlite:"));
    REFUSED(EF_BAD_INPUT, open_url(t, ""));
    REFUSED(EF_BAD_INPUT, open_url(t, NULL));
}

CONTRACT(options_out_of_range_are_refused)
{
    contract *t = *state;
    ef_journal_options options = {.url = "memory:", .partitions = 1025};
    ef_journal *journal;

    REFUSED(EF_BAD_INPUT, ef_journal_open(&options, &journal, &t->err));
    says(t, "partitions");
    options.partitions = 0;
    options.busy_ms = -1;
    REFUSED(EF_BAD_INPUT, ef_journal_open(&options, &journal, &t->err));
    says(t, "busy_ms");
    REFUSED(EF_BAD_INPUT, ef_journal_open(NULL, &journal, &t->err));
    REFUSED(EF_BAD_INPUT, ef_journal_open(&options, NULL, &t->err));
    ef_journal_close(NULL);
}

CONTRACT(a_null_is_named)
{
    contract *t = *state;
    ef_new_event event = event_of("a", "t");
    ef_batch batch = EF_BATCH_INIT;
    ef_place place;

    REFUSED(EF_BAD_INPUT, ef_journal_append(NULL, &event, 1, &place, &t->err));
    says(t, "journal");
    REFUSED(EF_BAD_INPUT, ef_journal_append(t->journal, NULL, 1, &place, &t->err));
    says(t, "events");
    REFUSED(EF_BAD_INPUT, ef_journal_append(t->journal, &event, 1, NULL, &t->err));
    says(t, "out_places");
    REFUSED(EF_BAD_INPUT, ef_journal_read_log(t->journal, NULL, &batch, &t->err));
    says(t, "query");
    REFUSED(EF_BAD_INPUT, ef_journal_head(t->journal, NULL, &t->err));
    event.stream = (ef_str){NULL, 5};
    REFUSED(EF_BAD_INPUT, ef_journal_append(t->journal, &event, 1, &place, &t->err));
    says(t, "stream");
    CHECK_INT(0, head_of(t));
    EF_RELEASE(&batch);
}

static void refuses(contract *t, ef_new_event event, ef_status status, const char *words)
{
    REFUSED(status, try_append(t, event, NULL));
    says(t, words);
    CHECK_INT(0, head_of(t));
}

CONTRACT(every_field_of_an_event_is_checked)
{
    contract *t = *state;
    ef_new_event good = event_of("a", "t"), bad;
    char long_name[256];

    memset(long_name, 'n', sizeof long_name);
    bad = good, bad.stream = str(""), refuses(t, bad, EF_BAD_INPUT, "stream");
    bad = good, bad.type = str(""), refuses(t, bad, EF_BAD_INPUT, "type");
    bad = good, bad.type = str("a b"), refuses(t, bad, EF_BAD_INPUT, "type");
    bad = good, bad.tenant = (ef_str){"a\0b", 3}, refuses(t, bad, EF_BAD_INPUT, "tenant");
    bad = good, bad.stream = str("\xff"), refuses(t, bad, EF_BAD_INPUT, "stream");
    bad = good, bad.id = str("\xed\xa0\x80"), refuses(t, bad, EF_BAD_INPUT, "id");
    bad = good, bad.expected_seq = ef_expect_seq(-1);
    refuses(t, bad, EF_BAD_INPUT, "expected_seq");
    bad.expected_seq = ef_expect_seq(INT64_MAX), refuses(t, bad, EF_BAD_INPUT, "expected_seq");
    bad = good, bad.schema = -1, refuses(t, bad, EF_BAD_INPUT, "schema");
    bad = good, bad.time_us = -1, refuses(t, bad, EF_BAD_INPUT, "time_us");
    bad = good, bad.time_us = INT64_C(253402300800000000);
    refuses(t, bad, EF_BAD_INPUT, "time_us");
    bad = good, bad.data = str("{\"a\":"), refuses(t, bad, EF_BAD_JSON, "data");
    bad = good, bad.data = str("{\"a\":1,\"a\":2}"), refuses(t, bad, EF_BAD_JSON, "data");
    bad = good, bad.meta = str("[]"), refuses(t, bad, EF_BAD_INPUT, "meta");
    bad = good, bad.stream = (ef_str){long_name, 256};
    CHECK(try_append(t, bad, NULL) != EF_OK);
    CHECK_INT(0, head_of(t));
}

CONTRACT(the_edges_of_the_ranges_are_allowed)
{
    contract *t = *state;
    ef_new_event event = event_of("a", "t");
    ef_batch batch = EF_BATCH_INIT;

    event.schema = INT32_MAX;
    event.time_us = INT64_C(253402300799999999);
    event.data = str("null");
    append_event(t, event);
    OK(ef_journal_read_stream(t->journal, str(""), str("a"), 1, 1, &batch, &t->err));
    CHECK_INT(INT32_MAX, batch.events[0].schema);
    CHECK_INT(INT64_C(253402300799999999), batch.events[0].time_us);
    CHECK_STR("null", batch.events[0].data);
    EF_RELEASE(&batch);
}

CONTRACT(a_message_about_a_batch_says_which_event)
{
    contract *t = *state;
    ef_new_event events[] = {event_of("a", "t"), event_of("b", "t"), event_of("order-1", "t")};
    ef_place places[3];
    size_t index = 9;

    events[2].data = str("{]");
    REFUSED(EF_BAD_JSON, ef_journal_append(t->journal, events, 3, places, &t->err));
    says(t, "event 3 (stream \"order-1\"): data: ");
    REFUSED(EF_BAD_JSON, ef_event_check(events, 3, &index, &t->err));
    CHECK_INT(2, index);
    OK(ef_event_check(events, 2, &index, &t->err));
    CHECK_INT(0, head_of(t));
}

CONTRACT(an_append_has_a_limit_of_events_and_of_bytes)
{
    contract *t = *state;
    enum { MOST = 10000 };
    ef_new_event *events = calloc(MOST + 1, sizeof *events);
    ef_place *places = calloc(MOST + 1, sizeof *places);
    const size_t megabyte = 1024 * 1024;
    char *room = malloc(megabyte);

    for (int i = 0; i <= MOST; i++)
        events[i] = event_of("a", "t");
    REFUSED(EF_TOO_LARGE, ef_journal_append(t->journal, events, MOST + 1, places, &t->err));
    memset(room, 'x', megabyte);
    room[0] = room[megabyte - 1] = '"';
    for (int i = 0; i < 64; i++)
        events[i].data = (ef_str){room, megabyte};
    REFUSED(EF_TOO_LARGE, ef_journal_append(t->journal, events, 64, places, &t->err));
    CHECK_INT(0, head_of(t));
    free(room);
    free(places);
    free(events);
}

CONTRACT(a_journal_opened_read_only_refuses_to_write)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    ef_worker worker = {.id = str("w")};
    ef_type type = {.name = str("t")};
    int64_t token;

    append(t, "a", "t");
    t->options.read_only = true;
    reopen(t);
    CHECK_INT(survives(t) ? 1 : 0, head_of(t));
    REFUSED(EF_MISUSE, try_append(t, event_of("a", "t"), NULL));
    says(t, "read-only");
    REFUSED(EF_MISUSE, ef_type_set(t->journal, &type, &t->err));
    REFUSED(EF_MISUSE, worker_heartbeat(t->journal, &worker, 1000, &t->err));
    REFUSED(EF_MISUSE,
            ef__lease_acquire_one(t->journal, &key, str("w"), 1000, &token, NULL, &t->err));
}

CONTRACT(lists_refuse_limits_and_cursors_that_are_none)
{
    contract *t = *state;
    ef_stream_list streams = {0};
    ef_batch batch = EF_BATCH_INIT;
    ef_log_query query = {.limit = EF_READ_LIMIT_MAX + 1};

    REFUSED(EF_BAD_INPUT, ef_journal_read_log(t->journal, &query, &batch, &t->err));
    REFUSED(EF_BAD_INPUT,
            ef_journal_read_stream(t->journal, str(""), str("a"), 0, 1, &batch, &t->err));
    says(t, "from_seq");
    REFUSED(EF_BAD_INPUT,
            ef_stream_ls(t->journal, str(""), false, str("nonsense"), 1, &streams, &t->err));
    EF_RELEASE(&streams);
    EF_RELEASE(&batch);
}

CONTRACT(a_token_is_read_back_and_other_text_is_not)
{
    contract *t = *state;
    char token[EF_TOKEN_MAX];
    ef_token read;

    ef_token_format(INT64_C(1234567890123), token);
    OK(ef_token_parse(str(token), &read, &t->err));
    CHECK_INT(INT64_C(1234567890123), read.position);
    CHECK(!read.by_stream && !read.first);
    REFUSED(EF_BAD_INPUT, ef_token_parse(str("12"), &read, &t->err));
    REFUSED(EF_BAD_INPUT, ef_token_parse(str(""), &read, &t->err));
    REFUSED(EF_BAD_INPUT, ef_token_parse(str("s..YQ.7.9."), &read, &t->err)); /* cut */
    REFUSED(EF_BAD_INPUT, ef_token_parse(str("s..YQ.0.9.s"), &read, &t->err));
    REFUSED(EF_BAD_INPUT, ef_token_parse(str("s...1.9.s"), &read, &t->err));
    REFUSED(EF_BAD_INPUT, ef_token_parse(str("s.!!!!.YQ.1.9.s"), &read, &t->err));
}

CONTRACT(the_token_of_an_append_covers_all_its_events)
{
    contract *t = *state;
    ef_new_event events[] = {{.tenant = str("t\xc3\xa4"), .stream = str("a/b+c d")},
                             {.tenant = str("t\xc3\xa4"), .stream = str("a/b+c d")}};
    ef_place places[] = {{.seq = 7, .position = 11}, {.seq = 8, .position = 12}};
    char token[EF_TOKEN_MAX];
    ef_token read;

    ef_token_of(events, places, 2, token); /* one stream */
    CHECK_TEXT("s.dMOk.YS9iK2MgZA.8.12.s", token);
    OK(ef_token_parse(str(token), &read, &t->err));
    CHECK(read.by_stream);
    CHECK_TEXT("t\xc3\xa4", read.tenant);
    CHECK_TEXT("a/b+c d", read.stream);
    CHECK_INT(8, read.seq);
    CHECK_INT(12, read.position);
    events[1].stream = str("b"); /* several */
    ef_token_of(events, places, 2, token);
    OK(ef_token_parse(str(token), &read, &t->err));
    CHECK(!read.by_stream);
    CHECK_INT(11, read.first);
    CHECK_INT(12, read.position);
    places[1].position = 11 + EF_TOKEN_SPAN_MAX; /* an old duplicate among them */
    ef_token_of(events, places, 2, token);
    OK(ef_token_parse(str(token), &read, &t->err));
    CHECK_INT(0, read.first);
    CHECK_INT(11 + EF_TOKEN_SPAN_MAX, read.position);
}

CONTRACT(the_token_of_the_longest_names_fits)
{
    contract *t = *state;
    char name[256] = "", token[EF_TOKEN_MAX];
    ef_new_event event = {.tenant = {name, 255}, .stream = {name, 255}};
    ef_place place = {.seq = INT64_C(999999999999999999), .position = INT64_C(999999999999999999)};
    ef_token read;

    memset(name, 'n', 255);
    ef_token_of(&event, &place, 1, token);
    OK(ef_token_parse(str(token), &read, &t->err));
    CHECK_TEXT(name, read.stream);
    CHECK_INT(place.seq, read.seq);
}

CONTRACT(enums_have_words_and_words_are_read_back)
{
    CHECK_TEXT("audit_only", ef_name_of(EF_NAMES_INTENT, EF_INTENT_AUDIT_ONLY));
    CHECK_INT(EF_INTENT_REPLAY_ONLY, ef_name_find(EF_NAMES_INTENT, EF_STR("replay_only")));
    CHECK_INT(-1, ef_name_find(EF_NAMES_INTENT, EF_STR("never")));
    CHECK_INT(EF_ROW_DEAD, ef_name_find(EF_NAMES_ROW_STATUS, EF_STR("  DEAD\n")));
    CHECK_INT(-1, ef_name_find(EF_NAMES_ROW_STATUS, EF_STR("done")));
    CHECK_INT(-1, ef_name_find(EF_NAMES_ROW_STATUS, EF_STR("")));
    CHECK_TEXT("processing", ef_name_of(EF_NAMES_ROW_STATUS, EF_ROW_PROCESSING));
    CHECK_TEXT("run", ef_name_of(EF_NAMES_LEASE_KIND, EF_LEASE_RUN));
    CHECK_TEXT("seed", ef_name_of(EF_NAMES_RUN_MODE, EF_RUN_SEED));
    CHECK_TEXT("cancelled", ef_name_of(EF_NAMES_RUN_STATE, EF_RUN_CANCELLED));
    CHECK_TEXT("unknown", ef_name_of(EF_NAMES_RUN_STATE, 99));
}

CONTRACT_MAIN(CASE(a_url_names_its_store), CASE(options_out_of_range_are_refused),
              CASE(a_null_is_named), CASE(every_field_of_an_event_is_checked),
              CASE(the_edges_of_the_ranges_are_allowed),
              CASE(a_message_about_a_batch_says_which_event),
              CASE(an_append_has_a_limit_of_events_and_of_bytes),
              CASE(a_journal_opened_read_only_refuses_to_write),
              CASE(lists_refuse_limits_and_cursors_that_are_none),
              CASE(a_token_is_read_back_and_other_text_is_not),
              CASE(the_token_of_an_append_covers_all_its_events),
              CASE(the_token_of_the_longest_names_fits),
              CASE(enums_have_words_and_words_are_read_back))
