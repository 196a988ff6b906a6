/*
 * openapi_parts.c - the parts of /openapi.json that operations share: headers and errors.
 *
 * Which operation has which follows from its route. The errors come from the table of statuses, so
 * that a status which is added there is in the document.
 */
#include "openapi.h"

#include <stdio.h>

#define TEXT "{\"type\":\"string\"}"
#define HTTP_FIRST 400
#define HTTP_LAST 599

static bool has_parameter(const ef__operation *route, const char *name)
{
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_QUERY && strcmp(in->name, name) == 0)
            return true;
    return false;
}

static bool is_write(const ef__operation *route)
{
    return strcmp(route->method, "GET") != 0;
}

/* --- headers of requests ---------------------------------------------------------------------- */

static bool needs_token(const ef__operation *route)
{
    return route->scope != EF__SCOPE_OPEN;
}

static bool needs_actor(const ef__operation *route)
{
    return needs_token(route) && is_write(route);
}

static bool is_append(const ef__operation *route)
{
    return (route->flags & EF__ROUTE_APPEND) != 0;
}

static bool is_event_stream(const ef__operation *route)
{
    return (route->flags & EF__ROUTE_STREAM) != 0;
}

static bool waits_for_token(const ef__operation *route)
{
    return has_parameter(route, "at_least");
}

typedef struct request_header {
    const char *part; /* its name among the components */
    const char *name;
    const char *schema;
    const char *words;
    bool (*applies)(const ef__operation *route);
} request_header;

static const request_header request_headers[] = {
    {"Tenant", "X-Tenant-Id", TEXT, "the tenant; a token that is bound to one needs none",
     needs_token},
    {"Actor", "Everfold-Actor", TEXT, "for whom it is done; kept in the audit log", needs_actor},
    {"Traceparent", "traceparent", TEXT, "W3C trace context", needs_token},
    {"Tracestate", "tracestate", TEXT, "W3C trace context", is_append},
    {"IfMatch", "If-Match", TEXT, "the seq that the stream is at; 0: it must be new", is_append},
    {"IdempotencyKey", "Idempotency-Key", TEXT, "the id of an event that has none", is_append},
    {"LastEventId", "Last-Event-ID", TEXT, "resume after this id", is_event_stream},
    {"AtLeast", "Everfold-Token", TEXT, "the token of an append; as at_least", waits_for_token},
};
#define REQUEST_HEADERS (sizeof(request_headers) / sizeof(request_headers[0]))

static void write_ref(ef__json_writer *w, const char *kind, const char *name)
{
    char ref[96];

    (void)snprintf(ref, sizeof(ref), "#/components/%s/%s", kind, name);
    ef__json_open(w, '{');
    ef__json_member_text(w, "$ref", ref);
    ef__json_close(w, '}');
}

void ef__openapi_header_parameters(ef__json_writer *w, const ef__operation *route)
{
    for (size_t i = 0; i < REQUEST_HEADERS; i++)
        if (request_headers[i].applies(route))
            write_ref(w, "parameters", request_headers[i].part);
}

static void write_parameters(ef__json_writer *w)
{
    ef__json_member_open(w, "parameters", '{');
    for (size_t i = 0; i < REQUEST_HEADERS; i++) {
        const request_header *h = &request_headers[i];
        ef__json_key(w, h->part);
        ef__json_open(w, '{');
        ef__json_member_text(w, "name", h->name);
        ef__json_member_text(w, "in", "header");
        ef__json_member_text(w, "description", h->words);
        ef__json_member_raw(w, "schema", ef_str_from(h->schema));
        ef__json_close(w, '}');
    }
    ef__json_close(w, '}');
}

/* --- headers of answers ----------------------------------------------------------------------- */

static const char headers_text[] =
    "{\"Next\":{\"description\":\"where the next page begins\",\"schema\":{\"type\":\"integer\"}},"
    "\"More\":{\"description\":\"true: there is a next page\",\"schema\":" TEXT "},"
    "\"RetryAfter\":{\"description\":\"seconds\",\"schema\":{\"type\":\"integer\"}},"
    "\"Authenticate\":{\"description\":\"how to authenticate\",\"schema\":" TEXT "}}";

