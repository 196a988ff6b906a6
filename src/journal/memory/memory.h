/*
 * memory.h - the state of the memory back end, and the functions that its files share.
 *
 * The memory journal is the model: the contract tests compare the other back ends with it, and the
 * simulator runs on it. It prefers simple over fast: one mutex around every call, and everything
 * that can be derived is computed on demand. Functions that take a `mem_journal` are called with
 * the mutex held.
 *
 * Events live until the journal is closed. Streams and ids are found through hash maps of indices;
 * a lookup always compares the key, so a hash collision is harmless.
 */
#pragma once

#include "../journal.h"

#include "../../base/limits.h"
#include "../../base/same.h"
#include "../../core/lease_rule.h"

#include <pthread.h>
#include <stddef.h>

/* --- maps (memory.c) -------------------------------------------------------------------------- */

typedef struct mem_slot {
    uint64_t hash;
    int64_t value; /* -1: empty */
} mem_slot;

/* Open addressing. Values are removed only in the reverse order of insertion, with no reserve in
 * between, so no probe chain breaks and no tombstones are needed. */
typedef struct mem_map {
    mem_slot *slots;
    size_t cap;
    size_t count;
} mem_map;

typedef bool mem_same(const void *context, int64_t value);

bool ef__mem_map_reserve(mem_map *map, size_t extra);
void ef__mem_map_add(mem_map *map, uint64_t hash, int64_t value); /* after a reserve */
void ef__mem_map_undo(mem_map *map, uint64_t hash, int64_t value);
/* The value with this hash for which `same` is true, or -1. */
int64_t ef__mem_map_find(const mem_map *map, uint64_t hash, mem_same *same, const void *context);
void ef__mem_map_release(mem_map *map);
uint64_t ef__mem_hash_names(ef_str a, ef_str b);

/* --- arrays and texts (memory.c) -------------------------------------------------------------- */

/* Makes an array large enough for `count` items. */
bool ef__mem_grow(void **items, size_t *cap, size_t count, size_t size);
/* Copies `item` to the place `at` of an array that is large enough, before those that follow. */
void ef__mem_insert(void *items, size_t *count, size_t at, size_t size, const void *item);
void ef__mem_remove(void *items, size_t *count, size_t at, size_t size);
/* Replaces an owned text. False when memory ran out: the text is unchanged. */
bool ef__mem_text_set(ef_str *text, ef_str value);
void ef__mem_text_free(ef_str *text);

/* Replaces borrowed texts of `item` by owned copies. False when memory ran out: all are empty. */
bool ef__mem_texts_own(void *item, const ef__texts *texts);
void ef__mem_texts_free(void *item, const ef__texts *texts);

/* --- state ------------------------------------------------------------------------------------ */

typedef struct mem_event {
    ef_event event; /* its type is the one of the append; its texts are stored after the struct */
    size_t stream;
    int32_t partition;           /* below the number of partitions */
    int32_t partition_published; /* in the lanes of publishers */
} mem_event;

typedef struct mem_stream {
    ef_str tenant, name; /* borrowed from the first event */
    int64_t seq;         /* of its last event */
    size_t *events;      /* its events: their indexes, at seq - 1 */
    size_t cap;
} mem_stream;

/* The position of its last event; 0: there is none. */
static inline int64_t ef__mem_stream_position(const mem_stream *stream)
{
    return stream->seq ? (int64_t)stream->events[stream->seq - 1] + 1 : 0;
}

typedef struct mem_type {
    ef_str name, alias_of; /* owned */
    ef_intent intent;
    bool publish;
    bool registered; /* false: an append of `tenant` created it */
    ef_str tenant;   /* owned */
} mem_type;

/* The rows of a lane in one partition: ascending positions. */
typedef struct mem_part {
    int64_t *rows;
    size_t first, count, cap; /* rows[first … count) */
    int64_t offset;           /* everything up to it is acknowledged or has a retry row */
    int64_t in_flight_upto;   /* the last position of the batch in flight; 0: none */
    int64_t in_flight_token;  /* the token it was claimed under; 0: no claim yet */
    int64_t suspect_upto;     /* rows up to it were in flight when their worker ended */
} mem_part;

typedef struct mem_lane {
    ef_str name, types, settings, progress; /* owned */
    ef_lane_kind kind;
    bool enabled;
    int64_t retain_us;
    mem_part *parts; /* EF_LIMIT_PARTITIONS of them, because the number in use may change */
} mem_lane;

