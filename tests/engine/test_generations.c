/*
 * test_generations.c - rebuilds of a projection: beside the old one, in place, compared, switched,
 * rolled back and retired, during live work.
 */
#include "engine_fixture.h"

#include "../../src/engine/run.h"
#include "../../src/engine/engine_priv.h"
#include "../../src/journal/journal.h"

#include <inttypes.h>
#include <stdlib.h>

static const char SUMS_2[] = "projection sums version 2\n"
                             "  view data.of\n"
                             "on added\n"
                             "  n += 2\n";

static const char LOGGED[] = "projection logged version 1\n"
                             "  view data.of\n"
                             "  order by log\n"
                             "on added\n"
                             "  n += 1\n";

static void start(fixture *f)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, SUMS);
    drain(f);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", GOOD);
    drain(f);
}

/* What there is to say about one generation. */
typedef struct build {
    bool there, active;
    char state[16], digest[33];
    int64_t views, unaccounted, lag;
    int32_t version;
} build;

static build build_of(fixture *f, const char *name, int32_t number)
{
    ef_projection_list list = {0};
    build b = {0};

    OK(ef_projection_ls(f->engine, ef_str_from(name), &list, &f->err));
    for (size_t i = 0; i < list.count; i++) {
        const ef_projection *p = &list.items[i];
        if (p->generation != number)
            continue;
        b = (build){.there = true,
                    .active = p->active,
                    .views = p->views,
                    .unaccounted = p->unaccounted,
                    .lag = p->lag_events + p->blocked_events,
                    .version = p->version};
        (void)snprintf(b.state, sizeof b.state, "%.*s", EF_STR_ARG(p->state));
        (void)snprintf(b.digest, sizeof b.digest, "%s", p->digest);
    }
    EF_RELEASE(&list);
    return b;
}

