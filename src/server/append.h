/*
 * append.h - reads events from the body of a request, and writes their places as the response.
 *
 * The response to one event is one object, to an array an array: 201, or 200 if all of them are
 * duplicates.
 */
#ifndef EF_SERVER_APPEND_H
#define EF_SERVER_APPEND_H

#include "request.h"

typedef struct ef__append_request {
    ef_new_event *events;
    ef_place *places;
    size_t count;
    /* Private to append.c: */
    size_t capacity;
    bool one;   /* the body is one event: the response is one object */
    bool asked; /* the request was valid and reached the journal */
    ef_new_event defaults;
    ef_status (*take)(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                      ef_new_event *out, ef_error *err);
} ef__append_request;

/* The events of the body, with memory for their places. They live until ef__append_request_end,
 * which must be called whatever this returns. */
ef_status ef__append_request_read(ef__request *r, ef__append_request *a, ef_error *err);
/* Counts the append, writes the response and frees the memory. Returns `st`. */
ef_status ef__append_request_end(ef__request *r, ef__append_request *a, ef_status st,
                                 int64_t began_us);

#endif
