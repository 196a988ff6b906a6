/*
 * call.c - one call over HTTP: the only file that uses libcurl.
 *
 * One connection is kept open, guarded by a lock. Redirects are not followed, because a token must
 * not be sent elsewhere; a proxy of the environment is used, except for this machine.
 *
 * If no token exists, a server reserves tokens and publishers to its own user and names its Unix
 * socket in the refusal. A client on the same machine then repeats the call there, once. It does so
 * only if the listening process belongs to its own user or to root, or if it is root itself,
 * because another process may have taken the port of the server. A token is never sent to a socket
 * of another user.
 */
#include "client_priv.h"

#include "../base/limits.h"
#include "../base/same.h"

#include <curl/curl.h>

#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 10000
#define TIMEOUT_MS 60000

struct ef_client {
    char *url;          /* without a slash at its end */
    const char *socket; /* the path in unix:PATH; NULL: it is reached by TCP */
    char *authorization;
    char *actor;
    char *ca_file;
    int64_t timeout_ms;
    bool here; /* it is this machine */
    pthread_mutex_t lock;
    CURL *curl;
    curl_socket_t fd; /* of the connection to a Unix socket that was made last */
};

/* --- open and close --------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *with)
{
    return strncasecmp(text, with, strlen(with)) == 0;
}

/* Is the host of the URL this machine? The whole name counts: neither localhost.example.org nor
 * 127.example.org is. */
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

static bool is_socket(const char *url)
{
    return strncmp(url, "unix:", 5) == 0;
}

static ef_status check_url(const ef_client_options *o, ef_error *err)
{
    const char *host = o->url ? strstr(o->url, "://") : NULL;

    if (o->url && is_socket(o->url))
        return strlen(o->url) > 5 && strlen(o->url + 5) < EF__CALL_SOCKET_MAX
                   ? EF_OK
                   : ef_fail(
                         err, EF_BAD_INPUT,
                         "the server is '%s'; unix: must be followed by a path of at most %d bytes",
                         o->url, EF__CALL_SOCKET_MAX - 1);
    if (!host || (!starts_with(o->url, "http://") && !starts_with(o->url, "https://")) ||
        !host[3] || host[3] == '/')
        return ef_fail(err, EF_BAD_INPUT,
                       "the server is '%s'; a URL like http://127.0.0.1:7450 or unix:PATH is "
                       "needed",
                       o->url ? o->url : "");
    if (strpbrk(host + 3, "@?#"))
        return ef_fail(err, EF_BAD_INPUT, "the URL of the server must not have a user or a query");
    if (o->token && !starts_with(o->url, "https://") && !is_here(o->url))
        return ef_fail(err, EF_BAD_INPUT,
                       "'%s' is not this machine: a token is sent there over https only", o->url);
    return EF_OK;
}

static ef_status check_texts(const ef_client_options *o, ef_error *err)
{
    for (const char *c = o->token; c && *c; c++)
        if (*c <= ' ' || *c > '~')
            return ef_fail(err, EF_BAD_INPUT,
                           "the token has a character that is not printable ASCII");
    for (const char *c = o->actor; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127 || strlen(o->actor) > EF_LIMIT_ACTOR_BYTES)
            return ef_fail(err, EF_BAD_INPUT,
                           "actor is invalid: at most %d bytes, without control characters",
                           EF_LIMIT_ACTOR_BYTES);
    return EF_OK;
}

