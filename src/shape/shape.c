/*
 * shape.c - writes and reads objects by their tables.
 */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SECONDS_MAX                                                                                \
    9e12 /* in microseconds it fits an int64_t; milliseconds are exact in a double */

static const void *field_at(const void *thing, const ef__field *field)
{
    return (const char *)thing + field->offset;
}

static void write_seconds(ef__json_writer *w, int64_t us)
{
    int64_t ms = us < 0 ? 0 : us / 1000;
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
    ef__json_raw(w, ef_str_from(text));
}

/* The store decides whether a lease expired: the local clock never shows a live one as expired. */
static void write_ttl(ef__json_writer *w, const void *thing, const ef__field *field)
{
    const ef_clock *clock = ef_clock_system();
    int64_t until_us = *(const int64_t *)field_at(thing, field);
    bool live = *(const bool *)((const char *)thing + field->live_offset);
    int64_t left = (until_us - clock->wall_us(clock->context)) / 1000;

    if (until_us == 0)
        ef__json_null(w);
    else
        ef__json_int(w, !live ? 0 : left > 0 ? left : 1);
}

const char *ef__field_word(const ef__field *field, size_t value)
{
    return field->words[0] ? field->words[value] : ef_name_of(field->names, (int)value);
}

static void write_label(ef__json_writer *w, int32_t number)
{
    char label[EF_PARTITION_LABEL_MAX];

    ef_partition_label(number, label);
    ef__json_str(w, ef_str_from(label));
}

static bool is_narrow(const ef__field *field)
{
    return field->kind == EF__FIELD_INT32 || field->kind == EF__FIELD_NUMBER;
}

static void write_number(ef__json_writer *w, const ef__field *field, const void *value)
{
    int64_t number = is_narrow(field) ? *(const int32_t *)value : *(const int64_t *)value;

    if (number < 0 && (field->kind == EF__FIELD_COUNT || field->kind == EF__FIELD_NUMBER))
        ef__json_null(w);
    else
        ef__json_int(w, number);
}

static void write_field(ef__json_writer *w, const ef__field *field, const void *thing)
{
    const void *value = field_at(thing, field);
    const ef_str *text = value;

    switch (field->kind) {
    case EF__FIELD_NAME:
        if (text->len == 0) {
            ef__json_null(w);
            break;
        }
        /* fall through */
    case EF__FIELD_STR:
        ef__json_str(w, *text);
        break;
    case EF__FIELD_JSON:
        ef__json_raw(w, text->len > 0 ? *text : EF_STR("{}"));
        break;
    case EF__FIELD_DATA:
        text->ptr ? ef__json_raw(w, *text) : ef__json_null(w);
        break;
    case EF__FIELD_INT32:
    case EF__FIELD_INT64:
    case EF__FIELD_COUNT:
    case EF__FIELD_NUMBER:
        write_number(w, field, value);
        break;
    case EF__FIELD_BOOL:
        ef__json_bool(w, *(const bool *)value);
        break;
    case EF__FIELD_TIME:
        ef__json_time(w, *(const int64_t *)value);
        break;
    case EF__FIELD_SECONDS:
        write_seconds(w, *(const int64_t *)value);
        break;
    case EF__FIELD_CHARS:
        ef__json_str(w, ef_str_from(value));
        break;
    case EF__FIELD_WORD:
        ef__json_str(w, ef_str_from(ef__field_word(field, *(const unsigned *)value)));
        break;
    case EF__FIELD_CHOICE:
        ef__json_str(w, ef_str_from(ef__field_word(field, *(const bool *)value)));
        break;
    case EF__FIELD_LABEL:
        write_label(w, *(const int32_t *)value);
        break;
    case EF__FIELD_TTL:
        write_ttl(w, thing, field);
        break;
    }
}

void ef__shape_members(ef__json_writer *w, const ef__shape *shape, const void *thing)
{
    for (const ef__field *field = shape->fields; field < shape->fields + shape->count; field++) {
        ef__json_key(w, field->key);
        write_field(w, field, thing);
    }
}

void ef__shape_write(ef__json_writer *w, const ef__shape *shape, const void *thing)
{
    ef__json_open(w, '{');
    ef__shape_members(w, shape, thing);
    ef__json_close(w, '}');
}

void ef__shape_write_array(ef__json_writer *w, const ef__shape *shape, const ef__shape *more,
                           const void *items, size_t count)
{
    ef__json_open(w, '[');
    for (size_t i = 0; i < count; i++) {
        const void *item = (const char *)items + i * shape->size;
        ef__json_open(w, '{');
        ef__shape_members(w, shape, item);
        if (more)
            ef__shape_members(w, more, item);
        ef__json_close(w, '}');
    }
    ef__json_close(w, ']');
}

/* --- reading ---------------------------------------------------------------------------------- */

