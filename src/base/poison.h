/*
 * poison.h - memory that is not allocated: under AddressSanitizer its use is reported.
 */
#pragma once

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EF__POISONS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define EF__POISONS 1
#endif

#ifdef EF__POISONS
#include <sanitizer/asan_interface.h>

/* Not inlined, because gcc treats the poisoning of new memory as a read of it, and warns. */
static __attribute__((noinline)) void ef__poison(void *ptr, size_t len)
{
    __asan_poison_memory_region(ptr, len);
}
#define ef__unpoison(ptr, len) __asan_unpoison_memory_region(ptr, len)
#else
#define ef__poison(ptr, len) ((void)(ptr), (void)(len))
#define ef__unpoison(ptr, len) ((void)(ptr), (void)(len))
#endif
