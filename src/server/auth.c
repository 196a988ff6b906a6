/*
 * auth.c - authentication: the principal of a request.
 *
 * Tokens are read from their file, and again when it has changed; so a revoked token is refused
 * within a second, without a signal. Without a token file, requests from this machine have every
 * scope except admin. That ends with the first token, and if the file exists but cannot be read or
 * is damaged: then only the tokens that were read last are valid. The same holds if a file with
 * tokens is removed while the server runs.
 *
 * The server's own user and root are administrators over the Unix socket without a token, whether
 * tokens exist or not: they can write the token file and the journal anyway.
 */
#include "server_priv.h"
#include "token.h"

#include <sys/stat.h>

#define RELOAD_US 1000000

/* Identifies a state of the file: each change replaces the file. */
typedef struct file_identity {
    struct timespec changed;
    ino_t number;
} file_identity;

struct ef__tokens {
    pthread_rwlock_t lock; /* over the list */
    ef__token_list list;
    file_identity identity; /* of the file at the last attempt to read it */
    bool unreadable;        /* reading the file failed; it is retried each second */
    int64_t checked_us;
};

static struct ef__tokens *tokens_lock(struct ef__tokens *tokens)
{
    pthread_rwlock_rdlock(&tokens->lock);
    return tokens;
}

static void tokens_unlock(struct ef__tokens **tokens)
{
    pthread_rwlock_unlock(&(*tokens)->lock);
}

/* Locks the list for reading until the end of the block. */
#define READ_LOCK(tokens)                                                                          \
    struct ef__tokens *locked __attribute__((cleanup(tokens_unlock), unused)) = tokens_lock(tokens)

static file_identity identity_of(const char *path)
{
    struct stat s;

    return path && stat(path, &s) == 0 ? (file_identity){s.st_mtim, s.st_ino}
                                       : (file_identity){{0, 0}, 0};
}

