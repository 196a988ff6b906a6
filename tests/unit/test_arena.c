/*
 * test_arena.c - arenas, and the memory of batches.
 */
#include "test.h"

#include "../../src/base/arena.h"
#include "../../src/base/limits.h"

#include <stdalign.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static bool is_aligned(const void *ptr)
{
    return (uintptr_t)ptr % alignof(max_align_t) == 0;
}

TEST(an_allocation_of_every_size_is_aligned_and_separate)
{
    ef__arena arena = EF__ARENA_INIT(16 * 1024 * 1024);
    char *pieces[600];

    for (size_t i = 0; i < 600; i++) {
        pieces[i] = ef__arena_alloc(&arena, i * 7);
        assert_non_null(pieces[i]);
        CHECK(is_aligned(pieces[i]));
        memset(pieces[i], (int)(i % 256), i * 7);
    }
    for (size_t i = 0; i < 600; i++)
        for (size_t j = 0; j < i * 7; j++)
            if ((unsigned char)pieces[i][j] != i % 256)
                fail_msg("piece %zu was written over at %zu", i, j);
    ef__arena_release(&arena);
}

TEST(large_allocations_between_small_ones_are_separate)
{
    ef__arena arena = EF__ARENA_INIT(64 * 1024 * 1024);
    char *large[20], *small[20];

    for (int i = 0; i < 20; i++) {
        large[i] = ef__arena_alloc(&arena, 2 * 1024 * 1024);
        small[i] = ef__arena_alloc(&arena, 100);
        assert_non_null(large[i]);
        assert_non_null(small[i]);
        memset(large[i], 'L', 2 * 1024 * 1024);
        memset(small[i], 's', 100);
    }
    for (int i = 0; i < 20; i++) {
        CHECK_INT('L', large[i][0]);
        CHECK_INT('L', large[i][2 * 1024 * 1024 - 1]);
        CHECK_INT('s', small[i][0]);
        CHECK_INT('s', small[i][99]);
    }
    ef__arena_release(&arena);
}

TEST(an_allocation_of_zero_bytes_is_not_null)
{
    ef__arena arena = EF__ARENA_INIT(1024);
    void *a = ef__arena_alloc(&arena, 0);
    void *b = ef__arena_alloc(&arena, 0);

    assert_non_null(a);
    assert_non_null(b);
    CHECK(a != b);
    ef__arena_release(&arena);
}

TEST(an_arena_refuses_allocations_past_its_maximum_and_keeps_the_others)
{
    ef__arena arena = EF__ARENA_INIT(64);
    char *kept = ef__arena_alloc(&arena, 48);

    assert_non_null(kept);
    memset(kept, 'k', 48);
    assert_null(ef__arena_alloc(&arena, 17));
    assert_non_null(ef__arena_alloc(&arena, 16));
    assert_null(ef__arena_alloc(&arena, 0));
    CHECK_INT(64, arena.used_bytes);
    CHECK_INT('k', kept[47]);
    ef__arena_release(&arena);
}

TEST(sizes_that_overflow_are_refused)
{
    ef__arena arena = EF__ARENA_INIT(SIZE_MAX);

    assert_null(ef__arena_alloc(&arena, SIZE_MAX));
    assert_null(ef__arena_alloc(&arena, SIZE_MAX - 8));
    assert_null(ef__arena_zalloc(&arena, SIZE_MAX / 2, 3));
    assert_null(ef__arena_copy(&arena, (ef_str){"x", SIZE_MAX}).ptr);
    CHECK_INT(0, arena.used_bytes);
    ef__arena_release(&arena);
}

TEST(zalloc_zeroes_memory_that_was_used_before)
{
    static const char zeros[1000];
    ef__arena arena = EF__ARENA_INIT(100000);

    memset(ef__arena_alloc(&arena, 1000), 'x', 1000);
    ef__arena_reset(&arena);
    char *ptr = ef__arena_zalloc(&arena, 100, 10);
    assert_non_null(ptr);
    assert_memory_equal(zeros, ptr, 1000);
    ef__arena_release(&arena);
}

TEST(a_copy_has_its_own_bytes_and_a_nul)
{
    ef__arena arena = EF__ARENA_INIT(1000);
    char original[] = "order-1 and more";
    ef_str copy = ef__arena_copy(&arena, (ef_str){original, 7});

    original[0] = 'X';
    CHECK_STR("order-1", copy);
    CHECK_INT('\0', copy.ptr[7]);
    ef__arena_release(&arena);
}

