/*
 * The outbox: claims, acks, suspect rows, stale owners, retry rows in their order.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include <stdlib.h>

static size_t lane_count(contract *t)
{
    ef_lane_list list = {0};
    size_t count;

    OK(ef_lane_ls(t->journal, &list, &t->err));
    count = list.count;
    EF_RELEASE(&list);
    return count;
}

/* Claimed positions in order, as one number: 1, 2, 3 gives 123. And how many were suspect. */
typedef struct taken {
    int64_t positions;
    int suspects;
    bool more;
} taken;

static taken take(contract *t, const char *lane, const ef_partition_lease *held, size_t count,
                  size_t limit)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    taken found = {0};

    OK(test_claim(t->journal, str(lane), held, count, limit, &batch, &t->err));
    for (size_t i = 0; i < batch.count; i++) {
        if (batch.count < 10)
            found.positions = found.positions * 10 + batch.items[i].event->position;
        found.suspects += batch.items[i].suspect;
        CHECK_STR(lane, batch.items[i].lane);
    }
    found.more = batch.more;
    ef__claimed_batch_release(&batch);
    return found;
}

static taken take_due(contract *t, const char *lane, const ef_partition_lease *held, size_t count)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    taken found = {0};

    OK(test_claim_due(t->journal, str(lane), held, count, 100, &batch, &t->err));
    for (size_t i = 0; i < batch.count; i++)
        found.positions = found.positions * 10 + batch.items[i].event->position;
    ef__claimed_batch_release(&batch);
    return found;
}

/* --- claims and acks -------------------------------------------------------------------------- */

CONTRACT(rows_are_claimed_in_order_of_position_over_all_held_partitions)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    append(t, "b", "t");
    append(t, "c", "t");
    append(t, "d", "t");
    append(t, "e", "t");
    hold_all(t, "w1", held);
    CHECK_INT(12345, take(t, "*", held, PARTITIONS, 10).positions);
    CHECK_INT(123, take(t, "*", held, PARTITIONS, 3).positions);
    CHECK(take(t, "*", held, PARTITIONS, 3).more);
    CHECK(!take(t, "*", held, PARTITIONS, 5).more);
    CHECK_INT(0, take(t, "*", held, PARTITIONS, 0).positions);
    CHECK_INT(0, take(t, "*", NULL, 0, 10).positions);
}

CONTRACT(only_rows_of_held_partitions_are_claimed)
{
    contract *t = *state;
    ef_partition_lease held = {0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    char stream[16];

    for (int i = 0; i < 40; i++) {
        (void)snprintf(stream, sizeof stream, "s%d", i);
        append(t, stream, "t");
    }
    held = (ef_partition_lease){2, acquire(t, 2, "w1"), 0};
    OK(test_claim(t->journal, str("*"), &held, 1, 100, &batch, &t->err));
    CHECK(batch.count > 0 && batch.count < 40);
    for (size_t i = 0; i < batch.count; i++)
        CHECK_INT(2, batch.items[i].partition);
    ef__claimed_batch_release(&batch);
}

CONTRACT(a_claimed_row_has_its_event)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.placed");
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    event.data = str("{\"amount\":1}");
    append_event(t, event);
    hold_all(t, "w1", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_STR("order-1", batch.items[0].event->stream);
    CHECK_STR("{\"amount\":1}", batch.items[0].event->data);
    CHECK_INT(1, batch.items[0].event->seq);
    CHECK_INT(partition_of("order-1"), batch.items[0].partition);
    CHECK_INT(0, batch.items[0].attempts);
    CHECK(!batch.items[0].skip);
    ef__claimed_batch_release(&batch);
}

/* Claims and acknowledges positions `from` to `to`; returns the number of batches. */
static int take_range(contract *t, ef_partition_lease *held, int64_t from, int64_t to)
{
    int batches = 0;

    for (; from <= to; batches++) {
        ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

        OK(test_claim(t->journal, str("*"), held, PARTITIONS, 1000, &batch, &t->err));
        CHECK(batch.count > 0);
        for (size_t i = 0; i < batch.count; i++)
            CHECK_INT(from++, batch.items[i].event->position);
        ack_claimed(t, "*", held, PARTITIONS, &batch, NULL, 0);
        ef__claimed_batch_release(&batch);
    }
    return batches;
}

CONTRACT(large_events_come_in_as_many_batches_as_they_need)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];
    const size_t bytes = 900 * 1000;
    char *data = malloc(bytes + 1);
    ef_new_event large = event_of("a", "t");

    memset(data, 'x', bytes);
    memcpy(data, "{\"a\":\"", 6);
    memcpy(data + bytes - 2, "\"}", 2);
    large.data = (ef_str){data, bytes};
    hold_all(t, "w", held);
    append(t, "b", "t");
    for (int i = 0; i < 20; i++) /* 18 MB, which not every back end takes at once */
        append_event(t, large);
    append(t, "c", "t");
    CHECK(take_range(t, held, 1, 22) <= 2);
    for (int i = 0; i < 2; i++) { /* and what is small comes as it does */
        append(t, "b", "t");
        append(t, "c", "t");
        CHECK_INT(1, take_range(t, held, head_of(t) - 1, head_of(t)));
    }
    CHECK_INT(0, queued_in(t, "*"));
    free(data);
}

