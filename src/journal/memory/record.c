/*
 * record.c - the memory journal's records: event types, runs, the audit log, and skips, which are
 * events that versions of projections do not apply.
 *
 * core/run_rule.h decides which state of a run may follow which.
 */
#include "memory.h"

#include "../refusal.h"

#include "../../core/run_rule.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* --- types ------------------------------------------------------------------------------------ */

static const ef__texts type_texts = {
    3, {offsetof(mem_type, name), offsetof(mem_type, alias_of), offsetof(mem_type, tenant)}};

mem_type *ef__mem_type_find(const mem_journal *mem, ef_str name)
{
    for (size_t i = 0; i < mem->type_count; i++)
        if (ef_str_equal(mem->types[i].name, name))
            return &mem->types[i];
    return NULL;
}

ef_str ef__mem_type_canonical(const mem_journal *mem, ef_str name)
{
    const mem_type *type = ef__mem_type_find(mem, name);

    return type && type->alias_of.len ? type->alias_of : name;
}

static ef_status check_type_creation(const mem_journal *mem, ef_str tenant, ef_str type,
                                     ef_error *err)
{
    int64_t created = 0;

    for (size_t i = 0; i < mem->type_count; i++)
        created += !mem->types[i].registered && ef_str_equal(mem->types[i].tenant, tenant);
    return ef__type_create_check(&mem->base.options, tenant, type, created,
                                 (int64_t)mem->type_count, err);
}

void ef__mem_type_free(mem_type *type)
{
    ef__mem_texts_free(type, &type_texts);
}

/* `tenant`: the tenant whose append creates the type; NULL: the type is registered. */
static ef_status add_type(mem_journal *mem, ef_str name, const ef_str *tenant, mem_type **out,
                          ef_error *err)
{
    mem_type type = {.name = name, .tenant = tenant ? *tenant : (ef_str){0}, .registered = !tenant};

    if (!ef__mem_grow((void **)&mem->types, &mem->type_cap, mem->type_count + 1,
                      sizeof *mem->types) ||
        !ef__mem_texts_own(&type, &type_texts))
        return ef__mem_no_memory(err);
    mem->types[mem->type_count] = type;
    *out = &mem->types[mem->type_count++];
    return EF_OK;
}

ef_status ef__mem_type_create(mem_journal *mem, ef_str name, ef_str tenant, bool is_sealed,
                              ef_error *err)
{
    mem_type *type;
    ef_status st = EF_OK;

    if (ef__mem_type_find(mem, name))
        return EF_OK;
    if (mem->base.options.types_strict)
        return ef__refuse_unregistered_type(name, err);
    if (!is_sealed)
        st = check_type_creation(mem, tenant, name, err);
    return st == EF_OK ? add_type(mem, name, &tenant, &type, err) : st;
}

static ef_status check_alias(const mem_journal *mem, const ef_type *type, ef_error *err)
{
    const mem_type *target = ef__mem_type_find(mem, type->alias_of);

    if (target && target->alias_of.len)
        return ef__refuse_alias_of_alias(type->name, type->alias_of, err);
    for (size_t i = 0; i < mem->type_count; i++)
        if (ef_str_equal(mem->types[i].alias_of, type->name))
            return ef_fail(err, EF_BAD_INPUT,
                           "type \"%.*s\" cannot be an alias: \"%.*s\" is an alias of it",
                           EF_STR_ARG(type->name), EF_STR_ARG(mem->types[i].name));
    return EF_OK;
}

static ef_status set_type(ef_journal *journal, const ef_type *type, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_type *row = NULL;
    ef_status st;

    if (type->alias_of.len) {
        if ((st = check_alias(mem, type, err)) != EF_OK)
            return st;
        /* The canonical type is created too, so that it can be listed and set. */
        if (!ef__mem_type_find(mem, type->alias_of) &&
            (st = add_type(mem, type->alias_of, NULL, &row, err)) != EF_OK)
            return st;
    }
    row = ef__mem_type_find(mem, type->name);
    if (!row && (st = add_type(mem, type->name, NULL, &row, err)) != EF_OK)
        return st;
    if (!ef__mem_text_set(&row->alias_of, type->alias_of))
        return ef__mem_no_memory(err);
    row->intent = type->intent;
    row->publish = type->publish;
    return EF_OK;
}

static int compare_types(const void *a, const void *b)
{
    return ef__str_compare(((const ef_type *)a)->name, ((const ef_type *)b)->name);
}

