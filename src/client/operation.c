/*
 * operation.c - calls operations: writes requests from their structs, and reads responses by the
 * shapes of the operations.
 */
#include "client_priv.h"

#include <inttypes.h>
#include <stdio.h>

/* --- the request ------------------------------------------------------------------------------ */

/* Adds a part of a path or query; of the printable characters, all that have a meaning there. */
static void add_escaped(ef__buf *out, ef_str text)
{
    (void)ef__buf_add_escaped(out, text, "!\"#$%&'()*+,./:;<=>?@[\\]^`{|}");
}

static const void *field_of(const ef__input *in, const void *request)
{
    return (const char *)request + in->offset;
}

static int64_t int_of(const ef__input *in, const void *request)
{
    int32_t narrow = 0;
    int64_t number = 0;

    if (in->size != sizeof(narrow)) {
        memcpy(&number, field_of(in, request), sizeof(number));
        return number;
    }
    memcpy(&narrow, field_of(in, request), sizeof(narrow));
    return narrow;
}

/* An input that has its default, or is empty, is not sent. */
static bool is_sent(const ef__input *in, const void *request)
{
    const void *field = field_of(in, request);

    switch (in->kind) {
    case EF__INPUT_TEXT:
        return ((const ef_str *)field)->len > 0 ||
               (in->keeps_empty && ((const ef_str *)field)->ptr);
    case EF__INPUT_BOOL:
        return *(const bool *)field || in->keeps_empty;
    case EF__INPUT_INT:
        return int_of(in, request) != in->otherwise && (int_of(in, request) != 0 || in->min <= 0);
    case EF__INPUT_TIME:
    case EF__INPUT_DURATION:
        return *(const int64_t *)field != 0;
    }
    return false;
}

static int64_t duration_of(const ef__input *in, const void *request)
{
    int64_t ms = *(const int64_t *)field_of(in, request);

    return ms < in->max ? ms : in->max;
}

static void write_parameter(const ef__input *in, const void *request, bool first,
                            ef__client_call *call)
{
    const void *field = field_of(in, request);
    char time[EF_TIME_TEXT_MAX] = "";

    (void)ef__buf_printf(&call->target, "%c%s=", first ? '?' : '&', in->name);
    switch (in->kind) {
    case EF__INPUT_TEXT:
        add_escaped(&call->target, *(const ef_str *)field);
        break;
    case EF__INPUT_BOOL:
        (void)ef__buf_add_text(&call->target, *(const bool *)field ? "true" : "false");
        break;
    case EF__INPUT_INT:
        (void)ef__buf_printf(&call->target, "%" PRId64, int_of(in, request));
        break;
    case EF__INPUT_TIME:
        ef_time_format(*(const int64_t *)field, time);
        add_escaped(&call->target, ef_str_from(time));
        break;
    case EF__INPUT_DURATION:
        call->wait_ms = duration_of(in, request);
        (void)ef__buf_printf(&call->target, "%" PRId64 "ms", call->wait_ms);
        break;
    }
}

static void write_member(const ef__input *in, const void *request, ef__json_writer *w)
{
    const void *field = field_of(in, request);

    ef__json_key(w, in->name);
    if (in->kind == EF__INPUT_BOOL)
        ef__json_bool(w, *(const bool *)field);
    else if (in->kind == EF__INPUT_INT)
        ef__json_int(w, int_of(in, request));
    else if (in->kind == EF__INPUT_TIME)
        ef__json_time(w, *(const int64_t *)field);
    else
        ef__json_str(w, *(const ef_str *)field);
}

/* "/v1/projections/{name}:pause" with the names of the request. */
static void write_path(const ef__operation *operation, const void *request, ef__buf *out)
{
    const ef__input *in = operation->inputs;

    for (const char *at = operation->pattern; *at; at++) {
        if (*at != '{') {
            (void)ef__buf_add_char(out, *at);
            continue;
        }
        while (in && in->name && in->place != EF__INPUT_PATH)
            in++;
        if (in && in->name)
            add_escaped(out, *(const ef_str *)field_of(in++, request));
        at = strchr(at, '}');
    }
}

static void write_query(const ef__operation *operation, const void *request, ef__client_call *call)
{
    bool first = true;

    for (const ef__input *in = operation->inputs; in && in->name; in++)
        if (in->place == EF__INPUT_QUERY && in->size > 0 && is_sent(in, request)) {
            write_parameter(in, request, first, call);
            first = false;
        }
}

static void write_body(const ef__operation *operation, const void *request, ef__client_call *call)
{
    ef__json_writer w = ef__client_call_writer(call);
    bool opened = false;

    for (const ef__input *in = operation->inputs; in && in->name; in++) {
        if (in->place == EF__INPUT_CONTENT) {
            call->type = in->name;
            (void)ef__buf_add_str(&call->body, *(const ef_str *)field_of(in, request));
        }
        if (in->place != EF__INPUT_MEMBER)
            continue;
        if (!opened)
            ef__json_open(&w, '{');
        opened = true;
        if (in->size > 0 && is_sent(in, request))
            write_member(in, request, &w);
    }
    if (opened)
        ef__json_close(&w, '}');
}

static ef_str tenant_of(const ef__operation *operation, const void *request)
{
    ef_str tenant = {"", 0};

    for (const ef__input *in = operation->inputs; in && in->name; in++) {
        if (in->place == EF__INPUT_TENANT)
            tenant = *(const ef_str *)field_of(in, request);
        if (in->place == EF__INPUT_ANY_TENANT && *(const bool *)field_of(in, request))
            return EF_STR("");
    }
    return tenant;
}

