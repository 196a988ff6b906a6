/*
 * membership.h - which worker holds which partitions: heartbeats, targets, leases.
 *
 * The live workers share the partitions by a stable modulo over their sorted ids. A worker acquires
 * the leases of its targets, releases others, and works only on partitions that it holds. Heartbeat
 * and renewal happen in one beat, every third of the lease; between two beats nothing is read or
 * written here. While partitions change holders beats come sooner, so that workers which start
 * together share within a second. A heartbeat lasts twice as long as a lease; a worker without a
 * beat for half of it is late and gets no share, so its partitions are taken over when its leases
 * end. If the store's clock is set back, a worker that has not beaten by the new time within a
 * lease is dead too.
 *
 * The store's clock decides when a lease ends. The own clock may only end it sooner: a lease counts
 * as ended when its length has passed since it was requested.
 */
#pragma once

#include "../journal/journal.h"

#include <everfold/engine.h>
#include <everfold/outbox.h>

typedef struct ef__partition_hold {
    int64_t token;    /* 0: not held */
    int64_t until_us; /* monotonic: the lease counts as ended from then on */
} ef__partition_hold;

/* Times are monotonic. */
typedef struct ef__membership {
    ef_engine *engine;
    ef_str lane;        /* "": partitions of the apply lanes; else of this publisher, which has no
                         * heartbeat */
    bool divided;       /* a publisher whose partitions the workers share; else one worker holds all
                         * of them, or none */
    int32_t partitions; /* as of the last beat */
    ef__partition_hold *holds;  /* one per partition; those above the count are not held */
    int32_t hold_count;         /* the highest count so far */
    ef_partition_lease *leases; /* those of the holds that are held, as they were last asked for */
    bool single;                /* no heartbeat, all partitions, one fixed owner name */
    int64_t lease_ms, renew_ms, heartbeat_ms;
    int64_t beaten_us, renewed_us; /* when leases were last acquired, or only renewed */
    _Atomic int64_t next_beat_us;  /* 0: at once; read by the task that waits for it, too */
    int64_t next_idle_us;          /* idle: when the next heartbeat is due; 0: not idle */
    int64_t next_purge_us;
    int64_t wanting_us;        /* since when another worker holds a target of ours; 0: none does */
    int64_t soon_ms;           /* interval while partitions change holders; 0: they do not */
    _Atomic uint64_t live_sum; /* of the ids of other live workers: publishers compare it */
    bool joined;               /* our heartbeat is in the store */
    int64_t active_workers, desired_count; /* as of the last beat */
} ef__membership;

/* Reads the number of partitions. */
ef_status ef__membership_open(ef__membership *membership, ef_error *err);

/*
 * When a beat is due: writes the heartbeat, reads the other workers, acquires, renews and releases
 * leases. Otherwise nothing. Results are added to `tick`. A partition that another worker holds is
 * not an error: it is requested again at the next beat, or when that lease ends.
 */
ef_status ef__membership_step(ef__membership *membership, const ef_work_options *options,
                              ef_tick *tick, ef_error *err);

/* The leases held now, until the next call. For a publisher that is not divided all, or none. */
ef_partition_lease *ef__membership_leases(ef__membership *membership, size_t *out_count);
/* The token of the first partition; writes about all partitions carry it. 0: it is not held. */
int64_t ef__membership_token(const ef__membership *membership);
/* Is this the worker that does what one of all workers has to do? The holder of the first
 * partition, or the only worker. */
bool ef__membership_is_first(const ef__membership *membership);
/* Are all these leases still held, under the same tokens? */
bool ef__membership_holds(const ef__membership *membership, const ef_partition_lease *leases,
                          size_t count);

/*
 * During long work: renews the leases held once a third of the lease has passed, else nothing. A
 * lost lease is no longer held afterwards; a write under its token is refused.
 */
ef_status ef__membership_renew(ef__membership *membership, ef_tick *tick, ef_error *err);

/* A write was refused under these tokens: drops the lost leases, and beats soon. */
ef_status ef__membership_recheck(ef__membership *membership, ef_tick *tick, ef_error *err);

/* No work: releases everything and writes the heartbeat with state idle, in one commit. Called
 * again, it renews that heartbeat once a minute. The next beat ends it. */
ef_status ef__membership_idle(ef__membership *membership, ef_tick *tick, ef_error *err);

/* Releases everything and removes the worker row. */
void ef__membership_leave(ef__membership *membership);
void ef__membership_release(ef__membership *membership); /* the memory only */
