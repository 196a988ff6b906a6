/*
 * incoming.h - decodes events from JSON. No I/O: the fuzzer uses it too.
 */
#pragma once

#include "arena.h"

#include <everfold/event.h>

/*
 * An event is a JSON object: stream, type, data, and optional tenant, id, expected_seq, meta,
 * schema, time. `data` and `meta` of `out` point into the text; so do the other strings, or into
 * `arena` if they have escapes. expected_seq 0 means that the stream must be new, null any seq. An
 * event that was read from a journal also has seq, position and recorded_at: seq N means that the
 * stream must be at N - 1; the others are only checked for their form. `defaults` has the values of
 * missing keys. Names and sizes are left to ef_event_check.
 *
 * EF_BAD_JSON, EF_BAD_INPUT (the message names the key), EF_TOO_LARGE
 */
ef_status ef__event_decode(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                           ef_new_event *out, ef_error *err);

/* The same for text that is a valid JSON object. */
ef_status ef__event_parse(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                          ef_new_event *out, ef_error *err);

/* A member of an object, or an item of an array, as bytes of the text. */
typedef struct ef__slice {
    ef_str key; /* unescaped; "" in an array */
    ef_str raw;
} ef__slice;

/*
 * Iterates over an object or array that is valid JSON: *out_more is false at the end. *at starts as
 * 0 and belongs to the iteration.
 */
ef_status ef__slice_next(ef_str text, size_t *at, ef__arena *arena, ef__slice *out, bool *out_more,
                         ef_error *err);
/* A slice that is a string, unescaped; EF_BAD_INPUT names `key`: it is not a string. */
ef_status ef__slice_text(const char *key, ef_str raw, ef__arena *arena, ef_str *out, ef_error *err);
