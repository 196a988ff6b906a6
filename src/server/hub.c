/*
 * hub.c - see hub.h.
 *
 * One thread reads for all topics. It sleeps until the journal grows or a follower joins. While a
 * projection lags behind the journal, the thread polls at BEHIND_MS, because commits of other
 * processes are not announced. Changes without an append, such as a switch, are found within about
 * a second.
 *
 * A step of a topic is limited in time and bytes, so that a topic with large events does not delay
 * the others: the number of events that it reads adapts to the cost of the last step.
 *
 * Only the thread uses topics. Lock order: the hub's, which guards the list of new followers; then
 * a follower's, which guards its queue. No store is read under a lock.
 */
#include "hub.h"

#include "../base/deadline.h"

#define READ_LIMIT_MAX 500            /* events or changes of a step: at most, … */
#define READ_LIMIT_MIN 1              /* … at least, … */
#define READ_LIMIT_FIRST 8            /* … and in the first step of a topic */
#define STEP_US_MAX 10000ll           /* a step that took longer halves the limit */
#define STEP_US_FEW 2000ll            /* a step that took less doubles it */
#define FRAMES_BYTES_MAX (80u << 20)  /* of one step: more than the largest events need */
#define WAITING_BYTES_MAX (64u << 20) /* of all followers; above it, stalled ones are closed */
#define CHECK_US 1000000ll            /* interval of checking tokens */
#define UNANNOUNCED_US 1000000ll      /* interval of checking views for changes without an append */
#define UNANNOUNCED_EACH_US 10000ll   /* at most 100 of these reads per second in all */
#define BEHIND_MS 10                  /* poll interval while a projection lags */
#define UNCHANGED_MAX 100             /* steps without a change until it polls as when idle */
#define IDLE_MS 1000

typedef struct topic {
    struct topic *next;
    ef__topic_key key;
    ef_view_place place;
    int64_t head;       /* of the journal, in the last step */
    int64_t stepped_us; /* time of the last step */
    bool behind;        /* its projection lags behind the journal */
    bool has_more;      /* the last step did not read everything that there is */
    int64_t unchanged;  /* consecutive steps without a change */
    size_t limit;       /* events or changes of the next step */
    ef__follower *followers;
} topic;

struct ef__hub {
    ef__service service;
    ef__server *server;
    topic *topics;
    int64_t topic_count; /* in the last round */
    ef__follower *fresh; /* joined, without a topic yet */
    ef__follower *all;
    int64_t beat_us, checked_us;
};

/* --- topics ----------------------------------------------------------------------------------- */

static bool same_key(const ef__topic_key *a, const ef__topic_key *b)
{
    return a->kind == b->kind && strcmp(a->tenant, b->tenant) == 0 &&
           strcmp(a->name, b->name) == 0 && strcmp(a->id, b->id) == 0;
}

static bool is_at(const topic *t, const ef_view_place *place)
{
    return t->place.generation == place->generation && t->place.number == place->number;
}

static void topic_add(topic *t, ef__follower *f)
{
    f->next = t->followers;
    t->followers = f;
}

/* Releases a follower, which must not be in a topic. */
static void hub_release(struct ef__hub *hub, ef__follower *f)
{
    pthread_mutex_lock(&hub->service.lock);
    if (f->before_all)
        f->before_all->next_all = f->next_all;
    else
        hub->all = f->next_all;
    if (f->next_all)
        f->next_all->before_all = f->before_all;
    pthread_mutex_unlock(&hub->service.lock);
    __atomic_sub_fetch(&hub->server->counts.followers, 1, __ATOMIC_RELAXED);
    ef__follower_drop(f);
}

/* Adds each new follower to the topic at its position, or to a new topic. */
static void assign_topics(struct ef__hub *hub, ef__follower *fresh)
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
        ef__follower_end(f);
        hub_release(hub, f);
    }
}

/* Merges topics that have reached the same position, and frees topics without followers. */
static void merge_topics(struct ef__hub *hub)
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

