/*
 * lag.c - see lag.h; and the work that is left or blocked, over all processes (ef_engine_backlog).
 */
#include "lag.h"
#include "publish.h"
#include "scope.h"

#include <everfold/run.h>

#include <stdlib.h>

#define STREAMS_AT_ONCE 1000
#define TENANTS_MAX 10000
/* Streams of other generations that a plain as_of skips before it settles for a lower position. */
#define OTHERS_MAX 200
#define RUNS_MAX 100

/* --- positions -------------------------------------------------------------------------------- */

/* A tenant of a log-ordered projection may have its own cursor. */
static ef_status cursor_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found;
    ef_status st = EF_OK;

    *out = generation->position;
    if (!tenant) {
        if (generation->own_cursors && generation->own_lowest < generation->position)
            *out = generation->own_lowest;
        return EF_OK;
    }
    st = ef__tenant_cursor_read(engine, generation, *tenant, &item, &found, err);
    if (st == EF_OK && found)
        *out = item.cursor.position;
    return st;
}

ef_status ef__engine_delivered(ef_engine *engine, const ef__generation *generation,
                               const ef_str *tenant, int64_t *out, ef_error *err)
{
    ef_row oldest;
    ef_head head;
    ef_status st;

    if (!ef__generation_by_queue(generation))
        return cursor_of(engine, generation, tenant, out, err);
    st = ef_journal_head(engine->journal, &head, err);
    if (st != EF_OK)
        return st;
    /* The head was read first: later rows are above it. Tenants are claimed by position. */
    *out = head.position;
    st = ef__lane_first_row(engine, EF_STR(EF_LANE_APPLY), 0, &oldest, err);
    if (st == EF_OK && oldest.position && oldest.position <= *out)
        *out = oldest.position - 1;
    return st;
}

/* --- streams with retry rows ------------------------------------------------------------------ */

typedef struct lag_walk {
    ef_engine *engine;
    const ef__generation *generation;
    bool counts;
    bool first_only;       /* stop at the first stream that the generation lacks */
    size_t others;         /* streams that only another generation needs */
    ef__retry_query query; /* of the next page */
    ef__retry_stream_list page;
    bool has_page; /* it was read together with the delivered position */
    ef__view_key *keys;
    ef__watermark *watermarks;
    ef__lag *out;
} lag_walk;

ef_status ef__watermarks_read(ef_views *views, int64_t generation, const ef__view_key *keys,
                              size_t count, ef__watermark *out, ef_error *err)
{
    ef_status st = EF_OK;
    bool found;

    if (views->ops->watermark_get_many && count > 1)
        return views->ops->watermark_get_many(views, generation, keys, count, out, err);
    for (size_t i = 0; st == EF_OK && i < count; i++) {
        out[i] = (ef__watermark){0};
        st = views->ops->watermark_get(views, generation, keys[i].tenant, keys[i].name, &out[i],
                                       &found, err);
    }
    return st;
}

ef_status ef__watermark_read(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                             ef_str stream, ef__watermark *out, ef_error *err)
{
    return ef__watermarks_read(engine->views, generation->id, &(ef__view_key){tenant, stream}, 1,
                               out, err);
}

static ef_status read_marks(lag_walk *walk, ef_error *err)
{
    for (size_t i = 0; i < walk->page.count; i++)
        walk->keys[i] = (ef__view_key){walk->page.items[i].tenant, walk->page.items[i].stream};
    return ef__watermarks_read(walk->engine->views, walk->generation->id, walk->keys,
                               walk->page.count, walk->watermarks, err);
}

/* Rows that the generation lacks. Most streams have one for each seq from first to last. */
static ef_status count_rows(const lag_walk *walk, const ef__retry_stream *stream,
                            int64_t applied_seq, int64_t *out, ef_error *err)
{
    EF__AUTO(ef__retry_stream_list) one = {0};
    ef__retry_query query = {.lane = walk->query.lane,
                             .tenant = stream->tenant,
                             .stream = stream->stream,
                             .above_seq = applied_seq,
                             .counts = true,
                             .limit = 1};
    ef_status st;

    *out = stream->rows;
    if (applied_seq < stream->seq)
        return EF_OK;
    *out = stream->last_seq - applied_seq;
    if (stream->rows == stream->last_seq - stream->seq + 1)
        return EF_OK;
    st = ef__retry_streams(walk->engine->journal, &query, &one, err);
    *out = st == EF_OK && one.count ? one.items[0].rows : 0;
    return st;
}

