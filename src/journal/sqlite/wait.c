/*
 * wait.c - waiting until the journal grows, or until a process wakes the waiting ones.
 *
 * After every commit that adds events, a process writes to the head file, and a wake-up is such a
 * write too, which also sets the times of the file: inotify reports both. Watches are kept open,
 * because closing one makes the kernel wait for all pending notifications.
 */
#include "store.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define KEPT_MAX 8 /* unused watches that are kept open */
#define POLL_MS_MAX 60000

struct sq_watch {
    int fd;
    uint32_t events; /* what inotify reports */
    bool over;       /* the file was removed */
    sq_watch *next;
};

static void close_watch(sq_watch *watch)
{
    (void)close(watch->fd);
    free(watch);
}

static ef_status open_watch(sq_store *store, uint32_t events, sq_watch **out, ef_error *err)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s-head", store->path);
    sq_watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return ef_fail(err, EF_NO_MEMORY, "out of memory while waiting for the journal");
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

static ef_status begin_watch(sq_store *store, uint32_t events, sq_watch **out, ef_error *err)
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
    return *out ? EF_OK : open_watch(store, events, out, err);
}

static void end_watch(sq_store *store, sq_watch *watch)
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

/* Discards earlier notifications: the caller reads the file next. */
static void discard_changes(sq_watch *watch)
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

/* Whether a process has woken the waiting ones since `*wake` was read. */
static bool is_woken(sq_store *store, int64_t *wake)
{
    int64_t now = sq_headfile_wake(&store->writer.head), before = wake ? *wake : now;

    if (wake)
        *wake = now;
    return now != before;
}

ef_status sq_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                  ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    const ef_clock *clock = ef_clock_system();
    int64_t end_us = clock->mono_us(clock->context) + timeout_ms * 1000, left_us;
    ef_head head = {0};
    bool appends = after != EF__NO_APPENDS;
    sq_watch *watch;
    ef_status st = begin_watch(store, appends ? IN_MODIFY : IN_ATTRIB, &watch, err);

    if (st != EF_OK)
        return st;
    for (;;) {
        struct pollfd p = {.fd = watch->fd, .events = POLLIN};
        discard_changes(watch); /* before the read, so that no change is missed */
        if (is_woken(store, wake) ||
            (appends && (st = sq_head_get(journal, &head, err)) != EF_OK) || head.position > after)
            break;
        left_us = end_us - clock->mono_us(clock->context);
        if (left_us <= 0) {
            st = ef__refuse_wait(after, timeout_ms, err);
            break;
        }
        (void)poll(&p, 1, left_us / 1000 >= POLL_MS_MAX ? POLL_MS_MAX : (int)(left_us / 1000) + 1);
    }
    end_watch(store, watch);
    return st;
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
