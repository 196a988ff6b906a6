/*
 * file.c - the file sink: a line of JSON for each message, in order; "file:-" is stdout.
 *
 * What a call has written is on the disk when it returns (stdout: as far as whoever reads it goes).
 * Of a piece that could not be written whole nothing stays. A line without its end is one that a
 * process left when it ended: it was never acknowledged, so it is cut off before anything is added.
 *
 * A file that does not begin like a line of ours was made by something else, and is left alone. A
 * symbolic link is not followed, neither at the end of the path nor, below `directory`, on the way.
 *
 * A full file is renamed to PATH.1, the one before it to PATH.2 and so on; the oldest goes. Writers
 * of other processes are kept apart by a lock on the file that is open; whoever gets it looks
 * whether the path still leads there.
 */
#include "../bus.h"

#include "../../base/below.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_COUNT 10
#define FILE_COUNT_MAX 10000
#define PIECE_BYTES (1024u * 1024) /* written at once */
#define BACK_BYTES (64u * 1024)    /* read at once on the way back to the last line's end */
#define LOCK_TRIES 8               /* the file was rotated away under us */

typedef struct file_bus {
    ef__bus base; /* first, so that an ef__bus * is this */
    char path[PATH_MAX];
    const char *name; /* of the file in its folder; in `path` */
    bool standard;    /* stdout */
    int folder;       /* -1: not open */
    int fd;           /* -1: not open */
    int64_t size;     /* after our last call; -1: another process may have left half a line */
    ef__buf lines;
} file_bus;

/* The path of an address: file:PATH or file:///PATH. */
static ef_str path_of(ef_str url)
{
    ef_str path = {url.ptr + 5, url.len - 5};

    if (path.len > 2 && memcmp(path.ptr, "///", 3) == 0)
        path = (ef_str){path.ptr + 2, path.len - 2};
    return path;
}

ef_status ef__bus_file_check(const ef__bus_options *options, ef_error *err)
{
    ef_str path = path_of(options->url);

    if (path.len == 0 || path.ptr[path.len - 1] == '/')
        return ef_fail(err, EF_BAD_INPUT, "'%.*s' names no file: file:PATH or file:- is needed",
                       EF_STR_ARG(options->url));
    if (path.len > PATH_MAX - 16)
        return ef_fail(err, EF_BAD_INPUT, "the path of a file sink has %zu bytes, at most %d",
                       path.len, PATH_MAX - 16);
    if (options->file_bytes < 0 || options->file_count < 0 || options->file_count > FILE_COUNT_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "files of %" PRId64 " bytes, %" PRId32
                       " of them: 0 to %d files of 0 bytes or more can be kept",
                       options->file_bytes, options->file_count, FILE_COUNT_MAX);
    return EF_OK;
}

static ef_status sys_fail(const file_bus *f, const char *what, ef_error *err)
{
    int number = errno;

    return ef_fail(err, number == ENOSPC || number == EDQUOT ? EF_FULL : EF_IO, "%s: %s: %s",
                   f->path, what, strerror(number));
}

/* --- opening ---------------------------------------------------------------------------------- */

static void shut(file_bus *f)
{
    if (f->fd >= 0 && !f->standard)
        (void)close(f->fd);
    if (f->folder >= 0)
        (void)close(f->folder);
    f->fd = f->folder = -1;
    f->size = -1;
}

/* An error of opening the folder or the file. */
static ef_status open_fail(const file_bus *f, ef_error *err)
{
    if (errno == ELOOP)
        return ef_fail(err, EF_IO,
                       "%s: it is a symbolic link, or one is on the way to it: a sink follows none",
                       f->path);
    return sys_fail(f, "it cannot be opened", err);
}

/* A name that was made or changed lasts only when its folder is synced. */
static ef_status sync_folder(const file_bus *f, ef_error *err)
{
    return fsync(f->folder) == 0 ? EF_OK : sys_fail(f, "its folder cannot be synced", err);
}

static ef_status open_file(file_bus *f, ef_error *err)
{
    const int flags = O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;

    f->fd = openat(f->folder, f->name, flags | O_NONBLOCK);
    if (f->fd >= 0 || errno != ENOENT)
        return f->fd >= 0 ? EF_OK : open_fail(f, err);
    f->fd = openat(f->folder, f->name, flags | O_CREAT, 0640);
    return f->fd >= 0 ? sync_folder(f, err) : open_fail(f, err);
}

