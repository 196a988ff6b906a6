/*
 * Leases: who may have one, until when, and what an old token may no longer do.
 */
#include "contract.h"

static ef_status try_acquire(contract *t, const ef_lease_key *key, const char *owner,
                             int64_t lease_ms, int64_t *token)
{
    return ef__lease_acquire_one(t->journal, key, str(owner), lease_ms, token, NULL, &t->err);
}

CONTRACT(the_first_token_is_1_and_renewing_keeps_it)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    int64_t token = 0, until_us = 0;

    OK(ef__lease_acquire_one(t->journal, &key, str("w1"), 1000, &token, &until_us, &t->err));
    CHECK_INT(1, token);
    CHECK_INT(t->now_us + SECOND, until_us);
    pass_time(t, SECOND / 2);
    OK(ef__lease_acquire_one(t->journal, &key, str("w1"), 1000, &token, &until_us, &t->err));
    CHECK_INT(1, token);
    CHECK_INT(t->now_us + SECOND, until_us);
    OK(lease_renew(t->journal, &key, 1, 3000, &until_us, &t->err));
    CHECK_INT(t->now_us + 3 * SECOND, until_us);
}

CONTRACT(a_lease_cannot_be_stolen_before_it_runs_out)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 1000, &token));
    pass_time(t, SECOND - 1);
    REFUSED(EF_LEASE_HELD, try_acquire(t, &key, "w2", 1000, &token));
    CHECK_INT(1, t->err.found);
    pass_time(t, 1);
    OK(try_acquire(t, &key, "w2", 1000, &token));
    CHECK_INT(2, token);
}

CONTRACT(held_says_how_many_milliseconds_are_left)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 1000, &token));
    pass_time(t, SECOND / 4);
    REFUSED(EF_LEASE_HELD, try_acquire(t, &key, "w2", 1000, &token));
    CHECK(t->err.has_numbers);
    CHECK_INT(750, t->err.found);
}

CONTRACT(its_own_owner_gets_a_new_token_after_the_end)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 1000, &token));
    pass_time(t, 2 * SECOND);
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
    OK(try_acquire(t, &key, "w1", 1000, &token));
    CHECK_INT(2, token);
}

CONTRACT(an_old_token_neither_renews_nor_releases)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    ef_lease_list list = {0};
    ef_store_facts facts;
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 1000, &token));
    pass_time(t, 2 * SECOND);
    OK(try_acquire(t, &key, "w2", 1000, &token));
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
    REFUSED(EF_LEASE_LOST, ef__lease_release_one(t->journal, &key, 1, &t->err));
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 3, 1000, NULL, &t->err));
    OK(ef_lease_ls(t->journal, NULL, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("w2", list.items[0].holder);
    CHECK_INT(2, list.items[0].token);
    CHECK_INT(t->now_us + SECOND, list.items[0].until_us);
    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK(facts.stale_refused >= 1);
    EF_RELEASE(&list);
}

CONTRACT(a_released_lease_is_free_and_the_token_still_grows)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    ef_lease_list list = {0};
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 1000, &token));
    OK(ef__lease_release_one(t->journal, &key, 1, &t->err));
    OK(ef_lease_ls(t->journal, NULL, &list, &t->err));
    CHECK_STR("", list.items[0].holder);
    CHECK_INT(0, list.items[0].until_us);
    CHECK(!list.items[0].live);
    REFUSED(EF_LEASE_LOST, ef__lease_release_one(t->journal, &key, 1, &t->err));
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
    OK(try_acquire(t, &key, "w2", 1000, &token));
    CHECK_INT(2, token);
    EF_RELEASE(&list);
}

CONTRACT(a_lease_that_was_never_acquired_is_lost)
{
    contract *t = *state;
    ef_lease_key key = partition_key(3);

    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
    REFUSED(EF_LEASE_LOST, ef__lease_release_one(t->journal, &key, 1, &t->err));
}

