#include "watermark.h"

/* An event at or below applied_seq: a duplicate, unless the journal lost the applied one. */
static ef__watermark_step decide_again(ef__watermark_seqs seqs, const ef__watermark_event *event)
{
    bool is_blocked = ef__watermark_seqs_are_blocked(seqs.applied_seq, seqs.expected_next_seq);
    ef__watermark_step step = {EF__WATERMARK_DUPLICATE, seqs};

    if (is_blocked && event->seq < seqs.expected_next_seq)
        return step; /* before the alarm, or an operator has skipped it since */
    switch (event->history) {
    case EF__HISTORY_UNREAD:
        step.action = EF__WATERMARK_COMPARE;
        break;
    case EF__HISTORY_SAME: /* a restored journal ends the block */
        step.after.expected_next_seq = seqs.applied_seq + 1;
        break;
    case EF__HISTORY_DIFFERENT:
        if (is_blocked && event->seq > seqs.expected_next_seq) {
            step.action = EF__WATERMARK_DEFER;
        } else if (event->is_skipped) { /* the operator lets it stand for the applied event */
            step.after.expected_next_seq = event->seq + 1;
        } else {
            step.action = EF__WATERMARK_ALARM;
            step.after.expected_next_seq = event->seq;
        }
        break;
    }
    return step;
}

ef__watermark_step ef__watermark_decide(ef__watermark_seqs seqs, const ef__watermark_event *event)
{
    ef__watermark_step step = {EF__WATERMARK_DEFER, seqs};

    if (event->seq < 1 || event->seq == INT64_MAX)
        return step; /* not a seq: never folded */
    if (event->seq <= seqs.applied_seq)
        return decide_again(seqs, event);
    if (ef__watermark_seqs_are_blocked(seqs.applied_seq, seqs.expected_next_seq) ||
        (event->seq != seqs.applied_seq + 1 && !event->is_sparse))
        return step;
    step.action = EF__WATERMARK_FOLD;
    step.after = (ef__watermark_seqs){event->seq, event->seq + 1};
    return step;
}

ef__gap ef__gap_find(int64_t applied_seq, int64_t head_seq, bool is_queued)
{
    /* The journal lost events, or these views belong to another journal. */
    if (applied_seq > head_seq)
        return (ef__gap){EF__GAP_AHEAD, head_seq + 1, applied_seq};
    if (head_seq > applied_seq && !is_queued)
        return (ef__gap){EF__GAP_TRAILING, applied_seq + 1, head_seq};
    return (ef__gap){EF__GAP_NONE, 0, 0};
}
