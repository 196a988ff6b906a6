/*
 * engine.c - opening and closing an engine, its options, its programs and generations, and a tick.
 */
#include "engine_priv.h"
#include "queue.h"
#include "publish.h"
#include "read.h"
#include "run.h"
#include "scope.h"
#include "view_cache.h"
#include "apply.h"

#include "../base/hash.h"
#include "../base/limits.h"
#include "../base/logger.h"
#include "../base/settings.h"
#include "../journal/journal.h"

#include <everfold/store.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ATTEMPTS_NEVER (-1)
#define FACTOR_MAX 100
#define NAMES_MAX 1000
#define SCHEMA_BYTES_MAX (4u << 20)

/* --- retry policies --------------------------------------------------------------------------- */

static ef_status check_policy(const char *name, const ef__retry_policy *policy, ef_error *err)
{
    if (policy->base_ms < 1)
        return ef_fail(err, EF_BAD_INPUT, "%s: base_ms is %" PRId64 ", minimum is 1", name,
                       policy->base_ms);
    if (policy->factor < 1 || policy->factor > FACTOR_MAX)
        return ef_fail(err, EF_BAD_INPUT, "%s: factor is %" PRId64 ", it is 1 to %d", name,
                       policy->factor, FACTOR_MAX);
    if (policy->cap_ms < policy->base_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s: cap_ms is %" PRId64 ", which is less than base_ms, %" PRId64, name,
                       policy->cap_ms, policy->base_ms);
    if (policy->attempts_max < 0 || policy->attempts_max > INT32_MAX)
        return ef_fail(err, EF_BAD_INPUT,
                       "%s: attempts_max is %" PRId64 ", it is 1 to %d, or -1 for no limit", name,
                       policy->attempts_max, INT32_MAX);
    return EF_OK;
}

/* Fields that are not set get the default; a cap that is not set is at least the base. */
static ef_status choose_policy(const char *name, const ef__retry_policy *standard,
                               const ef_retry_options *given, ef__retry_policy *out, ef_error *err)
{
    *out = *standard;
    if (given->base_ms)
        out->base_ms = given->base_ms;
    if (given->factor)
        out->factor = given->factor;
    if (given->cap_ms)
        out->cap_ms = given->cap_ms;
    else if (out->cap_ms < out->base_ms)
        out->cap_ms = out->base_ms;
    if (given->attempts_max)
        out->attempts_max = given->attempts_max == ATTEMPTS_NEVER ? 0 : given->attempts_max;
    return check_policy(name, out, err);
}

/* EF_BAD_INPUT names the policy and the value. */
static ef_status choose_policies(const ef_engine_options *options, ef__retry_policies *out,
                                 ef_error *err)
{
    ef_status st =
        choose_policy("retry_apply", &ef__retry_apply, &options->retry_apply, &out->apply, err);

    if (st == EF_OK)
        st = choose_policy("retry_cursor", &ef__retry_cursor, &options->retry_cursor, &out->cursor,
                           err);
    if (st == EF_OK)
        st = choose_policy("retry_publish", &ef__retry_publish, &options->retry_publish,
                           &out->publish, err);
    return st;
}

ef__retry_policy ef__retry_of_publisher(const ef__retry_policies *policies, int64_t retry_ms,
                                        int64_t attempts_max)
{
    ef__retry_policy policy = policies->publish;

    policy.base_ms = retry_ms;
    policy.attempts_max = attempts_max;
    if (policy.cap_ms < retry_ms)
        policy.cap_ms = retry_ms;
    return policy;
}

/* --- leases and heartbeats -------------------------------------------------------------------- */

ef__lease_times ef__lease_times_of(const ef_work_options *options)
{
    ef__lease_times times = {.lease_ms = options && options->lease_ms ? options->lease_ms
                                                                      : EF__ENGINE_LEASE_MS};

    times.heartbeat_ms =
        options && options->heartbeat_ms ? options->heartbeat_ms : 2 * times.lease_ms;
    if (times.heartbeat_ms > EF_LIMIT_LEASE_MS)
        times.heartbeat_ms = EF_LIMIT_LEASE_MS;
    times.renew_ms = options ? options->renew_ms : 0;
    if (!times.renew_ms) {
        /* A third of the shorter one: the lease, or the time after which the worker is late. */
        int64_t late_ms = times.heartbeat_ms / 2;
        times.renew_ms = (late_ms < times.lease_ms ? late_ms : times.lease_ms) / 3;
    }
    if (times.renew_ms < 1)
        times.renew_ms = 1;
    return times;
}

