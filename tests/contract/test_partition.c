/*
 * Partitions: what waits in them, and how their number changes while others have the journal open.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include "../../src/core/placement.h"
#include "../../src/journal/journal.h"

#include <pthread.h>

static ef_partition_sync_result sync_to(contract *t, int32_t count)
{
    ef_partition_change change = {.count = count};
    ef_partition_sync_result changed = {0};

    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
    return changed;
}

/* A stream that is in partition `partition` of `count`. */
static const char *stream_in(int32_t partition, int32_t count)
{
    static char name[32];

    for (int i = 0;; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        if (ef__partition_of(str(""), str(name), count) == partition)
            return name;
    }
}

static int32_t partitions_of(contract *t)
{
    ef_store_facts facts;
    int32_t beaten = 0;

    OK(ef_journal_facts(t->journal, &facts, &t->err));
    OK(t->journal->control->leases->partition_count(t->journal->control, &beaten, &t->err));
    CHECK_INT(facts.partitions, beaten); /* what workers ask for at each beat */
    return facts.partitions;
}

/* The partition that the last row of the apply lane is queued in. */
static int32_t last_queued(contract *t)
{
    ef_outbox_query query = {.lane = str("*"), .any_tenant = true, .limit = 100};
    ef_row_list rows = {0};
    int32_t partition;

    OK(ef_outbox_ls(t->journal, &query, &rows, &t->err));
    partition = rows.items[rows.count - 1].partition;
    EF_RELEASE(&rows);
    return partition;
}

static size_t lease_count(contract *t)
{
    ef_lease_list list = {0};
    size_t count;

    OK(ef_lease_ls(t->journal, NULL, &list, &t->err));
    count = list.count;
    EF_RELEASE(&list);
    return count;
}

