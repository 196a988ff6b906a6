/*
 * projections.c - projections and their generations.
 */
#include "client_priv.h"

#define DIFFERENCES_MAX 10000

static void begin_path(ef__client_call *call, ef_str name, const char *verb)
{
    ef__client_call_path(call, "/v1/projections/");
    ef__client_call_name(call, name);
    ef__client_call_path(call, verb);
}

/* --- reading
 * --------------------------------------------------------------------------------------- */

static ef_status read_projection(const ef__json *json, ef__arena *arena, ef_projection *out,
                                 ef_error *err)
{
    const ef__json *program = ef__json_get(json, "program");
    const void *scopes = NULL;
    ef_status st = ef__shape_read(json, &ef__shape_projection, out, err);

    if (st == EF_OK)
        st = ef__shape_read_more(json, &ef__shape_projection_more, out, err);
    if (st == EF_OK)
        st = ef__items_read(ef__json_get(json, "scopes"), &ef__shape_scope, NULL, arena, &scopes,
                            &out->scope_count, err);
    out->scopes = scopes;
    if (st == EF_OK && program && program->kind == EF__JSON_STRING)
        out->program = program->text;
    return st;
}

/* The response for one projection lists its generations, including itself without the program. */
static ef_status read_list(const ef__json *answer, ef_projection_list *out, ef_error *err)
{
    const ef__json *array =
        answer->kind == EF__JSON_OBJECT ? ef__json_get(answer, "generations") : answer;
    const ef__json *program = ef__json_get(answer, "program");
    size_t count = array && array->kind == EF__JSON_ARRAY ? array->count : 0, at = 0;
    ef_projection *items = ef__arena_zalloc(&out->room->arena, count + 1, sizeof(*items));
    ef_status st = items ? EF_OK : ef__no_memory(err);

    for (const ef__json *item = count ? array->first : NULL; st == EF_OK && item; item = item->next)
        st = read_projection(item, &out->room->arena, &items[at++], err);
    if (st == EF_OK && count > 0 && program)
        items[0].program = program->text;
    out->items = items;
    out->count = st == EF_OK ? count : 0;
    return st;
}

static ef_status request_list(ef_client *client, ef__client_call *call, ef_projection_list *out,
                              ef_error *err)
{
    const ef__json *answer;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    if (st == EF_OK)
        st = ef__client_call_json(client, call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = read_list(answer, out, err);
    ef__client_call_release(call);
    return st;
}

ef_status ef_client_projection_ls(ef_client *client, ef_str name, ef_projection_list *out,
                                  ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));

    if (name.len > 0)
        begin_path(&call, name, "");
    else
        ef__client_call_path(&call, "/v1/projections");
    return request_list(client, &call, out, err);
}

ef_status ef_client_projection_deploy(ef_client *client, ef_str text, bool in_place,
                                      ef_str on_error, ef_str reason, ef_projection_list *out,
                                      ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("PUT", EF_STR(""));
    char name[256];
    ef_status st = ef_program_name(text, name, sizeof(name), err);

    if (st != EF_OK)
        return st;
    call.type = "text/plain";
    begin_path(&call, ef_str_from(name), "");
    ef__client_call_flag(&call, "in_place", in_place);
    ef__client_call_text(&call, "on_error", on_error);
    ef__client_call_text(&call, "reason", reason);
    (void)ef__buf_add_str(&call.body, text);
    return request_list(client, &call, out, err);
}

static ef_status deliver_rows(const ef__json *answer,
                              bool (*each)(void *context, const ef_draft_row *row), void *context,
                              ef_error *err)
{
    const ef__json *rows = ef__json_get(answer, "rows");
    ef_status st = EF_OK;
    bool go_on = true;

    for (const ef__json *at = rows ? rows->first : NULL; st == EF_OK && go_on && at;
         at = at->next) {
        ef_draft_row row;
        st = ef__shape_read(at, &ef__shape_draft_row, &row, err);
        go_on = st == EF_OK && each(context, &row);
    }
    return st;
}

