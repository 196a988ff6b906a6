/*
 * test_scopes.c - a projection in the order of the log, tenant by tenant: who stops, who goes on,
 * and how one that stopped joins the others again.
 */
#include "engine_fixture.h"

#include "../../src/engine/engine_priv.h"
#include "../../src/journal/journal.h"
#include "../../src/views/views.h"

#include <inttypes.h>

static bool g_broken; /* the function fails on "bad" events; set before anything is folded */

static ef_status count_events(ef_fold *fold, const ef_event *event, void *context, ef_error *err)
{
    const bool *broken = context;
    ef_status st;

    if (ef_str_equal(event->type, EF_STR("other")))
        return ef_fold_ignore(fold);
    if (*broken && ef_str_equal(event->type, EF_STR("bad")))
        return ef_fail(err, EF_BAD_INPUT, "cannot digest it");
    st = ef_fold_view(fold, EF_STR("all"), err);
    return st == EF_OK ? ef_fold_add_int(fold, "n", 1, err) : st;
}

static void enrol(fixture *f, const char *name, bool *broken)
{
    ef_c_projection p = {
        .name = ef_str_from(name), .version = 1, .fn = count_events, .context = broken};

    OK(ef_engine_register(f->engine, &p, &f->err));
}

/* "counts" is broken, its twin is fine. */
static void start(fixture *f)
{
    static bool fine = false;

    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    g_broken = true;
    enrol(f, "counts", &g_broken);
    enrol(f, "twin", &fine);
    drain(f);
}

static int64_t append_for(fixture *f, const char *tenant, const char *type)
{
    ef_new_event event = {.tenant = ef_str_from(tenant),
                          .stream = EF_STR("s"),
                          .type = ef_str_from(type),
                          .data = EF_STR("{\"of\":\"a\",\"good\":0}")};
    ef_place place;

    OK(ef_engine_append(f->engine, &event, 1, &place, &f->err));
    return place.position;
}

/* b's third event is bad: positions 1 to 8. */
static void append_mixed(fixture *f)
{
    static const char *const TYPES[] = {"good", "good", "bad", "good"};

    for (int i = 0; i < 4; i++) {
        append_for(f, "a", "good");
        append_for(f, "b", TYPES[i]);
    }
}

/* The count of a tenant's view; 0 when there is none. */
static int count_of(fixture *f, const char *projection, const char *tenant)
{
    ef_view_list list = {0};
    ef_status st = ef_view_get(f->engine, ef_str_from(projection), ef_str_from(tenant),
                               EF_STR("all"), NULL, &list, &f->err);
    int n = 0;

    CHECK(st == EF_OK || st == EF_NOT_FOUND);
    if (st == EF_OK)
        CHECK_INT(1, sscanf(list.items[0].data.ptr, "{\"n\":%d}", &n));
    EF_RELEASE(&list);
    return n;
}

static void check_scope(fixture *f, const char *tenant, const char *state, int64_t position,
                        int64_t pending, int64_t retries)
{
    ef_scope_list list = {0};

    OK(ef_projection_scope(f->engine, EF_STR("counts"), ef_str_from(tenant), &list, &f->err));
    CHECK_STR(state, list.items[0].state);
    CHECK_INT(position, list.items[0].position);
    CHECK_INT(pending, list.items[0].pending);
    CHECK(!list.items[0].pending_more);
    CHECK_INT(retries, list.items[0].retries);
    CHECK_INT(retries != 0, strstr(list.items[0].error.ptr, "cannot digest it") != NULL);
    CHECK_STR(retries ? "fold_error" : "", list.items[0].error_code);
    EF_RELEASE(&list);
}

static ef_status read_current(fixture *f, const char *projection, const char *tenant,
                              int64_t *out_as_of)
{
    ef_view_list list = {0};
    ef_status st = ef_view_get(f->engine, ef_str_from(projection), ef_str_from(tenant),
                               EF_STR("all"), &(ef_freshness){.current = true}, &list, &f->err);

    *out_as_of = list.as_of;
    EF_RELEASE(&list);
    return st;
}

