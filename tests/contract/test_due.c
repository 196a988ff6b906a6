/*
 * Due retry rows, the pending rows after them, and rows that are filed.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include "../../src/journal/journal.h"

static ef_claimed_batch due(contract *t, size_t limit)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_partition_lease held[PARTITIONS];

    hold_all(t, "fixture", held);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, limit, &batch, &t->err));
    return batch;
}

/* Claimed positions in order, as one number: 1, 2, 3 gives 123. */
static int64_t due_positions(contract *t, size_t limit)
{
    ef_claimed_batch batch = due(t, limit);
    int64_t found = 0;

    for (size_t i = 0; i < batch.count; i++)
        found = found * 10 + batch.items[i].event->position;
    ef__claimed_batch_release(&batch);
    return found;
}

static ef_retry_row retry_row(int64_t position, ef_row_status status, int64_t due_us)
{
    return (ef_retry_row){.lane = str("orders"),
                          .position = position,
                          .status = status,
                          .attempts = status == EF_ROW_FAILED,
                          .due_us = due_us,
                          .error = str(status == EF_ROW_FAILED ? "no such path" : "")};
}

/* Events of stream a at positions 1 to 4, failed and waiting in lane orders. */
static void fill(contract *t, ef_row_status head, ef_row_status third)
{
    ef_retry_row rows[] = {retry_row(1, head, t->now_us + 1), retry_row(2, EF_ROW_PENDING, 0),
                           retry_row(3, third, 0), retry_row(4, EF_ROW_PENDING, 0)};
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    for (int i = 0; i < 4; i++)
        append(t, "a", "t");
    hold_all(t, "fixture", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    ack_claimed(t, "*", held, PARTITIONS, &batch, rows, 4);
    ef__claimed_batch_release(&batch);
}

CONTRACT(pending_rows_after_a_due_retry_row_are_claimed_with_it)
{
    contract *t = *state;
    ef_claimed_batch batch;

    fill(t, EF_ROW_FAILED, EF_ROW_PENDING);
    pass_time(t, SECOND);
    batch = due(t, 10);
    CHECK_INT(4, batch.count);
    CHECK(!batch.items[0].follows);
    CHECK_STR("no such path", batch.items[0].error);
    for (size_t i = 1; i < 4; i++) {
        CHECK_INT(i + 1, batch.items[i].event->position);
        CHECK(batch.items[i].follows);
        CHECK_INT(0, batch.items[i].attempts);
        CHECK_STR("orders", batch.items[i].lane);
    }
    CHECK(!batch.more);
    ef__claimed_batch_release(&batch);
    batch = due(t, 3);
    CHECK_INT(3, batch.count);
    CHECK(batch.more);
    ef__claimed_batch_release(&batch);
}

CONTRACT(rows_after_a_due_retry_row_get_the_space_that_due_rows_leave)
{
    contract *t = *state;
    ef_claimed_batch batch;

    fill(t, EF_ROW_FAILED, EF_ROW_PENDING);
    append(t, "b", "t");
    fail_event(t, "orders", 5, EF_ROW_FAILED, 1, t->now_us + 2, "x");
    pass_time(t, SECOND);
    CHECK_INT(1, due_positions(t, 1));
    CHECK_INT(15, due_positions(t, 2));
    CHECK_INT(125, due_positions(t, 3));
    CHECK_INT(12345, due_positions(t, 5));
    batch = due(t, 4);
    CHECK(batch.more);
    ef__claimed_batch_release(&batch);
}

CONTRACT(what_is_dead_ends_what_comes_with_a_retry_row)
{
    contract *t = *state;

    fill(t, EF_ROW_FAILED, EF_ROW_DEAD);
    pass_time(t, SECOND);
    CHECK_INT(12, due_positions(t, 10));
}

CONTRACT(a_batch_says_when_the_next_comes_due)
{
    contract *t = *state;
    ef_claimed_batch batch;
    int64_t due_us = t->now_us + 5 * SECOND;

    append(t, "a", "t");
    batch = due(t, 10);
    CHECK_INT(0, batch.next_due_us);
    ef__claimed_batch_release(&batch);
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, due_us, "x");
    append(t, "b", "t");
    fail_event(t, "other", 2, EF_ROW_FAILED, 1, due_us + SECOND, "x");
    batch = due(t, 10);
    CHECK_INT(0, batch.count);
    CHECK_INT(due_us, batch.next_due_us);
    ef__claimed_batch_release(&batch);
    pass_time(t, 5 * SECOND);
    batch = due(t, 10);
    CHECK_INT(1, batch.count);
    CHECK_INT(due_us + SECOND, batch.next_due_us);
    ef__claimed_batch_release(&batch);
}

