/*
 * contract.h - the guarantees of the journal interface, tested on every back end.
 *
 * Each test gets a new, empty journal of the back end that the program was started with (its first
 * argument, or CONTRACT_BACKEND): "memory", "sqlite" or "postgres" (on the server of POSTGRES_URL).
 * The wall clock belongs to the test; it stands still until the test moves it.
 */
#ifndef EF_CONTRACT_H
#define EF_CONTRACT_H

#include "test.h"

#include "../../src/journal/journal.h"

#include <everfold/everfold.h>

#include <stdatomic.h>

#define PARTITIONS 4
#define SECOND INT64_C(1000000) /* of the clock, in microseconds */

typedef struct contract {
    const char *backend;
    ef_journal *journal;
    ef_journal_options options; /* of the journal; change them and call reopen */
    char url[256];
    char control[512]; /* of a journal on JetStream */
    char dir[200];     /* of this test; "" for memory */
    ef_clock clock;
    _Atomic int64_t now_us;
    ef_error err;
} contract;

int contract_setup(void **state);
int contract_teardown(void **state);
int contract_main(int argc, char **argv, struct CMUnitTest *tests, size_t count);

/* A second journal, for tests of two back ends. */
void contract_open(contract *t, const char *backend);
void contract_close(contract *t);

#define CONTRACT(name) static void name(__attribute__((unused)) void **state)
#define CASE(name) cmocka_unit_test_setup_teardown(name, contract_setup, contract_teardown)
#define CONTRACT_MAIN(...)                                                                         \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        struct CMUnitTest tests[] = {__VA_ARGS__};                                                 \
        return contract_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));                 \
    }

#define OK(call) CHECK_STATUS(EF_OK, call, &t->err)
#define REFUSED(status, call) CHECK_STATUS(status, call, &t->err)

void pass_time(contract *t, int64_t us);
/* Closes and opens the journal with t->options. A journal in memory starts empty. */
void reopen(contract *t);
bool survives(const contract *t);

ef_str str(const char *text);
ef_new_event event_of(const char *stream, const char *type);
/* Appends one event, which must succeed. */
ef_place append(contract *t, const char *stream, const char *type);
ef_place append_event(contract *t, ef_new_event event);
ef_status try_append(contract *t, ef_new_event event, ef_place *out);
int64_t head_of(contract *t);
int64_t seq_of(contract *t, const char *stream);

int32_t partition_of(const char *stream);
int32_t publisher_partition_of(const char *stream); /* in the lane of a publisher */
ef_lease_key partition_key(int32_t partition);
/* Acquires the lease of a partition (or of one of a publisher) for ten seconds, and returns its
 * token. */
int64_t acquire(contract *t, int32_t partition, const char *owner);
int64_t acquire_publisher(contract *t, const char *lane, int32_t partition, const char *owner);
ef_status lease_renew(ef_journal *journal, const ef_lease_key *key, int64_t token, int64_t lease_ms,
                      int64_t *out_until_us, ef_error *err);
ef_status worker_heartbeat(ef_journal *journal, const ef_worker *worker, int64_t heartbeat_ms,
                           ef_error *err);
/* Acquires the leases of all partitions. */
void hold_all(contract *t, const char *owner, ef_partition_lease held[PARTITIONS]);
/* Acknowledges a claimed batch: sets `upto` in `held`, and clears it afterwards. */
void ack_claimed(contract *t, const char *lane, ef_partition_lease *held, size_t count,
                 const ef_claimed_batch *batch, const ef_retry_row *retry_rows,
                 size_t retry_row_count);
/* Claims and acknowledges everything in lane "*", with one retry row in `lane`. */
void fail_event(contract *t, const char *lane, int64_t position, ef_row_status status,
                int32_t attempts, int64_t due_us, const char *error);
void set_lane(contract *t, const char *name, ef_lane_kind kind, bool enabled, const char *types);
void set_publish(contract *t, const char *type);
size_t queued_in(contract *t, const char *lane); /* rows of all tenants */
ef_outbox_summary summary(contract *t);          /* all tenants, all lanes; its row is released */

#endif
