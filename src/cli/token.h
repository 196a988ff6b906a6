/*
 * token.h - API tokens: of the file that the settings lead to, or of a server.
 */
#ifndef EF_CLI_TOKEN_H
#define EF_CLI_TOKEN_H

#include "cli.h"

#include "../server/token.h"

/* One more, with the scopes, tenant and note of `token`; it ends after `expires_ms`, 0: never.
 * `token` is as it has become, `text` what its owner gets, once. */
ef_status cli_token_create(cli *c, ef__token *token, int64_t expires_ms,
                           char text[EF__TOKEN_TEXT_MAX], ef_error *err);
ef_status cli_token_ls(cli *c, ef__token_list *out, ef_error *err);
/* End one, with --reason on the record. `out` is as it has become. EF_NOT_FOUND */
ef_status cli_token_revoke(cli *c, ef_str id, ef__token *out, ef_error *err);

/* {"id","scopes",…}, without a line's end; `text` behind it unless that is NULL. */
void cli_token_write(cli *c, const ef__token *token, const char *text);
int64_t cli_now_us(void);

#endif
