/*
 * deployment.c - deploying programs; listing, pausing and resuming projections.
 */
#include "deployment.h"
#include "lag.h"
#include "queue.h"
#include "migration.h"
#include "read.h"
#include "run.h"
#include "tenant.h"
#include "view_cache.h"

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

/* --- listing ---------------------------------------------------------------------------------- */

/* The age of the first event at or after a position; 0: no such event. */
static ef_status age_at(ef_engine *engine, int64_t position, int64_t *out, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(
        engine->journal, &(ef_log_query){.any_tenant = true, .after = position - 1, .limit = 1},
        &batch, err);

    *out = st == EF_OK && batch.count ? ef__engine_now(engine) - batch.events[0].recorded_us : 0;
    EF_RELEASE(&batch);
    return st;
}

/* State of the journal that all items of a list share. */
typedef struct journal_now {
    ef_head head;
    int64_t queued;
} journal_now;

/* Lag is work that proceeds without an operator; blocked work is counted separately, with its own
 * age. */
static ef_status describe_lag(ef_engine *engine, const ef__generation *generation,
                              const journal_now *now, ef_projection *out, ef_error *err)
{
    ef__lag lag;
    int64_t head = now->head.position, lags, queued;
    ef_status st = ef__lag_read(engine, generation, NULL, true, &lag, err);

    if (st != EF_OK)
        return st;
    queued = ef__lag_queued_open(generation, &lag, head, now->queued);
    if (generation->by_log)
        lags = head - generation->position + generation->own_waiting - lag.blocked;
    else if (ef__generation_by_queue(generation))
        lags = queued + lag.proceeding;
    else
        lags = head - ef__generation_done(generation) - lag.blocked;
    out->position = lag.as_of;
    out->reached = ef__lag_reached(&lag);
    out->lag_events = lags > 0 ? lags : 0;
    out->blocked_streams = lag.blocked_streams;
    out->blocked_events = lag.blocked;
    out->quarantined = lag.dead_streams;
    out->unaccounted = ef__lag_unaccounted(generation, &lag, head, queued);
    if (out->lag_events) {
        int64_t first = lag.delivered + 1;
        st = age_at(engine, first < lag.proceeds_from ? first : lag.proceeds_from, &out->lag_us,
                    err);
    }
    if (st == EF_OK && lag.blocked_from)
        st = age_at(engine, lag.blocked_from, &out->blocked_us, err);
    return st;
}

/* A superseded generation has no retry rows: all that it lacks and that is not queued is blocked.
 */
static void describe_superseded(const ef__generation *generation, const journal_now *now,
                                ef_projection *out)
{
    int64_t lacks = now->head.position - ef__generation_done(generation) - now->queued;

    out->blocked_events = lacks > 0 ? lacks : 0;
    out->unaccounted = 0;
}

static ef_status describe_generation(ef_engine *engine, const ef__generation_list *list,
                                     const ef__generation *generation, const journal_now *now,
                                     ef__arena *arena, ef_projection *out, ef_error *err)
{
    ef__failure_list failures = {0};
    bool migrates = false;
    ef_status st = EF_OK;

    *out = (ef_projection){.name = ef__arena_copy(arena, generation->name),
                           .version = generation->version,
                           .generation = generation->number,
                           .by_log = generation->by_log,
                           .active = generation->active,
                           .state = ef_str_from(state_name(generation->state)),
                           .views = generation->views,
                           .applied = generation->applied,
                           .ignored = generation->ignored,
                           .skipped = generation->skipped,
                           .skips_errors = generation->on_error == EF_ON_ERROR_SKIP,
                           .no_function = ef__c_function_missing(engine, generation),
                           .program = ef__arena_copy(arena, generation->program)};
    ef__hex(generation->digest, sizeof generation->digest, out->digest);
    if (generation->state == EF__GENERATION_CATCHING_UP)
        st = ef__generation_migrates(engine, generation, &migrates, err);
    if (migrates)
        out->state = EF_STR("migrating");
    if (st == EF_OK)
        st = describe_lag(engine, generation, now, out, err);
    if (st == EF_OK && ef__generation_by_queue(generation) &&
        !ef__generation_keeps_rows(list, generation))
        describe_superseded(generation, now, out);
    if (st == EF_OK)
        st = ef__memory_prepare(&failures.room, err);
    if (st == EF_OK)
        st = engine->views->ops->failure_ls(engine->views, generation->id, NULL, true,
                                            FAILURES_COUNTED_MAX, &failures, err);
    out->failures = (int64_t)failures.count;
    if (st == EF_OK)
        st =
            ef__scopes_describe(engine, generation, &failures, now->head.position, arena, out, err);
    ef_memory_release(&failures.room);
    return st == EF_OK && (!out->name.ptr || !out->program.ptr) ? ef__no_memory(err) : st;
}

