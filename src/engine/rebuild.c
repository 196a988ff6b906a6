/*
 * rebuild.c - runs that fold everything anew: a rebuild, which is then routed, and a verification,
 * whose generation is thrown away.
 *
 * The generation is made beside the routed one and catches up by its cursor like any other, so live
 * work goes on and nothing is missed or doubled at the seam. The run notes the number that it is
 * going to have before it is made: a worker that goes on with the run finds it by that.
 *
 *     noted -> made -> catching up -> live -> even -> compared -> routed | removed
 *
 * In place it is routed as soon as it is made, and the old one goes, slice by slice as all that are
 * retired: queries show what is there so far.
 */
#include "lane.h"
#include "migrate.h"
#include "route.h"
#include "run.h"
#include "tenant.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXAMPLES_MAX 10

typedef struct builds {
    ef__generation_list list;
    const ef__generation *routed;
    const ef__generation *built;   /* ours; NULL before it is made */
    const ef__generation *leaving; /* ours, retired: what is left of it */
    int64_t highest;
} builds;

/* --- finding it ------------------------------------------------------------------------------- */

/* Another program may have been deployed under the number that was noted. */
static bool is_ours(const ef__generation *g, const ef__generation *routed, const ef__detail *detail)
{
    return g->number == detail->built && g->version == routed->version;
}

static ef_status read_builds(ef__driven *d, builds *out, ef_error *err)
{
    ef_status st = ef__generations_read(d->engine, d->run.projection, &out->list, err);

    out->routed = out->built = out->leaving = NULL;
    out->highest = 0;
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++) {
        const ef__generation *g = &out->list.items[i];
        out->routed = g->routed ? g : out->routed;
        out->highest = g->number > out->highest ? g->number : out->highest;
    }
    if (st == EF_OK && !out->routed)
        st = ef_fail(err, EF_NOT_FOUND, "queries for \"%.*s\" go nowhere: deploy it",
                     EF_STR_ARG(d->run.projection));
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++)
        if (is_ours(&out->list.items[i], out->routed, &d->detail)) {
            bool leaves = out->list.items[i].state == EF__GENERATION_RETIRED;
            *(leaves ? &out->leaving : &out->built) = &out->list.items[i];
        }
    if (st == EF_OK && ef__function_missing(d->engine, out->routed))
        st = ef_fail(err, EF_UNSUPPORTED,
                     "\"%.*s\" is written in C and its function is not in this process",
                     EF_STR_ARG(d->run.projection));
    return st;
}

/* --- making it -------------------------------------------------------------------------------- */

static ef_status note(ef__driven *d, const builds *b, ef_error *err)
{
    d->detail.generation = b->routed->number;
    d->detail.built = b->highest + 1;
    return ef__run_save(d, err);
}

static ef_status make(ef__driven *d, const builds *b, ef_error *err)
{
    ef_views *views = d->engine->views;
    ef__generation made = *b->routed;
    int64_t id;
    ef_status st;

    if (d->detail.built != b->highest + 1) { /* another was made or removed meanwhile */
        d->detail.built = b->highest + 1;
        return ef__run_save(d, err);
    }
    made.number = (int32_t)d->detail.built; /* so a late driver makes none */
    made.state = EF__GENERATION_CATCHING_UP;
    made.routed = false;
    made.position = made.seam = made.created_us = 0;
    st = views->ops->generation_add(views, &made, &id, err);
    ef__journal_nudge(d->engine->journal); /* there is something to catch up */
    return st;
}

/* Two writes, each of which is looked for before it is made: whoever goes on with the run does what
 * is left. Afterwards an operator's route is left alone. */
static ef_status take_place(ef__driven *d, const builds *b, ef_error *err)
{
    ef_views *views = d->engine->views;
    const ef__generation *old = ef__generation_number(&b->list, d->detail.generation);
    ef_status st = EF_OK;

    if (!b->built->routed) {
        st = views->ops->generation_route(views, b->built->id, b->built->era, err);
        ef__routes_outdate(d->engine);
        return st;
    }
    if (old && old != b->built && old->state != EF__GENERATION_RETIRED)
        st = ef__generation_retire(d->engine, old, err);
    ef__journal_nudge(d->engine->journal); /* it is to be swept */
    d->detail.swapped = true;
    return st == EF_OK ? ef__run_save(d, err) : st;
}

/* --- on the way ---------------------------------------------------------------------------------
 */

