/*
 * contract.c - the fixture of the contract suite.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include "postgres_database.h"

#include "../../src/core/placement.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef EF_HAVE_NATS
#include <nats/nats.h>
#endif

static const char *backend_asked = "memory";

/* --- opening ---------------------------------------------------------------------------------- */

static int64_t test_wall_us(void *context)
{
    return atomic_load(&((contract *)context)->now_us);
}

/* Durations pass for real: a back end may wait for a lock or a thread. */
static int64_t test_mono_us(void *context)
{
    const ef_clock *system = ef_clock_system();

    (void)context;
    return system->mono_us(system->context);
}

static void make_dir(contract *t)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(t->dir, sizeof t->dir, "%s/everfold-contract-XXXXXX", base ? base : "/tmp");

    CHECK(n > 0 && (size_t)n < sizeof t->dir);
    CHECK(mkdtemp(t->dir) != NULL);
    n = snprintf(t->url, sizeof t->url, "sqlite:%s/journal.db", t->dir);
    CHECK(n > 0 && (size_t)n < sizeof t->url);
}

/* The store's files only: everything in a directory that this test made. */
static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char name[512];
        int n = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (n > 0 && (size_t)n < sizeof name && entry->d_name[0] != '.')
            (void)unlink(name);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
}

#ifdef EF_HAVE_NATS
/* Subjects of two streams must not overlap, so each test has the broker for itself. */
static void delete_stream(void)
{
    natsConnection *connection = NULL;
    jsCtx *context = NULL;

    if (natsConnection_ConnectTo(&connection, getenv("EVERFOLD_TEST_NATS")) == NATS_OK &&
        natsConnection_JetStream(&context, connection, NULL) == NATS_OK)
        (void)js_DeleteStream(context, "CONTRACT", NULL, NULL);
    jsCtx_Destroy(context);
    natsConnection_Destroy(connection);
}
#endif

/* The events are on the broker, the rest is in the directory. */
static void put_on_broker(contract *t)
{
    const char *broker = getenv("EVERFOLD_TEST_NATS");

    CHECK(broker != NULL);
    (void)snprintf(t->control, sizeof t->control, "%s", t->url);
    (void)snprintf(t->url, sizeof t->url, "%s/CONTRACT", broker);
    t->options.control = t->control;
}

void contract_open(contract *t, const char *backend)
{
    t->backend = backend;
    atomic_store(&t->now_us, INT64_C(1767225600) * SECOND);
    t->clock = (ef_clock){test_wall_us, test_mono_us, t};
    if (strcmp(backend, "memory") == 0)
        (void)snprintf(t->url, sizeof t->url, "memory:");
    else if (strcmp(backend, "postgres") == 0)
        CHECK(postgres_database(t->url, sizeof t->url));
    else
        make_dir(t);
    t->options = (ef_journal_options){
        .url = t->url, .create = true, .partitions = PARTITIONS, .clock = &t->clock};
    if (strcmp(backend, "jetstream") == 0)
        put_on_broker(t);
    OK(ef_journal_open(&t->options, &t->journal, &t->err));
}

void contract_close(contract *t)
{
    ef_journal_close(t->journal);
    t->journal = NULL;
    if (t->dir[0])
        remove_dir(t->dir);
#ifdef EF_HAVE_NATS
    if (strcmp(t->backend, "jetstream") == 0)
        delete_stream();
#endif
}

int contract_setup(void **state)
{
    contract *t = calloc(1, sizeof *t);

    if (!t)
        return -1;
    *state = t;
    contract_open(t, backend_asked);
    return 0;
}

int contract_teardown(void **state)
{
    contract *t = *state;

    contract_close(t);
    free(t);
    return 0;
}

/* --- tests that a back end cannot pass -------------------------------------------------------- */

