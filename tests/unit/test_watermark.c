#include "../../src/core/watermark.h"

#include "test.h"

/* Small numbers are enough: the rule only compares seqs and adds 1. */
enum { SEQ_MAX = 5, EVENTS = 6, ORDERS = 46656 /* 6^6 */ };

static const ef__watermark_seqs start = {0, 0};

static ef__watermark_step decide(ef__watermark_seqs seqs, int64_t seq,
                                 ef__watermark_history history, bool is_skipped)
{
    return ef__watermark_decide(
        seqs, &(ef__watermark_event){.seq = seq, .history = history, .is_skipped = is_skipped});
}

static void check_seqs(int64_t applied_seq, int64_t expected_next_seq, ef__watermark_seqs seqs)
{
    CHECK_INT(applied_seq, seqs.applied_seq);
    CHECK_INT(expected_next_seq, seqs.expected_next_seq);
}

static void check_gap(ef__gap_kind kind, int64_t from_seq, int64_t to_seq, ef__gap gap)
{
    CHECK_INT(kind, gap.kind);
    CHECK_INT(from_seq, gap.from_seq);
    CHECK_INT(to_seq, gap.to_seq);
}

static bool is_blocked(ef__watermark_seqs seqs)
{
    return ef__watermark_seqs_are_blocked(seqs.applied_seq, seqs.expected_next_seq);
}

TEST(events_in_order_are_folded_one_by_one)
{
    ef__watermark_seqs seqs = start;

    for (int64_t seq = 1; seq <= 100; seq++) {
        ef__watermark_step step = decide(seqs, seq, EF__HISTORY_UNREAD, false);
        CHECK_INT(EF__WATERMARK_FOLD, step.action);
        seqs = step.after;
        check_seqs(seq, seq + 1, seqs);
    }
}

TEST(an_applied_event_is_a_duplicate_and_moves_no_watermark)
{
    ef__watermark_seqs seqs = {5, 6};

    for (int64_t seq = 1; seq <= 5; seq++) {
        CHECK_INT(EF__WATERMARK_COMPARE, decide(seqs, seq, EF__HISTORY_UNREAD, false).action);
        ef__watermark_step step = decide(seqs, seq, EF__HISTORY_SAME, false);
        CHECK_INT(EF__WATERMARK_DUPLICATE, step.action);
        check_seqs(5, 6, step.after);
    }
}

TEST(an_event_above_a_hole_is_deferred_unless_the_journal_is_sparse)
{
    ef__watermark_seqs seqs = {5, 6};
    ef__watermark_event event = {.seq = 9};
    ef__watermark_step step = ef__watermark_decide(seqs, &event);

    CHECK_INT(EF__WATERMARK_DEFER, step.action);
    check_seqs(5, 6, step.after);
    CHECK_INT(EF__WATERMARK_DEFER, decide(start, 2, EF__HISTORY_UNREAD, false).action);
    event.is_sparse = true;
    step = ef__watermark_decide(seqs, &event);
    CHECK_INT(EF__WATERMARK_FOLD, step.action);
    check_seqs(9, 10, step.after);
}

TEST(another_event_under_an_applied_seq_is_an_alarm_and_blocks_the_stream)
{
    ef__watermark_step alarm = decide((ef__watermark_seqs){5, 6}, 4, EF__HISTORY_DIFFERENT, false);

    CHECK_INT(EF__WATERMARK_ALARM, alarm.action);
    check_seqs(5, 4, alarm.after);
    CHECK(is_blocked(alarm.after));
    CHECK_INT(EF__WATERMARK_DUPLICATE, decide(alarm.after, 3, EF__HISTORY_UNREAD, false).action);
    CHECK_INT(EF__WATERMARK_DEFER, decide(alarm.after, 5, EF__HISTORY_DIFFERENT, false).action);
    CHECK_INT(EF__WATERMARK_DEFER, decide(alarm.after, 6, EF__HISTORY_UNREAD, false).action);
}

