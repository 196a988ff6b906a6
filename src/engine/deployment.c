/*
 * deployment.c - deploying programs, beside the deployed ones or in place; pausing and resuming
 * projections.
 */
#include "lag.h"
#include "queue.h"
#include "read.h"
#include "run.h"
#include "scope.h"

#include "../base/hash.h"
#include "../journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

#define FAILURES_COUNTED_MAX 10000
#define RUNS_LOOKED_AT 1000

/* The lowest position of an open failure, or INT64_MAX. */
static ef_status first_failure(ef_engine *engine, const ef__generation *generation, int64_t *out,
                               ef_error *err)
{
    EF__AUTO(ef__failure_list) list = {0};
    ef_status st = engine->views->ops->failure_ls(engine->views, generation->id, NULL, true,
                                                  FAILURES_COUNTED_MAX, &list, err);

    *out = INT64_MAX;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        *out = list.items[i].position < *out ? list.items[i].position : *out;
    return st;
}

/*
 * Stores the cursor of a queue-fed generation before its feed stops (pause, new program): from
 * there it catches up when it is resumed. The queue does not move the cursor. Every event up to the
 * stored position is applied, because rows are acknowledged only after the commit of the views.
 * Failed events, or counts that do not add up, lower the position; events that are read again are
 * duplicates. EF_CONFLICT: the generation has changed since it was read.
 */
static ef_status keep_place(ef_engine *engine, const ef__generation *generation, ef_error *err)
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
    return ef__generation_commit(
        engine, generation,
        (ef__generation_change){.cursor_before = generation->position, .cursor_after = as_of}, err);
}

/* --- deploying -------------------------------------------------------------------------------- */

/* The program_hash of generations of the program. */
static uint64_t hash_of(const ef__program *program)
{
    return ef__xxh3(ef__program_hash(program), 0);
}

/* Is the version below the active one, or retired, and has it no generation left? A projection
 * without any generation has lost its view store: then all versions are deployed. */
static ef_status refuse_superseded(ef_engine *engine, const ef__program *program, ef_error *err)
{
    int64_t version = ef__program_version(program), active = 0;
    bool retired = false, is_deployed = false;
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = ef__engine_generations(engine, ef__program_name(program), &list, err);

    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        bool is_same = generation->version == version;
        active = generation->active ? generation->version : active;
        is_deployed = is_deployed || (is_same && generation->state != EF__GENERATION_RETIRED);
        retired = retired || is_same;
    }
    if (st == EF_OK && !retired && version > active && list.count > 0)
        st = engine->views->ops->version_is_retired(engine->views, ef__program_name(program),
                                                    (int32_t)version, &retired, err);
    if (st != EF_OK || is_deployed || (!retired && version >= active))
        return st;
    return ef_fail_numbers(err, EF_EXISTS, version, active,
                           "projection \"%.*s\" version %" PRId64
                           " is not deployed again: %sversion %" PRId64 " is active",
                           EF_STR_ARG(ef__program_name(program)), version,
                           retired ? "it was retired, and " : "", active);
}

/* May the program be added beside the deployed ones? *out_same: it is deployed already. */
static ef_status compare_deployed(ef_engine *engine, const ef__program *program, bool *out_same,
                                  bool *out_first, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program), newest = 0;
    ef_status st = ef__engine_generations(engine, name, &list, err);

    *out_same = false;
    *out_first = list.count == 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++) {
        const ef__generation *generation = &list.items[i];
        newest = generation->version > newest ? generation->version : newest;
        if (generation->version != version || generation->state == EF__GENERATION_RETIRED)
            continue;
        if (generation->program_hash == hash_of(program))
            *out_same = true;
        else
            st = ef_fail_numbers(err, EF_CONFLICT, version, version,
                                 "projection \"%.*s\" version %" PRId64
                                 " is deployed with another text: write \"version %" PRId64
                                 "\" in the program and deploy it again",
                                 EF_STR_ARG(name), version, newest + 1);
    }
    return st;
}

