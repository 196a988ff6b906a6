/*
 * apply.c - see apply.h.
 */
#include "apply.h"
#include "fresh.h"
#include "lost.h"
#include "queue.h"
#include "route.h"
#include "tenant.h"

#include "../base/logger.h"
#include "../journal/journal.h"

#include "skip.h"
#include "workset.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ALONE_EVENTS 512 /* fewer are not worth a second thread */

/* The work on one generation. What it points to lives in its arena, but for the workset. */
typedef struct work {
    ef_engine *engine;
    ef__apply *apply;
    ef__arena *arena;     /* of the apply's */
    ef__applied *results; /* one an event, of the apply's */
    const ef__live *live;
    const bool *not_folded; /* per event: its type is not for folding */
    ef__skips *skips;       /* what it passes; NULL: none, or nothing comes again */
    ef__workset *set;
    ef__mark **event_marks; /* per event, of its stream; NULL: not looked up yet */
    ef__match *match;       /* for index keys */
    ef__failure *failures;
    size_t failure_count;
    ef__view_change *changes;
    size_t change_count;
    ef__watermark_change *marks;
    size_t mark_count;
    int64_t applied, ignored, skipped;
    ef__left_behind left; /* of a generation in the order of the log */
    ef_status st;         /* of folding … */
    ef_error err;         /* … and why */
} work;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while applying events");
}

/* --- one event
 * ------------------------------------------------------------------------------------ */

static ef_str keep(work *w, const char *text)
{
    ef_str kept = ef__arena_copy(w->arena, ef_str_from(text));

    return kept.ptr ? kept : EF_STR("memory ran out while keeping the message");
}

static ef_status note_failure(work *w, const ef_event *event, ef_str code, ef_str message,
                              ef_error *err)
{
    if (!w->failures) /* which is rare: there may be as many as events */
        w->failures = ef__arena_alloc(w->arena, w->apply->event_count * sizeof *w->failures);
    if (!w->failures)
        return no_memory(err);
    w->failures[w->failure_count++] = (ef__failure){.generation = w->live->generation->id,
                                                    .tenant = event->tenant,
                                                    .stream = event->stream,
                                                    .seq = event->seq,
                                                    .position = event->position,
                                                    .event_id = event->id,
                                                    .code = code,
                                                    .message = message,
                                                    .attempts = 1,
                                                    .open = true,
                                                    .recorded_us = ef__engine_now(w->engine)};
    return EF_OK;
}

/* `next` is expected. Above `event` that says that it has been taken, and the mark never goes back:
 * it stands at the highest one. */
static void set_mark(work *w, ef__mark *m, const ef_event *event, int64_t next)
{
    if (m->batch != w->set->batch) {
        m->batch = w->set->batch;
        m->change = &w->marks[w->mark_count++];
        *m->change = (ef__watermark_change){event->tenant, event->stream, m->now, m->now};
    }
    if (next > event->seq && event->seq >= m->now.applied_seq) {
        m->now.applied_seq = event->seq;
        memcpy(m->now.hash, event->hash, sizeof m->now.hash);
    }
    m->now.expected_next_seq = next;
    m->change->after = m->now;
}

/* A message that is no event: nobody can say whether the projection wants it. */
static ef_status fail_unreadable(work *w, const ef_event *event, ef__applied *out, ef_error *err)
{
    ef_error why = EF_ERROR_INIT;

    (void)ef_fail(&why, EF_BAD_INPUT, "the message at position %" PRId64 " is no event: %.*s",
                  event->position, EF_STR_ARG(event->data));
    out->verdict = EF__VERDICT_FAILED;
    out->message = keep(w, why.text);
    return note_failure(w, event, EF_STR("unreadable"), out->message, err);
}