/* What a value must be, for messages. */
static const char *const wanted[] = {
    [EF__FIELD_STR] = "a string",
    [EF__FIELD_NAME] = "a string",
    [EF__FIELD_DATA] = "an object",
    [EF__FIELD_INT32] = "an integer",
    [EF__FIELD_INT64] = "an integer",
    [EF__FIELD_COUNT] = "an integer",
    [EF__FIELD_NUMBER] = "an integer",
    [EF__FIELD_BOOL] = "true or false",
    [EF__FIELD_TIME] = "a time",
    [EF__FIELD_SECONDS] = "a number of seconds",
    [EF__FIELD_CHARS] = "a string that fits",
    [EF__FIELD_LABEL] = "the label of a partition",
};

static bool read_word(const ef__json *json, const ef__field *field, void *value)
{
    for (size_t i = 0; json->kind == EF__JSON_STRING && i < field->size; i++)
        if (ef_str_equal(json->text, ef_str_from(ef__field_word(field, i)))) {
            if (field->kind == EF__FIELD_CHOICE)
                *(bool *)value = i;
            else
                *(unsigned *)value = (unsigned)i;
            return true;
        }
    return false;
}

static bool read_number(const ef__json *json, const ef__field *field, void *value)
{
    int64_t number = 0;

    if (json->kind != EF__JSON_NUMBER || ef__json_int64(json, &number) != 0)
        return false;
    if (!is_narrow(field))
        *(int64_t *)value = number;
    else
        *(int32_t *)value = (int32_t)number;
    return !is_narrow(field) || (number >= INT32_MIN && number <= INT32_MAX);
}

static bool read_seconds(const ef__json *json, int64_t *value)
{
    char text[40];
    double seconds;

    if (json->kind != EF__JSON_NUMBER || json->text.len >= sizeof(text))
        return false;
    (void)snprintf(text, sizeof(text), "%.*s", EF_STR_ARG(json->text));
    seconds = strtod(text, NULL);
    if (!(seconds >= 0 && seconds < SECONDS_MAX))
        return false;
    *value = (int64_t)(seconds * 1000 + 0.5) * 1000;
    return true;
}

/* False: the value is not what is wanted. */
static bool read_value(const ef__json *json, const ef__field *field, void *value)
{
    bool is_string = json->kind == EF__JSON_STRING;

    switch (field->kind) {
    case EF__FIELD_STR:
    case EF__FIELD_NAME:
    case EF__FIELD_JSON:
    case EF__FIELD_DATA:
        *(ef_str *)value = json->text;
        return field->kind == EF__FIELD_JSON ||
               (field->kind == EF__FIELD_DATA ? json->kind == EF__JSON_OBJECT : is_string);
    case EF__FIELD_INT32:
    case EF__FIELD_INT64:
    case EF__FIELD_COUNT:
    case EF__FIELD_NUMBER:
        return read_number(json, field, value);
    case EF__FIELD_BOOL:
        *(bool *)value = json->kind == EF__JSON_TRUE;
        return json->kind == EF__JSON_TRUE || json->kind == EF__JSON_FALSE;
    case EF__FIELD_TIME:
        return is_string && ef_time_parse(json->text.ptr, json->text.len, value) == 0;
    case EF__FIELD_SECONDS:
        return read_seconds(json, value);
    case EF__FIELD_CHARS:
        (void)snprintf(value, field->size, "%.*s", EF_STR_ARG(json->text));
        return is_string && json->text.len < field->size;
    case EF__FIELD_WORD:
    case EF__FIELD_CHOICE:
        return read_word(json, field, value);
    case EF__FIELD_LABEL:
        return is_string && ef_partition_parse(json->text, value, NULL) == EF_OK;
    case EF__FIELD_TTL:
        break;
    }
    return true;
}

/* A missing or null value is 0; an unknown number is -1. */
static void read_null(const ef__field *field, void *value)
{
    if (field->kind == EF__FIELD_COUNT)
        *(int64_t *)value = -1;
    else if (field->kind == EF__FIELD_NUMBER)
        *(int32_t *)value = -1;
}

ef_status ef__shape_read_more(const ef__json *object, const ef__shape *shape, void *thing,
                              ef_error *err)
{
    if (!object || object->kind != EF__JSON_OBJECT)
        return ef_fail(err, EF_BAD_JSON, "an object was expected");
    for (const ef__field *field = shape->fields; field < shape->fields + shape->count; field++) {
        const ef__json *json = ef__json_get(object, field->key);
        void *value = (char *)thing + field->offset;
        if (!json || json->kind == EF__JSON_NULL)
            read_null(field, value);
        else if (!read_value(json, field, value))
            return field->kind == EF__FIELD_WORD || field->kind == EF__FIELD_CHOICE
                       ? ef_fail(err, EF_BAD_JSON, "%s has the unknown value '%.*s'", field->key,
                                 EF_STR_ARG(json->text))
                       : ef_fail(err, EF_BAD_JSON, "%s is not %s", field->key, wanted[field->kind]);
    }
    return EF_OK;
}

