/*
 * file.c - the file sink: one line of JSON per message, in order; "file:-" is stdout.
 *
 * When a call returns, its lines are synced to disk (stdout: written). A piece that could not be
 * written completely is removed again. A line without its end was left by a process that crashed:
 * it was never acknowledged, so it is cut off before anything is added.
 *
 * A file that does not start like our lines was created by another program, and is not touched. A
 * symbolic link is not followed, neither at the end of the path nor, below `directory`, on the way.
 *
 * A full file is renamed to PATH.1, the previous one to PATH.2 and so on; the oldest is replaced. A
 * lock on the open file blocks writers of other processes; a process that gets the lock checks
 * whether the path still refers to that file.
 */
#include "../bus.h"

#include "../../base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_COUNT 10              /* with the usual size, some days of events */
#define FILE_COUNT_MAX 10000       /* renames per rotation */
#define PIECE_BYTES (1024u * 1024) /* per write: few system calls, and bounded memory */
#define BACK_BYTES (64u * 1024)    /* per read on the way back to the end of the last line */
#define LOCK_TRIES 8               /* another process rotated the file before we had the lock */

typedef struct file_bus {
    ef__bus base; /* first: an ef__bus * is cast to file_bus * */
    char path[PATH_MAX];
    const char *name; /* of the file in its folder; in `path` */
    bool standard;    /* stdout */
    int folder;       /* -1: not open */
    int fd;           /* -1: not open */
    int64_t size;     /* after our last call; -1: another process may have left half a line */
    ef__buf lines;
} file_bus;

/* The path of an address: file:PATH or file:///PATH. */
static ef_str parse_path(ef_str url)
{
    ef_str path = {url.ptr + 5, url.len - 5};

    if (path.len > 2 && memcmp(path.ptr, "///", 3) == 0)
        path = (ef_str){path.ptr + 2, path.len - 2};
    return path;
}

static ef_status file_check(const ef__bus_options *options, ef_error *err)
{
    ef_str path = parse_path(options->url);

    if (path.len == 0 || path.ptr[path.len - 1] == '/')
        return ef_fail(err, EF_BAD_INPUT, "'%.*s' has no file name: use file:PATH or file:-",
                       EF_STR_ARG(options->url));
    if (path.len > PATH_MAX - 16)
        return ef_fail(err, EF_BAD_INPUT, "the path of a file sink has %zu bytes, the limit is %d",
                       path.len, PATH_MAX - 16);
    if (options->file_bytes < 0 || options->file_count < 0 || options->file_count > FILE_COUNT_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "file_bytes is %" PRId64 " and file_count is %" PRId32
                       ": a size of 0 or more and 0 to %d files are allowed",
                       options->file_bytes, options->file_count, FILE_COUNT_MAX);
    return EF_OK;
}

static ef_status report_errno(const file_bus *file, const char *what, ef_error *err)
{
    int number = errno;

    return ef_fail(err, number == ENOSPC || number == EDQUOT ? EF_FULL : EF_IO, "%s: %s: %s",
                   file->path, what, strerror(number));
}

/* --- opening ---------------------------------------------------------------------------------- */

static void close_file(file_bus *file)
{
    if (file->fd >= 0 && !file->standard)
        (void)close(file->fd);
    if (file->folder >= 0)
        (void)close(file->folder);
    file->fd = file->folder = -1;
    file->size = -1;
}

/* Opening the folder or the file failed. */
static ef_status report_open_failure(const file_bus *file, ef_error *err)
{
    if (errno == ELOOP)
        return ef_fail(
            err, EF_IO,
            "%s: the path is, or leads through, a symbolic link, which a sink does not follow",
            file->path);
    return report_errno(file, "cannot be opened", err);
}

/* A created or renamed file survives a crash only when its folder is synced. */
static ef_status sync_folder(const file_bus *file, ef_error *err)
{
    return fsync(file->folder) == 0 ? EF_OK
                                    : report_errno(file, "its folder cannot be synced", err);
}

static ef_status open_file(file_bus *file, ef_error *err)
{
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;

    file->fd = openat(file->folder, file->name, flags | O_NONBLOCK);
    if (file->fd >= 0 || errno != ENOENT)
        return file->fd >= 0 ? EF_OK : report_open_failure(file, err);
    file->fd = openat(file->folder, file->name, flags | O_CREAT, 0640);
    return file->fd >= 0 ? sync_folder(file, err) : report_open_failure(file, err);
}

