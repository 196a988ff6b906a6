/*
 * ask.c - one call over HTTP: the only file that knows libcurl.
 *
 * One connection is kept, under a lock. Redirects are not followed, for a token must not go
 * elsewhere; a proxy of the environment is used, but not for this machine itself.
 */
#include "client_priv.h"

#include "../base/limits.h"

#include <curl/curl.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define CONNECT_MS 10000
#define TIMEOUT_MS 60000

struct ef_client {
    char *url; /* without a slash at its end */
    char *authorization;
    char *actor;
    char *ca_file;
    int64_t timeout_ms;
    bool here; /* it is this machine */
    pthread_mutex_t lock;
    CURL *curl;
};

/* --- open and close
 * -------------------------------------------------------------------------------- */

static bool starts(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* "http://127.0.0.1:7450" and the like. The whole name counts: localhost.example.org is elsewhere,
 * and so is 127.example.org. */
static bool is_here(const char *url)
{
    static const char *const names[] = {"localhost", "[::1]"};
    const char *host = strstr(url, "://");
    size_t length = host ? strcspn(host + 3, host[3] == '[' ? "]/" : ":/") : 0;
    struct in_addr address;
    char name[64];

    if (length > 0 && host[3 + length] == ']')
        length++;
    if (length == 0 || length >= sizeof(name))
        return false;
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, host + 3);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static ef_status check_url(const ef_client_options *o, ef_error *err)
{
    const char *host = o->url ? strstr(o->url, "://") : NULL;

    if (!host || (!starts(o->url, "http://") && !starts(o->url, "https://")) || !host[3] ||
        host[3] == '/')
        return ef_fail(err, EF_BAD_INPUT,
                       "the server is '%s'; a URL like http://127.0.0.1:7450 is needed",
                       o->url ? o->url : "");
    if (strpbrk(host + 3, "@?#"))
        return ef_fail(err, EF_BAD_INPUT, "the server's URL may have neither a user nor a query");
    if (o->token && !starts(o->url, "https://") && !is_here(o->url))
        return ef_fail(err, EF_BAD_INPUT,
                       "'%s' is another machine: a token goes there by https only", o->url);
    for (const char *c = o->token; c && *c; c++)
        if (*c <= ' ' || *c > '~')
            return ef_fail(err, EF_BAD_INPUT, "the token has a character that no token has");
    for (const char *c = o->actor; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || strlen(o->actor) > EF_LIMIT_ACTOR_BYTES)
            return ef_fail(err, EF_BAD_INPUT,
                           "actor is not a name: up to %d bytes, without control characters",
                           EF_LIMIT_ACTOR_BYTES);
    return EF_OK;
}

static ef_status fill(ef_client *client, const ef_client_options *o, ef_error *err)
{
    size_t length = strlen(o->url);

    while (length > 0 && o->url[length - 1] == '/')
        length--;
    client->url = strndup(o->url, length);
    client->here = is_here(o->url);
    client->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS;
    if (o->token && asprintf(&client->authorization, "Authorization: Bearer %s", o->token) < 0)
        client->authorization = NULL;
    client->ca_file = o->ca_file ? strdup(o->ca_file) : NULL;
    client->actor = o->actor && *o->actor ? strdup(o->actor) : NULL;
    client->curl = curl_easy_init();
    if (!client->url || !client->curl || (o->token && !client->authorization) ||
        (o->ca_file && !client->ca_file) || (o->actor && *o->actor && !client->actor))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a client");
    return EF_OK;
}

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

ef_status ef_client_open(const ef_client_options *options, ef_client **out, ef_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ef_client *client;
    ef_status st;

    if (!options || !out)
        return ef_fail(err, EF_BAD_INPUT, "options or out is NULL");
    *out = NULL;
    st = check_url(options, err);
    if (st != EF_OK)
        return st;
    (void)pthread_once(&once, init_curl);
    client = calloc(1, sizeof *client);
    if (!client)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a client");
    pthread_mutex_init(&client->lock, NULL);
    st = fill(client, options, err);
    if (st != EF_OK) {
        ef_client_close(client);
        return st;
    }
    *out = client;
    return EF_OK;
}

void ef_client_close(ef_client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->curl);
    if (client->authorization)
        explicit_bzero(client->authorization, strlen(client->authorization));
    free(client->authorization);
    free(client->ca_file);
    free(client->actor);
    free(client->url);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* --- what is asked
 * --------------------------------------------------------------------------------- */

void ef__ask_path(ef__ask *call, const char *text)
{
    (void)ef__buf_add_text(&call->target, text);
}

void ef__ask_name(ef__ask *call, ef_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            strchr("-_~", c))
            (void)ef__buf_add_char(&call->target, (char)c);
        else
            (void)ef__buf_printf(&call->target, "%%%02X", c);
    }
}

