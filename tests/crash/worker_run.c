/*
 * worker_run.c - the worker's verbs that change which generation there is: runs, switches, seeds.
 *
 * A verb that was killed is run again. So each looks first for what its predecessor has asked for,
 * and goes on with that.
 */
#include "worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define IDLE_MAX 200              /* steps in which nothing could be done */
#define IDLE_US INT64_C(20000000) /* that pass in each: longer than a lease */
#define RUNS_MAX 100

static ef_str name_of(const struct numbers *n)
{
    return ef_str_from(program_names[n->at[0] & 3]);
}

/* --- runs --------------------------------------------------------------------------------------
 */

/* The newest run of this mode and projection that was not given up; `id` "" when there is none. */
static ef_status find_run(struct worker *w, ef_run_mode mode, ef_str projection, char id[64])
{
    ef_run_list runs = {0};
    ef_status st = ef_run_ls(w->journal, &(ef_run_query){.limit = RUNS_MAX}, &runs, &w->err);

    id[0] = '\0';
    for (size_t i = 0; st == EF_OK && !id[0] && i < runs.count; i++) {
        const ef_run *run = &runs.items[i];
        if (run->mode == mode && ef_str_equal(run->projection, projection) &&
            run->state != EF_RUN_FAILED && run->state != EF_RUN_CANCELLED)
            (void)snprintf(id, 64, "%.*s", EF_STR_ARG(run->id));
    }
    EF_RELEASE(&runs);
    return st;
}

/* Nothing can be done before a lease has run out or a retry is due. */
static bool let_time_pass(void *context, const ef_run *run, bool idle)
{
    int *idles = context;

    (void)run;
    if (!idle)
        return true;
    pass_time(IDLE_US);
    return ++*idles < IDLE_MAX;
}

/* Drive it to its end, and want it to be that one. */
static int drive(struct worker *w, ef_engine *engine, const char *id, ef_run_state wanted)
{
    int idles = 0;
    ef_run_list run = {0};
    ef_status st = ef_engine_run(engine, ef_str_from(id),
                                 &(ef_run_options){.progress = let_time_pass, .context = &idles},
                                 &run, &w->err);
    bool good = st != EF_OK || run.items[0].state == wanted;

    if (!good)
        printf("broken: run %s is %s: %.*s\n", id,
               ef_name_of(EF_NAMES_RUN_STATE, run.items[0].state), EF_STR_ARG(run.items[0].error));
    EF_RELEASE(&run);
    return good ? report(w, st) : EXIT_BROKEN;
}

typedef ef_status request_fn(struct worker *w, ef_engine *engine, const struct numbers *n,
                             ef_run_list *out);

static int run_verb(struct worker *w, const struct numbers *n, ef_run_mode mode,
                    request_fn *request)
{
    ef_engine *engine = NULL;
    ef_run_list made = {0};
    char id[64] = "";
    ef_status st = open_engine(w, WORKER_NAME, &engine);
    int code;

    if (st == EF_OK)
        st = find_run(w, mode, name_of(n), id);
    if (st == EF_OK && !id[0]) {
        st = request(w, engine, n, &made);
        if (st == EF_OK)
            (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(made.items[0].id));
    }
    EF_RELEASE(&made);
    code = st == EF_OK ? drive(w, engine, id, EF_RUN_COMPLETED) : report(w, st);
    ef_engine_close(engine);
    return code;
}

static ef_status request_rebuild(struct worker *w, ef_engine *engine, const struct numbers *n,
                                 ef_run_list *out)
{
    return ef_projection_rebuild(engine,
                                 &(ef_rebuild){.projection = name_of(n),
                                               .in_place = n->at[1],
                                               .actor = EF_STR("crash test"),
                                               .reason = EF_STR("to be killed")},
                                 out, &w->err);
}

int verb_rebuild(struct worker *w, const struct numbers *n)
{
    return run_verb(w, n, EF_RUN_REBUILD, request_rebuild);
}

static ef_status request_replay(struct worker *w, ef_engine *engine, const struct numbers *n,
                                ef_run_list *out)
{
    return ef_replay_request(engine,
                             &(ef_replay){.projection = name_of(n),
                                          .any_tenant = true,
                                          .actor = EF_STR("crash test"),
                                          .reason = EF_STR("to be killed")},
                             out, &w->err);
}

int verb_replay(struct worker *w, const struct numbers *n)
{
    return run_verb(w, n, EF_RUN_REPLAY, request_replay);
}

