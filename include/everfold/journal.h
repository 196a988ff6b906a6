/*
 * journal.h - streams of events that only ever grow.
 *
 * A stream's events are numbered 1, 2, 3 … without gaps: the seq. Each also has a position, its
 * place in the order in which the whole journal is read: dense, and in the order of commits. An
 * event and its outbox rows are written in one transaction; what an append has answered survives
 * kill -9 and power loss.
 *
 * A journal handle may be used by any number of threads at once; appends of several threads share
 * commits. It may not be used in a child after fork(): open a new one there. Several processes may
 * open the same journal.
 */
#ifndef EVERFOLD_JOURNAL_H
#define EVERFOLD_JOURNAL_H

#include <everfold/clock.h>
#include <everfold/event.h>
#include <everfold/log.h>
#include <everfold/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_journal ef_journal;

/* Zero means the default, everywhere. */
typedef struct ef_journal_options {
    const char *url; /* "sqlite:PATH", "postgres://…", "nats://HOST:PORT/STREAM" or "memory:" */
    const char
        *control;      /* of a journal on JetStream: the URL of the one that keeps all but events */
    bool create;       /* make the store when it is not there */
    bool read_only;    /* never write: no append, no operator's act, no repair */
    bool outbox_off;   /* append without outbox rows (mode inline_apply_only) */
    bool types_strict; /* refuse types that were not registered by ef_type_set */
    int64_t types_max; /* types that the appends of one tenant may create, beside those that were
                        * registered; 0: EF_TYPES_MAX */
    bool accept_head;  /* believe the store where it disagrees with its head file (see doctor) */
    int32_t partitions;    /* of a new store: 1 to 1024, default 16 */
    int64_t busy_ms;       /* how long a call may wait for the store; default 10,000 */
    const ef_clock *clock; /* default ef_clock_system() */
    const ef_log *log;     /* default nowhere */
} ef_journal_options;

/*
 * Open a journal, and compare it with the head that is kept apart from it.
 *
 * EF_NOT_FOUND     there is no store and `create` is not set
 * EF_WRONG_STORE   the file is something else
 * EF_NEWER_SCHEMA  a newer Everfold has migrated it
 * EF_DAMAGED       acknowledged events are missing or changed: the error names the positions
 */
ef_status ef_journal_open(const ef_journal_options *options, ef_journal **out_journal,
                          ef_error *err);

/*
 * What makes the schema of a store on a server, for those who migrate by hand: SQL, handed to
 * `write`. Of `url` only the kind and the schemas count. EF_UNSUPPORTED: the store is a file, or
 * this build lacks it.
 */
ef_status ef_journal_schema(const char *url, void (*write)(void *context, ef_str text),
                            void *context, ef_error *err);

/* Wait for calls in flight to end is the caller's part; NULL is fine. */
void ef_journal_close(ef_journal *journal);

/*
 * Append `count` events, to one stream or many: all of them, or none.
 *
 * `events` is borrowed for the call. On EF_OK `out_places[i]` says where events[i] is. An event
 * whose id is known already, with the same content, is not written again: its place is the first
 * one, marked duplicate, and its expected_seq is not looked at. Content is stream, type, schema,
 * data, meta, and time where the caller gives one.
 *
 * EF_CONFLICT      a stream is at another seq: read it again and decide anew (err->found)
 * EF_ID_CONFLICT   an id belongs to an event with other content
 * EF_BAD_INPUT, EF_BAD_JSON, EF_TOO_LARGE, EF_UNKNOWN_TYPE   nothing was written; fix the event
 * EF_BUSY, EF_FULL nothing was written, try again
 * EF_UNSURE        it may have been written: repeat with the same ids to learn it
 */
ef_status ef_journal_append(ef_journal *journal, const ef_new_event *events, size_t count,
                            ef_place *out_places, ef_error *err);

/* One of several appends that are made together. */
typedef struct ef_append {
    const ef_new_event *events;
    size_t count;
    ef_place *out_places;
    ef_error *err;    /* may be NULL */
    ef_status status; /* what became of it */
    bool held; /* EF_BUSY: somebody's open transaction has its stream. Leave it set for the next try
                */
} ef_append;

/*
 * Several appends, in this order. Each is one as above: all of it or none, whatever becomes of the
 * others. They share commits, so that one thread gets as much done as many do that append alone.
 * One that somebody else's open transaction holds up (on PostgreSQL) is not waited for: the others
 * would wait with it.
 */
void ef_journal_append_each(ef_journal *journal, ef_append *appends, size_t count);

/* Check events as append does, without writing or looking at the store. `out_index` (may be NULL)
 * says which one failed. */
ef_status ef_event_check(const ef_new_event *events, size_t count, size_t *out_index,
                         ef_error *err);

/*
 * Read up to `limit` events of a stream from `from_seq` (1 is the first) on. A stream that does
 * not exist is EF_NOT_FOUND; a from_seq past its end gives an empty batch.
 */
