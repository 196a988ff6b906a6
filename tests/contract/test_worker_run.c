/*
 * Workers and their heartbeats; runs and their states.
 */
#include "contract.h"

#include "../../src/journal/journal.h"

#define MINUTE (60 * SECOND)

/* --- workers ---------------------------------------------------------------------------------- */

static void beat(contract *t, const char *id, int64_t heartbeat_ms)
{
    ef_worker worker = {.id = str(id), .host = str("host-1"), .pid = 42};

    OK(worker_heartbeat(t->journal, &worker, heartbeat_ms, &t->err));
}

CONTRACT(a_worker_joins_beats_and_leaves)
{
    contract *t = *state;
    ef_worker_list list = {0};
    int64_t started_us = t->now_us;

    beat(t, "w2", 1000);
    beat(t, "w1", 1000);
    pass_time(t, SECOND / 2);
    beat(t, "w1", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_STR("w1", list.items[0].id);
    CHECK_STR("host-1", list.items[0].host);
    CHECK_INT(42, list.items[0].pid);
    CHECK_INT(started_us, list.items[0].started_us);
    CHECK_INT(t->now_us, list.items[0].updated_us);
    CHECK_INT(t->now_us + SECOND, list.items[0].heartbeat_until_us);
    CHECK_STR("w2", list.items[1].id);
    OK(ef__worker_leave(t->journal, str("w1"), &t->err));
    OK(ef__worker_leave(t->journal, str("w1"), &t->err));
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("w2", list.items[0].id);
    EF_RELEASE(&list);
}

CONTRACT(a_worker_is_live_until_its_heartbeat_runs_out)
{
    contract *t = *state;
    ef_worker_list list = {0};

    beat(t, "w", 1000);
    pass_time(t, SECOND - 1);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(list.items[0].live);
    pass_time(t, 1);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].live);
    beat(t, "w", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(list.items[0].live);
    EF_RELEASE(&list);
}

CONTRACT(a_worker_is_late_from_half_of_its_heartbeat_on_and_has_no_share)
{
    contract *t = *state;
    ef_worker_list list = {0};
    int32_t targets[16];

    beat(t, "w1", 1000);
    pass_time(t, SECOND / 2 - 1);
    beat(t, "w2", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].late);
    CHECK_INT(8, ef_worker_targets(&list, 0, 16, targets));
    pass_time(t, 1);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(list.items[0].live);
    CHECK(list.items[0].late);
    CHECK(!list.items[1].late);
    CHECK_INT(0, ef_worker_targets(&list, 0, 16, targets));
    CHECK_INT(16, ef_worker_targets(&list, 1, 16, targets));
    pass_time(t, SECOND / 2);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].live);
    CHECK(!list.items[0].late); /* it is over: stale */
    beat(t, "w1", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].late);
    EF_RELEASE(&list);
}

