/*
 * projections.c - projections and their views, runs and replays.
 */
#include "client_priv.h"

#define DIFFERENCES_MAX 10000
#define NAME_MAX_BYTES 256
#define WARNINGS_MAX 10000
#define EXPORT_PAGE 1000

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

static ef_status request_list(ef_client *client, const ef__operation *operation,
                              const void *request, ef_projection_list *out, ef_error *err)
{
    ef__reply reply;
    ef_status st = ef__operation_call(client, operation, request, &out->room, &reply, err);

    out->count = 0;
    return st == EF_OK ? read_list(reply.json, out, err) : st;
}

ef_status ef_client_projection_ls(ef_client *client, ef_str name, ef_projection_list *out,
                                  ef_error *err)
{
    return request_list(client, name.len ? &ef__op_show_projection : &ef__op_list_projections,
                        &(ef__object_request){.name = name}, out, err);
}

ef_status ef_client_projection_deploy(ef_client *client, ef_str text, bool in_place,
                                      ef_str on_error, ef_str reason, ef_projection_list *out,
                                      ef_error *err)
{
    char name[NAME_MAX_BYTES];
    ef__deploy_request request = {.deploy = {.text = text, .in_place = in_place, .reason = reason},
                                  .on_error = on_error};
    ef_status st = ef_program_name(text, name, sizeof(name), err);

    request.name = ef_str_from(name);
    return st == EF_OK ? request_list(client, &ef__op_deploy_projection, &request, out, err) : st;
}

/* The pages that a call delivers item by item have counts beside the items: both are read. */
static ef_status call_counted(ef_client *client, const ef__operation *operation,
                              const void *request, const ef__shape *counts, void *out,
                              ef__reply *reply, ef_error *err)
{
    ef_status st = ef__operation_call(client, operation, request, &reply->room, reply, err);

    return st == EF_OK ? ef__shape_read(reply->json, counts, out, err) : st;
}

ef_status ef_client_projection_try_draft(ef_client *client, const ef_draft *draft,
                                         bool (*each)(void *context, const ef_draft_row *row),
                                         void *context, ef_draft_result *out, ef_error *err)
{
    char name[NAME_MAX_BYTES];
    ef__draft_request request = {.draft = *draft, .any_tenant = !draft->tenant};
    const ef_draft_row *rows;
    EF__AUTO(ef__reply) reply = {.room = NULL};
    ef_status st = ef_program_name(draft->text, name, sizeof(name), err);

    if (st != EF_OK)
        return st;
    request.name = ef_str_from(name);
    if (draft->tenant)
        request.tenant = *draft->tenant;
    st = call_counted(client, &ef__op_try_draft, &request, &ef__shape_draft_result, out, &reply,
                      err);
    rows = reply.items;
    for (size_t i = 0; st == EF_OK && i < reply.count && each(context, &rows[i]); i++)
        ;
    return st;
}

ef_status ef_client_projection_rebuild(ef_client *client, const ef_rebuild *rebuild,
                                       ef_run_list *out, ef_error *err)
{
    ef__object_request verify = {.name = rebuild->projection, .reason = rebuild->reason};

    return rebuild->verify
               ? ef__operation_runs(client, &ef__op_verify_projection, &verify, out, err)
               : ef__operation_runs(client, &ef__op_rebuild_projection, rebuild, out, err);
}

/* --- generations ------------------------------------------------------------------------------ */

ef_status ef_client_projection_diff(ef_client *client, const ef_generation_choice *left,
                                    const ef_generation_choice *right,
                                    bool (*each)(void *context, const ef_difference *difference),
                                    void *context, ef_diff *out, ef_error *err)
{
    ef__diff_request request = {.left = *left, .right = *right, .limit = DIFFERENCES_MAX};
    const ef_difference *differences;
    EF__AUTO(ef__reply) reply = {.room = NULL};
    ef_status st =
        call_counted(client, &ef__op_diff_projection, &request, &ef__shape_diff, out, &reply, err);

    if (st == EF_OK && !ef__json_get(reply.json, "differences"))
        st = ef_fail(err, EF_IO, "invalid response from the server: differences are missing");
    differences = reply.items;
    for (size_t i = 0; st == EF_OK && i < reply.count && each && each(context, &differences[i]);
         i++)
        ;
    return st;
}

static void write_view(ef__json_writer *w, const ef_seed_view *view)
{
    ef__json_open(w, '{');
    if (view->tenant.len > 0)
        ef__json_member_str(w, "tenant", view->tenant);
    ef__json_member_str(w, "view_id", view->view_id);
    if (view->last_event_sequence != 0)
        ef__json_member_int(w, "last_event_sequence", view->last_event_sequence);
    ef__json_member_raw(w, "data", view->data);
    ef__json_close(w, '}');
}

/* Each view must be on one line. */
static ef_status write_views(ef__buf *out, const ef_seed *seed, ef_error *err)
{
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more) {
        ef_seed_view view = {0};
        ef__json_writer w = EF__JSON_WRITER(out);
        size_t start = out->len;
        st = seed->next(seed->context, &view, &more, err);
        if (st != EF_OK || !more)
            break;
        write_view(&w, &view);
        ef__one_line(out, start);
        if (!ef__buf_add_char(out, '\n'))
            st = ef_fail(err, EF_TOO_LARGE, "the views exceed the maximum of %d bytes",
                         EF__CALL_BODY_MAX);
    }
    return st;
}