/* Until it has used up its retries: the sixth failure. */
static void let_fail(fixture *f)
{
    for (int i = 0; i < 6; i++) {
        drain(f);
        pass_time(f, 4 * SECOND);
    }
}

/* --- stopping --------------------------------------------------------------------------------- */

TEST(a_poison_event_stops_its_own_tenant_and_no_other)
{
    fixture t, *f = &t;
    int64_t as_of;

    start(f);
    append_mixed(f);
    drain(f);
    CHECK_INT(4, count_of(f, "counts", "a"));
    CHECK_INT(2, count_of(f, "counts", "b"));
    check_scope(f, "a", "live", 8, 0, 0);
    check_scope(f, "b", "retrying", 5, 2, 1);
    check_accounts(f, "counts", "live", 2);
    append_for(f, "a", "good");
    append_for(f, "b", "good");
    drain(f);
    CHECK_INT(5, count_of(f, "counts", "a"));
    CHECK_INT(2, count_of(f, "counts", "b"));
    check_accounts(f, "counts", "live", 3);
    OK(read_current(f, "counts", "a", &as_of));
    CHECK_INT(10, as_of);
    REFUSED(EF_BLOCKED, read_current(f, "counts", "b", &as_of));
    fixture_close(f);
}

TEST(scopes_are_listed_with_stopped_tenants_last)
{
    fixture t, *f = &t;
    ef_projection_list list = {0};
    const ef_projection *p;

    start(f);
    append_mixed(f);
    append_for(f, "", "bad");
    drain(f);
    OK(ef_projection_ls(f->engine, EF_STR("counts"), &list, &f->err));
    p = &list.items[0];
    CHECK_INT(3, p->scope_count);
    CHECK_INT(2, p->scopes_behind);
    CHECK_STR("*:counts:5", p->scopes[0].name);
    CHECK(p->scopes[0].any_tenant);
    CHECK_STR("live", p->scopes[0].state);
    CHECK_INT(9, p->scopes[0].position);
    CHECK(p->scopes[0].synced_us > 0);
    CHECK_STR("default:counts:7", p->scopes[1].name);
    CHECK_STR("", p->scopes[1].tenant);
    CHECK_INT(8, p->scopes[1].position);
    CHECK_STR("b:counts:6", p->scopes[2].name);
    CHECK_STR("b", p->scopes[2].tenant);
    CHECK_STR("retrying", p->scopes[2].state);
    CHECK_INT(5, p->scopes[2].position);
    CHECK_INT(2, p->scopes[2].pending);
    CHECK_INT(5, p->position); /* what every tenant has */
    EF_RELEASE(&list);
    fixture_close(f);
}

TEST(a_stopped_tenant_is_retried_after_250_ms_doubling_and_fails_at_the_sixth)
{
    static const int64_t WAITS_MS[] = {250, 500, 1000, 2000, 4000};
    fixture t, *f = &t;
    ef_failure_list failures = {0};

    start(f);
    append_mixed(f);
    CHECK_INT(1, drain(f).failed);
    for (int i = 0; i < 5; i++) {
        check_scope(f, "b", "retrying", 5, 2, i + 1);
        pass_time(f, WAITS_MS[i] * 1000 - 1);
        CHECK_INT(0, drain(f).failed);
        pass_time(f, 1);
        CHECK_INT(1, drain(f).failed);
    }
    check_scope(f, "b", "failed", 5, 2, 6);
    check_accounts(f, "counts", "live", 2);
    OK(ef_projection_failures(f->engine, &(ef_failure_query){.projection = EF_STR("counts")},
                              &failures, &f->err));
    CHECK_INT(1, failures.count);
    CHECK_INT(6, failures.items[0].attempts);
    CHECK_INT(6, failures.items[0].position);
    CHECK_STR("b", failures.items[0].tenant);
    EF_RELEASE(&failures);
    fixture_close(f);
}