typedef struct mem_retry_row {
    size_t lane;
    int64_t position;
    ef_row_status status;
    bool skip; /* excludes EF_ROW_DEAD */
    int32_t attempts;
    int64_t due_us; /* 0: dead */
    ef_str error;   /* owned */
    int64_t updated_us;
    int64_t filed; /* how often the row was filed again */
    bool trying;   /* an attempt is in progress */
} mem_retry_row;

/* A version of a projection skips an event. Texts are owned, except in a withdrawn entry, which
 * borrows those of the entry that it withdraws. */
typedef struct mem_skip {
    ef_str projection, tenant, stream;
    int64_t seq;
    int32_t version;
    bool withdrawn;
} mem_skip;

/* An event that a publisher's lane has published. */
typedef struct mem_published {
    size_t lane;
    int64_t position, at_us;
} mem_published;

typedef struct mem_lease {
    ef_lease_key key; /* name owned */
    ef_str owner;     /* owned */
    int64_t token, until_us, updated_us;
} mem_lease;

typedef struct mem_run {
    ef_run run;       /* texts owned */
    bool driven;      /* a driver has updated it under the lease `key` */
    ef_lease_key key; /* name owned */
} mem_run;

typedef struct mem_journal {
    ef_journal base; /* first: an ef_journal * is cast to mem_journal * */
    pthread_mutex_t mutex;
    pthread_cond_t grown; /* the head moved, or `wakes` grew */
    int64_t wakes;
    ef__buf scratch; /* one encoded event, for its hash */
    char id[EF_EVENT_ID_TEXT_MAX];
    int32_t partitions;
    ef__damage damage;

    mem_event **events; /* at position - 1 */
    size_t event_count, event_cap;
    mem_map by_id; /* tenant, id -> index of the event */
    mem_stream *streams;
    size_t stream_count, stream_cap;
    mem_map by_name; /* tenant, stream -> index of the stream */
    mem_type *types;
    size_t type_count, type_cap;

    mem_lane *lanes; /* lanes[0] is "*" */
    size_t lane_count, lane_cap;
    mem_retry_row *retry_rows; /* by position, then name of the lane */
    size_t retry_row_count, retry_row_cap;
    mem_published *published; /* in publication order */
    size_t published_count, published_cap;
    ef_audit_entry *audit; /* oldest first; texts owned */
    size_t audit_count, audit_cap;
    mem_skip *skips; /* oldest first; the id is the index + 1 */
    size_t skip_count, skip_cap;

    mem_lease *leases; /* by kind, name, partition */
    size_t lease_count, lease_cap;
    int64_t token_floor;    /* the highest token of a lease that was pruned */
    ef_throughput *minutes; /* by time */
    size_t minute_count, minute_cap;
    ef_worker *workers; /* by id; texts owned, `live` is derived */
    size_t worker_count, worker_cap;
    int64_t purged_us;
    mem_run *runs; /* oldest first */
    size_t run_count, run_cap;

    int64_t commits, appended, stale_refused;
} mem_journal;

/* --- shared by the files ---------------------------------------------------------------------- */

/* Holds the mutex until the end of the block:
 * MEM_LOCKED mem_journal *mem = ef__mem_lock(journal); */
#define MEM_LOCKED __attribute__((cleanup(ef__mem_unlock)))
mem_journal *ef__mem_lock(ef_journal *journal);
void ef__mem_unlock(mem_journal **mem);
int64_t ef__mem_now(const mem_journal *mem);
ef_status ef__mem_no_memory(ef_error *err);
/* Called by close. */
void ef__mem_lanes_release(mem_journal *mem);
void ef__mem_leases_release(mem_journal *mem);
void ef__mem_records_release(mem_journal *mem);

/* The interfaces: of read.c, row.c, lease.c and record.c. */
extern const ef__events_ops ef__mem_events_ops;
extern const ef__outbox_ops ef__mem_outbox_ops;
extern const ef__lease_ops ef__mem_lease_ops;
extern const ef__record_ops ef__mem_record_ops;

/* --- events (append.c, read.c) ---------------------------------------------------------------- */