CONTRACT(a_dead_retry_row_is_never_due)
{
    contract *t = *state;
    ef_claimed_batch batch;

    fill(t, EF_ROW_DEAD, EF_ROW_PENDING);
    pass_time(t, 1000 * SECOND);
    batch = due(t, 10);
    CHECK_INT(0, batch.count);
    CHECK_INT(0, batch.next_due_us);
    ef__claimed_batch_release(&batch);
}

static bool waits(contract *t)
{
    bool found;

    OK(ef__outbox_has_work(t->journal, &found, &t->err));
    return found;
}

CONTRACT(outbox_has_work_reports_rows_that_need_a_worker)
{
    contract *t = *state;
    ef_retry_row done = retry_row(5, EF_ROW_DONE, 0);
    ef_partition_lease held[PARTITIONS];

    CHECK(!waits(t));
    fill(t, EF_ROW_DEAD, EF_ROW_PENDING);
    CHECK(!waits(t)); /* a dead row, and the rows blocked by it, are left to an operator */
    append(t, "b", "t");
    CHECK(waits(t)); /* it is queued */
    fail_event(t, "orders", 5, EF_ROW_FAILED, 1, t->now_us + 1000 * SECOND, "x");
    CHECK(waits(t)); /* though its time has not come */
    hold_all(t, "fixture", held);
    OK(test_ack(t->journal, str("orders"), held, PARTITIONS, &done, 1, &t->err));
    CHECK(!waits(t));
    OK(ef_lane_set(t->journal,
                   &(ef_lane){.name = str("mail"), .kind = EF_LANE_KIND_PUBLISHER, .enabled = true},
                   &t->err));
    append(t, "c", "t");
    CHECK(waits(t));
    hold_all(t, "fixture", held);
    fail_event(t, "orders", 6, EF_ROW_DEAD, 8, 0, "x");
    CHECK(!waits(t)); /* a publisher's rows are not a worker's */
}

static ef__retry_stream_list retry_streams(contract *t, ef__retry_query query)
{
    ef__retry_stream_list found = {0};

    query.lane = str("orders");
    query.limit = query.limit ? query.limit : 10;
    OK(ef__retry_streams(t->journal, &query, &found, &t->err));
    return found;
}

CONTRACT(streams_with_retry_rows_are_listed_by_their_first_row)
{
    contract *t = *state;
    ef__retry_stream_list found = retry_streams(t, (ef__retry_query){.any_tenant = true});

    CHECK_INT(0, found.count); /* the lane does not exist yet */
    EF_RELEASE(&found);
    fill(t, EF_ROW_FAILED, EF_ROW_PENDING);
    append(t, "b", "t");
    append(t, "b", "t");
    fail_event(t, "orders", 6, EF_ROW_DEAD, 8, 0, "broken");
    found = retry_streams(t, (ef__retry_query){.any_tenant = true, .counts = true});
    CHECK_INT(2, found.count);
    CHECK_STR("a", found.items[0].stream);
    CHECK_INT(1, found.items[0].seq);
    CHECK_INT(1, found.items[0].position);
    CHECK_INT(EF_ROW_FAILED, found.items[0].status);
    CHECK_STR("no such path", found.items[0].error);
    CHECK_INT(4, found.items[0].last_seq);
    CHECK_INT(4, found.items[0].rows);
    CHECK_STR("b", found.items[1].stream);
    CHECK_INT(2, found.items[1].seq);
    CHECK_INT(6, found.items[1].position);
    CHECK_INT(EF_ROW_DEAD, found.items[1].status);
    CHECK_INT(1, found.items[1].rows);
    EF_RELEASE(&found);
}

