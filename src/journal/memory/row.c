/*
 * row.c - the outbox as people see it: rows, their summary, and what operators do to them.
 *
 * Status pending and processing of a queued row, and blocked of an exception, are worked out here
 * from marks, leases and the rows before them; none of it is stored.
 */
#include "memory.h"

#include "../../base/cursor.h"
#include "../../core/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#define ROW_CURSOR 'o'
#define PUBLISHED_CURSOR 'd' /* it goes down */

/* A row that may be shown: one without a state of its own when `exception` is -1. */
typedef struct mem_found {
    size_t lane;
    int64_t position;
    int64_t exception;
    ef_row_status status;
    bool blocked;
    int64_t published_us;
} mem_found;

typedef struct mem_found_list {
    const mem_journal *m;
    mem_found *items;
    size_t count, cap;
    bool down; /* the last first */
} mem_found_list;

/* --- finding rows ----------------------------------------------------------------------------- */

static bool is_blocked(const mem_journal *m, size_t index)
{
    const mem_exception *x = &m->exceptions[index];

    if (x->status != EF_ROW_PENDING)
        return false;
    for (size_t i = 0; i < index; i++) {
        const mem_exception *before = &m->exceptions[i];
        if (before->status == EF_ROW_DEAD && before->lane == x->lane &&
            m->events[before->position - 1]->stream == m->events[x->position - 1]->stream)
            return true;
    }
    return false;
}

static bool add_found(mem_found_list *list, const ef_outbox_query *query, mem_found found)
{
    const ef_event *event = &list->m->events[found.position - 1]->event;

    if (!query->any_tenant && !ef_str_equal(event->tenant, query->tenant))
        return true;
    if (!ef__mem_grow((void **)&list->items, &list->cap, list->count, sizeof *list->items))
        return false;
    list->items[list->count++] = found;
    return true;
}

static bool find_queued(mem_found_list *list, const ef_outbox_query *query, size_t lane)
{
    const mem_journal *m = list->m;

    for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        const mem_part *part = &m->lanes[lane].parts[p];
        ef_lease_key key = ef__mem_lane_lease(&m->lanes[lane], p);
        int64_t token = 0, in_hand = 0;
        if (part->first < part->count && ef__mem_lease_live(m, &key, &token) &&
            token == part->hand_token)
            in_hand = part->hand;
        for (size_t r = part->first; r < part->count; r++) {
            int64_t position = part->rows[r];
            ef_row_status status = position <= in_hand ? EF_ROW_PROCESSING : EF_ROW_PENDING;
            if (!add_found(list, query, (mem_found){lane, position, -1, status, false, 0}))
                return false;
        }
    }
    return true;
}

static int compare_found(const void *a, const void *b, void *context)
{
    const mem_journal *m = context;
    const mem_found *x = a, *y = b;

    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    return ef__mem_compare(m->lanes[x->lane].name, m->lanes[y->lane].name);
}

/* Every row of the lane and tenant asked for, in order. The caller frees the items. */
static ef_status find_rows(mem_journal *m, const ef_outbox_query *query, mem_found_list *out,
                           ef_error *err)
{
    bool ok = true;

    *out = (mem_found_list){.m = m};
    for (size_t lane = 0; ok && lane < m->lane_count; lane++)
        if (query->lane.len == 0 || ef_str_equal(m->lanes[lane].name, query->lane))
            ok = find_queued(out, query, lane);
    for (size_t i = 0; ok && i < m->exception_count; i++) {
        const mem_exception *x = &m->exceptions[i];
        mem_found found = {x->lane, x->position, (int64_t)i, x->status, is_blocked(m, i), 0};
        if (query->lane.len == 0 || ef_str_equal(m->lanes[x->lane].name, query->lane))
            ok = add_found(out, query, found);
    }
    if (!ok) {
        free(out->items);
        return ef__mem_no_memory(err);
    }
    if (out->count)
        qsort_r(out->items, out->count, sizeof *out->items, compare_found, m);
    return EF_OK;
}

