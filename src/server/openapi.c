/*
 * openapi.c - /openapi.json, generated from the tables that the server runs on.
 *
 * Paths, parameters and bodies come from the operations, objects from the shapes. Only what a
 * handler writes by itself (a page, a summary) has its schema here, as text.
 */
#include "openapi.h"
#include "request.h"
#include "token.h"

#include <everfold/version.h>

#include <stdio.h>

/* --- objects ---------------------------------------------------------------------------------- */

/* An object of a shape, with further members: "as_of":{"type":"integer"} */
typedef struct schema {
    const char *name;
    const ef__shape *shape; /* NULL: `text` is all of it */
    const char *text;       /* further members of "properties" */
    const char *needed;     /* those of `text` that are always there: "as_of" */
} schema;

#define LIST(item) "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/" item "\"}}"
#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define INTEGER "{\"type\":\"integer\"}"
#define INTEGER_OR_NULL "{\"type\":[\"integer\",\"null\"]}"
#define TEXT "{\"type\":\"string\"}"
#define TEXT_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define OBJECT(properties, required)                                                               \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}"
#define ANY_OBJECT "{\"type\":\"object\",\"additionalProperties\":true}"
#define OBJECT_OR_NULL "{\"type\":[\"object\",\"null\"],\"additionalProperties\":true}"
#define NEW_EVENT                                                                                  \
    "\"type\":" TEXT ",\"data\":{},\"meta\":{},\"id\":" TEXT ",\"schema\":" INTEGER                \
    ",\"time\":{\"type\":\"string\",\"format\":\"date-time\"},\"tenant\":" TEXT                    \
    ",\"expected_seq\":{\"type\":[\"integer\",\"null\"]}"
#define TOKEN                                                                                      \
    "\"id\":" TEXT ",\"scopes\":{\"type\":\"array\",\"items\":" TEXT "},\"tenant\":" TEXT_OR_NULL  \
    ",\"note\":" TEXT ",\"state\":" TEXT ",\"created_at\":" TEXT ",\"expires_at\":" TEXT_OR_NULL   \
    ",\"revoked_at\":" TEXT_OR_NULL
#define TOKEN_NEEDED                                                                               \
    "\"id\",\"scopes\",\"tenant\",\"note\",\"state\",\"created_at\",\"expires_at\",\"revoked_at\""
#define ACTED(count)                                                                               \
    OBJECT("\"mode\":" TEXT ",\"" count "\":" INTEGER ",\"rows\":" LIST("Row"),                    \
           "\"mode\",\"" count "\",\"rows\"")

#define BOOLEAN "{\"type\":\"boolean\"}"
#define TIME_OR_NULL "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define MORE_OF_PROJECTION                                                                         \
    "\"routed\":" BOOLEAN ",\"applied\":" INTEGER_OR_NULL ",\"ignored\":" INTEGER_OR_NULL          \
    ",\"skipped\":" INTEGER_OR_NULL ",\"no_function\":" BOOLEAN                                    \
    ",\"scopes\":" LIST("Scope") ",\"program\":" TEXT

