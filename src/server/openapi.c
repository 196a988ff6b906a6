/*
 * openapi.c - /openapi.json, generated from the tables that the server runs on.
 *
 * Paths, parameters and bodies come from the operations. Which operation has which headers and
 * errors follows from its route; the errors come from the table of statuses, so that a status which
 * is added there is in the document. The schemas of objects come from the shapes. Only what a
 * handler writes by itself (a page, a summary) has its schema in openapi.json.
 */
#include "request.h"
#include "token.h"

#include "openapi_text.h"

#include <everfold/version.h>

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

/* --- headers ---------------------------------------------------------------------------------- */

static void write_ref(ef__json_writer *w, const char *kind, const char *name)
{
    ef__json_printf(w, "{\"$ref\":\"#/components/%s/%s\"}", kind, name);
}

static void write_header_parameters(ef__json_writer *w, const ef__operation *route)
{
    bool has_token = route->scope != EF__SCOPE_OPEN, appends = route->flags & EF__ROUTE_APPEND;
    const struct {
        bool applies;
        const char *name;
    } headers[] = {
        {has_token, "Tenant"},
        {has_token && is_write(route), "Actor"},
        {has_token, "Traceparent"},
        {appends, "Tracestate"},
        {appends, "IfMatch"},
        {appends, "IdempotencyKey"},
        {route->flags & EF__ROUTE_STREAM, "LastEventId"},
        {has_parameter(route, "at_least"), "AtLeast"},
    };

    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (headers[i].applies)
            write_ref(w, "parameters", headers[i].name);
}

static void write_page_headers(ef__json_writer *w, const ef__operation *route)
{
    if (strcmp(route->answer, "Events") == 0)
        ef__json_member_raw(w, "headers",
                            EF_STR("{\"Everfold-Next\":{\"$ref\":\"#/components/headers/Next\"},"
                                   "\"Everfold-More\":{\"$ref\":\"#/components/headers/More\"}}"));
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Is it a status of an error that the table has? Adds the texts of all that have it to `out`. */
static bool describe_http(int http, char *out, size_t size)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        if (ef_status_describe((ef_status)i)->http == http && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s`%s`: %s", used ? "; " : "",
                                     ef_status_describe((ef_status)i)->code,
                                     ef_status_describe((ef_status)i)->message);
    return used > 0;
}

