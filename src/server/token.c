/*
 * token.c - see token.h.
 */
#include "token.h"

#include "../base/arena.h"
#include "../base/hash.h"
#include "../base/file.h"
#include "../base/same.h"
#include "../shape/shape.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (8 << 20)
#define SECRET_BYTES 24

static const char *const scope_names[] = {"append", "read", "work", "operate", "admin"};
#define SCOPE_COUNT (sizeof(scope_names) / sizeof(scope_names[0]))

const char *ef__token_scope(unsigned bit)
{
    for (size_t i = 0; i < SCOPE_COUNT; i++)
        if (bit == 1u << i)
            return scope_names[i];
    return "";
}

ef_status ef__scopes_parse(ef_str list, unsigned *out, ef_error *err)
{
    *out = 0;
    while (list.len > 0) {
        ef_str word = ef__str_split(&list, ',');
        size_t i = 0;
        while (i < SCOPE_COUNT && !ef_str_equal(word, ef_str_from(scope_names[i])))
            i++;
        if (i == SCOPE_COUNT)
            return ef_fail(err, EF_BAD_INPUT,
                           "there is no scope '%.*s'; there are append, read, work, operate, admin",
                           EF_STR_ARG(word));
        *out |= 1u << i;
    }
    return *out ? EF_OK : ef_fail(err, EF_BAD_INPUT, "a token needs a scope");
}

void ef__scopes_format(unsigned scopes, char out[EF__SCOPES_TEXT_MAX])
{
    size_t used = 0;

    out[0] = '\0';
    for (unsigned bit = 1; bit <= EF__SCOPE_ADMIN; bit <<= 1)
        if (scopes & bit)
            used += (size_t)snprintf(out + used, EF__SCOPES_TEXT_MAX - used, "%s%s",
                                     used ? "," : "", ef__token_scope(bit));
}

ef_status ef__token_make(ef__api_token *token, int64_t now_us, char text[EF__TOKEN_TEXT_MAX],
                         ef_error *err)
{
    uint8_t random[8 + SECRET_BYTES];
    char secret[2 * SECRET_BYTES + 1];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return ef_fail(err, EF_IO, "the system gives no randomness");
    ef__hex(random, 8, token->id);
    ef__hex(random + 8, SECRET_BYTES, secret);
    token->created_us = now_us;
    (void)snprintf(text, EF__TOKEN_TEXT_MAX, "evf_%s_%s", token->id, secret);
    if (!ef__sha256(EF_STR("everfold token "), ef_str_from(text), token->hash))
        return ef_fail(err, EF_IO, "no SHA-256");
    return EF_OK;
}

