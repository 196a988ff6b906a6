/*
 * json.h - a strict JSON validator, a tree for code that needs one, and a writer.
 *
 * Strict RFC 8259 with our limits: valid UTF-8 throughout, no NUL (raw or as backslash-u0000), no
 * lone surrogate, no duplicate key in an object (compared after unescaping), depth, key count and
 * number limits of limits.h. Numbers stay text: nothing passes through a double. All JSON of
 * Everfold is read by ef__json_check or ef__json_parse, and both accept exactly the same texts.
 */
#pragma once

#include "arena.h"
#include "buf.h"

#include <everfold/status.h>

typedef enum ef__json_kind {
    EF__JSON_NULL,
    EF__JSON_FALSE,
    EF__JSON_TRUE,
    EF__JSON_NUMBER,
    EF__JSON_STRING,
    EF__JSON_ARRAY,
    EF__JSON_OBJECT
} ef__json_kind;

typedef struct ef__json ef__json;

struct ef__json {
    ef__json_kind kind;
    bool sorted;     /* object: the children are sorted by key */
    ef_str text;     /* number: as written. string: unescaped. array, object: the source bytes */
    ef__json *first; /* array, object: first child */
    ef__json *next;  /* sibling */
    ef_str key;      /* of a child of an object: unescaped */
    size_t count;    /* array, object: number of children */
};

/*
 * Checks one JSON text of at most `max_bytes`; allocates nothing in common cases. The message has
 * the offset, line and column of the mistake, and what was found there.
 * EF_BAD_JSON, EF_TOO_LARGE, EF_NO_MEMORY
 */
ef_status ef__json_check(ef_str text, size_t max_bytes, ef__json_kind *out_kind, ef_error *err);

/* The same, and builds the tree in `arena`. Strings without an escape point into `text`. */
ef_status ef__json_parse(ef_str text, size_t max_bytes, ef__arena *arena, ef__json **out,
                         ef_error *err);

/*
 * The same for a text that contains data, such as an event, a view or a list of them: it may be
 * nested EF_LIMIT_ENVELOPE_DEPTH deeper, so that data has the same limit in every envelope. The
 * data itself is checked where it is used.
 */
ef_status ef__json_check_envelope(ef_str text, size_t max_bytes, ef__json_kind *out_kind,
                                  ef_error *err);
ef_status ef__json_parse_envelope(ef_str text, size_t max_bytes, ef__arena *arena, ef__json **out,
                                  ef_error *err);

/* The member with that name; NULL: none, or `object` is not an object. */
const ef__json *ef__json_get(const ef__json *object, const char *key);
/* The string of that name; "": none, or another kind. */
ef_str ef__json_text(const ef__json *object, const char *key);
/*
 * The first member of an object, after sorting the members in place by key (UTF-8 bytes), once. Not
 * while another loop iterates over them.
 */
const ef__json *ef__json_sorted(const ef__json *object);
/* A JSON number that is an integer (no fraction, no exponent) in int64: 0, else -1. */
int ef__json_int64(const ef__json *number, int64_t *out);

/*
 * Canonical text: keys sorted by their UTF-8 bytes, no spaces, shortest escapes; numbers as they
 * were written. For hashing and comparing views, never for stored events.
 */
bool ef__json_canonical(const ef__json *value, ef__buf *out);

/* A JSON string with quotes; control characters, quotes and backslashes are escaped. */
bool ef__json_write_string(ef__buf *out, ef_str text);

/*
 * A writer that inserts commas and colons. Objects keep the order of calls.
 *     ef__json_writer writer = EF__JSON_WRITER(&buf);
 *     ef__json_open(&writer, '{');
 */
typedef struct ef__json_writer {
    ef__buf *out;
    bool comma; /* a value precedes the next one */
} ef__json_writer;

#define EF__JSON_WRITER(buf)                                                                       \
    {                                                                                              \
        (buf), false                                                                               \
    }

void ef__json_open(ef__json_writer *w, char bracket);  /* '{' or '[' */
void ef__json_close(ef__json_writer *w, char bracket); /* '}' or ']' */
void ef__json_key_str(ef__json_writer *w, ef_str key);
void ef__json_key(ef__json_writer *w, const char *key);
void ef__json_str(ef__json_writer *w, ef_str value);
void ef__json_int(ef__json_writer *w, int64_t value);
void ef__json_bool(ef__json_writer *w, bool value);
void ef__json_null(ef__json_writer *w);
void ef__json_raw(ef__json_writer *w, ef_str value);     /* valid JSON text */
void ef__json_time(ef__json_writer *w, int64_t time_us); /* RFC 3339 string; 0: null */

/* A key and its value. */
void ef__json_member_str(ef__json_writer *w, const char *key, ef_str value);
void ef__json_member_name(ef__json_writer *w, const char *key, ef_str value); /* "": null */
void ef__json_member_text(ef__json_writer *w, const char *key, const char *value);
void ef__json_member_int(ef__json_writer *w, const char *key, int64_t value);
void ef__json_member_bool(ef__json_writer *w, const char *key, bool value);
void ef__json_member_time(ef__json_writer *w, const char *key, int64_t time_us);
void ef__json_member_raw(ef__json_writer *w, const char *key, ef_str value); /* NULL: null */
void ef__json_member_open(ef__json_writer *w, const char *key, char bracket);
