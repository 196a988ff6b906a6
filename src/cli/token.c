/*
 * token.c - see token.h.
 */
#include "token.h"

#include <stdio.h>

int64_t cli_now_us(void)
{
    const ef_clock *clock = ef_clock_system();

    return clock->wall_us(clock->context);
}

void cli_token_write(cli *c, const ef__api_token *token, const char *text)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);

    ef__json_open(&w, '{');
    ef__token_members(&w, token, cli_now_us());
    if (text) {
        ef__json_key(&w, "token");
        ef__json_str(&w, ef_str_from(text));
    }
    ef__json_close(&w, '}');
}

/* --- through a server ------------------------------------------------------------------------ */

static ef_status copy_token(const ef_client_token *remote, ef__api_token *out, ef_error *err)
{
    *out = (ef__api_token){.bound = remote->bound,
                           .created_us = remote->created_us,
                           .expires_us = remote->expires_us,
                           .revoked_us = remote->revoked_us};
    if (remote->id.len >= sizeof(out->id) || remote->tenant.len >= sizeof(out->tenant) ||
        remote->note.len >= sizeof(out->note))
        return ef_fail(err, EF_IO, "invalid response from the server: a name is too long");
    (void)snprintf(out->id, sizeof(out->id), "%.*s", EF_STR_ARG(remote->id));
    (void)snprintf(out->tenant, sizeof(out->tenant), "%.*s", EF_STR_ARG(remote->tenant));
    (void)snprintf(out->note, sizeof(out->note), "%.*s", EF_STR_ARG(remote->note));
    return ef__scopes_parse(remote->scopes, &out->scopes, err);
}

static ef_status request_create(cli *c, ef__api_token *token, int64_t expires_ms,
                                char text[EF__TOKEN_TEXT_MAX], ef_error *err)
{
    ef_client_token_list made = {0};
    char scopes[EF__SCOPES_TEXT_MAX];
    ef_status st;

    ef__scopes_format(token->scopes, scopes);
    st = ef_client_token_create(c->client,
                                &(ef_client_token){.scopes = ef_str_from(scopes),
                                                   .bound = token->bound,
                                                   .tenant = ef_str_from(token->tenant),
                                                   .note = ef_str_from(token->note)},
                                (expires_ms + 999) / 1000, &made, err);
    if (st == EF_OK)
        st = copy_token(&made.items[0], token, err);
    if (st == EF_OK)
        (void)snprintf(text, EF__TOKEN_TEXT_MAX, "%.*s", EF_STR_ARG(made.items[0].text));
    ef_client_token_list_release(&made);
    return st;
}

static ef_status request_ls(cli *c, ef__token_list *out, ef_error *err)
{
    ef_client_token_list remote = {0};
    ef_status st = ef_client_token_ls(c->client, &remote, err);

    for (size_t i = 0; st == EF_OK && i < remote.count; i++) {
        ef__api_token token;
        st = copy_token(&remote.items[i], &token, err);
        if (st == EF_OK)
            st = ef__token_list_add(out, &token, err);
    }
    ef_client_token_list_release(&remote);
    return st;
}

static ef_status request_revoke(cli *c, ef_str id, ef__api_token *out, ef_error *err)
{
    ef_client_token_list one = {0};
    ef_status st = ef_client_token_revoke(c->client, id, cli_reason(c), &one, err);

    if (st == EF_OK)
        st = copy_token(&one.items[0], out, err);
    ef_client_token_list_release(&one);
    return st;
}

/* --- in the token file, or through a server
 * ------------------------------------------------------------------- */

static ef_status add_token(ef__token_list *list, void *context, ef_error *err)
{
    return ef__token_list_add(list, context, err);
}

ef_status cli_token_create(cli *c, ef__api_token *token, int64_t expires_ms,
                           char text[EF__TOKEN_TEXT_MAX], ef_error *err)
{
    int64_t now_us = cli_now_us();
    char path[PATH_MAX];
    ef_status st;

    if (c->client)
        return request_create(c, token, expires_ms, text, err);
    token->expires_us = expires_ms ? now_us + expires_ms * 1000 : 0;
    st = cli_tokens_path(c, path, err);
    if (st == EF_OK)
        st = ef__token_make(token, now_us, text, err);
    /* If both stores are on a database server, init created no data directory. */
    if (st == EF_OK && cli_url_on_server(c->journal_url) && cli_url_on_server(c->views_url))
        st = cli_data_make(c, err);
    if (st == EF_OK)
        st = ef__tokens_change(path, add_token, token, err);
    return st;
}

ef_status cli_token_ls(cli *c, ef__token_list *out, ef_error *err)
{
    char path[PATH_MAX];
    ef_status st;

    *out = (ef__token_list){NULL, 0};
    if (c->client)
        return request_ls(c, out, err);
    st = cli_tokens_path(c, path, err);
    return st == EF_OK ? ef__tokens_read(path, out, err) : st;
}

ef_status cli_token_revoke(cli *c, ef_str id, ef__api_token *out, ef_error *err)
{
    ef_error note = EF_ERROR_INIT;
    char path[PATH_MAX];
    ef_status st;

    if (c->client)
        return request_revoke(c, id, out, err);
    st = cli_tokens_path(c, path, err);
    if (st == EF_OK)
        st = ef__tokens_revoke(path, id, cli_now_us(), out, err);
    /* The token is revoked even if the journal is unavailable for the audit entry. */
    if (st == EF_OK && (cli_journal_open(c, &(ef_journal_options){0}, &note) != EF_OK ||
                        cli_note(c, "token_revoke", ef_str_from(out->id), &note) != EF_OK))
        cli_warn(c, "everfold: the audit entry was not written: %s", note.text);
    return st;
}
