/*
 * crew.h - who works where: heartbeats, targets, leases.
 *
 * The live workers share the partitions by a stable modulo. A worker leases what it should have,
 * gives back what it should not, and works on nothing that it does not hold. Heartbeat and renewal
 * keep one cadence, a third of the lease: between two beats nothing is read or written here. While
 * partitions change hands they come sooner, so that workers that start at once share within a
 * second. A heartbeat is twice as long as a lease, and who is silent for half of it is late and has
 * no share: so what a dead worker held, or was about to take, is taken over when its leases run
 * out. When the store's clock is set back, whoever has not beaten by the new time within a lease is
 * dead too.
 *
 * The store's clock decides how long a lease lives. Our own may only make us stop sooner: a lease
 * counts as gone here when its length has passed since we asked for it.
 */
#ifndef EF_ENGINE_CREW_H
#define EF_ENGINE_CREW_H

#include <everfold/engine.h>
#include <everfold/outbox.h>

typedef struct ef__hold {
    int64_t token;    /* 0: not held */
    int64_t until_us; /* monotonic: we stop at this moment at the latest */
} ef__hold;

/* Times are monotonic. */
typedef struct ef__crew {
    ef_engine *engine;
    ef_str lane;        /* "": partitions of the apply lanes; or of this publisher's, which has no
                         * heartbeat of its own: they are all one worker's, or nobody's */
    int32_t partitions; /* as of the last beat */
    ef__hold *holds;    /* one a partition; those beyond the count are not held */
    int32_t hold_count; /* the highest count so far */
    bool single;        /* no heartbeat, all partitions, one fixed name */
    int64_t lease_ms, renew_ms, heartbeat_ms;
    int64_t beaten_us, renewed_us; /* when leases were last taken, or only renewed */
    _Atomic int64_t next_beat_us;  /* 0: at once; read by who waits for it, too */
    int64_t next_idle_us;          /* idle: when the next heartbeat is due; 0: not idle */
    int64_t next_purge_us;
    int64_t wanting_us; /* since when another worker has something we should have; 0: nobody has */
    int64_t soon_ms;    /* how soon the next beat comes while something changes hands; 0: nothing */
    bool joined;        /* our heartbeat is in the store */
    int64_t active_workers, desired_count; /* as of the last beat */
} ef__crew;

/* Learn the number of partitions. */
ef_status ef__crew_open(ef__crew *crew, ef_error *err);

/*
 * When the beat is due: say that we are there, read who else is, lease, renew, release. Otherwise
 * nothing. What it finds is added to `tick`. A partition that another worker holds is not an error:
 * it is tried again at the next beat, or as soon as that lease runs out.
 */
ef_status ef__crew_step(ef__crew *crew, const ef_work_options *options, ef_tick *tick,
                        ef_error *err);

/* What is held now, in `out` (room for crew.partitions); how many. Of a publisher all, or none. */
size_t ef__crew_holdings(const ef__crew *crew, ef_holding *out);
/* For what one of all workers has to do: is it this one? Who holds the first partition, or is
 * alone. */
bool ef__crew_is_first(const ef__crew *crew);
/*
 * For a publisher, once rows were taken: is the number of partitions what it was at the last beat?
 * Otherwise an earlier row of the same stream may lie in one that is not held; the next beat comes
 * at once. A count that was another one meanwhile does no harm: it is lowered to nowhere where rows
 * wait.
 */
ef_status ef__crew_is_whole(ef__crew *crew, bool *out, ef_error *err);

/*
 * In the middle of long work: renew what is held once a third of the lease has passed, else
 * nothing. What is found to be gone is not in the holdings any more; a write under its token is
 * refused.
 */
ef_status ef__crew_keep(ef__crew *crew, ef_tick *tick, ef_error *err);

/* A write was refused under these tokens: drop what is gone, and beat soon. */
ef_status ef__crew_recheck(ef__crew *crew, ef_tick *tick, ef_error *err);

/* The worker has no work: gives everything back and says that it is idle, in one commit. Called
 * again, it renews that heartbeat when it is due: once a minute. The next beat ends it. */
ef_status ef__crew_idle(ef__crew *crew, ef_tick *tick, ef_error *err);

/* Give everything back and leave: no lease and no worker row of ours stays. */
void ef__crew_leave(ef__crew *crew);
void ef__crew_release(ef__crew *crew); /* the memory only */

#endif
