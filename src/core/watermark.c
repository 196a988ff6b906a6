#include "watermark.h"

#include <stddef.h>

static int64_t higher(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

ef__step ef__watermark_step(ef__stream_mark mark, int64_t seq, ef__watermark_mode mode, bool noted)
{
    ef__step step = {.kind = EF__STEP_DUPLICATE, .mark = mark};

    if (seq < 1 || seq == INT64_MAX) {
        step.kind = EF__STEP_NO_SEQ;
        return step;
    }
    if (seq < mark.expected_next_seq)
        return step;

    if (seq > mark.expected_next_seq && !noted) {
        step.hole_first = mark.expected_next_seq;
        step.hole_last = seq - 1;
        if (mode == EF__WATERMARK_ORDERED) {
            step.kind = EF__STEP_HOLE;
            return step;
        }
    }
    if (seq == mark.expected_next_seq)
        step.mark.expected_next_seq = seq + 1;
    if (!noted) {
        step.kind = EF__STEP_APPLY;
        step.mark.applied_seq = higher(mark.applied_seq, seq);
    }
    return step;
}

ef__gap ef__gap_find(const ef__stream_mark *mark, int64_t head_seq, bool queued)
{
    ef__stream_mark at = EF__WATERMARK_INIT;

    if (mark != NULL)
        at = *mark;

    /* The journal lost events, or these views belong to another journal. First of all, because
     * replaying would hide it: new events would take the lost seqs and pass as duplicates. */
    if (at.applied_seq > head_seq)
        return (ef__gap){EF__GAP_AHEAD, head_seq + 1, at.applied_seq};
    /* Also when the outbox still has it: something was taken out of turn, which must be known. */
    if (at.expected_next_seq <= at.applied_seq)
        return (ef__gap){EF__GAP_MID_STREAM, at.expected_next_seq, head_seq};
    if (head_seq > at.applied_seq && !queued)
        return (ef__gap){EF__GAP_TRAILING, at.expected_next_seq, head_seq};
    return (ef__gap){EF__GAP_NONE, 0, 0};
}