static ef_status show_progress(ef__driven *d, const builds *b, ef_error *err)
{
    ef_head head;
    ef_status st = ef_journal_head(d->engine->journal, &head, err);

    if (st != EF_OK)
        return st;
    d->idle = d->run.last_position == b->built->position && d->run.total >= 0;
    d->tick->run_events += b->built->position - d->run.last_position;
    d->run.last_position = d->run.processed = b->built->position;
    d->run.total = head.position;
    return EF_OK;
}

/* Is something in the projection's own lane about to be tried? */
static ef_status lane_is_due(ef__driven *d, const builds *b, bool *out, ef_error *err)
{
    ef_outbox_summary s = {0};
    ef_status st = ef_outbox_summarise(
        d->engine->journal, &(ef_outbox_query){.lane = b->built->name, .any_tenant = true}, &s,
        err);

    *out = st == EF_OK && s.oldest.count &&
           s.oldest.items[0].next_attempt_us <= ef__engine_now(d->engine);
    ef_row_list_release(&s.oldest);
    return st == EF_NOT_FOUND ? EF_OK : st; /* nothing has failed there yet */
}

/* Has the queue brought the routed one everything that the new one had when it went live? */
static ef_status queue_is_past(ef__driven *d, const builds *b, bool *out, ef_error *err)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        d->engine->journal,
        &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY), .any_tenant = true, .limit = 1}, &rows,
        err);

    *out = st == EF_OK && (!rows.count || rows.items[0].position > b->built->seam);
    ef_row_list_release(&rows);
    return st;
}

/*
 * From here on both are fed the same, in the same transactions, so that they can be compared at any
 * moment; those in the order of the log whenever their cursors are in the same places.
 */
static ef_status is_even(ef__driven *d, const builds *b, bool *out, ef_error *err)
{
    bool due = false;
    bool filed;
    ef_status st;

    *out = false;
    if (b->routed->state == EF__GENERATION_CATCHING_UP || b->routed->state == EF__GENERATION_PAUSED)
        return EF_OK; /* it will be live again, and is compared then */
    if (b->built->by_log)
        return ef__tenants_even(d->engine, b->built, b->routed, out, err);
    st = queue_is_past(d, b, out, err);
    if (st == EF_OK && *out) {
        st = ef__gaps_file(d->engine, b->built, &filed, err);
        *out = filed;
    }
    if (st == EF_OK && *out)
        st = lane_is_due(d, b, &due, err);
    *out = *out && !due;
    return st;
}

/* --- comparing -------------------------------------------------------------------------------- */

typedef struct examples {
    ef__buf text;
    ef__json_writer writer;
    int count;
} examples;

static bool add_example(void *context, const ef_difference *difference)
{
    examples *x = context;

    if (x->count++ < EXAMPLES_MAX) {
        ef__json_open(&x->writer, '{');
        ef__json_key(&x->writer, "tenant");
        ef__json_str(&x->writer, difference->tenant);
        ef__json_key(&x->writer, "view_id");
        ef__json_str(&x->writer, difference->view_id);
        ef__json_close(&x->writer, '}');
    }
    return true;
}

static ef_status compare(ef__driven *d, const builds *b, ef_error *err)
{
    examples x = {.text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES / 2)};
    ef_diff diff;
    ef_status st;

    x.writer = (ef__json_writer)EF__JSON_WRITER(&x.text);
    ef__json_open(&x.writer, '[');
    st = ef__generations_compare(d->engine, b->routed, b->built, add_example, &x, &diff, err);
    ef__json_close(&x.writer, ']');
    if (st == EF_BLOCKED) { /* a retry, a requeue or a skip may unblock it: the run tries again */
        st = EF_BUSY;
        if (err)
            err->status = st;
    }
    if (st == EF_OK) {
        d->detail.compared = true;
        d->detail.views = diff.views;
        d->detail.differences = diff.left_only + diff.right_only + diff.different;
        if (d->detail.differences && !x.text.failed)
            d->detail.examples = ef__arena_copy(&d->arena, ef__buf_str(&x.text));
    }
    ef__buf_release(&x.text);
    return st;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The views are not the same as those of the active generation: nobody but a person can say which
 * are right, so it stays beside it. */
