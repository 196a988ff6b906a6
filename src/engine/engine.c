/*
 * engine.c - opening and closing an engine, and its programs.
 */
#include "fresh.h"
#include "lane.h"
#include "publish.h"
#include "run.h"
#include "route.h"
#include "scope.h"
#include "skip.h"
#include "workset.h"

#include "../base/hash.h"
#include "../journal/journal.h"
#include "../base/logger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int64_t ef__engine_now(const ef_engine *engine)
{
    return engine->options.clock->wall_us(engine->options.clock->context);
}

void ef__engine_lease_times(ef_engine *e, const ef_work_options *options)
{
    ef__lease_times times = ef__lease_times_of(options);

    e->lease_ms = times.lease_ms;
    e->renew_ms = times.renew_ms;
}

static void name_worker(ef_engine *e)
{
    char host[40] = "", id[EF_EVENT_ID_TEXT_MAX] = "";

    if (e->options.worker.len && e->options.worker.len < sizeof e->worker) {
        memcpy(e->worker, e->options.worker.ptr, e->options.worker.len);
        return;
    }
    (void)gethostname(host, sizeof host - 1);
    (void)ef__uuid7(ef__engine_now(e), id);
    /* The end of the id: a process that is started again must not pass for the one before it. */
    (void)snprintf(e->worker, sizeof e->worker, "%s-%ld-%s", host, (long)getpid(), id + 24);
}

/* Can a commit of the views take a mark of the journal with it? Where that is not known they are
 * apart, which is as good: what the mark lacks is found by the watermarks. */
static bool stores_join(ef_journal *journal, ef_views *views)
{
    char a[EF__JOURNAL_DATABASE_MAX], b[EF__VIEWS_DATABASE_MAX];

    return journal->ops->mark_with && journal->ops->database && views->ops->database &&
           journal->ops->database(journal, a, NULL) == EF_OK &&
           views->ops->database(views, b, NULL) == EF_OK && a[0] && strcmp(a, b) == 0;
}

ef_status ef__engine_open_on(const ef_engine_options *options, ef_views *views, ef_engine **out,
                             ef_error *err)
{
    ef_engine *e = calloc(1, sizeof *e);
    ef_status st;

    *out = NULL;
    if (!e) {
        ef__views_close(views);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening the engine");
    }
    e->options = *options;
    e->options.clock = options->clock ? options->clock : ef_clock_system();
    if (e->options.live_lag_ms <= 0)
        e->options.live_lag_ms = EF__ENGINE_LIVE_LAG_MS;
    e->journal = options->journal;
    e->views = views;
    e->joined = stores_join(options->journal, views);
    e->worksets_bytes = EF__WORKSETS_BYTES;
    e->cursor_batch = options->catch_up_batch      ? options->catch_up_batch
                      : views->ops->catch_up_batch ? views->ops->catch_up_batch
                                                   : EF__ENGINE_CATCH_UP_BATCH;
    e->run_batch = options->run_batch ? options->run_batch : EF__ENGINE_BATCH;
    ef__engine_lease_times(e, NULL);
    e->sink_open = ef__bus_open;
    pthread_mutex_init(&e->lock, NULL);
    ef__fresh_open(&e->fresh);
    pthread_mutex_init(&e->minutes.lock, NULL);
    pthread_mutex_init(&e->large.lock, NULL);
    pthread_mutex_init(&e->working, NULL);
    pthread_mutex_init(&e->reading, NULL);
    pthread_mutex_init(&e->driving, NULL);
    pthread_mutex_init(&e->skipping, NULL);
    pthread_mutex_init(&e->publishing, NULL);
    name_worker(e);
    e->crew.engine = e;
    st = ef__retry_policies_choose(options, &e->retry, err);
    if (st == EF_OK)
        st = ef__crew_open(&e->crew, err);
    if (st != EF_OK) {
        ef__engine_abandon(e);
        return st;
    }
    *out = e;
    return EF_OK;
}

ef_status ef__ghost_open(ef_engine *e, ef_str worker, ef_engine **out, ef_error *err)
{
    const ef_engine_options *o = &e->options;
    ef_views *views = NULL;
    ef_status st = ef__views_open(
        &(ef__views_options){.url = "memory:", .create = true, .clock = o->clock, .log = o->log},
        &views, err);

    *out = NULL;
    if (st == EF_OK)
        st = ef__engine_open_on(&(ef_engine_options){.journal = e->journal,
                                                     .views_url = "memory:",
                                                     .worker = worker,
                                                     .clock = o->clock,
                                                     .log = o->log},
                                views, out, err);
    if (st == EF_OK)
        (*out)->ghost = true;
    return st;
}

ef_status ef_engine_open(const ef_engine_options *options, ef_engine **out, ef_error *err)
{
    ef_views *views;
    ef_status st;

    if (!out)
        return ef_fail(err, EF_BAD_INPUT, "out is NULL");
    *out = NULL;
    if (!options || !options->journal || !options->views_url)
        return ef_fail(err, EF_BAD_INPUT, "an engine needs a journal and views_url");
    if (options->catch_up_batch > EF__ENGINE_BATCH_MAX || options->run_batch > EF__ENGINE_BATCH_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "catch_up_batch is %zu and run_batch is %zu, at most %d each",
                       options->catch_up_batch, options->run_batch, EF__ENGINE_BATCH_MAX);
    st = ef__views_open(
        &(ef__views_options){.url = options->views_url,
                             .create = options->create,
                             .read_only = options->read_only,
                             .busy_ms = options->busy_ms ? options->busy_ms : 10000,
                             .clock = options->clock ? options->clock : ef_clock_system(),
                             .log = options->log},
        &views, err);
    return st == EF_OK ? ef__engine_open_on(options, views, out, err) : st;
}

