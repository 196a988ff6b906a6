/*
 * upgrade.c - fills in state that a view store of an earlier version lacks.
 *
 * The error policy, the target of a rollback, the times at which generations were superseded and
 * the retired versions were read from audit entries before they had a place in the view store. The
 * entries are in the journal, so the migration of a view store cannot read them: the engine does,
 * once, when it opens such a store for writing. This is the only code that reads audit entries to
 * decide.
 */
#include "engine_priv.h"

#include <stdlib.h>

#define ENTRIES_AT_ONCE 1000

/* The generations of one projection with their new values, and facts from its entries. */
typedef struct projection_upgrade {
    ef_engine *engine;
    ef__generation *generations;
    size_t count;
    int32_t active_number; /* 0: none is active */
    bool has_on_error;
} projection_upgrade;

static bool is_action(const ef_audit_entry *entry, const char *action)
{
    return ef_str_equal(entry->action, ef_str_from(action));
}

/* `entry` is the switch away from generation `entry->seq`. Entries are read newest first. */
static void note_switch(projection_upgrade *upgrade, const ef_audit_entry *entry)
{
    for (size_t i = 0; i < upgrade->count; i++) {
        ef__generation *generation = &upgrade->generations[i];
        if (generation->active && generation->replaced == EF__REPLACED_UNKNOWN &&
            entry->seq != upgrade->active_number)
            generation->replaced = (int32_t)entry->seq;
        if (!generation->active && generation->number == entry->seq && !generation->superseded_us)
            generation->superseded_us = entry->at_us;
    }
}

static ef_status note_entry(projection_upgrade *upgrade, const ef_audit_entry *entry, ef_error *err)
{
    ef_views *views = upgrade->engine->views;

    if (is_action(entry, "switch") || is_action(entry, "rollback"))
        note_switch(upgrade, entry);
    else if (is_action(entry, "retire"))
        return views->ops->version_retire(views, entry->lane, (int32_t)entry->seq, err);
    else if (is_action(entry, "on_error") && !upgrade->has_on_error) {
        upgrade->has_on_error = true;
        return views->ops->on_error_set(
            views, entry->lane,
            entry->seq == EF_ON_ERROR_SKIP ? EF_ON_ERROR_SKIP : EF_ON_ERROR_STOP, err);
    }
    return EF_OK;
}

static ef_status read_entries(projection_upgrade *upgrade, ef_error *err)
{
    ef_audit_query query = {.lane = upgrade->generations[0].name, .limit = ENTRIES_AT_ONCE};
    EF__AUTO(ef_audit_list) entries = {0};
    ef_status st;

    do {
        st = ef_audit_ls(upgrade->engine->journal, &query, &entries, err);
        for (size_t i = 0; st == EF_OK && i < entries.count; i++)
            st = note_entry(upgrade, &entries.items[i], err);
        query.before = st == EF_OK && entries.count ? entries.items[entries.count - 1].id : 0;
    } while (st == EF_OK && entries.count == ENTRIES_AT_ONCE);
    return st;
}

/* `replaced` is written last, because it shows that the generation is done: after a crash all
 * entries are read again. */
static ef_status upgrade_projection(projection_upgrade *upgrade, ef_error *err)
{
    ef_views *views = upgrade->engine->views;
    ef_status st;

    for (size_t i = 0; i < upgrade->count; i++)
        if (upgrade->generations[i].active)
            upgrade->active_number = upgrade->generations[i].number;
    st = read_entries(upgrade, err);
    for (size_t i = 0; st == EF_OK && i < upgrade->count; i++) {
        ef__generation *generation = &upgrade->generations[i];
        if (generation->replaced == EF__REPLACED_UNKNOWN)
            generation->replaced = 0;
        st = views->ops->generation_change(views, generation->id, generation->era,
                                           generation->state, generation, err);
        /* Another process has just opened the store, and does the same. */
        st = st == EF_CONFLICT || st == EF_NOT_FOUND ? EF_OK : st;
    }
    return st;
}

static bool is_old(const ef__generation *generations, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (generations[i].replaced == EF__REPLACED_UNKNOWN)
            return true;
    return false;
}

static size_t count_of_name(const ef__generation_list *list, size_t from)
{
    size_t count = 1;

    while (from + count < list->count &&
           ef_str_equal(list->items[from + count].name, list->items[from].name))
        count++;
    return count;
}

ef_status ef__views_upgrade(ef_engine *engine, ef_error *err)
{
    EF__AUTO(ef__generation_list) list = {0};
    ef__generation *items = NULL;
    ef_status st = ef__engine_generations(engine, (ef_str){0}, &list, err);

    if (st == EF_OK && is_old(list.items, list.count)) {
        items = calloc(list.count, sizeof *items);
        st = items ? EF_OK : ef__no_memory(err);
        if (items)
            memcpy(items, list.items, list.count * sizeof *items);
        for (size_t i = 0, count; st == EF_OK && i < list.count; i += count) {
            count = count_of_name(&list, i);
            if (is_old(&items[i], count))
                st = upgrade_projection(&(projection_upgrade){.engine = engine,
                                                              .generations = &items[i],
                                                              .count = count},
                                        err);
        }
    }
    free(items);
    return st;
}
