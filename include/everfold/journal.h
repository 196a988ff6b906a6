/*
 * journal.h - append-only streams of events.
 *
 * The events of a stream are numbered 1, 2, 3 … without gaps: the seq. Each event also has a
 * position, its number in the whole journal: dense, and in commit order. An event and its outbox
 * rows are written in one transaction; an append that returned EF_OK survives kill -9 and power
 * loss.
 *
 * Any number of threads may use a journal handle at once; appends of several threads share commits.
 * A handle must not be used in a child after fork(): open a new one there. Several processes may
 * open the same journal.
 */
#pragma once

#include <everfold/clock.h>
#include <everfold/event.h>
#include <everfold/log.h>
#include <everfold/status.h>

EF_C_BEGIN

typedef struct ef_journal ef_journal;

/* Zero means the default. */
typedef struct ef_journal_options {
    const char *url; /* "sqlite:PATH", "postgres://…", "nats://HOST:PORT/STREAM" or "memory:" */
    const char *control;   /* of a journal on JetStream: URL of the journal with leases, runs … */
    bool create;           /* create the store when it does not exist */
    bool read_only;        /* never write: no append, no operator action, no repair. Damage that is
                            * found is recorded all the same, where the process may write */
    bool outbox_off;       /* append without outbox rows (mode inline_apply_only) */
    bool types_strict;     /* refuse types that were not registered with ef_type_set */
    int64_t types_max;     /* types that the appends of one tenant may create, in addition to the
                            * registered ones; 0: EF_TYPES_MAX. A journal on PostgreSQL stores the
                            * last value, for appends by SQL */
    bool archive;          /* with read_only: damage that is found is not recorded either */
    bool accept_head;      /* accept a store that disagrees with its head file */
    int32_t partitions;    /* of a new store: 1 to 1024, default 16 */
    int64_t busy_ms;       /* how long a call waits for a busy store; default 10,000 */
    const ef_clock *clock; /* default ef_clock_system() */
    const ef_log *log;     /* default: no log */
} ef_journal_options;

/*
 * Opens a journal and compares it with its head file, which is stored apart from it.
 *
 * EF_NOT_FOUND     there is no store and `create` is not set
 * EF_WRONG_STORE   the file is not an Everfold journal
 * EF_NEWER_SCHEMA  a newer version of Everfold has migrated it
 * EF_DAMAGED       acknowledged events are missing or changed: the error names the positions
 */
ef_status ef_journal_open(const ef_journal_options *options, ef_journal **out_journal,
                          ef_error *err);

/* The caller must wait for calls in flight to finish. NULL is ignored. */
void ef_journal_close(ef_journal *journal);

/*
 * Appends `count` events to one or more streams: all of them, or none.
 *
 * `events` is borrowed for the call. On EF_OK, `out_places[i]` holds the seq and position of
 * `events[i]`. An event whose id exists with the same content is not written again: its place is
 * that of the first append, with `duplicate` set, and its expected_seq is ignored. The content is
 * stream, type, schema, data, meta, and the time if the caller set one.
 *
 * On PostgreSQL an append can be committed before its events have positions; the call then waits for
 * them. A position that cannot be had within busy_ms is 0: the event is durable, and gets one later.
 * ef_token_of works for one stream then, and waits for nothing for several.
 *
 * EF_CONFLICT      a stream is not at the expected seq: read the stream, then decide again
 *                  (err->found has its seq)
 * EF_ID_CONFLICT   an id belongs to an event with other content
 * EF_BAD_INPUT, EF_BAD_JSON, EF_TOO_LARGE, EF_UNKNOWN_TYPE   nothing was written; fix the event
 * EF_BUSY, EF_FULL nothing was written: retry
 * EF_UNSURE        the response was lost: append again with the same ids to learn the result
 * EF_DAMAGED       damage was found, now or earlier, by any process (ef_journal_accept)
 */
ef_status ef_journal_append(ef_journal *journal, const ef_new_event *events, size_t count,
                            ef_place *out_places, ef_error *err);

/* One append of ef_journal_append_each. */
typedef struct ef_append {
    const ef_new_event *events;
    size_t count;
    ef_place *out_places;
    ef_error *err;    /* may be NULL */
    ef_status status; /* its result */
    bool held; /* EF_BUSY: another transaction holds the stream. Leave it set for the retry */
} ef_append;

/*
 * Several appends, in this order. Each is one transaction, independent of the others. They share
 * commits, so that one thread has the throughput of many that append alone. An append whose stream
 * is locked by another open transaction (on PostgreSQL) fails with EF_BUSY at once, because the
 * others would wait with it.
 */
void ef_journal_append_each(ef_journal *journal, ef_append *appends, size_t count);

/* Checks events as append does, without using a store. `out_index` (may be NULL) is the index of
 * the event that failed. */
