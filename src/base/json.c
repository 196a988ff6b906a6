/*
 * json.c - the strict validator and the tree.
 *
 * One loop reads the text for ef__json_check and ef__json_parse; without an arena it builds
 * nothing, so both accept the same texts. Open arrays and objects are on a stack of frames, not on
 * the C stack.
 *
 *     value      -> after (a scalar) | first value ('[') | first key ('{')
 *     first key  -> value | after ('}')            first value -> as value, or after (']')
 *     key        -> value
 *     after      -> value (',' in an array) | key (',' in an object) | after (a bracket) | done
 *
 * The keys of all open objects are on one stack, those of the innermost object on top. While an
 * object has few keys, a new key is compared with the others; with many keys they are sorted once,
 * when the object ends. Both are cheap for every input, while a hash table has inputs that collide.
 */
#include "json.h"

#include "utf8.h"
#include "json_escape.h"
#include "limits.h"
#include "number.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    KEYS_COMPARED = 16,    /* up to this number each new key is compared with those before it */
    KEYS_IN_PLACE = 64,    /* keys of open objects without an allocation */
    KEY_SHOWN_BYTES = 100, /* of a key in a message, which has 512 */
    ENVELOPE_DEPTH = EF_LIMIT_JSON_DEPTH + EF_LIMIT_ENVELOPE_DEPTH
};

typedef enum state {
    WANT_VALUE,
    WANT_FIRST_VALUE,
    WANT_KEY,
    WANT_FIRST_KEY,
    AFTER_VALUE,
    DONE
} state;

/* A string between its quotes. It has an escape when `len`, its length after unescaping, is less
 * than raw.len: every escape is longer than its character. */
typedef struct token {
    ef_str raw;
    size_t len;
} token;

typedef struct frame {
    bool is_object;
    size_t first_key; /* index of the object's first key on the stack of keys */
    ef__json *node;   /* NULL without a tree */
    ef__json *last;   /* its last child so far */
} frame;

typedef struct parser {
    const char *start;
    const char *end;
    const char *p; /* the next byte to read */
    ef__arena *arena;
    ef_error *err;
    ef__json *root;
    ef__json_kind root_kind;
    ef_str key; /* of the next value, with a tree */
    size_t depth;
    token *keys; /* keys_in_place, or from the heap */
    size_t key_count;
    size_t key_cap;
    token keys_in_place[KEYS_IN_PLACE];
    size_t depth_max;
    frame frames[ENVELOPE_DEPTH];
} parser;