static ef_status fold_one(work *w, size_t index, ef__applied *out, ef_error *err)
{
    const ef__apply_event *item = &w->apply->events[index];
    bool skip = item->skip || ef__skips_has(w->engine, w->skips, item->event);
    ef__outcome outcome;
    ef_status st;

    if (skip || w->not_folded[index]) {
        out->verdict = skip ? EF__VERDICT_SKIPPED : EF__VERDICT_IGNORED;
        return EF_OK;
    }
    if (item->event->type.len == 0)
        return fail_unreadable(w, item->event, out, err);
    st = ef__folder_apply(w->set->folder, item->event, &outcome, err);
    if (st != EF_OK)
        return st;
    out->verdict = outcome.result == EF__FOLD_APPLIED   ? EF__VERDICT_APPLIED
                   : outcome.result == EF__FOLD_IGNORED ? EF__VERDICT_IGNORED
                                                        : EF__VERDICT_FAILED;
    if (out->verdict == EF__VERDICT_FAILED) {
        out->message = keep(w, outcome.error.text);
        return note_failure(w, item->event, EF_STR("fold_error"), out->message, err);
    }
    return EF_OK;
}

/* The journal lost events that were folded, and others take their seqs: an alarm, never a skip. It
 * fails, and the stream is held: the watermark expects this seq again. */
static ef_status another_event(work *w, ef__mark *m, const ef_event *event, ef__applied *out,
                               ef_error *err)
{
    ef_error alarm = EF_ERROR_INIT;

    (void)ef_fail(&alarm, EF_DAMAGED,
                  "stream \"%.*s\" seq %" PRId64 " is not the event that projection \"%.*s\" has "
                  "applied: the journal lost events behind the views, up to seq %" PRId64
                  "; rebuild the projection, or let the event pass by skipping it",
                  EF_STR_ARG(event->stream), event->seq, EF_STR_ARG(w->live->generation->name),
                  m->now.applied_seq);
    ef__log(w->engine->options.log, EF_LOG_ERROR, "an event is not the one that was applied",
            EF_LOG_TEXT_FIELD("error", ef_str_from(alarm.text)));
    if (m->now.expected_next_seq != event->seq)
        set_mark(w, m, event, event->seq);
    out->verdict = EF__VERDICT_FAILED;
    out->message = keep(w, alarm.text);
    return note_failure(w, event, EF_STR("hash_mismatch"), out->message, err);
}

/* What an event waits for. */
static void defer(work *w, const ef__mark *m, ef__applied *out)
{
    bool held = ef__watermark_held(&m->now);
    char text[120];

    (void)snprintf(text, sizeof text,
                   held ? "waits: seq %" PRId64 " of its stream is not the event that was applied"
                        : "waits for seq %" PRId64 " of its stream",
                   m->now.expected_next_seq);
    out->verdict = EF__VERDICT_DEFERRED;
    out->message = keep(w, text);
}

/* Has the journal what the mark stands at? Asked once in a batch. */
static ef_status look_back(work *w, ef__mark *m, const ef_event *event, bool *out, ef_error *err)
{
    ef_status st = EF_OK;

    *out = m->checked == w->set->batch;
    if (!*out)
        st = ef__lost_look(w->engine, &m->now, event, out, err);
    if (*out)
        m->checked = w->set->batch;
    return st;
}

/* An event that was taken before, or one that claims to be it. */
static ef_status meet_again(work *w, size_t index, ef__mark *m, ef__applied *out, ef_error *err)
{
    const ef__apply_event *item = &w->apply->events[index];
    bool held = ef__watermark_held(&m->now), same;
    ef_status st;

    out->verdict = EF__VERDICT_DUPLICATE;
    if (held && item->event->seq < m->now.expected_next_seq)
        return EF_OK; /* before the alarm, or an operator has let it pass since */
    st = look_back(w, m, item->event, &same, err);
    if (st != EF_OK)
        return st;
    if (same && held) /* the right ones are back */
        set_mark(w, m, item->event, m->now.applied_seq + 1);
    else if (!same && held && item->event->seq > m->now.expected_next_seq)
        defer(w, m, out);
    else if (!same && !item->skip && !ef__skips_has(w->engine, w->skips, item->event))
        return another_event(w, m, item->event, out, err);
    else if (!same) /* an operator has said that it may stand for the one that was applied */
        set_mark(w, m, item->event, item->event->seq + 1);
    return EF_OK;
}

