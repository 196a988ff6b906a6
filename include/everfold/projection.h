/*
 * projection.h - fold programs: checking, explaining, testing and deploying them.
 */
#pragma once

#include <everfold/engine.h>

EF_C_BEGIN

typedef struct ef_text {
    const char *ptr; /* NUL-terminated; NULL: none */
    size_t len;
    struct ef__batch_memory *room;
} ef_text;

typedef enum ef_text_form { EF_TEXT_PLAIN, EF_TEXT_JSON, EF_TEXT_DOT } ef_text_form;

/*
 * Checks a program. EF_OK (possibly with warnings), or EF_BAD_INPUT: `out_report` has the errors,
 * with file, line, column and a caret (plain), or as a JSON array.
 */
ef_status ef_program_check(const char *file_name, ef_str text, ef_text_form form,
                           ef_text *out_report, ef_error *err);

/* The compiled program as text, JSON or Graphviz. Errors as for ef_program_check. */
ef_status ef_program_explain(const char *file_name, ef_str text, ef_text_form form,
                             ef_text *out_report, ef_error *err);

/* The projection name in a program, in `out` of `size` bytes. EF_BAD_INPUT: it has an error. */
ef_status ef_program_name(ef_str text, char *out, size_t size, ef_error *err);

/*
 * A scope: a projection for one tenant, named tenant:projection:partition. The tenant "" is written
 * as default; the partition is a part of the name and divides nothing. Tenants of a log-ordered
 * projection do not block each other: a tenant whose event fails stops and is retried with its own
 * cursor, until it has caught up with the others.
 */
typedef struct ef_scope {
    ef_str name;
    ef_str tenant;
    bool any_tenant; /* "*": all tenants without a scope of their own in the list */
    /* "starting", "catching_up", "live", "retrying", "failed", "paused", "stopping" */
    ef_str state;
    int64_t position;    /* its cursor: every event of its tenants up to here is applied */
    int64_t pending;     /* events that are not applied yet … */
    bool pending_more;   /* … at least: counting stopped at a limit */
    int64_t synced_us;   /* when the cursor was last written */
    int64_t retries;     /* failures in a row */
    int64_t next_try_us; /* 0: it does not fail */
    ef_str error_code;   /* of the last failure; "": it does not fail */
    ef_str error;
} ef_scope;

