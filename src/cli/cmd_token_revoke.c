/*
 * cmd_token_revoke.c - everfold token revoke ID
 */
#include "commands.h"
#include "token.h"

static int run_revoke(cli *c)
{
    ef_error err = EF_ERROR_INIT;
    ef__api_token token;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    if (cli_token_revoke(c, ef_str_from(c->arguments[0]), &token, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE) {
        cli_say(c, "token %s revoked; a running server refuses it within a second", token.id);
        return 0;
    }
    cli_token_write(c, &token, NULL);
    ef__buf_add_char(&c->out, '\n');
    return 0;
}

const cli_command cli_cmd_token_revoke = {
    .name = "token revoke",
    .summary = "revoke an API token",
    .options = CLI_OPTIONS(CLI_REASON),
    .arguments = CLI_ARGUMENTS({"ID", false, false, NULL, "id of the token (everfold token ls)"}),
    .example = "everfold token revoke 5f0c2d9be1a7c344",
    .run = run_revoke,
};