int64_t ef__mem_stream_find(const mem_journal *mem, ef_str tenant, ef_str name); /* or -1 */
int64_t ef__mem_event_by_id(const mem_journal *mem, ef_str tenant, ef_str id);   /* index or -1 */
/* Copies an event into an arena, with its canonical type. */
bool ef__mem_event_copy(const mem_journal *mem, const mem_event *from, ef__arena *arena,
                        ef_event *out);
ef_status ef__mem_append(ef_journal *journal, const ef__arrival *events, size_t count,
                         ef_place *out, ef_error *err);

/* --- lanes (lane.c) --------------------------------------------------------------------------- */

int64_t ef__mem_lane_find(const mem_journal *mem, ef_str name); /* index or -1 */
ef_status ef__mem_lane_add(mem_journal *mem, const ef_lane *lane, ef_error *err);
void ef__mem_lane_free(mem_lane *lane);
ef_status ef__mem_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                           ef_error *err);
ef_status ef__mem_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
ef_status ef__mem_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                            ef_error *err);
/* Reserves space for `count` more, so that adding them cannot fail. */
ef_status ef__mem_published_reserve(mem_journal *mem, size_t count, ef_error *err);
void ef__mem_published_add(mem_journal *mem, size_t lane, int64_t position, int64_t now_us);
ef_status ef__mem_published_purge(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                  size_t limit, int64_t *out_count, ef_error *err);
ef_status ef__mem_published_requeue(ef_journal *journal, ef_str lane,
                                    const ef_partition_lease *held, size_t limit,
                                    int64_t *out_count, ef_error *err);
ef_status ef__mem_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                  ef_error *err);

/* --- rows (claim.c, row.c) -------------------------------------------------------------------- */

/* The index of the retry row, or where it belongs when `*found` is false. */
size_t ef__mem_retry_row_find(const mem_journal *mem, int64_t position, size_t lane, bool *found);
/* Adds a pending retry row that is due now; keeps an existing one as it is. */
ef_status ef__mem_retry_row_requeue(mem_journal *mem, size_t lane, int64_t position, ef_error *err);
/* Is it the first retry row of its stream in its lane? Only that one may be claimed. */
bool ef__mem_retry_row_is_first(const mem_journal *mem, size_t index);
void ef__mem_retry_row_remove(mem_journal *mem, size_t at);
ef_status ef__mem_claim(ef_journal *journal, const ef__claim_request *request,
                        ef_claimed_batch *out, ef_error *err);
ef_status ef__mem_ack(ef_journal *journal, void *connection, const ef__ack_request *request,
                      ef_error *err);

/* --- leases (lease.c) ------------------------------------------------------------------------- */

/* EF_OK when the leases of the lane and partitions have these tokens and have not expired. */
ef_status ef__mem_leases_check(mem_journal *mem, const mem_lane *lane,
                               const ef_partition_lease *held, size_t count, ef_error *err);
/* The same, for any lease. */
ef_status ef__mem_token_check(mem_journal *mem, const ef_lease_key *key, int64_t token,
                              ef_error *err);
bool ef__mem_lease_live(const mem_journal *mem, const ef_lease_key *key, int64_t *out_token);
ef_lease_key ef__mem_lane_lease(const mem_lane *lane, int32_t partition);
/* The partition of the event in the lane. */
int32_t ef__mem_partition(const mem_lane *lane, const mem_event *event);

/* --- records (record.c) ----------------------------------------------------------------------- */

mem_type *ef__mem_type_find(const mem_journal *mem, ef_str name); /* or NULL */
/* The canonical name of `name`, or `name`. */
ef_str ef__mem_type_canonical(const mem_journal *mem, ef_str name);
/* Adds the type of an event that an append of `tenant` created. */
ef_status ef__mem_type_create(mem_journal *mem, ef_str name, ef_str tenant, bool is_sealed,
                              ef_error *err);
void ef__mem_type_free(mem_type *type);
ef_status ef__mem_audit_append(mem_journal *mem, const ef_audit_entry *entry, int64_t rows,
                               ef_error *err);
/* Reserves space for `count` more skips. */
ef_status ef__mem_skips_reserve(mem_journal *mem, size_t count, ef_error *err);
/* After ef__mem_skips_reserve. */
ef_status ef__mem_skip_append(mem_journal *mem, const ef__skip_entry *entry, ef_error *err);
/* Withdraws the skips of an event: adds an entry per version whose last entry is a skip. Needs
 * space for `skip_count` more. */
void ef__mem_skip_withdraw(mem_journal *mem, ef_str projection, const ef_event *event);
