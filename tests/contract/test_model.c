/*
 * The model: one random sequence of operations on the memory journal and on another (the first
 * argument, sqlite or postgres) side by side, comparing every answer.
 *
 * The seed is in the environment (CONTRACT_SEED) or taken from the clock; a failure prints it.
 */
#include "contract.h"

#include "../support/outbox_calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { OPERATIONS = 2000, STREAMS = 12, TYPES = 5, LANES = 3, WORKERS = 3 };

typedef struct pair {
    contract a, b; /* memory, and the other */
    uint64_t random;
    ef_partition_lease held[PARTITIONS]; /* the last tokens given; they may be old by now */
    ef_partition_lease mail[EF_LIMIT_PUBLISHER_PARTITIONS];
    char run[64]; /* the last run that was filed on both; "" none */
    char run_b[64];
} pair;

/* --- chance ----------------------------------------------------------------------------------- */

static uint64_t draw(pair *p, uint64_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (p->random >> 11) % below;
}

static bool once_in(pair *p, uint64_t n)
{
    return draw(p, n) == 0;
}

static const char *const streams[STREAMS] = {"a", "b",  "c",   "d", "A",          "a:b",
                                             "%", "'x", "a b", "*", "\U0001F600", "zz"};
static const char *const types[TYPES] = {"t", "order.placed", "order.paid", "cart.filled", "old"};
static const char *const tenants[3] = {"", "acme", "a"};
static const char *const lanes[LANES] = {"orders", "other", "third"};
static const char *const owners[WORKERS] = {"w1", "w2", "w3"};
#define PICK(p, words) ((words)[draw((p), sizeof(words) / sizeof((words)[0]))])

/* --- comparing -------------------------------------------------------------------------------- */

/* Which operation it is, for the message of a failure. */
static int doing_number;
static const char *doing_name = "";

#define BOTH(call_a, call_b) both(p, #call_a, (call_a), (call_b))
#define SAME(field, x, y) same_int(#field, (int64_t)(x)->field, (int64_t)(y)->field)
#define SAME_STR(field, x, y) same_str(#field, (x)->field, (y)->field)

static void same_int(const char *what, int64_t x, int64_t y)
{
    if (x != y)
        print_error("operation %d (%s), %s: %" PRId64 " in the model, %" PRId64 " on the other\n",
                    doing_number, doing_name, what, x, y);
    CHECK_INT(x, y);
}

static void same_str(const char *what, ef_str x, ef_str y)
{
    if (!ef_str_equal(x, y))
        print_error("operation %d (%s), %s: \"%.*s\" in the model, \"%.*s\" on the other\n",
                    doing_number, doing_name, what, EF_STR_ARG(x), EF_STR_ARG(y));
    CHECK(ef_str_equal(x, y));
}

static ef_status both(pair *p, const char *call, ef_status x, ef_status y)
{
    if (x != y)
        print_error("operation %d, %s: %s in the model (%s), %s on the other (%s)\n", doing_number,
                    call, ef_status_describe(x)->name, p->a.err.text, ef_status_describe(y)->name,
                    p->b.err.text);
    CHECK_INT(x, y);
    return x;
}

/* Ids that were made differ, and so do hashes over them. */
static void same_event(const ef_event *x, const ef_event *y)
{
    SAME(position, x, y);
    SAME(seq, x, y);
    SAME(schema, x, y);
    SAME(time_us, x, y);
    SAME(recorded_us, x, y);
    SAME_STR(tenant, x, y);
    SAME_STR(stream, x, y);
    SAME_STR(type, x, y);
    SAME_STR(data, x, y);
    SAME_STR(meta, x, y);
    if (x->id.len != 36)
        SAME_STR(id, x, y);
}

static void same_batch(const ef_batch *x, const ef_batch *y)
{
    SAME(count, x, y);
    SAME(more, x, y);
    for (size_t i = 0; i < x->count; i++)
        same_event(&x->events[i], &y->events[i]);
}

