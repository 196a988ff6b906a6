/*
 * state.h - the cached state of the journal in a process: the tail, stream heads, types and lanes.
 *
 * To append fast, two things are not written with every event: the head row of the stream and the
 * index entry of the id. Both can be derived from the events, so they are written later, in sorted
 * order, a slice with each append (settle.c). state.settled in the store is the position up to
 * which this was done; the events after it, the tail, are few (SQ_TAIL_EVENTS and those that were
 * appended while settling), and each process keeps the ids and streams of the tail in memory. A
 * process that opens the journal, or finds commits of another one, reads the missing ones from the
 * event table.
 *
 *     1 ─────────────── settled ────── target ─────────── last
 *       heads and ids    │ being       │ only in the events
 *       in their tables  │ settled now │ and in memory
 *
 * Invariants under the state lock: entries[i] describes position settled + 1 + i; a cached
 * stream's `now` is its last committed event at or below `last`.
 */
#pragma once

#include "../journal.h"
#include "../outbox.h"

#include "../../base/pair_map.h"
#include "../../core/lease_rule.h"
#include "../../sqlite/conn.h"

/* --- rows that the generated functions read and write ----------------------------------------- */

/* The state row. */
typedef struct sq_progress {
    int64_t settled, target, heads_after, ids_after, next_run, types_version, lanes_version;
    int32_t partitions;
} sq_progress;

/* A sorted run of the index of ids (ids.c). */
typedef struct sq_run {
    int64_t run, level, into;
} sq_run;

typedef struct sq_lane {
    int64_t id;
    ef_lane_kind kind;
    ef_str name;
    bool enabled;      /* not set when lanes are listed, */
    ef_str types;      /* only set in the cached state, */
    int64_t retain_us; /* only set when it is found by name */
} sq_lane;

#include "journal_sqlite_sql.h"

/* --- the state -------------------------------------------------------------------------------- */

#define SQ_TAIL_EVENTS 8192      /* length of the tail at which settling begins */
#define SQ_STREAMS_CACHED 131072 /* streams kept in memory: about 16 MB */

/* The head of a stream, with the ladder that gives the next event its jump:
 *     seq 13 = 1101b: rungs = positions of 13, 12, 8
 *     seq 14 = 1110b: rungs = positions of 14, 12, 8     jump of 14 = 12
 *     seq 16 = 10000b: rungs = position of 16            jump of 16 = none (0)
 * From any event every earlier one of its stream is some log² jumps and single steps away. */
typedef struct sq_head {
    int64_t seq;    /* 0: the stream has no event */
    int64_t *rungs; /* farthest first, so that the last one is seq's own position */
    uint8_t count;
    uint8_t cap;
} sq_head;

typedef struct sq_stream {
    struct sq_stream *next_by_name, *next_by_id;
    uint64_t name_hash;
    int64_t id;           /* 0: not in the store (yet) */
    bool has_head;        /* head and now are loaded; else only the name */
    sq_head head;         /* with the events of the open transaction */
    int64_t now_seq;      /* committed */
    int64_t now_position; /* committed */
    uint8_t tenant_len, name_len;
    char names[]; /* tenant, then name */
} sq_stream;

typedef struct sq_tail_entry {
    int64_t id_hash;
    int64_t stream;
    int64_t seq;
    int32_t next_id;     /* next in the bucket of id_hash; -1 ends */
    int32_t prev_stream; /* the stream's entry before this one; -1 when none */
    int32_t next_stream; /* next in the bucket of stream heads; -1 ends, -2: not a bucket member */
} sq_tail_entry;

typedef struct sq_type {
    int64_t id;
    ef_intent intent;
    bool publish;
    int32_t canonical; /* index of the type it is an alias of, or of itself */
    int64_t alias_of;  /* id of that type, as it was loaded; 0: it is no alias */
    ef_str name;
} sq_type;

typedef struct sq_id_entry {
    int64_t hash, position;
} sq_id_entry;

/* beyond 22 million ids false positives become more frequent */
#define SQ_FILTER_BYTES_MAX (32u << 20)

/* A Bloom filter in blocks of one cache line: shows that an id is certainly new. About 12 bits per
 * entry give one false positive in a hundred lookups. A larger filter is filled from scratch. */