static const schema schemas[] = {
    {"PlacedOne", &ef__shape_append_result, NULL, NULL},
    {"Placed", NULL, "{\"oneOf\":[" REF("PlacedOne") "," LIST("PlacedOne") "]}", NULL},
    {"NewEvent", NULL, OBJECT("\"stream\":" TEXT "," NEW_EVENT, "\"type\",\"data\""), NULL},
    {"Append", NULL, "{\"oneOf\":[" REF("NewEvent") "," LIST("NewEvent") "]}", NULL},
    {"AppendMany", NULL, "{\"oneOf\":[" REF("NewEvent") "," LIST("NewEvent") "]}", NULL},
    {"Lines", NULL, TEXT, NULL},
    {"CloudEvent", NULL,
     "{\"type\":\"object\",\"properties\":{\"specversion\":" TEXT ",\"id\":" TEXT
     ",\"source\":" TEXT ",\"type\":" TEXT ",\"subject\":" TEXT ",\"time\":" TEXT
     ",\"datacontenttype\":" TEXT
     ",\"data\":{}},\"required\":[\"specversion\",\"id\",\"source\",\"type\"],"
     "\"additionalProperties\":true}",
     NULL},
    {"CloudEvents", NULL, LIST("CloudEvent"), NULL},
    {"Event", &ef__shape_event, NULL, NULL},
    {"Events", NULL, LIST("Event"), NULL},
    {"View", &ef__shape_view, "\"as_of\":" INTEGER ",\"blocked_streams\":" INTEGER, "\"as_of\""},
    {"Views", NULL,
     OBJECT("\"view_type\":" TEXT ",\"version\":" INTEGER ",\"items\":" LIST(
                "View") ",\"count\":" INTEGER ",\"next\":" TEXT_OR_NULL ",\"as_of\":" INTEGER
                        ",\"blocked_streams\":" INTEGER ",\"plan\":" TEXT ",\"looked\":" INTEGER,
            "\"view_type\",\"version\",\"as_of\""),
     NULL},
    {"Scope", &ef__shape_scope, NULL, NULL},
    {"Generation", &ef__shape_projection, MORE_OF_PROJECTION, "\"routed\",\"scopes\""},
    {"Projection", &ef__shape_projection, MORE_OF_PROJECTION ",\"generations\":" LIST("Generation"),
     "\"routed\",\"scopes\",\"program\",\"generations\""},
    {"Projections", NULL, LIST("Generation"), NULL},
    {"Program", NULL, TEXT, NULL},
    {"Failure", &ef__shape_failure, "\"projection\":" TEXT, "\"projection\""},
    {"Failures", NULL, LIST("Failure"), NULL},
    {"Row", &ef__shape_row, "\"blocked\":" BOOLEAN ",\"skipped\":" BOOLEAN,
     "\"blocked\",\"skipped\""},
    {"Outbox", NULL,
     OBJECT("\"mode\":" TEXT ",\"summary\":" OBJECT(
                "\"pending\":" INTEGER ",\"processing\":" INTEGER ",\"failed\":" INTEGER
                ",\"dead\":" INTEGER ",\"blocked\":" INTEGER
                ",\"oldest\":{\"oneOf\":[" REF("Row") ",{\"type\":\"null\"}]}"
                                                      ",\"blocked_since\":" TIME_OR_NULL,
                "\"pending\",\"processing\",\"failed\",\"dead\",\"blocked\","
                "\"oldest\"") ",\"rows\""
                              ":" LIST("Row") ",\"next\":" TEXT_OR_NULL,
            "\"mode\",\"summary\",\"rows\",\"next\""),
     NULL},
    {"RowGroup", &ef__shape_row_group, NULL, NULL},
    {"RowGroups", NULL,
     OBJECT("\"mode\":" TEXT ",\"rows\":" INTEGER
            ",\"groups\":" LIST("RowGroup") ",\"more\":" BOOLEAN,
            "\"mode\",\"rows\",\"groups\",\"more\""),
     NULL},
    {"Requeued", NULL, ACTED("requeued"), NULL},
    {"Skipped", NULL, ACTED("skipped"), NULL},
    {"Left", NULL, ACTED("left"), NULL},
    {"AuditEntry", &ef__shape_audit_entry, NULL, NULL},
    {"AuditEntries", NULL, LIST("AuditEntry"), NULL},
    {"Run", &ef__shape_run, NULL, NULL},
    {"Runs", NULL, LIST("Run"), NULL},
    {"Gap", &ef__shape_gap, NULL, NULL},
    {"Gaps", NULL, OBJECT("\"mode\":" TEXT ",\"gaps\":" LIST("Gap"), "\"mode\",\"gaps\""), NULL},
    {"Lease", &ef__shape_lease, NULL, NULL},
    {"Leases", NULL, LIST("Lease"), NULL},
    {"Worker", &ef__shape_worker,
     "\"late\":" BOOLEAN ",\"state\":{\"type\":\"string\",\"enum\":[\"working\",\"idle\","
     "\"late\",\"stale\"]},\"target_partitions\":{\"type\":\"array\",\"items\":" TEXT "}",
     "\"late\",\"state\",\"target_partitions\""},
    {"Workers", NULL, LIST("Worker"), NULL},
    {"Partition", &ef__shape_partition, NULL, NULL},
    {"Partitions", NULL, LIST("Partition"), NULL},
    {"PartitionChanged", &ef__shape_partition_sync_result, NULL, NULL},
    {"Lane", &ef__shape_lane, NULL, NULL},
    {"Lanes", NULL, LIST("Lane"), NULL},
    {"Type", &ef__shape_type, NULL, NULL},
    {"Types", NULL, LIST("Type"), NULL},
    {"Store", &ef__shape_facts, NULL, NULL},
    {"Head", &ef__shape_head, NULL, NULL},
    {"Status", NULL,
     OBJECT("\"version\":" TEXT ",\"mode\":" TEXT
            ",\"head\":" REF("Head") ",\"store\":" REF("Store"),
            "\"version\",\"mode\",\"head\",\"store\""),
     NULL},
    {"Retired", NULL, OBJECT("\"retired\":" INTEGER, "\"retired\""), NULL},
    {"Difference", NULL,
     OBJECT("\"tenant\":" TEXT ",\"view_id\":" TEXT ",\"left\":" OBJECT_OR_NULL
            ",\"right\":" OBJECT_OR_NULL,
            "\"tenant\",\"view_id\",\"left\",\"right\""),
     NULL},
    {"Diff", &ef__shape_diff, "\"differences\":" LIST("Difference"), "\"differences\""},
    {"ReplayWarning", NULL,
     OBJECT("\"projection\":" TEXT ",\"tenant\":" TEXT ",\"stream\":" TEXT ",\"seq\":" INTEGER
            ",\"position\":" INTEGER ",\"message\":" TEXT,
            "\"projection\",\"tenant\",\"stream\",\"seq\",\"position\",\"message\""),
     NULL},
    {"ReplayLooked", &ef__shape_replay_result, "\"warnings\":" LIST("ReplayWarning"),
     "\"warnings\""},
    {"ViewStep", &ef__shape_event, "\"after\":{}", "\"after\""},
    {"ViewPast", NULL,
     OBJECT("\"before\":{},\"steps\":" LIST("ViewStep") ",\"more\":{\"type\":\"boolean\"}",
            "\"before\",\"steps\",\"more\""),
     NULL},
    {"StreamHead", &ef__shape_stream, NULL, NULL},
    {"Streams", NULL,
     OBJECT("\"streams\":" LIST("StreamHead") ",\"next\":" TEXT_OR_NULL, "\"streams\",\"next\""),
     NULL},
    {"Publisher", &ef__shape_publisher,
     "\"pending\":" INTEGER ",\"processing\":" INTEGER ",\"failed\":" INTEGER ",\"dead\":" INTEGER
     ",\"blocked\":" INTEGER ",\"kept\":" INTEGER ",\"sink\":" OBJECT_OR_NULL,
     "\"pending\",\"processing\",\"failed\",\"dead\",\"blocked\",\"kept\",\"sink\""},
    {"Publishers", NULL, LIST("Publisher"), NULL},
    {"Discarded", NULL, OBJECT("\"discarded\":" INTEGER, "\"discarded\""), NULL},
    {"Token", NULL, OBJECT(TOKEN, TOKEN_NEEDED), NULL},
    {"Tokens", NULL, LIST("Token"), NULL},
    {"MadeToken", NULL, OBJECT(TOKEN ",\"token\":" TEXT, TOKEN_NEEDED ",\"token\""), NULL},
    {"Explained", NULL, ANY_OBJECT, NULL},
    {"TrialView", NULL,
     OBJECT("\"view_id\":" TEXT ",\"before\":{},\"after\":{}", "\"view_id\",\"before\",\"after\""),
     NULL},
    {"DraftRow", &ef__shape_draft_row, NULL, NULL},
    {"Drafted", &ef__shape_draft_result, "\"rows\":" LIST("DraftRow"), "\"rows\""},
    {"Trial", &ef__shape_trial, "\"views\":" LIST("TrialView"), "\"views\""},
    {"Sample", &ef__shape_sample, NULL, NULL},
    {"Minute", &ef__shape_minute, NULL, NULL},
    {"Samples", NULL, "{\"anyOf\":[" LIST("Sample") "," LIST("Minute") "]}", NULL},
    {"Who", NULL,
     OBJECT("\"name\":" TEXT ",\"scopes\":{\"type\":\"array\",\"items\":" TEXT
            "},\"tenant\":" TEXT_OR_NULL,
            "\"name\",\"scopes\",\"tenant\""),
     NULL},
    {"Overview", NULL, ANY_OBJECT, NULL},
    {"Version", NULL,
     OBJECT("\"version\":" TEXT ",\"mode\":" TEXT ",\"journal\":" TEXT ",\"journal_id\":" TEXT
            ",\"started_at\":{\"type\":\"string\",\"format\":\"date-time\"}",
            "\"version\",\"mode\",\"journal\",\"journal_id\",\"started_at\""),
     NULL},
    {"OpenApi", NULL, ANY_OBJECT, NULL},
    {"Problem", NULL,
     OBJECT("\"type\":" TEXT ",\"title\":" TEXT ",\"status\":" INTEGER
            ",\"code\":" REF("Code") ",\"detail\":" TEXT ",\"asked\":" INTEGER ",\"found\":" INTEGER
                                     ",\"hint\":" TEXT
                                     ",\"mistakes\":{\"type\":\"array\",\"items\":" ANY_OBJECT "}",
            "\"type\",\"title\",\"status\",\"code\",\"detail\""),
     NULL},
    {NULL, NULL, NULL, NULL},
};