ef_status ef__work_options_check(const ef_work_options *options, ef_error *err)
{
    ef__lease_times times = ef__lease_times_of(options);

    if (!options)
        return EF_OK;
    if (options->lease_ms < 0 || options->renew_ms < 0 || options->heartbeat_ms < 0)
        return ef_fail(err, EF_BAD_INPUT,
                       "lease_ms, renew_ms and heartbeat_ms must not be negative");
    if (times.lease_ms > 1 && times.renew_ms >= times.lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "renew_ms is %" PRId64 " and lease_ms is %" PRId64
                       ": a lease has to be renewed before it ends",
                       times.renew_ms, times.lease_ms);
    if (times.heartbeat_ms < times.lease_ms)
        return ef_fail(err, EF_BAD_INPUT,
                       "heartbeat_ms is %" PRId64 " and lease_ms is %" PRId64
                       ": a heartbeat has to last as long as a lease",
                       times.heartbeat_ms, times.lease_ms);
    if (times.heartbeat_ms > 2 && times.renew_ms >= times.heartbeat_ms / 2)
        return ef_fail(err, EF_BAD_INPUT,
                       "renew_ms is %" PRId64 " and heartbeat_ms is %" PRId64
                       ": a worker is late when half of its heartbeat passes without a renewal",
                       times.renew_ms, times.heartbeat_ms);
    return EF_OK;
}

/* --- opening and closing ---------------------------------------------------------------------- */

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

