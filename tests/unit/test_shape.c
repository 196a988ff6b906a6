/*
 * test_shape.c - the objects of the contract: the keys and their order, and that what is written is
 * read back.
 */
#include "../../src/shape/shape.h"

#include "test.h"

#include <stdlib.h>

static ef__buf out;

static const char *written(const ef__shape *shape, const void *thing)
{
    ef__json_writer w = EF__JSON_WRITER(&out);

    ef__buf_release(&out);
    out = (ef__buf)EF__BUF_INIT(65536);
    ef__shape_write(&w, shape, thing);
    return out.ptr;
}

/* What is written, read and written again is the same text: but for the times that are left. */
static void check_round_trip(const ef__shape *shape, const void *thing)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__json *json = NULL;
    ef_error err = EF_ERROR_INIT;
    void *back = calloc(1, shape->size);
    char *first = strdup(written(shape, thing));

    CHECK_STATUS(EF_OK, ef__json_parse(ef_str_from(first), 65536, &arena, &json, &err), &err);
    CHECK_STATUS(EF_OK, ef__shape_read(json, shape, back, &err), &err);
    CHECK_TEXT(first, written(shape, back));
    ef__arena_release(&arena);
    ef__buf_release(&out);
    free(first);
    free(back);
}

TEST(an_event_has_the_keys_of_the_contract_in_their_order)
{
    ef_event event = {.tenant = EF_STR("t"),
                      .stream = EF_STR("s \"1\""),
                      .seq = 2,
                      .position = 3,
                      .id = EF_STR("i"),
                      .type = EF_STR("a.b"),
                      .schema = 1,
                      .time_us = 1000001,
                      .recorded_us = 2000002,
                      .data = EF_STR("{ \"n\":1.50 }"),
                      .meta = EF_STR("")};

    CHECK_TEXT("{\"tenant\":\"t\",\"stream\":\"s \\\"1\\\"\",\"seq\":2,\"position\":3,\"id\":\"i\","
               "\"type\":\"a.b\",\"schema\":1,\"time\":\"1970-01-01T00:00:01.000001Z\","
               "\"recorded_at\":\"1970-01-01T00:00:02.000002Z\",\"data\":{ \"n\":1.50 },"
               "\"meta\":{}}",
               written(&ef__shape_event, &event));
    ef__buf_release(&out);
}

TEST(what_is_written_is_read_back)
{
    ef_event event = {.stream = EF_STR("é\t"),
                      .seq = INT64_MAX,
                      .data = EF_STR("[1,\"x\"]"),
                      .meta = EF_STR("{}"),
                      .type = EF_STR("t")};
    ef_row row = {.lane = EF_STR("*"),
                  .stream = EF_STR("s"),
                  .seq = 1,
                  .status = EF_ROW_DEAD,
                  .last_error = EF_STR("line\nbreak"),
                  .next_attempt_us = 5};
    ef_projection projection = {.name = EF_STR("p"),
                                .by_log = true,
                                .state = EF_STR("live"),
                                .lag_us = 12345678000,
                                .digest = "00ff"};
    ef_run run = {.id = EF_STR("r"),
                  .mode = EF_RUN_VERIFY,
                  .state = EF_RUN_FAILED,
                  .total = -1,
                  .cancel = true,
                  .detail = EF_STR("{\"views\":1}")};
    ef_type type = {.name = EF_STR("t"), .intent = EF_INTENT_AUDIT_ONLY, .publish = true};
    ef_lease free_lease = {.key = {EF_LEASE_SCOPE, EF_STR("a:b:1"), -1}, .token = 7};
    ef_partition partition = {.number = 130, .pending = 4};

    check_round_trip(&ef__shape_event, &event);
    check_round_trip(&ef__shape_row, &row);
    check_round_trip(&ef__shape_projection, &projection);
    check_round_trip(&ef__shape_run, &run);
    check_round_trip(&ef__shape_type, &type);
    check_round_trip(&ef__shape_lease, &free_lease);
    check_round_trip(&ef__shape_partition, &partition);
}

static ef_status read_row(const char *text, ef_row *row, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__json *json = NULL;
    ef_status st = ef__json_parse(ef_str_from(text), 65536, &arena, &json, err);

    if (st == EF_OK)
        st = ef__shape_read(json, &ef__shape_row, row, err);
    ef__arena_release(&arena);
    return st;
}

TEST(reading_passes_over_unknown_keys_and_refuses_wrong_kinds)
{
    ef_row row;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, read_row("{\"seq\":3,\"new\":[1]}", &row, &err), &err);
    CHECK_INT(3, row.seq);
    CHECK_INT(EF_BAD_JSON, read_row("[]", &row, &err));
    CHECK_INT(EF_BAD_JSON, read_row("{\"seq\":\"3\"}", &row, &err));
    CHECK_INT(EF_BAD_JSON, read_row("{\"seq\":3.5}", &row, &err));
    CHECK_INT(EF_BAD_JSON, read_row("{\"status\":\"gone\"}", &row, &err));
    CHECK_INT(EF_BAD_JSON, read_row("{\"attempt_count\":3000000000}", &row, &err));
    CHECK_INT(EF_BAD_JSON, read_row("{\"updated_at\":\"yesterday\"}", &row, &err));
}

TEST(a_problem_says_what_was_asked_and_found)
{
    ef_error err = EF_ERROR_INIT;
    ef__json_writer w = EF__JSON_WRITER(&out);

    out = (ef__buf)EF__BUF_INIT(65536);
    (void)ef_fail_numbers(&err, EF_CONFLICT, 1, 2, "order-1 is at seq 2, not 1");
    ef__problem_write(&w, &err, "read it again");
    CHECK_TEXT(
        "{\"type\":\"urn:everfold:problem:seq_conflict\",\"title\":\"seq "
        "conflict\",\"status\":409,\"code\":\"seq_conflict\",\"detail\":\"order-1 is at seq 2, "
        "not 1\",\"asked\":1,\"found\":2,\"hint\":\"read it again\"}",
        out.ptr);
    ef__buf_release(&out);
}

TEST_MAIN(TEST_CASE(an_event_has_the_keys_of_the_contract_in_their_order),
          TEST_CASE(what_is_written_is_read_back),
          TEST_CASE(reading_passes_over_unknown_keys_and_refuses_wrong_kinds),
          TEST_CASE(a_problem_says_what_was_asked_and_found))
