/*
 * cloudevent.h - CloudEvents 1.0, in (structured, binary, batch) and out (structured, batch).
 * ../base/cloudevent.h maps their attributes to fields of events.
 */
#ifndef EF_SERVER_CLOUDEVENT_H
#define EF_SERVER_CLOUDEVENT_H

#include "request.h"

#include "../base/cloudevent.h"

/* Whether the request is an event in binary mode; the second function converts it to structured
 * mode. */
bool ef__cloudevent_binary(const ef__request *r);
ef_status ef__cloudevent_from_headers(ef__request *r, ef_str *out, ef_error *err);

/* Whether the client asks for CloudEvents (Accept). */
bool ef__cloudevent_wanted(const ef__request *r);

/* {"traceparent":…,"tracestate":…} of the request's headers. EF_BAD_INPUT: invalid traceparent. */
ef_status ef__trace_meta(ef__request *r, ef_str *out, ef_error *err);
/* The trace id in a traceparent; "" if it is invalid. */
ef_str ef__trace_id(ef_str parent);

#endif
