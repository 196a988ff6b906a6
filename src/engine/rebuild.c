/*
 * rebuild.c - runs that fold all events from scratch: a rebuild, whose generation becomes the
 * active one, and a verification, whose generation is compared and removed.
 *
 * The new generation is built beside the active one and catches up by its cursor like any other, so
 * live work continues and no event is missed or applied twice when it goes live. Its number is
 * stored in the run before the generation is created: a worker that takes the run over finds the
 * generation by that number. The states of a run are drawn in run.h.
 *
 * In place, the new generation becomes active as soon as it exists, and the old one is retired:
 * queries read the views that are built so far.
 */
#include "queue.h"
#include "lag.h"
#include "read.h"
#include "run.h"
#include "scope.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../journal/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXAMPLES_MAX 10

typedef struct rebuild_pair {
    ef__generation_list list;
    const ef__generation *active;
    const ef__generation *built;   /* of this run; NULL before it is created */
    const ef__generation *retired; /* of this run, being removed; NULL: none */
} rebuild_pair;

/* Changes the state of a run in memory; ef__run_save stores it. A step that is repeated sets the
 * later states again. */
static void move_state(ef__run_drive *drive, ef__rebuild_state to)
{
    static const ef__rebuild_state BEFORE[] = {[EF__REBUILD_RESERVED] = EF__REBUILD_REQUESTED,
                                               [EF__REBUILD_REPLACED] = EF__REBUILD_RESERVED,
                                               [EF__REBUILD_COMPARED] = EF__REBUILD_RESERVED,
                                               [EF__REBUILD_SWITCHED] = EF__REBUILD_COMPARED,
                                               [EF__REBUILD_ADOPTED] = EF__REBUILD_RESERVED};
    ef__rebuild_state from = drive->detail.rebuild;

    assert(to != EF__REBUILD_REQUESTED);
    assert(from == BEFORE[to] || (from == to && to != EF__REBUILD_RESERVED));
    drive->detail.rebuild = to;
}

/* The new generation is active: this run is done. */
static void move_to_active(ef__run_drive *drive)
{
    bool is_compared = drive->detail.rebuild == EF__REBUILD_COMPARED ||
                       drive->detail.rebuild == EF__REBUILD_SWITCHED;

    move_state(drive, is_compared ? EF__REBUILD_SWITCHED : EF__REBUILD_ADOPTED);
}

/* --- finding the generations ------------------------------------------------------------------ */

static ef_status read_builds(ef__run_drive *drive, rebuild_pair *out, ef_error *err)
{
    ef_status st = ef__generations_read(drive->engine, drive->run.projection, &out->list, err);

    out->active = st == EF_OK ? ef__generation_active(&out->list) : NULL;
    out->built = out->retired = NULL;
    if (st == EF_OK && !out->active)
        st = ef_fail(err, EF_NOT_FOUND, "projection \"%.*s\" has no active generation: deploy it",
                     EF_STR_ARG(drive->run.projection));
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++) {
        const ef__generation *generation = &out->list.items[i];
        bool is_retired = generation->state == EF__GENERATION_RETIRED;
        /* Another program may have been deployed under the reserved number. */
        if (generation->number == drive->detail.built &&
            generation->version == out->active->version)
            *(is_retired ? &out->retired : &out->built) = generation;
    }
    if (st == EF_OK && ef__c_function_missing(drive->engine, out->active))
        st = ef_fail(err, EF_UNSUPPORTED,
                     "projection \"%.*s\" is written in C, and its function is not registered in "
                     "this process",
                     EF_STR_ARG(drive->run.projection));
    return st;
}

/* --- creating the new generation -------------------------------------------------------------- */

static ef_status create_generation(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    int64_t number = ef__generation_highest(&builds->list) + 1, id;
    ef_status st;

    if (drive->detail.rebuild == EF__REBUILD_REQUESTED) {
        drive->detail.generation = builds->active->number;
        move_state(drive, EF__REBUILD_RESERVED);
    }
    if (drive->detail.built !=
        number) { /* none is reserved, or another one was created or removed */
        drive->detail.built = number;
        return ef__run_save(drive, err);
    }
    st = ef__generation_add_build(drive->engine, builds->active, number, EF__GENERATION_CATCHING_UP,
                                  &id, err);
    ef__journal_wake(drive->engine->journal); /* for the cursor driver */
    return st;
}

/* In place. Each of the two writes is checked before it is made, so that a worker that takes the
 * run over does what is missing. Once the state is stored, an operator's switch is not undone. */