CONTRACT(streams_with_retry_rows_are_listed_by_page_tenant_and_name)
{
    contract *t = *state;
    ef__retry_stream_list found;

    fill(t, EF_ROW_FAILED, EF_ROW_PENDING);
    append(t, "b", "t");
    fail_event(t, "orders", 5, EF_ROW_DEAD, 8, 0, "broken");
    found = retry_streams(t, (ef__retry_query){.any_tenant = true, .limit = 1});
    CHECK_INT(1, found.count);
    CHECK_INT(0, found.items[0].rows); /* not asked for */
    EF_RELEASE(&found);
    found = retry_streams(t, (ef__retry_query){.any_tenant = true, .after = 1});
    CHECK_INT(1, found.count);
    CHECK_STR("b", found.items[0].stream);
    EF_RELEASE(&found);
    found = retry_streams(t, (ef__retry_query){.tenant = str("another")});
    CHECK_INT(0, found.count);
    EF_RELEASE(&found);
    found = retry_streams(t, (ef__retry_query){.stream = str("a"), .counts = true, .above_seq = 3});
    CHECK_INT(1, found.count);
    CHECK_INT(1, found.items[0].seq);
    CHECK_INT(1, found.items[0].rows);
    EF_RELEASE(&found);
    found = retry_streams(t, (ef__retry_query){.stream = str("c")});
    CHECK_INT(0, found.count);
    EF_RELEASE(&found);
}

CONTRACT(what_is_filed_needs_no_lease_and_comes_due)
{
    contract *t = *state;
    ef_retry_row rows[] = {retry_row(2, EF_ROW_PENDING, 0), retry_row(1, EF_ROW_FAILED, 0)};

    append(t, "a", "t");
    append(t, "a", "t");
    OK(test_file_rows(t->journal, rows, 2, &t->err));
    CHECK_INT(12, due_positions(t, 10));
    CHECK_INT(3, summary(t).pending); /* the two that are queued, and one that was filed */
    CHECK_INT(1, summary(t).failed);
}

CONTRACT(what_is_there_already_is_not_filed_again)
{
    contract *t = *state;
    ef_retry_row row = retry_row(1, EF_ROW_PENDING, 0);

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_DEAD, 8, 0, "poison");
    OK(test_file_rows(t->journal, &row, 1, &t->err));
    CHECK_INT(1, summary(t).dead);
    CHECK_INT(0, summary(t).pending);
}

CONTRACT(a_row_that_was_filed_since_its_claim_is_not_done)
{
    contract *t = *state;
    ef_retry_row row = retry_row(1, EF_ROW_PENDING, 0), done = retry_row(1, EF_ROW_DONE, 0);
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch;

    append(t, "a", "t");
    OK(test_file_rows(t->journal, &row, 1, &t->err));
    batch = due(t, 10);
    done.filed = batch.items[0].filed;
    ef__claimed_batch_release(&batch);
    OK(test_file_rows(t->journal, &row, 1, &t->err)); /* another generation lacks it too */
    hold_all(t, "fixture", held);
    OK(test_ack(t->journal, str("orders"), held, PARTITIONS, &done, 1, &t->err));
    batch = due(t, 10);
    CHECK_INT(1, batch.count);
    done.filed = batch.items[0].filed;
    ef__claimed_batch_release(&batch);
    OK(test_ack(t->journal, str("orders"), held, PARTITIONS, &done, 1, &t->err));
    CHECK_INT(0, due_positions(t, 10));
}

CONTRACT(what_cannot_be_filed_is_refused_as_a_whole)
{
    contract *t = *state;
    ef_retry_row rows[] = {retry_row(1, EF_ROW_PENDING, 0), retry_row(9, EF_ROW_PENDING, 0)};

    append(t, "a", "t");
    REFUSED(EF_BAD_INPUT, test_file_rows(t->journal, rows, 2, &t->err));
    CHECK_INT(0, due_positions(t, 10));
    OK(test_file_rows(t->journal, NULL, 0, &t->err));
}

CONTRACT_MAIN(CASE(pending_rows_after_a_due_retry_row_are_claimed_with_it),
              CASE(rows_after_a_due_retry_row_get_the_space_that_due_rows_leave),
              CASE(what_is_dead_ends_what_comes_with_a_retry_row),
              CASE(a_batch_says_when_the_next_comes_due), CASE(a_dead_retry_row_is_never_due),
              CASE(outbox_has_work_reports_rows_that_need_a_worker),
              CASE(streams_with_retry_rows_are_listed_by_their_first_row),
              CASE(streams_with_retry_rows_are_listed_by_page_tenant_and_name),
              CASE(what_is_filed_needs_no_lease_and_comes_due),
              CASE(what_is_there_already_is_not_filed_again),
              CASE(a_row_that_was_filed_since_its_claim_is_not_done),
              CASE(what_cannot_be_filed_is_refused_as_a_whole))
