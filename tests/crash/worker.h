/*
 * worker.h - shared by the files of the crash tests' worker: its journal, its ledger, its events.
 *
 * The ledger is a file of lines, each written by one write() to a descriptor opened O_APPEND, so it
 * survives SIGKILL of the worker. A line is written when a call of the library has returned and
 * before the next one: everything in it was acknowledged.
 *
 *     a SEED I SEQ POSITION DUPLICATE   event I of SEED was appended
 *     e CODE                            a call failed with that status
 *     t POSITION PARTITION TOKEN        a row was claimed
 *     m PARTITION UPTO                  an offset was moved
 *     x POSITION STATUS                 a retry row was written
 *     q POSITION                        a dead row was requeued
 *     s POSITION                        a dead row was skipped
 *     w CLAIMED APPLIED IGNORED FAILED  a tick of the engine ended
 */
#ifndef EF_TESTS_CRASH_WORKER_H
#define EF_TESTS_CRASH_WORKER_H

#include "../../src/journal/journal.h"

#include <everfold/everfold.h>

#define EXIT_BROKEN 99 /* a promise was broken, or the test itself cannot work */
#define WORKER_NAME "crash worker"
#define BATCH_MAX 1000
#define DATA_MAX 8192

struct worker {
    const char *database; /* path; the views are in views.db beside it */
    ef_journal *journal;
    int ledger; /* descriptor */
    ef_error err;
};

/* The machine's clock and what the worker has added to it: waiting for a retry costs no time. */
extern const ef_clock worker_clock;
void pass_time(int64_t us);

/* The numbers after the verb. */
struct numbers {
    int64_t at[8];
    int count;
};

/* An engine on the journal and the views beside it. No other process may use the name at the same
 * time; the next one that does takes over the leases of that name at once. */
ef_status open_engine(struct worker *w, const char *name, ef_engine **out);

/* A line, or several, to the ledger. Ends the process when that fails: a test without its ledger
 * proves nothing. */
void note(struct worker *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_bytes(struct worker *w, const char *bytes, size_t count);
/* Note a failure, say it on stdout, and give the exit code. */
int report(struct worker *w, ef_status st);

/* Event `i` of `seed`, a pure function that oracle.py knows too. The texts live in `room`. */
struct event_room {
    char stream[32], type[16], id[48], meta[48], data[DATA_MAX];
};
void make_event(int64_t seed, int64_t i, int64_t streams, int64_t pad, struct event_room *room,
                ef_new_event *out);

/* BATCH_MAX events of a seed, and their places. */
struct batch;
struct batch *batch_new(int64_t streams, int64_t seed, int64_t pad);
void batch_free(struct batch *batch);
/* Append events first … first + count - 1; what may be repeated is, with the same ids. */
ef_status append_batch(struct worker *w, struct batch *batch, int64_t first, int64_t count,
                       ef_error *err);

/* The verbs. Each gives an exit code. */
int verb_append(struct worker *w, const struct numbers *n);  /* N STREAMS BATCH SEED PAD */
int verb_hammer(struct worker *w, const struct numbers *n);  /* MS STREAMS BATCH SEED THREADS */
int verb_follow(struct worker *w, const struct numbers *n);  /* MS */
int verb_fill(struct worker *w, const struct numbers *n);    /* STREAMS BATCH SEED PAD */
int verb_open(struct worker *w, const struct numbers *n);    /* nothing: verify */
int verb_dump(struct worker *w, const struct numbers *n);    /* nothing: all events to stdout */
int verb_fork(struct worker *w, const struct numbers *n);    /* nothing */
int verb_take(struct worker *w, const struct numbers *n);    /* BATCHES LIMIT LEASE_MS MS */
int verb_hold(struct worker *w, const struct numbers *n);    /* LIMIT LEASE_MS */
int verb_requeue(struct worker *w, const struct numbers *n); /* LIMIT */
int verb_deploy(struct worker *w, const struct numbers *n);  /* HOW_MANY programs */
int verb_upgrade(struct worker *w, const struct numbers *n); /* nothing: a second version of one */
int verb_migrate(struct worker *w, const struct numbers *n); /* as work: another in place, first */
int verb_work(struct worker *w, const struct numbers *n);    /* TICKS BATCH LEASING */
/* Publishes types 0 and 1 to the address WORKER_SINK; a new file begins after FILE_BYTES. */
int verb_publisher(struct worker *w, const struct numbers *n); /* FILE_BYTES */
int verb_skip(struct worker *w, const struct numbers *n);      /* nothing: every dead row */
int verb_live(struct worker *w, const struct numbers *n);      /* N STREAMS BATCH SEED PAD */
/* Verbs of one projection ask for what was not asked for before, and bring it to its end. */
int verb_rebuild(struct worker *w, const struct numbers *n);  /* PROGRAM IN_PLACE */
int verb_cancel(struct worker *w, const struct numbers *n);   /* PROGRAM: its open run */
int verb_replay(struct worker *w, const struct numbers *n);   /* PROGRAM */
int verb_switch(struct worker *w, const struct numbers *n);   /* PROGRAM VERSION */
int verb_rollback(struct worker *w, const struct numbers *n); /* PROGRAM VERSION it leads to */
int verb_retire(struct worker *w, const struct numbers *n);   /* PROGRAM VERSION */
int verb_seed(struct worker *w, const struct numbers *n);     /* PROGRAM: its views as they are */
/* Runs the drivers until SIGTERM or the time limit; then reports the work that was done. */
int verb_serve(struct worker *w, const struct numbers *n); /* LEASE_MS HEARTBEAT_MS MS */
/* Read the views of a program again and again: none is ever missing or smaller than it was. */
int verb_read(struct worker *w, const struct numbers *n); /* PROGRAM MS */

extern const char *const program_names[];

#endif
