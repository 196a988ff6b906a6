/*
 * socket.c - the Unix socket for the server's own user.
 *
 * A process that dies leaves its socket behind as a file that refuses connections; the next server
 * replaces it. One that a live server listens on stays. The directory is locked meanwhile, so that
 * two servers that start together do not both take a file for dead.
 */
#include "http_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64

/* A descriptor of the directory that `path` is in, locked; -1 with errno. */
static int lock_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    int fd;

    (void)snprintf(name, sizeof name, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    fd = open(name[0] ? name : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        (void)flock(fd, LOCK_EX); /* a file system without locks is no reason not to serve */
    return fd;
}

/* Nothing listens there any more. */
static bool is_dead(const struct sockaddr_un *address)
{
    struct stat s;
    int fd, failed = 0;

    if (lstat(address->sun_path, &s) != 0 || !S_ISSOCK(s.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
        failed = errno;
    (void)close(fd);
    return failed == ECONNREFUSED;
}

/* The mode of the file is that of the socket's own inode, so it is never wider than this. */
static bool bind_private(int fd, const struct sockaddr_un *address)
{
    return fchmod(fd, 0600) == 0 &&
           bind(fd, (const struct sockaddr *)address, sizeof *address) == 0;
}

static ef_status bind_or_replace(int fd, const struct sockaddr_un *address, ef_error *err)
{
    const char *path = address->sun_path;

    if (bind_private(fd, address))
        return EF_OK;
    if (errno == EADDRINUSE && is_dead(address) && unlink(path) == 0 && bind_private(fd, address))
        return EF_OK;
    if (errno == EADDRINUSE)
        return ef_fail(err, EF_EXISTS,
                       "cannot listen on the Unix socket %s: another server does, or another file "
                       "has that name; set server.socket to another path",
                       path);
    return ef_fail(err, EF_IO,
                   "cannot listen on the Unix socket %s: %s; set server.socket to another path",
                   path, strerror(errno));
}

static ef_status listen_locked(ef__socket *s, const struct sockaddr_un *address, ef_error *err)
{
    struct stat file;
    ef_status st = bind_or_replace(s->fd, address, err);

    if (st != EF_OK)
        return st;
    if (listen(s->fd, BACKLOG) != 0 || stat(address->sun_path, &file) != 0)
        return ef_fail(err, EF_IO, "cannot listen on the Unix socket %s: %s", address->sun_path,
                       strerror(errno));
    s->inode = file.st_ino;
    return EF_OK;
}

ef_status ef__socket_open(const char *path, ef__socket *out, ef_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int directory;
    ef_status st;

    *out = (ef__socket){.fd = -1};
    if (strlen(path) >= sizeof address.sun_path)
        return ef_fail_numbers(err, EF_BAD_INPUT, (int64_t)strlen(path),
                               (int64_t)sizeof address.sun_path - 1,
                               "the path of the Unix socket has %zu bytes, at most %zu are "
                               "possible; set server.socket to a shorter one: %s",
                               strlen(path), sizeof address.sun_path - 1, path);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    directory = lock_directory(path);
    out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (directory < 0 || out->fd < 0)
        st = ef_fail(err, EF_IO, "cannot listen on the Unix socket %s: %s", path, strerror(errno));
    else
        st = listen_locked(out, &address, err);
    if (directory >= 0)
        (void)close(directory);
    if (st == EF_OK) {
        (void)snprintf(out->path, sizeof out->path, "%s", path);
    } else if (out->fd >= 0) {
        (void)close(out->fd);
        out->fd = -1;
    }
    return st;
}

/* Another server may have replaced the file of one that did not answer for a while. */
void ef__socket_remove(const ef__socket *s)
{
    int directory = s->path[0] ? lock_directory(s->path) : -1;
    struct stat file;

    if (directory < 0)
        return;
    if (stat(s->path, &file) == 0 && file.st_ino == s->inode)
        (void)unlink(s->path);
    (void)close(directory);
}
