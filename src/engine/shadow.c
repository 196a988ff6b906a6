/*
 * shadow.c - see shadow.h: a worker whose generations are those of a side fold.
 *
 *     standby ── all leases ──► catching up ── head of the journal ──► following
 *        ▲────── a lease is lost ──┴──────────────────────────────────────┘
 *
 * It reads the log; rows of the live outbox are never changed. Failures are retried on the schedule
 * of the apply lanes, in a table in memory.
 */
#include "apply.h"
#include "queue.h"

#include "../base/hash.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <everfold/worker.h>
#include <everfold/shadow.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SHADOW_BATCH 1000
#define RETRIES_MAX 100000 /* rows of the table: beyond that a failure is only counted */
#define RETRIES_PER_STEP 100
#define LEASE_NAME_MAX 32
#define RESULTS_MAX 1000
#define COMPARE_AGAIN_US 100000
#define DIFFERS_US 5000000 /* longer than an append needs to fold its events */

/* An event that a projection of the shadow lacks: it failed, or is blocked behind one that did. */
typedef struct shadow_row {
    int64_t position;
    int64_t generation; /* of the side fold */
    int64_t due_us;     /* INT64_MAX: blocked, or dead */
    int32_t attempts;
    bool dead;
} shadow_row;

struct ef_shadow {
    ef_engine *live;
    ef__side_fold fold;
    int64_t catch_up_to; /* head of the log when the last projection was added */
    int64_t position;    /* folded up to here */
    int64_t renew_us;    /* monotonic: when the leases are renewed; 0: none is held */
    int64_t standby_us;  /* monotonic: another shadow holds the leases until then */
    int64_t lease_ms;
    int32_t partitions;
    int64_t *tokens;  /* one per partition */
    shadow_row *rows; /* sorted by position, then generation */
    size_t row_count, row_room;
    int64_t highest;    /* the highest position that was ever folded */
    bool compares;      /* events were folded since the last comparison was logged */
    int64_t differs_us; /* monotonic: since when views differ with nothing folded; 0: they do not */
};

static int64_t mono_us(const ef_shadow *shadow)
{
    return ef__engine_mono_us(shadow->live);
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in a shadow");
}

/* --- opening ---------------------------------------------------------------------------------- */

/* Adds the active generations. A new one makes the shadow read the journal from the start; for the
 * others these events are duplicates. */
static ef_status add_generations(ef_shadow *shadow, ef_error *err)
{
    ef_head head = {0};
    bool added;
    ef_status st =
        ef__side_fold_add_active(&shadow->fold, &(ef__live_choice){.by_queue = true}, &added, err);

    if (st == EF_OK && added)
        st = ef_journal_head(shadow->live->journal, &head, err);
    if (st == EF_OK && added) {
        shadow->position = 0;
        shadow->catch_up_to = head.position;
    }
    return st;
}

ef_status ef_shadow_open(ef_engine *engine, ef_shadow **out, ef_error *err)
{
    ef_shadow *shadow;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = NULL;
    shadow = calloc(1, sizeof *shadow);
    if (!shadow)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a shadow");
    shadow->live = engine;
    shadow->lease_ms = EF__ENGINE_LEASE_MS;
    st = ef__journal_partition_count(engine->journal, &shadow->partitions, err);
    shadow->tokens =
        st == EF_OK ? calloc((size_t)shadow->partitions, sizeof *shadow->tokens) : NULL;
    if (st == EF_OK && !shadow->tokens)
        st = no_memory(err);
    if (st == EF_OK)
        st = ef__side_fold_open(&shadow->fold, engine, EF_STR("shadow"), err);
    if (st == EF_OK)
        st = add_generations(shadow, err);
    if (st != EF_OK) {
        ef_shadow_close(shadow);
        return st;
    }
    *out = shadow;
    return EF_OK;
}

