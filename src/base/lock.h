/*
 * lock.h - locks on bytes of a file, between processes and between handles of one process.
 *
 * They are open file description locks of the kernel: they belong to the open file and are released
 * when it is closed, also by a crash.
 */
#ifndef EF_BASE_LOCK_H
#define EF_BASE_LOCK_H

#include <everfold/str.h>

#include <stdint.h>
#include <sys/types.h>

/* `kind` is F_RDLCK, F_WRLCK or F_UNLCK of <fcntl.h>. False: another handle holds it; never waits.
 */
bool ef__lock_set(int fd, short kind, off_t byte);
/* The same, retried with short sleeps for up to `wait_ms`. */
bool ef__lock_wait(int fd, short kind, off_t byte, int64_t wait_ms);

#endif
