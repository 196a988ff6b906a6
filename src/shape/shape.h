/*
 * shape.h - the JSON objects of the public interface, each described once.
 *
 * A shape is a table of fields: key, kind, and offset in a public struct. The same
 * table writes an object and reads it back, so the command line, the server and the client cannot
 * disagree about one.
 */
#pragma once

#include "../base/auto.h"
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
    EF__FIELD_DATA,    /* ef_str that holds a JSON object; a NULL pointer is null */
    EF__FIELD_INT32,   /* int32_t */
    EF__FIELD_INT64,   /* int64_t */
    EF__FIELD_COUNT,   /* int64_t; below 0 is null: unknown */
    EF__FIELD_NUMBER,  /* int32_t; below 0 is null: none */
    EF__FIELD_BOOL,    /* bool */
    EF__FIELD_TIME,    /* int64_t, microseconds; 0 is null */
    EF__FIELD_SECONDS, /* int64_t, microseconds, as seconds with three decimals; not below 0 */
    EF__FIELD_CHARS,   /* char[size], NUL-terminated */
    EF__FIELD_WORD,    /* an enum: 0, 1, 2 … up to `size`, by its name */
    EF__FIELD_CHOICE,  /* bool, by the names of false and true */
    EF__FIELD_LABEL,   /* int32_t, a partition, written as p07 */
    EF__FIELD_TTL      /* int64_t, expiry of a lease, written as milliseconds left. Not read */
} ef__field_kind;

typedef struct ef__field {
    const char *key;
    ef__field_kind kind;
    size_t offset;
    size_t size;          /* of the member; WORD, CHOICE: number of values */
    ef_names names;       /* WORD, CHOICE: of the values, … */
    const char *words[3]; /* … unless they are here */
    size_t live_offset;   /* TTL: offset of the bool that says whether the lease is live */
} ef__field;

typedef struct ef__shape {
    const ef__field *fields;
    size_t count; /* fields */
    size_t size;  /* of the struct */
} ef__shape;

#define EF__FIELD(type, key_, kind_, member)                                                       \
    {                                                                                              \
        .key = (key_), .kind = EF__FIELD_##kind_, .offset = offsetof(type, member),                \
        .size = sizeof(((type *)0)->member)                                                        \
    }
#define EF__SHAPE(fields, type)                                                                    \
    {                                                                                              \
        (fields), sizeof(fields) / sizeof((fields)[0]), sizeof(type)                               \
    }

/* Of the public structs of the same name, without the members that are objects themselves. */
extern const ef__shape ef__shape_event, ef__shape_type, ef__shape_publisher, ef__shape_row,
    ef__shape_row_group, ef__shape_view, ef__shape_projection, ef__shape_scope, ef__shape_failure,
    ef__shape_run, ef__shape_gap, ef__shape_lease, ef__shape_worker, ef__shape_partition,
    ef__shape_audit_entry, ef__shape_stream, ef__shape_head, ef__shape_facts, ef__shape_lane,
    ef__shape_summary, ef__shape_replay_result, ef__shape_diff, ef__shape_difference,
    ef__shape_partition_sync_result, ef__shape_trial, ef__shape_trial_view, ef__shape_draft_row,
    ef__shape_draft_result;

/* Further members that only HTTP writes, after those above. */
extern const ef__shape ef__shape_row_more, ef__shape_worker_more, ef__shape_projection_more,
    ef__shape_summary_more;

/* An appended event: its place, with the names given by the caller. */
typedef struct ef__append_result {
    ef_str stream;
    int64_t seq;
    int64_t position;
    ef_str id;
    bool duplicate;
    ef_str token;
} ef__append_result;

/* A sample of the state; the server keeps one hour of these. */
typedef struct ef__sample {
    int64_t at_us;
    int64_t position;           /* head of the journal */
    int64_t folded;             /* by the active generations; starts again with another one */
    int64_t lag_events, lag_us; /* of the projection with the largest lag */
    int64_t waiting;            /* outbox rows that are pending or in flight */
    int64_t failed, dead;       /* failed and dead rows */
} ef__sample;

extern const ef__shape ef__shape_minute; /* ef_throughput */
extern const ef__shape ef__shape_sample;
extern const ef__shape ef__shape_append_result;
/* `token` is the token of the whole append. */
ef__append_result ef__append_result_of(const ef_new_event *event, const ef_place *place,
                                       const char *token);

/* The name of a value of a WORD or CHOICE. */
const char *ef__field_word(const ef__field *field, size_t value);
/* Writes the object, or only its members, so that more can follow. */
void ef__shape_write(ef__json_writer *w, const ef__shape *shape, const void *thing);
void ef__shape_members(ef__json_writer *w, const ef__shape *shape, const void *thing);
/* Writes an array of objects with the members of `shape`, and of `more` unless it is NULL. */
void ef__shape_write_array(ef__json_writer *w, const ef__shape *shape, const ef__shape *more,
                           const void *items, size_t count);

/*
 * Reads an object. Missing keys set 0, unknown keys are ignored. Strings point into the text of the
 * JSON or its arena.
 * EF_BAD_JSON  not an object, or a value has another kind
 */
ef_status ef__shape_read(const ef__json *object, const ef__shape *shape, void *thing,
                         ef_error *err);
/* Reads further members into a struct that another shape has filled. */
ef_status ef__shape_read_more(const ef__json *object, const ef__shape *shape, void *thing,
                              ef_error *err);

/* Reads a line of `view export`: a view to seed. EF_BAD_INPUT names the line and what is wrong. */
ef_status ef__seed_view_read(const ef__json *json, int64_t line, ef_seed_view *out, ef_error *err);

/* --- JSON of several objects ------------------------------------------------------------------ */

/* problem+json; `hint` may be NULL. */
void ef__problem_write(ef__json_writer *w, const ef_error *err, const char *hint);
/* Writes a projection with its scopes. */
void ef__projection_write(ef__json_writer *w, const ef_projection *projection);
/* Writes a view as of a position, with the number of blocked streams unless it is below 0. */
void ef__view_write(ef__json_writer *w, const ef_view *view, int64_t as_of, int64_t blocked);
/* Writes what a query has found. `after_each` is called after each view; NULL: it is not. */
void ef__view_page_write(ef__json_writer *w, const ef_view_query *query, const ef_view_list *found,
                         void (*after_each)(void *context), void *context);
/* Writes an event on which a replay fails, and the reason. */
void ef__replay_warning_write(ef__json_writer *w, ef_str projection, const ef_event *event,
                              ef_str message);
/* {"mode","rows","groups":[…],"more"} */
void ef__groups_write(ef__json_writer *w, const ef_row_groups *groups);
/* Writes the summary of the outbox; `all`: with what only HTTP writes. */
void ef__summary_write(ef__json_writer *w, const ef_outbox_summary *summary, bool all);

/* Replaces newlines from `start` on by spaces, so that the object is one line. Newlines occur only
 * between the tokens of data and meta: in strings they are escaped. */
void ef__one_line(ef__buf *out, size_t start);
