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

void cli_token_write(cli *c, const ef__token *token, const char *text)
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

static ef_status take(const ef_client_token *told, ef__token *out, ef_error *err)
{
    *out = (ef__token){.bound = told->bound,
                       .created_us = told->created_us,
                       .expires_us = told->expires_us,
                       .revoked_us = told->revoked_us};
    if (told->id.len >= sizeof(out->id) || told->tenant.len >= sizeof(out->tenant) ||
        told->note.len >= sizeof(out->note))
        return ef_fail(err, EF_IO, "the server's answer is not as Everfold's: a name is too long");
    (void)snprintf(out->id, sizeof(out->id), "%.*s", EF_STR_ARG(told->id));
    (void)snprintf(out->tenant, sizeof(out->tenant), "%.*s", EF_STR_ARG(told->tenant));
    (void)snprintf(out->note, sizeof(out->note), "%.*s", EF_STR_ARG(told->note));
    return ef__scopes_parse(told->scopes, &out->scopes, err);
}

static ef_status ask_create(cli *c, ef__token *token, int64_t expires_ms,
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
        st = take(&made.items[0], token, err);
    if (st == EF_OK)
        (void)snprintf(text, EF__TOKEN_TEXT_MAX, "%.*s", EF_STR_ARG(made.items[0].text));
    ef_client_token_list_release(&made);
    return st;
}

static ef_status ask_ls(cli *c, ef__token_list *out, ef_error *err)
{
    ef_client_token_list told = {0};
    ef_status st = ef_client_token_ls(c->client, &told, err);

    for (size_t i = 0; st == EF_OK && i < told.count; i++) {
        ef__token token;
        st = take(&told.items[i], &token, err);
        if (st == EF_OK)
            st = ef__token_list_add(out, &token, err);
    }
    ef_client_token_list_release(&told);
    return st;
}

static ef_status ask_revoke(cli *c, ef_str id, ef__token *out, ef_error *err)
{
    ef_client_token_list one = {0};
    ef_status st = ef_client_token_revoke(c->client, id, cli_reason(c), &one, err);

    if (st == EF_OK)
        st = take(&one.items[0], out, err);
    ef_client_token_list_release(&one);
    return st;
}

/* --- of the file, or there ------------------------------------------------------------------- */

static ef_status add(ef__token_list *list, void *context, ef_error *err)
{
    return ef__token_list_add(list, context, err);
}

ef_status cli_token_create(cli *c, ef__token *token, int64_t expires_ms,
                           char text[EF__TOKEN_TEXT_MAX], ef_error *err)
{
    int64_t now_us = cli_now_us();
    char path[PATH_MAX];
    ef_status st;

    if (c->client)
        return ask_create(c, token, expires_ms, text, err);
    token->expires_us = expires_ms ? now_us + expires_ms * 1000 : 0;
    st = cli_tokens_path(c, path, err);
    if (st == EF_OK)
        st = ef__token_make(token, now_us, text, err);
    /* Where both stores are on a server init has made none. */
    if (st == EF_OK && cli_url_on_server(c->journal_url) && cli_url_on_server(c->views_url))
        st = cli_data_make(c, err);
    if (st == EF_OK)
        st = ef__tokens_change(path, add, token, err);
    return st;
}

ef_status cli_token_ls(cli *c, ef__token_list *out, ef_error *err)
{
    char path[PATH_MAX];
    ef_status st;

    *out = (ef__token_list){NULL, 0};
    if (c->client)
        return ask_ls(c, out, err);
    st = cli_tokens_path(c, path, err);
    return st == EF_OK ? ef__tokens_read(path, out, err) : st;
}

ef_status cli_token_revoke(cli *c, ef_str id, ef__token *out, ef_error *err)
{
    ef_error note = EF_ERROR_INIT;
    char path[PATH_MAX];
    ef_status st;

    if (c->client)
        return ask_revoke(c, id, out, err);
    st = cli_tokens_path(c, path, err);
    if (st == EF_OK)
        st = ef__tokens_revoke(path, id, cli_now_us(), out, err);
    /* It is ended whether or not the journal is at hand to keep note of it. */
    if (st == EF_OK && (cli_journal_open(c, &(ef_journal_options){0}, &note) != EF_OK ||
                        cli_note(c, "token_revoke", ef_str_from(out->id), &note) != EF_OK))
        cli_warn(c, "everfold: no note is kept of it: %s", note.text);
    return st;
}
