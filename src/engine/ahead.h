/*
 * ahead.h - the next batch of a long catch-up, read by a thread while this one is folded.
 *
 * It lives for one read, touches nothing but the journal, and is only started where a whole batch
 * is known to lie ahead. Once batches have grown to what they may have, it reads until its batch is
 * wanted, so that neither waits for the other: what is there by then is the batch, if it is half of
 * that at least.
 */
#ifndef EF_ENGINE_AHEAD_H
#define EF_ENGINE_AHEAD_H

#include <everfold/journal.h>

#include <pthread.h>
#include <stdatomic.h>

#define EF__READER_MAX 300 /* the name of a projection, and a number */

typedef struct ef__ahead {
    ef_journal *journal;
    pthread_t thread;
    size_t limit; /* events of the next read: fewer where they are large; 0 at first */
    size_t limit_max;
    bool steady;                 /* the last batch did not make the limit grow */
    size_t most;                 /* the caller's: no more than these; 0: as many as fit */
    char reader[EF__READER_MAX]; /* the caller's: who reads, for the journal */
    atomic_bool wanted;          /* the caller waits for the batch */
    bool running;    /* there is a thread to be joined; what follows is its own until then */
    int64_t comings; /* of the journal, when it began */
    int64_t after, reached;
    size_t asked, least; /* events of the read: at the most, and when they are waited for */
    ef_batch batch;
    ef_status st;
    ef_error err;
    ef_batch spare; /* empty: memory for the next read, and the caller's thread's */
} ef__ahead;

/* Begin to read what lies behind `after`. Where no thread can be had, ef__ahead_take reads. */
void ef__ahead_start(ef__ahead *ahead, ef_journal *journal, int64_t after);
/* The events behind `after`, and the position up to which they were looked for: as read ahead, or
 * read now. `out` is empty when this is called, and the caller's. */
ef_status ef__ahead_take(ef__ahead *ahead, ef_journal *journal, int64_t after, ef_batch *out,
                         int64_t *out_reached, ef_error *err);
/* The batch that was taken is done with, and emptied. Where another one is being read, its memory
 * is kept for the one behind that. */
void ef__ahead_done(ef__ahead *ahead, ef_batch *batch);
/* Join the thread and drop what it has read; also one that is zeroed. */
void ef__ahead_release(ef__ahead *ahead);

#endif
