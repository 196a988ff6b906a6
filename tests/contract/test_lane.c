/*
 * Lanes: which there are, and what is queued for whom.
 */
#include "contract.h"

#include "../../src/journal/journal.h"

CONTRACT(the_apply_lane_is_always_there)
{
    contract *t = *state;
    ef_lane_list list = {0};
    ef_lane bad = {.name = str("*"), .kind = EF_LANE_KIND_PUBLISHER, .enabled = true};

    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("*", list.items[0].name);
    CHECK_INT(EF_LANE_KIND_APPLY, list.items[0].kind);
    CHECK(list.items[0].enabled);
    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &bad, &t->err));
    bad = (ef_lane){.name = str("mail"), .kind = EF_LANE_KIND_APPLY, .enabled = true};
    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &bad, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(lanes_are_set_and_listed)
{
    contract *t = *state;
    ef_lane_list list = {0};

    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "order.*, cart.filled");
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, false, "order.*");
    set_lane(t, "orders", EF_LANE_KIND_PROJECTION, true, "");
    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_INT(3, list.count);
    CHECK_STR("mail", list.items[1].name);
    CHECK_INT(EF_LANE_KIND_PUBLISHER, list.items[1].kind);
    CHECK(!list.items[1].enabled);
    CHECK_STR("order.*", list.items[1].types);
    CHECK_STR("orders", list.items[2].name);
    EF_RELEASE(&list);
}

CONTRACT(a_lane_that_was_changed_since_it_was_read_is_not_replaced)
{
    contract *t = *state;
    ef_lane_list read = {0}, list = {0};
    ef_lane lane = {.name = str("mail"),
                    .kind = EF_LANE_KIND_PUBLISHER,
                    .enabled = true,
                    .types = str("a"),
                    .settings = str("{\"n\":1}")};

    OK(ef_lane_set(t->journal, &lane, &t->err));
    OK(ef_lane_ls(t->journal, &read, &t->err));
    lane.settings = str("{\"n\":2}");
    OK(ef_lane_set(t->journal, &lane, &t->err));
    lane.settings = str("{\"n\":3}");
    REFUSED(EF_CONFLICT, ef__lane_replace(t->journal, &read.items[1], &lane, &t->err));
    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_STR("{\"n\":2}", list.items[1].settings);
    OK(ef__lane_replace(t->journal, &list.items[1], &lane, &t->err));
    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_STR("{\"n\":3}", list.items[1].settings);
    OK(ef__lane_drop(t->journal, str("mail"), true, NULL, &t->err));
    REFUSED(EF_CONFLICT, ef__lane_replace(t->journal, &list.items[1], &lane, &t->err));
    EF_RELEASE(&read);
    EF_RELEASE(&list);
}

CONTRACT(a_publisher_gets_the_types_that_are_published_and_match)
{
    contract *t = *state;

    set_publish(t, "order.placed");
    set_publish(t, "cart.filled");
    set_lane(t, "all", EF_LANE_KIND_PUBLISHER, true, "");
    set_lane(t, "orders", EF_LANE_KIND_PUBLISHER, true, "order.*,invoice.sent");
    set_lane(t, "off", EF_LANE_KIND_PUBLISHER, false, "");
    set_lane(t, "view", EF_LANE_KIND_PROJECTION, true, "");
    append(t, "a", "order.placed");
    append(t, "a", "order.secret");
    append(t, "a", "cart.filled");
    CHECK_INT(3, queued_in(t, "*"));
    CHECK_INT(2, queued_in(t, "all"));
    CHECK_INT(1, queued_in(t, "orders"));
    CHECK_INT(0, queued_in(t, "off"));
    CHECK_INT(0, queued_in(t, "view"));
}

/* A claim returns the canonical name, so the publisher is selected by that one. */
CONTRACT(an_event_of_an_alias_is_published_as_its_canonical_type)
{
    contract *t = *state;
    ef_type alias = {.name = str("OrderPlaced"), .alias_of = str("order.placed")};

    set_publish(t, "order.placed");
    OK(ef_type_set(t->journal, &alias, &t->err));
    set_lane(t, "orders", EF_LANE_KIND_PUBLISHER, true, "order.*");
    append(t, "a", "OrderPlaced");
    CHECK_INT(1, queued_in(t, "orders"));
}

CONTRACT(a_lane_is_queued_for_only_while_it_is_enabled)
{
    contract *t = *state;

    set_publish(t, "t");
    append(t, "a", "t");
    set_lane(t, "p", EF_LANE_KIND_PUBLISHER, true, "");
    append(t, "a", "t");
    set_lane(t, "p", EF_LANE_KIND_PUBLISHER, false, "");
    append(t, "a", "t");
    CHECK_INT(1, queued_in(t, "p"));
    CHECK_INT(3, queued_in(t, "*"));
}

CONTRACT(nothing_is_queued_with_the_outbox_off)
{
    contract *t = *state;

    t->options.outbox_off = true;
    reopen(t);
    append(t, "a", "t");
    CHECK_INT(0, summary(t).pending);
}

CONTRACT(a_duplicate_is_not_queued_again)
{
    contract *t = *state;
    ef_new_event event = event_of("a", "t");

    event.id = str("id-1");
    append_event(t, event);
    append_event(t, event);
    CHECK_INT(1, queued_in(t, "*"));
}

CONTRACT_MAIN(CASE(the_apply_lane_is_always_there), CASE(lanes_are_set_and_listed),
              CASE(a_lane_that_was_changed_since_it_was_read_is_not_replaced),
              CASE(a_publisher_gets_the_types_that_are_published_and_match),
              CASE(an_event_of_an_alias_is_published_as_its_canonical_type),
              CASE(a_lane_is_queued_for_only_while_it_is_enabled),
              CASE(nothing_is_queued_with_the_outbox_off), CASE(a_duplicate_is_not_queued_again))
