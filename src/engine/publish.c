/*
 * publish.c - see publish.h: a step of one publisher, and its sink: availability, stored position,
 * lost messages.
 */
#include "publish.h"

#include "../base/file.h"
#include "../base/logger.h"
#include "../core/retry.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_USUAL 1000
#define PURGE_ROWS 1000
#define PURGE_US 10000000
#define AGAIN_ROWS 1000
#define AGAIN_ROUNDS 20 /* per step of a redelivery */
#define SECRET_BYTES 4096

/* --- the sink --------------------------------------------------------------------------------- */

static void set_state(ef__publisher_task *publisher, ef_publisher_state state)
{
    EF__LOCK(&publisher->engine->publishers.health_lock);
    publisher->health.state = state;
}

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
    EF__LOCK(&publisher->engine->publishers.health_lock);
    publisher->health.failures_in_a_row = 0;
}

/* No link is followed in a confined directory; elsewhere mounted secrets may be links. */
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

static ef_status open_sink(ef__publisher_task *publisher, ef_str progress, ef_error *err)
{
    ef__bus_options options = ef__publisher_bus_options(&publisher->definition);
    char secret[SECRET_BYTES];
    ef_status st = read_secret(publisher->definition.secret, publisher->definition.secret_directory,
                               secret, err);

    options.secret = ef_str_from(secret);
    options.progress = progress;
    options.stop = &publisher->task.is_stopping;
    options.clock = publisher->engine->options.clock;
    options.log = publisher->engine->options.log;
    if (st == EF_OK)
        st = publisher->engine->publishers.sink_open(&options, &publisher->bus, err);
    explicit_bzero(secret, sizeof secret);
    return st;
}

static void close_sink(ef__publisher_task *publisher)
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
    ef_status st = ef__outbox_ack(publisher->engine->journal, NULL,
                                  &(ef__ack_request){ef_str_from(publisher->name), held, held_count,
                                                     retry_rows, retry_row_count, news},
                                  err);

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

/* The lease of the first partition, under which state of the whole publisher is written. */
static ef_partition_lease sink_lease(const ef__publisher_task *publisher)
{
    return (ef_partition_lease){.partition = 0, .token = publisher->token};
}

/* Whether the sink still has all messages that it acknowledged. False also if it does not know.
 * Without `ask_now` the answer is cached while the connection lasts. */
static bool sink_is_complete(ef__publisher_task *publisher, bool ask_now)
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

/* Another worker had the publisher meanwhile: a loss that was found before is its to handle. */
static void forget_lost(ef__publisher_task *publisher)
{
    if (publisher->bus) {
        publisher->bus->lost = false;
        publisher->bus->lost_count = 0;
    }
    publisher->redelivered = 0;
}

static bool sink_is_available(const ef__publisher_task *publisher)
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

/* Makes retained rows due again, before new rows, so that the order of streams is kept. A bounded
 * step. The new position is stored after the redelivery: a worker that takes over before detects
 * the loss itself. */
static ef_status redeliver_lost(ef__publisher_task *publisher, ef_tick *tick, ef_error *err)
{
    ef_partition_lease held = sink_lease(publisher);
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
    forget_lost(publisher);
    return EF_OK;
}

/* --- the definition --------------------------------------------------------------------------- */

static bool is_sending(const ef__publisher_task *publisher)
{
    return !publisher->definition.paused && !publisher->is_copy;
}

/* Changed settings close the sink and end its back-off. */
static ef_status set_definition(ef__publisher_task *publisher, const ef_lane *lane, ef_error *err)
{
    ef_status st;

    if (publisher->settings.ptr && ef_str_equal(publisher->settings, lane->settings) &&
        ef_str_equal(publisher->definition.types, lane->types))
        return EF_OK;
    close_sink(publisher);
    ef__arena_reset(&publisher->arena);
    publisher->settings = ef__arena_copy(&publisher->arena, lane->settings);
    st = ef__publisher_read(lane, &publisher->arena, &publisher->definition, err);
    if (st != EF_OK)
        publisher->settings = (ef_str){0};
    publisher->next_try_us = publisher->next_purge_us = 0;
    return st;
}

/* A copied journal publishes nothing, because the original may publish the same. Checked before the
 * sink is opened: a journal does not become a copy while it is open. */
