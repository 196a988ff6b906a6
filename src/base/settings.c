/*
 * settings.c - a table of settings, and the origin of each value.
 *
 * A value is checked when it is set, so that reading one cannot fail. A value of lower rank than
 * the present one is checked too and then ignored: the order of loading does not matter, and a
 * mistake in a file is found even while a flag hides it.
 */
#include "settings.h"

#include "buf.h"
#include "limits.h"
#include "same.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    KEY_MAX = 128,    /* bytes: no key in a table is longer */
    WHERE_MAX = 4352, /* bytes: a path, a colon and a line number */
    /* Texts of a file are smaller than the file; the environment is additional. */
    KEPT_BYTES_MAX = 4 * EF_LIMIT_SETTINGS_BYTES
};

#define ENVIRONMENT_PREFIX "EVERFOLD_"

/* Variables of ours that are not settings: the path of the settings, the token, and those that only
 * tests read. A star stands for any ending. */
static const char *const environment_allowed[] = {"EVERFOLD_CONFIG", "EVERFOLD_TOKEN",
                                                  "EVERFOLD_TEST_*"};

typedef struct setting_slot {
    ef_str value;
    int64_t number; /* of all types but TEXT and CHOICE */
    ef__setting_origin origin;
    ef_str where;
    ef_str file_where; /* where a file set it, even when a value of higher rank hides it */
} setting_slot;

struct ef__settings {
    const ef__setting_spec *specs;
    size_t count;
    setting_slot *slots; /* one per spec */
    ef__arena arena;     /* values and origins */
};

static setting_slot *find_slot(const ef__settings *settings, ef_str key)
{
    for (size_t i = 0; i < settings->count; i++)
        if (ef_str_equal(ef_str_from(settings->specs[i].key), key))
            return &settings->slots[i];
    return NULL;
}

static const ef__setting_spec *get_spec(const ef__settings *settings, const setting_slot *slot)
{
    return &settings->specs[slot - settings->slots];
}

static ef_status set_value(ef__settings *settings, setting_slot *slot, ef__setting_origin origin,
                           const char *where, ef_str value, ef_error *err)
{
    int64_t number;
    ef_status st = ef__setting_check(get_spec(settings, slot), where, value, &number, err);

    if (st != EF_OK)
        return st;
    ef_str kept_where = ef__arena_copy(&settings->arena, ef_str_from(where));
    ef_str kept_value = ef__arena_copy(&settings->arena, value);
    if (!kept_where.ptr || !kept_value.ptr)
        return ef_fail(err, EF_NO_MEMORY, "%s: memory ran out for settings", where);
    if (origin == EF__ORIGIN_FILE)
        slot->file_where = kept_where;
    if (origin < slot->origin)
        return EF_OK;
    slot->value = kept_value;
    slot->number = number;
    slot->origin = origin;
    slot->where = kept_where;
    return EF_OK;
}

/* `words` are the candidates, or NULL when memory ran out: then there is no suggestion. `prefix` is
 * written before the suggestion. */
static ef_status refuse_name(const char *where, const char *what, ef_str name, const char *prefix,
                             const char *const *words, size_t count, ef_error *err)
{
    const char *near = words ? ef__suggest(name, words, count) : NULL;

    if (!near)
        return ef_fail(err, EF_BAD_INPUT, "%s: there is no %s", where, what);
    return ef_fail(err, EF_BAD_INPUT, "%s: there is no %s; did you mean \"%s%s\"?", where, what,
                   prefix, near);
}

static ef_status refuse_key(const ef__settings *settings, const char *where, ef_str key,
                            ef_error *err)
{
    const char **keys = calloc(settings->count + 1, sizeof(*keys));
    char what[KEY_MAX + 32];

    for (size_t i = 0; keys && i < settings->count; i++)
        keys[i] = settings->specs[i].key;
    (void)snprintf(what, sizeof(what), "setting \"%.*s\"",
                   (int)(key.len < KEY_MAX ? key.len : KEY_MAX), key.ptr);
    ef_status st = refuse_name(where, what, key, "", keys, settings->count, err);
    free(keys);
    return st;
}

