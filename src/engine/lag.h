/*
 * lag.h - how far a generation is, and what it lacks.
 *
 * A generation of a projection in the order of streams has every event up to a position but for
 * those of its own lane that its watermarks do not cover. Rows of the lane that they do cover are
 * there for another generation, and do not count. A stream whose first row has failed or is dead is
 * blocked: it goes on when the row is retried with success, requeued or skipped. All other rows
 * proceed by themselves.
 *
 * What is lacked is counted by stream, so that the cost grows with the streams that failed and at
 * most by an index entry with each row that waits behind them.
 */
#ifndef EF_ENGINE_LAG_H
#define EF_ENGINE_LAG_H

#include "engine_priv.h"

#include "../journal/journal.h"

typedef struct ef__lag {
    int64_t taken; /* every event up to here was given to the generation */
    int64_t as_of; /* the generation has every event up to here, without exception */
    /* Lowest position of a retry row that it lacks and that is not blocked; INT64_MAX: none. */
    int64_t proceeds_from;
    int64_t proceeding; /* such rows; counted on request */
    /* Streams; tenants in the order of the log. */
    int64_t blocked_streams;
    int64_t dead_streams; /* those of them that are behind a dead row */
    int64_t blocked;      /* events of these; counted on request */
    int64_t blocked_from; /* position of the oldest of these; 0: none */
} ef__lag;

/* `tenant` NULL: of all. `counts`: also `proceeding` and `blocked`. */
ef_status ef__lag_read(ef_engine *engine, const ef__generation *generation, const ef_str *tenant,
                       bool counts, ef__lag *out, ef_error *err);

/* Does the generation lack a row of this stream? `mark` is read after `taken`, and that after the
 * row: rows are written after the views have changed, and leave the queue after that. */
static inline bool ef__lag_lacks(const ef__retry_stream *stream, int64_t taken,
                                 const ef__watermark *mark)
{
    return stream->position <= taken &&
           (mark->expected_next_seq ? mark->expected_next_seq : 1) <= stream->last_seq;
}

static inline bool ef__retry_stream_blocked(const ef__retry_stream *stream)
{
    return stream->status == EF_ROW_FAILED || stream->status == EF_ROW_DEAD;
}

/* Every event up to here was passed, or is blocked. */
static inline int64_t ef__lag_reached(const ef__lag *lag)
{
    return lag->proceeds_from <= lag->taken ? lag->proceeds_from - 1 : lag->taken;
}

/* The watermarks of `count` streams, at once where the store can. */
ef_status ef__watermarks_read(ef_views *views, int64_t generation, const ef__view_key *keys,
                              size_t count, ef__watermark *out, ef_error *err);

/* Events that a generation has passed for good. */
static inline int64_t ef__generation_done(const ef__generation *g)
{
    return g->applied + g->ignored + g->skipped;
}

/* How many of the queued rows the generation lacks. A row whose event an inline append has folded
 * stays queued until a worker passes it; such rows are among them when there are more rows than
 * events that are not done. */
int64_t ef__lag_queued_open(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued);
/* Events that a generation has passed, lacks or is yet to be given, beside the journal's head:
 * `lag` is read with counts, `queued` are the rows of "*". 0 unless something is wrong, or moves.
 */
int64_t ef__lag_unaccounted(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued);
/* Rows of "*" that are not acknowledged. */
ef_status ef__lag_queued(ef_engine *engine, int64_t *out, ef_error *err);

#endif