static ef_status stay_beside(ef__driven *d, const builds *b, ef_error *err)
{
    char text[200];

    (void)snprintf(
        text, sizeof text,
        "%" PRId64 " of %" PRId64 " views differ from those of generation %d: generation "
        "%d is complete, and queries do not go to it",
        d->detail.differences, d->detail.views, (int)b->routed->number, (int)b->built->number);
    d->run.error = ef__arena_copy(&d->arena, ef_str_from(text));
    return d->run.error.ptr ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out in a run");
}

static bool may_switch(const ef__driven *d)
{
    return !d->detail.in_place && !d->detail.no_switch &&
           (d->detail.differences == 0 || d->detail.switch_anyway);
}

static ef_status finish_rebuild(ef__driven *d, const builds *b, ef_error *err)
{
    bool even = true;
    ef_status st = d->detail.in_place ? ef__gaps_file(d->engine, b->built, &even, err)
                                      : is_even(d, b, &even, err);

    if (st == EF_OK && !even) {
        d->idle = !d->engine->gap_pass.generation;
        return EF_OK;
    }
    if (st == EF_OK && !d->detail.in_place)
        st = compare(d, b, err);
    if (st == EF_OK && d->detail.in_place)
        st = ef__lane_sweep(d->engine, d->run.projection, err);
    if (st == EF_OK && !may_switch(d) && d->detail.differences)
        st = stay_beside(d, b, err);
    if (st == EF_OK && may_switch(d)) {
        st = ef__generation_route(d->engine, b->routed, b->built, "switch", d->run.requester,
                                  d->run.reason, err);
        d->detail.switched = st == EF_OK;
    }
    if (st == EF_OK)
        d->run.state = EF_RUN_COMPLETED;
    return st;
}

/* Out of the live ones first: then nobody writes to it while its views go, slice by slice. */
static ef_status remove_built(ef__driven *d, const builds *b, ef_error *err)
{
    bool more;
    ef_status st;

    if (!b->built || b->built->routed)
        return EF_OK;
    st = ef__generation_retire(d->engine, b->built, err);
    return st == EF_OK ? ef__generation_sweep(d->engine, b->built, b->built->era + 1, &more, err)
                       : st;
}

static ef_status finish_verify(ef__driven *d, const builds *b, ef_error *err)
{
    bool even;
    ef_status st = is_even(d, b, &even, err);

    if (st == EF_OK && !even) {
        d->idle = !d->engine->gap_pass.generation;
        return EF_OK;
    }
    /* The result is written before the generation goes: whoever goes on from here has it. */
    if (st == EF_OK && !d->detail.compared)
        st = compare(d, b, err);
    if (st == EF_OK)
        st = ef__run_save(d, err);
    return st == EF_OK ? remove_built(d, b, err) : st;
}

/* What was folded aside goes before the run ends. */
static ef_status clean_up(ef__driven *d, const builds *b, ef_error *err)
{
    bool more = false;
    ef_status st = EF_OK;

    if (b->leaving)
        st = ef__generation_sweep(d->engine, b->leaving, b->leaving->era, &more, err);
    if (st == EF_OK && !more)
        d->run.state = EF_RUN_COMPLETED;
    return st;
}

/* --- a step ----------------------------------------------------------------------------------- */

static ef_status step(ef__driven *d, builds *b, ef_error *err)
{
    bool verify = d->run.mode == EF_RUN_VERIFY, in_place = d->detail.in_place;
    bool migrates = false;

    /* Its views are rewritten and its era moves on: it is looked at when that is over. */
    if (b->routed->state == EF__GENERATION_CATCHING_UP) {
        ef_status st = ef__generation_migrates(d->engine, b->routed, &migrates, err);
        d->idle = migrates;
        if (st != EF_OK || migrates)
            return st;
    }
    if (d->detail.built == 0)
        return note(d, b, err);
    if (verify && d->detail.compared && !b->built)
        return clean_up(d, b, err);
    if (!verify && !in_place && b->built && b->built->routed) {
        ef_status st = show_progress(d, b, err);
        if (st != EF_OK)
            return st;
        d->idle = false;
        d->run.processed = d->run.last_position = d->run.total;
        d->detail.switched = true; /* all but this last note was done, by us or an operator */
        d->run.state = EF_RUN_COMPLETED;
        return EF_OK;
    }
    if (!b->built)
        return make(d, b, err);
    if (in_place && !d->detail.swapped)
        return take_place(d, b, err);
    if (b->built->state == EF__GENERATION_CATCHING_UP)
        return show_progress(d, b, err);
    if (b->built->state != EF__GENERATION_LIVE) {
        d->idle = b->built->state == EF__GENERATION_PAUSED;
        return d->idle ? EF_OK
                       : ef_fail(err, EF_UNSUPPORTED, "generation %d of \"%.*s\" has failed",
                                 (int)b->built->number, EF_STR_ARG(d->run.projection));
    }
    ef_status st = show_progress(d, b, err);
    if (st != EF_OK)
        return st;
    d->run.processed = d->run.last_position = d->run.total;
    d->idle = false;
    return verify ? finish_verify(d, b, err) : finish_rebuild(d, b, err);
}

