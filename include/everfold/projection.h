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

/*
 * A scope: a projection for one tenant, by the name tenant:projection:partition. A blank tenant is
 * called default there; the partition is a part of the name and splits nothing. Tenants of a
 * projection in the order of the log do not hold each other up: one with an event that the program
 * cannot digest is left behind and tried again by itself, until it has come up with the others.
 */
typedef struct ef_scope {
    ef_str name;
    ef_str tenant;
    bool any_tenant; /* "*": of all tenants that have no scope of their own in a list */
    /* "starting", "catching_up", "live", "retrying", "failed", "paused", "stopping" */
    ef_str state;
    int64_t position;    /* its cursor: everything of its up to here is in */
    int64_t pending;     /* events that have yet to be applied … */
    bool pending_more;   /* … at least: they were too many to be counted */
    int64_t synced_us;   /* when the cursor was written last */
    int64_t retries;     /* failures in a row */
    int64_t next_try_us; /* 0 of one that does not fail */
    ef_str error_code;   /* of the last failure; "" of one that does not fail */
    ef_str error;
} ef_scope;

typedef struct ef_scope_list {
    const ef_scope *items;
    size_t count;
    struct ef__batch_room *room;
} ef_scope_list;

void ef_scope_list_release(ef_scope_list *list);

typedef struct ef_projection {
    ef_str name;
    int32_t version;
    int32_t generation;
    bool by_log;
    bool routed;
    ef_str state;       /* "catching_up", "migrating", "live", "paused", "failed", "retired" */
    int64_t position;   /* every tenant has every event up to here, without exception */
    int64_t reached;    /* the same, but for blocked streams: all others have everything */
    int64_t lag_events; /* of all tenants: events that are yet to be applied and will be */
    int64_t lag_us;     /* age of the oldest of these */
    int64_t views;
    char digest[33]; /* hexadecimal */
    int64_t
        unaccounted; /* events that are neither applied, ignored, skipped nor waiting: must be 0 */
    int64_t applied, ignored, skipped; /* events that are behind it, by what became of them */
    int64_t failures;                  /* open ones */
    int64_t quarantined;               /* streams parked behind a dead row */
    int64_t blocked_streams; /* streams behind a failed or dead event; in the order of the log:
                                tenants */
    int64_t blocked_events;  /* events of these that are not applied; not part of the lag */
    int64_t blocked_us;      /* age of the oldest of these */
    ef_str program;
    bool skips_errors; /* see ef_projection_on_error */
    bool no_function;  /* written in C, and its function is not registered with this engine */
    /* One that goes by a cursor: its scopes, first that of all tenants that are level with it, then
     * those that are behind, the longest due first; up to 100 of these */
    const ef_scope *scopes;
    size_t scope_count;
    int64_t scopes_behind; /* how many there are in all */
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

/*
 * Deploy a program in place: it takes over the generation that queries go to, whose views are
 * brought to its `schema` by its `migrate` blocks, instead of being built beside from position 1.
 * The name, the order and the indexes stay; the version and the schema are higher. All views are
 * migrated once without keeping anything, so that none is found later that cannot be. Then a worker
 * rewrites them in small commits, and the projection goes on with what came meanwhile. Until then
 * ef_view_get migrates what it reads, and queries and exports wait as long as they may, or answer
 * EF_BUSY. There is no way back to the old program but another deployment. The same text again is
 * harmless.
 * EF_BAD_INPUT    the program has a mistake (out_report says where), or does not follow: the same
 *                 or a lower version or schema, no migrate from the schema there is, another
 *                 order; or it cannot migrate a view, which err names. Nothing is changed
 * EF_UNSUPPORTED  the indexes are others, or the projection is written in C: deploy it beside
 * EF_CONFLICT     the version is there with another text; or the projection is paused, has failed,
 *                 is being migrated, or a run of it is open
 * EF_NOT_FOUND    there is no such projection yet
 */
ef_status ef_projection_deploy_in_place(ef_engine *engine, const char *file_name, ef_str text,
                                        ef_projection_list *out, ef_text *out_report,
                                        ef_error *err);

/* A program to deploy; who asks and why are kept for good (ef_act_ls): "deploy". */
typedef struct ef_deploy {
    const char *file_name;
    ef_str text;
    bool in_place; /* as ef_projection_deploy_in_place */
    /* EF_EXISTS, and nothing changes, when the projection has no such version now and its active
     * version is higher, or this version was retired: for programs that are deployed at each start
     * of a process, not by a person. */
    bool refuse_superseded;
    ef_str who; /* "": nobody; it leaves no record */
    ef_str reason;
} ef_deploy;

ef_status ef_projection_deploy_by(ef_engine *engine, const ef_deploy *deploy,
                                  ef_projection_list *out, ef_text *out_report, ef_error *err);

/* "" lists all, routed ones first for each name. EF_NOT_FOUND for an unknown name. */
ef_status ef_projection_ls(ef_engine *engine, ef_str name, ef_projection_list *out, ef_error *err);
/* Up to which position the active generation has everything of a tenant that is not blocked; NULL:
 * of all tenants. EF_BLOCKED: the projection is in the order of the log and the tenant does not go
 * on after `*out`; `err` names the event. */
ef_status ef_projection_reached(ef_engine *engine, ef_str name, const ef_str *tenant, int64_t *out,
                                ef_error *err);
/* The scope of one tenant, in the generation that queries go to; `out` has one item. */
ef_status ef_projection_scope(ef_engine *engine, ef_str name, ef_str tenant, ef_scope_list *out,
                              ef_error *err);
/*
 * What becomes of an event that the projection cannot digest, after its last attempt.
 * Stop (so it is unless it is told): what follows in its stream waits behind it (in the order of
 * the log: what follows of its tenant), until somebody requeues or skips it. Skip: a worker lets it
 * pass, as by ef_outbox_skip; the failure stays on record, and every build of the version passes it
 * again. What has stopped already is let pass too. An event that is not the one that was applied
 * under its seq is never let pass by itself.
 */
typedef enum ef_on_error { EF_ON_ERROR_STOP, EF_ON_ERROR_SKIP } ef_on_error;
/* Holds for all versions, until it is told otherwise. EF_NOT_FOUND: there is no such projection. */
ef_status ef_projection_on_error(ef_engine *engine, ef_str name, ef_on_error what, ef_str who,
                                 ef_str reason, ef_error *err);
/* A paused one is read and queried as it stands. It goes on from there when it is resumed. What has
 * failed is tried again at once when it is resumed, paused or not. Who asks and why are kept for
 * good; nobody ("") leaves no record. */
ef_status ef_projection_pause(ef_engine *engine, ef_str name, ef_str who, ef_str reason,
                              ef_error *err);
ef_status ef_projection_resume(ef_engine *engine, ef_str name, ef_str who, ef_str reason,
                               ef_error *err);

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
/* The same of one tenant; NULL: of all. */
ef_status ef_projection_failures_of(ef_engine *engine, ef_str name, const ef_str *tenant,
                                    bool resolved, size_t limit, ef_failure_list *out,
                                    ef_error *err);

/* What a look at the view store has found. */
typedef struct ef_projection_check_result {
    int64_t generations;   /* whole ones that were read, … */
    int64_t views;         /* … their views … */
    int64_t index_entries; /* … and the entries of their indexes */
    int64_t large_views;   /* those of half of the size that a view may have, or more */
    int64_t largest_bytes; /* of the largest of these, … */
    char largest[200];     /* … its projection and id, cut to fit */
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
