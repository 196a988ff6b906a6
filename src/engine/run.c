/*
 * run.c - see run.h: the lease of a run, its detail, its steps and its end.
 */
#include "run.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../core/run_rule.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define OPEN_RUNS_MAX 1000
#define RECHECK_US 200000

/* --- the detail ------------------------------------------------------------------------------- */

typedef enum field_kind { FIELD_INT, FIELD_BOOL, FIELD_STATE, FIELD_STR, FIELD_JSON } field_kind;

static const char *const STATES[] = {"requested", "reserved", "replaced",
                                     "compared",  "switched", "adopted"};

static const struct field {
    const char *key;
    field_kind kind;
    size_t at;
} FIELDS[] = {
#define FIELD(name, kind) FIELD_AT(#name, name, kind)
#define REPLAY(name, kind) FIELD_AT(#name, replay.name, kind)
#define COUNT(name) FIELD_AT(#name, counts.name, FIELD_INT)
#define FIELD_AT(key, member, kind)                                                                \
    {                                                                                              \
        key, kind, offsetof(ef__detail, member)                                                    \
    }
    REPLAY(stream, FIELD_STR),
    REPLAY(type, FIELD_STR),
    FIELD_AT("all_tenants", replay.any_tenant, FIELD_BOOL),
    REPLAY(from_us, FIELD_INT),
    REPLAY(to_us, FIELD_INT),
    REPLAY(after_seq, FIELD_INT),
    REPLAY(until_seq, FIELD_INT),
    FIELD(in_place, FIELD_BOOL),
    FIELD(no_switch, FIELD_BOOL),
    FIELD(switch_anyway, FIELD_BOOL),
    FIELD_AT("upper", replay.to, FIELD_INT),
    FIELD(last_seq, FIELD_INT),
    FIELD(generation, FIELD_INT),
    FIELD(built, FIELD_INT),
    FIELD(rebuild, FIELD_STATE),
    COUNT(applied),
    COUNT(duplicates),
    COUNT(ignored),
    COUNT(failed),
    COUNT(deferred),
    FIELD(views, FIELD_INT),
    FIELD(differences, FIELD_INT),
    FIELD(examples, FIELD_JSON),
#undef COUNT
#undef REPLAY
#undef FIELD
#undef FIELD_AT
};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])

/* Without a state in the record, it follows from the number of the new generation; in a record of
 * an earlier version, from three keys. */
static ef__rebuild_state state_without_name(const ef__json *tree, int64_t built)
{
    static const char *const KEYS[] = {"swapped", "compared", "switched"};
    bool is_true[3];

    for (size_t i = 0; i < 3; i++) {
        const ef__json *found = ef__json_get(tree, KEYS[i]);
        is_true[i] = found && found->kind == EF__JSON_TRUE;
    }
    return is_true[0]   ? EF__REBUILD_REPLACED
           : is_true[1] ? (is_true[2] ? EF__REBUILD_SWITCHED : EF__REBUILD_COMPARED)
           : is_true[2] ? EF__REBUILD_ADOPTED
           : built      ? EF__REBUILD_RESERVED
                        : EF__REBUILD_REQUESTED;
}

ef_status ef__detail_parse(ef_str text, ef__arena *arena, ef__detail *out, ef_error *err)
{
    ef__json *tree = NULL;
    ef_status st;

    *out = (ef__detail){0};
    if (text.len == 0)
        return EF_OK;
    st = ef__json_parse(text, EF_LIMIT_DETAIL_BYTES, arena, &tree, err);
    for (size_t i = 0; st == EF_OK && i < FIELD_COUNT; i++) {
        const ef__json *found = ef__json_get(tree, FIELDS[i].key);
        char *at = (char *)out + FIELDS[i].at;
        if (!found)
            continue;
        if (FIELDS[i].kind == FIELD_INT)
            (void)ef__json_int64(found, (int64_t *)(void *)at);
        else if (FIELDS[i].kind == FIELD_BOOL)
            *(bool *)at = found->kind == EF__JSON_TRUE;
        else if (FIELDS[i].kind == FIELD_STATE)
            for (size_t n = 0; n < sizeof STATES / sizeof STATES[0]; n++)
                out->rebuild = ef_str_equal(found->text, ef_str_from(STATES[n]))
                                   ? (ef__rebuild_state)n
                                   : out->rebuild;
        else
            *(ef_str *)(void *)at = found->text;
    }
    if (st == EF_OK && out->rebuild == EF__REBUILD_REQUESTED)
        out->rebuild = state_without_name(tree, out->built);
    return st;
}