ef_status ef__stream_position(ef_engine *engine, ef_str tenant, ef_str stream, int64_t seq,
                              int64_t *out, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_stream(engine->journal, tenant, stream, seq, 1, &batch, err);

    *out = st == EF_OK && batch.count ? batch.events[0].position : 0;
    return st;
}

/* The position of the first event that it lacks: that of the first row, unless only another
 * generation needs that row. */
static ef_status find_first_lacking(const lag_walk *walk, const ef__retry_stream *stream,
                                    int64_t applied_seq, int64_t *out, ef_error *err)
{
    int64_t position = 0;
    ef_status st = applied_seq < stream->seq
                       ? EF_OK
                       : ef__stream_position(walk->engine, stream->tenant, stream->stream,
                                             applied_seq + 1, &position, err);

    *out = position ? position : stream->position;
    return st;
}

static ef_status add_stream(lag_walk *walk, const ef__retry_stream *stream,
                            const ef__watermark *watermark, ef_error *err)
{
    ef__lag *out = walk->out;
    bool blocked = ef__retry_stream_blocked(stream);
    int64_t rows = 0, from;
    ef_status st = find_first_lacking(walk, stream, watermark->applied_seq, &from, err);

    if (st == EF_OK && walk->counts)
        st = count_rows(walk, stream, watermark->applied_seq, &rows, err);
    if (st != EF_OK)
        return st;
    out->as_of = from <= out->as_of ? from - 1 : out->as_of;
    if (!blocked) {
        out->proceeding += rows;
        out->proceeds_from = from < out->proceeds_from ? from : out->proceeds_from;
        return EF_OK;
    }
    out->blocked += rows;
    out->blocked_streams++;
    out->dead_streams += stream->status == EF_ROW_DEAD;
    if (!out->blocked_from || from < out->blocked_from)
        out->blocked_from = from;
    return EF_OK;
}

/* A page of streams. *out_over: no further stream matters. */
static ef_status walk_page(lag_walk *walk, bool *out_over, ef_error *err)
{
    ef_status st = walk->has_page
                       ? EF_OK
                       : ef__retry_streams(walk->engine->journal, &walk->query, &walk->page, err);

    walk->has_page = false;
    if (st == EF_OK && walk->page.count)
        st = read_marks(walk, err);
    *out_over = walk->page.count < walk->query.limit;
    for (size_t i = 0; st == EF_OK && i < walk->page.count; i++) {
        const ef__retry_stream *stream = &walk->page.items[i];
        walk->query.after = stream->position;
        if (walk->first_only && stream->position > walk->out->as_of) {
            *out_over = true; /* the following ones are above it too */
            break;
        }
        if (!ef__lag_lacks(stream, walk->out->delivered, &walk->watermarks[i])) {
            walk->others++;
            continue;
        }
        st = add_stream(walk, stream, &walk->watermarks[i], err);
    }
    return st;
}

static ef_status walk_lane(lag_walk *walk, ef_error *err)
{
    bool over = false;
    ef_status st = EF_OK;

    walk->keys = malloc(walk->query.limit * sizeof *walk->keys);
    walk->watermarks = malloc(walk->query.limit * sizeof *walk->watermarks);
    if (!walk->keys || !walk->watermarks)
        st = ef_fail(err, EF_NO_MEMORY, "out of memory while counting retry rows");
    while (st == EF_OK && !over) {
        st = walk_page(walk, &over, err);
        if (st == EF_OK && !over && walk->first_only && walk->others >= OTHERS_MAX) {
            walk->out->as_of =
                walk->query.after < walk->out->as_of ? walk->query.after : walk->out->as_of;
            over = true;
        }
    }
    free(walk->keys);
    free(walk->watermarks);
    return st;
}

