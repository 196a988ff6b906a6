/*
 * folder.h - the working set of a batch: applies events one by one and returns the changed views.
 *
 * A folder belongs to one projection. It keeps the views that its events touch decoded, by tenant
 * and view id, asks its caller for the bytes of a view the first time it is touched, and writes
 * nothing: at the end the caller walks over what changed and stores it.
 *
 *     ef__folder_open(&options, &folder, &err);
 *     for each event: ef__folder_apply(folder, &event, &outcome, &err)
 *     for (size_t at = 0; ef__folder_next(folder, &at, &view, &err) == EF_OK && view.view_id.len;)
 *         store view
 *     ef__folder_settle(folder)       stored: continue with the views still decoded
 *     ef__folder_reset(folder)        not stored, or enough memory used: forget them all
 *
 * An event that fails leaves no trace in any view. The result of an event depends only on the
 * event, the views and the program, so batches of any size end in the same bytes. Not thread-safe;
 * the program may be shared.
 */
#pragma once

#include "fold.h"

#include <everfold/event.h>
#include <everfold/fold.h>

typedef struct ef__folder ef__folder;

/* A view as it is stored. */
typedef struct ef__stored_view {
    bool found;
    ef_str data;    /* JSON, borrowed until the callback is called again */
    int64_t schema; /* 0 means 1 */
} ef__stored_view;

typedef struct ef__folder_options {
    const ef__program *program; /* outlives the folder; NULL when `fn` is given */
    ef_fold_fn fn;              /* a C projection */
    void *fn_context;
    /*
     * Loads the stored view. A failure ends the apply with that status: it is a failure of the
     * store, not of the event. NULL: there are no views yet.
     */
    ef_status (*load)(void *context, ef_str tenant, ef_str view_id, ef__stored_view *out,
                      ef_error *err);
    /* The same for another projection, for lookup(…). NULL: there are none. */
    ef_status (*lookup)(void *context, ef_str projection, ef_str tenant, ef_str view_id,
                        ef__stored_view *out, ef_error *err);
    void *context;
    size_t max_bytes; /* of decoded views; 0 means EF_FOLD_LIMIT_FOLDER_BYTES */
} ef__folder_options;

/* Makes a C function fold the events of `program` instead of its handlers. Call it before the
 * program is shared. */
void ef__program_use_function(ef__program *program, ef_fold_fn fn, void *context);

typedef enum ef__fold_result {
    EF__FOLD_APPLIED,
    EF__FOLD_IGNORED, /* no handler matches */
    EF__FOLD_FAILED   /* see `error`; nothing changed */
} ef__fold_result;

typedef struct ef__outcome {
    ef__fold_result result;
    uint32_t line;  /* FAILED: of the program; 0: not caused by a line */
    ef_error error; /* FAILED: names handler, line, path and value */
} ef__outcome;

/* A view that changed. */
typedef struct ef__folded_view {
    ef_str tenant;
    ef_str view_id; /* empty: no more views */
    bool deleted;
    bool existed;     /* it was loaded, or stored at the last settle */
    ef_str data;      /* canonical JSON, until the next call; empty when deleted */
    int64_t position; /* of the last event that changed it */
    int64_t seq;
    int64_t schema;
} ef__folded_view;

/* EF_NO_MEMORY */
ef_status ef__folder_open(const ef__folder_options *options, ef__folder **out, ef_error *err);
void ef__folder_close(ef__folder *folder);

/*
 * Folds one event. `event` is borrowed for the call. EF_OK with an outcome, which may be FAILED: a
 * failure of the event, and the batch continues. Another status is not a failure of the event
 * (memory, the load callback, a stored view that is not JSON: EF_DAMAGED); the event has left no
 * trace either.
 */
ef_status ef__folder_apply(ef__folder *folder, const ef_event *event, ef__outcome *outcome,
                           ef_error *err);

/* The number of steps of the last event, unless no handler matched it. */
int64_t ef__folder_steps(const ef__folder *folder);

/* The data of the event as handlers see it, after upcasts, and its schema then; unchanged where
 * there is no upcast, or where one fails. Changes no view. */
ef_status ef__folder_seen(ef__folder *folder, const ef_event *event, ef__buf *out,
                          int64_t *out_schema, ef_error *err);

/* The view of the event by the program's own `view`, as far as it is known without folding the
 * event;
 * "": unknown. A hint for reading ahead; valid until the next call. */
ef_str ef__folder_foresee(ef__folder *folder, const ef_event *event);
/* Is the view in memory, so that it will not be loaded? */
bool ef__folder_holds(const ef__folder *folder, ef_str tenant, ef_str view_id);

/* Iterates over the views that changed since the start or the last settle, in the order of their
 * first change. `*at` starts as 0. */
ef_status ef__folder_next(ef__folder *folder, size_t *at, ef__folded_view *out, ef_error *err);
/* An upper limit of their number: a view that was created and deleted again counts. */
size_t ef__folder_changed(const ef__folder *folder);
void ef__folder_settle(ef__folder *folder);
void ef__folder_reset(ef__folder *folder);

/*
 * A stored view in the schema of the program: an older one is migrated. `*out_data` is canonical
 * JSON, valid until the next call or the next ef__folder_next. Does not change the views of the
 * folder. EF_BAD_INPUT  a migration failed: `err` names line, path and value
 */
ef_status ef__folder_migrate(ef__folder *folder, ef_str view_id, const ef__stored_view *stored,
                             ef_str *out_data, ef_error *err);

/* Memory of decoded views. A driver settles and resets the folder when it is too much. */
size_t ef__folder_bytes(const ef__folder *folder);
