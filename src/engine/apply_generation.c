/*
 * apply_generation.c - see apply_generation.h.
 *
 * core/watermark.h decides what happens to each event; this file carries the decision out. An event
 * that fails does not move the watermark, so the events after it in its stream are deferred.
 */
#include "apply_generation.h"
#include "read.h"
#include "run.h"

#include "../base/logger.h"
#include "../core/watermark.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

ef_status ef__apply_no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while applying events");
}

/* --- one event -------------------------------------------------------------------------------- */

static ef_str copy_message(ef__generation_work *work, const char *text)
{
    ef_str copy = ef__arena_copy(work->messages, ef_str_from(text));

    return copy.ptr ? copy : EF_STR("the event failed, and memory ran out for the reason");
}

static ef_status add_failure(ef__generation_work *work, const ef_event *event, ef_str code,
                             ef_str message, uint32_t line, ef_error *err)
{
    ef__generation_part *part = work->part;
    ef__generation_change *change = part->change;
    ef_str tenant = event->tenant, stream = event->stream, id = event->id;
    ef_status st = ef__arena_own(&part->arena, err, &tenant, &stream, &id, NULL);

    if (st != EF_OK)
        return st;
    part->failures = ef__arena_grow(&part->arena, part->failures, change->failure_count,
                                    sizeof *part->failures, &part->failure_cap);
    if (!part->failures)
        return ef__apply_no_memory(err);
    part->failures[change->failure_count++] =
        (ef__failure){.generation = work->live->generation->id,
                      .tenant = tenant,
                      .stream = stream,
                      .seq = event->seq,
                      .position = event->position,
                      .event_id = id,
                      .code = code,
                      .message = message,
                      .line = (int32_t)line,
                      .attempts = 1,
                      .open = true,
                      .recorded_us = ef__engine_now(work->engine)};
    return EF_OK;
}

/* The watermark of the event's stream after the event. The hash is that of the event at
 * applied_seq, by which a later batch checks that the journal still has it. */
static ef_status set_watermark(ef__generation_work *work, ef__stream_watermark *watermark,
                               const ef_event *event, ef__watermark_seqs after, ef_error *err)
{
    ef__generation_part *part = work->part;
    size_t *count = &part->change->watermark_count;

    if (watermark->batch != work->cache->batch) {
        ef_str tenant = event->tenant, stream = event->stream;
        ef_status st = ef__arena_own(&part->arena, err, &tenant, &stream, NULL);
        if (st == EF_OK)
            part->watermarks = ef__arena_grow(&part->arena, part->watermarks, *count,
                                              sizeof *part->watermarks, &part->watermark_cap);
        if (st != EF_OK || !part->watermarks)
            return ef__apply_no_memory(err);
        watermark->batch = work->cache->batch;
        watermark->change = (*count)++;
        part->watermarks[watermark->change] =
            (ef__watermark_change){tenant, stream, watermark->now, watermark->now};
    }
    if (after.expected_next_seq > event->seq && event->seq >= watermark->now.applied_seq)
        memcpy(watermark->now.hash, event->hash, sizeof watermark->now.hash);
    watermark->now.applied_seq = after.applied_seq;
    watermark->now.expected_next_seq = after.expected_next_seq;
    part->watermarks[watermark->change].after = watermark->now;
    return EF_OK;
}

static ef_status fail_event(ef__generation_work *work, const ef_event *event, ef_str code,
                            const ef_error *why, uint32_t line, ef__apply_result *out,
                            ef_error *err)
{
    out->verdict = EF__VERDICT_FAILED;
    out->message = copy_message(work, why->text);
    return add_failure(work, event, code, out->message, line, err);
}

/* A journal that others write to (JetStream) may hold messages that are not events. Such a message
 * fails in every projection, because its type is unknown. */
static ef_status fail_unreadable(ef__generation_work *work, const ef_event *event,
                                 ef__apply_result *out, ef_error *err)
{
    ef_error why = EF_ERROR_INIT;

    (void)ef_fail(&why, EF_BAD_INPUT, "the message at position %" PRId64 " is not an event: %.*s",
                  event->position, EF_STR_ARG(event->data));
    return fail_event(work, event, EF_STR("unreadable"), &why, 0, out, err);
}

