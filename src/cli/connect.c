/*
 * connect.c - the client of a command that uses a server.
 *
 * The token is a secret: it comes from the environment or from a file, never from the command line,
 * which every user of the machine can read.
 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>

#define TOKEN_BYTES_MAX (1 << 20) /* maximum size of the file; the server refuses longer tokens */

/* Reads EVERFOLD_TOKEN, or the first line of the file. */
static ef_status read_token(const cli *c, ef__buf *out, ef_error *err)
{
    const char *given = getenv("EVERFOLD_TOKEN");
    ef_str path = ef__settings_text(c->settings, "token_file");
    char name[PATH_MAX];
    ef_status st;

    if (given && given[0] != '\0') {
        (void)ef__buf_add_text(out, given);
        return EF_OK;
    }
    if (path.len == 0)
        return EF_OK;
    (void)snprintf(name, sizeof(name), "%.*s", EF_STR_ARG(path));
    st = cli_file_read(name, out, err);
    if (st != EF_OK)
        return st;
    (void)ef__buf_add_char(out, '\n');
    out->len = out->ptr ? strcspn(out->ptr, " \t\r\n") : 0;
    out->ptr[out->len] = '\0';
    return out->len > 0 ? EF_OK : ef_fail(err, EF_BAD_INPUT, "no token in %s", name);
}

static ef_status open_client(cli *c, const char *url, ef_error *err)
{
    ef__buf token = EF__BUF_INIT(TOKEN_BYTES_MAX);
    ef_str ca = ef__settings_text(c->settings, "ca_file");
    char ca_file[PATH_MAX], actor[PATH_MAX];
    ef_status st = read_token(c, &token, err);

    (void)snprintf(ca_file, sizeof(ca_file), "%.*s", EF_STR_ARG(ca));
    (void)snprintf(actor, sizeof(actor), "%.*s", EF_STR_ARG(cli_actor(c)));
    if (st == EF_OK)
        st = ef_client_open(&(ef_client_options){.url = url,
                                                 .token = token.len > 0 ? token.ptr : NULL,
                                                 .ca_file = ca.len > 0 ? ca_file : NULL,
                                                 .actor = actor},
                            &c->client, err);
    if (token.ptr)
        explicit_bzero(token.ptr, token.len);
    ef__buf_release(&token);
    return st;
}

static bool names_stores(const cli *c)
{
    return cli_setting(c, "data").origin == EF__ORIGIN_FLAG ||
           cli_setting(c, "journal").origin == EF__ORIGIN_FLAG ||
           cli_setting(c, "views").origin == EF__ORIGIN_FLAG;
}

int cli_connect(cli *c)
{
    ef__setting_view server = cli_setting(c, "server");
    ef_error err = EF_ERROR_INIT;
    char url[PATH_MAX];

    if (server.value.len == 0 || c->command->local || c->client)
        return 0;
    if (names_stores(c) && server.origin == EF__ORIGIN_FLAG)
        return cli_usage(c, "--server cannot be combined with --data, --journal and --views");
    if (names_stores(c))
        return 0; /* a flag overrides a server of the environment or the settings file */
    (void)snprintf(url, sizeof(url), "%.*s", EF_STR_ARG(server.value));
    if (open_client(c, url, &err) != EF_OK)
        return cli_fail(c, &err, NULL);
    (void)snprintf(c->journal_shown, sizeof(c->journal_shown), "%s", url);
    (void)snprintf(c->views_shown, sizeof(c->views_shown), "%s", url);
    return 0;
}
