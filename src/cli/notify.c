/*
 * notify.c - see notify.h.
 */
#include "notify.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 3

bool cli_notify_wanted(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    return path && (path[0] == '/' || path[0] == '@') &&
           strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path);
}

void cli_notify(const char *format, ...)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char text[512];
    va_list args;
    size_t n;
    int fd;

    if (!cli_notify_wanted())
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    n = strlen(getenv("NOTIFY_SOCKET"));
    memcpy(to.sun_path, getenv("NOTIFY_SOCKET"), n);
    if (to.sun_path[0] == '@') /* an abstract socket name */
        to.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)close(fd);
}

void cli_notify_reloading(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    cli_notify(
        "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading settings, certificate and tokens",
        (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

/* A number in the environment that is meant for this process; 0 if there is none. */
static int64_t env_number(const char *name, const char *pid_name)
{
    const char *text = getenv(name), *pid = getenv(pid_name);

    if (!text || (pid && strtoll(pid, NULL, 10) != (long long)getpid()))
        return 0;
    return strtoll(text, NULL, 10);
}

int64_t cli_notify_watchdog_ms(void)
{
    int64_t us = env_number("WATCHDOG_USEC", "WATCHDOG_PID");

    return us > 0 ? us / 1000 : 0;
}

ef_status cli_notify_socket(int *out_fd, ef_error *err)
{
    int64_t count = getenv("LISTEN_PID") ? env_number("LISTEN_FDS", "LISTEN_PID") : 0;
    int listens = 0;
    socklen_t size = sizeof(listens);

    *out_fd = 0;
    if (count <= 0)
        return EF_OK;
    if (count > 1)
        return ef_fail(err, EF_BAD_INPUT, "LISTEN_FDS is %lld: only one socket is supported",
                       (long long)count);
    if (getsockopt(FIRST_FD, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        return ef_fail(err, EF_BAD_INPUT,
                       "LISTEN_FDS: the passed descriptor is not a listening socket");
    (void)fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(FIRST_FD, F_SETFL, O_NONBLOCK);
    *out_fd = FIRST_FD;
    return EF_OK;
}