TEST(a_restored_journal_unblocks_the_stream)
{
    ef__watermark_step step = decide((ef__watermark_seqs){5, 4}, 5, EF__HISTORY_SAME, false);

    CHECK_INT(EF__WATERMARK_DUPLICATE, step.action);
    check_seqs(5, 6, step.after);
}

TEST(skips_of_all_replaced_events_unblock_the_stream)
{
    ef__watermark_seqs seqs = {5, 4};

    for (int64_t seq = 4; seq <= 5; seq++) {
        ef__watermark_step step = decide(seqs, seq, EF__HISTORY_DIFFERENT, true);
        CHECK_INT(EF__WATERMARK_DUPLICATE, step.action);
        check_seqs(5, seq + 1, step.after);
        seqs = step.after;
    }
    CHECK_INT(EF__WATERMARK_FOLD, decide(seqs, 6, EF__HISTORY_UNREAD, false).action);
}

TEST(an_invalid_seq_is_never_folded_and_moves_no_watermark)
{
    static const int64_t invalid[] = {0, -1, INT64_MIN, INT64_MAX};

    for (size_t i = 0; i < 4; i++) {
        ef__watermark_step step = decide(start, invalid[i], EF__HISTORY_UNREAD, false);
        CHECK_INT(EF__WATERMARK_DEFER, step.action);
        check_seqs(0, 0, step.after);
    }
}

/* What holds for a decision, whatever the watermark and the event. */
static void check_decision(ef__watermark_seqs seqs, const ef__watermark_event *event)
{
    ef__watermark_step step = ef__watermark_decide(seqs, event);
    bool moved = step.after.applied_seq != seqs.applied_seq ||
                 step.after.expected_next_seq != seqs.expected_next_seq;

    CHECK(step.after.applied_seq >= seqs.applied_seq);
    CHECK(step.after.expected_next_seq <= step.after.applied_seq + 1);
    CHECK((step.action == EF__WATERMARK_FOLD) == (step.after.applied_seq > seqs.applied_seq));
    if (step.action == EF__WATERMARK_FOLD)
        CHECK(event->seq > seqs.applied_seq && !is_blocked(seqs));
    if (step.action == EF__WATERMARK_DEFER || step.action == EF__WATERMARK_COMPARE)
        CHECK(!moved);
    if (step.action == EF__WATERMARK_COMPARE)
        CHECK(event->history == EF__HISTORY_UNREAD && event->seq <= seqs.applied_seq);
    if (step.action == EF__WATERMARK_ALARM) {
        CHECK(event->history == EF__HISTORY_DIFFERENT && !event->is_skipped);
        CHECK_INT(event->seq, step.after.expected_next_seq);
    }
    /* Only a comparison with the journal or an operator's skip moves a blocked watermark. */
    if (is_blocked(seqs) && moved)
        CHECK(event->history == EF__HISTORY_SAME || event->is_skipped ||
              event->seq == step.after.expected_next_seq);
}

TEST(every_decision_keeps_the_invariants_of_a_watermark)
{
    for (int64_t applied = 0; applied <= SEQ_MAX; applied++)
        for (int64_t expected = applied ? 1 : 0; expected <= applied + 1; expected++)
            for (int64_t seq = 1; seq <= SEQ_MAX + 2; seq++)
                for (int bits = 0; bits < 12; bits++)
                    check_decision(
                        (ef__watermark_seqs){applied, expected},
                        &(ef__watermark_event){.seq = seq,
                                               .is_sparse = bits & 1,
                                               .is_skipped = bits & 2,
                                               .history = (ef__watermark_history)(bits / 4)});
}

