/*
 * cmd_token_create.c - everfold token create --scope S,…
 *
 * The secret is printed once; only its hash is stored.
 */
#include "commands.h"
#include "token.h"

#include "../base/utf8.h"

#include <stdio.h>

static ef_status read_options(const cli *c, ef__api_token *out, int64_t *out_expires_ms,
                              ef_error *err)
{
    const char *scope = cli_value(c, "scope"), *note = cli_value(c, "note");
    ef_str tenant = cli_tenant(c);
    ef_status st = scope ? ef__scopes_parse(ef_str_from(scope), &out->scopes, err)
                         : ef_fail(err, EF_BAD_INPUT,
                                   "token create needs --scope: append, read, work, operate, "
                                   "admin");

    if (st == EF_OK)
        st = cli_duration(c, "expires", out_expires_ms, err);
    if (st == EF_OK && cli_has(c, "expires") && *out_expires_ms == 0)
        st = ef_fail(err, EF_BAD_INPUT, "--expires is 0: the token would be expired at once");
    if (st == EF_OK && note &&
        (strlen(note) >= sizeof(out->note) || !ef__utf8_valid(ef_str_from(note))))
        st = ef_fail(err, EF_BAD_INPUT, "--note is too long or not UTF-8: at most %zu bytes",
                     sizeof(out->note) - 1);
    if (st == EF_OK && (tenant.len >= sizeof(out->tenant) || !ef__utf8_valid(tenant)))
        st = ef_fail(err, EF_BAD_INPUT, "--tenant is too long or not UTF-8: at most %zu bytes",
                     sizeof(out->tenant) - 1);
    if (st != EF_OK)
        return st;
    out->bound = cli_tenant_given(c);
    (void)snprintf(out->tenant, sizeof(out->tenant), "%.*s", EF_STR_ARG(tenant));
    (void)snprintf(out->note, sizeof(out->note), "%s", note ? note : "");
    return EF_OK;
}

static void print_token(cli *c, const ef__api_token *token, const char *text)
{
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
    cli_token_write(c, token, text);
    ef__buf_add_char(&c->out, '\n');
}

static int run_create(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef__api_token token = {0};
    char text[EF__TOKEN_TEXT_MAX];
    int64_t expires_ms = 0;
    ef_status st = read_options(c, &token, &expires_ms, &err);
    int rc = st == EF_OK ? cli_connect(c) : 0;

    if (rc != 0)
        return rc;
    if (st == EF_OK)
        st = cli_token_create(c, &token, expires_ms, text, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, st == EF_NOT_FOUND ? "run: everfold init" : NULL);
    print_token(c, &token, text);
    return 0;
}

const cli_command cli_cmd_token_create = {
    .name = "token create",
    .summary = "create an API token; its secret is shown once",
    .options = CLI_OPTIONS(
        {"scope", 's', "SCOPES", NULL, "append,read,work,operate,admin",
         "comma-separated scopes: append, read, work, operate, admin"},
        {"expires", 0, "DURATION", NULL, NULL, "expires after this time: 30d (default: never)"},
        {"note", 0, "TEXT", NULL, NULL, "purpose of the token"}),
    .more =
        "With --tenant the token is valid for that tenant only. Scopes: append writes events;\n"
        "read reads events, views and states; operate deploys, rebuilds, requeues and skips;\n"
        "work is for workers; admin is all of them. A running server accepts the token within a\n"
        "second. Until the first token exists, the server accepts loopback connections without\n"
        "one.",
    .example = "everfold token create --scope append,read --expires 90d --note shop",
    .run = run_create,
};
