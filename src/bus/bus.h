/*
 * bus.h - the seam for publication: a sink takes messages in order and says what became of each.
 *
 * Delivery is at least once: what was delivered but not marked comes again, under the same id. A
 * sink keeps the order of messages of one group; groups may overtake one another. What failed is
 * followed by nothing of its group in that call.
 *
 * A call is bounded: after `timeout_ms` nothing new is begun, and what is under way has as long
 * again. A sink belongs to one thread at a time.
 */
#ifndef EF_BUS_BUS_H
#define EF_BUS_BUS_H

#include "../base/arena.h"
#include "../base/buf.h"

#include <everfold/clock.h>
#include <everfold/event.h>
#include <everfold/log.h>

#include <stdatomic.h>

#define EF__BUS_TIMEOUT_MS 10000
#define EF__BUS_LINE_MAX (4u * 1024 * 1024) /* of one message as text: an event and its escapes */

typedef struct ef__bus ef__bus;
typedef struct ef__bus_ops ef__bus_ops;

typedef struct ef__bus_options {
    ef_str url;
    int64_t timeout_ms;      /* 0: EF__BUS_TIMEOUT_MS */
    int64_t file_bytes;      /* file: a new one is begun at this size; 0: never */
    int32_t file_count;      /* … and so many old ones are kept; 0: 10 */
    int32_t in_flight;       /* webhook: requests at once; 0: 8 */
    ef_str directory;        /* file: its path is below it, and no link is followed from there on;
                              * "": anywhere */
    ef_str secret;           /* webhook: to sign by; nats: USER:PASSWORD or a token; "" none */
    bool allow_private;      /* webhook, nats: addresses that are not public, too */
    ef_str progress;         /* what `progress` said last, in this process or another */
    const atomic_bool *stop; /* may be NULL: set when the call should come to its end */
    const ef_clock *clock;
    const ef_log *log;
} ef__bus_options;

typedef struct ef__bus_message {
    const ef_event *event;
    ef_str key;     /* what the partitioner made of it; goes along */
    uint32_t group; /* 0 … count - 1 */
} ef__bus_message;

typedef enum ef__bus_verdict {
    EF__BUS_WAITING,   /* not tried, or nobody can say: try it again when you like */
    EF__BUS_DELIVERED, /* for good, as far as the sink can promise it */
    EF__BUS_FAILED,    /* this one: try it again later */
    EF__BUS_REFUSED    /* this one, and it always will be */
} ef__bus_verdict;

typedef struct ef__bus_outcome {
    ef__bus_verdict verdict;
    ef_str error; /* of FAILED and REFUSED, in the call's arena */
} ef__bus_outcome;

/* Every sink's struct begins with this one. */
struct ef__bus {
    const ef__bus_ops *ops;
    ef__bus_options options;          /* texts are the sink's own */
    bool lost;                        /* the sink has forgotten what it had acknowledged: nothing is
                                       * delivered until the caller has handed it back and cleared this */
    int64_t lost_count;               /* how many messages, whoever's; 0: nobody can say */
    bool (*meanwhile)(void *context); /* the caller's: see `overlaps`; true: there is more to do */
    void *meanwhile_context;
};

struct ef__bus_ops {
    const char *name;
    size_t batch_max; /* messages of one call */
    bool grouped;     /* it looks at the groups */
    bool overlaps;    /* it calls ef__bus_meanwhile while messages are on their way */
    /*
     * Deliver messages; `outcomes` begin as WAITING. Anything but EF_OK: the sink is not at hand,
     * and the call may be made again after a while; outcomes hold all the same. `now_us` is the
     * wall clock's.
     */
    ef_status (*deliver)(ef__bus *bus, const ef__bus_message *messages, size_t count,
                         int64_t now_us, ef__bus_outcome *outcomes, ef__arena *arena,
                         ef_error *err);
    /*
     * Has it all that it had acknowledged? If not, `lost` is set. `progress` is what it said last,
     * in whichever process. By itself this costs nothing, unless it has to connect; `now` asks.
     * May be NULL. EF_NOT_FOUND: there is nothing to compare with; else as `deliver`.
     */
    ef_status (*look)(ef__bus *bus, ef_str progress, bool now, ef_error *err);
    /* How far it is, as a JSON object, or "". May be NULL. Until the next call. */
    ef_str (*progress)(ef__bus *bus);
    void (*close)(ef__bus *bus);
};

/* Is it an address that a sink can be opened by? EF_BAD_INPUT says what is wrong with it;
 * EF_UNSUPPORTED: it is, but was left out of this build. */
ef_status ef__bus_check(const ef__bus_options *options, ef_error *err);
/* What is not at hand now may come later: opening connects to nothing. */
ef_status ef__bus_open(const ef__bus_options *options, ef__bus **out, ef_error *err);
void ef__bus_close(ef__bus *bus); /* NULL is fine */

/* --- for sinks (bus.c) ------------------------------------------------------------------------ */

/* Fill in the defaults and copy the texts into memory that ef__bus_release frees. */
ef_status ef__bus_init(ef__bus *bus, const ef__bus_ops *ops, const ef__bus_options *options,
                       ef_error *err);
void ef__bus_release(ef__bus *bus);
/* Instead of waiting, let the caller of `deliver` do a piece of what it has to do meanwhile: some
 * ten milliseconds. False: there is nothing, and never will be in this call. */
bool ef__bus_meanwhile(ef__bus *bus);
bool ef__bus_stopping(const ef__bus *bus);
int64_t ef__bus_mono_us(const ef__bus *bus);
/* The message as one line of JSON, without a line break at its end. */
bool ef__bus_write(ef__buf *out, const ef__bus_message *message);
/* A text as it may stand in a header: what is not printable ASCII, and %, becomes %XX. */
bool ef__bus_header(ef__buf *out, ef_str text);
/* The id of a message, unique over tenants: TENANT/ID, as it may stand in a header. A / of the
 * tenant becomes %2F, so that no two tenants can make the same id. */
bool ef__bus_id(ef__buf *out, const ef_event *event);
/* A verdict with its reason. */
void ef__bus_fail(ef__bus_outcome *outcome, ef__bus_verdict verdict, ef__arena *arena,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

ef_status ef__bus_file_check(const ef__bus_options *options, ef_error *err);
ef_status ef__bus_file_open(const ef__bus_options *options, ef__bus **out, ef_error *err);
ef_status ef__bus_webhook_check(const ef__bus_options *options, ef_error *err);
ef_status ef__bus_webhook_open(const ef__bus_options *options, ef__bus **out, ef_error *err);
ef_status ef__bus_nats_check(const ef__bus_options *options, ef_error *err);
ef_status ef__bus_nats_open(const ef__bus_options *options, ef__bus **out, ef_error *err);

#endif