/* --- leases -----------------------------------------------------------------------------------
 *
 * One per partition, under names that workers do not use. A digest covers all partitions, so a
 * shadow has either all leases or none, and then it is on standby.
 */

static ef_status call_leases(ef_shadow *shadow, ef_lease_verb verb, bool *out_all,
                             int64_t *out_left_ms, ef_error *err)
{
    size_t count = (size_t)shadow->partitions;
    ef_lease_call *calls = calloc(count, sizeof *calls);
    char(*names)[LEASE_NAME_MAX] = calloc(count, sizeof *names);
    ef_error words = EF_ERROR_INIT; /* a refused lease is not a failure: its text is dropped */
    ef_status st = calls && names ? EF_OK : no_memory(err);

    *out_all = true;
    *out_left_ms = 0;
    for (size_t p = 0; st == EF_OK && p < count; p++) {
        (void)snprintf(names[p], sizeof names[p], "*:shadow:%zu", p);
        calls[p] = (ef_lease_call){
            .verb = verb,
            .key = {.kind = EF_LEASE_SCOPE, .name = ef_str_from(names[p]), .partition = -1},
            .holder = ef_str_from(shadow->live->worker),
            .lease_ms = shadow->lease_ms,
            .token = shadow->tokens[p]};
    }
    if (st == EF_OK)
        st = ef__lease_many(shadow->live->journal, calls, count, &(ef__heartbeat){0}, &words);
    if (st != EF_OK && words.text[0])
        st = ef_fail(err, st, "%s", words.text);
    for (size_t p = 0; st == EF_OK && p < count; p++) {
        bool got = calls[p].status == EF_OK && verb != EF_LEASE_RELEASE;
        shadow->tokens[p] = got ? calls[p].token : 0;
        *out_all = *out_all && got;
        if (calls[p].left_ms > *out_left_ms)
            *out_left_ms = calls[p].left_ms;
    }
    free(names);
    free(calls);
    return st;
}

static void release_leases(ef_shadow *shadow)
{
    bool all;
    int64_t left_ms;

    for (int32_t p = 0; p < shadow->partitions; p++)
        if (shadow->tokens[p]) {
            (void)call_leases(shadow, EF_LEASE_RELEASE, &all, &left_ms, NULL);
            break;
        }
    shadow->renew_us = 0;
}

/* *out false: another shadow holds the leases; `tick` gets the time of the next try. */
static ef_status renew_leases(ef_shadow *shadow, ef_tick *tick, bool *out, ef_error *err)
{
    int64_t now_us = mono_us(shadow), left_ms = 0;
    bool had = shadow->renew_us > 0;
    ef_status st = EF_OK;

    *out = now_us < shadow->renew_us;
    if (!*out && now_us >= shadow->standby_us) {
        st = call_leases(shadow, EF_LEASE_RENEW_OR_ACQUIRE, out, &left_ms, err);
        shadow->renew_us = st == EF_OK && *out ? now_us + shadow->lease_ms * 1000 / 3 : 0;
        if (st == EF_OK && *out && !had)
            tick->leased_count += shadow->partitions;
        if (st == EF_OK && !*out) {
            release_leases(shadow);
            shadow->standby_us = now_us + (left_ms > 50 ? left_ms : 50) * 1000;
        }
    }
    if (st == EF_OK && !*out)
        tick->due_us = ef__engine_now(shadow->live) + shadow->standby_us - now_us;
    tick->owned_count = *out ? shadow->partitions : 0;
    return st;
}

void ef_shadow_close(ef_shadow *shadow)
{
    if (!shadow)
        return;
    if (shadow->tokens)
        release_leases(shadow);
    ef__side_fold_close(&shadow->fold);
    free(shadow->tokens);
    free(shadow->rows);
    free(shadow);
}

/* --- the table of retry rows ------------------------------------------------------------------ */

