/*
 * settings.h - settings, each with its origin.
 *
 * flag > environment (EVERFOLD_…) > file > default. One table names every setting with its type,
 * default and a line of help; a key that is not in it is an error that suggests the nearest one.
 * The file has lines `key = value`, `# comment`, and `[section]`, which prefixes the keys after it
 * with `section.`; values may be in double quotes, in which \" and \\ stand for " and \. A # after
 * white space ends a value without quotes. A key may be set once.
 */
#pragma once

#include "arena.h"

#include <everfold/status.h>

typedef enum ef__setting_type {
    EF__SETTING_TEXT,
    EF__SETTING_BOOL,     /* true false yes no on off 1 0 */
    EF__SETTING_INT,      /* min to max */
    EF__SETTING_DURATION, /* 250ms, 10s, 5m, 2h, 1d; kept in milliseconds; a bare number is ms */
    EF__SETTING_BYTES,    /* 64k, 16m, 1g; powers of 1024 */
    EF__SETTING_CHOICE    /* one of `choices`, comma separated */
} ef__setting_type;

typedef enum ef__setting_origin {
    EF__ORIGIN_DEFAULT,
    EF__ORIGIN_FILE,
    EF__ORIGIN_ENVIRONMENT,
    EF__ORIGIN_FLAG
} ef__setting_origin;

typedef struct ef__setting_spec {
    const char *key; /* "journal", "outbox.partitions" */
    ef__setting_type type;
    const char *default_text; /* as a user would write it */
    int64_t min, max;         /* INT, DURATION (ms), BYTES; both 0: any that fits */
    const char *choices;      /* CHOICE */
    const char *environment;  /* NULL: EVERFOLD_ and the key in capitals, dots as _ */
    const char *help;         /* one line */
} ef__setting_spec;

typedef struct ef__settings ef__settings;

/* `specs` is borrowed for the life of the settings. */
ef_status ef__settings_open(const ef__setting_spec *specs, size_t count, ef__settings **out,
                            ef_error *err);
void ef__settings_close(ef__settings *settings);

/* Reads the text of a file (`name` is for messages: NAME:LINE: …). Stops at the first mistake. */
ef_status ef__settings_load_text(ef__settings *settings, const char *name, ef_str text,
                                 ef_error *err);
/* EF_NOT_FOUND: there is no such file. */
ef_status ef__settings_load_file(ef__settings *settings, const char *path, ef_error *err);
/* `environment` is an environ-like array. Unknown EVERFOLD_ variables are refused with a
 * suggestion, except EVERFOLD_CONFIG and EVERFOLD_TEST_… */
ef_status ef__settings_load_environment(ef__settings *settings, char *const *environment,
                                        ef_error *err);
ef_status ef__settings_set_flag(ef__settings *settings, const char *key, const char *value,
                                ef_error *err);
/* The same through an option of another name: messages and `where` have --OPTION. */
ef_status ef__settings_set_option(ef__settings *settings, const char *option, const char *key,
                                  const char *value, ef_error *err);

/* The value, NUL-terminated; lives as long as the settings. The table has the key (assert). */
ef_str ef__settings_text(const ef__settings *settings, const char *key);
bool ef__settings_bool(const ef__settings *settings, const char *key);
int64_t ef__settings_int(const ef__settings *settings, const char *key); /* INT, DURATION, BYTES */

typedef struct ef__setting_view {
    const ef__setting_spec *spec;
    ef_str value; /* as it was written */
    ef__setting_origin origin;
    ef_str where; /* "everfold.conf:12", "EVERFOLD_DATA", "--data", "" for defaults */
} ef__setting_view;

size_t ef__settings_count(const ef__settings *settings);
ef__setting_view ef__settings_at(const ef__settings *settings, size_t index);
ef__setting_view ef__settings_get(const ef__settings *settings, const char *key);
const char *ef__setting_origin_name(ef__setting_origin origin); /* "environment" */

/* Checks a value and returns its number: 0 of a TEXT or CHOICE. A message starts with `where`. */
ef_status ef__setting_check(const ef__setting_spec *spec, const char *where, ef_str text,
                            int64_t *out_number, ef_error *err);

/* The nearest of `words` to a mistyped one, or NULL. Also for commands and options. */
const char *ef__suggest(ef_str word, const char *const *words, size_t count);
