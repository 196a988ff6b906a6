/*
 * cloudevent.h - an event as a CloudEvent 1.0 in structured JSON, in and out.
 *
 * | ours          | theirs                                                         |
 * | id, type      | id, type                                                       |
 * | stream        | subject                                                        |
 * | time          | time                                                           |
 * | recorded_at   | recordedtime                                                   |
 * | position      | sequence, 20 digits                                            |
 * | data          | data; datacontenttype is JSON                                  |
 * | meta          | source, dataschema and every extension, by the same names      |
 *
 * Where it is published, what an HTTP answer says beside the event stands in it too:
 *
 * | tenant        | tenant, unless it is ""                                        |
 * | seq           | streamsequence                                                 |
 * | the partitioner's key | partitionkey                                           |
 */
#ifndef EF_BASE_CLOUDEVENT_H
#define EF_BASE_CLOUDEVENT_H

#include "json.h"

#include <everfold/event.h>

/* Lower-case letters and digits, as the specification has it. */
bool ef__cloudevent_is_name(ef_str name);

/* `key` NULL: as it is answered. Otherwise as it is published, under that key. */
void ef__cloudevent_write(ef__json_writer *w, const ef_event *event, const ef_str *key);

/* As ef__event_take (incoming.h), for a structured CloudEvent that is known to be a JSON object.
 * The stream is the defaults', or else subject. */
ef_status ef__cloudevent_take(ef_str text, const ef_new_event *defaults, ef__arena *arena,
                              ef_new_event *out, ef_error *err);

/* A text of an event's meta, by its name; "" when there is none or it is no text. In the arena. */
ef_str ef__meta_text(ef_str meta, const char *name, ef__arena *arena);

#endif