CONTRACT(an_idle_worker_is_listed_as_such_and_has_no_share)
{
    contract *t = *state;
    ef_worker_list list = {0};
    int32_t targets[16];
    ef_worker idle = {.id = EF_STR("w1"), .host = EF_STR("h"), .state = EF_WORKER_IDLE};

    beat(t, "w1", 1000);
    beat(t, "w2", 60000);
    OK(worker_heartbeat(t->journal, &idle, 10000, &t->err));
    pass_time(t, 5 * SECOND - 1);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(EF_WORKER_IDLE, list.items[0].state);
    CHECK_INT(EF_WORKER_WORKING, list.items[1].state);
    CHECK(list.items[0].live);
    CHECK_INT(0, ef_worker_targets(&list, 0, 16, targets));
    CHECK_INT(16, ef_worker_targets(&list, 1, 16, targets));
    pass_time(t, 1);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(EF_WORKER_LATE, list.items[0].state);
    pass_time(t, 5 * SECOND);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(EF_WORKER_STALE, list.items[0].state);
    beat(t, "w1", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(EF_WORKER_WORKING, list.items[0].state);
    CHECK_INT(8, ef_worker_targets(&list, 0, 16, targets));
    EF_RELEASE(&list);
}

static void add_minutes(contract *t, const ef_throughput *minutes, size_t count)
{
    OK(ef__lease_many(t->journal, NULL, 0,
                      &(ef__heartbeat){.minutes = minutes, .minute_count = count}, &t->err));
}

CONTRACT(what_workers_did_in_a_minute_is_added_up)
{
    contract *t = *state;
    ef_throughput_list list = {0};

    add_minutes(t,
                (ef_throughput[]){{.at_us = 2 * MINUTE, .position = 7, .applied = 1, .dead = 2},
                                  {.at_us = MINUTE, .position = 5, .published = 3}},
                2);
    add_minutes(
        t,
        (ef_throughput[]){
            {.at_us = 2 * MINUTE, .position = 6, .applied = 10, .published = 4, .failed = 8}},
        1);
    OK(ef_throughput_ls(t->journal, 0, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_INT(MINUTE, list.items[0].at_us);
    CHECK_INT(5, list.items[0].position);
    CHECK_INT(3, list.items[0].published);
    CHECK_INT(0, list.items[0].appended); /* both were seen when the later minute was written */
    CHECK_INT(7, list.items[1].position);
    CHECK_INT(7, list.items[1].appended);
    CHECK_INT(11, list.items[1].applied);
    CHECK_INT(4, list.items[1].published);
    CHECK_INT(8, list.items[1].failed);
    CHECK_INT(2, list.items[1].dead);
    OK(ef_throughput_ls(t->journal, MINUTE + 1, &list, &t->err));
    CHECK_INT(1, list.count);
    EF_RELEASE(&list);
}

CONTRACT(minutes_are_kept_for_a_day)
{
    contract *t = *state;
    ef_throughput_list list = {0};

    for (int64_t minute = 1; minute <= EF_THROUGHPUT_MINUTES + 5; minute++)
        add_minutes(t, &(ef_throughput){.at_us = minute * MINUTE, .applied = minute}, 1);
    OK(ef_throughput_ls(t->journal, 0, &list, &t->err));
    CHECK_INT(EF_THROUGHPUT_MINUTES, list.count);
    CHECK_INT(6, list.items[0].applied);
    CHECK_INT(EF_THROUGHPUT_MINUTES + 5, list.items[list.count - 1].applied);
    EF_RELEASE(&list);
}

CONTRACT(expired_workers_are_purged_at_most_once_per_interval)
{
    contract *t = *state;
    ef_worker_list list = {0};
    int64_t purged = -1;

    beat(t, "gone", 1000);
    beat(t, "here", 60000);
    pass_time(t, 5 * SECOND);
    OK(ef__worker_purge(t->journal, 10000, 30000, &purged, &t->err));
    CHECK_INT(0, purged);
    pass_time(t, 10 * SECOND);
    OK(ef__worker_purge(t->journal, 10000, 30000, &purged, &t->err));
    CHECK_INT(0, purged);
    pass_time(t, 20 * SECOND);
    OK(ef__worker_purge(t->journal, 10000, 30000, &purged, &t->err));
    CHECK_INT(1, purged);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("here", list.items[0].id);
    beat(t, "gone", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_INT(t->now_us, list.items[0].started_us);
    OK(ef__worker_purge(t->journal, 10000, 0, &(int64_t){0}, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(a_purge_is_not_put_off_by_a_clock_that_was_ahead)
{
    contract *t = *state;
    int64_t purged = -1;

    beat(t, "gone", 1000);
    pass_time(t, 3600 * SECOND);
    OK(ef__worker_purge(t->journal, 7200000, 300000, &(int64_t){0}, &t->err));
    pass_time(t, -3500 * SECOND);
    OK(ef__worker_purge(t->journal, 10000, 300000, &purged, &t->err));
    CHECK_INT(1, purged);
}

CONTRACT(live_workers_share_the_partitions_by_their_ids)
{
    contract *t = *state;
    ef_worker_list list = {0};
    int32_t targets[8];

    beat(t, "a", 1000);
    pass_time(t, SECOND);
    beat(t, "c", 1000);
    beat(t, "b", 1000);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(0, ef_worker_targets(&list, 0, 5, targets)); /* "a" was removed */
    CHECK_INT(3, ef_worker_targets(&list, 1, 5, targets));
    CHECK_INT(0, targets[0]);
    CHECK_INT(2, targets[1]);
    CHECK_INT(4, targets[2]);
    CHECK_INT(2, ef_worker_targets(&list, 2, 5, targets));
    CHECK_INT(1, targets[0]);
    CHECK_INT(3, targets[1]);
    CHECK_INT(0, ef_worker_targets(&list, 2, 1, targets)); /* more workers than partitions */
    CHECK_INT(0, ef_worker_targets(&list, 3, 5, targets));
    EF_RELEASE(&list);
}

/* --- runs ------------------------------------------------------------------------------------- */

static ef_run run_of(const char *tenant, const char *projection)
{
    return (ef_run){.mode = EF_RUN_REBUILD,
                    .tenant = str(tenant),
                    .projection = str(projection),
                    .from = 2,
                    .to = 9,
                    .total = 8,
                    .reason = str("new version"),
                    .requester = str("ana")};
}

/* File a run; its id goes to `id`. */
static void request(contract *t, const char *tenant, const char *projection, char id[64])
{
    ef_run run = run_of(tenant, projection);
    ef_run_list list = {0};

    OK(ef__run_request(t->journal, &run, &list, &t->err));
    CHECK_INT(1, list.count);
    (void)snprintf(id, 64, "%.*s", EF_STR_ARG(list.items[0].id));
    EF_RELEASE(&list);
}

static ef_lease_key run_key(const char *id)
{
    return (ef_lease_key){EF_LEASE_RUN, str(id), -1};
}

static int64_t drive(contract *t, const char *id, const char *owner)
{
    ef_lease_key key = run_key(id);
    int64_t token = 0;

    OK(ef__lease_acquire_one(t->journal, &key, str(owner), 10000, &token, NULL, &t->err));
    return token;
}

static ef_status move(contract *t, const char *id, ef_run_state to, int64_t token)
{
    ef_run run = {.id = str(id), .state = to, .processed = 3, .total = 8, .last_position = 5};
    ef_lease_key key = run_key(id);

    return ef__run_update(t->journal, &run, token ? &key : NULL, token, &t->err);
}

static ef_run_state state_of(contract *t, const char *id)
{
    ef_run_list list = {0};
    ef_run_state found;

    OK(test_run_read(t->journal, id, &list, &t->err));
    found = list.items[0].state;
    EF_RELEASE(&list);
    return found;
}

CONTRACT(a_run_is_filed_as_it_was_asked_for)
{
    contract *t = *state;
    ef_run run = run_of("acme", "orders");
    ef_run_list list = {0};
    const ef_run *filed;

    OK(ef__run_request(t->journal, &run, &list, &t->err));
    CHECK_INT(1, list.count);
    filed = &list.items[0];
    CHECK(filed->id.len > 0);
    CHECK_INT(EF_RUN_REBUILD, filed->mode);
    CHECK_INT(EF_RUN_QUEUED, filed->state);
    CHECK_STR("orders", filed->projection);
    CHECK_STR("acme", filed->tenant);
    CHECK_STR("new version", filed->reason);
    CHECK_STR("ana", filed->requester);
    CHECK_STR("", filed->error);
    CHECK_INT(2, filed->from);
    CHECK_INT(9, filed->to);
    CHECK_INT(8, filed->total);
    CHECK_INT(0, filed->processed);
    CHECK_INT(t->now_us, filed->requested_us);
    CHECK_INT(0, filed->started_us);
    CHECK_INT(0, filed->finished_us);
    EF_RELEASE(&list);
}

CONTRACT(one_run_is_open_per_tenant_and_projection)
{
    contract *t = *state;
    ef_run run = run_of("acme", "orders");
    ef_run_list list = {0};
    char id[64];

    request(t, "acme", "orders", id);
    REFUSED(EF_EXISTS, ef__run_request(t->journal, &run, &list, &t->err));
    request(t, "acme", "customers", id);
    request(t, "", "orders", id);
    OK(move(t, id, EF_RUN_CANCELLED, 0));
    request(t, "", "orders", id);
    EF_RELEASE(&list);
}

CONTRACT(a_run_goes_from_queued_to_running_to_completed)
{
    contract *t = *state;
    ef_run_list list = {0};
    int64_t token;
    char id[64];

    request(t, "", "orders", id);
    token = drive(t, id, "w1");
    pass_time(t, SECOND);
    OK(move(t, id, EF_RUN_RUNNING, token));
    pass_time(t, SECOND);
    OK(move(t, id, EF_RUN_RUNNING, token));
    OK(move(t, id, EF_RUN_COMPLETED, token));
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK_INT(EF_RUN_COMPLETED, list.items[0].state);
    CHECK_INT(3, list.items[0].processed);
    CHECK_INT(5, list.items[0].last_position);
    CHECK_INT(t->now_us - SECOND, list.items[0].started_us);
    CHECK_INT(t->now_us, list.items[0].finished_us);
    EF_RELEASE(&list);
}

CONTRACT(a_failed_run_keeps_its_error)
{
    contract *t = *state;
    ef_run_list list = {0};
    ef_lease_key key;
    int64_t token;
    char id[64];

    request(t, "", "orders", id);
    key = run_key(id);
    token = drive(t, id, "w1");
    OK(move(t, id, EF_RUN_RUNNING, token));
    ef_run run = {.id = str(id), .state = EF_RUN_FAILED, .error = str("position 7: no such path")};
    OK(ef__run_update(t->journal, &run, &key, token, &t->err));
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK_STR("position 7: no such path", list.items[0].error);
    EF_RELEASE(&list);
}

CONTRACT(a_run_makes_no_move_that_is_not_drawn)
{
    contract *t = *state;
    int64_t token;
    char id[64];

    request(t, "", "orders", id);
    token = drive(t, id, "w1");
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_COMPLETED, token));
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_FAILED, token));
    OK(move(t, id, EF_RUN_RUNNING, token));
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_QUEUED, token));
    OK(move(t, id, EF_RUN_CANCELLED, token));
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_RUNNING, token));
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_CANCELLED, 0));
    CHECK_INT(EF_RUN_CANCELLED, state_of(t, id));
}

