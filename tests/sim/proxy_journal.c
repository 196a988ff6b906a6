/*
 * proxy_journal.c - a journal as one worker sees it.
 */
#include "sim.h"

#include <stdlib.h>

static sim_actor *hand_of(ef_journal *journal)
{
    return ((proxy_journal *)journal)->actor;
}

/* A call that changes nothing the oracle checks: `call` with these arguments. */
#define PASS_ON(ops, op, write, ...)                                                               \
    sim_actor *h = hand_of(journal);                                                               \
    ef_journal *inner = h->sim->journal;                                                           \
    ef_status st = gate_before(h, #op, write, err);                                                \
    if (st != EF_OK)                                                                               \
        return st;                                                                                 \
    st = inner->ops->op(inner, __VA_ARGS__);                                                       \
    return gate_after(h, #op, write, st, err)

/* --- events ----------------------------------------------------------------------------------- */

static void proxy_close(ef_journal *journal)
{
    (void)journal; /* the store stays open */
}

static void show_appended(sim_world *sim, const ef__arrival *events, size_t count,
                          const ef_place *places)
{
    for (size_t i = 0; i < count; i++) {
        char id[16];
        sim_offer *offer;
        (void)snprintf(id, sizeof id, "%.*s", EF_STR_ARG(events[i].event.id));
        offer = &sim->offers[strtol(id + 1, NULL, 10)];
        offer->known = true;
        offer->event.seq = places[i].seq;
        offer->event.position = places[i].position;
        oracle_appended(&sim->oracle, &offer->event, places[i].duplicate);
    }
}

static ef_status proxy_append(ef_journal *journal, const ef__arrival *events, size_t count,
                              ef_place *out, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    ef_status st = gate_before(actor, "append", true, err);

    if (st != EF_OK)
        return st;
    inner->options.outbox_off = actor->sim->cheat == CHEAT_LOSE_ROW;
    st = inner->events->append(inner, events, count, out, err);
    if (st == EF_OK)
        show_appended(actor->sim, events, count, out);
    observe_rows(
        actor->sim,
        &(sim_call){
            .call = "append", .who = actor->name, .turn = actor->turn, .refused = st != EF_OK},
        true);
    return gate_after(actor, "append", true, st, err);
}

static ef_status proxy_read_stream(ef_journal *journal, ef_str tenant, ef_str stream,
                                   int64_t from_seq, size_t limit, ef_batch *out, ef_error *err)
{
    PASS_ON(events, read_stream, false, tenant, stream, from_seq, limit, out, err);
}

static ef_status proxy_read_log(ef_journal *journal, const ef_log_query *query, ef_batch *out,
                                ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    ef_log_query shorter = *query;
    ef_status st = gate_before(actor, "read_log", false, err);

    if (st != EF_OK)
        return st;
    /* A batch may always be shorter than the limit. */
    if (shorter.limit > 8)
        shorter.limit = (size_t)random_between(&actor->sim->random, 1, 8);
    st = inner->events->read_log(inner, &shorter, out, err);
    if (actor->sim->cheat == CHEAT_LOSE_EVENT && st == EF_OK && out->count > 1 &&
        random_chance(&actor->sim->random, 300)) {
        out->events++;
        out->count--;
    }
    return gate_after(actor, "read_log", false, st, err);
}

static ef_status proxy_read_id(ef_journal *journal, ef_str tenant, ef_str id, ef_batch *out,
                               ef_error *err)
{
    PASS_ON(events, read_id, false, tenant, id, out, err);
}

static ef_status proxy_wait(ef_journal *journal, int64_t after, int64_t *wake, int64_t timeout_ms,
                            ef_error *err)
{
    (void)timeout_ms; /* no call waits in the simulator … */
    PASS_ON(events, wait, false, after, wake, 0, err);
}

static ef_status proxy_wake(ef_journal *journal, ef_error *err)
{
    (void)journal; /* … so there is no thread to wake */
    (void)err;
    return EF_OK;
}

static ef_status proxy_head(ef_journal *journal, ef_head *out, ef_error *err)
{
    PASS_ON(events, head, false, out, err);
}

static ef_status proxy_stream_head(ef_journal *journal, ef_str tenant, ef_str stream,
                                   int64_t *out_seq, int64_t *out_position, ef_error *err)
{
    PASS_ON(events, stream_head, false, tenant, stream, out_seq, out_position, err);
}

static ef_status proxy_stream_ls(ef_journal *journal, ef_str tenant, bool any_tenant, ef_str after,
                                 size_t limit, ef_stream_list *out, ef_error *err)
{
    PASS_ON(events, stream_ls, false, tenant, any_tenant, after, limit, out, err);
}

static ef_status proxy_type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    PASS_ON(records, type_set, true, type, err);
}

static ef_status proxy_type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                               ef_error *err)
{
    PASS_ON(records, type_ls, false, query, out, err);
}

