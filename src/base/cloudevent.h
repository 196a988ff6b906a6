/*
 * cloudevent.h - reads and writes an event as a CloudEvent 1.0 in structured JSON.
 *
 * | Everfold      | CloudEvents                                                    |
 * | id, type      | id, type                                                       |
 * | stream        | subject                                                        |
 * | time          | time                                                           |
 * | recorded_at   | recordedtime                                                   |
 * | position      | sequence, 20 digits                                            |
 * | data          | data; datacontenttype is JSON                                  |
 * | meta          | source, dataschema and every extension, by the same names      |
 *
 * A published CloudEvent also has the fields that an HTTP response has beside the event:
 *
 * | tenant        | tenant, unless it is ""                                        |
 * | seq           | streamsequence                                                 |
 * | the partitioner's key | partitionkey                                           |
 */
#pragma once

#include "json.h"

#include <everfold/event.h>

/* `key` NULL: the form of HTTP responses. Otherwise the published form, with that partition key. */
void ef__cloudevent_write(ef__json_writer *w, const ef_event *event, const ef_str *key);

/* The same as ef__event_parse (incoming.h), for a structured CloudEvent that is a valid JSON
 * object. The stream is that of the defaults, or else the subject. */
ef_status ef__cloudevent_parse(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                               ef_new_event *out, ef_error *err);

/* A string of an event's meta by its name, in the arena; "": missing, or not a string. */
ef_str ef__meta_text(ef_str meta, const char *name, ef__arena *arena);
