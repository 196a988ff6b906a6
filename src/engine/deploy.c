/*
 * deploy.c - deploying programs, and what there is to say about projections.
 */
#include "deploy.h"
#include "migrate.h"
#include "policy.h"
#include "route.h"
#include "tenant.h"
#include "workset.h"

#include "../journal/journal.h"
#include "../base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define LANE_AT_ONCE 1000
#define FAILURES_COUNTED_MAX 10000

static const char *state_name(ef__generation_state state)
{
    static const char *const names[] = {"catching_up", "live", "paused", "failed", "retired"};

    return names[state];
}

/* --- what there is to say
 * -------------------------------------------------------------------------- */

static ef_status count_lane(ef_engine *e, ef_str lane, ef_outbox_summary *out, ef_error *err)
{
    *out = (ef_outbox_summary){0};
    return ef_outbox_summarise(e->journal, &(ef_outbox_query){.lane = lane, .any_tenant = true},
                               out, err);
}

/* Nobody has failed there yet: the lane was never made. */
static bool never_failed(ef_status st)
{
    return st == EF_NOT_FOUND;
}

/* Nothing at or above the first row of a lane is in yet. A lane that was never made has none.
 * `tenant` NULL: of all. */
static ef_status stop_before_lane(ef_engine *e, ef_str lane, const ef_str *tenant,
                                  int64_t *position, ef_error *err)
{
    ef_row_list rows = {0};
    ef_outbox_query query = {
        .lane = lane, .any_tenant = !tenant, .tenant = tenant ? *tenant : EF_STR(""), .limit = 1};
    ef_status st = ef_outbox_ls(e->journal, &query, &rows, err);

    if (st == EF_OK && rows.count && rows.items[0].position <= *position)
        *position = rows.items[0].position - 1;
    ef_row_list_release(&rows);
    return never_failed(st) ? EF_OK : st;
}

/* Of one that has a cursor, which says how far it is; a tenant may have one of its own. */
static ef_status cursor_of(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef__tenant_cursor_item item;
    bool found;
    ef_status st = EF_OK;

    *out = g->position;
    if (g->own_cursors == 0)
        return EF_OK;
    if (!tenant) {
        *out = g->own_lowest < g->position ? g->own_lowest : g->position;
        return EF_OK;
    }
    st = e->views->ops->tenant_cursor_get(e->views, g->id, *tenant, &item, &found, err);
    if (st == EF_OK && found)
        *out = item.cursor.position;
    return st;
}

ef_status ef__engine_taken(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef_head head;
    ef_status st;

    if (!ef__generation_by_queue(g))
        return cursor_of(e, g, tenant, out, err);
    st = ef_journal_head(e->journal, &head, err);
    if (st != EF_OK)
        return st;
    /* The head was read first: whatever is waiting now and came later is above it anyway. What is
     * queued is taken by position whoever it belongs to. */
    *out = head.position;
    return stop_before_lane(e, EF_STR(EF_LANE_APPLY), NULL, out, err);
}

/* What failed is the tenant's own affair. */
ef_status ef__engine_as_of(ef_engine *e, const ef__generation *g, const ef_str *tenant,
                           int64_t *out, ef_error *err)
{
    ef_status st = ef__engine_taken(e, g, tenant, out, err);

    return st == EF_OK && ef__generation_by_queue(g)
               ? stop_before_lane(e, g->name, tenant, out, err)
               : st;
}

/* Events that are behind a generation for good. */
static int64_t count_done(const ef__generation *g)
{
    return g->applied + g->ignored + g->skipped;
}

/* Rows of its lane that it lacks itself, and how many of these are dead: others may be there for
 * another generation. */
