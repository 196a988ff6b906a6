/*
 * hub.c - see hub.h.
 *
 * One thread reads for all topics. It sleeps until the journal grows, or until there is a follower
 * to greet; while a projection is behind the journal it looks again after some milliseconds, for
 * nobody tells when another process has folded something. What waits behind an event that failed is
 * looked for as when idle.
 *
 * A step of a topic is small in time and bytes, so that one whose events are large does not delay
 * the others: the number of events that it reads adapts to what the last step took.
 *
 * Topics belong to the thread. Locks: the hub's, over followers that are new; then a follower's
 * own, over what waits for it. No store is read under a lock.
 */
#include "hub.h"

#include "../base/deadline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define READ_LIMIT_MAX 500           /* events a topic reads at once … */
#define READ_LIMIT_MIN 2             /* … at least, and … */
#define READ_LIMIT_FIRST 8           /* … in its first step */
#define STEP_US_MAX 10000ll          /* a step that took longer is followed by a smaller one … */
#define STEP_US_FEW 2000ll           /* … and one that took less by a larger one */
#define PENDING_BYTES_MAX (1u << 20) /* that wait for one follower */
#define PENDING_BYTES_FEW (1u << 16) /* a follower with less than that may be given any amount */
#define FRAMES_BYTES_MAX (80u << 20) /* of one read: the largest events, with room to spare */
#define WAITING_BYTES_MAX                                                                          \
    (64u << 20)             /* for all followers; above it those that stall are let go             \
                             */
#define TAKING_US 1000000ll /* one that took nothing for so long is not waited for */
#define LOOK_US 1000000ll   /* whether tokens still stand */
#define BEHIND_MS 10        /* a projection is behind: look again after this */
#define VAINLY_MAX 100      /* it does not come: look as when idle */
#define IDLE_MS 1000

static int64_t chunk_bytes; /* of all chunks; atomic */

/* What several followers are sent, once. */
typedef struct chunk {
    int64_t users; /* atomic */
    size_t len;
    char bytes[];
} chunk;

typedef struct link {
    struct link *next;
    chunk *chunk;
} link;

struct ef__follower {
    ef__follower *next;                  /* in its topic, or among those who are new */
    ef__follower *next_all, *before_all; /* of all that the hub has */
    ef__topic_key key;
    ef_view_place after;
    ef__principal who;
    int64_t users; /* atomic: the hub, and the request */
    pthread_mutex_t lock;
    link *first, *last;
    size_t read;     /* of the first chunk */
    size_t pending;  /* bytes that wait */
    int64_t took_us; /* when it last took something, or began to have something to take */
    bool gone;       /* the reader has left */
    bool over;       /* nothing more comes */
    bool parked;
    ef__follower_reader reader;
};

typedef struct topic {
    struct topic *next;
    ef__topic_key key;
    ef_view_place place;
    bool behind;    /* its projection has not got everything yet */
    int64_t vainly; /* steps in a row that brought nothing */
    size_t limit;   /* events of the next step */
    ef__follower *followers;
} topic;

struct ef__hub {
    ef__server *server;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    topic *topics;
    ef__follower *fresh; /* have joined, and have no topic yet */
    ef__follower *all;
    bool ending;
    int64_t beat_us, looked_us;
};

/* --- chunks and followers -----------------------------------------------------------------------
 */