static ef_status replace_active(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_views *views = drive->engine->views;
    const ef__generation *old = ef__generation_number(&builds->list, drive->detail.generation);
    ef_status st = EF_OK;

    if (!builds->built->active) {
        /* A rollback skips the generation that this run retires. */
        st = views->ops->generation_activate(views, builds->built->id, builds->built->era,
                                             builds->active->replaced, err);
        ef__read_targets_invalidate(drive->engine);
        return st;
    }
    if (old && old != builds->built && old->state != EF__GENERATION_RETIRED)
        st = ef__generation_set_state(drive->engine, old, EF__GENERATION_RETIRED, err);
    ef__journal_wake(drive->engine->journal); /* for the removal of the old one */
    move_state(drive, EF__REBUILD_REPLACED);
    return st == EF_OK ? ef__run_save(drive, err) : st;
}

/* --- progress --------------------------------------------------------------------------------- */

static ef_status update_progress(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(drive->engine->journal, &head, err);

    if (st != EF_OK)
        return st;
    drive->idle = drive->run.last_position == builds->built->position && drive->run.total >= 0;
    drive->tick->run_events += builds->built->position - drive->run.last_position;
    drive->run.last_position = drive->run.processed = builds->built->position;
    drive->run.total = head.position;
    return EF_OK;
}

/* The new generation is live: all events are processed. */
static ef_status complete_progress(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_status st = update_progress(drive, builds, err);

    if (st == EF_OK) {
        drive->run.processed = drive->run.last_position = drive->run.total;
        drive->idle = false;
    }
    return st;
}

/* Has the projection's lane a row that is due? */
static ef_status lane_is_due(ef__run_drive *drive, const rebuild_pair *builds, bool *out,
                             ef_error *err)
{
    ef_outbox_summary summary = {0};
    ef_status st = ef_outbox_summarise(
        drive->engine->journal, &(ef_outbox_query){.lane = builds->built->name, .any_tenant = true},
        &summary, err);

    *out = st == EF_OK && summary.oldest.count &&
           summary.oldest.items[0].next_attempt_us <= ef__engine_now(drive->engine);
    EF_RELEASE(&summary.oldest);
    return st == EF_NOT_FOUND ? EF_OK : st; /* the lane has no row yet */
}

/* Has the queue applied to the active generation all that the new one had when it went live? */
static ef_status queue_is_past(ef__run_drive *drive, const rebuild_pair *builds, bool *out,
                               ef_error *err)
{
    ef_row oldest;
    ef_status st = ef__lane_first_row(drive->engine, EF_STR(EF_LANE_APPLY), 0, &oldest, err);

    *out = st == EF_OK && (!oldest.position || oldest.position > builds->built->seam);
    return st;
}

/*
 * Do both generations have the same events? From then on the queue applies each batch to both in
 * one transaction, so they can be compared at any moment; log-ordered ones whenever their cursors
 * are equal.
 */
static ef_status is_level(ef__run_drive *drive, const rebuild_pair *builds, bool *out,
                          ef_error *err)
{
    bool due = false;
    bool filed;
    ef_status st;

    *out = false;
    if (builds->active->state == EF__GENERATION_CATCHING_UP ||
        builds->active->state == EF__GENERATION_PAUSED)
        return EF_OK; /* compared when it is live again */
    if (builds->built->by_log)
        return ef__tenants_are_level(drive->engine, builds->built, builds->active, out, err);
    st = queue_is_past(drive, builds, out, err);
    if (st == EF_OK && *out) {
        st = ef__gaps_add_rows(drive->engine, builds->built, &filed, err);
        *out = filed;
    }
    if (st == EF_OK && *out)
        st = lane_is_due(drive, builds, &due, err);
    *out = *out && !due;
    return st;
}

/* --- comparing -------------------------------------------------------------------------------- */

typedef struct drift_examples {
    ef__buf text;
    ef__json_writer writer;
    int count;
} drift_examples;

static bool add_example(void *context, const ef_difference *difference)
{
    drift_examples *examples = context;

    if (examples->count++ < EXAMPLES_MAX) {
        ef__json_open(&examples->writer, '{');
        ef__json_member_str(&examples->writer, "tenant", difference->tenant);
        ef__json_member_str(&examples->writer, "view_id", difference->view_id);
        ef__json_close(&examples->writer, '}');
    }
    return true;
}

