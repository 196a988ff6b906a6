/*
 * test_fold_value.c - values: order, text, size, and changes that can be undone.
 */
#include "test.h"

#include "../../src/fold/change.h"

#include <stdlib.h>

typedef struct fixture {
    ef__arena arena;
    ef__heap heap;
    ef__changes changes;
    int64_t bytes;
} fixture;

static void set_up(fixture *f)
{
    *f = (fixture){.arena = EF__ARENA_INIT(64 << 20), .heap = EF__HEAP_INIT(64 << 20)};
    f->changes = (ef__changes){.heap = &f->heap, .bytes = &f->bytes};
}

static void tear_down(fixture *f)
{
    ef__changes_release(&f->changes);
    ef__heap_release(&f->heap);
    ef__arena_release(&f->arena);
}

static ef__value parse(fixture *f, const char *text)
{
    ef__json *json;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__json_parse(ef_str_from(text), 1 << 20, &f->arena, &json, &err), &err);
    return ef__value_from_json(json);
}

static ef__value stored(fixture *f, const char *text)
{
    ef__value v;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__value_store(&f->heap, parse(f, text), &v, &err), &err);
    return v;
}

static void check_print(const char *expected, ef__value v)
{
    ef__buf buf = EF__BUF_INIT(1 << 20);
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__value_print(v, &buf, &err), &err);
    CHECK_STR(expected, ef__buf_str(&buf));
    CHECK_INT(buf.len, ef__value_size(v));
    ef__buf_release(&buf);
}

TEST(values_print_canonically_from_the_tree_and_from_the_heap)
{
    static const char *const pairs[][2] = {
        {"null", "null"},
        {"[true,false]", "[true,false]"},
        {"1.50", "1.5"},
        {"-0.0", "0"},
        {"1e3", "1000"},
        {"12e-5", "0.00012"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775808", "9223372036854775808"},
        {"-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"},
        {"0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"},
        {"\"a\\u00e9\\n\\\"\\u0001\\\\/\"", "\"aé\\n\\\"\\u0001\\\\/\""},
        {"{\"b\":1,\"a\":{\"d\":[],\"c\":{}}}", "{\"a\":{\"c\":{},\"d\":[]},\"b\":1}"},
        {"\"a longer text, eight bytes at a time \\t then a tab\"",
         "\"a longer text, eight bytes at a time \\t then a tab\""},
    };
    fixture f;

    set_up(&f);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        check_print(pairs[i][1], parse(&f, pairs[i][0]));
        check_print(pairs[i][1], stored(&f, pairs[i][0]));
    }
    tear_down(&f);
}

static void check_size(int64_t coefficient, uint32_t scale)
{
    ef__value v = ef__value_int(coefficient);
    ef__buf buf = EF__BUF_INIT(1 << 10);

    if (scale > 0) {
        v.kind = EF__VALUE_DECIMAL;
        v.home = EF__HOME_SELF;
        v.len = scale;
    }
    CHECK_STATUS(EF_OK, ef__value_print(v, &buf, NULL), NULL);
    CHECK_INT(buf.len, ef__value_size(v));
    ef__buf_release(&buf);
}

TEST(the_size_of_a_number_is_right_on_both_sides_of_each_power)
{
    for (uint32_t scale = 0; scale <= 20; scale++) {
        for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10)
            for (int64_t n = power - 1; n <= power + 1; n++) {
                check_size(n, scale);
                check_size(-n, scale);
            }
        for (int bit = 0; bit < 63; bit++) {
            check_size((INT64_C(1) << bit) - 1, scale);
            check_size(INT64_C(1) << bit, scale);
        }
        check_size(INT64_C(1000000000000000000), scale);
        check_size(INT64_C(999999999999999999), scale);
        check_size(INT64_MAX, scale);
        check_size(INT64_MIN, scale);
    }
}

TEST(values_are_ordered_by_kind)
{
    static const char *const rising[] = {"null",
                                         "false",
                                         "true",
                                         "-1e30",
                                         "-9223372036854775809",
                                         "-2",
                                         "-1.5",
                                         "-0.001",
                                         "0",
                                         "1e-30",
                                         "0.5",
                                         "1",
                                         "1.5",
                                         "2",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "1e37",
                                         "\"\"",
                                         "\"A\"",
                                         "\"a\"",
                                         "\"a\\u0001\"",
                                         "\"aa\"",
                                         "\"b\"",
                                         "\"é\"",
                                         "[]",
                                         "[null]",
                                         "[1]",
                                         "[1,0]",
                                         "[2]",
                                         "[[]]",
                                         "{}",
                                         "{\"a\":1}",
                                         "{\"a\":1,\"b\":0}",
                                         "{\"a\":2}",
                                         "{\"b\":0}"};
    enum { COUNT = sizeof(rising) / sizeof(rising[0]) };
    fixture f;

    set_up(&f);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++) {
            int expected = i < j ? -1 : i > j;
            int tree = ef__value_compare(parse(&f, rising[i]), parse(&f, rising[j]));
            int mixed = ef__value_compare(stored(&f, rising[i]), parse(&f, rising[j]));
            CHECK_INT(expected, (tree > 0) - (tree < 0));
            CHECK_INT(expected, (mixed > 0) - (mixed < 0));
        }
    tear_down(&f);
}

