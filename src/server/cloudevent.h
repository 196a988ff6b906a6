/*
 * cloudevent.h - CloudEvents 1.0, in (structured, binary, batch) and out (structured, batch).
 * Which of ours is which of theirs: ../base/cloudevent.h.
 */
#ifndef EF_SERVER_CLOUDEVENT_H
#define EF_SERVER_CLOUDEVENT_H

#include "request.h"

#include "../base/cloudevent.h"

/* Is the request an event in binary mode? Then the structured one that it stands for. */
bool ef__cloudevent_binary(const ef__request *r);
ef_status ef__cloudevent_from_headers(ef__request *r, ef_str *out, ef_error *err);

/* Does the caller want CloudEvents back (Accept)? */
bool ef__cloudevent_wanted(const ef__request *r);

/* {"traceparent":…,"tracestate":…} of the request's headers. EF_BAD_INPUT: it is no trace parent.
 */
ef_status ef__trace_meta(ef__request *r, ef_str *out, ef_error *err);
/* The trace's own id out of a trace parent; "" when it is none. */
ef_str ef__trace_id(ef_str parent);

#endif
