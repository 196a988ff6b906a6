/*
 * damage.c - a damaged journal refuses appends.
 *
 * The damage that a call finds is recorded in the store, where every process finds it before its
 * next append; the store's record is the truth, and an operator removes it (ef_journal_accept).
 * If it cannot be recorded, only this handle knows it: none -> noting -> known, which is final.
 * Reads continue, because undamaged events are still correct.
 */
#include "front_priv.h"

#include "../base/logger.h"
#include "../base/utf8.h"

#include <string.h>

enum { NONE, NOTING, KNOWN };

/* In err->asked of an append that was refused for damage that is known: no new damage was found.
 * Positions are not negative. */
#define REFUSED INT64_MIN

static void log_damage(ef_journal *journal, const char *text)
{
    if (!atomic_exchange(&journal->damage.logged, true))
        ef__log(journal->options.log, EF_LOG_ERROR, "the journal is damaged; appends are refused",
                EF_LOG_TEXT_FIELD("journal", ef_str_from(journal->shown)),
                EF_LOG_TEXT_FIELD("error", ef_str_from(text)));
}

static bool is_known_here(const ef_journal *journal)
{
    return atomic_load_explicit(&journal->damage.state, memory_order_acquire) == KNOWN;
}

static void cache_damage(ef_journal *journal, const ef__damage *damage)
{
    int none = NONE;

    if (!atomic_compare_exchange_strong(&journal->damage.state, &none, (int)NOTING))
        return;
    journal->damage.found = *damage;
    atomic_store(&journal->damage.state, (int)KNOWN);
}

static void record_damage(ef_journal *journal, const ef__damage *damage)
{
    ef_error why = EF_ERROR_INIT;
    bool can = journal->store->damage_set && !journal->options.archive;

    if (can && journal->store->damage_set(journal, damage, &why) == EF_OK)
        return;
    cache_damage(journal, damage);
    if (can)
        ef__log(journal->options.log, EF_LOG_WARN,
                "damage is not recorded in the store; other processes do not know of it",
                EF_LOG_TEXT_FIELD("error", ef_str_from(why.text)));
}

ef_status ef__damage_note(ef_journal *journal, ef_status st, const ef_error *err)
{
    const ef_clock *clock = journal->options.clock;
    ef__damage damage = {0};
    ef_str text;

    if (st != EF_DAMAGED || is_known_here(journal))
        return st;
    if (err && err->asked == REFUSED) {
        log_damage(journal, err->text);
        return st;
    }
    text = ef__utf8_cut(ef_str_from(err ? err->text : ef_status_describe(st)->message),
                        sizeof damage.text - 1);
    memcpy(damage.text, text.ptr, text.len);
    damage.found_us = clock->wall_us(clock->context);
    record_damage(journal, &damage);
    log_damage(journal, damage.text);
    return st;
}

static bool find_in_store(ef_journal *journal, ef__damage *out)
{
    *out = (ef__damage){0};
    if (!journal->store->damage_get || journal->store->damage_get(journal, out, NULL) != EF_OK ||
        out->found_us == 0)
        return false;
    log_damage(journal, out->text);
    return true;
}

bool ef__damage_find(ef_journal *journal, ef__damage *out)
{
    if (!is_known_here(journal))
        return find_in_store(journal, out);
    *out = journal->damage.found;
    return true;
}

ef_status ef__damage_fail(const char *shown, const ef__damage *damage, ef_error *err)
{
    char found[EF_TIME_TEXT_MAX];

    ef_time_format(damage->found_us, found);
    (void)ef_fail(err, EF_DAMAGED,
                  "%s is damaged, and nothing is appended to it: %s (found at %s); restore a "
                  "backup, or repair the journal, verify it and accept it",
                  shown, damage->text, found);
    if (err)
        err->asked = REFUSED;
    return EF_DAMAGED;
}

ef_status ef__damage_refuse(ef_journal *journal, ef_error *err)
{
    ef__damage damage;

    if (!is_known_here(journal) && (journal->caps & EF__JOURNAL_REFUSES_DAMAGED))
        return EF_OK;
    return ef__damage_find(journal, &damage) ? ef__damage_fail(journal->shown, &damage, err)
                                             : EF_OK;
}

ef_status ef_journal_accept(ef_journal *journal, ef_str actor, ef_str reason, ef_error *err)
{
    ef__damage damage = {0};
    ef_status st = ef__need_writable(journal, "ef_journal_accept", err);

    if (st == EF_OK && !journal->store->damage_set)
        st = ef_fail(err, EF_UNSUPPORTED, "a journal on %s keeps no record of damage",
                     journal->store->name);
    if (st == EF_OK)
        st = journal->store->damage_get(journal, &damage, err);
    if (st == EF_OK && damage.found_us == 0)
        st = ef_fail(err, EF_NOT_FOUND, "no damage of %s is recorded", journal->shown);
    if (st == EF_OK && actor.len > 0)
        st = ef_audit_add(
            journal,
            &(ef_audit_entry){.action = EF_STR("accept"),
                              .actor = actor,
                              .reason = reason.len ? reason : ef_str_from(damage.text)},
            err);
    if (st == EF_OK)
        st = journal->store->damage_set(journal, NULL, err);
    if (st == EF_OK)
        atomic_store(&journal->damage.logged, false);
    return st;
}
