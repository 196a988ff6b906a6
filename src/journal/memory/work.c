/*
 * work.c - the memory journal's workers and runs.
 */
#include "memory.h"

#include "../../core/run_rule.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- workers ---------------------------------------------------------------------------------- */

static size_t worker_at(const mem_journal *m, ef_str id, bool *found)
{
    size_t at = 0;

    while (at < m->worker_count && ef__mem_compare(m->workers[at].id, id) < 0)
        at++;
    *found = at < m->worker_count && ef_str_equal(m->workers[at].id, id);
    return at;
}

static void remove_worker(mem_journal *m, size_t at)
{
    ef__mem_text_free(&m->workers[at].id);
    ef__mem_text_free(&m->workers[at].host);
    m->worker_count--;
    memmove(&m->workers[at], &m->workers[at + 1], (m->worker_count - at) * sizeof *m->workers);
}

static ef_status add_worker(mem_journal *m, size_t at, ef_str id, ef_error *err)
{
    mem_worker made = {.started_us = ef__mem_now(m)};

    if (!ef__mem_grow((void **)&m->workers, &m->worker_cap, m->worker_count, sizeof *m->workers) ||
        !ef__mem_text_set(&made.id, id))
        return ef__mem_no_memory(err);
    memmove(&m->workers[at + 1], &m->workers[at], (m->worker_count - at) * sizeof *m->workers);
    m->workers[at] = made;
    m->worker_count++;
    return EF_OK;
}

