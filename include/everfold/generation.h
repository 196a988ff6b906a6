/*
 * generation.h - the builds of a projection: making one beside another, comparing, switching.
 *
 * Queries go to one generation of a projection, the routed one. Another is built beside it from the
 * first event on, and when it is up to date the route is moved in one transaction, and back the
 * same way. The one that queries no longer go to is kept up to date too, until it is retired.
 */
#ifndef EVERFOLD_GENERATION_H
#define EVERFOLD_GENERATION_H

#include <everfold/projection.h>
#include <everfold/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who asks, and why: kept for good. */
typedef struct ef_rebuild {
    ef_str projection;
    bool in_place;      /* the old one goes at once: readers see the new one grow */
    bool no_switch;     /* beside it, and leave the switch to a person */
    bool switch_anyway; /* also if views differ from those of the active generation */
    ef_str who;
    ef_str reason;
} ef_rebuild;

/*
 * File a run that folds all events into the projection anew, with the program that is routed. By
 * default that is done beside the routed generation. It is switched to if all views are the same,
 * or with `switch_anyway`; otherwise the run completes with an error that says how many differ, and
 * the new generation stays beside the active one until an operator switches to it or retires it.
 * EF_NOT_FOUND, EF_CONFLICT: it is paused, or EF_EXISTS: a run of this projection is open
 */
ef_status ef_projection_rebuild(ef_engine *engine, const ef_rebuild *rebuild, ef_run_list *out,
                                ef_error *err);

/*
 * File a run that folds all events anew into a generation of its own, compares digest and views
 * with the routed one, and removes it again. What differs is in the run's detail.
 */
ef_status ef_projection_verify(ef_engine *engine, ef_str projection, ef_str who, ef_str reason,
                               ef_run_list *out, ef_error *err);

/* What a run over generations found: of its detail. */
typedef struct ef_verdict {
    int32_t generation; /* that was routed, and … */
    int32_t built;      /* … the one that was made; 0: none */
    bool compared;
    bool switched;       /* queries go to the one that was made */
    int64_t views;       /* that were compared */
    int64_t differences; /* views that are not the same on both sides */
    ef_str examples;     /* JSON array of the first few: {"tenant","view_id"} */
} ef_verdict;

/* `run` is borrowed for as long as `out` is looked at. */
ef_status ef_run_verdict(const ef_run *run, ef_verdict *out, ef_error *err);

/* One generation of a projection: by its number, or the newest of a version. */
typedef struct ef_route {
    ef_str projection;
    int32_t version;    /* 0: not given */
    int32_t generation; /* 0: not given */
    int64_t lag_max;    /* events that it may be behind: default none */
    ef_str who;
    ef_str reason;
} ef_route;

/*
 * Let queries go to another generation, from one moment to the next.
 * EF_NOT_FOUND, or EF_CONFLICT: it is not live, or behind by more than lag_max events
 */
ef_status ef_projection_switch(ef_engine *engine, const ef_route *route, ef_error *err);
/* The same, back to the generation that queries went to before. EF_NOT_FOUND: there is none. */
ef_status ef_projection_rollback(ef_engine *engine, const ef_route *route, ef_error *err);
/*
 * Remove a generation, or all of a version, with its views. *out_count (may be NULL): how many.
 * EF_NOT_FOUND, or EF_CONFLICT: queries go to it
 */
ef_status ef_projection_retire(ef_engine *engine, const ef_route *route, int64_t *out_count,
                               ef_error *err);

/* A view that is not the same in two generations. */
typedef struct ef_difference {
    ef_str tenant;
    ef_str view_id;
    ef_str left; /* JSON; ptr NULL when there is none */
    ef_str right;
} ef_difference;

typedef struct ef_diff {
    int64_t views; /* that were compared */
    int64_t left_only, right_only, different;
} ef_diff;

/*
 * Compare the views of two generations, chosen as for a switch; `each` (may be NULL) is called for
 * each that differs, by tenant and id, what only the right has last, until it returns false; then
 * the counts say what was seen so far. One that changes meanwhile is looked
 * at again, so that work that goes on makes no differences of its own as long as both are live.
 */
ef_status ef_projection_diff(ef_engine *engine, const ef_route *left, const ef_route *right,
                             bool (*each)(void *context, const ef_difference *difference),
                             void *context, ef_diff *out, ef_error *err);

/* A view that is known already. */
typedef struct ef_seed_view {
    ef_str tenant;
    ef_str view_id;
    ef_str data;                 /* JSON */
    int64_t last_event_sequence; /* position of the event that changed it last; 0: not known */
} ef_seed_view;

typedef struct ef_seed {
    ef_str projection;
    int64_t position; /* the views are what the events up to here make */
    /* Gives view by view, in any order, each once, good until the next call; *out_more false: there
     * are no more. What goes wrong ends the seed. */
    ef_status (*next)(void *context, ef_seed_view *out, bool *out_more, ef_error *err);
    void *context;
    ef_str who;
    ef_str reason;
} ef_seed;

/*
 * Make a generation of the routed program out of views that are known, and let it go on behind
 * their position: it catches up from there, and queries go to it once it is switched to. On failure
 * nothing of it is kept. `out` is the run that it was.
 * EF_NOT_FOUND, EF_EXISTS, or EF_BAD_INPUT: a view is given twice, or the position lies ahead
 */
ef_status ef_projection_seed(ef_engine *engine, const ef_seed *seed, ef_run_list *out,
                             ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
