/*
 * run.c - see run.h: who drives a run, its detail, and its end.
 */
#include "run.h"

#include "../base/json.h"
#include "../base/limits.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../core/run_rule.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define OPEN_RUNS_MAX 1000
#define LOOK_AGAIN_US 200000

/* --- the detail ------------------------------------------------------------------------------- */

typedef enum field_kind { FIELD_INT, FIELD_BOOL, FIELD_STR, FIELD_JSON } field_kind;

static const struct field {
    const char *key;
    field_kind kind;
    size_t at;
} FIELDS[] = {
#define FIELD(name, kind)                                                                          \
    {                                                                                              \
#name, kind, offsetof(ef__detail, name)                                                    \
    }
    FIELD(stream, FIELD_STR),         FIELD(type, FIELD_STR),       FIELD(all_tenants, FIELD_BOOL),
    FIELD(from_us, FIELD_INT),        FIELD(to_us, FIELD_INT),      FIELD(after_seq, FIELD_INT),
    FIELD(until_seq, FIELD_INT),      FIELD(in_place, FIELD_BOOL),  FIELD(no_switch, FIELD_BOOL),
    FIELD(switch_anyway, FIELD_BOOL), FIELD(upper, FIELD_INT),      FIELD(last_seq, FIELD_INT),
    FIELD(generation, FIELD_INT),     FIELD(built, FIELD_INT),      FIELD(swapped, FIELD_BOOL),
    FIELD(applied, FIELD_INT),        FIELD(duplicates, FIELD_INT), FIELD(ignored, FIELD_INT),
    FIELD(failed, FIELD_INT),         FIELD(deferred, FIELD_INT),   FIELD(compared, FIELD_BOOL),
    FIELD(switched, FIELD_BOOL),      FIELD(views, FIELD_INT),      FIELD(differences, FIELD_INT),
    FIELD(examples, FIELD_JSON),
#undef FIELD
};
#define FIELD_COUNT (sizeof FIELDS / sizeof FIELDS[0])

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
        else
            *(ef_str *)(void *)at = found->text;
    }
    return st;
}

static void write_field(ef__json_writer *w, const struct field *field, const void *at)
{
    ef_str text = field->kind < FIELD_STR ? (ef_str){0} : *(const ef_str *)at;

    if (field->kind == FIELD_INT    ? *(const int64_t *)at == 0
        : field->kind == FIELD_BOOL ? !*(const bool *)at
                                    : text.len == 0)
        return;
    ef__json_key(w, field->key);
    if (field->kind == FIELD_INT)
        ef__json_int(w, *(const int64_t *)at);
    else if (field->kind == FIELD_BOOL)
        ef__json_bool(w, true);
    else if (field->kind == FIELD_STR)
        ef__json_str(w, text);
    else
        ef__json_raw(w, text);
}

bool ef__detail_write(const ef__detail *detail, ef__buf *out)
{
    ef__json_writer w = EF__JSON_WRITER(out);

    ef__json_open(&w, '{');
    for (size_t i = 0; i < FIELD_COUNT; i++)
        write_field(&w, &FIELDS[i], (const char *)detail + FIELDS[i].at);
    ef__json_close(&w, '}');
    return !out->failed;
}

/* --- filing and saving ------------------------------------------------------------------------ */

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in a run");
}

ef_status ef__run_file(ef_engine *e, const ef_run *run, const ef__detail *detail, ef_run_list *out,
                       ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES);
    ef_run made = *run;
    ef_status st;

    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef__detail_write(detail, &text) ? EF_OK : no_memory(err);
    made.detail = ef__buf_str(&text);
    if (st == EF_OK)
        st = ef_run_request(e->journal, &made, out, err);
    ef__buf_release(&text);
    return st;
}

ef_status ef__run_save(ef__driven *d, ef_error *err)
{
    ef__buf text = EF__BUF_INIT(EF_LIMIT_DETAIL_BYTES);
    ef_status st = ef__detail_write(&d->detail, &text) ? EF_OK : no_memory(err);

    d->run.detail = ef__buf_str(&text);
    if (st == EF_OK)
        st = ef_run_update(d->engine->journal, &d->run, &d->key, d->token, err);
    d->run.detail = (ef_str){0};
    ef__buf_release(&text);
    return st;
}