/* The variable of a setting, without the common prefix; "" when it does not have the prefix. */
static void format_variable(const ef__setting_spec *spec, char out[KEY_MAX])
{
    size_t prefix_len = strlen(ENVIRONMENT_PREFIX);
    size_t len = 0;

    if (spec->environment) {
        bool ours = strncmp(spec->environment, ENVIRONMENT_PREFIX, prefix_len) == 0;
        (void)snprintf(out, KEY_MAX, "%s", ours ? spec->environment + prefix_len : "");
        return;
    }
    for (const char *c = spec->key; *c && len < KEY_MAX - 1; c++)
        out[len++] = *c == '.' || *c == '-'   ? '_'
                     : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A')
                                              : *c;
    out[len] = '\0';
}

static ef_status refuse_variable(const ef__settings *settings, const char *variable, ef_str name,
                                 ef_error *err)
{
    char(*names)[KEY_MAX] = calloc(settings->count + 1, sizeof(*names));
    const char **words = calloc(settings->count + 1, sizeof(*words));

    for (size_t i = 0; names && words && i < settings->count; i++) {
        format_variable(&settings->specs[i], names[i]);
        words[i] = names[i];
    }
    ef_status st = refuse_name(variable, "setting of that name", name, ENVIRONMENT_PREFIX,
                               names ? words : NULL, settings->count, err);
    free(words);
    free(names);
    return st;
}

ef_status ef__settings_open(const ef__setting_spec *specs, size_t count, ef__settings **out,
                            ef_error *err)
{
    ef__settings *settings = calloc(1, sizeof(*settings));
    ef_status st = EF_OK;

    *out = NULL;
    if (settings)
        settings->slots = calloc(count + 1, sizeof(*settings->slots));
    if (!settings || !settings->slots) {
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for settings");
        goto fail;
    }
    settings->specs = specs;
    settings->count = count;
    settings->arena = (ef__arena)EF__ARENA_INIT(KEPT_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        ef_str text = ef_str_from(specs[i].default_text);
        st = set_value(settings, &settings->slots[i], EF__ORIGIN_DEFAULT, "default", text, err);
        if (st != EF_OK)
            goto fail;
        settings->slots[i].where = EF_STR("");
    }
    *out = settings;
    return EF_OK;
fail:
    ef__settings_close(settings);
    return st;
}

void ef__settings_close(ef__settings *settings)
{
    if (!settings)
        return;
    ef__arena_release(&settings->arena);
    free(settings->slots);
    free(settings);
}

ef_status ef__settings_set_flag(ef__settings *settings, const char *key, const char *value,
                                ef_error *err)
{
    return ef__settings_set_option(settings, key, key, value, err);
}

ef_status ef__settings_set_option(ef__settings *settings, const char *option, const char *key,
                                  const char *value, ef_error *err)
{
    char where[KEY_MAX + 3];
    ef_str name = ef_str_from(key);
    setting_slot *slot = find_slot(settings, name);

    (void)snprintf(where, sizeof(where), "--%.*s", KEY_MAX, option);
    if (!slot)
        return refuse_key(settings, where, name, err);
    return set_value(settings, slot, EF__ORIGIN_FLAG, where, ef_str_from(value), err);
}

static bool variable_is_allowed(const char *variable)
{
    for (size_t i = 0; i < sizeof(environment_allowed) / sizeof(environment_allowed[0]); i++) {
        const char *allowed = environment_allowed[i];
        size_t len = strcspn(allowed, "*");
        if (strncmp(variable, allowed, len) == 0 && (allowed[len] == '*' || !variable[len]))
            return true;
    }
    return false;
}

/* `entry` is NAME=value and starts with the prefix. */
static ef_status load_variable(ef__settings *settings, const char *entry, const char *equals,
                               ef_error *err)
{
    char wanted[KEY_MAX];
    char variable[2 * KEY_MAX];
    ef_str name = {entry + strlen(ENVIRONMENT_PREFIX),
                   (size_t)(equals - entry) - strlen(ENVIRONMENT_PREFIX)};

    (void)snprintf(variable, sizeof(variable), "%.*s", (int)(equals - entry), entry);
    for (size_t i = 0; i < settings->count; i++) {
        format_variable(&settings->specs[i], wanted);
        if (wanted[0] && ef_str_equal(ef_str_from(wanted), name))
            return set_value(settings, &settings->slots[i], EF__ORIGIN_ENVIRONMENT, variable,
                             ef_str_from(equals + 1), err);
    }
    if (variable_is_allowed(variable))
        return EF_OK;
    return refuse_variable(settings, variable, name, err);
}

