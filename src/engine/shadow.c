/*
 * shadow.c - see shadow.h. An engine of its own, on the same journal and on views in memory.
 *
 *     standby ── all leases ──► catching up ── head of the journal ──► following the queue
 *        ▲────── a lease is lost ──┴───────────────────────────────────────┘
 *
 * Rows of the live outbox are read and never changed. What fails here is retried by the schedule of
 * the apply lanes, in a table of the shadow's own.
 */
#include <everfold/shadow.h>

#include "queue.h"

#include "../base/hash.h"
#include "../base/logger.h"
#include "../core/retry.h"
#include "../journal/journal.h"

#include <everfold/lease.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SHADOW_BATCH 1000
#define RETRIES_MAX 100000 /* rows of the table: beyond that a failure is only counted */
#define RETRIES_A_STEP 100
#define LEASE_NAME_MAX 32
#define RESULTS_MAX 1000
#define COMPARE_AGAIN_US 100000
#define DIFFERS_US 5000000 /* longer than an append takes to fold its events */

/* An event that a projection of the shadow lacks: it failed, or is blocked behind one that did. */
typedef struct retry_row {
    int64_t position;
    int64_t generation; /* of the ghost's views */
    int64_t due_us;     /* INT64_MAX: blocked, or dead */
    int32_t attempts;
    bool dead;
} retry_row;

struct ef_shadow {
    ef_engine *live;
    ef_engine *ghost;
    int64_t catch_up_to;      /* by the log up to here, then by the rows of the queue */
    char page[EF_CURSOR_MAX]; /* of the queue's rows: where the page at hand begins */
    int64_t position;         /* folded up to here */
    int64_t renew_us;         /* monotonic: the leases are to be renewed; 0: none is held */
    int64_t standby_us;       /* monotonic: another shadow has them until then */
    int64_t lease_ms;
    int32_t partitions;
    int64_t *tokens; /* one per partition */
    retry_row *rows; /* in the order of positions, then generations */
    size_t row_count, row_room;
    int64_t highest;    /* the last position that was ever folded */
    bool compares;      /* something was folded since the last comparison was logged */
    int64_t differs_us; /* monotonic: since when views differ with nothing folded; 0: they do not */
};

static int64_t mono_us(const ef_shadow *s)
{
    return s->live->options.clock->mono_us(s->live->options.clock->context);
}

