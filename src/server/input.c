/*
 * input.c - the inputs of a request, read as the table of its operation describes them.
 */
#include "request.h"

#include <everfold/clock.h>

#define LIST_BYTES 512 /* names of all inputs, in a message */

static const char *type_of(const ef__input *in)
{
    static const char *const types[] = {
        [EF__INPUT_TEXT] = "string",       [EF__INPUT_INT] = "integer",
        [EF__INPUT_BOOL] = "boolean",      [EF__INPUT_TIME] = "string",
        [EF__INPUT_DURATION] = "duration",
    };

    return types[in->kind];
}

static const ef__input *find_input(const ef__operation *operation, ef__input_place place,
                                   ef_str name)
{
    for (const ef__input *in = operation->inputs; in && in->name; in++)
        if (in->place == place && ef_str_equal(ef_str_from(in->name), name))
            return in;
    return NULL;
}

/* "limit:integer open:boolean" of the parameters, "stream,seq" of the members. */
static void list_inputs(const ef__operation *operation, ef__input_place place, char out[LIST_BYTES])
{
    bool typed = place == EF__INPUT_QUERY;
    size_t used = 0;

    out[0] = '\0';
    for (const ef__input *in = operation->inputs; in && in->name; in++)
        if (in->place == place && used < LIST_BYTES)
            used += (size_t)snprintf(out + used, LIST_BYTES - used, "%s%s%s%s",
                                     used == 0 ? ""
                                     : typed   ? " "
                                               : ",",
                                     in->name, typed ? ":" : "", typed ? type_of(in) : "");
}

/* --- parameters ------------------------------------------------------------------------------- */

static const ef__parameter *find_parameter(const ef__request *r, const char *name)
{
    for (size_t i = 0; i < r->parameter_count; i++)
        if (ef_str_equal(r->parameters[i].name, ef_str_from(name)))
            return &r->parameters[i];
    return NULL;
}

ef_str ef__request_text(const ef__request *r, const char *name)
{
    const ef__parameter *p = find_parameter(r, name);

    return p ? p->value : EF_STR("");
}

bool ef__request_given(const ef__request *r, const char *name)
{
    return find_parameter(r, name) != NULL;
}

ef_status ef__request_check_parameters(const ef__request *r, ef_error *err)
{
    char list[LIST_BYTES];

    for (size_t i = 0; i < r->parameter_count; i++) {
        ef_str name = r->parameters[i].name;
        if (find_input(r->route, EF__INPUT_QUERY, name))
            continue;
        list_inputs(r->route, EF__INPUT_QUERY, list);
        return ef_fail(err, EF_BAD_INPUT, "there is no parameter '%.*s' here%s%s", EF_STR_ARG(name),
                       list[0] ? "; there are: " : "", list);
    }
    return EF_OK;
}

ef_status ef__request_check_all_tenants(const ef__request *r, bool all, ef_error *err)
{
    if (!all || r->any_tenant)
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "all_tenants is not for a request of one tenant");
}

/* --- values ----------------------------------------------------------------------------------- */

static void store_int(const ef__input *in, void *value, int64_t number)
{
    int32_t narrow = (int32_t)number;

    if (in->size == sizeof(narrow))
        memcpy(value, &narrow, sizeof(narrow));
    else
        memcpy(value, &number, sizeof(number));
}

static ef_status read_time(const ef__input *in, ef_str text, void *value, ef_error *err)
{
    if (text.len > 0 && ef_time_parse(text.ptr, text.len, value) != 0)
        return ef_fail(err, EF_BAD_INPUT, "%s is '%.*s'; an RFC 3339 time is needed", in->name,
                       EF_STR_ARG(text));
    return EF_OK;
}

/* A decoded parameter ends with a NUL. */
static bool parse_whole_number(const char *text, int64_t *out, char **out_end)
{
    long long number;

    if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
        return false;
    number = strtoll(text, out_end, 10);
    *out = number;
    return *out_end != text && number != INT64_MAX && number != INT64_MIN;
}

