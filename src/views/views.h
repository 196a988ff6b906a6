/*
 * views.h - the seam: what a view store does.
 *
 * It keeps generations (one build of a projection each), their views, watermarks, cursors, fences,
 * digests, index entries and failures. Everything that an apply changes is changed by one call,
 * commit, in one transaction. Names have been checked and limits kept by whoever calls.
 *
 * A view store can be made anew from the journal, so it need not be synced as often: after a power
 * cut it may be a little older, but always whole, and catches up by itself (see may_be_lost).
 *
 * Threads may share a store. Strings are ordered by their bytes, everywhere.
 */
#ifndef EF_VIEWS_VIEWS_H
#define EF_VIEWS_VIEWS_H

#include "../base/arena.h"
#include "../base/buf.h"
#include "../base/memory.h"
#include "../core/watermark.h"

#include <everfold/everfold.h>

typedef enum ef__generation_state {
    EF__GENERATION_CATCHING_UP, /* reads the journal by cursor, up to the seam */
    EF__GENERATION_LIVE, /* fed by the queue (order by stream) or the cursor (order by log) */
    EF__GENERATION_PAUSED,
    EF__GENERATION_FAILED,
    EF__GENERATION_RETIRED
} ef__generation_state;

#define EF__DIGEST_BYTES 16

/* One build of a projection. `id` is the store's; (name, version, number) names it for people. */
typedef struct ef__generation {
    int64_t id;
    ef_str name;
    int32_t version;
    int32_t number; /* 1, 2, 3 … of this projection */
    bool by_log;    /* order by log */
    ef_str program; /* its text; "" for one written in C */
    uint64_t program_hash;
    ef_str index_paths; /* comma list, as the program has it; the place in it numbers the index */
    int32_t schema;     /* no view of it is older; below the program's while they are migrated */
    ef__generation_state state;
    bool active;          /* queries for `name` go to this one */
    ef_on_error on_error; /* of the projection: all its generations have the same */
    int32_t replaced; /* number of the generation that was active before this one became active: the
                       * target of a rollback; 0: none; EF__REPLACED_UNKNOWN: see below */
    int64_t superseded_us; /* when another one became active; 0: it is active, or never was */
    int64_t era;      /* grows at every change of state, route or program: an apply compares it */
    int64_t position; /* cursor: everything up to here has been read by the cursor driver */
    int64_t seam;     /* order by stream: the queue driver feeds what lies above; 0 before that */
    int64_t created_us, updated_us;
    /* derived by counting what commits said */
    int64_t views;
    int64_t applied, ignored, skipped; /* events, of all tenants */
    uint8_t digest[EF__DIGEST_BYTES];  /* sum over (tenant, view id, schema, data) of all views */
    /* of the tenants that go by a cursor of their own: how many, the lowest cursor (0 when there
     * are none), and what waits for them in all */
    int64_t own_cursors, own_lowest, own_waiting;
} ef__generation;

/* Stores that were written before generations had `replaced` and `superseded_us`: the engine fills
 * both in when it opens the store (engine/upgrade.c). */
#define EF__REPLACED_UNKNOWN (-1)

