/*
 * address.c - the address and the Unix socket to listen on, and where a request comes from.
 */
#include "http_priv.h"
#include "request.h"

#include "../base/file.h"
#include "../base/hash.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 512
#define SOCKET_BACKLOG 64

static bool is_loopback(const struct sockaddr *a)
{
    if (a && a->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
    if (a && a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    return a && a->sa_family == AF_UNIX;
}

/* --- the address ------------------------------------------------------------------------------ */

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

/* --- the Unix socket for the server's own user ---------------------------------------------------
 *
 * A process that dies leaves its socket behind as a file that refuses connections; the next server
 * replaces it. One that a live server listens on stays. The directory is locked meanwhile, so that
 * two servers that start together do not both take a file for dead.
 */

/* A descriptor of the directory that `path` is in, locked; -1 with errno. */
static int lock_directory(const char *path)
{
    const char *name;
    int fd = ef__parent_open(path, NULL, &name);

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
    if (listen(s->fd, SOCKET_BACKLOG) != 0 || stat(address->sun_path, &file) != 0)
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

/* --- peers ------------------------------------------------------------------------------------ */

_Static_assert(EF__PEER_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address fits");

static const struct sockaddr *peer_address(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info ? info->client_addr : NULL;
}

/* {NULL}: neither IPv4 nor IPv6. */
static ef_str address_bytes(const struct sockaddr *a)
{
    if (a && a->sa_family == AF_INET)
        return (ef_str){(const char *)&((const struct sockaddr_in *)(const void *)a)->sin_addr, 4};
    if (a && a->sa_family == AF_INET6)
        return (ef_str){(const char *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                        16};
    return (ef_str){NULL, 0};
}

ef_str ef__peer_address(const ef__request *r, char out[EF__PEER_ADDRESS_MAX])
{
    const struct sockaddr *a = peer_address(r->connection);
    ef_str bytes = address_bytes(a);

    if (bytes.ptr && inet_ntop(a->sa_family, bytes.ptr, out, EF__PEER_ADDRESS_MAX))
        return ef_str_from(out);
    return a && a->sa_family == AF_UNIX ? EF_STR("unix") : EF_STR("");
}

unsigned ef__peer_hash(struct MHD_Connection *connection)
{
    ef_str bytes = address_bytes(peer_address(connection));

    return bytes.ptr ? (unsigned)ef__xxh3(bytes, 0) : 0;
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
    const struct sockaddr *a = peer_address(r->connection);
    ef__peer peer = {.kind = EF__PEER_REMOTE};

    peer.has_uid = a && a->sa_family == AF_UNIX && read_uid(r, &peer.uid);
    if (!is_loopback(a) || is_forwarded(r))
        return peer;
    peer.kind =
        peer.has_uid && (peer.uid == geteuid() || peer.uid == 0) ? EF__PEER_OWNER : EF__PEER_LOCAL;
    return peer;
}