ef_status ef__settings_load_environment(ef__settings *settings, char *const *environment,
                                        ef_error *err)
{
    for (; environment && *environment; environment++) {
        const char *equals = strchr(*environment, '=');

        if (!equals || strncmp(*environment, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0)
            continue;
        ef_status st = load_variable(settings, *environment, equals, err);
        if (st != EF_OK)
            return st;
    }
    return EF_OK;
}

/* The current line of a file. */
typedef struct file_line {
    char where[WHERE_MAX]; /* "everfold.conf:12" */
    ef_str section;        /* "" before the first section */
} file_line;

static bool is_name(ef_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '.' && c != '_' && c != '-')
            return false;
    }
    return text.len > 0;
}

static bool is_end(ef_str text)
{
    text = ef__str_trim(text);
    return text.len == 0 || text.ptr[0] == '#';
}

/* A value without quotes ends before a # at its start or after white space. */
static ef_str bare_value(ef_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '#' && (i == 0 || ef__is_space(text.ptr[i - 1])))
            return ef__str_trim((ef_str){text.ptr, i});
    return text;
}

static bool is_escapable(char c)
{
    return c == '"' || c == '\\';
}

/* `text` starts with a quote. In quotes a backslash precedes a quote or another backslash. */
static ef_status read_quoted(ef__settings *settings, const file_line *line, ef_str text,
                             ef_str *out, ef_error *err)
{
    char *value = ef__arena_alloc(&settings->arena, text.len);
    size_t len = 0;
    size_t i = 1;

    if (!value)
        return ef_fail(err, EF_NO_MEMORY, "%s: memory ran out for settings", line->where);
    for (; i < text.len && text.ptr[i] != '"'; i++) {
        if (text.ptr[i] == '\\' && (++i == text.len || !is_escapable(text.ptr[i])))
            return ef_fail(err, EF_BAD_INPUT, "%s: in quotes a backslash must precede \" or \\",
                           line->where);
        value[len++] = text.ptr[i];
    }
    if (i == text.len)
        return ef_fail(err, EF_BAD_INPUT, "%s: the closing quote is missing", line->where);
    if (!is_end((ef_str){text.ptr + i + 1, text.len - i - 1}))
        return ef_fail(err, EF_BAD_INPUT, "%s: there is text after the closing quote", line->where);
    *out = (ef_str){value, len};
    return EF_OK;
}

static ef_status read_setting(ef__settings *settings, const file_line *line, ef_str text,
                              const char *equals, ef_error *err)
{
    char key[2 * KEY_MAX];
    ef_str name = ef__str_trim((ef_str){text.ptr, (size_t)(equals - text.ptr)});
    ef_str value = ef__str_trim((ef_str){equals + 1, text.len - (size_t)(equals + 1 - text.ptr)});

    if (!is_name(name))
        return ef_fail(err, EF_BAD_INPUT, "%s: \"%.*s\" is not a valid name of a setting",
                       line->where, EF_STR_ARG(name));
    (void)snprintf(key, sizeof(key), "%.*s%s%.*s", EF_STR_ARG(line->section),
                   line->section.len ? "." : "", EF_STR_ARG(name));
    setting_slot *slot = find_slot(settings, ef_str_from(key));
    if (!slot)
        return refuse_key(settings, line->where, ef_str_from(key), err);
    if (slot->file_where.ptr)
        return ef_fail(err, EF_BAD_INPUT, "%s: %s is set already, at %.*s", line->where, key,
                       EF_STR_ARG(slot->file_where));
    if (value.len > 0 && value.ptr[0] == '"') {
        ef_status st = read_quoted(settings, line, value, &value, err);
        if (st != EF_OK)
            return st;
    } else {
        value = bare_value(value);
    }
    return set_value(settings, slot, EF__ORIGIN_FILE, line->where, value, err);
}

static ef_status read_section(file_line *line, ef_str text, ef_error *err)
{
    const char *bracket = memchr(text.ptr, ']', text.len);
    size_t len = bracket ? (size_t)(bracket - text.ptr) : text.len;
    ef_str name = ef__str_trim((ef_str){text.ptr + 1, len - 1});

    if (!bracket || !is_name(name) || !is_end((ef_str){bracket + 1, text.len - len - 1}))
        return ef_fail(err, EF_BAD_INPUT, "%s: a section is written [name]", line->where);
    line->section = name;
    return EF_OK;
}

