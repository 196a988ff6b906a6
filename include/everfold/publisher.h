/*
 * publisher.h - publishers: lanes that deliver events to external sinks.
 *
 * A publisher gets the events whose type is set to be published (ef_type_set) and matches its list
 * of types, from the moment it is added. It delivers each event at least once, and the events of a
 * stream in order: a message that fails is retried after `retry_ms`, and blocks its own stream
 * only. Runs publish nothing: the events that they read were published when they were appended.
 *
 * A message is a CloudEvent 1.0 in JSON. Its id is the event's: a receiver drops duplicates by
 * tenant and id.
 */
#pragma once

#include <everfold/engine.h>
#include <everfold/outbox.h>

EF_C_BEGIN

#define EF_RETAIN_NONE INT64_C(-1)

/* Zero means the default. */
typedef struct ef_publisher {
    ef_str name;
    ef_str url;   /* file:PATH, file:- (stdout), https://HOST/PATH,
                   * nats://HOST:PORT/SUBJECT */
    ef_str types; /* comma-separated NAME or PREFIX*; "": all published types */
    /* "stream" (default), "tenant", "type", or a member of the data like "data.customer.id": the
     * key of the message. Events of a key are delivered in journal order as long as none of them
     * fails; a failure blocks its stream, not its key. */
    ef_str partition_by;
    int64_t retry_ms;     /* after a failure; default 60,000 */
    int64_t attempts_max; /* dead at this failure; default never */
    int64_t retain_ms;  /* how long published rows are retained, for lookups and redelivery; default
                         * an hour, 10 min for nats; EF_RETAIN_NONE retains nothing */
    int64_t timeout_ms; /* of a delivery; default 10,000 */
    int64_t file_bytes; /* file: rotated at this size; default never */
    int32_t file_count; /* … and this many old files are kept; default 10 */
    int32_t in_flight;  /* webhook: concurrent requests of a worker; default 8 */
    ef_str secret;      /* "file:PATH" or "env:NAME": where a worker reads the signing key of
                         * webhooks, or the NATS credentials; never the secret itself */
    bool allow_private; /* webhook, nats: allows addresses that are not public */
    bool paused;        /* events queue up; nothing is delivered */
    /* Directories of the sink's file and of the secret: no symbolic link is followed below them.
     * "": any place. See ef_publisher_confine. */
    ef_str directory, secret_directory;
} ef_publisher;

typedef struct ef_publisher_list {
    const ef_publisher *items; /* sorted by name; defaults are filled in */
    size_t count;
    struct ef__batch_memory *room;
} ef_publisher_list;

/*
 * Adds or changes a publisher.
 * EF_BAD_INPUT    a setting is invalid
 * EF_UNSUPPORTED  this build has no such sink
 */
ef_status ef_publisher_set(ef_journal *journal, const ef_publisher *publisher, ef_error *err);
/*
 * For a publisher that is defined remotely, like over HTTP: its files (sink, secret, certificates
 * and credentials of NATS) must be below one of `directories`, absolute paths separated by commas,
 * and an environment variable must begin with EF_SECRET_ENV. Sets `directory` and
 * `secret_directory`, which point into `directories`.
 * EF_FORBIDDEN  one of them is not; with "" no file is allowed
 */
#define EF_SECRET_ENV "EVERFOLD_SECRET_"
ef_status ef_publisher_confine(ef_publisher *publisher, ef_str directories, ef_error *err);
/* The publisher of this name, or all of them (`name` NULL). EF_NOT_FOUND */
ef_status ef_publisher_ls(ef_journal *journal, const ef_str *name, ef_publisher_list *out,
                          ef_error *err);
/* Pauses or resumes a publisher; its other settings stay, even if they are changed concurrently.
 * EF_NOT_FOUND: no such publisher. */
ef_status ef_publisher_pause(ef_journal *journal, ef_str name, bool paused, ef_error *err);
/* Removes a publisher: no more events are queued for it, and its settings, its rows and its
 * published events are deleted. `out_rows` (may be NULL): the number of rows deleted. EF_NOT_FOUND:
 * no such publisher. EF_EXISTS: it has rows and `discard` is not set, nothing was changed. */
ef_status ef_publisher_remove(ef_journal *journal, ef_str name, bool discard, int64_t *out_rows,
                              ef_error *err);

typedef enum ef_publisher_state {
    EF_PUBLISHER_IDLE,     /* nothing to do */
    EF_PUBLISHER_WORKING,  /* there is more */
    EF_PUBLISHER_RETRYING, /* its sink is unavailable */
    EF_PUBLISHER_PAUSED
} ef_publisher_state;

/* The health of a publisher in this process. */
typedef struct ef_publisher_health {
    char name[256];
    ef_publisher_state state;
    int64_t published, failed, dead; /* since the engine was opened */
    int64_t republished;             /* redelivered, because the sink had lost them */
    int64_t failures_in_a_row;       /* of the sink */
    int64_t stalled_us;              /* duration of the current step; 0 between steps */
    ef_error last_error;             /* status EF_OK: none so far */
} ef_publisher_health;

/* Up to `max` of them, sorted by name; returns the total number. Never waits for a sink. */
size_t ef_engine_publishers(ef_engine *engine, ef_publisher_health *out, size_t max);

EF_C_END