static ef_status fill_client(ef_client *client, const ef_client_options *o, ef_error *err)
{
    size_t length = strlen(o->url);

    while (length > 0 && o->url[length - 1] == '/')
        length--;
    client->url = strndup(o->url, length);
    client->socket = client->url && is_socket(client->url) ? client->url + 5 : NULL;
    client->here = client->socket || is_here(o->url);
    client->timeout_ms = o->timeout_ms > 0 ? o->timeout_ms : TIMEOUT_MS;
    if (o->token && asprintf(&client->authorization, "Authorization: Bearer %s", o->token) < 0)
        client->authorization = NULL;
    client->ca_file = o->ca_file ? strdup(o->ca_file) : NULL;
    client->actor = o->actor && *o->actor ? strdup(o->actor) : NULL;
    client->curl = curl_easy_init();
    if (!client->url || !client->curl || (o->token && !client->authorization) ||
        (o->ca_file && !client->ca_file) || (o->actor && *o->actor && !client->actor))
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a client");
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
    if (st == EF_OK)
        st = check_texts(options, err);
    if (st != EF_OK)
        return st;
    (void)pthread_once(&once, init_curl);
    client = calloc(1, sizeof *client);
    if (!client)
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a client");
    pthread_mutex_init(&client->lock, NULL);
    st = fill_client(client, options, err);
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

void ef__client_call_release(ef__client_call *call)
{
    ef__buf_release(&call->target);
    ef__buf_release(&call->body);
    ef__buf_release(&call->response);
}

/* --- one call --------------------------------------------------------------------------------- */

static size_t receive_body(char *bytes, size_t size, size_t count, void *context)
{
    ef__client_call *call = context;

    return ef__buf_add(&call->response, bytes, size * count) ? size * count : 0;
}

/* Is it this header? `out` is its value, without surrounding white space. */
static bool header_is(ef_str line, const char *name, ef_str *out)
{
    size_t length = strlen(name);

    if (line.len < length || strncasecmp(line.ptr, name, length) != 0)
        return false;
    *out = ef__str_trim((ef_str){line.ptr + length, line.len - length});
    return true;
}

static size_t receive_header(char *bytes, size_t size, size_t count, void *context)
{
    ef__client_call *call = context;
    ef_str rest = {bytes, size * count}, line = {"", 0}, value;

    (void)ef__line_next(&rest, &line);
    if (header_is(line, "Everfold-Next:", &value))
        for (size_t i = 0; i < value.len && i < 20; i++)
            if (value.ptr[i] >= '0' && value.ptr[i] <= '9')
                call->next = call->next * 10 + (value.ptr[i] - '0');
    if (header_is(line, "Everfold-More:", &value))
        call->more = true;
    if (header_is(line, "Everfold-Socket:", &value) && ef__str_starts(value, "/") &&
        value.len < sizeof(call->socket))
        (void)snprintf(call->socket, sizeof(call->socket), "%.*s", EF_STR_ARG(value));
    return size * count;
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

static ef_status make_headers(const ef_client *client, const ef__client_call *call,
                              struct curl_slist **out, ef_error *err)
{
    char tenant[512];
    bool fits =
        (size_t)snprintf(tenant, sizeof(tenant), "%.*s", EF_STR_ARG(call->tenant)) < sizeof(tenant);

    for (size_t i = 0; i < call->tenant.len; i++)
        if ((unsigned char)call->tenant.ptr[i] < ' ')
            fits = false;
    if (!fits)
        return ef_fail(err, EF_BAD_INPUT, "the name of the tenant does not fit into a header");
    if (!add_header(out, "Accept: %s", "application/json") || !add_header(out, "Expect:%s", "") ||
        (call->body.len > 0 &&
         !add_header(out, "Content-Type: %s", call->type ? call->type : "application/json")) ||
        (client->authorization && !add_header(out, "%s", client->authorization)) ||
        (client->actor && !add_header(out, "Everfold-Actor: %s", client->actor)) ||
        (call->tenant.len > 0 && !add_header(out, "X-Tenant-Id: %s", tenant)))
        return ef_fail(err, EF_NO_MEMORY, "out of memory for a call");
    return EF_OK;
}

static int record_connection(void *context, curl_socket_t fd, curlsocktype purpose)
{
    ef_client *client = context;

    (void)purpose;
    client->fd = fd;
    return CURL_SOCKOPT_OK;
}

/* May the process that listens on the Unix socket get this request? */
static int check_listener(void *context, char *remote, char *local, int remote_port, int local_port)
{
    const ef_client *client = context;
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t length = sizeof who;
    bool root = geteuid() == 0 && !client->authorization;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0)
        return CURL_PREREQFUNC_ABORT;
    return who.uid == geteuid() || who.uid == 0 || root ? CURL_PREREQFUNC_OK
                                                        : CURL_PREREQFUNC_ABORT;
}

/* A socket that the caller named may belong to another user, as long as no token is sent. */
static void set_up_socket(ef_client *client, const char *path)
{
    (void)curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, path);
    if (path == client->socket && !client->authorization)
        return;
    (void)curl_easy_setopt(client->curl, CURLOPT_SOCKOPTFUNCTION, record_connection);
    (void)curl_easy_setopt(client->curl, CURLOPT_SOCKOPTDATA, client);
    (void)curl_easy_setopt(client->curl, CURLOPT_PREREQFUNCTION, check_listener);
    (void)curl_easy_setopt(client->curl, CURLOPT_PREREQDATA, client);
}

static void set_up(ef_client *client, ef__client_call *call, const char *url,
                   struct curl_slist *headers)
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
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, receive_header);
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

/* Before the request was sent, nothing was done. Afterwards a GET can be repeated; the result of a
 * change is unknown (EF_UNSURE). */
