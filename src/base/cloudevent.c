/*
 * cloudevent.c - see cloudevent.h.
 */
#include "cloudevent.h"

#include "limits.h"

#include <inttypes.h>
#include <stdio.h>

#define META_ARENA (16u * EF_LIMIT_META_BYTES) /* a tree takes some times its text */

bool ef__cloudevent_is_name(ef_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!((name.ptr[i] >= 'a' && name.ptr[i] <= 'z') ||
              (name.ptr[i] >= '0' && name.ptr[i] <= '9')))
            return false;
    return name.len > 0 && name.len <= 64;
}

static bool is(ef_str text, const char *word)
{
    return ef_str_equal(text, ef_str_from(word));
}

/* What we write ourselves: a member of meta by such a name would be there twice. */
static bool is_ours(ef_str name, bool published)
{
    static const char *const names[] = {"specversion", "id",   "type",
                                        "subject",     "time", "recordedtime",
                                        "sequence",    "data", "datacontenttype",
                                        "data_base64", NULL};

    for (const char *const *n = names; *n; n++)
        if (is(name, *n))
            return true;
    return published &&
           (is(name, "tenant") || is(name, "streamsequence") || is(name, "partitionkey"));
}

static void write_value(ef__json_writer *w, const ef__json *value)
{
    if (value->kind == EF__JSON_STRING)
        ef__json_str(w, value->text);
    else if (value->kind == EF__JSON_NUMBER)
        ef__json_raw(w, value->text);
    else
        ef__json_bool(w, value->kind == EF__JSON_TRUE);
}

/* Members of meta that may be attributes; the others have no place in a CloudEvent. */
static void write_meta(ef__json_writer *w, const ef_event *event, bool published, bool *out_source)
{
    ef__arena arena = EF__ARENA_INIT(META_ARENA);
    ef__json *meta = NULL;

    if (event->meta.len <= 2 || /* {} */
        ef__json_parse(event->meta, EF_LIMIT_META_BYTES, &arena, &meta, NULL) != EF_OK)
        meta = NULL;
    for (const ef__json *m = meta ? meta->first : NULL; m; m = m->next) {
        char key[65];
        if (!ef__cloudevent_is_name(m->key) || is_ours(m->key, published) ||
            m->kind == EF__JSON_NULL || m->kind == EF__JSON_ARRAY || m->kind == EF__JSON_OBJECT)
            continue;
        (void)snprintf(key, sizeof(key), "%.*s", EF_STR_ARG(m->key));
        *out_source = *out_source || is(m->key, "source");
        ef__json_key(w, key);
        write_value(w, m);
    }
    ef__arena_release(&arena);
}

static void write_place(ef__json_writer *w, const ef_event *event, ef_str key)
{
    if (event->tenant.len) {
        ef__json_key(w, "tenant");
        ef__json_str(w, event->tenant);
    }
    ef__json_key(w, "streamsequence");
    ef__json_int(w, event->seq);
    ef__json_key(w, "partitionkey");
    ef__json_str(w, key);
}

void ef__cloudevent_write(ef__json_writer *w, const ef_event *event, const ef_str *key)
{
    char sequence[24];
    bool source = false;

    (void)snprintf(sequence, sizeof(sequence), "%020" PRId64, event->position);
    ef__json_open(w, '{');
    ef__json_key(w, "specversion");
    ef__json_str(w, EF_STR("1.0"));
    ef__json_key(w, "id");
    ef__json_str(w, event->id);
    ef__json_key(w, "type");
    ef__json_str(w, event->type);
    ef__json_key(w, "subject");
    ef__json_str(w, event->stream);
    ef__json_key(w, "time");
    ef__json_time(w, event->time_us);
    ef__json_key(w, "recordedtime");
    ef__json_time(w, event->recorded_us);
    ef__json_key(w, "sequence");
    ef__json_str(w, ef_str_from(sequence));
    if (key)
        write_place(w, event, *key);
    write_meta(w, event, key != NULL, &source);
    if (!source) {
        ef__json_key(w, "source");
        ef__json_str(w, EF_STR("/everfold"));
    }
    ef__json_key(w, "datacontenttype");
    ef__json_str(w, EF_STR("application/json"));
    ef__json_key(w, "data");
    ef__json_raw(w, event->data);
    ef__json_close(w, '}');
}

ef_str ef__meta_text(ef_str meta, const char *name, ef__arena *arena)
{
    ef__json *tree = NULL;
    const ef__json *value;

    if (meta.len <= 2 || ef__json_parse(meta, EF_LIMIT_META_BYTES, arena, &tree, NULL) != EF_OK)
        return EF_STR("");
    value = ef__json_get(tree, name);
    return value && value->kind == EF__JSON_STRING ? value->text : EF_STR("");
}