static lag_walk walk_of(ef_engine *engine, const ef__generation *generation, ef_str name,
                        const ef_str *tenant, size_t page, ef__lag *out)
{
    return (lag_walk){.engine = engine,
                      .generation = generation,
                      .query = {.lane = name,
                                .any_tenant = !tenant,
                                .tenant = tenant ? *tenant : EF_STR(""),
                                .limit = page},
                      .out = out};
}

static bool can_send(const ef_journal *journal)
{
    return journal->control == journal && journal->outbox->delivery_send;
}

/* The delivered position, with the first page of the lane where the store reads both together. */
static ef_status read_delivered(lag_walk *walk, void *sent, const ef_str *tenant, int64_t *out,
                                ef_error *err)
{
    ef_journal *journal = walk->engine->journal;
    bool by_queue = ef__generation_by_queue(walk->generation);
    ef_status st;

    if (sent || (by_queue && can_send(journal))) {
        st = journal->outbox->delivery_receive(journal, sent, &walk->query, out, &walk->page, err);
        walk->has_page = st == EF_OK;
        if (st != EF_OK || by_queue)
            return st;
    }
    return ef__engine_delivered(walk->engine, walk->generation, tenant, out, err);
}

/* --- tenants of log-ordered projections ------------------------------------------------------- */

static void add_tenant(ef__lag *out, const ef__tenant_cursor *cursor)
{
    if (cursor->attempts == 0) { /* catching up */
        if (cursor->position < out->proceeds_from)
            out->proceeds_from = cursor->position + 1;
        return;
    }
    out->blocked_streams++;
    out->blocked += cursor->waiting;
    if (!out->blocked_from || cursor->position < out->blocked_from)
        out->blocked_from = cursor->position + 1;
}

static ef_status read_tenants(ef_engine *engine, const ef__generation *generation,
                              const ef_str *tenant, ef__lag *out, ef_error *err)
{
    EF__AUTO(ef__tenant_cursor_list) list = {0};
    ef__tenant_cursor_item item;
    bool found = false;
    ef_status st;

    out->delivered = generation->position;
    if (generation->own_cursors == 0)
        return EF_OK;
    if (tenant) {
        st = ef__tenant_cursor_read(engine, generation, *tenant, &item, &found, err);
        if (st == EF_OK && found)
            add_tenant(out, &item.cursor);
        return st;
    }
    st = engine->views->ops->tenant_cursor_ls(engine->views, generation->id, INT64_MAX, TENANTS_MAX,
                                              &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        add_tenant(out, &list.items[i].cursor);
    return st;
}

/* --- the result ------------------------------------------------------------------------------- */

ef_status ef__lag_read(ef_engine *engine, const ef__generation *generation, const ef_str *tenant,
                       bool counts, ef__lag *out, ef_error *err)
{
    lag_walk walk = walk_of(engine, generation, generation->name, tenant, STREAMS_AT_ONCE, out);
    ef_status st;

    *out = (ef__lag){.proceeds_from = INT64_MAX};
    walk.counts = walk.query.counts = counts;
    st = read_delivered(&walk, NULL, tenant, &out->delivered, err);
    out->as_of = out->delivered;
    if (st == EF_OK && generation->by_log)
        st = read_tenants(engine, generation, tenant, out, err);
    else if (st == EF_OK)
        st = walk_lane(&walk, err);
    EF_RELEASE(&walk.page);
    return st;
}

void *ef__as_of_send(ef_engine *engine, ef_str name, const ef_str *tenant)
{
    lag_walk walk = walk_of(engine, NULL, name, tenant, OTHERS_MAX, NULL);

    return can_send(engine->journal)
               ? engine->journal->outbox->delivery_send(engine->journal, &walk.query)
               : NULL;
}

ef_status ef__as_of_receive(ef_engine *engine, void *sent, ef_str name,
                            const ef__generation *generation, const ef_str *tenant, int64_t *out,
                            ef_error *err)
{
    static const ef__generation none = {.state = EF__GENERATION_RETIRED};
    ef__lag lag = {.proceeds_from = INT64_MAX};
    lag_walk walk =
        walk_of(engine, generation ? generation : &none, name, tenant, OTHERS_MAX, &lag);
    ef_status st = EF_OK;

    if (generation || sent)
        st = read_delivered(&walk, sent, tenant, &lag.delivered, err);
    lag.as_of = lag.delivered;
    walk.first_only = true;
    if (st == EF_OK && generation && !generation->by_log)
        st = walk_lane(&walk, err);
    EF_RELEASE(&walk.page);
    *out = st == EF_OK ? lag.as_of : 0;
    return st;
}

ef_status ef__engine_as_of(ef_engine *engine, const ef__generation *generation,
                           const ef_str *tenant, int64_t *out, ef_error *err)
{
    return ef__as_of_receive(engine, NULL, generation->name, generation, tenant, out, err);
}

ef_status ef__lag_queued(ef_engine *engine, int64_t *out, ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        engine->journal, &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true},
        &summary, err);

    *out = summary.pending + summary.processing;
    EF_RELEASE(&summary.oldest);
    return st;
}

