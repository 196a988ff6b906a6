/*
 * json_diff.c - differences between two JSON values, by path: recent[0].at
 */
#include "fold_test.h"
#include "../base/number.h"

typedef struct diff {
    ef__buf path;
    cli_json_differs *differs;
    void *context;
} diff;

static void compare_values(diff *d, const ef__json *a, const ef__json *b);

static void report_difference(diff *d, const ef__json *a, const ef__json *b)
{
    d->differs(d->context, ef__buf_str(&d->path), a, b);
}

static bool same_number(ef_str a, ef_str b)
{
    ef__number x, y;

    if (ef__number_parse(a, &x, NULL) != EF_OK || ef__number_parse(b, &y, NULL) != EF_OK)
        return ef_str_equal(a, b);
    return ef__number_compare(&x, &y) == 0;
}

static bool is_plain(ef_str key)
{
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i > 0 && c >= '0' && c <= '9'))
            return false;
    }
    return key.len > 0;
}

/* Extends the path for the nested comparison, then restores it. */
static void compare_member(diff *d, ef_str key, const ef__json *a, const ef__json *b)
{
    size_t length = d->path.len;

    if (is_plain(key)) {
        ef__buf_add_text(&d->path, length > 0 ? "." : "");
        ef__buf_add_str(&d->path, key);
    } else {
        ef__buf_add_char(&d->path, '[');
        (void)ef__json_write_string(&d->path, key);
        ef__buf_add_char(&d->path, ']');
    }
    compare_values(d, a, b);
    d->path.len = length;
}

static const ef__json *find_member(const ef__json *object, ef_str key)
{
    for (const ef__json *child = object->first; child; child = child->next)
        if (ef_str_equal(child->key, key))
            return child;
    return NULL;
}

static void compare_objects(diff *d, const ef__json *a, const ef__json *b)
{
    for (const ef__json *child = a->first; child; child = child->next)
        compare_member(d, child->key, child, find_member(b, child->key));
    for (const ef__json *child = b->first; child; child = child->next)
        if (!find_member(a, child->key))
            compare_member(d, child->key, NULL, child);
}

static void compare_arrays(diff *d, const ef__json *a, const ef__json *b)
{
    const ef__json *x = a->first, *y = b->first;
    size_t length = d->path.len;

    for (size_t i = 0; x || y; i++) {
        ef__buf_printf(&d->path, "[%zu]", i);
        compare_values(d, x, y);
        d->path.len = length;
        x = x ? x->next : NULL;
        y = y ? y->next : NULL;
    }
}

static void compare_values(diff *d, const ef__json *a, const ef__json *b)
{
    if (!a || !b || a->kind != b->kind)
        report_difference(d, a, b);
    else if (a->kind == EF__JSON_OBJECT)
        compare_objects(d, a, b);
    else if (a->kind == EF__JSON_ARRAY)
        compare_arrays(d, a, b);
    else if (a->kind == EF__JSON_NUMBER ? !same_number(a->text, b->text)
                                        : !ef_str_equal(a->text, b->text))
        report_difference(d, a, b);
}

bool cli_json_diff(const ef__json *expected, const ef__json *found, cli_json_differs *differs,
                   void *context)
{
    diff d = {.path = EF__BUF_INIT(CLI_OUT_MAX), .differs = differs, .context = context};

    compare_values(&d, expected, found);
    bool fine = !d.path.failed;
    ef__buf_release(&d.path);
    return fine;
}