CONTRACT(taking_again_gives_the_same_rows_and_they_are_not_suspect)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    append(t, "a", "t");
    hold_all(t, "w1", held);
    CHECK_INT(12, take(t, "*", held, PARTITIONS, 10).positions);
    append(t, "a", "t");
    CHECK_INT(123, take(t, "*", held, PARTITIONS, 10).positions);
    CHECK_INT(0, take(t, "*", held, PARTITIONS, 10).suspects);
}

CONTRACT(an_ack_deletes_the_rows_up_to_the_offset)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};

    append(t, "a", "t");
    append(t, "a", "t");
    append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    take(t, "*", &held, 1, 10);
    held.upto = 2;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    CHECK_INT(1, queued_in(t, "*"));
    CHECK_INT(3, take(t, "*", &held, 1, 10).positions);
    held.upto = 0;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    CHECK_INT(1, queued_in(t, "*"));
}

CONTRACT(an_ack_is_refused_below_the_offset_and_beyond_the_claimed_rows)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};

    for (int i = 0; i < 4; i++)
        append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    held.upto = 1;
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    take(t, "*", &held, 1, 3);
    held.upto = 4;
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    held.upto = 2;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    held.upto = 1;
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    CHECK_INT(2, queued_in(t, "*"));
}

CONTRACT(each_lane_has_its_own_offset)
{
    contract *t = *state;
    ef_partition_lease apply = {partition_of("a"), 0, 0};
    ef_partition_lease publish = {publisher_partition_of("a"), 0, 0};

    set_publish(t, "t");
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    append(t, "a", "t");
    append(t, "a", "t");
    apply.token = acquire(t, apply.partition, "w1");
    publish.token = acquire_publisher(t, "mail", publish.partition, "w2");
    take(t, "*", &apply, 1, 10);
    apply.upto = 2;
    OK(test_ack(t->journal, str("*"), &apply, 1, NULL, 0, &t->err));
    CHECK_INT(0, queued_in(t, "*"));
    CHECK_INT(12, take(t, "mail", &publish, 1, 10).positions);
}

CONTRACT(a_lane_that_is_not_there_is_not_found)
{
    contract *t = *state;
    ef_partition_lease held = {0, acquire(t, 0, "w1"), 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    REFUSED(EF_NOT_FOUND, test_claim(t->journal, str("missing"), &held, 1, 10, &batch, &t->err));
    REFUSED(EF_NOT_FOUND, test_ack(t->journal, str("missing"), &held, 1, NULL, 0, &t->err));
    ef__claimed_batch_release(&batch);
}

/* --- owners come and go ----------------------------------------------------------------------- */

CONTRACT(claim_and_ack_are_refused_under_an_old_token)
{
    contract *t = *state;
    ef_retry_row failed = {str("orders"), 1, EF_ROW_FAILED, 1, 0, str("late"), 0, false, false};
    ef_partition_lease old = {partition_of("a"), 0, 0}, new = old;
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    old.token = acquire(t, old.partition, "w1");
    take(t, "*", &old, 1, 10);
    pass_time(t, 11 * SECOND);
    new.token = acquire(t, new.partition, "w2");
    REFUSED(EF_LEASE_LOST, test_claim(t->journal, str("*"), &old, 1, 10, &batch, &t->err));
    old.upto = 1;
    REFUSED(EF_LEASE_LOST, test_ack(t->journal, str("*"), &old, 1, &failed, 1, &t->err));
    CHECK_INT(old.token, t->err.asked);
    CHECK_INT(1, queued_in(t, "*"));
    CHECK_INT(0, queued_in(t, "orders"));
    CHECK_INT(1, take(t, "*", &new, 1, 10).positions);
    ef__claimed_batch_release(&batch);
}

CONTRACT(claim_is_refused_after_the_lease_expired)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    pass_time(t, 10 * SECOND);
    REFUSED(EF_LEASE_LOST, test_claim(t->journal, str("*"), &held, 1, 10, &batch, &t->err));
    CHECK_INT(0, batch.count);
    ef__claimed_batch_release(&batch);
}