ef_status ef__rebuild_step(ef__driven *d, ef_error *err)
{
    builds b = {0};
    ef_status st = read_builds(d, &b, err);

    if (st == EF_OK)
        st = step(d, &b, err);
    ef__generation_list_release(&b.list);
    return st;
}

ef_status ef__verify_step(ef__driven *d, ef_error *err)
{
    return ef__rebuild_step(d, err);
}

ef_status ef__rebuild_is_done(ef__driven *d, bool *out, ef_error *err)
{
    builds b = {0};
    ef_status st;

    *out = false;
    if (d->run.mode != EF_RUN_REBUILD || d->detail.built == 0 || d->detail.in_place)
        return EF_OK;
    st = read_builds(d, &b, err);
    *out = st == EF_OK && b.built && b.built->routed;
    d->detail.switched = d->detail.switched || *out;
    ef__generation_list_release(&b.list);
    return st == EF_NOT_FOUND || st == EF_UNSUPPORTED ? EF_OK : st;
}

ef_status ef__rebuild_undo(ef__driven *d, ef_error *err)
{
    builds b = {0};
    ef_status st;

    if (d->detail.built == 0)
        return EF_OK;
    st = read_builds(d, &b, err);
    if (b.built)
        st = remove_built(d, &b, err);
    else if (st == EF_NOT_FOUND || st == EF_UNSUPPORTED)
        st = EF_OK; /* nothing is left that could be removed */
    ef__generation_list_release(&b.list);
    return st;
}

/* --- asking for one --------------------------------------------------------------------------- */

static ef_status request(ef_engine *e, const ef_run *run, const ef__detail *detail,
                         ef_run_list *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__generations_read(e, run->projection, &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].routed && list.items[i].state == EF__GENERATION_PAUSED)
            st = ef_fail(err, EF_CONFLICT,
                         "projection \"%.*s\" is paused; go on with it first: everfold projection "
                         "resume %.*s",
                         EF_STR_ARG(run->projection), EF_STR_ARG(run->projection));
    ef__generation_list_release(&list);
    return st == EF_OK ? ef__run_file(e, run, detail, out, err) : st;
}

ef_status ef_projection_rebuild(ef_engine *e, const ef_rebuild *rebuild, ef_run_list *out,
                                ef_error *err)
{
    ef_status st;

    if (!e || !rebuild)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "rebuild" : "engine");
    if (rebuild->in_place && (rebuild->no_switch || rebuild->switch_anyway))
        return ef_fail(err, EF_BAD_INPUT, "in place there is nothing to switch to");
    if (rebuild->no_switch && rebuild->switch_anyway)
        return ef_fail(err, EF_BAD_INPUT, "no_switch and switch_anyway contradict each other");
    st = request(e,
                 &(ef_run){.mode = EF_RUN_REBUILD,
                           .projection = rebuild->projection,
                           .total = -1,
                           .reason = rebuild->reason,
                           .requester = rebuild->who},
                 &(ef__detail){.in_place = rebuild->in_place,
                               .no_switch = rebuild->no_switch,
                               .switch_anyway = rebuild->switch_anyway},
                 out, err);
    return st == EF_OK ? ef__engine_note(e, "rebuild", rebuild->projection, 0, rebuild->who,
                                         rebuild->reason, err)
                       : st;
}

ef_status ef_projection_verify(ef_engine *e, ef_str projection, ef_str who, ef_str reason,
                               ef_run_list *out, ef_error *err)
{
    if (!e)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    return request(e,
                   &(ef_run){.mode = EF_RUN_VERIFY,
                             .projection = projection,
                             .total = -1,
                             .reason = reason,
                             .requester = who},
                   &(ef__detail){0}, out, err);
}