/* Counts a failure of a row, with the schedule and the last attempt of the apply lanes. */
static void fail_row(ef_shadow *shadow, shadow_row *row, ef_str why, ef_tick *tick)
{
    int64_t now_us = ef__engine_now(shadow->live);
    ef__retry_step step = ef__retry_decide(&shadow->live->retry.apply, row->attempts,
                                           EF__ERROR_PERMANENT, (uint64_t)now_us);

    tick->failed++;
    tick->dead += step.dead;
    row->attempts = (int32_t)step.attempts;
    row->dead = step.dead;
    row->due_us = step.dead ? INT64_MAX : now_us + step.delay_ms * 1000;
    if (step.dead)
        ef__log(shadow->live->options.log, EF_LOG_WARN, "shadow: row is dead",
                EF_LOG_NUMBER_FIELD("position", row->position), EF_LOG_TEXT_FIELD("error", why));
}

static bool has_row(const ef_shadow *shadow, int64_t generation, int64_t position)
{
    for (size_t i = 0; position <= shadow->highest && i < shadow->row_count; i++)
        if (shadow->rows[i].position == position && shadow->rows[i].generation == generation)
            return true;
    return false;
}

static ef_status add_row(ef_shadow *shadow, int64_t generation, const ef_event *event,
                         const ef__apply_result *result, ef_tick *tick, ef_error *err)
{
    shadow_row row = {.position = event->position, .generation = generation, .due_us = INT64_MAX};

    if (result->verdict == EF__VERDICT_FAILED)
        fail_row(shadow, &row, result->message, tick);
    else
        tick->deferred++;
    if (shadow->row_count == RETRIES_MAX)
        return EF_OK;
    if (shadow->row_count == shadow->row_room) {
        size_t room = shadow->row_room ? 2 * shadow->row_room : 64;
        shadow_row *rows = realloc(shadow->rows, room * sizeof *rows);
        if (!rows)
            return no_memory(err);
        shadow->rows = rows;
        shadow->row_room = room;
    }
    shadow->rows[shadow->row_count++] = row;
    return EF_OK;
}

static ef_status add_rows(ef_shadow *shadow, const ef__apply *apply, ef_tick *tick, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t g = 0; g < apply->generation_count; g++) {
        int64_t id = apply->generations[g].generation->id;
        for (size_t i = 0; st == EF_OK && i < apply->event_count; i++) {
            const ef__apply_result *result = &apply->results[g * apply->event_count + i];
            if (ef__verdict_waits(result->verdict) &&
                !has_row(shadow, id, apply->events[i]->position))
                st = add_row(shadow, id, apply->events[i], result, tick, err);
        }
    }
    return st;
}

/* --- folding ---------------------------------------------------------------------------------- */

static ef_status fold_events(ef_shadow *shadow, const ef_event *events, size_t count, ef_tick *tick,
                             ef_error *err)
{
    ef_status st = ef__side_fold_run(&shadow->fold, 0, events, count, err);

    if (st == EF_OK)
        st = add_rows(shadow, &shadow->fold.apply, tick, err);
    if (st == EF_OK) {
        tick->applied += shadow->fold.apply.applied;
        tick->ignored += shadow->fold.apply.ignored;
        if (events[count - 1].position > shadow->highest)
            shadow->highest = events[count - 1].position;
    }
    return st;
}

/* Reads the log: first up to its head at the time when the last projection was added, then the
 * events that were queued since. Their rows are left to the live workers. */
static ef_status read_events(ef_shadow *shadow, ef_tick *tick, ef_error *err)
{
    bool catches_up = shadow->position < shadow->catch_up_to;
    int64_t reached = shadow->position;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(shadow->live->journal,
                                       &(ef_log_query){.any_tenant = true,
                                                       .after = shadow->position,
                                                       .limit = SHADOW_BATCH,
                                                       .out_reached = &reached},
                                       &batch, err);

    if (st == EF_OK && batch.count)
        st = fold_events(shadow, batch.events, batch.count, tick, err);
    if (st == EF_OK) {
        *(catches_up ? &tick->caught_up : &tick->claimed) += (int64_t)batch.count;
        tick->more = tick->more || batch.count > 0;
        shadow->position = reached;
    }
    return st;
}

