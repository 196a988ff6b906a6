/*
 * Copying a journal to another back end and back: every event stays as it is.
 */
#include "contract.h"

#include <stdio.h>
#include <unistd.h>

enum { EVENTS = 2500 };

static void fill(contract *t, int count)
{
    static const char *const tenants[] = {"", "acme"};

    OK(ef_type_set(t->journal,
                   &(ef_type){.name = str("made"), .alias_of = str("placed"), .publish = true},
                   &t->err));
    OK(ef_type_set(t->journal, &(ef_type){.name = str("noted"), .intent = EF_INTENT_AUDIT_ONLY},
                   &t->err));
    for (int i = 0; i < count; i++) {
        char stream[32], id[32];
        ef_new_event event;
        (void)snprintf(stream, sizeof stream, "s-%d", i % 7);
        (void)snprintf(id, sizeof id, "e-%d", i);
        event = event_of(stream, i % 3 ? "placed" : "made");
        event.tenant = str(tenants[i % 2]);
        event.id = i % 5 ? str(id) : str("");
        event.time_us = 1000 + i;
        append_event(t, event);
        if (i % 4 == 0)
            pass_time(t, 1);
    }
}

static void same_text(ef_str a, ef_str b)
{
    CHECK(ef_str_equal(a, b));
}

static void same_event(const ef_event *a, const ef_event *b)
{
    CHECK_INT(a->position, b->position);
    CHECK_INT(a->seq, b->seq);
    CHECK_INT(a->time_us, b->time_us);
    CHECK_INT(a->recorded_us, b->recorded_us);
    CHECK_INT(a->schema, b->schema);
    CHECK(memcmp(a->hash, b->hash, EF_HASH_BYTES) == 0);
    same_text(a->tenant, b->tenant);
    same_text(a->stream, b->stream);
    same_text(a->id, b->id);
    same_text(a->type, b->type);
    same_text(a->data, b->data);
    same_text(a->meta, b->meta);
}

static void same_journals(ef_journal *a, ef_journal *b, bool stored_types, contract *t)
{
    ef_batch one = EF_BATCH_INIT, two = EF_BATCH_INIT;
    ef_log_query query = {.any_tenant = true, .limit = 10000, .stored_types = stored_types};

    OK(ef_journal_read_log(a, &query, &one, &t->err));
    OK(ef_journal_read_log(b, &query, &two, &t->err));
    CHECK_INT(one.count, two.count);
    for (size_t i = 0; i < one.count && i < two.count; i++)
        same_event(&one.events[i], &two.events[i]);
    EF_RELEASE(&one);
    EF_RELEASE(&two);
}

static void same_types(ef_journal *a, ef_journal *b, contract *t)
{
    ef_type_list one = {0}, two = {0};

    OK(ef_type_ls(a, NULL, &one, &t->err));
    OK(ef_type_ls(b, NULL, &two, &t->err));
    CHECK_INT(one.count, two.count);
    for (size_t i = 0; i < one.count && i < two.count; i++) {
        same_text(one.items[i].name, two.items[i].name);
        same_text(one.items[i].alias_of, two.items[i].alias_of);
        CHECK_INT(one.items[i].intent, two.items[i].intent);
        CHECK_INT(one.items[i].publish, two.items[i].publish);
    }
    EF_RELEASE(&one);
    EF_RELEASE(&two);
}

static ef_copy_result copy(contract *t, ef_journal *from, ef_journal *to, int64_t upto)
{
    ef_copy_result result;

    OK(ef_journal_copy(from, to, &(ef_copy_options){.upto = upto}, &result, &t->err));
    return result;
}

