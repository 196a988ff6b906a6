/*
 * envelope.c - converts between messages and events.
 *
 * Tenant and stream are in the subject. The rest is one of
 *
 *     native        {"id","type","schema","time","data","meta"}; type and data are required
 *     structured    a CloudEvent 1.0: an object with specversion
 *     binary        headers ce-specversion, ce-id, ce-type …, and the data as the payload
 *
 * A tenant or stream in the envelope must be that of the subject. An event without an id gets the
 * header Nats-Msg-Id, or else STREAM/SEQUENCE.
 */
#include "jet.h"

#include "../../base/cloudevent.h"
#include "../../base/incoming.h"
#include "../../base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ENVELOPE_BYTES EF_LIMIT_LINE_BYTES /* as large as an imported line: the same content */

/* --- message metadata ------------------------------------------------------------------------- */

/*
 * $JS.ACK.STREAM.CONSUMER.times.position.delivered.time_ns.pending; newer brokers write
 * DOMAIN.ACCOUNT before the stream and a random token at the end.
 */
bool jet_place_parse(const char *reply, jet_place *out)
{
    const char *tokens[12];
    size_t count = 0, first;

    if (!reply || strncmp(reply, "$JS.ACK.", 8) != 0)
        return false;
    for (const char *at = reply; at && count < 12; at = strchr(at, '.'))
        tokens[count++] = at += *at == '.';
    if (count != 9 && count < 11)
        return false;
    first = count == 9 ? 4 : 6;
    *out = (jet_place){.times = strtoull(tokens[first], NULL, 10),
                       .position = strtoll(tokens[first + 1], NULL, 10),
                       .delivered = strtoull(tokens[first + 2], NULL, 10),
                       .time_us = strtoll(tokens[first + 3], NULL, 10) / 1000,
                       .pending = strtoull(tokens[first + 4], NULL, 10)};
    return out->position > 0;
}

/* --- reading a message ------------------------------------------------------------------------ */

static ef_str get_header(natsMsg *msg, const char *name)
{
    const char *value = NULL;

    return natsMsgHeader_Get(msg, name, &value) == NATS_OK && value ? ef_str_from(value)
                                                                    : EF_STR("");
}

/* Writes the header ce-NAME as a member. Headers of NATS are case-sensitive, so CE-NAME is not
 * read.
 */
static void add_attribute(ef__json_writer *writer, natsMsg *msg, const char *name)
{
    char key[65];

    if (strncmp(name, "ce-", 3) != 0 || strlen(name + 3) >= sizeof key)
        return;
    (void)snprintf(key, sizeof key, "%s", name + 3);
    ef__json_member_str(writer, key, get_header(msg, name));
}

/* Builds the structured form of an event in binary mode. */
static ef_status join_headers(natsMsg *msg, ef_str body, ef__arena *arena, ef_str *out,
                              ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(ENVELOPE_BYTES);
    ef__json_writer writer = EF__JSON_WRITER(&text);
    ef_str content = get_header(msg, "Content-Type");
    const char **keys = NULL;
    int count = 0;
    /* Checked alone first: it is inserted as it is, and must be exactly one JSON value. */
    ef_status st = body.len ? ef__json_check(body, ENVELOPE_BYTES, NULL, err) : EF_OK;

    if (st != EF_OK)
        return st;
    (void)natsMsgHeader_Keys(msg, &keys, &count);
    ef__json_open(&writer, '{');
    for (int i = 0; i < count; i++)
        add_attribute(&writer, msg, keys[i]);
    free((void *)keys);
    if (content.len)
        ef__json_member_str(&writer, "datacontenttype", content);
    if (body.len) {
        ef__json_key(&writer, "data");
        ef__json_raw(&writer, body);
    }
    ef__json_close(&writer, '}');
    *out = text.failed ? (ef_str){0} : ef__arena_copy(arena, ef__buf_str(&text));
    return out->ptr ? EF_OK : ef_fail(err, EF_TOO_LARGE, "the envelope is too large");
}

/* Is there a member specversion? The text is a valid JSON object. */
static bool is_cloudevent(ef_str text, ef__arena *arena)
{
    ef__slice member;
    size_t at = 0;
    bool more = true;

    while (ef__slice_next(text, &at, arena, &member, &more, NULL) == EF_OK && more)
        if (ef_str_equal(member.key, EF_STR("specversion")))
            return true;
    return false;
}

/* The subject of a CloudEvent identifies something in its source: it need not be the stream. */
static ef_status decode_envelope(natsMsg *msg, ef_str text, const ef_new_event *place,
                                 ef__arena *arena, ef_new_event *out, ef_error *err)
{
    ef__json_kind kind = EF__JSON_NULL;
    bool binary = get_header(msg, "ce-specversion").len > 0;
    ef_status st = binary ? join_headers(msg, text, arena, &text, err) : EF_OK;

    if (st == EF_OK)
        st = ef__json_check_envelope(text, ENVELOPE_BYTES, &kind, err);
    if (st == EF_OK && kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_INPUT, "the envelope is not a JSON object");
    if (st != EF_OK)
        return st;
    if (binary || is_cloudevent(text, arena))
        return ef__cloudevent_parse(text, place, arena, out, err);
    st = ef__event_parse(text, place, arena, out, err);
    if (st == EF_OK &&
        (!ef_str_equal(out->tenant, place->tenant) || !ef_str_equal(out->stream, place->stream)))
        st =
            ef_fail(err, EF_BAD_INPUT, "tenant or stream of the envelope differs from the subject");
    return st;
}

