/*
 * append.h - events from a request's body, and the answer that says where they are.
 *
 * One event answers one object, an array an array: 201, or 200 when all of them were there already.
 */
#ifndef EF_SERVER_APPEND_H
#define EF_SERVER_APPEND_H

#include "request.h"

typedef struct ef__append_request {
    ef_new_event *events;
    ef_place *places;
    size_t count;
    /* append.c's own: */
    size_t room;
    bool one;   /* the body is one event: the answer is one object */
    bool asked; /* it has got as far as the journal */
    ef_new_event defaults;
    ef_status (*take)(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                      ef_new_event *out, ef_error *err);
} ef__append_request;

/* The events of the body, with room for their places. They live as long as the request, and until
 * ef__append_request_end, which has to be called whatever this returns. */
ef_status ef__append_request_read(ef__request *r, ef__append_request *a, ef_error *err);
/* What became of it: counted, answered, and its memory given back. Returns `st`. */
ef_status ef__append_request_end(ef__request *r, ef__append_request *a, ef_status st,
                                 int64_t began_us);

#endif