/* An event that fails does not move the watermark, so what follows it in its stream is deferred. */
static ef_status apply_one(work *w, size_t index, ef__applied *out, ef_error *err)
{
    const ef_event *event = w->apply->events[index].event;
    ef__mark *m = w->event_marks[index];
    ef_status st = m ? EF_OK : ef__workset_mark(w->set, event, &m, err);

    if (st != EF_OK)
        return st;
    if (event->seq <= m->now.applied_seq)
        return meet_again(w, index, m, out, err);
    if ((event->seq != m->now.applied_seq + 1 && !ef__journal_is_sparse(w->engine->journal)) ||
        ef__watermark_held(&m->now)) {
        defer(w, m, out);
        return EF_OK;
    }
    st = fold_one(w, index, out, err);
    if (st == EF_OK && out->verdict != EF__VERDICT_FAILED)
        set_mark(w, m, event, event->seq + 1);
    w->applied += out->verdict == EF__VERDICT_APPLIED;
    w->ignored += out->verdict == EF__VERDICT_IGNORED;
    w->skipped += out->verdict == EF__VERDICT_SKIPPED;
    return st;
}

/* --- changes out
 * ----------------------------------------------------------------------------------- */

ef_status ef__index_keys(const ef__program *program, ef__match *match, ef__arena *arena,
                         ef__view_change *change, ef_error *err)
{
    size_t count = ef__program_index_count(program);
    ef__index_key *keys = ef__arena_zalloc(arena, count + 1, sizeof *keys);
    ef__buf key = EF__BUF_INIT(2 * EF__KEY_BYTES);
    ef_status st = keys ? EF_OK : no_memory(err);

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
        st = keys[change->key_count++].key.ptr ? EF_OK : no_memory(err);
    }
    change->keys = keys;
    ef__buf_release(&key);
    return st;
}

/* What the folder changed. */
static ef_status collect_views(work *w, ef_error *err)
{
    ef__arena *arena = w->arena;
    size_t at = 0;
    ef_status st = EF_OK;

    w->changes =
        ef__arena_alloc(arena, (ef__folder_changed(w->set->folder) + 1) * sizeof *w->changes);
    if (!w->changes)
        return no_memory(err);
    while (st == EF_OK) {
        ef__folded_view v;
        st = ef__folder_next(w->set->folder, &at, &v, err);
        if (st != EF_OK || v.view_id.len == 0)
            break;
        ef__view_change *c = &w->changes[w->change_count++];
        *c = (ef__view_change){.view = {.tenant = ef__arena_copy(arena, v.tenant),
                                        .id = ef__arena_copy(arena, v.view_id),
                                        .data = ef__arena_copy(arena, v.data),
                                        .last_position = v.position,
                                        .last_seq = v.seq,
                                        .schema = (int32_t)v.schema},
                               .deleted = v.deleted};
        if (!c->view.tenant.ptr || !c->view.id.ptr || !c->view.data.ptr)
            return no_memory(err);
        if (v.existed)
            ef__workset_digest(w->set, v.tenant, v.view_id, c->before);
        st = ef__index_keys(w->live->program, w->match, arena, c, err);
    }
    return st;
}

/* --- a generation
 * ----------------------------------------------------------------------------------- */

static ef_status open_work(work *w, ef_error *err)
{
    ef_status st;

    w->marks = ef__arena_alloc(w->arena, (w->apply->event_count + 1) * sizeof *w->marks);
    w->event_marks = ef__arena_alloc(w->arena, (w->apply->event_count + 1) * sizeof(ef__mark *));
    if (!w->marks || !w->event_marks)
        return no_memory(err);
    st = w->apply->worksets ? ef__workset_kept(w->engine, w->apply->worksets, w->live, &w->set, err)
                            : ef__workset_open(w->engine, w->live, &w->set, err);
    if (st == EF_OK && w->apply->looks_back)
        st = ef__skips_read(w->engine, w->live->generation, &w->skips, err);
    return st == EF_OK ? ef__match_open(&w->match, err) : st;
}

/* After the commit, or instead of one. */
static void close_work(work *w, const ef__generation_change *change, bool committed)
{
    if (committed)
        ef__large_look(w->engine, w->live->generation, change->views, change->view_count);
    ef__left_behind_release(&w->left);
    ef__match_close(w->match);
    if (!w->apply->worksets)
        ef__workset_close(w->set);
    else if (w->set && committed)
        ef__workset_settle(w->set, change);
    else if (w->set)
        ef__workset_reset(w->set);
}