TEST(a_restarted_worker_continues_the_count_of_failures)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    drain(f);
    if (fixture_has_files(f)) {
        ef_engine_close(f->engine);
        f->engine = fixture_engine(f, "w1");
        enrol(f, "counts", &g_broken);
        drain(f);
        check_scope(f, "b", "retrying", 5, 2, 1); /* not due yet */
        pass_time(f, SECOND / 4);
        drain(f);
        check_scope(f, "b", "retrying", 5, 2, 2);
    }
    fixture_close(f);
}

/* --- joining ---------------------------------------------------------------------------------- */

static void check_joined(fixture *f)
{
    ef_projection_list list = {0};
    char digest[33];

    OK(ef_projection_ls(f->engine, EF_STR("counts"), &list, &f->err));
    CHECK_INT(0, list.items[0].scopes_behind);
    CHECK_INT(0, list.items[0].failures);
    memcpy(digest, list.items[0].digest, sizeof digest);
    EF_RELEASE(&list);
    OK(ef_projection_ls(f->engine, EF_STR("twin"), &list, &f->err));
    CHECK_TEXT(list.items[0].digest, digest);
    EF_RELEASE(&list);
    check_accounts(f, "counts", "live", 0);
}

TEST(a_failed_tenant_is_retried_every_minute_and_joins)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    let_fail(f);
    g_broken = false;
    drain(f);
    check_scope(f, "b", "failed", 5, 2, 6);
    pass_time(f, 60 * SECOND);
    drain(f);
    CHECK_INT(4, count_of(f, "counts", "b"));
    check_scope(f, "b", "live", 8, 0, 0);
    check_joined(f);
    append_mixed(f);
    drain(f);
    CHECK_INT(8, count_of(f, "counts", "b"));
    check_joined(f);
    fixture_close(f);
}

TEST(a_failed_tenant_is_retried_at_once_when_resumed)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    let_fail(f);
    OK(ef_projection_pause(f->engine, EF_STR("counts"), false, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    check_scope(f, "b", "retrying", 5, 2, 1); /* its failures are counted from 0 again */
    g_broken = false;
    OK(ef_projection_pause(f->engine, EF_STR("counts"), false, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    check_joined(f);
    fixture_close(f);
}

TEST(a_tenant_that_catches_up_in_steps_misses_no_event)
{
    fixture t, *f = &t;

    start(f);
    f->engine->cursor_batch = 3;
    for (int i = 0; i < 8; i++)
        append_mixed(f);
    drain(f);
    check_scope(f, "b", "retrying", 5, 30, 1);
    g_broken = false;
    pass_time(f, SECOND / 4);
    for (int i = 0; i < 40; i++) {
        append_for(f, "b", i % 3 ? "other" : "good"); /* an ignored one moves no digest */
        append_for(f, "a", "good");
        (void)tick(f);
        check_accounts(f, "twin", "live", 0);
    }
    drain(f);
    CHECK_INT(32 + 14, count_of(f, "counts", "b"));
    CHECK_INT(32 + 40, count_of(f, "counts", "a"));
    check_joined(f);
    fixture_close(f);
}

TEST(a_tenant_that_stops_again_counts_from_one)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    let_fail(f);
    g_broken = false;
    append_for(f, "b", "good");
    pass_time(f, 60 * SECOND);
    (void)tick(f); /* past the one event that it failed on */
    g_broken = true;
    append_for(f, "b", "bad");
    drain(f);
    check_scope(f, "b", "retrying", 9, 1, 1);
    CHECK_INT(5, count_of(f, "counts", "b"));
    check_accounts(f, "counts", "live", 1);
    fixture_close(f);
}

TEST(a_paused_projection_keeps_the_cursors_of_tenants)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    drain(f);
    OK(ef_projection_pause(f->engine, EF_STR("counts"), true, EF_STR(""), EF_STR(""), &f->err));
    append_mixed(f);
    pass_time(f, 60 * SECOND);
    drain(f);
    check_scope(f, "a", "paused", 8, 4, 0);
    check_scope(f, "b", "paused", 5, 6, 1);
    g_broken = false;
    OK(ef_projection_pause(f->engine, EF_STR("counts"), false, EF_STR(""), EF_STR(""), &f->err));
    drain(f);
    check_joined(f);
    fixture_close(f);
}

/* --- beside the rest -------------------------------------------------------------------------- */

TEST(skip_and_record_skips_a_tenants_event_after_the_last_attempt)
{
    fixture t, *f = &t;
    ef_failure_list failures = {0};

    start(f);
    OK(ef_projection_on_error(f->engine, EF_STR("counts"), EF_ON_ERROR_SKIP, EF_STR("ana"),
                              EF_STR("half a truth will do"), &f->err));
    append_mixed(f);
    let_fail(f);
    drain(f);
    CHECK_INT(4, count_of(f, "counts", "a"));
    CHECK_INT(3, count_of(f, "counts", "b"));
    check_scope(f, "b", "live", 8, 0, 0);
    check_accounts(f, "counts", "live", 0);
    OK(ef_projection_failures(f->engine,
                              &(ef_failure_query){.projection = EF_STR("counts"), .resolved = true},
                              &failures, &f->err));
    CHECK_INT(1, failures.count);
    CHECK_INT(6, failures.items[0].attempts);
    CHECK(!failures.items[0].open);
    EF_RELEASE(&failures);
    fixture_close(f);
}

TEST(pending_events_are_counted_per_tenant)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    drain(f);
    append_for(f, "a", "good");
    append_for(f, "b", "good");
    append_for(f, "b", "good");
    check_scope(f, "a", "live", 8, 1, 0);
    check_scope(f, "b", "retrying", 5, 4, 1);
    check_scope(f, "c", "live", 8, 0, 0);
    fixture_close(f);
}

