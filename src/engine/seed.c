/*
 * seed.c - a generation that begins with views that are known already.
 *
 * It is paused while it is filled, so that no driver touches it. Views come first, then how far it
 * is in each stream, and with its cursor at last it is let go: what ends before that leaves a
 * generation that queries never saw, and the run's record says which, for whoever removes it.
 */
#include "apply.h"
#include "migrate.h"
#include "run.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEED_VIEWS 500 /* at a time */
#define SEED_STREAMS 1000
#define SEED_LAST 64 /* positions that are looked back: as the cursor does (lost.c) */
#define SEED_BYTES (256ul << 20)
#define VIEW_BYTES (16ul << 20)

typedef struct seeding {
    ef_engine *engine;
    ef__driven *driven;
    const ef_seed *seed;
    ef__generation made; /* its strings are the list's */
    ef__generation_list list;
    const ef__program *program;
    ef__match *match;
    ef__arena arena; /* of the views at hand */
    ef__view_change *changes;
    size_t count;
    int64_t views; /* that were written */
} seeding;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while seeding");
}

static ef_status commit(seeding *s, const ef__generation_change *change, ef_error *err)
{
    ef__generation_change whole = *change;
    ef_status st = ef__run_take(s->driven, err); /* a large one outlives a lease: renew it */

    if (st != EF_OK)
        return st;
    whole.generation = s->made.id;
    whole.era = s->made.era;
    return s->engine->views->ops->commit(
        s->engine->views, &(ef__views_commit){.generations = &whole, .generation_count = 1}, err);
}

/* --- views ------------------------------------------------------------------------------------ */

/* Canonical, as everything that is folded is: the digest goes by the bytes. */
static ef_status canonical(seeding *s, ef_str data, ef_str *out, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(VIEW_BYTES);
    ef__json *tree = NULL;
    ef_status st = ef__json_parse(data, VIEW_BYTES, &s->arena, &tree, err);

    if (st == EF_OK && tree->kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_INPUT, "the data of a view is a JSON object");
    if (st == EF_OK && !ef__json_canonical(tree, &text))
        st = no_memory(err);
    if (st == EF_OK) {
        *out = ef__arena_copy(&s->arena, ef__buf_str(&text));
        st = out->ptr ? EF_OK : no_memory(err);
    }
    ef__buf_release(&text);
    return st;
}

static ef_status given_twice(const ef__view *view, ef_error *err)
{
    return ef_fail(err, EF_BAD_INPUT, "view \"%.*s\" of tenant \"%.*s\" is given twice",
                   EF_STR_ARG(view->id), EF_STR_ARG(view->tenant));
}

static bool is_given(const seeding *s, const ef_seed_view *view)
{
    for (size_t i = 0; i < s->count; i++)
        if (ef_str_equal(s->changes[i].view.id, view->view_id) &&
            ef_str_equal(s->changes[i].view.tenant, view->tenant))
            return true;
    return false;
}

static ef_status take_view(seeding *s, const ef_seed_view *view, ef_error *err)
{
    ef__view_change *change = &s->changes[s->count];
    ef__view *to = &change->view;
    ef_status st;

    if (view->view_id.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "a view needs an id");
    if (view->last_event_sequence < 0 || view->last_event_sequence > s->seed->position)
        return ef_fail(err, EF_BAD_INPUT,
                       "view \"%.*s\" was changed at position %" PRId64
                       ", which is not in 1 to %" PRId64,
                       EF_STR_ARG(view->view_id), view->last_event_sequence, s->seed->position);
    *change = (ef__view_change){.view = {.tenant = ef__arena_copy(&s->arena, view->tenant),
                                         .id = ef__arena_copy(&s->arena, view->view_id),
                                         .last_position = view->last_event_sequence
                                                              ? view->last_event_sequence
                                                              : s->seed->position,
                                         .schema = s->made.schema}};
    if (!to->tenant.ptr || !to->id.ptr)
        return no_memory(err);
    if (is_given(s, view))
        return given_twice(to, err);
    st = canonical(s, view->data, &to->data, err);
    if (st == EF_OK)
        st = ef__index_keys(s->program, s->match, &s->arena, change, err);
    s->count += st == EF_OK;
    return st;
}

/* Nobody else writes here: a view that is not what was read was given before. */
static ef_status write_views(seeding *s, ef_error *err)
{
    ef_status st =
        commit(s, &(ef__generation_change){.views = s->changes, .view_count = s->count}, err);

    if (st == EF_CONFLICT)
        st = ef_fail(err, EF_BAD_INPUT,
                     "a view is given twice: \"%.*s\" or one of the %zu before it",
                     EF_STR_ARG(s->changes[s->count - 1].view.id), s->count - 1);
    s->views += st == EF_OK ? (int64_t)s->count : 0;
    s->count = 0;
    ef__arena_reset(&s->arena);
    return st;
}