static void same_row(const ef_row *x, const ef_row *y)
{
    SAME(position, x, y);
    SAME_STR(lane, x, y);
    SAME_STR(tenant, x, y);
    SAME_STR(stream, x, y);
    SAME_STR(event_type, x, y);
    SAME_STR(last_error, x, y);
    SAME(seq, x, y);
    SAME(status, x, y);
    SAME(blocked, x, y);
    SAME(skip, x, y);
    SAME(partition, x, y);
    SAME(attempt_count, x, y);
    SAME(next_attempt_us, x, y);
    SAME(enqueued_us, x, y);
    SAME(updated_us, x, y);
    SAME(published_us, x, y);
}

static void same_rows(const ef_row_list *x, const ef_row_list *y)
{
    SAME(count, x, y);
    for (size_t i = 0; i < x->count; i++)
        same_row(&x->items[i], &y->items[i]);
    same_int("next", x->next[0] != 0, y->next[0] != 0);
}

/* --- events ----------------------------------------------------------------------------------- */

static void op_append(pair *p)
{
    ef_new_event events[4];
    ef_place x[4], y[4];
    char ids[4][16];
    size_t count = 1 + draw(p, 4);

    for (size_t i = 0; i < count; i++) {
        events[i] = event_of(PICK(p, streams), PICK(p, types));
        events[i].tenant = str(PICK(p, tenants));
        events[i].data = str(once_in(p, 2) ? "{\"n\":1}" : "[1, 2]");
        if (once_in(p, 3)) {
            (void)snprintf(ids[i], sizeof ids[i], "id-%d", (int)draw(p, 200));
            events[i].id = str(ids[i]);
        }
        if (once_in(p, 6))
            events[i].expected_seq.plus_one = (int64_t)draw(p, 30);
    }
    ef_status st = BOTH(ef_journal_append(p->a.journal, events, count, x, &p->a.err),
                        ef_journal_append(p->b.journal, events, count, y, &p->b.err));

    if (st == EF_CONFLICT)
        SAME(found, &p->a.err, &p->b.err);
    if (st != EF_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        SAME(seq, &x[i], &y[i]);
        SAME(position, &x[i], &y[i]);
        SAME(duplicate, &x[i], &y[i]);
    }
}