/* 405 is a path's and not an operation's: the default stands for it. */
static bool may_answer(const ef__operation *route, int http)
{
    bool has_token = route->scope != EF__SCOPE_OPEN, probe = route->flags & EF__ROUTE_PROBE;

    switch (http) {
    case 400:
        return has_token || route->inputs;
    case 401:
    case 403:
        return has_token;
    case 404:
        return strchr(route->pattern, '{') != NULL;
    case 409:
        return is_write(route);
    case 413:
        return (route->flags & EF__ROUTE_BODY) != 0;
    case 415:
    case 422:
        return (route->flags & EF__ROUTE_APPEND) != 0;
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

static void write_error_responses(ef__json_writer *w, const ef__operation *route)
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

static void write_error_component(ef__json_writer *w, const char *part, const char *words, int http)
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

static void write_error_components(ef__json_writer *w)
{
    char words[1024], part[16];

    ef__json_member_open(w, "responses", '{');
    for (int http = HTTP_FIRST; http <= HTTP_LAST; http++)
        if (http != 405 && describe_http(http, words, sizeof(words))) {
            (void)snprintf(part, sizeof(part), "Error%d", http);
            write_error_component(w, part, words, http);
        }
    write_error_component(w, "Error",
                          "any other problem; 405 `method_not_allowed` has the header Allow", 0);
    ef__json_close(w, '}');
}

/* --- schemas of objects ----------------------------------------------------------------------- */

/* Its schema in the document, if it is that of a shape; openapi.json adds the members that a
 * handler writes by itself. */
typedef struct schema {
    const char *name;
    const ef__shape *shape, *more; /* more: of HTTP only; may be NULL */
} schema;

static const schema schemas[] = {
    {"PlacedOne", &ef__shape_append_result, NULL},
    {"Event", &ef__shape_event, NULL},
    {"View", &ef__shape_view, NULL},
    {"Scope", &ef__shape_scope, NULL},
    {"Generation", &ef__shape_projection, &ef__shape_projection_more},
    {"Projection", &ef__shape_projection, &ef__shape_projection_more},
    {"Failure", &ef__shape_failure, NULL},
    {"Row", &ef__shape_row, &ef__shape_row_more},
    {"RowGroup", &ef__shape_row_group, NULL},
    {"AuditEntry", &ef__shape_audit_entry, NULL},
    {"Run", &ef__shape_run, NULL},
    {"Gap", &ef__shape_gap, NULL},
    {"Lease", &ef__shape_lease, NULL},
    {"Worker", &ef__shape_worker, &ef__shape_worker_more},
    {"Partition", &ef__shape_partition, NULL},
    {"PartitionChanged", &ef__shape_partition_sync_result, NULL},
    {"Lane", &ef__shape_lane, NULL},
    {"Type", &ef__shape_type, NULL},
    {"Store", &ef__shape_facts, NULL},
    {"Head", &ef__shape_head, NULL},
    {"Difference", &ef__shape_difference, NULL},
    {"Diff", &ef__shape_diff, NULL},
    {"ReplayLooked", &ef__shape_replay_result, NULL},
    {"ViewStep", &ef__shape_event, NULL},
    {"StreamHead", &ef__shape_stream, NULL},
    {"Publisher", &ef__shape_publisher, &ef__shape_summary},
    {"TrialView", &ef__shape_trial_view, NULL},
    {"DraftRow", &ef__shape_draft_row, NULL},
    {"Drafted", &ef__shape_draft_result, NULL},
    {"Trial", &ef__shape_trial, NULL},
    {"Sample", &ef__shape_sample, NULL},
    {"Minute", &ef__shape_minute, NULL},
};

static const char *const plain_schemas[] = {
    [EF__FIELD_STR] = "{\"type\":\"string\"}",
    [EF__FIELD_NAME] = "{\"type\":[\"string\",\"null\"]}",
    [EF__FIELD_JSON] = "{}",
    [EF__FIELD_DATA] = "{\"type\":[\"object\",\"null\"],\"additionalProperties\":true}",
    [EF__FIELD_INT32] = "{\"type\":\"integer\"}",
    [EF__FIELD_INT64] = "{\"type\":\"integer\"}",
    [EF__FIELD_COUNT] = "{\"type\":[\"integer\",\"null\"]}",
    [EF__FIELD_NUMBER] = "{\"type\":[\"integer\",\"null\"]}",
    [EF__FIELD_BOOL] = "{\"type\":\"boolean\"}",
    [EF__FIELD_TIME] = "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}",
    [EF__FIELD_SECONDS] = "{\"type\":\"number\"}",
    [EF__FIELD_CHARS] = "{\"type\":\"string\"}",
    [EF__FIELD_LABEL] = "{\"type\":\"string\"}",
    [EF__FIELD_TTL] = "{\"type\":[\"integer\",\"null\"]}",
};

static void write_field(ef__json_writer *w, const ef__field *field)
{
    ef__json_key(w, field->key);
    if (plain_schemas[field->kind]) {
        ef__json_raw(w, ef_str_from(plain_schemas[field->kind]));
        return;
    }
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", "string");
    ef__json_member_open(w, "enum", '[');
    for (size_t i = 0; i < field->size; i++)
        ef__json_str(w, ef_str_from(ef__field_word(field, i)));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_properties(ef__json_writer *w, const ef__shape *shape)
{
    for (size_t i = 0; shape && i < shape->count; i++)
        write_field(w, &shape->fields[i]);
}

static void write_keys(ef__json_writer *w, const ef__shape *shape)
{
    for (size_t i = 0; shape && i < shape->count; i++)
        ef__json_str(w, ef_str_from(shape->fields[i].key));
}

/* The items of `list`, after those that were written. */
static void write_inside(ef__json_writer *w, const ef__json *list)
{
    if (list && list->count > 0)
        ef__json_raw(w, (ef_str){list->text.ptr + 1, list->text.len - 2});
}

static void write_schema(ef__json_writer *w, const schema *s, const ef__json *added)
{
    ef__json_member_open(w, s->name, '{');
    ef__json_member_text(w, "type", "object");
    ef__json_member_open(w, "properties", '{');
    write_properties(w, s->shape);
    write_properties(w, s->more);
    write_inside(w, ef__json_get(added, "properties"));
    ef__json_close(w, '}');
    ef__json_member_open(w, "required", '[');
    write_keys(w, s->shape);
    write_keys(w, s->more);
    write_inside(w, ef__json_get(added, "required"));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_codes(ef__json_writer *w)
{
    ef__json_member_open(w, "Code", '{');
    ef__json_member_open(w, "enum", '[');
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        ef__json_str(w, ef_str_from(ef_status_describe((ef_status)i)->code));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_schemas(ef__json_writer *w, const ef__json *fixed)
{
    const ef__json *additions = ef__json_get(fixed, "additions");

    ef__json_member_open(w, "schemas", '{');
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++)
        write_schema(w, &schemas[i], ef__json_get(additions, schemas[i].name));
    write_inside(w, ef__json_get(fixed, "schemas"));
    write_codes(w);
    ef__json_close(w, '}');
}

/* --- operations ------------------------------------------------------------------------------- */

static const char *schema_of(const ef__input *in)
{
    static const char *const schemas_of_kinds[] = {
        [EF__INPUT_TEXT] = "{\"type\":\"string\"}",
        [EF__INPUT_INT] = "{\"type\":\"integer\"}",
        [EF__INPUT_BOOL] = "{\"type\":\"boolean\"}",
        [EF__INPUT_TIME] = "{\"type\":\"string\"}",
        [EF__INPUT_DURATION] = "{\"type\":\"string\",\"pattern\":\"^[0-9]+(ms|s|m)?$\"}",
    };

    return schemas_of_kinds[in->kind];
}

static void write_parameter(ef__json_writer *w, ef_str name, const char *in, bool required,
                            const char *described)
{
    ef__json_printf(w, "{\"name\":\"%.*s\",\"in\":\"%s\",\"required\":%s,\"schema\":%s}",
                    EF_STR_ARG(name), in, required ? "true" : "false", described);
}

/* Names in the path, parameters of the query, and headers. */
static void write_parameters(ef__json_writer *w, const ef__operation *route)
{
    ef__json_open(w, '[');
    for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at + 1, '{'))
        write_parameter(w, (ef_str){at + 1, strcspn(at + 1, "}")}, "path", true,
                        plain_schemas[EF__FIELD_STR]);
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_QUERY)
            write_parameter(w, ef_str_from(in->name), "query", in->required, schema_of(in));
    write_header_parameters(w, route);
    ef__json_close(w, ']');
}

/* The schema of a body that is made of members. */
static void write_members(ef__json_writer *w, const ef__operation *route)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", "object");
    ef__json_member_open(w, "properties", '{');
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_MEMBER)
            ef__json_member_raw(w, in->name, ef_str_from(schema_of(in)));
    ef__json_close(w, '}');
    ef__json_member_open(w, "required", '[');
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_MEMBER && in->required)
            ef__json_str(w, ef_str_from(in->name));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

