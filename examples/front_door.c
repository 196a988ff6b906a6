/*
 * front_door.c - the way of an event, with nothing but the front door: append, read, follow, take.
 *
 *     front_door DIRECTORY
 *
 * The journal is DIRECTORY/journal.db, so `everfold --data DIRECTORY event log` shows the same. The
 * program may be run again on the same directory: the event ids make a repeated run harmless.
 */
#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdio.h>

static const ef_str TENANT = EF_STR(""), ORDER = EF_STR("order-1");

/*
 * Add an event to the order, decided on what the order's events say.
 *
 * Somebody else may append between our reading and our writing. The expected seq makes that show:
 * we are refused with EF_CONFLICT, read again and decide anew. The id makes the whole call
 * repeatable: if an answer is lost, sending the same event again returns the place of the first.
 */
static ef_status append_decided(ef_journal *journal, ef_new_event event, int64_t seq, ef_place *out,
                                ef_error *err)
{
    ef_status st;

    for (int tries = 0; tries < 5; tries++) {
        event.expected_seq = ef_expect_seq(seq);
        st = ef_journal_append(journal, &event, 1, out, err);
        if (st != EF_CONFLICT)
            return st;
        printf("conflict: the order is at seq %" PRId64 ", not at %" PRId64 "\n", err->found, seq);
        /* A real program would read the new events here and might change its mind. */
        st = ef_stream_head(journal, TENANT, ORDER, &seq, NULL, err);
        if (st != EF_OK)
            return st;
    }
    return st;
}

static ef_status append_order(ef_journal *journal, ef_error *err)
{
    ef_new_event placed = {.stream = ORDER,
                           .type = EF_STR("order.placed"),
                           .id = EF_STR("order-1-placed"),
                           .data = EF_STR("{\"customer\":\"ada\",\"amount\":120}")};
    ef_new_event paid = {.stream = ORDER,
                         .type = EF_STR("order.paid"),
                         .id = EF_STR("order-1-paid"),
                         .data = EF_STR("{\"amount\":120}")};
    ef_place place;
    ef_status st = append_decided(journal, placed, 0, &place, err);

    /* This one believes that the order has no event yet, and is put right. */
    if (st == EF_OK)
        st = append_decided(journal, paid, 0, &place, err);
    if (st == EF_OK)
        printf("paid: seq %" PRId64 " at position %" PRId64 "\n", place.seq, place.position);

    /* The same again, as after a lost answer: nothing is written, and the place is the first one.
     */
    if (st == EF_OK)
        st = append_decided(journal, paid, 0, &place, err);
    if (st == EF_OK)
        printf("again: seq %" PRId64 " at position %" PRId64 ", %s\n", place.seq, place.position,
               place.duplicate ? "a duplicate" : "written twice?");
    return st;
}

static ef_status read_order(ef_journal *journal, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    ef_status st = ef_journal_read_stream(journal, TENANT, ORDER, 1, 100, &batch, err);

    for (size_t i = 0; i < batch.count; i++)
        printf("stream: %" PRId64 " %.*s %.*s\n", batch.events[i].seq,
               EF_STR_ARG(batch.events[i].type), EF_STR_ARG(batch.events[i].data));
    ef_batch_release(&batch);
    return st;
}

/* Follow the log: wait for something above the last position, read it, remember how far we came. */
static ef_status follow_log(ef_journal *journal, ef_error *err)
{
    ef_batch batch = EF_BATCH_INIT;
    int64_t reached = 0;
    ef_status st;

    while ((st = ef_journal_wait(journal, reached, 50, err)) == EF_OK) {
        ef_log_query query = {.tenant = TENANT, .after = reached, .out_reached = &reached};
        st = ef_journal_read_log(journal, &query, &batch, err);
        if (st != EF_OK)
            break;
        for (size_t i = 0; i < batch.count; i++)
            printf("log: %" PRId64 " %.*s\n", batch.events[i].position,
                   EF_STR_ARG(batch.events[i].type));
    }
    ef_batch_release(&batch);
    return st == EF_TIMEOUT ? EF_OK : st; /* nothing new for a while: enough for an example */
}

/*
 * Take what the outbox holds for the lane "*" in one partition. The lease's token goes with every
 * write: when we were too slow and another worker has taken over, the mark is refused with
 * EF_LEASE_LOST and nothing is changed, so a row is never lost; at worst it is handled twice.
 */
static ef_status drain_partition(ef_journal *journal, int32_t partition, ef_error *err)
{
    ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = partition};
    ef_holding held = {.partition = partition};
    ef_taken_batch taken = EF_TAKEN_BATCH_INIT;
    const ef_str lane = EF_STR(EF_LANE_APPLY);
    ef_status st =
        ef_lease_acquire(journal, &key, EF_STR("example"), 10000, &held.token, NULL, err);

    if (st != EF_OK)
        return st;
    while ((st = ef_outbox_take(journal, lane, &held, 1, 100, &taken, err)) == EF_OK &&
           taken.count) {
        for (size_t i = 0; i < taken.count; i++)
            printf("taken: %.*s\n", EF_STR_ARG(taken.items[i].event->id));
        held.upto = taken.items[taken.count - 1].event->position;
        st = ef_outbox_mark(journal, lane, &held, 1, NULL, 0, err);
        if (st != EF_OK)
            break;
    }
    ef_taken_batch_release(&taken);
    if (st == EF_OK)
        st = ef_lease_release(journal, &key, held.token, err);
    return st;
}

int main(int argc, char **argv)
{
    char url[4096];
    ef_error err = EF_ERROR_INIT;
    ef_journal *journal = NULL;
    ef_journal_options options = {.url = url, .create = true, .partitions = 4};
    ef_status st;

    if (argc != 2 ||
        snprintf(url, sizeof url, "sqlite:%s/journal.db", argv[1]) >= (int)sizeof url) {
        fprintf(stderr, "usage: front_door DIRECTORY\n");
        return 2;
    }
    st = ef_journal_open(&options, &journal, &err);
    if (st == EF_OK)
        st = append_order(journal, &err);
    if (st == EF_OK)
        st = read_order(journal, &err);
    if (st == EF_OK)
        st = follow_log(journal, &err);
    for (int32_t p = 0; st == EF_OK && p < options.partitions; p++)
        st = drain_partition(journal, p, &err);
    if (st != EF_OK)
        fprintf(stderr, "front_door: %s\n", err.text);
    ef_journal_close(journal);
    return ef_status_exit(st);
}