static ef_status compare_views(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    drift_examples examples = {.text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES / 2)};
    ef_diff diff;
    ef_status st;

    examples.writer = (ef__json_writer)EF__JSON_WRITER(&examples.text);
    ef__json_open(&examples.writer, '[');
    st = ef__generations_compare(drive->engine, builds->active, builds->built, add_example,
                                 &examples, &diff, err);
    ef__json_close(&examples.writer, ']');
    if (st == EF_BLOCKED) { /* a retry, a requeue or a skip may unblock it: the run tries again */
        st = EF_BUSY;
        if (err)
            err->status = st;
    }
    if (st == EF_OK) {
        move_state(drive, EF__REBUILD_COMPARED);
        drive->detail.views = diff.views;
        drive->detail.differences = diff.left_only + diff.right_only + diff.different;
        if (drive->detail.differences && !examples.text.failed)
            drive->detail.examples = ef__arena_copy(&drive->arena, ef__buf_str(&examples.text));
    }
    ef__buf_release(&examples.text);
    return st;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The views differ from those of the active generation. Which ones are right is an operator's
 * decision, so the new generation stays beside the active one. */
static ef_status report_drift(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    char text[200];

    (void)snprintf(text, sizeof text,
                   "%" PRId64 " of %" PRId64
                   " views differ from those of generation %d: generation "
                   "%d is complete, and was not made active",
                   drive->detail.differences, drive->detail.views, (int)builds->active->number,
                   (int)builds->built->number);
    drive->run.error = ef__arena_copy(&drive->arena, ef_str_from(text));
    return drive->run.error.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out in a run");
}

static bool may_switch(const ef__run_drive *drive)
{
    return !drive->detail.in_place && !drive->detail.no_switch &&
           (drive->detail.differences == 0 || drive->detail.switch_anyway);
}

static ef_status finish_rebuild(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_status st = drive->detail.in_place
                       ? ef__lane_sweep(drive->engine, drive->run.projection, err)
                       : compare_views(drive, builds, err);

    if (st == EF_OK && !may_switch(drive) && drive->detail.differences)
        st = report_drift(drive, builds, err);
    if (st == EF_OK && may_switch(drive)) {
        st = ef__generation_activate(drive->engine, builds->active, builds->built, "switch",
                                     drive->run.requester, drive->run.reason, err);
        if (st == EF_OK)
            move_state(drive, EF__REBUILD_SWITCHED);
    }
    if (st == EF_OK)
        drive->run.state = EF_RUN_COMPLETED;
    return st;
}

/* Retired first, so that no worker writes to it while its views are removed in slices. */
static ef_status remove_built(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    bool more;
    ef_status st;

    if (!builds->built || builds->built->active)
        return EF_OK;
    st = ef__generation_set_state(drive->engine, builds->built, EF__GENERATION_RETIRED, err);
    return st == EF_OK ? ef__generation_sweep(drive->engine, builds->built, builds->built->era + 1,
                                              &more, err)
                       : st;
}

/* The result is stored before the generation is removed: a worker that takes the run over from here
 * could not compare again. */
static ef_status finish_verify(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_status st =
        drive->detail.rebuild == EF__REBUILD_COMPARED ? EF_OK : compare_views(drive, builds, err);

    if (st == EF_OK)
        st = ef__run_save(drive, err);
    return st == EF_OK ? remove_built(drive, builds, err) : st;
}