static ef_status check_copy(ef__publisher_task *publisher, ef_error *err)
{
    int64_t copied_us = 0;
    bool was = publisher->is_copy;
    ef_status st = ef__journal_copied(publisher->engine->journal, &copied_us, err);

    publisher->is_copy = st == EF_OK && copied_us > 0;
    if (publisher->is_copy && !was)
        ef__log(publisher->engine->options.log, EF_LOG_WARN,
                "publisher waits: the journal is a copy that was not adopted",
                EF_LOG_TEXT_FIELD("publisher", ef_str_from(publisher->name)));
    return st;
}

/* Reads the definition, and opens the sink unless the publisher is paused. */
static ef_status prepare_sink(ef__publisher_task *publisher, ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    const ef_lane *found;
    ef_error why = EF_ERROR_INIT;
    ef_status st = ef_lane_ls(publisher->engine->journal, &lanes, err);

    found = ef__publisher_lane(&lanes, ef_str_from(publisher->name));
    if (st == EF_OK && found)
        st = set_definition(publisher, found, err);
    if (st == EF_OK && found && found->progress.len < sizeof publisher->stored_progress)
        (void)snprintf(publisher->stored_progress, sizeof publisher->stored_progress, "%.*s",
                       EF_STR_ARG(found->progress));
    if (st == EF_OK && found && !publisher->bus)
        st = check_copy(publisher, err);
    if (st == EF_OK && found && is_sending(publisher) && !publisher->bus &&
        sink_is_available(publisher) && open_sink(publisher, found->progress, &why) != EF_OK)
        ef__sink_failed(publisher, &why);
    if (st == EF_OK && !found)
        publisher->is_removed = true;
    return st;
}

/* --- the step --------------------------------------------------------------------------------- */

/* Reads under our lease the position that the previous holder stored. */
static ef_status read_progress(ef__publisher_task *publisher, ef_error *err)
{
    int64_t token = ef__membership_token(&publisher->membership);
    ef_status st = EF_OK;

    if (token != publisher->token)
        forget_lost(publisher);
    if (token && token != publisher->token)
        st = prepare_sink(publisher, err);
    if (st == EF_OK && token && token != publisher->token && publisher->bus)
        (void)sink_is_complete(publisher, true);
    if (st == EF_OK)
        publisher->token = token;
    return st;
}

/* Purges retained rows only after a check that the sink still has its messages. In small commits,
 * but per step at least twice as many as a step publishes, so that retained rows do not accumulate.
 */
static ef_status purge_published(ef__publisher_task *publisher, ef_error *err)
{
    bool kept = publisher->definition.retain_ms > 0;
    ef_partition_lease held = sink_lease(publisher);
    int64_t purged = 0;
    ef_status st = EF_OK;

    if (ef__publish_mono_us(publisher) < publisher->next_purge_us ||
        !ef__membership_token(&publisher->membership) || !sink_is_complete(publisher, true))
        return EF_OK;
    for (size_t done = 0; st == EF_OK && done <= 2 * publisher->batch; done += PURGE_ROWS) {
        st = ef__published_purge(publisher->engine->journal, ef_str_from(publisher->name), &held,
                                 PURGE_ROWS, &purged, err);
        if (purged < PURGE_ROWS)
            break;
    }
    if (st == EF_OK)
        publisher->next_purge_us = purged == PURGE_ROWS ? 0
                                   : kept               ? ef__publish_mono_us(publisher) + PURGE_US
                                                        : INT64_MAX;
    return st;
}

static bool is_ready(const ef__publisher_task *publisher)
{
    return publisher->bus && !publisher->bus->lost && sink_is_available(publisher);
}

/* Checks that the sink still has its messages, before anything else. */
static ef_status check_sink(ef__publisher_task *publisher, ef_error *err)
{
    ef_status st = read_progress(publisher, err);

    if (st == EF_OK && is_ready(publisher) && ef__membership_token(&publisher->membership))
        (void)sink_is_complete(publisher, false);
    return st == EF_OK && is_ready(publisher) ? purge_published(publisher, err) : st;
}

/* The leases held under the token under which the sink was checked. A lease that ended and was
 * acquired again has another token, and the position that others stored in between is not known:
 * then none, and the next step checks again. */
static ef_partition_lease *checked_leases(ef__publisher_task *publisher, size_t *out_count,
                                          ef_tick *tick)
{
    ef_partition_lease *held = ef__membership_leases(&publisher->membership, out_count);

    if (*out_count && !publisher->membership.divided && held->token != publisher->token) {
        tick->more = true;
        *out_count = 0;
    }
    return held;
}

