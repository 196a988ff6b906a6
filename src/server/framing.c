/*
 * framing.c - the boundaries of a request, and its headers.
 *
 * A proxy that reads a request differently from this server lets a client hide a second request in
 * the first. So ambiguous requests are refused, and the connection closed. The HTTP library accepts
 * line ends of a bare LF, folded header lines, names with a space and values with a NUL, and does
 * not report them. But it parses in place: the name of a header begins where the previous line
 * ends, and CR and LF are overwritten by two NULs:
 *
 *     GET\0/v1/events\0HTTP/1.1\0\0Host\0 localhost\0\0Content-Length\0 22\0\0\0\0{"type"…
 *
 * A folded line is copied elsewhere, a bare LF leaves one NUL, and a NUL in a value is not followed
 * by the next name; the end of the head is compared with its length. That holds for the versions of
 * the library that is_parsed_in_place lists. A NUL in place of the CR of a line, or of the empty
 * line, leaves the same bytes as CR LF, and is accepted as that.
 *
 * The line before a chunk can only be checked while it is in the library's buffer. A chunked
 * request is therefore the last one of its connection: bytes after it are never read.
 */
#include "http_priv.h"
#include "request.h"

#include <pthread.h>

#define BYTES(byte) ((uint64_t)-1 / 255 * (byte))

typedef struct walk {
    uint64_t header_bits, repeated_bits, blank_bits;
    const char *next; /* start of the next line; NULL: unknown */
    int lengths, chunks;
    bool other_coding; /* than chunked, which the library and a proxy may read differently */
    bool bad_line, bad_name, bad_value;
} walk;

/* Letters, digits and !#$%&'*+-.^_`|~ (RFC 9110, token). */
static const bool token_characters[256] = {
    ['!'] = true,         ['#'] = true,         ['$'] = true,         ['%'] = true, ['&'] = true,
    ['\''] = true,        ['*'] = true,         ['+'] = true,         ['-'] = true, ['.'] = true,
    ['^'] = true,         ['_'] = true,         ['`'] = true,         ['|'] = true, ['~'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

static bool is_token(const char *name, size_t length)
{
    bool token = length > 0;

    for (size_t i = 0; i < length; i++)
        token = token && token_characters[(unsigned char)name[i]];
    return token;
}

/* Control characters except tab; eight bytes at a time, because values are long. */
static bool has_control(const char *value, size_t length)
{
    size_t i = 0;

    for (; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, value + i, 8);
        if (((word - BYTES(0x20)) & ~word & BYTES(0x80)) != 0)
            break;
    }
    for (; i < length; i++)
        if ((unsigned char)value[i] < ' ' && value[i] != '\t')
            return true;
    return false;
}

static bool is_header(const char *key, size_t length, ef_str name)
{
    return length == name.len && strncasecmp(key, name.ptr, length) == 0;
}

static enum MHD_Result read_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                   size_t length, const char *value, size_t value_length)
{
    walk *w = cls;
    uint64_t bit = ef__header_bit(key, length);

    (void)kind;
    w->repeated_bits |= w->header_bits & bit;
    w->header_bits |= bit;
    w->bad_name = w->bad_name || !is_token(key, length);
    if (!value)
        return MHD_YES;
    w->blank_bits |= value_length == 0 ? bit : 0;
    w->bad_value = w->bad_value || has_control(value, value_length);
    if (w->next) {
        w->bad_line = w->bad_line || key != w->next || value[value_length + 1] != '\0';
        w->next = value + value_length + 2;
    }
    w->lengths += is_header(key, length, EF_STR("Content-Length"));
    if (is_header(key, length, EF_STR("Transfer-Encoding"))) {
        w->chunks++;
        w->other_coding = w->other_coding || strcasecmp(value, "chunked") != 0;
    }
    return MHD_YES;
}

static bool parsed_in_place;

static void compare_version(void)
{
    static const char *const known[] = {"0.9.75", "0.9.76", "0.9.77"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        parsed_in_place = parsed_in_place || strcmp(MHD_get_version(), known[i]) == 0;
}

static bool is_parsed_in_place(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, compare_version);
    return parsed_in_place;
}

/* Compares with the length of the head that the library reports. A NUL after the last value makes
 * it longer than the lines, a bare LF as the empty line makes it shorter. */
static bool ends_at(const ef__request *r, const char *method, const char *end)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return !info || info->header_size == (size_t)(end - method);
}

