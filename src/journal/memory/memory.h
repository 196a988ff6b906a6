/*
 * memory.h - what the files of the memory back end share.
 *
 * The memory journal is the model: the other back ends are compared with it, and the simulator runs
 * on it. So it is simple before it is fast: one mutex around every call, and what can be derived is
 * derived anew. Functions here are called with the mutex held unless they say otherwise.
 *
 * Events live until the journal is closed. Streams and ids are found by hash maps of indices; the
 * key is always compared, the hash only finds the way.
 */
#ifndef EF_JOURNAL_MEMORY_H
#define EF_JOURNAL_MEMORY_H

#include "../journal.h"

#include "../../base/limits.h"
#include "../../core/lease_rule.h"

#include <pthread.h>

/* --- maps (map.c) ----------------------------------------------------------------------------- */

typedef struct mem_slot {
    uint64_t hash;
    int64_t value; /* -1: empty */
} mem_slot;

/* Open addressing. Values are taken out only in the reverse order of going in, with no reserve
 * between: so no chain is ever broken and no tombstones are needed. */
typedef struct mem_map {
    mem_slot *slots;
    size_t cap;
    size_t count;
} mem_map;

typedef bool mem_same(const void *context, int64_t value);

bool ef__mem_map_reserve(mem_map *map, size_t extra);
void ef__mem_map_add(mem_map *map, uint64_t hash, int64_t value); /* reserved before */
void ef__mem_map_undo(mem_map *map, uint64_t hash, int64_t value);
/* The value with this hash that is the same, or -1. */
int64_t ef__mem_map_find(const mem_map *map, uint64_t hash, mem_same *same, const void *context);
void ef__mem_map_release(mem_map *map);
uint64_t ef__mem_hash_names(ef_str a, ef_str b);
uint64_t ef__mem_hash_numbers(int64_t a, int64_t b);

/* Make room for one more thing in a growing array. */
bool ef__mem_grow(void **items, size_t *cap, size_t count, size_t size);
/* Replace an owned text. False when memory ran out: it is as it was. */
bool ef__mem_text_set(ef_str *text, ef_str value);
void ef__mem_text_free(ef_str *text);

/* --- what is kept ----------------------------------------------------------------------------- */

typedef struct mem_event {
    ef_event event; /* its type is the one that was appended; its texts follow this struct */
    size_t stream;
    int32_t partition; /* below the count of partitions */
    int64_t before;    /* position of the event before it in its stream; 0 */
} mem_event;

typedef struct mem_stream {
    ef_str tenant, name; /* of its first event */
    int64_t seq;
    int64_t position;
} mem_stream;

typedef struct mem_type {
    ef_str name, alias_of; /* owned */
    ef_intent intent;
    bool publish;
    bool registered; /* else an append of `tenant` has created it */
    ef_str tenant;   /* owned */
} mem_type;

/* A lane's rows in one partition: positions, rising, from `first` on. */
typedef struct mem_part {
    int64_t *rows;
    size_t first, count, cap; /* rows[first … count) */
    int64_t mark;
    int64_t hand;       /* up to here a batch is in hand … */
    int64_t hand_token; /* … under this token; 0 nothing ever was */
    int64_t suspect;    /* rows up to here were in hand when an owner vanished */
} mem_part;

typedef struct mem_lane {
    ef_str name, types, settings, progress; /* owned */
    ef_lane_kind kind;
    bool enabled;
    int64_t retain_us;
    mem_part *parts; /* EF_LIMIT_PARTITIONS of them: the count may change */
} mem_lane;

typedef struct mem_exception {
    size_t lane;
    int64_t position;
    ef_row_status status;
    bool skip; /* then it is not dead */
    int32_t attempts;
    int64_t due_us; /* 0 for dead ones */
    ef_str error;   /* owned */
    int64_t updated_us;
    int64_t filed; /* how often since it was made */
    bool trying;   /* an attempt is under way */
} mem_exception;

/* A version of a projection passes an event. Texts are owned, but for those of an entry that is
 * withdrawn: they are the ones of the entry that it takes back. */
typedef struct mem_skip {
    ef_str projection, tenant, stream;
    int64_t seq;
    int32_t version;
    bool withdrawn;
} mem_skip;

/* What a publisher's lane is through with. */
typedef struct mem_published {
    size_t lane;
    int64_t position, at_us;
} mem_published;

/* Texts are owned. */
typedef ef_act mem_act;

typedef struct mem_lease {
    ef_lease_key key; /* name owned */
    ef_str owner;     /* owned */
    int64_t token, until_us, updated_us;
} mem_lease;