static ef_status count_lacked(ef_engine *e, const ef__generation *g, int64_t *out,
                              int64_t *out_dead, ef_error *err)
{
    ef_outbox_query query = {.lane = g->name, .any_tenant = true, .limit = LANE_AT_ONCE, .from = 1};
    ef_row_list rows = {0};
    ef_status st;

    *out = *out_dead = 0;
    do {
        st = ef_outbox_ls(e->journal, &query, &rows, err);
        for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
            const ef_row *row = &rows.items[i];
            ef__watermark mark = {0};
            bool found, lacks;
            st = e->views->ops->watermark_get(e->views, g->id, row->tenant, row->stream, &mark,
                                              &found, err);
            lacks = st == EF_OK && mark.applied_seq < row->seq;
            *out += lacks;
            *out_dead += lacks && row->status == EF_ROW_DEAD;
            query.from = row->position + 1;
        }
    } while (st == EF_OK && rows.count == LANE_AT_ONCE);
    ef_row_list_release(&rows);
    return st;
}

/* Events that have yet to be applied: of the queue and of the own lane, or all that a cursor has
 * not come to, with those that wait for tenants that are behind it. A generation that was live
 * before may be past its cursor here and there. */
static ef_status count_waiting(ef_engine *e, const ef__generation *g, int64_t head, int64_t *out,
                               int64_t *out_dead, ef_error *err)
{
    ef_outbox_summary s;
    int64_t lacked;
    ef_status st;

    *out_dead = 0;
    *out = g->by_log ? head - g->position + g->own_waiting : head - count_done(g);
    if (!ef__generation_by_queue(g))
        return EF_OK;
    st = count_lane(e, EF_STR(EF_LANE_APPLY), &s, err);
    *out = s.pending + s.processing;
    ef_row_list_release(&s.oldest);
    if (st != EF_OK)
        return st;
    st = count_lane(e, g->name, &s, err);
    lacked = s.pending + s.failed + s.dead;
    *out_dead = s.dead;
    ef_row_list_release(&s.oldest);
    if (st == EF_OK && lacked && *out + lacked > head - count_done(g))
        st = count_lacked(e, g, &lacked, out_dead, err);
    *out += lacked;
    return never_failed(st) ? EF_OK : st;
}

static ef_status describe(ef_engine *e, const ef__generation *g, ef__arena *arena,
                          ef_projection *out, ef_error *err)
{
    ef__failure_list failures = {0};
    ef_head head;
    int64_t waiting = 0;
    bool migrates = false;
    ef_status st = ef_journal_head(e->journal, &head, err);

    *out = (ef_projection){.name = ef__arena_copy(arena, g->name),
                           .version = g->version,
                           .generation = g->number,
                           .by_log = g->by_log,
                           .routed = g->routed,
                           .state = ef_str_from(state_name(g->state)),
                           .views = g->views,
                           .applied = g->applied,
                           .ignored = g->ignored,
                           .skipped = g->skipped,
                           .no_function = ef__function_missing(e, g),
                           .program = ef__arena_copy(arena, g->program)};
    ef__hex(g->digest, sizeof g->digest, out->digest);
    if (st == EF_OK && g->state == EF__GENERATION_CATCHING_UP)
        st = ef__generation_migrates(e, g, &migrates, err);
    if (migrates)
        out->state = EF_STR("migrating");
    if (st == EF_OK)
        st = ef__policy_skips(e, g->name, &out->skips_errors, err);
    if (st == EF_OK)
        st = ef__engine_as_of(e, g, NULL, &out->position, err);
    if (st == EF_OK)
        st = count_waiting(e, g, head.position, &waiting, &out->quarantined, err);
    out->lag_events = waiting;
    out->unaccounted = head.position - count_done(g) - waiting;
    if (st == EF_OK)
        st = ef__room_ready(&failures.room, err);
    if (st == EF_OK)
        st = e->views->ops->failure_ls(e->views, g->id, true, FAILURES_COUNTED_MAX, &failures, err);
    out->failures = (int64_t)failures.count;
    if (st == EF_OK)
        st = ef__scopes_describe(e, g, &failures, head.position, arena, out, err);
    ef__room_release(&failures.room);
    if (st == EF_OK && waiting > 0) {
        ef_batch batch = EF_BATCH_INIT;
        st = ef_journal_read_log(
            e->journal, &(ef_log_query){.any_tenant = true, .after = out->position, .limit = 1},
            &batch, err);
        if (st == EF_OK && batch.count)
            out->lag_us = ef__engine_now(e) - batch.events[0].recorded_us;
        ef_batch_release(&batch);
    }
    return st == EF_OK && (!out->name.ptr || !out->program.ptr) ? ef__room_full(err) : st;
}