ef_status ef_journal_read_stream(ef_journal *journal, ef_str tenant, ef_str stream,
                                 int64_t from_seq, size_t limit, ef_batch *out, ef_error *err);

typedef struct ef_log_query {
    ef_str tenant;
    bool any_tenant;      /* all tenants; `tenant` is not looked at */
    int64_t after;        /* positions above this one; 0 from the start */
    ef_str type;          /* "" for all; NAME, or PREFIX* */
    size_t limit;         /* 0 means 100; at most EF_READ_LIMIT_MAX */
    bool stored_types;    /* the type as it was appended, also where it is an alias */
    int64_t *out_reached; /* may be NULL: the position up to which this call has looked */
} ef_log_query;

#define EF_TYPES_MAX 10000
#define EF_READ_LIMIT_MAX 10000

/* Read events in the order of positions. */
ef_status ef_journal_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                              ef_error *err);

/* Read one event by its id. EF_NOT_FOUND when the tenant has no such event. */
ef_status ef_journal_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                             ef_error *err);

/*
 * Wait until the journal's head is above `after`, whoever appends: EF_OK, or EF_TIMEOUT after
 * `timeout_ms`. Costs nothing while nothing happens.
 */
ef_status ef_journal_wait(ef_journal *journal, int64_t after, int64_t timeout_ms, ef_error *err);

typedef struct ef_head {
    int64_t position; /* of the last event; 0 when there is none */
    int64_t recorded_us;
    uint8_t hash[EF_HASH_BYTES];
} ef_head;

ef_status ef_journal_head(ef_journal *journal, ef_head *out, ef_error *err);

/*
 * Read-your-writes tokens: text for callers to keep and to hand back to a read, which then shows
 * what the append wrote. Opaque to applications. Letters, digits, "-", "_" and "." only.
 *
 * A token names events in one of three forms:
 *
 *     stream     events of one stream up to a seq:  s.TENANT.STREAM.SEQ.POSITION.s
 *                TENANT and STREAM are base64url without padding, SEQ and POSITION decimal.
 * POSITION is that of the event SEQ, or 0 where it has none yet (an append inside a transaction).
 * In PostgreSQL a name is written by translate(encode(convert_to(name, 'UTF8'), 'base64'),
 * E'+/=\n', '-_') range      the tenant's events from one position to another, for an append to
 * several streams position   every event up to a position that is not blocked
 *
 * A read with a token of the first two forms waits until the projection has passed exactly those
 * events (applied, ignored or skipped), and answers EF_BLOCKED when one of their streams is
 * blocked.
 */
#define EF_TOKEN_MAX 768
#define EF_TOKEN_SPAN_MAX 20000 /* positions of a range */

typedef struct ef_token {
    bool by_stream;
    char tenant[256], stream[256]; /* by_stream; end in a NUL */
    int64_t seq;                   /* by_stream */
    int64_t first;                 /* a range: its first position; otherwise 0 */
    int64_t position;              /* of the last event; 0: not known */
} ef_token;

/*
 * The token of an append. It covers all events: in the form of a stream where they are of one, else
 * of a range. A range that would be wider than EF_TOKEN_SPAN_MAX, because duplicates of old events
 * are among them, becomes the last position.
 */
void ef_token_of(const ef_new_event *events, const ef_place *places, size_t count,
                 char out[EF_TOKEN_MAX]);
/* The token of a position. */
void ef_token_format(int64_t position, char out[EF_TOKEN_MAX]);
/* EF_BAD_INPUT: it is not a token. */
ef_status ef_token_parse(ef_str token, ef_token *out, ef_error *err);

/* The last event of a stream; seq 0 when the stream does not exist. */
typedef struct ef_stream {
    ef_str tenant;
    ef_str name;
    int64_t seq;
    int64_t position;
} ef_stream;

ef_status ef_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                         int64_t *out_position, ef_error *err);

#define EF_CURSOR_MAX 64

/* A page of streams, of types … : items live until the list is reset or released. */
typedef struct ef_stream_list {
    const ef_stream *items;
    size_t count;
    char next[EF_CURSOR_MAX]; /* cursor of the next page; "" at the end */
    struct ef__batch_room *room;
} ef_stream_list;

/* Streams in the order of their first event. `after` is "" or a cursor from the page before. */
ef_status ef_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err);
void ef_stream_list_release(ef_stream_list *list);

typedef struct ef_type_list {
    const ef_type *items;
    size_t count;
    struct ef__batch_room *room;
} ef_type_list;

/* Make or change a type. An alias may not point at an alias, nor at itself; a name has no `*`. */
ef_status ef_type_set(ef_journal *journal, const ef_type *type, ef_error *err);
/* EF_NOT_FOUND when the type was neither set nor appended; `out` holds one item. */
ef_status ef_type_get(ef_journal *journal, ef_str name, ef_type_list *out, ef_error *err);
/* All types, by name. */
ef_status ef_type_ls(ef_journal *journal, ef_type_list *out, ef_error *err);
void ef_type_list_release(ef_type_list *list);