static ef_status fold_program(ef__generation_work *work, size_t index, ef__apply_result *out,
                              ef_error *err)
{
    const ef_event *event = work->apply->events[index];
    bool skip = ef__skips_has(work->engine, work->skips, event);
    ef__outcome outcome;
    ef_status st;

    if (skip || work->apply->not_folded[index]) {
        out->verdict = skip ? EF__VERDICT_SKIPPED : EF__VERDICT_IGNORED;
        return EF_OK;
    }
    if (event->type.len == 0)
        return fail_unreadable(work, event, out, err);
    st = ef__folder_apply(work->cache->folder, event, &outcome, err);
    if (st != EF_OK)
        return st;
    if (outcome.result == EF__FOLD_FAILED)
        return fail_event(work, event, EF_STR("fold_error"), &outcome.error, outcome.line, out,
                          err);
    out->verdict = outcome.result == EF__FOLD_APPLIED ? EF__VERDICT_APPLIED : EF__VERDICT_IGNORED;
    return EF_OK;
}

/* The journal lost an event that was applied, and this one has its seq. The event fails and blocks
 * its stream; an operator decides, because both the views and the journal may be the damaged part.
 */
static ef_status raise_alarm(ef__generation_work *work, const ef_event *event, int64_t applied_seq,
                             ef__apply_result *out, ef_error *err)
{
    ef_error alarm = EF_ERROR_INIT;

    (void)ef_fail(&alarm, EF_DAMAGED,
                  "stream \"%.*s\" seq %" PRId64 " is not the event that projection \"%.*s\" has "
                  "applied: the journal lost events that the views have, up to seq %" PRId64
                  "; rebuild the projection or skip the event",
                  EF_STR_ARG(event->stream), event->seq, EF_STR_ARG(work->live->generation->name),
                  applied_seq);
    ef__log(work->engine->options.log, EF_LOG_ERROR, "event differs from the applied event",
            EF_LOG_TEXT_FIELD("error", ef_str_from(alarm.text)));
    return fail_event(work, event, EF_STR("hash_mismatch"), &alarm, 0, out, err);
}

static void defer_event(ef__generation_work *work, const ef__watermark *now, ef__apply_result *out)
{
    bool is_blocked = ef__watermark_is_blocked(now);
    char text[120];

    (void)snprintf(text, sizeof text,
                   is_blocked ? "waits: seq %" PRId64
                                " of its stream is not the event that was applied"
                              : "waits for seq %" PRId64 " of its stream",
                   is_blocked ? now->expected_next_seq : now->applied_seq + 1);
    out->verdict = EF__VERDICT_DEFERRED;
    out->message = copy_message(work, text);
}

/* Does the journal still have the event at applied_seq? Read once per stream and batch. */
static ef_status read_history(ef__generation_work *work, ef__stream_watermark *watermark,
                              const ef_event *event, ef__watermark_history *out, ef_error *err)
{
    bool is_same = watermark->checked == work->cache->batch;
    ef_status st = EF_OK;

    if (!is_same)
        st = ef__journal_loss_check(work->engine, &watermark->now, event, &is_same, err);
    if (is_same)
        watermark->checked = work->cache->batch;
    *out = is_same ? EF__HISTORY_SAME : EF__HISTORY_DIFFERENT;
    return st;
}

static ef_status decide_event(ef__generation_work *work, const ef_event *event,
                              ef__stream_watermark *watermark, ef__watermark_step *out,
                              ef_error *err)
{
    ef__watermark_seqs seqs = {watermark->now.applied_seq, watermark->now.expected_next_seq};
    ef__watermark_event seen = {.seq = event->seq,
                                .is_sparse = ef__journal_is_sparse(work->engine->journal)};
    ef_status st;

    *out = ef__watermark_decide(seqs, &seen);
    if (out->action != EF__WATERMARK_COMPARE)
        return EF_OK;
    st = read_history(work, watermark, event, &seen.history, err);
    if (st != EF_OK)
        return st;
    seen.is_skipped =
        seen.history == EF__HISTORY_DIFFERENT && ef__skips_has(work->engine, work->skips, event);
    *out = ef__watermark_decide(seqs, &seen);
    return EF_OK;
}