CONTRACT(leases_differ_by_kind_name_and_partition)
{
    contract *t = *state;
    ef_lease_key keys[] = {
        {EF_LEASE_PARTITION, {0}, 0},         {EF_LEASE_PARTITION, {0}, 1},
        {EF_LEASE_PUBLISHER, str("mail"), 0}, {EF_LEASE_PUBLISHER, str("mail"), 1},
        {EF_LEASE_SCOPE, str("a:b:p00"), -1}, {EF_LEASE_SCOPE, str("a:b:p00"), 0},
        {EF_LEASE_SCOPE, str("a:b:p01"), -1}, {EF_LEASE_RUN, str("a:b:p00"), -1},
    };
    enum { COUNT = sizeof keys / sizeof keys[0] };
    ef_lease_kind kind = EF_LEASE_SCOPE;
    ef_lease_list list = {0};
    int64_t token = 0;
    char owner[16];

    /* Taken in the reverse order, listed in this one. */
    for (int i = COUNT; i-- > 0;) {
        (void)snprintf(owner, sizeof owner, "w%d", i);
        OK(try_acquire(t, &keys[i], owner, 1000, &token));
        CHECK_INT(1, token);
    }
    OK(ef_lease_ls(t->journal, NULL, &list, &t->err));
    CHECK_INT(COUNT, list.count);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(owner, sizeof owner, "w%d", i);
        CHECK_STR(owner, list.items[i].holder);
        CHECK_INT(keys[i].kind, list.items[i].key.kind);
        CHECK_INT(keys[i].partition, list.items[i].key.partition);
        CHECK(ef_str_equal(keys[i].name, list.items[i].key.name));
        CHECK(list.items[i].live);
    }
    OK(ef_lease_ls(t->journal, &kind, &list, &t->err));
    CHECK_INT(3, list.count);
    EF_RELEASE(&list);
}

CONTRACT(a_lease_that_has_run_out_is_listed_and_not_live)
{
    contract *t = *state;
    ef_lease_list list = {0};

    acquire(t, 0, "w1");
    pass_time(t, 10 * SECOND);
    OK(ef_lease_ls(t->journal, NULL, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK(!list.items[0].live);
    CHECK_STR("w1", list.items[0].holder);
    EF_RELEASE(&list);
}

CONTRACT(many_calls_are_answered_one_by_one)
{
    contract *t = *state;
    int64_t other = acquire(t, 2, "other"), mine = acquire(t, 0, "me");
    ef_lease_call calls[] = {
        {.verb = EF_LEASE_RELEASE, .key = partition_key(0), .token = mine},
        {.verb = EF_LEASE_ACQUIRE, .key = partition_key(1), .holder = str("me"), .lease_ms = 1000},
        {.verb = EF_LEASE_ACQUIRE, .key = partition_key(2), .holder = str("me"), .lease_ms = 1000},
        {.verb = EF_LEASE_RENEW, .key = partition_key(3), .token = 7, .lease_ms = 1000},
        {.verb = EF_LEASE_RENEW_OR_ACQUIRE,
         .key = partition_key(0),
         .holder = str("me"),
         .lease_ms = 1000},
    };

    OK(ef__lease_many(t->journal, calls, 5, &(ef__heartbeat){0}, &t->err));
    CHECK_INT(EF_OK, calls[0].status);
    CHECK_INT(EF_OK, calls[1].status);
    CHECK_INT(1, calls[1].token);
    CHECK_INT(t->now_us + SECOND, calls[1].until_us);
    CHECK_INT(EF_LEASE_HELD, calls[2].status);
    CHECK_INT(10000, calls[2].left_ms);
    CHECK_INT(EF_LEASE_LOST, calls[3].status);
    CHECK_INT(EF_OK, calls[4].status);
    CHECK_INT(mine + 1, calls[4].token);
    /* The error has the text of the first refusal. */
    CHECK_INT(EF_LEASE_HELD, t->err.status);
    CHECK(strstr(t->err.text, "\"other\"") != NULL);
    OK(lease_renew(t->journal, &calls[2].key, other, 1000, NULL, &t->err));
}

CONTRACT(many_calls_and_a_heartbeat_are_one_commit)
{
    contract *t = *state;
    ef_worker worker = {.id = str("me"), .host = str("h"), .pid = 1};
    ef_lease_call calls[4];
    ef_store_facts before, after;
    ef_worker_list list = {0};

    for (int32_t p = 0; p < 4; p++)
        calls[p] = (ef_lease_call){.verb = EF_LEASE_RENEW_OR_ACQUIRE,
                                   .key = partition_key(p),
                                   .holder = str("me"),
                                   .lease_ms = 1000};
    OK(ef_journal_facts(t->journal, &before, &t->err));
    OK(ef__lease_many(t->journal, calls, 4,
                      &(ef__heartbeat){.worker = &worker, .heartbeat_ms = 5000}, &t->err));
    OK(ef_journal_facts(t->journal, &after, &t->err));
    if (survives(t))
        CHECK_INT(before.commits + 1, after.commits);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_INT(t->now_us + 5 * SECOND, list.items[0].heartbeat_until_us);
    EF_RELEASE(&list);
}

CONTRACT(a_worker_that_is_started_again_gets_a_token_of_its_own)
{
    contract *t = *state;
    ef_lease_call call = {.verb = EF_LEASE_RENEW_OR_ACQUIRE,
                          .key = partition_key(0),
                          .holder = str("w"),
                          .lease_ms = 10000};

    OK(ef__lease_many(t->journal, &call, 1, &(ef__heartbeat){0}, &t->err));
    CHECK_INT(1, call.token);
    OK(ef__lease_many(t->journal, &call, 1, &(ef__heartbeat){0},
                      &t->err)); /* with its token: a renewal */
    CHECK_INT(1, call.token);
    call.token = 0;
    OK(ef__lease_many(t->journal, &call, 1, &(ef__heartbeat){0}, &t->err));
    CHECK_INT(2, call.token);
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &call.key, 1, 1000, NULL, &t->err));
}