TEST(an_arena_copy_of_an_empty_text_is_not_null)
{
    ef__arena arena = EF__ARENA_INIT(1000);
    ef_str copy = ef__arena_copy(&arena, (ef_str){NULL, 0});

    assert_non_null(copy.ptr);
    CHECK_INT(0, copy.len);
    CHECK_INT('\0', copy.ptr[0]);
    ef__arena_release(&arena);
}

TEST(reset_keeps_one_block_and_the_whole_maximum_is_free_again)
{
    ef__arena arena = EF__ARENA_INIT(8 * 1024 * 1024);

    for (int step = 0; step < 50; step++) {
        for (int i = 0; i < 8; i++)
            assert_non_null(ef__arena_alloc(&arena, 1024 * 1024));
        assert_null(ef__arena_alloc(&arena, 1));
        ef__arena_reset(&arena);
        CHECK_INT(0, arena.used_bytes);
    }
    assert_non_null(arena.blocks);
    ef__arena_release(&arena);
}

TEST(reset_uses_the_kept_block_again)
{
    ef__arena arena = EF__ARENA_INIT(8 * 1024 * 1024);
    void *first = ef__arena_alloc(&arena, 100);

    ef__arena_reset(&arena);
    assert_ptr_equal(first, ef__arena_alloc(&arena, 100));
    ef__arena_release(&arena);
}

#ifdef __SANITIZE_ADDRESS__
TEST(arena_memory_that_is_not_allocated_is_poisoned)
{
    ef__arena arena = EF__ARENA_INIT(1000);
    char *ptr = ef__arena_alloc(&arena, 20);

    CHECK(!__asan_address_is_poisoned(ptr + 19));
    CHECK(__asan_address_is_poisoned(ptr + 20));
    ef__arena_reset(&arena);
    CHECK(__asan_address_is_poisoned(ptr));
    ptr = ef__arena_alloc(&arena, 20);
    CHECK(!__asan_address_is_poisoned(ptr));
    ef__arena_recycle(&arena);
    CHECK(__asan_address_is_poisoned(ptr));
    ef__arena_release(&arena);
}
#define SANITIZER_CASES TEST_CASE(arena_memory_that_is_not_allocated_is_poisoned),
#else
#define SANITIZER_CASES
#endif

TEST(arena_reset_frees_a_block_that_is_larger_than_steps_need)
{
    ef__arena arena = EF__ARENA_INIT(64 * 1024 * 1024);

    assert_non_null(ef__arena_alloc(&arena, 32 * 1024 * 1024));
    ef__arena_reset(&arena);
    assert_null(arena.blocks);
    ef__arena_release(&arena);
}

/* A step: one long piece, then many short ones. */
static void *fill_step(ef__arena *arena, size_t long_bytes)
{
    void *first = ef__arena_alloc(arena, long_bytes);

    assert_non_null(first);
    for (int i = 0; i < 3000; i++) {
        char *piece = ef__arena_alloc(arena, 1000);
        assert_non_null(piece);
        memset(piece, i, 1000);
    }
    return first;
}

TEST(a_recycled_arena_uses_its_blocks_again)
{
    ef__arena arena = EF__ARENA_INIT(16 * 1024 * 1024);
    void *first = fill_step(&arena, 6 * 1024 * 1024);
    size_t used = arena.used_bytes;

    for (int step = 0; step < 3; step++) {
        ef__arena_recycle(&arena);
        CHECK_INT(0, arena.used_bytes);
        assert_null(arena.blocks);
        assert_ptr_equal(first, fill_step(&arena, 6 * 1024 * 1024));
        CHECK_INT(used, arena.used_bytes);
        assert_null(arena.spare); /* all of it */
    }
    ef__arena_recycle(&arena);
    ef__arena_release(&arena);
    assert_null(arena.spare);
}

TEST(a_recycled_arena_keeps_a_large_block_for_large_allocations)
{
    ef__arena arena = EF__ARENA_INIT(16 * 1024 * 1024);
    void *first = fill_step(&arena, 6 * 1024 * 1024);

    ef__arena_recycle(&arena);
    assert_ptr_not_equal(first, ef__arena_alloc(&arena, 10));
    assert_ptr_equal(first, ef__arena_alloc(&arena, 5 * 1024 * 1024));
    ef__arena_release(&arena);
}

TEST(a_recycled_arena_frees_blocks_that_one_step_did_not_use)
{
    ef__arena arena = EF__ARENA_INIT(16 * 1024 * 1024);

    (void)fill_step(&arena, 6 * 1024 * 1024);
    ef__arena_recycle(&arena);
    assert_non_null(ef__arena_alloc(&arena, 10));
    assert_non_null(arena.spare);
    ef__arena_recycle(&arena);
    assert_non_null(ef__arena_alloc(&arena, 10));
    assert_null(arena.spare);
    ef__arena_release(&arena);
}