/* A log-ordered projection cannot pass an event that it cannot digest, nor what waits behind one.
 */
static bool stops_here(const work *w, const ef__applied *result)
{
    return w->live->generation->by_log &&
           (result->verdict == EF__VERDICT_FAILED || result->verdict == EF__VERDICT_DEFERRED);
}

/* The tenant stays before this event, and the reason is on record. Neither an alarm nor what waits
 * is ever let pass by itself. */
static ef_status stop_tenant(work *w, size_t index, const ef__applied *result, ef_error *err)
{
    ef__mark *m;
    ef_status st = ef__workset_mark(w->set, w->apply->events[index].event, &m, err);
    bool may_pass =
        st == EF_OK && result->verdict == EF__VERDICT_FAILED && !ef__watermark_held(&m->now);

    if (st == EF_OK && result->verdict == EF__VERDICT_DEFERRED)
        st =
            note_failure(w, w->apply->events[index].event, EF_STR("seq_gap"), result->message, err);
    if (st == EF_OK)
        st = ef__tenant_stops(w->engine, w->apply, &w->left, index, may_pass, err);
    w->apply->stopped = w->apply->tenant != NULL;
    return st;
}

static ef_status fold_event(work *w, size_t index, ef__applied *result, ef_error *err)
{
    bool left_out = false;
    ef_status st = EF_OK;

    if (w->live->generation->by_log)
        st = ef__tenant_leaves_out(w->engine, w->apply, &w->left, w->apply->events[index].event,
                                   &left_out, err);
    if (left_out)
        result->verdict = EF__VERDICT_LEFT_OUT;
    if (st != EF_OK || left_out)
        return st;
    st = apply_one(w, index, result, err);
    return st == EF_OK && stops_here(w, result) ? stop_tenant(w, index, result, err) : st;
}

static ef_status fold_generation(work *w, ef_error *err)
{
    ef_status st = EF_OK;

    st = ef__workset_fetch(w->set, w->apply->events, w->apply->event_count, w->event_marks, err);
    for (size_t i = 0; st == EF_OK && i < w->apply->event_count && !w->apply->stopped; i++)
        st = fold_event(w, i, &w->results[i], err);
    if (st == EF_OK && w->apply->tenant && !w->apply->stopped)
        st = ef__tenant_went_on(w->engine, w->apply, &w->left, err);
    ef__workset_read_end(w->set);
    return st == EF_OK ? collect_views(w, err) : st;
}

/* Generations that wait to be folded. */
typedef struct folding {
    work *works;
    size_t count;
    atomic_size_t next;
} folding;

static void *fold_waiting(void *context)
{
    folding *f = context;
    size_t g;

    while ((g = atomic_fetch_add(&f->next, 1)) < f->count)
        f->works[g].st = fold_generation(&f->works[g], &f->works[g].err);
    return NULL;
}

/* Generations have nothing in common before the commit, so two threads share them where there is
 * enough to do. The second lives for this batch; where there is none to be had, one does it all. */
static ef_status fold_all(work *works, size_t count, size_t event_count, ef_error *err)
{
    folding f = {.works = works, .count = count};
    bool helped = false;
    pthread_t thread;
    ef_status st = EF_OK;

    for (size_t g = 0; st == EF_OK && g < count; g++)
        st = open_work(&works[g], err);
    if (st != EF_OK)
        return st;
    if (count > 1 && event_count >= ALONE_EVENTS)
        helped = pthread_create(&thread, NULL, fold_waiting, &f) == 0;
    (void)fold_waiting(&f);
    if (helped)
        (void)pthread_join(thread, NULL);
    for (size_t g = 0; g < count; g++)
        if (works[g].st != EF_OK) {
            if (err)
                *err = works[g].err;
            return works[g].st;
        }
    return EF_OK;
}

