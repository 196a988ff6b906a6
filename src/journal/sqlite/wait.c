/*
 * wait.c - waiting until the journal grows or somebody nudges, in whatever process.
 *
 * Every commit that adds events, of whatever process, is followed by a write to the head file, and
 * a nudge is one too, that also touches the file's times: the kernel tells us of it. Watches are
 * kept: to give one up makes the kernel wait for all that are being told of something.
 */
#include "wait.h"

#include "read.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define KEPT_MAX 8 /* watches that nobody waits with */
#define POLL_MS_MAX 60000

struct sq_watch {
    int fd;
    uint32_t events; /* what it is told of */
    bool over;       /* the file is gone */
    sq_watch *next;
};

static void close_watch(sq_watch *watch)
{
    (void)close(watch->fd);
    free(watch);
}

static ef_status make_watch(sq_store *store, uint32_t events, sq_watch **out, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-head", store->path);
    sq_watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while waiting for the journal");
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd >= 0 && n > 0 && (size_t)n < sizeof path &&
        inotify_add_watch(watch->fd, path, events) >= 0) {
        watch->events = events;
        *out = watch;
        return EF_OK;
    }
    ef_status st = ef_fail(err, EF_IO, "watching the head file: %s", strerror(errno));
    if (watch->fd >= 0)
        (void)close(watch->fd);
    free(watch);
    return st;
}

static ef_status begin(sq_store *store, uint32_t events, sq_watch **out, ef_error *err)
{
    sq_watches *kept = &store->watches;
    sq_watch **at = &kept->idle;

    pthread_mutex_lock(&kept->lock);
    while (*at && (*at)->events != events)
        at = &(*at)->next;
    *out = *at;
    if (*out) {
        *at = (*out)->next;
        kept->count--;
    }
    pthread_mutex_unlock(&kept->lock);
    return *out ? EF_OK : make_watch(store, events, out, err);
}

static void end(sq_store *store, sq_watch *watch)
{
    sq_watches *kept = &store->watches;
    bool keep;

    pthread_mutex_lock(&kept->lock);
    keep = !watch->over && kept->count < KEPT_MAX;
    if (keep) {
        watch->next = kept->idle;
        kept->idle = watch;
        kept->count++;
    }
    pthread_mutex_unlock(&kept->lock);
    if (!keep)
        close_watch(watch);
}

/* What was told so far is forgotten: what follows looks at the file itself. */
static void forget_changes(sq_watch *watch)
{
    char told[4096];
    ssize_t bytes;

    while ((bytes = read(watch->fd, told, sizeof told)) > 0)
        for (ssize_t at = 0; at < bytes;) {
            struct inotify_event event;
            memcpy(&event, told + at, sizeof event);
            watch->over = watch->over || (event.mask & IN_IGNORED);
            at += (ssize_t)(sizeof event + event.len);
        }
}

/* Has somebody nudged since `*nudge` was read? */
static bool is_nudged(sq_store *store, int64_t *nudge)
{
    int64_t now = sq_headfile_nudge(&store->writer.head), before = nudge ? *nudge : now;

    if (nudge)
        *nudge = now;
    return now != before;
}

ef_status sq_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                  ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    const ef_clock *clock = ef_clock_system();
    int64_t end_us = clock->mono_us(clock->context) + timeout_ms * 1000, left_us;
    ef_head head = {0};
    bool appends = after != EF__NO_APPENDS;
    sq_watch *watch;
    ef_status st = begin(store, appends ? IN_MODIFY : IN_ATTRIB, &watch, err);

    if (st != EF_OK)
        return st;
    for (;;) {
        struct pollfd p = {.fd = watch->fd, .events = POLLIN};
        forget_changes(watch); /* before we look, so that nothing falls between */
        if (is_nudged(store, nudge) ||
            (appends && (st = sq_head_get(journal, &head, err)) != EF_OK) || head.position > after)
            break;
        left_us = end_us - clock->mono_us(clock->context);
        if (left_us <= 0) {
            st = ef_fail_numbers(err, EF_TIMEOUT, after, head.position,
                                 "nothing came after position %" PRId64 " in %" PRId64 " ms", after,
                                 timeout_ms);
            break;
        }
        (void)poll(&p, 1, left_us / 1000 >= POLL_MS_MAX ? POLL_MS_MAX : (int)(left_us / 1000) + 1);
    }
    end(store, watch);
    return st;
}

ef_status sq_nudge(ef_journal *journal, ef_error *err)
{
    if (!sq_headfile_set_nudge(&sq_store_of(journal)->writer.head))
        return ef_fail(err, EF_IO, "the head file could not be written: %s", strerror(errno));
    return EF_OK;
}

void sq_watches_release(sq_watches *watches)
{
    while (watches->idle) {
        sq_watch *next = watches->idle->next;
        close_watch(watches->idle);
        watches->idle = next;
    }
    pthread_mutex_destroy(&watches->lock);
}
