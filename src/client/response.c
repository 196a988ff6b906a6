/*
 * response.c - converts responses to the public structs, by their shapes.
 */
#include "client_priv.h"

ef_status ef__client_call_json(ef_client *client, ef__client_call *call, ef__arena *arena,
                               const ef__json **out, ef_error *err)
{
    ef__json *json = NULL;
    ef_error bad = EF_ERROR_INIT;
    ef_str text;
    ef_status st = ef__client_call_run(client, call, err);

    *out = NULL;
    if (st != EF_OK)
        return st;
    text = ef__arena_copy(arena, ef__buf_str(&call->response));
    if (!text.ptr)
        return ef__no_memory(err);
    if (ef__json_parse_envelope(text, EF__CALL_RESPONSE_MAX, arena, &json, &bad) != EF_OK)
        return ef_fail(err, EF_IO, "invalid response from the server: %s", bad.text);
    *out = json;
    return EF_OK;
}

ef_status ef__client_get(ef_client *client, const char *path, struct ef__batch_memory **room,
                         const ef__json **out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    ef_status st = ef__memory_prepare(room, err);

    *out = NULL;
    ef__client_call_path(&call, path);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &(*room)->arena, out, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef__items_read(const ef__json *array, const ef__shape *shape, const ef__shape *more,
                         ef__arena *arena, const void **out_items, size_t *out_count, ef_error *err)
{
    const ef__json *item = array ? array->first : NULL;
    size_t count = array ? array->count : 0;
    char *items = ef__arena_zalloc(arena, count + 1, shape->size), *to = items;
    ef_error bad = EF_ERROR_INIT;
    ef_status st = EF_OK;

    *out_items = NULL;
    *out_count = 0;
    if (!items)
        return ef__no_memory(err);
    if (array && array->kind != EF__JSON_ARRAY)
        return ef_fail(err, EF_IO, "invalid response from the server: not an array");
    for (; st == EF_OK && item; item = item->next, to += shape->size) {
        st = ef__shape_read(item, shape, to, &bad);
        if (st == EF_OK && more)
            st = ef__shape_read_more(item, more, to, &bad);
    }
    if (st != EF_OK)
        return ef_fail(err, EF_IO, "invalid response from the server: %s", bad.text);
    *out_items = items;
    *out_count = count;
    return EF_OK;
}
