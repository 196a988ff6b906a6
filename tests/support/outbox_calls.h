/*
 * outbox_calls.h - claims and acknowledgements in one line each, for tests.
 */
#ifndef TESTS_OUTBOX_CALLS_H
#define TESTS_OUTBOX_CALLS_H

#include "../../src/journal/journal.h"

static inline ef_status test_claim_after(ef_journal *journal, ef_str lane,
                                         const ef_partition_lease *held, size_t held_count,
                                         int64_t after, size_t limit, ef_claimed_batch *out,
                                         ef_error *err)
{
    return ef__outbox_claim(
        journal, &(ef__claim_request){lane, false, held, held_count, after, limit}, out, err);
}

static inline ef_status test_claim(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                   size_t held_count, size_t limit, ef_claimed_batch *out,
                                   ef_error *err)
{
    return test_claim_after(journal, lane, held, held_count, 0, limit, out, err);
}

static inline ef_status test_claim_due(ef_journal *journal, ef_str lane,
                                       const ef_partition_lease *held, size_t held_count,
                                       size_t limit, ef_claimed_batch *out, ef_error *err)
{
    return ef__outbox_claim(journal, &(ef__claim_request){lane, true, held, held_count, 0, limit},
                            out, err);
}

static inline ef_status test_publish_ack(ef_journal *journal, ef_str lane,
                                         const ef_partition_lease *held, size_t held_count,
                                         const ef_retry_row *rows, size_t count, ef_str progress,
                                         ef_error *err)
{
    return ef__outbox_ack(journal, NULL,
                          &(ef__ack_request){lane, held, held_count, rows, count, progress}, err);
}

static inline ef_status test_ack(ef_journal *journal, ef_str lane, const ef_partition_lease *held,
                                 size_t held_count, const ef_retry_row *rows, size_t count,
                                 ef_error *err)
{
    return test_publish_ack(journal, lane, held, held_count, rows, count, EF_STR(""), err);
}

/* Files retry rows, or removes those that are DONE. */
static inline ef_status test_file_rows(ef_journal *journal, const ef_retry_row *rows, size_t count,
                                       ef_error *err)
{
    return test_ack(journal, EF_STR(EF_LANE_APPLY), NULL, 0, rows, count, err);
}

#endif
