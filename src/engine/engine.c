/*
 * engine.c - opening and closing an engine, and its programs.
 */
#include "read_wait.h"
#include "lane.h"
#include "publish.h"
#include "run.h"
#include "read_target.h"
#include "scope.h"
#include "skip.h"
#include "upgrade.h"
#include "view_cache.h"

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

void ef__engine_lease_times(ef_engine *engine, const ef_work_options *options)
{
    ef__lease_times times = ef__lease_times_of(options);

    engine->lease_ms = times.lease_ms;
    engine->renew_ms = times.renew_ms;
}

static void name_worker(ef_engine *engine)
{
    char host[40] = "", id[EF_EVENT_ID_TEXT_MAX] = "";

    if (engine->options.worker.len && engine->options.worker.len < sizeof engine->worker) {
        memcpy(engine->worker, engine->options.worker.ptr, engine->options.worker.len);
        return;
    }
    (void)gethostname(host, sizeof host - 1);
    (void)ef__uuid7(ef__engine_now(engine), id);
    /* A random suffix: a restarted process must not be taken for the one before it. */
    (void)snprintf(engine->worker, sizeof engine->worker, "%s-%ld-%s", host, (long)getpid(),
                   id + 24);
}

/* Can a commit of the views include an ack of the journal? If unknown they are treated as separate,
 * which is as safe: watermarks drop what is delivered again. */
static bool stores_join(ef_journal *journal, ef_views *views)
{
    char a[EF__JOURNAL_DATABASE_MAX], b[EF__VIEWS_DATABASE_MAX];

    return journal->store->database && views->ops->database &&
           journal->store->database(journal, a, NULL) == EF_OK &&
           views->ops->database(views, b, NULL) == EF_OK && a[0] && strcmp(a, b) == 0;
}

ef_status ef__engine_open_on(const ef_engine_options *options, ef_views *views, ef_engine **out,
                             ef_error *err)
{
    ef_engine *engine = calloc(1, sizeof *engine);
    ef_status st;

    *out = NULL;
    if (!engine) {
        ef__views_close(views);
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening the engine");
    }
    engine->options = *options;
    engine->options.clock = options->clock ? options->clock : ef_clock_system();
    if (engine->options.live_lag_ms <= 0)
        engine->options.live_lag_ms = EF__ENGINE_LIVE_LAG_MS;
    engine->journal = options->journal;
    engine->views = views;
    engine->joined = stores_join(options->journal, views);
    engine->view_caches_bytes = EF__VIEW_CACHES_BYTES;
    engine->cursor_batch = options->catch_up_batch      ? options->catch_up_batch
                           : views->ops->catch_up_batch ? views->ops->catch_up_batch
                                                        : EF__ENGINE_CATCH_UP_BATCH;
    engine->run_batch = options->run_batch ? options->run_batch : EF__ENGINE_BATCH;
    ef__engine_lease_times(engine, NULL);
    pthread_mutex_init(&engine->lock, NULL);
    ef__read_waits_open(&engine->read_waits);
    pthread_mutex_init(&engine->minutes.lock, NULL);
    pthread_mutex_init(&engine->large_views.lock, NULL);
    pthread_mutex_init(&engine->skips_lock, NULL);
    ef__queue_driver_init(&engine->queue, engine);
    ef__cursor_driver_init(&engine->cursor);
    ef__run_driver_init(&engine->runs);
    ef__publisher_driver_init(&engine->publishers);
    name_worker(engine);
    st = ef__retry_policies_choose(options, &engine->retry, err);
    if (st == EF_OK)
        st = ef__membership_open(&engine->queue.membership, err);
    if (st != EF_OK) {
        ef__engine_abandon(engine);
        return st;
    }
    *out = engine;
    return EF_OK;
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
    if (st == EF_OK)
        st = ef__engine_open_on(options, views, out, err);
    if (st == EF_OK && !options->read_only)
        st = ef__views_upgrade(*out, err);
    if (st != EF_OK && *out) {
        ef__engine_abandon(*out);
        *out = NULL;
    }
    return st;
}

ef_status ef_engine_backup_views(ef_engine *engine, const ef_backup_options *options, ef_error *err)
{
    if (!engine || !options || !options->path)
        return ef_fail(err, EF_BAD_INPUT, "an engine and a path are needed to back up views");
    if (!engine->views->ops->backup)
        return ef_fail(err, EF_UNSUPPORTED,
                       "views on %s are not copied to a file: use the backup of that store",
                       engine->views->ops->name);
    return engine->views->ops->backup(engine->views, options, err);
}

void ef_engine_close(ef_engine *engine)
{
    if (!engine)
        return;
    ef__publisher_driver_close(engine, false);
    ef__run_leave(engine);
    ef__membership_leave(&engine->queue.membership);
    ef__scopes_prune(engine, true);
    ef__engine_abandon(engine);
}

