/*
 * connections.c - the open connections, and the time limits of their clients.
 *
 *     client's turn ─► server's turn ─► client's turn … ─► closed
 *
 * In its turn a client must send a whole request, or receive the whole response, within request_ms,
 * however steadily bytes arrive; otherwise its connection is shut. In the server's turn the
 * connection may be suspended, and the HTTP library does not notice that the client closes it; the
 * network thread learns that from epoll. A client that shuts down its sending side counts as
 * disconnected, because HTTP clients do not do that.
 *
 * Only the network thread uses the list.
 */
#include "http_priv.h"
#include "request.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESSES 4096 /* counters of connections by hashed address */
/* Request time of an address with a large share of the connections. */
#define CROWDED_US (2 * 1000000)
#define EVENTS_MAX 256 /* of one call to the kernel */

struct ef__connection {
    struct ef__connection *before, *next;
    int fd;
    unsigned address; /* hash of the address, index of by_address */
    int64_t since_us; /* start of the client's turn; 0: the server's turn */
    bool is_closed;   /* by the client. Atomic */
    bool registered;  /* epoll reports when the client closes it */
};

struct ef__connections {
    ef__connection *first;
    int64_t by_address[ADDRESSES]; /* number of connections */
    int epoll_fd;
    int64_t checked_us; /* the last check of all */
    bool is_settled;    /* all are in the server's turn, and registered */
};

/* --- the list --------------------------------------------------------------------------------- */

ef__connection *ef__connection_add(ef__server *server, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ef__connections *all = server->connections;
    ef__connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    all->is_settled = false;
    c->fd = info ? info->connect_fd : -1;
    c->since_us = ef__server_mono(server);
    c->address = ef__peer_hash(connection) % ADDRESSES;
    all->by_address[c->address]++;
    c->next = all->first;
    if (all->first)
        all->first->before = c;
    all->first = c;
    __atomic_add_fetch(&server->counts.connections, 1, __ATOMIC_RELAXED);
    return c;
}

void ef__connection_remove(ef__server *server, ef__connection *c)
{
    struct ef__connections *all = server->connections;

    if (!c)
        return;
    /* The library closes the socket after this call, so the number is still that of `c`. */
    if (c->registered)
        (void)epoll_ctl(all->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    all->by_address[c->address]--;
    if (c->before)
        c->before->next = c->next;
    else
        all->first = c->next;
    if (c->next)
        c->next->before = c->before;
    free(c);
    __atomic_sub_fetch(&server->counts.connections, 1, __ATOMIC_RELAXED);
}

void ef__connection_turn(ef__server *server, ef__connection *c, bool is_clients_turn)
{
    if (!c)
        return;
    c->since_us = is_clients_turn ? server->round_us : 0;
    server->connections->is_settled = false;
}

/* --- slow clients ----------------------------------------------------------------------------- */

/* The time limit of a client's turn. If most connections are in use, an address with a large share
 * of them gets less time, so that other addresses can connect. */
static int64_t time_of(const ef__server *server, const ef__connection *c, bool crowded)
{
    int64_t limit_us = server->options.request_ms * 1000;
    bool crowds = server->connections->by_address[c->address] > server->options.connections_max / 4;

    return crowded && crowds && limit_us > CROWDED_US ? CROWDED_US : limit_us;
}

/* Only shuts the socket down: the library notices that and cleans up. */
static void shut_slow(ef__server *server, int64_t now_us)
{
    int64_t most = server->options.connections_max;
    bool crowded = __atomic_load_n(&server->counts.connections, __ATOMIC_RELAXED) > most / 4 * 3;

    for (ef__connection *c = server->connections->first; c; c = c->next) {
        if (c->since_us <= 0 || now_us - c->since_us <= time_of(server, c, crowded))
            continue;
        (void)shutdown(c->fd, SHUT_RDWR);
        c->since_us = now_us; /* until the library closes it */
        __atomic_add_fetch(&server->counts.refused, 1, __ATOMIC_RELAXED);
    }
}

/* --- closed by the client --------------------------------------------------------------------- */

/* Registers connections that are in the server's turn at a check. They stay registered. Most
 * requests are answered sooner and cost nothing here, and neither do idle subscribers. Returns
 * whether all are registered and none is in its client's turn. */
static bool register_parked(struct ef__connections *all)
{
    bool is_settled = true;

    for (ef__connection *c = all->first; c; c = c->next) {
        struct epoll_event wanted = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
        if (!c->registered && c->since_us == 0)
            c->registered = epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, c->fd, &wanted) == 0;
        is_settled = is_settled && c->registered && c->since_us == 0;
    }
    return is_settled;
}

static void find_closed(struct ef__connections *all)
{
    struct epoll_event events[EVENTS_MAX];
    int count;

    do {
        count = epoll_wait(all->epoll_fd, events, EVENTS_MAX, 0);
        for (int i = 0; i < count; i++)
            __atomic_store_n(&((ef__connection *)events[i].data.ptr)->is_closed, true,
                             __ATOMIC_RELAXED);
    } while (count == EVENTS_MAX);
}

bool ef__request_is_abandoned(const ef__request *r)
{
    return r->client && __atomic_load_n(&r->client->is_closed, __ATOMIC_RELAXED);
}

/* Called by the thread that handles the request: the connection is suspended, so no other thread
 * reads from the socket or closes it. */
static bool is_closed_now(void *context)
{
    const ef__request *r = context;
    struct pollfd ask = {.fd = r->client->fd, .events = POLLRDHUP};

    return poll(&ask, 1, 0) == 1 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

ef_budget ef__request_budget(ef__request *r)
{
    return (ef_budget){.steps = r->server->options.query_steps,
                       .time_ms = r->server->options.query_ms,
                       .stop = r->client ? is_closed_now : NULL,
                       .stop_context = r};
}

/* --- for the network thread ------------------------------------------------------------------- */

void ef__connections_check(ef__server *server, bool has_closed)
{
    struct ef__connections *all = server->connections;

    if (has_closed)
        find_closed(all);
    if (all->is_settled || server->round_us - all->checked_us < EF__CONNECTIONS_CHECK_MS * 1000)
        return;
    all->checked_us = server->round_us;
    shut_slow(server, server->round_us);
    all->is_settled = register_parked(all);
}

int ef__connections_descriptor(const ef__server *server)
{
    return server->connections->epoll_fd;
}

bool ef__connections_settled(const ef__server *server)
{
    return server->connections->is_settled;
}

ef_status ef__connections_open(ef__server *server, ef_error *err)
{
    struct ef__connections *all = server->connections = calloc(1, sizeof *all);

    if (!all)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return all->epoll_fd >= 0 ? EF_OK : ef_fail(err, EF_IO, "epoll_create1: %s", strerror(errno));
}

void ef__connections_close(ef__server *server)
{
    if (server->connections && server->connections->epoll_fd >= 0)
        (void)close(server->connections->epoll_fd);
    free(server->connections);
    server->connections = NULL;
}
