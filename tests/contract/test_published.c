/*
 * Lanes of publishers: settings and sink positions, rows blocked by a retry row, published rows and
 * their retention, and dropping a lane.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#define LANE "mail"

static ef_lane lane_of(int64_t retain_us)
{
    return (ef_lane){.name = str(LANE),
                     .kind = EF_LANE_KIND_PUBLISHER,
                     .enabled = true,
                     .settings = str("{\"url\":\"file:x\"}"),
                     .retain_us = retain_us};
}

/* A publisher of everything, and the leases of all its partitions. */
static void start_lane(contract *t, const char *name, int64_t retain_us,
                       ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS])
{
    ef_type type = {.name = str("sent"), .publish = true};
    ef_lane lane = lane_of(retain_us);

    lane.name = str(name);
    OK(ef_type_set(t->journal, &type, &t->err));
    OK(ef_lane_set(t->journal, &lane, &t->err));
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p] = (ef_partition_lease){p, acquire_publisher(t, name, p, "w"), 0};
}

static void start(contract *t, int64_t retain_us,
                  ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS])
{
    start_lane(t, LANE, retain_us, held);
}

static int64_t published_of(contract *t, size_t most)
{
    int64_t count = -1;

    OK(ef_published_count(t->journal, str(LANE), most, &count, &t->err));
    return count;
}

static int64_t published(contract *t)
{
    return published_of(t, 1000);
}

static int64_t purge(contract *t, const ef_partition_lease *held, size_t limit)
{
    int64_t count = -1;

    OK(ef__published_purge(t->journal, str(LANE), held, limit, &count, &t->err));
    return count;
}

static int64_t again(contract *t, const ef_partition_lease *held, size_t limit)
{
    int64_t count = -1;

    OK(ef__published_requeue(t->journal, str(LANE), held, limit, &count, &t->err));
    return count;
}

static void note(contract *t, const ef_partition_lease *held, const char *progress)
{
    OK(test_publish_ack(t->journal, str(LANE), held, 1, NULL, 0, str(progress), &t->err));
}

/* Claims and acknowledges queued rows, with a retry row at `position` (0: none). */
static void pass_lane(contract *t, const char *lane, ef_partition_lease *held, int64_t position,
                      ef_row_status status)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_retry_row failed = {.lane = str(lane),
                           .position = position,
                           .status = status,
                           .attempts = 1,
                           .due_us = t->now_us,
                           .error = str("no")};

    OK(test_claim(t->journal, str(lane), held, EF_LIMIT_PUBLISHER_PARTITIONS, 100, &batch,
                  &t->err));
    ack_claimed(t, lane, held, EF_LIMIT_PUBLISHER_PARTITIONS, &batch, &failed, position != 0);
    ef__claimed_batch_release(&batch);
}

static void pass_all(contract *t, ef_partition_lease *held, int64_t position, ef_row_status status)
{
    pass_lane(t, LANE, held, position, status);
}

/* The published rows that `query` asks for, page by page: positions as digits of one number. */
static int64_t listed(contract *t, ef_outbox_query query)
{
    const ef_row_status asked = EF_ROW_PUBLISHED;
    ef_row_list list = {0};
    char after[EF_CURSOR_MAX] = "";
    int64_t digits = 0;

    query.status = &asked;
    do {
        query.after = str(after);
        OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
        for (size_t i = 0; i < list.count; i++) {
            CHECK_INT(EF_ROW_PUBLISHED, list.items[i].status);
            digits = digits * 10 + list.items[i].position;
        }
        (void)snprintf(after, sizeof after, "%s", list.next);
    } while (after[0]);
    EF_RELEASE(&list);
    return digits;
}

/* The queued rows that are blocked by a retry row: positions as digits. */
static int64_t waiting(contract *t, const ef_partition_lease *held)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    int64_t positions = 0;

    OK(test_claim(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, 100, &batch,
                  &t->err));
    for (size_t i = 0; i < batch.count; i++)
        if (batch.items[i].waits)
            positions = positions * 10 + batch.items[i].event->position;
    ef__claimed_batch_release(&batch);
    return positions;
}