static void describe_change(const work *w, ef__generation_change *out)
{
    const ef__generation *g = w->live->generation;
    const ef__apply *apply = w->apply;

    *out = (ef__generation_change){.generation = g->id,
                                   .era = g->era,
                                   .applied = w->applied,
                                   .ignored = w->ignored,
                                   .skipped = w->skipped,
                                   .views = w->changes,
                                   .view_count = w->change_count,
                                   .watermarks = w->marks,
                                   .watermark_count = w->mark_count,
                                   .tenants = w->left.items,
                                   .tenant_count = w->left.count,
                                   .failures = w->failures,
                                   .failure_count = w->failure_count};
    if (apply->moves_cursor) {
        out->cursor_before = g->position;
        out->cursor_after = apply->cursor_after;
        out->go_live = apply->go_live;
        /* Holes are passed like events that are not wanted, so that the accounts add up. */
        if (ef__journal_is_sparse(w->engine->journal))
            out->ignored += apply->cursor_after - g->position - (int64_t)apply->event_count;
    }
}

/* --- the batch
 * -------------------------------------------------------------------------------------- */

static int compare_type(const void *name, const void *type)
{
    return ef__str_compare(*(const ef_str *)name, ((const ef_type *)type)->name);
}

/* Which events are of types that are not folded. */
static ef_status read_intents(ef_engine *e, ef__apply *apply, bool **out, ef_error *err)
{
    ef_type_list types = {0};
    ef_status st = ef__types_not_folded(e->journal, &types, err);

    *out = ef__arena_zalloc(&apply->arena, apply->event_count + 1, sizeof **out);
    if (st == EF_OK && !*out)
        st = no_memory(err);
    for (size_t n = 0; st == EF_OK && types.count && n < apply->event_count; n++)
        (*out)[n] = bsearch(&apply->events[n].event->type, types.items, types.count,
                            sizeof *types.items, compare_type) != NULL;
    ef_type_list_release(&types);
    return st;
}

static ef_status read_head(void *context, int64_t *out, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(context, &head, err);

    *out = st == EF_OK ? head.position : -1;
    return st;
}

/* What a cursor has applied comes again by itself, for the cursor goes back with the views. Not so
 * where the journal is told what is done with: it is synced first, and so is what a tenant catches
 * up with, for the journal was told of that when the tenant stopped. A ghost tells nobody. */
static bool may_be_lost(const ef_engine *e, const ef__apply *apply)
{
    bool by_cursor = apply->moves_cursor || apply->tenant;

    return by_cursor && (e->ghost || !ef__journal_is_acknowledged(e->journal));
}

static ef_status commit(ef_engine *e, ef__apply *apply, const ef__generation_change *changes,
                        size_t count, ef_error *err)
{
    ef_status st =
        e->views->ops->commit(e->views,
                              &(ef__views_commit){.live_set = apply->live_set,
                                                  .may_be_lost = may_be_lost(e, apply),
                                                  .head = read_head,
                                                  .head_context = e->journal,
                                                  .out_live = &apply->went_live,
                                                  .also = apply->complete,
                                                  .also_context = apply->complete_context,
                                                  .fences = apply->fences,
                                                  .fence_count = apply->fence_count,
                                                  .generations = changes,
                                                  .generation_count = count},
                              err);

    if (st == EF_OK)
        ef__fresh_moved(e);
    return st;
}

static void add_up(ef__apply *apply, const work *works)
{
    apply->applied = apply->ignored = apply->failed = 0;
    for (size_t g = 0; g < apply->generation_count; g++) {
        apply->applied += works[g].applied;
        apply->ignored += works[g].ignored;
        apply->failed += (int64_t)works[g].failure_count;
    }
}

/* No queued row will bring these events again, so each gets a row in the projection's own lane:
 * before the commit, for a row too many is harmless and one too few a gap. */
static ef_status file_waiting(ef_engine *e, const ef__apply *apply, ef_error *err)
{
    size_t most = apply->generation_count * apply->event_count, count = 0;
    ef_exception *rows;
    ef_status st;

    for (size_t i = 0; i < most; i++)
        count += ef__verdict_waits(apply->results[i].verdict);
    if (count == 0)
        return EF_OK;
    rows = malloc(count * sizeof *rows);
    if (!rows)
        return no_memory(err);
    count = ef__exceptions_collect(e, apply, rows);
    st = EF_OK;
    for (size_t at = 0; st == EF_OK && at < count; at += EF__ENGINE_BATCH) {
        size_t left = count - at;
        st = ef_outbox_file(e->journal, rows + at,
                            left < EF__ENGINE_BATCH ? left : EF__ENGINE_BATCH, err);
    }
    free(rows);
    return st;
}

