/*
 * journal_api.c - an event through the public API: append, read, follow the log, list the
 * outbox.
 *
 * journal_api DIRECTORY
 *
 * The journal is DIRECTORY/journal.db, so `everfold --data DIRECTORY event log` shows the same. The
 * program can be run again on the same directory: the event ids make the appends idempotent.
 */
#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdio.h>

static const ef_str TENANT = EF_STR(""), ORDER = EF_STR("order-1");

/*
 * Appends an event that was decided on the events of the order up to `seq`.
 *
 * If another client has appended since, the expected seq does not match: the append is refused with
 * EF_CONFLICT, and the caller reads and decides again. The id makes the call idempotent: after a
 * lost response, the same event can be sent again and returns the first place.
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
        /* A real program would read the new events here and might decide otherwise. */
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

    /* This append expects an empty stream, and gets a conflict. */
    if (st == EF_OK)
        st = append_decided(journal, paid, 0, &place, err);
    if (st == EF_OK)
        printf("paid: seq %" PRId64 " at position %" PRId64 "\n", place.seq, place.position);

    /* The same append again, as after a lost response: nothing is written, and the first place is
     * returned. */
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
    EF_RELEASE(&batch);
    return st;
}

/* Follows the log: waits for an event after the last position, reads it, remembers the position. */
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
    EF_RELEASE(&batch);
    return st == EF_TIMEOUT ? EF_OK : st; /* no new event for a while: the example ends */
}

/* The rows that wait in the outbox: the workers of an engine claim them, and fold or publish them.
 */
static ef_status list_outbox(ef_journal *journal, ef_error *err)
{
    ef_outbox_query query = {.tenant = TENANT, .limit = 100};
    ef_row_list rows = {0};
    ef_status st = ef_outbox_ls(journal, &query, &rows, err);

    for (size_t i = 0; i < rows.count; i++)
        printf("outbox: %.*s %s in lane %.*s\n", EF_STR_ARG(rows.items[i].event_type),
               ef_name_of(EF_NAMES_ROW_STATUS, rows.items[i].status),
               EF_STR_ARG(rows.items[i].lane));
    EF_RELEASE(&rows);
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
        fprintf(stderr, "usage: journal_api DIRECTORY\n");
        return 2;
    }
    st = ef_journal_open(&options, &journal, &err);
    if (st == EF_OK)
        st = append_order(journal, &err);
    if (st == EF_OK)
        st = read_order(journal, &err);
    if (st == EF_OK)
        st = follow_log(journal, &err);
    if (st == EF_OK)
        st = list_outbox(journal, &err);
    if (st != EF_OK)
        fprintf(stderr, "journal_api: %s\n", err.text);
    ef_journal_close(journal);
    return ef_status_describe(st)->exit_code;
}
