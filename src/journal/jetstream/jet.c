/*
 * jet.c - the journal on JetStream: opening, facts, and the calls that the control journal serves.
 */
#include "jet.h"

#include "../../base/logger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- calls of the control journal ------------------------------------------------------------- */

#define PASS(name, params, ...)                                                                    \
    static ef_status pass_##name params                                                            \
    {                                                                                              \
        ef_journal *control = jet_store_of(journal)->control;                                      \
                                                                                                   \
        return control->ops->name(control, __VA_ARGS__);                                           \
    }

PASS(type_set, (ef_journal * journal, const ef_type *type, ef_error *err), type, err)
PASS(type_ls, (ef_journal * journal, const ef__type_query *query, ef_type_list *out, ef_error *err),
     query, out, err)
PASS(lane_ls, (ef_journal * journal, ef_lane_list *out, ef_error *err), out, err)
PASS(lane_drop, (ef_journal * journal, ef_str lane, bool discard, int64_t *out_rows, ef_error *err),
     lane, discard, out_rows, err)
PASS(published_purge,
     (ef_journal * journal, ef_str lane, const ef_partition_lease *held, size_t limit,
      int64_t *out_count, ef_error *err),
     lane, held, limit, out_count, err)
PASS(published_requeue,
     (ef_journal * journal, ef_str lane, const ef_partition_lease *held, size_t limit,
      int64_t *out_count, ef_error *err),
     lane, held, limit, out_count, err)
PASS(published_count,
     (ef_journal * journal, ef_str lane, size_t most, int64_t *out_count, ef_error *err), lane,
     most, out_count, err)
PASS(claim,
     (ef_journal * journal, const ef__claim_request *request, ef_claimed_batch *out, ef_error *err),
     request, out, err)
PASS(outbox_ls,
     (ef_journal * journal, const ef_outbox_query *query, ef_row_list *out, ef_error *err), query,
     out, err)
PASS(outbox_summarise,
     (ef_journal * journal, const ef_outbox_query *query, ef_outbox_summary *out, ef_error *err),
     query, out, err)
PASS(outbox_has_work, (ef_journal * journal, bool *out, ef_error *err), out, err)
PASS(retry_streams,
     (ef_journal * journal, const ef__retry_query *query, ef__retry_stream_list *out,
      ef_error *err),
     query, out, err)
PASS(revise,
     (ef_journal * journal, const ef__revision_request *revise, ef_row_list *out, ef_error *err),
     revise, out, err)
PASS(skip_add, (ef_journal * journal, const ef__skip_entry *entry, ef_error *err), entry, err)
PASS(skip_ls,
     (ef_journal * journal, ef_str projection, int32_t version, int64_t after, size_t limit,
      ef__skip_list *out, ef_error *err),
     projection, version, after, limit, out, err)
PASS(audit_add, (ef_journal * journal, const ef_audit_entry *entry, ef_error *err), entry, err)
PASS(audit_ls,
     (ef_journal * journal, const ef_audit_query *query, ef_audit_list *out, ef_error *err), query,
     out, err)
PASS(lease_many,
     (ef_journal * journal, ef_lease_call *calls, size_t count, const ef__heartbeat *beat,
      ef_error *err),
     calls, count, beat, err)
PASS(throughput_ls, (ef_journal * journal, int64_t from_us, ef_throughput_list *out, ef_error *err),
     from_us, out, err)
PASS(lease_ls, (ef_journal * journal, const ef_lease_kind *kind, ef_lease_list *out, ef_error *err),
     kind, out, err)
PASS(worker_leave, (ef_journal * journal, ef_str id, ef_error *err), id, err)
PASS(worker_purge,
     (ef_journal * journal, int64_t older_than_ms, int64_t interval_ms, int64_t *out_purged,
      ef_error *err),
     older_than_ms, interval_ms, out_purged, err)
PASS(worker_ls, (ef_journal * journal, ef_worker_list *out, ef_error *err), out, err)
PASS(partition_ls, (ef_journal * journal, ef_partition_list *out, ef_error *err), out, err)
PASS(partition_sync,
     (ef_journal * journal, const ef_partition_change *change, ef_partition_sync_result *out,
      ef_error *err),
     change, out, err)
PASS(run_request, (ef_journal * journal, const ef_run *run, ef_run_list *out, ef_error *err), run,
     out, err)