ef_status ef__mem_worker_beat(mem_journal *m, const ef_worker *worker, int64_t heartbeat_ms,
                              ef_error *err)
{
    bool found;
    size_t at = worker_at(m, worker->id, &found);
    ef_status st;

    if (!found && (st = add_worker(m, at, worker->id, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&m->workers[at].host, worker->host))
        return ef__mem_no_memory(err);
    m->workers[at].pid = worker->pid;
    m->workers[at].state = worker->state == EF_WORKER_IDLE ? EF_WORKER_IDLE : EF_WORKER_WORKING;
    m->workers[at].updated_us = ef__mem_now(m);
    m->workers[at].heartbeat_until_us = m->workers[at].updated_us + heartbeat_ms * 1000;
    return EF_OK;
}

ef_status ef__mem_worker_leave(ef_journal *journal, ef_str id, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    bool found;
    size_t at = worker_at(m, id, &found);

    if (found)
        remove_worker(m, at);
    ef__mem_unlock(m);
    return EF_OK;
}

ef_status ef__mem_worker_purge(ef_journal *journal, int64_t older_than_ms, int64_t interval_ms,
                               int64_t *out_purged, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    int64_t now_us = ef__mem_now(m);

    *out_purged = 0;
    /* A clock that was set back must not stop the looking for as long as it was wrong. */
    if (m->purged_us == 0 || now_us < m->purged_us || now_us - m->purged_us >= interval_ms * 1000) {
        m->purged_us = now_us;
        for (size_t i = m->worker_count; i-- > 0;)
            if (m->workers[i].heartbeat_until_us < now_us - older_than_ms * 1000) {
                remove_worker(m, i);
                (*out_purged)++;
            }
    }
    ef__mem_unlock(m);
    return EF_OK;
}

static ef_status list_workers(const mem_journal *m, ef_worker_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    ef_worker *items = ef__arena_zalloc(arena, m->worker_count + 1, sizeof *items);

    if (!items)
        return ef__room_full(err);
    for (size_t i = 0; i < m->worker_count; i++) {
        items[i] = m->workers[i];
        items[i].id = ef__arena_copy(arena, m->workers[i].id);
        items[i].host = ef__arena_copy(arena, m->workers[i].host);
        ef__worker_judge(&items[i], ef__mem_now(m));
        if (!items[i].id.ptr || !items[i].host.ptr)
            return ef__room_full(err);
    }
    out->items = items;
    out->count = m->worker_count;
    return EF_OK;
}

ef_status ef__mem_worker_ls(ef_journal *journal, ef_worker_list *out, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = list_workers(m, out, err);

    ef__mem_unlock(m);
    return st;
}

/* --- throughput ------------------------------------------------------------------------------- */

/* The row of that minute, or where it belongs. */
static size_t minute_at(const mem_journal *m, int64_t at_us)
{
    size_t at = m->minute_count;

    while (at > 0 && m->minutes[at - 1].at_us >= at_us)
        at--;
    return at;
}

static void drop_old_minutes(mem_journal *m)
{
    int64_t newest_us = m->minute_count ? m->minutes[m->minute_count - 1].at_us : 0;
    size_t old = minute_at(m, newest_us - EF_THROUGHPUT_MINUTES * EF__MINUTE_US + 1);

    m->minute_count -= old;
    memmove(m->minutes, m->minutes + old, m->minute_count * sizeof *m->minutes);
}

ef_status ef__mem_throughput_add(mem_journal *m, const ef_throughput *minute, ef_error *err)
{
    size_t at = minute_at(m, minute->at_us);
    int64_t known = 0;
    ef_throughput *row;

    if (at == m->minute_count || m->minutes[at].at_us != minute->at_us) {
        if (!ef__mem_grow((void **)&m->minutes, &m->minute_cap, m->minute_count,
                          sizeof *m->minutes))
            return ef__mem_no_memory(err);
        memmove(&m->minutes[at + 1], &m->minutes[at], (m->minute_count - at) * sizeof *m->minutes);
        m->minutes[at] = (ef_throughput){.at_us = minute->at_us};
        m->minute_count++;
    }
    row = &m->minutes[at];
    for (size_t i = 0; i < m->minute_count; i++)
        known = m->minutes[i].position > known ? m->minutes[i].position : known;
    row->appended += minute->position > known ? minute->position - known : 0;
    row->position = minute->position > row->position ? minute->position : row->position;
    row->applied += minute->applied;
    row->published += minute->published;
    row->failed += minute->failed;
    row->dead += minute->dead;
    drop_old_minutes(m);
    return EF_OK;
}

ef_status ef__mem_throughput_ls(ef_journal *journal, int64_t from_us, ef_throughput_list *out,
                                ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    size_t first = minute_at(m, from_us), count = m->minute_count - first;
    ef_throughput *items = ef__arena_zalloc(&out->room->arena, count + 1, sizeof *items);

    if (items)
        memcpy(items, m->minutes + first, count * sizeof *items);
    ef__mem_unlock(m);
    out->items = items;
    out->count = items ? count : 0;
    return items ? EF_OK : ef__room_full(err);
}

/* --- runs ------------------------------------------------------------------------------------- */

static ef_status show_run(const ef_run *run, ef__arena *arena, ef_run *out, ef_error *err)
{
    *out = *run;
    out->id = ef__arena_copy(arena, run->id);
    out->projection = ef__arena_copy(arena, run->projection);
    out->tenant = ef__arena_copy(arena, run->tenant);
    out->error = ef__arena_copy(arena, run->error);
    out->reason = ef__arena_copy(arena, run->reason);
    out->requester = ef__arena_copy(arena, run->requester);
    out->detail = ef__arena_copy(arena, run->detail);
    if (!out->detail.ptr || !out->id.ptr || !out->projection.ptr || !out->tenant.ptr ||
        !out->error.ptr || !out->reason.ptr || !out->requester.ptr)
        return ef__room_full(err);
    return EF_OK;
}

static ef_status show_runs(const mem_journal *m, const ef__run_query *query, ef_run_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    size_t most = m->run_count < query->limit ? m->run_count : query->limit;
    ef_run *items = ef__arena_zalloc(arena, most + 1, sizeof *items);
    ef_status st = EF_OK;

    if (!items)
        return ef__room_full(err);
    out->items = items;
    for (size_t i = m->run_count; st == EF_OK && i-- > 0 && out->count < most;) {
        const ef_run *run = &m->runs[i].run;
        if ((query->open_only && !ef__run_is_open(run->state)) ||
            (query->id.len && !ef_str_equal(run->id, query->id)) ||
            (query->tenant && !ef_run_is_of(run, *query->tenant)))
            continue;
        st = show_run(run, arena, &items[out->count], err);
        out->count++;
    }
    return st;
}

static void free_run(mem_run *run)
{
    ef__mem_text_free(&run->run.id);
    ef__mem_text_free(&run->run.projection);
    ef__mem_text_free(&run->run.tenant);
    ef__mem_text_free(&run->run.error);
    ef__mem_text_free(&run->run.reason);
    ef__mem_text_free(&run->run.requester);
    ef__mem_text_free(&run->run.detail);
    ef__mem_text_free(&run->key.name);
}

static ef_status add_run(mem_journal *m, const ef_run *run, ef_error *err)
{
    mem_run made = {.run = {.mode = run->mode,
                            .state = EF_RUN_QUEUED,
                            .requested_us = ef__mem_now(m),
                            .from = run->from,
                            .to = run->to,
                            .total = run->total}};

    if (!ef__mem_grow((void **)&m->runs, &m->run_cap, m->run_count, sizeof *m->runs) ||
        !ef__mem_text_set(&made.run.id, run->id) ||
        !ef__mem_text_set(&made.run.projection, run->projection) ||
        !ef__mem_text_set(&made.run.tenant, run->tenant) ||
        !ef__mem_text_set(&made.run.reason, run->reason) ||
        !ef__mem_text_set(&made.run.requester, run->requester) ||
        !ef__mem_text_set(&made.run.detail, run->detail)) {
        free_run(&made);
        return ef__mem_no_memory(err);
    }
    m->runs[m->run_count++] = made;
    return EF_OK;
}

/* Does an open run of `other` keep one of `run` out? One over all projections has no name. */
static bool same_scope(const ef_run *other, const ef_run *run)
{
    return ef_str_equal(other->tenant, run->tenant) &&
           (other->projection.len == 0 || run->projection.len == 0 ||
            ef_str_equal(other->projection, run->projection));
}

static ef_status request(mem_journal *m, const ef_run *run, ef_run_list *out, ef_error *err)
{
    ef_status st;

    for (size_t i = 0; i < m->run_count; i++) {
        const ef_run *other = &m->runs[i].run;
        if (ef__run_is_open(other->state) && same_scope(other, run))
            return ef_fail(err, EF_EXISTS, "run %.*s of %s\"%.*s\" is %s", EF_STR_ARG(other->id),
                           other->projection.len ? "projection " : "all projections ",
                           EF_STR_ARG(other->projection), ef_run_state_name(other->state));
    }
    if ((st = add_run(m, run, err)) != EF_OK)
        return st;
    return show_runs(m, &(ef__run_query){.id = run->id, .limit = 1}, out, err);
}

ef_status ef__mem_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                              ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = request(m, run, out, err);

    ef__mem_unlock(m);
    return st;
}

