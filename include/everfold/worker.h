/*
 * worker.h - workers: their heartbeats, leases and partitions, and what they did per minute.
 */
#pragma once

#include <everfold/journal.h>

EF_C_BEGIN

/* --- workers ---------------------------------------------------------------------------------- */

/*
 * A worker is live until its heartbeat expires by the clock of the store. It sends several
 * heartbeats per half of that time; a worker that missed half of it is late. Placement spreads the
 * partitions over the workers that are live and not late, so that a worker that crashed is replaced
 * when its leases expire (half a heartbeat), while it is still listed for as long again.
 *
 * A worker without work is idle: it holds no lease and gets no partitions, and its heartbeat is
 * long, so that it writes once a minute at most.
 */

typedef enum ef_worker_state {
    EF_WORKER_WORKING,
    EF_WORKER_IDLE,
    EF_WORKER_LATE, /* it missed half of its heartbeat: other workers get its partitions */
    EF_WORKER_STALE /* its heartbeat has expired */
} ef_worker_state;

typedef struct ef_worker {
    ef_str id; /* 1 to 255 bytes, unique among workers */
    ef_str host;
    int64_t pid;
    int64_t started_us;
    int64_t updated_us;
    int64_t heartbeat_until_us;
    bool live;
    bool late; /* live, but it missed half of its heartbeat: other workers get its partitions */
    ef_worker_state state; /* in a heartbeat: working or idle. In a list: the current state */
} ef_worker;

typedef struct ef_worker_list {
    const ef_worker *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_worker_list;

/* All workers, by id. */
ef_status ef_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err);

/*
 * The partitions, of `partitions`, that the worker at `index` of the list should hold: a stable
 * modulo over the working ones. `out` has space for `partitions` numbers, ascending; returns their
 * count. A worker in another state should hold none.
 */
size_t ef_worker_targets(const ef_worker_list *list, size_t index, int32_t partitions,
                         int32_t *out);

/* --- leases ----------------------------------------------------------------------------------- */

/*
 * A lease is the right to work on something until a time.
 *
 * One table holds the leases of all kinds. A lease can be acquired when it is free or has expired;
 * every take-over increments the token, a renewal does not. The clock of the store decides. A lease
 * alone does not make a write safe: every write under a lease passes the token, and is refused when
 * the token is old.
 */

typedef enum ef_lease_kind {
    EF_LEASE_PARTITION, /* a partition of the apply lanes; name "", partition n */
    EF_LEASE_PUBLISHER, /* a partition of a publisher; name its lane, partition n */
    EF_LEASE_SCOPE,     /* a scope of the cursor driver; name "tenant:projection:partition" */
    EF_LEASE_RUN        /* a run; name its scope */
} ef_lease_kind;

typedef struct ef_lease_key {
    ef_lease_kind kind;
    ef_str name;       /* at most 600 bytes */
    int32_t partition; /* -1 where the kind has none */
} ef_lease_key;

typedef struct ef_lease {
    ef_lease_key key;
    ef_str holder; /* "" when it is free */
    int64_t token;
    int64_t until_us; /* 0 when it is free */
    int64_t updated_us;
    bool live; /* held, and not expired by the clock of the store */
} ef_lease;

typedef struct ef_lease_list {
    const ef_lease *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_lease_list;

/* All leases, or those of one kind: ordered by kind, name, partition. Free ones are listed too. */
ef_status ef_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                      ef_error *err);

/* --- partitions ------------------------------------------------------------------------------- */

/*
 * Partitions are the buckets of streams that workers share.
 *
 * A stream is in one partition, and a partition has one holder. Their number is a setting of the
 * journal. The partition of an event is decided in the transaction that appends it, by the number
 * of that moment; a queued row keeps its partition.
 *
 * So the number can be raised at any time. A stream that moves has, for a while, rows in two
 * partitions; the watermarks of the projections keep its order meanwhile. Lowering the number is
 * refused while rows wait in a partition that would be removed.
 *
 * A sink has no watermarks: the lane of a publisher has 16 partitions, whatever this number.
 */

#define EF_PARTITIONS_MAX 1024    /* heartbeats renew all leases of a worker in one transaction */
#define EF_PARTITION_LABEL_MAX 12 /* bytes: "p" and any int32_t */

/* "p07"; "p1023" where two digits are not enough; "" below 0. */
void ef_partition_label(int32_t partition, char out[EF_PARTITION_LABEL_MAX]);
/* EF_BAD_INPUT: not a label. */
ef_status ef_partition_parse(ef_str label, int32_t *out, ef_error *err);

/* A partition of the apply lanes: its holder, and its rows there. */
typedef struct ef_partition {
    int32_t number;
    ef_str holder; /* "" when it is free */
    int64_t token;
    int64_t until_us;   /* 0 when it is free */
    bool live;          /* held, and not expired by the clock of the store */
    int64_t pending;    /* queued, not claimed */
    int64_t in_flight;  /* queued and claimed by the holder */
    int64_t retry_rows; /* in the lanes of the projections, dead ones too */
} ef_partition;

typedef struct ef_partition_list {
    const ef_partition *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_partition_list;

/* All partitions, in one snapshot. Queued rows are counted one by one. */
ef_status ef_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err);

typedef struct ef_partition_change {
    int32_t count; /* 1 to EF_PARTITIONS_MAX; 0: unchanged */
    bool prune;    /* remove free and expired leases of partitions beyond the count */
    bool dry_run;  /* change nothing, and return what would be done */
} ef_partition_change;

typedef struct ef_partition_sync_result {
    int32_t before, after;
    int64_t pruned; /* leases removed; of a dry run: that would be removed */
    int64_t kept;   /* leases beyond the count that a worker holds */
} ef_partition_sync_result;

/*
 * Changes the number of partitions. Workers follow at their next heartbeat.
 * EF_EXISTS  rows wait in partitions beyond the new count: the error says how many and where
 */
ef_status ef_partition_sync(ef_journal *journal, const ef_partition_change *change,
                            ef_partition_sync_result *out, ef_error *err);

/* --- throughput ------------------------------------------------------------------------------- */

/*
 * The work of all processes per minute, for the last day.
 *
 * A worker counts its work and adds it to the minute's row in the store: once a minute, in the
 * commit of a heartbeat, and when it becomes idle or stops. The last minute of a killed worker is
 * missing.
 */

#define EF_THROUGHPUT_MINUTES 1440 /* rows that are stored */

typedef struct ef_throughput {
    int64_t at_us;     /* when the minute began */
    int64_t position;  /* of the journal's head when the row was last written */
    int64_t appended;  /* events since the row that was written before; the store counts them */
    int64_t applied;   /* by projections: an event counts once for each that applied it */
    int64_t published; /* messages that sinks have accepted */
    int64_t failed;    /* attempts that failed, of projections and publishers */
    int64_t dead;      /* rows that have become dead */
} ef_throughput;

typedef struct ef_throughput_list {
    const ef_throughput *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_throughput_list;

/* The minutes from `from_us` on, oldest first. A minute without a row is one without work. */
ef_status ef_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                           ef_error *err);

EF_C_END