int64_t ef__lag_queued_open(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t open = head - ef__generation_done(generation) - lag->proceeding - lag->blocked;

    if (!ef__generation_by_queue(generation) || queued <= open)
        return queued;
    return open > 0 ? open : 0;
}

int64_t ef__lag_unaccounted(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued)
{
    int64_t done = ef__generation_done(generation);

    if (generation->by_log)
        return generation->position - generation->own_waiting - done;
    /* A generation that was live before has events above its cursor in some streams. */
    return ef__generation_by_queue(generation)
               ? head - done - queued - lag->proceeding - lag->blocked
               : 0;
}

/* --- the work of all processes ---------------------------------------------------------------- */

/* Everything is derived from the stores, so the result includes the work of other processes. */

static void set_earliest_due(ef_backlog *out, int64_t due_us)
{
    if (out->due_us == 0 || due_us < out->due_us)
        out->due_us = due_us;
}

/* Tenants of a log-ordered generation with their own cursor: they fail, or catch up. */
static ef_status add_tenants(ef_engine *engine, const ef__generation *generation, ef_backlog *out,
                             ef_error *err)
{
    EF__AUTO(ef__tenant_cursor_list) list = {0};
    bool catching_up = false;
    ef_status st = engine->views->ops->tenant_cursor_ls(
        engine->views, generation->id, INT64_MAX, (size_t)generation->own_cursors, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__tenant_cursor *cursor = &list.items[i].cursor;
        catching_up = catching_up || cursor->attempts == 0;
        if (cursor->attempts == 0) {
            out->behind_events += cursor->waiting;
            continue;
        }
        out->tenants++;
        out->blocked += cursor->waiting;
        set_earliest_due(out, cursor->due_us);
    }
    out->behind += catching_up;
    return st;
}

static ef_status add_generation(ef_engine *engine, const ef__generation *generation, int64_t head,
                                ef_backlog *out, ef_error *err)
{
    bool behind = generation->state == EF__GENERATION_CATCHING_UP ||
                  (generation->state == EF__GENERATION_LIVE && generation->by_log &&
                   generation->position < head);

    if (generation->state == EF__GENERATION_FAILED)
        out->failed++;
    else if (behind && ef__c_function_missing(engine, generation))
        out->no_function++;
    else if (behind) {
        out->behind++;
        out->behind_events += head > generation->position ? head - generation->position : 0;
    }
    return ef__generation_by_cursor(generation) && generation->own_cursors &&
                   !ef__c_function_missing(engine, generation)
               ? add_tenants(engine, generation, out, err)
               : EF_OK;
}

static ef_status add_generations(ef_engine *engine, const ef__generation_list *list,
                                 ef_backlog *out, ef_error *err)
{
    ef_head head = {0};
    ef_status st = ef_journal_head(engine->journal, &head, err);

    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        st = add_generation(engine, &list->items[i], head.position, out, err);
    return st;
}

/* Rows of a projection's lane are kept for its paused generations too. */
static bool has_paused(const ef__generation_list *list, ef_str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].name, name) &&
            list->items[i].state == EF__GENERATION_PAUSED)
            return true;
    return false;
}

/* The rows of a projection's lane: failed rows, and rows blocked behind them. A due row can be
 * claimed, so it counts as queued. */