/* What is due, as digits; then it is over. */
static int64_t finish_due(contract *t, ef_partition_lease *held)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_retry_row done[10];
    int64_t positions = 0;

    OK(test_claim_due(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch,
                      &t->err));
    for (size_t i = 0; i < batch.count; i++) {
        const ef_claimed_row *item = &batch.items[i];
        positions = positions * 10 + item->event->position;
        done[i] = (ef_retry_row){.lane = str(LANE),
                                 .position = item->event->position,
                                 .status = EF_ROW_DONE,
                                 .filed = item->filed};
    }
    OK(test_ack(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, done, batch.count,
                &t->err));
    ef__claimed_batch_release(&batch);
    return positions;
}

static const ef_lane *find_lane(const ef_lane_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (ef_str_equal(list->items[i].name, str(LANE)))
            return &list->items[i];
    return NULL;
}

/* --- settings --------------------------------------------------------------------------------- */

CONTRACT(settings_are_kept_and_notes_outlive_a_change_of_them)
{
    contract *t = *state;
    ef_lane lane = lane_of(7 * SECOND);
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_lane_list list = {0};

    start(t, 7 * SECOND, held);
    note(t, held, "{\"seq\":5}");
    note(t, held, ""); /* leaves it */
    lane.settings = str("{\"url\":\"file:y\"}");
    OK(ef_lane_set(t->journal, &lane, &t->err));
    if (survives(t))
        reopen(t);
    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_STR("{\"url\":\"file:y\"}", find_lane(&list)->settings);
    CHECK_INT(7 * SECOND, find_lane(&list)->retain_us);
    CHECK_STR("{\"seq\":5}", find_lane(&list)->progress);
    EF_RELEASE(&list);
}

CONTRACT(what_is_no_publishers_is_refused)
{
    contract *t = *state;
    ef_lane bad = {.name = str("view"), .kind = EF_LANE_KIND_PROJECTION, .settings = str("{}")};
    ef_partition_lease held = {0, acquire(t, 0, "w"), 0};
    int64_t count;

    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &bad, &t->err));
    bad = lane_of(-1);
    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &bad, &t->err));
    bad = lane_of(0);
    bad.settings = str("[1]");
    REFUSED(EF_BAD_INPUT, ef_lane_set(t->journal, &bad, &t->err));
    bad.settings = str("{");
    REFUSED(EF_BAD_JSON, ef_lane_set(t->journal, &bad, &t->err));
    REFUSED(EF_BAD_INPUT,
            test_publish_ack(t->journal, str("*"), &held, 1, NULL, 0, str("{}"), &t->err));
    REFUSED(EF_NOT_FOUND,
            test_publish_ack(t->journal, str(LANE), &held, 1, NULL, 0, str("{}"), &t->err));
    REFUSED(EF_BAD_INPUT, ef__lane_drop(t->journal, str("*"), true, NULL, &t->err));
    REFUSED(EF_NOT_FOUND, ef__lane_drop(t->journal, str(LANE), true, NULL, &t->err));
    REFUSED(EF_BAD_INPUT, ef__published_purge(t->journal, str("*"), &held, 1, &count, &t->err));
    REFUSED(EF_NOT_FOUND, ef__published_requeue(t->journal, str(LANE), &held, 1, &count, &t->err));
    REFUSED(EF_NOT_FOUND, ef_published_count(t->journal, str(LANE), 9, &count, &t->err));
}

/* --- order ------------------------------------------------------------------------------------ */

CONTRACT(a_queued_row_after_a_retry_row_of_its_stream_is_reported)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 0, held);
    append(t, "a", "sent"); /* 1 */
    append(t, "b", "sent"); /* 2 */
    pass_all(t, held, 1, EF_ROW_FAILED);
    append(t, "a", "sent"); /* 3 */
    append(t, "b", "sent"); /* 4 */
    append(t, "a", "sent"); /* 5 */
    CHECK_INT(35, waiting(t, held));
    CHECK_INT(1, finish_due(t, held));
    CHECK_INT(0, waiting(t, held));
}

