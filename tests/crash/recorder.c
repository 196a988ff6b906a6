/*
 * recorder.c - writes down what a process does to the files of one directory, for powercut.py.
 *
 * Loaded by LD_PRELOAD. RECORDER_DIRECTORY is the directory, an absolute path; RECORDER_LOG, which
 * lies elsewhere, is where it is written down:
 *
 *     op (1 byte) · 3 bytes of nothing · length of the path (4) · offset (8) · length of the data
 * (8) path · data                                                             little-endian
 *
 *     c  a file was made                    w  data was written at the offset
 *     t  a file was cut or grown to offset  s  a file was synced
 *     u  a file was unlinked                d  the directory was synced
 *     r  a file was renamed to data
 *
 * A call and its record are made under one lock, so the log is in the order of the calls, over all
 * threads. What cannot be written down ends the process: half a record proves nothing.
 */
#undef _FILE_OFFSET_BITS /* open and open64 … are both made here: they must stay two names */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 1024
#define PATH_BYTES 512

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char paths[FDS_MAX][PATH_BYTES]; /* of the descriptors that are followed; "" the others */
static int log_fd = -1;

/* The function that this one replaces. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static void __attribute__((noreturn)) give_up(const char *why)
{
    (void)!write(STDERR_FILENO, why, strlen(why));
    _exit(98);
}

static const char *directory(void)
{
    const char *value = getenv("RECORDER_DIRECTORY");

    return value ? value : "/nowhere/at/all";
}

/* The directory itself, or a file right in it. */
static int is_followed(const char *path)
{
    size_t n = strlen(directory());

    return strncmp(path, directory(), n) == 0 &&
           (path[n] == '\0' || (path[n] == '/' && !strchr(path + n + 1, '/')));
}

/* With or without a slash at its end. */
static int is_directory(const char *path)
{
    size_t n = strlen(directory());

    return strncmp(path, directory(), n) == 0 && strcmp(path + n, path[n] == '/' ? "/" : "") == 0;
}

/* --- the log -----------------------------------------------------------------------------------
 */

struct record {
    char op, nothing[3];
    uint32_t path_bytes;
    uint64_t offset, data_bytes;
};

static void note(char op, const char *path, uint64_t offset, const void *data, size_t count)
{
    struct record r = {
        .op = op, .path_bytes = (uint32_t)strlen(path), .offset = offset, .data_bytes = count};
    struct iovec parts[] = {{&r, sizeof r}, {(void *)path, r.path_bytes}, {(void *)data, count}};
    ssize_t whole = (ssize_t)(sizeof r + r.path_bytes + count);

    if (log_fd < 0) {
        const char *name = getenv("RECORDER_LOG");
        log_fd = NEXT(open)(name ? name : "", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    if (log_fd < 0 || writev(log_fd, parts, 3) != whole)
        give_up("recorder: the log cannot be written\n");
}

static const char *path_of(int fd)
{
    return fd >= 0 && fd < FDS_MAX ? paths[fd] : "";
}

/* --- opening and closing ------------------------------------------------------------------------
 */

static int open_followed(const char *path, int flags, mode_t mode)
{
    struct stat st;
    int is_new, fd;

    if (!is_followed(path))
        return NEXT(open)(path, flags, mode);
    pthread_mutex_lock(&lock);
    is_new = (flags & O_CREAT) && stat(path, &st) != 0;
    fd = NEXT(open)(path, flags, mode);
    if (fd >= FDS_MAX || strlen(path) >= PATH_BYTES)
        give_up("recorder: too many files, or a path that is too long\n");
    if (fd >= 0) {
        memcpy(paths[fd], path, strlen(path) + 1);
        if (is_new)
            note('c', path, 0, NULL, 0);
        else if (flags & O_TRUNC)
            note('t', path, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t mode_in(int flags, va_list args)
{
    return flags & O_CREAT ? (mode_t)va_arg(args, int) : 0;
}

#define OPENER(name)                                                                               \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
                                                                                                   \
        va_start(args, flags);                                                                     \
        mode = mode_in(flags, args);                                                               \
        va_end(args);                                                                              \
        return open_followed(path, flags, mode);                                                   \
    }
OPENER(open)
OPENER(open64)

int close(int fd)
{
    int rc;

    pthread_mutex_lock(&lock);
    if (*path_of(fd))
        paths[fd][0] = '\0';
    rc = NEXT(close)(fd);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* --- writing ------------------------------------------------------------------------------------
 */

ssize_t write(int fd, const void *data, size_t count)
{
    struct stat st;
    off_t at;
    ssize_t n;

    if (!*path_of(fd))
        return NEXT(write)(fd, data, count);
    pthread_mutex_lock(&lock);
    at = lseek(fd, 0, SEEK_CUR);
    if (fcntl(fd, F_GETFL) & O_APPEND && fstat(fd, &st) == 0)
        at = st.st_size;
    n = NEXT(write)(fd, data, count);
    if (n > 0)
        note('w', paths[fd], (uint64_t)at, data, (size_t)n);
    pthread_mutex_unlock(&lock);
    return n;
}

static ssize_t write_at(int fd, const void *data, size_t count, off_t offset)
{
    ssize_t n;

    if (!*path_of(fd))
        return NEXT(pwrite)(fd, data, count, offset);
    pthread_mutex_lock(&lock);
    n = NEXT(pwrite)(fd, data, count, offset);
    if (n > 0)
        note('w', paths[fd], (uint64_t)offset, data, (size_t)n);
    pthread_mutex_unlock(&lock);
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset)
{
    return write_at(fd, data, count, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t count, off_t offset)
{
    return write_at(fd, data, count, offset);
}

static int cut(int fd, off_t size)
{
    int rc;

    if (!*path_of(fd))
        return NEXT(ftruncate)(fd, size);
    pthread_mutex_lock(&lock);
    rc = NEXT(ftruncate)(fd, size);
    if (rc == 0)
        note('t', paths[fd], (uint64_t)size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

int ftruncate(int fd, off_t size)
{
    return cut(fd, size);
}

int ftruncate64(int fd, off_t size)
{
    return cut(fd, size);
}

/* --- syncing ------------------------------------------------------------------------------------
 */

static int sync_by(int (*sync)(int), int fd)
{
    int rc;

    if (!*path_of(fd))
        return sync(fd);
    pthread_mutex_lock(&lock);
    rc = sync(fd);
    if (rc == 0)
        note(is_directory(paths[fd]) ? 'd' : 's', paths[fd], 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

int fsync(int fd)
{
    return sync_by(NEXT(fsync), fd);
}

int fdatasync(int fd)
{
    return sync_by(NEXT(fdatasync), fd);
}

/* --- names --------------------------------------------------------------------------------------
 */

int unlink(const char *path)
{
    int rc;

    if (!is_followed(path))
        return NEXT(unlink)(path);
    pthread_mutex_lock(&lock);
    rc = NEXT(unlink)(path);
    if (rc == 0)
        note('u', path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return rc;
}

int rename(const char *from, const char *to)
{
    int rc;

    if (!is_followed(from) && !is_followed(to))
        return NEXT(rename)(from, to);
    pthread_mutex_lock(&lock);
    rc = NEXT(rename)(from, to);
    if (rc == 0)
        note('r', from, 0, to, strlen(to));
    pthread_mutex_unlock(&lock);
    return rc;
}