/* They come by name, then number. */
static void put_routed_first(ef_projection *items, size_t count)
{
    size_t first = 0; /* of its name */

    for (size_t i = 0; i < count; i++) {
        if (!ef_str_equal(items[i].name, items[first].name))
            first = i;
        if (!items[i].routed || i == first)
            continue;
        ef_projection routed = items[i];
        memmove(&items[first + 1], &items[first], (i - first) * sizeof *items);
        items[first] = routed;
    }
}

ef_status ef_projection_ls(ef_engine *e, ef_str name, ef_projection_list *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef_projection *items = NULL;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    out->items = NULL;
    out->count = 0;
    st = ef__room_ready(&out->room, err);
    if (st == EF_OK)
        st = ef__room_ready(&list.room, err);
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, name, &list, err);
    if (st == EF_OK && name.len && !list.count)
        st = ef_fail(err, EF_NOT_FOUND,
                     "there is no projection \"%.*s\"; see: everfold projection ls",
                     EF_STR_ARG(name));
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, list.count + 1, sizeof *items);
        st = items ? EF_OK : ef__room_full(err);
    }
    out->items = items;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].state == EF__GENERATION_RETIRED)
            continue;
        st = describe(e, &list.items[i], &out->room->arena, &items[out->count], err);
        out->count += st == EF_OK;
    }
    put_routed_first(items, out->count);
    ef__room_release(&list.room);
    return st;
}

void ef_projection_list_release(ef_projection_list *list)
{
    if (!list)
        return;
    ef__room_release(&list->room);
    list->items = NULL;
    list->count = 0;
}

/* The first position that an open failure is about, or INT64_MAX. */
static ef_status first_failure(ef_engine *e, const ef__generation *g, int64_t *out, ef_error *err)
{
    ef__failure_list list = {0};
    ef_status st = ef__room_ready(&list.room, err);

    *out = INT64_MAX;
    if (st == EF_OK)
        st = e->views->ops->failure_ls(e->views, g->id, true, FAILURES_COUNTED_MAX, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        *out = list.items[i].position < *out ? list.items[i].position : *out;
    ef__room_release(&list.room);
    return st;
}

ef_status ef__deploy_keep_place(ef_engine *e, const ef__generation *g, ef_error *err)
{
    int64_t as_of, failed;
    ef_status st;

    if (!ef__generation_by_queue(g))
        return EF_OK;
    st = ef__engine_as_of(e, g, NULL, &as_of, err);
    if (st == EF_OK)
        st = first_failure(e, g, &failed, err);
    if (st != EF_OK)
        return st;
    as_of = as_of < failed ? as_of : failed - 1;
    if (as_of <= g->position || as_of > count_done(g))
        return EF_OK;
    return e->views->ops->commit(
        e->views,
        &(ef__views_commit){.generations = &(ef__generation_change){.generation = g->id,
                                                                    .era = g->era,
                                                                    .cursor_before = g->position,
                                                                    .cursor_after = as_of},
                            .generation_count = 1},
        err);
}

/* --- deploying
 * ------------------------------------------------------------------------------------- */

uint64_t ef__deploy_hash(const ef__program *program)
{
    return ef__xxh3(ef__program_hash(program), 0);
}

/* A version that is below the active one, or was retired, and of which no generation is left. */
static ef_status check_superseded(const ef__generation_list *list, const ef__program *program,
                                  ef_error *err)
{
    int64_t version = ef__program_version(program), active = 0;
    bool retired = false;

    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        if (g->routed)
            active = g->version;
        if (g->version == version && g->state != EF__GENERATION_RETIRED)
            return EF_OK;
        retired = retired || g->version == version;
    }
    if (!retired && version >= active)
        return EF_OK;
    return ef_fail_numbers(err, EF_EXISTS, version, active,
                           "projection \"%.*s\" version %" PRId64
                           " is not deployed again: version %" PRId64 " is active",
                           EF_STR_ARG(ef__program_name(program)), version, active);
}