TEST(an_arena_that_was_released_can_be_used_again)
{
    ef__arena arena = EF__ARENA_INIT(1000);

    assert_non_null(ef__arena_alloc(&arena, 900));
    ef__arena_release(&arena);
    ef__arena_release(&arena);
    assert_non_null(ef__arena_alloc(&arena, 900));
    ef__arena_release(&arena);
    ef__arena_release(NULL);
}

TEST(batch_memory_is_created_once_and_then_emptied)
{
    struct ef__batch_memory *room = NULL;
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__memory_prepare(&room, &err), &err);
    struct ef__batch_memory *first = room;
    CHECK_INT(EF_LIMIT_BATCH_BYTES, room->arena.max_bytes);
    assert_non_null(ef__arena_alloc(&room->arena, 100));
    CHECK_STATUS(EF_OK, ef__memory_prepare(&room, &err), &err);
    assert_ptr_equal(first, room);
    CHECK_INT(0, room->arena.used_bytes);
    ef_memory_release(&room);
    assert_null(room);
    ef_memory_release(&room);
}

TEST(full_batch_memory_is_an_error_that_names_the_limit)
{
    ef_error err = EF_ERROR_INIT;

    CHECK_INT(EF_NO_MEMORY, ef__no_memory(&err));
    assert_non_null(strstr(err.text, "268435456"));
}

static void fill_batch(ef_batch *batch)
{
    ef_error err = EF_ERROR_INIT;

    CHECK_STATUS(EF_OK, ef__memory_prepare(&batch->room, &err), &err);
    batch->events = ef__arena_zalloc(&batch->room->arena, 3, sizeof(ef_event));
    assert_non_null(batch->events);
    batch->count = 3;
    batch->more = true;
}

TEST(a_batch_is_released_twice_or_never_filled_without_harm)
{
    ef_batch batch = EF_BATCH_INIT;

    EF_RELEASE(&batch);
    fill_batch(&batch);
    EF_RELEASE(&batch);
    assert_null(batch.room);
    assert_null(batch.events);
    CHECK_INT(0, batch.count);
    CHECK(!batch.more);
    EF_RELEASE(&batch);
}

TEST(arena_grow_doubles_a_full_list_and_keeps_its_items)
{
    ef__arena arena = EF__ARENA_INIT(4096);
    int64_t *items = NULL, *before;
    size_t cap = 0, count = 0;

    for (; count < 100; count++) {
        before = items;
        items = ef__arena_grow(&arena, items, count, sizeof *items, &cap);
        assert_non_null(items);
        CHECK((items != before) == (count == 0 || (count >= 16 && (count & (count - 1)) == 0)));
        items[count] = (int64_t)count;
    }
    for (size_t i = 0; i < count; i++)
        CHECK_INT(i, items[i]);
    CHECK_INT(128, cap);
    cap = count; /* full, and the arena has no space for twice as many */
    assert_null(ef__arena_grow(&arena, items, count, 40, &cap));
    ef__arena_release(&arena);
}

TEST_MAIN(SANITIZER_CASES TEST_CASE(an_allocation_of_every_size_is_aligned_and_separate),
          TEST_CASE(large_allocations_between_small_ones_are_separate),
          TEST_CASE(an_allocation_of_zero_bytes_is_not_null),
          TEST_CASE(an_arena_refuses_allocations_past_its_maximum_and_keeps_the_others),
          TEST_CASE(sizes_that_overflow_are_refused),
          TEST_CASE(zalloc_zeroes_memory_that_was_used_before),
          TEST_CASE(a_copy_has_its_own_bytes_and_a_nul),
          TEST_CASE(an_arena_copy_of_an_empty_text_is_not_null),
          TEST_CASE(arena_grow_doubles_a_full_list_and_keeps_its_items),
          TEST_CASE(reset_keeps_one_block_and_the_whole_maximum_is_free_again),
          TEST_CASE(reset_uses_the_kept_block_again),
          TEST_CASE(arena_reset_frees_a_block_that_is_larger_than_steps_need),
          TEST_CASE(a_recycled_arena_uses_its_blocks_again),
          TEST_CASE(a_recycled_arena_keeps_a_large_block_for_large_allocations),
          TEST_CASE(a_recycled_arena_frees_blocks_that_one_step_did_not_use),
          TEST_CASE(an_arena_that_was_released_can_be_used_again),
          TEST_CASE(batch_memory_is_created_once_and_then_emptied),
          TEST_CASE(full_batch_memory_is_an_error_that_names_the_limit),
          TEST_CASE(a_batch_is_released_twice_or_never_filled_without_harm))
