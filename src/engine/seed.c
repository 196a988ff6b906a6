/*
 * seed.c - a generation that starts with given views.
 *
 * It is paused while it is filled, so that no driver writes to it. Views are written first, then
 * watermarks, and the cursor last, in the step that starts it. A crash before that leaves a
 * generation that was never active; the run's record names it, for its removal.
 */
#include "apply.h"
#include "scope.h"
#include "run.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define SEED_VIEWS 500 /* per commit */
#define SEED_STREAMS 1000
#define SEED_LAST 64 /* positions before the cursor that are read: as in gaps.c */
#define SEED_BYTES (256ul << 20)
#define VIEW_BYTES (16ul << 20)

typedef struct seed_run {
    ef_engine *engine;
    ef__run_drive *driven;
    const ef_seed *seed;
    ef__generation made; /* its strings are owned by the list */
    ef__generation_list list;
    const ef__program *program;
    ef__match *match;
    ef__arena arena; /* of the current views */
    ef__view_change *changes;
    size_t count;
    int64_t views; /* written so far */
} seed_run;

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out while seeding");
}

static ef_status commit_views(seed_run *seeding, const ef__generation_change *change, ef_error *err)
{
    ef_status st = ef__run_claim(seeding->driven, err); /* a large seed outlasts a lease: renew */

    return st == EF_OK ? ef__generation_commit(seeding->engine, &seeding->made, *change, err) : st;
}

/* --- views ------------------------------------------------------------------------------------ */

/* Canonical JSON, like every folded view: the digest is over the bytes. */
static ef_status make_canonical(seed_run *seeding, ef_str data, ef_str *out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(VIEW_BYTES);
    ef__json *tree = NULL;
    ef_status st = ef__json_parse(data, VIEW_BYTES, &seeding->arena, &tree, err);

    if (st == EF_OK && tree->kind != EF__JSON_OBJECT)
        st = ef_fail(err, EF_BAD_INPUT, "the data of a view must be a JSON object");
    if (st == EF_OK && !ef__json_canonical(tree, &text))
        st = no_memory(err);
    if (st == EF_OK) {
        *out = ef__arena_copy(&seeding->arena, ef__buf_str(&text));
        st = out->ptr ? EF_OK : no_memory(err);
    }
    return st;
}

static bool is_given(const seed_run *seeding, const ef_seed_view *view)
{
    for (size_t i = 0; i < seeding->count; i++)
        if (ef_str_equal(seeding->changes[i].view.id, view->view_id) &&
            ef_str_equal(seeding->changes[i].view.tenant, view->tenant))
            return true;
    return false;
}

static ef_status add_view(seed_run *seeding, const ef_seed_view *view, ef_error *err)
{
    ef__view_change *change = &seeding->changes[seeding->count];
    ef__view *to = &change->view;
    ef_status st;

    if (view->view_id.len == 0)
        return ef_fail(err, EF_BAD_INPUT, "a view needs an id");
    if (view->last_event_sequence < 0 || view->last_event_sequence > seeding->seed->position)
        return ef_fail(
            err, EF_BAD_INPUT,
            "view \"%.*s\" was changed at position %" PRId64 ", which is not in 1 to %" PRId64,
            EF_STR_ARG(view->view_id), view->last_event_sequence, seeding->seed->position);
    *change = (ef__view_change){.view = {.tenant = ef__arena_copy(&seeding->arena, view->tenant),
                                         .id = ef__arena_copy(&seeding->arena, view->view_id),
                                         .last_position = view->last_event_sequence
                                                              ? view->last_event_sequence
                                                              : seeding->seed->position,
                                         .schema = seeding->made.schema}};
    if (!to->tenant.ptr || !to->id.ptr)
        return no_memory(err);
    if (is_given(seeding, view))
        return ef_fail(err, EF_BAD_INPUT, "view \"%.*s\" of tenant \"%.*s\" is given twice",
                       EF_STR_ARG(to->id), EF_STR_ARG(to->tenant));
    st = make_canonical(seeding, view->data, &to->data, err);
    if (st == EF_OK)
        st = ef__index_keys(seeding->program, seeding->match, &seeding->arena, change, err);
    seeding->count += st == EF_OK;
    return st;
}

/* No other process writes here: a view that exists was given twice. */
static ef_status write_views(seed_run *seeding, ef_error *err)
{
    ef_status st = commit_views(
        seeding, &(ef__generation_change){.views = seeding->changes, .view_count = seeding->count},
        err);

    if (st == EF_CONFLICT)
        st = ef_fail(err, EF_BAD_INPUT,
                     "a view is given twice: \"%.*s\" or one of the %zu before it",
                     EF_STR_ARG(seeding->changes[seeding->count - 1].view.id), seeding->count - 1);
    seeding->views += st == EF_OK ? (int64_t)seeding->count : 0;
    seeding->count = 0;
    ef__arena_reset(&seeding->arena);
    return st;
}