ef_status ef_client_projection_try_draft(ef_client *client, const ef_draft *draft,
                                         bool (*each)(void *context, const ef_draft_row *row),
                                         void *context, ef_draft_result *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", draft->tenant ? *draft->tenant : EF_STR(""));
    ef__arena arena = EF__ARENA_INIT(2ul * EF__CALL_RESPONSE_MAX);
    const ef__json *answer;
    char name[256];
    ef_status st = ef_program_name(draft->text, name, sizeof(name), err);

    if (st != EF_OK)
        return st;
    call.type = "text/plain";
    call.wait_ms = EF__CALL_LONG_MS;
    begin_path(&call, ef_str_from(name), ":try-draft");
    ef__client_call_int(&call, "limit", (int64_t)draft->limit);
    (void)ef__buf_add_str(&call.body, draft->text);
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_draft_result, out, err);
    if (st == EF_OK)
        st = deliver_rows(answer, each, context, err);
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_projection_scope(ef_client *client, ef_str name, ef_str tenant,
                                     ef_scope_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", tenant);
    const ef__json *answer;
    ef_scope *scope = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    begin_path(&call, name, "/scope");
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK && !(scope = ef__arena_zalloc(&out->room->arena, 1, sizeof(*scope))))
        st = ef__no_memory(err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_scope, scope, err);
    out->items = scope;
    out->count = st == EF_OK ? 1 : 0;
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_projection_failures(ef_client *client, ef_str name, bool resolved, size_t limit,
                                        ef_failure_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    const ef__json *answer;
    const void *items = NULL;
    ef_status st = ef__memory_prepare(&out->room, err);

    out->count = 0;
    begin_path(&call, name, "/failures");
    ef__client_call_flag(&call, "resolved", resolved);
    ef__client_call_int(&call, "limit", (int64_t)limit);
    if (st == EF_OK)
        st = ef__client_call_json(client, &call, &out->room->arena, &answer, err);
    if (st == EF_OK)
        st = ef__items_read(answer, &ef__shape_failure, NULL, &out->room->arena, &items,
                            &out->count, err);
    out->items = items;
    ef__client_call_release(&call);
    return st;
}

/* --- actions
 * ------------------------------------------------------------------------------------------ */