static ef_status fail_at(parser *ps, ef_status status, const char *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void skip_space(parser *ps)
{
    while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\r' || *ps->p == '\t'))
        ps->p++;
}

static ef_status fail_expected(parser *ps, const char *what)
{
    unsigned char c = ps->p < ps->end ? (unsigned char)*ps->p : 0;

    if (ps->p == ps->end)
        return fail_at(ps, EF_BAD_JSON, ps->p, "%s expected, found the end of the text", what);
    if (c > 0x20 && c < 0x7F)
        return fail_at(ps, EF_BAD_JSON, ps->p, "%s expected, found '%c'", what, c);
    return fail_at(ps, EF_BAD_JSON, ps->p, "%s expected, found byte 0x%02x", what, c);
}

/* Shorter first, then by bytes: any order in which equal keys are equal is enough. */
static int compare_tokens(const token *a, const token *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    if (a->raw.len == a->len && b->raw.len == b->len)
        return memcmp(a->raw.ptr, b->raw.ptr, a->len);

    ef__json_bytes left = {.p = a->raw.ptr, .end = a->raw.ptr + a->raw.len};
    ef__json_bytes right = {.p = b->raw.ptr, .end = b->raw.ptr + b->raw.len};
    int diff = 0;
    for (size_t i = 0; i < a->len && diff == 0; i++)
        diff = ef__json_next_byte(&left) - ef__json_next_byte(&right);
    return diff;
}

static int compare_keys(const void *left, const void *right)
{
    const token *a = left;
    const token *b = right;
    int diff = compare_tokens(a, b);

    return diff ? diff : a->raw.ptr < b->raw.ptr ? -1 : a->raw.ptr > b->raw.ptr;
}

static ef_status fail_duplicate(parser *ps, token key)
{
    ef_str shown = ef__utf8_cut(key.raw, KEY_SHOWN_BYTES);

    return fail_at(ps, EF_BAD_JSON, key.raw.ptr - 1, "duplicate key \"%.*s\"%s", EF_STR_ARG(shown),
                   shown.len < key.raw.len ? "…" : "");
}

/* Sorted, equal keys are adjacent, in the order of the text. The duplicate that comes first in the
 * text is reported. */
static ef_status find_duplicate(parser *ps, size_t first)
{
    const token *found = NULL;

    qsort(ps->keys + first, ps->key_count - first, sizeof(*ps->keys), compare_keys);
    for (size_t i = first + 1; i < ps->key_count; i++)
        if (compare_tokens(&ps->keys[i - 1], &ps->keys[i]) == 0 &&
            (!found || ps->keys[i].raw.ptr < found->raw.ptr))
            found = &ps->keys[i];
    return found ? fail_duplicate(ps, *found) : EF_OK;
}

static ef_status close_container(parser *ps, state *next)
{
    const frame *closed = &ps->frames[--ps->depth];
    ef_status st = EF_OK;

    if (closed->is_object && ps->key_count - closed->first_key > KEYS_COMPARED)
        st = find_duplicate(ps, closed->first_key);
    ps->key_count = closed->first_key;
    ps->p++;
    if (closed->node)
        closed->node->text.len = (size_t)(ps->p - closed->node->text.ptr);
    *next = AFTER_VALUE;
    return st;
}

/* After a value: a comma, the closing bracket, or the end. */
static ef_status read_separator(parser *ps, state *next)
{
    if (ps->depth == 0) {
        if (ps->p < ps->end)
            return fail_expected(ps, "the end of the text");
        *next = DONE;
        return EF_OK;
    }
    bool in_object = ps->frames[ps->depth - 1].is_object;
    if (ps->p < ps->end && *ps->p == ',') {
        ps->p++;
        *next = in_object ? WANT_KEY : WANT_VALUE;
        return EF_OK;
    }
    if (ps->p < ps->end && *ps->p == (in_object ? '}' : ']'))
        return close_container(ps, next);
    return fail_expected(ps, in_object ? "',' or '}'" : "',' or ']'");
}

/* Skips plain characters of a string: ASCII except controls, quotes and backslashes. Eight at a
 * time, because most of the time is spent here: a byte of `odd` has its top bit set where one of
 * the eight is not plain (or, through a borrow, above such a byte, so only the lowest is valid). */
static const char *skip_plain(const char *p, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);

    for (; end - p >= 8; p += 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ ones * '"';
        uint64_t backslash = x ^ ones * '\\';
        uint64_t odd = (x - ones * 0x20) | (quote - ones) | (backslash - ones) | x;
        odd &= ones * 0x80;
        if (odd && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
            return p + __builtin_ctzll(odd) / 8;
        if (odd)
            break;
    }
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

/* An escape, a multi-byte character, or a mistake. `shorter` counts the bytes that escapes save. */
static ef_status scan_special(parser *ps, const char **p, size_t *shorter)
{
    unsigned char c = (unsigned char)**p;
    const char *wrong = NULL;
    char bytes[4];
    uint32_t code;
    size_t len;

    if (c == '\\') {
        len = ef__json_escape(*p, ps->end, &code, &wrong);
        if (len == 0)
            return fail_at(ps, EF_BAD_JSON, *p, "%s", wrong);
        *shorter += len - ef__json_encode(code, bytes);
    } else if (c < 0x20) {
        return fail_at(ps, EF_BAD_JSON, *p, "a control character (byte 0x%02x) in a string", c);
    } else {
        len = ef__character((ef_str){*p, (size_t)(ps->end - *p)}, &code);
        if (len == 0)
            return fail_at(ps, EF_BAD_JSON, *p, "byte 0x%02x is not valid UTF-8", c);
    }
    *p += len;
    return EF_OK;
}

/* Scans from the opening quote to after the closing one. */
static ef_status scan_string(parser *ps, token *out)
{
    const char *p = ps->p + 1;
    size_t shorter = 0;

    for (;;) {
        p = skip_plain(p, ps->end);
        if (p == ps->end)
            return fail_at(ps, EF_BAD_JSON, ps->p, "the string has no closing quote");
        if (*p == '"')
            break;
        ef_status st = scan_special(ps, &p, &shorter);
        if (st != EF_OK)
            return st;
    }
    out->raw = (ef_str){ps->p + 1, (size_t)(p - ps->p) - 1};
    out->len = out->raw.len - shorter;
    ps->p = p + 1;
    return EF_OK;
}

static ef_status grow_keys(parser *ps)
{
    bool in_place = ps->keys == ps->keys_in_place;
    token *keys = realloc(in_place ? NULL : ps->keys, 2 * ps->key_cap * sizeof(*keys));

    if (!keys)
        return ef_fail(ps->err, EF_NO_MEMORY, "no memory for the keys of a JSON object");
    if (in_place)
        memcpy(keys, ps->keys_in_place, sizeof(ps->keys_in_place));
    ps->keys = keys;
    ps->key_cap *= 2;
    return EF_OK;
}

static ef_status add_key(parser *ps, token key)
{
    size_t first = ps->frames[ps->depth - 1].first_key;
    size_t count = ps->key_count - first;

    if (count == EF_LIMIT_JSON_KEYS)
        return fail_at(ps, EF_TOO_LARGE, key.raw.ptr - 1, "an object has more than %d keys",
                       EF_LIMIT_JSON_KEYS);
    if (count < KEYS_COMPARED)
        for (size_t i = first; i < ps->key_count; i++)
            if (ps->keys[i].len == key.len && compare_tokens(&ps->keys[i], &key) == 0)
                return fail_duplicate(ps, key);
    if (ps->key_count == ps->key_cap) {
        ef_status st = grow_keys(ps);
        if (st != EF_OK)
            return st;
    }
    ps->keys[ps->key_count++] = key;
    return EF_OK;
}

static ef_status unescape_string(parser *ps, token string, ef_str *out)
{
    ef__json_bytes reader = {.p = string.raw.ptr, .end = string.raw.ptr + string.raw.len};

    *out = string.raw;
    if (string.len == string.raw.len)
        return EF_OK;
    char *bytes = ef__arena_alloc(ps->arena, string.len);
    if (!bytes)
        return ef_fail(ps->err, EF_NO_MEMORY, "no memory for the JSON tree");
    for (size_t i = 0; i < string.len; i++)
        bytes[i] = (char)ef__json_next_byte(&reader);
    *out = (ef_str){bytes, string.len};
    return EF_OK;
}

static ef_status read_key(parser *ps, state *next)
{
    token key;
    ef_status st;

    if (ps->p == ps->end || *ps->p != '"')
        return fail_expected(ps, *next == WANT_KEY ? "a key" : "a key or '}'");
    st = scan_string(ps, &key);
    if (st == EF_OK)
        st = add_key(ps, key);
    if (st == EF_OK && ps->arena)
        st = unescape_string(ps, key, &ps->key);
    if (st != EF_OK)
        return st;
    skip_space(ps);
    if (ps->p == ps->end || *ps->p != ':')
        return fail_expected(ps, "':' after the key");
    ps->p++;
    *next = WANT_VALUE;
    return EF_OK;
}

/* Without a tree only the kind of the whole text is stored. */
static ef_status add_node(parser *ps, ef__json_kind kind, ef_str text, ef__json **out)
{
    if (ps->depth == 0)
        ps->root_kind = kind;
    if (!ps->arena)
        return EF_OK;
    ef__json *node = ef__arena_zalloc(ps->arena, 1, sizeof(*node));
    if (!node)
        return ef_fail(ps->err, EF_NO_MEMORY, "no memory for the JSON tree");
    node->kind = kind;
    node->text = text;
    if (out)
        *out = node;
    if (ps->depth == 0) {
        ps->root = node;
        return EF_OK;
    }
    frame *parent = &ps->frames[ps->depth - 1];
    if (parent->is_object)
        node->key = ps->key;
    *(parent->last ? &parent->last->next : &parent->node->first) = node;
    parent->last = node;
    parent->node->count++;
    return EF_OK;
}

static ef_status open_container(parser *ps, state *next, ef__json_kind kind)
{
    frame opened = {kind == EF__JSON_OBJECT, ps->key_count, NULL, NULL};
    ef_status st;

    if (ps->depth == ps->depth_max)
        return fail_at(ps, EF_TOO_LARGE, ps->p, "arrays and objects are nested deeper than %zu",
                       ps->depth_max);
    st = add_node(ps, kind, (ef_str){ps->p, 0}, &opened.node);
    ps->frames[ps->depth++] = opened;
    ps->p++;
    *next = opened.is_object ? WANT_FIRST_KEY : WANT_FIRST_VALUE;
    return st;
}

static ef_status read_string(parser *ps)
{
    token string;
    ef_str text = {NULL, 0};
    ef_status st = scan_string(ps, &string);

    if (st == EF_OK && ps->arena)
        st = unescape_string(ps, string, &text);
    return st == EF_OK ? add_node(ps, EF__JSON_STRING, text, NULL) : st;
}

static ef_status read_word(parser *ps, const char *word, ef__json_kind kind)
{
    ef_str text = {ps->p, strlen(word)};

    if ((size_t)(ps->end - ps->p) < text.len || memcmp(ps->p, word, text.len) != 0)
        return fail_expected(ps, "a value");
    ps->p += text.len;
    return add_node(ps, kind, text, NULL);
}

static ef_status read_number(parser *ps)
{
    ef__number_parts parts;
    ef_str text = {ps->p, (size_t)(ps->end - ps->p)};
    ef_status st = ef__number_scan(text, &parts);

    if (st != EF_OK) {
        ps->p += parts.len;
        return st == EF_BAD_JSON ? fail_expected(ps, parts.wrong)
                                 : fail_at(ps, st, ps->p, "%s", parts.wrong);
    }
    text.len = parts.len;
    ps->p += parts.len;
    return add_node(ps, EF__JSON_NUMBER, text, NULL);
}

static ef_status read_value(parser *ps, state *next)
{
    *next = AFTER_VALUE;
    switch (ps->p < ps->end ? *ps->p : '\0') {
    case '{':
        return open_container(ps, next, EF__JSON_OBJECT);
    case '[':
        return open_container(ps, next, EF__JSON_ARRAY);
    case '"':
        return read_string(ps);
    case 't':
        return read_word(ps, "true", EF__JSON_TRUE);
    case 'f':
        return read_word(ps, "false", EF__JSON_FALSE);
    case 'n':
        return read_word(ps, "null", EF__JSON_NULL);
    case '-':
        return read_number(ps);
    default:
        if (ps->p < ps->end && *ps->p >= '0' && *ps->p <= '9')
            return read_number(ps);
        return fail_expected(ps, "a value");
    }
}

static ef_status read_first(parser *ps, state *next, char closing)
{
    if (ps->p < ps->end && *ps->p == closing)
        return close_container(ps, next);
    return closing == '}' ? read_key(ps, next) : read_value(ps, next);
}

static ef_status read_text(parser *ps, ef_str text, size_t max_bytes)
{
    state next = WANT_VALUE;
    ef_status st = EF_OK;

    if (text.len > max_bytes)
        return ef_fail_numbers(ps->err, EF_TOO_LARGE, (int64_t)text.len, (int64_t)max_bytes,
                               "the JSON text has %zu bytes, at most %zu are allowed", text.len,
                               max_bytes);
    ps->start = ps->p = text.len ? text.ptr : "";
    ps->end = ps->start + text.len;
    ps->root = NULL;
    ps->depth = 0;
    ps->keys = ps->keys_in_place;
    ps->key_count = 0;
    ps->key_cap = KEYS_IN_PLACE;
    while (st == EF_OK && next != DONE) {
        skip_space(ps);
        if (next == AFTER_VALUE)
            st = read_separator(ps, &next);
        else if (next == WANT_KEY)
            st = read_key(ps, &next);
        else if (next == WANT_VALUE)
            st = read_value(ps, &next);
        else
            st = read_first(ps, &next, next == WANT_FIRST_KEY ? '}' : ']');
    }
    if (ps->keys != ps->keys_in_place)
        free(ps->keys);
    return st;
}

/* Without an arena there is no tree, and `out` is NULL. */
static ef_status parse_text(ef_str text, size_t max_bytes, size_t depth_max, ef__arena *arena,
                            ef__json **out, ef__json_kind *out_kind, ef_error *err)
{
    parser ps;
    ef_status st;

    ps.arena = arena;
    ps.err = err;
    ps.depth_max = depth_max;
    st = read_text(&ps, text, max_bytes);
    if (out)
        *out = st == EF_OK ? ps.root : NULL;
    if (out_kind && st == EF_OK)
        *out_kind = ps.root_kind;
    return st;
}

ef_status ef__json_check(ef_str text, size_t max_bytes, ef__json_kind *out_kind, ef_error *err)
{
    return parse_text(text, max_bytes, EF_LIMIT_JSON_DEPTH, NULL, NULL, out_kind, err);
}

ef_status ef__json_check_envelope(ef_str text, size_t max_bytes, ef__json_kind *out_kind,
                                  ef_error *err)
{
    return parse_text(text, max_bytes, ENVELOPE_DEPTH, NULL, NULL, out_kind, err);
}

ef_status ef__json_parse(ef_str text, size_t max_bytes, ef__arena *arena, ef__json **out,
                         ef_error *err)
{
    assert(arena && out);
    return parse_text(text, max_bytes, EF_LIMIT_JSON_DEPTH, arena, out, NULL, err);
}

ef_status ef__json_parse_envelope(ef_str text, size_t max_bytes, ef__arena *arena, ef__json **out,
                                  ef_error *err)
{
    assert(arena && out);
    return parse_text(text, max_bytes, ENVELOPE_DEPTH, arena, out, NULL, err);
}

const ef__json *ef__json_get(const ef__json *object, const char *key)
{
    ef_str wanted = ef_str_from(key);

    if (!object || object->kind != EF__JSON_OBJECT)
        return NULL;
    for (const ef__json *child = object->first; child; child = child->next)
        if (ef_str_equal(child->key, wanted))
            return child;
    return NULL;
}

ef_str ef__json_text(const ef__json *object, const char *key)
{
    const ef__json *value = ef__json_get(object, key);

    return value && value->kind == EF__JSON_STRING ? value->text : EF_STR("");
}

int ef__json_int64(const ef__json *number, int64_t *out)
{
    int64_t value = 0;

    if (!number || number->kind != EF__JSON_NUMBER)
        return -1;
    bool negative = number->text.ptr[0] == '-';
    for (size_t i = negative; i < number->text.len; i++) {
        int digit = number->text.ptr[i] - '0';
        if (digit < 0 || digit > 9)
            return -1;
        /* Accumulated with its sign, because INT64_MIN has no positive counterpart. */
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return -1;
    }
    *out = value;
    return 0;
}

/* Lines and columns count from 1, and columns count characters, as editors do. */
static ef_status fail_at(parser *ps, ef_status status, const char *at, const char *format, ...)
{
    char what[EF_ERROR_TEXT_MAX];
    size_t line = 1;
    size_t column = 1;
    va_list args;

    if (!ps->err)
        return status;
    for (const char *p = ps->start; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*p & 0xC0) != 0x80) {
            column++;
        }
    }
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return ef_fail(ps->err, status, "%s at offset %zu (line %zu, column %zu)", what,
                   (size_t)(at - ps->start), line, column);
}
