/*
 * peek.c - a scan for brackets, quotes and commas, and reading what is wanted.
 */
#include "peek.h"

#include "../base/limits.h"
#include "../base/same.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* From `p` on, as far as whole words go: to the first quote or backslash, or to what is left behind
 * the last word. `*strange` grows by what is not ASCII, or a control, up to there. */
#ifdef __SSE2__
static const char *skip_words(const char *p, const char *end, uint64_t *strange)
{
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');

    for (; end - p >= 16; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i stops = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash));
        unsigned stop = (unsigned)_mm_movemask_epi8(stops);
        unsigned odd =
            (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(x, space)); /* signed: and >= 80 */
        if (stop) {
            *strange |= odd & (stop ^ (stop - 1));
            return p + __builtin_ctz(stop);
        }
        *strange |= odd;
    }
    return p;
}
#else
/* The lowest top bit of `stop` stands where the first one is, and what is odd up to there counts.
 */
static const char *skip_words(const char *p, const char *end, uint64_t *strange)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t tops = ones * 0x80;

    for (; end - p >= 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__; p += 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ ones * '"';
        uint64_t slash = x ^ ones * '\\';
        uint64_t stop = (((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & tops;
        uint64_t odd = (x | (x - ones * 0x20)) & tops;
        if (stop) {
            *strange |= odd & (stop ^ (stop - 1));
            return p + __builtin_ctzll(stop) / 8;
        }
        *strange |= odd;
    }
    return p;
}
#endif

/* From behind an opening quote to the closing one; NULL when there is none. `*out_plain`: all
 * between is ASCII without controls and backslashes. */
static const char *find_quote(const char *p, const char *end, bool *out_plain)
{
    uint64_t strange = 0;

    for (;;) {
        p = skip_words(p, end, &strange);
        for (; p < end && *p != '"' && *p != '\\'; p++)
            strange |= (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x80;
        if (p >= end)
            return NULL;
        if (*p == '"') {
            *out_plain = strange == 0;
            return p;
        }
        if (end - p < 2)
            return NULL;
        strange = 1;
        p += 2;
    }
}

/* From an opening bracket to behind the one that closes it. */
static const char *skip_container(const char *p, const char *end)
{
    bool plain;
    int depth = 0;

    for (; p < end; p++) {
        if (*p == '"') {
            p = find_quote(p + 1, end, &plain);
            if (!p)
                return NULL;
        } else if (*p == '[' || *p == '{') {
            depth++;
        } else if ((*p == ']' || *p == '}') && --depth == 0) {
            return p + 1;
        }
    }
    return NULL;
}

static const char *skip_value(const char *p, const char *end, bool *out_plain)
{
    if (p == end)
        return NULL;
    if (*p == '[' || *p == '{')
        return skip_container(p, end);
    if (*p == '"') {
        p = find_quote(p + 1, end, out_plain);
        return p ? p + 1 : NULL;
    }
    while (p < end && *p != ',' && *p != '}' && *p > ' ')
        p++;
    return p;
}

bool ef__peek_begin(ef__peek *peek, ef_str data)
{
    peek->end = data.ptr + data.len;
    peek->next = skip_space(data.ptr, peek->end);
    peek->count = 0;
    if (data.len > EF_LIMIT_DATA_BYTES || peek->next == peek->end || *peek->next != '{')
        return false;
    peek->next = skip_space(peek->next + 1, peek->end);
    if (peek->next < peek->end && *peek->next == '}')
        peek->next = NULL;
    return true;
}

/* Note the next member; false when the text is not as expected. */
static bool scan_member(ef__peek *peek)
{
    const char *end = peek->end;
    const char *p = peek->next;
    ef__peek_member *member = &peek->members[peek->count];
    bool plain;

    if (p == end || *p != '"' || peek->count == EF__PEEK_MEMBERS)
        return false;
    const char *close = find_quote(p + 1, end, &plain);
    if (!close || (!plain && memchr(p, '\\', (size_t)(close - p))))
        return false;
    member->key = (ef_str){p + 1, (size_t)(close - p) - 1};
    p = skip_space(close + 1, end);
    if (p == end || *p != ':')
        return false;
    p = skip_space(p + 1, end);
    member->plain = false;
    const char *behind = skip_value(p, end, &member->plain);
    if (!behind || behind == p)
        return false;
    member->raw = (ef_str){p, (size_t)(behind - p)};
    member->read = false;
    peek->count++;
    p = skip_space(behind, end);
    if (p == end || (*p != ',' && *p != '}'))
        return false;
    peek->next = *p == ',' ? skip_space(p + 1, end) : NULL;
    return true;
}

static ef_status read_member(const ef__peek_member *member, ef__arena *arena, ef__value *out,
                             ef_error *err)
{
    ef_str raw = member->raw;
    ef__json *json = NULL;

    if (raw.ptr[0] == '"' && member->plain) {
        *out = ef__value_string((ef_str){raw.ptr + 1, raw.len - 2});
        out->plain = true;
        return EF_OK;
    }
    if (ef__value_short(raw, out))
        return EF_OK;
    ef_status st = ef__json_parse(raw, EF_LIMIT_DATA_BYTES, arena, &json, err);
    *out = ef__value_from_json(json);
    return st;
}

ef_status ef__peek_get(ef__peek *peek, ef_str key, ef__arena *arena, ef__value *out,
                       bool *out_strict, ef_error *err)
{
    *out = EF__MISSING;
    for (size_t i = 0;; i++) {
        if (i == peek->count && !peek->next)
            return EF_OK;
        if (i == peek->count && !scan_member(peek)) {
            *out_strict = true;
            return EF_OK;
        }
        ef__peek_member *member = &peek->members[i];
        if (!ef__str_same(member->key, key))
            continue;
        if (member->read) {
            *out = member->value;
            return EF_OK;
        }
        ef_status st = read_member(member, arena, out, err);
        member->read = st == EF_OK;
        member->value = *out;
        return st;
    }
}