/* The worker that drives the run ends it at the next step; it may have ended already. */
int verb_cancel(struct worker *w, const struct numbers *n)
{
    char id[64];
    ef_status st = find_run(w, EF_RUN_REBUILD, name_of(n), id);

    if (st == EF_OK && id[0])
        st = ef_run_cancel(w->journal, ef_str_from(id), &w->err);
    printf("cancel %s\n", ef_status_describe(st)->code);
    return st == EF_CONFLICT ? 0 : report(w, st);
}

/* --- routes ------------------------------------------------------------------------------------
 */

static ef_status active_version(struct worker *w, ef_engine *engine, ef_str name, int32_t *out)
{
    ef_projection_list list = {0};
    ef_status st = ef_projection_ls(engine, name, &list, &w->err);

    *out = 0;
    for (size_t i = 0; st == EF_OK && i < list.count; i++)
        if (list.items[i].active)
            *out = list.items[i].version;
    EF_RELEASE(&list);
    return st;
}

static int route_verb(struct worker *w, const struct numbers *n, bool back)
{
    ef_engine *engine = NULL;
    int32_t version = 0;
    ef_generation_choice route = {.projection = name_of(n),
                                  .version = back ? 0 : (int32_t)n->at[1],
                                  .previous = back,
                                  .actor = EF_STR("crash test")};
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = active_version(w, engine, route.projection, &version);
    if (st == EF_OK && version != n->at[1])
        st = ef_projection_switch(engine, &route, &w->err);
    ef_engine_close(engine);
    return report(w, st);
}

int verb_switch(struct worker *w, const struct numbers *n)
{
    return route_verb(w, n, false);
}

int verb_rollback(struct worker *w, const struct numbers *n)
{
    return route_verb(w, n, true);
}

int verb_retire(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    ef_generation_choice route = {.projection = name_of(n), .version = (int32_t)n->at[1]};
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = ef_projection_retire(engine, &route, NULL, &w->err);
    ef_engine_close(engine);
    return st == EF_NOT_FOUND ? 0 : report(w, st);
}

/* --- seeds -------------------------------------------------------------------------------------
 */

#define TENANTS 2 /* of make_event */

typedef struct known_views {
    ef_view_list lists[TENANTS];
    size_t list, next;
} known_views;

static ef_status next_view(void *context, ef_seed_view *out, bool *out_more, ef_error *err)
{
    known_views *known = context;

    (void)err;
    while (known->list < TENANTS && known->next == known->lists[known->list].count) {
        known->list++;
        known->next = 0;
    }
    *out_more = known->list < TENANTS;
    if (*out_more) {
        const ef_view *view = &known->lists[known->list].items[known->next++];
        *out = (ef_seed_view){view->tenant, view->view_id, view->data, view->last_event_sequence};
    }
    return EF_OK;
}

static ef_status read_views(struct worker *w, ef_engine *engine, ef_str name, known_views *out)
{
    static const char *const tenants[TENANTS] = {"", "t2"};
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < TENANTS; i++)
        st = ef_view_find(
            engine,
            &(ef_view_query){.projection = name, .tenant = ef_str_from(tenants[i]), .limit = 10000},
            &out->lists[i], &w->err);
    return st;
}

static ef_status seed(struct worker *w, ef_engine *engine, ef_str name)
{
    known_views known = {0};
    ef_run_list made = {0};
    ef_head head = {0};
    ef_status st = ef_journal_head(w->journal, &head, &w->err);

    if (st == EF_OK)
        st = read_views(w, engine, name, &known);
    if (st == EF_OK)
        st = ef_projection_seed(engine,
                                &(ef_seed){.projection = name,
                                           .position = head.position,
                                           .next = next_view,
                                           .context = &known,
                                           .actor = EF_STR("crash test")},
                                &made, &w->err);
    EF_RELEASE(&made);
    for (size_t i = 0; i < TENANTS; i++)
        EF_RELEASE(&known.lists[i]);
    return st;
}

/* A seed whose process has ended cannot continue, because its views are lost: the run fails, its
 * generation is removed, and the seed is requested again. */
int verb_seed(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    char id[64] = "";
    ef_run_list run = {0};
    bool open = false;
    int code = 0;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = find_run(w, EF_RUN_SEED, name_of(n), id);
    if (st == EF_OK && id[0]) {
        ef_str wanted = ef_str_from(id);
        st = ef_run_ls(w->journal, &(ef_run_query){.id = &wanted}, &run, &w->err);
        open = st == EF_OK && run.items[0].state != EF_RUN_COMPLETED;
    }
    EF_RELEASE(&run);
    if (open)
        code = drive(w, engine, id, EF_RUN_FAILED);
    if (st == EF_OK && code == 0 && (open || !id[0]))
        st = seed(w, engine, name_of(n));
    ef_engine_close(engine);
    return code ? code : report(w, st);
}
