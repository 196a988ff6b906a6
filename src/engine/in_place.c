/*
 * in_place.c - a program that takes over the generation that queries go to.
 *
 * Everything is looked at before anything is changed; then one call of the view store changes it.
 */
#include "deploy.h"
#include "migrate.h"
#include "route.h"
#include "run.h"

#include "../journal/journal.h"

#include <inttypes.h>

#define RUNS_LOOKED_AT 1000

/* Is the version free for this text? *out_same: the routed generation has it already. */
static ef_status find_taken_over(const ef__generation_list *list, const ef__program *program,
                                 const ef__generation **out, bool *out_same, ef_error *err)
{
    ef_str name = ef__program_name(program);
    int64_t version = ef__program_version(program);

    *out = NULL;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].routed)
            *out = &list->items[i];
    if (!*out)
        return ef_fail(err, EF_NOT_FOUND,
                       "there is no projection \"%.*s\" that could be changed in place: deploy it "
                       "without --in-place",
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

/* Does the program go on from what is there? */
static ef_status check_follows(const ef_engine *e, const ef__generation *g,
                               const ef__program *program, ef_error *err)
{
    int64_t schema = ef__program_schema(program), version = ef__program_version(program);

    if (ef__generation_in_c(g))
        return ef_fail(err, EF_UNSUPPORTED,
                       "\"%.*s\" is written in C, and is not changed in place: deploy another "
                       "version beside it",
                       EF_STR_ARG(g->name));
    if (version < g->version)
        return ef_fail_numbers(err, EF_BAD_INPUT, g->version + 1, version,
                               "the program is version %" PRId64
                               " and \"%.*s\" is at version %d: in place the version grows",
                               version, EF_STR_ARG(g->name), (int)g->version);
    if (ef__engine_by_log(e, program) != g->by_log)
        return ef_fail(
            err, EF_BAD_INPUT,
            "\"%.*s\" goes in the order of %s, and the program says another: in place the "
            "order stays; deploy it without --in-place",
            EF_STR_ARG(g->name), g->by_log ? "the log" : "streams");
    if (schema <= g->schema)
        return ef_fail_numbers(err, EF_BAD_INPUT, g->schema + 1, schema,
                               "the views of \"%.*s\" have schema %d and the program says %" PRId64
                               ": in place the schema grows; write \"schema %d\" below its first "
                               "line, and a migrate from %d",
                               EF_STR_ARG(g->name), (int)g->schema, schema, (int)g->schema + 1,
                               (int)g->schema);
    if (!ef__program_migrates(program, g->schema))
        return ef_fail_numbers(err, EF_BAD_INPUT, g->schema, schema,
                               "the views of \"%.*s\" have schema %d, and the program has no "
                               "\"migrate from %d\"",
                               EF_STR_ARG(g->name), (int)g->schema, (int)g->schema);
    return EF_OK;
}

static ef_status check_same_indexes(const ef__generation *g, const ef__program *program,
                                    ef_error *err)
{
    ef__buf paths = EF__BUF_INIT(65536);
    ef_status st = ef__deploy_indexes(program, &paths, err);

    if (st == EF_OK && !ef_str_equal(ef__buf_str(&paths), g->index_paths))
        st = ef_fail(err, EF_UNSUPPORTED,
                     "\"%.*s\" has the indexes (%.*s) and the program (%.*s): in place they stay; "
                     "deploy it without --in-place",
                     EF_STR_ARG(g->name), EF_STR_ARG(g->index_paths),
                     EF_STR_ARG(ef__buf_str(&paths)));
    ef__buf_release(&paths);
    return st;
}

static ef_status check_no_run(ef_engine *e, ef_str name, ef_error *err)
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(e->journal, true, RUNS_LOOKED_AT, &runs, err);

    for (size_t i = 0; st == EF_OK && i < runs.count; i++)
        if (runs.items[i].projection.len == 0 || ef_str_equal(runs.items[i].projection, name))
            st = ef_fail(err, EF_CONFLICT,
                         "run %.*s of \"%.*s\" is open: wait for its end, or cancel it",
                         EF_STR_ARG(runs.items[i].id), EF_STR_ARG(name));
    ef_run_list_release(&runs);
    return st;
}

