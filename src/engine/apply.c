/*
 * apply.c - see apply.h.
 */
#include "apply.h"

#include "../base/hash.h"
#include "../fold/folder.h"
#include "../fold/match.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A stream of the batch, and how far one generation is in it. */
typedef struct mark {
    struct mark *next;
    ef_str tenant, stream;
    ef__watermark before, after;
    bool moved;
    bool blocked; /* an event of it failed in this batch: what follows waits */
} mark;

/* A view that was read, and what it added to the digest then: the commit compares it. */
typedef struct read_view {
    struct read_view *next;
    ef_str tenant, id;
    uint64_t digest[2];
} read_view;

/* The work on one generation. What it points to lives in the apply's arena. */
typedef struct work {
    ef_engine *engine;
    ef__apply *apply;
    const ef__live *live;
    const bool *not_folded; /* per event: its type is not for folding */
    ef__folder *folder;
    ef__match *match; /* for index keys */
    ef__arena loaded; /* the view that was loaded last */
    mark **buckets;
    read_view **reads;
    size_t bucket_count; /* of each; a power of two */
    size_t mark_count;
    ef__failure *failures;
    size_t failure_count;
    ef__view_change *changes;
    size_t change_count;
    ef__watermark_change *marks;
    int64_t applied, ignored, skipped;
    int64_t cursor_after;
} work;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while applying events");
}

/* --- watermarks
 * ----------------------------------------------------------------------------------- */

static ef_status find_mark(work *w, const ef_event *event, mark **out, ef_error *err)
{
    uint64_t hash = ef__xxh3(event->stream, ef__xxh3(event->tenant, 0));
    mark **slot = &w->buckets[hash & (w->bucket_count - 1)];
    const ef__views_ops *ops = w->engine->views->ops;
    bool found;
    ef_status st;

    for (mark *m = *slot; m; m = m->next) {
        if (ef_str_equal(m->stream, event->stream) && ef_str_equal(m->tenant, event->tenant)) {
            *out = m;
            return EF_OK;
        }
    }
    mark *m = ef__arena_zalloc(&w->apply->arena, 1, sizeof *m);
    if (!m)
        return no_memory(err);
    m->tenant = event->tenant;
    m->stream = event->stream;
    st = ops->watermark_get(w->engine->views, w->live->generation->id, event->tenant, event->stream,
                            &m->before, &found, err);
    if (st != EF_OK)
        return st;
    if (!found)
        m->before = (ef__watermark){0};
    m->after = m->before;
    m->next = *slot;
    *slot = m;
    w->mark_count++;
    *out = m;
    return EF_OK;
}

static void move_mark(mark *m, const ef_event *event)
{
    m->after.applied_seq = event->seq;
    m->after.expected_next_seq = event->seq + 1;
    memcpy(m->after.hash, event->hash, sizeof m->after.hash);
    m->moved = true;
}

/* --- one event
 * ------------------------------------------------------------------------------------ */

static ef_str keep(work *w, const char *text)
{
    ef_str kept = ef__arena_copy(&w->apply->arena, ef_str_from(text));

    return kept.ptr ? kept : EF_STR("memory ran out while keeping the message");
}

static void note_failure(work *w, const ef_event *event, ef_str message)
{
    w->failures[w->failure_count++] = (ef__failure){.generation = w->live->generation->id,
                                                    .tenant = event->tenant,
                                                    .stream = event->stream,
                                                    .seq = event->seq,
                                                    .position = event->position,
                                                    .event_id = event->id,
                                                    .code = EF_STR("fold_error"),
                                                    .message = message,
                                                    .attempts = 1,
                                                    .open = true,
                                                    .recorded_us = ef__engine_now(w->engine)};
}

static ef_status fold_one(work *w, size_t index, ef__applied *out, ef_error *err)
{
    const ef__apply_event *item = &w->apply->events[index];
    ef__outcome outcome;
    ef_status st;

    if (item->skip || w->not_folded[index]) {
        out->verdict = item->skip ? EF__VERDICT_SKIPPED : EF__VERDICT_IGNORED;
        return EF_OK;
    }
    st = ef__folder_apply(w->folder, item->event, &outcome, err);
    if (st != EF_OK)
        return st;
    out->verdict = outcome.result == EF__FOLD_APPLIED   ? EF__VERDICT_APPLIED
                   : outcome.result == EF__FOLD_IGNORED ? EF__VERDICT_IGNORED
                                                        : EF__VERDICT_FAILED;
    if (out->verdict == EF__VERDICT_FAILED) {
        out->message = keep(w, outcome.error.text);
        note_failure(w, item->event, out->message);
    }
    return EF_OK;
}

