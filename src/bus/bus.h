/*
 * bus.h - the interface of sinks: a sink delivers messages in order and reports the outcome of
 * each.
 *
 * Delivery is at least once: a message that was delivered but not acknowledged is delivered again,
 * under the same id. A sink keeps the order of messages of one group; groups may overtake one
 * another. After a failure no later message of its group is delivered in that call.
 *
 * A call is bounded: after `timeout_ms` no delivery is started, and those in progress have as long
 * again. One thread at a time uses a sink.
 */
#pragma once

#include "../base/arena.h"
#include "../base/buf.h"

#include <everfold/clock.h>
#include <everfold/event.h>
#include <everfold/log.h>

#include <stdatomic.h>

#define EF__BUS_TIMEOUT_MS 10000            /* long for a receiver, short against a lease */
#define EF__BUS_LINE_MAX (4u * 1024 * 1024) /* bytes of a message: an event with its escapes */

typedef struct ef__bus ef__bus;
typedef struct ef__bus_ops ef__bus_ops;

typedef struct ef__bus_options {
    ef_str url;
    int64_t timeout_ms;      /* 0: EF__BUS_TIMEOUT_MS */
    int64_t file_bytes;      /* file: rotated at this size; 0: never */
    int32_t file_count;      /* file: rotated files that are kept; 0: 10 */
    int32_t in_flight;       /* webhook: concurrent requests; 0: 8 */
    ef_str directory;        /* file: its path is below it, without links; "": anywhere */
    ef_str secret;           /* webhook: signs messages; nats: USER:PASSWORD or a token; "": none */
    bool allow_private;      /* webhook, nats: also connect to addresses that are not public */
    ef_str progress;         /* the last result of `progress`, of any process */
    const atomic_bool *stop; /* may be NULL: set when the call should end */
    const ef_clock *clock;
    const ef_log *log;
} ef__bus_options;

typedef struct ef__bus_message {
    const ef_event *event;
    ef_str key;     /* of the partitioner; part of the message */
    uint32_t group; /* 0 … count - 1 */
} ef__bus_message;

typedef enum ef__bus_verdict {
    EF__BUS_WAITING,   /* not tried, or the result is unknown: deliver it again */
    EF__BUS_DELIVERED, /* stored as safely as the sink can */
    EF__BUS_FAILED,    /* this message: retry later */
    EF__BUS_REFUSED    /* this message: every retry will fail too */
} ef__bus_verdict;

typedef struct ef__bus_outcome {
    ef__bus_verdict verdict;
    ef_str error; /* of FAILED and REFUSED, in the arena of the call */
} ef__bus_outcome;

/* The struct of every sink begins with this one. */
struct ef__bus {
    const ef__bus_ops *ops;
    ef__bus_options options; /* with copies of the texts */
    bool lost;               /* the sink has lost acknowledged messages: it delivers nothing
                              * until the caller has requeued them and cleared this */
    int64_t lost_count;      /* how many messages, of any publisher; 0: unknown */
    bool (*meanwhile)(void *context); /* of the caller: see `overlaps`; true: there is more to do */
    void *meanwhile_context;
};

struct ef__bus_ops {
    const char *name;
    size_t bytes; /* of the sink's struct */
    /* Checks the address. */
    ef_status (*check)(const ef__bus_options *options, ef_error *err);
    /* `bus` is zeroed, with its options; if it fails, `close` is called. */
    ef_status (*open)(ef__bus *bus, ef_error *err);
    size_t batch_max; /* messages per call */
    bool grouped;     /* it uses the groups */
    bool spreads;     /* several workers may deliver to it at once, each other streams */
    bool overlaps;    /* it calls ef__bus_meanwhile while it waits for deliveries */
    /*
     * Delivers messages; `outcomes` start as WAITING. A status other than EF_OK: the sink is
     * unavailable, and the call can be retried later; the outcomes are valid all the same. `now_us`
     * is wall time.
     */
    ef_status (*deliver)(ef__bus *bus, const ef__bus_message *messages, size_t count,
                         int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                         ef_error *err);
    /*
     * Sets `lost` if the sink has lost messages that it had acknowledged. `progress` is the last
     * result of `progress`, of any process. A call with an open connection is free; `now` always
     * asks the sink. May be NULL. EF_NOT_FOUND: there is nothing to compare with; else as
     * `deliver`.
     */
    ef_status (*check_loss)(ef__bus *bus, ef_str progress, bool now, ef_error *err);
    /* The position of the sink, as a JSON object or "". May be NULL. Valid until the next call. */
    ef_str (*progress)(ef__bus *bus);
    void (*close)(ef__bus *bus);
};

/* Checks the address of a sink. EF_BAD_INPUT: invalid. EF_UNSUPPORTED: valid, but this build does
 * not have the sink. */
ef_status ef__bus_check(const ef__bus_options *options, ef_error *err);
/* Does not connect: a sink that is unavailable now may come back later. */
ef_status ef__bus_open(const ef__bus_options *options, ef__bus **out, ef_error *err);
void ef__bus_close(ef__bus *bus); /* accepts NULL */

/* --- for sinks (bus.c) ------------------------------------------------------------------------ */

/* Fills in the defaults and copies the texts; ef__bus_release frees them. */
ef_status ef__bus_init(ef__bus *bus, const ef__bus_ops *ops, const ef__bus_options *options,
                       ef_error *err);
void ef__bus_release(ef__bus *bus);
/* Instead of waiting, runs a piece of the caller's other work: some ten milliseconds. False: there
 * is none, for the rest of this call. */
bool ef__bus_meanwhile(ef__bus *bus);
bool ef__bus_stopping(const ef__bus *bus);
int64_t ef__bus_mono_us(const ef__bus *bus);
/* The message as one line of JSON, without a line break at the end. */
bool ef__bus_write(ef__buf *out, const ef__bus_message *message);
/* A text for a header: characters that are not printable ASCII, and %, become %XX. */
bool ef__bus_header(ef__buf *out, ef_str text);
/* The id of a message for a header, unique over tenants: TENANT/ID. A / of the tenant becomes %2F,
 * so that no two tenants have the same id. */
bool ef__bus_id(ef__buf *out, const ef_event *event);
/* A verdict with its reason. */
void ef__bus_fail(ef__bus_outcome *outcome, ef__bus_verdict verdict, ef__arena *arena,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/*
 * May a webhook or a broker have this address? A client that configures one must not use Everfold
 * to reach addresses that only this machine can reach: the machine itself, the network around it,
 * or the metadata service of a cloud. The check is on the resolved address, not on the name.
 * Families other than IPv4 and IPv6 are not public.
 */
struct sockaddr;
bool ef__address_is_public(const struct sockaddr *address, size_t len);

extern const ef__bus_ops ef__file_sink, ef__webhook_sink, ef__nats_sink;

/*
 * The signature of a webhook, by the convention of Standard Webhooks:
 *
 *     webhook-id: the message's id        webhook-timestamp: seconds since 1970
 *     webhook-signature: v1,base64(HMAC-SHA256(secret, "id.timestamp.body"))
 *
 * A secret that starts with whsec_ is base64; any other one is used as it is. False: the secret is
 * not base64, or memory ran out.
 */
#define EF__SIGN_TEXT_MAX 64 /* bytes: "v1,", 44 characters and a NUL */
bool ef__webhook_sign(ef_str secret, ef_str id, int64_t time_s, ef_str body,
                      char out[EF__SIGN_TEXT_MAX]);