/* --- the lease ---------------------------------------------------------------------------------
 */

static int64_t mono_us(const ef_engine *e)
{
    return e->options.clock->mono_us(e->options.clock->context);
}

static void scope_of(const ef_run *run, char out[EF__SCOPE_MAX])
{
    (void)snprintf(out, EF__SCOPE_MAX, "%.*s:%.*s", EF_STR_ARG(run->tenant),
                   EF_STR_ARG(run->projection));
}

/* Only our own clock and memory are asked while a third of the lease has not passed. */
ef_status ef__run_take(ef__driven *d, ef_error *err)
{
    ef__run_hold *hold = &d->engine->run_hold;
    char scope[EF__SCOPE_MAX];
    int64_t until_us;
    ef_status st;

    scope_of(&d->run, scope);
    if (hold->token && strcmp(scope, hold->scope) != 0)
        ef__run_leave(d->engine);
    memcpy(hold->scope, scope, sizeof scope);
    d->key = (ef_lease_key){EF_LEASE_RUN, ef_str_from(hold->scope), -1};
    d->token = hold->token;
    if (hold->token && mono_us(d->engine) - hold->renewed_us < d->engine->renew_ms * 1000)
        return EF_OK;
    st = ef_lease_acquire(d->engine->journal, &d->key, ef_str_from(d->engine->worker),
                          d->engine->lease_ms, &d->token, &until_us, err);
    if (st == EF_OK) {
        hold->token = d->token;
        hold->renewed_us = mono_us(d->engine);
    } else if (st ==
               EF_LEASE_HELD) { /* otherwise one that we have is still ours, to be given back */
        hold->token = 0;
    }
    return st;
}

