/*
 * cmd_token_revoke.c - everfold token revoke ID
 */
#include "commands.h"

#include "../server/token.h"

#include <errno.h>
#include <unistd.h>

typedef struct revoking {
    ef_str id;
    int64_t now_us;
    ef__token token; /* as it has become */
} revoking;

/* Doing it again changes nothing: when it was revoked stays as it was. */
static ef_status revoke_one(ef__token_list *list, void *context, ef_error *err)
{
    revoking *r = context;

    for (size_t i = 0; i < list->count; i++) {
        ef__token *token = &list->items[i];
        if (!ef_str_equal(ef_str_from(token->id), r->id))
            continue;
        if (token->revoked_us == 0)
            token->revoked_us = r->now_us;
        r->token = *token;
        return EF_OK;
    }
    return ef_fail(err, EF_NOT_FOUND, "there is no token '%.*s'; see: everfold token ls",
                   EF_STR_ARG(r->id));
}

static int run_revoke(cli *c)
{
    const ef_clock *clock = ef_clock_system();
    ef_error err = EF_ERROR_INIT;
    revoking r = {.id = ef_str_from(c->arguments[0]), .now_us = clock->wall_us(clock->context)};
    ef__json_writer w = EF__JSON_WRITER(&c->out);
    char path[PATH_MAX];
    ef_status st = cli_tokens_path(c, path, &err);

    if (st == EF_OK && access(path, F_OK) != 0 && errno == ENOENT)
        st = revoke_one(&(ef__token_list){NULL, 0}, &r, &err); /* no file, no lock beside it */
    else if (st == EF_OK)
        st = ef__tokens_change(path, revoke_one, &r, &err);
    if (st != EF_OK)
        return cli_fail(c, &err, NULL);
    if (c->format == CLI_TABLE) {
        cli_say(c, "token %s is revoked; a running server refuses it within a second", r.token.id);
        return 0;
    }
    ef__json_open(&w, '{');
    ef__token_members(&w, &r.token, r.now_us);
    ef__json_close(&w, '}');
    ef__buf_add_char(&c->out, '\n');
    return 0;
}

static const cli_argument arguments[] = {
    {"ID", false, false, NULL, "the token's id, as token ls shows it"},
    {NULL, false, false, NULL, NULL},
};

const cli_command cli_cmd_token_revoke = {
    .name = "token revoke",
    .summary = "end an API token",
    .arguments = arguments,
    .example = "everfold token revoke 5f0c2d9be1a7c344",
    .run = run_revoke,
    .local = true,
};
