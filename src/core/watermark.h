/*
 * watermark.h - the position of a projection in a stream, and what to do with an event.
 *
 * `applied_seq` is the highest seq that was applied, ignored or skipped; `expected_next_seq` is the
 * seq that is processed next. An ignored or skipped event moves the watermark like an applied one.
 *
 *     following: expected_next_seq = applied_seq + 1 (or both 0: nothing was applied yet)
 *         │  the journal lost an applied event, and another event came under its seq
 *         ▼
 *     blocked: 0 < expected_next_seq <= applied_seq; expected_next_seq is the seq of that event
 *         │  the journal has the applied event again, or an operator skipped each such event
 *         ▼
 *     following
 *
 * applied_seq never decreases.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct ef__watermark_seqs {
    int64_t applied_seq;
    int64_t expected_next_seq;
} ef__watermark_seqs;

static inline bool ef__watermark_seqs_are_blocked(int64_t applied_seq, int64_t expected_next_seq)
{
    return applied_seq > 0 && expected_next_seq <= applied_seq;
}

typedef enum ef__watermark_action {
    EF__WATERMARK_FOLD, /* fold it; unless the fold fails, store the watermark with the views */
    EF__WATERMARK_DUPLICATE, /* drop it, and store the watermark if it changed */
    EF__WATERMARK_DEFER,     /* an earlier event of the stream comes first */
    EF__WATERMARK_COMPARE,   /* read whether the journal still has the applied event, then decide */
    EF__WATERMARK_ALARM      /* another event than the applied one: fail it, store the watermark */
} ef__watermark_action;

/* Does the journal still have the event at applied_seq, by its hash? */
typedef enum ef__watermark_history {
    EF__HISTORY_UNREAD,
    EF__HISTORY_SAME,
    EF__HISTORY_DIFFERENT
} ef__watermark_history;

/* An event, seen from the watermark of its stream. */
typedef struct ef__watermark_event {
    int64_t seq;                   /* another one than 1 … 2^63 - 2 is deferred */
    bool is_sparse;                /* the journal has streams with holes between seqs */
    ef__watermark_history history; /* matters at or below applied_seq only */
    bool is_skipped;               /* by an operator; read with EF__HISTORY_DIFFERENT only */
} ef__watermark_event;

typedef struct ef__watermark_step {
    ef__watermark_action action;
    ef__watermark_seqs after; /* equal to the input for DEFER and COMPARE */
} ef__watermark_step;

ef__watermark_step ef__watermark_decide(ef__watermark_seqs seqs, const ef__watermark_event *event);

typedef enum ef__gap_kind {
    EF__GAP_NONE,
    EF__GAP_TRAILING, /* the newest events were not applied, and no outbox row will bring them */
    EF__GAP_AHEAD     /* more was applied than the journal has: an alarm, nothing to replay */
} ef__gap_kind;

typedef struct ef__gap {
    ef__gap_kind kind;
    int64_t from_seq; /* inclusive; AHEAD: the events that the journal lacks; 0 on NONE */
    int64_t to_seq;
} ef__gap;

/*
 * Compares a watermark with the last seq of the stream in the journal (0: no event). `is_queued`:
 * the outbox still has the event after applied_seq, so the difference is lag and no gap.
 */
ef__gap ef__gap_find(int64_t applied_seq, int64_t head_seq, bool is_queued);
