/*
 * The outbox as people see it: rows and their order, the summary, requeue, skip, and the record.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

static ef_row_list rows_of(contract *t, ef_outbox_query query)
{
    ef_row_list list = {0};

    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    return list;
}

/* Dead, failed and waiting rows, and two that are queued: positions 1 to 6. */
static void fill(contract *t)
{
    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_DEAD, 8, 0, "poison");
    pass_time(t, SECOND);
    append(t, "a", "t");
    fail_event(t, "orders", 2, EF_ROW_PENDING, 0, 0, "");
    pass_time(t, SECOND);
    append(t, "b", "t");
    fail_event(t, "orders", 3, EF_ROW_FAILED, 2, t->now_us + 60 * SECOND, "timeout");
    append(t, "c", "t");
    fail_event(t, "other", 4, EF_ROW_DEAD, 8, 0, "poison too");
    pass_time(t, 60 * SECOND); /* the fixture's leases expire: queued rows are not in flight */
    append(t, "a", "t");
    append(t, "d", "t");
}

CONTRACT(a_queued_row_shows_its_event)
{
    contract *t = *state;
    ef_new_event event = event_of("order-1", "order.placed");
    ef_row_list list;

    event.tenant = str("acme");
    append_event(t, event);
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_INT(1, list.count);
    CHECK_STR("*", list.items[0].lane);
    CHECK_STR("acme", list.items[0].tenant);
    CHECK_STR("order-1", list.items[0].stream);
    CHECK_STR("order.placed", list.items[0].event_type);
    CHECK_INT(1, list.items[0].seq);
    CHECK_INT(1, list.items[0].position);
    CHECK_INT(EF_ROW_PENDING, list.items[0].status);
    CHECK_INT(0, list.items[0].attempt_count);
    CHECK_INT(0, list.items[0].next_attempt_us);
    CHECK_INT(t->now_us, list.items[0].enqueued_us);
    CHECK_STR("", list.items[0].last_error);
    CHECK(!list.items[0].blocked);
    EF_RELEASE(&list);
}

CONTRACT(a_retry_row_shows_what_became_of_it)
{
    contract *t = *state;
    int64_t enqueued_us = t->now_us, due_us = t->now_us + 9 * SECOND;
    ef_row_list list;

    append(t, "a", "t");
    pass_time(t, SECOND);
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, due_us, "no such path");
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_INT(1, list.count);
    CHECK_STR("orders", list.items[0].lane);
    CHECK_INT(EF_ROW_FAILED, list.items[0].status);
    CHECK_INT(1, list.items[0].attempt_count);
    CHECK_INT(due_us, list.items[0].next_attempt_us);
    CHECK_STR("no such path", list.items[0].last_error);
    CHECK_INT(enqueued_us, list.items[0].enqueued_us);
    CHECK_INT(t->now_us, list.items[0].updated_us);
    EF_RELEASE(&list);
}

CONTRACT(the_eighth_failure_is_dead_and_has_no_next_attempt)
{
    contract *t = *state;
    ef_row_list list;

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 7, 0, "x");
    fail_event(t, "orders", 1, EF_ROW_DEAD, 8, 0, "x");
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_INT(1, list.count);
    CHECK_INT(EF_ROW_DEAD, list.items[0].status);
    CHECK_INT(8, list.items[0].attempt_count);
    CHECK_INT(0, list.items[0].next_attempt_us);
    EF_RELEASE(&list);
}

CONTRACT(a_long_error_is_cut_at_a_characters_end)
{
    contract *t = *state;
    char error[1205];
    ef_row_list list;

    for (int i = 0; i < 601; i++)
        memcpy(error + 2 * i, "\xc3\xa9", 3); /* one byte off, so that 1,000 cuts a character */
    memmove(error + 1, error, 1203);
    error[0] = 'x';
    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, error);
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_INT(999, list.items[0].last_error.len);
    assert_memory_equal(error, list.items[0].last_error.ptr, 999);
    EF_RELEASE(&list);
}

CONTRACT(an_error_that_is_no_text_is_kept_as_well_as_it_can_be)
{
    contract *t = *state;
    ef_row_list list;

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, "bad \xff byte");
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_STR("bad ? byte", list.items[0].last_error);
    EF_RELEASE(&list);
}