ef_status ef_client_projection_seed(ef_client *client, const ef_seed *seed, ef_run_list *out,
                                    ef_error *err)
{
    EF__AUTO(ef__buf) views = EF__BUF_INIT(EF__CALL_BODY_MAX);
    ef__seed_request request = {
        .name = seed->projection, .position = seed->position, .reason = seed->reason};
    ef_status st = write_views(&views, seed, err);

    request.views = ef__buf_str(&views);
    out->count = 0;
    if (st == EF_OK)
        st = ef__operation_runs(client, &ef__op_seed_projection, &request, out, err);
    return st;
}

/* --- replays ---------------------------------------------------------------------------------- */

ef_status ef_client_replay_request(ef_client *client, const ef_replay *replay, ef_run_list *out,
                                   ef_error *err)
{
    return ef__operation_runs(client, &ef__op_replay, &(ef__replay_request){.replay = *replay}, out,
                              err);
}

/* A warning has only the fields that identify the event. */
static ef_status deliver_warnings(const ef__json *response,
                                  void (*failed)(void *context, ef_str projection,
                                                 const ef_event *event, ef_str message),
                                  void *context, ef_error *err)
{
    const ef__json *array = ef__json_get(response, "warnings");
    ef_status st = EF_OK;

    for (const ef__json *w = array && failed ? array->first : NULL; st == EF_OK && w; w = w->next) {
        ef_event event;
        st = ef__shape_read(w, &ef__shape_event, &event, err);
        if (st == EF_OK)
            failed(context, ef__reply_text(w, "projection"), &event, ef__reply_text(w, "message"));
    }
    return st;
}

ef_status ef_client_replay_dry_run(ef_client *client, const ef_replay *replay, bool validate,
                                   void (*failed)(void *context, ef_str projection,
                                                  const ef_event *event, ef_str message),
                                   void *context, ef_replay_result *out, ef_error *err)
{
    ef__replay_request request = {.replay = *replay, .validate = validate, .limit = WARNINGS_MAX};
    EF__AUTO(ef__reply) reply = {.room = NULL};
    ef_status st = call_counted(client, &ef__op_look_at_replay, &request, &ef__shape_replay_result,
                                out, &reply, err);

    return st == EF_OK ? deliver_warnings(reply.json, failed, context, err) : st;
}

/* --- views ------------------------------------------------------------------------------------ */

ef_status ef__operation_view(ef_client *client, const ef__operation *operation, const void *request,
                             ef_view_list *out, ef_error *err)
{
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, operation, request, out, &reply, err);

    out->as_of = ef__reply_int(reply.json, "as_of");
    out->blocked_streams = ef__reply_int(reply.json, "blocked_streams");
    return st;
}

ef_status ef_client_view_get(ef_client *client, ef_str projection, ef_str tenant, ef_str id,
                             const ef_freshness *freshness, ef_view_list *out, ef_error *err)
{
    ef__view_request request = {.projection = projection, .tenant = tenant, .id = id};

    if (freshness)
        request.freshness = *freshness;
    return ef__operation_view(client, &ef__op_get_view, &request, out, err);
}

ef_status ef_client_view_find(ef_client *client, const ef_view_query *query, ef_view_list *out,
                              ef_error *err)
{
    ef__reply reply;
    ef_status st = EF__OPERATION_LIST(client, &ef__op_find_views, query, out, &reply, err);

    out->next = ef__reply_text(reply.json, "next");
    out->as_of = ef__reply_int(reply.json, "as_of");
    out->blocked_streams = ef__reply_int(reply.json, "blocked_streams");
    out->total = ef__reply_int(reply.json, "count");
    out->looked = ef__reply_int(reply.json, "looked");
    out->version = (int32_t)ef__reply_int(reply.json, "version");
    out->plan = ef__reply_text(reply.json, "plan");
    return st;
}

ef_status ef_client_view_export(ef_client *client, ef_str projection, ef_str tenant,
                                bool any_tenant, bool (*each)(void *context, const ef_view *view),
                                void *context, int64_t *out_as_of, ef_error *err)
{
    EF__AUTO(ef_view_list) page = {0}, before = {0};
    ef_view_query query = {.projection = projection,
                           .tenant = any_tenant ? EF_STR("") : tenant,
                           .any_tenant = any_tenant,
                           .limit = EXPORT_PAGE};
    bool go_on = true, first = true;
    ef_status st = EF_OK;

    while (st == EF_OK && go_on) {
        st = ef_client_view_find(client, &query, &page, err);
        if (st == EF_OK && first && out_as_of)
            *out_as_of = page.as_of;
        first = false;
        for (size_t i = 0; st == EF_OK && go_on && i < page.count; i++)
            go_on = each(context, &page.items[i]);
        go_on = go_on && page.next.len > 0;
        query.after = page.next; /* lives in this page: copied before the next page is read */
        ef_view_list last = before;
        before = page;
        page = last;
    }
    return st;
}