static ef_status fold_one(ef__generation_work *work, size_t index, ef__stream_watermark *watermark,
                          ef__watermark_seqs after, ef__apply_result *out, ef_error *err)
{
    ef_status st = fold_program(work, index, out, err);

    if (st == EF_OK && out->verdict != EF__VERDICT_FAILED)
        st = set_watermark(work, watermark, work->apply->events[index], after, err);
    work->part->change->applied += out->verdict == EF__VERDICT_APPLIED;
    work->part->change->ignored += out->verdict == EF__VERDICT_IGNORED;
    work->part->change->skipped += out->verdict == EF__VERDICT_SKIPPED;
    return st;
}

static ef_status apply_event(ef__generation_work *work, size_t index, ef__apply_result *out,
                             ef_error *err)
{
    const ef_event *event = work->apply->events[index];
    ef__stream_watermark *watermark = work->event_watermarks[index];
    ef__watermark_step step;
    ef_status st =
        watermark ? EF_OK : ef__view_cache_watermark(work->cache, event, &watermark, err);

    if (st == EF_OK)
        st = decide_event(work, event, watermark, &step, err);
    if (st != EF_OK)
        return st;
    if (step.action == EF__WATERMARK_FOLD)
        return fold_one(work, index, watermark, step.after, out, err);
    if (step.after.expected_next_seq != watermark->now.expected_next_seq)
        st = set_watermark(work, watermark, event, step.after, err);
    if (st != EF_OK)
        return st;
    if (step.action == EF__WATERMARK_ALARM)
        return raise_alarm(work, event, watermark->now.applied_seq, out, err);
    out->verdict = EF__VERDICT_DUPLICATE;
    if (step.action == EF__WATERMARK_DEFER)
        defer_event(work, &watermark->now, out);
    return EF_OK;
}

/* --- changed views ---------------------------------------------------------------------------- */

ef_status ef__index_keys(const ef__program *program, ef__match *match, ef__arena *arena,
                         ef__view_change *change, ef_error *err)
{
    size_t count = ef__program_index_count(program);
    ef__index_key *keys = ef__arena_zalloc(arena, count + 1, sizeof *keys);
    EF__AUTO(ef__buf) key = EF__BUF_INIT(2 * EF__KEY_BYTES);
    ef_status st = keys ? EF_OK : ef__apply_no_memory(err);

    if (st == EF_OK && count && !change->deleted)
        st = ef__match_row(match, change->view.id, change->view.last_position, change->view.data,
                           err);
    for (size_t i = 0; st == EF_OK && i < count && !change->deleted; i++) {
        ef__value value;
        bool cut;
        ef__buf_reset(&key);
        st = ef__match_index(match, program, i, &value, err);
        if (st == EF_OK)
            st = ef__sort_key(value, EF__KEY_BYTES, &key, &cut, err);
        if (st != EF_OK)
            break;
        keys[change->key_count].index = (int32_t)i;
        keys[change->key_count].key = ef__arena_copy(arena, ef__buf_str(&key));
        st = keys[change->key_count++].key.ptr ? EF_OK : ef__apply_no_memory(err);
    }
    change->keys = keys;
    return st;
}