static void write_field(ef__json_writer *writer, const struct field *field, const void *at)
{
    ef_str text = field->kind < FIELD_STR ? (ef_str){0} : *(const ef_str *)at;

    if (field->kind == FIELD_STATE && *(const ef__rebuild_state *)at > EF__REBUILD_RESERVED)
        text = ef_str_from(STATES[*(const ef__rebuild_state *)at]);
    if (field->kind == FIELD_INT    ? *(const int64_t *)at == 0
        : field->kind == FIELD_BOOL ? !*(const bool *)at
                                    : text.len == 0)
        return;
    ef__json_key(writer, field->key);
    if (field->kind == FIELD_INT)
        ef__json_int(writer, *(const int64_t *)at);
    else if (field->kind == FIELD_BOOL)
        ef__json_bool(writer, true);
    else if (field->kind != FIELD_JSON)
        ef__json_str(writer, text);
    else
        ef__json_raw(writer, text);
}

bool ef__detail_write(const ef__detail *detail, ef__buf *out)
{
    ef__json_writer writer = EF__JSON_WRITER(out);

    ef__json_open(&writer, '{');
    for (size_t i = 0; i < FIELD_COUNT; i++)
        write_field(&writer, &FIELDS[i], (const char *)detail + FIELDS[i].at);
    ef__json_close(&writer, '}');
    return !out->failed;
}

/* --- adding and storing ----------------------------------------------------------------------- */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in a run");
}

ef_status ef__run_file(ef_engine *engine, const ef_run *run, const ef__detail *detail,
                       ef_run_list *out, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES);
    ef_run made = *run;
    ef_status st;

    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__detail_write(detail, &text) ? EF_OK : no_memory(err);
    made.detail = ef__buf_str(&text);
    return st == EF_OK ? ef__run_request(engine->journal, &made, out, err) : st;
}

ef_status ef__run_save(ef__run_drive *drive, ef_error *err)
{
    EF__AUTO(ef__buf) text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES);
    ef_status st = ef__detail_write(&drive->detail, &text) ? EF_OK : no_memory(err);

    drive->run.detail = ef__buf_str(&text);
    if (st == EF_OK)
        st = ef__run_update(drive->engine->journal, &drive->run, &drive->key, drive->token, err);
    drive->run.detail = (ef_str){0};
    return st;
}

/* --- the lease -------------------------------------------------------------------------------- */

static void scope_of(const ef_run *run, char out[EF__SCOPE_MAX])
{
    (void)snprintf(out, EF__SCOPE_MAX, "%.*s:%.*s", EF_STR_ARG(run->tenant),
                   EF_STR_ARG(run->projection));
}

/* Within a third of the lease no store is asked. */
ef_status ef__run_claim(ef__run_drive *drive, ef_error *err)
{
    ef__run_lease *hold = &drive->engine->runs.lease;
    char scope[EF__SCOPE_MAX];
    int64_t until_us;
    ef_status st;

    assert(ef__mutex_is_locked(&drive->engine->runs.lock));
    scope_of(&drive->run, scope);
    if (hold->token && strcmp(scope, hold->scope) != 0)
        ef__run_leave(drive->engine);
    memcpy(hold->scope, scope, sizeof scope);
    drive->key = (ef_lease_key){EF_LEASE_RUN, ef_str_from(hold->scope), -1};
    drive->token = hold->token;
    if (hold->token &&
        ef__engine_mono_us(drive->engine) - hold->renewed_us < drive->engine->renew_ms * 1000)
        return EF_OK;
    st = ef__lease_acquire_one(drive->engine->journal, &drive->key,
                               ef_str_from(drive->engine->worker), drive->engine->lease_ms,
                               &drive->token, &until_us, err);
    if (st == EF_OK) {
        hold->token = drive->token;
        hold->renewed_us = ef__engine_mono_us(drive->engine);
    } else if (st ==
               EF_LEASE_HELD) { /* after another failure the lease may be ours, to be released */
        hold->token = 0;
    }
    return st;
}

