/*
 * peek.c - scans for brackets, quotes and commas, and reads the members that are needed.
 */
#include "peek.h"

#include "../base/limits.h"
#include "../base/same.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char *skip_space(const char *p, const char *end)
{
    while (p < end && (unsigned char)*p <= ' ' &&
           (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* Skips whole words from `p` on: to the first quote or backslash, or to the rest after the last
 * whole word. `*strange` becomes non-zero for non-ASCII or control characters up to there. */
#ifdef __SSE2__
/* Which of the 16 bytes are quotes or backslashes; and which are odd. */
static unsigned find_stops(const char *p, unsigned *out_odd)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i stops =
        _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')), _mm_cmpeq_epi8(x, _mm_set1_epi8('\\')));

    *out_odd =
        (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(x, _mm_set1_epi8(' '))); /* signed: and >= 80 */
    return (unsigned)_mm_movemask_epi8(stops);
}

/* The rest after the last whole word is checked together with bytes before it, if there are any,
 * because the longest text is often the last. */
static const char *skip_words(const char *p, const char *end, uint64_t *strange)
{
    const char *start = p;
    unsigned stop = 0;
    unsigned odd;

    for (; end - p >= 16; p += 16) {
        stop = find_stops(p, &odd);
        if (stop)
            break;
        *strange |= odd;
    }
    if (!stop && end - start >= 16) {
        unsigned seen = (unsigned)(16 - (end - p));
        stop = find_stops(end - 16, &odd) >> seen;
        odd >>= seen;
    }
    if (!stop)
        return p;
    *strange |= odd & (stop ^ (stop - 1));
    return p + __builtin_ctz(stop);
}
#else
/* The lowest top bit of `stop` is that of the first stop; odd bytes up to there count. */
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

/* The closing quote, from after the opening one; NULL: none. `*out_plain`: all characters between
 * are ASCII without controls and backslashes. */
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

/* The end of the container that starts with the opening bracket at `p`. */
static EF__SELDOM const char *skip_container(const char *p, const char *end)
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
    if (*p == '"') {
        p = find_quote(p + 1, end, out_plain);
        return p ? p + 1 : NULL;
    }
    if (*p == '[' || *p == '{')
        return skip_container(p, end);
    while (p < end && *p >= '-' && *p <= '9') /* most are numbers: one comparison per digit */
        p++;
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
    const char *first = skip_space(peek->next + 1, peek->end);
    if (first < peek->end && *first == '}')
        peek->next = NULL;
    return true;
}

/* Does the member start with the same bytes as the one at this place before? */
static bool is_spelled(const ef__peek_member *member, const char *p, const char *end)
{
    return member->spelled_bytes > 0 && end - p >= member->spelled_bytes &&
           ef__bytes_same(p, member->spelled, member->spelled_bytes);
}

/* Scans a key that is new at this place, from the text before it to after its colon; NULL: the text
 * is not as expected. */
static EF__SELDOM const char *scan_key(ef__peek_member *member, const char *p, const char *end)
{
    const char *open = skip_space(p + 1, end);
    bool plain;

    if (open == end || *open != '"')
        return NULL;
    const char *close = find_quote(open + 1, end, &plain);
    if (!close || (!plain && memchr(open, '\\', (size_t)(close - open))))
        return NULL;
    member->key = (ef_str){open + 1, (size_t)(close - open) - 1};
    const char *colon = skip_space(close + 1, end);
    if (colon == end || *colon != ':')
        return NULL;
    if (open == p + 1 && colon == close + 1 && colon - p < EF__PEEK_SPELLED) {
        member->spelled_bytes = (uint8_t)(colon - p + 1);
        memcpy(member->spelled, p, member->spelled_bytes);
    }
    return colon + 1;
}

/* Records the next member; false: the text is not as expected. */
static bool scan_member(ef__peek *peek, ef__peek_member *member)
{
    const char *end = peek->end;
    const char *p = peek->next;

    if (peek->count == EF__PEEK_MEMBERS)
        return false;
    if (is_spelled(member, p, end)) {
        member->key = (ef_str){p + 2, member->spelled_bytes - 4u}; /* without ," and ": */
        p += member->spelled_bytes;
    } else {
        p = scan_key(member, p, end);
        if (!p)
            return false;
    }
    p = skip_space(p, end);
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
    peek->next = *p == ',' ? p : NULL;
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

/* NULL when there is none, or the text is not as expected. */
static ef__peek_member *find_member(ef__peek *peek, ef_str key, bool *out_strict)
{
    ef__peek_member *member = peek->members;

    for (const ef__peek_member *end = member + peek->count; member < end; member++)
        if (ef__str_same(member->key, key))
            return member;
    for (; peek->next; member++) {
        if (!scan_member(peek, member)) {
            *out_strict = true;
            return NULL;
        }
        if (ef__str_same(member->key, key))
            return member;
    }
    return NULL;
}

ef_status ef__peek_get(ef__peek *peek, ef_str key, ef__arena *arena, ef__value *out,
                       bool *out_strict, ef_error *err)
{
    ef__peek_member *member = find_member(peek, key, out_strict);
    ef_status st = EF_OK;

    if (!member) {
        *out = EF__MISSING;
        return EF_OK;
    }
    if (!member->read) {
        st = read_member(member, arena, &member->value, err);
        member->read = st == EF_OK;
    }
    *out = member->value;
    return st;
}