/* --- what was published ----------------------------------------------------------------------- */

CONTRACT(without_a_time_to_keep_it_nothing_is_kept)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 0, held);
    append(t, "a", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    CHECK_INT(0, published(t));
}

CONTRACT(acknowledged_rows_are_recorded_as_published_except_retry_rows)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 5 * SECOND, held);
    append(t, "a", "sent");
    append(t, "b", "sent");
    append(t, "c", "sent");
    pass_all(t, held, 2, EF_ROW_FAILED);
    CHECK_INT(2, published(t));
    CHECK_INT(2, finish_due(t, held));
    CHECK_INT(3, published(t));
    CHECK_INT(3, published_of(t, 3));
    CHECK_INT(2, published_of(t, 2)); /* or more */
}

CONTRACT(what_was_skipped_was_not_published)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_row_list rows = {0};
    ef_outbox_action act = {.stream = str("a"),
                            .seq = 1,
                            .lane = str(LANE),
                            .actor = str("me"),
                            .reason = str("not needed")};

    start(t, 5 * SECOND, held);
    append(t, "a", "sent");
    pass_all(t, held, 1, EF_ROW_DEAD);
    OK(ef__outbox_skip(t->journal, &act, &rows, &t->err));
    CHECK_INT(1, finish_due(t, held));
    CHECK_INT(0, published(t));
    CHECK_INT(0, summary(t).dead);
    EF_RELEASE(&rows);
}

CONTRACT(it_is_purged_when_its_time_is_over_in_steps)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 5 * SECOND, held);
    append(t, "a", "sent");
    append(t, "b", "sent");
    append(t, "c", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    pass_time(t, 2 * SECOND);
    append(t, "a", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    CHECK_INT(0, purge(t, held, 100));
    pass_time(t, 3 * SECOND + 1);
    CHECK_INT(2, purge(t, held, 2));
    CHECK_INT(1, purge(t, held, 100));
    CHECK_INT(0, purge(t, held, 100));
    CHECK_INT(1, published(t));
}

CONTRACT(published_rows_are_requeued_in_order_and_block_newer_ones)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 60 * SECOND, held);
    append(t, "a", "sent"); /* 1 */
    append(t, "b", "sent"); /* 2 */
    append(t, "a", "sent"); /* 3 */
    pass_all(t, held, 0, EF_ROW_FAILED);
    CHECK_INT(2, again(t, held, 2));
    CHECK_INT(1, again(t, held, 100));
    CHECK_INT(0, again(t, held, 100));
    CHECK_INT(0, published(t));
    append(t, "a", "sent"); /* 4 */
    CHECK_INT(4, waiting(t, held));
    CHECK_INT(132, finish_due(t, held)); /* a stream at a time */
    CHECK_INT(3, published(t));
    CHECK_INT(0, waiting(t, held));
}

static void check_note(contract *t, const char *progress)
{
    ef_lane_list list = {0};

    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK_STR(progress, find_lane(&list)->progress);
    EF_RELEASE(&list);
}

/* A worker whose lease expired while it slept, and the present holder. */
CONTRACT(progress_purge_and_requeue_are_refused_after_the_lease_was_lost)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS], late;
    int64_t count = -1;

    start(t, SECOND, held);
    append(t, "a", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    note(t, held, "{\"seq\":5}");
    late = held[0];
    pass_time(t, 11 * SECOND);
    for (int taken = 0; taken < 2; taken++) { /* it has expired; another worker holds it */
        REFUSED(EF_LEASE_LOST, test_publish_ack(t->journal, str(LANE), &late, 1, NULL, 0,
                                                str("{\"seq\":4}"), &t->err));
        REFUSED(EF_LEASE_LOST,
                ef__published_purge(t->journal, str(LANE), &late, 10, &count, &t->err));
        CHECK_INT(0, count);
        REFUSED(EF_LEASE_LOST,
                ef__published_requeue(t->journal, str(LANE), &late, 10, &count, &t->err));
        CHECK_INT(0, count);
        if (!taken)
            held[0].token = acquire_publisher(t, LANE, 0, "another");
    }
    check_note(t, "{\"seq\":5}");
    CHECK_INT(1, published(t));
    note(t, held, "{\"seq\":6}");
    check_note(t, "{\"seq\":6}");
    CHECK_INT(1, purge(t, held, 10));
}