static const char *const plain_schemas[] = {
    [EF__FIELD_STR] = TEXT,
    [EF__FIELD_NAME] = TEXT_OR_NULL,
    [EF__FIELD_JSON] = "{}",
    [EF__FIELD_INT32] = INTEGER,
    [EF__FIELD_INT64] = INTEGER,
    [EF__FIELD_COUNT] = "{\"type\":[\"integer\",\"null\"]}",
    [EF__FIELD_NUMBER] = "{\"type\":[\"integer\",\"null\"]}",
    [EF__FIELD_BOOL] = "{\"type\":\"boolean\"}",
    [EF__FIELD_TIME] = "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}",
    [EF__FIELD_SECONDS] = "{\"type\":\"number\"}",
    [EF__FIELD_CHARS] = TEXT,
    [EF__FIELD_LABEL] = TEXT,
    [EF__FIELD_TTL] = "{\"type\":[\"integer\",\"null\"]}",
};

static void write_field(ef__json_writer *w, const ef__field *field)
{
    size_t words = field->kind == EF__FIELD_WORD     ? field->size
                   : field->kind == EF__FIELD_CHOICE ? 2
                                                     : 0;

    ef__json_key(w, field->key);
    if (words == 0) {
        ef__json_raw(w, ef_str_from(plain_schemas[field->kind]));
        return;
    }
    ef__json_open(w, '{');
    ef__json_member_open(w, "enum", '[');
    for (size_t i = 0; i < words; i++)
        ef__json_str(w, ef_str_from(field->word((int)i)));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_shape(ef__json_writer *w, const schema *s)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", "object");
    ef__json_member_open(w, "properties", '{');
    for (const ef__field *field = s->shape->fields; field->key; field++)
        write_field(w, field);
    if (s->text)
        ef__json_raw(w, ef_str_from(s->text));
    ef__json_close(w, '}');
    ef__json_member_open(w, "required", '[');
    for (const ef__field *field = s->shape->fields; field->key; field++)
        ef__json_str(w, ef_str_from(field->key));
    if (s->needed)
        ef__json_raw(w, ef_str_from(s->needed));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_components(ef__json_writer *w)
{
    ef__json_open(w, '{');
    ef__json_member_raw(w, "securitySchemes",
                        EF_STR("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}"));
    ef__json_member_open(w, "schemas", '{');
    for (const schema *s = schemas; s->name; s++) {
        ef__json_key(w, s->name);
        if (s->shape)
            write_shape(w, s);
        else
            ef__json_raw(w, ef_str_from(s->text));
    }
    ef__json_key(w, "Code");
    ef__openapi_codes(w);
    ef__json_close(w, '}');
    ef__openapi_parts(w);
    ef__json_close(w, '}');
}

/* --- operations ------------------------------------------------------------------------------- */

static void write_input_schema(ef__json_writer *w, const ef__input *in)
{
    ef_str type = ef_str_from(ef__input_type(in));
    bool duration = in->kind == EF__INPUT_DURATION;

    ef__json_open(w, '{');
    ef__json_member_str(w, "type", duration ? EF_STR("string") : type);
    if (duration)
        ef__json_member_text(w, "pattern", "^[0-9]+(ms|s|m)?$");
    ef__json_close(w, '}');
}

static void write_parameter(ef__json_writer *w, ef_str name, const char *in,
                            const ef__input *described)
{
    static const ef__input text = {.kind = EF__INPUT_TEXT};

    ef__json_open(w, '{');
    ef__json_member_str(w, "name", name);
    ef__json_member_text(w, "in", in);
    ef__json_member_bool(w, "required", !described || described->required);
    ef__json_key(w, "schema");
    write_input_schema(w, described ? described : &text);
    ef__json_close(w, '}');
}

/* Names in the path, parameters of the query, and headers. */
static void write_parameters(ef__json_writer *w, const ef__operation *route)
{
    ef__json_open(w, '[');
    for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at + 1, '{'))
        write_parameter(w, (ef_str){at + 1, strcspn(at + 1, "}")}, "path", NULL);
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_QUERY)
            write_parameter(w, ef_str_from(in->name), "query", in);
    ef__openapi_header_parameters(w, route);
    ef__json_close(w, ']');
}

