/*
 * Refusals: the same message on every back end (src/journal/refusal.h).
 */
#include "contract.h"

#define CHECK_MESSAGE(expected) CHECK_STR(expected, ef_str_from(t->err.text))

CONTRACT(names_that_do_not_exist_are_reported_with_the_same_message)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;

    REFUSED(EF_NOT_FOUND,
            ef_journal_read_stream(t->journal, str(""), str("order-1"), 1, 10, &batch, &t->err));
    CHECK_MESSAGE("there is no stream \"order-1\"");
    REFUSED(EF_NOT_FOUND, ef_journal_read_id(t->journal, str(""), str("e-1"), &batch, &t->err));
    CHECK_MESSAGE("there is no event \"e-1\"");
    REFUSED(EF_NOT_FOUND, ef_run_cancel(t->journal, str("r-1"), &t->err));
    CHECK_MESSAGE("there is no run \"r-1\"");
    EF_RELEASE(&batch);
}

CONTRACT(a_wait_that_ends_without_an_event_is_reported_with_the_same_message)
{
    contract *t = *state;

    REFUSED(EF_TIMEOUT, ef_journal_wait(t->journal, 7, 1, &t->err));
    CHECK_MESSAGE("no event above position 7 in 1 ms");
}

CONTRACT(a_held_lease_and_a_lost_one_are_reported_with_the_same_message)
{
    contract *t = *state;
    ef_lease_key key = partition_key(2);
    int64_t token = acquire(t, 2, "w1"), ignored;

    REFUSED(EF_LEASE_HELD,
            ef__lease_acquire_one(t->journal, &key, str("w2"), 1000, &ignored, NULL, &t->err));
    CHECK_MESSAGE("lease partition \"\" 2 is held by \"w1\" for 10000 ms");
    REFUSED(EF_LEASE_LOST, lease_renew(t->journal, &key, token + 1, 1000, NULL, &t->err));
    CHECK_MESSAGE("lease partition \"\" 2: token 2 is not live, the lease is at 1");
}

CONTRACT(an_unregistered_type_and_a_wrong_alias_are_reported_with_the_same_message)
{
    contract *t = *state;
    ef_type alias = {.name = str("a"), .alias_of = str("b")};
    ef_place place;

    OK(ef_type_set(t->journal, &alias, &t->err));
    REFUSED(EF_BAD_INPUT,
            ef_type_set(t->journal, &(ef_type){.name = str("c"), .alias_of = str("a")}, &t->err));
    CHECK_MESSAGE("type \"c\": \"a\" is an alias itself");
    t->options.types_strict = true;
    reopen(t);
    REFUSED(EF_UNKNOWN_TYPE, try_append(t, event_of("s", "d"), &place));
    CHECK_MESSAGE("type \"d\" is not registered");
}

CONTRACT(a_lane_of_another_kind_is_reported_with_the_same_message)
{
    contract *t = *state;
    ef_lane lane = {.name = str("mail"), .kind = EF_LANE_KIND_PROJECTION, .enabled = true};

    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &lane, &t->err));
    CHECK_MESSAGE("lane \"mail\" is there and of another kind");
}

CONTRACT_MAIN(CASE(names_that_do_not_exist_are_reported_with_the_same_message),
              CASE(a_wait_that_ends_without_an_event_is_reported_with_the_same_message),
              CASE(a_held_lease_and_a_lost_one_are_reported_with_the_same_message),
              CASE(an_unregistered_type_and_a_wrong_alias_are_reported_with_the_same_message),
              CASE(a_lane_of_another_kind_is_reported_with_the_same_message))