void ef__run_leave(ef_engine *e)
{
    ef_lease_key key = {EF_LEASE_RUN, ef_str_from(e->run_hold.scope), -1};
    ef_error ignored = EF_ERROR_INIT;

    if (e->run_hold.token)
        (void)ef_lease_release(e->journal, &key, e->run_hold.token, &ignored);
    e->run_hold.token = 0;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* A store is not at hand, or memory is short: it says nothing about the run, which goes on when
 * that is over. */
static bool is_outage(ef_status st)
{
    ef_next next = ef_status_next(st);

    return st == EF_IO || next == EF_NEXT_LOOK || (next == EF_NEXT_RETRY && st != EF_LEASE_HELD);
}

/* Somebody else was quicker, or drives it now. */
static bool is_overtaken(ef_status st)
{
    return st == EF_CONFLICT || st == EF_LEASE_HELD || st == EF_LEASE_LOST;
}

static ef_status step_mode(ef__driven *d, ef_error *err)
{
    switch (d->run.mode) {
    case EF_RUN_REPLAY:
    case EF_RUN_CATCH_UP:
        return ef__replay_step(d, err);
    case EF_RUN_REBUILD:
        return ef__rebuild_step(d, err);
    case EF_RUN_VERIFY:
        return ef__verify_step(d, err);
    case EF_RUN_GAP_REPAIR:
    case EF_RUN_SEED:
        break;
    }
    return ef_fail(err, EF_UNSUPPORTED, "whoever asked for this run has gone: ask for it anew");
}

/* queued | running -> running -> completed | failed | cancelled */
static ef_status move_on(ef__driven *d, ef_error *err)
{
    bool was_troubled = d->run.error.len > 0;
    ef_error why = EF_ERROR_INIT;
    ef_status st = EF_OK;

    d->run.error = (ef_str){0};
    if (d->run.state == EF_RUN_QUEUED && !d->run.cancel) {
        d->run.state = EF_RUN_RUNNING;
        if ((st = ef__run_save(d, err)) != EF_OK)
            return st;
    }
    if (d->run.cancel) {
        bool done; /* by a step whose answer was lost: then it is too late, and says so */
        if ((st = ef__rebuild_is_done(d, &done, err)) != EF_OK)
            return st;
        d->run.state = done ? EF_RUN_COMPLETED : EF_RUN_CANCELLED;
    } else if ((st = step_mode(d, &why)) != EF_OK && !is_outage(st) && !is_overtaken(st)) {
        d->run.state = EF_RUN_FAILED;
        d->run.error = ef_str_from(why.text);
    } else if (st != EF_OK) {
        if (err)
            *err = why;
        return st;
    }
    if (d->run.state == EF_RUN_CANCELLED || d->run.state == EF_RUN_FAILED)
        if ((st = ef__rebuild_undo(d, err)) != EF_OK)
            return st;
    if (d->idle && d->run.state == EF_RUN_RUNNING && !was_troubled)
        return EF_OK;
    return ef__run_save(d, err);
}

/* --- outages ---------------------------------------------------------------------------------- */

static ef__run_trouble *trouble_of(ef_engine *e, ef_str id)
{
    for (size_t i = 0; i < EF__RUN_TROUBLES; i++)
        if (ef_str_equal(ef_str_from(e->run_troubles[i].id), id))
            return &e->run_troubles[i];
    return NULL;
}

/* One that is free, or the one whose time comes first. */
static ef__run_trouble *trouble_make(ef_engine *e, ef_str id)
{
    ef__run_trouble *chosen = &e->run_troubles[0];

    for (size_t i = 0; i < EF__RUN_TROUBLES; i++) {
        ef__run_trouble *t = &e->run_troubles[i];
        if (!t->id[0] || (chosen->id[0] && t->next_try_us < chosen->next_try_us))
            chosen = t;
    }
    *chosen = (ef__run_trouble){0};
    (void)snprintf(chosen->id, sizeof chosen->id, "%.*s", EF_STR_ARG(id));
    return chosen;
}

/* Back off, and tell why in the record, if the journal is the store that is there. `run` is as it
 * was read: the step may have changed ours. */
static void note_outage(ef__driven *d, const ef_run *run, const ef_error *why)
{
    ef_engine *e = d->engine;
    ef__run_trouble *t = trouble_of(e, run->id);
    ef_error ignored = EF_ERROR_INIT;
    ef__retry_step step;
    ef_run told = *run;

    if (!t)
        t = trouble_make(e, run->id);
    step =
        ef__retry_decide(&ef__retry_store, t->failures, EF__ERROR_TRANSIENT, (uint64_t)mono_us(e));
    t->failures = step.attempts;
    t->next_try_us = mono_us(e) + step.delay_ms * 1000;
    ef__log(e->options.log, EF_LOG_WARN, "a run waits for a store",
            EF_LOG_TEXT_FIELD("run", run->id), EF_LOG_TEXT_FIELD("error", ef_str_from(why->text)),
            EF_LOG_NUMBER_FIELD("after_ms", step.delay_ms));
    told.state = EF_RUN_RUNNING;
    told.error = ef_str_from(why->text);
    told.detail = (ef_str){0};
    if (!ef_str_equal(told.error, run->error) && d->token)
        (void)ef_run_update(e->journal, &told, &d->key, d->token, &ignored);
}

/* The caller rests no longer than that. */
static void look_again(const ef_engine *e, int64_t in_us, ef_tick *tick)
{
    int64_t due_us = ef__engine_now(e) + in_us;

    if (tick->due_us == 0 || due_us < tick->due_us)
        tick->due_us = due_us;
}

/* Is it too early to try this run again? Then the caller rests until its time. */
static bool waits(ef_engine *e, const ef_run *run, ef_tick *tick)
{
    const ef__run_trouble *t = trouble_of(e, run->id);
    int64_t left_us = t ? t->next_try_us - mono_us(e) : 0;

    if (left_us <= 0)
        return false;
    look_again(e, left_us, tick);
    return true;
}

/* The run as it is now that we hold its lease. */
static ef_status drive(ef_engine *e, const ef_run *seen, ef_tick *tick, bool *out_idle,
                       ef_error *err)
{
    ef__run_trouble *trouble;
    ef_error why = EF_ERROR_INIT;
    ef_run_list fresh = {0};
    ef__driven d = {.engine = e,
                    .run = *seen,
                    .tick = tick,
                    .arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES)};
    ef_status st = ef__run_take(&d, &why);

    *out_idle = true;
    if (st == EF_LEASE_HELD)
        return EF_OK;
    if (st == EF_OK)
        st = ef_run_get(e->journal, seen->id, &fresh, &why);
    if (st == EF_OK) {
        d.run = fresh.items[0];
        st = ef__detail_parse(d.run.detail, &d.arena, &d.detail, &why);
    }
    if (st == EF_OK && ef__run_is_open(d.run.state))
        st = move_on(&d, &why);
    *out_idle = d.idle || is_outage(st);
    trouble = trouble_of(e, seen->id);
    if (is_outage(st))
        note_outage(&d, fresh.count ? &fresh.items[0] : seen, &why);
    else if (trouble)
        trouble->id[0] = '\0';
    if (st == EF_OK && !ef__run_is_open(d.run.state))
        ef__run_leave(e);
    if (st == EF_LEASE_LOST)
        e->run_hold.token = 0;
    ef__arena_release(&d.arena);
    ef_run_list_release(&fresh);
    return st == EF_OK || is_outage(st) || is_overtaken(st) ? EF_OK
                                                            : ef_fail(err, st, "%s", why.text);
}

