/*
 * views.h - the interface of a view store.
 *
 * A view store holds generations (each is one build of a projection) with their views, watermarks,
 * cursors, fences, digests, index entries and failures. Everything that an apply changes is changed
 * by one call, commit, in one transaction. The caller has checked names and limits.
 *
 * Views can be rebuilt from the journal, so a store need not sync every commit: after a power cut
 * it may be slightly older, but it is consistent and catches up by itself (see no_sync).
 *
 * Threads may share a store. All strings are ordered by their bytes.
 */
#pragma once

#include "../base/arena.h"
#include "../base/buf.h"
#include "../base/same.h"
#include "../core/watermark.h"

#include <everfold/everfold.h>

typedef enum ef__generation_state {
    EF__GENERATION_CATCHING_UP, /* reads the journal by cursor, until the queue takes over */
    EF__GENERATION_LIVE, /* fed by the queue (order by stream) or the cursor (order by log) */
    EF__GENERATION_PAUSED,
    EF__GENERATION_FAILED,
    EF__GENERATION_RETIRED
} ef__generation_state;

#define EF__DIGEST_BYTES 16

/* One build of a projection. The store assigns `id`; users see (name, version, number). */
typedef struct ef__generation {
    int64_t id;
    ef_str name;
    int32_t version;
    int32_t number; /* 1, 2, 3 … of this projection */
    bool by_log;    /* order by log */
    ef_str program; /* its text; "" for one written in C */
    uint64_t program_hash;
    ef_str index_paths; /* comma list, as in the program; an index is numbered by its item */
    int32_t schema;     /* the oldest schema of its views; below the program's during a migration */
    ef__generation_state state;
    bool active;          /* queries for `name` read this generation */
    ef_on_error on_error; /* of the projection: all its generations have the same */
    int32_t replaced; /* number of the generation that was active before this one became active: the
                       * target of a rollback; 0: none; EF__REPLACED_UNKNOWN: see below */
    int64_t superseded_us; /* when another one became active; 0: it is active, or never was */
    int64_t era; /* grows with every change of state, program or `active`; applies compare it */
    int64_t position; /* cursor: the cursor driver has read everything up to here */
    int64_t seam; /* order by stream: the queue driver applies the positions above; 0: not yet */
    int64_t created_us, updated_us;
    /* sums of what the commits reported */
    int64_t views;
    int64_t applied, ignored, skipped; /* events, of all tenants */
    uint8_t digest[EF__DIGEST_BYTES];  /* sum over (tenant, view id, schema, data) of all views */
    /* tenants with a cursor of their own: their number, the lowest cursor (0: no such tenant), and
     * the sum of their waiting events */
    int64_t own_cursors, own_lowest, own_waiting;
} ef__generation;

/* Stores that were written before generations had `replaced` and `superseded_us`: the engine fills
 * both in when it opens the store (engine/upgrade.c). */
#define EF__REPLACED_UNKNOWN (-1)

typedef struct ef__generation_list {
    const ef__generation *items;
    size_t count;
    int64_t live_set; /* its number, of the same snapshot; at least 1 */
    struct ef__batch_memory *room;
} ef__generation_list;

/* A stored view. */
typedef struct ef__view {
    ef_str tenant;
    ef_str id;
    ef_str data; /* canonical JSON */
    int64_t last_position;
    int64_t last_seq; /* of the event that changed it last, in its stream */
    int32_t schema;
    uint64_t digest[2]; /* by ef__view_digest; 0 from an index; ignored in a change */
} ef__view;

typedef struct ef__watermark {
    int64_t applied_seq;         /* highest seq of the stream that was applied or ignored */
    int64_t expected_next_seq;   /* applied + 1; at or below applied while the stream is blocked */
    uint8_t hash[EF_HASH_BYTES]; /* of the event applied_seq */
} ef__watermark;

/* A different event arrived under a seq that was applied, and is expected again: the stream is in
 * quarantine for this generation until an operator resolves it. */
static inline bool ef__watermark_is_blocked(const ef__watermark *w)
{
    return ef__watermark_seqs_are_blocked(w->applied_seq, w->expected_next_seq);
}

