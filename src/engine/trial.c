/*
 * trial.c - folds without writing: one event into the current views, and a program that is not
 * deployed over the streams that have failed events.
 */
#include "run.h"
#include "apply.h"
#include "view_cache.h"

#include <everfold/trial.h>

#include <stdlib.h>
#include <string.h>

#define SEEN_BYTES_MAX (8u << 20)
#define ROWS_DEFAULT 100
#define MESSAGES_BYTES (16ul << 20)

/* --- one event, into a view cache like that of a driver, which is closed without a commit ----- */

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
    EF__AUTO(ef__buf) data = EF__BUF_INIT(SEEN_BYTES_MAX);
    int64_t schema = event->schema;
    ef_status st = ef__folder_seen(folder, event, &data, &schema, err);

    if (st == EF_OK)
        st = copy_text(out, ef__buf_str(&data), &out->seen, err);
    out->schema = (int32_t)schema;
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
    EF__AUTO(ef__generation_list) list = {0};
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    const ef__generation *generation = NULL;
    ef_status st;

    if (!engine || !ask || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "ask or out" : "engine");
    *out = (ef_trial){.room = out->room};
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
    return st;
}

/* --- a draft: a side fold per stream bounds the memory by the views of one stream --- */

typedef struct draft_state {
    ef_engine *engine;
    const ef_draft *draft;
    const ef__program *program;
    bool by_log;
    ef_draft_row *rows; /* sorted by tenant, stream and seq */
    size_t count;
    ef_draft_row
        fresh; /* of the group: the event that fails with the draft only; no stream: none */
    ef__arena messages;
    ef_draft_result *out;
} draft_state;

static int compare_events(const void *left, const void *right)
{
    const ef_draft_row *row = left, *other = right;
    int order = ef__str_compare(row->tenant, other->tenant);

    if (order == 0)
        order = ef__str_compare(row->stream, other->stream);
    return order ? order : (row->seq > other->seq) - (row->seq < other->seq);
}

/* The newest version of an event comes first. */
static int compare_rows(const void *left, const void *right)
{
    const ef_draft_row *row = left, *other = right;
    int order = compare_events(row, other);

    return order ? order : (row->version < other->version) - (row->version > other->version);
}

/* The failures of all versions, each event once. */
static ef_status collect_failures(draft_state *drafting, const ef_failure_list *found,
                                  ef_error *err)
{
    size_t limit = drafting->draft->limit ? drafting->draft->limit : ROWS_DEFAULT, kept = 0;

    drafting->rows = calloc(found->count + 1, sizeof *drafting->rows);
    if (!drafting->rows)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");
    for (size_t i = 0; i < found->count; i++) {
        const ef_failure *failure = &found->items[i];
        drafting->rows[drafting->count++] = (ef_draft_row){.tenant = failure->tenant,
                                                           .stream = failure->stream,
                                                           .seq = failure->seq,
                                                           .position = failure->position,
                                                           .version = failure->version,
                                                           .error = failure->message,
                                                           .outcome = EF_TRIAL_BLOCKED};
    }
    qsort(drafting->rows, drafting->count, sizeof *drafting->rows, compare_rows);
    for (size_t i = 0; i < drafting->count && kept < limit; i++)
        if (kept == 0 || compare_events(&drafting->rows[kept - 1], &drafting->rows[i]) != 0)
            drafting->rows[kept++] = drafting->rows[i];
    drafting->count = kept;
    return EF_OK;
}

/* --- one stream, or one tenant of a log-ordered projection ------------------------------------ */

static ef_status note_result(draft_state *drafting, size_t from, size_t count,
                             const ef_event *event, const ef__apply_result *result,
                             bool *out_failed, ef_error *err)
{
    ef_draft_row key = {.tenant = event->tenant, .stream = event->stream, .seq = event->seq};
    ef_draft_row *row = bsearch(&key, drafting->rows + from, count, sizeof key, compare_events);

    *out_failed = result->verdict == EF__VERDICT_FAILED;
    if (*out_failed && !row) {
        drafting->fresh =
            (ef_draft_row){.tenant = ef__arena_copy(&drafting->messages, event->tenant),
                           .stream = ef__arena_copy(&drafting->messages, event->stream),
                           .seq = event->seq,
                           .position = event->position};
        row = &drafting->fresh;
        drafting->out->newly_failed++;
    }
    if (!row)
        return EF_OK;
    row->outcome = *out_failed                              ? EF_TRIAL_FAILED
                   : result->verdict == EF__VERDICT_APPLIED ? EF_TRIAL_APPLIED
                   : result->verdict == EF__VERDICT_IGNORED ? EF_TRIAL_IGNORED
                                                            : EF_TRIAL_BLOCKED;
    if (*out_failed) {
        row->message = ef__arena_copy(&drafting->messages, result->message);
        if (!row->message.ptr)
            return ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");
    }
    return EF_OK;
}

static ef_status fold_batch(draft_state *drafting, ef__side_fold *fold, size_t from, size_t count,
                            const ef_batch *batch, bool *out_failed, ef_error *err)
{
    ef_status st = ef__side_fold_run(fold, 0, batch->events, batch->count, err);

    for (size_t i = 0; st == EF_OK && i < batch->count && !*out_failed; i++) {
        drafting->out->events++;
        st = note_result(drafting, from, count, &batch->events[i], &fold->apply.results[i],
                         out_failed, err);
    }
    return st;
}