static ef_status proxy_verify(ef_journal *journal, int64_t from,
                              bool (*progress)(void *context, int64_t done, int64_t total),
                              void *context, ef_verify_result *out, ef_error *err)
{
    PASS_ON(events, verify, false, from, progress, context, out, err);
}

static ef_status proxy_partition_count(ef_journal *journal, int32_t *out, ef_error *err)
{
    PASS_ON(leases, partition_count, false, out, err);
}

static ef_status proxy_facts(ef_journal *journal, ef_store_facts *out, ef_error *err)
{
    PASS_ON(store, facts, false, out, err);
}

/* Without a gate: an append reads the record of damage, and a fault there would change the worlds
 * of all seeds. The simulator damages nothing. */
static ef_status proxy_damage_set(ef_journal *journal, const ef__damage *damage, ef_error *err)
{
    ef_journal *inner = hand_of(journal)->sim->journal;

    return inner->store->damage_set(inner, damage, err);
}

static ef_status proxy_damage_get(ef_journal *journal, ef__damage *out, ef_error *err)
{
    ef_journal *inner = hand_of(journal)->sim->journal;

    return inner->store->damage_get(inner, out, err);
}

/* --- the outbox ------------------------------------------------------------------------------- */

static ef_status proxy_lane_set(ef_journal *journal, const ef_lane *lane, const ef_lane *expected,
                                ef_error *err)
{
    PASS_ON(outbox, lane_set, true, lane, expected, err);
}

static ef_status proxy_lane_ls(ef_journal *journal, ef_lane_list *out, ef_error *err)
{
    PASS_ON(outbox, lane_ls, false, out, err);
}

static ef_status proxy_lane_drop(ef_journal *journal, ef_str lane, bool discard, int64_t *out_rows,
                                 ef_error *err)
{
    PASS_ON(outbox, lane_drop, true, lane, discard, out_rows, err);
}

static ef_status proxy_published_purge(ef_journal *journal, ef_str lane,
                                       const ef_partition_lease *held, size_t limit,
                                       int64_t *out_count, ef_error *err)
{
    PASS_ON(outbox, published_purge, true, lane, held, limit, out_count, err);
}

static ef_status proxy_published_again(ef_journal *journal, ef_str lane,
                                       const ef_partition_lease *held, size_t limit,
                                       int64_t *out_count, ef_error *err)
{
    PASS_ON(outbox, published_requeue, true, lane, held, limit, out_count, err);
}

static ef_status proxy_published_count(ef_journal *journal, ef_str lane, size_t most,
                                       int64_t *out_count, ef_error *err)
{
    PASS_ON(outbox, published_count, false, lane, most, out_count, err);
}

static ef_status proxy_take(ef_journal *journal, const ef__claim_request *take,
                            ef_claimed_batch *out, ef_error *err)
{
    PASS_ON(outbox, claim, true, take, out, err);
}

static sim_call mark_act(const sim_actor *actor, const ef_partition_lease *held, size_t held_count)
{
    sim_call a = {.call = "mark", .who = actor->name, .turn = actor->turn};

    for (size_t i = 0; i < held_count && i < sizeof a.fences / sizeof a.fences[0]; i++) {
        (void)snprintf(a.fences[i].scope, sizeof a.fences[i].scope, "partition/%d",
                       (int)held[i].partition);
        a.fences[i].token = held[i].token;
        a.fence_count++;
    }
    return a;
}