static ef_status report_failure(const ef_client *client, const ef__client_call *call, CURLcode code,
                                ef_error *err)
{
    const char *why = curl_easy_strerror(code);
    bool reads = strcmp(call->method, "GET") == 0;

    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ef_fail(err, EF_FORBIDDEN,
                       "the Unix socket %s belongs to another user: it gets no token, and is used "
                       "only if the caller names it",
                       call->socket[0] ? call->socket : client->url);
    if (call->response.failed)
        return ef_fail(err, EF_TOO_LARGE, "the response of %s is larger than %d bytes", client->url,
                       EF__CALL_RESPONSE_MAX);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
        code == CURLE_COULDNT_RESOLVE_PROXY)
        return ef_fail(err, EF_BUSY, "%s cannot be reached: %s", client->url, why);
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
        code == CURLE_SSL_CONNECT_ERROR)
        return ef_fail(err, EF_BAD_INPUT, "%s is not trusted: %s", client->url, why);
    if (!reads)
        return ef_fail(err, EF_UNSURE, "the response of %s was lost: %s", client->url, why);
    return ef_fail(err, code == CURLE_OPERATION_TIMEDOUT ? EF_TIMEOUT : EF_BUSY,
                   "%s did not respond: %s", client->url, why);
}

static ef_status status_of(const ef__json *problem, long http)
{
    const ef__json *code = ef__json_get(problem, "code");

    for (int i = EF_OK + 1; code && i < EF_STATUS_COUNT; i++)
        if (ef_str_equal(code->text, ef_str_from(ef_status_describe((ef_status)i)->code)))
            return (ef_status)i;
    /* Not a response of Everfold but of a proxy: by its HTTP status. */
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        if (ef_status_describe((ef_status)i)->http == http)
            return (ef_status)i;
    return http < 500 ? EF_BAD_INPUT : EF_IO;
}

static ef_status report_problem(const ef_client *client, const ef__client_call *call, long http,
                                ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(1 << 20);
    ef__json *problem = NULL;
    const ef__json *detail, *asked, *found;
    int64_t a = 0, f = 0;
    ef_status st;

    (void)ef__json_parse(ef__buf_str(&call->response), EF__CALL_RESPONSE_MAX, &arena, &problem,
                         NULL);
    detail = ef__json_get(problem, "detail");
    asked = ef__json_get(problem, "asked");
    found = ef__json_get(problem, "found");
    st = status_of(problem, http);
    if (!detail || detail->kind != EF__JSON_STRING)
        st = ef_fail(err, st,
                     "%s returned HTTP status %ld without a problem object; it may not be an "
                     "Everfold server",
                     client->url, http);
    else if (asked && found && ef__json_int64(asked, &a) == 0 && ef__json_int64(found, &f) == 0)
        st = ef_fail_numbers(err, st, a, f, "%.*s", EF_STR_ARG(detail->text));
    else
        st = ef_fail(err, st, "%.*s", EF_STR_ARG(detail->text));
    return st;
}

static ef_status perform_request(ef_client *client, ef__client_call *call, const char *socket,
                                 const char *url, struct curl_slist *headers, ef_error *err)
{
    CURLcode code;
    long http = 0;

    pthread_mutex_lock(&client->lock);
    set_up(client, call, url, headers);
    if (socket)
        set_up_socket(client, socket);
    code = curl_easy_perform(client->curl);
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &http);
    pthread_mutex_unlock(&client->lock);
    if (code != CURLE_OK)
        return report_failure(client, call, code, err);
    return http >= 200 && http < 300 ? EF_OK : report_problem(client, call, http, err);
}

/* `socket`: path of the Unix socket; NULL: TCP. */
static ef_status call_at(ef_client *client, ef__client_call *call, const char *socket,
                         ef_error *err)
{
    struct curl_slist *headers = NULL;
    EF__AUTO(ef__buf) url = EF__BUF_INIT(EF__CALL_TARGET_MAX + 4096);
    ef_status st;

    (void)ef__buf_add_text(&url, socket ? "http://localhost" : client->url);
    (void)ef__buf_add_str(&url, ef__buf_str(&call->target));
    if (url.failed || call->target.failed || call->body.failed)
        st = ef_fail(err, EF_TOO_LARGE, "the request to %s is too large", client->url);
    else
        st = make_headers(client, call, &headers, err);
    if (st == EF_OK)
        st = perform_request(client, call, socket, url.ptr, headers, err);
    curl_slist_free_all(headers);
    return st;
}

/* The call over TCP was refused for lack of a token, and this user may open the socket. */
static bool may_use_socket(const ef_client *client, const ef__client_call *call)
{
    return client->here && !client->socket && !client->authorization && call->socket[0] &&
           access(call->socket, W_OK) == 0;
}

ef_status ef__client_call_run(ef_client *client, ef__client_call *call, ef_error *err)
{
    ef_status st;

    if (!client)
        return ef_fail(err, EF_BAD_INPUT, "client is NULL");
    st = call_at(client, call, client->socket, err);
    if (st != EF_FORBIDDEN || !may_use_socket(client, call))
        return st;
    ef__buf_reset(&call->response);
    if (err)
        *err = (ef_error)EF_ERROR_INIT;
    return call_at(client, call, call->socket, err);
}
