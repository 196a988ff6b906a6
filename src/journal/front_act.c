/*
 * front_act.c - what operators do to retry rows, one or many, and the audit log.
 *
 * The rows are found here, by the lists that everybody reads; a back end only revises those that it
 * is given (ops->revise), and checks each again in its transaction. An operation on many rows is
 * made of steps of EF_BULK_ROWS rows and has one audit entry, which counts with every step.
 */
#include "front_priv.h"

#define LANES_MAX 1000 /* rows of one event: one a lane */

static ef_status rows_ready(ef_row_list *out, ef_error *err)
{
    ef_status st = ef__need(out, "out", err);

    if (st != EF_OK)
        return st;
    out->next[0] = '\0';
    return EF__LIST_READY(out, err);
}

static ef_status check_who(ef_str who, ef_str reason, ef_error *err)
{
    ef_status st = ef__name_take("who", who, 0, false, err);

    return st == EF_OK ? ef__words_check("reason", reason, EF_LIMIT_REASON_BYTES, err) : st;
}

static ef_status check_act(const ef_outbox_act *act, size_t lane_min, ef_error *err)
{
    ef_status st = ef__need(act, "act", err);

    if (st == EF_OK)
        st = ef__name_take("tenant", act->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("stream", act->stream, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("seq", act->seq, 1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__name_take("lane", act->lane, lane_min, false, err);
    return st == EF_OK ? check_who(act->who, act->reason, err) : st;
}

ef_status ef__outbox_revise(ef_journal *journal, const ef__revise *revise, ef_row_list *out,
                            ef_error *err)
{
    ef_status st = rows_ready(out, err);

    if (st == EF_OK)
        st = ef__told(journal, journal->ops->revise(journal, revise, out, err));
    return EF__LIST_ANSWER(out, st);
}

/* --- one event -------------------------------------------------------------------------------- */

/* The retry rows of the act's event, in its lane or in all. */
static ef_status find_rows(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out,
                           ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st =
        ef_journal_read_stream(journal, act->tenant, act->stream, act->seq, 1, &batch, err);
    bool found = st == EF_OK && batch.count && batch.events[0].seq == act->seq;
    int64_t position = found ? batch.events[0].position : 0;

    if (found)
        st = ef_outbox_ls(
            journal,
            &(ef_outbox_query){
                .lane = act->lane, .any_tenant = true, .from = position, .limit = LANES_MAX},
            out, err);
    while (found && st == EF_OK && out->count && out->items[out->count - 1].position != position)
        out->count--;
    ef_batch_release(&batch);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that was never made has no rows */
}

static ef_status revise_event(ef_journal *journal, ef__revision what, const char *word,
                              const ef_outbox_act *act, ef_row_list *out, ef_error *err)
{
    ef_row_list found = {0};
    ef__revised *rows = NULL;
    int64_t id = 0;
    ef_act entry = {.act = ef_str_from(word),
                    .who = act->who,
                    .reason = act->reason,
                    .lane = act->lane,
                    .tenant = act->tenant,
                    .stream = act->stream,
                    .seq = act->seq};
    ef_status st = find_rows(journal, act, &found, err);

    if (st == EF_OK && !(rows = ef__arena_zalloc(&out->room->arena, found.count + 1, sizeof *rows)))
        st = ef__room_full(err);
    for (size_t i = 0; st == EF_OK && i < found.count; i++)
        rows[i] = (ef__revised){found.items[i].lane, found.items[i].position, act->versions,
                                act->version_count};
    if (found.count == 1)
        entry.lane = found.items[0].lane;
    if (st == EF_OK)
        st = ef__told(journal,
                      journal->ops->revise(
                          journal, &(ef__revise){what, rows, found.count, &entry, &id}, out, err));
    if (st == EF_OK && out->count == 0)
        st = ef__act_on_nothing(act, what == EF__REVISION_REQUEUE, err);
    ef_row_list_release(&found);
    return EF__LIST_ANSWER(out, st);
}

ef_status ef_outbox_requeue(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out,
                            ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_outbox_requeue", err);

    if (st == EF_OK)
        st = rows_ready(out, err);
    if (st == EF_OK)
        st = check_act(act, 0, err);
    return st == EF_OK ? revise_event(journal, EF__REVISION_REQUEUE, "requeue", act, out, err) : st;
}

ef_status ef_outbox_skip(ef_journal *journal, const ef_outbox_act *act, ef_row_list *out,
                         ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_outbox_skip", err);

    if (st == EF_OK)
        st = rows_ready(out, err);
    if (st == EF_OK)
        st = check_act(act, 1, err);
    if (st == EF_OK && act->reason.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "reason is missing: a skip says why");
    for (size_t i = 0; st == EF_OK && i < act->version_count; i++)
        st = ef__range_check("version", act->versions[i], 1, INT32_MAX, err);
    return st == EF_OK ? revise_event(journal, EF__REVISION_SKIP, "skip", act, out, err) : st;
}

/* --- many rows -------------------------------------------------------------------------------- */

static ef_status check_bulk(const ef_outbox_bulk *bulk, ef_error *err)
{
    ef_status st = ef__need(bulk, "bulk", err);

    if (st == EF_OK)
        st = ef__range_check("limit", bulk->limit, 0, INT64_MAX, err);
    return st == EF_OK ? check_who(bulk->who, bulk->reason, err) : st;
}

ef_status ef__bulk_page(ef_journal *journal, const ef_outbox_bulk *bulk, ef_str after, size_t limit,
                        ef_row_list *out, ef_error *err)
{
    static const ef_row_status dead = EF_ROW_DEAD;
    bool of_tenant = bulk->one_tenant || bulk->stream.len;

    return ef_outbox_ls(journal,
                        &(ef_outbox_query){.lane = bulk->lane,
                                           .tenant = of_tenant ? bulk->tenant : (ef_str){0},
                                           .any_tenant = !of_tenant,
                                           .status = &dead,
                                           .limit = limit,
                                           .after = after,
                                           .stream = bulk->stream,
                                           .types = bulk->types,
                                           .error = bulk->error,
                                           .before_us = bulk->before_us},
                        out, err);
}

/* Keep rows of a step for the answer, as long as there are few. */
static ef_status keep_rows(ef_row_list *out, ef_row *kept, const ef_row_list *rows, ef_error *err)
{
    ef__arena *arena = &out->room->arena;

    for (size_t i = 0; i < rows->count && out->count < EF_BULK_ROWS; i++) {
        ef_row *to = &kept[out->count++];
        *to = rows->items[i];
        to->lane = ef__arena_copy(arena, to->lane);
        to->tenant = ef__arena_copy(arena, to->tenant);
        to->stream = ef__arena_copy(arena, to->stream);
        to->event_type = ef__arena_copy(arena, to->event_type);
        to->last_error = ef__arena_copy(arena, to->last_error);
        if (!to->lane.ptr || !to->tenant.ptr || !to->stream.ptr || !to->event_type.ptr ||
            !to->last_error.ptr)
            return ef__room_full(err);
    }
    return EF_OK;
}

static ef_status revise_page(ef_journal *journal, ef__bulk_run *run, const ef_row_list *page,
                             ef_error *err)
{
    ef__revised *rows = ef__arena_zalloc(&page->room->arena, page->count + 1, sizeof *rows);
    ef_row_list revised = {0};
    size_t count = 0;
    ef_status st = rows ? EF_OK : ef__room_full(err);

    for (size_t i = 0; st == EF_OK && i < page->count; i++) {
        bool wanted = true;
        rows[count] =
            (ef__revised){.lane = page->items[i].lane, .position = page->items[i].position};
        if (run->choose)
            st = run->choose(run->context, &page->items[i], &page->room->arena, &rows[count],
                             &wanted, err);
        count += wanted;
    }
    run->count += run->bulk->dry_run ? (int64_t)count : 0;
    if (st == EF_OK && !run->bulk->dry_run && count)
        st = ef__outbox_revise(journal,
                               &(ef__revise){run->what, rows, count, &run->entry, &run->entry.id},
                               &revised, err);
    if (st == EF_OK && !run->bulk->dry_run)
        run->count += (int64_t)revised.count;
    if (st == EF_OK)
        st = keep_rows(run->out, run->kept, run->bulk->dry_run ? page : &revised, err);
    ef_row_list_release(&revised);
    return st;
}

ef_status ef__bulk_revise(ef_journal *journal, ef__bulk_run *run, ef_error *err)
{
    const ef_outbox_bulk *bulk = run->bulk;
    char after[EF_CURSOR_MAX] = "";
    ef_row_list page = {0};
    ef_status st = check_bulk(bulk, err);

    if (st == EF_OK)
        st = rows_ready(run->out, err);
    if (st == EF_OK && !(run->kept = ef__arena_zalloc(&run->out->room->arena, EF_BULK_ROWS + 1,
                                                      sizeof *run->kept)))
        st = ef__room_full(err);
    if (st != EF_OK)
        return st;
    run->out->items = run->kept;
    run->entry = (ef_act){.act = ef_str_from(run->word),
                          .who = bulk->who,
                          .reason = bulk->reason,
                          .lane = bulk->lane,
                          .tenant = bulk->tenant,
                          .stream = bulk->stream};
    do {
        int64_t left = bulk->limit ? bulk->limit - run->count : EF_BULK_ROWS;
        st = ef__bulk_page(journal, bulk, ef_str_from(after),
                           (size_t)(left < EF_BULK_ROWS ? left : EF_BULK_ROWS), &page, err);
        if (st == EF_OK && page.count)
            st = revise_page(journal, run, &page, err);
        memcpy(after, page.next, sizeof after);
    } while (st == EF_OK && after[0] && (!bulk->limit || run->count < bulk->limit));
    ef_row_list_release(&page);
    return EF__LIST_ANSWER(run->out, st);
}

ef_status ef_outbox_requeue_dead(ef_journal *journal, const ef_outbox_bulk *bulk,
                                 int64_t *out_count, ef_row_list *out, ef_error *err)
{
    ef__bulk_run run = {.what = EF__REVISION_REQUEUE, .word = "requeue", .bulk = bulk, .out = out};
    ef_status st = ef__need_writable(journal, "ef_outbox_requeue_dead", err);

    if (st == EF_OK)
        st = ef__bulk_revise(journal, &run, err);
    if (out_count)
        *out_count = run.count;
    return st;
}

/* --- skips ------------------------------------------------------------------------------------ */

ef_status ef__skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                      size_t limit, ef__skip_list *out, ef_error *err)
{
    ef_status st = EF__LIST_READY(out, err);

    return st == EF_OK ? journal->ops->skip_ls(journal, projection, version, after, limit, out, err)
                       : st;
}

/* --- the audit log ---------------------------------------------------------------------------- */

ef_status ef_act_add(ef_journal *journal, const ef_act *act, ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_act_add", err);

    if (st == EF_OK)
        st = ef__need(act, "act", err);
    if (st == EF_OK)
        st = ef__name_take("act", act->act, 1, false, err);
    if (st == EF_OK)
        st = ef__name_take("who", act->who, 0, false, err);
    if (st == EF_OK)
        st = ef__words_check("reason", act->reason, EF_LIMIT_REASON_BYTES, err);
    if (st == EF_OK)
        st = ef__name_take("lane", act->lane, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("tenant", act->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_take("stream", act->stream, 0, false, err);
    return st == EF_OK ? journal->ops->act_add(journal, act, err) : st;
}

ef_status ef_act_ls(ef_journal *journal, const ef_act_query *query, ef_act_list *out, ef_error *err)
{
    ef_act_query whole = query ? *query : (ef_act_query){0};
    ef_status st = ef__need_journal(journal, err);

    if (st == EF_OK)
        st = ef__need(out, "out", err);
    if (st == EF_OK)
        st = EF__LIST_READY(out, err);
    if (st == EF_OK)
        st = ef__limit_take(&whole.limit, err);
    if (st != EF_OK)
        return st;
    if (whole.before <= 0)
        whole.before = INT64_MAX;
    st = journal->ops->act_ls(journal, &whole, out, err);
    return EF__LIST_ANSWER(out, st);
}

void ef_act_list_release(ef_act_list *list)
{
    EF__LIST_RELEASE(list);
}