CONTRACT(rows_come_in_the_order_of_position_then_lane)
{
    contract *t = *state;
    ef_retry_row retry_rows[] = {
        {str("zeta"), 1, EF_ROW_FAILED, 1, 0, str(""), 0, false, false},
        {str("alpha"), 1, EF_ROW_FAILED, 1, 0, str(""), 0, false, false},
        {str("Mid"), 2, EF_ROW_FAILED, 1, 0, str(""), 0, false, false},
    };
    static const char *const lanes[] = {"alpha", "zeta", "Mid", "*"};
    static const int64_t positions[] = {1, 1, 2, 3};
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list;

    append(t, "a", "t");
    append(t, "b", "t");
    hold_all(t, "w", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    ack_claimed(t, "*", held, PARTITIONS, &batch, retry_rows, 3);
    ef__claimed_batch_release(&batch);
    append(t, "a", "t");
    list = rows_of(t, (ef_outbox_query){.any_tenant = true, .limit = 10});
    CHECK_INT(4, list.count);
    for (size_t i = 0; i < 4; i++) {
        CHECK_STR(lanes[i], list.items[i].lane);
        CHECK_INT(positions[i], list.items[i].position);
    }
    EF_RELEASE(&list);
}

/* The positions of all pages, as digits of one number. */
static int64_t positions_by_page(contract *t, ef_outbox_query query, int *pages)
{
    char after[EF_CURSOR_MAX] = "";
    int64_t digits = 0;

    *pages = 0;
    do {
        ef_row_list list;
        query.after = str(after);
        list = rows_of(t, query);
        for (size_t i = 0; i < list.count; i++)
            digits = digits * 10 + list.items[i].position;
        (void)snprintf(after, sizeof after, "%s", list.next);
        EF_RELEASE(&list);
        ++*pages;
    } while (after[0]);
    return digits;
}

CONTRACT(rows_are_listed_by_filter_and_page)
{
    contract *t = *state;
    ef_row_status dead = EF_ROW_DEAD, pending = EF_ROW_PENDING, failed = EF_ROW_FAILED;
    ef_outbox_query query = {.any_tenant = true, .limit = 2};
    int pages;

    fill(t);
    CHECK_INT(123456, positions_by_page(t, query, &pages));
    CHECK_INT(3, pages);
    query.status = &dead;
    CHECK_INT(14, positions_by_page(t, query, &pages));
    CHECK_INT(1, pages);
    query.status = &failed;
    CHECK_INT(3, positions_by_page(t, query, &pages));
    query.status = &pending;
    query.limit = 1;
    CHECK_INT(256, positions_by_page(t, query, &pages));
    CHECK_INT(3, pages);
    query.blocked_only = true;
    CHECK_INT(2, positions_by_page(t, query, &pages));
    query = (ef_outbox_query){.any_tenant = true, .limit = 10, .lane = str("orders")};
    CHECK_INT(123, positions_by_page(t, query, &pages));
    query.lane = str("*");
    CHECK_INT(56, positions_by_page(t, query, &pages));
    query.lane = str("nobody");
    CHECK_INT(0, positions_by_page(t, query, &pages));
    query = (ef_outbox_query){.any_tenant = true, .limit = 0};
    CHECK_INT(0, positions_by_page(t, query, &pages));
}

CONTRACT(rows_are_picked_by_stream_type_error_partition_and_age)
{
    contract *t = *state;
    int32_t partition = partition_of("a");
    int64_t start_us = t->now_us, expected = 0;
    ef_outbox_query all = {.any_tenant = true, .limit = 2}, query;
    ef_row_list list = {0};
    int pages;

    fill(t);
    for (int i = 0; i < 6; i++) {
        const char *const streams[] = {"a", "a", "b", "c", "a", "d"};
        if (partition_of(streams[i]) == partition)
            expected = expected * 10 + i + 1;
    }
    query = (ef_outbox_query){.stream = str("a"), .limit = 2};
    CHECK_INT(125, positions_by_page(t, query, &pages));
    CHECK_INT(2, pages);
    query.stream = str("nobody");
    CHECK_INT(0, positions_by_page(t, query, &pages));
    query = all;
    query.error = str("POISON");
    CHECK_INT(14, positions_by_page(t, query, &pages));
    query.lane = str("other");
    CHECK_INT(4, positions_by_page(t, query, &pages));
    query = all;
    query.partition = &partition;
    CHECK_INT(expected, positions_by_page(t, query, &pages));
    query = all;
    query.before_us = start_us + 2 * SECOND;
    CHECK_INT(12, positions_by_page(t, query, &pages));
    query = all;
    query.types = str("u, t*");
    CHECK_INT(123456, positions_by_page(t, query, &pages));
    query.types = str("u");
    CHECK_INT(0, positions_by_page(t, query, &pages));
    query = all;
    query.stream = str("a");
    REFUSED(EF_BAD_INPUT, ef_outbox_ls(t->journal, &query, &list, &t->err));
    EF_RELEASE(&list);
}

/* What fits comes late among many, and cannot be looked for all at once. */
CONTRACT(a_search_of_rows_ends_in_time_and_goes_on_from_there)
{
    contract *t = *state;
    enum { MANY = 10100 };
    ef_new_event events[MANY / 10];
    ef_place places[MANY / 10];
    ef_row_list list = {0};
    char after[EF_CURSOR_MAX];
    ef_outbox_query query = {.any_tenant = true, .types = str("rare"), .limit = 5};

    for (size_t i = 0; i < MANY / 10; i++)
        events[i] = event_of("a", "t");
    for (int i = 0; i < 10; i++)
        OK(ef_journal_append(t->journal, events, MANY / 10, places, &t->err));
    append(t, "b", "rare");
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    CHECK_INT(0, list.count);
    CHECK(list.next[0]);
    (void)snprintf(after, sizeof after, "%s", list.next);
    query.after = str(after);
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_INT(MANY + 1, list.items[0].position);
    CHECK(!list.next[0]);
    EF_RELEASE(&list);
}

CONTRACT(rows_of_one_tenant_are_listed_and_counted_alone)
{
    contract *t = *state;
    ef_new_event event = event_of("a", "t");
    ef_outbox_query query = {.tenant = str("acme"), .limit = 10};
    ef_outbox_summary found = {0};
    int pages;

    append(t, "a", "t");
    event.tenant = str("acme");
    append_event(t, event);
    CHECK_INT(2, positions_by_page(t, query, &pages));
    OK(ef_outbox_summarise(t->journal, &query, &found, &t->err));
    CHECK_INT(1, found.pending);
    CHECK_INT(1, found.oldest.count);
    CHECK_STR("acme", found.oldest.items[0].tenant);
    EF_RELEASE(&found.oldest);
}

CONTRACT(an_empty_outbox_sums_up_to_nothing)
{
    contract *t = *state;
    ef_outbox_query query = {.any_tenant = true};
    ef_outbox_summary found = {0};

    OK(ef_outbox_summarise(t->journal, &query, &found, &t->err));
    CHECK_INT(0, found.pending + found.processing + found.failed + found.dead + found.blocked);
    CHECK_INT(0, found.blocked_oldest_us);
    CHECK_INT(0, found.oldest.count);
    EF_RELEASE(&found.oldest);
}

CONTRACT(the_summary_counts_every_status_and_names_the_oldest)
{
    contract *t = *state;
    ef_outbox_query query = {.any_tenant = true};
    ef_outbox_summary found = {0};
    int64_t start_us = t->now_us;

    fill(t);
    OK(ef_outbox_summarise(t->journal, &query, &found, &t->err));
    CHECK_INT(3, found.pending);
    CHECK_INT(0, found.processing);
    CHECK_INT(1, found.failed);
    CHECK_INT(2, found.dead);
    CHECK_INT(1, found.blocked);
    CHECK_INT(start_us + SECOND, found.blocked_oldest_us);
    CHECK_INT(1, found.oldest.count);
    CHECK_INT(3, found.oldest.items[0].position);
    query.lane = str("*");
    OK(ef_outbox_summarise(t->journal, &query, &found, &t->err));
    CHECK_INT(2, found.pending);
    CHECK_INT(0, found.dead);
    CHECK_INT(5, found.oldest.items[0].position);
    EF_RELEASE(&found.oldest);
}

CONTRACT(rows_in_flight_are_processing_while_the_lease_is_live)
{
    contract *t = *state;
    ef_partition_lease held = {partition_of("a"), 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_status processing = EF_ROW_PROCESSING;
    ef_outbox_query query = {.any_tenant = true, .status = &processing, .limit = 10};
    int pages;

    for (int i = 0; i < 3; i++)
        append(t, "a", "t");
    held.token = acquire(t, held.partition, "w1");
    CHECK_INT(0, summary(t).processing);
    OK(test_claim(t->journal, str("*"), &held, 1, 2, &batch, &t->err));
    CHECK_INT(2, summary(t).processing);
    CHECK_INT(1, summary(t).pending);
    CHECK_INT(12, positions_by_page(t, query, &pages));
    held.upto = 1;
    OK(test_ack(t->journal, str("*"), &held, 1, NULL, 0, &t->err));
    CHECK_INT(1, summary(t).processing);
    pass_time(t, 10 * SECOND);
    CHECK_INT(0, summary(t).processing);
    CHECK_INT(2, summary(t).pending);
    acquire(t, held.partition, "w2");
    CHECK_INT(0, summary(t).processing);
    ef__claimed_batch_release(&batch);
}

/* --- requeue and skip ------------------------------------------------------------------------- */

static const int32_t version_1[] = {1};

static ef_outbox_action act_on(const char *stream, int64_t seq, const char *lane)
{
    return (ef_outbox_action){.stream = str(stream),
                              .seq = seq,
                              .lane = str(lane),
                              .actor = str("ana"),
                              .reason = str("fixed"),
                              .versions = version_1,
                              .version_count = 1};
}

static void requeue(contract *t, const char *stream, int64_t seq)
{
    ef_outbox_action act = act_on(stream, seq, "orders");
    ef_row_list list = {0};

    OK(ef_outbox_requeue(t->journal, &act, &list, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(blocked_rows_are_counted_while_dead_rows_come_and_go)
{
    contract *t = *state;

    for (int64_t position = 1; position <= 5; position++) {
        append(t, "a", "t");
        fail_event(t, "orders", position, EF_ROW_PENDING, 0, 0, "");
    }
    CHECK_INT(0, summary(t).blocked);
    fail_event(t, "orders", 3, EF_ROW_DEAD, 8, 0, "x");
    CHECK_INT(2, summary(t).blocked);
    fail_event(t, "orders", 1, EF_ROW_DEAD, 8, 0, "x");
    CHECK_INT(3, summary(t).blocked);
    CHECK_INT(3, summary(t).pending);
    requeue(t, "a", 1);
    CHECK_INT(2, summary(t).blocked);
    CHECK_INT(4, summary(t).pending);
    CHECK_INT(1, summary(t).dead);
    requeue(t, "a", 3);
    CHECK_INT(0, summary(t).blocked);
    CHECK_INT(5, summary(t).pending);
}

CONTRACT(a_requeued_row_has_no_attempts)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 1, "orders");
    ef_row_list list = {0};

    fill(t);
    OK(ef_outbox_requeue(t->journal, &act, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_STR("orders", list.items[0].lane);
    CHECK_INT(EF_ROW_PENDING, list.items[0].status);
    CHECK_INT(0, list.items[0].attempt_count);
    CHECK_INT(t->now_us, list.items[0].next_attempt_us);
    CHECK_STR("", list.items[0].last_error);
    CHECK_INT(t->now_us, list.items[0].updated_us);
    CHECK_INT(0, summary(t).blocked);
    CHECK_INT(1, summary(t).dead);
    EF_RELEASE(&list);
}

CONTRACT(only_a_dead_row_is_requeued)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 2, "orders");
    ef_row_list list = {0};

    fill(t);
    REFUSED(EF_NOT_FOUND, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    act = act_on("b", 1, "");
    REFUSED(EF_NOT_FOUND, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    act = act_on("a", 1, "other");
    REFUSED(EF_NOT_FOUND, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    act = act_on("nothing", 1, "");
    REFUSED(EF_NOT_FOUND, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    act = act_on("a", 0, "");
    REFUSED(EF_BAD_INPUT, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    act = act_on("", 1, "");
    REFUSED(EF_BAD_INPUT, ef_outbox_requeue(t->journal, &act, &list, &t->err));
    CHECK_INT(2, summary(t).dead);
    EF_RELEASE(&list);
}

CONTRACT(requeue_without_a_lane_is_for_every_lane_in_which_it_is_dead)
{
    contract *t = *state;
    ef_retry_row retry_rows[] = {
        {str("x"), 1, EF_ROW_DEAD, 8, 0, str(""), 0, false, false},
        {str("y"), 1, EF_ROW_FAILED, 1, 0, str(""), 0, false, false},
        {str("z"), 1, EF_ROW_DEAD, 8, 0, str(""), 0, false, false},
    };
    ef_outbox_action act = act_on("a", 1, "");
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list = {0};

    append(t, "a", "t");
    hold_all(t, "w", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 10, &batch, &t->err));
    ack_claimed(t, "*", held, PARTITIONS, &batch, retry_rows, 3);
    OK(ef_outbox_requeue(t->journal, &act, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_STR("x", list.items[0].lane);
    CHECK_STR("z", list.items[1].lane);
    CHECK_INT(0, summary(t).dead);
    CHECK_INT(1, summary(t).failed);
    EF_RELEASE(&list);
    ef__claimed_batch_release(&batch);
}

CONTRACT(the_oldest_dead_rows_are_requeued_first)
{
    contract *t = *state;
    ef_row_status dead = EF_ROW_DEAD;
    ef_outbox_query query = {.any_tenant = true, .status = &dead, .limit = 10};
    ef_row_list list = {0};
    int pages;

    for (int i = 0; i < 3; i++) {
        append(t, i == 1 ? "b" : "a", "t");
        fail_event(t, i == 2 ? "early" : "orders", i + 1, EF_ROW_DEAD, 8, 0, "x");
    }
    OK(ef_outbox_requeue_dead(t->journal,
                              &(ef_outbox_bulk){.lane = str(""), .actor = str("ana"), .limit = 2},
                              NULL, &list, &t->err));
    CHECK_INT(2, list.count);
    CHECK_INT(1, list.items[0].position);
    CHECK_INT(2, list.items[1].position);
    CHECK_INT(3, positions_by_page(t, query, &pages));
    OK(ef_outbox_requeue_dead(
        t->journal, &(ef_outbox_bulk){.lane = str("orders"), .actor = str("ana"), .limit = 5}, NULL,
        &list, &t->err));
    CHECK_INT(0, list.count);
    OK(ef_outbox_requeue_dead(
        t->journal, &(ef_outbox_bulk){.lane = str("early"), .actor = str("ana"), .limit = 5}, NULL,
        &list, &t->err));
    CHECK_INT(1, list.count);
    REFUSED(EF_BAD_INPUT,
            ef_outbox_requeue_dead(
                t->journal, &(ef_outbox_bulk){.lane = str(""), .actor = str("ana"), .limit = -1},
                NULL, &list, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(a_skipped_row_is_claimed_once_more_and_unblocks_its_stream)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 1, "orders");
    ef_retry_row done = {str("orders"), 1, EF_ROW_DONE, 0, 0, str(""), 0, false, true};
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list = {0};

    fill(t);
    OK(ef__outbox_skip(t->journal, &act, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK(list.items[0].skip);
    CHECK_INT(0, summary(t).blocked);
    hold_all(t, "w", held);
    OK(test_claim_due(t->journal, str("orders"), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(3, batch.count); /* the skipped row, the row blocked by it, the failed row of b */
    for (size_t i = 0; i < batch.count; i++) {
        CHECK_INT(batch.items[i].event->position == 1, batch.items[i].skip);
        CHECK_INT(batch.items[i].event->position == 2, batch.items[i].follows);
    }
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &done, 1, &t->err));
    OK(test_claim_due(t->journal, str("orders"), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(2, batch.count);
    for (size_t i = 0; i < batch.count; i++)
        CHECK(!batch.items[i].skip && !batch.items[i].follows);
    ef__claimed_batch_release(&batch);
    EF_RELEASE(&list);
}

CONTRACT(a_skipped_row_is_claimed_at_once_although_it_is_not_due)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 1, "orders");
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list = {0};

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, t->now_us + 60 * SECOND, "x");
    OK(ef__outbox_skip(t->journal, &act, &list, &t->err));
    hold_all(t, "fixture", held);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK(batch.items[0].skip);
    ef__claimed_batch_release(&batch);
    EF_RELEASE(&list);
}

CONTRACT(a_skip_during_the_last_attempt_wins_over_its_death)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 1, "orders");
    ef_retry_row died = {str("orders"), 1, EF_ROW_DEAD, 8, 0, str("x"), 0, false, false};
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list = {0};

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 7, 0, "x");
    hold_all(t, "fixture", held);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, 10, &batch, &t->err));
    OK(ef__outbox_skip(t->journal, &act, &list, &t->err));
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &died, 1, &t->err));
    CHECK_INT(0, summary(t).dead);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK(batch.items[0].skip);
    ef__claimed_batch_release(&batch);
    EF_RELEASE(&list);
}

/* Skips seq 2 of three queued rows of one stream while all of them are in flight, then settles the
 * batch as if seq 2 had failed for good. */
CONTRACT(a_queued_row_of_a_publisher_can_be_skipped)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 2, "mail");
    ef_retry_row died = {str("mail"), 2, EF_ROW_DEAD, 1, 0, str("x"), 0, false, false};
    ef_retry_row done = {str("mail"), 2, EF_ROW_DONE, 0, 0, str(""), 0, false, false};
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_row_list list = {0};

    set_publish(t, "t");
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    for (int i = 0; i < 3; i++)
        append(t, "a", "t");
    for (int32_t i = 0; i < EF_LIMIT_PUBLISHER_PARTITIONS; i++)
        held[i] = (ef_partition_lease){i, acquire_publisher(t, "mail", i, "w"), 0};
    OK(test_claim(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch,
                  &t->err));
    CHECK_INT(3, batch.count);
    OK(ef__outbox_skip(t->journal, &act, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK(list.items[0].skip);
    CHECK_INT(2, list.items[0].seq);
    CHECK_INT(3, queued_in(t, "mail"));
    for (size_t i = 0; i < EF_LIMIT_PUBLISHER_PARTITIONS; i++)
        held[i].upto = held[i].partition == batch.items[0].partition ? 3 : 0;
    OK(test_ack(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, &died, 1, &t->err));
    CHECK_INT(0, summary(t).dead);
    for (size_t i = 0; i < EF_LIMIT_PUBLISHER_PARTITIONS; i++)
        held[i].upto = 0;
    OK(test_claim_due(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch,
                      &t->err));
    CHECK_INT(1, batch.count);
    CHECK(batch.items[0].skip);
    done.filed = batch.items[0].filed;
    OK(test_ack(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, &done, 1, &t->err));
    OK(test_claim_due(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch,
                      &t->err));
    CHECK_INT(0, batch.count);
    REFUSED(EF_NOT_FOUND, ef__outbox_skip(t->journal, &act, &list, &t->err));
    ef__claimed_batch_release(&batch);
    EF_RELEASE(&list);
}

CONTRACT(a_skip_needs_a_reason_a_lane_and_a_retry_row)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 1, "orders");
    ef_row_list list = {0};

    fill(t);
    act.reason = str("");
    REFUSED(EF_BAD_INPUT, ef__outbox_skip(t->journal, &act, &list, &t->err));
    act = act_on("a", 1, "");
    REFUSED(EF_BAD_INPUT, ef__outbox_skip(t->journal, &act, &list, &t->err));
    act = act_on("a", 1, "other");
    REFUSED(EF_NOT_FOUND, ef__outbox_skip(t->journal, &act, &list, &t->err));
    act = act_on("a", 3, "*");
    REFUSED(EF_NOT_FOUND, ef__outbox_skip(t->journal, &act, &list, &t->err));
    CHECK_INT(2, summary(t).dead);
    EF_RELEASE(&list);
}

CONTRACT(what_operators_did_is_kept_newest_first)
{
    contract *t = *state;
    ef_outbox_action requeue = act_on("a", 1, "orders"), skip = act_on("b", 1, "orders");
    ef_row_list rows = {0};
    ef_audit_list acts = {0};

    fill(t);
    OK(ef_outbox_requeue(t->journal, &requeue, &rows, &t->err));
    pass_time(t, SECOND);
    OK(ef__outbox_skip(t->journal, &skip, &rows, &t->err));
    OK(ef_outbox_requeue_dead(t->journal,
                              &(ef_outbox_bulk){.lane = str(""), .actor = str("ben"), .limit = 10},
                              NULL, &rows, &t->err));
    OK(ef_audit_ls(t->journal, &(ef_audit_query){.limit = 10}, &acts, &t->err));
    CHECK_INT(3, acts.count);
    CHECK_STR("requeue", acts.items[0].action);
    CHECK_STR("ben", acts.items[0].actor);
    CHECK_STR("", acts.items[0].lane);
    CHECK_STR("", acts.items[0].stream);
    CHECK_INT(1, acts.items[0].rows);
    CHECK_STR("skip", acts.items[1].action);
    CHECK_STR("ana", acts.items[1].actor);
    CHECK_STR("fixed", acts.items[1].reason);
    CHECK_STR("b", acts.items[1].stream);
    CHECK_INT(1, acts.items[1].seq);
    CHECK_INT(t->now_us, acts.items[1].at_us);
    CHECK_INT(t->now_us - SECOND, acts.items[2].at_us);
    CHECK(acts.items[0].id > acts.items[1].id && acts.items[1].id > acts.items[2].id);
    OK(ef_audit_ls(t->journal, &(ef_audit_query){.limit = 1}, &acts, &t->err));
    CHECK_INT(1, acts.count);
    EF_RELEASE(&acts);
    EF_RELEASE(&rows);
}

CONTRACT(acts_are_listed_by_word_and_lane_and_page_by_page)
{
    contract *t = *state;
    ef_audit_query query = {.action = str("a"), .lane = str("l"), .limit = 2};
    ef_audit_list acts = {0};
    int64_t last;

    for (int64_t i = 1; i <= 6; i++) {
        OK(ef_audit_add(
            t->journal,
            &(ef_audit_entry){.action = str("a"), .lane = str(i == 5 ? "m" : "l"), .seq = i},
            &t->err));
        OK(ef_audit_add(t->journal,
                        &(ef_audit_entry){.action = str("ab"), .lane = str("l"), .seq = i},
                        &t->err));
    }
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(2, acts.count);
    CHECK_INT(6, acts.items[0].seq);
    CHECK_INT(4, acts.items[1].seq);
    last = acts.items[0].id;
    query.before = acts.items[1].id;
    query.limit = 100;
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(3, acts.count);
    CHECK_INT(3, acts.items[0].seq);
    CHECK_INT(1, acts.items[2].seq);
    query.before = 0;
    query.after = acts.items[0].id;
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(2, acts.count);
    CHECK_INT(4, acts.items[1].seq);
    query.after = last;
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(0, acts.count);
    EF_RELEASE(&acts);
}

CONTRACT(acts_of_a_tenant_are_listed_before_the_list_is_cut)
{
    contract *t = *state;
    ef_str acme = str("acme"), blank = str("");
    ef_audit_query query = {.tenant = &acme, .limit = 1};
    ef_audit_list acts = {0};

    OK(ef_audit_add(t->journal, &(ef_audit_entry){.action = str("a"), .tenant = acme, .seq = 1},
                    &t->err));
    OK(ef_audit_add(t->journal, &(ef_audit_entry){.action = str("a"), .stream = str("s"), .seq = 2},
                    &t->err));
    OK(ef_audit_add(t->journal, &(ef_audit_entry){.action = str("a"), .seq = 3},
                    &t->err)); /* of all tenants */
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(1, acts.count);
    CHECK_INT(1, acts.items[0].seq);
    query = (ef_audit_query){.tenant = &blank, .limit = 10};
    OK(ef_audit_ls(t->journal, &query, &acts, &t->err));
    CHECK_INT(1, acts.count);
    CHECK_INT(2, acts.items[0].seq);
    EF_RELEASE(&acts);
}

CONTRACT(an_act_of_another_kind_is_kept_with_the_others)
{
    contract *t = *state;
    ef_audit_list acts = {0};

    OK(ef_audit_add(t->journal,
                    &(ef_audit_entry){.action = str("switch"),
                                      .actor = str("ana"),
                                      .reason = str("faster"),
                                      .lane = str("orders"),
                                      .seq = 2},
                    &t->err));
    OK(ef_audit_ls(t->journal, &(ef_audit_query){.limit = 10}, &acts, &t->err));
    CHECK_INT(1, acts.count);
    CHECK_STR("switch", acts.items[0].action);
    CHECK_STR("ana", acts.items[0].actor);
    CHECK_STR("faster", acts.items[0].reason);
    CHECK_STR("orders", acts.items[0].lane);
    CHECK_STR("", acts.items[0].stream);
    CHECK_INT(2, acts.items[0].seq);
    CHECK_INT(t->now_us, acts.items[0].at_us);
    REFUSED(EF_BAD_INPUT,
            ef_audit_add(t->journal, &(ef_audit_entry){.actor = str("ana")}, &t->err));
    EF_RELEASE(&acts);
}

CONTRACT(rows_are_listed_from_a_position_on)
{
    contract *t = *state;
    ef_row_list all = {0}, some = {0};
    ef_outbox_query query = {.any_tenant = true, .limit = 100};

    fill(t);
    OK(ef_outbox_ls(t->journal, &query, &all, &t->err));
    CHECK(all.count > 3);
    for (size_t i = 0; i < all.count; i++) {
        size_t first = i;
        query.from = all.items[i].position;
        OK(ef_outbox_ls(t->journal, &query, &some, &t->err));
        while (first > 0 && all.items[first - 1].position == query.from)
            first--;
        CHECK_INT(all.count - first, some.count);
        CHECK_INT(query.from, some.items[0].position);
        CHECK(ef_str_equal(all.items[first].lane, some.items[0].lane));
    }
    query.from = all.items[all.count - 1].position + 1;
    OK(ef_outbox_ls(t->journal, &query, &some, &t->err));
    CHECK_INT(0, some.count);
    EF_RELEASE(&all);
    EF_RELEASE(&some);
}

CONTRACT(a_refused_act_leaves_no_record)
{
    contract *t = *state;
    ef_outbox_action act = act_on("a", 2, "orders");
    ef_row_list rows = {0};
    ef_audit_list acts = {0};

    fill(t);
    REFUSED(EF_NOT_FOUND, ef_outbox_requeue(t->journal, &act, &rows, &t->err));
    OK(ef_audit_ls(t->journal, &(ef_audit_query){.limit = 10}, &acts, &t->err));
    CHECK_INT(0, acts.count);
    EF_RELEASE(&acts);
    EF_RELEASE(&rows);
}

CONTRACT_MAIN(CASE(acts_are_listed_by_word_and_lane_and_page_by_page),
              CASE(blocked_rows_are_counted_while_dead_rows_come_and_go),
              CASE(acts_of_a_tenant_are_listed_before_the_list_is_cut),
              CASE(an_act_of_another_kind_is_kept_with_the_others),
              CASE(rows_are_listed_from_a_position_on), CASE(a_queued_row_shows_its_event),
              CASE(a_retry_row_shows_what_became_of_it),
              CASE(the_eighth_failure_is_dead_and_has_no_next_attempt),
              CASE(a_long_error_is_cut_at_a_characters_end),
              CASE(an_error_that_is_no_text_is_kept_as_well_as_it_can_be),
              CASE(rows_come_in_the_order_of_position_then_lane),
              CASE(rows_are_listed_by_filter_and_page),
              CASE(rows_are_picked_by_stream_type_error_partition_and_age),
              CASE(a_search_of_rows_ends_in_time_and_goes_on_from_there),
              CASE(rows_of_one_tenant_are_listed_and_counted_alone),
              CASE(an_empty_outbox_sums_up_to_nothing),
              CASE(the_summary_counts_every_status_and_names_the_oldest),
              CASE(rows_in_flight_are_processing_while_the_lease_is_live),
              CASE(a_requeued_row_has_no_attempts), CASE(only_a_dead_row_is_requeued),
              CASE(requeue_without_a_lane_is_for_every_lane_in_which_it_is_dead),
              CASE(the_oldest_dead_rows_are_requeued_first),
              CASE(a_skipped_row_is_claimed_once_more_and_unblocks_its_stream),
              CASE(a_skipped_row_is_claimed_at_once_although_it_is_not_due),
              CASE(a_skip_during_the_last_attempt_wins_over_its_death),
              CASE(a_queued_row_of_a_publisher_can_be_skipped),
              CASE(a_skip_needs_a_reason_a_lane_and_a_retry_row),
              CASE(what_operators_did_is_kept_newest_first), CASE(a_refused_act_leaves_no_record))
