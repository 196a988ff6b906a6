/*
 * routes_tokens.c - tokens: which there are, one more, and the end of one. For administrators.
 */
#include "request.h"
#include "token.h"

#include "../base/utf8.h"

#include <stdio.h>

#define EXPIRES_MAX_S (100ll * 365 * 86400)

static ef_status need_file(const ef__request *r, ef_error *err)
{
    return r->server->options.tokens
               ? EF_OK
               : ef_fail(err, EF_UNSUPPORTED, "this server keeps no file of tokens");
}

static ef_status list_tokens(ef__request *r, ef_error *err)
{
    ef__json_writer w = ef__request_writer(r);
    ef__token_list list = {NULL, 0};
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = need_file(r, err);
    if (st == EF_OK)
        st = ef__tokens_read(r->server->options.tokens, &list, err);
    if (st == EF_OK) {
        ef__json_open(&w, '[');
        for (size_t i = 0; i < list.count; i++) {
            ef__json_open(&w, '{');
            ef__token_members(&w, &list.items[i], ef__server_now(r->server));
            ef__json_close(&w, '}');
        }
        ef__json_close(&w, ']');
    }
    ef__token_list_release(&list);
    return st;
}

static ef_status take_text(const ef__json *body, const char *key, char *out, size_t size,
                           bool *out_given, ef_error *err)
{
    ef_str text = {NULL, 0};
    ef_status st = ef__member_text(body, key, false, &text, err);

    if (st == EF_OK && (text.len >= size || !ef__utf8_valid(text)))
        st = ef_fail(err, EF_BAD_INPUT, "%s takes up to %zu bytes of UTF-8", key, size - 1);
    if (st == EF_OK)
        (void)snprintf(out, size, "%.*s", EF_STR_ARG(text));
    *out_given = text.ptr != NULL;
    return st;
}

/* {"scopes":"append,read","tenant","expires_seconds","note"} */
static ef_status read_token(ef__request *r, ef__api_token *out, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str scopes = {NULL, 0};
    int64_t expires_s = 0;
    bool noted;
    ef_status st = ef__request_object(r, &body, err);

    if (st == EF_OK)
        st = ef__members_only(body, "scopes,tenant,expires_seconds,note", err);
    if (st == EF_OK)
        st = ef__member_text(body, "scopes", true, &scopes, err);
    if (st == EF_OK)
        st = ef__scopes_parse(scopes, &out->scopes, err);
    if (st == EF_OK)
        st = ef__member_int(body, "expires_seconds", false, 1, EXPIRES_MAX_S, &expires_s, err);
    if (st == EF_OK)
        st = take_text(body, "tenant", out->tenant, sizeof(out->tenant), &out->bound, err);
    if (st == EF_OK)
        st = take_text(body, "note", out->note, sizeof(out->note), &noted, err);
    if (expires_s > 0)
        out->expires_us = ef__server_now(r->server) + expires_s * 1000000;
    return st;
}

static ef_status add(ef__token_list *list, void *context, ef_error *err)
{
    return ef__token_list_add(list, context, err);
}

static void write_token(ef__request *r, const ef__api_token *token, const char *text)
{
    ef__json_writer w = ef__request_writer(r);

    ef__json_open(&w, '{');
    ef__token_members(&w, token, ef__server_now(r->server));
    if (text) {
        ef__json_key(&w, "token");
        ef__json_str(&w, ef_str_from(text));
    }
    ef__json_close(&w, '}');
}

static ef_status create_token(ef__request *r, ef_error *err)
{
    ef__api_token token = {0};
    char text[EF__TOKEN_TEXT_MAX];
    ef_status st = ef__request_no_more(r, err);

    if (st == EF_OK)
        st = need_file(r, err);
    if (st == EF_OK)
        st = read_token(r, &token, err);
    if (st == EF_OK)
        st = ef__token_make(&token, ef__server_now(r->server), text, err);
    if (st == EF_OK)
        st = ef__tokens_change(r->server->options.tokens, add, &token, err);
    if (st == EF_OK)
        st = ef__tokens_reload(r->server, err);
    if (st == EF_OK)
        st = ef__request_note(r, "token_create", ef_str_from(token.id), ef_str_from(token.note),
                              err);
    if (st != EF_OK)
        return st;
    write_token(r, &token, text);
    r->status = 201;
    return EF_OK;
}

static ef_status revoke_token(ef__request *r, ef_error *err)
{
    const ef__json *body = NULL;
    ef_str reason = {NULL, 0};
    ef__api_token token = {0};
    ef_status st = ef__request_reason(r, "reason", &body, &reason, err);

    if (st == EF_OK)
        st = need_file(r, err);
    if (st == EF_OK)
        st = ef__tokens_revoke(r->server->options.tokens, r->parts[0], ef__server_now(r->server),
                               &token, err);
    if (st == EF_OK)
        st = ef__tokens_reload(r->server, err);
    if (st == EF_OK)
        st = ef__request_note(r, "token_revoke", r->parts[0], reason, err);
    if (st == EF_OK)
        write_token(r, &token, NULL);
    return st;
}

const ef__http_route ef__routes_tokens[] = {
    {"GET", "/v1/tokens", EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND, 0, list_tokens, "listTokens",
     "tokens, without their secrets", NULL, NULL, "Tokens", 0},
    {"POST", "/v1/tokens", EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND, EF__ROUTE_BODY, create_token,
     "createToken", "create a token: its secret is returned once", NULL, "NewToken", "MadeToken",
     201},
    {"POST", "/v1/tokens/{id}:revoke", EF__SCOPE_ADMIN, EF__TENANCY_UNBOUND, EF__ROUTE_BODY,
     revoke_token, "revokeToken", "end a token", NULL, "Note", "Token", 0},
    {0},
};
