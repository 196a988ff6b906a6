/*
 * projection.h - fold programs: checking, explaining, testing and deploying them.
 */
#ifndef EVERFOLD_PROJECTION_H
#define EVERFOLD_PROJECTION_H

#include <everfold/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text that was made for the caller; release it by ef_text_release. */
typedef struct ef_text {
    char *ptr; /* ends in a NUL; NULL when there is none */
    size_t len;
} ef_text;

void ef_text_release(ef_text *text);

typedef enum ef_text_form { EF_TEXT_PLAIN, EF_TEXT_JSON, EF_TEXT_DOT } ef_text_form;

/*
 * Check a program. EF_OK (there may be warnings), or EF_BAD_INPUT: `out_report` says what is wrong,
 * with file, line, column and a caret (plain), or as a JSON array.
 */
ef_status ef_program_check(const char *file_name, ef_str text, ef_text_form form,
                           ef_text *out_report, ef_error *err);

/* The compiled program as text, JSON or Graphviz. A program with a mistake answers as above. */
ef_status ef_program_explain(const char *file_name, ef_str text, ef_text_form form,
                             ef_text *out_report, ef_error *err);

/* The name that a program gives its projection, in `out` of `size` bytes. EF_BAD_INPUT: it has a
 * mistake. */
ef_status ef_program_name(ef_str text, char *out, size_t size, ef_error *err);

typedef struct ef_projection {
    ef_str name;
    int32_t version;
    int32_t generation;
    bool by_log;
    bool routed;
    ef_str state; /* "catching_up", "live", "paused", "failed", "retired" */
    int64_t position;
    int64_t lag_events;
    int64_t lag_us;
    int64_t views;
    char digest[33]; /* hexadecimal */
    int64_t
        unaccounted;  /* events that are neither applied, ignored, skipped nor waiting: must be 0 */
    int64_t failures; /* open ones */
    int64_t quarantined; /* streams parked behind a dead row */
    ef_str program;
    bool no_function; /* written in C, and its function is not registered with this engine */
} ef_projection;

typedef struct ef_projection_list {
    const ef_projection *items;
    size_t count;
    struct ef__batch_room *room;
} ef_projection_list;

void ef_projection_list_release(ef_projection_list *list);

/*
 * Deploy a program. The same text again is harmless. A new projection, or a new version of one,
 * catches up from position 1 and then joins the live ones.
 * EF_BAD_INPUT  the program has a mistake (out_report says where): nothing is deployed
 * EF_CONFLICT   the version is deployed with another text: give the program a new version
 */
ef_status ef_projection_deploy(ef_engine *engine, const char *file_name, ef_str text,
                               ef_projection_list *out, ef_text *out_report, ef_error *err);

/* "" lists all, routed ones first for each name. EF_NOT_FOUND for an unknown name. */
ef_status ef_projection_ls(ef_engine *engine, ef_str name, ef_projection_list *out, ef_error *err);
/* A paused one is read and queried as it stands. It goes on from there when it is resumed. */
ef_status ef_projection_pause(ef_engine *engine, ef_str name, ef_error *err);
ef_status ef_projection_resume(ef_engine *engine, ef_str name, ef_error *err);

/* An event that a projection could not digest, and what became of it. */
typedef struct ef_failure {
    int32_t version;
    int32_t generation;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int64_t position;
    ef_str event_id;
    ef_str code; /* stable: "fold_error" … */
    ef_str message;
    int32_t attempts; /* how often it has happened */
    bool open;        /* the event has still not been passed */
    int64_t recorded_us;
    int64_t resolved_us; /* 0 while it is open */
} ef_failure;

typedef struct ef_failure_list {
    const ef_failure *items;
    size_t count;
    struct ef__batch_room *room;
} ef_failure_list;

void ef_failure_list_release(ef_failure_list *list);

/* What failed in the generations of a projection, newest first in each: what is open, or with
 * `resolved` also what is over; up to `limit` (0 means 100, at most 10,000). EF_NOT_FOUND for an
 * unknown name. */
ef_status ef_projection_failures(ef_engine *engine, ef_str name, bool resolved, size_t limit,
                                 ef_failure_list *out, ef_error *err);

/* What a look at the view store has found. */
typedef struct ef_projection_check_result {
    int64_t generations;   /* whole ones that were read, … */
    int64_t views;         /* … their views … */
    int64_t index_entries; /* … and the entries of their indexes */
} ef_projection_check_result;

/*
 * Read every view and every index entry of every generation, and compare them with what the
 * generation says of itself: how many views, their digest, and an index entry for each view in each
 * index. `progress` (may be NULL) is called now and then; it may return false to stop.
 * EF_DAMAGED names the first generation that is not as it was written.
 */
ef_status ef_projection_check(ef_engine *engine,
                              bool (*progress)(void *context, int64_t done, int64_t total),
                              void *context, ef_projection_check_result *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
