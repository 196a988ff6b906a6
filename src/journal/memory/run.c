/*
 * run.c - the memory journal's runs. core/run_rule.h decides which state may follow which.
 */
#include "memory.h"

#include "../../core/run_rule.h"

#include <inttypes.h>
#include <stdlib.h>

static ef_status copy_run(const ef_run *run, ef__arena *arena, ef_run *out, ef_error *err)
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
        return ef__no_memory(err);
    return EF_OK;
}

static ef_status list_runs(const mem_journal *mem, const ef__run_query *query, ef_run_list *out,
                           ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    size_t most = mem->run_count < query->limit ? mem->run_count : query->limit;
    ef_run *items = ef__arena_zalloc(arena, most + 1, sizeof *items);
    ef_status st = EF_OK;

    if (!items)
        return ef__no_memory(err);
    out->items = items;
    for (size_t i = mem->run_count; st == EF_OK && i-- > 0 && out->count < most;) {
        const ef_run *run = &mem->runs[i].run;
        if ((query->open_only && !ef__run_is_open(run->state)) ||
            (query->id.len && !ef_str_equal(run->id, query->id)) ||
            (query->tenant && !ef_run_is_of(run, *query->tenant)))
            continue;
        st = copy_run(run, arena, &items[out->count], err);
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

static ef_status add_run(mem_journal *mem, const ef_run *run, ef_error *err)
{
    mem_run made = {.run = {.mode = run->mode,
                            .state = EF_RUN_QUEUED,
                            .requested_us = ef__mem_now(mem),
                            .from = run->from,
                            .to = run->to,
                            .total = run->total}};

    if (!ef__mem_grow((void **)&mem->runs, &mem->run_cap, mem->run_count, sizeof *mem->runs) ||
        !ef__mem_text_set(&made.run.id, run->id) ||
        !ef__mem_text_set(&made.run.projection, run->projection) ||
        !ef__mem_text_set(&made.run.tenant, run->tenant) ||
        !ef__mem_text_set(&made.run.reason, run->reason) ||
        !ef__mem_text_set(&made.run.requester, run->requester) ||
        !ef__mem_text_set(&made.run.detail, run->detail)) {
        free_run(&made);
        return ef__mem_no_memory(err);
    }
    mem->runs[mem->run_count++] = made;
    return EF_OK;
}

/* Does an open run `other` exclude `run`? An empty projection means all projections. */
static bool is_same_scope(const ef_run *other, const ef_run *run)
{
    return ef_str_equal(other->tenant, run->tenant) &&
           (other->projection.len == 0 || run->projection.len == 0 ||
            ef_str_equal(other->projection, run->projection));
}

static ef_status request_run(mem_journal *mem, const ef_run *run, ef_run_list *out, ef_error *err)
{
    ef_status st;

    for (size_t i = 0; i < mem->run_count; i++) {
        const ef_run *other = &mem->runs[i].run;
        if (ef__run_is_open(other->state) && is_same_scope(other, run))
            return ef_fail(err, EF_EXISTS, "run %.*s of %s\"%.*s\" is %s", EF_STR_ARG(other->id),
                           other->projection.len ? "projection " : "all projections ",
                           EF_STR_ARG(other->projection), ef_run_state_name(other->state));
    }
    if ((st = add_run(mem, run, err)) != EF_OK)
        return st;
    return list_runs(mem, &(ef__run_query){.id = run->id, .limit = 1}, out, err);
}

ef_status ef__mem_run_request(ef_journal *journal, const ef_run *run, ef_run_list *out,
                              ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = request_run(mem, run, out, err);

    ef__mem_unlock(mem);
    return st;
}

/* A driver updates the run under its token. Without a lease, a run can be cancelled while no driver
 * works on it. */
static ef_status check_driver(mem_journal *mem, mem_run *run, const ef_lease_key *lease,
                              int64_t token, ef_error *err)
{
    int64_t found;
    ef_status st;

    if (!lease) {
        if (run->driven && run->run.state == EF_RUN_RUNNING &&
            ef__mem_lease_live(mem, &run->key, &found))
            return ef_fail(err, EF_CONFLICT, "run %.*s is being driven: its driver cancels it",
                           EF_STR_ARG(run->run.id));
        return EF_OK;
    }
    if ((st = ef__mem_token_check(mem, lease, token, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&run->key.name, lease->name))
        return ef__mem_no_memory(err);
    run->key.kind = lease->kind;
    run->key.partition = lease->partition;
    run->driven = true;
    return EF_OK;
}

static ef_status update_run(mem_journal *mem, mem_run *row, const ef_run *run,
                            const ef_lease_key *lease, int64_t token, ef_error *err)
{
    ef_run *to = &row->run;
    int64_t now_us = ef__mem_now(mem);
    ef_status st;

    if (!ef__run_may_move(to->state, run->state))
        return ef_fail(err, EF_CONFLICT, "run %.*s is %s and cannot become %s", EF_STR_ARG(to->id),
                       ef_run_state_name(to->state), ef_run_state_name(run->state));
    if ((st = check_driver(mem, row, lease, token, err)) != EF_OK)
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

static ef_status find_run(mem_journal *mem, ef_str id, mem_run **out, ef_error *err)
{
    for (size_t i = 0; i < mem->run_count; i++) {
        *out = &mem->runs[i];
        if (ef_str_equal(mem->runs[i].run.id, id))
            return EF_OK;
    }
    return ef_fail(err, EF_NOT_FOUND, "there is no run \"%.*s\"", EF_STR_ARG(id));
}

ef_status ef__mem_run_update(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                             int64_t token, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(mem, run->id, &row, err);

    if (st == EF_OK)
        st = update_run(mem, row, run, lease, token, err);
    ef__mem_unlock(mem);
    return st;
}

ef_status ef__mem_run_cancel(ef_journal *journal, ef_str id, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(mem, id, &row, err);

    if (st == EF_OK && !ef__run_may_move(row->run.state, EF_RUN_CANCELLED))
        st = ef_fail(err, EF_CONFLICT, "run %.*s is %s and cannot become cancelled", EF_STR_ARG(id),
                     ef_run_state_name(row->run.state));
    if (st == EF_OK) {
        row->run.cancel = true;
        if (row->run.state == EF_RUN_QUEUED) {
            row->run.state = EF_RUN_CANCELLED;
            row->run.finished_us = ef__mem_now(mem);
        }
    }
    ef__mem_unlock(mem);
    return st;
}

ef_status ef__mem_run_ls(ef_journal *journal, const ef__run_query *query, ef_run_list *out,
                         ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_runs(mem, query, out, err);

    ef__mem_unlock(mem);
    return st;
}

void ef__mem_runs_release(mem_journal *mem)
{
    for (size_t i = 0; i < mem->run_count; i++)
        free_run(&mem->runs[i]);
    free(mem->runs);
}
