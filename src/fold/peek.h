/*
 * peek.h - fields of an event's data, found without reading all of it.
 *
 * Most programs touch a few fields of an event. A scan goes over the members of the outermost
 * object as far as it has to, and a member is read, strictly, when somebody asks for it. Events
 * were checked when they were appended, so what nobody asks for needs no second look; a text that
 * is not as expected (no object, a key with an escape, too many members) is left to the strict
 * reader.
 *
 * Events of one type mostly have the same keys in the same order. A peek is used for one event
 * after the other, and copies how each place's key was spelled: where the next event has the very
 * same bytes there, its quotes need not be looked for.
 */
#ifndef EF_FOLD_PEEK_H
#define EF_FOLD_PEEK_H

#include "value.h"

enum { EF__PEEK_MEMBERS = 32, EF__PEEK_SPELLED = 23 };

typedef struct ef__peek_member {
    ef_str key;
    ef_str raw; /* the value as it is written */
    bool plain; /* a string: ASCII without controls and backslashes, so it is what it says */
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

/* Begin with an event; false: use the strict reader. Before the first one, `peek` is all zero. */
bool ef__peek_begin(ef__peek *peek, ef_str data);
/*
 * The member of that name; EF__MISSING when there is none. `*out_strict` says that the text is not
 * for peeking, and the strict reader has to be asked. EF_BAD_JSON, EF_TOO_LARGE, EF_NO_MEMORY
 */
ef_status ef__peek_get(ef__peek *peek, ef_str key, ef__arena *arena, ef__value *out,
                       bool *out_strict, ef_error *err);

#endif
