/*
 * shadow_report.c - compares the views of a shadow with the live ones, on request and as a task.
 */
#include "shadow_priv.h"
#include "queue.h"

#include "../base/hash.h"
#include "../base/logger.h"

#include <stdio.h>
#include <stdlib.h>

#define RESULTS_MAX 1000
#define COMPARE_AGAIN_US 100000
#define DIFFERS_US 5000000 /* longer than an append needs to fold its events */

/* --- the report ------------------------------------------------------------------------------- */

static bool is_active(const ef__generation_list *live, const ef__generation *side)
{
    for (size_t i = 0; i < live->count; i++)
        if (live->items[i].active && ef_str_equal(live->items[i].name, side->name))
            return live->items[i].version == side->version;
    return false;
}

/* Counts the rows of a projection by status. */
static void count_rows(const ef_shadow *shadow, int64_t generation, ef_shadow_result *out)
{
    for (size_t i = 0; i < shadow->row_count; i++) {
        const ef__shadow_row *row = &shadow->rows[i];
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
    ef__generation_list copies = {0}, live = {0};
    ef_status st = ef__engine_generations(shadow->fold.side, (ef_str){0}, &copies, err);

    *out_count = 0;
    if (st == EF_OK)
        st = ef__engine_generations(shadow->live, (ef_str){0}, &live, err);
    for (size_t i = 0; st == EF_OK && i < copies.count && *out_count < max; i++) {
        const ef__generation *generation = &copies.items[i];
        ef_shadow_result *result = &out[*out_count];
        if (!is_active(&live, generation))
            continue; /* another version is active now */
        (*out_count)++;
        *result = (ef_shadow_result){.applied = generation->applied, .position = shadow->position};
        count_rows(shadow, generation->id, result);
        (void)snprintf(result->name, sizeof result->name, "%.*s", EF_STR_ARG(generation->name));
        ef__hex(generation->digest, sizeof generation->digest, result->digest);
        for (size_t l = 0; l < live.count; l++)
            if (live.items[l].active && ef_str_equal(live.items[l].name, generation->name)) {
                ef__hex(live.items[l].digest, sizeof generation->digest, result->live_digest);
                result->same = memcmp(live.items[l].digest, generation->digest,
                                      sizeof generation->digest) == 0;
            }
    }
    ef_memory_release(&copies.room);
    ef_memory_release(&live.room);
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
    int64_t now_us = ef__shadow_mono_us(shadow);
    bool same = true;
    size_t count = 0;
    ef_status st = results ? ef_shadow_report(shadow, results, RESULTS_MAX, &count, err)
                           : ef__shadow_no_memory(err);

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