typedef struct ef_verify_result {
    int64_t checked; /* events looked at */
    int64_t head;    /* the last position */
    int64_t damaged; /* first damaged position; 0 when all is well */
} ef_verify_result;

/*
 * Recompute the chain of hashes from `from` (0: from the first event) to the head, with everything
 * that hangs on an event: stream numbering, back-chain, ids, outbox. `progress` (may be NULL) is
 * called now and then; it may return false to stop.
 * EF_DAMAGED names the first position that is not as it was written.
 */
ef_status ef_journal_verify(ef_journal *journal, int64_t from,
                            bool (*progress)(void *context, int64_t done, int64_t total),
                            void *context, ef_verify_result *out, ef_error *err);

typedef struct ef_copy_options {
    int64_t upto; /* the last position to copy; 0: the head of the source when the call begins */
    bool (*progress)(void *context, int64_t done, int64_t total); /* may be NULL; false stops */
    void *context;
} ef_copy_options;

typedef struct ef_copy_result {
    int64_t copied;              /* events, by this call */
    int64_t position;            /* the head of the target now */
    uint8_t hash[EF_HASH_BYTES]; /* of the event there */
    int64_t upto; /* where the copy ends; above `position` when `progress` stopped it */
} ef_copy_result;

/*
 * Copies the events of `from`, with the settings of their types, to `to`: same position, seq, id,
 * times, type, data, meta and hash. The target must be empty or hold a prefix of the source; the
 * copy continues after its head, so a copy that was interrupted is continued by calling again. Each
 * hash is computed anew from the event and compared, so the source is verified on the way.
 *
 * Lanes other than "*" are not copied: no publisher, retry row, lease, worker, run or audit entry.
 *
 * EF_EXISTS       the target is not a prefix of the source, or has publishers: nothing was written
 * EF_CONFLICT     another process appends to the target: nothing more was written
 * EF_DAMAGED      an event of the source does not have the hash that it should have
 * EF_UNSUPPORTED  one of them is a journal on JetStream
 * EF_OK           also when `progress` returned false: `position` tells how far the copy is
 */
ef_status ef_journal_copy(ef_journal *from, ef_journal *to, const ef_copy_options *options,
                          ef_copy_result *out, ef_error *err);

typedef struct ef_backup_options {
    const char *path; /* the file or folder that is made; it must not exist */
    bool (*progress)(void *context, int64_t done, int64_t total); /* bytes; may be NULL */
    void *context;
} ef_backup_options;

/*
 * Copies the journal to options->path, with a head file beside it, while others append to it. The
 * copy is as of one moment and is a journal that can be opened; it has no leases and workers, and
 * knows that it is a copy. `out` is its head.
 *
 * EF_UNSUPPORTED  the store is on a server, which has means of its own
 * EF_EXISTS       there is something at the path
 * EF_FULL         nothing is left at the path
 * EF_TIMEOUT      `progress` returned false; nothing is left at the path
 */
ef_status ef_journal_backup(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                            ef_error *err);

/*
 * *out_us: 0, or when this journal became a copy of another: it was restored from a backup, or its
 * database was copied to another server. Publishers of a copy send nothing, because the original
 * may send the same, until ef_journal_adopt says that the copy continues in its place.
 */
ef_status ef_journal_copied(ef_journal *journal, int64_t *out_us, ef_error *err);
ef_status ef_journal_adopt(ef_journal *journal, ef_str who, ef_str reason, ef_error *err);

/* Facts about the store for status and doctor. Numbers are -1 where the back end has no such thing.
 */
typedef struct ef_store_facts {
    char backend[16];       /* "sqlite" */
    char version[32];       /* of the library behind it */
    char durability[160];   /* the durability line */
    bool damaged;           /* this handle found damage: it refuses appends */
    bool power_loss_unsafe; /* the server is set so that a power cut may take what was answered */
    char journal_id[40];    /* made once, when the store is made */
    int32_t schema;         /* schema version of the store */
    int32_t partitions;
    int64_t store_bytes; /* size of the data file */
    int64_t wal_bytes;   /* size of its log */
    int64_t free_bytes;  /* free on that file system */
    int64_t streams;
    int64_t commits;           /* by this handle */
    int64_t appended;          /* events, by this handle */
    int64_t checkpoints;       /* by this handle */
    int64_t checkpoint_errors; /* by this handle */
    int64_t stale_refused;     /* writes under an old token that were refused, by this handle */
    /* A broker's, by this handle; 0 where there is none: */
    int64_t redelivered; /* messages that came again, and were dropped */
    int64_t unreadable;  /* messages that were no events */
    int64_t holes;       /* positions that were passed: deleted, or left out by the filter */
    int64_t connects;    /* connections that were made */
} ef_store_facts;

ef_status ef_journal_facts(ef_journal *journal, ef_store_facts *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
