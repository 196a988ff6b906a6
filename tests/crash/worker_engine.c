/*
 * worker_engine.c - the worker's verbs that deploy projections and fold.
 *
 * apply_oracle.py knows the same programs and folds them by itself.
 */
#include "worker.h"

#include "../../src/engine/engine_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRY_US INT64_C(600000000) /* longer than any lease or delay */
#define SETTLING_TICKS 60           /* eight attempts and what follows them */

/* Several streams feed a view; some types have no handler; it has an index. */
static const char TOTALS[] = "projection totals version 1\n"
                             "  view format(\"c{}\", data.i % 7)\n"
                             "  index sum\n"
                             "on type-0, type-1\n"
                             "  n += 1\n"
                             "  sum += data.i\n";
/* One stream, one view; the order shows, and views go and come again. */
static const char TRAIL[] = "projection trail version 1\n"
                            "on * when data.i % 10 == 9\n"
                            "  delete\n"
                            "on *\n"
                            "  n += 1\n"
                            "  last = data.i\n"
                            "  recent push data.i keep 3\n";
/* A number and a text do not add up: these events fail until they are dead. */
static const char STRICT[] = "projection strict version 1\n"
                             "on * when data.i % 25 == 13\n"
                             "  n += data.pad\n"
                             "on *\n"
                             "  n += 1\n"
                             "  last = data.i\n";
static const char LOGGED[] = "projection logged version 1\n"
                             "  order by log\n"
                             "  view type\n"
                             "  index n, last\n"
                             "on *\n"
                             "  n += 1\n"
                             "  last = position\n"
                             "  recent push data.i keep 4\n";
/* The first three fail on nothing. */
static const char *const PROGRAMS[] = {TOTALS, TRAIL, LOGGED, STRICT};
#define PROGRAM_COUNT ((int64_t)(sizeof PROGRAMS / sizeof PROGRAMS[0]))
const char *const program_names[] = {"totals", "trail", "logged", "strict"};
/* It digests everything, and counts another way. */
static const char STRICT_2[] = "projection strict version 2\n"
                               "on *\n"
                               "  n += 2\n"
                               "  last = data.i\n";

/* The same, but the views have another shape: what is there is migrated. */
static const char TRAIL_2[] = "projection trail version 2\n"
                              "  schema 2\n"
                              "migrate from 1 to 2\n"
                              "  count = n\n"
                              "  unset n\n"
                              "on * when data.i % 10 == 9\n"
                              "  delete\n"
                              "on *\n"
                              "  count += 1\n"
                              "  last = data.i\n"
                              "  recent push data.i keep 3\n";

/* A commit for each projection or two, so that kills between them are met too. */
#define COMMIT_OUTCOMES 40

ef_status open_engine(struct worker *w, const char *name, ef_engine **out)
{
    const char *slash = strrchr(w->database, '/');
    int folder = slash ? (int)(slash - w->database) : 0;
    char url[4096];

    (void)snprintf(url, sizeof url, "sqlite:%.*s/views.db", slash ? folder : 1,
                   slash ? w->database : ".");
    ef_status st = ef_engine_open(&(ef_engine_options){.journal = w->journal,
                                                       .views_url = url,
                                                       .create = true,
                                                       .worker = ef_str_from(name),
                                                       .clock = &worker_clock},
                                  out, &w->err);
    if (st == EF_OK)
        (*out)->commit_outcomes = COMMIT_OUTCOMES;
    return st;
}

/* --- deploy ------------------------------------------------------------------------------------
 */

static ef_status deploy_by(struct worker *w, ef_engine *engine, bool in_place, const char *program)
{
    ef_projection_list list = {0};
    ef_text text = {0};
    ef_deploy deployed = {
        .file_name = "crash.fold", .text = ef_str_from(program), .in_place = in_place};
    ef_status st = ef_projection_deploy(engine, &deployed, &list, &text, &w->err);

    if (st != EF_OK && text.ptr)
        fprintf(stderr, "%s\n", text.ptr);
    EF_RELEASE(&list);
    EF_RELEASE(&text);
    return st;
}

static ef_status deploy(struct worker *w, ef_engine *engine, const char *program)
{
    return deploy_by(w, engine, false, program);
}

static ef_status deploy_first(struct worker *w, ef_engine *engine, int64_t count)
{
    ef_status st = EF_OK;

    for (int64_t i = 0; st == EF_OK && i < count && i < PROGRAM_COUNT; i++)
        st = deploy(w, engine, PROGRAMS[i]);
    return st;
}

int verb_deploy(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = deploy_first(w, engine, n->at[0]);
    ef_engine_close(engine);
    return report(w, st);
}

int verb_upgrade(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    (void)n;
    if (st == EF_OK)
        st = deploy(w, engine, STRICT_2);
    ef_engine_close(engine);
    return report(w, st);
}

/* --- work --------------------------------------------------------------------------------------
 */

static ef_status tick(struct worker *w, ef_engine *engine, int64_t batch, bool leasing,
                      ef_tick *out)
{
    ef_work_options options = {.batch = (size_t)batch, .no_leasing = !leasing};
    ef_status st = ef_engine_work(engine, &options, out, &w->err);

    if (st == EF_OK)
        note(w, "w %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", out->claimed, out->applied,
             out->ignored, out->failed);
    return st;
}

