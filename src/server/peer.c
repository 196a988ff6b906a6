/*
 * peer.c - the address, or the user, that a request comes from.
 */
#include "http_priv.h"
#include "request.h"

#include "../base/hash.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

_Static_assert(EF__PEER_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address fits");

static const struct sockaddr *peer_address(const ef__request *r)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info ? info->client_addr : NULL;
}

ef_str ef__peer_address(const ef__request *r, char out[EF__PEER_ADDRESS_MAX])
{
    const struct sockaddr *a = peer_address(r);
    const void *bytes = NULL;

    if (a && a->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    else if (a && a->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
    if (bytes && inet_ntop(a->sa_family, bytes, out, EF__PEER_ADDRESS_MAX))
        return ef_str_from(out);
    return a && a->sa_family == AF_UNIX ? EF_STR("unix") : EF_STR("");
}

unsigned ef__peer_hash(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *a = info ? info->client_addr : NULL;

    if (a && a->sa_family == AF_INET)
        return (unsigned)ef__xxh3(
            (ef_str){(const char *)&((const struct sockaddr_in *)(const void *)a)->sin_addr, 4}, 0);
    if (a && a->sa_family == AF_INET6)
        return (unsigned)ef__xxh3(
            (ef_str){(const char *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16},
            0);
    return 0;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a && a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    if (a && a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    return a && a->sa_family == AF_UNIX;
}

/* A proxy on this machine forwards requests that come from elsewhere. */
static bool is_forwarded(const ef__request *r)
{
    return ef__request_header(r, "Forwarded").len > 0 ||
           ef__request_header(r, "X-Forwarded-For").len > 0;
}

/* The process at the other end of a Unix socket, as the kernel noted it at the connect. */
static bool read_uid(const ef__request *r, unsigned *out)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct ucred who;
    socklen_t length = sizeof who;

    if (!info || getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return false;
    *out = who.uid;
    return true;
}

ef__peer ef__peer_of(const ef__request *r)
{
    const struct sockaddr *a = peer_address(r);
    ef__peer peer = {.kind = EF__PEER_REMOTE};

    peer.has_uid = a && a->sa_family == AF_UNIX && read_uid(r, &peer.uid);
    if (!is_loopback(a) || is_forwarded(r))
        return peer;
    peer.kind =
        peer.has_uid && (peer.uid == geteuid() || peer.uid == 0) ? EF__PEER_OWNER : EF__PEER_LOCAL;
    return peer;
}