/* The same ack with live tokens. */
static ef_status forge_mark(sim_world *sim, const ef__ack_request *mark, ef_error *err)
{
    ef_partition_lease held[EF_LIMIT_PARTITIONS];
    ef__ack_request forged = *mark;
    ef_claimed_batch taken = EF_CLAIMED_BATCH_INIT;
    ef_status st;

    for (size_t i = 0; i < mark->held_count; i++) {
        held[i] = mark->held[i];
        for (int l = 0; l < sim->oracle.leases.count; l++)
            if (sim->oracle.leases.items[l].partition == held[i].partition)
                held[i].token = sim->oracle.leases.items[l].token;
    }
    forged.held = held;
    st = ef__outbox_claim(
        sim->journal,
        &(ef__claim_request){
            .lane = mark->lane, .held = held, .held_count = mark->held_count, .limit = 100},
        &taken, err);
    ef__claimed_batch_release(&taken);
    return st == EF_OK ? sim->journal->outbox->ack(sim->journal, NULL, &forged, err) : st;
}

static ef_status do_mark(sim_world *sim, const ef__ack_request *mark, ef_error *err)
{
    ef__ack_request forged = *mark;
    ef_retry_row done;
    ef_status st;

    if (sim->cheat == CHEAT_DROP_RETRY_ROWS)
        forged.retry_row_count = 0;
    if (sim->cheat == CHEAT_DONE_RETRY_ROWS && mark->held_count == 1 &&
        mark->retry_row_count == 1) {
        done = mark->retry_rows[0];
        done.status = EF_ROW_DONE;
        forged.retry_rows = &done;
    }
    st = sim->journal->outbox->ack(sim->journal, NULL, &forged, err);
    if (st == EF_LEASE_LOST && sim->cheat == CHEAT_FORGE_MARK)
        st = forge_mark(sim, mark, err);
    return st;
}

static ef_status proxy_mark(ef_journal *journal, void *connection, const ef__ack_request *mark,
                            ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    sim_call a = mark_act(actor, mark->held, mark->held_count);
    ef_status st = gate_before(actor, "mark", true, err);

    (void)connection;
    if (st != EF_OK)
        return st;
    st = do_mark(actor->sim, mark, err);
    a.refused = st != EF_OK;
    sim_note(actor->sim, "  %s mark of lane %.*s, %zu exceptions: %s", actor->name,
             EF_STR_ARG(mark->lane), mark->retry_row_count, ef_status_describe(st)->name);
    if (st == EF_OK && mail_is_of(mark->lane))
        mail_acknowledged(actor->sim, actor->name, mark->held, mark->held_count);
    else if (st == EF_OK)
        oracle_marked(&actor->sim->oracle, &a, actor->sim->wall_us);
    a.removes =
        mark->held_count == 0 && mark->retry_row_count && mark->retry_rows[0].status == EF_ROW_DONE;
    if (st == EF_OK && mark->held_count == 0 && !a.removes)
        observe_retry_rows(actor->sim, mark->retry_rows, mark->retry_row_count, actor->turn);
    observe_rows(actor->sim, &a, false);
    return gate_after(actor, "mark", true, st, err);
}

static ef_status proxy_outbox_ls(ef_journal *journal, const ef_outbox_query *query,
                                 ef_row_list *out, ef_error *err)
{
    PASS_ON(outbox, ls, false, query, out, err);
}

static ef_status proxy_outbox_summarise(ef_journal *journal, const ef_outbox_query *query,
                                        ef_outbox_summary *out, ef_error *err)
{
    PASS_ON(outbox, summarise, false, query, out, err);
}

static ef_status proxy_outbox_has_work(ef_journal *journal, bool *out, ef_error *err)
{
    PASS_ON(outbox, has_work, false, out, err);
}

static ef_status proxy_retry_streams(ef_journal *journal, const ef__retry_query *query,
                                     ef__retry_stream_list *out, ef_error *err)
{
    PASS_ON(outbox, retry_streams, false, query, out, err);
}