static void begin_parameter(ef__ask *call, const char *key)
{
    (void)ef__buf_printf(&call->target, "%c%s=", call->asked ? '&' : '?', key);
    call->asked = true;
}

void ef__ask_text(ef__ask *call, const char *key, ef_str value)
{
    if (value.len == 0)
        return;
    begin_parameter(call, key);
    ef__ask_name(call, value);
}

void ef__ask_int(ef__ask *call, const char *key, int64_t value)
{
    if (value == 0)
        return;
    begin_parameter(call, key);
    (void)ef__buf_printf(&call->target, "%" PRId64, value);
}

void ef__ask_flag(ef__ask *call, const char *key, bool value)
{
    if (value)
        ef__ask_text(call, key, EF_STR("true"));
}

void ef__ask_member(ef__json_writer *w, const char *key, ef_str value)
{
    if (value.len == 0)
        return;
    ef__json_key(w, key);
    ef__json_str(w, value);
}

void ef__ask_number(ef__json_writer *w, const char *key, int64_t value)
{
    if (value == 0)
        return;
    ef__json_key(w, key);
    ef__json_int(w, value);
}

void ef__ask_release(ef__ask *call)
{
    ef__buf_release(&call->target);
    ef__buf_release(&call->body);
    ef__buf_release(&call->answer);
}

/* --- asking
 * ---------------------------------------------------------------------------------------- */

static size_t take_body(char *bytes, size_t size, size_t count, void *context)
{
    ef__ask *call = context;

    return ef__buf_add(&call->answer, bytes, size * count) ? size * count : 0;
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context)
{
    static const char next[] = "Everfold-Next:", more[] = "Everfold-More:";
    ef__ask *call = context;
    size_t length = size * count;

    if (length > sizeof(next) && strncasecmp(bytes, next, sizeof(next) - 1) == 0)
        for (size_t i = sizeof(next) - 1; i < length && i < sizeof(next) + 20; i++)
            if (bytes[i] >= '0' && bytes[i] <= '9')
                call->next = call->next * 10 + (bytes[i] - '0');
    if (length > sizeof(more) && strncasecmp(bytes, more, sizeof(more) - 1) == 0)
        call->more = true;
    return length;
}

static bool add_header(struct curl_slist **list, const char *format, const char *value)
{
    char text[512];
    struct curl_slist *grown;

    if (snprintf(text, sizeof(text), format, value) >= (int)sizeof(text))
        return false;
    grown = curl_slist_append(*list, text);
    *list = grown ? grown : *list;
    return grown != NULL;
}

static ef_status make_headers(const ef_client *client, const ef__ask *call, struct curl_slist **out,
                              ef_error *err)
{
    char tenant[512];
    bool fits =
        (size_t)snprintf(tenant, sizeof(tenant), "%.*s", EF_STR_ARG(call->tenant)) < sizeof(tenant);

    for (size_t i = 0; i < call->tenant.len; i++)
        if ((unsigned char)call->tenant.ptr[i] < ' ')
            fits = false;
    if (!fits)
        return ef_fail(err, EF_BAD_INPUT, "the tenant's name does not fit into a header");
    if (!add_header(out, "Accept: %s", "application/json") || !add_header(out, "Expect:%s", "") ||
        (call->body.len > 0 &&
         !add_header(out, "Content-Type: %s", call->type ? call->type : "application/json")) ||
        (client->authorization && !add_header(out, "%s", client->authorization)) ||
        (client->actor && !add_header(out, "Everfold-Actor: %s", client->actor)) ||
        (call->tenant.len > 0 && !add_header(out, "X-Tenant-Id: %s", tenant)))
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a call");
    return EF_OK;
}

static void set_up(ef_client *client, ef__ask *call, const char *url, struct curl_slist *headers)
{
    CURL *curl = client->curl;
    bool reads = strcmp(call->method, "GET") == 0;

    curl_easy_reset(curl);
    (void)curl_easy_setopt(curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(client->timeout_ms + call->wait_ms));
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, call);
    (void)curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, client->here ? NULL : "gzip");
    if (client->here)
        (void)curl_easy_setopt(curl, CURLOPT_PROXY, "");
    if (client->ca_file)
        (void)curl_easy_setopt(curl, CURLOPT_CAINFO, client->ca_file);
    if (reads)
        return;
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body.len ? call->body.ptr : "");
    (void)curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
}