PASS(run_update,
     (ef_journal * journal, const ef_run *run, const ef_lease_key *lease, int64_t token,
      ef_error *err),
     run, lease, token, err)
PASS(run_cancel, (ef_journal * journal, ef_str id, ef_error *err), id, err)
PASS(run_ls, (ef_journal * journal, const ef__run_query *query, ef_run_list *out, ef_error *err),
     query, out, err)

static ef_status pass_wake(ef_journal *journal, ef_error *err)
{
    ef_journal *control = jet_store_of(journal)->control;

    return control->ops->wake(control, err);
}

/* --- unsupported calls ------------------------------------------------------------------------ */

/* The control journal has no events that a retry row could refer to. */
static ef_status jet_ack_batch(ef_journal *journal, const ef__ack_request *request, ef_error *err)
{
    ef_journal *control = jet_store_of(journal)->control;

    if (request->retry_row_count)
        return ef_fail(err, EF_UNSUPPORTED,
                       "a journal on JetStream has no retry rows: a failed event stops its tenant");
    return control->ops->ack(control, request, err);
}

static ef_status jet_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                              ef_error *err)
{
    ef_journal *control = jet_store_of(journal)->control;

    if (lane->kind == EF_LANE_KIND_PUBLISHER)
        return ef_fail(err, EF_UNSUPPORTED,
                       "publisher \"%.*s\": a journal on JetStream queues no events; "
                       "subscribe to the stream instead",
                       EF_STR_ARG(lane->name));
    return control->ops->lane_set(control, lane, expected, err);
}

static ef_status jet_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                             ef_error *err)
{
    (void)journal, (void)tenant, (void)out;
    return ef_fail(err, EF_UNSUPPORTED,
                   "event \"%.*s\": JetStream does not find events by id; read the stream "
                   "or the log",
                   EF_STR_ARG(id));
}

static ef_status jet_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                               size_t limit, ef_stream_list *out, ef_error *err)
{
    (void)journal, (void)tenant, (void)any_tenant, (void)after, (void)limit, (void)out;
    return ef_fail(err, EF_UNSUPPORTED,
                   "a journal on JetStream does not list its streams: list the subjects of the "
                   "broker");
}

static ef_status jet_verify(ef_journal *journal, int64_t from,
                            bool (*progress)(void *context, int64_t done, int64_t total),
                            void *context, ef_verify_result *out, ef_error *err)
{
    (void)journal, (void)from, (void)progress, (void)context, (void)out;
    return ef_fail(err, EF_UNSUPPORTED, "a JetStream stream has no hash chain to verify");
}

/* --- the journal as a whole ------------------------------------------------------------------- */

static ef_status jet_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    jet_state state = {0};
    ef_status st = jet_state_read(jet_store_of(journal), &state, err);

    *out = (ef_head){.position = state.last, .recorded_us = state.last ? state.last_us : 0};
    return st;
}

static ef_status jet_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    ef_journal *control = jet_store_of(journal)->control;

    return control->ops->partition_count(control, out, err);
}

static ef_status jet_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    jet_store *store = jet_store_of(journal);
    jet_counts *counts = &store->counts;
    jet_state state = {0};
    ef_status st = store->control->ops->facts(store->control, out, err);

    if (st == EF_OK)
        st = jet_state_read(store, &state, err);
    if (st != EF_OK)
        return st;
    (void)snprintf(out->backend, sizeof out->backend, "jetstream");
    (void)snprintf(out->version, sizeof out->version, "%s", nats_GetVersion());
    (void)snprintf(
        out->durability, sizeof out->durability,
        "that of the broker: it acknowledges before it syncs, unless sync_interval is always");
    out->store_bytes = state.bytes;
    out->streams = -1;
    out->appended = atomic_load(&counts->appended);
    out->redelivered = atomic_load(&counts->redelivered);
    out->unreadable = atomic_load(&counts->unreadable);
    out->holes = atomic_load(&counts->holes);
    out->connects = atomic_load(&counts->connects);
    return EF_OK;
}