CONTRACT(a_copy_has_the_same_events_types_and_hashes)
{
    contract *t = *state, model = {0}, back = {0};
    ef_copy_result result;
    ef_verify_result verified;

    contract_open(&model, "memory");
    contract_open(&back, "memory");
    fill(&model, EVENTS);
    /* The clock of the target is another: nothing of it is in the copy. */
    pass_time(t, 5000 * SECOND);
    result = copy(t, model.journal, t->journal, 0);
    CHECK_INT(EVENTS, result.copied);
    CHECK_INT(EVENTS, result.position);
    same_journals(model.journal, t->journal, false, t);
    same_journals(model.journal, t->journal, true, t);
    same_types(model.journal, t->journal, t);
    OK(ef_journal_verify(t->journal, 0, NULL, NULL, &verified, &t->err));
    CHECK_INT(EVENTS, verified.checked);

    copy(t, t->journal, back.journal, 0);
    same_journals(model.journal, back.journal, true, t);
    same_types(model.journal, back.journal, t);
    CHECK_INT(EVENTS, summary(t).pending);
    contract_close(&back);
    contract_close(&model);
}

CONTRACT(a_copy_continues_after_the_head_of_the_target)
{
    contract *t = *state, model = {0};

    contract_open(&model, "memory");
    fill(&model, 100);
    CHECK_INT(40, copy(t, model.journal, t->journal, 40).copied);
    CHECK_INT(40, head_of(t));
    CHECK_INT(60, copy(t, model.journal, t->journal, 0).copied);
    CHECK_INT(0, copy(t, model.journal, t->journal, 0).copied);
    same_journals(model.journal, t->journal, true, t);
    /* It is a journal like any other: an id is known, a stream goes on. */
    CHECK_INT(100, head_of(t));
    CHECK(append_event(t, (ef_new_event){.stream = str("s-1"),
                                         .type = str("placed"),
                                         .id = str("new"),
                                         .expected_seq = ef_expect_seq(seq_of(t, "s-1"))})
              .position == 101);
    contract_close(&model);
}

CONTRACT(a_target_with_other_events_is_refused_and_stays)
{
    contract *t = *state, model = {0};
    ef_copy_result result;

    contract_open(&model, "memory");
    fill(&model, 10);
    append(t, "mine", "mine");
    REFUSED(EF_EXISTS,
            ef_journal_copy(model.journal, t->journal, &(ef_copy_options){0}, &result, &t->err));
    CHECK_INT(1, head_of(t));
    CHECK_INT(0, seq_of(t, "s-0"));
    contract_close(&model);
}

CONTRACT(a_target_that_is_longer_is_refused)
{
    contract *t = *state, model = {0};
    ef_copy_result result;

    contract_open(&model, "memory");
    fill(&model, 10);
    copy(t, model.journal, t->journal, 0);
    append(t, "mine", "mine");
    REFUSED(EF_EXISTS,
            ef_journal_copy(model.journal, t->journal, &(ef_copy_options){0}, &result, &t->err));
    CHECK_INT(11, head_of(t));
    contract_close(&model);
}

CONTRACT(a_target_with_a_publisher_is_refused)
{
    contract *t = *state, model = {0};
    ef_copy_result result;

    contract_open(&model, "memory");
    fill(&model, 10);
    set_lane(t, "mail", EF_LANE_KIND_PUBLISHER, true, "");
    REFUSED(EF_EXISTS,
            ef_journal_copy(model.journal, t->journal, &(ef_copy_options){0}, &result, &t->err));
    CHECK_INT(0, head_of(t));
    contract_close(&model);
}

static bool stop_at_once(void *context, int64_t done, int64_t total)
{
    *(int64_t *)context = total;
    return done > 0;
}

CONTRACT(a_copy_that_is_stopped_says_how_far_it_is)
{
    contract *t = *state, model = {0};
    ef_copy_result result;
    int64_t total = 0;

    contract_open(&model, "memory");
    fill(&model, 10);
    OK(ef_journal_copy(model.journal, t->journal,
                       &(ef_copy_options){.progress = stop_at_once, .context = &total}, &result,
                       &t->err));
    CHECK_INT(10, total);
    CHECK_INT(10, result.upto);
    CHECK_INT(0, result.position);
    contract_close(&model);
}

/* --- backups ---------------------------------------------------------------------------------- */

