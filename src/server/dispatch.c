/*
 * dispatch.c - from the headers to the handler: host and origin, token, tenant, route.
 *
 * The order matters. A foreign Host or Origin is refused before the token is read, so that a page
 * in a browser cannot use the server; then the token is checked, so that a client without one
 * cannot find out which paths exist. Probes differ: load balancers and scrapers call them by an
 * address or a name of their own, so they accept any Host, and reveal no data.
 */
#include "request.h"
#include "token.h"

#include "../base/buf.h"
#include "../base/limits.h"
#include "../base/same.h"
#include "../base/utf8.h"

#include <arpa/inet.h>

#define STATUS_NO_CONTENT 204
#define GZIP_BYTES_MIN 1024

/* "localhost:7450" without its port. */
static ef_str host_only(ef_str host)
{
    size_t n = host.len;

    while (n > 0 && host.ptr[n - 1] >= '0' && host.ptr[n - 1] <= '9')
        n--;
    if (n > 0 && n < host.len && host.ptr[n - 1] == ':')
        host.len = n - 1;
    if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        return (ef_str){host.ptr + 1, host.len - 2};
    return host;
}

static bool in_list(ef_str name, const char *list)
{
    ef_str rest = ef_str_from(list ? list : "");

    while (rest.len > 0) {
        ef_str item = ef__str_split(&rest, ',');
        if (item.len == name.len && strncasecmp(item.ptr, name.ptr, name.len) == 0)
            return true;
    }
    return false;
}

static bool is_our_name(const ef__server *server, ef_str host, bool is_here)
{
    ef_str name = host_only(host);

    return ef_str_equal(name, ef_str_from(server->host)) || in_list(name, server->options.hosts) ||
           (is_here && in_list(name, "localhost,127.0.0.1,::1"));
}