static bool same_hash(const uint8_t *a, const uint8_t *b)
{
    unsigned different = 0;

    for (size_t i = 0; i < EF_HASH_BYTES; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

const ef__api_token *ef__token_find(const ef__token_list *list, ef_str text)
{
    uint8_t hash[EF_HASH_BYTES];
    const ef__api_token *found = NULL;

    if (text.len >= EF__TOKEN_TEXT_MAX || !ef__sha256(EF_STR("everfold token "), text, hash))
        return NULL;
    for (size_t i = 0; i < list->count; i++)
        if (same_hash(list->items[i].hash, hash))
            found = &list->items[i];
    return found;
}

/* --- the file --------------------------------------------------------------------------------- */

/* A token as a line of the file. */
typedef struct token_line {
    ef__api_token token; /* all but scopes and hash, which are text here */
    ef_str scopes, hash;
} token_line;

#define FIELD(key, kind, member) EF__FIELD(token_line, key, kind, member)

static const ef__field line_fields[] = {
    FIELD("id", CHARS, token.id),
    FIELD("scopes", STR, scopes),
    FIELD("bound", BOOL, token.bound),
    FIELD("tenant", CHARS, token.tenant),
    FIELD("note", CHARS, token.note),
    FIELD("created_at", TIME, token.created_us),
    FIELD("expires_at", TIME, token.expires_us),
    FIELD("revoked_at", TIME, token.revoked_us),
    FIELD("hash", STR, hash),
};
static const ef__shape line_shape = EF__SHAPE(line_fields, token_line);

/* Sets what is text in the line. */
static ef_status convert_line(const token_line *line, ef__api_token *out, ef_error *err)
{
    ef_status st = ef__scopes_parse(line->scopes, &out->scopes, err);

    if (st != EF_OK)
        return st;
    if (line->hash.len != 2 * EF_HASH_BYTES || line->token.id[0] == '\0')
        return ef_fail(err, EF_BAD_JSON, "a field has the wrong length");
    for (size_t i = 0; i < EF_HASH_BYTES; i++) {
        int high = ef__hex_digit(line->hash.ptr[2 * i]),
            low = ef__hex_digit(line->hash.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return ef_fail(err, EF_BAD_JSON, "hash is not hexadecimal");
        out->hash[i] = (uint8_t)(high * 16 + low);
    }
    return EF_OK;
}

static ef_status parse_line(ef_str text, ef__token_list *list, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(1 << 20);
    ef__json *json = NULL;
    token_line line;
    ef_status st = ef__json_parse(text, 65536, &arena, &json, err);

    if (st == EF_OK)
        st = ef__shape_read(json, &line_shape, &line, err);
    if (st == EF_OK)
        st = convert_line(&line, &line.token, err);
    if (st == EF_OK)
        st = ef__token_list_add(list, &line.token, err);
    return st;
}

/* *out_found false: there is no file. */
static ef_status read_file(const char *path, ef__buf *out, bool *out_found, ef_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;

    *out_found = fd >= 0 || errno != ENOENT;
    if (!*out_found)
        return EF_OK;
    if (fd < 0)
        return ef_fail(err, EF_IO, "the token file %s cannot be read: %s", path, strerror(errno));
    do {
        if (!ef__buf_reserve(out, 65536))
            break;
        n = read(fd, out->ptr + out->len, 65536);
        out->len += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    (void)close(fd);
    if (n < 0)
        return ef_fail(err, EF_IO, "the token file %s cannot be read: %s", path, strerror(errno));
    return out->failed
               ? ef_fail(err, EF_TOO_LARGE, "%s has more than %d bytes", path, FILE_BYTES_MAX)
               : EF_OK;
}

ef_status ef__tokens_read(const char *path, ef__token_list *out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(FILE_BYTES_MAX);
    ef_error why = EF_ERROR_INIT;
    size_t number = 0;
    bool found = false;
    ef_status st = read_file(path, &text, &found, err);

    *out = (ef__token_list){NULL, 0};
    for (ef_str rest = ef__buf_str(&text); st == EF_OK && rest.len > 0;) {
        ef_str line = ef__str_split(&rest, '\n');
        number++;
        if (line.len > 0 && parse_line(line, out, &why) != EF_OK)
            st = ef_fail(err, EF_DAMAGED, "the token file %s is damaged: line %zu: %s", path,
                         number, why.text);
    }
    if (st == EF_OK && found &&
        out->count == 0) /* an empty file was truncated: this code never writes one */
        st = ef_fail(
            err, EF_DAMAGED,
            "the token file %s is damaged: it has no token; remove it and restart to have none",
            path);
    if (st != EF_OK)
        ef__token_list_release(out);
    return st;
}

static void write_line(ef__buf *out, const ef__api_token *token)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    char hash[2 * EF_HASH_BYTES + 1], scopes[EF__SCOPES_TEXT_MAX];
    token_line line = {.token = *token};

    ef__scopes_format(token->scopes, scopes);
    ef__hex(token->hash, EF_HASH_BYTES, hash);
    line.scopes = ef_str_from(scopes);
    line.hash = ef_str_from(hash);
    ef__shape_write(&w, &line_shape, &line);
    ef__buf_add_char(out, '\n');
}

static bool write_all(int fd, ef_str text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno != EINTR)
            return false;
        text.ptr += n > 0 ? n : 0;
        text.len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Writes a temporary file, syncs it and renames it: a reader finds the old file or the new one. */
static ef_status write_file(const char *path, const ef__token_list *list, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(FILE_BYTES_MAX);
    char aside[PATH_MAX];
    EF__AUTO(ef__fd) fd = -1;

    for (size_t i = 0; i < list->count; i++)
        write_line(&text, &list->items[i]);
    if (text.failed || snprintf(aside, sizeof(aside), "%s.new", path) >= (int)sizeof(aside))
        return ef_fail(err, EF_TOO_LARGE, "too many tokens, or too long a path: %s", path);
    (void)unlink(aside); /* left by a process that crashed; its mode and owner are not trusted */
    fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ef__owner_inherit(aside);
    if (fd < 0 || !write_all(fd, ef__buf_str(&text)) || fsync(fd) != 0 || rename(aside, path) != 0)
        return ef_fail(err, EF_IO, "%s: %s", aside, strerror(errno));
    (void)ef__parent_sync(path);
    return EF_OK;
}

/* The lock is a separate file, because each change replaces the token file. */
static ef_status lock_file(const char *path, int *out_fd, ef_error *err)
{
    char lock[PATH_MAX];
    int fd;

    if (snprintf(lock, sizeof(lock), "%s.lock", path) >= (int)sizeof(lock))
        return ef_fail(err, EF_TOO_LARGE, "too long a path: %s", path);
    fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return ef_fail(err, errno == ENOENT ? EF_NOT_FOUND : EF_IO, "%s: %s", lock,
                       strerror(errno));
    ef__owner_inherit(lock);
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            (void)close(fd);
            return ef_fail(err, EF_IO, "%s: %s", lock, strerror(errno));
        }
    *out_fd = fd;
    return EF_OK;
}

/* If `change` fails, the file is not changed. */
static ef_status change_tokens(const char *path,
                               ef_status (*change)(ef__token_list *list, void *context,
                                                   ef_error *err),
                               void *context, ef_error *err)
{
    EF__AUTO(ef__token_list) list = {NULL, 0};
    int fd = -1;
    ef_status st = lock_file(path, &fd, err);

    if (st != EF_OK)
        return st;
    st = ef__tokens_read(path, &list, err);
    if (st == EF_OK)
        st = change(&list, context, err);
    if (st == EF_OK)
        st = write_file(path, &list, err);
    (void)close(fd); /* releases the lock */
    return st;
}

ef_status ef__token_list_add(ef__token_list *list, const ef__api_token *token, ef_error *err)
{
    ef__api_token *grown;

    if (list->count == EF__TOKENS_MAX)
        return ef_fail(err, EF_TOO_LARGE, "there are %d tokens already, revoked ones included",
                       EF__TOKENS_MAX);
    grown = realloc(list->items, (list->count + 1) * sizeof(*grown));
    if (!grown)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    list->items = grown;
    list->items[list->count++] = *token;
    return EF_OK;
}

static ef_status add_one(ef__token_list *list, void *context, ef_error *err)
{
    return ef__token_list_add(list, context, err);
}

ef_status ef__tokens_add(const char *path, ef__api_token *token, ef_error *err)
{
    return change_tokens(path, add_one, token, err);
}

typedef struct revoking {
    ef_str id;
    int64_t now_us;
    ef__api_token *token; /* the result */
} revoking;

/* Idempotent: the time of the first revocation is kept. */
static ef_status revoke_one(ef__token_list *list, void *context, ef_error *err)
{
    const revoking *r = context;

    for (size_t i = 0; i < list->count; i++) {
        ef__api_token *token = &list->items[i];
        if (!ef_str_equal(ef_str_from(token->id), r->id))
            continue;
        if (token->revoked_us == 0)
            token->revoked_us = r->now_us;
        *r->token = *token;
        return EF_OK;
    }
    return ef_fail(err, EF_NOT_FOUND, "there is no token '%.*s'; see: everfold token ls",
                   EF_STR_ARG(r->id));
}

ef_status ef__tokens_revoke(const char *path, ef_str id, int64_t now_us, ef__api_token *out,
                            ef_error *err)
{
    revoking r = {id, now_us, out};

    if (access(path, F_OK) != 0 && errno == ENOENT)
        return revoke_one(&(ef__token_list){NULL, 0}, &r,
                          err); /* without a file, create no lock file either */
    return change_tokens(path, revoke_one, &r, err);
}

void ef__token_list_release(ef__token_list *list)
{
    free(list->items);
    *list = (ef__token_list){NULL, 0};
}

/* --- as text ---------------------------------------------------------------------------------- */

const char *ef__token_state(const ef__api_token *token, int64_t now_us)
{
    if (token->revoked_us > 0)
        return "revoked";
    return token->expires_us > 0 && token->expires_us <= now_us ? "expired" : "live";
}

void ef__scopes_write(ef__json_writer *w, unsigned scopes, const char *tenant)
{
    ef__json_member_open(w, "scopes", '[');
    for (unsigned bit = 1; bit <= EF__SCOPE_ADMIN; bit <<= 1)
        if (scopes & bit)
            ef__json_str(w, ef_str_from(ef__token_scope(bit)));
    ef__json_close(w, ']');
    ef__json_key(w, "tenant");
    if (tenant)
        ef__json_str(w, ef_str_from(tenant));
    else
        ef__json_null(w);
}

void ef__token_write(ef__json_writer *w, const ef__api_token *token, const char *text,
                     int64_t now_us)
{
    ef__json_open(w, '{');
    ef__json_member_text(w, "id", token->id);
    ef__scopes_write(w, token->scopes, token->bound ? token->tenant : NULL);
    ef__json_member_text(w, "note", token->note);
    ef__json_member_text(w, "state", ef__token_state(token, now_us));
    ef__json_member_time(w, "created_at", token->created_us);
    ef__json_member_time(w, "expires_at", token->expires_us);
    ef__json_member_time(w, "revoked_at", token->revoked_us);
    if (text)
        ef__json_member_text(w, "token", text);
    ef__json_close(w, '}');
}
