/*
 * Idempotent append: the same id again is a duplicate; with other content it is a conflict.
 */
#include "contract.h"

static ef_new_event with_id(const char *stream, const char *id)
{
    ef_new_event event = event_of(stream, "order.placed");

    event.id = str(id);
    event.data = str("{\"amount\":1}");
    return event;
}

CONTRACT(the_same_event_again_has_its_first_place)
{
    contract *t = *state;
    ef_place first = append_event(t, with_id("order-1", "id-1"));
    ef_place again;

    append(t, "order-1", "order.paid");
    pass_time(t, SECOND);
    again = append_event(t, with_id("order-1", "id-1"));
    CHECK(!first.duplicate);
    CHECK(again.duplicate);
    CHECK_INT(first.seq, again.seq);
    CHECK_INT(first.position, again.position);
    CHECK_TEXT("", again.id);
    CHECK_INT(2, head_of(t));
    CHECK_INT(2, summary(t).pending);
}

CONTRACT(a_duplicate_is_found_after_many_other_events)
{
    contract *t = *state;
    ef_new_event events[500];
    ef_place places[500];

    append_event(t, with_id("order-1", "id-1"));
    for (int i = 0; i < 500; i++)
        events[i] = event_of("noise", "t");
    OK(ef_journal_append(t->journal, events, 500, places, &t->err));
    reopen(t);
    if (survives(t)) {
        CHECK(append_event(t, with_id("order-1", "id-1")).duplicate);
        CHECK_INT(501, head_of(t));
    }
}

CONTRACT(a_duplicate_wins_over_a_wrong_expected_seq)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "id-1");

    event.expected_seq = ef_expect_seq(0);
    append_event(t, event);
    CHECK(append_event(t, event).duplicate);
    event.expected_seq = ef_expect_seq(77);
    CHECK(append_event(t, event).duplicate);
}

CONTRACT(part_of_a_batch_may_be_duplicates)
{
    contract *t = *state;
    ef_new_event events[] = {with_id("order-1", "id-1"), with_id("order-1", "id-2"),
                             with_id("order-1", "id-3")};
    ef_place places[3];

    append_event(t, with_id("order-1", "id-2"));
    OK(ef_journal_append(t->journal, events, 3, places, &t->err));
    CHECK(!places[0].duplicate);
    CHECK(places[1].duplicate);
    CHECK(!places[2].duplicate);
    CHECK_INT(2, places[0].seq);
    CHECK_INT(1, places[1].seq);
    CHECK_INT(3, places[2].seq);
    CHECK_INT(3, places[2].position);
}

CONTRACT(the_same_id_twice_in_one_batch_is_written_once)
{
    contract *t = *state;
    ef_new_event events[] = {with_id("order-1", "id-1"), with_id("order-1", "id-1")};
    ef_place places[2];

    OK(ef_journal_append(t->journal, events, 2, places, &t->err));
    CHECK(!places[0].duplicate);
    CHECK(places[1].duplicate);
    CHECK_INT(1, places[1].position);
    CHECK_INT(1, head_of(t));
}

CONTRACT(the_same_id_twice_in_one_batch_with_other_content_writes_nothing)
{
    contract *t = *state;
    ef_new_event events[] = {with_id("order-1", "id-1"), with_id("order-2", "id-1")};
    ef_place places[2];

    REFUSED(EF_ID_CONFLICT, ef_journal_append(t->journal, events, 2, places, &t->err));
    CHECK_INT(0, head_of(t));
    CHECK_INT(0, seq_of(t, "order-1"));
}

static void conflicts(contract *t, ef_new_event event)
{
    ef_new_event events[] = {event_of("other", "t"), event};
    ef_place places[2];

    REFUSED(EF_ID_CONFLICT, ef_journal_append(t->journal, events, 2, places, &t->err));
    CHECK_INT(1, head_of(t));
    CHECK_INT(0, seq_of(t, "other"));
}

CONTRACT(an_id_with_other_content_is_a_conflict_and_nothing_is_written)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "id-1"), other;

    append_event(t, event);
    other = event, other.stream = str("order-2"), conflicts(t, other);
    other = event, other.type = str("order.paid"), conflicts(t, other);
    other = event, other.schema = 2, conflicts(t, other);
    other = event, other.data = str("{\"amount\":2}"), conflicts(t, other);
    other = event, other.data = str("{\"amount\": 1}"), conflicts(t, other);
    other = event, other.meta = str("{\"a\":1}"), conflicts(t, other);
    other = event, other.time_us = 5, conflicts(t, other);
}

CONTRACT(a_time_that_was_given_is_content_and_one_that_was_not_is_not)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "id-1");

    event.time_us = 1000;
    append_event(t, event);
    CHECK(append_event(t, event).duplicate);
    event.time_us = 0;
    CHECK(append_event(t, event).duplicate);
    event.time_us = 1001;
    REFUSED(EF_ID_CONFLICT, try_append(t, event, NULL));
}

CONTRACT(ids_belong_to_their_tenant)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "id-1");

    append_event(t, event);
    event.tenant = str("acme");
    event.data = str("{\"amount\":2}");
    CHECK(!append_event(t, event).duplicate);
    CHECK_INT(2, head_of(t));
}

CONTRACT(an_id_that_was_made_is_known_when_it_is_given)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "");
    ef_place made = append_event(t, event), again;

    event.id = str(made.id);
    again = append_event(t, event);
    CHECK(again.duplicate);
    CHECK_INT(made.position, again.position);
    event.stream = str("order-2");
    REFUSED(EF_ID_CONFLICT, try_append(t, event, NULL));
    event.tenant = str("acme");
    CHECK(!append_event(t, event).duplicate);
    CHECK(append_event(t, event).duplicate);
    CHECK_INT(2, head_of(t));
}

CONTRACT(an_id_that_was_refused_may_be_used_afterwards)
{
    contract *t = *state;
    ef_new_event event = with_id("order-1", "id-1");

    event.expected_seq = ef_expect_seq(9);
    REFUSED(EF_CONFLICT, try_append(t, event, NULL));
    event.expected_seq = ef_expect_seq(0);
    CHECK(!append_event(t, event).duplicate);
}

CONTRACT(an_alias_set_later_leaves_duplicates_duplicates)
{
    contract *t = *state;
    ef_type target = {.name = str("order.created")};
    ef_type alias = {.name = str("order.placed"), .alias_of = str("order.created")};

    append_event(t, with_id("order-1", "id-1"));
    OK(ef_type_set(t->journal, &target, &t->err));
    OK(ef_type_set(t->journal, &alias, &t->err));
    CHECK(append_event(t, with_id("order-1", "id-1")).duplicate);
}

CONTRACT_MAIN(CASE(the_same_event_again_has_its_first_place),
              CASE(a_duplicate_is_found_after_many_other_events),
              CASE(a_duplicate_wins_over_a_wrong_expected_seq),
              CASE(part_of_a_batch_may_be_duplicates),
              CASE(the_same_id_twice_in_one_batch_is_written_once),
              CASE(the_same_id_twice_in_one_batch_with_other_content_writes_nothing),
              CASE(an_id_with_other_content_is_a_conflict_and_nothing_is_written),
              CASE(a_time_that_was_given_is_content_and_one_that_was_not_is_not),
              CASE(ids_belong_to_their_tenant), CASE(an_id_that_was_made_is_known_when_it_is_given),
              CASE(an_id_that_was_refused_may_be_used_afterwards),
              CASE(an_alias_set_later_leaves_duplicates_duplicates))
