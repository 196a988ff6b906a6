/*
 * test_draft.c - a program that is not deployed, tried on the events that fail.
 */
#include "engine_fixture.h"

#include <everfold/trial.h>

#define ROWS_MAX 16

typedef struct tried {
    ef_draft_result counts;
    size_t count;
    struct {
        char stream[32];
        int64_t seq;
        int32_t version;
        ef_trial_outcome outcome;
        char message[160];
    } rows[ROWS_MAX];
} tried;

static bool keep_row(void *context, const ef_draft_row *row)
{
    tried *t = context;

    assert_true(t->count < ROWS_MAX);
    (void)snprintf(t->rows[t->count].stream, 32, "%.*s", EF_STR_ARG(row->stream));
    (void)snprintf(t->rows[t->count].message, 160, "%.*s", EF_STR_ARG(row->message));
    t->rows[t->count].seq = row->seq;
    t->rows[t->count].version = row->version;
    t->rows[t->count++].outcome = row->outcome;
    return true;
}

static tried try_draft(fixture *f, const char *program)
{
    tried t = {0};

    OK(ef_projection_try_draft(f->engine,
                               &(ef_draft){.file_name = "draft", .text = ef_str_from(program)},
                               keep_row, &t, &t.counts, NULL, &f->err));
    return t;
}

static void check_row(const tried *t, size_t i, const char *stream, int64_t seq, int32_t version,
                      ef_trial_outcome outcome)
{
    CHECK(i < t->count);
    CHECK_TEXT(stream, t->rows[i].stream);
    CHECK_INT(seq, t->rows[i].seq);
    CHECK_INT(version, t->rows[i].version);
    CHECK_TEXT(ef_name_of(EF_NAMES_TRIAL_OUTCOME, outcome),
               ef_name_of(EF_NAMES_TRIAL_OUTCOME, t->rows[i].outcome));
}

/* Streams s and u have a bad event each, and good ones before and behind; t has none. */
static void start(fixture *f, const char *program)
{
    fixture_open(f, EF_MODE_OUTBOX_APPLY_ONLY);
    deploy(f, program);
    drain(f);
    append(f, "s", "added", GOOD);
    append(f, "s", "added", BAD);
    append(f, "s", "added", GOOD);
    append(f, "t", "added", GOOD);
    append(f, "u", "added", BAD);
    drain(f);
}

static void a_draft_that_applies_all_failed_events_is_reported(void **state)
{
    fixture here, *f = &here;
    tried t;

    (void)state;
    start(f, SUMS);
    t = try_draft(f, "projection sums version 2\n  view data.of\non added\n  n += 1\n");
    CHECK_INT(2, t.counts.version);
    CHECK_INT(2, t.counts.streams);
    CHECK_INT(4, t.counts.events); /* t is not folded */
    CHECK_INT(2, t.counts.applied);
    CHECK_INT(0, t.counts.failed + t.counts.waits + t.counts.not_tried + t.counts.newly_failed);
    CHECK_INT(2, t.count);
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_APPLIED);
    check_row(&t, 1, "u", 1, 1, EF_TRIAL_APPLIED);
    /* Nothing was deployed or written. */
    CHECK_TEXT("{\"n\":2,\"sum\":2}", view_data(f, "sums", "a"));
    CHECK_INT(2, summary_of(f, "sums").failed);
    t = try_draft(f, "projection sums version 2\n  view data.of\non other\n  n += 1\n");
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_IGNORED);
    fixture_close(f);
}

static void a_draft_that_fails_again_or_earlier_is_reported(void **state)
{
    fixture here, *f = &here;
    tried t;

    (void)state;
    start(f, SUMS);
    t = try_draft(f, SUMS);
    CHECK_INT(2, t.counts.failed);
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_FAILED);
    CHECK(strlen(t.rows[0].message) > 0);
    t = try_draft(f, "projection sums version 2\n  view data.of\non added\n  n += data.none\n");
    CHECK_INT(1, t.counts.waits); /* s 2 follows s 1, which fails now */
    CHECK_INT(1, t.counts.newly_failed);
    CHECK_INT(1, t.counts.failed);
    CHECK_INT(3, t.count);
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_BLOCKED);
    check_row(&t, 1, "s", 1, 0, EF_TRIAL_FAILED);
    check_row(&t, 2, "u", 1, 1, EF_TRIAL_FAILED);
    fixture_close(f);
}

/* In the order of the log all events of the tenant are folded. */
static void a_log_ordered_draft_is_folded_per_tenant(void **state)
{
    fixture here, *f = &here;
    tried t;

    (void)state;
    start(f, "projection sums version 1\n  view data.of\n  order by log\non added\n"
             "  sum += data.good / data.good\n");
    t = try_draft(f, "projection sums version 2\n  view data.of\n  order by log\non added\n"
                     "  n += 1\n");
    CHECK_INT(1, t.count);
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_APPLIED);
    CHECK_INT(5, t.counts.events);
    fixture_close(f);
}

/* Views that another projection has stored are read by the lookups of a draft. */
static void lookups_of_a_draft_read_the_stored_views(void **state)
{
    fixture here, *f = &here;
    tried t;

    (void)state;
    start(f, SUMS);
    deploy(f, "projection names version 1\n  view data.of\non added\n  name = \"ann\"\n");
    drain(f);
    t = try_draft(f, "projection sums version 2\n  view data.of\non added\n"
                     "  let who = lookup(names, data.of)\n  size += length(who.name)\n");
    check_row(&t, 0, "s", 2, 1, EF_TRIAL_APPLIED);
    fixture_close(f);
}

static void an_invalid_draft_is_refused(void **state)
{
    fixture here, *f = &here;
    tried t = {0};
    ef_text report = {0};

    (void)state;
    start(f, SUMS);
    REFUSED(EF_NOT_FOUND,
            ef_projection_try_draft(
                f->engine,
                &(ef_draft){.file_name = "draft",
                            .text = EF_STR("projection other version 1\n  view stream\non x\n"
                                           "  n += 1\n")},
                keep_row, &t, &t.counts, NULL, &f->err));
    REFUSED(EF_BAD_INPUT,
            ef_projection_try_draft(
                f->engine, &(ef_draft){.file_name = "draft", .text = EF_STR("projection sums\n")},
                keep_row, &t, &t.counts, &report, &f->err));
    CHECK(report.len > 0);
    EF_RELEASE(&report);
    REFUSED(EF_BAD_INPUT, ef_projection_try_draft(f->engine,
                                                  &(ef_draft){.file_name = "draft",
                                                              .text = ef_str_from(SUMS),
                                                              .limit = EF_DRAFT_ROWS_MAX + 1},
                                                  keep_row, &t, &t.counts, NULL, &f->err));
    fixture_close(f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_that_applies_all_failed_events_is_reported),
        cmocka_unit_test(a_draft_that_fails_again_or_earlier_is_reported),
        cmocka_unit_test(a_log_ordered_draft_is_folded_per_tenant),
        cmocka_unit_test(lookups_of_a_draft_read_the_stored_views),
        cmocka_unit_test(an_invalid_draft_is_refused),
    };

    fixture_backend = argc > 1 ? argv[1] : "memory";
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
