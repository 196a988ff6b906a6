/*
 * token.c - read-your-writes tokens: see journal.h for their forms.
 *
 * A range and a position have the format of a cursor, with a checksum: the last position, then the
 * first one or 0.
 */
#include "../base/cursor.h"
#include "../base/hash.h"
#include "../base/limits.h"
#include "../base/number.h"

#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdio.h>

#define POSITION_KIND 'p'
#define NAME_CHARS ((EF_LIMIT_NAME_BYTES + 2) / 3 * 4)

_Static_assert(EF_TOKEN_MAX >= 2 * NAME_CHARS + 50, "names and numbers fit");
_Static_assert(EF_TOKEN_MAX >= EF_CURSOR_MAX, "a position is written as a cursor is");
_Static_assert(sizeof(((ef_token *)0)->stream) > EF_LIMIT_NAME_BYTES, "a name and its NUL fit");

/* --- writing ---------------------------------------------------------------------------------- */

static char *put_name(char *to, ef_str name)
{
    ef__base64((const uint8_t *)(name.len ? name.ptr : ""), name.len, to);
    for (; *to && *to != '='; to++)
        *to = *to == '+' ? '-' : *to == '/' ? '_' : *to;
    *to = '\0';
    return to;
}

static void format_stream(const ef_new_event *event, const ef_place *last, char out[EF_TOKEN_MAX])
{
    char *to = out;

    *to++ = 's';
    *to++ = '.';
    to = put_name(to, event->tenant);
    *to++ = '.';
    to = put_name(to, event->stream);
    (void)snprintf(to, (size_t)(out + EF_TOKEN_MAX - to), ".%" PRId64 ".%" PRId64 ".s", last->seq,
                   last->position);
}

void ef_token_format(int64_t position, char out[EF_TOKEN_MAX])
{
    ef__cursor_format(POSITION_KIND, position, 0, out);
}

void ef_token_of(const ef_new_event *events, const ef_place *places, size_t count,
                 char out[EF_TOKEN_MAX])
{
    const ef_place *last = &places[0];
    bool one = true;
    int64_t low = INT64_MAX, high = 0;

    for (size_t i = 0; i < count; i++) {
        low = places[i].position < low ? places[i].position : low;
        high = places[i].position > high ? places[i].position : high;
        last = places[i].seq > last->seq ? &places[i] : last;
        one = one && ef_str_equal(events[i].stream, events[0].stream) &&
              ef_str_equal(events[i].tenant, events[0].tenant);
    }
    if (one && count)
        format_stream(&events[0], last, out);
    else
        ef__cursor_format(POSITION_KIND, high, high - low < EF_TOKEN_SPAN_MAX ? low : 0, out);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads up to the next dot and moves past it; false: there is no dot. */
static bool next_part(ef_str *text, ef_str *out)
{
    const char *dot = text->len ? memchr(text->ptr, '.', text->len) : NULL;

    if (!dot)
        return false;
    *out = (ef_str){text->ptr, (size_t)(dot - text->ptr)};
    text->len -= out->len + 1;
    text->ptr = dot + 1;
    return true;
}

static bool read_name(ef_str text, char out[EF_LIMIT_NAME_BYTES + 1])
{
    char padded[NAME_CHARS + 4];
    uint8_t bytes[NAME_CHARS];
    int len = 0;

    if (text.len > NAME_CHARS || text.len % 4 == 1)
        return false;
    for (size_t i = 0; i < text.len; i++)
        padded[i] = (char)(text.ptr[i] == '-' ? '+' : text.ptr[i] == '_' ? '/' : text.ptr[i]);
    size_t chars = text.len;
    while (chars % 4)
        padded[chars++] = '=';
    if (chars)
        len = ef__base64_decode((ef_str){padded, chars}, bytes);
    if (len < 0 || len > EF_LIMIT_NAME_BYTES || memchr(bytes, 0, (size_t)len))
        return false;
    memcpy(out, bytes, (size_t)len);
    out[len] = '\0';
    return true;
}

static bool parse_stream(ef_str text, ef_token *out)
{
    ef_str start, tenant, stream, seq, position;

    out->by_stream = true;
    return next_part(&text, &start) && ef_str_equal(start, EF_STR("s")) &&
           next_part(&text, &tenant) && next_part(&text, &stream) && next_part(&text, &seq) &&
           next_part(&text, &position) && ef_str_equal(text, EF_STR("s")) &&
           read_name(tenant, out->tenant) && read_name(stream, out->stream) && out->stream[0] &&
           ef__digits_parse(seq, &out->seq) && out->seq > 0 &&
           ef__digits_parse(position, &out->position);
}

static bool parse_positions(ef_str text, ef_token *out)
{
    return ef__cursor_parse(POSITION_KIND, text, &out->position, &out->first, NULL) == EF_OK &&
           out->position >= 0 && out->first >= 0 && out->first <= out->position &&
           (!out->first || out->position - out->first < EF_TOKEN_SPAN_MAX);
}

ef_status ef_token_parse(ef_str token, ef_token *out, ef_error *err)
{
    if (!out)
        return ef_fail(err, EF_BAD_INPUT, "out is NULL");
    *out = (ef_token){0};
    if (token.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "the token is empty");
    if (token.ptr[0] == 's' ? parse_stream(token, out) : parse_positions(token, out))
        return EF_OK;
    return ef_fail(err, EF_BAD_INPUT, "\"%.*s\" is not the token of an append",
                   token.len < 100 ? (int)token.len : 100, token.ptr);
}
