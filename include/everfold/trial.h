/*
 * trial.h - what a projection would make of an event, tried aside: nothing is written.
 *
 * For an operator who has an event before him that a projection could not digest, and wants to know
 * what would come of it before it is released.
 */
#ifndef EVERFOLD_TRIAL_H
#define EVERFOLD_TRIAL_H

#include <everfold/projection.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A view that the event would change. */
typedef struct ef_trial_view {
    ef_str view_id;
    ef_str before; /* JSON; ptr NULL when there is none */
    ef_str after;
} ef_trial_view;

typedef enum ef_trial_outcome {
    EF_TRIAL_APPLIED,  /* `views` is what it would change */
    EF_TRIAL_IGNORED,  /* no handler takes it */
    EF_TRIAL_FAILED,   /* `message` says why, `line` where in the program */
    EF_TRIAL_DONE,     /* this generation is past it: there is nothing to release */
    EF_TRIAL_WAITS,    /* an event before it in its stream has to be applied first: `next_seq` */
    EF_TRIAL_NOT_TRIED /* a draft: the limit on events was reached before */
} ef_trial_outcome;

const char *ef_trial_outcome_name(ef_trial_outcome outcome); /* "applied" */

typedef struct ef_trial {
    ef_trial_outcome outcome;
    int32_t version, generation; /* that it was tried with */
    int32_t line;                /* FAILED: 0 when it is not a line's fault */
    ef_str message;
    int64_t next_seq; /* the one of the stream that the generation would take next */
    int32_t schema;   /* of the event as the handlers see it, … */
    ef_str seen;      /* … and its data, after upcasts */
    const ef_trial_view *views;
    size_t view_count;
    struct ef__batch_room *room;
} ef_trial;

void ef_trial_release(ef_trial *trial);

/* Which event, and which program: a generation by its number; 0: the newest version there is. */
typedef struct ef_trial_ask {
    ef_str projection;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int32_t generation;
} ef_trial_ask;

/*
 * Fold the event into the views as they are, in memory.
 * EF_NOT_FOUND    no such projection, generation or event
 * EF_UNSUPPORTED  it is a projection written in C whose function is not here
 */
ef_status ef_projection_try(ef_engine *engine, const ef_trial_ask *ask, ef_trial *out,
                            ef_error *err);

/* --- a draft against the events that failed -----------------------------------------------------
 */

#define EF_DRAFT_EVENTS_MAX 1000000 /* that one call folds */
#define EF_DRAFT_ROWS_MAX 10000

/* A program that is not deployed. */
typedef struct ef_draft {
    const char *file_name; /* for messages */
    ef_str text;
    const ef_str *tenant; /* only failures of this one; NULL: of all */
    size_t limit;         /* failed events to try; 0 means 100, at most EF_DRAFT_ROWS_MAX */
} ef_draft;

/* An event that fails in a deployed version, or fails with the draft. */
typedef struct ef_draft_row {
    ef_str tenant, stream;
    int64_t seq, position;
    int32_t version; /* the deployed version that fails on it; 0: none does */
    ef_str error;    /* of that version */
    ef_trial_outcome outcome;
    ef_str message; /* FAILED: the error of the draft */
} ef_draft_row;

typedef struct ef_drafted {
    int32_t version;                                    /* of the draft */
    int64_t streams, events;                            /* that were folded */
    int64_t applied, ignored, failed, waits, not_tried; /* of the events that fail now */
    int64_t newly_failed; /* events that no deployed version fails on */
} ef_drafted;

/*
 * Fold the draft over every stream that has a failed event, from the stream's first event, into
 * empty views in memory; of a program in the order of the log, over all events of the tenant.
 * Lookups read the views of the store. A stream ends at the first event that the draft fails on.
 * `each` gets the rows in the order of tenant, stream and seq, until it returns false.
 * EF_BAD_INPUT  the program has a mistake: `out_report` says where
 * EF_NOT_FOUND  no version of the projection is deployed
 */
ef_status ef_projection_try_draft(ef_engine *engine, const ef_draft *draft,
                                  bool (*each)(void *context, const ef_draft_row *row),
                                  void *context, ef_drafted *out, ef_text *out_report,
                                  ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
