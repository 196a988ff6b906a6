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
    {"Difference", &ef__shape_difference, NULL, NULL},
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
    {"TrialView", &ef__shape_trial_view, NULL, NULL},
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
    for (size_t i = 0; i < s->shape->count; i++)
        write_field(w, &s->shape->fields[i]);
    if (s->text)
        ef__json_raw(w, ef_str_from(s->text));
    ef__json_close(w, '}');
    ef__json_member_open(w, "required", '[');
    for (size_t i = 0; i < s->shape->count; i++)
        ef__json_str(w, ef_str_from(s->shape->fields[i].key));
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
        ef__json_str(w, ef_str_from(ef_status_code((ef_status)i)));
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