/* What is there has to be a regular file that begins like a line of ours, or with a part of one. */
static ef_status check_file(file_bus *f, ef_error *err)
{
    static const char begin[] = "{\"specversion\":\"1.0\"";
    char found[sizeof begin - 1];
    struct stat is;
    ssize_t got;

    if (fstat(f->fd, &is) != 0)
        return sys_fail(f, "it cannot be looked at", err);
    if (!S_ISREG(is.st_mode))
        return ef_fail(err, EF_IO, "%s is not a regular file", f->path);
    got = pread(f->fd, found, sizeof found, 0);
    if (got < 0)
        return sys_fail(f, "it cannot be read", err);
    if (memcmp(found, begin, (size_t)got) != 0)
        return ef_fail(
            err, EF_IO,
            "%s was not made by a publisher: its first line is not an event; nothing was "
            "changed",
            f->path);
    return EF_OK;
}

static ef_status open_path(file_bus *f, ef_error *err)
{
    ef_status st;

    f->folder = ef__parent_open(f->path, f->base.options.directory.ptr, &f->name);
    if (f->folder < 0)
        return open_fail(f, err);
    st = open_file(f, err);
    if (st == EF_OK)
        st = check_file(f, err);
    if (st != EF_OK)
        shut(f);
    f->size = -1;
    return st;
}

/* Does the path lead to what is open? */
static bool is_current(const file_bus *f)
{
    const char *name;
    int folder = ef__parent_open(f->path, f->base.options.directory.ptr, &name);
    struct stat open_one, named;
    bool same = folder >= 0 && fstat(f->fd, &open_one) == 0 &&
                fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;

    if (folder >= 0)
        (void)close(folder);
    return same;
}

static ef_status lock_current(file_bus *f, ef_error *err)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        ef_status st = f->fd < 0 ? open_path(f, err) : EF_OK;
        if (st != EF_OK)
            return st;
        if (flock(f->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK)
                return sys_fail(f, "it cannot be locked", err);
            return ef_fail(err, EF_BUSY, "%s: another process writes to it", f->path);
        }
        if (is_current(f))
            return EF_OK;
        shut(f); /* and with it the lock */
    }
    return ef_fail(err, EF_BUSY, "%s is changed by others all the time", f->path);
}

/* --- the last line ---------------------------------------------------------------------------- */