CONTRACT(one_old_token_among_several_refuses_them_all)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    hold_all(t, "w1", held);
    held[partition_of("a") == 0].token++;
    REFUSED(EF_LEASE_LOST, test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(0, summary(t).processing);
    ef__claimed_batch_release(&batch);
}

CONTRACT(rows_in_flight_of_a_crashed_worker_are_suspect_until_acknowledged)
{
    contract *t = *state;
    ef_partition_lease old = {partition_of("a"), 0, 0}, new = old;

    for (int i = 0; i < 5; i++)
        append(t, "a", "t");
    old.token = acquire(t, old.partition, "w1");
    take(t, "*", &old, 1, 3);
    pass_time(t, 11 * SECOND);
    new.token = acquire(t, new.partition, "w2");
    /* The next owner gets them one by one; then the rest, which is not suspect. */
    CHECK_INT(1, take(t, "*", &new, 1, 10).positions);
    CHECK_INT(1, take(t, "*", &new, 1, 10).suspects);
    new.upto = 1;
    OK(test_ack(t->journal, str("*"), &new, 1, NULL, 0, &t->err));
    CHECK_INT(2, take(t, "*", &new, 1, 10).positions);
    new.upto = 2;
    OK(test_ack(t->journal, str("*"), &new, 1, NULL, 0, &t->err));
    CHECK_INT(1, take(t, "*", &new, 1, 10).suspects);
    new.upto = 3;
    OK(test_ack(t->journal, str("*"), &new, 1, NULL, 0, &t->err));
    CHECK_INT(45, take(t, "*", &new, 1, 10).positions);
    CHECK_INT(0, take(t, "*", &new, 1, 10).suspects);
}

CONTRACT(a_crash_over_suspect_rows_leaves_fewer_rows_suspect)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};

    for (int i = 0; i < 5; i++)
        append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    take(t, "*", &held, 1, 3);
    pass_time(t, 11 * SECOND);
    held.token = acquire(t, held.partition, "w2");
    take(t, "*", &held, 1, 10); /* the first of three */
    pass_time(t, 11 * SECOND);
    held.token = acquire(t, held.partition, "w3");
    CHECK_INT(1, take(t, "*", &held, 1, 10).suspects);
    held.upto = 1;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    /* Two and three were not in flight the second time. */
    CHECK_INT(2345, take(t, "*", &held, 1, 10).positions);
    CHECK_INT(0, take(t, "*", &held, 1, 10).suspects);
}

CONTRACT(many_suspects_come_in_pieces)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};

    for (int i = 0; i < 2 * EF_SUSPECT_PIECE; i++)
        append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    take(t, "*", &held, 1, EF_SUSPECT_PIECE + 2);
    pass_time(t, 11 * SECOND);
    held.token = acquire(t, held.partition, "w2");
    CHECK_INT(EF_SUSPECT_PIECE, take(t, "*", &held, 1, 1000).suspects);
    held.upto = EF_SUSPECT_PIECE;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    CHECK_INT(1, take(t, "*", &held, 1, 1000).suspects);
}

CONTRACT(an_acknowledged_row_is_not_suspect)
{
    contract *t = *state;
    ef_partition_lease old = {partition_of("a"), 0, 0}, new = old;

    append(t, "a", "t");
    append(t, "a", "t");
    old.token = acquire(t, old.partition, "w1");
    take(t, "*", &old, 1, 1);
    old.upto = 1;
    OK(test_ack(t->journal, str("*"), &old, 1, NULL, 0, &t->err));
    pass_time(t, 11 * SECOND);
    new.token = acquire(t, new.partition, "w2");
    CHECK_INT(2, take(t, "*", &new, 1, 10).positions);
    CHECK_INT(0, take(t, "*", &new, 1, 10).suspects);
}

