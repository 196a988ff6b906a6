/*
 * fold.h - projections written in C.
 *
 * A projection is a fold program (text), or a function of yours: it is called once per event, in
 * order, and says what changes in which view. Everything else is the same: each event exactly once,
 * views written once per batch, an event that fails leaves no trace, the same envelope and digest.
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
 * The function is pure: what it does depends on the event and the views alone, for it is run again
 * in rebuilds and has to end in the same bytes. No clock, no randomness, no I/O, no memory of its
 * own from one event to the next. `context` is for what never changes.
 *
 * Paths: "total", "stats.total", "lines[0].qty", "lines[-1]" (the last). A field that is missing is
 * made when it is written to, with the objects above it. Values go in and out as JSON text; numbers
 * are exact.
 *
 * A function is made known to an engine by ef_engine_register, and folds whenever that engine works
 * (ef_engine_work). examples/c_projection.c is a whole program.
 *
 * A call that fails says so and has changed nothing; pass its status on, and the event fails with
 * its message. Calls on a fold are only for within the function that it was handed to.
 */
#ifndef EVERFOLD_FOLD_H
#define EVERFOLD_FOLD_H

#include <everfold/engine.h>
#include <everfold/event.h>
#include <everfold/status.h>
#include <everfold/str.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_fold ef_fold;

/*
 * Fold one event. EF_OK: it was applied (or ignored, see ef_fold_ignore). Anything else fails the
 * event: it changes nothing, the projection stops before it for that tenant and tries it again, and
 * every other tenant and projection goes on.
 */
typedef ef_status (*ef_fold_fn)(ef_fold *fold, const ef_event *event, void *context, ef_error *err);

typedef struct ef_c_projection {
    ef_str name;     /* as in a program: letters, digits and _ */
    int32_t version; /* at least 1. A changed function is a new version: nobody else can tell */
    ef_str indexes;  /* "status, stats.total": what queries filter and sort by; "" none */
    ef_fold_fn fn;
    void *context; /* handed to `fn`; lives as long as the engine */
} ef_c_projection;

/*
 * Deploy a C projection, and let this engine fold it. To be called after every open, by every
 * process that is to fold it; what is deployed already goes on where it stands. A new projection,
 * or a new version of one, catches up from position 1. A read-only engine deploys nothing; it can
 * then show the past of what is there (ef_view_at, ef_view_explain).
 *
 * A C projection is in the order of the log, so its events reach it by a cursor of its own and
 * never by the queue: the queue's rows are dropped by whichever process takes them, and that one
 * may lack the function. So a process without the function leaves the projection alone: it neither
 * folds it nor moves its cursor, its views can be read and queried, and all else goes on. The
 * cursor moves in the transaction that writes the views, so of several processes with the function
 * each event is still folded once.
 *
 * EF_BAD_INPUT  the name, version or an index is none
 * EF_CONFLICT   the version is deployed as something else, or this engine has another function for
 * it
 */
ef_status ef_engine_register(ef_engine *engine, const ef_c_projection *projection, ef_error *err);

/* This event is none of ours. Always EF_OK, so that it can be returned. Changes that were made for
 * it are undone. */
ef_status ef_fold_ignore(ef_fold *fold);

/*
 * The view that the calls below are about, of the event's tenant: 1 to 255 bytes. It need not
 * exist. An event may select many, one after the other. EF_BAD_INPUT, EF_TOO_LARGE (too many views
 * for one event), or what the store says
 */
ef_status ef_fold_view(ef_fold *fold, ef_str view_id, ef_error *err);

/* What a path of the selected view holds now, as canonical JSON, good until the function returns.
 * The path "" is all of it. EF_NOT_FOUND */
ef_status ef_fold_get(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err);
/* The same as an integer. EF_NOT_FOUND; EF_BAD_INPUT when it is something else */
ef_status ef_fold_get_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err);
/* What a path of the event's data holds. EF_NOT_FOUND */
ef_status ef_fold_data(ef_fold *fold, const char *path, ef_str *out_json, ef_error *err);
/* The same as an integer. EF_NOT_FOUND; EF_BAD_INPUT when it is something else */
ef_status ef_fold_data_int(ef_fold *fold, const char *path, int64_t *out, ef_error *err);
/* The same as the text between the quotes, unescaped. EF_NOT_FOUND; EF_BAD_INPUT */
ef_status ef_fold_data_text(ef_fold *fold, const char *path, ef_str *out, ef_error *err);

/* Set a path to a JSON value, an integer, or a text (without quotes). The path "" takes an object
 * and replaces the whole view. EF_BAD_JSON, EF_BAD_INPUT, EF_TOO_LARGE */
ef_status ef_fold_set(ef_fold *fold, const char *path, ef_str json, ef_error *err);
ef_status ef_fold_set_int(ef_fold *fold, const char *path, int64_t value, ef_error *err);
ef_status ef_fold_set_text(ef_fold *fold, const char *path, ef_str text, ef_error *err);
/* Add a number, exactly; what is missing counts as 0. "12.50" and "-3" are numbers. */
ef_status ef_fold_add(ef_fold *fold, const char *path, ef_str number, ef_error *err);
ef_status ef_fold_add_int(ef_fold *fold, const char *path, int64_t value, ef_error *err);
/* Put a JSON value behind the last item of an array; the oldest go when there are more than `keep`
 * (0: all stay). What is missing is an empty array. */
ef_status ef_fold_push(ef_fold *fold, const char *path, ef_str json, size_t keep, ef_error *err);
/* Take a field or an item away; it need not be there. */
ef_status ef_fold_unset(ef_fold *fold, const char *path, ef_error *err);
/* The view is gone. A later write begins a new one. */
ef_status ef_fold_delete(ef_fold *fold, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