static ef_status load_views(seed_run *seeding, ef_error *err)
{
    bool more = true;
    ef_status st = EF_OK;

    while (st == EF_OK && more) {
        ef_seed_view view = {0};
        st = seeding->seed->next(seeding->seed->context, &view, &more, err);
        if (st == EF_OK && more)
            st = add_view(seeding, &view, err);
        if (st == EF_OK && seeding->count && (!more || seeding->count == SEED_VIEWS))
            st = write_views(seeding, err);
    }
    return st;
}

/* --- streams ---------------------------------------------------------------------------------- */

/* The last event of the stream at or below the position; seq 0: none. */
static ef_status find_watermark(seed_run *seeding, const ef_stream *stream, ef__watermark *out,
                                ef_error *err)
{
    int64_t low = 0, high = stream->seq, seq = stream->seq;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = EF_OK;

    while (st == EF_OK && low < high) {
        st = ef_journal_read_stream(seeding->engine->journal, stream->tenant, stream->name, seq, 1,
                                    &batch, err);
        if (st == EF_OK && batch.count && batch.events[0].position <= seeding->seed->position) {
            low = seq;
            *out = (ef__watermark){.applied_seq = seq, .expected_next_seq = seq + 1};
            memcpy(out->hash, batch.events[0].hash, sizeof out->hash);
        } else
            high = seq - 1;
        seq = low + (high - low + 1) / 2;
    }
    return st;
}

static ef_status write_marks(seed_run *seeding, const ef_stream_list *streams, ef_error *err)
{
    ef__watermark_change *marks = calloc(streams->count + 1, sizeof *marks);
    size_t count = 0;
    ef_status st = marks ? EF_OK : no_memory(err);

    for (size_t i = 0; st == EF_OK && i < streams->count; i++) {
        marks[count] = (ef__watermark_change){.tenant = streams->items[i].tenant,
                                              .stream = streams->items[i].name};
        st = find_watermark(seeding, &streams->items[i], &marks[count].after, err);
        count += marks[count].after.applied_seq > 0;
    }
    if (st == EF_OK && count)
        st = commit_views(
            seeding, &(ef__generation_change){.watermarks = marks, .watermark_count = count}, err);
    free(marks);
    return st;
}

/* Where seqs are positions, a stream without a watermark starts with the next event. One watermark
 * is needed all the same: that of the last event at or below the position, by which the cursor is
 * checked against the journal. */
static ef_status load_last_watermark(seed_run *seeding, ef_error *err)
{
    int64_t position = seeding->seed->position;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    const ef_event *last = NULL;
    ef_status st = ef_journal_read_log(
        seeding->engine->journal,
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
        st = commit_views(seeding,
                          &(ef__generation_change){.watermarks = &mark, .watermark_count = 1}, err);
    }
    return st;
}

static ef_status load_marks(seed_run *seeding, ef_error *err)
{
    char after[EF_CURSOR_MAX] = "";
    EF__AUTO(ef_stream_list) streams = {0};
    ef_status st;

    if (ef__journal_is_sparse(seeding->engine->journal))
        return load_last_watermark(seeding, err);
    do {
        st = ef_stream_ls(seeding->engine->journal, (ef_str){0}, true, ef_str_from(after),
                          SEED_STREAMS, &streams, err);
        if (st == EF_OK)
            st = write_marks(seeding, &streams, err);
        memcpy(after, streams.next, sizeof after);
    } while (st == EF_OK && after[0]);
    return st;
}

/* --- the generation --------------------------------------------------------------------------- */

static ef_status create_generation(seed_run *seeding, ef__run_drive *drive, ef_error *err)
{
    ef_engine *engine = seeding->engine;
    const ef__generation *active = NULL, *made;
    int64_t id;
    ef_status st = ef__generations_read(engine, seeding->seed->projection, &seeding->list, err);

    if (st == EF_OK && !(active = ef__generation_active(&seeding->list)))
        st = ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no active generation",
                     EF_STR_ARG(seeding->seed->projection));
    if (st == EF_OK)
        st = ef__generation_check_migrated(engine, active, err);
    if (st != EF_OK)
        return st;
    drive->detail.generation = active->number;
    drive->detail.built = ef__generation_highest(&seeding->list) + 1;
    st = ef__run_save(drive, err);
    if (st == EF_OK)
        st = ef__generation_add_build(engine, active, drive->detail.built, EF__GENERATION_PAUSED,
                                      &id, err);
    if (st == EF_OK)
        st = ef__generations_read(engine, seeding->seed->projection, &seeding->list, err);
    if (st != EF_OK)
        return st;
    made = ef__generation_number(&seeding->list, drive->detail.built);
    assert(made);
    seeding->made = *made;
    return ef__engine_program(engine, &seeding->made, &seeding->program, err);
}

