/*
 * cloudevent.h - CloudEvents 1.0, in (structured, binary, batch) and out (structured, batch).
 *
 * | ours          | theirs                                                    |
 * | id, type      | id, type                                                  |
 * | stream        | subject                                                   |
 * | time          | time                                                      |
 * | recorded_at   | recordedtime                                              |
 * | position      | sequence, 20 digits                                       |
 * | data          | data; datacontenttype is JSON                             |
 * | meta          | source, dataschema and every extension, by the same names |
 */
#ifndef EF_SERVER_CLOUDEVENT_H
#define EF_SERVER_CLOUDEVENT_H

#include "request.h"

/* As ef__event_take, for a structured CloudEvent. The stream is the defaults', or else subject. */
ef_status ef__cloudevent_take(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                              ef_new_event *out, ef_error *err);

/* Is the request an event in binary mode? Then the structured one that it stands for. */
bool ef__cloudevent_binary(const ef__request *r);
ef_status ef__cloudevent_from_headers(ef__request *r, ef_str *out, ef_error *err);

/* Does the caller want CloudEvents back (Accept)? */
bool ef__cloudevent_wanted(const ef__request *r);
void ef__cloudevent_write(ef__json_writer *w, const ef_event *event);

/* {"traceparent":…,"tracestate":…} of the request's headers. EF_BAD_INPUT: it is no trace parent.
 */
ef_status ef__trace_meta(ef__request *r, ef_str *out, ef_error *err);
/* The trace's own id out of a trace parent; "" when it is none. */
ef_str ef__trace_id(ef_str parent);

#endif