/* What each generation works with. */
static ef_status make_works(ef_engine *e, ef__apply *apply, work **out, ef_error *err)
{
    size_t count = apply->generation_count;
    work *works = ef__arena_zalloc(&apply->arena, count + 1, sizeof *works);
    bool *not_folded = NULL;
    ef_status st;

    apply->results =
        ef__arena_zalloc(&apply->arena, count * apply->event_count + 1, sizeof *apply->results);
    apply->arenas = ef__arena_zalloc(&apply->arena, count + 1, sizeof *apply->arenas);
    if (!works || !apply->results || !apply->arenas)
        return no_memory(err);
    st = read_intents(e, apply, &not_folded, err);
    for (size_t g = 0; g < count; g++) {
        apply->arenas[g] = (ef__arena)EF__ARENA_INIT(EF__APPLY_ARENA_MAX);
        works[g] = (work){.engine = e,
                          .apply = apply,
                          .arena = &apply->arenas[g],
                          .results = apply->results + g * apply->event_count,
                          .live = &apply->generations[g],
                          .not_folded = not_folded,
                          .left = EF__LEFT_BEHIND_INIT,
                          .err = EF_ERROR_INIT};
    }
    *out = works;
    return st;
}

ef_status ef__apply_run(ef_engine *e, ef__apply *apply, ef_error *err)
{
    size_t generations = apply->generation_count;
    ef__generation_change *changes =
        ef__arena_zalloc(&apply->arena, generations + 1, sizeof *changes);
    const ef_clock *clock = e->options.clock;
    int64_t began_us = clock->mono_us(clock->context), folded_us;
    work *works = NULL;
    ef_status st;

    apply->went_live = apply->stopped = false;
    st = changes ? make_works(e, apply, &works, err) : no_memory(err);
    if (st == EF_OK)
        st = fold_all(works, generations, apply->event_count, err);
    folded_us = clock->mono_us(clock->context);
    for (size_t g = 0; st == EF_OK && g < generations; g++)
        describe_change(&works[g], &changes[g]);
    if (st == EF_OK && apply->files)
        st = file_waiting(e, apply, err);
    if (st == EF_OK)
        st = commit(e, apply, changes, generations, err);
    ef__routes_outdate(e);
    if (st == EF_OK) {
        add_up(apply, works);
        ef__count_batch(e, apply->event_count, clock->mono_us(clock->context) - began_us,
                        folded_us - began_us);
    }
    apply->tenants = changes && generations ? changes[0].tenants : NULL;
    apply->tenant_count = st == EF_OK && generations ? changes[0].tenant_count : 0;
    for (size_t g = 0; works && g < generations; g++)
        close_work(&works[g], &changes[g], st == EF_OK);
    return st;
}

void ef__apply_release(ef__apply *apply)
{
    for (size_t g = 0; apply->arenas && g < apply->generation_count; g++)
        ef__arena_release(&apply->arenas[g]);
    apply->arenas = NULL;
    ef__arena_release(&apply->arena);
    apply->results = NULL;
}

ef_status ef__apply_live(ef_engine *e, const ef_event *events, size_t count, ef_error *err)
{
    ef__apply_event *items = malloc(count * sizeof *items);
    ef_status st = items ? EF_CONFLICT : no_memory(err);

    for (size_t i = 0; items && i < count; i++)
        items[i] = (ef__apply_event){&events[i], false};
    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_START_OVER; tries++) {
        ef__live_set set;
        st = ef__live_set_read(e, true, &set, err);
        if (st != EF_OK)
            break;
        ef__apply apply = {.generations = set.items,
                           .generation_count = set.count,
                           .events = items,
                           .event_count = count,
                           .live_set = set.number,
                           .files = e->options.mode == EF_MODE_INLINE_APPLY_ONLY,
                           .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
        if (set.count)
            st = ef__apply_run(e, &apply, err);
        ef__apply_release(&apply);
        ef__live_set_release(&set);
    }
    free(items);
    return st;
}
