/*
 * lane.c - see lane.h.
 *
 * Rows are removed without a lease. That is safe because rows are read before the generations are:
 * whoever needs a row that is there files it again after it has become a generation that keeps
 * rows, and a row that was filed again since it was read is not removed.
 */
#include "lane.h"
#include "run.h"

#include "../journal/journal.h"

#include <stdlib.h>

#define ROWS_AT_ONCE 1000
#define STREAMS_AT_ONCE 1000

bool ef__generation_keeps_rows(const ef__generation_list *list, const ef__generation *g)
{
    int32_t active = 0;

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].routed && ef_str_equal(list->items[i].name, g->name))
            active = list->items[i].number;
    return !g->by_log && g->state != EF__GENERATION_RETIRED && g->number >= active;
}

/* --- sweeping --------------------------------------------------------------------------------- */

static ef_status lacks_event(ef_engine *e, const ef__generation *g, const ef_row *row, bool *out,
                             ef_error *err)
{
    ef__watermark mark = {0};
    bool found;
    ef_status st =
        e->views->ops->watermark_get(e->views, g->id, row->tenant, row->stream, &mark, &found, err);

    *out = mark.applied_seq < row->seq || ef__watermark_held(&mark);
    return st;
}

static ef_status is_needed(ef_engine *e, const ef__generation_list *list, const ef_row *row,
                           bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = row->skip; /* a worker passes it */
    for (size_t i = 0; st == EF_OK && !*out && i < list->count; i++)
        if (ef_str_equal(list->items[i].name, row->lane) &&
            ef__generation_keeps_rows(list, &list->items[i]))
            st = lacks_event(e, &list->items[i], row, out, err);
    return st;
}

/* A page of rows from a position on. *out_next: where the next page begins; 0: this was the last.
 */
static ef_status sweep_page(ef_engine *e, ef_str lane, int64_t from, int64_t *out_next,
                            ef_error *err)
{
    ef_row_list rows = {0};
    ef__generation_list list = {0};
    ef_exception *gone = NULL;
    size_t count = 0;
    ef_status st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){.lane = lane, .any_tenant = true, .limit = ROWS_AT_ONCE, .from = from},
        &rows, err);

    *out_next = 0;
    if (st == EF_OK && rows.count)
        st = ef__room_ready(&list.room, err);
    if (st == EF_OK && rows.count)
        st = e->views->ops->generation_ls(e->views, lane, &list, err);
    if (st == EF_OK && !(gone = malloc((rows.count + 1) * sizeof *gone)))
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while removing retry rows");
    for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
        const ef_row *row = &rows.items[i];
        bool needed;
        st = is_needed(e, &list, row, &needed, err);
        gone[count] = (ef_exception){.lane = row->lane,
                                     .position = row->position,
                                     .status = EF_ROW_DONE,
                                     .filed = row->filed};
        count += st == EF_OK && !needed;
    }
    if (st == EF_OK)
        st = ef__outbox_remove(e->journal, gone, count, err);
    if (st == EF_OK && rows.count == ROWS_AT_ONCE)
        *out_next = rows.items[rows.count - 1].position + 1;
    free(gone);
    ef_row_list_release(&rows);
    ef__room_release(&list.room);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never made has no rows */
}

ef_status ef__lane_sweep(ef_engine *e, ef_str lane, ef_error *err)
{
    int64_t from = 1;
    ef_status st = EF_OK;

    while (st == EF_OK && from)
        st = sweep_page(e, lane, from, &from, err);
    return st;
}

/* --- filing ----------------------------------------------------------------------------------- */

/* Will the queue bring the event? Not if it is in flight. */
static ef_status is_queued(ef_engine *e, int64_t position, bool *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        e->journal,
        &(ef_outbox_query){
            .lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1, .from = position},
        &rows, err);

    *out = st == EF_OK && rows.count && rows.items[0].position == position &&
           rows.items[0].status == EF_ROW_PENDING;
    ef_row_list_release(&rows);
    return st;
}

