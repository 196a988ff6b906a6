/*
 * events.c - appending and reading events, their types, and facts about the store.
 */
#include "client_priv.h"

#include <inttypes.h>
#include <stdio.h>

/* --- appending -------------------------------------------------------------------------------- */

static void write_text(ef__json_writer *w, const char *key, ef_str value)
{
    if (value.len == 0)
        return;
    ef__json_member_str(w, key, value);
}

static void write_event(ef__json_writer *w, const ef_new_event *event)
{
    ef__json_open(w, '{');
    write_text(w, "tenant", event->tenant);
    write_text(w, "stream", event->stream);
    write_text(w, "type", event->type);
    write_text(w, "id", event->id);
    if (event->expected_seq.plus_one)
        ef__json_member_int(w, "expected_seq", event->expected_seq.plus_one - 1);
    if (event->schema != 0)
        ef__json_member_int(w, "schema", event->schema);
    if (event->time_us != 0)
        ef__json_member_time(w, "time", event->time_us);
    ef__json_member_raw(w, "data", event->data);
    if (event->meta.len > 0)
        ef__json_member_raw(w, "meta", event->meta);
    ef__json_close(w, '}');
}

static ef_status read_places(const ef__json *answer, size_t count, ef_place *out, ef_error *err)
{
    const ef__json *item = answer ? answer->first : NULL;

    if (!answer || answer->kind != EF__JSON_ARRAY || answer->count != count)
        return ef_fail(err, EF_UNSURE,
                       "invalid response from the server: not one result per event");
    for (size_t i = 0; i < count; i++, item = item->next) {
        ef__append_result placed;
        ef_status st = ef__shape_read(item, &ef__shape_append_result, &placed, err);
        if (st != EF_OK)
            return ef_fail(err, EF_UNSURE,
                           "invalid response from the server: an append result is incomplete");
        out[i] = (ef_place){
            .seq = placed.seq, .position = placed.position, .duplicate = placed.duplicate};
        (void)snprintf(out[i].id, sizeof(out[i].id), "%.*s", EF_STR_ARG(placed.id));
    }
    return EF_OK;
}

/* Events are validated here, so that data and meta can be sent unchanged. */
ef_status ef_client_append(ef_client *client, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    EF__AUTO(ef__client_call) call = EF__CLIENT_CALL;
    ef__json_writer w = ef__client_call_writer(&call);
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(EF__CALL_RESPONSE_MAX);
    const ef__json *response;
    ef_status st = ef_event_check(events, count, NULL, err);

    if (st != EF_OK)
        return st;
    ef__operation_write(&ef__op_append_many, NULL, &call);
    ef__json_open(&w, '[');
    for (size_t i = 0; i < count; i++)
        write_event(&w, &events[i]);
    ef__json_close(&w, ']');
    st = ef__client_call_json(client, &call, &arena, &response, err);
    if (st == EF_OK)
        st = read_places(response, count, out_places, err);
    return st;
}

/* --- reading ---------------------------------------------------------------------------------- */

ef_status ef__operation_batch(ef_client *client, const ef__operation *operation,
                              const void *request, ef_batch *out, int64_t *out_next, ef_error *err)
{
    ef__reply reply;
    ef_status st = ef__operation_call(client, operation, request, &out->room, &reply, err);

    out->events = reply.items;
    out->count = reply.count;
    out->more = reply.more;
    *out_next = reply.next;
    return st;
}

ef_status ef_client_read_stream(ef_client *client, ef_str tenant, ef_str stream, int64_t from_seq,
                                size_t limit, ef_batch *out, ef_error *err)
{
    ef__stream_request request = {
        .tenant = tenant, .stream = stream, .from_seq = from_seq, .limit = limit};
    int64_t next = 0;
    ef_status st = ef__operation_batch(client, &ef__op_read_stream, &request, out, &next, err);

    out->more = next > 0;
    return st;
}

ef_status ef_client_read_log(ef_client *client, const ef_log_query *query, ef_batch *out,
                             ef_error *err)
{
    ef__log_request request = {.query = *query};
    int64_t next = 0;
    ef_status st;

    if (query->any_tenant)
        request.query.tenant = EF_STR("");
    st = ef__operation_batch(client, &ef__op_read_log, &request, out, &next, err);
    if (st == EF_OK && query->out_reached)
        *query->out_reached = next > query->after ? next : query->after;
    return st;
}

/* Waits by a read with a timeout; the event itself is discarded. */
ef_status ef_client_wait(ef_client *client, int64_t after, int64_t timeout_ms, ef_error *err)
{
    ef__log_request request = {.query = {.after = after, .limit = 1}, .wait_ms = timeout_ms};
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    int64_t next = 0;
    ef_status st = ef__operation_batch(client, &ef__op_read_log, &request, &batch, &next, err);

    if (st == EF_OK && next <= after)
        st = ef_fail(err, EF_TIMEOUT, "nothing was appended after position %" PRId64, after);
    return st;
}

/* --- the store -------------------------------------------------------------------------------- */

/* Reads a member of the status; NULL: its own members. */
static ef_status read_status(ef_client *client, const char *member, const ef__shape *shape,
                             void *out, ef_error *err)
{
    EF__AUTO(ef__reply) reply = {.room = NULL};
    ef_status st = ef__operation_call(client, &ef__op_status, NULL, &reply.room, &reply, err);

    if (st == EF_OK)
        st =
            ef__shape_read(member ? ef__json_get(reply.json, member) : reply.json, shape, out, err);
    return st;
}

ef_status ef_client_head(ef_client *client, ef_head *out, ef_error *err)
{
    return read_status(client, "head", &ef__shape_head, out, err);
}

ef_status ef_client_facts(ef_client *client, ef_store_facts *out, ef_error *err)
{
    return read_status(client, "store", &ef__shape_facts, out, err);
}

ef_status ef_client_mode(ef_client *client, char out[EF_CLIENT_MODE_MAX], ef_error *err)
{
    static const ef__field mode = {
        .key = "mode", .kind = EF__FIELD_CHARS, .size = EF_CLIENT_MODE_MAX};
    static const ef__shape shape = {&mode, 1, EF_CLIENT_MODE_MAX};
    ef_status st = read_status(client, NULL, &shape, out, err);

    return st == EF_OK && out[0] == '\0'
               ? ef_fail(err, EF_IO, "invalid response from the server: mode is missing")
               : st;
}

/* --- types ------------------------------------------------------------------------------------ */

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err)
{
    ef__type_request request = {.type = *type,
                                .intent = ef_str_from(ef_name_of(EF_NAMES_INTENT, type->intent))};

    return ef__operation_act(client, &ef__op_set_type, &request, err);
}
