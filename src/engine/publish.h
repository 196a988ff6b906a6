/*
 * publish.h - the publisher driver: from the rows of a publisher's lane to its sink.
 *
 *     take ─► key, group ─► deliver ─► mark under the token
 *                                       delivered: the mark passes it (kept for a while, if asked)
 *                                       failed: an exception, due again after retry_ms; what is of
 *                                               its stream behind it waits as pending
 *                                       sink not at hand: the mark stops before it
 *
 * Nothing is marked that was not delivered, so a crash between the two delivers it again. What was
 * published is kept for a while, and purged only after a look at the sink has shown that it still
 * has what it acknowledged: one that has not is handed everything back that is kept. Order is
 * by stream: rows whose stream has an exception are filed behind it, and exceptions go out in their
 * order. Each publisher has leases, a sink, a budget and a health of its own; a thread of its own
 * too where a supervisor keeps them (publish_list.c), so one that hangs delays nobody.
 */
#ifndef EF_ENGINE_PUBLISH_H
#define EF_ENGINE_PUBLISH_H

#include "engine_priv.h"

#include "../bus/bus.h"

#include <everfold/publisher.h>

typedef struct ef__publishing {
    ef_engine *engine;
    char name[256];
    pthread_mutex_t stepping; /* one step at a time; it guards … */
    ef__arena arena;          /* … the definition, */
    ef_publisher definition;
    ef_str settings;                                /* … as it was read, */
    ef__crew crew;                                  /* leases, */
    ef__bus *bus;                                   /* the sink; NULL: not opened, */
    size_t batch;                                   /* how many rows are taken next, */
    int64_t next_try_us, next_purge_us;             /* monotonic, */
    char noted[512];                                /* the progress that was noted last, */
    int64_t token;                                  /* under which it was read, */
    bool is_copy;                                   /* the journal is, and was not adopted, */
    int64_t handed;                                 /* and what a sink was handed back so far */
    ef_publisher_health is;                         /* under the engine's lock, as is … */
    int64_t step_us;                                /* … when the step under way began, or 0 */
    int64_t told_published, told_failed, told_dead; /* … and what the ticks have had of them */
    bool gone;                                      /* it is no longer in the journal */
    pthread_t thread;
    bool threaded;
    atomic_bool stop;
    struct ef__publishing *next;
} ef__publishing;

/* A tick of every publisher, one after the other. */
ef_status ef__publish_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                           ef_error *err);
/* For a supervisor: see to it that each publisher has its thread, and add up what they did. */
ef_status ef__publish_keep(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                           ef_error *err);
/* End the threads: nothing new is begun, what is in hand is finished or given up. */
void ef__publish_stop(ef_engine *engine);
/* `abandon`: as a crash would, without giving leases back. */
void ef__publish_close(ef_engine *engine, bool abandon);

/* A bounded piece of one publisher's work. A sink that is not at hand is no failure of the step. */
ef_status ef__publish_step(ef__publishing *p, const ef_work_options *options, ef_tick *tick,
                           ef_error *err);
/* Bring the list in line with the journal. */
ef_status ef__publish_refresh(ef_engine *engine, ef_error *err);
/* What was done since the last time, for a tick. */
void ef__publish_tell(ef_engine *engine, ef_tick *tick);

static inline int64_t ef__publish_mono_us(const ef__publishing *p)
{
    return p->engine->options.clock->mono_us(p->engine->options.clock->context);
}

/* The token of a publisher that is ours; 0: it is not. */
static inline int64_t ef__publish_token(const ef__publishing *p)
{
    const ef__hold *first = p->crew.holds;

    return first && first->token && ef__publish_mono_us(p) < first->until_us ? first->token : 0;
}

static inline ef_status ef__publish_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while publishing");
}

static inline void ef__publish_note_due(ef_tick *tick, int64_t due_us)
{
    if (due_us && (!tick->due_us || due_us < tick->due_us))
        tick->due_us = due_us;
}

/* --- definitions (publisher.c) ---------------------------------------------------------------- */

bool ef__lane_is_publisher(const ef_lane *lane);
/* Texts stay in the lane or the arena. */
ef_status ef__publisher_read(const ef_lane *lane, ef__arena *arena, ef_publisher *out,
                             ef_error *err);
ef__bus_options ef__publisher_bus_options(const ef_publisher *publisher);

/* --- keys (publish_key.c) --------------------------------------------------------------------- */

/* Give messages their keys and groups: what shares a stream or a key is in one group. */
ef_status ef__publish_keys(const ef_publisher *publisher, ef__bus_message *messages, size_t count,
                           bool grouped, ef__arena *arena, ef_error *err);

#endif
