/*
 * bench_receiver.c - a receiver of webhooks that answers each request after a fixed time.
 *
 * It prints its port, counts requests, and prints one line of JSON after the last one: the time
 * from the first request to the last response. One thread serves all connections.
 */
#include "bench_support.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_BYTES 65536 /* headers and body */
#define CONNECTIONS 4096

/* A connection has one request at a time. Those that wait for their response are in a list in the
 * order of their due times, because the delay is the same for all. */
typedef struct client {
    int fd;
    char *bytes;
    size_t length;
    uint64_t due_ns;
    struct client *next;
} client;

typedef struct receiver {
    int64_t n, delay_us;
    int epoll, listener;
    client *first, *last;
    int64_t requests, responses;
    uint64_t started_ns;
} receiver;

static int listen_on_any(receiver *r)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct epoll_event wanted = {.events = EPOLLIN};

    r->epoll = epoll_create1(EPOLL_CLOEXEC);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(r->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(r->listener, CONNECTIONS) != 0 ||
        getsockname(r->listener, (struct sockaddr *)&address, &size) != 0 ||
        epoll_ctl(r->epoll, EPOLL_CTL_ADD, r->listener, &wanted) != 0)
        bench_die("cannot listen");
    return ntohs(address.sin_port);
}

static void accept_all(receiver *r)
{
    int fd, on = 1;

    while ((fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        client *made = bench_alloc(1, sizeof *made);
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = made};
        made->fd = fd;
        made->bytes = bench_alloc(1, REQUEST_BYTES + 1);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &wanted) != 0)
            bench_die("cannot wait for a connection");
    }
}

static bool is_complete(const client *c)
{
    const char *end = strstr(c->bytes, "\r\n\r\n");
    const char *length = end ? strcasestr(c->bytes, "\r\ncontent-length:") : NULL;

    return length && length < end &&
           c->length >= (size_t)(end + 4 - c->bytes) + strtoul(length + 17, NULL, 10);
}

static void read_request(receiver *r, client *c)
{
    ssize_t got = read(c->fd, c->bytes + c->length, REQUEST_BYTES - c->length);

    if (got <= 0) {
        (void)close(c->fd);
        free(c->bytes);
        free(c);
        return;
    }
    c->length += (size_t)got;
    c->bytes[c->length] = '\0';
    if (!is_complete(c))
        return;
    if (r->requests++ == 0)
        r->started_ns = bench_now_ns();
    c->due_ns = bench_now_ns() + (uint64_t)r->delay_us * 1000;
    c->next = NULL;
    if (r->first)
        r->last->next = c;
    else
        r->first = c;
    r->last = c;
}

static void respond_due(receiver *r)
{
    static const char response[] = "HTTP/1.1 204 No Content\r\n\r\n";

    while (r->first && r->first->due_ns <= bench_now_ns()) {
        client *c = r->first;
        r->first = c->next;
        c->length = 0;
        if (write(c->fd, response, sizeof response - 1) == sizeof response - 1)
            r->responses++;
    }
}

static int wait_ms(const receiver *r)
{
    return r->first ? 1 : -1;
}

int main(int argc, char **argv)
{
    receiver r = {.n = 10000, .delay_us = 5000};
    const bench_setting settings[] = {{"n", &r.n, NULL}, {"delay_us", &r.delay_us, NULL}};

    bench_settings(argc - 1, argv + 1, settings, sizeof settings / sizeof *settings);
    (void)printf("%d\n", listen_on_any(&r));
    (void)fflush(stdout);
    while (r.responses < r.n) {
        struct epoll_event events[64];
        int count = epoll_wait(r.epoll, events, 64, wait_ms(&r));
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                read_request(&r, events[i].data.ptr);
            else
                accept_all(&r);
        }
        respond_due(&r);
    }
    double secs = bench_secs_since(r.started_ns);
    (void)printf("{\"bench\":\"bench_receiver\",\"case\":\"webhook\",\"n\":%" PRId64
                 ",\"secs\":%.4f,\"rate\":%.1f}\n",
                 r.n, secs, (double)r.n / secs);
    return 0;
}
