/*
 * publishers.c - publishers, and what was handed to them.
 */
#include "client_priv.h"

static void ask_for(ef__ask *call, ef_str name)
{
    ef__ask_path(call, "/v1/publishers/");
    ef__ask_name(call, name);
}

ef_status ef_client_publisher_ls(ef_client *client, ef_publisher_list *out, ef_error *err)
{
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__client_ask(client, "GET", "/v1/publishers", &out->room, &answer, err);

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
    ef__ask call = EF__ASK("GET", EF_STR(""));
    const ef__json *answer;
    ef_publisher *one = NULL;
    ef_status st = ef__room_ready(&out->room, err);

    out->count = 0;
    ask_for(&call, name);
    if (st == EF_OK)
        st = ef__ask_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(one = ef__arena_zalloc(&out->room->arena, 1, sizeof *one)))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out for an answer");
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_publisher, one, err);
    out->items = one;
    out->count = st == EF_OK;
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_publisher_set(ef_client *client, const ef_publisher *p, ef_error *err)
{
    ef__ask call = EF__ASK("PUT", EF_STR(""));
    ef__json_writer w = ef__ask_writer(&call);
    ef_status st;

    ask_for(&call, p->name);
    ef__json_open(&w, '{');
    ef__ask_member(&w, "url", p->url);
    ef__ask_member(&w, "types", p->types);
    ef__ask_member(&w, "partition_by", p->partition_by);
    ef__ask_number(&w, "retry_ms", p->retry_ms);
    ef__ask_number(&w, "attempts_max", p->attempts_max);
    if (p->retain_ms != 0) {
        ef__json_key(&w, "retain_ms");
        ef__json_int(&w, p->retain_ms == EF_RETAIN_NONE ? 0 : p->retain_ms);
    }
    ef__ask_number(&w, "timeout_ms", p->timeout_ms);
    ef__ask_number(&w, "file_bytes", p->file_bytes);
    ef__ask_number(&w, "file_count", p->file_count);
    ef__ask_number(&w, "in_flight", p->in_flight);
    ef__ask_member(&w, "secret", p->secret);
    ef__json_key(&w, "allow_private");
    ef__json_bool(&w, p->allow_private);
    ef__json_key(&w, "paused");
    ef__json_bool(&w, p->paused);
    ef__json_close(&w, '}');
    st = ef__ask_run(client, &call, err);
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_publisher_pause(ef_client *client, ef_str name, bool paused, ef_str reason,
                                    ef_error *err)
{
    ef__ask call = EF__ASK("POST", EF_STR(""));
    ef__json_writer w = ef__ask_writer(&call);
    ef_status st;

    ask_for(&call, name);
    ef__ask_path(&call, paused ? ":pause" : ":resume");
    ef__json_open(&w, '{');
    ef__ask_member(&w, "reason", reason);
    ef__json_close(&w, '}');
    st = ef__ask_run(client, &call, err);
    ef__ask_release(&call);
    return st;
}

/* One number of an answer. */
static ef_status ask_number(ef_client *client, ef__ask *call, const char *key, int64_t *out,
                            ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    const ef__json *answer, *number;
    ef_status st = ef__ask_json(client, call, &arena, &answer, err);

    *out = 0;
    number = st == EF_OK ? ef__json_get(answer, key) : NULL;
    if (st == EF_OK && (!number || ef__json_int64(number, out) != 0))
        st = ef_fail(err, EF_IO, "the server's answer has no %s", key);
    ef__arena_release(&arena);
    return st;
}

ef_status ef_client_publisher_remove(ef_client *client, ef_str name, bool discard, ef_str reason,
                                     int64_t *out_rows, ef_error *err)
{
    ef__ask call = EF__ASK("DELETE", EF_STR(""));
    ef_status st;

    ask_for(&call, name);
    ef__ask_flag(&call, "discard", discard);
    ef__ask_text(&call, "reason", reason);
    st = ask_number(client, &call, "discarded", out_rows, err);
    ef__ask_release(&call);
    return st;
}

ef_status ef_client_published_count(ef_client *client, ef_str name, int64_t *out, ef_error *err)
{
    ef__ask call = EF__ASK("GET", EF_STR(""));
    ef_status st;

    ask_for(&call, name);
    st = ask_number(client, &call, "kept", out, err);
    ef__ask_release(&call);
    return st;
}