/* The journal lost events that were folded, and new ones took their seqs: an alarm, never a skip.
 */
static ef_status another_event(const work *w, const ef_event *event, ef_error *err)
{
    return ef_fail_numbers(
        err, EF_DAMAGED, event->seq, event->position,
        "stream \"%.*s\" seq %" PRId64
        " is not the event that projection \"%.*s\" has applied: the journal was "
        "changed behind the views; rebuild them",
        EF_STR_ARG(event->stream), event->seq, EF_STR_ARG(w->live->generation->name));
}

static ef_status apply_one(work *w, size_t index, ef__applied *out, ef_error *err)
{
    const ef_event *event = w->apply->events[index].event;
    char text[80];
    mark *m;
    ef_status st = find_mark(w, event, &m, err);

    if (st != EF_OK)
        return st;
    if (event->seq <= m->after.applied_seq) {
        out->verdict = EF__VERDICT_DUPLICATE;
        return event->seq == m->after.applied_seq &&
                       memcmp(event->hash, m->after.hash, sizeof event->hash) != 0
                   ? another_event(w, event, err)
                   : EF_OK;
    }
    if (m->blocked || event->seq != m->after.applied_seq + 1) {
        out->verdict = EF__VERDICT_DEFERRED;
        (void)snprintf(text, sizeof text, "waits for seq %" PRId64 " of its stream",
                       m->after.applied_seq + 1);
        out->message = keep(w, text);
        return EF_OK;
    }
    st = fold_one(w, index, out, err);
    if (st != EF_OK)
        return st;
    m->blocked = out->verdict == EF__VERDICT_FAILED;
    if (!m->blocked)
        move_mark(m, event);
    w->applied += out->verdict == EF__VERDICT_APPLIED;
    w->ignored += out->verdict == EF__VERDICT_IGNORED;
    w->skipped += out->verdict == EF__VERDICT_SKIPPED;
    return EF_OK;
}

/* --- views in
 * ------------------------------------------------------------------------------------- */

static ef_status get_view(work *w, int64_t generation, ef_str tenant, ef_str id,
                          ef__stored_view *out, ef_error *err)
{
    ef__view view;
    bool found = false;
    ef_status st;

    ef__arena_reset(&w->loaded);
    st = w->engine->views->ops->view_get(w->engine->views, generation, tenant, id, &w->loaded,
                                         &view, &found, err);
    *out = (ef__stored_view){.found = st == EF_OK && found};
    if (out->found) {
        out->data = view.data;
        out->schema = view.schema;
    }
    return st;
}

static read_view **read_slot(work *w, ef_str tenant, ef_str id)
{
    return &w->reads[ef__xxh3(id, ef__xxh3(tenant, 1)) & (w->bucket_count - 1)];
}

static ef_status load_view(void *context, ef_str tenant, ef_str id, ef__stored_view *out,
                           ef_error *err)
{
    work *w = context;
    read_view **slot = read_slot(w, tenant, id), *r;
    ef_status st = get_view(w, w->live->generation->id, tenant, id, out, err);

    if (st != EF_OK || !out->found)
        return st;
    r = ef__arena_zalloc(&w->apply->arena, 1, sizeof *r);
    if (!r)
        return no_memory(err);
    r->tenant = ef__arena_copy(&w->apply->arena, tenant);
    r->id = ef__arena_copy(&w->apply->arena, id);
    ef__view_digest(
        &(ef__view){.tenant = tenant, .id = id, .data = out->data, .schema = (int32_t)out->schema},
        r->digest);
    r->next = *slot;
    *slot = r;
    return r->tenant.ptr && r->id.ptr ? EF_OK : no_memory(err);
}

static void digest_before(work *w, ef__view_change *change)
{
    for (const read_view *r = *read_slot(w, change->view.tenant, change->view.id); r; r = r->next)
        if (ef_str_equal(r->id, change->view.id) && ef_str_equal(r->tenant, change->view.tenant))
            memcpy(change->before, r->digest, sizeof change->before);
}

static ef_status look_up(void *context, ef_str projection, ef_str tenant, ef_str id,
                         ef__stored_view *out, ef_error *err)
{
    work *w = context;
    ef__generation_list list = {0};
    const ef__generation *g;
    ef_status st = ef__engine_routed(w->engine, projection, &list, &g, err);

    *out = (ef__stored_view){0};
    if (st == EF_OK)
        st = get_view(w, g->id, tenant, id, out, err);
    else if (st == EF_NOT_FOUND)
        st = EF_OK; /* not deployed: there is nothing to see */
    ef__room_release(&list.room);
    return st;
}