#define ONE_BY_ONE "the broker stores one message at a time, not several atomically"
#define NO_IDS "the broker finds no event by its id"
#define SEQ_IS_POSITION "the seq of an event is its position: it has gaps in a stream"
#define NO_CHAIN "the events have no hash chain to verify"
#define NO_STREAMS "the streams are subjects of the broker, which are not listed"
#define NO_QUEUE "its events are not queued: the engine reads them by cursors"
#define OPEN_TYPES "clients publish to the broker, which knows no types"
#define OWN_CLOCK "the broker sets the recording time by its own clock"

static const struct {
    const char *name, *reason;
} skipped_on_jetstream[] = {
    {"an_id_is_made_when_the_caller_gives_none", NO_IDS},
    {"positions_are_dense_over_interleaved_streams", SEQ_IS_POSITION},
    {"a_batch_over_several_streams_is_numbered_in_its_order", ONE_BY_ONE},
    {"a_large_batch_is_written_whole", ONE_BY_ONE},
    {"expected_seqs_of_one_batch_follow_each_other", ONE_BY_ONE},
    {"a_conflict_on_one_stream_keeps_the_whole_batch_out", ONE_BY_ONE},
    {"what_is_given_is_read_back_byte_for_byte", OWN_CLOCK},
    {"recorded_times_never_fall_when_the_clock_is_set_back", OWN_CLOCK},
    {"one_mebibyte_of_data_fits_and_one_byte_more_does_not",
     "the broker limits a message with its envelope to max_payload, a mebibyte by default"},
    {"hashes_form_a_chain_that_verifies", NO_CHAIN},
    {"an_empty_journal_verifies_and_its_head_is_zero", NO_CHAIN},
    {"what_was_appended_is_there_after_opening_again", NO_QUEUE},
    {"strict_types_refuse_what_is_not_registered", OPEN_TYPES},
    {"appends_of_a_tenant_create_types_up_to_a_limit_that_is_its_own", OPEN_TYPES},
    {"appends_made_together_are_each_all_or_none", ONE_BY_ONE},
    {"crowds_of_several_threads_are_written_whole_and_in_order", ONE_BY_ONE},
    {"facts_count_what_this_handle_has_done", NO_STREAMS},
    {"streams_are_listed_by_tenant", NO_STREAMS},
    {"a_type_is_registered_by_its_first_event", OPEN_TYPES},
    {"types_are_set_changed_and_listed_by_name", OPEN_TYPES},
    {"an_event_of_an_alias_is_read_under_the_canonical_name", NO_CHAIN},
    {"a_long_stream_is_read_from_anywhere", ONE_BY_ONE},
    {"a_long_stream_is_read_the_same_after_opening_again", ONE_BY_ONE},
    {"interleaved_streams_are_read_apart", ONE_BY_ONE},
    {"an_event_is_read_by_its_id_and_tenant", NO_IDS},
    {"what_is_followed_has_no_limit_but_the_one_that_is_given", ONE_BY_ONE},
    {"a_waiting_follower_gets_all_events_in_pieces", ONE_BY_ONE},
    {"who_follows_gets_the_events_that_others_read",
     "the texts of an event are parts of its message, and no NUL follows them"},
    {"the_log_is_filtered_by_tenant_and_type",
     "a filtered read ends at its last event: the broker does not report what follows"},
    {"threads_append_side_by_side_without_a_hole", SEQ_IS_POSITION},
    {"streams_are_listed_in_pages_in_the_order_of_their_first_event", NO_STREAMS},
    {"a_page_that_ends_with_the_last_stream_has_no_next", NO_STREAMS},
    {"the_same_event_again_has_its_first_place", NO_QUEUE},
    {"a_duplicate_is_found_after_many_other_events", ONE_BY_ONE},
    {"part_of_a_batch_may_be_duplicates", ONE_BY_ONE},
    {"the_same_id_twice_in_one_batch_is_written_once", ONE_BY_ONE},
    {"the_same_id_twice_in_one_batch_with_other_content_writes_nothing", ONE_BY_ONE},
    {"an_id_with_other_content_is_a_conflict_and_nothing_is_written", ONE_BY_ONE},
    {"lists_refuse_limits_and_cursors_that_are_none", NO_STREAMS},
    {"names_that_do_not_exist_are_reported_with_the_same_message", NO_IDS},
    {"an_unregistered_type_and_a_wrong_alias_are_reported_with_the_same_message", OPEN_TYPES},
    {"a_lane_of_another_kind_is_reported_with_the_same_message", NO_QUEUE},
};