TEST(equality_compares_values_and_not_their_spelling)
{
    fixture f;

    set_up(&f);
    CHECK_INT(0, ef__value_compare(parse(&f, "1"), parse(&f, "1.0")));
    CHECK_INT(0, ef__value_compare(parse(&f, "100"), parse(&f, "1e2")));
    CHECK_INT(
        0, ef__value_compare(parse(&f, "{\"a\":1,\"b\":[2]}"), parse(&f, "{\"b\":[2.0],\"a\":1}")));
    CHECK_INT(0, ef__value_compare(parse(&f, "{\"a\":1,\"b\":[2]}"),
                                   stored(&f, "{\"b\":[2.0],\"a\":1}")));
    CHECK(ef__value_compare(parse(&f, "1"), parse(&f, "\"1\"")) != 0);
    tear_down(&f);
}

TEST(a_number_with_too_many_digits_is_stored_as_it_was_written)
{
    static const char TEXT[] = "[1,123456789012345678901234567890123456789012345,-1.50e-300]";
    fixture f;
    ef__buf out = EF__BUF_INIT(1000);
    ef_error err = EF_ERROR_INIT;

    set_up(&f);
    ef__value v = stored(&f, TEXT);
    CHECK_STATUS(EF_OK, ef__value_print(v, &out, &err), &err);
    CHECK_STR(TEXT, ef__buf_str(&out));
    CHECK_INT((int64_t)strlen(TEXT), (int64_t)ef__value_size(v));
    ef__buf_release(&out);
    tear_down(&f);
}

TEST(numbers_of_any_size_are_compared_exactly)
{
    static const char *const RISING[] = {"-1e300",
                                         "-1e299",
                                         "-100000000000000000000000000000000000000.5",
                                         "-100000000000000000000000000000000000000",
                                         "-1",
                                         "-1e-50",
                                         "-1e-51",
                                         "0",
                                         "1e-999",
                                         "1e-50",
                                         "1.000000000000000000000000000000000000000000001e-50",
                                         "1e-37",
                                         "1",
                                         "1.00000000000000000000000000000000000000000001",
                                         "1e37",
                                         "1e38",
                                         "100000000000000000000000000000000000001",
                                         "1e999"};
    fixture f;

    set_up(&f);
    for (size_t i = 0; i < sizeof RISING / sizeof *RISING; i++) {
        for (size_t k = 0; k < sizeof RISING / sizeof *RISING; k++) {
            int order = i < k ? -1 : i > k;
            CHECK_INT(order, ef__value_compare(parse(&f, RISING[i]), stored(&f, RISING[k])));
        }
    }
    CHECK_INT(0, ef__value_compare(parse(&f, "1e40"),
                                   stored(&f, "10000000000000000000000000000000000000000")));
    CHECK_INT(0, ef__value_compare(parse(&f, "0.5e-60"), parse(&f, "50e-62")));
    tear_down(&f);
}

static ef__slot member(ef__value *root, const char *key)
{
    bool found;
    size_t index = ef__object_find(root->as.object, ef_str_from(key), &found);

    return (ef__slot){.in = *root, .index = index, .key = ef_str_from(key), .there = found};
}

/* A random change to the object at `root`, or to the array that its member "l" is. */
static void change_somehow(fixture *f, ef__value *root)
{
    char key[2] = {(char)('a' + rand() % 6), 0};
    ef__slot spot = member(root, key);
    ef__slot list = member(root, "l");
    ef_error err = EF_ERROR_INIT;

    switch (rand() % 5) {
    case 0:
        CHECK_STATUS(EF_OK, ef__slot_move(&f->changes, &spot, &err), &err);
        return;
    case 1:
        CHECK_STATUS(EF_OK, ef__slot_put(&f->changes, &spot, stored(f, "{\"x\":[1,2.5]}"), &err),
                     &err);
        return;
    case 2:
        CHECK_STATUS(EF_OK, ef__slot_put(&f->changes, &spot, ef__value_int(rand() % 1000), &err),
                     &err);
        return;
    default:
        break;
    }
    CHECK_STATUS(EF_OK, ef__slot_own(&f->changes, &list, &err), &err);
    ef__value array = ef__slot_value(&list);
    size_t count = ef__value_count(array);
    ef__slot item = {.in = array, .index = count};
    if (count > 0 && rand() % 2) {
        item.index = (size_t)rand() % count;
        item.there = true;
    }
    if (item.there && rand() % 2)
        CHECK_STATUS(EF_OK, ef__slot_move(&f->changes, &item, &err), &err);
    else
        CHECK_STATUS(EF_OK, ef__slot_put(&f->changes, &item, stored(f, "\"item\""), &err), &err);
}

