/*
 * record.c - the records of a journal on SQLite: event types, runs, the audit log and skips.
 */
#include "outbox.h"

#include "../../base/same.h"
#include "../../core/run_rule.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- types ------------------------------------------------------------------------------------ */

static ef_status add_type(ef__sq_conn *conn, ef_str name, ef_error *err)
{
    return sq_run_type_add(conn, name, EF_INTENT_PROJECTION_AND_REPLAY, err);
}

/* The canonical type of an alias is not an alias itself, so one step resolves it. */
static ef_status check_alias(ef__sq_conn *conn, const ef_type *type, ef_error *err)
{
    struct sq_type_alias_check_row found = {0};
    ef_status st = sq_one_type_alias_check(conn, type, &found, NULL, err);

    if (st == EF_OK && found.has_alias)
        return ef__refuse_alias(type->name, err);
    if (st == EF_OK && found.alias_of_alias)
        return ef__refuse_alias_of_alias(type->name, type->alias_of, err);
    return st == EF_OK ? add_type(conn, type->alias_of, err) : st;
}

static ef_status set_type(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err)
{
    const ef_type *type = asked;
    ef_status st = type->alias_of.len ? check_alias(conn, type, err) : EF_OK;

    (void)out;
    if (st == EF_OK)
        st = add_type(conn, type->name, err);
    if (st == EF_OK)
        st = sq_run_type_update(conn, type, err);
    if (st == EF_OK)
        st = ef__sq_run(conn, SQ_STATE_TYPES_CHANGED, err);
    if (st == EF_OK) {
        /* Read again in the next transaction: this one may still be rolled back. */
        pthread_mutex_lock(&store->state_lock);
        store->state.loaded = false;
        pthread_mutex_unlock(&store->state_lock);
    }
    return st;
}

static ef_status type_set(ef_journal *journal, const ef_type *type, ef_error *err)
{
    sq_job job = {.call = set_type, .asked = type, .queued.weight = 1};

    return sq_submit(sq_store_of(journal), &job, err);
}

static int by_name(const void *a, const void *b)
{
    return ef__str_compare(((const ef_type *)a)->name, ((const ef_type *)b)->name);
}

/* Adds the requested types. Called under the state lock. */
static ef_status list_types(sq_state *state, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    const sq_type *only = query->name.len ? sq_state_type(state, query->name) : NULL;
    size_t first = only ? (size_t)(only - state->types) : 0;
    size_t end = only ? first + 1 : query->name.len ? 0 : state->type_count;
    size_t most = query->not_folded ? state->types_not_folded : end - first;
    ef_type *items = ef__arena_zalloc(arena, most + 1, sizeof *items);

    out->items = items;
    for (size_t i = first; items && i < end && out->count < most; i++) {
        const sq_type *t = &state->types[i], *canonical = &state->types[t->canonical];
        if (query->not_folded && t->intent == EF_INTENT_PROJECTION_AND_REPLAY)
            continue;
        items[out->count] = (ef_type){
            .name = ef__arena_copy(arena, t->name),
            .intent = t->intent,
            .publish = t->publish,
            .alias_of = canonical == t ? (ef_str){"", 0} : ef__arena_copy(arena, canonical->name)};
        if (!items[out->count].name.ptr || !items[out->count].alias_of.ptr)
            return ef__no_memory(err);
        out->count++;
    }
    return items ? EF_OK : ef__no_memory(err);
}

static ef_status type_ls(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                         ef_error *err)
{
    sq_store *store = sq_store_of(journal);
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    if (st != EF_OK)
        return st;
    pthread_mutex_lock(&store->state_lock);
    st = list_types(&store->state, query, out, err);
    pthread_mutex_unlock(&store->state_lock);
    if (st == EF_OK)
        qsort((ef_type *)out->items, out->count, sizeof *out->items, by_name);
    return st;
}

/* --- runs -------------------------------------------------------------------------------------
 *
 * core/run_rule.h has the transitions; these functions check which caller may make them. A run
 * records the lease under which it was last driven, so that a cancellation without a lease can
 * check whether a worker still drives it.
 */

static ef_status list_runs(ef__sq_conn *conn, const ef_run_query *query, ef_run_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    int64_t limit = (int64_t)query->limit;

    if (query->id)
        return sq_list_run_get(conn, *query->id, arena, &out->items, &out->count, err);
    if (query->tenant)
        return sq_list_run_newest_tenant(conn, limit, *query->tenant, query->open_only, arena,
                                         &out->items, &out->count, err);
    if (query->open_only)
        return sq_list_run_newest_open(conn, limit, arena, &out->items, &out->count, err);
    return sq_list_run_newest(conn, limit, arena, &out->items, &out->count, err);
}

static ef_status run_ls(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                        ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? list_runs(&reader->conn, query, out, err) : st;
}

static ef_status check_scope(ef__sq_conn *conn, const ef_run *run, ef_error *err)
{
    ef__sq_rows rows = sq_each_run_open(
        conn, &(struct sq_run_open){.tenant = run->tenant, .projection = run->projection}, NULL,
        err);
    struct sq_run_open_row open;

    if (sq_next_run_open(&rows, &open))
        rows.status = ef__refuse_run(open.id, open.projection, (ef_run_state)open.state, err);
    return ef__sq_rows_end(&rows);
}