/* Sets counts and cursor, starts the generation: events up to the position count as applied. */
static ef_status start_generation(seed_run *seeding, ef_error *err)
{
    ef_views *views = seeding->engine->views;
    ef_status st = EF_OK;

    if (seeding->seed->position)
        st = commit_views(seeding,
                          &(ef__generation_change){.cursor_before = seeding->made.position,
                                                   .cursor_after = seeding->seed->position,
                                                   .applied = seeding->seed->position},
                          err);
    return st == EF_OK ? views->ops->generation_change(views, seeding->made.id, 0,
                                                       EF__GENERATION_CATCHING_UP, NULL, err)
                       : st;
}

static ef_status fill_generation(ef__run_drive *drive, const ef_seed *seed, ef_error *err)
{
    seed_run seeding = {.engine = drive->engine,
                        .driven = drive,
                        .seed = seed,
                        .arena = EF__ARENA_INIT(SEED_BYTES)};
    ef_status st = create_generation(&seeding, drive, err);

    seeding.changes = calloc(SEED_VIEWS, sizeof *seeding.changes);
    if (st == EF_OK && !seeding.changes)
        st = no_memory(err);
    if (st == EF_OK)
        st = ef__match_open(&seeding.match, err);
    if (st == EF_OK)
        st = load_views(&seeding, err);
    if (st == EF_OK)
        st = load_marks(&seeding, err);
    if (st == EF_OK)
        st = start_generation(&seeding, err);
    drive->run.processed = drive->detail.views = seeding.views;
    drive->run.last_position = seed->position;
    ef__match_close(seeding.match);
    free(seeding.changes);
    ef__arena_release(&seeding.arena);
    EF_RELEASE(&seeding.list);
    return st;
}

/* --- the run ---------------------------------------------------------------------------------- */

/* The end of the run is stored in any case; the first failure is returned. */
static ef_status drive_seed(ef__run_drive *d, const ef_seed *seed, ef_error *err)
{
    ef_error later = EF_ERROR_INIT, why = EF_ERROR_INIT;
    ef_status st, end;

    d->run.state = EF_RUN_RUNNING;
    st = ef__run_save(d, &why);
    if (st == EF_OK)
        st = fill_generation(d, seed, &why);
    d->run.state = st == EF_OK ? EF_RUN_COMPLETED : EF_RUN_FAILED;
    d->run.error = ef_str_from(why.text);
    end = st == EF_OK ? EF_OK : ef__rebuild_undo(d, &later);
    if (end == EF_OK)
        end = ef__run_save(d, &later);
    if (err && (st != EF_OK || end != EF_OK))
        *err = st != EF_OK ? why : later;
    return st != EF_OK ? st : end;
}

static ef_status check_seed(ef_engine *engine, const ef_seed *seed, ef_error *err)
{
    ef_head head;
    ef_status st;

    if (!engine || !seed || !seed->next)
        return ef_fail(err, EF_BAD_INPUT, "engine, seed or next is NULL");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef_journal_head(engine->journal, &head, err);
    if (st == EF_OK && (seed->position < 0 || seed->position > head.position))
        st = ef_fail_numbers(err, EF_BAD_INPUT, seed->position, head.position,
                             "position %" PRId64 " is not in 0 to %" PRId64 ", the journal's head",
                             seed->position, head.position);
    return st;
}

/* The lease is acquired before the run is added: otherwise a worker would claim the run. */
ef_status ef_projection_seed(ef_engine *engine, const ef_seed *seed, ef_run_list *out,
                             ef_error *err)
{
    EF__AUTO(ef_run_list) filed = {0};
    EF__AUTO(ef__generation_list) known = {0};
    ef_status st = out ? check_seed(engine, seed, err) : ef_fail(err, EF_BAD_INPUT, "out is NULL");

    if (st != EF_OK)
        return st;
    ef__run_drive d = {.engine = engine,
                       .run = {.mode = EF_RUN_SEED,
                               .projection = seed->projection,
                               .total = -1,
                               .reason = seed->reason,
                               .requester = seed->actor}};
    pthread_mutex_lock(&engine->runs.lock);
    st = ef__generations_read(engine, seed->projection, &known, err);
    if (st == EF_OK)
        st = ef__run_claim(&d, err);
    if (st == EF_OK)
        st = ef__run_file(engine, &d.run, &d.detail, &filed, err);
    if (st == EF_OK) {
        d.run = filed.items[0];
        st = drive_seed(&d, seed, err);
    }
    ef__run_leave(engine);
    pthread_mutex_unlock(&engine->runs.lock);
    if (st == EF_OK)
        st = ef_run_ls(engine->journal, &(ef_run_query){.id = &filed.items[0].id}, out, err);
    return st;
}