void ef__operation_write(const ef__operation *operation, const void *request, ef__client_call *call)
{
    call->method = operation->method;
    call->wait_ms = operation->flags & EF__ROUTE_LONG ? EF__CALL_LONG_MS : 0;
    write_path(operation, request, &call->target);
    write_query(operation, request, call);
    write_body(operation, request, call);
    call->tenant = tenant_of(operation, request);
}

/* --- the response ----------------------------------------------------------------------------- */

ef_status ef__client_call_json(ef_client *client, ef__client_call *call, ef__arena *arena,
                               const ef__json **out, ef_error *err)
{
    ef__json *json = NULL;
    ef_error bad = EF_ERROR_INIT;
    ef_str text;
    ef_status st = ef__client_call_run(client, call, err);

    *out = NULL;
    if (st != EF_OK)
        return st;
    text = ef__arena_copy(arena, ef__buf_str(&call->response));
    if (!text.ptr)
        return ef__no_memory(err);
    if (ef__json_parse_envelope(text, EF__CALL_RESPONSE_MAX, arena, &json, &bad) != EF_OK)
        return ef_fail(err, EF_IO, "invalid response from the server: %s", bad.text);
    *out = json;
    return EF_OK;
}

ef_status ef__items_read(const ef__json *array, const ef__shape *shape, const ef__shape *more,
                         ef__arena *arena, const void **out_items, size_t *out_count, ef_error *err)
{
    const ef__json *item = array ? array->first : NULL;
    size_t count = array ? array->count : 0;
    char *items, *to;
    ef_error bad = EF_ERROR_INIT;
    ef_status st = EF_OK;

    *out_items = NULL;
    *out_count = 0;
    if (array && array->kind != EF__JSON_ARRAY)
        return ef_fail(err, EF_IO, "invalid response from the server: not an array");
    items = to = ef__arena_zalloc(arena, count + 1, shape->size);
    if (!items)
        return ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < count; i++, item = item->next, to += shape->size) {
        st = ef__shape_read(item, shape, to, &bad);
        if (st == EF_OK && more)
            st = ef__shape_read_more(item, more, to, &bad);
    }
    if (st != EF_OK)
        return ef_fail(err, EF_IO, "invalid response from the server: %s", bad.text);
    *out_items = items;
    *out_count = count;
    return EF_OK;
}

static ef_status read_items(const ef__operation *operation, ef__arena *arena, ef__reply *reply,
                            ef_error *err)
{
    const ef__json *array = reply->json;
    ef__json one = {.kind = EF__JSON_ARRAY, .count = 1};

    if (operation->member && operation->member[0]) {
        array = ef__json_get(reply->json, operation->member);
    } else if (operation->member) {
        one.first = (ef__json *)reply->json;
        array = &one;
    }
    return ef__items_read(array, operation->shape, operation->more, arena, &reply->items,
                          &reply->count, err);
}

ef_status ef__operation_call(ef_client *client, const ef__operation *operation, const void *request,
                             struct ef__batch_memory **room, ef__reply *out, ef_error *err)
{
    EF__AUTO(ef__client_call) call = EF__CLIENT_CALL;
    ef_status st = ef__memory_prepare(room, err);

    out->json = NULL;
    out->items = NULL;
    out->count = 0;
    ef__operation_write(operation, request, &call);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &(*room)->arena, &out->json, err);
    if (st == EF_OK && operation->shape)
        st = read_items(operation, &(*room)->arena, out, err);
    out->next = call.next;
    out->more = call.more;
    return st;
}

ef_status ef__operation_act(ef_client *client, const ef__operation *operation, const void *request,
                            ef_error *err)
{
    EF__AUTO(ef__client_call) call = EF__CLIENT_CALL;

    ef__operation_write(operation, request, &call);
    return ef__client_call_run(client, &call, err);
}

ef_status ef__operation_number(ef_client *client, const ef__operation *operation,
                               const void *request, const char *key, int64_t *out, ef_error *err)
{
    EF__AUTO(ef__reply) reply = {.room = NULL};
    int64_t number = 0;
    ef_status st = ef__operation_call(client, operation, request, &reply.room, &reply, err);
    const ef__json *found = st == EF_OK ? ef__json_get(reply.json, key) : NULL;

    if (st == EF_OK && (!found || ef__json_int64(found, &number) != 0))
        st = ef_fail(err, EF_IO, "invalid response from the server: %s is missing", key);
    if (out)
        *out = number;
    return st;
}

int64_t ef__reply_int(const ef__json *json, const char *key)
{
    const ef__json *found = ef__json_get(json, key);
    int64_t number = 0;

    return found && ef__json_int64(found, &number) == 0 ? number : 0;
}

ef_str ef__reply_text(const ef__json *json, const char *key)
{
    const ef__json *found = ef__json_get(json, key);

    return found && found->kind == EF__JSON_STRING ? found->text : EF_STR("");
}

ef_status ef__operation_runs(ef_client *client, const ef__operation *operation, const void *request,
                             ef_run_list *out, ef_error *err)
{
    ef_status st = EF__OPERATION_ITEMS(client, operation, request, out, err);
    ef_run *runs = (ef_run *)out->items; /* in the memory of the list */

    for (size_t i = 0; st == EF_OK && i < out->count; i++)
        if (ef_str_equal(runs[i].detail, EF_STR("{}")))
            runs[i].detail = EF_STR("");
    return st;
}

ef_status ef__operation_rows(ef_client *client, const ef__operation *operation, const void *request,
                             ef_row_list *out, ef_error *err)
{
    out->next[0] = '\0';
    return EF__OPERATION_ITEMS(client, operation, request, out, err);
}