static ef_status parse_int(const ef__input *in, ef_str text, void *value, ef_error *err)
{
    int64_t number = 0;
    char *end = NULL;

    if (!parse_whole_number(text.ptr, &number, &end) || *end != '\0' || number < in->min ||
        number > in->max)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s is '%.*s'; a whole number from %" PRId64 " to %" PRId64 " is needed",
                       in->name, EF_STR_ARG(text), in->min, in->max);
    store_int(in, value, number);
    return EF_OK;
}

static ef_status parse_bool(const ef__input *in, ef_str text, bool *value, ef_error *err)
{
    if (text.len == 0 || ef_str_equal(text, EF_STR("true")) || ef_str_equal(text, EF_STR("1")))
        *value = true;
    else if (ef_str_equal(text, EF_STR("false")) || ef_str_equal(text, EF_STR("0")))
        *value = false;
    else
        return ef_fail(err, EF_BAD_INPUT, "%s is '%.*s'; true or false is needed", in->name,
                       EF_STR_ARG(text));
    return EF_OK;
}

static int64_t unit_ms(const char *unit)
{
    if (unit[0] == '\0' || strcmp(unit, "ms") == 0)
        return 1;
    if (strcmp(unit, "s") == 0)
        return 1000;
    return strcmp(unit, "m") == 0 ? 60000 : 0;
}

static ef_status parse_duration(const ef__input *in, ef_str text, int64_t *value, ef_error *err)
{
    int64_t number = 0, unit;
    char *end = NULL;

    unit = parse_whole_number(text.ptr, &number, &end) ? unit_ms(end) : 0;
    if (unit == 0 || number < 0 || number > in->max / unit)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s is '%.*s'; a time up to %" PRId64 "ms is needed, as 500ms or 10s",
                       in->name, EF_STR_ARG(text), in->max);
    *value = number * unit;
    return EF_OK;
}

static ef_status parse_parameter(const ef__input *in, ef_str text, void *value, ef_error *err)
{
    switch (in->kind) {
    case EF__INPUT_TEXT:
        *(ef_str *)value = text;
        return EF_OK;
    case EF__INPUT_INT:
        return parse_int(in, text, value, err);
    case EF__INPUT_BOOL:
        return parse_bool(in, text, value, err);
    case EF__INPUT_TIME:
        return read_time(in, text, value, err);
    case EF__INPUT_DURATION:
        return parse_duration(in, text, value, err);
    }
    return EF_OK;
}

/* --- members of the body ---------------------------------------------------------------------- */

static ef_status parse_body(ef__request *r, const ef__json **out, ef_error *err)
{
    ef_str text = r->body.len > 0 ? ef__buf_str(&r->body) : EF_STR("{}");
    char list[LIST_BYTES];
    ef__json *body = NULL;
    ef_status st = ef__json_parse(text, r->body.max_bytes, &r->arena, &body, err);

    *out = body;
    if (st == EF_OK && body->kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_JSON, "the body is not a JSON object");
    for (const ef__json *m = st == EF_OK ? body->first : NULL; m; m = m->next)
        if (!find_input(r->route, EF__INPUT_MEMBER, m->key)) {
            list_inputs(r->route, EF__INPUT_MEMBER, list);
            return ef_fail(err, EF_BAD_INPUT, "there is no member '%.*s' here; there are: %s",
                           EF_STR_ARG(m->key), list);
        }
    return st;
}

static ef_status read_member_int(const ef__input *in, const ef__json *json, void *value,
                                 ef_error *err)
{
    int64_t number = 0;

    if (json->kind != EF__JSON_NUMBER || ef__json_int64(json, &number) != 0 || number < in->min ||
        number > in->max)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a whole number from %" PRId64 " to %" PRId64,
                       in->name, in->min, in->max);
    store_int(in, value, number);
    return EF_OK;
}