static void jet_close(ef_journal *journal)
{
    jet_store *store = jet_store_of(journal);

    jet_watch_release(store);
    while (store->readers) {
        jet_reader *next = store->readers->next;
        jet_reader_release(store, store->readers);
        free(store->readers);
        store->readers = next;
    }
    jet_link_put(store->link);
    ef_journal_close(store->control);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

static const ef__journal_ops jet_ops = {
    .name = "jetstream",
    .caps = EF__JOURNAL_REMOTE | EF__JOURNAL_SPARSE | EF__JOURNAL_ACKNOWLEDGED,
    .close = jet_close,
    .append = jet_append,
    .read_stream = jet_read_stream,
    .read_log = jet_read_log,
    .read_id = jet_read_id,
    .follow = jet_follow,
    .followed = jet_followed,
    .unfollow = jet_unfollow,
    .wait = jet_wait,
    .wake = pass_wake,
    .head = jet_head,
    .stream_head = jet_stream_head,
    .stream_ls = jet_stream_ls,
    .type_set = pass_type_set,
    .type_ls = pass_type_ls,
    .verify = jet_verify,
    .facts = jet_facts,
    .partition_count = jet_partition_count,
    .lane_set = jet_lane_set,
    .lane_ls = pass_lane_ls,
    .lane_drop = pass_lane_drop,
    .published_purge = pass_published_purge,
    .published_requeue = pass_published_requeue,
    .published_count = pass_published_count,
    .claim = pass_claim,
    .ack = jet_ack_batch,
    .outbox_ls = pass_outbox_ls,
    .outbox_summarise = pass_outbox_summarise,
    .outbox_has_work = pass_outbox_has_work,
    .retry_streams = pass_retry_streams,
    .revise = pass_revise,
    .skip_add = pass_skip_add,
    .skip_ls = pass_skip_ls,
    .audit_add = pass_audit_add,
    .audit_ls = pass_audit_ls,
    .lease_many = pass_lease_many,
    .throughput_ls = pass_throughput_ls,
    .lease_ls = pass_lease_ls,
    .worker_leave = pass_worker_leave,
    .worker_purge = pass_worker_purge,
    .worker_ls = pass_worker_ls,
    .partition_ls = pass_partition_ls,
    .partition_sync = pass_partition_sync,
    .run_request = pass_run_request,
    .run_update = pass_run_update,
    .run_cancel = pass_run_cancel,
    .run_ls = pass_run_ls,
};

/* --- opening ---------------------------------------------------------------------------------- */

static ef_status open_control(jet_store *store, const ef_journal_options *options, ef_error *err)
{
    ef_journal_options control = *options;
    ef_store_facts facts;
    ef_status st;

    if (!options->control || !options->control[0])
        return ef_fail(err, EF_BAD_INPUT,
                       "a journal on JetStream needs a control journal for leases and runs: "
                       " sqlite:PATH or postgres://…");
    if (options->types_strict)
        return ef_fail(err, EF_UNSUPPORTED,
                       "types.strict: JetStream does not check the types that clients publish");
    control.url = options->control;
    control.control = NULL;
    st = ef_journal_open(&control, &store->control, err);
    if (st == EF_OK)
        st = ef_journal_facts(store->control, &facts, err);
    if (st == EF_OK)
        (void)snprintf(store->id, sizeof store->id, "%.8s", facts.journal_id);
    return st;
}

static ef_status open_stream(jet_store *store, const ef_journal_options *options, ef_error *err)
{
    jet_state state;
    ef_status st = jet_state_read(store, &state, err);

    if (st != EF_NOT_FOUND || !options->create)
        return st;
    st = jet_stream_create(store, err);
    return st == EF_OK ? jet_state_read(store, &state, err) : st;
}

ef_status ef__journal_jetstream_open(const ef_journal_options *options, ef_journal **out,
                                     ef_error *err)
{
    jet_store *store = calloc(1, sizeof *store);
    ef_status st;

    if (!store)
        return ef_fail(err, EF_NO_MEMORY, "memory ran out while opening a journal");
    store->base.ops = &jet_ops;
    store->base.options = *options;
    (void)pthread_mutex_init(&store->lock, NULL);
    jet_watch_init(&store->watch);
    st = jet_address_parse(options->url, &store->address, err);
    if (st == EF_OK)
        st = open_control(store, options, err);
    if (st == EF_OK)
        st = open_stream(store, options, err);
    if (st != EF_OK) {
        jet_close(&store->base);
        return st;
    }
    *out = &store->base;
    return EF_OK;
}