/* Before anything was sent nothing was done. Afterwards a question may be asked again; of a change
 * nobody knows. */
static ef_status tell_failure(const ef_client *client, const ef__ask *call, CURLcode code,
                              ef_error *err)
{
    const char *why = curl_easy_strerror(code);
    bool reads = strcmp(call->method, "GET") == 0;

    if (call->answer.failed)
        return ef_fail(err, EF_TOO_LARGE, "the answer of %s is larger than %d bytes", client->url,
                       EF__ASK_ANSWER_MAX);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
        code == CURLE_COULDNT_RESOLVE_PROXY)
        return ef_fail(err, EF_BUSY, "%s cannot be reached: %s", client->url, why);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
        code == CURLE_SSL_CONNECT_ERROR)
        return ef_fail(err, EF_BAD_INPUT, "%s is not trusted: %s", client->url, why);
    if (!reads)
        return ef_fail(err, EF_UNSURE, "the answer of %s was lost: %s", client->url, why);
    return ef_fail(err, code == CURLE_OPERATION_TIMEDOUT ? EF_TIMEOUT : EF_BUSY,
                   "%s did not answer: %s", client->url, why);
}

static ef_status status_of(const ef__json *problem, long http)
{
    const ef__json *code = ef__json_get(problem, "code");

    for (int i = EF_OK + 1; code && i < EF_STATUS_COUNT; i++)
        if (ef_str_equal(code->text, ef_str_from(ef_status_code((ef_status)i))))
            return (ef_status)i;
    /* Not Everfold's answer: a proxy's, by its HTTP status. */
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        if (ef_status_http((ef_status)i) == http)
            return (ef_status)i;
    return http < 500 ? EF_BAD_INPUT : EF_IO;
}

static ef_status tell_problem(const ef_client *client, const ef__ask *call, long http,
                              ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__json *problem = NULL;
    const ef__json *detail, *asked, *found;
    int64_t a = 0, f = 0;
    ef_status st;

    (void)ef__json_parse(ef__buf_str(&call->answer), EF__ASK_ANSWER_MAX, &arena, &problem, NULL);
    detail = ef__json_get(problem, "detail");
    asked = ef__json_get(problem, "asked");
    found = ef__json_get(problem, "found");
    st = status_of(problem, http);
    if (!detail || detail->kind != EF__JSON_STRING)
        st = ef_fail(err, st, "%s answered %ld, and not as Everfold does", client->url, http);
    else if (asked && found && ef__json_int64(asked, &a) == 0 && ef__json_int64(found, &f) == 0)
        st = ef_fail_numbers(err, st, a, f, "%.*s", EF_STR_ARG(detail->text));
    else
        st = ef_fail(err, st, "%.*s", EF_STR_ARG(detail->text));
    ef__arena_release(&arena);
    return st;
}

static ef_status perform(ef_client *client, ef__ask *call, const char *url,
                         struct curl_slist *headers, ef_error *err)
{
    CURLcode code;
    long http = 0;

    pthread_mutex_lock(&client->lock);
    set_up(client, call, url, headers);
    code = curl_easy_perform(client->curl);
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &http);
    pthread_mutex_unlock(&client->lock);
    if (code != CURLE_OK)
        return tell_failure(client, call, code, err);
    return http >= 200 && http < 300 ? EF_OK : tell_problem(client, call, http, err);
}

ef_status ef__ask_run(ef_client *client, ef__ask *call, ef_error *err)
{
    struct curl_slist *headers = NULL;
    ef__buf url = EF__BUF_INIT(EF__ASK_TARGET_MAX + 4096);
    ef_status st;

    if (!client)
        return ef_fail(err, EF_BAD_INPUT, "client is NULL");
    (void)ef__buf_add_text(&url, client->url);
    (void)ef__buf_add_str(&url, ef__buf_str(&call->target));
    if (url.failed || call->target.failed || call->body.failed)
        st = ef_fail(err, EF_TOO_LARGE, "what is asked of %s is too large", client->url);
    else
        st = make_headers(client, call, &headers, err);
    if (st == EF_OK)
        st = perform(client, call, url.ptr, headers, err);
    curl_slist_free_all(headers);
    ef__buf_release(&url);
    return st;
}