static ef_status make_passes(ef__publisher_task *publisher, const ef_work_options *options,
                             ef_tick *tick, ef_error *err)
{
    size_t usual = options->batch ? options->batch : BATCH_USUAL, count;
    ef_partition_lease *held = checked_leases(publisher, &count, tick);
    ef_status st = count ? ef__publish_due(publisher, held, count, tick, err) : EF_OK;

    if (st == EF_OK && is_ready(publisher))
        st = ef__membership_renew(&publisher->membership, tick, err);
    if (st != EF_OK || !is_ready(publisher))
        return st;
    held = checked_leases(publisher, &count, tick);
    if (count)
        st = ef__publish_queued(publisher, held, count, usual, tick, err);
    if (st == EF_OK && is_ready(publisher))
        st = ef__membership_renew(&publisher->membership, tick, err);
    return st;
}

/* Streams with the same key may be in different partitions, and are sent in the order of the
 * journal only by one worker. */
static bool is_divided(const ef__publisher_task *publisher)
{
    return publisher->bus->ops->spreads &&
           ef_str_equal(publisher->definition.partition_by, EF_STR("stream"));
}

/* Leases last longer than the longest delivery: twice the timeout of a call. */
static ef_status renew_leases(ef__publisher_task *publisher, const ef_work_options *options,
                              ef_error *err)
{
    ef_work_options own = *options;
    ef_tick ignored = {0}; /* ticks report the partitions of the worker only */
    int64_t least_ms = 3 * publisher->definition.timeout_ms;

    own.lease_ms = own.lease_ms ? own.lease_ms : EF__ENGINE_LEASE_MS;
    if (own.lease_ms < least_ms)
        own.lease_ms = least_ms;
    own.heartbeat_ms = 0;
    publisher->membership.divided = is_divided(publisher);
    return ef__membership_step(&publisher->membership, &own, &ignored, err);
}

/* `tick` is this publisher's own. */
static ef_status publish_rows(ef__publisher_task *publisher, const ef_work_options *options,
                              ef_tick *tick, ef_error *err)
{
    ef_status st = renew_leases(publisher, options, err);

    if (st == EF_OK)
        st = check_sink(publisher, err);
    if (st == EF_OK && publisher->bus && publisher->bus->lost)
        st = redeliver_lost(publisher, tick, err);
    if (st == EF_OK && is_ready(publisher))
        st = make_passes(publisher, options, tick, err);
    if (st == EF_OK && is_ready(publisher) && tick->claimed == 0 && publisher->bus->ops->check_loss)
        ef__sink_recovered(publisher); /* no row waits whose delivery would show it */
    if (st == EF_LEASE_LOST) {         /* another worker holds the partition now: not a failure */
        st = ef__membership_recheck(&publisher->membership, tick, err);
        st = st == EF_LEASE_LOST ? EF_OK : st;
        tick->more = true;
    }
    tick->more =
        tick->more || (publisher->bus && publisher->bus->lost && sink_is_available(publisher));
    return st;
}

ef_status ef__publish_step(ef__publisher_task *publisher, const ef_work_options *options,
                           ef_tick *tick, ef_error *err)
{
    ef_tick own = {0};
    ef_status st;
    EF__LOCK(&publisher->stepping);

    publisher->step_us = ef__publish_mono_us(publisher);
    st = prepare_sink(publisher, err);
    if (st == EF_OK && (publisher->is_removed || !is_sending(publisher))) {
        close_sink(publisher);
        ef__membership_leave(&publisher->membership);
        publisher->membership.next_beat_us = 0;
        set_state(publisher, EF_PUBLISHER_PAUSED);
    } else if (st == EF_OK && publisher->bus && sink_is_available(publisher)) {
        st = publish_rows(publisher, options, &own, err);
        if (sink_is_available(publisher))
            set_state(publisher, own.more ? EF_PUBLISHER_WORKING : EF_PUBLISHER_IDLE);
    }
    if (!sink_is_available(publisher))
        ef__tick_wake_at(&own, ef__engine_now(publisher->engine) + publisher->next_try_us -
                                   ef__publish_mono_us(publisher));
    tick->claimed += own.claimed;
    tick->more = tick->more || own.more;
    ef__tick_wake_at(tick, own.due_us);
    publisher->step_us = 0;
    return st;
}
