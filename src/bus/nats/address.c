/*
 * address.c - see address.h.
 */
#include "address.h"

#include <stdio.h>
#include <string.h>

/* --- parsing ---------------------------------------------------------------------------------- */

static const char *const names[] = {"{tenant}", "{type}", "{stream}", "{key}", NULL};

static bool is_name_at(const char *at, size_t *out_len)
{
    for (size_t i = 0; names[i]; i++) {
        *out_len = strlen(names[i]);
        if (strncmp(at, names[i], *out_len) == 0)
            return true;
    }
    return false;
}

static ef_status check_subject(const char *subject, ef_error *err)
{
    size_t len = strlen(subject), skip;

    if (len == 0 || len >= EF__NATS_SUBJECT_MAX || subject[0] == '.' || subject[len - 1] == '.' ||
        strstr(subject, "..") || strncmp(subject, "$JS", 3) == 0)
        return ef_fail(err, EF_BAD_INPUT, "'%s' is not a subject to publish to", subject);
    for (const char *c = subject; *c; c++) {
        if (*c == '*' || *c == '>')
            return ef_fail(err, EF_BAD_INPUT, "'%s' is a pattern: a message needs a subject",
                           subject);
        if (*c == '{') {
            if (!is_name_at(c, &skip))
                return ef_fail(err, EF_BAD_INPUT,
                               "'%s': the placeholders are {tenant}, {type}, {stream} and {key}",
                               subject);
            c += skip - 1;
        }
    }
    return EF_OK;
}

/* After the host: nothing, or a colon and a port. */
static bool is_port(ef_str text)
{
    int port = 0;

    for (size_t i = 1; i < text.len && port <= 65535; i++)
        port = text.ptr[i] >= '0' && text.ptr[i] <= '9' ? port * 10 + (text.ptr[i] - '0') : 65536;
    return text.len == 0 || (text.ptr[0] == ':' && port >= 1 && port <= 65535);
}

static ef_status parse_server(ef_str server, ef__nats_address *out, ef_error *err)
{
    size_t scheme = out->tls ? 6 : 7; /* tls:// or nats:// */
    const char *host = server.ptr + scheme, *end;
    size_t len = server.len - scheme, host_len;
    bool bracket = len && host[0] == '['; /* an IPv6 address contains colons */

    if (memchr(server.ptr, '@', server.len))
        return ef_fail(err, EF_BAD_INPUT,
                       "the address contains a user name or password, and addresses are logged: "
                       "set `secret` to USER:PASSWORD or a token");
    end = memchr(host, bracket ? ']' : ':', len);
    host += bracket;
    host_len = end ? (size_t)(end - host) : bracket ? 0 : len;
    end = host + host_len + bracket;
    if (host_len == 0 || host_len >= sizeof out->host || server.len >= sizeof out->server ||
        !is_port((ef_str){end, (size_t)(server.ptr + server.len - end)}))
        return ef_fail(err, EF_BAD_INPUT, "'%.*s' has no valid host: use nats://HOST:PORT/SUBJECT",
                       EF_STR_ARG(server));
    (void)snprintf(out->server, sizeof out->server, "%.*s", EF_STR_ARG(server));
    (void)snprintf(out->host, sizeof out->host, "%.*s", (int)host_len, host);
    (void)snprintf(out->port, sizeof out->port, "%.*s",
                   end < server.ptr + server.len ? (int)(server.ptr + server.len - end - 1) : 4,
                   end < server.ptr + server.len ? end + 1 : "4222");
    return EF_OK;
}

/* Absolute, because workers run in different directories. */
static ef_status parse_file(ef_str key, ef_str value, char out[PATH_MAX], ef_error *err)
{
    if (value.len < 2 || value.len >= PATH_MAX || value.ptr[0] != '/')
        return ef_fail(err, EF_BAD_INPUT, "%.*s is '%.*s': an absolute path is required",
                       EF_STR_ARG(key), EF_STR_ARG(value));
    (void)snprintf(out, PATH_MAX, "%.*s", EF_STR_ARG(value));
    return EF_OK;
}

static ef_status parse_pair(ef_str key, ef_str value, ef__nats_address *out, ef_error *err)
{
    if (ef_str_equal(key, EF_STR("creds")))
        return parse_file(key, value, out->creds, err);
    if (!ef_str_equal(key, EF_STR("ca")))
        return ef_fail(err, EF_BAD_INPUT,
                       "unknown key '%.*s' in a NATS address: the keys are ca and creds",
                       EF_STR_ARG(key));
    if (!out->tls)
        return ef_fail(err, EF_BAD_INPUT, "ca requires TLS: use tls://HOST:PORT/SUBJECT?ca=FILE");
    return parse_file(key, value, out->ca, err);
}

static ef_status parse_query(ef_str query, ef__nats_address *out, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && query.len) {
        const char *end = memchr(query.ptr, '&', query.len);
        size_t len = end ? (size_t)(end - query.ptr) : query.len;
        const char *is = memchr(query.ptr, '=', len);
        size_t key = is ? (size_t)(is - query.ptr) : len;
        ef_str value = {query.ptr + key + 1, is ? len - key - 1 : 0};
        st = parse_pair((ef_str){query.ptr, key}, value, out, err);
        len += end != NULL;
        query = (ef_str){query.ptr + len, query.len - len};
    }
    return st;
}

ef_status ef__nats_address_parse(ef_str url, ef__nats_address *out, ef_error *err)
{
    const char *query = memchr(url.ptr, '?', url.len);
    size_t len = query ? (size_t)(query - url.ptr) : url.len, scheme;
    const char *slash;
    ef_status st;

    *out = (ef__nats_address){.tls = url.ptr[0] == 't'};
    scheme = out->tls ? 6 : 7;
    slash = len > scheme ? memchr(url.ptr + scheme, '/', len - scheme) : NULL;
    if (!slash || (size_t)(url.ptr + len - slash) > EF__NATS_SUBJECT_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "'%.*s' is not a NATS address: use nats://HOST:PORT/SUBJECT",
                       EF_STR_ARG(url));
    st = parse_server((ef_str){url.ptr, (size_t)(slash - url.ptr)}, out, err);
    if (st != EF_OK)
        return st;
    (void)snprintf(out->subject, sizeof out->subject, "%.*s", (int)(url.ptr + len - slash - 1),
                   slash + 1);
    st = check_subject(out->subject, err);
    if (st == EF_OK && query)
        st = parse_query((ef_str){query + 1, url.len - len - 1}, out, err);
    return st;
}

ef_status ef__bus_nats_check(const ef__bus_options *options, ef_error *err)
{
    ef__nats_address address;

    return ef__nats_address_parse(options->url, &address, err);
}

/* --- the subject ------------------------------------------------------------------------------ */

bool ef__nats_subject(const ef__nats_address *a, const ef__bus_message *m, ef__buf *out)
{
    const ef_str values[] = {m->event->tenant, m->event->type, m->event->stream, m->key};
    size_t len;

    ef__buf_reset(out);
    for (const char *c = a->subject; *c; c++) {
        if (*c != '{' || !is_name_at(c, &len)) {
            ef__buf_add_char(out, *c);
            continue;
        }
        for (size_t i = 0; names[i]; i++)
            if (strncmp(c, names[i], len) == 0 && strlen(names[i]) == len)
                ef__buf_add_token(out, values[i]);
        c += len - 1;
    }
    return !out->failed;
}
