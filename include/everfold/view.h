/*
 * view.h - reading views.
 *
 * Every answer says as of which position it is: all events up to there that the projection wants
 * are in it. A read sees one tenant only.
 */
#ifndef EVERFOLD_VIEW_H
#define EVERFOLD_VIEW_H

#include <everfold/budget.h>
#include <everfold/projection.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_view {
    ef_str view_type; /* the projection */
    int32_t version;
    ef_str tenant;
    ef_str view_id;
    int64_t last_event_sequence; /* position of the event that changed it last */
    ef_str data;                 /* JSON */
} ef_view;

/* How fresh the answer must be. Zero: whatever there is. */
typedef struct ef_freshness {
    ef_str at_least;    /* a token from an append: wait until its events are in. EF_BLOCKED: one of
                           their streams is behind a failed event; err->found is its seq */
    bool current;       /* every event up to the journal's head when the call began, but for streams
                           that are blocked: blocked_streams of the answer counts these */
    int64_t timeout_ms; /* how long to wait; EF_TIMEOUT after that; 0 means not at all */
} ef_freshness;

typedef struct ef_view_list {
    const ef_view *items;
    size_t count;
    ef_str next;             /* cursor of the next page; "" at the end */
    int64_t as_of;           /* every event up to here is in, without exception */
    int64_t blocked_streams; /* with `current`: streams that lack events behind a failed one */
    int64_t total;           /* count_only: how many match */
    int64_t looked;          /* rows looked at */
    ef_str plan;             /* explain: how it was found */
    struct ef__batch_room *room;
} ef_view_list;

void ef_view_list_release(ef_view_list *list);

/* EF_NOT_FOUND: no such projection, or no such view. */
ef_status ef_view_get(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                      const ef_freshness *freshness, ef_view_list *out, ef_error *err);

/*
 * Many views one by one, by one thread: each as ef_view_get would show it at that moment, without
 * asking for freshness. Reads in a row cost less, for what the first of them began in the store is
 * kept for the next: so call rest before the thread waits for anything, and the store is free of
 * it. `out` may be the same list every time, which spares its memory.
 */
typedef struct ef_view_reader ef_view_reader;
ef_status ef_view_reader_open(ef_engine *engine, ef_view_reader **out, ef_error *err);
ef_status ef_view_reader_get(ef_view_reader *reader, ef_str projection, ef_str tenant, ef_str id,
                             ef_view_list *out, ef_error *err);
void ef_view_reader_rest(ef_view_reader *reader);  /* NULL is fine */
void ef_view_reader_close(ef_view_reader *reader); /* before its engine; NULL is fine */

/*
 * A read that waits without a thread. `freshness` is what ef_view_get or ef_view_find (`all_views`)
 * would wait for; its timeout is the caller's. ef_view_wait_look looks at many at once:
 * out_over[i] is true when the read would not wait any more, because it is fresh or because it
 * fails. One thread looks at all waits of an engine, and calls ef_view_wait_turn in between: it
 * returns when views may have changed since the turn `seen`, or after `ms`; 0 is before the first
 * turn.
 */
typedef struct ef_view_wait ef_view_wait;
ef_status ef_view_wait_open(ef_engine *engine, ef_str projection, const ef_str *tenant,
                            const ef_freshness *freshness, bool all_views, ef_view_wait **out,
                            ef_error *err); /* `tenant` NULL: all */
void ef_view_wait_look(ef_view_wait *const *waits, size_t count, bool *out_over);
int64_t ef_view_wait_turn(ef_engine *engine, int64_t seen, int64_t ms);
void ef_view_wait_close(ef_view_wait *wait); /* before its engine; NULL is fine */

/* May a read of a view wait for another machine or another process? */
bool ef_view_is_remote(const ef_engine *engine);

typedef struct ef_view_query {
    ef_str projection;
    ef_str tenant;
    bool any_tenant; /* of all tenants instead; no index helps then */
    ef_str where;    /* an expression over the view's fields; "" all */
    ef_str sort;     /* "total,-name"; "" by view id, of all tenants by tenant and view id */
    ef_str fields;   /* "total,name"; "" all */
    size_t limit;    /* 0 means 100; at most 10,000 */
    ef_str after;    /* cursor */
    bool count_only;
    bool explain;
    ef_freshness freshness;
    ef_budget budget;
} ef_view_query;

