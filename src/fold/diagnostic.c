/*
 * diagnostic.c - collects and prints the diagnostics of a program.
 */
#include "diagnostic.h"

#include "../base/same.h"
#include "../base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN_CHARACTERS = 120 }; /* of a source line: longer ones are shown around the mistake */

/* Names of a program may hold anything, a message may not. */
static void copy_shown(char *out, size_t size, ef_str text)
{
    ef_str left = ef__utf8_cut(text, size - 1);
    size_t at = 0;

    while (left.len > 0) {
        uint32_t code = 0;
        size_t len = ef__character(left, &code);

        if (len > 0 && ef__character_is_shown(code)) {
            memcpy(out + at, left.ptr, len);
            at += len;
        } else {
            out[at++] = '?';
        }
        len = len ? len : 1;
        left.ptr += len;
        left.len -= len;
    }
    out[at] = '\0';
}

void ef__diagnostics_init(ef__diagnostics *list, ef_str file)
{
    list->count = list->left_out = list->errors = 0; /* items are written when they are added */
    copy_shown(list->file, sizeof list->file, file);
}

static bool is_known(const ef__diagnostics *list, ef__severity severity, ef__span span)
{
    for (size_t i = 0; i < list->count; i++) {
        const ef__diagnostic *known = &list->items[i];
        if (known->span.offset == span.offset && known->span.line == span.line &&
            known->severity <= severity)
            return true;
    }
    return false;
}

void ef__diagnostics_add(ef__diagnostics *list, ef__severity severity, ef__span span,
                         const char *suggestion, const char *format, ...)
{
    char text[2 * sizeof list->items[0].message];
    va_list args;

    if (is_known(list, severity, span))
        return;
    list->errors += severity == EF__SEVERITY_ERROR;
    if (list->count == EF_FOLD_LIMIT_DIAGNOSTICS) {
        list->left_out++;
        return;
    }
    ef__diagnostic *item = &list->items[list->count++];
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    item->severity = severity;
    item->span = span;
    copy_shown(item->message, sizeof item->message, ef_str_from(text));
    copy_shown(item->suggestion, sizeof item->suggestion, ef_str_from(suggestion));
}

static int compare_places(const void *a, const void *b)
{
    const ef__diagnostic *x = a;
    const ef__diagnostic *y = b;

    if (x->span.offset != y->span.offset)
        return x->span.offset < y->span.offset ? -1 : 1;
    return (int)x->severity - (int)y->severity;
}

void ef__diagnostics_sort(ef__diagnostics *list)
{
    qsort(list->items, list->count, sizeof list->items[0], compare_places);
}

static const char *severity_name(ef__severity severity)
{
    return severity == EF__SEVERITY_ERROR ? "error" : "warning";
}

static ef_str source_line(ef_str source, uint32_t line)
{
    for (ef_str text; ef__line_next(&source, &text);)
        if (line-- == 1)
            return text;
    return (ef_str){"", 0};
}

/* Prints the characters from `begin` on, each as one column, so that the caret below fits. */
static uint32_t add_window(ef_str line, uint32_t begin, ef__buf *out)
{
    uint32_t column = 1;
    uint32_t shown = 0;

    while (line.len > 0 && shown < SHOWN_CHARACTERS) {
        uint32_t code = 0;
        size_t len = ef__character(line, &code);
        size_t step = len ? len : 1;

        if (column++ >= begin) {
            shown++;
            if (len > 0 && ef__character_is_shown(code))
                ef__buf_add(out, line.ptr, len);
            else
                ef__buf_add_char(out, code == '\t' || code == '\r' ? ' ' : '?');
        }
        line.ptr += step;
        line.len -= step;
    }
    return shown;
}

static void add_caret(ef__span span, uint32_t begin, uint32_t shown, ef__buf *out)
{
    for (uint32_t i = begin; i < span.column; i++)
        ef__buf_add_char(out, ' ');
    ef__buf_add_char(out, '^');
    for (uint32_t i = 1; i < span.length && span.column - begin + i < shown; i++)
        ef__buf_add_char(out, '~');
    ef__buf_add_char(out, '\n');
}

bool ef__diagnostic_render(const ef__diagnostics *list, size_t index, ef_str source, ef__buf *out)
{
    const ef__diagnostic *item = &list->items[index];
    ef__span span = item->span;
    uint32_t begin = span.column > SHOWN_CHARACTERS / 2 + 20 ? span.column - 40 : 1;

    if (list->file[0] != '\0')
        ef__buf_printf(out, "%s:", list->file);
    ef__buf_printf(out, "%u:%u: %s: %s", span.line, span.column, severity_name(item->severity),
                   item->message);
    if (item->suggestion[0] != '\0')
        ef__buf_printf(out, "; did you mean \"%s\"?", item->suggestion);
    ef__buf_add_char(out, '\n');
    uint32_t shown = add_window(source_line(source, span.line), begin, out);
    ef__buf_add_char(out, '\n');
    add_caret(span, begin, shown, out);
    return !out->failed;
}

bool ef__diagnostics_render(const ef__diagnostics *list, ef_str source, ef__buf *out)
{
    for (size_t i = 0; i < list->count; i++)
        (void)ef__diagnostic_render(list, i, source, out);
    if (list->left_out > 0)
        ef__buf_printf(out, "and %zu more\n", list->left_out);
    return !out->failed;
}

static void write_one(const ef__diagnostics *list, const ef__diagnostic *item, ef__json_writer *w)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "file", list->file);
    ef__json_member_int(w, "line", item->span.line);
    ef__json_member_int(w, "column", item->span.column);
    ef__json_member_int(w, "length", item->span.length);
    ef__json_member_text(w, "severity", severity_name(item->severity));
    ef__json_member_text(w, "message", item->message);
    ef__json_member_name(w, "suggestion", ef_str_from(item->suggestion));
    ef__json_close(w, '}');
}

void ef__diagnostics_json(const ef__diagnostics *list, ef__json_writer *w)
{
    ef__json_open(w, '[');
    for (size_t i = 0; i < list->count; i++)
        write_one(list, &list->items[i], w);
    ef__json_close(w, ']');
}