static void op_read_stream(pair *p)
{
    ef_batch x = EF_BATCH_INIT, y = EF_BATCH_INIT;
    ef_str tenant = str(PICK(p, tenants)), stream = str(PICK(p, streams));
    int64_t from = 1 + (int64_t)draw(p, 60);
    size_t limit = 1 + draw(p, 20);

    BOTH(ef_journal_read_stream(p->a.journal, tenant, stream, from, limit, &x, &p->a.err),
         ef_journal_read_stream(p->b.journal, tenant, stream, from, limit, &y, &p->b.err));
    same_batch(&x, &y);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_read_log(pair *p)
{
    static const char *const filters[] = {"", "", "order.*", "old", "cart.filled", "none"};
    ef_batch x = EF_BATCH_INIT, y = EF_BATCH_INIT;
    ef_log_query query = {.tenant = str(PICK(p, tenants)),
                          .any_tenant = once_in(p, 2),
                          .after = (int64_t)draw(p, 1000),
                          .type = str(PICK(p, filters)),
                          .limit = 1 + draw(p, 50)};

    BOTH(ef_journal_read_log(p->a.journal, &query, &x, &p->a.err),
         ef_journal_read_log(p->b.journal, &query, &y, &p->b.err));
    same_batch(&x, &y);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_read_id(pair *p)
{
    ef_batch x = EF_BATCH_INIT, y = EF_BATCH_INIT;
    ef_str tenant = str(PICK(p, tenants));
    char id[16];

    (void)snprintf(id, sizeof id, "id-%d", (int)draw(p, 200));
    BOTH(ef_journal_read_id(p->a.journal, tenant, str(id), &x, &p->a.err),
         ef_journal_read_id(p->b.journal, tenant, str(id), &y, &p->b.err));
    same_batch(&x, &y);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_streams(pair *p)
{
    ef_stream_list x = {0}, y = {0};
    ef_str tenant = str(PICK(p, tenants));
    bool any = once_in(p, 2);
    size_t limit = 1 + draw(p, 40);

    BOTH(ef_stream_ls(p->a.journal, tenant, any, str(""), limit, &x, &p->a.err),
         ef_stream_ls(p->b.journal, tenant, any, str(""), limit, &y, &p->b.err));
    SAME(count, &x, &y);
    for (size_t i = 0; i < x.count; i++) {
        SAME_STR(tenant, &x.items[i], &y.items[i]);
        SAME_STR(name, &x.items[i], &y.items[i]);
        SAME(seq, &x.items[i], &y.items[i]);
        SAME(position, &x.items[i], &y.items[i]);
    }
    same_int("next", x.next[0] != 0, y.next[0] != 0);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_type(pair *p)
{
    ef_type type = {
        .name = str(PICK(p, types)), .intent = (ef_intent)draw(p, 3), .publish = once_in(p, 2)};
    ef_type_list x = {0}, y = {0};

    if (ef_str_equal(type.name, str("old")))
        type.alias_of = str("order.placed");
    BOTH(ef_type_set(p->a.journal, &type, &p->a.err), ef_type_set(p->b.journal, &type, &p->b.err));
    BOTH(ef_type_ls(p->a.journal, NULL, &x, &p->a.err),
         ef_type_ls(p->b.journal, NULL, &y, &p->b.err));
    SAME(count, &x, &y);
    for (size_t i = 0; i < x.count; i++) {
        SAME_STR(name, &x.items[i], &y.items[i]);
        SAME_STR(alias_of, &x.items[i], &y.items[i]);
        SAME(intent, &x.items[i], &y.items[i]);
        SAME(publish, &x.items[i], &y.items[i]);
    }
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_lane(pair *p)
{
    ef_lane lane = {.name = str("mail"),
                    .kind = EF_LANE_KIND_PUBLISHER,
                    .enabled = !once_in(p, 3),
                    .types = str(once_in(p, 2) ? "" : "order.*"),
                    .retain_us = once_in(p, 4) ? 0 : 60 * SECOND};

    BOTH(ef_lane_set(p->a.journal, &lane, &p->a.err), ef_lane_set(p->b.journal, &lane, &p->b.err));
}

/* --- leases ----------------------------------------------------------------------------------- */

static void op_time(pair *p)
{
    int64_t us = (int64_t)draw(p, 4) * SECOND + (int64_t)draw(p, 1000);

    pass_time(&p->a, us);
    pass_time(&p->b, us);
}

static void op_lease(pair *p)
{
    bool mail = once_in(p, 3);
    int32_t partition = (int32_t)draw(p, mail ? EF_LIMIT_PUBLISHER_PARTITIONS : PARTITIONS);
    ef_lease_key key = partition_key(partition);
    ef_partition_lease *held = mail ? &p->mail[partition] : &p->held[partition];
    ef_str owner = str(PICK(p, owners));
    int64_t x = 0, y = 0, until_x = 0, until_y = 0;

    if (mail)
        key = (ef_lease_key){EF_LEASE_PUBLISHER, str("mail"), partition};
    if (once_in(p, 8)) {
        BOTH(ef__lease_release_one(p->a.journal, &key, held->token, &p->a.err),
             ef__lease_release_one(p->b.journal, &key, held->token, &p->b.err));
        return;
    }
    if (BOTH(ef__lease_acquire_one(p->a.journal, &key, owner, 5000, &x, &until_x, &p->a.err),
             ef__lease_acquire_one(p->b.journal, &key, owner, 5000, &y, &until_y, &p->b.err)) !=
        EF_OK) {
        SAME(found, &p->a.err, &p->b.err);
        return;
    }
    same_int("token", x, y);
    same_int("until", until_x, until_y);
    held->partition = partition;
    held->token = x;
}

/* --- the outbox ------------------------------------------------------------------------------- */

/* The retry row of a claimed row, if any: most rows are done. Returns false without one. */
static bool judge(pair *p, const ef_claimed_row *item, bool due, bool mail, ef_retry_row *out)
{
    static const ef_row_status ends[] = {EF_ROW_FAILED, EF_ROW_DEAD, EF_ROW_PENDING, EF_ROW_FAILED};

    *out = (ef_retry_row){.lane = due ? item->lane : str(mail ? "mail" : PICK(p, lanes)),
                          .position = item->event->position,
                          .attempts = item->attempts + 1,
                          .error = str("it went wrong")};
    if (due && (item->skip || once_in(p, 2))) {
        out->status = EF_ROW_DONE;
        return true;
    }
    out->status = PICK(p, ends);
    if (once_in(p, 2))
        out->due_us = atomic_load(&p->a.now_us) + (int64_t)draw(p, 5) * SECOND;
    return due || once_in(p, 4);
}

static void settle(pair *p, bool mail, bool due, ef_partition_lease *held, size_t count,
                   const ef_claimed_batch *batch)
{
    ef_str lane = str(mail ? "mail" : "*");
    ef_retry_row retry_rows[32];
    size_t retry_row_count = 0;
    /* Sometimes only a part is acknowledged, sometimes more than was claimed. */
    size_t upto = once_in(p, 4) ? batch->count / 2 : batch->count;

    for (size_t i = 0; i < upto; i++) {
        for (size_t h = 0; h < count && !due; h++)
            if (held[h].partition == batch->items[i].partition)
                held[h].upto = batch->items[i].event->position + once_in(p, 40);
        if (judge(p, &batch->items[i], due, mail, &retry_rows[retry_row_count]))
            retry_row_count++;
    }
    BOTH(test_ack(p->a.journal, lane, held, count, retry_rows, retry_row_count, &p->a.err),
         test_ack(p->b.journal, lane, held, count, retry_rows, retry_row_count, &p->b.err));
}

static void op_take(pair *p)
{
    bool mail = once_in(p, 3), due = once_in(p, 2);
    ef_str lane = str(mail ? "mail" : due ? "" : "*");
    ef_partition_lease held[EF_LIMIT_PUBLISHER_PARTITIONS];
    ef_claimed_batch x = EF_CLAIMED_BATCH_INIT, y = EF_CLAIMED_BATCH_INIT;
    size_t limit = 1 + draw(p, 30), count = 0;

    for (int i = 0; i < (mail ? EF_LIMIT_PUBLISHER_PARTITIONS : PARTITIONS); i++) {
        ef_partition_lease *from = mail ? &p->mail[i] : &p->held[i];
        if (from->token && !once_in(p, 3))
            held[count++] = (ef_partition_lease){i, from->token, 0};
    }
    if (BOTH((due ? test_claim_due : test_claim)(p->a.journal, lane, held, count, limit, &x,
                                                 &p->a.err),
             (due ? test_claim_due : test_claim)(p->b.journal, lane, held, count, limit, &y,
                                                 &p->b.err)) == EF_OK) {
        SAME(count, &x, &y);
        SAME(more, &x, &y);
        for (size_t i = 0; i < x.count; i++) {
            same_event(x.items[i].event, y.items[i].event);
            SAME_STR(lane, &x.items[i], &y.items[i]);
            SAME(partition, &x.items[i], &y.items[i]);
            SAME(attempts, &x.items[i], &y.items[i]);
            SAME(suspect, &x.items[i], &y.items[i]);
            SAME(skip, &x.items[i], &y.items[i]);
        }
        if (!once_in(p, 4)) {
            if (once_in(p, 5))
                op_time(p); /* the lease may expire between claim and ack */
            settle(p, mail, due, held, count, &x);
        }
    }
    ef__claimed_batch_release(&x);
    ef__claimed_batch_release(&y);
}

static ef_outbox_query any_query(pair *p, ef_row_status *status)
{
    static const char *const asked[] = {"", "", "*", "orders", "other", "mail", "nobody"};
    ef_outbox_query query = {.lane = str(PICK(p, asked)),
                             .tenant = str(PICK(p, tenants)),
                             .any_tenant = !once_in(p, 3),
                             .blocked_only = once_in(p, 8),
                             .limit = draw(p, 20)};

    *status = (ef_row_status)draw(p, EF_ROW_DONE + 1);
    if (*status == EF_ROW_DONE)
        *status = EF_ROW_PUBLISHED;
    if (once_in(p, 3))
        query.status = status;
    return query;
}

/* Page through both, each with its own cursor. */
static void op_rows(pair *p)
{
    ef_row_status status;
    ef_outbox_query query = any_query(p, &status);
    ef_row_list x = {0}, y = {0};
    char after_x[EF_CURSOR_MAX] = "", after_y[EF_CURSOR_MAX] = "";

    do {
        query.after = str(after_x);
        ef_status st = ef_outbox_ls(p->a.journal, &query, &x, &p->a.err);
        query.after = str(after_y);
        (void)both(p, "ef_outbox_ls", st, ef_outbox_ls(p->b.journal, &query, &y, &p->b.err));
        same_rows(&x, &y);
        (void)snprintf(after_x, sizeof after_x, "%s", x.next);
        (void)snprintf(after_y, sizeof after_y, "%s", y.next);
    } while (after_x[0]);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_summary(pair *p)
{
    ef_row_status status;
    ef_outbox_query query = any_query(p, &status);
    ef_outbox_summary x = {0}, y = {0};

    BOTH(ef_outbox_summarise(p->a.journal, &query, &x, &p->a.err),
         ef_outbox_summarise(p->b.journal, &query, &y, &p->b.err));
    SAME(pending, &x, &y);
    SAME(processing, &x, &y);
    SAME(failed, &x, &y);
    SAME(dead, &x, &y);
    SAME(blocked, &x, &y);
    SAME(blocked_oldest_us, &x, &y);
    same_rows(&x.oldest, &y.oldest);
    EF_RELEASE(&x.oldest);
    EF_RELEASE(&y.oldest);
}

static void op_act(pair *p)
{
    ef_row_status dead = EF_ROW_DEAD;
    ef_outbox_query query = {
        .any_tenant = true, .status = once_in(p, 2) ? &dead : NULL, .limit = 50};
    ef_row_list rows = {0}, x = {0}, y = {0};
    ef_outbox_action act = {.actor = str("ana"),
                            .reason = str("because"),
                            .versions = (const int32_t[]){2, 3},
                            .version_count = 2};
    size_t limit = 1 + draw(p, 3);

    CHECK_STATUS(EF_OK, ef_outbox_ls(p->a.journal, &query, &rows, &p->a.err), &p->a.err);
    if (rows.count) {
        const ef_row *row = &rows.items[draw(p, rows.count)];
        act.tenant = row->tenant;
        act.stream = row->stream;
        act.seq = row->seq;
        act.lane = once_in(p, 4) ? str("") : row->lane;
    } else {
        act.stream = str("a");
        act.seq = 1;
    }
    if (once_in(p, 4))
        BOTH(ef_outbox_requeue_dead(
                 p->a.journal,
                 &(ef_outbox_bulk){.lane = act.lane, .actor = act.actor, .limit = (int64_t)limit},
                 NULL, &x, &p->a.err),
             ef_outbox_requeue_dead(
                 p->b.journal,
                 &(ef_outbox_bulk){.lane = act.lane, .actor = act.actor, .limit = (int64_t)limit},
                 NULL, &y, &p->b.err));
    else if (once_in(p, 2))
        BOTH(ef__outbox_skip(p->a.journal, &act, &x, &p->a.err),
             ef__outbox_skip(p->b.journal, &act, &y, &p->b.err));
    else
        BOTH(ef_outbox_requeue(p->a.journal, &act, &x, &p->a.err),
             ef_outbox_requeue(p->b.journal, &act, &y, &p->b.err));
    same_rows(&x, &y);
    EF_RELEASE(&rows);
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_acts(pair *p)
{
    ef_audit_list x = {0}, y = {0};
    size_t limit = 1 + draw(p, 30);

    BOTH(ef_audit_ls(p->a.journal, &(ef_audit_query){.limit = (int64_t)limit}, &x, &p->a.err),
         ef_audit_ls(p->b.journal, &(ef_audit_query){.limit = (int64_t)limit}, &y, &p->b.err));
    SAME(count, &x, &y);
    for (size_t i = 0; i < x.count; i++) {
        SAME_STR(action, &x.items[i], &y.items[i]);
        SAME_STR(lane, &x.items[i], &y.items[i]);
        SAME_STR(stream, &x.items[i], &y.items[i]);
        SAME(seq, &x.items[i], &y.items[i]);
        SAME(at_us, &x.items[i], &y.items[i]);
    }
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

/* --- workers and runs ------------------------------------------------------------------------- */

static void op_worker(pair *p)
{
    ef_worker worker = {.id = str(PICK(p, owners)), .host = str("h"), .pid = 1};
    ef_worker_list x = {0}, y = {0};
    int64_t purged_x = 0, purged_y = 0;

    if (once_in(p, 4))
        BOTH(ef__worker_leave(p->a.journal, worker.id, &p->a.err),
             ef__worker_leave(p->b.journal, worker.id, &p->b.err));
    else if (once_in(p, 4))
        BOTH(ef__worker_purge(p->a.journal, 2000, 5000, &purged_x, &p->a.err),
             ef__worker_purge(p->b.journal, 2000, 5000, &purged_y, &p->b.err));
    else
        BOTH(worker_heartbeat(p->a.journal, &worker, 3000, &p->a.err),
             worker_heartbeat(p->b.journal, &worker, 3000, &p->b.err));
    same_int("purged", purged_x, purged_y);
    BOTH(ef_worker_ls(p->a.journal, &x, &p->a.err), ef_worker_ls(p->b.journal, &y, &p->b.err));
    SAME(count, &x, &y);
    for (size_t i = 0; i < x.count; i++) {
        SAME_STR(id, &x.items[i], &y.items[i]);
        SAME(started_us, &x.items[i], &y.items[i]);
        SAME(heartbeat_until_us, &x.items[i], &y.items[i]);
        SAME(live, &x.items[i], &y.items[i]);
    }
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void file_run(pair *p)
{
    ef_run run = {.projection = str(PICK(p, lanes)), .total = -1};
    ef_run_list x = {0}, y = {0};

    if (BOTH(ef__run_request(p->a.journal, &run, &x, &p->a.err),
             ef__run_request(p->b.journal, &run, &y, &p->b.err)) == EF_OK) {
        (void)snprintf(p->run, sizeof p->run, "%.*s", EF_STR_ARG(x.items[0].id));
        (void)snprintf(p->run_b, sizeof p->run_b, "%.*s", EF_STR_ARG(y.items[0].id));
    }
    EF_RELEASE(&x);
    EF_RELEASE(&y);
}

static void op_run(pair *p)
{
    ef_run x = {.state = (ef_run_state)draw(p, 5), .processed = (int64_t)draw(p, 9)}, y;
    ef_lease_key key = partition_key(0);
    ef_run_list rows_x = {0}, rows_y = {0};
    bool leased = x.state != EF_RUN_CANCELLED || once_in(p, 2);

    if (!p->run[0] || once_in(p, 3)) {
        file_run(p);
        return;
    }
    if (!p->held[0].token)
        return;
    y = x;
    x.id = str(p->run);
    y.id = str(p->run_b);
    BOTH(ef__run_update(p->a.journal, &x, leased ? &key : NULL, p->held[0].token, &p->a.err),
         ef__run_update(p->b.journal, &y, leased ? &key : NULL, p->held[0].token, &p->b.err));
    BOTH(ef_run_ls(p->a.journal, &(ef_run_query){.limit = 100}, &rows_x, &p->a.err),
         ef_run_ls(p->b.journal, &(ef_run_query){.limit = 100}, &rows_y, &p->b.err));
    SAME(count, &rows_x, &rows_y);
    for (size_t i = 0; i < rows_x.count; i++) {
        SAME(state, &rows_x.items[i], &rows_y.items[i]);
        SAME(started_us, &rows_x.items[i], &rows_y.items[i]);
        SAME(finished_us, &rows_x.items[i], &rows_y.items[i]);
        SAME(processed, &rows_x.items[i], &rows_y.items[i]);
        SAME_STR(projection, &rows_x.items[i], &rows_y.items[i]);
    }
    EF_RELEASE(&rows_x);
    EF_RELEASE(&rows_y);
}

/* --- the sequence ----------------------------------------------------------------------------- */

static void op_reopen(pair *p)
{
    reopen(&p->b);
}

/* How often an operation comes, out of the sum of all. */
static const struct operation {
    const char *name;
    void (*run)(pair *p);
    uint64_t weight;
} operations[] = {
    {"append", op_append, 8},
    {"take", op_take, 6},
    {"lease", op_lease, 4},
    {"time", op_time, 2},
    {"read_stream", op_read_stream, 1},
    {"read_log", op_read_log, 1},
    {"read_id", op_read_id, 1},
    {"rows", op_rows, 2},
    {"summary", op_summary, 2},
    {"act", op_act, 2},
    {"streams", op_streams, 1},
    {"type", op_type, 1},
    {"lane", op_lane, 1},
    {"acts", op_acts, 1},
    {"worker", op_worker, 1},
    {"run", op_run, 1},
};
enum { OPERATION_KINDS = sizeof operations / sizeof operations[0] };

static const struct operation *next_operation(pair *p)
{
    uint64_t sum = 0, at;

    for (size_t i = 0; i < OPERATION_KINDS; i++)
        sum += operations[i].weight;
    at = draw(p, sum);
    for (size_t i = 0; i < OPERATION_KINDS; i++) {
        if (at < operations[i].weight)
            return &operations[i];
        at -= operations[i].weight;
    }
    return &operations[0];
}

static const char *other = "sqlite";

static uint64_t seed_of_this_run(void)
{
    const char *given = getenv("CONTRACT_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    return seed ? seed : 1;
}

static void run_sequence(pair *p)
{
    ef_verify_result result;

    op_lane(p);
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *next = next_operation(p);
        doing_number = i;
        doing_name = next->name;
        next->run(p);
        if (once_in(p, 300))
            op_reopen(p);
    }
    BOTH(ef_journal_verify(p->a.journal, 0, NULL, NULL, &result, &p->a.err),
         ef_journal_verify(p->b.journal, 0, NULL, NULL, &result, &p->b.err));
    same_int("head", head_of(&p->a), head_of(&p->b));
}

TEST(the_other_answers_as_the_model_does)
{
    pair *p = calloc(1, sizeof *p);
    uint64_t seed = seed_of_this_run();

    /* Printed before, for a failed check does not come back here. */
    print_message("# seed %" PRIu64 " (set CONTRACT_SEED to repeat)\n", seed);
    p->random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
    contract_open(&p->a, "memory");
    contract_open(&p->b, other);
    run_sequence(p);
    contract_close(&p->a);
    contract_close(&p->b);
    free(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST_CASE(the_other_answers_as_the_model_does)};

    if (argc > 1)
        other = argv[1];
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
