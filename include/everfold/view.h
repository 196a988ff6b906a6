/*
 * view.h - reading views.
 *
 * Every result has a position (as_of): it contains all events up to there that the projection
 * handles. A read sees one tenant only.
 */
#pragma once

#include <everfold/budget.h>
#include <everfold/projection.h>

EF_C_BEGIN

typedef struct ef_view {
    ef_str view_type; /* the projection */
    int32_t version;
    ef_str tenant;
    ef_str view_id;
    int64_t last_event_sequence; /* position of the event that changed it last */
    ef_str data;                 /* JSON */
} ef_view;

/* The required freshness. Zero: none. */
typedef struct ef_freshness {
    ef_str at_least; /* a token of an append: wait until its events are applied. EF_BLOCKED: one of
                        their streams is blocked by a failed event; err->found is its seq */
    bool current;    /* every event up to the journal's head at the time of the call, except for
                        blocked streams, which blocked_streams of the result counts */
    int64_t timeout_ms; /* maximum wait; EF_TIMEOUT after that; 0: do not wait */
} ef_freshness;

typedef struct ef_view_list {
    const ef_view *items;
    size_t count;
    ef_str next;             /* cursor of the next page; "" at the end */
    int64_t as_of;           /* the views contain every event up to here */
    int64_t blocked_streams; /* with `current`: streams that are blocked by a failed event */
    int64_t total;           /* count_only: the number of matches */
    int64_t looked;          /* rows that were read */
    int32_t version;         /* of the program whose views were read */
    ef_str plan;             /* explain: the access path */
    struct ef__batch_memory *room;
} ef_view_list;

/* EF_NOT_FOUND: no such projection, or no such view. */
ef_status ef_view_get(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                      const ef_freshness *freshness, ef_view_list *out, ef_error *err);

/*
 * Reads many views one by one, in one thread: each as ef_view_get would return it at that moment,
 * without a freshness requirement. Consecutive reads share a transaction of the store: call
 * ef_view_reader_idle before the thread waits for anything, to end it. `out` may be the same list
 * every time, which reuses its memory.
 */
typedef struct ef_view_reader ef_view_reader;
ef_status ef_view_reader_open(ef_engine *engine, ef_view_reader **out, ef_error *err);
ef_status ef_view_reader_get(ef_view_reader *reader, ef_str projection, ef_str tenant, ef_str id,
                             ef_view_list *out, ef_error *err);
void ef_view_reader_idle(ef_view_reader *reader);  /* accepts NULL */
void ef_view_reader_close(ef_view_reader *reader); /* before its engine; accepts NULL */

/*
 * A read that waits without a thread. `freshness` is what ef_view_get or ef_view_find (`all_views`)
 * would wait for; the caller handles its timeout. ef_view_wait_check checks many at once:
 * out_over[i] is true if the read would not wait any more, because it is fresh or because it fails.
 * One thread checks all waits of an engine and calls ef_view_wait_next in between, which returns
 * when views may have changed since version `seen`, or after `ms`; 0 is before the first version.
 */
typedef struct ef_view_wait ef_view_wait;
ef_status ef_view_wait_open(ef_engine *engine, ef_str projection, const ef_str *tenant,
                            const ef_freshness *freshness, bool all_views, ef_view_wait **out,
                            ef_error *err); /* `tenant` NULL: all */
void ef_view_wait_check(ef_view_wait *const *waits, size_t count, bool *out_over);
int64_t ef_view_wait_next(ef_engine *engine, int64_t seen, int64_t ms);
void ef_view_wait_close(ef_view_wait *wait); /* before its engine; accepts NULL */

/* May a read of a view wait for another process or machine? */
bool ef_view_is_remote(const ef_engine *engine);

typedef struct ef_view_query {
    ef_str projection;
    ef_str tenant;
    bool any_tenant; /* all tenants instead; no index is used then */
    ef_str where;    /* an expression over the view's fields; "" all */
    ef_str sort;     /* "total,-name"; "": by view id, with any_tenant by tenant and view id */
    ef_str fields;   /* "total,name"; "" all */
    size_t limit;    /* 0 means 100; at most 10,000 */
    ef_str after;    /* cursor */
    bool count_only;
    bool explain;
    ef_freshness freshness;
    ef_budget budget;
} ef_view_query;

