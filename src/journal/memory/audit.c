/*
 * audit.c - the memory journal's audit log: what operators did.
 */
#include "memory.h"

void ef__mem_audit_free(mem_audit_entry *entry)
{
    ef__mem_text_free(&entry->action);
    ef__mem_text_free(&entry->actor);
    ef__mem_text_free(&entry->reason);
    ef__mem_text_free(&entry->lane);
    ef__mem_text_free(&entry->tenant);
    ef__mem_text_free(&entry->stream);
}

ef_status ef__mem_audit_append(mem_journal *mem, const ef_audit_entry *entry, int64_t rows,
                               ef_error *err)
{
    mem_audit_entry made = {.id = (int64_t)mem->audit_count + 1,
                            .at_us = ef__mem_now(mem),
                            .seq = entry->seq,
                            .rows = rows};

    if (!ef__mem_grow((void **)&mem->audit, &mem->audit_cap, mem->audit_count,
                      sizeof *mem->audit) ||
        !ef__mem_text_set(&made.action, entry->action) ||
        !ef__mem_text_set(&made.actor, entry->actor) ||
        !ef__mem_text_set(&made.reason, entry->reason) ||
        !ef__mem_text_set(&made.lane, entry->lane) ||
        !ef__mem_text_set(&made.tenant, entry->tenant) ||
        !ef__mem_text_set(&made.stream, entry->stream)) {
        ef__mem_audit_free(&made);
        return ef__mem_no_memory(err);
    }
    mem->audit[mem->audit_count++] = made;
    return EF_OK;
}

ef_status ef__mem_audit_add(ef_journal *journal, const ef_audit_entry *entry, ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = ef__mem_audit_append(mem, entry, 0, err);

    ef__mem_unlock(mem);
    return st;
}

static bool matches_query(const mem_audit_entry *entry, const ef_audit_query *query)
{
    return entry->id > query->after && entry->id < query->before &&
           (!query->action.len || ef_str_equal(entry->action, query->action)) &&
           (!query->lane.len || ef_str_equal(entry->lane, query->lane)) &&
           (!query->tenant || (ef_str_equal(entry->tenant, *query->tenant) &&
                               (entry->tenant.len || entry->stream.len)));
}

static ef_status list_entries(const mem_journal *mem, const ef_audit_query *query,
                              ef_audit_list *out, ef_error *err)
{
    ef__arena *arena = &out->room->arena;
    size_t most = mem->audit_count < query->limit ? mem->audit_count : query->limit, i = 0;
    ef_audit_entry *items = ef__arena_zalloc(arena, most + 1, sizeof *items);

    if (!items)
        return ef__no_memory(err);
    for (size_t at = mem->audit_count; at-- > 0 && i < most;) {
        const mem_audit_entry *entry = &mem->audit[at];
        if (!matches_query(entry, query))
            continue;
        items[i] = *entry;
        items[i].action = ef__arena_copy(arena, entry->action);
        items[i].actor = ef__arena_copy(arena, entry->actor);
        items[i].reason = ef__arena_copy(arena, entry->reason);
        items[i].lane = ef__arena_copy(arena, entry->lane);
        items[i].tenant = ef__arena_copy(arena, entry->tenant);
        items[i].stream = ef__arena_copy(arena, entry->stream);
        if (!items[i].action.ptr || !items[i].actor.ptr || !items[i].reason.ptr ||
            !items[i].lane.ptr || !items[i].tenant.ptr || !items[i].stream.ptr)
            return ef__no_memory(err);
        i++;
    }
    out->items = items;
    out->count = i;
    return EF_OK;
}

ef_status ef__mem_audit_ls(ef_journal *journal, const ef_audit_query *query, ef_audit_list *out,
                           ef_error *err)
{
    mem_journal *mem = ef__mem_lock(journal);
    ef_status st = list_entries(mem, query, out, err);

    ef__mem_unlock(mem);
    return st;
}
