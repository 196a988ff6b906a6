/*
 * jet.h - the types and functions that the files of the JetStream journal share. Prefix: jet_.
 *
 * The broker stores the events: the position of an event is the sequence of its message in the
 * stream, and so is its seq. Both only grow, and both have gaps. The other interfaces
 * (leases, workers, runs, audit entries, types) are those of another journal, base.control, which
 * has no events.
 *
 * Locks: jet_store.lock guards the link and the list of readers, jet_reader.lock one reader,
 * jet_reader.ack_lock its acknowledgements, jet_watch.lock what waiters share. A thread that holds
 * a reader's lock may acquire the store's lock or ack_lock; otherwise a thread holds one at a time.
 */
#pragma once

#include "../journal.h"

#include "../../base/auto.h"

#include <pthread.h>
#include <stdatomic.h>

#include <nats/nats.h>

enum {
    JET_SUBJECT_MAX = 2400, /* bytes: tenant and stream with every byte written as %XX */
    JET_NAME_MAX = 256,     /* bytes of the name of a stream or consumer: the broker's limit */
    JET_ACKS = 4,           /* batches not yet acknowledged: one applied, one read ahead, spare */
    JET_TIMEOUT_MS = 5000   /* a broker that does not respond in this time is unavailable */
};

/* nats://[USER:PASSWORD@]HOST[:PORT]/STREAM[?KEY=VALUE&…], KEY as the fields below: subject, creds,
 * ca, in_flight, batch, ack_wait */
typedef struct jet_address {
    char server[512]; /* for the library */
    char shown[512];  /* for messages: without credentials */
    char host[256];   /* must match the certificate */
    char stream[JET_NAME_MAX];
    char filter[JET_SUBJECT_MAX]; /* five tokens, tenant.T.aggregate.TYPE.ID, each may be * */
    char creds[1024], ca[1024];   /* files; "": none */
    int64_t in_flight;            /* limit of delivered and unacknowledged messages per reader */
    int64_t batch;                /* messages per fetch */
    int64_t ack_wait_s; /* the broker delivers an unacknowledged message again after this time */
    bool tls;
} jet_address;

ef_status jet_address_parse(const char *url, jet_address *out, ef_error *err);

/* A connection, counted by reference. It never reconnects: a new one replaces it, because readers
 * must revalidate their position after a reconnect. */
typedef struct jet_link {
    atomic_int users;
    natsConnection *connection;
    jsCtx *stream;
} jet_link;

/* The reply subject that acknowledges a message and all messages before it. */
typedef struct jet_ack {
    int64_t position; /* 0: none */
    char reply[2 * JET_NAME_MAX];
} jet_ack;

/* A consumer at the broker, and its progress. */
typedef struct jet_reader {
    struct jet_reader *next;
    pthread_mutex_t lock;
    char name[JET_NAME_MAX]; /* of a durable consumer; "": the consumer lives for one call */
    char consumer[JET_NAME_MAX];
    char filter[JET_SUBJECT_MAX];
    jet_link *link;     /* NULL: the consumer must be created */
    int64_t read;       /* all positions up to it are read */
    uint64_t delivered; /* delivery number of the last message: dense unless messages are lost */
    bool dry;           /* no message was left above `read` */
    pthread_mutex_t ack_lock; /* guards the fields below */
    jet_ack acks[JET_ACKS];   /* of the last message of each recent batch */
    size_t ack_count;
} jet_reader;

/* State shared by waiters and two threads: one waits for messages, one for wake-ups. */
typedef struct jet_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t messages, wakes;
    bool started, stopping;
    int waiters;  /* that wait for messages */
    int64_t head; /* the highest known position */
    int64_t wake; /* the wake counter of the control journal */
    ef_status st; /* of the last wait for messages */
    ef_error err; /* its details */
    jet_link
        *waiting; /* the link that the first thread waits on; close closes it to end the wait */
} jet_watch;

typedef struct jet_counts {
    _Atomic int64_t redelivered, unreadable, connects, holes, appended;
    _Atomic int64_t unreadable_at; /* the last position that was counted as unreadable */
} jet_counts;

typedef struct jet_store {
    ef_journal base; /* first: an ef_journal * is cast to jet_store * */
    jet_address address;
    char id[16]; /* of the control journal: makes the names of durable consumers unique */
    pthread_mutex_t lock;
    jet_link *link;
    jet_reader *readers;
    jet_watch watch;
    jet_counts counts;
} jet_store;

static inline jet_store *jet_store_of(ef_journal *journal)
{
    return (jet_store *)journal;
}

