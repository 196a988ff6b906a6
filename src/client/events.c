/*
 * events.c - appending and reading events, types, and what is told of the store.
 */
#include "client_priv.h"

#include <inttypes.h>
#include <stdio.h>

#define WAIT_MS_MAX 30000

/* --- appending
 * ------------------------------------------------------------------------------------- */

static void write_event(ef__json_writer *w, const ef_new_event *e)
{
    ef__json_open(w, '{');
    ef__ask_member(w, "tenant", e->tenant);
    ef__ask_member(w, "stream", e->stream);
    ef__ask_member(w, "type", e->type);
    ef__ask_member(w, "id", e->id);
    if (ef_seq_is_expected(e->expected_seq)) {
        ef__json_key(w, "expected_seq");
        ef__json_int(w, e->expected_seq.plus_one - 1);
    }
    ef__ask_number(w, "schema", e->schema);
    if (e->time_us != 0) {
        ef__json_key(w, "time");
        ef__json_time(w, e->time_us);
    }
    ef__json_key(w, "data");
    ef__json_raw(w, e->data);
    if (e->meta.len > 0) {
        ef__json_key(w, "meta");
        ef__json_raw(w, e->meta);
    }
    ef__json_close(w, '}');
}

static ef_status read_places(const ef__json *answer, size_t count, ef_place *out, ef_error *err)
{
    const ef__json *item = answer ? answer->first : NULL;

    if (!answer || answer->kind != EF__JSON_ARRAY || answer->count != count)
        return ef_fail(err, EF_UNSURE, "the server did not answer for each event");
    for (size_t i = 0; i < count; i++, item = item->next) {
        ef__placed placed;
        ef_status st = ef__shape_read(item, &ef__shape_placed, &placed, err);
        if (st != EF_OK)
            return ef_fail(err, EF_UNSURE, "the server did not answer as Everfold does");
        out[i] = (ef_place){
            .seq = placed.seq, .position = placed.position, .duplicate = placed.duplicate};
        (void)snprintf(out[i].id, sizeof(out[i].id), "%.*s", EF_STR_ARG(placed.id));
    }
    return EF_OK;
}

/* What is wrong with an event is found here, so that its bytes can be sent as they are. */
ef_status ef_client_append(ef_client *client, const ef_new_event *events, size_t count,
                           ef_place *out_places, ef_error *err)
{
    ef__ask call = EF__ASK("POST", EF_STR(""));
    ef__json_writer w = ef__ask_writer(&call);
    ef__arena arena = EF__ARENA_INIT(EF__ASK_ANSWER_MAX);
    const ef__json *answer;
    ef_status st = ef_event_check(events, count, NULL, err);

    if (st != EF_OK)
        return st;
    ef__ask_path(&call, "/v1/events");
    ef__json_open(&w, '[');
    for (size_t i = 0; i < count; i++)
        write_event(&w, &events[i]);
    ef__json_close(&w, ']');
    st = ef__ask_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = read_places(answer, count, out_places, err);
    ef__arena_release(&arena);
    ef__ask_release(&call);
    return st;
}

/* --- reading
 * --------------------------------------------------------------------------------------- */

static ef_status read_batch(ef_client *client, ef__ask *call, ef_batch *out, ef_error *err)
{
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__room_ready(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__ask_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_event, NULL, &out->room->arena, &items, &out->count,
                            err);
    out->events = items;
    out->more = call->more;
    return st;
}