/* A body or an answer in one media type. */
typedef struct media {
    const char *type;
    const char *schema;
} media;

static void write_content(ef__json_writer *w, const media *list, size_t count)
{
    ef__json_member_open(w, "content", '{');
    for (size_t i = 0; i < count; i++) {
        bool text = strcmp(list[i].schema, "Text") == 0 || strcmp(list[i].schema, "Stream") == 0;
        ef__json_key(w, list[i].type);
        ef__json_printf(w, "{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}",
                        text ? "Program" : list[i].schema); /* a string as well */
    }
    ef__json_close(w, '}');
}

static void write_member_content(ef__json_writer *w, const ef__operation *route)
{
    ef__json_member_open(w, "content", '{');
    ef__json_member_open(w, "application/json", '{');
    ef__json_key(w, "schema");
    write_members(w, route);
    ef__json_close(w, '}');
    ef__json_close(w, '}');
}

static void write_body(ef__json_writer *w, const ef__operation *route)
{
    const media append[] = {{"application/json", route->body},
                            {"application/x-ndjson", "Lines"},
                            {"application/cloudevents+json", "CloudEvent"},
                            {"application/cloudevents-batch+json", "CloudEvents"}};

    ef__json_member_open(w, "requestBody", '{');
    ef__json_member_bool(w, "required", route->body != NULL);
    if (route->flags & EF__ROUTE_APPEND)
        write_content(w, append, sizeof(append) / sizeof(append[0]));
    else if (route->body)
        write_content(w, &(media){"text/plain", route->body}, 1);
    else
        write_member_content(w, route);
    ef__json_close(w, '}');
}

static void write_answer(ef__json_writer *w, const char *status, const char *words,
                         const ef__operation *route)
{
    bool page = strcmp(route->answer, "Events") == 0, one = strcmp(route->answer, "Event") == 0;
    const media list[] = {
        {route->flags & EF__ROUTE_STREAM      ? "text/event-stream"
         : strcmp(route->answer, "Text") == 0 ? "text/plain"
                                              : "application/json",
         route->answer},
        {page ? "application/cloudevents-batch+json" : "application/cloudevents+json",
         page ? "CloudEvents" : "CloudEvent"}};

    ef__json_member_open(w, status, '{');
    ef__json_member_text(w, "description", words);
    write_page_headers(w, route);
    write_content(w, list, page || one ? 2 : 1);
    ef__json_close(w, '}');
}