static int compare_down(const void *a, const void *b, void *context)
{
    return compare_found(b, a, context);
}

/* Every published row of the lane and the positions asked for, the last first. The caller frees the
 * items. */
static ef_status find_published(mem_journal *m, const ef_outbox_query *query, mem_found_list *out,
                                ef_error *err)
{
    *out = (mem_found_list){.m = m, .down = true};
    for (size_t i = 0; i < m->published_count; i++) {
        const mem_published *p = &m->published[i];
        mem_found found = {p->lane, p->position, -1, EF_ROW_PUBLISHED, false, p->at_us};
        if ((query->lane.len && !ef_str_equal(m->lanes[p->lane].name, query->lane)) ||
            (query->upto && p->position > query->upto))
            continue;
        if (!add_found(out, query, found)) {
            free(out->items);
            return ef__mem_no_memory(err);
        }
    }
    if (out->count)
        qsort_r(out->items, out->count, sizeof *out->items, compare_down, m);
    return EF_OK;
}

/* --- showing rows ----------------------------------------------------------------------------- */

static ef_status make_row(const mem_journal *m, const mem_found *found, ef__arena *arena,
                          ef_row *out, ef_error *err)
{
    const mem_event *event = m->events[found->position - 1];
    const mem_exception *x = found->exception < 0 ? NULL : &m->exceptions[found->exception];

    *out = (ef_row){
        .lane = ef__arena_copy(arena, m->lanes[found->lane].name),
        .tenant = ef__arena_copy(arena, event->event.tenant),
        .stream = ef__arena_copy(arena, event->event.stream),
        .seq = event->event.seq,
        .position = found->position,
        .event_type = ef__arena_copy(arena, ef__mem_type_canonical(m, event->event.type)),
        .status = found->status,
        .blocked = found->blocked,
        .skip = x && x->skip,
        .partition = event->partition,
        .attempt_count = x ? x->attempts : 0,
        .next_attempt_us = x ? x->due_us : 0,
        .last_error = ef__arena_copy(arena, x ? x->error : (ef_str){0}),
        .enqueued_us = event->event.recorded_us,
        .updated_us = x ? x->updated_us : event->event.recorded_us,
        .filed = x ? x->filed : 0,
        .trying = x && x->trying,
    };
    if (found->status == EF_ROW_PUBLISHED) {
        out->updated_us = out->published_us = found->published_us;
        out->partition = ef__partition_of(out->tenant, out->stream, m->partitions);
    }
    if (!out->lane.ptr || !out->tenant.ptr || !out->stream.ptr || !out->event_type.ptr ||
        !out->last_error.ptr)
        return ef__room_full(err);
    return EF_OK;
}

static ef_status rows_ready(ef_row_list *out, size_t count, ef_row **rows, ef_error *err)
{
    *rows = ef__arena_zalloc(&out->room->arena, count + 1, sizeof **rows);
    out->items = *rows;
    return *rows ? EF_OK : ef__room_full(err);
}

static bool comes_behind(const mem_found_list *list, const mem_found *found, const mem_found *after)
{
    int way = compare_found(found, after, (void *)list->m);

    return list->down ? way < 0 : way > 0;
}

static bool is_wanted(const ef_outbox_query *query, const mem_found *found)
{
    return (!query->status || *query->status == found->status) &&
           (!query->blocked_only || found->blocked);
}

static ef_status show_page(const mem_found_list *list, const ef_outbox_query *query,
                           const mem_found *after, ef_row_list *out, ef_error *err)
{
    size_t room = list->count < query->limit ? list->count : query->limit;
    const mem_found *last = NULL;
    ef_row *rows;
    ef_status st = rows_ready(out, room, &rows, err);

    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        const mem_found *found = &list->items[i];
        if (!is_wanted(query, found) || found->position < query->from ||
            (after && !comes_behind(list, found, after)))
            continue;
        if (out->count == query->limit) {
            ef__cursor_format(list->down ? PUBLISHED_CURSOR : ROW_CURSOR, last->position,
                              (int64_t)last->lane, out->next);
            break;
        }
        st = make_row(list->m, found, &out->room->arena, &rows[out->count], err);
        out->count++;
        last = found;
    }
    return st;
}

