/*
 * address.c - parses nats://[USER:PASSWORD@]HOST[:PORT]/STREAM[?KEY=VALUE&…]; tls:// requires TLS.
 */
#include "jet.h"

#include "../../base/number.h"

#include <stdio.h>
#include <string.h>

#define IN_FLIGHT_DEFAULT                                                                          \
    40000                     /* messages: a batch that is applied, one read ahead, and a reserve */
#define IN_FLIGHT_MAX 1000000 /* messages: the broker keeps state per unacknowledged message */
#define ACK_WAIT_S 300        /* longer than a slow batch, so that a catch-up is not redelivered */
#define ACK_WAIT_S_MAX 86400  /* a day: a lost worker's messages must be delivered again */
#define BATCH_DEFAULT EF_READ_LIMIT_MAX

static ef_status parse_number(ef_str key, ef_str value, int64_t max, int64_t *out, ef_error *err)
{
    int64_t number = 0;

    if (!ef__digits_parse(value, &number) || number < 1 || number > max)
        return ef_fail(err, EF_BAD_INPUT, "%.*s is '%.*s', not a whole number from 1 to %lld",
                       EF_STR_ARG(key), EF_STR_ARG(value), (long long)max);
    *out = number;
    return EF_OK;
}

static ef_status parse_file(ef_str key, ef_str value, char *out, size_t size, ef_error *err)
{
    if (value.len == 0 || value.len >= size)
        return ef_fail(err, EF_BAD_INPUT, "%.*s is not a file name", EF_STR_ARG(key));
    (void)snprintf(out, size, "%.*s", EF_STR_ARG(value));
    return EF_OK;
}

static ef_status parse_pair(jet_address *address, ef_str key, ef_str value, ef_error *err)
{
    if (ef_str_equal(key, EF_STR("subject")))
        return jet_filter_parse(value, address->filter, err);
    if (ef_str_equal(key, EF_STR("creds")))
        return parse_file(key, value, address->creds, sizeof address->creds, err);
    if (ef_str_equal(key, EF_STR("ca")))
        return parse_file(key, value, address->ca, sizeof address->ca, err);
    if (ef_str_equal(key, EF_STR("in_flight")))
        return parse_number(key, value, IN_FLIGHT_MAX, &address->in_flight, err);
    if (ef_str_equal(key, EF_STR("batch")))
        return parse_number(key, value, EF_READ_LIMIT_MAX, &address->batch, err);
    if (ef_str_equal(key, EF_STR("ack_wait")))
        return parse_number(key, value, ACK_WAIT_S_MAX, &address->ack_wait_s, err);
    return ef_fail(err, EF_BAD_INPUT,
                   "unknown key '%.*s' in a JetStream URL: the keys are subject, creds, ca, "
                   "in_flight, batch and ack_wait",
                   EF_STR_ARG(key));
}

static ef_status parse_query(jet_address *address, const char *query, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && *query) {
        size_t len = strcspn(query, "&"), key = strcspn(query, "=&");
        ef_str value = {query + key + 1, key < len ? len - key - 1 : 0};
        st = parse_pair(address, (ef_str){query, key}, value, err);
        query += len + (query[len] == '&');
    }
    return st;
}

static ef_status parse_stream(jet_address *address, const char *at, size_t len, ef_error *err)
{
    bool fine = len > 0 && len < sizeof address->stream;

    for (size_t i = 0; fine && i < len; i++)
        fine = at[i] > ' ' && at[i] < 0x7f && !strchr(".*>/\\\"", at[i]);
    if (!fine)
        return ef_fail(err, EF_BAD_INPUT,
                       "'%s' has no valid stream name: write nats://HOST:PORT/STREAM",
                       address->shown);
    (void)snprintf(address->stream, sizeof address->stream, "%.*s", (int)len, at);
    return EF_OK;
}

/* Parses HOST, HOST:PORT or [ADDRESS]:PORT. False: the host is empty or too long. */
static bool parse_host(jet_address *address, ef_str place)
{
    bool bracket = place.len && place.ptr[0] == '['; /* an IPv6 address contains colons */
    const char *end = memchr(place.ptr, bracket ? ']' : ':', place.len);
    size_t len = end ? (size_t)(end - place.ptr) : bracket ? 0 : place.len;

    if (len <= bracket || len - bracket >= sizeof address->host)
        return false;
    (void)snprintf(address->host, sizeof address->host, "%.*s", (int)(len - bracket),
                   place.ptr + bracket);
    return true;
}

static ef_status parse_server(jet_address *address, const char *url, size_t len, ef_error *err)
{
    const char *at = memrchr(url, '@', len), *user = strstr(url, "://") + 3;
    const char *host = at ? at + 1 : user;

    if (len >= sizeof address->server || (size_t)(host - url) >= len ||
        !parse_host(address, (ef_str){host, len - (size_t)(host - url)}))
        return ef_fail(err, EF_BAD_INPUT, "'%s' has no valid host: write nats://HOST:PORT/STREAM",
                       address->shown);
    if (at && !memchr(user, ':', (size_t)(at - user)))
        return ef_fail(err, EF_BAD_INPUT,
                       "the URL contains a token, and URLs are logged: use USER:PASSWORD@ or "
                       "creds=FILE");
    (void)snprintf(address->server, sizeof address->server, "%.*s", (int)len, url);
    address->tls = strncmp(url, "tls:", 4) == 0;
    return EF_OK;
}

/* The URL for messages: without the credentials and without the query. */
static void set_shown_url(jet_address *address, const char *url)
{
    char *slashes, *host, *at;

    (void)snprintf(address->shown, sizeof address->shown, "%s", url);
    address->shown[strcspn(address->shown, "?")] = '\0';
    slashes = strstr(address->shown, "://");
    host = slashes ? slashes + 3 : address->shown;
    at = memrchr(host, '@', strcspn(host, "/"));
    if (at)
        memmove(host, at + 1, strlen(at));
}

ef_status jet_address_parse(const char *url, jet_address *out, ef_error *err)
{
    const char *host = strstr(url, "://");
    size_t server = host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?") : strlen(url);
    const char *stream = url + server + (url[server] == '/');
    size_t stream_len = strcspn(stream, "?");
    ef_status st;

    *out = (jet_address){
        .in_flight = IN_FLIGHT_DEFAULT, .batch = BATCH_DEFAULT, .ack_wait_s = ACK_WAIT_S};
    set_shown_url(out, url);
    if (!host)
        return ef_fail(err, EF_BAD_INPUT,
                       "'%s' is not a JetStream URL: write nats://HOST:PORT/STREAM", out->shown);
    st = parse_server(out, url, server, err);
    if (st == EF_OK)
        st = parse_stream(out, stream, stream_len, err);
    if (st == EF_OK)
        st = jet_filter_parse(EF_STR("tenant.>"), out->filter, err);
    if (st == EF_OK && stream[stream_len] == '?')
        st = parse_query(out, stream + stream_len + 1, err);
    if (st == EF_OK && out->ca[0] && !out->tls)
        st = ef_fail(err, EF_BAD_INPUT, "ca requires TLS: write tls://HOST:PORT/STREAM?ca=FILE");
    return st;
}