static ef_status refuse_superseded(ef_engine *e, const ef__program *program, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__room_ready(&list.room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, ef__program_name(program), &list, err);
    if (st == EF_OK)
        st = check_superseded(&list, program, err);
    ef__room_release(&list.room);
    return st;
}

/* What is deployed under this name, and may the program join it? *out_same: it is there already. */
static ef_status compare_deployed(ef_engine *e, const ef__program *program, bool *out_same,
                                  bool *out_first, ef_error *err)
{
    ef__generation_list list = {0};
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program), newest = 0;
    ef_status st = ef__room_ready(&list.room, err);

    *out_same = false;
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, name, &list, err);
    *out_first = list.count == 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *g = &list.items[i];
        newest = g->version > newest ? g->version : newest;
        if (g->version != version || g->state == EF__GENERATION_RETIRED)
            continue;
        if (g->program_hash == ef__deploy_hash(program))
            *out_same = true;
        else
            st = ef_fail_numbers(err, EF_CONFLICT, version, version,
                                 "projection \"%.*s\" version %" PRId64
                                 " is deployed with another text: write \"version %" PRId64
                                 "\" in the program and deploy it again",
                                 EF_STR_ARG(name), version, newest + 1);
    }
    ef__room_release(&list.room);
    return st;
}

ef_status ef__deploy_check_lookups(ef_engine *e, const ef__program *program, ef_error *err)
{
    ef__live_set set;
    const ef__program **programs;
    size_t count = 1;
    ef_status st = ef__live_set_read(e, false, &set, err);

    if (st != EF_OK)
        return st;
    programs = malloc((set.count + 1) * sizeof *programs);
    if (!programs)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while deploying");
    if (st == EF_OK) {
        programs[0] = program;
        for (size_t i = 0; i < set.count; i++)
            if (!ef_str_equal(set.items[i].generation->name, ef__program_name(program)))
                programs[count++] = set.items[i].program;
        st = ef__fold_check_cycles(programs, count, err);
    }
    free(programs);
    ef__live_set_release(&set);
    return st;
}

ef_status ef__deploy_indexes(const ef__program *program, ef__buf *out, ef_error *err)
{
    for (size_t i = 0; i < ef__program_index_count(program); i++) {
        if (i)
            (void)ef__buf_add_char(out, ',');
        (void)ef__buf_add_str(out, ef__program_index(program, i));
    }
    return out->failed ? ef_fail(err, EF_NO_MEMORY, "memory ran out while deploying") : EF_OK;
}

static ef_status add_generation(ef_engine *e, const ef__program *program, ef_str text, bool first,
                                ef_error *err)
{
    ef__buf paths = EF__BUF_INIT(65536);
    int64_t id;
    ef_status st = ef__deploy_indexes(program, &paths, err);

    if (st == EF_OK)
        st = e->views->ops->generation_add(
            e->views,
            &(ef__generation){.name = ef__program_name(program),
                              .version = (int32_t)ef__program_version(program),
                              .by_log = ef__engine_by_log(e, program),
                              .program = text,
                              .program_hash = ef__deploy_hash(program),
                              .index_paths = ef__buf_str(&paths),
                              .schema = (int32_t)ef__program_schema(program),
                              .state = EF__GENERATION_CATCHING_UP,
                              .routed = first},
            &id, err);
    ef__buf_release(&paths);
    return st;
}

ef_status ef__deploy_program(ef_engine *e, const ef__program *program, ef_str text, ef_error *err)
{
    bool same = false, first = false;
    ef_status st = compare_deployed(e, program, &same, &first, err);

    if (st == EF_OK && !same)
        st = ef__deploy_check_lookups(e, program, err);
    if (st == EF_OK && !same)
        st = add_generation(e, program, text, first, err);
    ef__routes_outdate(e);
    if (st == EF_OK && !same)
        ef__journal_nudge(e->journal);
    return st;
}

