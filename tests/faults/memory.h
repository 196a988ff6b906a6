/*
 * memory.h - memory that runs out where a test wants it to.
 *
 * The program is linked with --wrap for every allocating call of ours (meson.build), and SQLite is
 * given the same allocator: an allocation of either is counted, and fails when its turn has come.
 * Other libraries (OpenSSL, the C library itself) are left alone.
 */
#ifndef EF_TESTS_FAULTS_MEMORY_H
#define EF_TESTS_FAULTS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Before anything uses SQLite. */
void memory_init(void);
/* The `nth` allocation from now on fails; `for_good`: so do all that follow, until disarmed. */
void memory_arm(int64_t nth, bool for_good);
/* All is well again. How many allocations there were since it was armed. */
int64_t memory_disarm(void);
/* Has one failed since it was armed? */
bool memory_has_failed(void);

#endif