/* An operator's action on rows. */
static ef_status proxy_revise(ef_journal *journal, const ef__revision_request *revise,
                              ef_row_list *out, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    ef_status st = gate_before(actor, "revise", true, err);
    sim_call request = {
        .call = "revise", .who = actor->name, .turn = actor->turn, .operates = true};

    if (st != EF_OK)
        return st;
    st = inner->outbox->revise(inner, revise, out, err);
    request.refused = st != EF_OK;
    observe_rows(actor->sim, &request, false);
    if (st == EF_OK && revise->what == EF__REVISION_SKIP)
        observe_skips(actor->sim, revise, out);
    return gate_after(actor, "revise", true, st, err);
}

static ef_status proxy_skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    ef_status st = gate_before(actor, "skip_add", true, err);

    if (st != EF_OK)
        return st;
    st = inner->records->skip_add(inner, entry, err);
    if (st == EF_OK)
        observe_skip(actor->sim, entry);
    return gate_after(actor, "skip_add", true, st, err);
}

static ef_status proxy_skip_ls(ef_journal *journal, ef_str projection, int32_t version,
                               int64_t after, size_t limit, ef__skip_list *out, ef_error *err)
{
    PASS_ON(records, skip_ls, false, projection, version, after, limit, out, err);
}

static ef_status proxy_audit_add(ef_journal *journal, const ef_audit_entry *act, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    ef_status st = gate_before(actor, "act_add", true, err);

    if (st != EF_OK)
        return st;
    st = inner->records->audit_add(inner, act, err);
    return gate_after(actor, "act_add", true, st, err);
}

static ef_status proxy_audit_ls(ef_journal *journal, const ef_audit_query *query,
                                ef_audit_list *out, ef_error *err)
{
    PASS_ON(records, audit_ls, false, query, out, err);
}

/* --- leases, workers, runs -------------------------------------------------------------------- */

static bool is_held_elsewhere(const ef_lease_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (calls[i].status == EF_LEASE_HELD)
            return true;
    return false;
}

static ef_status proxy_lease_many(ef_journal *journal, ef_lease_call *calls, size_t count,
                                  const ef__heartbeat *beat, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    sim_world *sim = actor->sim;
    ef_status st = gate_before(actor, "lease_many", true, err);

    if (st != EF_OK) {
        /* A release is tried once: a lease that could not be released expires. */
        for (size_t i = 0; i < count; i++)
            actor->unsure = actor->unsure || calls[i].verb == EF_LEASE_RELEASE;
        return st;
    }
    st = sim->journal->leases->lease_many(sim->journal, calls, count, beat, err);
    if (sim->cheat == CHEAT_STEAL_LEASE && st == EF_OK && is_held_elsewhere(calls, count)) {
        sim->wall_us += 600000000; /* by the store's clock they have ended */
        st = sim->journal->leases->lease_many(sim->journal, calls, count, beat, err);
        sim->wall_us -= 600000000;
    }
    observe_leases(sim, &(sim_call){.call = "lease_many",
                                    .who = actor->name,
                                    .turn = actor->turn,
                                    .refused = st != EF_OK});
    return gate_after(actor, "lease_many", true, st, err);
}

static ef_status proxy_lease_ls(ef_journal *journal, const ef_lease_kind *kind, ef_lease_list *out,
                                ef_error *err)
{
    PASS_ON(leases, lease_ls, false, kind, out, err);
}

static ef_status proxy_worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    PASS_ON(leases, worker_leave, true, id, err);
}

static ef_status proxy_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                                    int64_t *out_purged, ef_error *err)
{
    PASS_ON(leases, worker_purge, true, older_than_ms, interval_ms, out_purged, err);
}

static ef_status proxy_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                                     ef_error *err)
{
    PASS_ON(leases, throughput_ls, false, from_us, out, err);
}

static ef_status proxy_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    PASS_ON(leases, worker_ls, false, out, err);
}