static ef_status send_action(ef_client *client, const char *verb, const ef_generation_choice *route,
                             ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    begin_path(&call, route->projection, verb);
    ef__json_open(&w, '{');
    ef__client_call_number(&w, "version", route->version);
    ef__client_call_number(&w, "generation", route->generation);
    ef__client_call_number(&w, "lag_max", route->lag_max);
    ef__client_call_member(&w, "reason", route->reason);
    ef__json_close(&w, '}');
    st = ef__client_call_run(client, &call, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_projection_pause(ef_client *client, ef_str name, ef_str reason, ef_error *err)
{
    return send_action(client, ":pause",
                       &(ef_generation_choice){.projection = name, .reason = reason}, err);
}

ef_status ef_client_projection_resume(ef_client *client, ef_str name, ef_str reason, ef_error *err)
{
    return send_action(client, ":resume",
                       &(ef_generation_choice){.projection = name, .reason = reason}, err);
}

ef_status ef_client_projection_switch(ef_client *client, const ef_generation_choice *route,
                                      ef_error *err)
{
    return send_action(client, ":switch", route, err);
}

ef_status ef_client_projection_rollback(ef_client *client, const ef_generation_choice *route,
                                        ef_error *err)
{
    return send_action(client, ":rollback", route, err);
}

ef_status ef_client_projection_retire(ef_client *client, const ef_generation_choice *route,
                                      int64_t *out_count, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    const ef__json *answer, *retired;
    int64_t count = 0;
    ef_status st;

    begin_path(&call, route->projection, ":retire");
    ef__json_open(&w, '{');
    ef__client_call_number(&w, "version", route->version);
    ef__client_call_number(&w, "generation", route->generation);
    ef__client_call_member(&w, "reason", route->reason);
    ef__json_close(&w, '}');
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    retired = st == EF_OK ? ef__json_get(answer, "retired") : NULL;
    if (retired)
        (void)ef__json_int64(retired, &count);
    if (out_count)
        *out_count = count;
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}

/* --- generations
 * ----------------------------------------------------------------------------------- */

static ef_status deliver_differences(const ef__json *answer,
                                     bool (*each)(void *context, const ef_difference *difference),
                                     void *context, ef_error *err)
{
    const ef__json *array = ef__json_get(answer, "differences");

    if (!array || array->kind != EF__JSON_ARRAY)
        return ef_fail(err, EF_IO, "invalid response from the server: differences are missing");
    for (const ef__json *d = array->first; d && each; d = d->next) {
        const ef__json *tenant = ef__json_get(d, "tenant"), *id = ef__json_get(d, "view_id");
        const ef__json *left = ef__json_get(d, "left"), *right = ef__json_get(d, "right");
        ef_difference difference = {0};
        if (tenant && id) {
            difference.tenant = tenant->text;
            difference.view_id = id->text;
        }
        if (left && left->kind == EF__JSON_OBJECT)
            difference.left = left->text;
        if (right && right->kind == EF__JSON_OBJECT)
            difference.right = right->text;
        if (!each(context, &difference))
            break;
    }
    return EF_OK;
}

ef_status ef_client_projection_diff(ef_client *client, const ef_generation_choice *left,
                                    const ef_generation_choice *right,
                                    bool (*each)(void *context, const ef_difference *difference),
                                    void *context, ef_diff *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("GET", EF_STR(""));
    ef__arena arena = EF__ARENA_INIT(4ul * EF__CALL_RESPONSE_MAX);
    const ef__json *answer;
    ef_status st;

    call.wait_ms = EF__CALL_LONG_MS;
    begin_path(&call, left->projection, "/diff");
    ef__client_call_int(&call, "left_version", left->version);
    ef__client_call_int(&call, "left_generation", left->generation);
    ef__client_call_int(&call, "right_version", right->version);
    ef__client_call_int(&call, "right_generation", right->generation);
    ef__client_call_int(&call, "limit", DIFFERENCES_MAX);
    st = ef__client_call_json(client, &call, &arena, &answer, err);
    if (st == EF_OK)
        st = ef__shape_read(answer, &ef__shape_diff, out, err);
    if (st == EF_OK)
        st = deliver_differences(answer, each, context, err);
    ef__arena_release(&arena);
    ef__client_call_release(&call);
    return st;
}

static void write_view(ef__json_writer *w, const ef_seed_view *view)
{
    ef__json_open(w, '{');
    ef__client_call_member(w, "tenant", view->tenant);
    ef__json_key(w, "view_id");
    ef__json_str(w, view->view_id);
    ef__client_call_number(w, "last_event_sequence", view->last_event_sequence);
    ef__json_key(w, "data");
    ef__json_raw(w, view->data);
    ef__json_close(w, '}');
}

/* Each view must be on one line. */
static ef_status write_views(ef__client_call *call, const ef_seed *seed, ef_error *err)
{
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more) {
        ef_seed_view view = {0};
        ef__json_writer w = ef__client_call_writer(call);
        size_t start = call->body.len;
        st = seed->next(seed->context, &view, &more, err);
        if (st != EF_OK || !more)
            break;
        write_view(&w, &view);
        ef__one_line(&call->body, start);
        if (!ef__buf_add_char(&call->body, '\n'))
            st = ef_fail(err, EF_TOO_LARGE, "the views exceed the maximum of %d bytes",
                         EF__CALL_BODY_MAX);
    }
    return st;
}

ef_status ef_client_projection_seed(ef_client *client, const ef_seed *seed, ef_run_list *out,
                                    ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef_status st;

    call.type = "application/x-ndjson";
    call.wait_ms = EF__CALL_LONG_MS;
    begin_path(&call, seed->projection, ":seed");
    ef__client_call_path(&call, "?position=");
    call.has_parameter = true;
    (void)ef__buf_printf(&call.target, "%lld", (long long)seed->position);
    ef__client_call_text(&call, "reason", seed->reason);
    st = write_views(&call, seed, err);
    if (st == EF_OK)
        st = ef__client_call_one_run(client, &call, out, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_projection_rebuild(ef_client *client, const ef_rebuild *rebuild,
                                       ef_run_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    begin_path(&call, rebuild->projection, ":rebuild");
    ef__json_open(&w, '{');
    ef__json_key(&w, "in_place");
    ef__json_bool(&w, rebuild->in_place);
    ef__json_key(&w, "no_switch");
    ef__json_bool(&w, rebuild->no_switch);
    ef__json_key(&w, "switch_anyway");
    ef__json_bool(&w, rebuild->switch_anyway);
    ef__client_call_member(&w, "reason", rebuild->reason);
    ef__json_close(&w, '}');
    st = ef__client_call_one_run(client, &call, out, err);
    ef__client_call_release(&call);
    return st;
}

ef_status ef_client_projection_verify(ef_client *client, ef_str projection, ef_str reason,
                                      ef_run_list *out, ef_error *err)
{
    ef__client_call call = EF__CLIENT_CALL("POST", EF_STR(""));
    ef__json_writer w = ef__client_call_writer(&call);
    ef_status st;

    begin_path(&call, projection, ":verify");
    ef__json_open(&w, '{');
    ef__client_call_member(&w, "reason", reason);
    ef__json_close(&w, '}');
    st = ef__client_call_one_run(client, &call, out, err);
    ef__client_call_release(&call);
    return st;
}