TEST(a_side_build_stops_tenants_at_the_same_events)
{
    fixture t, *f = &t;
    ef_run_list runs = {0};
    ef_verdict verdict;
    char id[64];

    start(f);
    append_mixed(f);
    let_fail(f);
    OK(ef_projection_rebuild(
        f->engine,
        &(ef_rebuild){.projection = EF_STR("counts"), .verify = true, .actor = EF_STR("ana")},
        &runs, &f->err));
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(runs.items[0].id));
    OK(ef_engine_run(f->engine, ef_str_from(id), NULL, &runs, &f->err));
    CHECK_INT(EF_RUN_COMPLETED, runs.items[0].state);
    OK(ef_run_verdict(&runs.items[0], &verdict, &f->err));
    CHECK_INT(0, verdict.differences);
    CHECK_INT(2, verdict.views);
    EF_RELEASE(&runs);
    fixture_close(f);
}

TEST(a_dead_row_of_one_tenant_does_not_block_reads_of_another)
{
    fixture t, *f = &t;
    ef_scope_list list = {0};
    int64_t as_of;

    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, "projection sums version 1\n"
              "  view \"all\"\n"
              "on good\n"
              "  n += 1\n"
              "on bad\n"
              "  n += 1 / data.good\n");
    drain(f);
    append_mixed(f);
    drain(f);
    OK(read_current(f, "sums", "a", &as_of));
    CHECK_INT(8, as_of);
    OK(read_current(f, "sums", "b", &as_of)); /* everything that is not blocked */
    CHECK_INT(5, as_of);
    OK(ef_projection_scope(f->engine, EF_STR("sums"), EF_STR("b"), &list, &f->err));
    CHECK_INT(2, list.items[0].pending);
    OK(ef_projection_scope(f->engine, EF_STR("sums"), EF_STR("a"), &list, &f->err));
    CHECK_INT(0, list.items[0].pending);
    CHECK_INT(8, list.items[0].position);
    EF_RELEASE(&list);
    fixture_close(f);
}

/* --- a journal that is acknowledged ------------------------------------------------------------
 */

/* The calls of the stores, in their order. */
static struct {
    ef__events_ops events;
    ef__views_ops views;
    const ef__events_ops *real_events;
    unsigned real_caps;
    const ef__views_ops *real_views;
    int commits, lazy;   /* that moved a cursor; of these not synced */
    bool dirty;          /* the last one of all was not */
    int told, too_early; /* … of what might still be lost */
    int64_t upto;
} g_heard;