static ef_status proxy_partition_ls(ef_journal *journal, ef_partition_list *out, ef_error *err)
{
    PASS_ON(leases, partition_ls, false, out, err);
}

static ef_status proxy_partition_sync(ef_journal *journal, const ef_partition_change *change,
                                      ef_partition_sync_result *out, ef_error *err)
{
    sim_actor *actor = hand_of(journal);
    ef_journal *inner = actor->sim->journal;
    sim_call request = {
        .call = "partition_sync", .who = actor->name, .turn = actor->turn, .operates = true};
    ef_status st = gate_before(actor, "partition_sync", true, err);

    if (st != EF_OK)
        return st;
    st = inner->leases->partition_sync(inner, change, out, err);
    request.refused = st != EF_OK;
    observe_rows(actor->sim, &request, false);
    observe_leases(actor->sim, &request);
    return gate_after(actor, "partition_sync", true, st, err);
}

static ef_status proxy_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                                   ef_error *err)
{
    PASS_ON(records, run_request, true, run, out, err);
}

static ef_status proxy_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                                  int64_t token, ef_error *err)
{
    PASS_ON(records, run_update, true, run, lease, token, err);
}

static ef_status proxy_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    PASS_ON(records, run_cancel, true, id, err);
}

static ef_status proxy_run_ls(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                              ef_error *err)
{
    PASS_ON(records, run_ls, false, query, out, err);
}

static const ef__store_ops store_ops = {
    .name = "simulated",
    .close = proxy_close,
    .facts = proxy_facts,
    .damage_set = proxy_damage_set,
    .damage_get = proxy_damage_get,
};

static const ef__events_ops events_ops = {
    .append = proxy_append,
    .read_stream = proxy_read_stream,
    .read_log = proxy_read_log,
    .read_id = proxy_read_id,
    .wait = proxy_wait,
    .head = proxy_head,
    .stream_head = proxy_stream_head,
    .stream_ls = proxy_stream_ls,
    .verify = proxy_verify,
};

static const ef__outbox_ops outbox_ops = {
    .lane_set = proxy_lane_set,
    .lane_ls = proxy_lane_ls,
    .lane_drop = proxy_lane_drop,
    .published_purge = proxy_published_purge,
    .published_requeue = proxy_published_again,
    .published_count = proxy_published_count,
    .claim = proxy_take,
    .ack = proxy_mark,
    .ls = proxy_outbox_ls,
    .summarise = proxy_outbox_summarise,
    .has_work = proxy_outbox_has_work,
    .retry_streams = proxy_retry_streams,
    .revise = proxy_revise,
};

static const ef__lease_ops lease_ops = {
    .lease_many = proxy_lease_many,
    .lease_ls = proxy_lease_ls,
    .worker_leave = proxy_worker_leave,
    .worker_purge = proxy_worker_purge,
    .worker_ls = proxy_worker_ls,
    .throughput_ls = proxy_throughput_ls,
    .partition_ls = proxy_partition_ls,
    .partition_sync = proxy_partition_sync,
    .partition_count = proxy_partition_count,
    .wake = proxy_wake,
};

static const ef__record_ops record_ops = {
    .type_set = proxy_type_set,
    .type_ls = proxy_type_ls,
    .run_request = proxy_run_request,
    .run_update = proxy_run_update,
    .run_cancel = proxy_run_cancel,
    .run_ls = proxy_run_ls,
    .audit_add = proxy_audit_add,
    .audit_ls = proxy_audit_ls,
    .skip_add = proxy_skip_add,
    .skip_ls = proxy_skip_ls,
};

#define ATTACH(interface, proxy)                                                                   \
    (check_proxy(sim, #interface, inner->interface, &(proxy), sizeof(proxy)),                      \
     journal->interface = &(proxy))

void proxy_journal_init(ef_journal *journal, sim_world *sim)
{
    const ef_journal *inner = sim->journal;

    *journal = *inner;
    journal->control = journal;
    ATTACH(store, store_ops);
    ATTACH(events, events_ops);
    ATTACH(outbox, outbox_ops);
    ATTACH(leases, lease_ops);
    ATTACH(records, record_ops);
}