static ef_status read_member(const ef__input *in, const ef__json *json, void *value, ef_error *err)
{
    if (in->kind == EF__INPUT_INT)
        return read_member_int(in, json, value, err);
    if (in->kind == EF__INPUT_BOOL) {
        if (json->kind != EF__JSON_TRUE && json->kind != EF__JSON_FALSE)
            return ef_fail(err, EF_BAD_INPUT, "%s is neither true nor false", in->name);
        *(bool *)value = json->kind == EF__JSON_TRUE;
        return EF_OK;
    }
    if (json->kind != EF__JSON_STRING)
        return ef_fail(err, EF_BAD_INPUT, "%s is not a string", in->name);
    if (in->kind == EF__INPUT_TIME)
        return read_time(in, json->text, value, err);
    *(ef_str *)value = json->text;
    return EF_OK;
}

/* --- the request ------------------------------------------------------------------------------ */

static bool has_members(const ef__operation *operation)
{
    for (const ef__input *in = operation->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_MEMBER)
            return true;
    return false;
}

/* Is it given? Then it is read. */
static ef_status read_given(ef__request *r, const ef__json *body, const ef__input *in, void *value,
                            bool *out_given, ef_error *err)
{
    const ef__json *json = in->place == EF__INPUT_MEMBER ? ef__json_get(body, in->name) : NULL;
    const ef__parameter *p = in->place == EF__INPUT_QUERY ? find_parameter(r, in->name) : NULL;

    *out_given = p || (json && json->kind != EF__JSON_NULL);
    if (!*out_given)
        return in->required ? ef_fail(err, EF_BAD_INPUT, "%s is missing", in->name) : EF_OK;
    return p ? parse_parameter(in, p->value, value, err) : read_member(in, json, value, err);
}

static ef_status read_input(ef__request *r, const ef__json *body, const ef__input *in,
                            size_t *next_part, void *value, ef_error *err)
{
    ef_status st = EF_OK;
    bool given = false;

    switch (in->place) {
    case EF__INPUT_PATH:
        *(ef_str *)value = r->parts[(*next_part)++];
        break;
    case EF__INPUT_QUERY:
    case EF__INPUT_MEMBER:
        st = read_given(r, body, in, value, &given, err);
        if (!given && in->otherwise != 0)
            store_int(in, value, in->otherwise);
        break;
    case EF__INPUT_CONTENT:
        *(ef_str *)value = ef__buf_str(&r->body);
        break;
    case EF__INPUT_TENANT:
        *(ef_str *)value = r->tenant;
        break;
    case EF__INPUT_ANY_TENANT:
        *(bool *)value = r->any_tenant;
        break;
    case EF__INPUT_ACTOR:
        *(ef_str *)value = ef_str_from(r->who.name);
        break;
    }
    return st;
}

ef_status ef__request_read(ef__request *r, void *request, ef_error *err)
{
    const ef__json *body = NULL;
    size_t next_part = 0;
    ef_status st = has_members(r->route) ? parse_body(r, &body, err) : EF_OK;

    for (const ef__input *in = r->route->inputs; st == EF_OK && in && in->name; in++)
        if (in->size > 0)
            st = read_input(r, body, in, &next_part, (char *)request + in->offset, err);
    return st;
}

ef_status ef__request_serve(ef__request *r, ef_error *err)
{
    ef_status st =
        r->route->flags & EF__ROUTE_ANY_QUERY ? EF_OK : ef__request_check_parameters(r, err);
    void *request;

    if (st != EF_OK || !r->handler->serve)
        return st == EF_OK ? r->handler->run(r, err) : st;
    request = ef__arena_zalloc(&r->arena, 1, r->route->size + 1);
    if (!request)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    st = ef__request_read(r, request, err);
    return st == EF_OK ? r->handler->serve(r, request, err) : st;
}