void ef__engine_abandon(ef_engine *engine)
{
    ef__publisher_driver_close(engine, true);
    ef__publisher_driver_release(&engine->publishers);
    ef__run_driver_release(&engine->runs);
    ef__cursor_driver_release(&engine->cursor);
    ef__queue_driver_release(&engine->queue);
    ef__skips_release(engine);
    ef__read_targets_release(engine);
    while (engine->compiled) {
        ef__compiled *next = engine->compiled->next;
        ef__program_close(engine->compiled->program);
        free(engine->compiled);
        engine->compiled = next;
    }
    ef__c_functions_release(engine->functions);
    ef__views_close(engine->views);
    pthread_mutex_destroy(&engine->lock);
    ef__read_waits_close(&engine->read_waits);
    pthread_mutex_destroy(&engine->minutes.lock);
    pthread_mutex_destroy(&engine->large_views.lock);
    pthread_mutex_destroy(&engine->skips_lock);
    free(engine);
}

/* --- programs --------------------------------------------------------------------------------- */

static const ef__program *find_compiled(const ef_engine *engine, const ef__generation *generation)
{
    for (const ef__compiled *compiled = engine->compiled; compiled; compiled = compiled->next)
        if (compiled->generation == generation->id && compiled->hash == generation->program_hash)
            return compiled->program;
    return NULL;
}

static ef_status compile_program(ef_engine *engine, const ef__generation *generation,
                                 const ef__program **out, ef_error *err)
{
    ef__diagnostics *diagnostics = malloc(sizeof *diagnostics);
    ef__compiled *compiled = calloc(1, sizeof *compiled);
    ef_status st;

    if (!diagnostics || !compiled)
        st = ef_fail(err, EF_NO_MEMORY, "memory ran out while compiling a program");
    else if (ef__generation_in_c(generation))
        st = ef__c_function_compile(engine, generation, &compiled->program, err);
    else
        st = ef__program_compile(generation->name, generation->program, &compiled->program,
                                 diagnostics, err);
    free(diagnostics);
    if (st != EF_OK) {
        free(compiled);
        return st;
    }
    compiled->generation = generation->id;
    compiled->hash = generation->program_hash;
    compiled->next = engine->compiled;
    engine->compiled = compiled;
    *out = compiled->program;
    return EF_OK;
}

bool ef__engine_by_log(const ef_engine *engine, const ef__program *program)
{
    return ef__program_by_log(program) || ef__journal_is_sparse(engine->journal);
}

ef_status ef__engine_program(ef_engine *engine, const ef__generation *generation,
                             const ef__program **out, ef_error *err)
{
    ef_status st = EF_OK;

    pthread_mutex_lock(&engine->lock);
    *out = find_compiled(engine, generation);
    if (!*out)
        st = compile_program(engine, generation, out, err);
    pthread_mutex_unlock(&engine->lock);
    return st;
}

ef_status ef__live_set_read(ef_engine *engine, bool stream_ordered_live, ef__live_set *out,
                            ef_error *err)
{
    ef_status st;

    *out = (ef__live_set){0};
    /* The number is read first: a generation that goes live in between fails the commit, and the
     * apply starts over. */
    st = engine->views->ops->live_set_get(engine->views, &out->number, err);
    if (st == EF_OK)
        st = ef__engine_generations(engine, (ef_str){0}, &out->list, err);
    if (st == EF_OK) {
        out->items = calloc(out->list.count + 1, sizeof *out->items);
        st = out->items ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++) {
        const ef__generation *generation = &out->list.items[i];
        bool wanted = stream_ordered_live
                          ? generation->state == EF__GENERATION_LIVE && !generation->by_log
                          : generation->state != EF__GENERATION_RETIRED;
        if (!wanted || ef__c_function_missing(engine, generation))
            continue;
        out->items[out->count].generation = generation;
        out->items[out->count].keeps_rows = ef__generation_keeps_rows(&out->list, generation);
        st = ef__engine_program(engine, generation, &out->items[out->count].program, err);
        out->count += st == EF_OK;
    }
    if (st != EF_OK)
        ef__live_set_release(out);
    return st;
}

void ef__live_set_release(ef__live_set *set)
{
    free(set->items);
    ef_memory_release(&set->list.room);
    *set = (ef__live_set){0};
}

ef_status ef__engine_generations(ef_engine *engine, ef_str name, ef__generation_list *out,
                                 ef_error *err)
{
    ef_status st = ef__memory_prepare(&out->room, err);

    return st == EF_OK ? engine->views->ops->generation_ls(engine->views, name, out, err) : st;
}

ef_status ef__engine_active_generation(ef_engine *engine, ef_str name, ef__generation_list *list,
                                       const ef__generation **out, ef_error *err)
{
    ef_status st = ef__engine_generations(engine, name, list, err);

    *out = NULL;
    for (size_t i = 0; st == EF_OK && i < list->count; i++)
        if (list->items[i].active)
            *out = &list->items[i];
    if (st == EF_OK && !*out)
        st = ef__projection_unknown(engine, name, err);
    return st;
}

ef_status ef__engine_audit(ef_engine *engine, const char *act, ef_str projection, int64_t number,
                           ef_str actor, ef_str reason, ef_error *err)
{
    if (actor.len == 0)
        return EF_OK;
    return ef_audit_add(engine->journal,
                        &(ef_audit_entry){.action = ef_str_from(act),
                                          .actor = actor,
                                          .reason = reason,
                                          .lane = projection,
                                          .seq = number},
                        err);
}
