/*
 * settings_value.c - parses and checks the value of a setting; suggests a known word for a mistyped
 * one.
 */
#include "settings.h"

#include "same.h"
#include "utf8.h"

#include <inttypes.h>

typedef struct unit {
    const char *suffix;
    int64_t factor;
} unit;

static const unit no_units[] = {{"", 1}, {NULL, 0}};
static const unit duration_units[] = {{"", 1},        {"ms", 1},       {"s", 1000}, {"m", 60000},
                                      {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
static const unit byte_units[] = {{"", 1},        {"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20},
                                  {"M", 1 << 20}, {"g", 1 << 30}, {"G", 1 << 30}, {NULL, 0}};

static const struct {
    const unit *units;
    const char *needed;
    const char *unit_name;
} number_forms[] = {
    [EF__SETTING_INT] = {no_units, "a whole number is needed", ""},
    [EF__SETTING_DURATION] = {duration_units, "a duration like 250ms, 10s, 5m, 2h or 1d is needed",
                              " ms"},
    [EF__SETTING_BYTES] = {byte_units, "a size like 65536, 64k, 16m or 1g is needed", " bytes"},
};

static const unit *unit_named(const unit *units, ef_str suffix)
{
    for (; units->suffix; units++)
        if (ef_str_equal(ef_str_from(units->suffix), suffix))
            return units;
    return NULL;
}

/* Digits and a unit; a minus is allowed where there are no units. *out_form is false for text that
 * is not a number at all; the result is false too when it does not fit into 64 bits. */
static bool read_number(ef_str text, const unit *units, int64_t *out, bool *out_form)
{
    bool minus = units == no_units && text.len > 0 && text.ptr[0] == '-';
    size_t first = minus ? 1 : 0;
    size_t i = first;
    bool fits = true;
    int64_t value = 0;

    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        int digit = minus ? '0' - text.ptr[i] : text.ptr[i] - '0';
        fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, digit, &value);
    }
    const unit *found = i > first ? unit_named(units, (ef_str){text.ptr + i, text.len - i}) : NULL;
    *out_form = found != NULL;
    return found && fits && !__builtin_mul_overflow(value, found->factor, out);
}

static ef_status check_number(const ef__setting_spec *spec, const char *where, ef_str text,
                              int64_t *out, ef_error *err)
{
    bool form;
    bool fits = read_number(text, number_forms[spec->type].units, out, &form);
    bool bounded = spec->min != 0 || spec->max != 0;
    const char *unit_name = number_forms[spec->type].unit_name;

    if (!form)
        return ef_fail(err, EF_BAD_INPUT, "%s: %s is \"%.*s\"; %s", where, spec->key,
                       EF_STR_ARG(text), number_forms[spec->type].needed);
    if (!fits && !bounded)
        return ef_fail(err, EF_BAD_INPUT, "%s: %s is %.*s, which is too large", where, spec->key,
                       EF_STR_ARG(text));
    if (!fits || (bounded && (*out < spec->min || *out > spec->max)))
        return ef_fail(err, EF_BAD_INPUT,
                       "%s: %s is %.*s; %" PRId64 "%s to %" PRId64 "%s is allowed", where,
                       spec->key, EF_STR_ARG(text), spec->min, unit_name, spec->max, unit_name);
    return EF_OK;
}

static ef_status check_bool(const ef__setting_spec *spec, const char *where, ef_str text,
                            int64_t *out, ef_error *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (ef_str_equal(ef_str_from(words[i]), text)) {
            *out = i % 2;
            return EF_OK;
        }
    }
    return ef_fail(err, EF_BAD_INPUT,
                   "%s: %s is \"%.*s\"; true, false, yes, no, on, off, 1 or 0 is needed", where,
                   spec->key, EF_STR_ARG(text));
}

static ef_status check_choice(const ef__setting_spec *spec, const char *where, ef_str text,
                              ef_error *err)
{
    ef_str choices = ef_str_from(spec->choices);

    while (choices.len)
        if (ef_str_equal(ef__str_split(&choices, ','), text))
            return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "%s: %s is \"%.*s\"; one of %s is needed", where, spec->key,
                   EF_STR_ARG(text), spec->choices ? spec->choices : "");
}

/* The value is not repeated: it may be a secret, and is not printable. */
static ef_status check_characters(const ef__setting_spec *spec, const char *where, ef_str text,
                                  ef_error *err)
{
    while (text.len > 0) {
        uint32_t code;
        size_t bytes = ef__character(text, &code);
        if (!bytes || !ef__character_is_shown(code))
            return ef_fail(err, EF_BAD_INPUT,
                           "%s: the value of %s has a control character or is not UTF-8", where,
                           spec->key);
        text.ptr += bytes;
        text.len -= bytes;
    }
    return EF_OK;
}

ef_status ef__setting_check(const ef__setting_spec *spec, const char *where, ef_str text,
                            int64_t *out_number, ef_error *err)
{
    ef_status st = check_characters(spec, where, text, err);

    *out_number = 0;
    if (st != EF_OK)
        return st;
    switch (spec->type) {
    case EF__SETTING_TEXT:
        return EF_OK;
    case EF__SETTING_BOOL:
        return check_bool(spec, where, text, out_number, err);
    case EF__SETTING_CHOICE:
        return check_choice(spec, where, text, err);
    case EF__SETTING_INT:
    case EF__SETTING_DURATION:
    case EF__SETTING_BYTES:
        return check_number(spec, where, text, out_number, err);
    }
    return ef_fail(err, EF_MISUSE, "%s: %s has no known type", where, spec->key);
}

/* --- suggestions ------------------------------------------------------------------------------ */

enum { WORD_BYTES_MAX = 64 }; /* longer words are not compared: all known words are shorter */

static char small_letter(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The smallest number of single changes between two words: a letter inserted, deleted or replaced,
 * or two neighbours swapped. Case is ignored. Row by row: rows[i % 3][j] is the distance of the
 * first i letters of a and the first j of b. */
static size_t edit_distance(ef_str a, ef_str b)
{
    size_t rows[3][WORD_BYTES_MAX + 1];

    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3];
        const size_t *two_above = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            char x = small_letter(a.ptr[i - 1]);
            char y = small_letter(b.ptr[j - 1]);
            size_t d = smaller_of(above[j - 1] + (x != y), smaller_of(above[j], row[j - 1]) + 1);

            if (i > 1 && j > 1 && x == small_letter(b.ptr[j - 2]) &&
                y == small_letter(a.ptr[i - 2]))
                d = smaller_of(d, two_above[j - 2] + 1);
            row[j] = d;
        }
    }
    return rows[a.len % 3][b.len];
}

const char *ef__suggest(ef_str word, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    /* About a third of the letters may be wrong: beyond that a suggestion is arbitrary. */
    size_t nearest_distance = (word.len + 1) / 3 + 1;

    if (word.len > WORD_BYTES_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        ef_str candidate = ef_str_from(words[i]);
        if (candidate.len > WORD_BYTES_MAX)
            continue;
        size_t d = edit_distance(word, candidate);
        if (d < nearest_distance) {
            nearest = words[i];
            nearest_distance = d;
        }
    }
    return nearest;
}
