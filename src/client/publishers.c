/*
 * publishers.c - publishers and published rows.
 */
#include "client_priv.h"

static void begin_path(ef__client_call *call, ef_str name)
{
    ef__client_call_path(call, "/v1/publishers/");
    ef__client_call_name(call, name);
}

ef_status ef_client_publisher_ls(ef_client *client, ef_publisher_list *out, ef_error *err)
{
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__client_get(client, "/v1/publishers", &out->room, &answer, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_publisher, NULL, &out->room->arena, &items,
                            &out->count, err);
    out->items = items;
    return st;
}

ef_status ef_client_publisher_get(ef_client *client, ef_str name, ef_publisher_list *out,
                                  ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    const ef__json *answer;
    ef_publisher *one = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    begin_path(&call, name);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(one = ef__arena_zalloc(&out->room->arena, 1, sizeof *one)))
        st = ef_fail(err, EF_NO_MEMORY, "out of memory for a response");
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_publisher, one, err);
    out->items = one;
    out->count = st == EF_OK;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_publisher_set(ef_client *client, const ef_publisher *p, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("PUT", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    begin_path(&call, p->name);
    ef__json_open(&w, '{');
    ef__client_call_member(&w, "url", p->url);
    ef__client_call_member(&w, "types", p->types);
    ef__client_call_member(&w, "partition_by", p->partition_by);
    ef__client_call_number(&w, "retry_ms", p->retry_ms);
    ef__client_call_number(&w, "attempts_max", p->attempts_max);
    if (p->retain_ms != 0) {
        ef__json_key(&w, "retain_ms");
        ef__json_int(&w, p->retain_ms == EF_RETAIN_NONE ? 0 : p->retain_ms);
    }
    ef__client_call_number(&w, "timeout_ms", p->timeout_ms);
    ef__client_call_number(&w, "file_bytes", p->file_bytes);
    ef__client_call_number(&w, "file_count", p->file_count);
    ef__client_call_number(&w, "in_flight", p->in_flight);
    ef__client_call_member(&w, "secret", p->secret);
    ef__json_key(&w, "allow_private");
    ef__json_bool(&w, p->allow_private);
    ef__json_key(&w, "paused");
    ef__json_bool(&w, p->paused);
    ef__json_close(&w, '}');
    st = ef__client_call_run(client, &call, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_publisher_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                    ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    begin_path(&call, name);
    ef__client_call_path(&call, paused ? ":pause" : ":resume");
    ef__json_open(&w, '{');
    ef__client_call_member(&w, "reason", reason);
    ef__json_close(&w, '}');
    st = ef__client_call_run(client, &call, err);
    ef__client_call_release(&call);
    return st;
}

/* Reads one number of the response. */
static ef_status request_number(ef_client *client, ef__client_call *call, const char *key,
                                int64_t *out, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    const ef__json *answer, *number;
    ef_status st = ef__client_call_json(client, call, &arena, &answer, err);

    *out = 0;
    number = st == EF_OK ? ef__json_get(answer, key) : NULL;
    if (st == EF_OK && (!number || ef__json_int64(number, out) != 0))
        st = ef_fail(err, EF_IO, "invalid response from the server: %s is missing", key);
    ef__arena_release(&arena);
    return st;
}

ef_status ef_client_publisher_remove(ef_client *client, ef_str name, bool discard, ef_str reason,
                                     int64_t *out_rows, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("DELETE", EF_STR(""));
    ef_status st;

    begin_path(&call, name);
    ef__client_call_flag(&call, "discard", discard);
    ef__client_call_text(&call, "reason", reason);
    st = request_number(client, &call, "discarded", out_rows, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_published_count(ef_client *client, ef_str name, int64_t *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    ef_status st;

    begin_path(&call, name);
    st = request_number(client, &call, "kept", out, err);
    ef__client_call_release(&call);
    return st;
}
