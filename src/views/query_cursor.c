/*
 * query_cursor.c - cursors of queries, as base64url of:
 *
 *     checksum of the query and the rest (8 bytes)
 *     for each sort key, the tenant (with any_tenant) and the id:
 *     length (4 bytes, big-endian)  bytes
 *
 * The checksum is not secret: it detects truncated, mistyped and foreign text, and a cursor of
 * another query. A forged cursor starts a page elsewhere in the same result, which the client may
 * read anyway.
 */
#include "query_priv.h"

#include "../base/hash.h"

#define SUM_BYTES 8
#define CURSOR_MAX (EF__QUERY_SORTS_MAX * (EF__KEY_BYTES + 16) + 1024)

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static uint64_t question_sum(const ef__query *query, ef_str rest)
{
    ef_str filter = query->filter ? ef__filter_source(query->filter) : (ef_str){"", 0};
    uint64_t sum = ef__xxh3(filter, ef__xxh3(query->tenant, (uint64_t)query->generation));

    sum += query->any_tenant;
    for (size_t i = 0; i < query->sort_count; i++)
        sum = ef__xxh3(ef__filter_source(query->sorts[i].by), sum + query->sorts[i].descending);
    return ef__xxh3(rest, sum);
}

static void put_number(char *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (char)(value >> (8 * (bytes - 1 - i)));
}

static void add_text(ef__buf *out, ef_str text)
{
    char length[4];

    put_number(length, text.len, 4);
    ef__buf_add(out, length, sizeof length);
    ef__buf_add_str(out, text);
}

static ef_str encode_base64(ef_str bytes, ef__arena *arena)
{
    size_t len = (bytes.len * 8 + 5) / 6;
    char *text = ef__arena_alloc(arena, len + 1);

    if (!text)
        return (ef_str){0};
    for (size_t i = 0; i < len; i++) {
        size_t bit = i * 6, at = bit / 8;
        unsigned two = (unsigned)(uint8_t)bytes.ptr[at] << 8 |
                       (at + 1 < bytes.len ? (uint8_t)bytes.ptr[at + 1] : 0);
        text[i] = LETTERS[two >> (10 - bit % 8) & 63];
    }
    text[len] = '\0';
    return (ef_str){text, len};
}

bool ef__query_cursor_print(const ef__query *query, const ef__query_place *place, ef__arena *arena,
                            ef_str *out)
{
    EF__AUTO(ef__buf) bytes = EF__BUF_INIT(CURSOR_MAX);
    char sum[SUM_BYTES] = {0};

    ef__buf_add(&bytes, sum, sizeof sum);
    for (size_t i = 0; i < query->sort_count; i++)
        add_text(&bytes, place->keys[i]);
    if (query->any_tenant)
        add_text(&bytes, place->tenant);
    add_text(&bytes, place->id);
    *out = (ef_str){0};
    if (!bytes.failed) {
        ef_str rest = {bytes.ptr + SUM_BYTES, bytes.len - SUM_BYTES};
        put_number(bytes.ptr, question_sum(query, rest), SUM_BYTES);
        *out = encode_base64(ef__buf_str(&bytes), arena);
    }
    return out->ptr != NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint64_t get_number(const char *bytes, int count)
{
    uint64_t value = 0;

    for (int i = 0; i < count; i++)
        value = value << 8 | (uint8_t)bytes[i];
    return value;
}

/* The decoded bytes; len 0: the text has other letters. */
static ef_str decode_base64(ef_str text, ef__arena *arena)
{
    size_t len = text.len * 6 / 8;
    char *bytes = ef__arena_zalloc(arena, len + 2, 1);

    for (size_t i = 0; bytes && i < text.len; i++) {
        const char *letter = text.ptr[i] ? strchr(LETTERS, text.ptr[i]) : NULL;
        size_t bit = i * 6, at = bit / 8;
        unsigned two = letter ? (unsigned)(letter - LETTERS) << (10 - bit % 8) : 0;
        if (!letter)
            return (ef_str){bytes, 0};
        bytes[at] = (char)((uint8_t)bytes[at] | two >> 8);
        bytes[at + 1] = (char)((uint8_t)bytes[at + 1] | (two & 0xff));
    }
    return (ef_str){bytes, bytes ? len : 0};
}

static bool take_text(ef_str *rest, ef_str *out)
{
    uint64_t len = rest->len >= 4 ? get_number(rest->ptr, 4) : UINT64_MAX;

    if (rest->len < 4 || len > rest->len - 4)
        return false;
    *out = (ef_str){rest->ptr + 4, (size_t)len};
    *rest = (ef_str){rest->ptr + 4 + len, rest->len - 4 - (size_t)len};
    return true;
}

ef_status ef__query_cursor_read(const ef__query *query, ef__arena *arena, ef__query_place *out,
                                ef_error *err)
{
    ef_str bytes = {"", 0}, rest = {"", 0};
    bool good;

    if (query->cursor.len <= 2 * CURSOR_MAX)
        bytes = decode_base64(query->cursor, arena);
    if (!bytes.ptr)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out for a cursor");
    if (bytes.len > SUM_BYTES)
        rest = (ef_str){bytes.ptr + SUM_BYTES, bytes.len - SUM_BYTES};
    good = rest.len > 0 && get_number(bytes.ptr, SUM_BYTES) == question_sum(query, rest);
    for (size_t i = 0; good && i < query->sort_count; i++)
        good = take_text(&rest, &out->keys[i]);
    if (query->any_tenant)
        good = good && take_text(&rest, &out->tenant);
    good = good && take_text(&rest, &out->id) && rest.len == 0;
    return good ? EF_OK
                : ef_fail(err, EF_BAD_INPUT,
                          "the cursor is not one of this query: start again without it");
}