/* Queues a text for all followers, or only for those without much unread data. */
static void topic_give(struct ef__hub *hub, topic *t, ef_str text, bool to_all)
{
    ef__chunk *c = ef__chunk_of(text);
    int64_t now_us = ef__server_mono(hub->server);

    for (ef__follower **at = &t->followers; c && *at;) {
        ef__follower *f = *at;
        if ((!to_all && ef__follower_is_reading(f, now_us)) || ef__follower_give(f, c, now_us)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        hub_release(hub, f);
    }
    if (c)
        ef__chunk_drop(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void frame_begin(ef__buf *out, const char *event, const char *id)
{
    ef__buf_printf(out, "event: %s\nid: %s\ndata: ", event, id);
}

static ef_status read_events(const topic *t, ef__server *server, ef__buf *out, ef_view_place *place,
                             bool *out_more, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(server->options.journal,
                                       &(ef_log_query){.tenant = ef_str_from(t->key.tenant),
                                                       .after = t->place.number,
                                                       .type = ef_str_from(t->key.name),
                                                       .limit = t->limit,
                                                       .out_reached = &place->number},
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
        if (out->len >= EF__FOLLOWER_BYTES_MAX) {
            place->number = batch.events[i].position;
            break;
        }
    }
    *out_more = !is_at(t, place);
    return st;
}

/* The data of a deleted view is null. */
static void write_change(ef__buf *out, const ef_view *view, const ef_view_place *place,
                         int64_t as_of)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    char id[EF_VIEW_PLACE_MAX];
    ef_view shown = *view;

    if (shown.data.len == 0)
        shown.data = EF_STR("null");
    ef_view_place_format(place, id);
    frame_begin(out, view->data.len ? "view" : "gone", id);
    ef__view_write(&w, &shown, as_of, -1);
    ef__buf_add_text(out, "\n\n");
}

void ef__frame_reset(ef__buf *out, ef_str projection, const ef_view_place *place,
                     const ef_view_change_list *list)
{
    ef__json_writer w = EF__JSON_WRITER(out);
    char id[EF_VIEW_PLACE_MAX];

    ef_view_place_format(place, id);
    frame_begin(out, "reset", id);
    ef__json_open(&w, '{');
    ef__json_member_str(&w, "projection", projection);
    ef__json_member_text(&w, "reason", ef_name_of(EF_NAMES_VIEW_RESET, list->reset));
    ef__json_member_int(&w, "as_of", list->as_of);
    ef__json_close(&w, '}');
    ef__buf_add_text(out, "\n\n");
}

/* The id of a frame is the place up to which everything has been sent: a client that loses the
 * connection resumes after the last frame that it received, and loses nothing. */
static ef_status read_views(topic *t, ef__server *server, ef__buf *out, ef_view_place *place,
                            bool *out_more, ef_error *err)
{
    EF__AUTO(ef_view_change_list) found = {0};
    ef_status st = ef_view_changes(server->options.engine,
                                   &(ef_view_changes_query){.projection = ef_str_from(t->key.name),
                                                            .tenant = ef_str_from(t->key.tenant),
                                                            .view_id = ef_str_from(t->key.id),
                                                            .limit = t->limit},
                                   place, &found, err);

    if (st == EF_OK && found.reset != EF_VIEW_RESET_NONE)
        ef__frame_reset(out, ef_str_from(t->key.name), place, &found);
    for (size_t i = 0; st == EF_OK && i < found.count; i++)
        write_change(out, &found.items[i].view,
                     &(ef_view_place){place->generation, found.items[i].number}, found.as_of);
    t->behind = st == EF_OK && found.as_of < t->head;
    *out_more = found.more;
    return st;
}

/* Sets the number of events of the next step. False: it cannot be smaller. */
static bool topic_adapt_limit(topic *t, int64_t took_us, size_t bytes, bool too_large)
{
    size_t limit = t->limit;

    if (too_large || took_us > STEP_US_MAX || bytes > EF__FOLLOWER_BYTES_MAX)
        limit /= 2;
    else if (took_us < STEP_US_FEW && bytes < EF__FOLLOWER_BYTES_MAX / 4)
        limit *= 2;
    t->limit = limit < READ_LIMIT_MIN   ? READ_LIMIT_MIN
               : limit > READ_LIMIT_MAX ? READ_LIMIT_MAX
                                        : limit;
    return limit >= READ_LIMIT_MIN;
}

/* Reads the next events or changes of a topic. True: there are more now. */
static bool topic_step(struct ef__hub *hub, topic *t, int64_t head)
{
    ef__buf frames = EF__BUF_INIT(FRAMES_BYTES_MAX);
    ef_error err = EF_ERROR_INIT;
    ef_view_place place = t->place;
    int64_t began_us = ef__server_mono(hub->server);
    bool smaller, more = false;
    ef_status st;

    t->head = head;
    t->stepped_us = began_us;
    st = t->key.kind == EF__TOPIC_EVENTS ? read_events(t, hub->server, &frames, &place, &more, &err)
                                         : read_views(t, hub->server, &frames, &place, &more, &err);
    if (st == EF_OK && frames.failed)
        st = EF_NO_MEMORY;
    smaller = topic_adapt_limit(t, ef__server_mono(hub->server) - began_us, frames.len,
                                st == EF_NO_MEMORY);
    t->unchanged = st != EF_OK || is_at(t, &place) ? t->unchanged + 1 : 0;
    if (st == EF_OK) {
        t->place = place;
        topic_give(hub, t, ef__buf_str(&frames), true);
    } else {
        /* An unavailable store becomes available again; a retired projection does not, and its
         * clients get the error when they reconnect. A step that is too large is repeated with a
         * smaller limit. */
        t->behind = true;
        more = st == EF_NO_MEMORY && smaller;
        if (st == EF_NOT_FOUND || st == EF_BAD_INPUT || (st == EF_NO_MEMORY && !smaller)) {
            for (ef__follower *f = t->followers; f; f = f->next)
                ef__follower_end(f);
        }
    }
    ef__buf_release(&frames);
    t->has_more = more;
    return more;
}

/* Closes followers whose token is no longer valid, and stalled followers if the queues of all
 * followers together are too large. */
static void check_followers(struct ef__hub *hub)
{
    int64_t now_us = ef__server_mono(hub->server);
    bool too_large = ef__chunk_bytes() > WAITING_BYTES_MAX;

    if (now_us - hub->checked_us < CHECK_US)
        return;
    hub->checked_us = now_us;
    for (topic *t = hub->topics; t; t = t->next)
        for (ef__follower **at = &t->followers; *at;) {
            ef__follower *f = *at;
            if (ef__principal_stands(hub->server, &f->who) &&
                !(too_large && ef__follower_is_stalled(f, now_us))) {
                at = &f->next;
                continue;
            }
            *at = f->next;
            ef__follower_end(f);
            hub_release(hub, f);
        }
}

/* Heartbeats detect disconnected clients and keep proxies from closing idle connections. */
static void send_heartbeats(struct ef__hub *hub)
{
    int64_t now_us = ef__server_mono(hub->server);

    if (now_us - hub->beat_us < hub->server->options.heartbeat_ms * 1000)
        return;
    hub->beat_us = now_us;
    for (topic *t = hub->topics; t; t = t->next)
        topic_give(hub, t, EF_STR(": still here\n\n"), false);
}

/* Under the lock, which it releases meanwhile: sleeps until the journal grows or a follower joins,
 * for `ms` at most. */
static void hub_wait(struct ef__hub *hub, int64_t head, int64_t ms)
{
    struct timespec until;

    if (!hub->topics && !hub->fresh && !hub->service.ending) {
        pthread_cond_wait(&hub->service.changed, &hub->service.lock);
        return;
    }
    if (hub->fresh || hub->service.ending)
        return;
    if (ms < IDLE_MS) {
        until = ef__deadline(CLOCK_MONOTONIC, ms);
        (void)pthread_cond_timedwait(&hub->service.changed, &hub->service.lock, &until);
        return;
    }
    pthread_mutex_unlock(&hub->service.lock);
    (void)ef_journal_wait(hub->server->options.journal, head, 200, NULL);
    pthread_mutex_lock(&hub->service.lock);
}

/* The only follower of a topic sets its pace, because that delays no other follower. With several
 * followers, one that is too slow is closed instead. */
static bool waits_for_reader(const struct ef__hub *hub, const topic *t)
{
    return t->followers && !t->followers->next &&
           ef__follower_is_reading(t->followers, ef__server_mono(hub->server));
}

/* Whether the topic may have new events or changes. */
static bool is_due(const struct ef__hub *hub, const topic *t, int64_t head)
{
    int64_t wait_us = UNANNOUNCED_US;

    if (t->behind || t->has_more || t->stepped_us == 0)
        return true;
    if (t->key.kind == EF__TOPIC_EVENTS)
        return t->place.number < head;
    if (wait_us < hub->topic_count * UNANNOUNCED_EACH_US)
        wait_us = hub->topic_count * UNANNOUNCED_EACH_US;
    return t->head < head || ef__server_mono(hub->server) - t->stepped_us >= wait_us;
}

/* A step for each topic that is due. *out_more: there is more now; *out_behind: a projection lags.
 * Returns the head of the journal. */
static int64_t step_all(struct ef__hub *hub, bool *out_more, bool *out_behind)
{
    ef_head head = {0};
    int64_t count = 0;

    *out_more = *out_behind = false;
    (void)ef_journal_head(hub->server->options.journal, &head, NULL);
    for (topic *t = hub->topics; t; t = t->next, count++) {
        if (waits_for_reader(hub, t)) {
            *out_behind = true;
            continue;
        }
        if (is_due(hub, t, head.position) && topic_step(hub, t, head.position))
            *out_more = true;
        *out_behind = *out_behind || (t->behind && t->unchanged < UNCHANGED_MAX);
    }
    hub->topic_count = count;
    return head.position;
}

static void *hub_run(void *context)
{
    struct ef__hub *hub = context;

    pthread_mutex_lock(&hub->service.lock);
    while (!hub->service.ending) {
        ef__follower *fresh = hub->fresh;
        bool more, behind;
        int64_t head;
        hub->fresh = NULL;
        pthread_mutex_unlock(&hub->service.lock);
        assign_topics(hub, fresh);
        head = step_all(hub, &more, &behind);
        check_followers(hub);
        send_heartbeats(hub);
        merge_topics(hub);
        pthread_mutex_lock(&hub->service.lock);
        if (!more)
            hub_wait(hub, head, behind ? BEHIND_MS : IDLE_MS);
    }
    pthread_mutex_unlock(&hub->service.lock);
    return NULL;
}

/* --- for the server --------------------------------------------------------------------------- */

/* Under the lock. */
static int64_t count_of_token(const struct ef__hub *hub, const ef__principal *who)
{
    int64_t count = 0;

    for (const ef__follower *f = hub->all; f; f = f->next_all)
        count += strcmp(f->who.token, who->token) == 0;
    return count;
}

/* Under the lock. */
static ef_status add_follower(struct ef__hub *hub, ef__follower *f, ef_error *err)
{
    int64_t most = EF__OF_ONE_TOKEN(hub->server->options.connections_max);

    if (f->who.token[0] && count_of_token(hub, &f->who) >= most)
        return ef_fail(err, EF_BUSY, "this token has %lld subscriptions already", (long long)most);
    if (hub->service.ending)
        return ef_fail(err, EF_BUSY, "the server is stopping");
    f->next = hub->fresh;
    hub->fresh = f;
    f->next_all = hub->all;
    if (hub->all)
        hub->all->before_all = f;
    hub->all = f;
    __atomic_add_fetch(&hub->server->counts.followers, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&hub->service.changed);
    return EF_OK;
}

ef_status ef__hub_join(ef__request *r, const ef__topic_key *key, const ef_view_place *after,
                       ef_str first, ef_error *err)
{
    struct ef__hub *hub = r->server->hub;
    ef__follower *f = ef__follower_make(key, after, &r->who);
    ef__chunk *chunk = ef__chunk_of(first);
    ef_status st = EF_OK;

    if (!f ||
        (first.len > 0 && (!chunk || !ef__follower_give(f, chunk, ef__server_mono(r->server)))))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out");
    if (chunk)
        ef__chunk_drop(chunk);
    pthread_mutex_lock(&hub->service.lock);
    if (st == EF_OK)
        st = add_follower(hub, f, err);
    pthread_mutex_unlock(&hub->service.lock);
    if (st == EF_OK) {
        r->follower = f;
        r->type = "text/event-stream";
    } else if (f) {
        ef__follower_drop(f);
        ef__follower_drop(f);
    }
    return st;
}

ef_status ef__hub_start(ef__server *server, ef_error *err)
{
    struct ef__hub *hub = server->hub = ef__service_new(sizeof *hub, err);

    if (!hub)
        return EF_NO_MEMORY;
    hub->server = server;
    hub->beat_us = ef__server_mono(server);
    return ef__service_start(&hub->service, hub_run, hub, "subscriptions", err);
}

static void end_followers(ef__follower *list)
{
    while (list) {
        ef__follower *f = list;
        list = f->next;
        ef__follower_end(f);
        ef__follower_drop(f);
    }
}

void ef__hub_stop(ef__server *server)
{
    struct ef__hub *hub = server->hub;

    if (!hub)
        return;
    ef__service_stop(hub);
    end_followers(hub->fresh);
    hub->fresh = NULL;
    while (hub->topics) {
        topic *t = hub->topics;
        hub->topics = t->next;
        end_followers(t->followers);
        free(t);
    }
}