ef_status ef_client_read_stream(ef_client *client, ef_str tenant, ef_str stream, int64_t from_seq,
                                size_t limit, ef_batch *out, ef_error *err)
{
    ef__ask call = EF__ASK("GET", tenant);
    ef_status st;

    ef__ask_path(&call, "/v1/streams/");
    ef__ask_name(&call, stream);
    ef__ask_path(&call, "/events");
    ef__ask_int(&call, "from_seq", from_seq);
    ef__ask_int(&call, "limit", (int64_t)limit);
    st = read_batch(client, &call, out, err);
    out->more = call.next > 0;
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_read_log(ef_client *client, const ef_log_query *query, ef_batch *out,
                             ef_error *err)
{
    ef__ask call = EF__ASK("GET", query->any_tenant ? EF_STR("") : query->tenant);
    ef_status st;

    ef__ask_path(&call, "/v1/events");
    ef__ask_int(&call, "after", query->after);
    ef__ask_text(&call, "type", query->type);
    ef__ask_int(&call, "limit", (int64_t)query->limit);
    ef__ask_flag(&call, "all_tenants", query->any_tenant);
    st = read_batch(client, &call, out, err);
    if (st == EF_OK && query->out_reached)
        *query->out_reached = call.next > query->after ? call.next : query->after;
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_read_id(ef_client *client, ef_str tenant, ef_str id, ef_batch *out,
                            ef_error *err)
{
    ef__ask call = EF__ASK("GET", tenant);
    const ef__json *answer;
    ef_event *event = NULL;
    ef_status st = ef__room_ready(&out->room, err);

    out->count = 0;
    ef__ask_path(&call, "/v1/events/");
    ef__ask_name(&call, id);
    if (st == EF_OK)
        st = ef__ask_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(event = ef__arena_zalloc(&out->room->arena, 1, sizeof(*event))))
        st = ef__room_full(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_event, event, err);
    out->events = event;
    out->count = st == EF_OK ? 1 : 0;
    ef__ask_release(&call);
    return st;
}

/* A read that waits, and whose event is thrown away: only whether there is one matters. */
ef_status ef_client_wait(ef_client *client, int64_t after, int64_t timeout_ms, ef_error *err)
{
    ef__ask call = EF__ASK("GET", EF_STR(""));
    char wait[32];
    ef_status st;

    call.wait_ms = timeout_ms < WAIT_MS_MAX ? timeout_ms : WAIT_MS_MAX;
    (void)snprintf(wait, sizeof(wait), "%" PRId64 "ms", call.wait_ms);
    ef__ask_path(&call, "/v1/events");
    ef__ask_int(&call, "after", after);
    ef__ask_int(&call, "limit", 1);
    ef__ask_text(&call, "wait", ef_str_from(wait));
    st = ef__ask_run(client, &call, err);
    if (st == EF_OK && call.next <= after)
        st = ef_fail(err, EF_TIMEOUT, "nothing was appended behind position %" PRId64, after);
    ef__ask_release(&call);
    return st;
}

/* --- the store
 * ------------------------------------------------------------------------------------- */

typedef ef_status read_status(const ef__json *answer, void *out, ef_error *err);

static ef_status ask_status(ef_client *client, read_status *read, void *out, ef_error *err)
{
    struct ef__batch_room *room = NULL;
    const ef__json *answer;
    ef_status st = ef__client_ask(client, "GET", "/v1/status", &room, &answer, err);

    if (st == EF_OK)
        st = read(answer, out, err);
    ef__room_release(&room);
    return st;
}

static ef_status take_head(const ef__json *answer, void *out, ef_error *err)
{
    return ef__shape_read(ef__json_get(answer, "head"), &ef__shape_head, out, err);
}

static ef_status take_facts(const ef__json *answer, void *out, ef_error *err)
{
    return ef__shape_read(ef__json_get(answer, "store"), &ef__shape_facts, out, err);
}

static ef_status take_mode(const ef__json *answer, void *out, ef_error *err)
{
    const ef__json *mode = ef__json_get(answer, "mode");

    if (!mode || mode->kind != EF__JSON_STRING)
        return ef_fail(err, EF_IO, "the server does not tell its mode");
    (void)snprintf(out, EF_CLIENT_MODE_MAX, "%.*s", EF_STR_ARG(mode->text));
    return EF_OK;
}

ef_status ef_client_head(ef_client *client, ef_head *out, ef_error *err)
{
    return ask_status(client, take_head, out, err);
}

ef_status ef_client_facts(ef_client *client, ef_store_facts *out, ef_error *err)
{
    return ask_status(client, take_facts, out, err);
}

ef_status ef_client_mode(ef_client *client, char out[EF_CLIENT_MODE_MAX], ef_error *err)
{
    return ask_status(client, take_mode, out, err);
}

/* --- types
 * ----------------------------------------------------------------------------------------- */

ef_status ef_client_type_set(ef_client *client, const ef_type *type, ef_error *err)
{
    ef__ask call = EF__ASK("PUT", EF_STR(""));
    ef__json_writer w = ef__ask_writer(&call);
    ef_status st;

    ef__ask_path(&call, "/v1/types/");
    ef__ask_name(&call, type->name);
    ef__shape_write(&w, &ef__shape_type, type);
    st = ef__ask_run(client, &call, err);
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_type_get(ef_client *client, ef_str name, ef_type_list *out, ef_error *err)
{
    ef__ask call = EF__ASK("GET", EF_STR(""));
    const ef__json *answer;
    ef_type *type = NULL;
    ef_status st = ef__room_ready(&out->room, err);

    out->count = 0;
    ef__ask_path(&call, "/v1/types/");
    ef__ask_name(&call, name);
    if (st == EF_OK)
        st = ef__ask_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(type = ef__arena_zalloc(&out->room->arena, 1, sizeof(*type))))
        st = ef__room_full(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_type, type, err);
    out->items = type;
    out->count = st == EF_OK ? 1 : 0;
    ef__ask_release(&call);
    return st;
}