/* The items are sorted by name, then number. */
static void put_active_first(ef_projection *items, size_t count)
{
    size_t first = 0; /* item of the name */

    for (size_t i = 0; i < count; i++) {
        if (!ef_str_equal(items[i].name, items[first].name))
            first = i;
        if (!items[i].active || i == first)
            continue;
        ef_projection active = items[i];
        memmove(&items[first + 1], &items[first], (i - first) * sizeof *items);
        items[first] = active;
    }
}

ef_status ef_projection_ls(ef_engine *engine, ef_str name, ef_projection_list *out, ef_error *err)
{
    ef__generation_list list = {0};
    ef_projection *items = NULL;
    journal_now now = {0};
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    out->items = NULL;
    out->count = 0;
    st = ef__memory_prepare(&out->room, err);
    if (st == EF_OK)
        st = ef__memory_prepare(&list.room, err);
    if (st == EF_OK)
        st = engine->views->ops->generation_ls(engine->views, name, &list, err);
    if (st == EF_OK && name.len && !list.count)
        st = ef__projection_unknown(engine, name, err);
    if (st == EF_OK) {
        items = ef__arena_zalloc(&out->room->arena, list.count + 1, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
    }
    out->items = items;
    if (st == EF_OK)
        st = ef_journal_head(engine->journal, &now.head, err);
    if (st == EF_OK)
        st = ef__lag_queued(engine, &now.queued, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        if (list.items[i].state == EF__GENERATION_RETIRED)
            continue;
        st = describe_generation(engine, &list, &list.items[i], &now, &out->room->arena,
                                 &items[out->count], err);
        out->count += st == EF_OK;
    }
    put_active_first(items, out->count);
    ef_memory_release(&list.room);
    return st;
}

/* The lowest position of an open failure, or INT64_MAX. */
static ef_status first_failure(ef_engine *engine, const ef__generation *generation, int64_t *out,
                               ef_error *err)
{
    ef__failure_list list = {0};
    ef_status st = ef__memory_prepare(&list.room, err);

    *out = INT64_MAX;
    if (st == EF_OK)
        st = engine->views->ops->failure_ls(engine->views, generation->id, NULL, true,
                                            FAILURES_COUNTED_MAX, &list, err);
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        *out = list.items[i].position < *out ? list.items[i].position : *out;
    ef_memory_release(&list.room);
    return st;
}

ef_status ef__deploy_keep_place(ef_engine *engine, const ef__generation *generation, ef_error *err)
{
    int64_t as_of, failed;
    ef_status st;

    if (!ef__generation_by_queue(generation))
        return EF_OK;
    st = ef__engine_as_of(engine, generation, NULL, &as_of, err);
    if (st == EF_OK)
        st = first_failure(engine, generation, &failed, err);
    if (st != EF_OK)
        return st;
    as_of = as_of < failed ? as_of : failed - 1;
    if (as_of <= generation->position || as_of > ef__generation_done(generation))
        return EF_OK;
    return engine->views->ops->commit(
        engine->views,
        &(ef__views_commit){.generations =
                                &(ef__generation_change){.generation = generation->id,
                                                         .era = generation->era,
                                                         .cursor_before = generation->position,
                                                         .cursor_after = as_of},
                            .generation_count = 1},
        err);
}

/* --- deploying -------------------------------------------------------------------------------- */

uint64_t ef__deploy_hash(const ef__program *program)
{
    return ef__xxh3(ef__program_hash(program), 0);
}

/* Is the version below the active one, or retired, and has it no generation left? A projection
 * without any generation has lost its view store: then all versions are deployed. */
static ef_status check_superseded(ef_engine *engine, const ef__generation_list *list,
                                  const ef__program *program, ef_error *err)
{
    int64_t version = ef__program_version(program), active = 0;
    bool retired = false;
    ef_status st = EF_OK;

    for (size_t i = 0; i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        if (generation->active)
            active = generation->version;
        if (generation->version == version && generation->state != EF__GENERATION_RETIRED)
            return EF_OK;
        retired = retired || generation->version == version;
    }
    if (!retired && version > active && list->count > 0)
        st = engine->views->ops->version_is_retired(engine->views, ef__program_name(program),
                                                    (int32_t)version, &retired, err);
    if (st != EF_OK || (!retired && version >= active))
        return st;
    return ef_fail_numbers(err, EF_EXISTS, version, active,
                           "projection \"%.*s\" version %" PRId64
                           " is not deployed again: %sversion %" PRId64 " is active",
                           EF_STR_ARG(ef__program_name(program)), version,
                           retired ? "it was retired, and " : "", active);
}

static ef_status refuse_superseded(ef_engine *engine, const ef__program *program, ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = ef__memory_prepare(&list.room, err);

    if (st == EF_OK)
        st =
            engine->views->ops->generation_ls(engine->views, ef__program_name(program), &list, err);
    if (st == EF_OK)
        st = check_superseded(engine, &list, program, err);
    ef_memory_release(&list.room);
    return st;
}

/* May the program be added beside the deployed ones? *out_same: it is deployed already. */
static ef_status compare_deployed(ef_engine *engine, const ef__program *program, bool *out_same,
                                  bool *out_first, ef_error *err)
{
    ef__generation_list list = {0};
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program), newest = 0;
    ef_status st = ef__memory_prepare(&list.room, err);

    *out_same = false;
    if (st == EF_OK)
        st = engine->views->ops->generation_ls(engine->views, name, &list, err);
    *out_first = list.count == 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        newest = generation->version > newest ? generation->version : newest;
        if (generation->version != version || generation->state == EF__GENERATION_RETIRED)
            continue;
        if (generation->program_hash == ef__deploy_hash(program))
            *out_same = true;
        else
            st = ef_fail_numbers(err, EF_CONFLICT, version, version,
                                 "projection \"%.*s\" version %" PRId64
                                 " is deployed with another text: write \"version %" PRId64
                                 "\" in the program and deploy it again",
                                 EF_STR_ARG(name), version, newest + 1);
    }
    ef_memory_release(&list.room);
    return st;
}