ef_status ef__work_collect_views(ef__generation_work *work, ef_error *err)
{
    ef__generation_part *part = work->part;
    ef__arena *arena = &part->arena;
    size_t at = 0;
    ef_status st = EF_OK;

    part->views =
        ef__arena_alloc(arena, (ef__folder_changed(work->cache->folder) + 1) * sizeof *part->views);
    if (!part->views)
        return ef__apply_no_memory(err);
    while (st == EF_OK) {
        ef__folded_view view;
        st = ef__folder_next(work->cache->folder, &at, &view, err);
        if (st != EF_OK || view.view_id.len == 0)
            break;
        ef__view_change *change = &part->views[part->change->view_count++];
        *change = (ef__view_change){.view = {.tenant = ef__arena_copy(arena, view.tenant),
                                             .id = ef__arena_copy(arena, view.view_id),
                                             .data = ef__arena_copy(arena, view.data),
                                             .last_position = view.position,
                                             .last_seq = view.seq,
                                             .schema = (int32_t)view.schema},
                                    .deleted = view.deleted};
        if (!change->view.tenant.ptr || !change->view.id.ptr || !change->view.data.ptr)
            return ef__apply_no_memory(err);
        if (view.existed)
            ef__view_cache_digest(work->cache, view.tenant, view.view_id, change->before);
        st = ef__index_keys(work->live->program, work->match, arena, change, err);
    }
    return st;
}

/* --- tenants of a log-ordered generation ------------------------------------------------------ */

/* Events of a log-ordered projection are applied in position order, so a failed or deferred event
 * stops its tenant. */
static bool stops_tenant(const ef__generation_work *work, const ef__apply_result *result)
{
    return work->live->generation->by_log &&
           (result->verdict == EF__VERDICT_FAILED || result->verdict == EF__VERDICT_DEFERRED);
}

/* The cursor of the tenant stays before this event. Neither an alarm nor a deferred event is ever
 * skipped by the error policy. */
static ef_status stop_tenant(ef__generation_work *work, size_t index,
                             const ef__apply_result *result, ef_error *err)
{
    const ef_event *event = work->apply->events[index];
    ef__stream_watermark *watermark;
    ef_status st = ef__view_cache_watermark(work->cache, event, &watermark, err);
    bool may_skip = st == EF_OK && result->verdict == EF__VERDICT_FAILED &&
                    !ef__watermark_is_blocked(&watermark->now);

    if (st == EF_OK && result->verdict == EF__VERDICT_DEFERRED)
        st = add_failure(work, event, EF_STR("seq_gap"), result->message, 0, err);
    if (st == EF_OK)
        st = ef__tenant_stop(work->engine, work->apply, &work->stopped, index, may_skip, err);
    work->apply->stopped = work->apply->tenant != NULL;
    return st;
}

static ef_status fold_event(ef__generation_work *work, size_t index, ef__apply_result *result,
                            ef_error *err)
{
    bool is_excluded = false;
    ef_status st = EF_OK;

    if (work->live->generation->by_log)
        st = ef__tenant_is_excluded(work->engine, work->apply, &work->stopped,
                                    work->apply->events[index], &is_excluded, err);
    if (is_excluded)
        result->verdict = EF__VERDICT_EXCLUDED;
    if (st != EF_OK || is_excluded)
        return st;
    st = apply_event(work, index, result, err);
    return st == EF_OK && stops_tenant(work, result) ? stop_tenant(work, index, result, err) : st;
}

/* --- one generation -------------------------------------------------------------------------- */

#define CHANGE_BYTES 512 /* of a changed view, beside its decoded form: encoded, and its digest */

ef_status ef__work_open(ef__generation_work *work, ef_error *err)
{
    ef_status st = work->apply->caches
                       ? ef__view_cache_acquire(work->engine, work->apply->caches, work->live,
                                                &work->cache, err)
                       : ef__view_cache_open(work->engine, work->live, &work->cache, err);

    work->cursor = work->live->generation->position;
    work->bytes_before = work->cache ? ef__folder_bytes(work->cache->folder) : 0;
    if (st == EF_OK && work->apply->reads_skips)
        st = ef__skips_read(work->engine, work->live->generation, &work->skips, err);
    return st == EF_OK ? ef__match_open(&work->match, err) : st;
}

ef_status ef__work_begin_batch(ef__generation_work *work, ef__apply_result *results, ef_error *err)
{
    size_t count = work->apply->event_count;

    work->results = results;
    work->next = 0;
    work->event_watermarks =
        ef__arena_alloc(&work->apply->batch_arena, (count + 1) * sizeof(ef__stream_watermark *));
    return work->event_watermarks ? EF_OK : ef__apply_no_memory(err);
}