static ef_status hear_commit(ef_views *views, const ef__views_commit *commit, ef_error *err)
{
    const ef__generation_change *change = commit->generations;
    ef_status st = g_heard.real_views->commit(views, commit, err);
    bool moves = commit->generation_count && (change->cursor_after || change->tenant_count);

    if (st != EF_OK)
        return st;
    g_heard.commits += moves;
    g_heard.lazy += moves && commit->no_sync;
    g_heard.dirty = commit->no_sync;
    return EF_OK;
}

static void hear_followed(ef_journal *journal, ef_str reader, int64_t upto)
{
    (void)journal;
    CHECK(reader.len > 0);
    g_heard.told++;
    g_heard.too_early += g_heard.dirty;
    g_heard.upto = upto;
}

static void listen_in(fixture *f, unsigned caps)
{
    memset(&g_heard, 0, sizeof g_heard);
    g_heard.real_events = f->journal->events;
    g_heard.real_caps = f->journal->caps;
    g_heard.events = *f->journal->events;
    g_heard.events.followed = hear_followed;
    f->journal->events = &g_heard.events;
    f->journal->caps |= caps;
    g_heard.real_views = f->engine->views->ops;
    g_heard.views = *f->engine->views->ops;
    g_heard.views.commit = hear_commit;
    f->engine->views->ops = &g_heard.views;
}

static void listen_no_more(fixture *f)
{
    f->journal->events = g_heard.real_events;
    f->journal->caps = g_heard.real_caps;
    f->engine->views->ops = g_heard.real_views;
}

/* Catching up, live, and a tenant that stops and comes up behind the others. */
static void go_through_all(fixture *f)
{
    int commits;

    drain(f);
    append_for(f, "a", "good");
    drain(f);
    commits = g_heard.commits;
    g_broken = false;
    pass_time(f, 61 * SECOND);
    drain(f);
    CHECK(g_heard.commits > commits);
    CHECK_INT(5, count_of(f, "counts", "a"));
    CHECK_INT(4, count_of(f, "counts", "b"));
}

TEST(views_are_synced_before_events_are_acknowledged_to_the_journal)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    listen_in(f, EF__JOURNAL_ACKNOWLEDGED);
    go_through_all(f);
    CHECK(g_heard.told > 0);
    CHECK_INT(0, g_heard.too_early);
    CHECK_INT(0, g_heard.lazy); /* and so was what a tenant caught up with */
    CHECK_INT(9, g_heard.upto);
    listen_no_more(f);
    fixture_close(f);
}

TEST(cursor_commits_are_not_synced_without_acknowledgements)
{
    fixture t, *f = &t;

    start(f);
    append_mixed(f);
    listen_in(f, 0);
    go_through_all(f);
    CHECK_INT(0, g_heard.told);
    CHECK_INT(g_heard.commits, g_heard.lazy);
    listen_no_more(f);
    fixture_close(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poison_event_stops_its_own_tenant_and_no_other),
        cmocka_unit_test(scopes_are_listed_with_stopped_tenants_last),
        cmocka_unit_test(a_stopped_tenant_is_retried_after_250_ms_doubling_and_fails_at_the_sixth),
        cmocka_unit_test(a_restarted_worker_continues_the_count_of_failures),
        cmocka_unit_test(a_failed_tenant_is_retried_every_minute_and_joins),
        cmocka_unit_test(a_failed_tenant_is_retried_at_once_when_resumed),
        cmocka_unit_test(a_tenant_that_catches_up_in_steps_misses_no_event),
        cmocka_unit_test(a_tenant_that_stops_again_counts_from_one),
        cmocka_unit_test(a_paused_projection_keeps_the_cursors_of_tenants),
        cmocka_unit_test(skip_and_record_skips_a_tenants_event_after_the_last_attempt),
        cmocka_unit_test(pending_events_are_counted_per_tenant),
        cmocka_unit_test(a_side_build_stops_tenants_at_the_same_events),
        cmocka_unit_test(a_dead_row_of_one_tenant_does_not_block_reads_of_another),
        cmocka_unit_test(views_are_synced_before_events_are_acknowledged_to_the_journal),
        cmocka_unit_test(cursor_commits_are_not_synced_without_acknowledgements),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