ef_status ef__deploy_check_lookups(ef_engine *engine, const ef__program *program, ef_error *err)
{
    ef__live_set set;
    const ef__program **programs;
    size_t count = 1;
    ef_status st = ef__live_set_read(engine, false, &set, err);

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

static ef_status add_generation(ef_engine *engine, const ef__program *program, ef_str text,
                                bool first, ef_error *err)
{
    ef__buf paths = EF__BUF_INIT(65536);
    int64_t id;
    ef_status st = ef__deploy_indexes(program, &paths, err);

    if (st == EF_OK)
        st = engine->views->ops->generation_add(
            engine->views,
            &(ef__generation){.name = ef__program_name(program),
                              .version = (int32_t)ef__program_version(program),
                              .by_log = ef__engine_by_log(engine, program),
                              .program = text,
                              .program_hash = ef__deploy_hash(program),
                              .index_paths = ef__buf_str(&paths),
                              .schema = (int32_t)ef__program_schema(program),
                              .state = EF__GENERATION_CATCHING_UP,
                              .active = first},
            &id, err);
    ef__buf_release(&paths);
    return st;
}

ef_status ef__deploy_program(ef_engine *engine, const ef__program *program, ef_str text,
                             ef_error *err)
{
    bool same = false, first = false;
    ef_status st = compare_deployed(engine, program, &same, &first, err);

    if (st == EF_OK && !same)
        st = ef__deploy_check_lookups(engine, program, err);
    if (st == EF_OK && !same)
        st = add_generation(engine, program, text, first, err);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK && !same)
        ef__journal_wake(engine->journal);
    return st;
}