typedef struct ef__generation_list {
    const ef__generation *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__generation_list;

/* A view as it is kept. */
typedef struct ef__view {
    ef_str tenant;
    ef_str id;
    ef_str data; /* canonical JSON */
    int64_t last_position;
    int64_t last_seq; /* of the event that changed it last, in its stream */
    int32_t schema;
    uint64_t digest[2]; /* by ef__view_digest, as it was read; 0 from an index; not looked at in a
                         * change */
} ef__view;

typedef struct ef__watermark {
    int64_t applied_seq;         /* highest seq of the stream that was applied or ignored */
    int64_t expected_next_seq;   /* applied + 1; at or below applied while the stream is held */
    uint8_t hash[EF_HASH_BYTES]; /* of the event applied_seq */
} ef__watermark;

/* Another event has come under a seq that was applied, and is expected from there on: the stream is
 * in quarantine for this generation until an operator acts. */
static inline bool ef__watermark_is_blocked(const ef__watermark *w)
{
    return ef__watermark_seqs_are_blocked(w->applied_seq, w->expected_next_seq);
}

/*
 * The cursor of one tenant. `position` of the generation is everybody's, but for a tenant that
 * could not keep up with it: that one has a row like this, its events are left out by whoever moves
 * the generation's, and it goes on by itself from where it stands. The row goes when it has come
 * up.
 */
typedef struct ef__tenant_cursor {
    int64_t position; /* all events of the tenant up to here have been read */
    int64_t waiting;  /* its events from there to the generation's cursor */
    int64_t attempts; /* failures in a row at the next one; 0: it is coming up */
    int64_t due_us;   /* nothing is tried before */
} ef__tenant_cursor;

typedef struct ef__tenant_cursor_item {
    ef_str tenant;
    ef__tenant_cursor cursor;
    int64_t updated_us; /* the store's: when it was written last */
} ef__tenant_cursor_item;

typedef struct ef__tenant_cursor_list {
    const ef__tenant_cursor_item *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__tenant_cursor_list;

/* --- what an apply changes ------------------------------------------------------------------- */

#define EF__KEY_BYTES 512 /* of an index key: values that agree so far sort alike */

typedef struct ef__index_key {
    int32_t index; /* place in index_paths */
    ef_str key;    /* ef__sort_key of fold/match.h, cut at EF__KEY_BYTES */
} ef__index_key;

/* Several streams may feed a view, so the watermark of one cannot say whether somebody else wrote
 * the view meanwhile: its digest does. */
typedef struct ef__view_change {
    ef__view view;      /* data "" and deleted: the view goes */
    uint64_t before[2]; /* its digest as it was read; both 0 when there was none. Compared */
    bool deleted;
    const ef__index_key *keys; /* of the new data, one per declared index: a value that is missing
                                  counts as null, for queries sort by an index and need all views */
    size_t key_count;
} ef__view_change;

typedef struct ef__watermark_change {
    ef_str tenant, stream;
    ef__watermark before; /* as it was read; all zero when there was none */
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
    int32_t attempts; /* the store's: 1 when it is opened, one more each time it happens again */
    bool open;
    int64_t recorded_us, resolved_us;
} ef__failure;

typedef struct ef__failure_list {
    const ef__failure *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__failure_list;

/* `after` at the place where the generation's cursor is when the commit is done: the tenant has
 * come up, and goes by that one again. No row is written, or its row goes. */
typedef struct ef__tenant_cursor_change {
    ef_str tenant;
    ef__tenant_cursor before; /* as it was read; all zero when there was none. Compared */
    ef__tenant_cursor after;
} ef__tenant_cursor_change;

/* Who writes: the highest token that ever wrote under a fence is kept; a lower one is refused. */
typedef struct ef__fence {
    ef_str scope; /* "partition/3", "scope/…": of the lease; "" needs no fence (inline, runs) */
    int64_t token;
} ef__fence;

/* What a commit does to one generation. In a commit each generation, and in it each view, stream
 * and tenant, is there once. */
typedef struct ef__generation_change {
    int64_t generation;
    int64_t era;           /* as it was read */
    int64_t cursor_before; /* compared when cursor_after is not 0 */
    int64_t cursor_after;  /* 0: the cursor stays */
    bool go_live;          /* the seam: becomes live, fed by the queue above cursor_after */
    int64_t applied, ignored, skipped; /* to add */
    const ef__view_change *views;
    size_t view_count;
    const ef__watermark_change *watermarks;
    size_t watermark_count;
    /* Of tenants with a cursor of their own. Whoever moves the generation's cursor has those here
     * whose events he has left out: so none comes up behind his back. */
    const ef__tenant_cursor_change *tenants;
    size_t tenant_count;
    const ef__failure *failures; /* to open (one open per generation and event: others count up) */
    size_t failure_count;
    /* Open failures of a stream that its watermark passes (from before.expected_next_seq to before
     * after.expected_next_seq) are resolved. That of an event with another hash is at or below
     * applied_seq, and the watermark expects it: it stays open until an operator lets the event
     * pass, the right one is back, or there is another generation. */
} ef__generation_change;

typedef struct ef__views_commit {
    /*
     * A power cut may take it, with every commit after it: what it applied comes again by itself,
     * for the cursor goes back with the views. Otherwise it is on the disk when commit returns,
     * and so is every commit before it, for what it applied is about to be forgotten by the queue,
     * or acknowledged.
     */
    bool may_be_lost;
    /*
     * The seam. `live_set` is a number of the store's that grows whenever a generation goes live,
     * leaves the live ones or is routed; an apply of the queue's events presents the one it read
     * (0: does not care), so that no batch is applied without a generation that has just gone live.
     * A generation with `go_live` set goes live only if `head`, asked inside the transaction,
     * answers its cursor_after: then no event lies between its cursor and what the queue will
     * bring. Otherwise the rest of the commit is done and *out_live stays false.
     */
    int64_t live_set;
    ef_status (*head)(void *context, int64_t *out_position, ef_error *err);
    void *head_context;
    bool *out_live;
    /*
     * What another store does in the same transaction, on this store's connection: called when
     * everything was compared and written, before the commit, and again when that has to be tried
     * again. Only for stores that say the same `database`. What it answers, if not EF_OK, is what
     * commit answers, and nothing is changed.
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
 * While a tenant of a generation is followed, each commit records which views of it were changed,
 * in the commit's own transaction. A record has a number: those of a tenant grow in the order of
 * commits, and a reader that has seen a number never finds a lower one later. Numbers have gaps:
 * they are at least the time of the commit in microseconds. So the commits after a power cut, which
 * may have taken the last ones, give none of the numbers that a reader may have seen.
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

/* While this row is there, changes are recorded. */
typedef struct ef__follow_row {
    int64_t until_us; /* it may be removed afterwards, with its records */
    int64_t low;      /* the records above this number are kept */
    int64_t last;     /* the highest number that was given */
    int64_t kept;     /* records */
} ef__follow_row;

typedef struct ef__change_list {
    bool is_followed;      /* otherwise there are neither records nor a row */
    ef__follow_row follow; /* as of the same moment */
    const ef__change_record *items;
    size_t count;
    struct ef__batch_memory *room;
} ef__change_list;

/* --- reading ---------------------------------------------------------------------------------- */

/* A range of an index, or of view ids when `index` is -1. Bounds are inclusive unless `open`. An
 * index is ordered by key, then view id; descending turns both around. */
typedef struct ef__view_scan {
    int64_t generation;
    ef_str tenant;
    bool any_tenant; /* only with index -1, for exports: ordered by tenant, view id; no bounds */
    int32_t index;
    bool has_low, has_high, low_open, high_open;
    ef_str low, high;
    bool descending;
    /* The caller tests it on whatever comes: a store may leave out views that it does not hold for,
     * but none on which testing it fails. NULL: all views come. */
    const struct ef__filter *filter;
    bool has_after;      /* go on behind this place (within the bounds), in the scan's direction */
    ef_str after_key;    /* of an index */
    ef_str after_tenant; /* with any_tenant */
    ef_str after_id;
} ef__view_scan;

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

enum { EF__VIEWS_DATABASE_MAX = 64 };

struct ef__views_ops {
    const char *name;
    bool is_remote; /* a read waits for another process */
    /* Events of a commit in a catch-up, where large ones pay; 0: as many as the engine likes. */
    size_t catch_up_batch;
    void (*close)(ef_views *views);

    /* Adds a generation: all but id, number, era, replaced, superseded_us and the counters is taken
     * from `generation`, and on_error from other generations of the projection if it has any; a
     * created_us of 0 is now. *out_id is its id, which no other ever has, its number one above the
     * projection's highest. EF_CONFLICT: a number that was given (not 0) is not that one. */
    ef_status (*generation_add)(ef_views *views, const ef__generation *generation, int64_t *out_id,
                                ef_error *err);
    ef_status (*generation_ls)(ef_views *views, ef_str only_name, ef__generation_list *out,
                               ef_error *err); /* by name, then number */
    /*
     * What changes a generation presents the era as it was read, so that nobody undoes what he has
     * not seen: EF_CONFLICT when it has moved on. 0: whatever it is. EF_NOT_FOUND.
     */
    /* Set the state; the era grows. */
    ef_status (*generation_set_state)(ef_views *views, int64_t id, int64_t era,
                                      ef__generation_state state, ef_error *err);
    /* Makes this generation of its projection the active one, with `replaced` as the target of a
     * rollback, and sets superseded_us of the one that was active: in one transaction; the eras of
     * both grow. Nothing changes if it is active already. */
    ef_status (*generation_activate)(ef_views *views, int64_t id, int64_t era, int32_t replaced,
                                     ef_error *err);
    /* Gives the generation another program that keeps its name, order and indexes: version,
     * program, program_hash, schema, state, replaced and superseded_us are taken from `with`; the
     * era and the live set grow. */
    ef_status (*generation_replace)(ef_views *views, int64_t id, int64_t era,
                                    const ef__generation *with, ef_error *err);
    /*
     * Remove a generation with all that is its own, up to `limit` rows (above 0) in a transaction:
     * *out_more says that there are rows left, so call again. The generation goes with its last
     * row. One that is not retired is torn in between: retire it first. EF_CONFLICT also: it is
     * routed.
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
     * Everything or nothing.
     * EF_LEASE_LOST  a fence has seen a higher token: nothing changed
     * EF_CONFLICT    the live set, an era, a cursor (also a tenant's own), a watermark or a view is
     *                not what was read: start over
     */
    ef_status (*commit)(ef_views *views, const ef__views_commit *commit, ef_error *err);

    /*
     * Record the changes of a tenant from now on, at least until `until_us`; one that is followed
     * already stays so until then. On disk when it returns. Every commit that ends afterwards
     * records. Numbers go on above those of an earlier row of the tenant. A row of the generation
     * whose time is over is removed, here and by commits.
     * EF_NOT_FOUND  there is no such generation
     * EF_BUSY       EF_LIMIT_FOLLOWED_TENANTS of the generation are followed
     */
    ef_status (*follow)(ef_views *views, int64_t generation, ef_str tenant, int64_t until_us,
                        ef__follow_row *out, ef_error *err);
    /* The records of a tenant above the number `after`, in their order, up to `limit`. They are all
     * that there were only if `after` is from out->follow.low to out->follow.last. */
    ef_status (*change_ls)(ef_views *views, int64_t generation, ef_str tenant, int64_t after,
                           size_t limit, ef__change_list *out, ef_error *err);

    /* Which database it is in, in all the world; "" when it is not known. NULL where no other store
     * can take part in its commits. */
    ef_status (*database)(ef_views *views, char out[EF__VIEWS_DATABASE_MAX], ef_error *err);

    /* Copies the store to options->path (a file or a folder, as it is itself), as of one moment and
     * while others write. NULL: the store has means of its own. */
    ef_status (*backup)(ef_views *views, const ef_backup_options *options, ef_error *err);

    /* `out` is filled in from `arena`; *out_found says whether there is one. */
    ef_status (*view_get)(ef_views *views, int64_t generation, ef_str tenant, ef_str id,
                          ef__arena *arena, ef__view *out, bool *out_found, ef_error *err);
    /* Call `each` in order until it says stop (false); the view lives for the call. One snapshot.
     * `key` is "" for a scan of ids. `each` may read from the store, but not write to it. */
    ef_status (*view_scan)(ef_views *views, const ef__view_scan *scan,
                           bool (*each)(void *context, ef_str key, const ef__view *view),
                           void *context, ef_error *err);
    /* What a scan with this filter goes by when it leaves out views: an expression for people;
     * nothing is added where it leaves out none. NULL: it never does. */
    void (*sieve)(const struct ef__filter *filter, ef__buf *out);
    ef_status (*watermark_get)(ef_views *views, int64_t generation, ef_str tenant, ef_str stream,
                               ef__watermark *out, bool *out_found, ef_error *err);
    /*
     * Many at once: out[i] is what keys[i] asked for, all zero where there is none (a view without
     * data). Also of snapshots. Keys in their order cost least, for neighbours share pages. NULL
     * where each by itself costs no more.
     */
    ef_status (*view_get_many)(ef_views *views, int64_t generation, const ef__view_key *keys,
                               size_t count, ef__arena *arena, ef__view *out, ef_error *err);
    ef_status (*watermark_get_many)(ef_views *views, int64_t generation, const ef__view_key *keys,
                                    size_t count, ef__watermark *out, ef_error *err);
    ef_status (*watermark_scan)(ef_views *views, int64_t generation,
                                bool (*each)(void *context, ef_str tenant, ef_str stream,
                                             const ef__watermark *watermark),
                                void *context, ef_error *err);
    ef_status (*tenant_cursor_get)(ef_views *views, int64_t generation, ef_str tenant,
                                   ef__tenant_cursor_item *out, bool *out_found, ef_error *err);
    /* Those that are due at `due_us`, the longest due first, then by tenant; up to `limit`. The
     * tenant of an answer to `get` is the one that was asked for. */
    ef_status (*tenant_cursor_ls)(ef_views *views, int64_t generation, int64_t due_us, size_t limit,
                                  ef__tenant_cursor_list *out, ef_error *err);
    /* Newest first. `tenant`: of that one only; NULL: of all. `open_only`. */
    ef_status (*failure_ls)(ef_views *views, int64_t generation, const ef_str *tenant,
                            bool open_only, size_t limit, ef__failure_list *out, ef_error *err);
    /* The highest token that wrote under it; 0 when none did. */
    ef_status (*fence_get)(ef_views *views, ef_str scope, int64_t *out_token, ef_error *err);
    ef_status (*live_set_get)(ef_views *views, int64_t *out, ef_error *err); /* at least 1 */

    /*
     * The store as it is at the first read, for one thread: it does view_get and watermark_get, and
     * is ended by ef__views_close. Many reads by it cost less than each by itself. Whoever has one
     * open does not write by this store before it is closed. NULL: this back end has none.
     */
    ef_status (*snapshot_open)(ef_views *views, ef_views **out, ef_error *err);

    /*
     * To show single views by, for one thread: it does view_get, answers as this store does and
     * just as new, but for last_seq and digest, which may be left out; it is ended by
     * ef__views_close. Reads in a row cost less than each by itself,
     * for what the first of them began is kept for the next, until `rest`. NULL: each by itself
     * costs no more.
     */
    ef_status (*reader_open)(ef_views *views, ef_views **out, ef_error *err);
    /* Of a reader: nothing is kept, so that it holds nobody up. Before its thread waits. */
    void (*rest)(ef_views *reader);
};

typedef struct ef__views_options {
    const char *url; /* "sqlite:PATH", "lmdb:FOLDER", "postgres://…" or "memory:" */
    bool create;
    bool read_only;
    int64_t busy_ms;
    const ef_clock *clock;
    const ef_log *log;
} ef__views_options;

/* Open by URL. Statuses as for ef_journal_open. */
ef_status ef__views_open(const ef__views_options *options, ef_views **out, ef_error *err);
void ef__views_close(ef_views *views); /* NULL is fine */

ef_status ef__views_memory_open(const ef__views_options *options, ef_views **out, ef_error *err);
ef_status ef__views_sqlite_open(const ef__views_options *options, const char *path, ef_views **out,
                                ef_error *err);

/* The folder is made where it is not; the one above it is not. */
ef_status ef__views_lmdb_open(const ef__views_options *options, const char *folder, ef_views **out,
                              ef_error *err);

ef_status ef__views_postgres_open(const ef__views_options *options, ef_views **out, ef_error *err);
/* What makes and migrates its schema, as text, for those who do it by hand. */
ef_status ef__views_postgres_schema(const char *url, ef__buf *out, ef_error *err);
/* The same for whatever store the URL names; nothing where there is no such text. */
ef_status ef__views_schema(const char *url, ef__buf *out, ef_error *err);

/* The contribution of one view to its generation's digest, as two 64-bit sums that are never both 0
 * (shared by back ends). */
void ef__view_digest(const ef__view *view, uint64_t out[2]);
/* Sums as the bytes of a digest: both big-endian, so that they read well in hexadecimal. */
void ef__digest_bytes(const uint64_t sums[2], uint8_t out[EF__DIGEST_BYTES]);
void ef__digest_sums(const uint8_t bytes[EF__DIGEST_BYTES], uint64_t out[2]);

static inline void ef__digest_add(uint64_t sums[2], const uint64_t more[2])
{
    sums[0] += more[0];
    sums[1] += more[1];
}

/* As one that was read where there was no view. */
static inline bool ef__digest_is_none(const uint64_t sums[2])
{
    return sums[0] == 0 && sums[1] == 0;
}

static inline void ef__digest_subtract(uint64_t sums[2], const uint64_t less[2])
{
    sums[0] -= less[0];
    sums[1] -= less[1];
}

/* EF_NOT_FOUND: there is no such generation; EF_CONFLICT: it is in another era than was read, or
 * the one that queries go to (shared by back ends). */
ef_status ef__generation_missing(int64_t id, ef_error *err);
ef_status ef__generation_is_active(int64_t id, ef_error *err);
ef_status ef__generation_moved(int64_t id, int64_t era, int64_t found, ef_error *err);
/* EF_CONFLICT: it was to be number `wanted`. */
ef_status ef__generation_number_exists(ef_str name, int32_t wanted, ef_error *err);

/* By bytes, a shorter one first: the order of every back end. */
int ef__str_compare(ef_str a, ef_str b);

void ef__generation_list_release(ef__generation_list *list);
void ef__failure_list_release(ef__failure_list *list);
void ef__tenant_cursor_list_release(ef__tenant_cursor_list *list);
void ef__change_list_release(ef__change_list *list);

/* EF_CONFLICT: the tenant's cursor is not what was read (shared by back ends). */
ef_status ef__tenant_cursor_moved(ef_str tenant, ef_error *err);

static inline bool ef__tenant_cursor_equal(const ef__tenant_cursor *a, const ef__tenant_cursor *b)
{
    return a->position == b->position && a->waiting == b->waiting && a->attempts == b->attempts &&
           a->due_us == b->due_us;
}

/* As one that was read where there was none. */
static inline bool ef__tenant_cursor_is_none(const ef__tenant_cursor *cursor)
{
    return ef__tenant_cursor_equal(cursor, &(ef__tenant_cursor){0});
}

#endif