static void chunk_drop(chunk *c)
{
    if (__atomic_sub_fetch(&c->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    __atomic_sub_fetch(&chunk_bytes, (int64_t)c->len, __ATOMIC_RELAXED);
    free(c);
}

static chunk *chunk_of(ef_str text)
{
    chunk *c = text.len > 0 ? malloc(sizeof(*c) + text.len) : NULL;

    if (!c)
        return NULL;
    c->users = 1;
    c->len = text.len;
    __atomic_add_fetch(&chunk_bytes, (int64_t)c->len, __ATOMIC_RELAXED);
    memcpy(c->bytes, text.ptr, text.len);
    return c;
}

static void follower_drop(ef__follower *f)
{
    if (__atomic_sub_fetch(&f->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    while (f->first) {
        link *l = f->first;
        f->first = l->next;
        chunk_drop(l->chunk);
        free(l);
    }
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* Under its lock. */
static void wake(ef__follower *f)
{
    if (f->parked) {
        f->parked = false;
        f->reader.wake(f->reader.server, f->reader.connection);
    }
}

/* Hand it a chunk. False: it is gone, or too slow, and the hub lets it go. */
static bool follower_give(ef__follower *f, chunk *c, int64_t now_us)
{
    link *l = calloc(1, sizeof *l);
    bool stays;

    pthread_mutex_lock(&f->lock);
    f->took_us = f->pending ? f->took_us : now_us;
    stays = l && !f->gone &&
            (f->pending < PENDING_BYTES_FEW || f->pending + c->len <= PENDING_BYTES_MAX);
    if (stays) {
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
    wake(f);
    pthread_mutex_unlock(&f->lock);
    return stays;
}

/* Does a good deal wait for it, and does it get on with that? */
static bool follower_is_taking(ef__follower *f, int64_t now_us)
{
    bool taking;

    pthread_mutex_lock(&f->lock);
    taking = f->pending >= PENDING_BYTES_FEW && !f->gone && now_us - f->took_us < TAKING_US;
    pthread_mutex_unlock(&f->lock);
    return taking;
}

/* Much waits for it, and it takes none of it. */
static bool follower_stalls(ef__follower *f, int64_t now_us)
{
    bool stalls;

    pthread_mutex_lock(&f->lock);
    stalls = f->pending >= PENDING_BYTES_FEW && now_us - f->took_us >= TAKING_US;
    pthread_mutex_unlock(&f->lock);
    return stalls;
}

static void follower_end(ef__follower *f)
{
    pthread_mutex_lock(&f->lock);
    f->over = true;
    wake(f);
    pthread_mutex_unlock(&f->lock);
}

void ef__follower_attach(ef__follower *f, const ef__follower_reader *reader)
{
    pthread_mutex_lock(&f->lock);
    f->reader = *reader;
    pthread_mutex_unlock(&f->lock);
}

int64_t ef__follower_read(ef__follower *f, char *out, size_t max)
{
    int64_t n = 0;

    pthread_mutex_lock(&f->lock);
    while (f->first && (size_t)n < max) {
        link *l = f->first;
        size_t left = l->chunk->len - f->read,
               take = max - (size_t)n < left ? max - (size_t)n : left;
        memcpy(out + n, l->chunk->bytes + f->read, take);
        n += (int64_t)take;
        f->took_us = ef__server_mono(f->reader.server);
        f->read += take;
        f->pending -= take;
        if (f->read == l->chunk->len) {
            f->first = l->next;
            f->last = f->first ? f->last : NULL;
            f->read = 0;
            chunk_drop(l->chunk);
            free(l);
        }
    }
    if (n == 0 && f->over) {
        n = -1;
    } else if (n == 0) {
        f->parked = true;
        f->reader.park(f->reader.connection);
    }
    pthread_mutex_unlock(&f->lock);
    return n;
}

void ef__follower_leave(ef__follower *f)
{
    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->gone = true;
    f->parked = false;
    pthread_mutex_unlock(&f->lock);
    follower_drop(f);
}

/* --- topics --------------------------------------------------------------------------------------
 */

static bool same_key(const ef__topic_key *a, const ef__topic_key *b)
{
    return a->kind == b->kind && strcmp(a->tenant, b->tenant) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->id, b->id) == 0;
}

static bool is_at(const topic *t, const ef_view_place *place)
{
    return t->place.position == place->position && t->place.waiting_count == place->waiting_count &&
           memcmp(t->place.waiting, place->waiting,
                  place->waiting_count * sizeof place->waiting[0]) == 0;
}

static void topic_add(topic *t, ef__follower *f)
{
    f->next = t->followers;
    t->followers = f;
}

/* The hub is done with a follower, which no topic has any more. */
static void hub_release(struct ef__hub *hub, ef__follower *f)
{
    pthread_mutex_lock(&hub->lock);
    if (f->before_all)
        f->before_all->next_all = f->next_all;
    else
        hub->all = f->next_all;
    if (f->next_all)
        f->next_all->before_all = f->before_all;
    pthread_mutex_unlock(&hub->lock);
    __atomic_sub_fetch(&hub->server->counts.followers, 1, __ATOMIC_RELAXED);
    follower_drop(f);
}

/* A topic for each who is new, unless there is one at the same place. */
static void seat(struct ef__hub *hub, ef__follower *fresh)
{
    while (fresh) {
        ef__follower *f = fresh;
        topic *t = hub->topics;
        fresh = f->next;
        while (t && !(same_key(&t->key, &f->key) && is_at(t, &f->after)))
            t = t->next;
        if (!t && (t = calloc(1, sizeof *t)) != NULL) {
            t->key = f->key;
            t->place = f->after;
            t->limit = READ_LIMIT_FIRST;
            t->next = hub->topics;
            hub->topics = t;
        }
        if (t) {
            topic_add(t, f);
            continue;
        }
        follower_end(f);
        hub_release(hub, f);
    }
}

/* Topics that have met become one; those without followers go. */
static void tidy(struct ef__hub *hub)
{
    for (topic **at = &hub->topics; *at;) {
        topic *t = *at, *other = t->next;
        while (other && !(same_key(&t->key, &other->key) && is_at(t, &other->place)))
            other = other->next;
        while (other && t->followers) {
            ef__follower *f = t->followers;
            t->followers = f->next;
            topic_add(other, f);
        }
        if (t->followers) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        free(t);
    }
}

/* To all of them, or only to those who have not enough to take as it is. */
static void topic_give(struct ef__hub *hub, topic *t, ef_str text, bool to_all)
{
    chunk *c = chunk_of(text);
    int64_t now_us = ef__server_mono(hub->server);

    for (ef__follower **at = &t->followers; c && *at;) {
        ef__follower *f = *at;
        if ((!to_all && follower_is_taking(f, now_us)) || follower_give(f, c, now_us)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        hub_release(hub, f);
    }
    if (c)
        chunk_drop(c);
}

/* --- reading
 * -------------------------------------------------------------------------------------- */

static void frame_begin(ef__buf *out, const char *event, const char *id)
{
    ef__buf_printf(out, "event: %s\nid: %s\ndata: ", event, id);
}

static ef_status read_events(const topic *t, ef__server *server, ef__buf *out, ef_view_place *place,
                             ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(server->options.journal,
                                       &(ef_log_query){.tenant = ef_str_from(t->key.tenant),
                                                       .after = t->place.position,
                                                       .type = ef_str_from(t->key.name),
                                                       .limit = t->limit,
                                                       .out_reached = &place->position},
                                       &batch, err);

    for (size_t i = 0; st == EF_OK && i < batch.count; i++) {
        ef__json_writer w = EF__JSON_WRITER(out);
        char id[32];
        size_t start;
        (void)snprintf(id, sizeof(id), "%" PRId64, batch.events[i].position);
        frame_begin(out, "event", id);
        start = out->len;
        ef__shape_write(&w, &ef__shape_event, &batch.events[i]);
        ef__one_line(out, start);
        ef__buf_add_text(out, "\n\n");
        if (out->len >= PENDING_BYTES_MAX) { /* as much as may wait for a follower */
            place->position = batch.events[i].position;
            break;
        }
    }
    ef_batch_release(&batch);
    return st;
}

/* A view that is gone has null for its data. */
static void write_change(ef__buf *out, const ef_view *view, const char *id, int64_t as_of)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    ef_view shown = *view;

    if (shown.data.len == 0)
        shown.data = EF_STR("null");
    frame_begin(out, view->data.len ? "view" : "gone", id);
    ef__view_write(&w, &shown, as_of);
    ef__buf_add_text(out, "\n\n");
}

/* Only the last of what was found together carries the new place: whoever loses the connection
 * before it comes back to the old one, and is told all of it again. */
static ef_status read_views(topic *t, ef__server *server, ef__buf *out, ef_view_place *place,
                            ef_error *err)
{
    char before[EF_VIEW_PLACE_MAX], after[EF_VIEW_PLACE_MAX];
    ef_view_list found = {0};
    ef_head head = {0};
    ef_status st = ef_journal_head(server->options.journal, &head, err);

    ef_view_place_format(place, before);
    if (st == EF_OK)
        st = ef_view_changes(server->options.engine,
                             &(ef_view_changes_query){.projection = ef_str_from(t->key.name),
                                                      .tenant = ef_str_from(t->key.tenant),
                                                      .view_id = ef_str_from(t->key.id),
                                                      .limit = t->limit},
                             place, &found, err);
    ef_view_place_format(place, after);
    for (size_t i = 0; st == EF_OK && i < found.count; i++)
        write_change(out, &found.items[i], i + 1 < found.count ? before : after, found.as_of);
    t->behind = st == EF_OK && place->position < head.position;
    ef_view_list_release(&found);
    return st;
}

/* How many events the next step reads. False: it cannot be smaller. */
static bool adapt(topic *t, int64_t took_us, size_t bytes, bool too_large)
{
    size_t limit = t->limit;

    if (too_large || took_us > STEP_US_MAX || bytes > PENDING_BYTES_MAX)
        limit /= 2;
    else if (took_us < STEP_US_FEW && bytes < PENDING_BYTES_MAX / 4)
        limit *= 2;
    t->limit = limit < READ_LIMIT_MIN   ? READ_LIMIT_MIN
               : limit > READ_LIMIT_MAX ? READ_LIMIT_MAX
                                        : limit;
    return limit >= READ_LIMIT_MIN;
}

/* Read on for one topic. *out_more: there is more at once. */
static void topic_step(struct ef__hub *hub, topic *t, bool *out_more)
{
    ef__buf frames = EF__BUF_INIT(FRAMES_BYTES_MAX);
    ef_error err = EF_ERROR_INIT;
    ef_view_place place = t->place;
    int64_t began_us = ef__server_mono(hub->server);
    bool smaller;
    ef_status st = t->key.kind == EF__TOPIC_EVENTS
                       ? read_events(t, hub->server, &frames, &place, &err)
                       : read_views(t, hub->server, &frames, &place, &err);

    if (st == EF_OK && frames.failed)
        st = EF_NO_MEMORY;
    smaller = adapt(t, ef__server_mono(hub->server) - began_us, frames.len, st == EF_NO_MEMORY);
    t->vainly = st != EF_OK || is_at(t, &place) ? t->vainly + 1 : 0;
    if (st == EF_OK) {
        *out_more = *out_more || t->vainly == 0;
        t->place = place;
        topic_give(hub, t, ef__buf_str(&frames), true);
    } else {
        /* A store that is unavailable comes back; a projection that was retired, or a place that
         * never was, does not, and its followers notice when they come again. What is too large for
         * a step is read in smaller ones. */
        t->behind = true;
        *out_more = *out_more || (st == EF_NO_MEMORY && smaller);
        if (st == EF_NOT_FOUND || st == EF_BAD_INPUT || (st == EF_NO_MEMORY && !smaller)) {
            for (ef__follower *f = t->followers; f; f = f->next)
                follower_end(f);
        }
    }
    ef__buf_release(&frames);
}

/* A follower whose token is not valid any more ends; and one that stalls, where much waits for all
 * of them together. */
static void look_at_followers(struct ef__hub *hub)
{
    int64_t now_us = ef__server_mono(hub->server);
    bool crowded = __atomic_load_n(&chunk_bytes, __ATOMIC_RELAXED) > WAITING_BYTES_MAX;

    if (now_us - hub->looked_us < LOOK_US)
        return;
    hub->looked_us = now_us;
    for (topic *t = hub->topics; t; t = t->next)
        for (ef__follower **at = &t->followers; *at;) {
            ef__follower *f = *at;
            if (ef__principal_stands(hub->server, &f->who) &&
                !(crowded && follower_stalls(f, now_us))) {
                at = &f->next;
                continue;
            }
            *at = f->next;
            follower_end(f);
            hub_release(hub, f);
        }
}

/* So that a reader who is gone is noticed, and nobody between takes silence for an end. */
static void beat(struct ef__hub *hub)
{
    int64_t now_us = ef__server_mono(hub->server);

    if (now_us - hub->beat_us < hub->server->options.heartbeat_ms * 1000)
        return;
    hub->beat_us = now_us;
    for (topic *t = hub->topics; t; t = t->next)
        topic_give(hub, t, EF_STR(": still here\n\n"), false);
}

/* Under the lock: sleep until the journal grows; the lock is free meanwhile. */
static void rest(struct ef__hub *hub, int64_t head, int64_t ms)
{
    struct timespec until;

    if (!hub->topics && !hub->fresh && !hub->ending) {
        pthread_cond_wait(&hub->changed, &hub->lock);
        return;
    }
    if (hub->fresh || hub->ending)
        return;
    if (ms < IDLE_MS) {
        until = ef__deadline(CLOCK_MONOTONIC, ms);
        (void)pthread_cond_timedwait(&hub->changed, &hub->lock, &until);
        return;
    }
    pthread_mutex_unlock(&hub->lock);
    (void)ef_journal_wait(hub->server->options.journal, head, 200, NULL);
    pthread_mutex_lock(&hub->lock);
}

/* Whoever is alone with its topic is read for as fast as it takes: that holds up nobody else. In
 * company one that is too slow is let go instead. */
static bool waits_for_reader(const struct ef__hub *hub, const topic *t)
{
    return t->followers && !t->followers->next &&
           follower_is_taking(t->followers, ef__server_mono(hub->server));
}

/* A step for each topic that may have something. *out_more: there is more at once; *out_behind: a
 * projection is. The head that was seen. */
static int64_t step_all(struct ef__hub *hub, bool *out_more, bool *out_behind)
{
    ef_head head = {0};

    *out_more = *out_behind = false;
    (void)ef_journal_head(hub->server->options.journal, &head, NULL);
    for (topic *t = hub->topics; t; t = t->next) {
        if (waits_for_reader(hub, t)) {
            *out_behind = true;
            continue;
        }
        if (t->place.position < head.position || t->behind || t->place.waiting_count > 0)
            topic_step(hub, t, out_more);
        *out_behind = *out_behind || (t->behind && t->vainly < VAINLY_MAX);
    }
    return head.position;
}

static void *follow(void *context)
{
    struct ef__hub *hub = context;

    pthread_mutex_lock(&hub->lock);
    while (!hub->ending) {
        ef__follower *fresh = hub->fresh;
        bool more, behind;
        int64_t head;
        hub->fresh = NULL;
        pthread_mutex_unlock(&hub->lock);
        seat(hub, fresh);
        head = step_all(hub, &more, &behind);
        look_at_followers(hub);
        beat(hub);
        tidy(hub);
        pthread_mutex_lock(&hub->lock);
        if (!more)
            rest(hub, head, behind ? BEHIND_MS : IDLE_MS);
    }
    pthread_mutex_unlock(&hub->lock);
    return NULL;
}

/* --- for the server
 * -------------------------------------------------------------------------------- */

/* Under the lock. */
static int64_t count_of_token(const struct ef__hub *hub, const ef__principal *who)
{
    int64_t count = 0;

    for (const ef__follower *f = hub->all; f; f = f->next_all)
        count += strcmp(f->who.token, who->token) == 0;
    return count;
}

ef_status ef__hub_join(ef__server *server, const ef__topic_key *key, const ef_view_place *after,
                       const ef__principal *who, ef__follower **out, ef_error *err)
{
    ef__follower *f = calloc(1, sizeof *f);
    struct ef__hub *hub = server->hub;

    if (!f)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    f->key = *key;
    f->after = *after;
    f->who = *who;
    f->users = 2;
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_lock(&hub->lock);
    if (who->token[0] &&
        count_of_token(hub, who) >= EF__OF_ONE_TOKEN(server->options.connections_max)) {
        pthread_mutex_unlock(&hub->lock);
        pthread_mutex_destroy(&f->lock);
        free(f);
        return ef_fail(err, EF_BUSY, "this token has %lld subscriptions already",
                       (long long)EF__OF_ONE_TOKEN(server->options.connections_max));
    }
    if (hub->ending) {
        f->over = true;
        f->users = 1;
    } else {
        f->next = hub->fresh;
        hub->fresh = f;
        f->next_all = hub->all;
        if (hub->all)
            hub->all->before_all = f;
        hub->all = f;
        __atomic_add_fetch(&server->counts.followers, 1, __ATOMIC_RELAXED);
    }
    pthread_cond_signal(&hub->changed);
    pthread_mutex_unlock(&hub->lock);
    *out = f;
    return EF_OK;
}

ef_status ef__hub_start(ef__server *server, ef_error *err)
{
    struct ef__hub *hub = calloc(1, sizeof *hub);

    if (!hub)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out");
    hub->server = server;
    hub->beat_us = ef__server_mono(server);
    pthread_mutex_init(&hub->lock, NULL);
    ef__cond_init(&hub->changed);
    server->hub = hub;
    if (pthread_create(&hub->thread, NULL, follow, hub) != 0)
        return ef_fail(err, EF_NO_MEMORY, "no thread for subscriptions");
    hub->running = true;
    return EF_OK;
}

static void let_go(ef__follower *list)
{
    while (list) {
        ef__follower *f = list;
        list = f->next;
        follower_end(f);
        follower_drop(f);
    }
}

void ef__hub_stop(ef__server *server)
{
    struct ef__hub *hub = server->hub;

    if (!hub || !hub->running)
        return;
    pthread_mutex_lock(&hub->lock);
    hub->ending = true;
    pthread_cond_signal(&hub->changed);
    pthread_mutex_unlock(&hub->lock);
    (void)pthread_join(hub->thread, NULL);
    hub->running = false;
    let_go(hub->fresh);
    hub->fresh = NULL;
    while (hub->topics) {
        topic *t = hub->topics;
        hub->topics = t->next;
        let_go(t->followers);
        free(t);
    }
}

void ef__hub_close(ef__server *server)
{
    if (!server->hub)
        return;
    pthread_cond_destroy(&server->hub->changed);
    pthread_mutex_destroy(&server->hub->lock);
    free(server->hub);
    server->hub = NULL;
}
