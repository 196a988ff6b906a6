/*
 * test_hash.c - digests against published values, and ids that rise and never repeat.
 */
#include "test.h"

#include "../../src/base/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_sha256(const char *expected, ef_str head, ef_str body)
{
    uint8_t hash[EF_HASH_BYTES];
    char hex[2 * EF_HASH_BYTES + 1];

    CHECK(ef__sha256(head, body, hash));
    ef__hex(hash, sizeof(hash), hex);
    CHECK_TEXT(expected, hex);
}

/* The values of FIPS 180-4's examples. */
#define SHA256_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SHA256_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHA256_LONGER "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"

TEST(sha256_returns_the_published_values)
{
    ef_str longer = EF_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");

    check_sha256(SHA256_EMPTY, (ef_str){NULL, 0}, (ef_str){NULL, 0});
    check_sha256(SHA256_ABC, EF_STR("abc"), (ef_str){NULL, 0});
    check_sha256(SHA256_LONGER, (ef_str){NULL, 0}, longer);
}

TEST(sha256_is_of_head_and_body_as_one_text)
{
    ef_str longer = EF_STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");

    for (size_t cut = 0; cut <= longer.len; cut++)
        check_sha256(SHA256_LONGER, (ef_str){longer.ptr, cut},
                     (ef_str){longer.ptr + cut, longer.len - cut});
}

static void *hash_many(void *arg)
{
    uint8_t first[EF_HASH_BYTES], hash[EF_HASH_BYTES];
    ef_str text = {arg, strlen(arg)};
    intptr_t wrong = 0;

    wrong += !ef__sha256(text, text, first);
    for (int i = 0; i < 2000; i++) {
        wrong += !ef__sha256(text, text, hash);
        wrong += memcmp(first, hash, sizeof(hash)) != 0;
    }
    return (void *)wrong;
}

/* Run under the leak sanitizer, it also shows that a thread's context ends with it. */
TEST(sha256_works_in_many_threads_that_come_and_go)
{
    static char texts[8][16];

    for (int round = 0; round < 4; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) {
            snprintf(texts[i], sizeof(texts[i]), "thread %d", i);
            CHECK_INT(0, pthread_create(&threads[i], NULL, hash_many, texts[i]));
        }
        for (int i = 0; i < 8; i++) {
            void *wrong = NULL;
            CHECK_INT(0, pthread_join(threads[i], &wrong));
            assert_null(wrong);
        }
    }
}

TEST(xxh3_returns_the_published_value_and_depends_on_the_seed)
{
    CHECK(ef__xxh3((ef_str){NULL, 0}, 0) == UINT64_C(0x2d06800538d394c2));
    CHECK(ef__xxh3(EF_STR(""), 0) == UINT64_C(0x2d06800538d394c2));
    CHECK(ef__xxh3(EF_STR("order-1"), 0) != ef__xxh3(EF_STR("order-1"), 1));
    CHECK(ef__xxh3(EF_STR("order-1"), 1) == ef__xxh3(EF_STR("order-1"), 1));
    CHECK(ef__xxh3(EF_STR("order-1"), 1) != ef__xxh3(EF_STR("order-2"), 1));
}

TEST(crc32_returns_the_published_value_and_continues_from_a_start)
{
    CHECK(ef__crc32(0, EF_STR("123456789")) == 0xcbf43926u);
    CHECK(ef__crc32(ef__crc32(0, EF_STR("1234")), EF_STR("56789")) == 0xcbf43926u);
    CHECK(ef__crc32(0xcbf43926u, (ef_str){NULL, 0}) == 0xcbf43926u);
}

TEST(hex_writes_every_byte_in_two_small_digits)
{
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        char expected[3], hex[3];
        snprintf(expected, sizeof(expected), "%02x", i);
        ef__hex(&byte, 1, hex);
        CHECK_TEXT(expected, hex);
    }
    char none[1] = {'x'};
    ef__hex(NULL, 0, none);
    CHECK_TEXT("", none);
}

static void check_uuid7(const char *id)
{
    CHECK_INT(36, strlen(id));
    for (int i = 0; i < 36; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23)
            CHECK_INT('-', id[i]);
        else
            assert_non_null(strchr("0123456789abcdef", id[i]));
    }
    CHECK_INT('7', id[14]);
    assert_non_null(strchr("89ab", id[19]));
}

#define NOW_US INT64_C(1794821400123456)

TEST(an_id_is_a_uuid7_that_begins_with_the_time)
{
    char id[EF_EVENT_ID_TEXT_MAX];
    char time[20];

    CHECK(ef__uuid7(NOW_US, id));
    check_uuid7(id);
    snprintf(time, sizeof(time), "%012llx", (unsigned long long)(NOW_US / 1000));
    assert_memory_equal(time, id, 8);
    assert_memory_equal(time + 8, id + 9, 4);
}

TEST(ids_ascend_within_a_millisecond_and_across_milliseconds)
{
    char last[EF_EVENT_ID_TEXT_MAX] = "";
    char id[EF_EVENT_ID_TEXT_MAX];

    for (int i = 0; i < 100000; i++) {
        CHECK(ef__uuid7(NOW_US + i / 1000 * 100, id)); /* 10000 ids a millisecond */
        if (strcmp(last, id) >= 0)
            fail_msg("%s came behind %s", id, last);
        memcpy(last, id, sizeof(last));
    }
}