/* Does the generation lack the event `seq` of the stream? So it does in a blocked stream. */
static inline bool ef__watermark_lacks(const ef__watermark *w, int64_t seq)
{
    return w->applied_seq < seq || ef__watermark_is_blocked(w);
}

/*
 * The cursor of one tenant. Tenants share the `position` of the generation, except those that
 * failed or lag behind it: each of them has a row like this, a reader by the generation's cursor
 * skips their events, and they advance separately. The row is deleted when the tenant has reached
 * the generation's position.
 */
typedef struct ef__tenant_cursor {
    int64_t position; /* all events of the tenant up to here have been read */
    int64_t waiting;  /* its events from there to the generation's cursor */
    int64_t attempts; /* consecutive failures of the next event; 0: it is catching up */
    int64_t due_us;   /* no attempt before this time */
} ef__tenant_cursor;

typedef struct ef__tenant_cursor_item {
    ef_str tenant;
    ef__tenant_cursor cursor;
    int64_t updated_us; /* set by the store: the time of the last write */
} ef__tenant_cursor_item;

typedef struct ef__tenant_cursor_list {
    const ef__tenant_cursor_item *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__tenant_cursor_list;

/* --- changes of an apply ---------------------------------------------------------------------- */

#define EF__KEY_BYTES 512 /* of an index key: values with the same prefix sort alike */

typedef struct ef__index_key {
    int32_t index; /* index of the item in index_paths */
    ef_str key;    /* ef__sort_key of fold/match.h, truncated to EF__KEY_BYTES */
} ef__index_key;

/* Several streams may change a view, so a watermark does not detect a concurrent change of the
 * view; its digest does. */
typedef struct ef__view_change {
    ef__view view;      /* with `deleted`, `data` is "" */
    uint64_t before[2]; /* digest when the view was read; both 0: it did not exist. Compared */
    bool deleted;
    const ef__index_key *keys; /* of the new data, one per declared index: a missing value counts as
                                  null, because queries that sort by an index need all views */
    size_t key_count;
} ef__view_change;

typedef struct ef__watermark_change {
    ef_str tenant, stream;
    ef__watermark before; /* when it was read; all zero: it did not exist */
    ef__watermark after;
} ef__watermark_change;

typedef struct ef__failure {
    int64_t id;
    int64_t generation;
    ef_str tenant, stream;
    int64_t seq, position;
    ef_str event_id;
    ef_str code; /* stable: "fold_error", "hash_mismatch" … */
    ef_str message;
    int32_t line;     /* of the program; 0: no line of it caused the failure */
    int32_t attempts; /* set by the store: 1, plus 1 for each repetition */
    bool open;
    int64_t recorded_us, resolved_us;
} ef__failure;

typedef struct ef__failure_list {
    const ef__failure *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__failure_list;

/* If `after` is at the generation's cursor when the commit is done, the tenant has caught up and
 * uses that cursor again: its row is deleted, or none is written. */
typedef struct ef__tenant_cursor_change {
    ef_str tenant;
    ef__tenant_cursor before; /* when it was read; all zero: it did not exist. Compared */
    ef__tenant_cursor after;
} ef__tenant_cursor_change;

/* The fencing token of the writer. A store keeps the highest token that wrote under a scope and
 * refuses lower ones. */
typedef struct ef__fence {
    ef_str scope; /* of the lease: "partition/3", "scope/…"; "": no fence (inline modes, runs) */
    int64_t token;
} ef__fence;

/* The changes of a commit to one generation. A commit has at most one of them per generation, and
 * in it at most one change per view, stream and tenant. */
typedef struct ef__generation_change {
    int64_t generation;
    int64_t era;           /* when the generation was read. Compared */
    int64_t cursor_before; /* compared when cursor_after is not 0 */
    int64_t cursor_after;  /* 0: the cursor stays */
    bool go_live;          /* becomes live: the queue driver takes over above cursor_after */
    int64_t applied, ignored, skipped; /* to add */
    const ef__view_change *views;
    size_t view_count;
    const ef__watermark_change *watermarks;
    size_t watermark_count;
    /* Tenants with a cursor of their own. A commit that moves the generation's cursor includes the
     * tenants whose events it skipped, so that it conflicts with a tenant that catches up. */
    const ef__tenant_cursor_change *tenants;
    size_t tenant_count;
    const ef__failure *failures; /* to open; one is open per generation and event, and counts up */
    size_t failure_count;
    /* A commit resolves the open failures of a stream between its watermarks (from
     * before.expected_next_seq up to after.expected_next_seq - 1). The failure of an event with
     * another hash is at or below applied_seq, and the watermark expects it: it stays open until an
     * operator skips the event, the right event is back, or another generation replaces this one.
     */
} ef__generation_change;

typedef struct ef__views_commit {
    /*
     * Do not wait for the disk: a power cut may lose this commit and every later one. The lost
     * events are applied again, because the cursor is lost with the views. Otherwise this commit
     * and every earlier one is on the disk when commit returns, because the queue then deletes or
     * acknowledges the rows of its events.
     */
    bool no_sync;
    /*
     * Going live. `live_set` is a counter of the store that grows when a generation goes live,
     * stops being live or becomes active. An apply of the queue's events passes the value that it
     * read (0: not compared), so that no batch is applied without a generation that went live
     * meanwhile. A generation with `go_live` goes live only if `head`, called inside the
     * transaction, returns its cursor_after: then there is no event between its cursor and the
     * first event of the queue. Otherwise the other changes are committed and *out_live is false.
     */
    int64_t live_set;
    ef_status (*head)(void *context, int64_t *out_position, ef_error *err);
    void *head_context;
    bool *out_live;
    /*
     * Writes of another store in the same transaction, on the connection of this store. Called
     * after everything was compared and written, before the commit, and again if the transaction is
     * retried. Only for stores with the same `database`. If it does not return EF_OK, commit
     * returns its status and changes nothing.
     */
    ef_status (*also)(void *context, void *connection, ef_error *err);
    void *also_context;
    const ef__fence *fences;
    size_t fence_count;
    const ef__generation_change *generations;
    size_t generation_count;
} ef__views_commit;

/* --- the record of changes -------------------------------------------------------------------- */

/*
 * While a tenant of a generation is followed, each commit records the views that it changed, in its
 * own transaction. Records are numbered: the numbers of a tenant grow in commit order, and a reader
 * that has seen a number never finds a lower one later. Numbers have gaps: each is at least the
 * time of the commit in microseconds. So commits after a power cut that lost the last records do
 * not reuse numbers that a reader may have seen.
 */
typedef enum ef__change_kind {
    EF__CHANGE_CREATED = 1,
    EF__CHANGE_UPDATED,
    EF__CHANGE_DELETED
} ef__change_kind;

typedef struct ef__change_record {
    int64_t number;
    int64_t position; /* of the event that changed the view */
    ef__change_kind kind;
    ef_str view_id;
} ef__change_record;

/* Changes of a tenant are recorded while it has this row. */
typedef struct ef__follow_row {
    int64_t until_us; /* the row and its records may be removed after this time */
    int64_t low;      /* the records above this number are kept */
    int64_t last;     /* the highest number so far */
    int64_t kept;     /* records */
} ef__follow_row;

typedef struct ef__change_list {
    bool is_followed;      /* otherwise there are neither records nor a row */
    ef__follow_row follow; /* of the same snapshot */
    const ef__change_record *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__change_list;

/* --- reading ---------------------------------------------------------------------------------- */

/* A range of an index, or of view ids when `index` is -1. Bounds are inclusive unless `open`. An
 * index is ordered by key, then view id; `descending` reverses both. */
typedef struct ef__view_scan {
    int64_t generation;
    ef_str tenant;
    bool any_tenant; /* only with index -1, for exports: ordered by tenant, view id; no bounds */
    int32_t index;
    bool has_low, has_high, low_open, high_open;
    ef_str low, high;
    bool descending;
    /* The store may omit views that do not match the filter, except those on which evaluating it
     * fails; the caller evaluates it on each view that it gets. NULL: all views. */
    const struct ef__filter *filter;
    bool has_after;      /* continue after this entry (within the bounds), in scan direction */
    ef_str after_key;    /* of an index */
    ef_str after_tenant; /* with any_tenant */
    ef_str after_id;
} ef__view_scan;

/* What a scan calls for each row; false: it ends. */
typedef bool ef__each_view(void *context, ef_str key, const ef__view *view);

typedef bool ef__each_watermark(void *context, ef_str tenant, ef_str stream,
                                const ef__watermark *watermark);

typedef struct ef__view_key {
    ef_str tenant;
    ef_str name; /* a view's id, or a stream */
} ef__view_key;

typedef struct ef_views ef_views;
typedef struct ef__views_ops ef__views_ops;

struct ef_views {
    const ef__views_ops *ops;
    const ef_clock *clock;
    const ef_log *log;
    bool read_only;
};

static inline int64_t ef__views_now_us(const ef_views *views)
{
    return views->clock->wall_us(views->clock->context);
}

enum { EF__VIEWS_DATABASE_MAX = 64 };

struct ef__views_ops {
    const char *name;
    bool is_remote; /* a read waits for another process */
    void (*close)(ef_views *views);

    /* Adds a generation: everything but id, number, era, replaced, superseded_us and the counters
     * is copied from `generation`, and on_error from other generations of the projection if it has
     * any; a created_us of 0 means now. *out_id is its id, which is never reused. Its number is one
     * above the projection's highest; EF_CONFLICT: `number` is set and differs. */
    ef_status (*generation_add)(ef_views *views, const ef__generation *generation, int64_t *out_id,
                                ef_error *err);
    ef_status (*generation_ls)(ef_views *views, ef_str only_name, ef__generation_list *out,
                               ef_error *err); /* by name, then number */
    /*
     * A change of a generation passes the era that the caller read: EF_CONFLICT if the generation
     * changed since, so that a change is never based on an outdated state. 0: not compared.
     * EF_NOT_FOUND: there is no such generation.
     */
    /* Sets the state; the era grows. Unless `with` is NULL, also replaces the program by one with
     * the same name, order and indexes: version, program, program_hash, schema, replaced and
     * superseded_us are copied from it, and the live set grows. */
    ef_status (*generation_change)(ef_views *views, int64_t id, int64_t era,
                                   ef__generation_state state, const ef__generation *with,
                                   ef_error *err);
    /* Makes this generation of its projection the active one, with `replaced` as the target of a
     * rollback, and sets superseded_us of the one that was active: in one transaction; the eras of
     * both grow. Nothing changes if it is active already. */
    ef_status (*generation_activate)(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                     ef_error *err);
    /*
     * Remove a generation with all its rows, up to `limit` rows (above 0) per transaction. Call
     * again while *out_more is true; the last call removes the generation itself. Retire it first,
     * because it is incomplete between calls. EF_CONFLICT also: it is active.
     */
    ef_status (*generation_remove)(ef_views *views, int64_t id, int64_t era, int64_t limit,
                                   bool *out_more, ef_error *err);

    /* Sets on_error of all generations of the projection. */
    ef_status (*on_error_set)(ef_views *views, ef_str name, ef_on_error on_error, ef_error *err);
    /* Records that an operator, or the grace period, retired a version of a projection. The record
     * stays when the generations of the version are removed. */
    ef_status (*version_retire)(ef_views *views, ef_str name, int32_t version, ef_error *err);
    ef_status (*version_is_retired)(ef_views *views, ef_str name, int32_t version, bool *out,
                                    ef_error *err);

    /*
     * Commit all changes or none.
     * EF_LEASE_LOST  a higher token has written under a fence: nothing changed
     * EF_CONFLICT    the live set, an era, a cursor (also of a tenant), a watermark or a view
     *                changed since it was read: read again and start over
     */
    ef_status (*commit)(ef_views *views, const ef__views_commit *commit, ef_error *err);

    /*
     * Record the changes of a tenant from now on, at least until `until_us`; extends an existing
     * row. On disk when it returns. Every commit that ends afterwards records its changes. Numbers
     * continue above those of an earlier row of the tenant. An expired row of the generation is
     * removed, here and by commits.
     * EF_NOT_FOUND  there is no such generation
     * EF_BUSY       EF_LIMIT_FOLLOWED_TENANTS of the generation are followed
     */
    ef_status (*follow)(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                        ef__follow_row *out, ef_error *err);
    /* The records of a tenant with numbers above `after`, ascending, up to `limit`. None is missing
     * only if `after` is between out->follow.low and out->follow.last. */
    ef_status (*change_ls)(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                           size_t limit, ef__change_list *out, ef_error *err);

    /* A unique id of its database; "": unknown. NULL: no other store takes part in its commits. */
    ef_status (*database)(ef_views *views, char out[EF__VIEWS_DATABASE_MAX], ef_error *err);

    /* Copies the store to options->path (a file or a folder, like the store), as a snapshot, while
     * others write. NULL: the database has its own backup tools. */
    ef_status (*backup)(ef_views *views, const ef_backup_options *options, ef_error *err);

    /* `out` is allocated in `arena`; *out_found: the view exists. */
    ef_status (*view_get)(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                          ef__arena *arena, ef__view *out, bool *out_found, ef_error *err);
    /* Calls `each` in order until it returns false; the view lives for the call. One snapshot.
     * `key` is "" for a scan of ids. `each` may read from the store, but not write to it. */
    ef_status (*view_scan)(ef_views *views, const ef__view_scan *scan, ef__each_view *each,
                           void *context, ef_error *err);
    /* Appends the part of the filter that a scan evaluates in the store, as an expression; nothing
     * if there is none. NULL: the store never evaluates filters. */
    void (*filter_explain)(const struct ef__filter *filter, ef__buf *out);
    ef_status (*watermark_get)(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                               ef__watermark *out, bool *out_found, ef_error *err);
    /*
     * Batched reads: out[i] belongs to keys[i] and is all zero if there is none (a view without
     * data). Also for snapshots. Sorted keys are cheapest, because neighbours share pages. NULL:
     * single reads cost no more.
     */
    ef_status (*view_get_many)(ef_views *views, int64_t generation, const ef__view_key *keys,
                               size_t count, ef__arena *arena, ef__view *out, ef_error *err);
    ef_status (*watermark_get_many)(ef_views *views, int64_t generation, const ef__view_key *keys,
                                    size_t count, ef__watermark *out, ef_error *err);
    ef_status (*watermark_scan)(ef_views *views, int64_t generation, ef__each_watermark *each,
                                void *context, ef_error *err);
    ef_status (*tenant_cursor_get)(ef_views *views, int64_t generation, ef_str tenant,
                                   ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
    /* The cursors due at `due_us`, by due time, then tenant; up to `limit`. (`tenant` of the result
     * of `get` points to the argument.) */
    ef_status (*tenant_cursor_ls)(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                                  ef__tenant_cursor_list *out, ef_error *err);
    /* Newest first. `tenant`: only its failures; NULL: of all tenants. */
    ef_status (*failure_ls)(ef_views *views, int64_t generation, const ef_str *tenant,
                            bool open_only, size_t limit, ef__failure_list *out, ef_error *err);
    /* The highest token that wrote under the scope; 0: none. */
    ef_status (*fence_get)(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err);

    /*
     * A snapshot for one thread, taken at its first read: it supports view_get and watermark_get,
     * and is closed by ef__views_close. Many reads of it cost less than single reads. Its thread
     * must not write to the store while it is open. NULL: not supported.
     */
    ef_status (*snapshot_open)(ef_views *views, ef_views **out, ef_error *err);

    /*
     * A reader of single views for one thread: it supports view_get, with the results of this store
     * except that last_seq and digest may be unset; it is closed by ef__views_close. Consecutive
     * reads cost less, because it keeps its transaction open until `release_snapshot`. NULL: single
     * reads cost no more.
     */
    ef_status (*reader_open)(ef_views *views, ef_views **out, ef_error *err);
    /* Ends a reader's transaction, so that it blocks no writer. Call it before the thread waits. */
    void (*release_snapshot)(ef_views *reader);
};

/* Declares a function of a back end with the type of its member. */
#define EF__VIEWS_OP(member) __typeof__(*((ef__views_ops *)0)->member)

/*
 * The members that every store has, for X(prefix, member): EF__VIEWS_DECLARE declares the functions
 * of a back end, PREFIX_MEMBER, and EF__VIEWS_SET fills its table with them. Others may be NULL.
 */
/* clang-format off */
#define EF__VIEWS_EVERY(X, prefix)                                                                 \
    X(prefix, close) X(prefix, generation_add) X(prefix, generation_ls)                            \
    X(prefix, generation_change) X(prefix, generation_activate) X(prefix, generation_remove)       \
    X(prefix, on_error_set) X(prefix, version_retire) X(prefix, version_is_retired)                \
    X(prefix, commit) X(prefix, follow) X(prefix, change_ls) X(prefix, view_get)                   \
    X(prefix, view_scan) X(prefix, watermark_get) X(prefix, watermark_scan)                        \
    X(prefix, tenant_cursor_get) X(prefix, tenant_cursor_ls) X(prefix, failure_ls)                 \
    X(prefix, fence_get)
/* clang-format on */
#define EF__VIEWS_DECLARE(prefix, member) EF__VIEWS_OP(member) prefix##_##member;
#define EF__VIEWS_SET(prefix, member) .member = prefix##_##member,

typedef struct ef__views_options {
    const char *url; /* "sqlite:PATH", "lmdb:FOLDER", "postgres://…" or "memory:" */
    bool create;
    bool read_only;
    int64_t busy_ms;
    const ef_clock *clock;
    const ef_log *log;
} ef__views_options;

/* What back ends copy and pack. */
extern const ef__texts ef__generation_texts, ef__view_texts, ef__failure_texts;

/* Open by URL. Statuses as for ef_journal_open. */
ef_status ef__views_open(const ef__views_options *options, ef_views **out, ef_error *err);
void ef__views_close(ef_views *views); /* accepts NULL */

ef_status ef__views_memory_open(const ef__views_options *options, ef_views **out, ef_error *err);
ef_status ef__views_sqlite_open(const ef__views_options *options, const char *path, ef_views **out,
                                ef_error *err);

/* Creates the folder if it does not exist, but not its parent. */
ef_status ef__views_lmdb_open(const ef__views_options *options, const char *folder, ef_views **out,
                              ef_error *err);

ef_status ef__views_postgres_open(const ef__views_options *options, ef_views **out, ef_error *err);
/* The SQL that creates and migrates its schema, for migration by hand. */
ef_status ef__views_postgres_schema(const char *url, ef__buf *out, ef_error *err);
/* The same for the store that the URL names; empty for stores without SQL on a server. */
ef_status ef__views_schema(const char *url, ef__buf *out, ef_error *err);

/* The contribution of one view to its generation's digest, as two 64-bit sums that are never both 0
 * (shared by back ends). */
void ef__view_digest(const ef__view *view, uint64_t out[2]);
/* Sums as the bytes of a digest: both big-endian, the usual order of hexadecimal digits. */
void ef__digest_bytes(const uint64_t sums[2], uint8_t out[EF__DIGEST_BYTES]);
void ef__digest_sums(const uint8_t bytes[EF__DIGEST_BYTES], uint64_t out[2]);

static inline void ef__digest_add(uint64_t sums[2], const uint64_t more[2])
{
    sums[0] += more[0];
    sums[1] += more[1];
}

/* The digest of a view that does not exist. */
static inline bool ef__digest_is_none(const uint64_t sums[2])
{
    return sums[0] == 0 && sums[1] == 0;
}

static inline void ef__digest_subtract(uint64_t sums[2], const uint64_t less[2])
{
    sums[0] -= less[0];
    sums[1] -= less[1];
}

/* EF_NOT_FOUND: there is no such generation; EF_CONFLICT: it changed since it was read, or it is
 * active (shared by back ends). */
ef_status ef__generation_missing(int64_t id, ef_error *err);
ef_status ef__generation_is_active(int64_t id, ef_error *err);
ef_status ef__generation_moved(int64_t id, int64_t era, int64_t found, ef_error *err);
/* EF_CONFLICT: its number would not be `wanted`. */
ef_status ef__generation_number_exists(ef_str name, int32_t wanted, ef_error *err);

/* EF_CONFLICT: the tenant's cursor changed since it was read (shared by back ends). */
ef_status ef__tenant_cursor_moved(ef_str tenant, ef_error *err);

static inline bool ef__tenant_cursor_equal(const ef__tenant_cursor *a, const ef__tenant_cursor *b)
{
    return a->position == b->position && a->waiting == b->waiting && a->attempts == b->attempts &&
           a->due_us == b->due_us;
}

/* The cursor of a tenant without a row. */
static inline bool ef__tenant_cursor_is_none(const ef__tenant_cursor *cursor)
{
    return ef__tenant_cursor_equal(cursor, &(ef__tenant_cursor){0});
}