static ef_status load_views(seeding *s, ef_error *err)
{
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more) {
        ef_seed_view view = {0};
        st = s->seed->next(s->seed->context, &view, &more, err);
        if (st == EF_OK && more)
            st = take_view(s, &view, err);
        if (st == EF_OK && s->count && (!more || s->count == SEED_VIEWS))
            st = write_views(s, err);
    }
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

/* The last event of the stream at or below the position; seq 0 when there is none. */
static ef_status find_mark(seeding *s, const ef_stream *stream, ef__watermark *out, ef_error *err)
{
    int64_t low = 0, high = stream->seq, seq = stream->seq;
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    while (st == EF_OK && low < high) {
        st = ef_journal_read_stream(s->engine->journal, stream->tenant, stream->name, seq, 1,
                                    &batch, err);
        if (st == EF_OK && batch.count && batch.events[0].position <= s->seed->position) {
            low = seq;
            *out = (ef__watermark){.applied_seq = seq, .expected_next_seq = seq + 1};
            memcpy(out->hash, batch.events[0].hash, sizeof out->hash);
        } else
            high = seq - 1;
        seq = low + (high - low + 1) / 2;
    }
    ef_batch_release(&batch);
    return st;
}

static ef_status write_marks(seeding *s, const ef_stream_list *streams, ef_error *err)
{
    ef__watermark_change *marks = calloc(streams->count + 1, sizeof *marks);
    size_t count = 0;
    ef_status st = marks ? EF_OK : no_memory(err);

    for (size_t i = 0; st == EF_OK && i < streams->count; i++) {
        marks[count] = (ef__watermark_change){.tenant = streams->items[i].tenant,
                                              .stream = streams->items[i].name};
        st = find_mark(s, &streams->items[i], &marks[count].after, err);
        count += marks[count].after.applied_seq > 0;
    }
    if (st == EF_OK && count)
        st =
            commit(s, &(ef__generation_change){.watermarks = marks, .watermark_count = count}, err);
    free(marks);
    return st;
}

/* Where seqs are positions, a stream that has no mark begins with whatever comes next. One is
 * needed still: that of the last event at or below the position, by which the cursor knows its
 * journal. */
static ef_status load_last_mark(seeding *s, ef_error *err)
{
    int64_t position = s->seed->position;
    ef_batch batch = EF_BATCH_INIT;
    const ef_event *last = NULL;
    ef_status st = ef_journal_read_log(
        s->engine->journal,
        &(ef_log_query){.any_tenant = true,
                        .after = position > SEED_LAST ? position - SEED_LAST : 0,
                        .limit = SEED_LAST},
        &batch, err);

    for (size_t i = 0; st == EF_OK && i < batch.count; i++)
        if (batch.events[i].position <= position)
            last = &batch.events[i];
    if (last) {
        ef__watermark_change mark = {
            .tenant = last->tenant,
            .stream = last->stream,
            .after = {.applied_seq = last->seq, .expected_next_seq = last->seq + 1}};
        memcpy(mark.after.hash, last->hash, sizeof mark.after.hash);
        st = commit(s, &(ef__generation_change){.watermarks = &mark, .watermark_count = 1}, err);
    }
    ef_batch_release(&batch);
    return st;
}

static ef_status load_marks(seeding *s, ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    ef_stream_list streams = {0};
    ef_status st;

    if (ef__journal_is_sparse(s->engine->journal))
        return load_last_mark(s, err);
    do {
        st = ef_stream_ls(s->engine->journal, (ef_str){0}, true, ef_str_from(after), SEED_STREAMS,
                          &streams, err);
        if (st == EF_OK)
            st = write_marks(s, &streams, err);
        memcpy(after, streams.next, sizeof after);
    } while (st == EF_OK && after[0]);
    ef_stream_list_release(&streams);
    return st;
}

/* --- the generation --------------------------------------------------------------------------- */

static ef_status make(seeding *s, ef__driven *d, ef_error *err)
{
    ef_views *views = s->engine->views;
    const ef__generation *routed = NULL;
    ef__generation made;
    int64_t highest = 0, id;
    ef_status st = ef__generations_read(s->engine, s->seed->projection, &s->list, err);

    for (size_t i = 0; st == EF_OK && i < s->list.count; i++) {
        routed = s->list.items[i].routed ? &s->list.items[i] : routed;
        highest = s->list.items[i].number > highest ? s->list.items[i].number : highest;
    }
    if (st == EF_OK && !routed)
        st = ef_fail(err, EF_NOT_FOUND, "queries for \"%.*s\" go nowhere",
                     EF_STR_ARG(s->seed->projection));
    if (st == EF_OK)
        st = ef__generation_is_whole(s->engine, routed, err);
    if (st != EF_OK)
        return st;
    d->detail.generation = routed->number;
    d->detail.built = highest + 1;
    if ((st = ef__run_save(d, err)) != EF_OK)
        return st;
    made = *routed;
    made.number = (int32_t)d->detail.built;
    made.state = EF__GENERATION_PAUSED;
    made.routed = false;
    made.position = made.seam = made.created_us = 0;
    st = views->ops->generation_add(views, &made, &id, err);
    if (st == EF_OK)
        st = ef__generations_read(s->engine, s->seed->projection, &s->list, err);
    for (size_t i = 0; st == EF_OK && i < s->list.count; i++)
        if (s->list.items[i].id == id)
            s->made = s->list.items[i];
    if (st == EF_OK)
        st = ef__engine_program(s->engine, &s->made, &s->program, err);
    return st;
}

