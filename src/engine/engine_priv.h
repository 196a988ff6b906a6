/*
 * engine_priv.h - the engine's own things, seen by its room only.
 */
#ifndef EF_ENGINE_ENGINE_PRIV_H
#define EF_ENGINE_ENGINE_PRIV_H

#include "../base/buf.h"
#include "../fold/fold.h"
#include "../views/views.h"

#include <everfold/engine.h>
#include <everfold/outbox.h>
#include <everfold/projection.h>
#include <everfold/view.h>

#include <pthread.h>

#define EF__ENGINE_BATCH 1000           /* events at a time, by default */
#define EF__ENGINE_CATCH_UP_BATCH 10000 /* catching up: large commits, hot views stay in memory */
#define EF__ENGINE_LEASE_MS 10000
#define EF__ENGINE_START_OVER 8 /* times an apply starts over when somebody else was quicker */

/* A compiled program of a generation; kept for as long as the engine is open. */
typedef struct ef__compiled {
    int64_t generation;
    ef__program *program;
    struct ef__compiled *next;
} ef__compiled;

struct ef_engine {
    ef_engine_options options; /* clock filled in */
    ef_journal *journal;
    ef_views *views;
    char worker[80];
    pthread_mutex_t lock; /* of what follows */
    ef__compiled *compiled;
    pthread_mutex_t working; /* one tick at a time */
    int64_t *tokens;         /* of the partitions' leases; 0: not held */
    int32_t partitions;
};

/* A generation with its program. */
typedef struct ef__live {
    const ef__generation *generation;
    const ef__program *program;
} ef__live;

/* The generations that are fed by the queue, as of one moment. */
typedef struct ef__live_set {
    ef__live *items;
    size_t count;
    int64_t number; /* of the set: an apply presents it */
    ef__generation_list list;
} ef__live_set;

int64_t ef__engine_now(const ef_engine *engine);
ef_status ef__engine_program(ef_engine *engine, const ef__generation *generation,
                             const ef__program **out, ef_error *err);
/* `stream_ordered_live`: the live ones of the queue; otherwise all that are not retired. */
ef_status ef__live_set_read(ef_engine *engine, bool stream_ordered_live, ef__live_set *out,
                            ef_error *err);
void ef__live_set_release(ef__live_set *set);

/* The generation that queries for `name` go to; EF_NOT_FOUND. `list` owns it. */
ef_status ef__engine_routed(ef_engine *engine, ef_str name, ef__generation_list *list,
                            const ef__generation **out, ef_error *err);
/* Up to which position a generation has everything. */
ef_status ef__engine_as_of(ef_engine *engine, const ef__generation *generation, int64_t *out,
                           ef_error *err);

#endif