ef_status ef_projection_deploy_by(ef_engine *e, const ef_deploy *deploy, ef_projection_list *out,
                                  ef_text *out_report, ef_error *err)
{
    ef__diagnostics *diagnostics;
    ef__program *program = NULL;
    ef_status st;

    if (!e || !out || !deploy)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", !e ? "engine" : !out ? "out" : "deploy");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (out_report)
        *out_report = (ef_text){0};
    st = out_report
             ? ef_program_check(deploy->file_name, deploy->text, EF_TEXT_PLAIN, out_report, err)
             : EF_OK;
    diagnostics = malloc(sizeof *diagnostics);
    if (st == EF_OK && !diagnostics)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while deploying");
    if (st == EF_OK)
        st = ef__program_compile(ef_str_from(deploy->file_name), deploy->text, &program,
                                 diagnostics, err);
    free(diagnostics);
    if (st == EF_OK && deploy->refuse_superseded)
        st = refuse_superseded(e, program, err);
    if (st == EF_OK)
        st = deploy->in_place ? ef__deploy_in_place(e, program, deploy->text, err)
                              : ef__deploy_program(e, program, deploy->text, err);
    if (st == EF_OK)
        st = ef__engine_note(e, "deploy", ef__program_name(program), deploy->who, deploy->reason,
                             err);
    if (st == EF_OK)
        st = ef_projection_ls(e, ef__program_name(program), out, err);
    ef__program_close(program);
    return st;
}

ef_status ef_projection_deploy(ef_engine *e, const char *file_name, ef_str text,
                               ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    return ef_projection_deploy_by(e, &(ef_deploy){.file_name = file_name, .text = text}, out,
                                   out_report, err);
}

ef_status ef_projection_deploy_in_place(ef_engine *e, const char *file_name, ef_str text,
                                        ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    return ef_projection_deploy_by(
        e, &(ef_deploy){.file_name = file_name, .text = text, .in_place = true}, out, out_report,
        err);
}

/* --- pause and resume
 * ------------------------------------------------------------------------------ */

static ef_status set_states(ef_engine *e, const ef__generation_list *list, bool pause,
                            ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        bool stopped = g->state == EF__GENERATION_PAUSED || g->state == EF__GENERATION_FAILED;
        if (!pause)
            st = ef__tenants_resume(e, g, err);
        if (g->state == EF__GENERATION_RETIRED ||
            (pause ? g->state == EF__GENERATION_PAUSED : !stopped))
            continue;
        if (pause)
            st = ef__deploy_keep_place(e, g, err);
        if (st == EF_OK)
            st = e->views->ops->generation_set_state(
                e->views, g->id, g->era, pause ? EF__GENERATION_PAUSED : EF__GENERATION_CATCHING_UP,
                err);
    }
    return st;
}

/* Noted before it is done: a crash in between leaves a record too many, and not one too few. */
static ef_status set_state(ef_engine *e, ef_str name, bool pause, ef_str who, ef_str reason,
                           ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = EF_CONFLICT;

    if (!e)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_START_OVER; tries++) {
        st = ef__room_ready(&list.room, err);
        if (st == EF_OK)
            st = e->views->ops->generation_ls(e->views, name, &list, err);
        if (st == EF_OK && !list.count)
            st = ef_fail(err, EF_NOT_FOUND,
                         "there is no projection \"%.*s\"; see: everfold projection ls",
                         EF_STR_ARG(name));
        if (st == EF_OK && tries == 0)
            st = ef__engine_note(e, pause ? "pause" : "resume", name, who, reason, err);
        if (st == EF_OK)
            st = set_states(e, &list, pause, err);
    }
    ef__routes_outdate(e);
    if (st == EF_OK)
        ef__journal_nudge(e->journal);
    ef__room_release(&list.room);
    return st;
}

ef_status ef_projection_pause(ef_engine *e, ef_str name, ef_str who, ef_str reason, ef_error *err)
{
    return set_state(e, name, true, who, reason, err);
}

ef_status ef_projection_resume(ef_engine *e, ef_str name, ef_str who, ef_str reason, ef_error *err)
{
    return set_state(e, name, false, who, reason, err);
}
