/*
 * cmd_token.c - everfold token create --scope S,…, ls, and revoke ID: API tokens, in the token file
 * or of a server
 *
 * The secret is printed once; only its hash is stored.
 */
#include "cli.h"

#include "../base/utf8.h"
#include "../server/token.h"

static void write_token(ef__json_writer *w, const void *item)
{
    ef__token_write(w, item, NULL, cli_wall_us());
}

/* --- through a server ------------------------------------------------------------------------- */

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
    EF__AUTO(ef_client_token_list) made = {0};
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
    return st;
}

static ef_status request_ls(cli *c, ef__token_list *out, ef_error *err)
{
    EF__AUTO(ef_client_token_list) remote = {0};
    ef_status st = ef_client_token_ls(c->client, &remote, err);

    for (size_t i = 0; st == EF_OK && i < remote.count; i++) {
        ef__api_token token;
        st = copy_token(&remote.items[i], &token, err);
        if (st == EF_OK)
            st = ef__token_list_add(out, &token, err);
    }
    return st;
}

static ef_status request_revoke(cli *c, ef_str id, ef__api_token *out, ef_error *err)
{
    EF__AUTO(ef_client_token_list) one = {0};
    ef_status st = ef_client_token_revoke(c->client, id, cli_reason(c), &one, err);

    return st == EF_OK ? copy_token(&one.items[0], out, err) : st;
}

/* --- in the token file, or through a server --------------------------------------------------- */

/* Creates a token with the scopes, tenant and note of `token`, valid for `expires_ms` (0: no
 * limit). `token` receives the stored values, `text` the secret, which is shown once. */
static ef_status create_token(cli *c, ef__api_token *token, int64_t expires_ms,
                              char text[EF__TOKEN_TEXT_MAX], ef_error *err)
{
    int64_t now_us = cli_wall_us();
    ef_status st;

    if (c->client)
        return request_create(c, token, expires_ms, text, err);
    token->expires_us = expires_ms ? now_us + expires_ms * 1000 : 0;
    st = ef__token_make(token, now_us, text, err);
    /* If both stores are on a database server, init created no data directory. */
    if (st == EF_OK && cli_url_on_server(c->journal_url) && cli_url_on_server(c->views_url))
        st = cli_data_make(c, err);
    if (st == EF_OK)
        st = ef__tokens_add(c->tokens_file, token, err);
    return st;
}

/* Revokes a token, with --reason in the audit entry. `out`: the stored values. EF_NOT_FOUND */
static ef_status revoke_token(cli *c, ef_str id, ef__api_token *out, ef_error *err)
{
    ef_error note = EF_ERROR_INIT;
    ef_status st;

    if (c->client)
        return request_revoke(c, id, out, err);
    st = ef__tokens_revoke(c->tokens_file, id, cli_wall_us(), out, err);
    /* The token is revoked even if the journal is unavailable for the audit entry. */
    if (st == EF_OK && (cli_journal_open(c, &(ef_journal_options){0}, &note) != EF_OK ||
                        cli_note(c, "token_revoke", ef_str_from(out->id), &note) != EF_OK))
        cli_warn(c, "everfold: the audit entry was not written: %s", note.text);
    return st;
}

/* Reads scopes, tenant and note of the new token. */
static ef_status read_token(cli *c, ef__api_token *out, ef_error *err)
{
    const char *scope = cli_value(c, "scope"), *note = cli_value(c, "note");
    ef_str tenant = cli_tenant(c);
    ef_status st = scope ? ef__scopes_parse(ef_str_from(scope), &out->scopes, err)
                         : ef_fail(err, EF_BAD_INPUT,
                                   "token create needs --scope: append, read, work, operate, "
                                   "admin");

    if (st != EF_OK)
        return st;
    if (cli_has(c, "expires") && cli_int(c, "expires") == 0)
        return ef_fail(err, EF_BAD_INPUT, "--expires is 0: the token would be expired at once");
    if (note && (strlen(note) >= sizeof(out->note) || !ef__utf8_valid(ef_str_from(note))))
        return ef_fail(err, EF_BAD_INPUT, "--note is too long or not UTF-8: at most %zu bytes",
                       sizeof(out->note) - 1);
    if (tenant.len >= sizeof(out->tenant) || !ef__utf8_valid(tenant))
        return ef_fail(err, EF_BAD_INPUT, "--tenant is too long or not UTF-8: at most %zu bytes",
                       sizeof(out->tenant) - 1);
    out->bound = cli_tenant_given(c);
    (void)snprintf(out->tenant, sizeof(out->tenant), "%.*s", EF_STR_ARG(tenant));
    (void)snprintf(out->note, sizeof(out->note), "%s", note ? note : "");
    return EF_OK;
}

