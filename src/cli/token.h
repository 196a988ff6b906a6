/*
 * token.h - API tokens, in the token file or of a server.
 */
#ifndef EF_CLI_TOKEN_H
#define EF_CLI_TOKEN_H

#include "cli.h"

#include "../server/token.h"

/* Creates a token with the scopes, tenant and note of `token`, valid for `expires_ms` (0: no
 * limit). `token` receives the stored values, `text` the secret, which is shown once. */
ef_status cli_token_create(cli *c, ef__api_token *token, int64_t expires_ms,
                           char text[EF__TOKEN_TEXT_MAX], ef_error *err);
ef_status cli_token_ls(cli *c, ef__token_list *out, ef_error *err);
/* Revokes a token, with --reason in the audit entry. `out` receives the stored values. EF_NOT_FOUND
 */
ef_status cli_token_revoke(cli *c, ef_str id, ef__api_token *out, ef_error *err);

/* {"id","scopes",…}, without a newline; with `text` at the end unless it is NULL. */
void cli_token_write(cli *c, const ef__api_token *token, const char *text);
int64_t cli_now_us(void);

#endif