/* EF_BAD_INPUT: a mistake in an expression; the message has the place and a caret.
 * EF_OVER_BUDGET: it is more work than the query's budget allows. */
ef_status ef_view_find(ef_engine *engine, const ef_view_query *query, ef_view_list *out,
                       ef_error *err);

/* All views of a projection, one call each, by tenant and id. `each` returns false to stop.
 * *out_as_of (may be NULL) is set before the first call. */
ef_status ef_view_export(ef_engine *engine, ef_str projection, ef_str tenant, bool any_tenant,
                         bool (*each)(void *context, const ef_view *view), void *context,
                         int64_t *out_as_of, ef_error *err);

/* The events that made a view, oldest first, up to `limit`. This and the next two fold the journal
 * again; `budget` (may be NULL) bounds that. */
ef_status ef_view_explain(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_batch *out, ef_error *err);

/* The view as it was when the journal was at `position`. EF_NOT_FOUND: it was not there then. */
ef_status ef_view_at(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                     int64_t position, const ef_budget *budget, ef_view_list *out, ef_error *err);

/*
 * How far a follower of a projection is: everything up to `position` has been told to it, but for
 * streams that the projection could not go on with. Of each of these `waiting` has the position of
 * the first event that it lacks; what follows in that stream is told when it has gone through.
 */
#define EF_VIEW_WAITING_MAX 64

typedef struct ef_view_place {
    int64_t position;
    int64_t waiting[EF_VIEW_WAITING_MAX]; /* ascending */
    size_t waiting_count;
} ef_view_place;

/* Room for its text: the position; behind a semicolon what waits, "120;17,99". */
#define EF_VIEW_PLACE_MAX ((EF_VIEW_WAITING_MAX + 1) * 20 + 1)

void ef_view_place_format(const ef_view_place *place, char out[EF_VIEW_PLACE_MAX]);
ef_status ef_view_place_parse(ef_str text, ef_view_place *out, ef_error *err);
/* All events up to this position have been told, whatever their stream. */
int64_t ef_view_place_as_of(const ef_view_place *place);
/* Where a projection is now: to be told what changes from here on. */
ef_status ef_view_place_now(ef_engine *engine, ef_str projection, ef_str tenant, ef_view_place *out,
                            ef_error *err);

/* What one event made of a view. */
typedef struct ef_view_step {
    const ef_event *event; /* without data and meta */
    ef_str after;          /* JSON; ptr NULL when it was deleted */
} ef_view_step;

typedef struct ef_view_past {
    const ef_view_step *steps; /* oldest first */
    size_t count;
    ef_str before; /* the first step; ptr NULL when it was not there */
    bool more;     /* there are earlier ones */
    struct ef__batch_room *room;
} ef_view_past;

void ef_view_past_release(ef_view_past *past);

/* The last changes of a view, up to `limit` (0 means 100, at most 1,000), each with what it was
 * like then; fewer when views are large. EF_NOT_FOUND: no event has made it. */
ef_status ef_view_history(ef_engine *engine, ef_str projection, ef_str tenant, ef_str id,
                          size_t limit, const ef_budget *budget, ef_view_past *out, ef_error *err);

typedef struct ef_view_changes_query {
    ef_str projection;
    ef_str tenant;
    ef_str view_id; /* "" all */
    size_t limit;   /* events to look at: 0 means 100; at most 1,000 */
} ef_view_changes_query;

/*
 * The views that events behind `place` have touched, each once, as they are now; one without data
 * is gone. *place is moved to where to go on: it stays as long as nothing new is in. To follow a
 * projection, wait and ask again; nothing is missed, and a view that changes often is told in fewer
 * steps. An event that fails holds up what comes behind it in its stream and nothing else, up to
 * EF_VIEW_WAITING_MAX such streams; the place goes no further than the next one that fails.
 */
ef_status ef_view_changes(ef_engine *engine, const ef_view_changes_query *query,
                          ef_view_place *place, ef_view_list *out, ef_error *err);

#ifdef __cplusplus
}
#endif
#endif