/* --- changes out
 * ----------------------------------------------------------------------------------- */

static ef_status index_keys(work *w, ef__view_change *change, ef_error *err)
{
    size_t count = ef__program_index_count(w->live->program);
    ef__index_key *keys = ef__arena_zalloc(&w->apply->arena, count + 1, sizeof *keys);
    ef__buf key = EF__BUF_INIT(2 * EF__KEY_BYTES);
    ef_status st = keys ? EF_OK : no_memory(err);

    if (st == EF_OK && count && !change->deleted)
        st = ef__match_row(w->match, change->view.id, change->view.last_position, change->view.data,
                           err);
    for (size_t i = 0; st == EF_OK && i < count && !change->deleted; i++) {
        ef__value value;
        bool cut;
        ef__buf_reset(&key);
        st = ef__match_index(w->match, w->live->program, i, &value, err);
        if (st == EF_OK)
            st = ef__sort_key(value, EF__KEY_BYTES, &key, &cut, err);
        if (st != EF_OK)
            break;
        keys[change->key_count].index = (int32_t)i;
        keys[change->key_count].key = ef__arena_copy(&w->apply->arena, ef__buf_str(&key));
        st = keys[change->key_count++].key.ptr ? EF_OK : no_memory(err);
    }
    change->keys = keys;
    ef__buf_release(&key);
    return st;
}

static int by_tenant_and_id(const void *a, const void *b)
{
    const ef__view *x = &((const ef__view_change *)a)->view,
                   *y = &((const ef__view_change *)b)->view;
    size_t n = x->tenant.len < y->tenant.len ? x->tenant.len : y->tenant.len;
    int order = n ? memcmp(x->tenant.ptr, y->tenant.ptr, n) : 0;

    if (order || x->tenant.len != y->tenant.len)
        return order ? order : x->tenant.len < y->tenant.len ? -1 : 1;
    n = x->id.len < y->id.len ? x->id.len : y->id.len;
    order = memcmp(x->id.ptr, y->id.ptr, n);
    return order ? order : (x->id.len > y->id.len) - (x->id.len < y->id.len);
}

/* What the folder changed, in the order of keys: pages of the store are visited once. */
static ef_status collect_views(work *w, ef_error *err)
{
    ef__arena *arena = &w->apply->arena;
    size_t at = 0;
    ef_status st = EF_OK;

    w->changes = ef__arena_alloc(arena, (ef__folder_changed(w->folder) + 1) * sizeof *w->changes);
    if (!w->changes)
        return no_memory(err);
    while (st == EF_OK) {
        ef__folded_view v;
        st = ef__folder_next(w->folder, &at, &v, err);
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
        digest_before(w, c);
        st = index_keys(w, c, err);
    }
    if (st == EF_OK && w->change_count)
        qsort(w->changes, w->change_count, sizeof *w->changes, by_tenant_and_id);
    return st;
}

static ef_status collect_marks(work *w, size_t *out_count, ef_error *err)
{
    size_t count = 0;

    w->marks = ef__arena_alloc(&w->apply->arena, (w->mark_count + 1) * sizeof *w->marks);
    if (!w->marks)
        return no_memory(err);
    for (size_t b = 0; b < w->bucket_count; b++)
        for (const mark *m = w->buckets[b]; m; m = m->next)
            if (m->moved)
                w->marks[count++] =
                    (ef__watermark_change){m->tenant, m->stream, m->before, m->after};
    *out_count = count;
    return EF_OK;
}

/* --- a generation
 * ----------------------------------------------------------------------------------- */

static ef_status open_work(work *w, ef_error *err)
{
    size_t events = w->apply->event_count;

    w->bucket_count = 64;
    while (w->bucket_count < events)
        w->bucket_count *= 2;
    w->buckets = ef__arena_zalloc(&w->apply->arena, w->bucket_count, sizeof *w->buckets);
    w->reads = ef__arena_zalloc(&w->apply->arena, w->bucket_count, sizeof *w->reads);
    w->failures = ef__arena_alloc(&w->apply->arena, (events + 1) * sizeof *w->failures);
    if (!w->buckets || !w->reads || !w->failures)
        return no_memory(err);
    w->loaded = (ef__arena)EF__ARENA_INIT(EF__APPLY_ARENA_MAX);
    ef_status st = ef__match_open(&w->match, err);
    return st != EF_OK ? st
                       : ef__folder_open(&(ef__folder_options){.program = w->live->program,
                                                               .load = load_view,
                                                               .lookup = look_up,
                                                               .context = w},
                                         &w->folder, err);
}