typedef ef_worker mem_worker; /* texts owned; live is derived */

typedef struct mem_run {
    ef_run run;       /* texts owned */
    bool driven;      /* it was moved under a lease … */
    ef_lease_key key; /* … this one; name owned */
} mem_run;

typedef struct mem_journal {
    ef_journal base; /* first, so that an ef_journal * is this */
    pthread_mutex_t mutex;
    pthread_cond_t grown; /* the head has moved, or somebody has nudged */
    int64_t nudges;
    ef__buf scratch; /* for sealing events */
    char id[EF_EVENT_ID_TEXT_MAX];
    int32_t partitions;

    mem_event **events; /* at position - 1 */
    size_t event_count, event_cap;
    mem_map by_id;  /* tenant, id -> index of the event */
    mem_map by_seq; /* stream, seq -> index of the event */
    mem_stream *streams;
    size_t stream_count, stream_cap;
    mem_map by_name; /* tenant, stream -> index of the stream */
    mem_type *types;
    size_t type_count, type_cap;

    mem_lane *lanes; /* lanes[0] is "*" */
    size_t lane_count, lane_cap;
    mem_exception *exceptions; /* by position, then name of the lane */
    size_t exception_count, exception_cap;
    mem_published *published; /* in the order in which they were */
    size_t published_count, published_cap;
    mem_act *acts; /* oldest first */
    size_t act_count, act_cap;
    mem_skip *skips; /* oldest first; the id is the index + 1 */
    size_t skip_count, skip_cap;

    mem_lease *leases; /* by kind, name, partition */
    size_t lease_count, lease_cap;
    int64_t token_floor;    /* the highest token of a lease that was pruned */
    ef_throughput *minutes; /* by time */
    size_t minute_count, minute_cap;
    mem_worker *workers; /* by id */
    size_t worker_count, worker_cap;
    int64_t purged_us;
    mem_run *runs; /* oldest first */
    size_t run_count, run_cap;

    int64_t commits, appended, stale_refused;
} mem_journal;

/* --- shared by the files ---------------------------------------------------------------------- */

mem_journal *ef__mem_lock(ef_journal *journal);
void ef__mem_unlock(mem_journal *m);
int64_t ef__mem_now(const mem_journal *m);
ef_status ef__mem_no_memory(ef_error *err);
int ef__mem_compare(ef_str a, ef_str b);   /* by bytes */
void ef__mem_work_release(mem_journal *m); /* leases, workers, runs: for close */

int64_t ef__mem_stream_find(const mem_journal *m, ef_str tenant, ef_str name);  /* or -1 */
int64_t ef__mem_event_by_seq(const mem_journal *m, size_t stream, int64_t seq); /* index or -1 */
int64_t ef__mem_event_by_id(const mem_journal *m, ef_str tenant, ef_str id);    /* index or -1 */
mem_type *ef__mem_type_find(const mem_journal *m, ef_str name);                 /* or NULL */
/* The type that events appended as `name` are read as. */
ef_str ef__mem_type_canonical(const mem_journal *m, ef_str name);
/* Copy an event into an arena, with its canonical type. */
bool ef__mem_event_copy(const mem_journal *m, const mem_event *from, ef__arena *arena,
                        ef_event *out);

int64_t ef__mem_lane_find(const mem_journal *m, ef_str name); /* index or -1 */
/* Where the exception is, or would be: its index; `*found` says which. */
size_t ef__mem_exception_at(const mem_journal *m, int64_t position, size_t lane, bool *found);
/* Is it the first exception of its stream in its lane? Only that one may be taken. */
/* A pending exception of an event; one that is there stays as it is. */
ef_status ef__mem_exception_again(mem_journal *m, size_t lane, int64_t position, ef_error *err);
bool ef__mem_exception_first(const mem_journal *m, size_t index);
/* EF_OK when the lease of `lane` and partition is held under the token and live now. */
ef_status ef__mem_holding_check(mem_journal *m, const mem_lane *lane, const ef_holding *holding,
                                ef_error *err);
/* The same for any lease. */
ef_status ef__mem_token_check(mem_journal *m, const ef_lease_key *key, int64_t token,
                              ef_error *err);
bool ef__mem_lease_live(const mem_journal *m, const ef_lease_key *key, int64_t *out_token);
void ef__mem_lease_remove(mem_journal *m, size_t at); /* its token is never given out again */
ef_lease_key ef__mem_lane_lease(const mem_lane *lane, int32_t partition);

/* --- the operations --------------------------------------------------------------------------- */

ef_status ef__mem_append(ef_journal *journal, const ef__arrival *events, size_t count,
                         ef_place *out, ef_error *err);
