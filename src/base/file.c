/*
 * file.c - see file.h.
 */
#include "file.h"
#include "same.h"

#include <everfold/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* --- locks ------------------------------------------------------------------------------------ */

bool ef__lock_set(int fd, short kind, off_t byte)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;

    do
        rc = fcntl(fd, F_OFD_SETLK, &lock);
    while (rc < 0 && errno == EINTR);
    return rc == 0;
}

/* Retries with short sleeps, because F_OFD_SETLKW has no timeout. */
bool ef__lock_wait(int fd, short kind, off_t byte, int64_t wait_ms)
{
    const ef_clock *clock = ef_clock_system();
    int64_t end_us = 0, sleep_us = 20;

    while (!ef__lock_set(fd, kind, byte)) {
        int64_t now_us = clock->mono_us(clock->context);
        if (end_us == 0)
            end_us = now_us + wait_ms * 1000;
        if (now_us >= end_us)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = sleep_us * 1000}, NULL);
        sleep_us = sleep_us < 500 ? sleep_us * 2 : 500;
    }
    return true;
}

/* --- owners ----------------------------------------------------------------------------------- */

static bool directory_of(const char *path, struct stat *out)
{
    char directory[4096];
    const char *slash = strrchr(path, '/');
    int n = snprintf(directory, sizeof(directory), "%.*s", slash ? (int)(slash - path) + 1 : 1,
                     slash ? path : ".");

    return n > 0 && (size_t)n < sizeof(directory) && stat(directory, out) == 0;
}

/* The owner of the directory may try to make root give away another file: a symbolic link is not
 * followed, and a file with several hard links is left alone. The descriptor is opened with O_PATH,
 * so that closing it does not release locks of this process on the file. */
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

/* --- below a directory ------------------------------------------------------------------------ */

static bool is_plain(ef_str component)
{
    return component.len > 0 && !ef_str_equal(component, EF_STR(".")) &&
           !ef_str_equal(component, EF_STR(".."));
}

bool ef__path_is_below(ef_str path, ef_str directory)
{
    while (directory.len > 1 && directory.ptr[directory.len - 1] == '/')
        directory.len--;
    if (directory.len == 0 || directory.ptr[0] != '/' || path.len <= directory.len + 1 ||
        memcmp(path.ptr, directory.ptr, directory.len) != 0 || path.ptr[directory.len] != '/' ||
        memchr(path.ptr, '\0', path.len))
        return false;
    path = (ef_str){path.ptr + directory.len + 1, path.len - directory.len - 1};
    if (path.ptr[path.len - 1] == '/')
        return false;
    while (path.len)
        if (!is_plain(ef__str_split(&path, '/')))
            return false;
    return true;
}

/* Opens the folders of `path` one by one and closes `folder`; `path` ends before the file name. */
static int open_folders(int folder, char *path)
{
    char *rest = NULL;

    for (char *part = strtok_r(path, "/", &rest); folder >= 0 && part;
         part = strtok_r(NULL, "/", &rest)) {
        int next = openat(folder, part, FOLDER_FLAGS | O_NOFOLLOW);
        int why = errno;
        (void)close(folder);
        folder = next;
        errno = why;
    }
    return folder;
}

int ef__parent_open(const char *path, const char *directory, const char **out_name)
{
    const char *slash = strrchr(path, '/');
    size_t base = directory ? strlen(directory) : 0;
    char folder[PATH_MAX];

    *out_name = slash ? slash + 1 : path;
    if (!slash)
        return open(".", FOLDER_FLAGS);
    if (snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (base == 0)
        return open(folder[0] ? folder : "/", FOLDER_FLAGS);
    if (!ef__path_is_below(ef_str_from(path), ef_str_from(directory))) {
        errno = EACCES;
        return -1;
    }
    return open_folders(open(directory, FOLDER_FLAGS), folder + base);
}

bool ef__parent_sync(const char *path)
{
    const char *name;
    int folder = ef__parent_open(path, NULL, &name);
    bool is_synced = folder >= 0 && fsync(folder) == 0;

    if (folder >= 0)
        (void)close(folder);
    return is_synced;
}