static ef_status list_types(ef_journal *journal, const ef__type_query *query, ef_type_list *out,
                            ef_error *err)
{
    static const ef__texts listed = {2, {offsetof(ef_type, name), offsetof(ef_type, alias_of)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = 0; st == EF_OK && i < mem->type_count; i++) {
        const mem_type *type = &mem->types[i];
        if ((query->name.len && !ef_str_equal(type->name, query->name)) ||
            (query->not_folded && type->intent == EF_INTENT_PROJECTION_AND_REPLAY))
            continue;
        st =
            ef__list_add(out, (&(ef_type){type->name, type->intent, type->publish, type->alias_of}),
                         &listed, err);
    }
    if (out->count)
        qsort((void *)out->items, out->count, sizeof *out->items, compare_types);
    return st;
}

/* --- runs ------------------------------------------------------------------------------------- */

/* Offsets in ef_run, and in mem_run, which begins with one. */
static const ef__texts run_texts = {7,
                                    {offsetof(ef_run, id), offsetof(ef_run, projection),
                                     offsetof(ef_run, tenant), offsetof(ef_run, error),
                                     offsetof(ef_run, reason), offsetof(ef_run, requester),
                                     offsetof(ef_run, detail)}};

static ef_status list_found_runs(const mem_journal *mem, const ef_run_query *query,
                                 ef_run_list *out, ef_error *err)
{
    ef_status st = EF_OK;

    for (size_t i = mem->run_count; st == EF_OK && i-- > 0 && out->count < query->limit;) {
        const ef_run *run = &mem->runs[i].run;
        if ((query->open_only && !ef__run_is_open(run->state)) ||
            (query->id && !ef_str_equal(run->id, *query->id)) ||
            (query->tenant && !ef__run_is_of(run, *query->tenant)))
            continue;
        st = ef__list_add(out, run, &run_texts, err);
    }
    return st;
}

static ef_status list_runs(ef_journal *journal, const ef_run_query *query, ef_run_list *out,
                           ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    return list_found_runs(mem, query, out, err);
}

static ef_status add_run(mem_journal *mem, const ef_run *run, ef_error *err)
{
    mem_run made = {.run = *run};

    made.run.state = EF_RUN_QUEUED;
    made.run.requested_us = ef__mem_now(mem);
    made.run.started_us = made.run.finished_us = made.run.processed = made.run.last_position = 0;
    made.run.error = (ef_str){0};
    made.run.cancel = false;
    if (!ef__mem_grow((void **)&mem->runs, &mem->run_cap, mem->run_count + 1, sizeof *mem->runs) ||
        !ef__mem_texts_own(&made.run, &run_texts))
        return ef__mem_no_memory(err);
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

static ef_status request_run(ef_journal *journal, const ef_run *run, ef_run_list *out,
                             ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st;

    for (size_t i = 0; i < mem->run_count; i++) {
        const ef_run *other = &mem->runs[i].run;
        if (ef__run_is_open(other->state) && is_same_scope(other, run))
            return ef__refuse_run(other->id, other->projection, other->state, err);
    }
    if ((st = add_run(mem, run, err)) != EF_OK)
        return st;
    return list_found_runs(mem, &(ef_run_query){.id = &run->id, .limit = 1}, out, err);
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
            return ef__refuse_driven_run(run->run.id, err);
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

static ef_status change_run(mem_journal *mem, mem_run *row, const ef_run *run,
                            const ef_lease_key *lease, int64_t token, ef_error *err)
{
    ef_run *to = &row->run;
    int64_t now_us = ef__mem_now(mem);
    ef_status st;

    if (!ef__run_may_move(to->state, run->state))
        return ef__refuse_run_state(to->id, to->state, run->state, err);
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
    return ef__refuse_unknown("run", id, err);
}

static ef_status update_run(ef_journal *journal, const ef_run *run, const ef_lease_key *lease,
                            int64_t token, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(mem, run->id, &row, err);

    if (st == EF_OK)
        st = change_run(mem, row, run, lease, token, err);
    return st;
}

static ef_status cancel_run(ef_journal *journal, ef_str id, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    mem_run *row = NULL;
    ef_status st = find_run(mem, id, &row, err);

    if (st == EF_OK && !ef__run_may_move(row->run.state, EF_RUN_CANCELLED))
        st = ef__refuse_run_state(id, row->run.state, EF_RUN_CANCELLED, err);
    if (st == EF_OK) {
        row->run.cancel = true;
        if (row->run.state == EF_RUN_QUEUED) {
            row->run.state = EF_RUN_CANCELLED;
            row->run.finished_us = ef__mem_now(mem);
        }
    }
    return st;
}

/* --- the audit log ---------------------------------------------------------------------------- */

static const ef__texts audit_texts = {
    6,
    {offsetof(ef_audit_entry, action), offsetof(ef_audit_entry, actor),
     offsetof(ef_audit_entry, reason), offsetof(ef_audit_entry, lane),
     offsetof(ef_audit_entry, tenant), offsetof(ef_audit_entry, stream)}};

ef_status ef__mem_audit_append(mem_journal *mem, const ef_audit_entry *entry, int64_t rows,
                               ef_error *err)
{
    ef_audit_entry made = *entry;

    made.id = (int64_t)mem->audit_count + 1;
    made.at_us = ef__mem_now(mem);
    made.rows = rows;
    if (!ef__mem_grow((void **)&mem->audit, &mem->audit_cap, mem->audit_count + 1,
                      sizeof *mem->audit) ||
        !ef__mem_texts_own(&made, &audit_texts))
        return ef__mem_no_memory(err);
    mem->audit[mem->audit_count++] = made;
    return EF_OK;
}

static ef_status add_entry(ef_journal *journal, const ef_audit_entry *entry, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);

    return ef__mem_audit_append(mem, entry, 0, err);
}

static bool matches_query(const ef_audit_entry *entry, const ef_audit_query *query)
{
    return entry->id > query->after && entry->id < query->before &&
           (!query->action.len || ef_str_equal(entry->action, query->action)) &&
           (!query->lane.len || ef_str_equal(entry->lane, query->lane)) &&
           (!query->tenant || (ef_str_equal(entry->tenant, *query->tenant) &&
                               (entry->tenant.len || entry->stream.len)));
}

static ef_status list_entries(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                              ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t at = mem->audit_count; st == EF_OK && at-- > 0 && out->count < query->limit;)
        if (matches_query(&mem->audit[at], query))
            st = ef__list_add(out, &mem->audit[at], &audit_texts, err);
    return st;
}

/* --- skips ------------------------------------------------------------------------------------ */

static const ef__texts skip_texts = {
    3, {offsetof(mem_skip, projection), offsetof(mem_skip, tenant), offsetof(mem_skip, stream)}};

ef_status ef__mem_skip_append(mem_journal *mem, const ef__skip_entry *entry, ef_error *err)
{
    mem_skip made = {entry->projection, entry->tenant,  entry->stream,
                     entry->seq,        entry->version, false};

    if (!ef__mem_texts_own(&made, &skip_texts))
        return ef__mem_no_memory(err);
    assert(mem->skip_count < mem->skip_cap);
    mem->skips[mem->skip_count++] = made;
    return EF_OK;
}

ef_status ef__mem_skips_reserve(mem_journal *mem, size_t count, ef_error *err)
{
    return ef__mem_grow((void **)&mem->skips, &mem->skip_cap, mem->skip_count + count,
                        sizeof *mem->skips)
               ? EF_OK
               : ef__mem_no_memory(err);
}

static bool same_event(const mem_skip *a, const mem_skip *b)
{
    return a->seq == b->seq && ef_str_equal(a->stream, b->stream) &&
           ef_str_equal(a->tenant, b->tenant) && ef_str_equal(a->projection, b->projection);
}

static bool is_last_skip(const mem_journal *mem, size_t index)
{
    for (size_t i = index + 1; i < mem->skip_count; i++)
        if (mem->skips[i].version == mem->skips[index].version &&
            same_event(&mem->skips[i], &mem->skips[index]))
            return false;
    return true;
}

void ef__mem_skip_withdraw(mem_journal *mem, ef_str projection, const ef_event *event)
{
    mem_skip about = {projection, event->tenant, event->stream, event->seq, 0, false};
    size_t count = mem->skip_count;

    for (size_t i = 0; i < count; i++) {
        if (mem->skips[i].withdrawn || !same_event(&mem->skips[i], &about) || !is_last_skip(mem, i))
            continue;
        mem->skips[mem->skip_count] = mem->skips[i];
        mem->skips[mem->skip_count++].withdrawn = true;
    }
}

static ef_status add_skip(ef_journal *journal, const ef__skip_entry *entry, ef_error *err)
{
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = ef__mem_skips_reserve(mem, 1, err);

    if (st == EF_OK)
        st = ef__mem_skip_append(mem, entry, err);
    return st;
}

static ef_status list_skips(ef_journal *journal, ef_str projection, int32_t version, int64_t after,
                            size_t limit, ef__skip_list *out, ef_error *err)
{
    static const ef__texts listed = {2, {offsetof(ef__skip, tenant), offsetof(ef__skip, stream)}};
    MEM_LOCKED mem_journal *mem = ef__mem_lock(journal);
    ef_status st = EF_OK;

    for (size_t i = (size_t)after; st == EF_OK && i < mem->skip_count && out->count < limit; i++) {
        const mem_skip *s = &mem->skips[i];
        ef__skip item = {(int64_t)i + 1, s->tenant, s->stream, s->seq, s->withdrawn};
        if (s->version == version && ef_str_equal(s->projection, projection))
            st = ef__list_add(out, &item, &listed, err);
    }
    return st;
}

void ef__mem_records_release(mem_journal *mem)
{
    for (size_t i = 0; i < mem->type_count; i++)
        ef__mem_type_free(&mem->types[i]);
    for (size_t i = 0; i < mem->run_count; i++) {
        ef__mem_texts_free(&mem->runs[i].run, &run_texts);
        ef__mem_text_free(&mem->runs[i].key.name);
    }
    for (size_t i = 0; i < mem->audit_count; i++)
        ef__mem_texts_free(&mem->audit[i], &audit_texts);
    for (size_t i = 0; i < mem->skip_count; i++)
        if (!mem->skips[i].withdrawn)
            ef__mem_texts_free(&mem->skips[i], &skip_texts);
    free(mem->types);
    free(mem->runs);
    free(mem->audit);
    free(mem->skips);
}

const ef__record_ops ef__mem_record_ops = {
    .type_set = set_type,
    .type_ls = list_types,
    .run_request = request_run,
    .run_update = update_run,
    .run_cancel = cancel_run,
    .run_ls = list_runs,
    .audit_add = add_entry,
    .audit_ls = list_entries,
    .skip_add = add_skip,
    .skip_ls = list_skips,
};