typedef struct sq_filter {
    uint64_t *words; /* NULL: not filled */
    size_t blocks;   /* of 8 words; a power of two */
    unsigned shift;  /* shift of a hash that leaves the index of a block */
    size_t count;    /* entries added */
    size_t capacity; /* number of entries it is sized for */
} sq_filter;

typedef struct sq_state {
    bool loaded;
    bool doubtful; /* a sync failed: clear everything before the next transaction */
    int64_t last;  /* last committed position that was read */
    int64_t last_recorded_us;
    uint8_t last_hash[EF_HASH_BYTES];
    int64_t stream_last; /* highest stream id */
    sq_progress progress;

    sq_tail_entry *entries; /* positions progress.settled + 1 … last */
    size_t entry_count, entry_cap;
    int32_t *id_buckets, *stream_buckets;
    size_t bucket_count;

    sq_stream **by_name, **by_id;
    size_t stream_bucket_count, stream_count;
    size_t streams_max;  /* SQ_STREAMS_CACHED, fewer in tests */
    bool streams_in_use; /* streams that the open transaction of a writer points to */

    sq_id_entry *frozen_ids; /* settled + 1 … target, sorted by hash when settling begins */
    size_t frozen_id_count;
    int64_t *frozen_streams;
    size_t frozen_stream_count;
    int64_t frozen_target; /* 0: none */

    sq_filter filter;   /* ids of all settled events, once it is filled */
    int64_t id_lookups; /* lookups in the runs, since the state was loaded */

    ef__arena names;           /* of types and lanes */
    sq_type *types;            /* in the order of their ids */
    ef__pair_map type_names;   /* "" and a name: the index of the type */
    ef__pair_map type_tenants; /* a tenant and "": how many types its appends have created */
    size_t types_not_folded;   /* whose intent is not projection_and_replay */
    size_t type_count, type_cap;
    int32_t type_memo;
    sq_lane *lanes;
    size_t lane_count;
    int64_t types_loaded, lanes_loaded; /* versions of the loaded types and lanes */
} sq_state;

void sq_state_init(sq_state *state);
/* Also after a failure, when the state may be wrong: it can be used again. */
void sq_state_release(sq_state *state);

/* Changes when this connection commits, and when it begins after another one has. */
unsigned sq_data_version(const ef__sq_conn *conn);
/* Updates the state to what `conn` sees, which must have an open transaction. */
ef_status sq_state_sync(sq_state *state, ef__sq_conn *conn, ef_error *err);

/* The bucket of a key, of `count` (a power of two). */
static inline size_t sq_bucket(uint64_t key, size_t count)
{
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (count - 1);
}

/* The hash of an id in the tail and in runs. */
int64_t sq_id_hash(ef_str tenant, ef_str id);
/* Adds the committed event after `last`. */
ef_status sq_state_add(sq_state *state, int64_t position, int64_t stream, int64_t seq,
                       int64_t id_hash, ef_error *err);
/* Removes the tail up to progress.settled, which has moved from `from`. */
void sq_state_settled(sq_state *state, int64_t from);

/* Finds a stream with its head, in memory or in the store; id and seq are 0 if it does not exist.
 * The transaction of `conn` and the state must be of the same snapshot. */
ef_status sq_state_stream(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str name,
                          sq_stream **out, ef_error *err);
/* The same by id, for its names: the head may not be loaded, and the transaction may be older. */
ef_status sq_state_stream_by_id(sq_state *state, ef__sq_conn *conn, int64_t id, sq_stream **out,
                                ef_error *err);
/* Loads the head of a stream that was found by id; of the same snapshot too. */
ef_status sq_state_stream_head(sq_state *state, ef__sq_conn *conn, sq_stream *stream,
                               ef_error *err);
void sq_state_stream_has_id(sq_state *state, sq_stream *stream, int64_t id);
/* Moves a cached stream to an event of the tail, unless this process has appended it. */
ef_status sq_state_follow(sq_state *state, const sq_tail_entry *entry, int64_t position,
                          ef_error *err);