TEST(ids_ascend_when_the_clock_is_set_back_a_little)
{
    char newer[EF_EVENT_ID_TEXT_MAX], older[EF_EVENT_ID_TEXT_MAX];

    CHECK(ef__uuid7(NOW_US + 60000000, newer));
    CHECK(ef__uuid7(NOW_US + 60000000 - 5000000, older));
    check_uuid7(older);
    CHECK(strcmp(older, newer) > 0);
    assert_memory_equal(older, newer, 13);
}

TEST(ids_follow_a_clock_that_is_set_back_a_lot)
{
    char id[EF_EVENT_ID_TEXT_MAX];

    CHECK(ef__uuid7(NOW_US + INT64_C(3600000000), id));
    CHECK(ef__uuid7(NOW_US, id));
    check_uuid7(id);
    char time[20];
    snprintf(time, sizeof(time), "%012llx", (unsigned long long)(NOW_US / 1000));
    assert_memory_equal(time, id, 8);
}

TEST(a_time_out_of_range_still_results_in_an_id)
{
    char id[EF_EVENT_ID_TEXT_MAX];

    CHECK(ef__uuid7(INT64_MIN, id));
    check_uuid7(id);
    assert_memory_equal("00000000-0000-7", id, 15);
    CHECK(ef__uuid7(INT64_MAX, id));
    check_uuid7(id);
    assert_memory_equal("ffffffff-ffff-7", id, 15);
}

enum { IDS_PER_THREAD = 5000, ID_THREADS = 4 };

static char made[ID_THREADS * IDS_PER_THREAD][EF_EVENT_ID_TEXT_MAX];

static void *make_ids(void *arg)
{
    char(*mine)[EF_EVENT_ID_TEXT_MAX] = arg;

    for (int i = 0; i < IDS_PER_THREAD; i++)
        if (!ef__uuid7(NOW_US, mine[i]))
            mine[i][0] = '\0';
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

TEST(threads_in_the_same_millisecond_generate_different_ascending_ids)
{
    pthread_t threads[ID_THREADS];

    for (int i = 0; i < ID_THREADS; i++)
        CHECK_INT(0, pthread_create(&threads[i], NULL, make_ids, made[i * IDS_PER_THREAD]));
    for (int i = 0; i < ID_THREADS; i++)
        CHECK_INT(0, pthread_join(threads[i], NULL));
    for (int i = 1; i < ID_THREADS * IDS_PER_THREAD; i++)
        CHECK(i % IDS_PER_THREAD == 0 || strcmp(made[i - 1], made[i]) < 0);
    qsort(made, ID_THREADS * IDS_PER_THREAD, EF_EVENT_ID_TEXT_MAX, compare_ids);
    CHECK(made[0][0] != '\0');
    for (int i = 1; i < ID_THREADS * IDS_PER_THREAD; i++)
        CHECK(strcmp(made[i - 1], made[i]) != 0);
}

TEST(a_forked_child_does_not_repeat_ids_of_its_parent)
{
    char mine[EF_EVENT_ID_TEXT_MAX], childs[EF_EVENT_ID_TEXT_MAX];
    int fds[2], status;

    CHECK(ef__uuid7(NOW_US, mine)); /* the pool is filled */
    CHECK_INT(0, pipe(fds));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        bool ok = ef__uuid7(NOW_US, childs) &&
                  write(fds[1], childs, sizeof(childs)) == (ssize_t)sizeof(childs);
        _exit(ok ? 0 : 1);
    }
    CHECK(ef__uuid7(NOW_US, mine));
    CHECK_INT(sizeof(childs), read(fds[0], childs, sizeof(childs)));
    CHECK_INT(pid, waitpid(pid, &status, 0));
    CHECK_INT(0, status);
    check_uuid7(childs);
    CHECK(strcmp(mine, childs) != 0);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

TEST_MAIN(TEST_CASE(sha256_returns_the_published_values),
          TEST_CASE(sha256_is_of_head_and_body_as_one_text),
          TEST_CASE(sha256_works_in_many_threads_that_come_and_go),
          TEST_CASE(xxh3_returns_the_published_value_and_depends_on_the_seed),
          TEST_CASE(crc32_returns_the_published_value_and_continues_from_a_start),
          TEST_CASE(hex_writes_every_byte_in_two_small_digits),
          TEST_CASE(an_id_is_a_uuid7_that_begins_with_the_time),
          TEST_CASE(ids_ascend_within_a_millisecond_and_across_milliseconds),
          TEST_CASE(ids_ascend_when_the_clock_is_set_back_a_little),
          TEST_CASE(ids_follow_a_clock_that_is_set_back_a_lot),
          TEST_CASE(a_time_out_of_range_still_results_in_an_id),
          TEST_CASE(threads_in_the_same_millisecond_generate_different_ascending_ids),
          TEST_CASE(a_forked_child_does_not_repeat_ids_of_its_parent))