/* --- retry rows ------------------------------------------------------------------------------- */

CONTRACT(a_retry_row_waits_for_its_time)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];
    int64_t due_us = t->now_us + 5 * SECOND;

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, due_us, "no such path");
    hold_all(t, "fixture", held);
    CHECK_INT(0, take(t, "*", held, PARTITIONS, 10).positions);
    CHECK_INT(0, take_due(t, "", held, PARTITIONS).positions);
    pass_time(t, 5 * SECOND);
    CHECK_INT(1, take_due(t, "", held, PARTITIONS).positions);
    CHECK_INT(1, take_due(t, "orders", held, PARTITIONS).positions);
}

CONTRACT(a_due_row_is_claimed_with_its_lane_and_attempts)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 3, 0, "again");
    hold_all(t, "fixture", held);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_STR("orders", batch.items[0].lane);
    CHECK_INT(3, batch.items[0].attempts);
    CHECK_INT(1, batch.items[0].event->position);
    CHECK(!batch.items[0].skip);
    ef__claimed_batch_release(&batch);
}

CONTRACT(only_the_first_retry_row_of_a_stream_in_its_lane_is_claimed)
{
    contract *t = *state;
    ef_retry_row retry_rows[] = {
        {str("orders"), 3, EF_ROW_PENDING, 0, 0, str(""), 0, false, false},
        {str("orders"), 1, EF_ROW_FAILED, 1, t->now_us + SECOND, str("x"), 0, false, false},
        {str("other"), 3, EF_ROW_PENDING, 0, 0, str(""), 0, false, false},
        {str("orders"), 2, EF_ROW_PENDING, 0, 0, str(""), 0, false, false},
    };
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    append(t, "b", "t");
    append(t, "a", "t");
    hold_all(t, "w", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    ack_claimed(t, "*", held, PARTITIONS, &batch, retry_rows, 4);
    ef__claimed_batch_release(&batch);
    /* Position 3 of orders is blocked by 1, which is not due; other streams and lanes are not. */
    CHECK_INT(23, take_due(t, "", held, PARTITIONS).positions);
    CHECK_INT(2, take_due(t, "orders", held, PARTITIONS).positions);
    pass_time(t, SECOND);
    /* Lane by lane, the row that was due first comes first, with the pending rows after it. */
    CHECK_INT(2133, take_due(t, "", held, PARTITIONS).positions);
}

CONTRACT(a_dead_row_blocks_its_own_stream_only)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_DEAD, 8, 0, "poison");
    append(t, "a", "t");
    fail_event(t, "orders", 2, EF_ROW_PENDING, 0, 0, "");
    append(t, "b", "t");
    fail_event(t, "orders", 3, EF_ROW_FAILED, 1, 0, "x");
    hold_all(t, "fixture", held);
    CHECK_INT(3, take_due(t, "", held, PARTITIONS).positions);
}

CONTRACT(done_removes_the_row_and_the_next_comes_up)
{
    contract *t = *state;
    ef_retry_row done = {str("orders"), 1, EF_ROW_DONE, 0, 0, str(""), 0, false, false};
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, "x");
    append(t, "a", "t");
    fail_event(t, "orders", 2, EF_ROW_PENDING, 0, 0, "");
    hold_all(t, "fixture", held);
    CHECK_INT(12, take_due(t, "", held, PARTITIONS).positions);
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &done, 1, &t->err));
    CHECK_INT(2, take_due(t, "", held, PARTITIONS).positions);
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &done, 1, &t->err));
    CHECK_INT(1, queued_in(t, "orders"));
}

CONTRACT(a_deleted_retry_row_is_not_created_again)
{
    contract *t = *state;
    ef_retry_row done = {str("orders"), 1, EF_ROW_DONE, 0, 0, str(""), 0, false, false};
    ef_retry_row late = {str("orders"), 1, EF_ROW_FAILED, 2, 0, str("late"), 0, false, false};
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, "x");
    hold_all(t, "fixture", held);
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &done, 1, &t->err));
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &late, 1, &t->err));
    CHECK_INT(0, queued_in(t, "orders"));
}