static void print_token(cli *c, const ef__api_token *token, const char *text)
{
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char scopes[EF__SCOPES_TEXT_MAX];

    if (c->format == CLI_TABLE) {
        ef__scopes_format(token->scopes, scopes);
        cli_say(c, "token %s for %s, %s%s; the secret is shown only once:", token->id, scopes,
                token->bound ? "tenant " : "all tenants",
                !token->bound      ? ""
                : token->tenant[0] ? token->tenant
                                   : "\"\"");
        ef__buf_printf(&c->out, "%s\n", text);
        return;
    }
    ef__token_write(&w, token, text, cli_wall_us());
    ef__buf_add_char(&c->out, '\n');
}

static ef_status run_create(cli *c, ef_error *err)
{
    ef__api_token token = {0};
    char text[EF__TOKEN_TEXT_MAX];
    ef_status st = read_token(c, &token, err);

    if (st == EF_OK)
        st = cli_need(c, CLI_SERVER, err);
    if (st == EF_OK)
        st = create_token(c, &token, cli_int(c, "expires"), text, err);
    if (st == EF_OK)
        print_token(c, &token, text);
    return st;
}

const cli_command cli_cmd_token_create = {
    .name = "token create",
    .summary = "create an API token; its secret is shown once",
    .options = CLI_OPTIONS(
        CLI_TEXT("scope", "SCOPES", "comma-separated scopes: append, read, work, operate, admin",
                 .words = "append,read,work,operate,admin", .letter = 's'),
        CLI_DURATION("expires", "DURATION", 0, "expires after this time: 30d (default: never)"),
        CLI_TEXT("note", "TEXT", "purpose of the token")),
    .more =
        "With --tenant the token is valid for that tenant only. Scopes: append writes events;\n"
        "read reads events, views and states; operate deploys, rebuilds, requeues and skips;\n"
        "work is for workers; admin is all of them. A running server accepts the token within a\n"
        "second. Until the first token exists, the server accepts loopback connections without\n"
        "one.",
    .example = "everfold token create --scope append,read --expires 90d --note shop",
    .call = run_create,
    .hints = CLI_HINTS({EF_NOT_FOUND, "run: everfold init"}),
};

static void add_scopes(ef__buf *out, const void *item)
{
    const ef__api_token *token = item;
    char scopes[EF__SCOPES_TEXT_MAX];

    ef__scopes_format(token->scopes, scopes);
    ef__buf_add_text(out, scopes);
}

static void add_tenant(ef__buf *out, const void *item)
{
    const ef__api_token *token = item;

    ef__buf_add_text(out, !token->bound ? "-" : token->tenant[0] ? token->tenant : "\"\"");
}

static void add_state(ef__buf *out, const void *item)
{
    ef__buf_add_text(out, ef__token_state(item, cli_wall_us()));
}

#define FIELD(key, kind, member) EF__FIELD(ef__api_token, key, kind, member)
static const ef__field token_fields[] = {
    FIELD("id", CHARS, id), FIELD("created_at", TIME, created_us),
    FIELD("expires_at", TIME, expires_us), FIELD("note", CHARS, note)};
static const ef__shape token_shape = EF__SHAPE(token_fields, ef__api_token);

static const cli_listing listing = {
    .shape = &token_shape,
    .columns = CLI_COLUMNS(CLI_COLUMN("ID", "id"), CLI_COLUMN("SCOPES", NULL, .text = add_scopes),
                           CLI_COLUMN("TENANT", NULL, .text = add_tenant),
                           CLI_COLUMN("STATE", NULL, .text = add_state),
                           CLI_COLUMN("CREATED", "created_at"),
                           CLI_COLUMN("EXPIRES", "expires_at", .none = "never"),
                           CLI_COLUMN("NOTE", "note", .none = "")),
    .write = write_token,
    .empty = "no tokens; create one: everfold token create --scope admin",
};

static ef_status run_ls(cli *c, ef_error *err)
{
    EF__AUTO(ef__token_list) tokens = {NULL, 0};
    ef_status st =
        c->client ? request_ls(c, &tokens, err) : ef__tokens_read(c->tokens_file, &tokens, err);

    if (st == EF_OK)
        cli_print_list(c, &listing, tokens.items, tokens.count);
    return st;
}

const cli_command cli_cmd_token_ls = {
    .name = "token ls",
    .summary = "list API tokens, without their secrets",
    .example = "everfold token ls",
    .stores = CLI_SERVER,
    .call = run_ls,
};

static ef_status run_revoke(cli *c, ef_error *err)
{
    ef__api_token token;
    ef_status st = revoke_token(c, ef_str_from(c->arguments[0]), &token, err);

    if (st == EF_OK && c->format == CLI_TABLE)
        cli_say(c, "token %s revoked; a running server refuses it within a second", token.id);
    else if (st == EF_OK)
        cli_print_item(c, &listing, &token);
    return st;
}

const cli_command cli_cmd_token_revoke = {
    .name = "token revoke",
    .summary = "revoke an API token",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_ARGUMENTS(CLI_ARGUMENT("ID", "id of the token (everfold token ls)")),
    .example = "everfold token revoke 5f0c2d9be1a7c344",
    .stores = CLI_SERVER,
    .call = run_revoke,
};
