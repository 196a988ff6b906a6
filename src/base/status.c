/*
 * status.c - the status table, and filling in an error.
 *
 * The text of an error is always valid UTF-8 without control characters: it is shown on terminals,
 * in log lines and in JSON, and often quotes input of a stranger.
 */
#include <everfold/status.h>

#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>

#define ELLIPSIS "…"

#define STATUS_ROW(name, next, code, exit_code, http, message)                                     \
    [name] = {#name, next, code, exit_code, http, message},

const ef_status_info *ef_status_describe(ef_status status)
{
    static const ef_status_info rows[] = {EF_STATUS_MAP(STATUS_ROW)};
    static const ef_status_info unknown = {"EF_UNKNOWN", EF_NEXT_STOP,    "unknown", 1,
                                           500,          "unknown status"};

    return (unsigned)status < EF_STATUS_COUNT ? &rows[status] : &unknown;
}

/* Replaces every byte that is not part of a printable character by '?'. Line breaks and tabs stay:
 * a message may have several lines. */
static void clean_text(char *text, size_t len)
{
    size_t i = 0;

    while (i < len) {
        uint32_t code = 0;
        size_t bytes = ef__character((ef_str){text + i, len - i}, &code);
        bool keep = bytes && (ef__character_is_shown(code) || code == '\n' || code == '\t');

        if (!keep) {
            bytes = bytes ? bytes : 1;
            memset(text + i, '?', bytes);
        }
        i += bytes;
    }
}

/* The last offset at or before `len` that is between characters of `text`. */
static size_t character_end(const char *text, size_t len)
{
    size_t start = len;
    uint32_t code;

    while (start > 0 && len - start < 4) {
        start--;
        if (((unsigned char)text[start] & 0xc0) == 0x80)
            continue;
        return ef__character((ef_str){text + start, len - start}, &code) ? len : start;
    }
    return len;
}

static void fill_text(ef_error *err, const char *format, va_list args)
{
    /* Not directly into err->text: a message may quote the one that it replaces. */
    char text[EF_ERROR_TEXT_MAX];
    int wanted = vsnprintf(text, sizeof(text), format, args);
    size_t len;

    if (wanted < 0)
        len = (size_t)snprintf(text, sizeof(text), "%s", ef_status_describe(err->status)->message);
    else
        len = (size_t)wanted;
    if (len >= sizeof(text)) {
        len = character_end(text, sizeof(text) - sizeof(ELLIPSIS));
        memcpy(text + len, ELLIPSIS, sizeof(ELLIPSIS));
        len += sizeof(ELLIPSIS) - 1;
    }
    clean_text(text, len);
    memcpy(err->text, text, len + 1);
}

ef_status ef_fail(ef_error *err, ef_status status, const char *format, ...)
{
    va_list args;

    if (!err)
        return status;
    err->status = status;
    err->has_numbers = false;
    err->asked = err->found = 0;
    va_start(args, format);
    fill_text(err, format, args);
    va_end(args);
    return status;
}

ef_status ef_fail_numbers(ef_error *err, ef_status status, int64_t asked, int64_t found,
                          const char *format, ...)
{
    va_list args;

    if (!err)
        return status;
    err->status = status;
    err->has_numbers = true;
    err->asked = asked;
    err->found = found;
    va_start(args, format);
    fill_text(err, format, args);
    va_end(args);
    return status;
}