/* The schema of a body that is made of members. */
static void write_members(ef__json_writer *w, const ef__operation *route)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", "object");
    ef__json_member_open(w, "properties", '{');
    for (const ef__input *in = route->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_MEMBER) {
            ef__json_key(w, in->name);
            write_input_schema(w, in);
        }
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
    char ref[96];

    ef__json_member_open(w, "content", '{');
    for (size_t i = 0; i < count; i++) {
        bool text = strcmp(list[i].schema, "Text") == 0 || strcmp(list[i].schema, "Stream") == 0;
        (void)snprintf(ref, sizeof(ref), "#/components/schemas/%s",
                       text ? "Program" : list[i].schema); /* a string as well */
        ef__json_key(w, list[i].type);
        ef__json_open(w, '{');
        ef__json_member_open(w, "schema", '{');
        ef__json_member_text(w, "$ref", ref);
        ef__json_close(w, '}');
        ef__json_close(w, '}');
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
    ef__openapi_page_headers(w, route);
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
    ef__openapi_errors(w, route);
    ef__json_close(w, '}');
}

/* The required scope; an empty list: no token is needed. */
static void write_security(ef__json_writer *w, const ef__operation *route)
{
    ef__json_open(w, '[');
    if (route->scope != EF__SCOPE_OPEN) {
        ef__json_open(w, '{');
        ef__json_member_open(w, "token", '[');
        ef__json_str(w, ef_str_from(ef__token_scope(route->scope)));
        ef__json_close(w, ']');
        ef__json_close(w, '}');
    }
    if (route->flags & EF__ROUTE_LOCAL) {
        ef__json_open(w, '{');
        ef__json_close(w, '}');
    }
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
    ef__json_key(w, "security");
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
static bool is_first(const ef__operation *operation)
{
    for (size_t t = 0; ef__route_tables[t]; t++)
        for (const ef__http_route *other = ef__route_tables[t]; other->operation; other++) {
            if (other->operation == operation)
                return true;
            if (strcmp(other->operation->pattern, operation->pattern) == 0)
                return false;
        }
    return true;
}

static void write_path(ef__json_writer *w, const ef__operation *first)
{
    ef__json_key(w, first->pattern);
    ef__json_open(w, '{');
    for (size_t t = 0; ef__route_tables[t]; t++)
        for (const ef__http_route *route = ef__route_tables[t]; route->operation; route++)
            if (strcmp(route->operation->pattern, first->pattern) == 0)
                write_operation(w, route->operation);
    ef__json_close(w, '}');
}

static ef_status write_document(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);

    (void)err;
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "openapi", "3.1.0");
    ef__json_member_open(&w, "info", '{');
    ef__json_member_text(&w, "title", "Everfold");
    ef__json_member_text(&w, "version", ef_version());
    ef__json_member_raw(&w, "license", EF_STR("{\"name\":\"MIT\",\"identifier\":\"MIT\"}"));
    ef__json_close(&w, '}');
    ef__json_member_open(&w, "servers", '[');
    ef__json_open(&w, '{');
    ef__json_member_text(&w, "url", r->server->options.path[0] ? r->server->options.path : "/");
    ef__json_member_text(&w, "description", "this server");
    ef__json_close(&w, '}');
    ef__json_close(&w, ']');
    ef__json_member_open(&w, "paths", '{');
    for (size_t t = 0; ef__route_tables[t]; t++)
        for (const ef__http_route *route = ef__route_tables[t]; route->operation; route++)
            if (is_first(route->operation) && !(route->operation->flags & EF__ROUTE_PAGE))
                write_path(&w, route->operation);
    ef__json_close(&w, '}');
    ef__json_key(&w, "components");
    write_components(&w);
    ef__json_close(&w, '}');
    return EF_OK;
}

const ef__http_route ef__routes_openapi[] = {
    EF__RUN_OPERATION(write_document, "GET", "/openapi.json", EF__SCOPE_READ, EF__TENANCY_NONE, 0,
                      "openapi", "this document", .answer = "OpenApi"),
    {0},
};
