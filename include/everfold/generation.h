/*
 * generation.h - generations of a projection: build beside, compare, switch, retire.
 *
 * Queries read the active generation of a projection. Another one is built beside it from the first
 * event, and when it is up to date it is made active in one transaction (switch), and back in the
 * same way (rollback). A superseded generation is kept up to date until it is retired.
 */
#pragma once

#include <everfold/projection.h>
#include <everfold/run.h>

EF_C_BEGIN

/* Actor and reason are kept in the audit entry. */
typedef struct ef_rebuild {
    ef_str projection;
    bool in_place;      /* the new generation is active at once: readers see it grow */
    bool no_switch;     /* build beside, and leave the switch to an operator */
    bool switch_anyway; /* even if views differ from those of the active generation */
    bool verify; /* only compare: the side build is removed, and the run is one of EF_RUN_VERIFY */
    ef_str actor;
    ef_str reason;
} ef_rebuild;

/*
 * Adds a run that folds all events from scratch with the active program. By default a generation is
 * built beside the active one, and becomes active if all views are equal, or with `switch_anyway`;
 * otherwise the run completes with an error that says how many differ, and the new generation stays
 * beside the active one until an operator switches to it or retires it. With `verify` the run
 * compares digest and views, and its detail has the differences (ef_run_verdict).
 * EF_NOT_FOUND, EF_CONFLICT: it is paused, or EF_EXISTS: a run of this projection is open
 */
ef_status ef_projection_rebuild(ef_engine *engine, const ef_rebuild *rebuild, ef_run_list *out,
                                ef_error *err);

/* The result of a rebuild or a verification, from the run's detail. */
typedef struct ef_verdict {
    int32_t generation; /* active at the start, and … */
    int32_t built;      /* … the new one; 0: none */
    bool compared;
    bool switched;       /* the new generation is active */
    int64_t views;       /* number of compared views */
    int64_t differences; /* views that differ */
    ef_str examples;     /* JSON array of the first few: {"tenant","view_id"} */
} ef_verdict;

/* `out` borrows from `run`. */
ef_status ef_run_verdict(const ef_run *run, ef_verdict *out, ef_error *err);

/* One generation of a projection: by its number, or the newest of a version. */
typedef struct ef_generation_choice {
    ef_str projection;
    int32_t version;    /* 0: not given */
    int32_t generation; /* 0: not given */
    bool previous;      /* instead: the one that was active before. Switching only */
    int64_t lag_max;    /* events that it may lag; default 0 */
    ef_str actor;
    ef_str reason;
} ef_generation_choice;

/*
 * Makes another generation active, in one transaction. To roll back, choose `previous`.
 * EF_NOT_FOUND, or EF_CONFLICT: it is not live, or lags by more than lag_max events
 */
ef_status ef_projection_switch(ef_engine *engine, const ef_generation_choice *route, ef_error *err);
/*
 * Removes a generation, or all of a version, with its views. *out_count (may be NULL): how many.
 * EF_NOT_FOUND, or EF_CONFLICT: it is active
 */
ef_status ef_projection_retire(ef_engine *engine, const ef_generation_choice *route,
                               int64_t *out_count, ef_error *err);

/* A view that differs between two generations. */
typedef struct ef_difference {
    ef_str tenant;
    ef_str view_id;
    ef_str left; /* JSON; ptr NULL: none */
    ef_str right;
} ef_difference;

typedef struct ef_diff {
    int64_t views; /* number of compared views */
    int64_t left_only, right_only, different;
} ef_diff;

/*
 * Compares the views of two generations. `each` (may be NULL) is called for each difference, by
 * tenant and id, views that only the right has last, until it returns false; the counts then cover
 * what was compared so far. A view that changes meanwhile is read again, so that concurrent work
 * causes no differences while both are live.
 */
ef_status ef_projection_diff(ef_engine *engine, const ef_generation_choice *left,
                             const ef_generation_choice *right,
                             bool (*each)(void *context, const ef_difference *difference),
                             void *context, ef_diff *out, ef_error *err);

/* A view to start with. */
typedef struct ef_seed_view {
    ef_str tenant;
    ef_str view_id;
    ef_str data;                 /* JSON */
    int64_t last_event_sequence; /* position of the event that changed it last; 0: unknown */
} ef_seed_view;

typedef struct ef_seed {
    ef_str projection;
    int64_t position; /* the views contain the events up to here */
    /* Returns view by view, in any order, each once, valid until the next call; *out_more false: no
     * more. A failure ends the seed. */
    ef_status (*next)(void *context, ef_seed_view *out, bool *out_more, ef_error *err);
    void *context;
    ef_str actor;
    ef_str reason;
} ef_seed;

/*
 * Creates a generation of the active program from given views. It catches up after their position,
 * and becomes active with a switch. On failure nothing of it is kept. `out` is its run.
 * EF_NOT_FOUND, EF_EXISTS, or EF_BAD_INPUT: a view is given twice, or the position is above the
 * head
 */
ef_status ef_projection_seed(ef_engine *engine, const ef_seed *seed, ef_run_list *out,
                             ef_error *err);

EF_C_END