/* EF_BAD_INPUT: with the deployed programs, the lookups of the program form a cycle. */
static ef_status check_lookups(ef_engine *engine, const ef__program *program, ef_error *err)
{
    ef__live_set set;
    const ef__program **programs;
    size_t count = 1;
    ef_status st = ef__live_set_read(engine, &(ef__live_choice){0}, &set, err);

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

static ef_status write_indexes(const ef__program *program, ef__buf *out, ef_error *err)
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
    EF__AUTO(ef__buf) paths = EF__BUF_INIT(65536);
    int64_t id;
    ef_status st = write_indexes(program, &paths, err);

    if (st == EF_OK)
        st = engine->views->ops->generation_add(
            engine->views,
            &(ef__generation){.name = ef__program_name(program),
                              .version = (int32_t)ef__program_version(program),
                              .by_log = ef__engine_by_log(engine, program),
                              .program = text,
                              .program_hash = hash_of(program),
                              .index_paths = ef__buf_str(&paths),
                              .schema = (int32_t)ef__program_schema(program),
                              .state = EF__GENERATION_CATCHING_UP,
                              .active = first},
            &id, err);
    return st;
}

ef_status ef__deploy_program(ef_engine *engine, const ef__program *program, ef_str text,
                             ef_error *err)
{
    bool same = false, first = false;
    ef_status st = compare_deployed(engine, program, &same, &first, err);

    if (st == EF_OK && !same)
        st = check_lookups(engine, program, err);
    if (st == EF_OK && !same)
        st = add_generation(engine, program, text, first, err);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK && !same)
        ef__journal_wake(engine->journal);
    return st;
}

/* --- in place -----------------------------------------------------------------------------------
 *
 * A new program for the active generation. Everything is checked before anything changes; then one
 * call of the view store changes it.
 */

/* Is the version free for this text? *out_same: the active generation has it already. */
static ef_status find_taken_over(ef_engine *engine, const ef__program *program,
                                 ef__generation_list *list, const ef__generation **out,
                                 bool *out_same, ef_error *err)
{
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program);
    ef_status st = ef__engine_generations(engine, name, list, err);

    if (st != EF_OK)
        return st;
    *out = ef__generation_active(list);
    if (!*out)
        return ef_fail(err, EF_NOT_FOUND,
                       "projection \"%.*s\" is not deployed: there is nothing to change in place",
                       EF_STR_ARG(name));
    *out_same = (*out)->version == version && (*out)->program_hash == hash_of(program);
    for (size_t i = 0; i < list->count && !*out_same; i++)
        if (list->items[i].version == version && list->items[i].state != EF__GENERATION_RETIRED)
            return ef_fail_numbers(err, EF_CONFLICT, version, version,
                                   "projection \"%.*s\" version %" PRId64
                                   " is deployed already: give the program a new version",
                                   EF_STR_ARG(name), version);
    return EF_OK;
}

/* Can the program continue with the existing views? */
static ef_status check_follows(const ef_engine *engine, const ef__generation *generation,
                               const ef__program *program, ef_error *err)
{
    int64_t schema = ef__program_schema(program), version = ef__program_version(program);

    if (ef__generation_in_c(generation))
        return ef_fail(err, EF_UNSUPPORTED,
                       "\"%.*s\" is written in C, and is not changed in place: deploy another "
                       "version beside it",
                       EF_STR_ARG(generation->name));
    if (version < generation->version)
        return ef_fail_numbers(
            err, EF_BAD_INPUT, generation->version + 1, version,
            "the program is version %" PRId64
            " and \"%.*s\" is at version %d: in place the version must be higher",
            version, EF_STR_ARG(generation->name), (int)generation->version);
    if (ef__engine_by_log(engine, program) != generation->by_log)
        return ef_fail(err, EF_BAD_INPUT,
                       "projection \"%.*s\" is ordered by %s, and the program by another: in place "
                       "the order stays; deploy it beside the active generation",
                       EF_STR_ARG(generation->name), generation->by_log ? "the log" : "streams");
    if (schema <= generation->schema)
        return ef_fail_numbers(err, EF_BAD_INPUT, generation->schema + 1, schema,
                               "the views of \"%.*s\" have schema %d and the program has %" PRId64
                               ": in place the schema must be higher; write \"schema %d\" below "
                               "its first line, and a migrate from %d",
                               EF_STR_ARG(generation->name), (int)generation->schema, schema,
                               (int)generation->schema + 1, (int)generation->schema);
    if (!ef__program_migrates(program, generation->schema))
        return ef_fail_numbers(err, EF_BAD_INPUT, generation->schema, schema,
                               "the views of \"%.*s\" have schema %d, and the program has no "
                               "\"migrate from %d\"",
                               EF_STR_ARG(generation->name), (int)generation->schema,
                               (int)generation->schema);
    return EF_OK;
}