ef_status ef_event_check(const ef_new_event *events, size_t count, size_t *out_index,
                         ef_error *err);

/*
 * Reads up to `limit` events of a stream from `from_seq` (1 is the first) on. EF_NOT_FOUND: the
 * stream does not exist. A from_seq past the end of the stream returns an empty batch.
 */
ef_status ef_journal_read_stream(ef_journal *journal, ef_str tenant, ef_str stream,
                                 int64_t from_seq, size_t limit, ef_batch *out, ef_error *err);

typedef struct ef_log_query {
    ef_str tenant;
    bool any_tenant;      /* all tenants; `tenant` is ignored */
    int64_t after;        /* positions above this one; 0: from the start */
    ef_str type;          /* "": all; NAME, or PREFIX* */
    size_t limit;         /* 0 means 100; at most EF_READ_LIMIT_MAX */
    bool stored_types;    /* return the type of the append, also where it is an alias */
    int64_t *out_reached; /* may be NULL: the position up to which this call has read */
} ef_log_query;

#define EF_TYPES_MAX 10000 /* every process caches all types; clients may derive them from data */
#define EF_READ_LIMIT_MAX 10000 /* events: a batch is in memory at once */

/* Reads events in position order. */
ef_status ef_journal_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                              ef_error *err);

/* Reads one event by its id. EF_NOT_FOUND: the tenant has no such event. */
ef_status ef_journal_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                             ef_error *err);

/*
 * Waits until the head of the journal is above `after`, whichever process appends: EF_OK, or
 * EF_TIMEOUT after `timeout_ms`. An idle wait does not poll the store.
 */
ef_status ef_journal_wait(ef_journal *journal, int64_t after, int64_t timeout_ms, ef_error *err);

typedef struct ef_head {
    int64_t position; /* of the last event; 0 when there is none */
    int64_t recorded_us;
    uint8_t hash[EF_HASH_BYTES];
} ef_head;

ef_status ef_journal_head(ef_journal *journal, ef_head *out, ef_error *err);

/*
 * Read-your-writes tokens: an append returns one, and a read with it shows what the append wrote.
 * Opaque to applications. Letters, digits, "-", "_" and "." only.
 *
 * A token names events in one of three forms:
 *
 * - stream: the events of one stream up to a seq. s.TENANT.STREAM.SEQ.POSITION.s, where TENANT and
 *   STREAM are base64url without padding, SEQ and POSITION decimal. POSITION is that of the event
 *   SEQ, or 0 where it has none yet (an append inside a transaction). In PostgreSQL a name is
 *   written by translate(encode(convert_to(name, 'UTF8'), 'base64'), E'+/=\n', '-_')
 * - range: the events of the tenant from one position to another, for an append to several streams
 * - position: every event up to a position that is not blocked
 *
 * A read with a token of the first two forms waits until the projection has passed exactly those
 * events (applied, ignored or skipped), and returns EF_BLOCKED when one of their streams is
 * blocked.
 */
#define EF_TOKEN_MAX 768        /* bytes: two names of 255 bytes in base64url, and numbers */
#define EF_TOKEN_SPAN_MAX 20000 /* positions of a range: a read checks each of them */

typedef struct ef_token {
    bool by_stream;
    char tenant[256], stream[256]; /* by_stream; end with NUL */
    int64_t seq;                   /* by_stream */
    int64_t first;                 /* a range: its first position; otherwise 0 */
    int64_t position;              /* of the last event; 0: unknown */
} ef_token;

/*
 * The token of an append. It covers all events: as a stream where they are of one stream, otherwise
 * as a range. A range wider than EF_TOKEN_SPAN_MAX (duplicates of old events are among the events)
 * becomes the last position.
 */
void ef_token_of(const ef_new_event *events, const ef_place *places, size_t count,
                 char out[EF_TOKEN_MAX]);
/* The token of a position. */
void ef_token_format(int64_t position, char out[EF_TOKEN_MAX]);
/* EF_BAD_INPUT: not a token. */
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

#define EF_CURSOR_MAX 64 /* bytes: a kind, two numbers and a checksum */

/* A page of streams. The items live until the list is reset or released. */
typedef struct ef_stream_list {
    const ef_stream *items;
    size_t count;
    char next[EF_CURSOR_MAX]; /* cursor of the next page; "" at the end */
    struct ef__batch_memory *room;
} ef_stream_list;

/* Streams in the order of their first event. `after` is "" or the cursor of the previous page. */
ef_status ef_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                       size_t limit, ef_stream_list *out, ef_error *err);

