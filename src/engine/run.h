/*
 * run.h - runs: who drives them, and what each mode does in a step.
 *
 * A run is a record in the journal. Whoever drives it holds the lease of its scope and moves it on
 * in bounded steps; all that a step needs to go on is in the record and in the stores, so another
 * worker goes on where one has vanished. A step may be done twice: nothing is written but under the
 * lease's token, or through the apply, which takes an event once.
 */
#ifndef EF_ENGINE_RUN_H
#define EF_ENGINE_RUN_H

#include "queue.h"

#include <everfold/generation.h>
#include <everfold/replay.h>

/* The detail of a run, which is JSON in the journal. What is 0, false or "" is left out. */
typedef struct ef__detail {
    /* asked for */
    ef_str stream, type;
    bool all_tenants;
    int64_t from_us, to_us, after_seq, until_seq;
    bool in_place, no_switch, switch_anyway;
    /* on the way */
    int64_t upper;      /* replay: the last position */
    int64_t last_seq;   /* replay of a stream: done up to here */
    int64_t generation; /* number of the one that was routed */
    int64_t built;      /* number of the one that the run makes, noted before it is made */
    bool swapped;       /* in place: it is routed, and the old one is retired */
    /* what came of it */
    int64_t applied, duplicates, ignored, failed, deferred;
    bool compared, switched;
    int64_t views, differences;
    ef_str examples; /* JSON */
} ef__detail;

/* `text` is borrowed: strings of `out` point into it or into `arena`. */
ef_status ef__detail_parse(ef_str text, ef__arena *arena, ef__detail *out, ef_error *err);
/* In `out`; false when memory ran out. */
bool ef__detail_write(const ef__detail *detail, ef__buf *out);

/* A run in somebody's hands. */
typedef struct ef__driven {
    ef_engine *engine;
    ef_run run; /* as it is to be written */
    ef__detail detail;
    ef__arena arena; /* of the detail's strings */
    ef_lease_key key;
    int64_t token;
    ef_tick *tick;
    bool idle; /* out: it waits for another driver, or for the world */
} ef__driven;

/* Take or renew the lease of the run's scope. EF_LEASE_HELD */
ef_status ef__run_take(ef__driven *d, ef_error *err);
/* Write the run as it is now, under the token. */
ef_status ef__run_save(ef__driven *d, ef_error *err);

/*
 * A bounded step of a mode. It moves processed, total and last_position, and sets the state to
 * EF_RUN_COMPLETED at the end. EF_CONFLICT: somebody else was quicker, try again.
 */
ef_status ef__replay_step(ef__driven *d, ef_error *err);
ef_status ef__rebuild_step(ef__driven *d, ef_error *err);
ef_status ef__verify_step(ef__driven *d, ef_error *err);
/* Have queries gone over to what it has built? Then there is nothing left to be cancelled. */
ef_status ef__rebuild_is_done(ef__driven *d, bool *out, ef_error *err);
/* The run is cancelled or has failed: remove what it leaves half made. */
ef_status ef__rebuild_undo(ef__driven *d, ef_error *err);

/* A step of the oldest run that nobody else drives. */
ef_status ef__run_step(ef_engine *engine, ef_tick *tick, ef_error *err);
ef_status ef__run_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                       ef_error *err);
/* Does no other worker live? One that does claims what is queued; where there is none, whoever
 * needs the result does. */
ef_status ef__worker_is_alone(ef_engine *engine, bool *out, ef_error *err);
/* Give the lease back that is held for a run. */
void ef__run_leave(ef_engine *engine);

/* File a run with this detail. (run.c) */
ef_status ef__run_file(ef_engine *engine, const ef_run *run, const ef__detail *detail,
                       ef_run_list *out, ef_error *err);

/* --- generations (generation.c) --------------------------------------------------------------- */

/* The generation of that number; NULL when there is none. */
const ef__generation *ef__generation_number(const ef__generation_list *list, int64_t number);
/* Was it retired after it was deployed by an operator for the last time? By the audit entries. */
ef_status ef__version_is_retired(ef_engine *engine, ef_str name, int64_t version, bool *out,
                                 ef_error *err);
ef_status ef__generations_read(ef_engine *engine, ef_str name, ef__generation_list *out,
                               ef_error *err);
/* Let queries go to `to`, and note the act: the note first, for a rollback reads it. */
ef_status ef__generation_route(ef_engine *engine, const ef__generation *from,
                               const ef__generation *to, const char *act, ef_str who, ef_str reason,
                               ef_error *err);

/* Take it out of the live ones: nobody writes to it any more, and queries never went to it. Its
 * name and version are free; its rows go by sweeping. */
ef_status ef__generation_retire(ef_engine *engine, const ef__generation *generation, ef_error *err);
/* Remove a slice of a retired one. *out_more: call again. One that is gone is fine. */
ef_status ef__generation_sweep(ef_engine *engine, const ef__generation *g, int64_t era,
                               bool *out_more, ef_error *err);
/* A slice of the first retired one of the list, if there is one: what a process that ended, or a
 * run, has left. */
ef_status ef__retired_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                           ef_error *err);

/* Now and then: retire what queries have left long enough ago. */
ef_status ef__grace_step(ef_engine *engine, const ef__generation_list *list, ef_tick *tick,
                         ef_error *err);

/* --- comparing (compare.c) -------------------------------------------------------------------- */

typedef bool ef__differs(void *context, const ef_difference *difference);
ef_status ef__generations_compare(ef_engine *engine, const ef__generation *left,
                                  const ef__generation *right, ef__differs *each, void *context,
                                  ef_diff *out, ef_error *err);

/* --- gaps (gaps.c) ---------------------------------------------------------------------------- */

/* Files what a generation lacks that is fed by the queue and that nothing would bring: a page of
 * streams. *out_done: that was the last. Only while a run is driven. */
ef_status ef__gaps_file(ef_engine *engine, const ef__generation *generation, bool *out_done,
                        ef_error *err);
/*
 * At the start of work, behind a tick's other work: a bounded piece of looking for gaps and filing
 * them; nothing once done. One of the crew looks, who holds the first partition; and not while the
 * queue has more than a batch, for it would be counted, and what it brings is no gap; but for a
 * minute at the most.
 */
ef_status ef__gaps_start(ef_engine *engine, ef_tick *tick, ef_error *err);
bool ef__gaps_wait(const ef_engine *engine); /* it has yet to look */

#endif
