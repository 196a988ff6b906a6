#include "../../src/core/placement.h"

#include "test.h"

static const ef_str none = {NULL, 0};

static int32_t set_count(const ef__partition_set *set)
{
    int32_t count = 0;

    for (int32_t p = ef__partition_set_next(set, 0); p >= 0; p = ef__partition_set_next(set, p + 1))
        count++;
    return count;
}

/* CRC-32 bit by bit, independent of the library, because stored partitions depend on it. */
static uint32_t crc_by_hand(const char *text)
{
    uint32_t crc = UINT32_MAX;

    for (; *text; text++) {
        crc ^= (unsigned char)*text;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
    }
    return ~crc;
}

TEST(a_partition_is_the_crc32_of_the_stream_modulo_the_count)
{
    static const char *const streams[] = {"order-1", "order-2", "campaign", "123456789",
                                          "\xc3\xa9"};

    CHECK_INT(0xCBF43926, crc_by_hand("123456789"));
    for (size_t i = 0; i < 5; i++) {
        for (int32_t count = 1; count <= EF_LIMIT_PARTITIONS; count++)
            CHECK_INT(crc_by_hand(streams[i]) % (uint32_t)count,
                      ef__partition_of(none, ef_str_from(streams[i]), count));
    }
}

TEST(one_partition_or_fewer_is_partition_0)
{
    for (int32_t count = -2; count <= 1; count++)
        CHECK_INT(0, ef__partition_of(EF_STR("t"), EF_STR("order-1"), count));
}

TEST(a_character_moved_between_tenant_and_stream_counts)
{
    CHECK(ef__partition_of(EF_STR("ab"), EF_STR("c"), EF_LIMIT_PARTITIONS) !=
          ef__partition_of(EF_STR("b"), EF_STR("ca"), EF_LIMIT_PARTITIONS));
    CHECK(ef__partition_of(EF_STR("t"), EF_STR("s"), EF_LIMIT_PARTITIONS) !=
          ef__partition_of(none, EF_STR("st"), EF_LIMIT_PARTITIONS));
    CHECK(ef__partition_of(EF_STR("t"), EF_STR("s"), EF_LIMIT_PARTITIONS) !=
          ef__partition_of(EF_STR("u"), EF_STR("s"), EF_LIMIT_PARTITIONS));
}

/* Stored with every outbox row: these numbers may never change. */
TEST(partitions_of_known_names_stay_as_they_are)
{
    CHECK_INT(15, ef__partition_of(none, EF_STR("order-1"), 16));
    CHECK_INT(159, ef__partition_of(EF_STR("acme"), EF_STR("order-1"), 1000));
}

TEST(streams_spread_evenly_over_the_partitions)
{
    int counts[16] = {0};
    char name[32];

    for (int i = 0; i < 16000; i++) {
        (void)snprintf(name, sizeof(name), "order-%d", i);
        counts[ef__partition_of(EF_STR("acme"), ef_str_from(name), 16)]++;
    }
    for (int p = 0; p < 16; p++)
        CHECK(counts[p] > 800 && counts[p] < 1200);
}

TEST(every_label_is_read_back_as_its_partition)
{
    char label[EF__PARTITION_LABEL_MAX], expected[16];

    for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        int32_t back = -1;
        CHECK(ef__partition_label_format(p, EF_LIMIT_PARTITIONS, label));
        (void)snprintf(expected, sizeof(expected), "p%02d", (int)p);
        CHECK_TEXT(expected, label);
        CHECK(ef__partition_label_parse(ef_str_from(label), EF_LIMIT_PARTITIONS, &back));
        CHECK_INT(p, back);
        CHECK(ef__partition_label_parse(ef_str_from(label), p + 1, &back));
        CHECK(!ef__partition_label_parse(ef_str_from(label), p, &back));
    }
}

TEST(a_single_partition_is_p00)
{
    char label[EF__PARTITION_LABEL_MAX];

    CHECK(ef__partition_label_format(0, 1, label));
    CHECK_TEXT("p00", label);
}

TEST(a_partition_out_of_range_has_no_label)
{
    static const int32_t partitions[] = {-1, INT32_MIN, 16, INT32_MAX};
    char label[EF__PARTITION_LABEL_MAX];

    for (size_t i = 0; i < 4; i++) {
        CHECK(!ef__partition_label_format(partitions[i], 16, label));
        CHECK_TEXT("", label);
    }
    CHECK(!ef__partition_label_format(0, 0, label));
    CHECK(ef__partition_label_format(INT32_MAX - 1, INT32_MAX, label));
    CHECK_TEXT("p2147483646", label);
}