static ef_status file_run(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                          ef_error *err)
{
    const ef_run *run = asked;
    ef_status st = check_scope(conn, run, err);

    if (st == EF_OK)
        st = sq_run_run_file(conn, run, sq_now_us(store), err);
    return st == EF_OK ? list_runs(conn, &(ef_run_query){.id = &run->id}, out, err) : st;
}

static ef_status run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err)
{
    return sq_write(journal, file_run, run, out, err);
}

/* Reads a run, and checks that it may become `to`. */
static ef_status check_run(sq_store *store, ef__sq_conn *conn, ef_str id, ef_run_state to,
                           struct sq_run_driver_row *out, ef_error *err)
{
    bool found;
    ef_status st = sq_one_run_driver(conn, id, sq_clock_us(store), out, &found, err);

    if (st == EF_OK && !found)
        return ef__refuse_unknown("run", id, err);
    if (st == EF_OK && !ef__run_may_move((ef_run_state)out->state, to))
        return ef__refuse_run_state(id, (ef_run_state)out->state, to, err);
    return st;
}

typedef struct run_change {
    const ef_run *run;
    const ef_lease_key *lease;
    int64_t token;
} run_change;

static ef_status move_run(ef__sq_conn *conn, const run_change *change,
                          const struct sq_run_driver_row *is, int64_t now_us, ef_error *err)
{
    const ef_run *run = change->run;
    bool starts = is->state == EF_RUN_QUEUED && run->state == EF_RUN_RUNNING;
    struct sq_run_move move = {.run = run,
                               .started = starts ? now_us : is->started,
                               .finished = ef__run_is_open(run->state) ? 0 : now_us,
                               .lease_kind = -1};

    if (change->lease) {
        move.lease_kind = change->lease->kind;
        move.lease_name = change->lease->name;
        move.lease_partition = change->lease->partition;
    }
    return sq_run_run_move(conn, &move, err);
}

/* Under the token of the driver; or a cancellation while no worker drives it. */
static ef_status update_run(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                            ef_error *err)
{
    const run_change *change = asked;
    const ef_run *run = change->run;
    struct sq_run_driver_row is;
    ef_status st = check_run(store, conn, run->id, run->state, &is, err);

    (void)out;
    if (st == EF_OK && change->lease)
        st = sq_lease_check(store, conn, change->lease, change->token, err);
    else if (st == EF_OK && is.state == EF_RUN_RUNNING && is.driven)
        st = ef__refuse_driven_run(run->id, err);
    return st == EF_OK ? move_run(conn, change, &is, sq_now_us(store), err) : st;
}

static ef_status run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err)
{
    run_change change = {run, lease, token};

    return sq_count_refused(sq_store_of(journal),
                            sq_write(journal, update_run, &change, NULL, err));
}

static ef_status cancel_run(sq_store *store, ef__sq_conn *conn, const void *asked, void *out,
                            ef_error *err)
{
    ef_str id = *(const ef_str *)asked;
    struct sq_run_driver_row is;
    ef_status st = check_run(store, conn, id, EF_RUN_CANCELLED, &is, err);

    (void)out;
    return st == EF_OK ? sq_run_run_cancel(conn, id, sq_now_us(store), err) : st;
}

static ef_status run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    return sq_write(journal, cancel_run, &id, NULL, err);
}

/* --- the audit log and skips ------------------------------------------------------------------ */

static ef_status insert_audit(sq_store *store, ef__sq_conn *conn, const void *entry, void *out,
                              ef_error *err)
{
    (void)out;
    return sq_run_audit_insert(
        conn, &(struct sq_audit_insert){.at = sq_now_us(store), .entry = entry}, err);
}

static ef_status audit_add(ef_journal *journal, const ef_audit_entry *entry, ef_error *err)
{
    return sq_write(journal, insert_audit, entry, NULL, err);
}

static ef_status audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                          ef_error *err)
{
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_list_audit_newest(&reader->conn, query, query->tenant == NULL,
                                              query->tenant ? *query->tenant : EF_STR(""),
                                              &out->room->arena, &out->items, &out->count, err)
                       : st;
}

static ef_status insert_skip(sq_store *store, ef__sq_conn *conn, const void *entry, void *out,
                             ef_error *err)
{
    (void)out;
    return sq_run_skip_insert(conn, entry, sq_now_us(store), err);
}

static ef_status skip_add(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    return sq_write(journal, insert_skip, entry, NULL, err);
}

static ef_status skip_ls(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                         size_t limit, ef__skip_list *out, ef_error *err)
{
    struct sq_skip_after asked = {
        .projection = projection, .version = version, .after = after, .limit = (int64_t)limit};
    SQ_READER sq_reader *reader;
    ef_status st = sq_read_begin(journal, &reader, err);

    return st == EF_OK ? sq_list_skip_after(&reader->conn, &asked, &out->room->arena, &out->items,
                                            &out->count, err)
                       : st;
}

const ef__record_ops sq_record_ops = {
    .type_set = type_set,
    .type_ls = type_ls,
    .run_request = run_request,
    .run_update = run_update,
    .run_cancel = run_cancel,
    .run_ls = run_ls,
    .audit_add = audit_add,
    .audit_ls = audit_ls,
    .skip_add = skip_add,
    .skip_ls = skip_ls,
};
