/*
 * cmd_token_ls.c - everfold token ls
 */
#include "commands.h"
#include "token.h"

static void print_tokens_json(cli *c, const ef__token_list *tokens)
{
    cli_list list = {.lines = c->format == CLI_NDJSON};

    for (size_t i = 0; i < tokens->count; i++) {
        cli_list_next(c, &list);
        cli_token_write(c, &tokens->items[i], NULL);
        if (!cli_list_item_end(c, &list))
            return;
    }
    cli_list_end(c, &list);
}

static void print_table(cli *c, const ef__token_list *tokens)
{
    static const char *const heads[] = {"ID",      "SCOPES",  "TENANT", "STATE",
                                        "CREATED", "EXPIRES", "NOTE"};
    cli_table table = CLI_TABLE_INIT(heads, 7, 0);

    for (size_t i = 0; i < tokens->count; i++) {
        const ef__api_token *token = &tokens->items[i];
        char scopes[EF__SCOPES_TEXT_MAX];
        ef__scopes_format(token->scopes, scopes);
        cli_table_text(&table, ef_str_from(token->id));
        cli_table_text(&table, ef_str_from(scopes));
        cli_table_text(&table, !token->bound      ? EF_STR("-")
                               : token->tenant[0] ? ef_str_from(token->tenant)
                                                  : EF_STR("\"\""));
        cli_table_text(&table, ef_str_from(ef__token_state(token, cli_now_us())));
        cli_table_time(&table, token->created_us);
        if (token->expires_us)
            cli_table_time(&table, token->expires_us);
        else
            cli_table_text(&table, EF_STR("never"));
        cli_table_text(&table, ef_str_from(token->note));
    }
    (void)cli_table_flush(c, &table);
    cli_table_release(&table);
}

static int run_ls(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef__token_list tokens = {NULL, 0};
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    if (cli_token_ls(c, &tokens, &err) != EF_OK) {
        ef__token_list_release(&tokens);
        return cli_fail(c, &err, NULL);
    }
    if (c->format != CLI_TABLE)
        print_tokens_json(c, &tokens);
    else if (tokens.count == 0)
        cli_say(c, "no tokens; create one: everfold token create --scope admin");
    else
        print_table(c, &tokens);
    ef__token_list_release(&tokens);
    return 0;
}

const cli_command cli_cmd_token_ls = {
    .name = "token ls",
    .summary = "list API tokens, without their secrets",
    .example = "everfold token ls",
    .run = run_ls,
};
