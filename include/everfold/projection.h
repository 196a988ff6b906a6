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
    int64_t unaccounted; /* events that are neither applied, ignored, skipped nor waiting: must be 0 */
    int64_t failures;    /* open ones */
    int64_t quarantined; /* streams parked behind a dead row */
    ef_str program;
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
ef_status ef_projection_pause(ef_engine *engine, ef_str name, ef_error *err);
ef_status ef_projection_resume(ef_engine *engine, ef_str name, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