/* A refused ack keeps the progress, and an invalid progress the offset. */
CONTRACT(an_ack_and_its_progress_are_written_together_or_not_at_all)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS], one;
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    start(t, 60 * SECOND, held);
    append(t, "a", "sent");
    note(t, held, "{\"seq\":1}");
    one = held[publisher_partition_of("a")];
    OK(test_claim(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch, &t->err));
    one.upto = 2; /* more than was taken */
    REFUSED(EF_BAD_INPUT,
            test_publish_ack(t->journal, str(LANE), &one, 1, NULL, 0, str("{\"seq\":2}"), &t->err));
    one.upto = 1;
    check_note(t, "{\"seq\":1}");
    CHECK_INT(0, published(t));
    OK(test_publish_ack(t->journal, str(LANE), &one, 1, NULL, 0, str("{\"seq\":2}"), &t->err));
    check_note(t, "{\"seq\":2}");
    CHECK_INT(1, published(t));
    ef__claimed_batch_release(&batch);
}

/* Positions of a batch, as digits. */
static int64_t positions_of(const ef_claimed_batch *batch)
{
    int64_t digits = 0;

    for (size_t i = 0; i < batch->count; i++)
        digits = digits * 10 + batch->items[i].event->position;
    return digits;
}

static int64_t take_after(contract *t, const ef_partition_lease *held, int64_t after, size_t limit,
                          bool *more)
{
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    int64_t digits;

    OK(test_claim_after(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, after, limit,
                        &batch, &t->err));
    digits = positions_of(&batch);
    *more = batch.more;
    ef__claimed_batch_release(&batch);
    return digits;
}

/* Appends one event to each of `streams` streams: s1 at position 1, and so on. */
static void append_to_each(contract *t, int streams)
{
    for (int i = 1; i <= streams; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "s%d", i);
        append(t, name, "sent");
    }
}

static void mark_upto(contract *t, ef_partition_lease *held, int64_t upto)
{
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p].upto = 0;
    for (int64_t position = 1; position <= upto; position++) {
        char name[8];
        (void)snprintf(name, sizeof name, "s%d", (int)position);
        held[publisher_partition_of(name)].upto = position;
    }
    OK(test_ack(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, NULL, 0, &t->err));
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p].upto = 0;
}

/* Two batches in flight, acknowledged one after the other; a third that is claimed in between. */
CONTRACT(a_second_batch_is_claimed_while_the_first_is_in_flight)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    bool more;

    start(t, 60 * SECOND, held);
    append_to_each(t, 8);
    CHECK_INT(123, take_after(t, held, 0, 3, &more));
    CHECK(more);
    CHECK_INT(456, take_after(t, held, 3, 3, &more));
    CHECK(more);
    mark_upto(t, held, 3);
    CHECK_INT(78, take_after(t, held, 6, 3, &more));
    CHECK(!more);
    CHECK_INT(0, take_after(t, held, 8, 3, &more));
    mark_upto(t, held, 8); /* all rows were in flight */
    CHECK_INT(8, published(t));
    CHECK_INT(0, take_after(t, held, 8, 3, &more));
    held[0].token = acquire(t, 0, "w");
    REFUSED(EF_BAD_INPUT, test_claim_after(t->journal, str("*"), held, 1, 1, 3, &batch, &t->err));
    ef__claimed_batch_release(&batch);
}