static void init_locks(ef_engine *engine, bool is_opening)
{
    pthread_mutex_t *locks[] = {&engine->lock,
                                &engine->skips_lock,
                                &engine->queue.lock,
                                &engine->cursor.lock,
                                &engine->runs.lock,
                                &engine->publishers.lock,
                                &engine->publishers.health_lock};

    for (size_t i = 0; i < sizeof locks / sizeof locks[0]; i++)
        (void)(is_opening ? pthread_mutex_init(locks[i], NULL) : pthread_mutex_destroy(locks[i]));
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
    engine->commit_outcomes = EF_LIMIT_COMMIT_OUTCOMES;
    engine->commit_bytes = EF_LIMIT_COMMIT_BYTES;
    engine->cursor_batch =
        options->catch_up_batch ? options->catch_up_batch : EF__ENGINE_CATCH_UP_BATCH;
    engine->cursor_read = EF__ENGINE_CATCH_UP_READ;
    engine->run_batch = options->run_batch ? options->run_batch : EF__ENGINE_BATCH;
    ef__engine_lease_times(engine, NULL);
    init_locks(engine, true);
    ef__read_waits_open(&engine->read_waits);
    engine->queue.membership.engine = engine;
    engine->queue.arena = (ef__arena)EF__ARENA_INIT(SIZE_MAX);
    engine->publishers.sink_open = ef__bus_open;
    name_worker(engine);
    st = choose_policies(options, &engine->retry, err);
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

ef_status ef_stores_schema(const char *journal_url, const char *views_url, ef_text *out,
                           ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(SCHEMA_BYTES_MAX);
    ef_status st;

    if (!journal_url || !views_url || !out)
        return ef_fail(err, EF_BAD_INPUT, "two URLs and out are needed");
    out->ptr = NULL;
    out->len = 0;
    /* A journal without a server has no schema to print, which is not an error here. */
    st = ef__journal_schema(journal_url, &text, err);
    if (st == EF_OK || st == EF_UNSUPPORTED)
        st = ef__views_schema(views_url, &text, err);
    return st == EF_OK ? ef__text_own(&text, out, err) : st;
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
    ef__view_caches_release(&engine->cursor.caches);
    ef__scopes_release(&engine->cursor);
    ef__view_caches_release(&engine->queue.caches);
    ef__membership_release(&engine->queue.membership);
    ef__arena_release(&engine->queue.arena);
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
    ef__read_waits_close(&engine->read_waits);
    init_locks(engine, false);
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
    ef__compiled *compiled = calloc(1, sizeof *compiled);
    ef_status st;

    if (!compiled)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while compiling a program");
    st = ef__generation_in_c(generation)
             ? ef__c_function_compile(engine, generation, &compiled->program, err)
             : ef__program_compile_reported(generation->name, generation->program,
                                            &compiled->program, NULL, err);
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
    EF__LOCK(&engine->lock);

    *out = find_compiled(engine, generation);
    return *out ? EF_OK : compile_program(engine, generation, out, err);
}

static bool is_chosen(const ef__live_choice *choice, const ef__generation *generation)
{
    return (choice->by_queue ? ef__generation_by_queue(generation)
                             : generation->state != EF__GENERATION_RETIRED) &&
           (!choice->generation || generation->id == choice->generation) &&
           (!choice->projection.len || ef_str_equal(generation->name, choice->projection));
}

ef_status ef__live_set_read(ef_engine *engine, const ef__live_choice *choice, ef__live_set *out,
                            ef_error *err)
{
    ef_status st;

    *out = (ef__live_set){0};
    /* A generation that goes live from now on fails the commit, and the apply starts over. */
    st = ef__engine_generations(engine, (ef_str){0}, &out->list, err);
    if (st == EF_OK) {
        out->items = calloc(out->list.count + 1, sizeof *out->items);
        st = out->items ? EF_OK : ef_fail(err, EF_NO_MEMORY, "memory ran out");
    }
    for (size_t i = 0; st == EF_OK && i < out->list.count; i++) {
        const ef__generation *generation = &out->list.items[i];
        if (!is_chosen(choice, generation) || ef__c_function_missing(engine, generation))
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

ef_status ef__generation_commit(ef_engine *engine, const ef__generation *generation,
                                ef__generation_change change, ef_error *err)
{
    change.generation = generation->id;
    change.era = generation->era;
    return engine->views->ops->commit(
        engine->views, &(ef__views_commit){.generations = &change, .generation_count = 1}, err);
}

void ef__live_set_release(ef__live_set *set)
{
    free(set->items);
    ef_memory_release(&set->list.room);
    *set = (ef__live_set){0};
}

/* --- generations ------------------------------------------------------------------------------ */

ef_status ef__engine_generations(ef_engine *engine, ef_str name, ef__generation_list *out,
                                 ef_error *err)
{
    return engine->views->ops->generation_ls(engine->views, name, out, err);
}

ef_status ef__generation_set_state(ef_engine *engine, const ef__generation *generation,
                                   ef__generation_state state, ef_error *err)
{
    return engine->views->ops->generation_change(engine->views, generation->id, generation->era,
                                                 state, NULL, err);
}

static const char *nearest_name(const ef__generation_list *list, ef_str name, ef__arena *arena)
{
    const char **names = ef__arena_zalloc(arena, NAMES_MAX, sizeof *names);
    size_t count = 0;

    for (size_t i = 0; names && i < list->count && count < NAMES_MAX; i++) {
        const char *copy = list->items[i].state == EF__GENERATION_RETIRED
                               ? NULL
                               : ef__arena_copy(arena, list->items[i].name).ptr;
        if (copy)
            names[count++] = copy;
    }
    return names ? ef__suggest(name, names, count) : NULL;
}

ef_status ef__projection_unknown(ef_engine *engine, ef_str name, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(1 << 20);
    const char *near = NULL;

    if (ef__engine_generations(engine, (ef_str){0}, &list, NULL) == EF_OK)
        near = nearest_name(&list, name, &arena);
    if (near)
        (void)ef_fail(err, EF_NOT_FOUND, "not found: projection \"%.*s\"; did you mean \"%s\"?",
                      EF_STR_ARG(name), near);
    else
        (void)ef_fail(err, EF_NOT_FOUND, "not found: projection \"%.*s\"", EF_STR_ARG(name));
    return EF_NOT_FOUND;
}

ef_status ef__engine_active_generation(ef_engine *engine, ef_str name, ef__generation_list *list,
                                       const ef__generation **out, ef_error *err)
{
    ef_status st = ef__engine_generations(engine, name, list, err);

    *out = st == EF_OK ? ef__generation_active(list) : NULL;
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

/* --- a tick ----------------------------------------------------------------------------------- */

ef_status ef_engine_work(ef_engine *engine, const ef_work_options *options, ef_tick *out,
                         ef_error *err)
{
    ef_work_options defaults = {0};
    ef_tick tick = {0};
    int64_t began_us;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    if (options && options->cursors_only) {
        *out = (ef_tick){0};
        st = ef__cursor_driver_step(engine, NULL, out, err);
        out->more = out->more || atomic_load(&engine->cursor.pauses);
        return st;
    }
    st = ef__work_options_check(options, err);
    if (st != EF_OK)
        return st;
    began_us = ef__engine_mono_us(engine);
    options = options ? options : &defaults;
    st = ef__queue_driver_step(engine, options, &tick, err);
    if (st == EF_OK)
        st = ef__cursor_driver_step(engine, options, &tick, err);
    tick.more = tick.more || atomic_load(&engine->cursor.pauses);
    if (st == EF_OK)
        st = ef__run_driver_step(engine, options, &tick, err);
    if (st == EF_OK)
        st = ef__publisher_driver_step(engine, options, &tick, err);
    tick.duration_us = ef__engine_mono_us(engine) - began_us;
    ef__count_tick(engine, "all", &tick, st);
    *out = tick;
    return st;
}
