/*
 * log.c - formats a record as one line; text in it cannot imitate another line or another field.
 *
 *     2026-11-16T09:30:00.000000Z warn checkpoint failed pages=12 error="disk full"
 *     {"time":"2026-11-16T09:30:00.000000Z","level":"warn","message":"checkpoint
 * failed","pages":12, "error":"disk full"}
 *
 * A line that would be too long ends early: inside a text, between two characters, or before a
 * field that does not fit. It then ends in " …", or in the member "cut":"…".
 */
#include <everfold/clock.h>
#include <everfold/log.h>

#include "utf8.h"

#include <inttypes.h>
#include <stdio.h>

#define CUT_TEXT " …"
#define CUT_JSON ",\"cut\":\"…\""

/* Reserved for the end of a line that is cut: a quote, the longer of the two endings, a brace, the
 * newline and a NUL. */
#define END_BYTES (1 + (sizeof(CUT_JSON) - 1) + 3)
#define FILL_MAX (EF_LOG_LINE_MAX - END_BYTES)

typedef struct line {
    ef_log_style style;
    char *out;
    size_t len;
    bool full; /* something did not fit: only the ending is added */
} line;

/* Adds all of `text`, or nothing; then the line is full. */
static bool add_text(line *l, ef_str text)
{
    if (l->full || text.len > FILL_MAX || l->len > FILL_MAX - text.len) {
        l->full = true;
        return false;
    }
    memcpy(l->out + l->len, text.ptr, text.len);
    l->len += text.len;
    return true;
}

/* Adds to the space that END_BYTES reserves. */
static void add_ending(line *l, ef_str text)
{
    memcpy(l->out + l->len, text.ptr, text.len);
    l->len += text.len;
}

/* The escape of a character that cannot be printed; `bytes` is 0 for an invalid byte. */
static ef_str escape_character(ef_log_style style, size_t bytes, uint32_t code, char out[8])
{
    int len;

    if (bytes && (code == '"' || code == '\\'))
        len = snprintf(out, 8, "\\%c", (char)code);
    else if (bytes && (code == '\n' || code == '\r' || code == '\t'))
        len = snprintf(out, 8, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (style == EF_LOG_JSON && (!bytes || code == 0))
        /* JSON cannot hold the byte, and many parsers, ours included, refuse a NUL. */
        len = snprintf(out, 8, "\\ufffd");
    else
        len = snprintf(out, 8, bytes ? "\\u%04x" : "\\x%02x", (unsigned)(code & 0xffff));
    return (ef_str){out, (size_t)len};
}

static void add_escaped(line *l, ef_str text)
{
    char escaped[8];

    while (text.len > 0 && !l->full) {
        uint32_t code = (unsigned char)text.ptr[0];
        size_t bytes = ef__character(text, &code);

        if (bytes && ef__character_is_shown(code) && code != '"' && code != '\\')
            (void)add_text(l, (ef_str){text.ptr, bytes});
        else
            (void)add_text(l, escape_character(l->style, bytes, code, escaped));
        text.ptr += bytes ? bytes : 1;
        text.len -= bytes ? bytes : 1;
    }
}

/* In quotes, which are closed even when the text is cut. */
static void add_quoted(line *l, ef_str text)
{
    if (!add_text(l, EF_STR("\"")))
        return;
    add_escaped(l, text);
    add_ending(l, EF_STR("\""));
}

/* Is the text unambiguous without quotes and escapes? */
static bool is_plain(ef_str text, bool may_have_spaces)
{
    if (text.len == 0)
        return false;
    while (text.len > 0) {
        uint32_t code;
        size_t bytes = ef__character(text, &code);

        if (!bytes || !ef__character_is_shown(code) || code == '"' || code == '=' || code == '\\' ||
            (code == ' ' && !may_have_spaces))
            return false;
        text.ptr += bytes;
        text.len -= bytes;
    }
    return true;
}

static void add_value(line *l, ef_str text, bool may_have_spaces)
{
    if (l->style == EF_LOG_TEXT && is_plain(text, may_have_spaces))
        add_escaped(l, text);
    else
        add_quoted(l, text);
}

/* All of the name and at least the start of the value, or nothing of the field. */
static void add_field(line *l, const ef_log_field *field)
{
    size_t start = l->len;
    bool json = l->style == EF_LOG_JSON;
    char number[24];

    (void)add_text(l, json ? EF_STR(",") : EF_STR(" "));
    add_value(l, ef_str_from(field->name), false);
    (void)add_text(l, json ? EF_STR(":") : EF_STR("="));
    size_t value_start = l->len;
    bool whole_name = !l->full;

    if (field->text.ptr) {
        add_value(l, field->text, false);
    } else {
        (void)snprintf(number, sizeof(number), "%" PRId64, field->number);
        (void)add_text(l, ef_str_from(number));
    }
    if (!whole_name || l->len == value_start)
        l->len = start;
}

static void add_head(line *l, int64_t time_us, ef_log_level level, ef_str message)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    bool json = l->style == EF_LOG_JSON;
    char time[EF_TIME_TEXT_MAX];

    ef_time_format(time_us, time);
    (void)add_text(l, json ? EF_STR("{\"time\":\"") : EF_STR(""));
    (void)add_text(l, ef_str_from(time));
    (void)add_text(l, json ? EF_STR("\",\"level\":\"") : EF_STR(" "));
    (void)add_text(l, ef_str_from(names[(unsigned)level <= EF_LOG_ERROR ? level : EF_LOG_ERROR]));
    (void)add_text(l, json ? EF_STR("\",\"message\":") : EF_STR(" "));
    add_value(l, message, true);
}

uint64_t ef_log_line(ef_log_style style, int64_t time_us, ef_log_level level, const char *message,
                     const ef_log_field *fields, uint64_t field_count, char out[EF_LOG_LINE_MAX])
{
    line l = {style, out, 0, false};
    bool json = style == EF_LOG_JSON;

    add_head(&l, time_us, level, ef_str_from(message));
    for (uint64_t i = 0; i < field_count && !l.full; i++)
        add_field(&l, &fields[i]);
    if (l.full)
        add_ending(&l, json ? EF_STR(CUT_JSON) : EF_STR(CUT_TEXT));
    add_ending(&l, json ? EF_STR("}\n") : EF_STR("\n"));
    out[l.len] = '\0';
    return l.len;
}