/* May this caller move the run? Under the driver's token; or cancelling, when nobody drives it. */
static ef_status check_driver(mem_journal *m, mem_run *run, const ef_lease_key *lease,
                              int64_t token, ef_error *err)
{
    int64_t found;
    ef_status st;

    if (!lease) {
        if (run->driven && run->run.state == EF_RUN_RUNNING &&
            ef__mem_lease_live(m, &run->key, &found))
            return ef_fail(err, EF_CONFLICT, "run %.*s is being driven: its driver cancels it",
                           EF_STR_ARG(run->run.id));
        return EF_OK;
    }
    if ((st = ef__mem_token_check(m, lease, token, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&run->key.name, lease->name))
        return ef__mem_no_memory(err);
    run->key.kind = lease->kind;
    run->key.partition = lease->partition;
    run->driven = true;
    return EF_OK;
}

static ef_status update(mem_journal *m, mem_run *row, const ef_run *run, const ef_lease_key *lease,
                        int64_t token, ef_error *err)
{
    ef_run *to = &row->run;
    int64_t now_us = ef__mem_now(m);
    ef_status st;

    if (!ef__run_may_move(to->state, run->state))
        return ef_fail(err, EF_CONFLICT, "run %.*s is %s and cannot become %s", EF_STR_ARG(to->id),
                       ef_run_state_name(to->state), ef_run_state_name(run->state));
    if ((st = check_driver(m, row, lease, token, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&to->error, run->error) ||
        (run->detail.len && !ef__mem_text_set(&to->detail, run->detail)))
        return ef__mem_no_memory(err);
    if (to->state == EF_RUN_QUEUED && run->state == EF_RUN_RUNNING)
        to->started_us = now_us;
    if (!ef__run_is_open(run->state))
        to->finished_us = now_us;
    to->state = run->state;
    to->processed = run->processed;
    to->total = run->total;
    to->last_position = run->last_position;
    return EF_OK;
}

static ef_status find_run(mem_journal *m, ef_str id, mem_run **out, ef_error *err)
{
    for (size_t i = 0; i < m->run_count; i++) {
        *out = &m->runs[i];
        if (ef_str_equal(m->runs[i].run.id, id))
            return EF_OK;
    }
    return ef_fail(err, EF_NOT_FOUND, "there is no run \"%.*s\"", EF_STR_ARG(id));
}

ef_status ef__mem_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                             int64_t token, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(m, run->id, &row, err);

    if (st == EF_OK)
        st = update(m, row, run, lease, token, err);
    ef__mem_unlock(m);
    return st;
}

ef_status ef__mem_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(m, id, &row, err);

    if (st == EF_OK && !ef__run_may_move(row->run.state, EF_RUN_CANCELLED))
        st = ef_fail(err, EF_CONFLICT, "run %.*s is %s and cannot become cancelled", EF_STR_ARG(id),
                     ef_run_state_name(row->run.state));
    if (st == EF_OK) {
        row->run.cancel = true;
        if (row->run.state == EF_RUN_QUEUED) {
            row->run.state = EF_RUN_CANCELLED;
            row->run.finished_us = ef__mem_now(m);
        }
    }
    ef__mem_unlock(m);
    return st;
}

ef_status ef__mem_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                         ef_error *err)
{
    mem_journal *m = ef__mem_lock(journal);
    ef_status st = show_runs(m, query, out, err);

    ef__mem_unlock(m);
    return st;
}

void ef__mem_work_release(mem_journal *m)
{
    for (size_t i = 0; i < m->lease_count; i++) {
        ef__mem_text_free(&m->leases[i].key.name);
        ef__mem_text_free(&m->leases[i].owner);
    }
    while (m->worker_count > 0)
        remove_worker(m, m->worker_count - 1);
    for (size_t i = 0; i < m->run_count; i++)
        free_run(&m->runs[i]);
    free(m->leases);
    free(m->workers);
    free(m->minutes);
    free(m->runs);
}