/* Claimed rows are claimed again from the offsets on, in order of position. */
CONTRACT(rows_claimed_ahead_and_not_acknowledged_are_claimed_again)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    bool more;

    start(t, 60 * SECOND, held);
    append_to_each(t, 6);
    CHECK_INT(12, take_after(t, held, 0, 2, &more));
    CHECK_INT(34, take_after(t, held, 2, 2, &more));
    mark_upto(t, held, 2);
    CHECK_INT(3456, take_after(t, held, 0, 9, &more));
    CHECK_INT(34, take_after(t, held, 0, 2, &more));
    CHECK_INT(56, take_after(t, held, 4, 9, &more));
    pass_time(t, 11 * SECOND);
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p].token = acquire_publisher(t, LANE, p, "another");
    CHECK_INT(3456, take_after(t, held, 0, 9, &more));
    mark_upto(t, held, 6);
    CHECK_INT(6, published(t));
}

/* --- listing ---------------------------------------------------------------------------------- */

CONTRACT(what_was_published_is_listed_with_its_time_the_last_first)
{
    contract *t = *state;
    const ef_row_status asked = EF_ROW_PUBLISHED;
    ef_outbox_query query = {.any_tenant = true, .limit = 2};
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_row_list list = {0};
    int64_t appended_us = t->now_us;
    const ef_row *row;

    start(t, 60 * SECOND, held);
    append(t, "a", "sent"); /* 1 */
    append(t, "b", "sent"); /* 2 */
    append(t, "a", "sent"); /* 3 */
    pass_time(t, 2 * SECOND);
    pass_all(t, held, 2, EF_ROW_FAILED);
    CHECK_INT(31, listed(t, query));
    pass_time(t, 1 * SECOND);
    CHECK_INT(2, finish_due(t, held));
    CHECK_INT(321, listed(t, query));

    query.status = &asked;
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    CHECK_INT(2, list.count);
    row = &list.items[1];
    CHECK_STR(LANE, row->lane);
    CHECK_STR("", row->tenant);
    CHECK_STR("b", row->stream);
    CHECK_INT(1, row->seq);
    CHECK_STR("sent", row->event_type);
    CHECK_INT(publisher_partition_of("b"), row->partition);
    CHECK_INT(0, row->attempt_count);
    CHECK_INT(0, row->next_attempt_us);
    CHECK_STR("", row->last_error);
    CHECK_INT(appended_us, row->enqueued_us);
    CHECK_INT(t->now_us, row->published_us);
    CHECK_INT(t->now_us, row->updated_us);
    CHECK_INT(t->now_us - SECOND, list.items[0].published_us);
    EF_RELEASE(&list);
}

