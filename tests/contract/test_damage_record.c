/*
 * Damage that was found is kept in the store: every handle refuses appends until it is accepted.
 */
#include "contract.h"

#include "../../src/journal/journal.h"

#include <string.h>

#define FOUND_US INT64_C(1700000000000000) /* 2023-11-14T22:13:20Z */

static void record(contract *t, const char *text)
{
    ef__damage damage = {.found_us = FOUND_US};

    memcpy(damage.text, text, strlen(text));
    OK(t->journal->store->damage_set(t->journal, &damage, &t->err));
}

/* As another process would have it; NULL where the store has one handle. */
static ef_journal *open_other(contract *t)
{
    ef_journal *other = NULL;

    if (survives(t))
        OK(ef_journal_open(&t->options, &other, &t->err));
    return other;
}

static ef_status append_by(contract *t, ef_journal *journal)
{
    ef_new_event event = event_of("order-1", "placed");
    ef_place place;

    return journal ? ef_journal_append(journal, &event, 1, &place, &t->err) : EF_DAMAGED;
}

CONTRACT(append_of_every_handle_is_refused_after_damage_was_recorded)
{
    contract *t = *state;
    ef_journal *before = open_other(t), *after;

    append(t, "order-1", "placed");
    record(t, "position 7 is bad");
    after = open_other(t);
    REFUSED(EF_DAMAGED, append_by(t, before));
    REFUSED(EF_DAMAGED, append_by(t, after));
    REFUSED(EF_DAMAGED, append_by(t, t->journal));
    CHECK(strstr(t->err.text, "position 7 is bad") != NULL);
    CHECK(strstr(t->err.text, "2023-11-14T22:13:20") != NULL);
    CHECK(strstr(t->err.text, "restore a backup") != NULL);
    CHECK_INT(1, head_of(t));
    ef_journal_close(before);
    ef_journal_close(after);
}

CONTRACT(append_each_is_refused_after_damage_was_recorded)
{
    contract *t = *state;
    ef_new_event events[2] = {event_of("order-2", "placed"), event_of("order-3", "placed")};
    ef_place places[2];
    ef_append both[2];

    for (int i = 0; i < 2; i++)
        both[i] = (ef_append){.events = &events[i], .count = 1, .out_places = &places[i]};
    both[1].err = &t->err;
    record(t, "position 7 is bad");
    ef_journal_append_each(t->journal, both, 2);
    CHECK_INT(EF_DAMAGED, both[0].status);
    CHECK_INT(EF_DAMAGED, both[1].status);
    CHECK(strstr(t->err.text, "position 7 is bad") != NULL);
    CHECK_INT(0, head_of(t));
}

CONTRACT(reads_leases_and_facts_go_on_when_damage_was_recorded)
{
    contract *t = *state;
    ef_batch batch = EF_BATCH_INIT;
    ef_store_facts facts;

    append(t, "order-1", "placed");
    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK(!facts.damaged);
    CHECK_INT(0, facts.damaged_us);
    record(t, "position 7 is bad");
    OK(ef_journal_read_stream(t->journal, EF_STR(""), EF_STR("order-1"), 1, 9, &batch, &t->err));
    CHECK_INT(1, batch.count);
    (void)acquire(t, 0, "worker-1");
    OK(ef_journal_facts(t->journal, &facts, &t->err));
    CHECK(facts.damaged);
    CHECK_INT(FOUND_US, facts.damaged_us);
    CHECK_INT(0, strcmp("position 7 is bad", facts.damage));
    EF_RELEASE(&batch);
}

CONTRACT(the_first_damage_stays)
{
    contract *t = *state;
    ef__damage damage;

    record(t, "position 7 is bad");
    record(t, "position 8 is bad");
    OK(t->journal->store->damage_get(t->journal, &damage, &t->err));
    CHECK_INT(0, strcmp("position 7 is bad", damage.text));
}

CONTRACT(accepted_damage_lets_every_handle_append_and_leaves_an_audit_entry)
{
    contract *t = *state;
    ef_journal *other = open_other(t);
    ef_audit_list acts = {0};

    REFUSED(EF_NOT_FOUND,
            ef_journal_accept(t->journal, EF_STR("ann"), EF_STR("restored"), &t->err));
    record(t, "position 7 is bad");
    REFUSED(EF_DAMAGED, append_by(t, t->journal)); /* a refusal is not damage that was found */
    REFUSED(EF_DAMAGED, append_by(t, other));
    OK(ef_journal_accept(t->journal, EF_STR("ann"), EF_STR("restored"), &t->err));
    OK(append_by(t, t->journal));
    if (other)
        OK(append_by(t, other));
    OK(ef_audit_ls(t->journal, &(ef_audit_query){.limit = 9}, &acts, &t->err));
    CHECK_INT(1, acts.count);
    CHECK(ef_str_equal(EF_STR("accept"), acts.items[0].action));
    CHECK(ef_str_equal(EF_STR("ann"), acts.items[0].actor));
    CHECK(ef_str_equal(EF_STR("restored"), acts.items[0].reason));
    EF_RELEASE(&acts);
    ef_journal_close(other);
}

CONTRACT_MAIN(CASE(append_of_every_handle_is_refused_after_damage_was_recorded),
              CASE(append_each_is_refused_after_damage_was_recorded),
              CASE(reads_leases_and_facts_go_on_when_damage_was_recorded),
              CASE(the_first_damage_stays),
              CASE(accepted_damage_lets_every_handle_append_and_leaves_an_audit_entry))