/* --- subjects (subject.c) --------------------------------------------------------------------- */

/* tenant.T.aggregate.TYPE.ID. A stream's name is TYPE.ID; one without a dot has the type "_". */
bool jet_subject_make(ef_str tenant, ef_str stream, ef__buf *out);
/* The inverse, in `arena`. EF_BAD_INPUT: no subject of this journal, or not its canonical form. */
ef_status jet_subject_parse(const char *subject, ef__arena *arena, ef_str *out_tenant,
                            ef_str *out_stream, ef_error *err);
/* Restricts `filter` to one tenant. False: the filter excludes the tenant. */
bool jet_filter_tenant(const char *filter, ef_str tenant, char out[JET_SUBJECT_MAX]);
/* Parses a subject of five tokens; a trailing > stands for the remaining ones. */
ef_status jet_filter_parse(ef_str given, char out[JET_SUBJECT_MAX], ef_error *err);
bool jet_filter_has(const char *filter, const char *subject);

/* --- messages (envelope.c) -------------------------------------------------------------------- */

/* The metadata of a message that was delivered. */
typedef struct jet_place {
    int64_t position;
    uint64_t delivered; /* delivery number of its consumer */
    uint64_t times;     /* how often this message was delivered */
    uint64_t pending;   /* messages after it that are not yet delivered */
    int64_t time_us;
} jet_place;

/* Parses the reply subject of a message. */
bool jet_place_parse(const char *reply, jet_place *out);

/*
 * Decodes the event of a message; its texts are in `arena`. An unreadable message results in an
 * event with an empty type and the reason as its data; the engine decides what to do with it.
 * EF_NO_MEMORY
 */
ef_status jet_event_decode(const jet_store *store, natsMsg *msg, const jet_place *place,
                           ef__arena *arena, ef__buf *scratch, ef_event *out, ef_error *err);
/* Writes the native envelope: everything but tenant and stream, which are in the subject. */
/* Our own envelope of an event: all but tenant and stream, which are in the subject. */
bool jet_event_write(const ef__arrival *arrival, ef__buf *out);

/* --- the broker (link.c) ---------------------------------------------------------------------- */

/* The connection, opened if necessary; release it with jet_link_put. EF_BUSY: no broker. */
ef_status jet_link_get(jet_store *store, jet_link **out, ef_error *err);
void jet_link_put(jet_link *link);                    /* accepts NULL */
void jet_link_drop(jet_store *store, jet_link *link); /* it failed: the next call opens another */

typedef struct jet_state {
    int64_t first, last; /* sequences; deleted messages count */
    int64_t messages, bytes;
    int64_t last_us; /* time of the last message */
} jet_state;

/* EF_NOT_FOUND: there is no such stream. EF_BAD_INPUT: its retention is not that of a journal. */
ef_status jet_state_read(jet_store *store, jet_state *out, ef_error *err);
ef_status jet_stream_create(jet_store *store, ef_error *err);
ef_status jet_broker_fail(const jet_store *store, natsStatus status, ef_error *err);

/* --- reading (reader.c, read.c) --------------------------------------------------------------- */

/* A reader of messages above `after`. */
void jet_reader_init(jet_reader *reader, const char *name, const char *filter);
void jet_reader_release(jet_store *store, jet_reader *reader);
/*
 * Reads up to `limit` events above `after`; *out_reached is the position read up to. Every message
 * of the stream between the two that passes the filter is in `out`. A reader at another position is
 * created again at `after`.
 */
ef_status jet_reader_read(jet_store *store, jet_reader *reader, int64_t after, size_t limit,
                          ef_batch *out, int64_t *out_reached, ef_error *err);
/* Acknowledges the messages that it has read up to `upto`. */
void jet_reader_ack(jet_store *store, jet_reader *reader, int64_t upto);

ef_status jet_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                       ef_error *err);
ef_status jet_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                          size_t limit, ef_batch *out, ef_error *err);
ef_status jet_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                          int64_t *out_position, ef_error *err);
ef_status jet_follow(ef_journal *journal, const ef__follow *follow, ef_batch *out,
                     int64_t *out_reached, ef_error *err);
void jet_followed(ef_journal *journal, ef_str reader, int64_t upto);
void jet_unfollow(ef_journal *journal, ef_str reader);

/* --- writing and waiting (append.c, watch.c) -------------------------------------------------- */

ef_status jet_append(ef_journal *journal, const ef__arrival *events, size_t count, ef_place *out,
                     ef_error *err);
ef_status jet_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                   ef_error *err);
void jet_watch_init(jet_watch *watch);
void jet_watch_release(jet_store *store);
