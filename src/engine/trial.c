/*
 * trial.c - folds one event into the current views without writing.
 *
 * It opens a view cache like a driver does, and closes it without a commit.
 */
#include "apply.h"
#include "run.h"
#include "view_cache.h"

#include <everfold/trial.h>

#define SEEN_BYTES_MAX (8u << 20)

const char *ef_trial_outcome_name(ef_trial_outcome outcome)
{
    static const char *const names[] = {"applied", "ignored", "failed",
                                        "done",    "waits",   "not_tried"};

    return names[outcome];
}

/* By its number, or the newest version that is not retired. */
static const ef__generation *choose_generation(const ef__generation_list *list, int32_t number)
{
    const ef__generation *newest = NULL;

    if (number)
        return ef__generation_number(list, number);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].state != EF__GENERATION_RETIRED &&
            (!newest || list->items[i].version >= newest->version))
            newest = &list->items[i];
    return newest;
}

/* Copies into the trial, because the folder's texts are released with it. */
static ef_status copy_text(ef_trial *out, ef_str text, ef_str *to, ef_error *err)
{
    *to = ef__arena_copy(&out->room->arena, text);
    return to->ptr ? EF_OK : ef__no_memory(err);
}

static ef_status keep_before(ef_engine *engine, const ef__generation *generation, ef_str tenant,
                             ef_trial *out, ef_trial_view *to, ef_error *err)
{
    ef__view view;
    bool found = false;
    ef_status st = engine->views->ops->view_get(engine->views, generation->id, tenant, to->view_id,
                                                &out->room->arena, &view, &found, err);

    if (st == EF_OK && found)
        to->before = view.data;
    return st;
}

static ef_status keep_views(ef_engine *engine, const ef__generation *generation, ef__folder *folder,
                            ef_str tenant, ef_trial *out, ef_error *err)
{
    size_t room = ef__folder_changed(folder), at = 0;
    ef_trial_view *views = ef__arena_zalloc(&out->room->arena, room + 1, sizeof *views);
    ef__folded_view view;
    ef_status st = views ? EF_OK : ef__no_memory(err);

    out->views = views;
    while (st == EF_OK && (st = ef__folder_next(folder, &at, &view, err)) == EF_OK &&
           view.view_id.len) {
        ef_trial_view *to = &views[out->view_count++];
        st = copy_text(out, view.view_id, &to->view_id, err);
        if (st == EF_OK && !view.deleted)
            st = copy_text(out, view.data, &to->after, err);
        if (st == EF_OK)
            st = keep_before(engine, generation, tenant, out, to, err);
    }
    return st;
}

static ef_status keep_seen(ef__folder *folder, const ef_event *event, ef_trial *out, ef_error *err)
{
    ef__buf data = EF__BUF_INIT(SEEN_BYTES_MAX);
    int64_t schema = event->schema;
    ef_status st = ef__folder_seen(folder, event, &data, &schema, err);

    if (st == EF_OK)
        st = copy_text(out, ef__buf_str(&data), &out->seen, err);
    out->schema = (int32_t)schema;
    ef__buf_release(&data);
    return st;
}

static ef_status fold_trial(ef_engine *engine, const ef__generation *generation,
                            ef__view_cache *set, const ef_event *event, ef_trial *out,
                            ef_error *err)
{
    ef__outcome outcome = {0};
    ef_status st = ef__folder_apply(set->folder, event, &outcome, err);

    if (st != EF_OK)
        return st;
    ef__view_cache_end_reads(set);
    out->outcome = outcome.result == EF__FOLD_APPLIED   ? EF_TRIAL_APPLIED
                   : outcome.result == EF__FOLD_IGNORED ? EF_TRIAL_IGNORED
                                                        : EF_TRIAL_FAILED;
    out->line = (int32_t)outcome.line;
    if (out->outcome == EF_TRIAL_FAILED)
        st = copy_text(out, ef_str_from(outcome.error.text), &out->message, err);
    if (st == EF_OK && out->outcome == EF_TRIAL_APPLIED)
        st = keep_views(engine, generation, set->folder, event->tenant, out, err);
    return st;
}

/* A log-ordered projection has a cursor and no position per stream. */
static ef_status check_position(ef_engine *engine, const ef__generation *generation,
                                ef__view_cache *set, const ef_event *event, ef_trial *out,
                                bool *out_due, ef_error *err)
{
    ef__stream_watermark *mark;
    int64_t as_of;
    ef_status st;

    out->next_seq = event->seq;
    if (generation->by_log) {
        st = ef__engine_as_of(engine, generation, &event->tenant, &as_of, err);
        *out_due = st == EF_OK && event->position > as_of;
        out->outcome = EF_TRIAL_DONE;
        return st;
    }
    st = ef__view_cache_watermark(set, event, &mark, err);
    if (st != EF_OK)
        return st;
    out->next_seq = mark->now.applied_seq + 1;
    *out_due = out->next_seq == event->seq;
    out->outcome = out->next_seq > event->seq ? EF_TRIAL_DONE : EF_TRIAL_BLOCKED;
    return EF_OK;
}

static ef_status try_event(ef_engine *engine, const ef__generation *generation,
                           const ef_event *event, ef_trial *out, ef_error *err)
{
    ef__live live = {.generation = generation};
    ef__view_cache *set = NULL;
    bool due = false;
    ef_status st = ef__engine_program(engine, generation, &live.program, err);

    if (st == EF_OK)
        st = ef__view_cache_open(engine, &live, &set, err);
    if (st == EF_OK)
        st = check_position(engine, generation, set, event, out, &due, err);
    if (st == EF_OK)
        st = keep_seen(set->folder, event, out, err);
    if (st == EF_OK && due)
        st = fold_trial(engine, generation, set, event, out, err);
    ef__view_cache_close(set);
    return st;
}

static ef_status read_event(ef_engine *engine, const ef_trial_ask *ask, ef_batch *out,
                            ef_error *err)
{
    ef_status st =
        ef_journal_read_stream(engine->journal, ask->tenant, ask->stream, ask->seq, 1, out, err);

    if (st == EF_OK && (out->count == 0 || out->events[0].seq != ask->seq))
        st = ef_fail(err, EF_NOT_FOUND, "stream '%.*s' has no seq %lld", EF_STR_ARG(ask->stream),
                     (long long)ask->seq);
    return st;
}

ef_status ef_projection_try(ef_engine *engine, const ef_trial_ask *ask, ef_trial *out,
                            ef_error *err)
{
    ef__generation_list list = {0};
    ef_batch batch = EF_BATCH_INIT;
    const ef__generation *generation = NULL;
    struct ef__batch_memory *room;
    ef_status st;

    if (!engine || !ask || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "ask or out" : "engine");
    room = out->room;
    *out = (ef_trial){.room = room};
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK)
        st = ef__generations_read(engine, ask->projection, &list, err);
    if (st == EF_OK && !(generation = choose_generation(&list, ask->generation)))
        st = ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no generation %d",
                     EF_STR_ARG(ask->projection), (int)ask->generation);
    if (st == EF_OK)
        st = read_event(engine, ask, &batch, err);
    if (st == EF_OK) {
        out->version = generation->version;
        out->generation = (int32_t)generation->number;
        st = try_event(engine, generation, &batch.events[0], out, err);
    }
    EF_RELEASE(&batch);
    ef_memory_release(&list.room);
    return st;
}