/* A log-ordered projection stops at an event it cannot digest; the cursor stays before it. */
static bool stops_here(const work *w, const ef__applied *result)
{
    return w->live->generation->by_log &&
           (result->verdict == EF__VERDICT_FAILED || result->verdict == EF__VERDICT_DEFERRED);
}

static ef_status fold_generation(work *w, ef__applied *results, ef_error *err)
{
    ef_status st = open_work(w, err);

    w->cursor_after = w->apply->cursor_after;
    for (size_t i = 0; st == EF_OK && i < w->apply->event_count; i++) {
        st = apply_one(w, i, &results[i], err);
        if (st == EF_OK && stops_here(w, &results[i])) {
            w->cursor_after = w->apply->events[i].event->position - 1;
            break;
        }
    }
    return st == EF_OK ? collect_views(w, err) : st;
}

static ef_status describe_change(work *w, ef__generation_change *out, ef_error *err)
{
    const ef__generation *g = w->live->generation;
    const ef__apply *apply = w->apply;
    size_t marks = 0;
    ef_status st = collect_marks(w, &marks, err);

    *out = (ef__generation_change){.generation = g->id,
                                   .era = g->era,
                                   .applied = w->applied,
                                   .ignored = w->ignored,
                                   .skipped = w->skipped,
                                   .views = w->changes,
                                   .view_count = w->change_count,
                                   .watermarks = w->marks,
                                   .watermark_count = marks,
                                   .failures = w->failures,
                                   .failure_count = w->failure_count};
    if (apply->moves_cursor) {
        out->cursor_before = g->position;
        out->cursor_after = w->cursor_after;
        out->go_live = apply->go_live && w->cursor_after == apply->cursor_after;
    }
    return st;
}

/* --- the batch
 * -------------------------------------------------------------------------------------- */

/* Which events are of types that are not folded. */
static ef_status read_intents(ef_engine *e, ef__apply *apply, bool **out, ef_error *err)
{
    ef_type_list types = {0};
    ef_status st = ef_type_ls(e->journal, &types, err);

    *out = ef__arena_zalloc(&apply->arena, apply->event_count + 1, sizeof **out);
    if (st == EF_OK && !*out)
        st = no_memory(err);
    for (size_t i = 0; st == EF_OK && i < types.count; i++) {
        if (types.items[i].intent == EF_INTENT_PROJECTION_AND_REPLAY)
            continue;
        for (size_t n = 0; n < apply->event_count; n++)
            if (ef_str_equal(apply->events[n].event->type, types.items[i].name))
                (*out)[n] = true;
    }
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

static ef_status commit(ef_engine *e, ef__apply *apply, const ef__generation_change *changes,
                        size_t count, ef_error *err)
{
    return e->views->ops->commit(e->views,
                                 &(ef__views_commit){.live_set = apply->live_set,
                                                     .head = read_head,
                                                     .head_context = e->journal,
                                                     .out_live = &apply->went_live,
                                                     .fences = apply->fences,
                                                     .fence_count = apply->fence_count,
                                                     .generations = changes,
                                                     .generation_count = count},
                                 err);
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

ef_status ef__apply_run(ef_engine *e, ef__apply *apply, ef_error *err)
{
    size_t generations = apply->generation_count;
    ef__generation_change *changes =
        ef__arena_zalloc(&apply->arena, generations + 1, sizeof *changes);
    work *works = ef__arena_zalloc(&apply->arena, generations + 1, sizeof *works);
    bool *not_folded = NULL;
    ef_status st;

    apply->went_live = false;
    apply->results = ef__arena_zalloc(&apply->arena, generations * apply->event_count + 1,
                                      sizeof *apply->results);
    if (!changes || !works || !apply->results)
        return no_memory(err);
    st = read_intents(e, apply, &not_folded, err);
    for (size_t g = 0; st == EF_OK && g < generations; g++) {
        works[g] = (work){
            .engine = e, .apply = apply, .live = &apply->generations[g], .not_folded = not_folded};
        st = fold_generation(&works[g], apply->results + g * apply->event_count, err);
        if (st == EF_OK)
            st = describe_change(&works[g], &changes[g], err);
    }
    if (st == EF_OK)
        st = commit(e, apply, changes, generations, err);
    if (st == EF_OK)
        add_up(apply, works);
    for (size_t g = 0; g < generations; g++) {
        ef__folder_close(works[g].folder);
        ef__match_close(works[g].match);
        ef__arena_release(&works[g].loaded);
    }
    return st;
}

void ef__apply_release(ef__apply *apply)
{
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
                           .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
        if (set.count)
            st = ef__apply_run(e, &apply, err);
        ef__apply_release(&apply);
        ef__live_set_release(&set);
    }
    free(items);
    return st;
}
