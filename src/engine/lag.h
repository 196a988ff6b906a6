/*
 * lag.h - the position of a generation, and the events that it lacks.
 *
 * A generation of a stream-ordered projection has every event up to a position except for rows of
 * its own lane that its watermarks do not cover. Rows that they do cover exist for another
 * generation and do not count. A stream whose first row is failed or dead is blocked: it continues
 * when the row is retried with success, requeued or skipped. All other rows proceed without an
 * operator.
 *
 * Missing events are counted by stream: the cost grows with the number of failed streams, and by at
 * most one index entry per row that is blocked behind them.
 */
#pragma once

#include "engine_priv.h"

#include "../journal/journal.h"

typedef struct ef__lag {
    int64_t delivered; /* every event up to here was delivered to the generation */
    int64_t as_of;     /* the generation has every event up to here */
    /* Lowest position of a retry row that it lacks and that is not blocked; INT64_MAX: none. */
    int64_t proceeds_from;
    int64_t proceeding; /* number of such rows; only with `counts` */
    /* Streams; tenants of a log-ordered generation. */
    int64_t blocked_streams;
    int64_t dead_streams; /* those of them that are blocked by a dead row */
    int64_t blocked;      /* their events; only with `counts` */
    int64_t blocked_from; /* lowest position of these; 0: none */
} ef__lag;

/*
 * ef__engine_as_of in two parts. `send` does not wait for the store, if it is behind a network and
 * can do so; `receive` has to follow, also without a generation (NULL).
 */
void *ef__as_of_send(ef_engine *engine, ef_str name, const ef_str *tenant);
ef_status ef__as_of_receive(ef_engine *engine, void *sent, ef_str name,
                            const ef__generation *generation, const ef_str *tenant, int64_t *out,
                            ef_error *err);

/* `tenant` NULL: of all. `counts`: also `proceeding` and `blocked`. */
ef_status ef__lag_read(ef_engine *engine, const ef__generation *generation, const ef_str *tenant,
                       bool counts, ef__lag *out, ef_error *err);

/* Does the generation lack a row of this stream? The caller reads the row first, then `delivered`,
 * then the watermark: views are committed before rows are written, and rows are written before the
 * queue acknowledges. */
static inline bool ef__lag_lacks(const ef__retry_stream *stream, int64_t delivered,
                                 const ef__watermark *watermark)
{
    return stream->position <= delivered &&
           (watermark->expected_next_seq ? watermark->expected_next_seq : 1) <= stream->last_seq;
}

static inline bool ef__retry_stream_blocked(const ef__retry_stream *stream)
{
    return stream->status == EF_ROW_FAILED || stream->status == EF_ROW_DEAD;
}

/* Every event up to here was applied, ignored or skipped, or is blocked. */
static inline int64_t ef__lag_reached(const ef__lag *lag)
{
    return lag->proceeds_from <= lag->delivered ? lag->proceeds_from - 1 : lag->delivered;
}

/* The watermarks of `count` streams, in one call if the store supports it. */
ef_status ef__watermarks_read(ef_views *views, int64_t generation, const ef__view_key *keys,
                              size_t count, ef__watermark *out, ef_error *err);

/* The first row of the apply lane or of a projection's lane at or after a position; position 0:
 * none, also in a lane that was never created. Its texts are not set. */
ef_status ef__lane_first_row(ef_engine *engine, ef_str lane, int64_t from, ef_row *out,
                             ef_error *err);
/* The position of the first event of a stream from `seq` on; 0: none. */
ef_status ef__stream_position(ef_engine *engine, ef_str tenant, ef_str stream, int64_t seq,
                              int64_t *out, ef_error *err);

/* The number of queued rows that the generation lacks. A row whose event an inline append has
 * applied stays queued until a worker acknowledges it; such rows exist when there are more queued
 * rows than events that are not applied. */
int64_t ef__lag_queued_open(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued);
/* journal head - (applied + ignored + skipped + lacking + queued). `lag` is read with counts,
 * `queued` is the number of rows of "*". Not 0: a gap, or a concurrent change. */
int64_t ef__lag_unaccounted(const ef__generation *generation, const ef__lag *lag, int64_t head,
                            int64_t queued);
/* The number of rows of "*" that are not acknowledged. */
ef_status ef__lag_queued(ef_engine *engine, int64_t *out, ef_error *err);