static ef_status file_stream(ef_engine *e, const ef__generation *g, const ef_stream *stream,
                             ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__watermark mark = {0};
    bool found, queued = false;
    ef_status st = e->views->ops->watermark_get(e->views, g->id, stream->tenant, stream->name,
                                                &mark, &found, err);

    if (st != EF_OK || mark.applied_seq >= stream->seq)
        return st;
    st = ef_journal_read_stream(e->journal, stream->tenant, stream->name, mark.applied_seq + 1, 1,
                                &batch, err);
    if (st == EF_OK && batch.count)
        st = is_queued(e, batch.events[0].position, &queued, err);
    if (st == EF_OK && batch.count && !queued)
        st = ef__gap_file(
            e, g,
            &(ef_event){.tenant = stream->tenant, .stream = stream->name, .seq = stream->seq + 1},
            err);
    ef_batch_release(&batch);
    return st;
}

/* A page of streams behind a cursor, which moves; "" behind the last one. */
static ef_status file_page(ef_engine *e, const ef__generation *g, char after[EF_CURSOR_MAX],
                           ef_error *err)
{
    ef_stream_list streams = {0};
    ef_status st = ef_stream_ls(e->journal, (ef_str){0}, true, ef_str_from(after), STREAMS_AT_ONCE,
                                &streams, err);

    for (size_t i = 0; st == EF_OK && i < streams.count; i++)
        st = file_stream(e, g, &streams.items[i], err);
    if (st == EF_OK)
        memcpy(after, streams.next, EF_CURSOR_MAX);
    ef_stream_list_release(&streams);
    return st;
}

ef_status ef__lane_file(ef_engine *e, const ef__generation *g, ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    ef_status st;

    do
        st = file_page(e, g, after, err);
    while (st == EF_OK && after[0]);
    return st;
}

/* --- by workers ------------------------------------------------------------------------------- */

/* Changes whenever a generation becomes the active one, comes, goes, or goes live: the sweep begins
 * again, because its index is one of this list. */
static int64_t fingerprint(const ef__generation_list *list)
{
    uint64_t sum = 1;

    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        sum = sum * 31 + (uint64_t)g->id * 4 + (uint64_t)g->routed * 2 +
              (g->state == EF__GENERATION_LIVE);
    }
    return (int64_t)sum;
}

/* Was it superseded, and is not any more? A newer one is not the active one. */
static bool came_back(const ef__generation_list *list, const ef__generation *g)
{
    bool newer = false;

    for (size_t i = 0; i < list->count; i++)
        newer = newer ||
                (ef_str_equal(list->items[i].name, g->name) && list->items[i].number > g->number &&
                 list->items[i].state != EF__GENERATION_RETIRED);
    return newer && g->state == EF__GENERATION_LIVE && ef__generation_keeps_rows(list, g);
}

/* The next generation of the sweep, in the order of the list; NULL: it is over. */
static const ef__generation *next_generation(ef__sweep *sweep, const ef__generation_list *list)
{
    while (sweep->at < list->count && list->items[sweep->at].by_log)
        sweep->at++;
    return sweep->at < list->count ? &list->items[sweep->at] : NULL;
}

/* A piece of one generation: its lane is swept once, then what it lacks is filed. */
static ef_status sweep_generation(ef_engine *e, const ef__generation_list *list,
                                  const ef__generation *g, ef_error *err)
{
    ef__sweep *sweep = &e->sweep;
    bool first = sweep->at == 0 || !ef_str_equal(list->items[sweep->at - 1].name, g->name);
    ef_status st = EF_OK;

    if (first && sweep->from) {
        st = sweep_page(e, g->name, sweep->from, &sweep->from, err);
        if (st != EF_OK || sweep->from)
            return st;
    }
    if (came_back(list, g))
        st = file_page(e, g, sweep->after, err);
    if (st == EF_OK && !sweep->after[0]) {
        sweep->at++;
        sweep->from = 1;
    }
    return st;
}

ef_status ef__lanes_step(ef_engine *e, ef_tick *tick, ef_error *err)
{
    ef__generation_list list = {0};
    const ef__generation *g;
    ef_status st;

    if (e->ghost || !ef__crew_is_first(&e->crew))
        return EF_OK;
    st = ef__room_ready(&list.room, err);
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &list, err);
    if (st == EF_OK && fingerprint(&list) != e->sweep.of)
        e->sweep = (ef__sweep){.of = fingerprint(&list), .from = 1};
    g = st == EF_OK ? next_generation(&e->sweep, &list) : NULL;
    if (g) {
        st = sweep_generation(e, &list, g, err);
        tick->more = true;
    }
    ef__room_release(&list.room);
    return st;
}
