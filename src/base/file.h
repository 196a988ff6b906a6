/*
 * file.h - files: locks on their bytes, the owner of those that root creates, and opening files
 * that must be below a directory.
 */
#pragma once

#include <everfold/str.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* A descriptor that is closed at the end of its block: EF__AUTO(ef__fd). Below 0: none. */
typedef int ef__fd;
static inline void ef__auto_ef__fd(ef__fd *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

/*
 * Locks on a byte of a file, between processes and between handles of one process. They are open
 * file description locks of the kernel: they belong to the open file and are released when it is
 * closed, also by a crash.
 *
 * `kind` is F_RDLCK, F_WRLCK or F_UNLCK of <fcntl.h>. False: another handle holds it; never waits.
 */
bool ef__lock_set(int fd, short kind, off_t byte);
/* The same, retried with short sleeps for up to `wait_ms`. */
bool ef__lock_wait(int fd, short kind, off_t byte, int64_t wait_ms);

/*
 * An operator runs a command as root on the data directory of a service that has its own user.
 * Files that the command creates there must belong to that user, or the service could not open
 * them.
 *
 * As root: gives a file or directory that root owns to the owner of the directory it is in.
 * Otherwise does nothing.
 */
void ef__owner_inherit(const char *path);

/*
 * A path from outside is compared with the directory as text, and opened from the directory on,
 * component by component. No symbolic link is followed on the way, so that a change after the
 * comparison cannot lead out of the directory.
 *
 * Is it a path below an absolute directory, without . and .. and empty components?
 */
bool ef__path_is_below(ef_str path, ef_str directory);
/*
 * Opens the folder of a file. With a `directory` ("" or NULL: none) the path is below it, and no
 * link is followed from there on. *out_name is the file name, in `path`. -1 and errno.
 */
int ef__parent_open(const char *path, const char *directory, const char **out_name);
/* Makes the name of a new or renamed file durable: a power cut may lose an entry that was not
 * synced. False and errno. */
bool ef__parent_sync(const char *path);
