/*
 * test_outbox_filed.c - rows that meet others: filed before the queue brings the event, and in two
 * partitions after their number was changed. Both were found by the simulator.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

static int32_t attempts_of(contract *t, const char *lane)
{
    ef_row_list rows = {0};
    int32_t attempts;

    OK(ef_outbox_ls(t->journal,
                    &(ef_outbox_query){.lane = str(lane), .any_tenant = true, .limit = 10}, &rows,
                    &t->err));
    CHECK_INT(1, rows.count);
    attempts = rows.items[0].attempt_count;
    EF_RELEASE(&rows);
    return attempts;
}

CONTRACT(a_row_that_was_filed_before_keeps_its_attempts_when_the_queue_brings_the_event)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};
    ef_retry_row filed = {.lane = str("orders"), .position = 1, .status = EF_ROW_PENDING};
    ef_retry_row dead = {
        .lane = str("orders"), .position = 1, .status = EF_ROW_DEAD, .attempts = 8};
    ef_retry_row failed = {
        .lane = str("orders"), .position = 1, .status = EF_ROW_FAILED, .attempts = 1};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    append(t, "a", "t");
    OK(test_file_rows(t->journal, &filed, 1, &t->err));
    held.token = acquire(t, held.partition, "w1");
    OK(test_ack(t->journal, str("orders"), &held, 1, &dead, 1, &t->err));
    CHECK_INT(8, attempts_of(t, "orders"));

    OK(test_claim(t->journal, str("*"), &held, 1, 10, &batch, &t->err));
    ack_claimed(t, "*", &held, 1, &batch, &failed, 1);
    ef__claimed_batch_release(&batch);
    CHECK_INT(8, attempts_of(t, "orders"));
    CHECK_INT(1, summary(t).dead);
    CHECK_INT(0, summary(t).pending);
}

/* A stream that is in another partition when there is one more of them. */
static const char *moving_stream(contract *t, int32_t *from, int32_t *to)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    ef_partition_sync_result changed;

    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        append(t, NAMES[i], "t");
    OK(ef_partition_sync(t->journal, &(ef_partition_change){.count = PARTITIONS + 1}, &changed,
                         &t->err));
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        append(t, NAMES[i], "t");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        ef_row_list rows = {0};
        OK(ef_outbox_ls(t->journal,
                        &(ef_outbox_query){.lane = str("*"), .any_tenant = true, .limit = 100},
                        &rows, &t->err));
        *from = rows.items[i].partition;
        *to = rows.items[i + sizeof NAMES / sizeof NAMES[0]].partition;
        EF_RELEASE(&rows);
        if (*from != *to)
            return NAMES[i];
    }
    return NULL;
}

CONTRACT(what_follows_in_a_partition_that_is_not_held_is_left_to_its_owner)
{
    contract *t = *state;
    ef_partition_lease held = {0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_batch events = EF_BATCH_INIT;
    int32_t from, to;
    const char *stream = moving_stream(t, &from, &to);

    CHECK(stream != NULL);
    OK(ef_journal_read_stream(t->journal, (ef_str){0}, str(stream), 1, 10, &events, &t->err));
    for (size_t i = 0; i < 2; i++)
        OK(test_file_rows(t->journal,
                          &(ef_retry_row){.lane = str("orders"),
                                          .position = events.events[i].position,
                                          .status = EF_ROW_PENDING},
                          1, &t->err));
    held.partition = from;
    held.token = acquire(t, from, "w1");
    OK(test_claim_due(t->journal, str(""), &held, 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_INT(from, batch.items[0].partition);
    ef__claimed_batch_release(&batch);
    EF_RELEASE(&events);
}

CONTRACT_MAIN(CASE(a_row_that_was_filed_before_keeps_its_attempts_when_the_queue_brings_the_event),
              CASE(what_follows_in_a_partition_that_is_not_held_is_left_to_its_owner))