static ef_str text_of(fixture *f, ef__value v)
{
    ef__buf buf = EF__BUF_INIT(1 << 20);

    CHECK_STATUS(EF_OK, ef__value_print(v, &buf, NULL), NULL);
    ef_str text = ef__arena_copy(&f->arena, ef__buf_str(&buf));
    ef__buf_release(&buf);
    return text;
}

TEST(undone_changes_leave_no_trace_and_kept_ones_the_right_size)
{
    const char *start = "{\"a\":1,\"b\":\"text\",\"c\":[1],\"l\":[0,1,2,3]}";
    fixture f;

    srand(7);
    set_up(&f);
    ef__value root = stored(&f, start);
    f.bytes = (int64_t)ef__value_size(root);
    for (int round = 0; round < 2000; round++) {
        ef_str before = text_of(&f, root);
        int64_t bytes = f.bytes;
        bool held = round % 3 == 0;
        if (held) {
            ef__value list = ef__value_get(root, EF_STR("l"));
            CHECK_STATUS(EF_OK, ef__changes_hold(&f.changes, list, NULL), NULL);
        }
        for (int i = rand() % 12; i >= 0; i--)
            change_somehow(&f, &root);
        CHECK_INT(f.bytes, ef__value_size(root));
        if (round % 2) {
            ef__changes_undo(&f.changes, 0);
            f.bytes = bytes;
            CHECK(ef_str_equal(before, text_of(&f, root)));
        } else {
            ef__changes_keep(&f.changes);
        }
        ef__arena_reset(&f.arena);
    }
    tear_down(&f);
}

TEST(the_heap_reuses_freed_memory)
{
    ef__heap heap = EF__HEAP_INIT(1 << 20);
    size_t after_first = 0;

    for (int round = 0; round < 1000; round++) {
        void *pieces[50];
        for (size_t i = 0; i < 50; i++) {
            pieces[i] = ef__heap_alloc(&heap, 10 + i * 20);
            CHECK(pieces[i] != NULL);
            memset(pieces[i], (int)i, 10 + i * 20);
        }
        for (size_t i = 0; i < 50; i++)
            ef__heap_free(&heap, pieces[i], 10 + i * 20);
        if (round == 0)
            after_first = heap.bytes;
    }
    CHECK_INT(after_first, heap.bytes);
    CHECK(ef__heap_alloc(&heap, 2 << 20) == NULL);
    void *large = ef__heap_alloc(&heap, 100000);
    CHECK(large != NULL);
    ef__heap_free(&heap, large, 100000);
    CHECK_INT(after_first, heap.bytes);
    ef__heap_release(&heap);
}

enum { OBJECTS = 8000 };

/* The first half grows a little, so that nothing is free yet; the rest grows twice. */
static void grow_objects(fixture *f, ef__value objects[OBJECTS])
{
    ef_error err = EF_ERROR_INIT;

    for (size_t i = 0; i < OBJECTS; i++) {
        objects[i] = stored(f, i < OBJECTS / 2 ? "{}" : "{\"a\":1,\"b\":2}");
        for (char key[2] = "c"; key[0] < (i < OBJECTS / 2 ? 'f' : 'n'); key[0]++) {
            ef__slot spot = member(&objects[i], key);
            CHECK_STATUS(EF_OK, ef__slot_put(&f->changes, &spot, ef__value_int(1), &err), &err);
        }
    }
    ef__changes_keep(&f->changes);
}

/* The members of an object begin beside it and move when they become many. */
TEST(objects_that_have_grown_release_all_their_memory)
{
    static ef__value objects[OBJECTS];
    size_t after_first = 0;
    fixture f;

    set_up(&f);
    for (int round = 0; round < 5; round++) {
        grow_objects(&f, objects);
        for (size_t i = 0; i < OBJECTS; i++)
            ef__value_release(&f.heap, objects[i]);
        if (round == 0)
            after_first = f.heap.bytes;
    }
    CHECK_INT(after_first, f.heap.bytes);
    tear_down(&f);
}

TEST_MAIN(TEST_CASE(values_print_canonically_from_the_tree_and_from_the_heap),
          TEST_CASE(the_size_of_a_number_is_right_on_both_sides_of_each_power),
          TEST_CASE(values_are_ordered_by_kind),
          TEST_CASE(equality_compares_values_and_not_their_spelling),
          TEST_CASE(a_number_with_too_many_digits_is_stored_as_it_was_written),
          TEST_CASE(numbers_of_any_size_are_compared_exactly),
          TEST_CASE(undone_changes_leave_no_trace_and_kept_ones_the_right_size),
          TEST_CASE(the_heap_reuses_freed_memory),
          TEST_CASE(objects_that_have_grown_release_all_their_memory))
