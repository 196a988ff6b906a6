/*
 * watermark.h - how far a projection is in a stream, and what is missing.
 *
 * `expected_next_seq` is the first seq that was not taken yet, `applied_seq` the highest that was.
 * Without a hole expected_next_seq is applied_seq + 1; with one it stands at the hole, at or below
 * applied_seq. Neither ever goes back.
 *
 * An event that is ignored (filtered, no handler) or skipped by an operator moves the watermark
 * just as an applied one does, so that only an event that never came is a gap.
 */
#ifndef EF_CORE_WATERMARK_H
#define EF_CORE_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ef__stream_mark {
    int64_t applied_seq;
    int64_t expected_next_seq;
} ef__stream_mark;

#define EF__WATERMARK_INIT                                                                         \
    {                                                                                              \
        0, 1                                                                                       \
    } /* nothing taken yet */

typedef enum ef__watermark_mode {
    EF__WATERMARK_ORDERED, /* drivers: a seq above the expected one is refused */
    EF__WATERMARK_REPAIR /* a repair that has to go on above a hole: it is taken, the hole stays */
} ef__watermark_mode;

typedef enum ef__step_kind {
    EF__STEP_APPLY,     /* take it and store the watermark with it, in one transaction */
    EF__STEP_DUPLICATE, /* taken before: do nothing, but store the watermark when it moved */
    EF__STEP_HOLE,      /* refused: hole_first … hole_last have to come first */
    EF__STEP_NO_SEQ     /* refused: not a seq (they start at 1) */
} ef__step_kind;

typedef struct ef__step {
    ef__step_kind kind;
    ef__stream_mark mark; /* to store on APPLY and DUPLICATE; as it was otherwise */
    int64_t hole_first;   /* set on HOLE, and on APPLY above a hole; 0 otherwise */
    int64_t hole_last;
} ef__step;

/*
 * What to do with the event `seq` of the stream.
 *
 * Two numbers cannot tell which seqs between a hole and applied_seq were taken. Whoever repairs
 * notes those it takes above the hole, and `noted` says that `seq` is one of them: it is then a
 * duplicate, and the watermark closes over it when its turn comes. Without holes it is false.
 */
ef__step ef__watermark_step(ef__stream_mark mark, int64_t seq, ef__watermark_mode mode, bool noted);

typedef enum ef__gap_kind {
    EF__GAP_NONE,
    EF__GAP_TRAILING,   /* the newest events were not taken, and no outbox row will bring them */
    EF__GAP_MID_STREAM, /* a hole below what was taken */
    EF__GAP_AHEAD       /* more was taken than the journal has: an alarm, nothing to replay */
} ef__gap_kind;

typedef struct ef__gap {
    ef__gap_kind kind;
    int64_t
        from_seq; /* replay these, both ends included; AHEAD: what the journal lacks; 0 on NONE */
    int64_t to_seq;
} ef__gap;

/*
 * Compare a watermark (NULL: there is none) with the stream's last seq in the journal (0: there is
 * no event). `queued` says that the outbox still holds the event at expected_next_seq: then what is
 * missing at the end is lag, and will come by itself.
 */
ef__gap ef__gap_find(const ef__stream_mark *mark, int64_t head_seq, bool queued);

#endif
