/*
 * file.c - small files that are read whole: programs and test files.
 */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define READ_BYTES 65536

static ef_status read_all(int fd, const char *path, ef__buf *out, ef_error *err)
{
    for (;;) {
        if (!ef__buf_reserve(out, READ_BYTES))
            return ef_fail(err, EF_TOO_LARGE, "%s is larger than %zu bytes", path,
                           out->max_bytes - READ_BYTES);
        ssize_t n = read(fd, out->ptr + out->len, READ_BYTES);
        if (n < 0 && errno != EINTR)
            return ef_fail(err, EF_IO, "%s could not be read: %s", path, strerror(errno));
        if (n == 0)
            return EF_OK;
        if (n > 0)
            out->len += (size_t)n;
    }
}

ef_status cli_file_read(const char *path, ef__buf *out, ef_error *err)
{
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s could not be opened: %s",
                       path, strerror(errno));
    ef__buf_reset(out);
    ef_status st = read_all(fd, path, out, err);
    if (fd != STDIN_FILENO)
        (void)close(fd);
    return st;
}

void cli_lines_say(ef_str text)
{
    ef__buf out = EF__BUF_INIT(CLI_OUT_MAX);

    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t length = end ? (size_t)(end - text.ptr) : text.len;
        cli_escape(&out, (ef_str){text.ptr, length});
        ef__buf_add_char(&out, '\n');
        length += end ? 1 : 0;
        text.ptr += length;
        text.len -= length;
    }
    (void)fwrite(out.ptr ? out.ptr : "", 1, out.len, stderr);
    ef__buf_release(&out);
}