/* Waits until the retry is due, which may be late: an earlier worker may have set the time. */
static void wait_for_retry(const ef_tick *done)
{
    int64_t now_us = worker_clock.wall_us(worker_clock.context);

    pass_time(RETRY_US + (done->due_us > now_us ? done->due_us - now_us : 0));
}

static bool is_behind(const ef_row *row, const ef_row *other)
{
    return row->seq > other->seq && ef_str_equal(row->stream, other->stream) &&
           ef_str_equal(row->tenant, other->tenant) && ef_str_equal(row->lane, other->lane);
}

/* Is all that is left dead, or behind a dead one of its stream? */
static ef_status is_settled(struct worker *w, bool *out)
{
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(
        w->journal, &(ef_outbox_query){.any_tenant = true, .limit = BATCH_MAX}, &rows, &w->err);

    *out = st == EF_OK;
    for (size_t i = 0; *out && i < rows.count; i++) {
        bool waits = rows.items[i].status == EF_ROW_DEAD && !rows.items[i].skip;
        for (size_t n = 0; n < rows.count && !waits; n++)
            waits = rows.items[n].status == EF_ROW_DEAD && !rows.items[n].skip &&
                    is_behind(&rows.items[i], &rows.items[n]);
        *out = waits;
    }
    EF_RELEASE(&rows);
    return st;
}

static ef_status settle(struct worker *w, ef_engine *engine, int64_t ticks, int64_t batch,
                        bool leasing, bool *out_settled)
{
    ef_status st = EF_OK;

    *out_settled = false;
    for (int64_t i = 0; st == EF_OK && i < ticks && !*out_settled; i++) {
        ef_tick done;
        st = tick(w, engine, batch, leasing, &done);
        if (st != EF_OK || done.more)
            continue;
        st = is_settled(w, out_settled);
        wait_for_retry(&done);
    }
    return st;
}

/* Taken over in place, and every view rewritten. */
int verb_migrate(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    bool settled = true;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = deploy_by(w, engine, true, TRAIL_2);
    if (st == EF_OK)
        st = settle(w, engine, n->at[0], n->at[1], n->at[2], &settled);
    ef_engine_close(engine);
    return report(w, st);
}

/* Until there is nothing left to do; what fails is tried again at once, until it is dead. */
int verb_work(struct worker *w, const struct numbers *n)
{
    ef_engine *engine = NULL;
    bool settled = true;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = settle(w, engine, n->at[0], n->at[1], n->at[2], &settled);
    ef_engine_close(engine);
    if (st != EF_OK || settled)
        return report(w, st);
    printf("broken: there is work left after %" PRId64 " ticks\n", n->at[0]);
    return EXIT_BROKEN;
}

/* --- skip --------------------------------------------------------------------------------------
 */

/* Skips every dead row. A skipped row stays dead until a worker has carried out the skip. */
int verb_skip(struct worker *w, const struct numbers *n)
{
    ef_row_status dead = EF_ROW_DEAD;
    ef_row_list rows = {0}, passed = {0};
    ef_status st = ef_outbox_ls(
        w->journal, &(ef_outbox_query){.any_tenant = true, .status = &dead, .limit = 1000}, &rows,
        &w->err);

    (void)n;
    for (size_t i = 0; st == EF_OK && i < rows.count; i++) {
        const ef_row *row = &rows.items[i];
        if (row->skip)
            continue;
        st = ef__outbox_skip(w->journal,
                             &(ef_outbox_action){.tenant = row->tenant,
                                                 .stream = row->stream,
                                                 .seq = row->seq,
                                                 .lane = row->lane,
                                                 .actor = EF_STR("crash test"),
                                                 .reason = EF_STR("it will never fold"),
                                                 .versions = (const int32_t[]){1},
                                                 .version_count = 1},
                             &passed, &w->err);
        if (st == EF_OK)
            note(w, "s %" PRId64 "\n", row->position);
    }
    EF_RELEASE(&rows);
    EF_RELEASE(&passed);
    return report(w, st);
}

/* --- live --------------------------------------------------------------------------------------
 */

/* Append a batch, fold what there is, append the next: as a service does. */
int verb_live(struct worker *w, const struct numbers *n)
{
    int64_t total = n->at[0], size = n->at[2] < BATCH_MAX ? n->at[2] : BATCH_MAX;
    struct batch *b = batch_new(n->at[1], n->at[3], n->at[4]);
    ef_engine *engine = NULL;
    ef_tick done;
    bool settled;
    ef_status st = open_engine(w, WORKER_NAME, &engine);

    if (st == EF_OK)
        st = deploy_first(w, engine, PROGRAM_COUNT);
    for (int64_t i = 0; st == EF_OK && i < total; i += size) {
        st = append_batch(w, b, i, total - i < size ? total - i : size, &w->err);
        if (st == EF_OK)
            st = tick(w, engine, size, false, &done);
    }
    if (st == EF_OK)
        st = settle(w, engine, SETTLING_TICKS, size, false, &settled);
    ef_engine_close(engine);
    batch_free(b);
    return report(w, st);
}