/* Is there a live lease of the run's scope that is not ours? */
static bool is_held(const ef_engine *e, const ef_lease_list *leases, const ef_run *run)
{
    char scope[EF__SCOPE_MAX];

    scope_of(run, scope);
    for (size_t i = 0; i < leases->count; i++)
        if (leases->items[i].live && ef_str_equal(leases->items[i].key.name, ef_str_from(scope)))
            return !ef_str_equal(leases->items[i].owner, ef_str_from(e->worker));
    return false;
}

/* The oldest that we may drive; `only` "" or a run's id. */
static ef_status step_one(ef_engine *e, ef_str only, ef_tick *tick, bool *out_idle, ef_error *err)
{
    ef_run_list runs = {0};
    ef_lease_list leases = {0};
    const ef_run *chosen = NULL;
    ef_lease_kind kind = EF_LEASE_RUN;
    ef_status st = ef_run_ls(e->journal, true, OPEN_RUNS_MAX, &runs, err);

    *out_idle = true;
    if (st == EF_OK && runs.count)
        st = ef_lease_ls(e->journal, &kind, &leases, err);
    for (size_t i = runs.count; st == EF_OK && !chosen && i-- > 0;)
        if ((only.len == 0 || ef_str_equal(runs.items[i].id, only)) &&
            !is_held(e, &leases, &runs.items[i]) && !waits(e, &runs.items[i], tick))
            chosen = &runs.items[i];
    if (st == EF_OK && chosen)
        st = drive(e, chosen, tick, out_idle, err);
    tick->more = tick->more || !*out_idle;
    if (st == EF_OK && runs.count && *out_idle) /* somebody else moves it: look again soon */
        look_again(e, LOOK_AGAIN_US, tick);
    ef_lease_list_release(&leases);
    ef_run_list_release(&runs);
    return st;
}

static ef_status locked_step(ef_engine *e, ef_str only, ef_tick *tick, bool *out_idle,
                             ef_error *err)
{
    ef_status st;

    pthread_mutex_lock(&e->driving);
    st = step_one(e, only, tick, out_idle, err);
    pthread_mutex_unlock(&e->driving);
    return st;
}

ef_status ef__run_step(ef_engine *e, ef_tick *tick, ef_error *err)
{
    bool idle;

    return locked_step(e, (ef_str){0}, tick, &idle, err);
}

ef_status ef__run_work(ef_engine *e, const ef_work_options *options, ef_tick *tick, ef_error *err)
{
    (void)options;
    return ef__run_step(e, tick, err);
}

/* --- in the caller's thread ---------------------------------------------------------------------
 */

