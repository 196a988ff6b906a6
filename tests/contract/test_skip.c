/*
 * Skips as the journal keeps them: for versions of a projection, in order, and withdrawn when they
 * came too late; and retry rows that are removed without a lease.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include "../../src/journal/journal.h"

static ef__skip_list skips_of(contract *t, const char *projection, int32_t version, int64_t after,
                              size_t limit)
{
    ef__skip_list list = {0};

    OK(ef__skip_ls(t->journal, str(projection), version, after, limit, &list, &t->err));
    return list;
}

static void release(ef__skip_list *list)
{
    ef_memory_release(&list->room);
    *list = (ef__skip_list){0};
}

static void add_skip(contract *t, const char *projection, int32_t version, const char *tenant,
                     int64_t seq)
{
    OK(t->journal->control->records->skip_add(t->journal->control,
                                              &(ef__skip_entry){.projection = str(projection),
                                                                .version = version,
                                                                .tenant = str(tenant),
                                                                .stream = str("a"),
                                                                .seq = seq,
                                                                .actor = str("ann"),
                                                                .reason = str("why")},
                                              &t->err));
}

/* An operator skips the row at position 1 for versions 1 and 3. */
static size_t skip_row(contract *t, const char *lane)
{
    static const int32_t versions[] = {1, 3};
    ef__revised_row row = {
        .lane = str(lane), .position = 1, .versions = versions, .version_count = 2};
    ef_audit_entry act = {
        .action = str("skip"), .actor = str("ann"), .reason = str("why"), .lane = str(lane)};
    int64_t id;
    ef_row_list rows = {0};
    size_t count;

    OK(ef__outbox_revise(
        t->journal,
        &(ef__revision_request){
            .what = EF__REVISION_SKIP, .rows = &row, .count = 1, .act = &act, .out_id = &id},
        &rows, &t->err));
    count = rows.count;
    EF_RELEASE(&rows);
    return count;
}