/* The side build is removed before the run ends. */
static ef_status remove_side_build(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    bool more = false;
    ef_status st = EF_OK;

    if (builds->retired)
        st = ef__generation_sweep(drive->engine, builds->retired, builds->retired->era, &more, err);
    if (st == EF_OK && !more)
        drive->run.state = EF_RUN_COMPLETED;
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* All but the last write of the run was done, by this run or by an operator. */
static ef_status complete_active(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    ef_status st = complete_progress(drive, builds, err);

    if (st == EF_OK) {
        move_to_active(drive);
        drive->run.state = EF_RUN_COMPLETED;
    }
    return st;
}

/* The new generation exists. */
static ef_status step_built(ef__run_drive *drive, const rebuild_pair *builds, ef_error *err)
{
    const ef__generation *built = builds->built;
    bool even = false;
    ef_status st;

    if (built->state == EF__GENERATION_CATCHING_UP)
        return update_progress(drive, builds, err);
    if (built->state != EF__GENERATION_LIVE) {
        drive->idle = built->state == EF__GENERATION_PAUSED;
        return drive->idle
                   ? EF_OK
                   : ef_fail(err, EF_UNSUPPORTED, "generation %d of projection \"%.*s\" has failed",
                             (int)built->number, EF_STR_ARG(drive->run.projection));
    }
    st = complete_progress(drive, builds, err);
    if (st == EF_OK)
        st = drive->detail.in_place ? ef__gaps_add_rows(drive->engine, built, &even, err)
                                    : is_level(drive, builds, &even, err);
    if (st == EF_OK && !even)
        drive->idle = !drive->engine->runs.gap_pass.generation;
    if (st != EF_OK || !even)
        return st;
    return drive->run.mode == EF_RUN_VERIFY ? finish_verify(drive, builds, err)
                                            : finish_rebuild(drive, builds, err);
}

static ef_status step_rebuild(ef__run_drive *drive, rebuild_pair *builds, ef_error *err)
{
    bool is_verify = drive->run.mode == EF_RUN_VERIFY, in_place = drive->detail.in_place;
    bool migrates = false;

    /* The run waits while the views of the active generation are migrated: its era changes. */
    if (builds->active->state == EF__GENERATION_CATCHING_UP) {
        ef_status st = ef__generation_migrates(drive->engine, builds->active, &migrates, err);
        drive->idle = migrates;
        if (st != EF_OK || migrates)
            return st;
    }
    if (is_verify && drive->detail.rebuild == EF__REBUILD_COMPARED && !builds->built)
        return remove_side_build(drive, builds, err);
    if (!is_verify && !in_place && builds->built && builds->built->active)
        return complete_active(drive, builds, err);
    if (!builds->built)
        return create_generation(drive, builds, err);
    if (in_place && drive->detail.rebuild != EF__REBUILD_REPLACED)
        return replace_active(drive, builds, err);
    return step_built(drive, builds, err);
}

ef_status ef__rebuild_step(ef__run_drive *drive, ef_error *err)
{
    rebuild_pair builds = {0};
    ef_status st = read_builds(drive, &builds, err);

    if (st == EF_OK)
        st = step_rebuild(drive, &builds, err);
    EF_RELEASE(&builds.list);
    return st;
}

ef_status ef__rebuild_is_done(ef__run_drive *drive, bool *out, ef_error *err)
{
    rebuild_pair builds = {0};
    ef_status st;

    *out = false;
    if (drive->run.mode != EF_RUN_REBUILD || drive->detail.rebuild == EF__REBUILD_REQUESTED ||
        drive->detail.in_place)
        return EF_OK;
    st = read_builds(drive, &builds, err);
    *out = st == EF_OK && builds.built && builds.built->active;
    if (*out)
        move_to_active(drive);
    EF_RELEASE(&builds.list);
    return st == EF_NOT_FOUND || st == EF_UNSUPPORTED ? EF_OK : st;
}

ef_status ef__rebuild_undo(ef__run_drive *drive, ef_error *err)
{
    rebuild_pair builds = {0};
    ef_status st;

    /* The number, not the state: a seed reserves a number too and has no other state. */
    if (drive->detail.built == 0)
        return EF_OK;
    st = read_builds(drive, &builds, err);
    if (builds.built)
        st = remove_built(drive, &builds, err);
    else if (st == EF_NOT_FOUND || st == EF_UNSUPPORTED)
        st = EF_OK; /* there is nothing to remove */
    EF_RELEASE(&builds.list);
    return st;
}

/* --- requesting a run ------------------------------------------------------------------------- */

static ef_status request_run(ef_engine *engine, const ef_run *run, const ef__detail *detail,
                             ef_run_list *out, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = ef__generations_read(engine, run->projection, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].active && list.items[i].state == EF__GENERATION_PAUSED)
            st = ef_fail(err, EF_CONFLICT, "projection \"%.*s\" is paused: resume it first",
                         EF_STR_ARG(run->projection));
    return st == EF_OK ? ef__run_file(engine, run, detail, out, err) : st;
}

ef_status ef_projection_rebuild(ef_engine *engine, const ef_rebuild *rebuild, ef_run_list *out,
                                ef_error *err)
{
    ef_status st;

    if (!engine || !rebuild)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "rebuild" : "engine");
    if (rebuild->in_place && (rebuild->no_switch || rebuild->switch_anyway))
        return ef_fail(err, EF_BAD_INPUT, "in_place excludes no_switch and switch_anyway");
    if (rebuild->no_switch && rebuild->switch_anyway)
        return ef_fail(err, EF_BAD_INPUT, "no_switch excludes switch_anyway");
    st = request_run(engine,
                     &(ef_run){.mode = rebuild->verify ? EF_RUN_VERIFY : EF_RUN_REBUILD,
                               .projection = rebuild->projection,
                               .total = -1,
                               .reason = rebuild->reason,
                               .requester = rebuild->actor},
                     rebuild->verify ? &(ef__detail){0}
                                     : &(ef__detail){.in_place = rebuild->in_place,
                                                     .no_switch = rebuild->no_switch,
                                                     .switch_anyway = rebuild->switch_anyway},
                     out, err);
    return st == EF_OK && !rebuild->verify
               ? ef__engine_audit(engine, "rebuild", rebuild->projection, 0, rebuild->actor,
                                  rebuild->reason, err)
               : st;
}
