/*
 * log.c - a record as one line, of which no byte can be taken for another line or another field.
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

#include "character.h"

#include <inttypes.h>
#include <stdio.h>

#define CUT_TEXT " …"
#define CUT_JSON ",\"cut\":\"…\""

/* Kept free for the end of a line that is cut: a quote, the longer of the two ends, a brace, the
 * newline and a NUL. */
#define END_BYTES (1 + (sizeof(CUT_JSON) - 1) + 3)
#define FILL_MAX (EF_LOG_LINE_MAX - END_BYTES)

typedef struct line {
    ef_log_style style;
    char *out;
    size_t len;
    bool full; /* something did not fit: nothing more is taken but the end */
} line;

/* Take all of `text`, or nothing and be full from then on. */
static bool put(line *l, ef_str text)
{
    if (l->full || text.len > FILL_MAX || l->len > FILL_MAX - text.len) {
        l->full = true;
        return false;
    }
    memcpy(l->out + l->len, text.ptr, text.len);
    l->len += text.len;
    return true;
}

/* What has its place in END_BYTES. */
static void put_end(line *l, ef_str text)
{
    memcpy(l->out + l->len, text.ptr, text.len);
    l->len += text.len;
}

/* How a character that cannot stand as it is gets written; `bytes` is 0 for a byte that is none. */
static ef_str escape(ef_log_style style, size_t bytes, uint32_t code, char out[8])
{
    int len;

    if (bytes && (code == '"' || code == '\\'))
        len = snprintf(out, 8, "\\%c", (char)code);
    else if (bytes && (code == '\n' || code == '\r' || code == '\t'))
        len = snprintf(out, 8, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (style == EF_LOG_JSON && (!bytes || code == 0))
        /* JSON cannot say which byte it was; and a NUL in JSON is refused by many, us included. */
        len = snprintf(out, 8, "\\ufffd");
    else
        len = snprintf(out, 8, bytes ? "\\u%04x" : "\\x%02x", (unsigned)(code & 0xffff));
    return (ef_str){out, (size_t)len};
}

static void put_characters(line *l, ef_str text)
{
    char escaped[8];

    while (text.len > 0 && !l->full) {
        uint32_t code = (unsigned char)text.ptr[0];
        size_t bytes = ef__character(text, &code);

        if (bytes && ef__character_is_shown(code) && code != '"' && code != '\\')
            (void)put(l, (ef_str){text.ptr, bytes});
        else
            (void)put(l, escape(l->style, bytes, code, escaped));
        text.ptr += bytes ? bytes : 1;
        text.len -= bytes ? bytes : 1;
    }
}

/* In quotes, which are closed even when the text between them is cut. */
static void put_quoted(line *l, ef_str text)
{
    if (!put(l, EF_STR("\"")))
        return;
    put_characters(l, text);
    put_end(l, EF_STR("\""));
}

/* True when one sees without quotes where it begins and ends, and nothing has to be escaped. */
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

static void put_text(line *l, ef_str text, bool may_have_spaces)
{
    if (l->style == EF_LOG_TEXT && is_plain(text, may_have_spaces))
        put_characters(l, text);
    else
        put_quoted(l, text);
}

/* All of the name and at least the beginning of the value, or nothing of the field. */
static void put_field(line *l, const ef_log_field *field)
{
    size_t start = l->len;
    bool json = l->style == EF_LOG_JSON;
    char number[24];

    (void)put(l, json ? EF_STR(",") : EF_STR(" "));
    put_text(l, ef_str_from(field->name), false);
    (void)put(l, json ? EF_STR(":") : EF_STR("="));
    size_t value_start = l->len;
    bool whole_name = !l->full;

    if (field->text.ptr) {
        put_text(l, field->text, false);
    } else {
        (void)snprintf(number, sizeof(number), "%" PRId64, field->number);
        (void)put(l, ef_str_from(number));
    }
    if (!whole_name || l->len == value_start)
        l->len = start;
}

static void put_head(line *l, int64_t time_us, ef_log_level level, ef_str message)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    bool json = l->style == EF_LOG_JSON;
    char time[EF_TIME_TEXT_MAX];

    ef_time_format(time_us, time);
    (void)put(l, json ? EF_STR("{\"time\":\"") : EF_STR(""));
    (void)put(l, ef_str_from(time));
    (void)put(l, json ? EF_STR("\",\"level\":\"") : EF_STR(" "));
    (void)put(l, ef_str_from(names[(unsigned)level <= EF_LOG_ERROR ? level : EF_LOG_ERROR]));
    (void)put(l, json ? EF_STR("\",\"message\":") : EF_STR(" "));
    put_text(l, message, true);
}

uint64_t ef_log_line(ef_log_style style, int64_t time_us, ef_log_level level, const char *message,
                     const ef_log_field *fields, uint64_t field_count, char out[EF_LOG_LINE_MAX])
{
    line l = {style, out, 0, false};
    bool json = style == EF_LOG_JSON;

    put_head(&l, time_us, level, ef_str_from(message));
    for (uint64_t i = 0; i < field_count && !l.full; i++)
        put_field(&l, &fields[i]);
    if (l.full)
        put_end(&l, json ? EF_STR(CUT_JSON) : EF_STR(CUT_TEXT));
    put_end(&l, json ? EF_STR("}\n") : EF_STR("\n"));
    out[l.len] = '\0';
    return l.len;
}