CONTRACT(an_old_driver_moves_nothing)
{
    contract *t = *state;
    int64_t old, new;
    char id[64];

    request(t, "", "orders", id);
    old = drive(t, id, "w1");
    OK(move(t, id, EF_RUN_RUNNING, old));
    pass_time(t, 11 * SECOND);
    new = drive(t, id, "w2");
    REFUSED(EF_LEASE_LOST, move(t, id, EF_RUN_COMPLETED, old));
    CHECK_INT(EF_RUN_RUNNING, state_of(t, id));
    OK(move(t, id, EF_RUN_COMPLETED, new));
}

CONTRACT(cancelling_needs_no_lease_when_no_worker_drives)
{
    contract *t = *state;
    int64_t token;
    char id[64];

    request(t, "", "orders", id);
    token = drive(t, id, "w1");
    OK(move(t, id, EF_RUN_RUNNING, token));
    REFUSED(EF_CONFLICT, move(t, id, EF_RUN_CANCELLED, 0));
    pass_time(t, 11 * SECOND);
    OK(move(t, id, EF_RUN_CANCELLED, 0));
    CHECK_INT(EF_RUN_CANCELLED, state_of(t, id));
    REFUSED(EF_NOT_FOUND, move(t, "no-such-run", EF_RUN_CANCELLED, 0));
}