typedef struct ef_scope_list {
    const ef_scope *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_scope_list;

typedef struct ef_projection {
    ef_str name;
    int32_t version;
    int32_t generation;
    bool by_log;
    bool active;
    ef_str state;       /* "catching_up", "migrating", "live", "paused", "failed", "retired" */
    int64_t position;   /* every tenant has every event up to here */
    int64_t reached;    /* the same without blocked streams: all others have everything */
    int64_t lag_events; /* over all tenants: events that will be applied without an operator */
    int64_t lag_us;     /* age of the oldest of these */
    int64_t views;
    char digest[33];     /* hexadecimal */
    int64_t unaccounted; /* neither applied, ignored, skipped nor in a row: must be 0 */
    int64_t applied, ignored, skipped; /* events, by their result */
    int64_t failures;                  /* open ones */
    int64_t quarantined;               /* streams blocked by a dead row */
    int64_t blocked_streams; /* streams blocked by a failed event; tenants if log-ordered */
    int64_t blocked_events;  /* events of these that are not applied; not part of the lag */
    int64_t blocked_us;      /* age of the oldest of these */
    ef_str program;
    bool skips_errors; /* see ef_projection_on_error */
    bool no_function;  /* written in C, and its function is not registered with this engine */
    /* Fed by a cursor: its scopes, first the shared one, then those of tenants with their own
     * cursor, the longest due first; up to 100 of these. */
    const ef_scope *scopes;
    size_t scope_count;
    int64_t scopes_behind; /* total number of tenants with their own cursor */
} ef_projection;

typedef struct ef_projection_list {
    const ef_projection *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_projection_list;

/* A program to deploy; actor and reason are kept in an audit entry (ef_audit_ls): "deploy". */
typedef struct ef_deploy {
    const char *file_name;
    ef_str text;
    bool in_place; /* see below */
    /* EF_EXISTS, and nothing changes, if the projection has no such version now and its active
     * version is higher, or this version was retired: for programs that a process deploys at each
     * start. */
    bool refuse_superseded;
    ef_str actor; /* "": no audit entry */
    ef_str reason;
} ef_deploy;

/*
 * Deploys a program. Deploying the same text again changes nothing. A new projection or version
 * catches up from position 1 and then goes live.
 *
 * With `in_place` the program replaces the program of the active generation, whose views are
 * migrated to its `schema` by its `migrate` blocks, instead of being built from position 1. Name,
 * order and indexes stay; version and schema are higher. First all views are migrated in memory, so
 * that a view that cannot be migrated is found before anything changes. Then a worker rewrites them
 * in small commits, and the projection catches up. Until then ef_view_get migrates what it reads,
 * and queries and exports wait within their timeout, or return EF_BUSY. Only another deployment
 * brings the old program back.
 *
 * EF_BAD_INPUT    the program has an error (see out_report); or it cannot replace the active one:
 * the same or a lower version or schema, no migrate from the present schema, another order; or it
 * cannot migrate a view, which err names. Nothing is changed EF_UNSUPPORTED  in place: the indexes
 * differ, or the projection is written in C: deploy it beside EF_CONFLICT     the version is
 * deployed with another text: give the program a new version; or in place: the projection is
 * paused, has failed, is being migrated, or a run of it is open EF_NOT_FOUND    in place: the
 * projection is not deployed
 */
ef_status ef_projection_deploy(ef_engine *engine, const ef_deploy *deploy, ef_projection_list *out,
                               ef_text *out_report, ef_error *err);

/* "" lists all, the active ones first for each name. EF_NOT_FOUND for an unknown name. */
ef_status ef_projection_ls(ef_engine *engine, ef_str name, ef_projection_list *out, ef_error *err);
/* The position up to which the active generation has every event of a tenant that is not blocked;
 * NULL: of all tenants. EF_BLOCKED: the projection is log-ordered and the tenant is blocked after
 * `*out`; `err` names the event. */
ef_status ef_projection_reached(ef_engine *engine, ef_str name, const ef_str *tenant, int64_t *out,
                                ef_error *err);
/* The scope of one tenant in the active generation; `out` has one item. */
ef_status ef_projection_scope(ef_engine *engine, ef_str name, ef_str tenant, ef_scope_list *out,
                              ef_error *err);
/*
 * What happens to an event that fails in the projection, after its last attempt. Stop (the
 * default): it blocks its stream (its tenant in a log-ordered projection) until an operator
 * requeues or skips it. Skip: a worker skips it, like ef_projection_skip; the failure stays on
 * record, and every build of the version skips it again. Events that are blocked already are
 * skipped too. An event that differs from the one that was applied under its seq is never skipped
 * by this setting.
 */
typedef enum ef_on_error { EF_ON_ERROR_STOP, EF_ON_ERROR_SKIP } ef_on_error;
/* Holds for all versions until it is changed. EF_NOT_FOUND: no such projection. */
ef_status ef_projection_on_error(ef_engine *engine, ef_str name, ef_on_error what, ef_str actor,
                                 ef_str reason, ef_error *err);
/* Pauses or resumes a projection. It can be read while it is paused, and continues where it stopped
 * when it is resumed. Resuming also retries failed events at once, paused or not. Actor and reason
 * are kept in an audit entry; without an actor ("") there is none. */
ef_status ef_projection_pause(ef_engine *engine, ef_str name, bool paused, ef_str actor,
                              ef_str reason, ef_error *err);

/* An event that failed in a projection. */
typedef struct ef_failure {
    ef_str projection;
    int32_t version;
    int32_t generation;
    ef_str tenant;
    ef_str stream;
    int64_t seq;
    int64_t position;
    ef_str event_id;
    ef_str code; /* stable: "fold_error" … */
    ef_str message;
    int32_t line;     /* of the program of `version`; 0: no line of it caused the failure */
    int32_t attempts; /* number of failures */
    bool open;        /* the event is still not applied, ignored or skipped */
    int64_t recorded_us;
    int64_t resolved_us; /* 0 while it is open */
} ef_failure;

typedef struct ef_failure_list {
    const ef_failure *items;
    size_t count;
    struct ef__batch_memory *room;
} ef_failure_list;

typedef struct ef_failure_query {
    ef_str projection;
    const ef_str *tenant; /* NULL: all */
    bool resolved;        /* also resolved ones */
    size_t limit;         /* 0 means 100; at most 10,000 */
} ef_failure_query;

/* Failures of the generations of a projection, newest first in each. EF_NOT_FOUND: no such name. */
ef_status ef_projection_failures(ef_engine *engine, const ef_failure_query *query,
                                 ef_failure_list *out, ef_error *err);

/* The result of a check of the view store. */
typedef struct ef_projection_check_result {
    int64_t generations;   /* that were read completely, … */
    int64_t views;         /* … their views … */
    int64_t index_entries; /* … and their index entries */
    int64_t large_views;   /* views of at least half of the size limit */
    int64_t largest_bytes; /* size of the largest view, … */
    char largest[200];     /* … its projection and id, truncated */
} ef_projection_check_result;

/*
 * Reads every view and every index entry of every generation, and compares them with the record of
 * the generation: the number of views, their digest, and one entry per view in each index.
 * `progress` (may be NULL) is called at intervals; it may return false to stop.
 * EF_DAMAGED names the first generation that differs.
 */
ef_status ef_projection_check(ef_engine *engine,
                              bool (*progress)(void *context, int64_t done, int64_t total),
                              void *context, ef_projection_check_result *out, ef_error *err);

EF_C_END