CONTRACT(a_clock_that_was_ahead_keeps_no_lease_and_no_worker_alive)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    ef_worker worker = {.id = str("w1")};
    ef_worker_list list = {0};
    int64_t token = 0;

    pass_time(t, 3600 * SECOND);
    OK(try_acquire(t, &key, "w1", 10000, &token));
    OK(worker_heartbeat(t->journal, &worker, 10000, &t->err));
    pass_time(t, -5 * SECOND);
    REFUSED(EF_LEASE_HELD, try_acquire(t, &key, "w2", 10000, &token));
    CHECK_INT(10000, t->err.found);
    pass_time(t, -3590 * SECOND);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].live);
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
    OK(try_acquire(t, &key, "w2", 10000, &token));
    CHECK_INT(2, token);
    pass_time(t, 10 * SECOND);
    OK(try_acquire(t, &key, "w3", 10000, &token));
    CHECK_INT(3, token);
    EF_RELEASE(&list);
}

/* When the clock gets once more to where it was, nothing lives again. */
CONTRACT(a_heartbeat_brings_back_what_is_of_a_time_to_come)
{
    contract *t = *state;
    ef_lease_key near = partition_key(0), far = partition_key(1), free_one = partition_key(2);
    ef_worker dead = {.id = str("dead")}, here = {.id = str("here")};
    ef_worker_list list = {0};
    int64_t token = 0;

    OK(try_acquire(t, &far, "dead", 5000, &token));
    OK(try_acquire(t, &free_one, "dead", 5000, &token));
    OK(ef__lease_release_one(t->journal, &free_one, token, &t->err));
    OK(try_acquire(t, &near, "dead", 20000, &token));
    OK(worker_heartbeat(t->journal, &dead, 20000, &t->err));
    pass_time(t, -15 * SECOND);
    OK(worker_heartbeat(t->journal, &here, 20000, &t->err));
    REFUSED(EF_LEASE_HELD, try_acquire(t, &near, "here", 1000, &token));
    CHECK_INT(20000, t->err.found);
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(list.items[0].live && !list.items[0].late);
    pass_time(t, 15 * SECOND); /* where it was: the one of 5 s would live */
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(list.items[0].live && list.items[0].late);
    OK(try_acquire(t, &far, "here", 1000, &token));
    CHECK_INT(2, token);
    OK(try_acquire(t, &free_one, "here", 1000, &token));
    pass_time(t, 5 * SECOND);
    OK(try_acquire(t, &near, "here", 1000, &token));
    OK(ef_worker_ls(t->journal, &list, &t->err));
    CHECK(!list.items[0].live);
    EF_RELEASE(&list);
}

CONTRACT(leases_survive_opening_again)
{
    contract *t = *state;
    ef_lease_key key = partition_key(0);
    int64_t token = 0;

    OK(try_acquire(t, &key, "w1", 10000, &token));
    if (!survives(t))
        return;
    reopen(t);
    REFUSED(EF_LEASE_HELD, try_acquire(t, &key, "w2", 1000, &token));
    OK(lease_renew(t->journal, &key, 1, 1000, NULL, &t->err));
}

CONTRACT_MAIN(CASE(the_first_token_is_1_and_renewing_keeps_it),
              CASE(a_lease_cannot_be_stolen_before_it_runs_out),
              CASE(held_says_how_many_milliseconds_are_left),
              CASE(its_own_owner_gets_a_new_token_after_the_end),
              CASE(an_old_token_neither_renews_nor_releases),
              CASE(a_released_lease_is_free_and_the_token_still_grows),
              CASE(a_lease_that_was_never_acquired_is_lost),
              CASE(leases_differ_by_kind_name_and_partition),
              CASE(a_lease_that_has_run_out_is_listed_and_not_live),
              CASE(many_calls_are_answered_one_by_one),
              CASE(many_calls_and_a_heartbeat_are_one_commit),
              CASE(a_worker_that_is_started_again_gets_a_token_of_its_own),
              CASE(a_clock_that_was_ahead_keeps_no_lease_and_no_worker_alive),
              CASE(a_heartbeat_brings_back_what_is_of_a_time_to_come),
              CASE(leases_survive_opening_again))