CONTRACT(published_rows_are_none_of_those_that_wait)
{
    contract *t = *state;
    ef_outbox_query query = {.any_tenant = true, .limit = 10, .lane = str(LANE)};
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_row_list list = {0};

    start(t, 60 * SECOND, held);
    append(t, "a", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    append(t, "a", "sent");
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    CHECK_INT(1, list.count);
    CHECK_INT(2, list.items[0].position);
    CHECK_INT(0, list.items[0].published_us);
    CHECK_INT(1, listed(t, query));
    query.blocked_only = true;
    CHECK_INT(0, listed(t, query));
    EF_RELEASE(&list);
}

CONTRACT(published_rows_are_deleted_when_they_are_purged_or_requeued)
{
    contract *t = *state;
    ef_outbox_query query = {.any_tenant = true, .limit = 10};
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];

    start(t, 5 * SECOND, held);
    append(t, "a", "sent");
    append(t, "b", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    CHECK_INT(1, again(t, held, 1));
    CHECK_INT(2, listed(t, query));
    pass_time(t, 5 * SECOND + 1);
    CHECK_INT(1, purge(t, held, 10));
    CHECK_INT(0, listed(t, query));
}

/* Positions 1 to 5 in two lanes; 4 is of another tenant's stream of the same name. */
static void publish_in_two_lanes(contract *t)
{
    ef_partition_lease mail[EF_LIMIT_PUBLISHER_PARTITIONS], task[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_new_event other = event_of("a", "sent");

    other.tenant = str("acme");
    start_lane(t, LANE, 60 * SECOND, mail);
    start_lane(t, "post", 60 * SECOND, task);
    set_publish(t, "read");
    append(t, "a", "sent");
    append(t, "b", "read");
    append(t, "a", "read");
    append_event(t, other);
    append(t, "b", "sent");
    pass_lane(t, LANE, mail, 0, EF_ROW_FAILED);
    pass_lane(t, "post", task, 0, EF_ROW_FAILED);
}

CONTRACT(published_rows_of_several_lanes_are_paged_by_position_then_lane)
{
    contract *t = *state;
    const ef_row_status asked = EF_ROW_PUBLISHED;
    ef_outbox_query query = {.any_tenant = true, .status = &asked};
    ef_row_list list = {0};

    publish_in_two_lanes(t);
    for (query.limit = 1; query.limit <= 11; query.limit++)
        CHECK_INT(5544332211, listed(t, query));
    query.limit = 2;
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    CHECK_STR("post", list.items[0].lane);
    CHECK_STR(LANE, list.items[1].lane);
    query.lane = str("post");
    CHECK_INT(54321, listed(t, query));
    query.from = 2;
    query.upto = 4;
    CHECK_INT(432, listed(t, query));
    query.lane = str("");
    query.limit = 1;
    CHECK_INT(443322, listed(t, query));
    query.lane = str("nobody");
    CHECK_INT(0, listed(t, query));
    query.after = str("x");
    REFUSED(EF_BAD_INPUT, ef_outbox_ls(t->journal, &query, &list, &t->err));
    EF_RELEASE(&list);
}

CONTRACT(published_rows_are_picked_by_tenant_stream_type_partition_and_age)
{
    contract *t = *state;
    ef_outbox_query query = {.tenant = str("acme"), .limit = 1, .lane = str(LANE)};
    int32_t partition = publisher_partition_of("b");

    publish_in_two_lanes(t);
    CHECK_INT(4, listed(t, query));
    query.tenant = str("");
    CHECK_INT(5321, listed(t, query));
    query.tenant = str("nobody");
    CHECK_INT(0, listed(t, query));
    query.tenant = str("");
    query.stream = str("a"); /* not that of acme, which lies between */
    CHECK_INT(31, listed(t, query));
    query.upto = 2;
    CHECK_INT(1, listed(t, query));
    query = (ef_outbox_query){.any_tenant = true, .limit = 2, .lane = str(LANE)};
    query.types = str("re*");
    CHECK_INT(32, listed(t, query));
    query.types = str("");
    query.partition = &partition;
    CHECK_INT(publisher_partition_of("a") == partition ? 54321 : 52, listed(t, query));
    query.partition = NULL;
    query.before_us = t->now_us;
    CHECK_INT(0, listed(t, query));
    query.before_us = t->now_us + 1;
    CHECK_INT(54321, listed(t, query));
}

CONTRACT(a_cursor_of_what_waits_is_none_of_what_was_published)
{
    contract *t = *state;
    const ef_row_status asked = EF_ROW_PUBLISHED;
    ef_outbox_query query = {.any_tenant = true, .limit = 1, .status = &asked};
    ef_row_list list = {0};

    publish_in_two_lanes(t);
    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    query.after = str(list.next);
    query.status = NULL;
    REFUSED(EF_BAD_INPUT, ef_outbox_ls(t->journal, &query, &list, &t->err));
    EF_RELEASE(&list);
}

/* --- the end ---------------------------------------------------------------------------------- */

CONTRACT(a_lane_with_rows_is_dropped_only_when_they_may_go)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_lane_list list = {0};
    ef_lane lane = lane_of(5 * SECOND);
    int64_t rows = -1;

    start(t, 5 * SECOND, held);
    append(t, "a", "sent");
    append(t, "b", "sent");
    append(t, "a", "sent");
    pass_all(t, held, 1, EF_ROW_DEAD);
    append(t, "c", "sent");
    REFUSED(EF_EXISTS, ef__lane_drop(t->journal, str(LANE), false, &rows, &t->err));
    CHECK_INT(2, published(t));
    OK(ef__lane_drop(t->journal, str(LANE), true, &rows, &t->err));
    CHECK_INT(2, rows);
    CHECK_INT(0, published(t));
    CHECK_INT(0, summary(t).dead);
    OK(ef_lane_ls(t->journal, &list, &t->err));
    CHECK(!find_lane(&list)->enabled);
    CHECK_STR("", find_lane(&list)->settings);
    append(t, "a", "sent");
    CHECK_INT(0, waiting(t, held));
    OK(ef__lane_drop(t->journal, str(LANE), false, &rows, &t->err)); /* nothing came since */
    CHECK_INT(0, rows);
    OK(ef_lane_set(t->journal, &lane, &t->err));
    append(t, "a", "sent");
    pass_all(t, held, 0, EF_ROW_FAILED);
    CHECK_INT(1, published(t));
    EF_RELEASE(&list);
}

/* No message is suspected of a crash. Claimed by partition, they would be reordered after a change
 * of the partition count, because a stream is in two partitions then. */
CONTRACT(rows_in_flight_of_a_crashed_worker_are_claimed_again_in_order_of_position)
{
    contract *t = *state;
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    char name[8] = "s0";

    start(t, 0, held);
    for (int i = 0; i < 8; i++, name[1]++)
        append(t, name, "sent");
    OK(test_claim(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, 100, &batch,
                  &t->err));
    pass_time(t, 11 * SECOND);
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p].token = acquire_publisher(t, LANE, p, "another");
    OK(test_claim(t->journal, str(LANE), held, EF_LIMIT_PUBLISHER_PARTITIONS, 100, &batch,
                  &t->err));
    CHECK_INT(8, batch.count);
    for (size_t i = 0; i < batch.count; i++) {
        CHECK_INT((int64_t)i + 1, batch.items[i].event->position);
        CHECK(!batch.items[i].suspect);
    }
    ef__claimed_batch_release(&batch);
}