static ef_status read_line(ef__settings *settings, file_line *line, ef_str text, ef_error *err)
{
    text = ef__str_trim(text);
    if (is_end(text))
        return EF_OK;
    if (text.ptr[0] == '[')
        return read_section(line, text, err);
    const char *equals = memchr(text.ptr, '=', text.len);
    if (!equals)
        return ef_fail(err, EF_BAD_INPUT, "%s: a setting is written key = value", line->where);
    return read_setting(settings, line, text, equals, err);
}

ef_status ef__settings_load_text(ef__settings *settings, const char *name, ef_str text,
                                 ef_error *err)
{
    file_line line = {.section = EF_STR("")};

    if (text.len > EF_LIMIT_SETTINGS_BYTES)
        return ef_fail_numbers(err, EF_TOO_LARGE, (int64_t)text.len, EF_LIMIT_SETTINGS_BYTES,
                               "%s: the settings have more than %d bytes", name,
                               EF_LIMIT_SETTINGS_BYTES);
    ef_str words;
    for (size_t number = 1; ef__line_next(&text, &words); number++) {
        (void)snprintf(line.where, sizeof(line.where), "%s:%zu", name, number);
        ef_status st = read_line(settings, &line, words, err);
        if (st != EF_OK)
            return st;
    }
    return EF_OK;
}

/* Reads all of the file; of a longer one, one byte more than allowed. */
static ef_status read_file(int fd, const char *path, ef__buf *out, ef_error *err)
{
    for (;;) {
        if (!ef__buf_reserve(out, out->max_bytes - out->len))
            return ef_fail(err, EF_NO_MEMORY, "%s: memory ran out for settings", path);
        ssize_t got = read(fd, out->ptr + out->len, out->max_bytes - out->len);
        if (got == 0)
            return EF_OK;
        if (got > 0)
            out->len += (size_t)got;
        else if (errno != EINTR)
            return ef_fail(err, EF_IO, "%s: cannot be read: %m", path);
    }
}

ef_status ef__settings_load_file(ef__settings *settings, const char *path, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_SETTINGS_BYTES + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT)
        return ef_fail(err, EF_NOT_FOUND, "%s: there is no such file", path);
    if (fd < 0)
        return ef_fail(err, EF_IO, "%s: cannot be opened: %m", path);
    ef_status st = read_file(fd, path, &text, err);
    if (st == EF_OK)
        st = ef__settings_load_text(settings, path, ef__buf_str(&text), err);
    ef__buf_release(&text);
    (void)close(fd);
    return st;
}

static const setting_slot *known_slot(const ef__settings *settings, const char *key)
{
    const setting_slot *slot = find_slot(settings, ef_str_from(key));

    assert(slot && "the key is in the table");
    return slot;
}

ef_str ef__settings_text(const ef__settings *settings, const char *key)
{
    return known_slot(settings, key)->value;
}

bool ef__settings_bool(const ef__settings *settings, const char *key)
{
    const setting_slot *slot = known_slot(settings, key);

    assert(get_spec(settings, slot)->type == EF__SETTING_BOOL);
    return slot->number != 0;
}

int64_t ef__settings_int(const ef__settings *settings, const char *key)
{
    const setting_slot *slot = known_slot(settings, key);
    ef__setting_type type = get_spec(settings, slot)->type;

    assert(type == EF__SETTING_INT || type == EF__SETTING_DURATION || type == EF__SETTING_BYTES);
    (void)type;
    return slot->number;
}

size_t ef__settings_count(const ef__settings *settings)
{
    return settings->count;
}

static ef__setting_view view_slot(const ef__settings *settings, const setting_slot *slot)
{
    return (ef__setting_view){get_spec(settings, slot), slot->value, slot->origin, slot->where};
}

ef__setting_view ef__settings_at(const ef__settings *settings, size_t index)
{
    assert(index < settings->count);
    return view_slot(settings, &settings->slots[index]);
}

ef__setting_view ef__settings_get(const ef__settings *settings, const char *key)
{
    return view_slot(settings, known_slot(settings, key));
}

const char *ef__setting_origin_name(ef__setting_origin origin)
{
    static const char *const names[] = {"default", "file", "environment", "flag"};

    assert((unsigned)origin <= EF__ORIGIN_FLAG);
    return names[origin];
}
