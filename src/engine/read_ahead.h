/*
 * read_ahead.h - reads the next batch of a long catch-up in a thread while the current one is
 * folded.
 *
 * The thread lives for one read, uses the journal only, and is started only if a full batch is
 * known to follow. Once the batch size is stable, the thread reads until its batch is wanted, so
 * that neither side waits: the batch has the events read by then, and at least half of the limit.
 */
#ifndef EF_ENGINE_READ_AHEAD_H
#define EF_ENGINE_READ_AHEAD_H

#include <everfold/journal.h>

#include <pthread.h>
#include <stdatomic.h>

#define EF__READER_MAX 300 /* projection name and a number */

typedef struct ef__read_ahead {
    ef_journal *journal;
    pthread_t thread;
    size_t limit; /* events of the next read; lower for large events; 0 before the first read */
    size_t limit_max;
    bool is_stable;              /* the last batch did not raise the limit */
    size_t most;                 /* set by the caller: maximum for pacing; 0: none */
    char reader[EF__READER_MAX]; /* set by the caller: reader name for the journal */
    atomic_bool wanted;          /* the caller waits for the batch */
    bool running;  /* the thread must be joined; until then the following members belong to it */
    int64_t epoch; /* connection epoch of the journal at the start */
    int64_t after, reached;
    size_t asked, least; /* events of the read: maximum, and minimum once they are wanted */
    ef_batch batch;
    ef_status st;
    ef_error err;
    ef_batch spare; /* empty: memory for the next read; belongs to the caller's thread */
} ef__read_ahead;

/* Starts to read the events after `after`. Without a thread, ef__read_ahead_read reads them. */
void ef__read_ahead_start(ef__read_ahead *ahead, ef_journal *journal, int64_t after);
/* Returns the events after `after` and the position up to which the journal was read. `out` is
 * empty on entry, and owned by the caller. */
ef_status ef__read_ahead_read(ef__read_ahead *ahead, ef_journal *journal, int64_t after,
                              ef_batch *out, int64_t *out_reached, ef_error *err);
/* Ends the use of a batch. While another one is being read, its memory is kept for the next read.
 */
void ef__read_ahead_recycle(ef__read_ahead *ahead, ef_batch *batch);
/* Joins the thread and drops what it has read. Accepts a zeroed struct. */
void ef__read_ahead_release(ef__read_ahead *ahead);

#endif