ef_status ef_projection_deploy_by(ef_engine *engine, const ef_deploy *deploy,
                                  ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    ef__diagnostics *diagnostics;
    ef__program *program = NULL;
    ef_status st;

    if (!engine || !out || !deploy)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL",
                       !engine ? "engine"
                       : !out  ? "out"
                               : "deploy");
    if (engine->options.read_only)
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
        st = refuse_superseded(engine, program, err);
    if (st == EF_OK)
        st = deploy->in_place ? ef__deploy_in_place(engine, program, deploy->text, err)
                              : ef__deploy_program(engine, program, deploy->text, err);
    if (st == EF_OK)
        st = ef__engine_audit(engine, "deploy", ef__program_name(program),
                              ef__program_version(program), deploy->actor, deploy->reason, err);
    if (st == EF_OK)
        st = ef_projection_ls(engine, ef__program_name(program), out, err);
    ef__program_close(program);
    return st;
}

ef_status ef_projection_deploy(ef_engine *engine, const char *file_name, ef_str text,
                               ef_projection_list *out, ef_text *out_report, ef_error *err)
{
    return ef_projection_deploy_by(engine, &(ef_deploy){.file_name = file_name, .text = text}, out,
                                   out_report, err);
}

/* --- pause and resume ------------------------------------------------------------------------- */

static ef_status set_states(ef_engine *engine, const ef__generation_list *list, bool pause,
                            ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < list->count; i++) {
        const ef__generation *generation = &list->items[i];
        bool stopped = generation->state == EF__GENERATION_PAUSED ||
                       generation->state == EF__GENERATION_FAILED;
        if (!pause)
            st = ef__tenants_resume(engine, generation, err);
        if (generation->state == EF__GENERATION_RETIRED ||
            (pause ? generation->state == EF__GENERATION_PAUSED : !stopped))
            continue;
        /* A superseded generation has no retry rows, so its cursor stays where it was. */
        if (pause && ef__generation_keeps_rows(list, generation))
            st = ef__deploy_keep_place(engine, generation, err);
        if (st == EF_OK)
            st = engine->views->ops->generation_set_state(
                engine->views, generation->id, generation->era,
                pause ? EF__GENERATION_PAUSED : EF__GENERATION_CATCHING_UP, err);
    }
    return st;
}

/* The audit entry comes first: after a crash in between there is an entry too many, not too few. */
static ef_status set_state(ef_engine *engine, ef_str name, bool pause, ef_str actor, ef_str reason,
                           ef_error *err)
{
    ef__generation_list list = {0};
    ef_status st = EF_CONFLICT;

    if (!engine)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_RESTARTS_MAX; tries++) {
        st = ef__memory_prepare(&list.room, err);
        if (st == EF_OK)
            st = engine->views->ops->generation_ls(engine->views, name, &list, err);
        if (st == EF_OK && !list.count)
            st = ef__projection_unknown(engine, name, err);
        if (st == EF_OK && tries == 0)
            st = ef__engine_audit(engine, pause ? "pause" : "resume", name, 0, actor, reason, err);
        if (st == EF_OK)
            st = set_states(engine, &list, pause, err);
    }
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__journal_wake(engine->journal);
    ef_memory_release(&list.room);
    return st;
}

ef_status ef_projection_pause(ef_engine *engine, ef_str name, ef_str actor, ef_str reason,
                              ef_error *err)
{
    return set_state(engine, name, true, actor, reason, err);
}

ef_status ef_projection_resume(ef_engine *engine, ef_str name, ef_str actor, ef_str reason,
                               ef_error *err)
{
    return set_state(engine, name, false, actor, reason, err);
}