/* An idle worker may have been killed, which is seen after minutes: it does not count. */
ef_status ef__worker_is_alone(ef_engine *e, bool *out, ef_error *err)
{
    ef_worker_list workers = {0};
    ef_status st = ef_worker_ls(e->journal, &workers, err);

    *out = true;
    for (size_t i = 0; st == EF_OK && i < workers.count; i++)
        if (workers.items[i].live && workers.items[i].state != EF_WORKER_IDLE &&
            !ef_str_equal(workers.items[i].id, ef_str_from(e->worker)))
            *out = false;
    ef_worker_list_release(&workers);
    return st;
}

static ef_status foreground_step(ef_engine *e, ef_str id, bool *out_idle, ef_error *err)
{
    ef_tick tick = {0};
    bool alone, idle = true;
    ef_status st = ef__cursor_work(e, NULL, &tick, err);

    if (st == EF_OK)
        st = locked_step(e, id, &tick, &idle, err);
    if (st == EF_OK && idle)
        st = ef__worker_is_alone(e, &alone, err);
    if (st == EF_OK && idle && alone)
        st = ef__queue_work(e, &(ef_work_options){0}, &tick, err);
    *out_idle = !tick.more && tick.caught_up + tick.claimed + tick.run_events == 0;
    return st;
}

static bool goes_on(const ef_run_options *options, const ef_run *run, bool idle)
{
    return options && options->progress ? options->progress(options->context, run, idle) : !idle;
}

/* A step, and the run as it is then. While a store is not at hand, as it was, with the reason. */
static ef_status step_and_look(ef_engine *e, ef_str id, const ef_run_options *options,
                               ef_run_list *list, bool *out_go_on, ef_error *err)
{
    ef_run_list fresh = {0};
    bool idle = true;
    ef_status st = foreground_step(e, id, &idle, err);

    if (st == EF_OK)
        st = ef_run_get(e->journal, id, &fresh, err);
    if (st == EF_OK) {
        ef_run_list_release(list);
        *list = fresh;
        *out_go_on = goes_on(options, &list->items[0], idle);
        return EF_OK;
    }
    ef_run_list_release(&fresh);
    if (!is_outage(st) || !options || !options->progress)
        return st;
    ef_run told = list->items[0];
    told.error = err ? ef_str_from(err->text) : ef_str_from(ef_status_words(st));
    *out_go_on = goes_on(options, &told, true);
    return EF_OK;
}

ef_status ef_engine_run(ef_engine *e, ef_str id, const ef_run_options *options, ef_run_list *out,
                        ef_error *err)
{
    bool go_on = true;
    ef_status st;

    if (!e || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", e ? "out" : "engine");
    if (e->options.read_only)
        return ef_fail(err, EF_MISUSE, "the engine was opened read-only");
    st = ef_run_get(e->journal, id, out, err);
    while (st == EF_OK && go_on && ef__run_is_open(out->items[0].state))
        st = step_and_look(e, id, options, out, &go_on, err);
    return st;
}

/* --- what a run found ---------------------------------------------------------------------------
 */

ef_status ef_run_verdict(const ef_run *run, ef_verdict *out, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES);
    ef__detail detail;
    ef_status st = ef__detail_parse(run->detail, &arena, &detail, err);

    *out = (ef_verdict){.generation = (int32_t)detail.generation,
                        .built = (int32_t)detail.built,
                        .compared = detail.compared,
                        .switched = detail.switched,
                        .views = detail.views,
                        .differences = detail.differences,
                        .examples = detail.examples}; /* its source bytes, which are the run's */
    ef__arena_release(&arena);
    return st;
}

ef_status ef_run_replayed(const ef_run *run, ef_replayed *out, ef_error *err)
{
    ef__arena arena = EF__ARENA_INIT(4 * EF_LIMIT_DETAIL_BYTES);
    ef__detail detail;
    ef_status st = ef__detail_parse(run->detail, &arena, &detail, err);

    *out = (ef_replayed){.events = run->processed,
                         .applied = detail.applied,
                         .duplicates = detail.duplicates,
                         .ignored = detail.ignored,
                         .failed = detail.failed,
                         .deferred = detail.deferred};
    ef__arena_release(&arena);
    return st;
}
