/*
 * memory.c - see memory.h.
 */
#include "memory.h"

#include <sqlite3.h>

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_bool armed, lasting, failed;
static _Atomic int64_t count, turn;

void memory_arm(int64_t nth, bool for_good)
{
    count = 0;
    turn = nth;
    lasting = for_good;
    failed = false;
    armed = true;
}

int64_t memory_disarm(void)
{
    armed = false;
    return count;
}

bool memory_has_failed(void)
{
    return failed;
}

static bool is_out(void)
{
    int64_t number;

    if (!armed)
        return false;
    number = atomic_fetch_add(&count, 1) + 1;
    if (number != turn && !(lasting && number > turn))
        return false;
    failed = true;
    return true;
}

/* --- ours ---------------------------------------------------------------------------------------
 */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return is_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_out() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_out() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_out() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return is_out() ? NULL : __real_strdup(text);
}

/* --- SQLite's -----------------------------------------------------------------------------------
 */

static sqlite3_mem_methods plain;

static void *sqlite_malloc(int size)
{
    return is_out() ? NULL : plain.xMalloc(size);
}

static void *sqlite_realloc(void *old, int size)
{
    return is_out() ? NULL : plain.xRealloc(old, size);
}

void memory_init(void)
{
    sqlite3_mem_methods counted;
    int rc = sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);

    counted = plain;
    counted.xMalloc = sqlite_malloc;
    counted.xRealloc = sqlite_realloc;
    if (rc == SQLITE_OK)
        rc = sqlite3_config(SQLITE_CONFIG_MALLOC, &counted);
    assert(rc == SQLITE_OK);
    (void)rc;
}
