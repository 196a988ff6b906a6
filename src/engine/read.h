/*
 * read.h - reads of views: the active generation of a name, and reads that wait for an append.
 */
#pragma once

#include "engine_priv.h"

/* --- targets (read_target.c) ------------------------------------------------------------------ */

/*
 * The active generation of a name, and its position for a tenant, cached.
 *
 * A read without freshness requirement may report an older position than the views have: the data
 * is at least as new. So one lookup serves all reads of the next few milliseconds. A change that
 * this engine makes to a projection is visible at once.
 */

typedef struct ef__read_target {
    struct ef__read_target *next; /* in the engine's cache */
    int references;               /* of the engine, and of current reads */
    int64_t read_us;              /* when it was read */
    int64_t changes;              /* engine->changes at that time */
    const ef__generation *generation;
    bool migrates; /* some of its views may have an older schema than its program */
    int64_t as_of;
    struct ef__lag *lag; /* for waiting reads (read_wait.c), under reads_lock; NULL: not read */
    int64_t lag_us;      /* when it was read */
    ef__generation_list list; /* owns the generation */
    bool any_tenant;          /* as_of holds for all tenants */
    size_t tenant_len;
    char tenant[];
} ef__read_target;

/* The read target of a name for a tenant, or NULL for all of them; `fresh`: not from the cache.
 * Release it. EF_NOT_FOUND */
ef_status ef__read_target_acquire(ef_engine *engine, ef_str name, const ef_str *tenant, bool fresh,
                                  ef__read_target **out, ef_error *err);
void ef__read_target_release(ef_engine *engine, ef__read_target *target); /* NULL is fine */
/* This engine changed something: cached targets are not used again. */
void ef__read_targets_invalidate(ef_engine *engine);
void ef__read_targets_release(ef_engine *engine);

/* --- requirements (read_target.c) ------------------------------------------------------------- */

typedef struct ef__wanted_stream {
    ef_str tenant, name;
    int64_t seq, position; /* position 0: not known */
} ef__wanted_stream;

/* A waiting read. */
struct ef_view_wait {
    struct ef_view_wait *next; /* in the list of reads that wait for streams */
    ef_engine *engine;
    ef_str projection, tenant_name;
    const ef_str *tenant;       /* tenant_name; NULL: any */
    bool all_views;             /* it waits until the views are migrated, too */
    int64_t generation;         /* whose watermarks it waits for; 0: none yet */
    int64_t position;           /* required; 0: it waits for streams */
    ef__wanted_stream *streams; /* those that are not covered yet */
    size_t count;
    ef__watermark *watermarks; /* of these streams … */
    int64_t read_us;           /* … as of this time */
    bool shares;               /* takes part in the current lookup */
    int64_t blocked_read_us;   /* when it last checked whether a stream is blocked */
    int64_t round_us;          /* lookups from this time on count for it; 0: from now on */
    ef__arena arena;
};

/* Sets the streams or the position that `freshness` requires, in the arena of `read`.
 * EF_BAD_INPUT: an invalid token, or one of another tenant. */
ef_status ef__read_requirement_set(ef_view_wait *read, const ef_freshness *freshness,
                                   ef_error *err);

/* --- waiting (read_wait.c) -------------------------------------------------------------------- */

/*
 * Reads that wait until an append is applied (read your writes).
 *
 * A read token names streams and seqs: it is satisfied when the watermarks of these streams in the
 * active generation cover it (applied, ignored or skipped). `current`, and a token that is a
 * position, require every event up to a position that is not blocked. In a log-ordered projection
 * both require the cursor of the tenant.
 *
 * Commits of this process wake waiting reads at once. Commits of other processes are not announced:
 * one of the waiting reads polls for all. Reads that check at the same moment share the results of
 * their lookups, so that many cost little more than one.
 */

void ef__read_waits_open(ef__read_waits *waits);
void ef__read_waits_close(ef__read_waits *waits);
/* This process has changed views. */
void ef__read_waits_wake(ef_engine *engine);

/*
 * Returns the read target of a name once it is as fresh as required; with `all_views`, once its
 * views are migrated too. Release it. *out_blocked: number of blocked streams for `current`, else
 * 0.
 *
 * EF_TIMEOUT
 * EF_BLOCKED  a stream of the token, or the tenant in a log-ordered projection, is blocked
 */
ef_status ef__read_target_wait(ef_engine *engine, ef_str name, const ef_str *tenant,
                               const ef_freshness *freshness, bool all_views, ef__read_target **out,
                               int64_t *out_blocked, ef_error *err);
