/*
 * incoming.h - JSON from outside into events. No I/O: the fuzzer uses it too.
 */
#ifndef EF_BASE_INCOMING_H
#define EF_BASE_INCOMING_H

#include "arena.h"

#include <everfold/event.h>

/*
 * An event is a JSON object: stream, type, data, and optional tenant, id, expected_seq, meta,
 * schema, time. `data` and `meta` of `out` are the bytes as they stand in the text; the other texts
 * are in the text or, where they had escapes, in `arena`. expected_seq 0 means that the stream must
 * be new, null that any seq will do. An event that was read from a journal has seq, position and
 * recorded_at too: seq N means that the stream must be at N - 1, the others are only checked for
 * their form. What `defaults` has is for objects that do not name it. Names and
 * sizes are left to ef_event_check.
 *
 * EF_BAD_JSON, EF_BAD_INPUT (the message names the key), EF_TOO_LARGE
 */
ef_status ef__event_decode(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                           ef_new_event *out, ef_error *err);

/* The same for text that is known to be a JSON object. */
ef_status ef__event_take(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                         ef_new_event *out, ef_error *err);

/* One member of an object, or item of an array, as it stands in the text. */
typedef struct ef__slice {
    ef_str key; /* unescaped; "" in an array */
    ef_str raw;
} ef__slice;

/*
 * Walk an object or array that is known to be JSON: true and the next one, or false at the end.
 * *at begins as 0 and is the walk's own.
 */
ef_status ef__slice_next(ef_str text, size_t *at, ef__arena *arena, ef__slice *out, bool *out_more,
                         ef_error *err);
/* A slice that is a string, unescaped; EF_BAD_INPUT names `key` when it is none. */
ef_status ef__slice_text(const char *key, ef_str raw, ef__arena *arena, ef_str *out, ef_error *err);

#endif
