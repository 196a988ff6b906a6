/*
 * event.c - functions of all back ends for events: the encoding for the hash, comparison of events,
 * and type patterns.
 *
 * The encoded event; numbers are little-endian, and a text is its length (32 bits) and its bytes:
 *
 *     u8 version = 1
 *     i64 seq | i64 position | i32 schema | i64 time_us | i64 recorded_us
 *     text tenant | text stream | text id | text type | text data | text meta
 *
 * `type` is the type of the append. Back ends hash and compare events before they replace an alias
 * by its canonical name, because aliases may change and the hash chain must not.
 */
#include "journal.h"

#include "../base/hash.h"

#include <inttypes.h>
#include <string.h>

#define ENCODING_VERSION 1
#define ENCODED_FIXED_BYTES (1 + 8 + 8 + 4 + 8 + 8 + 6 * 4)

static char *put_u32(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(value >> (8 * i));
    return at + 4;
}

static char *put_u64(char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (char)(value >> (8 * i));
    return at + 8;
}

static char *put_text(char *at, ef_str text)
{
    at = put_u32(at, (uint32_t)text.len);
    if (text.len)
        memcpy(at, text.ptr, text.len);
    return at + text.len;
}

bool ef__event_encode(const ef_event *event, ef__buf *out)
{
    size_t bytes = ENCODED_FIXED_BYTES + event->tenant.len + event->stream.len + event->id.len +
                   event->type.len + event->data.len + event->meta.len;
    char *at;

    if (!ef__buf_reserve(out, bytes))
        return false;
    at = out->ptr + out->len;
    *at++ = ENCODING_VERSION;
    at = put_u64(at, (uint64_t)event->seq);
    at = put_u64(at, (uint64_t)event->position);
    at = put_u32(at, (uint32_t)event->schema);
    at = put_u64(at, (uint64_t)event->time_us);
    at = put_u64(at, (uint64_t)event->recorded_us);
    at = put_text(at, event->tenant);
    at = put_text(at, event->stream);
    at = put_text(at, event->id);
    at = put_text(at, event->type);
    at = put_text(at, event->data);
    at = put_text(at, event->meta);
    out->len += bytes;
    out->ptr[out->len] = '\0';
    return true;
}

bool ef__event_seal(const uint8_t before[EF_HASH_BYTES], const ef_event *event, ef__buf *scratch,
                    uint8_t out_hash[EF_HASH_BYTES], uint64_t *out_sum)
{
    ef_str head = {(const char *)before, EF_HASH_BYTES};

    ef__buf_reset(scratch);
    if (!ef__event_encode(event, scratch))
        return false;
    if (out_sum)
        *out_sum = ef__xxh3(ef__buf_str(scratch), 0);
    return ef__sha256(head, ef__buf_str(scratch), out_hash);
}

ef_status ef__sealed_place_check(const ef_event *sealed, int64_t position, bool duplicate,
                                 ef_error *err)
{
    if (duplicate)
        return ef_fail(err, EF_CONFLICT,
                       "event \"%.*s\" of position %" PRId64
                       " is in the target already, at %" PRId64,
                       EF_STR_ARG(sealed->id), sealed->position, position);
    if (position != sealed->position)
        return ef_fail_numbers(err, EF_CONFLICT, sealed->position, position,
                               "the next position of the target is %" PRId64 ", not %" PRId64
                               ": another process appends to it",
                               position, sealed->position);
    return EF_OK;
}

ef_status ef__sealed_hash_check(const ef_event *sealed, const uint8_t hash[EF_HASH_BYTES],
                                ef_error *err)
{
    if (memcmp(sealed->hash, hash, EF_HASH_BYTES) == 0)
        return EF_OK;
    return ef_fail_numbers(err, EF_DAMAGED, sealed->position, sealed->position,
                           "the event at position %" PRId64
                           " of the source does not have the hash that follows from the events",
                           sealed->position);
}

ef_event ef__arrival_event(const ef__arrival *arrival, int64_t seq)
{
    const ef_new_event *event = &arrival->event;

    return (ef_event){.tenant = event->tenant,
                      .stream = event->stream,
                      .seq = seq,
                      .id = event->id,
                      .type = event->type,
                      .schema = event->schema,
                      .time_us = event->time_us,
                      .data = event->data,
                      .meta = event->meta};
}

bool ef__event_same(const ef__arrival *arrival, const ef_event *stored)
{
    const ef_new_event *event = &arrival->event;

    return event->schema == stored->schema &&
           (!arrival->time_given || event->time_us == stored->time_us) &&
           ef_str_equal(event->tenant, stored->tenant) &&
           ef_str_equal(event->stream, stored->stream) && ef_str_equal(event->id, stored->id) &&
           ef_str_equal(event->type, stored->type) && ef_str_equal(event->data, stored->data) &&
           ef_str_equal(event->meta, stored->meta);
}

ef_status ef__seq_check(const ef_new_event *event, int64_t seq, ef_error *err)
{
    int64_t expected = event->expected_seq.plus_one - 1;

    if (event->expected_seq.plus_one == 0 || seq == expected)
        return EF_OK;
    return ef_fail_numbers(err, EF_CONFLICT, expected, seq,
                           "stream \"%.*s\" is at seq %" PRId64 ", not at %" PRId64
                           ": read the stream, then decide again",
                           EF_STR_ARG(event->stream), seq, expected);
}

ef_status ef__id_conflict(ef_str id, int64_t position, ef_error *err)
{
    return ef_fail_numbers(err, EF_ID_CONFLICT, 0, position,
                           "event id \"%.*s\" is at position %" PRId64
                           " already, with other content; give a new event a new id",
                           EF_STR_ARG(id), position);
}

static ef_str trim_spaces(ef_str text)
{
    while (text.len && text.ptr[0] == ' ') {
        text.ptr++;
        text.len--;
    }
    while (text.len && text.ptr[text.len - 1] == ' ')
        text.len--;
    return text;
}

static bool matches_one(ef_str type, ef_str pattern)
{
    if (pattern.len && pattern.ptr[pattern.len - 1] == '*') {
        size_t prefix = pattern.len - 1;
        return type.len >= prefix && (prefix == 0 || memcmp(type.ptr, pattern.ptr, prefix) == 0);
    }
    return ef_str_equal(type, pattern);
}

bool ef__type_matches(ef_str type, ef_str patterns)
{
    size_t start = 0;

    if (patterns.len == 0)
        return true;
    for (size_t i = 0; i <= patterns.len; i++) {
        if (i < patterns.len && patterns.ptr[i] != ',')
            continue;
        ef_str pattern = trim_spaces((ef_str){patterns.ptr + start, i - start});
        if (pattern.len && matches_one(type, pattern))
            return true;
        start = i + 1;
    }
    return false;
}
