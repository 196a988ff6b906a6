/*
 * shape.h - the JSON objects of the outer contract, told once.
 *
 * A shape is a table of fields: key, kind, and where the value stands in a public struct. The same
 * table writes an object and reads it back, so the command line, the server and the client cannot
 * disagree about one.
 */
#ifndef EF_SHAPE_SHAPE_H
#define EF_SHAPE_SHAPE_H

#include "../base/json.h"

#include <everfold/everfold.h>
#include <everfold/generation.h>
#include <everfold/replay.h>
#include <everfold/trial.h>
#include <everfold/view.h>

typedef enum ef__field_kind {
    EF__FIELD_STR,     /* ef_str */
    EF__FIELD_NAME,    /* ef_str; "" is null */
    EF__FIELD_JSON,    /* ef_str that holds JSON; "" is {} */
    EF__FIELD_INT32,   /* int32_t */
    EF__FIELD_INT64,   /* int64_t */
    EF__FIELD_COUNT,   /* int64_t; below 0 is null: not known */
    EF__FIELD_NUMBER,  /* int32_t; below 0 is null: there is none */
    EF__FIELD_BOOL,    /* bool */
    EF__FIELD_TIME,    /* int64_t, microseconds; 0 is null */
    EF__FIELD_SECONDS, /* int64_t, microseconds, as seconds with three decimals; not below 0 */
    EF__FIELD_CHARS,   /* char[size], ends in a NUL */
    EF__FIELD_WORD,    /* an enum; `word` names its values, 0, 1, 2 … up to `size` */
    EF__FIELD_CHOICE,  /* bool; `word` names false and true */
    EF__FIELD_LABEL,   /* int32_t, a partition as p07 */
    EF__FIELD_TTL      /* int64_t, the end of a lease, as the ms that are left. Only written */
} ef__field_kind;

typedef struct ef__field {
    const char *key;
    ef__field_kind kind;
    size_t offset;
    size_t size;              /* CHARS: of the array; WORD: how many values */
    const char *(*word)(int); /* WORD, CHOICE */
    size_t live_offset;       /* TTL: of the bool that says whether it still holds */
} ef__field;

typedef struct ef__shape {
    const ef__field *fields; /* ends in a NULL key */
    size_t size;             /* of the struct */
} ef__shape;

extern const ef__shape ef__shape_event;      /* ef_event */
extern const ef__shape ef__shape_type;       /* ef_type */
extern const ef__shape ef__shape_publisher;  /* ef_publisher */
extern const ef__shape ef__shape_row;        /* ef_row */
extern const ef__shape ef__shape_row_group;  /* ef_row_group */
extern const ef__shape ef__shape_view;       /* ef_view, without as_of */
extern const ef__shape ef__shape_projection; /* ef_projection, without scopes */
extern const ef__shape ef__shape_scope;      /* ef_scope */
extern const ef__shape ef__shape_failure;    /* ef_failure, without projection */
extern const ef__shape ef__shape_run;        /* ef_run */
extern const ef__shape ef__shape_gap;        /* ef_gap */
extern const ef__shape ef__shape_lease;      /* ef_lease */
extern const ef__shape ef__shape_worker;     /* ef_worker, without target_partitions */
extern const ef__shape ef__shape_partition;  /* ef_partition */
extern const ef__shape ef__shape_act;        /* ef_act */
extern const ef__shape ef__shape_stream;     /* ef_stream */
extern const ef__shape ef__shape_head;       /* ef_head, without its hash */
extern const ef__shape ef__shape_facts;      /* ef_store_facts, but for what a handle counts */
extern const ef__shape ef__shape_lane;       /* ef_lane */
extern const ef__shape ef__shape_summary;    /* ef_outbox_summary, without the oldest row */
extern const ef__shape ef__shape_replayed;   /* ef_replayed */
extern const ef__shape ef__shape_diff;       /* ef_diff */
extern const ef__shape ef__shape_partition_changed; /* ef_partition_changed */

/* What stands behind the members above on HTTP, and not on the command line, where it is told in
 * other words. */
extern const ef__shape ef__shape_row_more;        /* ef_row */
extern const ef__shape ef__shape_worker_more;     /* ef_worker */
extern const ef__shape ef__shape_projection_more; /* ef_projection, without its program */
extern const ef__shape ef__shape_summary_more;    /* ef_outbox_summary */
extern const ef__shape ef__shape_trial;           /* ef_trial, without views */
extern const ef__shape ef__shape_draft_row;       /* ef_draft_row */
extern const ef__shape ef__shape_drafted;         /* ef_drafted */

/* One that is appended: its place, with the names that the caller gave. */
typedef struct ef__placed {
    ef_str stream;
    int64_t seq;
    int64_t position;
    ef_str id;
    bool duplicate;
    ef_str token;
} ef__placed;

/* How it was at one time: the server keeps an hour of these. */
typedef struct ef__sample {
    int64_t at_us;
    int64_t position; /* of the journal's head */
    int64_t folded;   /* events behind the projections that queries go to, summed over them; begins
                       * anew with another generation */
    int64_t lag_events, lag_us; /* of the projection that is furthest behind */
    int64_t waiting;            /* rows of the outbox that are pending or in hand, … */
    int64_t failed, dead;       /* … that failed, and that are dead */
} ef__sample;

extern const ef__shape ef__shape_minute; /* ef_throughput */
extern const ef__shape ef__shape_sample;
extern const ef__shape ef__shape_placed;
/* `token` is that of the whole append. */
ef__placed ef__placed_of(const ef_new_event *event, const ef_place *place, const char *token);

/* The object, or only its members, so that more can be written behind them. */
void ef__shape_write(ef__json_writer *w, const ef__shape *shape, const void *thing);
void ef__shape_members(ef__json_writer *w, const ef__shape *shape, const void *thing);

/*
 * Read an object back. Keys that are not there leave 0; keys that are not known are passed over.
 * Strings point into the JSON's text or `arena`, RAW ones into its text.
 * EF_BAD_JSON: it is no object, or a value is of another kind
 */
ef_status ef__shape_read(const ef__json *object, const ef__shape *shape, void *thing,
                         ef_error *err);
/* The same into one that has been read by another shape. */
ef_status ef__shape_read_more(const ef__json *object, const ef__shape *shape, void *thing,
                              ef_error *err);

/* --- answers of several parts (answer.c) ------------------------------------------------------ */

/* problem+json; `hint` may be NULL. */
void ef__problem_write(ef__json_writer *w, const ef_error *err, const char *hint);
/* A projection with its scopes. */
void ef__projection_write(ef__json_writer *w, const ef_projection *projection);
/* A view as of a position. */
void ef__view_write(ef__json_writer *w, const ef_view *view, int64_t as_of);
/* The first view of a list; `current`: with how many streams are blocked. */
void ef__view_write_found(ef__json_writer *w, const ef_view_list *found, bool current);
void ef__blocked_write(ef__json_writer *w, const ef_view_list *found); /* only that member */
/* An event that a replay would fail on, and why. */
void ef__replay_warning_write(ef__json_writer *w, ef_str projection, const ef_event *event,
                              ef_str message);
/* The "summary" of the outbox. */
/* {"mode","rows","groups":[…],"more"} */
void ef__groups_write(ef__json_writer *w, const ef_row_groups *groups);
void ef__summary_write(ef__json_writer *w, const ef_outbox_summary *summary);

/* A line break can only stand between the tokens of an event's data and meta: in strings it is
 * escaped. Make those from `start` on into spaces, so that the object is one line. */
void ef__one_line(ef__buf *out, size_t start);

#endif
