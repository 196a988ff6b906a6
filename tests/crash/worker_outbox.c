/*
 * worker_outbox.c - the worker's verbs that claim, acknowledge and requeue.
 */
#include "worker.h"

#include "../support/outbox_calls.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTITIONS 16
#define HOLD_MS_MAX 20000             /* how long a holder asks for its leases */
#define LANE "proj"                   /* of the retry rows */
#define RETAIN_MS INT64_C(2592000000) /* a month: longer than any test runs */
#define FILES_KEPT 20

static int64_t now_ms(void)
{
    return ef_clock_system()->mono_us(ef_clock_system()->context) / 1000;
}

/* Take every partition, or renew what is ours. */
static ef_status lease_all(struct worker *w, ef_str owner, int64_t lease_ms,
                           ef_partition_lease *held)
{
    int64_t until;
    ef_status st = EF_OK;

    for (int32_t p = 0; st == EF_OK && p < PARTITIONS; p++) {
        ef_lease_key key = {.kind = EF_LEASE_PARTITION, .partition = p};
        held[p] = (ef_partition_lease){.partition = p};
        st = ef__lease_acquire_one(w->journal, &key, owner, lease_ms, &held[p].token, &until,
                                   &w->err);
    }
    return st;
}

static void note_taken(struct worker *w, const ef_claimed_batch *taken,
                       const ef_partition_lease *held)
{
    for (size_t i = 0; i < taken->count; i++)
        note(w, "t %" PRId64 " %" PRId32 " %" PRId64 "\n", taken->items[i].event->position,
             taken->items[i].partition, held[taken->items[i].partition].token);
}

/* What became of a batch: positions that end in 3 failed, those that end in 7 are dead. */
static size_t judge(const ef_claimed_batch *taken, ef_partition_lease *held, ef_retry_row *out)
{
    size_t count = 0;

    for (int p = 0; p < PARTITIONS; p++)
        held[p].upto = 0;
    for (size_t i = 0; i < taken->count; i++) {
        int64_t position = taken->items[i].event->position;
        held[taken->items[i].partition].upto = position;
        if (position % 10 != 3 && position % 10 != 7)
            continue;
        out[count++] = (ef_retry_row){.lane = EF_STR(LANE),
                                      .position = position,
                                      .status = position % 10 == 3 ? EF_ROW_FAILED : EF_ROW_DEAD,
                                      .attempts = 1,
                                      .error = EF_STR("it would not fold")};
    }
    return count;
}

static ef_status mark(struct worker *w, const ef_claimed_batch *taken, ef_partition_lease *held)
{
    ef_retry_row retry_rows[BATCH_MAX];
    size_t count = judge(taken, held, retry_rows);
    ef_status st =
        test_ack(w->journal, EF_STR(EF_LANE_APPLY), held, PARTITIONS, retry_rows, count, &w->err);

    if (st != EF_OK)
        return st;
    for (int p = 0; p < PARTITIONS; p++)
        if (held[p].upto)
            note(w, "m %d %" PRId64 "\n", p, held[p].upto);
    for (size_t i = 0; i < count; i++)
        note(w, "x %" PRId64 " %s\n", retry_rows[i].position,
             ef_name_of(EF_NAMES_ROW_STATUS, retry_rows[i].status));
    return EF_OK;
}

static ef_status take(struct worker *w, const ef_partition_lease *held, int64_t limit,
                      ef_claimed_batch *taken)
{
    size_t most = limit < BATCH_MAX ? (size_t)limit : BATCH_MAX;
    ef_status st =
        test_claim(w->journal, EF_STR(EF_LANE_APPLY), held, PARTITIONS, most, taken, &w->err);

    if (st == EF_OK)
        note_taken(w, taken, held);
    return st;
}

/* A machine may be so slow that the first lease ends before the last is had; that is no answer to
 * what a test asks. True when the leases are to be asked for again. */
static bool again(struct worker *w, ef_status st)
{
    if (st != EF_OK)
        note(w, "e %s\n", ef_status_describe(st)->code);
    if (st != EF_LEASE_HELD && st != EF_LEASE_LOST)
        return false;
    (void)ef_journal_wait(w->journal, INT64_MAX - 1, 20, NULL);
    return true;
}

/* BATCHES of LIMIT rows under leases of LEASE_MS, for at most MS; a lease that is held or lost is
 * asked for again until then. */
int verb_take(struct worker *w, const struct numbers *n)
{
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch taken = EF_CLAIMED_BATCH_INIT;
    int64_t until_ms = now_ms() + n->at[3];
    ef_status st = EF_OK;

    for (int64_t i = 0; i < n->at[0] && now_ms() < until_ms;) {
        st = lease_all(w, EF_STR("taker"), n->at[2], held);
        if (st == EF_OK)
            st = take(w, held, n->at[1], &taken);
        if (st == EF_OK)
            st = mark(w, &taken, held);
        if (!again(w, st) && st != EF_OK)
            break;
        i += st == EF_OK;
    }
    ef__claimed_batch_release(&taken);
    return report(w, st);
}

/* Claims, stops until a signal continues it, then tries to acknowledge under its old token. */
int verb_hold(struct worker *w, const struct numbers *n)
{
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch taken = EF_CLAIMED_BATCH_INIT;
    ef_store_facts facts;
    int64_t until_ms = now_ms() + HOLD_MS_MAX;
    ef_status st;

    do {
        st = lease_all(w, EF_STR("holder"), n->at[1], held);
        if (st == EF_OK)
            st = take(w, held, n->at[0], &taken);
    } while (again(w, st) && now_ms() < until_ms);
    if (st == EF_OK) {
        printf("holding %zu\n", taken.count);
        fflush(stdout);
        (void)raise(SIGSTOP);
        st = mark(w, &taken, held);
        printf("mark %s\n", ef_status_describe(st)->code);
        if (ef_journal_facts(w->journal, &facts, NULL) == EF_OK)
            printf("stale_refused %" PRId64 "\n", facts.stale_refused);
    }
    ef__claimed_batch_release(&taken);
    return report(w, st);
}

int verb_requeue(struct worker *w, const struct numbers *n)
{
    ef_row_list rows = {0};
    ef_status st;

    do {
        st = ef_outbox_requeue_dead(w->journal,
                                    &(ef_outbox_bulk){.lane = EF_STR(LANE),
                                                      .actor = EF_STR("crash test"),
                                                      .limit = n->at[0]},
                                    NULL, &rows, &w->err);
        for (size_t i = 0; st == EF_OK && i < rows.count; i++)
            note(w, "q %" PRId64 "\n", rows.items[i].position);
    } while (st == EF_OK && rows.count > 0);
    EF_RELEASE(&rows);
    return report(w, st);
}

int verb_publisher(struct worker *w, const struct numbers *n)
{
    static const ef_type types[] = {{.name = EF_STR("type-0"), .publish = true},
                                    {.name = EF_STR("type-1"), .publish = true}};
    const char *sink = getenv("WORKER_SINK");
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < 2; i++)
        st = ef_type_set(w->journal, &types[i], &w->err);
    if (st == EF_OK)
        st = ef_publisher_set(w->journal,
                              &(ef_publisher){.name = EF_STR("mail"),
                                              .url = ef_str_from(sink ? sink : ""),
                                              .retain_ms = RETAIN_MS,
                                              .file_bytes = n->at[0],
                                              .file_count = FILES_KEPT,
                                              .allow_private = true},
                              &w->err);
    return report(w, st);
}
