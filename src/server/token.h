/*
 * token.h - API tokens and their file.
 *
 * A token is evf_ID_SECRET. The file has a line of JSON per token, with a hash of the secret and
 * never the secret itself; only its owner can read it, and it is replaced as a whole.
 */
#pragma once

#include "../base/arena.h"
#include "../base/json.h"
#include "../shape/operation.h"

#include <everfold/event.h>

#define EF__TOKEN_ID_MAX 17    /* 16 hexadecimal digits and a NUL */
#define EF__TOKEN_TEXT_MAX 96  /* evf_ID_SECRET and a NUL */
#define EF__TOKENS_MAX 10000   /* in a file */
#define EF__SCOPES_TEXT_MAX 64 /* "append,read,work,operate,admin" */

typedef struct ef__api_token {
    char id[EF__TOKEN_ID_MAX];
    unsigned scopes;
    bool bound; /* to `tenant` */
    char tenant[256];
    char note[128];
    int64_t created_us;
    int64_t expires_us; /* 0: never */
    int64_t revoked_us; /* 0: not */
    uint8_t hash[EF_HASH_BYTES];
} ef__api_token;

typedef struct ef__token_list {
    ef__api_token *items;
    size_t count;
} ef__token_list;

/* "append,read". EF_BAD_INPUT names an unknown scope. */
ef_status ef__scopes_parse(ef_str list, unsigned *out, ef_error *err);
/* The name of one bit. */
const char *ef__token_scope(unsigned bit);

/* Creates a token with a new secret. `text` is returned to its owner once and not stored. */
ef_status ef__token_make(ef__api_token *token, int64_t now_us, char text[EF__TOKEN_TEXT_MAX],
                         ef_error *err);
/* The token of a text; NULL: none. The time does not depend on the secret. */
const ef__api_token *ef__token_find(const ef__token_list *list, ef_str text);

/* No file: no tokens. EF_DAMAGED names the line, or reports that the file is empty. */
ef_status ef__tokens_read(const char *path, ef__token_list *out, ef_error *err);
/*
 * These replace the file under a lock: concurrent changes are serialised.
 * EF_NOT_FOUND  the directory does not exist, or there is no token to revoke
 * EF_TOO_LARGE  there are EF__TOKENS_MAX tokens already
 */
ef_status ef__tokens_add(const char *path, ef__api_token *token, ef_error *err);
/* Idempotent. `out` is the revoked token. */
ef_status ef__tokens_revoke(const char *path, ef_str id, int64_t now_us, ef__api_token *out,
                            ef_error *err);
/* Appends a token. EF_TOO_LARGE: there are EF__TOKENS_MAX already. */
ef_status ef__token_list_add(ef__token_list *list, const ef__api_token *token, ef_error *err);
void ef__token_list_release(ef__token_list *list);
EF__AUTO_TYPE(ef__token_list, ef__token_list_release)

/* "live", "expired", "revoked" */
const char *ef__token_state(const ef__api_token *token, int64_t now_us);
/* "append,read" */
void ef__scopes_format(unsigned scopes, char out[EF__SCOPES_TEXT_MAX]);
/* Writes the members "scopes", and "tenant": null without a bound tenant. */
void ef__scopes_write(ef__json_writer *w, unsigned scopes, const char *tenant);
/* Writes a token without its hash, with its text unless that is NULL. */
void ef__token_write(ef__json_writer *w, const ef__api_token *token, const char *text,
                     int64_t now_us);