static ef_status list_rows(mem_journal *m, const ef_outbox_query *query, ef_row_list *out,
                           ef_error *err)
{
    bool published = ef__query_published(query);
    mem_found after = {0};
    int64_t lane;
    mem_found_list list;
    ef_status st = ef__cursor_parse(published ? PUBLISHED_CURSOR : ROW_CURSOR, query->after,
                                    &after.position, &lane, err);

    if (st != EF_OK)
        return st;
    if (lane < 0 || lane >= (int64_t)m->lane_count)
        return ef_fail(err, EF_BAD_INPUT, "after is not a cursor of this journal");
    after.lane = (size_t)lane;
    st = published ? find_published(m, query, &list, err) : find_rows(m, query, &list, err);
    if (st != EF_OK)
        return st;
    st = show_page(&list, query, query->after.len ? &after : NULL, out, err);
    free(list.items);
    return st;
}

ef_status ef__mem_outbox_ls(ef_journal *journal, const ef_outbox_query *query, ef_row_list *out,
                            ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_rows(m, query, out, err);

    ef__mem_unlock(m);
    return st;
}

/* --- the summary ------------------------------------------------------------------------------ */

static void count_row(const mem_journal *m, const mem_found *found, ef_outbox_summary *out)
{
    int64_t enqueued_us = m->events[found->position - 1]->event.recorded_us;

    out->pending += found->status == EF_ROW_PENDING;
    out->processing += found->status == EF_ROW_PROCESSING;
    out->failed += found->status == EF_ROW_FAILED;
    out->dead += found->status == EF_ROW_DEAD;
    if (!found->blocked)
        return;
    if (out->blocked++ == 0)
        out->blocked_oldest_us = enqueued_us; /* rows come in order, so the first is the oldest */
}

static ef_status summarise(mem_journal *m, const ef_outbox_query *query, ef_outbox_summary *out,
                           ef_error *err)
{
    mem_found_list list;
    ef_row *rows;
    ef_status st = find_rows(m, query, &list, err);

    if (st != EF_OK)
        return st;
    st = rows_ready(&out->oldest, 1, &rows, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const mem_found *found = &list.items[i];
        bool waits = found->status == EF_ROW_PENDING || found->status == EF_ROW_FAILED;
        count_row(m, found, out);
        if (waits && !found->blocked && out->oldest.count == 0) {
            st = make_row(m, found, &out->oldest.room->arena, &rows[0], err);
            out->oldest.count = 1;
        }
    }
    free(list.items);
    return st;
}

ef_status ef__mem_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                                   ef_outbox_summary *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = summarise(m, query, out, err);

    ef__mem_unlock(m);
    return st;
}

static bool has_queued(const mem_journal *m)
{
    for (size_t l = 0; l < m->lane_count; l++)
        for (int32_t p = 0; m->lanes[l].kind == EF_LANE_KIND_APPLY && p < EF_LIMIT_PARTITIONS; p++)
            if (m->lanes[l].parts[p].first < m->lanes[l].parts[p].count)
                return true;
    return false;
}

static bool has_tries(const mem_journal *m)
{
    for (size_t i = 0; i < m->exception_count; i++)
        if (m->lanes[m->exceptions[i].lane].kind == EF_LANE_KIND_PROJECTION &&
            m->exceptions[i].status != EF_ROW_DEAD && ef__mem_exception_first(m, i))
            return true;
    return false;
}

ef_status ef__mem_outbox_waits(ef_journal *journal, bool *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);

    (void)err;
    *out = has_queued(m) || has_tries(m);
    ef__mem_unlock(m);
    return EF_OK;
}

/* --- acts ------------------------------------------------------------------------------------- */

void ef__mem_act_free(mem_act *act)
{
    ef__mem_text_free(&act->act);
    ef__mem_text_free(&act->who);
    ef__mem_text_free(&act->reason);
    ef__mem_text_free(&act->lane);
    ef__mem_text_free(&act->tenant);
    ef__mem_text_free(&act->stream);
}

