/*
 * jet.h - a journal whose events are a JetStream stream, seen by its room only.
 *
 * The events are the broker's: an event's position is the stream's sequence, and so is its seq.
 * Both only grow, and both have holes. Everything else of the seam (leases, workers, runs, acts,
 * types) is kept by another journal, the control journal, which never gets an event.
 *
 * Locks: jet_store.lock guards the link and the readers' list, jet_reader.lock one reader, its
 * `acking` what is to be acknowledged, jet_watch.lock what waiters share. Under a reader's lock the
 * store's and `acking` may be taken; otherwise one at a time.
 */
#ifndef EF_JOURNAL_JETSTREAM_JET_H
#define EF_JOURNAL_JETSTREAM_JET_H

#include "../journal.h"

#include <pthread.h>
#include <stdatomic.h>

#include <nats/nats.h>

enum {
    JET_SUBJECT_MAX = 2400, /* tenant and stream, every byte of them as %XX */
    JET_NAME_MAX = 256,     /* of a stream or consumer */
    JET_ACKS = 4,           /* reads that wait for their commit: one is folded, one read ahead */
    JET_TIMEOUT_MS = 5000   /* a broker that takes longer to answer is not at hand */
};

/* nats://[USER:PASSWORD@]HOST[:PORT]/STREAM[?KEY=VALUE&…], KEY as the fields below: subject, creds,
 * ca, in_flight, batch, ack_wait */
typedef struct jet_address {
    char server[512]; /* as the library takes it */
    char shown[512];  /* without a password */
    char host[256];   /* alone, as a certificate has to name it */
    char stream[JET_NAME_MAX];
    char filter[JET_SUBJECT_MAX]; /* five tokens, tenant.T.aggregate.TYPE.ID, each may be * */
    char creds[1024], ca[1024];   /* files; "" none */
    int64_t in_flight;  /* messages that were delivered and are not acknowledged yet, a reader */
    int64_t batch;      /* messages of a fetch */
    int64_t ack_wait_s; /* then what is not acknowledged is delivered again */
    bool tls;
} jet_address;

ef_status jet_address_take(const char *url, jet_address *out, ef_error *err);

/* A connection, for as long as somebody uses it: it is never mended but replaced, for who connects
 * anew has to look at what he finds. */
typedef struct jet_link {
    atomic_int users;
    natsConnection *connection;
    jsCtx *stream;
} jet_link;

/* The subject that acknowledges a message and all before it. */
typedef struct jet_ack {
    int64_t position; /* 0: none */
    char reply[2 * JET_NAME_MAX];
} jet_ack;

/* A consumer of the broker's and how far it was read. */
typedef struct jet_reader {
    struct jet_reader *next;
    pthread_mutex_t lock;
    char name[JET_NAME_MAX]; /* of the durable; "" of one that lives for a call */
    char consumer[JET_NAME_MAX];
    char filter[JET_SUBJECT_MAX];
    jet_link *link;     /* NULL: it has yet to be made */
    int64_t read;       /* positions up to here are behind it */
    uint64_t delivered; /* the consumer's own count of what it delivered: dense, if all was to us */
    bool dry;           /* nothing was left behind `read` when it was read */
    pthread_mutex_t acking; /* of what follows */
    jet_ack acks[JET_ACKS]; /* of the last messages of the last reads */
    size_t ack_count;
} jet_reader;

/* Those who wait, and the two threads that wait for them: one for messages, one for nudges. */
typedef struct jet_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t messages, nudges;
    bool started, stopping;
    int waiters;       /* who mind messages */
    int64_t head;      /* the highest that is known of */
    int64_t nudge;     /* as the control journal counts them */
    ef_status st;      /* of the last look for messages … */
    ef_error err;      /* … and why */
    jet_link *waiting; /* the link that the first thread waits on: closed to end it */
} jet_watch;