/* Publishers send "tenant/id"; other clients send any text. */
static ef_str message_id(natsMsg *msg, const ef_new_event *event)
{
    ef_str id = get_header(msg, "Nats-Msg-Id");
    size_t prefix = event->tenant.len + 1;

    if (id.len > prefix && id.ptr[prefix - 1] == '/' &&
        memcmp(id.ptr, event->tenant.ptr ? event->tenant.ptr : "", prefix - 1) == 0)
        return (ef_str){id.ptr + prefix, id.len - prefix};
    return id;
}

static ef_status fill_defaults(const jet_store *store, natsMsg *msg, const jet_place *place,
                               ef__arena *arena, ef_new_event *event)
{
    char id[JET_NAME_MAX + 24];

    event->expected_seq = (ef_expected_seq){0};
    if (event->id.len == 0)
        event->id = message_id(msg, event);
    if (event->id.len == 0) {
        (void)snprintf(id, sizeof id, "%s/%" PRId64, store->address.stream, place->position);
        event->id = ef__arena_copy(arena, ef_str_from(id));
    }
    if (event->time_us == 0)
        event->time_us = place->time_us;
    if (event->schema == 0)
        event->schema = 1;
    if (event->data.len == 0)
        event->data = EF_STR("{}");
    if (event->meta.len == 0)
        event->meta = EF_STR("{}");
    return event->id.ptr ? EF_OK : EF_NO_MEMORY;
}

/* Makes the event that stands for an unreadable message: an empty type, and the reason as data. */
static ef_status make_unreadable(const char *subject, const char *why, ef__arena *arena,
                                 ef_new_event *out)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(8192);
    ef_str shown = ef__utf8_cut(ef_str_from(subject), EF_LIMIT_NAME_BYTES);

    ef__json_write_string(&text, ef_str_from(why));
    out->type = EF_STR("");
    out->data = text.failed ? EF_STR("\"unreadable\"") : ef__arena_copy(arena, ef__buf_str(&text));
    out->meta = EF_STR("{}");
    out->id = (ef_str){0};
    out->schema = 0;
    out->time_us = 0;
    if (out->stream.len == 0 || out->stream.len > EF_LIMIT_NAME_BYTES ||
        out->tenant.len > EF_LIMIT_NAME_BYTES || !ef__utf8_valid(out->stream) ||
        !ef__utf8_valid(out->tenant)) {
        out->tenant = EF_STR("");
        out->stream = ef__utf8_valid(shown) ? ef__arena_copy(arena, shown) : EF_STR("unreadable");
    }
    return out->data.ptr && out->stream.ptr ? EF_OK : EF_NO_MEMORY;
}

ef_status jet_event_decode(const jet_store *store, natsMsg *msg, const jet_place *place,
                           ef__arena *arena, ef__buf *scratch, ef_event *out, ef_error *err)
{
    static const uint8_t none[EF_HASH_BYTES];
    ef_error why = EF_ERROR_INIT;
    ef_new_event at = {0}, event = {0};
    ef_str text =
        ef__arena_copy(arena, (ef_str){natsMsg_GetData(msg), (size_t)natsMsg_GetDataLength(msg)});
    ef_status st = jet_subject_parse(natsMsg_GetSubject(msg), arena, &at.tenant, &at.stream, &why);

    if (!text.ptr)
        return ef__no_memory(err);
    if (st == EF_OK)
        st = decode_envelope(msg, text, &at, arena, &event, &why);
    if (st == EF_OK)
        st = fill_defaults(store, msg, place, arena, &event);
    if (st == EF_OK)
        st = ef_event_check(&event, 1, NULL, &why);
    if (st != EF_OK && st != EF_NO_MEMORY) {
        event = at;
        st = make_unreadable(natsMsg_GetSubject(msg), why.text, arena, &event);
        if (st == EF_OK)
            st = fill_defaults(store, msg, place, arena, &event);
    }
    *out = (ef_event){.tenant = event.tenant,
                      .stream = event.stream,
                      .seq = place->position,
                      .position = place->position,
                      .id = ef__arena_copy(arena, event.id),
                      .type = event.type,
                      .schema = event.schema,
                      .time_us = event.time_us,
                      .recorded_us = place->time_us,
                      .data = event.data,
                      .meta = event.meta};
    return st == EF_OK && out->id.ptr && ef__event_seal(none, out, scratch, out->hash, NULL)
               ? EF_OK
               : ef__no_memory(err);
}

/* --- writing a message ------------------------------------------------------------------------ */

bool jet_event_write(const ef__arrival *arrival, ef__buf *out)
{
    const ef_new_event *event = &arrival->event;
    ef__json_writer writer = EF__JSON_WRITER(out);

    ef__buf_reset(out);
    ef__json_open(&writer, '{');
    ef__json_member_str(&writer, "id", event->id);
    ef__json_member_str(&writer, "type", event->type);
    ef__json_member_int(&writer, "schema", event->schema);
    ef__json_member_time(&writer, "time", event->time_us);
    ef__json_key(&writer, "data");
    ef__json_raw(&writer, event->data);
    ef__json_key(&writer, "meta");
    ef__json_raw(&writer, event->meta);
    ef__json_close(&writer, '}');
    return !out->failed;
}