/* Where the last whole line of the first `size` bytes ends. */
static ef_status last_end(const file_bus *f, int64_t size, int64_t *out, ef_error *err)
{
    char *back = malloc(BACK_BYTES);
    ef_status st = back ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    *out = 0;
    while (st == EF_OK && size > 0 && *out == 0) {
        size_t want = size < (int64_t)BACK_BYTES ? (size_t)size : BACK_BYTES;
        ssize_t got = pread(f->fd, back, want, size - (int64_t)want);
        if (got != (ssize_t)want) {
            st = sys_fail(f, "it cannot be read", err);
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

static ef_status cut_torn_line(file_bus *f, ef_error *err)
{
    struct stat is;
    int64_t end;
    ef_status st;

    if (fstat(f->fd, &is) != 0)
        return sys_fail(f, "it cannot be looked at", err);
    if (is.st_size == f->size)
        return EF_OK;
    st = last_end(f, is.st_size, &end, err);
    if (st == EF_OK && end != is.st_size && ftruncate(f->fd, end) != 0)
        st = sys_fail(f, "half a line cannot be cut off", err);
    f->size = st == EF_OK ? end : -1;
    return st;
}

/* --- rotation --------------------------------------------------------------------------------- */

/* The lock goes with the old file; whoever gets it next finds that the path leads elsewhere. */
static ef_status rotate(file_bus *f, ef_error *err)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    int count = f->base.options.file_count ? f->base.options.file_count : FILE_COUNT;

    for (int n = count; n > 0; n--) {
        (void)snprintf(to, sizeof to, "%s.%d", f->name, n);
        (void)snprintf(from, sizeof from, n > 1 ? "%s.%d" : "%s", f->name, n - 1);
        if (renameat(f->folder, from, f->folder, to) != 0 && errno != ENOENT)
            return sys_fail(f, "it cannot be renamed", err);
    }
    shut(f);
    return lock_current(f, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

static ef_status write_all(const file_bus *f, ef_error *err)
{
    const char *at = f->lines.ptr;
    size_t left = f->lines.len;

    while (left > 0) {
        ssize_t wrote = write(f->fd, at, left);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return sys_fail(f, "it cannot be written", err);
        at += wrote;
        left -= (size_t)wrote;
    }
    return EF_OK;
}

/* Write what has gathered; on failure nothing of it stays. */
static ef_status flush_lines(file_bus *f, ef_error *err)
{
    int64_t full = f->base.options.file_bytes;
    ef_status st = EF_OK;

    if (f->lines.len == 0)
        return EF_OK;
    if (!f->standard && full && f->size > 0 && f->size + (int64_t)f->lines.len > full) {
        if (fdatasync(f->fd) != 0)
            return sys_fail(f, "it cannot be synced", err);
        st = rotate(f, err);
        if (st == EF_OK)
            st = cut_torn_line(f, err);
    }
    if (st == EF_OK)
        st = write_all(f, err);
    if (st == EF_OK)
        f->size += (int64_t)f->lines.len;
    else if (!f->standard && f->fd >= 0 && f->size >= 0 && ftruncate(f->fd, f->size) != 0)
        f->size = -1; /* the next call will see to it */
    ef__buf_reset(&f->lines);
    return st;
}

static ef_status write_lines(file_bus *f, const ef__bus_message *messages, size_t count,
                             ef_error *err)
{
    int64_t full = f->base.options.file_bytes;
    size_t piece = full && full < (int64_t)PIECE_BYTES ? (size_t)full : PIECE_BYTES;
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < count; i++) {
        size_t before = f->lines.len;
        (void)ef__bus_write(&f->lines, &messages[i]);
        if (!ef__buf_add_char(&f->lines, '\n'))
            return ef_fail(err, EF_NO_MEMORY, "memory ran out while writing %s", f->path);
        if (before && f->lines.len > piece) { /* the last one begins the next piece */
            size_t last = f->lines.len - before;
            char *kept = malloc(last);
            if (!kept)
                return ef_fail(err, EF_NO_MEMORY, "memory ran out while writing %s", f->path);
            memcpy(kept, f->lines.ptr + before, last);
            f->lines.len = before;
            st = flush_lines(f, err);
            if (st == EF_OK && !ef__buf_add(&f->lines, kept, last))
                st = ef_fail(err, EF_NO_MEMORY, "memory ran out while writing %s", f->path);
            free(kept);
        }
    }
    return st == EF_OK ? flush_lines(f, err) : st;
}

static ef_status deliver_locked(file_bus *f, const ef__bus_message *messages, size_t count,
                                ef_error *err)
{
    ef_status st = f->standard ? EF_OK : cut_torn_line(f, err);

    ef__buf_reset(&f->lines);
    if (st == EF_OK)
        st = write_lines(f, messages, count, err);
    if (st == EF_OK && !f->standard && fdatasync(f->fd) != 0)
        st = sys_fail(f, "it cannot be synced", err);
    return st;
}

static ef_status file_deliver(ef__bus *bus, const ef__bus_message *messages, size_t count,
                              int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                              ef_error *err)
{
    file_bus *f = (file_bus *)bus;
    ef_status st = f->standard ? EF_OK : lock_current(f, err);

    (void)now_us;
    (void)arena;
    if (st == EF_OK)
        st = deliver_locked(f, messages, count, err);
    if (f->fd >= 0 && !f->standard)
        (void)flock(f->fd, LOCK_UN);
    if (st != EF_OK) {
        shut(f); /* after a sync that failed nobody knows what is on the disk: look anew */
        f->fd = f->standard ? STDOUT_FILENO : -1;
        return st;
    }
    for (size_t i = 0; i < count; i++)
        outcomes[i].verdict = EF__BUS_DELIVERED;
    return EF_OK;
}

static void file_close(ef__bus *bus)
{
    file_bus *f = (file_bus *)bus;

    shut(f);
    ef__buf_release(&f->lines);
    ef__bus_release(bus);
    free(f);
}

static const ef__bus_ops file_ops = {
    .name = "file",
    .batch_max = 10000,
    .deliver = file_deliver,
    .close = file_close,
};

ef_status ef__bus_file_open(const ef__bus_options *options, ef__bus **out, ef_error *err)
{
    file_bus *f = calloc(1, sizeof *f);
    ef_str path = path_of(options->url);
    ef_status st;

    if (!f)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a sink");
    f->lines = (ef__buf)EF__BUF_INIT(PIECE_BYTES + 2 * EF__BUS_LINE_MAX);
    f->standard = ef_str_equal(path, EF_STR("-"));
    f->fd = f->standard ? STDOUT_FILENO : -1;
    f->folder = -1;
    f->size = -1;
    (void)snprintf(f->path, sizeof f->path, "%.*s", EF_STR_ARG(path));
    st = ef__bus_init(&f->base, &file_ops, options, err);
    if (st != EF_OK) {
        file_close(&f->base);
        return st;
    }
    *out = &f->base;
    return EF_OK;
}
