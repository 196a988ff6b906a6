/*
 * trial.h - dry runs: what a program would make of events, without writing.
 *
 * An operator checks with it what a failed event would do before it is requeued, and which failed
 * events a new program would handle.
 */
#pragma once

#include <everfold/projection.h>

EF_C_BEGIN

/* A view that the event would change. */
typedef struct ef_trial_view {
    ef_str view_id;
    ef_str before; /* JSON; ptr NULL: none */
    ef_str after;
} ef_trial_view;

typedef enum ef_trial_outcome {
    EF_TRIAL_APPLIED,  /* `views` has the changes */
    EF_TRIAL_IGNORED,  /* no handler for it */
    EF_TRIAL_FAILED,   /* `message` has the reason, `line` the place in the program */
    EF_TRIAL_DONE,     /* the generation has applied, ignored or skipped it already */
    EF_TRIAL_BLOCKED,  /* an earlier event of its stream has to be applied first: `next_seq` */
    EF_TRIAL_NOT_TRIED /* a draft: the limit on events was reached before */
} ef_trial_outcome;

typedef struct ef_trial {
    ef_trial_outcome outcome;
    int32_t version, generation; /* of the program that was used */
    int32_t line;                /* FAILED: 0 if no line caused it */
    ef_str message;
    int64_t next_seq; /* the seq of the stream that the generation applies next */
    int32_t schema;   /* of the event as the handlers see it, … */
    ef_str seen;      /* … and its data, after upcasts */
    const ef_trial_view *views;
    size_t view_count;
    struct ef__batch_memory *room;
} ef_trial;

/* An event, and a generation by its number; 0: the newest version. */
typedef struct ef_trial_ask {
    ef_str projection;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int32_t generation;
} ef_trial_ask;

/*
 * Folds the event into the present views, in memory.
 * EF_NOT_FOUND    no such projection, generation or event
 * EF_UNSUPPORTED  the projection is written in C, and its function is not registered
 */
ef_status ef_projection_try(ef_engine *engine, const ef_trial_ask *ask, ef_trial *out,
                            ef_error *err);

/* --- drafts ----------------------------------------------------------------------------------- */

#define EF_DRAFT_EVENTS_MAX 1000000 /* events per call */
#define EF_DRAFT_ROWS_MAX 10000

/* A program that is not deployed. */
typedef struct ef_draft {
    const char *file_name; /* for messages */
    ef_str text;
    const ef_str *tenant; /* only its failures; NULL: of all tenants */
    size_t limit;         /* failed events to try; 0 means 100, at most EF_DRAFT_ROWS_MAX */
} ef_draft;

/* An event that fails in a deployed version, or with the draft. */
typedef struct ef_draft_row {
    ef_str tenant, stream;
    int64_t seq, position;
    int32_t version; /* the deployed version that fails on it; 0: none does */
    ef_str error;    /* of that version */
    ef_trial_outcome outcome;
    ef_str message; /* FAILED: the error of the draft */
} ef_draft_row;

typedef struct ef_draft_result {
    int32_t version;                                    /* of the draft */
    int64_t streams, events;                            /* folded */
    int64_t applied, ignored, failed, waits, not_tried; /* results of the events that fail now */
    int64_t newly_failed;                               /* events that fail with the draft only */
} ef_draft_result;

/*
 * Folds the draft over every stream that has a failed event, from its first event, into empty views
 * in memory; a log-ordered program over all events of the tenant. Lookups read the stored views. A
 * stream ends at the first event that the draft fails on. `each` gets the rows sorted by tenant,
 * stream and seq, until it returns false.
 * EF_BAD_INPUT  the program has an error: see `out_report`
 * EF_NOT_FOUND  no version of the projection is deployed
 */
ef_status ef_projection_try_draft(ef_engine *engine, const ef_draft *draft,
                                  bool (*each)(void *context, const ef_draft_row *row),
                                  void *context, ef_draft_result *out, ef_text *out_report,
                                  ef_error *err);

EF_C_END