static void rebuild(fixture *f, const char *name, bool in_place, char id[64])
{
    ef_run_list runs = {0};

    OK(ef_projection_rebuild(f->engine,
                             &(ef_rebuild){.projection = ef_str_from(name),
                                           .in_place = in_place,
                                           .actor = EF_STR("ana")},
                             &runs, &f->err));
    (void)snprintf(id, 64, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
}

static ef_verdict verdict_of(fixture *f, const char *id)
{
    ef_run_list runs = {0};
    ef_verdict verdict;

    OK(test_run_read(f->journal, id, &runs, &f->err));
    OK(ef_run_verdict(&runs.items[0], &verdict, &f->err));
    verdict.examples = (ef_str){0}; /* it is the run's */
    EF_RELEASE(&runs);
    return verdict;
}

static ef_status route(fixture *f, const char *verb, int32_t version, int32_t generation)
{
    ef_generation_choice to = {.projection = EF_STR("sums"),
                               .version = version,
                               .generation = generation,
                               .actor = EF_STR("ana")};

    if (strcmp(verb, "retire") == 0)
        return ef_projection_retire(f->engine, &to, NULL, &f->err);
    to.previous = strcmp(verb, "rollback") == 0;
    return ef_projection_switch(f->engine, &to, &f->err);
}

/* --- rebuild ---------------------------------------------------------------------------------- */

static void a_rebuild_beside_has_the_same_views_and_becomes_active(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    rebuild(f, "sums", false, id);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    build old = build_of(f, "sums", 1), made = build_of(f, "sums", 2);
    CHECK(made.active && !old.active);
    CHECK_TEXT("live", made.state);
    CHECK_TEXT("live", old.state);
    CHECK_TEXT(old.digest, made.digest);
    CHECK_INT(0, made.unaccounted);
    ef_verdict v = verdict_of(f, id);
    CHECK(v.compared);
    CHECK_INT(1, v.views);
    CHECK_INT(0, v.differences);
    fixture_close(f);
}

static int64_t count_in(const char *data)
{
    CHECK(strncmp(data, "{\"n\":", 5) == 0);
    return strtoll(data + 5, NULL, 10);
}

static void
readers_see_whole_data_while_it_is_rebuilt_and_nothing_is_skipped_or_doubled(void **state)
{
    fixture fx, *f = &fx;
    char id[64], expected[64];
    int64_t n = 2;

    (void)state;
    start(f);
    rebuild(f, "sums", false, id);
    for (int i = 0; i < 200 && !build_of(f, "sums", 2).active; i++) {
        append(f, i % 2 ? "s" : "u", "added", GOOD);
        n++;
        if (i % 3 == 0)
            (void)drive(f, id, 1);
        else
            tick(f);
        CHECK(count_in(view_data(f, "sums", "a")) >= 2); /* never less than what was there */
    }
    drain(f);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    (void)snprintf(expected, sizeof expected, "{\"n\":%" PRId64 ",\"sum\":%" PRId64 "}", n, n);
    CHECK_TEXT(expected, view_data(f, "sums", "a"));
    CHECK_TEXT(build_of(f, "sums", 1).digest, build_of(f, "sums", 2).digest);
    CHECK_INT(0, build_of(f, "sums", 2).unaccounted);
    fixture_close(f);
}

static void a_rebuild_in_place_starts_without_views(void **state)
{
    fixture fx, *f = &fx;
    char id[64], digest[33];

    (void)state;
    start(f);
    memcpy(digest, build_of(f, "sums", 1).digest, sizeof digest);
    rebuild(f, "sums", true, id);
    for (int i = 0; i < 4; i++) /* noted, made, routed, the old one out */
        (void)drive(f, id, 1);
    CHECK(!build_of(f, "sums", 1).there);
    CHECK(build_of(f, "sums", 2).active);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK_TEXT(digest, build_of(f, "sums", 2).digest);
    CHECK_INT(0, build_of(f, "sums", 2).unaccounted);
    fixture_close(f);
}

static void a_rebuild_in_place_cancelled_early_leaves_the_old_generation(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    rebuild(f, "sums", true, id);
    for (int i = 0; i < 2; i++) /* noted, made */
        (void)drive(f, id, 1);
    CHECK(build_of(f, "sums", 2).there);
    OK(ef_run_cancel(f->journal, ef_str_from(id), &f->err));
    drain(f);
    CHECK(!build_of(f, "sums", 2).there);
    CHECK(build_of(f, "sums", 1).active);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    fixture_close(f);
}

static void an_event_that_fails_in_one_version_is_applied_in_the_other(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    deploy(f, SUMS_2); /* applies events that the first one fails on */
    drain(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", GOOD);
    drain(f);
    CHECK_INT(2, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    build old = build_of(f, "sums", 1), new = build_of(f, "sums", 2);
    CHECK_TEXT("live", new.state);
    CHECK_INT(2, old.lag);
    CHECK_INT(0, old.unaccounted);
    CHECK_INT(0, new.lag);
    CHECK_INT(0, new.unaccounted);
    OK(route(f, "switch", 2, 0));
    OK(route(f, "rollback", 0, 0)); /* it is no reason to stay */
    fixture_close(f);
}

static void retry_rows_of_a_superseded_generation_are_removed_and_added_again(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    deploy(f, SUMS_2); /* applies events that the first one fails on */
    drain(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_INT(2, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    OK(route(f, "switch", 2, 0));
    CHECK_INT(0, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    append(f, "s", "added", GOOD); /* the first is still fed, and lacks it too */
    append(f, "u", "added", BAD);
    drain(f);
    CHECK_INT(0, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    CHECK_INT(0, build_of(f, "sums", 1).unaccounted);
    CHECK_INT(0, build_of(f, "sums", 2).unaccounted);
    OK(route(f, "rollback", 0, 0));
    CHECK_INT(4, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    drain(f);
    CHECK_INT(2, summary_of(f, "sums").failed);
    CHECK_INT(2, summary_of(f, "sums").pending);
    CHECK_INT(0, build_of(f, "sums", 1).unaccounted);
    OK(route(f, "switch", 2, 0));
    CHECK_INT(0, summary_of(f, "sums").failed + summary_of(f, "sums").pending);
    fixture_close(f);
}

static void a_dead_row_stays_dead_if_the_rebuilt_generation_fails_too(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    for (int i = 0; i < 200 && !summary_of(f, "sums").dead; i++) {
        drain(f);
        pass_time(f, 20 * SECOND);
    }
    CHECK_INT(1, summary_of(f, "sums").dead);
    rebuild(f, "sums", true, id);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    drain(f);
    CHECK_INT(1, summary_of(f, "sums").dead);
    CHECK_INT(1, summary_of(f, "sums").pending);
    check_accounts(f, "sums", "live", 2);
    fixture_close(f);
}

static void a_log_ordered_projection_is_rebuilt(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    deploy(f, LOGGED);
    drain(f);
    rebuild(f, "logged", false, id);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK(build_of(f, "logged", 2).active);
    CHECK_TEXT(build_of(f, "logged", 1).digest, build_of(f, "logged", 2).digest);
    fixture_close(f);
}

static void a_cancelled_rebuild_leaves_no_generation(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    rebuild(f, "sums", false, id);
    CHECK_INT(EF_RUN_RUNNING, drive(f, id, 2));
    CHECK(build_of(f, "sums", 2).there);
    OK(ef_run_cancel(f->journal, ef_str_from(id), &f->err));
    CHECK_INT(EF_RUN_CANCELLED, drive(f, id, -1));
    CHECK(!build_of(f, "sums", 2).there);
    CHECK(build_of(f, "sums", 1).active);
    REFUSED(EF_CONFLICT, ef_run_cancel(f->journal, ef_str_from(id), &f->err));
    fixture_close(f);
}

/* A journal in front of the real one: it cancels the run just before its end is written. */
static struct {
    const ef__record_ops *real;
    ef__record_ops ops;
    char id[64];
    bool lost; /* … and the answer is lost: nothing is written */
    int times;
} g_race;

static ef_status update_late(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                             int64_t token, ef_error *err)
{
    ef_error refused = EF_ERROR_INIT;

    if (run->state == EF_RUN_COMPLETED && g_race.times++ == 0) {
        CHECK_INT(EF_OK, g_race.real->run_cancel(journal, ef_str_from(g_race.id), &refused));
        if (g_race.lost)
            return ef_fail(err, EF_BUSY, "the store could not begin in time");
    }
    return g_race.real->run_update(journal, run, lease, token, err);
}

/* The rebuild is driven to its end, and cancelled in its last step. */
static void cancel_in_the_last_step(fixture *f, bool lost)
{
    start(f);
    rebuild(f, "sums", false, g_race.id);
    g_race.real = f->journal->records;
    g_race.ops = *f->journal->records;
    g_race.ops.run_update = update_late;
    g_race.lost = lost;
    g_race.times = 0;
    f->journal->records = &g_race.ops;
    for (int i = 0; i < 40 && g_race.times == 0; i++)
        (void)drive(f, g_race.id, 1);
    CHECK_INT(1, g_race.times);
    pass_time(f, 60 * SECOND);
    /* Queries read the new generation, so the run is not cancelled, and nothing is removed. */
    CHECK_INT(EF_RUN_COMPLETED, drive(f, g_race.id, -1));
    f->journal->records = g_race.real;
    drain(f);
    CHECK(build_of(f, "sums", 2).active);
    CHECK(build_of(f, "sums", 1).there);
    check_accounts(f, "sums", "live", 0);
    REFUSED(EF_CONFLICT, ef_run_cancel(f->journal, ef_str_from(g_race.id), &f->err));
    fixture_close(f);
}

static void a_cancel_in_the_last_step_of_a_rebuild_is_too_late(void **state)
{
    fixture fx;

    (void)state;
    cancel_in_the_last_step(&fx, false);
}

static void a_cancel_after_a_switch_with_a_lost_response_is_too_late(void **state)
{
    fixture fx;

    (void)state;
    cancel_in_the_last_step(&fx, true);
}

static void a_paused_projection_is_not_rebuilt(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};

    (void)state;
    start(f);
    OK(ef_projection_pause(f->engine, EF_STR("sums"), true, EF_STR(""), EF_STR(""), &f->err));
    REFUSED(EF_CONFLICT,
            ef_projection_rebuild(f->engine, &(ef_rebuild){.projection = EF_STR("sums")}, &runs,
                                  &f->err));
    CHECK(strstr(f->err.text, "paused") != NULL);
    EF_RELEASE(&runs);
    fixture_close(f);
}

/* --- verify ------------------------------------------------------------------------------------
 */

static void verify(fixture *f, char id[64])
{
    ef_run_list runs = {0};

    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("sums"), .verify = true, .actor = EF_STR("ana")}, &runs,
        &f->err));
    (void)snprintf(id, 64, "%.*s", EF_STR_ARG(runs.items[0].id));
    EF_RELEASE(&runs);
}

static void a_verification_finds_no_drift_and_leaves_no_trace(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    verify(f, id);
    append(f, "s", "added", GOOD); /* the queue has yet to bring it */
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    ef_verdict v = verdict_of(f, id);
    CHECK(v.compared);
    CHECK_INT(0, v.differences);
    CHECK(!build_of(f, "sums", 2).there);
    fixture_close(f);
}

/* Changes a view without the engine: by a commit without an event. */
static void tamper(fixture *f)
{
    ef_views *views = f->engine->views;
    ef__generation_list list = {0};
    ef__arena arena = EF__ARENA_INIT(1 << 20);
    ef__view view;
    bool found;

    OK(ef__memory_prepare(&list.room, &f->err));
    OK(views->ops->generation_ls(views, EF_STR("sums"), &list, &f->err));
    OK(views->ops->view_get(views, list.items[0].id, (ef_str){0}, EF_STR("a"), &arena, &view,
                            &found, &f->err));
    CHECK(found);
    ef__view_change change = {.view = view};
    memcpy(change.before, view.digest, sizeof change.before);
    change.view.data = EF_STR("{\"n\":99}");
    OK(views->ops->commit(
        views,
        &(ef__views_commit){.generations = &(ef__generation_change){.generation = list.items[0].id,
                                                                    .era = list.items[0].era,
                                                                    .views = &change,
                                                                    .view_count = 1},
                            .generation_count = 1},
        &f->err));
    ef__arena_release(&arena);
    EF_RELEASE(&list);
}

static void a_verification_names_the_views_that_drifted(void **state)
{
    fixture fx, *f = &fx;
    ef_run_list runs = {0};
    ef_verdict v;
    char id[64];

    (void)state;
    start(f);
    tamper(f);
    verify(f, id);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    OK(test_run_read(f->journal, id, &runs, &f->err));
    OK(ef_run_verdict(&runs.items[0], &v, &f->err));
    CHECK_INT(1, v.differences);
    CHECK_STR("[{\"tenant\":\"\",\"view_id\":\"a\"}]", v.examples);
    EF_RELEASE(&runs);
    CHECK(!build_of(f, "sums", 2).there);
    fixture_close(f);
}

/* --- the route ---------------------------------------------------------------------------------
 */

static void a_switch_and_a_rollback_change_the_active_generation(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    REFUSED(EF_CONFLICT, route(f, "switch", 2, 0));
    CHECK(strstr(f->err.text, "lacks 2 events") != NULL);
    REFUSED(EF_NOT_FOUND, route(f, "rollback", 0, 0));
    drain(f);
    OK(route(f, "switch", 2, 0));
    CHECK_TEXT("{\"n\":4}", view_data(f, "sums", "a"));
    REFUSED(EF_CONFLICT, route(f, "switch", 2, 0));
    append(f, "s", "added", GOOD);
    drain(f);
    OK(route(f, "rollback", 0, 0));
    CHECK_TEXT("{\"n\":3,\"sum\":3}", view_data(f, "sums", "a"));
    OK(route(f, "rollback", 0, 0));
    CHECK_TEXT("{\"n\":6}", view_data(f, "sums", "a"));
    REFUSED(EF_NOT_FOUND, route(f, "switch", 7, 0));
    REFUSED(EF_BAD_INPUT, route(f, "switch", 1, 1));
    fixture_close(f);
}

static void an_active_generation_is_not_retired_and_a_retired_one_is_removed(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    drain(f);
    REFUSED(EF_CONFLICT, route(f, "retire", 1, 0));
    REFUSED(EF_CONFLICT, route(f, "retire", 0, 1));
    OK(route(f, "switch", 2, 0));
    OK(route(f, "retire", 1, 0));
    CHECK(!build_of(f, "sums", 1).there);
    REFUSED(EF_NOT_FOUND, route(f, "retire", 1, 0));
    REFUSED(EF_NOT_FOUND, route(f, "rollback", 0, 0));
    append(f, "s", "added", GOOD);
    drain(f);
    CHECK_TEXT("{\"n\":6}", view_data(f, "sums", "a"));
    fixture_close(f);
}

/* It was retired, and the process ended before all of it was removed. */
static void a_worker_removes_the_rest_of_a_retired_generation(void **state)
{
    fixture fx, *f = &fx;
    ef__generation_list list = {0};
    ef_views *views;
    char id[16];
    bool more;

    (void)state;
    start(f);
    for (int i = 0; i < 2500; i++) {
        char data[64];
        (void)snprintf(id, sizeof id, "v%d", i);
        (void)snprintf(data, sizeof data, "{\"of\":\"%s\",\"good\":1}", id);
        append(f, id, "added", data);
    }
    deploy(f, SUMS_2);
    drain(f);
    OK(route(f, "switch", 2, 0));
    views = f->engine->views;
    OK(ef__memory_prepare(&list.room, &f->err));
    OK(views->ops->generation_ls(views, EF_STR("sums"), &list, &f->err));
    OK(views->ops->generation_change(views, list.items[0].id, 0, EF__GENERATION_RETIRED, NULL,
                                     &f->err));
    OK(views->ops->generation_remove(views, list.items[0].id, 0, 100, &more, &f->err));
    CHECK(more);
    CHECK(!build_of(f, "sums", 1).there);
    deploy(f, SUMS); /* its name and version are free meanwhile */
    CHECK(tick(f).more);
    drain(f);
    OK(views->ops->generation_ls(views, EF_STR("sums"), &list, &f->err));
    CHECK_INT(2, list.count);
    CHECK_INT(2, list.items[0].number);
    CHECK_TEXT("live", build_of(f, "sums", 3).state);
    CHECK_INT(2501, build_of(f, "sums", 3).views);
    EF_RELEASE(&list);
    fixture_close(f);
}

static ef_status refuse_state(ef_views *views, int64_t id, int64_t era, ef__generation_state state,
                              const ef__generation *with, ef_error *err)
{
    (void)views;
    (void)id;
    (void)era;
    (void)state;
    (void)with;
    return ef_fail(err, EF_IO, "the disk is out");
}

/* Whatever comes of it: a record too many, and not one too few. */
static void a_retire_is_audited_before_anything_is_removed(void **state)
{
    fixture fx, *f = &fx;
    ef_audit_list acts = {0};
    ef__views_ops refusing;
    const ef__views_ops *ops;

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    drain(f);
    OK(route(f, "switch", 2, 0));
    ops = f->engine->views->ops;
    refusing = *ops;
    refusing.generation_change = refuse_state;
    f->engine->views->ops = &refusing;
    REFUSED(EF_IO, route(f, "retire", 1, 0));
    f->engine->views->ops = ops;
    CHECK(build_of(f, "sums", 1).there);
    OK(ef_audit_ls(f->journal, &(ef_audit_query){.action = EF_STR("retire"), .limit = 10}, &acts,
                   &f->err));
    CHECK_INT(1, acts.count);
    CHECK_STR("ana", acts.items[0].actor);
    EF_RELEASE(&acts);
    fixture_close(f);
}

static void a_superseded_generation_is_retired_after_the_grace_period(void **state)
{
    fixture fx, *f = &fx;

    (void)state;
    start(f);
    f->engine->options.retire_after_ms = 3600 * 1000;
    deploy(f, SUMS_2);
    drain(f);
    pass_time(f, 7200 * SECOND);
    drain(f);
    CHECK(build_of(f, "sums", 2).there); /* queries never went to it */
    OK(route(f, "switch", 2, 0));
    pass_time(f, 3500 * SECOND);
    drain(f);
    OK(route(f, "rollback", 0, 0));
    OK(route(f, "rollback", 0, 0)); /* the grace period begins again */
    pass_time(f, 3500 * SECOND);
    drain(f);
    CHECK(build_of(f, "sums", 1).there);
    pass_time(f, 101 * SECOND);
    drain(f);
    CHECK(!build_of(f, "sums", 1).there);
    CHECK(build_of(f, "sums", 2).active);
    REFUSED(EF_NOT_FOUND, route(f, "rollback", 0, 0));
    fixture_close(f);
}

/* --- a view store of an earlier version ---------------------------------------------------------
 */

/* Removes what an earlier version did not store. */
static void forget_state(fixture *f)
{
    ef_views *views = f->engine->views;
    ef__generation_list list = {0};

    OK(ef__generations_read(f->engine, EF_STR("sums"), &list, &f->err));
    for (size_t i = 0; i < list.count; i++) {
        ef__generation old = list.items[i];
        old.replaced = EF__REPLACED_UNKNOWN;
        old.superseded_us = 0;
        OK(views->ops->generation_change(views, old.id, 0, old.state, &old, &f->err));
    }
    OK(views->ops->on_error_set(views, EF_STR("sums"), EF_ON_ERROR_STOP, &f->err));
    EF_RELEASE(&list);
}

static ef__generation generation_of(fixture *f, int32_t number)
{
    ef__generation_list list = {0};
    ef__generation found;

    OK(ef__generations_read(f->engine, EF_STR("sums"), &list, &f->err));
    CHECK(ef__generation_number(&list, number) != NULL);
    found = *ef__generation_number(&list, number);
    EF_RELEASE(&list); /* its strings are not used */
    return found;
}

static void state_of_an_earlier_version_is_read_from_audit_entries_once(void **state)
{
    fixture fx, *f = &fx;
    int64_t switched_us;
    bool retired;

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    drain(f);
    OK(route(f, "switch", 2, 0));
    pass_time(f, SECOND);
    OK(route(f, "rollback", 0, 0));
    switched_us = f->now_us;
    OK(ef_projection_on_error(f->engine, EF_STR("sums"), EF_ON_ERROR_STOP, EF_STR("ana"),
                              (ef_str){0}, &f->err));
    OK(ef_projection_on_error(f->engine, EF_STR("sums"), EF_ON_ERROR_SKIP, EF_STR("ana"),
                              (ef_str){0}, &f->err));
    OK(ef_audit_add(
        f->journal,
        &(ef_audit_entry){
            .action = EF_STR("retire"), .actor = EF_STR("ana"), .lane = EF_STR("sums"), .seq = 7},
        &f->err));
    forget_state(f);
    OK(ef__views_upgrade(f->engine, &f->err));
    CHECK_INT(2, generation_of(f, 1).replaced);
    CHECK_INT(0, generation_of(f, 1).superseded_us);
    CHECK_INT(0, generation_of(f, 2).replaced);
    CHECK_INT(switched_us, generation_of(f, 2).superseded_us);
    CHECK_INT(EF_ON_ERROR_SKIP, generation_of(f, 2).on_error);
    OK(f->engine->views->ops->version_is_retired(f->engine->views, EF_STR("sums"), 7, &retired,
                                                 &f->err));
    CHECK(retired);
    /* From here on the store decides: an entry changes nothing. */
    OK(ef_audit_add(f->journal,
                    &(ef_audit_entry){.action = EF_STR("on_error"),
                                      .actor = EF_STR("ana"),
                                      .lane = EF_STR("sums"),
                                      .seq = EF_ON_ERROR_STOP},
                    &f->err));
    OK(ef__views_upgrade(f->engine, &f->err));
    CHECK_INT(EF_ON_ERROR_SKIP, generation_of(f, 1).on_error);
    OK(route(f, "rollback", 0, 0));
    CHECK(build_of(f, "sums", 2).active);
    fixture_close(f);
}

/* The old generation is retired by the run, so the target is the one before it. */
static void a_rollback_after_a_rebuild_in_place_passes_over_what_was_replaced(void **state)
{
    fixture fx, *f = &fx;
    char id[64];

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    drain(f);
    OK(route(f, "switch", 2, 0));
    rebuild(f, "sums", true, id);
    CHECK_INT(EF_RUN_COMPLETED, drive(f, id, -1));
    CHECK(build_of(f, "sums", 3).active);
    OK(route(f, "rollback", 0, 0));
    CHECK(build_of(f, "sums", 1).active);
    fixture_close(f);
}

typedef struct seen {
    int count;
    char left[64], right[64];
} seen;

static bool note_difference(void *context, const ef_difference *d)
{
    seen *s = context;

    s->count++;
    (void)snprintf(s->left, sizeof s->left, "%.*s", EF_STR_ARG(d->left));
    (void)snprintf(s->right, sizeof s->right, "%.*s", EF_STR_ARG(d->right));
    return true;
}

static void a_diff_of_generations_has_both_views(void **state)
{
    fixture fx, *f = &fx;
    ef_generation_choice one = {.projection = EF_STR("sums"), .version = 1},
                         two = {.projection = EF_STR("sums"), .version = 2};
    ef_diff diff;
    seen s = {0};

    (void)state;
    start(f);
    deploy(f, SUMS_2);
    drain(f);
    OK(ef_projection_diff(f->engine, &one, &two, note_difference, &s, &diff, &f->err));
    CHECK_INT(1, diff.different);
    CHECK_INT(1, diff.views);
    CHECK_INT(1, s.count);
    CHECK_TEXT("{\"n\":2,\"sum\":2}", s.left);
    CHECK_TEXT("{\"n\":4}", s.right);
    OK(ef_projection_diff(f->engine, &one, &one, note_difference, &s, &diff, &f->err));
    CHECK_INT(0, diff.different + diff.left_only + diff.right_only);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rebuild_beside_has_the_same_views_and_becomes_active),
        cmocka_unit_test(
            readers_see_whole_data_while_it_is_rebuilt_and_nothing_is_skipped_or_doubled),
        cmocka_unit_test(a_rebuild_in_place_starts_without_views),
        cmocka_unit_test(a_rebuild_in_place_cancelled_early_leaves_the_old_generation),
        cmocka_unit_test(an_event_that_fails_in_one_version_is_applied_in_the_other),
        cmocka_unit_test(a_dead_row_stays_dead_if_the_rebuilt_generation_fails_too),
        cmocka_unit_test(retry_rows_of_a_superseded_generation_are_removed_and_added_again),
        cmocka_unit_test(a_log_ordered_projection_is_rebuilt),
        cmocka_unit_test(a_cancelled_rebuild_leaves_no_generation),
        cmocka_unit_test(a_cancel_in_the_last_step_of_a_rebuild_is_too_late),
        cmocka_unit_test(a_cancel_after_a_switch_with_a_lost_response_is_too_late),
        cmocka_unit_test(a_paused_projection_is_not_rebuilt),
        cmocka_unit_test(a_verification_finds_no_drift_and_leaves_no_trace),
        cmocka_unit_test(a_verification_names_the_views_that_drifted),
        cmocka_unit_test(a_switch_and_a_rollback_change_the_active_generation),
        cmocka_unit_test(an_active_generation_is_not_retired_and_a_retired_one_is_removed),
        cmocka_unit_test(a_worker_removes_the_rest_of_a_retired_generation),
        cmocka_unit_test(a_retire_is_audited_before_anything_is_removed),
        cmocka_unit_test(a_superseded_generation_is_retired_after_the_grace_period),
        cmocka_unit_test(state_of_an_earlier_version_is_read_from_audit_entries_once),
        cmocka_unit_test(a_rollback_after_a_rebuild_in_place_passes_over_what_was_replaced),
        cmocka_unit_test(a_diff_of_generations_has_both_views),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