static bool is_skipped(const char *name)
{
    size_t count = sizeof skipped_on_jetstream / sizeof *skipped_on_jetstream;

    for (size_t i = 0; strcmp(backend_asked, "jetstream") == 0 && i < count; i++)
        if (strcmp(skipped_on_jetstream[i].name, name) == 0) {
            printf("# %s is skipped: %s\n", name, skipped_on_jetstream[i].reason);
            return true;
        }
    return false;
}

int contract_main(int argc, char **argv, struct CMUnitTest *tests, size_t count)
{
    const char *from_environment = getenv("CONTRACT_BACKEND");
    char(*names)[256] = calloc(count, sizeof *names);
    size_t run = 0;
    int failed;

    if (!names)
        return 1;
    if (argc > 1)
        backend_asked = argv[1];
    else if (from_environment)
        backend_asked = from_environment;
    for (size_t i = 0; i < count; i++) {
        if (is_skipped(tests[i].name))
            continue;
        tests[run] = tests[i];
        (void)snprintf(names[run], sizeof names[run], "%s on %s", tests[i].name, backend_asked);
        tests[run].name = names[run];
        run++;
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    failed = _cmocka_run_group_tests("contract", tests, run, NULL, NULL);
    free(names);
    return failed;
}

void pass_time(contract *t, int64_t us)
{
    atomic_fetch_add(&t->now_us, us);
}

void reopen(contract *t)
{
    ef_journal_close(t->journal);
    t->journal = NULL;
    OK(ef_journal_open(&t->options, &t->journal, &t->err));
}

bool survives(const contract *t)
{
    return strcmp(t->backend, "memory") != 0;
}

/* --- events ----------------------------------------------------------------------------------- */

ef_str str(const char *text)
{
    return ef_str_from(text);
}

ef_new_event event_of(const char *stream, const char *type)
{
    return (ef_new_event){.stream = str(stream), .type = str(type)};
}

ef_status try_append(contract *t, ef_new_event event, ef_place *out)
{
    ef_place place;

    return ef_journal_append(t->journal, &event, 1, out ? out : &place, &t->err);
}

ef_place append_event(contract *t, ef_new_event event)
{
    ef_place place = {0};

    OK(try_append(t, event, &place));
    return place;
}

ef_place append(contract *t, const char *stream, const char *type)
{
    return append_event(t, event_of(stream, type));
}

int64_t head_of(contract *t)
{
    ef_head head;

    OK(ef_journal_head(t->journal, &head, &t->err));
    return head.position;
}

int64_t seq_of(contract *t, const char *stream)
{
    int64_t seq = -1;

    OK(ef_stream_head(t->journal, str(""), str(stream), &seq, NULL, &t->err));
    return seq;
}

/* --- leases and the outbox -------------------------------------------------------------------- */

int32_t partition_of(const char *stream)
{
    return ef__partition_of(str(""), str(stream), PARTITIONS);
}

int32_t publisher_partition_of(const char *stream)
{
    return ef__partition_of(str(""), str(stream), EF_LIMIT_PUBLISHER_PARTITIONS);
}

ef_lease_key partition_key(int32_t partition)
{
    return (ef_lease_key){EF_LEASE_PARTITION, {0}, partition};
}

int64_t acquire(contract *t, int32_t partition, const char *owner)
{
    ef_lease_key key = partition_key(partition);
    int64_t token = 0;

    OK(ef__lease_acquire_one(t->journal, &key, str(owner), 10000, &token, NULL, &t->err));
    return token;
}

int64_t acquire_publisher(contract *t, const char *lane, int32_t partition, const char *owner)
{
    ef_lease_key key = {EF_LEASE_PUBLISHER, str(lane), partition};
    int64_t token = 0;

    OK(ef__lease_acquire_one(t->journal, &key, str(owner), 10000, &token, NULL, &t->err));
    return token;
}

ef_status lease_renew(ef_journal *journal, const ef_lease_key *key, int64_t token, int64_t lease_ms,
                      int64_t *out_until_us, ef_error *err)
{
    ef_lease_call call = {
        .verb = EF_LEASE_RENEW, .key = *key, .token = token, .lease_ms = lease_ms};
    ef_status st = ef__lease_many(journal, &call, 1, &(ef__heartbeat){0}, err);

    if (st == EF_OK && call.status == EF_OK && out_until_us)
        *out_until_us = call.until_us;
    return st == EF_OK ? call.status : st;
}

ef_status worker_heartbeat(ef_journal *journal, const ef_worker *worker, int64_t heartbeat_ms,
                           ef_error *err)
{
    return ef__lease_many(journal, NULL, 0,
                          &(ef__heartbeat){.worker = worker, .heartbeat_ms = heartbeat_ms}, err);
}

void hold_all(contract *t, const char *owner, ef_partition_lease held[PARTITIONS])
{
    for (int32_t p = 0; p < PARTITIONS; p++)
        held[p] = (ef_partition_lease){p, acquire(t, p, owner), 0};
}

void ack_claimed(contract *t, const char *lane, ef_partition_lease *held, size_t count,
                 const ef_claimed_batch *batch, const ef_retry_row *retry_rows,
                 size_t retry_row_count)
{
    for (size_t i = 0; i < batch->count; i++)
        for (size_t h = 0; h < count; h++)
            if (held[h].partition == batch->items[i].partition)
                held[h].upto = batch->items[i].event->position;
    OK(test_ack(t->journal, str(lane), held, count, retry_rows, retry_row_count, &t->err));
    for (size_t h = 0; h < count; h++)
        held[h].upto = 0;
}

void fail_event(contract *t, const char *lane, int64_t position, ef_row_status status,
                int32_t attempts, int64_t due_us, const char *error)
{
    ef_retry_row retry_row = {.lane = str(lane),
                              .position = position,
                              .status = status,
                              .attempts = attempts,
                              .due_us = due_us,
                              .error = str(error)};
    ef_partition_lease held[PARTITIONS];
    ef_claimed_batch batch = EF_CLAIMED_BATCH_INIT;

    hold_all(t, "fixture", held);
    OK(test_claim(t->journal, str("*"), held, PARTITIONS, 1000, &batch, &t->err));
    ack_claimed(t, "*", held, PARTITIONS, &batch, &retry_row, 1);
    ef__claimed_batch_release(&batch);
}

ef_outbox_summary summary(contract *t)
{
    ef_outbox_query query = {.any_tenant = true};
    ef_outbox_summary found = {0};

    OK(ef_outbox_summarise(t->journal, &query, &found, &t->err));
    EF_RELEASE(&found.oldest);
    return found;
}

void set_lane(contract *t, const char *name, ef_lane_kind kind, bool enabled, const char *types)
{
    ef_lane lane = {.name = str(name), .kind = kind, .enabled = enabled, .types = str(types)};

    OK(ef_lane_set(t->journal, &lane, &t->err));
}

void set_publish(contract *t, const char *type)
{
    ef_type published = {.name = str(type), .publish = true};

    OK(ef_type_set(t->journal, &published, &t->err));
}

size_t queued_in(contract *t, const char *lane)
{
    ef_outbox_query query = {.lane = str(lane), .any_tenant = true, .limit = 1000};
    ef_row_list list = {0};
    size_t count;

    OK(ef_outbox_ls(t->journal, &query, &list, &t->err));
    count = list.count;
    EF_RELEASE(&list);
    return count;
}
