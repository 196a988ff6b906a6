/*
 * publisher.h - publishers: lanes that hand events to the world outside.
 *
 * A publisher takes the events whose type is published (`everfold type set TYPE --publish yes`) and
 * fits its list of types, from the moment it is added. It delivers each at least once and the
 * events of a stream in their order: a message that fails is tried again after `retry_ms`, and only
 * its own stream waits behind it. Runs publish nothing: what they read was published when it was
 * appended.
 *
 * What goes out is a CloudEvent 1.0 in JSON. Its id is the event's: whoever receives it drops what
 * comes a second time by tenant and id.
 */
#ifndef EVERFOLD_PUBLISHER_H
#define EVERFOLD_PUBLISHER_H

#include <everfold/engine.h>
#include <everfold/outbox.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EF_RETAIN_NONE INT64_C(-1)

/* Zero means the default. */
typedef struct ef_publisher {
    ef_str name;
    ef_str url;   /* file:PATH, file:- (stdout), https://HOST/PATH,
                   * nats://HOST:PORT/SUBJECT */
    ef_str types; /* comma list of NAME or PREFIX*; "" all that are published */
    /* "stream" (default), "tenant", "type", or a member of the data, as "data.customer.id": what
     * goes along as the message's key. Events of a key leave in the order of the journal for as
     * long as none of them fails; behind one that does its stream waits, and not its key. */
    ef_str partition_by;
    int64_t retry_ms;     /* after a failure; default 60,000 */
    int64_t attempts_max; /* dead at this failure; default never */
    int64_t retain_ms;    /* which events were published, and when, is kept for so long, so that it
                           * can be looked up and they can be handed out again; default an hour,
                           * 10 min for nats; EF_RETAIN_NONE keeps nothing */
    int64_t timeout_ms;   /* for an answer; default 10,000 */
    int64_t file_bytes;   /* file: a new one is begun at this size; default never */
    int32_t file_count;   /* … and so many old ones are kept; default 10 */
    int32_t in_flight;    /* webhook: requests at once; default 8 */
    ef_str secret;      /* "file:PATH" or "env:NAME": where a worker reads what webhooks are signed
                         * by, or who it is for NATS; never the secret itself */
    bool allow_private; /* webhook, nats: may go to addresses that are not public */
    bool paused;        /* events queue up; nothing is delivered */
    /* Directories that the file of the sink and that of the secret are in: no symbolic link is
     * followed from there on. "": anywhere. See ef_publisher_confine. */
    ef_str directory, secret_directory;
} ef_publisher;

typedef struct ef_publisher_list {
    const ef_publisher *items; /* by name; defaults are filled in */
    size_t count;
    struct ef__batch_room *room;
} ef_publisher_list;

/*
 * Add a publisher, or change it.
 * EF_BAD_INPUT    one of the settings cannot be meant
 * EF_UNSUPPORTED  this build has no such sink
 */
ef_status ef_publisher_set(ef_journal *journal, const ef_publisher *publisher, ef_error *err);
/*
 * For a publisher whose definition comes from elsewhere, as over HTTP: its files (sink, secret,
 * certificates and credentials of NATS) have to be below one of `directories`, absolute paths with
 * commas between, and a variable of the environment has to begin with EF_SECRET_ENV. Sets
 * `directory` and `secret_directory`, which point into `directories`.
 * EF_FORBIDDEN  one of them is not; "" allows no file
 */
#define EF_SECRET_ENV "EVERFOLD_SECRET_"
ef_status ef_publisher_confine(ef_publisher *publisher, ef_str directories, ef_error *err);
ef_status ef_publisher_ls(ef_journal *journal, ef_publisher_list *out, ef_error *err);
/* The one of that name, as the list's only item; EF_NOT_FOUND. */
ef_status ef_publisher_get(ef_journal *journal, ef_str name, ef_publisher_list *out, ef_error *err);
void ef_publisher_list_release(ef_publisher_list *list);
/* Pauses a publisher or resumes it; its other settings stay as they are, also when they are being
 * changed at the same time. EF_NOT_FOUND: there is no such publisher. */
ef_status ef_publisher_pause(ef_journal *journal, ef_str name, bool paused, ef_error *err);
/* As ef_lane_drop. EF_NOT_FOUND: there is no such publisher. */
ef_status ef_publisher_remove(ef_journal *journal, ef_str name, bool discard, int64_t *out_rows,
                              ef_error *err);

typedef enum ef_publisher_state {
    EF_PUBLISHER_IDLE,     /* nothing to do */
    EF_PUBLISHER_WORKING,  /* there is more */
    EF_PUBLISHER_RETRYING, /* its sink is not at hand */
    EF_PUBLISHER_PAUSED
} ef_publisher_state;

const char *ef_publisher_state_name(ef_publisher_state state); /* "idle" */

/* How a publisher is doing in this process. */
typedef struct ef_publisher_health {
    char name[256];
    ef_publisher_state state;
    int64_t published, failed, dead; /* since the engine was opened */
    int64_t republished;             /* handed back, for the sink had forgotten them */
    int64_t failures_in_a_row;       /* of the sink */
    int64_t stalled_us;              /* how long a step has been under way; 0 between steps */
    ef_error last_error;             /* status EF_OK: none so far */
} ef_publisher_health;

/* Up to `max` of them, by name; how many in all. Never waits for a sink. */
size_t ef_engine_publishers(ef_engine *engine, ef_publisher_health *out, size_t max);

#ifdef __cplusplus
}
#endif
#endif
