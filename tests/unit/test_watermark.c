#include "../../src/core/watermark.h"

#include "test.h"

static const ef__stream_mark start = EF__WATERMARK_INIT;

static void check_mark(int64_t applied_seq, int64_t expected_next_seq, ef__stream_mark mark)
{
    CHECK_INT(applied_seq, mark.applied_seq);
    CHECK_INT(expected_next_seq, mark.expected_next_seq);
}

static void check_gap(ef__gap_kind kind, int64_t from_seq, int64_t to_seq, ef__gap gap)
{
    CHECK_INT(kind, gap.kind);
    CHECK_INT(from_seq, gap.from_seq);
    CHECK_INT(to_seq, gap.to_seq);
}

TEST(events_in_order_are_applied_one_by_one)
{
    ef__stream_mark mark = start;

    for (int64_t seq = 1; seq <= 100; seq++) {
        ef__step step = ef__watermark_step(mark, seq, EF__WATERMARK_ORDERED, false);
        CHECK_INT(EF__STEP_APPLY, step.kind);
        CHECK_INT(0, step.hole_first);
        mark = step.mark;
        check_mark(seq, seq + 1, mark);
    }
}

TEST(what_was_taken_is_a_duplicate_and_moves_nothing)
{
    ef__stream_mark mark = {5, 6};

    for (int64_t seq = 1; seq <= 5; seq++) {
        for (int mode = EF__WATERMARK_ORDERED; mode <= EF__WATERMARK_REPAIR; mode++) {
            ef__step step = ef__watermark_step(mark, seq, (ef__watermark_mode)mode, false);
            CHECK_INT(EF__STEP_DUPLICATE, step.kind);
            check_mark(5, 6, step.mark);
        }
    }
}

TEST(an_ordered_lane_refuses_to_pass_a_hole_and_names_it)
{
    ef__step step = ef__watermark_step((ef__stream_mark){5, 6}, 9, EF__WATERMARK_ORDERED, false);

    CHECK_INT(EF__STEP_HOLE, step.kind);
    CHECK_INT(6, step.hole_first);
    CHECK_INT(8, step.hole_last);
    check_mark(5, 6, step.mark);
}

TEST(the_first_event_may_be_the_hole)
{
    ef__step step = ef__watermark_step(start, 2, EF__WATERMARK_ORDERED, false);

    CHECK_INT(EF__STEP_HOLE, step.kind);
    CHECK_INT(1, step.hole_first);
    CHECK_INT(1, step.hole_last);
}

TEST(repairing_1_then_3_leaves_applied_3_and_expected_2)
{
    ef__stream_mark mark = ef__watermark_step(start, 1, EF__WATERMARK_REPAIR, false).mark;
    ef__step step = ef__watermark_step(mark, 3, EF__WATERMARK_REPAIR, false);

    CHECK_INT(EF__STEP_APPLY, step.kind);
    CHECK_INT(2, step.hole_first);
    CHECK_INT(2, step.hole_last);
    check_mark(3, 2, step.mark);
}

TEST(a_filled_hole_closes_over_what_was_noted_above_it)
{
    ef__stream_mark mark = {3, 2}; /* 1 and 3 were taken, and 3 was noted */

    ef__step filled = ef__watermark_step(mark, 2, EF__WATERMARK_ORDERED, false);
    CHECK_INT(EF__STEP_APPLY, filled.kind);
    check_mark(3, 3, filled.mark);

    ef__step again = ef__watermark_step(filled.mark, 3, EF__WATERMARK_ORDERED, true);
    CHECK_INT(EF__STEP_DUPLICATE, again.kind);
    check_mark(3, 4, again.mark);

    CHECK_INT(EF__STEP_APPLY, ef__watermark_step(again.mark, 4, EF__WATERMARK_ORDERED, false).kind);
}

TEST(what_was_noted_above_a_hole_is_a_duplicate_and_leaves_the_hole)
{
    for (int mode = EF__WATERMARK_ORDERED; mode <= EF__WATERMARK_REPAIR; mode++) {
        ef__step step =
            ef__watermark_step((ef__stream_mark){5, 2}, 4, (ef__watermark_mode)mode, true);
        CHECK_INT(EF__STEP_DUPLICATE, step.kind);
        CHECK_INT(0, step.hole_first);
        check_mark(5, 2, step.mark);
    }
}

TEST(what_is_no_seq_saves_nothing)
{
    static const int64_t seqs[] = {0, -1, INT64_MIN, INT64_MAX};

    for (size_t i = 0; i < 4; i++) {
        for (int mode = EF__WATERMARK_ORDERED; mode <= EF__WATERMARK_REPAIR; mode++) {
            ef__step step = ef__watermark_step(start, seqs[i], (ef__watermark_mode)mode, false);
            CHECK_INT(EF__STEP_NO_SEQ, step.kind);
            check_mark(0, 1, step.mark);
        }
    }
}

/* Apply every order of the events 1 to 6, some of them twice, as a repair that notes what it takes:
 * each is applied once, nothing ever goes back, and at the end there is no gap. */
enum { EVENTS = 6, ROUNDS = 2 * EVENTS, ORDERS = 46656 /* 6^6 */ };

