/*
 * publish_sink.c - see publish_sink.h.
 */
#include "publish_sink.h"

#include "../base/below.h"
#include "../base/logger.h"
#include "../core/retry.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define AGAIN_ROWS 1000
#define AGAIN_ROUNDS 20 /* then it is somebody else's turn */
#define SECRET_BYTES 4096

void ef__sink_failed(ef__publishing *p, const ef_error *why)
{
    ef__retry_step step;

    pthread_mutex_lock(&p->engine->lock);
    step = ef__retry_decide(&ef__retry_store, p->is.failures_in_a_row++, EF__ERROR_TRANSIENT,
                            (uint64_t)ef__publish_mono_us(p));
    p->is.last_error = *why;
    p->is.state = EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&p->engine->lock);
    p->next_try_us = ef__publish_mono_us(p) + step.delay_ms * 1000;
    ef__log(p->engine->options.log, EF_LOG_WARN, "a publisher's sink is not at hand",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(p->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(why->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
}

void ef__sink_well(ef__publishing *p)
{
    pthread_mutex_lock(&p->engine->lock);
    p->is.failures_in_a_row = 0;
    pthread_mutex_unlock(&p->engine->lock);
}

/* Below a directory no link is followed; elsewhere the file may be one, as of mounted secrets. */
static ef_status read_file(const char *path, const char *directory, char out[SECRET_BYTES],
                           ef_error *err)
{
    const char *name;
    int folder = ef__parent_open(path, directory, &name);
    int fd = folder < 0 ? -1
                        : openat(folder, name,
                                 O_RDONLY | O_CLOEXEC | O_NOCTTY | (directory[0] ? O_NOFOLLOW : 0));
    ssize_t got = fd < 0 ? -1 : read(fd, out, SECRET_BYTES - 1);

    if (fd >= 0)
        (void)close(fd);
    if (folder >= 0)
        (void)close(folder);
    if (got < 0)
        return ef_fail(err, EF_NOT_FOUND, "the secret in %s cannot be read", path);
    while (got > 0 && (out[got - 1] == '\n' || out[got - 1] == '\r'))
        got--;
    out[got] = '\0';
    return EF_OK;
}

/* The secret itself, from where it is said to be. */
static ef_status read_secret(ef_str where, ef_str directory, char out[SECRET_BYTES], ef_error *err)
{
    char name[SECRET_BYTES], below[SECRET_BYTES];
    const char *value;

    out[0] = '\0';
    if (!where.len)
        return EF_OK;
    (void)snprintf(name, sizeof name, "%.*s", EF_STR_ARG(where));
    (void)snprintf(below, sizeof below, "%.*s", EF_STR_ARG(directory));
    if (strncmp(name, "file:", 5) == 0)
        return read_file(name + 5, below, out, err);
    value = getenv(name + 4);
    if (!value)
        return ef_fail(err, EF_NOT_FOUND, "the secret in the environment's %s is not set",
                       name + 4);
    (void)snprintf(out, SECRET_BYTES, "%s", value);
    return EF_OK;
}

ef_status ef__sink_open(ef__publishing *p, ef_str progress, ef_error *err)
{
    ef__bus_options options = ef__publisher_bus_options(&p->definition);
    char secret[SECRET_BYTES];
    ef_status st = read_secret(p->definition.secret, p->definition.secret_directory, secret, err);

    options.secret = ef_str_from(secret);
    options.progress = progress;
    options.stop = &p->stop;
    options.clock = p->engine->options.clock;
    options.log = p->engine->options.log;
    if (st == EF_OK)
        st = p->engine->sink_open(&options, &p->bus, err);
    explicit_bzero(secret, sizeof secret);
    return st;
}

void ef__sink_close(ef__publishing *p)
{
    ef__bus_close(p->bus);
    p->bus = NULL;
}

/* "": what is noted is right, or it must stay until what was lost is handed back. */
static ef_str news_of(const ef__publishing *p, bool lost)
{
    ef_str at = p->bus->ops->progress && !lost ? p->bus->ops->progress(p->bus) : EF_STR("");

    return at.len < sizeof p->noted && !ef_str_equal(at, ef_str_from(p->noted)) ? at : EF_STR("");
}

static ef_status mark(ef__publishing *p, ef_str news, const ef_holding *held, size_t held_count,
                      const ef_exception *exceptions, size_t exception_count, ef_error *err)
{
    ef_status st = ef_published_mark(p->engine->journal, ef_str_from(p->name), held, held_count,
                                     exceptions, exception_count, news, err);

    if (st == EF_OK && news.len)
        (void)snprintf(p->noted, sizeof p->noted, "%.*s", EF_STR_ARG(news));
    return st;
}

ef_status ef__sink_mark(ef__publishing *p, const ef_holding *held, size_t held_count,
                        const ef_exception *exceptions, size_t exception_count, ef_error *err)
{
    return mark(p, news_of(p, p->bus->lost), held, held_count, exceptions, exception_count, err);
}

ef_holding ef__sink_holding(const ef__publishing *p)
{
    return (ef_holding){.partition = 0, .token = p->token};
}

bool ef__sink_is_all_there(ef__publishing *p, bool ask_now)
{
    ef_error why = EF_ERROR_INIT;
    ef_status st = EF_OK;

    if (p->bus->ops->look)
        st = p->bus->ops->look(p->bus, ef_str_from(p->noted), ask_now, &why);
    if (st != EF_OK && st != EF_NOT_FOUND)
        ef__sink_failed(p, &why);
    return st == EF_OK && !p->bus->lost;
}

void ef__sink_forget_lost(ef__publishing *p)
{
    if (p->bus) {
        p->bus->lost = false;
        p->bus->lost_count = 0;
    }
    p->handed = 0;
}

bool ef__sink_is_at_hand(const ef__publishing *p)
{
    return ef__publish_mono_us(p) >= p->next_try_us;
}

/* --- what it has lost ------------------------------------------------------------------------- */

/* What is kept goes out again. When the sink has lost more than that, the rest is gone: it counts
 * everybody's messages, so it may be that none of ours is. */
static void tell_lost(const ef__publishing *p)
{
    bool all = p->handed >= p->bus->lost_count;

    ef__log(p->engine->options.log, all ? EF_LOG_WARN : EF_LOG_ERROR,
            all ? "a sink has lost messages; they are sent again"
                : "a sink has lost messages, and more than are kept: the others are not sent again",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(p->name)),
            EF_LOG_NUMBER_FIELD("lost", p->bus->lost_count),
            EF_LOG_NUMBER_FIELD("messages", p->handed));
}

/* How far it is now is noted behind that: whoever takes over before finds the loss himself. */
ef_status ef__sink_hand_back(ef__publishing *p, ef_tick *tick, ef_error *err)
{
    ef_holding held = ef__sink_holding(p);
    int64_t handed = AGAIN_ROWS, sum = 0;
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && handed == AGAIN_ROWS && i < AGAIN_ROUNDS; i++) {
        st = ef_published_again(p->engine->journal, ef_str_from(p->name), &held, AGAIN_ROWS,
                                &handed, err);
        sum += st == EF_OK ? handed : 0;
    }
    tick->more = true;
    p->handed += sum;
    pthread_mutex_lock(&p->engine->lock);
    p->is.republished += sum;
    pthread_mutex_unlock(&p->engine->lock);
    if (st == EF_OK && handed < AGAIN_ROWS)
        st = mark(p, news_of(p, false), &held, 1, NULL, 0, err);
    if (st != EF_OK || handed == AGAIN_ROWS)
        return st;
    tell_lost(p);
    ef__sink_forget_lost(p);
    return EF_OK;
}
