/*
 * outbox_fixture.c - acts as a worker that fails, for tests that need failed and dead rows.
 *
 *     outbox_fixture URL LANE STREAM SEQ STATUS ERROR [STREAM SEQ STATUS ERROR]…
 *
 * Claims all rows of the apply lane, under leases of all partitions, and acknowledges them; the
 * events that are named get retry rows in LANE (STATUS pending, failed or dead).
 */
#include "../../src/journal/journal.h"

#include "../support/outbox_calls.h"

#include <everfold/everfold.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTITIONS_MAX 1024
#define RETRY_ROWS_MAX 64

static ef_partition_lease held[PARTITIONS_MAX];
static ef_retry_row retry_rows[RETRY_ROWS_MAX];

static void need(ef_status status, const ef_error *err, const char *what)
{
    if (status == EF_OK)
        return;
    (void)fprintf(stderr, "%s: %s: %s\n", what, ef_status_describe(status)->name, err->text);
    exit(1);
}

static size_t take_leases(ef_journal *journal, ef_error *err)
{
    ef_store_facts facts;

    need(ef_journal_facts(journal, &facts, err), err, "facts");
    for (int32_t i = 0; i < facts.partitions; i++) {
        ef_lease_key key = {EF_LEASE_PARTITION, EF_STR(""), i};
        int64_t until;
        held[i].partition = i;
        need(ef__lease_acquire_one(journal, &key, EF_STR("fixture"), 60000, &held[i].token, &until,
                                   err),
             err, "lease");
    }
    return (size_t)facts.partitions;
}

static size_t read_retry_rows(const ef_claimed_batch *taken, char **words, int count)
{
    size_t n = 0;

    for (int i = 0; i + 3 < count && n < RETRY_ROWS_MAX; i += 4) {
        int status = ef_name_find(EF_NAMES_ROW_STATUS, ef_str_from(words[i + 2]));
        if (status < 0)
            exit(2);
        for (size_t k = 0; k < taken->count; k++) {
            const ef_event *e = taken->items[k].event;
            if (!ef_str_equal(e->stream, ef_str_from(words[i])) ||
                e->seq != strtoll(words[i + 1], NULL, 10))
                continue;
            retry_rows[n].position = e->position;
            retry_rows[n].status = status;
            retry_rows[n].attempts = status == EF_ROW_DEAD ? 8 : status == EF_ROW_FAILED ? 1 : 0;
            retry_rows[n].due_us = status == EF_ROW_FAILED ? e->recorded_us + 3600000000 : 0;
            retry_rows[n].error = ef_str_from(words[i + 3]);
            n++;
            break;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    ef_error err = EF_ERROR_INIT;
    ef_journal *journal = NULL;
    ef_claimed_batch taken = EF_CLAIMED_BATCH_INIT;

    if (argc < 3)
        return 2;
    ef_journal_options options = {.url = argv[1]};
    need(ef_journal_open(&options, &journal, &err), &err, "open");
    size_t partitions = take_leases(journal, &err);
    need(test_claim(journal, EF_STR(EF_LANE_APPLY), held, partitions, 1000, &taken, &err), &err,
         "take");
    for (size_t i = 0; i < taken.count; i++)
        held[taken.items[i].partition].upto = taken.items[i].event->position;
    size_t count = read_retry_rows(&taken, argv + 3, argc - 3);
    for (size_t i = 0; i < count; i++)
        retry_rows[i].lane = ef_str_from(argv[2]);
    need(test_ack(journal, EF_STR(EF_LANE_APPLY), held, partitions, retry_rows, count, &err), &err,
         "mark");
    for (size_t i = 0; i < partitions; i++) {
        ef_lease_key key = {EF_LEASE_PARTITION, EF_STR(""), held[i].partition};
        need(ef__lease_release_one(journal, &key, held[i].token, &err), &err, "release");
    }
    (void)printf("taken %zu, exceptions %zu\n", taken.count, count);
    ef__claimed_batch_release(&taken);
    ef_journal_close(journal);
    return 0;
}