CONTRACT_MAIN(CASE(settings_are_kept_and_notes_outlive_a_change_of_them),
              CASE(what_is_no_publishers_is_refused),
              CASE(a_queued_row_after_a_retry_row_of_its_stream_is_reported),
              CASE(without_a_time_to_keep_it_nothing_is_kept),
              CASE(acknowledged_rows_are_recorded_as_published_except_retry_rows),
              CASE(what_was_skipped_was_not_published),
              CASE(it_is_purged_when_its_time_is_over_in_steps),
              CASE(published_rows_are_requeued_in_order_and_block_newer_ones),
              CASE(progress_purge_and_requeue_are_refused_after_the_lease_was_lost),
              CASE(an_ack_and_its_progress_are_written_together_or_not_at_all),
              CASE(a_second_batch_is_claimed_while_the_first_is_in_flight),
              CASE(rows_claimed_ahead_and_not_acknowledged_are_claimed_again),
              CASE(what_was_published_is_listed_with_its_time_the_last_first),
              CASE(published_rows_are_none_of_those_that_wait),
              CASE(published_rows_are_deleted_when_they_are_purged_or_requeued),
              CASE(published_rows_of_several_lanes_are_paged_by_position_then_lane),
              CASE(published_rows_are_picked_by_tenant_stream_type_partition_and_age),
              CASE(a_cursor_of_what_waits_is_none_of_what_was_published),
              CASE(rows_in_flight_of_a_crashed_worker_are_claimed_again_in_order_of_position),
              CASE(a_lane_with_rows_is_dropped_only_when_they_may_go))
