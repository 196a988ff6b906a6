/*
 * draft.c - folds a program that is not deployed over the streams that have failed events.
 *
 * Each stream gets its own side fold, so memory is bounded by the views of one stream.
 */
#include "run.h"
#include "side_fold.h"

#include <everfold/trial.h>

#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 100
#define MESSAGES_BYTES (16ul << 20)

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

static int compare_rows(const void *left, const void *right)
{
    const ef_draft_row *row = left, *other = right;
    int order = ef__str_compare(row->tenant, other->tenant);

    if (order == 0)
        order = ef__str_compare(row->stream, other->stream);
    if (order == 0)
        order = (row->seq > other->seq) - (row->seq < other->seq);
    return order ? order : (row->version < other->version) - (row->version > other->version);
}

static bool same_event(const ef_draft_row *row, const ef_draft_row *b)
{
    return row->seq == b->seq && ef_str_equal(row->tenant, b->tenant) &&
           ef_str_equal(row->stream, b->stream);
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
        if (!drafting->draft->tenant || ef_str_equal(failure->tenant, *drafting->draft->tenant))
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
        if (kept == 0 || !same_event(&drafting->rows[kept - 1], &drafting->rows[i]))
            drafting->rows[kept++] = drafting->rows[i];
    drafting->count = kept;
    return EF_OK;
}

/* --- one stream, or one tenant of a log-ordered projection ------------------------------------ */

static ef_draft_row *find_row(const draft_state *drafting, size_t from, size_t count,
                              const ef_event *event)
{
    ef_draft_row key = {
        .tenant = event->tenant, .stream = event->stream, .seq = event->seq, .version = INT32_MAX};
    size_t low = from, high = from + count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_rows(&drafting->rows[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < from + count && same_event(&drafting->rows[low], &key) ? &drafting->rows[low]
                                                                        : NULL;
}

static ef_status note_result(draft_state *drafting, size_t from, size_t count,
                             const ef_event *event, const ef__apply_result *result,
                             bool *out_failed, ef_error *err)
{
    ef_draft_row *row = find_row(drafting, from, count, event);

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
    ef__apply_event *events = ef__apply_events_make(batch->events, batch->count);
    ef_status st = events ? ef__side_fold_run(fold, 0, events, batch->count, err)
                          : ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");

    for (size_t i = 0; st == EF_OK && i < batch->count && !*out_failed; i++) {
        drafting->out->events++;
        st = note_result(drafting, from, count, &batch->events[i], &fold->apply.results[i],
                         out_failed, err);
    }
    free(events);
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
    ef_batch batch = EF_BATCH_INIT;
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
    EF_RELEASE(&batch);
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

static ef_status compile_draft(const ef_draft *draft, ef__program **out, ef_text *out_report,
                               ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef_status st =
        diagnostics ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");

    if (st == EF_OK && out_report)
        st = ef_program_check(draft->file_name, draft->text, EF_TEXT_PLAIN, out_report, err);
    if (st == EF_OK)
        st = ef__program_compile(ef_str_from(draft->file_name), draft->text, out, diagnostics, err);
    free(diagnostics);
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
    if (out_report)
        *out_report = (ef_text){0};
    st = compile_draft(draft, &program, out_report, err);
    if (st == EF_OK) {
        out->version = (int32_t)ef__program_version(program);
        drafting.program = program;
        drafting.by_log = ef__engine_by_log(engine, program);
        st = ef_projection_failures(engine, ef__program_name(program), false, EF_DRAFT_ROWS_MAX,
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