static ef__stream_mark take(ef__stream_mark mark, int64_t seq, int applied[EVENTS + 1])
{
    ef__step step = ef__watermark_step(mark, seq, EF__WATERMARK_REPAIR, applied[seq] > 0);

    if (step.kind == EF__STEP_APPLY)
        applied[seq]++;
    CHECK(step.mark.applied_seq >= mark.applied_seq);
    CHECK(step.mark.expected_next_seq >= mark.expected_next_seq);
    CHECK(step.mark.expected_next_seq <= step.mark.applied_seq + 1);
    for (int64_t below = 1; below < step.mark.expected_next_seq; below++)
        CHECK_INT(1, applied[below]);
    return step.mark;
}

TEST(in_any_order_each_event_is_applied_once_and_nothing_goes_back)
{
    for (int order = 0; order < ORDERS; order++) {
        ef__stream_mark mark = start;
        int applied[EVENTS + 1] = {0};
        for (int i = 0, rest = order; i < EVENTS; i++, rest /= EVENTS)
            mark = take(mark, rest % EVENTS + 1, applied);
        for (int64_t seq = 1; seq <= EVENTS; seq++)
            mark = take(mark, seq, applied);

        for (int64_t seq = 1; seq <= EVENTS; seq++)
            CHECK_INT(1, applied[seq]);
        check_mark(EVENTS, EVENTS + 1, mark);
        check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(&mark, EVENTS, false));
    }
}

TEST(in_order_lanes_apply_exactly_the_prefix_whatever_comes)
{
    for (int order = 0; order < ORDERS; order++) {
        ef__stream_mark mark = start;
        int64_t next = 1;
        for (int i = 0, rest = order; i < EVENTS; i++, rest /= EVENTS) {
            int64_t seq = rest % EVENTS + 1;
            ef__step step = ef__watermark_step(mark, seq, EF__WATERMARK_ORDERED, false);
            CHECK_INT(seq < next    ? EF__STEP_DUPLICATE
                      : seq == next ? EF__STEP_APPLY
                                    : EF__STEP_HOLE,
                      step.kind);
            next += seq == next;
            mark = step.mark;
            check_mark(next - 1, next, mark);
        }
    }
}

TEST(a_stream_of_ignored_events_has_no_gap)
{
    ef__stream_mark mark = start;

    for (int64_t seq = 1; seq <= 50; seq++) /* an ignored event takes the same step */
        mark = ef__watermark_step(mark, seq, EF__WATERMARK_ORDERED, false).mark;
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(&mark, 50, false));
}

TEST(an_empty_stream_has_no_gap)
{
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(NULL, 0, false));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(&start, 0, false));
}

TEST(without_a_watermark_everything_is_missing_unless_it_is_queued)
{
    check_gap(EF__GAP_TRAILING, 1, 7, ef__gap_find(NULL, 7, false));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(NULL, 7, true));
}

TEST(a_missing_end_is_a_gap_unless_it_is_queued)
{
    ef__stream_mark mark = {5, 6};

    check_gap(EF__GAP_TRAILING, 6, 7, ef__gap_find(&mark, 7, false));
    check_gap(EF__GAP_TRAILING, 6, 6, ef__gap_find(&mark, 6, false));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(&mark, 7, true));
    check_gap(EF__GAP_NONE, 0, 0, ef__gap_find(&mark, 5, false));
}

TEST(a_hole_is_a_gap_even_when_it_is_queued)
{
    ef__stream_mark first = {3, 1}, middle = {5, 3};

    check_gap(EF__GAP_MID_STREAM, 1, 3, ef__gap_find(&first, 3, false));
    check_gap(EF__GAP_MID_STREAM, 3, 5, ef__gap_find(&middle, 5, false));
    check_gap(EF__GAP_MID_STREAM, 3, 9, ef__gap_find(&middle, 9, true));
}

TEST(more_than_the_journal_has_is_an_alarm_before_all_else)
{
    ef__stream_mark whole = {5, 6}, holed = {5, 3};

    for (int queued = 0; queued < 2; queued++) {
        check_gap(EF__GAP_AHEAD, 5, 5, ef__gap_find(&whole, 4, queued));
        check_gap(EF__GAP_AHEAD, 1, 5, ef__gap_find(&whole, 0, queued));
        check_gap(EF__GAP_AHEAD, 5, 5, ef__gap_find(&holed, 4, queued));
    }
}

TEST_MAIN(TEST_CASE(events_in_order_are_applied_one_by_one),
          TEST_CASE(what_was_taken_is_a_duplicate_and_moves_nothing),
          TEST_CASE(an_ordered_lane_refuses_to_pass_a_hole_and_names_it),
          TEST_CASE(the_first_event_may_be_the_hole),
          TEST_CASE(repairing_1_then_3_leaves_applied_3_and_expected_2),
          TEST_CASE(a_filled_hole_closes_over_what_was_noted_above_it),
          TEST_CASE(what_was_noted_above_a_hole_is_a_duplicate_and_leaves_the_hole),
          TEST_CASE(what_is_no_seq_saves_nothing),
          TEST_CASE(in_any_order_each_event_is_applied_once_and_nothing_goes_back),
          TEST_CASE(in_order_lanes_apply_exactly_the_prefix_whatever_comes),
          TEST_CASE(a_stream_of_ignored_events_has_no_gap), TEST_CASE(an_empty_stream_has_no_gap),
          TEST_CASE(without_a_watermark_everything_is_missing_unless_it_is_queued),
          TEST_CASE(a_missing_end_is_a_gap_unless_it_is_queued),
          TEST_CASE(a_hole_is_a_gap_even_when_it_is_queued),
          TEST_CASE(more_than_the_journal_has_is_an_alarm_before_all_else))