/* The file must be a regular one that starts like our lines, or with a part of one. */
static ef_status check_file(file_bus *file, ef_error *err)
{
    static const char begin[] = "{\"specversion\":\"1.0\"";
    char found[sizeof begin - 1];
    struct stat info;
    ssize_t got;

    if (fstat(file->fd, &info) != 0)
        return report_errno(file, "cannot be inspected", err);
    if (!S_ISREG(info.st_mode))
        return ef_fail(err, EF_IO, "%s is not a regular file", file->path);
    got = pread(file->fd, found, sizeof found, 0);
    if (got < 0)
        return report_errno(file, "cannot be read", err);
    if (memcmp(found, begin, (size_t)got) != 0)
        return ef_fail(
            err, EF_IO,
            "%s was not created by a publisher: its first line is not an event; nothing was "
            "changed",
            file->path);
    return EF_OK;
}

static ef_status open_path(file_bus *file, ef_error *err)
{
    ef_status st;

    file->folder = ef__parent_open(file->path, file->base.options.directory.ptr, &file->name);
    if (file->folder < 0)
        return report_open_failure(file, err);
    st = open_file(file, err);
    if (st == EF_OK)
        st = check_file(file, err);
    if (st != EF_OK)
        close_file(file);
    file->size = -1;
    return st;
}

/* Does the path refer to the open file? */
static bool is_current(const file_bus *file)
{
    const char *name;
    int folder = ef__parent_open(file->path, file->base.options.directory.ptr, &name);
    struct stat open_one, named;
    bool same = folder >= 0 && fstat(file->fd, &open_one) == 0 &&
                fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;

    if (folder >= 0)
        (void)close(folder);
    return same;
}

static ef_status lock_current(file_bus *file, ef_error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        ef_status st = file->fd < 0 ? open_path(file, err) : EF_OK;
        if (st != EF_OK)
            return st;
        if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK)
                return report_errno(file, "cannot be locked", err);
            return ef_fail(err, EF_BUSY, "%s: another process writes to it", file->path);
        }
        if (is_current(file))
            return EF_OK;
        close_file(file); /* also releases the lock */
    }
    return ef_fail(err, EF_BUSY, "%s is replaced by another process again and again", file->path);
}

/* --- the last line ---------------------------------------------------------------------------- */

/* The end of the last complete line within the first `size` bytes. */
static ef_status find_last_line_end(const file_bus *file, int64_t size, int64_t *out, ef_error *err)
{
    char *back = malloc(BACK_BYTES);
    ef_status st = back ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    *out = 0;
    while (st == EF_OK && size > 0 && *out == 0) {
        size_t want = size < (int64_t)BACK_BYTES ? (size_t)size : BACK_BYTES;
        ssize_t got = pread(file->fd, back, want, size - (int64_t)want);
        if (got != (ssize_t)want) {
            st = report_errno(file, "cannot be read", err);
            break;
        }
        for (size_t i = want; i > 0 && *out == 0; i--)
            if (back[i - 1] == '\n')
                *out = size - (int64_t)want + (int64_t)i;
        size -= (int64_t)want;
    }
    free(back);
    return st;
}

static ef_status cut_torn_line(file_bus *file, ef_error *err)
{
    struct stat info;
    int64_t end;
    ef_status st;

    if (fstat(file->fd, &info) != 0)
        return report_errno(file, "cannot be inspected", err);
    if (info.st_size == file->size)
        return EF_OK;
    st = find_last_line_end(file, info.st_size, &end, err);
    if (st == EF_OK && end != info.st_size && ftruncate(file->fd, end) != 0)
        st = report_errno(file, "its incomplete last line cannot be cut off", err);
    file->size = st == EF_OK ? end : -1;
    return st;
}

/* --- rotation --------------------------------------------------------------------------------- */

