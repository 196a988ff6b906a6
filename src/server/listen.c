/*
 * listen.c - parses, checks and binds the address.
 */
#include "http_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 512

/* "127.0.0.1:7450" or "[::1]:7450". */
static ef_status split_address(const char *text, char host[256], char port[8], ef_error *err)
{
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;

    if (colon && text[0] == '[' && colon > text && colon[-1] == ']') {
        start++;
        end--;
    }
    if (!colon || end == start || (size_t)(end - start) >= 256 || strlen(colon + 1) > 5 ||
        strlen(colon + 1) == 0 || colon[1 + strspn(colon + 1, "0123456789")] != '\0' ||
        strtol(colon + 1, NULL, 10) > 65535)
        return ef_fail(err, EF_BAD_INPUT,
                       "the address is '%.200s'; ADDRESS:PORT is needed, as 127.0.0.1:7450", text);
    (void)snprintf(host, 256, "%.*s", (int)(end - start), start);
    (void)snprintf(port, 8, "%s", colon + 1);
    return EF_OK;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    return a->sa_family == AF_UNIX ||
           (a->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr));
}

static ef_status bind_to(const struct addrinfo *a, const char *text, int *out_fd, ef_error *err)
{
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return ef_fail(err, EF_IO, "no socket for %.200s: %s", text, strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        ef_status st = ef_fail(err, errno == EADDRINUSE ? EF_EXISTS : EF_BAD_INPUT,
                               "cannot listen on %.200s: %s%s", text, strerror(errno),
                               errno == EADDRINUSE ? "; name another port" : "");
        (void)close(fd);
        return st;
    }
    *out_fd = fd;
    return EF_OK;
}

static ef_status open_address(const char *text, int *out_fd, ef_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char host[256], port[8];
    ef_status st = split_address(text, host, port, err);
    int code;

    if (st != EF_OK)
        return st;
    code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        return ef_fail(err, EF_BAD_INPUT, "there is no address '%.200s': %s", host,
                       gai_strerror(code));
    st = bind_to(found, text, out_fd, err);
    freeaddrinfo(found);
    return st;
}

/* Reads the actual address: the port may have been 0, and the address of systemd's socket is not
 * in the options. */
static ef_status name_it(ef__server *server, int fd, ef_error *err)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    char port[8] = "";
    const struct sockaddr *a = (const struct sockaddr *)&address;

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo(a, length, server->host, sizeof(server->host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return ef_fail(err, EF_IO, "the socket has no address: %s", strerror(errno));
    server->loopback = is_loopback(a);
    (void)snprintf(server->url, sizeof(server->url), "%s://%s%.200s%s:%s",
                   server->options.tls_certificate ? "https" : "http",
                   a->sa_family == AF_INET6 ? "[" : "", server->host,
                   a->sa_family == AF_INET6 ? "]" : "", port);
    return EF_OK;
}

/* Without both, every client that reaches the address could read and write everything. */
static ef_status check_open(const ef__server *server, ef_error *err)
{
    if (server->loopback)
        return EF_OK;
    if (!server->options.tls_certificate)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s is not loopback: it needs TLS (server.tls_certificate and "
                       "server.tls_key), or listen on 127.0.0.1",
                       server->host);
    if (!ef__tokens_any(server))
        return ef_fail(err, EF_BAD_INPUT,
                       "%s is not loopback and there is no token: everfold token create --scope "
                       "admin",
                       server->host);
    return EF_OK;
}

ef_status ef__listen(ef__server *server, int *out_fd, ef_error *err)
{
    int fd = server->options.listen_fd;
    ef_status st = EF_OK;

    if (fd <= 0)
        st = open_address(server->options.listen, &fd, err);
    if (st == EF_OK)
        st = name_it(server, fd, err);
    if (st == EF_OK)
        st = check_open(server, err);
    if (st == EF_OK)
        *out_fd = fd;
    else if (fd > 0 && server->options.listen_fd <= 0)
        (void)close(fd);
    return st;
}