CONTRACT(a_retry_row_stays_in_the_lanes_and_partitions_of_its_ack)
{
    contract *t = *state;
    ef_retry_row wrong = {str("mail"), 1, EF_ROW_FAILED, 1, 0, str("x"), 0, false, false};
    ef_retry_row far = {str("orders"), 9, EF_ROW_FAILED, 1, 0, str("x"), 0, false, false};
    ef_retry_row here = {str("orders"), 1, EF_ROW_FAILED, 1, 0, str("x"), 0, false, false};
    ef_retry_row two[] = {here, far};
    ef_partition_lease held = {partition_of("a"), 0, 0},
                       other = {(partition_of("a") + 1) % PARTITIONS, 0, 0};

    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    append(t, "a", "t");
    held.token = acquire(t, held.partition, "w");
    other.token = acquire(t, other.partition, "w");
    take(t, "*", &held, 1, 10);
    held.upto = 1;
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, &wrong, 1, &t->err));
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, &far, 1, &t->err));
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &held, 1, two, 2, &t->err));
    REFUSED(EF_BAD_INPUT, test_ack(t->journal, str("*"), &other, 1, &here, 1, &t->err));
    CHECK_INT(1, queued_in(t, "*"));
    CHECK_INT(2, lane_count(t)); /* a refused ack creates no lane */
    OK(test_ack(t->journal, str("*"), &held, 1, &here, 1, &t->err));
    CHECK_INT(0, queued_in(t, "*"));
    CHECK_INT(1, queued_in(t, "orders"));
}

CONTRACT(a_publisher_keeps_its_failures_in_its_own_lane)
{
    contract *t = *state;
    ef_retry_row failed = {str("mail"), 1, EF_ROW_FAILED, 1, 0, str("503"), 0, false, false};
    ef_partition_lease held = {partition_of("a"), 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    set_publish(t, "t");
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    append(t, "a", "t");
    held.token = acquire_publisher(t, "mail", held.partition, "w");
    take(t, "mail", &held, 1, 10);
    held.upto = 1;
    OK(test_ack(t->journal, str("mail"), &held, 1, &failed, 1, &t->err));
    CHECK_INT(1, take_due(t, "mail", &held, 1).positions);
    /* The projections' lanes are held under other leases, and do not see it. */
    REFUSED(EF_LEASE_LOST, test_claim_due(t->journal, str(""), &held, 1, 10, &batch, &t->err));
    ef__claimed_batch_release(&batch);
}

CONTRACT(the_outbox_survives_opening_again)
{
    contract *t = *state;
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 2, 0, "x");
    append(t, "a", "t");
    if (!survives(t))
        return;
    reopen(t);
    hold_all(t, "fixture", held);
    CHECK_INT(2, take(t, "*", held, PARTITIONS, 10).positions);
    CHECK_INT(1, take_due(t, "", held, PARTITIONS).positions);
}

CONTRACT_MAIN(CASE(rows_are_claimed_in_order_of_position_over_all_held_partitions),
              CASE(only_rows_of_held_partitions_are_claimed), CASE(a_claimed_row_has_its_event),
              CASE(large_events_come_in_as_many_batches_as_they_need),
              CASE(taking_again_gives_the_same_rows_and_they_are_not_suspect),
              CASE(an_ack_deletes_the_rows_up_to_the_offset),
              CASE(an_ack_is_refused_below_the_offset_and_beyond_the_claimed_rows),
              CASE(each_lane_has_its_own_offset), CASE(a_lane_that_is_not_there_is_not_found),
              CASE(claim_and_ack_are_refused_under_an_old_token),
              CASE(claim_is_refused_after_the_lease_expired),
              CASE(one_old_token_among_several_refuses_them_all),
              CASE(rows_in_flight_of_a_crashed_worker_are_suspect_until_acknowledged),
              CASE(a_crash_over_suspect_rows_leaves_fewer_rows_suspect),
              CASE(many_suspects_come_in_pieces), CASE(an_acknowledged_row_is_not_suspect),
              CASE(a_retry_row_waits_for_its_time),
              CASE(a_due_row_is_claimed_with_its_lane_and_attempts),
              CASE(only_the_first_retry_row_of_a_stream_in_its_lane_is_claimed),
              CASE(a_dead_row_blocks_its_own_stream_only),
              CASE(done_removes_the_row_and_the_next_comes_up),
              CASE(a_deleted_retry_row_is_not_created_again),
              CASE(a_retry_row_stays_in_the_lanes_and_partitions_of_its_ack),
              CASE(a_publisher_keeps_its_failures_in_its_own_lane),
              CASE(the_outbox_survives_opening_again))