static ef_status add_act(mem_journal *m, const ef_act *act, int64_t rows, ef_error *err)
{
    mem_act made = {
        .id = (int64_t)m->act_count + 1, .at_us = ef__mem_now(m), .seq = act->seq, .rows = rows};

    if (!ef__mem_grow((void **)&m->acts, &m->act_cap, m->act_count, sizeof *m->acts) ||
        !ef__mem_text_set(&made.act, act->act) || !ef__mem_text_set(&made.who, act->who) ||
        !ef__mem_text_set(&made.reason, act->reason) || !ef__mem_text_set(&made.lane, act->lane) ||
        !ef__mem_text_set(&made.tenant, act->tenant) ||
        !ef__mem_text_set(&made.stream, act->stream)) {
        ef__mem_act_free(&made);
        return ef__mem_no_memory(err);
    }
    m->acts[m->act_count++] = made;
    return EF_OK;
}

ef_status ef__mem_act_add(ef_journal *journal, const ef_act *act, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = add_act(m, act, 0, err);

    ef__mem_unlock(m);
    return st;
}

/* --- revising rows ---------------------------------------------------------------------------- */

static void revise_row(mem_exception *x, ef__revision what, int64_t now_us)
{
    if (what == EF__REVISION_REQUEUE) {
        x->attempts = 0;
        ef__mem_text_free(&x->error);
    }
    if (what != EF__REVISION_REPLAY || x->status == EF_ROW_DEAD)
        x->status = EF_ROW_PENDING;
    x->skip = what == EF__REVISION_SKIP || (x->skip && what == EF__REVISION_REPLAY);
    x->trying = false;
    x->due_us = x->updated_us = now_us;
}

/* A queued row of a publisher becomes a retry row when it is skipped. */
static ef_status move_from_queue(mem_journal *m, const ef__revised *row, ef_error *err)
{
    int64_t lane = ef__mem_lane_find(m, row->lane);
    ef_status st;

    if (lane < 0 || m->lanes[lane].kind != EF_LANE_KIND_PUBLISHER)
        return EF_OK;
    for (int32_t p = 0; p < EF_LIMIT_PARTITIONS; p++) {
        mem_part *part = &m->lanes[lane].parts[p];
        size_t at = part->first;
        while (at < part->count && part->rows[at] != row->position)
            at++;
        if (at == part->count)
            continue;
        st = ef__mem_exception_again(m, (size_t)lane, row->position, err);
        if (st == EF_OK)
            memmove(&part->rows[at], &part->rows[at + 1],
                    (--part->count - at) * sizeof *part->rows);
        return st;
    }
    return EF_OK;
}

/* The index of a row that may be revised, or -1. */
static int64_t find_revised(const mem_journal *m, ef__revision what, const ef__revised *row)
{
    int64_t lane = ef__mem_lane_find(m, row->lane);
    bool found = false;
    size_t at = lane < 0 ? 0 : ef__mem_exception_at(m, row->position, (size_t)lane, &found);

    if (!found || (what == EF__REVISION_REQUEUE && m->exceptions[at].status != EF_ROW_DEAD))
        return -1;
    return (int64_t)at;
}

static ef_status add_skips(mem_journal *m, const ef__revised *row, ef_error *err)
{
    const ef_event *event = &m->events[row->position - 1]->event;
    ef_status st = EF_OK;

    for (size_t v = 0; st == EF_OK && v < row->version_count; v++)
        st = ef__mem_skip_push(m,
                               &(ef__skip_entry){.projection = row->lane,
                                                 .version = row->versions[v],
                                                 .tenant = event->tenant,
                                                 .stream = event->stream,
                                                 .seq = event->seq},
                               err);
    return st;
}

static ef_status reserve(mem_journal *m, const ef__revise *revise, ef_error *err)
{
    size_t skips = 0;

    for (size_t i = 0; i < revise->count; i++)
        skips += revise->rows[i].version_count;
    return ef__mem_skips_reserve(m, skips, err);
}