ef_status ef__mem_type_set(ef_journal *journal, const ef_type *type, ef_error *err);
ef_status ef__mem_read_stream(ef_journal *journal, ef_str tenant, ef_str stream, int64_t from_seq,
                              size_t limit, ef_batch *out, ef_error *err);
ef_status ef__mem_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                           ef_error *err);
ef_status ef__mem_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                          ef_error *err);
ef_status ef__mem_stream_head(ef_journal *journal, ef_str tenant, ef_str stream, int64_t *out_seq,
                              int64_t *out_position, ef_error *err);
ef_status ef__mem_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                            size_t limit, ef_stream_list *out, ef_error *err);
ef_status ef__mem_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                          ef_error *err);

ef_status ef__mem_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                           ef_error *err);
ef_status ef__mem_lane_add(mem_journal *m, const ef_lane *lane, ef_error *err); /* mutex held */
ef_status ef__mem_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err);
void ef__mem_lane_free(mem_lane *lane);
ef_status ef__mem_no_lane(ef_str name, ef_error *err);
/* Room for `count` more, so that noting them cannot fail. */
ef_status ef__mem_published_reserve(mem_journal *m, size_t count, ef_error *err);
void ef__mem_published_note(mem_journal *m, size_t lane, int64_t position, int64_t now_us);
ef_status ef__mem_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                            ef_error *err);
ef_status ef__mem_published_purge(ef_journal *journal, ef_str lane, const ef_holding *held,
                                  size_t limit, int64_t *out_count, ef_error *err);
ef_status ef__mem_published_again(ef_journal *journal, ef_str lane, const ef_holding *held,
                                  size_t limit, int64_t *out_count, ef_error *err);
ef_status ef__mem_published_count(ef_journal *journal, ef_str lane, size_t most, int64_t *out_count,
                                  ef_error *err);
ef_status ef__mem_take(ef_journal *journal, const ef__taking *take, ef_taken_batch *out,
                       ef_error *err);
ef_status ef__mem_mark(ef_journal *journal, const ef__marking *mark, ef_error *err);
ef_status ef__mem_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                            ef_error *err);
ef_status ef__mem_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                                   ef_outbox_summary *out, ef_error *err);
ef_status ef__mem_outbox_waits(ef_journal *journal, bool *out, ef_error *err);
ef_status ef__mem_retry_streams(ef_journal *journal, const ef__retry_query *query,
                                ef__retry_stream_list *out, ef_error *err);
ef_status ef__mem_revise(ef_journal *journal, const ef__revise *revise, ef_row_list *out,
                         ef_error *err);
ef_status ef__mem_skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                          size_t limit, ef__skip_list *out, ef_error *err);
void ef__mem_act_free(mem_act *act);
/* Room for `count` more skips. */
ef_status ef__mem_skips_reserve(mem_journal *m, size_t count, ef_error *err);
void ef__mem_skip_free(mem_skip *skip);
/* Room for it was reserved. */
ef_status ef__mem_skip_push(mem_journal *m, const ef__skip_entry *entry, ef_error *err);
/* Take back what the last entries about an event say. Room for as many as there are was reserved.
 */
void ef__mem_skip_withdraw(mem_journal *m, ef_str projection, const ef_event *event);
ef_status ef__mem_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err);
ef_status ef__mem_act_add(ef_journal *journal, const ef_act *act, ef_error *err);
ef_status ef__mem_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out,
                         ef_error *err);

ef_status ef__mem_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                             const ef__beat *beat, ef_error *err);
ef_status ef__mem_throughput_add(mem_journal *m, const ef_throughput *minute, ef_error *err);
ef_status ef__mem_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                                ef_error *err);
ef_status ef__mem_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                           ef_error *err);
ef_status ef__mem_worker_beat(mem_journal *m, const ef_worker *worker, int64_t heartbeat_ms,
                              ef_error *err); /* mutex held */
ef_status ef__mem_worker_leave(ef_journal *journal, ef_str id, ef_error *err);
ef_status ef__mem_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                               int64_t *out_purged, ef_error *err);
ef_status ef__mem_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);
ef_status ef__mem_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);
ef_status ef__mem_partition_sync(ef_journal *journal, const ef_partition_change *change,
                                 ef_partition_changed *out, ef_error *err);
ef_status ef__mem_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                              ef_error *err);
ef_status ef__mem_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                             int64_t token, ef_error *err);
ef_status ef__mem_run_cancel(ef_journal *journal, ef_str id, ef_error *err);
ef_status ef__mem_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                         ef_error *err);

#endif