/* Takes the row at position 1 of "orders"; skips it meanwhile, or before; settles it as DONE. */
static void settle_skipped(contract *t, bool skipped_before)
{
    ef_retry_row done = {.lane = str("orders"), .position = 1, .status = EF_ROW_DONE};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_partition_lease held[PARTITIONS];

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, "x");
    if (skipped_before)
        CHECK_INT(1, skip_row(t, "orders"));
    hold_all(t, "fixture", held);
    OK(test_claim_due(t->journal, str(""), held, PARTITIONS, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_INT(skipped_before, batch.items[0].skip);
    if (!skipped_before)
        CHECK_INT(1, skip_row(t, "orders"));
    done.filed = batch.items[0].filed;
    done.skip = batch.items[0].skip;
    OK(test_ack(t->journal, str("*"), held, PARTITIONS, &done, 1, &t->err));
    ef__claimed_batch_release(&batch);
}

/* --- skips ------------------------------------------------------------------------------------ */

CONTRACT(skips_are_listed_by_projection_and_version_oldest_first_and_page_by_page)
{
    contract *t = *state;
    ef__skip_list list;
    int64_t second;

    add_skip(t, "orders", 1, "", 7);
    add_skip(t, "orders", 2, "", 8);
    add_skip(t, "other", 1, "", 9);
    add_skip(t, "orders", 1, "acme", 5);
    add_skip(t, "orders", 1, "", 6);
    list = skips_of(t, "orders", 1, 0, 2);
    CHECK_INT(2, list.count);
    CHECK_INT(7, list.items[0].seq);
    CHECK_INT(5, list.items[1].seq);
    CHECK(ef_str_equal(list.items[1].tenant, str("acme")));
    CHECK(ef_str_equal(list.items[1].stream, str("a")));
    CHECK(!list.items[0].withdrawn && list.items[0].id < list.items[1].id);
    second = list.items[1].id;
    release(&list);
    list = skips_of(t, "orders", 1, second, 2);
    CHECK_INT(1, list.count);
    CHECK_INT(6, list.items[0].seq);
    release(&list);
    list = skips_of(t, "orders", 3, 0, 2);
    CHECK_INT(0, list.count);
    release(&list);
}

CONTRACT(a_skip_of_a_row_is_kept_for_each_of_its_versions_and_no_other)
{
    contract *t = *state;
    ef__skip_list other;

    append(t, "a", "t");
    fail_event(t, "orders", 1, EF_ROW_FAILED, 1, 0, "x");
    CHECK_INT(1, skip_row(t, "orders"));
    CHECK_INT(0, skip_row(t, "other")); /* no row there */
    for (int32_t version = 1; version <= 3; version++) {
        ef__skip_list list = skips_of(t, "orders", version, 0, 10);
        CHECK_INT(version == 2 ? 0 : 1, list.count);
        CHECK(version == 2 || (list.items[0].seq == 1 && !list.items[0].withdrawn));
        release(&list);
    }
    other = skips_of(t, "other", 1, 0, 10);
    CHECK_INT(0, other.count);
    release(&other);
}

CONTRACT(a_skip_that_came_while_the_event_was_applied_is_withdrawn)
{
    contract *t = *state;

    settle_skipped(t, false);
    CHECK_INT(0, summary(t).failed + summary(t).pending);
    for (int32_t version = 1; version <= 3; version += 2) {
        ef__skip_list list = skips_of(t, "orders", version, 0, 10);
        CHECK_INT(2, list.count);
        CHECK(!list.items[0].withdrawn);
        CHECK(list.items[1].withdrawn);
        CHECK_INT(1, list.items[1].seq);
        CHECK(ef_str_equal(list.items[1].stream, str("a")));
        release(&list);
    }
}

CONTRACT(a_skip_that_was_carried_out_stays)
{
    contract *t = *state;
    ef__skip_list list;

    settle_skipped(t, true);
    CHECK_INT(0, summary(t).failed + summary(t).pending);
    list = skips_of(t, "orders", 1, 0, 10);
    CHECK_INT(1, list.count);
    CHECK(!list.items[0].withdrawn);
    release(&list);
}

/* --- removing --------------------------------------------------------------------------------- */

/* The rows of "orders" as a list; positions as digits. */
static void check_rows(contract *t, const char *positions)
{
    ef_row_list rows = {0};
    char found[16] = "";

    OK(ef_outbox_ls(t->journal,
                    &(ef_outbox_query){.lane = str("orders"), .any_tenant = true, .limit = 10},
                    &rows, &t->err));
    for (size_t i = 0; i < rows.count; i++)
        found[i] = (char)('0' + rows.items[i].position);
    CHECK_TEXT(positions, found);
    EF_RELEASE(&rows);
}

CONTRACT(rows_are_removed_without_a_lease_unless_they_were_filed_again)
{
    contract *t = *state;
    ef_retry_row again = {.lane = str("orders"), .position = 2, .status = EF_ROW_PENDING};
    ef_retry_row gone[3];
    ef_row_list rows = {0};

    for (int i = 1; i <= 3; i++) {
        append(t, i == 3 ? "b" : "a", "t");
        fail_event(t, "orders", i, i == 1 ? EF_ROW_DEAD : EF_ROW_PENDING, 8, 0, "x");
    }
    OK(ef_outbox_ls(t->journal,
                    &(ef_outbox_query){.lane = str("orders"), .any_tenant = true, .limit = 10},
                    &rows, &t->err));
    CHECK_INT(3, rows.count);
    for (size_t i = 0; i < 3; i++)
        gone[i] = (ef_retry_row){.lane = str("orders"),
                                 .position = rows.items[i].position,
                                 .status = EF_ROW_DONE,
                                 .filed = rows.items[i].filed};

    EF_RELEASE(&rows);
    OK(test_file_rows(t->journal, &again, 1, &t->err)); /* another one lacks the event */
    OK(test_file_rows(t->journal, gone, 2, &t->err));
    check_rows(t, "23");
    OK(test_file_rows(t->journal, gone, 2, &t->err)); /* again, with a removed row */
    check_rows(t, "23");
    OK(test_file_rows(t->journal, &gone[2], 1, &t->err));
    check_rows(t, "2");
    OK(test_file_rows(t->journal, gone, 0, &t->err));
    check_rows(t, "2");
}

CONTRACT_MAIN(CASE(skips_are_listed_by_projection_and_version_oldest_first_and_page_by_page),
              CASE(a_skip_of_a_row_is_kept_for_each_of_its_versions_and_no_other),
              CASE(a_skip_that_came_while_the_event_was_applied_is_withdrawn),
              CASE(a_skip_that_was_carried_out_stays),
              CASE(rows_are_removed_without_a_lease_unless_they_were_filed_again))