ef_status ef__shape_read(const ef__json *object, const ef__shape *shape, void *thing, ef_error *err)
{
    memset(thing, 0, shape->size);
    return ef__shape_read_more(object, shape, thing, err);
}

/* --- JSON of several objects ------------------------------------------------------------------ */

void ef__problem_write(ef__json_writer *w, const ef_error *err, const char *hint)
{
    const ef_status_info *is = ef_status_describe(err->status);
    char type[96];

    (void)snprintf(type, sizeof(type), "urn:everfold:problem:%s", is->code);
    ef__json_open(w, '{');
    ef__json_member_text(w, "type", type);
    ef__json_member_text(w, "title", is->message);
    ef__json_member_int(w, "status", is->http);
    ef__json_member_text(w, "code", is->code);
    ef__json_member_text(w, "detail", err->text[0] ? err->text : is->message);
    if (err->has_numbers) {
        ef__json_member_int(w, "asked", err->asked);
        ef__json_member_int(w, "found", err->found);
    }
    if (hint)
        ef__json_member_text(w, "hint", hint);
    ef__json_close(w, '}');
}

void ef__projection_write(ef__json_writer *w, const ef_projection *p)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_projection, p);
    ef__json_key(w, "scopes");
    ef__shape_write_array(w, &ef__shape_scope, NULL, p->scopes, p->scope_count);
    ef__json_close(w, '}');
}

void ef__view_write(ef__json_writer *w, const ef_view *view, int64_t as_of, int64_t blocked)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_view, view);
    ef__json_member_int(w, "as_of", as_of);
    if (blocked >= 0)
        ef__json_member_int(w, "blocked_streams", blocked);
    ef__json_close(w, '}');
}

void ef__view_page_write(ef__json_writer *w, const ef_view_query *query, const ef_view_list *found,
                         void (*after_each)(void *context), void *context)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "view_type", query->projection);
    ef__json_member_int(w, "version", found->version);
    if (query->count_only) {
        ef__json_member_int(w, "count", found->total);
    } else {
        ef__json_member_open(w, "items", '[');
        for (size_t i = 0; i < found->count; i++) {
            ef__view_write(w, &found->items[i], found->as_of, -1);
            if (after_each)
                after_each(context);
        }
        ef__json_close(w, ']');
        ef__json_member_name(w, "next", found->next);
    }
    ef__json_member_int(w, "as_of", found->as_of);
    if (query->freshness.current)
        ef__json_member_int(w, "blocked_streams", found->blocked_streams);
    if (query->explain) {
        ef__json_member_str(w, "plan", found->plan);
        ef__json_member_int(w, "looked", found->looked);
    }
    ef__json_close(w, '}');
}

void ef__replay_warning_write(ef__json_writer *w, ef_str projection, const ef_event *event,
                              ef_str message)
{
    ef__json_open(w, '{');
    ef__json_member_str(w, "projection", projection);
    ef__json_member_str(w, "tenant", event->tenant);
    ef__json_member_str(w, "stream", event->stream);
    ef__json_member_int(w, "seq", event->seq);
    ef__json_member_int(w, "position", event->position);
    ef__json_member_str(w, "message", message);
    ef__json_close(w, '}');
}

void ef__groups_write(ef__json_writer *w, const ef_row_groups *groups)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "mode", "outbox-groups");
    ef__json_member_int(w, "rows", groups->rows);
    ef__json_key(w, "groups");
    ef__shape_write_array(w, &ef__shape_row_group, NULL, groups->items, groups->count);
    ef__json_member_bool(w, "more", groups->more);
    ef__json_close(w, '}');
}

void ef__summary_write(ef__json_writer *w, const ef_outbox_summary *summary, bool all)
{
    ef__json_open(w, '{');
    ef__shape_members(w, &ef__shape_summary, summary);
    ef__json_key(w, "oldest");
    if (summary->oldest.count > 0) {
        ef__json_open(w, '{');
        ef__shape_members(w, &ef__shape_row, &summary->oldest.items[0]);
        if (all)
            ef__shape_members(w, &ef__shape_row_more, &summary->oldest.items[0]);
        ef__json_close(w, '}');
    } else {
        ef__json_null(w);
    }
    if (all)
        ef__shape_members(w, &ef__shape_summary_more, summary);
    ef__json_close(w, '}');
}

void ef__one_line(ef__buf *out, size_t start)
{
    for (size_t i = start; i < out->len; i++)
        if (out->ptr[i] == '\n' || out->ptr[i] == '\r')
            out->ptr[i] = ' ';
}