static ef_status no_memory(ef_error *err)
{
    return ef_fail(err, EF_NO_MEMORY, "memory ran out in a shadow");
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool has_copy(const ef__generation_list *ghosts, const ef__generation *g)
{
    for (size_t i = 0; i < ghosts->count; i++)
        if (ef_str_equal(ghosts->items[i].name, g->name) && ghosts->items[i].version == g->version)
            return true;
    return false;
}

/* A generation of the ghost's for each live one that queries read: the same program, nothing folded
 * yet. One that is new makes the shadow read the journal from its beginning; what the others have
 * comes as duplicates. */
static ef_status copy_generations(ef_shadow *s, ef_error *err)
{
    ef__generation_list ghosts = {0};
    ef_views *views = s->ghost->views;
    ef__live_set set = {0};
    ef_head head = {0};
    bool added = false;
    ef_status st = ef__live_set_read(s->live, true, &set, err);

    if (st == EF_OK)
        st = ef__room_ready(&ghosts.room, err);
    if (st == EF_OK)
        st = views->ops->generation_ls(views, (ef_str){0}, &ghosts, err);
    for (size_t i = 0; st == EF_OK && i < set.count; i++) {
        ef__generation copy = *set.items[i].generation;
        int64_t id;
        if (!set.items[i].program || !copy.routed || has_copy(&ghosts, &copy))
            continue; /* one written in C belongs to its process; and one a name is compared */
        copy.number = 0;
        st = views->ops->generation_add(views, &copy, &id, err);
        added = true;
    }
    if (st == EF_OK && added)
        st = ef_journal_head(s->live->journal, &head, err);
    if (st == EF_OK && added) {
        s->position = 0;
        s->page[0] = '\0';
        s->catch_up_to = head.position;
    }
    ef__room_release(&ghosts.room);
    ef__live_set_release(&set);
    return st;
}

ef_status ef_shadow_open(ef_engine *engine, ef_shadow **out, ef_error *err)
{
    ef_shadow *s;
    ef_status st;

    if (!engine || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", engine ? "out" : "engine");
    *out = NULL;
    s = calloc(1, sizeof *s);
    if (!s)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a shadow");
    s->live = engine;
    s->lease_ms = EF__ENGINE_LEASE_MS;
    st = ef__journal_partition_count(engine->journal, &s->partitions, err);
    s->tokens = st == EF_OK ? calloc((size_t)s->partitions, sizeof *s->tokens) : NULL;
    if (st == EF_OK && !s->tokens)
        st = no_memory(err);
    if (st == EF_OK)
        st = ef__ghost_open(engine, EF_STR("shadow"), &s->ghost, err);
    if (st == EF_OK)
        st = copy_generations(s, err);
    if (st != EF_OK) {
        ef_shadow_close(s);
        return st;
    }
    *out = s;
    return EF_OK;
}

/* --- leases -----------------------------------------------------------------------------------
 *
 * One per partition, under names of the shadow's own, so that workers are not in its way nor it in
 * theirs. Digests are over all partitions, so a shadow has all of them or stands by.
 */

static ef_status call_leases(ef_shadow *s, ef_lease_verb verb, bool *out_all, int64_t *out_left_ms,
                             ef_error *err)
{
    size_t count = (size_t)s->partitions;
    ef_lease_call *calls = calloc(count, sizeof *calls);
    char(*names)[LEASE_NAME_MAX] = calloc(count, sizeof *names);
    ef_error words = EF_ERROR_INIT; /* of a refusal: it is no failure */
    ef_status st = calls && names ? EF_OK : no_memory(err);

    *out_all = true;
    *out_left_ms = 0;
    for (size_t p = 0; st == EF_OK && p < count; p++) {
        (void)snprintf(names[p], sizeof names[p], "*:shadow:%zu", p);
        calls[p] = (ef_lease_call){
            .verb = verb,
            .key = {.kind = EF_LEASE_SCOPE, .name = ef_str_from(names[p]), .partition = -1},
            .owner = ef_str_from(s->live->worker),
            .lease_ms = s->lease_ms,
            .token = s->tokens[p]};
    }
    if (st == EF_OK)
        st = ef_lease_many(s->live->journal, calls, count, NULL, 0, &words);
    if (st != EF_OK && words.text[0])
        st = ef_fail(err, st, "%s", words.text);
    for (size_t p = 0; st == EF_OK && p < count; p++) {
        bool got = calls[p].status == EF_OK && verb != EF_LEASE_RELEASE;
        s->tokens[p] = got ? calls[p].token : 0;
        *out_all = *out_all && got;
        if (calls[p].left_ms > *out_left_ms)
            *out_left_ms = calls[p].left_ms;
    }
    free(names);
    free(calls);
    return st;
}

static void release_leases(ef_shadow *s)
{
    bool all;
    int64_t left_ms;

    for (int32_t p = 0; p < s->partitions; p++)
        if (s->tokens[p]) {
            (void)call_leases(s, EF_LEASE_RELEASE, &all, &left_ms, NULL);
            break;
        }
    s->renew_us = 0;
}

/* *out false: another shadow has the leases; `tick` says when to ask again. */
static ef_status keep_leases(ef_shadow *s, ef_tick *tick, bool *out, ef_error *err)
{
    int64_t now_us = mono_us(s), left_ms = 0;
    bool had = s->renew_us > 0;
    ef_status st = EF_OK;

    *out = now_us < s->renew_us;
    if (!*out && now_us >= s->standby_us) {
        st = call_leases(s, EF_LEASE_TAKE, out, &left_ms, err);
        s->renew_us = st == EF_OK && *out ? now_us + s->lease_ms * 1000 / 3 : 0;
        if (st == EF_OK && *out && !had)
            tick->leased_count += s->partitions;
        if (st == EF_OK && !*out) {
            release_leases(s);
            s->standby_us = now_us + (left_ms > 50 ? left_ms : 50) * 1000;
        }
    }
    if (st == EF_OK && !*out)
        tick->due_us = ef__engine_now(s->live) + s->standby_us - now_us;
    tick->owned_count = *out ? s->partitions : 0;
    return st;
}

void ef_shadow_close(ef_shadow *s)
{
    if (!s)
        return;
    if (s->tokens)
        release_leases(s);
    if (s->ghost)
        ef__engine_abandon(s->ghost); /* it holds nothing and leaves nothing */
    free(s->tokens);
    free(s->rows);
    free(s);
}

/* --- the table of retries ----------------------------------------------------------------------
 */

/* One more failure of a row: the same schedule and the same last attempt as in the apply lanes. */
static void fail_row(ef_shadow *s, retry_row *row, ef_str why, ef_tick *tick)
{
    int64_t now_us = ef__engine_now(s->live);
    ef__retry_step step = ef__retry_decide(&s->live->retry.apply, row->attempts,
                                           EF__ERROR_PERMANENT, (uint64_t)now_us);

    tick->failed++;
    tick->dead += step.dead;
    row->attempts = (int32_t)step.attempts;
    row->dead = step.dead;
    row->due_us = step.dead ? INT64_MAX : now_us + step.delay_ms * 1000;
    if (step.dead)
        ef__log(s->live->options.log, EF_LOG_WARN, "shadow: row is dead",
                EF_LOG_NUMBER_FIELD("position", row->position), EF_LOG_TEXT_FIELD("error", why));
}

static bool has_row(const ef_shadow *s, int64_t generation, int64_t position)
{
    for (size_t i = 0; position <= s->highest && i < s->row_count; i++)
        if (s->rows[i].position == position && s->rows[i].generation == generation)
            return true;
    return false;
}

static ef_status add_row(ef_shadow *s, int64_t generation, const ef_event *event,
                         const ef__applied *result, ef_tick *tick, ef_error *err)
{
    retry_row row = {.position = event->position, .generation = generation, .due_us = INT64_MAX};

    if (result->verdict == EF__VERDICT_FAILED)
        fail_row(s, &row, result->message, tick);
    else
        tick->deferred++;
    if (s->row_count == RETRIES_MAX)
        return EF_OK;
    if (s->row_count == s->row_room) {
        size_t room = s->row_room ? 2 * s->row_room : 64;
        retry_row *rows = realloc(s->rows, room * sizeof *rows);
        if (!rows)
            return no_memory(err);
        s->rows = rows;
        s->row_room = room;
    }
    s->rows[s->row_count++] = row;
    return EF_OK;
}

static ef_status add_rows(ef_shadow *s, const ef__apply *apply, ef_tick *tick, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t g = 0; g < apply->generation_count; g++) {
        int64_t id = apply->generations[g].generation->id;
        for (size_t i = 0; st == EF_OK && i < apply->event_count; i++) {
            const ef__applied *result = &apply->results[g * apply->event_count + i];
            if (ef__verdict_waits(result->verdict) &&
                !has_row(s, id, apply->events[i].event->position))
                st = add_row(s, id, apply->events[i].event, result, tick, err);
        }
    }
    return st;
}

/* --- folding ---------------------------------------------------------------------------------- */

/* Apply events to the ghost's generations, or to `only` (0: all). `apply` is the caller's to
 * release. */
static ef_status apply_events(ef_shadow *s, int64_t only, const ef__apply_event *events,
                              size_t count, ef__live_set *set, ef__apply *apply, ef_error *err)
{
    size_t kept = 0;
    ef_status st = ef__live_set_read(s->ghost, true, set, err);

    if (st != EF_OK)
        return st;
    for (size_t i = 0; i < set->count; i++)
        if (!only || set->items[i].generation->id == only)
            set->items[kept++] = set->items[i];
    set->count = kept;
    *apply = (ef__apply){.generations = set->items,
                         .generation_count = set->count,
                         .events = events,
                         .event_count = count,
                         .live_set = set->number,
                         .looks_back = true,
                         .arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    return ef__apply_run(s->ghost, apply, err);
}

static ef_status fold_events(ef_shadow *s, const ef__apply_event *events, size_t count,
                             ef_tick *tick, ef_error *err)
{
    ef__apply apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef__live_set set = {0};
    ef_status st = apply_events(s, 0, events, count, &set, &apply, err);

    if (st == EF_OK)
        st = add_rows(s, &apply, tick, err);
    if (st == EF_OK) {
        tick->applied += apply.applied;
        tick->ignored += apply.ignored;
        if (events[count - 1].event->position > s->highest)
            s->highest = events[count - 1].event->position;
    }
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    return st;
}

/* By the log, up to where it ended when the youngest projection was added. */
static ef_status catch_up(ef_shadow *s, ef_tick *tick, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef__apply_event *events = malloc(SHADOW_BATCH * sizeof *events);
    size_t count = 0;
    ef_status st =
        events
            ? ef_journal_read_log(
                  s->live->journal,
                  &(ef_log_query){.any_tenant = true, .after = s->position, .limit = SHADOW_BATCH},
                  &batch, err)
            : no_memory(err);

    while (st == EF_OK && count < batch.count && batch.events[count].position <= s->catch_up_to) {
        events[count] = (ef__apply_event){&batch.events[count], false};
        count++;
    }
    if (st == EF_OK && count)
        st = fold_events(s, events, count, tick, err);
    if (st == EF_OK) {
        s->position = count ? events[count - 1].event->position : s->catch_up_to;
        tick->caught_up += (int64_t)count;
        tick->more = true;
    }
    ef_batch_release(&batch);
    free(events);
    return st;
}

/* The events of the rows above our position: rows and log are both in the order of positions. */
static ef_status load_rows(ef_shadow *s, const ef_row_list *rows, ef_batch *batch,
                           ef__apply_event *events, size_t *out_count, ef_error *err)
{
    size_t row = 0, count = 0;
    ef_status st;

    *out_count = 0;
    while (row < rows->count && rows->items[row].position <= s->position)
        row++;
    if (row == rows->count)
        return EF_OK;
    st = ef_journal_read_log(s->live->journal,
                             &(ef_log_query){.any_tenant = true,
                                             .after = rows->items[row].position - 1,
                                             .limit = SHADOW_BATCH},
                             batch, err);
    for (size_t i = 0; st == EF_OK && i < batch->count; i++) {
        while (row < rows->count && rows->items[row].position < batch->events[i].position)
            row++;
        if (row < rows->count && rows->items[row].position == batch->events[i].position)
            events[count++] = (ef__apply_event){&batch->events[i], false};
    }
    *out_count = count;
    return st;
}

/* What a worker would claim: the rows of the live queue, page by page. They stay as they are. */
static ef_status follow_queue(ef_shadow *s, ef_tick *tick, ef_error *err)
{
    ef_row_list rows = {0};
    ef_batch batch = EF_BATCH_INIT;
    ef__apply_event *events = malloc(SHADOW_BATCH * sizeof *events);
    size_t count = 0;
    ef_status st = events ? ef_outbox_ls(s->live->journal,
                                         &(ef_outbox_query){.lane = EF_STR(EF_LANE_APPLY),
                                                            .any_tenant = true,
                                                            .limit = SHADOW_BATCH,
                                                            .after = ef_str_from(s->page)},
                                         &rows, err)
                          : no_memory(err);

    if (st == EF_OK)
        st = load_rows(s, &rows, &batch, events, &count, err);
    if (st == EF_OK && count)
        st = fold_events(s, events, count, tick, err);
    if (st == EF_OK && count) {
        tick->claimed += (int64_t)count;
        s->position = events[count - 1].event->position;
    }
    if (st == EF_OK && rows.next[0] && rows.items[rows.count - 1].position <= s->position) {
        memcpy(s->page, rows.next, sizeof s->page);
        tick->more = true;
    }
    tick->more = tick->more || count > 0;
    ef_batch_release(&batch);
    ef_row_list_release(&rows);
    free(events);
    return st;
}

/* --- retrying --------------------------------------------------------------------------------- */

static ef_status retry_one(ef_shadow *s, retry_row *row, ef__verdict *out, ef_tick *tick,
                           ef_error *err)
{
    ef__apply apply = {.arena = EF__ARENA_INIT(EF__APPLY_ARENA_MAX)};
    ef_batch batch = EF_BATCH_INIT;
    ef__live_set set = {0};
    ef__apply_event event;
    ef_status st = ef_journal_read_log(
        s->live->journal,
        &(ef_log_query){.any_tenant = true, .after = row->position - 1, .limit = 1}, &batch, err);

    *out = EF__VERDICT_DUPLICATE; /* an event or a projection that is gone is not waited for */
    if (st == EF_OK && batch.count) {
        event = (ef__apply_event){&batch.events[0], false};
        st = apply_events(s, row->generation, &event, 1, &set, &apply, err);
    }
    if (st == EF_OK && set.count) {
        *out = apply.results[0].verdict;
        tick->applied += apply.applied;
        if (*out == EF__VERDICT_FAILED)
            fail_row(s, row, apply.results[0].message, tick);
        else if (*out == EF__VERDICT_DEFERRED)
            row->due_us = INT64_MAX;
    }
    ef__apply_release(&apply);
    ef__live_set_release(&set);
    ef_batch_release(&batch);
    return st;
}

/* What was blocked in a projection may go on after one of its rows was applied. */
static void unblock(ef_shadow *s, size_t after, int64_t generation)
{
    for (size_t i = after; i < s->row_count; i++)
        if (s->rows[i].generation == generation && s->rows[i].attempts == 0)
            s->rows[i].due_us = 0;
}

static ef_status retry_due(ef_shadow *s, ef_tick *tick, ef_error *err)
{
    int64_t now_us = ef__engine_now(s->live);
    ef_status st = EF_OK;
    int tried = 0;

    for (size_t i = 0; st == EF_OK && i < s->row_count;) {
        retry_row *row = &s->rows[i];
        ef__verdict verdict = EF__VERDICT_FAILED;
        if (row->due_us > now_us) {
            if (row->due_us < INT64_MAX && (!tick->due_us || row->due_us < tick->due_us))
                tick->due_us = row->due_us;
            i++;
            continue;
        }
        if (tried++ == RETRIES_A_STEP) {
            tick->more = true;
            break;
        }
        st = retry_one(s, row, &verdict, tick, err);
        tick->claimed++;
        if (st != EF_OK || ef__verdict_waits(verdict)) {
            i++;
            continue;
        }
        unblock(s, i + 1, row->generation);
        s->row_count--;
        memmove(row, row + 1, (s->row_count - i) * sizeof *row);
    }
    return st;
}

ef_status ef_shadow_step(ef_shadow *s, ef_tick *out, ef_error *err)
{
    ef_tick tick = {0};
    bool held = false;
    ef_status st;

    if (!s || !out)
        return ef_fail(err, EF_BAD_INPUT, "%s is NULL", s ? "out" : "shadow");
    st = keep_leases(s, &tick, &held, err);
    if (st == EF_OK && held)
        st = copy_generations(s, err);
    if (st == EF_OK && held)
        st = retry_due(s, &tick, err);
    if (st == EF_OK && held)
        st = s->position < s->catch_up_to ? catch_up(s, &tick, err) : follow_queue(s, &tick, err);
    *out = tick;
    return st;
}

/* --- the report ------------------------------------------------------------------------------- */

static bool is_routed(const ef__generation_list *live, const ef__generation *ghost)
{
    for (size_t i = 0; i < live->count; i++)
        if (live->items[i].routed && ef_str_equal(live->items[i].name, ghost->name))
            return live->items[i].version == ghost->version;
    return false;
}

/* The rows that are left of a projection, by what they wait for. */
static void count_rows(const ef_shadow *s, int64_t generation, ef_shadow_result *out)
{
    for (size_t i = 0; i < s->row_count; i++) {
        const retry_row *row = &s->rows[i];
        if (row->generation != generation)
            continue;
        out->attempts += row->attempts;
        out->dead += row->dead;
        out->failed += row->attempts > 0 && !row->dead;
        out->blocked += row->attempts == 0;
    }
}

ef_status ef_shadow_report(ef_shadow *s, ef_shadow_result *out, size_t max, size_t *out_count,
                           ef_error *err)
{
    ef__generation_list ghosts = {0}, live = {0};
    ef_status st = ef__room_ready(&ghosts.room, err);

    *out_count = 0;
    if (st == EF_OK)
        st = ef__room_ready(&live.room, err);
    if (st == EF_OK)
        st = s->ghost->views->ops->generation_ls(s->ghost->views, (ef_str){0}, &ghosts, err);
    if (st == EF_OK)
        st = s->live->views->ops->generation_ls(s->live->views, (ef_str){0}, &live, err);
    for (size_t i = 0; st == EF_OK && i < ghosts.count && *out_count < max; i++) {
        const ef__generation *g = &ghosts.items[i];
        ef_shadow_result *r = &out[*out_count];
        if (!is_routed(&live, g))
            continue; /* another version has taken its place */
        (*out_count)++;
        *r = (ef_shadow_result){.applied = g->applied, .position = s->position};
        count_rows(s, g->id, r);
        (void)snprintf(r->name, sizeof r->name, "%.*s", EF_STR_ARG(g->name));
        ef__hex(g->digest, sizeof g->digest, r->digest);
        for (size_t l = 0; l < live.count; l++)
            if (live.items[l].routed && ef_str_equal(live.items[l].name, g->name)) {
                ef__hex(live.items[l].digest, sizeof g->digest, r->live_digest);
                r->same = memcmp(live.items[l].digest, g->digest, sizeof g->digest) == 0;
            }
    }
    ef__room_release(&ghosts.room);
    ef__room_release(&live.room);
    return st;
}

/* --- as a task of a supervisor -----------------------------------------------------------------
 */

static void log_result(const ef_shadow *s, const ef_shadow_result *r)
{
    ef__log(s->live->options.log, r->same ? EF_LOG_INFO : EF_LOG_WARN,
            r->same ? "shadow: views agree" : "shadow: views differ",
            EF_LOG_TEXT_FIELD("projection", ef_str_from(r->name)),
            EF_LOG_NUMBER_FIELD("position", r->position), EF_LOG_NUMBER_FIELD("failed", r->failed),
            EF_LOG_NUMBER_FIELD("dead", r->dead), EF_LOG_NUMBER_FIELD("blocked", r->blocked));
}

/* The comparison, once the shadow has read to the end. The append whose row it has read may have
 * yet to fold its event: views that differ are compared again before that is logged. */
static ef_status compare(ef_shadow *s, ef_tick *tick, ef_error *err)
{
    ef_shadow_result *results = calloc(RESULTS_MAX, sizeof *results);
    int64_t now_us = mono_us(s);
    bool same = true;
    size_t count = 0;
    ef_status st =
        results ? ef_shadow_report(s, results, RESULTS_MAX, &count, err) : no_memory(err);

    for (size_t i = 0; i < count; i++)
        same = same && results[i].same;
    s->differs_us = same ? 0 : s->differs_us ? s->differs_us : now_us;
    s->compares = !same && now_us - s->differs_us < DIFFERS_US;
    for (size_t i = 0; st == EF_OK && !s->compares && i < count; i++)
        log_result(s, &results[i]);
    if (s->compares)
        tick->due_us = ef__engine_now(s->live) + COMPARE_AGAIN_US;
    free(results);
    return st;
}

ef_status ef__shadow_work(ef_engine *e, const ef_work_options *options, ef_tick *tick,
                          ef_error *err)
{
    ef_shadow *s = e->shadow;
    ef_status st;

    if (options->lease_ms)
        s->lease_ms = options->lease_ms;
    st = ef_shadow_step(s, tick, err);
    if (tick->claimed || tick->caught_up) {
        s->compares = true;
        s->differs_us = 0;
    }
    return st == EF_OK && s->compares && !tick->more ? compare(s, tick, err) : st;
}