/* The lock belongs to the old file: the next process that gets it sees the path changed. */
static ef_status rotate_files(file_bus *file, ef_error *err)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    int count = file->base.options.file_count ? file->base.options.file_count : FILE_COUNT;

    for (int n = count; n > 0; n--) {
        (void)snprintf(to, sizeof to, "%s.%d", file->name, n);
        (void)snprintf(from, sizeof from, n > 1 ? "%s.%d" : "%s", file->name, n - 1);
        if (renameat(file->folder, from, file->folder, to) != 0 && errno != ENOENT)
            return report_errno(file, "cannot be renamed", err);
    }
    close_file(file);
    return lock_current(file, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

static ef_status write_all(const file_bus *file, size_t left, ef_error *err)
{
    const char *at = file->lines.ptr;

    while (left > 0) {
        ssize_t wrote = write(file->fd, at, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return report_errno(file, "cannot be written", err);
        at += wrote;
        left -= (size_t)wrote;
    }
    return EF_OK;
}

/* Writes the first `len` bytes of the collected lines; after a failure none of them remains. */
static ef_status flush_lines(file_bus *file, size_t len, ef_error *err)
{
    int64_t full = file->base.options.file_bytes;
    ef_status st = EF_OK;

    if (len == 0)
        return EF_OK;
    if (!file->standard && full && file->size > 0 && file->size + (int64_t)len > full) {
        if (fdatasync(file->fd) != 0)
            return report_errno(file, "cannot be synced", err);
        st = rotate_files(file, err);
        if (st == EF_OK)
            st = cut_torn_line(file, err);
    }
    if (st == EF_OK)
        st = write_all(file, len, err);
    if (st == EF_OK)
        file->size += (int64_t)len;
    else if (!file->standard && file->fd >= 0 && file->size >= 0 &&
             ftruncate(file->fd, file->size) != 0)
        file->size = -1; /* the next call cuts it */
    file->lines.len = st == EF_OK ? file->lines.len - len : 0;
    memmove(file->lines.ptr, file->lines.ptr + len, file->lines.len);
    return st;
}

static ef_status write_lines(file_bus *file, const ef__bus_message *messages, size_t count,
                             ef_error *err)
{
    int64_t full = file->base.options.file_bytes;
    size_t piece = full && full < (int64_t)PIECE_BYTES ? (size_t)full : PIECE_BYTES;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        size_t before = file->lines.len;
        (void)ef__bus_write(&file->lines, &messages[i]);
        if (!ef__buf_add_char(&file->lines, '\n'))
            return ef_fail(err, EF_NO_MEMORY, "memory ran out while writing %s", file->path);
        if (before && file->lines.len > piece) /* the last line starts the next piece */
            st = flush_lines(file, before, err);
    }
    return st == EF_OK ? flush_lines(file, file->lines.len, err) : st;
}

static ef_status deliver_locked(file_bus *file, const ef__bus_message *messages, size_t count,
                                ef_error *err)
{
    ef_status st = file->standard ? EF_OK : cut_torn_line(file, err);

    ef__buf_reset(&file->lines);
    if (st == EF_OK)
        st = write_lines(file, messages, count, err);
    if (st == EF_OK && !file->standard && fdatasync(file->fd) != 0)
        st = report_errno(file, "cannot be synced", err);
    return st;
}

static ef_status file_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    file_bus *file = (file_bus *)bus;
    ef_status st = file->standard ? EF_OK : lock_current(file, err);

    (void)now_us;
    (void)arena;
    if (st == EF_OK)
        st = deliver_locked(file, messages, count, err);
    if (file->fd >= 0 && !file->standard)
        (void)flock(file->fd, LOCK_UN);
    if (st != EF_OK) {
        close_file(file); /* after a failed sync the content on disk is unknown: read it again */
        file->fd = file->standard ? STDOUT_FILENO : -1;
        return st;
    }
    for (size_t i = 0; i < count; i++)
        outcomes[i].verdict = EF__BUS_DELIVERED;
    return EF_OK;
}

static void file_close(ef__bus *bus)
{
    file_bus *file = (file_bus *)bus;

    close_file(file);
    ef__buf_release(&file->lines);
    ef__bus_release(bus);
    free(file);
}

static ef_status file_open(ef__bus *bus, ef_error *err)
{
    file_bus *file = (file_bus *)bus;
    ef_str path = parse_path(bus->options.url);

    (void)err;
    file->lines = (ef__buf)EF__BUF_INIT(PIECE_BYTES + 2 * EF__BUS_LINE_MAX);
    file->standard = ef_str_equal(path, EF_STR("-"));
    file->fd = file->standard ? STDOUT_FILENO : -1;
    file->folder = -1;
    file->size = -1;
    (void)snprintf(file->path, sizeof file->path, "%.*s", EF_STR_ARG(path));
    return EF_OK;
}

const ef__bus_ops ef__file_sink = {
    .name = "file",
    .bytes = sizeof(file_bus),
    .batch_max = 10000, /* one sync for all of them */
    .check = file_check,
    .open = file_open,
    .deliver = file_deliver,
    .close = file_close,
};