static void write_responses(ef__json_writer *w, const ef__operation *route)
{
    char status[8];

    (void)snprintf(status, sizeof(status), "%d", route->answer_status ? route->answer_status : 200);
    ef__json_open(w, '{');
    write_answer(w, status, route->summary, route);
    if (route->answer_status == 201 && (route->flags & EF__ROUTE_APPEND))
        write_answer(w, "200", "all of them were there already", route);
    if (strcmp(route->answer, "Text") == 0 && route->inputs)
        write_answer(w, "503", "not ready", route);
    write_error_responses(w, route);
    ef__json_close(w, '}');
}

/* The required scope; an empty list: no token is needed. */
static void write_security(ef__json_writer *w, const ef__operation *route)
{
    ef__json_member_open(w, "security", '[');
    if (route->scope != EF__SCOPE_OPEN)
        ef__json_printf(w, "{\"token\":[\"%s\"]}", ef__token_scope(route->scope));
    if (route->flags & EF__ROUTE_LOCAL)
        ef__json_raw(w, EF_STR("{}"));
    ef__json_close(w, ']');
}

/* What a token that is bound to one tenant gets. */
static void write_tenancy(ef__json_writer *w, const ef__operation *route)
{
    static const char *const words[] = {
        [EF__TENANCY_UNDECLARED] = "undeclared", [EF__TENANCY_NONE] = "none",
        [EF__TENANCY_QUERY] = "query",           [EF__TENANCY_PART] = "part",
        [EF__TENANCY_UNBOUND] = "unbound",
    };

    ef__json_member_text(w, "x-tenancy", words[route->tenancy]);
}

static void write_operation(ef__json_writer *w, const ef__operation *route)
{
    char method[8] = "";

    for (size_t i = 0; route->method[i] && i + 1 < sizeof(method); i++)
        method[i] = (char)(route->method[i] | 0x20);
    ef__json_member_open(w, method, '{');
    ef__json_member_text(w, "operationId", route->id);
    ef__json_member_text(w, "summary", route->summary);
    write_security(w, route);
    write_tenancy(w, route);
    ef__json_key(w, "parameters");
    write_parameters(w, route);
    if (route->flags & EF__ROUTE_BODY)
        write_body(w, route);
    ef__json_key(w, "responses");
    write_responses(w, route);
    ef__json_close(w, '}');
}

/* --- the document ----------------------------------------------------------------------------- */

/* Is it the first operation with its pattern? Others with the same pattern are written with it. */
static bool is_first(size_t number)
{
    const char *pattern = ef__route_at(number)->operation->pattern;
    size_t first = 0;

    while (strcmp(ef__route_at(first)->operation->pattern, pattern) != 0)
        first++;
    return first == number;
}

static void write_path(ef__json_writer *w, const char *pattern)
{
    const ef__http_route *route;

    ef__json_member_open(w, pattern, '{');
    for (size_t i = 0; (route = ef__route_at(i)) != NULL; i++)
        if (strcmp(route->operation->pattern, pattern) == 0)
            write_operation(w, route->operation);
    ef__json_close(w, '}');
}

/* openapi.json has what no table of the server has. */
static void write_components(ef__json_writer *w, const ef__json *fixed)
{
    static const char *const kinds[] = {"securitySchemes", "parameters", "headers"};

    ef__json_member_open(w, "components", '{');
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        ef__json_member_raw(w, kinds[i], ef__json_get(fixed, kinds[i])->text);
    write_schemas(w, fixed);
    write_error_components(w);
    ef__json_close(w, '}');
}

static ef_status write_document(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    const ef__http_route *route;
    ef__json *fixed = NULL;
    ef_status st =
        ef__json_parse(EF_STR(openapi_text), sizeof openapi_text, &r->arena, &fixed, err);

    if (st != EF_OK)
        return st;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "openapi", "3.1.0");
    ef__json_key(&w, "info");
    ef__json_printf(&w,
                    "{\"title\":\"Everfold\",\"version\":\"%s\","
                    "\"license\":{\"name\":\"MIT\",\"identifier\":\"MIT\"}}",
                    ef_version());
    ef__json_key(&w, "servers");
    ef__json_printf(&w, "[{\"url\":\"%s\",\"description\":\"this server\"}]",
                    r->server->options.path[0] ? r->server->options.path : "/");
    ef__json_member_open(&w, "paths", '{');
    for (size_t i = 0; (route = ef__route_at(i)) != NULL; i++)
        if (is_first(i) && !(route->operation->flags & EF__ROUTE_PAGE))
            write_path(&w, route->operation->pattern);
    ef__json_close(&w, '}');
    write_components(&w, fixed);
    ef__json_close(&w, '}');
    return EF_OK;
}

const ef__http_route ef__routes_openapi[] = {
    EF__RUN_OPERATION(write_document, "GET", "/openapi.json", EF__SCOPE_READ, EF__TENANCY_NONE, 0,
                      "openapi", "this document", .answer = "OpenApi"),
    {0},
};