void sq_state_drop_streams(sq_state *state);
/* Clears the streams if they are more than streams_max and no transaction points to them. */
void sq_state_bound_streams(sq_state *state);
static inline ef_str sq_stream_tenant(const sq_stream *s)
{
    return (ef_str){s->names, s->tenant_len};
}
static inline ef_str sq_stream_name(const sq_stream *s)
{
    return (ef_str){s->names + s->tenant_len, s->name_len};
}

/* Advances a head by one event; *out_prev and *out_jump are the links of its row (jump is 0 if it
 * equals prev, or there is none). */
ef_status sq_head_advance(sq_head *head, int64_t position, int64_t *out_prev, int64_t *out_jump,
                          ef_error *err);
static inline int64_t sq_head_position(const sq_head *head)
{
    return head->count ? head->rungs[head->count - 1] : 0;
}

/* --- types ------------------------------------------------------------------------------------ */

/* Finds a type; NULL: unknown. */
const sq_type *sq_state_type(sq_state *state, ef_str name);
const sq_type *sq_state_type_by_id(const sq_state *state, int64_t id);
/* Adds a type with an id above all others. `tenant` is the one whose append creates it, or NULL. */
ef_status sq_state_type_add(sq_state *state, int64_t id, ef_str name, const ef_str *tenant,
                            ef_error *err);
/* How many types the appends of a tenant have created. */
int64_t sq_state_types_of(const sq_state *state, ef_str tenant);

/* --- ids (ids.c) ------------------------------------------------------------------------------ */

/*
 * The index of event ids, which costs an append next to nothing.
 *
 * Sorted runs of (hash of tenant and id, position), in chunks. Settling adds a run of level 0;
 * SQ_RUNS_A_LEVEL runs of a level are merged into one of the next, a slice at a time:
 *
 *     whole ──► merging into an output ──► merged ──► deleted
 *
 * Runs do not change while they are merged: their entries are copied to the output, which is not
 * searched before it has all of them. So at every commit an entry is searched in exactly one run, a
 * slice only writes at the end of the output, and the last entry of the output shows where to
 * resume. Merged runs are deleted, in slices too. A run is written in order of hash, so random ids
 * cost as much as ordered ones.
 */

#define SQ_RUNS_A_LEVEL 16
#define SQ_RUN_MERGED (-1) /* level of a merged run: all entries are in another run */

/* A run that is being merged: its next entries, and the chunk that they are from. */
typedef struct sq_merge_input {
    int64_t run, lo;
    sq_id_entry *entries;
    size_t count, cap, at;
    bool ends; /* all entries were read */
} sq_merge_input;

/* The last merge of this process, which can be resumed without reading its inputs again. */
typedef struct sq_merge {
    int64_t output; /* 0: none is loaded */
    bool any;       /* the output has entries … */
    int64_t end;    /* … and ends with this hash */
    sq_merge_input inputs[SQ_RUNS_A_LEVEL];
    size_t count;
    sq_id_entry *chunk; /* memory for the next chunk */
    size_t chunk_cap;
    int64_t idle_at; /* no merge was due at this number of the next run; 0: unknown */
} sq_merge;

/* Writes sorted entries to the end of a run, at least `budget` of them if there are as many. */
ef_status sq_ids_put(ef__sq_conn *conn, int64_t run, const sq_id_entry *entries, size_t count,
                     size_t budget, size_t *out_done, ef_error *err);
/* Completes a run: from this commit on it is searched. */
ef_status sq_ids_add_run(ef__sq_conn *conn, int64_t run, int64_t level, ef_error *err);

/* Does a slice of the current merge, or begins one that is due and allowed. A new run gets its
 * number from *next_run. *out_done is the used part of the budget, or more. */
ef_status sq_ids_merge(ef__sq_conn *conn, sq_merge *merge, size_t budget, bool may_begin,
                       int64_t *next_run, size_t *out_done, ef_error *err);
void sq_merge_release(sq_merge *merge);

/*
 * The position of an id; 0 when the tenant has no such event. Searches the tail, then the runs, and
 * compares the event itself, because two ids can have the same hash.
 */
ef_status sq_id_find(sq_state *state, ef__sq_conn *conn, ef_str tenant, ef_str id, int64_t id_hash,
                     int64_t *out_position, ef_error *err);

/* Adds an entry to a filter that is filled. */
void sq_filter_add(sq_filter *filter, int64_t hash);
void sq_filter_release(sq_filter *filter);
