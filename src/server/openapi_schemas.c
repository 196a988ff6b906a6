/*
 * openapi_schemas.c - the schemas of /openapi.json.
 *
 * Objects come from the shapes. Only what a handler writes by itself (a page, a summary) has its
 * schema here, as text.
 */
#include "request.h"

/* An object of a shape, with further members: "as_of":{"type":"integer"} */
typedef struct schema {
    const char *name;
    const ef__shape *shape; /* NULL: `text` is all of it */
    const char *text;       /* further members of "properties" */
    const char *needed;     /* those of `text` that are always there: "as_of" */
    const ef__shape *more;  /* of HTTP only; may be NULL */
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

#define OF_GENERATION "\"scopes\":" LIST("Scope") ",\"program\":" TEXT
#define BOOLEAN "{\"type\":\"boolean\"}"
#define TIME_OR_NULL "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define SHAPED(name_, shape_, ...)                                                                 \
    {                                                                                              \
        .name = (name_), .shape = &ef__shape_##shape_, ##__VA_ARGS__                               \
    }
#define WRITTEN(name_, text_)                                                                      \
    {                                                                                              \
        .name = (name_), .text = (text_)                                                           \
    }

static const schema schemas[] = {
    SHAPED("PlacedOne", append_result),
    WRITTEN("Placed", "{\"oneOf\":[" REF("PlacedOne") "," LIST("PlacedOne") "]}"),
    WRITTEN("NewEvent", OBJECT("\"stream\":" TEXT "," NEW_EVENT, "\"type\",\"data\"")),
    WRITTEN("Append", "{\"oneOf\":[" REF("NewEvent") "," LIST("NewEvent") "]}"),
    WRITTEN("AppendMany", "{\"oneOf\":[" REF("NewEvent") "," LIST("NewEvent") "]}"),
    WRITTEN("Lines", TEXT),
    WRITTEN("CloudEvent", "{\"type\":\"object\",\"properties\":{\"specversion\":" TEXT
                          ",\"id\":" TEXT ",\"source\":" TEXT ",\"type\":" TEXT ",\"subject\":" TEXT
                          ",\"time\":" TEXT ",\"datacontenttype\":" TEXT
                          ",\"data\":{}},\"required\":[\"specversion\",\"id\",\"source\",\"type\"],"
                          "\"additionalProperties\":true}"),
    WRITTEN("CloudEvents", LIST("CloudEvent")),
    SHAPED("Event", event),
    WRITTEN("Events", LIST("Event")),
    SHAPED("View", view, .text = "\"as_of\":" INTEGER ",\"blocked_streams\":" INTEGER,
           .needed = "\"as_of\""),
    WRITTEN("Views", OBJECT("\"view_type\":" TEXT ",\"version\":" INTEGER ",\"items\":" LIST(
                                "View") ",\"count\":" INTEGER ",\"next\":" TEXT_OR_NULL
                                        ",\"as_of\":" INTEGER ",\"blocked_streams\":" INTEGER
                                        ",\"plan\":" TEXT ",\"looked\":" INTEGER,
                            "\"view_type\",\"version\",\"as_of\"")),
    SHAPED("Scope", scope),
    SHAPED("Generation", projection, .more = &ef__shape_projection_more, .text = OF_GENERATION,
           .needed = "\"scopes\""),
    SHAPED("Projection", projection, .more = &ef__shape_projection_more,
           .text = OF_GENERATION ",\"generations\":" LIST("Generation"),
           .needed = "\"scopes\",\"program\",\"generations\""),
    WRITTEN("Projections", LIST("Generation")),
    WRITTEN("Program", TEXT),
    SHAPED("Failure", failure, .text = "\"projection\":" TEXT, .needed = "\"projection\""),
    WRITTEN("Failures", LIST("Failure")),
    SHAPED("Row", row, .more = &ef__shape_row_more),
    WRITTEN("Outbox",
            OBJECT("\"mode\":" TEXT ",\"summary\":" OBJECT(
                       "\"pending\":" INTEGER ",\"processing\":" INTEGER ",\"failed\":" INTEGER
                       ",\"dead\":" INTEGER ",\"blocked\":" INTEGER
                       ",\"oldest\":{\"oneOf\":[" REF("Row") ",{\"type\":\"null\"}]}"
                                                             ",\"blocked_since\":" TIME_OR_NULL,
                       "\"pending\",\"processing\",\"failed\",\"dead\",\"blocked\","
                       "\"oldest\"") ",\"rows\""
                                     ":" LIST("Row") ",\"next\":" TEXT_OR_NULL,
                   "\"mode\",\"summary\",\"rows\",\"next\"")),
    SHAPED("RowGroup", row_group),
    WRITTEN("RowGroups", OBJECT("\"mode\":" TEXT ",\"rows\":" INTEGER
                                ",\"groups\":" LIST("RowGroup") ",\"more\":" BOOLEAN,
                                "\"mode\",\"rows\",\"groups\",\"more\"")),
    WRITTEN("Requeued", ACTED("requeued")),
    WRITTEN("Skipped", ACTED("skipped")),
    WRITTEN("Left", ACTED("left")),
    SHAPED("AuditEntry", audit_entry),
    WRITTEN("AuditEntries", LIST("AuditEntry")),
    SHAPED("Run", run),
    WRITTEN("Runs", LIST("Run")),
    SHAPED("Gap", gap),
    WRITTEN("Gaps", OBJECT("\"mode\":" TEXT ",\"gaps\":" LIST("Gap"), "\"mode\",\"gaps\"")),
    SHAPED("Lease", lease),
    WRITTEN("Leases", LIST("Lease")),
    SHAPED("Worker", worker, .more = &ef__shape_worker_more,
           .text = "\"target_partitions\":{\"type\":\"array\",\"items\":" TEXT "}",
           .needed = "\"target_partitions\""),
    WRITTEN("Workers", LIST("Worker")),
    SHAPED("Partition", partition),
    WRITTEN("Partitions", LIST("Partition")),
    SHAPED("PartitionChanged", partition_sync_result),
    SHAPED("Lane", lane),
    WRITTEN("Lanes", LIST("Lane")),
    SHAPED("Type", type),
    WRITTEN("Types", LIST("Type")),
    SHAPED("Store", facts),
    SHAPED("Head", head),
    WRITTEN("Status", OBJECT("\"version\":" TEXT ",\"mode\":" TEXT
                             ",\"head\":" REF("Head") ",\"store\":" REF("Store"),
                             "\"version\",\"mode\",\"head\",\"store\"")),
    WRITTEN("Retired", OBJECT("\"retired\":" INTEGER, "\"retired\"")),
    SHAPED("Difference", difference),
    SHAPED("Diff", diff, .text = "\"differences\":" LIST("Difference"),
           .needed = "\"differences\""),
    WRITTEN("ReplayWarning",
            OBJECT("\"projection\":" TEXT ",\"tenant\":" TEXT ",\"stream\":" TEXT
                   ",\"seq\":" INTEGER ",\"position\":" INTEGER ",\"message\":" TEXT,
                   "\"projection\",\"tenant\",\"stream\",\"seq\",\"position\",\"message\"")),
    SHAPED("ReplayLooked", replay_result, .text = "\"warnings\":" LIST("ReplayWarning"),
           .needed = "\"warnings\""),
    SHAPED("ViewStep", event, .text = "\"after\":{}", .needed = "\"after\""),
    WRITTEN("ViewPast",
            OBJECT("\"before\":{},\"steps\":" LIST("ViewStep") ",\"more\":{\"type\":\"boolean\"}",
                   "\"before\",\"steps\",\"more\"")),
    SHAPED("StreamHead", stream),
    WRITTEN("Streams", OBJECT("\"streams\":" LIST("StreamHead") ",\"next\":" TEXT_OR_NULL,
                              "\"streams\",\"next\"")),
    SHAPED("Publisher", publisher, .more = &ef__shape_summary,
           .text = "\"kept\":" INTEGER ",\"sink\":" OBJECT_OR_NULL, .needed = "\"kept\",\"sink\""),
    WRITTEN("Publishers", LIST("Publisher")),
    WRITTEN("Discarded", OBJECT("\"discarded\":" INTEGER, "\"discarded\"")),
    WRITTEN("Token", OBJECT(TOKEN, TOKEN_NEEDED)),
    WRITTEN("Tokens", LIST("Token")),
    WRITTEN("MadeToken", OBJECT(TOKEN ",\"token\":" TEXT, TOKEN_NEEDED ",\"token\"")),
    WRITTEN("Explained", ANY_OBJECT),
    SHAPED("TrialView", trial_view),
    SHAPED("DraftRow", draft_row),
    SHAPED("Drafted", draft_result, .text = "\"rows\":" LIST("DraftRow"), .needed = "\"rows\""),
    SHAPED("Trial", trial, .text = "\"views\":" LIST("TrialView"), .needed = "\"views\""),
    SHAPED("Sample", sample),
    SHAPED("Minute", minute),
    WRITTEN("Samples", "{\"anyOf\":[" LIST("Sample") "," LIST("Minute") "]}"),
    WRITTEN("Who", OBJECT("\"name\":" TEXT ",\"scopes\":{\"type\":\"array\",\"items\":" TEXT
                          "},\"tenant\":" TEXT_OR_NULL,
                          "\"name\",\"scopes\",\"tenant\"")),
    WRITTEN("Overview", ANY_OBJECT),
    WRITTEN("Version", OBJECT("\"version\":" TEXT ",\"mode\":" TEXT ",\"journal\":" TEXT
                              ",\"journal_id\":" TEXT
                              ",\"started_at\":{\"type\":\"string\",\"format\":\"date-time\"}",
                              "\"version\",\"mode\",\"journal\",\"journal_id\",\"started_at\"")),
    WRITTEN("OpenApi", ANY_OBJECT),
    WRITTEN("Problem",
            OBJECT("\"type\":" TEXT ",\"title\":" TEXT ",\"status\":" INTEGER ",\"code\":" REF(
                       "Code") ",\"detail\":" TEXT ",\"asked\":" INTEGER ",\"found\":" INTEGER
                               ",\"hint\":" TEXT
                               ",\"mistakes\":{\"type\":\"array\",\"items\":" ANY_OBJECT "}",
                   "\"type\",\"title\",\"status\",\"code\",\"detail\"")),
    {.name = NULL},
};

static const char *const plain_schemas[] = {
    [EF__FIELD_STR] = TEXT,
    [EF__FIELD_NAME] = TEXT_OR_NULL,
    [EF__FIELD_JSON] = "{}",
    [EF__FIELD_DATA] = OBJECT_OR_NULL,
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
    ef__json_member_text(w, "type", "string");
    ef__json_member_open(w, "enum", '[');
    for (size_t i = 0; i < words; i++)
        ef__json_str(w, ef_str_from(field->word((int)i)));
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

static void write_shape(ef__json_writer *w, const schema *s)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", "object");
    ef__json_member_open(w, "properties", '{');
    write_properties(w, s->shape);
    write_properties(w, s->more);
    if (s->text)
        ef__json_raw(w, ef_str_from(s->text));
    ef__json_close(w, '}');
    ef__json_member_open(w, "required", '[');
    write_keys(w, s->shape);
    write_keys(w, s->more);
    if (s->needed)
        ef__json_raw(w, ef_str_from(s->needed));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

static void write_codes(ef__json_writer *w)
{
    ef__json_open(w, '{');
    ef__json_member_open(w, "enum", '[');
    for (int i = EF_OK + 1; i < EF_STATUS_COUNT; i++)
        ef__json_str(w, ef_str_from(ef_status_describe((ef_status)i)->code));
    ef__json_close(w, ']');
    ef__json_close(w, '}');
}

void ef__openapi_schemas(ef__json_writer *w)
{
    ef__json_open(w, '{');
    for (const schema *s = schemas; s->name; s++) {
        ef__json_key(w, s->name);
        if (s->shape)
            write_shape(w, s);
        else
            ef__json_raw(w, ef_str_from(s->text));
    }
    ef__json_key(w, "Code");
    write_codes(w);
    ef__json_close(w, '}');
}