/* --- retrying --------------------------------------------------------------------------------- */

static ef_status retry_one(ef_shadow *shadow, shadow_row *row, ef__verdict *out, ef_tick *tick,
                           ef_error *err)
{
    const ef__apply *apply = &shadow->fold.apply;
    EF__AUTO(ef_batch) batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_log(
        shadow->live->journal,
        &(ef_log_query){.any_tenant = true, .after = row->position - 1, .limit = 1}, &batch, err);

    *out = EF__VERDICT_DUPLICATE; /* a removed event or projection needs no row */
    if (st == EF_OK)
        st = ef__side_fold_run(&shadow->fold, row->generation, batch.events, batch.count, err);
    if (st == EF_OK && apply->generation_count) {
        *out = apply->results[0].verdict;
        tick->applied += apply->applied;
        if (*out == EF__VERDICT_FAILED)
            fail_row(shadow, row, apply->results[0].message, tick);
        else if (*out == EF__VERDICT_DEFERRED)
            row->due_us = INT64_MAX;
    }
    return st;
}

/* Rows that were blocked in a projection may succeed after one of its rows was applied. */
static void unblock_rows(ef_shadow *shadow, size_t after, int64_t generation)
{
    for (size_t i = after; i < shadow->row_count; i++)
        if (shadow->rows[i].generation == generation && shadow->rows[i].attempts == 0)
            shadow->rows[i].due_us = 0;
}

static ef_status retry_due(ef_shadow *shadow, ef_tick *tick, ef_error *err)
{
    int64_t now_us = ef__engine_now(shadow->live);
    ef_status st = EF_OK;
    int tried = 0;

    for (size_t i = 0; st == EF_OK && i < shadow->row_count;) {
        shadow_row *row = &shadow->rows[i];
        ef__verdict verdict = EF__VERDICT_FAILED;
        if (row->due_us > now_us) {
            ef__tick_wake_at(tick, row->due_us < INT64_MAX ? row->due_us : 0);
            i++;
            continue;
        }
        if (tried++ == RETRIES_PER_STEP) {
            tick->more = true;
            break;
        }
        st = retry_one(shadow, row, &verdict, tick, err);
        tick->claimed++;
        if (st != EF_OK || ef__verdict_waits(verdict)) {
            i++;
            continue;
        }
        unblock_rows(shadow, i + 1, row->generation);
        shadow->row_count--;
        memmove(row, row + 1, (shadow->row_count - i) * sizeof *row);
    }
    return st;
}