/* Is it at rest, or at its usual work? */
static ef_status check_undisturbed(ef_engine *e, const ef__generation *g, ef_error *err)
{
    bool migrates;
    ef_status st = ef__generation_migrates(e, g, &migrates, err);

    if (st == EF_OK && migrates)
        return ef_fail(err, EF_CONFLICT,
                       "the views of \"%.*s\" are still being migrated to version %d: wait for its "
                       "end, or rebuild it",
                       EF_STR_ARG(g->name), (int)g->version);
    if (st == EF_OK && (g->state == EF__GENERATION_PAUSED || g->state == EF__GENERATION_FAILED))
        return ef_fail(err, EF_CONFLICT,
                       "projection \"%.*s\" %s: go on with it first: everfold projection resume "
                       "%.*s",
                       EF_STR_ARG(g->name),
                       g->state == EF__GENERATION_PAUSED ? "is paused" : "has failed",
                       EF_STR_ARG(g->name));
    return st == EF_OK ? check_no_run(e, g->name, err) : st;
}

/* From here on its views are older than its program, which its schema says. It catches up from
 * where it stands, as one that was paused does, when they are migrated. */
static ef_status replace_program(ef_engine *e, const ef__generation *g, const ef__program *program,
                                 ef_str text, ef_error *err)
{
    ef__generation with = *g;
    ef_status st = ef__deploy_keep_place(e, g, err);

    with.version = (int32_t)ef__program_version(program);
    with.program = text;
    with.program_hash = ef__deploy_hash(program);
    with.state = EF__GENERATION_CATCHING_UP;
    if (st == EF_OK)
        st = e->views->ops->generation_replace(e->views, g->id, g->era, &with, err);
    ef__routes_outdate(e);
    if (st == EF_OK)
        ef__journal_nudge(e->journal);
    return st;
}

static ef_status look(ef_engine *e, const ef__program *program, ef__generation_list *list,
                      const ef__generation **out, bool *out_same, ef_error *err)
{
    ef_status st = ef__room_ready(&list->room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, ef__program_name(program), list, err);
    return st == EF_OK ? find_taken_over(list, program, out, out_same, err) : st;
}

/* EF_CONFLICT with `*out_again`: somebody has moved the generation meanwhile. */
static ef_status try_take_over(ef_engine *e, const ef__program *program, ef_str text,
                               ef__generation_list *list, bool *out_again, ef_error *err)
{
    const ef__generation *g = NULL;
    bool same = false;
    int64_t id, era;
    ef_status st = look(e, program, list, &g, &same, err);

    *out_again = false;
    if (st != EF_OK || same)
        return st;
    id = g->id;
    era = g->era;
    st = check_follows(e, g, program, err);
    if (st == EF_OK)
        st = check_same_indexes(g, program, err);
    if (st == EF_OK)
        st = check_undisturbed(e, g, err);
    if (st == EF_OK)
        st = ef__deploy_check_lookups(e, program, err);
    if (st == EF_OK)
        st = ef__migrate_try(e, g, program, err);
    /* That may have taken long, and its place is told by what it has done until now. */
    if (st == EF_OK)
        st = look(e, program, list, &g, &same, err);
    if (st != EF_OK || same)
        return st;
    st = g->id != id || g->era != era ? ef__generation_moved(id, era, g->era, err)
                                      : replace_program(e, g, program, text, err);
    *out_again = st == EF_CONFLICT;
    return st;
}

ef_status ef__deploy_in_place(ef_engine *e, const ef__program *program, ef_str text, ef_error *err)
{
    ef__generation_list list = {0};
    bool again = true;
    ef_status st = EF_OK;

    for (int tries = 0; again && tries < EF__ENGINE_START_OVER; tries++)
        st = try_take_over(e, program, text, &list, &again, err);
    ef__generation_list_release(&list);
    return st;
}
