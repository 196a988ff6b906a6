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
#define AGAIN_ROUNDS 20 /* per step of a redelivery */
#define SECRET_BYTES 4096

void ef__sink_failed(ef__publisher_task *publisher, const ef_error *why)
{
    ef__retry_step step;

    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    step = ef__retry_decide(&ef__retry_store, publisher->health.failures_in_a_row++,
                            EF__ERROR_TRANSIENT, (uint64_t)ef__publish_mono_us(publisher));
    publisher->health.last_error = *why;
    publisher->health.state = EF_PUBLISHER_RETRYING;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    publisher->next_try_us = ef__publish_mono_us(publisher) + step.delay_ms * 1000;
    ef__log(publisher->engine->options.log, EF_LOG_WARN, "sink unavailable",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(publisher->name)),
            EF_LOG_TEXT_FIELD("error", ef_str_from(why->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
}

void ef__sink_recovered(ef__publisher_task *publisher)
{
    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->health.failures_in_a_row = 0;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
}

/* Within a confined directory no link is followed; elsewhere a file may be a link, like mounted
 * secrets. */
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

/* Reads the secret from its variable or file. */
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
        return ef_fail(err, EF_NOT_FOUND, "the secret in environment variable %s is not set",
                       name + 4);
    (void)snprintf(out, SECRET_BYTES, "%s", value);
    return EF_OK;
}

ef_status ef__sink_open(ef__publisher_task *publisher, ef_str progress, ef_error *err)
{
    ef__bus_options options = ef__publisher_bus_options(&publisher->definition);
    char secret[SECRET_BYTES];
    ef_status st = read_secret(publisher->definition.secret, publisher->definition.secret_directory,
                               secret, err);

    options.secret = ef_str_from(secret);
    options.progress = progress;
    options.stop = &publisher->stop;
    options.clock = publisher->engine->options.clock;
    options.log = publisher->engine->options.log;
    if (st == EF_OK)
        st = publisher->engine->publishers.sink_open(&options, &publisher->bus, err);
    explicit_bzero(secret, sizeof secret);
    return st;
}

void ef__sink_close(ef__publisher_task *publisher)
{
    ef__bus_close(publisher->bus);
    publisher->bus = NULL;
}

/* The position to store; "": unchanged, or it must stay until lost messages are redelivered. */
static ef_str position_to_store(const ef__publisher_task *publisher, bool lost)
{
    ef_str at = publisher->bus->ops->progress && !lost
                    ? publisher->bus->ops->progress(publisher->bus)
                    : EF_STR("");

    return at.len < sizeof publisher->stored_progress &&
                   !ef_str_equal(at, ef_str_from(publisher->stored_progress))
               ? at
               : EF_STR("");
}

static ef_status ack_rows(ef__publisher_task *publisher, ef_str news,
                          const ef_partition_lease *held, size_t held_count,
                          const ef_retry_row *retry_rows, size_t retry_row_count, ef_error *err)
{
    ef_status st = ef__published_ack(publisher->engine->journal, ef_str_from(publisher->name), held,
                                     held_count, retry_rows, retry_row_count, news, err);

    if (st == EF_OK && news.len)
        (void)snprintf(publisher->stored_progress, sizeof publisher->stored_progress, "%.*s",
                       EF_STR_ARG(news));
    return st;
}

ef_status ef__sink_ack(ef__publisher_task *publisher, const ef_partition_lease *held,
                       size_t held_count, const ef_retry_row *retry_rows, size_t retry_row_count,
                       ef_error *err)
{
    return ack_rows(publisher, position_to_store(publisher, publisher->bus->lost), held, held_count,
                    retry_rows, retry_row_count, err);
}

ef_partition_lease ef__sink_lease(const ef__publisher_task *publisher)
{
    return (ef_partition_lease){.partition = 0, .token = publisher->token};
}

bool ef__sink_is_complete(ef__publisher_task *publisher, bool ask_now)
{
    ef_error why = EF_ERROR_INIT;
    ef_status st = EF_OK;

    if (publisher->bus->ops->check_loss)
        st = publisher->bus->ops->check_loss(
            publisher->bus, ef_str_from(publisher->stored_progress), ask_now, &why);
    if (st != EF_OK && st != EF_NOT_FOUND)
        ef__sink_failed(publisher, &why);
    return st == EF_OK && !publisher->bus->lost;
}

void ef__sink_forget_lost(ef__publisher_task *publisher)
{
    if (publisher->bus) {
        publisher->bus->lost = false;
        publisher->bus->lost_count = 0;
    }
    publisher->redelivered = 0;
}

bool ef__sink_is_available(const ef__publisher_task *publisher)
{
    return ef__publish_mono_us(publisher) >= publisher->next_try_us;
}

/* --- lost messages ---------------------------------------------------------------------------- */

/* Retained rows are delivered again. If the sink lost more, those are lost for good; it counts the
 * messages of all producers, so that possibly none of them is ours. */
static void log_loss(const ef__publisher_task *publisher)
{
    bool all = publisher->redelivered >= publisher->bus->lost_count;

    ef__log(publisher->engine->options.log, all ? EF_LOG_WARN : EF_LOG_ERROR,
            all ? "sink lost messages, redelivering" : "sink lost messages, more than are retained",
            EF_LOG_TEXT_FIELD("publisher", ef_str_from(publisher->name)),
            EF_LOG_NUMBER_FIELD("lost", publisher->bus->lost_count),
            EF_LOG_NUMBER_FIELD("messages", publisher->redelivered));
}

/* The new position is stored after the redelivery: a worker that takes over before detects the loss
 * itself. */
ef_status ef__sink_redeliver(ef__publisher_task *publisher, ef_tick *tick, ef_error *err)
{
    ef_partition_lease held = ef__sink_lease(publisher);
    int64_t handed = AGAIN_ROWS, sum = 0;
    ef_status st = EF_OK;

    for (int i = 0; st == EF_OK && handed == AGAIN_ROWS && i < AGAIN_ROUNDS; i++) {
        st = ef__published_requeue(publisher->engine->journal, ef_str_from(publisher->name), &held,
                                   AGAIN_ROWS, &handed, err);
        sum += st == EF_OK ? handed : 0;
    }
    tick->more = true;
    publisher->redelivered += sum;
    pthread_mutex_lock(&publisher->engine->publishers.health_lock);
    publisher->health.republished += sum;
    pthread_mutex_unlock(&publisher->engine->publishers.health_lock);
    if (st == EF_OK && handed < AGAIN_ROWS)
        st = ack_rows(publisher, position_to_store(publisher, false), &held, 1, NULL, 0, err);
    if (st != EF_OK || handed == AGAIN_ROWS)
        return st;
    log_loss(publisher);
    ef__sink_forget_lost(publisher);
    return EF_OK;
}