bool ef__work_has_folded(const ef__generation_work *work)
{
    return work->next == work->apply->event_count || work->apply->stopped;
}

static bool is_part_full(const ef__generation_work *work, size_t bytes_before)
{
    size_t bytes = ef__folder_bytes(work->cache->folder);

    return (bytes > bytes_before ? bytes - bytes_before : 0) +
               ef__folder_changed(work->cache->folder) * CHANGE_BYTES >=
           work->engine->commit_bytes;
}

/* A log-ordered generation has its cursors in the commit: it ends with the events folded so far. */
static void cut_events(ef__generation_work *work)
{
    ef__apply *apply = work->apply;

    if (!work->live->generation->by_log || ef__work_has_folded(work))
        return;
    apply->event_count = work->next;
    apply->cursor_after = apply->events[work->next - 1]->position;
    apply->go_live = false;
}

ef_status ef__work_fold(ef__generation_work *work, ef_error *err)
{
    const ef__apply *apply = work->apply;
    size_t first = work->next;
    ef_status st =
        ef__view_cache_prefetch(work->cache, apply->events + first, apply->event_count - first,
                                work->event_watermarks + first, err);

    work->is_full = false;
    while (st == EF_OK && !work->is_full && !ef__work_has_folded(work)) {
        st = fold_event(work, work->next, &work->results[work->next], err);
        work->next++;
        work->part_events++;
        work->is_full = is_part_full(work, work->bytes_before);
    }
    cut_events(work);
    if (st == EF_OK && apply->tenant && !apply->stopped)
        st = ef__tenant_advance(work->engine, work->apply, &work->stopped, err);
    ef__view_cache_end_reads(work->cache);
    return st == EF_OK && (work->is_full || !apply->accumulates) ? ef__work_collect_views(work, err)
                                                                 : st;
}

/* The cursor after the events that are folded. */
static int64_t cursor_after(const ef__generation_work *work)
{
    const ef__apply *apply = work->apply;

    return work->next < apply->event_count ? apply->events[work->next - 1]->position
                                           : apply->cursor_after;
}

void ef__work_complete(ef__generation_work *work, bool is_last)
{
    ef__generation_change *change = work->part->change;
    const ef__apply *apply = work->apply;

    change->views = work->part->views;
    change->watermarks = work->part->watermarks;
    change->failures = work->part->failures;
    change->tenants = work->stopped.items;
    change->tenant_count = work->stopped.count;
    if (apply->moves_cursor) {
        change->cursor_before = work->cursor;
        change->cursor_after = cursor_after(work);
        change->go_live = apply->go_live && is_last;
        assert(change->cursor_after >= change->cursor_before); /* a cursor only grows */
        /* Holes count as ignored, so that applied + ignored + skipped + rows = positions. */
        if (ef__journal_is_sparse(work->engine->journal))
            change->ignored +=
                change->cursor_after - change->cursor_before - (int64_t)work->part_events;
        work->cursor = change->cursor_after;
    }
    work->part_events = 0;
    work->is_full = false;
    work->bytes_before = ef__folder_bytes(work->cache->folder);
}

void ef__part_reset(ef__generation_part *part)
{
    const ef__generation_change *change = part->change;

    *part->change = (ef__generation_change){.generation = change->generation, .era = change->era};
    ef__arena_recycle(&part->arena);
    part->views = NULL;
    part->failures = NULL;
    part->watermarks = NULL;
    part->failure_cap = part->watermark_cap = 0;
}

void ef__part_commit(const ef__generation_work *work, ef__generation_part *part)
{
    ef__apply *apply = work->apply;

    apply->applied += part->change->applied;
    apply->ignored += part->change->ignored;
    apply->failed += (int64_t)part->change->failure_count;
    ef__view_size_check(work->engine, work->live->generation, part->change->views,
                        part->change->view_count);
}

void ef__work_close(ef__generation_work *work, bool is_committed)
{
    ef__stopped_tenants_release(&work->stopped);
    ef__match_close(work->match);
    if (!work->apply->caches)
        ef__view_cache_close(work->cache);
    else if (work->cache && !is_committed)
        ef__view_cache_reset(work->cache);
}
