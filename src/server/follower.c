/*
 * follower.c - one subscription and the data queued for it: see hub.h.
 */
#include "hub.h"

#include "../base/deadline.h"

#define PENDING_BYTES_FEW                                                                          \
    (1u << 16)               /* with less than this queued, a chunk of any size is accepted */
#define READING_US 1000000ll /* a client that read nothing for this time is stalled */

static int64_t chunk_bytes; /* of all chunks; atomic */

struct ef__chunk {
    int64_t users; /* atomic */
    size_t len;
    char bytes[];
};

struct ef__chunk_link {
    struct ef__chunk_link *next;
    ef__chunk *chunk;
};

void ef__chunk_drop(ef__chunk *c)
{
    if (__atomic_sub_fetch(&c->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    __atomic_sub_fetch(&chunk_bytes, (int64_t)c->len, __ATOMIC_RELAXED);
    free(c);
}

ef__chunk *ef__chunk_of(ef_str text)
{
    ef__chunk *c = text.len > 0 ? malloc(sizeof(*c) + text.len) : NULL;

    if (!c)
        return NULL;
    c->users = 1;
    c->len = text.len;
    __atomic_add_fetch(&chunk_bytes, (int64_t)c->len, __ATOMIC_RELAXED);
    memcpy(c->bytes, text.ptr, text.len);
    return c;
}

int64_t ef__chunk_bytes(void)
{
    return __atomic_load_n(&chunk_bytes, __ATOMIC_RELAXED);
}

ef__follower *ef__follower_make(const ef__topic_key *key, const ef_view_place *after,
                                const ef__principal *who)
{
    ef__follower *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->key = *key;
    f->after = *after;
    f->who = *who;
    f->users = 2;
    pthread_mutex_init(&f->lock, NULL);
    return f;
}

void ef__follower_drop(ef__follower *f)
{
    if (__atomic_sub_fetch(&f->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    while (f->first) {
        struct ef__chunk_link *l = f->first;
        f->first = l->next;
        ef__chunk_drop(l->chunk);
        free(l);
    }
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* Under its lock. */
static void follower_wake(ef__follower *f)
{
    if (f->parked) {
        f->parked = false;
        ef__http_resume(f->server, f->connection);
    }
}

bool ef__follower_give(ef__follower *f, ef__chunk *c, int64_t now_us)
{
    struct ef__chunk_link *l = calloc(1, sizeof *l);
    bool is_queued;

    EF__LOCK(&f->lock);
    f->took_us = f->pending ? f->took_us : now_us;
    is_queued = l && !f->has_left &&
                (f->pending < PENDING_BYTES_FEW || f->pending + c->len <= EF__FOLLOWER_BYTES_MAX);
    if (is_queued) {
        __atomic_add_fetch(&c->users, 1, __ATOMIC_ACQ_REL);
        l->chunk = c;
        if (f->last)
            f->last->next = l;
        else
            f->first = l;
        f->last = l;
        f->pending += c->len;
    } else {
        f->over = true;
        free(l);
    }
    follower_wake(f);
    return is_queued;
}

bool ef__follower_is_reading(ef__follower *f, int64_t now_us)
{
    EF__LOCK(&f->lock);
    return f->pending >= PENDING_BYTES_FEW && !f->has_left && now_us - f->took_us < READING_US;
}

bool ef__follower_is_stalled(ef__follower *f, int64_t now_us)
{
    EF__LOCK(&f->lock);
    return f->pending >= PENDING_BYTES_FEW && now_us - f->took_us >= READING_US;
}

void ef__follower_end(ef__follower *f)
{
    EF__LOCK(&f->lock);
    f->over = true;
    follower_wake(f);
}

void ef__follower_attach(ef__follower *f, ef__server *server, void *connection)
{
    EF__LOCK(&f->lock);
    f->server = server;
    f->connection = connection;
}

int64_t ef__follower_read(ef__follower *f, char *out, size_t max)
{
    int64_t n = 0;

    EF__LOCK(&f->lock);
    while (f->first && (size_t)n < max) {
        struct ef__chunk_link *l = f->first;
        size_t left = l->chunk->len - f->read,
               take = max - (size_t)n < left ? max - (size_t)n : left;
        memcpy(out + n, l->chunk->bytes + f->read, take);
        n += (int64_t)take;
        f->took_us = ef__server_mono(f->server);
        f->read += take;
        f->pending -= take;
        if (f->read == l->chunk->len) {
            f->first = l->next;
            f->last = f->first ? f->last : NULL;
            f->read = 0;
            ef__chunk_drop(l->chunk);
            free(l);
        }
    }
    if (n == 0 && f->over) {
        n = -1;
    } else if (n == 0) {
        f->parked = true;
        ef__http_suspend(f->connection);
    }
    return n;
}

void ef__follower_leave(ef__follower *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->has_left = true;
    f->parked = false;
    pthread_mutex_unlock(&f->lock);
    ef__follower_drop(f);
}
