/*
 * fuzz_request.c - any text as a request: the first line of the input is "METHOD TARGET", lines up
 * to an empty one are headers, the rest is the body. It is processed as the network thread would,
 * without the network, with a token of the tenant "here"; "Authorization: all" uses one of all
 * tenants, "Authorization: blank" one of the tenant "".
 *
 * The other tenant, "there", has a secret in stream names, ids, data, views, and in events that
 * fail in stream order and in log order, so that errors, retry rows, runs and leases have it too.
 *
 * A request must get a response with an HTTP status; a problem must be JSON with a code; a response
 * of type JSON must be JSON; a token that is bound to a tenant must never get data of the other
 * one.
 */
#include "../../src/server/hub.h"
#include "../../src/server/token.h"

#include <everfold/everfold.h>
#include <everfold/replay.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADERS_MAX = 16 };

static ef__server server;
static ef_str names[HEADERS_MAX], values[HEADERS_MAX];
static size_t header_count;
static char secret[17]; /* in what is the other tenant's; another one in each process */
static char bound[110], blank[110], unbound[110]; /* "Bearer evf_…" */

static void must(bool holds)
{
    if (!holds)
        abort();
}

/* --- what the network would have given: these take the place of http.c's ------------------------
 */

static ef_str header_of(const char *name)
{
    for (size_t i = 0; i < header_count; i++)
        if (names[i].len == strlen(name) && strncasecmp(names[i].ptr, name, names[i].len) == 0)
            return values[i];
    return EF_STR("");
}

ef_str ef__request_header(const ef__request *r, const char *name)
{
    (void)r;
    if (strcmp(name, "Authorization") == 0)
        return ef_str_from(ef_str_equal(header_of(name), EF_STR("all"))     ? unbound
                           : ef_str_equal(header_of(name), EF_STR("blank")) ? blank
                                                                            : bound);
    return strcmp(name, "Host") == 0 ? EF_STR("127.0.0.1") : header_of(name);
}

void ef__request_each_header(const ef__request *r,
                             bool (*each)(void *context, ef_str name, ef_str value), void *context)
{
    (void)r;
    for (size_t i = 0; i < header_count; i++)
        if (!each(context, names[i], values[i]))
            return;
}

/* --- a server without a door --------------------------------------------------------------------
 */

static void make_token(const char *tenant, char out[110])
{
    ef__api_token token = {.scopes = EF__SCOPE_ALL, .bound = tenant != NULL};
    char text[EF__TOKEN_TEXT_MAX];

    (void)snprintf(token.tenant, sizeof token.tenant, "%s", tenant ? tenant : "");
    must(ef__token_make(&token, 1, text, NULL) == EF_OK);
    must(ef__tokens_add(server.options.tokens, &token, NULL) == EF_OK);
    (void)snprintf(out, 110, "Bearer %s", text);
}

static void make_tokens(void)
{
    static char path[] = "/tmp/everfold-fuzz-XXXXXX/tokens\0    "; /* space for .lock */
    char *slash = strrchr(path, '/');
    uint8_t random[8];

    *slash = '\0';
    must(mkdtemp(path) != NULL && getrandom(random, sizeof random, 0) == sizeof random);
    *slash = '/';
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(secret + 2 * i, 3, "%02x", random[i]);
    server.options.tokens = path;
    make_token("here", bound);
    make_token("", blank);
    make_token(NULL, unbound);
    must(ef__tokens_open(&server, NULL) == EF_OK);
    server.options.tokens = NULL; /* they are read once */
    (void)unlink(path);
    (void)strcpy(slash, "/tokens.lock");
    (void)unlink(path);
    *slash = '\0';
    (void)rmdir(path);
}

static void append(const char *tenant, const char *stream, const char *text, bool good)
{
    ef_place place;
    char data[200];

    (void)snprintf(data, sizeof data, "{\"customer\":\"%s\",\"amount\":%s%s%s}", text,
                   good ? "" : "\"", good ? "1" : text, good ? "" : "\"");
    must(ef_engine_append(server.options.engine,
                          &(ef_new_event){.tenant = ef_str_from(tenant),
                                          .stream = ef_str_from(stream),
                                          .id = good ? ef_str_from(stream) : EF_STR(""),
                                          .type = EF_STR("order.placed"),
                                          .data = ef_str_from(data)},
                          1, &place, NULL) == EF_OK);
}

static void deploy(const char *program)
{
    ef_projection_list list = {0};

    must(ef_projection_deploy(server.options.engine,
                              &(ef_deploy){.file_name = "p", .text = ef_str_from(program)}, &list,
                              NULL, NULL) == EF_OK);
    EF_RELEASE(&list);
}

/* A run of the other tenant, that no worker drives. */
static void ask_replay(void)
{
    ef_run_list runs = {0};

    must(ef_replay_request(server.options.engine,
                           &(ef_replay){.projection = EF_STR("customers"),
                                        .tenant = EF_STR("there"),
                                        .stream = ef_str_from(secret),
                                        .actor = ef_str_from(secret),
                                        .reason = ef_str_from(secret)},
                           &runs, NULL) == EF_OK);
    EF_RELEASE(&runs);
}