CONTRACT(a_journal_that_was_made_here_is_no_copy)
{
    contract *t = *state;
    int64_t copied_us = -1;

    append(t, "s", "placed");
    OK(ef__journal_copied(t->journal, &copied_us, &t->err));
    CHECK_INT(0, copied_us);
    REFUSED(EF_EXISTS, ef_journal_adopt(t->journal, str("ada"), str(""), &t->err));
}

static void check_backup(contract *t, contract *copy, int64_t token)
{
    int64_t copied_us = 0;
    ef_lease_list leases = {0};
    ef_worker_list workers = {0};

    OK(ef__journal_copied(copy->journal, &copied_us, &t->err));
    CHECK(copied_us > 0);
    OK(ef_lease_ls(copy->journal, NULL, &leases, &t->err));
    CHECK_INT(0, leases.count);
    OK(ef_worker_ls(copy->journal, &workers, &t->err));
    CHECK_INT(0, workers.count);
    /* A token of the original is never given out again. */
    CHECK(acquire(copy, 1, "ada") > token);
    OK(ef_journal_adopt(copy->journal, str("ada"), str("the machine is lost"), &t->err));
    OK(ef__journal_copied(copy->journal, &copied_us, &t->err));
    CHECK_INT(0, copied_us);
    EF_RELEASE(&leases);
    EF_RELEASE(&workers);
}

CONTRACT(a_backup_is_a_journal_without_leases_that_knows_that_it_is_a_copy)
{
    contract *t = *state, copy = {.backend = "sqlite"};
    char path[240];
    ef_head head;
    int64_t token;

    fill(t, 100);
    token = acquire(t, 2, "ada");
    (void)snprintf(path, sizeof path, "%s/copy.db", t->dir);
    if (strcmp(t->backend, "sqlite") != 0) {
        REFUSED(EF_UNSUPPORTED,
                ef_journal_backup(t->journal, &(ef_backup_options){.path = path}, &head, &t->err));
        return;
    }
    OK(ef_journal_backup(t->journal, &(ef_backup_options){.path = path}, &head, &t->err));
    CHECK_INT(100, head.position);
    REFUSED(EF_EXISTS,
            ef_journal_backup(t->journal, &(ef_backup_options){.path = path}, &head, &t->err));
    append(t, "later", "placed");
    (void)snprintf(copy.url, sizeof copy.url, "sqlite:%s", path);
    copy.options = t->options;
    copy.options.url = copy.url;
    copy.options.create = false;
    OK(ef_journal_open(&copy.options, &copy.journal, &t->err));
    CHECK_INT(100, head_of(&copy));
    check_backup(t, &copy, token);
    ef_journal_close(copy.journal);
}

static bool stop_copy(void *context, int64_t done, int64_t total)
{
    (void)context;
    (void)done;
    (void)total;
    return false;
}

CONTRACT(a_backup_that_is_stopped_leaves_nothing)
{
    contract *t = *state;
    char path[240];
    ef_head head;

    if (strcmp(t->backend, "sqlite") != 0)
        return;
    fill(t, 100);
    (void)snprintf(path, sizeof path, "%s/copy.db", t->dir);
    REFUSED(EF_TIMEOUT,
            ef_journal_backup(t->journal, &(ef_backup_options){.path = path, .progress = stop_copy},
                              &head, &t->err));
    CHECK(access(path, F_OK) != 0);
}

CONTRACT_MAIN(CASE(a_copy_has_the_same_events_types_and_hashes),
              CASE(a_copy_continues_after_the_head_of_the_target),
              CASE(a_target_with_other_events_is_refused_and_stays),
              CASE(a_target_that_is_longer_is_refused), CASE(a_target_with_a_publisher_is_refused),
              CASE(a_copy_that_is_stopped_says_how_far_it_is),
              CASE(a_journal_that_was_made_here_is_no_copy),
              CASE(a_backup_is_a_journal_without_leases_that_knows_that_it_is_a_copy),
              CASE(a_backup_that_is_stopped_leaves_nothing))