/* The events up to the position are in it, as far as the accounts go. */
static ef_status let_go(seeding *s, ef_error *err)
{
    ef_views *views = s->engine->views;
    ef_status st = EF_OK;

    if (s->seed->position)
        st = commit(s,
                    &(ef__generation_change){.cursor_before = s->made.position,
                                             .cursor_after = s->seed->position,
                                             .applied = s->seed->position},
                    err);
    return st == EF_OK ? views->ops->generation_set_state(views, s->made.id, 0,
                                                          EF__GENERATION_CATCHING_UP, err)
                       : st;
}

static ef_status fill(ef__driven *d, const ef_seed *seed, ef_error *err)
{
    seeding s = {
        .engine = d->engine, .driven = d, .seed = seed, .arena = EF__ARENA_INIT(SEED_BYTES)};
    ef_status st = make(&s, d, err);

    s.changes = calloc(SEED_VIEWS, sizeof *s.changes);
    if (st == EF_OK && !s.changes)
        st = no_memory(err);
    if (st == EF_OK)
        st = ef__match_open(&s.match, err);
    if (st == EF_OK)
        st = load_views(&s, err);
    if (st == EF_OK)
        st = load_marks(&s, err);
    if (st == EF_OK)
        st = let_go(&s, err);
    d->run.processed = d->detail.views = s.views;
    d->run.last_position = seed->position;
    ef__match_close(s.match);
    free(s.changes);
    ef__arena_release(&s.arena);
    ef__generation_list_release(&s.list);
    return st;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* The end of it is written whatever it is; the first failure is the one that is told. */
static ef_status drive(ef__driven *d, const ef_seed *seed, ef_error *err)
{
    ef_error later = EF_ERROR_INIT, why = EF_ERROR_INIT;
    ef_status st, end;

    d->run.state = EF_RUN_RUNNING;
    st = ef__run_save(d, &why);
    if (st == EF_OK)
        st = fill(d, seed, &why);
    d->run.state = st == EF_OK ? EF_RUN_COMPLETED : EF_RUN_FAILED;
    d->run.error = ef_str_from(why.text);
    end = st == EF_OK ? EF_OK : ef__rebuild_undo(d, &later);
    if (end == EF_OK)
        end = ef__run_save(d, &later);
    if (err && (st != EF_OK || end != EF_OK))
        *err = st != EF_OK ? why : later;
    return st != EF_OK ? st : end;
}

static ef_status check(ef_engine *e, const ef_seed *seed, ef_error *err)
{
    ef_head head;
    ef_status st;

    if (!e || !seed || !seed->next)
        return ef_fail(err, EF_BAD_INPUT, "engine, seed or next is NULL");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef_journal_head(e->journal, &head, err);
    if (st == EF_OK && (seed->position < 0 || seed->position > head.position))
        st = ef_fail_numbers(err, EF_BAD_INPUT, seed->position, head.position,
                             "position %" PRId64 " is not in 0 to %" PRId64 ", the journal's head",
                             seed->position, head.position);
    return st;
}

/* The lease is taken before the run is filed: a worker would think that nobody drives it. */
ef_status ef_projection_seed(ef_engine *e, const ef_seed *seed, ef_run_list *out, ef_error *err)
{
    ef_run_list filed = {0};
    ef__generation_list known = {0};
    ef_status st = out ? check(e, seed, err) : ef_fail(err, EF_BAD_INPUT, "out is NULL");

    if (st != EF_OK)
        return st;
    ef__driven d = {.engine = e,
                    .run = {.mode = EF_RUN_SEED,
                            .projection = seed->projection,
                            .total = -1,
                            .reason = seed->reason,
                            .requester = seed->who}};
    pthread_mutex_lock(&e->driving);
    st = ef__generations_read(e, seed->projection, &known, err);
    ef__generation_list_release(&known);
    if (st == EF_OK)
        st = ef__run_take(&d, err);
    if (st == EF_OK)
        st = ef__run_file(e, &d.run, &d.detail, &filed, err);
    if (st == EF_OK) {
        d.run = filed.items[0];
        st = drive(&d, seed, err);
    }
    ef__run_leave(e);
    pthread_mutex_unlock(&e->driving);
    if (st == EF_OK)
        st = ef_run_get(e->journal, filed.items[0].id, out, err);
    ef_run_list_release(&filed);
    return st;
}