static void open_all(void)
{
    ef_tick tick = {.more = true};

    server.options.clock = ef_clock_system();
    server.options.mode = "fuzz";
    server.options.path = "";
    server.options.body_bytes_max = 1 << 20;
    server.loopback = true;
    must(ef_journal_open(&(ef_journal_options){.url = "memory:", .create = true},
                         &server.options.journal, NULL) == EF_OK);
    must(ef_engine_open(
             &(ef_engine_options){
                 .journal = server.options.journal, .views_url = "memory:", .create = true},
             &server.options.engine, NULL) == EF_OK);
    make_tokens();
    deploy("projection customers version 1\n  view data.customer\n\n"
           "on order.placed\n  total += data.amount\n");
    deploy("projection ledger version 1\n  order by log\n  view data.customer\n\n"
           "on order.placed\n  total += data.amount\n");
    append("here", "mine", "mine", true);
    append("there", secret, secret, true);
    append("there", secret, secret, false);
    while (tick.more)
        must(ef_engine_work(server.options.engine, &(ef_work_options){.no_leasing = true}, &tick,
                            NULL) == EF_OK);
    ask_replay();
    must(ef__hub_start(&server, NULL) == EF_OK);
}

static ef_str next_line(ef_str *rest)
{
    const char *end = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    ef_str line = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};

    rest->ptr += line.len + (end != NULL);
    rest->len -= line.len + (end != NULL);
    return line;
}

static void read_headers(ef_str *rest)
{
    header_count = 0;
    while (rest->len > 0) {
        ef_str line = next_line(rest);
        const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
        if (line.len == 0)
            return;
        if (!colon || header_count == HEADERS_MAX || memchr(line.ptr, 0, line.len))
            continue;
        names[header_count] = (ef_str){line.ptr, (size_t)(colon - line.ptr)};
        values[header_count++] = (ef_str){colon + 1, line.len - (size_t)(colon - line.ptr) - 1};
    }
}

/* Not memmem, so that the fuzzer does not learn the secret from the comparison. */
static bool has_secret(ef_str text)
{
    for (size_t i = 0; i + 16 <= text.len; i++) {
        unsigned different = 0;
        for (size_t j = 0; j < 16; j++)
            different |= (unsigned)(text.ptr[i + j] ^ secret[j]);
        if (different == 0)
            return true;
    }
    return false;
}

static void check_answer(const ef__request *r)
{
    int status = r->status ? r->status : 200;
    const char *type = r->type ? r->type : "application/json";
    ef__json_kind kind = EF__JSON_NULL;
    bool gzip = false;

    must(status >= 200 && status < 600);
    for (size_t i = 0; i < r->header_count; i++)
        gzip = gzip || strcmp(r->headers[i].name, "Content-Encoding") == 0;
    if (strstr(type, "json") && !gzip && !r->follower)
        must(ef__json_check(ef__buf_str(&r->out), EF__ANSWER_BYTES_MAX, &kind, NULL) == EF_OK);
    if (status >= 400 && status != 503)
        must(strcmp(type, "application/problem+json") == 0 && kind == EF__JSON_OBJECT);
    if (r->who.bound)
        must(!has_secret(ef__buf_str(&r->out)));
}

/* Does the response contain the secret? */
static bool ask(const uint8_t *data, size_t size)
{
    ef_str rest = {(const char *)data, size}, line = next_line(&rest);
    ef__request r = {.server = &server, .peer = {.kind = EF__PEER_OWNER}};
    const char *space = line.len ? memchr(line.ptr, ' ', line.len) : NULL;
    bool shown;

    if (!space || memchr(line.ptr, 0, line.len) || memmem(data, size, "wait", 4))
        return false; /* a question that may wait would only cost time */
    read_headers(&rest);
    r.arena = (ef__arena)EF__ARENA_INIT(EF__REQUEST_ARENA);
    r.body = (ef__buf)EF__BUF_INIT((size_t)server.options.body_bytes_max);
    r.out = (ef__buf)EF__BUF_INIT(EF__ANSWER_BYTES_MAX);
    r.method = ef__arena_copy(&r.arena, (ef_str){line.ptr, (size_t)(space - line.ptr)});
    if (ef__request_target(&r, (ef_str){space + 1, line.len - r.method.len - 1}, &r.error) == EF_OK)
        (void)ef__dispatch_begin(&r);
    if (r.error.status == EF_OK && ef__buf_add(&r.body, rest.ptr, rest.len))
        ef__dispatch_run(&r);
    else
        ef__dispatch_problem(&r);
    check_answer(&r);
    shown = has_secret(ef__buf_str(&r.out));
    ef__follower_leave(r.follower);
    ef__request_release(&r);
    return shown;
}

/* A token of all tenants is shown the secret: otherwise the target could not find anything. */
static void check_secret_is_there(void)
{
    static const char *const paths[] = {"/v1/projections/ledger",
                                        "/v1/runs",
                                        "/v1/outbox",
                                        "/v1/projections/ledger/failures",
                                        "/v1/events?all_tenants=true",
                                        "/v1/streams",
                                        "/v1/views/customers?all_tenants=true"};
    char text[200];

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        int length = snprintf(text, sizeof text, "GET %s\nAuthorization:all\n\n", paths[i]);
        if (!ask((const uint8_t *)text, (size_t)length)) {
            fprintf(stderr, "%s does not have the secret\n", paths[i]);
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool opened;

    if (!opened) {
        open_all();
        check_secret_is_there();
    }
    opened = true;
    (void)ask(data, size);
    return 0;
}
