/*
 * owner.c - see owner.h.
 *
 * The owner of the directory may try to make root give away another file: a symbolic link is not
 * followed, and a file with several hard links is left alone. The descriptor is opened with O_PATH,
 * so that closing it does not release locks of this process on the file.
 */
#include "owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool directory_of(const char *path, struct stat *out)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    int n = snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
                     slash ? path : ".");

    return n > 0 && (size_t)n < sizeof(directory) && stat(directory, out) == 0;
}

void ef__owner_inherit(const char *path)
{
    struct stat file, directory;
    int fd, ignored = 0;

    if (geteuid() != 0 || !directory_of(path, &directory) || directory.st_uid == 0)
        return;
    fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &file) == 0 && file.st_uid == 0 &&
        (S_ISDIR(file.st_mode) || (S_ISREG(file.st_mode) && file.st_nlink == 1)))
        ignored = fchownat(fd, "", directory.st_uid, directory.st_gid, AT_EMPTY_PATH);
    (void)ignored; /* the file may stay root's; a cast of the call does not silence gcc */
    (void)close(fd);
}