/* The audit entry comes first: it is what may fail. */
static ef_status note_revision(mem_journal *m, const ef__revise *revise, int64_t rows,
                               ef_error *err)
{
    ef_status st = EF_OK;

    if (rows == 0)
        return EF_OK;
    if (revise->act->id > 0 && revise->act->id <= (int64_t)m->act_count) {
        m->acts[revise->act->id - 1].rows += rows;
        return EF_OK;
    }
    st = add_act(m, revise->act, rows, err);
    if (st == EF_OK)
        *revise->out_id = (int64_t)m->act_count;
    return st;
}

static ef_status revise(mem_journal *m, const ef__revise *revise, ef_row_list *out, ef_error *err)
{
    int64_t rows = 0, at;
    ef_row *shown;
    ef_status st = rows_ready(out, revise->count, &shown, err);

    for (size_t i = 0; st == EF_OK && revise->what == EF__REVISION_SKIP && i < revise->count; i++)
        st = move_from_queue(m, &revise->rows[i], err);
    for (size_t i = 0; i < revise->count; i++)
        rows += find_revised(m, revise->what, &revise->rows[i]) >= 0;
    if (st == EF_OK)
        st = reserve(m, revise, err);
    if (st == EF_OK)
        st = note_revision(m, revise, rows, err);
    for (size_t i = 0; st == EF_OK && i < revise->count; i++) {
        if ((at = find_revised(m, revise->what, &revise->rows[i])) < 0)
            continue;
        mem_exception *x = &m->exceptions[at];
        st = add_skips(m, &revise->rows[i], err);
        if (st != EF_OK)
            return st;
        revise_row(x, revise->what, ef__mem_now(m));
        mem_found found = {x->lane, x->position, at, x->status, is_blocked(m, (size_t)at), 0};
        st = make_row(m, &found, &out->room->arena, &shown[out->count], err);
        out->count += st == EF_OK;
    }
    return st;
}

ef_status ef__mem_revise(ef_journal *journal, const ef__revise *given, ef_row_list *out,
                         ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = revise(m, given, out, err);

    ef__mem_unlock(m);
    return st;
}

/* --- the audit log ---------------------------------------------------------------------------- */

static bool act_fits(const mem_act *act, const ef_act_query *query)
{
    return act->id > query->after && act->id < query->before &&
           (!query->act.len || ef_str_equal(act->act, query->act)) &&
           (!query->lane.len || ef_str_equal(act->lane, query->lane)) &&
           (!query->tenant ||
            (ef_str_equal(act->tenant, *query->tenant) && (act->tenant.len || act->stream.len)));
}

static ef_status list_acts(const mem_journal *m, const ef_act_query *query, ef_act_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    size_t most = m->act_count < query->limit ? m->act_count : query->limit, i = 0;
    ef_act *items = ef__arena_zalloc(arena, most + 1, sizeof *items);

    if (!items)
        return ef__room_full(err);
    for (size_t at = m->act_count; at-- > 0 && i < most;) {
        const mem_act *act = &m->acts[at];
        if (!act_fits(act, query))
            continue;
        items[i] = *act;
        items[i].act = ef__arena_copy(arena, act->act);
        items[i].who = ef__arena_copy(arena, act->who);
        items[i].reason = ef__arena_copy(arena, act->reason);
        items[i].lane = ef__arena_copy(arena, act->lane);
        items[i].tenant = ef__arena_copy(arena, act->tenant);
        items[i].stream = ef__arena_copy(arena, act->stream);
        if (!items[i].act.ptr || !items[i].who.ptr || !items[i].reason.ptr || !items[i].lane.ptr ||
            !items[i].tenant.ptr || !items[i].stream.ptr)
            return ef__room_full(err);
        i++;
    }
    out->items = items;
    out->count = i;
    return EF_OK;
}

ef_status ef__mem_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out,
                         ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_acts(m, query, out, err);

    ef__mem_unlock(m);
    return st;
}
