/*
 * tls.c - certificate and key, and their replacement while the server runs.
 *
 * The HTTP library requests the pair at each handshake, by a callback whose only argument is the
 * session; so the current pair is a static variable, and only one server per process has TLS. A
 * handshake uses its pair until it ends, which is within request_ms; a replaced pair is kept for
 * longer than that.
 */
#include "http_priv.h"

#include "../base/deadline.h"

#define CHAIN_MAX 16
#define KEY_ID_BYTES 64

/* A certificate with its chain, and its key. */
typedef struct pair {
    struct pair *older;
    int64_t replaced_us;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned count;
    gnutls_privkey_t key;
} pair;

struct ef__tls {
    pthread_mutex_t lock;
    pair *newest;
};

static struct ef__tls *served; /* set before the network thread starts, NULL after it has ended */

static void pair_release(pair *p)
{
    if (!p)
        return;
    for (unsigned i = 0; i < p->count; i++)
        gnutls_pcert_deinit(&p->chain[i]);
    if (p->key)
        gnutls_privkey_deinit(p->key);
    free(p);
}

static ef_status read_chain(const char *path, pair *out, ef_error *err)
{
    gnutls_datum_t text = {NULL, 0};
    unsigned count = CHAIN_MAX;
    int code = gnutls_load_file(path, &text);

    if (code == 0)
        code = gnutls_pcert_list_import_x509_raw(out->chain, &count, &text, GNUTLS_X509_FMT_PEM, 0);
    gnutls_free(text.data);
    if (code != 0)
        return ef_fail(err, EF_BAD_INPUT, "server.tls_certificate %.300s: %s", path,
                       gnutls_strerror(code));
    out->count = count;
    return EF_OK;
}

static ef_status read_key(const char *path, pair *out, ef_error *err)
{
    gnutls_datum_t text = {NULL, 0};
    int code = gnutls_privkey_init(&out->key);

    if (code == 0)
        code = gnutls_load_file(path, &text);
    if (code == 0)
        code = gnutls_privkey_import_x509_raw(out->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (text.data)
        gnutls_memset(text.data, 0, text.size);
    gnutls_free(text.data);
    if (code != 0)
        return ef_fail(err, EF_BAD_INPUT, "server.tls_key %.300s: %s", path, gnutls_strerror(code));
    return EF_OK;
}

/* Checks that the key belongs to the certificate: otherwise every later handshake would fail. */
static ef_status check_match(const pair *p, ef_error *err)
{
    uint8_t mine[KEY_ID_BYTES], theirs[KEY_ID_BYTES];
    size_t mine_bytes = sizeof(mine), their_bytes = sizeof(theirs);
    gnutls_pubkey_t public = NULL;
    int code = gnutls_pubkey_init(&public);

    if (code == 0)
        code = gnutls_pubkey_import_privkey(public, p->key, 0, 0);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(public, 0, mine, &mine_bytes);
    if (code == 0)
        code = gnutls_pubkey_get_key_id(p->chain[0].pubkey, 0, theirs, &their_bytes);
    if (public)
        gnutls_pubkey_deinit(public);
    if (code != 0)
        return ef_fail(err, EF_BAD_INPUT, "server.tls_key: %s", gnutls_strerror(code));
    if (mine_bytes != their_bytes || memcmp(mine, theirs, mine_bytes) != 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "server.tls_key is not the key of the first certificate in "
                       "server.tls_certificate");
    return EF_OK;
}

static ef_status read_pair(const ef__server *server, pair **out, ef_error *err)
{
    pair *p = calloc(1, sizeof(*p));
    ef_status st = p ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");

    if (st == EF_OK)
        st = read_chain(server->options.tls_certificate, p, err);
    if (st == EF_OK)
        st = read_key(server->options.tls_key, p, err);
    if (st == EF_OK)
        st = check_match(p, err);
    if (st != EF_OK) {
        pair_release(p);
        p = NULL;
    }
    *out = p;
    return st;
}

ef_status ef__tls_open(ef__server *server, ef_error *err)
{
    const ef__server_options *o = &server->options;

    if (!o->tls_certificate && !o->tls_key)
        return EF_OK;
    if (!o->tls_certificate || !o->tls_key)
        return ef_fail(err, EF_BAD_INPUT, "%s is set and %s is not: both or none",
                       o->tls_key ? "server.tls_key" : "server.tls_certificate",
                       o->tls_key ? "server.tls_certificate" : "server.tls_key");
    if (served)
        return ef_fail(err, EF_MISUSE, "another server of this process has TLS");
    server->tls = calloc(1, sizeof(*server->tls));
    if (!server->tls)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    pthread_mutex_init(&server->tls->lock, NULL);
    served = server->tls;
    return ef__tls_reload(server, err);
}

/* Under the lock: frees pairs that no handshake can use any more. */
static void drop_old(ef__server *server, int64_t now_us)
{
    pair **at = &server->tls->newest->older;

    while (*at && now_us - (*at)->replaced_us <= 2 * server->options.request_ms * 1000)
        at = &(*at)->older;
    while (*at) {
        pair *gone = *at;
        *at = gone->older;
        pair_release(gone);
    }
}

ef_status ef__tls_reload(ef__server *server, ef_error *err)
{
    struct ef__tls *tls = server->tls;
    pair *fresh = NULL;
    ef_status st = tls ? read_pair(server, &fresh, err) : EF_OK;

    if (!fresh)
        return st;
    EF__LOCK(&tls->lock);
    fresh->older = tls->newest;
    if (fresh->older)
        fresh->older->replaced_us = ef__server_mono(server);
    tls->newest = fresh;
    drop_old(server, ef__server_mono(server));
    return EF_OK;
}

void ef__tls_close(ef__server *server)
{
    struct ef__tls *tls = server->tls;

    if (!tls)
        return;
    while (tls->newest) {
        pair *gone = tls->newest;
        tls->newest = gone->older;
        pair_release(gone);
    }
    pthread_mutex_destroy(&tls->lock);
    free(tls);
    server->tls = NULL;
    served = NULL;
}

int ef__tls_retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                     const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                     gnutls_pcert_st **out_certificates, unsigned *out_count,
                     gnutls_privkey_t *out_key)
{
    (void)session;
    (void)authorities;
    (void)count;
    (void)algorithms;
    (void)algorithm_count;
    EF__LOCK(&served->lock);
    *out_certificates = served->newest->chain;
    *out_count = served->newest->count;
    *out_key = served->newest->key;
    return 0;
}