/* EF_BAD_INPUT: an error in an expression; the message shows its place with a caret.
 * EF_OVER_BUDGET: it needs more work than the query's budget allows. */
ef_status ef_view_find(ef_engine *engine, const ef_view_query *query, ef_view_list *out,
                       ef_error *err);

/* Calls `each` for all views of a projection, by tenant and id, until it returns false. *out_as_of
 * (may be NULL) is set before the first call. */
ef_status ef_view_export(ef_engine *engine, ef_str projection, ef_str tenant, bool any_tenant,
                         bool (*each)(void *context, const ef_view *view), void *context,
                         int64_t *out_as_of, ef_error *err);

/* The events that changed a view, oldest first, up to `limit`. This and the next two functions fold
 * the journal again; `budget` (may be NULL) limits that. */
ef_status ef_view_explain(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_batch *out, ef_error *err);

/* The view as of `position`. EF_NOT_FOUND: it did not exist then. */
ef_status ef_view_at(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                     int64_t position, const ef_budget *budget, ef_view_list *out, ef_error *err);

/* One change of a view. */
typedef struct ef_view_step {
    const ef_event *event; /* without data and meta */
    ef_str after;          /* JSON; ptr NULL: deleted */
} ef_view_step;

typedef struct ef_view_past {
    const ef_view_step *steps; /* oldest first */
    size_t count;
    ef_str before; /* the view before the first step; ptr NULL: it did not exist */
    bool more;     /* there are earlier ones */
    struct ef__batch_memory *room;
} ef_view_past;

/* The last changes of a view, up to `limit` (0 means 100, at most 1,000), each with the view after
 * it; fewer if views are large. EF_NOT_FOUND: no event created the view. */
ef_status ef_view_history(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_view_past *out, ef_error *err);

/*
 * Following a projection. While a tenant of it is followed, commits record which views they change,
 * and a place says how far in that record a follower is. It stays valid for EF_VIEW_FOLLOW_MS at
 * least after it was last used, unless more changes than are kept come after it or another
 * generation becomes active. All zero: no place yet.
 */
#define EF_VIEW_FOLLOW_MS (15 * 60 * 1000)

typedef struct ef_view_place {
    int64_t generation;
    int64_t number; /* of the last change that was reported */
} ef_view_place;

#define EF_VIEW_PLACE_MAX 48 /* bytes of its text: "7.1767225600000000" */

void ef_view_place_format(const ef_view_place *place, char out[EF_VIEW_PLACE_MAX]);
ef_status ef_view_place_parse(ef_str text, ef_view_place *out, ef_error *err);

/* Why a follower has to read the views. */
typedef enum ef_view_reset {
    EF_VIEW_RESET_NONE,
    EF_VIEW_RESET_STARTED,  /* there was no place yet */
    EF_VIEW_RESET_EXPIRED,  /* the changes after the place are not recorded any more */
    EF_VIEW_RESET_SWITCHED, /* the place is in another generation than the active one */
    EF_VIEW_RESET_COUNT
} ef_view_reset;

typedef struct ef_view_change {
    ef_view view;   /* as it is now; data.ptr is NULL when it is deleted */
    int64_t number; /* of the place when this and all before it were reported */
} ef_view_change;

typedef struct ef_view_changes_query {
    ef_str projection;
    ef_str tenant;
    ef_str view_id; /* "" all */
    size_t limit;   /* changes to read: 0 means 100; at most 1,000 */
} ef_view_changes_query;

typedef struct ef_view_change_list {
    const ef_view_change *items;
    size_t count;
    ef_view_reset reset; /* none of the items: read the views; every later change is reported */
    bool more;           /* there are further changes already */
    int64_t as_of;       /* the views have every event up to here */
    struct ef__batch_memory *room;
} ef_view_change_list;

/*
 * The views that were changed after `place`, each once, as they are now. *place is moved to where
 * to go on; on failure it stays. To follow a projection, wait and ask again: nothing is missed, and
 * a view that changes often is reported in fewer steps. Large views make a step shorter.
 * EF_NOT_FOUND: no such projection. EF_BUSY: too many tenants are followed.
 */
ef_status ef_view_changes(ef_engine *engine, const ef_view_changes_query *query,
                          ef_view_place *place, ef_view_change_list *out, ef_error *err);

EF_C_END