CONTRACT(runs_are_listed_newest_first_and_open_ones_alone)
{
    contract *t = *state;
    ef_run_list list = {0};
    char first[64], second[64], third[64];

    request(t, "", "a", first);
    request(t, "", "b", second);
    request(t, "", "c", third);
    OK(move(t, second, EF_RUN_CANCELLED, 0));
    OK(ef_run_ls(t->journal, &(ef_run_query){0}, &list, &t->err));
    CHECK_INT(3, list.count);
    CHECK_STR(third, list.items[0].id);
    CHECK_STR(first, list.items[2].id);
    OK(ef_run_ls(t->journal, &(ef_run_query){.open_only = true, .limit = 10}, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_STR(first, list.items[1].id);
    OK(ef_run_ls(t->journal, &(ef_run_query){.limit = 1}, &list, &t->err));
    CHECK_INT(1, list.count);
    REFUSED(EF_NOT_FOUND, test_run_read(t->journal, "no-such-run", &list, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(one_run_over_all_projections_and_single_ones_keep_each_other_out)
{
    contract *t = *state;
    ef_run all = {.mode = EF_RUN_REPLAY, .total = -1}, one = run_of("", "orders");
    ef_run_list list = {0};
    char id[64];

    request(t, "", "orders", id);
    REFUSED(EF_EXISTS, ef__run_request(t->journal, &all, &list, &t->err));
    all.tenant = str("acme");
    OK(ef__run_request(t->journal, &all, &list, &t->err));
    all.tenant = str("");
    OK(move(t, id, EF_RUN_CANCELLED, 0));
    OK(ef__run_request(t->journal, &all, &list, &t->err));
    REFUSED(EF_EXISTS, ef__run_request(t->journal, &one, &list, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(a_queued_run_is_cancelled_at_once_and_a_running_one_by_its_driver)
{
    contract *t = *state;
    ef_run_list list = {0};
    int64_t token;
    char id[64];

    request(t, "", "orders", id);
    OK(ef_run_cancel(t->journal, str(id), &t->err));
    CHECK_INT(EF_RUN_CANCELLED, state_of(t, id));
    REFUSED(EF_CONFLICT, ef_run_cancel(t->journal, str(id), &t->err));
    REFUSED(EF_NOT_FOUND, ef_run_cancel(t->journal, str("none"), &t->err));

    request(t, "", "orders", id);
    token = drive(t, id, "w1");
    OK(move(t, id, EF_RUN_RUNNING, token));
    OK(ef_run_cancel(t->journal, str(id), &t->err));
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK_INT(EF_RUN_RUNNING, list.items[0].state);
    CHECK(list.items[0].cancel);
    OK(move(t, id, EF_RUN_RUNNING, token)); /* progress leaves the wish as it is */
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK(list.items[0].cancel);
    OK(move(t, id, EF_RUN_CANCELLED, token));
    EF_RELEASE(&list);
}

CONTRACT(the_detail_of_a_run_stays_until_another_is_written)
{
    contract *t = *state;
    ef_run run = run_of("", "orders");
    ef_run_list list = {0};
    ef_lease_key key;
    int64_t token;
    char id[64];

    run.detail = str("{\"in_place\":true}");
    OK(ef__run_request(t->journal, &run, &list, &t->err));
    CHECK_STR("{\"in_place\":true}", list.items[0].detail);
    (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(list.items[0].id));
    token = drive(t, id, "w1");
    OK(move(t, id, EF_RUN_RUNNING, token));
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK_STR("{\"in_place\":true}", list.items[0].detail);
    key = run_key(id);
    run = (ef_run){.id = str(id), .state = EF_RUN_RUNNING, .detail = str("{}")};
    OK(ef__run_update(t->journal, &run, &key, token, &t->err));
    OK(test_run_read(t->journal, id, &list, &t->err));
    CHECK_STR("{}", list.items[0].detail);
    EF_RELEASE(&list);
}

/* File a run and let it end, so that the next of its scope can be filed. */
static void file_and_end(contract *t, ef_run_mode mode, const char *tenant, const char *detail)
{
    ef_run run = run_of(tenant, "orders");
    ef_run_list list = {0};

    run.mode = mode;
    run.detail = str(detail);
    OK(ef__run_request(t->journal, &run, &list, &t->err));
    OK(ef_run_cancel(t->journal, list.items[0].id, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(runs_of_a_tenant_are_listed_before_the_list_is_cut)
{
    contract *t = *state;
    ef_str acme = str("acme"), blank = str("");
    ef_run_list list = {0};

    file_and_end(t, EF_RUN_REPLAY, "acme", "{}");
    file_and_end(t, EF_RUN_REPLAY, "", "{\"stream\":\"s\"}");
    file_and_end(t, EF_RUN_REPLAY, "", "");
    file_and_end(t, EF_RUN_REPLAY, "", "{\"all_tenants\":true}");
    file_and_end(t, EF_RUN_REBUILD, "", "{}");
    OK(ef_run_ls(t->journal, &(ef_run_query){.tenant = &acme, .limit = 1}, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("acme", list.items[0].tenant);
    CHECK(ef__run_is_of(&list.items[0], acme) && !ef__run_is_of(&list.items[0], blank));
    OK(ef_run_ls(t->journal, &(ef_run_query){.tenant = &blank, .limit = 10}, &list,
                 &t->err)); /* none of all tenants */
    CHECK_INT(2, list.count);
    CHECK_STR("", list.items[0].detail);
    CHECK_STR("{\"stream\":\"s\"}", list.items[1].detail);
    CHECK(ef__run_is_of(&list.items[0], blank) && ef__run_is_of(&list.items[1], blank));
    OK(ef_run_ls(t->journal, &(ef_run_query){.tenant = &acme, .open_only = true, .limit = 10},
                 &list, &t->err));
    CHECK_INT(0, list.count);
    OK(ef_run_ls(t->journal, &(ef_run_query){.limit = 10}, &list, &t->err));
    CHECK_INT(5, list.count);
    CHECK(!ef__run_is_of(&list.items[0], blank) && !ef__run_is_of(&list.items[1], blank));
    EF_RELEASE(&list);
}

CONTRACT_MAIN(CASE(a_worker_joins_beats_and_leaves),
              CASE(a_worker_is_live_until_its_heartbeat_runs_out),
              CASE(what_workers_did_in_a_minute_is_added_up), CASE(minutes_are_kept_for_a_day),
              CASE(an_idle_worker_is_listed_as_such_and_has_no_share),
              CASE(a_worker_is_late_from_half_of_its_heartbeat_on_and_has_no_share),
              CASE(expired_workers_are_purged_at_most_once_per_interval),
              CASE(a_purge_is_not_put_off_by_a_clock_that_was_ahead),
              CASE(live_workers_share_the_partitions_by_their_ids),
              CASE(a_run_is_filed_as_it_was_asked_for),
              CASE(one_run_is_open_per_tenant_and_projection),
              CASE(a_run_goes_from_queued_to_running_to_completed),
              CASE(a_failed_run_keeps_its_error), CASE(a_run_makes_no_move_that_is_not_drawn),
              CASE(an_old_driver_moves_nothing),
              CASE(cancelling_needs_no_lease_when_no_worker_drives),
              CASE(runs_are_listed_newest_first_and_open_ones_alone),
              CASE(one_run_over_all_projections_and_single_ones_keep_each_other_out),
              CASE(a_queued_run_is_cancelled_at_once_and_a_running_one_by_its_driver),
              CASE(the_detail_of_a_run_stays_until_another_is_written),
              CASE(runs_of_a_tenant_are_listed_before_the_list_is_cut))