/* Walks over the headers once; ef__request_header can be used afterwards. */
static walk walk_headers(ef__request *r, const char *method, const char *version)
{
    walk w = {.next = is_parsed_in_place() ? version + strlen(version) + 2 : NULL};

    (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, read_header, &w);
    r->header_bits = w.header_bits;
    w.bad_line =
        w.bad_line ||
        (w.next && (w.next[0] != '\0' || w.next[1] != '\0' || !ends_at(r, method, w.next + 2)));
    return w;
}

typedef struct counted {
    ef_str name;
    int count;
} counted;

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *key,
                                    size_t length, const char *value, size_t value_length)
{
    counted *c = cls;

    (void)kind;
    (void)value;
    (void)value_length;
    c->count += is_header(key, length, c->name);
    return MHD_YES;
}

/* Two names may share a bit, so the headers are walked again. */
static ef_status check_repeated(ef__request *r, const walk *w, ef_error *err)
{
    static const char *const single[] = {"Host",     "X-Tenant-Id",     "Authorization",
                                         "If-Match", "Idempotency-Key", "Everfold-Actor"};

    for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
        counted c = {ef_str_from(single[i]), 0};
        if (w->repeated_bits & ef__header_bit(single[i], c.name.len))
            (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, count_header, &c);
        if (c.count > 1)
            return ef_fail(err, EF_BAD_INPUT, "the header %s is given %d times", single[i],
                           c.count);
    }
    return EF_OK;
}

static bool has_blank_tenant(ef__request *r, const walk *w)
{
    const char *value = NULL;
    size_t length = 1;

    return (w->blank_bits & ef__header_bit("X-Tenant-Id", 11)) &&
           MHD_lookup_connection_value_n(r->connection, MHD_HEADER_KIND, "X-Tenant-Id", 11, &value,
                                         &length) == MHD_YES &&
           length == 0;
}

static ef_status check_lines(ef__request *r, const walk *w, ef_error *err)
{
    if (w->bad_name)
        return ef_fail(err, EF_BAD_INPUT,
                       "the name of a header is not a token: no space before the colon, no folded "
                       "line");
    if (w->bad_line)
        return ef_fail(err, EF_BAD_INPUT,
                       "a line of the head is folded, holds a NUL or does not end in CR LF");
    if (w->bad_value)
        return ef_fail(err, EF_BAD_INPUT, "the value of a header holds a control character");
    if (has_blank_tenant(r, w))
        return ef_fail(err, EF_BAD_INPUT, "X-Tenant-Id is empty; leave it out, or name a tenant");
    return w->repeated_bits ? check_repeated(r, w, err) : EF_OK;
}

static ef_status check_length(ef__request *r, ef_error *err)
{
    int64_t length = 0, most = r->server->options.body_bytes_max;
    ef_str text = ef__request_header(r, "Content-Length");

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || length > INT64_MAX / 10 - 10)
            return ef_fail(err, EF_BAD_INPUT, "Content-Length is '%.*s'", EF_STR_ARG(text));
        length = length * 10 + (text.ptr[i] - '0');
    }
    if (length > most)
        return ef_fail_numbers(err, EF_TOO_LARGE, length, most,
                               "the body has %lld bytes, at most %lld are taken", (long long)length,
                               (long long)most);
    return EF_OK;
}

ef_status ef__framing_check(ef__request *r, const char *method, const char *version,
                            ef__framing *out, ef_error *err)
{
    walk w = walk_headers(r, method, version);
    ef_status st = check_lines(r, &w, err);

    *out = (ef__framing){.chunked = w.chunks > 0, .body = w.next ? w.next + 2 : NULL};
    if (st == EF_OK && (w.lengths + w.chunks > 1 || w.other_coding))
        st = ef_fail(err, EF_BAD_INPUT,
                     "the length of the request is ambiguous: it has one Content-Length, or "
                     "Transfer-Encoding: chunked");
    if (st == EF_OK && w.chunks > 0 && strcmp(version, "HTTP/1.1") != 0)
        st = ef_fail(err, EF_BAD_INPUT, "Transfer-Encoding needs HTTP/1.1");
    return st == EF_OK ? check_length(r, err) : st;
}

bool ef__framing_body(const ef__framing *framing, const char *data)
{
    uintptr_t start = (uintptr_t)framing->body, at = (uintptr_t)data;

    if (!framing->body || !framing->chunked || at < start + 2 || at - start >= EF__HTTP_HEAD_BYTES)
        return true;
    return data[-1] == '\n' && data[-2] == '\r';
}
