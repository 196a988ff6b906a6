/*
 * What back ends share (src/journal/event.c): the bytes of an event, its seal, sameness, types.
 */
#include "../../src/journal/journal.h"
#include "test.h"

#define SCRATCH_BYTES 4096

static ef_event sample(void)
{
    return (ef_event){.tenant = EF_STR("t"),
                      .stream = EF_STR("order-1"),
                      .seq = 2,
                      .position = 258,
                      .id = EF_STR("id"),
                      .type = EF_STR("placed"),
                      .schema = 3,
                      .time_us = 4,
                      .recorded_us = -1,
                      .data = EF_STR("{}"),
                      .meta = EF_STR("[]")};
}

TEST(the_bytes_of_an_event_are_these_for_good)
{
    static const char expected[] = "\x01"
                                   "\x02\0\0\0\0\0\0\0"
                                   "\x02\x01\0\0\0\0\0\0"
                                   "\x03\0\0\0"
                                   "\x04\0\0\0\0\0\0\0"
                                   "\xff\xff\xff\xff\xff\xff\xff\xff"
                                   "\x01\0\0\0"
                                   "t"
                                   "\x07\0\0\0"
                                   "order-1"
                                   "\x02\0\0\0"
                                   "id"
                                   "\x06\0\0\0"
                                   "placed"
                                   "\x02\0\0\0{}"
                                   "\x02\0\0\0[]";
    ef__buf bytes = EF__BUF_INIT(SCRATCH_BYTES);
    ef_event event = sample();

    CHECK(ef__event_encode(&event, &bytes));
    CHECK_INT(sizeof expected - 1, bytes.len);
    assert_memory_equal(expected, bytes.ptr, bytes.len);
    ef__buf_release(&bytes);
}

static void seal_of(const ef_event *event, uint8_t before, uint8_t out[EF_HASH_BYTES],
                    uint64_t *sum)
{
    ef__buf scratch = EF__BUF_INIT(SCRATCH_BYTES);
    uint8_t chain[EF_HASH_BYTES] = {before};

    CHECK(ef__event_seal(chain, event, &scratch, out, sum));
    ef__buf_release(&scratch);
}

TEST(a_seal_changes_with_every_field_and_with_the_hash_before_it)
{
    ef_event first = sample(), others[12];
    uint8_t hash[EF_HASH_BYTES], other[EF_HASH_BYTES];
    uint64_t sum, other_sum;

    for (int i = 0; i < 12; i++)
        others[i] = first;
    others[0].tenant = EF_STR("to");
    others[1].stream = EF_STR("rder-1");
    others[2].seq = 3;
    others[3].position = 259;
    others[4].id = EF_STR("i");
    others[5].type = EF_STR("paid");
    others[6].schema = 1;
    others[7].time_us = 5;
    others[8].recorded_us = 0;
    others[9].data = EF_STR("{ }");
    others[10].meta = EF_STR("{}");
    others[11].tenant = EF_STR("torder-1"), others[11].stream = EF_STR("");
    seal_of(&first, 0, hash, &sum);
    for (int i = 0; i < 12; i++) {
        seal_of(&others[i], 0, other, &other_sum);
        assert_memory_not_equal(hash, other, EF_HASH_BYTES);
        CHECK(sum != other_sum);
    }
    seal_of(&first, 1, other, &other_sum);
    assert_memory_not_equal(hash, other, EF_HASH_BYTES);
    CHECK(sum == other_sum); /* of the event alone */
    seal_of(&first, 0, other, NULL);
    assert_memory_equal(hash, other, EF_HASH_BYTES);
}

TEST(an_event_that_does_not_fit_is_not_sealed)
{
    ef__buf scratch = EF__BUF_INIT(16);
    uint8_t chain[EF_HASH_BYTES] = {0}, out[EF_HASH_BYTES];
    ef_event event = sample();

    CHECK(!ef__event_seal(chain, &event, &scratch, out, NULL));
    ef__buf_release(&scratch);
}

TEST(sameness_looks_at_the_content_and_at_a_time_that_was_given)
{
    ef_event stored = sample();
    ef__arrival arrival = {.event = {.tenant = stored.tenant,
                                     .stream = stored.stream,
                                     .type = stored.type,
                                     .id = stored.id,
                                     .schema = 3,
                                     .time_us = 99,
                                     .expected_seq = ef_expect_seq(7),
                                     .data = stored.data,
                                     .meta = stored.meta}};

    CHECK(ef__event_same(&arrival, &stored));
    arrival.time_given = true;
    CHECK(!ef__event_same(&arrival, &stored));
    arrival.event.time_us = 4;
    CHECK(ef__event_same(&arrival, &stored));
    arrival.event.data = EF_STR("{ }");
    CHECK(!ef__event_same(&arrival, &stored));
}

TEST(a_type_matches_names_prefixes_and_lists_of_them)
{
    ef_str type = EF_STR("order.placed");

    CHECK(ef__type_matches(type, EF_STR("")));
    CHECK(ef__type_matches(type, EF_STR("*")));
    CHECK(ef__type_matches(type, EF_STR("order.placed")));
    CHECK(ef__type_matches(type, EF_STR("order.*")));
    CHECK(ef__type_matches(type, EF_STR("cart.filled, order.placed")));
    CHECK(ef__type_matches(type, EF_STR("cart.*,order.placed*")));
    CHECK(!ef__type_matches(type, EF_STR("order")));
    CHECK(!ef__type_matches(type, EF_STR("order.placed.twice*")));
    CHECK(!ef__type_matches(type, EF_STR("Order.*")));
    CHECK(!ef__type_matches(type, EF_STR(",")));
}

TEST_MAIN(TEST_CASE(the_bytes_of_an_event_are_these_for_good),
          TEST_CASE(a_seal_changes_with_every_field_and_with_the_hash_before_it),
          TEST_CASE(an_event_that_does_not_fit_is_not_sealed),
          TEST_CASE(sameness_looks_at_the_content_and_at_a_time_that_was_given),
          TEST_CASE(a_type_matches_names_prefixes_and_lists_of_them))