/* Claims and acknowledges the rows of one partition, with a retry row of `lane` for the first. */
static void work_off(contract *t, int32_t partition, const char *lane)
{
    ef_partition_lease held = {partition, acquire(t, partition, "w"), 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_retry_row x = {.lane = str(lane), .status = EF_ROW_FAILED, .attempts = 1};

    OK(test_claim(t->journal, str("*"), &held, 1, 100, &batch, &t->err));
    CHECK(batch.count > 0);
    x.position = batch.items[0].event->position;
    ack_claimed(t, "*", &held, 1, &batch, &x, *lane != '\0');
    ef__claimed_batch_release(&batch);
}

CONTRACT(a_label_has_two_digits_or_as_many_as_it_needs)
{
    char label[EF_PARTITION_LABEL_MAX];

    ef_partition_label(7, label);
    CHECK_TEXT("p07", label);
    ef_partition_label(1023, label);
    CHECK_TEXT("p1023", label);
    ef_partition_label(-1, label);
    CHECK_TEXT("", label);
}

CONTRACT(partitions_are_listed_with_their_owner_and_what_waits)
{
    contract *t = *state;
    const char *stream = stream_in(2, PARTITIONS);
    ef_partition_lease held = {2, 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_partition_list list = {0};

    append(t, stream, "a");
    append(t, stream, "b");
    work_off(t, 2, "orders"); /* one retry row, nothing queued */
    append(t, stream, "c");
    append(t, stream, "d");
    held.token = acquire(t, 2, "w");
    OK(test_claim(t->journal, str("*"), &held, 1, 1, &batch, &t->err));
    OK(ef_partition_ls(t->journal, &list, &t->err));
    CHECK_INT(PARTITIONS, list.count);
    CHECK_INT(2, list.items[2].number);
    CHECK_STR("w", list.items[2].holder);
    CHECK_INT(1, list.items[2].token);
    CHECK(list.items[2].live);
    CHECK_INT(t->now_us + 10 * SECOND, list.items[2].until_us);
    CHECK_INT(1, list.items[2].pending);
    CHECK_INT(1, list.items[2].in_flight);
    CHECK_INT(1, list.items[2].retry_rows);
    CHECK_STR("", list.items[1].holder);
    CHECK_INT(0, list.items[1].pending);
    /* Rows in flight under an expired lease are pending again. */
    pass_time(t, 11 * SECOND);
    OK(ef_partition_ls(t->journal, &list, &t->err));
    CHECK(!list.items[2].live);
    CHECK_INT(2, list.items[2].pending);
    CHECK_INT(0, list.items[2].in_flight);
    EF_RELEASE(&list);
    ef__claimed_batch_release(&batch);
}

CONTRACT(raising_the_count_leaves_what_is_queued_where_it_is)
{
    contract *t = *state;
    const char *stream = stream_in(5, 8);
    ef_partition_sync_result changed;

    append(t, stream, "before");
    CHECK_INT(1, last_queued(t)); /* 5 mod 4 */
    changed = sync_to(t, 8);
    CHECK_INT(PARTITIONS, changed.before);
    CHECK_INT(8, changed.after);
    CHECK_INT(8, partitions_of(t));
    CHECK_INT(1, last_queued(t));
    append(t, stream, "after");
    CHECK_INT(5, last_queued(t));
    work_off(t, 1, "");
    work_off(t, 5, "");
    CHECK_INT(0, summary(t).pending);
}

CONTRACT(a_retry_row_is_settled_in_the_partition_it_was_made_in)
{
    contract *t = *state;
    const char *stream = stream_in(5, 8);
    ef_partition_lease held = {1, 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_retry_row done = {.lane = str("orders"), .status = EF_ROW_DONE};

    append(t, stream, "a");
    work_off(t, 1, "orders");
    sync_to(t, 8);
    held.token = acquire(t, 1, "w");
    OK(test_claim_due(t->journal, str("orders"), &held, 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    CHECK_INT(1, batch.items[0].partition);
    done.position = batch.items[0].event->position;
    OK(test_ack(t->journal, str("*"), &held, 1, &done, 1, &t->err));
    CHECK_INT(0, summary(t).failed);
    ef__claimed_batch_release(&batch);
}

CONTRACT(lowering_the_count_is_refused_while_rows_wait_beyond_it)
{
    contract *t = *state;
    ef_partition_change change = {.count = 2};
    ef_partition_sync_result changed;
    const char *stream = stream_in(3, PARTITIONS);

    append(t, stream, "a");
    append(t, stream, "b");
    REFUSED(EF_EXISTS, ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(2, t->err.found);
    CHECK(strstr(t->err.text, "(p03 2)") != NULL);
    work_off(t, 3, "orders"); /* the retry row is there too */
    REFUSED(EF_EXISTS, ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(1, t->err.found);
    CHECK_INT(PARTITIONS, partitions_of(t));
    change.count = 4;
    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
}

CONTRACT(a_lowered_count_leaves_nothing_to_a_partition_without_an_owner)
{
    contract *t = *state;
    const char *stream = stream_in(3, PARTITIONS);
    ef_place place = append(t, stream, "a");
    ef_retry_row filed = {.lane = str("orders"), .position = place.position};
    ef_partition_lease held = {1, 0, 0};
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    work_off(t, 3, "");
    CHECK_INT(2, sync_to(t, 2).after);
    append(t, stream, "b");
    CHECK_INT(1, last_queued(t));
    /* Nor does what is filed later for an event of before. */
    OK(test_file_rows(t->journal, &filed, 1, &t->err));
    held.token = acquire(t, 1, "w");
    OK(test_claim_due(t->journal, str("orders"), &held, 1, 10, &batch, &t->err));
    CHECK_INT(1, batch.count);
    ef__claimed_batch_release(&batch);
}

CONTRACT(another_open_handle_sees_the_commit_at_once)
{
    contract *t = *state;
    const char *stream = stream_in(3, PARTITIONS);
    ef_journal *other;
    ef_new_event event = event_of(stream, "a");
    ef_place place;

    if (!survives(t))
        return;
    OK(ef_journal_open(&t->options, &other, &t->err));
    OK(ef_journal_append(other, &event, 1, &place, &t->err));
    CHECK_INT(3, last_queued(t));
    work_off(t, 3, "");
    sync_to(t, 2);
    OK(ef_journal_append(other, &event, 1, &place, &t->err));
    CHECK_INT(1, last_queued(t));
    work_off(t, 1, "");
    sync_to(t, 64);
    OK(ef_journal_append(other, &event, 1, &place, &t->err));
    CHECK_INT(ef__partition_of(str(""), str(stream), 64), last_queued(t));
    ef_journal_close(other);
    reopen(t);
    CHECK_INT(64, partitions_of(t));
}

typedef struct crowd {
    contract *t;
    const char *stream;
    _Atomic bool stop;
} crowd;

/* Commits all the time, so that concurrent writes share a commit. */
static void *beat_on(void *context)
{
    crowd *c = context;
    ef_worker worker = {.id = EF_STR("w")};

    while (!c->stop)
        (void)worker_heartbeat(c->t->journal, &worker, 1000, NULL);
    return NULL;
}

static void *append_one(void *context)
{
    crowd *c = context;
    ef_new_event event = event_of(c->stream, "a");
    ef_place place;

    return ef_journal_append(c->t->journal, &event, 1, &place, NULL) == EF_OK ? c : NULL;
}

CONTRACT(an_append_in_the_same_moment_is_seen_or_goes_by_the_new_count)
{
    contract *t = *state;
    crowd c = {.t = t, .stream = stream_in(3, PARTITIONS)};
    ef_partition_change change = {.count = 2};
    ef_partition_sync_result changed;
    pthread_t beater, appender;

    CHECK_INT(0, pthread_create(&beater, NULL, beat_on, &c));
    for (int i = 0; i < 150; i++) {
        void *appended;
        CHECK_INT(0, pthread_create(&appender, NULL, append_one, &c));
        ef_status st = ef_partition_sync(t->journal, &change, &changed, &t->err);
        CHECK_INT(0, pthread_join(appender, &appended));
        CHECK(appended != NULL);
        CHECK(st == EF_OK || st == EF_EXISTS);
        CHECK_INT(st == EF_OK ? 1 : 3, last_queued(t));
        work_off(t, last_queued(t), "");
        sync_to(t, PARTITIONS);
    }
    c.stop = true;
    CHECK_INT(0, pthread_join(beater, NULL));
}

CONTRACT(prune_removes_free_leases_beyond_the_count)
{
    contract *t = *state;
    ef_partition_change change = {.count = 2, .dry_run = true};
    ef_partition_sync_result changed;
    ef_lease_key key = partition_key(2);

    acquire(t, 0, "w");
    OK(ef__lease_release_one(t->journal, &key, acquire(t, 2, "w"), &t->err));
    acquire_publisher(t, "mail", 3, "w"); /* not one of the journal's partitions */
    pass_time(t, 20 * SECOND);            /* 0 and mail 3 run out */
    acquire(t, 3, "w");
    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(0, changed.pruned);
    CHECK_INT(1, changed.kept);
    change.prune = true;
    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(1, changed.pruned);
    CHECK_INT(PARTITIONS, partitions_of(t)); /* it was only asked what would be done */
    CHECK_INT(4, lease_count(t));
    change.dry_run = false;
    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(1, changed.pruned);
    CHECK_INT(1, changed.kept);
    CHECK_INT(2, partitions_of(t));
    CHECK_INT(3, lease_count(t)); /* that of partition 0 has run out too, but is wanted */
}

/* A sink cannot detect an early event, so a stream has one partition for ever. */
CONTRACT(a_publishers_stream_keeps_its_partition_whatever_the_count)
{
    contract *t = *state;
    static const int32_t counts[] = {2, 31, 3, 1024, 1};
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;
    ef_retry_row failed = {.lane = str("mail"), .position = 1, .status = EF_ROW_FAILED};

    set_publish(t, "t");
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        append(t, "order-1", "t");
        work_off(t, last_queued(t), ""); /* nothing of "*" waits, so the count may be lowered */
        sync_to(t, counts[i]);
    }
    for (int32_t p = 0; p < EF_LIMIT_PUBLISHER_PARTITIONS; p++)
        held[p] = (ef_partition_lease){p, acquire_publisher(t, "mail", p, "w"), 0};
    OK(test_claim(t->journal, str("mail"), held, EF_LIMIT_PUBLISHER_PARTITIONS, 10, &batch,
                  &t->err));
    CHECK_INT(5, batch.count);
    for (size_t i = 0; i < batch.count; i++)
        CHECK_INT(publisher_partition_of("order-1"), batch.items[i].partition);
    ack_claimed(t, "mail", held, EF_LIMIT_PUBLISHER_PARTITIONS, &batch, &failed, 1);
    OK(test_claim_due(t->journal, str("mail"), &held[publisher_partition_of("order-1")], 1, 10,
                      &batch, &t->err));
    CHECK_INT(1, batch.count); /* and so does its retry row */
    ef__claimed_batch_release(&batch);
}

CONTRACT(a_pruned_lease_never_gives_out_a_token_again)
{
    contract *t = *state;
    ef_partition_change change = {.count = 2, .prune = true};
    ef_partition_sync_result changed;

    for (int i = 0; i < 5; i++) {
        acquire(t, 3, "w");
        pass_time(t, 20 * SECOND);
    }
    OK(ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(1, changed.pruned);
    sync_to(t, 4);
    CHECK_INT(6, acquire(t, 3, "w"));
    CHECK_INT(6, acquire(t, 2, "w")); /* one floor for all */
}

CONTRACT(a_sync_without_a_count_changes_none)
{
    contract *t = *state;

    CHECK_INT(PARTITIONS, sync_to(t, 0).after);
    CHECK_INT(PARTITIONS, partitions_of(t));
}

CONTRACT(a_count_is_from_1_to_1024)
{
    contract *t = *state;
    ef_partition_change change = {.count = 1025};
    ef_partition_sync_result changed;

    REFUSED(EF_BAD_INPUT, ef_partition_sync(t->journal, &change, &changed, &t->err));
    change.count = -1;
    REFUSED(EF_BAD_INPUT, ef_partition_sync(t->journal, &change, &changed, &t->err));
    CHECK_INT(1024, sync_to(t, 1024).after);
    append(t, "s", "a");
    CHECK_INT(ef__partition_of(str(""), str("s"), 1024), last_queued(t));
}

CONTRACT_MAIN(CASE(a_label_has_two_digits_or_as_many_as_it_needs),
              CASE(partitions_are_listed_with_their_owner_and_what_waits),
              CASE(raising_the_count_leaves_what_is_queued_where_it_is),
              CASE(a_retry_row_is_settled_in_the_partition_it_was_made_in),
              CASE(lowering_the_count_is_refused_while_rows_wait_beyond_it),
              CASE(a_lowered_count_leaves_nothing_to_a_partition_without_an_owner),
              CASE(another_open_handle_sees_the_commit_at_once),
              CASE(an_append_in_the_same_moment_is_seen_or_goes_by_the_new_count),
              CASE(prune_removes_free_leases_beyond_the_count),
              CASE(a_publishers_stream_keeps_its_partition_whatever_the_count),
              CASE(a_pruned_lease_never_gives_out_a_token_again),
              CASE(a_sync_without_a_count_changes_none), CASE(a_count_is_from_1_to_1024))