void ef__openapi_page_headers(ef__json_writer *w, const ef__operation *route)
{
    if (strcmp(route->answer, "Events") != 0)
        return;
    ef__json_member_open(w, "headers", '{');
    ef__json_key(w, "Everfold-Next");
    write_ref(w, "headers", "Next");
    ef__json_key(w, "Everfold-More");
    write_ref(w, "headers", "More");
    ef__json_close(w, '}');
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Is it a status of an error that the table has? Adds the texts of all that have it to `out`. */
static bool describe_http(int http, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        if (ef_status_http((ef_status)i) == http && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s`%s`: %s", used ? "; " : "",
                                     ef_status_code((ef_status)i), ef_status_message((ef_status)i));
    return used > 0;
}

/* 405 is a path's and not an operation's: the default stands for it. */
static bool may_answer(const ef__operation *route, int http)
{
    bool probe = (route->flags & EF__ROUTE_PROBE) != 0;

    switch (http) {
    case 400:
        return needs_token(route) || route->inputs;
    case 401:
    case 403:
        return needs_token(route);
    case 404:
        return strchr(route->pattern, '{') != NULL;
    case 409:
        return is_write(route);
    case 413:
        return (route->flags & EF__ROUTE_BODY) != 0;
    case 415:
    case 422:
        return is_append(route);
    case 421:
        return !probe;
    case 503:
        return strcmp(route->answer, "Text") != 0; /* that of a probe is text */
    case 504:
        return has_parameter(route, "wait") || is_write(route);
    case 405:
        return false;
    default: /* 500, and those of a store that cannot write */
        return is_write(route) || (http == 500 && !probe);
    }
}

void ef__openapi_errors(ef__json_writer *w, const ef__operation *route)
{
    char words[1024], part[16];

    for (int http = HTTP_FIRST; http <= HTTP_LAST; http++) {
        if (!describe_http(http, words, sizeof(words)) || !may_answer(route, http))
            continue;
        (void)snprintf(part, sizeof(part), "%d", http);
        ef__json_key(w, part);
        (void)snprintf(part, sizeof(part), "Error%d", http);
        write_ref(w, "responses", part);
    }
    ef__json_key(w, "default");
    write_ref(w, "responses", "Error");
}

static void write_error(ef__json_writer *w, const char *part, const char *words, int http)
{
    ef__json_member_open(w, part, '{');
    ef__json_member_text(w, "description", words);
    if (http == 401 || http == 503) {
        ef__json_member_open(w, "headers", '{');
        ef__json_key(w, http == 401 ? "WWW-Authenticate" : "Retry-After");
        write_ref(w, "headers", http == 401 ? "Authenticate" : "RetryAfter");
        ef__json_close(w, '}');
    }
    ef__json_member_raw(w, "content",
                        EF_STR("{\"application/problem+json\":{\"schema\":"
                               "{\"$ref\":\"#/components/schemas/Problem\"}}}"));
    ef__json_close(w, '}');
}

static void write_errors(ef__json_writer *w)
{
    char words[1024], part[16];

    ef__json_member_open(w, "responses", '{');
    for (int http = HTTP_FIRST; http <= HTTP_LAST; http++)
        if (http != 405 && describe_http(http, words, sizeof(words))) {
            (void)snprintf(part, sizeof(part), "Error%d", http);
            write_error(w, part, words, http);
        }
    write_error(w, "Error", "any other problem; 405 `method_not_allowed` has the header Allow", 0);
    ef__json_close(w, '}');
}

void ef__openapi_codes(ef__json_writer *w)
{
    ef__json_open(w, '{');
    ef__json_member_open(w, "enum", '[');
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        ef__json_str(w, ef_str_from(ef_status_code((ef_status)i)));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

void ef__openapi_parts(ef__json_writer *w)
{
    write_parameters(w);
    ef__json_member_raw(w, "headers", ef_str_from(headers_text));
    write_errors(w);
}
