/*
 * folder.h - the working set of a batch: events go in one by one, changed views come out once.
 *
 * A folder belongs to one projection. It keeps the views that its events touch decoded, by tenant
 * and view id, asks its caller for the bytes of a view the first time it is touched, and writes
 * nothing: at the end the caller walks over what changed and stores it.
 *
 *     ef__folder_open(&options, &folder, &err);
 *     for each event: ef__folder_apply(folder, &event, &outcome, &err)
 *     for (size_t at = 0; ef__folder_next(folder, &at, &view, &err) == EF_OK && view.view_id.len;)
 *         store view
 *     ef__folder_settle(folder)       stored: go on with the views still decoded
 *     ef__folder_reset(folder)        not stored, or enough memory used: forget them all
 *
 * An event that fails leaves no trace in any view. What an event does depends on the event, the
 * views and the program alone, so batches of any size end in the same bytes. Not for several
 * threads at once; the program may be shared.
 */
#ifndef EF_FOLD_FOLDER_H
#define EF_FOLD_FOLDER_H

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
     * The view as it is stored now. A failure ends the apply with that status: it is the store's,
     * and not the event's. NULL: there are no views yet.
     */
    ef_status (*load)(void *context, ef_str tenant, ef_str view_id, ef__stored_view *out,
                      ef_error *err);
    /* The same of another projection, for lookup(…). NULL: there are none. */
    ef_status (*lookup)(void *context, ef_str projection, ef_str tenant, ef_str view_id,
                        ef__stored_view *out, ef_error *err);
    void *context;
    size_t max_bytes; /* of decoded views; 0 means EF_FOLD_LIMIT_FOLDER_BYTES */
} ef__folder_options;

/* The events of `program` are folded by a function; its handlers are never run. To be called before
 * the program is shared. */
void ef__program_use_function(ef__program *program, ef_fold_fn fn, void *context);

typedef enum ef__fold_result {
    EF__FOLD_APPLIED,
    EF__FOLD_IGNORED, /* no handler takes it */
    EF__FOLD_FAILED   /* `error` says why; nothing changed */
} ef__fold_result;

typedef struct ef__outcome {
    ef__fold_result result;
    uint32_t line;  /* FAILED: of the program, 0 when it is not a line's fault */
    ef_error error; /* FAILED: names handler, line, path and value */
} ef__outcome;

/* A view that changed. */
typedef struct ef__folded_view {
    ef_str tenant;
    ef_str view_id; /* empty: there are no more */
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
 * Fold one event. `event` is borrowed for the call. EF_OK with an outcome, which may be FAILED:
 * that is the event's affair and the batch goes on. Anything else is not the event's fault (memory,
 * the load callback, a stored view that is not JSON: EF_DAMAGED); the event has left no trace
 * either.
 */
ef_status ef__folder_apply(ef__folder *folder, const ef_event *event, ef__outcome *outcome,
                           ef_error *err);

/* The steps that the last event has taken, unless no handler wanted it. */
int64_t ef__folder_steps(const ef__folder *folder);

/* The event's data as handlers see it, after upcasts, and its schema then; as it came where there
 * is none, or where one fails. Changes no view. */
ef_status ef__folder_seen(ef__folder *folder, const ef_event *event, ef__buf *out,
                          int64_t *out_schema, ef_error *err);

/* The view that the event goes to by the program's own `view`, as far as that can be said without
 * folding it: "" where it cannot. A hint, for reading ahead; lives until the folder is called
 * again. */
ef_str ef__folder_foresee(ef__folder *folder, const ef_event *event);
/* Is the view in memory, so that it will not be loaded? */
bool ef__folder_holds(const ef__folder *folder, ef_str tenant, ef_str view_id);

/* The views that changed since the start or the last settle, in the order they were first changed.
 * `*at` begins as 0. */
ef_status ef__folder_next(ef__folder *folder, size_t *at, ef__folded_view *out, ef_error *err);
/* How many, at most: one that was made and deleted again is counted and not shown. */
size_t ef__folder_changed(const ef__folder *folder);
void ef__folder_settle(ef__folder *folder);
void ef__folder_reset(ef__folder *folder);

/*
 * A stored view as the program has it: one of an older schema is migrated. `*out_data` is canonical
 * JSON until the next call, or the next ef__folder_next. The folder's own views are left alone.
 * EF_BAD_INPUT  a migration cannot digest it: `err` names line, path and value
 */
ef_status ef__folder_migrate(ef__folder *folder, ef_str view_id, const ef__stored_view *stored,
                             ef_str *out_data, ef_error *err);

/* Memory in use for decoded views. A driver settles and resets when it has become much. */
size_t ef__folder_bytes(const ef__folder *folder);

#endif
