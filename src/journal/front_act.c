/*
 * front_act.c - the public API for operators: actions on retry rows.
 *
 * This file finds the rows, with the lists of the public API; a back end only revises the rows that
 * it is given (ops->revise), and checks each again in its transaction. A bulk operation revises
 * EF_BULK_ROWS rows per transaction and has one audit entry, whose count grows with each of them.
 */
#include "front_priv.h"

#define LANES_MAX 1000 /* retry rows of one event: at most one per lane */

static ef_status check_actor(ef_str actor, ef_str reason, ef_error *err)
{
    ef_status st = ef__name_parse("actor", actor, 0, false, err);

    return st == EF_OK ? ef__text_check("reason", reason, EF_LIMIT_REASON_BYTES, err) : st;
}

static ef_status check_action(const ef_outbox_action *action, size_t lane_min, ef_error *err)
{
    ef_status st = ef__need(action, "action", err);

    if (st == EF_OK)
        st = ef__name_parse("tenant", action->tenant, 0, false, err);
    if (st == EF_OK)
        st = ef__name_parse("stream", action->stream, 1, false, err);
    if (st == EF_OK)
        st = ef__range_check("seq", action->seq, 1, INT64_MAX, err);
    if (st == EF_OK)
        st = ef__name_parse("lane", action->lane, lane_min, false, err);
    return st == EF_OK ? check_actor(action->actor, action->reason, err) : st;
}

ef_status ef__outbox_revise(ef_journal *journal, const ef__revision_request *revise,
                            ef_row_list *out, ef_error *err)
{
    ef_status st = ef__row_list_prepare(out, err);

    if (st == EF_OK)
        st = ef__wake_on_success(
            journal, journal->control->outbox->revise(journal->control, revise, out, err));
    return EF__LIST_FINISH(out, st);
}

/* --- one event -------------------------------------------------------------------------------- */

/* The retry rows of the event, in the lane of the action or in all. */
static ef_status find_rows(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                           ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_stream(journal, action->tenant, action->stream, action->seq, 1,
                                          &batch, err);
    bool found = st == EF_OK && batch.count && batch.events[0].seq == action->seq;
    int64_t position = found ? batch.events[0].position : 0;

    if (found)
        st = ef_outbox_ls(
            journal,
            &(ef_outbox_query){
                .lane = action->lane, .any_tenant = true, .from = position, .limit = LANES_MAX},
            out, err);
    while (found && st == EF_OK && out->count && out->items[out->count - 1].position != position)
        out->count--;
    EF_RELEASE(&batch);
    return st == EF_NOT_FOUND ? EF_OK : st; /* a lane that does not exist has no rows */
}

static ef_status revise_event(ef_journal *journal, ef__revision what, const char *word,
                              const ef_outbox_action *action, ef_row_list *out, ef_error *err)
{
    EF__AUTO(ef_row_list) found = {0};
    ef__revised_row *rows = NULL;
    int64_t id = 0;
    ef_audit_entry entry = {.action = ef_str_from(word),
                            .actor = action->actor,
                            .reason = action->reason,
                            .lane = action->lane,
                            .tenant = action->tenant,
                            .stream = action->stream,
                            .seq = action->seq};
    ef_status st = find_rows(journal, action, &found, err);

    if (st == EF_OK && !(rows = ef__arena_zalloc(&out->room->arena, found.count + 1, sizeof *rows)))
        st = ef__no_memory(err);
    for (size_t i = 0; st == EF_OK && i < found.count; i++)
        rows[i] = (ef__revised_row){found.items[i].lane, found.items[i].position, action->versions,
                                    action->version_count};
    if (found.count == 1)
        entry.lane = found.items[0].lane;
    if (st == EF_OK)
        st = ef__wake_on_success(
            journal, journal->control->outbox->revise(
                         journal->control,
                         &(ef__revision_request){what, rows, found.count, &entry, &id}, out, err));
    if (st == EF_OK && out->count == 0)
        st = ef__no_retry_row(action, what == EF__REVISION_REQUEUE, err);
    return EF__LIST_FINISH(out, st);
}