static ef_status check_same_indexes(const ef__generation *generation, const ef__program *program,
                                    ef_error *err)
{
    EF__AUTO(ef__buf) paths = EF__BUF_INIT(65536);
    ef_status st = write_indexes(program, &paths, err);

    if (st == EF_OK && !ef_str_equal(ef__buf_str(&paths), generation->index_paths))
        st = ef_fail(err, EF_UNSUPPORTED,
                     "\"%.*s\" has the indexes (%.*s) and the program (%.*s): in place they stay; "
                     "deploy it beside the active generation",
                     EF_STR_ARG(generation->name), EF_STR_ARG(generation->index_paths),
                     EF_STR_ARG(ef__buf_str(&paths)));
    return st;
}

static ef_status check_no_run(ef_engine *engine, ef_str name, ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    ef_status st = ef_run_ls(
        engine->journal, &(ef_run_query){.open_only = true, .limit = RUNS_LOOKED_AT}, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        if (runs.items[i].projection.len == 0 || ef_str_equal(runs.items[i].projection, name))
            st = ef_fail(err, EF_CONFLICT,
                         "run %.*s of \"%.*s\" is open: wait for its end, or cancel it",
                         EF_STR_ARG(runs.items[i].id), EF_STR_ARG(name));
    return st;
}

/* Is the generation live or paused, with nothing else changing it? */
static ef_status check_undisturbed(ef_engine *engine, const ef__generation *generation,
                                   ef_error *err)
{
    bool migrates;
    ef_status st = ef__generation_migrates(engine, generation, &migrates, err);

    if (st == EF_OK && migrates)
        return ef_fail(err, EF_CONFLICT,
                       "the views of \"%.*s\" are still being migrated to version %d: wait for its "
                       "end, or rebuild it",
                       EF_STR_ARG(generation->name), (int)generation->version);
    if (st == EF_OK &&
        (generation->state == EF__GENERATION_PAUSED || generation->state == EF__GENERATION_FAILED))
        return ef_fail(err, EF_CONFLICT, "projection \"%.*s\" %s: resume it first",
                       EF_STR_ARG(generation->name),
                       generation->state == EF__GENERATION_PAUSED ? "is paused" : "has failed");
    return st == EF_OK ? check_no_run(engine, generation->name, err) : st;
}

/* From here on the views have an older schema than the program, which the generation's `schema`
 * shows. When they are migrated, it catches up from its cursor, as after a pause. */
static ef_status replace_program(ef_engine *engine, const ef__generation *generation,
                                 const ef__program *program, ef_str text, ef_error *err)
{
    ef__generation with = *generation;
    ef_status st = keep_place(engine, generation, err);

    with.version = (int32_t)ef__program_version(program);
    with.program = text;
    with.program_hash = hash_of(program);
    with.state = EF__GENERATION_CATCHING_UP;
    if (st == EF_OK)
        st = engine->views->ops->generation_change(engine->views, generation->id, generation->era,
                                                   with.state, &with, err);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__journal_wake(engine->journal);
    return st;
}

/* EF_CONFLICT with `*out_again`: the generation changed meanwhile. */
static ef_status try_take_over(ef_engine *engine, const ef__program *program, ef_str text,
                               ef__generation_list *list, bool *out_again, ef_error *err)
{
    const ef__generation *generation = NULL;
    bool same = false;
    int64_t id, era;
    ef_status st = find_taken_over(engine, program, list, &generation, &same, err);

    *out_again = false;
    if (st != EF_OK || same)
        return st;
    id = generation->id;
    era = generation->era;
    st = check_follows(engine, generation, program, err);
    if (st == EF_OK)
        st = check_same_indexes(generation, program, err);
    if (st == EF_OK)
        st = check_undisturbed(engine, generation, err);
    if (st == EF_OK)
        st = check_lookups(engine, program, err);
    if (st == EF_OK)
        st = ef__migration_dry_run(engine, generation, program, err);
    /* The dry run may have taken long: its cursor is computed from the present state. */
    if (st == EF_OK)
        st = find_taken_over(engine, program, list, &generation, &same, err);
    if (st != EF_OK || same)
        return st;
    st = generation->id != id || generation->era != era
             ? ef__generation_moved(id, era, generation->era, err)
             : replace_program(engine, generation, program, text, err);
    *out_again = st == EF_CONFLICT;
    return st;
}

/* See ef_deploy.in_place. */
static ef_status deploy_in_place(ef_engine *engine, const ef__program *program, ef_str text,
                                 ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    bool again = true;
    ef_status st = EF_OK;

    for (int tries = 0; again && tries < EF__ENGINE_RESTARTS_MAX; tries++)
        st = try_take_over(engine, program, text, &list, &again, err);
    return st;
}

/* --- deploying, for users --------------------------------------------------------------------- */

ef_status ef_projection_deploy(ef_engine *engine, const ef_deploy *deploy, ef_projection_list *out,
                               ef_text *out_report, ef_error *err)
{
    ef__program *program = NULL;
    ef_status st;

    if (!engine || !out || !deploy)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL",
                       !engine ? "engine"
                       : !out  ? "out"
                               : "deploy");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__program_compile_reported(ef_str_from(deploy->file_name), deploy->text, &program,
                                      out_report, err);
    if (st == EF_OK && deploy->refuse_superseded)
        st = refuse_superseded(engine, program, err);
    if (st == EF_OK)
        st = deploy->in_place ? deploy_in_place(engine, program, deploy->text, err)
                              : ef__deploy_program(engine, program, deploy->text, err);
    if (st == EF_OK)
        st = ef__engine_audit(engine, "deploy", ef__program_name(program),
                              ef__program_version(program), deploy->actor, deploy->reason, err);
    if (st == EF_OK)
        st = ef_projection_ls(engine, ef__program_name(program), out, err);
    ef__program_close(program);
    return st;
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
            st = keep_place(engine, generation, err);
        if (st == EF_OK)
            st = ef__generation_set_state(
                engine, generation, pause ? EF__GENERATION_PAUSED : EF__GENERATION_CATCHING_UP,
                err);
    }
    return st;
}

/* The audit entry comes first: after a crash in between there is an entry too many, not too few. */
ef_status ef_projection_pause(ef_engine *engine, ef_str name, bool paused, ef_str actor,
                              ef_str reason, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef_status st = EF_CONFLICT;

    if (!engine)
        return ef_fail(err, EF_BAD_INPUT, "engine is NULL");
    for (int tries = 0; st == EF_CONFLICT && tries < EF__ENGINE_RESTARTS_MAX; tries++) {
        st = ef__engine_generations(engine, name, &list, err);
        if (st == EF_OK && !list.count)
            st = ef__projection_unknown(engine, name, err);
        if (st == EF_OK && tries == 0)
            st = ef__engine_audit(engine, paused ? "pause" : "resume", name, 0, actor, reason, err);
        if (st == EF_OK)
            st = set_states(engine, &list, paused, err);
    }
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__journal_wake(engine->journal);
    return st;
}
