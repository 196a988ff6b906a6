/*
 * peek.h - finds fields of an event's data without parsing all of it.
 *
 * Most programs read a few fields of an event. A scan runs over the members of the outermost object
 * as far as necessary, and a member is parsed, strictly, when it is needed. Events were validated
 * when they were appended, so members that are not needed are not checked again; a text that is not
 * as expected (not an object, a key with an escape, too many members) is left to the strict parser.
 *
 * Events of one type mostly have the same keys in the same order. A peek is used for one event
 * after the other, and copies the spelling of the key at each place: where the next event has the
 * same bytes, its quotes need not be searched.
 */
#pragma once

#include "value.h"

enum {
    EF__PEEK_MEMBERS = 32, /* of the outermost object: more than most events have */
    EF__PEEK_SPELLED = 23  /* bytes of a key with its quotes; with its length it fills 24 bytes */
};

typedef struct ef__peek_member {
    ef_str key;
    ef_str raw; /* the value as it is written */
    bool plain; /* a string: ASCII without controls and backslashes, so it needs no unescaping */
    bool read;
    ef__value value;
    /* A key as it stood here in an event before, from the bracket or comma in front of it to its
     * colon. 0 bytes: there was none that is short enough and written without spaces. */
    uint8_t spelled_bytes;
    char spelled[EF__PEEK_SPELLED];
} ef__peek_member;

typedef struct ef__peek {
    const char *next; /* the bracket or comma before the next member; NULL when there is none */
    const char *end;
    size_t count; /* members so far */
    ef__peek_member members[EF__PEEK_MEMBERS];
} ef__peek;

/* Starts with an event; false: use the strict parser. Before the first one, `peek` is all zero. */
bool ef__peek_begin(ef__peek *peek, ef_str data);
/*
 * The member of that name; EF__MISSING: none. `*out_strict`: the text cannot be peeked, use the
 * strict parser. EF_BAD_JSON, EF_TOO_LARGE, EF_NO_MEMORY
 */
ef_status ef__peek_get(ef__peek *peek, ef_str key, ef__arena *arena, ef__value *out,
                       bool *out_strict, ef_error *err);