typedef struct jet_counts {
    _Atomic int64_t redelivered, unreadable, connects, holes, appended;
    _Atomic int64_t unreadable_at; /* the last position that was counted */
} jet_counts;

typedef struct jet_store {
    ef_journal base; /* first, so that an ef_journal * is this */
    ef_journal *control;
    jet_address address;
    char id[16]; /* of the control journal: durables of other installations have other names */
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
/* The other way, in `arena`. EF_BAD_INPUT: no subject of ours, or not as we would write it. */
ef_status jet_subject_take(const char *subject, ef__arena *arena, ef_str *out_tenant,
                           ef_str *out_stream, ef_error *err);
/* `filter` with its stars as TYPE and ID of the default, or of this tenant only. False: none of the
 * tenant's are in it. */
bool jet_filter_tenant(const char *filter, ef_str tenant, char out[JET_SUBJECT_MAX]);
/* Five tokens; what ends in > is filled up. */
ef_status jet_filter_take(ef_str given, char out[JET_SUBJECT_MAX], ef_error *err);
bool jet_filter_has(const char *filter, const char *subject);

/* --- messages (envelope.c) -------------------------------------------------------------------- */

/* Where the broker says that a message is. */
typedef struct jet_place {
    int64_t position;
    uint64_t delivered; /* by its consumer, this one included */
    uint64_t times;     /* that this message was delivered */
    uint64_t pending;   /* behind it */
    int64_t time_us;
} jet_place;

/* From the subject that it is acknowledged by. */
bool jet_place_take(const char *reply, jet_place *out);

/*
 * The event that a message holds; what it points to is in `arena`. A message that is none gives an
 * event all the same, with an empty type and the reason as its data: what becomes of it is not
 * decided here. EF_NO_MEMORY
 */
ef_status jet_event_take(const jet_store *store, natsMsg *msg, const jet_place *place,
                         ef__arena *arena, ef__buf *scratch, ef_event *out, ef_error *err);
/* Our own envelope of an event: all but tenant and stream, which are in the subject. */
bool jet_event_write(const ef__arrival *arrival, ef__buf *out);

/* --- the broker (link.c) ---------------------------------------------------------------------- */

/* The connection, made if need be; to be given back. EF_BUSY: the broker is not at hand. */
ef_status jet_link_get(jet_store *store, jet_link **out, ef_error *err);
void jet_link_put(jet_link *link);                    /* NULL is fine */
void jet_link_drop(jet_store *store, jet_link *link); /* it failed: the next one is another */

typedef struct jet_state {
    int64_t first, last; /* sequences; what was deleted counts */
    int64_t messages, bytes;
    int64_t last_us; /* when the last one came */
} jet_state;

/* EF_NOT_FOUND: there is no such stream. EF_BAD_INPUT: it is not kept as a journal has to be. */
ef_status jet_state_read(jet_store *store, jet_state *out, ef_error *err);
ef_status jet_stream_make(jet_store *store, ef_error *err);
ef_status jet_broker_fail(const jet_store *store, natsStatus status, ef_error *err);

/* --- reading (reader.c, read.c) --------------------------------------------------------------- */

/* A reader of messages above `after`. */
void jet_reader_init(jet_reader *reader, const char *name, const char *filter);
void jet_reader_release(jet_store *store, jet_reader *reader);
/*
 * Up to `limit` events above `after`, and how far that is. Nothing is left out between `after` and
 * *out_reached but what the broker does not have. A reader that stands elsewhere is made anew
 * there.
 */
ef_status jet_reader_read(jet_store *store, jet_reader *reader, int64_t after, size_t limit,
                          ef_batch *out, int64_t *out_reached, ef_error *err);
/* What it has read up to `upto` is done with. */
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
ef_status jet_wait(ef_journal *journal, int64_t after, int64_t *nudge, int64_t timeout_ms,
                   ef_error *err);
void jet_watch_init(jet_watch *watch);
void jet_watch_release(jet_store *store);

#endif
