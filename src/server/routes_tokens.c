/*
 * routes_tokens.c - API tokens: list, create and revoke, with scope admin.
 */
#include "request.h"
#include "token.h"

#include "../base/utf8.h"

static ef_status need_file(const ef__request *r, ef_error *err)
{
    return r->server->options.tokens
               ? EF_OK
               : ef_fail(err, EF_UNSUPPORTED, "this server keeps no file of tokens");
}

static ef_status list_tokens(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    EF__AUTO(ef__token_list) list = {NULL, 0};
    ef_status st = need_file(r, err);

    if (st == EF_OK)
        st = ef__tokens_read(r->server->options.tokens, &list, err);
    if (st != EF_OK)
        return st;
    ef__json_open(&w, '[');
    for (size_t i = 0; i < list.count; i++)
        ef__token_write(&w, &list.items[i], NULL, ef__server_now(r->server));
    ef__json_close(&w, ']');
    return EF_OK;
}

static ef_status copy_text(const char *key, ef_str text, char *out, size_t size, ef_error *err)
{
    if (text.len >= size || !ef__utf8_valid(text))
        return ef_fail(err, EF_BAD_INPUT, "%s takes up to %zu bytes of UTF-8", key, size - 1);
    (void)snprintf(out, size, "%.*s", EF_STR_ARG(text));
    return EF_OK;
}

static ef_status read_token(ef__request *r, const ef__token_request *asked, ef__api_token *out,
                            ef_error *err)
{
    ef_status st = ef__scopes_parse(asked->scopes, &out->scopes, err);

    if (st == EF_OK)
        st = copy_text("tenant", asked->tenant, out->tenant, sizeof(out->tenant), err);
    if (st == EF_OK)
        st = copy_text("note", asked->note, out->note, sizeof(out->note), err);
    out->bound = asked->tenant.ptr != NULL;
    if (asked->expires_s > 0)
        out->expires_us = ef__server_now(r->server) + asked->expires_s * 1000000;
    return st;
}

static ef_status create_token(ef__request *r, void *request, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef__api_token token = {0};
    char text[EF__TOKEN_TEXT_MAX];
    ef_status st = need_file(r, err);

    if (st == EF_OK)
        st = read_token(r, request, &token, err);
    if (st == EF_OK)
        st = ef__token_make(&token, ef__server_now(r->server), text, err);
    if (st == EF_OK)
        st = ef__tokens_add(r->server->options.tokens, &token, err);
    if (st == EF_OK)
        st = ef__tokens_reload(r->server, err);
    if (st == EF_OK)
        st = ef__request_note(r, "token_create", ef_str_from(token.id), ef_str_from(token.note),
                              err);
    if (st != EF_OK)
        return st;
    ef__token_write(&w, &token, text, ef__server_now(r->server));
    r->status = 201;
    return EF_OK;
}

static ef_status revoke_token(ef__request *r, void *request, ef_error *err)
{
    const ef__object_request *asked = request;
    ef__json_writer w = ef__request_writer(r);
    ef__api_token token = {0};
    ef_status st = need_file(r, err);

    if (st == EF_OK)
        st = ef__tokens_revoke(r->server->options.tokens, asked->name, ef__server_now(r->server),
                               &token, err);
    if (st == EF_OK)
        st = ef__tokens_reload(r->server, err);
    if (st == EF_OK)
        st = ef__request_note(r, "token_revoke", asked->name, asked->reason, err);
    if (st == EF_OK)
        ef__token_write(&w, &token, NULL, ef__server_now(r->server));
    return st;
}

const ef__http_route ef__routes_tokens[] = {
    EF__RUN(list_tokens, list_tokens),
    EF__SERVE(create_token, create_token),
    EF__SERVE(revoke_token, revoke_token),
    {0},
};
