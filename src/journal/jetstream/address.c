/*
 * address.c - nats://[USER:PASSWORD@]HOST[:PORT]/STREAM[?KEY=VALUE&…]; tls:// asks for TLS.
 */
#include "jet.h"

#include <stdio.h>
#include <string.h>

#define IN_FLIGHT_DEFAULT 40000 /* what is folded, what is read ahead, and as much again */
#define IN_FLIGHT_MAX 1000000
#define ACK_WAIT_S 300 /* a long catch-up is not a lost worker */
#define ACK_WAIT_S_MAX 86400
#define BATCH_DEFAULT EF_READ_LIMIT_MAX

static ef_status take_number(ef_str key, ef_str value, int64_t max, int64_t *out, ef_error *err)
{
    int64_t number = 0;

    for (size_t i = 0; i < value.len && number <= max; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            number = max + 1;
        else
            number = number * 10 + (value.ptr[i] - '0');
    }
    if (number < 1 || number > max)
        return ef_fail(err, EF_BAD_INPUT, "%.*s is '%.*s', not a whole number from 1 to %lld",
                       EF_STR_ARG(key), EF_STR_ARG(value), (long long)max);
    *out = number;
    return EF_OK;
}

static ef_status take_file(ef_str key, ef_str value, char *out, size_t size, ef_error *err)
{
    if (value.len == 0 || value.len >= size)
        return ef_fail(err, EF_BAD_INPUT, "%.*s names no file", EF_STR_ARG(key));
    (void)snprintf(out, size, "%.*s", EF_STR_ARG(value));
    return EF_OK;
}

static ef_status take_pair(jet_address *a, ef_str key, ef_str value, ef_error *err)
{
    if (ef_str_equal(key, EF_STR("subject")))
        return jet_filter_take(value, a->filter, err);
    if (ef_str_equal(key, EF_STR("creds")))
        return take_file(key, value, a->creds, sizeof a->creds, err);
    if (ef_str_equal(key, EF_STR("ca")))
        return take_file(key, value, a->ca, sizeof a->ca, err);
    if (ef_str_equal(key, EF_STR("in_flight")))
        return take_number(key, value, IN_FLIGHT_MAX, &a->in_flight, err);
    if (ef_str_equal(key, EF_STR("batch")))
        return take_number(key, value, EF_READ_LIMIT_MAX, &a->batch, err);
    if (ef_str_equal(key, EF_STR("ack_wait")))
        return take_number(key, value, ACK_WAIT_S_MAX, &a->ack_wait_s, err);
    return ef_fail(err, EF_BAD_INPUT,
                   "a JetStream address has no '%.*s'; it has subject, creds, ca, in_flight, batch "
                   "and ack_wait",
                   EF_STR_ARG(key));
}

static ef_status take_query(jet_address *a, const char *query, ef_error *err)
{
    ef_status st = EF_OK;

    while (st == EF_OK && *query) {
        size_t len = strcspn(query, "&"), key = strcspn(query, "=&");
        ef_str value = {query + key + 1, key < len ? len - key - 1 : 0};
        st = take_pair(a, (ef_str){query, key}, value, err);
        query += len + (query[len] == '&');
    }
    return st;
}

static ef_status take_stream(jet_address *a, const char *at, size_t len, ef_error *err)
{
    bool fine = len > 0 && len < sizeof a->stream;

    for (size_t i = 0; fine && i < len; i++)
        fine = at[i] > ' ' && at[i] < 0x7f && !strchr(".*>/\\\"", at[i]);
    if (!fine)
        return ef_fail(err, EF_BAD_INPUT, "'%s' names no stream: nats://HOST:PORT/STREAM is needed",
                       a->shown);
    (void)snprintf(a->stream, sizeof a->stream, "%.*s", (int)len, at);
    return EF_OK;
}

/* HOST, HOST:PORT or [ADDRESS]:PORT. False: there is no host in it. */
static bool take_host(jet_address *a, ef_str place)
{
    bool bracket = place.len && place.ptr[0] == '['; /* an address with colons of its own */
    const char *end = memchr(place.ptr, bracket ? ']' : ':', place.len);
    size_t len = end ? (size_t)(end - place.ptr) : bracket ? 0 : place.len;

    if (len <= bracket || len - bracket >= sizeof a->host)
        return false;
    (void)snprintf(a->host, sizeof a->host, "%.*s", (int)(len - bracket), place.ptr + bracket);
    return true;
}

static ef_status take_server(jet_address *a, const char *url, size_t len, ef_error *err)
{
    const char *at = memrchr(url, '@', len), *user = strstr(url, "://") + 3;
    const char *host = at ? at + 1 : user;

    if (len >= sizeof a->server || (size_t)(host - url) >= len ||
        !take_host(a, (ef_str){host, len - (size_t)(host - url)}))
        return ef_fail(err, EF_BAD_INPUT, "'%s' names no broker: nats://HOST:PORT/STREAM is needed",
                       a->shown);
    if (at && !memchr(user, ':', (size_t)(at - user)))
        return ef_fail(err, EF_BAD_INPUT,
                       "the address has a token in it, and addresses are shown to people: use "
                       "USER:PASSWORD@, or creds=FILE");
    (void)snprintf(a->server, sizeof a->server, "%.*s", (int)len, url);
    a->tls = strncmp(url, "tls:", 4) == 0;
    return EF_OK;
}

/* For people: neither a password nor what follows the stream. */
static void show(jet_address *a, const char *url)
{
    char *slashes, *host, *at;

    (void)snprintf(a->shown, sizeof a->shown, "%s", url);
    a->shown[strcspn(a->shown, "?")] = '\0';
    slashes = strstr(a->shown, "://");
    host = slashes ? slashes + 3 : a->shown;
    at = memrchr(host, '@', strcspn(host, "/"));
    if (at)
        memmove(host, at + 1, strlen(at));
}

ef_status jet_address_take(const char *url, jet_address *out, ef_error *err)
{
    const char *host = strstr(url, "://");
    size_t server = host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?") : strlen(url);
    const char *stream = url + server + (url[server] == '/');
    size_t stream_len = strcspn(stream, "?");
    ef_status st;

    *out = (jet_address){
        .in_flight = IN_FLIGHT_DEFAULT, .batch = BATCH_DEFAULT, .ack_wait_s = ACK_WAIT_S};
    show(out, url);
    if (!host)
        return ef_fail(err, EF_BAD_INPUT, "'%s': nats://HOST:PORT/STREAM is needed", out->shown);
    st = take_server(out, url, server, err);
    if (st == EF_OK)
        st = take_stream(out, stream, stream_len, err);
    if (st == EF_OK)
        st = jet_filter_take(EF_STR("tenant.>"), out->filter, err);
    if (st == EF_OK && stream[stream_len] == '?')
        st = take_query(out, stream + stream_len + 1, err);
    if (st == EF_OK && out->ca[0] && !out->tls)
        st = ef_fail(err, EF_BAD_INPUT, "ca is for TLS: tls://HOST:PORT/STREAM?ca=FILE");
    return st;
}