typedef struct ef_type_list {
    const ef_type *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_type_list;

/* Creates or changes a type. An alias does not refer to an alias or itself; a name has no `*`. */
ef_status ef_type_set(ef_journal *journal, const ef_type *type, ef_error *err);
/* The type of this name, or all types, sorted by name (`name` NULL). EF_NOT_FOUND: it was neither
 * set nor appended. */
ef_status ef_type_ls(ef_journal *journal, const ef_str *name, ef_type_list *out, ef_error *err);

typedef struct ef_verify_result {
    int64_t checked; /* events */
    int64_t head;    /* the last position */
    int64_t damaged; /* first damaged position; 0: none */
} ef_verify_result;

/*
 * Recomputes the hash chain from `from` (0: the first event) to the head, and checks what refers to
 * an event: stream numbering, back-chain, ids, outbox. `progress` (may be NULL) is called
 * repeatedly; it may return false to stop.
 * EF_DAMAGED: err names the first position that does not match its hash.
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
    int64_t upto; /* the last position to copy; above `position` when `progress` stopped the copy */
} ef_copy_result;

/*
 * Copies the events of `from`, with the settings of their types, to `to`: same position, seq, id,
 * times, type, data, meta and hash. The target must be empty or hold a prefix of the source; the
 * copy continues after its head, so call again to continue an interrupted copy. Each hash is
 * recomputed and compared, so the source is verified on the way.
 *
 * Lanes other than "*" are not copied: no publisher, retry row, lease, worker, run or audit entry.
 *
 * EF_EXISTS       the target is not a prefix of the source, or has publishers: nothing was written
 * EF_CONFLICT     another process appends to the target: nothing more was written
 * EF_DAMAGED      an event of the source does not have the hash that it should have
 * EF_UNSUPPORTED  one of them is a journal on JetStream
 * EF_OK           also when `progress` returned false: `position` is the end of the copied part
 */
ef_status ef_journal_copy(ef_journal *from, ef_journal *to, const ef_copy_options *options,
                          ef_copy_result *out, ef_error *err);

typedef struct ef_backup_options {
    const char *path; /* the file or folder to create; it must not exist */
    bool (*progress)(void *context, int64_t done, int64_t total); /* bytes; may be NULL */
    void *context;
} ef_backup_options;

/*
 * Copies the journal to options->path, with a head file beside it, while other threads and
 * processes append. The backup is a consistent snapshot and a journal that can be opened; it has no
 * leases and workers, and is marked as a copy. `out` is its head.
 *
 * EF_UNSUPPORTED  the store is on a server: use the tools of the server
 * EF_EXISTS       the path exists
 * EF_FULL         the path was removed again
 * EF_TIMEOUT      `progress` returned false; the path was removed again
 */
ef_status ef_journal_backup(ef_journal *journal, const ef_backup_options *options, ef_head *out,
                            ef_error *err);

#define EF_DAMAGE_TEXT 200 /* bytes of a description of damage, which other messages quote */

/*
 * A journal that any call of any process finds damaged refuses events: the damage is recorded in
 * the store, and ef_journal_append returns EF_DAMAGED everywhere until this call declares the
 * journal repaired. Verify it first, from its first event on (ef_journal_verify). `actor` and
 * `reason` go into an audit entry. A backup does not have the record.
 *
 * EF_NOT_FOUND    no damage is recorded
 * EF_UNSUPPORTED  the store has no such record: open the journal again
 */
ef_status ef_journal_accept(ef_journal *journal, ef_str actor, ef_str reason, ef_error *err);

/* Publishers of a copy (ef_store_facts.copied_us) send nothing, because the original may send the
 * same events, until this call declares the copy its successor. EF_EXISTS: it is not a copy. */
ef_status ef_journal_adopt(ef_journal *journal, ef_str actor, ef_str reason, ef_error *err);

/* Facts about the store for status and diagnosis. A number is -1 where the back end has none. */
typedef struct ef_store_facts {
    char backend[16];            /* "sqlite" */
    char version[32];            /* of the library of the back end */
    char durability[160];        /* one line for people */
    bool damaged;                /* damage was found, by any process: appends are refused */
    int64_t damaged_us;          /* when it was found; 0: never */
    char damage[EF_DAMAGE_TEXT]; /* what was found */
    int64_t copied_us; /* when it became a copy of another: it was restored from a backup, or its
                        * database was copied to another server; 0: it is not a copy */
    bool power_loss_unsafe; /* the server's settings may lose acknowledged events at power loss */
    char journal_id[40];    /* created with the store */
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
    int64_t stale_refused;     /* writes refused for an old token, by this handle */
    /* JetStream, by this handle; 0 for other stores: */
    int64_t redelivered; /* messages delivered again, and dropped */
    int64_t unreadable;  /* messages that are not events */
    int64_t holes;       /* positions skipped: deleted, or excluded by the filter */
    int64_t connects;    /* connections opened */
} ef_store_facts;

ef_status ef_journal_facts(ef_journal *journal, ef_store_facts *out, ef_error *err);

EF_C_END
