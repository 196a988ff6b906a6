/*
 * cmd_token_revoke.c - everfold token revoke ID
 */
#include "commands.h"

#include "../server/token.h"

static int run_revoke(cli *c)
{
    const ef_clock *clock = ef_clock_system();
    ef_error err = EF_ERROR_INIT;
    int64_t now_us = clock->wall_us(clock->context);
    ef__token token;
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char path[PATH_MAX];
    ef_status st = cli_tokens_path(c, path, &err);

    if (st == EF_OK)
        st = ef__tokens_revoke(path, ef_str_from(c->arguments[0]), now_us, &token, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    /* It is ended whether or not the journal is at hand to keep note of it. */
    if (cli_journal_open(c, &(ef_journal_options){0}, &err) != EF_OK ||
        cli_note(c, "token_revoke", ef_str_from(token.id), &err) != EF_OK)
        cli_warn(c, "everfold: no note is kept of it: %s", err.text);
    if (c->format == CLI_TABLE) {
        cli_say(c, "token %s is revoked; a running server refuses it within a second", token.id);
        return 0;
    }
    ef__json_open(&w, '{');
    ef__token_members(&w, &token, now_us);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
    return 0;
}

static const cli_argument arguments[] = {
    {"ID", false, false, NULL, "the token's id, as token ls shows it"},
    {NULL, false, false, NULL, NULL},
};

static const cli_option options[] = {
    {"reason", 0, "TEXT", NULL, NULL, "why; kept with who did it (everfold act ls)"},
    {NULL, 0, NULL, NULL, NULL, NULL},
};

const cli_command cli_cmd_token_revoke = {
    .name = "token revoke",
    .summary = "end an API token",
    .options = options,
    .arguments = arguments,
    .example = "everfold token revoke 5f0c2d9be1a7c344",
    .run = run_revoke,
    .local = true,
};