ef_status ef_shadow_step(ef_shadow *shadow, ef_tick *out, ef_error *err)
{
    ef_tick tick = {0};
    bool held = false;
    ef_status st;

    if (!shadow || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", shadow ? "out" : "shadow");
    st = renew_leases(shadow, &tick, &held, err);
    if (st == EF_OK && held)
        st = add_generations(shadow, err);
    if (st == EF_OK && held)
        st = retry_due(shadow, &tick, err);
    if (st == EF_OK && held)
        st = read_events(shadow, &tick, err);
    *out = tick;
    return st;
}

/* --- the report ------------------------------------------------------------------------------- */

/* The active generation of the projection; NULL: another version is active now. */
static const ef__generation *find_active(const ef__generation_list *live,
                                         const ef__generation *side)
{
    for (size_t i = 0; i < live->count; i++)
        if (live->items[i].active && ef_str_equal(live->items[i].name, side->name))
            return live->items[i].version == side->version ? &live->items[i] : NULL;
    return NULL;
}

/* Counts the rows of a projection by status. */
static void count_rows(const ef_shadow *shadow, int64_t generation, ef_shadow_result *out)
{
    for (size_t i = 0; i < shadow->row_count; i++) {
        const shadow_row *row = &shadow->rows[i];
        if (row->generation != generation)
            continue;
        out->attempts += row->attempts;
        out->dead += row->dead;
        out->failed += row->attempts > 0 && !row->dead;
        out->blocked += row->attempts == 0;
    }
}

ef_status ef_shadow_report(ef_shadow *shadow, ef_shadow_result *out, size_t max, size_t *out_count,
                           ef_error *err)
{
    EF__AUTO(ef__generation_list) copies = {0}, live = {0};
    ef_status st = ef__engine_generations(shadow->fold.side, (ef_str){0}, &copies, err);

    *out_count = 0;
    if (st == EF_OK)
        st = ef__engine_generations(shadow->live, (ef_str){0}, &live, err);
    for (size_t i = 0; st == EF_OK && i < copies.count && *out_count < max; i++) {
        const ef__generation *copy = &copies.items[i], *active = find_active(&live, copy);
        ef_shadow_result *result = &out[*out_count];
        if (!active)
            continue;
        (*out_count)++;
        *result = (ef_shadow_result){
            .applied = copy->applied,
            .position = shadow->position,
            .same = memcmp(active->digest, copy->digest, sizeof copy->digest) == 0};
        count_rows(shadow, copy->id, result);
        (void)snprintf(result->name, sizeof result->name, "%.*s", EF_STR_ARG(copy->name));
        ef__hex(copy->digest, sizeof copy->digest, result->digest);
        ef__hex(active->digest, sizeof active->digest, result->live_digest);
    }
    return st;
}

/* --- as a task of a supervisor ---------------------------------------------------------------- */

static void log_result(const ef_shadow *shadow, const ef_shadow_result *result)
{
    ef__log(shadow->live->options.log, result->same ? EF_LOG_INFO : EF_LOG_WARN,
            result->same ? "shadow: views agree" : "shadow: views differ",
            EF_LOG_TEXT_FIELD("projection", ef_str_from(result->name)),
            EF_LOG_NUMBER_FIELD("position", result->position),
            EF_LOG_NUMBER_FIELD("failed", result->failed),
            EF_LOG_NUMBER_FIELD("dead", result->dead),
            EF_LOG_NUMBER_FIELD("blocked", result->blocked));
}

/* Compares once the shadow has read everything. An append whose row was read may not have folded
 * its event yet: views that differ are compared again before that is logged. */
static ef_status compare_views(ef_shadow *shadow, ef_tick *tick, ef_error *err)
{
    ef_shadow_result *results = calloc(RESULTS_MAX, sizeof *results);
    int64_t now_us = mono_us(shadow);
    bool same = true;
    size_t count = 0;
    ef_status st =
        results ? ef_shadow_report(shadow, results, RESULTS_MAX, &count, err) : no_memory(err);

    for (size_t i = 0; i < count; i++)
        same = same && results[i].same;
    shadow->differs_us = same ? 0 : shadow->differs_us ? shadow->differs_us : now_us;
    shadow->compares = !same && now_us - shadow->differs_us < DIFFERS_US;
    for (size_t i = 0; st == EF_OK && !shadow->compares && i < count; i++)
        log_result(shadow, &results[i]);
    if (shadow->compares)
        tick->due_us = ef__engine_now(shadow->live) + COMPARE_AGAIN_US;
    free(results);
    return st;
}

ef_status ef__shadow_work(ef_engine *engine, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    ef_shadow *shadow = engine->shadow;
    ef_status st;

    if (options->lease_ms)
        shadow->lease_ms = options->lease_ms;
    st = ef_shadow_step(shadow, tick, err);
    if (tick->claimed || tick->caught_up) {
        shadow->compares = true;
        shadow->differs_us = 0;
    }
    return st == EF_OK && shadow->compares && !tick->more ? compare_views(shadow, tick, err) : st;
}