static ef_status read_batch(draft_state *drafting, const ef_draft_row *first, int64_t *at,
                            ef_batch *batch, ef_error *err)
{
    ef_journal *journal = drafting->engine->journal;
    ef_status st;

    if (!drafting->by_log) {
        st = ef_journal_read_stream(journal, first->tenant, first->stream, *at + 1,
                                    drafting->engine->run_batch, batch, err);
        *at = st == EF_OK && batch->count ? batch->events[batch->count - 1].seq : *at;
        return st;
    }
    return ef_journal_read_log(journal,
                               &(ef_log_query){.tenant = first->tenant,
                                               .after = *at,
                                               .limit = drafting->engine->run_batch,
                                               .out_reached = at},
                               batch, err);
}

static void give_up(draft_state *drafting, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        if (drafting->rows[i].outcome == EF_TRIAL_BLOCKED)
            drafting->rows[i].outcome = EF_TRIAL_NOT_TRIED;
}

/* The rows from `from` on belong to one stream, or to one tenant of a log-ordered projection. */
static ef_status fold_group(draft_state *drafting, size_t from, size_t count, ef_error *err)
{
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef__side_fold fold;
    int64_t at = 0;
    bool failed = false, more = true;
    ef_status st = ef__side_fold_open(&fold, drafting->engine, EF_STR("draft"), err);

    if (st == EF_OK) {
        fold.side->lookups = drafting->engine;
        st = ef__deploy_program(fold.side, drafting->program, drafting->draft->text, err);
    }
    while (st == EF_OK && more && !failed && drafting->out->events < EF_DRAFT_EVENTS_MAX) {
        st = read_batch(drafting, &drafting->rows[from], &at, &batch, err);
        more = batch.more;
        if (st == EF_OK && batch.count)
            st = fold_batch(drafting, &fold, from, count, &batch, &failed, err);
    }
    if (st == EF_OK && more && !failed)
        give_up(drafting, from, count);
    drafting->out->streams += !drafting->by_log;
    ef__side_fold_close(&fold);
    return st;
}

/* --- the whole draft -------------------------------------------------------------------------- */

static size_t group_end(const draft_state *drafting, size_t from)
{
    size_t end = from + 1;

    while (
        end < drafting->count &&
        ef_str_equal(drafting->rows[end].tenant, drafting->rows[from].tenant) &&
        (drafting->by_log || ef_str_equal(drafting->rows[end].stream, drafting->rows[from].stream)))
        end++;
    return end;
}

static void count_row(ef_draft_result *out, ef_trial_outcome outcome)
{
    out->applied += outcome == EF_TRIAL_APPLIED;
    out->ignored += outcome == EF_TRIAL_IGNORED;
    out->failed += outcome == EF_TRIAL_FAILED;
    out->waits += outcome == EF_TRIAL_BLOCKED;
    out->not_tried += outcome == EF_TRIAL_NOT_TRIED;
}

static ef_status fold_all(draft_state *drafting,
                          bool (*each)(void *context, const ef_draft_row *row), void *context,
                          ef_error *err)
{
    ef_status st = EF_OK;
    bool go_on = true;

    for (size_t from = 0, end; st == EF_OK && go_on && from < drafting->count; from = end) {
        end = group_end(drafting, from);
        drafting->fresh = (ef_draft_row){0};
        if (drafting->out->events < EF_DRAFT_EVENTS_MAX)
            st = fold_group(drafting, from, end - from, err);
        else
            give_up(drafting, from, end - from);
        for (size_t i = from; st == EF_OK && i < end; i++) {
            count_row(drafting->out, drafting->rows[i].outcome);
            go_on = go_on && each(context, &drafting->rows[i]);
        }
        if (st == EF_OK && drafting->fresh.message.ptr)
            go_on = go_on && each(context, &drafting->fresh);
        ef__arena_reset(&drafting->messages);
    }
    return st;
}

ef_status ef_projection_try_draft(ef_engine *engine, const ef_draft *draft,
                                  bool (*each)(void *context, const ef_draft_row *row),
                                  void *context, ef_draft_result *out, ef_text *out_report,
                                  ef_error *err)
{
    draft_state drafting = {
        .engine = engine, .draft = draft, .messages = EF__ARENA_INIT(MESSAGES_BYTES), .out = out};
    ef_failure_list found = {0};
    ef__program *program = NULL;
    ef_status st;

    if (!engine || !draft || !each || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, draft, each or out is NULL");
    if (draft->limit > EF_DRAFT_ROWS_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d failed events are tried",
                       draft->limit, EF_DRAFT_ROWS_MAX);
    *out = (ef_draft_result){0};
    st = ef__program_compile_reported(ef_str_from(draft->file_name), draft->text, &program,
                                      out_report, err);
    if (st == EF_OK) {
        out->version = (int32_t)ef__program_version(program);
        drafting.program = program;
        drafting.by_log = ef__engine_by_log(engine, program);
        st = ef_projection_failures(engine,
                                    &(ef_failure_query){.projection = ef__program_name(program),
                                                        .tenant = draft->tenant,
                                                        .limit = EF_DRAFT_ROWS_MAX},
                                    &found, err);
    }
    if (st == EF_OK)
        st = collect_failures(&drafting, &found, err);
    if (st == EF_OK)
        st = fold_all(&drafting, each, context, err);
    free(drafting.rows);
    ef__arena_release(&drafting.messages);
    EF_RELEASE(&found);
    ef__program_close(program);
    return st;
}
