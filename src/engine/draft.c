/*
 * draft.c - a program that is not deployed, folded over the streams whose events failed.
 *
 * Each stream gets a ghost of its own, so memory is bounded by the views of one stream.
 */
#include "apply.h"
#include "run.h"

#include <everfold/trial.h>

#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 100
#define MESSAGES_BYTES (16ul << 20)

typedef struct drafting {
    ef_engine *engine;
    const ef_draft *draft;
    const ef__program *program;
    bool by_log;
    ef_draft_row *rows; /* in the order of tenant, stream and seq */
    size_t count;
    ef_draft_row fresh; /* of the group: what fails with the draft only; without stream: none */
    ef__arena messages;
    ef_drafted *out;
} drafting;

static int compare_text(ef_str a, ef_str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_rows(const void *left, const void *right)
{
    const ef_draft_row *a = left, *b = right;
    int order = compare_text(a->tenant, b->tenant);

    if (order == 0)
        order = compare_text(a->stream, b->stream);
    if (order == 0)
        order = (a->seq > b->seq) - (a->seq < b->seq);
    return order ? order : (a->version < b->version) - (a->version > b->version);
}

static bool same_event(const ef_draft_row *a, const ef_draft_row *b)
{
    return a->seq == b->seq && ef_str_equal(a->tenant, b->tenant) &&
           ef_str_equal(a->stream, b->stream);
}

/* The failures of all versions, each event once. */
static ef_status collect(drafting *d, const ef_failure_list *found, ef_error *err)
{
    size_t limit = d->draft->limit ? d->draft->limit : ROWS_DEFAULT, kept = 0;

    d->rows = calloc(found->count + 1, sizeof *d->rows);
    if (!d->rows)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");
    for (size_t i = 0; i < found->count; i++) {
        const ef_failure *f = &found->items[i];
        if (!d->draft->tenant || ef_str_equal(f->tenant, *d->draft->tenant))
            d->rows[d->count++] = (ef_draft_row){.tenant = f->tenant,
                                                 .stream = f->stream,
                                                 .seq = f->seq,
                                                 .position = f->position,
                                                 .version = f->version,
                                                 .error = f->message,
                                                 .outcome = EF_TRIAL_WAITS};
    }
    qsort(d->rows, d->count, sizeof *d->rows, compare_rows);
    for (size_t i = 0; i < d->count && kept < limit; i++)
        if (kept == 0 || !same_event(&d->rows[kept - 1], &d->rows[i]))
            d->rows[kept++] = d->rows[i];
    d->count = kept;
    return EF_OK;
}

/* --- one stream, or one tenant in the order of the log ------------------------------------------
 */

static ef_draft_row *find_row(const drafting *d, size_t from, size_t count, const ef_event *event)
{
    ef_draft_row key = {
        .tenant = event->tenant, .stream = event->stream, .seq = event->seq, .version = INT32_MAX};
    size_t low = from, high = from + count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_rows(&d->rows[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < from + count && same_event(&d->rows[low], &key) ? &d->rows[low] : NULL;
}

static ef_status note_result(drafting *d, size_t from, size_t count, const ef_event *event,
                             const ef__applied *result, bool *out_failed, ef_error *err)
{
    ef_draft_row *row = find_row(d, from, count, event);

    *out_failed = result->verdict == EF__VERDICT_FAILED;
    if (*out_failed && !row) {
        d->fresh = (ef_draft_row){.tenant = ef__arena_copy(&d->messages, event->tenant),
                                  .stream = ef__arena_copy(&d->messages, event->stream),
                                  .seq = event->seq,
                                  .position = event->position};
        row = &d->fresh;
        d->out->newly_failed++;
    }
    if (!row)
        return EF_OK;
    row->outcome = *out_failed                              ? EF_TRIAL_FAILED
                   : result->verdict == EF__VERDICT_APPLIED ? EF_TRIAL_APPLIED
                   : result->verdict == EF__VERDICT_IGNORED ? EF_TRIAL_IGNORED
                                                            : EF_TRIAL_WAITS;
    if (*out_failed) {
        row->message = ef__arena_copy(&d->messages, result->message);
        if (!row->message.ptr)
            return ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");
    }
    return EF_OK;
}

static ef_status fold_batch(drafting *d, ef_engine *ghost, size_t from, size_t count,
                            const ef_batch *batch, bool *out_failed, ef_error *err)
{
    ef__apply_event *events = malloc((batch->count + 1) * sizeof *events);
    ef__live_set set = {0};
    ef_status st = events ? ef__live_set_read(ghost, false, &set, err)
                          : ef_fail(err, EF_NO_MEMORY, "memory ran out while trying a draft");
    ef__apply apply = {.generations = set.items,
                       .generation_count = set.count,
                       .events = events,
                       .event_count = batch->count,
                       .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};

    for (size_t i = 0; st == EF_OK && i < batch->count; i++)
        events[i] = (ef__apply_event){&batch->events[i], false};
    if (st == EF_OK)
        st = ef__apply_run(ghost, &apply, err);
    for (size_t i = 0; st == EF_OK && i < batch->count && !*out_failed; i++) {
        d->out->events++;
        st = note_result(d, from, count, &batch->events[i], &apply.results[i], out_failed, err);
    }
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    free(events);
    return st;
}

static ef_status read_batch(drafting *d, const ef_draft_row *first, int64_t *at, ef_batch *batch,
                            ef_error *err)
{
    ef_journal *journal = d->engine->journal;
    ef_status st;

    if (!d->by_log) {
        st = ef_journal_read_stream(journal, first->tenant, first->stream, *at + 1,
                                    d->engine->run_batch, batch, err);
        *at = st == EF_OK && batch->count ? batch->events[batch->count - 1].seq : *at;
        return st;
    }
    return ef_journal_read_log(journal,
                               &(ef_log_query){.tenant = first->tenant,
                                               .after = *at,
                                               .limit = d->engine->run_batch,
                                               .out_reached = at},
                               batch, err);
}

static void give_up(drafting *d, size_t from, size_t count)
{
    for (size_t i = from; i < from + count; i++)
        if (d->rows[i].outcome == EF_TRIAL_WAITS)
            d->rows[i].outcome = EF_TRIAL_NOT_TRIED;
}

/* The rows from `from` on are of one stream, or of one tenant in the order of the log. */
static ef_status fold_group(drafting *d, size_t from, size_t count, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_engine *ghost = NULL;
    int64_t at = 0;
    bool failed = false, more = true;
    ef_status st = ef__ghost_open(d->engine, EF_STR("draft"), &ghost, err);

    if (st == EF_OK) {
        ghost->lookups = d->engine;
        st = ef__deploy_program(ghost, d->program, d->draft->text, err);
    }
    while (st == EF_OK && more && !failed && d->out->events < EF_DRAFT_EVENTS_MAX) {
        st = read_batch(d, &d->rows[from], &at, &batch, err);
        more = batch.more;
        if (st == EF_OK && batch.count)
            st = fold_batch(d, ghost, from, count, &batch, &failed, err);
    }
    if (st == EF_OK && more && !failed)
        give_up(d, from, count);
    d->out->streams += !d->by_log;
    ef_batch_release(&batch);
    if (ghost)
        ef__engine_abandon(ghost);
    return st;
}

/* --- all of them --------------------------------------------------------------------------------
 */

static size_t group_end(const drafting *d, size_t from)
{
    size_t end = from + 1;

    while (end < d->count && ef_str_equal(d->rows[end].tenant, d->rows[from].tenant) &&
           (d->by_log || ef_str_equal(d->rows[end].stream, d->rows[from].stream)))
        end++;
    return end;
}

static void count_row(ef_drafted *out, ef_trial_outcome outcome)
{
    out->applied += outcome == EF_TRIAL_APPLIED;
    out->ignored += outcome == EF_TRIAL_IGNORED;
    out->failed += outcome == EF_TRIAL_FAILED;
    out->waits += outcome == EF_TRIAL_WAITS;
    out->not_tried += outcome == EF_TRIAL_NOT_TRIED;
}

static ef_status fold_all(drafting *d, bool (*each)(void *context, const ef_draft_row *row),
                          void *context, ef_error *err)
{
    ef_status st = EF_OK;
    bool go_on = true;

    for (size_t from = 0, end; st == EF_OK && go_on && from < d->count; from = end) {
        end = group_end(d, from);
        d->fresh = (ef_draft_row){0};
        if (d->out->events < EF_DRAFT_EVENTS_MAX)
            st = fold_group(d, from, end - from, err);
        else
            give_up(d, from, end - from);
        for (size_t i = from; st == EF_OK && i < end; i++) {
            count_row(d->out, d->rows[i].outcome);
            go_on = go_on && each(context, &d->rows[i]);
        }
        if (st == EF_OK && d->fresh.message.ptr)
            go_on = go_on && each(context, &d->fresh);
        ef__arena_reset(&d->messages);
    }
    return st;
}

static ef_status compile(const ef_draft *draft, ef__program **out, ef_text *out_report,
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

ef_status ef_projection_try_draft(ef_engine *e, const ef_draft *draft,
                                  bool (*each)(void *context, const ef_draft_row *row),
                                  void *context, ef_drafted *out, ef_text *out_report,
                                  ef_error *err)
{
    drafting d = {
        .engine = e, .draft = draft, .messages = EF__ARENA_INIT(MESSAGES_BYTES), .out = out};
    ef_failure_list found = {0};
    ef__program *program = NULL;
    ef_status st;

    if (!e || !draft || !each || !out)
        return ef_fail(err, EF_BAD_INPUT, "engine, draft, each or out is NULL");
    if (draft->limit > EF_DRAFT_ROWS_MAX)
        return ef_fail(err, EF_BAD_INPUT, "limit is %zu, at most %d failed events are tried",
                       draft->limit, EF_DRAFT_ROWS_MAX);
    *out = (ef_drafted){0};
    if (out_report)
        *out_report = (ef_text){0};
    st = compile(draft, &program, out_report, err);
    if (st == EF_OK) {
        out->version = (int32_t)ef__program_version(program);
        d.program = program;
        d.by_log = ef__engine_by_log(e, program);
        st = ef_projection_failures(e, ef__program_name(program), false, EF_DRAFT_ROWS_MAX, &found,
                                    err);
    }
    if (st == EF_OK)
        st = collect(&d, &found, err);
    if (st == EF_OK)
        st = fold_all(&d, each, context, err);
    free(d.rows);
    ef__arena_release(&d.messages);
    ef_failure_list_release(&found);
    ef__program_close(program);
    return st;
}