void ef__run_leave(ef_engine *engine)
{
    ef_lease_key key = {EF_LEASE_RUN, ef_str_from(engine->runs.lease.scope), -1};
    ef_error ignored = EF_ERROR_INIT;

    if (engine->runs.lease.token)
        (void)ef__lease_release_one(engine->journal, &key, engine->runs.lease.token, &ignored);
    engine->runs.lease.token = 0;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* A store is unavailable or memory is short: the run itself has not failed, and continues later. */
static bool is_outage(ef_status st)
{
    ef_next next = ef_status_describe(st)->next;

    return st == EF_IO || next == EF_NEXT_CHECK || (next == EF_NEXT_RETRY && st != EF_LEASE_HELD);
}

/* Another worker drives the run now, or changed values that the step had read. */
static bool is_overtaken(ef_status st)
{
    return st == EF_CONFLICT || st == EF_LEASE_HELD || st == EF_LEASE_LOST;
}

static ef_status step_mode(ef__run_drive *drive, ef_error *err)
{
    switch (drive->run.mode) {
    case EF_RUN_REPLAY:
        return ef__replay_step(drive, err);
    case EF_RUN_REBUILD:
    case EF_RUN_VERIFY:
        return ef__rebuild_step(drive, err);
    case EF_RUN_SEED:
        break;
    }
    return ef_fail(
        err, EF_UNSUPPORTED,
        "run \"%.*s\" has no driver: the process that requested it has ended; request it "
        "again",
        EF_STR_ARG(drive->run.id));
}

/* queued | running -> running -> completed | failed | cancelled */
static ef_status step_run(ef__run_drive *drive, ef_error *err)
{
    bool was_troubled = drive->run.error.len > 0;
    ef_error why = EF_ERROR_INIT;
    ef_status st = EF_OK;

    drive->run.error = (ef_str){0};
    if (drive->run.state == EF_RUN_QUEUED && !drive->run.cancel) {
        drive->run.state = EF_RUN_RUNNING;
        if ((st = ef__run_save(drive, err)) != EF_OK)
            return st;
    }
    if (drive->run.cancel) {
        bool done; /* by a step whose response was lost: then it is too late to cancel */
        if ((st = ef__rebuild_is_done(drive, &done, err)) != EF_OK)
            return st;
        drive->run.state = done ? EF_RUN_COMPLETED : EF_RUN_CANCELLED;
    } else if ((st = step_mode(drive, &why)) != EF_OK && !is_outage(st) && !is_overtaken(st)) {
        drive->run.state = EF_RUN_FAILED;
        drive->run.error = ef_str_from(why.text);
    } else if (st != EF_OK) {
        if (err)
            *err = why;
        return st;
    }
    if (drive->run.state == EF_RUN_CANCELLED || drive->run.state == EF_RUN_FAILED)
        if ((st = ef__rebuild_undo(drive, err)) != EF_OK)
            return st;
    if (drive->idle && drive->run.state == EF_RUN_RUNNING && !was_troubled)
        return EF_OK;
    return ef__run_save(drive, err);
}

/* --- outages ---------------------------------------------------------------------------------- */

static ef__run_backoff *find_backoff(ef_engine *engine, ef_str id)
{
    for (size_t i = 0; i < EF__RUN_BACKOFFS; i++)
        if (ef_str_equal(ef_str_from(engine->runs.backoffs[i].id), id))
            return &engine->runs.backoffs[i];
    return NULL;
}

/* A free entry, or the one that is due first. */
static ef__run_backoff *add_backoff(ef_engine *engine, ef_str id)
{
    ef__run_backoff *chosen = &engine->runs.backoffs[0];

    for (size_t i = 0; i < EF__RUN_BACKOFFS; i++) {
        ef__run_backoff *backoff = &engine->runs.backoffs[i];
        if (!backoff->id[0] || (chosen->id[0] && backoff->next_try_us < chosen->next_try_us))
            chosen = backoff;
    }
    *chosen = (ef__run_backoff){0};
    (void)snprintf(chosen->id, sizeof chosen->id, "%.*s", EF_STR_ARG(id));
    return chosen;
}

/* Backs off, and stores the reason in the run if the journal is available. `run` is as it was read:
 * the step may have changed drive->run. */
static void record_outage(ef__run_drive *drive, const ef_run *run, const ef_error *why)
{
    ef_engine *engine = drive->engine;
    ef__run_backoff *backoff = find_backoff(engine, run->id);
    ef_error ignored = EF_ERROR_INIT;
    ef__retry_step step;
    ef_run reported = *run;

    if (!backoff)
        backoff = add_backoff(engine, run->id);
    step = ef__retry_decide(&ef__retry_store, backoff->failures, EF__ERROR_TRANSIENT,
                            (uint64_t)ef__engine_mono_us(engine));
    backoff->failures = step.attempts;
    backoff->next_try_us = ef__engine_mono_us(engine) + step.delay_ms * 1000;
    ef__log(engine->options.log, EF_LOG_WARN, "run waits for a store",
            EF_LOG_TEXT_FIELD("run", run->id), EF_LOG_TEXT_FIELD("error", ef_str_from(why->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    reported.state = EF_RUN_RUNNING;
    reported.error = ef_str_from(why->text);
    reported.detail = (ef_str){0};
    if (!ef_str_equal(reported.error, run->error) && drive->token)
        (void)ef__run_update(engine->journal, &reported, &drive->key, drive->token, &ignored);
}

/* The caller polls again within `in_us`. */
static void poll_within(const ef_engine *engine, int64_t in_us, ef_tick *tick)
{
    ef__tick_wake_at(tick, ef__engine_now(engine) + in_us);
}

/* Is the run in back-off? Then the caller polls again when it ends. */
static bool is_backing_off(ef_engine *engine, const ef_run *run, ef_tick *tick)
{
    const ef__run_backoff *backoff = find_backoff(engine, run->id);
    int64_t left_us = backoff ? backoff->next_try_us - ef__engine_mono_us(engine) : 0;

    if (left_us <= 0)
        return false;
    poll_within(engine, left_us, tick);
    return true;
}

/* Drives the run, read again under its lease. */
static ef_status drive_run(ef_engine *engine, const ef_run *seen, ef_tick *tick, bool *out_idle,
                           ef_error *err)
{
    ef__run_backoff *backoff;
    ef_error why = EF_ERROR_INIT;
    EF__AUTO(ef_run_list) fresh = {0};
    ef__run_drive d = {.engine = engine,
                       .run = *seen,
                       .tick = tick,
                       .arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES)};
    ef_status st = ef__run_claim(&d, &why);

    *out_idle = true;
    if (st == EF_LEASE_HELD)
        return EF_OK;
    if (st == EF_OK)
        st = ef_run_ls(engine->journal, &(ef_run_query){.id = &seen->id}, &fresh, &why);
    if (st == EF_OK) {
        d.run = fresh.items[0];
        st = ef__detail_parse(d.run.detail, &d.arena, &d.detail, &why);
    }
    if (st == EF_OK && ef__run_is_open(d.run.state))
        st = step_run(&d, &why);
    *out_idle = d.idle || is_outage(st);
    backoff = find_backoff(engine, seen->id);
    if (is_outage(st))
        record_outage(&d, fresh.count ? &fresh.items[0] : seen, &why);
    else if (backoff)
        backoff->id[0] = '\0';
    if (st == EF_OK && !ef__run_is_open(d.run.state))
        ef__run_leave(engine);
    if (st == EF_LEASE_LOST)
        engine->runs.lease.token = 0;
    ef__arena_release(&d.arena);
    return st == EF_OK || is_outage(st) || is_overtaken(st) ? EF_OK
                                                            : ef_fail(err, st, "%s", why.text);
}

/* Has another worker a live lease of the run's scope? */
static bool is_held(const ef_engine *engine, const ef_lease_list *leases, const ef_run *run)
{
    char scope[EF__SCOPE_MAX];

    scope_of(run, scope);
    for (size_t i = 0; i < leases->count; i++)
        if (leases->items[i].live && ef_str_equal(leases->items[i].key.name, ef_str_from(scope)))
            return !ef_str_equal(leases->items[i].holder, ef_str_from(engine->worker));
    return false;
}

/* Steps the oldest run that this worker may drive; `only`: "" or the id of a run. */
static ef_status step_one(ef_engine *engine, ef_str only, ef_tick *tick, bool *out_idle,
                          ef_error *err)
{
    EF__AUTO(ef_run_list) runs = {0};
    EF__AUTO(ef_lease_list) leases = {0};
    const ef_run *chosen = NULL;
    ef_lease_kind kind = EF_LEASE_RUN;
    ef_status st = ef_run_ls(
        engine->journal, &(ef_run_query){.open_only = true, .limit = OPEN_RUNS_MAX}, &runs, err);

    *out_idle = true;
    if (st == EF_OK && runs.count)
        st = ef_lease_ls(engine->journal, &kind, &leases, err);
    for (size_t i = runs.count; st == EF_OK && !chosen && i-- > 0;)
        if ((only.len == 0 || ef_str_equal(runs.items[i].id, only)) &&
            !is_held(engine, &leases, &runs.items[i]) &&
            !is_backing_off(engine, &runs.items[i], tick))
            chosen = &runs.items[i];
    if (st == EF_OK && chosen)
        st = drive_run(engine, chosen, tick, out_idle, err);
    tick->more = tick->more || !*out_idle;
    if (st == EF_OK && runs.count && *out_idle) /* another worker drives it: poll soon */
        poll_within(engine, RECHECK_US, tick);
    return st;
}

static ef_status locked_step(ef_engine *engine, ef_str only, ef_tick *tick, bool *out_idle,
                             ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&engine->runs.lock);
    st = step_one(engine, only, tick, out_idle, err);
    pthread_mutex_unlock(&engine->runs.lock);
    return st;
}

ef_status ef__run_driver_step(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                              ef_error *err)
{
    bool idle;

    (void)options;
    return locked_step(engine, (ef_str){0}, tick, &idle, err);
}

/* --- in the caller's thread ------------------------------------------------------------------- */

/* An idle worker does not count: if it was killed, that is only noticed minutes later. */
ef_status ef__worker_is_alone(ef_engine *engine, bool *out, ef_error *err)
{
    EF__AUTO(ef_worker_list) workers = {0};
    ef_status st = ef_worker_ls(engine->journal, &workers, err);

    *out = true;
    for (size_t i = 0; st == EF_OK && i < workers.count; i++)
        if (workers.items[i].live && workers.items[i].state != EF_WORKER_IDLE &&
            !ef_str_equal(workers.items[i].id, ef_str_from(engine->worker)))
            *out = false;
    return st;
}

static ef_status foreground_step(ef_engine *engine, ef_str id, bool *out_idle, ef_error *err)
{
    ef_tick tick = {0};
    bool alone, idle = true;
    ef_status st = ef__cursor_driver_step(engine, NULL, &tick, err);

    if (st == EF_OK)
        st = locked_step(engine, id, &tick, &idle, err);
    if (st == EF_OK && idle)
        st = ef__worker_is_alone(engine, &alone, err);
    if (st == EF_OK && idle && alone)
        st = ef__queue_driver_step(engine, &(ef_work_options){0}, &tick, err);
    *out_idle = !tick.more && tick.caught_up + tick.claimed + tick.run_events == 0;
    return st;
}

static bool run_continues(const ef_run_options *options, const ef_run *run, bool idle)
{
    return options && options->progress ? options->progress(options->context, run, idle) : !idle;
}

/* A step, then the run read again. While a store is unavailable, the last state with the reason. */
static ef_status step_and_read(ef_engine *engine, ef_str id, const ef_run_options *options,
                               ef_run_list *list, bool *out_go_on, ef_error *err)
{
    ef_run_list fresh = {0};
    bool idle = true;
    ef_status st = foreground_step(engine, id, &idle, err);

    if (st == EF_OK)
        st = ef_run_ls(engine->journal, &(ef_run_query){.id = &id}, &fresh, err);
    if (st == EF_OK) {
        EF_RELEASE(list);
        *list = fresh;
        *out_go_on = run_continues(options, &list->items[0], idle);
        return EF_OK;
    }
    EF_RELEASE(&fresh);
    if (!is_outage(st) || !options || !options->progress)
        return st;
    ef_run reported = list->items[0];
    reported.error = err ? ef_str_from(err->text) : ef_str_from(ef_status_describe(st)->message);
    *out_go_on = run_continues(options, &reported, true);
    return EF_OK;
}

ef_status ef_engine_run(ef_engine *engine, ef_str id, const ef_run_options *options,
                        ef_run_list *out, ef_error *err)
{
    bool go_on = true;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    if (engine->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef_run_ls(engine->journal, &(ef_run_query){.id = &id}, out, err);
    while (st == EF_OK && go_on && ef__run_is_open(out->items[0].state))
        st = step_and_read(engine, id, options, out, &go_on, err);
    return st;
}

/* --- results ---------------------------------------------------------------------------------- */

ef_status ef_run_verdict(const ef_run *run, ef_verdict *out, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES);
    ef__detail detail;
    ef_status st = ef__detail_parse(run->detail, &arena, &detail, err);

    *out = (ef_verdict){.generation = (int32_t)detail.generation,
                        .built = (int32_t)detail.built,
                        .compared = detail.rebuild == EF__REBUILD_COMPARED ||
                                    detail.rebuild == EF__REBUILD_SWITCHED,
                        .switched = detail.rebuild >= EF__REBUILD_SWITCHED,
                        .views = detail.views,
                        .differences = detail.differences,
                        .examples = detail.examples}; /* points into run->detail, not the arena */
    return st;
}

ef_status ef_run_replay_result(const ef_run *run, ef_replay_result *out, ef_error *err)
{
    EF__AUTO(ef__arena) arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES);
    ef__detail detail;
    ef_status st = ef__detail_parse(run->detail, &arena, &detail, err);

    *out = detail.counts;
    out->events = run->processed;
    return st;
}