ef_status ef_outbox_requeue(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                            ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef_outbox_requeue", err);

    if (st == EF_OK)
        st = ef__row_list_prepare(out, err);
    if (st == EF_OK)
        st = check_action(action, 0, err);
    return st == EF_OK ? revise_event(journal, EF__REVISION_REQUEUE, "requeue", action, out, err)
                       : st;
}

ef_status ef__outbox_skip(ef_journal *journal, const ef_outbox_action *action, ef_row_list *out,
                          ef_error *err)
{
    ef_status st = ef__need_writable(journal, "ef__outbox_skip", err);

    if (st == EF_OK)
        st = ef__row_list_prepare(out, err);
    if (st == EF_OK)
        st = check_action(action, 1, err);
    if (st == EF_OK && action->reason.len == 0)
        st = ef_fail(err, EF_BAD_INPUT, "reason is missing: a skip needs one");
    for (size_t i = 0; st == EF_OK && i < action->version_count; i++)
        st = ef__range_check("version", action->versions[i], 1, INT32_MAX, err);
    return st == EF_OK ? revise_event(journal, EF__REVISION_SKIP, "skip", action, out, err) : st;
}

/* --- many rows -------------------------------------------------------------------------------- */

static ef_status check_bulk(const ef_outbox_bulk *bulk, ef_error *err)
{
    ef_status st = ef__need(bulk, "bulk", err);

    if (st == EF_OK)
        st = ef__range_check("limit", bulk->limit, 0, INT64_MAX, err);
    return st == EF_OK ? check_actor(bulk->actor, bulk->reason, err) : st;
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

/* Copies rows of one transaction into the result, up to EF_BULK_ROWS. */
static ef_status copy_rows(ef_row_list *out, ef_row *kept, const ef_row_list *rows, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < rows->count && out->count < EF_BULK_ROWS; i++)
        st = ef__row_copy(&rows->items[i], &out->room->arena, &kept[out->count++], err);
    return st;
}

static ef_status revise_page(ef_journal *journal, ef__bulk_run *run, const ef_row_list *page,
                             ef_error *err)
{
    ef__revised_row *rows = ef__arena_zalloc(&page->room->arena, page->count + 1, sizeof *rows);
    EF__AUTO(ef_row_list) revised = {0};
    size_t count = 0;
    ef_status st = rows ? EF_OK : ef__no_memory(err);

    for (size_t i = 0; st == EF_OK && i < page->count; i++) {
        bool wanted = true;
        rows[count] =
            (ef__revised_row){.lane = page->items[i].lane, .position = page->items[i].position};
        if (run->choose)
            st = run->choose(run->context, &page->items[i], &page->room->arena, &rows[count],
                             &wanted, err);
        count += wanted;
    }
    run->count += run->bulk->dry_run ? (int64_t)count : 0;
    if (st == EF_OK && !run->bulk->dry_run && count)
        st = ef__outbox_revise(
            journal, &(ef__revision_request){run->what, rows, count, &run->entry, &run->entry.id},
            &revised, err);
    if (st == EF_OK && !run->bulk->dry_run)
        run->count += (int64_t)revised.count;
    if (st == EF_OK)
        st = copy_rows(run->out, run->kept, run->bulk->dry_run ? page : &revised, err);
    return st;
}

ef_status ef__bulk_revise(ef_journal *journal, ef__bulk_run *run, ef_error *err)
{
    const ef_outbox_bulk *bulk = run->bulk;
    char after[EF_CURSOR_MAX] = "";
    EF__AUTO(ef_row_list) page = {0};
    ef_status st = check_bulk(bulk, err);

    if (st == EF_OK)
        st = ef__row_list_prepare(run->out, err);
    if (st == EF_OK && !(run->kept = ef__arena_zalloc(&run->out->room->arena, EF_BULK_ROWS + 1,
                                                      sizeof *run->kept)))
        st = ef__no_memory(err);
    if (st != EF_OK)
        return st;
    run->out->items = run->kept;
    run->entry = (ef_audit_entry){.action = ef_str_from(run->word),
                                  .actor = bulk->actor,
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
    return EF__LIST_FINISH(run->out, st);
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
