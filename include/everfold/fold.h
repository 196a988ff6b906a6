/*
 * fold.h - projections written in C.
 *
 * A projection is a fold program (text) or a C function, which is called once per event, in order,
 * and changes views. Everything else is the same: each event exactly once, views written once per
 * batch, no trace of an event that fails, the same envelope and digest.
 *
 *     static ef_status count_orders(ef_fold *fold, const ef_event *event, void *context,
 *                                   ef_error *err)
 *     {
 *         ef_status st;
 *
 *         if (!ef_str_equal(event->type, EF_STR("order.placed")))
 *             return ef_fold_ignore(fold);
 *         st = ef_fold_view(fold, event->stream, err);
 *         if (st == EF_OK)
 *             st = ef_fold_add_int(fold, "orders", 1, err);
 *         return st;
 *     }
 *
 * The function is pure: its result depends on the event and the views only, because rebuilds run it
 * again and must produce the same bytes. No clock, no randomness, no I/O, no state between events.
 * `context` is for constants.
 *
 * Paths: "total", "stats.total", "lines[0].qty", "lines[-1]" (the last). Writing creates a missing
 * field, with the objects above it. Values are passed as JSON text; numbers are exact.
 *
 * ef_engine_register makes a function known to an engine, which calls it while it works
 * (ef_engine_work). examples/c_projection.c is a complete program.
 *
 * A call that fails changes nothing; return its status, and the event fails with its message. A
 * fold is valid only within the function that it was passed to.
 */
#pragma once

#include <everfold/engine.h>
#include <everfold/event.h>
#include <everfold/status.h>
#include <everfold/str.h>

#include <stddef.h>
#include <stdint.h>

EF_C_BEGIN

typedef struct ef_fold ef_fold;

/*
 * Folds one event. EF_OK: it was applied (or ignored, see ef_fold_ignore). Any other status fails
 * the event: it changes nothing, its tenant stops before it in this projection and is retried, and
 * all other tenants and projections continue.
 */
typedef ef_status (*ef_fold_fn)(ef_fold *fold, const ef_event *event, void *context, ef_error *err);

typedef struct ef_c_projection {
    ef_str name; /* as in a program: letters, digits and _ */
    int32_t
        version; /* at least 1. A changed function needs a new version: this cannot be detected */
    ef_str indexes; /* "status, stats.total": fields that queries filter and sort by; "" none */
    ef_fold_fn fn;
    void *context; /* passed to `fn`; valid while the engine is open */
} ef_c_projection;

/*
 * Deploys a C projection and registers its function with this engine. Call it after every open, in
 * every process that is to fold the projection; a deployed one continues at its cursor. A new
 * projection or version catches up from position 1. A read-only engine deploys nothing; it can then
 * read the history of views (ef_view_at, ef_view_explain).
 *
 * A C projection is log-ordered: its events come by a cursor and never by the queue, because a
 * queue row may be acknowledged by a process that lacks the function. A process without the
 * function neither folds the projection nor moves its cursor; it can read and query the views. The
 * cursor moves in the transaction that writes the views, so several processes with the function
 * fold each event once.
 *
 * EF_BAD_INPUT  the name, the version or an index is invalid
 * EF_CONFLICT   the version is deployed as something else, or this engine has another function for
 *               it
 */
ef_status ef_engine_register(ef_engine *engine, const ef_c_projection *projection, ef_error *err);

/* The projection does not use this event. Always returns EF_OK, so that its result can be returned.
 * Changes made for the event are undone. */
ef_status ef_fold_ignore(ef_fold *fold);

/*
 * Selects the view for the calls below, of the event's tenant: 1 to 255 bytes. It need not exist.
 * An event may select several, one after the other. EF_BAD_INPUT, EF_TOO_LARGE (too many views for
 * one event), or a status of the store
 */
ef_status ef_fold_view(ef_fold *fold, ef_str view_id, ef_error *err);

/* The value at a path of the selected view, as canonical JSON, valid until the function returns.
 * The path "" is the whole view. EF_NOT_FOUND */
ef_status ef_fold_get(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err);
/* The same as an integer. EF_NOT_FOUND; EF_BAD_INPUT: not an integer */
ef_status ef_fold_get_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err);
/* The value at a path of the event's data. EF_NOT_FOUND */
ef_status ef_fold_data(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err);
/* The same as an integer. EF_NOT_FOUND; EF_BAD_INPUT: not an integer */
ef_status ef_fold_data_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err);
/* The same as an unescaped string, without quotes. EF_NOT_FOUND; EF_BAD_INPUT */
ef_status ef_fold_data_text(ef_fold *fold, const char *path, ef_str *out, ef_error *err);

/* Sets a path to a JSON value, an integer, or a string (without quotes). The path "" requires an
 * object and replaces the whole view. EF_BAD_JSON, EF_BAD_INPUT, EF_TOO_LARGE */
ef_status ef_fold_set(ef_fold *fold, const char *path, ef_str json, ef_error *err);
ef_status ef_fold_set_int(ef_fold *fold, const char *path, int64_t value, ef_error *err);
ef_status ef_fold_set_text(ef_fold *fold, const char *path, ef_str text, ef_error *err);
/* Adds a number, exactly; a missing value counts as 0. "12.50" and "-3" are numbers. */
ef_status ef_fold_add(ef_fold *fold, const char *path, ef_str number, ef_error *err);
ef_status ef_fold_add_int(ef_fold *fold, const char *path, int64_t value, ef_error *err);
/* Appends a JSON value to an array; with more than `keep` items the oldest are removed (0: none). A
 * missing value is an empty array. */
ef_status ef_fold_push(ef_fold *fold, const char *path, ef_str json, size_t keep, ef_error *err);
/* Removes a field or an item; it need not exist. */
ef_status ef_fold_unset(ef_fold *fold, const char *path, ef_error *err);
/* Deletes the view. A later write creates a new one. */
ef_status ef_fold_delete(ef_fold *fold, ef_error *err);

EF_C_END
