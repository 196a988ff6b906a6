/*
 * deployment_in_place.c - a new program for the active generation.
 *
 * Everything is checked before anything changes; then one call of the view store changes it.
 */
#include "deployment.h"
#include "migration.h"
#include "read.h"
#include "run.h"

#include "../journal/journal.h"

#include <inttypes.h>

#define RUNS_LOOKED_AT 1000

/* Is the version free for this text? *out_same: the active generation has it already. */
static ef_status find_taken_over(const ef__generation_list *list, const ef__program *program,
                                 const ef__generation **out, bool *out_same, ef_error *err)
{
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program);

    *out = NULL;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].active)
            *out = &list->items[i];
    if (!*out)
        return ef_fail(err, EF_NOT_FOUND,
                       "projection \"%.*s\" is not deployed: there is nothing to change in place",
                       EF_STR_ARG(name));
    *out_same = (*out)->version == version && (*out)->program_hash == ef__deploy_hash(program);
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
    ef__buf paths = EF__BUF_INIT(65536);
    ef_status st = ef__deploy_indexes(program, &paths, err);

    if (st == EF_OK && !ef_str_equal(ef__buf_str(&paths), generation->index_paths))
        st = ef_fail(err, EF_UNSUPPORTED,
                     "\"%.*s\" has the indexes (%.*s) and the program (%.*s): in place they stay; "
                     "deploy it beside the active generation",
                     EF_STR_ARG(generation->name), EF_STR_ARG(generation->index_paths),
                     EF_STR_ARG(ef__buf_str(&paths)));
    ef__buf_release(&paths);
    return st;
}

static ef_status check_no_run(ef_engine *engine, ef_str name, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(engine->journal, true, RUNS_LOOKED_AT, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        if (runs.items[i].projection.len == 0 || ef_str_equal(runs.items[i].projection, name))
            st = ef_fail(err, EF_CONFLICT,
                         "run %.*s of \"%.*s\" is open: wait for its end, or cancel it",
                         EF_STR_ARG(runs.items[i].id), EF_STR_ARG(name));
    EF_RELEASE(&runs);
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
    ef_status st = ef__deploy_keep_place(engine, generation, err);

    with.version = (int32_t)ef__program_version(program);
    with.program = text;
    with.program_hash = ef__deploy_hash(program);
    with.state = EF__GENERATION_CATCHING_UP;
    if (st == EF_OK)
        st = engine->views->ops->generation_replace(engine->views, generation->id, generation->era,
                                                    &with, err);
    ef__read_targets_invalidate(engine);
    if (st == EF_OK)
        ef__journal_wake(engine->journal);
    return st;
}

static ef_status read_and_check(ef_engine *engine, const ef__program *program,
                                ef__generation_list *list, const ef__generation **out,
                                bool *out_same, ef_error *err)
{
    ef_status st = ef__memory_prepare(&list->room, err);

    if (st == EF_OK)
        st = engine->views->ops->generation_ls(engine->views, ef__program_name(program), list, err);
    return st == EF_OK ? find_taken_over(list, program, out, out_same, err) : st;
}

/* EF_CONFLICT with `*out_again`: the generation changed meanwhile. */
static ef_status try_take_over(ef_engine *engine, const ef__program *program, ef_str text,
                               ef__generation_list *list, bool *out_again, ef_error *err)
{
    const ef__generation *generation = NULL;
    bool same = false;
    int64_t id, era;
    ef_status st = read_and_check(engine, program, list, &generation, &same, err);

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
        st = ef__deploy_check_lookups(engine, program, err);
    if (st == EF_OK)
        st = ef__migration_dry_run(engine, generation, program, err);
    /* The dry run may have taken long: its cursor is computed from the present state. */
    if (st == EF_OK)
        st = read_and_check(engine, program, list, &generation, &same, err);
    if (st != EF_OK || same)
        return st;
    st = generation->id != id || generation->era != era
             ? ef__generation_moved(id, era, generation->era, err)
             : replace_program(engine, generation, program, text, err);
    *out_again = st == EF_CONFLICT;
    return st;
}

ef_status ef__deploy_in_place(ef_engine *engine, const ef__program *program, ef_str text,
                              ef_error *err)
{
    ef__generation_list list = {0};
    bool again = true;
    ef_status st = EF_OK;

    for (int tries = 0; again && tries < EF__ENGINE_RESTARTS_MAX; tries++)
        st = try_take_over(engine, program, text, &list, &again, err);
    EF_RELEASE(&list);
    return st;
}