TEST(what_is_not_written_as_we_write_it_is_no_label)
{
    static const char *const wrong[] = {"",
                                        "p",
                                        "p1",
                                        "P01",
                                        "01",
                                        "p001",
                                        "p1a",
                                        "p 1",
                                        "p-1",
                                        "p+1",
                                        "p01 ",
                                        " p01",
                                        "q01",
                                        "p0",
                                        "p010",
                                        "p100",
                                        "pp1",
                                        "p99",
                                        "p99999999999999999999"};
    int32_t out = 42;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(!ef__partition_label_parse(ef_str_from(wrong[i]), 16, &out));
    CHECK(!ef__partition_label_parse((ef_str){"p0\0001", 4}, 16, &out));
    CHECK_INT(42, out);
}

/* With n workers every partition has exactly one owner, loads differ by one at most, and the owner
 * of partition i is the worker at index i mod n, in whatever order the list comes. */
TEST(every_partition_is_the_target_of_exactly_one_worker)
{
    static const ef_str ids[] = {{"w1", 2},  {"w", 1}, {"x", 1}, {"a", 1},
                                 {"w10", 3}, {"W", 1}, {"", 0}};
    static const int order[] = {6, 5, 3, 1, 0, 4, 2}; /* "" W a w w1 w10 x */
    enum { WORKERS = 7 };

    for (size_t n = 1; n <= WORKERS; n++) {
        size_t sorted[WORKERS], live = 0;
        for (size_t i = 0; i < WORKERS; i++)
            if ((size_t)order[i] < n)
                sorted[live++] = (size_t)order[i];
        for (int32_t partitions = 0; partitions <= 20; partitions++) {
            for (size_t i = 0; i < n; i++) {
                ef__partition_set mine = ef__placement_targets(ids, n, ids[sorted[i]], partitions);
                for (int32_t p = 0; p < partitions; p++)
                    CHECK_INT((size_t)p % n == i, ef__partition_set_has(&mine, p));
                CHECK_INT(partitions / (int)n + ((size_t)(partitions % (int)n) > i),
                          set_count(&mine));
            }
        }
    }
}

TEST(a_worker_counts_itself_before_it_is_seen)
{
    ef_str others[] = {EF_STR("a"), EF_STR("c")};
    ef__partition_set mine = ef__placement_targets(others, 2, EF_STR("b"), 6);

    CHECK_INT(2, set_count(&mine));
    CHECK(ef__partition_set_has(&mine, 1));
    CHECK(ef__partition_set_has(&mine, 4));
}

TEST(a_single_worker_gets_all_and_zero_partitions_give_none)
{
    ef__partition_set all = ef__placement_targets(NULL, 0, EF_STR("a"), EF_LIMIT_PARTITIONS);
    ef__partition_set no = ef__placement_targets(NULL, 0, EF_STR("a"), 0);
    ef__partition_set negative = ef__placement_targets(NULL, 0, EF_STR("a"), -1);

    CHECK_INT(EF_LIMIT_PARTITIONS, set_count(&all));
    CHECK_INT(0, set_count(&no));
    CHECK_INT(0, set_count(&negative));
}

TEST(more_workers_than_partitions_leaves_some_with_none)
{
    ef_str workers[] = {EF_STR("a"), EF_STR("b"), EF_STR("c")};
    ef__partition_set c = ef__placement_targets(workers, 3, EF_STR("c"), 2);

    CHECK_INT(0, set_count(&c));
    CHECK_INT(-1, ef__partition_set_next(&c, 0));
}

TEST(a_partition_no_set_can_hold_is_in_none)
{
    static const int32_t outside[] = {-1, INT32_MIN, EF_LIMIT_PARTITIONS, INT32_MAX};
    ef__partition_set set = {{0}};

    for (size_t i = 0; i < 4; i++) {
        ef__partition_set_add(&set, outside[i]);
        CHECK(!ef__partition_set_has(&set, outside[i]));
    }
    CHECK_INT(-1, ef__partition_set_next(&set, INT32_MIN));
    CHECK_INT(-1, ef__partition_set_next(&set, INT32_MAX));
}

TEST_MAIN(TEST_CASE(a_partition_is_the_crc32_of_the_stream_modulo_the_count),
          TEST_CASE(one_partition_or_fewer_is_partition_0),
          TEST_CASE(a_character_moved_between_tenant_and_stream_counts),
          TEST_CASE(partitions_of_known_names_stay_as_they_are),
          TEST_CASE(streams_spread_evenly_over_the_partitions),
          TEST_CASE(every_label_is_read_back_as_its_partition),
          TEST_CASE(a_single_partition_is_p00), TEST_CASE(a_partition_out_of_range_has_no_label),
          TEST_CASE(what_is_not_written_as_we_write_it_is_no_label),
          TEST_CASE(every_partition_is_the_target_of_exactly_one_worker),
          TEST_CASE(a_worker_counts_itself_before_it_is_seen),
          TEST_CASE(a_single_worker_gets_all_and_zero_partitions_give_none),
          TEST_CASE(more_workers_than_partitions_leaves_some_with_none),
          TEST_CASE(a_partition_no_set_can_hold_is_in_none))