static bool same_identity(const file_identity *a, const file_identity *b)
{
    return a->number == b->number && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Takes over the list, or records that reading failed. True: either is a change. */
static bool take_list(struct ef__tokens *tokens, ef_status st, ef__token_list list,
                      file_identity identity)
{
    bool was_unreadable;

    pthread_rwlock_wrlock(&tokens->lock);
    was_unreadable = tokens->unreadable;
    tokens->unreadable = st != EF_OK;
    tokens->identity = identity;
    if (st == EF_OK) {
        ef__token_list_release(&tokens->list);
        tokens->list = list;
    }
    pthread_rwlock_unlock(&tokens->lock);
    return was_unreadable != (st != EF_OK);
}

static bool has_tokens(struct ef__tokens *tokens)
{
    READ_LOCK(tokens);
    return tokens->list.count > 0;
}

ef_status ef__tokens_reload(ef__server *server, ef_error *err)
{
    struct ef__tokens *tokens = server->tokens;
    ef__token_list list = {NULL, 0};
    file_identity identity = identity_of(server->options.tokens);
    ef_status st =
        server->options.tokens ? ef__tokens_read(server->options.tokens, &list, err) : EF_OK;
    bool changed;

    if (st == EF_OK && list.count == 0 &&
        has_tokens(tokens)) /* otherwise requests without a token would be accepted */
        st = ef_fail(err, EF_IO,
                     "the token file %s was removed; put it back, or restart the server to serve "
                     "without tokens",
                     server->options.tokens);
    changed = take_list(tokens, st, list, identity);

    if (changed && st != EF_OK)
        ef__log(server->options.log, EF_LOG_ERROR,
                "token file unreadable: only tokens that were read before are accepted",
                EF_LOG_TEXT_FIELD("file", ef_str_from(server->options.tokens)),
                EF_LOG_TEXT_FIELD("error", ef_str_from(err ? err->text : "")));
    else if (changed)
        ef__log(server->options.log, EF_LOG_WARN, "token file readable again",
                EF_LOG_TEXT_FIELD("file", ef_str_from(server->options.tokens)));
    return st;
}

/* Whether requests from this machine are accepted without a token. */
static bool is_unlocked(const struct ef__tokens *tokens)
{
    return tokens->list.count == 0 && !tokens->unreadable;
}

ef_status ef__tokens_open(ef__server *server, ef_error *err)
{
    server->tokens = calloc(1, sizeof *server->tokens);
    if (!server->tokens)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    pthread_rwlock_init(&server->tokens->lock, NULL);
    return ef__tokens_reload(server, err);
}

void ef__tokens_close(ef__server *server)
{
    if (!server->tokens)
        return;
    ef__token_list_release(&server->tokens->list);
    pthread_rwlock_destroy(&server->tokens->lock);
    free(server->tokens);
    server->tokens = NULL;
}

bool ef__tokens_any(const ef__server *server)
{
    READ_LOCK(server->tokens);
    return !is_unlocked(server->tokens);
}

/* Reads the file if it has changed, or (`retry`) if reading it failed before. */
static bool reload_if_changed(ef__server *server, bool retry)
{
    struct ef__tokens *tokens = server->tokens;
    file_identity identity = identity_of(server->options.tokens);
    ef_error err = EF_ERROR_INIT;
    bool same;

    pthread_rwlock_rdlock(&tokens->lock);
    same = same_identity(&identity, &tokens->identity) && !(retry && tokens->unreadable);
    pthread_rwlock_unlock(&tokens->lock);
    if (!same)
        (void)ef__tokens_reload(server, &err);
    return !same;
}

/* Reads the token file again if it has changed, because tokens may have been revoked. */
static void reload_at_interval(ef__server *server, int64_t now_us)
{
    struct ef__tokens *tokens = server->tokens;
    int64_t before = __atomic_load_n(&tokens->checked_us, __ATOMIC_RELAXED);

    if (now_us - before < RELOAD_US || !server->options.tokens ||
        !__atomic_compare_exchange_n(&tokens->checked_us, &before, now_us, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return;
    (void)reload_if_changed(server, true);
}

static ef_status check_known_token(const ef__server *server, ef_str text, ef__principal *out,
                                   ef_error *err)
{
    READ_LOCK(server->tokens);
    const ef__api_token *token = ef__token_find(&server->tokens->list, text);

    if (!token || strcmp(ef__token_state(token, ef__server_now(server)), "live") != 0)
        return ef_fail(err, EF_UNAUTHORIZED, "the token is not known, has expired or was revoked");
    *out = (ef__principal){.scopes = token->scopes, .bound = token->bound};
    memcpy(out->tenant, token->tenant, sizeof(out->tenant));
    (void)snprintf(out->name, sizeof(out->name), "token %s", token->id);
    (void)snprintf(out->token, sizeof(out->token), "%s", token->id);
    return EF_OK;
}

/* An unknown token may have been created since the file was read. */
static ef_status check_token(ef__server *server, ef_str text, ef__principal *out, ef_error *err)
{
    ef_status st = check_known_token(server, text, out, err);

    if (st == EF_OK || !server->options.tokens || !reload_if_changed(server, false))
        return st;
    return check_known_token(server, text, out, err);
}

/* The scopes of a peer without a token. */
static ef__principal principal_of(const ef__peer *peer)
{
    bool owner = peer->kind == EF__PEER_OWNER;
    ef__principal who = {.scopes = owner ? EF__SCOPE_ALL : EF__SCOPE_ALL & ~EF__SCOPE_ADMIN,
                         .owner = owner,
                         .name = "loopback"};

    if (peer->has_uid)
        (void)snprintf(who.name, sizeof who.name, "uid %u", peer->uid);
    return who;
}

ef_status ef__token_check(ef__server *server, ef_str authorization, const ef__peer *peer,
                          int64_t now_us, ef__principal *out, ef_error *err)
{
    bool admitted;

    reload_at_interval(server, now_us);
    if (authorization.len > 7 && strncasecmp(authorization.ptr, "Bearer ", 7) == 0)
        return check_token(server, (ef_str){authorization.ptr + 7, authorization.len - 7}, out,
                           err);
    pthread_rwlock_rdlock(&server->tokens->lock);
    admitted = peer->kind == EF__PEER_OWNER ||
               (peer->kind == EF__PEER_LOCAL && is_unlocked(server->tokens));
    pthread_rwlock_unlock(&server->tokens->lock);
    if (!admitted || authorization.len > 0)
        return ef_fail(err, EF_UNAUTHORIZED, "a token is needed: Authorization: Bearer evf_…");
    *out = principal_of(peer);
    return EF_OK;
}

bool ef__principal_stands(ef__server *server, const ef__principal *who)
{
    bool stands;

    reload_at_interval(server, ef__server_mono(server));
    READ_LOCK(server->tokens);
    stands = who->owner || (who->token[0] == '\0' && is_unlocked(server->tokens));
    for (size_t i = 0; who->token[0] && i < server->tokens->list.count; i++) {
        const ef__api_token *token = &server->tokens->list.items[i];
        if (strcmp(token->id, who->token) == 0)
            stands = strcmp(ef__token_state(token, ef__server_now(server)), "live") == 0;
    }
    return stands;
}