static void add_retry_rows(const ef_outbox_summary *summary, bool paused, int64_t now_us,
                           ef_backlog *out)
{
    const ef_row *oldest = summary->oldest.count ? &summary->oldest.items[0] : NULL;
    bool is_pending = oldest && oldest->status == EF_ROW_PENDING;

    out->retrying += summary->failed;
    out->dead += summary->dead;
    if (paused)
        return;
    if (oldest && oldest->next_attempt_us <= now_us)
        out->queued++;
    else if (is_pending)
        out->retrying++;
    if (oldest && oldest->next_attempt_us > now_us)
        set_earliest_due(out, oldest->next_attempt_us);
    out->blocked += summary->pending - is_pending;
}

/* Is the sink of a publisher unavailable to this process? */
static bool sink_is_down(ef_engine *engine, ef_str name)
{
    EF__LOCK(&engine->publishers.health_lock);

    for (const ef__publisher_task *publisher = engine->publishers.first; publisher;
         publisher = publisher->next)
        if (ef_str_equal(name, ef_str_from(publisher->name)))
            return publisher->health.state == EF_PUBLISHER_RETRYING;
    return false;
}

static void add_publisher(ef_engine *engine, ef_str name, const ef_outbox_summary *summary,
                          ef_backlog *out)
{
    out->retrying += summary->failed;
    out->dead += summary->dead;
    if (sink_is_down(engine, name) || summary->failed || summary->dead)
        out->unpublished += summary->pending + summary->processing;
    else
        out->queued += summary->pending + summary->processing;
}

static ef_status add_lane(ef_engine *engine, const ef__generation_list *list, const ef_lane *lane,
                          ef_backlog *out, ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        engine->journal, &(ef_outbox_query){.lane = lane->name, .any_tenant = true}, &summary, err);

    if (st == EF_OK && lane->kind == EF_LANE_KIND_APPLY)
        out->queued += summary.pending + summary.processing;
    else if (st == EF_OK && lane->kind == EF_LANE_KIND_PROJECTION)
        add_retry_rows(&summary, has_paused(list, lane->name), ef__engine_now(engine), out);
    else if (st == EF_OK)
        add_publisher(engine, lane->name, &summary, out);
    EF_RELEASE(&summary.oldest);
    return st;
}

/* A publisher that is paused does not count. */
static ef_status add_publisher_lane(ef_engine *engine, const ef_lane *lane, ef_backlog *out,
                                    ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(EF_LIMIT_BATCH_BYTES);
    ef_publisher publisher;
    ef_status st = ef__publisher_read(lane, &arena, &publisher, err);

    if (st == EF_OK && !publisher.paused)
        st = add_lane(engine, NULL, lane, out, err);
    return st;
}

static ef_status add_lanes(ef_engine *engine, const ef__generation_list *list, ef_backlog *out,
                           ef_error *err)
{
    EF__AUTO(ef_lane_list) lanes = {0};
    int64_t copied_us = 0; /* publishers of a copied journal are treated as paused */
    ef_status st = ef__journal_copied(engine->journal, &copied_us, err);

    if (st == EF_OK)
        st = ef_lane_ls(engine->journal, &lanes, err);
    for (size_t i = 0; st == EF_OK && i < lanes.count; i++)
        if (lanes.items[i].kind != EF_LANE_KIND_PUBLISHER)
            st = add_lane(engine, list, &lanes.items[i], out, err);
        else if (copied_us == 0 && ef__lane_is_publisher(&lanes.items[i]))
            st = add_publisher_lane(engine, &lanes.items[i], out, err);
    return st;
}

static ef_status add_runs(ef_engine *engine, ef_backlog *out, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_status st = ef_run_ls(engine->journal, &(ef_run_query){.open_only = true, .limit = RUNS_MAX},
                             &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        out->run_events += runs.items[i].processed;
    out->runs = (int64_t)runs.count;
    return st;
}

ef_status ef_engine_backlog(ef_engine *engine, ef_backlog *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = (ef_backlog){0};
    st = ef__engine_generations(engine, (ef_str){0}, &list, err);
    if (st == EF_OK)
        st = add_generations(engine, &list, out, err);
    if (st == EF_OK)
        st = add_lanes(engine, &list, out, err);
    return st == EF_OK ? add_runs(engine, out, err) : st;
}