ef_status ef_engine_backup_views(ef_engine *e, const ef_backup_options *options, ef_error *err)
{
    if (!e || !options || !options->path)
        return ef_fail(err, EF_BAD_INPUT, "an engine and a path are needed to back up views");
    if (!e->views->ops->backup)
        return ef_fail(err, EF_UNSUPPORTED,
                       "views on %s are not copied to a file: use the backup of that store",
                       e->views->ops->name);
    return e->views->ops->backup(e->views, options, err);
}

void ef_engine_close(ef_engine *e)
{
    if (!e)
        return;
    ef__publish_close(e, false);
    ef__run_leave(e);
    ef__crew_leave(&e->crew);
    ef__scopes_prune(e, true);
    ef__engine_abandon(e);
}

void ef__engine_abandon(ef_engine *e)
{
    ef__publish_close(e, true);
    ef__worksets_release(&e->worksets);
    ef__worksets_release(&e->queued);
    ef__scopes_release(e);
    ef__skips_release(e);
    ef__routes_release(e);
    while (e->compiled) {
        ef__compiled *next = e->compiled->next;
        ef__program_close(e->compiled->program);
        free(e->compiled);
        e->compiled = next;
    }
    ef__functions_release(e->functions);
    ef__views_close(e->views);
    pthread_mutex_destroy(&e->lock);
    ef__fresh_close(&e->fresh);
    pthread_mutex_destroy(&e->minutes.lock);
    pthread_mutex_destroy(&e->large.lock);
    pthread_mutex_destroy(&e->working);
    pthread_mutex_destroy(&e->reading);
    pthread_mutex_destroy(&e->driving);
    pthread_mutex_destroy(&e->skipping);
    pthread_mutex_destroy(&e->publishing);
    ef__crew_release(&e->crew);
    free(e);
}

/* --- programs ------------------------------------------------------------------------------------
 */

static const ef__program *find_compiled(const ef_engine *e, const ef__generation *g)
{
    for (const ef__compiled *c = e->compiled; c; c = c->next)
        if (c->generation == g->id && c->hash == g->program_hash)
            return c->program;
    return NULL;
}

static ef_status compile(ef_engine *e, const ef__generation *g, const ef__program **out,
                         ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__compiled *c = calloc(1, sizeof *c);
    ef_status st;

    if (!diagnostics || !c)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while compiling a program");
    else if (ef__generation_in_c(g))
        st = ef__function_compile(e, g, &c->program, err);
    else
        st = ef__program_compile(g->name, g->program, &c->program, diagnostics, err);
    free(diagnostics);
    if (st != EF_OK) {
        free(c);
        return st;
    }
    c->generation = g->id;
    c->hash = g->program_hash;
    c->next = e->compiled;
    e->compiled = c;
    *out = c->program;
    return EF_OK;
}

bool ef__engine_by_log(const ef_engine *e, const ef__program *program)
{
    return ef__program_by_log(program) || ef__journal_is_sparse(e->journal);
}

ef_status ef__engine_program(ef_engine *e, const ef__generation *g, const ef__program **out,
                             ef_error *err)
{
    ef_status st = EF_OK;

    pthread_mutex_lock(&e->lock);
    *out = find_compiled(e, g);
    if (!*out)
        st = compile(e, g, out, err);
    pthread_mutex_unlock(&e->lock);
    return st;
}

ef_status ef__live_set_read(ef_engine *e, bool stream_ordered_live, ef__live_set *out,
                            ef_error *err)
{
    ef_status st;

    *out = (ef__live_set){0};
    /* The number first: a generation that goes live between the two makes the apply start over. */
    st = e->views->ops->live_set_get(e->views, &out->number, err);
    if (st == EF_OK)
        st = ef__room_ready(&out->list.room, err);
    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, (ef_str){0}, &out->list, err);
    if (st == EF_OK) {
        out->items = calloc(out->list.count + 1, sizeof *out->items);
        st = out->items ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++) {
        const ef__generation *g = &out->list.items[i];
        bool wanted = stream_ordered_live ? g->state == EF__GENERATION_LIVE && !g->by_log
                                          : g->state != EF__GENERATION_RETIRED;
        if (!wanted || ef__function_missing(e, g))
            continue;
        out->items[out->count].generation = g;
        out->items[out->count].keeps_rows = ef__generation_keeps_rows(&out->list, g);
        st = ef__engine_program(e, g, &out->items[out->count].program, err);
        out->count += st == EF_OK;
    }
    if (st != EF_OK)
        ef__live_set_release(out);
    return st;
}

void ef__live_set_release(ef__live_set *set)
{
    free(set->items);
    ef__room_release(&set->list.room);
    *set = (ef__live_set){0};
}

ef_status ef__engine_routed(ef_engine *e, ef_str name, ef__generation_list *list,
                            const ef__generation **out, ef_error *err)
{
    ef_status st = ef__room_ready(&list->room, err);

    if (st == EF_OK)
        st = e->views->ops->generation_ls(e->views, name, list, err);
    *out = NULL;
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (list->items[i].routed)
            *out = &list->items[i];
    if (st == EF_OK && !*out)
        st = ef__projection_unknown(e, name, err);
    return st;
}

ef_status ef__engine_note(ef_engine *e, const char *act, ef_str projection, int64_t number,
                          ef_str who, ef_str reason, ef_error *err)
{
    if (who.len == 0)
        return EF_OK;
    return ef_act_add(e->journal,
                      &(ef_act){.act = ef_str_from(act),
                                .who = who,
                                .reason = reason,
                                .lane = projection,
                                .seq = number},
                      err);
}