static bool is_address(ef_str host)
{
    ef_str name = host_only(host);
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (name.len >= sizeof(text))
        return false;
    memcpy(text, name.ptr, name.len);
    text[name.len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1;
}

static ef__host_kind host_kind(const ef__request *r, ef_str host)
{
    if (is_our_name(r->server, host, r->server->loopback || r->peer.has_uid))
        return EF__HOST_OURS;
    return is_address(host) ? EF__HOST_ADDRESS : EF__HOST_OTHER;
}

/* A name that is not configured is refused, whatever it resolves to: attackers may control it. */
static ef_status check_host(ef__request *r, ef_error *err)
{
    ef_str host = ef__request_header(r, "Host"), origin = ef__request_header(r, "Origin");
    bool probe = r->route && (r->route->flags & EF__ROUTE_PROBE);
    const char *at;

    r->host_kind = host_kind(r, host);
    /* With another name, the request may come from a page in a browser of this machine. */
    if (r->host_kind == EF__HOST_OTHER)
        r->peer.kind = EF__PEER_REMOTE;
    if (r->host_kind != EF__HOST_OURS && !probe)
        return ef_fail(err, EF_MISDIRECTED,
                       "this server is not '%.*s'; its names are set by server.hosts",
                       EF_STR_ARG(host));
    if (!origin.ptr || origin.len == 0)
        return EF_OK;
    at = memmem(origin.ptr, origin.len, "://", 3);
    if (!at || !ef_str_equal(host, (ef_str){at + 3, origin.len - (size_t)(at + 3 - origin.ptr)}))
        return ef_fail(err, EF_FORBIDDEN, "a page of '%.*s' may not use this server",
                       EF_STR_ARG(origin));
    return EF_OK;
}

static ef_status check_who(ef__request *r, ef_error *err)
{
    ef_status st = ef__token_check(r->server, ef__request_header(r, "Authorization"), &r->peer,
                                   r->began_us, &r->who, err);

    if (st != EF_OK)
        ef__request_add_header(r, "WWW-Authenticate", "Bearer realm=\"everfold\"");
    return st;
}

/* The actor that the client names is a claim; it is recorded beside the verified token. */
static ef_status name_actor(ef__request *r, ef_error *err)
{
    ef_str actor = ef__request_header(r, "Everfold-Actor");
    char known[sizeof r->who.name];

    if (actor.len == 0)
        return EF_OK;
    for (size_t i = 0; i < actor.len; i++)
        if (actor.len > EF_LIMIT_ACTOR_BYTES || (unsigned char)actor.ptr[i] < ' ' ||
            actor.ptr[i] == 127 || !ef__utf8_valid(actor))
            return ef_fail(err, EF_BAD_INPUT,
                           "Everfold-Actor is not a name: up to %d bytes of UTF-8, without "
                           "control characters",
                           EF_LIMIT_ACTOR_BYTES);
    memcpy(known, r->who.name, sizeof known);
    (void)snprintf(r->who.name, sizeof r->who.name, "%.*s (%.80s)", EF_STR_ARG(actor), known);
    return EF_OK;
}

/* Without a token, only the server's own user is an administrator: it owns the files that such
 * requests change. The header shows its client the Unix socket. */
static ef_status refuse_local(ef__request *r, ef_error *err)
{
    const char *path = ef__server_socket(r->server);

    if (!path)
        return ef_fail(err, EF_FORBIDDEN,
                       "this needs a token with scope admin, and this server has no Unix socket: "
                       "create a token as the user that runs the server, or set server.socket");
    ef__request_add_header(r, "Everfold-Socket", path);
    return ef_fail(err, EF_FORBIDDEN,
                   "without a token this is for the user that runs the server and for root, by the "
                   "Unix socket: run the command as that user with --server unix:%s, or create a "
                   "token with scope admin",
                   path);
}

static ef_status check_scope(ef__request *r, ef_error *err)
{
    unsigned scope = r->route->scope;

    if ((r->who.scopes & EF__SCOPE_ADMIN) || (r->who.scopes & scope) == scope)
        return EF_OK;
    if (r->who.token[0])
        return ef_fail(err, EF_FORBIDDEN, "this needs a token with scope %s",
                       ef__token_scope(scope));
    return refuse_local(r, err);
}

/* A route without a declared tenancy is refused. */
static bool is_open_to_bound(const ef__operation *route)
{
    return route->tenancy == EF__TENANCY_NONE || route->tenancy == EF__TENANCY_QUERY ||
           route->tenancy == EF__TENANCY_PART;
}

static ef_status choose_tenant(ef__request *r, ef_error *err)
{
    ef_str asked = ef__request_header(r, "X-Tenant-Id");
    bool given = asked.len > 0;

    if (given && (asked.len > EF_LIMIT_NAME_BYTES || !ef__utf8_valid(asked)))
        return ef_fail(err, EF_BAD_INPUT, "X-Tenant-Id is not a tenant: up to %d bytes of UTF-8",
                       EF_LIMIT_NAME_BYTES);
    if (r->who.bound && given && !ef_str_equal(asked, ef_str_from(r->who.tenant)))
        return ef_fail(err, EF_FORBIDDEN, "this token is for another tenant");
    if (r->who.bound && !is_open_to_bound(r->route))
        return ef_fail(err, EF_FORBIDDEN, "this is for all tenants; the token is for one");
    r->tenant = r->who.bound ? ef_str_from(r->who.tenant) : asked;
    r->any_tenant = !r->who.bound && !given;
    return EF_OK;
}

static ef_status find_route(ef__request *r, char allowed[EF__ROUTE_METHODS_MAX], ef_error *err)
{
    ef_str raw[EF__REQUEST_PARTS] = {{NULL, 0}};
    ef_status st =
        ef__route_find(r->method, r->path, &r->handler, raw, EF__REQUEST_PARTS, allowed, err);

    r->route = r->handler ? r->handler->operation : NULL;
    if (r->server->options.probes_only && (!r->route || !(r->route->flags & EF__ROUTE_WORKER))) {
        r->route = NULL;
        return ef_fail(err, EF_NOT_FOUND,
                       "this worker serves /metrics, /livez and /readyz, and nothing else");
    }
    r->head = ef_str_equal(r->method, EF_STR("HEAD"));
    r->lists_methods = st == EF_OK && ef_str_equal(r->method, EF_STR("OPTIONS"));
    for (size_t i = 0; st == EF_OK && i < EF__REQUEST_PARTS && raw[i].ptr; i++)
        st = ef__request_decode(r, raw[i], false, &r->parts[i], err);
    return st;
}

/* A token is checked even where none is needed. */
static bool is_open(const ef__request *r)
{
    return r->route->scope == EF__SCOPE_OPEN ||
           ((r->route->flags & EF__ROUTE_LOCAL) && r->peer.kind != EF__PEER_REMOTE &&
            ef__request_header(r, "Authorization").len == 0);
}

ef_status ef__dispatch_begin(ef__request *r)
{
    ef_error stranger = EF_ERROR_INIT;
    char allowed[EF__ROUTE_METHODS_MAX];
    ef_status found = find_route(r, allowed, &r->error), st = check_host(r, &stranger);

    if (st == EF_OK && !(found == EF_OK && is_open(r)))
        st = check_who(r, &stranger);
    if (st != EF_OK) {
        r->error = stranger; /* instead of 404 and 405, which would reveal paths */
        return st;
    }
    if (r->lists_methods || found == EF_BAD_METHOD)
        ef__request_add_header(r, "Allow", ef__arena_copy(&r->arena, ef_str_from(allowed)).ptr);
    if (found != EF_OK || r->lists_methods || is_open(r))
        return found;
    st = check_scope(r, &r->error);
    if (st == EF_OK)
        st = name_actor(r, &r->error);
    return st == EF_OK ? choose_tenant(r, &r->error) : st;
}

void ef__dispatch_problem(ef__request *r)
{
    ef__json_writer w = EF__JSON_WRITER(&r->out);

    ef__buf_reset(&r->out);
    ef__problem_write(&w, &r->error, NULL);
    ef__buf_add_char(&r->out, '\n');
    r->status = ef_status_describe(r->error.status)->http;
    r->type = "application/problem+json";
    if (r->status == 503)
        ef__request_add_header(r, "Retry-After", "1");
}

/* "gzip" or "gzip;q=0.5": with a weight that is not 0. */
static bool is_gzip(ef_str coding)
{
    ef_str weight = coding, name = ef__str_split(&weight, '=');

    while (name.len > 0 && name.ptr[0] == ' ')
        name = (ef_str){name.ptr + 1, name.len - 1};
    if (name.len < 4 || strncasecmp(name.ptr, "gzip", 4) != 0)
        return false;
    for (size_t i = 0; i < weight.len; i++)
        if (weight.ptr[i] >= '1' && weight.ptr[i] <= '9')
            return true;
    return memchr(coding.ptr, '=', coding.len) == NULL;
}

static bool accepts_gzip(const ef__request *r)
{
    ef_str list = ef__request_header(r, "Accept-Encoding");

    while (list.len > 0)
        if (is_gzip(ef__str_split(&list, ',')))
            return true;
    return false;
}

/* Not below GZIP_BYTES_MIN, where the headers outweigh the gain. All responses are text. */
static void compress_response(ef__request *r)
{
    ef__buf small = EF__BUF_INIT(EF__ANSWER_BYTES_MAX);

    if (r->follower || r->out.len < GZIP_BYTES_MIN)
        return;
    ef__request_add_header(r, "Vary", "Accept-Encoding");
    if (!accepts_gzip(r))
        return;
    if (ef__gzip(ef__buf_str(&r->out), &small) && small.len < r->out.len) {
        ef__buf_release(&r->out);
        r->out = small;
        ef__request_add_header(r, "Content-Encoding", "gzip");
    } else {
        ef__buf_release(&small);
    }
}

void ef__dispatch_run(ef__request *r)
{
    ef_status st;

    if (r->lists_methods) {
        r->status = STATUS_NO_CONTENT;
        return;
    }
    st = ef__request_serve(r, &r->error);
    if (!r->waiting.parks)
        ef__dispatch_end(r, st);
}

void ef__dispatch_end(ef__request *r, ef_status st)
{
    if (st == EF_OK && r->out.failed)
        st = ef_fail(&r->error, EF_TOO_LARGE,
                     "the answer is larger than %d bytes; ask for fewer with limit",
                     EF__ANSWER_BYTES_MAX);
    if (st != EF_OK) {
        r->error.status = st;
        ef__dispatch_problem(r);
    } else if (r->route->scope & EF__SCOPE_OPERATE) {
        ef_supervisor_wake(
            r->server->options.supervisor); /* no append announces operator actions */
    }
    compress_response(r);
}