TEST(exactly_the_prefix_of_a_stream_is_folded_in_any_order_of_delivery)
{
    for (int order = 0; order < ORDERS; order++) {
        ef__watermark_seqs seqs = start;
        int64_t next = 1;
        for (int i = 0, rest = order; i < EVENTS; i++, rest /= EVENTS) {
            int64_t seq = rest % EVENTS + 1;
            ef__watermark_step step = decide(seqs, seq, EF__HISTORY_SAME, false);
            CHECK_INT(seq < next    ? EF__WATERMARK_DUPLICATE
                      : seq == next ? EF__WATERMARK_FOLD
                                    : EF__WATERMARK_DEFER,
                      step.action);
            next += seq == next;
            seqs = step.after;
            check_seqs(next - 1, next > 1 ? next : 0, seqs);
        }
    }
}

/* The journal lost its last events and has others under their seqs. In any order of delivery none
 * of these is folded below applied_seq, and without an operator the stream stays blocked. */
TEST(replaced_events_are_never_folded_in_any_order_of_delivery)
{
    for (int order = 0; order < ORDERS; order++) {
        ef__watermark_seqs seqs = {3, 4};
        bool alarmed = false;
        for (int i = 0, rest = order; i < EVENTS; i++, rest /= EVENTS) {
            int64_t seq = rest % EVENTS + 1;
            ef__watermark_step step = decide(seqs, seq, EF__HISTORY_DIFFERENT, false);
            CHECK(step.action != EF__WATERMARK_FOLD || (!alarmed && seq > 3));
            alarmed = alarmed || step.action == EF__WATERMARK_ALARM;
            seqs = step.after;
            CHECK_INT(alarmed, is_blocked(seqs));
        }
    }
}

/* An ignored or skipped event is stored with the watermark of EF__WATERMARK_FOLD. */
TEST(ignored_events_leave_no_gap)
{
    ef__watermark_seqs seqs = start;

    for (int64_t seq = 1; seq <= 50; seq++)
        seqs = decide(seqs, seq, EF__HISTORY_UNREAD, false).after;
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(seqs.applied_seq, 50, false));
}

TEST(an_empty_stream_has_no_gap)
{
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(0, 0, false));
}

TEST(a_missing_end_is_a_gap_unless_it_is_queued)
{
    check_gap(EF__GAP_TRAILING, 1, 7, ef__gap_find(0, 7, false));
    check_gap(EF__GAP_TRAILING, 6, 7, ef__gap_find(5, 7, false));
    check_gap(EF__GAP_TRAILING, 6, 6, ef__gap_find(5, 6, false));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(5, 7, true));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(5, 5, false));
}

TEST(a_watermark_ahead_of_the_journal_is_an_alarm)
{
    for (int queued = 0; queued < 2; queued++) {
        check_gap(EF__GAP_AHEAD, 5, 5, ef__gap_find(5, 4, queued));
        check_gap(EF__GAP_AHEAD, 1, 5, ef__gap_find(5, 0, queued));
    }
}

TEST_MAIN(TEST_CASE(events_in_order_are_folded_one_by_one),
          TEST_CASE(an_applied_event_is_a_duplicate_and_moves_no_watermark),
          TEST_CASE(an_event_above_a_hole_is_deferred_unless_the_journal_is_sparse),
          TEST_CASE(another_event_under_an_applied_seq_is_an_alarm_and_blocks_the_stream),
          TEST_CASE(a_restored_journal_unblocks_the_stream),
          TEST_CASE(skips_of_all_replaced_events_unblock_the_stream),
          TEST_CASE(an_invalid_seq_is_never_folded_and_moves_no_watermark),
          TEST_CASE(every_decision_keeps_the_invariants_of_a_watermark),
          TEST_CASE(exactly_the_prefix_of_a_stream_is_folded_in_any_order_of_delivery),
          TEST_CASE(replaced_events_are_never_folded_in_any_order_of_delivery),
          TEST_CASE(ignored_events_leave_no_gap), TEST_CASE(an_empty_stream_has_no_gap),
          TEST_CASE(a_missing_end_is_a_gap_unless_it_is_queued),
          TEST_CASE(a_watermark_ahead_of_the_journal_is_an_alarm))
