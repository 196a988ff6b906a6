/*
 * deploy.c - deploying programs, and what there is to say about projections.
 */
#include "deploy.h"
#include "lag.h"
#include "lane.h"
#include "migrate.h"
#include "policy.h"
#include "route.h"
#include "run.h"
#include "tenant.h"
#include "workset.h"

#include "../base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FAILURES_COUNTED_MAX 10000

static const char *state_name(ef__generation_state state)
{
    static const char *const names[] = {"catching_up", "live", "paused", "failed", "retired"};

    return names[state];
}

/* --- what there is to say
 * -------------------------------------------------------------------------- */

/* The age of the first event at or after a position; 0 when there is none. */
static ef_status age_at(ef_engine *e, int64_t position, int64_t *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(
        e->journal, &(ef_log_query){.any_tenant = true, .after = position - 1, .limit = 1}, &batch,
        err);

    *out = st == EF_OK && batch.count ? ef__engine_now(e) - batch.events[0].recorded_us : 0;
    ef_batch_release(&batch);
    return st;
}

/* What the list has in common: read once. */
typedef struct journal_now {
    ef_head head;
    int64_t queued;
} journal_now;

/* Lag is work that proceeds by itself; what is blocked is counted apart, and has its own age. */
static ef_status describe_lag(ef_engine *e, const ef__generation *g, const journal_now *now,
                              ef_projection *out, ef_error *err)
{
    ef__lag lag;
    int64_t head = now->head.position, lags, queued;
    ef_status st = ef__lag_read(e, g, NULL, true, &lag, err);

    if (st != EF_OK)
        return st;
    queued = ef__lag_queued_open(g, &lag, head, now->queued);
    if (g->by_log)
        lags = head - g->position + g->own_waiting - lag.blocked;
    else if (ef__generation_by_queue(g))
        lags = queued + lag.proceeding;
    else
        lags = head - ef__generation_done(g) - lag.blocked;
    out->position = lag.as_of;
    out->reached = ef__lag_reached(&lag);
    out->lag_events = lags > 0 ? lags : 0;
    out->blocked_streams = lag.blocked_streams;
    out->blocked_events = lag.blocked;
    out->quarantined = lag.dead_streams;
    out->unaccounted = ef__lag_unaccounted(g, &lag, head, queued);
    if (out->lag_events) {
        int64_t first = lag.taken + 1;
        st = age_at(e, first < lag.proceeds_from ? first : lag.proceeds_from, &out->lag_us, err);
    }
    if (st == EF_OK && lag.blocked_from)
        st = age_at(e, lag.blocked_from, &out->blocked_us, err);
    return st;
}

/* One that was superseded has no rows: what it lacks beside the queue is blocked. */
static void describe_superseded(const ef__generation *g, const journal_now *now, ef_projection *out)
{
    int64_t lacks = now->head.position - ef__generation_done(g) - now->queued;

    out->blocked_events = lacks > 0 ? lacks : 0;
    out->unaccounted = 0;
}

static ef_status describe(ef_engine *e, const ef__generation_list *list, const ef__generation *g,
                          const journal_now *now, ef__arena *arena, ef_projection *out,
                          ef_error *err)
{
    ef__failure_list failures = {0};
    bool migrates = false;
    ef_status st = EF_OK;

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
    if (g->state == EF__GENERATION_CATCHING_UP)
        st = ef__generation_migrates(e, g, &migrates, err);
    if (migrates)
        out->state = EF_STR("migrating");
    if (st == EF_OK)
        st = ef__policy_skips(e, g->name, &out->skips_errors, err);
    if (st == EF_OK)
        st = describe_lag(e, g, now, out, err);
    if (st == EF_OK && ef__generation_by_queue(g) && !ef__generation_keeps_rows(list, g))
        describe_superseded(g, now, out);
    if (st == EF_OK)
        st = ef__room_ready(&failures.room, err);
    if (st == EF_OK)
        st = e->views->ops->failure_ls(e->views, g->id, NULL, true, FAILURES_COUNTED_MAX, &failures,
                                       err);
    out->failures = (int64_t)failures.count;
    if (st == EF_OK)
        st = ef__scopes_describe(e, g, &failures, now->head.position, arena, out, err);
    ef__room_release(&failures.room);
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
    journal_now now = {0};
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
        st = ef__projection_unknown(e, name, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, list.count + 1, sizeof *items);
        st = items ? EF_OK : ef__room_full(err);
    }
    out->items = items;
    if (st == EF_OK)
        st = ef_journal_head(e->journal, &now.head, err);
    if (st == EF_OK)
        st = ef__lag_queued(e, &now.queued, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].state == EF__GENERATION_RETIRED)
            continue;
        st = describe(e, &list, &list.items[i], &now, &out->room->arena, &items[out->count], err);
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
        st = e->views->ops->failure_ls(e->views, g->id, NULL, true, FAILURES_COUNTED_MAX, &list,
                                       err);
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
    if (as_of <= g->position || as_of > ef__generation_done(g))
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

/* A version that is below the active one, or was retired, and of which no generation is left. A
 * projection without a generation has lost its view store: all versions are deployed. */
static ef_status check_superseded(ef_engine *e, const ef__generation_list *list,
                                  const ef__program *program, ef_error *err)
{
    int64_t version = ef__program_version(program), active = 0;
    bool retired = false;
    ef_status st = EF_OK;

    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *g = &list->items[i];
        if (g->routed)
            active = g->version;
        if (g->version == version && g->state != EF__GENERATION_RETIRED)
            return EF_OK;
        retired = retired || g->version == version;
    }
    if (!retired && version > active && list->count > 0)
        st = ef__version_is_retired(e, ef__program_name(program), version, &retired, err);
    if (st != EF_OK || (!retired && version >= active))
        return st;
    return ef_fail_numbers(err, EF_EXISTS, version, active,
                           "projection \"%.*s\" version %" PRId64
                           " is not deployed again: %sversion %" PRId64 " is active",
                           EF_STR_ARG(ef__program_name(program)), version,
                           retired ? "it was retired, and " : "", active);
}

static ef_status refuse_superseded(ef_engine *e, const ef__program *program, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__room_ready(&list.room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, ef__program_name(program), &list, err);
    if (st == EF_OK)
        st = check_superseded(e, &list, program, err);
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
        st = ef__engine_note(e, "deploy", ef__program_name(program), ef__program_version(program),
                             deploy->who, deploy->reason, err);
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
        /* What a superseded generation lacks has no rows, so its place stays where it was. */
        if (pause && ef__generation_keeps_rows(list, g))
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
            st = ef__projection_unknown(e, name, err);
        if (st == EF_OK && tries == 0)
            st = ef__engine_note(e, pause ? "pause" : "resume", name, 0, who, reason, err);
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
